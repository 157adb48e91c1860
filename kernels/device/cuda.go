//go:build cuda && linux

package device

/*
#cgo CFLAGS: -I/usr/local/cuda/include
#cgo LDFLAGS: -L/usr/local/cuda/lib64/stubs -lcuda
#include <stdint.h>
#include <stdlib.h>
#include <cuda.h>

// keepFreed has the device's pool keep freed memory for the next allocation. By default it hands
// everything back to the system whenever a stream is waited for, and fetching it costs far more
// than the kernels in between.
static CUresult keepFreed(CUdevice device) {
	CUmemoryPool pool;
	cuuint64_t most = UINT64_MAX;
	CUresult code = cuDeviceGetDefaultMemPool(&pool, device);
	return code ? code : cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
}

// dropFreed has the pool hand back what it kept.
static CUresult dropFreed(CUdevice device) {
	CUmemoryPool pool;
	CUresult code = cuDeviceGetDefaultMemPool(&pool, device);
	return code ? code : cuMemPoolTrimTo(pool, 0);
}

// Copies take host memory as a number: the rules for pointers that Go hands to C are about the
// whole object that a pointer is into, which may well hold pointers; CUDA reads only the bytes.
static CUresult copyIn(CUdeviceptr dst, uintptr_t src, size_t n, CUstream s) {
	return cuMemcpyHtoDAsync(dst, (const void *)src, n, s);
}

static CUresult copyOut(uintptr_t dst, CUdeviceptr src, size_t n, CUstream s) {
	return cuMemcpyDtoHAsync((void *)dst, src, n, s);
}

// compileLog loads a module for what the compiler says about it.
static void compileLog(const char *ptx, char *log, size_t size) {
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)size};
	CUmodule module;
	if (cuModuleLoadDataEx(&module, ptx, 2, options, values) == CUDA_SUCCESS)
		cuModuleUnload(module);
}
*/
import "C"

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device/internal/cudainit"
	"gorgonia.org/cu"
)

// cuda is a GPU through CUDA's driver API: by package cu, and by a few calls of C for what cu
// lacks.
type cuda struct {
	device  cu.Device
	context cu.CUContext
	about   Description
	kernels []cu.Function // by Kernel

	// What is allocated: memory of the pool outlives the context.
	mu     sync.Mutex
	memory map[Ptr]struct{}
	pinned map[unsafe.Pointer]struct{}
}

// CountCUDA gives the number of GPUs that the driver shows to this process.
func CountCUDA() (int, error) {
	n, err := cu.NumDevices()
	return n, failed("cuDeviceGetCount", err)
}

// DescribeCUDA says what a GPU is, without starting anything on it. It gives ErrNoDevice for a number that the
// driver does not show.
func DescribeCUDA(ordinal int) (Description, error) {
	n, err := CountCUDA()
	if err != nil {
		return Description{}, err
	}
	if ordinal < 0 || ordinal >= n {
		return Description{}, fmt.Errorf("%w: GPU %d was asked for, the driver shows %d, numbered from 0", ErrNoDevice, ordinal, n)
	}
	device, err := cu.GetDevice(ordinal)
	if err != nil {
		return Description{}, failed("cuDeviceGet", err)
	}
	about := Description{Ordinal: ordinal}
	if about.Name, err = device.Name(); err != nil {
		return Description{}, failed("cuDeviceGetName", err)
	}
	memory, err := device.TotalMem()
	if err != nil {
		return Description{}, failed("cuDeviceTotalMem", err)
	}
	about.Memory = uint64(memory)
	for _, a := range []struct {
		to   *int
		what cu.DeviceAttribute
	}{
		{&about.Multiprocessors, cu.MultiprocessorCount},
		{&about.SharedMemory, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
		{&about.L2, cu.L2CacheSize},
		{&about.Major, cu.ComputeCapabilityMajor},
		{&about.Minor, cu.ComputeCapabilityMinor},
	} {
		if *a.to, err = device.Attribute(a.what); err != nil {
			return Description{}, failed("cuDeviceGetAttribute", err)
		}
	}
	return about, nil
}

// OpenCUDA gives the driver of one GPU, numbered from 0; ErrNoDevice where there is none of that
// number. Drivers of one process for one GPU share its context.
func OpenCUDA(ordinal int) (Driver, error) {
	about, err := DescribeCUDA(ordinal)
	if err != nil {
		return nil, err
	}
	c := &cuda{about: about, memory: map[Ptr]struct{}{}, pinned: map[unsafe.Pointer]struct{}{}}
	if c.device, err = cu.GetDevice(ordinal); err != nil {
		return nil, failed("cuDeviceGet", err)
	}
	if c.context, err = c.device.RetainPrimaryCtx(); err != nil {
		return nil, fmt.Errorf("device %d (%s): %w", ordinal, about.Name, failed("cuDevicePrimaryCtxRetain", err))
	}
	if err := call("cuMemPoolSetAttribute", C.keepFreed(C.CUdevice(c.device))); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("device %d (%s): %w", ordinal, about.Name, err)
	}
	return c, nil
}

// call makes an error of what a call of CUDA gave.
func call(name string, code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return &DriverError{Call: name, Code: int(code), Text: cudainit.ErrorName(int(code))}
}

// failed makes an error of one of cu's, whose type, CUDA's code as an int, is not exported.
func failed(name string, err error) error {
	if err == nil {
		return nil
	}
	return call(name, C.CUresult(reflect.ValueOf(err).Int()))
}

// as turns one of CUDA's handles into one of cu's and back: cu's are structs of nothing but the
// handle, which they do not export.
func as[To, From any](handle From) To { return *(*To)(unsafe.Pointer(&handle)) }

// If cu's types grow, these do not compile.
var (
	_ = [1]int{}[unsafe.Sizeof(cu.Stream{})-unsafe.Sizeof(Stream(0))]
	_ = [1]int{}[unsafe.Sizeof(cu.Event{})-unsafe.Sizeof(Event(0))]
	_ = [1]int{}[unsafe.Sizeof(cu.Function{})-unsafe.Sizeof(C.CUfunction(nil))]
)

func (c *cuda) Describe() Description { return c.about }

func (c *cuda) Bind() error { return failed("cuCtxSetCurrent", cu.SetCurrentContext(c.context)) }

func (c *cuda) Alloc(n int, s Stream) (Ptr, error) {
	var p C.CUdeviceptr
	if err := call("cuMemAllocAsync", C.cuMemAllocAsync(&p, C.size_t(n), as[C.CUstream](s))); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory[Ptr(p)] = struct{}{}
	return Ptr(p), nil
}

func (c *cuda) Free(p Ptr, s Stream) error {
	c.mu.Lock()
	delete(c.memory, p)
	c.mu.Unlock()
	return call("cuMemFreeAsync", C.cuMemFreeAsync(C.CUdeviceptr(p), as[C.CUstream](s)))
}

func (c *cuda) AllocPinned(n int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	if err := call("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_PORTABLE)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinned[p] = struct{}{}
	return p, nil
}

func (c *cuda) FreePinned(p unsafe.Pointer) error {
	c.mu.Lock()
	delete(c.pinned, p)
	c.mu.Unlock()
	return failed("cuMemFreeHost", cu.MemFreeHost(p))
}

func (c *cuda) NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return as[Stream](s), failed("cuStreamCreate", err)
}

func (c *cuda) DestroyStream(s Stream) error {
	stream := as[cu.Stream](s)
	return failed("cuStreamDestroy", stream.Destroy())
}

func (c *cuda) Wait(s Stream) error {
	return failed("cuStreamSynchronize", as[cu.Stream](s).Synchronize())
}

func (c *cuda) NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return as[Event](e), failed("cuEventCreate", err)
}

func (c *cuda) DestroyEvent(e Event) error {
	event := as[cu.Event](e)
	return failed("cuEventDestroy", cu.DestroyEvent(&event))
}

func (c *cuda) Record(e Event, s Stream) error {
	return failed("cuEventRecord", as[cu.Event](e).Record(as[cu.Stream](s)))
}

func (c *cuda) Follow(s Stream, e Event) error {
	return failed("cuStreamWaitEvent", as[cu.Stream](s).Wait(as[cu.Event](e), 0))
}

func (c *cuda) Elapsed(from, to Event) (float64, error) {
	ms, err := as[cu.Event](from).Elapsed(as[cu.Event](to))
	return ms, failed("cuEventElapsedTime", err)
}

func (c *cuda) CopyIn(dst Ptr, src unsafe.Pointer, n int, s Stream) error {
	return call("cuMemcpyHtoDAsync", C.copyIn(C.CUdeviceptr(dst), C.uintptr_t(uintptr(src)), C.size_t(n), as[C.CUstream](s)))
}

func (c *cuda) CopyOut(dst unsafe.Pointer, src Ptr, n int, s Stream) error {
	return call("cuMemcpyDtoHAsync", C.copyOut(C.uintptr_t(uintptr(dst)), C.CUdeviceptr(src), C.size_t(n), as[C.CUstream](s)))
}

func (c *cuda) Copy(dst, src Ptr, n int, s Stream) error {
	return failed("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(n), as[cu.Stream](s)))
}

func (c *cuda) Fill(dst Ptr, word uint32, n int, s Stream) error {
	return failed("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), uint(word), int64(n), as[cu.Stream](s)))
}

func (c *cuda) Load(m *Module) (map[string]Kernel, error) {
	module, err := cu.LoadData(m.PTX)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", failed("cuModuleLoadData", err), whyNotLoaded(m.PTX))
	}
	known := make(map[string]Kernel, len(m.Twins))
	for name := range m.Twins {
		f, err := module.Function(name)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, failed("cuModuleGetFunction", err))
		}
		if err := c.offerSharedMemory(f); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
		known[name] = Kernel(len(c.kernels))
		c.kernels = append(c.kernels, f)
	}
	return known, nil
}

func (c *cuda) Launch(k Kernel, l Launch, args []uint64, s Stream) error {
	pointers := make([]unsafe.Pointer, 0, 32) // on the stack
	for i := range args {
		pointers = append(pointers, unsafe.Pointer(&args[i]))
	}
	return failed("cuLaunchKernel", c.kernels[k].Launch(l.GridX, l.GridY, 1, l.Block, 1, 1, l.Shared, as[cu.Stream](s), pointers))
}

func (c *cuda) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Bind() == nil {
		// On a lost device all of this fails, and the memory goes with the process.
		for p := range c.memory {
			_ = cu.MemFree(cu.DevicePtr(p))
		}
		for p := range c.pinned {
			_ = cu.MemFreeHost(p)
		}
		C.dropFreed(C.CUdevice(c.device))
		_ = cu.SetCurrentContext(cu.CUContext{})
	}
	return failed("cuDevicePrimaryCtxRelease", c.device.ReleasePrimaryCtx())
}

// offerSharedMemory lets a kernel be launched with all the shared memory that a block can have.
// Without it 48 KiB are the limit.
func (c *cuda) offerSharedMemory(f cu.Function) error {
	static, err := f.Attribute(cu.SharedSizeBytes)
	if err != nil {
		return failed("cuFuncGetAttribute", err)
	}
	return call("cuFuncSetAttribute", C.cuFuncSetAttribute(as[C.CUfunction](f),
		C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(c.about.SharedMemory-static)))
}

// whyNotLoaded gives the first line that the compiler has to say about a module.
func whyNotLoaded(ptx string) string {
	const size = 4096
	text, log := C.CString(ptx), (*C.char)(C.calloc(size, 1))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(log))
	C.compileLog(text, log, size)
	first, _, _ := strings.Cut(strings.TrimSpace(C.GoString(log)), "\n")
	if first == "" {
		return "the compiler says nothing; is the NVIDIA driver 520 or newer?"
	}
	return first
}
