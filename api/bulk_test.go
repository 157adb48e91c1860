package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const lookupPath = "/api/v1/lookup"

// single answers are the reference of bulk answers: both must be the same bytes.
func (w *world) single(ip string) string {
	w.t.Helper()
	return strings.TrimSuffix(w.get("/api/v1/lookup/"+ip).Body.String(), "\n")
}

func TestBulkJSONAnswersInOrder(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.do(http.MethodPost, lookupPath, "application/json; charset=utf-8", ` { "ips" : [ "10.1.2.3", "2001:db8:1::1" ,"nonsense","::ffff:10.9.9.9","fe80::1%eth0","9.9.9.9", "\u0031.1.1.1", "" ] } `+"\n")
	if rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "1" {
		t.Fatalf("status %d, header %v: %s", rec.Code, rec.Header(), rec.Body)
	}
	wantJSON(t, rec.Body.String(), `{"generation":1,"results":[`+strings.Join([]string{
		w.single("10.1.2.3"), w.single("2001:db8:1::1"),
		`{"ip":"nonsense","error":"not an IP address: unable to parse IP"}`,
		w.single("10.9.9.9"),
		`{"ip":"fe80::1%eth0","error":"address has a zone: routes have none, ask for fe80::1"}`,
		w.single("9.9.9.9"), w.single("1.1.1.1"),
		`{"ip":"","error":"no address: it is empty"}`,
	}, ",")+`]}`)

	rec = w.do(http.MethodPost, lookupPath, "application/json", `{"ips":[]}`)
	wantJSON(t, rec.Body.String(), `{"generation":1,"results":[]}`)
}

func TestBulkJSONRefusesWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits = Limits{MaxBody: 4096, MaxIPsJSON: 3} })
	for _, c := range []struct {
		name, body string
		status     int
		detail     string
	}{
		{"empty body", "", 400, "JSON ends at byte 0"},
		{"empty object", "{}", 400, "no field ips"},
		{"array", `["10.0.0.1"]`, 400, `no object {"ips"`},
		{"unknown field", `{"addresses":["10.0.0.1"]}`, 400, `unknown field "addresses"`},
		{"field in another case", `{"IPS":["10.0.0.1"]}`, 400, `unknown field "IPS"`},
		{"second field", `{"ips":["10.0.0.1"],"x":1}`, 400, `unknown field "x": there are ips and table`},
		{"field twice", `{"ips":["10.0.0.1"],"ips":[]}`, 400, "second field"},
		{"not an array", `{"ips":"10.0.0.1"}`, 400, "no array of addresses at byte 7"},
		{"number", `{"ips":[1]}`, 400, "no address as a string at byte 8"},
		{"null", `{"ips":[null]}`, 400, "no address as a string"},
		{"comma at the end", `{"ips":["10.0.0.1",]}`, 400, "no address as a string"},
		{"garbage behind", `{"ips":["10.0.0.1"]} x`, 400, "behind its end"},
		{"second value", `{"ips":[]}{"ips":[]}`, 400, "behind its end"},
		{"cut", `{"ips":["10.0.0.1"`, 400, "JSON ends at byte 18"},
		{"cut string", `{"ips":["10.0.0.1`, 400, "has no end"},
		{"cut escape", `{"ips":["10.0.0.1\`, 400, "has no end"},
		{"bad escape", `{"ips":["\q"]}`, 400, "JSON string at byte 8"},
		{"control character", "{\"ips\":[\"1\n\"]}", 400, "control character"},
		{"NUL", "\x00", 400, "no object"},
		{"deep arrays", `{"ips":` + strings.Repeat("[", 2000), 400, "no address as a string at byte 8"},
		{"deep objects", strings.Repeat(`{"ips":`, 500), 400, "no array of addresses at byte 7"},
		{"too many", `{"ips":["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]}`, 413, "more than 3 addresses"},
		{"too large", `{"ips":["1.1.1.1"]}` + strings.Repeat(" ", 4096), 413, "longer than 4096 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantProblem(t, w.do(http.MethodPost, lookupPath, "application/json", c.body), c.status, c.detail)
		})
	}
	t.Run("too large, length not announced", func(t *testing.T) {
		srv := w.serve()
		resp, err := http.Post(srv.URL+lookupPath, "application/json", io.MultiReader(strings.NewReader(`{"ips":["1.1.1.1"]}`), strings.NewReader(strings.Repeat(" ", 1<<20))))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %s", resp.Status)
		}
	})
}

func TestBulkRefusesOtherContentTypes(t *testing.T) {
	w := newWorld(t, nil)
	for _, kind := range []string{"", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ";"} {
		rec := w.do(http.MethodPost, lookupPath, kind, `{"ips":[]}`)
		wantProblem(t, rec, http.StatusUnsupportedMediaType, "application/x-ndjson")
	}
	r, err := http.NewRequest(http.MethodPost, w.serve().URL+lookupPath, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Content-Encoding", "br")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("status %s for a body in an unknown coding", resp.Status)
	}
}

func TestStreamAnswersEveryLineInOrder(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits.MaxLine = 100 })
	for _, c := range []struct{ name, kind, body string }{
		{"text", "text/plain", "\xef\xbb\xbf10.1.2.3\r\n 2001:db8:1::1\t\n\nx\xff\"y\n" + strings.Repeat("a", 100) + "\n" + strings.Repeat("b", 101) + "\nfe80::1%1\n9.9.9.9"},
		{"NDJSON", "application/x-ndjson", "\xef\xbb\xbf{\"ip\":\"10.1.2.3\"}\r\n \"2001:db8:1::1\"\t\n\n\"x\xff\\\"y\"\n\"" + strings.Repeat("a", 98) + "\"\n" + strings.Repeat("b", 101) + "\n{ \"ip\" : \"fe80::1%1\" }\n\"9.9.9.9\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := w.do(http.MethodPost, lookupPath, c.kind, c.body)
			if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "application/x-ndjson" || rec.Header().Get("RIB-Generation") != "1" {
				t.Fatalf("status %d, header %v", rec.Code, rec.Header())
			}
			got := strings.Split(strings.TrimSuffix(rec.Body.String(), "\n"), "\n")
			want := []string{
				w.single("10.1.2.3"), w.single("2001:db8:1::1"),
				`{"ip":"","line":3,"error":"no address: the line is empty"}`,
				`{"ip":"x�\"y","line":4,"error":"not an IP address: unable to parse IP"}`,
				fmt.Sprintf(`{"ip":"%s…","line":5,"error":"not an IP address: 100 bytes are too long for one"}`, strings.Repeat("a", 64)),
				fmt.Sprintf(`{"ip":"%s…","line":6,"error":"line is longer than 100 bytes"}`, strings.Repeat("b", 64)),
				`{"ip":"fe80::1%1","line":7,"error":"address has a zone: routes have none, ask for fe80::1"}`,
				w.single("9.9.9.9"),
			}
			if c.kind == "application/x-ndjson" { // quotes count for the line, not for the address
				want[4] = strings.Replace(want[4], "100 bytes", "98 bytes", 1)
			}
			if len(got) != len(want) {
				t.Fatalf("%d answers for %d lines: %s", len(got), len(want), rec.Body)
			}
			for i := range want {
				wantJSON(t, got[i], want[i])
			}
		})
	}
}

func TestStreamAnswersBadNDJSONInline(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ line, detail string }{
		{`{"ip":"10.1.2.3","n":1}`, "second field"},
		{`{"addr":"10.1.2.3"}`, "unknown field"},
		{`{"ip":10}`, "no address as a string"},
		{`{"ip":{"ip":{"ip":"10.1.2.3"}}}`, "no address as a string"},
		{`"10.1.2.3" x`, "behind its end"},
		{`{"ip":"10.1.2.3"`, "JSON ends"},
		{`10.1.2.3`, "not a line of NDJSON"},
		{`["10.1.2.3"]`, "not a line of NDJSON"},
	} {
		rec := w.do(http.MethodPost, lookupPath, "application/x-ndjson", c.line+"\n\"10.1.2.3\"\n")
		bad, good, _ := strings.Cut(rec.Body.String(), "\n")
		var e struct {
			IP    string `json:"ip"`
			Line  int    `json:"line"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal([]byte(bad), &e); err != nil || e.Line != 1 || e.IP != c.line || !strings.Contains(e.Error, c.detail) {
			t.Errorf("%s: answered by %s (%v)", c.line, bad, err)
		}
		wantJSON(t, good, w.single("10.1.2.3"))
	}
}

func TestEmptyStreamHasNoAnswers(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.do(http.MethodPost, lookupPath, "text/plain", "")
	if rec.Code != http.StatusOK || rec.Body.Len() != 0 || rec.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("status %d, %v, %q", rec.Code, rec.Header(), rec.Body)
	}
}

// choppedReader gives its text in pieces of random size.
type choppedReader struct {
	r    *rand.Rand
	text []byte
}

func (c *choppedReader) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(len(c.text), 1+c.r.IntN(1<<c.r.IntN(18)))])
	c.text = c.text[n:]
	return n, nil
}

// Streams and JSON of many batches, in pieces of any size, must be what single lookups give.
func TestBulkEqualsSingleLookups(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, nil)
	known := []string{"10.1.2.3", "10.0.0.0", "9.9.9.9", "2001:db8::1", "2001:db8:1::1", "::1", "198.51.100.7", "203.0.113.1"}
	answers := map[string]string{}
	for _, ip := range known {
		answers[ip] = w.single(ip)
	}
	srv := w.serve()
	for range 3 {
		n := 1 + r.IntN(3*batchLines)
		var text, array, wantStream, wantArray []byte
		for i := range n {
			ip := known[r.IntN(len(known))]
			bad := r.IntN(50) == 0
			if bad {
				ip = fmt.Sprintf("bad%d", i)
			}
			text = append(append(text, ip...), '\n')
			if i > 0 {
				array, wantArray = append(array, ','), append(wantArray, ',')
			}
			array = append(append(append(array, '"'), ip...), '"')
			if bad {
				wantStream = fmt.Appendf(wantStream, `{"ip":"%s","line":%d,"error":"not an IP address: unable to parse IP"}`+"\n", ip, i+1)
				wantArray = fmt.Appendf(wantArray, `{"ip":"%s","error":"not an IP address: unable to parse IP"}`, ip)
				continue
			}
			wantStream = append(append(wantStream, answers[ip]...), '\n')
			wantArray = append(wantArray, answers[ip]...)
		}
		for kind, c := range map[string]struct{ body, want []byte }{
			"text/plain":       {text, wantStream},
			"application/json": {fmt.Appendf(nil, `{"ips":[%s]}`, array), fmt.Appendf(nil, `{"generation":1,"results":[%s]}`+"\n", wantArray)},
		} {
			resp, err := http.Post(srv.URL+lookupPath, kind, &choppedReader{r, c.body})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, c.want) {
				t.Fatalf("%s, %d addresses: %d bytes of answers, want %d; first difference at %d", kind, n, len(got), len(c.want), differ(got, c.want))
			}
		}
	}
}

func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A stream is answered while it comes in, and from the generation that it began with.
func TestStreamIsAnsweredAsItComesFromOneGeneration(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	body, in := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, srv.URL+lookupPath, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	want := w.single("10.1.2.3")
	go func() { _, _ = io.WriteString(in, "10.1.2.3\n") }() // the answer's header comes with the first answer
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("RIB-Generation") != "1" {
		t.Errorf("header %v", resp.Header)
	}
	answers := bufio.NewReader(resp.Body)
	for i := range 3 {
		if i > 0 {
			if _, err := io.WriteString(in, "10.1.2.3\n"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		wantJSON(t, got, want)
		w.publish(uint64(2+i), nil)
	}
	in.Close()
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v behind the last answer", rest, err)
	}
}

// countingTable counts closes.
type closingTable struct {
	lpm.Table
	closed chan struct{}
}

func (c closingTable) Close() error { close(c.closed); return c.Table.Close() }

func TestEveryRequestGivesItsGenerationBack(t *testing.T) {
	w := emptyWorld(t, nil)
	g := makeGeneration(t, 1, testRoutes())
	closed := make(chan struct{})
	g.Table = closingTable{g.Table, closed}
	w.gens.Publish(g)
	w.get("/api/v1/lookup/10.0.0.1")
	w.get("/api/v1/lookup/x")
	w.get("/api/v1/routes/10.0.0.0/8?include=more-specifics")
	w.get("/api/v1/routes/10.0.0.1/8")
	w.get("/api/v1/status")
	w.get("/api/v1/peers")
	w.get("/readyz")
	w.get("/metrics")
	w.get("/nothing")
	w.do(http.MethodPost, lookupPath, "application/json", `{"ips":["10.0.0.1"]}`)
	w.do(http.MethodPost, lookupPath, "application/json", `{`)
	w.do(http.MethodPost, lookupPath, "text/plain", "10.0.0.1\n")
	w.do(http.MethodPost, lookupPath, "application/xml", "")
	w.do(http.MethodPost, listPath, "application/json", `{"prefixes":["10.0.0.0/8"]}`)
	w.do(http.MethodPost, listPath, "text/plain", "10.0.0.0/8\nx\n")
	w.get(listPath + "?limit=0")
	w.get(listPath + "?cursor=2,10.0.0.0/8")
	w.do(http.MethodHead, listPath, "", "")
	w.list("limit=1")
	w.list("cursor=1,10.0.0.0/8")
	w.api.Close() // but for those of listings, tested there
	select {
	case <-closed:
		t.Fatal("closed while published")
	default:
	}
	w.publish(2, nil)
	select {
	case <-closed:
	default:
		t.Error("a request kept its generation")
	}
}

// dial opens a connection and sends text.
func dial(t *testing.T, srv interface{ Addr() net.Addr }, text string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

const streamHeader = "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"

func TestHalfAStreamIsBrokenOffAndCounted(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	conn := dial(t, srv.Listener, streamHeader+"10.1.2.3\n10.")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the answer ends as if it were whole: %v", err)
	}
	wantJSON(t, string(got), w.single("10.1.2.3"))
	waitMetric(t, w, `ribwarp_http_aborted_total{reason="client"} 1`)
}

func TestHalfAJSONBodyIsCounted(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	conn := dial(t, srv.Listener, strings.Replace(streamHeader, "text/plain", "application/json", 1)+`{"ips":["10.`)
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s", resp.Status)
	}
	waitMetric(t, w, `ribwarp_http_aborted_total{reason="client"} 1`)
}

func TestClientsWithoutProgressAreCutOff(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits.Progress = 50 * time.Millisecond })
	srv := w.serve()
	t.Run("stream", func(t *testing.T) {
		conn := dial(t, srv.Listener, streamHeader+"10.1.2.3\n10.")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the answer ends as if it were whole: %v", err)
		}
		wantJSON(t, string(got), w.single("10.1.2.3")+"\n"+`{"ip":"","line":2,"error":"no whole line came in for 50ms: the stream ends here"}`)
	})
	t.Run("JSON", func(t *testing.T) {
		conn := dial(t, srv.Listener, strings.Replace(streamHeader, "text/plain", "application/json", 1)+`{"ips":[`)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("status %s", resp.Status)
		}
	})
	t.Run("client that does not read", func(t *testing.T) {
		conn := dial(t, srv.Listener, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10000000000\r\n\r\n")
		_ = conn.SetDeadline(time.Now().Add(time.Minute)) // the test fails rather than hangs
		lines := []byte(strings.Repeat("10.1.2.3\n", 10000))
		for {
			if _, err := conn.Write(lines); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Fatal("the service still waits for a client that does not read")
				}
				break
			}
		}
	})
	waitMetric(t, w, `ribwarp_http_aborted_total{reason="timeout"} 3`)
}

// waitMetric waits until a line is among the metrics: a request is counted when its handler
// ends, which may be after the client saw the end.
func waitMetric(t *testing.T, w *world, line string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		got := w.get("/metrics").Body.String()
		if strings.Contains(got, line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", line, grep(got, "aborted"))
		}
	}
}

// A stream far longer than any buffer must not be kept in memory.
func TestLongStreamTakesConstantMemory(t *testing.T) {
	w := newWorld(t, nil)
	const n = 300_000
	lines := &repeatReader{text: []byte("10.1.2.3\n"), left: n}
	r, err := http.NewRequest(http.MethodPost, lookupPath, lines)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	out := &countingWriter{discardWriter: discardWriter{http.Header{}}}
	w.api.Handler().ServeHTTP(out, r)
	if out.lines != n || out.longest > 2*outPiece {
		t.Errorf("%d answers, longest piece %d bytes", out.lines, out.longest)
	}
}

// repeatReader gives text over and over.
type repeatReader struct {
	text []byte
	left int
	part []byte
}

func (r *repeatReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.part) == 0 {
			if r.left == 0 {
				if n == 0 {
					return 0, io.EOF
				}
				return n, nil
			}
			r.left--
			r.part = r.text
		}
		m := copy(p[n:], r.part)
		r.part = r.part[m:]
		n += m
	}
	return n, nil
}

type countingWriter struct {
	discardWriter
	lines, longest int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.lines += bytes.Count(b, []byte{'\n'})
	w.longest = max(w.longest, len(b))
	return len(b), nil
}

func BenchmarkStream(b *testing.B) {
	var routes []rib.Route
	for i := range 256 {
		for j := range 256 {
			p, err := netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}).Prefix(24)
			if err != nil {
				b.Fatal(err)
			}
			routes = append(routes, route(p.String(), plainAttrs))
		}
	}
	w := emptyWorld(b, nil)
	w.publish(1, routes)
	r := rand.New(rand.NewPCG(1, 1))
	var text []byte
	const n = 100_000
	for range n {
		text = fmt.Appendf(text, "10.%d.%d.%d\n", r.IntN(256), r.IntN(256), r.IntN(256))
	}
	out := &countingWriter{discardWriter: discardWriter{http.Header{}}}
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest(http.MethodPost, lookupPath, bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/plain")
		w.api.Handler().ServeHTTP(out, req)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "addrs/s")
}

// A line of ten megabytes is one error, and the lines behind it are answered.
func TestLineOfTenMegabytes(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	for kind, last := range map[string]string{
		"text/plain":           "10.1.2.3",
		"application/x-ndjson": `{"ip":"10.1.2.3"}`,
		"text/csv":             "10.1.2.3,x",
	} {
		for _, junk := range []string{"x", "[", `{"ip":`, `"`} {
			body := strings.Repeat(junk, 10<<20/len(junk)) + "\n" + last + "\n"
			req, err := http.NewRequest(http.MethodPost, srv.URL+lookupPath, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("Accept", "application/x-ndjson")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			bad, good, _ := strings.Cut(string(got), "\n")
			if err != nil || !strings.Contains(bad, "line is longer than 4096 bytes") || len(bad) > 300 {
				t.Errorf("%s of %q: %v, answered by %.300s", kind, junk, err, bad)
			}
			wantJSON(t, good, w.single("10.1.2.3"))
		}
	}
}
