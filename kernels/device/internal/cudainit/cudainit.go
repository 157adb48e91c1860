//go:build cuda && linux

// Package cudainit says in plain words that there is no GPU to use, and ends the program.
//
// gorgonia.org/cu initialises CUDA when it is imported and ends the process, with a message of its
// own, where that fails. Go initialises the packages whose imports are ready in the order of their
// paths, so this one, which imports nothing that cu does not, comes before it.
package cudainit

/*
#cgo CFLAGS: -I/usr/local/cuda/include
#cgo LDFLAGS: -L/usr/local/cuda/lib64/stubs -lcuda
#include <cuda.h>

static const char *errorName(CUresult code) {
	const char *name = NULL;
	cuGetErrorName(code, &name);
	return name ? name : "unknown error";
}
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
)

func init() {
	code := C.cuInit(0)
	if code == C.CUDA_SUCCESS {
		return
	}
	reason := fmt.Sprintf("no CUDA device: cuInit: %s (%d)", ErrorName(int(code)), int(code))
	switch {
	case !strings.HasSuffix(os.Args[0], ".test"):
		fmt.Fprintf(os.Stderr, "ribwarp-cuda: %s; check the NVIDIA driver and CUDA_VISIBLE_DEVICES, or use ribwarp, which runs on the CPU\n", reason)
	case os.Getenv("REQUIRE_GPU") != "1":
		fmt.Printf("--- SKIP: all tests of this binary: %s (built with the tag cuda; REQUIRE_GPU=1 makes this a failure)\n", reason)
		os.Exit(0)
	default:
		fmt.Fprintf(os.Stderr, "--- FAIL: all tests of this binary: %s\n", reason)
	}
	os.Exit(1)
}

// ErrorName gives CUDA's name of an error code (CUresult).
func ErrorName(code int) string { return C.GoString(C.errorName(C.CUresult(code))) }
