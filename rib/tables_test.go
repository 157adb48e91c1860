package rib_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

func newTables(t *testing.T, o rib.TablesOptions) *rib.Tables {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Engine = engine
	tables := rib.NewTables(o)
	t.Cleanup(tables.Close)
	return tables
}

func openTable(t *testing.T, tables *rib.Tables, name string) *rib.Table {
	t.Helper()
	table, err := tables.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// listIn adds an awaited list to a table.
func listIn(t *testing.T, table *rib.Table, name string) *rib.Peer {
	t.Helper()
	p, err := table.RIB.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindList, Awaited: true})
	if err != nil {
		t.Fatal(err)
	}
	p.Up(rib.Session{})
	return p
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// counts gives the number of the newest generation's IPv4 routes, -1 without one.
func counts(table *rib.Table) int {
	g := table.Publisher.Generations().Acquire()
	if g == nil {
		return -1
	}
	defer g.Release()
	return g.V4
}

func names(all []*rib.Table) (names []string) {
	for _, table := range all {
		names = append(names, table.Name)
	}
	return names
}

func TestTablesHaveTheirOwnRoutes(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{Publisher: rib.PublisherOptions{Source: "bgp"}})
	a, b := openTable(t, tables, "a"), openTable(t, tables, "b")
	if again := openTable(t, tables, "a"); again != a {
		t.Error("opened twice it is another table")
	}
	main, ok := tables.Get(rib.DefaultTable)
	if !ok || openTable(t, tables, rib.DefaultTable) != main {
		t.Error("the default table is not there from the start")
	}
	if _, ok := tables.Get("c"); ok {
		t.Error("a table is there that nobody opened")
	}
	if got := names(tables.All()); !slices.Equal(got, []string{"default", "a", "b"}) {
		t.Errorf("tables %q", got)
	}
	tables.Start()
	same := []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}
	for i, table := range []*rib.Table{a, b} { // one name, one prefix, two tables
		listIn(t, table, "list").Apply(rib.Update{Reach: same, Attrs: rib.Attrs{MED: uint32(i), HasMED: true}})
	}
	for i, table := range []*rib.Table{a, b} {
		eventually(t, "the route is in table "+table.Name, func() bool { return counts(table) == 1 })
		g := table.Publisher.Generations().Acquire()
		r := g.Route(g.Table.Find(same[0].Prefix))
		if r.Path.Value().MED != uint32(i) || g.Source != table.Name {
			t.Errorf("table %s has MED %d, source %q", table.Name, r.Path.Value().MED, g.Source)
		}
		g.Release()
	}
	eventually(t, "the default table is published", func() bool { return counts(main) == 0 })
	g := main.Publisher.Generations().Acquire()
	defer g.Release()
	if g.Source != "bgp" {
		t.Errorf("source %q", g.Source)
	}
}

func TestReadyWhenEveryTableIs(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{})
	main, vrf := openTable(t, tables, rib.DefaultTable), openTable(t, tables, "vrf")
	first, second := listIn(t, main, "first"), listIn(t, vrf, "second")
	tables.Start()
	want := func(ok bool, waiting ...string) {
		t.Helper()
		if is, names := tables.Ready(); is != ok || !slices.Equal(names, waiting) {
			t.Errorf("ready %t, waiting for %q; want %t, %q", is, names, ok, waiting)
		}
	}
	want(false, "first", "second in table vrf")
	second.Loaded()
	eventually(t, "one table is ready", func() bool { ok, _ := vrf.Publisher.Ready(); return ok })
	want(false, "first")
	first.Loaded()
	eventually(t, "all are ready", func() bool { ok, _ := tables.Ready(); return ok })
	listIn(t, openTable(t, tables, "later"), "third")
	want(true)
}

func TestTableThatIsOpenedLaterIsPublished(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{})
	tables.Start()
	table := openTable(t, tables, "later")
	eventually(t, "its first generation", func() bool { return counts(table) == 0 })
}

func TestDroppedTableIsGone(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{RIB: rib.Options{MaxPending: 10}})
	tables.Start()
	table := openTable(t, tables, "vrf")
	p := listIn(t, table, "list")
	p.Apply(rib.Update{Reach: prefixes(5)})
	eventually(t, "routes", func() bool { return counts(table) == 5 })
	g := table.Publisher.Generations().Acquire()
	tables.Drop("vrf")
	if _, ok := tables.Get("vrf"); ok || len(tables.All()) != 1 {
		t.Error("it is still there")
	}
	if counts(table) != -1 {
		t.Error("its generation is still published")
	}
	if g.Table.Find(prefixes(1)[0].Prefix) == 0 {
		t.Error("a reader lost its generation")
	}
	g.Release()
	p.Apply(rib.Update{Reach: prefixes(100)}) // more than may wait for a publisher: must not block
	tables.Drop("vrf")
	tables.Drop(rib.DefaultTable)
	if _, ok := tables.Get(rib.DefaultTable); !ok || counts(tables.All()[0]) != 0 {
		t.Error("the default table was dropped")
	}
	if openTable(t, tables, "vrf") == table {
		t.Error("a dropped table came back")
	}
}

func TestTablesAreBounded(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{Max: 3})
	for _, name := range []string{"a", "b", "a", rib.DefaultTable} {
		openTable(t, tables, name)
	}
	if _, err := tables.Open("c"); !errors.Is(err, rib.ErrTooManyTables) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("error %v", err)
	}
	tables.Drop("a")
	openTable(t, tables, "c")
	tables.Close()
	if _, err := tables.Open("d"); !errors.Is(err, rib.ErrTablesClosed) {
		t.Errorf("error %v", err)
	}
}

func TestPassingTablesGoWhereNothingFeedsThem(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{IdleTime: 50 * time.Millisecond})
	passing := func(name string) *rib.Table {
		t.Helper()
		table, err := tables.OpenPassing(name)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	there := func() string { return strings.Join(names(tables.All())[1:], " ") }
	fed, vrf := passing("fed"), passing("vrf")
	stays := openTable(t, tables, "stays")
	if passing("stays") != stays || openTable(t, tables, "named") != passing("named") {
		t.Error("a table was made twice")
	}
	peer, first := listIn(t, fed, "router"), listIn(t, vrf, "router")
	vrf.RIB.RemovePeer(first)
	tables.Start()
	eventually(t, "the table without a peer is gone", func() bool { return there() == "fed named stays" })
	if _, err := vrf.RIB.AddPeer(rib.PeerConfig{Name: "late"}); !errors.Is(err, rib.ErrTableGone) {
		t.Errorf("a peer in a table that is gone: %v", err)
	}
	if passing("vrf") == vrf {
		t.Error("a table that was dropped came back")
	}
	eventually(t, "a peer in the new one", func() bool { // which may be gone in between
		_, err := passing("vrf").RIB.AddPeer(rib.PeerConfig{Name: "late"})
		return err == nil
	})
	fed.RIB.RemovePeer(peer)
	eventually(t, "the table whose peer went is gone", func() bool { return there() == "named stays vrf" })
	listIn(t, stays, "file")
	tables.Release("stays")
	tables.Release("named")
	tables.Release(rib.DefaultTable)
	if got := there(); got != "stays vrf" {
		t.Errorf("tables behind Release: %s", got)
	}
}

func TestPassingTablesMakeRoom(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{Max: 4, IdleTime: time.Hour})
	for _, name := range []string{"a", "b"} {
		table, err := tables.OpenPassing(name)
		if err != nil {
			t.Fatal(err)
		}
		p := listIn(t, table, "router")
		if name == "b" {
			table.RIB.RemovePeer(p)
		}
	}
	openTable(t, tables, "c")
	if _, err := tables.OpenPassing("d"); err != nil {
		t.Errorf("a table without peers made no room: %v", err)
	}
	if got := names(tables.All()); !slices.Equal(got, []string{"default", "a", "c", "d"}) {
		t.Errorf("tables %q", got)
	}
	d, _ := tables.Get("d")
	listIn(t, d, "router")
	if _, err := tables.OpenPassing("e"); !errors.Is(err, rib.ErrTooManyTables) {
		t.Errorf("error %v", err)
	}
}

func TestTableNames(t *testing.T) {
	for _, name := range []string{"vrf", "edge1:65000:1", "Käse", strings.Repeat("x", 128)} {
		if err := rib.CheckTableName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "a\nb", "\xff", "a\u200b", strings.Repeat("x", 129)} {
		if rib.CheckTableName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	if _, err := newTables(t, rib.TablesOptions{}).Open("a\tb"); err == nil {
		t.Error("opened a table without a good name")
	}
}

func TestTablesAreSafeForConcurrentUse(t *testing.T) {
	tables := newTables(t, rib.TablesOptions{Max: 3, IdleTime: time.Millisecond})
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for n := range 50 {
				name := fmt.Sprint("t", (i+n)%3)
				open := tables.Open
				if n%2 == 0 {
					open = tables.OpenPassing
				}
				if table, err := open(name); err == nil {
					if p, err := table.RIB.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i)}); err == nil {
						table.RIB.RemovePeer(p)
					}
				}
				tables.Ready()
				tables.All()
				if n == 10 {
					tables.Start()
				}
				if n%7 == 0 {
					tables.Drop(name)
				}
				if n%5 == 0 {
					tables.Release(name)
				}
			}
		})
	}
	running.Wait()
}
