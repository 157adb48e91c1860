package flavors

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
)

// Default strides of trees on GPUs (docs/benchmarks/gpu.txt). A block's shared memory holds which
// cells of the root have children, so a wide root costs a search nothing, and what follows has few
// levels.
var (
	DefaultGPUStrides4 = []int{19, 5, 8}
	// DefaultGPUStrides6 takes two reads to /48, where most prefixes of the Internet end at the latest.
	DefaultGPUStrides6 = []int{24, 13, 11, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}
)

// The device takes routes as they lie in memory.
var (
	_ = [1]int{}[unsafe.Sizeof(lpm.Route4{})-12]
	_ = [1]int{}[unsafe.Sizeof(lpm.Route6{})-24]
	_ = [1]int{}[unsafe.Sizeof(lpm.Addr6{})-16]
)

// GPUModules are what devices need for NewGPU (device.Open).
func GPUModules() []*device.Module {
	modules := tree.Modules()
	for _, m := range dynamic.Modules() {
		if !slices.Contains(modules, m) {
			modules = append(modules, m)
		}
	}
	return modules
}

// NewGPU makes an engine that builds and searches on devices, which were opened with
// GPUModules. Every device holds the whole table, and a large batch is split over them. The engine takes
// the devices over: they are closed with it and its last table.
//
// Errors of Build, Update and lookups wrap lpm.ErrMemory where a device has not enough memory, and
// lpm.ErrLost where no device is left. A device that is lost while others work is left out from
// then on.
func NewGPU(o Options, devices ...*device.Device) (lpm.Engine, error) {
	if o.Strides4 == nil {
		o.Strides4 = DefaultGPUStrides4
	}
	if o.Strides6 == nil {
		o.Strides6 = DefaultGPUStrides6
	}
	o, st4, st6, err := o.check()
	if err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, errors.New("an engine on GPUs needs at least one device")
	}
	e := &gpuEngine{flavor: o.Flavor, own: [2]*Strides{st4, st6}, choice: o.Choice}
	for _, d := range devices {
		e.gpus = append(e.gpus, &gpu{dev: d})
	}
	e.users.Store(1)
	return e, nil
}

// gpuEngine builds a tree a family on every device.
type gpuEngine struct {
	flavor Flavor
	own    [2]*Strides // by family
	choice *Choice     // may be nil
	gpus   []*gpu
	next   atomic.Uint32 // which device the next small batch goes to
	closed atomic.Bool
	users  atomic.Int64 // 1 for being open, 1 a table
}

// gpu is a device and what its lookups and builds need besides the table.
type gpu struct {
	dev    *device.Device
	lanes  staging   // of the lane Serve, whose jobs follow each other
	routes gpuRoutes // of the lane Build
}

func (e *gpuEngine) Name() string { return "cuda" }

func (e *gpuEngine) Close() error {
	if !e.closed.Swap(true) {
		e.release()
	}
	return nil
}

// release closes the devices after their last user.
func (e *gpuEngine) release() {
	if e.users.Add(-1) > 0 {
		return
	}
	for _, g := range e.gpus {
		g.lanes.free()
		// On a device that was lost there is nothing left to free.
		_ = g.dev.Do(device.Build, func(q *device.Queue) error { g.routes.free(q); return nil })
		_ = g.dev.Close()
	}
}

func (e *gpuEngine) kind() tree.Kind {
	if e.flavor == List {
		return tree.List
	}
	return tree.Pushed
}

// check is what Build and Update ask of their arguments.
func (e *gpuEngine) check(ctx context.Context, routes lpm.Routes) error {
	if e.closed.Load() {
		return lpm.ErrClosed
	}
	if err := routes.Validate(); err != nil {
		return err
	}
	return ctx.Err()
}

// gpuError gives a device's error the meaning that it has for whoever knows only lpm.
func gpuError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, device.ErrLost):
		return fmt.Errorf("%w: %w", lpm.ErrLost, err)
	case errors.Is(err, device.ErrMemory):
		return fmt.Errorf("%w: %w", lpm.ErrMemory, err)
	case errors.Is(err, device.ErrClosed):
		return fmt.Errorf("%w: %w", lpm.ErrClosed, err)
	case errors.Is(err, tree.ErrCells):
		return fmt.Errorf("%w: %w", ErrStrides, err)
	}
	return err
}

func (e *gpuEngine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	if err := e.check(ctx, routes); err != nil {
		return nil, err
	}
	return e.table(make([]gpuTrees, len(e.gpus)), true, routes)
}

func (e *gpuEngine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	if err := e.check(ctx, changes); err != nil {
		return nil, err
	}
	p, ok := prev.(*gpuTable)
	if !ok || p.engine != e {
		return nil, lpm.ErrForeignTable
	}
	if p.closed.Load() {
		return nil, lpm.ErrClosed
	}
	return e.table(p.on, false, changes)
}

// table makes the table of prev's routes with the changes, on all devices at the same time. A
// device that prev lacks is left out, unless all is new.
func (e *gpuEngine) table(prev []gpuTrees, all bool, changes lpm.Routes) (lpm.Table, error) {
	t := &gpuTable{engine: e, on: make([]gpuTrees, len(e.gpus))}
	e.users.Add(1)
	errs := make([]error, len(e.gpus))
	var wg sync.WaitGroup
	for i, g := range e.gpus {
		if prev[i].t4 == nil && !all {
			errs[i] = device.ErrLost
			continue
		}
		wg.Go(func() {
			// Where memory is too little for chosen strides the engine's own do, which may take less.
			for _, choice := range []*Choice{e.choice, nil} {
				errs[i] = g.dev.Do(device.Build, func(q *device.Queue) (err error) {
					t.on[i], err = e.build(q, g, choice, prev[i], changes)
					return err
				})
				if errs[i] != nil {
					// The device failed after the trees were made.
					t.on[i].free(g.dev)
				}
				if !choice.chose() || !errors.Is(errs[i], device.ErrMemory) {
					break
				}
			}
		})
	}
	wg.Wait()
	lost := error(nil)
	for _, err := range errs {
		switch {
		case errors.Is(err, device.ErrLost):
			lost = err
		case err != nil:
			_ = t.Close()
			return nil, gpuError(err)
		}
	}
	if len(t.alive(nil)) == 0 {
		_ = t.Close()
		return nil, gpuError(lost)
	}
	return t, nil
}

// gpuTrees are one device's trees; no trees where the device was lost.
type gpuTrees struct{ t4, t6 *gpuTree }

// gpuTree is an image that the tables of an update share where the update changes only the other
// family.
type gpuTree struct {
	*tree.Image
	users atomic.Int32
}

// build makes one device's trees, as part of a job: from the given routes where prev has no trees, from prev's
// with the changes otherwise. A family without changes is shared.
func (e *gpuEngine) build(q *device.Queue, g *gpu, choice *Choice, prev gpuTrees, changes lpm.Routes) (trees gpuTrees, err error) {
	defer func() {
		if err != nil {
			g.routes.free(q) // memory may be what it lacked
		}
	}()
	trees.t4, err = buildTree(q, e.shape(choice, 0, prev.t4, len(changes.V4)), e.kind(), prev.t4, &g.routes.v4, len(changes.V4),
		func() tree.Columns { return columns4(q, changes.V4) }, func() edits { return edits4(changes.V4) })
	if err != nil {
		return gpuTrees{}, fmt.Errorf("build IPv4 tree: %w", err)
	}
	trees.t6, err = buildTree(q, e.shape(choice, 1, prev.t6, len(changes.V6)), e.kind(), prev.t6, &g.routes.v6, len(changes.V6),
		func() tree.Columns { return columns6(q, changes.V6) }, func() edits { return edits6(changes.V6) })
	if err != nil {
		trees.release(q)
		return gpuTrees{}, fmt.Errorf("build IPv6 tree: %w", err)
	}
	return trees, nil
}

// shape gives the strides of a family's next tree, which follows prev or is one of n routes.
func (e *gpuEngine) shape(choice *Choice, family int, prev *gpuTree, n int) *tree.Shape {
	if prev != nil {
		n = prev.Sorted.N
	}
	st := choice.strides(e.own[family], n)
	if prev != nil && slices.Equal(prev.Shape.Strides, st.list) {
		return prev.Shape
	}
	return tree.NewShape(st.list)
}

// buildTree builds the tree of one family. all brings the routes to the device, as they are: the build's own
// sort sees to prefixes that occur twice. An update goes through the family's maps, so that only the
// changes cross the bus.
func buildTree(q *device.Queue, shape *tree.Shape, kind tree.Kind, prev *gpuTree, maps *gpuFamily, changes int,
	all func() tree.Columns, change func() edits,
) (t *gpuTree, err error) {
	var in tree.Columns
	switch {
	case prev == nil:
		in = all()
	case changes == 0 && prev.Shape == shape:
		prev.users.Add(1)
		return prev, nil
	default:
		if in, err = maps.update(q, prev, change()); err != nil {
			return nil, err
		}
	}
	defer in.Free(q)
	im, err := tree.Build(q, shape, in, kind)
	if err != nil {
		return nil, err
	}
	t = &gpuTree{Image: im}
	t.users.Store(1)
	if prev != nil {
		maps.of = t
	}
	return t, nil
}

// columns4 and columns6 bring routes to the device.
func columns4(q *device.Queue, rs []lpm.Route4) tree.Columns {
	longest := 0
	for _, r := range rs {
		longest = max(longest, int(r.Bits))
	}
	c := tree.NewColumns(q, len(rs), longest)
	records := q.Temp(len(rs) * int(unsafe.Sizeof(lpm.Route4{})))
	device.CopyIn(q, records, rs)
	c.Set32(q, 0, records, len(rs))
	q.Free(records)
	return c
}

func columns6(q *device.Queue, rs []lpm.Route6) tree.Columns {
	longest := 0
	for _, r := range rs {
		longest = max(longest, int(r.Bits))
	}
	c := tree.NewColumns(q, len(rs), longest)
	records := q.Temp(len(rs) * int(unsafe.Sizeof(lpm.Route6{})))
	device.CopyIn(q, records, rs)
	c.Set128(q, 0, records, len(rs))
	q.Free(records)
	return c
}

// release gives up trees, as part of a job.
func (x gpuTrees) release(q *device.Queue) {
	for _, t := range []*gpuTree{x.t4, x.t6} {
		if t != nil && t.users.Add(-1) == 0 {
			t.Free(q)
		}
	}
}

// free is release as a job of its own.
func (x *gpuTrees) free(d *device.Device) {
	if x.t4 == nil {
		return
	}
	// On a device that was lost or closed there is nothing left to free.
	_ = d.Do(device.Serve, func(q *device.Queue) error { x.release(q); return nil })
	*x = gpuTrees{}
}

// gpuTable is a table on all devices.
type gpuTable struct {
	engine *gpuEngine
	on     []gpuTrees // by device
	closed atomic.Bool
}

func (t *gpuTable) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	for i := range t.on {
		t.on[i].free(t.engine.gpus[i].dev)
	}
	t.engine.release()
	return nil
}

// alive appends the devices that hold the table and work.
func (t *gpuTable) alive(dst []int) []int {
	for i, x := range t.on {
		if x.t4 != nil && t.engine.gpus[i].dev.Lost() == nil {
			dst = append(dst, i)
		}
	}
	return dst
}

// ask runs a job on a device that works; ok is false where none does.
func (t *gpuTable) ask(p netip.Prefix, job func(q *device.Queue, im *tree.Image, key Key) error) {
	p = p.Masked()
	if t.closed.Load() || !p.IsValid() {
		return
	}
	for _, i := range t.alive(nil) {
		im, key := t.on[i].t6.Image, Key{}
		if p.Addr().Is4() {
			im, key = t.on[i].t4.Image, key4(lpm.Addr4(p.Addr()))
		} else {
			key = lpm.Addr16(p.Addr())
		}
		if t.engine.gpus[i].dev.Do(device.Serve, func(q *device.Queue) error { return job(q, im, key) }) == nil {
			return
		}
	}
}

// question puts one mask on the device, as FindMasks and Covering want it.
func question(q *device.Queue, key Key, bits int) (keys, lengths device.Ptr) {
	keys, lengths = q.Temp(16), q.Temp(1)
	device.CopyIn(q, keys, []Key{key})
	device.CopyIn(q, lengths, []uint8{uint8(bits)})
	return keys, lengths
}

func (t *gpuTable) Find(p netip.Prefix) lpm.Handle {
	found := make([]lpm.Handle, 1)
	t.ask(p, func(q *device.Queue, im *tree.Image, key Key) error {
		keys, lengths := question(q, key, p.Bits())
		out := q.Temp(4)
		im.FindMasks(q, out, keys, lengths, 1)
		device.CopyOut(q, found, out)
		q.Wait()
		return q.Err()
	})
	return found[0]
}

// FindAll finds prefixes of both families in one job. It is lpm.Finder's.
func (t *gpuTable) FindAll(dst []lpm.Handle, prefixes []netip.Prefix) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	var masks [2]struct { // by family
		keys    []Key
		lengths []uint8
		places  []int
	}
	for i, p := range prefixes {
		dst[i] = lpm.None
		if !p.IsValid() {
			continue
		}
		p = p.Masked()
		m, key := &masks[1], lpm.Addr16(p.Addr())
		if p.Addr().Is4() {
			m, key = &masks[0], key4(lpm.Addr4(p.Addr()))
		}
		m.keys, m.lengths, m.places = append(m.keys, key), append(m.lengths, uint8(p.Bits())), append(m.places, i)
	}
	err := fmt.Errorf("find %d prefixes: %w", len(prefixes), lpm.ErrLost)
	for _, at := range t.alive(nil) {
		err = t.engine.gpus[at].dev.Do(device.Serve, func(q *device.Queue) error {
			for f, im := range []*tree.Image{t.on[at].t4.Image, t.on[at].t6.Image} {
				m := &masks[f]
				n := len(m.keys)
				found := make([]lpm.Handle, n)
				keys, lengths, out := q.Temp(16*n), q.Temp(n), q.Temp(4*n)
				device.CopyIn(q, keys, m.keys)
				device.CopyIn(q, lengths, m.lengths)
				im.FindMasks(q, out, keys, lengths, n)
				device.CopyOut(q, found, out)
				q.Wait()
				for i, h := range found {
					dst[m.places[i]] = h
				}
			}
			return q.Err()
		})
		if !errors.Is(err, device.ErrLost) {
			break
		}
	}
	return gpuError(err)
}

func (t *gpuTable) Covering(dst []lpm.Handle, p netip.Prefix) []lpm.Handle {
	var found []lpm.Handle
	t.ask(p, func(q *device.Queue, im *tree.Image, key Key) error {
		keys, lengths := question(q, key, p.Bits())
		out, count := q.Temp(4*(im.Shape.Width+1)), q.Temp(4)
		im.Covering(q, out, count, keys, lengths, 1)
		n := make([]uint32, 1)
		device.CopyOut(q, n, count)
		q.Wait()
		found = make([]lpm.Handle, n[0])
		device.CopyOut(q, found, out)
		q.Wait()
		return q.Err()
	})
	return append(dst, found...)
}

func (t *gpuTable) Covered(dst []lpm.Handle, p netip.Prefix, limit int) []lpm.Handle {
	var found []lpm.Handle
	t.ask(p, func(q *device.Queue, im *tree.Image, key Key) error {
		out := q.Temp(8)
		im.Inside(q, out, key.Hi, key.Lo, p.Bits())
		places := make([]uint32, 2)
		device.CopyOut(q, places, out)
		q.Wait()
		n := int(places[1] - places[0])
		if limit >= 0 {
			n = min(n, limit)
		}
		found = make([]lpm.Handle, n)
		device.CopyOut(q, found, im.Sorted.Payload.Add(4*int(places[0])))
		q.Wait()
		return q.Err()
	})
	return append(dst, found...)
}

// Info describes the table of one device; the others have the same.
func (t *gpuTable) Info() lpm.Info {
	in := lpm.Info{Engine: t.engine.Name(), Flavor: string(t.engine.flavor)}
	alive := t.alive(nil)
	if t.closed.Load() || len(alive) == 0 {
		return in
	}
	i := alive[0]
	for _, f := range []struct {
		family string
		im     *gpuTree
	}{{"ipv4", t.on[i].t4}, {"ipv6", t.on[i].t6}} {
		_, nodes := f.im.Nodes, 0
		for _, n := range f.im.Nodes {
			nodes += n
		}
		starts := make([]uint32, nodes+1)
		if err := t.engine.gpus[i].dev.Do(device.Serve, func(q *device.Queue) error {
			device.CopyOut(q, starts, f.im.Starts)
			q.Wait()
			return q.Err()
		}); err != nil {
			return in
		}
		fi := lpm.FamilyInfo{Family: f.family, Prefixes: f.im.Sorted.N, Strides: f.im.Shape.Strides, Bytes: uint64(f.im.Bytes())}
		for l, n := range f.im.Nodes {
			li := levelInfo(f.im.Shape.Strides[l], n, func(i int) int {
				g := f.im.NodeBase[l] + i
				return int(starts[g+1] - starts[g])
			})
			li.Bytes = uint64(li.Cells)*cellSize + uint64(n)*4 + uint64(li.Masks)*uint64(unsafe.Sizeof(Entry{}))
			fi.Levels = append(fi.Levels, li)
		}
		in.Families = append(in.Families, fi)
	}
	return in
}
