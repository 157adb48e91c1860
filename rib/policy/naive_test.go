package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// naive reads a configuration anew for every route, in the words of docs/policy.md.
func naive(c *Config, name string, origins Origins, localAS uint32, p netip.Prefix, a *rib.Attrs) rib.Reject {
	pc := c.Policies[name]
	is4 := p.Addr().Is4()
	state := origins.Validate(p, naiveOrigin(a, localAS))
	switch {
	case pc.Martians != "accept" && martian(p):
		return rib.RejectMartian
	case p.Bits() == 0 && pc.DefaultRoute != "accept":
		return rib.RejectPrefix
	case p.Bits() > 0 && is4 && pc.IPv4Length != nil && !naiveBounds(pc.IPv4Length, p.Bits()):
		return rib.RejectPrefix
	case p.Bits() > 0 && !is4 && pc.IPv6Length != nil && !naiveBounds(pc.IPv6Length, p.Bits()):
		return rib.RejectPrefix
	case pc.MaxASPath > 0 && a.ASPath.Len() > pc.MaxASPath:
		return rib.RejectASPath
	case pc.RejectASSets && strings.ContainsAny(a.ASPath.String(), "{["):
		return rib.RejectASPath
	case pc.RPKI != "" && state == rpki.Invalid:
		return rib.RejectRPKI
	case pc.RPKI == "require-valid" && state != rpki.Valid:
		return rib.RejectRPKI
	}
	reason := rib.RejectPrefix
	for _, t := range pc.Terms {
		if naiveTerm(c, t, p, a, state) {
			if t.Action == "accept" {
				return rib.Accepted
			}
			return naiveReason(t)
		}
		if t.Action == "accept" {
			reason = naiveReason(t)
		}
	}
	if pc.Then == "accept" {
		return rib.Accepted
	}
	return reason
}

func naiveTerm(c *Config, t TermConfig, p netip.Prefix, a *rib.Attrs, state rpki.State) bool {
	is4 := p.Addr().Is4()
	family := map[bool]string{true: "ipv4", false: "ipv6"}[is4]
	if t.Family != "" && t.Family != family {
		return false
	}
	if t.IPv4Length != nil || t.IPv6Length != nil {
		of := t.IPv6Length
		if is4 {
			of = t.IPv4Length
		}
		if of == nil && t.Family == "" || of != nil && !naiveBounds(of, p.Bits()) {
			return false
		}
	}
	if t.PrefixLists != nil && !slices.ContainsFunc(t.PrefixLists, func(name string) bool {
		return slices.ContainsFunc(c.PrefixLists[name], func(s string) bool { return naiveEntry(s, p) })
	}) {
		return false
	}
	if t.RPKI != nil && !slices.Contains(t.RPKI, state.String()) {
		return false
	}
	if t.ASPathLength != nil && !naiveBounds(t.ASPathLength, a.ASPath.Len()) {
		return false
	}
	text := a.ASPath.String()
	if t.ASPath != nil && !slices.ContainsFunc(t.ASPath, func(s string) bool {
		return regexp.MustCompile(strings.ReplaceAll(s, "_", `(^|$|[^0-9])`)).MatchString(text)
	}) {
		return false
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if t.ASPathContains != nil && !slices.ContainsFunc(t.ASPathContains, func(as uint32) bool { return slices.Contains(words, fmt.Sprint(as)) }) {
		return false
	}
	if t.Origin != nil && !slices.ContainsFunc(a.ASPath.Origins(), func(as uint32) bool { return slices.Contains(t.Origin, as) }) {
		return false
	}
	all := slices.Concat(a.Communities.Strings(), a.LargeCommunities.Strings(), a.ExtCommunities.Strings())
	there := func(pattern string) bool {
		return slices.ContainsFunc(all, func(c string) bool {
			want, got := strings.Split(pattern, ":"), strings.Split(c, ":")
			return len(want) == len(got) && slices.EqualFunc(want, got, func(w, g string) bool {
				return w == "*" && !strings.Contains(g, "r") && !strings.Contains(g, "s") || w == g
			})
		})
	}
	if t.CommunitiesAny != nil && !slices.ContainsFunc(t.CommunitiesAny, there) {
		return false
	}
	for _, pattern := range t.CommunitiesAll {
		if !there(pattern) {
			return false
		}
	}
	return true
}

func naiveReason(t TermConfig) rib.Reject {
	switch {
	case t.CommunitiesAny != nil || t.CommunitiesAll != nil:
		return rib.RejectCommunity
	case t.ASPath != nil || t.ASPathContains != nil || t.ASPathLength != nil || t.Origin != nil:
		return rib.RejectASPath
	case t.RPKI != nil:
		return rib.RejectRPKI
	}
	return rib.RejectPrefix
}

func naiveOrigin(a *rib.Attrs, localAS uint32) uint32 {
	text := a.ASPath.String()
	if text == "" || strings.HasSuffix(text, ")") || strings.HasSuffix(text, "]") {
		return localAS
	}
	n, _ := strconv.ParseUint(text[strings.LastIndexByte(text, ' ')+1:], 10, 32) // 0 for a set
	return uint32(n)
}

func naiveBounds(b []int, n int) bool { return b[0] <= n && n <= b[1] }

func naiveEntry(s string, p netip.Prefix) bool {
	fields := strings.Fields(s)
	around := netip.MustParsePrefix(fields[0])
	least, most := around.Bits(), around.Bits()
	for i := 1; i < len(fields); i += 2 {
		n, _ := strconv.Atoi(fields[i+1])
		if fields[i] == "ge" {
			least = n
			if len(fields) == 3 {
				most = around.Addr().BitLen()
			}
		} else {
			most = n
		}
	}
	return around.Contains(p.Addr()) && p.Bits() >= around.Bits() && p.Bits() >= least && p.Bits() <= most
}

// maker makes random configurations and routes of few numbers, so that they meet.
type maker struct{ *rand.Rand }

func (m maker) prefix() netip.Prefix {
	b := []byte{20, byte(m.IntN(2)), byte(m.IntN(3)), 0}
	switch m.IntN(8) {
	case 0, 1, 2:
		b = append([]byte{0x2a, 0, byte(m.IntN(2)), byte(m.IntN(2))}, make([]byte, 12)...)
	case 3:
		b[0] = 10
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, m.IntN(a.BitLen()+1)*m.IntN(12)/11).Masked()
}

func (m maker) as() uint32 { return 1 + m.Uint32N(5) }

func (m maker) attrs() (a rib.Attrs) {
	for range m.IntN(4) {
		s := rib.Segment{Type: uint8(1 + m.IntN(4))}
		if m.IntN(2) == 0 {
			s.Type = rib.SegmentSequence
		}
		for range 1 + m.IntN(3) {
			s.ASNs = append(s.ASNs, m.as())
		}
		a.ASPath += rib.MakeASPath(s)
	}
	for range m.IntN(3) {
		a.Communities += rib.MakeCommunities(m.as()<<16 | m.as())
		a.LargeCommunities += rib.MakeLargeCommunities([3]uint32{m.as(), m.as(), m.as()})
		a.ExtCommunities += rib.MakeExtCommunities([8]byte{byte(2 * m.IntN(2)), byte(2 + m.IntN(2)), 0, byte(m.IntN(2)), 0, byte(m.IntN(2)), 0, byte(m.as())})
	}
	return a
}

func (m maker) bounds(most int) []int {
	if m.IntN(3) > 0 {
		return nil
	}
	least := m.IntN(most + 1)
	return []int{least, least + m.IntN(most+1-least)}
}

// some gives one to three of what make gives, or nothing.
func some[V any](m maker, one func() V) []V {
	if m.IntN(4) > 0 {
		return nil
	}
	var all []V
	for range 1 + m.IntN(3) {
		all = append(all, one())
	}
	return all
}

func (m maker) number() string {
	if m.IntN(3) == 0 {
		return "*"
	}
	return fmt.Sprint(m.as())
}

func (m maker) community() string {
	parts := []string{m.number(), m.number()}
	switch m.IntN(4) {
	case 0:
		parts = append(parts, m.number())
	case 1:
		parts = append([]string{"rt"}, parts...)
	case 2:
		parts = append([]string{"soo"}, parts...)
	}
	return strings.Join(parts, ":")
}

func (m maker) entry() string {
	p := m.prefix()
	longest := p.Addr().BitLen()
	ge := p.Bits() + m.IntN(longest-p.Bits()+1)
	switch m.IntN(4) {
	case 0:
		return p.String()
	case 1:
		return fmt.Sprintf("%s ge %d", p, ge)
	case 2:
		return fmt.Sprintf("%s le %d", p, ge)
	}
	return fmt.Sprintf("%s le %d ge %d", p, ge+m.IntN(longest-ge+1), ge)
}

func (m maker) term() TermConfig {
	action := []string{"accept", "reject"}[m.IntN(2)]
	t := TermConfig{Action: action, Family: []string{"", "", "ipv4", "ipv6"}[m.IntN(4)]}
	if t.Family != "ipv6" {
		t.IPv4Length = m.bounds(32)
	}
	if t.Family != "ipv4" {
		t.IPv6Length = m.bounds(128)
	}
	t.PrefixLists = some(m, func() string { return []string{"a", "b", "c"}[m.IntN(3)] })
	t.ASPath = some(m, func() string {
		return []string{"^1_", "_2$", "_3_4_", "^$", "[{]", "_5_", `^\d \d$`}[m.IntN(7)]
	})
	t.ASPathContains, t.Origin = some(m, m.as), some(m, m.as)
	t.ASPathLength = m.bounds(6)
	t.CommunitiesAny, t.CommunitiesAll = some(m, m.community), some(m, m.community)
	t.RPKI = some(m, func() string { return []string{"valid", "invalid", "not-found"}[m.IntN(3)] })
	return t
}

func (m maker) config() Config {
	c := Config{PrefixLists: map[string][]string{}, Policies: map[string]PolicyConfig{}}
	for _, name := range []string{"a", "b", "c"} {
		for range 1 + m.IntN(6) {
			c.PrefixLists[name] = append(c.PrefixLists[name], m.entry())
		}
	}
	word := func() string { return []string{"", "accept", "reject"}[m.IntN(3)] }
	p := PolicyConfig{Martians: word(), DefaultRoute: word(), Then: []string{"accept", "reject"}[m.IntN(2)]}
	if m.IntN(4) == 0 {
		p.RPKI = []string{"reject-invalid", "require-valid"}[m.IntN(2)]
		p.MaxASPath = m.IntN(5)
		p.IPv4Length, p.IPv6Length = m.bounds(32), m.bounds(128)
	}
	p.RejectASSets = m.IntN(8) == 0
	for range m.IntN(5) {
		t := m.term()
		for t.Family == "" && naiveReason(t) == rib.RejectPrefix && t.IPv4Length == nil && t.IPv6Length == nil && t.PrefixLists == nil {
			t = m.term() // one that matches all would make the next ones an error
		}
		p.Terms = append(p.Terms, t)
	}
	c.Policies["p"] = p
	return c
}

func TestNaive(t *testing.T) {
	seeds := rand.Uint64()
	t.Logf("seeds from %d", seeds)
	var seen [rib.NumRejects]int
	for seed := seeds; seed < seeds+400; seed++ {
		m := maker{rand.New(rand.NewPCG(seed, 3))}
		c := m.config()
		var table []rpki.VRP
		for range m.IntN(10) {
			if p := m.prefix(); p.Bits() > 0 {
				table = append(table, rpki.VRP{Prefix: p, MaxLen: uint8(p.Addr().BitLen()), ASN: m.as()})
			}
		}
		origins := vrps(t, table...)
		s, err := Compile(c, origins)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		i, err := s.For("p", Peer{LocalAS: 3})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			a := m.attrs()
			for range 1 + m.IntN(4) {
				p := m.prefix()
				got, want := i.Check(p, &a), naive(&c, "p", origins, 3, p, &a)
				if got != want {
					t.Fatalf("seed %d: %s of path %q, communities %v %v %v: %v, want %v\n%+v", seed, p, a.ASPath, a.Communities.Strings(),
						a.LargeCommunities.Strings(), a.ExtCommunities.Strings(), got, want, c)
				}
				seen[got]++
			}
		}
	}
	for r, n := range seen {
		switch r := rib.Reject(r); r {
		case rib.Accepted, rib.RejectMartian, rib.RejectPrefix, rib.RejectASPath, rib.RejectCommunity, rib.RejectRPKI:
			if n < 100 {
				t.Errorf("%v was the answer %d times only", r, n)
			}
		}
	}
}
