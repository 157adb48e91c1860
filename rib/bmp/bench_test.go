package bmp

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// BenchmarkStream is the way of a message from the connection to the RIB: a full table of one
// prefix a message, as FRR sends it.
func BenchmarkStream(b *testing.B) {
	var stream bytes.Buffer
	stream.Write(hello())
	stream.Write(up(pre1))
	for i := range b.N {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(i)<<8)
		stream.Write(monitor(pre1, announce(netip.PrefixFrom(netip.AddrFrom4(a), 24).String())))
	}
	home := rib.New(rib.Options{MaxPending: -1})
	s, err := New(Config{Log: slog.New(slog.DiscardHandler), Routers: []RouterConfig{{Name: "r", Addr: routerAddr, Port: 1}}},
		func(string) (*rib.RIB, error) { return home, nil }, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	r := s.routers["r"]
	b.ReportAllocs()
	b.ResetTimer()
	_ = s.serve(b.Context(), recording{&stream}, func() (*router, error) { return r, nil })
	if n := r.stats().Messages[RouteMonitoring]; n != uint64(b.N) {
		b.Fatalf("%d of %d messages", n, b.N)
	}
}
