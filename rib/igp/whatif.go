package igp

import (
	"context"
	"fmt"
	"slices"
)

// A Failure is links that fail together.
type Failure struct{ Links []uint32 }

// An Impact is what a failure does to the distances from the roots of a WhatIf.
type Impact struct {
	Failure Failure
	Users   int          // roots that have a shortest path over a failed link
	Roots   []RootImpact // those of them from which some node is farther than before, in the order of the roots
	Exits   []ExitChange // the roots whose nearest exits are others than before, in the order of the roots
}

// Farther is the number of pairs of a root and a node that are farther apart, Lost that of those among
// them that have no path any more, and most the greatest increase among the others.
func (i *Impact) Farther() (pairs, lost int, most uint64) {
	for _, r := range i.Roots {
		pairs, lost, most = pairs+r.Farther, lost+r.Lost, max(most, r.Most)
	}
	return pairs, lost, most
}

// A RootImpact is what a failure does to the distances from one root.
type RootImpact struct {
	Root    uint32
	Farther int    // nodes
	Lost    int    // nodes among them that are unreachable now
	Most    uint64 // the greatest increase among the others
}

// A Choice is the exits that are nearest to a router: all at the same cost, in the order of the exits.
type Choice struct {
	Cost  uint64 // Unreachable where no path leads to any; there are no Exits then
	Exits []uint32
}

// Nearest chooses among exits, given the distance of each.
func Nearest(exits []uint32, dist []uint64) Choice {
	c := Choice{Cost: Unreachable}
	for i, d := range dist {
		if d < c.Cost {
			c.Cost, c.Exits = d, c.Exits[:0]
		}
		if d == c.Cost && d != Unreachable {
			c.Exits = append(c.Exits, exits[i])
		}
	}
	return c
}

// An ExitChange is a root that takes other exits.
type ExitChange struct {
	Root    uint32
	Was, Is Choice
}

// A WhatIf asks what failures change.
type WhatIf struct {
	Topology *Topology
	// Base is the distances from the roots in question to all nodes, Topology.Distances.
	Base *Matrix
	// Exits are the nodes among which every root takes the nearest. May be empty.
	Exits []uint32
	// Solver computes the distances from every root that uses a failed link anew. nil: on all cores the
	// distances are repaired instead, which costs what the failure changes. All failures of one link among
	// 315 nodes and 972 links, with all roots, take some 50 ms on one core.
	Solver Solver
}

// Run gives the impact of each failure by itself.
func (w *WhatIf) Run(ctx context.Context, failures []Failure) ([]Impact, error) {
	if w.Base.Targets != nil {
		panic("igp: a WhatIf needs the distances to all nodes")
	}
	impacts := make([]Impact, len(failures))
	for i, f := range failures {
		impacts[i].Failure = f
	}
	isExit := make([]bool, len(w.Topology.Nodes))
	for _, e := range w.Exits {
		isExit[e] = true
	}
	run := w.repairAll
	if w.Solver != nil {
		run = w.solveAll
	}
	if err := run(ctx, impacts, isExit); err != nil {
		return nil, fmt.Errorf("%d failures: %w", len(failures), err)
	}
	return impacts, nil
}

// repairAll fills the impacts in, one on each core.
func (w *WhatIf) repairAll(ctx context.Context, impacts []Impact, isExit []bool) error {
	return each(ctx, 0, len(impacts), func() func(int) {
		r := newRepair(w.Topology.Graph)
		return func(i int) {
			arcs := w.arcs(impacts[i].Failure)
			for root, number := range w.Base.Roots {
				if was := w.Base.Row(root); w.uses(was, number, arcs) {
					r.run(was, number, arcs)
					w.add(&impacts[i], number, was, r.changes(), isExit)
				}
			}
		}
	})
}

// solveChunk is how many distances a solver is asked for at once: 64 MiB.
const solveChunk = 8 << 20

// solveAll fills the impacts in from what the solver gives.
func (w *WhatIf) solveAll(ctx context.Context, impacts []Impact, isExit []bool) error {
	nodes := len(w.Topology.Nodes)
	type job struct{ impact, root int }
	var jobs []job
	var problems []Problem
	most := max(1, solveChunk/max(1, nodes))
	dist := make([]uint64, 0, most*nodes)
	solve := func() error {
		dist = dist[:len(problems)*nodes]
		if err := w.Solver.Distances(ctx, w.Topology.Graph, problems, nil, dist); err != nil {
			return err
		}
		var changes []change
		for i, j := range jobs {
			was, is := w.Base.Row(j.root), dist[i*nodes:][:nodes]
			changes = changes[:0]
			for v := range was {
				if is[v] != was[v] {
					changes = append(changes, change{uint32(v), is[v]})
				}
			}
			w.add(&impacts[j.impact], w.Base.Roots[j.root], was, changes, isExit)
		}
		jobs, problems = jobs[:0], problems[:0]
		return nil
	}
	for i := range impacts {
		arcs := w.arcs(impacts[i].Failure)
		if len(arcs) > 2 {
			return fmt.Errorf("failure %d is of more than one link: a solver takes one, leave it out for the others", i)
		}
		skip := append(arcs, NoArc, NoArc)
		for root, number := range w.Base.Roots {
			if !w.uses(w.Base.Row(root), number, arcs) {
				continue
			}
			jobs = append(jobs, job{i, root})
			problems = append(problems, Problem{number, skip[0], skip[1]})
			if len(problems) == most {
				if err := solve(); err != nil {
					return err
				}
			}
		}
	}
	return solve()
}

// arcs gives the arcs that a failure takes out.
func (w *WhatIf) arcs(f Failure) []uint32 {
	var arcs []uint32
	for _, l := range f.Links {
		for _, a := range w.Topology.arcs[l] {
			if a != NoArc && !slices.Contains(arcs, a) {
				arcs = append(arcs, a)
			}
		}
	}
	return arcs
}

// uses tells whether a shortest path from a root goes over any of the arcs.
func (w *WhatIf) uses(dist []uint64, root uint32, arcs []uint32) bool {
	return slices.ContainsFunc(arcs, func(a uint32) bool { return w.Topology.Graph.tight(dist, root, a) })
}

// add counts what a failure does to a root that uses it.
func (w *WhatIf) add(i *Impact, root uint32, was []uint64, changes []change, isExit []bool) {
	i.Users++
	if len(changes) == 0 {
		return
	}
	r := RootImpact{Root: root, Farther: len(changes)}
	exit := false
	for _, c := range changes {
		if c.dist == Unreachable {
			r.Lost++
		} else {
			r.Most = max(r.Most, c.dist-was[c.node])
		}
		exit = exit || isExit[c.node]
	}
	i.Roots = append(i.Roots, r)
	if !exit {
		return
	}
	before := make([]uint64, len(w.Exits))
	for n, e := range w.Exits {
		before[n] = was[e]
	}
	after := slices.Clone(before)
	for _, c := range changes {
		for n, e := range w.Exits {
			if e == c.node {
				after[n] = c.dist
			}
		}
	}
	if old, now := Nearest(w.Exits, before), Nearest(w.Exits, after); !slices.Equal(old.Exits, now.Exits) {
		i.Exits = append(i.Exits, ExitChange{root, old, now})
	}
}
