package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// binaryDir is where the program is built.
var binaryDir string

// program builds the program once.
var program = sync.OnceValues(func() (path string, err error) {
	if binaryDir, err = os.MkdirTemp("", "ribwarp"); err != nil {
		return "", err
	}
	path = filepath.Join(binaryDir, "ribwarp")
	return path, build("-o", path)
})

// build is go build of the program.
func build(flags ...string) error {
	args := append(append([]string{"build"}, flags...), "github.com/ribwarp/ribwarp/cmd/ribwarp")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func removeBinary() {
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
}

// A process is `ribwarp serve`, as an operator has it.
type process struct {
	cmd    *exec.Cmd
	log    *ribtest.Log
	said   chan string // its first line
	url    string      // of its API
	client *http.Client
	ended  chan struct{}
}

// bgpPort is where processes listen, at an address of each test's own.
const bgpPort = 1790

// configuration writes a configuration file: peers as --peer takes them, without what all have.
func configuration(t *testing.T, n network, more string, peers ...string) (path string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "[serve]\nlisten = \"127.0.0.1:0\"\nbgp-listen = [\"%s:%d\"]\nasn = %d\nrouter-id = \"192.0.2.99\"\nengine = \"cpu\"\npeer = [\n", n.own(), bgpPort, ownAS)
	for _, p := range peers {
		fmt.Fprintf(&b, "  \"%s,asn=%d,import=accept,passive\",\n", p, peerAS)
	}
	fmt.Fprintf(&b, "]\n%s", more)
	path = filepath.Join(t.TempDir(), "ribwarp.toml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// starter is the thread that starts programs: Pdeathsig is about that thread, which must not end
// before they do.
var starter = sync.OnceValue(newThread)

// launch starts the program, which runs until the end of the test at the latest.
func launch(t *testing.T, config string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return launchProgram(t, exec.Command(path, "serve", "--config", config))
}

// launchProgram is launch of what a command says.
func launchProgram(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, log: new(ribtest.Log), said: make(chan string, 1), ended: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if starter().run(func() { err = p.cmd.Start() }); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		said := bufio.NewReader(out)
		line, _ := said.ReadString('\n') // there is none where it is killed before
		p.said <- line
		_, _ = io.Copy(io.Discard, said)
		_ = p.cmd.Wait() // the ProcessState says it
	}()
	t.Cleanup(func() {
		p.signal(t, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of a process:\n%s", p.log)
		}
	})
	return p
}

// serve is launch, and waits until it serves.
func serve(t *testing.T, config string) *process {
	t.Helper()
	return launch(t, config).serving(t)
}

// serving waits until a process serves.
func (p *process) serving(t *testing.T) *process {
	t.Helper()
	line := <-p.said
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ribwarp serves ")
	if !ok {
		t.Fatalf("the first line is %q", line)
	}
	p.url = url
	return p
}

// signal sends a signal, and waits for the end where that is what it is for.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("%v: %v", s, err)
	}
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		<-p.ended
		p.client.CloseIdleConnections()
	}
}

// get asks the API. It reports false where nothing is published yet.
func (p *process) get(t *testing.T, path string, answer any) bool {
	t.Helper()
	r, err := p.client.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", path, r.Status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		t.Fatalf("%s: %s: %v", path, body, err)
	}
	return true
}

// An answer is one of the lookup.
type answer struct {
	Prefix *netip.Prefix `json:"prefix"`
	Stale  bool          `json:"stale"`
}

// has tells whether lookups of a process find a prefix.
func (p *process) has(t *testing.T, prefix netip.Prefix) bool {
	t.Helper()
	var a answer
	return p.get(t, "/api/v1/lookup/"+prefix.Addr().String(), &a) && a.Prefix != nil && *a.Prefix == prefix
}

// A count is how many routes there are, and of them how many paths are stale.
type count struct{ routes, stale int }

func (p *process) count(t *testing.T) count {
	t.Helper()
	type families struct {
		IPv4 int `json:"ipv4"`
	}
	var status struct {
		Routes families `json:"routes"`
		Stale  families `json:"stale"`
	}
	p.get(t, "/api/v1/status", &status)
	return count{status.Routes.IPv4, status.Stale.IPv4}
}
