package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

const (
	holdTime = time.Minute // how long a generation is held after a request for it last moved
	maxHeld  = 4           // generations held together: a table of full size takes tens of megabytes
	pastTime = time.Hour   // how long one of Deps.Past is held at least after it was replaced
)

// held keeps generations for a while though newer ones are published, so that a listing that broke
// off can go on where it was, and requests can ask about what was. The zero value keeps up to maxHeld
// for holdTime.
type held struct {
	most int           // 0: maxHeld
	time time.Duration // 0: holdTime

	mu     sync.Mutex
	gens   []*heldGeneration // by use, the latest last
	closed bool
}

type heldGeneration struct {
	*rib.Generation
	used   time.Time
	expire *time.Timer
}

// hold keeps g for a time from now on. The caller must hold a reference of its own. Where more than
// the most would be kept, the one that was used the longest ago is given back.
func (h *held) hold(g *rib.Generation) {
	if old := h.use(g); old != nil {
		old.Release() // may close a table: not under the lock
	}
}

func (h *held) use(g *rib.Generation) (old *rib.Generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	var e *heldGeneration
	if i := slices.IndexFunc(h.gens, func(e *heldGeneration) bool { return e.Generation == g }); i >= 0 {
		e = h.gens[i]
		h.gens = slices.Delete(h.gens, i, i+1)
	} else {
		g.Retain()
		e = &heldGeneration{Generation: g}
		e.expire = time.AfterFunc(cmp.Or(h.time, holdTime), func() { h.drop(e) })
	}
	e.used = time.Now()
	h.gens = append(h.gens, e)
	if len(h.gens) <= cmp.Or(h.most, maxHeld) {
		return nil
	}
	first := h.gens[0]
	first.expire.Stop()
	h.gens = slices.Delete(h.gens, 0, 1)
	return first.Generation
}

// drop gives e back unless it was used meanwhile: then its time begins anew.
func (h *held) drop(e *heldGeneration) {
	if h.unused(e) {
		e.Release()
	}
}

// unused takes e out of the list if its time is over.
func (h *held) unused(e *heldGeneration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.gens, e)
	if i < 0 {
		return false // somebody else gives it back
	}
	if rest := time.Until(e.until(h)); rest > 0 {
		e.expire.Reset(rest)
		return false
	}
	h.gens = slices.Delete(h.gens, i, i+1)
	return true
}

// find gives a generation with a reference that the caller must release, nil where none of those that
// are held is the one.
func (h *held) find(is func(*rib.Generation) bool) *rib.Generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.gens {
		if is(e.Generation) {
			e.Retain()
			return e.Generation
		}
	}
	return nil
}

// until is when e is given back, if it is not used before and no other one takes its place.
func (e *heldGeneration) until(h *held) time.Time { return e.used.Add(cmp.Or(h.time, holdTime)) }

// each calls f with every generation and the time until which it is held.
func (h *held) each(f func(g *rib.Generation, until time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.gens {
		f(e.Generation, e.until(h))
	}
}

// count is how many generations are held.
func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.gens)
}

// close gives all generations back and holds none from now on.
func (h *held) close() {
	h.mu.Lock()
	gens := h.gens
	h.gens, h.closed = nil, true
	h.mu.Unlock()
	for _, e := range gens {
		e.expire.Stop()
		e.Release()
	}
}
