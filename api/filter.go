package api

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
)

// filterParameters are what a listing can be narrowed by, as people are told.
var filterParameters = []string{"family", "origin", "as", "as_path", "community", "next_hop", "peer", "within", "covers", "overlaps", "rpki", "stale"}

const (
	// maxConditions is how often a parameter may be given that may be given more than once.
	maxConditions = 16
	maxExpression = 256 // bytes of as_path
	// maxProgram bounds what an expression costs for each AS path: a step for each instruction and
	// character at worst.
	maxProgram = 256
)

// A routeFilter is what of a query says which routes are wanted.
type routeFilter struct {
	rib.Filter
	family string // "" for both
	live   bool   // which routes hold hangs on what is now, beside their generation
	// What the rest of the table is not looked at for: one of them, the narrowest.
	spans []rib.Span
	rank  int
}

// add takes a parameter with all its values. known is false for one that is none of the filter's.
func (f *routeFilter) add(name string, values []string, vrps func() VRPs) (known bool, err error) {
	var one func(v string) error
	repeatable := false
	switch name {
	case "family":
		one = f.addFamily
	case "origin":
		one = func(v string) error { return f.addAS(v, rib.ASPath.OriginatedBy) }
	case "as":
		one, repeatable = func(v string) error { return f.addAS(v, rib.ASPath.Contains) }, true
	case "as_path":
		one = f.addPath
	case "community":
		one, repeatable = f.addCommunity, true
	case "next_hop":
		one = f.addNextHop
	case "peer":
		one = func(v string) error {
			f.Others = append(f.Others, func(r rib.Route) bool { return r.Peer != nil && r.Peer.Name() == v })
			return nil
		}
	case "within", "covers", "overlaps":
		one = func(v string) error { return f.addPrefix(name, v) }
	case "rpki":
		one = func(v string) error { return f.addRPKI(v, vrps) }
	case "stale":
		one = f.addStale
	default:
		return false, nil
	}
	switch {
	case !repeatable && len(values) > 1:
		return true, once(name, values)
	case len(values) > maxConditions:
		return true, fmt.Errorf("%s is given %d times: %d is the most", name, len(values), maxConditions)
	}
	for _, v := range values {
		if err := one(v); err != nil {
			return true, fmt.Errorf("%s is %q: %w", name, cut(v, maxAddrText), err)
		}
	}
	return true, nil
}

// done gives the filter. It has the spans that have the least to look at.
func (f *routeFilter) done() *rib.Filter {
	f.Spans = f.spans
	switch f.family {
	case "ipv4":
		f.Prefixes = append(f.Prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() })
	case "ipv6":
		f.Prefixes = append(f.Prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() })
	}
	if f.Spans == nil && f.family == "ipv4" {
		f.Spans = []rib.Span{{Of: rib.AllIPv4}}
	}
	if f.Spans == nil && f.family == "ipv6" {
		f.Spans = []rib.Span{{Of: rib.AllIPv6}}
	}
	return &f.Filter
}

func (f *routeFilter) addFamily(v string) error {
	if v != "ipv4" && v != "ipv6" {
		return errors.New("it must be ipv4 or ipv6; leave it out for both")
	}
	f.family = v
	return nil
}

func (f *routeFilter) addAS(v string, holds func(rib.ASPath, uint32) bool) error {
	as, err := parseASN(v)
	if err != nil {
		return err
	}
	f.Attrs = append(f.Attrs, func(a *rib.Attrs) bool { return holds(a.ASPath, as) })
	return nil
}

func (f *routeFilter) addPath(v string) error {
	if len(v) > maxExpression {
		return fmt.Errorf("%d bytes are too long: %d is the most", len(v), maxExpression)
	}
	re, err := rib.ParseASPathPattern(v)
	if err != nil {
		return err
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err
	}
	if n := len(program.Inst); n > maxProgram {
		return fmt.Errorf("the expression takes %d steps for a character and %d is the most: leave out repetitions as {1,100}", n, maxProgram)
	}
	var text []byte // of one listing, which is one goroutine's
	f.Attrs = append(f.Attrs, func(a *rib.Attrs) bool {
		text = a.ASPath.AppendText(text[:0])
		return re.Match(text)
	})
	return nil
}

func (f *routeFilter) addCommunity(v string) error {
	p, err := rib.ParseCommunityPattern(v)
	if err != nil {
		return err
	}
	f.Attrs = append(f.Attrs, p.In)
	return nil
}

func (f *routeFilter) addNextHop(v string) error {
	addr, err := ParseAddr(v)
	if err != nil {
		return err
	}
	f.Attrs = append(f.Attrs, func(a *rib.Attrs) bool { return a.NextHop.WithZone("").Unmap() == addr })
	return nil
}

// addPrefix takes one of within, covers and overlaps.
func (f *routeFilter) addPrefix(name, v string) error {
	p, err := parsePrefix(v)
	if err != nil {
		return err
	}
	within := func(q netip.Prefix) bool { return rib.Inside(q, p) }
	covers := func(q netip.Prefix) bool { return rib.Inside(p, q) }
	rank, holds, spans := 0, within, []rib.Span{{Of: p}}
	switch name {
	case "covers":
		rank, holds, spans = 1000, covers, []rib.Span{{Of: p, Around: true}}
	case "overlaps":
		holds, spans = func(q netip.Prefix) bool { return within(q) || covers(q) }, []rib.Span{{Of: p, Around: true}, {Of: p}}
	}
	f.Prefixes = append(f.Prefixes, holds)
	if rank += p.Bits(); f.spans == nil || rank > f.rank {
		f.spans, f.rank = spans, rank
	}
	return nil
}

func (f *routeFilter) addRPKI(v string, vrps func() VRPs) error {
	if v != "valid" && v != "invalid" && v != "not-found" {
		return errors.New("it must be valid, invalid or not-found")
	}
	now := vrps()
	if now == nil {
		return errors.New("no source of VRPs is configured, so that no route has a state")
	}
	f.live = true
	f.Others = append(f.Others, func(r rib.Route) bool { return rpkiState(now, r) == v })
	return nil
}

func (f *routeFilter) addStale(v string) error {
	if v != "true" && v != "false" {
		return errors.New("it must be true or false")
	}
	f.Others = append(f.Others, func(r rib.Route) bool { return r.Stale == (v == "true") })
	return nil
}

// parseASN reads an AS number: 3333, AS3333, or as two numbers (RFC 5396): 1.10, AS1.10.
func parseASN(text string) (uint32, error) {
	digits := text
	if len(digits) >= 2 && strings.EqualFold(digits[:2], "AS") {
		digits = digits[2:]
	}
	bits := 32
	high, low, dotted := strings.Cut(digits, ".")
	if dotted {
		bits = 16
	} else {
		high, low = "0", digits
	}
	upper, err := strconv.ParseUint(high, 10, 16)
	if err != nil {
		return 0, errBadASN
	}
	lower, err := strconv.ParseUint(low, 10, bits)
	if err != nil {
		return 0, errBadASN
	}
	as := uint32(upper<<16 | lower)
	if as == 0 {
		return 0, errors.New("0 is no AS number (RFC 7607)")
	}
	return as, nil
}

var errBadASN = errors.New("not an AS number: it must be like 3333, AS3333 or 1.10")
