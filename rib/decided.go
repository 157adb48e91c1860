package rib

import (
	"cmp"
	"net/netip"
	"runtime"
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
)

const (
	// manyChanges is from how many destinations on it pays to decide on all cores.
	manyChanges = 4096
	// partsPerCore leaves less to do for a core that has something else to do, too.
	partsPerCore = 4
)

// changes are what a snapshot makes different from the generation before.
type changes struct {
	count  int              // routes that differ
	table  lpm.Routes       // prefixes that came or went
	routes cow.Array[Route] // of the new generation
	v4, v6 int              // routes in it
	gone   []lpm.Handle     // without a path: may be freed once it is published
	shown  []netip.Prefix   // no longer hidden once it is published
}

// decide chooses the best paths and compares them with the generation before, nil for none. It tells hidden what
// it has to know. Where they are many, as after a change of the IGP, all cores decide.
func (s *snapshot) decide(previous *Generation, h *hidden) changes {
	var c changes
	if previous != nil {
		c.routes, c.v4, c.v6 = previous.Routes, previous.V4, previous.V6
	}
	parts := s.parts()
	before := c.routes
	edit := sync.OnceValue(func() *cow.Edit[Route] { // made at the first difference
		e := before.Edit()
		if len(parts) > 1 {
			e.Grow(int(s.changed[len(s.changed)-1].handle) + 1) // they write beside each other
		}
		return e
	})
	found := make([]changes, len(parts))
	if len(parts) == 1 {
		found[0] = s.compare(parts[0], before, edit, h)
	} else {
		var wait sync.WaitGroup
		for i, some := range parts {
			wait.Go(func() { found[i] = s.compare(some, before, edit, h) })
		}
		wait.Wait()
	}
	for _, f := range found {
		c.count += f.count
		c.v4 += f.v4
		c.v6 += f.v6
		c.gone, c.shown = join(c.gone, f.gone), join(c.shown, f.shown)
		c.table.V4, c.table.V6 = join(c.table.V4, f.table.V4), join(c.table.V6, f.table.V6)
	}
	if c.count > 0 {
		c.routes = edit().Done()
	}
	return c
}

// join is append that copies nothing to an empty list.
func join[T any](to, more []T) []T {
	if len(to) == 0 {
		return more
	}
	return append(to, more...)
}

// parts cuts what changed for all cores, and puts it in order for that: pages of routes lie in one part each.
func (s *snapshot) parts() [][]destinationPaths {
	if len(s.changed) < manyChanges {
		return [][]destinationPaths{s.changed}
	}
	byHandle := func(a, b destinationPaths) int { return cmp.Compare(a.handle, b.handle) }
	if !slices.IsSortedFunc(s.changed, byHandle) {
		slices.SortFunc(s.changed, byHandle)
	}
	var parts [][]destinationPaths
	size := len(s.changed)/(partsPerCore*runtime.GOMAXPROCS(0)) + 1
	for rest := s.changed; len(rest) > 0; {
		n := min(size, len(rest))
		for n < len(rest) && rest[n].handle/cow.PageSize == rest[n-1].handle/cow.PageSize {
			n++
		}
		parts = append(parts, rest[:n])
		rest = rest[n:]
	}
	return parts
}

// compare chooses the best paths of some of what changed and compares them with the routes before. Of the changes that it
// gives, routes is empty, and v4 and v6 are differences.
func (s *snapshot) compare(some []destinationPaths, before cow.Array[Route], edit func() *cow.Edit[Route], hidden *hidden) (c changes) {
	v6 := 0
	for i := range some {
		if s.key(some[i].handle).v6 {
			v6++
		}
	}
	c.table = lpm.Routes{V4: make([]lpm.Route4, 0, len(some)-v6), V6: make([]lpm.Route6, 0, v6)}
	decision := newDecision(s.speakers, s.igp)
	var best path
	for i := range some {
		changed := &some[i]
		if i == 0 || !samePaths(changed.first, some[i-1].first, changed.others(), some[i-1].others()) {
			best = decision.bestOf(changed)
		}
		h := changed.handle
		k := s.key(h)
		was := before.At(int(h))
		var is Route
		if best.exists() {
			is = decision.route(k.prefix(), best)
		} else {
			c.gone = append(c.gone, h)
		}
		if hidden.note(k.prefix(), !best.exists() && changed.usable()) {
			c.shown = append(c.shown, k.prefix())
		}
		if is == was {
			continue
		}
		edit().Set(int(h), is)
		c.count++
		by := 0
		switch {
		case was == Route{}:
			k.addTo(&c.table, h)
			by = +1
		case is == Route{}:
			k.addTo(&c.table, lpm.None)
			by = -1
		}
		if k.v6 {
			c.v6 += by
		} else {
			c.v4 += by
		}
	}
	return c
}

// bestOf gives the best path to a destination, the zero path for none.
func (d *decision) bestOf(c *destinationPaths) path {
	if p, ok := d.best(c.first, c.others()); ok {
		return p
	}
	return path{}
}
