package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestServeInAProcess is the program itself, for tests that send it signals.
func TestServeInAProcess(t *testing.T) {
	args := os.Getenv("TEST_SERVE")
	if args == "" {
		t.Skip("only in a process that a test starts")
	}
	os.Exit(run(strings.Split(args, "\n"), os.Stdin, os.Stdout, os.Stderr))
}

// A serving is a service in a process of its own.
type serving struct {
	*exec.Cmd
	url    string
	stderr *logBuffer
	ended  chan error
}

func serveInAProcess(t *testing.T, args ...string) *serving {
	t.Helper()
	s := &serving{Cmd: exec.Command(os.Args[0], "-test.run=^TestServeInAProcess$"), stderr: new(logBuffer), ended: make(chan error, 1)}
	s.Env = append(os.Environ(), "TEST_SERVE="+strings.Join(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), "\n"))
	s.Stderr = s.stderr
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ribwarp serves ")
	if err != nil || !ok {
		t.Fatalf("first line %q, %v; stderr %s", line, err, s.stderr)
	}
	s.url = url
	go func() { s.ended <- s.Wait() }()
	await(t, url+"/readyz")
	return s
}

func (s *serving) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// A lineStream is POST /api/v1/lookup, a line at a time.
type lineStream struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func openLines(t *testing.T, url string) *lineStream {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "POST /api/v1/lookup HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n10.1.2.3\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	s := &lineStream{t, conn, bufio.NewReader(resp.Body)}
	s.hear()
	return s
}

func (s *lineStream) hear() {
	s.t.Helper()
	if line, err := s.in.ReadString('\n'); err != nil || !strings.Contains(line, `"10.1.0.0/16"`) {
		s.t.Errorf("line %q, %v", line, err)
	}
}

func (s *lineStream) ask() {
	s.t.Helper()
	_, _ = io.WriteString(s.conn, "9\r\n10.1.2.3\n\r\n")
	s.hear()
}

func (s *lineStream) end() {
	s.t.Helper()
	_, _ = io.WriteString(s.conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(s.in); err != nil || len(rest) > 0 {
		s.t.Errorf("rest %q, %v", rest, err)
	}
}

// SIGTERM, with clients as a load balancer would send them: nobody who asks before it sees that the
// service is not ready any more loses an answer, a stream goes on for as long as it takes, and only
// then the router is told.
func TestDrainLosesNoRequest(t *testing.T) {
	router := &feeder{tb: t, addr: netip.MustParseAddr("127.0.0.1"), as: 64501}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	router.listener = l
	told := make(chan []byte, 1) // the NOTIFICATION
	go func() {
		conn, err := l.Accept()
		if err != nil || router.open(conn) != nil {
			return
		}
		_, _ = conn.Write(endsOfRIB())
		in := bufio.NewReader(conn)
		for {
			var header [19]byte
			if _, err := io.ReadFull(in, header[:]); err != nil {
				close(told)
				return
			}
			body := make([]byte, int(binary.BigEndian.Uint16(header[16:]))-len(header))
			_, _ = io.ReadFull(in, body)
			if header[18] == 3 {
				told <- body
				return
			}
		}
	}()

	saved := filepath.Join(t.TempDir(), "saved")
	config := file(t, "c.toml", fmt.Sprintf("[serve]\ndrain-delay = \"1s\"\ndrain-timeout = \"1m\"\n[serve.snapshot]\nfile = %q\n", saved))
	s := serveInAProcess(t, "--config", config, "--rib", file(t, "list.txt", testList),
		"--asn", "64500", "--router-id", "192.0.2.10", "--peer", router.peer(",active"))

	stream := openLines(t, s.url)
	var clients sync.WaitGroup
	var away atomic.Bool
	var answers atomic.Int64
	for range 8 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
			defer client.CloseIdleConnections()
			for !away.Load() {
				resp, err := client.Get(s.url + "/api/v1/lookup/10.1.2.3")
				if err != nil {
					t.Errorf("a lookup: %v", err)
					return
				}
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("a lookup: %d, %v", resp.StatusCode, err)
				}
				answers.Add(1)
			}
		})
	}
	s.signal(t, syscall.SIGTERM)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, body := get(t, s.url+"/readyz")
		if status == http.StatusServiceUnavailable {
			if !strings.Contains(body, "shutting down") {
				t.Errorf("readyz: %s", body)
			}
			break
		}
		if status != http.StatusOK || time.Now().After(deadline) {
			t.Fatalf("readyz: %d %s", status, body)
		}
	}
	if status, body := get(t, s.url+"/api/v1/lookup/10.1.2.3"); status != http.StatusOK {
		t.Errorf("a new connection when it is not ready any more: %d %s", status, body)
	}
	away.Store(true)
	clients.Wait()
	if answers.Load() == 0 {
		t.Error("nobody asked")
	}

	// Nobody is let in any more, and the stream goes on.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it still listens")
		}
	}
	for range 3 {
		stream.ask()
	}
	select {
	case <-told:
		t.Error("the router was told before the last request was done")
	case <-time.After(100 * time.Millisecond):
	}
	stream.end()
	select {
	case body, ok := <-told:
		if !ok || !bytes.HasPrefix(body, []byte{6, 2}) {
			t.Errorf("the router was told %x, want Cease, Administrative Shutdown", body)
		}
	case <-time.After(30 * time.Second):
		t.Error("the router was not told")
	}
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("%v: %s", err, s.stderr)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it goes on: %s", s.stderr)
	}
	if _, err := os.Stat(saved); err != nil {
		t.Errorf("nothing saved: %v", err)
	}
}

// A request that takes too long is cut off.
func TestDrainHasAnEnd(t *testing.T) {
	s := serveInAProcess(t, "--drain-delay", "0s", "--drain-timeout", "100ms", "--rib", file(t, "list.txt", testList))
	_ = openLines(t, s.url)
	s.signal(t, syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil || !strings.Contains(s.stderr.String(), "requests cut off") {
			t.Errorf("%v: %s", err, s.stderr)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it goes on: %s", s.stderr)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := serveInAProcess(t, "--drain-delay", "1h", "--drain-timeout", "1h", "--rib", file(t, "list.txt", testList))
			s.signal(t, syscall.SIGTERM)
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.stderr.String(), "draining"); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it does not drain")
				}
			}
			s.signal(t, sig)
			select {
			case <-s.ended:
				if status := s.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != sig {
					t.Errorf("ended by %v", s.ProcessState)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}
