package bmp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

func TestFramingLost(t *testing.T) {
	for name, c := range map[string]struct {
		bytes []byte
		says  string
	}{
		"version 4":              {[]byte{4, 0, 0, 0, 6, 4}, "version 4"},
		"shorter than a header":  {[]byte{3, 0, 0, 0, 5, 4}, "of 5 bytes"},
		"no end in sight":        {[]byte{3, 0xff, 0xff, 0xff, 0xff, 0}, "of 4294967295 bytes"},
		"a byte too long":        {[]byte{3, 0, 2, 0, 1, 0}, "of 131073 bytes"},
		"BGP":                    {bgpMessage(4), "version 255"},
		"cut in the header":      {[]byte{3, 0, 0}, "in the middle"},
		"cut in the body":        {monitor(pre1, announce("10.1.0.0/16"))[:60], "in the middle"},
		"closed between the two": {nil, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil, r1, RouterConfig{Name: "r2", Addr: otherAddr})
			r, other := join(t, s, routerAddr), join(t, s, otherAddr)
			for _, r := range []*scripted{r, other} {
				r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
			}
			s.has("default", "r1/192.0.2.1/pre", 1)
			s.has("default", "r2/192.0.2.1/pre", 1)
			r.send(c.bytes)
			if strings.HasPrefix(name, "c") {
				if err := r.Conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			r.closed()
			await(t, "withdrawal", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
			if e := s.peer("default", "r1").LastError; !strings.Contains(e, c.says) {
				t.Errorf("reason: %q", e)
			}
			mustBe(t, "routes of the other router", s.peer("default", "r2/192.0.2.1/pre").V4, 1)
		})
	}
}

func TestLongestMessage(t *testing.T) {
	s := start(t, nil, r1)
	r := join(t, s, routerAddr)
	r.send(up(pre1), raw(Initiation, []byte{0, 0, 0xff, 0xff}, make([]byte, 65535), []byte{0, 0, 0xff, 0xef}, make([]byte, maxMessage-6-65535-8)),
		monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	mustBe(t, "damaged", s.stats("r1").Damaged, 0)
}

// A router may be silent between messages for as long as it likes, and not within one.
func TestSilence(t *testing.T) {
	s := start(t, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond }, r1)
	r := join(t, s, routerAddr)
	message := monitor(pre1, announce("10.0.0.0/8"))
	time.Sleep(500 * time.Millisecond)
	r.send(up(pre1), message)
	s.has("default", "r1/192.0.2.1/pre", 1)
	time.Sleep(500 * time.Millisecond)
	mustBe(t, "connected", s.stats("r1").Connected, true)
	for i := range message { // a byte a while is as good as silence
		if _, err := r.Write(message[i : i+1]); err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
		if !s.stats("r1").Connected {
			break
		}
	}
	await(t, "the end", func() bool { return !s.stats("r1").Connected })
	if e := s.stats("r1").LastError; !strings.Contains(e, "silent in the middle of a message") {
		t.Errorf("reason: %q", e)
	}
}

func TestHalfOpen(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxHalfOpen = 3 }, RouterConfig{Name: "lab", Prefix: netip.MustParsePrefix("127.78.0.0/24"), Limit: 2})
	connect(t, s, netip.MustParseAddr("127.79.0.2")).closed() // no router
	a := netip.MustParseAddr("127.78.0.10")
	b := netip.MustParseAddr("127.78.0.11")
	first, second := connect(t, s, a), connect(t, s, a)
	await(t, "half-open", func() bool { return s.Stats().HalfOpen == 2 })
	connect(t, s, a).closed() // the third of an address
	third := connect(t, s, b)
	await(t, "half-open", func() bool { return s.Stats().HalfOpen == 3 })
	connect(t, s, routerAddr).closed() // the fourth of all
	mustBe(t, "refused", s.Stats().Refused, 3)
	mustBe(t, "routers", len(s.Stats().Routers), 0)
	_ = second.Close()
	await(t, "half-open", func() bool { return s.Stats().HalfOpen == 2 })
	first.send(hello())
	third.send(hello())
	await(t, "routers", func() bool { return s.stats("lab/127.78.0.10").Connected && s.stats("lab/127.78.0.11").Connected })
	mustBe(t, "half-open", s.Stats().HalfOpen, 0)
	join(t, s, netip.MustParseAddr("127.78.0.12")).closed() // the third router of the prefix
	_ = third.Close()
	await(t, "a router less", func() bool { return len(s.Stats().Routers) == 1 })
	r := join(t, s, netip.MustParseAddr("127.78.0.12"))
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "lab/127.78.0.12/192.0.2.1/pre", 1)
}

func TestNoInitiation(t *testing.T) {
	s := start(t, func(c *Config) { c.OpenTimeout = 50 * time.Millisecond }, r1)
	for _, bytes := range [][]byte{nil, up(pre1), []byte("GET / HTTP/1.1\r\n\r\n")} {
		r := connect(t, s, routerAddr)
		r.send(bytes)
		r.closed()
	}
	await(t, "refusal", func() bool { return s.Stats().Refused == 3 })
	mustBe(t, "half-open", s.Stats().HalfOpen, 0)
	mustBe(t, "connections", s.stats("r1").Ups, 0)
}

func TestRoutersOfAPrefixAreBounded(t *testing.T) {
	lab := RouterConfig{Name: "lab", Prefix: netip.MustParsePrefix("127.78.0.0/24")}
	s := start(t, func(c *Config) { c.MaxRouters = 2 }, r1, lab)
	join(t, s, netip.MustParseAddr("127.78.0.10"))
	await(t, "the first", func() bool { return s.stats("lab/127.78.0.10").Connected })
	join(t, s, netip.MustParseAddr("127.78.0.11")).closed()
	join(t, s, routerAddr) // the one with an address of its own
	await(t, "the router", func() bool { return s.stats("r1").Connected })
}

func TestStale(t *testing.T) {
	c := r1
	c.StaleTime = time.Hour
	s := start(t, nil, c)
	name, gone := "r1/192.0.2.1/pre", "r1/192.0.2.2/pre"
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre2), monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")), monitor(pre2, announce("10.2.0.0/16")), monitor(pre1, endOfRIB4))
	s.has("default", name, 2)
	s.has("default", gone, 1)
	_ = r.Close()
	await(t, "stale routes", func() bool { return s.peer("default", name).Stale4 == 2 && s.peer("default", gone).Stale4 == 1 })
	mustBe(t, "state", s.peer("default", name).State, "stale")

	r = join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	await(t, "a route that is back", func() bool { return s.peer("default", name).Stale4 == 1 })
	mustBe(t, "routes", s.peer("default", name).V4, 2)
	r.send(monitor(pre1, endOfRIB4))
	s.has("default", name, 1)
	mustBe(t, "routes of a peer that is not back", s.peer("default", gone).Stale4, 1)
	r.send(monitor(pre1, announce("10.3.0.0/16")))
	s.has("default", name, 2)

	// What expires is the peer that is not back, and nothing of the other.
	routers := s.of("r1")
	routers[0].expire()
	mustBe(t, "peer that is not back", s.peer("default", gone).Name, "")
	mustBe(t, "routes of the peer that is back", s.peer("default", name).V4, 2)

	// A session that ends while the router is there takes its routes.
	r.send(down(pre1, 4))
	s.has("default", name, 0)
	_ = r.Close()
	await(t, "a peer that was down when the router went", func() bool { return s.peer("default", name).Name == "" })
}

// A router that is back and never ends its first load keeps nothing for ever.
func TestStaleRoutesExpireWithoutEndOfRIB(t *testing.T) {
	c := r1
	c.StaleTime = time.Hour
	s := start(t, nil, c)
	name := "r1/192.0.2.1/pre"
	r := join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")))
	s.has("default", name, 2)
	_ = r.Close()
	await(t, "stale routes", func() bool { return s.peer("default", name).Stale4 == 2 })
	r = join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	await(t, "a route that is back", func() bool { return s.peer("default", name).Stale4 == 1 })
	s.of("r1")[0].expire()
	mustBe(t, "routes", s.peer("default", name).V4, 1)
	mustBe(t, "state", s.peer("default", name).State, "established")
}

func TestStaleTimePasses(t *testing.T) {
	c := r1
	c.StaleTime = time.Millisecond
	s := start(t, nil, c)
	for range 2 {
		r := join(t, s, routerAddr)
		r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
		s.has("default", "r1/192.0.2.1/pre", 1)
		_ = r.Close()
		await(t, "expiry", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
	}
}

func TestNewConnectionReplacesTheOld(t *testing.T) {
	c := r1
	c.StaleTime = time.Hour
	s := start(t, nil, c)
	old := join(t, s, routerAddr)
	old.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	half := connect(t, s, routerAddr) // does not, before it says hello
	await(t, "half-open", func() bool { return s.Stats().HalfOpen == 1 })
	old.send(monitor(pre1, announce("10.1.0.0/16")))
	s.has("default", "r1/192.0.2.1/pre", 2)
	half.send(hello())
	old.closed()
	await(t, "stale routes", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Stale4 == 2 })
	half.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")), monitor(pre1, endOfRIB4))
	s.has("default", "r1/192.0.2.1/pre", 1)
	st := s.stats("r1")
	mustBe(t, "connections", st.Ups, 2)
	mustBe(t, "lost", st.Downs, 1)
}

func TestActive(t *testing.T) {
	l, err := net.Listen("tcp", routerAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := r1
	c.Port = uint16(l.Addr().(*net.TCPAddr).Port)
	s := start(t, func(c *Config) { c.Listen, c.ConnectRetry = nil, 20*time.Millisecond }, c)
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := &scripted{t, conn}
		r.send(hello(), up(pre1), monitor(pre1, announce("10.0.0.0/8")))
		s.has("default", "r1/192.0.2.1/pre", 1)
		_ = r.Close()
		s.has("default", "r1/192.0.2.1/pre", 0)
	}
	_ = l.Close()
	await(t, "the reason", func() bool { return strings.Contains(s.stats("r1").LastError, "connect to the router") })
}

func TestPeersAreBounded(t *testing.T) {
	c := r1
	c.MaxPeers = 2
	s := start(t, nil, c)
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre2), up(pre6), monitor(pre6, announce("10.0.0.0/8")), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	st := s.stats("r1")
	mustBe(t, "ignored", st.Ignored[IgnoredPeers], 1)
	mustBe(t, "ignored", st.Ignored[IgnoredNoPeerUp], 1)
	r.send(down(pre1, 4), up(pre6), monitor(pre6, announce("10.0.0.0/8"))) // takes the place of one that is down
	s.has("default", "r1/2001:db8::6/pre", 1)
	mustBe(t, "the peer that was down", s.peer("default", "r1/192.0.2.1/pre").Name, "")
	mustBe(t, "peers", len(s.stats("r1").Peers), 2)
}

func TestRoutesAreBounded(t *testing.T) {
	c := r1
	c.MaxRoutes, c.StaleTime = 3, time.Hour
	s := start(t, nil, c, RouterConfig{Name: "r2", Addr: otherAddr})
	other := join(t, s, otherAddr)
	other.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r2/192.0.2.1/pre", 1)
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre2))
	for range 3 { // what is withdrawn does not count
		r.send(monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")), monitor(pre1, withdraw("10.0.0.0/8", "10.1.0.0/16")),
			monitor(pre2, announce("10.0.0.0/8", "10.1.0.0/16")), down(pre2, 4), up(pre2))
	}
	r.send(monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")), monitor(pre2, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 2)
	s.has("default", "r1/192.0.2.2/pre", 1)
	r.send(monitor(pre2, announce("10.2.0.0/16")))
	r.closed()
	await(t, "withdrawal", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
	if e := s.peer("default", "r1").LastError; !strings.Contains(e, "more than 3 routes") {
		t.Errorf("reason: %q", e)
	}
	join(t, s, routerAddr).closed()
	mustBe(t, "connections", s.stats("r1").Ups, 1)
	mustBe(t, "routes of the other router", s.peer("default", "r2/192.0.2.1/pre").V4, 1)
}

func TestAttributesAreBounded(t *testing.T) {
	c := r1
	c.MaxAttributeBytes, c.StaleTime = 10_000, time.Hour
	s := start(t, nil, c)
	r := join(t, s, routerAddr)
	heavy := func(prefix string, mark byte) []byte {
		communities := bytes.Repeat([]byte{0, 1, 0, mark}, 1000)
		return updateOf(nil, append(slices.Clone(goodAttrs), attr(0xd0, 8, communities...)), nlri(prefix))
	}
	r.send(up(pre1), up(pre2))
	for i := range byte(9) { // what is replaced or withdrawn does not count
		r.send(monitor(pre1, heavy("10.0.0.0/8", i)), monitor(pre2, heavy("10.0.0.0/8", i)), monitor(pre2, withdraw("10.0.0.0/8")))
	}
	r.send(monitor(pre2, heavy("10.1.0.0/16", 1)))
	s.has("default", "r1/192.0.2.1/pre", 1)
	s.has("default", "r1/192.0.2.2/pre", 1)
	r.send(monitor(pre2, heavy("10.2.0.0/16", 2)))
	r.closed()
	await(t, "withdrawal", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
	if e := s.peer("default", "r1").LastError; !strings.Contains(e, "more than 10000 bytes of path attributes") {
		t.Errorf("reason: %q", e)
	}
}

func TestPanicCostsOneMessage(t *testing.T) {
	c := r1
	c.VRFTable = "panics:{rd}"
	s := start(t, nil, c)
	r := join(t, s, routerAddr)
	const rd = 64500<<32 | 1
	r.send(up(pre1), up(pre1.in(rd)), monitor(pre1.in(rd), announce("10.0.0.0/8")), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	mustBe(t, "panics", s.stats("r1").Panics, 1)
	mustBe(t, "connections", s.stats("r1").Ups, 1)
}

// While the RIB waits for its publisher the router waits, too; what ends its connection does not.
func TestEndWhileTheRIBWaits(t *testing.T) {
	for name, end := range map[string]func(*service){
		"stop":           func(s *service) { s.Stop() },
		"a new one":      func(s *service) { join(s.t, s, routerAddr).send(up(pre2), monitor(pre2, endOfRIB4)) },
		"removed by hup": func(s *service) { _, _ = s.Reload(Config{Log: s.Station.log}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, nil, rib.Options{MaxPending: 1}, nil, r1)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			r := join(t, s, routerAddr)
			r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")), monitor(pre1, announce("10.1.0.0/16")), monitor(pre1, announce("10.2.0.0/16")))
			s.has("default", "r1/192.0.2.1/pre", 1)
			await(t, "the second message", func() bool { return s.stats("r1").Messages[RouteMonitoring] == 2 })
			end(s)
			await(t, "its end", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
		})
	}
}

// An importer rejects everything, or nothing.
type importer struct{ reject rib.Reject }

func (i importer) Check(netip.Prefix, *rib.Attrs) rib.Reject { return i.reject }

func TestImportPolicy(t *testing.T) {
	var seen []Peer
	policies := func(name string, p Peer) (rib.Import, error) {
		seen = append(seen, p)
		switch name {
		case "none":
			return importer{rib.RejectPrefix}, nil
		case "all":
			return importer{}, nil
		}
		return nil, errors.New("no such policy")
	}
	c := r1
	c.Import = "none"
	s := prepare(t, nil, rib.Options{}, policies, c)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	mustBe(t, "rejected", s.peer("default", "r1/192.0.2.1/pre").Rejected[rib.RejectPrefix], 1)
	mustBe(t, "asked for", seen[len(seen)-1], Peer{Router: "r1", Addr: peer1, AS: peerAS, LocalAS: routerAS, View: ViewPre})

	cfg := *s.config()
	cfg.Routers[0].Import = "all"
	changes, err := s.Reload(cfg, policies)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, "changes", fmt.Sprint(changes), "{[] [] [] [r1]}")
	mustBe(t, "rejected", s.peer("default", "r1/192.0.2.1/pre").Rejected[rib.RejectPrefix], 0)
	mustBe(t, "connections", s.stats("r1").Ups, 1)
	cfg.Routers = slices.Clone(cfg.Routers)
	cfg.Routers[0].Import = "nothing"
	if _, err := s.Reload(cfg, policies); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("an unknown policy: %v", err)
	}
}

func TestReload(t *testing.T) {
	second := RouterConfig{Name: "r2", Addr: otherAddr}
	lab := RouterConfig{Name: "lab", Prefix: netip.MustParsePrefix("127.78.1.0/24")}
	s := start(t, nil, r1, second, lab)
	kept, moved, dynamic := join(t, s, routerAddr), join(t, s, otherAddr), join(t, s, netip.MustParseAddr("127.78.1.5"))
	for _, r := range []*scripted{kept, moved, dynamic} {
		r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	}
	s.has("default", "r1/192.0.2.1/pre", 1)
	s.has("default", "r2/192.0.2.1/pre", 1)
	s.has("default", "lab/127.78.1.5/192.0.2.1/pre", 1)
	mustBe(t, "awaited", len(s.ribs["default"].Pending()), 2)

	cfg := *s.config()
	changed := r1
	changed.Optional, changed.StaleTime = true, time.Hour
	second.Table = "elsewhere"
	third := RouterConfig{Name: "r3", Addr: netip.MustParseAddr("127.78.0.9")}
	cfg.Listen = append(slices.Clone(cfg.Listen), netip.MustParseAddr("127.78.0.7").String()+":0")
	cfg.Routers = []RouterConfig{changed, second, third}
	changes, err := s.Reload(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, "changes", fmt.Sprint(changes), "{[r3] [lab] [r2] [r1]}")
	moved.closed()
	dynamic.closed()
	mustBe(t, "addresses", len(s.Addrs()), 2)
	mustBe(t, "awaited", strings.Join(s.ribs["default"].Pending(), " "), "r3")
	mustBe(t, "a router that is no more", s.peer("default", "lab/127.78.1.5/192.0.2.1/pre").Name, "")
	mustBe(t, "a router of another table", s.peer("default", "r2/192.0.2.1/pre").Name, "")
	join(t, s, otherAddr).send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	s.has("elsewhere", "r2/192.0.2.1/pre", 1)
	kept.send(monitor(pre1, announce("10.1.0.0/16")))
	s.has("default", "r1/192.0.2.1/pre", 2)
	_ = kept.Close()
	await(t, "what is now kept as stale", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Stale4 == 2 })

	before := s.Addrs()
	cfg.Listen = []string{cfg.Listen[1], "192.0.2.1:1"} // not an address of this host
	if _, err := s.Reload(cfg, nil); err == nil || !strings.Contains(err.Error(), "not one of this host") {
		t.Errorf("an address of another host: %v", err)
	}
	mustBe(t, "addresses behind a failure", len(s.Addrs()), len(before))
	cfg.Listen = cfg.Listen[:1]
	if _, err := s.Reload(cfg, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "addresses", len(s.Addrs()), 1)
	s.Stop()
	if _, err := s.Reload(cfg, nil); err == nil {
		t.Error("a station that has stopped took a configuration")
	}
}

// Routes of a saved generation are there before their router is.
func TestAdopt(t *testing.T) {
	c := r1
	c.StaleTime, c.VRFTable, c.MaxTables, c.MaxPeers = time.Hour, "{rd}", 2, 3
	lab := RouterConfig{Name: "lab", Prefix: netip.MustParsePrefix("127.78.1.0/24"), StaleTime: time.Hour, View: ViewPost}
	s := prepare(t, nil, rib.Options{}, nil, c, lab, RouterConfig{Name: "r2", Addr: otherAddr})
	restored := func(table, name string, addr netip.Addr) *rib.Peer {
		t.Helper()
		p, err := s.Adopt(table, rib.PeerConfig{Name: name, Kind: rib.KindBMP, Addr: addr, AS: peerAS})
		if err != nil {
			t.Fatal(err)
		}
		p.Restore(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("10.1.0.0/16")}}})
		return p
	}
	restored("default", "r1/192.0.2.1/pre", peer1)
	restored("64500:1", "r1/192.0.2.1/64500:1/pre", peer1)
	restored("default", "lab/127.78.1.5/192.0.2.1/post", peer1)
	mustBe(t, "state", s.peer("default", "r1/192.0.2.1/pre").State, "stale")
	for _, name := range []string{"r1/192.0.2.1/pre", "r2/192.0.2.1/pre", "r9/192.0.2.1/pre", "r1", "lab/192.0.2.1/pre", "lab/x/192.0.2.1/pre"} {
		if _, err := s.Adopt("default", rib.PeerConfig{Name: name}); err == nil {
			t.Errorf("adopted %s", name)
		}
	}
	refused := func(table, name string) {
		t.Helper()
		if _, err := s.Adopt(table, rib.PeerConfig{Name: name}); err == nil {
			t.Errorf("adopted %s in table %s", name, table)
		}
	}
	refused("elsewhere", "r1/192.0.2.2/pre") // the configuration has them in another table now
	refused("64500:1", "r1/192.0.2.2/pre")
	refused("default", "lab/127.78.1.5/192.0.2.2/pre")
	refused("default", "r1/192.0.2.2/64500:1/pre")
	refused("64500:2", "lab/127.78.1.5/192.0.2.2/64500:2/pre")
	refused("64500:2", "r1/192.0.2.2/64500:2/pre") // a table too many
	restored("default", "r1/loc-rib", routerAddr)
	refused("default", "r1/192.0.2.2/pre") // a peer too many
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
	await(t, "a route that is back", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Stale4 == 1 })
	r.send(monitor(pre1, endOfRIB4))
	s.has("default", "r1/192.0.2.1/pre", 1)
	mustBe(t, "routes of a VRF that is not back", s.peer("64500:1", "r1/192.0.2.1/64500:1/pre").Stale4, 2)
	d := join(t, s, netip.MustParseAddr("127.78.1.5"))
	d.send(up(pre1), monitor(post1, endOfRIB4))
	s.has("default", "lab/127.78.1.5/192.0.2.1/post", 0)
}

// A table without peers may be dropped between the moments that it is asked for and that a peer
// comes into it. Then it is asked for again.
func TestTableThatIsGoneIsOpenedAgain(t *testing.T) {
	gone, open := 0, rib.New(rib.Options{})
	tables := func(string) (*rib.RIB, error) {
		if gone++; gone%2 == 1 {
			closed := rib.New(rib.Options{})
			closed.Close()
			return closed, nil
		}
		return open, nil
	}
	c := r1
	c.StaleTime = time.Hour
	s, err := New(Config{Listen: []string{stationAddr.String() + ":0"}, Routers: []RouterConfig{c}}, tables, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if _, err := s.Adopt("default", rib.PeerConfig{Name: "r1/192.0.2.1/pre", Kind: rib.KindBMP, Addr: peer1, AS: peerAS}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "peers", len(open.Peers()), 2)
}

// strict is a policy that takes nothing.
type strict struct{}

func (strict) Check(netip.Prefix, *rib.Attrs) rib.Reject { return rib.RejectPrefix }

// What was saved goes through the policy of now, not that of then.
func TestAdoptedRoutesAreJudged(t *testing.T) {
	c := r1
	c.StaleTime, c.Import = time.Hour, "strict"
	s := prepare(t, nil, rib.Options{}, func(string, Peer) (rib.Import, error) { return strict{}, nil }, c)
	p, err := s.Adopt("default", rib.PeerConfig{Name: "r1/192.0.2.1/pre", Kind: rib.KindBMP, Addr: peer1, AS: peerAS})
	if err != nil {
		t.Fatal(err)
	}
	p.Restore(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}})
	if got := p.Status(); got.Rejected[rib.RejectPrefix] != 1 {
		t.Errorf("rejected %v", got.Rejected)
	}
}

func TestConfigurationErrors(t *testing.T) {
	at := netip.MustParseAddr
	for want, c := range map[string]Config{
		"either its address or a prefix": {Routers: []RouterConfig{{Name: "x"}}},
		"address or a prefix":            {Routers: []RouterConfig{{Addr: routerAddr, Prefix: netip.MustParsePrefix("10.0.0.0/8")}}},
		"host bits":                      {Routers: []RouterConfig{{Prefix: netip.MustParsePrefix("10.0.0.1/8")}}},
		"none of a host":                 {Routers: []RouterConfig{{Addr: at("0.0.0.0"), Port: 1}}},
		"no / in a name":                 {Routers: []RouterConfig{{Name: "a/b", Addr: routerAddr, Port: 1}}},
		"a port is to connect":           {Routers: []RouterConfig{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 1}}},
		`view "both" is unknown`:         {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, View: "both"}}},
		"lacks {rd}":                     {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, VRFTable: "{router}"}}},
		"a stale time of -1s":            {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, StaleTime: -time.Second}}},
		"a limit of -1 bytes":            {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, MaxAttributeBytes: -1}}},
		"a limit of -1 routes":           {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, MaxRoutes: -1}}},
		"a limit of -1: ":                {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, MaxPeers: -1}}},
		"a limit of -2: ":                {MaxRouters: -2},
		"a time of -1s":                  {ReadTimeout: -time.Second},
		"there is no address to listen":  {Routers: []RouterConfig{r1}},
		"is there twice":                 {Routers: []RouterConfig{{Name: "x", Addr: routerAddr, Port: 1}, {Name: "x", Addr: otherAddr, Port: 1}}},
		`is router "x"`:                  {Routers: []RouterConfig{{Name: "x", Addr: routerAddr, Port: 1}, {Name: "y", Addr: routerAddr, Port: 2}}},
		"at most 1 may be connected":     {MaxRouters: 1, Routers: []RouterConfig{{Addr: routerAddr, Port: 1}, {Addr: otherAddr, Port: 1}}},
		"no import policy":               {Routers: []RouterConfig{{Addr: routerAddr, Port: 1, Import: "customers"}}},
	} {
		s, err := New(c, func(string) (*rib.RIB, error) { return rib.New(rib.Options{}), nil }, nil)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	home := rib.New(rib.Options{})
	if _, err := home.AddPeer(rib.PeerConfig{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	tables := func(string) (*rib.RIB, error) { return home, nil }
	routers := []RouterConfig{{Name: "a", Addr: routerAddr, Port: 1}, {Name: "b", Addr: otherAddr, Port: 1}}
	if _, err := New(Config{Routers: routers}, tables, nil); !errors.Is(err, rib.ErrPeerExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	mustBe(t, "peers left behind", len(home.Peers()), 1)
	s := prepare(t, func(c *Config) { c.Listen = []string{"192.0.2.1:1"} }, rib.Options{}, nil, r1)
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "not one of this host") {
		t.Errorf("an address of another host: %v", err)
	}
}
