package rib_test

import (
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

func TestEveryStepExplainsItself(t *testing.T) {
	if names := rib.UncomparedSteps(); len(names) > 0 {
		t.Errorf("these steps do not say what they compare: %v", names)
	}
}

// What took a path out is said with what it had and what was needed.
func TestPathsSayWhatDecided(t *testing.T) {
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	addr := netip.MustParseAddr
	type announcement struct {
		peer     rib.PeerConfig
		internal bool
		attrs    rib.Attrs
	}
	peer := func(name, address, id string) rib.PeerConfig {
		c := rib.PeerConfig{Name: name, Kind: rib.KindBGP, AS: 64500}
		if address != "" {
			c.Addr = addr(address)
		}
		if id != "" {
			c.RouterID = addr(id)
		}
		return c
	}
	path := sequence(64500, 64501)
	for _, c := range []struct {
		name        string
		best, other announcement
		step        string
		value, had  any
	}{
		{"local-pref", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path, HasLocalPref: true, LocalPref: 200}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path}}, "local-pref", uint32(100), uint32(200)},
		{"path", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: sequence(64500, 1, 2, 3)}}, "as-path-length", 4, 2},
		{"origin", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path, Origin: rib.OriginIncomplete}}, "origin", "incomplete", "igp"},
		{"med", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path, HasMED: true, MED: 5}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path, HasMED: true, MED: 7}}, "med", uint32(7), uint32(5)},
		{"internal", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), true, rib.Attrs{ASPath: path}}, "ebgp-over-ibgp", "ibgp", "ebgp"},
		{"router ID", announcement{peer("a", "", "192.0.2.1"), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", "192.0.2.2"), false, rib.Attrs{ASPath: path}}, "router-id", addr("192.0.2.2"), addr("192.0.2.1")},
		{"no router ID", announcement{peer("a", "", "192.0.2.1"), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path}}, "router-id", nil, addr("192.0.2.1")},
		{"clusters", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path, ClusterListLen: 2}}, "cluster-list-length", 2, 0},
		{"address", announcement{peer("a", "192.0.2.1", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "192.0.2.2", ""), false, rib.Attrs{ASPath: path}}, "peer-address", addr("192.0.2.2"), addr("192.0.2.1")},
		{"name", announcement{peer("a", "", ""), false, rib.Attrs{ASPath: path}}, announcement{peer("b", "", ""), false, rib.Attrs{ASPath: path}}, "peer-name", "b", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rib.New(rib.Options{})
			for _, x := range []announcement{c.other, c.best} {
				p, err := r.AddPeer(x.peer)
				if err != nil {
					t.Fatal(err)
				}
				p.Up(rib.Session{Internal: x.internal, RouterID: x.peer.RouterID})
				p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: x.attrs})
			}
			all := r.Paths(prefix)
			if len(all) != 2 || all[0].Route.Peer.Name() != c.best.peer.Name || all[0].Step != (rib.DecisiveStep{}) {
				t.Fatalf("%+v", all)
			}
			if got, want := all[1].Step, (rib.DecisiveStep{Name: c.step, Value: c.value, Best: c.had}); got != want || all[1].LostBy != c.step {
				t.Errorf("lost by %s: %+v, want %+v", all[1].LostBy, got, want)
			}
		})
	}
}

// MEDs are compared within a neighbouring AS: what stayed elsewhere is not what decided.
func TestMEDIsExplainedByTheSameNeighbour(t *testing.T) {
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	r := rib.New(rib.Options{})
	for _, x := range []struct {
		name      string
		neighbour uint32
		med       uint32
	}{{"a", 1, 90}, {"b", 2, 30}, {"c", 2, 20}, {"d", 1, 95}} {
		p, err := r.AddPeer(rib.PeerConfig{Name: x.name, Kind: rib.KindList})
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{ASPath: sequence(x.neighbour, 64501), HasMED: true, MED: x.med}})
	}
	want := map[string]any{"b": uint32(20), "d": uint32(90)}
	for _, c := range r.Paths(prefix) {
		if name := c.Route.Peer.Name(); c.Step.Name == "med" && c.Step.Best != want[name] || (want[name] != nil) != (c.Step.Name == "med") {
			t.Errorf("%s: %+v", name, c.Step)
		}
	}
}

func TestRejectedPathsSayWhy(t *testing.T) {
	r := rib.New(rib.Options{LocalAS: 64500})
	p, err := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	if err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{ASPath: sequence(64501, 64500)}})
	all := r.Paths(prefix)
	if len(all) != 1 || all[0].LostBy != "as-path-loop" || all[0].Step != (rib.DecisiveStep{Name: "rejected", Value: "as-path-loop", Best: "accepted"}) {
		t.Errorf("%+v", all)
	}
}

// What the IGP says of next hops is explained: costs in full, nothing for one that is not known, and one that no
// way leads to.
func TestNextHopsAreExplained(t *testing.T) {
	addr := netip.MustParseAddr
	const far = 5_000_000_000 // does not fit 32 bits
	igp := costs{addr("192.0.2.1"): 1, addr("192.0.2.2"): far, addr("192.0.2.4"): rib.UnreachableCost}
	prefix := netip.MustParsePrefix("198.51.100.0/24")
	r := rib.New(rib.Options{IGP: igp})
	announce := func(name, hop string) {
		p, err := r.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindList})
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{NextHop: addr(hop)}})
	}
	check := func(want map[string]rib.DecisiveStep) {
		t.Helper()
		all := r.Paths(prefix)
		if len(all) != len(want) {
			t.Fatalf("%d paths, want %d", len(all), len(want))
		}
		for _, c := range all {
			if name := c.Route.Peer.Name(); c.Step != want[name] || c.LostBy != want[name].Name {
				t.Errorf("%s lost by %s: %+v, want %+v", name, c.LostBy, c.Step, want[name])
			}
		}
	}
	gone := rib.DecisiveStep{Name: "unreachable", Value: true, Best: false}
	announce("none", "192.0.2.4")
	check(map[string]rib.DecisiveStep{"none": gone})
	announce("near", "192.0.2.1")
	announce("far", "192.0.2.2")
	announce("unknown", "192.0.2.3")
	check(map[string]rib.DecisiveStep{
		"none": gone, "near": {},
		"far":     {Name: "igp-cost", Value: uint64(far), Best: uint64(1)},
		"unknown": {Name: "igp-cost", Best: uint64(1)},
	})
}
