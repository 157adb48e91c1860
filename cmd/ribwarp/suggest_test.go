package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The distance of words is that of its definition, found by recursion.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	word := func() string {
		b := make([]byte, r.IntN(7))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 500 {
		if a, b := word(), word(); distance(a, b) != slow(a, b) {
			t.Fatalf("seed %d: %q and %q: %d, want %d", seed, a, b, distance(a, b), slow(a, b))
		}
	}
}

// What is wrong is named with its place, in words of who writes the file, and with what may have
// been meant.
func TestMessagesAboutTheFileSayWhatToDo(t *testing.T) {
	const peer = "[[serve.peer]]\nname = \"lab\"\nprefix = \"198.51.100.0/24\"\nasn = 64501\nlimit = 5\n"
	for _, c := range []struct{ text, want string }{
		{"[serve]\nrouter-idd = \"x\"\n", `unknown key "serve.router-idd": ribwarp serve has no such flag: did you mean "router-id"?`},
		{"[serve.snapshots]\nfile = \"x\"\n", `[serve.snapshots]: there is no such section: did you mean "snapshot"?`},
		{"[serve.speed]\nx = 1\n", "there are bmp, igp, peer, policy, prefix-lists, rpki, snapshot, table"},
		{"[serve]\nxyzzy = 1\n", "past-interval, peer, policy, prefix-lists, ready-timeout"},
		{"[serv]\nasn = 1\n", `[serv]: there is no such command: did you mean "serve"?`},
		{"loglevel = \"info\"\n", `did you mean "log-level"?`},
		{"[serve.policy.p]\nthen = \"accept\"\n[[serve.policy.p.terms]]\naction = \"accept\"\nas-pth = [\"1\"]\n", `"serve.policy.p.terms.as-pth": did you mean "as-path"?`},
		{"[serve.rpki]\nrefresh-time = \"1h\"\n", `"serve.rpki.refresh-time": there are caches, expire, files, refresh, reread, retry`},
		{"[[serve.bmp.router]]\nvrftable = \"x\"\n", `did you mean "vrf-table"?`},
		{"[serve]\nasn = -4\n", `key "serve.asn": -4 is no number from 0 to 4294967295`},
		{"[serve]\nready-timeout = 60\n", `key "serve.ready-timeout": 60 is no time such as`},
		{"[serve]\nmax-bulk = -1\n", `key "serve.max-bulk": -1: it is positive, or 0 for the default`},
		{"[serve]\nmax-wait = \"-1s\"\n", `key "serve.max-wait": -1s: it is not negative`},
		{"[serve]\ndrain-timeout = \"-1s\"\n", `key "serve.drain-timeout": -1s: it is not negative`},
		{"[serve]\npast-interval = \"-1s\"\n", `key "serve.past-interval": -1s: it is not negative`},
		{"[serve]\nengine = \"warp\"\n", `key "serve.engine": "warp": use auto, cpu or cuda`},
		{"[serve]\ndevices = \"x\"\n", `key "serve.devices": "x": give different numbers`},
		{"[serve]\nflavor = \"vanilla\"\n", `key "serve.flavor": "vanilla": use pushed or list`},
		{"[serve]\nstrides4 = \"16,8\"\n", `key "serve.strides4": "16,8": `},
		{"[serve]\ndestination-cache = -1\n", `key "serve.destination-cache": -1: give a number`},
		{"[serve]\ntrusted-proxy = [\"nobody\"]\n", `key "serve.trusted-proxy": "nobody": give an address or a prefix`},
		{"[serve]\n\n[serve.bmp]\nlisten = \"127.0.0.1:1\"\n", `line 4, at key "serve.bmp.listen": it is text, and has to be an array`},
		{"[serve.policy.p]\nipv4-length = 24\n", `line 2, at key "serve.policy.p.ipv4-length": it is a number, and has to be an array`},
		{"[[serve.bmp.router]]\nmax-routes = \"all\"\n", `it is text, and has to be a number`},
		{"[serve]\nrouter-id = 192.0.2.1\n", "line 2"},
		{peer + "imprt = \"accept\"\n", `serve.peer, number 1: lab: "imprt" is unknown: did you mean "import"?`},
		{peer + "passive = \"yes\"\n", "serve.peer, number 1: lab: passive has to be true or false"},
		{peer + "import = true\n", "serve.peer, number 1: lab: import has to be text or a number"},
		{strings.Replace(peer, "100.0/", "100.1/", 1), "lab: 198.51.100.1/24 has bits behind its length: the prefix is 198.51.100.0/24"},
	} {
		config := file(t, "ribwarp.toml", c.text)
		code, _, stderr := call(t, "", "serve", "--check", "--config", config)
		if code != exitFailed || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "config "+config) {
			t.Errorf("%q: exit code %d, %q, want %q", c.text, code, stderr, c.want)
		}
	}
}
