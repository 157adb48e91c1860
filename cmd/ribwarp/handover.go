package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// This program is built without CUDA, so that it runs everywhere as one static file. Where a GPU
// is wanted and seems to be there, it hands over to ribwarp-cuda beside it, which is the same
// program built with CUDA: it takes this process over, with its arguments and environment.

// host is what handing over needs of the system.
type host struct {
	hints []string // patterns of files that are there where a GPU is
	self  func() (string, error)
	exec  func(path string, args, env []string) error
}

var thisHost = host{
	hints: []string{"/dev/nvidia[0-9]*", "/dev/dxg"}, // Linux, and Linux under Windows
	self:  os.Executable,
	exec:  syscall.Exec,
}

const (
	handedOver = "RIBWARP_HANDED_OVER=1"
	probeTime  = 30 * time.Second // the driver may have to start first
)

// handOver starts ribwarp-cuda with the same arguments in place of this program, and does not return
// where it succeeds. errNoGPU says that no GPU seems to be here.
func handOver(ctx context.Context, args []string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: CUDA is supported on Linux", errNoGPU)
	}
	seen := false
	for _, hint := range thisHost.hints {
		files, _ := filepath.Glob(hint) // only a malformed pattern is an error
		seen = seen || len(files) > 0
	}
	if !seen {
		return fmt.Errorf("%w (none of %s is there)", errNoGPU, strings.Join(thisHost.hints, ", "))
	}
	self, err := thisHost.self()
	if err != nil {
		return fmt.Errorf("find ribwarp-cuda: %w", err)
	}
	other := filepath.Join(filepath.Dir(self), "ribwarp-cuda")
	if _, err := os.Stat(other); err != nil {
		return fmt.Errorf("a GPU seems to be here, but %w", errNoCUDA)
	}
	if os.Getenv("RIBWARP_HANDED_OVER") != "" {
		return fmt.Errorf("%s is a build without CUDA too: make it with make cuda", other)
	}
	// A driver that does not work, or fits neither the GPU nor the program, must not end the service: ask
	// in a process of its own.
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	probe := exec.CommandContext(limited, other, "devices", "--json")
	probe.Env = append(os.Environ(), handedOver)
	probe.WaitDelay = time.Second
	var stderr strings.Builder
	probe.Stderr = &stderr
	out, err := probe.Output()
	var devices []gpuInfo
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s devices: %w", other, ctx.Err())
	case limited.Err() != nil:
		return fmt.Errorf("%s devices did not answer within %v", other, probeTime)
	case err != nil && stderr.Len() == 0: // it did not even start
		return fmt.Errorf("%s devices: %w", other, err)
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Errorf("%s devices: %w: %s", other, err, first)
	case json.Unmarshal(out, &devices) != nil || len(devices) == 0:
		return fmt.Errorf("%s devices names none", other)
	}
	err = thisHost.exec(other, append([]string{other}, args...), append(os.Environ(), handedOver))
	return fmt.Errorf("hand over to %s: %w", other, err)
}
