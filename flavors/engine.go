package flavors

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
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
	// Choice, if not nil, may give large tables other strides while the engine works.
	Choice *Choice
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

// NewCPU makes the engine that builds and searches on the processor: on a core for each family, and on one core a
// call for all else.
func NewCPU(o Options) (lpm.Engine, error) {
	o, st4, st6, err := o.check()
	if err != nil {
		return nil, err
	}
	return &cpuEngine{flavor: o.Flavor, own: [2]*Strides{st4, st6}, choice: o.Choice}, nil
}

// cpuEngine builds a tree a family.
type cpuEngine struct {
	flavor Flavor
	own    [2]*Strides // by family
	choice *Choice     // may be nil
	closed atomic.Bool
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
	t, err := e.begin(func() (x trees, err error) {
		var err6 error
		var v6 sync.WaitGroup
		v6.Go(func() { x[1], err6 = NewTree(e.choice.strides(e.own[1], len(routes.V6)), e.flavor, routes.V6) })
		x[0], err = treeOf(e.choice.strides(e.own[0], len(routes.V4)), e.flavor, SortMasks4(routes.V4))
		v6.Wait()
		switch {
		case err != nil:
			return trees{}, fmt.Errorf("build IPv4 tree: %w", err)
		case err6 != nil:
			return trees{}, fmt.Errorf("build IPv6 tree: %w", err6)
		}
		return x, nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (e *cpuEngine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	if err := e.check(ctx, changes); err != nil {
		return nil, err
	}
	p, ok := prev.(*cpuTable)
	if !ok || p.engine != e {
		return nil, lpm.ErrForeignTable
	}
	return p.line.update(p, changes)
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

// trees are a tree a family: IPv4, IPv6.
type trees [2]*Tree

// cpuTable is trees, which a Choice may replace by others of the same masks. Closing only marks it: its
// memory goes with its last user.
type cpuTable struct {
	engine *cpuEngine
	line   *line
	trees  atomic.Pointer[trees]
	closed atomic.Bool
}

func (t *cpuTable) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	t.trees.Load()[0].Match4(dst, addrs)
	return nil
}

func (t *cpuTable) Lookup6(dst []lpm.Handle, addrs []lpm.Addr6) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	t.trees.Load()[1].Match(dst, addrs)
	return nil
}

// tree gives the tree and the key of a prefix; nil for one that no tree can hold.
func (t *cpuTable) tree(p netip.Prefix) (*Tree, Key) {
	p = p.Masked()
	switch {
	case t.closed.Load() || !p.IsValid():
		return nil, Key{}
	case p.Addr().Is4():
		return t.trees.Load()[0], key4(lpm.Addr4(p.Addr()))
	}
	return t.trees.Load()[1], lpm.Addr16(p.Addr())
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
	for f, tree := range t.trees.Load() {
		fi := lpm.FamilyInfo{Family: []string{"ipv4", "ipv6"}[f], Prefixes: tree.Len(), Strides: tree.strides.List(), Levels: tree.Info()}
		for _, l := range fi.Levels {
			fi.Bytes += l.Bytes
		}
		in.Families = append(in.Families, fi)
	}
	return in
}

func (t *cpuTable) Close() error {
	t.closed.Store(true)
	t.line.closed(t)
	return nil
}
