package wire

import (
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// FuzzDecode feeds any bytes to the decoder: no panic gets out, whatever comes out is a valid
// masked prefix, and verdict, error and updates agree.
func FuzzDecode(f *testing.F) {
	good := [][]byte{origin, asPath, nextHop}
	for _, body := range [][]byte{
		update(net24, good, net10),
		update(net24, [][]byte{origin, asPath, nextHop, unreach6(netDoc48...), reach6(global, netDoc...)}, net10),
		update(nil, nil, nil),
		update(nil, [][]byte{unreach6()}, nil),
		update(nil, [][]byte{origin, asPath, nextHop, attr(transitive, 40, 5, 0, 5, 0, 9, 0, 1, 7)}, net10),
		update(nil, [][]byte{origin, asPath, nextHop, attr(optional, 14, 0, 2, 1)}, net10),
		update(nil, [][]byte{origin, asPath, nextHop, attr(transitive, 35, 0, 0, 0xfb, 0xf4)}, net10),
		update(nil, [][]byte{origin, attr(transitive, 17, sequence(64500)...), attr(wellKnown, 2, sequence2(23456)...), nextHop}, net10),
		update(nil, [][]byte{origin, asPath, nextHop, attr(transitive, 16, 0, 2, 0xfb, 0xf4, 0, 0, 0, 1)}, append([]byte{0, 0, 0, 1}, net10...)),
	} {
		for flags := range byte(16) {
			f.Add(body, flags)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, flags byte) {
		opt := Options{TwoByteAS: flags&1 > 0, AddPath4: flags&2 > 0, AddPath6: flags&4 > 0, External: flags&8 > 0}
		m, err := Decode(body, opt)
		if (err != nil) != (m.Verdict() == SessionReset) {
			t.Fatalf("error %v with verdict %v", err, m.Verdict())
		}
		if m.Verdict() == SessionReset && (len(m.Updates) > 0 || m.EndOfRIB != NoFamily) {
			t.Fatalf("a reset came with %+v", m)
		}
		if m.EndOfRIB != NoFamily && (len(m.Updates) > 0 || m.Damage != nil) {
			t.Fatalf("an End-of-RIB came with %+v", m)
		}
		for _, u := range m.Updates {
			if len(u.Reach)+len(u.Unreach) == 0 {
				t.Fatal("an update without prefixes")
			}
			if len(u.Reach) > 0 && (m.Verdict() == TreatAsWithdraw || !u.Attrs.NextHop.IsValid()) {
				t.Fatalf("announced with verdict %v, next hop %v", m.Verdict(), u.Attrs.NextHop)
			}
			for _, ns := range [][]rib.NLRI{u.Reach, u.Unreach} {
				for _, n := range ns {
					if !n.Prefix.IsValid() || n.Prefix != n.Prefix.Masked() {
						t.Fatalf("prefix %v", n.Prefix)
					}
				}
			}
			if len(u.Reach) > 0 && checkASPath([]byte(u.Attrs.ASPath), rib.SegmentConfedSet) != nil {
				t.Fatalf("AS path %x", string(u.Attrs.ASPath))
			}
		}
		list, _, ok := field(body)
		if ok {
			_, _ = NewDecoder(Options{Dumped: IPv6, TwoByteAS: opt.TwoByteAS}).Attributes(list)
		}
	})
}
