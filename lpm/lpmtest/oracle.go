// Package lpmtest has what every engine is tested against: a slow oracle and one conformance
// suite.
package lpmtest

import (
	"net/netip"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

// An Oracle is a table so simple that it can be trusted: a map of prefixes, asked once for every
// length. It shares nothing with an engine but the names.
type Oracle map[netip.Prefix]lpm.Handle

// OracleOf makes an oracle of routes; of equal prefixes the later counts.
func OracleOf(routes lpm.Routes) Oracle {
	o := Oracle{}
	o.Apply(routes)
	return o
}

// Apply changes the oracle as Engine.Update changes a table.
func (o Oracle) Apply(changes lpm.Routes) {
	apply := func(p netip.Prefix, h lpm.Handle) {
		if h == lpm.None {
			delete(o, p)
		} else {
			o[p] = h
		}
	}
	for _, r := range changes.V4 {
		apply(r.Prefix(), r.Handle)
	}
	for _, r := range changes.V6 {
		apply(r.Prefix(), r.Handle)
	}
}

// Routes gives all routes, in no order.
func (o Oracle) Routes() (rs lpm.Routes) {
	for p, h := range o {
		rs.Add(p, h)
	}
	return rs
}

// Lookup gives the handle of the longest prefix that contains a.
func (o Oracle) Lookup(a netip.Addr) lpm.Handle {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p, _ := a.Prefix(bits)
		if h, ok := o[p]; ok {
			return h
		}
	}
	return lpm.None
}

// Covering gives the handles of all prefixes that contain p, longest first.
func (o Oracle) Covering(p netip.Prefix) (hs []lpm.Handle) {
	for bits := p.Bits(); bits >= 0; bits-- {
		q, _ := p.Addr().Prefix(bits)
		if h, ok := o[q]; ok {
			hs = append(hs, h)
		}
	}
	return hs
}

// Covered gives the handles of all prefixes inside p, by address and then by length.
func (o Oracle) Covered(p netip.Prefix) (hs []lpm.Handle) {
	var inside []netip.Prefix
	for q := range o {
		if q.Bits() >= p.Bits() && p.Contains(q.Addr()) {
			inside = append(inside, q)
		}
	}
	slices.SortFunc(inside, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	for _, q := range inside {
		hs = append(hs, o[q])
	}
	return hs
}
