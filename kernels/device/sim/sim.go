// Package sim is a device without a GPU: it keeps device memory in the Go heap and runs kernels'
// twins. It is for tests: of the steps themselves, of everything above the driver, and of what
// happens when a GPU fails (see Faults).
package sim

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// Faults makes calls fail. Its functions are called while a job runs; nil ones never fail.
// A code is one of CUDA's error codes, 0 for none.
type Faults struct {
	Alloc  func(bytes int) (code int)     // of device memory
	Pinned func(bytes int) (code int)     // of host memory
	Launch func(kernel string) (code int) // when the kernel is started
	// Kernel breaks a kernel while it runs: the stream's next Wait reports it, and if the code is
	// one that poisons a context all that follows fails with it.
	Kernel func(kernel string) (code int)
	Load   func(module string) (code int)
}

// A Driver simulates one GPU.
type Driver struct {
	about  device.Description
	faults *Faults

	mu       sync.Mutex
	memory   []allocation // by address
	used     uint64       // bytes
	pinned   map[unsafe.Pointer][]uint64
	kernels  []kernel
	next     device.Ptr
	poisoned int // code
	pending  int // code that the next Wait reports
	events   device.Event
	closed   bool
}

type allocation struct {
	from  device.Ptr
	bytes []byte
}

type kernel struct {
	name string
	twin device.Twin
}

// New makes a driver. faults may be nil.
func New(ordinal int, faults *Faults) *Driver {
	if faults == nil {
		faults = &Faults{}
	}
	return &Driver{
		about: device.Description{
			Ordinal: ordinal, Name: "simulator", Memory: 1 << 34, Multiprocessors: 4, SharedMemory: 227 << 10, L2: 50 << 20, Major: 9,
		},
		faults: faults,
		pinned: map[unsafe.Pointer][]uint64{},
		next:   1 << 32,
	}
}

// LimitShared makes it a GPU whose blocks get less shared memory. It is for before the device is opened.
func (s *Driver) LimitShared(bytes int) { s.about.SharedMemory = bytes }

// Allocations is the number of pieces of device memory in use: for tests that look for leaks.
func (s *Driver) Allocations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.memory)
}

func (s *Driver) fail(call string, code int) error {
	return &device.DriverError{Call: call, Code: code, Text: "simulated"}
}

// enter is the begin of calls: a poisoned context answers none but those that give something back.
func (s *Driver) enter(call string) error {
	switch {
	case s.closed:
		return s.fail(call, 4)
	case s.poisoned != 0:
		return s.fail(call, s.poisoned)
	}
	return nil
}

func (s *Driver) Describe() device.Description { return s.about }
func (s *Driver) Bind() error                  { return nil }

// garbage is what fresh memory holds, so that a step which reads what nobody wrote is seen.
const garbage = 0xcdcdcdcdcdcdcdcd

func (s *Driver) Alloc(n int, _ device.Stream) (device.Ptr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("cuMemAllocAsync"); err != nil {
		return 0, err
	}
	if s.faults.Alloc != nil {
		if code := s.faults.Alloc(n); code != 0 {
			return 0, s.fail("cuMemAllocAsync", code)
		}
	}
	if s.used+uint64(n) > s.about.Memory {
		return 0, s.fail("cuMemAllocAsync", device.CodeOutOfMemory)
	}
	s.used += uint64(n)
	words := make([]uint64, (n+7)/8)
	for i := range words {
		words[i] = garbage
	}
	p := s.next
	s.next += device.Ptr(n+511) &^ 255 // with a gap behind every piece
	s.memory = append(s.memory, allocation{p, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)})
	return p, nil
}

func (s *Driver) Free(p device.Ptr, _ device.Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := slices.BinarySearchFunc(s.memory, p, byAddress)
	if !ok {
		return s.fail("cuMemFreeAsync", device.CodeInvalidValue)
	}
	s.used -= uint64(len(s.memory[i].bytes))
	s.memory = slices.Delete(s.memory, i, i+1)
	return nil
}

func byAddress(a allocation, p device.Ptr) int {
	switch {
	case a.from < p:
		return -1
	case a.from > p:
		return +1
	}
	return 0
}

// badAddress is what a twin's access outside of memory panics with.
type badAddress struct{ text string }

// Bytes implements device.Memory.
func (s *Driver) Bytes(p device.Ptr, n int) []byte {
	if rest := s.Rest(p); n >= 0 && n <= len(rest) {
		return rest[:n:n]
	}
	panic(badAddress{fmt.Sprintf("%d bytes at %#x are not allocated", n, uint64(p))})
}

// Rest implements device.Memory.
func (s *Driver) Rest(p device.Ptr) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := slices.BinarySearchFunc(s.memory, p, byAddress)
	if !ok {
		i--
	}
	if i >= 0 {
		a := s.memory[i]
		if off := int(p - a.from); off <= len(a.bytes) {
			return a.bytes[off:len(a.bytes):len(a.bytes)]
		}
	}
	return nil
}

func (s *Driver) AllocPinned(n int) (unsafe.Pointer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter("cuMemHostAlloc"); err != nil {
		return nil, err
	}
	if s.faults.Pinned != nil {
		if code := s.faults.Pinned(n); code != 0 {
			return nil, s.fail("cuMemHostAlloc", code)
		}
	}
	words := make([]uint64, (n+7)/8)
	p := unsafe.Pointer(unsafe.SliceData(words))
	s.pinned[p] = words
	return p, nil
}

func (s *Driver) FreePinned(p unsafe.Pointer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.pinned[p]; !ok {
		return s.fail("cuMemFreeHost", device.CodeInvalidValue)
	}
	delete(s.pinned, p)
	return nil
}

func (s *Driver) NewStream() (device.Stream, error)        { return 1, nil }
func (s *Driver) DestroyStream(device.Stream) error        { return nil }
func (s *Driver) DestroyEvent(device.Event) error          { return nil }
func (s *Driver) Record(device.Event, device.Stream) error { return s.state("cuEventRecord") }
func (s *Driver) Follow(device.Stream, device.Event) error { return s.state("cuStreamWaitEvent") }

func (s *Driver) NewEvent() (device.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	return s.events, s.enter("cuEventCreate")
}

// Elapsed counts the events in between: the simulator has no time.
func (s *Driver) Elapsed(from, to device.Event) (float64, error) { return float64(to - from), nil }

func (s *Driver) state(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enter(call)
}

func (s *Driver) Wait(device.Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.pending; code != 0 {
		s.pending = 0
		return s.fail("cuStreamSynchronize", code)
	}
	return s.enter("cuStreamSynchronize")
}

// breakKernel notes that a kernel failed while it ran.
func (s *Driver) breakKernel(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = code
	if (&device.DriverError{Code: code}).Is(device.ErrLost) {
		s.poisoned = code
	}
}

// host gives n bytes of host memory.
func host(p unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// access runs a copy or fill; a bad address is an error as CUDA would give it.
func (s *Driver) access(call string, f func()) (err error) {
	if err := s.state(call); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(badAddress)
			if !ok {
				panic(r)
			}
			err = &device.DriverError{Call: call, Code: device.CodeInvalidValue, Text: bad.text}
		}
	}()
	f()
	return nil
}

func (s *Driver) CopyIn(dst device.Ptr, src unsafe.Pointer, n int, _ device.Stream) error {
	return s.access("cuMemcpyHtoDAsync", func() { copy(s.Bytes(dst, n), host(src, n)) })
}

func (s *Driver) CopyOut(dst unsafe.Pointer, src device.Ptr, n int, _ device.Stream) error {
	return s.access("cuMemcpyDtoHAsync", func() { copy(host(dst, n), s.Bytes(src, n)) })
}

func (s *Driver) Copy(dst, src device.Ptr, n int, _ device.Stream) error {
	return s.access("cuMemcpyDtoDAsync", func() { copy(s.Bytes(dst, n), s.Bytes(src, n)) })
}

func (s *Driver) Fill(dst device.Ptr, word uint32, n int, _ device.Stream) error {
	return s.access("cuMemsetD32Async", func() {
		words := device.View[uint32](s, uint64(dst), n)
		for i := range words {
			words[i] = word
		}
	})
}

func (s *Driver) Load(m *device.Module) (map[string]device.Kernel, error) {
	if s.faults.Load != nil {
		if code := s.faults.Load(m.Name); code != 0 {
			return nil, s.fail("cuModuleLoadData", code)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]device.Kernel{}
	for name, twin := range m.Twins {
		known[name] = device.Kernel(len(s.kernels))
		s.kernels = append(s.kernels, kernel{m.Name + "." + name, twin})
	}
	return known, nil
}

// Launch runs the kernel's twin to its end. A twin that leaves its memory breaks the device, as an
// illegal address does.
func (s *Driver) Launch(k device.Kernel, l device.Launch, args []uint64, _ device.Stream) error {
	if err := s.state("cuLaunchKernel"); err != nil {
		return err
	}
	kernel := s.kernels[k]
	switch {
	case l.GridX < 1 || l.GridY < 1 || l.GridY > 65535 || l.Block < 1 || l.Block > 1024 || l.Shared > s.about.SharedMemory:
		return s.fail("cuLaunchKernel", device.CodeInvalidValue)
	case s.faults.Launch != nil:
		if code := s.faults.Launch(kernel.name); code != 0 {
			return s.fail("cuLaunchKernel", code)
		}
	}
	if s.faults.Kernel != nil {
		if code := s.faults.Kernel(kernel.name); code != 0 {
			s.breakKernel(code)
			return nil
		}
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(badAddress); !ok {
				panic(r)
			}
			s.breakKernel(device.CodeIllegalAddress)
		}
	}()
	kernel.twin(s, args)
	return nil
}

func (s *Driver) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.memory, s.pinned = nil, nil
	return nil
}
