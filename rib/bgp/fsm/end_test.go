package fsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestGraceful says over which ends routes may be kept (RFC 4724, 4.2; RFC 8538, 4).
func TestGraceful(t *testing.T) {
	closes := func(k *talk) { _ = k.conn.Close() }
	sends := func(m []byte) func(*talk) { return func(k *talk) { k.say(m) } }
	for _, c := range []struct {
		name    string
		restart []byte
		ends    func(*talk)
		want    bool
	}{
		{"RFC 4724, 4.2: lost, no capability", nil, closes, false},
		{"RFC 4724, 4.2: lost", restart4, closes, true},
		{"RFC 8538, 4: lost", restartN4, closes, true},
		{"RFC 4724, 4: NOTIFICATION of the peer", restart4, sends(notification(6, 4)), false},
		{"RFC 8538, 4: NOTIFICATION of the peer", restartN4, sends(notification(6, 4)), true},
		{"RFC 8538, 4: hard reset of the peer", restartN4, sends(notification(6, 9, 6, 2)), false},
		{"RFC 4724, 4: NOTIFICATION of ours", restart4, sends(opening(90)), false},
		{"RFC 8538, 4: NOTIFICATION of ours", restartN4, sends(opening(90)), true},
		{"RFC 4724, 4: hold time", restart4, func(*talk) {}, false},
		{"RFC 8538, 4: hold time", restartN4, func(*talk) {}, true},
		{"RFC 8538, 4: hard reset of ours", restartN4, func(k *talk) { k.cancel(&Notification{Code: 6, Subcode: 9}) }, false},
		{"RFC 8538, 5: shutdown", restartN4, func(k *talk) { k.cancel(nil) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			converse(t, us(), &recorder{}, func(k *talk) {
				k.up(c.restart)
				c.ends(k)
				k.over()
				mustBe(t, "graceful", k.end.Graceful, c.want)
				if k.end.Established.IsZero() {
					t.Error("it was never established")
				}
			})
		})
	}
	t.Run("RFC 4724, 4.2: not before the session is up", func(t *testing.T) {
		converse(t, us(), &recorder{}, func(k *talk) {
			k.say(opening(90, restartN4))
			_ = k.conn.Close()
			k.over()
			mustBe(t, "end", fmt.Sprint(k.end.Graceful, k.end.Established.IsZero()), "false true")
		})
	})
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		err     error
		partial []byte
		wantErr error
		want    string
	}{
		{io.EOF, nil, io.EOF, "the peer has closed the connection"},
		{io.EOF, keepalive[:1], io.ErrUnexpectedEOF, "the peer has closed the connection in the middle of a message"},
		{io.EOF, withdraw[:20], io.ErrUnexpectedEOF, "the peer has closed the connection in the middle of a message"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, nil, syscall.ECONNRESET, "the peer has reset the connection"},
		{net.ErrClosed, nil, net.ErrClosed, "the connection was closed here"},
		{syscall.ETIMEDOUT, nil, syscall.ETIMEDOUT, "the connection is lost: connection timed out"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s := &script{reads: []read{{bytes: slices.Concat(opening(90), keepalive, withdraw, c.partial)}, {err: c.err}}}
			h := &recorder{}
			end := Run(t.Context(), s, us(), h)
			mustBe(t, "handler", h.told(), "opened, established, update 0002080a0000")
			mustBe(t, "reason", end.Reason, c.want)
			if !errors.Is(end.Err, c.wantErr) || end.Notification != nil || s.closed != 1 {
				t.Errorf("end %+v, closed %d times", end, s.closed)
			}
		})
	}
}

// TestReasonsOfRefusals has what is wrong in words.
func TestReasonsOfRefusals(t *testing.T) {
	for want, m := range map[string][]byte{
		"wrong peer AS: expected 64500, the peer has 64501":                                       openWith(64501, 90),
		"the peer proposes a hold time of 2 s: it has to be 3 s or more, or 0":                    opening(2),
		"damaged OPEN: capability 1: it has 3 bytes":                                              opening(90, []byte{1, 3, 0, 1, 0}),
		"the peer sends a message of type 4 out of turn":                                          keepalive,
		"the peer sends what is no BGP message":                                                   []byte("GET / HTTP/1.1\r\n\r\n\r\n"),
		"the peer has sent OPEN Message Error, Bad Peer AS (2/2)":                                 notification(2, 2),
		"the peer has sent Cease, Administrative Shutdown (6/2): \"bye\"":                         notification(6, 2, 3, 'b', 'y', 'e'),
		"the peer has sent Cease, Hard Reset (6/9) of Cease, Administrative Reset (6/4): \"now\"": notification(6, 9, 6, 4, 3, 'n', 'o', 'w'),
		"the peer has sent NOTIFICATION (0/0)":                                                    notification(0, 0),
		"the peer has sent Send Hold Timer Expired (8/0)":                                         notification(8, 0),
		"the peer has sent OPEN Message Error (2/5)":                                              notification(2, 5),
		"the peer has sent NOTIFICATION (255/255)":                                                notification(255, 255),
	} {
		t.Run(want, func(t *testing.T) {
			end := Run(t.Context(), &script{reads: []read{{bytes: m}}}, us(), &recorder{})
			mustBe(t, "reason", end.Reason, want)
			if end.Notification == nil || end.Notification.Time.IsZero() {
				t.Errorf("notification %+v", end.Notification)
			}
		})
	}
}

// TestShutdownCommunication reads texts of the peer (RFC 9003, 2).
func TestShutdownCommunication(t *testing.T) {
	longest := bytes.Repeat([]byte{'x'}, 255)
	for _, c := range []struct {
		name string
		m    []byte
		want string
	}{
		{"shutdown", notification(6, 2, 3, 'b', 'y', 'e'), "bye"},
		{"reset", notification(6, 4, 3, 'b', 'y', 'e'), "bye"},
		{"of 255 bytes", notification(6, 2, append([]byte{255}, longest...)...), string(longest)},
		{"none", notification(6, 2), ""},
		{"empty", notification(6, 2, 0), ""},
		{"longer than the message", notification(6, 2, 4, 'b', 'y', 'e'), ""},
		{"shorter than the message", notification(6, 2, 2, 'b', 'y', 'e'), "by"},
		{"no UTF-8", notification(6, 2, 3, 'b', 0xff, 'e'), ""},
		{"with another subcode", notification(6, 1, 3, 'b', 'y', 'e'), ""},
		{"with another code", notification(3, 2, 3, 'b', 'y', 'e'), ""},
		{"in a hard reset", notification(6, 9, 6, 2, 3, 'b', 'y', 'e'), "bye"},
		{"in a hard reset of another", notification(6, 9, 6, 1, 3, 'b', 'y', 'e'), ""},
		{"hard reset of nothing", notification(6, 9, 6), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := Run(t.Context(), &script{reads: []read{{bytes: c.m}}}, us(), &recorder{})
			mustBe(t, "message", end.Notification.Message, c.want)
			mustHex(t, "data", end.Notification.Data, c.m[21:])
			mustBe(t, "sent by us", end.Notification.Sent, false)
		})
	}
}

// TestCancel ends sessions with a cause.
func TestCancel(t *testing.T) {
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	umlauts := strings.Repeat("ä", 200)
	for _, c := range []struct {
		rule    string
		restart []byte
		cause   error
		want    []byte
		message string
	}{
		{"RFC 4486, 4: no cause", restart4, nil, notification(6, 2), ""},
		{"RFC 4486, 4: a nil cause that is a notification", nil, (*Notification)(nil), notification(6, 2), ""},
		{"RFC 4486, 4: another cause", nil, errors.New("some"), notification(6, 2), ""},
		{"RFC 4486, 4: de-configured", nil, &Notification{Code: 6, Subcode: 3}, notification(6, 3), ""},
		{"RFC 9003, 2: text", nil, &Notification{Code: 6, Subcode: 2, Message: "see you"}, notification(6, 2, text("see you")...), "see you"},
		{"RFC 9003, 2: text of a reset, wrapped cause", nil, fmt.Errorf("it is: %w", &Notification{Code: 6, Subcode: 4, Message: "see you"}), notification(6, 4, text("see you")...), "see you"},
		{"RFC 9003, 2: long text is cut between characters", nil, &Notification{Code: 6, Subcode: 2, Message: umlauts}, notification(6, 2, text(umlauts[:254])...), umlauts},
		{"RFC 9003, 2: text that is no UTF-8", nil, &Notification{Code: 6, Subcode: 2, Message: "a\xffb"}, notification(6, 2, text("a�b")...), "a\xffb"},
		{"RFC 9003, 2: none for others", nil, &Notification{Code: 6, Subcode: 8, Message: "see you"}, notification(6, 8), "see you"},
		{"RFC 4486, 4: data", nil, &Notification{Code: 6, Subcode: 1, Data: []byte{0, 1, 1, 0, 0, 0, 9}, Message: "too many"}, notification(6, 1, 0, 1, 1, 0, 0, 0, 9), "too many"},
		{"RFC 8538, 5: shutdown is a hard reset", restartN4, &Notification{Code: 6, Subcode: 2, Message: "see you"}, notification(6, 9, append([]byte{6, 2}, text("see you")...)...), "see you"},
		{"RFC 8538, 5: so is too many prefixes", restartN4, &Notification{Code: 6, Subcode: 1}, notification(6, 9, 6, 1), ""},
		{"RFC 8538, 5: so is de-configured", restartN4, &Notification{Code: 6, Subcode: 3}, notification(6, 9, 6, 3), ""},
		{"RFC 8538, 5: reset is none", restartN4, &Notification{Code: 6, Subcode: 4}, notification(6, 4), ""},
		{"RFC 8538, 5: no error is one", restartN4, &Notification{Code: 3, Subcode: 2}, notification(3, 2), ""},
		{"RFC 8538, 3: not without the capability", restart4, &Notification{Code: 6, Subcode: 2}, notification(6, 2), ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var before Notification
			if n := new(Notification); errors.As(c.cause, &n) && n != nil {
				before = *n
			}
			converse(t, us(), &recorder{}, func(k *talk) {
				k.up(c.restart)
				k.cancel(c.cause)
				k.over()
				all := k.messages()
				mustHex(t, "NOTIFICATION", all[len(all)-1], c.want)
				mustBe(t, "sent", k.end.Notification.Sent, true)
				mustBe(t, "message", k.end.Notification.Message, c.message)
				if k.end.Notification.Time.IsZero() {
					t.Error("it has no time")
				}
			})
			if n := new(Notification); errors.As(c.cause, &n) && n != nil && fmt.Sprint(*n) != fmt.Sprint(before) {
				t.Errorf("the cause, which others may have too, was changed: %+v", n)
			}
		})
	}
}

func TestCancelInEveryState(t *testing.T) {
	for name, say := range map[string][]byte{"before the OPEN": nil, "OpenConfirm": opening(90), "in a message": slices.Concat(opening(90), keepalive, withdraw[:20])} {
		t.Run(name, func(t *testing.T) {
			converse(t, us(), &recorder{}, func(k *talk) {
				k.say(say)
				k.cancel(nil)
				k.over()
				all := k.messages()
				mustHex(t, "NOTIFICATION", all[len(all)-1], notification(6, 2))
				mustBe(t, "took", k.took, time.Duration(0))
			})
		})
	}
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		synctest.Test(t, func(t *testing.T) {
			near, conn := newPipe()
			got := make(chan []byte)
			go func() {
				b, _ := io.ReadAll(conn)
				got <- b
			}()
			end := Run(ctx, near, us(), &recorder{})
			mustBe(t, "reason", end.Reason, "we have sent Cease, Administrative Shutdown (6/2)")
			mustHex(t, "all", <-got, openOf(us()), notification(6, 2))
		})
	})
}

// TestCancelDuringSlowHandler: the NOTIFICATION goes out at once, and Run returns when the
// Handler has, without calling it again.
func TestCancelDuringSlowHandler(t *testing.T) {
	h := &recorder{onUpdate: func([]byte) *Notification { time.Sleep(time.Hour); return nil }}
	converse(t, us(), h, func(k *talk) {
		k.up()
		k.say(withdraw, withdraw, withdraw)
		begun := time.Since(k.started)
		k.cancel(nil)
		k.over()
		all := k.messages()
		mustHex(t, "NOTIFICATION", all[len(all)-1], notification(6, 2))
		mustBe(t, "sent after", k.at[len(k.at)-1]-begun, time.Duration(0))
		mustBe(t, "took", k.took-begun, time.Hour)
		mustBe(t, "handler", k.told(), "opened, established, update 0002080a0000")
	})
}

// TestCancelWithoutReader: a peer that reads nothing does not hold up the end for long, and
// gets no NOTIFICATION into the middle of a message.
func TestCancelWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		near, conn := newPipe()
		ended := make(chan End)
		begun := time.Now()
		go func() { ended <- Run(ctx, near, us(), &recorder{}) }()
		readAll(t, conn, 20) // of the OPEN
		cancel()
		end := <-ended
		mustBe(t, "took", time.Since(begun), parting)
		mustBe(t, "reason", end.Reason, "we have sent Cease, Administrative Shutdown (6/2)")
		rest, _ := io.ReadAll(conn)
		mustHex(t, "rest", rest)
	})
}

// TestHandlerObjects has the Handler end the session.
func TestHandlerObjects(t *testing.T) {
	converse(t, us(), &recorder{onOpened: func(*Open) *Notification { return &Notification{Code: 6, Subcode: 7} }}, func(k *talk) {
		k.say(opening(90))
		k.over()
		mustHex(t, "after our OPEN (RFC 4271, 6.8)", k.after(), notification(6, 7))
		mustBe(t, "reason", k.end.Reason, "we have sent Cease, Connection Collision Resolution (6/7)")
		mustBe(t, "handler", k.told(), "opened")
	})
	converse(t, us(), &recorder{onUpdate: func([]byte) *Notification { return &Notification{Code: 3, Subcode: 1, Data: []byte{7}} }}, func(k *talk) {
		k.up()
		k.say(withdraw, withdraw)
		k.over()
		mustHex(t, "after our OPEN (RFC 4271, 6.3)", k.after(), keepalive, eor4, notification(3, 1, 7))
		mustBe(t, "handler", k.told(), "opened, established, update 0002080a0000")
	})
}

// TestHandlerPanics: the panic is the caller's, and nothing is left behind.
func TestHandlerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, conn := newPipe()
		go func() {
			_, _ = conn.Write(opening(90))
			_, _ = io.Copy(io.Discard, conn)
		}()
		defer func() {
			mustBe(t, "panic", recover(), "oh")
			if _, err := near.Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the connection is open: %v", err)
			}
		}()
		Run(t.Context(), near, us(), &recorder{onOpened: func(*Open) *Notification { panic("oh") }})
	})
}

// TestNotificationOutlivesUnreadBytes: over TCP, closing with something unread is a reset, at
// which the peer's side may forget what it has received. The NOTIFICATION has to arrive.
func TestNotificationOutlivesUnreadBytes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan End)
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- End{Err: err}
			return
		}
		ended <- Run(t.Context(), c, us(), &recorder{onUpdate: func([]byte) *Notification { return &Notification{Code: 3, Subcode: 1} }})
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(slices.Concat(opening(90), keepalive, bytes.Repeat(withdraw, 100000))); err != nil {
		t.Errorf("what came after the damage was not taken: %v", err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("the peer reads: %v", err)
	}
	all, err := split(got)
	if err != nil {
		t.Fatal(err)
	}
	mustHex(t, "last message", all[len(all)-1], notification(3, 1))
	_ = c.Close()
	mustBe(t, "reason", (<-ended).Reason, "we have sent UPDATE Message Error, Malformed Attribute List (3/1)")
}

func TestRequestRefresh(t *testing.T) {
	converse(t, us(), &recorder{}, func(k *talk) {
		k.up(refreshes)
		mustBe(t, "IPv4 (RFC 2918, 4)", k.session.RequestRefresh(false), nil)
		synctest.Wait()
		mustHex(t, "after our OPEN", k.after(), keepalive, eor4, frame(5, 0, 1, 0, 1))
		mustBe(t, "IPv6 (RFC 2918, 4)", k.session.RequestRefresh(true), "the family is not negotiated with the peer")
		_ = k.conn.Close()
		k.over()
		mustBe(t, "later", k.session.RequestRefresh(false), "the session is over")
	})
	converse(t, us(), &recorder{}, func(k *talk) {
		k.up()
		mustBe(t, "without the capability (RFC 2918, 4)", k.session.RequestRefresh(false), "the peer has no route refresh (RFC 2918)")
		k.cancel(nil)
	})
	// A peer that does not read has no more than the queue waiting for it.
	synctest.Test(t, func(t *testing.T) {
		near, conn := newPipe()
		ended := make(chan End)
		h := &recorder{onEstablished: func(s *Session) {
			var err error
			for range queueLength + 1 {
				err = s.RequestRefresh(false)
			}
			mustBe(t, "the last of many", err, "the peer has not read the last requests yet: ask again later")
		}}
		go func() { ended <- Run(t.Context(), near, us(), h) }()
		_, _ = conn.Write(slices.Concat(opening(90, mp4, refreshes), keepalive, bytes.Repeat(frame(5, 0, 1, 0, 1), 1000)))
		_ = conn.Close()
		<-ended
	})
}

func TestCollide(t *testing.T) {
	for _, c := range []struct {
		rule           string
		ours, theirs   string
		ourAS, theirAS uint32
		want           bool
	}{
		{"RFC 4271, 6.8: the higher identifier", "192.0.2.2", "192.0.2.1", 1, 2, true},
		{"RFC 4271, 6.8: the lower identifier", "192.0.2.1", "192.0.2.2", 2, 1, false},
		{"RFC 4271, 6.8: as unsigned numbers", "200.0.0.1", "100.0.0.1", 1, 2, true},
		{"RFC 6286, 2.3: the higher AS number", "192.0.2.1", "192.0.2.1", 400000, 2, true},
		{"RFC 6286, 2.3: the lower AS number", "192.0.2.1", "192.0.2.1", 2, 400000, false},
	} {
		mustBe(t, c.rule, Collide(netip.MustParseAddr(c.ours), netip.MustParseAddr(c.theirs), c.ourAS, c.theirAS), c.want)
	}
}

func TestRoleWords(t *testing.T) {
	for r := range numRoles {
		text, _ := r.MarshalText()
		var back Role
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("role %d is %q, which is %d: %v", r, text, back, err)
		}
		if r != NoRole && (roleOf(r.value()) != r || counterparts[counterparts[r]] != r) {
			t.Errorf("role %v has value %d and counterpart %v", r, r.value(), counterparts[r])
		}
	}
	var r Role
	mustBe(t, "error", r.UnmarshalText([]byte("boss")), `role "boss" is none: give provider, rs, rs-client, customer or peer`)
	mustBe(t, "unknown", Role(9), "role-9")
	mustBe(t, "unknown value", roleOf(255), NoRole)
}
