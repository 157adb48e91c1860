package slab

import "testing"

// SetSorting has other batches sorted for the time of a test.
func SetSorting(tb testing.TB, requests, slots, most int, cache float64) {
	before := sorting
	tb.Cleanup(func() { sorting = before })
	sorting.requests, sorting.slots, sorting.most, sorting.cache = requests, slots, most, cache
}

// SetSplit has mixed batches from so many requests on done kind by kind.
func SetSplit(tb testing.TB, n int) {
	before := splitFrom
	tb.Cleanup(func() { splitFrom = before })
	splitFrom = n
}

// SetReserving switches off that Run makes arenas before it starts a batch.
func SetReserving(tb testing.TB, on bool) {
	before := reserving
	tb.Cleanup(func() { reserving = before })
	reserving = on
}

// SetChunk has OnDevice take so many keys at a time.
func SetChunk(tb testing.TB, keys int) {
	before := chunk
	tb.Cleanup(func() { chunk = before })
	chunk = keys
}

// SetLeastArena sets log2 of the slabs of a small table's first arena.
func SetLeastArena(tb testing.TB, log2 int) {
	before := leastArena
	tb.Cleanup(func() { leastArena = before })
	leastArena = log2
}

// KeyOf gives the key with a hash.
func KeyOf[K Key](hash K) K { return unmix(hash) }

// Mix is the hash.
func Mix[K Key](key K) K { return mix(key) }

// Shape gives a Local's buckets, slots of deleted pairs, and slabs behind the buckets' first ones.
func (l *Local[K]) Shape() (buckets, dead, slabs int) {
	c := l.core.counters
	c.settle()
	return int(l.core.buckets), c.dead, int(c.fresh - c.listed)
}

// Shape is that of Local.
func (d *OnDevice[K]) Shape() (buckets, dead, slabs int) {
	return d.table.buckets, d.counts.Dead, d.counts.Slabs
}
