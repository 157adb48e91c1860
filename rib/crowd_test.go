package rib_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// Very many paths to one prefix are found as few are: a map of what peers announced and have not
// withdrawn says what there is, while their number goes up and down through the sizes at which the
// search changes. Every third is rejected.
func TestCrowdedPrefix(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	r := rib.New(rib.Options{MaxPending: -1, Log: slog.New(slog.DiscardHandler)})
	publisher := rib.NewPublisher(r, nullEngine{}, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	type key struct {
		peer int
		id   uint32
	}
	const peers = 12
	want := map[key]uint32{} // the MED
	all := make([]*rib.Peer, peers)
	add := func(i int) {
		p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP})
		if err != nil {
			t.Fatal(err)
		}
		p.SetImport(thirds{})
		all[i] = p
	}
	for i := range all {
		add(i)
	}
	check := func(step int) {
		got, fit, per := map[key]uint32{}, false, map[int]int{}
		for i, p := range all {
			for n, path := range p.Routes() {
				got[key{i, n.PathID}] = path.Value().MED
			}
		}
		for k, med := range want {
			per[k.peer]++
			fit = fit || med%3 != 0
		}
		if !maps.Equal(got, want) {
			t.Fatalf("step %d: %d paths, want %d, or others", step, len(got), len(want))
		}
		if v4, _ := r.Counts(); (v4 == 1) != fit {
			t.Fatalf("step %d: %d prefixes with a best path of %d paths, %t", step, v4, len(got), fit)
		}
		for i, p := range all {
			if s := p.Status(); s.V4 != per[i] {
				t.Fatalf("step %d: peer %d has %d paths, want %d", step, i, s.V4, per[i])
			}
		}
	}
	high, low := 0, 1<<30 // of the number of paths, once there were very many
	for step := range 40_000 {
		grows := step/5_000%2 == 0
		i, id := random.IntN(peers), random.Uint32N(80)
		_, there := want[key{i, id}]
		switch announces := random.IntN(10) > 0 == grows; {
		case random.IntN(4_000) == 0:
			r.RemovePeer(all[i])
			add(i)
			maps.DeleteFunc(want, func(k key, _ uint32) bool { return k.peer == i })
		case random.IntN(2_000) == 0:
			if err := publisher.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		case announces:
			med := random.Uint32N(30)
			if step%10_000 > 9_000 {
				med = 3 * random.Uint32N(10) // none is fit in the end
			}
			all[i].Apply(rib.Update{Reach: []rib.NLRI{{Prefix: prefix, PathID: id}}, Attrs: rib.Attrs{HasMED: true, MED: med}})
			n := 0
			for k := range want {
				if k.peer == i {
					n++
				}
			}
			if there || n < rib.MaxPaths {
				want[key{i, id}] = med
			}
		default:
			all[i].Apply(rib.Update{Unreach: []rib.NLRI{{Prefix: prefix, PathID: id}}})
			delete(want, key{i, id})
		}
		high = max(high, len(want))
		if high > 600 {
			low = min(low, len(want))
		}
		if step%97 == 0 {
			check(step)
		}
	}
	if high < 600 || low > 100 {
		t.Errorf("from %d to %d paths: neither many nor few", high, low)
	}
	for i, p := range all {
		p.Down("test")
		maps.DeleteFunc(want, func(k key, _ uint32) bool { return k.peer == i })
		check(i)
	}
	if n := rib.Crowds(r); n != 0 {
		t.Errorf("%d crowds without a path", n)
	}
}

// thirds is an Import that rejects by MED.
type thirds struct{}

func (thirds) Check(_ netip.Prefix, a *rib.Attrs) rib.Reject {
	if a.MED%3 == 0 {
		return rib.RejectCommunity
	}
	return rib.Accepted
}

// BenchmarkCrowdedPrefix is one change of one path among those that many peers have to the same
// prefix, each as many as may be: with all of them fit to be chosen and with none, which has no
// path that ends a search early. "published" has a generation made behind each.
func BenchmarkCrowdedPrefix(b *testing.B) {
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	for _, peers := range []int{1, 100, 1000} {
		for _, c := range []struct {
			name    string
			imports rib.Import
			change  []rib.Update // one after the other
			publish bool
		}{
			{"attributes", nil, []rib.Update{{Reach: []rib.NLRI{{Prefix: prefix}}}, {Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{MED: 9, HasMED: true}}}, false},
			{"attributes, rejected", lengths{0, 0}, []rib.Update{{Reach: []rib.NLRI{{Prefix: prefix}}}, {Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{MED: 9, HasMED: true}}}, false},
			{"coming and going", nil, []rib.Update{{Unreach: []rib.NLRI{{Prefix: prefix}}}, {Reach: []rib.NLRI{{Prefix: prefix}}}}, false},
			{"coming and going, rejected", lengths{0, 0}, []rib.Update{{Unreach: []rib.NLRI{{Prefix: prefix}}}, {Reach: []rib.NLRI{{Prefix: prefix}}}}, false},
			{"attributes, published", nil, []rib.Update{{Reach: []rib.NLRI{{Prefix: prefix}}}, {Reach: []rib.NLRI{{Prefix: prefix}}, Attrs: rib.Attrs{MED: 9, HasMED: true}}}, true},
		} {
			b.Run(fmt.Sprintf("%s/peers=%d", c.name, peers), func(b *testing.B) {
				r := rib.New(rib.Options{})
				publisher := rib.NewPublisher(r, nullEngine{}, rib.PublisherOptions{})
				var all []*rib.Peer
				for i := range peers {
					p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP})
					if err != nil {
						b.Fatal(err)
					}
					p.SetImport(c.imports)
					all = append(all, p)
					var u rib.Update
					for id := range uint32(rib.MaxPaths) {
						u.Reach = append(u.Reach, rib.NLRI{Prefix: prefix, PathID: id})
					}
					p.Apply(u)
				}
				if err := publisher.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				for n := 0; b.Loop(); n++ {
					all[n/2%peers].Apply(c.change[n%2])
					if c.publish {
						if err := publisher.Flush(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
