package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// shownDifference is a line of a diff; From and To are routes as text.
type shownDifference struct {
	Change    string
	Prefix    string
	From, To  json.RawMessage
	Cursor    string
	End       bool
	Changes   int
	IP        string
	Error     string
	Addresses int
}

func (d shownDifference) reversed() shownDifference {
	d.From, d.To = d.To, d.From
	switch d.Change {
	case "added":
		d.Change = "removed"
	case "removed":
		d.Change = "added"
	}
	return d
}

func (d shownDifference) String() string {
	return fmt.Sprintf("%s %s %s %s", d.Change, d.Prefix, d.From, d.To)
}

// parseDifferences reads lines, the last one apart.
func parseDifferences(t testing.TB, body string) (all []shownDifference, last shownDifference) {
	t.Helper()
	for line := range strings.Lines(body) {
		var d shownDifference
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, d)
	}
	return all[:len(all)-1], all[len(all)-1]
}

func (w *world) differences(query string) (all []shownDifference, last shownDifference) {
	w.t.Helper()
	rec := w.get("/api/v1/diff?" + query)
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("%s: %d %v: %s", query, rec.Code, rec.Header(), rec.Body)
	}
	return parseDifferences(w.t, rec.Body.String())
}

// lines gives the routes of a generation by prefix, as they are listed.
func (w *world) lines(generation int) map[string]string {
	w.t.Helper()
	l := w.list(fmt.Sprintf("generation=%d", generation))
	m := map[string]string{}
	for i, p := range l.prefixes {
		m[p.String()] = l.lines[i]
	}
	return m
}

// Two random tables: what the listings say, what the diff says, its pages, its inverse, and the
// same addresses looked up in both are one story.
func TestDiffTellsTheListingsApart(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	for range 5 {
		w := emptyWorld(t, nil)
		before := crowdedRoutes(r, 120, announced(1))
		var behind []rib.Route
		for _, x := range before {
			switch r.IntN(4) {
			case 0: // removed
			case 1:
				behind = append(behind, route(x.Prefix.String(), announced(2)))
			default:
				behind = append(behind, x)
			}
		}
		there := map[netip.Prefix]bool{}
		for _, x := range before {
			there[x.Prefix] = true
		}
		for _, x := range crowdedRoutes(r, 40, announced(3)) {
			if !there[x.Prefix] {
				behind = append(behind, x)
			}
		}
		w.publishShuffled(r, 1, before)
		w.generations()
		w.publishShuffled(r, 2, behind)
		a, b := w.lines(1), w.lines(2)

		all, last := w.differences("from=1")
		if !last.End || last.Changes != len(all) {
			t.Fatalf("%d lines, and the last one is %+v", len(all), last)
		}
		if !slices.IsSortedFunc(all, func(x, y shownDifference) int {
			return orderPrefixes(netip.MustParsePrefix(x.Prefix), netip.MustParsePrefix(y.Prefix))
		}) {
			t.Error("not in order")
		}
		applied := maps.Clone(a)
		for _, d := range all {
			if was, ok := a[d.Prefix]; ok != (d.Change != "added") || ok && was != string(d.From) || !ok && string(d.From) != "null" {
				t.Fatalf("%s: %s, was %s", d.Prefix, d, was)
			}
			if d.Change == "removed" {
				delete(applied, d.Prefix)
			} else {
				applied[d.Prefix] = string(d.To)
			}
			if d.Change == "changed" && string(d.From) == string(d.To) {
				t.Fatalf("nothing changed: %s", d)
			}
		}
		if !maps.Equal(applied, b) {
			t.Fatal("the differences do not make the second of the first")
		}
		back, _ := w.differences("from=2&to=1")
		if !slices.EqualFunc(all, back, func(x, y shownDifference) bool { return x.String() == y.reversed().String() }) {
			t.Fatal("the inverse is another one")
		}
		if none, last := w.differences("from=2&to=2"); len(none) != 0 || !last.End {
			t.Fatalf("%v", none)
		}
		var pages []shownDifference
		for next := "from=1"; ; {
			page, last := w.differences(next + "&limit=7")
			pages = append(pages, page...)
			if last.End {
				if last.Changes != len(all) {
					t.Fatalf("the last page tells of %d changes, there are %d", last.Changes, len(all))
				}
				break
			}
			next = "cursor=" + last.Cursor
		}
		if !slices.EqualFunc(all, pages, func(x, y shownDifference) bool { return x.String() == y.String() }) {
			t.Fatal("the pages are not the whole")
		}
		for filter, wants := range map[string]func(shownDifference) bool{
			"origin=2":    func(d shownDifference) bool { return strings.Contains(string(d.To), `"origin_asns":[2]`) },
			"origin=3":    func(d shownDifference) bool { return strings.Contains(string(d.To), `"origin_asns":[3]`) },
			"family=ipv6": func(d shownDifference) bool { return strings.Contains(d.Prefix, ":") },
		} {
			var want []shownDifference
			for _, d := range all {
				if wants(d) {
					want = append(want, d)
				}
			}
			got, last := w.differences("from=1&" + filter)
			if !slices.EqualFunc(got, want, func(x, y shownDifference) bool { return x.String() == y.String() }) || last.Changes != len(want) {
				t.Fatalf("%s: %d, want %d", filter, len(got), len(want))
			}
		}
		w.checkDiffLookup(r, before, a, b)
	}
}

// checkDiffLookup compares a batch looked up in both with the addresses asked for one by one.
func (w *world) checkDiffLookup(r *rand.Rand, near []rib.Route, lines ...map[string]string) {
	w.t.Helper()
	var text, ndjson, quoted []string
	var want []string
	changes := 0
	for i := range 300 {
		ip := near[r.IntN(len(near))].Prefix.Addr()
		if r.IntN(3) == 0 {
			ip = ip.Next()
		}
		if !ip.IsValid() || ip.Is4In6() {
			ip = netip.MustParseAddr("192.0.2.1")
		}
		asked := ip.String()
		if r.IntN(20) == 0 {
			asked = "nonsense"
		}
		text, ndjson, quoted = append(text, asked), append(ndjson, `{"ip":"`+asked+`"}`), append(quoted, `"`+asked+`"`)
		if asked == "nonsense" {
			want = append(want, fmt.Sprintf(`{"ip":"nonsense","line":%d,"error":"not an IP address: unable to parse IP"}`, i+1))
			continue
		}
		var routes [2]string
		for i := range routes {
			var x struct{ Prefix *string }
			if err := json.Unmarshal(w.get(fmt.Sprintf("/api/v1/lookup/%s?generation=%d", asked, i+1)).Body.Bytes(), &x); err != nil {
				w.t.Fatal(err)
			}
			if routes[i] = "null"; x.Prefix != nil {
				routes[i] = lines[i][*x.Prefix]
			}
		}
		if routes[0] != routes[1] {
			changes++
			want = append(want, fmt.Sprintf(`{"ip":"%s","from":%s,"to":%s}`, asked, routes[0], routes[1]))
		}
	}
	want = append(want, fmt.Sprintf(`{"end":true,"addresses":300,"changes":%d}`, changes))
	for kind, body := range map[string]string{
		"text/plain": strings.Join(text, "\r\n"), "application/x-ndjson": strings.Join(ndjson, "\n"), "application/json": `{"ips":[` + strings.Join(quoted, ",") + `]}`,
	} {
		rec := w.do(http.MethodPost, "/api/v1/diff?from=1&to=2", kind, body)
		if got := strings.TrimSuffix(rec.Body.String(), "\n"); rec.Code != http.StatusOK || got != strings.Join(want, "\n") || rec.Header().Get("RIB-Generation") != "2" {
			w.t.Fatalf("%s: %d\ngot  %s\nwant %s", kind, rec.Code, got, strings.Join(want, "\n"))
		}
	}
}

func TestDiffRefusesBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	for query, detail := range map[string]string{
		"":                             "from is missing: it is the number of a generation that is held, see /api/v1/generations",
		"from=1&x=1":                   `unknown parameter "x"`,
		"from=1&limit=0":               "from 1 on",
		"from=1&to=1&to=1":             "to is given 2 times",
		"cursor=1,10.0.0.0/8":          "no two commas",
		"cursor=0,1,10.0.0.0/8":        "the first part",
		"cursor=1,x,10.0.0.0/8":        "the second part",
		"cursor=1,1,10.0.0.1/8":        "host bits",
		"cursor=1,1,10.0.0.0/8&from=2": "the cursor is of generations 1 and 1",
		"cursor=1,1,10.0.0.0/8&to=2":   "the cursor is of generations 1 and 1",
		"from=1&ignore=x":              `ignore is "x": there is peer`,
		"from=1&origin=x":              "not an AS number",
		"from=1&generation=1":          `unknown parameter "generation"`,
	} {
		wantProblem(t, w.get("/api/v1/diff?"+query), http.StatusBadRequest, detail)
	}
	post := func(query, kind, body string, status int, detail string) {
		t.Helper()
		wantProblem(t, w.do(http.MethodPost, "/api/v1/diff?"+query, kind, body), status, detail)
	}
	post("", "text/plain", "", 400, "from is missing")
	post("from=1&limit=1", "text/plain", "", 400, `unknown parameter "limit": there are from, to, ignore and table`)
	post("from=7", "text/plain", "", 410, "generation 7 is gone")
	post("from=1", "text/csv", "", 415, "application/json, application/x-ndjson, text/plain")
	post("from=1", "application/json", `{"ips":"10.0.0.1"}`, 400, "no array of addresses")
	post("from=1", "application/json", `{"table":"blue","ips":[]}`, 404, "there is no table")
	wantProblem(t, brokenWorld(t).do(http.MethodPost, "/api/v1/diff?from=1", "text/plain", "10.0.0.1"), http.StatusInternalServerError, "device lost")
	wantJSON(t, w.do(http.MethodPost, "/api/v1/diff?from=1", "text/plain", "").Body.String(), `{"end":true,"addresses":0,"changes":0}`)
}

// What only comes from another peer is no change for who ignores that.
func TestDiffIgnoresPeers(t *testing.T) {
	w, tables := newTablesWorld(t)
	w.generations()
	table := tables.All()[0]
	old, _ := table.Peer("list")
	table.RIB.RemovePeer(old)
	p, err := table.RIB.AddPeer(rib.PeerConfig{Name: "list#2", Kind: rib.KindList})
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}, Attrs: announced(64500)})
	flush(t, table)
	for query, want := range map[string]int{"from=1": 1, "from=1&ignore=peer": 0} {
		if all, _ := w.differences(query); len(all) != want {
			t.Errorf("%s: %v", query, all)
		}
		got := w.do(http.MethodPost, "/api/v1/diff?"+query, "text/plain", "10.0.0.1").Body.String()
		if !strings.Contains(got, fmt.Sprintf(`"addresses":1,"changes":%d}`, want)) {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// brokenBody gives some text and then an error.
type brokenBody struct {
	text string
	err  error
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.text == "" {
		return 0, b.err
	}
	n := copy(p, b.text)
	b.text = b.text[n:]
	return n, nil
}

// A body that breaks off, stalls or cannot be uncompressed is not answered as if it were whole.
func TestDiffOfAddressesThatBreakOff(t *testing.T) {
	w := newWorld(t, nil)
	ask := func(body io.Reader, coding string) (rec *httptest.ResponseRecorder, aborted bool) {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/diff?from=1", body)
		r.Header.Set("Content-Type", "text/plain")
		if coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		rec = httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler {
					panic(p)
				}
				aborted = true
			}
		}()
		w.api.Handler().ServeHTTP(rec, r)
		return rec, false
	}
	if rec, aborted := ask(&brokenBody{"10.0.0.1\nbad\n", io.ErrUnexpectedEOF}, ""); !aborted || strings.Contains(rec.Body.String(), `"end"`) {
		t.Errorf("half a body: aborted %v: %s", aborted, rec.Body)
	}
	rec, aborted := ask(&brokenBody{"10.0.0.1\n10.0.0.", os.ErrDeadlineExceeded}, "")
	if want := `{"ip":"","line":2,"error":"no whole line came in for 30s: the stream ends here"}` + "\n"; !aborted || rec.Body.String() != want {
		t.Errorf("a stall: aborted %v: %s", aborted, rec.Body)
	}
	var z bytes.Buffer
	gz := gzip.NewWriter(&z)
	_, _ = gz.Write([]byte("10.0.0.1\nbad\n"))
	_ = gz.Close()
	whole := z.String()
	if rec, aborted := ask(strings.NewReader(whole), "gzip"); aborted || !strings.HasSuffix(rec.Body.String(), `{"end":true,"addresses":2,"changes":0}`+"\n") {
		t.Errorf("gzip: aborted %v: %s", aborted, rec.Body)
	}
	rec, aborted = ask(strings.NewReader(whole[:len(whole)-9]), "gzip")
	if !aborted {
		wantProblem(t, rec, http.StatusBadRequest, "gzip")
	} else if strings.Contains(rec.Body.String(), `"end"`) {
		t.Errorf("half a gzip: %s", rec.Body)
	}
	if rec, _ := ask(strings.NewReader("nonsense"), "gzip"); rec.Code != http.StatusBadRequest {
		t.Errorf("no gzip: %d %s", rec.Code, rec.Body)
	}
	if rec, _ := ask(strings.NewReader("x"), "br"); rec.Code != http.StatusUnsupportedMediaType {
		t.Errorf("another coding: %d %s", rec.Code, rec.Body)
	}
	long := strings.Repeat("1", 5000) + "\n10.0.0.1"
	if rec, _ := ask(strings.NewReader(long), ""); !strings.HasPrefix(rec.Body.String(), `{"ip":"1111`) || !strings.HasSuffix(rec.Body.String(), `"addresses":2,"changes":0}`+"\n") || rec.Body.Len() > 400 {
		t.Errorf("a long line: %s", rec.Body)
	}
}

// A cursor that is read is written as it was.
func FuzzDiffCursor(f *testing.F) {
	for _, text := range []string{"3,7,192.0.2.0/24", "1,1,::/0", "0,1,::/0", "1,2", "1,2,10.0.0.1/8", "1,2,10.0.0.0/8,", "01,2,::ffff:10.0.0.0/104"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseDiffCursor(text)
		if err != nil {
			if at != (diffCursor{}) {
				t.Errorf("%q: %v beside %v", text, at, err)
			}
			return
		}
		if again, err := parseDiffCursor(at.String()); err != nil || again != at {
			t.Errorf("%q: %v, then %v, %v", text, at, again, err)
		}
	})
}
