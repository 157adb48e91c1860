package interop

import (
	"fmt"
	"path/filepath"
	"strings"
)

const openbgpdProgram = "/usr/sbin/bgpd"

var openbgpd = &implementation{
	name: "OpenBGPD", debian: "openbgpd", program: openbgpdProgram, version: []string{"-V"}, root: true, onePath: true, ownPath: true,
	lacks: map[string]string{
		"IPv4 with IPv6 next hops (RFC 8950)":          "7.7 does not have it (bgpd.conf(5), announce)",
		"long messages (RFC 8654)":                     "7.7 does not have them (bgpd.conf(5), announce)",
		"route refresh (RFC 2918)":                     openbgpdRefresh,
		"enhanced route refresh (RFC 7313)":            openbgpdRefresh,
		"graceful restart: killed and back (RFC 4724)": openbgpdRestart,
		"hold timer: routes are kept (RFC 8538)":       openbgpdRestart,
		"long-lived graceful restart (RFC 9494)":       "7.7 does not have it (bgpd.conf(5), announce)",
	},
	start: func(c *cell, dir string, p *peering) instance {
		o := &openbgpdInstance{cell: c, dir: dir, peering: p}
		c.write(o.path("bgpd.conf"), o.config())
		o.running = c.run(dir, nil, openbgpdProgram, "-d", "-v", "-f", o.path("bgpd.conf"))
		return o
	},
}

const (
	openbgpdRefresh = `7.7 refuses a request for just those families that are negotiated ("AID IPv4 unicast not negotiated")`
	openbgpdRestart = "is a helper only: of the capability it has End-of-RIB (bgpd.conf(5), announce restart)"
)

type openbgpdInstance struct {
	*cell
	dir     string
	peering *peering
	running *process
}

func (o *openbgpdInstance) path(name string) string { return filepath.Join(o.dir, name) }

func (o *openbgpdInstance) process() *process { return o.running }

func (o *openbgpdInstance) announce(routes []route) {
	o.Helper()
	o.peering.routes = routes
	o.write(o.path("bgpd.conf"), o.config())
	o.command("/usr/sbin/bgpctl", "-s", o.path("socket"), "reload")
}

func (o *openbgpdInstance) config() string {
	p := o.peering
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("AS %d\nrouter-id 192.0.2.2\nlisten on %s\nsocket \"%s\"\nfib-update no\nconnect-retry 1\nholdtime %d\nholdtime min 3", p.as, p.local(o.cell), o.path("socket"), int(p.holdTime.Seconds()))
	for _, r := range p.routes {
		line("network %s set { nexthop %s %s }", r.prefix, address(o.number, p.host, r.prefix.Addr().Is6()), openbgpdAttributes(r))
	}
	neighbor := func(remote any, as uint32, more string) {
		line("neighbor %s {\nremote-as %d\nlocal-address %s\n%s\n}", remote, as, p.local(o.cell), more)
	}
	for _, x := range p.feeders {
		neighbor(address(o.number, x.host, p.over6), x.as, "passive\nmultihop 4")
	}
	var more []string
	add := func(format string, args ...any) { more = append(more, fmt.Sprintf(format, args...)) }
	switch {
	case p.ttlSecurity:
		add("ttl-security yes")
	case p.as != p.ownAS:
		add("multihop 4")
	}
	if p.connects == ours {
		add("passive")
	}
	for v6, name := range map[bool]string{false: "IPv4", true: "IPv6"} {
		what := "none"
		if p.carries(v6) {
			what = "unicast"
		}
		add("announce %s %s", name, what)
	}
	if p.addPath {
		add("announce add-path send all")
	}
	if p.twoByteAS {
		add("announce as-4byte no")
	}
	if p.enhanced {
		add("announce enhanced refresh yes")
	}
	if p.role != "" {
		add("announce policy %s enforce", p.role)
	}
	if p.md5 != "" {
		add("tcp md5sig password %s", p.md5)
	}
	neighbor(p.remote(o.cell), p.ownAS, strings.Join(more, "\n"))
	line("allow from any\nallow to any\nmatch to %s set nexthop no-modify", p.remote(o.cell)) // which it would take from any address of the interface
	return s.String()
}

func openbgpdAttributes(r route) string {
	all := []string{"origin igp"}
	for _, x := range r.standard {
		all = append(all, fmt.Sprintf("community %d:%d", x[0], x[1]))
	}
	for _, x := range r.large {
		all = append(all, fmt.Sprintf("large-community %d:%d:%d", x[0], x[1], x[2]))
	}
	for _, x := range r.targets {
		all = append(all, fmt.Sprintf("ext-community rt %d:%d", x[0], x[1]))
	}
	return strings.Join(all, " ")
}
