package flavors

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/ribwarp/ribwarp/lpm"
)

// Default strides, measured on full tables of 2026 (docs/benchmarks/lookup.txt).
var (
	// DefaultStrides4 answers most addresses of the Internet by two reads, at /20 and /24, and
	// keeps a full table in a processor's last-level cache.
	DefaultStrides4 = []int{20, 4, 8}
	// DefaultStrides6 has its first two cuts where the blocks of registries and providers begin to
	// differ, /19 and /32; from there to /48 the common lengths are multiples of 4.
	DefaultStrides6 = []int{19, 13, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}
)

// Options of an engine. The zero value is the default.
type Options struct {
	Flavor   Flavor // default Pushed
	Strides4 []int  // sum to 32; default DefaultStrides4 or DefaultGPUStrides4
	Strides6 []int  // sum to 128; default DefaultStrides6 or DefaultGPUStrides6
}

// check fills in what is not set for the processor, and gives the strides of both families.
func (o Options) check() (_ Options, st4, st6 *Strides, err error) {
	if o.Flavor == "" {
		o.Flavor = Pushed
	}
	if o.Flavor != Pushed && o.Flavor != List {
		return o, nil, nil, fmt.Errorf("unknown node flavor %q: use %q or %q", o.Flavor, Pushed, List)
	}
	if o.Strides4 == nil {
		o.Strides4 = DefaultStrides4
	}
	if o.Strides6 == nil {
		o.Strides6 = DefaultStrides6
	}
	if st4, err = NewStrides(32, o.Strides4); err != nil {
		return o, nil, nil, fmt.Errorf("IPv4: %w", err)
	}
	if st6, err = NewStrides(128, o.Strides6); err != nil {
		return o, nil, nil, fmt.Errorf("IPv6: %w", err)
	}
	return o, st4, st6, nil
}

// NewCPU makes the engine that builds and searches on the processor, one core a call.
func NewCPU(o Options) (lpm.Engine, error) {
	o, st4, st6, err := o.check()
	if err != nil {
		return nil, err
	}
	return &cpuEngine{flavor: o.Flavor, st4: st4, st6: st6}, nil
}

// cpuEngine builds a tree a family.
type cpuEngine struct {
	flavor   Flavor
	st4, st6 *Strides
	closed   atomic.Bool
}

func (e *cpuEngine) Name() string { return "cpu" }

func (e *cpuEngine) Close() error {
	e.closed.Store(true)
	return nil
}

func (e *cpuEngine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	if err := e.check(ctx, routes); err != nil {
		return nil, err
	}
	t4, err := treeOf(e.st4, e.flavor, SortMasks4(routes.V4))
	if err != nil {
		return nil, fmt.Errorf("build IPv4 tree: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t6, err := NewTree(e.st6, e.flavor, routes.V6)
	if err != nil {
		return nil, fmt.Errorf("build IPv6 tree: %w", err)
	}
	return &cpuTable{engine: e, t4: t4, t6: t6}, nil
}

func (e *cpuEngine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	if err := e.check(ctx, changes); err != nil {
		return nil, err
	}
	p, ok := prev.(*cpuTable)
	if !ok || p.engine != e {
		return nil, lpm.ErrForeignTable
	}
	if p.closed.Load() {
		return nil, lpm.ErrClosed
	}
	next := &cpuTable{engine: e, t4: p.t4, t6: p.t6}
	var err error
	if len(changes.V4) > 0 {
		if next.t4, err = p.t4.Edit(widen(changes.V4)); err != nil {
			return nil, fmt.Errorf("update IPv4 tree: %w", err)
		}
	}
	if len(changes.V6) > 0 {
		if next.t6, err = p.t6.Edit(changes.V6); err != nil {
			return nil, fmt.Errorf("update IPv6 tree: %w", err)
		}
	}
	return next, nil
}

// check is what Build and Update ask of their arguments.
func (e *cpuEngine) check(ctx context.Context, routes lpm.Routes) error {
	if e.closed.Load() {
		return lpm.ErrClosed
	}
	if err := routes.Validate(); err != nil {
		return err
	}
	return ctx.Err()
}

// widen gives IPv4 masks as left-aligned keys.
func widen(v4 []lpm.Route4) []lpm.Route6 {
	wide := make([]lpm.Route6, len(v4))
	for i, r := range v4 {
		wide[i] = lpm.Route6{Addr: key4(r.Addr), Handle: r.Handle, Bits: r.Bits}
	}
	return wide
}

// key4 gives an IPv4 address as a key.
func key4(a uint32) Key { return Key{Hi: uint64(a) << 32} }

// cpuTable is a tree a family. Closing only marks it: its memory goes with its last user.
type cpuTable struct {
	engine *cpuEngine
	t4, t6 *Tree
	closed atomic.Bool
}

func (t *cpuTable) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	t.t4.Match4(dst, addrs)
	return nil
}

func (t *cpuTable) Lookup6(dst []lpm.Handle, addrs []lpm.Addr6) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	t.t6.Match(dst, addrs)
	return nil
}

// tree gives the tree and the key of a prefix; nil for one that no tree can hold.
func (t *cpuTable) tree(p netip.Prefix) (*Tree, Key) {
	p = p.Masked()
	switch {
	case t.closed.Load() || !p.IsValid():
		return nil, Key{}
	case p.Addr().Is4():
		return t.t4, key4(lpm.Addr4(p.Addr()))
	}
	return t.t6, lpm.Addr16(p.Addr())
}

func (t *cpuTable) Find(p netip.Prefix) lpm.Handle {
	tree, key := t.tree(p)
	if tree == nil {
		return lpm.None
	}
	return tree.Find(key, p.Bits())
}

func (t *cpuTable) Covering(dst []lpm.Handle, p netip.Prefix) []lpm.Handle {
	tree, key := t.tree(p)
	if tree == nil {
		return dst
	}
	return tree.Covering(dst, key, p.Bits())
}

func (t *cpuTable) Covered(dst []lpm.Handle, p netip.Prefix, limit int) []lpm.Handle {
	tree, key := t.tree(p)
	if tree == nil {
		return dst
	}
	return tree.Covered(dst, key, p.Bits(), limit)
}

func (t *cpuTable) Info() lpm.Info {
	in := lpm.Info{Engine: t.engine.Name(), Flavor: string(t.engine.flavor)}
	if t.closed.Load() {
		return in
	}
	for _, f := range []struct {
		family string
		tree   *Tree
	}{{"ipv4", t.t4}, {"ipv6", t.t6}} {
		fi := lpm.FamilyInfo{Family: f.family, Prefixes: f.tree.Len(), Strides: f.tree.strides.List(), Levels: f.tree.Info()}
		for _, l := range fi.Levels {
			fi.Bytes += l.Bytes
		}
		in.Families = append(in.Families, fi)
	}
	return in
}

func (t *cpuTable) Close() error {
	t.closed.Store(true)
	return nil
}
