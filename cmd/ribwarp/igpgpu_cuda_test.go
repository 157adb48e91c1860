//go:build cuda && linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
)

// program gives ribwarp as make builds it, with ribwarp-cuda beside it: two folders up here, and in gpu-tests.
func program(t *testing.T) string {
	t.Helper()
	const path = "../../ribwarp"
	for _, p := range []string{path, path + "-cuda"} {
		if _, err := os.Stat(p); err != nil {
			if os.Getenv("REQUIRE_GPU") == "1" {
				t.Fatal(err)
			}
			t.Skipf("%v: make build cuda", err)
		}
	}
	return path
}

// noDevice is the environment of a host whose driver has no GPU.
func noDevice() []string { return append(os.Environ(), "CUDA_VISIBLE_DEVICES=-1") }

// The programs as they are installed: ribwarp hands over to ribwarp-cuda where there is a GPU, and where the driver has
// none it says so and the processor answers.
func TestPathGPUInAProcess(t *testing.T) {
	path := program(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	t.Run("service", func(t *testing.T) {
		s := newExitsService(t, rand.New(rand.NewPCG(seed, 0)), 16*max(16, runtime.GOMAXPROCS(0)), 4000)
		exits, way := s.processor(t)
		for _, c := range []struct {
			name, engine, logs string
			env                []string
		}{
			{"handed over", engineCUDA, "batches go to GPUs", os.Environ()},
			{"no device", engineAuto, "no CUDA device", noDevice()},
		} {
			t.Run(c.name, func(t *testing.T) {
				cmd := exec.Command(path, slices.Concat([]string{"serve", "--drain-delay=0", "--engine", c.engine}, s.args)...)
				var log logBuffer
				cmd.Env, cmd.Stderr = c.env, &log
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				line, err := bufio.NewReader(out).ReadString('\n')
				url, ok := strings.CutPrefix(strings.TrimSpace(line), "ribwarp serves ")
				if err != nil || !ok {
					_ = cmd.Process.Kill()
					t.Fatalf("first line %q, %v, %v: %s", line, err, cmd.Wait(), log.String())
				}
				func() {
					defer func() { _ = cmd.Process.Signal(syscall.SIGTERM) }()
					await(t, url+"/readyz")
					sameText(t, "exits", s.post(t, url, s.question), exits)
					sameText(t, "paths", s.way(t, url), way)
				}()
				if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), c.logs) || strings.Contains(log.String(), "GPU has failed") {
					t.Errorf("%v: %s", err, log.String())
				}
				t.Log(log.String())
			})
		}
	})
	t.Run("command", func(t *testing.T) {
		// On one core that is 2.2 s as auto reckons.
		args := []string{"igp", "matrix", "--topology", topologyFile(t, fixtures.Topology(seed, 5_000, 50_000)), "--to", "r00000", "--to", "r00007"}
		run := func(engine string, env []string) (stdout, stderr string, code int) {
			t.Helper()
			cmd := exec.Command(path, append(args, "--engine", engine)...)
			var out, errs bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = append(env, "GOMAXPROCS=1"), &out, &errs
			if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			return out.String(), errs.String(), cmd.ProcessState.ExitCode()
		}
		want, _, code := run(engineCPU, os.Environ())
		if code != exitOK || strings.Count(want, "\n") != 5_001 {
			t.Fatalf("exit code %d: %.1000s", code, want)
		}
		for _, engine := range []string{engineCUDA, engineAuto} {
			got, stderr, code := run(engine, os.Environ())
			if sameText(t, engine, got, want); code != exitOK || stderr != "" {
				t.Errorf("%s: exit code %d: %s", engine, code, stderr)
			}
		}
		got, stderr, code := run(engineAuto, noDevice())
		if sameText(t, "auto without a device", got, want); code != exitOK || !strings.Contains(stderr, "no GPU is used") || !strings.Contains(stderr, "no CUDA device") {
			t.Errorf("auto without a device: exit code %d: %s", code, stderr)
		}
		t.Logf("auto without a device: %s", stderr)
		if got, stderr, code = run(engineCUDA, noDevice()); code != exitFailed || got != "" || !strings.Contains(stderr, "engine cuda: ") || !strings.Contains(stderr, "no CUDA device") {
			t.Errorf("cuda without a device: exit code %d: %.1000s%s", code, got, stderr)
		}
		t.Logf("cuda without a device: %s", stderr)
	})
}
