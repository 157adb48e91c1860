package primitives_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

// onGPU runs a benchmark's work on the GPU and reports the median time, and the rate for n
// elements, by the GPU's clock. prepare is done before each run of work and not measured. The
// simulator has no time: without a GPU the benchmark skips.
func onGPU(b *testing.B, n int, job func(q *device.Queue) (prepare, work func())) {
	for _, m := range devicetest.Makers() {
		if m.Name != "cuda" {
			continue
		}
		d := m.Open(b, []*device.Module{primitives.Module})
		defer func() { _ = d.Close() }()
		do(b, d, func(q *device.Queue) {
			prepare, work := job(q)
			run := func() float64 {
				prepare()
				from := q.Mark()
				work()
				to := q.Mark()
				q.Wait()
				return q.Elapsed(from, to)
			}
			run() // caches, and memory for the pool
			var times []float64
			for len(times) < 20 || b.Loop() {
				times = append(times, run())
			}
			slices.Sort(times)
			ms := times[len(times)/2]
			b.ReportMetric(ms*1000, "us")
			b.ReportMetric(float64(n)/ms/1e6, "G/s")
			b.ReportMetric(0, "ns/op")
		})
		return
	}
	b.Skip("needs a GPU: build with the tag cuda")
}

func BenchmarkSort(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, words int
		mask     record // the bits that differ
		spans    []primitives.Span
	}{
		{"1000x1_38bits", 1000, 1, record{^uint64(0)}, []primitives.Span{{Word: 0, Low: 26, High: 64}}},
		{"1.04Mx1_38bits", 1_040_000, 1, record{^uint64(0)}, []primitives.Span{{Word: 0, Low: 26, High: 64}}},
		{"1.04Mx1_8bits", 1_040_000, 1, record{^uint64(0)}, []primitives.Span{{Word: 0, Low: 32, High: 40}}},
		{"246kx2_72bits", 246_000, 2, record{^uint64(0), ^uint64(0)}, []primitives.Span{{Word: 0, Low: 0, High: 64}, {Word: 1, Low: 32, High: 40}}},
		{"246kx2_48of72bits", 246_000, 2, record{0x3fffffffffff << 16, 0x7f << 32}, []primitives.Span{{Word: 0, Low: 0, High: 64}, {Word: 1, Low: 32, High: 40}}},
		{"246kx3_136bits", 246_000, 3, record{^uint64(0), ^uint64(0), ^uint64(0)}, []primitives.Span{{Word: 0, Low: 0, High: 64}, {Word: 1, Low: 0, High: 64}, {Word: 2, Low: 32, High: 40}}},
		{"100Mx1_64bits", 100_000_000, 1, record{^uint64(0)}, []primitives.Span{{Word: 0, Low: 0, High: 64}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			onGPU(b, c.n, func(q *device.Queue) (prepare, work func()) {
				r := rand.New(rand.NewPCG(1, 2))
				original, records, scratch := primitives.Records{N: c.n}, primitives.Records{N: c.n}, primitives.Records{N: c.n}
				for w := range c.words {
					column := make([]uint64, c.n)
					for i := range column {
						column[i] = r.Uint64() & c.mask[w]
					}
					for _, x := range []*primitives.Records{&original, &records, &scratch} {
						x.Words = append(x.Words, q.Temp(8*c.n))
					}
					device.CopyIn(q, original.Words[w], column)
				}
				prepare = func() {
					for w := range c.words {
						q.Copy(records.Words[w], original.Words[w], 8*c.n)
					}
				}
				return prepare, func() { primitives.Sort(q, records, scratch, c.spans...) }
			})
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"4000", 4000}, {"1M", 1 << 20}, {"64M", 1 << 26}} {
		for kernel, run := range map[string]func(q *device.Queue, out, in, number device.Ptr){
			"scan":    func(q *device.Queue, out, in, _ device.Ptr) { primitives.ScanExclusive(q, out, in, c.n) },
			"compact": func(q *device.Queue, out, in, number device.Ptr) { primitives.Compact(q, out, number, in, c.n) },
			"reduce_by_key": func(q *device.Queue, out, in, number device.Ptr) {
				primitives.ReduceByKey(q, out, out.Add(4*c.n), number, in, 0, c.n)
			},
		} {
			b.Run(kernel+"_"+c.name, func(b *testing.B) {
				onGPU(b, c.n, func(q *device.Queue) (prepare, work func()) {
					r := rand.New(rand.NewPCG(1, 2))
					flags := make([]uint32, c.n)
					for i := range flags {
						flags[i] = r.Uint32N(2)
					}
					in, out, number := q.Temp(4*c.n), q.Temp(8*c.n), q.Temp(4)
					device.CopyIn(q, in, flags)
					return func() {}, func() { run(q, out, in, number) }
				})
			})
		}
	}
}
