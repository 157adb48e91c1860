package api

import (
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ribwarp/ribwarp/lpm"
)

// metrics are what requests count. What is only read when asked for is in state.
type metrics struct {
	lookups  *lookupCounters // of addresses
	finds    *lookupCounters // of prefixes
	panics   prometheus.Counter
	aborted  [abortReasons]prometheus.Counter
	requests *prometheus.HistogramVec
	ok       map[string]prometheus.Observer // of requests, by route, for code 200
	load     load                           // for the series
}

// Reasons why an answer was broken off.
const (
	abortClient  = iota // the client sent half a body, or went away
	abortTimeout        // the client made no progress
	abortTable          // the table could not be searched
	abortReasons
)

// newMetrics registers everything.
func newMetrics(a *API) *metrics {
	m := &metrics{
		lookups: newLookupCounters("ribwarp_lookups_total", "Addresses looked up, by address family (none if it was not an address), result (hit, miss, invalid) and endpoint (single, json, stream)."),
		finds:   newLookupCounters("ribwarp_finds_total", "Prefixes asked for exactly, by address family (none if it was not a prefix), result (hit, miss, invalid) and endpoint (single, json, stream)."),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ribwarp_http_panics_total",
			Help: "HTTP requests whose handler panicked.",
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ribwarp_http_request_duration_seconds",
			Help:    "Time from the header of an HTTP request to the end of its answer, by route and status code.",
			Buckets: []float64{20e-6, 50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, 100e-3, 500e-3, 2.5, 10, 60},
		}, []string{"route", "code"}),
		ok: make(map[string]prometheus.Observer),
	}
	aborted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ribwarp_http_aborted_total",
		Help: "HTTP requests that were broken off, by reason: the client sent half a body or went away, it made no progress, or the table could not be searched.",
	}, []string{"reason"})
	for i, reason := range [abortReasons]string{"client", "timeout", "table"} {
		m.aborted[i] = aborted.WithLabelValues(reason)
	}
	for _, route := range []string{"/api/v1/lookup/:ip", "/api/v1/lookup", "/api/v1/routes/*prefix", "/api/v1/routes"} {
		m.ok[route] = m.requests.WithLabelValues(route, "200")
	}
	a.deps.Metrics.MustRegister(
		m.lookups, m.finds, m.panics, aborted, m.requests, a.admission, &state{a},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// request counts one request. route is its template, empty where no route matched.
func (m *metrics) request(route string, code int, took time.Duration) {
	m.load.observe(route, code, took)
	if code == http.StatusOK {
		if o := m.ok[route]; o != nil {
			o.Observe(took.Seconds())
			return
		}
	}
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Observe(took.Seconds())
}

// endpoint tells the ways to ask for lookups apart.
type endpoint int

const (
	endpointSingle endpoint = iota
	endpointJSON
	endpointStream
	endpoints
)

var endpointNames = [endpoints]string{"single", "json", "stream"}

// A lookupTally counts lookups.
type lookupTally struct{ hit4, miss4, hit6, miss6, invalid uint64 }

func (t *lookupTally) add(is4, hit bool) {
	switch {
	case is4 && hit:
		t.hit4++
	case is4:
		t.miss4++
	case hit:
		t.hit6++
	default:
		t.miss6++
	}
}

// count adds those that were found with these handles.
func (t *lookupTally) count(is4 bool, found []lpm.Handle) {
	misses := uint64(0)
	for _, h := range found {
		if h == lpm.None {
			misses++
		}
	}
	hits := uint64(len(found)) - misses
	if is4 {
		t.hit4, t.miss4 = t.hit4+hits, t.miss4+misses
	} else {
		t.hit6, t.miss6 = t.hit6+hits, t.miss6+misses
	}
}

// lookupCounts is one shard of the counters of lookups.
type lookupCounts struct {
	of [endpoints]struct{ hit4, miss4, hit6, miss6, invalid atomic.Uint64 }
	_  [64]byte // keeps shards out of each other's cache lines
}

func (l *lookupCounts) add(e endpoint, is4, hit bool) {
	of := &l.of[e]
	switch {
	case is4 && hit:
		of.hit4.Add(1)
	case is4:
		of.miss4.Add(1)
	case hit:
		of.hit6.Add(1)
	default:
		of.miss6.Add(1)
	}
}

func (l *lookupCounts) invalid(e endpoint) { l.of[e].invalid.Add(1) }

func (l *lookupCounts) addTally(e endpoint, t lookupTally) {
	of := &l.of[e]
	of.hit4.Add(t.hit4)
	of.miss4.Add(t.miss4)
	of.hit6.Add(t.hit6)
	of.miss6.Add(t.miss6)
	of.invalid.Add(t.invalid)
}

// lookupCounters is a metric of lookups, or of finds. Whatever counts many is pooled, and a pool
// keeps its objects by processor: each object has one shard, so processors seldom share a counter.
type lookupCounters struct {
	shards []lookupCounts
	given  atomic.Uint32
	desc   *prometheus.Desc
}

func newLookupCounters(name, help string) *lookupCounters {
	return &lookupCounters{
		shards: make([]lookupCounts, runtime.GOMAXPROCS(0)),
		desc:   prometheus.NewDesc(name, help, []string{"family", "result", "endpoint"}, nil),
	}
}

// shard gives one of the shards, in turn.
func (l *lookupCounters) shard() *lookupCounts {
	return &l.shards[int(l.given.Add(1))%len(l.shards)]
}

// Describe implements prometheus.Collector.
func (l *lookupCounters) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// total counts those that were asked for, hits and misses.
func (l *lookupCounters) total() (n uint64) {
	for i := range l.shards {
		for e := range l.shards[i].of {
			of := &l.shards[i].of[e]
			n += of.hit4.Load() + of.miss4.Load() + of.hit6.Load() + of.miss6.Load()
		}
	}
	return n
}

// Collect implements prometheus.Collector.
func (l *lookupCounters) Collect(ch chan<- prometheus.Metric) {
	for e, name := range endpointNames {
		var t lookupTally
		for i := range l.shards {
			of := &l.shards[i].of[e]
			t.hit4 += of.hit4.Load()
			t.miss4 += of.miss4.Load()
			t.hit6 += of.hit6.Load()
			t.miss6 += of.miss6.Load()
			t.invalid += of.invalid.Load()
		}
		send := func(n uint64, family, result string) {
			ch <- prometheus.MustNewConstMetric(l.desc, prometheus.CounterValue, float64(n), family, result, name)
		}
		send(t.hit4, "ipv4", "hit")
		send(t.miss4, "ipv4", "miss")
		send(t.hit6, "ipv6", "hit")
		send(t.miss6, "ipv6", "miss")
		send(t.invalid, "none", "invalid")
	}
}
