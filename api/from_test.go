package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

// exitWorld has a table whose routes have two exits, b and d of testTopology: a is the root. 10.9.0.0/16 is behind
// z alone, which only z reaches, and 10.0.0.0/8 is behind b.
func exitWorld(t testing.TB, change func(*Deps)) *world {
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, RIB: rib.Options{Log: quiet}})
	t.Cleanup(tables.Close)
	table, _ := tables.Get(rib.DefaultTable)
	keeper := withIGP(t, tables, testTopology, "a")
	for name, routes := range map[string]map[string]string{
		"pb": {"10.0.0.0/8": "192.0.2.2", "10.1.0.0/16": "192.0.2.2", "2001:db8::/32": "192.0.2.2"},
		"pd": {"10.1.0.0/16": "192.0.2.4", "2001:db8::/32": "192.0.2.4"},
		"pz": {"10.9.0.0/16": "192.0.2.26", "10.1.2.0/24": "192.0.2.26"},
	} {
		p, err := table.RIB.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindList})
		if err != nil {
			t.Fatal(err)
		}
		for prefix, hop := range routes {
			p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix(prefix)}}, Attrs: rib.Attrs{NextHop: netip.MustParseAddr(hop)}})
		}
	}
	if err := table.Publisher.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := Deps{Tables: tables, IGP: keeper, EngineName: "cpu", Log: quiet}
	if change != nil {
		change(&d)
	}
	return &world{t: t, api: New(d)}
}

// hopOf gives the route's prefix and next hop in an answer.
func hopOf(t *testing.T, body string) string {
	t.Helper()
	var a struct {
		Prefix  *string
		NextHop *string `json:"next_hop"`
		Route   *struct {
			Prefix  string
			NextHop string `json:"next_hop"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	switch {
	case a.Route != nil:
		return a.Route.Prefix + " " + a.Route.NextHop
	case a.NextHop != nil:
		return *a.Prefix + " " + *a.NextHop
	}
	return "none"
}

func TestFromARouter(t *testing.T) {
	w := exitWorld(t, nil)
	for _, c := range []struct{ from, ip, want string }{
		{"", "10.1.0.1", "10.1.0.0/16 192.0.2.2"},
		{"a", "10.1.0.1", "10.1.0.0/16 192.0.2.2"},
		{"d", "10.1.0.1", "10.1.0.0/16 192.0.2.4"},
		{"192.0.2.4", "2001:db8::1", "2001:db8::/32 192.0.2.4"},
		{"z", "10.1.0.1", "none"},
		{"z", "10.1.2.3", "10.1.2.0/24 192.0.2.26"},
		{"", "10.1.2.3", "10.1.0.0/16 192.0.2.2"},
		{"", "10.9.0.1", "10.0.0.0/8 192.0.2.2"},
		{"z", "10.9.0.1", "10.9.0.0/16 192.0.2.26"},
		{"z", "10.8.0.1", "none"},
	} {
		query := ""
		if c.from != "" {
			query = "?from=" + c.from
		}
		if got := hopOf(t, w.get("/api/v1/lookup/"+c.ip+query).Body.String()); got != c.want {
			t.Errorf("%s from %q: %s, want %s", c.ip, c.from, got, c.want)
		}
		// The same in bulk.
		for form, body := range map[string]string{"text/plain": c.ip + "\n", "application/x-ndjson": fmt.Sprintf("%q\n", c.ip), "application/json": fmt.Sprintf(`{"ips":[%q]}`, c.ip)} {
			answer := w.do(http.MethodPost, "/api/v1/lookup"+query, form, body).Body.String()
			if form == "application/json" {
				answer = strings.TrimSuffix(answer[strings.Index(answer, "[")+1:], "]}\n")
			}
			if got := hopOf(t, answer); got != c.want {
				t.Errorf("%s from %q as %s: %s, want %s", c.ip, c.from, form, got, c.want)
			}
		}
	}
	for _, c := range []struct{ from, prefix, want string }{
		{"", "10.1.0.0/16", "10.1.0.0/16 192.0.2.2"}, {"d", "10.1.0.0/16", "10.1.0.0/16 192.0.2.4"}, {"z", "10.9.0.0/16", "10.9.0.0/16 192.0.2.26"}, {"z", "10.1.0.0/16", "none"},
	} {
		query := ""
		if c.from != "" {
			query = "&from=" + c.from
		}
		if got := hopOf(t, w.get("/api/v1/routes/"+c.prefix+"?include=paths"+query).Body.String()); got != c.want {
			t.Errorf("%s from %q: %s, want %s", c.prefix, c.from, got, c.want)
		}
		if got := hopOf(t, w.do(http.MethodPost, "/api/v1/routes?table=default"+query, "text/plain", c.prefix+"\n").Body.String()); got != c.want {
			t.Errorf("%s from %q in bulk: %s, want %s", c.prefix, c.from, got, c.want)
		}
	}
	if got := w.get("/api/v1/routes/10.1.0.0/16?include=paths&from=d").Body.String(); !strings.Contains(got, `"peer":"pb","path_id":0,"lost_by":"igp-cost"`) {
		t.Errorf("paths from d: %s", got)
	}
	if got := w.get("/api/v1/routes/10.0.0.0/8?include=more-specifics&from=z").Body.String(); !strings.Contains(got, `"more_specifics":[],`) {
		t.Errorf("more-specifics from z: %s", got)
	}
	rec := w.get("/api/v1/lookup/10.1.0.1?from=d")
	if rec.Header().Get("RIB-IGP-Generation") != "2" || rec.Header().Get("RIB-Generation") != "1" {
		t.Errorf("headers %v", rec.Header())
	}
	wantProblem(t, w.get("/api/v1/routes/10.1.0.0/16?from=z"), 404, "10.1.0.0/16 is not in the table")
	wantProblem(t, w.get("/api/v1/lookup/10.1.0.1?from=nobody"), 404, `there is no node "nobody"`)
	wantProblem(t, w.get("/api/v1/lookup/10.1.0.1?from="), 400, "from is missing")
	wantProblem(t, w.get("/api/v1/lookup/10.1.0.1?from=a&from=b"), 400, "2 times")
	wantProblem(t, w.do(http.MethodPost, "/api/v1/lookup?from=nobody", "text/plain", "10.0.0.1\n"), 404, "nobody")
	wantProblem(t, newWorld(t, nil).get("/api/v1/lookup/10.1.0.1?from=a"), 404, "no IGP is configured")
}

// The listing as a router sees it, in one go and page by page. What only others reach is in it where they ask.
func TestListingFromARouter(t *testing.T) {
	w := exitWorld(t, nil)
	for from, want := range map[string]string{
		"a": "10.0.0.0/8 192.0.2.2, 10.1.0.0/16 192.0.2.2, 2001:db8::/32 192.0.2.2",
		"d": "10.0.0.0/8 192.0.2.2, 10.1.0.0/16 192.0.2.4, 2001:db8::/32 192.0.2.4",
		"z": "10.1.2.0/24 192.0.2.26, 10.9.0.0/16 192.0.2.26",
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=2"} {
			var got []string
			query, routes := "", 0
			for range 10 {
				rec := w.get("/api/v1/routes?from=" + from + limit + query)
				if rec.Code != http.StatusOK || rec.Header().Get("RIB-IGP-Generation") != "2" {
					t.Fatalf("from %s: %d, headers %v: %s", from, rec.Code, rec.Header(), rec.Body)
				}
				query = ""
				for line := range strings.Lines(rec.Body.String()) {
					var l struct {
						Cursor string
						Routes int
					}
					if err := json.Unmarshal([]byte(line), &l); err != nil {
						t.Fatal(err)
					}
					if l.Cursor != "" {
						query = "&cursor=" + l.Cursor
					} else if l.Routes > 0 {
						routes = l.Routes
					} else {
						got = append(got, hopOf(t, line))
					}
				}
				if query == "" {
					break
				}
			}
			if strings.Join(got, ", ") != want || routes != len(got) {
				t.Errorf("from %s%s: %d routes: %v\nwant %s", from, limit, routes, got, want)
			}
		}
	}
	if got := w.get("/api/v1/routes?from=d&peer=pd&family=ipv4").Body.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"10.1.0.0/16","next_hop":"192.0.2.4"`) {
		t.Errorf("of one peer from d: %s", got)
	}
	if rec := w.do(http.MethodHead, "/api/v1/routes?from=d", "", ""); rec.Code != http.StatusOK || rec.Body.Len() > 0 {
		t.Errorf("HEAD: %d %s", rec.Code, rec.Body)
	}
	wantProblem(t, w.get("/api/v1/routes?from=nobody"), 404, `there is no node "nobody"`)
	wantProblem(t, w.get("/api/v1/routes?from=a&from=b"), 400, "2 times")
	wantProblem(t, newWorld(t, nil).get("/api/v1/routes?from=a"), 404, "no IGP is configured")
}

// CSV is answered as the router sees it; Arrow, whose answers are of the table itself, is refused.
func TestFromInOtherForms(t *testing.T) {
	w := exitWorld(t, nil)
	got := w.do(http.MethodPost, "/api/v1/lookup?from=d", "text/csv", "10.1.0.1\n10.8.0.1\nx\n").Body.String()
	lines := strings.Split(got, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "10.1.0.1,10.1.0.0/16,192.0.2.4,") || !strings.HasPrefix(lines[2], "10.8.0.1,10.0.0.0/8,192.0.2.2,") {
		t.Errorf("addresses: %q", got)
	}
	got = w.do(http.MethodPost, "/api/v1/routes?from=z", "text/csv", "10.9.0.0/16\n10.1.0.0/16\n").Body.String()
	if lines = strings.Split(got, "\n"); len(lines) != 4 || !strings.Contains(lines[1], ",192.0.2.26,") || strings.Contains(lines[2], "192.0.2.") {
		t.Errorf("prefixes: %q", got)
	}
	wantProblem(t, w.do(http.MethodPost, "/api/v1/lookup?from=d", arrowType, ""), 400, "from is not for Arrow")
}

// What a router sees hangs on the topology and on the paths of the moment, too: a client never hears that it has
// the answer, and gets no tag that would say so. That of a listing says in which generation to go on.
func TestFromIsNeverUnchanged(t *testing.T) {
	w := exitWorld(t, nil)
	for _, target := range []string{"/api/v1/lookup/10.1.0.1", "/api/v1/routes/10.1.0.0/16", "/api/v1/routes"} {
		tag := w.get(target).Header().Get("ETag")
		r := httptest.NewRequest(http.MethodGet, target+"?from=d", nil)
		r.Header.Set("If-None-Match", tag)
		r.Header.Set("If-Match", tag) // which generation, as elsewhere
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		want := ""
		if target == "/api/v1/routes" {
			want = tag
		}
		if tag == "" || rec.Code != http.StatusOK || rec.Header().Get("ETag") != want || !strings.Contains(rec.Body.String(), `"10.1.0.0/16","next_hop":"192.0.2.4"`) {
			t.Errorf("%s: tag %q, then %d %v: %s", target, tag, rec.Code, rec.Header(), rec.Body)
		}
	}
}

// An earlier generation says which prefix is looked at, and the paths of the moment which route there is.
func TestFromInAnEarlierGeneration(t *testing.T) {
	w := exitWorld(t, nil)
	w.get("/api/v1/generations") // from here on it is held
	table := w.api.main.of
	p, err := table.RIB.AddPeer(rib.PeerConfig{Name: "later", Kind: rib.KindList})
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.1.0.0/24")}}, Attrs: rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.4")}})
	if err := table.Publisher.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"generation=1&from=d": "10.1.0.0/16 192.0.2.4", "generation=2&from=d": "10.1.0.0/24 192.0.2.4", "from=d": "10.1.0.0/24 192.0.2.4"} {
		if got := hopOf(t, w.get("/api/v1/lookup/10.1.0.1?"+query).Body.String()); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if got := hopOf(t, w.do(http.MethodPost, "/api/v1/lookup?"+query, "text/plain", "10.1.0.1\n").Body.String()); got != want {
			t.Errorf("%s in bulk: %s, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{"?generation=1": `"prefix":"10.1.0.0/16"`, "": `"prefix":"10.1.0.0/24"`} {
		if got := w.do(http.MethodPost, "/api/v1/exits"+query, "application/json", `{"from":["d"],"ips":["10.1.0.1"]}`).Body.String(); !strings.Contains(got, want) {
			t.Errorf("exits%s: %s", query, got)
		}
	}
}

// A stream of many batches, which two goroutines work on, is answered as one lookup after the other.
func TestFromInALongStream(t *testing.T) {
	w := exitWorld(t, nil)
	var body strings.Builder
	const n = 5*batchLines + 7
	for i := range n {
		if i%1000 == 999 {
			body.WriteString("nowhere\n")
			continue
		}
		fmt.Fprintf(&body, "10.%d.%d.1\n", i%11, i%256)
	}
	asked := strings.Split(body.String(), "\n")
	for _, from := range []string{"a", "d", "z"} {
		got := strings.Split(strings.TrimSuffix(w.do(http.MethodPost, "/api/v1/lookup?from="+from, "text/plain", body.String()).Body.String(), "\n"), "\n")
		if len(got) != n {
			t.Fatalf("%d answers, want %d", len(got), n)
		}
		for i := 0; i < n; i += 61 {
			if asked[i] == "nowhere" {
				continue
			}
			if want := hopOf(t, w.get("/api/v1/lookup/"+asked[i]+"?from="+from).Body.String()); hopOf(t, got[i]) != want {
				t.Fatalf("line %d, %s from %s: %s, want %s", i+1, asked[i], from, got[i], want)
			}
		}
		if !strings.Contains(got[999], `"ip":"nowhere","line":1000,"error"`) {
			t.Errorf("line 1000: %s", got[999])
		}
	}
}

func TestExits(t *testing.T) {
	w := exitWorld(t, nil)
	ask := func(body string) string {
		t.Helper()
		return w.do(http.MethodPost, "/api/v1/exits", "application/json", body).Body.String()
	}
	const plain = `"as_path":[],"origin_asns":[],"communities":[],"origin":"igp","med":null,"local_pref":null`
	wantJSON(t, ask(`{"from":["a","192.0.2.4","z"],"ips":["10.1.0.1","10.9.0.1","nowhere","11.0.0.1"]}`),
		`{"generation":1,"igp_generation":2,"results":[`+
			`{"ip":"10.1.0.1","exits":[{"prefix":"10.1.0.0/16","next_hop":"192.0.2.2",`+plain+`,"peer":"pb","path_id":0,"from":["a"],"costs":[1]},`+
			`{"prefix":"10.1.0.0/16","next_hop":"192.0.2.4",`+plain+`,"peer":"pd","path_id":0,"from":["d"],"costs":[0]}],"without":["z"]},`+
			`{"ip":"10.9.0.1","exits":[{"prefix":"10.0.0.0/8","next_hop":"192.0.2.2",`+plain+`,"peer":"pb","path_id":0,"from":["a","d"],"costs":[1,4]},`+
			`{"prefix":"10.9.0.0/16","next_hop":"192.0.2.26",`+plain+`,"peer":"pz","path_id":0,"from":["z"],"costs":[0]}],"without":[]},`+
			`{"ip":"nowhere","error":"not an IP address: unable to parse IP"},`+
			`{"ip":"11.0.0.1","exits":[],"without":["a","d","z"]}]}`)
	for _, c := range []struct {
		body, detail string
		status       int
	}{
		{`{"from":["a"]}`, "missing or empty", 400},
		{`{"from":["a"],"ips":["10.0.0.1"]}x`, "the body is not", 400},
		{`{"from":["a"],"ips":["10.0.0.1"],"to":[]}`, "the body is not", 400},
		{`{"from":["nobody"],"ips":["10.0.0.1"]}`, "nobody", 404},
		{`{"from":["a"],"ips":["10.0.0.1"],"table":"blue"}`, "there is no table", 404},
	} {
		wantProblem(t, w.do(http.MethodPost, "/api/v1/exits", "application/json", c.body), c.status, c.detail)
	}
	few := exitWorld(t, func(d *Deps) { d.Limits.MaxIPsJSON = 1 })
	wantProblem(t, few.do(http.MethodPost, "/api/v1/exits", "application/json", `{"from":["a"],"ips":["10.0.0.1","10.0.0.2"]}`), 413, "2 addresses")
	wantProblem(t, newWorld(t, nil).do(http.MethodPost, "/api/v1/exits", "application/json", `{}`), 404, "no IGP")
}

// A table of exits that goes out in pieces says what lookups from each router do.
func TestManyExitsAreTheLookups(t *testing.T) {
	w := exitWorld(t, nil)
	var ips []string
	for i := range 9000 {
		ips = append(ips, fmt.Sprintf("10.%d.%d.1", i%11, i%256))
	}
	body, _ := json.Marshal(map[string]any{"from": []string{"a", "d", "z"}, "ips": ips})
	var got struct {
		Results []struct {
			IP    string
			Exits []struct {
				Prefix  string
				NextHop string `json:"next_hop"`
				From    []string
			}
			Without []string
		}
	}
	text := w.do(http.MethodPost, "/api/v1/exits", "application/json", string(body)).Body.Bytes()
	if err := json.Unmarshal(text, &got); err != nil || len(got.Results) != len(ips) {
		t.Fatalf("%v, %d results, want %d", err, len(got.Results), len(ips))
	}
	for i := 0; i < len(ips); i += 97 {
		taken := map[string]string{}
		for _, x := range got.Results[i].Exits {
			for _, f := range x.From {
				taken[f] = x.Prefix + " " + x.NextHop
			}
		}
		for _, f := range got.Results[i].Without {
			taken[f] = "none"
		}
		for _, f := range []string{"a", "d", "z"} {
			if want := hopOf(t, w.get("/api/v1/lookup/"+ips[i]+"?from="+f).Body.String()); taken[f] != want {
				t.Fatalf("%s from %s: %q, want %s", ips[i], f, taken[f], want)
			}
		}
	}
}
