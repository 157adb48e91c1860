package flavors_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/gaissmai/bart"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

const (
	realTable4 = "ris-2026-05-11-as3333-v4.txt.gz"
	realTable6 = "ris-2026-05-11-as3333-v6.txt.gz"
	realDay4   = "ris-2026-05-11-as3333-updates-24h-v4.txt.gz"
	realDay6   = "ris-2026-05-11-as3333-updates-24h-v6.txt.gz"
)

// realRoutes gives the real tables of both families in random order, numbered from 1 on.
func realRoutes(tb testing.TB) (rs lpm.Routes) {
	ps := append(fixtures.Prefixes(tb, realTable4), fixtures.Prefixes(tb, realTable6)...)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	for i, p := range ps {
		rs.Add(p, lpm.Handle(i+1))
	}
	return rs
}

// peer is the second oracle: the same routes in bart.
type peer struct{ bart.Fast[lpm.Handle] }

func (p *peer) apply(rs lpm.Routes) {
	one := func(pfx netip.Prefix, h lpm.Handle) {
		if h == lpm.None {
			p.Delete(pfx)
		} else {
			p.Insert(pfx, h)
		}
	}
	for _, r := range rs.V4 {
		one(r.Prefix(), r.Handle)
	}
	for _, r := range rs.V6 {
		one(r.Prefix(), r.Handle)
	}
}

// check compares lookups with bart.
func (p *peer) check(t *testing.T, tab lpm.Table, v4 []uint32, v6 []lpm.Addr6) {
	t.Helper()
	got := make([]lpm.Handle, max(len(v4), len(v6)))
	if err := tab.Lookup4(got, v4); err != nil {
		t.Fatal(err)
	}
	for i, a := range v4 {
		if want, _ := p.Lookup(lpm.Netip4(a)); got[i] != want {
			t.Fatalf("lookup %s: got route %d, bart has %d", lpm.Netip4(a), got[i], want)
		}
	}
	if err := tab.Lookup6(got, v6); err != nil {
		t.Fatal(err)
	}
	for i, a := range v6 {
		if want, _ := p.Lookup(a.Netip()); got[i] != want {
			t.Fatalf("lookup %s: got route %d, bart has %d", a.Netip(), got[i], want)
		}
	}
}

// Every border of every prefix of the real table, in both flavors, against bart; a sample
// against the slow oracle as well.
func TestRealTableAgreesWithBartAndOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	rs := realRoutes(t)
	r := rand.New(rand.NewPCG(3, 4))
	v4, v6 := lpmtest.Probes(rs, r)
	for range 1 << 20 { // and uniform addresses
		v4 = append(v4, r.Uint32())
	}
	var p peer
	p.apply(rs)
	o := lpmtest.OracleOf(rs)
	for _, f := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		e, err := flavors.NewCPU(flavors.Options{Flavor: f})
		if err != nil {
			t.Fatal(err)
		}
		tab := lpmtest.Build(t, e, rs)
		p.check(t, tab, v4, v6)
		var s4 []uint32
		var s6 []lpm.Addr6
		for range 200_000 {
			s4 = append(s4, v4[r.IntN(len(v4))])
			s6 = append(s6, v6[r.IntN(len(v6))])
		}
		lpmtest.Check(t, tab, o, s4, s6)
		for range 2000 {
			x, y := rs.V4[r.IntN(len(rs.V4))].Prefix(), rs.V6[r.IntN(len(rs.V6))].Prefix()
			for _, q := range []netip.Prefix{x, y} {
				got := tab.Covering(nil, q)
				want := o.Covering(q)
				if len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
					t.Fatalf("covering %s: got %v, want %v", q, got, want)
				}
			}
		}
		if n := len(tab.Covered(nil, netip.MustParsePrefix("0.0.0.0/0"), -1)); n != len(rs.V4) {
			t.Errorf("0.0.0.0/0 covers %d routes, want all %d", n, len(rs.V4))
		}
		if n := len(tab.Covered(nil, netip.MustParsePrefix("::/0"), -1)); n != len(rs.V6) {
			t.Errorf("::/0 covers %d routes, want all %d", n, len(rs.V6))
		}
		tab.Close()
	}
}

// The peer's next 24 hours of updates, applied in batches of changing size to the real table,
// leave the table that bart has, and the one that a build makes.
func TestRealDayOfUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	e, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dayOfUpdates(t, e)
}

func dayOfUpdates(t *testing.T, e lpm.Engine) {
	rs := realRoutes(t)
	tab := lpmtest.Build(t, e, rs)
	var p peer
	p.apply(rs)
	handles := map[netip.Prefix]lpm.Handle{}
	for _, x := range rs.V4 {
		handles[x.Prefix()] = x.Handle
	}
	for _, x := range rs.V6 {
		handles[x.Prefix()] = x.Handle
	}
	next := lpm.Handle(len(handles) + 1)
	r := rand.New(rand.NewPCG(5, 6))
	var batch lpm.Routes
	limit := 1000
	updates := 0
	flush := func() {
		updated, err := e.Update(context.Background(), tab, batch)
		if err != nil {
			t.Fatal(err)
		}
		p.apply(batch)
		tab.Close()
		tab = updated
		updates++
		if updates%50 == 0 {
			v4, v6 := lpmtest.Probes(batch, r)
			p.check(t, tab, v4, v6)
		}
		batch = lpm.Routes{}
		limit = 1 + r.IntN(4000)
	}
	for _, name := range []string{realDay4, realDay6} {
		f, err := os.Open(fixtures.DataFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(z); lines.Scan(); {
			pfx := netip.MustParsePrefix(lines.Text()[2:])
			switch h, known := handles[pfx]; {
			case lines.Text()[0] == 'W':
				delete(handles, pfx)
				batch.Add(pfx, lpm.None)
			case known:
				batch.Add(pfx, h)
			default:
				handles[pfx] = next
				batch.Add(pfx, next)
				next++
			}
			if batch.Len() >= limit {
				flush()
			}
		}
		f.Close()
	}
	flush()
	var all lpm.Routes
	for pfx, h := range handles {
		all.Add(pfx, h)
	}
	v4, v6 := lpmtest.Probes(all, r)
	p.check(t, tab, v4, v6)
	built := lpmtest.Build(t, e, all)
	p.check(t, built, v4, v6)
	// All routes of the table, as they come out of it, are those of the RIB.
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		p := netip.MustParsePrefix(all)
		var want []lpm.Handle
		for pfx, h := range handles {
			if pfx.Addr().Is4() == p.Addr().Is4() {
				want = append(want, h)
			}
		}
		got := tab.Covered(nil, p, -1)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d routes after %d updates, want the %d of the RIB", all, len(got), updates, len(want))
		}
	}
	a, b := tab.Info(), built.Info()
	for f := range a.Families {
		if a.Families[f].Prefixes != b.Families[f].Prefixes {
			t.Errorf("%s: %d prefixes after %d updates, a build has %d", a.Families[f].Family, a.Families[f].Prefixes, updates, b.Families[f].Prefixes)
		}
		for l := range a.Families[f].Levels {
			if x, y := a.Families[f].Levels[l].Nodes, b.Families[f].Levels[l].Nodes; x != y {
				t.Errorf("%s level %d: %d nodes after updates, a build has %d", a.Families[f].Family, l, x, y)
			}
		}
	}
	tab.Close()
	built.Close()
}
