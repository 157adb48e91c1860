package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input"
)

// tableOptions are the flags of the commands that look things up in route files.
type tableOptions struct {
	engineOptions
	ribs   []string
	strict bool
}

func (o *tableOptions) flags(fs *pflag.FlagSet, engine string) {
	ribFlag(fs, &o.ribs)
	fs.BoolVar(&o.strict, "strict", false, "fail if anything is wrong with the input, after doing all that can be done")
	o.engineOptions.flags(fs, engine)
}

func ribFlag(fs *pflag.FlagSet, ribs *[]string) {
	fs.StringArrayVar(ribs, "rib", nil, "read routes from this `FILE`, MRT or a text list, compressed or not; repeat for more")
}

// A table is what the route files hold, published as one generation.
type table struct {
	rib     *rib.RIB
	engine  lpm.Engine
	gen     *rib.Generation
	reports []input.Report
	// problems is what a strict load found wrong with the files; the table has the rest.
	problems error
}

func (t *table) Close() {
	t.gen.Release()
	_ = t.engine.Close() // lookups are over and the tables are memory only
}

// openTable loads the route files and builds the table.
func (a *app) openTable(ctx context.Context, o *tableOptions) (_ *table, err error) {
	if len(o.ribs) == 0 {
		return nil, usagef("no routes: name at least one file with --rib")
	}
	engine, err := o.new(ctx, a)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = engine.Close()
		}
	}()
	t := &table{rib: rib.New(rib.Options{Log: a.log, MaxPending: -1}), engine: engine}
	for _, path := range o.ribs {
		report, err := a.loadRIB(ctx, t.rib, path, o.strict)
		switch {
		case errors.Is(err, input.ErrProblems):
			t.problems = errors.Join(t.problems, err)
		case err != nil:
			return nil, err
		}
		t.reports = append(t.reports, report)
	}
	p := rib.NewPublisher(t.rib, engine, rib.PublisherOptions{Source: strings.Join(o.ribs, ","), Log: a.log})
	if err := p.Flush(ctx); err != nil {
		return nil, fmt.Errorf("build the table: %w", err)
	}
	t.gen = p.Generations().Acquire()
	if t.gen == nil {
		return nil, fmt.Errorf("build the table: nothing was published")
	}
	if t.gen.V4+t.gen.V6 == 0 {
		a.log.Warn("the table is empty: no address will match", "files", strings.Join(o.ribs, ","))
	}
	return t, nil
}

// loadRIB reads one route file with a progress bar.
func (a *app) loadRIB(ctx context.Context, r *rib.RIB, path string, strict bool) (input.Report, error) {
	bar := a.newProgress("reading " + path)
	defer bar.finish()
	return input.Load(ctx, r, path, input.Options{Strict: strict, Progress: bar.set, Log: a.log, Stdin: a.stdin})
}
