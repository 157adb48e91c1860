package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/lpm"
)

// withGPUs is a build with CUDA on a host with n GPUs, for the time of a test. They are simulated,
// with narrow roots, which the simulator fills faster.
func withGPUs(t *testing.T, n int, faults *sim.Faults) (opened *[][]int) {
	t.Helper()
	opened = new([][]int)
	closed := 0
	before := cuda
	t.Cleanup(func() {
		cuda = before
		if closed != len(*opened) {
			t.Errorf("%d engines on GPUs opened, %d closed", len(*opened), closed)
		}
	})
	cuda = &gpuSupport{
		list: func() (all []gpuInfo, err error) {
			for i := range n {
				all = append(all, gpuInfo{Index: i, Name: "simulator", Memory: 16 << 30, Multiprocessors: 4, ComputeCapability: "9.0"})
			}
			return all, nil
		},
		open: func(o flavors.Options, indexes []int) (lpm.Engine, error) {
			o.Strides6 = []int{16, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}
			var ds []*device.Device
			for _, i := range indexes {
				d, err := device.Open(sim.New(i, faults), flavors.GPUModules()...)
				if err != nil {
					return nil, err
				}
				ds = append(ds, d)
			}
			e, err := flavors.NewGPU(o, ds...)
			*opened = append(*opened, indexes)
			return closing{e, &closed}, err
		},
		describe: func(i int) (device.Description, error) { return sim.New(i, nil).Describe(), nil },
		device: func(i int) (*device.Device, error) {
			return device.Open(sim.New(i, faults), flavors.GPUModules()...)
		},
	}
	return opened
}

// closing counts the calls of Close.
type closing struct {
	lpm.Engine
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return c.Engine.Close()
}

func TestEngineCUDALooksUpOnTheGPU(t *testing.T) {
	list := file(t, "list.txt", testList)
	opened := withGPUs(t, 3, nil)
	code, want, _ := call(t, "", "lookup", "--rib", list, "--engine", "cpu", "10.1.2.3", "2001:db8::1", "1.1.1.1")
	if code != exitOK {
		t.Fatal(want)
	}
	for devices, numbers := range map[string][]int{"0": {0}, "2,1": {2, 1}, "all": {0, 1, 2}} {
		code, got, stderr := call(t, "", "lookup", "--rib", list, "--engine", "cuda", "--devices", devices, "10.1.2.3", "2001:db8::1", "1.1.1.1")
		if code != exitOK || got != want {
			t.Errorf("exit code %d, answers %q, want %q\n%s", code, got, want, stderr)
		}
		if used := (*opened)[len(*opened)-1]; !slices.Equal(used, numbers) || !strings.Contains(stderr, fmt.Sprintf("%d (simulator)", numbers[0])) {
			t.Errorf("--devices %s opened %v, log %q", devices, used, stderr)
		}
	}
}

func TestEngineAutoMeasuresTheCrossover(t *testing.T) {
	auto := func(t *testing.T) (lpm.Engine, string) {
		t.Helper()
		var log strings.Builder
		o := engineOptions{engine: engineAuto, devices: "0", flavor: "pushed"}
		e, err := o.new(context.Background(), &app{log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e, log.String()
	}
	t.Run("never worth it", func(t *testing.T) {
		withGPUs(t, 1, nil) // a simulator is slower than the processor at any size
		if e, log := auto(t); e.Name() != "cpu" || !strings.Contains(log, "the processor is faster") {
			t.Errorf("engine %s, log %q", e.Name(), log)
		}
	})
	t.Run("worth it", func(t *testing.T) {
		withGPUs(t, 1, nil)
		cuda.open = func(o flavors.Options, _ []int) (lpm.Engine, error) {
			e, err := flavors.NewCPU(o)
			return instant{e}, err
		}
		e, log := auto(t)
		if _, ok := e.(*lpm.Failover); !ok || e.Name() != "instant" || !strings.Contains(log, "addresses") {
			t.Errorf("engine %T %s, log %q", e, e.Name(), log)
		}
	})
}

// instant is an engine that answers nothing, in no time.
type instant struct{ lpm.Engine }

func (e instant) Name() string { return "instant" }

func (e instant) Build(ctx context.Context, rs lpm.Routes) (lpm.Table, error) {
	t, err := e.Engine.Build(ctx, rs)
	return instantTable{t}, err
}

type instantTable struct{ lpm.Table }

func (instantTable) Lookup4([]lpm.Handle, []uint32) error    { return nil }
func (instantTable) Lookup6([]lpm.Handle, []lpm.Addr6) error { return nil }

func TestEngineAutoGoesOnWithoutAGPU(t *testing.T) {
	list := file(t, "list.txt", testList)
	for name, setUp := range map[string]func(t *testing.T){
		"none":   func(t *testing.T) { withGPUs(t, 0, nil) },
		"broken": func(t *testing.T) { withGPUs(t, 1, &sim.Faults{Load: func(string) int { return 218 }}) },
		"of no memory": func(t *testing.T) {
			withGPUs(t, 1, &sim.Faults{Alloc: func(int) int { return device.CodeOutOfMemory }})
		},
		"no driver": func(t *testing.T) {
			withGPUs(t, 1, nil)
			cuda.list = func() ([]gpuInfo, error) { return nil, errors.New("cuInit: no driver") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			setUp(t)
			code, out, stderr := call(t, "", "lookup", "--rib", list, "--engine", "auto", "10.1.2.3")
			if code != exitOK || !strings.Contains(out, "10.") {
				t.Errorf("auto: exit code %d, %q, %q", code, out, stderr)
			}
			if quiet := !strings.Contains(stderr, "no GPU is used"); quiet != (name == "none") {
				t.Errorf("auto says %q", stderr)
			}
			if name == "of no memory" {
				return // the batches of --engine cuda are answered by the processor
			}
			if code, _, stderr := call(t, "", "lookup", "--rib", list, "--engine", "cuda", "10.1.2.3"); code != exitFailed || !strings.Contains(stderr, "engine cuda") {
				t.Errorf("cuda: exit code %d, %q", code, stderr)
			}
		})
	}
}

func TestDevices(t *testing.T) {
	withGPUs(t, 2, nil)
	if code, out, _ := call(t, "", "devices"); code != exitOK || out != "0  simulator, 16 GiB, 4 multiprocessors, compute capability 9.0\n1  simulator, 16 GiB, 4 multiprocessors, compute capability 9.0\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	code, out, _ := call(t, "", "devices", "--json")
	var all []gpuInfo
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != exitOK || len(all) != 2 || all[1].Index != 1 {
		t.Errorf("exit code %d, %q", code, out)
	}
	if code, _, stderr := call(t, "", "lookup", "--rib", file(t, "list.txt", testList), "--engine", "cuda", "--devices", "5", "10.0.0.1"); code != exitFailed || !strings.Contains(stderr, "there are 2 GPUs") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	withGPUs(t, 0, nil)
	if code, _, stderr := call(t, "", "devices"); code != exitFailed || !strings.Contains(stderr, "no GPU") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// withGPUs sees whether the engines were closed.
func TestEnginesAreClosedWhereACommandFails(t *testing.T) {
	opened := withGPUs(t, 1, nil)
	for _, args := range []string{
		"bench --rib /nonexistent",
		"serve --rib /nonexistent --listen 127.0.0.1:0",
		"serve --listen 192.0.2.1:80",
		"serve --peer 127.0.0.1,asn=64501,import=accept,passive --asn 64500 --router-id 192.0.2.1 --listen 127.0.0.1:0 --bgp-listen 192.0.2.1:179",
	} {
		if code, _, stderr := call(t, "", append(strings.Fields(args), "--engine", "cuda")...); code == exitOK {
			t.Errorf("%s: exit code 0, %s", args, stderr)
		}
	}
	if len(*opened) != 4 {
		t.Errorf("%d engines opened", len(*opened))
	}
}

func TestBenchNamesTheEngineThatAnswered(t *testing.T) {
	withGPUs(t, 1, nil)
	gpu, err := cuda.open(flavors.Options{}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	base, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := lpm.NewFailover(base, gpu, lpm.FailoverOptions{Crossover4: 100, Crossover6: 100})
	defer e.Close()
	for batch, want := range map[int]string{99: "cpu", 100: "cuda"} {
		var out strings.Builder
		f := benchFamily[uint32]{name: "ipv4", routes: lpm.Routes{V4: []lpm.Route4{{Addr: 10 << 24, Bits: 8, Handle: 1}}},
			addrs: make([]uint32, 1010), netip: lpm.Netip4, lookup: lpm.Table.Lookup4}
		if err := f.run(context.Background(), &app{stdout: &out}, &benchOptions{threads: 1, batch: batch, rounds: 1, asJSON: true}, e); err != nil {
			t.Fatal(err)
		}
		var r benchResult
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil || r.Engine != want || len(r.Strides) == 0 {
			t.Errorf("batches of %d: error %v, %s", batch, err, out.String())
		}
	}
}

func TestEngineMetrics(t *testing.T) {
	withGPUs(t, 1, nil)
	e, err := (&engineOptions{engine: engineCUDA, devices: "0", flavor: "pushed"}).new(context.Background(), &app{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tab, err := e.Build(context.Background(), lpm.Routes{})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if err := tab.Lookup4(make([]lpm.Handle, 5), make([]uint32, 5)); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(engineMetrics{e.(*lpm.Failover)})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"ribwarp_engine_degraded": 0, "ribwarp_engine_failed_batches_total": 0, "ribwarp_engine_failed_builds_total": 0,
		"ribwarp_engine_batches_total cpu": 0, "ribwarp_engine_batches_total cuda": 1, "ribwarp_engine_addresses_total cpu": 0, "ribwarp_engine_addresses_total cuda": 5,
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

// handing is a host with a GPU and a ribwarp-cuda that is the given shell script, for the time of a
// test. exec is noted, and fails.
func handing(t *testing.T, script string) (executed *[]string) {
	t.Helper()
	if cuda != nil {
		t.Skip("a build with CUDA does not hand over")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "ribwarp-cuda"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := thisHost
	t.Cleanup(func() { thisHost = before })
	executed = new([]string)
	thisHost = host{
		hints: []string{filepath.Join(dir, "dxg"), filepath.Join(dir, "nvidia[0-9]*")},
		self:  func() (string, error) { return filepath.Join(dir, "ribwarp"), nil },
		exec: func(path string, args, env []string) error {
			if !slices.Contains(env, handedOver) {
				t.Error("the environment does not say that it was handed over")
			}
			*executed = append([]string{path}, args...)
			return errors.New("exec in a test")
		},
	}
	return executed
}

const twoGPUs = `[ "$1 $2" = "devices --json" ] && [ -n "$RIBWARP_HANDED_OVER" ] && echo '[{"index":0},{"index":1}]'` + "\n"

func TestHandOver(t *testing.T) {
	list := file(t, "list.txt", testList)
	t.Run("works", func(t *testing.T) {
		executed := handing(t, twoGPUs)
		args := []string{"lookup", "--rib", list, "--engine", "auto", "10.1.2.3"}
		_, _, stderr := call(t, "", args...)
		if len(*executed) == 0 || !strings.HasSuffix((*executed)[0], "/ribwarp-cuda") || !slices.Equal((*executed)[2:], args) {
			t.Errorf("executed %q; %s", *executed, stderr)
		}
	})
	t.Run("takes the process over", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("processes are taken over on Linux")
		}
		dir := t.TempDir()
		script := "#!/bin/sh\n" + `[ $# = 2 ] && { echo '[{"index":0}]'; exit; }` + "\necho \"$$ $RIBWARP_HANDED_OVER $*\"; exit 7\n"
		for name, text := range map[string]string{"ribwarp-cuda": script, "nvidia0": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestHandOverInAProcess$")
		cmd.Env = append(os.Environ(), "TEST_HAND_OVER="+dir)
		out, err := cmd.Output()
		want := fmt.Sprintf("%d 1 devices --json -x\n", cmd.Process.Pid)
		if code := cmd.ProcessState.ExitCode(); code != 7 || string(out) != want {
			t.Errorf("exit code %d (%v), output %q, want 7 and %q", code, err, out, want)
		}
	})
	t.Run("not for the processor", func(t *testing.T) {
		executed := handing(t, twoGPUs)
		for _, args := range [][]string{{"lookup", "--rib", list, "10.1.2.3"}, {"batch", "--engine", "cpu", "--rib", list, "--in", list}, {"version"}} {
			if _, _, stderr := call(t, "", args...); len(*executed) > 0 {
				t.Errorf("%v: executed %q; %s", args, *executed, stderr)
			}
		}
	})
	for _, x := range []struct{ name, script, want string }{
		{"no ribwarp-cuda", "", "make cuda"},
		{"driver does not work", "echo 'ribwarp-cuda: no CUDA device: driver too old' >&2; echo more >&2; exit 1\n", "driver too old"},
		{"names none", "echo '[]'\n", "names none"},
		{"is something else", "echo hello\n", "names none"},
		{"exec fails", twoGPUs, "exec in a test"},
	} {
		t.Run(x.name, func(t *testing.T) {
			handing(t, x.script)
			code, out, stderr := call(t, "", "lookup", "--rib", list, "--engine", "auto", "10.1.2.3")
			if code != exitOK || !strings.Contains(out, "10.") || !strings.Contains(stderr, "no GPU is used") || !strings.Contains(stderr, x.want) {
				t.Errorf("auto: exit code %d, %q, %q", code, out, stderr)
			}
			code, _, stderr = call(t, "", "lookup", "--rib", list, "--engine", "cuda", "10.1.2.3")
			if code != exitFailed || !strings.Contains(stderr, x.want) {
				t.Errorf("cuda: exit code %d, %q", code, stderr)
			}
			if code, _, stderr = call(t, "", "devices"); code != exitFailed || !strings.Contains(stderr, x.want) {
				t.Errorf("devices: exit code %d, %q", code, stderr)
			}
		})
	}
	t.Run("no GPU", func(t *testing.T) {
		handing(t, twoGPUs)
		thisHost.hints = []string{"/nonexistent"}
		if code, _, stderr := call(t, "", "lookup", "--rib", list, "--engine", "auto", "10.1.2.3"); code != exitOK || strings.Contains(stderr, "GPU") {
			t.Errorf("auto: exit code %d, %q", code, stderr)
		}
		if code, _, stderr := call(t, "", "lookup", "--rib", list, "--engine", "cuda", "10.1.2.3"); code != exitFailed || !strings.Contains(stderr, "no GPU is here") {
			t.Errorf("cuda: exit code %d, %q", code, stderr)
		}
	})
	t.Run("cannot be started", func(t *testing.T) {
		handing(t, "exit 0\n")
		self, _ := thisHost.self()
		if err := os.Chmod(self+"-cuda", 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := call(t, "", "devices"); code != exitFailed || !strings.Contains(stderr, "permission denied\n") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		started := filepath.Join(t.TempDir(), "started")
		executed := handing(t, ": >"+started+"\n"+twoGPUs)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := handOver(ctx, nil); !errors.Is(err, context.Canceled) || len(*executed) > 0 {
			t.Errorf("error %v, executed %q", err, *executed)
		}
		if _, err := os.Stat(started); err == nil {
			t.Error("ribwarp-cuda was asked")
		}
	})
	t.Run("to itself", func(t *testing.T) {
		handing(t, twoGPUs)
		t.Setenv("RIBWARP_HANDED_OVER", "1")
		if code, _, stderr := call(t, "", "devices"); code != exitFailed || !strings.Contains(stderr, "without CUDA too") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
}

// TestHandOverInAProcess is the process that TestHandOver has taken over.
func TestHandOverInAProcess(t *testing.T) {
	dir := os.Getenv("TEST_HAND_OVER")
	if dir == "" {
		return // not that process
	}
	thisHost.hints = []string{filepath.Join(dir, "nvidia[0-9]*")}
	thisHost.self = func() (string, error) { return filepath.Join(dir, "ribwarp"), nil }
	t.Fatal(handOver(context.Background(), []string{"devices", "--json", "-x"}))
}
