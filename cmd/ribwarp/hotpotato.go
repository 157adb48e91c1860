package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/cmd/ribwarp/internal/paths"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib/hotpotato"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// igpSection says which topology the decision goes by, and from where.
type igpSection struct {
	File            string `toml:"file"`
	Root            string `toml:"root"`
	UnknownNextHops string `toml:"unknown-next-hops"`
	MaxMetric       uint32 `toml:"max-metric"`
	Metric          string `toml:"metric"`
	DefaultMetric   uint32 `toml:"default-metric"`
}

// What unknown-next-hops takes.
const (
	unknownFarthest    = "farthest"
	unknownUnreachable = "unreachable"
)

// An igpPlan is what the Keeper is to go by.
type igpPlan struct {
	hotpotato.Config
	topology *igp.Topology // of the file; nil without one
	linked   bool          // it comes from peers
}

// bgpLS is the source that peers with link-state are.
const bgpLS = "bgp-ls"

// planIGP reads the topology, and checks that the root is in it. linked tells that peers announce one.
func planIGP(s igpSection, linked bool) (p igpPlan, err error) {
	switch s.UnknownNextHops {
	case "", unknownFarthest:
	case unknownUnreachable:
		p.StrictNextHops = true
	default:
		return p, fmt.Errorf("igp: unknown-next-hops is %q: give %s or %s", s.UnknownNextHops, unknownFarthest, unknownUnreachable)
	}
	p.Root = s.Root
	switch {
	case s.File != "" && linked:
		return p, errors.New("igp: there are a file and peers with link-state: the topology is of one or the other")
	case linked:
		p.Source, p.linked = bgpLS, true
		return p, nil
	case s.File == "" && s != (igpSection{}):
		return p, errors.New("igp: file is missing: say where the topology is, or give a peer link-state")
	case s.File == "":
		return p, nil
	}
	p.Source = s.File
	p.topology, err = igp.ReadFile(s.File, igp.ReadOptions{MaxMetric: s.MaxMetric, MetricName: s.Metric, DefaultMetric: s.DefaultMetric})
	if err != nil {
		return p, fmt.Errorf("igp: %w", err)
	}
	if p.Root != "" {
		if _, err := p.topology.FindNode(p.Root); err != nil {
			return p, fmt.Errorf("igp: root: %w", err)
		}
	}
	return p, nil
}

// same tells whether the Keeper may go on as it does.
func (p *igpPlan) same(other *igpPlan) bool {
	if p.Config != other.Config || (p.topology == nil) != (other.topology == nil) {
		return false
	}
	return p.topology == nil || reflect.DeepEqual(p.topology.Nodes, other.topology.Nodes) && reflect.DeepEqual(p.topology.Links, other.topology.Links)
}

// describe says it in one line.
func (p *igpPlan) describe() string {
	text := p.Source
	if p.topology != nil {
		text += fmt.Sprintf(": %d nodes, %d links", len(p.topology.Nodes), len(p.topology.Links))
	}
	if p.Root == "" {
		return text + ", no root: the decision goes by no costs"
	}
	return text + ", costs from " + p.Root
}

// setIGP has the Keeper go by a plan.
func (s *service) setIGP(p *igpPlan) {
	var source hotpotato.Source
	switch {
	case p.topology != nil:
		source = hotpotato.File(p.topology)
	case p.linked:
		s.linkState.Renew() // it may have given its topology to nobody
		source = s.linkState
	}
	s.igp.Set(p.Config, source)
	if p.Source != "" {
		s.app.log.Info("igp topology in force", "source", p.describe(), "generation", s.igp.Status().Generation)
	}
}

// igpSolver is what computes costs from many routers at once: a GPU where lookups go to one, too, and it pays.
func (s *service) igpSolver(o *serveOptions) igp.Solver {
	if _, ok := s.engine.(*lpm.Failover); !ok || openPathDevice == nil {
		return nil
	}
	indexes, err := o.indexes()
	if err != nil || len(indexes) == 0 {
		indexes = []int{0}
	}
	return &paths.Auto{GPU: &lazyGPU{ctx: s.ctx, index: indexes[0]}, Log: s.app.log}
}

// A lazyGPU is a solver on a GPU that is started for the first question, and stopped with the service.
type lazyGPU struct {
	ctx   context.Context
	index int

	once sync.Once
	err  error
	mu   sync.RWMutex // below
	gpu  *paths.GPU   // nil once stopped
}

func (l *lazyGPU) start() {
	dev, err := openPathDevice(l.index)
	if err != nil {
		l.err = fmt.Errorf("GPU %d: %w", l.index, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gpu = paths.NewGPU(dev)
	context.AfterFunc(l.ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gpu.Close()
		_ = dev.Close()
		l.gpu = nil
	})
}

// Distances is igp.Solver's.
func (l *lazyGPU) Distances(ctx context.Context, g *igp.Graph, problems []igp.Problem, targets []uint32, dst []uint64) error {
	l.once.Do(l.start)
	if l.err != nil {
		return l.err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.gpu == nil {
		return l.ctx.Err()
	}
	return l.gpu.Distances(ctx, g, problems, targets, dst)
}

var (
	igpGenerationDesc = desc("igp_generation_number", "Number of the topology in force.")
	igpNodesDesc      = desc("igp_nodes", "Nodes of the topology.")
	igpLinksDesc      = desc("igp_links", "Links of the topology.")
	igpRootDesc       = desc("igp_root_found", "Whether the root is in the topology, so that the decision goes by its costs.")
	igpChangesDesc    = desc("igp_changes_total", "Topologies that came into force.")
	igpFailuresDesc   = desc("igp_failures_total", "Topologies that could not be made; the one before stayed.")
	igpAgainDesc      = desc("igp_decided_again_total", "Destinations decided again for another topology.")
	igpSPFDesc        = desc("igp_last_spf_seconds", "Time to make the last topology and compute the root's paths.")
	igpScanDesc       = desc("igp_last_scan_seconds", "Time to find what the last topology decides otherwise.")
)

func (to sender) igp(s hotpotato.Status) {
	if s.Source == "" {
		return
	}
	for _, g := range []struct {
		desc  *prometheus.Desc
		value float64
	}{
		{igpGenerationDesc, float64(s.Generation)}, {igpNodesDesc, float64(s.Nodes)}, {igpLinksDesc, float64(s.Links)},
		{igpSPFDesc, s.LastSPF.Seconds()}, {igpScanDesc, s.LastScan.Seconds()},
	} {
		to.gauge(g.desc, g.value)
	}
	to.is(igpRootDesc, s.RootNode != "")
	to.counter(igpChangesDesc, s.Changes)
	to.counter(igpFailuresDesc, s.Failures)
	to.counter(igpAgainDesc, s.DecidedAgain)
}
