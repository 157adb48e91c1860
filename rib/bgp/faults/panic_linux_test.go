package faults

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
)

// panicking is an import policy that panics at a prefix.
type panicking struct{ at netip.Prefix }

func (i panicking) Check(p netip.Prefix, _ *rib.Attrs) rib.Reject {
	if p == i.at {
		panic("a mistake")
	}
	return rib.Accepted
}

// TestPanics has peers send what the codec panics at, and what a policy of ours does, a hundred of
// each: that is a verdict about their sessions, whose routes go, and about nothing else.
func TestPanics(t *testing.T) {
	t.Parallel()
	const many = 100
	// MP_REACH_NLRI that ends before its next hop: the codec reads the length of that unseen.
	cut := withAttribute(updateOf(netip.Prefix{}), 0x80, 14, 3, 0, 2, 1)
	bad := numbered(24, 0)
	for _, c := range []struct {
		name          string
		capability    []byte
		update        []byte
		code, subcode byte
		said          string
	}{
		{"decoder", restarts, cut, 3, 9, "bgp decoder panicked"},
		// Where a NOTIFICATION need not end the routes (RFC 8538) they go as well: it is us who are wrong.
		{"policy", outlives, updateOf(netip.Prefix{}, bad), 6, 8, "bgp session panicked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork()
			policies := func(string, bgp.PeerConfig) (rib.Import, error) { return panicking{bad}, nil }
			s := start(t, options{at: n.own(), policies: policies, config: func(c *bgp.Config) { c.ErrorDelay = 100 * time.Millisecond }},
				bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)},
				bgp.PeerConfig{Name: "prefix", Prefix: netip.PrefixFrom(n.host(9, 0), 24), Limit: many, Import: "mistaken"})
			w := s.witness(t, "witness", n.host(0, 2))
			w.during(t, func() {
				for i := range many {
					p := dial(t, s, n.host(9, byte(i)))
					p.establish(t, 90, c.capability)
					p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, i)))
					if i == 0 {
						await(t, "route before", func() bool { return s.has(numbered(20, i)) })
					}
					p.mustUpdate(t, c.update)
					if code, subcode := p.notification(t); code != c.code || subcode != c.subcode {
						t.Fatalf("NOTIFICATION %d/%d, want %d/%d", code, subcode, c.code, c.subcode)
					}
				}
				await(t, "withdrawal", func() bool { return !s.has(numbered(20, 0)) && !s.has(numbered(20, many-1)) })
			})
			if !s.log.Contains(c.said) {
				t.Errorf("the log does not say %q", c.said)
			}
			if p := s.peer("witness"); p.Panics != 0 || p.Verdicts[0] != p.Messages {
				t.Errorf("of the witness: %+v", p)
			}
		})
	}
}

// withAttribute puts one more attribute into an UPDATE that announces nothing.
func withAttribute(update []byte, attribute ...byte) []byte {
	m := append(update, attribute...)
	binary.BigEndian.PutUint16(m[16:], uint16(len(m)))
	attributes := m[headerLength+2:]
	binary.BigEndian.PutUint16(attributes, uint16(len(attributes)-2))
	return m
}
