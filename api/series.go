package api

import (
	"os"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Figures over time are kept in two steps: what happened a moment ago in seconds, a day in minutes.
// A table's take 100 KB once they are full, those of the whole service as much.
var seriesSpans = [...]seriesSpan{
	{name: "10m", step: time.Second, samples: 600},
	{name: "24h", step: time.Minute, samples: 1440},
}

// A seriesSpan is how far back a series goes.
type seriesSpan struct {
	name    string
	step    time.Duration
	samples int // at most
}

// A ring keeps the newest samples of a series. S may hold no pointers that keep much alive.
type ring[S any] struct {
	most    int
	samples []S // in order up to most, then the oldest is at first
	first   int
}

// add takes one more sample, the place of the oldest one where there are enough.
func (r *ring[S]) add(s S) {
	if len(r.samples) < r.most {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.first] = s
	r.first = (r.first + 1) % r.most
}

// behind gives the samples from the first one on for which after holds, in order.
func (r *ring[S]) behind(after func(S) bool) []S {
	out := make([]S, 0, len(r.samples))
	for i := range r.samples {
		s := r.samples[(r.first+i)%len(r.samples)]
		if len(out) > 0 || after(s) {
			out = append(out, s)
		}
	}
	return out
}

// A reading is what is counted at a moment: R by pointer. S is what becomes of two of them.
type reading[R, S any] interface {
	*R
	// sample makes the sample of the time since from; held is the last result of peak in it.
	sample(from *R, at time.Time, elapsed time.Duration, held S) S
	// peak takes into held what of a reading counts though a later one no longer has it.
	peak(held S) S
}

// A history is one series for each span. The zero value is empty. Not safe for concurrent use.
type history[R, S any, P reading[R, S]] struct {
	spans [len(seriesSpans)]struct {
		ring  ring[S]
		since time.Time
		start R // the reading at since
		held  S
	}
}

// observe takes a reading. The first one only begins the history.
func (h *history[R, S, P]) observe(now time.Time, r *R) {
	for i := range h.spans {
		s, span := &h.spans[i], seriesSpans[i]
		if s.since.IsZero() {
			s.ring.most, s.since, s.start = span.samples, now, *r
			continue
		}
		s.held = P(r).peak(s.held)
		elapsed := now.Sub(s.since)
		if elapsed < span.step-seriesSpans[0].step/2 { // half a tick early is in time
			continue
		}
		s.ring.add(P(r).sample(&s.start, now, elapsed, s.held))
		var none S
		s.since, s.start, s.held = now, *r, none
	}
}

// rate is how many a second a counter went up. One that went down belongs to something new (a peer
// that was removed): that counts as nothing.
func rate(from, to uint64, elapsed time.Duration) float32 {
	if to < from || elapsed <= 0 {
		return 0
	}
	return float32(float64(to-from) / elapsed.Seconds())
}

// A serviceReading is what the service has counted since its start, and what it takes.
type serviceReading struct {
	lookups, finds, requests uint64
	took                     durationCounts
	memory                   uint64
}

// A serviceSample is a step of the service's series.
type serviceSample struct {
	at                       int64 // Unix time in milliseconds: the end of the step
	lookups, finds, requests float32
	p50, p99                 float32 // seconds, NaN where nothing was asked
	memory                   uint64
}

func (r *serviceReading) sample(from *serviceReading, at time.Time, elapsed time.Duration, _ serviceSample) serviceSample {
	var took durationCounts
	for i := range took {
		took[i] = r.took[i] - from.took[i]
	}
	return serviceSample{
		at:       at.UnixMilli(),
		lookups:  rate(from.lookups, r.lookups, elapsed),
		finds:    rate(from.finds, r.finds, elapsed),
		requests: rate(from.requests, r.requests, elapsed),
		p50:      float32(took.quantile(0.5)),
		p99:      float32(took.quantile(0.99)),
		memory:   r.memory,
	}
}

func (r *serviceReading) peak(held serviceSample) serviceSample { return held }

// A tableReading is the same of a table.
type tableReading struct {
	routes           families
	updates, changes uint64
	generations      uint64
	build, latency   time.Duration // of the newest generation
	age              time.Duration // of it
}

// A tableSample is a step of a table's series. Build, latency and age are the highest of the step.
type tableSample struct {
	at                            int64
	routes4, routes6              int32
	updates, changes, generations float32
	build, latency, age           float32 // seconds
}

func (r *tableReading) sample(from *tableReading, at time.Time, elapsed time.Duration, held tableSample) tableSample {
	held.at = at.UnixMilli()
	held.routes4, held.routes6 = int32(r.routes.IPv4), int32(r.routes.IPv6)
	held.updates = rate(from.updates, r.updates, elapsed)
	held.changes = rate(from.changes, r.changes, elapsed)
	held.generations = rate(from.generations, r.generations, elapsed)
	return held
}

func (r *tableReading) peak(held tableSample) tableSample {
	held.build = max(held.build, float32(r.build.Seconds()))
	held.latency = max(held.latency, float32(r.latency.Seconds()))
	held.age = max(held.age, float32(r.age.Seconds()))
	return held
}

// series keeps the service's figures over time. Those of a table are in its view.
type series struct {
	mu      sync.Mutex
	service history[serviceReading, serviceSample, *serviceReading]
	timer   *time.Timer
	closed  bool
}

// tableSeries is the same for a table.
type tableSeries struct {
	mu   sync.Mutex
	past history[tableReading, tableSample, *tableReading]
}

// start takes a reading every second from now on, until close. There is no goroutine in between.
func (s *series) start(a *API) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(0, func() {
		a.sample(time.Now())
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.timer.Reset(seriesSpans[0].step)
		}
	})
}

func (s *series) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
}

// sample takes a reading of everything. It costs some microseconds a table, and one a peer.
func (a *API) sample(now time.Time) {
	r := serviceReading{
		lookups:  a.metrics.lookups.total(),
		finds:    a.metrics.finds.total(),
		requests: a.metrics.load.requests.Load(),
		memory:   residentMemory(),
	}
	a.metrics.load.took.read(&r.took)
	a.series.mu.Lock()
	a.series.service.observe(now, &r)
	a.series.mu.Unlock()
	for _, v := range a.views() {
		v.sample(now)
	}
}

func (v *view) sample(now time.Time) {
	var r tableReading
	for _, p := range v.peerList() {
		r.updates += p.Updates
	}
	if v.stats != nil {
		p := v.stats()
		r.changes, r.generations, r.build, r.latency = p.Changes, p.Generations, p.LastBuild, p.LastLatency
	}
	if g := v.generations.Acquire(); g != nil {
		r.routes, r.age = families{g.V4, g.V6}, now.Sub(g.Created)
		g.Release()
	}
	s := &v.series
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.observe(now, &r)
}

// residentMemory is what the process holds of the machine's memory in bytes. Where the system does
// not tell it is what the Go runtime has taken, in which mapped tables are missing.
func residentMemory() uint64 {
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				return pages * uint64(os.Getpagesize())
			}
		}
	}
	s := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64()
}
