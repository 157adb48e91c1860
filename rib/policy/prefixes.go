package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gaissmai/bart"
)

// A prefixList is compiled: where a prefix is looked up, the longest entry around it knows which
// lengths are in the list, those of the entries around itself among them.
type prefixList struct {
	entries bart.Table[*lengths]
}

// lengths is a set of 0 to 128.
type lengths [3]uint64

func (l *lengths) add(n int)      { l[n>>6] |= 1 << (n & 63) }
func (l *lengths) has(n int) bool { return l[n>>6]&(1<<(n&63)) != 0 }

// has tells whether a prefix is in the list.
func (p *prefixList) has(prefix netip.Prefix) bool {
	l, ok := p.entries.LookupPrefix(prefix)
	return ok && l.has(prefix.Bits())
}

// An entry is one of a list as it is written.
type entry struct {
	prefix netip.Prefix
	ge, le int
}

// parseEntry reads "10.0.0.0/8 ge 9 le 24".
func parseEntry(s string) (e entry, err error) {
	fields := strings.Fields(s)
	if len(fields) == 0 || len(fields)%2 == 0 || len(fields) > 5 {
		return e, fmt.Errorf("entry %q: give a prefix, and lengths as in \"10.0.0.0/8 ge 9 le 24\"", s)
	}
	if e.prefix, err = netip.ParsePrefix(fields[0]); err != nil {
		return e, fmt.Errorf("entry %q: %q is no prefix", s, fields[0])
	}
	if e.prefix != e.prefix.Masked() {
		return e, fmt.Errorf("entry %q has host bits: %s would be a prefix", s, e.prefix.Masked())
	}
	e.ge, e.le = e.prefix.Bits(), e.prefix.Bits()
	longest := e.prefix.Addr().BitLen()
	given := map[string]bool{}
	for i := 1; i < len(fields); i += 2 {
		word := fields[i]
		n, err := strconv.Atoi(fields[i+1])
		if err != nil || n < e.prefix.Bits() || n > longest {
			return e, fmt.Errorf("entry %q: %s %s: give a length from %d to %d", s, word, fields[i+1], e.prefix.Bits(), longest)
		}
		switch {
		case given[word]:
			return e, fmt.Errorf("entry %q has %s twice", s, word)
		case word == "ge":
			e.ge = n
		case word == "le":
			e.le = n
		default:
			return e, fmt.Errorf("entry %q: %q is neither ge nor le", s, word)
		}
		given[word] = true
	}
	if given["ge"] && !given["le"] {
		e.le = longest
	}
	if e.ge > e.le {
		return e, fmt.Errorf("entry %q: ge %d is more than le %d", s, e.ge, e.le)
	}
	return e, nil
}

// compileList reads a list.
func compileList(list []string) (*prefixList, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("it is empty: nothing would be in it")
	}
	entries := make([]entry, len(list))
	for i, s := range list {
		var err error
		if entries[i], err = parseEntry(s); err != nil {
			return nil, err
		}
	}
	// Shorter prefixes first, so that longer ones find what is around them complete.
	slices.SortStableFunc(entries, func(a, b entry) int { return a.prefix.Bits() - b.prefix.Bits() })
	p := &prefixList{}
	for _, e := range entries {
		l, there := p.entries.Get(e.prefix)
		if !there {
			l = new(lengths)
			if around, ok := p.entries.LookupPrefix(e.prefix); ok {
				*l = *around
			}
			p.entries.Insert(e.prefix, l)
		}
		for n := e.ge; n <= e.le; n++ {
			l.add(n)
		}
	}
	return p, nil
}

// martians are the blocks that IANA's special-purpose address registries for IPv4 and IPv6 (RFC
// 6890) call not globally reachable, and multicast. The value is false for what the registries
// except from such a block.
var martians = func() *bart.Table[bool] {
	t := new(bart.Table[bool])
	for _, s := range []string{
		"0.0.0.0/8",       // this network
		"10.0.0.0/8",      // private
		"100.64.0.0/10",   // shared
		"127.0.0.0/8",     // loopback
		"169.254.0.0/16",  // link local
		"172.16.0.0/12",   // private
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.168.0.0/16",  // private
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"224.0.0.0/4",     // multicast
		"240.0.0.0/4",     // reserved, and limited broadcast
		"::/128",          // unspecified
		"::1/128",         // loopback
		"::ffff:0:0/96",   // IPv4-mapped
		"64:ff9b:1::/48",  // local translation
		"100::/64",        // discard only
		"100:0:0:1::/64",  // dummy
		"2001::/23",       // protocol assignments
		"2001:db8::/32",   // documentation
		"3fff::/20",       // documentation
		"5f00::/16",       // segment routing
		"fc00::/7",        // unique local
		"fe80::/10",       // link local
		"ff00::/8",        // multicast
	} {
		t.Insert(netip.MustParsePrefix(s), true)
	}
	for _, s := range []string{
		"192.0.0.9/32",    // port control anycast
		"192.0.0.10/32",   // TURN anycast
		"2001::/32",       // Teredo, of which the registry does not say
		"2001:1::1/128",   // port control anycast
		"2001:1::2/128",   // TURN anycast
		"2001:1::3/128",   // service registration anycast
		"2001:3::/32",     // AMT
		"2001:4:112::/48", // AS112
		"2001:20::/28",    // ORCHIDv2
		"2001:30::/28",    // drone identification
	} {
		t.Insert(netip.MustParsePrefix(s), false)
	}
	return t
}()

// martian tells whether a prefix is in such a block. Default routes, and others around a block,
// are not.
func martian(p netip.Prefix) bool {
	is, _ := martians.LookupPrefix(p)
	return is
}
