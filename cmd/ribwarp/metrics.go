package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// sessionMetrics gives a BGP server's counters to Prometheus, read anew at every scrape.
type sessionMetrics struct{ server *bgp.Server }

var (
	peerLabel       = []string{"peer"}
	updatesDesc     = prometheus.NewDesc("ribwarp_bgp_updates_total", "UPDATE messages of a peer, by what became of them (RFC 7606).", []string{"peer", "verdict"}, nil)
	bytesDesc       = prometheus.NewDesc("ribwarp_bgp_received_bytes_total", "Bytes of all messages of a peer.", peerLabel, nil)
	establishedDesc = prometheus.NewDesc("ribwarp_bgp_sessions_established_total", "Sessions that were established with a peer.", peerLabel, nil)
	lostDesc        = prometheus.NewDesc("ribwarp_bgp_sessions_lost_total", "Established sessions that ended.", peerLabel, nil)
	upDesc          = prometheus.NewDesc("ribwarp_bgp_session_up", "Whether the session is established.", peerLabel, nil)
	panicsDesc      = prometheus.NewDesc("ribwarp_bgp_decoder_panics_total", "Messages that broke the decoder, which went on.", peerLabel, nil)
	ignoredDesc     = prometheus.NewDesc("ribwarp_bgp_ignored_families_total", "Parts of UPDATEs about address families that are not kept.", peerLabel, nil)
	refusedDesc     = prometheus.NewDesc("ribwarp_bgp_connections_refused_total", "Connections from addresses that are no peer's.", nil, nil)
)

func (m sessionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{updatesDesc, bytesDesc, establishedDesc, lostDesc, upDesc, panicsDesc, ignoredDesc, refusedDesc} {
		ch <- d
	}
}

func (m sessionMetrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	stats := m.server.Stats()
	counter(refusedDesc, stats.Refused)
	for _, p := range stats.Peers {
		for v, n := range p.Verdicts {
			counter(updatesDesc, n, p.Name, wire.Verdict(v).String())
		}
		counter(bytesDesc, p.Bytes, p.Name)
		counter(establishedDesc, p.Ups, p.Name)
		counter(lostDesc, p.Downs, p.Name)
		counter(panicsDesc, p.Panics, p.Name)
		counter(ignoredDesc, p.Ignored, p.Name)
		up := 0.0
		if p.Established {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, p.Name)
	}
}

// engineMetrics gives a failover engine's counters to Prometheus.
type engineMetrics struct{ engine *lpm.Failover }

var (
	degradedDesc      = prometheus.NewDesc("ribwarp_engine_degraded", "Whether the GPU does not answer what it should, and the processor does.", nil, nil)
	failedBatchesDesc = prometheus.NewDesc("ribwarp_engine_failed_batches_total", "Batches that failed on the GPU and were answered by the processor.", nil, nil)
	failedBuildsDesc  = prometheus.NewDesc("ribwarp_engine_failed_builds_total", "Generations that the GPU could not build.", nil, nil)
	batchesDesc       = prometheus.NewDesc("ribwarp_engine_batches_total", "Batches by the engine that answered them.", []string{"engine"}, nil)
	addressesDesc     = prometheus.NewDesc("ribwarp_engine_addresses_total", "Addresses by the engine that answered them.", []string{"engine"}, nil)
)

func (m engineMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{degradedDesc, failedBatchesDesc, failedBuildsDesc, batchesDesc, addressesDesc} {
		ch <- d
	}
}

func (m engineMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.engine.Status()
	degraded := 0.0
	if s.Degraded != "" {
		degraded = 1
	}
	ch <- prometheus.MustNewConstMetric(degradedDesc, prometheus.GaugeValue, degraded)
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	counter(failedBatchesDesc, s.FailedBatches)
	counter(failedBuildsDesc, s.FailedBuilds)
	counter(batchesDesc, s.BaseBatches, engineCPU)
	counter(batchesDesc, s.AcceleratedBatches, m.engine.Name())
	counter(addressesDesc, s.BaseAddresses, engineCPU)
	counter(addressesDesc, s.AcceleratedAddresses, m.engine.Name())
}
