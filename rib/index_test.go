package rib

import (
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// The index is a map of prefixes, and an empty one takes no memory for those that were there.
func TestIndexIsAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var x index
	want := map[prefixKey]lpm.Handle{}
	random := func() prefixKey {
		k := prefixKey{hi: r.Uint64() & 0xff03000000000003, bits: uint8(r.IntN(3)), v6: r.IntN(2) == 0}
		if k.v6 {
			k.lo = r.Uint64N(3)
		} else {
			k.hi >>= 32
		}
		return k
	}
	for range 50_000 {
		switch k, h := random(), lpm.Handle(1+r.IntN(1000)); r.IntN(4) {
		case 0:
			x.remove(k)
			delete(want, k)
		case 1:
			x.reserve(k.v6, k.shard(), r.IntN(10))
		default:
			x.set(k, h)
			want[k] = h
		}
		if k := random(); x.find(k) != want[k] {
			t.Fatalf("%+v: %d, want %d", k, x.find(k), want[k])
		}
	}
	for k, h := range want {
		if x.find(k) != h {
			t.Fatalf("%+v: %d, want %d", k, x.find(k), h)
		}
		x.remove(k)
		if x.find(k) != lpm.None {
			t.Fatalf("%+v is still there", k)
		}
	}
	for s := range numShards {
		if len(x.v4[s]) > 0 || len(x.v6[s]) > 0 {
			t.Fatalf("part %d is not empty", s)
		}
		x.reserve(false, s, 0)
		x.reserve(true, s, 0)
		for v6, bits := range []uint8{32, 128} {
			k := prefixKey{hi: uint64(s) << (24 + 32*v6), bits: bits, v6: v6 == 1}
			x.set(k, 1)
			x.remove(k)
		}
		if x.v4[s] != nil || x.v6[s] != nil {
			t.Fatalf("part %d keeps its memory", s)
		}
	}
}
