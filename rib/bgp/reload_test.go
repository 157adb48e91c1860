package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// reject is a policy that lets nothing in.
type reject struct{}

func (reject) Check(netip.Prefix, *rib.Attrs) rib.Reject { return rib.RejectPrefix }

// somePolicies is a PolicyFunc with "accept", "reject" and no other.
func somePolicies(name string, _ PeerConfig) (rib.Import, error) {
	switch name {
	case "accept":
		return nil, nil
	case "reject":
		return reject{}, nil
	}
	return nil, errors.New("it is not there")
}

// three are passive peers at 127.77.0.2, .3 and .4 with a session and a route each.
func three(t *testing.T) (*service, map[string]*speaker) {
	t.Helper()
	var peers []PeerConfig
	for i, name := range []string{"p", "q", "r"} {
		peers = append(peers, PeerConfig{Name: name, Addr: netip.AddrFrom4([4]byte{127, 77, 0, byte(2 + i)}), AS: peerAS, Passive: true, Import: "accept"})
	}
	s := start(t, nil, peers...)
	all := make(map[string]*speaker)
	for _, c := range peers {
		p := dial(t, s, c.Addr)
		p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
		p.send(msgUpdate, update4(path4, net10...)...)
		all[c.Name] = p
	}
	await(t, "routes", func() bool {
		n := 0
		for _, p := range s.rib.Peers() {
			n += p.V4
		}
		return n == 3
	})
	return s, all
}

func TestReload(t *testing.T) {
	s, all := three(t)
	next := s.config
	kept, changed := next.Peers[0], next.Peers[1]
	kept.Import, kept.Optional, kept.MaxPrefixes4 = "reject", true, 100
	changed.HoldTime = 30 * time.Second
	next.Peers = []PeerConfig{changed, {Name: "new", Addr: netip.MustParseAddr("127.77.0.5"), AS: peerAS, Passive: true, Import: "accept", Table: "other"}, kept}
	done, err := s.Reload(next, somePolicies)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, done, Changes{Added: []string{"new"}, Removed: []string{"r"}, Restarted: []string{"q"}, Kept: []string{"p"}})
	mustBe(t, all["r"].notification(), []byte{6, 3})
	mustBe(t, all["q"].notification(), []byte{6, 6})
	var st rib.PeerStatus
	for _, p := range s.rib.Peers() {
		if p.Name == "p" {
			st = p
		}
	}
	mustBe(t, []any{len(s.rib.Peers()), st.State, st.V4, st.Awaited, st.Rejected[rib.RejectPrefix]}, []any{2, "established", 1, false, 1})
	v4, _ := s.rib.Counts()
	mustBe(t, v4, 0)
	var names []string
	for _, p := range s.Stats().Peers {
		names = append(names, fmt.Sprint(p.Name, " ", p.Established, " ", p.Ups))
	}
	mustBe(t, names, []string{"q false 0", "new false 0", "p true 1"})

	// All are served on, the kept one over the connection that it had.
	all["p"].send(msgUpdate, update4(path4, 8, 11)...)
	for name, addr := range map[string]string{"q": "127.77.0.3", "new": "127.77.0.5"} {
		p := dial(t, s, netip.MustParseAddr(addr))
		p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
		await(t, "session of "+name, func() bool { found, err := s.find(name); return err == nil && found.stats().Established })
	}
	await(t, "next route", func() bool { return s.neighbours[2].all()[0].routes.peer().Status().V4 == 2 })
	stranger := dial(t, s, netip.MustParseAddr("127.77.0.4"))
	if _, _, err := stranger.receive(); err == nil {
		t.Error("the removed peer was answered")
	}
}

// TestReloadThatFails: nothing has changed.
func TestReloadThatFails(t *testing.T) {
	s, all := three(t)
	if _, err := s.rib.AddPeer(rib.PeerConfig{Name: "taken"}); err != nil {
		t.Fatal(err)
	}
	added := PeerConfig{Name: "new", Addr: netip.MustParseAddr("127.77.0.5"), AS: peerAS, Passive: true, Import: "accept"}
	for want, change := range map[string]func(*Config){
		"AS number is missing":          func(c *Config) { c.Peers[1].AS = 0 },
		`policy "other": it is not`:     func(c *Config) { c.Peers[0].Import = "other" },
		`table "none": no such table`:   func(c *Config) { c.Peers[0].Table = "none" },
		`add peer "taken"`:              func(c *Config) { c.Peers[2] = added; c.Peers[2].Name = "taken" },
		"another program listens there": func(c *Config) { c.Listen = []string{c.Listen[0], s.Addrs()[0].String()}; c.Peers[2] = added },
	} {
		next := s.config
		next.Peers = append([]PeerConfig(nil), s.config.Peers...)
		change(&next)
		if _, err := s.Reload(next, somePolicies); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		mustBe(t, []any{len(s.Stats().Peers), len(s.rib.Peers()), len(s.Addrs())}, []any{3, 4, 1})
	}
	for name, p := range all {
		p.send(msgUpdate, update4(path4, 8, 11)...)
		found, _ := s.find(name)
		await(t, "route of "+name, func() bool { return found.routes.peer().Status().V4 == 2 })
		mustBe(t, found.stats().Downs, 0)
	}
}

func TestReloadOfOurselves(t *testing.T) {
	s, all := three(t)
	next := s.config
	next.RouterID = netip.MustParseAddr("192.0.2.98")
	done, err := s.Reload(next, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, done.Restarted, []string{"p", "q", "r"})
	mustBe(t, all["p"].notification(), []byte{6, 6})
	p := dial(t, s, peerAddr)
	mustBe(t, p.expect(msgOpen)[5:9], next.RouterID.AsSlice())
}

func TestReloadOfListeners(t *testing.T) {
	s, all := three(t)
	next := s.config
	next.Listen = []string{"127.77.0.9:0"}
	if _, err := s.Reload(next, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, []any{len(s.Addrs()), s.Addrs()[0].Addr()}, []any{1, "127.77.0.9"})
	all["p"].send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "route over a connection to the former address", func() bool { return len(s.routes()) == 2 })
	all["q"].send(msgNotification, 6, 4)
	await(t, "end", func() bool { return s.Stats().Peers[1].Downs == 1 })
	p := dial(t, s, netip.MustParseAddr("127.77.0.3"))
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.Stats().Peers[1].Ups == 2 })
}

// TestReloadLowersTheBound below what is there.
func TestReloadLowersTheBound(t *testing.T) {
	s, all := three(t)
	all["p"].send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "second route", func() bool { return len(s.routes()) == 2 })
	next := s.config
	next.Peers = append([]PeerConfig(nil), s.config.Peers...)
	next.Peers[0].MaxPrefixes4 = 1
	if _, err := s.Reload(next, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, all["p"].notification(), []byte{6, 1})
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	if _, err := s.Reload(s.config, nil); err != nil { // as it was: the peer may come back
		t.Fatal(err)
	}
	mustBe(t, s.Stats().Peers[0].State, Active)
}

// TestReloadOfAPrefix: its neighbours stay, and their policy is the new one.
func TestReloadOfAPrefix(t *testing.T) {
	s := start(t, nil, inPrefix)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { v4, _ := s.rib.Counts(); return v4 == 1 })
	next := s.config
	next.Peers = []PeerConfig{inPrefix}
	next.Peers[0].Import, next.Peers[0].Limit = "reject", 1
	done, err := s.Reload(next, somePolicies)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, done.Kept, []string{"any"})
	v4, _ := s.rib.Counts()
	mustBe(t, []any{v4, s.rib.Peers()[0].Rejected[rib.RejectPrefix]}, []any{0, 1})
	next.Peers = nil
	if done, err = s.Reload(next, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, done.Removed, []string{"any"})
	mustBe(t, p.notification(), []byte{6, 3})
	mustBe(t, len(s.rib.Peers()), 0)
}

func TestWithoutAPolicyNothingIsChosen(t *testing.T) {
	s := start(t, func(c *Config) { c.Peers[0].Import = "" }, passivePeer)
	if !s.log.Contains("no import policy") {
		t.Error("the log does not tell")
	}
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	v4, _ := s.rib.Counts()
	mustBe(t, []any{v4, s.Stats().Peers[0].Rejected[rib.RejectNoPolicy]}, []any{0, 1})
}

func TestInternalPeerNeedsNoPolicy(t *testing.T) {
	cfg := passivePeer
	cfg.AS = ownAS
	s := start(t, func(c *Config) { c.Peers[0].Import = "" }, cfg)
	p := dial(t, s, peerAddr)
	p.establish(openBody(ownAS, 90, as4(ownAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "best route", func() bool { v4, _ := s.rib.Counts(); return v4 == 1 })
}

func TestFirstAS(t *testing.T) {
	cfg := passivePeer
	cfg.EnforceFirstAS = true
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, update4([]byte{2, 1, 0, 0, 0xfb, 0xf5}, net10...)...) // 64501
	p.send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "routes", func() bool { return len(s.routes()) == 2 })
	v4, _ := s.rib.Counts()
	mustBe(t, []any{v4, s.Stats().Peers[0].Rejected[rib.RejectFirstAS]}, []any{1, 1})
}

// TestRouteLeaks sends routes with and without the OTC attribute (RFC 9234, 5).
func TestRouteLeaks(t *testing.T) {
	const other = 64501
	for ours, c := range map[fsm.Role]struct {
		theirs byte
		leaks  int // of: no OTC, OTC with the peer's AS, OTC with another
	}{
		fsm.RoleProvider: {3, 2}, fsm.RoleRS: {2, 2}, fsm.RolePeer: {4, 1}, fsm.RoleCustomer: {0, 0}, fsm.RoleRSClient: {1, 0},
	} {
		t.Run(ours.String(), func(t *testing.T) {
			cfg := passivePeer
			cfg.Role, cfg.StrictRole = ours, true
			s := start(t, nil, cfg)
			p := dial(t, s, peerAddr)
			p.establish(openBody(peerAS, 90, as4(peerAS), mp4, role(c.theirs)))
			p.send(msgUpdate, update4(path4, net10...)...)
			p.send(msgUpdate, withOTC(update4(path4, 8, 11), peerAS)...)
			p.send(msgUpdate, withOTC(update4(path4, 8, 12), other)...)
			await(t, "routes", func() bool { return len(s.routes()) == 3 })
			v4, _ := s.rib.Counts()
			mustBe(t, []any{v4, s.Stats().Peers[0].Rejected[rib.RejectRole]}, []any{3 - c.leaks, c.leaks})
			if ours == fsm.RolePeer { // which one
				mustBe(t, s.rib.Paths(netip.MustParsePrefix("12.0.0.0/8"))[0].LostBy, "route-leak")
			}
		})
	}
}

func TestRolesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		strict bool
		caps   []byte
	}{"two providers": {false, role(0)}, "none, and it has to be": {true, nil}} {
		t.Run(name, func(t *testing.T) {
			cfg := passivePeer
			cfg.Role, cfg.StrictRole = fsm.RoleProvider, c.strict
			s := start(t, nil, cfg)
			p := dial(t, s, peerAddr)
			p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4, c.caps)...)
			mustBe(t, p.notification(), []byte{2, 11})
			await(t, "reason", func() bool { return strings.Contains(s.Stats().Peers[0].LastError, "ole") })
		})
	}
}
