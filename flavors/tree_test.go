package flavors

import (
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
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
			if tree, err = tree.Edit(changes); err != nil {
				t.Fatal(err)
			}
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

// A cell numbers 2^31 cells of the next level. Where edits have used them up, one that needs
// another node fails and leaves the tree as it is.
func TestEditRefusesNodesThatNoCellCanNumber(t *testing.T) {
	tree, err := NewTree(strides(t, 32, 16, 8, 8), Pushed, []lpm.Route6{{Addr: Key{Hi: 10 << 56}, Bits: 24, Handle: 1}})
	if err != nil {
		t.Fatal(err)
	}
	lv := &tree.levels[1]
	for len(lv.pages) < childBit>>pageBits { // as many cells, all in one page
		lv.pages = append(lv.pages, &emptyPage)
	}
	lv.nodes = 1<<(31-lv.stride) - 1
	keys := []Key{{Hi: 10 << 56}, {Hi: 11 << 56}, {Hi: 12 << 56}}
	last, err := tree.Edit([]lpm.Route6{{Addr: keys[1], Bits: 24, Handle: 2}})
	if err != nil {
		t.Fatalf("the last node: %v", err)
	}
	if _, err := last.Edit([]lpm.Route6{{Addr: keys[2], Bits: 24, Handle: 3}}); !errors.Is(err, ErrStrides) {
		t.Errorf("a node too many: error %v, want one about strides", err)
	}
	got := make([]lpm.Handle, len(keys))
	if last.Match(got, keys); !slices.Equal(got, []lpm.Handle{1, 2, 0}) {
		t.Errorf("after the refused edit: %v", got)
	}
	if _, err := last.Edit([]lpm.Route6{{Addr: keys[1], Bits: 24}, {Addr: keys[2], Bits: 24, Handle: 3}}); err != nil {
		t.Errorf("a node for one given back: %v", err)
	}
}

// An edit copies a container once, not for every mask that comes or goes.
func TestEditCopiesAContainerOnce(t *testing.T) {
	const n, changed = 1 << 16, 1000
	masks := make([]lpm.Route6, n)
	for i := range masks {
		masks[i] = lpm.Route6{Addr: Key{Hi: uint64(i) << 48}, Bits: 16, Handle: lpm.Handle(i + 1)}
	}
	tree, err := NewTree(strides(t, 32, 16, 8, 8), Pushed, masks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range changed { // half go, half get another handle, which is a way out and in again
		masks[i].Handle = lpm.Handle(i % 2 * (n + i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err = tree.Edit(masks[:changed]); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if size := after.TotalAlloc - before.TotalAlloc; size > 8*n*8 {
		t.Errorf("an edit of %d masks of one container of %d KiB allocates %d KiB", changed, n*8>>10, size>>10)
	}
}

// Edits from one tree, each in a line of its own that takes and gives back nodes, do not see each
// other.
func TestBranchesOfEdits(t *testing.T) {
	const width = 16
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 14))
		st := strides(t, width, randomStrides(r, width, 5)...)
		type branch struct {
			tree *Tree
			have map[lpm.Route6]lpm.Handle
		}
		empty, err := NewTree(st, []Flavor{Pushed, List}[seed%2], nil)
		if err != nil {
			t.Fatal(err)
		}
		branches := []branch{{empty, map[lpm.Route6]lpm.Handle{}}}
		for next := lpm.Handle(1); len(branches) < 60; {
			from := branches[r.IntN(len(branches))]
			have := maps.Clone(from.have)
			var changes []lpm.Route6
			for m := range have {
				if r.IntN(2) == 0 {
					changes = append(changes, m)
					delete(have, m)
				}
			}
			for range r.IntN(8) {
				m := randomMask(r, width)
				m.Handle = lpm.None
				have[m] = next
				changes = append(changes, lpm.Route6{Addr: m.Addr, Bits: m.Bits, Handle: next})
				next++
			}
			tree, err := from.tree.Edit(changes)
			if err != nil {
				t.Fatal(err)
			}
			branches = append(branches, branch{tree, have})
		}
		keys := make([]Key, 200)
		for i := range keys {
			keys[i] = clip(randomMask(r, width).Addr, width)
		}
		got := make([]lpm.Handle, len(keys))
		for n, b := range branches {
			var masks []lpm.Route6
			for m, h := range b.have {
				m.Handle = h
				masks = append(masks, m)
			}
			b.tree.Match(got, keys)
			for i, k := range keys {
				if want := slowMatch(masks, k); got[i] != want {
					t.Fatalf("seed %d, branch %d: match of %x is %d, want %d", seed, n, k, got[i], want)
				}
			}
			listed := 0
			b.tree.All(func(key Key, length int, h lpm.Handle) bool {
				listed++
				if want := b.have[lpm.Route6{Addr: key, Bits: uint8(length)}]; h != want {
					t.Errorf("seed %d, branch %d: lists %x/%d -> %d, want %d", seed, n, key, length, h, want)
				}
				return true
			})
			if listed != len(b.have) || b.tree.Len() != listed {
				t.Fatalf("seed %d, branch %d: lists %d masks, Len %d, want %d", seed, n, listed, b.tree.Len(), len(b.have))
			}
		}
	}
}

// Nothing is written behind the length of dst, even where its array goes on.
func TestMatchPanicsWhereDstIsTooShort(t *testing.T) {
	tree, err := NewTree(strides(t, 32, 16, 8, 8), Pushed, []lpm.Route6{{Handle: 1}})
	if err != nil {
		t.Fatal(err)
	}
	behind := make([]lpm.Handle, 9)
	for name, match := range map[string]func(){
		"Match":  func() { tree.Match(behind[:8], make([]Key, 9)) },
		"Match4": func() { tree.Match4(behind[:8], make([]uint32, 9)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s took 9 keys for a dst of 8", name)
				}
			}()
			match()
		}()
	}
	if behind[8] != lpm.None {
		t.Error("a handle was written behind dst")
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
			if tree, err = tree.Edit([]lpm.Route6{change}); err != nil {
				t.Fatal(err)
			}
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
