package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/cmd/ribwarp/internal/paths"
	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// gpuKinds are the kinds of GPU for shortest paths: simulated ones, and with the tag cuda those of the host.
func gpuKinds() (names []string) {
	names = []string{"sim"}
	if openPathDevice != nil {
		names = append(names, "cuda")
	}
	return names
}

// pathGPU has the program use such GPUs for the time of a test, and counts how often one is started for shortest
// paths.
func pathGPU(t *testing.T, kind string) (starts *atomic.Int64) {
	t.Helper()
	starts = new(atomic.Int64)
	before := openPathDevice
	t.Cleanup(func() { openPathDevice = before })
	open := before
	if kind == "sim" {
		withGPUs(t, 1, nil)
		open = func(i int) (*device.Device, error) { return device.Open(sim.New(i, nil), paths.Modules()...) }
	}
	openPathDevice = func(i int) (*device.Device, error) {
		starts.Add(1)
		return open(i)
	}
	return starts
}

// atOnce has auto take the start of a GPU for nothing, so that it asks one whatever the work is.
func atOnce(t *testing.T) {
	t.Helper()
	before := gpuStart
	t.Cleanup(func() { gpuStart = before })
	gpuStart = 0
}

// topologyFile writes a topology.
func topologyFile(t *testing.T, top *igp.Topology) string {
	t.Helper()
	var text bytes.Buffer
	if err := igp.Write(&text, top); err != nil {
		t.Fatal(err)
	}
	return file(t, "topology.json", text.String())
}

// exitsService is a service of two route files with the same prefixes and next hops at routers of a topology,
// and a question about the exits of all of them.
type exitsService struct {
	args     []string
	question string // of all routers
	one      string // of one
	routers  int
}

func newExitsService(t *testing.T, rng *rand.Rand, routers, prefixes int) *exitsService {
	t.Helper()
	top := fixtures.Topology(rng.Uint64(), routers, 4*routers)
	config := file(t, "ribwarp.toml", fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\n[serve.igp]\nfile = %q\nroot = %q\n", topologyFile(t, top), top.Nodes[0].Name))
	s := &exitsService{args: []string{"--config", config}, routers: routers}
	var from, ips []string
	for i := range top.Nodes {
		from = append(from, top.Nodes[i].Name)
	}
	all := fixtures.Generate(rng.Uint64(), prefixes, prefixes/4).Prefixes()
	for i := range 2 {
		var list strings.Builder
		for _, p := range all {
			hop, hop6 := fixtures.RouterAddrs(rng.IntN(routers))
			if p.Addr().Is6() {
				hop = hop6
			}
			fmt.Fprintf(&list, "%s 64500 %s\n", p, hop)
		}
		s.args = append(s.args, "--rib", file(t, fmt.Sprintf("exit%d.txt", i), list.String()))
	}
	for range 200 {
		ips = append(ips, all[rng.IntN(len(all))].Addr().String())
	}
	ask := func(from []string) string {
		text, err := json.Marshal(map[string]any{"from": from, "ips": ips})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	s.question, s.one = ask(from), ask(from[:1])
	return s
}

// post asks a service and gives the answer's results, without its generations.
func (s *exitsService) post(t *testing.T, url, question string) string {
	t.Helper()
	resp, err := http.Post(url+"/api/v1/exits", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Results json.RawMessage }
	if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != http.StatusOK || len(answer.Results) < 1000 {
		t.Fatalf("%d %.1000s, error %v", resp.StatusCode, body, err)
	}
	return string(answer.Results)
}

// processor gives what a service on the processor answers to the question, and to one about paths.
func (s *exitsService) processor(t *testing.T) (exits, way string) {
	t.Helper()
	url, stop := serve(t, append(s.args, "--engine", "cpu")...)
	defer stop()
	await(t, url+"/readyz")
	exits = s.post(t, url, s.question)
	if !strings.Contains(exits, "exit0.txt") || !strings.Contains(exits, "exit1.txt") {
		t.Fatalf("not both exits are taken: %.2000s", exits)
	}
	return exits, s.way(t, url)
}

func (s *exitsService) way(t *testing.T, url string) string {
	t.Helper()
	return await(t, fmt.Sprintf("%s/api/v1/igp/paths?from=r00000&to=r%05d", url, s.routers-1))
}

// sameText compares long texts.
func sameText(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	from := max(0, i-200)
	t.Errorf("%s: %d bytes, want %d; at byte %d\n%.400s\nwant\n%.400s", what, len(got), len(want), i, got[from:], want[from:])
}

// The exits of hundreds of routers are computed by a GPU that is started for the first such question, and are the
// processor's.
func TestPathGPUExits(t *testing.T) {
	for _, kind := range gpuKinds() {
		t.Run(kind, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s := newExitsService(t, rand.New(rand.NewPCG(seed, 0)), 16*max(16, runtime.GOMAXPROCS(0)), 4000)
			exits, way := s.processor(t)
			starts := pathGPU(t, kind)
			for _, engine := range []string{engineCUDA, engineAuto} {
				starts.Store(0)
				begun := time.Now()
				url, log, stop := serveLogged(t, append(s.args, "--engine", engine)...)
				await(t, url+"/readyz")
				s.post(t, url, s.one)
				if n := starts.Load(); n != 0 {
					t.Errorf("%s: a GPU was started %d times for one router", engine, n)
				}
				sameText(t, engine+": exits", s.post(t, url, s.question), exits)
				sameText(t, engine+": exits once more", s.post(t, url, s.question), exits)
				sameText(t, engine+": paths", s.way(t, url), way)
				want := int64(0)
				if strings.Contains(log.String(), "batches go to GPUs") { // auto may find that they are slower
					want = 1
				}
				if n := starts.Load(); n != want || engine == engineCUDA && n != 1 {
					t.Errorf("%s: a GPU was started %d times for the paths: %s", engine, n, log)
				}
				if code := stop(); code != exitOK || strings.Contains(log.String(), "GPU has failed") {
					t.Errorf("%s: exit code %d: %s", engine, code, log)
				}
				t.Logf("%s: %d routers, started %d times, %.2f s in all", engine, s.routers, starts.Load(), time.Since(begun).Seconds())
			}
		})
	}
}

// A GPU that does not start, or fails, is told of once, and the processor answers.
func TestPathGPUFailsInAService(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := newExitsService(t, rand.New(rand.NewPCG(seed, 0)), 16*max(16, runtime.GOMAXPROCS(0)), 400)
	exits, _ := s.processor(t)
	for name, open := range map[string]func(int) (*device.Device, error){
		"GPU 0: no room": func(int) (*device.Device, error) { return nil, errors.New("no room") },
		"719": func(i int) (*device.Device, error) { // a launch failure, which poisons a context
			return device.Open(sim.New(i, &sim.Faults{Launch: func(string) int { return 719 }}), paths.Modules()...)
		},
	} {
		pathGPU(t, "sim")
		openPathDevice = open
		url, log, stop := serveLogged(t, append(s.args, "--engine", "cuda")...)
		await(t, url+"/readyz")
		for range 3 {
			sameText(t, name, s.post(t, url, s.question), exits)
		}
		if code := stop(); code != exitOK || strings.Count(log.String(), "the GPU has failed") != 1 || !strings.Contains(log.String(), name) {
			t.Errorf("%s: exit code %d: %s", name, code, log)
		}
	}
}

// The commands print the same, whatever computes.
func TestPathGPUCommands(t *testing.T) {
	for _, kind := range gpuKinds() {
		t.Run(kind, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			nodes, arcs := 60, 200 // the simulator takes its time
			if kind == "cuda" && !testing.Short() {
				nodes, arcs = 315, 1944
			}
			top := fixtures.Topology(seed, nodes, arcs)
			path := topologyFile(t, top)
			link := func(i int) string { return top.Links[i].Name }
			starts := pathGPU(t, kind)
			for _, args := range [][]string{
				{"matrix", "--json"},
				{"matrix", "--to", "r00003", "--to", "r00021"},
				{"matrix", "--from", "r00005", "--fail", link(0), "--json"},
				{"whatif", "--top", "0", "--exit", "r00003", "--exit", "r00021"},
				{"whatif", "--json", "--fail", link(2), "--exit", "r00003", "--exit", "r00021"},
				{"whatif", "--json", "--fail", link(1), "--fail", link(3), "--from", "r00001"},
			} {
				args = append([]string{"igp"}, append(args, "--topology", path)...)
				starts.Store(0)
				want, _ := mustCall(t, "", append(args, "--engine", engineCPU)...)
				if n := starts.Load(); n != 0 {
					t.Errorf("%v: the processor started %d GPUs", args, n)
				}
				got, _ := mustCall(t, "", append(args, "--engine", engineCUDA)...)
				sameText(t, strings.Join(args, " "), got, want)
				if n := starts.Load(); n != 1 {
					t.Errorf("%v: %d GPUs were started", args, n)
				}
				got, _ = mustCall(t, "", append(args, "--engine", engineAuto)...)
				sameText(t, "auto: "+strings.Join(args, " "), got, want)
				if n := starts.Load(); n != 1 {
					t.Errorf("%v: auto has started a GPU for next to nothing", args)
				}
			}
			t.Run("auto", func(t *testing.T) {
				atOnce(t)
				args := []string{"igp", "matrix", "--json", "--topology", path}
				want, _ := mustCall(t, "", append(args, "--engine", engineCPU)...)
				starts.Store(0)
				got, stderr := mustCall(t, "", append(args, "--engine", engineAuto)...)
				sameText(t, "auto", got, want)
				if n := starts.Load(); n != 1 || stderr != "" {
					t.Errorf("auto started %d GPUs: %s", n, stderr)
				}
			})
		})
	}
}

// Where no GPU can be started, auto says so and goes on, and cuda is an error.
func TestPathGPUFailsInACommand(t *testing.T) {
	path := topologyFile(t, fixtures.Topology(1, 60, 200))
	args := []string{"igp", "matrix", "--topology", path}
	want, _ := mustCall(t, "", append(args, "--engine", engineCPU)...)
	for _, c := range []struct {
		name  string
		setUp func()
		says  string
		quiet bool
	}{
		{"no room", func() { openPathDevice = func(int) (*device.Device, error) { return nil, errors.New("no room") } }, "no room", false},
		{"no driver", func() { cuda.list = func() ([]gpuInfo, error) { return nil, errors.New("cuInit: no driver") } }, "no driver", false},
		{"none", func() { cuda.list = func() ([]gpuInfo, error) { return nil, nil } }, "no GPU is here", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			atOnce(t)
			pathGPU(t, "sim")
			c.setUp()
			stdout, stderr := mustCall(t, "", append(args, "--engine", engineAuto)...)
			sameText(t, "auto", stdout, want)
			if quiet := !strings.Contains(stderr, "no GPU is used"); quiet != c.quiet || !quiet && !strings.Contains(stderr, c.says) {
				t.Errorf("auto says %q", stderr)
			}
			code, stdout, stderr := call(t, "", append(args, "--engine", engineCUDA)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, "engine cuda: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("cuda: exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
	pathGPU(t, "sim")
	if code, _, stderr := call(t, "", slices.Concat(args, []string{"--engine", "cuda", "--device", "1"})...); code != exitFailed || !strings.Contains(stderr, "there are 1 GPUs") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
