package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const exabgpProgram = "/usr/sbin/exabgp"

var exabgp = &implementation{
	name: "ExaBGP", debian: "exabgp", program: exabgpProgram, version: []string{"--version"},
	lacks: map[string]string{
		"route refresh (RFC 2918)":               exabgpRefresh,
		"enhanced route refresh (RFC 7313)":      exabgpRefresh,
		"we stop, with a reason (RFC 9003)":      "4.2.21 cannot read a NOTIFICATION with a text under Python 3 (TypeError in notification.py)",
		"hold timer: routes are kept (RFC 8538)": "4.2.21 does not have the N bit of graceful restart",
		"long-lived graceful restart (RFC 9494)": "does not have it: exabgp.conf(5) knows graceful-restart alone",
		"roles (RFC 9234)":                       exabgpRoles,
		"roles that do not fit (RFC 9234)":       exabgpRoles,
	},
	start: func(c *cell, dir string, p *peering) instance {
		e := &exabgpInstance{cell: c, peering: p}
		path, pipe := filepath.Join(dir, "exabgp.conf"), filepath.Join(dir, "commands")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			c.Fatal(err)
		}
		var err error
		if e.commands, err = os.OpenFile(pipe, os.O_RDWR, 0); err != nil {
			c.Fatal(err)
		}
		c.Cleanup(func() { _ = e.commands.Close() })
		c.write(path, e.config(pipe))
		e.running = c.run(dir, []string{"exabgp.daemon.user=root", "exabgp.daemon.drop=false", "exabgp.api.ack=false", "exabgp.api.cli=false",
			"exabgp.tcp.bind=" + p.local(c).String(), "exabgp.tcp.port=179", "exabgp.log.level=DEBUG"}, exabgpProgram, path)
		return e
	},
}

const (
	exabgpRefresh = "4.2.21 announces both kinds of refresh together, and a request ends its session: it takes its own BoRR for an UPDATE (TypeError in new_update)"
	exabgpRoles   = "4.2.21 does not have roles, nor the attribute OTC"
)

type exabgpInstance struct {
	*cell
	peering  *peering
	commands *os.File
	running  *process
}

func (e *exabgpInstance) process() *process { return e.running }

// announce says what changes.
func (e *exabgpInstance) announce(routes []route) {
	e.Helper()
	for word, changed := range map[string][]route{"withdraw": difference(e.peering.routes, routes), "announce": difference(routes, e.peering.routes)} {
		for _, r := range changed {
			if _, err := fmt.Fprintf(e.commands, "%s %s\n", word, e.route(r)); err != nil {
				e.Fatal(err)
			}
		}
	}
	e.peering.routes = routes
}

func (e *exabgpInstance) route(r route) string {
	p := e.peering
	var s strings.Builder
	fmt.Fprintf(&s, "route %s", r.prefix)
	if p.addPath {
		fmt.Fprintf(&s, " path-information 0.0.0.%d", 1+len(r.path))
	}
	v6 := r.prefix.Addr().Is6() || p.nextHop6
	fmt.Fprintf(&s, " next-hop %s", address(e.number, p.host, v6))
	if p.as != p.ownAS {
		fmt.Fprintf(&s, " as-path %v", append([]uint32{p.as}, r.path...))
	}
	list := func(what string, n int, value func(i int) string) {
		if n == 0 {
			return
		}
		fmt.Fprintf(&s, " %s [", what)
		for i := range n {
			s.WriteString(" " + value(i))
		}
		s.WriteString(" ]")
	}
	list("community", len(r.standard), func(i int) string { return fmt.Sprintf("%d:%d", r.standard[i][0], r.standard[i][1]) })
	list("large-community", len(r.large), func(i int) string { return fmt.Sprintf("%d:%d:%d", r.large[i][0], r.large[i][1], r.large[i][2]) })
	list("extended-community", len(r.targets), func(i int) string { return fmt.Sprintf("target:%d:%d", r.targets[i][0], r.targets[i][1]) })
	return s.String()
}

func (e *exabgpInstance) config(pipe string) string {
	p := e.peering
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("process routes {\nrun /bin/cat %s;\nencoder text;\n}", pipe)
	line("neighbor %s {\nrouter-id 192.0.2.2;\nlocal-address %s;\nlocal-as %d;\npeer-as %d;\nhold-time %d;", p.remote(e.cell), p.local(e.cell), p.as, p.ownAS, int(p.holdTime.Seconds()))
	line("group-updates false;\nadj-rib-out true;")
	if p.connects == ours {
		line("passive true;")
	}
	if p.md5 != "" {
		line("md5-password '%s';", p.md5)
	}
	if p.ttlSecurity {
		line("outgoing-ttl 255;\nincoming-ttl 255;")
	}
	line("capability {\nroute-refresh enable;")
	if p.restart > 0 {
		line("graceful-restart %d;", int(p.restart.Seconds()))
	}
	if p.addPath {
		line("add-path send;")
	}
	if p.twoByteAS {
		line("asn4 disable;")
	}
	if p.nextHop6 {
		line("nexthop enable;")
	}
	line("}\nfamily {")
	for _, v6 := range p.families() {
		line("%s unicast;", family(v6))
	}
	if p.nextHop6 {
		line("ipv6 unicast;") // without which it takes no IPv6 next hop
	}
	line("}")
	if p.addPath {
		line("add-path {\nipv4 unicast;\n}")
	}
	if p.nextHop6 {
		line("nexthop {\nipv4 unicast ipv6;\n}")
	}
	line("static {")
	for _, r := range p.routes {
		line("%s;", e.route(r))
	}
	line("}\napi {\nprocesses [ routes ];\n}\n}")
	return s.String()
}
