package api

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// state collects the metrics that are read off the service when they are asked for.
type state struct{ api *API }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ribwarp_"+name, help, labels, nil)
}

var (
	descBuild       = desc("build_info", "Always 1; the labels say what was built.", "version", "commit", "date", "goversion", "engine")
	descReady       = desc("ready", "1 if lookups are answered from all awaited sources, else 0.")
	descGeneration  = desc("generation_number", "Number of the newest generation, 0 before the first.")
	descAge         = desc("generation_age_seconds", "Time since the newest generation was published.")
	descRoutes      = desc("routes", "Routes in the newest generation.", "family")
	descTableBytes  = desc("table_bytes", "Memory of the newest generation's table.", "family")
	descHeld        = desc("held_generations", "Generations kept for listings of routes that may go on.")
	descPeers       = desc("peers", "Peers by state.", "state")
	descPeerRoutes  = desc("peer_routes", "Routes in a peer's Adj-RIB-In.", "peer", "family")
	descPubGens     = desc("publisher_generations_total", "Generations published.")
	descPubChanges  = desc("publisher_changes_total", "Prefixes changed in all generations together.")
	descPubFailures = desc("publisher_failures_total", "Builds that failed; the generation before stayed.")
	descPubPending  = desc("publisher_pending_changes", "Prefixes changed and not yet visible.")
	descPubLast     = desc("publisher_last_changes", "Prefixes changed in the newest generation.")
	descPubBuild    = desc("publisher_last_build_seconds", "Engine time of the newest generation.")
	descPubLatency  = desc("publisher_last_latency_seconds", "Oldest change in the newest generation, from received to visible.")
)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBuild, descReady, descGeneration, descAge, descRoutes, descTableBytes, descHeld, descPeers, descPeerRoutes,
		descPubGens, descPubChanges, descPubFailures, descPubPending, descPubLast, descPubBuild, descPubLatency,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) { send(d, prometheus.GaugeValue, v, labels...) }

	b := s.api.deps.Build
	gauge(descBuild, 1, b.Version, b.Commit, b.Date, runtime.Version(), s.api.deps.EngineName)
	ready := 0.0
	if ok, _ := s.api.ready(); ok {
		ready = 1
	}
	gauge(descReady, ready)
	s.generation(gauge)
	gauge(descHeld, float64(s.api.held.count()))
	s.peers(gauge)
	if s.api.deps.PublisherStats != nil {
		p := s.api.deps.PublisherStats()
		send(descPubGens, prometheus.CounterValue, float64(p.Generations))
		send(descPubChanges, prometheus.CounterValue, float64(p.Changes))
		send(descPubFailures, prometheus.CounterValue, float64(p.Failures))
		gauge(descPubPending, float64(p.Pending))
		gauge(descPubLast, float64(p.LastChanges))
		gauge(descPubBuild, p.LastBuild.Seconds())
		gauge(descPubLatency, p.LastLatency.Seconds())
	}
}

func (s *state) generation(gauge func(*prometheus.Desc, float64, ...string)) {
	g := s.api.deps.Generations.Acquire()
	if g == nil {
		gauge(descGeneration, 0)
		gauge(descRoutes, 0, "ipv4")
		gauge(descRoutes, 0, "ipv6")
		return
	}
	defer g.Release()
	gauge(descGeneration, float64(g.Number))
	gauge(descAge, time.Since(g.Created).Seconds())
	gauge(descRoutes, float64(g.V4), "ipv4")
	gauge(descRoutes, float64(g.V6), "ipv6")
	for _, f := range s.api.tables.of(g).Families {
		gauge(descTableBytes, float64(f.Bytes), f.Family)
	}
}

// peers counts peers by state, those states that none is in among them.
func (s *state) peers(gauge func(*prometheus.Desc, float64, ...string)) {
	states := map[string]int{"established": 0, "loading": 0, "loaded": 0, "down": 0}
	if s.api.deps.Peers != nil {
		for _, p := range s.api.deps.Peers() {
			states[p.State]++
			name := strings.ToValidUTF8(p.Name, "\ufffd") // a label must be UTF-8
			gauge(descPeerRoutes, float64(p.V4), name, "ipv4")
			gauge(descPeerRoutes, float64(p.V6), name, "ipv6")
		}
	}
	for state, n := range states {
		gauge(descPeers, float64(n), state)
	}
}
