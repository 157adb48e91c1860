package heap

import (
	"github.com/ribwarp/ribwarp/kernels/device"
)

// What heap.cu knows, too.
const (
	maxBlock  = 128 // threads
	statWords = 7
)

// Stats are what kernels have counted.
type Stats struct {
	Problems  uint64 // taken, and one more for each warp that found none left
	Pops      uint64 // batches that were taken out of heaps
	Expanded  uint64 // pairs of theirs whose arcs were followed
	Stale     uint64 // pairs that were passed over
	Pushed    uint64 // pairs inserted, but for the roots'
	Compacted uint64 // times that a full heap dropped its stale pairs
	Peak      uint64 // most nodes that a heap had
}

// A Batch is problems on a device.
type Batch struct {
	Problems device.Ptr // N times Problem
	N        int
	// Targets are the nodes (u32) whose distances are wanted, TargetCount of them; all nodes where it is 0.
	Targets     device.Ptr
	TargetCount int
	// Distances gets them, u64: those of the first problem, then those of the second.
	Distances device.Ptr
	// Stats gets what was counted, in addition to what it has; 0 for nobody wants it. Its first word must be 0.
	Stats device.Ptr
}

// limits are what the shape of a launch depends on. Tests make them smaller.
type limits struct {
	shared   int // nodes of a heap in shared memory; 0 for what the form says
	capacity int // nodes of a heap for each 32 nodes of the graph
	warps    int // of a block
	resident int // warps of a multiprocessor: heap.cu bounds its registers for so many
}

var standard = limits{capacity: 2, warps: 4, resident: 32}

// A shape is a launch's.
type shape struct {
	shared, capacity int // nodes of a heap
	warpBytes        int // of shared memory
	warps, blocks    int // warps a block
	spill            int // bytes of a warp's piece of global memory
}

// shapeFor gives the shape for n problems of a graph.
func shapeFor(about device.Description, l limits, f form, nodes, n int) shape {
	need := (nodes + lanes - 1) / lanes // nodes of a heap that has no stale pair
	s := shape{capacity: l.capacity*need + 1, warps: l.warps}
	if s.shared = min(f.shared, s.capacity); l.shared > 0 {
		s.shared = min(l.shared, s.capacity)
	}
	s.warpBytes = arrayBytes(f, lanes*s.shared) + arrayBytes(f, s.shared) + arrayBytes(f, buffered)
	if f.near {
		s.warpBytes += 4 * nodes
	}
	s.warpBytes = (s.warpBytes + 15) &^ 15
	spilled := s.capacity - s.shared
	s.spill = (arrayBytes(f, lanes*spilled) + arrayBytes(f, spilled) + 255) &^ 255
	scratch := s.spill // a warp's global memory
	if !f.near {
		scratch += 8 * nodes
	}
	most := max(int(about.Memory/8)/max(scratch, 1), 1) // warps, such that most memory is left to others
	// Few problems are spread over all multiprocessors.
	for s.warps > 1 && (s.warps*s.warpBytes > about.SharedMemory || n < 4*s.warps*about.Multiprocessors || s.warps > most) {
		s.warps /= 2
	}
	const reserved = 1 << 10 // of a block's shared memory, by CUDA
	perMultiprocessor := max(min((about.SharedMemory+reserved)/(s.warps*s.warpBytes+reserved), l.resident/s.warps), 1)
	s.blocks = min((n+s.warps-1)/s.warps, perMultiprocessor*about.Multiprocessors, most/s.warps)
	return s
}

// arrayBytes is the size of an array of n pairs.
func arrayBytes(f form, n int) int { return (f.pair*n + 7) &^ 7 }

// Start launches a kernel for a batch. What it allocates besides is freed behind it; errors stick in the queue. The batch's memory must
// be the device's that the graph is on.
func (g *DeviceGraph) Start(q *device.Queue, b Batch) { g.start(q, b, standard) }

func (g *DeviceGraph) start(q *device.Queue, b Batch, l limits) {
	if b.N == 0 {
		return
	}
	s := shapeFor(q.Device().Describe(), l, g.form, g.nodes, b.N)
	slots := s.blocks * s.warps
	stats, targets := b.Stats, b.TargetCount
	if stats == 0 {
		stats = q.Temp(8 * statWords)
		q.Fill(stats, 0, 2*statWords)
		defer q.Free(stats)
	}
	var spill, rows device.Ptr
	if s.capacity > s.shared {
		spill = q.Temp(slots * s.spill)
		defer q.Free(spill)
	}
	if b.Targets == 0 {
		targets = g.nodes
	} else if !g.form.near {
		rows = q.Temp(8 * g.nodes * slots)
		defer q.Free(rows)
	}
	q.Launch("heap.solve_"+g.form.name, device.Launch{GridX: s.blocks, Block: lanes * s.warps, Shared: s.warps * s.warpBytes},
		uint64(b.Distances), uint64(b.Problems), uint64(b.N), uint64(g.spans), uint64(g.links), uint64(g.nodes), uint64(nodeBits(g.nodes)),
		uint64(b.Targets), uint64(targets), uint64(stats), uint64(s.shared), uint64(s.capacity), uint64(spill), uint64(s.spill), uint64(rows), uint64(s.warpBytes))
}
