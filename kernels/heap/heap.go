// Package heap finds shortest paths from many nodes of a graph at once on a device: one warp a problem, by a heap as wide as
// a warp.
//
// The heap is that of the CUPQ library turned to whole batches. It has 32 children a node, and a node holds 32 pairs of a distance and a
// node of the graph, one a lane, ascending. The least pair of a node, its top, is not greater than any of its children's.
//
//	sort                bitonic network over the lanes
//	merge               of two batches the 32 least and the 32 greatest pairs
//	min_child           the child with the least top: a top a lane, least by shuffles
//	propagate_down      from a node to the leaves: the least child's pairs up, the greater ones down
//	propagate_up        from the last node to the first: the lesser pairs up
//	insert              a batch of up to 32 pairs behind the last node, and up
//	replace_smallest    a batch in, the least 32 of it and of the first node out; pop: the same with nothing in
//	compact             drops pairs that are out of date
//
// # The search
//
// A warp takes the first node's pairs out, all 32 of them, and follows all their arcs, 32 at a time. Whatever distance became less
// goes to the heap. Only the first pair of a batch is sure to be the least of all, and its distance to be final; the others may
// be visited again, once their distance became less. So the distances are exact in the end, each step makes one more
// node final, and in practice a hundred nodes take three to four steps and 101 to 105 visits (docs/adr/0019).
//
// A pair whose distance is no longer its node's is stale and is passed over. No pair comes twice: it is inserted by who made the
// distance less, and who did is what an atomic minimum tells.
//
// # No heap overflows
//
// Pairs that are not stale are at most one a node of the graph. A heap has room for twice as many and one node of 32 more. If it is full, the
// stale ones are dropped, and it is full to one half at most. Its first node is in shared memory, and where a pair has 4 bytes the first
// 33 are, which small graphs seldom exceed; the others are in a piece of global memory that is the warp's own.
//
// # Exact
//
// Distances are sums of 64 bits, metrics have 32. A graph's greatest possible distance is known when it is uploaded (the sum, over all nodes,
// of the greatest metric of an arc to the node), and chooses the form of a pair: distance and node in one word of 32 or 64
// bits, or in two words.
package heap

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/ribwarp/ribwarp/kernels/device"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o heap.ptx heap.cu
//go:embed heap.ptx
var ptx string

// Module is what a device needs for this package (device.Open).
var Module = &device.Module{Name: "heap", PTX: ptx, Twins: twins}

// Unreachable is the distance of a node that no path leads to.
const Unreachable = math.MaxUint64

// MaxNodes and MaxArcs are the most that a graph can have.
const (
	MaxNodes = 1 << 30
	MaxArcs  = 1<<31 - 1
)

// ErrClosed: the graph was closed.
var ErrClosed = errors.New("graph is closed")

// A Graph is directed. The arcs of node u are number Start[u] to Start[u+1]-1; arc a leads to To[a] and costs Weight[a]. Every
// weight counts as it is: leave out what is not to be used.
type Graph struct {
	Start, To, Weight []uint32
	// NoTransit has a bit a node, lowest bits first: its arcs are used only by paths that begin there. May be nil.
	NoTransit []uint32
}

// Nodes is the number of nodes.
func (g Graph) Nodes() int { return max(len(g.Start)-1, 0) }

func (g Graph) check() error {
	n := g.Nodes()
	switch {
	case n == 0:
		return errors.New("the graph has no nodes")
	case n > MaxNodes:
		return fmt.Errorf("the graph has %d nodes, at most %d can be taken", n, MaxNodes)
	case len(g.To) > MaxArcs:
		return fmt.Errorf("the graph has %d arcs, at most %d can be taken", len(g.To), MaxArcs)
	case len(g.To) != len(g.Weight):
		return fmt.Errorf("the graph has %d arcs and %d weights", len(g.To), len(g.Weight))
	case g.Start[0] != 0 || int(g.Start[n]) != len(g.To):
		return fmt.Errorf("the graph has %d arcs, its nodes have number %d to %d of them", len(g.To), g.Start[0], g.Start[n])
	case g.NoTransit != nil && len(g.NoTransit) < (n+31)/32:
		return fmt.Errorf("%d words say which of %d nodes are no transit", len(g.NoTransit), n)
	}
	for u := range n {
		if g.Start[u] > g.Start[u+1] {
			return fmt.Errorf("node %d begins at arc %d and ends at %d", u, g.Start[u], g.Start[u+1])
		}
	}
	for a, v := range g.To {
		if int(v) >= n {
			return fmt.Errorf("arc %d leads to node %d of %d", a, v, n)
		}
	}
	return nil
}

// farthest is a distance that no path without circles exceeds: it comes to every node once at most.
func (g Graph) farthest() uint64 {
	most := make([]uint32, g.Nodes())
	for a, v := range g.To {
		most[v] = max(most[v], g.Weight[a])
	}
	sum := uint64(0)
	for _, w := range most {
		sum += uint64(w)
	}
	return sum
}

// A form is how pairs, and a problem's distances, are kept. The names are the kernels'.
type form struct {
	name string
	pair int  // bytes
	near bool // distances are in shared memory, 4 bytes each; else in global memory, 8 bytes
	// shared is how many nodes of a heap are in shared memory: 1 more than a multiple of 32, so that siblings are on one side.
	// Where pairs are larger than 4 bytes, the room is worth more as that of another warp (docs/adr/0019).
	shared int
}

var (
	narrow = form{"narrow", 4, true, 33}
	near   = form{"near", 8, true, 1}
	far    = form{"far", 8, false, 1}
	wide   = form{"wide", 12, false, 1}
)

// sharedRow is the most bytes of shared memory that a problem's distances get.
var sharedRow = 16 << 10

// formFor gives the smallest form that has room for a graph of n nodes and its greatest distance. In each of them one value more is
// taken, for "none" or "unreachable".
func formFor(n int, farthest uint64) form {
	node, dist, row := nodeBits(n), bits.Len64(farthest+1), 4*n
	switch {
	case row <= sharedRow && node+dist <= 32:
		return narrow
	case row <= sharedRow && dist <= 32 && farthest < math.MaxUint32:
		return near
	case node+dist <= 64:
		return far
	}
	return wide
}

// nodeBits is how many bits a number of n nodes has.
func nodeBits(n int) int { return bits.Len(uint(n - 1)) }

// noTransit marks a node's span: only paths that begin there use its arcs.
const noTransit = 1 << 31

// A DeviceGraph is a graph on a device. It is immutable; Close gives its memory back.
type DeviceGraph struct {
	dev          *device.Device
	nodes, arcs  int
	farthest     uint64
	form         form
	spans, links device.Ptr // u32 each: first arc and number of arcs a node; head and weight an arc
	closed       bool
}

// Upload checks a graph and copies it to a device: 8 bytes a node and 8 an arc.
func Upload(d *device.Device, g Graph) (*DeviceGraph, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	n := g.Nodes()
	u := &DeviceGraph{dev: d, nodes: n, arcs: len(g.To), farthest: g.farthest()}
	u.form = formFor(n, u.farthest)
	spans, links := make([][2]uint32, n), make([][2]uint32, len(g.To))
	for v := range spans {
		spans[v] = [2]uint32{g.Start[v], g.Start[v+1] - g.Start[v]}
		if g.NoTransit != nil && g.NoTransit[v/32]>>(v%32)&1 != 0 {
			spans[v][0] |= noTransit
		}
	}
	for a := range links {
		links[a] = [2]uint32{g.To[a], g.Weight[a]}
	}
	err := d.Do(device.Build, func(q *device.Queue) error {
		u.spans, u.links = q.Alloc(8*n), q.Alloc(8*len(links))
		device.CopyIn(q, u.spans, spans)
		device.CopyIn(q, u.links, links)
		if q.Wait(); q.Err() != nil {
			q.Free(u.spans)
			q.Free(u.links)
		}
		return q.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("upload a graph of %d nodes and %d arcs: %w", n, len(g.To), err)
	}
	return u, nil
}

// Nodes is the number of nodes.
func (g *DeviceGraph) Nodes() int { return g.nodes }

// Close frees the memory, once no call uses the graph any more. A second call does nothing.
func (g *DeviceGraph) Close() {
	if g.closed {
		return
	}
	g.closed = true
	// On a device that was lost or closed there is nothing left to free.
	_ = g.dev.Do(device.Build, func(q *device.Queue) error {
		q.Free(g.spans)
		q.Free(g.links)
		return nil
	})
}

// NoArc is for problems that leave no arc out.
const NoArc = math.MaxUint32

// A Problem is the distances from a root to all nodes over all arcs but two.
type Problem struct {
	Root        uint32
	Skip, Skip2 uint32 // arcs that are left out, such as a link's two directions; NoArc for none
}
