package lpm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// timed is a table whose lookups take time on a clock: so much a batch and so much an address.
type timed struct {
	lpm.Table
	clock      *clock
	batch, one time.Duration
	err        error
	asked      int
}

func (t *timed) Lookup4(_ []lpm.Handle, addrs []uint32) error {
	t.asked++
	t.clock.pass(t.batch + time.Duration(len(addrs))*t.one)
	return t.err
}

func TestCrossover(t *testing.T) {
	addrs := make([]uint32, 1<<20)
	for _, x := range []struct {
		name             string
		base, one, batch time.Duration
		most             time.Duration
		want             int
	}{
		{"30 us a batch against 4 ns an address", 4, 0, 30 * time.Microsecond, time.Minute, 8192},
		{"faster from the first", 4, 1, 0, time.Minute, 1},
		{"never", 4, 4, 100, time.Minute, lpm.Never},
		{"a tie is not faster", 4, 4, 0, time.Minute, lpm.Never},
		{"never in batches that are worth it", 4, 3, 10 * time.Millisecond, time.Minute, lpm.Never},
		{"no time to look further down", 400, 0, 30 * time.Microsecond, 1, 1 << 20},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &clock{}
			base, acc := &timed{clock: c, one: x.base}, &timed{clock: c, one: x.one, batch: x.batch}
			got, err := lpm.CrossoverAt(base, acc, addrs, x.most, c.now)
			if err != nil || got != x.want {
				t.Errorf("crossover %d, want %d (error %v)", got, x.want, err)
			}
		})
	}
}

func TestCrossoverOfNoAddresses(t *testing.T) {
	if n, err := lpm.CrossoverAt(&timed{}, &timed{}, nil, time.Second, time.Now); err == nil || n != lpm.Never {
		t.Errorf("crossover %d, error %v", n, err)
	}
}

func TestCrossoverOfATableThatFails(t *testing.T) {
	c := &clock{}
	broken := errors.New("broken")
	if n, err := lpm.CrossoverAt(&timed{clock: c}, &timed{clock: c, err: broken}, make([]uint32, 8), time.Second, c.now); !errors.Is(err, broken) || n != lpm.Never {
		t.Errorf("crossover %d, error %v", n, err)
	}
}
