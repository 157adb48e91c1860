package api

import (
	"slices"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

const (
	holdTime = time.Minute // how long a generation is held after a listing of it last moved
	maxHeld  = 4           // generations held together: a table of full size takes tens of megabytes
)

// held keeps the generations of listings for a while though newer ones are published, so that a
// listing that broke off can go on where it was. The zero value holds none.
type held struct {
	mu     sync.Mutex
	gens   []*heldGeneration // by use, the latest last
	closed bool
}

type heldGeneration struct {
	*rib.Generation
	used   time.Time
	expire *time.Timer
}

// hold keeps g for holdTime from now on. The caller must hold a reference of its own. Where more
// than maxHeld would be kept, the one that was used the longest ago is given back.
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
		e.expire = time.AfterFunc(holdTime, func() { h.drop(e) })
	}
	e.used = time.Now()
	h.gens = append(h.gens, e)
	if len(h.gens) <= maxHeld {
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
	if rest := time.Until(e.used.Add(holdTime)); rest > 0 {
		e.expire.Reset(rest)
		return false
	}
	h.gens = slices.Delete(h.gens, i, i+1)
	return true
}

// find gives the generation of this number with a reference that the caller must release, nil
// where it is not held.
func (h *held) find(number uint64) *rib.Generation {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.gens {
		if e.Number == number {
			e.Retain()
			return e.Generation
		}
	}
	return nil
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
