package bmp

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// bgpd is where Debian has it.
const bgpd = "/usr/lib/frr/bgpd"

// needFRR skips without FRR, and fails with CI=true.
func needFRR(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(bgpd); err != nil {
		fixtures.Missing(t, "FRR is not installed (Debian's package frr)")
	}
}

// An frr is a running bgpd with its BMP module, without zebra.
type frr struct {
	process *exec.Cmd
	done    chan error
}

// startFRR runs bgpd at routerAddr. neighbor are lines of the peer at addr, bmp those of its
// "bmp targets".
func startFRR(t *testing.T, port uint16, addr netip.Addr, neighbor, bmp []string) *frr {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`hostname edge1
router bgp %[1]d
 bgp router-id %[2]s
 no bgp ebgp-requires-policy
 neighbor %[3]s remote-as %[4]d
 neighbor %[3]s ebgp-multihop 4
 neighbor %[3]s passive
%[5]s
 address-family ipv6 unicast
  neighbor %[3]s activate
%[5]s
 exit-address-family
 bmp mirror buffer-limit 1000000
 bmp targets ribwarp
  %[6]s
`, routerAS, routerID, addr, peerAS, strings.Join(neighbor, "\n"), strings.Join(bmp, "\n  "))
	path := filepath.Join(dir, "bgpd.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &frr{done: make(chan error, 1)}
	f.process = exec.Command(bgpd, "-f", path, "-i", filepath.Join(dir, "pid"), "-z", filepath.Join(dir, "zserv"), "--no_zebra", "--skip_runas",
		"-M", "bmp", "-p", fmt.Sprint(port), "-l", routerAddr.String(), "--vty_port", "0", "--vty_socket", dir, "--log", "stdout")
	var output bytes.Buffer
	f.process.Stdout, f.process.Stderr = &output, &output
	if err := f.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { f.done <- f.process.Wait() }()
	t.Cleanup(func() {
		f.kill()
		if t.Failed() {
			t.Logf("bgpd: %s\n%s", config, output.Bytes())
		}
	})
	return f
}

// kill ends bgpd at once, without a word.
func (f *frr) kill() {
	_ = f.process.Process.Kill()
	f.done <- <-f.done
}

// loopback is where it connects from.
var loopback = netip.MustParseAddr("127.0.0.1")

// customer is its BGP peer.
var customer = netip.MustParseAddr("127.78.2.9")

func TestFRRMirrors(t *testing.T) {
	needFRR(t)
	for view, line := range map[View]string{ViewPre: "pre-policy", ViewPost: "post-policy"} {
		for _, listens := range []bool{false, true} {
			name := "it connects, "
			if listens {
				name = "it listens, "
			}
			t.Run(name+line, func(t *testing.T) {
				port := ribtest.FreePort(t, routerAddr)
				c := RouterConfig{Name: "frr", Addr: routerAddr, StaleTime: time.Hour}
				if listens { // and the other time nothing but the routes say which view it is
					c.View = view
					c.Port = ribtest.FreePort(t, routerAddr)
				} else {
					c.Addr = loopback
				}
				s := start(t, nil, c)
				bmp := []string{fmt.Sprintf("bmp connect %s port %d min-retry 100 max-retry 1000", stationAddr, s.Addrs()[0].Port())}
				if listens {
					bmp = []string{fmt.Sprintf("bmp listener %s port %d", routerAddr, c.Port)}
				}
				bmp = append(bmp, "bmp monitor ipv4 unicast "+line, "bmp monitor ipv6 unicast "+line, "bmp mirror", "bmp stats interval 1000")
				// Without this FRR has no Adj-RIB-In to mirror.
				stored := []string{" neighbor " + customer.String() + " soft-reconfiguration inbound"}
				router := startFRR(t, port, customer, stored, bmp)
				behind := ribtest.StartGoBGP(t, peerAS, customer, 0)
				peer(behind, customer, routerAddr, routerAS, port, 0)
				behind.Announce(0, "10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32")

				feed := "frr/" + customer.String() + "/" + string(view)
				s.has("default", feed, 3)
				behind.Announce(0, "10.2.0.0/16")
				behind.Withdraw(0, "10.1.0.0/16")
				await(t, "the change", func() bool {
					_, was := s.path("default", feed, "10.1.0.0/16")
					_, is := s.path("default", feed, "10.2.0.0/16")
					return is && !was
				})
				// FRR 8.4 has put its own AS number before that of its peer.
				r, _ := s.path("default", feed, "10.0.0.0/8")
				mustBe(t, "origin AS", fmt.Sprint(r.Path.Value().ASPath.Origins()), fmt.Sprint([]uint32{peerAS}))
				await(t, "reports and mirrored messages", func() bool {
					st := s.stats("frr")
					return st.Messages[StatisticsReport] > 0 && st.Mirrored > 0
				})
				st := s.stats("frr")
				mustBe(t, "name", st.SysName, "edge1")
				mustBe(t, "AS of the peer", st.Peers[0].AS, peerAS)

				// The connection is lost and comes back: its routes wait for it, until End-of-RIB.
				r1 := s.of("frr")[0]
				r1.state.Lock()
				lost := r1.current.in.conn
				r1.state.Unlock()
				behind.Withdraw(0, "10.2.0.0/16")
				await(t, "withdrawal", func() bool { return s.peer("default", feed).V4 == 1 })
				_ = lost.Close()
				await(t, "the next connection", func() bool { return s.stats("frr").Ups == 2 })
				await(t, "End-of-RIB", func() bool {
					p := s.peer("default", feed)
					return p.EndOfRIB4 && p.EndOfRIB6 && p.Stale4+p.Stale6 == 0 && p.V4 == 1 && p.V6 == 1
				})
				await(t, "first load", func() bool { return len(s.ribs["default"].Pending()) == 0 })

				// The router dies and comes back. FRR sends no End-of-RIB for peers that are up only
				// behind its own start, so here it is the time that ends what is stale.
				router.kill()
				await(t, "stale routes", func() bool { p := s.peer("default", feed); return p.Stale4 == 1 && p.Stale6 == 1 })
				behind.Withdraw(0, "10.0.0.0/8")
				behind.Announce(0, "10.3.0.0/16")
				startFRR(t, port, customer, stored, bmp)
				await(t, "routes of the new session", func() bool { p := s.peer("default", feed); return p.V4 == 2 && p.Stale4 == 1 && p.Stale6 == 0 })
				r1.expire()
				s.has("default", feed, 2)

				behind.Stop()
				s.has("default", feed, 0)
				st = s.stats("frr")
				mustBe(t, "state", s.peer("default", feed).State, "down")
				mustBe(t, "damaged", st.Damaged, 0)
				mustBe(t, "damaged UPDATEs", st.Verdicts[1]+st.Verdicts[2]+st.Verdicts[3], 0)
				mustBe(t, "connections", st.Ups, 3)
			})
		}
	}
}

// FRR before 10 leaves path identifiers out, whatever the OPENs that it mirrors say.
func TestFRRWithAddPath(t *testing.T) {
	needFRR(t)
	version, err := exec.Command(bgpd, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major int
	if _, err := fmt.Sscanf(string(version), "bgpd version %d.", &major); err != nil {
		t.Fatalf("version of bgpd: %v: %s", err, version)
	}
	port := ribtest.FreePort(t, routerAddr)
	c := RouterConfig{Name: "frr", Addr: loopback, View: ViewPre, NoAddPath: major < 10}
	s := start(t, nil, c)
	startFRR(t, port, customer, []string{" neighbor " + customer.String() + " soft-reconfiguration inbound"}, []string{
		fmt.Sprintf("bmp connect %s port %d min-retry 100 max-retry 1000", stationAddr, s.Addrs()[0].Port()), "bmp monitor ipv4 unicast pre-policy"})
	behind := ribtest.StartGoBGP(t, peerAS, customer, 0)
	peer(behind, customer, routerAddr, routerAS, port, 4)
	behind.Announce(0, "10.0.0.0/8", "10.1.2.0/24")
	s.has("default", "frr/127.78.2.9/pre", 2)
	if !s.log.Contains("add_path_ipv4=true") {
		t.Error("the peers did not agree on ADD-PATH")
	}
	for _, prefix := range []string{"10.0.0.0/8", "10.1.2.0/24"} {
		if _, ok := s.path("default", "frr/127.78.2.9/pre", prefix); !ok {
			t.Errorf("no route to %s", prefix)
		}
	}
}
