package fsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ribwarp/ribwarp/rib/wire"
)

const (
	bufferSize = 1 << 16                      // holds the longest message, and many short ones
	forever    = time.Duration(math.MaxInt64) // three centuries: as good as no timer

	// parting is the time to send a NOTIFICATION, and then for the peer to read it and close.
	parting = time.Second
	// lastLook is how long an expired hold timer looks for what has come meanwhile: after the
	// process was stopped, or the clock has jumped, the timer may be seen before the bytes.
	lastLook = 10 * time.Millisecond
)

// A Handler is called over the life of a connection, always from the goroutine of Run.
type Handler interface {
	// Opened tells the peer's OPEN, which is valid. What it returns, unless nil, is sent and ends
	// the connection.
	Opened(o *Open) *Notification
	// Established tells that the session is up. s is for any goroutine, and outlives the session.
	Established(s *Session)
	// Update handles the body of an UPDATE, of 4 bytes at least, which is valid until it returns.
	// Nothing is read meanwhile, and the hold timer stands still. What it returns, unless nil, is
	// sent and ends the session.
	Update(body []byte) *Notification
	// Refresh tells that the peer begins to announce all of a negotiated family again, or has
	// done so (RFC 7313).
	Refresh(v6 bool, begin bool)
}

// End says how a connection ended.
type End struct {
	Established  time.Time     // zero: never was
	Notification *Notification // that ended it, nil for none
	Err          error         // of the connection, or nil
	Reason       string        // for people
	// Graceful tells that the peer's routes may be kept: it has graceful restart, and the session
	// was lost without a NOTIFICATION (RFC 4724, 4.2), or with one that is none of a hard reset
	// while the peer has RFC 8538, as we have.
	Graceful bool
}

// Run speaks BGP over c until the session is over, then closes c. It returns when the last call
// of h has returned and nothing of the session runs any more.
//
// Cancelling ctx ends it with a NOTIFICATION: the context's cause if that is a *Notification,
// otherwise Cease, Administrative Shutdown. It is sent at once, also while h is busy.
//
// After a NOTIFICATION of ours the peer gets a second to read it, where c has CloseWrite as a
// *net.TCPConn does: to close with something unread would be a reset, which may overtake it.
func Run(ctx context.Context, c net.Conn, l Local, h Handler) End {
	l = l.withDefaults()
	s := &Session{
		conn: c, local: l, handler: h, buf: make([]byte, bufferSize), left: l.OpenTimeout,
		out: make(chan []byte, queueLength), keepalives: make(chan time.Duration, 1), done: make(chan struct{}), sendHold: leastSendHold,
	}
	s.send(l.openMessage())
	var writer sync.WaitGroup
	writer.Go(s.write)
	cancelled := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		var n *Notification
		if !errors.As(context.Cause(ctx), &n) || n == nil {
			n = &Notification{Code: codeCease, Subcode: ceaseShutdown}
		}
		s.object(n)
	})
	defer func() {
		s.stop(End{Reason: "the handler panicked"}) // otherwise it has ended before
		writer.Wait()
		s.linger()
		_ = c.Close() // nobody is left to tell
		if !unwatch() {
			<-cancelled
		}
	}()
	s.read()
	return s.end // nothing changes it any more
}

// A Session is a connection whose OPENs were exchanged. Its methods are for any goroutine.
type Session struct {
	conn    net.Conn
	local   Local
	handler Handler

	// Of the reading goroutine, and for all from Established on.
	open     *Open
	holdTime time.Duration // negotiated; 0: none

	// Of the reading goroutine.
	state    state
	buf      []byte // buf[r:w] is read and not handled
	r, w     int
	left     time.Duration // of the hold timer
	looks    time.Time     // until when it looks for more, as it has expired; zero before
	extended bool          // long messages are negotiated

	out        chan []byte        // messages for the writing goroutine
	keepalives chan time.Duration // the hold time, when KEEPALIVEs are to begin; none for 0 (RFC 4271, 4.4)

	over atomic.Bool
	done chan struct{} // closed when it is over

	mu       sync.Mutex // of the deadlines too: that of the end is not to be moved any more
	end      End
	sendHold time.Duration // forever: none
	keeps    bool          // both sides have graceful restart
	soft     bool          // and RFC 8538

	lingers bool // of the writing goroutine: the NOTIFICATION is out, and the peer has to close
}

// state is that of a connection (RFC 4271, 8.2.2); its number is the subcode of an unexpected
// message (RFC 6608).
type state uint8

const (
	openSent state = 1 + iota
	openConfirm
	established
)

// Open is the peer's OPEN.
func (s *Session) Open() *Open { return s.open }

// HoldTime is the negotiated hold time; 0: there is none.
func (s *Session) HoldTime() time.Duration { return s.holdTime }

// Options says how the peer's UPDATEs are to be read, as was negotiated.
func (s *Session) Options() wire.Options { return s.local.options(s.open) }

// carries tells whether a family is negotiated.
func (s *Session) carries(v6 bool) bool {
	if v6 {
		return s.local.IPv6 && s.open.IPv6
	}
	return s.local.IPv4 && s.open.IPv4
}

// RequestRefresh asks the peer to announce all routes of a family again (RFC 2918). It does
// not wait. The error says why the peer is not asked.
func (s *Session) RequestRefresh(v6 bool) error {
	switch {
	case !s.open.Refresh:
		return errors.New("the peer has no route refresh (RFC 2918)")
	case !s.carries(v6):
		return errors.New("the family is not negotiated with the peer")
	case s.over.Load():
		return errors.New("the session is over")
	case !s.send(routeRefresh(v6, refreshRequest)):
		return errors.New("the peer has not read the last requests yet: ask again later")
	}
	return nil
}

// read is the state machine: it takes messages until the session is over.
func (s *Session) read() {
	for s.state = openSent; ; {
		kind, body, ok := s.next()
		switch {
		case !ok:
			return
		case kind == msgUpdate && s.state == established:
			if n := s.handler.Update(body); n != nil {
				s.object(n)
			}
			s.restartHoldTimer()
		case kind == msgKeepalive && s.state == established:
			s.restartHoldTimer()
		case kind == msgRefresh && s.state == established:
			s.refresh(body)
		case kind == msgNotification:
			n := parseNotification(body)
			s.stop(End{Notification: n, Reason: n.String()})
		case kind == msgOpen && s.state == openSent:
			s.opened(body)
		case kind == msgKeepalive && s.state == openConfirm:
			s.establish()
		default:
			s.object(refuse(codeFSM, uint8(s.state), []byte{kind}, "the peer sends a message of type %d out of turn", kind))
		}
	}
}

// opened takes the peer's OPEN.
func (s *Session) opened(body []byte) {
	o, n := parseOpen(body)
	if n == nil {
		n = s.local.check(o)
	}
	if n != nil {
		s.object(n)
		return
	}
	s.open, s.holdTime = o, s.local.holdTime(o)
	s.extended = s.local.ExtendedMessages && o.Extended
	if n := s.handler.Opened(o); n != nil {
		s.object(n)
		return
	}
	s.state = openConfirm
	s.restartHoldTimer()
	if s.holdTime == 0 {
		s.left = s.local.OpenTimeout // RFC 4271 has no limit here, and a connection needs one
	}
	s.mu.Lock()
	if s.sendHold = max(leastSendHold, 2*s.holdTime); s.holdTime == 0 {
		s.sendHold = forever // RFC 9687, 3.1
	}
	s.mu.Unlock()
	s.send(message(msgKeepalive))
	if s.holdTime > 0 {
		s.keepalives <- s.holdTime
	}
}

// establish brings the session up.
func (s *Session) establish() {
	s.state = established
	s.restartHoldTimer()
	s.mu.Lock()
	s.end.Established = time.Now()
	s.keeps = s.open.Restart != nil
	s.soft = s.keeps && s.open.Restart.Notification
	s.mu.Unlock()
	for _, v6 := range []bool{false, true} {
		if s.carries(v6) {
			s.send(endOfRIB(v6))
		}
	}
	if s.local.LinkState && s.open.LinkState {
		s.send(endOfLinkState())
	}
	s.handler.Established(s)
}

// restartHoldTimer has it start anew.
func (s *Session) restartHoldTimer() {
	if s.left, s.looks = s.holdTime, (time.Time{}); s.holdTime == 0 {
		s.left = forever
	}
}

// refresh handles a ROUTE-REFRESH of 3 bytes at least. To a request the answer is that the
// table is empty. Without RFC 7313 there are no subtypes, and the byte means nothing.
func (s *Session) refresh(body []byte) {
	subtype := body[2]
	if !s.open.EnhancedRefresh {
		subtype = refreshRequest
	}
	marks := subtype == refreshBegin || subtype == refreshEnd
	switch {
	case marks && len(body) != 4:
		s.object(refuse(codeRefresh, refreshBadLength, message(msgRefresh, body...), "the peer sends a ROUTE-REFRESH of %d bytes", headerLength+len(body)))
		return
	case len(body) < 4:
		s.object(badLength(headerLength+len(body), msgRefresh))
		return
	}
	v6 := body[1] == afiIPv6
	if body[0] != 0 || body[1] != afi(v6) || body[3] != safiUnicast || !s.carries(v6) {
		return // not a family of ours (RFC 2918, 4)
	}
	switch {
	case marks:
		s.handler.Refresh(v6, subtype == refreshBegin)
	case subtype == refreshRequest && s.open.EnhancedRefresh:
		s.send(append(routeRefresh(v6, refreshBegin), routeRefresh(v6, refreshEnd)...))
	}
}

// next gives the next message, valid until the next call. It reports false when the session is
// over.
func (s *Session) next() (kind byte, body []byte, ok bool) {
	if s.over.Load() || !s.fill(headerLength) {
		return 0, nil, false
	}
	header := s.buf[s.r : s.r+headerLength]
	if n := checkHeader(header, s.extended); n != nil {
		s.object(n)
		return 0, nil, false
	}
	length := int(binary.BigEndian.Uint16(header[16:]))
	if !s.fill(length) {
		return 0, nil, false
	}
	m := s.buf[s.r : s.r+length]
	s.r += length
	return m[18], m[headerLength:], true
}

// fill reads until n bytes are there, while the hold timer runs.
func (s *Session) fill(n int) bool {
	if s.w-s.r >= n {
		return true
	}
	s.w = copy(s.buf, s.buf[s.r:s.w])
	s.r = 0
	since := time.Now()
	deadline := since.Add(s.left)
	if !s.looks.IsZero() {
		deadline = s.looks
	}
	for s.readBefore(deadline) {
		got, err := s.conn.Read(s.buf[s.w:])
		s.w += got
		switch {
		case s.w >= n:
			s.left -= time.Since(since)
			return true
		case errors.Is(err, os.ErrDeadlineExceeded) && s.looks.IsZero():
			deadline = time.Now().Add(lastLook)
			s.looks = deadline
		case err != nil:
			s.lost(err)
			return false
		}
	}
	return false
}

// readBefore sets a deadline for reading unless the session is over.
func (s *Session) readBefore(deadline time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return false
	}
	_ = s.conn.SetReadDeadline(deadline) // an error is one of the connection, which Read meets as well
	return true
}

// lost ends the session after an error of reading.
func (s *Session) lost(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && s.state == openSent:
		s.object(refuse(codeHoldTime, 0, nil, "the peer has sent no OPEN"))
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.object(refuse(codeHoldTime, 0, nil, "the hold time is over: the peer has been silent"))
	case errors.Is(err, io.EOF) && s.w > 0:
		s.stop(End{Err: io.ErrUnexpectedEOF, Reason: "the peer has closed the connection in the middle of a message"})
	case errors.Is(err, io.EOF):
		s.stop(End{Err: err, Reason: "the peer has closed the connection"})
	case errors.Is(err, syscall.ECONNRESET):
		s.stop(End{Err: err, Reason: "the peer has reset the connection"})
	case errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe):
		s.stop(End{Err: err, Reason: "the connection was closed here"})
	default:
		s.stop(End{Err: err, Reason: fmt.Sprintf("the connection is lost: %v", err)})
	}
}

// object ends the session with a NOTIFICATION.
func (s *Session) object(n *Notification) {
	s.mu.Lock()
	hard := s.soft
	s.mu.Unlock()
	n = n.outgoing(hard)
	reason := n.detail
	if reason == "" {
		reason = n.String()
	}
	s.stop(End{Notification: n, Reason: reason})
}

// stop ends the session: reading and writing go on no more than it takes to send the
// NOTIFICATION. The first end is the one that counts.
func (s *Session) stop(e End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return
	}
	e.Established = s.end.Established
	e.Graceful = s.keeps && (e.Notification == nil || s.soft && !e.Notification.isHardReset())
	s.end = e
	s.over.Store(true)
	now := time.Now()
	_ = s.conn.SetReadDeadline(now)
	if e.Notification != nil && e.Notification.Sent {
		now = now.Add(parting)
	}
	_ = s.conn.SetWriteDeadline(now)
	close(s.done)
}
