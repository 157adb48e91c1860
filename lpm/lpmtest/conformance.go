package lpmtest

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// Conformance is the suite that every engine must pass. newEngine makes one; it is closed at
// the end of each test. Random cases log their seed.
func Conformance(t *testing.T, newEngine func(testing.TB) lpm.Engine) {
	engine := func(t *testing.T) lpm.Engine {
		e := newEngine(t)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Errorf("close engine: %v", err)
			}
		})
		return e
	}
	t.Run("small tables", func(t *testing.T) { smallTables(t, engine(t)) })
	t.Run("random tables", func(t *testing.T) { randomTables(t, engine(t)) })
	t.Run("many finds at once", func(t *testing.T) { findAll(t, engine(t)) })
	t.Run("updates", func(t *testing.T) { updates(t, engine(t)) })
	t.Run("handles move in one update", func(t *testing.T) { handlesMove(t, engine(t)) })
	t.Run("input that no table takes", func(t *testing.T) { refused(t, engine(t)) })
	t.Run("limits of covered", func(t *testing.T) { coveredLimit(t, engine(t)) })
	t.Run("closed", func(t *testing.T) { closed(t, newEngine(t)) })
	t.Run("foreign table", func(t *testing.T) { foreign(t, engine(t), engine(t)) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, engine(t)) })
	t.Run("lookups allocate nothing", func(t *testing.T) { noAllocation(t, engine(t)) })
	t.Run("concurrent readers and updates", func(t *testing.T) { concurrent(t, engine(t)) })
}

// Build makes a table of the routes or fails the test.
func Build(t testing.TB, e lpm.Engine, rs lpm.Routes) lpm.Table {
	t.Helper()
	tab, err := e.Build(context.Background(), rs)
	if err != nil {
		t.Fatalf("build %d routes: %v", rs.Len(), err)
	}
	return tab
}

// RoutesOf numbers prefixes from 1 on, in order.
func RoutesOf(ps ...string) (rs lpm.Routes) {
	for i, p := range ps {
		rs.Add(netip.MustParsePrefix(p), lpm.Handle(i+1))
	}
	return rs
}

// Probes gives the addresses where a table's answers can change: the first and last address of
// every prefix and their neighbours outside, and a random one inside.
func Probes(rs lpm.Routes, r *rand.Rand) (v4 []uint32, v6 []lpm.Addr6) {
	for _, x := range rs.V4 {
		host := uint32(uint64(1)<<(32-x.Bits) - 1)
		v4 = append(v4, x.Addr, x.Addr-1, x.Addr|host, (x.Addr|host)+1, x.Addr|r.Uint32()&host)
	}
	for _, x := range rs.V6 {
		p := x.Prefix()
		first := p.Addr()
		last := lastAddr(p)
		v6 = append(v6, lpm.Addr16(first), lpm.Addr16(last), InPrefix6(x, r))
		if a := first.Prev(); a.IsValid() {
			v6 = append(v6, lpm.Addr16(a))
		}
		if a := last.Next(); a.IsValid() {
			v6 = append(v6, lpm.Addr16(a))
		}
	}
	return v4, v6
}

// InPrefix4 gives a random address of a prefix.
func InPrefix4(x lpm.Route4, r *rand.Rand) uint32 {
	return x.Addr | r.Uint32()&uint32(uint64(1)<<(32-x.Bits)-1)
}

// InPrefix6 gives a random address of a prefix.
func InPrefix6(x lpm.Route6, r *rand.Rand) lpm.Addr6 {
	a := lpm.Addr6{Hi: r.Uint64(), Lo: r.Uint64()}
	switch {
	case x.Bits >= 64:
		return lpm.Addr6{Hi: x.Addr.Hi, Lo: x.Addr.Lo | a.Lo&^(^uint64(0)<<(128-x.Bits))}
	default:
		return lpm.Addr6{Hi: x.Addr.Hi | a.Hi&^(^uint64(0)<<(64-x.Bits)), Lo: a.Lo}
	}
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Check compares a table with an oracle at the given addresses, and exact finds of all prefixes.
func Check(t testing.TB, tab lpm.Table, o Oracle, v4 []uint32, v6 []lpm.Addr6) {
	t.Helper()
	got := make([]lpm.Handle, len(v4)+1)
	got[len(v4)] = 0xdead // a guard: the batch must not write behind its end
	if err := tab.Lookup4(got[:len(v4)], v4); err != nil {
		t.Fatalf("lookup4: %v", err)
	}
	if got[len(v4)] != 0xdead {
		t.Fatal("lookup4 wrote behind the end of dst")
	}
	for i, a := range v4 {
		if want := o.Lookup(lpm.Netip4(a)); got[i] != want {
			t.Fatalf("lookup %s: got route %d, want %d", lpm.Netip4(a), got[i], want)
		}
	}
	got = make([]lpm.Handle, len(v6))
	if err := tab.Lookup6(got, v6); err != nil {
		t.Fatalf("lookup6: %v", err)
	}
	for i, a := range v6 {
		if want := o.Lookup(a.Netip()); got[i] != want {
			t.Fatalf("lookup %s: got route %d, want %d", a.Netip(), got[i], want)
		}
	}
	for p, want := range o {
		if h := tab.Find(p); h != want {
			t.Fatalf("find %s: got route %d, want %d", p, h, want)
		}
	}
}

// CheckRelations compares Find, Covering and Covered with an oracle for one prefix.
func CheckRelations(t testing.TB, tab lpm.Table, o Oracle, p netip.Prefix) {
	t.Helper()
	if got, want := tab.Find(p), o[p]; got != want {
		t.Fatalf("find %s: got route %d, want %d", p, got, want)
	}
	if got, want := tab.Covering(nil, p), o.Covering(p); !slices.Equal(got, want) {
		t.Fatalf("covering %s: got %v, want %v", p, got, want)
	}
	if got, want := tab.Covered(nil, p, -1), o.Covered(p); !slices.Equal(got, want) {
		t.Fatalf("covered %s: got %v, want %v", p, got, want)
	}
}

// chain gives one prefix of every length, all containing a.
func chain(a string) (ps []string) {
	addr := netip.MustParseAddr(a)
	for bits := 0; bits <= addr.BitLen(); bits++ {
		p, _ := addr.Prefix(bits)
		ps = append(ps, p.String())
	}
	return ps
}

func smallTables(t *testing.T, e lpm.Engine) {
	tables := map[string][]string{
		"empty":               nil,
		"one":                 {"192.0.2.0/24"},
		"two":                 {"192.0.2.0/25", "2001:db8::/33"},
		"default routes":      {"0.0.0.0/0", "::/0"},
		"hosts":               {"192.0.2.1/32", "255.255.255.255/32", "0.0.0.0/32", "2001:db8::1/128", "::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"},
		"chain of ones":       append(chain("255.255.255.255"), chain("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")...),
		"chain of zeros":      append(chain("0.0.0.0"), chain("::")...),
		"chain":               append(chain("198.51.100.77"), chain("2001:db8:a5a5:5a5a:1234:5678:9abc:def0")...),
		"overlapping sibling": {"10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "10.64.0.0/10", "10.64.0.0/24", "10.64.1.0/24", "10.64.0.0/23"},
		"around word borders": {"2001:db8::/63", "2001:db8::/64", "2001:db8::/65", "2001:db8:0:0:8000::/65", "2001:db8:0:1::/64"},
	}
	for name, ps := range tables {
		t.Run(name, func(t *testing.T) {
			rs := RoutesOf(ps...)
			tab := Build(t, e, rs)
			defer tab.Close()
			o := OracleOf(rs)
			r := rand.New(rand.NewPCG(1, 1))
			v4, v6 := Probes(rs, r)
			v4 = append(v4, 0, 1<<31, 1<<32-1)
			v6 = append(v6, lpm.Addr6{}, lpm.Addr6{Hi: 1 << 63}, lpm.Addr6{Hi: ^uint64(0), Lo: ^uint64(0)})
			Check(t, tab, o, v4, v6)
			for _, p := range append(chain("198.51.100.77"), chain("2001:db8:a5a5:5a5a:1234:5678:9abc:def0")...) {
				CheckRelations(t, tab, o, netip.MustParsePrefix(p))
			}
			for p := range o {
				CheckRelations(t, tab, o, p)
			}
		})
	}
}

// RandomRoutes draws n routes a family with handles from first on. Prefixes crowd into a few
// places, so that they nest and are neighbours; some occur twice.
func RandomRoutes(r *rand.Rand, n int, first lpm.Handle) (rs lpm.Routes) {
	h := first
	for range n {
		rs.Add(randomPrefix(r, 4), h)
		rs.Add(randomPrefix(r, 16), h+1)
		h += 2
	}
	return rs
}

// randomPrefix draws a prefix of an address of size bytes in which only a few bits vary.
func randomPrefix(r *rand.Rand, size int) netip.Prefix {
	b := make([]byte, 16)
	binary.BigEndian.PutUint64(b, 0x20010db8c0ffee00)
	if r.IntN(4) == 0 {
		binary.BigEndian.PutUint64(b[8:], r.Uint64())
	}
	for range r.IntN(6) {
		bit := r.IntN(size * 8)
		b[bit/8] ^= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b[:size])
	p, _ := a.Prefix(r.IntN(size*8 + 1))
	return p
}

func randomTables(t *testing.T, e lpm.Engine) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		t.Logf("seed %d", seed)
		rs := RandomRoutes(r, 1+r.IntN(400), 1)
		o := OracleOf(rs)
		tab := Build(t, e, rs)
		v4, v6 := Probes(rs, r)
		Check(t, tab, o, v4, v6)
		for range 50 {
			CheckRelations(t, tab, o, randomPrefix(r, 4))
			CheckRelations(t, tab, o, randomPrefix(r, 16))
		}
		tab.Close()
	}
}

// findAll compares FindAll with Find for all prefixes of a table, for those near to them, and for
// some that no table holds.
func findAll(t *testing.T, e lpm.Engine) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 5))
		t.Logf("seed %d", seed)
		rs := RandomRoutes(r, 1+r.IntN(400), 1)
		o := OracleOf(rs)
		tab := Build(t, e, rs)
		ps := []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		for p := range o {
			ps = append(ps, p)
			ps = append(ps, near(p)...)
		}
		r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
		for _, n := range []int{0, 1, 7, len(ps)} {
			got := make([]lpm.Handle, n+1)
			for i := range got {
				got[i] = 0xdead // what is not there must be said, and the last is a guard
			}
			if err := lpm.FindAll(tab, got[:n], ps[:n]); err != nil {
				t.Fatalf("find %d prefixes: %v", n, err)
			}
			if got[n] != 0xdead {
				t.Fatal("FindAll wrote behind the end of dst")
			}
			for i, p := range ps[:n] {
				if want := o[p.Masked()]; got[i] != want || tab.Find(p) != want {
					t.Fatalf("find %s among %d: got route %d, alone %d, want %d", p, n, got[i], tab.Find(p), want)
				}
			}
		}
		tab.Close()
	}
}

// near gives prefixes that are easily taken for p: one longer and one shorter, its neighbours of
// the same length, its address in the other family, and p itself with host bits.
func near(p netip.Prefix) (ps []netip.Prefix) {
	first, last := p.Addr(), lastAddr(p)
	add := func(a netip.Addr, bits int) {
		if q := netip.PrefixFrom(a, bits); q.IsValid() {
			ps = append(ps, q)
		}
	}
	add(first, p.Bits()+1)
	add(last, p.Bits()+1)
	add(first, p.Bits()-1)
	add(first.Prev(), p.Bits())
	add(last.Next(), p.Bits())
	add(last, p.Bits())
	add(netip.AddrFrom16(first.As16()), p.Bits()) // 10.0.0.0/8 as ::ffff:10.0.0.0/8
	if first.Is4() {
		add(netip.AddrFrom16(first.As16()), p.Bits()+96)
	}
	return ps
}

// updates compares a line of tables, each made from the one before, with the oracle, with a
// table built from scratch, and every older table with what it was.
func updates(t *testing.T, e lpm.Engine) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 3))
		t.Logf("seed %d", seed)
		next := lpm.Handle(1)
		draw := func(n int) lpm.Routes {
			rs := RandomRoutes(r, n, next)
			next += lpm.Handle(2 * n)
			return rs
		}
		rs := draw(r.IntN(200))
		o := OracleOf(rs)
		tab := Build(t, e, rs)
		firstTab, firstOracle := tab, OracleOf(rs)
		v4, v6 := Probes(rs, r)
		first4, first6 := v4, v6
		for range 30 {
			changes := draw(r.IntN(10))
			for p := range o { // map order: a random choice of what is there
				if r.IntN(3) == 0 {
					break
				}
				changes.Add(p, lpm.None)
			}
			changes.Add(randomPrefix(r, 4), lpm.None) // most likely not there
			r.Shuffle(len(changes.V4), func(i, j int) { changes.V4[i], changes.V4[j] = changes.V4[j], changes.V4[i] })
			r.Shuffle(len(changes.V6), func(i, j int) { changes.V6[i], changes.V6[j] = changes.V6[j], changes.V6[i] })
			updated, err := e.Update(context.Background(), tab, changes)
			if err != nil {
				t.Fatalf("seed %d: update: %v", seed, err)
			}
			o.Apply(changes)
			a, b := Probes(changes, r)
			v4, v6 = append(v4, a...), append(v6, b...)
			Check(t, updated, o, v4, v6)
			if tab != firstTab {
				tab.Close()
			}
			tab = updated
		}
		rebuilt := Build(t, e, o.Routes())
		Check(t, rebuilt, o, v4, v6)
		for range 50 {
			p := randomPrefix(r, 4+12*r.IntN(2))
			CheckRelations(t, tab, o, p)
			CheckRelations(t, rebuilt, o, p)
		}
		Check(t, firstTab, firstOracle, first4, first6)
		// Everything goes and the table must be as good as new.
		all := o.Routes()
		for i := range all.V4 {
			all.V4[i].Handle = lpm.None
		}
		for i := range all.V6 {
			all.V6[i].Handle = lpm.None
		}
		empty, err := e.Update(context.Background(), tab, all)
		if err != nil {
			t.Fatalf("withdraw all: %v", err)
		}
		Check(t, empty, Oracle{}, v4, v6)
		if hs := empty.Covered(nil, netip.MustParsePrefix("::/0"), -1); len(hs) != 0 {
			t.Fatalf("seed %d: %d IPv6 routes are left after all were withdrawn", seed, len(hs))
		}
		for _, x := range []lpm.Table{firstTab, tab, rebuilt, empty} {
			x.Close()
		}
	}
}

// handlesMove exchanges the handles of nested prefixes within one update.
func handlesMove(t *testing.T, e lpm.Engine) {
	rs := RoutesOf("10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "192.0.2.0/24")
	tab := Build(t, e, rs)
	defer tab.Close()
	o := OracleOf(rs)
	for _, change := range [][2][]string{
		{{"10.1.0.0/16", "10.0.0.0/8", "10.1.1.0/24"}, nil},                                // 1, 2, 3 -> other holders
		{{"10.1.1.0/24", "192.0.2.0/24"}, {"10.0.0.0/8", "10.1.0.0/16"}},                   // holders go
		{{"0.0.0.0/0", "10.1.1.0/25"}, {"10.1.1.0/24", "192.0.2.0/24", "198.51.100.0/24"}}, // new ones take over
	} {
		var changes lpm.Routes
		for i, p := range change[0] {
			changes.Add(netip.MustParsePrefix(p), lpm.Handle(i+1))
		}
		for _, p := range change[1] {
			changes.Add(netip.MustParsePrefix(p), lpm.None)
		}
		for p, h := range o { // a handle names one prefix: whoever held one of these and is not in the change goes
			if int(h) <= len(change[0]) && !slices.Contains(change[0], p.String()) {
				changes.Add(p, lpm.None)
			}
		}
		next, err := e.Update(context.Background(), tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		o.Apply(changes)
		v4, v6 := Probes(o.Routes(), rand.New(rand.NewPCG(1, 1)))
		Check(t, next, o, v4, v6)
		tab = next
	}
	// The later of two changes to one prefix counts.
	p := netip.MustParsePrefix("203.0.113.0/24")
	var twice lpm.Routes
	twice.Add(p, 100)
	twice.Add(p, lpm.None)
	twice.Add(p, 101)
	next, err := e.Update(context.Background(), tab, twice)
	if err != nil {
		t.Fatal(err)
	}
	if h := next.Find(p); h != 101 {
		t.Errorf("find %s after three changes: route %d, want the last one, 101", p, h)
	}
}

func refused(t *testing.T, e lpm.Engine) {
	for name, rs := range map[string]lpm.Routes{
		"33 bits":       {V4: []lpm.Route4{{Addr: 0, Bits: 33, Handle: 1}}},
		"host bits":     {V4: []lpm.Route4{{Addr: 1, Bits: 24, Handle: 1}}},
		"129 bits":      {V6: []lpm.Route6{{Bits: 129, Handle: 1}}},
		"host bits v6":  {V6: []lpm.Route6{{Addr: lpm.Addr6{Lo: 1}, Bits: 64, Handle: 1}}},
		"handle":        {V4: []lpm.Route4{{Bits: 8, Handle: lpm.MaxHandle + 1}}},
		"handle v6":     {V6: []lpm.Route6{{Bits: 8, Handle: lpm.MaxHandle + 1}}},
		"host bits /63": {V6: []lpm.Route6{{Addr: lpm.Addr6{Hi: 1}, Bits: 63, Handle: 1}}},
	} {
		if tab, err := e.Build(context.Background(), rs); err == nil {
			tab.Close()
			t.Errorf("%s: build took it", name)
		}
	}
	rs := lpm.Routes{V4: []lpm.Route4{{Addr: 10 << 24, Bits: 8, Handle: lpm.MaxHandle}}}
	tab := Build(t, e, rs)
	defer tab.Close()
	Check(t, tab, OracleOf(rs), []uint32{10<<24 + 5, 11 << 24}, nil)
	if _, err := e.Update(context.Background(), tab, lpm.Routes{V4: []lpm.Route4{{Addr: 1, Bits: 8, Handle: 1}}}); err == nil {
		t.Error("update took a route with host bits")
	}
	Check(t, tab, OracleOf(rs), []uint32{10<<24 + 5, 11 << 24}, nil)
}

func coveredLimit(t *testing.T, e lpm.Engine) {
	rs := RoutesOf("10.0.0.0/8", "10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "11.0.0.0/8")
	tab := Build(t, e, rs)
	defer tab.Close()
	p := netip.MustParsePrefix("10.0.0.0/8")
	for limit, want := range map[int][]lpm.Handle{0: {99}, 1: {99, 1}, 3: {99, 1, 2, 3}, 100: {99, 1, 2, 3, 4}, -1: {99, 1, 2, 3, 4}} {
		if got := tab.Covered([]lpm.Handle{99}, p, limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	if got := tab.Covering([]lpm.Handle{99}, netip.MustParsePrefix("10.0.1.7/32")); !slices.Equal(got, []lpm.Handle{99, 3, 1}) {
		t.Errorf("covering appends: got %v", got)
	}
}

func closed(t *testing.T, e lpm.Engine) {
	tab := Build(t, e, RoutesOf("10.0.0.0/8", "2001:db8::/32"))
	other := Build(t, e, RoutesOf("10.0.0.0/8"))
	for range 2 {
		if err := tab.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := tab.Lookup4(make([]lpm.Handle, 1), []uint32{10 << 24}); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("lookup4 in a closed table: %v", err)
	}
	if err := tab.Lookup6(make([]lpm.Handle, 1), make([]lpm.Addr6, 1)); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("lookup6 in a closed table: %v", err)
	}
	p := netip.MustParsePrefix("10.0.0.0/8")
	if tab.Find(p) != lpm.None || len(tab.Covering(nil, p)) > 0 || len(tab.Covered(nil, p, -1)) > 0 {
		t.Error("a closed table finds routes")
	}
	if _, err := e.Update(context.Background(), tab, lpm.Routes{}); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("update of a closed table: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close engine: %v", err)
	}
	if _, err := e.Build(context.Background(), lpm.Routes{}); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("build by a closed engine: %v", err)
	}
	if h := other.Find(p); h != 1 {
		t.Errorf("find in a table of a closed engine: %d", h)
	}
	other.Close()
}

func foreign(t *testing.T, a, b lpm.Engine) {
	tab := Build(t, a, RoutesOf("10.0.0.0/8"))
	defer tab.Close()
	if _, err := b.Update(context.Background(), tab, lpm.Routes{}); !errors.Is(err, lpm.ErrForeignTable) {
		t.Errorf("update of another engine's table: %v", err)
	}
}

func cancelled(t *testing.T, e lpm.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Build(ctx, RoutesOf("10.0.0.0/8")); !errors.Is(err, context.Canceled) {
		t.Errorf("build: %v", err)
	}
	tab := Build(t, e, RoutesOf("10.0.0.0/8"))
	defer tab.Close()
	if _, err := e.Update(ctx, tab, lpm.Routes{}); !errors.Is(err, context.Canceled) {
		t.Errorf("update: %v", err)
	}
}

func noAllocation(t *testing.T, e lpm.Engine) {
	r := rand.New(rand.NewPCG(7, 7))
	rs := RandomRoutes(r, 500, 1)
	tab := Build(t, e, rs)
	defer tab.Close()
	v4, v6 := Probes(rs, r)
	dst := make([]lpm.Handle, max(len(v4), len(v6)))
	for _, n := range []int{1, 7, 256, len(v4)} {
		if a := testing.AllocsPerRun(10, func() {
			if tab.Lookup4(dst[:n], v4[:n]) != nil || tab.Lookup6(dst[:n], v6[:n]) != nil {
				t.Error("lookup failed")
			}
		}); a > 0 && !raceEnabled {
			t.Errorf("a batch of %d allocates %v times", n, a)
		}
	}
}

// concurrent lets readers check the newest table while a writer makes the next ones.
func concurrent(t *testing.T, e lpm.Engine) {
	r := rand.New(rand.NewPCG(11, 11))
	rs := RandomRoutes(r, 300, 1)
	v4, v6 := Probes(rs, r)
	type version struct {
		tab lpm.Table
		o   Oracle
	}
	const versions = 20
	lines := make(chan version, versions)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for v := range lines {
				got := make([]lpm.Handle, len(v4))
				if err := v.tab.Lookup4(got, v4); err != nil {
					t.Errorf("lookup4: %v", err)
				}
				for i, a := range v4 {
					if want := v.o.Lookup(lpm.Netip4(a)); got[i] != want {
						t.Errorf("lookup %s: got route %d, want %d", lpm.Netip4(a), got[i], want)
						break
					}
				}
				got = make([]lpm.Handle, len(v6))
				if err := v.tab.Lookup6(got, v6); err != nil {
					t.Errorf("lookup6: %v", err)
				}
				for i, a := range v6 {
					if want := v.o.Lookup(a.Netip()); got[i] != want {
						t.Errorf("lookup %s: got route %d, want %d", a.Netip(), got[i], want)
						break
					}
				}
			}
		})
	}
	o := OracleOf(rs)
	tab := Build(t, e, rs)
	next := lpm.Handle(1 << 20)
	for range versions {
		snapshot := Oracle{}
		snapshot.Apply(o.Routes())
		lines <- version{tab, snapshot}
		changes := RandomRoutes(r, 20, next)
		next += 40
		updated, err := e.Update(context.Background(), tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		o.Apply(changes)
		tab = updated
	}
	close(lines)
	wg.Wait()
}
