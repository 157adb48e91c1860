package rib

// HandlesInUse is the number of destinations that the RIB keeps.
func HandlesInUse(r *RIB) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.dests.next) - 1 - len(r.dests.free)
}
