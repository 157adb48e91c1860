package bgp

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
	"github.com/ribwarp/ribwarp/rib/wire"
)

const (
	firstRetry   = 250 * time.Millisecond // wait before the second attempt to connect
	longestDelay = 5 * time.Minute        // after errors
	goodSession  = 5 * time.Minute        // one that lasts so long makes earlier errors forgotten
	stopRetry    = 2 * time.Second        // fsm ends within that
	manyShort    = 8                      // so many short sessions in a row are an error
)

// A peer keeps one session up: it connects or waits, serves the connections, which are two for
// as long as both sides connect at once, and starts anew when the session ends.
type peer struct {
	srv       *Server
	neighbour *neighbour
	name      string
	addr      netip.Addr
	log       *slog.Logger
	ctx       context.Context
	inbound   chan *conn    // connections that the peer made
	ended     chan *conn    // of those served
	again     chan struct{} // connect at once
	idle      chan struct{} // no route is kept any more
	routes    keeper
	linkState *linkState // nil where it is not asked for

	mu       sync.Mutex
	closing  bool    // run takes no connections any more
	conns    []*conn // being served
	up       *conn   // the session
	stopDial context.CancelFunc
	held     time.Time // no connection is made or taken before
	lingers  time.Time // a dynamic neighbour is remembered until then
	admitted bool      // counts against the limit of its prefix
	lastErr  string

	messages, bytes, panics, ignored      atomic.Uint64
	ups, downs                            atomic.Uint64
	collisions, exceeded, warnings, asked atomic.Uint64
	heavy                                 atomic.Uint64
	verdicts                              [wire.NumVerdicts]atomic.Uint64
	lastNotification                      atomic.Pointer[fsm.Notification]
}

// newPeer makes a peer of n. r is nil for a dynamic one.
func newPeer(n *neighbour, as uint32, name string, addr netip.Addr, r *rib.Peer) *peer {
	p := &peer{srv: n.srv, neighbour: n, name: name, addr: addr, ctx: n.ctx, inbound: make(chan *conn, 4), ended: make(chan *conn), again: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
	p.log = n.srv.log.With("peer", name, "addr", addr, "as", as)
	if n.cfg.LinkState {
		p.linkState = newLinkState(n.srv.config().LinkState, name, p.log)
	}
	p.routes.log, p.routes.rib, p.routes.gone = p.log, r, func() { signal(p.idle) }
	return p
}

func (p *peer) config() PeerConfig { return p.neighbour.config() }

// local says what fsm is to say.
func (p *peer) local() fsm.Local {
	c, cfg := p.srv.config(), p.config()
	return fsm.Local{
		AS: c.ASN, RouterID: c.RouterID, HoldTime: cfg.HoldTime, OpenTimeout: c.OpenTimeout, PeerAS: cfg.AS,
		IPv4: true, IPv6: true, LinkState: cfg.LinkState, AddPath: !cfg.NoAddPath, ExtendedMessages: true, ExtendedNextHop: true,
		LongLived: cfg.LongLivedStaleTime > 0 && !cfg.NoGracefulRestart, Role: cfg.Role, StrictRole: cfg.StrictRole,
	}
}

// signal puts something into a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run keeps the session up until the peer's context ends, or for a dynamic neighbour until
// nothing is left of its session.
func (p *peer) run() {
	defer p.routes.survive()
	defer p.linkState.end()
	next := time.NewTimer(0) // an attempt to connect is due
	defer next.Stop()
	b := backoff{peer: p, errorDelay: p.srv.config().ErrorDelay}
	served := 0
	var dialed <-chan dialResult // nil while no attempt is under way
	for {
		select {
		case <-p.ctx.Done():
			p.close(served, dialed)
			return
		case c := <-p.inbound:
			if reason := p.unwanted(); reason != "" {
				p.log.Debug("bgp connection refused", "reason", reason, "from", c.net.RemoteAddr().String())
				c.close()
				break
			}
			served++
			p.serve(c)
		case <-next.C:
			if left := p.rest(); left > 0 {
				next.Reset(left)
			} else if served == 0 && dialed == nil && !p.config().Passive {
				dialed = p.dial()
			}
		case r := <-dialed:
			dialed = nil
			p.mu.Lock()
			p.stopDial = nil
			up := p.up != nil
			p.mu.Unlock()
			switch left := p.rest(); {
			case r.err == nil && !up && left <= 0:
				served++
				p.serve(p.newConn(r.conn.(*net.TCPConn), false, func() {}))
			case r.err == nil:
				_ = r.conn.Close() // the peer's own came before it
			case served == 0:
				p.failed("connect to the peer: " + r.err.Error())
			}
			if served == 0 {
				next.Reset(b.next())
			}
		case c := <-p.ended:
			served--
			wait := b.after(c, served == 0)
			close(c.over)
			if served == 0 {
				next.Reset(wait)
			}
		case <-p.again:
			next.Reset(0)
		case <-p.idle:
		}
		if p.neighbour.dynamic && served == 0 && !p.routes.keeps() && p.leave() {
			return
		}
	}
}

// serve begins to serve a connection, which comes back through p.ended.
func (p *peer) serve(c *conn) {
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	go func() {
		defer func() { p.ended <- c }()
		defer p.routes.survive()
		c.serve()
	}()
}

// forget takes a connection out of those being served. It is called under p.mu.
func (p *peer) forget(c *conn) {
	for i, other := range p.conns {
		if other == c {
			p.conns = append(p.conns[:i:i], p.conns[i+1:]...)
		}
	}
	if p.up == c {
		p.up = nil
	}
}

// close ends everything, with the NOTIFICATION that the context was ended with.
func (p *peer) close(served int, dialed <-chan dialResult) {
	p.leave()
	reason := "stopped"
	var n *fsm.Notification
	if errors.As(context.Cause(p.ctx), &n) && n.Message != "" {
		reason = n.Message
	}
	p.mu.Lock()
	for _, c := range p.conns {
		if c.reason == "" {
			c.reason = reason
		}
	}
	p.mu.Unlock()
	p.routes.end(reason)
	if dialed != nil {
		if r := <-dialed; r.err == nil {
			_ = r.conn.Close()
		}
	}
	again := time.NewTicker(stopRetry)
	defer again.Stop()
	for served > 0 {
		select {
		case <-p.ended:
			served--
		case <-again.C: // a message came to wait for room in the RIB after what had them go on
			p.routes.end(reason)
		}
	}
}

// leave takes no connections any more and reports true, unless the peer need not end and one has
// come meanwhile, or it is to be remembered.
func (p *peer) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil && (len(p.inbound) > 0 || time.Now().Before(p.lingers)) {
		return false
	}
	p.closing = true
	for len(p.inbound) > 0 {
		(<-p.inbound).close()
	}
	return true
}

// offer takes a connection that the peer made. It reports false for one that is not wanted.
func (p *peer) offer(nc *net.TCPConn, opened func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	c := p.newConn(nc, true, opened)
	select {
	case p.inbound <- c:
		return true
	default:
		c.cancel(nil)
		return false
	}
}

// unwanted gives a reason to refuse the peer's connections now, or none.
func (p *peer) unwanted() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case time.Now().Before(p.held):
		return "the peer is left alone"
	case p.up != nil && p.up.session != nil && !p.mayRestart():
		return "there is a session"
	}
	return ""
}

// mayRestart tells whether a new connection may mean that the peer restarted and its session's
// end was not seen. It is called under p.mu with a session up.
func (p *peer) mayRestart() bool {
	return p.up.open.Restart != nil && !p.config().NoGracefulRestart
}

// rest is how long the peer is still left alone.
func (p *peer) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.held)
}

type dialResult struct {
	conn net.Conn
	err  error
}

// dial begins to connect.
func (p *peer) dial() <-chan dialResult {
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.stopDial = cancel
	p.mu.Unlock()
	result := make(chan dialResult, 1)
	cfg := p.config()
	d := net.Dialer{Timeout: p.srv.config().ConnectRetry, Control: func(_, _ string, c syscall.RawConn) error {
		if cfg.MD5 != "" {
			if err := setMD5(c, netip.PrefixFrom(p.addr.WithZone(""), p.addr.BitLen()), cfg.MD5); err != nil {
				return err
			}
		}
		if cfg.TTLSecurity != 0 {
			return setTTL(c, p.addr, cfg.TTLSecurity)
		}
		return nil
	}}
	if cfg.LocalAddr.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(cfg.LocalAddr, 0))
	}
	go func() {
		defer cancel()
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(p.addr.String(), strconv.Itoa(int(cfg.Port))))
		result <- dialResult{conn, err}
	}()
	return result
}

// A backoff says how long to wait before the next attempt.
type backoff struct {
	peer       *peer
	retry      time.Duration
	errorDelay time.Duration
	short      int // sessions in a row that ended as soon as they were there
}

// next gives the wait after an attempt that failed. It is varied by a quarter so that two
// speakers that refuse each other's connections do not go on doing so.
func (b *backoff) next() time.Duration {
	b.retry = min(max(2*b.retry, firstRetry), b.peer.srv.config().ConnectRetry)
	return b.retry + time.Duration((rand.Float64()-0.5)/2*float64(b.retry))
}

// after gives the wait after a connection, which was the last one or not, and holds the peer
// where it ended in an error.
func (b *backoff) after(c *conn, last bool) time.Duration {
	p := b.peer
	cfg := p.srv.config()
	isError := c.end.Notification != nil && c.end.Notification.Code != codeCease && !c.saidNothing()
	if !c.established.IsZero() {
		lasted := time.Since(c.established)
		if b.short++; lasted > cfg.ConnectRetry { // a peer that ends sessions at once is not pressed
			b.retry, b.short = 0, 0
		}
		if lasted > goodSession {
			b.errorDelay = cfg.ErrorDelay
		}
		isError = isError || b.short >= manyShort
	} else if last {
		p.failed(c.ending())
	}
	wait, hold := b.next(), c.hold
	if isError && hold == 0 {
		hold = b.errorDelay
		b.errorDelay = min(2*b.errorDelay, longestDelay)
		if c.end.Graceful { // its routes are kept, for no longer than its restart time: it is to be back before
			hold = min(hold, cfg.ErrorDelay)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
	if hold > 0 {
		p.log.Info("bgp peer is left alone after an error", "for", hold)
		p.held = time.Now().Add(hold)
		wait = hold
	}
	if hold > 0 && !c.established.IsZero() {
		for _, other := range p.conns { // begun before: else one kept in reserve would get around it
			if other.reason == "" {
				other.reason = "the peer is left alone"
			}
			other.cancel(cease(ceaseRejected, ""))
		}
	}
	if p.admitted { // to know it again, should it come back at once
		wait = max(wait, cfg.ErrorDelay)
		p.lingers = time.Now().Add(wait)
	}
	return wait
}

// saidNothing tells whether a connection that has ended was made from the peer's address and brought
// no OPEN. A probe is like that, and a flood: that must not keep the peer out.
func (c *conn) saidNothing() bool {
	n := c.end.Notification
	return c.inbound && c.open == nil && n.Sent && n.Code != codeOpen
}

// failed reports that no session came up, to the log only where the reason is a new one.
func (p *peer) failed(reason string) {
	p.mu.Lock()
	known := p.lastErr == reason
	p.lastErr = reason
	p.mu.Unlock()
	if known {
		return
	}
	p.log.Warn("bgp session does not come up", "reason", reason)
	p.routes.failed(reason)
}

// reset lets the peer connect again at once, and ends its session with a Cease.
func (p *peer) reset(n *fsm.Notification) {
	p.mu.Lock()
	p.held, p.lingers = time.Time{}, time.Time{}
	for _, c := range p.conns {
		c.cancel(n)
	}
	p.mu.Unlock()
	signal(p.again)
}

// ribPeer gives the peer in the RIB, which for a dynamic neighbour is made now.
func (p *peer) ribPeer() (*rib.Peer, error) {
	if p.routes.rib != nil {
		return p.routes.rib, nil
	}
	return p.neighbour.addToRIB(p.name, p.addr)
}

// remove takes the peer out of the RIB for good.
func (p *peer) remove() {
	if r := p.routes.rib; r != nil {
		p.neighbour.rib.RemovePeer(r)
	}
	p.linkState.end()
}

// changed goes on under a new configuration, which may let the peer back.
func (p *peer) changed(configuration bool, imports rib.Import) {
	if r := p.routes.peer(); r != nil {
		r.SetImport(imports)
		r.SetAwaited(!p.config().Optional)
	}
	p.mu.Lock()
	if configuration {
		p.held, p.lingers = time.Time{}, time.Time{}
	}
	up := p.up
	p.mu.Unlock()
	if up != nil {
		if n := up.tooMany(); n != nil {
			up.cancel(n)
		}
	}
	if configuration {
		signal(p.again)
	}
}
