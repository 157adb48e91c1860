package tune

import (
	"fmt"
	"math"

	"github.com/ribwarp/ribwarp/flavors"
)

// A Model predicts how long a lookup takes on a machine: a weighted sum of what the lookups of a tree do there.
//
// What they do follows from the table's Shape. How many come to a level is counted. How many of their reads
// miss a cache follows from how they spread over its lines, as for a cache that drops what was not used
// for longest: a line that a part p of the lookups reads is still there with probability 1-exp(-pT), where T,
// the lookups in which the cache is filled once, is such that the lines of all levels that are there fill it
// (Che, Tung, Wang, Hierarchical Web caching systems, 2002). The weights are fitted to measurements (Fit).
type Model struct {
	Machine Machine        `json:"machine"`
	Flavor  flavors.Flavor `json:"flavor"`
	// Width is the key length: keys of other lengths are searched by other code.
	Width int `json:"bits"`
	// Shares is the part of each of the machine's caches that cells find room in, fitted like the weights.
	Shares []float64 `json:"shares"`
	// Window is the number of reads of a level that the machine has under way at a time, fitted too.
	Window float64 `json:"window"`
	// Weights are nanoseconds by feature.
	Weights map[string]float64 `json:"weights"`
	// Trees is the number of those that it was fitted to, Error the root of the mean square of its relative
	// errors there.
	Trees int     `json:"trees"`
	Error float64 `json:"error"`
}

// Features of a lookup. Those of reads that miss have a number behind them, of the cache that they miss.
const (
	featureKey    = "key"          // a lookup, whatever the tree
	featureLevel  = "level"        // a level that a block of keys comes to
	featureGroup  = "group"        // a level that a group of keys comes to, which are read at once
	featureRead   = "read"         // a cell
	featureBranch = "branch"       // a key that goes on or ends against the odds
	featureMiss   = "miss"         // a cell that a cache has not
	featureStall  = "stall"        // a wait for cells that a cache has not
	featureDirect = "index direct" // a search through an index of the root in shared memory
	featurePaged  = "index paged"  // the same in pages
	featureList   = "list"         // a container
	featureEntry  = "entry"        // an entry of a short container
	featureProbe  = "probe"        // a step of the binary searches in a long one
)

// shortList is up to how many entries flavors.Tree.Match looks at all.
const shortList = 16

// The lookups in which a cache may be filled once: powers of the root of two.
const (
	turnovers   = 64
	perDoubling = 2
)

// level is what the reads of a level do to caches, by the logarithm of the cells of a line. nil where no cache
// has such lines.
type level [linePages + 1]*touched

// touched is of the lines that lookups touch how many a cache holds, and of their reads which part misses it, by
// the lookups in which it is filled once.
type touched struct {
	held, missed [turnovers]float32
}

// estimator predicts for one table on one machine. It is not for concurrent use.
type estimator struct {
	sh     *Shape
	m      *Machine
	levels map[[2]int]*level // by first bit and stride
	stream float64           // bytes of keys and answers that a lookup brings in
	costs  map[[2]int]step
}

// step is the part of the features of a level that no cache has a part in.
type step struct {
	level, group, read, branch float64
	direct, paged              float64
	list, entry, probe         float64
}

func newEstimator(sh *Shape, m *Machine) *estimator {
	e := &estimator{sh: sh, m: m, levels: map[[2]int]*level{}, costs: map[[2]int]step{}, stream: 16}
	switch {
	case sh.Width <= 32:
		e.stream = 4
	case m.Engine == EngineCUDA && sh.Longest <= 64:
		e.stream = 8
	}
	if m.Engine == EngineCUDA {
		e.stream += 4 // the answers go back to memory too; on a CPU they stay in a batch
	}
	return e
}

// level gives what the level that begins at bit d and takes n does to caches.
func (e *estimator) level(d, n int) *level {
	key := [2]int{d, n}
	if l := e.levels[key]; l != nil {
		return l
	}
	l := new(level)
	e.levels[key] = l
	for _, c := range e.m.Caches {
		if l[c.Line] == nil {
			l[c.Line] = e.touched(d, n, c.Line)
		}
	}
	return l
}

func (e *estimator) touched(d, n, line int) *touched {
	to := new(touched)
	if e.sh.Visits[d] == 0 {
		return to
	}
	s := e.sh.cells(d, n, line)
	if d == 0 && e.indexed(n) != "" { // only lookups that end in the root read it
		s = e.sh.ends(n, line)
	}
	for b := range s {
		c := &s[b]
		if c.count == 0 {
			continue
		}
		p := c.mass / c.count
		for t := range turnovers {
			gone := math.Exp(-p * math.Exp2(float64(t)/perDoubling))
			to.held[t] += float32(c.count * (1 - gone))
			to.missed[t] += float32(c.mass * gone)
		}
	}
	return to
}

// ends is cells for the root, of lookups that end there.
func (sh *Shape) ends(n, line int) spread {
	var s spread
	for g := range n {
		s.addSplit(&sh.leaf[g], max(n-line, g+1)-g-1)
	}
	return s
}

// step gives the other features of a level.
func (e *estimator) step(d, n int) step {
	key := [2]int{d, n}
	if s, ok := e.costs[key]; ok {
		return s
	}
	v, next := e.sh.Visits[d], e.sh.Visits[min(d+n, e.sh.Width)]
	s := step{
		level: 1 - math.Pow(1-v, float64(e.m.Block)),
		group: 1 - math.Pow(1-v, float64(e.m.Group)),
		read:  v, branch: min(next, max(v-next, 0)),
	}
	if e.m.Wide { // whether any of a group's keys goes on
		s.branch = min(s.group, 1-s.group)
	}
	if d == 0 {
		switch e.indexed(n) {
		case "direct":
			s.direct, s.read = 1, 1-next
		case "paged":
			s.paged, s.read = 1, 1-next
		}
	}
	if v > 0 {
		s.list = v
		s.entry, s.probe = e.sh.container(d, n)
	}
	e.costs[key] = s
	return s
}

// container gives how many entries of short containers and how many steps of the binary searches in long ones a lookup
// of flavor list looks at on the level that begins at bit d and takes n. It is an estimate: the masks of a node
// are taken to be of all lengths alike everywhere, and lookups to be for the masks of the level or to find nothing in
// it.
func (sh *Shape) container(d, n int) (entries, steps float64) {
	longer, here, tries := 0, 0, 0.0
	for length := d + 1; length <= sh.Longest; length++ {
		longer += sh.Lengths[length]
		if length <= d+n {
			here += sh.Lengths[length]
			// The search begins with the longest masks, and ends with the first that matches.
			tries += float64(sh.Lengths[length]) / float64(sh.Masks) * float64(d+n-length+1)
		}
	}
	v := sh.Visits[d]
	if longer == 0 || v == 0 {
		return 0, 0
	}
	tries += max(v-float64(here)/float64(sh.Masks), 0) * float64(n+1)
	mean := sh.inside[d] / v * float64(here) / float64(longer)
	if mean <= shortList {
		return v * mean, 0
	}
	return 0, tries * math.Log2(mean)
}

// indexed gives the mode of the index that a search on a GPU has of a root of n bits, "" for none: the
// rules of kernels/tree.
func (e *estimator) indexed(n int) string {
	const directBytes, tableBytes, leastDirect, leastPaged = 128 << 10, 2 * rootPages, 6, 18
	switch {
	case e.m.Engine != EngineCUDA || n < leastDirect || n > e.sh.Width || e.sh.Nodes[n] == 0:
		return ""
	case 8<<n/32 <= min(directBytes, e.m.SharedMemory):
		return "direct"
	case n >= leastPaged && e.sh.pages[n]*(8<<n/32/rootPages)+tableBytes <= e.m.SharedMemory:
		return "paged"
	}
	return ""
}

// turnover gives the lookups in which a cache is filled once by a tree: its place on the scale of touched.
func (e *estimator) turnover(levels []*level, c Cache, share float64) float64 {
	lineBytes := float64(int(4) << c.Line)
	lines, before := float64(c.Bytes)*share/lineBytes, 0.0
	for t := range turnovers {
		held := e.stream / lineBytes * math.Exp2(float64(t)/perDoubling)
		for _, l := range levels {
			held += float64(l[c.Line].held[t])
		}
		if held >= lines {
			if t == 0 {
				return 0
			}
			return float64(t-1) + (lines-before)/(held-before)
		}
		before = held
	}
	return turnovers - 1
}

// misses gives the part of the reads that a cache has not.
func (l *level) misses(c Cache, turnover float64) float64 {
	t := min(int(turnover), turnovers-2)
	f := turnover - float64(t)
	missed := &l[c.Line].missed
	return float64(missed[t])*(1-f) + float64(missed[t+1])*f
}

// features gives what a lookup in a tree of the strides does, by a model's shares of the caches and its window.
func (e *estimator) features(strides []int, shares []float64, window float64) map[string]float64 {
	f := map[string]float64{featureKey: 1}
	var levels []*level
	at := 0
	for _, n := range strides {
		if at >= e.sh.Longest && at > 0 {
			break
		}
		s := e.step(at, n)
		s.addTo(f)
		levels = append(levels, e.level(at, n))
		at += n
	}
	for i, t := range e.turnovers(levels, shares) {
		for _, l := range levels {
			missed := l.misses(e.m.Caches[i], t)
			f[missOf(i)] += missed
			f[stallOf(i)] += stall(missed, window)
		}
	}
	return f
}

func (e *estimator) turnovers(levels []*level, shares []float64) []float64 {
	ts := make([]float64, len(e.m.Caches))
	for i, c := range e.m.Caches {
		ts[i] = e.turnover(levels, c, shares[i])
	}
	return ts
}

func (s step) addTo(f map[string]float64) {
	for _, x := range s.named() {
		if x.value != 0 {
			f[x.name] += x.value
		}
	}
}

type namedValue struct {
	name  string
	value float64
}

func (s step) named() [9]namedValue {
	return [...]namedValue{
		{featureLevel, s.level}, {featureGroup, s.group}, {featureRead, s.read}, {featureBranch, s.branch},
		{featureDirect, s.direct}, {featurePaged, s.paged}, {featureList, s.list}, {featureEntry, s.entry}, {featureProbe, s.probe},
	}
}

func missOf(cache int) string { return fmt.Sprintf("%s %d", featureMiss, cache+1) }

func stallOf(cache int) string { return fmt.Sprintf("%s %d", featureStall, cache+1) }

// stall is the part of the windows of reads in which one misses: a processor waits for one miss about as long as for
// several at a time.
func stall(missed, window float64) float64 { return 1 - math.Pow(1-min(missed, 1), window) }
