package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// Sizes of the real table of 2026.
const (
	fullV4 = 1_042_325
	fullV6 = 246_175
)

// ingest runs a service with peers for the time of a benchmark.
func ingest(b *testing.B, peers ...string) *service {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a := &app{stdout: io.Discard, stderr: io.Discard, log: slog.New(slog.DiscardHandler)}
	o := &serveOptions{listen: "127.0.0.1:0", asn: 64999, routerID: "192.0.2.99", holdTime: 90 * time.Second, maxTables: 1, peers: peers}
	o.engine, o.devices, o.flavor = engineCPU, "0", "pushed"
	s, err := a.startService(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	s.learn()
	ended := make(chan error, 1)
	go func() { ended <- s.wait() }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return s
}

func (s *service) generations() *lpm.Published[rib.Route] {
	return s.tables.All()[0].Publisher.Generations()
}

// watch waits until the newest generation holds what it is to.
func (s *service) watch(b *testing.B, holds func(g *rib.Generation) bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		g := s.generations().Acquire()
		if g != nil {
			ok := holds(g)
			g.Release()
			if ok {
				return
			}
		}
		if time.Now().After(deadline) {
			b.Fatal("it did not come about in two minutes")
		}
		time.Sleep(time.Millisecond)
	}
}

// ready waits until all first loads are visible.
func (s *service) ready(b *testing.B) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if ok, _ := s.tables.Ready(); ok {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("the first loads did not end in two minutes")
		}
	}
}

// resident gives what the kernel counts as this process's memory in use, and its peak since the last call, in MiB.
func resident(b *testing.B) (now, peak int) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs Linux's /proc: ", err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
	return now >> 10, peak >> 10
}

// own turns generated attributes into those of a peer: its AS in front, some paths longer and some MEDs changed, by
// what they were, so that each of several peers has the best path to some prefixes.
func own(as uint32) func(rib.Attrs) rib.Attrs {
	return func(a rib.Attrs) rib.Attrs {
		r := rand.New(rand.NewPCG(uint64(as), hashOf(string(a.ASPath)+a.NextHop.String())))
		var path []uint32
		for range 1 + r.IntN(3) {
			path = append(path, as)
		}
		segments := []rib.Segment{}
		for s := range a.ASPath.Segments() {
			s.ASNs = slices.Clone(s.ASNs)
			if len(segments) == 0 {
				s.ASNs = append(path, s.ASNs[1:]...)
			}
			segments = append(segments, s)
		}
		a.ASPath = rib.MakeASPath(segments...)
		a.Origin = uint8(r.IntN(3))
		return a
	}
}

func hashOf(s string) (h uint64) {
	h = 14695981039346656037
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// BenchmarkThreePeers has three peers announce full tables with different best paths at the same time, and compares
// the best path of every prefix with a decision of the benchmark's own.
func BenchmarkThreePeers(b *testing.B) {
	t := fixtures.Generate(1, fullV4, fullV6)
	var feeders []*feeder
	var streams [][]byte
	var peers []string
	for i := range 3 {
		f := startFeeder(b, fmt.Sprintf("127.77.1.%d", i+1), uint32(64501+i), false)
		feeders, peers = append(feeders, f), append(peers, f.peer(""))
		streams = append(streams, tableStream(t, own(f.as)))
	}
	runtime.GC()
	debug.FreeOSMemory()
	before, _ := resident(b)
	s := ingest(b, peers...)
	var feeds []*feed
	for _, f := range feeders {
		feeds = append(feeds, <-f.up)
	}
	start := time.Now()
	for i, f := range feeds {
		go f.send(b, streams[i])
	}
	s.ready(b)
	took := time.Since(start)
	now, peak := resident(b)
	g := s.generations().Acquire()
	defer g.Release()
	if g.V4 != fullV4 || g.V6 != fullV6 {
		b.Fatalf("%d and %d routes", g.V4, g.V6)
	}
	won := [3]int{}
	for _, r := range t.Routes {
		best, attrs := 0, [3]rib.Attrs{}
		for i, f := range feeders {
			attrs[i] = own(f.as)(t.Attrs[r.Attrs])
			if better(attrs[i], attrs[best]) { // the router ID of an earlier one is lower
				best = i
			}
		}
		won[best]++
		got := g.Route(g.Table.Find(r.Prefix))
		if got.Peer.Config().AS != feeders[best].as || got.Path.Value().ASPath != attrs[best].ASPath {
			b.Fatalf("%s: the best path is of AS %d, want AS %d", r.Prefix, got.Peer.Config().AS, feeders[best].as)
		}
	}
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(float64(peak-before), "MiB-peak")
	b.ReportMetric(float64(now-before), "MiB-after")
	b.ReportMetric(0, "ns/op")
	b.Logf("best paths by peer: %v", won)
}

// better compares two paths of external neighbours with different ASes: the decision as far as it matters here.
func better(a, b rib.Attrs) bool {
	length := func(a rib.Attrs) (n int) {
		for s := range a.ASPath.Segments() {
			if s.Type == rib.SegmentSet {
				n++
			} else {
				n += len(s.ASNs)
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(length(a), length(b)), cmp.Compare(a.Origin, b.Origin)) < 0
}

// lookups asks for single addresses over HTTP, one after the other, until stop, and gives how long each took.
func lookups(b *testing.B, s *service, addrs []netip.Addr, stop *atomic.Bool) <-chan []time.Duration {
	done := make(chan []time.Duration, 1)
	go func() {
		var took []time.Duration
		client := &http.Client{}
		for i := 0; !stop.Load(); i++ {
			at := time.Now()
			resp, err := client.Get(s.url() + "/api/v1/lookup/" + addrs[i%len(addrs)].String())
			if err != nil {
				b.Error(err)
				break
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			took = append(took, time.Since(at))
			time.Sleep(200 * time.Microsecond)
		}
		done <- took
	}()
	return done
}

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

// BenchmarkPeerLoss loses one of two peers with full tables, which has the best paths: time until no route of it is
// visible, or until all of them are marked stale where it announced graceful restart, and what lookups take in the two seconds from the
// loss on.
func BenchmarkPeerLoss(b *testing.B) {
	t := fixtures.Generate(1, fullV4, fullV6)
	stream := tableStream(t, func(a rib.Attrs) rib.Attrs { return a })
	longer := tableStream(t, func(a rib.Attrs) rib.Attrs {
		a.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64502, 64502, 64502, 64502, 64502, 64502, 64502, 64502, 64502}})
		return a
	})
	addrs := make([]netip.Addr, 4096)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range addrs {
		addrs[i] = t.Routes[r.IntN(fullV4)].Prefix.Addr()
	}
	for _, c := range []struct {
		name            string
		restart, second bool
	}{{"alone, withdrawn", false, false}, {"alone, marked stale", true, false}, {"beside another, withdrawn", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			f := startFeeder(b, "127.77.1.1", fixtures.PeerAS, c.restart)
			peers := []string{f.peer("")}
			var other *feeder
			if c.second {
				other = startFeeder(b, "127.77.1.2", 64502, false)
				peers = append(peers, other.peer(""))
			}
			s := ingest(b, peers...)
			session := <-f.up
			session.send(b, stream)
			if other != nil {
				(<-other.up).send(b, longer)
			}
			s.ready(b)
			time.Sleep(2 * time.Second)
			runtime.GC()
			var stop atomic.Bool
			idle := lookups(b, s, addrs, &stop)
			time.Sleep(5 * time.Second)
			stop.Store(true)
			before := <-idle
			stop.Store(false)
			busy := lookups(b, s, addrs, &stop)
			sample := make([]netip.Prefix, 1000)
			for i := range sample {
				sample[i] = t.Routes[r.IntN(len(t.Routes))].Prefix
			}
			start := time.Now()
			session.lose()
			s.watch(b, func(g *rib.Generation) bool {
				if !c.second && !c.restart {
					return g.V4+g.V6 == 0
				}
				for _, p := range sample {
					x := g.Route(g.Table.Find(p))
					if c.restart != x.Stale || c.second && x.Peer.Config().AS != 64502 {
						return false
					}
				}
				return true
			})
			took := time.Since(start)
			time.Sleep(time.Until(start.Add(2 * time.Second)))
			stop.Store(true)
			during := <-busy
			b.ReportMetric(took.Seconds(), "s")
			b.ReportMetric(float64(quantile(before, 0.99).Microseconds()), "us-p99-idle")
			b.ReportMetric(float64(quantile(during, 0.99).Microseconds()), "us-p99-two-seconds")
			b.ReportMetric(float64(quantile(during, 0.99))/float64(quantile(before, 0.99)), "p99-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReplay sends the real peer's table, and then its updates of 24 hours at full speed, one route an UPDATE and
// every announcement with another path than the one before.
func BenchmarkReplay(b *testing.B) {
	var table []rib.NLRI
	want := map[netip.Prefix]bool{}
	for _, file := range []string{"ris-2026-05-11-as3333-v4.txt.gz", "ris-2026-05-11-as3333-v6.txt.gz"} {
		for _, p := range fixtures.Prefixes(b, file) {
			table = append(table, rib.NLRI{Prefix: p.Masked()})
			want[p.Masked()] = true
		}
	}
	attrs := func(p netip.Prefix, n int) rib.Attrs {
		a := rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.MakeASPath(rib.Segment{
			Type: rib.SegmentSequence, ASNs: []uint32{64501, 1000 + uint32(n%50_000), 3_000_000 + uint32(n/50_000)}})}
		if p.Addr().Is6() {
			a.NextHop = netip.MustParseAddr("2001:db8::1")
		}
		return a
	}
	var first, updates []byte
	for len(table) > 0 {
		n := min(len(table), 200)
		for n > 1 && table[n-1].Prefix.Addr().Is4() != table[0].Prefix.Addr().Is4() {
			n--
		}
		first = append(first, announcement(table[:n], attrs(table[0].Prefix, len(table)))...)
		table = table[n:]
	}
	first = append(first, endsOfRIB()...)
	lines := 0
	for _, file := range []string{"ris-2026-05-11-as3333-updates-24h-v4.txt.gz", "ris-2026-05-11-as3333-updates-24h-v6.txt.gz"} {
		for _, c := range fixtures.Changes(b, file) {
			p := c.Prefix.Masked()
			if c.Withdraw {
				updates = append(updates, withdrawal(p)...)
			} else {
				updates = append(updates, announcement([]rib.NLRI{{Prefix: p}}, attrs(p, lines))...)
			}
			want[p] = !c.Withdraw
			lines++
		}
	}
	// A prefix of its own marks the end.
	mark := netip.MustParsePrefix("198.51.100.128/25")
	updates = append(updates, announcement([]rib.NLRI{{Prefix: mark}}, attrs(mark, 0))...)
	want[mark] = true

	f := startFeeder(b, "127.77.1.1", 64501, false)
	s := ingest(b, f.peer(""))
	session := <-f.up
	session.send(b, first)
	s.ready(b)
	start := time.Now()
	go session.send(b, updates)
	s.watch(b, func(g *rib.Generation) bool { return g.Table.Find(mark) != lpm.None })
	took := time.Since(start)
	g := s.generations().Acquire()
	defer g.Release()
	n := 0
	for p, there := range want {
		if (g.Table.Find(p) != lpm.None) != there {
			b.Fatalf("%s: in the table %t, want %t", p, !there, there)
		}
		if there {
			n++
		}
	}
	if g.V4+g.V6 != n {
		b.Fatalf("%d routes, want %d", g.V4+g.V6, n)
	}
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(float64(lines)/took.Seconds(), "changes/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBurst sends 150,000 changes in one second into a full table: prefixes that come, of which each is looked for.
func BenchmarkBurst(b *testing.B) {
	const changes = 150_000
	t := fixtures.Generate(1, fullV4, fullV6)
	f := startFeeder(b, "127.77.1.1", fixtures.PeerAS, false)
	s := ingest(b, f.peer(""))
	session := <-f.up
	session.send(b, tableStream(t, func(a rib.Attrs) rib.Attrs { return a }))
	s.ready(b)
	time.Sleep(time.Second)
	prefixes, messages := make([]netip.Prefix, changes), make([][]byte, changes)
	for i := range prefixes {
		prefixes[i] = netip.PrefixFrom(lpm.Netip4(240<<24|uint32(i)<<8), 24)
		messages[i] = announcement([]rib.NLRI{{Prefix: prefixes[i]}}, t.Attrs[i%len(t.Attrs)&^1])
		if !t.Attrs[i%len(t.Attrs)&^1].NextHop.Is4() {
			messages[i] = announcement([]rib.NLRI{{Prefix: prefixes[i]}}, t.Attrs[0])
		}
	}
	sent := make(chan time.Time, changes)
	go func() {
		const slice = changes / 1000
		start := time.Now()
		for i := 0; i < changes; i += slice {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / changes)))
			at := time.Now()
			session.send(b, slices.Concat(messages[i:i+slice]...))
			for range slice {
				sent <- at
			}
		}
		close(sent)
	}()
	var latencies []time.Duration
	i := 0
	for at := range sent {
		s.watch(b, func(g *rib.Generation) bool {
			return g.Table.Find(prefixes[i]) != lpm.None
		})
		latencies = append(latencies, time.Since(at))
		i++
	}
	b.ReportMetric(quantile(latencies, 0.5).Seconds()*1000, "ms-p50")
	b.ReportMetric(quantile(latencies, 0.99).Seconds()*1000, "ms-p99")
	b.ReportMetric(quantile(latencies, 1).Seconds()*1000, "ms-max")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory loads the real table from one peer and then from a second one with other attributes, and reports the
// heap after a collection for each route and each further path, generations and their tables among it.
func BenchmarkMemory(b *testing.B) {
	var table []rib.NLRI
	for _, file := range []string{"ris-2026-05-11-as3333-v4.txt.gz", "ris-2026-05-11-as3333-v6.txt.gz"} {
		for _, p := range fixtures.Prefixes(b, file) {
			table = append(table, rib.NLRI{Prefix: p.Masked()})
		}
	}
	// As many sets of attributes as real tables have: one for five prefixes.
	stream := func(as uint32) (messages []byte) {
		for from := 0; from < len(table); {
			to := min(from+5, len(table))
			for table[to-1].Prefix.Addr().Is4() != table[from].Prefix.Addr().Is4() {
				to--
			}
			a := rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.MakeASPath(rib.Segment{
				Type: rib.SegmentSequence, ASNs: []uint32{as, as, 1000 + uint32(from%7919), 100_000 + uint32(from)}})}
			if table[from].Prefix.Addr().Is6() {
				a.NextHop = netip.MustParseAddr("2001:db8::1")
			}
			messages = append(messages, announcement(table[from:to], a)...)
			from = to
		}
		return append(messages, endsOfRIB()...)
	}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	first, second := startFeeder(b, "127.77.1.1", 64501, false), startFeeder(b, "127.77.1.2", 64502, false)
	streams := [][]byte{stream(64501), stream(64502)}
	before := heap()
	s := ingest(b, first.peer(""), second.peer(""))
	one, two := <-first.up, <-second.up
	one.send(b, streams[0])
	s.watch(b, func(g *rib.Generation) bool { return g.V4+g.V6 == len(table) })
	time.Sleep(2 * time.Second) // for the index, and the generation before to go
	with := heap()
	two.send(b, streams[1])
	s.ready(b)
	time.Sleep(2 * time.Second)
	routes := float64(len(table))
	b.ReportMetric((with-before)/routes, "B/route")
	b.ReportMetric((heap()-with)/routes, "B/further-path")
	b.ReportMetric(0, "ns/op")
}
