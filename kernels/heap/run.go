package heap

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// A Kernel solves problems for callers that have them, and want the distances, in ordinary memory. It may be used concurrently; calls
// come one after the other. Close gives its buffers back.
type Kernel struct {
	dev    *device.Device
	limits limits

	mu      sync.Mutex
	staging *device.Pinned[uint64] // as many pieces as streams copy out; nil while there is none
	stats   Stats                  // of the last call
}

// New makes one for a device that was opened with Module.
func New(d *device.Device) *Kernel { return &Kernel{dev: d, limits: standard} }

// Close frees the buffers. The kernel can be used again.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.staging != nil {
		k.staging.Close()
		k.staging = nil
	}
}

// Tests make these smaller.
var (
	// stagingPiece is the distances of a piece that goes through pinned memory, and smallResult those of a result that is copied as it
	// is.
	stagingPiece, smallResult = 2 << 20, 128 << 10
	// chunkShare is the share of a device's memory that the distances of a chunk of problems may take.
	chunkShare uint64 = 32
)

// copiers are the streams that copy out. Kernels run on the other ones.
const copiers = 2

// Distances writes the distances from each problem's root to all nodes to dst, those of the first problem first; Unreachable where no
// path leads. The device works on one chunk of problems while the one before is copied, at full rate where dst is pinned memory
// (device.NewPinned). On an error, what dst has is not defined.
func (k *Kernel) Distances(ctx context.Context, g *DeviceGraph, problems []Problem, dst []uint64) error {
	return k.run(ctx, g, problems, nil, g.nodes, dst)
}

// DistancesTo is Distances to some nodes only: dst gets len(targets) distances a problem. All else stays on the device.
func (k *Kernel) DistancesTo(ctx context.Context, g *DeviceGraph, problems []Problem, targets []uint32, dst []uint64) error {
	for i, t := range targets {
		if int64(t) >= int64(g.nodes) {
			return fmt.Errorf("target %d is node %d of %d", i, t, g.nodes)
		}
	}
	return k.run(ctx, g, problems, targets, len(targets), dst)
}

func (g *DeviceGraph) check(problems []Problem) error {
	for i, p := range problems {
		if int64(p.Root) >= int64(g.nodes) {
			return fmt.Errorf("problem %d begins at node %d of %d", i, p.Root, g.nodes)
		}
		for _, a := range []uint32{p.Skip, p.Skip2} {
			if a != NoArc && int64(a) >= int64(g.arcs) {
				return fmt.Errorf("problem %d leaves arc %d of %d out", i, a, g.arcs)
			}
		}
	}
	return nil
}

// run solves problems; width is the distances wanted of each.
func (k *Kernel) run(ctx context.Context, g *DeviceGraph, problems []Problem, targets []uint32, width int, dst []uint64) error {
	if err := g.check(problems); err != nil {
		return err
	}
	if len(dst) != len(problems)*width {
		return fmt.Errorf("%d problems with %d distances each do not fit %d", len(problems), width, len(dst))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats = Stats{}
	if len(dst) == 0 {
		return nil
	}
	pinned := device.IsPinned(dst) || len(dst) <= smallResult // small ones are copied at once
	if !pinned && k.staging == nil {
		var err error
		if k.staging, err = device.NewPinned[uint64](k.dev, copiers*stagingPiece); err != nil {
			return fmt.Errorf("buffers for distances: %w", err)
		}
	}
	err := k.dev.Do(device.Build, func(q *device.Queue) error {
		if g.closed {
			return ErrClosed
		}
		return k.pipeline(ctx, q, g, problems, targets, width, dst, pinned)
	})
	if err != nil {
		return fmt.Errorf("shortest paths for %d problems: %w", len(problems), err)
	}
	return nil
}

// pipeline runs a kernel a chunk, by turns on two streams, and copies a chunk out while the next one is worked on.
func (k *Kernel) pipeline(ctx context.Context, q *device.Queue, g *DeviceGraph, problems []Problem, targets []uint32, width int, dst []uint64, pinned bool) error {
	const depth = device.Streams - copiers
	n := len(problems)
	size := k.chunk(g, n, width)
	var results, inputs, stats [depth]device.Ptr
	wanted := device.Ptr(0)
	if targets != nil {
		wanted = q.Temp(4 * len(targets))
		device.CopyIn(q, wanted, targets)
	}
	for i := range min(depth, (n+size-1)/size) {
		results[i], inputs[i], stats[i] = q.Temp(8*size*width), q.Temp(problemBytes*size), q.Temp(8*statWords)
		q.Fill(stats[i], 0, 2*statWords)
	}
	q.Wait() // the other streams use it all
	for chunk := 0; (chunk-1)*size < n && q.Err() == nil; chunk++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if from := chunk * size; from < n {
			to, buffer := min(from+size, n), chunk%depth
			on := q.On(buffer)
			device.CopyIn(on, inputs[buffer], problems[from:to])
			on.Fill(stats[buffer], 0, 2) // the next problem
			g.start(on, Batch{
				Problems: inputs[buffer], N: to - from, Targets: wanted, TargetCount: width, Distances: results[buffer], Stats: stats[buffer],
			}, k.limits)
		}
		if before := chunk - 1; before >= 0 {
			from, to, buffer := before*size*width, min((before+1)*size, n)*width, before%depth
			for i := range copiers {
				q.On(depth + i).Follow(q.On(buffer))
			}
			k.bring(q, dst[from:to], results[buffer], depth, pinned)
		}
	}
	for i := range stats {
		if stats[i] != 0 {
			var s [1]Stats
			device.CopyOut(q.On(i), s[:], stats[i])
			q.On(i).Wait()
			k.stats.add(s[0])
		}
	}
	return q.Err()
}

const problemBytes = 12

// chunk is how many problems a kernel gets: a fourth of all, but as many as keep the device busy, and not more than there should be
// memory for.
func (k *Kernel) chunk(g *DeviceGraph, n, width int) int {
	about := k.dev.Describe()
	s := shapeFor(about, k.limits, g.form, g.nodes, n)
	size := max((n+3)/4, s.blocks*s.warps)
	return max(min(size, n, int(about.Memory/chunkShare)/(8*width)), 1)
}

// bring copies distances to dst on the streams from first on, and waits for them.
func (k *Kernel) bring(q *device.Queue, dst []uint64, src device.Ptr, first int, pinned bool) {
	if pinned {
		device.CopyOut(q.On(first), dst, src)
		q.On(first).Wait()
		return
	}
	piece := len(k.staging.Slice) / copiers
	pieces := (len(dst) + piece - 1) / piece
	part := func(i int) []uint64 { return dst[i*piece : min((i+1)*piece, len(dst))] }
	for i := range pieces + copiers {
		on, buffer := q.On(first+i%copiers), k.staging.Slice[i%copiers*piece:]
		if done := i - copiers; done >= 0 && done < pieces {
			if on.Wait(); q.Err() != nil {
				return
			}
			copyParallel(part(done), buffer)
		}
		if i < pieces {
			device.CopyOut(on, buffer[:len(part(i))], src.Add(8*i*piece))
		}
	}
}

// copyParallel fills dst from src on several processors: one alone copies less than a device brings.
func copyParallel(dst, src []uint64) {
	const least = 32 << 10 // words that are worth another processor
	parts := max(min(len(dst)/least, runtime.GOMAXPROCS(0)), 1)
	var wg sync.WaitGroup
	for p := range parts {
		from, to := len(dst)*p/parts, len(dst)*(p+1)/parts
		if p == parts-1 {
			copy(dst[from:to], src[from:to])
			continue
		}
		wg.Go(func() { copy(dst[from:to], src[from:to]) })
	}
	wg.Wait()
}

func (s *Stats) add(t Stats) {
	s.Problems += t.Problems
	s.Pops += t.Pops
	s.Expanded += t.Expanded
	s.Stale += t.Stale
	s.Pushed += t.Pushed
	s.Compacted += t.Compacted
	s.Peak = max(s.Peak, t.Peak)
}
