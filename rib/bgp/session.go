package bgp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// Codes of NOTIFICATIONs that are sent here (RFC 4271, 4.5; RFC 4486).
const (
	codeOpen   = 2
	codeUpdate = 3
	codeCease  = 6

	subcodeOptionalAttribute = 9

	ceaseMaxPrefixes   = 1
	ceaseShutdown      = 2
	ceaseDeconfigured  = 3
	ceaseReset         = 4
	ceaseRejected      = 5
	ceaseOtherChange   = 6
	ceaseCollision     = 7
	ceaseOutOfResource = 8
)

// cease is a NOTIFICATION with the reason for people, which the peer gets where RFC 9003 has it
// sent along.
func cease(subcode uint8, reason string) *fsm.Notification {
	return &fsm.Notification{Code: codeCease, Subcode: subcode, Message: reason}
}

// forEver is a hold that only Reset or Reload ends.
const forEver time.Duration = math.MaxInt64

// A conn is a connection to a peer, whoever made it, from then until it is closed and its routes
// are withdrawn or kept. fsm calls it over its life, from one goroutine.
type conn struct {
	peer    *peer
	net     counted
	inbound bool
	made    time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc // with the *fsm.Notification that the peer is to have
	over    chan struct{}           // closed when it is known for how long the peer is left alone
	opened  func()                  // gives back its place among the half-open; again does nothing

	// Under peer.mu.
	open        *fsm.Open    // from the peer's OPEN on
	session     *fsm.Session // while it is the peer's session
	established time.Time    // zero: never was
	refused     bool         // there is a better connection
	replaces    *conn        // the session that this one takes over from
	replaced    bool         // such a one has ended it
	discard     bool         // nothing of its routes is kept
	reason      string       // what we have to say about the end
	hold        time.Duration
	end         fsm.End

	// Of the reading goroutine.
	running      bool // the RIB has its Up
	decoder      *wire.Decoder
	carries      [2]bool                  // families that both sides agreed upon
	linked       bool                     // link state is another one
	ended        [2]bool                  // families whose End-of-RIB has come
	begun        [2]time.Time             // when a family's last refresh began
	damaged      [wire.NumVerdicts]uint64 // messages with damage, to log fewer and fewer of them
	panicked     uint64                   // messages at which the codec did
	noLinkState  bool                     // it was damaged too much
	badLinkState uint64                   // messages with damage in it

	warned [2]atomic.Bool // of many prefixes, by family
}

var _ fsm.Handler = (*conn)(nil)

// newConn takes a connection over.
func (p *peer) newConn(nc *net.TCPConn, inbound bool, opened func()) *conn {
	c := &conn{peer: p, net: counted{nc, &p.bytes}, inbound: inbound, made: time.Now(), over: make(chan struct{}), opened: opened}
	c.ctx, c.cancel = context.WithCancelCause(p.ctx)
	return c
}

// A counted connection counts what comes in.
type counted struct {
	*net.TCPConn
	bytes *atomic.Uint64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.bytes.Add(uint64(n))
	return n, err
}

// close gives the connection up before it was served.
func (c *conn) close() {
	_ = c.net.Close()
	c.cancel(nil)
	c.opened()
}

// serve runs the connection to its end.
func (c *conn) serve() {
	p := c.peer
	end := c.run()
	c.opened()
	_ = c.net.Close()

	p.mu.Lock()
	c.end, c.session = end, nil
	if p.up != c { // a session is forgotten when it is known for how long the peer is left alone
		p.forget(c)
	}
	cfg := p.config()
	keep := (end.Graceful || c.replaced) && !c.discard && !cfg.NoGracefulRestart && p.ctx.Err() == nil
	p.mu.Unlock()
	if end.Notification != nil {
		p.lastNotification.Store(end.Notification)
	}
	if c.running {
		reason := c.ending()
		p.mu.Lock()
		p.lastErr = reason
		p.mu.Unlock()
		p.downs.Add(1)
		p.log.Warn("bgp session lost", "reason", reason)
		p.routes.lost(reason, c.open, keep, cfg)
		p.linkState.lost(c.open, keep, cfg.StaleTime)
	}
	c.cancel(nil)
}

// run has fsm run it. Whatever panics costs this connection alone.
func (c *conn) run() (end fsm.End) {
	defer func() {
		if r := recover(); r != nil {
			c.broken(r, nil)
			end = fsm.End{Reason: "it panicked"}
		}
	}()
	return fsm.Run(c.ctx, c.net, c.peer.local(), c)
}

// ending says why the connection came to its end.
func (c *conn) ending() string {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	if c.reason != "" {
		return c.reason
	}
	return c.end.Reason
}

// because says why the session is about to end.
func (c *conn) because(reason string) {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	if c.reason == "" {
		c.reason = reason
	}
}

// broken notes a panic, with the message at which it came. What the RIB has of the session is
// not to be relied upon then.
func (c *conn) broken(panicked any, message []byte) *fsm.Notification {
	c.peer.panics.Add(1)
	logPanic(c.peer.log, panicked, message)
	c.peer.mu.Lock()
	c.discard = true
	c.peer.mu.Unlock()
	c.because(fmt.Sprintf("it panicked: %v", panicked))
	return cease(ceaseOutOfResource, "internal error")
}

func logPanic(log *slog.Logger, panicked any, message []byte) {
	log.Error("bgp session panicked, and ends", "panic", panicked, "message", hex.EncodeToString(message), "stack", string(debug.Stack()))
}

// Opened is part of fsm.Handler. With two connections to a peer it decides which one stays.
func (c *conn) Opened(o *fsm.Open) (objection *fsm.Notification) {
	defer func() {
		if r := recover(); r != nil {
			objection = c.broken(r, nil)
		}
	}()
	p := c.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	c.open = o
	for _, other := range p.conns {
		if other == c || other.open == nil || other.refused {
			continue
		}
		if !c.beats(other) {
			c.refused = true
			p.collisions.Add(1)
			c.reason = "the peer has another connection"
			return cease(ceaseCollision, "")
		}
		if other == p.up {
			c.replaces = other
			if other.session != nil { // the peer has restarted: there is nobody to be told
				other.replaced, other.reason = true, "the peer has begun a new connection"
				_ = other.net.Close()
			}
			continue
		}
		other.refused = true
		p.collisions.Add(1)
		other.reason = "the peer has another connection"
		other.cancel(cease(ceaseCollision, ""))
	}
	if !p.neighbour.admit(p) {
		c.reason = "too many neighbours in the prefix"
		p.srv.refusedLimit.Add(1)
		return cease(ceaseRejected, c.reason)
	}
	return nil
}

// beats decides between c, whose OPEN has just come, and one that is open already (RFC 4271,
// 6.8). It is called under peer.mu.
func (c *conn) beats(other *conn) bool {
	switch {
	case other == c.peer.up && other.session == nil:
		return true // it is over, and its routes are being seen to
	case other == c.peer.up:
		// A session stays, unless the peer restarted without that we have seen the last one end
		// (RFC 4724, 5). Both ends connecting at once is no restart: there both were made before.
		return c.inbound && c.made.After(other.established) && c.peer.mayRestart()
	case c.inbound == other.inbound:
		return true // the peer has given the other one up
	}
	cfg := c.peer.srv.config()
	keepOurs := fsm.Collide(cfg.RouterID, c.open.RouterID, cfg.ASN, c.open.AS)
	return keepOurs != c.inbound
}

// Established is part of fsm.Handler.
func (c *conn) Established(s *fsm.Session) {
	p := c.peer
	defer func() {
		if r := recover(); r != nil {
			c.cancel(c.broken(r, nil))
		}
	}()
	if c.replaces != nil {
		select {
		case <-c.replaces.over:
		case <-c.ctx.Done():
		}
	}
	p.mu.Lock()
	if c.refused || c.ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	c.session, c.established = s, time.Now()
	p.up, p.lastErr = c, ""
	if p.stopDial != nil {
		p.stopDial()
	}
	p.mu.Unlock()
	c.opened()

	o, opt := s.Open(), s.Options()
	r, err := p.ribPeer()
	if err != nil {
		c.because(err.Error())
		c.cancel(cease(ceaseOutOfResource, ""))
		return
	}
	c.decoder = wire.NewDecoder(opt)
	c.running = true
	p.ups.Add(1)
	p.log.Info("bgp session established", "router_id", o.RouterID, "inbound", c.inbound,
		"ipv4", o.IPv4, "ipv6", o.IPv6, "add_path_ipv4", opt.AddPath4, "add_path_ipv6", opt.AddPath6, "four_octet_as", !opt.TwoByteAS)
	c.carries = [2]bool{o.IPv4, o.IPv6}
	c.linked = p.linkState != nil && o.LinkState
	p.linkState.established(o, p.config().StaleTime)
	p.routes.established(r, rib.Session{RouterID: o.RouterID, Internal: !opt.External, IPv4: o.IPv4, IPv6: o.IPv6}, o, p.config().StaleTime)
	p.neighbour.judge(r)
}

// Update is part of fsm.Handler.
func (c *conn) Update(body []byte) (objection *fsm.Notification) {
	defer func() {
		if r := recover(); r != nil {
			objection = c.broken(r, body)
		}
	}()
	if !c.running {
		return nil // it is about to end
	}
	p := c.peer
	m, err := c.decoder.Decode(body)
	verdict := m.Verdict()
	p.messages.Add(1)
	p.verdicts[verdict].Add(1)
	linked := 0
	if c.linked && err == nil {
		if linked, objection = c.linkState(body, verdict); objection != nil {
			return objection
		}
	}
	p.ignored.Add(uint64(m.Ignored - linked))
	if m.Panic != nil {
		p.panics.Add(1)
		c.panicked++
	}
	if m.Panic != nil && c.panicked&(c.panicked-1) == 0 {
		p.log.Error("bgp decoder panicked", "panic", m.Panic, "verdict", verdict.String(), "update", hex.EncodeToString(body))
	}
	if m.Damage != nil {
		c.logDamage(m.Damage, body)
	}
	if err != nil {
		c.because("damaged UPDATE: " + m.Damage.Reason)
		return &fsm.Notification{Code: m.Damage.Code, Subcode: m.Damage.Subcode, Data: m.Damage.Data}
	}
	for _, u := range m.Updates {
		p.routes.rib.Apply(c.agreed(u))
	}
	if f := index(m.EndOfRIB == wire.IPv6); m.EndOfRIB != wire.NoFamily && c.carries[f] && !c.ended[f] {
		c.ended[f] = true
		p.routes.endOfRIB(f == 1)
		p.log.Info("bgp end of rib", "ipv6", f == 1)
	}
	return c.tooMany()
}

// agreed takes out what is of a family that was not negotiated (RFC 4760, 8): it has no End-of-RIB, so it would never be swept.
func (c *conn) agreed(u rib.Update) rib.Update {
	if c.carries == [2]bool{true, true} {
		return u
	}
	foreign := func(n rib.NLRI) bool { return !c.carries[index(n.Prefix.Addr().Is6())] }
	before := len(u.Reach) + len(u.Unreach)
	u.Reach, u.Unreach = slices.DeleteFunc(u.Reach, foreign), slices.DeleteFunc(u.Unreach, foreign)
	if len(u.Reach)+len(u.Unreach) < before {
		c.peer.ignored.Add(1)
	}
	return u
}

// logDamage logs the 1st, 2nd, 4th, 8th, ... message with damage of a kind: a peer may have
// many, and all are counted.
func (c *conn) logDamage(d *wire.Damage, body []byte) {
	c.damaged[d.Verdict]++
	n := c.damaged[d.Verdict]
	if n&(n-1) != 0 {
		return
	}
	c.peer.log.Warn("bgp update damaged", "reason", d.Reason, "verdict", d.Verdict.String(), "in_session", n, "update", hex.EncodeToString(body))
}

// tooMany looks at the number of routes and at the memory of their attributes: it warns of many
// routes, and objects to too much of either (RFC 4486, 4).
func (c *conn) tooMany() *fsm.Notification {
	p, cfg := c.peer, c.peer.config()
	r := p.routes.peer()
	if r == nil {
		return nil // a reload looks at a session that is only just up
	}
	v4, v6 := r.Received()
	for f, n := range [2]int{v4, v6} {
		limit := [2]int{cfg.MaxPrefixes4, cfg.MaxPrefixes6}[f]
		switch {
		case limit < 0:
		case n > limit:
			p.exceeded.Add(1)
			reason := fmt.Sprintf("more than %d %s prefixes", limit, families[f])
			c.exceeded(reason, cfg)
			p.log.Error("bgp peer announces too many prefixes", "family", families[f], "limit", limit, "restart", cfg.MaxPrefixesRestart)
			end := cease(ceaseMaxPrefixes, reason)
			end.Data = binary.BigEndian.AppendUint32([]byte{0, byte(f + 1), 1}, uint32(min(uint64(limit), math.MaxUint32)))
			return end
		case n > limit/100*cfg.MaxPrefixesWarn+limit%100*cfg.MaxPrefixesWarn/100 && !c.warned[f].Swap(true):
			p.warnings.Add(1)
			p.log.Warn("bgp peer announces many prefixes", "family", families[f], "prefixes", n, "limit", limit)
		}
	}
	if limit := cfg.MaxAttributeBytes; limit >= 0 && r.AttributeBytes() > int64(limit) {
		p.heavy.Add(1)
		reason := fmt.Sprintf("more than %d bytes of path attributes", limit)
		c.exceeded(reason, cfg)
		p.log.Error("bgp peer announces too many different path attributes", "limit", limit, "restart", cfg.MaxPrefixesRestart)
		return cease(ceaseOutOfResource, reason)
	}
	return nil
}

// exceeded notes that the peer has announced more than it may: nothing of it is kept, and it is left
// alone.
func (c *conn) exceeded(reason string, cfg PeerConfig) {
	c.because(reason)
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	c.discard = true
	if c.hold = cfg.MaxPrefixesRestart; c.hold == 0 {
		c.hold = forEver
	}
}

// Refresh is part of fsm.Handler.
func (c *conn) Refresh(v6, begins bool) {
	defer func() {
		if r := recover(); r != nil {
			c.cancel(c.broken(r, nil))
		}
	}()
	f := index(v6)
	switch {
	case !c.running:
		return
	case begins && !c.ended[f] && c.open.Restart != nil: // RFC 7313, 4
		c.peer.log.Warn("bgp route refresh begins before the end of rib: passed over", "family", families[f])
		return
	case begins:
		c.wait(refreshEvery - time.Since(c.begun[f]))
		c.begun[f] = time.Now()
	}
	c.peer.routes.refresh(v6, begins, c.peer.config().StaleTime)
}

// refreshEvery is how often a peer may begin to announce all of a family again, for which the
// whole table is gone through. With a begin that comes sooner it has to wait: TCP holds it.
const refreshEvery = time.Second

// wait waits, unless the connection is to end.
func (c *conn) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}
