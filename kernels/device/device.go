// Package device is one GPU: its streams, memory, kernels and jobs, and errors that say what can
// still be done.
//
// Work is done in jobs (Do). A job runs as a whole on a lane, one at a time, where a Queue takes
// allocations, copies and kernel launches in order. Lanes run beside each other, so a table is
// built on one while another answers. What a GPU is asked for goes through a Driver; there are two,
// CUDA (build tag cuda) and the simulator (package sim), which runs every kernel's twin in plain Go.
// Everything above is the same for both.
package device

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Lane names one of a device's queues of jobs.
type Lane int

const (
	// Serve is for short jobs that somebody waits for.
	Serve Lane = iota
	// Build is for long ones.
	Build
)

// Streams is the number of streams that a job has. Work on one stream is done in order, work on
// different ones at the same time.
const Streams = 4

// A Device is one GPU. Its methods may be called concurrently.
type Device struct {
	driver  Driver
	about   Description
	kernels map[string]loaded // by "module.kernel"
	lanes   [2]lane           // by Lane
	lost    atomic.Pointer[error]

	mu     sync.RWMutex // held for reading during a job
	closed bool
}

// lane holds the queue of its jobs; whoever holds the mutex runs one.
type lane struct {
	sync.Mutex
	queue *Queue
}

type loaded struct {
	Kernel
	params int // -1 where a module has no PTX to count them in
}

// A Job is a piece of work for a device.
type Job interface {
	// Run gives the device its work, on the thread of whoever calls DoJob.
	Run(q *Queue) error
}

type jobFunc func(q *Queue) error

func (f jobFunc) Run(q *Queue) error { return f(q) }

// Open starts a device with the kernels of the given modules. It takes the driver over, also if
// it fails. Loading PTX compiles it for the GPU at hand; CUDA keeps the result on disk.
func Open(driver Driver, modules ...*Module) (*Device, error) {
	d := &Device{driver: driver, about: driver.Describe(), kernels: map[string]loaded{}}
	if err := d.start(modules); err != nil {
		_ = driver.Close()
		return nil, fmt.Errorf("device %d (%s): %w", d.about.Ordinal, d.about.Name, err)
	}
	return d, nil
}

func (d *Device) start(modules []*Module) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.driver.Bind(); err != nil {
		return err
	}
	for i := range d.lanes {
		q, err := d.newQueue()
		if err != nil {
			return err
		}
		d.lanes[i].queue = q
	}
	return d.load(modules)
}

// Describe says what the device is.
func (d *Device) Describe() Description { return d.about }

// Lost gives the error that the device was lost with, nil as long as it works.
func (d *Device) Lost() error {
	if err := d.lost.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *Device) newQueue() (*Queue, error) {
	x := &shared{d: d}
	for i := range x.streams {
		s, err := d.driver.NewStream()
		if err != nil {
			return nil, err
		}
		x.streams[i], x.queues[i] = s, Queue{x, i}
	}
	return &x.queues[0], nil
}

func (d *Device) load(modules []*Module) error {
	for _, m := range modules {
		params, err := m.params()
		if err != nil {
			return err
		}
		kernels, err := d.driver.Load(m)
		if err != nil {
			return fmt.Errorf("load module %s: %w", m.Name, err)
		}
		for name, k := range kernels {
			d.kernels[m.Name+"."+name] = loaded{k, params[name]}
		}
	}
	return nil
}

// Do runs a job on a lane and waits for its end, copies and kernels included. Jobs of a lane run
// one after the other. It gives the first error that the job's queue met, or else the job's own;
// ErrClosed and ErrLost where the job was not run. A job must not call Do, nor NewPinned,
// Pinned.Close or Close.
func (d *Device) Do(lane Lane, run func(*Queue) error) error { return d.DoJob(lane, jobFunc(run)) }

// DoJob is Do for a caller that keeps its jobs: it allocates nothing.
func (d *Device) DoJob(lane Lane, j Job) error {
	return d.bound(func() error {
		l := &d.lanes[lane]
		l.Lock()
		defer l.Unlock()
		return l.queue.run(j)
	})
}

// bound runs f where the driver takes calls for this device, unless it is closed or lost. That is on
// the caller's thread: to hand work to a thread of the device's own would take longer than many a
// job. The driver knows the device that calls are for by the OS thread.
func (d *Device) bound(f func() error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return ErrClosed
	}
	if err := d.Lost(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.driver.Bind(); err != nil {
		return d.check(err)
	}
	return d.check(f())
}

// Close waits for the jobs that run and gives the device back, with all memory that is still
// allocated, pinned memory too. Later calls of Do give ErrClosed; a second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = d.driver.Bind()
	for i := range d.lanes {
		d.lanes[i].queue.close()
	}
	_ = d.driver.Close() // what could still be done about it?
	return nil
}

// check turns a driver's error into one of this package, and latches a lost device.
func (d *Device) check(err error) error {
	if err == nil || !errors.Is(err, ErrLost) || errors.Is(err, d.Lost()) {
		return err
	}
	lost := fmt.Errorf("device %d (%s): %w: %w", d.about.Ordinal, d.about.Name, ErrLost, err)
	d.lost.CompareAndSwap(nil, &lost)
	return lost
}

// A Queue takes a job's work in order. It belongs to the job's goroutine and is of no use after the
// job. The first error sticks: what follows does nothing, and Err gives it.
type Queue struct {
	*shared
	stream int
}

// shared is what the queues of one job's streams have in common.
type shared struct {
	d       *Device
	queues  [Streams]Queue
	streams [Streams]Stream
	args    [maxArgs]uint64 // of the launch at hand
	used    [Streams]bool
	temps   []Ptr
	events  []Event
	err     error
	last    string // kernel launched last
}

// maxArgs is the most parameters that a kernel has.
const maxArgs = 32

// On gives the queue of another stream of the job, 0 to Streams-1. A job starts on stream 0.
func (q *Queue) On(stream int) *Queue { return &q.queues[stream] }

// Err gives the first error that the job's queues met.
func (q *Queue) Err() error { return q.err }

// Device gives the device that the job runs on.
func (q *Queue) Device() *Device { return q.d }

// run does a job and leaves the queue empty, also if the job panics.
func (q *Queue) run(job Job) (err error) {
	defer func() { err = q.finish(err) }()
	return job.Run(q)
}

// finish waits for what a job put on the queue and clears up after it.
func (q *Queue) finish(err error) error {
	if q.err != nil {
		err = q.err // what the job makes of it names no kernel
	}
	for i := range q.streams {
		if q.used[i] {
			q.err = nil
			if q.On(i).Wait(); err == nil {
				err = q.err
			}
		}
	}
	q.err = nil
	for len(q.temps) > 0 {
		q.Free(q.temps[len(q.temps)-1])
	}
	for _, e := range q.events {
		q.note(q.d.driver.DestroyEvent(e))
	}
	q.events, q.err, q.last, q.used = q.events[:0], nil, "", [Streams]bool{}
	return err
}

func (q *Queue) close() {
	for _, s := range q.streams {
		_ = q.d.driver.DestroyStream(s)
	}
}

// Fail makes err the error that sticks, unless there is one: for work that cannot be put on the
// queue as it was asked for.
func (q *Queue) Fail(err error) { q.note(err) }

// note keeps the first error.
func (q *Queue) note(err error) {
	if err != nil && q.err == nil {
		q.err = q.d.check(err)
	}
}

// next gives the stream for one more piece of work; ok is false after an error.
func (q *Queue) next() (s Stream, ok bool) {
	q.used[q.stream] = true
	return q.streams[q.stream], q.err == nil
}

// Alloc gives n bytes of device memory, aligned to 256 and with anything in them. They stay until
// freed. n may be 0.
func (q *Queue) Alloc(n int) Ptr {
	s, ok := q.next()
	if !ok {
		return 0
	}
	p, err := q.d.driver.Alloc(max(n, 1), s)
	if err != nil {
		q.note(fmt.Errorf("allocate %d bytes of device memory: %w", n, err))
		return 0
	}
	return p
}

// Temp is Alloc for memory that is freed when the job ends, or by Free before.
func (q *Queue) Temp(n int) Ptr {
	p := q.Alloc(n)
	if p != 0 {
		q.temps = append(q.temps, p)
	}
	return p
}

// TryTemps is Temp for each of so many bytes, for memory that a job can do without: all of it, or nil where there is too
// little, which is no error then. For 0 bytes it gives 0.
func (q *Queue) TryTemps(sizes ...int) []Ptr {
	all := make([]Ptr, len(sizes))
	for i, n := range sizes {
		s, ok := q.next()
		if ok && n > 0 {
			var err error
			all[i], err = q.d.driver.Alloc(n, s)
			if ok = err == nil; !ok && !errors.Is(q.d.check(err), ErrMemory) {
				q.note(fmt.Errorf("allocate %d bytes of device memory: %w", n, err))
			}
		}
		if !ok {
			for _, p := range all[:i] {
				q.Free(p)
			}
			return nil
		}
		if n > 0 {
			q.temps = append(q.temps, all[i])
		}
	}
	return all
}

// Free gives memory back once the work before it is done. It works after an error too.
func (q *Queue) Free(p Ptr) {
	if p == 0 {
		return
	}
	if i := slices.Index(q.temps, p); i >= 0 {
		q.temps = slices.Delete(q.temps, i, i+1)
	}
	q.used[q.stream] = true
	q.note(q.d.driver.Free(p, q.streams[q.stream]))
}

// Launch starts a kernel, named "module.kernel". A grid of no blocks does nothing.
func (q *Queue) Launch(name string, l Launch, args ...uint64) {
	s, ok := q.next()
	if !ok || l.GridX == 0 {
		return
	}
	k, ok := q.d.kernels[name]
	if !ok {
		q.note(&LaunchError{name, errors.New("no module that the device was opened with has it")})
		return
	}
	if k.params >= 0 && k.params != len(args) {
		// CUDA would read on behind the arguments.
		q.note(&LaunchError{name, fmt.Errorf("launched with %d arguments, it takes %d", len(args), k.params)})
		return
	}
	if l.GridY == 0 {
		l.GridY = 1
	}
	q.last = name
	// What goes to the driver lies on the heap: the queue's own array costs nothing.
	if err := q.d.driver.Launch(k.Kernel, l, q.args[:copy(q.args[:], args)], s); err != nil {
		q.note(&LaunchError{name, err})
	}
}

// Fill sets n 32-bit words of device memory.
func (q *Queue) Fill(dst Ptr, word uint32, n int) {
	if s, ok := q.next(); ok && n > 0 {
		q.note(q.d.driver.Fill(dst, word, n, s))
	}
}

// Copy copies n bytes within the device.
func (q *Queue) Copy(dst, src Ptr, n int) {
	if s, ok := q.next(); ok && n > 0 {
		q.note(q.d.driver.Copy(dst, src, n, s))
	}
}

// Wait blocks until the queue's stream has done everything before.
func (q *Queue) Wait() {
	s, ok := q.next()
	if !ok {
		return
	}
	err := q.d.driver.Wait(s)
	if err != nil && q.last != "" {
		err = &LaunchError{q.last, err}
	}
	q.note(err)
}

// Follow makes the queue's stream wait for all that other's has been given so far.
func (q *Queue) Follow(other *Queue) {
	if e := other.Mark(); q.err == nil {
		s, _ := q.next()
		q.note(q.d.driver.Follow(s, e))
	}
}

// Mark gives an event for the place that the stream has come to. It lasts as long as the job.
func (q *Queue) Mark() Event {
	s, ok := q.next()
	if !ok {
		return 0
	}
	e, err := q.d.driver.NewEvent()
	if err != nil {
		q.note(err)
		return 0
	}
	q.events = append(q.events, e)
	q.note(q.d.driver.Record(e, s))
	return e
}

// Elapsed gives the milliseconds between two marks that the device has passed.
func (q *Queue) Elapsed(from, to Event) float64 {
	if q.err != nil {
		return 0
	}
	ms, err := q.d.driver.Elapsed(from, to)
	q.note(err)
	return ms
}

// CopyIn copies host memory to the device. From pinned memory it only starts the copy, and src must
// stay as it is until the stream was waited for.
func CopyIn[T any](q *Queue, dst Ptr, src []T) {
	if s, ok := q.next(); ok && len(src) > 0 {
		q.note(q.d.driver.CopyIn(dst, unsafe.Pointer(unsafe.SliceData(src)), size(src), s))
		runtime.KeepAlive(src)
	}
}

// CopyOut copies device memory to the host. To pinned memory it only starts the copy.
func CopyOut[T any](q *Queue, dst []T, src Ptr) {
	if s, ok := q.next(); ok && len(dst) > 0 {
		q.note(q.d.driver.CopyOut(unsafe.Pointer(unsafe.SliceData(dst)), src, size(dst), s))
		runtime.KeepAlive(dst)
	}
}

func size[T any](s []T) int {
	var zero T
	return len(s) * int(unsafe.Sizeof(zero))
}
