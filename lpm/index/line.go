package index

import (
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/lpm"
)

// line is the copies that the tables of one build and its updates share, and the changes that some of them lack.
//
// A table's copy is never changed. A free one gets what it lacks when the next table takes it, which is little where
// tables come and go one after the other. What takes longer, cloning a copy or bringing one to date that was in use for
// long, is done in the background, and tables go without a copy until it is there. So is the first copy; the tables that it
// is right for get it when it is there.
type line struct {
	engine *engine

	mu     sync.Mutex // everything below; held for what an update changes
	tables int        // that are not closed
	newest int        // number of changes so far
	copies []*copy    // of which every one is in use, or free
	log    []lpm.Routes
	first  int // number of the changes log[0]
	logged int // routes in the log
	tended bool
	made   bool     // the first copy is there, or there will be none
	wait   []*table // for the first copy: those without changes
}

const (
	// lineCopies is how many copies a line has, which leaves room for the next line's.
	lineCopies = 4
	// spare is how many free copies are kept.
	spare = 1
)

// Tests make these smaller.
var (
	// longestLog is how many routes of changes are kept for copies that are in use: some 6 MB. A copy
	// that lacks more is closed once it is free.
	longestLog = 1 << 18
	// longestWait is how many routes a copy may lack to be brought to date while an update waits: some 10 ms.
	longestWait = 1 << 13
)

// newLine makes the line of one table, without a copy.
func newLine(e *engine) *line { return &line{engine: e, first: 1, tables: 1, made: true} }

// begin has the first copy made, of the routes of t, the line's only table. It takes routes over.
func (l *line) begin(t *table, routes lpm.Routes) {
	l.made, l.wait, l.tended = false, []*table{t}, true
	go func() {
		// In turns: builds may follow each other faster than their copies are made, and each would take its memory.
		l.engine.making <- struct{}{}
		var c *copy
		if l.inUse() {
			c = l.engine.build(routes)
		}
		<-l.engine.making
		l.mu.Lock()
		defer l.mu.Unlock()
		if c != nil {
			c.size = c.bytes()
			l.copies = append(l.copies, c)
			for _, t := range l.wait {
				if !t.closed.Load() {
					l.give(c, t)
				}
			}
		}
		l.made, l.wait, l.tended = true, nil, false
		l.prune()
		// The first update needs a second copy, and somebody waits for it then.
		if len(l.copies) > 0 {
			l.tend()
		}
	}()
}

// inUse tells whether a table is not closed.
func (l *line) inUse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tables > 0
}

// give has a table read a copy.
func (l *line) give(c *copy, t *table) {
	c.users++
	t.copy.Store(c)
}

// next gives t, which is p and changes, its number and its copy, and reports whether p is the line's newest table.
func (l *line) next(t, p *table, changes lpm.Routes) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.number != l.newest || p.closed.Load() {
		return false
	}
	l.tables++
	if changes.Len() == 0 { // attributes may have changed: the index knows none
		t.number = p.number
		if c := p.copy.Load(); c != nil {
			l.give(c, t)
		} else if t.number == 0 && !l.made {
			l.wait = append(l.wait, t)
		}
		return true
	}
	l.newest++
	t.number = l.newest
	if len(l.copies) == 0 && l.made {
		l.first = l.newest + 1
		return true
	}
	l.log = append(l.log, lpm.Routes{V4: slices.Clone(changes.V4), V6: slices.Clone(changes.V6)})
	l.logged += changes.Len()
	c := l.free()
	if c == nil || l.lacks(c) > max(longestWait, 4*changes.Len()) {
		l.tend()
	} else if l.catchUp(c) {
		l.give(c, t)
		if len(l.copies) == 1 { // for the next update
			l.tend()
		}
	}
	l.trim()
	return true
}

// free gives the newest copy that nobody reads, nil for none.
func (l *line) free() (newest *copy) {
	for _, c := range l.copies {
		if c.users == 0 && (newest == nil || c.number > newest.number) {
			newest = c
		}
	}
	return newest
}

// lacks gives how many routes of changes a copy lacks.
func (l *line) lacks(c *copy) (n int) {
	for _, changes := range l.log[c.number+1-l.first:] {
		n += changes.Len()
	}
	return n
}

// catchUp brings a copy to date. One where that fails is dropped.
func (l *line) catchUp(c *copy) bool {
	for c.number < l.newest {
		if c.apply(l.log[c.number+1-l.first]) != nil {
			l.drop(c)
			return false
		}
		c.number++
	}
	c.size = c.bytes()
	return true
}

// trim forgets what no copy lacks, and what is more than is kept: what is out of reach then is dropped, or once it is free.
func (l *line) trim() {
	oldest := l.newest
	if !l.made {
		oldest = 0
	}
	for _, c := range l.copies {
		oldest = min(oldest, c.number)
	}
	for len(l.log) > 0 && (l.first <= oldest || l.logged > longestLog) {
		l.logged -= l.log[0].Len()
		l.log[0] = lpm.Routes{}
		l.log = l.log[1:]
		l.first++
	}
	for _, c := range slices.Clone(l.copies) {
		if c.users == 0 && !l.inReach(c) {
			l.drop(c)
		}
	}
}

// inReach tells whether the log has all that a copy lacks.
func (l *line) inReach(c *copy) bool { return c.number+1 >= l.first }

// drop closes a copy.
func (l *line) drop(c *copy) {
	l.copies = slices.DeleteFunc(l.copies, func(x *copy) bool { return x == c })
	l.engine.close(c)
}

// tend has somebody see to it in the background that there is a free copy which lacks little.
func (l *line) tend() {
	if l.tended {
		return
	}
	l.tended = true
	go func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		defer func() { l.tended = false }()
		for l.tables > 0 {
			c := l.free()
			if c != nil && l.lacks(c) <= longestWait {
				return
			}
			if c == nil {
				if c = l.another(); c == nil {
					return
				}
			}
			l.follow(c)
		}
	}()
}

// another clones the newest copy in reach, without the lock, and gives nil where it cannot.
func (l *line) another() *copy {
	var from *copy
	for _, c := range l.copies {
		if l.inReach(c) && (from == nil || c.number > from.number) {
			from = c
		}
	}
	if from == nil || len(l.copies) >= lineCopies {
		return nil
	}
	from.users++
	l.mu.Unlock()
	c := l.engine.clone(from)
	l.mu.Lock()
	from.users--
	if c != nil {
		c.size = c.bytes()
		l.copies = append(l.copies, c)
	}
	l.prune()
	if !slices.Contains(l.copies, c) {
		return nil
	}
	return c
}

// follow brings a free copy nearer to the newest table, without the lock where it takes long.
func (l *line) follow(c *copy) {
	c.users++
	for l.tables > 0 && l.inReach(c) && l.lacks(c) > longestWait {
		changes := l.log[c.number+1-l.first]
		l.mu.Unlock()
		err := c.apply(changes)
		l.mu.Lock()
		if err != nil {
			l.drop(c)
			return
		}
		c.number++
		c.size = c.bytes()
	}
	c.users--
	l.prune()
}

// release says that t is closed.
func (l *line) release(t *table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables--
	if c := t.copy.Load(); c != nil {
		c.users--
	}
	l.prune()
}

// prune drops the free copies that are too many or out of reach; the newest ones stay.
func (l *line) prune() {
	l.trim()
	keep := spare
	if l.tables == 0 {
		keep = 0
	}
	free := slices.DeleteFunc(slices.Clone(l.copies), func(c *copy) bool { return c.users > 0 })
	slices.SortFunc(free, func(a, b *copy) int { return b.number - a.number })
	for _, c := range free[min(keep, len(free)):] {
		l.drop(c)
	}
}

// lost tells whether no copy will serve a table again.
func (l *line) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made && !slices.ContainsFunc(l.copies, l.inReach)
}

// bytes is the memory of the copies.
func (l *line) bytes() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.copies {
		n += uint64(c.size)
	}
	return n
}
