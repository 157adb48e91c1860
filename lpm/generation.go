package lpm

import (
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/lpm/cow"
)

// A Generation is one consistent world: a table and the routes that its handles name. It never
// changes once published. R is whatever the publisher keeps for a route.
//
// Whoever reads one holds a reference (Published.Acquire, then Release); the table is closed
// when the generation was replaced and its last reader has gone.
type Generation[R any] struct {
	Number  uint64    // 1 for the first, +1 for each next
	Created time.Time // when it was published
	Source  string    // what it was made from, for people: "bgp", a file name
	V4, V6  int       // number of IPv4 and IPv6 routes
	Table   Table
	Routes  cow.Array[R] // by handle; unused handles hold R's zero value

	refs atomic.Int64 // 1 for being published, 1 a reader
}

// Route gives the route that h names, and R's zero value for None.
func (g *Generation[R]) Route(h Handle) R { return g.Routes.At(int(h)) }

// Retain takes one more reference; the caller must hold one already.
func (g *Generation[R]) Retain() { g.refs.Add(1) }

// Release gives a reference back. The last one closes the table.
func (g *Generation[R]) Release() {
	switch n := g.refs.Add(-1); {
	case n == 0:
		_ = g.Table.Close() // nobody is left to tell; an engine logs its own failures
	case n < 0:
		panic("lpm: generation released more often than acquired")
	}
}

// acquire takes a reference unless the last one is gone already.
func (g *Generation[R]) acquire() bool {
	for {
		n := g.refs.Load()
		if n == 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Published holds the newest generation. The zero value holds none. Safe for concurrent use;
// readers never wait for a publisher.
type Published[R any] struct {
	current atomic.Pointer[Generation[R]]
}

// Acquire gives the newest generation with a reference that the caller must Release, or nil
// where none was published yet.
func (p *Published[R]) Acquire() *Generation[R] {
	for {
		g := p.current.Load()
		if g == nil || g.acquire() {
			return g
		}
		// g was replaced and freed between the two steps: the pointer has moved on.
	}
}

// Publish makes g the newest generation and drops the previous one, which is freed with its
// last reader. g must be new: not published before, not changed after.
func (p *Published[R]) Publish(g *Generation[R]) {
	g.refs.Add(1)
	if old := p.current.Swap(g); old != nil {
		old.Release()
	}
}

// Withdraw leaves no generation published: for shutdown.
func (p *Published[R]) Withdraw() {
	if old := p.current.Swap(nil); old != nil {
		old.Release()
	}
}
