package faults

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

const (
	ownAS  = 64999
	peerAS = 64500
)

// networks are the loopback networks that tests have taken.
var networks atomic.Int64

// A network is a /16 of loopback addresses for one test.
type network byte

func newNetwork() network { return network(networks.Add(1) + 80) }

// own is where the service listens.
func (n network) own() netip.Addr { return n.host(0, 1) }

func (n network) host(c, d byte) netip.Addr { return netip.AddrFrom4([4]byte{127, byte(n), c, d}) }

// options are what a test wants of a service; the zero value is a common one.
type options struct {
	at       netip.Addr // where it listens
	config   func(*bgp.Config)
	rib      rib.Options
	engine   func(lpm.Engine) lpm.Engine
	policies bgp.PolicyFunc
}

// A service is everything between a socket and a lookup, in this process.
type service struct {
	*bgp.Server
	rib       *rib.RIB
	publisher *rib.Publisher
	log       *ribtest.Log
	at        netip.AddrPort
}

// start runs a service until the end of the test.
func start(t *testing.T, o options, peers ...bgp.PeerConfig) *service {
	t.Helper()
	s := &service{log: new(ribtest.Log)}
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.engine != nil {
		engine = o.engine(engine)
	}
	o.rib.LocalAS, o.rib.Log = ownAS, log
	s.rib = rib.New(o.rib)
	s.publisher = rib.NewPublisher(s.rib, engine, rib.PublisherOptions{Log: log})
	for i := range peers {
		p := &peers[i]
		p.AS, p.Optional = peerAS, true
		p.Passive = p.Port == 0
		if p.Import == "" {
			p.Import = "accept"
		}
	}
	c := bgp.Config{ASN: ownAS, RouterID: netip.MustParseAddr("192.0.2.99"), Listen: []string{netip.AddrPortFrom(o.at, 0).String()}, Peers: peers, Log: log}
	if o.config != nil {
		o.config(&c)
	}
	if s.Server, err = bgp.New(c, func(string) (*rib.RIB, error) { return s.rib, nil }, o.policies); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.publisher.Run(ctx); err != nil {
			t.Errorf("publisher: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Stop()
		s.rib.Close()
		cancel()
		running.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.at = s.Addrs()[0]
	return s
}

// route gives what lookups have for a prefix.
func (s *service) route(p netip.Prefix) (route rib.Route, ok bool) {
	g := s.publisher.Generations().Acquire()
	if g == nil {
		return rib.Route{}, false
	}
	defer g.Release()
	h := g.Table.Find(p)
	if h == lpm.None {
		return rib.Route{}, false
	}
	return g.Route(h), true
}

func (s *service) has(p netip.Prefix) bool {
	_, ok := s.route(p)
	return ok
}

// peer gives the counters of the peer of that name, the zero ones where there is none.
func (s *service) peer(name string) bgp.PeerStats {
	for _, p := range s.Stats().Peers {
		if p.Name == name {
			return p
		}
	}
	return bgp.PeerStats{}
}

// betweenChecks leaves most of a processor to what is tested.
const betweenChecks = 20 * time.Millisecond

// A witness is a peer to which nothing is to happen: its session stays up, and what it announces
// becomes visible, whatever others do meanwhile.
type witness struct {
	*speaker
	service *service
	name    string
	n       int
}

// witness brings the session of a configured peer up.
func (s *service) witness(t *testing.T, name string, from netip.Addr) *witness {
	t.Helper()
	w := &witness{speaker: dial(t, s, from), service: s, name: name}
	w.establish(t, minimalHold)
	w.mustBeWell(t)
	return w
}

func witnessed(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, byte(64 + n>>8&63), byte(n), 0}), 24)
}

// check announces a prefix, withdraws the one before, and waits until lookups know.
func (w *witness) check() error {
	w.n++
	if err := w.update(updateOf(witnessed(w.n-1), witnessed(w.n))); err != nil {
		return fmt.Errorf("witness %s: %w", w.name, err)
	}
	return w.visible()
}

// visible waits until lookups know what was announced last.
func (w *witness) visible() error {
	err := waitFor("the route of witness "+w.name, func() bool {
		return w.service.has(witnessed(w.n)) && !w.service.has(witnessed(w.n-1))
	})
	if err != nil {
		return err
	}
	if p := w.service.peer(w.name); p.Ups != 1 || p.Downs != 0 || !p.Established {
		return fmt.Errorf("witness %s: %d sessions, %d of them lost, now %s: %s", w.name, p.Ups, p.Downs, p.State, p.LastError)
	}
	return nil
}

func (w *witness) mustBeWell(t *testing.T) {
	t.Helper()
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
}

// during checks the witness again and again until f is done.
func (w *witness) during(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	var err error
	var checking sync.WaitGroup
	before := w.n
	checking.Go(func() {
		for err == nil {
			err = w.check()
			select {
			case <-done:
				return
			case <-time.After(betweenChecks):
			}
		}
	})
	func() {
		defer checking.Wait() // f may end the test
		defer close(done)
		f()
	}()
	if err != nil {
		t.Fatal(err)
	}
	w.mustBeWell(t)
	t.Logf("%d updates of %s came through meanwhile", w.n-before, w.name)
}

// A socket is a line of /proc/net/tcp.
type socket struct {
	state  int64
	unsent int64 // bytes that are sent and not acknowledged, or wait
	held   bool  // a process has a descriptor of it
}

const tcpEstablished = 1

// sockets gives the connections that were made to an address.
func sockets(t *testing.T, at netip.AddrPort) (all []socket) {
	t.Helper()
	f, err := os.Open("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := at.Addr().As4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", a[3], a[2], a[1], a[0], at.Port())
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		const listening = 10
		if len(field) < 10 || field[1] != local {
			continue
		}
		number := func(text string) int64 {
			n, err := strconv.ParseInt(text, 16, 64)
			if err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			return n
		}
		queue, _, _ := strings.Cut(field[4], ":")
		s := socket{state: number(field[3]), unsent: number(queue), held: field[9] != "0"}
		if s.state != listening {
			all = append(all, s)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// accepted counts connections for which the service has a descriptor, and those that wait for it
// to be accepted.
func accepted(t *testing.T, at netip.AddrPort) (held, waiting int) {
	t.Helper()
	for _, s := range sockets(t, at) {
		switch {
		case s.held:
			held++
		case s.state == tcpEstablished:
			waiting++
		}
	}
	return held, waiting
}

// heap gives the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
