package bgp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// A bird is a running BIRD.
type bird struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
	done    chan error
}

// needBird skips without BIRD, and fails with CI=true.
func needBird(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bird")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/bird")
	}
	if err != nil {
		fixtures.Missing(t, "BIRD is not installed (Debian's package bird2)")
	}
	return path
}

// startBird runs BIRD with a configuration, in the foreground and without root.
func startBird(t *testing.T, dir, config string) *bird {
	t.Helper()
	path := needBird(t)
	if err := os.WriteFile(filepath.Join(dir, "bird.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bird{t: t, dir: dir, done: make(chan error, 1)}
	b.process = exec.Command(path, "-f", "-c", filepath.Join(dir, "bird.conf"), "-s", b.socket(), "-P", filepath.Join(dir, "bird.pid"))
	var output bytes.Buffer
	b.process.Stdout, b.process.Stderr = &output, &output
	if err := b.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.done <- b.process.Wait() }()
	t.Cleanup(func() {
		b.kill()
		if t.Failed() {
			t.Logf("bird: %s", output.Bytes())
		}
	})
	return b
}

func (b *bird) socket() string { return filepath.Join(b.dir, "ctl") }

// kill ends BIRD at once, without a word to its peers.
func (b *bird) kill() {
	if b.process.ProcessState == nil {
		_ = b.process.Process.Kill()
		b.done <- <-b.done
	}
}

// configure has BIRD read its configuration again.
func (b *bird) configure() {
	b.t.Helper()
	conn, err := net.Dial("unix", b.socket())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		b.t.Fatal(err)
	}
	fmt.Fprintln(conn, "configure")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if line := lines.Text(); len(line) > 4 && (line[:4] == "0003" || line[:4] == "0004") { // reconfigured, in progress
			return
		} else if line[0] == '8' || line[0] == '9' {
			b.t.Fatalf("configure: %s", line)
		}
	}
	b.t.Fatalf("configure: no answer: %v", lines.Err())
}

// writeRoutes writes prefixes as static routes for BIRD to include.
func writeRoutes(t *testing.T, path string, prefixes []netip.Prefix) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for _, p := range prefixes {
		fmt.Fprintf(w, "route %s blackhole;\n", p)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// readPrefixes reads a list of prefixes, one a line.
func readPrefixes(t *testing.T, path string) (ps []netip.Prefix) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		p, err := netip.ParsePrefix(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p.Masked())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ps
}

// compareWithPeer compares the Adj-RIB-In of the first peer with what it was to hold, prefix
// by prefix.
func (s *service) compareWithPeer(t *testing.T, want ...[]netip.Prefix) {
	t.Helper()
	got := make(map[netip.Prefix]rib.Attrs)
	for n, path := range s.peer(0).routes.peer().Routes() {
		got[n.Prefix] = path.Value()
	}
	wrong, total := 0, 0
	hops := map[bool]netip.Addr{true: peerAddr, false: netip.MustParseAddr("2001:db8::2")}
	for _, list := range want {
		for _, p := range list {
			total++
			a, ok := got[p]
			if !ok || a.NextHop != hops[p.Addr().Is4()] || a.ASPath.First() != peerAS {
				if wrong++; wrong < 10 {
					t.Errorf("%s: there: %v, %+v", p, ok, a)
				}
			}
		}
	}
	if wrong > 0 || len(got) != total {
		t.Fatalf("%d of %d prefixes are wrong, the RIB has %d", wrong, total, len(got))
	}
}

// TestFullTableFromBIRD has BIRD announce the real table: what arrives is what BIRD was given,
// prefix by prefix, then some of it withdrawn, then all of it with BIRD's end.
func TestFullTableFromBIRD(t *testing.T) {
	needBird(t)
	v4 := readPrefixes(t, fixtures.DataFile(t, "ris-2026-05-11-as3333-v4.txt.gz"))
	v6 := readPrefixes(t, fixtures.DataFile(t, "ris-2026-05-11-as3333-v6.txt.gz"))
	dir := t.TempDir()
	file4, file6 := filepath.Join(dir, "v4.conf"), filepath.Join(dir, "v6.conf")
	writeRoutes(t, file4, v4)
	writeRoutes(t, file6, v6)

	s := start(t, nil, passivePeer)
	b := startBird(t, dir, fmt.Sprintf(`
log stderr all;
router id 192.0.2.2;
protocol device {}
protocol static static4 { ipv4;
include "%s";
}
protocol static static6 { ipv6;
include "%s";
}
protocol bgp ribwarp {
	local %s as %d;
	neighbor %s port %d as %d;
	connect delay time 1;
	multihop;
	ipv4 { import none; export all; next hop self; };
	ipv6 { import none; export all; next hop address 2001:db8::2; };
}
`, file4, file6, peerAddr, peerAS, ownAddr, s.Addrs()[0].Port(), ownAS))

	var first time.Time
	await(t, "first UPDATE", func() bool { first = time.Now(); return s.Stats().Peers[0].Messages > 0 })
	await(t, "full table", func() bool { return s.status().Loaded })
	t.Logf("%d IPv4 and %d IPv6 prefixes in %d messages, %v from the first UPDATE to the last", len(v4), len(v6), s.Stats().Peers[0].Messages, time.Since(first).Round(time.Millisecond))
	s.compareWithPeer(t, v4, v6)

	writeRoutes(t, file4, v4[1000:])
	writeRoutes(t, file6, v6[:len(v6)-1000])
	b.configure()
	await(t, "withdrawal of some", func() bool { st := s.status(); return st.V4 == len(v4)-1000 && st.V6 == len(v6)-1000 })
	s.compareWithPeer(t, v4[1000:], v6[:len(v6)-1000])

	b.kill()
	await(t, "withdrawal of all", func() bool { st := s.status(); return st.State == "down" && st.V4+st.V6 == 0 })
	got4, got6 := s.rib.Counts()
	mustBe(t, []int{got4, got6}, []int{0, 0})
	st := s.Stats().Peers[0]
	mustBe(t, []uint64{st.Verdicts[0], st.Panics, st.Ups, st.Downs}, []uint64{st.Messages, 0, 1, 1})
}

// TestAddPathFromBIRD connects to BIRD, which sends two paths to one prefix and speaks no more
// than 2-byte AS numbers.
func TestAddPathFromBIRD(t *testing.T) {
	needBird(t)
	port := ribtest.FreePort(t, peerAddr)
	startBird(t, t.TempDir(), fmt.Sprintf(`
log stderr all;
router id 192.0.2.2;
protocol device {}
protocol static one { ipv4; route 10.0.0.0/8 blackhole; route 10.1.0.0/16 blackhole { bgp_path.prepend(64777); }; }
protocol static two { ipv4 { preference 150; }; route 10.0.0.0/8 blackhole; }
protocol bgp ribwarp {
	local %s port %d as %d;
	neighbor %s as %d;
	multihop;
	passive;
	enable as4 off;
	ipv4 { import none; export all; next hop self; add paths tx; };
}
`, peerAddr, port, peerAS, ownAddr, ownAS))
	s := start(t, nil, PeerConfig{Addr: peerAddr, AS: peerAS, Port: port, LocalAddr: ownAddr})
	await(t, "first load", func() bool { return s.status().Loaded })
	all := s.routes()
	paths := 0
	for n, a := range all {
		if n.Prefix == netip.MustParsePrefix("10.0.0.0/8") && a.ASPath == rib.ASPath(path4) {
			paths++
		}
		if n.Prefix == netip.MustParsePrefix("10.1.0.0/16") {
			mustBe(t, a.ASPath, "64500 64777")
		}
	}
	if paths != 2 || len(all) != 3 {
		t.Errorf("got %v", all)
	}
}
