package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// A Set has compiled policies by name, the built-in ones among them. It does not change and is safe
// for concurrent use.
type Set struct {
	policies map[string]*policy
	origins  Origins
}

// A Peer is what a policy has to know of one.
type Peer struct {
	// LocalAS is our AS number, or for a peer seen over BMP its router's: the origin of a route with
	// an empty AS path.
	LocalAS uint32
}

// Compile makes a Set. An error names the policy and the term, or the prefix list. origins may be
// nil where nothing asks the RPKI.
func Compile(c Config, origins Origins) (*Set, error) {
	lists := map[string]*prefixList{}
	for _, name := range sortedKeys(c.PrefixLists) {
		l, err := compileList(c.PrefixLists[name])
		if err != nil {
			return nil, fmt.Errorf("prefix list %q: %w", name, err)
		}
		lists[name] = l
	}
	s := &Set{origins: origins, policies: map[string]*policy{
		Accept: {defaultRoute: true, lengths: [2]bounds{anything, anything}},
		Reject: {martians: true, defaultRoute: true, lengths: [2]bounds{anything, anything}, then: rib.RejectPrefix},
	}}
	for _, name := range sortedKeys(c.Policies) {
		if name == Accept || name == AcceptAll || name == Reject {
			return nil, fmt.Errorf("policy %q: this is the name of a built-in one: take another", name)
		}
		p, err := compile(c.Policies[name], lists)
		if err != nil {
			return nil, fmt.Errorf("policy %q%w", name, err)
		}
		if p.asksRPKI && origins == nil {
			return nil, fmt.Errorf("policy %q asks the RPKI: configure a cache or a file of VRPs", name)
		}
		s.policies[name] = p
	}
	return s, nil
}

// For gives what decides about a peer's routes; nil, which takes all, for "accept-all". Each peer
// has to get its own.
func (s *Set) For(name string, peer Peer) (rib.Import, error) {
	if name == AcceptAll {
		return nil, nil
	}
	p := s.policies[name]
	if p == nil {
		return nil, fmt.Errorf("there is no policy %q; there are %s", name, strings.Join(append(slices.Sorted(maps.Keys(s.policies)), AcceptAll), ", "))
	}
	return &importer{policy: p, origins: s.origins, localAS: peer.LocalAS}, nil
}

// AsksRPKI tells whether what a policy lets in depends on the RPKI, so that a peer's routes have to
// be reconsidered when that changes.
func (s *Set) AsksRPKI(name string) bool {
	p := s.policies[name]
	return p != nil && p.asksRPKI
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// compile makes one policy. Errors go on behind its name.
func compile(c PolicyConfig, lists map[string]*prefixList) (*policy, error) {
	p := &policy{maxASPath: c.MaxASPath, rejectASSets: c.RejectASSets}
	var err error
	wrong := func(err error) (*policy, error) { return nil, fmt.Errorf(": %w", err) }
	if p.martians, err = accepts("martians", c.Martians, reject); err != nil {
		return wrong(err)
	}
	if p.defaultRoute, err = accepts("default-route", c.DefaultRoute, reject); err != nil {
		return wrong(err)
	}
	if p.lengths, err = lengthBounds(c.IPv4Length, c.IPv6Length, anything); err != nil {
		return wrong(err)
	}
	if c.MaxASPath < 0 {
		return wrong(fmt.Errorf("max-as-path is %d: give a positive number", c.MaxASPath))
	}
	switch c.RPKI {
	case "":
	case rejectInvalid:
		p.validity, p.notFound = true, true
	case requireValid:
		p.validity = true
	default:
		return wrong(fmt.Errorf("rpki is %q: give %q or %q", c.RPKI, rejectInvalid, requireValid))
	}
	p.then = rib.RejectPrefix
	all := "" // the term that takes all
	for i, tc := range c.Terms {
		which := fmt.Sprintf("term %d", i+1)
		if tc.Name != "" {
			which = fmt.Sprintf("term %d (%q)", i+1, tc.Name)
		}
		t, err := compileTerm(tc, lists)
		if err == nil && all != "" {
			err = fmt.Errorf("it is never reached: %s matches every route", all)
		}
		if err != nil {
			return nil, fmt.Errorf(", %s: %w", which, err)
		}
		if !t.byPrefix && !t.byAttrs {
			all = which
		}
		if t.verdict == rib.Accepted {
			p.then = t.reason() // of what it does not take
		}
		p.terms = append(p.terms, t)
	}
	take, err := accepts("then", c.Then, "")
	if err != nil {
		return wrong(err)
	}
	if take {
		p.then = rib.Accepted
	}
	p.asksRPKI = p.validity || slices.ContainsFunc(p.terms, func(t *term) bool { return t.states != 0 })
	p.attributes = p.maxASPath > 0 || p.rejectASSets || p.asksRPKI || slices.ContainsFunc(p.terms, func(t *term) bool { return t.byAttrs })
	return p, nil
}

// accepts reads "accept" or "reject".
func accepts(key, word, fallback string) (bool, error) {
	if word == "" {
		word = fallback
	}
	switch word {
	case accept:
		return true, nil
	case reject:
		return false, nil
	case "":
		return false, fmt.Errorf("%s is missing: give %q or %q", key, accept, reject)
	}
	return false, fmt.Errorf("%s is %q: give %q or %q", key, word, accept, reject)
}

// pair reads two numbers as bounds.
func pair(key string, numbers []int, most int, fallback bounds) (bounds, error) {
	switch {
	case numbers == nil:
		return fallback, nil
	case len(numbers) != 2:
		return bounds{}, fmt.Errorf("%s has %d numbers: give the least and the greatest, as in [%d, %d]", key, len(numbers), 0, most)
	case numbers[0] > numbers[1]:
		return bounds{}, fmt.Errorf("%s is from %d to %d: nothing is", key, numbers[0], numbers[1])
	case numbers[0] < 0 || numbers[1] > most:
		return bounds{}, fmt.Errorf("%s is from %d to %d: give bounds from 0 to %d", key, numbers[0], numbers[1], most)
	}
	return bounds{numbers[0], numbers[1]}, nil
}

// lengthBounds reads those of both families.
func lengthBounds(v4, v6 []int, fallback bounds) (b [2]bounds, err error) {
	if b[ipv4], err = pair("ipv4-length", v4, 32, fallback); err != nil {
		return b, err
	}
	b[ipv6], err = pair("ipv6-length", v6, 128, fallback)
	return b, err
}

// nothing are bounds that no number is in.
var nothing = bounds{1, 0}

func compileTerm(c TermConfig, lists map[string]*prefixList) (*term, error) {
	take, err := accepts("action", c.Action, "")
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		key   string
		empty bool
	}{
		{"prefix-lists", c.PrefixLists != nil && len(c.PrefixLists) == 0}, {"as-path", c.ASPath != nil && len(c.ASPath) == 0},
		{"as-path-contains", c.ASPathContains != nil && len(c.ASPathContains) == 0}, {"origin", c.Origin != nil && len(c.Origin) == 0},
		{"communities-any", c.CommunitiesAny != nil && len(c.CommunitiesAny) == 0},
		{"communities-all", c.CommunitiesAll != nil && len(c.CommunitiesAll) == 0}, {"rpki", c.RPKI != nil && len(c.RPKI) == 0},
	} {
		if l.empty {
			return nil, fmt.Errorf("%s is empty: leave it out where it does not matter", l.key)
		}
	}
	t := &term{contains: c.ASPathContains, origins: c.Origin}
	if err := t.compilePrefix(c, lists); err != nil {
		return nil, err
	}
	if err := t.compileAttrs(c); err != nil {
		return nil, err
	}
	if !take {
		t.verdict = t.reason()
	}
	return t, nil
}

func (t *term) compilePrefix(c TermConfig, lists map[string]*prefixList) (err error) {
	fallback := anything
	if c.IPv4Length != nil || c.IPv6Length != nil {
		fallback = nothing // for the family that has no bounds
	}
	if t.lengths, err = lengthBounds(c.IPv4Length, c.IPv6Length, fallback); err != nil {
		return err
	}
	other := -1
	switch c.Family {
	case "":
	case "ipv4":
		other = ipv6
	case "ipv6":
		other = ipv4
	default:
		return fmt.Errorf("family is %q: give \"ipv4\" or \"ipv6\"", c.Family)
	}
	if other >= 0 {
		if given := [2][]int{c.IPv4Length, c.IPv6Length}; given[other] != nil {
			return fmt.Errorf("family is %q, and there are bounds for lengths of the other one", c.Family)
		}
		t.lengths[other] = nothing
	}
	for _, name := range c.PrefixLists {
		l := lists[name]
		if l == nil {
			return fmt.Errorf("there is no prefix list %q", name)
		}
		t.lists = append(t.lists, l)
	}
	for _, word := range c.RPKI {
		state := rpki.NotFound
		for state.String() != word {
			if state++; state > rpki.Invalid {
				return fmt.Errorf("rpki has %q: give \"valid\", \"invalid\" or \"not-found\"", word)
			}
		}
		t.states |= 1 << state
	}
	t.byPrefix = t.lengths != [2]bounds{anything, anything} || t.lists != nil || t.states != 0
	return nil
}

func (t *term) compileAttrs(c TermConfig) (err error) {
	if t.pathLength, err = pair("as-path-length", c.ASPathLength, anything.most, anything); err != nil {
		return err
	}
	for _, s := range c.ASPath {
		re, err := rib.ParseASPathPattern(s)
		if err != nil {
			return err
		}
		t.paths = append(t.paths, re)
	}
	for _, l := range []struct {
		from []string
		to   *[]*rib.CommunityPattern
	}{{c.CommunitiesAny, &t.any}, {c.CommunitiesAll, &t.all}} {
		for _, s := range l.from {
			p, err := rib.ParseCommunityPattern(s)
			if err != nil {
				return err
			}
			*l.to = append(*l.to, p)
		}
	}
	if slices.Contains(t.contains, 0) || slices.Contains(t.origins, 0) {
		return errors.New("0 is no AS number")
	}
	t.byAttrs = t.ofPath() || t.ofCommunities()
	return nil
}

func (t *term) ofPath() bool {
	return t.paths != nil || t.contains != nil || t.origins != nil || t.pathLength != anything
}

func (t *term) ofCommunities() bool { return t.any != nil || t.all != nil }

// reason is why a route is rejected for what a term says: the first of its conditions in this
// order.
func (t *term) reason() rib.Reject {
	switch {
	case t.ofCommunities():
		return rib.RejectCommunity
	case t.ofPath():
		return rib.RejectASPath
	case t.states != 0:
		return rib.RejectRPKI
	}
	return rib.RejectPrefix
}
