package rib

import (
	"net/netip"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

var (
	// AllIPv4 has every IPv4 prefix in it.
	AllIPv4 = netip.MustParsePrefix("0.0.0.0/0")
	// AllIPv6 has every IPv6 prefix in it, those of IPv4-mapped addresses too.
	AllIPv6 = netip.MustParsePrefix("::/0")
)

// A Span is a part of a table: the prefixes inside one, itself among them, or those around it.
type Span struct {
	Of     netip.Prefix
	Around bool // the prefixes that contain Of, itself among them
}

// A Walk gives the handles of a generation's routes in order, some at a time: IPv4 first, by address
// and then length. It takes memory for as many as are asked for at once, and costs what it
// gives, wherever it begins. Not safe for concurrent use.
type Walk struct {
	gen     *Generation
	spans   []Span       // those that are not at their end
	last    netip.Prefix // what was given goes up to here; invalid: nothing was
	handles []lpm.Handle
}

// NewWalk makes a walk over some parts of a table, which must be in order: the prefixes around one
// come before those inside of it. What two parts share comes once. The caller holds g until the end.
func NewWalk(g *Generation, spans ...Span) *Walk { return &Walk{gen: g, spans: spans} }

// Skip has the walk go on behind a prefix, which need not be in the table.
func (w *Walk) Skip(p netip.Prefix) { w.last = p }

// Last is the prefix up to which routes were given or skipped, invalid at the beginning.
func (w *Walk) Last() netip.Prefix { return w.last }

// Next gives the handles of the next routes, at most n; none at the end. They are valid until the
// next call.
func (w *Walk) Next(n int) []lpm.Handle {
	w.handles = w.handles[:0]
	for ; len(w.spans) > 0; w.spans = w.spans[1:] {
		if s := w.spans[0]; s.Around {
			w.around(s.Of, n)
		} else {
			w.inside(s.Of, n)
		}
		if given := len(w.handles); given > 0 {
			w.last = w.gen.Route(w.handles[given-1]).Prefix
			break
		}
	}
	return w.handles
}

// inside appends the handles of routes inside of p.
func (w *Walk) inside(p netip.Prefix, n int) {
	switch {
	case !w.last.IsValid() || w.last.Compare(p) < 0: // all of it is still to come
		w.handles = w.gen.Table.Covered(w.handles, p, n)
	case Inside(w.last, p):
		w.handles = appendBehind(w.handles, w.gen.Table, w.last, p.Bits(), n)
	}
}

// around appends the handles of routes around p. There are some dozen at most.
func (w *Walk) around(p netip.Prefix, n int) {
	w.handles = w.gen.Table.Covering(w.handles, p)
	slices.Reverse(w.handles) // the longest came first
	if w.last.IsValid() {
		w.handles = slices.DeleteFunc(w.handles, func(h lpm.Handle) bool {
			return w.gen.Route(h).Prefix.Compare(w.last) <= 0
		})
	}
	w.handles = w.handles[:min(len(w.handles), n)]
}

// Inside tells whether p is in outer, or is outer.
func Inside(p, outer netip.Prefix) bool {
	return outer.Bits() <= p.Bits() && outer.Contains(p.Addr())
}

// appendBehind appends the handles of the routes that come behind p inside of its first bits, in
// order of address and then length, at most limit to an empty dst. They are those inside p, and
// then, for each further bit of p that is 0, from the last to the first, those inside the other
// half, where the bit is 1. So a page costs what it holds, not what the table does.
func appendBehind(dst []lpm.Handle, t lpm.Table, p netip.Prefix, bits, limit int) []lpm.Handle {
	dst = t.Covered(dst, p, limit+1) // p itself is the first of them
	if t.Find(p) != lpm.None {
		dst = slices.Delete(dst, 0, 1)
	}
	dst = dst[:min(len(dst), limit)]
	for at := p.Bits(); at > bits && len(dst) < limit; at-- {
		if half, ok := otherHalf(p, at); ok {
			dst = t.Covered(dst, half, limit-len(dst))
		}
	}
	return dst
}

// otherHalf gives the prefix of this many bits that differs from p in the last of them, if that
// is 0 in p.
func otherHalf(p netip.Prefix, bits int) (netip.Prefix, bool) {
	b := p.Addr().AsSlice()
	i, bit := (bits-1)/8, byte(0x80>>((bits-1)%8))
	if b[i]&bit != 0 {
		return netip.Prefix{}, false
	}
	b[i] |= bit
	addr, _ := netip.AddrFromSlice(b) // as long as one
	return netip.PrefixFrom(addr, bits).Masked(), true
}
