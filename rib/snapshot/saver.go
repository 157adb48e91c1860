package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// A Source is a table to be saved.
type Source struct {
	Table     string
	Publisher *rib.Publisher
}

// SaverOptions say what is saved, where and how often.
type SaverOptions struct {
	// Path of the file. Its folder must be there; temporary files are beside it.
	Path string
	// Sources gives the tables as they are now. Safe for concurrent use.
	Sources func() []Source
	// Interval between two saves; default 5 minutes.
	Interval time.Duration
	// StaleTime is how long after Restore the routes of a source stay that does not come, or does
	// not say that it has sent all; default 10 minutes. BGP sessions have a time of their own.
	StaleTime time.Duration
	// MaxAge is how long ago saved routes may have been known to be right, to be restored; default
	// 24 hours. However often a service starts, no route of a lost peer outlives MaxAge by more
	// than one stale time.
	MaxAge time.Duration
	Log    *slog.Logger // nil: slog.Default
}

// SaverStats are counters for metrics and status pages.
type SaverStats struct {
	Saves        uint64
	Failures     uint64    // saves that failed; the file before stayed
	LastSaved    time.Time // when the file was made that is there, of this process
	LastDuration time.Duration
	LastBytes    int64
	LastRoutes   int
	LastError    string        // of the last save, empty where it was good
	Restored     [NumFates]int // saved routes at the start
	Refused      string        // why the file at the start was not taken; empty where it was
	Swept        int           // peers whose restored routes were given up
}

// A Saver keeps the tables of a service in one file. In this order: Restore before sessions and
// files start, Run while they go, SaveNow before they end. Safe for concurrent use.
type Saver struct {
	options SaverOptions
	log     *slog.Logger

	saving sync.Mutex // held by who saves or restores
	ended  bool       // under saving: the last save was made

	mu       sync.Mutex // below; never held while something waits
	stats    SaverStats
	restored bool
	marks    map[*rib.Peer]mark
}

// A mark tells whether a peer has still the routes that were restored, and from when they are.
type mark struct {
	since time.Time // last known to be right
	state time.Time // rib.PeerStatus.Since behind Restore
	stale time.Time // rib.PeerStatus.StaleSince behind Restore
}

// NewSaver makes a Saver. It touches no file.
func NewSaver(o SaverOptions) *Saver {
	set := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	set(&o.Interval, 5*time.Minute)
	set(&o.StaleTime, 10*time.Minute)
	set(&o.MaxAge, 24*time.Hour)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Saver{options: o, log: o.Log, marks: map[*rib.Peer]mark{}}
}

// Stats gives the counters.
func (s *Saver) Stats() SaverStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Restore reads the file, gives the routes to their peers and publishes a generation of every
// table of Sources that they went to. Where there is no file it does nothing. An error says why
// the file was refused, or what could not be published: the service goes on with what there is.
// Before that it removes what interrupted saves have left.
//
// Nothing is saved before Restore has returned, so that the file of before is not lost to an early
// end.
func (s *Saver) Restore(ctx context.Context, find Find) (Restored, error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	removed, err := removeTemporary(s.options.Path)
	if len(removed) > 0 {
		s.log.Info("temporary files of interrupted saves removed", "files", removed)
	}
	if err != nil {
		s.log.Warn("temporary files of interrupted saves may be left", "error", err)
	}

	started := time.Now()
	saved, err := Load(s.options.Path)
	if errors.Is(err, os.ErrNotExist) {
		s.log.Info("no saved generation: starting empty", "file", s.options.Path)
		s.began(nil, Restored{}, "")
		return Restored{}, nil
	}
	if err != nil {
		s.began(nil, Restored{}, err.Error())
		return Restored{}, err
	}
	r := saved.Restore(find, s.options.MaxAge)
	s.began(saved, r, "")
	for _, p := range r.Peers {
		if p.Routes[Given] == 0 {
			s.log.Debug("saved routes dropped", "table", p.Table, "peer", p.Peer.Name, "routes", p.Routes)
		}
	}
	err = s.publish(ctx, saved)
	log := []any{"file", s.options.Path, "saved", saved.Created, "routes", r.Routes[Given], "took", time.Since(started)}
	for f := Given + 1; f < NumFates; f++ {
		log = append(log, f.String(), r.Routes[f])
	}
	s.log.Info("saved generation restored", log...)
	return r, err
}

// publish makes the restored tables visible.
func (s *Saver) publish(ctx context.Context, saved *Saved) (err error) {
	names := map[string]bool{}
	for _, t := range saved.Tables {
		names[t.Name] = true
	}
	for _, source := range s.options.Sources() {
		if names[source.Table] {
			if failed := source.Publisher.Flush(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("restored table %q: %w", source.Table, failed))
			}
		}
	}
	return err
}

// began notes what was restored: from now on it may be saved.
func (s *Saver) began(saved *Saved, r Restored, refused string) {
	marks := map[*rib.Peer]mark{}
	for _, p := range r.Peers {
		if p.Routes[Given] == 0 {
			continue
		}
		m := mark{since: saved.Created}
		if !p.Peer.StaleSince.IsZero() {
			m.since = p.Peer.StaleSince
		}
		status := p.to.Status()
		m.state, m.stale = status.Since, status.StaleSince
		if earlier, there := marks[p.to]; there && earlier.since.Before(m.since) { // from another table of that name
			m.since = earlier.since
		}
		if !m.stale.IsZero() {
			marks[p.to] = m
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored, s.marks = true, marks
	s.stats.Restored, s.stats.Refused = r.Routes, refused
}

// Run saves at every interval until ctx ends, and after StaleTime withdraws what was restored and
// not announced again. It starts with an interval. A save that fails is logged, and tried again
// with the next one.
func (s *Saver) Run(ctx context.Context) {
	interval := time.NewTicker(s.options.Interval)
	defer interval.Stop()
	stale := time.NewTimer(s.options.StaleTime)
	defer stale.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stale.C:
			s.sweep()
		case <-interval.C:
			_ = s.SaveNow() // logged and counted
		}
	}
}

// SaveNow saves all tables that have a generation. Where there is none, or before Restore, the file
// stays as it is, and that is no error. It takes some 0.15 s for a full table and what the disk takes for 20 MB.
//
// A save that fails leaves the file as it was. The error is logged and counted already.
func (s *Saver) SaveNow() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.saveOnce()
}

// SaveLast is SaveNow, after which nothing is saved any more, by Run neither: what withdraws routes
// from then on is the end of the service.
func (s *Saver) SaveLast() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	err := s.saveOnce()
	s.ended = true
	return err
}

// saveOnce is called with saving locked.
func (s *Saver) saveOnce() error {
	if s.ended {
		return nil
	}
	s.mu.Lock()
	restored := s.restored
	s.mu.Unlock()
	if !restored {
		return nil
	}
	started := time.Now()
	w, err := s.save(started)
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("save generation to %s: %w", s.options.Path, err)
		s.log.Error("saving failed, the file of before stays", "error", err, "retry_in", s.options.Interval)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.LastDuration = time.Since(started)
	if err != nil {
		s.stats.Failures++
		s.stats.LastError = err.Error()
		return err
	}
	s.stats.Saves++
	s.stats.LastError = ""
	s.stats.LastSaved, s.stats.LastBytes, s.stats.LastRoutes = started, w.bytes, w.routes
	s.log.Debug("generation saved", "file", s.options.Path, "routes", w.routes, "bytes", w.bytes, "took", s.stats.LastDuration)
	return nil
}

// errNothing: no table has a generation.
var errNothing = errors.New("nothing is published")

func (s *Saver) save(now time.Time) (w *writer, err error) {
	sources := s.options.Sources()
	published := make([]Source, 0, len(sources))
	generations := make([]*rib.Generation, 0, len(sources))
	for _, source := range sources {
		if g := source.Publisher.Generations().Acquire(); g != nil {
			defer g.Release()
			published, generations = append(published, source), append(generations, g)
		}
	}
	if len(generations) == 0 {
		return nil, errNothing
	}
	err = replace(s.options.Path, func(to io.Writer) error {
		w = newWriter(to, now)
		for i, g := range generations {
			w.generation(published[i].Table, g, published[i].Publisher.Withheld(g), func(p *rib.Peer) time.Time { return s.staleSince(p, now) })
		}
		return w.end()
	})
	return w, err
}

// staleSince tells since when a peer has the stale routes of a generation. Those that were restored
// are as old as they were, so that saving them again makes them no younger. A peer that has none
// any more has announced them all again since the generation was made: a moment ago, so now.
func (s *Saver) staleSince(p *rib.Peer, now time.Time) time.Time {
	status := p.Status()
	if status.StaleSince.IsZero() {
		return now
	}
	if m, restored := s.stillRestored(p, status); restored {
		return m.since
	}
	return status.StaleSince
}

// stillRestored tells whether the stale routes of a peer are those that were restored, and not
// those of a session that was lost since.
func (s *Saver) stillRestored(p *rib.Peer, status rib.PeerStatus) (mark, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.marks[p]
	neverUp := m.state.Equal(status.Since)
	return m, ok && m.stale.Equal(status.StaleSince) && (neverUp || status.State != "stale")
}

// sweep gives up what was restored and not announced again.
func (s *Saver) sweep() {
	s.mu.Lock()
	peers := make([]*rib.Peer, 0, len(s.marks))
	for p := range s.marks {
		if p.Config().Kind != rib.KindBGP { // rib/bgp knows whether a session is under way
			peers = append(peers, p)
		}
	}
	s.mu.Unlock()
	swept := 0
	for _, p := range peers {
		status := p.Status()
		if _, restored := s.stillRestored(p, status); restored {
			s.log.Warn("restored routes given up: their peer has not announced them again", "peer", status.Name,
				"state", status.State, "routes", status.Stale4+status.Stale6, "after", s.options.StaleTime)
			p.Sweep(false)
			p.Sweep(true)
			swept++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Swept += swept
}
