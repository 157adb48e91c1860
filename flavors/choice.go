package flavors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ribwarp/ribwarp/lpm"
)

// A Choice is strides that an engine goes over to while it works (Options.Choice). The zero value chooses
// nothing: the engine's own strides count. Safe for concurrent use; one Choice is for one engine.
//
// Every table keeps the strides that it has until it is replaced, but those of an engine on the
// processor: the newest tables of their lines are made anew behind the scenes and then answer from the new
// trees, with the same answers. On a GPU a table is built anew in each update, so the next one has the
// strides, unless the device has no memory for them.
type Choice struct {
	chosen atomic.Pointer[[2]chosen] // by family: IPv4, IPv6

	mu    sync.Mutex // one Set at a time
	lines sync.Map   // *line to nothing: those of the processor's tables
}

// chosen is the choice for a family: for tables with at least so many routes of it.
type chosen struct {
	strides *Strides // nil: none
	least   int
}

// Set chooses strides for a family, of width 32 or 128, and tables with at least the given number of its
// routes. Smaller ones keep the engine's own: a wide root that is nothing beside a full table would be most of a
// small one. nil takes the choice back.
//
// It returns when the tables that there are, and those that are being built, have gone over, which takes about as
// long as building them, or when ctx ends or one fails; those that have not then do so with the next Set, of
// the same strides too. Updates do not wait meanwhile but for a moment. The error wraps ErrStrides where no tree can
// have the strides.
func (c *Choice) Set(ctx context.Context, width int, strides []int, least int) error {
	next := chosen{least: least}
	if strides != nil {
		st, err := NewStrides(width, strides)
		if err != nil {
			return err
		}
		next.strides = st
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var both [2]chosen
	if before := c.chosen.Load(); before != nil {
		both = *before
	}
	both[family(width)] = next
	c.chosen.Store(&both)
	var err error
	c.lines.Range(func(l, _ any) bool {
		err = l.(*line).convert(ctx)
		return err == nil && ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// family gives the place of a family of keys of the given width.
func family(width int) int {
	if width == 32 {
		return 0
	}
	return 1
}

// chose tells whether something was ever chosen. c may be nil.
func (c *Choice) chose() bool { return c != nil && c.chosen.Load() != nil }

// strides gives what a tree of n routes is to have: own where nothing else was chosen. c may be nil.
func (c *Choice) strides(own *Strides, n int) *Strides {
	if c == nil {
		return own
	}
	if both := c.chosen.Load(); both != nil {
		if x := both[family(own.width)]; x.strides != nil && n >= x.least {
			return x.strides
		}
	}
	return own
}

// line is the tables of a build and its updates on the processor, of which the newest can be made anew.
type line struct {
	engine *cpuEngine

	mu         sync.Mutex // held while the first table is built, and else for moments
	newest     *cpuTable  // nil before the first and after the last
	converting bool
	missed     [2][]lpm.Route6 // by family: the changes since the conversion under way began, in order
}

// begin makes a line of the trees that build gives. A Choice that is set meanwhile finds it, and waits for them.
func (e *cpuEngine) begin(build func() (trees, error)) (*cpuTable, error) {
	l := &line{engine: e}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.choice != nil {
		e.choice.lines.Store(l, nil) // before build asks for strides
	}
	x, err := build()
	if err != nil {
		l.gone()
		return nil, err
	}
	return l.table(x), nil
}

// table makes the newest table.
func (l *line) table(x trees) *cpuTable {
	t := &cpuTable{engine: l.engine, line: l}
	t.trees.Store(&x)
	l.newest = t
	return t
}

// gone takes note that the line has no table.
func (l *line) gone() {
	l.newest = nil
	if l.engine.choice != nil {
		l.engine.choice.lines.Delete(l)
	}
}

// closed takes note that a table is.
func (l *line) closed(t *cpuTable) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest == t {
		l.gone()
	}
}

// update makes p with the changes. It makes it once more where p has gone over to other trees meanwhile, so that
// neither waits for the other.
func (l *line) update(p *cpuTable, changes lpm.Routes) (lpm.Table, error) {
	edits := [2][]lpm.Route6{widen(changes.V4), changes.V6}
	for !p.closed.Load() {
		from := p.trees.Load()
		next := *from
		if err := next.edit(edits); err != nil {
			return nil, fmt.Errorf("update %w", err)
		}
		if t := l.follow(p, from, next, edits); t != nil {
			return t, nil
		}
	}
	return nil, lpm.ErrClosed
}

// follow makes the table behind p of its trees with edits, nil where p has other trees by now.
func (l *line) follow(p *cpuTable, from *trees, next trees, edits [2][]lpm.Route6) *cpuTable {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.trees.Load() != from:
		return nil
	case p != l.newest: // what followed it is none of this table's
		t, _ := l.engine.begin(func() (trees, error) { return next, nil })
		return t
	}
	if l.converting {
		for f := range l.missed {
			l.missed[f] = append(l.missed[f], edits[f]...)
		}
	}
	return l.table(next)
}

const (
	// fewMissed is how many changes an update may wait for: some tenths of a millisecond.
	fewMissed = 64
	// mostRounds is how often a conversion makes up for what came meanwhile: each round has less to do, if
	// updates leave it the time.
	mostRounds = 50
)

// errOvertaken tells that updates came faster than they could be made up for.
var errOvertaken = errors.New("changes come faster than a table with other strides takes them in")

// convert makes the newest table's trees anew where their strides are not the chosen ones.
func (l *line) convert(ctx context.Context) error {
	l.mu.Lock()
	if l.newest == nil {
		l.mu.Unlock()
		return nil
	}
	from := l.newest.trees.Load()
	l.converting = true
	l.mu.Unlock()
	made, err := l.rebuilt(ctx, from)
	// What came meanwhile is made up for, and what came while that was done, until so little is left that
	// no update waits for it.
	for round := 0; err == nil; round++ {
		l.mu.Lock()
		if l.count() <= fewMissed {
			break
		}
		missed := l.missed
		l.missed = [2][]lpm.Route6{}
		l.mu.Unlock()
		if err = made.edit(missed); err == nil {
			err = ctx.Err()
		}
		if err == nil && round == mostRounds {
			err = errOvertaken
		}
	}
	if err != nil {
		l.mu.Lock()
	} else if err = made.edit(l.missed); err == nil && made != (trees{}) && l.newest != nil {
		now := *l.newest.trees.Load()
		for f, t := range made {
			if t != nil {
				now[f] = t
			}
		}
		l.newest.trees.Store(&now)
	}
	l.converting, l.missed = false, [2][]lpm.Route6{}
	l.mu.Unlock()
	return err
}

// count is the number of changes that a conversion lacks.
func (l *line) count() int { return len(l.missed[0]) + len(l.missed[1]) }

// rebuilt makes the trees anew whose strides are not the chosen ones; the others are nil.
func (l *line) rebuilt(ctx context.Context, from *trees) (made trees, err error) {
	for f, t := range from {
		st := l.engine.choice.strides(l.engine.own[f], t.Len())
		if slices.Equal(st.list, t.strides.list) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return trees{}, err
		}
		if made[f], err = t.rebuilt(st); err != nil {
			return trees{}, fmt.Errorf("go over to strides %s: %w", FormatStrides(st.list), err)
		}
	}
	return made, nil
}

// edit applies changes to the trees that there are.
func (x *trees) edit(changes [2][]lpm.Route6) (err error) {
	for f, t := range x {
		if t != nil && len(changes[f]) > 0 {
			if x[f], err = t.Edit(changes[f]); err != nil {
				return fmt.Errorf("%s tree: %w", []string{"IPv4", "IPv6"}[f], err)
			}
		}
	}
	return nil
}

// rebuilt makes a tree of the same masks with other strides.
func (t *Tree) rebuilt(st *Strides) (*Tree, error) {
	s := &Sorted{Hi: make([]uint64, 0, t.Len()), Bits: make([]uint8, 0, t.Len()), Payload: make([]uint32, 0, t.Len())}
	if st.width > 64 {
		s.Lo = make([]uint64, 0, t.Len())
	}
	t.All(func(key Key, length int, h lpm.Handle) bool {
		s.Hi, s.Bits, s.Payload = append(s.Hi, key.Hi), append(s.Bits, uint8(length)), append(s.Payload, uint32(h))
		if s.Lo != nil {
			s.Lo = append(s.Lo, key.Lo)
		}
		return true
	})
	return treeOf(st, t.flavor, s)
}
