package tune

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
)

// checkCount compares a count with a real build.
func checkCount(t *testing.T, sh *Shape, s *flavors.Sorted, width int, list []int) {
	t.Helper()
	st, err := flavors.NewStrides(width, list)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		im, err := flavors.BuildMasks(st, s, f)
		if err != nil {
			t.Fatal(err)
		}
		got := sh.Count(list)
		if got.Cells != len(im.Cells) {
			t.Errorf("strides %v, %s: %d cells, a build has %d", list, f, got.Cells, len(im.Cells))
		}
		for l, n := range im.Nodes {
			if got.Nodes[l] != n {
				t.Fatalf("strides %v, %s, level %d: %d nodes, a build has %d", list, f, l, got.Nodes[l], n)
			}
		}
		var bytes uint64
		for _, l := range flavors.TreeOf(im, f).Info() {
			bytes += l.Bytes
		}
		if got.Bytes != bytes {
			t.Fatalf("strides %v, %s: %d bytes, a build has %d", list, f, got.Bytes, bytes)
		}
	}
}

func randomList(r *rand.Rand, width, widest int) (list []int) {
	for left := width; left > 0; {
		n := 1 + r.IntN(min(widest, left))
		list, left = append(list, n), left-n
	}
	return list
}

func TestCountIsThatOfABuild(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		width := 1 + r.IntN(flavors.MaxWidth)
		tab := randomTable(r, width, r.IntN(60))
		s := tab.sorted()
		sh := ShapeOf(width, s, InPrefix)
		for range 3 {
			checkCount(t, sh, s, width, randomList(r, width, 10))
		}
	}
	for _, tab := range append(heldOut(20_000, seed), generated(seed, 50_000, 20_000)...) {
		s := tab.sorted()
		sh := ShapeOf(tab.width, s, InPrefix)
		for range 3 {
			checkCount(t, sh, s, tab.width, Complete(tab.width, randomList(r, max(sh.Longest, 1), 10)))
		}
	}
}

// slowly counts what a Shape says of lookups, level by level and key by key.
func visitsOf(s *flavors.Sorted, width, d int, keys []flavors.Key) float64 {
	begins := map[flavors.Key]bool{}
	for i, hi := range s.Hi {
		if int(s.Bits[i]) > d {
			key := flavors.Key{Hi: hi}
			if s.Lo != nil {
				key.Lo = s.Lo[i]
			}
			begins[clip(key, d)] = true
		}
	}
	n := 0
	for _, k := range keys {
		if begins[clip(k, d)] {
			n++
		}
	}
	return float64(n) / float64(len(keys))
}

// What a shape says of visits is what is counted with keys that are drawn; of a sample exactly.
func TestVisitsAreThoseOfKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range 40 {
		width := []int{12, 32, 128}[i%3]
		s := randomTable(r, width, 1+r.IntN(40)).sorted()
		for kind, keys := range map[string]Keys{"in-prefix": InPrefix, "uniform": Uniform} {
			drawn := keys.Draw(width, s, 20_000, seed)
			sh := ShapeOf(width, s, keys)
			exact := ShapeOf(width, s, KeysOf(drawn))
			if sh.Visits[0] < 1-1e-9 || sh.Visits[0] > 1+1e-9 || exact.Visits[0] != 1 {
				t.Fatalf("%s keys of %d bits: %v of them, and %v, visit the root", kind, width, sh.Visits[0], exact.Visits[0])
			}
			for d := 1; d < width; d += 1 + r.IntN(4) {
				want := visitsOf(s, width, d, drawn)
				if math.Abs(sh.Visits[d]-want) > 0.03 {
					t.Fatalf("%s keys of %d bits: %.3f of them visit a level at bit %d, of those drawn %.3f", kind, width, sh.Visits[d], d, want)
				}
				if math.Abs(exact.Visits[d]-want) > 1e-9 {
					t.Fatalf("sample of %s keys of %d bits: %.6f of them visit a level at bit %d, counted %.6f", kind, width, exact.Visits[d], d, want)
				}
			}
		}
	}
}

// How lookups spread over lines, of a part of a node or of several, is what is counted with all keys of a short length.
func TestSpreadIsThatOfKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	const width = 12
	for range 60 {
		s := randomTable(r, width, 1+r.IntN(60)).sorted()
		sh := ShapeOf(width, s, Uniform)
		d := r.IntN(width)
		n := 1 + r.IntN(width-d)
		line := r.IntN(n + 5)
		lines := map[uint64]int{}
		begins := map[flavors.Key]bool{{}: d == 0}
		nodes := map[flavors.Key]int{} // by number, in order
		for i, hi := range s.Hi {
			if int(s.Bits[i]) > d {
				begins[clip(flavors.Key{Hi: hi}, d)] = true
			}
		}
		for k := range uint64(1 << width) {
			key := flavors.Key{Hi: k << (64 - width)}
			if !begins[clip(key, d)] {
				continue
			}
			if _, ok := nodes[clip(key, d)]; !ok {
				nodes[clip(key, d)] = len(nodes)
			}
			if line <= n {
				lines[clip(key, d+n-line).Hi]++
			} else {
				lines[uint64(nodes[clip(key, d)])>>(line-n)]++
			}
		}
		var want spread
		for _, k := range lines {
			want.add(math.Ldexp(float64(k), -width))
		}
		got := sh.cells(d, n, line)
		for b := range got {
			if math.Abs(got[b].count-want[b].count) > 1e-6 || math.Abs(got[b].mass-want[b].mass) > 1e-9 {
				t.Fatalf("level of %d bits at bit %d, %d nodes, lines of 2^%d cells: %.1f lines of class %d with %.6f of the keys, counted %.1f with %.6f",
					n, d, len(nodes), line, got[b].count, b, got[b].mass, want[b].count, want[b].mass)
			}
		}
	}
}

func TestShapeOfTheRealTables(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, tab := range realTables(t) {
		s := tab.sorted()
		sh := ShapeOf(tab.width, s, InPrefix)
		if sh.Visits[8] < 0.9 || sh.Visits[sh.Longest] != 0 {
			t.Errorf("%d bits: %v of the lookups visit a level at bit 8, %v one at bit %d", tab.width, sh.Visits[8], sh.Visits[sh.Longest], sh.Longest)
		}
		for _, list := range append(Fixed(tab.width)[:3], Complete(tab.width, randomList(r, sh.Longest, 12))) {
			checkCount(t, sh, s, tab.width, list)
		}
	}
}

func BenchmarkShape(b *testing.B) {
	for _, tab := range realTables(b) {
		s := tab.sorted()
		b.Run(map[int]string{32: "ipv4", 128: "ipv6"}[tab.width], func(b *testing.B) {
			for b.Loop() {
				ShapeOf(tab.width, s, InPrefix)
			}
		})
	}
}
