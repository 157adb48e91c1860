package rpki

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// naive is RFC 6811, 2.1 as it is written.
func naive(vrps []VRP, prefix netip.Prefix, origin uint32) State {
	state := NotFound
	for _, v := range vrps {
		if v.Prefix.Bits() > prefix.Bits() || !v.Prefix.Contains(prefix.Addr()) {
			continue
		}
		if prefix.Bits() <= int(v.MaxLen) && v.ASN == origin && v.ASN != 0 {
			return Valid
		}
		state = Invalid
	}
	return state
}

// naiveCovering is what Covering gives, in the order of All.
func naiveCovering(vrps []VRP, prefix netip.Prefix) []VRP {
	var found []VRP
	for _, v := range vrps {
		if v.Prefix.Bits() <= prefix.Bits() && v.Prefix.Contains(prefix.Addr()) {
			found = append(found, v)
		}
	}
	return unique(found)
}

// unique sorts VRPs as a table does, each once.
func unique(vrps []VRP) []VRP {
	vrps = slices.Clone(vrps)
	slices.SortFunc(vrps, func(a, b VRP) int {
		x, xv6 := recordOf(a)
		y, yv6 := recordOf(b)
		if xv6 != yv6 {
			return map[bool]int{true: 1, false: -1}[xv6]
		}
		return compare(x, y)
	})
	return slices.Compact(vrps)
}

// crowd makes random prefixes and ASes that have much to do with each other.
type crowd struct {
	*rand.Rand
	bases []netip.Addr
}

func newCrowd(seed uint64) crowd {
	c := crowd{Rand: rand.New(rand.NewPCG(seed, 7))}
	for range 1 + c.IntN(4) {
		var b [16]byte
		for i := range b {
			b[i] = byte(c.Uint32())
		}
		c.bases = append(c.bases, netip.AddrFrom4([4]byte(b[:4])), netip.AddrFrom16(b))
	}
	c.bases = append(c.bases, netip.MustParseAddr("::ffff:10.0.0.0"))
	return c
}

func (c crowd) prefix() netip.Prefix {
	a := c.bases[c.IntN(len(c.bases))]
	b := a.AsSlice()
	b[c.IntN(len(b))] ^= 1 << c.IntN(8) * byte(c.IntN(2))
	a, _ = netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, c.IntN(a.BitLen()+1)).Masked()
}

func (c crowd) vrp() VRP {
	for {
		p := c.prefix()
		v := VRP{Prefix: p, MaxLen: uint8(p.Bits()), ASN: c.Uint32N(5)}
		if c.IntN(2) == 0 {
			v.MaxLen += uint8(c.IntN(p.Addr().BitLen() - p.Bits() + 1))
		}
		if v.check() == nil {
			return v
		}
	}
}

func (c crowd) vrps(n int) []VRP {
	var vrps []VRP
	for range n {
		v := c.vrp()
		vrps = append(vrps, v)
		for c.IntN(8) == 0 { // more of one prefix
			v.ASN, v.MaxLen = c.Uint32N(20), uint8(v.Prefix.Bits()+c.IntN(v.Prefix.Addr().BitLen()-v.Prefix.Bits()+1))
			vrps = append(vrps, v)
		}
	}
	return vrps
}

func TestOracle(t *testing.T) {
	seeds := rand.Uint64()
	t.Logf("seeds from %d", seeds)
	var seen [3]int
	for seed := seeds; seed < seeds+300; seed++ {
		c := newCrowd(seed)
		vrps := c.vrps(c.IntN(150))
		table, err := NewTable(vrps)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := slices.Collect(table.All()), unique(vrps); !slices.Equal(got, want) || table.Len() != len(want) {
			t.Fatalf("seed %d: %d VRPs %v, want %v", seed, table.Len(), got, want)
		}
		for range 300 {
			p, origin := c.prefix(), c.Uint32N(20)
			if len(vrps) > 0 && c.IntN(4) == 0 {
				p = vrps[c.IntN(len(vrps))].Prefix
			}
			got, want := table.Validate(p, origin), naive(vrps, p, origin)
			if got != want {
				t.Fatalf("seed %d: %s of AS %d is %v, want %v by %v", seed, p, origin, got, want, naiveCovering(vrps, p))
			}
			seen[got]++
			if got, want := unique(table.Covering(p)), naiveCovering(vrps, p); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s is covered by %v, want %v", seed, p, got, want)
			}
		}
	}
	if slices.Min(seen[:]) < 1000 {
		t.Errorf("states are too one-sided to tell much: %v", seen)
	}
}

// A delta is what a map does with the same edits.
func TestDeltaOracle(t *testing.T) {
	seeds := rand.Uint64()
	t.Logf("seeds from %d", seeds)
	refused := 0
	for seed := seeds; seed < seeds+100; seed++ {
		c := newCrowd(seed)
		pool := unique(c.vrps(60))
		want := map[VRP]bool{}
		var table *Table
		for range 30 {
			next := maps.Clone(want)
			var d delta
			fits := true
			for range c.IntN(40) {
				v := pool[c.IntN(len(pool))]
				announce := !next[v]
				if c.IntN(400) == 0 {
					announce, fits = !announce, false
				}
				d.add(v, announce)
				if next[v] = announce; !announce {
					delete(next, v)
				}
			}
			changed, err := d.apply(table)
			if fits != (err == nil) {
				t.Fatalf("seed %d: error %v, but fits is %v", seed, err, fits)
			}
			if !fits {
				refused++
				continue
			}
			table, want = changed, next
			if got := slices.Collect(table.All()); !slices.Equal(got, unique(slices.Collect(maps.Keys(want)))) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
			anew, err := NewTable(slices.Collect(maps.Keys(want)))
			if err != nil || !anew.Equal(table) {
				t.Fatalf("seed %d: the table is not as one made anew: %v", seed, err)
			}
			for range 20 {
				if p, origin := c.prefix(), c.Uint32N(5); table.Validate(p, origin) != anew.Validate(p, origin) {
					t.Fatalf("seed %d: %s of AS %d", seed, p, origin)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no delta was refused")
	}
}

// Many VRPs of one prefix are not gone through one by one; the answer is right all the same.
func TestManyOfOnePrefix(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	var vrps []VRP
	for as := range uint32(5000) {
		vrps = append(vrps, VRP{p, uint8(24 + as%3), as * 2})
	}
	vrps = append(vrps, VRP{netip.MustParsePrefix("192.0.0.0/16"), 26, 7})
	table, err := NewTable(vrps)
	if err != nil {
		t.Fatal(err)
	}
	for as := range uint32(10_010) {
		for bits := 24; bits <= 27; bits++ {
			q := netip.PrefixFrom(p.Addr(), bits)
			if got, want := table.Validate(q, as), naive(vrps, q, as); got != want {
				t.Fatalf("%s of AS %d is %v, want %v", q, as, got, want)
			}
		}
	}
}

func TestUnionAndEqual(t *testing.T) {
	c := newCrowd(3)
	a, b := c.vrps(40), c.vrps(40)
	ta, _ := NewTable(a)
	tb, _ := NewTable(b)
	both, _ := NewTable(append(slices.Clone(a), b...))
	if !Union(ta, nil, tb).Equal(both) || !Union(ta).Equal(ta) || Union().Len() != 0 || !Union(nil, new(Table)).Equal(nil) {
		t.Error("union")
	}
	if ta.Equal(tb) || ta.Equal(nil) || !new(Table).Equal(nil) {
		t.Error("equal")
	}
	var none *Table
	if none.Validate(netip.MustParsePrefix("10.0.0.0/8"), 1) != NotFound || none.Covering(netip.Prefix{}) != nil || len(slices.Collect(none.All())) != 0 {
		t.Error("nil is not empty")
	}
	if ta.Validate(netip.Prefix{}, 1) != NotFound {
		t.Error("an invalid prefix is covered")
	}
}

func TestBadVRPs(t *testing.T) {
	for _, x := range []struct {
		vrp  VRP
		want string
	}{
		{VRP{}, "VRP 2: invalid Prefix: no prefix"},
		{VRP{netip.MustParsePrefix("10.0.0.1/8"), 8, 1}, "VRP 2: prefix 10.0.0.1/8 has host bits"},
		{VRP{netip.MustParsePrefix("10.0.0.0/8"), 7, 1}, "VRP 2: maximum length 7 is less"},
		{VRP{netip.MustParsePrefix("10.0.0.0/8"), 33, 1}, "VRP 2: maximum length 33 is more than the 32 bits"},
		{VRP{netip.MustParsePrefix("2001:db8::/32"), 129, 1}, "VRP 2: maximum length 129 is more than the 128 bits"},
		{VRP{netip.MustParsePrefix("::ffff:10.0.0.0/104"), 104, 1}, "IPv4 one in IPv6's form"},
	} {
		_, err := NewTable([]VRP{{netip.MustParsePrefix("10.0.0.0/8"), 8, 1}, x.vrp})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: error %v, want %q", x.vrp, err, x.want)
		}
	}
}

func TestValidateAllocatesNothing(t *testing.T) {
	c := newCrowd(5)
	table, err := NewTable(c.vrps(200))
	if err != nil {
		t.Fatal(err)
	}
	ps := make([]netip.Prefix, 100)
	for i := range ps {
		ps[i] = c.prefix()
	}
	if n := testing.AllocsPerRun(10, func() {
		for i, p := range ps {
			table.Validate(p, uint32(i%5))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStrings(t *testing.T) {
	got := fmt.Sprint(NotFound, Valid, Invalid, State(9), VRP{netip.MustParsePrefix("10.0.0.0/8"), 8, 1}, VRP{netip.MustParsePrefix("10.0.0.0/8"), 24, 1})
	if want := "not-found valid invalid state-9 10.0.0.0/8 AS1 10.0.0.0/8-24 AS1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
