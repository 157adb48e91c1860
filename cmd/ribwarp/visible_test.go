package main

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// BenchmarkChangeToVisible sends b.N changes of single routes, 1,000 a second, over a BGP session
// to a service that holds the full table, and reports how long each took from the write to the
// session until lookups saw it. Run it with -benchtime=30000x for half a minute of changes.
func BenchmarkChangeToVisible(b *testing.B) {
	const perSecond = 1000
	f := startFeeder(b, "127.77.1.1", 64502, false)
	ctx, cancel := context.WithCancel(context.Background())
	a := &app{stdout: io.Discard, stderr: io.Discard, log: slog.New(slog.DiscardHandler)}
	o := &serveOptions{
		listen: "127.0.0.1:0", asn: 64501, routerID: "127.0.0.1", holdTime: 90 * time.Second, maxTables: 1,
		peers: []string{f.peer("")},
	}
	o.engine, o.devices, o.flavor = engineCPU, "0", "pushed"
	for _, f := range []string{"ris-2026-05-11-as3333-v4.txt.gz", "ris-2026-05-11-as3333-v6.txt.gz"} {
		o.ribs = append(o.ribs, filepath.Clean(fixtures.DataFile(b, f)))
	}
	s, err := a.startService(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	s.learn()
	ended := make(chan error, 1)
	go func() { ended <- s.wait() }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	session := <-f.up
	session.send(b, endsOfRIB())
	for ok := false; !ok; ok, _ = s.tables.Ready() {
		time.Sleep(10 * time.Millisecond)
	}

	// Prefixes outside the table, announced in one round and withdrawn in the next: the same one
	// changes every four seconds.
	prefixes := make([]netip.Prefix, 4096)
	for i := range prefixes {
		prefixes[i] = netip.PrefixFrom(lpm.Netip4(240<<24|uint32(i)<<8), 24)
	}
	attrs := rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64502}})}
	messages := [2][][]byte{}
	for round := range messages {
		for _, p := range prefixes {
			if round == 0 {
				messages[round] = append(messages[round], announcement([]rib.NLRI{{Prefix: p}}, attrs))
			} else {
				messages[round] = append(messages[round], withdrawal(p))
			}
		}
	}
	announced := func(i int) bool { return i/len(prefixes)%2 == 0 }
	sent := make(chan time.Time, 1<<20)
	var latencies []time.Duration
	b.ResetTimer()
	go func() {
		start := time.Now()
		for i := range b.N {
			if wait := time.Until(start.Add(time.Duration(i) * time.Second / perSecond)); wait > 0 {
				time.Sleep(wait)
			}
			sent <- time.Now()
			round := 0
			if !announced(i) {
				round = 1
			}
			session.send(b, messages[round][i%len(prefixes)])
		}
		close(sent)
	}()
	var addr [1]uint32
	var h [1]lpm.Handle
	i := 0
	for t := range sent {
		p := prefixes[i%len(prefixes)]
		addr[0] = lpm.Addr4(p.Addr()) | 1
		for {
			g := s.generations().Acquire()
			err := g.Table.Lookup4(h[:], addr[:])
			there := g.Route(h[0]).Prefix == p
			g.Release()
			if err != nil {
				b.Fatal(err)
			}
			if there == announced(i) {
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
		latencies = append(latencies, time.Since(t))
		i++
	}
	b.StopTimer()
	slices.Sort(latencies)
	ms := func(q float64) float64 {
		return float64(latencies[int(q*float64(len(latencies)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(ms(0.5), "ms-p50")
	b.ReportMetric(ms(0.99), "ms-p99")
	b.ReportMetric(ms(1), "ms-max")
	b.ReportMetric(0, "ns/op")
}
