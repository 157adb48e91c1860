package interop

import (
	"fmt"
	"path/filepath"
	"strings"
)

const frrProgram = "/usr/lib/frr/bgpd"

var frr = &implementation{
	name: "FRR", debian: "frr", program: frrProgram, version: []string{"--version"}, onePath: true,
	start: func(c *cell, dir string, p *peering) instance {
		f := &frrInstance{cell: c, dir: dir, peering: p}
		path := filepath.Join(dir, "bgpd.conf")
		c.write(path, f.config())
		// Without zebra it has no next hops to look up, and takes all of them.
		f.running = c.run(dir, nil, frrProgram, "-f", path, "-i", filepath.Join(dir, "pid"), "-z", filepath.Join(dir, "zserv"),
			"--no_zebra", "--no_kernel", "--skip_runas", "-p", "179", "-l", p.local(c).String(), "--vty_port", "0", "--vty_socket", dir, "--log", "stdout")
		return f
	},
}

type frrInstance struct {
	*cell
	dir     string
	peering *peering
	running *process
}

func (f *frrInstance) process() *process { return f.running }

// announce says what changes.
func (f *frrInstance) announce(routes []route) {
	f.Helper()
	args := []string{"--vty_socket", f.dir, "-c", "configure terminal", "-c", fmt.Sprintf("router bgp %d", f.peering.as)}
	for word, changed := range map[string][]route{"no network": difference(f.peering.routes, routes), "network": difference(routes, f.peering.routes)} {
		for _, r := range changed {
			args = append(args, "-c", "address-family "+family(r.prefix.Addr().Is6())+" unicast", "-c", word+" "+r.prefix.String(), "-c", "exit-address-family")
		}
	}
	f.peering.routes = routes
	f.command("/usr/bin/vtysh", args...)
}

func (f *frrInstance) config() string {
	p := f.peering
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("hostname frr\nlog stdout informational")
	// Before they are used, and at once: else FRR gets to changes of route maps after 5 s, and
	// sends all routes once more.
	line("bgp route-map delay-timer 0")
	for _, v6 := range p.families() {
		line("route-map out-%s permit 10", family(v6))
		if v6 {
			line(" set ipv6 next-hop global %s", address(f.number, p.host, true))
		} else if !p.nextHop6 {
			line(" set ip next-hop %s", address(f.number, p.host, false))
		}
		line("exit")
	}
	for i, r := range p.routes {
		line("route-map route-%d permit 10", i)
		if len(r.path) > 0 {
			line(" set as-path prepend %s", strings.Trim(fmt.Sprint(r.path), "[]"))
		}
		set := func(what string, values []string) {
			if len(values) > 0 {
				line(" set %s %s", what, strings.Join(values, " "))
			}
		}
		var standard, large, targets []string
		for _, x := range r.standard {
			standard = append(standard, fmt.Sprintf("%d:%d", x[0], x[1]))
		}
		for _, x := range r.large {
			large = append(large, fmt.Sprintf("%d:%d:%d", x[0], x[1], x[2]))
		}
		for _, x := range r.targets {
			targets = append(targets, fmt.Sprintf("%d:%d", x[0], x[1]))
		}
		set("community", standard)
		set("extcommunity rt", targets)
		// A line may have 4096 bytes.
		n := 10
		for ; len(large) > 100; large = large[100:] {
			set("large-community", append(large[:100:100], "additive"))
			n++
			line(" on-match next\nexit\nroute-map route-%d permit %d", i, n)
		}
		set("large-community", append(large, "additive")[:len(large)+min(len(large), 1)])
		line("exit")
	}
	line("router bgp %d", p.as)
	line(" bgp router-id 192.0.2.2\n no bgp ebgp-requires-policy\n no bgp network import-check\n no bgp default ipv4-unicast\n bgp log-neighbor-changes")
	if p.restart > 0 {
		line(" bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n bgp graceful-restart restart-time %d", int(p.restart.Seconds()))
	}
	if p.notification {
		line(" bgp graceful-restart notification")
	}
	if p.longLived > 0 {
		line(" bgp long-lived-graceful-restart stale-time %d", int(p.longLived.Seconds()))
	}
	for _, x := range p.feeders {
		line(" neighbor %[1]s remote-as %[2]d\n neighbor %[1]s ebgp-multihop 4\n neighbor %[1]s passive\n address-family ipv4 unicast\n neighbor %[1]s activate\n exit-address-family",
			address(f.number, x.host, false), x.as)
	}
	neighbor := func(what string, args ...any) {
		line(" neighbor %s "+what, append([]any{p.remote(f.cell)}, args...)...)
	}
	neighbor("remote-as %d", p.ownAS)
	neighbor("update-source %s", p.local(f.cell))
	neighbor("timers %d %d", int(p.holdTime.Seconds())/3, int(p.holdTime.Seconds()))
	neighbor("timers connect 1")
	switch {
	case p.ttlSecurity:
		neighbor("ttl-security hops 1")
	case p.as != p.ownAS:
		neighbor("ebgp-multihop 4")
	}
	if p.connects == ours {
		neighbor("passive")
	}
	if p.md5 != "" {
		neighbor("password %s", p.md5)
	}
	if p.role != "" {
		neighbor("local-role %s strict-mode", p.role)
	}
	if p.nextHop6 {
		neighbor("capability extended-nexthop")
	}
	if p.twoByteAS {
		neighbor("dont-capability-negotiate")
	}
	for _, v6 := range p.families() {
		line(" address-family %s unicast", family(v6))
		neighbor("activate")
		neighbor("route-map out-%s out", family(v6))
		if p.addPath {
			neighbor("addpath-tx-all-paths")
		}
		for i, r := range p.routes {
			if r.prefix.Addr().Is6() == v6 {
				line("  network %s route-map route-%d", r.prefix, i)
			}
		}
		line(" exit-address-family")
	}
	return s.String()
}
