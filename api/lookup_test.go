package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const answerTest = `"next_hop":"192.0.2.254","as_path":[64500,4200000000,[64502,64503]],"origin_asns":[64502,64503],"communities":["65000:100","65535:65281","64500:1:2","rt:64500:1"],"generation":1}`

func TestLookupAnswersTheLongestMatch(t *testing.T) {
	w := newWorld(t, nil)
	const plain = `"next_hop":"192.0.2.1","as_path":[64500,64501],"origin_asns":[64501],"communities":[],"generation":1}`
	const none = `"next_hop":null,"as_path":[],"origin_asns":[],"communities":[],"generation":1}`
	for _, c := range []struct{ name, ip, want string }{
		{"nested IPv4", "10.1.2.3", `{"ip":"10.1.2.3","prefix":"10.1.2.0/24",` + answerTest},
		{"outer IPv4", "10.255.0.1", `{"ip":"10.255.0.1","prefix":"10.0.0.0/8",` + plain},
		{"host route", "198.51.100.7", `{"ip":"198.51.100.7","prefix":"198.51.100.7/32",` + plain},
		{"IPv6", "2001:DB8:1:0::5", `{"ip":"2001:db8:1::5","prefix":"2001:db8:1::/48",` + answerTest},
		{"route without attributes", "203.0.113.9", `{"ip":"203.0.113.9","prefix":"203.0.113.0/24",` + none},
		{"no match", "9.9.9.9", `{"ip":"9.9.9.9","prefix":null,` + none},
		{"no match IPv6", "::1", `{"ip":"::1","prefix":null,` + none},
		{"IPv4-mapped IPv6 is IPv4", "::ffff:10.255.0.1", `{"ip":"10.255.0.1","prefix":"10.0.0.0/8",` + plain},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := w.get("/api/v1/lookup/" + c.ip)
			if rec.Code != http.StatusOK {
				t.Fatalf("status %d: %s", rec.Code, rec.Body)
			}
			if got := rec.Header().Get("RIB-Generation"); got != "1" {
				t.Errorf("RIB-Generation %q", got)
			}
			if got := rec.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			wantJSON(t, rec.Body.String(), c.want)
		})
	}
}

func TestLookupRefusesWhatIsNoAddress(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ name, ip, detail string }{
		{"word", "example", "not an IP address: unable to parse IP"},
		{"too large field", "1.2.3.256", "IPv4 field has value >255"},
		{"leading zero", "010.0.0.1", "leading zero"},
		{"zone", "fe80::1%25eth0", "zone: routes have none, ask for fe80::1"},
		{"too long", strings.Repeat("1", 65), "65 bytes are too long"},
		{"bad UTF-8", "%ff%fe", "not an IP address"},
		{"quote", "%22", "not an IP address"},
		{"blank", "%20", "not an IP address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := w.get("/api/v1/lookup/" + c.ip)
			wantProblem(t, rec, http.StatusBadRequest, c.detail)
			if rec.Header().Get("RIB-Generation") != "1" {
				t.Error("no generation named")
			}
		})
	}
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/nowhere", "/api/v1/lookup/", "/api/v1/lookup/10.0.0.0/8", "/api/v1/peers/", "/api/v2/lookup/1.1.1.1", "/%2e%2e/x"} {
		wantProblem(t, w.get(path), http.StatusNotFound, "no such endpoint")
	}
	rec := w.get("/api/v1/lookup")
	wantProblem(t, rec, http.StatusMethodNotAllowed, "allowed are POST")
	if rec.Header().Get("Allow") != "POST" {
		t.Errorf("Allow %q", rec.Header().Get("Allow"))
	}
	rec = w.do(http.MethodDelete, listPath, "", "")
	wantProblem(t, rec, http.StatusMethodNotAllowed, "DELETE is not allowed")
	if allow := rec.Header().Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
		t.Errorf("Allow %q", allow)
	}
	rec = w.do(http.MethodDelete, "/api/v1/lookup/10.1.2.3", "", "")
	wantProblem(t, rec, http.StatusMethodNotAllowed, "DELETE is not allowed")
}

func TestHeadAnswersAsGetDoes(t *testing.T) {
	srv := newWorld(t, nil).serve()
	resp, err := http.Head(srv.URL + "/api/v1/lookup/10.1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("RIB-Generation") != "1" {
		t.Errorf("status %s, generation %q", resp.Status, resp.Header.Get("RIB-Generation"))
	}
}

func TestBeforeTheFirstGenerationLookupsAre503(t *testing.T) {
	w := emptyWorld(t, nil)
	for _, target := range []string{"/api/v1/lookup/10.0.0.1", "/api/v1/routes/10.0.0.0/8"} {
		rec := w.get(target)
		wantProblem(t, rec, http.StatusServiceUnavailable, "no generation is published yet")
		if rec.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	wantProblem(t, w.do(http.MethodPost, lookupPath, "application/json", `{"ips":[]}`), http.StatusServiceUnavailable, "no generation")
	wantProblem(t, w.do(http.MethodPost, listPath, "application/json", `{"prefixes":[]}`), http.StatusServiceUnavailable, "no generation")
	for _, kind := range []string{"application/x-ndjson", "text/plain"} {
		wantProblem(t, w.do(http.MethodPost, lookupPath, kind, "10.0.0.1\n"), http.StatusServiceUnavailable, "no generation")
		wantProblem(t, w.do(http.MethodPost, listPath, kind, "10.0.0.0/8\n"), http.StatusServiceUnavailable, "no generation")
	}
}

func TestAnswersNameTheNewestGeneration(t *testing.T) {
	w := newWorld(t, nil)
	w.publish(2, []rib.Route{route("10.0.0.0/9", plainAttrs)})
	rec := w.get("/api/v1/lookup/10.1.2.3")
	if rec.Header().Get("RIB-Generation") != "2" || !strings.Contains(rec.Body.String(), `"prefix":"10.0.0.0/9"`) || !strings.Contains(rec.Body.String(), `"generation":2}`) {
		t.Errorf("%v %s", rec.Header(), rec.Body)
	}
}

// brokenTable cannot be searched, and panics when asked for an exact prefix.
type brokenTable struct{ lpm.Table }

var errBroken = errors.New("device lost")

func (brokenTable) Lookup4([]lpm.Handle, []uint32) error    { return errBroken }
func (brokenTable) Lookup6([]lpm.Handle, []lpm.Addr6) error { return errBroken }
func (brokenTable) Close() error                            { return nil }

func (brokenTable) FindAll([]lpm.Handle, []netip.Prefix) error { return errBroken }

func brokenWorld(t *testing.T) *world {
	w := emptyWorld(t, nil)
	w.gens.Publish(&rib.Generation{Number: 1, Table: brokenTable{}})
	return w
}

func TestTableThatCannotBeSearchedIs500(t *testing.T) {
	w := brokenWorld(t)
	wantProblem(t, w.get("/api/v1/lookup/10.0.0.1"), http.StatusInternalServerError, "device lost")
	wantProblem(t, w.do(http.MethodPost, "/api/v1/lookup", "application/json", `{"ips":["10.0.0.1"]}`), http.StatusInternalServerError, "device lost")
	wantProblem(t, w.do(http.MethodPost, "/api/v1/lookup", "text/plain", "10.0.0.1"), http.StatusInternalServerError, "device lost")
	wantProblem(t, w.do(http.MethodPost, listPath, "application/json", `{"prefixes":["10.0.0.0/8"]}`), http.StatusInternalServerError, "device lost")
	wantProblem(t, w.do(http.MethodPost, listPath, "text/plain", "10.0.0.0/8"), http.StatusInternalServerError, "device lost")
}

func TestPanicBecomesAProblemAndIsCounted(t *testing.T) {
	w := brokenWorld(t)
	wantProblem(t, w.get("/api/v1/routes/10.0.0.0/8"), http.StatusInternalServerError, "internal error")
	if got := w.get("/metrics").Body.String(); !strings.Contains(got, "ribwarp_http_panics_total 1") {
		t.Errorf("not counted: %s", grep(got, "panics"))
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	w := newWorld(t, nil)
	u, err := url.Parse("/api/v1/lookup/10.1.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(context.Background())
	rw := &discardWriter{header: http.Header{}}
	h := w.api.Handler()
	h.ServeHTTP(rw, r) // fills the pools
	if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(rw, r) }); n > 0.5 && !raceEnabled {
		t.Errorf("%v allocations a lookup", n)
	}
}

// discardWriter is a response writer that keeps nothing.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *discardWriter) WriteHeader(int)             {}

// grep gives the lines of text that hold what.
func grep(text, what string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if strings.Contains(l, what) {
			out.WriteString(l)
		}
	}
	return out.String()
}
