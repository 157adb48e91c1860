package exacttest

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// OutOfMemory has the first, the second and every further allocation of a change fail, one at a time. The change is then
// done in full, or it is an error that is memory and the table is as before, in what it finds, in its length and in All. open
// makes an empty table; after arm(n) the n-th allocation fails, and arm(0) says whether one has.
func OutOfMemory[K uint32 | uint64](t *testing.T, memory error, open func() exact.Table[K, uint32], arm func(n int) (failed bool)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	keys := make([]K, 6000)
	for i, p := range r.Perm(len(keys)) {
		keys[i] = K(p) * 0x9e3779b1
	}
	values := make([]uint32, len(keys))
	for i, k := range keys {
		values[i] = uint32(k) ^ 0x5555
	}
	changes := map[string]func(tab exact.Table[K, uint32]) (n, live int, err error){
		"insert": func(tab exact.Table[K, uint32]) (int, int, error) {
			n, err := tab.Insert(keys[1000:], values[1000:])
			return n, len(keys), err
		},
		"delete": func(tab exact.Table[K, uint32]) (int, int, error) {
			n, err := tab.Delete(keys[:1500])
			return n, 500, err
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			refused := 0
			for n := 1; ; n++ {
				tab := open()
				if _, err := tab.Insert(keys[:2000], values); err != nil {
					t.Fatal(err)
				}
				arm(n)
				changed, live, err := change(tab)
				failed := arm(0)
				from, to := 0, 2000
				switch {
				case err != nil && (!errors.Is(err, memory) || !failed || changed != 0):
					t.Fatalf("allocation %d: %d changed, %v", n, changed, err)
				case err != nil:
					refused++
				case live > 2000:
					to = live
				default:
					from = to - live
				}
				check(t, tab, n, keys, values, from, to)
				if err := tab.Close(); err != nil {
					t.Fatal(err)
				}
				if !failed {
					if refused == 0 && name == "insert" {
						t.Fatal("the table grew without memory")
					}
					return
				}
			}
		})
	}
}

// check wants exactly the pairs from to to.
func check[K uint32 | uint64](t *testing.T, tab exact.Table[K, uint32], n int, keys []K, values []uint32, from, to int) {
	t.Helper()
	got, found := make([]uint32, len(keys)), make([]bool, len(keys))
	if err := tab.Find(got, found, keys); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if found[i] != (i >= from && i < to) || found[i] && got[i] != values[i] {
			t.Fatalf("allocation %d: key %d, of %d to %d: %t, %#x", n, i, from, to, found[i], got[i])
		}
	}
	ks, vs, err := tab.All()
	if err != nil || len(ks) != to-from || tab.Len() != to-from {
		t.Fatalf("allocation %d: %d pairs, length %d, want %d: %v", n, len(ks), tab.Len(), to-from, err)
	}
	want := make(map[K]uint32, to-from)
	for i := from; i < to; i++ {
		want[keys[i]] = values[i]
	}
	for i, k := range ks {
		if v, ok := want[k]; !ok || v != vs[i] {
			t.Fatalf("allocation %d: pair %#x, %#x twice or never put in", n, k, vs[i])
		}
		delete(want, k)
	}
}
