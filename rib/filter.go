package rib

import (
	"hash/maphash"
	"iter"
	"net/netip"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

// A Filter says which routes are wanted: those for which all of its conditions hold. The zero Filter
// wants every route.
type Filter struct {
	// Spans are where they can be, for a Walk; none: anywhere. They are only to have less looked at:
	// Prefixes must refuse what is not wanted of them.
	Spans []Span
	// Attrs are asked once, nearly, about each set of attributes, then Prefixes and Others about each
	// route of those. None of them may keep what it is given.
	Attrs    []func(*Attrs) bool
	Prefixes []func(netip.Prefix) bool
	Others   []func(Route) bool
}

// Empty tells whether every route is wanted.
func (f *Filter) Empty() bool {
	return len(f.Prefixes)+len(f.Attrs)+len(f.Others) == 0
}

// fewRoutes is up to how many routes of a table are collected and sorted; where there are more, the
// table is walked in order, which takes no memory.
const fewRoutes = 1 << 16

// Routes gives the routes of a generation that the filter wants, in order (see Walk), from behind a
// prefix on; the zero one is in front of all. The caller, who holds g until the end, needs most of
// them at most, which is only to have no more looked at.
//
// Where few are wanted it costs a look at every route, or at those in Spans: 80 ms for 1.3 M whose
// neighbours have nothing in common. It takes memory for fewRoutes handles at most.
func (f *Filter) Routes(g *Generation, behind netip.Prefix, most int) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		wanted := f.matcher()
		if !f.narrow() {
			if handles, ok := f.few(g, behind, wanted); ok {
				for _, h := range handles {
					if !yield(g.Route(h)) {
						return
					}
				}
				return
			}
		}
		for h := range f.walk(g, behind, most) {
			if r := g.Route(h); wanted.takes(r) && !yield(r) {
				return
			}
		}
	}
}

// walk gives the handles of the routes in Spans, in order, from behind a prefix on. The caller needs most of what the filter
// wants of them at most.
func (f *Filter) walk(g *Generation, behind netip.Prefix, most int) iter.Seq[lpm.Handle] {
	return func(yield func(lpm.Handle) bool) {
		spans := f.Spans
		if len(spans) == 0 {
			spans = everything
		}
		w := NewWalk(g, spans...)
		w.Skip(behind)
		n := walkSlice
		if len(f.Attrs)+len(f.Others) == 0 && most < n {
			n = most + 1 // and one to know that there are more
		}
		for {
			handles := w.Next(n)
			if len(handles) == 0 {
				return
			}
			for _, h := range handles {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// everything are the spans of a whole table.
var everything = []Span{{Of: AllIPv4}, {Of: AllIPv6}}

// walkSlice is how many handles a walk asks its table for at once: the fewer times, the less it costs.
const walkSlice = 1 << 16

// narrow tells whether a walk has less to look at than a table, or nothing to look for.
func (f *Filter) narrow() bool {
	if len(f.Attrs)+len(f.Others) == 0 {
		return true
	}
	return len(f.Spans) > 0 && !slices.ContainsFunc(f.Spans, func(s Span) bool { return !s.Around && s.Of.Bits() < narrowBits })
}

// narrowBits is from which length on a prefix has few routes in it.
const narrowBits = 8

// few gives the handles of the routes that are wanted, in order; ok is false where there are too many.
func (f *Filter) few(g *Generation, behind netip.Prefix, wanted *matcher) (handles []lpm.Handle, ok bool) {
	for h := range wanted.inMemory(g) {
		r := g.Route(h)
		if !wanted.takes(r) || behind.IsValid() && r.Prefix.Compare(behind) <= 0 {
			continue
		}
		if len(handles) == fewRoutes {
			return nil, false
		}
		handles = append(handles, h)
	}
	slices.SortFunc(handles, func(a, b lpm.Handle) int { return g.Route(a).Prefix.Compare(g.Route(b).Prefix) })
	return handles, true
}

// ByAttrs gives all routes of a generation, in the order in which memory has them, each with what a
// function says of its attributes. The function is asked once, nearly, about each set of them, and must not
// keep them. 1.3 M routes take some 80 ms.
func ByAttrs[V any](g *Generation, of func(*Attrs) V) iter.Seq2[Route, V] {
	return func(yield func(Route, V) bool) {
		memo := newPathMemo(of, memoSlots)
		for h := range memo.inMemory(g) {
			if r := g.Route(h); !yield(r, memo.Of(r.Path)) {
				return
			}
		}
	}
}

// Matches tells whether a route is wanted. For many, Routes costs less.
func (f *Filter) Matches(r Route) bool {
	var a Attrs
	if r.Path != (Path{}) {
		a = r.Path.Value()
	}
	return r.Prefix.IsValid() && f.takesAttrs(&a) && f.takesRest(r)
}

func (f *Filter) takesAttrs(a *Attrs) bool {
	for _, holds := range f.Attrs {
		if !holds(a) {
			return false
		}
	}
	return true
}

func (f *Filter) takesRest(r Route) bool {
	for _, holds := range f.Prefixes {
		if !holds(r.Prefix) {
			return false
		}
	}
	for _, holds := range f.Others {
		if !holds(r) {
			return false
		}
	}
	return true
}

// A matcher is a filter with what it knows of attributes.
type matcher struct {
	*Filter
	*pathMemo[bool]
}

func (f *Filter) matcher() *matcher {
	slots := memoSlots
	if len(f.Attrs) == 0 {
		slots = 1 // nothing is asked of it
	}
	return &matcher{f, newPathMemo(f.takesAttrs, slots)}
}

func (m *matcher) takes(r Route) bool {
	return (len(m.Attrs) == 0 || m.Of(r.Path)) && m.takesRest(r)
}

// A pathMemo keeps what a function gives for sets of attributes, for a walk over a table: of them
// there are a fifth as many as routes, and those of neighbours are often the same. It keeps the
// last ones and forgets others, so that it does not grow. Not safe for concurrent use.
type pathMemo[V any] struct {
	of    func(*Attrs) V
	seed  maphash.Seed
	slots []memoSlot[V]
	attrs Attrs // what of looks at: on its own it would be an allocation each time

	touched byte // what inMemory read, or the compiler would leave it out
}

type memoSlot[V any] struct {
	path  Path
	value V
	known bool
}

// memoSlots is how many sets of attributes are kept for a walk over a table: 1 MB.
const memoSlots = 1 << 16

// newPathMemo makes a memo of a function, which must not keep what it is given: the zero Attrs for a
// route without attributes. slots is a power of two.
func newPathMemo[V any](of func(*Attrs) V, slots int) *pathMemo[V] {
	return &pathMemo[V]{of: of, seed: maphash.MakeSeed(), slots: make([]memoSlot[V], slots)}
}

// inMemory gives the handles of a generation in the order in which memory has the routes, for who asks
// about the paths of all of them: it brings what Of will look at into the processor's caches, some at a
// time. Of has to wait for memory each time, which is most of what a walk takes where neighbours
// have different attributes; here the waits do not hang on one another.
func (m *pathMemo[V]) inMemory(g *Generation) iter.Seq[lpm.Handle] {
	return func(yield func(lpm.Handle) bool) {
		var touched byte
		unknown := make([]Path, 0, warmPaths)
		for from := 0; from < g.Routes.Len(); from += warmPaths {
			unknown = unknown[:0]
			for i := range warmPaths {
				if p := g.Routes.At(from + i).Path; p != (Path{}) && m.slot(p).path != p {
					unknown = append(unknown, p)
				}
			}
			for _, p := range unknown {
				if path := p.Value().ASPath; path != "" {
					touched += path[len(path)-1]
				}
			}
			for i := range warmPaths {
				if h := lpm.Handle(from + i); g.Route(h).Prefix.IsValid() && !yield(h) {
					return
				}
			}
		}
		m.touched = touched
	}
}

// warmPaths is how many routes are looked at together.
const warmPaths = 128

func (m *pathMemo[V]) slot(p Path) *memoSlot[V] {
	return &m.slots[maphash.Comparable(m.seed, p)&uint64(len(m.slots)-1)]
}

// Of gives what the function gives for the attributes of p.
func (m *pathMemo[V]) Of(p Path) V {
	slot := m.slot(p)
	if slot.path != p || !slot.known {
		m.attrs = Attrs{}
		if p != (Path{}) {
			m.attrs = p.Value()
		}
		*slot = memoSlot[V]{p, m.of(&m.attrs), true}
	}
	return slot.value
}
