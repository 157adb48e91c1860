package policy

import (
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// Origins says what the RPKI makes of a route: rpki.Store does. It must be safe for concurrent use
// and call nothing of the RIB.
type Origins interface {
	Validate(prefix netip.Prefix, origin uint32) rpki.State
}

// families index what there is for each.
const (
	ipv4 = iota
	ipv6
)

func family(p netip.Prefix) int {
	if p.Addr().Is4() {
		return ipv4
	}
	return ipv6
}

// bounds are the least and the greatest number that will do; none will where the least is more.
type bounds struct{ least, most int }

func (b bounds) has(n int) bool { return b.least <= n && n <= b.most }

// anything are bounds that have all numbers that occur.
var anything = bounds{0, 1 << 30}

// A policy is compiled. It does not change.
type policy struct {
	martians, defaultRoute bool // take them
	lengths                [2]bounds
	maxASPath              int // 0: any
	rejectASSets           bool
	validity, notFound     bool // take only valid origins, or those that are not found too
	terms                  []*term
	then                   rib.Reject

	asksRPKI, attributes bool // it does, and it looks at attributes
}

// A term is compiled. What it says of attributes is asked once for a set of them, what it says of
// prefixes for each.
type term struct {
	verdict rib.Reject

	byPrefix bool // it says something of prefixes
	lengths  [2]bounds
	lists    []*prefixList
	states   uint8 // of the RPKI, 1<<rpki.State; 0: any

	byAttrs    bool
	paths      []*regexp.Regexp
	contains   []uint32
	origins    []uint32
	pathLength bounds
	any, all   []*rib.CommunityPattern
}

// view is what a policy makes of one set of attributes.
type view struct {
	attrs  rib.Attrs
	filled bool
	reject rib.Reject // whatever the prefix is
	origin uint32     // for the RPKI; 0 for none
	live   []*term    // what can still match, as far as one that matches every prefix
}

// An importer is a policy for one peer.
type importer struct {
	*policy
	origins Origins
	localAS uint32

	mu   sync.Mutex
	view view // of the attributes that were looked at last
}

// Check is part of rib.Import.
func (i *importer) Check(prefix netip.Prefix, a *rib.Attrs) rib.Reject {
	if !i.martians && martian(prefix) {
		return rib.RejectMartian
	}
	switch bits := prefix.Bits(); {
	case bits == 0:
		if !i.defaultRoute {
			return rib.RejectPrefix
		}
	case !i.lengths[family(prefix)].has(bits):
		return rib.RejectPrefix
	}
	if !i.attributes {
		return i.decide(prefix, 0, i.terms)
	}
	// Prefixes come many with the same attributes, and under the lock of their RIB. Whoever comes
	// at the same time looks for itself.
	v := &i.view
	if i.mu.TryLock() {
		defer i.mu.Unlock()
	} else {
		v = new(view)
	}
	if !v.filled || v.attrs != *a {
		i.look(v, a)
	}
	if v.reject != rib.Accepted {
		return v.reject
	}
	return i.decide(prefix, v.origin, v.live)
}

// look fills a view.
func (i *importer) look(v *view, a *rib.Attrs) {
	v.attrs, v.filled, v.reject, v.live = *a, true, rib.Accepted, v.live[:0]
	if i.maxASPath > 0 && a.ASPath.Len() > i.maxASPath || i.rejectASSets && a.ASPath.HasSet() {
		v.reject = rib.RejectASPath
		return
	}
	if i.asksRPKI {
		v.origin = i.origin(a.ASPath)
	}
	text := ""
	for _, t := range i.terms {
		if !t.takes(a, &text) {
			continue
		}
		v.live = append(v.live, t)
		if !t.byPrefix {
			break
		}
	}
}

// origin gives the AS that the RPKI is asked about (RFC 6811, 2): the last one of the path, the own
// one where the path is empty or ends inside of the confederation, and 0 where it ends in a set.
func (i *importer) origin(path rib.ASPath) uint32 {
	if as, set := path.Origin(); as != 0 || set {
		return as
	}
	return i.localAS
}

// decide judges a prefix whose attributes let it be one of the live terms'.
func (i *importer) decide(prefix netip.Prefix, origin uint32, live []*term) rib.Reject {
	state, asked := rpki.NotFound, false
	if i.validity {
		state, asked = i.origins.Validate(prefix, origin), true
		if state == rpki.Invalid || state == rpki.NotFound && !i.notFound {
			return rib.RejectRPKI
		}
	}
	for _, t := range live {
		if t.byPrefix {
			if !t.has(prefix) {
				continue
			}
			if t.states != 0 {
				if !asked {
					state, asked = i.origins.Validate(prefix, origin), true
				}
				if t.states&(1<<state) == 0 {
					continue
				}
			}
		}
		return t.verdict
	}
	return i.then
}

// has tells whether a prefix is as the term wants it, but for the RPKI.
func (t *term) has(prefix netip.Prefix) bool {
	if !t.lengths[family(prefix)].has(prefix.Bits()) {
		return false
	}
	return len(t.lists) == 0 || slices.ContainsFunc(t.lists, func(l *prefixList) bool { return l.has(prefix) })
}

// takes tells whether attributes are as the term wants them. text is the path's, once it was
// needed. Expressions come last: they cost most.
func (t *term) takes(a *rib.Attrs, text *string) bool {
	if !t.byAttrs {
		return true
	}
	if !t.pathLength.has(a.ASPath.Len()) {
		return false
	}
	if len(t.contains) > 0 && !slices.ContainsFunc(t.contains, a.ASPath.Contains) {
		return false
	}
	if len(t.origins) > 0 && !slices.ContainsFunc(a.ASPath.Origins(), func(as uint32) bool { return slices.Contains(t.origins, as) }) {
		return false
	}
	in := func(p *rib.CommunityPattern) bool { return p.In(a) }
	if len(t.any) > 0 && !slices.ContainsFunc(t.any, in) {
		return false
	}
	if slices.ContainsFunc(t.all, func(p *rib.CommunityPattern) bool { return !in(p) }) {
		return false
	}
	if len(t.paths) == 0 {
		return true
	}
	if *text == "" {
		*text = a.ASPath.String()
	}
	return slices.ContainsFunc(t.paths, func(re *regexp.Regexp) bool { return re.MatchString(*text) })
}
