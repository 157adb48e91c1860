package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/flavors/tune"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/lpm"
)

type tuneOptions struct {
	ribs    []string
	strict  bool
	engine  string
	device  int
	flavor  string
	keys    string
	budget  string
	measure bool
	lists   int
	rounds  int
	seed    uint64
	model   string
	svg     string
	write   string
	asJSON  bool
}

// Keys that a measurement looks up: as many as bench needs on a processor, and on a GPU, whose second-level
// cache is larger.
const (
	tuneKeysCPU = minDistinctKeys / 2
	tuneKeysGPU = 1 << 23
)

func (a *app) tuneCommand() *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune --rib FILE",
		Short: "Choose the strides of the tree for a table",
		Long: `tune says which lists of strides answer lookups in the table of the route files fastest, for
each family: it counts what the tree of any list takes, and predicts by a model of the
machine how long a lookup takes. Lists are ranked by that; smaller ones are among them.

With --measure it looks addresses up in these trees and others, fits the model to this machine
and ranks by it again; --model keeps what was fitted for the next time, and for serve.

serve tunes itself (--tune-interval). --write puts the choice into a configuration file, where
it stays until it is taken out.`,
		Example: `  ribwarp tune --rib table.mrt.gz
  ribwarp tune --rib table.mrt.gz --budget 32MiB --svg tune.svg
  ribwarp tune --rib table.mrt.gz --measure --model models.json --write ribwarp.toml
  ribwarp tune --rib table.mrt.gz --engine cuda --keys addresses.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tune(cmd.Context(), &o) },
	}
	fs := cmd.Flags()
	ribFlag(fs, &o.ribs)
	fs.BoolVar(&o.strict, "strict", false, "fail if anything is wrong with the input, after doing all that can be done")
	fs.StringVar(&o.engine, "engine", engineCPU, "tune for this `ENGINE`: cpu or cuda")
	fs.IntVar(&o.device, "device", 0, "which GPU: its `NUMBER` (see ribwarp devices)")
	fs.StringVar(&o.flavor, "flavor", "", "kind of tree: pushed or list (default: the faster one)")
	fs.StringVar(&o.keys, "keys", keysInPrefix, "what is looked up: in-prefix, uniform, or a `FILE` of addresses, one a line")
	fs.StringVar(&o.budget, "budget", "", "the most `BYTES` of a tree, such as 32MiB; 0 is any number (default "+formatBudget(defaultBudget(engineCPU))+", with cuda "+formatBudget(defaultBudget(engineCUDA))+")")
	fs.BoolVar(&o.measure, "measure", false, "measure lookups and fit the model to this machine")
	fs.IntVar(&o.lists, "lists", 30, "lists of strides to rank, and with --measure to measure")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds of measurements; the shortest time of a list counts")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the random addresses and lists that are measured")
	fs.StringVar(&o.model, "model", "", "read models from this `FILE`, and with --measure write to it")
	fs.StringVar(&o.svg, "svg", "", "draw bytes against rate to this `FILE`")
	fs.StringVar(&o.write, "write", "", "write the choice to [serve] of this configuration `FILE`")
	fs.BoolVar(&o.asJSON, "json", false, "print a JSON object for each family")
	return cmd
}

// defaultBudget is what a tree may take where nothing is said: some times what a good tree of a full table
// takes, and not more than the models were fitted to.
func defaultBudget(engine string) uint64 {
	if engine == engineCUDA {
		return 1 << 30
	}
	return 128 << 20
}

// parseBudget reads a number of bytes, with a unit or without. "" is the default.
func parseBudget(text, engine string) (uint64, error) {
	if text == "" {
		return defaultBudget(engine), nil
	}
	number, unit := strings.TrimSpace(text), uint64(1)
	for _, u := range []struct {
		suffix string
		bytes  uint64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n > math.MaxUint64/unit {
		return 0, fmt.Errorf("%q: give a number of bytes, or one with KiB, MiB or GiB", text)
	}
	return n * unit, nil
}

func formatBudget(n uint64) string {
	switch {
	case n == 0:
		return "any number of bytes"
	case n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// check looks at the options that need no table.
func (o *tuneOptions) check() (budget uint64, err error) {
	switch {
	case o.engine != engineCPU && o.engine != engineCUDA:
		return 0, usagef("--engine %q: use %s or %s", o.engine, engineCPU, engineCUDA)
	case o.flavor != "" && o.flavor != string(flavors.Pushed) && o.flavor != string(flavors.List):
		return 0, usagef("--flavor %q: use %s or %s", o.flavor, flavors.Pushed, flavors.List)
	case o.lists < 1 || o.rounds < 1:
		return 0, usagef("--lists and --rounds are 1 or more")
	case o.device < 0:
		return 0, usagef("--device %d: GPUs are numbered from 0", o.device)
	}
	if budget, err = parseBudget(o.budget, o.engine); err != nil {
		return 0, usagef("--budget %w", err)
	}
	return budget, nil
}

// tuned is what tune says of a family.
type tuned struct {
	Family    string      `json:"family"`
	Prefixes  int         `json:"prefixes"`
	Engine    string      `json:"engine"`
	Processor string      `json:"processor"`
	Model     string      `json:"model"` // of which machine
	Fitted    bool        `json:"fitted"`
	Keys      string      `json:"keys"`
	Budget    uint64      `json:"budget_bytes"`
	Seconds   float64     `json:"seconds"` // from sorted prefixes to the ranking, on one core
	Lists     []tunedList `json:"lists"`   // the best first
	// Correlation is Spearman's of the ranks by prediction and by measurement.
	Correlation *float64 `json:"rank_correlation,omitempty"`
	Chosen      []int    `json:"chosen"`
	Flavor      string   `json:"flavor"`
}

type tunedList struct {
	Strides   []int    `json:"strides"`
	Flavor    string   `json:"flavor"`
	Nodes     int      `json:"nodes"`
	Bytes     uint64   `json:"bytes"`
	Predicted float64  `json:"predicted_lookups_per_second"`
	Measured  *float64 `json:"measured_lookups_per_second,omitempty"`
	Fixed     bool     `json:"fixed,omitempty"` // one that people choose by hand
}

// rate is what a list is ranked by.
func (l *tunedList) rate() float64 {
	if l.Measured != nil {
		return *l.Measured
	}
	return l.Predicted
}

func (a *app) tune(ctx context.Context, o *tuneOptions) error {
	budget, err := o.check()
	if err != nil {
		return err
	}
	models, err := o.models()
	if err != nil {
		return err
	}
	if err := a.tryTuneOutputs(o); err != nil {
		return err
	}
	machine, d, err := a.tuneMachine(ctx, o)
	if err != nil {
		return err
	}
	if d != nil {
		defer func() { _ = d.Close() }()
	}
	table, err := a.openTable(ctx, &tableOptions{ribs: o.ribs, strict: o.strict, engineOptions: engineOptions{engine: engineCPU, devices: "0", flavor: string(flavors.Pushed)}})
	if err != nil {
		return err
	}
	defer table.Close()
	samples, err := a.keySamples(o.keys)
	if err != nil {
		return err
	}
	t := &tuning{app: a, o: o, budget: budget, models: models, machine: machine, device: d}
	routes := routesOf(table.gen)
	if len(routes.V4) > 0 && (samples == nil || len(samples.v4) > 0) {
		t.add("ipv4", 32, flavors.SortMasks4(routes.V4), o.keys, samples)
	}
	if len(routes.V6) > 0 && (samples == nil || len(samples.v6) > 0) {
		t.add("ipv6", 128, flavors.SortMasks(128, routes.V6), o.keys, samples)
	}
	if len(t.families) == 0 {
		return errors.New("nothing to tune for: no family has both prefixes and addresses to look up")
	}
	if err := t.run(ctx); err != nil {
		return err
	}
	return errors.Join(t.finish(), table.problems)
}

// models gives those to begin with.
func (o *tuneOptions) models() (tune.Models, error) {
	switch {
	case o.model == "":
		return tune.Shipped(), nil
	case o.measure: // it may be there only afterwards
		return tune.Load(o.model)
	}
	return readModels(o.model)
}

// readModels reads models from a file that has to be there.
func readModels(path string) (tune.Models, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("models: %w; ribwarp tune --measure --model FILE makes one", err)
	}
	return tune.Load(path)
}

// tryTuneOutputs says before minutes of measurements that their results could not be written.
func (a *app) tryTuneOutputs(o *tuneOptions) error {
	if o.svg != "" {
		if err := a.tryOutput(o.svg); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if o.model != "" && o.measure {
		if err := a.tryOutput(o.model); err != nil {
			return fmt.Errorf("--model: %w", err)
		}
	}
	if o.write != "" {
		_, err := configWith(o.write, serveName, map[string]string{"strides4": "", "strides6": "", "flavor": ""})
		if err == nil {
			err = a.tryOutput(behindLinks(o.write))
		}
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
	}
	return nil
}

// tuneMachine describes the machine to tune for, and opens the GPU where something is to be measured on it.
func (a *app) tuneMachine(ctx context.Context, o *tuneOptions) (tune.Machine, *device.Device, error) {
	if o.engine == engineCPU {
		return tune.ThisCPU(), nil, nil
	}
	if cuda == nil {
		return tune.Machine{}, nil, handOver(ctx, a.args)
	}
	about, err := cuda.describe(o.device)
	if err != nil {
		return tune.Machine{}, nil, fmt.Errorf("engine %s: %w", engineCUDA, err)
	}
	if !o.measure {
		return tune.GPU(about), nil, nil
	}
	d, err := cuda.device(o.device)
	if err != nil {
		return tune.Machine{}, nil, fmt.Errorf("engine %s: %w", engineCUDA, err)
	}
	return tune.GPU(about), d, nil
}

// samples are the addresses of a file.
type samples struct{ v4, v6 []flavors.Key }

// keySamples reads the file that --keys names, nil where it names none.
func (a *app) keySamples(keys string) (*samples, error) {
	if keys == keysInPrefix || keys == keysUniform {
		return nil, nil
	}
	in := a.stdin
	if keys != "-" {
		f, err := os.Open(keys)
		if err != nil {
			return nil, fmt.Errorf("--keys: use %s, %s or a file: %w", keysInPrefix, keysUniform, err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	s := new(samples)
	lines := bufio.NewScanner(in)
	n := 1
	for ; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		addr, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("--keys %s: line %d: %w", keys, n, err)
		case addr.Unmap().Is4():
			s.v4 = append(s.v4, flavors.Key{Hi: uint64(lpm.Addr4(addr.Unmap())) << 32})
		default:
			s.v6 = append(s.v6, lpm.Addr16(addr))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--keys %s: line %d: %w", keys, n, err)
	}
	if len(s.v4)+len(s.v6) == 0 {
		return nil, fmt.Errorf("--keys %s: there is no address in it", keys)
	}
	return s, nil
}

// tuning is a run of tune.
type tuning struct {
	app      *app
	o        *tuneOptions
	budget   uint64
	models   tune.Models
	machine  tune.Machine
	device   *device.Device // nil where nothing is measured on a GPU
	families []*tuneFamily
}

// tuneFamily is a family that is tuned for.
type tuneFamily struct {
	tuned
	width  int
	sorted *flavors.Sorted
	keys   tune.Keys
	shape  *tune.Shape
	ns     map[string]float64 // measured, by flavor and strides
	first  tune.Choice        // what the models choose
}

// add scans a family's prefixes.
func (t *tuning) add(name string, width int, s *flavors.Sorted, keys string, from *samples) {
	f := &tuneFamily{width: width, sorted: s, keys: tune.InPrefix, ns: map[string]float64{}}
	switch {
	case from != nil && width == 32:
		f.keys = tune.KeysOf(from.v4)
	case from != nil:
		f.keys = tune.KeysOf(from.v6)
	case keys == keysUniform:
		f.keys = tune.Uniform
	}
	f.tuned = tuned{Family: name, Prefixes: s.Len(), Engine: t.machine.Engine, Processor: t.machine.Processor, Keys: keys, Budget: t.budget}
	start := time.Now()
	f.shape = tune.ShapeOf(width, s, f.keys)
	f.Seconds = time.Since(start).Seconds()
	t.families = append(t.families, f)
}

// flavors are the kinds of tree to choose among.
func (t *tuning) flavors() []flavors.Flavor {
	if t.o.flavor != "" {
		return []flavors.Flavor{flavors.Flavor(t.o.flavor)}
	}
	if t.o.measure { // lists are some ten times slower, and would take as much longer to measure
		return []flavors.Flavor{flavors.Pushed}
	}
	return []flavors.Flavor{flavors.Pushed, flavors.List}
}

func (t *tuning) run(ctx context.Context) error {
	for _, f := range t.families {
		start := time.Now()
		if err := t.rank(f); err != nil {
			return err
		}
		f.Seconds += time.Since(start).Seconds()
	}
	if !t.o.measure {
		return nil
	}
	// First what there is to say of so far, and lists of all kinds; then, by the model that was fitted to
	// them, what it says is best.
	if err := t.measure(ctx, true); err != nil {
		return err
	}
	if err := t.fit(); err != nil {
		return err
	}
	for _, f := range t.families {
		if err := t.rank(f); err != nil {
			return err
		}
	}
	if err := t.measure(ctx, false); err != nil {
		return err
	}
	for _, f := range t.families {
		t.settle(f)
	}
	return nil
}

// rank makes a family's ranking by the models.
func (t *tuning) rank(f *tuneFamily) error {
	f.Lists, f.first = nil, tune.Choice{}
	for _, flavor := range t.flavors() {
		model, fitted := t.models.For(t.machine, flavor, f.width)
		if model == nil && t.o.measure {
			model = tune.Guess(t.machine, flavor, f.width)
		}
		if model == nil {
			if flavor == flavors.List && t.o.flavor == "" {
				continue // a machine where nobody measured it
			}
			return fmt.Errorf("there is no model for engine %s and flavor %s: make one with --measure --flavor %s", t.machine.Engine, flavor, flavor)
		}
		if flavor == flavors.Pushed || t.o.flavor != "" {
			f.Model, f.Fitted = model.Machine.Processor, fitted
		}
		p := model.On(f.shape)
		var choices []tune.Choice
		if flavor == flavors.List && t.o.flavor == "" {
			choices = p.Rank(t.budget, 1) // enough to see what it comes to
		} else {
			choices = p.Rank(t.budget, t.o.lists)
		}
		if len(choices) > 0 && (f.first.Strides == nil || choices[0].Ns < f.first.Ns) {
			f.first = choices[0]
		}
		if flavor == flavors.Pushed || t.o.flavor != "" {
			for _, list := range tune.Fixed(f.width) {
				choices = append(choices, p.Choice(list))
			}
		}
		for _, c := range choices {
			f.list(c)
		}
	}
	if !slices.ContainsFunc(f.Lists, func(l tunedList) bool { return t.fits(&l) }) {
		least := f.shape.Search(tune.Objective{Byte: 1}, 0)
		return fmt.Errorf("%s: no tree takes %s or less: the smallest, of strides %s, takes %d bytes", f.Family, formatBudget(t.budget), flavors.FormatStrides(least), f.shape.Count(least).Bytes)
	}
	t.choose(f)
	return nil
}

// isFirst is 1 for what the models choose.
func (f *tuneFamily) isFirst(l tunedList) int {
	if slices.Equal(l.Strides, f.first.Strides) && l.Flavor == string(f.first.Flavor) {
		return 1
	}
	return 0
}

// fits tells whether a list may be chosen: those by hand are there for comparison in any case.
func (t *tuning) fits(l *tunedList) bool { return t.budget == 0 || l.Bytes <= t.budget }

// list puts a choice into the ranking, once.
func (f *tuneFamily) list(c tune.Choice) {
	if slices.ContainsFunc(f.Lists, func(l tunedList) bool { return slices.Equal(l.Strides, c.Strides) && l.Flavor == string(c.Flavor) }) {
		return
	}
	nodes := 0
	for _, n := range c.Size.Nodes {
		nodes += n
	}
	l := tunedList{Strides: c.Strides, Flavor: string(c.Flavor), Nodes: nodes, Bytes: c.Size.Bytes, Predicted: 1e9 / c.Ns}
	l.Fixed = slices.ContainsFunc(tune.Fixed(f.width), func(o []int) bool { return slices.Equal(o, c.Strides) })
	f.Lists = append(f.Lists, l)
}

// choose sorts the ranking, the choice first, and takes it.
func (t *tuning) choose(f *tuneFamily) {
	slices.SortStableFunc(f.Lists, func(a, b tunedList) int {
		return cmp.Or(cmp.Compare(b.rate(), a.rate()), cmp.Compare(a.Bytes, b.Bytes))
	})
	if len(f.ns) == 0 { // what the service would choose: the smallest of those about as good as the best
		slices.SortStableFunc(f.Lists, func(a, b tunedList) int { return cmp.Compare(f.isFirst(b), f.isFirst(a)) })
	}
	for i := range f.Lists {
		if l := &f.Lists[i]; t.fits(l) && (l.Measured != nil || len(f.ns) == 0) {
			f.Chosen, f.Flavor = l.Strides, l.Flavor
			return
		}
	}
}
