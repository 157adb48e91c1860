package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/bmp"
	"github.com/ribwarp/ribwarp/rib/snapshot"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// serviceMetrics gives the counters of a service's parts to Prometheus, read anew at every scrape.
type serviceMetrics struct{ service *service }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ribwarp_"+name, help, labels, nil)
}

var (
	updatesDesc         = desc("bgp_updates_total", "UPDATE messages of a peer, by what became of them (RFC 7606).", "peer", "verdict")
	bytesDesc           = desc("bgp_received_bytes_total", "Bytes of all messages of a peer.", "peer")
	establishedDesc     = desc("bgp_sessions_established_total", "Sessions that were established with a peer.", "peer")
	lostDesc            = desc("bgp_sessions_lost_total", "Established sessions that ended.", "peer")
	linkStateDesc       = desc("bgp_link_state_objects", "Nodes, links and prefixes that a peer has announced over BGP-LS.", "peer")
	linkStateStaleDesc  = desc("bgp_link_state_stale_objects", "Of them, those kept of a lost session.", "peer")
	linkStateBadDesc    = desc("bgp_link_state_discarded_total", "NLRIs and attributes of BGP-LS that were left out: malformed, or too many.", "peer")
	upDesc              = desc("bgp_session_up", "Whether the session is established.", "peer")
	panicsDesc          = desc("bgp_decoder_panics_total", "Messages that broke the decoder, which went on.", "peer")
	ignoredDesc         = desc("bgp_ignored_families_total", "Parts of UPDATEs about address families that are not kept.", "peer")
	collisionsDesc      = desc("bgp_collisions_total", "Connections of a peer that were closed for a better one.", "peer")
	exceededDesc        = desc("bgp_max_prefix_exceeded_total", "Sessions that ended for too many routes.", "peer")
	warnedDesc          = desc("bgp_max_prefix_warnings_total", "Times that a peer came near its most routes.", "peer")
	heavyDesc           = desc("bgp_max_attribute_bytes_exceeded_total", "Sessions that ended for too much memory of path attributes.", "peer")
	attributesDesc      = desc("bgp_attribute_bytes", "Memory of a peer's large sets of path attributes, which max-attribute-bytes bounds.", "peer")
	refreshesDesc       = desc("bgp_refreshes_total", "Times that a peer was asked for all its routes again.", "peer")
	refusedDesc         = desc("bgp_connections_refused_total", "Connections from addresses that are no peer's.")
	refusedHalfOpenDesc = desc("bgp_half_open_refused_total", "Connections over the bounds of those that are not established.")
	refusedLimitDesc    = desc("bgp_limit_refused_total", "Neighbours over the limit of their prefix.")
	halfOpenDesc        = desc("bgp_half_open", "Connections that are not established.")

	routerUpDesc       = desc("bmp_router_up", "Whether a router is connected.", "router")
	routerConnectsDesc = desc("bmp_connections_total", "Connections of a router.", "router")
	routerLostDesc     = desc("bmp_connections_lost_total", "Connections of a router that ended.", "router")
	routerMessagesDesc = desc("bmp_messages_total", "Messages of a router, by type.", "router", "type")
	routerBytesDesc    = desc("bmp_received_bytes_total", "Bytes of all messages of a router.", "router")
	routerUpdatesDesc  = desc("bmp_updates_total", "UPDATEs in a router's messages, by what became of them (RFC 7606).", "router", "verdict")
	routerIgnoredDesc  = desc("bmp_ignored_messages_total", "Messages that changed no table, by why.", "router", "reason")
	routerDamagedDesc  = desc("bmp_damaged_messages_total", "Messages that could not be read.", "router")
	routerPanicsDesc   = desc("bmp_panics_total", "Messages that broke the decoder, which went on.", "router")
	routerMirrorDesc   = desc("bmp_mirror_lost_total", "Times that a router said that it could not mirror all.", "router")
	bmpRefusedDesc     = desc("bmp_connections_refused_total", "Connections from addresses of no router, or one too many.")
	bmpHalfOpenDesc    = desc("bmp_half_open", "Connections without an Initiation message.")

	sourceUpDesc      = desc("rpki_source_up", "Whether a cache's session is up and its data are complete, or a file could be read.", "source", "kind")
	sourceUsedDesc    = desc("rpki_source_used", "Whether the VRPs of a source count.", "source", "kind")
	sourceVRPsDesc    = desc("rpki_vrps", "VRPs of a source.", "source", "kind")
	sourceUpdatedDesc = desc("rpki_last_update_timestamp_seconds", "When a source's data were last confirmed.", "source", "kind")

	reloadsDesc    = desc("reloads_total", "Reloads of the configuration, by result.", "result")
	reloadGoodDesc = desc("reload_successful", "Whether the last reload was good; 1 before the first.")
	reloadLastDesc = desc("reload_last_success_timestamp_seconds", "When the configuration was read that is in force.")

	savesDesc     = desc("snapshot_saves_total", "Times that the tables were saved.")
	saveFailsDesc = desc("snapshot_failures_total", "Saves that failed; the file before stayed.")
	savedDesc     = desc("snapshot_last_saved_timestamp_seconds", "When the tables were last saved.")
	saveTookDesc  = desc("snapshot_last_duration_seconds", "How long the last save took.")
	saveBytesDesc = desc("snapshot_last_bytes", "Size of the file that was last saved.")
	restoredDesc  = desc("snapshot_restored_routes", "Saved routes at the start, by what became of them.", "fate")
	sweptDesc     = desc("snapshot_swept_peers_total", "Peers whose restored routes were given up.")
)

// Describe sends nothing: what there is depends on the configuration. The names are ours alone.
func (m serviceMetrics) Describe(chan<- *prometheus.Desc) {}

// sender sends metrics.
type sender chan<- prometheus.Metric

func (to sender) counter(d *prometheus.Desc, v uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (to sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to sender) is(d *prometheus.Desc, is bool, labels ...string) {
	v := 0.0
	if is {
		v = 1
	}
	to.gauge(d, v, labels...)
}

func (m serviceMetrics) Collect(ch chan<- prometheus.Metric) {
	to, s := sender(ch), m.service
	if server := s.sessions.Load(); server != nil {
		to.sessions(server.Stats())
	}
	if station := s.station.Load(); station != nil {
		to.station(station.Stats())
	}
	for _, source := range s.vrps.Status() {
		to.is(sourceUpDesc, source.Connected, source.Name, source.Kind)
		to.is(sourceUsedDesc, source.Used, source.Name, source.Kind)
		to.gauge(sourceVRPsDesc, float64(source.VRPs), source.Name, source.Kind)
		if !source.Updated.IsZero() {
			to.gauge(sourceUpdatedDesc, float64(source.Updated.Unix()), source.Name, source.Kind)
		}
	}
	to.igp(s.igp.Status())
	if s.saver != nil {
		to.saver(s.saver.Stats())
	}
	r := &s.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	to.counter(reloadsDesc, r.good, "good")
	to.counter(reloadsDesc, r.failed, "failed")
	to.is(reloadGoodDesc, !r.lastFailed)
	if !r.last.IsZero() {
		to.gauge(reloadLastDesc, float64(r.last.Unix()))
	}
}

func (to sender) sessions(stats bgp.Stats) {
	to.counter(refusedDesc, stats.Refused)
	to.counter(refusedHalfOpenDesc, stats.RefusedHalfOpen)
	to.counter(refusedLimitDesc, stats.RefusedLimit)
	to.gauge(halfOpenDesc, float64(stats.HalfOpen))
	for _, p := range stats.Peers {
		for v, n := range p.Verdicts {
			to.counter(updatesDesc, n, p.Name, wire.Verdict(v).String())
		}
		to.counter(bytesDesc, p.Bytes, p.Name)
		to.counter(establishedDesc, p.Ups, p.Name)
		to.counter(lostDesc, p.Downs, p.Name)
		to.counter(panicsDesc, p.Panics, p.Name)
		to.counter(ignoredDesc, p.Ignored, p.Name)
		to.counter(collisionsDesc, p.Collisions, p.Name)
		to.counter(exceededDesc, p.PrefixesExceeded, p.Name)
		to.counter(warnedDesc, p.PrefixesWarnings, p.Name)
		to.counter(heavyDesc, p.AttributesExceeded, p.Name)
		to.gauge(attributesDesc, float64(p.AttributeBytes), p.Name)
		to.counter(refreshesDesc, p.Refreshes, p.Name)
		to.is(upDesc, p.Established, p.Name)
		if l := p.LinkState; l != (bgpls.Stats{}) {
			to.gauge(linkStateDesc, float64(l.Objects), p.Name)
			to.gauge(linkStateStaleDesc, float64(l.Stale), p.Name)
			to.counter(linkStateBadDesc, l.Discarded+l.Crowded, p.Name)
		}
	}
}

func (to sender) station(stats bmp.Stats) {
	to.counter(bmpRefusedDesc, stats.Refused)
	to.gauge(bmpHalfOpenDesc, float64(stats.HalfOpen))
	for _, r := range stats.Routers {
		for kind, n := range r.Messages {
			to.counter(routerMessagesDesc, n, r.Name, bmp.Kind(kind).String())
		}
		for v, n := range r.Verdicts {
			to.counter(routerUpdatesDesc, n, r.Name, wire.Verdict(v).String())
		}
		for reason, n := range r.Ignored {
			to.counter(routerIgnoredDesc, n, r.Name, bmp.Ignored(reason).String())
		}
		to.is(routerUpDesc, r.Connected, r.Name)
		to.counter(routerConnectsDesc, r.Ups, r.Name)
		to.counter(routerLostDesc, r.Downs, r.Name)
		to.counter(routerBytesDesc, r.Bytes, r.Name)
		to.counter(routerDamagedDesc, r.Damaged, r.Name)
		to.counter(routerPanicsDesc, r.Panics, r.Name)
		to.counter(routerMirrorDesc, r.MirrorLost, r.Name)
	}
}

func (to sender) saver(s snapshot.SaverStats) {
	to.counter(savesDesc, s.Saves)
	to.counter(saveFailsDesc, s.Failures)
	if !s.LastSaved.IsZero() {
		to.gauge(savedDesc, float64(s.LastSaved.Unix()))
		to.gauge(saveTookDesc, s.LastDuration.Seconds())
		to.gauge(saveBytesDesc, float64(s.LastBytes))
	}
	for fate, n := range s.Restored {
		to.gauge(restoredDesc, float64(n), snapshot.Fate(fate).String())
	}
	to.counter(sweptDesc, uint64(s.Swept))
}

// engineMetrics gives a failover engine's counters to Prometheus.
type engineMetrics struct{ engine *lpm.Failover }

var (
	degradedDesc      = desc("engine_degraded", "Whether the GPU does not answer what it should, and the processor does.")
	failedBatchesDesc = desc("engine_failed_batches_total", "Batches that failed on the GPU and were answered by the processor.")
	failedBuildsDesc  = desc("engine_failed_builds_total", "Generations that the GPU could not build.")
	batchesDesc       = desc("engine_batches_total", "Batches by the engine that answered them.", "engine")
	addressesDesc     = desc("engine_addresses_total", "Addresses by the engine that answered them.", "engine")
)

func (m engineMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{degradedDesc, failedBatchesDesc, failedBuildsDesc, batchesDesc, addressesDesc} {
		ch <- d
	}
}

func (m engineMetrics) Collect(ch chan<- prometheus.Metric) {
	to, s := sender(ch), m.engine.Status()
	to.is(degradedDesc, s.Degraded != "")
	to.counter(failedBatchesDesc, s.FailedBatches)
	to.counter(failedBuildsDesc, s.FailedBuilds)
	to.counter(batchesDesc, s.BaseBatches, engineCPU)
	to.counter(batchesDesc, s.AcceleratedBatches, m.engine.Name())
	to.counter(addressesDesc, s.BaseAddresses, engineCPU)
	to.counter(addressesDesc, s.AcceleratedAddresses, m.engine.Name())
}
