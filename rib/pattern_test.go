package rib_test

import (
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

func sequence(asns ...uint32) rib.ASPath {
	return rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})
}

func set(path rib.ASPath, asns ...uint32) rib.ASPath {
	return path + rib.MakeASPath(rib.Segment{Type: rib.SegmentSet, ASNs: asns})
}

func TestPatterns(t *testing.T) {
	a := rib.Attrs{
		Communities:      rib.MakeCommunities(64500<<16|100, 65535<<16|666) + "\xfb", // one that is cut
		LargeCommunities: rib.MakeLargeCommunities([3]uint32{4_200_000_000, 1, 2}),
		ExtCommunities: rib.MakeExtCommunities(
			[8]byte{0, 2, 0xfb, 0xf4, 0, 0, 0, 1},             // rt:64500:1
			[8]byte{1, 3, 192, 0, 2, 1, 0, 7},                 // soo:192.0.2.1:7
			[8]byte{2, 2, 0xfa, 0x56, 0xea, 0, 0, 9},          // rt:4200000000:9
			[8]byte{0x40, 2, 0xfb, 0xf4, 0xff, 0xff, 0, 0xaa}, // not transitive
		),
	}
	for s, want := range map[string]bool{
		"64500:100": true, "64500:*": true, "*:100": true, "*:*": true, "64500:101": false, "64501:*": false, "65535:666": true,
		"4200000000:1:2": true, "4200000000:*:2": true, "*:*:*": true, "4200000000:2:*": false, "64500:1:2": false,
		"rt:64500:1": true, "RT:64500:*": true, "rt:*:1": true, "rt:64500:2": false, "soo:64500:1": false, "soo:192.0.2.1:7": true,
		"soo:192.0.2.1:*": true, "soo:*:7": true, "soo:192.0.2.2:*": false, "rt:4200000000:9": true, "rt:4200000000:*": true, "rt:*:9": true, "rt:*:8": false,
		"0x0002FBF400000001": true, "0x4002fbf4ffff00aa": true, "0X4002fbf4ffff00ab": false,
	} {
		p, err := rib.ParseCommunityPattern(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if got := p.In(&a); got != want {
			t.Errorf("%s: %v", s, got)
		}
		if p.In(&rib.Attrs{}) {
			t.Errorf("%s matches nothing", s)
		}
	}
}

func TestASPathExpressions(t *testing.T) {
	long := set(sequence(64500, 64501, 64502), 64503, 64504)
	confed := rib.MakeASPath(rib.Segment{Type: rib.SegmentConfedSequence, ASNs: []uint32{7, 8}}, rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{9}})
	for _, x := range []struct {
		expression string
		path       rib.ASPath
		want       bool
	}{
		{"^$", "", true}, {"^$", long, false}, {"_64501_", long, true}, {"_6450_", long, false}, {"_64503_", long, true}, {"_64504_$", long, true}, {"^64500_", long, true},
		{"^64501_", long, false}, {"_64500_64501_", long, true}, {"_64500_64502_", long, false}, {`\{64503,64504\}$`, long, true}, {`^\d+( 64501)+`, long, true},
		{"_7_8_", confed, true}, {"^_7", confed, true}, {"_8_", confed, true}, {"_9$", confed, true}, {"[0-9]+", "", false}, {`\_`, long, false},
	} {
		re, err := rib.ParseASPathPattern(x.expression)
		if err != nil {
			t.Errorf("%s: %v", x.expression, err)
			continue
		}
		if got := re.MatchString(x.path.String()); got != x.want {
			t.Errorf("%s on %q: %v", x.expression, x.path, got)
		}
	}
}
