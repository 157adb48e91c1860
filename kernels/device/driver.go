package device

import (
	"fmt"
	"regexp"
	"strings"
	"unsafe"
)

// Ptr is an address in a device's memory; 0 is none.
type Ptr uint64

// Add gives the address n bytes on.
func (p Ptr) Add(n int) Ptr { return p + Ptr(n) }

// Stream, Event and Kernel are a driver's handles.
type (
	Stream uintptr
	Event  uintptr
	Kernel uintptr
)

// A Description says what a device is.
type Description struct {
	Ordinal         int    `json:"index"` // among the devices that the driver shows
	Name            string `json:"name"`
	Memory          uint64 `json:"memory_bytes"`
	Multiprocessors int    `json:"multiprocessors"`
	// SharedMemory is the most shared memory that one block can be given, in bytes.
	SharedMemory int `json:"shared_memory_bytes"`
	// L2 is the size of the second-level cache in bytes.
	L2    int `json:"l2_bytes"`
	Major int `json:"compute_major"` // of the compute capability
	Minor int `json:"compute_minor"`
}

// Launch is the shape of a kernel's grid. Blocks have one dimension.
type Launch struct {
	GridX, GridY int // blocks; 0 for GridY is 1
	Block        int // threads a block
	Shared       int // bytes of dynamic shared memory a block
}

// A Module is the kernels of one source file: what a GPU runs, and what each of them means.
type Module struct {
	Name string
	PTX  string // may be empty where only the simulator is used
	// Twins holds, by kernel name, the same step in plain Go.
	Twins map[string]Twin
}

// entry is a kernel's head in PTX: its name and its parameters.
var entry = regexp.MustCompile(`\.entry\s+([\w$]+)\s*\(([^)]*)\)`)

// params counts every kernel's parameters in the PTX, and checks that it has all the kernels that
// have twins. A module without PTX, which only the simulator can run, gives -1 for each.
func (m *Module) params() (map[string]int, error) {
	params := make(map[string]int, len(m.Twins))
	for _, e := range entry.FindAllStringSubmatch(m.PTX, -1) {
		params[e[1]] = strings.Count(e[2], ".param")
	}
	for name := range m.Twins {
		if _, ok := params[name]; ok {
			continue
		}
		if m.PTX != "" {
			return nil, fmt.Errorf("load module %s: the PTX has no kernel %s, which has a twin: run make generate", m.Name, name)
		}
		params[name] = -1
	}
	return params, nil
}

// A Twin does to memory what its kernel does, one launch at a time and with any launch shape.
// Args are the kernel's parameters, 8 bytes each.
type Twin func(m Memory, args []uint64)

// Memory is a device's memory as twins see it.
type Memory interface {
	// Bytes gives n bytes from p on. It panics where they are not all of one allocation.
	Bytes(p Ptr, n int) []byte
	// Rest gives what is left of p's allocation from p on.
	Rest(p Ptr) []byte
}

// View gives n values of type T from p on, for twins.
func View[T any](m Memory, p uint64, n int) []T {
	var zero T
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m.Bytes(Ptr(p), n*int(unsafe.Sizeof(zero)))))), n)
}

// A Driver is one GPU as the calls that a Device makes: CUDA's driver, or the simulator that
// runs twins. Every thread calls Bind first. Errors are *DriverError.
type Driver interface {
	Describe() Description
	// Bind makes the device current on the calling thread.
	Bind() error
	// Alloc gives n bytes that are aligned to 256. The memory that Free gives back is kept for the
	// next Alloc; both are ordered on the given stream.
	Alloc(n int, s Stream) (Ptr, error)
	Free(p Ptr, s Stream) error
	// AllocPinned gives n bytes of host memory that copies can run from at full rate.
	AllocPinned(n int) (unsafe.Pointer, error)
	FreePinned(p unsafe.Pointer) error
	NewStream() (Stream, error)
	DestroyStream(s Stream) error
	// Wait blocks until the stream has done everything. It reports what went wrong in kernels.
	Wait(s Stream) error
	NewEvent() (Event, error)
	DestroyEvent(e Event) error
	// Record marks the place that the stream has come to.
	Record(e Event, s Stream) error
	// Follow makes the stream wait for a recorded event.
	Follow(s Stream, e Event) error
	// Elapsed gives the milliseconds between two events that have happened.
	Elapsed(from, to Event) (float64, error)
	// CopyIn and CopyOut return before the copy is done where the host memory is pinned. From other
	// memory CopyIn has taken the bytes when it returns.
	CopyIn(dst Ptr, src unsafe.Pointer, n int, s Stream) error
	CopyOut(dst unsafe.Pointer, src Ptr, n int, s Stream) error
	Copy(dst, src Ptr, n int, s Stream) error
	// Fill sets n 32-bit words.
	Fill(dst Ptr, word uint32, n int, s Stream) error
	// Load makes a module's kernels known and gives them by name.
	Load(m *Module) (map[string]Kernel, error)
	Launch(k Kernel, l Launch, args []uint64, s Stream) error
	// Close gives the device back. Nothing may be called after it.
	Close() error
}
