package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/rib/igp"
)

func (a *app) igpCommand() *cobra.Command {
	return group("igp", "Shortest paths in an IGP, and what failures change", a.igpPathsCommand(), a.igpMatrixCommand(), a.igpWhatIfCommand())
}

// topologyOptions are the flags that name a topology.
type topologyOptions struct {
	path string
	read igp.ReadOptions
}

func (o *topologyOptions) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&o.path, "topology", "", "read the topology of this `FILE`: JSON (docs/igp.md), GraphML, or Repetita's .graph")
	fs.StringVar(&o.read.MetricName, "metric", "weight", "in GraphML, the `ATTRIBUTE` of an edge that is its metric")
	fs.Uint32Var(&o.read.DefaultMetric, "default-metric", 0, "in GraphML, the `METRIC` of an edge without one; 0 makes it an error")
	fs.Uint32Var(&o.read.MaxMetric, "max-metric", igp.Unused, "the `METRIC` of a link that is not to be used, 16777215 with wide metrics of IS-IS; larger ones are errors")
	_ = cmd.MarkFlagRequired("topology") // it is there
}

// open reads the topology.
func (o *topologyOptions) open(a *app) (*igp.Topology, error) {
	if o.path == "-" {
		t, err := igp.Read(a.stdin, o.read)
		if err != nil {
			return nil, fmt.Errorf("topology of stdin: %w", err)
		}
		return t, nil
	}
	return igp.ReadFile(o.path, o.read)
}

// nodesOf gives the numbers of the nodes that a flag names; nil for none.
func nodesOf(t *igp.Topology, flag string, names []string) ([]uint32, error) {
	var nodes []uint32
	for _, name := range names {
		n, err := t.FindNode(name)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// linksOf is nodesOf for the links of --fail.
func linksOf(t *igp.Topology, names []string) ([]uint32, error) {
	var links []uint32
	for _, name := range names {
		l, err := t.FindLink(name)
		if err != nil {
			return nil, fmt.Errorf("--fail: %w", err)
		}
		links = append(links, l)
	}
	return links, nil
}

// failFlag adds --fail.
func failFlag(fs *pflag.FlagSet, fail *[]string, what string) {
	fs.StringArrayVar(fail, "fail", nil, what+": its name, or `LINK` as FROM--TO; several at once where the flag is repeated")
}

func namesOf(t *igp.Topology, nodes []uint32) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = t.Nodes[n].Name
	}
	return names
}

func linkNames(t *igp.Topology, links []uint32) []string {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = t.Links[l].Name
	}
	return names
}

// write writes an answer as JSON, or has it printed.
func (a *app) write(answer interface{ print(io.Writer) error }, asJSON bool) (err error) {
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		err = e.Encode(answer)
	} else {
		err = answer.print(a.stdout)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// columns makes a table for people.
func columns(to io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
}

func (a *app) igpPathsCommand() *cobra.Command {
	var o topologyOptions
	var from string
	var to, fail []string
	var most int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "paths --topology FILE --from NODE [--to NODE]",
		Short: "Say how far nodes are from one, and over which links",
		Long: `paths prints the distance from a node to each other, or to those that --to names, and the first
hops of all equal-cost paths; with --to also the paths. A node is named by its name or by one
of its addresses.`,
		Example: `  ribwarp igp paths --topology backbone.graph --from Paris
  ribwarp igp paths --topology backbone.json --from 192.0.2.1 --to Rome --fail Paris--Milan --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if most < 0 {
				return usagef("--paths %d: it is 0 or more", most)
			}
			t, err := o.open(a)
			if err != nil {
				return err
			}
			answer, err := igpPathsOf(t, from, to, fail, most)
			if err != nil {
				return err
			}
			return a.write(answer, asJSON)
		},
	}
	o.flags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&from, "from", "", "start at this `NODE`")
	fs.StringArrayVar(&to, "to", nil, "end at this `NODE`; may be repeated (default: all)")
	failFlag(fs, &fail, "do without this link")
	fs.IntVar(&most, "paths", 8, "with --to, print so many `PATHS` to a node at most")
	fs.BoolVar(&asJSON, "json", false, "print a JSON object")
	_ = cmd.MarkFlagRequired("from")
	return cmd
}

// igpPaths is what "igp paths" says, as its JSON.
type igpPaths struct {
	From   string    `json:"from"`
	Failed []string  `json:"failed,omitempty"`
	To     []igp.Way `json:"to"`
}

func igpPathsOf(t *igp.Topology, from string, to, fail []string, most int) (*igpPaths, error) {
	roots, err := nodesOf(t, "from", []string{from})
	if err != nil {
		return nil, err
	}
	targets, err := nodesOf(t, "to", to)
	if err != nil {
		return nil, err
	}
	failed, err := linksOf(t, fail)
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		t = t.Without(failed...)
	}
	tree := t.Tree(roots[0])
	answer := &igpPaths{From: t.Nodes[roots[0]].Name, Failed: linkNames(t, failed), To: []igp.Way{}}
	if targets == nil {
		targets, most = slices.DeleteFunc(t.AllNodes(), func(v uint32) bool { return v == tree.Root }), 0
	}
	for _, v := range targets {
		answer.To = append(answer.To, tree.Way(v, most))
	}
	return answer, nil
}

func (p *igpPaths) print(to io.Writer) error {
	fmt.Fprintf(to, "From %s%s\n", p.From, without(p.Failed))
	w := columns(to)
	fmt.Fprintln(w, "TO\tDISTANCE\tFIRST HOPS")
	for _, r := range p.To {
		fmt.Fprintf(w, "%s\t%v\t%s\n", r.Node, r.Distance, hopText(r.FirstHops, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range p.To {
		if len(r.Paths) == 0 || len(r.Paths[0]) == 0 {
			continue
		}
		fmt.Fprintf(to, "\nPaths to %s\n", r.Node)
		for _, path := range r.Paths {
			fmt.Fprintf(to, "  %s %s\n", p.From, hopText(path, " "))
		}
		if r.More {
			fmt.Fprintf(to, "  and others: ask for more with --paths\n")
		}
	}
	return nil
}

// without names failed links.
func without(failed []string) string {
	if len(failed) == 0 {
		return ""
	}
	return " without " + strings.Join(failed, ", ")
}

// hopText names hops as "-LINK-> NODE".
func hopText(hops []igp.Step, separator string) string {
	if len(hops) == 0 {
		return "-"
	}
	list := make([]string, len(hops))
	for i, h := range hops {
		list[i] = fmt.Sprintf("-%s-> %s", h.Link, h.Node)
	}
	return strings.Join(list, separator)
}

func (a *app) igpMatrixCommand() *cobra.Command {
	var o topologyOptions
	var solver solverOptions
	var from, to, fail []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "matrix --topology FILE",
		Short: "Say how far nodes are from many",
		Long: `matrix prints the distances from nodes to nodes, all where none are named. With up to 12 nodes
to go to it is a table of all distances, with the nearest in the last column: name your exits with --to and
see which one each router takes. With more, a line says how many nodes a router reaches, and the
farthest; JSON has all distances.`,
		Example: `  ribwarp igp matrix --topology backbone.graph --to Paris --to Rome
  ribwarp igp matrix --topology backbone.json --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, s, end, err := solver.openFor(cmd.Context(), a, &o, from)
			if err != nil {
				return err
			}
			defer end()
			return a.igpMatrix(cmd.Context(), t, s, from, to, fail, asJSON)
		},
	}
	o.flags(cmd)
	fs := cmd.Flags()
	solver.flags(fs)
	fs.StringArrayVar(&from, "from", nil, "start at this `NODE`; may be repeated (default: all)")
	fs.StringArrayVar(&to, "to", nil, "end at this `NODE`; may be repeated (default: all)")
	failFlag(fs, &fail, "do without this link")
	fs.BoolVar(&asJSON, "json", false, "print a JSON object for each start, one a line")
	return cmd
}

// rootCount is how many nodes --from means.
func rootCount(t *igp.Topology, from []string) int {
	if len(from) == 0 {
		return len(t.Nodes)
	}
	return len(from)
}

// matrixColumns is how many columns of distances fit a terminal, more or less.
const matrixColumns = 12

// matrixChunk is how many distances are computed at once: 64 MiB.
const matrixChunk = 8 << 20

// igpRow is a row of "igp matrix", as its JSON.
type igpRow struct {
	From      string              `json:"from"`
	Failed    []string            `json:"failed,omitempty"`
	Distances map[string]igp.Cost `json:"distances"`
}

func (a *app) igpMatrix(ctx context.Context, t *igp.Topology, s igp.Solver, from, to, fail []string, asJSON bool) error {
	roots, err := nodesOf(t, "from", from)
	if err != nil {
		return err
	}
	targets, err := nodesOf(t, "to", to)
	if err != nil {
		return err
	}
	failed, err := linksOf(t, fail)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		t = t.Without(failed...)
	}
	if roots == nil {
		roots = t.AllNodes()
	}
	wanted := targets
	if wanted == nil {
		wanted = t.AllNodes()
	}
	w := columns(a.stdout)
	row := func(root uint32, dist []uint64) error { return matrixSummary(w, t, root, wanted, dist) }
	switch {
	case asJSON:
		row = func(root uint32, dist []uint64) error {
			r := igpRow{From: t.Nodes[root].Name, Failed: linkNames(t, failed), Distances: make(map[string]igp.Cost, len(dist))}
			for i, d := range dist {
				r.Distances[t.Nodes[wanted[i]].Name] = igp.Cost(d)
			}
			return json.NewEncoder(a.stdout).Encode(r)
		}
	case len(wanted) <= matrixColumns:
		fmt.Fprintf(w, "FROM\t%s\tNEAREST\n", strings.Join(namesOf(t, wanted), "\t"))
		row = func(root uint32, dist []uint64) error { return matrixLine(w, t, root, wanted, dist) }
	default:
		fmt.Fprintln(w, "FROM\tREACHES\tOF\tMEAN DISTANCE\tFARTHEST\tNODE")
	}
	chunk := max(1, matrixChunk/max(1, len(wanted)))
	for len(roots) > 0 {
		n := min(chunk, len(roots))
		m, err := t.Distances(ctx, roots[:n], targets, s)
		if err != nil {
			return err
		}
		for i, root := range m.Roots {
			if err := row(root, m.Row(i)); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		roots = roots[n:]
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// matrixLine prints all distances from a node, and to which it is nearest.
func matrixLine(w io.Writer, t *igp.Topology, root uint32, wanted []uint32, dist []uint64) error {
	fmt.Fprint(w, t.Nodes[root].Name)
	for _, d := range dist {
		fmt.Fprintf(w, "\t%v", igp.Cost(d))
	}
	_, err := fmt.Fprintf(w, "\t%s\n", choiceText(t, igp.Nearest(wanted, dist)))
	return err
}

// matrixSummary prints what the distances from a node are like.
func matrixSummary(w io.Writer, t *igp.Topology, root uint32, wanted []uint32, dist []uint64) error {
	reached, sum, most, at := 0, 0.0, uint64(0), root
	for i, d := range dist {
		if d == igp.Unreachable {
			continue
		}
		reached++
		sum += float64(d)
		if d > most {
			most, at = d, wanted[i]
		}
	}
	mean := "-"
	if reached > 0 {
		mean = fmt.Sprintf("%.1f", sum/float64(reached))
	}
	_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%s\n", t.Nodes[root].Name, reached, len(wanted), mean, most, t.Nodes[at].Name)
	return err
}

// choiceText names the nearest exits.
func choiceText(t *igp.Topology, c igp.Choice) string {
	if len(c.Exits) == 0 {
		return "-"
	}
	return strings.Join(namesOf(t, c.Exits), ", ")
}
