package heap

import "testing"

// set changes a variable for the time of a test.
func set[T any](tb testing.TB, p *T, value T) {
	before := *p
	tb.Cleanup(func() { *p = before })
	*p = value
}
