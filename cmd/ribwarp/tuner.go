package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/flavors/tune"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	// leastTuned is the number of routes of a family below which the engine's own strides will do: lookups hit
	// the caches whatever the strides.
	leastTuned = 10_000
	// drifted is by how much lookups must be expected to take less time with other strides before a table goes
	// over to them: making it anew has a price too.
	drifted = 0.05
	// mostBudgets is how many tables may have trees of the whole budget: where more go over they share that many.
	mostBudgets = 8
	// tuneLook is how often a tuner that waits for the first routes looks for them.
	tuneLook = time.Second
	// leastInterval is the shortest time between two looks, which take up to half a second of a core each.
	leastInterval = 10 * time.Second
)

// tunerOptions are the flags of serve about tuning.
type tunerOptions struct {
	interval time.Duration // 0: never
	budget   string
	model    string
}

// planTuner checks what is said about tuning, and gives the models to predict by.
func (o *serveOptions) planTuner() (tune.Models, error) {
	if o.tuner.interval != 0 && o.tuner.interval < leastInterval {
		return nil, o.wrong("tune-interval", fmt.Errorf("%v: it is %v or more, or 0 to tune never", o.tuner.interval, leastInterval))
	}
	if _, err := parseBudget(o.tuner.budget, engineCPU); err != nil {
		return nil, o.wrong("tune-budget", err)
	}
	if o.tuner.model == "" {
		return tune.Shipped(), nil
	}
	models, err := readModels(o.tuner.model)
	if err != nil {
		return nil, o.failed("tune-model", err)
	}
	return models, nil
}

// tunedEngines are the parts of the service's engine whose strides can be chosen: that on the processor, and that on
// GPUs.
func (p *plan) tunedEngines(engine lpm.Engine, c *choices) (all []tunedEngine) {
	add := func(name string, m tune.Machine, choice *flavors.Choice, own4, own6 []int) {
		budget, _ := parseBudget(p.tuner.budget, name) // planTuner has tried it
		all = append(all, tunedEngine{name: name, models: p.models, machine: m, budget: budget, choice: choice, own: [2][]int{own4, own6}})
	}
	add(engineCPU, tune.ThisCPU(), &c.cpu, flavors.DefaultStrides4, flavors.DefaultStrides6)
	if _, ok := engine.(*lpm.Failover); !ok || cuda == nil {
		return all
	}
	first := 0
	if indexes, err := p.indexes(); err == nil && len(indexes) > 0 {
		first = indexes[0]
	}
	if about, err := cuda.describe(first); err == nil { // what cannot be described keeps its strides
		add(engineCUDA, tune.GPU(about), &c.gpu, flavors.DefaultGPUStrides4, flavors.DefaultGPUStrides6)
	}
	return all
}

// A tuner keeps the strides of the service's trees those that are best for what is in them: for each family it
// looks at the table that has most of it, when that is there and then from time to time. It works beside
// everything else; tables go over while they answer (flavors.Choice).
type tuner struct {
	engines  []tunedEngine
	families []int // widths of those that have no strides given by hand
	interval time.Duration
	log      *slog.Logger
	tables   *rib.Tables

	seen [2]tuneSeen // by family
}

// tunedEngine is an engine whose strides can be chosen.
type tunedEngine struct {
	name    string
	models  tune.Models
	machine tune.Machine
	budget  uint64
	choice  *flavors.Choice
	own     [2][]int // its own strides, by family
	chosen  [2][]int // nil: its own
}

// tuneSeen is the generation that a tuner looked at last.
type tuneSeen struct {
	table      string
	generation uint64
	like       int // tables with at least half as many routes, itself among them: those go over with it
}

// newTuner makes the tuner of engines, nil where there is nothing to tune.
func newTuner(o *serveOptions, engines []tunedEngine, tables *rib.Tables, log *slog.Logger) *tuner {
	families := o.tunedFamilies()
	if len(families) == 0 {
		return nil
	}
	return &tuner{engines: engines, families: families, interval: o.tuner.interval, log: log, tables: tables}
}

// tunedFamilies gives the widths of the families whose strides are tuned: lists given by hand stay, and so does the
// other flavor.
func (o *serveOptions) tunedFamilies() (widths []int) {
	if o.tuner.interval == 0 || o.flavor == string(flavors.List) {
		return nil
	}
	if o.strides4 == "" {
		widths = append(widths, 32)
	}
	if o.strides6 == "" {
		widths = append(widths, 128)
	}
	return widths
}

// describeTuner says what is tuned, for --check.
func (o *serveOptions) describeTuner() string {
	var names []string
	for _, width := range o.tunedFamilies() {
		names = append(names, map[int]string{32: "IPv4", 128: "IPv6"}[width])
	}
	if names == nil {
		return "never"
	}
	cpu, _ := parseBudget(o.tuner.budget, engineCPU) // planTuner has tried it
	gpu, _ := parseBudget(o.tuner.budget, engineCUDA)
	text := fmt.Sprintf("%s, every %v, trees of up to %s", strings.Join(names, " and "), o.tuner.interval, formatBudget(cpu))
	if gpu != cpu {
		text += ", on GPUs " + formatBudget(gpu)
	}
	if o.tuner.model != "" {
		text += ", by models of " + o.tuner.model
	}
	return text
}

// run tunes until ctx ends: once the tables are ready, and then every interval.
func (t *tuner) run(ctx context.Context) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		if ready, _ := t.tables.Ready(); !ready {
			wait.Reset(tuneLook) // the shape of half a table is another one's
			continue
		}
		for _, width := range t.families {
			t.tune(ctx, width)
		}
		wait.Reset(t.interval)
	}
}

// tune looks at the table that has most of a family.
func (t *tuner) tune(ctx context.Context, width int) {
	family := 0
	if width == 128 {
		family = 1
	}
	seen, routes := t.largest(family)
	if routes == nil || seen == t.seen[family] {
		return
	}
	t.seen[family] = seen
	start := time.Now()
	shape := tune.ShapeOf(width, routes, tune.InPrefix)
	for i := range t.engines {
		if ctx.Err() != nil {
			return
		}
		e := &t.engines[i]
		model, _ := e.models.For(e.machine, flavors.Pushed, width)
		if model == nil {
			continue
		}
		now := e.own[family]
		if e.chosen[family] != nil {
			now = e.chosen[family]
		}
		log := t.log.With("engine", e.name, "table", seen.table, "family", []string{"ipv4", "ipv6"}[family], "from", flavors.FormatStrides(now))
		p := model.On(shape)
		budget := e.budget
		if seen.like > mostBudgets { // or hundreds of VRFs would have wide roots each; what they have anyway is no waste
			budget = max(e.budget/uint64(seen.like)*mostBudgets, min(p.Choice(e.own[family]).Size.Bytes, e.budget))
		}
		ranked := p.Rank(budget, 1)
		if len(ranked) == 0 {
			log.Warn("strides stay: no tree fits the budget", "bytes", budget)
			continue
		}
		best, present := ranked[0], p.Choice(now)
		gain := present.Ns/best.Ns - 1
		over := budget > 0 && present.Size.Bytes > budget
		to, expected := best.Strides, fmt.Sprintf("%+.1f%%", 100*gain)
		stays := gain <= drifted && !over
		if stays {
			log.Debug("strides stay", "best", flavors.FormatStrides(best.Strides), "expected", expected, "took", time.Since(start))
			if e.chosen[family] == nil {
				continue
			}
			to = now // once more: for tables that have grown, or were overtaken by their changes the last time
		}
		// Smaller tables keep the engine's own: a wide root is most of them.
		if err := e.choice.Set(ctx, width, to, routes.Len()/2); err != nil {
			if ctx.Err() == nil {
				log.Warn("strides not changed", "to", flavors.FormatStrides(to), "error", err)
				_ = e.choice.Set(ctx, width, e.chosen[family], routes.Len()/2) // the next tables would fail as well
				t.seen[family] = tuneSeen{}                                    // the next look tries again
			}
			continue
		}
		if !stays {
			e.chosen[family] = to
			log.Info("strides changed", "to", flavors.FormatStrides(to), "bytes", best.Size.Bytes, "expected", expected, "took", time.Since(start))
		}
	}
}

// largest gives the routes of a family in the table that has most of it, sorted; nil where that are few, or were
// seen before.
func (t *tuner) largest(family int) (seen tuneSeen, _ *flavors.Sorted) {
	count := func(g *rib.Generation) int { return [2]int{g.V4, g.V6}[family] }
	var g *rib.Generation
	var counts []int
	for _, table := range t.tables.All() {
		next := table.Publisher.Generations().Acquire()
		if next == nil {
			continue
		}
		counts = append(counts, count(next))
		if n := count(next); n >= leastTuned && (g == nil || n > count(g)) {
			seen.table, seen.generation = table.Name, next.Number
			g, next = next, g
		}
		if next != nil {
			next.Release()
		}
	}
	if g == nil {
		return tuneSeen{}, nil
	}
	defer g.Release()
	for _, n := range counts {
		if n >= count(g)/2 {
			seen.like++
		}
	}
	if seen == t.seen[family] {
		return seen, nil
	}
	var routes lpm.Routes
	for i := range g.Routes.Len() {
		if p := g.Routes.At(i).Prefix; p.IsValid() && p.Addr().Is4() == (family == 0) {
			routes.Add(p, lpm.Handle(i))
		}
	}
	if family == 0 {
		return seen, flavors.SortMasks4(routes.V4)
	}
	return seen, flavors.SortMasks(128, routes.V6)
}
