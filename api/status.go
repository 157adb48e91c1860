package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// families is a number for each address family.
type families struct {
	IPv4 int `json:"ipv4"`
	IPv6 int `json:"ipv6"`
}

// statusAnswer is the answer of /api/v1/status. Before the first generation it has generation
// 0, no routes, and null for what only a generation has.
type statusAnswer struct {
	Generation uint64          `json:"generation"`
	Engine     string          `json:"engine"`
	Ready      bool            `json:"ready"`
	Degraded   string          `json:"degraded,omitempty"`
	WaitingFor []string        `json:"waiting_for"`
	Created    *time.Time      `json:"created"`
	AgeSeconds *float64        `json:"age_seconds"`
	Source     *string         `json:"source"`
	Routes     families        `json:"routes"`
	Table      *tableAnswer    `json:"table"`
	Publisher  *publisherStats `json:"publisher"`
	Version    string          `json:"version"`
	Commit     string          `json:"commit"`
	BuildDate  string          `json:"build_date"`
	Uptime     float64         `json:"uptime_seconds"`
}

type tableAnswer struct {
	Engine      string           `json:"engine"`
	Flavor      string           `json:"flavor"`
	Bytes       uint64           `json:"bytes"`
	Families    []lpm.FamilyInfo `json:"families"`
	Accelerator *tableAnswer     `json:"accelerator,omitempty"` // its form for large batches, on a GPU
}

// tableOf gives the description of a table, and of its accelerated form.
func tableOf(info lpm.Info) *tableAnswer {
	t := &tableAnswer{Engine: info.Engine, Flavor: info.Flavor, Bytes: info.Bytes(), Families: info.Families}
	if info.Accelerator != nil {
		t.Accelerator = tableOf(*info.Accelerator)
	}
	return t
}

// publisherStats is rib.PublisherStats with durations in seconds.
type publisherStats struct {
	Generations uint64  `json:"generations"`
	Changes     uint64  `json:"changes"`
	Failures    uint64  `json:"failures"`
	Pending     int     `json:"pending"`
	LastChanges int     `json:"last_changes"`
	LastBuild   float64 `json:"last_build_seconds"`
	LastLatency float64 `json:"last_latency_seconds"`
}

// status answers GET /api/v1/status.
func (a *API) status(c *gin.Context) {
	s := statusAnswer{
		Engine:    a.deps.EngineName,
		Version:   a.deps.Build.Version,
		Commit:    a.deps.Build.Commit,
		BuildDate: a.deps.Build.Date,
		Uptime:    time.Since(a.started).Seconds(),
	}
	s.Ready, s.WaitingFor = a.ready()
	s.Degraded = a.degraded()
	if g := a.deps.Generations.Acquire(); g != nil {
		defer g.Release()
		age := time.Since(g.Created).Seconds()
		info := a.tables.of(g)
		s.Generation, s.Created, s.AgeSeconds, s.Source = g.Number, &g.Created, &age, &g.Source
		s.Routes = families{g.V4, g.V6}
		s.Table = tableOf(info)
	}
	if a.deps.PublisherStats != nil {
		p := a.deps.PublisherStats()
		s.Publisher = &publisherStats{p.Generations, p.Changes, p.Failures, p.Pending, p.LastChanges, p.LastBuild.Seconds(), p.LastLatency.Seconds()}
	}
	a.encode(c, s.Generation, s)
}

// encode answers 200 with v, for endpoints that are not asked often.
func (a *API) encode(c *gin.Context, generation uint64, v any) {
	body, err := marshal(v)
	if err != nil {
		a.deps.Log.Error("answer not encoded", "path", c.Request.URL.Path, "error", err)
		a.refuse(c, http.StatusInternalServerError, "the answer could not be encoded: %v", err)
		return
	}
	a.nameGeneration(c, generation)
	writeJSON(c, body)
}

// marshal gives v as a line of JSON, with <, > and & as they are: no browser takes it for HTML.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// tableInfo keeps the description of the newest table that was asked for: making it walks the
// whole table.
type tableInfo struct {
	mu     sync.Mutex
	number uint64
	info   lpm.Info
}

func (t *tableInfo) of(g *rib.Generation) lpm.Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.number != g.Number {
		t.number, t.info = g.Number, g.Table.Info()
	}
	return t.info
}

// ready reports whether the service can answer, and whom it waits for. waiting is not nil.
func (a *API) ready() (ok bool, waiting []string) {
	waiting = []string{}
	if a.deps.Ready != nil {
		var names []string
		ok, names = a.deps.Ready()
		waiting = append(waiting, names...)
		if !ok {
			return false, waiting
		}
	}
	g := a.deps.Generations.Acquire()
	if g == nil {
		return false, append(waiting, "the first generation")
	}
	g.Release()
	return true, waiting
}

// readyAnswer is the answer of /readyz when it is 200.
type readyAnswer struct {
	Ready      bool   `json:"ready"`
	Generation uint64 `json:"generation"`
	Degraded   string `json:"degraded,omitempty"` // why answers are slower than they should be
}

// readyz answers GET /readyz: 200 once lookups are answered from all awaited sources, also where they
// are answered slower than they should be.
func (a *API) readyz(c *gin.Context) {
	ok, waiting := a.ready()
	if !ok {
		detail := "not ready yet"
		if len(waiting) > 0 {
			detail += ": waiting for " + strings.Join(waiting, ", ")
		}
		a.fail(c, problem{Status: http.StatusServiceUnavailable, Detail: detail, Waiting: waiting, RetryAfter: retryAfter})
		return
	}
	n := a.newest()
	a.encode(c, n, readyAnswer{Ready: true, Generation: n, Degraded: a.degraded()})
}

// degraded says why answers are slower than they should be.
func (a *API) degraded() string {
	if a.deps.Degraded == nil {
		return ""
	}
	return a.deps.Degraded()
}

// healthz answers GET /healthz: 200 as long as the process answers at all.
func (a *API) healthz(c *gin.Context) {
	n := a.newest()
	a.encode(c, n, struct {
		Status     string `json:"status"`
		Generation uint64 `json:"generation"`
	}{"ok", n})
}

// newest is the number of the newest generation, 0 before the first.
func (a *API) newest() uint64 {
	g := a.deps.Generations.Acquire()
	if g == nil {
		return 0
	}
	defer g.Release()
	return g.Number
}

// peerAnswer is a peer in the answer of /api/v1/peers.
type peerAnswer struct {
	Name      string       `json:"name"`
	Kind      rib.PeerKind `json:"kind"`
	Addr      *netip.Addr  `json:"addr"`
	AS        uint32       `json:"as"`
	RouterID  *netip.Addr  `json:"router_id"`
	State     string       `json:"state"`
	Since     *time.Time   `json:"since"`
	LastError string       `json:"last_error"`
	Routes    families     `json:"routes"`
	Updates   uint64       `json:"updates"`
	EndOfRIB  struct {
		IPv4 bool `json:"ipv4"`
		IPv6 bool `json:"ipv6"`
	} `json:"end_of_rib"`
	Loaded  bool `json:"loaded"`
	Awaited bool `json:"awaited"`
}

// peers answers GET /api/v1/peers. Peers are as they are now, the generation is the newest one:
// what a peer announced a moment ago may not be in it yet.
func (a *API) peers(c *gin.Context) {
	answer := struct {
		Generation uint64       `json:"generation"`
		Peers      []peerAnswer `json:"peers"`
	}{a.newest(), []peerAnswer{}}
	if a.deps.Peers != nil {
		for _, p := range a.deps.Peers() {
			answer.Peers = append(answer.Peers, peerOf(p))
		}
	}
	a.encode(c, answer.Generation, answer)
}

func peerOf(p rib.PeerStatus) peerAnswer {
	out := peerAnswer{
		Name: p.Name, Kind: p.Kind, AS: p.AS, State: p.State, LastError: p.LastError,
		Routes: families{p.V4, p.V6}, Updates: p.Updates, Loaded: p.Loaded, Awaited: p.Awaited,
	}
	out.EndOfRIB.IPv4, out.EndOfRIB.IPv6 = p.EndOfRIB4, p.EndOfRIB6
	if p.Addr.IsValid() {
		out.Addr = &p.Addr
	}
	if p.RouterID.IsValid() {
		out.RouterID = &p.RouterID
	}
	if !p.Since.IsZero() {
		out.Since = &p.Since
	}
	return out
}
