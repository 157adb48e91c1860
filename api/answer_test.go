package api

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unique"

	"github.com/ribwarp/ribwarp/rib"
)

// refAnswer is the answer as encoding/json writes it: what AppendAnswer must equal.
type refAnswer struct {
	IP          string   `json:"ip"`
	Prefix      *string  `json:"prefix"`
	NextHop     *string  `json:"next_hop"`
	ASPath      []any    `json:"as_path"`
	Origins     []uint32 `json:"origin_asns"`
	Communities []string `json:"communities"`
	Generation  uint64   `json:"generation"`
}

func refOf(ip netip.Addr, rt rib.Route, gen uint64) refAnswer {
	ref := refAnswer{IP: ip.String(), ASPath: []any{}, Origins: []uint32{}, Communities: []string{}, Generation: gen}
	if !rt.Prefix.IsValid() {
		return ref
	}
	prefix := rt.Prefix.String()
	ref.Prefix = &prefix
	if rt.Path == (rib.Path{}) {
		return ref
	}
	at := rt.Path.Value()
	if at.NextHop.IsValid() {
		hop := at.NextHop.String()
		ref.NextHop = &hop
	}
	for seg := range at.ASPath.Segments() {
		if seg.Type == rib.SegmentSet || seg.Type == rib.SegmentConfedSet {
			ref.ASPath = append(ref.ASPath, append([]uint32{}, seg.ASNs...))
			continue
		}
		for _, as := range seg.ASNs {
			ref.ASPath = append(ref.ASPath, as)
		}
	}
	ref.Origins = append(ref.Origins, at.ASPath.Origins()...)
	ref.Communities = append(ref.Communities, at.Communities.Strings()...)
	ref.Communities = append(ref.Communities, at.LargeCommunities.Strings()...)
	ref.Communities = append(ref.Communities, at.ExtCommunities.Strings()...)
	return ref
}

func randomAttrs(r *rand.Rand) rib.Attrs {
	var at rib.Attrs
	switch r.IntN(4) {
	case 0:
		at.NextHop = netip.AddrFrom4([4]byte{192, 0, 2, byte(r.Uint32())})
	case 1:
		at.NextHop = netip.MustParseAddr("2001:db8::1")
	case 2:
		at.NextHop = netip.MustParseAddr(`fe80::1%eth"0`)
	}
	segs := make([]rib.Segment, r.IntN(4))
	for i := range segs {
		segs[i].Type = uint8(1 + r.IntN(4))
		segs[i].ASNs = make([]uint32, r.IntN(4))
		for j := range segs[i].ASNs {
			segs[i].ASNs[j] = r.Uint32() >> r.IntN(32)
		}
	}
	at.ASPath = rib.MakeASPath(segs...)
	standard := make([]uint32, r.IntN(3))
	for i := range standard {
		standard[i] = r.Uint32()
	}
	at.Communities = rib.MakeCommunities(standard...)
	large := make([][3]uint32, r.IntN(3))
	for i := range large {
		large[i] = [3]uint32{r.Uint32(), r.Uint32N(10), r.Uint32()}
	}
	at.LargeCommunities = rib.MakeLargeCommunities(large...)
	ext := make([][8]byte, r.IntN(3))
	for i := range ext {
		for j := range ext[i] {
			ext[i][j] = byte(r.Uint32() >> r.IntN(32))
		}
	}
	at.ExtCommunities = rib.MakeExtCommunities(ext...)
	return at
}

func TestAnswerEqualsEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	prefixes := []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/32")}
	for range 5000 {
		ip := netip.AddrFrom4([4]byte{byte(r.Uint32()), 2, 3, 4})
		if r.IntN(2) == 0 {
			var b [16]byte
			for i := range b {
				b[i] = byte(r.Uint32() >> r.IntN(32))
			}
			b[0] = 0x20 // not IPv4-mapped: lookups answer those as IPv4
			ip = netip.AddrFrom16(b)
		}
		rt := rib.Route{Prefix: prefixes[r.IntN(len(prefixes))]}
		if r.IntN(10) > 0 {
			rt.Path = unique.Make(randomAttrs(r))
		}
		gen := r.Uint64() >> r.IntN(64)
		got, err := json.Marshal(Answer{ip, rt, gen})
		if err != nil {
			t.Fatalf("%v: %s", err, AppendAnswer(nil, ip, rt, gen))
		}
		want, err := json.Marshal(refOf(ip, rt, gen))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAppendAnswerAllocatesNothing(t *testing.T) {
	at := testAttrs
	at.ExtCommunities = ""
	rt := route("192.0.2.0/24", at)
	ip := netip.MustParseAddr("192.0.2.1")
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = AppendAnswer(buf[:0], ip, rt, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAnswerSurvivesDamagedPackedAttributes(t *testing.T) {
	for _, path := range []rib.ASPath{"\x02", "\x02\x05\x00\x00", "\x01\xff\x00\x00\x00\x01", "\x07\x00"} {
		at := rib.Attrs{ASPath: path, Communities: "\x01\x02\x03", LargeCommunities: "123", ExtCommunities: "1"}
		got := AppendAnswer(nil, netip.MustParseAddr("192.0.2.1"), rib.Route{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Path: unique.Make(at)}, 1)
		if !json.Valid(got) {
			t.Errorf("path %q: %s", path, got)
		}
	}
}

func BenchmarkAppendAnswer(b *testing.B) {
	at := plainAttrs
	at.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, 3356, 174, 4200000000, 64510}})
	at.Communities = rib.MakeCommunities(64500<<16|1, 64500<<16|2, 3356<<16|100, 3356<<16|2000)
	rt := route("192.0.2.0/24", at)
	ip := netip.MustParseAddr("192.0.2.1")
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendAnswer(buf[:0], ip, rt, 12345)
	}
	b.SetBytes(int64(len(buf)))
}
