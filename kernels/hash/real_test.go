// Package hash_test puts real prefixes through every table of the packages below it.
package hash_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

const (
	realTable4 = "ris-2026-05-11-as3333-v4.txt.gz"
	realTable6 = "ris-2026-05-11-as3333-v6.txt.gz"
	realDay4   = "ris-2026-05-11-as3333-updates-24h-v4.txt.gz"
	realDay6   = "ris-2026-05-11-as3333-updates-24h-v6.txt.gz"
)

// key128 is a prefix as a key: its address, with the length where it has none of its bits, or all of it
// in other bits where it has all.
func key128(p netip.Prefix) lpm.Addr6 {
	a := lpm.Addr16(p.Addr())
	bits := uint64(p.Bits())
	if p.Addr().Is4() {
		return lpm.Addr6{Hi: 1<<63 | bits, Lo: a.Lo}
	}
	switch {
	case bits < 64:
		a.Hi |= 1 << (63 - bits)
	case bits < 128:
		a.Lo |= 1 << (127 - bits)
	default:
		a.Hi ^= 1 << 62
	}
	return a
}

// key64 is 64 bits of a prefix's own; the tests check that no two prefixes share them.
func key64(p netip.Prefix) uint64 {
	if p.Addr().Is4() {
		return uint64(lpm.Addr4(p.Addr()))<<8 | uint64(p.Bits())
	}
	k := key128(p)
	return dynamicMix(k.Hi) ^ k.Lo*0x9e3779b97f4a7c15
}

func dynamicMix(x uint64) uint64 {
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// key32 is a prefix's number.
func key32(p netip.Prefix, numbers map[netip.Prefix]uint32) uint32 {
	n, ok := numbers[p]
	if !ok {
		n = uint32(len(numbers)) * 0x9e3779b1
		numbers[p] = n
	}
	return n
}

func TestRealTablesLocal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	numbers := map[netip.Prefix]uint32{}
	l32, err := linear.NewLocal[uint32](22, linear.Options{})
	must(err)
	day(t, "linear 32", l32, func(p netip.Prefix) uint32 { return key32(p, numbers) })
	l64, err := linear.NewLocal[uint64](22, linear.Options{})
	must(err)
	day(t, "linear 64", l64, key64)
	s32, err := slab.NewLocal[uint32](1000)
	must(err)
	day(t, "slab 32", s32, func(p netip.Prefix) uint32 { return key32(p, numbers) })
	s64, err := slab.NewLocal[uint64](1000)
	must(err)
	day(t, "slab 64", s64, key64)
	d64, err := dynamic.NewLocal[uint64, uint32](0, dynamic.Options{Seed: rand.Uint64()})
	must(err)
	day(t, "dynamic 64", d64, key64)
	d128, err := dynamic.NewLocal[lpm.Addr6, uint32](0, dynamic.Options{Seed: rand.Uint64()})
	must(err)
	day(t, "dynamic 128", d128, key128)
}

// TestGPURealTables is the same on a GPU.
func TestGPURealTables(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	var d *device.Device
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d = m.Open(t, append(append(dynamic.Modules(), linear.Modules()[0]), slab.Modules()[0]))
			t.Cleanup(func() { _ = d.Close() })
		}
	}
	if d == nil {
		t.Skip("needs a GPU: build with the tag cuda")
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	numbers := map[netip.Prefix]uint32{}
	l32, err := linear.NewOnDevice[uint32](d, 22, linear.Options{})
	must(err)
	day(t, "linear 32", l32, func(p netip.Prefix) uint32 { return key32(p, numbers) })
	l64, err := linear.NewOnDevice[uint64](d, 22, linear.Options{})
	must(err)
	day(t, "linear 64", l64, key64)
	s32, err := slab.NewOnDevice[uint32](d, 1000)
	must(err)
	day(t, "slab 32", s32, func(p netip.Prefix) uint32 { return key32(p, numbers) })
	s64, err := slab.NewOnDevice[uint64](d, 1000)
	must(err)
	day(t, "slab 64", s64, key64)
	d64, err := dynamic.NewOnDevice[uint64, uint32](d, 0, dynamic.Options{Seed: rand.Uint64()})
	must(err)
	day(t, "dynamic 64", d64, key64)
	d128, err := dynamic.NewOnDevice[lpm.Addr6, uint32](d, 0, dynamic.Options{Seed: rand.Uint64()})
	must(err)
	day(t, "dynamic 128", d128, key128)
}

// day puts the real tables' 1.29 million prefixes into a table in one batch and then the peer's next 24 hours of
// updates in small ones. After each of both all prefixes are found, those that are not there are not, and what
// the table gives back is exactly what was put in.
func day[K comparable, V uint32 | uint64](t *testing.T, name string, tab exact.Table[K, V], key func(netip.Prefix) K) {
	t.Run(name, func(t *testing.T) {
		defer tab.Close()
		want, keys := map[netip.Prefix]V{}, map[K]netip.Prefix{}
		keyOf := func(p netip.Prefix) K {
			k := key(p)
			if other, ok := keys[k]; ok && other != p {
				t.Fatalf("%s and %s share a key: the test needs a better one", p, other)
			}
			keys[k] = p
			return k
		}
		check := func() {
			t.Helper()
			ks, vs := make([]K, 0, len(keys)), make([]V, len(keys))
			found := make([]bool, len(keys))
			for k := range keys {
				ks = append(ks, k)
			}
			if err := tab.Find(vs, found, ks); err != nil {
				t.Fatal(err)
			}
			for i, k := range ks {
				if v, ok := want[keys[k]]; found[i] != ok || vs[i] != v {
					t.Fatalf("%s: %d %v, want %d %v", keys[k], vs[i], found[i], v, ok)
				}
			}
			ks, vs, err := tab.All()
			if err != nil {
				t.Fatal(err)
			}
			if len(ks) != len(want) || tab.Len() != len(want) {
				t.Fatalf("%d pairs given back, %d counted, want %d", len(ks), tab.Len(), len(want))
			}
			for i, k := range ks {
				p, known := keys[k]
				if v, ok := want[p]; !known || !ok || v != vs[i] {
					t.Fatalf("%v (%s): %d given back, want %d", k, p, vs[i], v)
				}
			}
		}
		next := V(0)
		put := map[netip.Prefix]V{}
		gone := map[netip.Prefix]bool{}
		flush := func() {
			var ks, out []K
			var vs []V
			for p, v := range put {
				ks, vs = append(ks, keyOf(p)), append(vs, v)
				want[p] = v
			}
			for p := range gone {
				out = append(out, keyOf(p))
				delete(want, p)
			}
			if _, err := tab.Insert(ks, vs); err != nil {
				t.Fatal(err)
			}
			if _, err := tab.Delete(out); err != nil {
				t.Fatal(err)
			}
			clear(put)
			clear(gone)
		}
		for _, name := range []string{realTable4, realTable6} {
			for _, p := range fixtures.Prefixes(t, name) {
				next++
				put[p] = next
				if len(keys)%2 == 0 {
					keyOf(netip.PrefixFrom(p.Addr().Next(), p.Addr().BitLen())) // not put in, as a rule
				}
			}
		}
		flush()
		check()
		r := rand.New(rand.NewPCG(4, 4))
		limit := 1000
		for _, name := range []string{realDay4, realDay6} {
			for _, c := range fixtures.Changes(t, name) {
				next++
				if c.Withdraw {
					gone[c.Prefix] = true
					delete(put, c.Prefix)
				} else {
					put[c.Prefix] = next
					delete(gone, c.Prefix)
				}
				if len(put)+len(gone) >= limit {
					flush()
					limit = 1 + r.IntN(20_000)
				}
			}
		}
		flush()
		check()
	})
}
