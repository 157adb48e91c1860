package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/ribwarp/ribwarp/rib"
)

func loadOpenAPI(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapiJSON)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every endpoint is in the document, and everything in the document is an endpoint.
func TestOpenAPIHasEveryEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	var got, want []string
	for _, r := range w.api.router.Routes() {
		if r.Method == http.MethodHead { // said once, for every GET
			continue
		}
		segments := strings.Split(r.Path, "/")
		for i, s := range segments {
			if s != "" && strings.ContainsAny(s[:1], ":*") {
				segments[i] = "{" + s[1:] + "}"
			}
		}
		want = append(want, r.Method+" "+strings.Join(segments, "/"))
	}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the document has\n%s\nthe service has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An endpoint takes the parameters that the document has of it, and says so where it is asked for others.
func TestOpenAPIHasEveryParameter(t *testing.T) {
	w := documentWorld(t)
	for path, item := range loadOpenAPI(t).Paths.Map() {
		if !strings.HasPrefix(path, "/api/") {
			continue // a probe takes what is there: load balancers put things behind its path
		}
		for method, op := range item.Operations() {
			kind, body := "text/csv", "10.0.0.1\n" // of the forms that with most parameters
			switch path {
			case "/api/v1/exits":
				kind, body = "application/json", `{"from":["a"],"ips":["10.0.0.1"]}`
			case "/api/v1/diff":
				kind = "text/plain"
			}
			target := strings.NewReplacer("{ip}", "10.0.0.1", "{prefix}", "10.0.0.0/8", "{asn}", "64501").Replace(path)
			detail := func(query string) string {
				var p problem
				if rec := w.do(method, target+"?"+query, kind, body); rec.Code >= http.StatusBadRequest {
					if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
						t.Fatalf("%s %s?%s: %v", method, path, query, err)
					}
				}
				return p.Detail
			}
			var want []string
			for _, p := range op.Parameters {
				if p.Value.In != "query" {
					continue
				}
				want = append(want, p.Value.Name)
				if got := detail(p.Value.Name + "=x"); strings.Contains(got, "unknown parameter") {
					t.Errorf("%s %s does not take %s: %s", method, path, p.Value.Name, got)
				}
			}
			_, list, known := strings.Cut(detail("no-such=1"), `unknown parameter "no-such": there are `)
			got := strings.Split(strings.Replace(list, " and ", ", ", 1), ", ")
			if len(want) == 0 {
				want = []string{"none"}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !known || !slices.Equal(got, want) {
				t.Errorf("%s %s takes %v, the document has %v", method, path, got, want)
			}
		}
	}
}

// testVRPs is an RPKI in which everything is valid.
type testVRPs struct{}

func (testVRPs) State(netip.Prefix, uint32) string { return "valid" }
func (testVRPs) Covering(p netip.Prefix) []VRP     { return []VRP{{p, 24, 64501}} }

// documentWorld is a service in which every field of an answer occurs.
func documentWorld(t *testing.T) *world {
	candidates := []rib.Candidate{{Route: route("10.1.0.0/16", plainAttrs)}, {Route: route("10.1.0.0/16", testAttrs), LostBy: "as-path", Step: rib.DecisiveStep{Name: "as-path", Value: 4, Best: 2}}}
	w := newWorld(t, func(d *Deps) {
		d.VRPs = func() VRPs { return testVRPs{} }
		d.Paths = func(netip.Prefix) []rib.Candidate { return candidates }
		d.Peers = func() []rib.PeerStatus {
			return []rib.PeerStatus{
				{Name: "a", Kind: rib.KindBGP, Addr: netip.MustParseAddr("192.0.2.1"), AS: 64500, RouterID: netip.MustParseAddr("192.0.2.1"), State: "stale", Since: time.Now(), V4: 2, Stale4: 1, StaleSince: time.Now(), Rejected: [rib.NumRejects]int{rib.RejectMartian: 1}},
				{Name: "b", Kind: rib.KindList, State: "loaded"},
			}
		}
		d.Degraded = func() string { return "slow" }
		d.PublisherStats = func() rib.PublisherStats { return rib.PublisherStats{Generations: 1} }
		d.GPUs = []GPU{{"x", 1}}
		d.IGP = withIGP(t, rib.New(rib.Options{}), testTopology, "a")
		d.Limits.MaxIPsJSON = 3
	})
	// Two generations that differ, both held.
	w.get("/api/v1/generations")
	routes := testRoutes()
	routes[0].Stale = true
	routes[1] = route("11.0.0.0/8", plainAttrs)
	w.publish(2, routes)
	w.get("/api/v1/generations")
	return w
}

// What the service answers is what the document says: a status that it lists, with the type of content
// that it lists for it, which is valid by its schema. All that the document lists of an operation is seen,
// but for what is not answered in a test.
func TestAnswersAreWhatOpenAPISays(t *testing.T) {
	doc := loadOpenAPI(t)
	w, empty := documentWorld(t), emptyWorld(t, nil)
	routers := exitWorld(t, func(d *Deps) { d.Limits.MaxIPsJSON = 3 })
	arrowBody := string(arrowStreamOf(t, "ip", arrow.BinaryTypes.String, nil, columnOf(t, arrow.BinaryTypes.String, []string{"10.0.0.1", "x"})))
	seen := map[string]bool{}
	for _, c := range []struct {
		path, method, target string
		status               int
		kind, body           string
		header               []string
	}{
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3", 200, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.0.0.1", 200, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/9.9.9.9", 200, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/203.0.113.1", 200, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3", 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/x", 400, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3?table=x", 404, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3?generation=99", 410, "", "", nil},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3", 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/lookup/{ip}", "GET", "/api/v1/lookup/10.1.2.3", 503, "", "", nil},
		{"/api/v1/lookup", "POST", lookupPath, 200, "application/json", `{"ips":["10.1.2.3","x","9.9.9.9"]}`, nil},
		{"/api/v1/lookup", "POST", lookupPath, 200, "application/x-ndjson", "\"10.1.2.3\"\n{\"ip\":\"x\"}\n", nil},
		{"/api/v1/lookup", "POST", lookupPath, 200, "text/plain", "10.1.2.3\nx\n", nil},
		{"/api/v1/lookup", "POST", lookupPath, 200, "text/csv", "10.1.2.3\nx\n", nil},
		{"/api/v1/lookup", "POST", lookupPath, 200, arrowType, arrowBody, nil},
		{"/api/v1/lookup", "POST", lookupPath, 400, "application/json", "{", nil},
		{"/api/v1/lookup", "POST", lookupPath + "?table=x", 404, "text/plain", "", nil},
		{"/api/v1/lookup", "POST", lookupPath, 406, "text/plain", "", []string{"Accept", "image/png"}},
		{"/api/v1/lookup", "POST", lookupPath + "?generation=99", 410, "text/plain", "", nil},
		{"/api/v1/lookup", "POST", lookupPath, 412, "text/plain", "", []string{"If-Match", `"x"`}},
		{"/api/v1/lookup", "POST", lookupPath, 413, "application/json", `{"ips":["","","",""]}`, nil},
		{"/api/v1/lookup", "POST", lookupPath, 415, "image/png", "", nil},
		{"/api/v1/lookup", "POST", lookupPath, 503, "text/plain", "", nil},
		{"/api/v1/routes", "POST", listPath, 200, "application/json", `{"prefixes":["10.1.2.0/24","x","9.0.0.0/8"]}`, nil},
		{"/api/v1/routes", "POST", listPath, 200, "text/plain", "10.1.2.0/24\nx\n9.0.0.0/8\n", nil},
		{"/api/v1/routes", "POST", listPath, 200, "text/csv", "10.1.2.0/24\n", nil},
		{"/api/v1/routes", "POST", listPath, 400, "application/json", "{", nil},
		{"/api/v1/routes", "POST", listPath + "?table=x", 404, "text/plain", "", nil},
		{"/api/v1/routes", "POST", listPath, 406, "text/plain", "", []string{"Accept", "image/png"}},
		{"/api/v1/routes", "POST", listPath + "?generation=99", 410, "text/plain", "", nil},
		{"/api/v1/routes", "POST", listPath, 412, "text/plain", "", []string{"If-Match", `"x"`}},
		{"/api/v1/routes", "POST", listPath, 413, "application/json", `{"prefixes":["","","",""]}`, nil},
		{"/api/v1/routes", "POST", listPath, 415, arrowType, "", nil},
		{"/api/v1/routes", "POST", listPath, 503, "text/plain", "", nil},
		{"/api/v1/routes", "GET", listPath, 200, "", "", nil},
		{"/api/v1/routes", "GET", listPath + "?limit=1&origin=64501&stale=false", 200, "", "", nil},
		{"/api/v1/routes", "GET", listPath, 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/routes", "GET", listPath + "?limit=0", 400, "", "", nil},
		{"/api/v1/routes", "GET", listPath + "?table=x", 404, "", "", nil},
		{"/api/v1/routes", "GET", listPath + "?cursor=99,10.0.0.0/8", 410, "", "", nil},
		{"/api/v1/routes", "GET", listPath, 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/routes", "GET", listPath, 503, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.1.0.0/16?include=more-specifics,less-specifics,paths,rpki&limit=1", 200, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.0/8?include=more-specifics,less-specifics,rpki", 200, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.0/8", 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.1/8", 400, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/9.0.0.0/8", 404, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.0/8?generation=99", 410, "", "", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.0/8", 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.0.0.0/8", 503, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/64501?limit=1", 200, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/AS64500", 200, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/64501", 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/x", 400, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/7", 404, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/64501?generation=99", 410, "", "", nil},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/64501", 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/asns/{asn}", "GET", "/api/v1/asns/64501", 503, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1&to=2", 200, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1&limit=1", 200, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1", 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/diff", "GET", "/api/v1/diff", 400, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1&table=x", 404, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=99", 410, "", "", nil},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1", 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/diff", "GET", "/api/v1/diff?from=1", 503, "", "", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1&to=2", 200, "text/plain", "10.0.0.1\nx\n10.1.0.1\n11.0.0.1\n", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1", 400, "application/json", "{", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1&table=x", 404, "text/plain", "", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=99", 410, "text/plain", "", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1", 412, "text/plain", "", []string{"If-Match", `"x"`}},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1", 413, "application/json", `{"ips":["","","",""]}`, nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1", 415, "image/png", "", nil},
		{"/api/v1/diff", "POST", "/api/v1/diff?from=1", 503, "text/plain", "", nil},
		{"/api/v1/generations", "GET", "/api/v1/generations", 200, "", "", nil},
		{"/api/v1/generations", "GET", "/api/v1/generations?table=default&table=default", 400, "", "", nil},
		{"/api/v1/generations", "GET", "/api/v1/generations?table=x", 404, "", "", nil},
		{"/api/v1/generations", "GET", "/api/v1/generations", 503, "", "", nil},
		{"/api/v1/rpki/validate", "GET", "/api/v1/rpki/validate?prefix=10.0.0.0/8&origin=64501", 200, "", "", nil},
		{"/api/v1/rpki/validate", "GET", "/api/v1/rpki/validate", 400, "", "", nil},
		{"/api/v1/tables", "GET", "/api/v1/tables", 200, "", "", nil},
		{"/api/v1/tables", "GET", "/api/v1/tables?table=x", 400, "", "", nil},
		{"/api/v1/peers", "GET", "/api/v1/peers", 200, "", "", nil},
		{"/api/v1/peers", "GET", "/api/v1/peers?table=x", 404, "", "", nil},
		{"/api/v1/peers", "GET", "/api/v1/peers?table=default&table=default", 400, "", "", nil},
		{"/api/v1/status", "GET", "/api/v1/status", 200, "", "", nil},
		{"/api/v1/status", "GET", "/api/v1/status?table=x", 404, "", "", nil},
		{"/api/v1/status", "GET", "/api/v1/status?table=default&table=default", 400, "", "", nil},
		{"/api/v1/stats", "GET", "/api/v1/stats", 200, "", "", nil},
		{"/api/v1/stats", "GET", "/api/v1/stats", 304, "", "", []string{"If-None-Match", "*"}},
		{"/api/v1/stats", "GET", "/api/v1/stats?x=1", 400, "", "", nil},
		{"/api/v1/stats", "GET", "/api/v1/stats?table=x", 404, "", "", nil},
		{"/api/v1/stats", "GET", "/api/v1/stats?generation=99", 410, "", "", nil},
		{"/api/v1/stats", "GET", "/api/v1/stats", 412, "", "", []string{"If-Match", `"x"`}},
		{"/api/v1/stats", "GET", "/api/v1/stats", 503, "", "", nil},
		{"/api/v1/series", "GET", "/api/v1/series?span=24h", 200, "", "", nil},
		{"/api/v1/series", "GET", "/api/v1/series?span=x", 400, "", "", nil},
		{"/api/v1/series", "GET", "/api/v1/series?table=x", 404, "", "", nil},
		{"/api/v1/lookup", "POST", lookupPath + "?from=d", 200, "application/json", `{"ips":["10.1.2.3","x","9.9.9.9"]}`, nil},
		{"/api/v1/routes", "POST", listPath + "?from=d", 200, "text/csv", "10.1.0.0/16\n", nil},
		{"/api/v1/routes/{prefix}", "GET", "/api/v1/routes/10.1.0.0/16?from=nobody", 404, "", "", nil},
		{"/api/v1/igp", "GET", "/api/v1/igp?include=topology", 200, "", "", nil},
		{"/api/v1/igp", "GET", "/api/v1/igp?include=x", 400, "", "", nil},
		{"/api/v1/igp", "GET", "/api/v1/igp", 404, "", "", nil},
		{"/api/v1/igp/paths", "GET", "/api/v1/igp/paths?from=a&to=d&paths=1", 200, "", "", nil},
		{"/api/v1/igp/paths", "GET", "/api/v1/igp/paths?from=a", 200, "", "", nil},
		{"/api/v1/igp/paths", "GET", "/api/v1/igp/paths", 400, "", "", nil},
		{"/api/v1/igp/paths", "GET", "/api/v1/igp/paths?from=nobody", 404, "", "", nil},
		{"/api/v1/exits", "POST", "/api/v1/exits", 200, "application/json", `{"from":["a","z"],"ips":["10.1.2.3","x","9.9.9.9"]}`, nil},
		{"/api/v1/exits", "POST", "/api/v1/exits", 400, "application/json", `{"from":[],"ips":[]}`, nil},
		{"/api/v1/exits", "POST", "/api/v1/exits", 404, "application/json", `{"from":["nobody"],"ips":["10.1.2.3"]}`, nil},
		{"/api/v1/exits", "POST", "/api/v1/exits?generation=99", 410, "application/json", `{"from":["a"],"ips":["10.1.2.3"]}`, nil},
		{"/api/v1/exits", "POST", "/api/v1/exits", 412, "application/json", `{"from":["a"],"ips":["10.1.2.3"]}`, []string{"If-Match", `"x"`}},
		{"/api/v1/exits", "POST", "/api/v1/exits", 413, "application/json", `{"from":["a"],"ips":["","","",""]}`, nil},
		{"/api/v1/exits", "POST", "/api/v1/exits", 415, "application/json", "{}", []string{"Content-Encoding", "br"}},
		{"/healthz", "GET", "/healthz", 200, "", "", nil},
		{"/readyz", "GET", "/readyz", 200, "", "", nil},
		{"/readyz", "GET", "/readyz", 503, "", "", nil},
		{"/metrics", "GET", "/metrics", 200, "", "", nil},
		{"/openapi.json", "GET", "/openapi.json", 200, "", "", nil},
		{"/openapi.json", "GET", "/openapi.json", 304, "", "", []string{"If-None-Match", "*"}},
		{"/docs", "GET", "/docs", 200, "", "", nil},
		{"/docs", "GET", "/docs", 304, "", "", []string{"If-None-Match", "*"}},
		{"/", "GET", "/", 200, "", "", nil},
		{"/", "GET", "/", 304, "", "", []string{"If-None-Match", "*"}},
		{"/web/{file}", "GET", "/web/index.html", 200, "", "", nil},
		{"/web/{file}", "GET", "/web/index.html", 304, "", "", []string{"If-None-Match", "*"}},
		{"/web/{file}", "GET", "/web/x", 404, "", "", nil},
	} {
		name := fmt.Sprintf("%s %s %d %s", c.method, c.target, c.status, c.kind)
		r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		for pair := range slices.Chunk(c.header, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		rec := httptest.NewRecorder()
		switch {
		case c.status == http.StatusServiceUnavailable, c.path == "/api/v1/igp" && c.status == http.StatusNotFound:
			empty.api.Handler().ServeHTTP(rec, r)
		case c.path == "/api/v1/exits", strings.Contains(c.target, "/api/v1/igp"), strings.HasSuffix(c.target, "?from=d"), strings.Contains(c.target, "from=nobody"):
			routers.api.Handler().ServeHTTP(rec, r)
		default:
			w.api.Handler().ServeHTTP(rec, r)
		}
		if rec.Code != c.status {
			t.Errorf("%s: status %d: %s", name, rec.Code, rec.Body)
			continue
		}
		item := doc.Paths.Value(c.path)
		if item == nil || item.GetOperation(c.method) == nil {
			t.Errorf("%s: not in the document", name)
			continue
		}
		op := item.GetOperation(c.method)
		response := op.Responses.Status(c.status)
		if response == nil {
			t.Errorf("%s: the document has no such status", name)
			continue
		}
		seen[fmt.Sprint(c.method, " ", c.path, " ", c.status)] = true
		for header := range response.Value.Headers {
			if rec.Header().Get(header) == "" {
				t.Errorf("%s: no header %s", name, header)
			}
		}
		if rec.Body.Len() == 0 {
			continue
		}
		kind, _, err := mime.ParseMediaType(rec.Header().Get("Content-Type"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		content := response.Value.Content[kind]
		if content == nil {
			t.Errorf("%s: the document has no %s", name, kind)
			continue
		}
		seen[fmt.Sprint(c.method, " ", c.path, " ", c.status, " ", kind)] = true
		if !strings.HasSuffix(kind, "json") {
			continue
		}
		for line := range bytes.Lines(rec.Body.Bytes()) {
			if kind != "application/x-ndjson" {
				line = rec.Body.Bytes()
			}
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Errorf("%s: %v: %s", name, err, line)
			} else if err := content.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s: %v\n%s", name, err, line)
			}
			if kind != "application/x-ndjson" {
				break
			}
		}
	}
	notInTests := map[string]bool{"408": true, "429": true} // they have tests of their own
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, response := range op.Responses.Map() {
				if status == "default" || notInTests[status] || path == "/api/v1/rpki/validate" && status == "404" {
					continue
				}
				if !seen[fmt.Sprint(method, " ", path, " ", status)] {
					t.Errorf("%s %s: %s was not seen", method, path, status)
				}
				for kind := range response.Value.Content {
					if path != "/web/{file}" && !seen[fmt.Sprint(method, " ", path, " ", status, " ", kind)] {
						t.Errorf("%s %s: %s as %s was not seen", method, path, status, kind)
					}
				}
			}
		}
	}
}

// The page names every operation and schema, and needs nothing from elsewhere.
func TestDocsShowTheWholeDocument(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.get("/docs")
	page := rec.Body.String()
	doc := loadOpenAPI(t)
	for path, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if !strings.Contains(page, `<section id="`+op.OperationID+`">`) || !strings.Contains(page, op.Summary) {
				t.Errorf("%s %s is not shown", path, op.OperationID)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !strings.Contains(page, `<section id="schema-`+name+`">`) {
			t.Errorf("schema %s is not shown", name)
		}
	}
	for _, outside := range []string{"http://", "https://", "<script", "src=", "@import", "url("} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	if policy := rec.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Error(policy)
	}
}
