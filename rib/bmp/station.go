package bmp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

const (
	// acceptPause is the wait after a connection that could not be accepted.
	acceptPause = 100 * time.Millisecond
	// maxHalfOpenAddr is how many connections from one address may be without an Initiation.
	maxHalfOpenAddr = 2
)

var (
	errStopped    = errors.New("stopped")
	errReplaced   = errors.New("the router has made a new connection")
	errTerminated = errors.New("the router has ended the session")
)

// A Station takes what routers mirror and puts it into RIBs. New makes one, Start sets it going,
// Stop ends it for good. Safe for concurrent use.
type Station struct {
	log     *slog.Logger
	tables  TableFunc
	refused atomic.Uint64
	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // listeners and connections

	// changing is held by Start, Reload and Stop.
	changing sync.Mutex

	mu        sync.Mutex // below: held for a moment
	cfg       *Config    // replaced, never written
	policies  PolicyFunc
	started   bool
	listeners map[string]net.Listener // by what Config.Listen has
	routers   map[string]*router      // by name
	halfOpen  int
	halfAddr  map[netip.Addr]int // half-open connections by where they come from
}

// New makes a station and adds every router that is no prefix to its table, as a peer without
// routes of its own. policies may be nil where no router has an import policy. The error is one of
// the configuration, or of a name that a RIB has already.
func New(cfg Config, tables TableFunc, policies PolicyFunc) (*Station, error) {
	cfg, err := cfg.withDefaults()
	if err == nil {
		err = tryPolicies(cfg, policies)
	}
	if err != nil {
		return nil, fmt.Errorf("bmp: %w", err)
	}
	s := &Station{
		log: cfg.Log, tables: tables, cfg: &cfg, policies: policies,
		listeners: make(map[string]net.Listener), routers: make(map[string]*router), halfAddr: make(map[netip.Addr]int),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, c := range cfg.Routers {
		if err := s.add(c); err != nil {
			s.Stop()
			return nil, fmt.Errorf("bmp: %w", err)
		}
	}
	return s, nil
}

// tryPolicies finds names of policies that there are not.
func tryPolicies(cfg Config, policies PolicyFunc) error {
	for _, c := range cfg.Routers {
		if c.Import == "" {
			continue
		}
		if policies == nil {
			return fmt.Errorf("router %q: there is no import policy %q", c.Name, c.Import)
		}
		if _, err := policies(c.Import, Peer{Router: c.Name}); err != nil {
			return fmt.Errorf("router %q: import policy %q: %w", c.Name, c.Import, err)
		}
	}
	return nil
}

func (s *Station) config() *Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// policy gives an import policy; nil, which accepts all, for no name.
func (s *Station) policy(name string, p Peer) (rib.Import, error) {
	if name == "" {
		return nil, nil
	}
	s.mu.Lock()
	policies := s.policies
	s.mu.Unlock()
	return policies(name, p)
}

// add adds a configured router, and connects to it where that is to be.
func (s *Station) add(c RouterConfig) error {
	if !c.Addr.IsValid() {
		return nil // they are added when they come
	}
	r := newRouter(s, c, c.Name, c.Addr, false)
	if err := r.announceSelf(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routers[r.name] = r
	if s.started {
		r.start()
	}
	return nil
}

// start connects to a router that waits for us.
func (r *router) start() {
	if r.cfg.Load().Port != 0 {
		r.tasks.Go(r.dial)
	}
}

// Start listens and begins to connect. The error is that of an address that cannot be listened
// at; nothing runs then.
func (s *Station) Start() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if started || s.ctx.Err() != nil {
		return errors.New("bmp: a station starts once")
	}
	opened, err := s.listen(s.config())
	if err != nil {
		return fmt.Errorf("bmp: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	s.serveListeners(opened)
	for _, r := range s.routers {
		r.start()
	}
	return nil
}

// listen opens the addresses of a configuration that are not open yet: all of them or none.
func (s *Station) listen(c *Config) (map[string]net.Listener, error) {
	opened := make(map[string]net.Listener)
	var lc net.ListenConfig
	for _, addr := range c.Listen {
		s.mu.Lock()
		_, open := s.listeners[addr]
		s.mu.Unlock()
		if open || opened[addr] != nil {
			continue
		}
		l, err := lc.Listen(s.ctx, "tcp", addr)
		if err != nil {
			for _, l := range opened {
				_ = l.Close()
			}
			return nil, fmt.Errorf("listen at %s: %w%s", addr, err, advice(err))
		}
		opened[addr] = l
	}
	return opened, nil
}

// serveListeners is called under the lock.
func (s *Station) serveListeners(opened map[string]net.Listener) {
	for addr, l := range opened {
		s.listeners[addr] = l
		s.log.Info("bmp listening", "listen", l.Addr().String())
		s.tasks.Go(func() { s.accept(l) })
	}
}

// advice says what to do about an address that cannot be listened at.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": another program listens there; stop it or choose another port"
	case errors.Is(err, syscall.EACCES):
		return ": ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose another port or grant it"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": the address is not one of this host"
	}
	return ""
}

// keepAlive has TCP find out that a router is gone: nothing is ever sent to it.
func (c *Config) keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: c.KeepAlive, Interval: max(c.KeepAlive/3, time.Second), Count: 3}
}

// Stop ends all connections and withdraws their routes. It returns when that is done. More than
// once does nothing.
func (s *Station) Stop() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.cancel()
	s.mu.Lock()
	for addr, l := range s.listeners {
		_ = l.Close()
		delete(s.listeners, addr)
	}
	routers := slices.Collect(maps.Values(s.routers))
	s.mu.Unlock()
	for _, r := range routers {
		r.remove()
	}
	s.tasks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.routers)
}

// Changes are what Reload did, by names of Config.Routers, sorted.
type Changes struct{ Added, Removed, Restarted, Kept []string }

// Reload replaces the configuration. Routers that are as before keep their connections, also
// where only limits, policy, StaleTime or Optional differ; limits hold for what comes from then
// on. policies replaces that of New. The error is one of the configuration or of an address that
// cannot be listened at, and nothing has changed then; or of a router that could not be added.
func (s *Station) Reload(cfg Config, policies PolicyFunc) (Changes, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	var done Changes
	cfg, err := cfg.withDefaults()
	if err == nil {
		err = tryPolicies(cfg, policies)
	}
	if err == nil && s.ctx.Err() != nil {
		err = errStopped
	}
	opened := map[string]net.Listener{}
	s.mu.Lock()
	old, started := s.cfg, s.started
	s.mu.Unlock()
	if err == nil && started {
		opened, err = s.listen(&cfg)
	}
	if err != nil {
		return done, fmt.Errorf("bmp: %w", err)
	}

	s.mu.Lock()
	s.cfg, s.policies = &cfg, policies
	s.serveListeners(opened)
	for addr, l := range s.listeners {
		if !slices.Contains(cfg.Listen, addr) {
			_ = l.Close()
			delete(s.listeners, addr)
		}
	}
	s.mu.Unlock()

	next := make(map[string]RouterConfig)
	for _, c := range cfg.Routers {
		next[c.Name] = c
	}
	before := make(map[string]bool)
	for _, c := range old.Routers {
		before[c.Name] = true
		n, stays := next[c.Name]
		switch {
		case stays && !c.restarts(n) && (n.Prefix.IsValid() || len(s.of(c.Name)) > 0):
			done.Kept = append(done.Kept, c.Name)
			s.keep(n)
			delete(next, c.Name)
			continue
		case stays:
			done.Restarted = append(done.Restarted, c.Name)
		default:
			done.Removed = append(done.Removed, c.Name)
		}
		s.drop(c.Name)
	}
	var errs []error
	for _, c := range next {
		if !before[c.Name] {
			done.Added = append(done.Added, c.Name)
		}
		if err := s.add(c); err != nil {
			errs = append(errs, fmt.Errorf("bmp: %w", err))
		}
	}
	for _, list := range [][]string{done.Added, done.Removed, done.Restarted, done.Kept} {
		slices.Sort(list)
	}
	return done, errors.Join(errs...)
}

// of gives the routers that a configured name stands for.
func (s *Station) of(name string) (all []*router) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.routers {
		if r.cfg.Load().Name == name {
			all = append(all, r)
		}
	}
	return all
}

// keep gives the routers of a name a configuration that needs no new connection.
func (s *Station) keep(c RouterConfig) {
	for _, r := range s.of(c.Name) {
		r.cfg.Store(&c)
		if r.self != nil {
			r.self.SetAwaited(!c.Optional)
		}
		r.reconsider()
	}
}

// drop ends the routers of a name.
func (s *Station) drop(name string) {
	for _, r := range s.of(name) {
		r.remove()
		s.mu.Lock()
		delete(s.routers, r.name)
		s.mu.Unlock()
	}
}

// forget drops a router of a prefix that is gone with all its routes.
func (s *Station) forget(r *router) {
	if !r.dynamic {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routers[r.name] == r && r.idle() {
		r.cancel()
		delete(s.routers, r.name)
	}
}

// Adopt adds a peer of a saved generation (rib.Peer.Restore) to a table, where c.Name is one of a
// router that keeps stale routes, has it in that table and view, and has not as many peers and tables
// as it may. They are kept until the router sends End-of-RIB, or is not there for
// RouterConfig.StaleTime. To be called before Start.
func (s *Station) Adopt(table string, c rib.PeerConfig) (*rib.Peer, error) {
	cfg := s.config()
	for _, rc := range cfg.Routers {
		name, rest, ok := strings.Cut(c.Name, "/")
		if !ok || name != rc.Name {
			continue
		}
		addr := rc.Addr
		if rc.Prefix.IsValid() {
			text, _, _ := strings.Cut(rest, "/")
			var err error
			if addr, err = netip.ParseAddr(text); err != nil {
				continue
			}
		}
		if rc.StaleTime == 0 {
			return nil, fmt.Errorf("bmp: router %q keeps no stale routes", rc.Name)
		}
		r, err := s.router(addr)
		if err != nil {
			return nil, fmt.Errorf("bmp: %w", err)
		}
		p, err := r.adopt(table, c)
		if err != nil {
			s.forget(r)
		}
		return p, err
	}
	return nil, fmt.Errorf("bmp: peer %q is none of a configured router", c.Name)
}

// Addrs are the addresses listened at, with the ports that were chosen for those given as 0.
func (s *Station) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []netip.AddrPort
	for _, l := range s.listeners {
		all = append(all, l.Addr().(*net.TCPAddr).AddrPort())
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// accept takes connections until the listener is closed.
func (s *Station) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return
		}
		if err != nil { // such as too many open files: it passes
			s.log.Error("bmp connection not accepted", "listen", l.Addr().String(), "error", err)
			select {
			case <-s.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		_ = c.(*net.TCPConn).SetKeepAliveConfig(s.config().keepAlive()) // that of the listener may be from before a reload
		addr := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
		s.tasks.Go(func() {
			defer c.Close()
			if reason := s.admit(addr); reason != "" {
				s.refuse(addr, reason)
				return
			}
			opened := sync.OnceFunc(func() { s.opened(addr) })
			defer opened()
			err := s.serve(s.ctx, c, func() (*router, error) {
				opened()
				return s.router(addr)
			})
			var half *halfOpenError
			if errors.As(err, &half) {
				s.refuse(addr, err.Error())
			}
		})
	}
}

// refuse counts a connection that was turned away.
func (s *Station) refuse(addr netip.Addr, reason string) {
	// One in a while is enough for the log: port scans come by the thousand.
	if n := s.refused.Add(1); n&(n-1) == 0 {
		s.log.Warn("bmp connection refused", "from", addr, "reason", reason, "refused", n)
	}
}

// admit counts a connection as half-open, or says why it may not be.
func (s *Station) admit(addr netip.Addr) (reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.cfg.router(addr); {
	case c == nil:
		return "no router has this address"
	case c.Port != 0:
		return "this router is one that we connect to"
	case s.halfOpen >= s.cfg.MaxHalfOpen || s.halfAddr[addr] >= maxHalfOpenAddr:
		return "too many connections without an Initiation message"
	}
	s.halfOpen++
	s.halfAddr[addr]++
	return ""
}

// opened tells that a connection is no longer half-open.
func (s *Station) opened(addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halfOpen--
	if s.halfAddr[addr]--; s.halfAddr[addr] == 0 {
		delete(s.halfAddr, addr)
	}
}

// router finds the configuration of the router at an address: that with the longest prefix.
func (c *Config) router(addr netip.Addr) *RouterConfig {
	var best *RouterConfig
	for i := range c.Routers {
		r := &c.Routers[i]
		if r.source().Contains(addr) && (best == nil || r.source().Bits() > best.source().Bits()) {
			best = r
		}
	}
	return best
}

// router gives the router at an address. One of a prefix is made where it is not there.
func (s *Station) router(addr netip.Addr) (*router, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cfg.router(addr)
	if c == nil {
		return nil, errors.New("no router has this address")
	}
	name := c.Name
	if c.Prefix.IsValid() {
		name += "/" + addr.String()
	}
	if r := s.routers[name]; r != nil {
		return r, nil
	}
	if !c.Prefix.IsValid() { // its name is taken, or Stop came first
		return nil, fmt.Errorf("router %q is not there", name)
	}
	siblings := 0
	for _, r := range s.routers {
		if r.cfg.Load().Name == c.Name {
			siblings++
		}
	}
	switch {
	case siblings >= c.Limit:
		return nil, fmt.Errorf("router %q: there are %d routers of %s already", name, siblings, c.Prefix)
	case len(s.routers) >= s.cfg.MaxRouters:
		return nil, fmt.Errorf("router %q: there are %d routers already", name, len(s.routers))
	}
	r := newRouter(s, *c, name, addr, true)
	s.routers[name] = r
	return r, nil
}

// A halfOpenError is why a connection came to no session.
type halfOpenError struct{ err error }

func (e *halfOpenError) Error() string { return e.err.Error() }
func (e *halfOpenError) Unwrap() error { return e.err }

// serve reads a connection until it is over; who closes it is the caller. which gives its router
// once it has sent its Initiation message. The error, never nil, says why it is over.
func (s *Station) serve(ctx context.Context, c net.Conn, which func() (*router, error)) (err error) {
	defer func() { // a mistake of our own must not end the process, nor other routers' sessions
		if p := recover(); p != nil {
			s.log.Error("bmp session panicked", "from", c.RemoteAddr().String(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("session panicked: %v", p)
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	cfg := s.config()
	in := newReader(c, cfg.ReadTimeout)
	kind, body, err := in.next(time.Now().Add(cfg.OpenTimeout))
	switch {
	case err != nil:
		return &halfOpenError{fmt.Errorf("no Initiation message: %w", err)}
	case kind != Initiation:
		return &halfOpenError{fmt.Errorf("%v instead of an Initiation message", kind)}
	}
	r, err := which()
	if err != nil {
		return &halfOpenError{err}
	}
	return newSession(r, in).run(body)
}

// jitter varies a wait by a quarter, so that what ended together does not start together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)/2*float64(d))
}
