package interop

import (
	"fmt"
	"path/filepath"
	"strings"
)

const gobgpProgram = "/usr/bin/gobgpd"

var gobgp = &implementation{
	name: "GoBGP", debian: "gobgpd", program: gobgpProgram, version: []string{"--version"},
	waits: true,
	lacks: map[string]string{
		"speaker of 2-byte AS numbers (RFC 6793)": "always announces 4-byte AS numbers",
		"long messages (RFC 8654)":                "3.10 does not have them, and panics at a route that needs one",
		"enhanced route refresh (RFC 7313)":       "3.10 does not announce it",
		"roles (RFC 9234)":                        gobgpRoles,
		"roles that do not fit (RFC 9234)":        gobgpRoles,
	},
	start: func(c *cell, dir string, p *peering) instance {
		g := &gobgpInstance{cell: c, peering: *p}
		path := filepath.Join(dir, "gobgpd.conf")
		c.write(path, g.config())
		args := []string{"-f", path, "-t", "toml", "--api-hosts", g.api(), "--pprof-disable"}
		if p.restarted {
			args = append(args, "-r")
		}
		g.running = c.run(dir, nil, gobgpProgram, args...)
		// Its routes are there before its session.
		g.peering.routes = nil
		g.announce(p.routes)
		g.call("neighbor", p.remote(c).String(), "enable")
		return g
	},
}

const gobgpRoles = "3.10 does not have roles, nor the attribute OTC"

type gobgpInstance struct {
	*cell
	peering peering
	running *process
}

func (g *gobgpInstance) process() *process { return g.running }

func (g *gobgpInstance) api() string {
	return address(g.number, g.peering.host, false).String() + ":50051"
}

// call is of its command line.
func (g *gobgpInstance) call(args ...string) {
	g.Helper()
	g.command("/usr/bin/gobgp", append([]string{"-u", address(g.number, g.peering.host, false).String(), "-p", "50051"}, args...)...)
}

// announce says what changes.
func (g *gobgpInstance) announce(routes []route) {
	g.Helper()
	for word, changed := range map[string][]route{"del": difference(g.peering.routes, routes), "add": difference(routes, g.peering.routes)} {
		for _, r := range changed {
			g.call(g.route(word, r)...)
		}
	}
	g.peering.routes = routes
}

func (g *gobgpInstance) route(word string, r route) []string {
	v6 := r.prefix.Addr().Is6()
	args := []string{"global", "rib", word, "-a", family(v6), r.prefix.String()}
	if g.peering.addPath {
		args = append(args, "identifier", fmt.Sprint(1+len(r.path)))
	}
	args = append(args, "origin", "igp", "nexthop", address(g.number, g.peering.host, v6 || g.peering.nextHop6).String())
	list := func(what string, n int, value func(i int) string) {
		var all []string
		for i := range n {
			all = append(all, value(i))
		}
		if n > 0 {
			args = append(args, what, strings.Join(all, ","))
		}
	}
	list("aspath", len(r.path), func(i int) string { return fmt.Sprint(r.path[i]) })
	list("community", len(r.standard), func(i int) string { return fmt.Sprintf("%d:%d", r.standard[i][0], r.standard[i][1]) })
	list("large-community", len(r.large), func(i int) string { return fmt.Sprintf("%d:%d:%d", r.large[i][0], r.large[i][1], r.large[i][2]) })
	if len(r.targets) > 0 {
		args = append(args, "rt")
	}
	for _, x := range r.targets {
		args = append(args, fmt.Sprintf("%d:%d", x[0], x[1]))
	}
	return args
}

func (g *gobgpInstance) config() string {
	p := &g.peering
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("[global.config]\nas = %d\nrouter-id = \"192.0.2.2\"\nport = 179\nlocal-address-list = [%q]", p.as, p.local(g.cell))
	line("[[neighbors]]\n[neighbors.config]\nneighbor-address = %q\npeer-as = %d\nadmin-down = true", p.remote(g.cell), p.ownAS)
	if p.md5 != "" {
		line("auth-password = %q", p.md5)
	}
	line("[neighbors.timers.config]\nconnect-retry = 1\nidle-hold-time-after-reset = 1\nhold-time = %d", int(p.holdTime.Seconds()))
	line("[neighbors.transport.config]\nlocal-address = %q\npassive-mode = %v", p.local(g.cell), p.connects == ours)
	switch {
	case p.ttlSecurity:
		line("[neighbors.ttl-security.config]\nenabled = true\nttl-min = 255")
	case p.as != p.ownAS:
		line("[neighbors.ebgp-multihop.config]\nenabled = true\nmultihop-ttl = 4")
	}
	if p.addPath {
		line("[neighbors.add-paths.config]\nsend-max = 8")
	}
	// Without it there is no End-of-RIB.
	line("[neighbors.graceful-restart.config]\nenabled = true\nrestart-time = %d\nlong-lived-enabled = %v\nnotification-enabled = %v",
		int(p.restart.Seconds()), p.longLived > 0, p.notification)
	for _, v6 := range p.families() {
		line("[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"%s-unicast\"", family(v6))
		line("[neighbors.afi-safis.mp-graceful-restart.config]\nenabled = %v", p.restart > 0)
		if p.longLived > 0 {
			line("[neighbors.afi-safis.long-lived-graceful-restart.config]\nenabled = true\nrestart-time = %d", int(p.longLived.Seconds()))
		}
	}
	return s.String()
}
