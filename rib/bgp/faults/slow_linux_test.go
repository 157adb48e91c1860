package faults

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
)

// TestByteASecond has peers that send a byte a second, of an OPEN or of an UPDATE: the timers count
// messages, and end them.
func TestByteASecond(t *testing.T) {
	t.Parallel()
	holdTime := seconds(t, minimalHold)
	limit := time.Duration(holdTime) * time.Second
	n := newNetwork()
	s := start(t, options{at: n.own(), config: func(c *bgp.Config) { c.OpenTimeout = limit }},
		bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)},
		bgp.PeerConfig{Name: "open", Addr: n.host(0, 3)},
		bgp.PeerConfig{Name: "update", Addr: n.host(0, 4)})
	w := s.witness(t, "witness", n.host(0, 2))

	var dribbling sync.WaitGroup
	dribble := func(p *speaker, m []byte) {
		dribbling.Go(func() {
			for i := 0; ; i++ {
				if p.write(m[i%len(m):][:1]) != nil {
					return
				}
				select {
				case <-p.over:
					return
				case <-time.After(time.Second):
				}
			}
		})
	}
	open := dial(t, s, n.host(0, 3))
	go open.read()
	update := dial(t, s, n.host(0, 4))
	update.establish(t, holdTime)
	update.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
	await(t, "route", func() bool { return s.has(numbered(20, 0)) })
	since := time.Now()
	update.silence()
	dribble(open, openOf(90, slices.Repeat(ipv4, 20))) // an OPEN that takes longer than the timer
	dribble(update, updateOf(netip.Prefix{}, slices.Repeat([]netip.Prefix{numbered(20, 1)}, 100)...))
	w.during(t, func() {
		for _, p := range []*speaker{open, update} {
			select {
			case <-p.over:
			case <-time.After(limit + patience):
				t.Fatal("a byte a second keeps a connection up")
			}
			if code, subcode := p.notification(t); code != 4 || subcode != 0 {
				t.Errorf("NOTIFICATION %d/%d, want Hold Timer Expired", code, subcode)
			}
		}
	})
	if took := time.Since(since); took < limit-4*keepaliveEvery {
		t.Errorf("the session ended after %v, before its hold time", took)
	}
	await(t, "withdrawal", func() bool { return !s.has(numbered(20, 0)) })
	dribbling.Wait()
}

// TestPeerThatDoesNotRead has the window of a peer's system closed, as it is when nobody reads there,
// while the peer asks for route refreshes without end. What waits for it is bounded, its updates
// arrive all the same, and it can be got rid of; in the long variant the send hold timer does that
// (RFC 9687).
//
// The link closes the window: a system whose buffer is really full may, by the version of its kernel,
// drop acknowledgements too, and then its own side stands still.
func TestPeerThatDoesNotRead(t *testing.T) {
	l := newLink(t)
	s, w := overLink(t, l, nil)
	p := l.dial(t, s)
	p.establish(t, minimalHold, refresh, enhanced)
	before, heard := heap(), p.heard.Load()
	l.set(func(l *link) { l.shut = true })
	w.during(t, func() {
		if err := p.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		requests := slices.Repeat(message(msgRefresh, 0, 1, 0, 1), 1<<10)
		for range 1 << 8 { // the answers would be 12 MB
			p.mustUpdate(t, requests)
		}
		if err := p.conn.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
		await(t, "the route behind the requests", func() bool { return s.has(numbered(20, 0)) })
		s.cannotSend(t, "far")
		p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 1)))
		await(t, "a route while nothing can be sent", func() bool { return s.has(numbered(20, 1)) })
	})
	if more := p.heard.Load() - heard; more > 1 {
		t.Errorf("%d KEEPALIVEs came through: the window was not closed", more)
	}
	const mayGrow = 4 << 20
	if grown := heap() - before; grown > mayGrow {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	want := "reset by the operator"
	if long {
		want = "the send hold time is over: the peer does not read"
		w.during(t, func() {
			if err := waitForLong("end by the send hold timer", 8*time.Minute, func() bool { return !s.peer("far").Established }); err != nil {
				t.Fatal(err)
			}
		})
	} else {
		t.Logf("%s=long has it ended by the send hold timer, after 8 minutes", longVariable)
		if err := s.Reset("far"); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "withdrawal", func() bool { return !s.peer("far").Established && !s.has(numbered(20, 0)) && !s.has(numbered(20, 1)) })
	if got := s.peer("far").LastError; !strings.Contains(got, want) {
		t.Errorf("it ended because %s; want %s", got, want)
	}
	l.set(func(l *link) { l.shut = false })
	p.vanish(t)
	p = l.dialUntilUp(t, s, 90)
	p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 2)))
	await(t, "route of the next session", func() bool { return s.has(numbered(20, 2)) })
	w.mustBeWell(t)
}

// cannotSend has the service send to a peer until that takes nothing more: the queue is full, and
// stays so.
func (s *service) cannotSend(t *testing.T, name string) {
	t.Helper()
	const looks = 50
	for full := 0; full < looks; {
		switch err := s.Refresh(name); {
		case err == nil:
			full = 0
		case errors.Is(err, bgp.ErrNoSession):
			t.Fatalf("%v: %s", err, s.peer(name).LastError)
		default: // the last ones wait to be sent
			full++
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// A gate is an engine that builds nothing while it is shut: one that takes as long as a test wants.
type gate struct {
	lpm.Engine
	shut     sync.RWMutex
	building atomic.Bool // has begun to
}

func (g *gate) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	g.building.Store(true)
	g.shut.RLock()
	defer g.shut.RUnlock()
	return g.Engine.Build(ctx, routes)
}

func (g *gate) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	g.building.Store(true)
	g.shut.RLock()
	defer g.shut.RUnlock()
	return g.Engine.Update(ctx, prev, changes)
}

// TestSlowEngine has a build that takes longer than the hold times while a peer announces ever new
// prefixes. What waits for the engine is bounded, the peer's TCP is stopped, and all sessions stay:
// that of the flood, which waits in the service, and those that are read. When the build is over
// everything arrives.
func TestSlowEngine(t *testing.T) {
	const mayWait, perMessage = 5000, 800
	n := newNetwork()
	g := &gate{}
	s := start(t, options{at: n.own(), rib: rib.Options{MaxPending: mayWait}, engine: func(e lpm.Engine) lpm.Engine { g.Engine = e; return g }},
		bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)},
		bgp.PeerConfig{Name: "flood", Addr: n.host(0, 3)})
	w := s.witness(t, "witness", n.host(0, 2))
	p := dial(t, s, n.host(0, 3))
	p.establish(t, minimalHold)
	before := heap()

	g.shut.Lock()
	open := sync.OnceFunc(g.shut.Unlock)
	defer open()
	announced := 0 // prefixes, from 1.0.0.0/32 on
	flooded := make(chan error, 1)
	stop := make(chan struct{})
	var left []byte // of a message that was interrupted
	p.silence()     // the flood is what it says, and no KEEPALIVE comes in between
	go func() {
		for {
			select {
			case <-stop:
				flooded <- nil
				return
			default:
			}
			if len(left) == 0 {
				prefixes := make([]netip.Prefix, perMessage)
				for i := range prefixes {
					a := 1<<24 + announced + i
					prefixes[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), 32)
				}
				announced += perMessage
				left = updateOf(netip.Prefix{}, prefixes...)
			}
			if err := p.conn.SetWriteDeadline(time.Now().Add(keepaliveEvery)); err != nil {
				flooded <- err
				return
			}
			sent, err := p.conn.Write(left)
			left = left[sent:]
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				flooded <- err
				return
			}
		}
	}()
	// Bytes that the service has taken, and those sent, come to a stand; it goes on like that for
	// longer than the hold time.
	await(t, "prefixes that wait", func() bool { return s.publisher.Stats().Pending >= mayWait || len(flooded) > 0 })
	stands := s.peer("flood").Bytes
	heard, most := p.heard.Load(), 0
	for until := time.Now().Add((minimalHold + 2) * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		most = max(most, s.publisher.Stats().Pending)
	}
	await(t, "our KEEPALIVEs meanwhile", func() bool { return p.heard.Load() >= heard+3 })
	if err := w.update(updateOf(witnessed(w.n), witnessed(w.n+1))); err != nil { // it waits as well
		t.Fatal(err)
	}
	w.n++
	// What a build has taken waits beside the next, and messages are taken as a whole.
	if bound := 2 * (mayWait + 2*perMessage); most > bound {
		t.Errorf("%d prefixes wait for the engine, want %d at most", most, bound)
	}
	if read := s.peer("flood").Bytes; read > stands+1<<20 {
		t.Errorf("%d bytes were read while the engine built: TCP is not stopped", read-stands)
	}
	const mayGrow = 16 << 20
	if grown := heap() - before; grown > mayGrow {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	sessionsStand := func() {
		t.Helper()
		for _, name := range []string{"witness", "flood"} {
			if st := s.peer(name); !st.Established || st.Ups != 1 {
				t.Errorf("the session of %s: %s, %s", name, st.State, st.LastError)
			}
		}
	}
	sessionsStand()
	close(stop)
	if err := <-flooded; err != nil {
		t.Fatal(err)
	}
	open()
	if err := p.conn.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	p.mustUpdate(t, left)
	await(t, "everything announced", func() bool { return s.peer("flood").Routes4 == announced && s.publisher.Stats().Pending == 0 })
	if err := w.visible(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d prefixes came in the end, %d waited at most", announced, most)
	sessionsStand()
}

// TestStopDuringABuild: the end of the service does not wait for the engine.
func TestStopDuringABuild(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	g := &gate{}
	s := start(t, options{at: n.own(), rib: rib.Options{MaxPending: 10}, engine: func(e lpm.Engine) lpm.Engine { g.Engine = e; return g }},
		bgp.PeerConfig{Name: "p", Addr: n.host(0, 3)})
	p := dial(t, s, n.host(0, 3))
	p.establish(t, 90)
	await(t, "the first generation", func() bool {
		first := s.publisher.Generations().Acquire()
		if first != nil {
			first.Release()
		}
		return first != nil
	})
	g.building.Store(false)
	g.shut.Lock()
	defer g.shut.Unlock()
	// One message is being built, one fills what may wait, and one waits.
	for i := range 3 {
		var prefixes []netip.Prefix
		for j := range 20 {
			prefixes = append(prefixes, numbered(20, 20*i+j))
		}
		p.mustUpdate(t, updateOf(netip.Prefix{}, prefixes...))
		await(t, "prefixes that wait", func() bool {
			return s.peer("p").Messages == uint64(i+1) && s.publisher.Stats().Pending == 20*min(i+1, 2)
		})
		await(t, "the build", func() bool { return g.building.Load() })
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("Stop waits for the engine")
	}
	if code, subcode := p.notification(t); code != 6 || subcode != 2 {
		t.Errorf("NOTIFICATION %d/%d, want Cease, Administrative Shutdown", code, subcode)
	}
}
