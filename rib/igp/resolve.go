package igp

import (
	"fmt"
	"net/netip"
)

// An Origin is a node that announces an address or a prefix, and the metric from the node to it.
type Origin struct{ Node, Metric uint32 }

// addOrigins takes in what node i announces.
func (t *Topology) addOrigins(i uint32, n Node) error {
	add := func(p netip.Prefix, metric uint32) {
		t.origins.Modify(p, func(o []Origin, _ bool) ([]Origin, bool) { return append(o, Origin{i, metric}), false })
	}
	for _, a := range n.Addresses {
		if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
			return fmt.Errorf("%v is no plain IPv4 or IPv6 address", a)
		}
		add(netip.PrefixFrom(a, a.BitLen()), 0)
	}
	for _, p := range n.Prefixes {
		if !p.Prefix.IsValid() || p.Prefix.Addr().Is4In6() || p.Prefix != p.Prefix.Masked() {
			return fmt.Errorf("%v is no IPv4 or IPv6 prefix without host bits", p.Prefix)
		}
		if p.Metric != Unused {
			add(p.Prefix, p.Metric)
		}
	}
	return nil
}

// Resolve gives the nodes that announce the longest match of an address, in the order of their numbers;
// none where nothing matches. The slice is for reading.
func (t *Topology) Resolve(addr netip.Addr) []Origin {
	origins, _ := t.origins.Lookup(addr.Unmap().WithZone(""))
	return origins
}

// Cost is the distance to an address, given those from a root to all nodes: that of the nearest origin
// of its longest match. It is Unreachable where no path leads to one; ok is false where nothing matches.
func (t *Topology) Cost(dist []uint64, addr netip.Addr) (cost uint64, ok bool) {
	cost = Unreachable
	origins := t.Resolve(addr)
	for _, o := range origins {
		if d := dist[o.Node]; d != Unreachable {
			cost = min(cost, d+uint64(o.Metric))
		}
	}
	return cost, len(origins) > 0
}
