package bgpls

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib/igp"
)

// topologyOf makes a topology of objects, each NLRI once, in order. Nothing that a peer may announce makes it fail.
func topologyOf(objects []*Object) (*igp.Topology, error) {
	d := draft{number: map[nodeID]int{}}
	for _, o := range objects {
		n := d.node(o.local)
		switch o.kind {
		case bgp.LS_NLRI_TYPE_NODE:
			if n.label == "" {
				n.label = o.name
			}
			n.Overload = n.Overload || o.overload
			n.answers(o.addresses...)
		case bgp.LS_NLRI_TYPE_LINK:
			n.answers(o.addresses...)
			n.answers(o.ends.local4, o.ends.local6)
		default:
			if m := o.prefixMetric(); m != igp.Unused && !o.prefix.Addr().Is4In6() {
				n.Prefixes = append(n.Prefixes, igp.Prefix{Prefix: o.prefix, Metric: m})
			}
		}
	}
	directions := map[[2]int][]*Object{}
	for _, o := range objects {
		if o.kind != bgp.LS_NLRI_TYPE_LINK {
			continue
		}
		if to, known := d.number[o.remote]; known {
			d.nodes[to].answers(o.others...)
			pair := [2]int{d.number[o.local], to}
			directions[pair] = append(directions[pair], o)
		}
	}
	d.order()
	return igp.New(d.named(), d.links(directions))
}

// A draft is a topology on its way.
type draft struct {
	number map[nodeID]int
	nodes  []*draftNode
	sorted []int // the nodes in order
}

type draftNode struct {
	igp.Node
	id    nodeID
	label string // the name that it has announced
	has   map[netip.Addr]bool
}

func (d *draft) node(id nodeID) *draftNode {
	i, ok := d.number[id]
	if !ok {
		i = len(d.nodes)
		d.number[id] = i
		d.nodes = append(d.nodes, &draftNode{id: id, has: map[netip.Addr]bool{}})
	}
	return d.nodes[i]
}

// answers adds addresses that are a router's alone.
func (n *draftNode) answers(all ...netip.Addr) {
	for _, a := range all {
		a = a.Unmap()
		if a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !n.has[a] {
			n.has[a] = true
			n.Addresses = append(n.Addresses, a)
		}
	}
}

// order sorts nodes by what they are, whatever has told of them first.
func (d *draft) order() {
	d.sorted = make([]int, len(d.nodes))
	for i := range d.sorted {
		d.sorted[i] = i
	}
	slices.SortFunc(d.sorted, func(a, b int) int {
		x, y := d.nodes[a].id, d.nodes[b].id
		return cmp.Or(cmp.Compare(x.instance, y.instance), cmp.Compare(x.as, y.as), cmp.Compare(x.ls, y.ls), cmp.Compare(x.router, y.router))
	})
}

// named gives the nodes with their names: those that they have announced, or with an identifier where that is none or
// another's, too.
func (d *draft) named() []igp.Node {
	count := map[string]int{}
	for _, n := range d.nodes {
		if !printable(n.label) {
			n.label = ""
		}
		count[n.label]++
		count[n.id.text()]++ // who is called as somebody is numbered gets more than that
	}
	taken := map[string]bool{}
	all := make([]igp.Node, 0, len(d.nodes))
	for _, i := range d.sorted {
		n := d.nodes[i]
		name := n.label
		if name == "" || count[name] > 1 {
			name = strings.TrimSpace(name + " " + n.id.text())
		}
		for taken[name] { // the same router in another instance or AS
			name += fmt.Sprintf(" (instance %d, AS %d, BGP-LS %d)", n.id.instance, n.id.as, n.id.ls)
		}
		taken[name] = true
		n.Name = name
		all = append(all, n.Node)
	}
	return all
}

// maxLabel is the longest name that a node may announce (RFC 5301).
const maxLabel = 255

func printable(name string) bool {
	return len(name) <= maxLabel && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// text is an identifier as routers of its kind show it.
func (n nodeID) text() string {
	b := []byte(n.router)
	switch len(b) {
	case 4:
		return netip.AddrFrom4([4]byte(b)).String()
	case 8: // a network of OSPF: its designated router and that one's interface
		return netip.AddrFrom4([4]byte(b)).String() + ":" + netip.AddrFrom4([4]byte(b[4:])).String()
	}
	text := fmt.Sprintf("%x.%x.%x", b[0:2], b[2:4], b[4:6])
	if len(b) == 7 { // a pseudonode of IS-IS
		text += fmt.Sprintf(".%02x", b[6])
	}
	return text
}

// links pairs directions.
func (d *draft) links(directions map[[2]int][]*Object) []igp.Link {
	var all []igp.Link
	place := make([]int, len(d.nodes))
	for i, n := range d.sorted {
		place[n] = i
	}
	var pairs [][2]int
	for pair := range directions {
		back := [2]int{pair[1], pair[0]}
		if place[pair[0]] < place[pair[1]] && len(directions[back]) > 0 { // the two-way check
			pairs = append(pairs, pair)
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int) int {
		return cmp.Or(cmp.Compare(place[a[0]], place[b[0]]), cmp.Compare(place[a[1]], place[b[1]]))
	})
	for _, pair := range pairs {
		from, to := d.nodes[pair[0]].Name, d.nodes[pair[1]].Name
		there, back := directions[pair], slices.Clone(directions[[2]int{pair[1], pair[0]}])
		paired := make([]*Object, len(there))
		for _, fits := range []func(a, b *ends) bool{(*ends).isBackOf, (*ends).mayBeBackOf} {
			for i, o := range there {
				if paired[i] != nil {
					continue
				}
				if j := slices.IndexFunc(back, func(b *Object) bool { return b != nil && fits(&b.ends, &o.ends) }); j >= 0 {
					paired[i], back[j] = back[j], nil
				}
			}
		}
		for i, o := range there {
			l := igp.Link{From: from, To: to, Metric: o.linkMetric(), Reverse: igp.Unused}
			if paired[i] != nil {
				l.Reverse = paired[i].linkMetric()
			}
			all = append(all, l)
		}
		for _, o := range back {
			if o != nil {
				all = append(all, igp.Link{From: to, To: from, Metric: o.linkMetric(), Reverse: igp.Unused})
			}
		}
	}
	return all
}

// isBackOf tells whether the ends say that these are the two directions of one link.
func (e *ends) isBackOf(x *ends) bool {
	same := func(a, b netip.Addr) bool { return a.IsValid() && a == b }
	switch {
	case same(e.local4, x.remote4) && same(e.remote4, x.local4), same(e.local6, x.remote6) && same(e.remote6, x.local6):
		return true
	}
	return e.hasID && x.hasID && e.localID == x.remoteID && e.remoteID == x.localID && e.localID|e.remoteID != 0 && !e.differs(x)
}

// mayBeBackOf tells whether nothing says that they are not.
func (e *ends) mayBeBackOf(x *ends) bool {
	if e.hasID && x.hasID && e.remoteID != 0 && x.remoteID != 0 && (e.localID != x.remoteID || e.remoteID != x.localID) {
		return false
	}
	return !e.differs(x)
}

// differs tells whether addresses say that the directions are of different links.
func (e *ends) differs(x *ends) bool {
	other := func(a, b netip.Addr) bool { return a.IsValid() && b.IsValid() && a != b }
	return other(e.local4, x.remote4) || other(e.remote4, x.local4) || other(e.local6, x.remote6) || other(e.remote6, x.local6)
}
