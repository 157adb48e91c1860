package rib

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func seq(asns ...uint32) Segment { return Segment{SegmentSequence, asns} }
func set(asns ...uint32) Segment { return Segment{SegmentSet, asns} }

func TestASPathReadings(t *testing.T) {
	long := make([]uint32, 300)
	for i := range long {
		long[i] = uint32(i + 1)
	}
	confed := Segment{SegmentConfedSequence, []uint32{65001, 65002}}
	confedSet := Segment{SegmentConfedSet, []uint32{65003, 65004}}
	for _, c := range []struct {
		name    string
		path    ASPath
		text    string
		length  int
		first   uint32
		origins []uint32
	}{
		{"empty", MakeASPath(), "", 0, 0, nil},
		{"empty segment", MakeASPath(seq()), "", 0, 0, nil},
		{"sequence", MakeASPath(seq(64500, 64501)), "64500 64501", 2, 64500, []uint32{64501}},
		{"4-byte AS", MakeASPath(seq(4200000000)), "4200000000", 1, 4200000000, []uint32{4200000000}},
		{"aggregate", MakeASPath(seq(64500, 64501), set(64502, 64503)), "64500 64501 {64502,64503}", 3, 64500, []uint32{64502, 64503}},
		{"only a set", MakeASPath(set(64502, 64503)), "{64502,64503}", 1, 0, []uint32{64502, 64503}},
		{"through a confederation", MakeASPath(confed, confedSet, seq(64500)), "(65001 65002) [65003,65004] 64500", 1, 64500, []uint32{64500}},
		{"inside a confederation", MakeASPath(confed), "(65001 65002)", 0, 0, nil},
		{"sequence of 300", MakeASPath(seq(long...)), "", 300, 1, []uint32{300}},
		{"cut segment", MakeASPath(seq(64500), seq(64501, 64502))[:12], "64500", 1, 64500, []uint32{64500}},
		{"segment of no AS", ASPath("\x02\x00"), "", 0, 0, nil},
		{"set of no AS in front", "\x01\x00" + MakeASPath(seq(64500)), "64500", 1, 64500, []uint32{64500}},
		{"set of no AS behind", MakeASPath(seq(64500)) + "\x01\x00", "64500", 1, 64500, []uint32{64500}},
		{"unknown segment type", MakeASPath(Segment{9, []uint32{7}}, seq(64500)), "7 64500", 1, 64500, []uint32{64500}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.path.String(); c.text != "" && got != c.text {
				t.Errorf("String: %q, want %q", got, c.text)
			}
			if got := c.path.Len(); got != c.length {
				t.Errorf("Len: %d, want %d", got, c.length)
			}
			if got := c.path.First(); got != c.first {
				t.Errorf("First: %d, want %d", got, c.first)
			}
			if got, want := c.path.HasSet(), strings.ContainsAny(c.path.String(), "{["); got != want {
				t.Errorf("HasSet: %t", got)
			}
			if got := c.path.Origins(); !slices.Equal(got, c.origins) {
				t.Errorf("Origins: %d, want %d", got, c.origins)
			}
		})
	}
}

func TestASPathContainsLooksIntoEverySegment(t *testing.T) {
	p := MakeASPath(Segment{SegmentConfedSequence, []uint32{1, 2}}, seq(3, 4), set(5, 6))
	for as := uint32(1); as <= 6; as++ {
		if !p.Contains(as) {
			t.Errorf("%s does not contain %d", p, as)
		}
	}
	if p.Contains(7) || ASPath("").Contains(0) {
		t.Error("contains an AS that is not there")
	}
}

func TestASPathRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var want []Segment
		for range rng.IntN(5) {
			s := Segment{Type: uint8(1 + rng.IntN(4))}
			for range 1 + rng.IntN(255) {
				s.ASNs = append(s.ASNs, rng.Uint32())
			}
			want = append(want, s)
		}
		got := slices.Collect(MakeASPath(want...).Segments())
		if !slices.EqualFunc(got, want, func(a, b Segment) bool { return a.Type == b.Type && slices.Equal(a.ASNs, b.ASNs) }) {
			t.Fatalf("seed %d: %v came back as %v", seed, want, got)
		}
	}
}

func FuzzASPathTakesAnyBytes(f *testing.F) {
	f.Add("")
	f.Add(string(MakeASPath(seq(1, 2), set(3))))
	f.Add("\x02\xff\x00\x00")
	f.Add("\x01\x000")
	f.Add("\x02\x00\x01\x01\x00\x00\x00\x07")
	f.Fuzz(func(t *testing.T, bytes string) {
		p := ASPath(bytes)
		n := 0
		for s := range p.Segments() {
			n += len(s.ASNs)
			for _, as := range s.ASNs {
				if !p.Contains(as) {
					t.Fatalf("%q lists %d and does not contain it", bytes, as)
				}
			}
		}
		if p.Len() > n {
			t.Fatalf("%q: length %d of %d AS numbers", bytes, p.Len(), n)
		}
		for _, as := range p.Origins() {
			if !p.Contains(as) {
				t.Fatalf("%q: origin %d is not in it", bytes, as)
			}
		}
		if first := p.First(); first != 0 && !p.Contains(first) {
			t.Fatalf("%q: first AS %d is not in it", bytes, first)
		}
		if strings.Contains(p.String(), "  ") {
			t.Fatalf("%q: %q", bytes, p)
		}
	})
}

func TestCommunityNotations(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"none", MakeCommunities().Strings(), nil},
		{"standard", MakeCommunities(65000<<16|100, 0xffffff01).Strings(), []string{"65000:100", "65535:65281"}},
		{"large", MakeLargeCommunities([3]uint32{64500, 1, 2}, [3]uint32{4200000000, 0, 4294967295}).Strings(),
			[]string{"64500:1:2", "4200000000:0:4294967295"}},
		{"route target, 2-byte AS", MakeExtCommunities([8]byte{0, 2, 0xfb, 0xf4, 0, 1, 0, 1}).Strings(), []string{"rt:64500:65537"}},
		{"site of origin, address", MakeExtCommunities([8]byte{1, 3, 192, 0, 2, 1, 1, 0}).Strings(), []string{"soo:192.0.2.1:256"}},
		{"route target, 4-byte AS", MakeExtCommunities([8]byte{2, 2, 0, 1, 0, 0, 0, 7}).Strings(), []string{"rt:65536:7"}},
		{"non-transitive", MakeExtCommunities([8]byte{0x40, 2, 0xfb, 0xf4, 0, 0, 0, 1}).Strings(), []string{"0x4002fbf400000001"}},
		{"other", MakeExtCommunities([8]byte{3, 0xc, 0, 0, 0, 0, 0, 8}).Strings(), []string{"0x030c000000000008"}},
		{"cut", Communities("\xfd\xe8\x00\x64\x01").Strings(), []string{"65000:100"}},
		{"large, cut", LargeCommunities("\x00\x01").Strings(), nil},
		{"extended, cut", ExtCommunities("\x00\x02\x00").Strings(), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}
