package api

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/rib"
)

// state collects the metrics that are read off the service when they are asked for.
type state struct{ api *API }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ribwarp_"+name, help, labels, nil)
}

const familyLabel, peerLabel = "family", "peer"

var (
	descBuild       = desc("build_info", "Always 1; the labels say what was built.", "version", "commit", "date", "goversion", "engine")
	descReady       = desc("ready", "1 if lookups are answered from all awaited sources of all tables and the service is not about to end, else 0.")
	descTableReady  = desc("table_ready", "1 if lookups in the table are answered from all its awaited sources, else 0.", tableParameter)
	descGeneration  = desc("generation_number", "Number of the newest generation, 0 before the first.", tableParameter)
	descAge         = desc("generation_age_seconds", "Time since the newest generation was published.", tableParameter)
	descRoutes      = desc("routes", "Routes in the newest generation.", tableParameter, familyLabel)
	descTableBytes  = desc("table_bytes", "Memory of the newest generation's table.", tableParameter, familyLabel)
	descHeld        = desc("held_generations", "Generations kept for listings of routes that may go on.", tableParameter)
	descPeers       = desc("peers", "Peers by state.", tableParameter, "state")
	descPeerRoutes  = desc("peer_routes", "Routes in a peer's Adj-RIB-In.", tableParameter, peerLabel, familyLabel)
	descPeerStale   = desc("peer_stale_routes", "Of them, those kept of a lost session or a saved generation.", tableParameter, peerLabel, familyLabel)
	descPeerReject  = desc("peer_rejected_routes", "Of them, those that are not chosen, by reason.", tableParameter, peerLabel, "reason")
	descPubGens     = desc("publisher_generations_total", "Generations published.", tableParameter)
	descPubChanges  = desc("publisher_changes_total", "Prefixes changed in all generations together.", tableParameter)
	descPubFailures = desc("publisher_failures_total", "Builds that failed; the generation before stayed.", tableParameter)
	descPubPending  = desc("publisher_pending_changes", "Prefixes changed and not yet visible.", tableParameter)
	descPubLast     = desc("publisher_last_changes", "Prefixes changed in the newest generation.", tableParameter)
	descPubBuild    = desc("publisher_last_build_seconds", "Engine time of the newest generation.", tableParameter)
	descPubLatency  = desc("publisher_last_latency_seconds", "Oldest change in the newest generation, from received to visible.", tableParameter)
)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBuild, descReady, descTableReady, descGeneration, descAge, descRoutes, descTableBytes, descHeld,
		descPeers, descPeerRoutes, descPeerStale, descPeerReject,
		descPubGens, descPubChanges, descPubFailures, descPubPending, descPubLast, descPubBuild, descPubLatency,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	b := s.api.deps.Build
	gauge(descBuild, 1, b.Version, b.Commit, b.Date, runtime.Version(), s.api.deps.EngineName)
	ok, _ := s.api.ready()
	gauge(descReady, number01(ok && !s.api.admission.draining.Load()))
	for _, v := range s.api.views() {
		v.collect(func(d *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, n, append([]string{v.name}, labels...)...)
		})
	}
}

func number01(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// collect sends the metrics of a table; send puts its name in front of the labels.
func (v *view) collect(send func(d *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string)) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) { send(d, prometheus.GaugeValue, n, labels...) }
	ok, _ := v.isReady()
	gauge(descTableReady, number01(ok))
	v.collectGeneration(gauge)
	gauge(descHeld, float64(v.held.count()))
	v.collectPeers(gauge)
	if v.stats != nil {
		p := v.stats()
		send(descPubGens, prometheus.CounterValue, float64(p.Generations))
		send(descPubChanges, prometheus.CounterValue, float64(p.Changes))
		send(descPubFailures, prometheus.CounterValue, float64(p.Failures))
		gauge(descPubPending, float64(p.Pending))
		gauge(descPubLast, float64(p.LastChanges))
		gauge(descPubBuild, p.LastBuild.Seconds())
		gauge(descPubLatency, p.LastLatency.Seconds())
	}
}

func (v *view) collectGeneration(gauge func(*prometheus.Desc, float64, ...string)) {
	g := v.generations.Acquire()
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
	for _, f := range v.info.of(g).Families {
		gauge(descTableBytes, float64(f.Bytes), f.Family)
	}
}

// collectPeers counts peers by state, those states that none is in among them. Of reasons why
// routes are not chosen only those that occur are sent: most peers have none.
func (v *view) collectPeers(gauge func(*prometheus.Desc, float64, ...string)) {
	states := map[string]int{"established": 0, "loading": 0, "loaded": 0, "stale": 0, "down": 0}
	for _, p := range v.peerList() {
		states[p.State]++
		name := strings.ToValidUTF8(p.Name, "\ufffd") // a label must be UTF-8
		gauge(descPeerRoutes, float64(p.V4), name, "ipv4")
		gauge(descPeerRoutes, float64(p.V6), name, "ipv6")
		gauge(descPeerStale, float64(p.Stale4), name, "ipv4")
		gauge(descPeerStale, float64(p.Stale6), name, "ipv6")
		for reason, n := range p.Rejected {
			if n > 0 {
				gauge(descPeerReject, float64(n), name, rib.Reject(reason).String())
			}
		}
	}
	for state, n := range states {
		gauge(descPeers, float64(n), state)
	}
}
