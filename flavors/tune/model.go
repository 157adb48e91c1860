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
	// Window is the number of reads of a level that a processor has under way at a time, fitted too.
	Window float64 `json:"window,omitempty"`
	// Balance is the number of reads for which a GPU's second-level cache takes as long as its memory for one, fitted
	// too.
	Balance float64 `json:"balance,omitempty"`
	// Weights are nanoseconds by feature.
	Weights map[string]float64 `json:"weights"`
	// Trees is the number of those that it was fitted to, Error the root of the mean square of its relative
	// errors there, of which large ones count less (Fit).
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
	featureSlower = "slower"       // a cell from memory, or as many from the second-level cache as take as long: the longer of both
	featureDirect = "index direct" // a search through an index of the root in shared memory
	featurePaged  = "index paged"  // the same in pages
	featureList   = "list"         // a container
	featureEntry  = "entry"        // an entry of a short container
	featureProbe  = "probe"        // a step of the binary searches in a long one
)

// shortList is up to how many entries flavors.Tree.Match looks at all.
const shortList = 16

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
	if d == 0 {
		switch mode, _ := e.index(n); mode {
		case featureDirect:
			s.direct, s.read = 1, 1-next
		case featurePaged:
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

// index gives the feature of the index that a search on a GPU has of a root of n bits, "" for none, and the bytes
// of shared memory that it takes: the rules of kernels/tree.
func (e *estimator) index(n int) (feature string, bytes int) {
	const directBytes, tableBytes, leastDirect, leastPaged = 128 << 10, 2 * rootPages, 6, 18
	if e.m.Engine != EngineCUDA || n < leastDirect || n > e.sh.Width || e.sh.Nodes[n] == 0 {
		return "", 0
	}
	if bytes = 8 << n / 32; bytes <= min(directBytes, e.m.SharedMemory) {
		return featureDirect, bytes
	}
	if n >= leastPaged {
		if bytes = e.sh.pages[n]*(bytes/rootPages) + tableBytes; bytes <= e.m.SharedMemory {
			return featurePaged, bytes
		}
	}
	return "", 0
}

// features gives what a lookup in a tree of the strides does, by a model's shares of the caches, window and balance.
func (e *estimator) features(strides []int, by *Model) map[string]float64 {
	f := map[string]float64{featureKey: 1}
	in := e.around(strides, by.Shares)
	at := 0
	for _, l := range e.levelsOf(strides) {
		n := l.stride
		e.step(at, n).addTo(f)
		missed := e.misses(l.level, in, by.Shares)
		for i := range e.m.Caches {
			f[missOf(i)] += missed[i]
			if e.m.Engine == EngineCPU {
				f[stallOf(i)] += stall(missed[i], by.Window)
			}
		}
		at += n
	}
	if e.m.Engine == EngineCUDA {
		f[featureSlower] = max(f[missOf(1)], f[missOf(0)]/by.Balance)
	}
	return f
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

// mostCaches is more than any machine has, that of pages counted in.
const mostCaches = 8

// The names of features of each cache.
var missNames, stallNames = func() (miss, stall [mostCaches]string) {
	for i := range miss {
		miss[i], stall[i] = fmt.Sprintf("%s %d", featureMiss, i+1), fmt.Sprintf("%s %d", featureStall, i+1)
	}
	return miss, stall
}()

func missOf(cache int) string { return missNames[cache] }

func stallOf(cache int) string { return stallNames[cache] }
