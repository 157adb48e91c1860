package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
)

// withGPUs is a build with CUDA on a host with n GPUs, for the time of a test. They are simulated,
// with narrow roots, which the simulator fills faster.
func withGPUs(t *testing.T, n int, faults *sim.Faults) (opened *[][]int) {
	t.Helper()
	opened = new([][]int)
	before := cuda
	t.Cleanup(func() { cuda = before })
	cuda = &gpuSupport{
		list: func() (all []gpuInfo, err error) {
			for i := range n {
				all = append(all, gpuInfo{Index: i, Name: "simulator", Memory: 16 << 30, Multiprocessors: 4, ComputeCapability: "9.0"})
			}
			return all, nil
		},
		open: func(o flavors.Options, indexes []int) (lpm.Engine, error) {
			*opened = append(*opened, indexes)
			o.Strides6 = []int{16, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}
			var ds []*device.Device
			for _, i := range indexes {
				d, err := device.Open(sim.New(i, faults), tree.Modules()...)
				if err != nil {
					return nil, err
				}
				ds = append(ds, d)
			}
			return flavors.NewGPU(o, ds...)
		},
	}
	return opened
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
	withGPUs(t, 1, nil)
	a := &app{log: slog.New(slog.DiscardHandler)}
	o := engineOptions{engine: engineAuto, devices: "0", flavor: "pushed"}
	e, err := o.new(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f, ok := e.(*lpm.Failover)
	if !ok || e.Name() != "cuda" {
		t.Fatalf("engine %T, name %s", e, e.Name())
	}
	// A simulator is slower than the processor at any size: it is never worth it.
	tab, err := e.Build(context.Background(), lpm.Routes{V4: []lpm.Route4{{Addr: 10 << 24, Bits: 8, Handle: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	dst := make([]lpm.Handle, 100_000)
	addrs := make([]uint32, len(dst))
	for i := range addrs {
		addrs[i] = 10 << 24
	}
	if err := tab.Lookup4(dst, addrs); err != nil || dst[99_999] != 7 {
		t.Fatalf("route %d, error %v", dst[99_999], err)
	}
	if s := f.Status(); s.BaseBatches != 1 || s.AcceleratedBatches != 0 {
		t.Errorf("status %+v", s)
	}
}

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
	t.Run("to itself", func(t *testing.T) {
		handing(t, twoGPUs)
		t.Setenv("RIBWARP_HANDED_OVER", "1")
		if code, _, stderr := call(t, "", "devices"); code != exitFailed || !strings.Contains(stderr, "without CUDA too") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	})
}
