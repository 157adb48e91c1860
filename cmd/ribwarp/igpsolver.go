package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/cmd/ribwarp/internal/paths"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// openPathDevice starts a GPU for shortest paths; nil in a build without the tag cuda.
var openPathDevice func(index int) (*device.Device, error)

// solverOptions are the flags that choose what computes shortest paths.
type solverOptions struct {
	engine string
	device int
}

func (o *solverOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.engine, "engine", engineAuto, "compute shortest paths on this `ENGINE`: cpu, cuda (a GPU), or auto (a GPU for what is worth its start, where there is one)")
	fs.IntVar(&o.device, "device", 0, "use the GPU of this `NUMBER` (see ribwarp devices)")
}

func (o *solverOptions) check() error {
	if o.engine != engineAuto && o.engine != engineCPU && o.engine != engineCUDA {
		return usagef("--engine %q: use %s, %s or %s", o.engine, engineAuto, engineCPU, engineCUDA)
	}
	if o.device < 0 {
		return usagef("--device %d: it is 0 or more", o.device)
	}
	return nil
}

// gpuStart is what auto takes the start of a GPU for: work that the processor does sooner stays there. Tests change it.
var gpuStart = 2 * time.Second

// openFor reads the topology, and makes the solver for the paths from these nodes.
func (o *solverOptions) openFor(ctx context.Context, a *app, from *topologyOptions, roots []string) (t *igp.Topology, s igp.Solver, end func(), err error) {
	if err := o.check(); err != nil {
		return nil, nil, nil, err
	}
	if t, err = from.open(a); err != nil {
		return nil, nil, nil, err
	}
	s, end, err = o.open(ctx, a, t, rootCount(t, roots), from.path == "-")
	return t, s, end, err
}

// open makes the solver for so many problems on a topology; nil is the processor. In a build without CUDA it
// may not return: see handOver. stdin tells that the topology has come from there, where nobody can read it
// again.
func (o *solverOptions) open(ctx context.Context, a *app, t *igp.Topology, problems int, stdin bool) (s igp.Solver, end func(), err error) {
	end = func() {}
	if o.engine == engineCPU || o.engine == engineAuto && paths.OnProcessor(t.Graph, problems) < gpuStart {
		return nil, end, nil
	}
	gpu, end, err := o.openGPU(ctx, a, stdin)
	switch {
	case err == nil && o.engine == engineCUDA:
		return gpu, end, nil
	case err == nil:
		return &paths.Auto{GPU: gpu, Log: a.log}, end, nil
	case o.engine == engineCUDA:
		return nil, end, fmt.Errorf("engine %s: %w", engineCUDA, err)
	case !errors.Is(err, errNoGPU):
		a.log.Warn("no GPU is used", "err", err)
	}
	return nil, end, nil
}

func (o *solverOptions) openGPU(ctx context.Context, a *app, stdin bool) (gpu *paths.GPU, end func(), err error) {
	end = func() {}
	if openPathDevice == nil {
		if stdin {
			return nil, end, errors.New("the topology is on stdin: put it into a file, or call ribwarp-cuda")
		}
		return nil, end, handOver(ctx, a.args)
	}
	all, err := cuda.list()
	switch {
	case err != nil:
		return nil, end, err
	case len(all) == 0:
		return nil, end, errNoGPU
	case o.device >= len(all):
		return nil, end, fmt.Errorf("--device %d: there are %d GPUs, numbered from 0", o.device, len(all))
	}
	dev, err := openPathDevice(o.device)
	if err != nil {
		return nil, end, err
	}
	gpu = paths.NewGPU(dev)
	return gpu, func() {
		gpu.Close()
		_ = dev.Close()
	}, nil
}
