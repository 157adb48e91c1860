package bgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// Errors of Refresh and Reset.
var (
	ErrNoPeer    = errors.New("no such peer")
	ErrNoSession = errors.New("no session is established")
	ErrNoRefresh = errors.New("the peer has not announced route refresh")
)

// A Server keeps sessions with its peers and puts what they say into RIBs. New makes one, Start
// sets it going, Reload changes what it is to do, Stop ends it for good. Safe for concurrent use.
type Server struct {
	log                                    *slog.Logger
	tables                                 TableFunc
	cfg                                    atomic.Pointer[Config]
	done                                   chan struct{} // closed by Stop
	halfOpen                               halfOpen
	refused, refusedHalfOpen, refusedLimit atomic.Uint64
	running                                sync.WaitGroup // listeners

	changing sync.Mutex // one Start, Stop or Reload at a time
	started  bool
	stopped  bool

	mu         sync.RWMutex // below; written under changing, too
	listeners  []*listener
	neighbours []*neighbour // in the order of the configuration
	byAddr     map[netip.Addr]*neighbour
	byPrefix   []*neighbour // the longest first
}

// New makes a server and adds its peers to their tables, where they are awaited unless optional.
// The error is one of the configuration, of a table or policy, or of a name that a table has
// already. policies may be nil, which leaves "accept".
func New(cfg Config, tables TableFunc, policies PolicyFunc) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	s := &Server{log: cfg.Log, tables: tables, done: make(chan struct{})}
	s.cfg.Store(&cfg)
	plans, err := s.plan(&cfg, policies)
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	var all []*neighbour
	for _, p := range plans {
		n, err := s.newNeighbour(p.cfg, p.imports, p.rib)
		if err != nil {
			for _, n := range all {
				n.stop(cease(ceaseDeconfigured, ""))
			}
			return nil, fmt.Errorf("bgp: %w", err)
		}
		all = append(all, n)
	}
	s.arrange(all)
	return s, nil
}

func (s *Server) config() *Config { return s.cfg.Load() }

// A plan is what a neighbour is to be made of.
type plan struct {
	cfg     PeerConfig
	rib     *rib.RIB
	imports rib.Import
}

// plan finds the tables and policies of all peers.
func (s *Server) plan(cfg *Config, policies PolicyFunc) ([]plan, error) {
	var plans []plan
	for _, c := range cfg.Peers {
		r, err := s.tables(c.Table)
		if err != nil {
			return nil, fmt.Errorf("peer %q: table %q: %w", c.Name, c.Table, err)
		}
		imports, err := cfg.imports(c, policies)
		if err != nil {
			return nil, err
		}
		if c.Import == "" && c.AS != cfg.ASN {
			s.log.Warn("bgp peer has no import policy: its routes are kept and not chosen (RFC 8212); give import=accept, or a policy's name", "peer", c.Name)
		}
		plans = append(plans, plan{c, r, imports})
	}
	return plans, nil
}

// arrange takes over which neighbours there are.
func (s *Server) arrange(all []*neighbour) {
	byAddr := make(map[netip.Addr]*neighbour)
	var byPrefix []*neighbour
	for _, n := range all {
		if n.dynamic {
			byPrefix = append(byPrefix, n)
		} else {
			byAddr[n.config().Addr] = n
		}
	}
	slices.SortStableFunc(byPrefix, func(a, b *neighbour) int { return b.config().Prefix.Bits() - a.config().Prefix.Bits() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.neighbours, s.byAddr, s.byPrefix = all, byAddr, byPrefix
}

// neighbourAt gives the neighbour whose connections come from an address, nil for none.
func (s *Server) neighbourAt(a netip.Addr) *neighbour {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.byAddr[a]; n != nil {
		return n
	}
	for _, n := range s.byPrefix {
		if n.config().Prefix.Contains(a.WithZone("")) {
			return n
		}
	}
	return nil
}

// Start listens and begins to connect. The error is that of an address that cannot be listened
// at, or of protection that the system lacks; nothing runs then.
func (s *Server) Start() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.started || s.stopped {
		return errors.New("bgp: a server starts once")
	}
	cfg := s.config()
	opened, err := s.open(cfg.Listen, nil, cfg.Peers, nil)
	if err != nil {
		return fmt.Errorf("bgp: %w", err)
	}
	s.started = true
	s.mu.Lock()
	s.listeners = opened
	s.mu.Unlock()
	s.acceptAt(opened)
	for _, n := range s.neighbours {
		n.start()
	}
	return nil
}

// open gives listeners at all addresses, those that are there among them, with the passwords of
// peers in place of the former ones. After an error no new one is left.
func (s *Server) open(addrs []string, there []*listener, peers, former []PeerConfig) (all []*listener, err error) {
	var opened []*listener
	defer func() {
		if err != nil {
			for _, l := range opened {
				_ = l.Close()
			}
		}
	}()
	for _, addr := range addrs {
		i := slices.IndexFunc(there, func(l *listener) bool { return l.given == addr })
		if i < 0 {
			l, err := listen(addr)
			if err != nil {
				return nil, err
			}
			opened = append(opened, l)
			all = append(all, l)
		} else {
			all = append(all, there[i])
		}
		if err := all[len(all)-1].protect(peers, former); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// acceptAt takes connections at listeners.
func (s *Server) acceptAt(listeners []*listener) {
	for _, l := range listeners {
		s.log.Info("bgp listening", "listen", l.Addr().String())
		s.running.Go(func() { s.accept(l) })
	}
}

// Stop ends all sessions with a Cease and takes the peers with their routes out of their tables. It
// returns when that is done. More than once does nothing.
func (s *Server) Stop() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	close(s.done)
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.running.Wait()
	together(s.neighbours, func(n *neighbour) { n.stop(cease(ceaseShutdown, "the service stops")) })
}

// together does something to all neighbours at once, as each waits for its peer.
func together(all []*neighbour, f func(*neighbour)) {
	var wait sync.WaitGroup
	for _, n := range all {
		wait.Go(func() { f(n) })
	}
	wait.Wait()
}

// Addrs are the addresses listened at, with the ports that were chosen for those given as 0.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []netip.AddrPort
	for _, l := range s.listeners {
		all = append(all, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return all
}

// find gives the peer of that name: that of the configuration, or NAME/ADDR of a prefix.
func (s *Server) find(name string) (*peer, error) {
	s.mu.RLock()
	all := s.neighbours
	s.mu.RUnlock()
	for _, n := range all {
		for _, p := range n.all() {
			if p.name == name {
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("bgp peer %q: %w", name, ErrNoPeer)
}

// Refresh asks a peer to announce all its routes once more (RFC 2918). With enhanced refresh
// (RFC 7313) what it does not announce again is withdrawn. The error is ErrNoPeer, ErrNoSession,
// ErrNoRefresh, or that of the connection.
func (s *Server) Refresh(peer string) error {
	p, err := s.find(peer)
	if err != nil {
		return err
	}
	p.mu.Lock()
	var session *fsm.Session
	if p.up != nil {
		session = p.up.session
	}
	p.mu.Unlock()
	switch {
	case session == nil:
		return fmt.Errorf("bgp peer %q: refresh: %w", peer, ErrNoSession)
	case !session.Open().Refresh:
		return fmt.Errorf("bgp peer %q: refresh: %w", peer, ErrNoRefresh)
	}
	for f, negotiated := range [2]bool{session.Open().IPv4, session.Open().IPv6} {
		if !negotiated {
			continue
		}
		if err := session.RequestRefresh(f == 1); err != nil {
			return fmt.Errorf("bgp peer %q: refresh: %w", peer, err)
		}
	}
	p.asked.Add(1)
	return nil
}

// Reset ends a peer's session with a Cease, and has a peer that is left alone, after errors or
// too many prefixes, come back at once. The error is ErrNoPeer.
func (s *Server) Reset(peer string) error {
	p, err := s.find(peer)
	if err != nil {
		return err
	}
	p.reset(cease(ceaseReset, "reset by the operator"))
	return nil
}

// survive keeps a mistake of ours in the goroutine that it is deferred in.
func (s *Server) survive() {
	if p := recover(); p != nil {
		logPanic(s.log, p, nil)
	}
}
