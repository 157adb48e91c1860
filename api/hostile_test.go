package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// talkRaw sends bytes and gives all answers until the connection is closed or says nothing more.
func talkRaw(t *testing.T, srv *httptest.Server, text string) (answers []*http.Response, bodies []string) {
	t.Helper()
	conn, in := rawConn(t, srv)
	_, _ = io.WriteString(conn, text) // the server may close before it has all
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers, bodies
		}
		body, _ := io.ReadAll(resp.Body)
		answers, bodies = append(answers, resp), append(bodies, string(body))
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // only for what follows
	}
}

// Each is answered clearly, and another client that asks meanwhile does not notice.
func TestHostileRequests(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	const lookup = "GET /api/v1/lookup/10.1.2.3 HTTP/1.1\r\nHost: x\r\n\r\n"
	const end = "Host: x\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		name, text string
		want       []int // statuses, in order; none: closed without an answer
		detail     string
	}{
		{"many headers", "GET /healthz HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Flood: 0123456789\r\n", 2000) + "\r\n", []int{431}, ""},
		{"a long header", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Flood: " + strings.Repeat("x", 40_000) + "\r\n\r\n", []int{431}, ""},
		{"a long URL", "GET /api/v1/lookup/" + strings.Repeat("1", 10_000) + " HTTP/1.1\r\n" + end, []int{414}, "8192 is the most"},
		{"a URL longer than a header", "GET /" + strings.Repeat("1", 100_000) + " HTTP/1.1\r\n" + end, []int{431}, ""},
		{"traversal", "GET /web/../../../../etc/passwd HTTP/1.1\r\n" + end, []int{404}, "no such file"},
		{"traversal, encoded", "GET /web/%2e%2e/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + end, []int{404}, "no such file"},
		{"traversal, backslashes", "GET /web/..\\..\\etc\\passwd HTTP/1.1\r\n" + end, []int{404}, "no such file"},
		{"traversal from the root", "GET /../../etc/passwd HTTP/1.1\r\n" + end, []int{404}, "no such endpoint"},
		{"a NUL", "GET /web/app%00.js HTTP/1.1\r\n" + end, []int{404}, "no such file"},
		{"absolute URI", "GET http://elsewhere.example/api/v1/lookup/10.1.2.3 HTTP/1.1\r\n" + end, []int{200}, `"10.1.2.0/24"`},
		{"absolute URI with a path that leaves", "GET http://elsewhere.example/web/../../etc/passwd HTTP/1.1\r\n" + end, []int{404}, ""},
		{"a URI that is none", "GET :// HTTP/1.1\r\n" + end, []int{400}, ""},
		{"CONNECT", "CONNECT elsewhere.example:443 HTTP/1.1\r\n" + end, []int{404}, "no such endpoint"},
		{"unknown method", "BREW /api/v1/status HTTP/1.1\r\n" + end, []int{405}, "BREW is not allowed here"},
		{"TRACE", "TRACE /api/v1/status HTTP/1.1\r\n" + end, []int{405}, ""},
		{"method that is no token", "G(T / HTTP/1.1\r\n" + end, []int{400}, ""},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{505}, "this is HTTP/1.1"},
		{"HTTP/3.0", "GET / HTTP/3.0\r\n" + end, []int{505}, ""},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\xaa", 32) + "\r\n\r\n", []int{400}, ""},
		{"no Host", "GET /healthz HTTP/1.1\r\n\r\n", []int{400}, ""},
		{"two Hosts", "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", []int{400}, ""},
		{"a Host that is none", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", []int{400}, ""},
		{"HTTP/1.0 without Host", "GET /healthz HTTP/1.0\r\n\r\n", []int{200}, ""},
		{"header without a colon", "GET /healthz HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", []int{400}, ""},
		{"space before the colon", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello", []int{400}, ""},
		{"NUL in a header", "GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", []int{400}, ""},

		// Requests that two servers might cut in different places. What is behind the one that is
		// answered is refused, or is what net/http says it is for all.
		{"two lengths", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!" + lookup, []int{400}, ""},
		{"a length that is no number", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello" + lookup, []int{400}, ""},
		{"a negative length", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + lookup, []int{400}, ""},
		{"unknown transfer coding", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", []int{501}, ""},
		{"two transfer codings", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", []int{501}, ""},
		{"chunked, and a length that ends in the midst", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n10.1.2.3\n\r\n0\r\n\r\n", []int{200}, `"10.1.2.0/24"`},
		{"chunk length that is none", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", []int{400}, "invalid byte in chunk length"},
		{"lines that end in LF alone", "GET /healthz HTTP/1.1\nHost: x\nConnection: close\n\n", []int{200}, ""},

		{"pipelined", lookup + lookup + "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + lookup, []int{200, 200, 404, 200}, ""},
		{"pipelined behind an error", "GET /healthz HTTP/1.1\r\nnonsense\r\n\r\n" + lookup, []int{400}, ""},
		{"unknown expectation", "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nExpect: the-unexpected\r\nContent-Length: 2\r\n\r\n{}", []int{417}, ""},
		{"noise", "\x00\x01\x02\xff\r\n\r\n", []int{400}, ""},
		{"nothing", "\r\n\r\n", []int{400}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, otherIn := rawConn(t, srv)
			answers, bodies := talkRaw(t, srv, c.text)
			var got []int
			for _, a := range answers {
				got = append(got, a.StatusCode)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("answered %d, want %d: %q", got, c.want, bodies)
			}
			if all := strings.Join(bodies, ""); !strings.Contains(all, c.detail) || strings.Contains(all, "root:") {
				t.Errorf("bodies %q, want %q in them", bodies, c.detail)
			}
			if r := askOn(t, other, otherIn, "/api/v1/lookup/10.1.2.3"); r == nil || r.StatusCode != http.StatusOK {
				t.Errorf("another client: %v", r)
			}
		})
	}
}

// A client that expects 100-continue sends its body when it is told to, and not where it is refused.
func TestExpectContinue(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Admission = Admission{MaxBulkPerClient: 1} })
	srv := w.serve()
	const head = "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n"
	conn, in := rawConn(t, srv)
	_, _ = io.WriteString(conn, head)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(conn, `{"ips":["10.1.2.3"]}`)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", resp, err)
	}

	await(t, "out", func() bool { inside, _ := w.api.admission.gate.load(); return inside == 0 })
	defer openStream(t, srv.URL).end()
	conn, in = rawConn(t, srv)
	_, _ = io.WriteString(conn, head)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("refused: %v, %v", resp, err)
	}
}

// Clients that send their header a byte at a time, or nothing, are cut off; others are answered
// all the time.
func TestSlowHeaders(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits.Progress = 300 * time.Millisecond })
	srv := w.serve()
	for _, first := range []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		conn, in := rawConn(t, srv)
		_, _ = io.WriteString(conn, first)
		closed := make(chan error, 1)
		go func() {
			_, err := http.ReadResponse(in, nil)
			closed <- err
		}()
		other, otherIn := rawConn(t, srv)
		for deadline := time.Now().Add(30 * time.Second); ; {
			if r := askOn(t, other, otherIn, "/healthz"); r == nil || r.StatusCode != http.StatusOK {
				t.Fatalf("another client: %v", r)
			}
			select {
			case err := <-closed:
				if err == nil {
					t.Error("it was answered")
				}
			case <-time.After(20 * time.Millisecond):
				if first != "" {
					_, _ = io.WriteString(conn, "x")
				}
				if time.Now().After(deadline) {
					t.Fatal("it is still there after 30 s")
				}
				continue
			}
			break
		}
	}
}

// A body that comes a byte at a time is answered by 408, though there is progress all the time: a
// whole JSON body has a time.
func TestSlowBody(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits.Progress = 300 * time.Millisecond })
	conn, in := rawConn(t, w.serve())
	_, _ = io.WriteString(conn, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
	answered := make(chan struct{})
	go func() {
		for {
			select {
			case <-answered:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = io.WriteString(conn, " ")
			}
		}
	}()
	resp, err := http.ReadResponse(in, nil)
	close(answered)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%v, %v", resp, err)
	}
}

// A client that does not read its answer is cut off; the turn of its request is given to others
// meanwhile.
func TestAClientThatDoesNotRead(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Limits.Progress = 500 * time.Millisecond })
	srv := w.serve()
	conn, _ := rawConn(t, srv)
	go func() { // until it is cut off
		_, _ = io.WriteString(conn, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
		lines := strings.Repeat("10.1.2.3\n", 10_000)
		out := bufio.NewWriterSize(conn, 64<<10)
		for {
			if _, err := fmt.Fprintf(out, "%x\r\n%s\r\n", len(lines), lines); err != nil {
				return
			}
		}
	}()
	gate := w.api.admission.gate
	await(t, "in", func() bool { inside, _ := gate.load(); return inside == 1 })
	await(t, "cut off", func() bool {
		if resp := postOne(t, srv.URL); resp.StatusCode != http.StatusOK {
			t.Fatalf("another client: %d", resp.StatusCode)
		}
		inside, _ := gate.load()
		return inside == 0
	})
}
