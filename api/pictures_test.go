package api

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

var pictures = flag.String("pictures", "", "put pictures of the page into this folder")

// TestPictures makes the pictures of the documentation: go test ./api -run TestPictures -pictures ../docs/images
// (docs/web.md). The table is a generated one, its traffic of ten minutes is of some seconds.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no -pictures: it makes those of the documentation, and tests nothing that the others do not")
	}
	w, change := newShownWorld(t)
	r := rand.New(rand.NewPCG(1, 1))
	w.api.series.close() // its seconds are those of this test
	w.api.series.service = history[serviceReading, serviceSample, *serviceReading]{}
	w.api.main.series.past = history[tableReading, tableSample, *tableReading]{}
	start := time.Now().Add(-605 * time.Second)
	asked := 2000.0
	for i := range 605 {
		asked = max(200, asked+r.NormFloat64()*150)
		var lines strings.Builder
		for range int(asked) {
			fmt.Fprintf(&lines, "%d.%d.%d.1\n", 1+r.IntN(223), r.IntN(256), r.IntN(256))
		}
		w.do(http.MethodPost, lookupPath, "text/plain", lines.String())
		for range 20 {
			w.get(fmt.Sprintf("/api/v1/lookup/%d.%d.%d.1", 1+r.IntN(223), r.IntN(256), r.IntN(256)))
		}
		if r.IntN(3) > 0 {
			change(r.IntN(40))
		}
		w.api.sample(start.Add(time.Duration(i) * time.Second))
	}

	b := browse(t, newStoppable(t, w.api.Handler()).url(), "#q=62.41.0.0/17", 1280, 1000)
	shoot := func(name string) {
		if err := os.WriteFile(filepath.Join(*pictures, name), b.shoot(false), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.scheme("light")
	b.await("#answer", "62.41.0.0/17", "best")
	b.await("#origins", "AS")
	b.await("#peers", "transit-a")
	shoot("page-light.png")
	b.scheme("dark")
	shoot("page-dark.png")
	b.resize(360, 1100)
	shoot("page-narrow.png")
}

// newShownWorld is a service as a small network has it. change has n of its routes flap.
func newShownWorld(t *testing.T) (w *pageWorld, change func(n int)) {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, Publisher: rib.PublisherOptions{Source: "bgp"}, RIB: rib.Options{LocalAS: 64496}})
	t.Cleanup(tables.Close)
	w = &pageWorld{world: &world{t: t}, tables: tables}
	w.table = openTable(t, tables, rib.DefaultTable)
	openTable(t, tables, "customers")
	w.api = New(Deps{Tables: tables, EngineName: "cpu", Build: Build{Version: "v0.6.0"}})
	t.Cleanup(w.api.Close)

	ases := []uint32{64500, 64510, 64520}
	var peers []*rib.Peer
	for i, name := range []string{"transit-a", "transit-b", "exchange"} {
		p, err := w.table.RIB.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindBGP, AS: ases[i], Addr: netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + i)})})
		if err != nil {
			t.Fatal(err)
		}
		p.Up(rib.Session{IPv4: true, IPv6: true, RouterID: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)})})
		peers = append(peers, p)
	}
	table := fixtures.Generate(1, 120_000, 30_000)
	pathOf := func(peer int, at rib.Attrs) rib.Attrs {
		var path []uint32
		for s := range at.ASPath.Segments() {
			path = append(path, s.ASNs...)
		}
		path[0] = ases[peer]
		if peer == 1 {
			path = slices.Insert(path, 1, 64511) // the longer way
		}
		at.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: path})
		at.NextHop = netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + peer)})
		return at
	}
	for i, r := range table.Routes {
		at := table.Attrs[r.Attrs]
		u := rib.Update{Reach: []rib.NLRI{{Prefix: r.Prefix}}}
		for peer, p := range peers {
			if peer < 2 || i%4 == 0 {
				u.Attrs = pathOf(peer, at)
				p.Apply(u)
			}
		}
	}
	shown := rib.Attrs{
		NextHop:          netip.MustParseAddr("198.51.100.1"),
		ASPath:           rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, 65536, 65540, 65540, 65551}}),
		Communities:      rib.MakeCommunities(64500<<16|3000, 64500<<16|1020, 64496<<16|100),
		LargeCommunities: rib.MakeLargeCommunities([3]uint32{65536, 1, 276}),
		MED:              50, HasMED: true,
	}
	w.announce(peers[0], shown, "62.41.0.0/17", "62.41.0.0/18", "62.41.64.0/18")
	w.announce(peers[0], pathOf(0, shown), "62.40.0.0/13")
	w.announce(peers[1], pathOf(1, shown), "62.41.0.0/17")
	shown.HasMED, shown.LocalPref, shown.HasLocalPref = false, 80, true
	w.announce(peers[2], pathOf(2, shown), "62.41.0.0/17")
	broken := addPeer(t, w.table.RIB, "exchange-v6", 64520)
	broken.Loaded()
	broken.Down("hold timer expired: no message for 90 s")
	for _, p := range peers {
		p.EndOfRIB(false)
		p.EndOfRIB(true)
	}
	flush(t, w.table)
	r := rand.New(rand.NewPCG(2, 2))
	var gone []int
	return w, func(n int) {
		for range n {
			if len(gone) > 0 && r.IntN(100) < 30+len(gone)/4 { // the more are gone, the more come back
				i := gone[0]
				gone = gone[1:]
				u := rib.Update{Reach: []rib.NLRI{{Prefix: table.Routes[i].Prefix}}}
				for peer, p := range peers[:2] {
					u.Attrs = pathOf(peer, table.Attrs[table.Routes[i].Attrs])
					p.Apply(u)
				}
				continue
			}
			i := r.IntN(len(table.Routes))
			gone = append(gone, i)
			for _, p := range peers {
				p.Apply(rib.Update{Unreach: []rib.NLRI{{Prefix: table.Routes[i].Prefix}}})
			}
		}
		flush(t, w.table)
	}
}
