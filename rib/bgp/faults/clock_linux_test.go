package faults

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// TestDeadlinesAreMonotonic: every deadline of a connection is a time with a monotonic reading, so
// the clock on the wall may jump by years. That it does is the long variant's, TestClockJumps.
func TestDeadlinesAreMonotonic(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	c := &watched{Conn: near}
	ended := make(chan fsm.End)
	l := fsm.Local{AS: ownAS, RouterID: netip.MustParseAddr("192.0.2.99"), PeerAS: peerAS, IPv4: true, HoldTime: minimalHold * time.Second}
	go func() { ended <- fsm.Run(t.Context(), c, l, ignoring{}) }()
	p := speak(t, far)
	p.establish(t, minimalHold)
	p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
	p.silence()
	end := <-ended
	if end.Notification == nil || end.Notification.Code != 4 {
		t.Errorf("the end: %+v", end)
	}
	if len(c.deadlines) < 5 {
		t.Errorf("%d deadlines: this tests too little", len(c.deadlines))
	}
	for _, d := range c.deadlines {
		// Only times with a monotonic reading differ from what is left without it.
		if d == d.Round(0) {
			t.Errorf("the deadline %v is one of the clock on the wall", d)
		}
	}
}

// A watched connection notes its deadlines.
type watched struct {
	net.Conn
	mu        sync.Mutex
	deadlines []time.Time
}

func (c *watched) note(d time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadlines = append(c.deadlines, d)
}

func (c *watched) SetReadDeadline(d time.Time) error {
	c.note(d)
	return c.Conn.SetReadDeadline(d)
}

func (c *watched) SetWriteDeadline(d time.Time) error {
	c.note(d)
	return c.Conn.SetWriteDeadline(d)
}

// pair is a TCP connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(newNetwork().own(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far = connect(t, newNetwork().own(), l.Addr().(*net.TCPAddr).AddrPort())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), far
}

// ignoring is a handler to which nothing matters.
type ignoring struct{}

func (ignoring) Opened(*fsm.Open) *fsm.Notification { return nil }
func (ignoring) Established(*fsm.Session)           {}
func (ignoring) Update([]byte) *fsm.Notification    { return nil }
func (ignoring) Refresh(bool, bool)                 {}

// TestClockJumps has the clock on the wall jump to and fro while the service runs. It is the whole
// machine's, so the service is built with a package time whose Now looks into a file for how far it
// has jumped, which takes minutes. Sessions, KEEPALIVEs and stale times do not notice, and saving goes
// on. A start goes by the clock: what was saved in the future is served, what is too old is not.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	if !long {
		t.Skipf("to build the standard library with a clock that jumps takes minutes: %s=long does that", longVariable)
	}
	c := newWallClock(t)
	n := newNetwork()
	saved := filepath.Join(t.TempDir(), "saved")
	config := configuration(t, n, fmt.Sprintf("[serve.snapshot]\nfile = %q\ninterval = \"100ms\"\nmax-age = \"24h\"\n", saved),
		n.host(0, 2).String(), n.host(0, 3).String()+",name=lost,stale-time=1h")
	at := netip.AddrPortFrom(n.own(), bgpPort)
	session := func(d byte, capabilities ...[]byte) *speaker {
		s := speak(t, connect(t, n.host(0, d), at))
		s.establish(t, minimalHold, capabilities...)
		s.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, int(d))))
		s.mustUpdate(t, endOfRIB)
		return s
	}
	p := c.serve(t, config)
	s, lost := session(2), session(3, restarts)
	both := func() bool { return p.has(t, numbered(20, 2)) && p.has(t, numbered(20, 3)) }
	await(t, "routes", both)
	lost.vanish(t)
	await(t, "stale route", func() bool { return p.count(t).stale == 1 })
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for i, to := range []time.Duration{time.Hour, -time.Hour, 2 * day, -2 * day, 20 * year, -20 * year, 0} {
		c.jump(to)
		heard := s.heard.Load()
		s.mustUpdate(t, updateOf(numbered(21, i-1), numbered(21, i)))
		await(t, "an update", func() bool { return p.has(t, numbered(21, i)) && !p.has(t, numbered(21, i-1)) })
		await(t, "KEEPALIVEs for longer than the hold time", func() bool { return s.heard.Load() > heard+minimalHold+1 })
		if !both() || p.count(t).stale != 1 {
			t.Errorf("after a jump to %v: %+v", to, p.count(t))
		}
		p.mustSave(t, saved)
		s.mustBeUp(t)
	}
	for _, start := range []struct {
		at   time.Duration
		want count
	}{{-year, count{3, 3}}, {2 * day, count{}}} {
		p.signal(t, syscall.SIGKILL)
		c.jump(start.at)
		p = c.serve(t, config)
		if got := p.count(t); got != start.want {
			t.Errorf("a start at %v serves %+v, want %+v", start.at, got, start.want)
		}
		session(2)
		await(t, "route of a session", func() bool { r := p.count(t); return p.has(t, numbered(20, 2)) && r.routes > r.stale })
		c.jump(0)
		p.mustSave(t, saved)
	}
}

// A wallClock is that of programs that are built with it.
type wallClock struct {
	program, file string
	jumped        []byte // how far, in seconds, where the program sees it
}

// clockVariable names the file for the program.
const clockVariable = "RIBWARP_FAULTS_CLOCK"

// ownClock is put into package time.
const ownClock = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var jumped = func() *int64 {
	path, _ := syscall.Getenv("` + clockVariable + `")
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}()

func jump() int64 { return atomic.LoadInt64(jumped) }
`

// newWallClock builds the program, with a clock that is right.
func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) (path string) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	standard := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(standard, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	reads := regexp.MustCompile(`(func Now\(\) Time \{\n\tsec, nsec, mono := .*\n)`)
	if !reads.Match(source) {
		t.Fatal("time.Now is another one in this version of Go: adapt this test")
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(standard, "time.go"):   write("time.go", reads.ReplaceAll(source, []byte("${1}\tsec += jump()\n"))),
		filepath.Join(standard, "jumped.go"): write("jumped.go", []byte(ownClock)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &wallClock{program: filepath.Join(dir, "ribwarp"), file: write("jumped", make([]byte, 8))}
	if err := build("-overlay", write("overlay.json", overlay), "-o", c.program); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(c.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c.jumped, err = unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(c.jumped) })
	return c
}

// jump sets the clock, to so much after the right time.
func (c *wallClock) jump(to time.Duration) {
	binary.NativeEndian.PutUint64(c.jumped, uint64(to/time.Second))
}

// serve is serve with this clock.
func (c *wallClock) serve(t *testing.T, config string) *process {
	t.Helper()
	cmd := exec.Command(c.program, "serve", "--config", config)
	cmd.Env = append(os.Environ(), clockVariable+"="+c.file)
	return launchProgram(t, cmd).serving(t)
}
