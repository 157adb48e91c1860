package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/cmd/ribwarp/internal/annotate"
	"github.com/ribwarp/ribwarp/rib/input"
)

type batchOptions struct {
	tableOptions
	in, out    string
	format     string
	column     string
	noHeader   bool
	field      string
	columns    string
	namePrefix string
	threads    int
}

func (a *app) batchCommand() *cobra.Command {
	var o batchOptions
	cmd := &cobra.Command{
		Use:   "batch --rib FILE --in FILE --out FILE",
		Short: "Look up every address of a file",
		Long: `batch reads one address a line and writes CSV: the address, the prefix of the route
that carries it (empty where none does) and what else --columns names. From CSV and TSV
(--column) and JSON lines (--field) it keeps all columns and members and adds to them.

The input may be compressed with gzip, bzip2, xz or zstd and of any size: it is read as
a stream. The order is kept. Something that is not an address gets a row without a
route; such rows are counted on stderr at the end, and fail the command with --strict.

The output is written to FILE.partial and renamed at the end, so FILE is whole or absent.`,
		Example: `  ribwarp batch --rib table.mrt.gz --in addresses.txt --out routes.csv
  zcat flows.csv.gz | ribwarp batch --rib table.mrt.gz --format csv --column src --in - --out - | head
  ribwarp batch --rib table.mrt.gz --in flows.jsonl --field flow.src --columns prefix,as_path --out out.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.batch(cmd, &o) },
	}
	fs := cmd.Flags()
	o.tableOptions.flags(fs, engineAuto)
	fs.StringVar(&o.in, "in", "-", "read records from this `FILE`")
	fs.StringVar(&o.out, "out", "-", "write to this `FILE`")
	fs.StringVar(&o.format, "format", "", "lines, csv, tsv or jsonl (default: csv with --column, jsonl with --field, else by the name of --in, else lines)")
	fs.StringVar(&o.column, "column", "", "`NAME` or number, from 1, of the csv or tsv column with the address")
	fs.BoolVar(&o.noHeader, "no-header", false, "csv or tsv begins with a record, not a header")
	fs.StringVar(&o.field, "field", "", "jsonl member with the address, such as `flow.src`")
	fs.StringVar(&o.columns, "columns", "prefix,origin_asns,next_hop", "what to add: some of prefix,origin_asns,as_path,next_hop,communities,peer")
	fs.StringVar(&o.namePrefix, "name-prefix", "", "put this `TEXT` before added names; in jsonl it also adds them beside the other members instead of in \"route\"")
	fs.IntVar(&o.threads, "threads", 0, "look up on this many threads (default: all cores)")
	return cmd
}

func (a *app) batch(cmd *cobra.Command, o *batchOptions) error {
	ao, err := o.annotate()
	if err != nil {
		return err
	}
	in, size, closeIn, err := a.openInput(o.in)
	if err != nil {
		return err
	}
	defer closeIn()
	ctx := cmd.Context()
	t, err := a.openTable(ctx, &o.tableOptions)
	if err != nil {
		return err
	}
	defer t.Close()
	bar := a.newProgress("looking up")
	content, _, err := input.Uncompress(bar.reader(in, size))
	if err != nil {
		return fmt.Errorf("read %s: %w", o.in, err)
	}
	defer func() { _ = content.Close() }()
	out, err := a.createOutput(o.out)
	if err != nil {
		return err
	}
	start := time.Now()
	stats, err := annotate.Run(ctx, t.gen, content, out, ao)
	bar.finish()
	if err != nil {
		return fmt.Errorf("batch %s: %w; %d records were done%s", o.in, err, stats.Records, out.abandon())
	}
	if err := out.commit(); err != nil {
		return err
	}
	a.log.Info("batch done", "records", stats.Records, "matched", stats.Matched, "bad", stats.Bad, "generation", t.gen.Number,
		"seconds", time.Since(start).Seconds(), "records_per_second", int(float64(stats.Records)/time.Since(start).Seconds()))
	if stats.Bad > 0 {
		bad := fmt.Errorf("%d of %d records have no address, the first is record %d: %q", stats.Bad, stats.Records, stats.FirstBad, stats.FirstBadText)
		if o.strict {
			return errors.Join(bad, t.problems)
		}
		fmt.Fprintf(a.stderr, "ribwarp: %v\n", bad)
	}
	return t.problems
}

// annotate checks the options and gives those of the annotator.
func (o *batchOptions) annotate() (annotate.Options, error) {
	ao := annotate.Options{
		Format: annotate.Format(o.format), Column: o.column, NoHeader: o.noHeader, Field: o.field,
		NamePrefix: o.namePrefix, Workers: o.threads,
	}
	if ao.Format == "" {
		switch ext := recordExt(o.in); {
		case o.field != "":
			ao.Format = annotate.JSONL
		case ext == ".tsv":
			ao.Format = annotate.TSV
		case o.column != "" || ext == ".csv":
			ao.Format = annotate.CSV
		case ext == ".jsonl" || ext == ".ndjson":
			ao.Format = annotate.JSONL
		default:
			ao.Format = annotate.Lines
		}
	}
	var err error
	if ao.Columns, err = annotate.ParseColumns(o.columns); err != nil {
		return ao, usagef("--columns: %w", err)
	}
	delimited := ao.Format == annotate.CSV || ao.Format == annotate.TSV
	switch {
	case o.in == "-" && slices.Contains(o.ribs, "-"):
		return ao, usagef("--rib - and --in - cannot both read stdin")
	case o.threads < 0:
		return ao, usagef("--threads %d: it is 1 or more, or 0 for all cores", o.threads)
	case delimited && o.column == "":
		return ao, usagef("%s is %s: say with --column which column holds the address, or pass --format lines for one address a line", o.in, ao.Format)
	case !delimited && (o.column != "" || o.noHeader):
		return ao, usagef("--column and --no-header are for csv and tsv, not for %s", ao.Format)
	case ao.Format == annotate.JSONL && o.field == "":
		return ao, usagef("%s is jsonl: say with --field which member holds the address", o.in)
	case ao.Format != annotate.JSONL && o.field != "":
		return ao, usagef("--field is for jsonl, not for %s", ao.Format)
	}
	if err := ao.Check(); err != nil {
		return ao, usageError{err}
	}
	if c := filepath.Ext(o.out); c == ".gz" || c == ".zst" || c == ".xz" || c == ".bz2" {
		return ao, usagef("--out %s: output is not compressed; write to - and pipe it through a compressor", o.out)
	}
	return ao, nil
}

// recordExt gives the extension of a file name without that of a compression.
func recordExt(name string) string {
	name = strings.ToLower(name)
	switch ext := filepath.Ext(name); ext {
	case ".gz", ".bz2", ".xz", ".zst":
		name = strings.TrimSuffix(name, ext)
	}
	return filepath.Ext(name)
}

// openInput opens a file, or stdin for "-". size is 0 where it is unknown.
func (a *app) openInput(path string) (r io.Reader, size int64, done func(), err error) {
	if path == "-" {
		return a.stdin, 0, func() {}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("open input: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, not a file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, nil, fmt.Errorf("open input: %w", err)
	}
	return f, info.Size(), func() { _ = f.Close() }, nil
}
