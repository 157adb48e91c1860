package faults

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// manyRoutes are announced by the peer of a service that saves them.
	manyRoutes = 20_000
	perUpdate  = 500
)

// announceMany announces them all, and that this is all.
func (s *speaker) announceMany() error {
	for i := 0; i < manyRoutes; i += perUpdate {
		prefixes := make([]netip.Prefix, perUpdate)
		for j := range prefixes {
			prefixes[j] = numbered(20, i+j)
		}
		if err := s.update(updateOf(netip.Prefix{}, prefixes...)); err != nil {
			return err
		}
	}
	return s.update(endOfRIB)
}

// TestKilled kills the service again and again, at any moment: while it starts, while its peer
// announces, while it saves. Each start serves at once what was saved, marked as stale, and
// nothing less than the peer's table; then the peer is back, and nothing is stale.
func TestKilled(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	n := newNetwork()
	saved := filepath.Join(t.TempDir(), "saved")
	config := configuration(t, n, fmt.Sprintf("[serve.snapshot]\nfile = %q\ninterval = \"1ms\"\n", saved), n.host(0, 2).String())
	at := netip.AddrPortFrom(n.own(), bgpPort)
	session := func() *speaker {
		s := speak(t, connect(t, n.host(0, 2), at))
		s.establish(t, 90)
		return s
	}

	p := serve(t, config)
	if err := session().announceMany(); err != nil {
		t.Fatal(err)
	}
	await(t, "the whole table", func() bool { return p.count(t) == count{manyRoutes, 0} })
	p.signal(t, syscall.SIGTERM) // saves
	const kills = 50
	interrupted := 0
	for kill := range kills {
		if kill%3 == 2 { // before it serves
			p := launch(t, config)
			time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
			p.signal(t, syscall.SIGKILL)
			continue
		}
		p := serve(t, config)
		if got := p.count(t); got != (count{manyRoutes, manyRoutes}) || !p.has(t, numbered(20, rng.IntN(manyRoutes))) {
			t.Fatalf("start %d serves %+v", kill, got)
		}
		done := make(chan struct{})
		if kill%3 == 1 {
			s := session()
			go func() {
				defer close(done)
				_ = s.announceMany() // it is killed meanwhile
			}()
		} else {
			close(done)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
		p.signal(t, syscall.SIGKILL)
		<-done
		if temporary, err := filepath.Glob(saved + ".*"); err != nil {
			t.Fatal(err)
		} else if len(temporary) > 0 {
			interrupted++
		}
	}
	t.Logf("%d of %d were interrupted in a save", interrupted, kills)
	if interrupted == 0 {
		t.Error("none was interrupted in a save: this tests too little")
	}
	p = serve(t, config)
	if err := session().announceMany(); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing to be stale any more", func() bool { return p.count(t) == count{manyRoutes, 0} })
}

// TestDiskTrouble has a disk that is full, and one that is read-only: the service goes on, says so,
// keeps the file of before, and saves again when it can. A start from that file serves it.
func TestDiskTrouble(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	for _, c := range []struct {
		name       string
		begin, end func(t *testing.T, dir string)
		says       error
	}{
		{"full", func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, "other"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for block := make([]byte, 1<<12); ; {
				if _, err := f.Write(block); err != nil {
					return
				}
			}
		}, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "other")); err != nil {
				t.Fatal(err)
			}
		}, syscall.ENOSPC},
		{"read-only", func(t *testing.T, dir string) { remount(t, dir, unix.MS_RDONLY) }, func(t *testing.T, dir string) { remount(t, dir, 0) }, syscall.EROFS},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
				t.Fatalf("mount a disk for the test: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			saved := filepath.Join(dir, "saved")
			n := newNetwork()
			config := configuration(t, n, fmt.Sprintf("[serve.snapshot]\nfile = %q\ninterval = \"100ms\"\n", saved), n.host(0, 2).String())
			p := serve(t, config)
			s := speak(t, connect(t, n.host(0, 2), netip.AddrPortFrom(n.own(), bgpPort)))
			s.establish(t, 90)
			if err := s.announceMany(); err != nil {
				t.Fatal(err)
			}
			await(t, "the whole table", func() bool { return p.count(t) == count{manyRoutes, 0} })
			await(t, "a file", func() bool { _, err := os.Stat(saved); return err == nil })
			p.mustSave(t, saved) // of all routes
			p.mustSave(t, saved)
			c.begin(t, dir)
			await(t, "the log to tell", func() bool {
				return p.log.Contains("saving failed, the file of before stays") && p.log.Contains(c.says.Error())
			})
			s.mustUpdate(t, updateOf(numbered(20, 0), numbered(21, 0)))
			await(t, "an update", func() bool { return p.has(t, numbered(21, 0)) && !p.has(t, numbered(20, 0)) })
			if left, err := filepath.Glob(saved + ".*"); err != nil || c.name == "read-only" && len(left) > 0 {
				t.Errorf("left beside the file: %q, %v", left, err)
			}
			p.signal(t, syscall.SIGTERM) // nor can it save now
			if state := p.cmd.ProcessState; state.ExitCode() != 0 {
				t.Errorf("it ended with %v", state)
			}

			p = serve(t, config)
			if got := p.count(t); got != (count{manyRoutes, manyRoutes}) || !p.has(t, numbered(20, 0)) {
				t.Errorf("from the file of before it serves %+v", got)
			}
			s = speak(t, connect(t, n.host(0, 2), netip.AddrPortFrom(n.own(), bgpPort)))
			s.establish(t, 90)
			s.mustUpdate(t, updateOf(netip.Prefix{}, numbered(21, 0)))
			s.mustUpdate(t, endOfRIB)
			await(t, "the peer's table of now", func() bool { return p.count(t) == count{1, 0} })
			c.end(t, dir)
			p.mustSave(t, saved)
			p.signal(t, syscall.SIGKILL)
			p = serve(t, config)
			if got := p.count(t); got != (count{1, 1}) {
				t.Errorf("in the end it serves %+v; log %s", got, strings.TrimSpace(p.log.String()))
			}
		})
	}
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	// A file that is being written is in the way for a moment.
	await(t, "remount", func() bool { return unix.Mount("", dir, "", unix.MS_REMOUNT|flags, "size=1m") == nil })
}
