package rib_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// prefixes makes n different IPv4 prefixes.
func prefixes(n int) []rib.NLRI {
	all := make([]rib.NLRI, n)
	for i := range all {
		all[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
	}
	return all
}

// bench is a RIB with one peer and a publisher that nobody runs yet.
type bench struct {
	*testing.T
	rib       *rib.RIB
	peer      *rib.Peer
	engine    *mapEngine
	publisher *rib.Publisher
	log       *bytes.Buffer
}

func newBench(t *testing.T, o rib.PublisherOptions) *bench {
	t.Helper()
	return newBenchOf(t, rib.Options{}, o)
}

func newBenchOf(t *testing.T, of rib.Options, o rib.PublisherOptions) *bench {
	t.Helper()
	b := &bench{T: t, rib: rib.New(of), engine: &mapEngine{}, log: &bytes.Buffer{}}
	o.Log = slog.New(slog.NewTextHandler(b.log, nil))
	b.publisher = rib.NewPublisher(b.rib, b.engine, o)
	b.peer = b.add(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	t.Cleanup(func() {
		if err := b.engine.problem(); err != nil {
			t.Errorf("engine misused: %v", err)
		}
	})
	return b
}

func (b *bench) add(c rib.PeerConfig) *rib.Peer {
	b.Helper()
	p, err := b.rib.AddPeer(c)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func (b *bench) announce(med uint32, n ...rib.NLRI) {
	b.peer.Apply(rib.Update{Reach: n, Attrs: rib.Attrs{HasMED: true, MED: med}})
}

func (b *bench) withdraw(n ...rib.NLRI) { b.peer.Apply(rib.Update{Unreach: n}) }

// flush gives the number of the generation behind a flush.
func (b *bench) flush() uint64 {
	b.Helper()
	if err := b.publisher.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return b.number()
}

// number is that of the newest generation, 0 for none.
func (b *bench) number() uint64 {
	g := b.publisher.Generations().Acquire()
	if g == nil {
		return 0
	}
	defer g.Release()
	return g.Number
}

func (b *bench) routes() int {
	g := b.publisher.Generations().Acquire()
	if g == nil {
		return 0
	}
	defer g.Release()
	return g.V4 + g.V6
}

func (b *bench) wantBuilds(want ...build) {
	b.Helper()
	var got []build
	for _, x := range b.engine.history() {
		got = append(got, build{update: x.update, changes: x.changes})
	}
	if !slices.Equal(got, want) {
		b.Errorf("the engine did %+v, want %+v", got, want)
	}
}

// run runs the publisher until the returned function is called.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := b.publisher.Run(ctx); err != nil {
			b.Errorf("run: %v", err)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func TestFirstFlushPublishesAnEmptyTable(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{Source: "nowhere"})
	if n := b.flush(); n != 1 {
		t.Errorf("generation %d, want 1", n)
	}
	if n := b.flush(); n != 1 {
		t.Errorf("a second flush made generation %d", n)
	}
	g := b.publisher.Generations().Acquire()
	defer g.Release()
	if g.Source != "nowhere" || g.Created.IsZero() || g.V4+g.V6 != 0 || (g.Route(1) != rib.Route{}) {
		t.Errorf("generation %+v", g)
	}
}

func TestNoGenerationWithoutAnEffectiveChange(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	few := prefixes(3)
	b.announce(1, few...)
	b.flush()
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"announced again as it was", func() { b.announce(1, few...) }},
		{"withdrawn and announced again", func() { b.withdraw(few...); b.announce(1, few...) }},
		{"changed and changed back", func() { b.announce(2, few...); b.announce(1, few...) }},
		{"another prefix came and went", func() { b.announce(1, prefixes(9)...); b.withdraw(prefixes(9)[3:]...) }},
		{"a prefix that is not there withdrawn", func() { b.withdraw(prefixes(20)[10:]...) }},
		{"invalid prefix", func() { b.announce(1, rib.NLRI{}); b.withdraw(rib.NLRI{}) }},
		{"a worse path", func() {
			p := b.add(rib.PeerConfig{Name: "b", Kind: rib.KindBGP})
			p.Apply(rib.Update{Reach: few, Attrs: rib.Attrs{HasLocalPref: true, LocalPref: 1}})
		}},
	} {
		c.do()
		if n := b.flush(); n != 1 {
			t.Fatalf("%s: generation %d", c.name, n)
		}
	}
	if n := rib.HandlesInUse(b.rib); n != 3 {
		t.Errorf("%d handles in use, want 3", n)
	}
	b.announce(1, few...)
	if s := b.publisher.Stats(); s.Pending != 0 {
		t.Errorf("%d changes pending after announcing again what is there", s.Pending)
	}
}

func TestHostBitsAreCleared(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	for _, text := range []string{"10.1.2.3/24", "0.0.0.1/0", "2001:db8::1/32", "2001:db8:1::/32", "2001:db8::1/64", "2001:db8::ffff:1/120", "::1/0", "::ffff:10.0.0.1/104", "10.1.2.3/32", "::1/128"} {
		p := netip.MustParsePrefix(text)
		b.announce(1, rib.NLRI{Prefix: p})
		b.flush()
		g := b.publisher.Generations().Acquire()
		if h := g.Table.Find(p.Masked()); h == lpm.None || g.Route(h).Prefix != p.Masked() {
			t.Errorf("%s: not found as %s", text, p.Masked())
		}
		g.Release()
		if len(b.rib.Paths(p)) != 1 {
			t.Errorf("%s: no path", text)
		}
		b.withdraw(rib.NLRI{Prefix: p})
		if len(b.rib.Paths(p)) != 0 {
			t.Errorf("%s: path after the withdrawal", text)
		}
	}
	if b.flush(); b.routes() != 0 {
		t.Errorf("%d routes left", b.routes())
	}
}

func TestAttributesAloneLeaveTheTableAsItIs(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.announce(1, prefixes(8)...)
	b.flush()
	b.announce(2, prefixes(8)...)
	if n := b.flush(); n != 2 {
		t.Fatalf("generation %d, want 2", n)
	}
	b.wantBuilds(build{changes: 8}, build{update: true, changes: 0})
	g := b.publisher.Generations().Acquire()
	defer g.Release()
	if med := g.Route(g.Table.Find(prefixes(8)[5].Prefix)).Path.Value().MED; med != 2 {
		t.Errorf("MED %d, want 2", med)
	}
	if s := b.publisher.Stats(); s.Generations != 2 || s.Changes != 16 || s.LastChanges != 8 {
		t.Errorf("%+v", s)
	}
}

func TestManyChangesBuildAnew(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	all := prefixes(64_000)
	var want []build
	for _, c := range []struct {
		announced int // of all, from then on
		want      build
	}{
		{100, build{changes: 100}},
		{1100, build{update: true, changes: 1000}}, // few, though most of the table
		{2101, build{changes: 2101}},               // 1001, nearly half of the table
		{64_000, build{changes: 64_000}},
		{60_000, build{changes: 60_000}},             // 4000 gone: one in 15
		{64_000, build{update: true, changes: 4000}}, // one in 16
		{59_990, build{changes: 59_990}},             // 4010 gone
		{0, build{changes: 0}},
	} {
		b.announce(1, all[:c.announced]...)
		b.withdraw(all[c.announced:]...)
		b.flush()
		want = append(want, c.want)
	}
	b.wantBuilds(want...)
}

func TestOldGenerationAnswersUntilItsLastReader(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.announce(1, prefixes(2)...)
	b.flush()
	old := b.publisher.Generations().Acquire()
	b.peer.Down("test")
	b.flush()
	b.announce(9, prefixes(4)[2:]...) // takes the handles that are free now
	b.flush()
	for _, n := range prefixes(2) {
		if got := old.Route(old.Table.Find(n.Prefix)); got.Prefix != n.Prefix || got.Path.Value().MED != 1 {
			t.Errorf("old generation: %s is %v", n.Prefix, got)
		}
	}
	if old.Table.(*mapTable).isClosed() {
		t.Error("table closed under its reader")
	}
	old.Release()
	if !old.Table.(*mapTable).isClosed() {
		t.Error("table open without a reader")
	}
	if n := rib.HandlesInUse(b.rib); n != 2 {
		t.Errorf("%d handles in use, want 2", n)
	}
}

// A handle of a withdrawn prefix stays taken while the newest generation has it, however many
// builds fail.
func TestHandleIsNotReusedBeforeItsWithdrawalIsPublished(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	all := prefixes(40)
	b.announce(1, all[:20]...)
	b.flush()
	b.engine.set(func(e *mapEngine) { e.failing = errors.New("no memory") })
	b.withdraw(all[:10]...)
	for i := range 5 {
		b.announce(1, all[20+i])
		if err := b.publisher.Flush(t.Context()); err == nil {
			t.Fatal("flush did not fail")
		}
	}
	if n := rib.HandlesInUse(b.rib); n != 25 {
		t.Errorf("%d handles in use, want 25: none freed", n)
	}
	if s := b.publisher.Stats(); s.Failures != 5 || s.Pending != 15 || b.number() != 1 {
		t.Errorf("generation %d, %+v", b.number(), s)
	}
	b.engine.set(func(e *mapEngine) { e.failing = nil })
	b.flush()
	if n := rib.HandlesInUse(b.rib); n != 15 || b.routes() != 15 {
		t.Errorf("%d handles in use, %d routes, want 15", n, b.routes())
	}
}

// The engine may have failed half way: what it can tell of the table before is not trusted.
func TestTableIsBuiltAnewAfterAFailure(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.announce(1, prefixes(100)...)
	b.flush()
	b.engine.set(func(e *mapEngine) { e.failing = errors.New("no memory") })
	b.announce(1, prefixes(101)...)
	if err := b.publisher.Flush(t.Context()); err == nil {
		t.Fatal("flush did not fail")
	}
	b.engine.set(func(e *mapEngine) { e.failing = nil })
	b.flush()
	b.announce(1, prefixes(102)...)
	b.flush()
	b.wantBuilds(build{changes: 100}, build{update: true, changes: 1}, build{changes: 101}, build{update: true, changes: 1})
}

func TestForeignTableIsBuiltAnew(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.announce(1, prefixes(10)...)
	b.flush()
	b.engine.set(func(e *mapEngine) { e.foreign = true })
	b.announce(1, prefixes(11)...)
	b.flush()
	b.wantBuilds(build{changes: 10}, build{update: true, changes: 1}, build{changes: 11})
	if s := b.publisher.Stats(); s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

func TestErrorNamesGenerationAndEngine(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	cause := errors.New("no memory")
	b.engine.failing = cause
	err := b.publisher.Flush(t.Context())
	if !errors.Is(err, cause) || !strings.Contains(fmt.Sprint(err), "generation 1 (0 changes, engine map)") {
		t.Errorf("%v", err)
	}
}

func TestWithdrawnGenerationsEndThePublisher(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.flush()
	b.publisher.Generations().Withdraw()
	if err := b.publisher.Flush(t.Context()); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if err := b.publisher.Run(t.Context()); !errors.Is(err, lpm.ErrClosed) {
		t.Errorf("run: %v", err)
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.engine.takes = time.Hour
		b.announce(1, prefixes(3)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var both sync.WaitGroup
		for range 2 { // one builds, one waits for its turn
			both.Go(func() {
				if err := b.publisher.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("flush: %v", err)
				}
			})
		}
		both.Wait()
		if s := b.publisher.Stats(); s.Failures != 0 || s.Pending != 3 {
			t.Errorf("%+v", s)
		}
		b.engine.set(func(e *mapEngine) { e.takes = 0 })
		if b.flush(); b.routes() != 3 {
			t.Errorf("%d routes, want 3", b.routes())
		}
	})
}

func TestChangeAfterQuietIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{MinInterval: time.Second})
		stop := b.run()
		defer stop()
		time.Sleep(time.Minute)
		b.announce(1, prefixes(1)...)
		synctest.Wait() // no time passes in here
		if b.routes() != 1 {
			t.Error("not visible at once")
		}
		b.announce(1, prefixes(2)...)
		synctest.Wait()
		if b.routes() != 1 {
			t.Error("the next one visible before MinInterval")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if b.routes() != 2 {
			t.Error("the next one not visible after MinInterval")
		}
		if s := b.publisher.Stats(); s.LastLatency != time.Second {
			t.Errorf("latency %s, want 1s", s.LastLatency)
		}
	})
}

// Otherwise another peer's full table of worse paths would keep a processor busy with nothing.
func TestChangesWithoutEffectArePacedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{MinInterval: time.Second})
		b.announce(1, prefixes(1)...)
		stop := b.run()
		defer stop()
		time.Sleep(time.Minute)
		b.peer.Apply(rib.Update{Unreach: prefixes(1), Reach: prefixes(1), Attrs: rib.Attrs{HasMED: true, MED: 1}})
		synctest.Wait()
		b.announce(1, prefixes(2)...)
		synctest.Wait()
		if b.routes() != 1 {
			t.Error("visible before MinInterval")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if b.number() != 2 || b.routes() != 2 {
			t.Errorf("generation %d with %d routes behind MinInterval", b.number(), b.routes())
		}
	})
}

// With changes all the time there is a rest behind every build, and one build runs at a time.
func TestBuildsLeaveTimeForLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{MinInterval: 5 * time.Millisecond})
		stop := b.run()
		for i := range 1000 {
			b.engine.set(func(e *mapEngine) { e.takes = time.Duration(i/10) * time.Millisecond })
			b.announce(uint32(i), prefixes(10)...)
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		builds := b.engine.history()
		if len(builds) < 50 {
			t.Errorf("only %d builds in 10 s", len(builds))
		}
		for i, x := range builds[1:] {
			before := builds[i]
			want := max(5*time.Millisecond, min(2*before.end.Sub(before.start), 25*time.Millisecond))
			if gap := x.start.Sub(before.end); gap < want {
				t.Fatalf("build %d started %s after one that took %s", i+1, gap, before.end.Sub(before.start))
			}
		}
	})
}

func TestFailedBuildsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.announce(1, prefixes(5)...)
		b.flush()
		stop := b.run()
		defer stop()
		b.engine.set(func(e *mapEngine) { e.failing = errors.New("no memory") })
		b.withdraw(prefixes(2)...)
		time.Sleep(time.Hour) // no change arrives, it goes on trying
		synctest.Wait()
		failures := b.publisher.Stats().Failures
		if b.number() != 1 || failures < 300 || failures > 400 {
			t.Errorf("generation %d, %d failures in an hour, want one in 10 s", b.number(), failures)
		}
		if !strings.Contains(b.log.String(), "no memory") {
			t.Errorf("log: %s", b.log)
		}
		b.engine.set(func(e *mapEngine) { e.failing = nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.number() != 2 || b.routes() != 3 || b.publisher.Stats().Pending != 0 {
			t.Errorf("generation %d with %d routes, %+v", b.number(), b.routes(), b.publisher.Stats())
		}
		if s := b.publisher.Stats(); s.LastLatency < time.Hour {
			t.Errorf("latency %s leaves out the failed builds", s.LastLatency)
		}
	})
}

func (b *bench) wantReady(ok bool, waitingFor ...string) {
	b.Helper()
	synctest.Wait()
	gotOK, got := b.publisher.Ready()
	if gotOK != ok || !slices.Equal(got, waitingFor) {
		b.Errorf("ready %t, waiting for %q; want %t, %q", gotOK, got, ok, waitingFor)
	}
}

func TestReadyWithoutAwaitedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.wantReady(false)
		stop := b.run()
		defer stop()
		b.wantReady(true)
		if b.number() != 1 {
			t.Errorf("generation %d, want 1", b.number())
		}
	})
}

func TestReadyAfterEveryFirstLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		session := b.add(rib.PeerConfig{Name: "session", Kind: rib.KindBGP, Awaited: true})
		file := b.add(rib.PeerConfig{Name: "file", Kind: rib.KindList, Awaited: true})
		broken := b.add(rib.PeerConfig{Name: "broken", Kind: rib.KindMRT, Awaited: true})
		gone := b.add(rib.PeerConfig{Name: "gone", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		b.wantReady(false, "broken", "file", "gone", "session")
		if b.number() != 0 {
			t.Error("an empty table was published while sources load")
		}
		broken.GaveUp("cut short")
		file.Up(rib.Session{})
		file.EndOfRIB(false) // means nothing for a file
		session.Up(rib.Session{IPv4: true, IPv6: true})
		session.EndOfRIB(false)
		b.wantReady(false, "file", "gone", "session")
		session.Down("lost before the other family's End-of-RIB")
		session.Up(rib.Session{IPv4: true, IPv6: true})
		session.EndOfRIB(true)
		b.wantReady(false, "file", "gone", "session")
		session.EndOfRIB(false)
		file.Loaded()
		b.wantReady(false, "gone")
		b.rib.RemovePeer(gone)
		b.wantReady(true)
		session.Down("lost later")
		b.add(rib.PeerConfig{Name: "late", Kind: rib.KindBGP, Awaited: true})
		b.wantReady(true)
	})
}

// A source that ends without a route leaves nothing to publish but the empty table.
func TestReadyWhenTheLastSourceHoldsNothing(t *testing.T) {
	for name, end := range map[string]func(*rib.Peer){
		"loaded":     (*rib.Peer).Loaded,
		"gave up":    func(p *rib.Peer) { p.GaveUp("cut short") },
		"End-of-RIB": func(p *rib.Peer) { p.EndOfRIB(false) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, rib.PublisherOptions{})
				p := b.add(rib.PeerConfig{Name: "last", Kind: rib.KindBGP, Awaited: true})
				stop := b.run()
				defer stop()
				p.Up(rib.Session{IPv4: true})
				b.wantReady(false, "last")
				end(p)
				if b.wantReady(true); b.number() != 1 {
					t.Errorf("generation %d, want 1", b.number())
				}
			})
		})
	}
}

// Ready means that the generation holds what the last peer announced before it was complete.
func TestReadyOnlyWhenTheLoadIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		p := b.add(rib.PeerConfig{Name: "file", Kind: rib.KindList, Awaited: true})
		b.engine.takes = time.Minute
		stop := b.run()
		defer stop()
		p.Up(rib.Session{})
		p.Apply(rib.Update{Reach: prefixes(1)})
		synctest.Wait() // that build runs
		p.Apply(rib.Update{Reach: prefixes(50)})
		p.Loaded()
		b.wantReady(false)
		time.Sleep(time.Minute)
		b.wantReady(false) // the first prefix is visible, 49 are not
		for range 1000 {
			if ok, _ := b.publisher.Ready(); ok {
				break
			}
			time.Sleep(time.Second)
		}
		if b.wantReady(true); b.routes() != 50 {
			t.Errorf("ready with %d routes, want 50", b.routes())
		}
	})
}

func TestReadyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{ReadyTimeout: time.Minute})
		b.add(rib.PeerConfig{Name: "silent", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		time.Sleep(time.Minute - time.Nanosecond)
		b.wantReady(false, "silent")
		time.Sleep(time.Nanosecond)
		b.wantReady(true)
		if b.number() != 1 {
			t.Errorf("generation %d, want 1", b.number())
		}
		if !strings.Contains(b.log.String(), "silent") {
			t.Errorf("log does not say who is missing: %s", b.log)
		}
	})
}

// Part of a table is of little use, and the build of a growing one costs all of it.
func TestOneGenerationASecondWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.engine.takes = 10 * time.Millisecond
		p := b.add(rib.PeerConfig{Name: "table", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		p.Up(rib.Session{IPv4: true})
		all := prefixes(5010)
		for i := range 5000 { // one every 2 ms: 10 s
			p.Apply(rib.Update{Reach: all[i : i+1]})
			time.Sleep(2 * time.Millisecond)
		}
		synctest.Wait()
		builds := b.engine.history()
		if len(builds) < 10 || len(builds) > 11 {
			t.Errorf("%d generations in 10 s of loading, want one a second", len(builds))
		}
		for i, x := range builds[1:] {
			if gap := x.start.Sub(builds[i].end); gap < time.Second {
				t.Errorf("generation %d came %s after the one before", i+2, gap)
			}
		}

		time.Sleep(50 * time.Millisecond) // within the rest
		b.engine.set(func(e *mapEngine) { e.takes = 0 })
		p.Apply(rib.Update{Reach: all[5000:5001]})
		b.wantReady(false, "table")
		p.EndOfRIB(false)
		if b.wantReady(true); b.routes() != 5001 { // no time has passed
			t.Errorf("%d routes visible behind the End-of-RIB, want 5001", b.routes())
		}
		for i := 5001; i < 5010; i++ {
			time.Sleep(10 * time.Millisecond)
			p.Apply(rib.Update{Reach: all[i : i+1]})
			if synctest.Wait(); b.routes() != i+1 {
				t.Fatalf("%d routes visible, want %d: ready and still slow", b.routes(), i+1)
			}
		}
	})
}

// A peer that stays away must not slow the others' changes down, once these are small.
func TestSmallGenerationsWhileLoadingAreNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.add(rib.PeerConfig{Name: "absent", Kind: rib.KindBGP, Awaited: true})
		p := b.add(rib.PeerConfig{Name: "here", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		p.Up(rib.Session{IPv4: true})
		for i, n := range prefixes(10) {
			p.Apply(rib.Update{Reach: []rib.NLRI{n}})
			if synctest.Wait(); b.routes() != i+1 {
				t.Fatalf("%d routes visible, want %d", b.routes(), i+1)
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.wantReady(false, "absent", "here")
	})
}

// What waits for a large build to be over is visible soon after.
func TestRestAfterALargeBuildIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		stop := b.run()
		defer stop()
		synctest.Wait()
		p := b.add(rib.PeerConfig{Name: "table", Kind: rib.KindBGP})
		b.engine.set(func(e *mapEngine) { e.takes = time.Second })
		all := prefixes(2)
		p.Apply(rib.Update{Reach: all[:1]})
		time.Sleep(time.Second) // the build
		b.engine.set(func(e *mapEngine) { e.takes = 0 })
		p.Apply(rib.Update{Reach: all[1:]})
		time.Sleep(50 * time.Millisecond)
		if synctest.Wait(); b.routes() != 2 {
			t.Errorf("%d routes visible 50 ms behind the build, want 2", b.routes())
		}
	})
}

// The last load may end while a part of it is built: nothing would wake the publisher then.
func TestReadyAtOnceWhenTheLoadEndsDuringABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.engine.takes = 300 * time.Millisecond
		p := b.add(rib.PeerConfig{Name: "table", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		p.Up(rib.Session{IPv4: true})
		p.Apply(rib.Update{Reach: prefixes(1)})
		time.Sleep(200 * time.Millisecond)
		p.Apply(rib.Update{Reach: prefixes(50)})
		p.EndOfRIB(false)
		time.Sleep(400*time.Millisecond - time.Nanosecond)
		b.wantReady(false)
		time.Sleep(time.Nanosecond) // 100 ms for the build that ran, 300 ms for the next
		if b.wantReady(true); b.routes() != 50 {
			t.Errorf("%d routes, want 50", b.routes())
		}
	})
}

// Neither the time-out nor the end of the publisher waits for a second to be over.
func TestRestWhileLoadingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{ReadyTimeout: 100 * time.Millisecond})
		b.engine.takes = 10 * time.Millisecond
		p := b.add(rib.PeerConfig{Name: "slow", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		p.Apply(rib.Update{Reach: prefixes(1)})
		b.wantReady(false, "slow")
		time.Sleep(100 * time.Millisecond)
		b.wantReady(true)
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.engine.takes = 10 * time.Millisecond
		b.add(rib.PeerConfig{Name: "slow", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		b.announce(1, prefixes(1)...)
		synctest.Wait()
		started := time.Now()
		stop()
		if waited := time.Since(started); waited != 0 {
			t.Errorf("stopping took %s", waited)
		}
	})
}

// A build that fails keeps its pace of retries, whatever the peers report meanwhile.
func TestFailedBuildsWhileLoadingAreNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.engine.failing = errors.New("no memory")
		p := b.add(rib.PeerConfig{Name: "table", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		p.Up(rib.Session{IPv4: true})
		p.EndOfRIB(false)
		for i := range 1000 {
			p.Apply(rib.Update{Reach: prefixes(i + 1)[i:]})
			p.EndOfRIB(false)
			time.Sleep(10 * time.Millisecond)
		}
		if n := b.publisher.Stats().Failures; n < 5 || n > 8 { // at 0.1, 0.2, 0.4 s and so on
			t.Errorf("%d failed builds in 10 s", n)
		}
		b.engine.set(func(e *mapEngine) { e.failing = nil })
		time.Sleep(10 * time.Second)
		b.wantReady(true)
	})
}
