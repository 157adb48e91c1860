package tune

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"

	"github.com/ribwarp/ribwarp/flavors"
)

// models.json are the models of the machines that were measured (docs/benchmarks/tune-*.tsv).
//
//go:embed models.json
var shipped []byte

// Models are what predictions are made by, the first that fits a machine best before the others.
type Models []*Model

// Shipped gives the models that come with the program.
func Shipped() Models {
	m, err := parse(shipped)
	if err != nil {
		panic("tune: models.json: " + err.Error())
	}
	return m
}

// Load reads models from a file that Save wrote, and puts them before the shipped ones. A file that is not there
// yet has none.
func Load(path string) (Models, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Shipped(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	own, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("models %s: %w", path, err)
	}
	return append(own, Shipped()...), nil
}

// parse reads models and checks that predictions can be made by them.
func parse(text []byte) (Models, error) {
	var ms Models
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&ms); err != nil {
		return nil, err
	}
	for i, m := range ms {
		if m == nil {
			return nil, fmt.Errorf("model %d is null", i+1)
		}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("model %d, of %q: %w", i+1, m.Machine.Processor, err)
		}
	}
	return ms, nil
}

func (m *Model) check() error {
	switch {
	case m.Machine.Engine != EngineCPU && m.Machine.Engine != EngineCUDA:
		return fmt.Errorf("unknown engine %q", m.Machine.Engine)
	case m.Flavor != flavors.Pushed && m.Flavor != flavors.List:
		return fmt.Errorf("unknown flavor %q", m.Flavor)
	case m.Width < 1 || m.Width > flavors.MaxWidth:
		return fmt.Errorf("keys of %d bits", m.Width)
	case len(m.Shares) != len(m.Machine.Caches) || len(m.Shares) == 0 || len(m.Shares) > mostCaches:
		return fmt.Errorf("%d shares of %d caches", len(m.Shares), len(m.Machine.Caches))
	case m.Machine.Engine == EngineCPU && (!(m.Window >= 1) || m.Window > 1e6):
		return fmt.Errorf("a window of %v reads", m.Window)
	case m.Machine.Engine == EngineCUDA && (!(m.Balance >= 1) || m.Balance > 1e6 || len(m.Shares) < 2):
		return fmt.Errorf("a balance of %v reads between %d caches", m.Balance, len(m.Shares))
	case m.Machine.Group < 1 || m.Machine.Block < 1:
		return errors.New("group or block is not positive")
	}
	for i, c := range m.Machine.Caches {
		if c.Bytes <= 0 || c.Line < 0 || c.Line > mostLine || !(m.Shares[i] > 0) {
			return fmt.Errorf("cache %d has %d bytes in lines of 2^%d cells, and a share of %v", i+1, c.Bytes, c.Line, m.Shares[i])
		}
	}
	sum := 0.0
	known := featureNames(m.Machine, m.Flavor)
	for name, w := range m.Weights {
		if !slices.Contains(known, name) || w < 0 || math.IsNaN(w) || math.IsInf(w, 0) {
			return fmt.Errorf("weight %q is %v", name, w)
		}
		sum += w
	}
	if sum == 0 {
		return errors.New("no weight is positive")
	}
	return nil
}

// For gives the model for a machine and keys of the given length: the one fitted to them, else that of the machine
// most like it, with the caches of the given one; fitted tells which. nil where there is none of the engine, flavor and
// length.
func (ms Models) For(m Machine, f flavors.Flavor, width int) (model *Model, fitted bool) {
	best, nearest := (*Model)(nil), math.Inf(1)
	for _, x := range ms {
		if x.Machine.Engine != m.Engine || x.Flavor != f || x.Width != width {
			continue
		}
		if reflect.DeepEqual(x.Machine, m) {
			return x, true
		}
		if d := x.Machine.unlike(m); d < nearest {
			best, nearest = x, d
		}
	}
	if best == nil {
		return nil, false
	}
	other := *best
	// What a model says of its caches it says of as many of another machine.
	other.Machine = m
	if len(m.Caches) != len(best.Machine.Caches) {
		other.Machine.Caches = best.Machine.Caches
	}
	return &other, false
}

// Guess is a model that nobody measured: a cell costs a nanosecond, and one that a cache has not costs twice what the
// cache before does. It says what to measure first where there is no other.
func Guess(m Machine, f flavors.Flavor, width int) *Model {
	g := &Model{Machine: m, Flavor: f, Width: width, Window: 1, Balance: 1, Weights: map[string]float64{featureKey: 1, featureRead: 1}}
	if f == flavors.List {
		g.Weights[featureProbe] = 1
	}
	for i := range m.Caches {
		g.Shares = append(g.Shares, 0.5)
		g.Weights[missOf(i)] = math.Exp2(float64(i))
	}
	return g
}

// unlike measures how different machines of one engine are.
func (m Machine) unlike(o Machine) (d float64) {
	if m.Wide != o.Wide {
		d += 100
	}
	if m.Processor != o.Processor {
		d += 10
	}
	if len(m.Caches) != len(o.Caches) {
		return d + 10
	}
	for i, c := range m.Caches {
		d += math.Abs(math.Log2(float64(c.Bytes) / float64(o.Caches[i].Bytes)))
	}
	return d
}

// Save writes models to a file, in place of those that it has for the same machine, flavor and key length.
func Save(path string, models ...*Model) error {
	var all Models
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("models: %w", err)
	default:
		if all, err = parse(text); err != nil {
			return fmt.Errorf("models %s: %w", path, err)
		}
	}
	for _, m := range models {
		all = slices.DeleteFunc(all, func(o *Model) bool {
			return o.Flavor == m.Flavor && o.Width == m.Width && reflect.DeepEqual(o.Machine, m.Machine)
		})
		all = append(all, m)
	}
	text, err = json.MarshalIndent(all, "", "\t")
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	return nil
}
