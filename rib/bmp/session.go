package bmp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// maxReported is how many statistics of a peer are kept.
const maxReported = 64

// A session is one connection to a router. One goroutine reads it and applies what it reads, and
// alone changes what is here.
type session struct {
	router *router
	in     *reader
	ctx    context.Context // ends with the connection; its cause says why
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when its routes are settled

	views      map[distinguisher]View // what feeds the table of a VRF, where a route has decided that
	decoders   map[wire.Options]*wire.Decoder
	routes     int   // of all feeds
	attributes int64 // bytes, likewise
	loaded     bool
	logged     map[string]uint64 // by message: to log fewer and fewer of them

	mu                sync.Mutex // who reads from another goroutine, and who writes, below
	sysName, sysDescr string
	peers             map[peerKey]*monitored
}

// A monitored is a BGP peer of the router, or its Loc-RIB.
type monitored struct {
	key       peerKey
	name      string
	as        uint32
	routerID  netip.Addr
	up        bool
	ups       [2]bool // there was a Peer Up for pre-policy, for post-policy
	agreement agreement
	table     string // VRF or table name
	filtered  bool
	lastDown  string
	reported  map[Statistic]uint64
	feed      *feed // nil before the first Route Monitoring of the view that feeds the table
	refused   error // why there can be none: an *ignoredError
	// early are the End-of-RIB that came while nothing had decided which view feeds the table, by
	// family. They decide nothing: FRR sends them for views that it does not mirror.
	early map[View][2]bool
}

// An ignoredError says that a message changes nothing because of something other than damage.
type ignoredError struct {
	why    Ignored
	detail error // for the log; nil: none needed
}

func (e *ignoredError) Error() string {
	if e.detail == nil {
		return e.why.String()
	}
	return e.why.String() + ": " + e.detail.Error()
}

func ignored(why Ignored) error { return &ignoredError{why: why} }

// tooMuch ends a session with more than RouterConfig.MaxRoutes or MaxAttributeBytes.
type tooMuch struct {
	limit int
	of    string
}

func (e *tooMuch) Error() string {
	return fmt.Sprintf("the router brings more than %d %s: raise its limit, or have it mirror less", e.limit, e.of)
}

// A fatalError ends the session: it is not the message's fault.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func newSession(r *router, in *reader) *session {
	s := &session{
		router: r, in: in, done: make(chan struct{}),
		views: make(map[distinguisher]View), decoders: make(map[wire.Options]*wire.Decoder),
		logged: make(map[string]uint64), peers: make(map[peerKey]*monitored),
	}
	s.ctx, s.cancel = context.WithCancelCause(r.ctx)
	return s
}

// run takes the router over and reads the connection until it is over. hello is the Initiation
// message. The error says why it is over.
func (s *session) run(hello []byte) error {
	defer close(s.done)
	defer s.cancel(nil)
	r := s.router
	if err := r.take(s); err != nil {
		return &halfOpenError{err}
	}
	err := errors.New("panicked") // unless read comes to its end
	defer func() { r.leave(s, err) }()
	s.handle(Initiation, hello)
	r.log.Info("bmp router connected", "sys_name", s.sysName, "sys_descr", s.sysDescr)
	err = s.read()
	r.log.Warn("bmp router gone", "reason", err)
	return err
}

// read handles messages until the connection ends.
func (s *session) read() error {
	for {
		kind, body, err := s.in.next(time.Time{})
		if s.router.ctx.Err() != nil {
			return errStopped
		}
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if err != nil {
			return fmt.Errorf("connection lost: %w", err)
		}
		if err := s.handle(kind, body); err != nil {
			return err
		}
	}
}

// end has the session come to its end, and waits until it has.
func (s *session) end(cause error) {
	s.cancel(cause)
	_ = s.in.conn.Close()
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		select {
		case <-s.done:
			return
		case <-time.After(wait):
			s.router.unblock(s)
		}
	}
}

// handle handles one message. An error ends the session; damage does not, nor does a panic.
func (s *session) handle(kind Kind, body []byte) (err error) {
	c := &s.router.counters
	c.messages[kind].Add(1)
	c.bytes.Add(commonLength + uint64(len(body)))
	defer func() {
		if p := recover(); p != nil {
			c.panics.Add(1)
			s.router.log.Error("bmp message passed over: panic", "kind", kind.String(), "panic", p, "message", hex.EncodeToString(body), "stack", string(debug.Stack()))
			err = nil
		}
	}()
	err = s.dispatch(kind, body)
	var skip *ignoredError
	var fatal *fatalError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fatal):
		return fatal.err
	case errors.As(err, &skip):
		c.ignored[skip.why].Add(1)
		s.log("bmp message ignored", skip.Error(), "kind", kind.String())
	default:
		c.damaged.Add(1)
		s.log("bmp message damaged", kind.String(), "error", err, "kind", kind.String(), "message", hex.EncodeToString(body))
	}
	return nil
}

// maxLogged is how many different reasons are told apart in the log of a session.
const maxLogged = 1000

// log logs the 1st, 2nd, 4th, 8th, ... message of the same reason: a router may send many, and all
// are counted.
func (s *session) log(message, reason string, args ...any) {
	if _, known := s.logged[reason]; !known && len(s.logged) >= maxLogged {
		reason = "others"
	}
	s.logged[reason]++
	if n := s.logged[reason]; n&(n-1) == 0 {
		s.router.log.Warn(message, append([]any{"reason", reason, "in_session", n}, args...)...)
	}
}

// dispatch gives a *fatalError, an *ignoredError, or what is wrong with the message.
func (s *session) dispatch(kind Kind, body []byte) error {
	switch kind {
	case Initiation:
		return s.initiation(body)
	case Termination:
		return termination(body)
	case UnknownKind:
		return nil
	}
	h, body, err := cutPerPeer(body)
	if err != nil {
		return err
	}
	switch kind {
	case PeerUp:
		return s.peerUp(h, body)
	case PeerDown:
		return s.peerDown(h, body)
	case StatisticsReport:
		return s.statistics(h, body)
	case RouteMirroring:
		return s.mirroring(body)
	}
	return s.monitoring(h, body)
}

// locked changes what Stats reads.
func (s *session) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *session) initiation(b []byte) error {
	const sysDescr, sysName = 1, 2
	for len(b) > 0 {
		kind, value, rest, ok := cutTLV(b)
		if !ok {
			return errShort
		}
		s.locked(func() {
			switch kind {
			case sysDescr:
				s.sysDescr = text(value)
			case sysName:
				s.sysName = text(value)
			}
		})
		b = rest
	}
	return nil
}

// termination reads why the router ends the session (RFC 7854, 4.5). Whatever it says, it does.
func termination(b []byte) error {
	const note, reason = 0, 1
	why := ""
	for {
		kind, value, rest, ok := cutTLV(b)
		if !ok {
			break
		}
		switch {
		case kind == reason && len(value) == 2:
			code := binary.BigEndian.Uint16(value)
			words := [...]string{"administratively closed", "unspecified reason", "out of resources", "redundant connection", "permanently administratively closed"}
			if int(code) < len(words) {
				why += ": " + words[code]
			} else {
				why += fmt.Sprintf(": reason %d", code)
			}
		case kind == note:
			why += fmt.Sprintf(": %q", text(value))
		}
		b = rest
	}
	return &fatalError{fmt.Errorf("%w%s", errTerminated, why)}
}

// peerUp takes in that a BGP session is established. Damage leaves a peer of which nothing is
// known but its header.
func (s *session) peerUp(h perPeer, b []byte) error {
	p := s.peers[h.peerKey]
	if p == nil {
		var err error
		if p, err = s.newPeer(h); err != nil {
			return err
		}
	}
	a, table, damage := readPeerUp(b, h.kind == peerLocRIB)
	if damage == nil && h.kind != peerLocRIB && a.as != h.as {
		s.log("bmp peer up contradicts itself", "other AS number in OPEN", "peer", p.name, "open", a.as, "header", h.as)
	}
	post := 0
	if h.kind != peerLocRIB && h.flags&flagPost != 0 {
		post = 1
	}
	again := p.up && p.ups[post] // some routers send one for every view
	s.locked(func() {
		fresh := !p.up || again
		if fresh {
			p.ups, p.early = [2]bool{}, nil
		}
		p.up, p.ups[post], p.refused = true, true, nil
		p.as, p.routerID, p.agreement, p.table = h.as, h.routerID, a, table
		p.filtered = h.kind == peerLocRIB && h.flags&flagFiltered != 0
		switch {
		case p.feed == nil || !fresh:
		case p.feed.peer.Config().AS != h.as:
			s.discard(p)
		default:
			s.raise(p, false)
		}
	})
	s.router.log.Info("bmp peer up", "peer", p.name, "as", p.as, "router_id", p.routerID,
		"ipv4", a.ipv4, "ipv6", a.ipv6, "add_path_ipv4", a.addPath4, "add_path_ipv6", a.addPath6, "two_octet_as", a.twoByteAS, "again", again)
	return damage
}

// readPeerUp reads what follows the per-peer header. The agreement is of use whatever the error.
func readPeerUp(b []byte, locRIB bool) (a agreement, table string, err error) {
	const addresses = 16 + 2 + 2 // the router's address and both ports
	const tableName = 3          // RFC 9069, 5.3
	unknown := agreement{ipv4: true, ipv6: true, internal: locRIB}
	if len(b) < addresses {
		return unknown, "", errShort
	}
	b = b[addresses:]
	var opens [2]open
	for i := range opens {
		kind, body, rest, err := cutBGP(b)
		if err == nil && kind != bgp.BGP_MSG_OPEN {
			err = fmt.Errorf("BGP message of type %d", kind)
		}
		if err == nil {
			opens[i], err = parseOpen(body)
		}
		if err != nil {
			return unknown, "", fmt.Errorf("%s OPEN: %w", [...]string{"sent", "received"}[i], err)
		}
		b = rest
	}
	a = agree(opens[0], opens[1], locRIB)
	for len(b) > 0 {
		kind, value, rest, ok := cutTLV(b)
		if !ok {
			return a, table, errShort
		}
		if kind == tableName {
			table = text(value)
		}
		b = rest
	}
	return a, table, nil
}

// newPeer adds a peer. Where there are too many, one that is down goes.
func (s *session) newPeer(h perPeer) (*monitored, error) {
	if len(s.peers) >= s.router.cfg.Load().MaxPeers {
		var gone *monitored
		for _, p := range s.peers {
			if !p.up {
				gone = p
				break
			}
		}
		if gone == nil {
			return nil, ignored(IgnoredPeers)
		}
		s.locked(func() { delete(s.peers, gone.key) })
		if gone.feed != nil {
			s.discard(gone)
		}
	}
	who := "loc-rib"
	if h.kind != peerLocRIB {
		who = h.addr.String()
	}
	p := &monitored{key: h.peerKey, name: s.router.name + "/" + who, as: h.as, routerID: h.routerID, reported: make(map[Statistic]uint64)}
	if h.rd != 0 {
		p.name += "/" + h.rd.String()
	}
	s.locked(func() { s.peers[h.peerKey] = p })
	return p, nil
}

// peerDown takes in that a BGP session is over: its routes go.
func (s *session) peerDown(h perPeer, b []byte) error {
	p := s.peers[h.peerKey]
	if p == nil {
		return ignored(IgnoredNoPeerUp)
	}
	reason, damage := downReason(b)
	s.locked(func() {
		p.up, p.ups, p.early, p.lastDown = false, [2]bool{}, nil, reason
		if p.feed != nil {
			s.router.lower(p.feed, reason)
			s.account(p.feed)
		}
	})
	s.router.log.Warn("bmp peer down", "peer", p.name, "reason", reason)
	s.checkLoaded()
	return damage
}

// downReason says why a BGP session is over (RFC 7854, 4.9; RFC 9069, 5.3).
func downReason(b []byte) (string, error) {
	if len(b) < 1 {
		return "the router gives no reason", errShort
	}
	code, b := b[0], b[1:]
	switch code {
	case 1, 3:
		who := "the router has sent"
		if code == 3 {
			who = "the peer has sent"
		}
		kind, body, _, err := cutBGP(b)
		if err == nil && (kind != bgp.BGP_MSG_NOTIFICATION || len(body) < 2) {
			err = fmt.Errorf("BGP message of type %d and %d bytes is no NOTIFICATION", kind, len(body))
		}
		if err != nil {
			return who + " a NOTIFICATION", err
		}
		return fmt.Sprintf("%s NOTIFICATION %d/%d", who, body[0], body[1]), nil
	case 2:
		if len(b) < 2 {
			return "the router has closed the session", errShort
		}
		return fmt.Sprintf("the router has closed the session: event %d of its state machine", binary.BigEndian.Uint16(b)), nil
	case 4:
		return "the peer has closed the session", nil
	case 5:
		return "the router no longer monitors the peer", nil
	case 6:
		return "the router has closed the table", nil
	}
	return fmt.Sprintf("reason %d", code), nil
}

// statistics keeps the values of a Statistics Report.
func (s *session) statistics(h perPeer, b []byte) error {
	p := s.peers[h.peerKey]
	if p == nil {
		return ignored(IgnoredNoPeerUp)
	}
	if len(b) < 4 {
		return errShort
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	for range n {
		kind, value, rest, ok := cutTLV(b)
		if !ok {
			return errShort
		}
		st, v := Statistic{Type: kind}, uint64(0)
		switch len(value) {
		case 4:
			v = uint64(binary.BigEndian.Uint32(value))
		case 8:
			v = binary.BigEndian.Uint64(value)
		case 11:
			st.AFI, st.SAFI = binary.BigEndian.Uint16(value), value[2]
			v = binary.BigEndian.Uint64(value[3:])
		default:
			return fmt.Errorf("statistic %d of %d bytes", kind, len(value))
		}
		s.locked(func() {
			if _, known := p.reported[st]; known || len(p.reported) < maxReported {
				p.reported[st] = v
			}
		})
		b = rest
	}
	return nil
}

// mirroring counts what the router mirrors of its BGP sessions (RFC 7854, 4.7). Nothing of it
// changes a table: Route Monitoring says the same.
func (s *session) mirroring(b []byte) error {
	const message, information = 0, 1
	const erroredPDU, messagesLost = 0, 1
	c := &s.router.counters
	errored := false
	for len(b) > 0 {
		kind, value, rest, ok := cutTLV(b)
		if !ok {
			return errShort
		}
		switch {
		case kind == information && len(value) != 2:
			return fmt.Errorf("mirroring information of %d bytes", len(value))
		case kind == information && binary.BigEndian.Uint16(value) == erroredPDU:
			errored = true
		case kind == information && binary.BigEndian.Uint16(value) == messagesLost:
			c.mirrorLost.Add(1)
			s.log("bmp router could not mirror all", "messages lost")
		case kind == message:
			c.mirrored.Add(1)
			if errored {
				c.mirrorErrs.Add(1)
				s.log("bmp router has got a damaged message", "errored pdu", "message", hex.EncodeToString(value))
			}
		}
		b = rest
	}
	return nil
}

// monitoring applies an UPDATE.
func (s *session) monitoring(h perPeer, b []byte) error {
	view, out := h.view()
	if out {
		return ignored(IgnoredAdjRIBOut)
	}
	p, err := s.monitoredPeer(h)
	if err != nil {
		return err
	}
	fed := s.view(h.rd)
	switch {
	case p.refused != nil:
		return p.refused
	case fed != ViewFirst && fed != view:
		return ignored(IgnoredView)
	}
	kind, body, _, err := cutBGP(b)
	if err != nil {
		return err
	}
	if kind != bgp.BGP_MSG_UPDATE {
		return fmt.Errorf("BGP message of type %d is no UPDATE", kind)
	}
	m := s.decode(p, view, h.flags&flagTwoByteAS != 0 && view != ViewLocRIB, body)
	switch {
	case p.feed != nil:
	case fed == ViewFirst && len(m.Updates) == 0: // no route: it decides nothing
		s.endEarly(p, view, m.EndOfRIB)
		return nil
	default:
		s.locked(func() { s.attach(p, view) })
		if p.refused != nil {
			return p.refused
		}
		s.decide(h.rd, view)
	}
	return s.apply(p, m)
}

// monitoredPeer is the peer of a Route Monitoring message. A Loc-RIB needs no Peer Up, though
// RFC 9069 asks for one: GoBGP sends none.
func (s *session) monitoredPeer(h perPeer) (*monitored, error) {
	p := s.peers[h.peerKey]
	if p != nil && p.up {
		return p, nil
	}
	if h.kind != peerLocRIB || p != nil {
		return nil, ignored(IgnoredNoPeerUp)
	}
	p, err := s.newPeer(h)
	if err != nil {
		return nil, err
	}
	s.locked(func() { p.up, p.agreement = true, agreement{ipv4: true, ipv6: true, internal: true} })
	return p, nil
}

// view is what feeds the table of a VRF; ViewFirst where that is not decided.
func (s *session) view(rd distinguisher) View {
	if v := s.router.cfg.Load().View; v != ViewFirst {
		return v
	}
	return s.views[rd]
}

// decide takes down which view feeds the table of a VRF, and puts in what peers have ended early.
func (s *session) decide(rd distinguisher, view View) {
	if s.view(rd) != ViewFirst {
		return
	}
	s.views[rd] = view
	for _, p := range s.peers {
		ended := p.early[view]
		if p.key.rd != rd || ended == [2]bool{} {
			continue
		}
		if p.feed == nil && p.refused == nil {
			s.locked(func() { s.attach(p, view) })
		}
		for family, is := range ended {
			if is && p.feed != nil {
				s.endOfRIB(p, family == 1)
			}
		}
		p.early = nil
	}
	s.checkLoaded()
}

// endEarly takes down an End-of-RIB of a peer in a VRF whose view is not decided.
func (s *session) endEarly(p *monitored, view View, family wire.Family) {
	if family == wire.NoFamily {
		return
	}
	if p.early == nil {
		p.early = make(map[View][2]bool)
	}
	ended := p.early[view]
	if family == wire.IPv6 {
		ended[1] = true
	} else {
		ended[0] = true
	}
	p.early[view] = ended
	s.router.sweepKept(p.feedName(view), family == wire.IPv6)
	s.checkLoaded()
}

// feedName is what the rib.Peer of a view is called.
func (p *monitored) feedName(view View) string {
	if view == ViewLocRIB {
		return p.name
	}
	return p.name + "/" + string(view)
}

// endedEarly tells whether a peer has ended its first load of any view without a route.
func (p *monitored) endedEarly() bool {
	for _, ended := range p.early {
		if (ended[0] || !p.agreement.ipv4) && (ended[1] || !p.agreement.ipv6) {
			return true
		}
	}
	return false
}

// attach gives a peer its feed: one that was kept, or a new one; or p.refused says why not.
func (s *session) attach(p *monitored, view View) {
	f, err := s.router.feed(s, p, view)
	if err != nil {
		p.refused = err
		return
	}
	p.feed = f
	s.raise(p, true)
}

// discard takes a peer's feed away.
func (s *session) discard(p *monitored) {
	s.router.discard(p.feed)
	s.recount(p.feed, 0, 0)
	p.feed = nil
	for _, other := range s.peers {
		if other.key.rd == p.key.rd && other.feed != nil {
			return
		}
	}
	delete(s.views, p.key.rd) // nothing feeds the VRF: else this would grow with what a router makes up
}

// raise tells the RIB that a peer's session is established.
func (s *session) raise(p *monitored, keep bool) {
	a := &p.agreement
	s.router.raise(p.feed, rib.Session{RouterID: p.routerID, Internal: a.internal, IPv4: a.ipv4, IPv6: a.ipv6},
		Peer{Router: s.router.name, Addr: p.feed.peer.Config().Addr, AS: p.as, LocalAS: a.localAS, Internal: a.internal, View: p.feed.view}, keep)
	s.account(p.feed)
}

// decode reads an UPDATE of a peer. What damage costs is counted.
func (s *session) decode(p *monitored, view View, twoByteAS bool, body []byte) wire.Message {
	c := &s.router.counters
	a := &p.agreement
	// What a policy made of a route, or the router chose, has attributes of the router's AS.
	opt := wire.Options{TwoByteAS: twoByteAS, External: view == ViewPre && !a.internal, Mirrored: true}
	if !s.router.cfg.Load().NoAddPath {
		opt.AddPath4, opt.AddPath6 = a.addPath4, a.addPath6
	}
	m, _ := s.decoder(opt).Decode(body) // the error is the damage
	if m.Damage != nil && a.twoByteAS && !opt.TwoByteAS {
		// FRR before 10 leaves the AS numbers in 2 bytes as the peer sent them, and says nothing.
		opt.TwoByteAS = true
		if other, _ := s.decoder(opt).Decode(body); other.Damage == nil {
			m = other
		}
	}
	verdict := m.Verdict()
	c.verdicts[verdict].Add(1)
	c.others.Add(uint64(m.Ignored))
	if m.Panic != nil {
		c.panics.Add(1)
		s.router.log.Error("bmp decoder panicked", "peer", p.name, "panic", m.Panic, "verdict", verdict.String(), "update", hex.EncodeToString(body))
	}
	if m.Damage != nil {
		s.log("bmp update damaged", p.name+": "+verdict.String(), "damage", m.Damage.Reason, "update", hex.EncodeToString(body))
	}
	return m
}

func (s *session) decoder(opt wire.Options) *wire.Decoder {
	d := s.decoders[opt]
	if d == nil {
		d = wire.NewDecoder(opt)
		s.decoders[opt] = d
	}
	return d
}

// apply puts what an UPDATE says into the RIB.
func (s *session) apply(p *monitored, m wire.Message) error {
	for _, u := range m.Updates {
		p.feed.peer.Apply(u)
	}
	s.account(p.feed)
	cfg := s.router.cfg.Load()
	switch {
	case s.routes > cfg.MaxRoutes:
		return &fatalError{&tooMuch{cfg.MaxRoutes, "routes"}}
	case s.attributes > int64(cfg.MaxAttributeBytes):
		return &fatalError{&tooMuch{cfg.MaxAttributeBytes, "bytes of path attributes"}}
	}
	if m.EndOfRIB != wire.NoFamily {
		s.endOfRIB(p, m.EndOfRIB == wire.IPv6)
		s.checkLoaded()
	}
	return nil
}

// endOfRIB tells the RIB that a peer has sent all that it had of a family.
func (s *session) endOfRIB(p *monitored, v6 bool) {
	p.feed.peer.EndOfRIB(v6)
	s.router.log.Info("bmp end of rib", "peer", p.feed.peer.Name(), "ipv6", v6)
}

// account brings s.routes and s.attributes up to date with a feed.
func (s *session) account(f *feed) {
	v4, v6 := f.peer.Received()
	s.recount(f, v4+v6, f.peer.AttributeBytes())
}

// recount makes a feed count for so much.
func (s *session) recount(f *feed, routes int, attributes int64) {
	s.routes += routes - f.routes
	s.attributes += attributes - f.attributes
	f.routes, f.attributes = routes, attributes
}

// checkLoaded tells the RIB when the first load of the router is complete: that of every peer
// which is up and feeds a table.
func (s *session) checkLoaded() {
	r := s.router
	if s.loaded || r.self == nil {
		return
	}
	cfg := r.cfg.Load()
	one := false
	for _, p := range s.peers {
		view := s.view(p.key.rd)
		_, wanted := cfg.table(r.name, p.key.rd)
		if !p.up || !wanted || p.refused != nil || view != ViewFirst && (view == ViewLocRIB) != (p.key.kind == peerLocRIB) {
			continue
		}
		switch {
		case p.feed != nil && !p.feed.peer.Status().Loaded:
			return
		case p.feed == nil && (view != ViewFirst || !p.endedEarly()):
			return
		}
		one = true
	}
	if one {
		s.loaded = true
		r.self.Loaded()
	}
}
