package wire

import (
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

func TestASPathOfTwoByteSpeakers(t *testing.T) {
	set := func(asns ...uint32) []byte {
		b := sequence(asns...)
		b[0] = rib.SegmentSet
		return b
	}
	confed2 := append([]byte{rib.SegmentConfedSequence}, sequence2(65001)[1:]...)
	confed4 := append([]byte{rib.SegmentConfedSequence}, sequence(65001)[1:]...)
	as4 := func(asns ...uint32) []byte { return attr(transitive, 17, sequence(asns...)...) }
	for _, c := range []struct {
		name string
		path []byte
		more [][]byte
		want []byte
	}{
		{"without AS4_PATH", sequence2(64500, 64501), nil, sequence(64500, 64501)},
		{"all of it in AS4_PATH", sequence2(23456, 23456), [][]byte{as4(400000, 400001)}, sequence(400000, 400001)},
		{"the newest part only in AS_PATH", sequence2(64500, 23456, 64501), [][]byte{as4(400000, 64501)}, sequence(64500, 400000, 64501)},
		{"AS4_PATH longer than AS_PATH", sequence2(64500), [][]byte{as4(400000, 64501)}, sequence(64500)},
		{"a set at the end", slices.Concat(sequence2(64500, 23456), []byte{rib.SegmentSet, 2}, sequence2(1, 2)[2:]), [][]byte{attr(transitive, 17, slices.Concat(sequence(400000), set(1, 2))...)},
			slices.Concat(sequence(64500, 400000), set(1, 2))},
		{"a confederation in front", slices.Concat(confed2, sequence2(23456)), [][]byte{as4(400000)}, slices.Concat(confed4, sequence(400000))},
		{"a confederation in AS4_PATH", sequence2(64500, 23456), [][]byte{attr(transitive, 17, slices.Concat(confed4, sequence(400000))...)}, sequence(64500, 400000)},
		{"aggregated by an old speaker", sequence2(64500, 23456), [][]byte{as4(400000), attr(transitive, 7, 0xfb, 0xf4, 192, 0, 2, 1), attr(transitive, 18, 0, 6, 0x1a, 0x80, 192, 0, 2, 1)}, sequence(64500, 23456)},
		{"aggregated by a new speaker", sequence2(64500, 23456), [][]byte{as4(400000), attr(transitive, 7, 0x5b, 0xa0, 192, 0, 2, 1), attr(transitive, 18, 0, 6, 0x1a, 0x80, 192, 0, 2, 1)}, sequence(64500, 400000)},
		// The codec takes these bytes for 4-byte numbers, one in each of two segments.
		{"bytes that fit both sizes", slices.Concat(sequence2(5), sequence2(513, 1, 2)), nil, slices.Concat(sequence(5), sequence(513, 1, 2))},
		{"empty", nil, nil, nil},
	} {
		for _, order := range []string{"AS_PATH first", "AS_PATH last"} {
			t.Run(c.name+", "+order, func(t *testing.T) {
				list := slices.Concat([][]byte{origin, attr(wellKnown, 2, c.path...), nextHop}, c.more)
				if order == "AS_PATH last" {
					slices.Reverse(list)
				}
				m, err := Decode(update(nil, list, net10), Options{TwoByteAS: true})
				if err != nil || m.Damage != nil {
					t.Fatalf("error %v, damage %v", err, m.Damage)
				}
				if got := m.Updates[0].Attrs.ASPath; got != rib.ASPath(c.want) {
					t.Errorf("got  %x\nwant %x", string(got), c.want)
				}
			})
		}
	}
}

func TestAS4PathMeansNothingAmongNewSpeakers(t *testing.T) {
	m, err := Decode(update(nil, [][]byte{origin, asPath, nextHop, attr(transitive, 17, sequence(1, 2)...)}, net10), Options{})
	if err != nil || m.Verdict() != AttributeDiscard || m.Updates[0].Attrs.ASPath != rib.ASPath(sequence(64500, 64501)) {
		t.Errorf("got %+v, %v", m, err)
	}
}
