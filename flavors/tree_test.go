package flavors

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// contains tells whether mask m contains key.
func contains(m lpm.Route6, key Key) bool { return clip(key, int(m.Bits)) == m.Addr }

// slowMatch is the meaning of a longest match: a look at every mask.
func slowMatch(masks []lpm.Route6, key Key) lpm.Handle {
	best, bits := lpm.None, -1
	for _, m := range masks {
		if contains(m, key) && int(m.Bits) >= bits { // later of equals
			best, bits = m.Handle, int(m.Bits)
		}
	}
	return best
}

// Trees of any key length from 1 to 128 bits and any strides, both flavors, against a look at
// every mask.
func TestTreesOfEveryWidth(t *testing.T) {
	for width := 1; width <= MaxWidth; width++ {
		r := rand.New(rand.NewPCG(uint64(width), 9))
		list := randomStrides(r, width, 12)
		st := strides(t, width, list...)
		masks := make([]lpm.Route6, 1+r.IntN(60))
		for i := range masks {
			masks[i] = randomMask(r, width)
			masks[i].Handle = lpm.Handle(i + 1)
		}
		keys := make([]Key, 300)
		for i := range keys {
			keys[i] = clip(randomMask(r, width).Addr, width)
			if i%2 == 0 {
				m := masks[r.IntN(len(masks))]
				host := clip(Key{Hi: r.Uint64(), Lo: r.Uint64()}, width)
				under := clip(host, int(m.Bits))
				keys[i] = Key{Hi: m.Addr.Hi | (host.Hi ^ under.Hi), Lo: m.Addr.Lo | (host.Lo ^ under.Lo)}
			}
		}
		for _, f := range []Flavor{Pushed, List} {
			tree, err := NewTree(st, f, masks)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]lpm.Handle, len(keys))
			tree.Match(got, keys)
			for i, k := range keys {
				if want := slowMatch(masks, k); got[i] != want {
					t.Fatalf("width %d, strides %v, flavor %s: match of %x is %d, want %d", width, list, f, k, got[i], want)
				}
			}
		}
	}
}

// A tree that was edited is the tree that would have been built: same answers, and no more
// nodes than a build makes.
func TestEditedTreeIsTheBuiltOne(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 10))
		width := 1 + r.IntN(MaxWidth)
		st := strides(t, width, randomStrides(r, width, 10)...)
		flavor := []Flavor{Pushed, List}[seed%2]
		tree, err := NewTree(st, flavor, nil)
		if err != nil {
			t.Fatal(err)
		}
		have := map[lpm.Route6]lpm.Handle{}
		next := lpm.Handle(1)
		for range 20 {
			var changes []lpm.Route6
			for range r.IntN(20) {
				m := randomMask(r, width)
				m.Handle = next
				next++
				changes = append(changes, m)
			}
			for m := range have {
				if r.IntN(2) == 0 {
					m.Handle = lpm.None
					changes = append(changes, m)
				}
			}
			before := slices.Clone(changes)
			tree = tree.Edit(changes)
			if !slices.Equal(before, changes) {
				t.Fatal("Edit changed its argument")
			}
			for _, m := range changes {
				h := m.Handle
				m.Handle = 0
				if delete(have, m); h != lpm.None {
					have[m] = h
				}
			}
		}
		var masks []lpm.Route6
		for m, h := range have {
			m.Handle = h
			masks = append(masks, m)
		}
		built, err := NewTree(st, flavor, masks)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Len() != built.Len() || tree.Len() != len(masks) {
			t.Fatalf("seed %d: edited tree has %d masks, built one %d, want %d", seed, tree.Len(), built.Len(), len(masks))
		}
		a, b := tree.Info(), built.Info()
		for l := range a {
			if a[l].Nodes != b[l].Nodes || a[l].Masks != b[l].Masks || !slices.Equal(trimZeros(a[l].ListLengths), trimZeros(b[l].ListLengths)) {
				t.Fatalf("seed %d, strides %v, level %d: edited %+v, built %+v", seed, st.list, l, a[l], b[l])
			}
		}
		type item struct {
			key    Key
			length int
			h      lpm.Handle
		}
		all := func(t *Tree) (items []item) {
			t.All(func(k Key, n int, h lpm.Handle) bool { items = append(items, item{k, n, h}); return true })
			return items
		}
		if !slices.Equal(all(tree), all(built)) {
			t.Fatalf("seed %d: edited and built trees list different masks", seed)
		}
		keys := make([]Key, 500)
		for i := range keys {
			keys[i] = clip(randomMask(r, width).Addr, width)
		}
		got, want := make([]lpm.Handle, len(keys)), make([]lpm.Handle, len(keys))
		tree.Match(got, keys)
		built.Match(want, keys)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: edited and built trees match differently", seed)
		}
	}
}

func trimZeros(s []int) []int {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	return s
}

// The image does not depend on the order of the input.
func TestImageDependsOnlyOnTheSet(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 12))
		width := 1 + r.IntN(MaxWidth)
		st := strides(t, width, randomStrides(r, width, 10)...)
		set := map[lpm.Route6]bool{}
		for range 200 {
			m := randomMask(r, width)
			m.Handle = lpm.Handle(1 + len(set))
			set[lpm.Route6{Addr: m.Addr, Bits: m.Bits}] = true
		}
		var masks []lpm.Route6
		for m := range set {
			m.Handle = lpm.Handle(len(masks) + 1)
			masks = append(masks, m)
		}
		for _, f := range []Flavor{Pushed, List} {
			first, err := BuildMasks(st, SortMasks(width, masks), f)
			if err != nil {
				t.Fatal(err)
			}
			r.Shuffle(len(masks), func(i, j int) { masks[i], masks[j] = masks[j], masks[i] })
			second, err := BuildMasks(st, SortMasks(width, masks), f)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(first.Cells, second.Cells) || !slices.Equal(first.Starts, second.Starts) || !slices.Equal(first.Entries, second.Entries) {
				t.Fatalf("seed %d, flavor %s: the image depends on the order of the input", seed, f)
			}
		}
	}
}

func TestKeyTreesOfEveryWidth(t *testing.T) {
	for width := 1; width <= MaxWidth; width++ {
		r := rand.New(rand.NewPCG(uint64(width), 13))
		st := strides(t, width, randomStrides(r, width, 11)...)
		keys := make([]Key, 1+r.IntN(500))
		first := map[Key]int{}
		for i := range keys {
			keys[i] = clip(Key{Hi: r.Uint64(), Lo: r.Uint64()}, width)
			if r.IntN(4) == 0 {
				keys[i] = clip(randomMask(r, width).Addr, width)
			}
			if _, ok := first[keys[i]]; !ok {
				first[keys[i]] = i
			}
		}
		tree, err := NewKeyTree(st, keys)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Len() != len(first) {
			t.Fatalf("width %d: %d keys, want %d", width, tree.Len(), len(first))
		}
		probe := slices.Clone(keys)
		for range 200 {
			probe = append(probe, clip(Key{Hi: r.Uint64(), Lo: r.Uint64()}, width))
		}
		got := make([]int32, len(probe))
		tree.FindAll(got, probe)
		for i, k := range probe {
			want, ok := first[k]
			if !ok {
				want = NotFound
			}
			if int(got[i]) != want {
				t.Fatalf("width %d: find %x: %d, want %d", width, k, got[i], want)
			}
		}
	}
}

func TestStridesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		width int
		list  []int
	}{{0, nil}, {129, []int{26, 26, 26, 26, 25}}, {32, []int{16, 8}}, {32, []int{16, 8, 9}}, {32, []int{27, 5}}, {32, []int{32, 0}}, {8, []int{-1, 9}}, {8, nil}} {
		if _, err := NewStrides(c.width, c.list); err == nil {
			t.Errorf("width %d, strides %v: accepted", c.width, c.list)
		}
	}
	for text, want := range map[string][]int{"16,8,8": {16, 8, 8}, "16+8+8": {16, 8, 8}, "16, 16": {16, 16}} {
		if got, err := ParseStrides(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("parse %q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "16,x", "a", ",,"} {
		if list, err := ParseStrides(text); err == nil {
			t.Errorf("parse %q: %v", text, list)
		}
	}
}

// FuzzEdit runs a stream of changes, four bytes each, against a map.
func FuzzEdit(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x00\x00\x00\x10\x20\x30\x08\x10\x20\x30\x18\x10\x20\x30\x88"))
	f.Add(uint64(7), []byte{255, 255, 255, 32, 255, 255, 255, 160, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) {
		if len(ops) > 4*64 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		const width = 24
		st := strides(t, width, randomStrides(r, width, 9)...)
		flavor := []Flavor{Pushed, List}[seed%2]
		tree, err := NewTree(st, flavor, nil)
		if err != nil {
			t.Fatal(err)
		}
		have := map[lpm.Route6]lpm.Handle{}
		var keys []Key
		for i := 0; i+4 <= len(ops); i += 4 {
			op := ops[i : i+4]
			bits := int(op[3]&0x7f) % (width + 1)
			key := Key{Hi: uint64(op[0])<<56 | uint64(op[1])<<48 | uint64(op[2])<<40}
			keys = append(keys, key)
			m := lpm.Route6{Addr: clip(key, bits), Bits: uint8(bits)}
			change := m
			if op[3]&0x80 == 0 {
				change.Handle = lpm.Handle(i + 1)
				have[m] = change.Handle
			} else {
				delete(have, m)
			}
			tree = tree.Edit([]lpm.Route6{change})
		}
		var masks []lpm.Route6
		for m, h := range have {
			m.Handle = h
			masks = append(masks, m)
		}
		got := make([]lpm.Handle, len(keys))
		tree.Match(got, keys)
		for i, k := range keys {
			if want := slowMatch(masks, k); got[i] != want {
				t.Fatalf("strides %v, flavor %s: match %x: %d, want %d", st.list, flavor, k, got[i], want)
			}
		}
	})
}
