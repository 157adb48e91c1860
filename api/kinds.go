package api

import (
	"net/netip"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// addresses asks which routes carry addresses. Its memory divides a batch by family.
type addresses struct {
	v4     []uint32
	v6     []lpm.Addr6
	h4, h6 [batchLines]lpm.Handle
}

func (*addresses) parse(text []byte) (netip.Addr, error) { return ParseAddr(borrow(text)) }

func (*addresses) is4(ip netip.Addr) bool { return ip.Is4() }

func (s *addresses) find(t lpm.Table, dst []lpm.Handle, ips []netip.Addr) error {
	s.v4, s.v6 = s.v4[:0], s.v6[:0]
	for _, ip := range ips {
		if ip.Is4() {
			s.v4 = append(s.v4, lpm.Addr4(ip))
		} else {
			s.v6 = append(s.v6, lpm.Addr16(ip))
		}
	}
	if len(s.v4) == len(ips) { // most batches: nothing to divide
		return t.Lookup4(dst, s.v4)
	}
	h4, h6 := s.h4[:len(s.v4)], s.h6[:len(s.v6)]
	if err := t.Lookup4(h4, s.v4); err != nil {
		return err
	}
	if err := t.Lookup6(h6, s.v6); err != nil {
		return err
	}
	for i, ip := range ips {
		if ip.Is4() {
			dst[i], h4 = h4[0], h4[1:]
		} else {
			dst[i], h6 = h6[0], h6[1:]
		}
	}
	return nil
}

func (*addresses) appendAnswer(dst []byte, ip netip.Addr, rt *routeFields, gen uint64) []byte {
	return appendAnswer(dst, ip, rt, gen)
}

func (*addresses) seenBy(router *rib.View, ip netip.Addr, h lpm.Handle) rib.Route {
	return router.Lookup(ip, h)
}

// prefixes asks for the routes to exactly these prefixes.
type prefixes struct{}

func (prefixes) parse(text []byte) (netip.Prefix, error) { return parsePrefix(borrow(text)) }

func (prefixes) is4(p netip.Prefix) bool { return p.Addr().Is4() }

func (prefixes) find(t lpm.Table, dst []lpm.Handle, ps []netip.Prefix) error {
	return lpm.FindAll(t, dst, ps)
}

func (prefixes) appendAnswer(dst []byte, p netip.Prefix, rt *routeFields, gen uint64) []byte {
	return append(appendExact(dst, p, rt.Route, gen), '}')
}

func (prefixes) seenBy(router *rib.View, p netip.Prefix, _ lpm.Handle) rib.Route {
	return router.Exact(p)
}
