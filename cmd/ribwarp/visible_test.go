package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jwhited/corebgp"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
)

// router is the other end of a session: it hands over where to write UPDATEs.
type router struct {
	up chan corebgp.UpdateMessageWriter
}

func (r router) GetCapabilities(corebgp.PeerConfig) []corebgp.Capability {
	return []corebgp.Capability{corebgp.NewMPExtensionsCapability(corebgp.AFI_IPV4, corebgp.SAFI_UNICAST)}
}

func (r router) OnOpenMessage(corebgp.PeerConfig, netip.Addr, []corebgp.Capability) *corebgp.Notification {
	return nil
}

func (r router) OnEstablished(_ corebgp.PeerConfig, w corebgp.UpdateMessageWriter) corebgp.UpdateMessageHandler {
	r.up <- w
	return func(corebgp.PeerConfig, []byte) *corebgp.Notification { return nil }
}

func (r router) OnClose(corebgp.PeerConfig) {}

// startRouter runs a router that waits for a session and gives its port.
func startRouter(tb testing.TB, as, peerAS uint32) (port int, up <-chan corebgp.UpdateMessageWriter) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s, err := corebgp.NewServer(netip.MustParseAddr("127.0.0.2"))
	if err != nil {
		tb.Fatal(err)
	}
	r := router{up: make(chan corebgp.UpdateMessageWriter, 1)}
	err = s.AddPeer(corebgp.PeerConfig{RemoteAddress: netip.MustParseAddr("127.0.0.1"), LocalAS: as, RemoteAS: peerAS}, r, corebgp.WithPassive())
	if err != nil {
		tb.Fatal(err)
	}
	go func() { _ = s.Serve([]net.Listener{l}) }()
	tb.Cleanup(s.Close)
	return l.Addr().(*net.TCPAddr).Port, r.up
}

// change is the body of an UPDATE that announces or withdraws one IPv4 prefix.
func change(tb testing.TB, p netip.Prefix, announce bool) []byte {
	tb.Helper()
	nlri := []*bgp.IPAddrPrefix{bgp.NewIPAddrPrefix(uint8(p.Bits()), p.Addr().String())}
	m := bgp.NewBGPUpdateMessage(nlri, nil, nil)
	if announce {
		m = bgp.NewBGPUpdateMessage(nil, []bgp.PathAttributeInterface{
			bgp.NewPathAttributeOrigin(0),
			bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(2, []uint32{64502})}),
			bgp.NewPathAttributeNextHop("192.0.2.1"),
		}, nlri)
	}
	body, err := m.Body.Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// BenchmarkChangeToVisible sends b.N changes of single routes, 1,000 a second, over a BGP session
// to a service that holds the full table, and reports how long each took from the write to the
// session until lookups saw it. Run it with -benchtime=30000x for half a minute of changes.
func BenchmarkChangeToVisible(b *testing.B) {
	const perSecond = 1000
	port, up := startRouter(b, 64502, 64501)
	ctx, cancel := context.WithCancel(context.Background())
	a := &app{stdout: io.Discard, stderr: io.Discard, log: slog.New(slog.DiscardHandler)}
	o := &serveOptions{
		listen: "127.0.0.1:0", asn: 64501, routerID: "127.0.0.1", holdTime: 90 * time.Second,
		peers: []string{fmt.Sprintf("127.0.0.1,asn=64502,port=%d", port)},
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
	w := <-up
	if err := w.WriteUpdate(make([]byte, 4)); err != nil { // End-of-RIB
		b.Fatal(err)
	}
	for ok := false; !ok; ok, _ = s.publisher.Ready() {
		time.Sleep(10 * time.Millisecond)
	}

	// Prefixes outside the table, announced in one round and withdrawn in the next: the same one
	// changes every four seconds.
	prefixes := make([]netip.Prefix, 4096)
	for i := range prefixes {
		prefixes[i] = netip.PrefixFrom(lpm.Netip4(240<<24|uint32(i)<<8), 24)
	}
	bodies := [2][][]byte{}
	for round := range bodies {
		for _, p := range prefixes {
			bodies[round] = append(bodies[round], change(b, p, round == 0))
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
			body := bodies[0]
			if !announced(i) {
				body = bodies[1]
			}
			if err := w.WriteUpdate(body[i%len(prefixes)]); err != nil {
				b.Error(err)
				break
			}
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
			g := s.publisher.Generations().Acquire()
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
