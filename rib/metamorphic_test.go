package rib_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// choices is where a stream of operations comes from: a seeded generator, or a fuzzer's bytes.
type choices interface{ IntN(n int) int }

type byteChoices struct{ bytes []byte }

func (c *byteChoices) IntN(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

// modelPeer is a peer of the model: all that it has announced and not withdrawn.
type modelPeer struct {
	config  rib.PeerConfig
	session rib.Session
	peer    *rib.Peer
	state   string
	policy  *policy // nil for none
	routes  map[rib.NLRI]modelRoute
}

type modelRoute struct {
	attrs rib.Attrs
	// stale: kept from a lost session; longLived: for long; unconfirmed: since a refresh began
	stale, longLived, unconfirmed bool
}

// A policy rejects whatever its salt has it reject.
type policy struct{ salt atomic.Uint32 }

func (p *policy) Check(prefix netip.Prefix, a *rib.Attrs) rib.Reject {
	n := p.salt.Load() + 5*uint32(prefix.Bits()) + 3*a.MED + uint32(a.ASPath.Len())
	if n%3 > 0 {
		return rib.Accepted
	}
	return rib.RejectMartian + rib.Reject(n/3)%(rib.NumRejects-rib.RejectMartian)
}

// world is a RIB with its publisher and, beside it, a model that knows only what every peer
// announced and works everything else out anew each time.
type world struct {
	rib       *rib.RIB
	engine    *mapEngine
	publisher *rib.Publisher
	peers     []*modelPeer
	igp       costs
	named     int // peers so far
}

func newWorld() *world {
	w := &world{engine: &mapEngine{}, igp: costs{netip.MustParseAddr("10.0.1.1"): 10}}
	w.rib = rib.New(rib.Options{LocalAS: localAS, IGP: w.igp})
	w.publisher = rib.NewPublisher(w.rib, w.engine, rib.PublisherOptions{
		Source: "test", MinInterval: time.Microsecond, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) addPeer(c choices) error {
	w.named++
	m := &modelPeer{
		config: rib.PeerConfig{
			Name: fmt.Sprintf("peer%d", w.named), Kind: rib.KindBGP,
			Addr: netip.AddrFrom4([4]byte{10, 0, 2, byte(c.IntN(3))}),
		},
		state:  "down",
		routes: map[rib.NLRI]modelRoute{},
	}
	var err error
	if m.peer, err = w.rib.AddPeer(m.config); err != nil {
		return err
	}
	m.up(c)
	w.peers = append(w.peers, m)
	return nil
}

func (m *modelPeer) up(c choices) {
	m.session = rib.Session{
		RouterID: netip.AddrFrom4([4]byte{10, 0, 3, byte(c.IntN(2))}), Internal: c.IntN(3) == 0,
		KeepIPv4: c.IntN(2) == 0, KeepIPv6: c.IntN(2) == 0,
	}
	m.peer.Up(m.session)
	m.state = "established"
	m.each(func(n rib.NLRI, r *modelRoute) (keep bool) {
		r.stale, r.unconfirmed = true, false
		return m.keeps(isV6(n))
	})
}

func (m *modelPeer) keeps(v6 bool) bool {
	return !v6 && m.session.KeepIPv4 || v6 && m.session.KeepIPv6
}

// each changes the routes and drops those that change does not keep.
func (m *modelPeer) each(change func(n rib.NLRI, r *modelRoute) (keep bool)) {
	for n, r := range m.routes {
		if change(n, &r) {
			m.routes[n] = r
		} else {
			delete(m.routes, n)
		}
	}
}

func isV6(n rib.NLRI) bool { return n.Prefix.Addr().Is6() }

// change has a peer send a message of a few prefixes, or something happen to its session.
func (m *modelPeer) change(c choices) {
	if c.IntN(12) == 0 {
		m.event(c)
		return
	}
	u := randomUpdate(c)
	m.peer.Apply(u)
	m.applied(u, false)
}

func randomUpdate(c choices) (u rib.Update) {
	for range c.IntN(4) {
		u.Unreach = append(u.Unreach, randomNLRI(c))
	}
	for range c.IntN(4) {
		u.Reach = append(u.Reach, randomNLRI(c))
	}
	u.Attrs = randomAttrs(c)
	u.Attrs.NextHop = netip.AddrFrom4([4]byte{10, 0, 1, byte(c.IntN(3))})
	return u
}

func (m *modelPeer) applied(u rib.Update, stale bool) {
	for _, n := range u.Unreach {
		delete(m.routes, n)
	}
	for _, n := range u.Reach {
		m.routes[n] = modelRoute{attrs: u.Attrs, stale: stale}
	}
	clear(u.Unreach) // the slices are the caller's again
	clear(u.Reach)
}

func (m *modelPeer) event(c choices) {
	v6 := c.IntN(2) == 0
	switch c.IntN(12) {
	case 0:
		m.peer.Down("test")
		m.state = "down"
		clear(m.routes)
	case 1, 2:
		was := m.state
		m.peer.Retain("test")
		m.state = "stale"
		m.each(func(_ rib.NLRI, r *modelRoute) bool {
			twice := was != "stale" && r.stale && !r.longLived
			r.stale, r.unconfirmed = true, false
			return !twice
		})
	case 3, 4:
		m.up(c)
	case 5:
		m.peer.LongLived(false)
		m.peer.LongLived(true)
		m.each(func(_ rib.NLRI, r *modelRoute) bool {
			forbidden := r.stale && !r.longLived && slices.Contains(r.attrs.Communities.Strings(), "65535:7")
			r.longLived = r.stale
			return !forbidden
		})
	case 6:
		m.peer.MarkStale(v6)
		m.each(func(n rib.NLRI, r *modelRoute) bool {
			r.unconfirmed = r.unconfirmed || isV6(n) == v6 && !r.stale
			return true
		})
	case 7:
		m.peer.Sweep(v6)
		m.each(func(n rib.NLRI, r *modelRoute) bool { return isV6(n) != v6 || !r.stale && !r.unconfirmed })
	case 8:
		m.peer.EndOfRIB(v6)
		if m.state == "established" && m.keeps(v6) {
			m.each(func(n rib.NLRI, r *modelRoute) bool { return isV6(n) != v6 || !r.stale })
		}
		if v6 {
			m.session.KeepIPv6 = false
		} else {
			m.session.KeepIPv4 = false
		}
	case 9:
		m.policy = nil
		if c.IntN(2) == 0 {
			m.policy = &policy{}
			m.policy.salt.Store(uint32(c.IntN(30)))
			m.peer.SetImport(m.policy)
		} else {
			m.peer.SetImport(nil)
		}
	case 10:
		if m.policy != nil {
			m.policy.salt.Store(uint32(c.IntN(30)))
		}
		m.peer.Reconsider()
	case 11:
		u := randomUpdate(c)
		u.Unreach = nil // does not count
		m.peer.Restore(u)
		if m.state != "established" {
			m.state = "stale"
			m.applied(u, true)
		}
	}
}

// offer is a route of the peer as the oracle wants it.
func (m *modelPeer) offer(n rib.NLRI, r modelRoute) offer {
	o := offer{peer: m.config, session: m.session, pathID: n.PathID, attrs: r.attrs, stale: r.stale, longLived: r.longLived}
	if m.policy != nil {
		o.reject = m.policy.Check(n.Prefix, &r.attrs)
	}
	return o
}

// status works out what the peer's status says of its routes.
func (m *modelPeer) status() (s rib.PeerStatus) {
	words := map[string]rib.Reject{}
	for r := range rib.NumRejects {
		words[r.String()] = r
	}
	for n, r := range m.routes {
		total, stale := &s.V4, &s.Stale4
		if isV6(n) {
			total, stale = &s.V6, &s.Stale6
		}
		*total++
		if r.stale {
			*stale++
		}
		if word := m.offer(n, r).rejected(); word != "" {
			s.Rejected[words[word]]++
		}
	}
	s.Name, s.State = m.config.Name, m.state
	return s
}

// randomNLRI picks from few prefixes, so that peers meet and flaps happen.
func randomNLRI(c choices) rib.NLRI {
	n := rib.NLRI{PathID: uint32(c.IntN(2))}
	if c.IntN(3) == 0 {
		bits := []int{0, 32, 48, 64, 65, 128}[c.IntN(6)]
		a := [16]byte{0x20, 0x01, 5: byte(c.IntN(3)), 7: 1, 8: byte(c.IntN(2)) << 7, 15: 1}
		n.Prefix = netip.PrefixFrom(netip.AddrFrom16(a), bits).Masked()
		return n
	}
	bits := []int{0, 8, 16, 24, 32}[c.IntN(5)]
	n.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(c.IntN(3)), byte(c.IntN(3)), 1}), bits).Masked()
	return n
}

// wanted works the best route to every prefix out of what the peers announced, and how many have a path
// that nothing but the IGP takes out.
func (w *world) wanted() (want map[netip.Prefix]rib.Route, usable int) {
	offers := map[netip.Prefix][]offer{}
	peers := map[string]*rib.Peer{}
	for _, m := range w.peers {
		peers[m.config.Name] = m.peer
		for n, r := range m.routes {
			offers[n.Prefix] = append(offers[n.Prefix], m.offer(n, r))
		}
	}
	want = map[netip.Prefix]rib.Route{}
	for prefix, of := range offers {
		if slices.ContainsFunc(of, func(o offer) bool { return o.rejected() == "" }) {
			usable++
		}
		if best, _ := oracle(of, w.igp); best >= 0 {
			o := of[best]
			want[prefix] = rib.Route{Prefix: prefix, Path: unique.Make(o.attrs), Peer: peers[o.peer.Name], PathID: o.pathID, Stale: o.stale}
		}
	}
	return want, usable
}

// check compares the RIB and its newest generation with the model.
func (w *world) check() error {
	want, usable := w.wanted()
	g := w.publisher.Generations().Acquire()
	if g == nil {
		return errors.New("no generation")
	}
	defer g.Release()
	got := contents(g)
	if !maps.Equal(got, want) {
		return fmt.Errorf("generation %d holds\n%v\nwant\n%v", g.Number, got, want)
	}
	v4, v6 := w.rib.Counts()
	if v4+v6 != usable || g.V4+g.V6 != len(want) {
		return fmt.Errorf("RIB counts %d + %d, want %d in all; generation %d + %d, want %d", v4, v6, usable, g.V4, g.V6, len(want))
	}
	for _, m := range w.peers {
		if err := m.check(); err != nil {
			return err
		}
	}
	if n := w.publisher.Stats().Pending; n != 0 {
		return fmt.Errorf("%d changes pending behind a flush", n)
	}
	return w.engine.problem()
}

// check compares a peer with its model.
func (m *modelPeer) check() error {
	sum := 0
	for n, p := range m.peer.Routes() {
		if r, ok := m.routes[n]; !ok || r.attrs != p.Value() {
			return fmt.Errorf("%s has %v with %+v, want %+v (%t)", m.config.Name, n, p.Value(), r.attrs, ok)
		}
		sum++
	}
	if sum != len(m.routes) {
		return fmt.Errorf("%s has %d routes, want %d", m.config.Name, sum, len(m.routes))
	}
	got, want := m.peer.Status(), m.status()
	if got.StaleSince.IsZero() != (got.Stale4+got.Stale6 == 0) {
		return fmt.Errorf("%s: %d + %d stale since %v", m.config.Name, got.Stale4, got.Stale6, got.StaleSince)
	}
	v4, v6 := m.peer.Received()
	if v4 != want.V4-want.Stale4 || v6 != want.V6-want.Stale6 {
		return fmt.Errorf("%s: received %d + %d, want %+v", m.config.Name, v4, v6, want)
	}
	if got = (rib.PeerStatus{
		Name: got.Name, State: got.State, V4: got.V4, V6: got.V6, Stale4: got.Stale4, Stale6: got.Stale6, Rejected: got.Rejected,
	}); got != want {
		return fmt.Errorf("status %+v, want %+v", got, want)
	}
	return nil
}

// contents gives a generation's routes by prefix, as its table finds them.
func contents(g *rib.Generation) map[netip.Prefix]rib.Route {
	routes := map[netip.Prefix]rib.Route{}
	for p, h := range g.Table.(*mapTable).handles {
		routes[p] = g.Route(h)
	}
	return routes
}

// run does random operations on random peers and checks every flush. Builds fail at times: then
// the generation must stay, and nothing may be lost.
func (w *world) run(c choices, operations int) error {
	for range 3 {
		if err := w.addPeer(c); err != nil {
			return err
		}
	}
	for range operations {
		switch n := c.IntN(100); {
		case n == 0 && len(w.peers) > 1:
			i := c.IntN(len(w.peers))
			w.rib.RemovePeer(w.peers[i].peer)
			w.peers[i].change(c) // changes nothing any more
			w.peers = slices.Delete(w.peers, i, i+1)
		case n == 1 && len(w.peers) < 6:
			if err := w.addPeer(c); err != nil {
				return err
			}
		case n == 2:
			w.igp = maps.Clone(w.igp)
			w.igp[netip.AddrFrom4([4]byte{10, 0, 1, byte(c.IntN(3))})] = [...]uint64{rib.UnreachableCost, 1, 10, 1 << 33}[c.IntN(4)]
			w.rib.SetIGP(w.igp)
		case n < 10:
			if err := w.failedFlush(); err != nil {
				return err
			}
		case n < 30:
			if err := w.publisher.Flush(context.Background()); err != nil {
				return err
			}
			if err := w.check(); err != nil {
				return err
			}
		default:
			w.peers[c.IntN(len(w.peers))].change(c)
		}
	}
	return w.end()
}

func (w *world) failedFlush() error {
	broken := errors.New("out of memory")
	w.engine.set(func(e *mapEngine) { e.failing = broken })
	defer w.engine.set(func(e *mapEngine) { e.failing = nil })
	before := w.publisher.Generations().Acquire()
	if before != nil {
		defer before.Release()
	}
	err := w.publisher.Flush(context.Background())
	after := w.publisher.Generations().Acquire()
	if after != nil {
		defer after.Release()
	}
	if after != before || err != nil && !errors.Is(err, broken) {
		return fmt.Errorf("failed flush (%w) replaced the generation", err)
	}
	return nil
}

// end takes everything away and checks that nothing is left.
func (w *world) end() error {
	if err := errors.Join(w.publisher.Flush(context.Background()), w.check()); err != nil {
		return err
	}
	for _, m := range w.peers {
		w.rib.RemovePeer(m.peer)
	}
	w.peers = nil
	if err := errors.Join(w.publisher.Flush(context.Background()), w.check()); err != nil {
		return err
	}
	w.engine.mu.Lock()
	open := w.engine.open
	w.engine.mu.Unlock()
	if open != 1 {
		return fmt.Errorf("%d tables open, want only the published one", open)
	}
	if used := rib.HandlesInUse(w.rib); used != 0 {
		return fmt.Errorf("%d handles in use without a route", used)
	}
	return nil
}

func TestGenerationsAgreeWithModel(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		if err := newWorld().run(rand.New(rand.NewPCG(seed, 0)), 1000); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzGenerationsAgreeWithModel(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("announce, withdraw, lose the session and announce again"))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := newWorld().run(&byteChoices{bytes}, min(len(bytes), 2000)); err != nil {
			t.Fatal(err)
		}
	})
}

// Peers change at once, generations follow, readers look things up in each: every answer must
// fit its generation, and in the end the generation must be what the peers ended with.
func TestReadersSeeConsistentGenerations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 4 {
		if err := w.addPeer(rng); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var background, senders sync.WaitGroup
	background.Go(func() {
		if err := w.publisher.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	for n := range 2 {
		background.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+n)))
			for last := uint64(0); ctx.Err() == nil; {
				if err := readOnce(w.publisher, rng, &last); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	for n, m := range w.peers {
		senders.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(1+n)))
			for n := 0; n < 1000 || w.publisher.Stats().Generations < 200; n++ {
				m.change(rng)
				runtime.Gosched() // there are more goroutines than processors
			}
		})
	}
	senders.Wait()
	if err := w.publisher.Flush(context.Background()); err != nil {
		t.Error(err)
	}
	stop()
	background.Wait()
	if err := errors.Join(w.check(), w.end()); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	t.Logf("%+v", w.publisher.Stats())
}

// readOnce asks the newest generation a few things.
func readOnce(p *rib.Publisher, rng *rand.Rand, last *uint64) error {
	g := p.Generations().Acquire()
	if g == nil {
		return nil
	}
	defer g.Release()
	if g.Number < *last {
		return fmt.Errorf("generation %d after %d", g.Number, *last)
	}
	*last = g.Number
	v4, v6 := 0, 0
	for prefix, h := range g.Table.(*mapTable).handles {
		if got := g.Route(h); got.Prefix != prefix || got.Peer == nil {
			return fmt.Errorf("generation %d: handle %d of %s is the route %v", g.Number, h, prefix, got)
		}
		if prefix.Addr().Is4() {
			v4++
		} else {
			v6++
		}
	}
	if v4 != g.V4 || v6 != g.V6 {
		return fmt.Errorf("generation %d says %d + %d routes, its table has %d + %d", g.Number, g.V4, g.V6, v4, v6)
	}
	addr := netip.AddrFrom4([4]byte{10, byte(rng.IntN(4)), byte(rng.IntN(4)), byte(rng.IntN(2))})
	dst := make([]lpm.Handle, 1)
	if err := g.Table.Lookup4(dst, []uint32{lpm.Addr4(addr)}); err != nil {
		return fmt.Errorf("generation %d: %w", g.Number, err)
	}
	if dst[0] != lpm.None && !g.Route(dst[0]).Prefix.Contains(addr) {
		return fmt.Errorf("generation %d: %s found %s", g.Number, addr, g.Route(dst[0]).Prefix)
	}
	return nil
}

// A message that moves a route from one prefix to another is never seen half done, whatever
// the publisher does meanwhile.
func TestMessagesAreAtomic(t *testing.T) {
	w := newWorld()
	p, err := w.rib.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) []rib.NLRI {
		return []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n)}), 16)}}
	}
	p.Apply(rib.Update{Reach: at(0)})
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() {
		for ctx.Err() == nil {
			if err := w.publisher.Flush(context.Background()); err != nil {
				t.Error(err)
			}
			g := w.publisher.Generations().Acquire()
			if g.V4 != 1 {
				t.Errorf("generation %d holds %d routes, want 1", g.Number, g.V4)
			}
			g.Release()
		}
	})
	for n := 0; n < 1000 || w.publisher.Stats().Generations < 1000; n++ {
		p.Apply(rib.Update{Unreach: at(n % 7), Reach: at((n + 1) % 7)})
		runtime.Gosched()
	}
	stop()
	background.Wait()
	if err := w.engine.problem(); err != nil {
		t.Error(err)
	}
}
