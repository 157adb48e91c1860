package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// countEngine makes tables of nothing: these tests look at a generation's routes. It counts those
// that are open.
type countEngine struct {
	lpm.Engine
	open *atomic.Int64
}

func (countEngine) Name() string { return "count" }

func (e countEngine) Build(context.Context, lpm.Routes) (lpm.Table, error) {
	e.open.Add(1)
	return countTable{open: e.open}, nil
}

func (e countEngine) Update(ctx context.Context, _ lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	return e.Build(ctx, changes)
}

type countTable struct {
	lpm.Table
	open *atomic.Int64
}

func (t countTable) Close() error {
	t.open.Add(-1)
	return nil
}

var quiet = slog.New(slog.DiscardHandler)

// A service is some tables with the same peers in each.
type service struct {
	tables map[string]*table
	names  []string
	open   atomic.Int64 // tables of engines
}

type table struct {
	rib       *rib.RIB
	publisher *rib.Publisher
	peers     map[string]*rib.Peer
}

func newService(t testing.TB, names []string, peers ...rib.PeerConfig) *service {
	t.Helper()
	s := &service{tables: map[string]*table{}, names: names}
	for _, name := range names {
		r := rib.New(rib.Options{Log: quiet})
		s.tables[name] = &table{r, rib.NewPublisher(r, countEngine{open: &s.open}, rib.PublisherOptions{Log: quiet}), map[string]*rib.Peer{}}
		for _, c := range peers {
			p, err := r.AddPeer(c)
			if err != nil {
				t.Fatal(err)
			}
			s.tables[name].peers[c.Name] = p
		}
	}
	return s
}

func (s *service) sources() (all []Source) {
	for _, name := range s.names {
		all = append(all, Source{name, s.tables[name].publisher})
	}
	return all
}

func (s *service) find(name string, p Peer) *rib.Peer {
	if t := s.tables[name]; t != nil {
		return t.peers[p.Name]
	}
	return nil
}

// publish makes all visible.
func (s *service) publish(t testing.TB) {
	t.Helper()
	for _, name := range s.names {
		if err := s.tables[name].publisher.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *service) saver(path string) *Saver {
	return NewSaver(SaverOptions{Path: path, Sources: s.sources, Log: quiet})
}

// restored restores a file as a service does at its start.
func (s *service) restored(t testing.TB, path string) (*Saver, Restored) {
	t.Helper()
	saver := s.saver(path)
	r, err := saver.Restore(context.Background(), s.find)
	if err != nil {
		t.Fatal(err)
	}
	return saver, r
}

// A route is what a file has to give back.
type route struct {
	table, peer string
	attrs       rib.Attrs
	id          uint32
	stale       bool
}

// routes gives all that is published; stale ones with forget as if they were not.
func (s *service) routes(forget bool) map[string]route {
	all := map[string]route{}
	for _, name := range s.names {
		g := s.tables[name].publisher.Generations().Acquire()
		if g == nil {
			continue
		}
		for h := range g.Routes.Len() {
			if r := g.Routes.At(h); r != (rib.Route{}) {
				all[name+" "+r.Prefix.String()] = route{name, r.Peer.Name(), r.Path.Value(), r.PathID, r.Stale && !forget}
			}
		}
		g.Release()
	}
	return all
}

// encode makes the bytes of a file.
func (s *service) encode(t testing.TB, now time.Time) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newWriter(&b, now)
	for _, source := range s.sources() {
		g := source.Publisher.Generations().Acquire()
		w.generation(source.Table, g, source.Publisher.Withheld(g), func(p *rib.Peer) time.Time { return p.Status().StaleSince })
		g.Release()
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(b []byte) (*Saved, error) { return read(bytes.NewReader(b), int64(len(b))) }

func save(t testing.TB, s *Saver) {
	t.Helper()
	if err := s.SaveNow(); err != nil {
		t.Fatal(err)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// reseal makes the checksums of a file right, as far as it has the form of one.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize {
		return b
	}
	sum := uint32(0)
	seal := func(from, to int) {
		sum = crc32.Update(sum, castagnoli, b[from:to])
		binary.LittleEndian.PutUint32(b[to:], sum)
	}
	seal(0, headerSize-4)
	for at := headerSize; len(b)-at >= blockStart+4; {
		n := int64(binary.LittleEndian.Uint32(b[at:]))
		if n > int64(len(b)-at-blockStart-4) {
			break
		}
		end := at + blockStart + int(n)
		seal(at, end)
		at = end + 4
	}
	return b
}

// Random worlds.

var somePeers = []rib.PeerConfig{
	{Name: "a", Kind: rib.KindBGP, Addr: netip.MustParseAddr("192.0.2.1"), AS: 64501, RouterID: netip.MustParseAddr("10.0.0.1")},
	{Name: "b, of six", Kind: rib.KindBGP, Addr: netip.MustParseAddr("fe80::1%eth0"), AS: 4200000000},
	{Name: "router/192.0.2.9", Kind: rib.KindBMP, Addr: netip.MustParseAddr("::ffff:192.0.2.9"), AS: 64502},
	{Name: "dump", Kind: rib.KindMRT, Addr: netip.MustParseAddr("2001:db8::1"), AS: 64503},
	{Name: "list", Kind: rib.KindList},
}

func packed(r *rand.Rand, size int) string {
	if r.IntN(3) > 0 {
		return ""
	}
	b := make([]byte, size*(1+r.IntN(4)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func someAttrs(r *rand.Rand) (a rib.Attrs) {
	switch r.IntN(4) {
	case 0:
		a.NextHop = netip.AddrFrom4([4]byte{192, 0, 2, byte(r.Uint32())})
	case 1:
		a.NextHop = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(r.Uint32())})
	case 2:
		a.NextHop = netip.MustParseAddr("::ffff:192.0.2.1")
	}
	for range r.IntN(3) {
		s := rib.Segment{Type: 1 + uint8(r.IntN(4)), ASNs: make([]uint32, r.IntN(400)/(1+r.IntN(200)))}
		for i := range s.ASNs {
			s.ASNs[i] = r.Uint32()
		}
		a.ASPath += rib.MakeASPath(s)
	}
	a.Communities, a.LargeCommunities = rib.Communities(packed(r, 4)), rib.LargeCommunities(packed(r, 12))
	a.ExtCommunities = rib.ExtCommunities(packed(r, 8))
	a.Origin, a.ClusterListLen = uint8(r.IntN(3)), uint8(r.Uint32())
	if r.IntN(2) == 0 {
		a.MED, a.HasMED = r.Uint32(), true
	}
	if r.IntN(2) == 0 {
		a.LocalPref, a.HasLocalPref = 0, true // 0 is not "none"
	}
	if r.IntN(2) == 0 {
		a.OTC, a.HasOTC = r.Uint32(), true
	}
	if r.IntN(2) == 0 {
		a.OriginatorID = rib.RouterID{10, 0, 0, byte(r.Uint32())}
	}
	return a
}

func somePrefix(r *rand.Rand) netip.Prefix {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if r.IntN(2) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), r.IntN(33)).Masked()
	}
	if r.IntN(8) == 0 {
		b = netip.AddrFrom4([4]byte(b[:4])).As16() // IPv4-mapped
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), r.IntN(129)).Masked()
}

// someUpdates gives updates by peer and table; few is how many sets of attributes there are.
func someUpdates(r *rand.Rand, few, routes int) []rib.Update {
	updates := make([]rib.Update, 1+r.IntN(few))
	for i := range updates {
		updates[i].Attrs = someAttrs(r)
	}
	for range r.IntN(routes) {
		n := rib.NLRI{Prefix: somePrefix(r)}
		if r.IntN(3) == 0 {
			n.PathID = r.Uint32()
		}
		u := &updates[r.IntN(len(updates))]
		u.Reach = append(u.Reach, n)
	}
	return updates
}

// seeded gives the generator of a test and logs what it takes to run it again.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RIBWARP_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RIBWARP_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

func sprint(r route, ok bool) string {
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%#v", r)
}
