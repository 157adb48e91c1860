package interop

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// patience is how long a cell waits for what has to happen.
const patience = 60 * time.Second

const (
	ownAS  = 64999
	peerAS = 64500
)

// Hosts of a cell: we, the speaker, and others that feed it.
const ownHost, peerHost, feederHost, hosts = 1, 2, 3, 4

// address is that of a host of a cell. All are on the loopback interface, but not of 127.0.0.0/8: FRR
// takes no next hops from there.
func address(cell, host int, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 13: byte(cell), 15: byte(host)})
	}
	return netip.AddrFrom4([4]byte{10, 77, byte(cell), byte(host)})
}

// A cell is one case with one speaker.
type cell struct {
	*testing.T
	number    int // no other cell of a run has it
	with      *implementation
	processes []*process
}

func (c *cell) own(v6 bool) netip.Addr  { return address(c.number, ownHost, v6) }
func (c *cell) peer(v6 bool) netip.Addr { return address(c.number, peerHost, v6) }

// await waits until a condition holds, and fails where a speaker has ended meanwhile by itself.
func (c *cell) await(what string, holds func() bool) {
	c.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		for _, p := range c.processes {
			if p.ended() && !p.killed {
				c.Fatalf("waiting for %s: %s has ended: %v", what, p.name, p.cmd.ProcessState)
			}
		}
		select {
		case <-deadline:
			c.Fatalf("waited in vain for: %s", what)
		case <-tick.C:
		}
	}
}

func (c *cell) mustBe(what string, got, want any) {
	c.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		c.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// write makes a file in a folder of the cell.
func (c *cell) write(path, content string) {
	c.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

// A process is a running speaker, with all that it has started.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string        // path
	done   chan struct{} // closed when it has ended
	killed bool
}

// run starts a program that stays in the foreground.
func (c *cell) run(dir string, env []string, path string, args ...string) *process {
	c.Helper()
	p := &process{name: filepath.Base(path), cmd: exec.Command(path, args...), log: filepath.Join(dir, fmt.Sprintf("log.%d", len(c.processes))), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.processes = append(c.processes, p)
	go func() {
		_ = p.cmd.Wait() // the ProcessState says it
		close(p.done)
	}()
	c.Cleanup(func() {
		p.kill()
		if c.Failed() {
			c.Logf("%s:\n%s", p.name, p.output())
		}
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process and all that it has started.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// kill ends it at once, without a word to its peers.
func (p *process) kill() {
	p.killed = true
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop asks it to end and waits for that.
func (c *cell) stop(p *process) {
	c.Helper()
	p.killed = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	c.await(p.name+" to end", p.ended)
}

func (p *process) output() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// command runs a program to its end and gives what it says; it is tried again until it succeeds,
// as a speaker that has just started may not answer yet.
func (c *cell) command(path string, args ...string) string {
	c.Helper()
	var out []byte
	c.await(fmt.Sprintf("%s %s", path, strings.Join(args, " ")), func() bool {
		var err error
		if out, err = exec.Command(path, args...).CombinedOutput(); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
		return err == nil
	})
	return string(out)
}

// logged tells whether what a speaker has said contains a text.
func (p *process) logged(text string) bool { return strings.Contains(p.output(), text) }

// engine builds the tables of all cells.
var engine = sync.OnceValue(func() lpm.Engine {
	e, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		panic(err)
	}
	return e
})

// A service is the side under test: a server with one peer, and the table that it feeds.
type service struct {
	*bgp.Server
	*cell
	config bgp.Config
	table  *rib.Table
	log    *ribtest.Log
}

// serve runs a service for the peering. It waits for the speaker where that does not wait itself.
func (c *cell) serve(p *peering, change func(*bgp.Config, *bgp.PeerConfig)) *service {
	c.Helper()
	s := &service{cell: c, log: new(ribtest.Log)}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tables := rib.NewTables(rib.TablesOptions{Engine: engine(), RIB: rib.Options{LocalAS: p.ownAS, Log: log}})
	tables.Start()
	s.table, _ = tables.Open(rib.DefaultTable)
	s.config = bgp.Config{
		ASN: p.ownAS, RouterID: netip.MustParseAddr("192.0.2.1"), Listen: []string{netip.AddrPortFrom(c.own(p.over6), bgp.DefaultPort).String()},
		ConnectRetry: time.Second, ErrorDelay: 100 * time.Millisecond, Log: log,
	}
	peer := bgp.PeerConfig{Name: "peer", Addr: c.peer(p.over6), AS: p.as, LocalAddr: c.own(p.over6), Import: "accept", Passive: p.connects == theirs, Active: p.connects == ours}
	if change != nil {
		change(&s.config, &peer)
	}
	s.config.Peers = []bgp.PeerConfig{peer}
	var err error
	if s.Server, err = bgp.New(s.config, func(name string) (*rib.RIB, error) {
		t, err := tables.Open(name)
		if err != nil {
			return nil, err
		}
		return t.RIB, nil
	}, nil); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		s.Stop()
		tables.Close()
		if c.Failed() {
			c.Logf("ribwarp:\n%s", s.log)
		}
	})
	if err := s.Start(); err != nil {
		c.Fatal(err)
	}
	return s
}

// reload changes the peer's configuration.
func (s *service) reload(change func(*bgp.PeerConfig)) {
	s.Helper()
	s.config.Peers = slices.Clone(s.config.Peers)
	change(&s.config.Peers[0])
	if _, err := s.Reload(s.config, nil); err != nil {
		s.Fatal(err)
	}
}

// stats are those of the peer.
func (s *service) stats() bgp.PeerStats {
	if all := s.Stats().Peers; len(all) > 0 {
		return all[0]
	}
	return bgp.PeerStats{}
}

// status is the peer's in the RIB.
func (s *service) status() rib.PeerStatus {
	if all := s.table.RIB.Peers(); len(all) > 0 {
		return all[0]
	}
	return rib.PeerStatus{}
}

// routes is what the peer has announced: the attributes of every path to a prefix.
func (s *service) routes() map[netip.Prefix][]rib.Attrs {
	all := make(map[netip.Prefix][]rib.Attrs)
	if p, ok := s.table.Peer(s.status().Name); ok {
		for n, path := range p.Routes() {
			all[n.Prefix] = append(all[n.Prefix], path.Value())
		}
	}
	return all
}

// has tells whether the peer's routes are these and no others, as to their prefixes.
func (s *service) has(want []route) bool {
	got := s.routes()
	for _, r := range want {
		if len(got[r.prefix]) == 0 {
			return false
		}
		if got[r.prefix] = got[r.prefix][1:]; len(got[r.prefix]) == 0 {
			delete(got, r.prefix)
		}
	}
	return len(got) == 0
}

// awaitRoutes waits until the peer's routes are these and no others.
func (s *service) awaitRoutes(want []route) {
	s.Helper()
	s.await(fmt.Sprintf("%d routes", len(want)), func() bool { return s.has(want) })
}

// awaitLoaded waits for them and for the End-of-RIB of every family.
func (s *service) awaitLoaded(want []route) {
	s.Helper()
	s.awaitRoutes(want)
	s.await("End-of-RIB", func() bool { return s.status().Loaded })
}

// awaitDown waits until there is no session and no route.
func (s *service) awaitDown() {
	s.Helper()
	s.await("the end of the session", func() bool { return !s.stats().Established && s.status().State == "down" })
	s.awaitRoutes(nil)
}

// lookup gives the route that a published table has for an address.
func (s *service) lookup(a netip.Addr) (r rib.Route) {
	g := s.table.Publisher.Generations().Acquire()
	if g == nil {
		return r
	}
	defer g.Release()
	var found [1]lpm.Handle
	var err error
	if a.Is4() {
		err = g.Table.Lookup4(found[:], []uint32{lpm.Addr4(a)})
	} else {
		err = g.Table.Lookup6(found[:], []lpm.Addr6{lpm.Addr16(a)})
	}
	if err != nil {
		s.Error(err)
	}
	return g.Route(found[0])
}

// watch looks the routes up again and again, until the function that it gives is called: that
// reports how many lookups there were. Every one of them has to find its route.
func (s *service) watch(routes []route) (end func() (lookups int)) {
	s.Helper()
	for _, r := range routes {
		s.await("lookup of "+r.prefix.String(), func() bool { return s.lookup(r.prefix.Addr()).Prefix == r.prefix })
	}
	ctx, cancel := context.WithCancel(context.Background())
	n, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, r := range routes {
				if got := s.lookup(r.prefix.Addr()); got.Prefix != r.prefix {
					s.Errorf("lookup %d, of %s, found %v", n, r.prefix, got.Prefix)
					cancel()
				}
				n++
			}
			time.Sleep(50 * time.Microsecond) // the other cells' turn
		}
	}()
	end = func() int {
		cancel()
		<-done
		return n
	}
	s.Cleanup(func() { end() })
	return end
}
