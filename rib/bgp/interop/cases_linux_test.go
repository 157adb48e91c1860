package interop

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// A row is one case, with every speaker.
type row struct {
	name string
	run  func(c *cell)
}

// cases are the rows of the matrix. Their names are keys of implementation.lacks.
var cases = []row{
	{"IPv4 over IPv4", families(false, true, false)},
	{"IPv6 over IPv4", families(false, false, true)},
	{"IPv4 over IPv6", families(true, true, false)},
	{"IPv6 over IPv6", families(true, false, true)},
	{"both families over IPv4", families(false, true, true)},
	{"both families over IPv6", families(true, true, true)},
	{"the speaker connects", whoConnects(theirs)},
	{"we connect", whoConnects(ours)},
	{"both connect (RFC 4271, 6.8)", whoConnects(either)},
	{"internal session", internal},
	{"neighbour by prefix", byPrefix},
	{"4-byte AS numbers (RFC 6793)", fourByteAS},
	{"speaker of 2-byte AS numbers (RFC 6793)", twoByteAS},
	{"wrong AS", wrongAS},
	{"IPv4 with IPv6 next hops (RFC 8950)", nextHop6},
	{"ADD-PATH (RFC 7911)", addPath},
	{"communities (RFC 1997)", communities},
	{"large communities (RFC 8092)", largeCommunities},
	{"extended communities (RFC 4360)", extendedCommunities},
	{"long messages (RFC 8654)", extendedMessages},
	{"withdrawals", withdrawals},
	{"route refresh (RFC 2918)", routeRefresh},
	{"enhanced route refresh (RFC 7313)", enhancedRefresh},
	{"the speaker stops", speakerStops},
	{"we stop, with a reason (RFC 9003)", weStop},
	{"the speaker is killed", speakerKilled},
	{"hold timer: the speaker hangs", holdTimer},
	{"maximum prefixes, and back after a time", maxPrefixes},
	{"graceful restart: killed and back (RFC 4724)", gracefulRestart},
	{"long-lived graceful restart (RFC 9494)", longLived},
	{"hold timer: routes are kept (RFC 8538)", keptOverNotification},
	{"TCP-MD5 (RFC 2385)", md5},
	{"TTL security (RFC 5082)", ttlSecurity},
	{"roles (RFC 9234)", roles},
	{"roles that do not fit (RFC 9234)", wrongRoles},
}

// peering is the usual one: the speaker connects, for IPv4.
func (c *cell) peering() *peering {
	who := theirs
	if c.with.waits {
		who = ours
	}
	return &peering{connects: who, ipv4: true, host: peerHost, with: ownHost, as: peerAS, ownAS: ownAS, holdTime: 90 * time.Second, routes: prefixes(3, false)}
}

// start runs the speaker.
func (c *cell) start(p *peering) instance {
	c.Helper()
	own := *p // it changes with what the speaker announces
	return c.with.start(c, c.folder(), &own)
}

// folder makes one for a speaker. Its path is short enough for that of a socket.
func (c *cell) folder() string {
	c.Helper()
	dir, err := os.MkdirTemp("", "interop")
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// together starts a service and a speaker and waits for the speaker's routes.
func (c *cell) together(p *peering, change func(*bgp.Config, *bgp.PeerConfig)) (*service, instance) {
	c.Helper()
	s := c.serve(p, change)
	i := c.start(p)
	s.awaitLoaded(p.routes)
	return s, i
}

// checkAttributes looks at what every route has: the speaker's AS before the rest, and a next hop.
func (s *service) checkAttributes(p *peering) {
	s.Helper()
	for prefix, paths := range s.routes() {
		for _, a := range paths {
			v6 := prefix.Addr().Is6()
			hop := address(s.number, p.host, v6 || p.nextHop6)
			if a.NextHop != hop {
				s.Errorf("%s: the next hop is %s, want %s", prefix, a.NextHop, hop)
			}
			if i := slices.IndexFunc(p.routes, func(r route) bool { return r.prefix == prefix }); p.as != p.ownAS {
				want := rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: append([]uint32{p.as}, p.routes[i].path...)})
				if a.ASPath != want {
					s.Errorf("%s: AS_PATH is %q, want %q", prefix, a.ASPath, want)
				}
			}
		}
	}
	if st := s.stats(); st.Verdicts[0] != st.Messages || st.Panics != 0 {
		s.Errorf("verdicts %v, %d panics", st.Verdicts, st.Panics)
	}
}

func families(over6, ipv4, ipv6 bool) func(c *cell) {
	return func(c *cell) {
		p := c.peering()
		p.over6, p.ipv4, p.ipv6, p.routes = over6, ipv4, ipv6, nil
		for _, v6 := range p.families() {
			p.routes = append(p.routes, prefixes(3, v6)...)
		}
		s, _ := c.together(p, nil)
		s.checkAttributes(p)
		open := s.stats().Session.Peer
		c.mustBe("families", []bool{open.IPv4, open.IPv6}, []bool{ipv4, ipv6})
	}
}

func whoConnects(who connects) func(c *cell) {
	return func(c *cell) {
		p := c.peering()
		p.connects = who
		s, _ := c.together(p, nil)
		if who != either {
			c.mustBe("inbound", s.stats().Session.Inbound, who == theirs)
		}
		c.mustBe("sessions", []uint64{s.stats().Ups, s.stats().Downs}, []uint64{1, 0})
	}
}

func internal(c *cell) {
	p := c.peering()
	p.as = p.ownAS
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	for prefix, paths := range s.routes() {
		if a := paths[0]; a.ASPath.Len() != 0 || !a.HasLocalPref {
			c.Errorf("%s: AS_PATH %q, LOCAL_PREF %v", prefix, a.ASPath, a.HasLocalPref)
		}
	}
}

func byPrefix(c *cell) {
	p := c.peering()
	p.connects = theirs
	s, _ := c.together(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) {
		cfg.Prefix, _ = cfg.Addr.Prefix(24)
		cfg.Addr, cfg.Passive, cfg.Limit = netip.Addr{}, false, 1
	})
	s.checkAttributes(p)
	c.mustBe("name", s.status().Name, "peer/"+c.peer(false).String())
}

func fourByteAS(c *cell) {
	p := c.peering()
	p.as, p.ownAS = 4200000001, 4200000002
	if !c.with.ownPath {
		p.routes[0].path = []uint32{4200000003, 64510}
	}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
}

func twoByteAS(c *cell) {
	p := c.peering()
	p.twoByteAS = true
	if !c.with.ownPath {
		p.routes[0].path = []uint32{4200000003, 64510} // comes in AS4_PATH
	}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("4-byte AS numbers", s.stats().Session.Peer.FourOctet, false)
}

func wrongAS(c *cell) {
	p := c.peering()
	s := c.serve(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.AS++ })
	c.start(p)
	c.await("refusal", func() bool { return s.stats().LastNotification != nil })
	n := s.stats().LastNotification
	c.mustBe("notification", []any{n.Sent, n.Code, n.Subcode}, []any{true, 2, 2})
	reason := fmt.Sprintf("wrong peer AS: expected %d, the peer has %d", peerAS+1, peerAS)
	c.await("reason", func() bool { return s.stats().LastError == reason })
	c.mustBe("sessions", s.stats().Ups, 0)
}

func nextHop6(c *cell) {
	p := c.peering()
	p.over6, p.nextHop6 = true, true
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("RFC 8950", s.stats().Session.Peer.ExtendedNextHop, true)
}

// addPath has a speaker with two paths to a prefix, of which one goes.
func addPath(c *cell) {
	p := c.peering()
	p.addPath = true
	prefix := p.routes[0].prefix
	p.routes = []route{{prefix: prefix, path: []uint32{64511}}, {prefix: prefix, path: []uint32{64512, 64513}}}
	var lose func()
	s := c.serve(p, nil)
	if c.with.onePath {
		if _, err := exec.LookPath(birdProgram); err != nil {
			fixtures.Missing(c.T, "%s is not installed (Debian's package %s): it has the paths for %s", bird.name, bird.debian, c.with.name)
		}
		for i, r := range p.routes {
			p.feeders = append(p.feeders, feeder{host: feederHost + i, as: r.path[0]})
		}
		own := *p
		own.routes = nil
		c.start(&own)
		for i, r := range p.routes {
			fed := &peering{ipv4: true, host: feederHost + i, with: peerHost, as: r.path[0], ownAS: p.as, holdTime: p.holdTime, routes: []route{{prefix: prefix, path: r.path[1:]}}}
			i := bird.start(c, c.folder(), fed)
			if lose == nil {
				lose = i.process().kill
			}
		}
	} else {
		i := c.start(p)
		lose = func() { i.announce(p.routes[1:]) }
	}
	s.awaitRoutes(p.routes)
	c.mustBe("ADD-PATH", s.stats().Session.Options.AddPath4, true)
	lose()
	s.awaitRoutes(p.routes[1:])
	c.mustBe("the path that is left", s.routes()[prefix][0].ASPath.String(), "64500 64512 64513")
}

func communities(c *cell) {
	p := c.peering()
	p.routes[0].standard = [][2]uint16{{64500, 1}, {64500, 65535}}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("communities", s.routes()[p.routes[0].prefix][0].Communities.Strings(), "[64500:1 64500:65535]")
}

func largeCommunities(c *cell) {
	p := c.peering()
	p.routes[0].large = [][3]uint32{{64500, 1, 2}, {4200000000, 4294967295, 0}}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("large communities", s.routes()[p.routes[0].prefix][0].LargeCommunities.Strings(), "[64500:1:2 4200000000:4294967295:0]")
}

func extendedCommunities(c *cell) {
	p := c.peering()
	p.routes[0].targets = [][2]uint32{{64500, 1}, {64500, 100000}}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("extended communities", s.routes()[p.routes[0].prefix][0].ExtCommunities.Strings(), "[rt:64500:1 rt:64500:100000]")
}

// extendedMessages has a route with more attributes than a message of 4096 bytes takes.
func extendedMessages(c *cell) {
	p := c.peering()
	p.extended = true
	for i := range uint32(400) {
		p.routes[0].large = append(p.routes[0].large, [3]uint32{peerAS, 1, i})
	}
	s, _ := c.together(p, nil)
	s.checkAttributes(p)
	c.mustBe("large communities", len(s.routes()[p.routes[0].prefix][0].LargeCommunities.Strings()), 400)
}

func withdrawals(c *cell) {
	p := c.peering()
	p.ipv6 = true
	p.routes = append(p.routes, prefixes(3, true)...)
	s, i := c.together(p, nil)
	left := slices.Concat(p.routes[1:3], p.routes[4:])
	i.announce(left)
	s.awaitRoutes(left)
	i.announce(nil)
	s.awaitRoutes(nil)
	i.announce(left[:1])
	s.awaitRoutes(left[:1])
	c.mustBe("sessions", []uint64{s.stats().Ups, s.stats().Downs}, []uint64{1, 0})
}

// forget takes a route out of what we have from the peer, which it does not know of.
func (s *service) forget(r route) { s.apply(rib.Update{Unreach: []rib.NLRI{{Prefix: r.prefix}}}) }

// invent puts a route in that the peer has never announced.
func (s *service) invent(r route) { s.apply(rib.Update{Reach: []rib.NLRI{{Prefix: r.prefix}}}) }

func (s *service) apply(u rib.Update) {
	s.Helper()
	p, ok := s.table.Peer("peer")
	if !ok {
		s.Fatal("the table has no peer")
	}
	p.Apply(u)
}

// routeRefresh brings a route back that we have lost.
func routeRefresh(c *cell) {
	p := c.peering()
	s, _ := c.together(p, nil)
	s.forget(p.routes[0])
	s.awaitRoutes(p.routes[1:])
	if err := s.Refresh("peer"); err != nil {
		c.Fatal(err)
	}
	s.awaitRoutes(p.routes)
	s.checkAttributes(p)
	c.mustBe("sessions", []uint64{s.stats().Ups, s.stats().Downs}, []uint64{1, 0})
}

// enhancedRefresh does away also with a route that the peer does not have.
func enhancedRefresh(c *cell) {
	p := c.peering()
	p.enhanced = true
	s, _ := c.together(p, nil)
	c.mustBe("RFC 7313", s.stats().Session.Peer.EnhancedRefresh, true)
	s.forget(p.routes[0])
	s.invent(prefixes(4, false)[3])
	s.awaitRoutes(prefixes(4, false)[1:])
	if err := s.Refresh("peer"); err != nil {
		c.Fatal(err)
	}
	s.awaitRoutes(p.routes)
	c.mustBe("sessions", []uint64{s.stats().Ups, s.stats().Downs}, []uint64{1, 0})
}

func speakerStops(c *cell) {
	p := c.peering()
	s, i := c.together(p, nil)
	c.stop(i.process())
	s.awaitDown()
	if n := s.stats().LastNotification; n != nil {
		c.mustBe("notification", []any{n.Sent, n.Code}, []any{false, 6})
	}
}

func weStop(c *cell) {
	p := c.peering()
	s, i := c.together(p, nil)
	s.Stop()
	c.await("the reason in the speaker's log", func() bool { return i.process().logged("the service stops") })
}

func speakerKilled(c *cell) {
	p := c.peering()
	s, i := c.together(p, nil)
	i.process().kill()
	s.awaitDown()
}

func holdTimer(c *cell) {
	p := c.peering()
	p.holdTime = 3 * time.Second
	s, i := c.together(p, nil)
	c.mustBe("hold time", s.stats().Session.Peer.HoldTime, p.holdTime)
	i.process().signal(syscall.SIGSTOP)
	s.awaitDown()
	n := s.stats().LastNotification
	c.mustBe("notification", []any{n.Sent, n.Code}, []any{true, 4})
	i.process().signal(syscall.SIGCONT)
	s.awaitLoaded(p.routes)
}

func maxPrefixes(c *cell) {
	p := c.peering()
	const rest = 3 * time.Second // speakers try again sooner
	s := c.serve(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.MaxPrefixes4, cfg.MaxPrefixesRestart = 2, rest })
	i := c.start(p)
	c.await("too many prefixes", func() bool { return s.stats().PrefixesExceeded == 1 })
	s.awaitDown()
	n := s.stats().LastNotification
	code := []byte{n.Code, n.Subcode}
	if n.Code == 6 && n.Subcode == 9 { // Hard Reset of what is in it (RFC 8538)
		code = n.Data[:2]
	}
	c.mustBe("notification", []any{n.Sent, code}, []any{true, []byte{6, 1}})
	i.announce(p.routes[:2])
	s.awaitLoaded(p.routes[:2])
	if after := s.stats().Since.Sub(s.stats().LastNotification.Time); after < rest {
		c.Errorf("the session is back after %v", after)
	}
}

func gracefulRestart(c *cell) {
	p := c.peering()
	p.ipv6, p.restart = true, 120*time.Second
	p.routes = append(p.routes, prefixes(3, true)...)
	s, i := c.together(p, nil)
	// One route of each family is not announced again.
	kept := slices.Concat(p.routes[1:3], p.routes[4:])
	end := s.watch(kept)
	i.process().kill()
	c.await("stale routes", func() bool { st := s.status(); return st.State == "stale" && st.Stale4 == 3 && st.Stale6 == 3 })
	for _, r := range p.routes {
		c.await("mark of "+r.prefix.String(), func() bool { return s.lookup(r.prefix.Addr()).Stale })
	}
	again := *p
	again.routes, again.restarted = kept, true
	c.start(&again)
	s.awaitRoutes(kept)
	c.await("session without stale routes", func() bool { st := s.status(); return st.State == "established" && st.Stale4+st.Stale6 == 0 })
	for _, r := range kept {
		c.await("end of the mark of "+r.prefix.String(), func() bool { return !s.lookup(r.prefix.Addr()).Stale })
	}
	c.await("end of a route that is not announced again", func() bool { return s.lookup(p.routes[0].prefix.Addr()).Prefix != p.routes[0].prefix })
	c.Logf("%d lookups found their routes", end())
	c.mustBe("sessions", []uint64{s.stats().Ups, s.stats().Downs}, []uint64{2, 1})
}

func longLived(c *cell) {
	p := c.peering()
	p.restart, p.longLived = time.Second, time.Hour
	p.routes[2].standard = [][2]uint16{{65535, 7}} // NO_LLGR
	s, i := c.together(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.LongLivedStaleTime = time.Hour })
	end := s.watch(p.routes[:2])
	i.process().kill()
	c.await("the end of the restart time", func() bool { return s.log.Contains("long-lived now") })
	s.awaitRoutes(p.routes[:2])
	c.mustBe("stale routes", s.status().Stale4, 2)
	again := *p
	again.restarted = true
	c.start(&again)
	s.awaitRoutes(p.routes)
	c.await("session without stale routes", func() bool { st := s.status(); return st.State == "established" && st.Stale4 == 0 })
	c.Logf("%d lookups found their routes", end())
}

// keptOverNotification: a session that ends with a NOTIFICATION is one that was lost.
func keptOverNotification(c *cell) {
	p := c.peering()
	p.holdTime, p.restart, p.notification = 3*time.Second, 120*time.Second, true
	s, i := c.together(p, nil)
	c.mustBe("RFC 8538", s.stats().Session.Peer.Restart.Notification, true)
	end := s.watch(p.routes)
	i.process().signal(syscall.SIGSTOP)
	c.await("stale routes", func() bool { st := s.status(); return st.State == "stale" && st.Stale4 == 3 })
	n := s.stats().LastNotification
	c.mustBe("notification", []any{n.Sent, n.Code}, []any{true, 4})
	c.Logf("%d lookups found their routes", end())
	i.process().signal(syscall.SIGCONT)
	c.await("session without stale routes", func() bool { st := s.status(); return st.State == "established" && st.Stale4 == 0 })
	s.awaitRoutes(p.routes)
}

func md5(c *cell) {
	p := c.peering()
	p.md5 = "secret"
	s := c.serve(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.MD5 = "another" })
	c.start(p)
	c.await("a SYN that is not answered", c.waitsForAnswer)
	c.mustBe("sessions", s.stats().Ups, 0)
	s.reload(func(cfg *bgp.PeerConfig) { cfg.MD5 = p.md5 })
	s.awaitLoaded(p.routes)
}

// waitsForAnswer tells whether one of us has sent a SYN that was dropped: over loopback the answer
// would be there before the call returns.
func (c *cell) waitsForAnswer() bool {
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		c.Fatal(err)
	}
	hexadecimal := func(a netip.Addr) string { // in the byte order of the host
		b := a.As4()
		return fmt.Sprintf("%08X:", binary.NativeEndian.Uint32(b[:]))
	}
	for line := range strings.Lines(string(sockets)) {
		f := strings.Fields(line) // number, local address, remote address, state
		if own, peer := hexadecimal(c.own(false)), hexadecimal(c.peer(false)); len(f) > 3 && f[3] == "02" &&
			(strings.HasPrefix(f[1], own) && strings.HasPrefix(f[2], peer) || strings.HasPrefix(f[1], peer) && strings.HasPrefix(f[2], own)) {
			return true
		}
	}
	return false
}

func ttlSecurity(c *cell) {
	p := c.peering()
	p.ttlSecurity = true
	s, _ := c.together(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.TTLSecurity = 1 })
	s.checkAttributes(p)
}

func roles(c *cell) {
	p := c.peering()
	p.role = "provider"
	s, _ := c.together(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.Role, cfg.StrictRole = fsm.RoleCustomer, true })
	s.checkAttributes(p)
	c.mustBe("role", s.stats().Session.Peer.Role, fsm.RoleProvider)
	for prefix, paths := range s.routes() {
		if a := paths[0]; !a.HasOTC || a.OTC != p.as {
			c.Errorf("%s: OTC %d", prefix, a.OTC)
		}
	}
}

func wrongRoles(c *cell) {
	p := c.peering()
	p.role = "provider"
	s := c.serve(p, func(_ *bgp.Config, cfg *bgp.PeerConfig) { cfg.Role = fsm.RolePeer })
	c.start(p)
	c.await("refusal", func() bool { return s.stats().LastNotification != nil })
	n := s.stats().LastNotification
	c.mustBe("notification", []any{n.Code, n.Subcode}, []any{2, 11})
	c.await("reason", func() bool { return strings.Contains(strings.ToLower(s.stats().LastError), "role") })
	c.mustBe("sessions", s.stats().Ups, 0)
}
