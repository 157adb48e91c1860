package bgp

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jwhited/corebgp"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

const (
	firstRetry   = 250 * time.Millisecond // wait before the second attempt to connect
	longestDelay = 5 * time.Minute        // after errors
	goodSession  = 5 * time.Minute        // one that lasts so long makes earlier errors forgotten
)

// A peer keeps one session up: connects or waits, hands the connection to corebgp, and starts
// anew when it ends.
type peer struct {
	srv     *Server
	ctx     context.Context
	cfg     PeerConfig
	rib     *rib.Peer
	log     *slog.Logger
	inbound chan *link // connections that the peer made

	established                      atomic.Bool
	messages, bytes, panics, ignored atomic.Uint64
	ups, downs                       atomic.Uint64
	verdicts                         [wire.NumVerdicts]atomic.Uint64
	lastNotification                 atomic.Pointer[Notification]
}

// run keeps the session up until the server stops.
func (p *peer) run() {
	retry, errorDelay := time.Duration(0), p.srv.cfg.ErrorDelay
	lastReason := ""
	for p.ctx.Err() == nil {
		l, err := p.connect(retry)
		if p.ctx.Err() != nil {
			if l != nil {
				_ = l.Close()
			}
			return
		}
		retry = min(max(2*retry, firstRetry), p.srv.cfg.ConnectRetry)
		if err != nil {
			p.failed(err.Error(), &lastReason)
			continue
		}
		p.session(l)
		if p.ctx.Err() != nil {
			return
		}
		reason, isError := l.end()
		if l.established.IsZero() {
			p.failed(reason, &lastReason)
		} else {
			lastReason = ""
			lasted := time.Since(l.established)
			if lasted > p.srv.cfg.ConnectRetry { // a peer that ends sessions at once is not pressed
				retry = firstRetry
			}
			if lasted > goodSession {
				errorDelay = p.srv.cfg.ErrorDelay
			}
		}
		if isError {
			p.leaveAlone(errorDelay)
			errorDelay = min(2*errorDelay, longestDelay)
		}
	}
}

// connect gives the next connection: one that the peer makes, or unless it is passive one made
// to it after the wait.
func (p *peer) connect(wait time.Duration) (*link, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	var dialed chan result
	if !p.cfg.Passive {
		dialed = make(chan result)
		go func() {
			conn, err := p.dial(ctx, wait)
			select {
			case dialed <- result{conn, err}:
			case <-ctx.Done():
				if err == nil {
					_ = conn.Close()
				}
			}
		}()
	}
	select {
	case <-p.ctx.Done():
		return nil, nil
	case l := <-p.inbound:
		return l, nil
	case r := <-dialed:
		if r.err != nil {
			return nil, fmt.Errorf("connect to the peer: %w", r.err)
		}
		return newLink(r.conn, p, false, p.srv.cfg.OpenTimeout), nil
	}
}

// dial connects to the peer after the wait, which is varied by a quarter so that two speakers
// that refuse each other's connections do not go on doing so.
func (p *peer) dial(ctx context.Context, wait time.Duration) (net.Conn, error) {
	if wait > 0 {
		wait += time.Duration((rand.Float64() - 0.5) / 2 * float64(wait))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
	}
	d := net.Dialer{Timeout: p.srv.cfg.ConnectRetry}
	if p.cfg.LocalAddr.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.cfg.LocalAddr, 0))
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(p.cfg.Addr.String(), strconv.Itoa(int(p.cfg.Port))))
}

// session has corebgp run a session over a connection and returns when it is over and its
// routes are withdrawn. corebgp gets the peer anew each time: it would otherwise refuse
// connections for a minute and more after errors, inbound ones without a word.
func (p *peer) session(l *link) {
	defer l.Close()
	core := p.srv.core
	options := []corebgp.PeerOption{corebgp.WithPassive(), corebgp.WithHoldTime(uint16(p.srv.cfg.HoldTime / time.Second))}
	err := core.AddPeer(corebgp.PeerConfig{RemoteAddress: p.cfg.Addr, LocalAS: p.srv.cfg.ASN, RemoteAS: p.cfg.AS}, &session{peer: p, link: l}, options...)
	if err != nil {
		l.because("start the session: " + err.Error())
		return
	}
	defer func() { _ = core.DeletePeer(p.cfg.Addr) }() // returns when the session's goroutines are gone
	if !p.srv.handoff.give(p.ctx, l) {
		return
	}
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-l.closed:
			return
		case other := <-p.inbound:
			p.log.Debug("bgp connection refused: there is one", "from", other.RemoteAddr().String())
			_ = other.Close()
		}
	}
}

// leaveAlone waits after an error, refusing connections.
func (p *peer) leaveAlone(d time.Duration) {
	p.log.Info("bgp peer is left alone after an error", "for", d)
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-over.C:
			return
		case l := <-p.inbound:
			p.log.Debug("bgp connection refused after an error", "from", l.RemoteAddr().String())
			_ = l.Close()
		}
	}
}

// offer takes a connection that the peer made. One more than is wanted is refused.
func (p *peer) offer(c net.Conn) {
	if local := addrOf(c.LocalAddr()); p.cfg.LocalAddr.IsValid() && local != p.cfg.LocalAddr {
		p.log.Warn("bgp connection refused: wrong local address", "local", local, "expected", p.cfg.LocalAddr)
		_ = c.Close()
		return
	}
	l := newLink(c, p, true, p.srv.cfg.OpenTimeout)
	select {
	case p.inbound <- l:
	default:
		_ = l.Close()
	}
}

// check looks at a peer's OPEN for what corebgp will refuse and says so in words.
func (p *peer) check(l *link, o *open) {
	switch {
	case o.as != p.cfg.AS:
		p.log.Error("bgp peer has the wrong as", "expected", p.cfg.AS, "got", o.as)
		l.because(fmt.Sprintf("wrong peer AS: expected %d, the peer has %d", p.cfg.AS, o.as))
	case o.holdTime < 3:
		p.log.Error("bgp peer proposes too short a hold time", "seconds", o.holdTime)
		l.because(fmt.Sprintf("the peer proposes a hold time of %d s: it has to be 3 s or more", o.holdTime))
	case o.as == p.srv.cfg.ASN && o.routerID == p.srv.cfg.RouterID:
		p.log.Error("bgp peer has our router id", "router_id", o.routerID)
		l.because(fmt.Sprintf("the peer has our router ID %s", o.routerID))
	}
}

// failed reports that no session came up, to the log only where the reason is a new one.
func (p *peer) failed(reason string, last *string) {
	if reason == *last {
		return
	}
	*last = reason
	p.log.Warn("bgp session does not come up", "reason", reason)
	p.rib.Down(reason)
}
