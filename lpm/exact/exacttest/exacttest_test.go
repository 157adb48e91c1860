package exacttest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// goMap is a table that is right, but for a key that it may lose when it is inserted.
type goMap struct {
	mu   sync.RWMutex
	m    map[uint32]uint32 // nil when closed
	lost uint32
}

func (g *goMap) Insert(keys, values []uint32) (added int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		return 0, exact.ErrClosed
	}
	before := len(g.m)
	for i, k := range keys {
		if k != g.lost {
			g.m[k] = values[i]
		}
	}
	return len(g.m) - before, nil
}

func (g *goMap) Find(values []uint32, found []bool, keys []uint32) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.m == nil {
		return exact.ErrClosed
	}
	for i, k := range keys {
		v, ok := g.m[k]
		if values[i] = v; found != nil {
			found[i] = ok
		}
	}
	return nil
}

func (g *goMap) Delete(keys []uint32) (deleted int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		return 0, exact.ErrClosed
	}
	before := len(g.m)
	for _, k := range keys {
		delete(g.m, k)
	}
	return before - len(g.m), nil
}

func (g *goMap) Len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.m)
}

func (g *goMap) All() (keys, values []uint32, err error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.m == nil {
		return nil, nil, exact.ErrClosed
	}
	for k, v := range g.m {
		keys, values = append(keys, k), append(values, v)
	}
	return keys, values, nil
}

func (g *goMap) Clone() (exact.Table[uint32, uint32], error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.m == nil {
		return nil, exact.ErrClosed
	}
	return &goMap{m: maps.Clone(g.m), lost: g.lost}, nil
}

func (g *goMap) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.m = nil
	return nil
}

const noKey = 1<<32 - 5 // none of the suite's

func number(i uint64) uint32 { return uint32(i) }

var special = []uint32{0, 1, 1<<32 - 1}

func TestGoMap(t *testing.T) {
	Conformance(t, func(*testing.T) exact.Table[uint32, uint32] { return &goMap{m: map[uint32]uint32{}, lost: noKey} }, number, number, special)
}

// A stream that fails is seen, and what is left of it is one insert of the key that gets lost.
func TestReduce(t *testing.T) {
	s := suite[uint32, uint32]{
		open:  func(*testing.T) exact.Table[uint32, uint32] { return &goMap{m: map[uint32]uint32{}, lost: 7} },
		key:   number,
		value: number,
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	steps := s.random(r, 40)
	steps = append(steps, step[uint32, uint32]{op: "insert", keys: []uint32{6, 7, 8}, values: []uint32{60, 70, 80}})
	if s.play(t, steps) == nil {
		t.Fatal("the lost key is not seen")
	}
	steps = s.reduce(t, steps)
	if len(steps) != 1 || steps[0].op != "insert" || len(steps[0].keys) == 0 || !allAre(steps[0].keys, 7) {
		t.Fatalf("reduced to %v", steps)
	}
}

func allAre(keys []uint32, key uint32) bool {
	return !slices.ContainsFunc(keys, func(k uint32) bool { return k != key })
}
