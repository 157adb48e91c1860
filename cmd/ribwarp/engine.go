package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cache"
	"github.com/ribwarp/ribwarp/lpm/index"
)

// What --engine takes.
const (
	engineAuto = "auto" // large batches on GPUs where there are any
	engineCPU  = "cpu"
	engineCUDA = "cuda" // all batches on GPUs
)

// maxCache is the most addresses of a destination cache: every generation that is in use takes 16 bytes for each.
const maxCache = 1 << 24

// gpuInfo describes a GPU for ribwarp devices.
type gpuInfo struct {
	Index             int    `json:"index"`
	Name              string `json:"name"`
	Memory            uint64 `json:"memory_bytes"`
	Multiprocessors   int    `json:"multiprocessors"`
	ComputeCapability string `json:"compute_capability"`
}

// gpuSupport is what a build with the tag cuda can do more.
type gpuSupport struct {
	list func() ([]gpuInfo, error)
	open func(o flavors.Options, indexes []int) (lpm.Engine, error)
	// describe says what a GPU is, device opens one to build and search trees on alone.
	describe func(index int) (device.Description, error)
	device   func(index int) (*device.Device, error)
}

// cuda is nil in a build without the tag.
var cuda *gpuSupport

var errNoCUDA = errors.New("this build is without CUDA: put ribwarp-cuda (make cuda) beside it, on a host with an NVIDIA GPU and driver")

// engineOptions are the flags of every command that builds a table.
type engineOptions struct {
	engine             string
	devices            string
	flavor             string
	strides4, strides6 string
	cache              int
}

func (o *engineOptions) flags(fs *pflag.FlagSet, engine string) {
	fs.StringVar(&o.engine, "engine", engine, "build and search tables on this `ENGINE`: cpu, cuda (GPUs), or auto (GPUs for the batches that are worth it, where there are any)")
	fs.StringVar(&o.devices, "devices", "0", "use these GPUs: their `NUMBERS`, such as 0,1 (see ribwarp devices), or all")
	fs.StringVar(&o.flavor, "flavor", string(flavors.Pushed), "kind of tree: pushed (fast) or list (small)")
	fs.StringVar(&o.strides4, "strides4", "", "bits of each level of the IPv4 tree, such as `16,8,8` (default: the engine's choice)")
	fs.StringVar(&o.strides6, "strides6", "", "the same for IPv6; they sum to 128")
	fs.IntVar(&o.cache, "destination-cache", 0, "keep the answers of about this `NUMBER` of IPv4 addresses; seldom faster, so none are kept")
}

// A flagError says what is wrong with the value of a flag, beginning with the value.
type flagError struct {
	flag string
	err  error
}

func (e *flagError) Error() string { return "--" + e.flag + " " + e.err.Error() }
func (e *flagError) Unwrap() error { return e.err }

func wrongFlag(flag, format string, args ...any) error {
	return usageError{&flagError{flag, fmt.Errorf(format, args...)}}
}

// options checks all the flags, and gives the trees' options. The error has a flagError.
func (o *engineOptions) options() (flavors.Options, error) {
	if o.engine != engineAuto && o.engine != engineCPU && o.engine != engineCUDA {
		return flavors.Options{}, wrongFlag("engine", "%q: use %s, %s or %s", o.engine, engineAuto, engineCPU, engineCUDA)
	}
	if _, err := o.indexes(); err != nil {
		return flavors.Options{}, err
	}
	if o.cache < 0 || o.cache > maxCache {
		return flavors.Options{}, wrongFlag("destination-cache", "%d: give a number of addresses up to %d, 0 for no cache", o.cache, maxCache)
	}
	f := flavors.Flavor(o.flavor)
	if f != flavors.Pushed && f != flavors.List {
		return flavors.Options{}, wrongFlag("flavor", "%q: use %s or %s", o.flavor, flavors.Pushed, flavors.List)
	}
	options := flavors.Options{Flavor: f}
	for _, s := range []struct {
		flag, text string
		bits       int
		list       *[]int
	}{{"strides4", o.strides4, 32, &options.Strides4}, {"strides6", o.strides6, 128, &options.Strides6}} {
		if s.text == "" {
			continue
		}
		list, err := flavors.ParseStrides(s.text)
		if err == nil {
			_, err = flavors.NewStrides(s.bits, list)
		}
		if err != nil {
			return flavors.Options{}, wrongFlag(s.flag, "%q: %w", s.text, err)
		}
		*s.list = list
	}
	return options, nil
}

// indexes gives the numbers that --devices names; nil is all.
func (o *engineOptions) indexes() ([]int, error) {
	if o.devices == "all" {
		return nil, nil
	}
	var indexes []int
	for _, text := range strings.Split(o.devices, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || i < 0 || slices.Contains(indexes, i) {
			return nil, wrongFlag("devices", "%q: give different numbers from 0 on, such as 0,1, or all", o.devices)
		}
		indexes = append(indexes, i)
	}
	return indexes, nil
}

// choices are what the strides of an engine's parts can be chosen by while it works.
type choices struct{ cpu, gpu flavors.Choice }

// new makes the engine. In a build without CUDA it may not return: see handOver.
func (o *engineOptions) new(ctx context.Context, a *app) (lpm.Engine, error) {
	return o.newTunable(ctx, a, nil)
}

// newTunable is new for an engine whose strides go by c; nil: they stay.
func (o *engineOptions) newTunable(ctx context.Context, a *app, c *choices) (lpm.Engine, error) {
	options, err := o.options()
	if err != nil {
		return nil, err
	}
	indexes, err := o.indexes()
	if err != nil {
		return nil, err
	}
	onGPU := options
	if c != nil {
		options.Choice, onGPU.Choice = &c.cpu, &c.gpu
	}
	base, err := o.processor(options)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", engineCPU, err)
	}
	if o.engine == engineCPU {
		return base, nil
	}
	gpu, used, err := o.openGPUs(ctx, a, onGPU, indexes)
	switch {
	case err == nil:
	case o.engine == engineCUDA:
		return nil, fmt.Errorf("engine %s: %w", engineCUDA, err)
	case errors.Is(err, errNoGPU):
		return base, nil
	default:
		a.log.Warn("no GPU is used", "err", err)
		return base, nil
	}
	failover := lpm.FailoverOptions{Crossover4: 1, Crossover6: 1, Log: a.log}
	if o.engine == engineAuto {
		if failover.Crossover4, failover.Crossover6, err = crossovers(ctx, base, gpu); err != nil {
			_ = gpu.Close()
			a.log.Warn("no GPU is used", "err", err)
			return base, nil
		}
		if failover.Crossover4 == lpm.Never && failover.Crossover6 == lpm.Never {
			_ = gpu.Close()
			a.log.Info("no GPU is used: the processor is faster here", "devices", strings.Join(used, ", "))
			return base, nil
		}
	}
	a.log.Info("batches go to GPUs", "engine", gpu.Name(), "devices", strings.Join(used, ", "),
		"ipv4_from", crossoverText(failover.Crossover4), "ipv6_from", crossoverText(failover.Crossover6))
	return lpm.NewFailover(base, gpu, failover), nil
}

// processor makes the engine on the processor, with an index of prefixes.
func (o *engineOptions) processor(options flavors.Options) (lpm.Engine, error) {
	e, err := flavors.NewCPU(options)
	if err != nil {
		return nil, err
	}
	e = index.New(e, func(prefixes int) (index.Table, error) {
		return slab.NewLocal[uint64](slab.BucketsFor[uint64](prefixes + prefixes/4))
	})
	if o.cache == 0 {
		return e, nil
	}
	// Twice the addresses, rounded up: what is crowded is slow.
	log2 := max(bits.Len(uint(2*o.cache-1)), linear.MinLog2)
	return cache.New(e, func() (cache.Table, error) { return linear.NewLocal[uint32](log2, linear.Options{}) }), nil
}

// errNoGPU is what auto has nothing to say about.
var errNoGPU = errors.New("no GPU is here")

// openGPUs makes the engine on the GPUs with the given numbers, all if nil, and names them.
func (o *engineOptions) openGPUs(ctx context.Context, a *app, options flavors.Options, indexes []int) (_ lpm.Engine, used []string, err error) {
	if cuda == nil {
		return nil, nil, handOver(ctx, a.args)
	}
	all, err := cuda.list()
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errNoGPU
	}
	if indexes == nil {
		for _, g := range all {
			indexes = append(indexes, g.Index)
		}
	}
	for _, i := range indexes {
		if i >= len(all) {
			return nil, nil, fmt.Errorf("--devices %s: there are %d GPUs, numbered from 0", o.devices, len(all))
		}
		used = append(used, fmt.Sprintf("%d (%s)", i, all[i].Name))
	}
	gpu, err := cuda.open(options, indexes)
	return gpu, used, err
}

func crossoverText(n int) string {
	if n == lpm.Never {
		return "never"
	}
	return fmt.Sprintf("%d addresses", n)
}

// crossovers measures, in tables like the Internet's but smaller, from how many addresses on a batch
// is answered sooner by GPUs. It takes less than a second.
func crossovers(ctx context.Context, base, gpu lpm.Engine) (v4, v6 int, err error) {
	var routes lpm.Routes
	for i, p := range fixtures.Generate(1, 100_000, 20_000).Prefixes() {
		routes.Add(p, lpm.Handle(i+1))
	}
	keys := &keySource{rng: rand.New(rand.NewPCG(1, 1)), routes: routes}
	const most = 1 << 18
	addrs4, addrs6 := make([]uint32, most), make([]lpm.Addr6, most)
	for i := range most {
		addrs4[i], addrs6[i] = keys.next4(), keys.next6()
	}
	var tables [2]lpm.Table
	for i, e := range []lpm.Engine{base, gpu} {
		t, err := e.Build(ctx, routes)
		if err != nil {
			return 0, 0, err
		}
		defer t.Close()
		tables[i] = t
	}
	const limit = 200 * time.Millisecond
	if v4, err = lpm.Crossover(tables[0], tables[1], addrs4, limit); err != nil {
		return 0, 0, err
	}
	v6, err = lpm.Crossover(tables[0], tables[1], addrs6, limit)
	return v4, v6, err
}

func (a *app) devicesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "devices",
		Short:   "List the GPUs that tables can be searched on",
		Example: "  ribwarp devices --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cuda == nil {
				return handOver(cmd.Context(), a.args)
			}
			all, err := cuda.list()
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return errNoGPU
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(all)
			}
			for _, g := range all {
				if _, err := fmt.Fprintf(a.stdout, "%d  %s, %d GiB, %d multiprocessors, compute capability %s\n", g.Index, g.Name, g.Memory>>30, g.Multiprocessors, g.ComputeCapability); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}
