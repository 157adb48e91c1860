package igp

import "strconv"

// A Cost is a distance for people and in JSON: "-" and null for Unreachable.
type Cost uint64

// MarshalJSON implements json.Marshaler.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c == Unreachable {
		return []byte("null"), nil
	}
	return strconv.AppendUint(nil, uint64(c), 10), nil
}

// String gives the number, or "-".
func (c Cost) String() string {
	if c == Unreachable {
		return "-"
	}
	return strconv.FormatUint(uint64(c), 10)
}

// A Step is a Hop by its names.
type Step struct {
	Link string `json:"link"`
	Node string `json:"node"`
}

// Steps names hops.
func (t *Topology) Steps(hops []Hop) []Step {
	steps := make([]Step, len(hops))
	for i, h := range hops {
		steps[i] = Step{t.Links[h.Link].Name, t.Nodes[h.Node].Name}
	}
	return steps
}

// A Way is how a tree's root reaches a node, by names.
type Way struct {
	Node      string   `json:"node"`
	Distance  Cost     `json:"distance"`
	FirstHops []Step   `json:"first_hops"`
	Paths     [][]Step `json:"paths,omitempty"`
	More      bool     `json:"more_paths,omitempty"` // there may be more paths
}

// Way gives the way to v, with so many of its paths at most.
func (tr *Tree) Way(v uint32, most int) Way {
	w := Way{Node: tr.t.Nodes[v].Name, Distance: Cost(tr.Dist[v]), FirstHops: tr.t.Steps(tr.FirstHops(v))}
	if most > 0 {
		var paths [][]Hop
		paths, w.More = tr.Paths(v, most)
		for _, p := range paths {
			w.Paths = append(w.Paths, tr.t.Steps(p))
		}
	}
	return w
}
