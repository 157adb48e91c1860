package policy

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// compiled compiles a configuration as a file has it.
func compiled(t testing.TB, text string, origins Origins) (*Set, error) {
	t.Helper()
	var c Config
	meta, err := toml.Decode(text, &c)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if keys := meta.Undecoded(); len(keys) > 0 {
		t.Fatalf("%s: no such keys: %v", text, keys)
	}
	return Compile(c, origins)
}

func importOf(t testing.TB, text, name string, origins Origins) rib.Import {
	t.Helper()
	s, err := compiled(t, text, origins)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.For(name, Peer{LocalAS: 64999})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// vrps are a table of the RPKI.
func vrps(t testing.TB, all ...rpki.VRP) *rpki.Table {
	t.Helper()
	table, err := rpki.NewTable(all)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func sequence(asns ...uint32) rib.ASPath {
	return rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})
}

func set(path rib.ASPath, asns ...uint32) rib.ASPath {
	return path + rib.MakeASPath(rib.Segment{Type: rib.SegmentSet, ASNs: asns})
}

// A sent is a route of a test.
type sent struct {
	prefix string
	attrs  rib.Attrs
	want   rib.Reject
}

func path(asns ...uint32) rib.Attrs { return rib.Attrs{ASPath: sequence(asns...)} }

func TestReasons(t *testing.T) {
	table := vrps(t,
		rpki.VRP{Prefix: netip.MustParsePrefix("20.0.0.0/16"), MaxLen: 24, ASN: 64501},
		rpki.VRP{Prefix: netip.MustParsePrefix("21.0.0.0/16"), MaxLen: 16, ASN: 64999},
	)
	withCommunities := rib.Attrs{ASPath: sequence(64500, 64501), Communities: rib.MakeCommunities(64500<<16|1, 64500<<16|13)}
	for name, x := range map[string]struct {
		policy string // of the name p
		sent   []sent
	}{
		"AS sets": {"reject-as-sets = true\nthen = \"accept\"", []sent{
			{"20.0.0.0/8", path(1, 2), rib.Accepted},
			{"20.0.0.0/8", rib.Attrs{}, rib.Accepted},
			{"20.0.0.0/8", rib.Attrs{ASPath: set(sequence(1), 2, 3)}, rib.RejectASPath},
			{"20.0.0.0/8", rib.Attrs{ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentConfedSet, ASNs: []uint32{1}}) + sequence(2)}, rib.RejectASPath},
		}},
		"plain": {`then = "accept"`, []sent{
			{"20.0.0.0/8", path(1), rib.Accepted},
			{"2a00::/32", path(1), rib.Accepted},
			{"20.0.0.1/32", path(1), rib.Accepted},
			{"10.1.0.0/16", path(1), rib.RejectMartian},
			{"0.0.0.0/0", path(1), rib.RejectPrefix},
			{"::/0", path(1), rib.RejectPrefix},
		}},
		"martians and default routes": {"martians = \"accept\"\ndefault-route = \"accept\"\nthen = \"accept\"", []sent{
			{"10.1.0.0/16", path(1), rib.Accepted},
			{"0.0.0.0/0", path(1), rib.Accepted},
			{"::/0", path(1), rib.Accepted},
		}},
		"bounds": {"ipv4-length = [8, 24]\nipv6-length = [16, 48]\nmax-as-path = 2\ndefault-route = \"accept\"\nthen = \"accept\"", []sent{
			{"20.0.0.0/7", path(1), rib.RejectPrefix},
			{"20.0.0.0/8", path(1, 2), rib.Accepted},
			{"20.0.0.0/24", path(1), rib.Accepted},
			{"20.0.0.0/25", path(1), rib.RejectPrefix},
			{"2a00::/15", path(1), rib.RejectPrefix},
			{"2a00::/16", path(1), rib.Accepted},
			{"2a00::/48", path(1), rib.Accepted},
			{"2a00::/49", path(1), rib.RejectPrefix},
			{"0.0.0.0/0", path(1), rib.Accepted},
			{"20.0.0.0/8", path(1, 2, 3), rib.RejectASPath},
			{"20.0.0.0/8", rib.Attrs{ASPath: set(sequence(1), 2, 3, 4)}, rib.Accepted},
		}},
		"reject-invalid": {"rpki = \"reject-invalid\"\nthen = \"accept\"", []sent{
			{"20.0.0.0/16", path(1, 64501), rib.Accepted},
			{"20.0.0.0/16", path(64501, 1), rib.RejectRPKI},
			{"20.0.0.0/25", path(1, 64501), rib.RejectRPKI},
			{"22.0.0.0/16", path(1), rib.Accepted},
			{"20.0.0.0/16", rib.Attrs{ASPath: set(sequence(1), 64501)}, rib.RejectRPKI},
			{"22.0.0.0/16", rib.Attrs{ASPath: set(sequence(1), 64501)}, rib.Accepted},
			{"21.0.0.0/16", rib.Attrs{}, rib.Accepted}, // our own
			{"21.0.0.0/16", rib.Attrs{ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentConfedSequence, ASNs: []uint32{5}})}, rib.Accepted},
			{"20.0.0.0/16", rib.Attrs{}, rib.RejectRPKI},
		}},
		"require-valid": {"rpki = \"require-valid\"\nthen = \"accept\"", []sent{
			{"20.0.0.0/16", path(1, 64501), rib.Accepted},
			{"20.0.0.0/16", path(1), rib.RejectRPKI},
			{"22.0.0.0/16", path(1), rib.RejectRPKI},
		}},
		"terms in order": {`then = "reject"
[[policies.p.terms]]
action = "reject"
as-path = ["_64501_64502_"]
[[policies.p.terms]]
action = "accept"
family = "ipv4"
as-path-contains = [64502, 64503]
[[policies.p.terms]]
action = "reject"
communities-any = ["64500:13", "64500:14"]
[[policies.p.terms]]
action = "accept"
communities-all = ["64500:1"]
[[policies.p.terms]]
action = "reject"
ipv6-length = [49, 128]
[[policies.p.terms]]
action = "accept"
prefix-lists = ["l"]
`, []sent{
			{"20.0.0.0/16", path(64501, 64502), rib.RejectASPath},
			{"20.0.0.0/16", path(64501, 64503, 64502), rib.Accepted},
			{"2a00::/20", path(64501, 64503, 64502), rib.Accepted},
			{"2b00::/20", path(64501, 64503, 64502), rib.RejectPrefix},
			{"2b00::/20", withCommunities, rib.RejectCommunity},
			{"2b00::/20", rib.Attrs{Communities: rib.MakeCommunities(64500<<16 | 1)}, rib.Accepted},
			{"2a00::/48", path(1), rib.Accepted},
			{"2a00::/49", path(1), rib.RejectPrefix},
			{"20.0.0.0/8", path(1), rib.Accepted},
			{"20.0.0.0/24", path(1), rib.Accepted},
			{"20.0.0.0/25", path(1), rib.RejectPrefix},
			{"20.1.0.0/25", path(1), rib.Accepted},
			{"20.1.0.0/24", path(1), rib.Accepted}, // by the entry around
			{"20.1.0.0/27", path(1), rib.RejectPrefix},
			{"20.0.0.0/7", path(1), rib.RejectPrefix},
			{"2a00::/19", path(1), rib.RejectPrefix},
		}},
		"reason of the last acceptance": {`then = "reject"
[[policies.p.terms]]
action = "accept"
prefix-lists = ["l"]
[[policies.p.terms]]
action = "accept"
origin = [64501]
`, []sent{
			{"30.0.0.0/8", path(64501, 1), rib.RejectASPath},
			{"30.0.0.0/8", path(1, 64501), rib.Accepted},
			{"30.0.0.0/8", rib.Attrs{ASPath: set(sequence(1), 64501, 64502)}, rib.Accepted},
			{"30.0.0.0/8", rib.Attrs{}, rib.RejectASPath},
		}},
		"states": {`then = "accept"
[[policies.p.terms]]
action = "reject"
rpki = ["invalid"]
[[policies.p.terms]]
action = "accept"
rpki = ["valid"]
ipv4-length = [0, 32]
[[policies.p.terms]]
action = "reject"
ipv4-length = [23, 32]
`, []sent{
			{"20.0.0.0/24", path(64501), rib.Accepted},
			{"20.0.0.0/24", path(64502), rib.RejectRPKI},
			{"22.0.0.0/24", path(64502), rib.RejectPrefix},
			{"22.0.0.0/22", path(64502), rib.Accepted},
		}},
		"path length": {`then = "accept"
[[policies.p.terms]]
action = "reject"
as-path-length = [0, 1]
`, []sent{
			{"20.0.0.0/24", path(1), rib.RejectASPath},
			{"20.0.0.0/24", rib.Attrs{}, rib.RejectASPath},
			{"20.0.0.0/24", path(1, 2), rib.Accepted},
		}},
		"nothing of the other family": {`then = "accept"
[[policies.p.terms]]
action = "reject"
family = "ipv6"
[[policies.p.terms]]
action = "reject"
family = "ipv4"
ipv4-length = [25, 32]
`, []sent{
			{"2a00::/16", path(1), rib.RejectPrefix},
			{"20.0.0.0/24", path(1), rib.Accepted},
			{"20.0.0.0/25", path(1), rib.RejectPrefix},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "[prefix-lists]\nl = [\"20.0.0.0/8 le 24\", \"20.1.0.0/16 ge 25 le 26\", \"2a00::/16 ge 20\"]\n[policies.p]\n" + x.policy
			i := importOf(t, text, "p", table)
			for _, r := range x.sent {
				if got := i.Check(netip.MustParsePrefix(r.prefix), &r.attrs); got != r.want {
					t.Errorf("%s %q %v: %v, want %v", r.prefix, r.attrs.ASPath, r.attrs.Communities.Strings(), got, r.want)
				}
			}
		})
	}
}

func TestBuiltIn(t *testing.T) {
	s, err := Compile(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][3]rib.Reject{
		Accept:    {rib.Accepted, rib.Accepted, rib.RejectMartian},
		AcceptAll: {rib.Accepted, rib.Accepted, rib.Accepted},
		Reject:    {rib.RejectPrefix, rib.RejectPrefix, rib.RejectPrefix},
	} {
		i, err := s.For(name, Peer{})
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range []string{"20.0.0.0/8", "0.0.0.0/0", "10.0.0.0/8"} {
			got := rib.Accepted // what a RIB does without an Import
			if i != nil {
				got = i.Check(netip.MustParsePrefix(p), &rib.Attrs{})
			}
			if got != want[n] {
				t.Errorf("%s: %s is %v, want %v", name, p, got, want[n])
			}
		}
		if s.AsksRPKI(name) {
			t.Errorf("%s asks the RPKI", name)
		}
	}
	if _, err := s.For("other", Peer{}); err == nil || err.Error() != `there is no policy "other"; there are accept, reject, accept-all` {
		t.Errorf("error %v", err)
	}
}

func TestAsksRPKI(t *testing.T) {
	s, err := compiled(t, `
[policies.a]
rpki = "reject-invalid"
then = "accept"
[policies.b]
then = "reject"
[[policies.b.terms]]
action = "accept"
rpki = ["valid", "not-found"]
[policies.c]
then = "reject"
`, vrps(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false} {
		if s.AsksRPKI(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestMartians(t *testing.T) {
	for p, want := range map[string]bool{
		"0.0.0.0/0": false, "0.0.0.0/8": true, "0.0.0.0/7": false, "10.0.0.0/8": true, "10.255.255.255/32": true, "11.0.0.0/8": false,
		"100.64.0.0/10": true, "100.0.0.0/8": false, "100.128.0.0/10": false, "127.0.0.1/32": true, "169.254.0.0/16": true,
		"172.16.0.0/12": true, "172.32.0.0/16": false, "192.0.0.0/24": true, "192.0.0.8/32": true, "192.0.0.9/32": false,
		"192.0.2.0/25": true, "192.0.0.0/16": false, "192.168.0.0/16": true, "192.88.99.0/24": false, "192.31.196.0/24": false,
		"198.18.0.0/15": true, "198.20.0.0/15": false, "198.51.100.0/24": true, "203.0.113.0/24": true, "224.0.0.0/8": true, "239.1.0.0/16": true,
		"240.0.0.0/4": true, "255.255.255.255/32": true, "128.0.0.0/1": false,
		"::/0": false, "::/128": true, "::1/128": true, "::/96": false, "::ffff:10.0.0.0/104": true, "::ffff:0:0/96": true, "64:ff9b::/96": false,
		"64:ff9b:1::/48": true, "100::/64": true, "100:0:0:1::/64": true, "100:0:0:2::/64": false, "2001::/23": true, "2001::/32": false, "2001:2::/48": true,
		"2001:3::/32": false, "2001:4:112::/48": false, "2001:10::/28": true, "2001:20::/28": false, "2001:200::/23": false, "2001:db8:1::/48": true,
		"2002::/16": false, "2620:4f:8000::/48": false, "2a00::/12": false, "3fff::/20": true, "3fff:1000::/20": false, "5f00::/16": true,
		"fc00::/7": true, "fd00::/8": true, "fe80::/64": true, "fec0::/10": false, "ff02::/16": true, "2001:1::1/128": false, "2001:1::/64": true,
	} {
		if got := martian(netip.MustParsePrefix(p)); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}

// Whatever is wrong is said with the policy and the term.
func TestBadConfig(t *testing.T) {
	term := func(s string) string {
		return "[policies.p]\nthen = \"accept\"\n[[policies.p.terms]]\naction = \"accept\"\nfamily = \"ipv4\"\n[[policies.p.terms]]\nname = \"x\"\naction = \"reject\"\n" + s
	}
	const inTerm = `policy "p", term 2 ("x"): `
	for _, x := range []struct{ text, want string }{
		{"[prefix-lists]\nl = []", `prefix list "l": it is empty`},
		{"[prefix-lists]\nl = [\"\"]", `prefix list "l": entry "": give a prefix`},
		{"[prefix-lists]\nl = [\"10.0.0.0\"]", `"10.0.0.0" is no prefix`},
		{"[prefix-lists]\nl = [\"10.0.0.1/8\"]", `host bits: 10.0.0.0/8 would be`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 le\"]", `give a prefix, and lengths`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 le 33\"]", `le 33: give a length from 8 to 32`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 ge 7\"]", `ge 7: give a length from 8 to 32`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 ge 20 le 19\"]", `ge 20 is more than le 19`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 ge 20 ge 19\"]", `has ge twice`},
		{"[prefix-lists]\nl = [\"10.0.0.0/8 eq 20\"]", `"eq" is neither ge nor le`},
		{"[policies.accept]\nthen = \"accept\"", `policy "accept": this is the name of a built-in one`},
		{"[policies.p]", `policy "p": then is missing: give "accept" or "reject"`},
		{"[policies.p]\nthen = \"drop\"", `policy "p": then is "drop"`},
		{"[policies.p]\nmartians = \"no\"\nthen = \"accept\"", `policy "p": martians is "no"`},
		{"[policies.p]\ndefault-route = \"no\"\nthen = \"accept\"", `policy "p": default-route is "no"`},
		{"[policies.p]\nrpki = \"valid\"\nthen = \"accept\"", `policy "p": rpki is "valid": give "reject-invalid" or "require-valid"`},
		{"[policies.p]\nrpki = \"reject-invalid\"\nthen = \"accept\"", `policy "p" asks the RPKI: configure`},
		{"[policies.p]\nmax-as-path = -1\nthen = \"accept\"", `policy "p": max-as-path is -1`},
		{"[policies.p]\nipv4-length = [24, 8]\nthen = \"accept\"", `policy "p": ipv4-length is from 24 to 8: nothing is`},
		{"[policies.p]\nipv4-length = [8, 33]\nthen = \"accept\"", `ipv4-length is from 8 to 33: give bounds from 0 to 32`},
		{"[policies.p]\nipv6-length = []\nthen = \"accept\"", `ipv6-length has 0 numbers`},
		{"[policies.p]\nipv6-length = [-1, 4]\nthen = \"accept\"", `give bounds from 0 to 128`},
		{"[policies.p]\nthen = \"accept\"\n[[policies.p.terms]]\nfamily = \"ipv4\"", `policy "p", term 1: action is missing`},
		{"[policies.p]\nthen = \"accept\"\n[[policies.p.terms]]\naction = \"accept\"\n[[policies.p.terms]]\naction = \"accept\"", `policy "p", term 2: it is never reached: term 1 matches every route`},
		{term("prefix-lists = []"), inTerm + "prefix-lists is empty"},
		{term("prefix-lists = [\"l\"]"), inTerm + `there is no prefix list "l"`},
		{term("as-path = []"), inTerm + "as-path is empty"},
		{term("as-path = [\"(\"]"), inTerm + `as-path "(": `},
		{term("as-path = [\"\"]"), inTerm + `as-path: an empty expression`},
		{term("as-path = [\"[0-9_]\"]"), inTerm + `as-path "[0-9_]": _ stands for a border`},
		{term("as-path-contains = []"), inTerm + "as-path-contains is empty"},
		{term("as-path-contains = [0]"), inTerm + "0 is no AS number"},
		{term("as-path-length = [3]"), inTerm + "as-path-length has 1 numbers"},
		{term("origin = []"), inTerm + "origin is empty"},
		{term("origin = [0]"), inTerm + "0 is no AS number"},
		{term("communities-any = []"), inTerm + "communities-any is empty"},
		{term("communities-all = []"), inTerm + "communities-all is empty"},
		{term("communities-all = [\"1\"]"), inTerm + `community "1": a community is like`},
		{term("communities-all = [\"1:65536\"]"), inTerm + `community "1:65536": "65536" is neither * nor a number up to 65535`},
		{term("communities-all = [\"1:2:4294967296\"]"), inTerm + `community "1:2:4294967296": "4294967296" is neither * nor a number up to 4294967295`},
		{term("communities-any = [\"rt:x:1\"]"), inTerm + `community "rt:x:1": "x" is neither`},
		{term("communities-any = [\"rt:1:x\"]"), inTerm + `community "rt:1:x": "x" is neither`},
		{term("communities-any = [\"rt:70000:70000\"]"), inTerm + `community "rt:70000:70000": 70000 and 70000 do not fit`},
		{term("communities-any = [\"rt:192.0.2.1:70000\"]"), `do not fit`},
		{term("communities-any = [\"0x12\"]"), inTerm + `community "0x12": give 16 hexadecimal digits`},
		{term("rpki = []"), inTerm + "rpki is empty"},
		{term("rpki = [\"unknown\"]"), inTerm + `rpki has "unknown"`},
		{term("family = \"ip\""), inTerm + `family is "ip"`},
		{term("family = \"ipv6\"\nipv4-length = [1, 2]"), inTerm + `family is "ipv6", and there are bounds`},
	} {
		_, err := compiled(t, x.text, nil)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want %s", x.text, err, x.want)
		}
	}
}

// Many may ask one Import at a time; attributes that alternate do not mix.
func TestConcurrent(t *testing.T) {
	i := importOf(t, "[policies.p]\nthen = \"reject\"\n[[policies.p.terms]]\naction = \"accept\"\norigin = [7]\n", "p", nil)
	p := netip.MustParsePrefix("20.0.0.0/8")
	var all sync.WaitGroup
	for n := range uint32(4) {
		all.Go(func() {
			for k := range uint32(2000) {
				as := 6 + (k+n)%3
				a := path(as)
				if got := i.Check(p, &a); (got == rib.Accepted) != (as == 7) {
					t.Errorf("AS %d: %v", as, got)
				}
			}
		})
	}
	all.Wait()
}
