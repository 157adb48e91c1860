package bmp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// maxRoutesPause is how long a router is refused after it brought too many routes.
const maxRoutesPause = 5 * time.Minute

// A router is one that is configured, or one of a prefix that is or was there. It outlives its
// connections, of which it has one at a time: the newest, since a router that was restarted comes
// back before the old connection is known to be dead.
type router struct {
	station *Station
	name    string
	addr    netip.Addr
	dynamic bool // one of a prefix: forgotten when it is gone and has no routes
	log     *slog.Logger
	ctx     context.Context // ends with the router
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // dialing
	cfg     atomic.Pointer[RouterConfig]
	counters

	// self stands for the router among the peers of its table, without routes: its state is that
	// of the connection and readiness waits for it. nil for those of prefixes.
	self    *rib.Peer
	selfRIB *rib.RIB

	// taking is held by who takes the router over for a new connection.
	taking sync.Mutex

	state     sync.Mutex // below: held for a moment
	current   *session
	since     time.Time
	lastError string
	refuse    time.Time // until then: it brought too many routes

	// feeding guards the feeds, which are changed in the RIB while it is held. Nobody applies
	// routes under it, since that may wait.
	feeding sync.Mutex
	feeds   map[string]*feed // by name
	expiry  *time.Timer      // of stale routes; nil before the first
}

// A feed is the rib.Peer of a BGP peer and a view. It outlives the connection where its routes are
// kept as stale.
type feed struct {
	peer   *rib.Peer
	rib    *rib.RIB
	view   View
	table  string
	policy Peer

	// Below: under router.feeding; but for routes and attributes, which belong to the session.
	session    *session // whose it is; nil: stale, waiting to be taken over or to expire
	up         bool
	stale      bool  // it may have stale routes, which expiry ends
	routes     int   // of it in session.routes
	attributes int64 // of it in session.attributes
}

func newRouter(s *Station, c RouterConfig, name string, addr netip.Addr, dynamic bool) *router {
	r := &router{
		station: s, name: name, addr: addr, dynamic: dynamic, log: s.log.With("router", name, "addr", addr),
		since: time.Now(), feeds: make(map[string]*feed),
	}
	r.cfg.Store(&c)
	r.ctx, r.cancel = context.WithCancel(s.ctx)
	return r
}

// announceSelf adds the router to its table.
func (r *router) announceSelf() error {
	c := r.cfg.Load()
	table, _ := c.table(r.name, 0)
	home, self, err := r.addPeer(table, rib.PeerConfig{Name: r.name, Kind: rib.KindBMP, Addr: r.addr, Awaited: !c.Optional})
	if err != nil {
		return fmt.Errorf("router %q: table %q: %w", r.name, table, err)
	}
	r.selfRIB, r.self = home, self
	return nil
}

// addPeer adds a peer to a table. One without peers may be dropped in this moment, and is opened
// again then.
func (r *router) addPeer(table string, c rib.PeerConfig) (home *rib.RIB, p *rib.Peer, err error) {
	for range 3 {
		if home, err = r.station.tables(table); err != nil {
			return nil, nil, err
		}
		if p, err = home.AddPeer(c); !errors.Is(err, rib.ErrTableGone) {
			break
		}
	}
	return home, p, err
}

// take makes s the connection of the router; the one that it had is over then. The error says
// why the router is refused.
func (r *router) take(s *session) error {
	r.taking.Lock()
	defer r.taking.Unlock()
	r.state.Lock()
	old, refuse := r.current, r.refuse
	r.state.Unlock()
	if wait := time.Until(refuse); wait > 0 {
		return fmt.Errorf("refused for another %v: it brought too many routes", wait.Round(time.Second))
	}
	if old != nil {
		old.end(errReplaced)
	}
	if r.ctx.Err() != nil {
		return errStopped
	}
	r.state.Lock()
	r.current, r.since = s, time.Now()
	r.state.Unlock()
	r.ups.Add(1)
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.expiry != nil && r.expiry.Stop() {
		r.expiry.Reset(r.cfg.Load().StaleTime)
	}
	if r.self != nil {
		r.self.Up(rib.Session{IPv4: true, IPv6: true})
	}
	return nil
}

// leave ends the connection s: its routes are kept as stale or withdrawn.
func (r *router) leave(s *session, cause error) {
	stale := r.cfg.Load().StaleTime
	var excess *tooMuch
	if errors.As(cause, &excess) || r.ctx.Err() != nil {
		stale = 0
	}
	r.feeding.Lock()
	kept := false
	for name, f := range r.feeds {
		if f.session != s {
			continue
		}
		if f.up && stale > 0 {
			f.peer.Retain("router gone: " + cause.Error())
			f.session, f.up, f.stale = nil, false, true
			kept = true
			continue
		}
		f.rib.RemovePeer(f.peer)
		delete(r.feeds, name)
	}
	if kept {
		r.expireIn(stale)
	}
	if r.self != nil {
		r.self.Down(cause.Error())
	}
	r.feeding.Unlock()

	r.state.Lock()
	r.current, r.since, r.lastError = nil, time.Now(), cause.Error()
	if excess != nil {
		r.refuse = time.Now().Add(maxRoutesPause)
	}
	r.state.Unlock()
	r.downs.Add(1)
	r.station.forget(r)
}

// feed gives a peer of the session s a feed of a view; the error is an *ignoredError.
func (r *router) feed(s *session, p *monitored, view View) (*feed, error) {
	cfg := r.cfg.Load()
	table, ok := cfg.table(r.name, p.key.rd)
	if !ok {
		return nil, ignored(IgnoredVRF)
	}
	c := rib.PeerConfig{Name: p.feedName(view), Kind: rib.KindBMP, Addr: p.key.addr, AS: p.as, RouterID: p.routerID}
	if view == ViewLocRIB {
		c.Addr = r.addr
	}
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if f := r.feeds[c.Name]; f != nil {
		switch old := f.peer.Config(); {
		case f.session != nil: // of a VRF that looks the same
			return nil, &ignoredError{IgnoredTable, fmt.Errorf("peer %q is there already", c.Name)}
		case f.table == table && old.Addr == c.Addr && old.AS == c.AS:
			f.session = s
			return f, nil
		}
		f.rib.RemovePeer(f.peer)
		delete(r.feeds, c.Name)
	}
	if err := r.mayFeed(table); err != nil {
		return nil, &ignoredError{IgnoredTable, err}
	}
	home, peer, err := r.addPeer(table, c)
	if err != nil {
		return nil, &ignoredError{IgnoredTable, err}
	}
	f := &feed{peer: peer, rib: home, view: view, table: table, session: s}
	r.feeds[c.Name] = f
	return f, nil
}

// raise has the session of a feed established. What is stale from an earlier connection stays
// until its End-of-RIB.
func (r *router) raise(f *feed, session rib.Session, policy Peer, keep bool) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	f.policy, f.up, f.stale = policy, true, f.stale && keep
	r.setImport(f)
	session.KeepIPv4, session.KeepIPv6 = f.stale, f.stale
	f.peer.Up(session)
}

// setImport gives a feed the import policy of the configuration. Where there is none any more, it
// is better to go on with the one that it has.
func (r *router) setImport(f *feed) {
	i, err := r.station.policy(r.cfg.Load().Import, f.policy)
	if err != nil {
		r.log.Error("bmp import policy stays as it was", "peer", f.peer.Name(), "error", err)
		return
	}
	f.peer.SetImport(i)
}

// lower withdraws the routes of a feed: the session is over.
func (r *router) lower(f *feed, reason string) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	f.up, f.stale = false, false
	f.peer.Down(reason)
}

// sweepKept withdraws what is kept of an earlier connection: its peer is back and has no routes.
func (r *router) sweepKept(name string, v6 bool) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if f := r.feeds[name]; f != nil && f.session == nil {
		f.peer.Sweep(v6)
	}
}

// discard removes a feed.
func (r *router) discard(f *feed) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	f.rib.RemovePeer(f.peer)
	delete(r.feeds, f.peer.Name())
}

// unblock has whoever applies routes of s go on: the RIB may make it wait for the publisher. What
// it applied meanwhile is settled by leave.
func (r *router) unblock(s *session) {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	for _, f := range r.feeds {
		if f.session == s && f.up {
			f.peer.Retain("connection ends")
		}
	}
}

// expireIn is called under feeding.
func (r *router) expireIn(d time.Duration) {
	if r.expiry == nil {
		r.expiry = time.AfterFunc(d, r.expire)
		return
	}
	r.expiry.Reset(d)
}

// expire ends what is stale: routes of peers that have not come back, and those that peers that
// have come back did not announce again.
func (r *router) expire() {
	r.feeding.Lock()
	for name, f := range r.feeds {
		switch {
		case f.session == nil:
			r.log.Warn("bmp stale routes withdrawn", "peer", name)
			f.rib.RemovePeer(f.peer)
			delete(r.feeds, name)
		case f.stale:
			f.stale = false
			f.peer.Sweep(false)
			f.peer.Sweep(true)
		}
	}
	r.feeding.Unlock()
	r.station.forget(r)
}

// idle tells whether nothing would be lost with a router of a prefix.
func (r *router) idle() bool {
	r.feeding.Lock()
	feeds := len(r.feeds)
	r.feeding.Unlock()
	r.state.Lock()
	defer r.state.Unlock()
	return feeds == 0 && r.current == nil && time.Until(r.refuse) <= 0
}

// remove ends the router: its connection, its routes, and itself among the peers.
func (r *router) remove() {
	r.cancel()
	r.taking.Lock() // from here on nobody takes it over
	r.state.Lock()
	s := r.current
	r.state.Unlock()
	r.taking.Unlock()
	if s != nil {
		s.end(errStopped)
	}
	r.tasks.Wait()
	r.feeding.Lock()
	defer r.feeding.Unlock()
	if r.expiry != nil {
		r.expiry.Stop()
	}
	for name, f := range r.feeds {
		f.rib.RemovePeer(f.peer)
		delete(r.feeds, name)
	}
	if r.self != nil {
		r.selfRIB.RemovePeer(r.self)
	}
}

// adopt makes a feed without a session for routes of a saved generation.
func (r *router) adopt(table string, c rib.PeerConfig) (*rib.Peer, error) {
	cfg, view := r.cfg.Load(), viewOf(c.Name)
	who, ours := strings.CutPrefix(c.Name, r.name+"/")
	_, rd, vrf := strings.Cut(strings.TrimSuffix(who, "/"+string(view)), "/")
	if !vrf {
		rd = distinguisher(0).String()
	}
	home, fed := cfg.tableOf(r.name, rd)
	r.feeding.Lock()
	defer r.feeding.Unlock()
	switch {
	case cfg.StaleTime == 0:
		return nil, fmt.Errorf("router %q keeps no stale routes", r.name)
	case !ours || !fed || home != table || cfg.View != ViewFirst && cfg.View != view:
		return nil, fmt.Errorf("peer %q of table %q is none of router %q now", c.Name, table, r.name)
	case r.feeds[c.Name] != nil:
		return nil, fmt.Errorf("peer %q is there already", c.Name)
	case len(r.feeds) >= cfg.MaxPeers:
		return nil, fmt.Errorf("router %q has %d peers already", r.name, len(r.feeds))
	}
	if err := r.mayFeed(table); err != nil {
		return nil, err
	}
	to, p, err := r.addPeer(table, c)
	if err != nil {
		return nil, err
	}
	f := &feed{peer: p, rib: to, table: table, view: view, stale: true}
	f.policy = Peer{Router: r.name, Addr: c.Addr, AS: c.AS, View: f.view}
	r.setImport(f)
	r.feeds[c.Name] = f
	r.expireIn(cfg.StaleTime)
	return p, nil
}

// viewOf is the view that a feed's name ends in.
func viewOf(name string) View {
	for _, v := range []View{ViewPre, ViewPost} {
		if strings.HasSuffix(name, "/"+string(v)) {
			return v
		}
	}
	return ViewLocRIB
}

// reconsider gives every feed the import policy that the configuration has now.
func (r *router) reconsider() {
	r.feeding.Lock()
	defer r.feeding.Unlock()
	for _, f := range r.feeds {
		r.setImport(f)
	}
}

// mayFeed says why the router may not feed one more table. It is called under feeding.
func (r *router) mayFeed(table string) error {
	if tables := r.tables(); !tables[table] && len(tables) >= r.cfg.Load().MaxTables {
		return fmt.Errorf("the router feeds %d tables already", len(tables))
	}
	return nil
}

// tables are the tables that the router feeds. It is called under feeding.
func (r *router) tables() map[string]bool {
	all := make(map[string]bool)
	for f := range maps.Values(r.feeds) {
		all[f.table] = true
	}
	return all
}

// dial keeps a connection to the router up until the router ends.
func (r *router) dial() {
	const firstRetry, goodSession = time.Second, time.Minute
	retry, last := time.Duration(0), ""
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(jitter(retry)):
		}
		cfg := r.station.config()
		began := time.Now()
		err := r.connect(cfg)
		if r.ctx.Err() != nil {
			return
		}
		if time.Since(began) > goodSession {
			retry = 0
		}
		retry = min(max(2*retry, firstRetry), cfg.ConnectRetry)
		if errors.Is(err, errTerminated) {
			retry = cfg.ConnectRetry // it does not want us: RFC 7854, 4.5
		}
		if err.Error() != last { // those of every attempt would be noise
			last = err.Error()
			r.log.Warn("bmp router is not there", "error", err)
			r.state.Lock()
			r.lastError = last
			r.state.Unlock()
		}
	}
}

// connect makes one connection and serves it until it is over; the error says why it is.
func (r *router) connect(cfg *Config) error {
	d := net.Dialer{Timeout: cfg.ConnectRetry, KeepAliveConfig: cfg.keepAlive()}
	c, err := d.DialContext(r.ctx, "tcp", netip.AddrPortFrom(r.addr, r.cfg.Load().Port).String())
	if err != nil {
		return fmt.Errorf("connect to the router: %w", err)
	}
	defer c.Close()
	return r.station.serve(r.ctx, c, func() (*router, error) { return r, nil })
}
