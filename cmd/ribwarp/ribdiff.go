package main

import (
	"bufio"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/rib"
)

// diffOptions are the flags of rib diff.
type diffOptions struct {
	tableOptions
	json, prefixes, summary bool
	family                  string
}

func (a *app) ribDiffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff FILE FILE",
		Short: "Say how the best routes of two route files differ",
		Long: `diff reads two route files and prints the prefixes whose best route is another one, in order: a
line with - for the route of the first file, one with + for that of the second, and at the end
how many were added, removed and changed. Two routes are the same where all their attributes
are, whatever the peers are called. "-" is stdin.

Exit codes are those of diff(1): 0 no difference, 1 differences, 2 trouble.`,
		Example: `  ribwarp rib diff monday.mrt.gz tuesday.mrt.gz
  ribwarp rib diff --json --family ipv6 before.txt after.txt
  ribwarp rib diff --prefixes --summary table.mrt.bz2 list.txt`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			different, err := a.ribDiff(cmd, &o, args)
			switch {
			case err != nil:
				return troubleError{err}
			case different:
				return errReported
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.strict, "strict", false, "fail if anything is wrong with the input")
	fs.BoolVar(&o.json, "json", false, "print a JSON object a line")
	fs.BoolVar(&o.prefixes, "prefixes", false, "look at prefixes only, not at attributes")
	fs.BoolVar(&o.summary, "summary", false, "print only how many differ")
	fs.StringVar(&o.family, "family", "", "only this `FAMILY`: ipv4 or ipv6")
	o.engineOptions.flags(fs, engineCPU)
	return cmd
}

func (a *app) ribDiff(cmd *cobra.Command, o *diffOptions, files []string) (different bool, err error) {
	if o.family != "" && o.family != "ipv4" && o.family != "ipv6" {
		return false, usagef("--family %q: use ipv4 or ipv6", o.family)
	}
	if files[0] == "-" && files[1] == "-" {
		return false, usagef("both files are stdin: name one")
	}
	var both [2]*table
	for i, path := range files {
		one := o.tableOptions
		one.ribs = []string{path}
		if both[i], err = a.openTable(cmd.Context(), &one); err != nil {
			return false, err
		}
		defer both[i].Close()
		if err := both[i].problems; err != nil {
			return false, err
		}
	}
	out := bufio.NewWriter(a.stdout)
	counts, err := o.print(out, both[0].gen, both[1].gen)
	if err == nil {
		err = counts.print(out, o.json)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return false, fmt.Errorf("write: %w", err)
	}
	return counts.added+counts.removed+counts.changed > 0, nil
}

// diffCounts are how many prefixes differ in which way.
type diffCounts struct{ added, removed, changed int }

// print writes what differs, if that is wanted, and counts it.
func (o *diffOptions) print(out *bufio.Writer, from, to *rib.Generation) (n diffCounts, err error) {
	same := rib.SamePath
	if o.prefixes {
		same = func(a, b rib.Route) bool { return a.Prefix == b.Prefix }
	}
	var line []byte
	for d := range rib.Diff(from, to, netip.Prefix{}, same) {
		if o.family != "" && (o.family == "ipv4") != d.Prefix().Addr().Is4() {
			continue
		}
		line = line[:0]
		switch {
		case !d.From.Prefix.IsValid():
			n.added++
		case !d.To.Prefix.IsValid():
			n.removed++
		default:
			n.changed++
		}
		switch {
		case o.summary:
			continue
		case o.json:
			line = append(api.AppendDifference(line, d), '\n')
		default:
			line = appendSide(line, '-', d.From)
			line = appendSide(line, '+', d.To)
		}
		if _, err := out.Write(line); err != nil {
			return n, err
		}
	}
	return n, nil
}

// appendSide appends the line of one side, as "+ 192.0.2.0/24 via 198.51.100.1 path 64500 64501 origin
// igp"; nothing where it has no route.
func appendSide(dst []byte, sign byte, r rib.Route) []byte {
	if !r.Prefix.IsValid() {
		return dst
	}
	dst = append(dst, sign, ' ')
	dst = r.Prefix.AppendTo(dst)
	if r.Path == (rib.Path{}) {
		return append(dst, '\n')
	}
	at := r.Path.Value()
	field := func(name, value string) {
		if value != "" {
			dst = append(dst, ' ')
			dst = append(dst, name...)
			dst = append(dst, ' ')
			dst = append(dst, value...)
		}
	}
	if at.NextHop.IsValid() {
		field("via", at.NextHop.String())
	}
	field("path", at.ASPath.String())
	field("origin", rib.OriginName(at.Origin))
	if at.HasMED {
		field("med", fmt.Sprint(at.MED))
	}
	if at.HasLocalPref {
		field("local-pref", fmt.Sprint(at.LocalPref))
	}
	for _, communities := range [][]string{at.Communities.Strings(), at.LargeCommunities.Strings(), at.ExtCommunities.Strings()} {
		for _, c := range communities {
			field("community", c)
		}
	}
	return append(dst, '\n')
}

// print writes the summary.
func (n diffCounts) print(out *bufio.Writer, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "{\"end\":true,\"changes\":%d,\"added\":%d,\"removed\":%d,\"changed\":%d}\n", n.added+n.removed+n.changed, n.added, n.removed, n.changed)
		return err
	}
	_, err := fmt.Fprintf(out, "%d added, %d removed, %d changed\n", n.added, n.removed, n.changed)
	return err
}
