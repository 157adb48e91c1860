package bgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// TestAdoptedNeighbours have routes of a saved generation before they connect, until their
// End-of-RIB, or until they are not there in time.
func TestAdoptedNeighbours(t *testing.T) {
	lab := PeerConfig{Name: "lab", Prefix: netip.MustParsePrefix("127.77.0.0/24"), AS: peerAS, Limit: 2, StaleTime: time.Hour}
	short := PeerConfig{Name: "short", Prefix: netip.MustParsePrefix("127.77.1.0/24"), AS: peerAS, Limit: 9, StaleTime: 50 * time.Millisecond, Table: "other"}
	inside := PeerConfig{Name: "inside", Prefix: netip.MustParsePrefix("127.77.0.128/25"), AS: peerAS, Limit: 9}
	s := prepare(t, nil, nil, lab, short, inside, PeerConfig{Name: "p", Addr: netip.MustParseAddr("127.77.2.2"), AS: peerAS})
	adopt := func(table, name, addr string, as uint32) error {
		p, err := s.Adopt(table, rib.PeerConfig{Name: name, Kind: rib.KindBGP, Addr: netip.MustParseAddr(addr), AS: as})
		if err == nil {
			p.Restore(rib.Update{Reach: []rib.NLRI{nlri("10.0.0.0/8", 0), nlri("11.0.0.0/8", 0)}, Attrs: rib.Attrs{ASPath: rib.ASPath(path4)}})
		}
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(adopt(rib.DefaultTable, "lab/127.77.0.11", "127.77.0.11", peerAS))
	must(adopt("other", "short/127.77.1.11", "127.77.1.11", peerAS))
	for what, err := range map[string]error{
		"another AS":           adopt(rib.DefaultTable, "lab/127.77.0.12", "127.77.0.12", 1),
		"another table":        adopt("other", "lab/127.77.0.12", "127.77.0.12", peerAS),
		"another address":      adopt(rib.DefaultTable, "lab/127.77.0.12", "127.77.0.13", peerAS),
		"a prefix of its own":  adopt(rib.DefaultTable, "lab/127.77.0.200", "127.77.0.200", peerAS),
		"no address":           adopt(rib.DefaultTable, "lab/x", "127.77.0.12", peerAS),
		"an unknown prefix":    adopt(rib.DefaultTable, "lib/127.77.0.12", "127.77.0.12", peerAS),
		"a configured address": adopt(rib.DefaultTable, "p", "127.77.2.2", peerAS),
		"it is there":          adopt(rib.DefaultTable, "lab/127.77.0.11", "127.77.0.11", peerAS),
	} {
		if err == nil {
			t.Errorf("%s: adopted", what)
		}
	}
	must(adopt(rib.DefaultTable, "lab/127.77.0.12", "127.77.0.12", peerAS))
	if adopt(rib.DefaultTable, "lab/127.77.0.13", "127.77.0.13", peerAS) == nil {
		t.Error("one more than the limit")
	}
	stale := func() (names string) {
		for _, p := range s.rib.Peers() {
			if p.Stale4 > 0 {
				names += p.Name + p.State + " "
			}
		}
		return names
	}
	mustBe(t, stale(), "lab/127.77.0.11stale lab/127.77.0.12stale ")
	must(s.Start())
	third := dial(t, s, netip.MustParseAddr("127.77.0.13")) // whose place is kept for one of those
	third.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4)...)
	mustBe(t, third.notification(), []byte{6, 5})
	await(t, "one that is not there in time is gone", func() bool { return len(s.other.Peers()) == 0 })
	mustBe(t, stale(), "lab/127.77.0.11stale lab/127.77.0.12stale ")

	p := dial(t, s, netip.MustParseAddr("127.77.0.11"))
	p.send(msgOpen, openBody(64501, 90, as4(64501))...) // a mistake costs no routes
	mustBe(t, p.notification(), []byte{2, 2})
	await(t, "the next", func() bool {
		p = dial(t, s, netip.MustParseAddr("127.77.0.11"))
		p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4)...)
		kind, _, err := p.receive()
		return err == nil && kind == msgOpen
	})
	p.expect(msgKeepalive)
	p.send(msgKeepalive)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, endOfRIB(false)...)
	await(t, "End-of-RIB", func() bool {
		at := s.rib.Peers()[0]
		return at.State == "established" && at.V4 == 1 && at.Stale4 == 0
	})
	mustBe(t, stale(), "lab/127.77.0.12stale ")
	if adopt(rib.DefaultTable, "lab/127.77.0.14", "127.77.0.14", peerAS) == nil {
		t.Error("adopted after the start")
	}
	p.conn.Close()
	await(t, "its end", func() bool { return len(s.rib.Peers()) == 2 })
}
