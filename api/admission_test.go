package api

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func clientKey(n int) netip.Prefix {
	return shareOf(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}))
}

// await waits until something is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s after 30 s", what)
		}
	}
}

// One client waits with fifty requests, then another one comes with one: it has the turn after the next.
func TestAClientWithManyRequestsHasOneTurnInTwo(t *testing.T) {
	g := newGate(1, 1000, 1000)
	many, one := clientKey(1), clientKey(2)
	first, _ := g.admit(many, time.Minute)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	ask := func(key netip.Prefix, name string) {
		waiting := g.waiting.Load()
		all.Go(func() {
			turn, why := g.admit(key, time.Minute)
			if turn == nil {
				t.Errorf("refused: %s", refusalNames[why])
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			turn.end()
		})
		await(t, "waiting", func() bool { return g.waiting.Load() > waiting })
	}
	for range 50 {
		ask(many, "many")
	}
	ask(one, "one")
	first.end()
	all.Wait()
	if len(order) != 51 || order[0] != "one" && order[1] != "one" {
		t.Errorf("turns: %v", order)
	}
}

// Requests of many clients come, wait for the network in two goroutines, are late and end, in a random
// order: there are never more turns than slots, nobody is forgotten and nothing is left over.
func TestGateKeepsItsBounds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const slots = 3
	g := newGate(slots, 40, 12)
	var computing, most, done, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 100 {
				turn, _ := g.admit(clientKey(r.IntN(6)), time.Duration(1+r.IntN(2000))*time.Microsecond)
				if turn == nil {
					refused.Add(1)
					continue
				}
				compute := func() {
					n := computing.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(time.Duration(r.IntN(20)) * time.Microsecond)
					computing.Add(-1)
				}
				compute()
				for range r.IntN(4) {
					turn.leave()
					time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
					turn.back()
					compute()
				}
				turn.leave() // as a second goroutine does, which is still reading when the first one ends
				turn.leave()
				turn.back()
				turn.end()
				done.Add(1)
			}
		})
	}
	all.Wait()
	if most.Load() > slots {
		t.Errorf("%d computed at once", most.Load())
	}
	if inside, running := g.load(); inside+running+len(g.clients)+len(g.ring) > 0 || g.waiting.Load() != 0 {
		t.Errorf("left over: %d inside, %d running, %d clients, %d in the ring, %d waiting", inside, running, len(g.clients), len(g.ring), g.waiting.Load())
	}
	if done.Load() == 0 || done.Load()+refused.Load() != 60*100 {
		t.Errorf("%d done, %d refused", done.Load(), refused.Load())
	}
}

func TestWhoWaitsTooLongIsRefused(t *testing.T) {
	g := newGate(1, 10, 5)
	turn, _ := g.admit(clientKey(1), time.Minute)
	if late, why := g.admit(clientKey(2), time.Millisecond); late != nil || why != refusedDelay {
		t.Errorf("%v, %s", late, refusalNames[why])
	}
	turn.end()
	again, why := g.admit(clientKey(2), time.Millisecond)
	if again == nil {
		t.Fatalf("refused with a free slot: %s", refusalNames[why])
	}
	again.end()
}

// A talk is a stream of lines over a connection of its own, in small steps.
type talk struct {
	t      *testing.T
	conn   net.Conn
	answer *http.Response
	lines  *bufio.Reader
}

// openStream begins POST /api/v1/lookup with lines, and is answered one.
func openStream(t *testing.T, url string, header ...string) *talk {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	more := ""
	for _, h := range header {
		more += h + "\r\n"
	}
	_, _ = fmt.Fprintf(conn, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n%s\r\n9\r\n10.1.2.3\n\r\n", more)
	s := &talk{t: t, conn: conn}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if s.answer, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewReader(s.answer.Body)
	if s.answer.StatusCode == http.StatusOK {
		s.hear()
	}
	return s
}

// hear reads a line of the answer.
func (s *talk) hear() {
	s.t.Helper()
	if line, err := s.lines.ReadString('\n'); err != nil || !strings.Contains(line, `"10.1.2.0/24"`) {
		s.t.Errorf("line %q, %v", line, err)
	}
}

// end sends the last chunk and reads the rest.
func (s *talk) end() {
	s.t.Helper()
	_, _ = io.WriteString(s.conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(s.lines); err != nil || len(rest) > 0 {
		s.t.Errorf("rest %q, %v", rest, err)
	}
}

// postOne asks for one address with JSON and gives the status.
func postOne(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Post(url+lookupPath, "application/json", strings.NewReader(`{"ips":["10.1.2.3"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// Streams that wait for their clients are many times as many as slots: others are answered as if they
// were not there.
func TestStreamsThatWaitHoldUpNobody(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Admission = Admission{MaxBulk: 1000, MaxBulkPerClient: 1000} })
	srv := w.serve()
	var streams []*talk
	for range 8 * w.api.admission.gate.slots {
		streams = append(streams, openStream(t, srv.URL))
	}
	for range 20 {
		if resp := postOne(t, srv.URL); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	for _, s := range streams {
		_, _ = io.WriteString(s.conn, "9\r\n10.1.2.9\n\r\n")
		s.hear()
		s.end()
	}
	await(t, "all out", func() bool { inside, running := w.api.admission.gate.load(); return inside+running == 0 })
}

func TestAClientHasItsShareOfBulkRequests(t *testing.T) {
	w := newWorld(t, func(d *Deps) {
		d.Admission = Admission{MaxBulk: 3, MaxBulkPerClient: 2, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
	})
	srv := w.serve()
	a, b := openStream(t, srv.URL), openStream(t, srv.URL)
	// A forged header changes nothing: nobody trusts 127.0.0.1.
	third := openStream(t, srv.URL, "X-Forwarded-For: 192.0.2.77")
	if third.answer.StatusCode != http.StatusTooManyRequests || third.answer.Header.Get("Retry-After") != "1" || third.answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the third: %d %v", third.answer.StatusCode, third.answer.Header)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/v1/lookup/10.1.2.3", "/api/v1/routes/10.1.2.0/24"} {
		if resp, err := http.Get(srv.URL + path); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	for _, query := range []string{"include=more-specifics", "%69nclude=more-specifics"} {
		if resp, _ := http.Get(srv.URL + "/api/v1/routes/10.1.2.0/24?" + query); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %d", query, resp.StatusCode)
		}
	}
	metrics := w.get("/metrics").Body.String()
	for _, want := range []string{`ribwarp_http_refused_total{reason="client"} 3`, `ribwarp_http_refused_total{reason="full"} 0`, `ribwarp_http_bulk_requests{state="waiting"} 2`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	a.end()
	await(t, "out", func() bool { inside, _ := w.api.admission.gate.load(); return inside == 1 })
	if resp := postOne(t, srv.URL); resp.StatusCode != http.StatusOK {
		t.Errorf("with one stream left: %d", resp.StatusCode)
	}
	b.end()
}

func TestTooManyBulkRequestsAreRefused(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Admission = Admission{MaxBulk: 2, MaxBulkPerClient: 10} })
	srv := w.serve()
	a, b := openStream(t, srv.URL), openStream(t, srv.URL)
	if resp := postOne(t, srv.URL); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	a.end()
	b.end()
}

// A refusal does not wait for a stream that nobody will read.
func TestARefusalDoesNotWaitForAStream(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Admission = Admission{MaxBulk: 1, MaxBulkPerClient: 1} })
	srv := w.serve()
	defer openStream(t, srv.URL).end()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second)) // the server itself would give the body 30 s
	_, _ = io.WriteString(conn, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n10.1.2.3\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%v, %v", resp, err)
	}
}

// An error in the midst of a stream, all of which has come already, ends the connection in good order.
func TestAnErrorBeforeTheEndOfAStreamEndsTheConnection(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	log := new(logged)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(log, nil), slog.LevelError)
	for range 20 {
		conn, in := rawConn(t, srv)
		body := "a,b\n" + strings.Repeat("10.1.2.3,x\n", 1000)
		_, _ = fmt.Fprintf(conn, "POST /api/v1/lookup?column=nowhere HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("%v, %v", resp, err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		if r := askOn(t, conn, in, "/healthz"); r != nil && r.StatusCode != http.StatusOK {
			t.Errorf("then: %v", r)
		}
	}
	if text := log.String(); strings.Contains(text, "panic") {
		t.Error(text)
	}
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestWhoTheClientIs(t *testing.T) {
	d := newAdmission(Admission{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:ffff::/48")}})
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"nobody between", "198.51.100.7:4711", nil, "198.51.100.7/32"},
		{"an IPv6 host has its /64", "[2001:db8:1:2:3::4]:80", nil, "2001:db8:1:2::/64"},
		{"a mapped address is an IPv4 one", "[::ffff:198.51.100.7]:80", nil, "198.51.100.7/32"},
		{"forged", "198.51.100.7:4711", []string{"203.0.113.1"}, "198.51.100.7/32"},
		{"by a proxy", "192.0.2.1:80", []string{"203.0.113.1"}, "203.0.113.1/32"},
		{"by a proxy, forged in front", "192.0.2.1:80", []string{"10.9.9.9, 203.0.113.1"}, "203.0.113.1/32"},
		{"by two proxies, over two lines", "192.0.2.1:80", []string{"10.9.9.9", "203.0.113.1,192.0.2.2"}, "203.0.113.1/32"},
		{"by a proxy that says nothing", "192.0.2.1:80", nil, "192.0.2.1/32"},
		{"noise", "192.0.2.1:80", []string{"203.0.113.1, <script>"}, "192.0.2.1/32"},
		{"only proxies", "192.0.2.1:80", []string{"192.0.2.3"}, "192.0.2.3/32"},
		{"IPv6 by a proxy", "[2001:db8:ffff::1]:80", []string{"2001:db8:7::1"}, "2001:db8:7::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.peer
			r.Header["X-Forwarded-For"] = c.forwarded
			if got := d.client(r).String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// rawConn is a connection that says what it is told to.
func rawConn(t *testing.T, srv *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn, bufio.NewReader(conn)
}

// askOn sends a request and gives its answer; no answer is nil.
func askOn(t *testing.T, conn net.Conn, in *bufio.Reader, path string) *http.Response {
	t.Helper()
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil
	}
	_, _ = io.ReadAll(resp.Body)
	return resp
}

func TestConnectionsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		bounds Admission
		status int
		reason string
	}{
		"of an address": {Admission{MaxConnections: 100, MaxConnectionsPerAddress: 2}, http.StatusTooManyRequests, "address"},
		"of all":        {Admission{MaxConnections: 2, MaxConnectionsPerAddress: 100}, http.StatusServiceUnavailable, "connections"},
		"of all, through a proxy": {Admission{MaxConnections: 2, MaxConnectionsPerAddress: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			http.StatusServiceUnavailable, "connections"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(d *Deps) { d.Admission = c.bounds })
			srv := w.serve()
			const path = "/api/v1/lookup/10.1.2.3"
			first, firstIn := rawConn(t, srv)
			second, secondIn := rawConn(t, srv)
			for range 3 {
				if r := askOn(t, first, firstIn, path); r == nil || r.StatusCode != http.StatusOK {
					t.Fatalf("the first: %v", r)
				}
				if r := askOn(t, second, secondIn, path); r == nil || r.StatusCode != http.StatusOK {
					t.Fatalf("the second: %v", r)
				}
			}
			third, thirdIn := rawConn(t, srv)
			r := askOn(t, third, thirdIn, path)
			if r == nil || r.StatusCode != c.status || !r.Close || r.Header.Get("Retry-After") != "1" {
				t.Fatalf("the third: %v", r)
			}
			if got := askOn(t, third, thirdIn, path); got != nil {
				t.Errorf("the third is still open: %v", got)
			}
			for _, probe := range probes {
				conn, in := rawConn(t, srv)
				if r := askOn(t, conn, in, probe); r == nil || r.StatusCode != http.StatusOK || !r.Close {
					t.Errorf("%s: %v", probe, r)
				}
			}
			if metrics := w.get("/metrics").Body.String(); !strings.Contains(metrics, `ribwarp_http_refused_total{reason="`+c.reason+`"} 1`) {
				t.Errorf("not counted by %s", c.reason)
			}
			_ = first.Close()
			await(t, "closed", func() bool { return w.api.admission.connections.count() <= 1 })
			fourth, fourthIn := rawConn(t, srv)
			if r := askOn(t, fourth, fourthIn, path); r == nil || r.StatusCode != http.StatusOK {
				t.Errorf("after one was closed: %v", r)
			}
		})
	}
}

func TestConnectionsOverTheReserveAreClosed(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Admission = Admission{MaxConnections: 1} })
	srv := w.serve()
	for range 1 + reserve {
		_, _ = rawConn(t, srv) // says nothing
	}
	n := &w.api.admission.connections
	await(t, "full", func() bool { return n.count() == 1+reserve })
	if conn, err := net.Dial("tcp", srv.Listener.Addr().String()); err == nil { // it may be reset already
		if r := askOn(t, conn, bufio.NewReader(conn), "/healthz"); r != nil {
			t.Errorf("answered: %v", r)
		}
		_ = conn.Close()
	}
	if n.dropped.Load() == 0 {
		t.Error("not counted")
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	conn, in := rawConn(t, srv)
	if r := askOn(t, conn, in, "/readyz"); r == nil || r.StatusCode != http.StatusOK || r.Close {
		t.Fatalf("before: %v", r)
	}
	w.api.Drain()
	if r := askOn(t, conn, in, "/api/v1/lookup/10.1.2.3"); r == nil || r.StatusCode != http.StatusOK || !r.Close {
		t.Errorf("a lookup in a drain: %v", r)
	}
	wantProblem(t, w.get("/readyz"), http.StatusServiceUnavailable, "shutting down")
	if !strings.Contains(w.get("/metrics").Body.String(), "\nribwarp_ready 0\n") {
		t.Error("ribwarp_ready says otherwise than /readyz")
	}
	if rec := w.get("/healthz"); rec.Code != http.StatusOK {
		t.Errorf("healthz: %d", rec.Code)
	}
}
