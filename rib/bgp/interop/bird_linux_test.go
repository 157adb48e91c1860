package interop

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

const birdProgram = "/usr/sbin/bird"

var bird = &implementation{
	name: "BIRD", debian: "bird2", program: birdProgram, version: []string{"--version"},
	lacks: map[string]string{"hold timer: routes are kept (RFC 8538)": "2.0.12 does not have the N bit of graceful restart"},
	start: func(c *cell, dir string, p *peering) instance {
		b := &birdInstance{cell: c, dir: dir, peering: p}
		c.write(b.path("bird.conf"), b.config())
		args := []string{"-f", "-c", b.path("bird.conf"), "-s", b.path("ctl"), "-P", b.path("pid")}
		if p.restarted {
			args = append(args, "-R")
		}
		b.running = c.run(dir, nil, birdProgram, args...)
		return b
	},
}

type birdInstance struct {
	*cell
	dir     string
	peering *peering
	running *process
}

func (b *birdInstance) path(name string) string { return filepath.Join(b.dir, name) }

func (b *birdInstance) process() *process { return b.running }

func (b *birdInstance) announce(routes []route) {
	b.Helper()
	b.peering.routes = routes
	b.write(b.path("bird.conf"), b.config())
	var conn net.Conn
	b.await("BIRD's socket", func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", b.path("ctl"))
		return err == nil
	})
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintln(conn, "configure")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "0003"), strings.HasPrefix(line, "0004"): // done, or in progress
			return
		case strings.HasPrefix(line, "8"), strings.HasPrefix(line, "9"):
			b.Fatalf("BIRD configure: %s", line)
		}
	}
	b.Fatalf("BIRD configure: no answer: %v", lines.Err())
}

func (b *birdInstance) config() string {
	p := b.peering
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("log stderr all;\nrouter id 192.0.2.2;\ngraceful restart wait 60;\nprotocol device {}")
	for _, v6 := range p.families() {
		// The second path to a prefix is another protocol's.
		left := of(p.routes, v6)
		for n := 0; len(left) > 0; n++ {
			seen := make(map[string]bool)
			var later []route
			line("protocol static { %s { preference %d; };", family(v6), 200-n)
			for _, r := range left {
				if seen[r.prefix.String()] {
					later = append(later, r)
					continue
				}
				seen[r.prefix.String()] = true
				line("route %s blackhole { %s };", r.prefix, birdAttributes(r))
			}
			line("}")
			left = later
		}
	}
	line("protocol bgp ribwarp {")
	line("local %s port 179 as %d;\nneighbor %s port 179 as %d;\nstrict bind yes;", p.local(b.cell), p.as, p.remote(b.cell), p.ownAS)
	line("connect delay time 1; connect retry time 1; error wait time 1, 1; hold time %d;", int(p.holdTime.Seconds()))
	switch {
	case p.ttlSecurity:
		line("multihop 1; ttl security on;")
	default:
		line("multihop;")
	}
	if p.connects == ours {
		line("passive;")
	}
	if p.md5 != "" {
		line("password %q;", p.md5)
	}
	if p.role != "" {
		line("local role %s; require roles on;", p.role)
	}
	if p.restart > 0 {
		line("graceful restart on; graceful restart time %d;", int(p.restart.Seconds()))
	}
	if p.longLived > 0 {
		line("long lived graceful restart on; long lived stale time %d;", int(p.longLived.Seconds()))
	}
	if p.extended {
		line("enable extended messages on;")
	}
	if p.twoByteAS {
		line("enable as4 off;")
	}
	for _, v6 := range p.families() {
		line("%s { import none; export all;", family(v6))
		switch {
		case p.nextHop6 && !v6:
			line("extended next hop on; next hop address %s;", address(b.number, p.host, true))
		case v6 == p.over6:
			line("next hop self;")
		default:
			line("next hop address %s;", address(b.number, p.host, v6))
		}
		if p.addPath {
			line("add paths tx;")
		}
		line("};")
	}
	line("}")
	return s.String()
}

func birdAttributes(r route) string {
	var s strings.Builder
	for _, as := range reversed(r.path) {
		fmt.Fprintf(&s, "bgp_path.prepend(%d); ", as)
	}
	for _, x := range r.standard {
		fmt.Fprintf(&s, "bgp_community.add((%d,%d)); ", x[0], x[1])
	}
	for _, x := range r.large {
		fmt.Fprintf(&s, "bgp_large_community.add((%d,%d,%d)); ", x[0], x[1], x[2])
	}
	for _, x := range r.targets {
		fmt.Fprintf(&s, "bgp_ext_community.add((rt,%d,%d)); ", x[0], x[1])
	}
	return s.String()
}
