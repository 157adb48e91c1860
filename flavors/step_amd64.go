package flavors

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// useStep says whether step is worth taking: it is with AVX-512, which reads eight cells by one
// instruction and needs no branch to leave out the keys that are done.
var useStep = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL

// step is stepGeneric for processors with AVX-512.
func step(cur *[block]uint32, hi *[block]uint64, n int, pages unsafe.Pointer, shift, mask uint64) (live uint64) {
	return stepAVX512(cur, hi, (n+7)/8, pages, shift, mask)
}

//go:noescape
func stepAVX512(cur *[block]uint32, hi *[block]uint64, groups int, pages unsafe.Pointer, shift, mask uint64) (live uint64)
