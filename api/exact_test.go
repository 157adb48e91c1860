package api

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// exact gives the answer of GET /api/v1/routes/{prefix}, as a bulk request has it: a prefix that is
// not in the table is one without a route.
func (w *world) exact(prefix string) string {
	w.t.Helper()
	rec := w.get("/api/v1/routes/" + prefix)
	if rec.Code == http.StatusNotFound {
		return fmt.Sprintf(`{"generation":1,"prefix":"%s","route":null}`, prefix)
	}
	return strings.TrimSuffix(rec.Body.String(), "\n")
}

func TestExactBatchAnswersInOrder(t *testing.T) {
	w := newWorld(t, nil)
	const hostBits = `"error":"prefix 10.0.0.1/8 has host bits set: ask for 10.0.0.0/8"}`
	const noLength = `"error":"not a prefix: it has no length, as /24 (addresses are asked for at /api/v1/lookup/{ip})"}`
	rec := w.do(http.MethodPost, listPath, "application/json", ` { "prefixes" : [ "10.1.2.0/24", "2001:db8::/32" ,"10.0.0.1/8","10.1.2.0/25","203.0.113.0/24","::ffff:10.0.0.0/104","::/0","10.1.2.0","" ] } `)
	if rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "1" || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, header %v: %s", rec.Code, rec.Header(), rec.Body)
	}
	wantJSON(t, rec.Body.String(), `{"generation":1,"results":[`+strings.Join([]string{
		w.exact("10.1.2.0/24"), w.exact("2001:db8::/32"), `{"prefix":"10.0.0.1/8",` + hostBits, w.exact("10.1.2.0/25"),
		w.exact("203.0.113.0/24"), w.exact("10.0.0.0/8"), w.exact("::/0"), `{"prefix":"10.1.2.0",` + noLength, `{"prefix":"","error":"no prefix: it is empty"}`,
	}, ",")+`]}`)
	wantJSON(t, w.do(http.MethodPost, listPath, "application/json", `{"prefixes":[]}`).Body.String(), `{"generation":1,"results":[]}`)

	want := strings.Join([]string{
		w.exact("10.1.2.0/24"), `{"prefix":"10.0.0.1/8","line":2,` + hostBits, `{"prefix":"","line":3,"error":"no prefix: the line is empty"}`,
		w.exact("2001:db8:1::/48"), w.exact("10.1.0.0/24"),
	}, "\n")
	for kind, body := range map[string]string{
		"text/plain":           "10.1.2.0/24\r\n10.0.0.1/8\n\n 2001:db8:1::/48\t\n10.1.0.0/24",
		"application/x-ndjson": "{\"prefix\":\"10.1.2.0/24\"}\r\n\"10.0.0.1/8\"\n\n{ \"prefix\" : \"2001:db8:1::/48\" }\n\"10.1.0.0/24\"",
	} {
		rec := w.do(http.MethodPost, listPath, kind, body)
		if rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "1" || rec.Header().Get("Content-Type") != "application/x-ndjson" {
			t.Fatalf("%s: status %d, header %v", kind, rec.Code, rec.Header())
		}
		wantJSON(t, rec.Body.String(), want)
	}
}

func TestExactBatchNamesWhatItWants(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits = Limits{MaxBody: 4096, MaxIPsJSON: 2} })
	for _, c := range []struct {
		body   string
		status int
		detail string
	}{
		{`{"ips":["10.0.0.1"]}`, 400, `unknown field "ips": there are prefixes and table`},
		{`[]`, 400, `no object {"prefixes":["192.0.2.0/24"]}`},
		{`{"prefixes":"10.0.0.0/8"}`, 400, "no array of prefixes at byte 12"},
		{`{"prefixes":[8]}`, 400, "no prefix as a string at byte 13"},
		{`{"prefixes":["::/0","::/0","::/0"]}`, 413, "more than 2 prefixes"},
		{strings.Repeat(" ", 5000), 413, "send the prefixes as a stream"},
	} {
		wantProblem(t, w.do(http.MethodPost, listPath, "application/json", c.body), c.status, c.detail)
	}
	wantProblem(t, w.do(http.MethodPost, listPath, "application/xml", ""), http.StatusUnsupportedMediaType, `{"prefixes":[...]}`)
	for line, detail := range map[string]string{
		`{"ip":"10.0.0.0/8"}`: `JSON has an unknown field "ip": "prefix" is the only one`,
		"10.0.0.0/8":          `not a line of NDJSON: it must be {"prefix":"192.0.2.0/24"} or "192.0.2.0/24"`,
	} {
		rec := w.do(http.MethodPost, listPath, "application/x-ndjson", line)
		wantJSON(t, rec.Body.String(), fmt.Sprintf(`{"prefix":%q,"line":1,"error":%q}`, line, detail))
	}
}

// findingTable counts what is found at once, and refuses to find one prefix after the other.
type findingTable struct {
	lpm.Table
	batches *[]int
}

func (f findingTable) FindAll(dst []lpm.Handle, ps []netip.Prefix) error {
	*f.batches = append(*f.batches, len(ps))
	return lpm.FindAll(f.Table, dst, ps)
}

func (findingTable) Find(netip.Prefix) lpm.Handle { panic("one prefix alone") }

// A batch of many batches, with bad lines anywhere, is what single requests give, and goes through
// the table's Finder.
func TestExactBatchEqualsSingleRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	w := newWorld(t, nil)
	answers := map[string]string{}
	var known []string
	for _, p := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.0/25", "10.0.0.0/7", "2001:db8::/32", "2001:db8::/33", "203.0.113.0/24", "0.0.0.0/0", "::/0"} {
		answers[p], known = w.exact(p), append(known, p)
	}
	g := makeGeneration(t, 1, testRoutes())
	var batches []int
	g.Table = findingTable{g.Table, &batches}
	w.gens.Publish(g)
	var text, want strings.Builder
	good := 0
	n := 2*batchLines + r.IntN(batchLines)
	for i := range n {
		if r.IntN(20) == 0 {
			fmt.Fprintln(&text, "bad")
			fmt.Fprintf(&want, `{"prefix":"bad","line":%d,"error":"not a prefix: it has no length, as /24 (addresses are asked for at /api/v1/lookup/{ip})"}`+"\n", i+1)
			continue
		}
		p := known[r.IntN(len(known))]
		fmt.Fprintln(&text, p)
		fmt.Fprintln(&want, answers[p])
		good++
	}
	got := w.do(http.MethodPost, listPath, "text/plain", text.String()).Body.String()
	if got != want.String() {
		t.Fatalf("%d lines: %d bytes of answers, want %d; first difference at %d", n, len(got), want.Len(), differ([]byte(got), []byte(want.String())))
	}
	for _, b := range batches {
		good -= b
		if b > batchLines {
			t.Errorf("%d prefixes at once", b)
		}
	}
	if good != 0 {
		t.Errorf("%d prefixes were not found by the Finder: %v", good, batches)
	}
}
