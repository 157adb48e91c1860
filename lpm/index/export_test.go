package index

import "testing"

// WeakHash leaves only some bits of the hashes of IPv6 prefixes, for the time of a test.
func WeakHash(tb testing.TB, bits uint64) {
	was := hashed
	hashed = bits
	tb.Cleanup(func() { hashed = was })
}
