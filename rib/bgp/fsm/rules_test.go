package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// upTo is what we send until a session is up, after the OPEN.
func upTo(families ...[]byte) []byte {
	return append(slices.Clone(keepalive), slices.Concat(families...)...)
}

// TestRules says bytes and expects bytes, rule by rule. What we send after our OPEN has to be
// exactly want; then the peer closes where nothing of it is a NOTIFICATION.
func TestRules(t *testing.T) {
	all := [][]byte{opening(90, as4(peerAS), mp4, mp6, refreshes, long, restart4), keepalive}
	up := slices.Concat(all...)
	established := upTo(eor4, eor6)
	role := func(r Role, strict bool) func(*Local) {
		return func(l *Local) { l.Role, l.StrictRole = r, strict }
	}
	longMessages := func(l *Local) { l.ExtendedMessages = true }
	internal := func(l *Local) { l.PeerAS = ownAS }
	as := func(as uint32) func(*Local) { return func(l *Local) { l.PeerAS = as } }
	longUpdate := frame(2, slices.Concat([]byte{0x13, 0x88}, make([]byte, 5000), []byte{0, 0})...)
	longest := frame(2, make([]byte, 65535-19)...)
	extended := func(length uint16, list ...byte) []byte { // RFC 9072
		b := append([]byte{4, peerAS >> 8, peerAS & 0xff, 0, 90, 192, 0, 2, 1, 255, 255, byte(length >> 8), byte(length)}, list...)
		return frame(1, b...)
	}
	many := bytes.Repeat([]byte{200, 0}, 200)

	for _, c := range []struct {
		rule   string
		change func(*Local)
		say    []byte
		want   []byte
		told   string // by the handler, beyond "opened, established"
	}{
		// RFC 4271, 6.1: headers.
		{"RFC 4271, 6.1: marker", nil, []byte("GET / HTTP/1.1\r\nHost: example.net\r\n"), notification(1, 1), "-"},
		{"RFC 4271, 6.1: last byte of the marker", nil, slices.Concat(bytes.Repeat([]byte{0xff}, 15), []byte{0, 0, 19, 4}), notification(1, 1), "-"},
		{"RFC 4271, 6.1: length below that of a header", nil, sized(18, 4), notification(1, 2, 0, 18), "-"},
		{"RFC 4271, 6.1: length of 0", nil, sized(0, 2), notification(1, 2, 0, 0), "-"},
		{"RFC 4271, 6.1: length above 4096", nil, sized(4097, 2), notification(1, 2, 0x10, 1), "-"},
		{"RFC 4271, 6.1: OPEN below 29", nil, sized(28, 1), notification(1, 2, 0, 28), "-"},
		{"RFC 4271, 6.1: UPDATE below 23", nil, slices.Concat(up, sized(22, 2)), slices.Concat(established, notification(1, 2, 0, 22)), ""},
		{"RFC 4271, 6.1: KEEPALIVE above 19", nil, slices.Concat(up, sized(20, 4)), slices.Concat(established, notification(1, 2, 0, 20)), ""},
		{"RFC 4271, 6.1: NOTIFICATION below 21", nil, slices.Concat(up, sized(20, 3)), slices.Concat(established, notification(1, 2, 0, 20)), ""},
		{"RFC 4271, 6.1: ROUTE-REFRESH without subtype", nil, slices.Concat(up, sized(21, 5)), slices.Concat(established, notification(1, 2, 0, 21)), ""},
		{"RFC 4271, 6.1: type 0", nil, sized(19, 0), notification(1, 3, 0), "-"},
		{"RFC 4271, 6.1: type 6", nil, slices.Concat(up, sized(19, 6)), slices.Concat(established, notification(1, 3, 6)), ""},
		{"RFC 4271, 6.1: type 255", nil, slices.Concat(up, sized(4096, 255)), slices.Concat(established, notification(1, 3, 255)), ""},
		{"RFC 4271, 6.1: length comes before type", nil, sized(4097, 255), notification(1, 2, 0x10, 1), "-"},

		// RFC 8654: long messages.
		{"RFC 8654, 4: both sides have it", longMessages, slices.Concat(up, longUpdate), established, fmt.Sprintf("update %x", longUpdate[19:])},
		{"RFC 8654, 4: of 65535 bytes", longMessages, slices.Concat(up, longest), established, fmt.Sprintf("update %x", longest[19:])},
		{"RFC 8654, 4: we do not have it", nil, slices.Concat(up, longUpdate), slices.Concat(established, notification(1, 2, longUpdate[16:18]...)), ""},
		{"RFC 8654, 4: the peer does not have it", longMessages, slices.Concat(opening(90, mp4), keepalive, longUpdate), slices.Concat(upTo(eor4), notification(1, 2, longUpdate[16:18]...)), ""},
		{"RFC 8654, 4: not for OPEN", longMessages, sized(4097, 1), notification(1, 2, 0x10, 1), "-"},
		{"RFC 8654, 4: not for a second OPEN", longMessages, slices.Concat(up, sized(4097, 1)), slices.Concat(established, notification(1, 2, 0x10, 1)), ""},
		{"RFC 8654, 4: not for KEEPALIVE", longMessages, slices.Concat(up, sized(4097, 4)), slices.Concat(established, notification(1, 2, 0x10, 1)), ""},
		{"RFC 8654, 4: not before the OPEN", longMessages, sized(4097, 2), notification(1, 2, 0x10, 1), "-"},

		// RFC 4271, 6.2: OPEN.
		{"RFC 4271, 6.2: version 3", nil, frame(1, append([]byte{3}, opening(90)[20:]...)...), notification(2, 1, 0, 4), "-"},
		{"RFC 4271, 6.2: version 5 before all else", nil, frame(1, 5, 0, 0, 0, 1, 0, 0, 0, 0, 9), notification(2, 1, 0, 4), "-"},
		{"RFC 4271, 6.2: peer AS", nil, openWith(64501, 90), notification(2, 2), "-"},
		{"RFC 6793, 4.1: peer AS of 4 bytes", nil, openWith(asTrans, 90, append([]byte{2, 6}, as4(400000)...)...), notification(2, 2), "-"},
		{"RFC 6793, 4.2.2: AS_TRANS stands for no other AS", as(400000), openWith(asTrans, 90), notification(2, 2), "-"},
		{"RFC 6793, 4.1: the capability counts", as(400000), slices.Concat(openWith(asTrans, 90, append([]byte{2, 6}, as4(400000)...)...), keepalive), upTo(eor4), ""},
		{"RFC 7607, 2: AS 0", as(0), openWith(0, 90), notification(2, 2), "-"},
		{"RFC 6286, 2.2: identifier of 0", nil, frame(1, 4, peerAS>>8, peerAS&0xff, 0, 90, 0, 0, 0, 0, 0), notification(2, 3), "-"},
		{"RFC 6286, 2.2: any identifier but 0", nil, slices.Concat(frame(1, 4, peerAS>>8, peerAS&0xff, 0, 90, 0, 0, 0, 1, 0), keepalive), upTo(eor4), ""},
		{"RFC 6286, 2.2: our identifier from an internal peer", internal, frame(1, 4, ownAS>>8, ownAS&0xff, 0, 90, 192, 0, 2, 99, 0), notification(2, 3), "-"},
		{"RFC 6286, 2.2: our identifier from an external peer", nil, slices.Concat(frame(1, 4, peerAS>>8, peerAS&0xff, 0, 90, 192, 0, 2, 99, 0), keepalive), upTo(eor4), ""},
		{"RFC 4271, 6.2: unknown parameter", nil, openWith(peerAS, 90, 1, 2, 0, 0), notification(2, 4), "-"},
		{"RFC 4271, 6.2: parameters longer than the message", nil, frame(1, append(opening(90)[19:28], 9)...), notification(2, 0), "-"},
		{"RFC 4271, 6.2: parameters shorter than the message", nil, frame(1, append(slices.Clone(opening(90)[19:]), 2, 0)...), notification(2, 0), "-"},
		{"RFC 4271, 6.2: half a header of a parameter", nil, openWith(peerAS, 90, 2), notification(2, 0), "-"},
		{"RFC 4271, 6.2: half a parameter", nil, openWith(peerAS, 90, 2, 7, 1, 4, 0, 1, 0, 1), notification(2, 0), "-"},
		{"RFC 4271, 6.2: parameter of 255 bytes at the edge of the codec's arithmetic", nil, openWith(peerAS, 90, 2, 255, 1, 4), notification(2, 0), "-"},
		{"RFC 4271, 6.2: hold time of 1 s", nil, opening(1), notification(2, 6), "-"},
		{"RFC 4271, 6.2: hold time of 2 s", nil, opening(2), notification(2, 6), "-"},
		{"RFC 4271, 6.2: hold time of 3 s", nil, slices.Concat(opening(3), keepalive), upTo(eor4), ""},
		{"RFC 4271, 4.2: no hold time", nil, slices.Concat(opening(0), keepalive), upTo(eor4), ""},

		// RFC 5492: capabilities.
		{"RFC 5492, 4: half a capability", nil, openWith(peerAS, 90, 2, 5, 1, 4, 0, 1, 0), notification(2, 0), "-"},
		{"RFC 5492, 4: capability beyond its parameter", nil, openWith(peerAS, 90, 2, 2, 1, 4, 2, 4, 0, 1, 0, 1), notification(2, 0), "-"},
		{"RFC 5492, 4: several parameters", nil, slices.Concat(openWith(peerAS, 90, slices.Concat([]byte{2, 6}, mp4, []byte{2, 0}, []byte{2, 6}, mp6)...), keepalive), established, ""},
		{"RFC 5492, 3: unknown capabilities", nil, slices.Concat(opening(90, []byte{200, 3, 1, 2, 3}, mp4, []byte{0, 0}), keepalive), upTo(eor4), ""},
		{"RFC 5492, 3: damage in those that we do not use", nil, slices.Concat(opening(90, []byte{73, 1, 200}, []byte{75, 1, 9}, mp4), keepalive), upTo(eor4), ""},
		{"RFC 5492, 5: no family of ours", func(l *Local) { l.IPv4 = false }, opening(90, mp4), notification(2, 7, mp6...), "-"},
		{"RFC 5492, 5: none at all", nil, opening(90, []byte{1, 4, 0, 25, 0, 70}), notification(2, 7, append(slices.Clone(mp4), mp6...)...), "-"},
		{"RFC 4760, 8: IPv4 alone without the capability", nil, slices.Concat(opening(90), keepalive), upTo(eor4), ""},
		{"RFC 4760, 8: IPv6 alone", nil, slices.Concat(opening(90, mp6), keepalive), upTo(eor6), ""},
		{"RFC 4271, 6.2: multiprotocol of 3 bytes", nil, opening(90, []byte{1, 3, 0, 1, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: AS number of 5 bytes", nil, opening(90, []byte{65, 5, 0, 0, 0, 0, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: graceful restart of 1 byte", nil, opening(90, []byte{64, 1, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: ADD-PATH of 5 bytes", nil, opening(90, []byte{69, 5, 0, 1, 1, 3, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: long-lived restart of 6 bytes", nil, opening(90, []byte{71, 6, 0, 1, 1, 0, 0, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: extended next hop of 5 bytes", nil, opening(90, []byte{5, 5, 0, 1, 0, 1, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: role of 2 bytes", nil, opening(90, []byte{9, 2, 0, 0}), notification(2, 0), "-"},
		{"RFC 4271, 6.2: role without value", nil, opening(90, []byte{9, 0}), notification(2, 0), "-"},

		// RFC 9072: long parameters.
		{"RFC 9072, 2: parameters of 400 bytes", nil, slices.Concat(extended(403, slices.Concat([]byte{2, 1, 0x90}, many)...), keepalive), upTo(eor4), ""},
		{"RFC 9072, 2: no parameters, and yet some", nil, frame(1, append(slices.Clone(opening(90)[19:]), 255, 0, 0)...), notification(2, 0), "-"},
		{"RFC 9072, 2: length beyond the message", nil, extended(404, slices.Concat([]byte{2, 1, 0x90}, many)...), notification(2, 0), "-"},
		{"RFC 9072, 2: parameter beyond the list", nil, extended(3, 2, 0, 1), notification(2, 0), "-"},
		{"RFC 9072, 2: half a header of a parameter", nil, extended(2, 2, 0), notification(2, 0), "-"},

		// RFC 9234: roles.
		{"RFC 9234, 4.2: the counterpart", role(RoleCustomer, true), slices.Concat(opening(90, []byte{9, 1, 0}), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: the same role", role(RoleCustomer, false), opening(90, []byte{9, 1, 3}), notification(2, 11), "-"},
		{"RFC 9234, 4.2: peers", role(RolePeer, false), slices.Concat(opening(90, []byte{9, 1, 4}), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: route server and client", role(RoleRS, false), slices.Concat(opening(90, []byte{9, 1, 2}), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: provider and client", role(RoleProvider, false), opening(90, []byte{9, 1, 2}), notification(2, 11), "-"},
		{"RFC 9234, 4.2: a role that there is not", role(RoleProvider, false), opening(90, []byte{9, 1, 5}), notification(2, 11), "-"},
		{"RFC 9234, 4.2: no role", role(RoleProvider, false), slices.Concat(opening(90), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: no role in strict mode", role(RoleProvider, true), opening(90), notification(2, 11), "-"},
		{"RFC 9234, 4.2: one that is not asked for", nil, slices.Concat(opening(90, []byte{9, 1, 3}), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: the same twice", role(RolePeer, false), slices.Concat(opening(90, []byte{9, 1, 4, 9, 1, 4}), keepalive), upTo(eor4), ""},
		{"RFC 9234, 4.2: two", role(RolePeer, false), opening(90, []byte{9, 1, 3, 9, 1, 4}), notification(2, 11), "-"},

		// RFC 6608: messages out of turn.
		{"RFC 6608, 3: UPDATE in OpenSent", nil, withdraw, notification(5, 1, 2), "-"},
		{"RFC 6608, 3: KEEPALIVE in OpenSent", nil, keepalive, notification(5, 1, 4), "-"},
		{"RFC 6608, 3: ROUTE-REFRESH in OpenSent", nil, frame(5, 0, 1, 0, 1), notification(5, 1, 5), "-"},
		{"RFC 6608, 3: OPEN in OpenConfirm", nil, slices.Concat(opening(90), opening(90)), slices.Concat(keepalive, notification(5, 2, 1)), "+"},
		{"RFC 6608, 3: UPDATE in OpenConfirm", nil, slices.Concat(opening(90), withdraw), slices.Concat(keepalive, notification(5, 2, 2)), "+"},
		{"RFC 6608, 3: ROUTE-REFRESH in OpenConfirm", nil, slices.Concat(opening(90), frame(5, 0, 1, 0, 1)), slices.Concat(keepalive, notification(5, 2, 5)), "+"},
		{"RFC 6608, 3: OPEN in Established", nil, slices.Concat(up, opening(90)), slices.Concat(established, notification(5, 3, 1)), ""},

		// NOTIFICATIONs are never answered.
		{"RFC 4271, 6.4: NOTIFICATION in OpenSent", nil, notification(2, 2), nil, "-"},
		{"RFC 4271, 6.4: NOTIFICATION in OpenConfirm", nil, slices.Concat(opening(90), notification(6, 7)), keepalive, "+"},
		{"RFC 4271, 6.4: NOTIFICATION in Established", nil, slices.Concat(up, notification(6, 2)), established, ""},
		{"RFC 4271, 6.4: unknown NOTIFICATION", nil, slices.Concat(up, notification(99, 99, 1, 2, 3)), established, ""},
		{"RFC 4271, 6.4: nothing counts after it", nil, slices.Concat(up, notification(6, 4), withdraw), established, ""},

		// UPDATEs and refresh.
		{"RFC 4271, 4.3: UPDATEs", nil, slices.Concat(up, withdraw, keepalive, eor4), established, "update 0002080a0000, update 00000000"},
		{"RFC 2918, 4: a request, nothing to say", nil, slices.Concat(opening(90, mp4, []byte{2, 0}), keepalive, frame(5, 0, 1, 0, 1)), upTo(eor4), ""},
		{"RFC 2918, 3: the reserved byte means nothing", nil, slices.Concat(opening(90, mp4, []byte{2, 0}), keepalive, frame(5, 0, 1, 1, 1)), upTo(eor4), ""},
		{"RFC 7313, 4: a request has its answer marked", nil, slices.Concat(up, frame(5, 0, 2, 0, 1)), slices.Concat(established, frame(5, 0, 2, 1, 1), frame(5, 0, 2, 2, 1)), ""},
		{"RFC 7313, 4: begin and end of IPv4", nil, slices.Concat(up, frame(5, 0, 1, 1, 1), withdraw, frame(5, 0, 1, 2, 1)), established, "refresh false true, update 0002080a0000, refresh false false"},
		{"RFC 7313, 4: begin and end of IPv6", nil, slices.Concat(up, frame(5, 0, 2, 1, 1), frame(5, 0, 2, 2, 1)), established, "refresh true true, refresh true false"},
		{"RFC 2918, 4: family that is not negotiated", nil, slices.Concat(opening(90, mp4, refreshes), keepalive, frame(5, 0, 2, 1, 1), frame(5, 0, 2, 0, 1)), upTo(eor4), ""},
		{"RFC 2918, 4: family that there is not", nil, slices.Concat(up, frame(5, 1, 1, 1, 1), frame(5, 0, 1, 1, 128), frame(5, 0, 0, 1, 1), frame(5, 0x40, 4, 0, 71)), established, ""},
		{"RFC 7313, 5: unknown subtype", nil, slices.Concat(up, frame(5, 0, 1, 3, 1), frame(5, 0, 1, 255, 1)), established, ""},
		{"RFC 7313, 5: begin of 5 bytes", nil, slices.Concat(up, frame(5, 0, 1, 1, 1, 0)), slices.Concat(established, notification(7, 1, frame(5, 0, 1, 1, 1, 0)...)), ""},
		{"RFC 7313, 5: end of 3 bytes", nil, slices.Concat(up, frame(5, 0, 1, 2)), slices.Concat(established, notification(7, 1, frame(5, 0, 1, 2)...)), ""},
		{"RFC 7313, 5: without the capability there is no such error", nil, slices.Concat(opening(90, mp4, []byte{2, 0}), keepalive, frame(5, 0, 1, 1)), slices.Concat(upTo(eor4), notification(1, 2, 0, 22)), ""},
		{"RFC 7313, 5: begin too long to be sent back whole", nil, slices.Concat(up, frame(5, append([]byte{0, 1, 1}, make([]byte, 4074)...)...)),
			slices.Concat(established, notification(7, 1, frame(5, append([]byte{0, 1, 1}, make([]byte, 4074)...)...)[:4075]...)), ""},
		{"RFC 5291, 4: a request with filters", nil, slices.Concat(up, frame(5, 0, 1, 0, 1, 1, 64, 0, 0)), slices.Concat(established, frame(5, 0, 1, 1, 1), frame(5, 0, 1, 2, 1)), ""},
	} {
		for _, pace := range []string{"messages", "bytes"} {
			t.Run(c.rule+", by "+pace, func(t *testing.T) {
				l := us()
				if c.change != nil {
					c.change(&l)
				}
				converse(t, l, &recorder{}, func(k *talk) {
					synctest.Wait()
					if pace == "messages" {
						before, rest := beforeNotification(c.say)
						k.say(before)
						k.say(rest)
					} else {
						for i := range c.say {
							k.say(c.say[i : i+1])
						}
					}
					_ = k.conn.Close()
					k.over()
					want := "opened, established"
					switch c.told {
					case "":
					case "-":
						want = ""
					case "+":
						want = "opened"
					default:
						want += ", " + c.told
					}
					mustHex(t, "after our OPEN", k.after(), c.want)
					mustBe(t, "handler", k.told(), want)
				})
			})
		}
	}
}

// beforeNotification splits before the first NOTIFICATION: what we have to send is dropped
// when one comes, so the test has to wait for it to be sent.
func beforeNotification(b []byte) (before, rest []byte) {
	all, _ := split(b)
	for _, m := range all {
		if m[18] == 3 {
			break
		}
		before = append(before, m...)
	}
	return before, b[len(before):]
}

func TestOurOpen(t *testing.T) {
	common := slices.Concat(mp4, mp6, []byte{2, 0})
	for _, c := range []struct {
		rule   string
		change func(*Local)
		as     []byte
		hold   byte
		caps   []byte
	}{
		{"RFC 4724, 3: no families, for End-of-RIB", func(*Local) {}, []byte{0xfd, 0xe7}, 90,
			slices.Concat(common, []byte{64, 2, 0x40, 0, 65, 4, 0, 0, 0xfd, 0xe7, 70, 0})},
		{"RFC 6793, 4.2.2: AS_TRANS", func(l *Local) { l.AS, l.HoldTime = 400000, 30*time.Second }, []byte{0x5b, 0xa0}, 30,
			slices.Concat(common, []byte{64, 2, 0x40, 0, 65, 4, 0, 6, 0x1a, 0x80, 70, 0})},
		{"RFC 7911, 4 and RFC 8654, 3 and RFC 8950, 4", func(l *Local) { l.AddPath, l.ExtendedMessages, l.ExtendedNextHop = true, true, true }, []byte{0xfd, 0xe7}, 90,
			slices.Concat(common, []byte{5, 6, 0, 1, 0, 1, 0, 2, 6, 0, 64, 2, 0x40, 0, 65, 4, 0, 0, 0xfd, 0xe7, 69, 8, 0, 1, 1, 1, 0, 2, 1, 1, 70, 0})},
		{"RFC 4724, 3 and RFC 9494, 3.1: families", func(l *Local) { l.RestartTime, l.Restarting, l.LongLived = 5*time.Minute, true, true }, []byte{0xfd, 0xe7}, 90,
			slices.Concat(common, []byte{64, 10, 0xc1, 0x2c, 0, 1, 1, 0, 0, 2, 1, 0, 65, 4, 0, 0, 0xfd, 0xe7, 70, 0, 71, 14, 0, 1, 1, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0})},
		{"RFC 9234, 4.1: role", func(l *Local) { l.Role = RoleProvider }, []byte{0xfd, 0xe7}, 90,
			slices.Concat(common, []byte{9, 1, 0, 64, 2, 0x40, 0, 65, 4, 0, 0, 0xfd, 0xe7, 70, 0})},
		{"RFC 4760, 8: IPv6 alone, with a host name", func(l *Local) { l.IPv4, l.ExtendedNextHop, l.Hostname = false, true, "rib" }, []byte{0xfd, 0xe7}, 90,
			slices.Concat(mp6, []byte{2, 0, 64, 2, 0x40, 0, 65, 4, 0, 0, 0xfd, 0xe7, 70, 0, 73, 5, 3, 'r', 'i', 'b', 0})},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l := us()
			c.change(&l)
			body := slices.Concat([]byte{4}, c.as, []byte{0, c.hold, 192, 0, 2, 99, byte(2 + len(c.caps)), 2, byte(len(c.caps))}, c.caps)
			converse(t, l, &recorder{}, func(k *talk) {
				k.say()
				mustHex(t, "OPEN", k.messages()[0], frame(1, body...))
				_ = k.conn.Close()
			})
		})
	}
	l := us()
	l.AddPath, l.ExtendedMessages, l.ExtendedNextHop, l.LongLived = true, true, true, true
	l.RestartTime, l.Role, l.Hostname = 24*time.Hour, RolePeer, strings.Repeat("x", 300)
	m := openOf(l)
	if int(binary.BigEndian.Uint16(m[16:])) != len(m) || int(m[28]) != len(m)-29 || int(m[30]) != len(m)-31 {
		t.Errorf("lengths of the longest OPEN, of %d bytes: %x", len(m), m)
	}
}

func openOf(l Local) []byte {
	l = l.withDefaults()
	return l.openMessage()
}
