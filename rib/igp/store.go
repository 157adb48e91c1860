package igp

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A Store holds the topology in force. All methods are safe for concurrent use. Make one with NewStore.
type Store struct {
	current atomic.Pointer[Topology]
	mu      sync.Mutex // who makes the next one
}

// NewStore makes a Store with a topology without nodes, generation 1.
func NewStore() *Store {
	s := &Store{}
	t, _ := New(nil, nil)
	t.Number = 1
	s.current.Store(t)
	return s
}

// Topology gives the topology in force. It takes no lock.
func (s *Store) Topology() *Topology { return s.current.Load() }

// Replace puts another topology in force, which must be new: its number is set here.
func (s *Store) Replace(t *Topology) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Number = s.current.Load().Number + 1
	s.current.Store(t)
}

// Apply puts the topology with these changes in force, made one after another, and gives it. Either all
// are made or, with an error that names the one that cannot be, none. It costs what New does, however few
// they are: collect those that come at once.
func (s *Store) Apply(changes ...Change) (*Topology, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.current.Load()
	if len(changes) == 0 {
		return was, nil
	}
	d := newDraft(was)
	for i, c := range changes {
		if err := c.apply(d); err != nil {
			return nil, fmt.Errorf("change %d of the topology: %w", i, err)
		}
	}
	t, err := New(d.nodes.items(), d.links.items())
	if err != nil {
		return nil, fmt.Errorf("change of the topology: %w", err)
	}
	t.Number = was.Number + 1
	s.current.Store(t)
	return t, nil
}

// A Change of a topology: PutNode, DropNode, PutLink or DropLink.
type Change interface{ apply(*draft) error }

// PutNode adds a node, or puts it in the place of the one of its name.
type PutNode struct{ Node }

// DropNode takes a node away, and its links.
type DropNode struct{ Name string }

// PutLink adds a link, or puts it in the place of the one of its name, which it must have. Its nodes must
// be there once all changes are made.
type PutLink struct{ Link }

// DropLink takes a link away.
type DropLink struct{ Name string }

func (c PutNode) apply(d *draft) error {
	d.nodes.put(c.Node)
	return nil
}

func (c DropNode) apply(d *draft) error {
	if !d.nodes.drop(c.Name) {
		return fmt.Errorf("drop node %q: it is not there", c.Name)
	}
	for _, l := range d.links.list {
		if l != nil && (l.From == c.Name || l.To == c.Name) {
			d.links.drop(l.Name)
		}
	}
	return nil
}

func (c PutLink) apply(d *draft) error {
	if c.Name == "" {
		return fmt.Errorf("put a link from %q to %q: it needs a name", c.From, c.To)
	}
	d.links.put(c.Link)
	return nil
}

func (c DropLink) apply(d *draft) error {
	if !d.links.drop(c.Name) {
		return fmt.Errorf("drop link %q: it is not there", c.Name)
	}
	return nil
}

// A draft is a topology on its way.
type draft struct {
	nodes items[Node]
	links items[Link]
}

func newDraft(t *Topology) *draft {
	return &draft{
		nodes: newItems(t.Nodes, func(n *Node) string { return n.Name }),
		links: newItems(t.Links, func(l *Link) string { return l.Name }),
	}
}

// items are things with names, in order. What is put in another's place keeps that place.
type items[T any] struct {
	list  []*T // nil where something was dropped
	place map[string]int
	name  func(*T) string
}

func newItems[T any](all []T, name func(*T) string) items[T] {
	x := items[T]{list: make([]*T, len(all)), place: make(map[string]int, len(all)), name: name}
	for i := range all {
		x.list[i] = &all[i]
		x.place[name(&all[i])] = i
	}
	return x
}

func (x *items[T]) put(item T) {
	name := x.name(&item)
	if i, ok := x.place[name]; ok {
		x.list[i] = &item
		return
	}
	x.place[name] = len(x.list)
	x.list = append(x.list, &item)
}

func (x *items[T]) drop(name string) bool {
	i, ok := x.place[name]
	if ok {
		x.list[i] = nil
		delete(x.place, name)
	}
	return ok
}

func (x *items[T]) items() []T {
	left := slices.DeleteFunc(x.list, func(item *T) bool { return item == nil })
	all := make([]T, len(left))
	for i, item := range left {
		all[i] = *item
	}
	return all
}
