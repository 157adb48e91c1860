package flavors

import (
	"fmt"
	"math/bits"
	"os"
	"testing"
	"time"
)

// Regions that nobody holds are given back although they leave next to no garbage in the heap.
func TestDroppedRegionsAreGivenBack(t *testing.T) {
	if bits.UintSize == 32 {
		t.Skip("as much address space as this wants to see kept is not there")
	}
	const each = 64 << 20
	before := addressSpace(t)
	for range 200 {
		if _, err := newRegion(each / cellSize); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // the collector's turn
	}
	if grown := addressSpace(t) - before; grown/each > 200/4 {
		t.Errorf("200 dropped regions of %d MiB left %d MiB mapped", each>>20, grown>>20)
	}
}

// addressSpace gives the number of bytes that the process has mapped.
func addressSpace(t *testing.T) (size int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &size)
	}
	if err != nil {
		t.Skipf("no /proc to look at: %v", err)
	}
	return size * os.Getpagesize()
}

// A tree that no memory can hold is an error and not the end of the process.
func TestRegionThatNoMemoryHolds(t *testing.T) {
	if bits.UintSize == 64 {
		if _, err := newRegion(maxCells); err == nil {
			t.Error("mapped more bytes than a process has addresses")
		}
		return
	}
	if _, err := allocate(strides(t, 52, 26, 26), []int{1, 32}); err == nil {
		t.Error("allocated 2^31 cells where an int has 32 bits")
	}
}
