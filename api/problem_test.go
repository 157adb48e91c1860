package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Whatever is wrong with a request, the answer is a problem that names the path and the generation.
func TestEveryErrorIsAProblem(t *testing.T) {
	w := newWorld(t, nil)
	w.api.deps.Limits.MaxIPsJSON = 1
	long := strings.Repeat("1", maxURL)
	for _, c := range []struct {
		method, target, kind, body string
		status                     int
		detail                     string
	}{
		{"GET", "/nowhere", "", "", 404, "no such endpoint: there are "},
		{"GET", "/api/v1/peers/", "", "", 404, "leave the slash at the end away, ask for /api/v1/peers"},
		{"GET", "/api/v1/status//", "", "", 404, "ask for /api/v1/status"},
		{"GET", "/api/v1/diff/?from=1", "", "", 404, "ask for /api/v1/diff"},
		{"POST", "/api/v1/lookup/", "text/plain", "10.0.0.1", 404, "ask for /api/v1/lookup"},
		{"GET", "/api/v1/nothing/", "", "", 404, "no such endpoint: there are "},
		{"DELETE", "/api/v1/diff", "", "", 405, "DELETE is not allowed here: allowed are "},
		{"POST", "/api/v1/generations", "", "", 405, "POST is not allowed here"},
		{"PUT", "/api/v1/asns/1", "", "", 405, "PUT is not allowed here"},
		{"OPTIONS", "/api/v1/routes/10.0.0.0/8", "", "", 405, "OPTIONS is not allowed here"},
		{"GET", "/api/v1/lookup/" + long, "", "", 414, "8192 is the most"},
		{"GET", "/api/v1/routes?as_path=" + long, "", "", 414, "8192 is the most"},
		{"POST", "/api/v1/lookup?x=" + long, "text/plain", "10.0.0.1", 414, "8192 is the most"},
		{"GET", "/api/v1/routes/10.9.0.0/16", "", "", 404, "is not in the table"},
		{"GET", "/api/v1/lookup/x", "", "", 400, "not an IP address"},
		{"GET", "/api/v1/lookup/10.0.0.1?generation=9", "", "", 410, "generation 9 is gone"},
		{"POST", "/api/v1/diff?from=1", "application/json", `{"ips":["10.0.0.1","10.0.0.1"]}`, 413, "more than 1 addresses"},
	} {
		rec := w.do(c.method, c.target, c.kind, c.body)
		wantProblem(t, rec, c.status, c.detail)
		var p problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		path, _, _ := strings.Cut(c.target, "?")
		if p.Instance != path || p.Generation != 1 || rec.Header().Get("RIB-Generation") != "1" {
			t.Errorf("%s: %+v, header %v", cut(c.target, 50), p, rec.Header())
		}
		if c.status == http.StatusMethodNotAllowed && !strings.Contains(p.Detail, rec.Header().Get("Allow")) || (c.status == http.StatusMethodNotAllowed) != (rec.Header().Get("Allow") != "") {
			t.Errorf("%s %s: Allow %q: %s", c.method, c.target, rec.Header().Get("Allow"), p.Detail)
		}
	}
}

// The list of endpoints is the one that requests are answered by.
func TestEndpointsAreListed(t *testing.T) {
	w := newWorld(t, nil)
	endpoints := w.api.endpoints()
	for _, want := range []string{"/api/v1/lookup/{ip}", "/api/v1/routes/{prefix}", "/api/v1/routes", "/api/v1/asns/{asn}", "/api/v1/diff", "/api/v1/generations", "/api/v1/rpki/validate", "/healthz", "/metrics"} {
		if !slices.Contains(endpoints, want) {
			t.Errorf("no %s in %v", want, endpoints)
		}
	}
	if !slices.IsSorted(endpoints) || len(slices.Compact(slices.Clone(endpoints))) != len(endpoints) {
		t.Error(endpoints)
	}
	detail := w.get("/nowhere").Body.String()
	for _, e := range endpoints {
		if !strings.Contains(detail, e) {
			t.Errorf("no %s in %s", e, detail)
		}
	}
}
