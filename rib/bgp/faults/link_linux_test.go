package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ribwarp/ribwarp/fixtures"
)

// A link is what is between two hosts: packets are delayed, lost or swallowed on it. Its ends are
// TUN devices, and this process carries the packets, so that it takes no queueing discipline of the
// kernel, of which many have none for faults. One end is in the network namespace of the tests,
// where the service is, the other in one of its own, where the peer is.
type link struct {
	near, far netip.Addr
	space     *thread // of the far end
	ends      [2]*os.File

	mu     sync.Mutex
	rng    *rand.Rand
	delay  time.Duration // each way
	jitter time.Duration // up to so much more
	loss   float64       // share of the packets
	cut    bool          // nothing gets through
	gone   uint16        // port of a connection of which nothing gets through any more
	shut   bool          // what comes from the far end says that its window is closed

	carried, lost int
}

var links = struct {
	sync.Mutex
	n byte
}{}

// newLink makes a link that does nothing to packets yet.
func newLink(t *testing.T) *link {
	t.Helper()
	needNamespaces(t)
	links.Lock()
	links.n++
	n := links.n
	links.Unlock()
	seed := rand.Uint64()
	t.Logf("seed of the link %d", seed)
	l := &link{
		near: netip.AddrFrom4([4]byte{10, 77, n, 1}), far: netip.AddrFrom4([4]byte{10, 77, n, 2}),
		space: newSpace(t), rng: rand.New(rand.NewPCG(seed, 0)),
	}
	var err error
	if l.ends[0], err = tun(fmt.Sprintf("near%d", n), l.near); err == nil {
		l.space.run(func() { l.ends[1], err = tun("far", l.far) })
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		fixtures.Missing(t, "no TUN device, which takes the kernel's module tun, and root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var carrying sync.WaitGroup
	carrying.Go(func() { l.carry(l.ends[0], l.ends[1]) })
	carrying.Go(func() { l.carry(l.ends[1], l.ends[0]) })
	t.Cleanup(func() {
		_, _ = l.ends[0].Close(), l.ends[1].Close()
		carrying.Wait()
		t.Logf("%d packets carried, %d lost", l.carried, l.lost)
	})
	return l
}

// carry takes packets from one end to the other until that is closed.
func (l *link) carry(from, to *os.File) {
	packet := make([]byte, 1<<16)
	for {
		n, err := from.Read(packet)
		if err != nil {
			return
		}
		p := packet[:n]
		delay, ok := l.fate(p)
		switch {
		case !ok:
		case delay > 0:
			p = slices.Clone(p)
			time.AfterFunc(delay, func() { _, _ = to.Write(p) }) // a full queue, or the end, is a loss
		default: // in order
			_, _ = to.Write(p)
		}
	}
}

// fate says what becomes of a packet.
func (l *link) fate(packet []byte) (delay time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		closeWindow(packet, l.far)
	}
	if l.cut || l.gone != 0 && isOf(packet, l.gone) || l.rng.Float64() < l.loss {
		l.lost++
		return 0, false
	}
	l.carried++
	return l.delay + time.Duration(l.rng.Float64()*float64(l.jitter)), true
}

// segment is what an IPv4 packet with TCP has behind the header of IP; others have none.
func segment(packet []byte) []byte {
	const version4, tcp, header = 4, 6, 20
	if len(packet) < header || packet[0]>>4 != version4 || packet[9] != tcp {
		return nil
	}
	if s := packet[min(len(packet), int(packet[0]&15)*4):]; len(s) >= header {
		return s
	}
	return nil
}

// isOf tells whether a packet with TCP comes from a port or goes there.
func isOf(packet []byte, port uint16) bool {
	s := segment(packet)
	return s != nil && (binary.BigEndian.Uint16(s) == port || binary.BigEndian.Uint16(s[2:]) == port)
}

// closeWindow has a packet with TCP from an address say that nothing more is taken there. The checksum
// is that of RFC 1624, 3.
func closeWindow(packet []byte, from netip.Addr) {
	s := segment(packet)
	if s == nil || netip.AddrFrom4([4]byte(packet[12:16])) != from {
		return
	}
	window, checksum := s[14:16], s[16:18]
	sum := uint32(^binary.BigEndian.Uint16(checksum)) + uint32(^binary.BigEndian.Uint16(window))
	binary.BigEndian.PutUint16(checksum, ^uint16(sum>>16+sum&0xffff))
	binary.BigEndian.PutUint16(window, 0)
}

// set changes what the link does.
func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *link) blackhole() { l.set(func(l *link) { l.cut = true }) }
func (l *link) heal()      { l.set(func(l *link) { l.cut = false }) }

// dial connects to a service from the far end.
func (l *link) dial(t *testing.T, s *service) *speaker {
	t.Helper()
	var c net.Conn
	var err error
	l.space.run(func() { c, err = dialer(l.far).Dial("tcp", s.at.String()) })
	if err != nil {
		t.Fatal(err)
	}
	return speak(t, c.(*net.TCPConn))
}

// A thread runs jobs, one after the other.
type thread struct{ jobs chan func() }

// newThread makes one. It is not used for anything else, and ends when jobs is closed.
func newThread() *thread {
	th := &thread{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for job := range th.jobs {
			job()
		}
	}()
	return th
}

// newSpace makes a thread in a network namespace of its own, until the end of the test. Sockets
// that it makes belong there, and go on to.
func newSpace(t *testing.T) *thread {
	t.Helper()
	th := newThread()
	t.Cleanup(func() { close(th.jobs) })
	var err error
	if th.run(func() { err = unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
		t.Fatalf("network namespace: %v", err)
	}
	return th
}

// run runs f on the thread.
func (th *thread) run(f func()) {
	done := make(chan struct{})
	th.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

// tun makes a TUN device in the thread's network namespace. It goes when the file is closed.
func tun(name string, addr netip.Addr) (*os.File, error) {
	const path = "/dev/net/tun"
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := func() error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
			return err
		}
		if err := configure(name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr.AsSlice()) }); err != nil {
			return err
		}
		if err := configure(name, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }); err != nil {
			return err
		}
		return linkUp(name)
	}
	if err := f(); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("TUN device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// linkUp sets a network interface going.
func linkUp(name string) error {
	return configure(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	})
}

// configure changes a network interface of the thread's namespace.
func configure(name string, request uint, set func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := set(r); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, request, r); err != nil {
		return fmt.Errorf("network interface %s: %w", name, err)
	}
	return nil
}
