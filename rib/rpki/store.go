package rpki

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Store holds the Table that is in force: the VRPs of all files and those of one cache. Of the
// caches that have unexpired data it is the first in the order of preference that is connected, or
// else the first. All methods are safe for concurrent use. Make one with NewStore.
type Store struct {
	table atomic.Pointer[Table]

	mu      sync.Mutex
	sources []*source // caches first, in the order of preference
	used    []*Table  // what table was made of
	watches []*watch
	changed chan struct{} // Run has watches to call
}

// A source is where VRPs come from. Under Store.mu.
type source struct {
	SourceStatus
	table *Table
	timer *time.Timer // for Expires
}

// A watch is a function of OnChange.
type watch struct{ call func() }

// Kinds of sources.
const (
	KindCache = "cache"
	KindFile  = "file"
)

// SourceStatus is a source as status pages show it.
type SourceStatus struct {
	Name      string // the address of a cache, the path of a file
	Kind      string // KindCache, KindFile
	Connected bool   // a cache's session is up and its data are complete; a file could be read
	Used      bool   // its VRPs are in the table
	VRPs      int
	Skipped   int       // VRPs of a file that had expired when it was read
	Updated   time.Time // when the data were last confirmed
	Expires   time.Time // when they are given up; zero for a file
	LastError string    // why it is not connected, or the file not read

	Version uint8 // of the protocol; these are a cache's
	Session uint16
	Serial  uint32
}

// NewStore makes a Store with an empty table.
func NewStore() *Store { return &Store{changed: make(chan struct{}, 1)} }

// Table gives the table in force. It takes no lock.
func (s *Store) Table() *Table { return s.table.Load() }

// Validate is Table().Validate.
func (s *Store) Validate(prefix netip.Prefix, origin uint32) State {
	return s.table.Load().Validate(prefix, origin)
}

// OnChange has Run call f after the table has changed, once for changes that come while f or
// another such function runs. stop ends that; a call that has begun goes on.
func (s *Store) OnChange(f func()) (stop func()) {
	w := &watch{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches = slices.DeleteFunc(s.watches, func(x *watch) bool { return x == w })
	}
}

// notify calls the watches.
func (s *Store) notify() {
	s.mu.Lock()
	watches := slices.Clone(s.watches)
	s.mu.Unlock()
	for _, w := range watches {
		w.call()
	}
}

// Status describes the sources: caches first, in the order of preference.
func (s *Store) Status() []SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]SourceStatus, len(s.sources))
	for i, x := range s.sources {
		all[i] = x.SourceStatus
	}
	return all
}

// setSources makes these the sources. Those that were there before keep their data.
func (s *Store) setSources(names []SourceStatus) []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	sources := make([]*source, len(names))
	for i, n := range names {
		at := slices.IndexFunc(s.sources, func(x *source) bool { return x.Name == n.Name && x.Kind == n.Kind })
		if at < 0 {
			sources[i] = &source{SourceStatus: n}
			continue
		}
		sources[i] = s.sources[at]
		s.sources = slices.Delete(s.sources, at, at+1)
	}
	for _, gone := range s.sources {
		gone.stopTimer()
	}
	s.sources = sources
	s.choose()
	return slices.Clone(sources)
}

// update has change say what is new of a source.
func (s *Store) update(x *source, change func(x *source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(x)
	x.VRPs = x.table.Len()
	s.choose()
}

// keep gives a cache data that are good for a time from now on.
func (s *Store) keep(x *source, t *Table, expire time.Duration, change func(x *source)) {
	s.update(x, func(x *source) {
		change(x)
		x.stopTimer()
		x.table, x.Updated = t, time.Now()
		x.Expires = x.Updated.Add(expire)
		var timer *time.Timer
		timer = time.AfterFunc(expire, func() {
			s.update(x, func(x *source) {
				if x.timer == timer { // else it was too late to stop it
					x.table, x.timer = nil, nil
				}
			})
		})
		x.timer = timer
	})
}

func (x *source) stopTimer() {
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}

// choose makes the table of what the sources have now. It is called under the lock.
func (s *Store) choose() {
	best := -1
	for i, x := range s.sources {
		if x.Kind == KindCache && x.table != nil && (best < 0 || x.Connected && !s.sources[best].Connected) {
			best = i
		}
	}
	var tables []*Table
	for i, x := range s.sources {
		x.Used = x.table != nil && (x.Kind == KindFile || i == best)
		if x.Used {
			tables = append(tables, x.table)
		}
	}
	if slices.Equal(tables, s.used) {
		return
	}
	s.used = tables
	t := Union(tables...)
	if old := s.table.Swap(t); !t.Equal(old) {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}
