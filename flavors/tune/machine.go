package tune

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// Engines that models are for.
const (
	EngineCPU  = "cpu"
	EngineCUDA = "cuda"
)

// A Machine is what a Model is for: a processor, or a GPU, and what matters of it.
type Machine struct {
	Engine    string `json:"engine"`
	Processor string `json:"processor"`
	// Wide tells that a search reads many cells by one instruction: on a CPU that it has AVX-512.
	Wide bool `json:"wide"`
	// Caches are those that one thread has, or one multiprocessor of a GPU, the nearest first, and what
	// remembers where pages are.
	Caches []Cache `json:"caches"`
	// Group is the number of keys that are read at once, Block that of those that go down a level together.
	Group int `json:"group"`
	Block int `json:"block"`
	// SharedMemory is the bytes that a block of a GPU can have. The first cache has room for what of it is not used.
	SharedMemory int `json:"shared_memory,omitempty"`
}

// A Cache has so many bytes, or remembers the places of so many.
type Cache struct {
	Bytes int `json:"bytes"`
	// Line is the logarithm to base 2 of the cells that it takes in together, mostLine at most.
	Line int `json:"line"`
}

const (
	lineCPU = 4 // 64 bytes
	// linePages is what one line of a tree's table of pages tells of: 8 pages of 64 KiB. Processors remember
	// about as many bytes' places, in pages of 2 MiB.
	linePages  = 17
	pagesKnown = 128 << 20
)

// On a GPU the cache of a multiprocessor takes in sectors, the second-level cache, where all miss, whole lines. Pages
// have 2 MiB, and of some hundred of them the places are known near the multiprocessors.
const (
	sectorGPU     = 3 // 32 bytes
	lineGPU       = 5 // 128 bytes
	pageGPU       = 19
	pagesKnownGPU = 256 << 20
	// leftGPU is what a multiprocessor has for its cache where a block takes all shared memory that it can.
	leftGPU = 29 << 10

	mostLine = pageGPU
)

// ThisCPU describes the processor that the program runs on, as far as the system tells.
func ThisCPU() Machine {
	m := Machine{
		Engine: EngineCPU, Processor: runtime.GOARCH, Group: 8, Block: 256,
		Wide: cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL,
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(text), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	sizes := systemCaches("/sys/devices/system/cpu/cpu0/cache")
	if len(sizes) == 0 {
		sizes = []int{32 << 10, 1 << 20, 32 << 20}
	}
	for _, bytes := range sizes {
		m.Caches = append(m.Caches, Cache{bytes, lineCPU})
	}
	m.Caches = append(m.Caches, Cache{pagesKnown, linePages})
	return m
}

// systemCaches reads the sizes of a processor's caches as Linux tells them.
func systemCaches(dir string) (caches []int) {
	indexes, _ := filepath.Glob(filepath.Join(dir, "index*")) // the pattern is well formed
	slices.Sort(indexes)
	for _, index := range indexes {
		kind, err := os.ReadFile(filepath.Join(index, "type"))
		if err != nil || strings.TrimSpace(string(kind)) == "Instruction" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(index, "size"))
		if err != nil {
			return nil
		}
		size, unit := strings.TrimSpace(string(text)), 1
		if number, ok := strings.CutSuffix(size, "K"); ok {
			size, unit = number, 1<<10
		}
		n, err := strconv.Atoi(size)
		if err != nil || n <= 0 {
			return nil
		}
		caches = append(caches, n*unit)
	}
	return caches
}

// GPU describes a device.
func GPU(d device.Description) Machine {
	return Machine{
		Engine: EngineCUDA, Processor: d.Name, Wide: true, Group: 32, Block: 512,
		Caches: []Cache{{d.SharedMemory + leftGPU, sectorGPU}, {d.L2, lineGPU}, {pagesKnownGPU, pageGPU}}, SharedMemory: d.SharedMemory,
	}
}
