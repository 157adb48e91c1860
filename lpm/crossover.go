package lpm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Never is a crossover that no batch reaches.
const Never = math.MaxInt

// Crossover measures from which batch size on the accelerated table answers sooner than the base: a power of
// two up to the number of addresses, or Never. It looks the addresses up, again and again, the
// largest batches first; when after one of the sizes more than `most` has passed, the smallest size
// at which the accelerated table was seen faster counts.
func Crossover[A uint32 | Addr6](base, accelerated Table, addrs []A, most time.Duration) (int, error) {
	return crossover(base, accelerated, addrs, most, time.Now)
}

func crossover[A uint32 | Addr6](base, accelerated Table, addrs []A, most time.Duration, now func() time.Time) (int, error) {
	const runs = 5
	dst := make([]Handle, len(addrs))
	median := func(t Table, n int) (time.Duration, error) {
		var times [runs]time.Duration
		for i := range times {
			from := i * n % (len(addrs) - n + 1) // not what the caches just saw, where there is room
			start := now()
			if err := lookup(t, dst[:n], addrs[from:from+n]); err != nil {
				return 0, fmt.Errorf("measure batches of %d: %w", n, err)
			}
			times[i] = now().Sub(start)
		}
		slices.Sort(times[:])
		return times[runs/2], nil
	}
	if len(addrs) == 0 {
		return Never, errors.New("measure batches: no addresses to look up")
	}
	best := Never
	n := 1
	for 2*n <= len(addrs) {
		n *= 2
	}
	// The first batch of a size may make buffers, and the first of all wakes the device.
	if err := lookup(accelerated, dst[:n], addrs[:n]); err != nil {
		return Never, fmt.Errorf("measure batches of %d: %w", n, err)
	}
	for end := now().Add(most); n >= 1; n /= 2 {
		a, err := median(accelerated, n)
		if err != nil {
			return Never, err
		}
		b, err := median(base, n)
		if err != nil {
			return Never, err
		}
		if a >= b {
			break
		}
		best = n
		if now().After(end) {
			break
		}
	}
	return best, nil
}

// lookup asks a table of either family.
func lookup[A uint32 | Addr6](t Table, dst []Handle, addrs []A) error {
	switch a := any(addrs).(type) {
	case []uint32:
		return t.Lookup4(dst, a)
	case []Addr6:
		return t.Lookup6(dst, a)
	}
	panic("unreachable")
}
