package dynamic

import "testing"

// SetSort has batches sorted from n requests on, in maps beyond a part of the second-level cache, for the
// time of a test.
func SetSort(tb testing.TB, n int, part float64) {
	wasMin, was := minSort, beyond
	minSort, beyond = n, part
	tb.Cleanup(func() { minSort, beyond = wasMin, was })
}

// SetRetrieveBlocks bounds the blocks of a multiprocessor that RetrieveAll launches, for the time of a test.
func SetRetrieveBlocks(tb testing.TB, n int) {
	was := retrieveBlocks
	retrieveBlocks = n
	tb.Cleanup(func() { retrieveBlocks = was })
}

// Used gives the used slots of every submap, those of erased pairs included.
func (m *Map) Used() (used []int) {
	for _, s := range m.sizes.maps {
		used = append(used, int(s.used))
	}
	return used
}

// Mix and Unmix are the hash and its inverse.
func Mix(h uint64) uint64   { return mix(h) }
func Unmix(h uint64) uint64 { return unmix(h) }

// SectorAt is the sector of a submap at a step of a hash's way.
func SectorAt(h, sectors, step uint64) uint64 { return sectorAt(h, sectors, step) }
