package bgp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures/hostile"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// hostileAddr is where the hostile peer of a case, or session, comes from.
func hostileAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 127<<24|128<<16+uint32(i))))
}

// table writes the Adj-RIB-In of a peer down, the same bytes for the same routes.
func (p *peer) table() []byte {
	r := p.routes.peer()
	if r == nil {
		return nil
	}
	var lines [][]byte
	for n, path := range r.Routes() {
		lines = append(lines, fmt.Appendf(nil, "%v %+v\n", n, path.Value()))
	}
	slices.SortFunc(lines, bytes.Compare)
	return slices.Concat(lines...)
}

// prefixSet are the prefixes in it.
func (p *peer) prefixSet() map[netip.Prefix]bool {
	all := make(map[netip.Prefix]bool)
	for n := range p.routes.peer().Routes() {
		all[n.Prefix] = true
	}
	return all
}

// TestHostileCorpus sends every case of the corpus over a session of its own. The verdict, the
// counters and the NOTIFICATION are as they should be, and the table of a peer that is sound
// never changes.
func TestHostileCorpus(t *testing.T) {
	corpus := hostile.Corpus()
	peers := []PeerConfig{{Name: "quiet", Addr: peerAddr, AS: peerAS, Passive: true}}
	for i, c := range corpus {
		as := uint32(hostile.PeerAS)
		if c.Session.Internal {
			as = ownAS
		}
		peers = append(peers, PeerConfig{Name: fmt.Sprint(i), Addr: hostileAddr(i), AS: as, Passive: true})
	}
	s := start(t, nil, peers...)
	quiet := dial(t, s, peerAddr)
	quiet.establish(openBody(peerAS, 0, as4(peerAS), mp4, mp6))
	quiet.send(msgUpdate, hostile.Session{}.Sound(hostile.Target4, hostile.Target6, hostile.Probe, netip.MustParsePrefix("192.0.2.0/24"))...)
	await(t, "routes of the quiet peer", func() bool { return len(s.peer(0).prefixSet()) == 4 })
	table := s.peer(0).table()

	for i, c := range corpus {
		t.Run(c.Name, func(t *testing.T) {
			sendCase(t, s, s.peer(i+1), dial(t, s, hostileAddr(i)), c)
			if !bytes.Equal(s.peer(0).table(), table) {
				t.Fatalf("the quiet peer's table is\n%s, it was\n%s", s.peer(0).table(), table)
			}
		})
	}
	panics := uint64(0)
	for _, p := range s.Stats().Peers {
		panics += p.Panics
	}
	mustBe(t, panics, 3) // at MP_REACH_NLRI of 3 bytes: see rib/wire
	mustBe(t, s.peer(0).stats().Downs, 0)
	quiet.send(msgUpdate, hostile.Session{}.Sound(netip.MustParsePrefix("192.0.2.128/25"))...)
	await(t, "another route of the quiet peer", func() bool { return len(s.peer(0).prefixSet()) == 5 })
}

// sendCase plays one case as peer p and looks at what comes of it.
func sendCase(t *testing.T, s *service, p *peer, conn *speaker, c *hostile.Case) {
	write := func(b []byte) {
		t.Helper()
		if _, err := conn.conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[netip.Prefix]bool)
	verdicts := [wire.NumVerdicts]uint64{}
	if c.Open {
		write(c.Bytes())
		if c.Want == hostile.OK {
			conn.expect(msgKeepalive)
			conn.send(msgKeepalive)
		}
	} else {
		conn.establish(c.Session.OpenBody(ownAS))
		conn.send(msgUpdate, c.Session.Sound(hostile.Target4, hostile.Target6)...)
		verdicts[wire.OK]++
		want[hostile.Target4], want[hostile.Target6] = true, true
		await(t, "routes before it", func() bool { return p.routes.peer() != nil && maps.Equal(p.prefixSet(), want) })
		write(c.Bytes())
	}
	if c.IsUpdate() {
		verdicts[verdictOf(c.Want)]++
	}

	if c.Want == hostile.Reset {
		var told []byte
		for {
			kind, body, err := conn.receive()
			if err != nil {
				break
			}
			if kind == msgNotification {
				told = body[:2]
				conn.conn.Close()
			}
		}
		if wanted := []byte{c.Code, c.Subcode}; c.Code != 0 && !bytes.Equal(told, wanted) || c.Code == 0 && told != nil {
			t.Errorf("NOTIFICATION %v, want %v: %s", told, wanted, c.Reason)
		}
		await(t, "the end of the connection", func() bool { return p.stats().State != Established && len(p.prefixSet()) == 0 })
		await(t, "the last NOTIFICATION", func() bool {
			n := p.lastNotification.Load()
			return n != nil && n.Sent == (c.Code != 0)
		})
	} else {
		conn.send(msgUpdate, c.Session.Sound(hostile.Probe)...)
		verdicts[wire.OK]++
		for _, prefix := range c.Unreach {
			delete(want, prefix)
		}
		for _, prefix := range c.Reach {
			want[prefix] = true
			if c.Want == hostile.Withdraw {
				delete(want, prefix)
			}
		}
		want[hostile.Probe] = true
		await(t, "the route after it", func() bool { return p.messages.Load() == verdicts[0]+verdicts[1]+verdicts[2] })
		await(t, fmt.Sprintf("the routes %v", want), func() bool { return maps.Equal(p.prefixSet(), want) })
		conn.conn.Close()
	}
	mustBe(t, p.stats().Verdicts, verdicts)
}

// verdictOf is a verdict's number in rib/wire.
func verdictOf(v hostile.Verdict) int {
	for n := range wire.NumVerdicts {
		if n.String() == string(v) {
			return int(n)
		}
	}
	panic("no such verdict: " + v)
}

// hostileTime is how long TestHostileStream runs; RIBWARP_HOSTILE_SECONDS sets it.
func hostileTime(t *testing.T) time.Duration {
	text := os.Getenv("RIBWARP_HOSTILE_SECONDS")
	if text == "" {
		return 2 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("RIBWARP_HOSTILE_SECONDS is %q: give a number of seconds", text)
	}
	return time.Duration(seconds) * time.Second
}

// TestHostileStream has session after session with a peer that mixes mutations into sound
// messages, from the OPEN to the framing. The table of another peer never changes, what sound
// messages announce is there, and afterwards memory is what it was before, and no goroutine is
// left.
func TestHostileStream(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("RIBWARP_HOSTILE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RIBWARP_HOSTILE_SEED is %q: give a number", text)
		}
	}
	t.Logf("RIBWARP_HOSTILE_SEED=%d", seed)
	limit := hostileTime(t)

	prefix := netip.PrefixFrom(hostileAddr(0), 9)
	s := start(t, func(c *Config) { c.Log = slog.New(slog.DiscardHandler) },
		PeerConfig{Name: "quiet", Addr: peerAddr, AS: peerAS, Passive: true},
		PeerConfig{Name: "hostile", Prefix: prefix, Limit: 1 << 20, AS: hostile.PeerAS})
	quiet := dial(t, s, peerAddr)
	mustBe(t, quiet.conn.SetDeadline(time.Time{}), nil)
	quiet.establish(openBody(peerAS, 0, as4(peerAS), mp4, mp6))
	var many []netip.Prefix // a part of what the hostile peer announces, and more
	for i := range 20_000 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(i >> 8), byte(i)}), 48))
	}
	for some := range slices.Chunk(many, 500) {
		quiet.send(msgUpdate, hostile.Session{}.Sound(some...)...)
	}
	await(t, "routes of the quiet peer", func() bool { _, v6 := s.peer(0).routes.peer().Received(); return v6 == len(many) })
	table := s.peer(0).table()
	publish := publisher(t, s.rib)

	cases := slices.DeleteFunc(hostile.Corpus(), func(c *hostile.Case) bool { return !c.IsUpdate() })
	sessions, compared := 0, 0
	play := func(until func() bool) {
		for !until() {
			r := rand.New(rand.NewPCG(seed, uint64(sessions)))
			conn, err := dialWith(s, hostileAddr(1+sessions%(1<<22)), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustBe(t, conn.SetDeadline(time.Now().Add(patience)), nil)
			sessions++
			if hostileSession(t, s, conn, r, cases) {
				compared++
			}
			if sessions%50 == 0 && !bytes.Equal(s.peer(0).table(), table) {
				t.Fatal("the quiet peer's table has changed")
			}
		}
	}
	// settled gives the memory in use when all hostile peers are forgotten.
	settled := func() uint64 {
		await(t, "the hostile peers' end", func() bool { return len(s.Stats().Peers) == 1 })
		publish()
		var m runtime.MemStats
		for range 3 { // what interned attributes held goes with the next
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	play(func() bool { return sessions == 100 }) // what is allocated once
	before, goroutines := settled(), runtime.NumGoroutine()
	end := time.Now().Add(limit)
	play(func() bool { return time.Now().After(end) })

	after := settled()
	await(t, "the goroutines' end", func() bool { return runtime.NumGoroutine() <= goroutines })
	await(t, "memory as before", func() bool { after = settled(); return after <= before+before/10 })
	if !bytes.Equal(s.peer(0).table(), table) {
		t.Error("the quiet peer's table has changed")
	}
	st := s.Stats().Peers[0]
	mustBe(t, []uint64{st.Ups, st.Downs, st.Panics}, []uint64{1, 0, 0})
	mustBe(t, st.Established, true)
	t.Logf("%d sessions, %d of them compared, %d KiB before and %d KiB after", sessions, compared, before>>10, after>>10)
	if compared == 0 {
		t.Error("no session had its routes compared")
	}
}

// hostileSession plays one session of the hostile peer. It reports whether it was one without
// mutations, whose routes were compared.
func hostileSession(t *testing.T, s *service, conn net.Conn, r *rand.Rand, cases []*hostile.Case) (compared bool) {
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed by either side
	session := hostile.Session{TwoByteAS: r.IntN(4) == 0, AddPath: r.IntN(2) == 0, Extended: r.IntN(4) == 0, OldRefresh: r.IntN(2) == 0}
	stream := hostile.NewStream(r, session, cases)
	mutations := r.IntN(4) // of 16 messages; 0: none
	out := hostile.Message(hostile.Open, session.OpenBody(ownAS))
	if mutations > 0 && r.IntN(20) == 0 {
		out = stream.MutatedOpen(ownAS)
	}
	out = append(out, hostile.Message(hostile.Keepalive, nil)...)
	for range r.IntN(200) {
		if r.IntN(16) < mutations {
			out = append(out, stream.Mutated()...)
		} else {
			out = append(out, stream.Sound()...)
		}
	}
	for len(out) > 0 { // in pieces that are none of the messages'
		n := min(len(out), 1+r.IntN(1<<(1+r.IntN(14))))
		if _, err := conn.Write(out[:n]); err != nil {
			return false // it has ended the session
		}
		out = out[n:]
	}
	if mutations == 0 {
		var got map[hostile.Route]bool
		addr := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
		await(t, "the routes of a sound stream", func() bool {
			got = make(map[hostile.Route]bool)
			if p := s.neighbours[1].peerAt(addr); p != nil && p.routes.peer() != nil {
				for n := range p.routes.peer().Routes() {
					got[hostile.Route{Prefix: n.Prefix, ID: n.PathID}] = true
				}
			}
			return maps.Equal(got, stream.Routes())
		})
	}
	switch r.IntN(3) {
	case 0:
		mustBe(t, conn.(*net.TCPConn).SetLinger(0), nil) // a reset
	case 1:
		_, _ = conn.Write(hostile.Message(hostile.Notification, []byte{6, 2}))
	}
	return mutations == 0
}

// peerAt gives the neighbour at an address, nil for none.
func (n *neighbour) peerAt(a netip.Addr) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[a]
}

// publisher runs the publisher of a RIB. What it gives waits until all changes are published.
func publisher(t *testing.T, r *rib.RIB) (flush func()) {
	t.Helper()
	// Narrow strides: a page of a wide root that was changed once stays on the heap until the next full build. That is
	// bounded by the root, but more than what hostile peers leave.
	engine, err := flavors.NewCPU(flavors.Options{Strides4: slices.Repeat([]int{8}, 4), Strides6: slices.Repeat([]int{8}, 16)})
	if err != nil {
		t.Fatal(err)
	}
	p := rib.NewPublisher(r, engine, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		p.Generations().Withdraw()
		engine.Close()
	})
	return func() {
		if err := p.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
