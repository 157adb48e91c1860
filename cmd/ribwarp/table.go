package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input"
)

// engineOptions are the flags of every command that builds a table.
type engineOptions struct {
	engine             string
	flavor             string
	strides4, strides6 string
}

func (o *engineOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.engine, "engine", "cpu", "build and search tables on this `ENGINE`: cpu")
	fs.StringVar(&o.flavor, "flavor", string(flavors.Pushed), "kind of tree: pushed (fast) or list (small)")
	fs.StringVar(&o.strides4, "strides4", "", "bits of each level of the IPv4 tree, such as `16,8,8` (default: the engine's choice)")
	fs.StringVar(&o.strides6, "strides6", "", "the same for IPv6; they sum to 128")
}

// new makes the engine. What it cannot be made of is a usage error.
func (o *engineOptions) new() (lpm.Engine, error) {
	if o.engine != "cpu" {
		return nil, usagef("--engine %q: this build has cpu", o.engine)
	}
	f := flavors.Flavor(o.flavor)
	if f != flavors.Pushed && f != flavors.List {
		return nil, usagef("--flavor %q: use %s or %s", o.flavor, flavors.Pushed, flavors.List)
	}
	options := flavors.Options{Flavor: f}
	for _, s := range []struct {
		flag, text string
		bits       int
		list       *[]int
	}{{"--strides4", o.strides4, 32, &options.Strides4}, {"--strides6", o.strides6, 128, &options.Strides6}} {
		if s.text == "" {
			continue
		}
		list, err := flavors.ParseStrides(s.text)
		if err == nil {
			_, err = flavors.NewStrides(s.bits, list)
		}
		if err != nil {
			return nil, usagef("%s: %w", s.flag, err)
		}
		*s.list = list
	}
	engine, err := flavors.NewCPU(options)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", o.engine, err)
	}
	return engine, nil
}

// tableOptions are the flags of the commands that look things up in route files.
type tableOptions struct {
	engineOptions
	ribs   []string
	strict bool
}

func (o *tableOptions) flags(fs *pflag.FlagSet) {
	ribFlag(fs, &o.ribs)
	fs.BoolVar(&o.strict, "strict", false, "fail if anything is wrong with the input, after doing all that can be done")
	o.engineOptions.flags(fs)
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
func (a *app) openTable(ctx context.Context, o *tableOptions) (*table, error) {
	if len(o.ribs) == 0 {
		return nil, usagef("no routes: name at least one file with --rib")
	}
	engine, err := o.new()
	if err != nil {
		return nil, err
	}
	t := &table{rib: rib.New(rib.Options{Log: a.log}), engine: engine}
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
