package snapshot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// The tests below run this program again as a child that does something to a file. What it does
// and where are in the environment.
const (
	childDoes = "RIBWARP_TEST_CHILD"
	childPath = "RIBWARP_TEST_PATH"
)

// routesOfChild is how many routes the child's generation has: so many that most of the time goes
// into writing them.
const routesOfChild = 20_000

func TestMain(m *testing.M) {
	if does := os.Getenv(childDoes); does != "" {
		os.Exit(child(does, os.Getenv(childPath)))
	}
	os.Exit(m.Run())
}

func child(does, path string) int {
	if does == "restart" {
		return restart(path)
	}
	s := newService(childTB{}, []string{"default"}, somePeers[0])
	p := s.tables["default"].peers["a"]
	for i := range routesOfChild {
		p.Apply(rib.Update{
			Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i)}), 24)}},
			Attrs: rib.Attrs{MED: uint32(i / 2), HasMED: true},
		})
	}
	s.publish(childTB{})
	saver, _ := s.restored(childTB{}, path)
	switch does {
	case "save for ever":
		for fmt.Println("saving"); saver.SaveNow() == nil; {
			fmt.Println("saved")
		}
	case "save on a full disk":
		// The limit of a process's files stands for a full disk: it needs no file system of its own.
		limit := syscall.Rlimit{Cur: 100_000, Max: 100_000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			return 2
		}
		fmt.Println(saver.SaveNow())
		return 0
	case "save as nobody":
		if os.Geteuid() == 0 { // who may write everywhere
			if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
				fmt.Println(err)
				return 2
			}
		}
		if err := Check(path); !errors.Is(err, syscall.EACCES) {
			fmt.Println("Check:", err)
			return 1
		}
		fmt.Println(saver.SaveNow())
		return 0
	}
	return 1
}

// childTB is what helpers use of a testing.TB, outside of a test.
type childTB struct{ testing.TB }

func (childTB) Helper()           {}
func (childTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// started starts a child.
func started(t testing.TB, does, path string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(must[string](t)(os.Executable()), "-test.run=^$")
	cmd.Env = append(os.Environ(), childDoes+"="+does, childPath+"="+path)
	cmd.Stderr = os.Stderr
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// said gives what a child that ends by itself prints.
func said(t testing.TB, does, path string) string {
	t.Helper()
	cmd, out := started(t, does, path)
	all := must[[]byte](t)(io.ReadAll(out))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, all)
	}
	return string(all)
}

func temporaries(t *testing.T, path string) []string {
	t.Helper()
	return must[[]string](t)(filepath.Glob(path + ".*" + temporary))
}

// At whatever moment a service is killed, the file is a whole one.
func TestKilledWhileSaving(t *testing.T) {
	r := seeded(t)
	path := filepath.Join(t.TempDir(), "saved")
	interrupted := 0
	took := 50 * time.Millisecond // a save, and what is behind the last one
	saved := false
	for kill := range 50 {
		cmd, out := started(t, "save for ever", path)
		line := func(want string) {
			if got, err := out.ReadString('\n'); got != want+"\n" {
				t.Fatalf("kill %d: %q, %v, want %q", kill, got, err, want)
			}
		}
		line("saving")
		if left := temporaries(t, path); len(left) > 1 { // the start has removed those of before
			t.Fatalf("kill %d: the next start has left %q", kill, left)
		}
		for range r.IntN(3) {
			start := time.Now()
			line("saved")
			took = time.Since(start)
			saved = true
		}
		time.Sleep(time.Duration(r.Int64N(int64(took) + 1)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		interrupted += len(temporaries(t, path))
		s, err := Load(path)
		if errors.Is(err, os.ErrNotExist) && !saved {
			continue // killed in the first save of all
		}
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if n := s.Tables[0].V4; n != routesOfChild {
			t.Fatalf("kill %d: %d routes", kill, n)
		}
	}
	t.Logf("%d of 50 were interrupted in a save", interrupted)
	if !saved || interrupted == 0 {
		t.Errorf("%d of 50 were interrupted in a save, one was complete: %v: this tests too little", interrupted, saved)
	}
}

// Where the disk is full the file of before stays, and nothing is left beside it.
func TestFullDisk(t *testing.T) {
	cannotSave(t, "save on a full disk", func(string) {}, syscall.EFBIG)
}

func TestReadOnlyFolder(t *testing.T) {
	cannotSave(t, "save as nobody", func(path string) {
		// Others may come here and look.
		for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}, syscall.EACCES)
}

func cannotSave(t *testing.T, does string, prepare func(path string), want error) {
	path := filepath.Join(t.TempDir(), "saved")
	before := smallFile(t)
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	prepare(path)
	if got := said(t, does, path); !strings.Contains(got, want.Error()) || !strings.Contains(got, path) {
		t.Errorf("SaveNow: %q, want %v", got, want)
	}
	if string(must[[]byte](t)(os.ReadFile(path))) != string(before) {
		t.Error("the file of before is gone")
	}
	if left := temporaries(t, path); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
