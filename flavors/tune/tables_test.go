package tune

import (
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
)

// A table for tests: masks of one family.
type table struct {
	name  string
	width int
	masks []lpm.Route6
}

func (t table) sorted() *flavors.Sorted { return flavors.SortMasks(t.width, t.masks) }

// randomTable has masks of random lengths around a few places, nested and side by side.
func randomTable(r *rand.Rand, width, n int) table {
	t := table{name: "random", width: width}
	centre := flavors.Key{}
	for i := range n {
		if i%8 == 0 {
			centre = flavors.Key{Hi: r.Uint64(), Lo: r.Uint64()}
		}
		length := r.IntN(width + 1)
		keep := r.IntN(length + 1)
		begin, random := clip(centre, keep), flavors.Key{Hi: r.Uint64(), Lo: r.Uint64()}
		other := clip(random, keep)
		key := clip(flavors.Key{Hi: begin.Hi | random.Hi&^other.Hi, Lo: begin.Lo | random.Lo&^other.Lo}, length)
		t.masks = append(t.masks, lpm.Route6{Addr: key, Handle: lpm.Handle(i + 1), Bits: uint8(length)})
	}
	return t
}

// of makes a table of masks given by address and length.
func of(name string, width int, n int, mask func(i int) (flavors.Key, int)) table {
	t := table{name: name, width: width}
	for i := range n {
		key, length := mask(i)
		t.masks = append(t.masks, lpm.Route6{Addr: clip(key, length), Handle: lpm.Handle(i + 1), Bits: uint8(length)})
	}
	return t
}

// heldOut are tables of shapes that no model was fitted to: n masks each.
func heldOut(n int, seed uint64) []table {
	r := rand.New(rand.NewPCG(seed, 8))
	unicast := func() flavors.Key { return flavors.Key{Hi: r.Uint64()>>1&^(1<<62) | 1<<61} }
	block := func() flavors.Key { return flavors.Key{Hi: 0x2000<<48 | r.Uint64()>>3} }
	var centre flavors.Key
	return []table{
		of("all /24", 32, n, func(int) (flavors.Key, int) { return unicast(), 24 }),
		of("deep chains", 32, n, func(i int) (flavors.Key, int) {
			if i%25 == 0 {
				centre = unicast()
			}
			return centre, 8 + i%25
		}),
		of("few long lists", 32, n, func(i int) (flavors.Key, int) {
			if i%4096 == 0 {
				centre = clip(unicast(), 16)
			}
			return flavors.Key{Hi: centre.Hi | r.Uint64()>>16}, 25 + r.IntN(8)
		}),
		of("all /48", 128, n, func(int) (flavors.Key, int) { return block(), 48 }),
		of("deep chains", 128, n, func(i int) (flavors.Key, int) {
			if i%45 == 0 {
				centre = block()
			}
			return centre, 20 + i%45
		}),
		of("few long lists", 128, n, func(i int) (flavors.Key, int) {
			if i%4096 == 0 {
				centre = clip(block(), 32)
			}
			return flavors.Key{Hi: centre.Hi | r.Uint64()>>32}, 49 + r.IntN(16)
		}),
	}
}

// generated are both families of a generated full table, or one of another size.
func generated(seed uint64, v4, v6 int) []table {
	var rs lpm.Routes
	for i, p := range fixtures.Generate(seed, v4, v6).Prefixes() {
		rs.Add(p, lpm.Handle(i+1))
	}
	return families("generated", rs)
}

// realTables are both families of the real table.
func realTables(tb testing.TB) []table {
	var rs lpm.Routes
	for _, name := range []string{"ris-2026-05-11-as3333-v4.txt.gz", "ris-2026-05-11-as3333-v6.txt.gz"} {
		for i, p := range fixtures.Prefixes(tb, name) {
			rs.Add(p, lpm.Handle(i+1))
		}
	}
	return families("real", rs)
}

func families(name string, rs lpm.Routes) []table {
	v4 := table{name: name, width: 32}
	for _, r := range rs.V4 {
		v4.masks = append(v4.masks, lpm.Route6{Addr: flavors.Key{Hi: uint64(r.Addr) << 32}, Handle: r.Handle, Bits: r.Bits})
	}
	return []table{v4, {name: name, width: 128, masks: rs.V6}}
}
