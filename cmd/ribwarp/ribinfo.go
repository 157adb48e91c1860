package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib/input"
	"github.com/ribwarp/ribwarp/rib/input/problems"
)

func (a *app) ribCommand() *cobra.Command {
	return group("rib", "Look into route files", a.ribInfoCommand(), a.ribDiffCommand())
}

func (a *app) ribInfoCommand() *cobra.Command {
	var o tableOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Say what route files hold and how the table comes out",
		Long: `info reads route files and prints their peers, what is wrong with them, the best routes
by family and prefix length, and the tree built from these, level by level.`,
		Example: `  ribwarp rib info table.mrt.gz
  ribwarp rib info --strides4 16,8,8 --flavor list --json prefixes.txt`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ribs = append(o.ribs, args...)
			return a.ribInfo(cmd, &o, asJSON)
		},
	}
	fs := cmd.Flags()
	o.flags(fs, engineCPU)
	fs.BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// ribInfo is what "rib info" says, as its JSON.
type ribInfo struct {
	Files  []fileInfo  `json:"files"`
	Peers  []peerInfo  `json:"peers"`
	Routes routeCounts `json:"routes"`
	Table  lpm.Info    `json:"table"`
}

type fileInfo struct {
	Path          string                `json:"path"`
	Format        input.Format          `json:"format"`
	Compression   input.Compression     `json:"compression"`
	Records       int                   `json:"records"`
	Routes        int                   `json:"routes"`
	Withdrawn     int                   `json:"withdrawn"`
	Peers         int                   `json:"peers"`
	Broken        string                `json:"broken,omitempty"`
	Problems      []problems.Problem    `json:"problems"`
	ProblemCounts map[problems.Kind]int `json:"problem_counts"`
}

type peerInfo struct {
	Name string `json:"name"`
	AS   uint32 `json:"as,omitempty"`
	Addr string `json:"address,omitempty"`
	IPv4 int    `json:"ipv4"`
	IPv6 int    `json:"ipv6"`
}

// routeCounts counts best routes; the lists are by prefix length from 0.
type routeCounts struct {
	IPv4    int   `json:"ipv4"`
	IPv6    int   `json:"ipv6"`
	Length4 []int `json:"ipv4_by_length"`
	Length6 []int `json:"ipv6_by_length"`
}

func (a *app) ribInfo(cmd *cobra.Command, o *tableOptions, asJSON bool) error {
	t, err := a.openTable(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer t.Close()
	info := t.info()
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		err = e.Encode(info)
	} else {
		err = info.print(a.stdout)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return t.problems
}

func (t *table) info() ribInfo {
	info := ribInfo{
		Files:  []fileInfo{},
		Peers:  []peerInfo{},
		Routes: routeCounts{IPv4: t.gen.V4, IPv6: t.gen.V6, Length4: make([]int, 33), Length6: make([]int, 129)},
		Table:  t.gen.Table.Info(),
	}
	for _, r := range t.reports {
		f := fileInfo{
			Path: r.Path, Format: r.Format, Compression: r.Compression, Records: r.Records, Routes: r.Routes,
			Withdrawn: r.Withdrawn, Peers: r.Peers, Problems: r.Problems, ProblemCounts: r.ProblemCounts,
		}
		if r.Broken != nil {
			f.Broken = r.Broken.Error()
		}
		info.Files = append(info.Files, f)
	}
	for _, p := range t.rib.Peers() {
		i := peerInfo{Name: p.Name, AS: p.AS, IPv4: p.V4, IPv6: p.V6}
		if p.Addr.IsValid() {
			i.Addr = p.Addr.String()
		}
		info.Peers = append(info.Peers, i)
	}
	for i := range t.gen.Routes.Len() {
		switch p := t.gen.Routes.At(i).Prefix; {
		case !p.IsValid():
		case p.Addr().Is4():
			info.Routes.Length4[p.Bits()]++
		default:
			info.Routes.Length6[p.Bits()]++
		}
	}
	return info
}

// print writes the information for people.
func (info ribInfo) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range info.Files {
		fmt.Fprintf(to, "%s: %s, compression %s, %d records, %d routes announced, %d withdrawn, %d peers\n",
			f.Path, f.Format, f.Compression, f.Records, f.Routes, f.Withdrawn, f.Peers)
		for _, p := range f.Problems {
			fmt.Fprintf(to, "  %s\n", p)
		}
		kinds := make([]string, 0, len(f.ProblemCounts))
		for kind, n := range f.ProblemCounts {
			kinds = append(kinds, fmt.Sprintf("%s: %d", kind, n))
		}
		sort.Strings(kinds)
		if len(kinds) > 0 {
			fmt.Fprintf(to, "  problems in all: %s\n", strings.Join(kinds, ", "))
		}
	}
	fmt.Fprintf(to, "\nPeers\n")
	fmt.Fprintf(w, "IPv4\tIPv6\tAS\t  name\n")
	for _, p := range info.Peers {
		fmt.Fprintf(w, "%d\t%d\t%d\t  %s\n", p.IPv4, p.IPv6, p.AS, p.Name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(to, "\nBest routes: %d IPv4, %d IPv6\n", info.Routes.IPv4, info.Routes.IPv6)
	for _, l := range []struct {
		family string
		counts []int
	}{{"IPv4", info.Routes.Length4}, {"IPv6", info.Routes.Length6}} {
		for bits, n := range l.counts {
			if n > 0 {
				fmt.Fprintf(w, "%s\t/%d\t%d\t\n", l.family, bits, n)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range info.Table.Families {
		fmt.Fprintf(to, "\nTree %s: engine %s, flavor %s, %d prefixes, %d bytes\n", f.Family, info.Table.Engine, info.Table.Flavor, f.Prefixes, f.Bytes)
		fmt.Fprintf(w, "level\tstride\tnodes\tcells\tbytes\tmasks\tcontainers\tlongest\t\n")
		for i, l := range f.Levels {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", i, l.Stride, l.Nodes, l.Cells, l.Bytes, l.Masks, l.Containers, l.LongestList)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
