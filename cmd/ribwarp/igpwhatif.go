package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/rib/igp"
)

func (a *app) igpWhatIfCommand() *cobra.Command {
	var o topologyOptions
	var solver solverOptions
	var from, exits, fail []string
	var top int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "whatif --topology FILE [--fail LINK]",
		Short: "Say what the failure of a link changes",
		Long: `whatif fails a link, or several at once, and prints from which nodes others become farther or
unreachable, and which routers take other exits. From one node, --from, it prints every way that changes.
Without --fail it fails every link, one at a time, and ranks them.`,
		Example: `  ribwarp igp whatif --topology backbone.graph
  ribwarp igp whatif --topology backbone.graph --fail Link_17 --exit Paris --exit Rome
  ribwarp igp whatif --topology backbone.json --fail Paris--Milan --from Berlin --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if top < 0 {
				return usagef("--top %d: it is 0 or more", top)
			}
			t, s, end, err := solver.openFor(cmd.Context(), a, &o, from)
			if err != nil {
				return err
			}
			defer end()
			answer, err := igpWhatIfOf(cmd.Context(), t, s, solver.engine == engineCUDA && len(fail) < 2, from, exits, fail)
			if err != nil {
				return err
			}
			answer.top = top
			return a.write(answer, asJSON)
		},
	}
	o.flags(cmd)
	fs := cmd.Flags()
	solver.flags(fs)
	fs.StringArrayVar(&from, "from", nil, "look from this `NODE`; may be repeated (default: all)")
	fs.StringArrayVar(&exits, "exit", nil, "a `NODE` where traffic leaves: say which routers take another one; may be repeated")
	failFlag(fs, &fail, "fail this link")
	fs.IntVar(&top, "top", 20, "without --fail, print so many `LINKS`; 0: all")
	fs.BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// igpWhatIf is what "igp whatif" says, as its JSON.
type igpWhatIf struct {
	From     int          `json:"from"` // number of nodes looked from
	Exits    []string     `json:"exits,omitempty"`
	Failures []igpFailure `json:"failures"`
	single   bool         // --fail was given
	top      int
}

// igpFailure is what a failure does.
type igpFailure struct {
	Links   []string     `json:"links"`
	Users   int          `json:"users"` // nodes with a shortest path over the links
	Farther int          `json:"farther"`
	Lost    int          `json:"lost"`
	Most    uint64       `json:"most"`
	Roots   []igpRoot    `json:"roots"`
	Exits   []igpExit    `json:"exits"`
	Ways    []igpReroute `json:"ways,omitempty"` // with --fail and one --from
	from    string
	ends    string
}

type igpRoot struct {
	From    string `json:"from"`
	Farther int    `json:"farther"`
	Lost    int    `json:"lost"`
	Most    uint64 `json:"most"`
}

type igpExit struct {
	From string    `json:"from"`
	Was  igpChoice `json:"was"`
	Is   igpChoice `json:"is"`
}

type igpChoice struct {
	Cost  igp.Cost `json:"cost"`
	Exits []string `json:"exits"`
}

// igpReroute is a node whose distance or first hops change.
type igpReroute struct {
	To  string `json:"to"`
	Was igpWay `json:"was"`
	Is  igpWay `json:"is"`
}

type igpWay struct {
	Distance  igp.Cost   `json:"distance"`
	FirstHops []igp.Step `json:"first_hops"`
}

// whatIfMost is the most distances to compare with: 16 GiB.
const whatIfMost = 1 << 31

// igpWhatIfOf asks what failures change. The solver computes distances; those after a failure only if anew
// says so, since they are repaired sooner.
func igpWhatIfOf(ctx context.Context, t *igp.Topology, s igp.Solver, anew bool, from, exits, fail []string) (*igpWhatIf, error) {
	roots, err := nodesOf(t, "from", from)
	if err != nil {
		return nil, err
	}
	exitNodes, err := nodesOf(t, "exit", exits)
	if err != nil {
		return nil, err
	}
	failed, err := linksOf(t, fail)
	if err != nil {
		return nil, err
	}
	if n := rootCount(t, from); int64(n)*int64(len(t.Nodes)) > whatIfMost {
		return nil, fmt.Errorf("%d nodes seen from %d take more than 16 GiB: look from fewer with --from", len(t.Nodes), n)
	}
	base, err := t.Distances(ctx, roots, nil, s)
	if err != nil {
		return nil, err
	}
	failures := []igp.Failure{{Links: failed}}
	if len(failed) == 0 {
		failures = make([]igp.Failure, len(t.Links))
		for l := range failures {
			failures[l].Links = []uint32{uint32(l)}
		}
	}
	w := igp.WhatIf{Topology: t, Base: base, Exits: exitNodes}
	if anew {
		w.Solver = s
	}
	answer := &igpWhatIf{From: len(base.Roots), Exits: namesOf(t, exitNodes), Failures: []igpFailure{}, single: len(failed) > 0}
	for some := range slices.Chunk(failures, 256) { // what each root sees of all failures would not fit
		impacts, err := w.Run(ctx, some)
		if err != nil {
			return nil, err
		}
		for i := range impacts {
			answer.Failures = append(answer.Failures, igpFailureOf(t, &impacts[i], answer.single))
		}
	}
	if answer.single && len(roots) == 1 {
		answer.Failures[0].from = t.Nodes[roots[0]].Name
		answer.Failures[0].Ways = reroutes(t, t.Without(failed...), roots[0])
	}
	slices.SortStableFunc(answer.Failures, func(a, b igpFailure) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Farther, a.Farther), cmp.Compare(b.Users, a.Users))
	})
	return answer, nil
}

func igpFailureOf(t *igp.Topology, i *igp.Impact, withRoots bool) igpFailure {
	f := igpFailure{Links: linkNames(t, i.Failure.Links), Users: i.Users, Exits: make([]igpExit, len(i.Exits))}
	f.Farther, f.Lost, f.Most = i.Farther()
	if withRoots {
		for _, r := range i.Roots {
			f.Roots = append(f.Roots, igpRoot{t.Nodes[r.Root].Name, r.Farther, r.Lost, r.Most})
		}
	}
	choice := func(c igp.Choice) igpChoice { return igpChoice{igp.Cost(c.Cost), namesOf(t, c.Exits)} }
	for n, e := range i.Exits {
		f.Exits[n] = igpExit{t.Nodes[e.Root].Name, choice(e.Was), choice(e.Is)}
	}
	var ends []string
	for _, l := range i.Failure.Links {
		ends = append(ends, t.Links[l].From+" to "+t.Links[l].To)
	}
	f.ends = strings.Join(ends, ", ")
	return f
}

// reroutes gives the nodes to which the way from root changes.
func reroutes(before, after *igp.Topology, root uint32) []igpReroute {
	was, is := before.Tree(root), after.Tree(root)
	ways := []igpReroute{}
	for v := range uint32(len(before.Nodes)) {
		old, now := was.FirstHops(v), is.FirstHops(v)
		if was.Dist[v] != is.Dist[v] || !slices.Equal(old, now) {
			ways = append(ways, igpReroute{before.Nodes[v].Name, igpWay{igp.Cost(was.Dist[v]), before.Steps(old)}, igpWay{igp.Cost(is.Dist[v]), after.Steps(now)}})
		}
	}
	return ways
}

func (i *igpWhatIf) print(to io.Writer) error {
	if i.single {
		return i.Failures[0].print(to)
	}
	shown := i.Failures
	if i.top > 0 && i.top < len(shown) {
		shown = shown[:i.top]
	}
	w := columns(to)
	fmt.Fprintln(w, "LINK\tUSERS\tPAIRS FARTHER\tLOST\tMOST\tEXITS CHANGED\tBETWEEN")
	for _, f := range shown {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", strings.Join(f.Links, ", "), f.Users, f.Farther, f.Lost, f.Most, len(f.Exits), f.ends)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "\n%d of %d links, seen from %d nodes\n", len(shown), len(i.Failures), i.From)
	return err
}

// print writes one failure for people.
func (f *igpFailure) print(to io.Writer) error {
	fmt.Fprintf(to, "Without %s (%s): %d nodes used it, %d pairs are farther apart, by %d at most, %d pairs of them have no path\n",
		strings.Join(f.Links, ", "), f.ends, f.Users, f.Farther, f.Most, f.Lost)
	w := columns(to)
	if len(f.Roots) > 0 {
		fmt.Fprintln(w, "\nFROM\tNODES FARTHER\tLOST\tMOST")
		for _, r := range f.Roots {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", r.From, r.Farther, r.Lost, r.Most)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(f.Ways) > 0 {
		fmt.Fprintf(w, "\nFrom %s\nTO\tWAS\tIS\tFIRST HOPS WERE\tFIRST HOPS ARE\n", f.from)
		for _, r := range f.Ways {
			fmt.Fprintf(w, "%s\t%v\t%v\t%s\t%s\n", r.To, r.Was.Distance, r.Is.Distance, hopText(r.Was.FirstHops, ", "), hopText(r.Is.FirstHops, ", "))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(f.Exits) > 0 {
		fmt.Fprintln(w, "\nFROM\tTOOK EXIT\tAT\tTAKES\tAT")
		for _, e := range f.Exits {
			fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%v\n", e.From, exitText(e.Was.Exits), e.Was.Cost, exitText(e.Is.Exits), e.Is.Cost)
		}
	}
	return w.Flush()
}

func exitText(exits []string) string {
	if len(exits) == 0 {
		return "-"
	}
	return strings.Join(exits, ", ")
}
