package interop

import (
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
)

// An implementation is a BGP speaker that is not ours.
type implementation struct {
	name    string
	debian  string   // package
	program string   // path
	version []string // its arguments for its version
	root    bool     // needs root
	onePath bool     // has no more than one path to a prefix by itself: others have to feed it
	ownPath bool     // cannot put other AS numbers into the paths of its own routes
	waits   bool     // takes seconds to connect: we do, unless that is what is tried
	// lacks says of cases why they cannot be with this speaker: facts of its version or manual.
	lacks map[string]string
	// start runs it in an empty folder.
	start func(c *cell, dir string, p *peering) instance
}

// An instance is a running speaker.
type instance interface {
	// announce has it announce these routes, and no others.
	announce(routes []route)
	process() *process
}

// implementations are the columns of the matrix.
var implementations = []*implementation{bird, frr, exabgp, openbgpd, gobgp}

// versionPattern is the number that a program says to be its version.
var versionPattern = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// installed gives the version, or ends the test where the speaker is not there.
func (i *implementation) installed(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath(i.program); err != nil {
		fixtures.Missing(t, "%s is not installed (Debian's package %s)", i.name, i.debian)
	}
	if i.root && !isRoot() {
		fixtures.Missing(t, "%s needs root", i.name)
	}
	out, err := exec.Command(i.program, i.version...).CombinedOutput()
	if err != nil {
		t.Fatalf("version of %s: %v: %s", i.name, err, out)
	}
	version := versionPattern.FindString(string(out))
	if version == "" {
		t.Fatalf("version of %s: there is none in %q", i.name, out)
	}
	return version
}

// connects says who makes the connection.
type connects int

const (
	theirs connects = iota
	ours
	either
)

// A peering is a session as the speaker has it: its side and what it is to announce.
type peering struct {
	connects   connects
	over6      bool   // the transport is IPv6
	ipv4, ipv6 bool   // families
	host, with int    // of the speaker and of its peer
	as, ownAS  uint32 // the speaker's, and what it takes us for
	routes     []route
	feeders    []feeder // from which the speaker takes routes

	holdTime     time.Duration
	addPath      bool
	nextHop6     bool // IPv4 with IPv6 next hops
	extended     bool // long messages
	twoByteAS    bool
	restart      time.Duration // graceful restart; 0: none
	notification bool          // a NOTIFICATION is to keep the routes, too
	longLived    time.Duration // and long-lived stale time
	restarted    bool          // this is the start after a crash
	enhanced     bool          // enhanced refresh
	md5          string
	ttlSecurity  bool
	role         string // of the speaker, in the words of package fsm; it wants one of its peer, too
}

// A feeder is a BIRD with routes for the speaker.
type feeder struct {
	host int
	as   uint32
}

// A route is a path to a prefix, with the speaker itself as the next hop.
type route struct {
	prefix   netip.Prefix
	path     []uint32 // AS numbers behind the speaker's own
	standard [][2]uint16
	large    [][3]uint32
	targets  [][2]uint32 // extended communities: route targets of 2-byte AS numbers
}

// prefixes gives routes to n prefixes of a family.
func prefixes(n int, v6 bool) (all []route) {
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i)}), 24)
		if v6 {
			p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 5: byte(i)}), 48)
		}
		all = append(all, route{prefix: p})
	}
	return all
}

// of gives the routes of a family.
func of(routes []route, v6 bool) (all []route) {
	for _, r := range routes {
		if r.prefix.Addr().Is6() == v6 {
			all = append(all, r)
		}
	}
	return all
}

// difference gives the routes of a that are not in b.
func difference(a, b []route) (all []route) {
	there := make(map[string]bool)
	for _, r := range b {
		there[fmt.Sprint(r)] = true
	}
	for _, r := range a {
		if !there[fmt.Sprint(r)] {
			all = append(all, r)
		}
	}
	return all
}

// local is the speaker's address, remote its peer's.
func (p *peering) local(c *cell) netip.Addr  { return address(c.number, p.host, p.over6) }
func (p *peering) remote(c *cell) netip.Addr { return address(c.number, p.with, p.over6) }

// carries tells whether a family is spoken.
func (p *peering) carries(v6 bool) bool { return p.ipv4 && !v6 || p.ipv6 && v6 }

// families are what the peering carries, false for IPv4.
func (p *peering) families() (all []bool) {
	for _, v6 := range []bool{false, true} {
		if p.carries(v6) {
			all = append(all, v6)
		}
	}
	return all
}

// family is the word for one in most configurations.
func family(v6 bool) string {
	if v6 {
		return "ipv6"
	}
	return "ipv4"
}

// reversed is from the origin to the speaker, as they are prepended.
func reversed(path []uint32) []uint32 {
	path = slices.Clone(path)
	slices.Reverse(path)
	return path
}
