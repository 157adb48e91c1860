package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

func (a *app) lookupCommand() *cobra.Command {
	var o tableOptions
	var format string
	cmd := &cobra.Command{
		Use:   "lookup --rib FILE IP...",
		Short: "Look up addresses in route files",
		Long: `lookup reads route files and prints the best route that carries each address. "-" as the
only address reads addresses from stdin, one a line. For many, batch is faster.`,
		Example: `  ribwarp lookup --rib table.mrt.gz 192.0.2.1 2001:db8::1
  ribwarp lookup --rib table.mrt.gz --rib more.txt --format json - < addresses.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q: use text or json", format)
			}
			return a.lookup(cmd.Context(), &o, format, args)
		},
	}
	fs := cmd.Flags()
	o.flags(fs, engineCPU)
	fs.StringVar(&format, "format", "text", "text, or json for one object a line")
	return cmd
}

func (a *app) lookup(ctx context.Context, o *tableOptions, format string, args []string) error {
	t, err := a.openTable(ctx, o)
	if err != nil {
		return err
	}
	defer t.Close()
	out := bufio.NewWriter(a.stdout)
	p := newAnswerPrinter(out, format)
	bad := 0
	answer := func(text string) error {
		addr, err := api.ParseAddr(text)
		if err != nil {
			bad++
			fmt.Fprintf(a.stderr, "ribwarp: %q: %v\n", text, err)
			return nil
		}
		route, err := lookupRoute(t.gen, addr)
		if err != nil {
			return err
		}
		return p.print(addr, route, t.gen.Number)
	}
	if len(args) == 1 && args[0] == "-" {
		err = eachLine(ctx, a.stdin, answer)
	} else {
		for _, arg := range args {
			if err = answer(arg); err != nil {
				break
			}
		}
	}
	if err := errors.Join(err, p.flush(), out.Flush()); err != nil {
		return fmt.Errorf("look up: %w", err)
	}
	if t.problems == nil && bad > 0 {
		return errReported
	}
	return t.problems
}

// lookupRoute gives the best route that carries an address, the zero Route where there is none.
func lookupRoute(gen *rib.Generation, addr netip.Addr) (rib.Route, error) {
	var h [1]lpm.Handle
	var err error
	if addr.Is4() {
		err = gen.Table.Lookup4(h[:], []uint32{lpm.Addr4(addr)})
	} else {
		err = gen.Table.Lookup6(h[:], []lpm.Addr6{lpm.Addr16(addr)})
	}
	if err != nil || h[0] == lpm.None {
		return rib.Route{}, err
	}
	return gen.Route(h[0]), nil
}

// eachLine calls f for every line that is not blank, without the blanks around it.
func eachLine(ctx context.Context, r io.Reader, f func(string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if text := strings.TrimSpace(lines.Text()); text != "" {
			if err := f(text); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	return nil
}

// An answerPrinter prints answers as aligned text or as JSON lines.
type answerPrinter struct {
	w    io.Writer
	tab  *tabwriter.Writer // nil for JSON
	line []byte
}

func newAnswerPrinter(w io.Writer, format string) *answerPrinter {
	p := &answerPrinter{w: w}
	if format == "text" {
		p.tab = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(p.tab, "IP\tPREFIX\tNEXT HOP\tORIGIN\tAS PATH")
	}
	return p
}

func (p *answerPrinter) print(addr netip.Addr, r rib.Route, generation uint64) error {
	if p.tab == nil {
		p.line = append(api.AppendAnswer(p.line[:0], addr, r, generation), '\n')
		_, err := p.w.Write(p.line)
		return err
	}
	prefix, nextHop, origin, path := "no route", "-", "-", "-"
	if r.Prefix.IsValid() {
		prefix = r.Prefix.String()
	}
	if r.Path != (rib.Path{}) {
		at := r.Path.Value()
		if at.NextHop.IsValid() {
			nextHop = at.NextHop.String()
		}
		if asns := at.ASPath.Origins(); len(asns) > 0 {
			origin = strings.Trim(strings.ReplaceAll(fmt.Sprint(asns), " ", ","), "[]")
		}
		if s := at.ASPath.String(); s != "" {
			path = s
		}
	}
	_, err := fmt.Fprintf(p.tab, "%s\t%s\t%s\t%s\t%s\n", addr, prefix, nextHop, origin, path)
	return err
}

func (p *answerPrinter) flush() error {
	if p.tab == nil {
		return nil
	}
	return p.tab.Flush()
}
