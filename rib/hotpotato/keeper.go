package hotpotato

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// A Source is what a topology comes from. Safe for concurrent use.
type Source interface {
	// Topology gives a new topology of all that is known, nil where nothing has changed since the last
	// call. It is kept: its number is set.
	Topology() (*igp.Topology, error)
}

// Config says what the Keeper goes by. It is comparable.
type Config struct {
	// Root is the router whose costs the decision goes by: its name, or an address that it alone
	// announces. "": the decision goes by none, and all next hops cost the same.
	Root string
	// StrictNextHops has paths whose next hop no node announces not chosen. Otherwise they are the
	// farthest.
	StrictNextHops bool
	Source         string // for people: a file's name, or "bgp-ls"
}

// Tables is what takes costs: rib.Tables, or a rib.RIB.
type Tables interface {
	SetIGP(rib.IGPCost) (affected int)
}

// Options of a Keeper.
type Options struct {
	Tables Tables
	Solver igp.Solver   // of FromEach; nil: the processor
	Log    *slog.Logger // nil: slog.Default
}

const (
	// A change after a quiet time is taken at once. The next ones wait for shortestRest, or for restFor
	// times as long as the last one took.
	shortestRest = 10 * time.Millisecond
	restFor      = 2
)

// A Keeper keeps the costs that tables go by those of the topology in force. Set says what it goes by, and
// Run has it follow its source. Safe for concurrent use.
type Keeper struct {
	options Options
	store   *igp.Store
	changed chan struct{} // holds an item while the source may have something new

	turn    sync.Mutex // who takes a topology
	setting atomic.Pointer[setting]

	rowsMu sync.Mutex
	rows   rows

	mu     sync.Mutex
	status Status
}

type setting struct {
	Config
	source Source
}

// Status is what a Keeper has done.
type Status struct {
	Config
	Generation   uint64 // of the topology; 0 before the first
	Nodes, Links int
	Changed      time.Time // when the topology came into force
	RootNode     string    // the root's name; "" where the topology has none
	LastError    string    // why the root or the topology is not what it should be; "" for nothing
	Changes      uint64    // topologies so far
	Failures     uint64    // topologies that could not be made
	DecidedAgain uint64    // destinations, in all of them
	LastAgain    int
	LastSPF      time.Duration // to make the last topology and compute its paths
	LastScan     time.Duration // to find what it decides otherwise
}

// New makes a Keeper without a topology.
func New(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	k := &Keeper{options: o, store: igp.NewStore(), changed: make(chan struct{}, 1)}
	k.setting.Store(&setting{})
	return k
}

func (k *Keeper) config() Config { return k.setting.Load().Config }

// Topology gives the topology in force, without nodes before the first.
func (k *Keeper) Topology() *igp.Topology { return k.store.Topology() }

// Status gives what it has done.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// Set has it go by another configuration and source, at once: what the source knows is in force, and the tables
// go by it, when Set returns. nil is no source: the topology in force goes.
func (k *Keeper) Set(c Config, s Source) {
	k.turn.Lock()
	defer k.turn.Unlock()
	was := k.setting.Swap(&setting{c, s})
	if was.source != s && s == nil && k.store.Topology().Number > 1 {
		t, _ := igp.New(nil, nil)
		k.store.Replace(t)
	}
	k.take(true)
}

// Notify tells that the source may have something new.
func (k *Keeper) Notify() {
	select {
	case k.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// Run follows the source until ctx ends. Changes that come at once are taken together.
func (k *Keeper) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		}
		started := time.Now()
		k.turn.Lock()
		k.take(false)
		k.turn.Unlock()
		rest := time.NewTimer(max(shortestRest, restFor*time.Since(started)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// take puts the source's topology in force, and its costs. It is called under turn. Without a new
// topology it does nothing unless forced.
func (k *Keeper) take(force bool) {
	s := k.setting.Load()
	started := time.Now()
	var t *igp.Topology
	if s.source != nil {
		var err error
		if t, err = s.source.Topology(); err != nil {
			k.options.Log.Error("igp topology not used: that of before stays", "error", err)
			k.mu.Lock()
			k.status.Failures++
			k.status.LastError = err.Error()
			k.mu.Unlock()
			return
		}
	}
	if t != nil {
		k.store.Replace(t)
	} else if !force {
		return
	}
	now := k.store.Topology()
	next, root, problem := k.fromRoot(now, s.Config)
	spf := time.Since(started)
	started = time.Now()
	again := k.options.Tables.SetIGP(next)
	scan := time.Since(started)

	k.mu.Lock()
	st := &k.status
	before := *st
	st.Config, st.RootNode, st.LastError = s.Config, root, problem
	st.Generation, st.Nodes, st.Links = now.Number, len(now.Nodes), len(now.Links)
	if t != nil || before.Generation != now.Number {
		st.Changed = time.Now()
		st.Changes++
	}
	st.DecidedAgain += uint64(again)
	st.LastAgain, st.LastSPF, st.LastScan = again, spf, scan
	k.mu.Unlock()
	if problem != "" && problem != before.LastError {
		k.options.Log.Warn("igp root is not in the topology: the decision goes by no costs", "root", s.Root, "reason", problem)
	}
	k.options.Log.Debug("igp topology in force", "generation", now.Number, "nodes", len(now.Nodes), "links", len(now.Links), "decided_again", again, "spf", spf, "scan", scan)
}

// fromRoot gives the costs that the tables go by, nil for none, the root's name, and what is wrong with it.
func (k *Keeper) fromRoot(t *igp.Topology, c Config) (next rib.IGPCost, root, problem string) {
	if c.Root == "" {
		return nil, "", ""
	}
	n, err := t.FindNode(c.Root)
	if err != nil {
		return nil, "", err.Error()
	}
	return &costs{t, t.Tree(n).Dist, c.StrictNextHops}, t.Nodes[n].Name, ""
}

// File is a Source of the topology that was read of a file.
func File(t *igp.Topology) Source { return &file{t: t} }

type file struct {
	mu sync.Mutex
	t  *igp.Topology // nil once given
}

func (f *file) Topology() (*igp.Topology, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.t
	f.t = nil
	return t, nil
}
