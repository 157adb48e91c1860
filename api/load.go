package api

import (
	"math"
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"
)

// load counts requests, and how long those for one address or prefix took: the time of a stream is
// its client's.
type load struct {
	requests atomic.Uint64
	took     durations
}

func (l *load) observe(route string, code int, took time.Duration) {
	l.requests.Add(1)
	switch route {
	case "/api/v1/lookup/:ip", "/api/v1/routes/*prefix":
		if code < http.StatusInternalServerError && code != http.StatusTooManyRequests { // a refusal is no answer
			l.took.add(took)
		}
	}
}

// Durations are counted in buckets that are an eighth of a power of two wide, so that a quantile is
// off by 6 % at most, from a microsecond to a minute.
const (
	durationParts  = 8
	shortestPower  = 10 // 2^10 ns
	longestPower   = 36 // 2^36 ns: 69 s
	durationsCount = (longestPower - shortestPower) * durationParts
)

type durations [durationsCount]atomic.Uint64

// durationCounts are durations as they were at one moment.
type durationCounts [durationsCount]uint64

func (d *durations) add(took time.Duration) { d[durationBucket(took)].Add(1) }

func (d *durations) read(into *durationCounts) {
	for i := range d {
		into[i] = d[i].Load()
	}
}

func durationBucket(took time.Duration) int {
	ns := uint64(max(took, 0))
	power := bits.Len64(ns) - 1
	switch {
	case power < shortestPower:
		return 0
	case power >= longestPower:
		return durationsCount - 1
	}
	part := ns >> (power - 3) & (durationParts - 1)
	return (power-shortestPower)*durationParts + int(part)
}

// bucketMiddle is the middle of a bucket in seconds.
func bucketMiddle(i int) float64 {
	width := math.Ldexp(1, i/durationParts+shortestPower-3)
	return (float64(durationParts+i%durationParts) + 0.5) * width / 1e9
}

// quantile gives the duration in seconds that the part q of all is not above; NaN for none.
func (d *durationCounts) quantile(q float64) float64 {
	var all uint64
	for _, n := range d {
		all += n
	}
	if all == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(all)))
	for i, n := range d {
		if n >= rank {
			return bucketMiddle(i)
		}
		rank -= n
	}
	return bucketMiddle(durationsCount - 1) // rank is all at most: cannot be
}
