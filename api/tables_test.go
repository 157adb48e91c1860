package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

// newTablesWorld makes a service over several tables. Each, also the default one, has 10.0.0.0/8
// from a peer "list", by an AS of its own: 64500 in the default table, then 64501 and so on. blue
// has 10.1.0.0/16, too.
func newTablesWorld(t *testing.T, names ...string) (*world, *rib.Tables) {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, Publisher: rib.PublisherOptions{Source: "test"}})
	t.Cleanup(tables.Close)
	w := &world{t: t, api: New(Deps{Tables: tables, EngineName: "cpu"})}
	t.Cleanup(w.api.Close)
	for i, name := range append([]string{rib.DefaultTable}, names...) {
		table := openTable(t, tables, name)
		p, err := table.RIB.AddPeer(rib.PeerConfig{Name: "list", Kind: rib.KindList, Awaited: true})
		if err != nil {
			t.Fatal(err)
		}
		p.Up(rib.Session{})
		reach := []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}
		if name == "blue" {
			reach = append(reach, rib.NLRI{Prefix: netip.MustParsePrefix("10.1.0.0/16")})
		}
		p.Apply(rib.Update{Reach: reach, Attrs: announced(64500 + uint32(i))})
		p.Loaded()
		flush(t, table)
	}
	return w, tables
}

func openTable(t *testing.T, tables *rib.Tables, name string) *rib.Table {
	t.Helper()
	table, err := tables.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func flush(t *testing.T, table *rib.Table) {
	t.Helper()
	if err := table.Publisher.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsNameATable(t *testing.T) {
	w, _ := newTablesWorld(t, "blue", "red & white")
	red := "?table=" + url.QueryEscape("red & white")
	for _, c := range []struct{ query, origin string }{{"", "64500"}, {"?table=default", "64500"}, {"?table=blue", "64501"}, {red, "64502"}} {
		want := `"origin_asns":[` + c.origin + `]`
		for what, got := range map[string]string{
			"lookup":       w.get("/api/v1/lookup/10.9.9.9" + c.query).Body.String(),
			"bulk JSON":    w.do(http.MethodPost, lookupPath+c.query, "application/json", `{"ips":["10.9.9.9"]}`).Body.String(),
			"bulk text":    w.do(http.MethodPost, lookupPath+c.query, "text/plain", "10.9.9.9\n").Body.String(),
			"bulk NDJSON":  w.do(http.MethodPost, lookupPath+c.query, "application/x-ndjson", `{"ip":"10.9.9.9"}`).Body.String(),
			"exact, bulk":  w.do(http.MethodPost, listPath+c.query, "application/json", `{"prefixes":["10.0.0.0/8"]}`).Body.String(),
			"exact, lines": w.do(http.MethodPost, listPath+c.query, "text/plain", "10.0.0.0/8\n").Body.String(),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s with %q: no %s in %s", what, c.query, want, got)
			}
		}
		more := "&" + strings.TrimPrefix(c.query, "?")
		for _, target := range []string{"/api/v1/routes/10.0.0.0/8?include=paths" + more, "/api/v1/routes?family=ipv4" + more} {
			if got := w.get(target).Body.String(); !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", target, want, got)
			}
		}
	}
	if got := w.get("/api/v1/routes?table=blue").Body.String(); strings.Count(got, "\n") != 3 {
		t.Errorf("listing: %s", got)
	}
}

func TestBulkBodyNamesATable(t *testing.T) {
	w, _ := newTablesWorld(t, "blue")
	ask := func(query, body string) (int, string) {
		rec := w.do(http.MethodPost, lookupPath+query, "application/json", body)
		return rec.Code, rec.Body.String()
	}
	for _, c := range []struct {
		query, body string
		code        int
		want        string
	}{
		{"", `{"table":"blue","ips":["10.1.1.1"]}`, 200, "10.1.0.0/16"},
		{"", `{"ips":["10.1.1.1"] , "table" : "blue"}`, 200, "10.1.0.0/16"},
		{"", `{"ips":["10.1.1.1"],"table":"default"}`, 200, "10.0.0.0/8"},
		{"?table=blue", `{"ips":["10.1.1.1"],"table":"blue"}`, 200, "10.1.0.0/16"},
		{"?table=blue", `{"ips":["10.1.1.1"],"table":"default"}`, 400, "name it once"},
		{"?table=default", `{"ips":["10.1.1.1"],"table":"blue"}`, 400, "name it once"},
		{"?table=default", `{"ips":["10.1.1.1"],"table":"default"}`, 200, "10.0.0.0/8"},
		{"", `{"ips":["10.1.1.1"],"table":"green"}`, 404, `no table \"green\": there are default, blue`},
		{"", `{"ips":["10.1.1.1"],"table":""}`, 400, "leave it out"},
		{"", `{"ips":["10.1.1.1"],"table":7}`, 400, "name of a table"},
		{"", `{"ips":[],"table":"blue","table":"blue"}`, 400, "second field"},
		{"", `{"table":"blue"}`, 400, `no field \"ips\"`},
	} {
		if code, got := ask(c.query, c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %s", c.query, c.body, code, got)
		}
	}
}

func TestBodyOfADiffNamesATable(t *testing.T) {
	w, tables := newTablesWorld(t, "blue")
	w.get("/api/v1/generations?table=blue") // holds the first
	blue := openTable(t, tables, "blue")
	p, _ := blue.Peer("list")
	p.Apply(rib.Update{Unreach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}})
	flush(t, blue)
	rec := w.do(http.MethodPost, "/api/v1/diff?from=1", "application/json", `{"table":"blue","ips":["10.1.1.1","10.2.1.1"]}`)
	if got := rec.Body.String(); rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "2" || !strings.Contains(got, `"from":{"prefix":"10.1.0.0/16"`) || !strings.Contains(got, `{"end":true,"addresses":2,"changes":1}`) {
		t.Errorf("%d: %s", rec.Code, got)
	}
}

func TestUnknownTableIs404WithThoseThereAre(t *testing.T) {
	w, tables := newTablesWorld(t, "blue")
	for _, target := range []string{
		"/api/v1/lookup/10.0.0.1", "/api/v1/routes", "/api/v1/routes/10.0.0.0/8", "/api/v1/peers", "/api/v1/status",
	} {
		for _, name := range []string{"green", "Default", ""} {
			wantProblem(t, w.get(target+"?table="+name), http.StatusNotFound, `no table "`+name+`": there are default, blue`)
		}
		wantProblem(t, w.get(target+"?table=blue&table=default"), http.StatusBadRequest, "2 times")
	}
	for _, kind := range []string{"application/json", "text/plain", "application/x-ndjson"} {
		wantProblem(t, w.do(http.MethodPost, lookupPath+"?table=green", kind, "x"), http.StatusNotFound, "no table")
		wantProblem(t, w.do(http.MethodPost, listPath+"?table=green", kind, "x"), http.StatusNotFound, "no table")
	}
	if rec := w.get("/api/v1/peers?table=blue"); rec.Code != http.StatusOK {
		t.Errorf("blue: %d", rec.Code)
	}
	tables.Drop("blue")
	wantProblem(t, w.get("/api/v1/peers?table=blue"), http.StatusNotFound, "there are default")
	wantProblem(t, newWorld(t, nil).get("/api/v1/lookup/10.0.0.1?table=blue"), http.StatusNotFound, "there are default")
}

func TestTablesAreListed(t *testing.T) {
	w, tables := newTablesWorld(t, "blue")
	empty := openTable(t, tables, "a-new-one")
	p, err := empty.RIB.AddPeer(rib.PeerConfig{Name: "slow", Kind: rib.KindList, Awaited: true})
	if err != nil {
		t.Fatal(err)
	}
	got := w.get("/api/v1/tables").Body.String()
	for _, want := range []string{
		`{"tables":[{"name":"default","generation":1,"ready":true,"waiting_for":[],"created":"`,
		`"source":"test","routes":{"ipv4":1,"ipv6":0},"peers":1},`,
		`{"name":"a-new-one","generation":0,"ready":false,"waiting_for":["slow"],"created":null,"source":null,"routes":{"ipv4":0,"ipv6":0},"peers":1},`,
		`"source":"blue","routes":{"ipv4":2,"ipv6":0},"peers":1}]}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	wantProblem(t, w.get("/readyz"), http.StatusServiceUnavailable, "waiting for slow in table a-new-one")
	if s := w.decode("/api/v1/status"); s["ready"] != true || s["name"] != nil {
		t.Errorf("the default table: %v", s)
	}
	if s := w.decode("/api/v1/status?table=a-new-one"); s["ready"] != false || s["name"] != "a-new-one" {
		t.Errorf("the empty table: %v", s)
	}
	if s := w.decode("/api/v1/status?table=blue"); s["name"] != "blue" || s["generation"] != 1.0 {
		t.Errorf("blue: %v", s)
	}
	metrics := w.get("/metrics").Body.String()
	for _, want := range []string{
		`ribwarp_ready 0`, `ribwarp_table_ready{table="default"} 1`, `ribwarp_table_ready{table="a-new-one"} 0`,
		`ribwarp_routes{family="ipv4",table="blue"} 2`, `ribwarp_generation_number{table="blue"} 1`,
		`ribwarp_peer_routes{family="ipv4",peer="list",table="default"} 1`, `ribwarp_peer_routes{family="ipv4",peer="list",table="blue"} 2`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	p.Loaded()
	flush(t, empty)
	if rec := w.get("/readyz"); rec.Code != http.StatusOK {
		t.Errorf("readyz %d: %s", rec.Code, rec.Body)
	}
}

// Generation 1 of two tables is two things: what is held for one listing serves no other.
func TestListingsGoOnInTheirOwnTable(t *testing.T) {
	w, tables := newTablesWorld(t, "blue")
	wantLast := func(target, want string) {
		t.Helper()
		got := strings.TrimSuffix(w.get(target).Body.String(), "\n")
		if last := got[strings.LastIndexByte(got, '\n')+1:]; last != want {
			t.Errorf("%s ends with %s, want %s", target, last, want)
		}
	}
	wantLast("/api/v1/routes?table=blue&limit=1", `{"cursor":"1,10.0.0.0/8"}`)
	blue := openTable(t, tables, "blue")
	p, err := blue.RIB.AddPeer(rib.PeerConfig{Name: "more", Kind: rib.KindList})
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.2.0.0/16")}}})
	flush(t, blue)
	wantLast("/api/v1/routes?table=blue&cursor=1,10.0.0.0/8", `{"end":true,"routes":2}`)
	wantLast("/api/v1/routes?table=blue&cursor=2,10.0.0.0/8", `{"end":true,"routes":3}`)
	wantLast("/api/v1/routes?cursor=1,10.0.0.0/8", `{"end":true,"routes":1}`)
	wantProblem(t, w.get("/api/v1/routes?cursor=2,10.0.0.0/8"), http.StatusGone, "generation 2")
	tables.Drop("blue")
	openTable(t, tables, "blue")
	wantProblem(t, w.get("/api/v1/routes?table=blue&cursor=1,10.0.0.0/8"), http.StatusServiceUnavailable, "no generation")
}

func TestStaleAndRejectedRoutesAreShown(t *testing.T) {
	w, tables := newTablesWorld(t)
	table := tables.All()[0]
	p := addPeer(t, table.RIB, "edge", 64999)
	p.SetImport(rejectAll{})
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}, Attrs: announced(64999)})
	flush(t, table)
	for _, path := range []string{"/api/v1/peers", "/api/v1/status", "/api/v1/tables", "/api/v1/lookup/10.0.0.1"} {
		if got := w.get(path).Body.String(); strings.Contains(got, "stale") {
			t.Errorf("nothing is stale: %s", got)
		}
	}
	if got := w.get("/api/v1/peers").Body.String(); !strings.Contains(got, `"rejected":{"prefix":1}`) {
		t.Errorf("peers: %s", got)
	}
	p.SetImport(nil)
	p.Retain("gone")
	flush(t, table)
	for path, want := range map[string]string{
		"/api/v1/peers":                 `"stale":{"ipv4":1,"ipv6":0},"stale_since":"`,
		"/api/v1/status":                `"stale":{"ipv4":1,"ipv6":0},"table"`,
		"/api/v1/tables":                `"stale":{"ipv4":1,"ipv6":0}`,
		"/api/v1/lookup/192.0.2.1":      `"generation":2,"stale":true}`,
		"/api/v1/routes/192.0.2.0/24":   `"path_id":0,"stale":true}`,
		"/metrics":                      `ribwarp_peer_stale_routes{family="ipv4",peer="edge",table="default"} 1`,
		"/api/v1/routes?limit=2":        `"path_id":0,"stale":true}`,
		"/api/v1/lookup/10.0.0.1?x=off": `"generation":2}`,
	} {
		if got := w.get(path).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in %s", path, want, got)
		}
	}
}

func TestAttributeBytesAreShown(t *testing.T) {
	w, tables := newTablesWorld(t)
	table := tables.All()[0]
	p := addPeer(t, table.RIB, "edge", 64999)
	attrs := announced(64999)
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}, Attrs: attrs})
	if got := w.get("/api/v1/peers").Body.String(); strings.Contains(got, "attribute_bytes") {
		t.Errorf("a small set of attributes counts: %s", got)
	}
	attrs.Communities = rib.MakeCommunities(make([]uint32, 1000)...)
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}, Attrs: attrs})
	if got, want := w.get("/api/v1/peers").Body.String(), fmt.Sprintf(`"attribute_bytes":%d}`, p.AttributeBytes()); !strings.Contains(got, want) || p.AttributeBytes() < 4000 {
		t.Errorf("no %s in %s", want, got)
	}
}

type rejectAll struct{}

func (rejectAll) Check(netip.Prefix, *rib.Attrs) rib.Reject { return rib.RejectPrefix }
