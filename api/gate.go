package api

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A gate has bulk requests take turns at the processors: at most slots of them compute at once. Clients
// that wait go round robin, whatever the number of their requests (fair queueing: Nagle, RFC 970; here
// a turn ends when the request waits for its client, after some 100 KB of answers).
type gate struct {
	slots, most, share int

	running atomic.Int64 // turns that are taken
	waiting atomic.Int64 // requests that wait for one

	mu      sync.Mutex
	inside  int // requests
	clients map[netip.Prefix]*gateClient
	ring    []*gateClient // those with requests that wait; the first is the next
}

// gateClient is a client that has requests.
type gateClient struct {
	key    netip.Prefix
	inside int
	queue  []chan struct{} // of its requests that wait; closed when the turn is there
}

func newGate(slots, most, share int) *gate {
	return &gate{slots: slots, most: most, share: share, clients: map[netip.Prefix]*gateClient{}}
}

// admit lets a request in and waits for its first turn, which it has then; nil and a reason where it
// cannot. The turn must be ended.
func (g *gate) admit(key netip.Prefix, wait time.Duration) (*turn, refusal) {
	c, why := g.enter(key)
	if c == nil {
		return nil, why
	}
	if !g.take(c, wait) {
		g.leave(c)
		return nil, refusedDelay
	}
	return &turn{gate: g, client: c, held: true}, admitted
}

func (g *gate) enter(key netip.Prefix) (*gateClient, refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.clients[key]
	switch {
	case c != nil && c.inside >= g.share:
		return nil, refusedClient
	case g.inside >= g.most:
		return nil, refusedFull
	case c == nil:
		c = &gateClient{key: key}
		g.clients[key] = c
	}
	c.inside++
	g.inside++
	return c, admitted
}

func (g *gate) leave(c *gateClient) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if c.inside--; c.inside == 0 {
		delete(g.clients, c.key)
	}
}

// take waits for a turn; false where it did not come in time. No time is as long as it takes.
func (g *gate) take(c *gateClient, wait time.Duration) bool {
	if g.waiting.Load() == 0 && g.start() {
		return true
	}
	ready := make(chan struct{})
	g.mu.Lock()
	// Counted before slots are looked at, while give looks in the other order: one of them sees the other.
	g.waiting.Add(1)
	if c.queue = append(c.queue, ready); len(c.queue) == 1 {
		g.ring = append(g.ring, c)
	}
	g.dispatch()
	g.mu.Unlock()
	if wait == 0 {
		<-ready
		return true
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-ready:
		return true
	case <-late.C:
		return !g.forget(c, ready)
	}
}

// forget takes a request that waits out of its queue; false where its turn came meanwhile.
func (g *gate) forget(c *gateClient, ready chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(c.queue, ready)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	g.waiting.Add(-1)
	if len(c.queue) == 0 {
		i := slices.Index(g.ring, c)
		g.ring = slices.Delete(g.ring, i, i+1)
	}
	return true
}

// give ends a turn.
func (g *gate) give() {
	g.running.Add(-1)
	if g.waiting.Load() > 0 {
		g.mu.Lock()
		g.dispatch()
		g.mu.Unlock()
	}
}

// start takes a slot if one is free.
func (g *gate) start() bool {
	for {
		n := g.running.Load()
		if n >= int64(g.slots) {
			return false
		}
		if g.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// dispatch gives free slots to who waits. It is called under mu.
func (g *gate) dispatch() {
	for len(g.ring) > 0 && g.start() {
		c := g.ring[0]
		ready := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		g.ring = slices.Delete(g.ring, 0, 1)
		if len(c.queue) > 0 {
			g.ring = append(g.ring, c)
		}
		g.waiting.Add(-1)
		close(ready)
	}
}

// load counts requests, and those of them that compute.
func (g *gate) load() (inside, running int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside, int(g.running.Load())
}
