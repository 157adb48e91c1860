package heap

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
)

// The figures of docs/benchmarks/heap.txt. They need a GPU and the tag cuda; without, they skip. Every distance is compared with
// that of Dijkstra's algorithm on all processors, whose time is beside it.

const benchRuns = 5

func benchDevice(b *testing.B) *device.Device {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d := m.Open(b, []*device.Module{Module})
			b.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil
}

func row(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("%-16s %s\n", strings.TrimPrefix(b.Name(), "BenchmarkGPU"), fmt.Sprintf(format, args...))
}

// onProcessors solves problems by Dijkstra's algorithm on all processors.
func onProcessors(g Graph, problems []Problem, dst []uint64) {
	n := g.Nodes()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			d := newDijkstra(g)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(problems) {
					return
				}
				copy(dst[i*n:(i+1)*n], d.solve(problems[i]))
			}
		})
	}
	wg.Wait()
}

// medianTime gives the median of some runs.
func medianTime(runs int, f func()) time.Duration {
	times := make([]time.Duration, runs)
	for i := range times {
		start := time.Now()
		f()
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[runs/2]
}

// kernelTime gives the median milliseconds, by the GPU's clock, of a kernel whose problems and distances stay on the device.
func kernelTime(b *testing.B, d *device.Device, u *DeviceGraph, l limits, problems []Problem, targets []uint32, width int) (ms float64) {
	b.Helper()
	err := d.Do(device.Build, func(q *device.Queue) error {
		in, out, stats := q.Temp(problemBytes*len(problems)), q.Temp(8*width*len(problems)), q.Temp(8*statWords)
		batch := Batch{Problems: in, N: len(problems), Distances: out, Stats: stats}
		device.CopyIn(q, in, problems)
		if targets != nil {
			batch.Targets, batch.TargetCount = q.Temp(4*len(targets)), len(targets)
			device.CopyIn(q, batch.Targets, targets)
		}
		var times []float64
		for i := range benchRuns + 1 {
			q.Fill(stats, 0, 2*statWords)
			q.Wait()
			from := q.Mark()
			u.start(q, batch, l)
			to := q.Mark()
			q.Wait()
			if i > 0 { // the first run fills the memory pool
				times = append(times, q.Elapsed(from, to))
			}
		}
		slices.Sort(times)
		ms = times[len(times)/2]
		return q.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
	return ms
}

// A cost is what the model of docs/adr/0019 predicts, in microseconds a problem: by the latency of one warp's steps, shared among the warps
// that run, by instructions, by atomics of memory, and by the bytes of the result.
type cost struct{ latency, issue, atomics, copied float64 }

func (c cost) String() string {
	kernel := max(c.latency, c.issue, c.atomics)
	return fmt.Sprintf("predicted %.3f (latency %.3f, instructions %.3f, atomics %.3f), with copy %.3f", kernel, c.latency, c.issue, c.atomics, max(kernel, c.copied))
}

const (
	clock     = 1.9e3 // cycles a microsecond
	issues    = 0.5 * 4
	atomics   = 17e3 // a microsecond, random, of a large table
	bandwidth = 50e3 // bytes a microsecond to the host
)

func predict(about device.Description, u *DeviceGraph, l limits, s Stats, n, width int) cost {
	p := shapeFor(about, l, u.form, u.nodes, n)
	f := float64(n)
	pops, visits, pushed := float64(s.Pops)/f, float64(s.Expanded)/f, float64(s.Pushed)/f
	arcs := visits * float64(u.arcs) / float64(u.nodes)
	inserts := pushed / lanes
	merges := pops * 3
	groups := pops + arcs/(lanes*rounds)
	read, follow := 100.0, 600.0
	if !u.form.near {
		read, follow = 1300, 2000
	}
	cycles := pops*(650+read) + merges*350 + pops*2*300 + groups*follow + inserts*800
	instructions := pops*280 + merges*150 + pops*2*60 + arcs/lanes*70 + groups*40 + inserts*400 + float64(u.nodes)/lanes*12
	waves := (f + float64(p.blocks*p.warps) - 1) / float64(p.blocks*p.warps)
	c := cost{latency: cycles / clock * float64(int(waves)) / f, issue: instructions / (issues * clock * float64(about.Multiprocessors)), copied: 8 * float64(width) / bandwidth}
	if !u.form.near {
		c.atomics = arcs / atomics
	}
	return c
}

// benchRoots measures problems of a graph: the kernel alone, with copies, and Dijkstra's algorithm.
func benchRoots(b *testing.B, d *device.Device, what string, g Graph, problems []Problem, must float64) {
	b.Helper()
	u, k := upload(b, d, g), newKernel(b, d)
	n := len(problems)
	each := func(t time.Duration) float64 { return t.Seconds() * 1e6 / float64(n) }
	want := make([]uint64, n*g.Nodes())
	onProcessors(g, problems[:min(n, 1000)], want) // touches memory, too
	runs := benchRuns
	if n*g.Nodes() > 10_000_000 {
		runs = 1
	}
	cpu := medianTime(runs, func() { onProcessors(g, problems, want) })
	check := func(how string, got []uint64) {
		b.Helper()
		for i := range got {
			if got[i] != want[i] {
				b.Fatalf("%s, %s: problem %d, node %d: %d, want %d", what, how, i/g.Nodes(), i%g.Nodes(), got[i], want[i])
			}
		}
	}
	run := func(how string, dst []uint64) time.Duration {
		b.Helper()
		return medianTime(benchRuns, func() {
			if err := k.Distances(b.Context(), u, problems, dst); err != nil {
				b.Fatal(how, err)
			}
		})
	}
	ordinary := make([]uint64, len(want))
	run("ordinary memory", ordinary) // first use of everything
	toOrdinary := run("ordinary memory", ordinary)
	check("ordinary memory", ordinary)
	pinned, err := device.NewPinned[uint64](d, len(want))
	if err != nil {
		b.Fatal(err)
	}
	defer pinned.Close()
	toPinned := run("pinned memory", pinned.Slice)
	check("pinned memory", pinned.Slice)
	s := k.stats
	kernel := kernelTime(b, d, u, standard, problems, nil, g.Nodes()) * 1e3 / float64(n)
	row(b, "%s: %d nodes, %d arcs, %d problems, pairs %s", what, g.Nodes(), len(g.To), n, u.form.name)
	row(b, "  us a problem: kernel %.3f, to pinned memory %.3f, to ordinary memory %.3f (must %.1f); %d processors %.3f, ratio %.1f, %.1f, %.1f",
		kernel, each(toPinned), each(toOrdinary), must, runtime.GOMAXPROCS(0), each(cpu), each(cpu)/kernel, each(cpu)/each(toPinned), each(cpu)/each(toOrdinary))
	row(b, "  %v", predict(d.Describe(), u, standard, s, n, g.Nodes()))
	f := float64(n)
	row(b, "  a problem: %.0f pops, %.0f visits, %.0f stale, %.0f pushed; heaps of up to %d nodes, %d compactions", float64(s.Pops)/f, float64(s.Expanded)/f,
		float64(s.Stale)/f, float64(s.Pushed)/f, s.Peak, s.Compacted)
}

func benchRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func BenchmarkGPUAllRoots315(b *testing.B) {
	g := backbone(b, "rf1239")
	benchRoots(b, benchDevice(b), "AS1239", g, allRoots(g, g.Nodes()), 1)
}

func BenchmarkGPUAllRoots600(b *testing.B) {
	d := benchDevice(b)
	g := mesh(benchRandom(), 25, 24, 100)
	benchRoots(b, d, "mesh", g, allRoots(g, g.Nodes()), 1)
	g = randomGraph(benchRandom(), 600, 1200, 100)
	benchRoots(b, d, "random", g, allRoots(g, g.Nodes()), 1)
	g = randomGraph(benchRandom(), 600, 1200, 1<<20)
	benchRoots(b, d, "random, large metrics", g, allRoots(g, g.Nodes()), 1)
}

func BenchmarkGPUAllRoots10000(b *testing.B) {
	d := benchDevice(b)
	g := randomGraph(benchRandom(), 10_000, 20_000, 1000)
	benchRoots(b, d, "random", g, allRoots(g, g.Nodes()), 14)
	g = mesh(benchRandom(), 100, 100, 1000)
	benchRoots(b, d, "mesh", g, allRoots(g, g.Nodes()), 14)
	g = randomGraph(benchRandom(), 10_000, 20_000, 1<<32-1)
	benchRoots(b, d, "random, huge metrics", g, allRoots(g, 2000), 14)
}

func BenchmarkGPURoots1024(b *testing.B) {
	d := benchDevice(b)
	g := randomGraph(benchRandom(), 100_000, 200_000, 1000)
	benchRoots(b, d, "random", g, allRoots(g, 1024), 0)
	g = mesh(benchRandom(), 400, 250, 1000)
	benchRoots(b, d, "mesh", g, allRoots(g, 1024), 0)
}

// Each link of AS1239 fails, for each root: all distances, and those to 20 exits.
func BenchmarkGPUWhatIf(b *testing.B) {
	g, d := backbone(b, "rf1239"), benchDevice(b)
	var problems []Problem
	links := 0
	for a, o := range opposites(g) {
		if o != NoArc && o < uint32(a) {
			continue
		}
		links++
		for r := range g.Nodes() {
			problems = append(problems, Problem{uint32(r), uint32(a), o})
		}
	}
	benchRoots(b, d, fmt.Sprintf("AS1239, %d links fail", links), g, problems, 1.6)
	u, k := upload(b, d, g), newKernel(b, d)
	exits := make([]uint32, 20)
	for i := range exits {
		exits[i] = uint32(i * g.Nodes() / len(exits))
	}
	dst := make([]uint64, len(exits)*len(problems))
	run := func() {
		if err := k.DistancesTo(b.Context(), u, problems, exits, dst); err != nil {
			b.Fatal(err)
		}
	}
	run()
	total := medianTime(benchRuns, run)
	kernel := kernelTime(b, d, u, standard, problems, exits, len(exits))
	row(b, "to %d exits: kernel %.1f ms, to ordinary memory %.1f ms (must 500)", len(exits), kernel, total.Seconds()*1e3)
}
