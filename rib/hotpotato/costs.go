package hotpotato

import (
	"context"
	"net/netip"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// costs are a rib.IGPCost: those from one router in one topology.
type costs struct {
	topology *igp.Topology
	dist     []uint64 // from the router to all nodes
	strict   bool     // an unknown next hop is unreachable
}

// Cost is rib.IGPCost's.
func (c *costs) Cost(nextHop netip.Addr) (cost uint64, ok bool) {
	cost, ok = c.topology.Cost(c.dist, nextHop)
	return known(cost, ok, c.strict)
}

// known says what a next hop that nobody announces costs.
func known(cost uint64, ok, strict bool) (uint64, bool) {
	if !ok && strict {
		return rib.UnreachableCost, true
	}
	return cost, ok
}

// few are a rib.IGPCost that has the costs of some next hops, and computes those of others when it is
// asked.
type few struct {
	byHop  map[netip.Addr]hopCost
	others func() rib.IGPCost
}

type hopCost struct {
	cost uint64
	ok   bool
}

// Cost is rib.IGPCost's.
func (f *few) Cost(nextHop netip.Addr) (cost uint64, ok bool) {
	if c, there := f.byHop[nextHop]; there {
		return c.cost, c.ok
	}
	return f.others().Cost(nextHop)
}

// maxRows is how many distances are kept for those who ask from one router after the other: 64 MiB.
const maxRows = 8 << 20

// rows are the distances from routers in one topology that were asked for.
type rows struct {
	topology *igp.Topology
	byRoot   map[uint32][]uint64
}

// From gives the costs from a router of a topology, which somebody else may have asked for before. 1,000
// nodes and 4,000 links take 50 us.
func (k *Keeper) From(t *igp.Topology, root uint32) rib.IGPCost {
	k.rowsMu.Lock()
	defer k.rowsMu.Unlock()
	if k.rows.topology != t || (len(k.rows.byRoot)+1)*len(t.Nodes) > maxRows {
		k.rows = rows{t, map[uint32][]uint64{}}
	}
	dist := k.rows.byRoot[root]
	if dist == nil {
		dist = t.Tree(root).Dist
		k.rows.byRoot[root] = dist
	}
	return &costs{t, dist, k.config().StrictNextHops}
}

// FromEach gives the costs from each of some routers of a topology, hundreds of them at once, for one who knows which
// next hops it will ask about: the solver is asked for the distances to the nodes that announce them, and to no others.
// Other next hops are answered, too, as From does.
func (k *Keeper) FromEach(ctx context.Context, t *igp.Topology, roots []uint32, nextHops []netip.Addr) ([]rib.IGPCost, error) {
	column := map[uint32]int{} // of a node in the matrix
	targets := []uint32{}
	for _, hop := range nextHops {
		for _, o := range t.Resolve(hop) {
			if _, ok := column[o.Node]; !ok {
				column[o.Node] = len(targets)
				targets = append(targets, o.Node)
			}
		}
	}
	all := make([]rib.IGPCost, len(roots))
	m, err := t.Distances(ctx, roots, targets, k.options.Solver)
	if err != nil {
		return nil, err
	}
	strict := k.config().StrictNextHops
	for i := range roots {
		row := m.Dist[i*len(targets):][:len(targets)]
		f := &few{make(map[netip.Addr]hopCost, len(nextHops)), func() rib.IGPCost { return k.From(t, roots[i]) }}
		for _, hop := range nextHops {
			origins := t.Resolve(hop)
			cost := uint64(igp.Unreachable)
			for _, o := range origins {
				if d := row[column[o.Node]]; d != igp.Unreachable {
					cost = min(cost, d+uint64(o.Metric))
				}
			}
			cost, ok := known(cost, len(origins) > 0, strict)
			f.byHop[hop] = hopCost{cost, ok}
		}
		all[i] = f
	}
	return all, nil
}
