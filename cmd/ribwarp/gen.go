package main

import (
	"bufio"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
)

func (a *app) genCommand() *cobra.Command {
	cmd := a.genTableCommand()
	cmd.AddCommand(a.genAddressesCommand())
	return cmd
}

func (a *app) genTableCommand() *cobra.Command {
	var o struct {
		seed       uint64
		ipv4, ipv6 int
		format     string
		peers      int
		out        string
	}
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Generate a routing table, or addresses to look up",
		Long: `gen writes a made-up routing table that looks like the real one: its prefix lengths,
nesting and path attributes. The same seed gives the same table.`,
		Example: `  ribwarp gen --seed 1 --ipv4 100000 --ipv6 20000 --format mrt --out table.mrt
  ribwarp gen addresses --rib table.mrt --count 1000000 --out addresses.txt`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case o.ipv4 < 0 || o.ipv6 < 0:
				return usagef("--ipv4 %d --ipv6 %d: they are 0 or more", o.ipv4, o.ipv6)
			case o.format != "list" && o.format != "mrt":
				return usagef("--format %q: use list or mrt", o.format)
			case o.peers < 1 || o.peers > fixtures.MaxMRTPeers:
				return usagef("--peers %d: it is 1 to %d", o.peers, fixtures.MaxMRTPeers)
			}
			table := fixtures.Generate(o.seed, o.ipv4, o.ipv6)
			return a.writeOutput(o.out, func(w *bufio.Writer) error {
				if o.format == "mrt" {
					return fixtures.WriteMRT(w, table, o.peers)
				}
				return fixtures.WriteList(w, table)
			})
		},
	}
	fs := cmd.Flags()
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the generator")
	fs.IntVar(&o.ipv4, "ipv4", 100_000, "number of IPv4 prefixes")
	fs.IntVar(&o.ipv6, "ipv6", 20_000, "number of IPv6 prefixes")
	fs.StringVar(&o.format, "format", "list", "list (prefix, origin AS, next hop) or mrt (TABLE_DUMP_V2)")
	fs.IntVar(&o.peers, "peers", 1, "peers in the MRT file, each with the whole table")
	fs.StringVar(&o.out, "out", "-", "write to this `FILE`")
	return cmd
}

func (a *app) genAddressesCommand() *cobra.Command {
	var o struct {
		tableOptions
		seed   uint64
		count  int
		keys   string
		family string
		out    string
	}
	cmd := &cobra.Command{
		Use:   "addresses --rib FILE",
		Short: "Generate addresses to look up in a table, one a line",
		Example: `  ribwarp gen addresses --rib table.mrt --count 1000000 --out addresses.txt
  ribwarp gen addresses --rib table.mrt --family ipv4 --keys uniform --count 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.count < 0 {
				return usagef("--count %d: it is 0 or more", o.count)
			}
			t, err := a.openTable(cmd.Context(), &o.tableOptions)
			if err != nil {
				return err
			}
			defer t.Close()
			keys, err := newKeySource(t.gen, o.keys, o.seed)
			if err != nil {
				return err
			}
			// Both families in the proportion of the table, unless one is asked for.
			share4 := t.gen.V4
			switch o.family {
			case "both":
			case "ipv4":
				share4 = keys.routes.Len()
			case "ipv6":
				share4 = 0
			default:
				return usagef("--family %q: use ipv4, ipv6 or both", o.family)
			}
			if !keys.uniform && (o.family == "ipv4" && t.gen.V4 == 0 || o.family == "ipv6" && t.gen.V6 == 0) {
				return fmt.Errorf("the table has no %s prefix to take addresses from", o.family)
			}
			return a.writeOutput(o.out, func(w *bufio.Writer) error {
				var line []byte
				for range o.count {
					var addr netip.Addr
					if keys.rng.IntN(keys.routes.Len()) < share4 {
						addr = lpm.Netip4(keys.next4())
					} else {
						addr = keys.next6().Netip()
					}
					line = append(addr.AppendTo(line[:0]), '\n')
					if _, err := w.Write(line); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	fs := cmd.Flags()
	o.tableOptions.flags(fs, engineCPU)
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the generator")
	fs.IntVar(&o.count, "count", 1_000_000, "number of addresses")
	fs.StringVar(&o.keys, "keys", keysInPrefix, "in-prefix (every address has a route) or uniform")
	fs.StringVar(&o.family, "family", "both", "ipv4, ipv6 or both in the table's proportion")
	fs.StringVar(&o.out, "out", "-", "write to this `FILE`")
	return cmd
}

// writeOutput writes a whole output through a buffer.
func (a *app) writeOutput(path string, write func(*bufio.Writer) error) error {
	out, err := a.createOutput(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w; it ends early%s", path, err, out.abandon())
	}
	return out.commit()
}
