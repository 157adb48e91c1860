package tune

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
)

// A Meter measures lookups in trees of one table. It is not for concurrent use.
type Meter interface {
	// Time gives the shortest nanoseconds a lookup that were seen in trees of the given strides, in this call and
	// those before. The tree is built for it and gone afterwards.
	Time(strides []int) (ns float64, err error)
}

var errNoKeys = errors.New("measure lookups: there are no keys")

const (
	// passes is how often a Meter goes through its keys.
	passes = 5
	// batch is how many keys a CPU meter looks up in a call, as ribwarp bench does by default.
	batch = 4096
	// part is how many batches it times together. What disturbs makes a time longer, and is over soon: of each part's
	// times, in all rounds, the shortest counts.
	part = 16
)

// cpuMeter looks keys up on one thread.
type cpuMeter struct {
	width  int
	flavor flavors.Flavor
	sorted *flavors.Sorted
	keys4  []uint32
	keys6  []flavors.Key
	// shortest are times by list, one for each part of the keys.
	shortest map[string][]time.Duration
}

// NewCPUMeter makes a meter of trees of sorted masks on this processor. keys should be a few million, so that
// neither caches nor branch predictors know them; of a 32-bit tree their first 32 bits count.
func NewCPUMeter(width int, s *flavors.Sorted, f flavors.Flavor, keys []flavors.Key) Meter {
	m := &cpuMeter{width: width, flavor: f, sorted: s, keys6: keys, shortest: map[string][]time.Duration{}}
	if width == 32 {
		m.keys4, m.keys6 = make([]uint32, len(keys)), nil
		for i, k := range keys {
			m.keys4[i] = uint32(k.Hi >> 32)
		}
	}
	return m
}

func (m *cpuMeter) Time(strides []int) (float64, error) {
	st, err := flavors.NewStrides(m.width, strides)
	if err != nil {
		return 0, err
	}
	im, err := flavors.BuildMasks(st, m.sorted, m.flavor)
	if err != nil {
		return 0, err
	}
	t := flavors.TreeOf(im, m.flavor)
	n := max(len(m.keys4), len(m.keys6))
	if n == 0 {
		return 0, errNoKeys
	}
	dst := make([]lpm.Handle, batch)
	// What the thread itself computes: on a busy machine the time that others had does not count.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	list := flavors.FormatStrides(strides)
	shortest := m.shortest[list]
	if shortest == nil {
		shortest = make([]time.Duration, (n+part*batch-1)/(part*batch))
		for p := range shortest {
			shortest[p] = math.MaxInt64
		}
		m.shortest[list] = shortest
	}
	for range passes {
		for p := range shortest {
			end := min((p+1)*part*batch, n)
			start := threadTime()
			for at := p * part * batch; at < end; at += batch {
				to := min(at+batch, end)
				if m.keys4 != nil {
					t.Match4(dst[:to-at], m.keys4[at:to])
				} else {
					t.Match(dst[:to-at], m.keys6[at:to])
				}
			}
			shortest[p] = min(shortest[p], threadTime()-start)
		}
	}
	sum := time.Duration(0)
	for _, took := range shortest {
		sum += took
	}
	return float64(sum.Nanoseconds()) / float64(n), nil
}

// Draw makes n random keys, as they are looked up. s must have a mask.
func (k Keys) Draw(width int, s *flavors.Sorted, n int, seed uint64) []flavors.Key {
	r := rand.New(rand.NewPCG(seed, uint64(width)))
	keys := make([]flavors.Key, n)
	for i := range keys {
		random := clip(flavors.Key{Hi: r.Uint64(), Lo: r.Uint64()}, width)
		switch {
		case k.sample != nil:
			keys[i] = k.sample[r.IntN(len(k.sample))]
		case k.uniform:
			keys[i] = random
		default:
			m := r.IntN(s.Len())
			mask, length := flavors.Key{Hi: s.Hi[m]}, int(s.Bits[m])
			if s.Lo != nil {
				mask.Lo = s.Lo[m]
			}
			begin := clip(random, length)
			keys[i] = flavors.Key{Hi: mask.Hi | random.Hi&^begin.Hi, Lo: mask.Lo | random.Lo&^begin.Lo}
		}
	}
	return keys
}
