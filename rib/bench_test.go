package rib_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// nullEngine makes tables of nothing: what is left is the cost of the RIB and the publisher.
type nullEngine struct{ lpm.Table }

func (nullEngine) Name() string { return "null" }
func (nullEngine) Close() error { return nil }
func (e nullEngine) Build(context.Context, lpm.Routes) (lpm.Table, error) {
	return nullTable{}, nil
}
func (e nullEngine) Update(context.Context, lpm.Table, lpm.Routes) (lpm.Table, error) {
	return nullTable{}, nil
}

type nullTable struct{ lpm.Table }

func (nullTable) Close() error { return nil }

func liveBytes() uint64 {
	runtime.GC()
	runtime.GC() // the first one frees interned attributes, the second what they held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fullTable is the updates of a table with the shape of the real one.
func fullTable(b *testing.B, most int) (updates []rib.Update, routes int) {
	t := fixtures.Generate(1, 1_000_000, 0)
	for u := range t.Updates(most) {
		u.Reach = slices.Clone(u.Reach)
		updates = append(updates, u)
		routes += len(u.Reach)
	}
	return updates, routes
}

func loaded(b *testing.B, peers int, updates []rib.Update) (*rib.RIB, *rib.Publisher, []*rib.Peer) {
	r := rib.New(rib.Options{})
	var all []*rib.Peer
	for i := range peers {
		p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprintf("peer%d", i), Kind: rib.KindBGP, Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
		if err != nil {
			b.Fatal(err)
		}
		for _, u := range updates {
			p.Apply(u)
		}
		all = append(all, p)
	}
	return r, rib.NewPublisher(r, nullEngine{}, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)}), all
}

// BenchmarkApply loads 1 M IPv4 prefixes: in updates of 500 with one set of attributes each,
// and as they come from the generator, with realistic attributes.
func BenchmarkApply(b *testing.B) {
	real, routes := fullTable(b, 500)
	var of500 []rib.Update
	for all := range slices.Chunk(slices.Concat(reach(real)...), 500) {
		of500 = append(of500, rib.Update{Reach: all, Attrs: rib.Attrs{MED: uint32(len(of500)), HasMED: true}})
	}
	for _, c := range []struct {
		name    string
		peers   int
		updates []rib.Update
	}{{"updates of 500", 1, of500}, {"real attributes", 1, real}, {"updates of 500, 4 peers", 4, of500}} {
		b.Run(c.name, func(b *testing.B) {
			var keep []any
			before := liveBytes()
			for b.Loop() {
				r, p, _ := loaded(b, c.peers, c.updates)
				keep = []any{r, p}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*routes*c.peers), "ns/route")
			b.ReportMetric(float64(liveBytes()-before)/float64(routes), "RIB-B/prefix")
			if err := keep[1].(*rib.Publisher).Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(liveBytes()-before)/float64(routes), "with-generation-B/prefix")
			runtime.KeepAlive(keep)
		})
	}
}

func reach(updates []rib.Update) (all [][]rib.NLRI) {
	for _, u := range updates {
		all = append(all, u.Reach)
	}
	return all
}

// BenchmarkFlush is one route changed in a table of 1 M until its generation is published.
func BenchmarkFlush(b *testing.B) {
	updates, _ := fullTable(b, 500)
	_, publisher, peers := loaded(b, 1, updates)
	if err := publisher.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	one := []rib.NLRI{updates[7].Reach[0]}
	med := uint32(0)
	for b.Loop() {
		med++
		peers[0].Apply(rib.Update{Reach: one, Attrs: rib.Attrs{HasMED: true, MED: med}})
		if err := publisher.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstFlush is the decision and the route records of a whole table.
func BenchmarkFirstFlush(b *testing.B) {
	updates, _ := fullTable(b, 500)
	for _, peers := range []int{1, 4} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				_, publisher, _ := loaded(b, peers, updates)
				b.StartTimer()
				if err := publisher.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalk is what happens to all routes of a session that announced 1 M prefixes, with its
// table published, alone and as one of 4 peers. Another peer sends one message after the other
// meanwhile: the longest took the time that is reported.
func BenchmarkWalk(b *testing.B) {
	updates, _ := fullTable(b, 500)
	for _, c := range []struct {
		name       string
		before, do func(*rib.Peer)
	}{
		{"Down", nil, func(p *rib.Peer) { p.Down("test") }},
		{"Retain", nil, func(p *rib.Peer) { p.Retain("test") }},
		{"LongLived", func(p *rib.Peer) { p.Retain("test") }, func(p *rib.Peer) { p.LongLived(false) }},
		{"Sweep", func(p *rib.Peer) { p.Retain("test") }, func(p *rib.Peer) { p.Sweep(false) }},
		{"MarkStale", nil, func(p *rib.Peer) { p.MarkStale(false) }},
		{"SetImport, all stay", nil, func(p *rib.Peer) { p.SetImport(lengths{32, 128}) }},
		{"SetImport, all go", nil, func(p *rib.Peer) { p.SetImport(lengths{0, 0}) }},
	} {
		for _, peers := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/peers=%d", c.name, peers), func(b *testing.B) {
				var longest time.Duration
				messages := 0
				for b.Loop() {
					b.StopTimer()
					r, publisher, all := loaded(b, peers, updates)
					if err := publisher.Flush(b.Context()); err != nil {
						b.Fatal(err)
					}
					other, err := r.AddPeer(rib.PeerConfig{Name: "other"})
					if err != nil {
						b.Fatal(err)
					}
					if c.before != nil {
						c.before(all[peers-1])
					}
					runtime.GC()
					done := make(chan struct{})
					var sender sync.WaitGroup
					sender.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-done:
								return
							case <-time.After(50 * time.Microsecond):
							}
							started := time.Now()
							other.Apply(rib.Update{Reach: updates[n%len(updates)].Reach[:1], Attrs: rib.Attrs{HasMED: true, MED: uint32(n % 50)}})
							longest = max(longest, time.Since(started))
							messages++
						}
					})
					b.StartTimer()
					c.do(all[peers-1])
					b.StopTimer()
					close(done)
					sender.Wait()
					b.StartTimer()
				}
				b.ReportMetric(float64(longest.Microseconds()), "µs-longest-Apply")
				b.ReportMetric(float64(messages)/float64(b.N), "Applies")
			})
		}
	}
}

// lengths is an Import that lets in prefixes up to a length.
type lengths struct{ v4, v6 int }

func (l lengths) Check(p netip.Prefix, _ *rib.Attrs) rib.Reject {
	if p.Addr().Is4() && p.Bits() <= l.v4 || p.Addr().Is6() && p.Bits() <= l.v6 {
		return rib.Accepted
	}
	return rib.RejectPrefix
}
