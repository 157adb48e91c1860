package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve starts the service in this process and gives its URL and a way to stop it.
func serve(t *testing.T, args ...string) (url string, stop func() (code int)) {
	t.Helper()
	url, _, stop = serveLogged(t, args...)
	return url, stop
}

// A logBuffer is what a service has logged so far.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveLogged is serve with what the service logs.
func serveLogged(t *testing.T, args ...string) (url string, stderr *logBuffer, stop func() (code int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	ended := make(chan int, 1)
	stderr = new(logBuffer)
	go func() {
		ended <- runContext(ctx, append([]string{"serve", "--drain-delay=0"}, args...), strings.NewReader(""), w, stderr)
		_ = w.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ribwarp serves ")
	if err != nil || !ok {
		cancel()
		<-ended
		t.Fatalf("first line %q, %v; stderr %s", line, err, stderr.String())
	}
	return url, stderr, func() int {
		cancel()
		return <-ended
	}
}

// get asks for a page; status 0 is no answer.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// await asks until the page is there.
func await(t *testing.T, url string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, body := get(t, url)
		if status == http.StatusOK {
			return body
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d %s", url, status, body)
		}
	}
}

func TestServeAnswersFromRouteFiles(t *testing.T) {
	url, stop := serve(t, "--listen", "127.0.0.1:0", "--rib", file(t, "list.txt", testList))
	if status, body := get(t, url+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	await(t, url+"/readyz")
	if _, body := get(t, url+"/api/v1/lookup/10.1.2.3"); !strings.Contains(body, `"10.1.0.0/16"`) {
		t.Errorf("lookup: %s", body)
	}
	if _, body := get(t, url+"/api/v1/status"); !strings.Contains(body, `"cpu"`) {
		t.Errorf("status: %s", body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if status, _ := get(t, url+"/healthz"); status != 0 {
		t.Error("still listening after the end")
	}
}

func TestServeIsNotReadyBeforeItsPeersAre(t *testing.T) {
	url, stop := serve(t, "--listen", "127.0.0.1:0", "--rib", file(t, "list.txt", testList), "--bgp-listen", "127.0.0.1:0",
		"--asn", "64500", "--router-id", "192.0.2.10", "--peer", "127.0.0.1,asn=64501,import=accept,passive")
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s", status, body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestServeIsReadyAfterTheReadyTimeout(t *testing.T) {
	url, stop := serve(t, "--listen", "127.0.0.1:0", "--rib", file(t, "list.txt", testList), "--bgp-listen", "127.0.0.1:0", "--ready-timeout", "50ms",
		"--asn", "64500", "--router-id", "192.0.2.10", "--peer", "127.0.0.1,asn=64501,import=accept,passive")
	await(t, url+"/readyz")
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()
	peers := []string{"--asn", "64500", "--router-id", "192.0.2.10", "--peer", "127.0.0.1,asn=64501,import=accept,passive"}
	for name, args := range map[string][]string{
		"http": {"--listen", taken},
		"bgp":  append([]string{"--listen", "127.0.0.1:0", "--bgp-listen", taken}, peers...),
	} {
		code, stdout, stderr := call(t, "", append([]string{"serve"}, args...)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, taken) || !strings.Contains(stderr, "in use") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
	}
}

func TestServeEndsWhereARouteFileCannotBeUsed(t *testing.T) {
	noise := file(t, "noise.bin", "\x01\x02\x03 no routes here \xff")
	code, _, stderr := call(t, "", "serve", "--listen", "127.0.0.1:0", "--rib", noise)
	if code != exitFailed || !strings.Contains(stderr, noise) {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestDemo(t *testing.T) {
	stdout, stderr := mustCall(t, "", "demo", "--once", "--prefixes", "2000")
	for _, want := range []string{"established", "1600 IPv4 and 400 IPv6 routes visible", `"prefix":null`, "curl http://127.0.0.1:"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s%s", want, stdout, stderr)
		}
	}
	if strings.Count(stdout, `"next_hop":"192.0.2.`) != 2 || strings.Count(stdout, `"next_hop":"2001:db8::`) != 1 {
		t.Errorf("lookups without their next hops:\n%s", stdout)
	}
}
