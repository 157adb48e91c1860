// Package exacttest is the suite that every exact.Table must pass.
package exacttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Most is the most pairs that Conformance has in a table: one that does not grow must take them.
const Most = 100_000

// Conformance checks tables. open makes an empty one, which the suite closes. key and value turn numbers into
// keys and values; different numbers below 2^32 must give different ones. special are keys that a table
// might take for a sign of its own; they must be different. With -short it does less.
func Conformance[K, V comparable](t *testing.T, open func(t *testing.T) exact.Table[K, V], key func(i uint64) K, value func(i uint64) V, special []K) {
	s := suite[K, V]{open: open, key: key, value: value, special: special}
	t.Run("empty", s.empty)
	t.Run("sizes", s.sizes)
	t.Run("duplicates", s.duplicates)
	t.Run("values of any kind", s.values)
	t.Run("special keys", s.specialKeys)
	t.Run("random streams", s.streams)
	t.Run("clone", s.clone)
	t.Run("concurrent", s.concurrent)
	t.Run("closed", s.closed)
}

type suite[K, V comparable] struct {
	open    func(t *testing.T) exact.Table[K, V]
	key     func(i uint64) K
	value   func(i uint64) V
	special []K
}

// table is open for the time of a test.
func (s *suite[K, V]) table(t *testing.T) exact.Table[K, V] {
	t.Helper()
	tab := s.open(t)
	t.Cleanup(func() { closeTable(t, tab) })
	return tab
}

func closeTable[K comparable, V any](t *testing.T, tab exact.Table[K, V]) {
	t.Helper()
	if err := tab.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// pairs gives the keys from..to-1 and their values, which differ with round.
func (s *suite[K, V]) pairs(from, to, round int) (keys []K, values []V) {
	for i := from; i < to; i++ {
		keys, values = append(keys, s.key(uint64(i))), append(values, s.value(uint64(i+round*10_000_019)))
	}
	return keys, values
}

// put, drop and same make one step and give what is wrong with its answer.
func put[K, V comparable](tab exact.Table[K, V], want map[K]V, keys []K, values []V) error {
	fresh := 0
	for i, k := range keys {
		if _, ok := want[k]; !ok {
			fresh++
		}
		want[k] = values[i]
	}
	added, err := tab.Insert(keys, values)
	switch {
	case err != nil:
		return fmt.Errorf("insert %d: %w", len(keys), err)
	case added != fresh:
		return fmt.Errorf("insert %d: %d added, %d were new", len(keys), added, fresh)
	}
	return nil
}

func drop[K, V comparable](tab exact.Table[K, V], want map[K]V, keys []K) error {
	there := 0
	for _, k := range keys {
		if _, ok := want[k]; ok {
			there++
		}
		delete(want, k)
	}
	deleted, err := tab.Delete(keys)
	switch {
	case err != nil:
		return fmt.Errorf("delete %d: %w", len(keys), err)
	case deleted != there:
		return fmt.Errorf("delete %d: %d deleted, %d were there", len(keys), deleted, there)
	}
	return nil
}

// find compares the answers for keys, with and without found.
func find[K, V comparable](tab exact.Table[K, V], want map[K]V, keys []K) error {
	values, alone, found := make([]V, len(keys)), make([]V, len(keys)), make([]bool, len(keys))
	var junk V
	for _, v := range want {
		junk = v
		break
	}
	for i := range keys {
		values[i], alone[i], found[i] = junk, junk, i%2 == 0 // all of it must be written
	}
	if err := tab.Find(values, found, keys); err != nil {
		return fmt.Errorf("find %d: %w", len(keys), err)
	}
	if err := tab.Find(alone, nil, keys); err != nil {
		return fmt.Errorf("find %d values: %w", len(keys), err)
	}
	for i, k := range keys {
		v, ok := want[k]
		if values[i] != v || found[i] != ok {
			return fmt.Errorf("key %v (%d of %d): found %v, %t; want %v, %t", k, i, len(keys), values[i], found[i], v, ok)
		}
		if alone[i] != v {
			return fmt.Errorf("key %v (%d of %d): without found the value is %v, want %v", k, i, len(keys), alone[i], v)
		}
	}
	return nil
}

// same compares Len and All with want.
func same[K, V comparable](tab exact.Table[K, V], want map[K]V) error {
	if n := tab.Len(); n != len(want) {
		return fmt.Errorf("length %d, want %d", n, len(want))
	}
	keys, values, err := tab.All()
	if err != nil {
		return fmt.Errorf("all: %w", err)
	}
	if len(keys) != len(want) || len(values) != len(want) {
		return fmt.Errorf("all: %d keys, %d values, want %d", len(keys), len(values), len(want))
	}
	seen := make(map[K]bool, len(keys))
	for i, k := range keys {
		if v, ok := want[k]; !ok || v != values[i] {
			return fmt.Errorf("all: key %v with %v, want %v, %t", k, values[i], v, ok)
		}
		if seen[k] {
			return fmt.Errorf("all: key %v twice", k)
		}
		seen[k] = true
	}
	return nil
}

// must fails the test on the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *suite[K, V]) empty(t *testing.T) {
	tab, want := s.table(t), map[K]V{}
	keys, _ := s.pairs(0, 100, 0)
	must(t, same(tab, want), find(tab, want, keys), find(tab, want, s.special), drop(tab, want, keys), drop(tab, want, s.special),
		put(tab, want, nil, nil), find(tab, want, nil), drop(tab, want, nil), same(tab, want))
}

func (s *suite[K, V]) sizes(t *testing.T) {
	sizes := []int{1, 2, 31, 32, 33, 1000, Most}
	if testing.Short() {
		sizes[len(sizes)-1] = 5000
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			tab, want := s.table(t), map[K]V{}
			keys, values := s.pairs(0, n, 0)
			others, _ := s.pairs(n, 2*n, 0)
			must(t, put(tab, want, keys, values), find(tab, want, keys), find(tab, want, others), same(tab, want))
			_, second := s.pairs(0, n, 1)
			must(t, put(tab, want, keys, second), find(tab, want, keys), same(tab, want))
			half := keys[:(n+1)/2]
			must(t, drop(tab, want, others), drop(tab, want, half), find(tab, want, keys), drop(tab, want, half), same(tab, want))
			_, third := s.pairs(0, n, 2)
			must(t, put(tab, want, keys, third), find(tab, want, keys), find(tab, want, others), same(tab, want))
			must(t, drop(tab, want, keys), find(tab, want, keys), same(tab, want))
			must(t, put(tab, want, half, values[:len(half)]), find(tab, want, keys), same(tab, want))
		})
	}
}

// duplicates has every key many times in one batch: it is counted once, and one of its values stays.
func (s *suite[K, V]) duplicates(t *testing.T) {
	const distinct = 37
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	for _, before := range []bool{false, true} {
		tab, want := s.table(t), map[K]V{}
		once, first := s.pairs(0, distinct, 9)
		fresh := distinct
		if before {
			must(t, put(tab, want, once, first))
			fresh = 0
		}
		given := map[K]map[V]bool{}
		var keys []K
		var values []V
		for i := range n {
			k, v := s.key(uint64(i%distinct)), s.value(uint64(i))
			if given[k] == nil {
				given[k] = map[V]bool{}
			}
			keys, values = append(keys, k), append(values, v)
			given[k][v] = true
		}
		added, err := tab.Insert(keys, values)
		must(t, err)
		if added != fresh {
			t.Fatalf("%d of %d new keys added, there before: %t", added, fresh, before)
		}
		got := make([]V, distinct)
		must(t, tab.Find(got, nil, once))
		for i, k := range once {
			if !given[k][got[i]] {
				t.Fatalf("key %v has %v, which no request gave it", k, got[i])
			}
			want[k] = got[i]
		}
		must(t, same(tab, want), drop(tab, want, keys), same(tab, want))
	}
}

// values stores the zero value and some more with one key after another.
func (s *suite[K, V]) values(t *testing.T) {
	tab, want := s.table(t), map[K]V{}
	keys, _ := s.pairs(0, 64, 0)
	var zero V
	for round := range 4 {
		values := make([]V, len(keys))
		for i := range values {
			if values[i] = zero; round%2 == 1 {
				values[i] = s.value(uint64(i + round))
			}
		}
		must(t, put(tab, want, keys, values), find(tab, want, keys), same(tab, want))
	}
}

func (s *suite[K, V]) specialKeys(t *testing.T) {
	tab, want := s.table(t), map[K]V{}
	ordinary, values := s.pairs(0, 500, 0)
	must(t, find(tab, want, s.special), put(tab, want, ordinary, values))
	for i, k := range s.special { // one after the other
		must(t, put(tab, want, []K{k}, []V{s.value(uint64(1000 + i))}), find(tab, want, s.special))
	}
	must(t, same(tab, want))
	_, second := s.pairs(0, len(s.special), 5)
	must(t, put(tab, want, s.special, second), find(tab, want, s.special), same(tab, want))
	for _, k := range s.special {
		must(t, drop(tab, want, []K{k, k}), find(tab, want, s.special), find(tab, want, ordinary))
	}
	must(t, same(tab, want), put(tab, want, s.special, second), find(tab, want, s.special), drop(tab, want, ordinary), find(tab, want, s.special), same(tab, want))
}

func (s *suite[K, V]) clone(t *testing.T) {
	tab, want := s.table(t), map[K]V{}
	keys, values := s.pairs(0, 3000, 0)
	must(t, put(tab, want, keys, values), put(tab, want, s.special, values[:len(s.special)]), drop(tab, want, keys[:500]))
	c, err := tab.Clone()
	must(t, err)
	wantC := map[K]V{}
	for k, v := range want {
		wantC[k] = v
	}
	must(t, same(c, wantC))
	_, second := s.pairs(0, 3000, 1)
	must(t, put(c, wantC, keys, second), drop(c, wantC, keys[1000:2000]), drop(c, wantC, s.special))
	must(t, same(tab, want), find(tab, want, keys), find(tab, want, s.special), same(c, wantC), find(c, wantC, keys))
	must(t, drop(tab, want, keys[:2500]), same(tab, want), same(c, wantC))
	closeTable(t, c)
	must(t, same(tab, want), find(tab, want, keys))

	// A clone outlives its original.
	if c, err = tab.Clone(); err != nil {
		t.Fatal(err)
	}
	other := s.open(t)
	oc, err := other.Clone()
	must(t, err)
	closeTable(t, other)
	must(t, same(oc, map[K]V{}), put(oc, map[K]V{}, keys, values))
	closeTable(t, oc)
	must(t, same(c, want))
	closeTable(t, c)
}

// concurrent finds keys that nobody touches, and keys that come and go with one value, while writers insert and delete.
func (s *suite[K, V]) concurrent(t *testing.T) {
	tab, want := s.table(t), map[K]V{}
	const stable, moving, writers, readers = 2000, 1000, 2, 3
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	keys, values := s.pairs(0, stable, 0)
	must(t, put(tab, want, keys, values))
	stop := make(chan struct{})
	failed := make(chan error, writers+readers)
	var writing, reading sync.WaitGroup
	for r := range readers {
		reading.Go(func() {
			from := stable + r%writers*moving
			comes, one := s.pairs(from, from+moving, 0)
			got, found := make([]V, moving), make([]bool, moving)
			var zero V
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := find(tab, want, keys); err != nil {
					failed <- fmt.Errorf("a key that nobody changes: %w", err)
					return
				}
				if err := tab.Find(got, found, comes); err != nil {
					failed <- err
					return
				}
				for i := range got {
					if v := one[i]; found[i] && got[i] != v || !found[i] && got[i] != zero {
						failed <- fmt.Errorf("key %v, which has %v or is not there: %v, %t", comes[i], v, got[i], found[i])
						return
					}
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			own := map[K]V{}
			ks, vs := s.pairs(stable+w*moving, stable+(w+1)*moving, 0)
			for range rounds {
				for _, step := range []func() error{
					func() error { return put(tab, own, ks, vs) },
					func() error { return put(tab, own, ks[:10], vs[:10]) },
					func() error { return find(tab, own, ks) },
					func() error { return drop(tab, own, ks[:moving/2]) },
					func() error { return find(tab, own, ks) },
					func() error { return drop(tab, own, ks) },
				} {
					if err := step(); err != nil {
						failed <- fmt.Errorf("writer %d: %w", w, err)
						return
					}
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if !t.Failed() {
		must(t, same(tab, want))
	}
}

func (s *suite[K, V]) closed(t *testing.T) {
	tab := s.open(t)
	keys, values := s.pairs(0, 10, 0)
	must(t, put(tab, map[K]V{}, keys, values))
	closeTable(t, tab)
	_, insert := tab.Insert(keys, values)
	_, del := tab.Delete(keys)
	_, _, all := tab.All()
	_, clone := tab.Clone()
	for call, err := range map[string]error{"insert": insert, "find": tab.Find(values, nil, keys), "delete": del, "all": all, "clone": clone} {
		if !errors.Is(err, exact.ErrClosed) {
			t.Errorf("%s of a closed table: %v, want %v", call, err, exact.ErrClosed)
		}
	}
	if err := tab.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// step is one batch of a random stream.
type step[K, V comparable] struct {
	op     string // insert, delete, find, all, clone
	keys   []K
	values []V
}

// play runs a stream on a new table against a Go map and gives the first difference.
func (s *suite[K, V]) play(t *testing.T, steps []step[K, V]) (err error) {
	tab := s.open(t)
	defer func() { closeTable(t, tab) }()
	want := map[K]V{}
	for i, x := range steps {
		switch x.op {
		case "insert":
			err = put(tab, want, x.keys, x.values)
		case "delete":
			err = drop(tab, want, x.keys)
		case "find":
			err = find(tab, want, x.keys)
		case "all":
			err = same(tab, want)
		case "clone":
			var c exact.Table[K, V]
			if c, err = tab.Clone(); err == nil {
				closeTable(t, tab)
				tab = c
			}
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := same(tab, want); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}

// streams are random ones over key ranges of several sizes. One that fails is reduced.
func (s *suite[K, V]) streams(t *testing.T) {
	seed, count, length := rand.Uint64(), 12, 120
	if testing.Short() {
		count, length = 4, 40
	}
	t.Logf("seed %d", seed)
	for i := range count {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		steps := s.random(r, length)
		err := s.play(t, steps)
		if err == nil {
			continue
		}
		reduced := s.reduce(t, steps)
		t.Errorf("stream %d of seed %d: %v\nreduced from %d to %d steps: %v", i, seed, err, len(steps), len(reduced), s.play(t, reduced))
		for _, x := range reduced {
			if len(x.keys) <= 16 {
				t.Logf("%s %v %v", x.op, x.keys, x.values)
			} else {
				t.Logf("%s %d keys, from %v on", x.op, len(x.keys), x.keys[:8])
			}
		}
		return
	}
}

// random makes a stream. A batch has a key once unless all requests for it say the same, so what it
// leaves does not depend on its order.
func (s *suite[K, V]) random(r *rand.Rand, length int) (steps []step[K, V]) {
	space := []int{10, 100, 3000, 20_000}[r.IntN(4)]
	most := min(2*space, 3000)
	for range length {
		x := step[K, V]{op: []string{"insert", "insert", "insert", "delete", "delete", "find", "find", "all", "clone"}[r.IntN(9)]}
		if x.op == "all" || x.op == "clone" {
			steps = append(steps, x)
			continue
		}
		given := map[K]V{}
		for range 1 + r.IntN(most) {
			k := s.key(uint64(r.IntN(space)))
			if len(s.special) > 0 && r.IntN(20) == 0 {
				k = s.special[r.IntN(len(s.special))]
			}
			v, ok := given[k]
			if !ok {
				v = s.value(r.Uint64() >> 32)
				given[k] = v
			}
			x.keys = append(x.keys, k)
			if x.op == "insert" {
				x.values = append(x.values, v)
			}
		}
		steps = append(steps, x)
	}
	return steps
}

// reduce drops steps, and then halves of batches, as long as the stream still fails.
func (s *suite[K, V]) reduce(t *testing.T, steps []step[K, V]) []step[K, V] {
	for n := len(steps) / 2; n > 0; n /= 2 {
		for from := 0; from+n <= len(steps); {
			fewer := slices.Delete(slices.Clone(steps), from, from+n)
			if s.play(t, fewer) != nil {
				steps = fewer
			} else {
				from += n
			}
		}
	}
	for i := range steps {
		for n := len(steps[i].keys) / 2; n > 0; n /= 2 {
			for from := 0; from+n <= len(steps[i].keys); {
				fewer := slices.Clone(steps)
				fewer[i].keys = slices.Delete(slices.Clone(fewer[i].keys), from, from+n)
				if fewer[i].values != nil {
					fewer[i].values = slices.Delete(slices.Clone(fewer[i].values), from, from+n)
				}
				if s.play(t, fewer) != nil {
					steps = fewer
				} else {
					from += n
				}
			}
		}
	}
	return steps
}
