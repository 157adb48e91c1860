package faults

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDescriptorsExhausted takes all descriptors of the service away by connections. The log tells,
// sessions that are there live on, what needs a descriptor fails and says so, and everything is
// well again when some are free.
func TestDescriptorsExhausted(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	saved := filepath.Join(t.TempDir(), "saved")
	p := serve(t, configuration(t, n, fmt.Sprintf("[serve.snapshot]\nfile = %q\ninterval = \"50ms\"\n", saved),
		n.host(0, 2).String(), netip.PrefixFrom(n.host(9, 0), 24).String()+",limit=250"))
	at := netip.AddrPortFrom(n.own(), bgpPort)
	s := speak(t, connect(t, n.host(0, 2), at))
	s.establish(t, minimalHold)
	s.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
	await(t, "route", func() bool { return p.has(t, numbered(20, 0)) })
	await(t, "saved generation", func() bool { _, err := os.Stat(saved); return err == nil })

	held := p.descriptors(t)
	var before unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	const free = 10
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(held + free), Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	var flood []*speaker
	for i := range 5 * free {
		flood = append(flood, speak(t, connect(t, n.host(9, byte(i)), at)))
	}
	const said = "bgp connection not accepted"
	await(t, "the log to tell", func() bool {
		return p.log.Contains(said) && p.log.Contains("too many open files") && p.log.Contains("saving failed, the file of before stays")
	})
	// The API answers on the connection that it has.
	s.mustUpdate(t, updateOf(numbered(20, 0), numbered(20, 1)))
	await(t, "route of the session that is there", func() bool { return p.has(t, numbered(20, 1)) && !p.has(t, numbered(20, 0)) })
	// Of attempts that fail ten times a second the log tells fewer and fewer.
	heard := s.heard.Load()
	await(t, "KEEPALIVEs", func() bool { return s.heard.Load() > heard+2 })
	if lines := strings.Count(p.log.String(), said); lines > 10 {
		t.Errorf("the log tells %d times", lines)
	}

	for _, f := range flood {
		if err := f.conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	next := speak(t, connect(t, n.host(9, 250), at))
	next.establish(t, 90)
	next.mustUpdate(t, updateOf(netip.Prefix{}, numbered(21, 0)))
	await(t, "route of a new session", func() bool { return p.has(t, numbered(21, 0)) && p.has(t, numbered(20, 1)) })
	p.mustSave(t, saved)
	s.mustBeUp(t)
}

// descriptors counts those of a process.
func (p *process) descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// mustSave waits until the file is one that was made later.
func (p *process) mustSave(t *testing.T, path string) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the next save", func() bool {
		now, err := os.Stat(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil && !os.SameFile(before, now)
	})
}
