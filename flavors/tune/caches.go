package tune

import "math"

// The lookups in which a cache may be filled once: powers of the root of two.
const (
	turnovers   = 64
	perDoubling = 2
)

// level is what the reads of a level do to caches.
type level struct {
	stride int
	reads  float64                // part of the lookups
	lines  [mostLine + 1]*touched // by the logarithm of the cells of a line; nil where no cache has such lines
}

// touched is of the lines that lookups touch how many a cache holds, and of their reads which part misses it, by
// the lookups in which it is filled once.
type touched struct {
	held, missed [turnovers]float32
}

// level gives what the level that begins at bit d and takes n does to caches.
func (e *estimator) level(d, n int) *level {
	key := [2]int{d, n}
	if l := e.levels[key]; l != nil {
		return l
	}
	l := &level{stride: n, reads: e.step(d, n).read}
	e.levels[key] = l
	for _, c := range e.m.Caches {
		if l.lines[c.Line] == nil {
			l.lines[c.Line] = e.touched(d, n, c.Line)
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
	if mode, _ := e.index(n); d == 0 && mode != "" { // only lookups that end in the root read it
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

// A reading is the reads of a level of which a part comes to a cache.
type reading struct {
	*level
	part float64
}

// turnover gives the lookups in which a cache is filled once by a tree: its place on the scale of touched.
func (e *estimator) turnover(levels []reading, c Cache, share float64) float64 {
	lineBytes := float64(int(4) << c.Line)
	lines, before := float64(c.Bytes)*share/lineBytes, 0.0
	for t := range turnovers {
		held := e.stream / lineBytes * math.Exp2(float64(t)/perDoubling)
		for _, l := range levels {
			held += scaled(&l.lines[c.Line].held, float64(t), l.part)
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

// misses gives the part of the lookups whose reads come to a cache and miss it.
func (r reading) misses(c Cache, turnover float64) float64 {
	return r.part * scaled(&r.lines[c.Line].missed, turnover, r.part)
}

// scaled looks a scale of touched up for lookups of which only a part counts.
func scaled(scale *[turnovers]float32, turnover, part float64) float64 {
	if part < 1 {
		turnover = max(turnover+perDoubling*math.Log2(max(part, 1e-9)), 0)
	}
	t := min(int(turnover), turnovers-2)
	f := turnover - float64(t)
	return float64(scale[t])*(1-f) + float64(scale[t+1])*f
}

// levelsOf gives the levels with nodes in a tree of the strides.
func (e *estimator) levelsOf(strides []int) (levels []reading) {
	at := 0
	for _, n := range strides {
		if at >= e.sh.Longest && at > 0 {
			break
		}
		levels = append(levels, reading{e.level(at, n), 1})
		at += n
	}
	return levels
}

// around is what a prediction depends on besides the levels one by one: with it, it is a sum over them.
type around struct {
	index     int // bytes that an index of the root takes of a GPU's first cache
	turnovers [mostCaches]float64
	memory    bool // a GPU's memory takes longer than its second-level cache
}

func (e *estimator) around(strides []int, shares []float64) (in around) {
	_, in.index = e.index(strides[0])
	levels := e.levelsOf(strides)
	for i, c := range e.m.Caches {
		if c.Line == pageGPU {
			for j, l := range levels {
				levels[j] = l.behind(e.missesFirst(l, in, shares))
			}
		}
		in.turnovers[i] = e.turnover(levels, c, shares[i])
	}
	return in
}

// misses gives the part of the lookups whose read of a level misses each cache. Where a page is, only those ask on a GPU
// that miss the first.
func (e *estimator) misses(l *level, in around, shares []float64) (missed [mostCaches]float64) {
	r := reading{l, 1}
	for i, c := range e.m.Caches {
		switch {
		case i == 0 && e.m.Engine == EngineCUDA:
			missed[i] = e.missesFirst(r, in, shares)
		case c.Line == pageGPU:
			missed[i] = r.behind(missed[0]).misses(c, in.turnovers[i])
		default:
			missed[i] = r.misses(c, in.turnovers[i])
		}
	}
	return missed
}

// missesFirst gives the part of the lookups whose read of a level misses a GPU's first cache: so many keys go down a
// level together that each has the cache for itself, but for the index.
func (e *estimator) missesFirst(r reading, in around, shares []float64) float64 {
	c := e.m.Caches[0]
	c.Bytes -= min(in.index, c.Bytes)
	return r.misses(c, e.turnover([]reading{r}, c, shares[0]))
}

// behind gives the reads that miss a cache.
func (r reading) behind(missed float64) reading {
	if r.reads > 0 {
		r.part = min(missed/r.reads, 1)
	}
	return r
}

// stall is the part of the windows of reads in which one misses: a processor waits for one miss about as long as for
// several at a time.
func stall(missed, window float64) float64 { return 1 - math.Pow(1-min(missed, 1), window) }
