package rib

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

const (
	defaultMinInterval = 5 * time.Millisecond
	// restPerBuild is how many times as long as it built the publisher rests, so that builds
	// leave most of a processor to what they wait for.
	restPerBuild = 2
	// longestRest bounds that: one large build must not delay the small change behind it.
	longestRest = 25 * time.Millisecond
	// rebuildFraction: where more than one in so many prefixes came or went, the table is built
	// anew instead of updated: an update costs some 2 us a prefix, a build 0.1 us a route.
	rebuildFraction = 16
	// smallUpdate is up to how many an update is the lesser work however small the table:
	// a build has a cost of its own, some milliseconds for the root nodes.
	smallUpdate = 1000
	// A failed build is tried again after firstRetry, then after twice the time of before.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	// loadingRest is the rest after a generation that took longer than MinInterval to make, while
	// first loads are awaited. Part of a table is of little use, and every build of a growing one
	// costs all of it: publishing as fast as afterwards, a full table's load had a peak of
	// 846 MiB, half of it garbage.
	loadingRest = time.Second
)

// PublisherOptions tune how changes become generations.
type PublisherOptions struct {
	Source      string        // Generation.Source
	MinInterval time.Duration // shortest time between two generations; default 5 ms
	Log         *slog.Logger  // nil: slog.Default
	// ReadyTimeout is how long readiness waits for awaited peers; then it is given anyway and
	// the log says who is missing. 0: wait for ever.
	ReadyTimeout time.Duration
}

// Publisher turns changes of a RIB into generations: coalesced, at most one build in flight.
// What waits is a list of changed prefixes, each at most once, so it cannot grow without bound.
// Safe for concurrent use.
type Publisher struct {
	rib     *RIB
	engine  lpm.Engine
	options PublisherOptions
	log     *slog.Logger

	generations lpm.Published[Route]
	ready       atomic.Bool
	timedOut    atomic.Bool // ReadyTimeout has passed

	// turn holds an item while somebody publishes, who then may use the fields up to mu.
	turn    chan struct{}
	number  uint64 // of the newest generation
	rebuild bool   // the last build failed: build the next table anew, not from the one before

	mu       sync.Mutex // below
	stats    PublisherStats
	inFlight int // changes taken from the RIB and not visible yet
}

// PublisherStats are counters for metrics.
type PublisherStats struct {
	Generations uint64        // published so far
	Changes     uint64        // prefixes changed in all of them
	Failures    uint64        // builds that failed; the previous generation stayed
	LastBuild   time.Duration // engine time of the newest generation
	LastChanges int
	LastLatency time.Duration // oldest change in the newest generation, received to visible
	Pending     int           // prefixes changed and not yet visible
}

// NewPublisher makes the publisher of a RIB, of which there must be one only. Nothing is
// published before Run or Flush.
func NewPublisher(r *RIB, e lpm.Engine, o PublisherOptions) *Publisher {
	if o.MinInterval <= 0 {
		o.MinInterval = defaultMinInterval
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Publisher{rib: r, engine: e, options: o, log: o.Log, turn: make(chan struct{}, 1)}
}

// Generations gives what was published. Withdraw it when Run has returned, to end the last
// generation's table; nothing can be published after that.
func (p *Publisher) Generations() *lpm.Published[Route] { return &p.generations }

// Ready is true once a generation is published that holds every awaited first load, or
// whatever there was at ReadyTimeout. It stays true. While it is not, waitingFor names the
// peers that it waits for, none where only the publication is left.
func (p *Publisher) Ready() (ok bool, waitingFor []string) {
	if p.ready.Load() {
		return true, nil
	}
	return false, p.rib.Pending()
}

// Stats gives the counters.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Pending = p.inFlight + p.rib.dirtyCount()
	return s
}

// Flush publishes all that is in the RIB now and returns when it is visible; with or without
// Run. The first one publishes a generation even where there is no route. After an error the
// changes wait for the next attempt.
func (p *Publisher) Flush(ctx context.Context) error {
	_, err := p.publish(ctx, true)
	return err
}

// Run publishes changes until ctx ends, which is no error. A change after a quiet time is
// published at once; the next ones wait for MinInterval, or for twice the time that the last ones
// took, up to 25 ms, also where those made no generation. Until Ready they wait for a second
// where the last ones took longer than MinInterval, but not once the last awaited load is
// complete. Failed builds are tried again. Run it once.
func (p *Publisher) Run(ctx context.Context) error {
	var timeout <-chan time.Time
	if p.options.ReadyTimeout > 0 {
		timer := time.NewTimer(p.options.ReadyTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	retry := time.Duration(0)
	for {
		started := time.Now()
		worked, err := p.publish(ctx, false)
		took := time.Since(started)
		rest := max(p.options.MinInterval, min(restPerBuild*took, longestRest))
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errWithdrawn):
			return err
		case err != nil:
			retry = min(max(2*retry, firstRetry), lastRetry)
			rest = max(rest, retry)
			p.log.Warn("publishing failed, the previous generation stays", "error", err, "retry_in", rest)
		default:
			retry = 0
		}
		switch {
		case err == nil && worked && took > p.options.MinInterval && !p.ready.Load():
			p.restLoading(ctx, loadingRest, timeout)
			continue // a wake of the meantime is used up: look whether there is something
		case err != nil || worked:
			if !sleep(ctx, rest) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.rib.wake:
		case <-timeout:
			p.readyTimeout()
		}
	}
}

// restLoading sleeps until ctx ends, readiness waits for nothing but a generation, or a peer waits
// for the publisher; d at most.
func (p *Publisher) restLoading(ctx context.Context, d time.Duration, timeout <-chan time.Time) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for p.rib.mayRest() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-timeout:
			p.readyTimeout()
			return
		case <-p.rib.wake:
		}
	}
}

// sleep is false where ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (p *Publisher) readyTimeout() {
	if p.ready.Load() {
		return
	}
	p.timedOut.Store(true)
	p.log.Warn("ready without all first loads", "timeout", p.options.ReadyTimeout, "waiting_for", p.rib.Pending())
}

// errWithdrawn ends a publisher whose table was taken from it.
var errWithdrawn = fmt.Errorf("the published generation was withdrawn: %w", lpm.ErrClosed)

// publish makes the RIB's changes visible. Where nothing changed it makes no generation, but
// for a first one without routes: where that is wanted, or readiness waits for nothing else.
// worked is false where there was nothing to look at.
func (p *Publisher) publish(ctx context.Context, first bool) (worked bool, err error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return false, fmt.Errorf("publish: %w", ctx.Err())
	}
	previous := p.generations.Acquire()
	if previous == nil {
		if p.number > 0 {
			return false, errWithdrawn
		}
	} else {
		defer previous.Release()
	}

	s := p.take()
	first = first || s.complete || p.timedOut.Load()
	c := s.decide(previous, &p.rib.hidden)
	publishing := c.count > 0 || previous == nil && first
	if publishing {
		if err := p.build(ctx, c, previous, s.since); err != nil {
			p.putBack(s)
			if ctx.Err() == nil {
				p.mu.Lock()
				p.stats.Failures++
				p.mu.Unlock()
			}
			return false, err
		}
	}
	p.rib.release(c.gone)
	p.rib.hidden.forget(c.shown)
	p.visible()
	if s.complete || p.timedOut.Load() {
		p.becomeReady()
	}
	return publishing || len(s.changed) > 0, nil
}

// take counts as in flight what it takes.
func (p *Publisher) take() *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.rib.take()
	p.inFlight = len(s.changed)
	return s
}

// putBack is the inverse of take.
func (p *Publisher) putBack(s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rib.putBack(s)
	p.inFlight = 0
	p.rebuild = true
}

func (p *Publisher) visible() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight = 0
}

func (p *Publisher) becomeReady() {
	if !p.ready.Swap(true) {
		p.log.Info("ready", "generation", p.number)
	}
}

// build has the engine make the table and publishes it.
func (p *Publisher) build(ctx context.Context, c changes, previous *Generation, since time.Time) error {
	started := time.Now()
	table, err := p.table(ctx, c, previous)
	if err != nil {
		return fmt.Errorf("publish generation %d (%d changes, engine %s): %w", p.number+1, c.count, p.engine.Name(), err)
	}
	p.number++
	p.rebuild = false
	g := &Generation{
		Number: p.number, Created: time.Now(), Source: p.options.Source,
		V4: c.v4, V6: c.v6, Table: table, Routes: c.routes,
	}
	p.generations.Publish(g)

	built, latency := g.Created.Sub(started), time.Duration(0)
	if c.count > 0 {
		latency = g.Created.Sub(since)
	}
	p.mu.Lock()
	p.stats.Generations++
	p.stats.Changes += uint64(c.count)
	p.stats.LastBuild, p.stats.LastChanges, p.stats.LastLatency = built, c.count, latency
	p.mu.Unlock()
	p.log.Debug("generation published", "generation", g.Number, "changes", c.count, "ipv4", g.V4, "ipv6", g.V6, "build", built, "latency", latency)
	return nil
}

// table updates the previous one, or builds a new one where that is the lesser work or the
// only way. Where only attributes changed the update has no changes: a generation closes its
// table at its end, so each needs one of its own.
func (p *Publisher) table(ctx context.Context, c changes, previous *Generation) (lpm.Table, error) {
	n := c.table.Len()
	if previous != nil && !p.rebuild && (n <= smallUpdate || n*rebuildFraction <= c.v4+c.v6) && !lpm.Worn(previous.Table) {
		table, err := p.engine.Update(ctx, previous.Table, c.table)
		if !errors.Is(err, lpm.ErrForeignTable) {
			return table, err
		}
		// The engine behind the seam was replaced: it cannot start from the other's table.
	}
	if previous == nil {
		return p.engine.Build(ctx, c.table) // whatever there is has come
	}
	all := lpm.Routes{V4: make([]lpm.Route4, 0, c.v4), V6: make([]lpm.Route6, 0, c.v6)}
	for h := range c.routes.Len() {
		if r := c.routes.At(h); r != (Route{}) {
			all.Add(r.Prefix, lpm.Handle(h))
		}
	}
	return p.engine.Build(ctx, all)
}
