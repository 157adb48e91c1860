package flavors

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
)

// A batch goes through a device in chunks, each on the next stream: while one chunk's keys are
// copied in, another is searched and a third one's answers are copied out. Copies run at full
// rate, and beside kernels, from pinned memory only. A batch that lies in pinned memory
// (device.NewPinned) is copied from where it is; any other one goes through buffers of the device's,
// which costs the processor a copy of everything.

const (
	// A chunk has a part of the batch such that filling and draining the streams costs little, up
	// to a size at which starting a copy costs nothing next to it, and not so few keys that it
	// would cost most.
	leastKeys = 1 << 16
	// splitKeys is the number of keys from which on a batch is split over devices.
	splitKeys = 1 << 19
)

// chunkBytes is that size; tests make it smaller.
var chunkBytes = 8 << 20

// ErrLongPrefixes is what Lookup64 gives where 64 bits do not decide.
var ErrLongPrefixes = errors.New("the table has prefixes longer than /64: ask with whole addresses")

// A HighTable looks IPv6 addresses up by their first 64 bits, half of what Lookup6 has to move.
// Tables of engines on GPUs are HighTables.
type HighTable interface {
	lpm.Table
	// Lookup64 is Lookup6 for addresses given by their first 64 bits. It gives ErrLongPrefixes where
	// the table has a prefix longer than /64.
	Lookup64(dst []lpm.Handle, addrs []uint64) error
}

// keys are a batch's addresses in one of the forms that callers have.
type keys struct {
	v4   []uint32
	high []uint64
	v6   []lpm.Addr6
}

func (k keys) len() int { return len(k.v4) + len(k.high) + len(k.v6) }

func (k keys) cut(from, to int) keys {
	switch {
	case k.v4 != nil:
		return keys{v4: k.v4[from:to]}
	case k.high != nil:
		return keys{high: k.high[from:to]}
	}
	return keys{v6: k.v6[from:to]}
}

func (t *gpuTable) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	return t.lookup(dst, keys{v4: addrs})
}

func (t *gpuTable) Lookup6(dst []lpm.Handle, addrs []lpm.Addr6) error {
	return t.lookup(dst, keys{v6: addrs})
}

func (t *gpuTable) Lookup64(dst []lpm.Handle, addrs []uint64) error {
	if alive := t.alive(nil); len(alive) > 0 && t.on[alive[0]].t6.Sorted.Longest > 64 {
		return ErrLongPrefixes
	}
	return t.lookup(dst, keys{high: addrs})
}

func (t *gpuTable) lookup(dst []lpm.Handle, k keys) error {
	n := k.len()
	dst = dst[:n:len(dst)] // panics where dst is too short, also where its array is not
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	if n == 0 {
		return nil
	}
	var room [16]int
	alive := t.alive(room[:0])
	if len(alive) > 1 && n >= splitKeys {
		if t.split(alive, dst, k) == nil {
			return nil
		}
		alive = t.alive(room[:0])
	}
	err := device.ErrLost
	first := int(t.engine.next.Add(1)) // one after the other, so that small batches use all devices too
	for try := range alive {
		i := alive[(first+try)%len(alive)]
		if err = t.lookupOn(i, dst, k); err == nil || !errors.Is(err, device.ErrLost) {
			break
		}
	}
	return gpuError(err)
}

// split gives every device a part of the batch.
func (t *gpuTable) split(alive []int, dst []lpm.Handle, k keys) error {
	errs := make([]error, len(alive))
	var wg sync.WaitGroup
	for j, i := range alive {
		from, to := len(dst)*j/len(alive), len(dst)*(j+1)/len(alive)
		wg.Go(func() { errs[j] = t.lookupOn(i, dst[from:to], k.cut(from, to)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lookupOn looks a batch up on one device.
func (t *gpuTable) lookupOn(i int, dst []lpm.Handle, k keys) error {
	g := t.engine.gpus[i]
	job := lookups.Get().(*lookup)
	*job = lookup{g: g, im: t.on[i].t6.Image, dst: dst, keys: k, width: 64}
	switch {
	case k.v4 != nil:
		job.im, job.width = t.on[i].t4.Image, 32
	case k.v6 != nil && job.im.Sorted.Longest > 64:
		job.width = 128
	}
	job.pinned = device.IsPinned(dst)
	switch {
	case k.v4 != nil:
		job.pinned = job.pinned && device.IsPinned(k.v4)
	case k.high != nil:
		job.pinned = job.pinned && device.IsPinned(k.high)
	default:
		job.pinned = job.pinned && job.width == 128 && device.IsPinned(k.v6)
	}
	err := g.lanes.prepare(g.dev, min(len(dst), job.chunkKeys())*max(job.keyBytes(), 4))
	if err == nil {
		err = g.dev.DoJob(device.Serve, job)
	}
	*job = lookup{}
	lookups.Put(job)
	return err
}

var lookups = sync.Pool{New: func() any { return new(lookup) }}

// lookup is a batch as a job of a device.
type lookup struct {
	g      *gpu
	im     *tree.Image
	dst    []lpm.Handle
	keys   keys
	width  int  // bits of a key on the device
	pinned bool // keys, as the device wants them, and dst
}

func (l *lookup) keyBytes() int { return l.width / 8 }

// chunkKeys is the number of keys that go through the device at a time.
func (l *lookup) chunkKeys() int {
	part := len(l.dst)/device.Streams/leastKeys*leastKeys + leastKeys
	return min(part, chunkBytes/max(l.keyBytes(), 4))
}

// Run takes the batch through the device.
func (l *lookup) Run(q *device.Queue) error {
	s := &l.g.lanes
	n := len(l.dst)
	step := l.chunkKeys()
	chunk := 0
	for from := 0; from < n; from, chunk = from+step, chunk+1 {
		to := min(from+step, n)
		stream := chunk % device.Streams
		on := q.On(stream)
		if !l.pinned && chunk >= device.Streams {
			l.takeOut(on, stream, from-device.Streams*step, step)
		}
		l.bringIn(on, stream, from, to)
		l.im.Match(on, s.out[stream], s.in[stream], to-from, l.width)
		if l.pinned {
			device.CopyOut(on, l.dst[from:to], s.out[stream])
		} else {
			device.CopyOut(on, s.hostOut.Slice[stream*s.bytes/4:][:to-from], s.out[stream])
		}
		if q.Err() != nil {
			return q.Err()
		}
	}
	if !l.pinned {
		for c := max(chunk-device.Streams, 0); c < chunk; c++ {
			l.takeOut(q.On(c%device.Streams), c%device.Streams, c*step, step)
		}
	}
	return q.Err()
}

// bringIn starts to copy a chunk's keys to the device.
func (l *lookup) bringIn(q *device.Queue, stream, from, to int) {
	s := &l.g.lanes
	k := l.keys.cut(from, to)
	switch buffer := s.hostIn.Slice[stream*s.bytes/8:]; {
	case l.pinned && k.v4 != nil:
		device.CopyIn(q, s.in[stream], k.v4)
	case l.pinned && k.high != nil:
		device.CopyIn(q, s.in[stream], k.high)
	case l.pinned:
		device.CopyIn(q, s.in[stream], k.v6)
	case k.v4 != nil:
		to := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(buffer))), len(k.v4))
		inParallel(copyTask{to4: to, from4: k.v4}, len(to))
		device.CopyIn(q, s.in[stream], to)
	case k.high != nil:
		inParallel(copyTask{to: buffer[:len(k.high)], from: k.high}, len(k.high))
		device.CopyIn(q, s.in[stream], buffer[:len(k.high)])
	case l.width == 64:
		inParallel(copyTask{to: buffer[:len(k.v6)], from6: k.v6}, len(k.v6))
		device.CopyIn(q, s.in[stream], buffer[:len(k.v6)])
	default:
		words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(k.v6))), 2*len(k.v6))
		inParallel(copyTask{to: buffer[:len(words)], from: words}, len(words))
		device.CopyIn(q, s.in[stream], buffer[:len(words)])
	}
}

// takeOut waits for a chunk's answers and brings them to the caller's memory.
func (l *lookup) takeOut(q *device.Queue, stream, from, step int) {
	q.Wait()
	if q.Err() != nil {
		return
	}
	s := &l.g.lanes
	dst := l.dst[from:min(from+step, len(l.dst))]
	to := unsafe.Slice((*uint32)(unsafe.SliceData(dst)), len(dst))
	inParallel(copyTask{to4: to, from4: s.hostOut.Slice[stream*s.bytes/4:][:len(dst)]}, len(dst))
}

// staging are a device's buffers for the chunks under way: for each stream, bytes in and out, on the device and
// in pinned memory. Only jobs of the lane Serve use them.
type staging struct {
	mu      sync.Mutex // held by prepare
	ready   int        // bytes, as prepare knows
	bytes   int
	in, out [device.Streams]device.Ptr
	hostIn  *device.Pinned[uint64]
	hostOut *device.Pinned[uint32]
}

// prepare makes the buffers large enough for chunks of so many bytes.
func (s *staging) prepare(d *device.Device, chunk int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := 64 << 10
	for want < chunk {
		want *= 4
	}
	if want <= s.ready {
		return nil
	}
	hostIn, err := device.NewPinned[uint64](d, device.Streams*want/8)
	if err != nil {
		return fmt.Errorf("buffers for lookups: %w", err)
	}
	hostOut, err := device.NewPinned[uint32](d, device.Streams*want/4)
	if err != nil {
		hostIn.Close()
		return fmt.Errorf("buffers for lookups: %w", err)
	}
	err = d.Do(device.Serve, func(q *device.Queue) error {
		var in, out [device.Streams]device.Ptr
		for i := range in {
			in[i], out[i] = q.Alloc(want), q.Alloc(want)
		}
		if err := q.Err(); err != nil {
			for i := range in {
				q.Free(in[i])
				q.Free(out[i])
			}
			return fmt.Errorf("buffers for lookups: %w", err)
		}
		// Other lookups may wait to use the buffers, but none does now: jobs follow each other.
		for i := range in {
			q.Free(s.in[i])
			q.Free(s.out[i])
		}
		s.bytes, s.in, s.out = want, in, out
		s.hostIn, hostIn = hostIn, s.hostIn
		s.hostOut, hostOut = hostOut, s.hostOut
		return nil
	})
	if err == nil {
		s.ready = want
	}
	if hostIn != nil {
		hostIn.Close()
		hostOut.Close()
	}
	return err
}

// free gives the pinned memory back. The device's goes with the device.
func (s *staging) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready > 0 {
		s.hostIn.Close()
		s.hostOut.Close()
	}
	s.ready = 0
}

// A copyTask is a copy in host memory: one pair of slices is set; from6 gives its first words.
type copyTask struct {
	to4, from4 []uint32
	to, from   []uint64
	from6      []lpm.Addr6
	done       *sync.WaitGroup
}

func (c copyTask) run() {
	copy(c.to4, c.from4)
	copy(c.to, c.from)
	to := c.to[:len(c.from6)]
	for i := range c.from6 {
		to[i] = c.from6[i].Hi
	}
}

// piece is what a processor copies at least before another one is worth asking.
const piece = 1 << 16

// copiers is the most processors that copy at a time.
const copiers = 8

var (
	copyTasks   = make(chan copyTask)
	copyWorkers sync.Once
	copyGroups  = sync.Pool{New: func() any { return new(sync.WaitGroup) }}
)

// inParallel runs a copy of n elements on several processors: one copies 10 GB/s, a device takes
// several times that.
func inParallel(c copyTask, n int) {
	parts := min(n/piece, runtime.GOMAXPROCS(0), copiers)
	if parts < 2 {
		c.run()
		return
	}
	copyWorkers.Do(func() {
		for range copiers {
			go func() {
				for c := range copyTasks {
					c.run()
					c.done.Done()
				}
			}()
		}
	})
	done := copyGroups.Get().(*sync.WaitGroup)
	done.Add(parts - 1)
	for p := range parts {
		from, to := n*p/parts, n*(p+1)/parts
		part := copyTask{done: done}
		switch {
		case c.to4 != nil:
			part.to4, part.from4 = c.to4[from:to], c.from4[from:to]
		case c.from6 != nil:
			part.to, part.from6 = c.to[from:to], c.from6[from:to]
		default:
			part.to, part.from = c.to[from:to], c.from[from:to]
		}
		if p == parts-1 {
			part.run()
		} else {
			copyTasks <- part
		}
	}
	done.Wait()
	copyGroups.Put(done)
}
