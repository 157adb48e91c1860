package fsm

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib/wire"
)

// TestOpenIsUnderstood has what capabilities say.
func TestOpenIsUnderstood(t *testing.T) {
	plain := Open{AS: peerAS, RouterID: netip.MustParseAddr("192.0.2.1"), HoldTime: 90 * time.Second}
	for _, c := range []struct {
		rule string
		caps []byte
		want func(*Open)
	}{
		{"RFC 4760, 8: none", nil, func(o *Open) { o.IPv4 = true }},
		{"RFC 4760, 8: IPv6 alone", mp6, func(o *Open) { o.IPv6 = true }},
		{"RFC 4760, 8: others alone", []byte{1, 4, 0, 1, 0, 128}, func(*Open) {}},
		{"RFC 4760, 8: reserved byte", []byte{1, 4, 0, 2, 9, 1}, func(o *Open) { o.IPv6 = true }},
		{"RFC 6793, 3", as4(400000), func(o *Open) { o.IPv4, o.AS, o.FourOctet = true, 400000, true }},
		{"RFC 2918, 2; RFC 7313, 3.1; RFC 8654, 3", []byte{2, 0, 70, 0, 6, 0}, func(o *Open) { o.IPv4, o.Refresh, o.EnhancedRefresh, o.Extended = true, true, true, true }},
		{"RFC 8950, 4", []byte{5, 12, 0, 1, 0, 128, 0, 2, 0, 1, 0, 1, 0, 2}, func(o *Open) { o.IPv4, o.ExtendedNextHop = true, true }},
		{"RFC 8950, 4: another family", []byte{5, 6, 0, 1, 0, 128, 0, 2}, func(o *Open) { o.IPv4 = true }},
		{"RFC 8950, 4: nothing", []byte{5, 0}, func(o *Open) { o.IPv4 = true }},
		{"RFC 7911, 4: send", []byte{69, 4, 0, 1, 1, 2}, func(o *Open) { o.IPv4, o.AddPath4 = true, true }},
		{"RFC 7911, 4: both", []byte{69, 8, 0, 1, 1, 1, 0, 2, 1, 3}, func(o *Open) { o.IPv4, o.AddPath6 = true, true }},
		{"RFC 7911, 4: a mode that there is not", []byte{69, 8, 0, 1, 1, 3, 0, 2, 1, 4}, func(o *Open) { o.IPv4 = true }},
		{"RFC 7911, 4: mode 0", []byte{69, 8, 0, 1, 1, 0, 0, 2, 1, 3}, func(o *Open) { o.IPv4 = true }},
		{"RFC 7911, 4: nothing", []byte{69, 0}, func(o *Open) { o.IPv4 = true }},
		{"RFC 4724, 3: no families", []byte{64, 2, 0, 120}, func(o *Open) { o.IPv4, o.Restart = true, &Restart{Time: 2 * time.Minute} }},
		{"RFC 4724, 3: families", []byte{64, 14, 0x8f, 0xff, 0, 1, 1, 0x80, 0, 2, 1, 0, 0, 1, 128, 0x80}, func(o *Open) {
			o.IPv4, o.Restart = true, &Restart{Time: 4095 * time.Second, Restarting: true, Listed4: true, Forwarding4: true, Listed6: true}
		}},
		{"RFC 4724, 3: the last of several", []byte{64, 6, 0x80, 1, 0, 1, 1, 0x80, 64, 6, 0, 2, 0, 2, 1, 0x80}, func(o *Open) {
			o.IPv4, o.Restart = true, &Restart{Time: 2 * time.Second, Listed6: true, Forwarding6: true}
		}},
		{"RFC 8538, 2: N bit", []byte{64, 2, 0x40, 0}, func(o *Open) { o.IPv4, o.Restart = true, &Restart{Notification: true} }},
		{"RFC 9494, 3.1", []byte{71, 14, 0, 1, 1, 0x80, 1, 0, 0, 0, 2, 1, 0, 0, 0, 5, 64, 2, 0, 0}, func(o *Open) {
			o.IPv4, o.Restart = true, &Restart{}
			o.LongLived = &LongLived{Time4: 65536 * time.Second, Listed4: true, Forwarding4: true, Time6: 5 * time.Second, Listed6: true}
		}},
		{"RFC 9494, 3.1: without RFC 4724", []byte{71, 7, 0, 1, 1, 0x80, 1, 0, 0}, func(o *Open) { o.IPv4 = true }},
		{"RFC 9494, 3.1: no families", []byte{71, 0, 64, 2, 0, 0}, func(o *Open) { o.IPv4, o.Restart, o.LongLived = true, &Restart{}, &LongLived{} }},
		{"RFC 9234, 4.1", []byte{9, 1, 0}, func(o *Open) { o.IPv4, o.Role, o.HasRole = true, RoleProvider, true }},
		{"RFC 9234, 4.1: not known", []byte{9, 1, 200}, func(o *Open) { o.IPv4, o.HasRole = true, true }},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o, n := parseOpen(opening(90, c.caps)[19:])
			if n != nil {
				t.Fatalf("refused: %v", n.detail)
			}
			want := plain
			c.want(&want)
			for i := 0; i < len(c.caps); i += 2 + int(c.caps[i+1]) {
				if code := c.caps[i]; i == 0 || code != c.caps[0] {
					want.Capabilities = append(want.Capabilities, code)
				}
			}
			if !reflect.DeepEqual(*o, want) {
				t.Errorf("got  %+v\nwant %+v", *o, want)
			}
		})
	}
}

// TestOptions says what is negotiated.
func TestOptions(t *testing.T) {
	l := us()
	l.AddPath = true
	mustBe(t, "all of it (RFC 7911, 5)", l.options(&Open{AS: peerAS, FourOctet: true, AddPath4: true, AddPath6: true}), wire.Options{AddPath4: true, AddPath6: true, External: true})
	l.IPv6 = false
	mustBe(t, "IPv4 alone", l.options(&Open{AS: peerAS, FourOctet: true, AddPath4: true, AddPath6: true}), wire.Options{AddPath4: true, External: true})
	mustBe(t, "the peer has 2-byte AS numbers (RFC 6793, 4.2)", l.options(&Open{AS: peerAS}), wire.Options{TwoByteAS: true, External: true})
	l.AddPath = false
	mustBe(t, "we do not ask for it", l.options(&Open{AS: ownAS, FourOctet: true, AddPath4: true}), wire.Options{})
}
