package linear

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// A batch in ordinary memory goes through the device in chunks, each on the next stream, by buffers in
// pinned memory: while one chunk's requests are copied in, others are worked on and copied out.

// chunkBytes is what a chunk's requests have at most, leastChunk how many there are at least: tests make them smaller.
// Each chunk costs a few times that a goroutine which is bound to its thread waits for others, some 0.1 ms in all.
var chunkBytes, leastChunk = 32 << 20, 1 << 14

// piece is the bytes that a processor copies at least before another one is worth asking.
const piece = 256 << 10

// staging are the buffers of chunks under way, for each stream on the device and in pinned memory: requests with the
// keys first and their values behind them, answers with the values first and the results behind them.
type staging[W Word] struct {
	mu              sync.Mutex // held by who uses them
	chunk           int        // requests; 0 while there are no buffers
	in, out         device.Ptr
	hostIn, hostOut *device.Pinned[uint64]
}

// flow is a batch on its way.
type flow[W Word] struct {
	keys, values []W // values may be nil
	answers      []W // may be nil
	results      []byte
	// merge keeps results that are not 0: those of an attempt before.
	merge bool
	// launch works on a chunk on the device. answers and results are as long as keys.
	launch func(q *device.Queue, keys, values, answers, results device.Ptr, n int)
	// each gets the results of a chunk, before the next one's.
	each func(results []byte)
}

// chunkOf is the number of requests of a chunk of a batch: a part such that filling and draining the streams costs
// little, up to a size at which starting a copy costs nothing next to it.
func chunkOf[W Word](n int) int {
	return min(n/(2*device.Streams)/leastChunk*leastChunk+leastChunk, chunkBytes/bytesOf[W](2))
}

func inBytes[W Word](chunk int) int  { return bytesOf[W](2 * chunk) }
func outBytes[W Word](chunk int) int { return (bytesOf[W](chunk) + chunk + 7) &^ 7 }

// prepare makes the buffers large enough for a batch. It is no part of a job.
func (s *staging[W]) prepare(d *device.Device, n int) error {
	need := chunkOf[W](n)
	if need <= s.chunk {
		return nil
	}
	want := leastChunk
	for want < need {
		want *= 4
	}
	s.free(d)
	hostIn, err := device.NewPinned[uint64](d, device.Streams*inBytes[W](want)/8)
	if err != nil {
		return fmt.Errorf("buffers of a table: %w", err)
	}
	hostOut, err := device.NewPinned[uint64](d, device.Streams*outBytes[W](want)/8)
	if err != nil {
		hostIn.Close()
		return fmt.Errorf("buffers of a table: %w", err)
	}
	err = d.Do(device.Build, func(q *device.Queue) error {
		s.in, s.out = q.Alloc(device.Streams*inBytes[W](want)), q.Alloc(device.Streams*outBytes[W](want))
		if q.Err() != nil {
			q.Free(s.in)
			q.Free(s.out)
		}
		return q.Err()
	})
	if err != nil {
		hostIn.Close()
		hostOut.Close()
		return fmt.Errorf("buffers of a table: %w", err)
	}
	s.chunk, s.hostIn, s.hostOut = want, hostIn, hostOut
	return nil
}

// free gives the buffers back.
func (s *staging[W]) free(d *device.Device) {
	if s.chunk == 0 {
		return
	}
	s.hostIn.Close()
	s.hostOut.Close()
	// On a device that was lost or closed there is nothing left to free.
	_ = d.Do(device.Build, func(q *device.Queue) error {
		q.Free(s.in)
		q.Free(s.out)
		return nil
	})
	s.chunk = 0
}

// part gives n values of a buffer of a stream.
func part[T any](buffer []uint64, offset, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(buffer)), offset)), n)
}

// run takes a batch through the device.
func (s *staging[W]) run(q *device.Queue, f flow[W]) error {
	n, step := len(f.keys), min(s.chunk, chunkOf[W](len(f.keys)))
	inSize, outSize := inBytes[W](s.chunk), outBytes[W](s.chunk)
	takeOut := func(chunk int) {
		stream := chunk % device.Streams
		from := chunk * step
		to := min(from+step, n)
		// What comes next on this stream overwrites the buffers.
		if q.On(stream).Wait(); q.Err() != nil {
			return
		}
		if f.answers != nil {
			copyParallel(f.answers[from:to], part[W](s.hostOut.Slice, stream*outSize, to-from))
		}
		results := part[byte](s.hostOut.Slice, stream*outSize+bytesOf[W](to-from), to-from)
		if f.each != nil {
			f.each(results)
		}
		switch {
		case f.results == nil:
		case f.merge:
			for i, r := range f.results[from:to] {
				if r != byte(Inserted) {
					f.results[from+i] = results[i]
				}
			}
		default:
			copyParallel(f.results[from:to], results)
		}
	}
	chunks := blocks(n, step)
	for chunk := range chunks {
		if chunk >= device.Streams {
			takeOut(chunk - device.Streams)
		}
		if q.Err() != nil {
			return q.Err()
		}
		stream := chunk % device.Streams
		from := chunk * step
		to := min(from+step, n)
		on, words := q.On(stream), to-from
		in, out := s.in.Add(stream*inSize), s.out.Add(stream*outSize)
		keys := part[W](s.hostIn.Slice, stream*inSize, to-from)
		if f.values != nil {
			values := part[W](s.hostIn.Slice, stream*inSize+bytesOf[W](to-from), to-from)
			copyBoth(keys, f.keys[from:to], values, f.values[from:to])
			words *= 2
		} else {
			copyParallel(keys, f.keys[from:to])
		}
		device.CopyIn(on, in, part[W](s.hostIn.Slice, stream*inSize, words))
		behind := bytesOf[W](to - from)
		results := device.Ptr(0)
		if f.results != nil || f.each != nil {
			results = out.Add(behind)
		}
		f.launch(on, in, in.Add(behind), out, results, to-from)
		switch {
		case f.answers != nil && results != 0:
			device.CopyOut(on, part[byte](s.hostOut.Slice, stream*outSize, behind+to-from), out)
		case f.answers != nil:
			device.CopyOut(on, part[W](s.hostOut.Slice, stream*outSize, to-from), out)
		case results != 0:
			device.CopyOut(on, part[byte](s.hostOut.Slice, stream*outSize+behind, to-from), results)
		}
	}
	for chunk := max(chunks-device.Streams, 0); chunk < chunks; chunk++ {
		takeOut(chunk)
	}
	return q.Err()
}

// bring copies n words of the device to ordinary memory.
func (s *staging[W]) bring(q *device.Queue, dst []W, src device.Ptr) error {
	step := outBytes[W](s.chunk) / bytesOf[W](1)
	size := outBytes[W](s.chunk)
	chunks := blocks(len(dst), step)
	q.Wait() // for what fills src
	for chunk := range chunks + device.Streams {
		stream := chunk % device.Streams
		on := q.On(stream)
		if from := (chunk - device.Streams) * step; from >= 0 && from < len(dst) {
			if on.Wait(); q.Err() != nil {
				return q.Err()
			}
			to := min(from+step, len(dst))
			copyParallel(dst[from:to], part[W](s.hostOut.Slice, stream*size, to-from))
		}
		if from := chunk * step; from < len(dst) {
			to := min(from+step, len(dst))
			device.CopyOut(on, part[W](s.hostOut.Slice, stream*size, to-from), src.Add(bytesOf[W](from)))
		}
	}
	return q.Err()
}

// copyParallel is copy on several processors: one alone copies less than a device takes.
func copyParallel[T any](dst, src []T) { copyBoth[T, byte](dst, src, nil, nil) }

// copyBoth is two copies at the same time; there is one where the second has nothing.
func copyBoth[T, U any](dst, src []T, dst2, src2 []U) {
	bytes := len(src)*int(unsafe.Sizeof(*new(T))) + len(src2)*int(unsafe.Sizeof(*new(U)))
	parts := min(bytes/piece, runtime.GOMAXPROCS(0))
	if parts < 2 {
		copy(dst, src)
		copy(dst2, src2)
		return
	}
	one := func(p int) {
		copy(dst[len(src)*p/parts:], src[len(src)*p/parts:len(src)*(p+1)/parts])
		copy(dst2[len(src2)*p/parts:], src2[len(src2)*p/parts:len(src2)*(p+1)/parts])
	}
	var wg sync.WaitGroup
	for p := range parts - 1 {
		wg.Go(func() { one(p) })
	}
	one(parts - 1)
	wg.Wait()
}
