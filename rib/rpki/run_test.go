package rpki

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ribwarp/ribwarp/fixtures"
)

// running starts Run and ends it with the test. The channel has a value for every change.
func running(t *testing.T, s *Store, c Config) <-chan struct{} {
	t.Helper()
	changes := make(chan struct{}, 100)
	stop := s.OnChange(func() { changes <- struct{}{} })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, c, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop()
	})
	return changes
}

// becomes waits for a table.
func becomes(t *testing.T, s *Store, changes <-chan struct{}, vrps ...VRP) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		if slices.Equal(slices.Collect(s.Table().All()), unique(vrps)) {
			return
		}
		select {
		case <-changes:
		case <-deadline:
			t.Fatalf("the table has %v, want %v; sources %+v", slices.Collect(s.Table().All()), vrps, s.Status())
		}
	}
}

func TestFollowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vrps.csv")
	write := func(text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path+".new", time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	s := NewStore()
	changes := running(t, s, Config{Files: []string{path}, Reread: time.Second})
	write(plainCSV, time.Hour)
	becomes(t, s, changes, vrpA, vrpB, vrpC)
	write("AS64500,192.0.2.0/24,x\n", time.Minute)
	for deadline := time.Now().Add(30 * time.Second); s.Status()[0].LastError == "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if x := s.Status()[0]; x.Connected || !x.Used || !strings.Contains(x.LastError, "line 1") {
		t.Errorf("status %+v", x)
	}
	becomes(t, s, changes, vrpA, vrpB, vrpC)
	write("AS64500,192.0.2.0/24,24\n", 0)
	becomes(t, s, changes, vrpA)
	if x := s.Status()[0]; !x.Connected || x.LastError != "" || x.VRPs != 1 {
		t.Errorf("status %+v", x)
	}
}

// The configuration is changed by ending one Run and starting another: what both have stays.
func TestRunAnew(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(a, []byte("AS64500,192.0.2.0/24,24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b, []byte("AS64501,2001:db8::/32,48\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewStore()
	t.Run("two", func(t *testing.T) {
		becomes(t, s, running(t, s, Config{Files: []string{a, b}}), vrpA, vrpB)
	})
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	t.Run("one", func(t *testing.T) {
		becomes(t, s, running(t, s, Config{Files: []string{a}}), vrpA)
	})
}

func TestConfig(t *testing.T) {
	var c Config
	if _, err := toml.Decode("caches = [\"192.0.2.1:323\", \"[2001:db8::1]:323\"]\nfiles = [\"vrps.json\"]\nreread = \"5m\"\nrefresh = \"10m\"\n", &c); err != nil {
		t.Fatal(err)
	}
	got, err := c.withDefaults()
	if err != nil || got.Reread != 5*time.Minute || got.Refresh != 10*time.Minute || got.Retry != 10*time.Minute || got.Expire != 2*time.Hour || len(got.Caches) != 2 {
		t.Errorf("%+v, error %v", got, err)
	}
	for _, x := range []struct {
		c    Config
		want string
	}{
		{Config{Caches: []string{"192.0.2.1"}}, `cache "192.0.2.1": give HOST:PORT`},
		{Config{Caches: []string{":323"}}, "give HOST:PORT"},
		{Config{Caches: []string{"a:1", "a:1"}}, `cache "a:1" is there twice`},
		{Config{Files: []string{""}}, "a file without a name"},
		{Config{Files: []string{"a", "a"}}, `file "a" is there twice`},
		{Config{Reread: time.Millisecond}, "reread of 1ms"},
		{Config{Refresh: -1}, "refresh of -1ns"},
		{Config{Retry: 3 * time.Hour}, "retry of 3h0m0s"},
		{Config{Expire: time.Minute}, "expire of 1m0s"},
		{Config{Expire: 20 * time.Minute}, "before they are asked for again"},
	} {
		if err := x.c.Validate(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: error %v, want %q", x.c, err, x.want)
		}
		if err := NewStore().Run(t.Context(), x.c, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v runs", x.c)
		}
	}
}

// A real cache: a whole load, then news, in both versions of the protocol.
func TestStayRTR(t *testing.T) {
	path, err := exec.LookPath("stayrtr")
	if err != nil {
		fixtures.Missing(t, "StayRTR is not installed (Debian's package stayrtr)")
	}
	for version := range 3 {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "vrps.json")
			write := func(json string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(json), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			future := fmt.Sprint(time.Now().Add(time.Hour).Unix())
			write(strings.ReplaceAll(rpkiClientJSON, "1800000000", future))
			addr := freeAddr(t)
			cache := exec.Command(path, "-bind", addr, "-metrics.addr", freeAddr(t), "-cache", file, "-checktime=false", "-refresh", "1", "-protocol", fmt.Sprint(version))
			var output bytes.Buffer
			cache.Stdout, cache.Stderr = &output, &output
			if err := cache.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cache.Process.Kill()
				_ = cache.Wait()
				if t.Failed() {
					t.Logf("stayrtr: %s", output.Bytes())
				}
			})
			s := NewStore()
			changes := running(t, s, Config{Caches: []string{addr}})
			becomes(t, s, changes, vrpA, vrpB, vrpC)
			session, serial := s.Status()[0].Session, s.Status()[0].Serial
			write(strings.NewReplacer("1800000000", future, "192.0.2.0/24", "192.0.3.0/24").Replace(rpkiClientJSON))
			moved := vrpA
			moved.Prefix = mustPrefix("192.0.3.0/24")
			becomes(t, s, changes, moved, vrpB, vrpC)
			x := s.Status()[0]
			if x.Session != session || x.Serial == serial || x.Version != uint8(min(version, 1)) || !x.Connected {
				t.Errorf("status %+v; before session %d, serial %d", x, session, serial)
			}
		})
	}
}

// freeAddr gives an address of this machine that nobody listens at, nor will soon: other tests use
// 127.0.0.1.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
