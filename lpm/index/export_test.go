package index

import (
	"runtime"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// WeakHash leaves only some bits of the hashes of IPv6 prefixes, for the time of a test.
func WeakHash(tb testing.TB, bits uint64) {
	was := hashed
	hashed = bits
	tb.Cleanup(func() { hashed = was })
}

// SetLog sets how many routes of changes are kept, and how many an update catches up.
func SetLog(tb testing.TB, longest, wait int) {
	log, waited := longestLog, longestWait
	tb.Cleanup(func() { longestLog, longestWait = log, waited })
	longestLog, longestWait = longest, wait
}

// Indexed tells whether a table has an index.
func Indexed(t lpm.Table) bool { return t.(*table).copy.Load() != nil }

// Settle waits for what is done in the background.
func Settle(t lpm.Table) {
	l := t.(*table).line
	for busy := true; busy; runtime.Gosched() {
		l.mu.Lock()
		busy = l.tended
		l.mu.Unlock()
	}
}

// State gives the number of copies and of logged routes.
func State(t lpm.Table) (copies, logged int) {
	l := t.(*table).line
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, changes := range l.log {
		n += changes.Len()
	}
	if n != l.logged {
		panic("the log is counted wrongly")
	}
	return len(l.copies), n
}
