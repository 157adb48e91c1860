package lpm

import "time"

// SetClock gives a Failover another clock.
func SetClock(f *Failover, now func() time.Time) { f.now = now }

// CrossoverAt is Crossover with another clock.
func CrossoverAt(base, accelerated Table, addrs []uint32, most time.Duration, now func() time.Time) (int, error) {
	return crossover(base, accelerated, addrs, most, now)
}
