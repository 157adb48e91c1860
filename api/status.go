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
	Name       string          `json:"name,omitempty"` // not that of the default table
	Generation uint64          `json:"generation"`
	Engine     string          `json:"engine"`
	Ready      bool            `json:"ready"`
	Degraded   string          `json:"degraded,omitempty"`
	WaitingFor []string        `json:"waiting_for"`
	Created    *time.Time      `json:"created"`
	AgeSeconds *float64        `json:"age_seconds"`
	Source     *string         `json:"source"`
	Routes     families        `json:"routes"`
	Stale      *families       `json:"stale,omitempty"` // paths kept of peers that are gone; left out where there is none
	Table      *tableAnswer    `json:"table"`
	Publisher  *publisherStats `json:"publisher"`
	IGP        *igpStatus      `json:"igp,omitempty"` // left out where none is configured
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

// publisher gives the counters of a table's publisher, nil where it has none.
func (v *view) publisher() *publisherStats {
	if v.stats == nil {
		return nil
	}
	p := v.stats()
	return &publisherStats{p.Generations, p.Changes, p.Failures, p.Pending, p.LastChanges, p.LastBuild.Seconds(), p.LastLatency.Seconds()}
}

// status answers GET /api/v1/status.
func (a *API) status(c *gin.Context) {
	if !a.hasOnly(c, tableParameter) {
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	s := statusAnswer{
		Engine:    a.deps.EngineName,
		Version:   a.deps.Build.Version,
		Commit:    a.deps.Build.Commit,
		BuildDate: a.deps.Build.Date,
		Uptime:    time.Since(a.started).Seconds(),
	}
	if v != a.main {
		s.Name = v.name
	}
	s.Ready, s.WaitingFor = v.isReady()
	s.Degraded = a.degraded()
	s.Stale = staleOf(v.peerList())
	if g := v.generations.Acquire(); g != nil {
		defer g.Release()
		age := time.Since(g.Created).Seconds()
		info := v.info.of(g)
		s.Generation, s.Created, s.AgeSeconds, s.Source = g.Number, &g.Created, &age, &g.Source
		s.Routes = families{g.V4, g.V6}
		s.Table = tableOf(info)
	}
	s.Publisher = v.publisher()
	s.IGP = a.igpStatus()
	a.encode(c, v, s.Generation, s)
}

// staleOf counts the stale paths of all peers; nil where there is none.
func staleOf(peers []rib.PeerStatus) *families {
	var n families
	for _, p := range peers {
		n.IPv4 += p.Stale4
		n.IPv6 += p.Stale6
	}
	if n == (families{}) {
		return nil
	}
	return &n
}

// tableEntry is a table in the answer of /api/v1/tables. Before its first generation it has
// generation 0 and no routes.
type tableEntry struct {
	Name       string     `json:"name"`
	Generation uint64     `json:"generation"`
	Ready      bool       `json:"ready"`
	WaitingFor []string   `json:"waiting_for"`
	Created    *time.Time `json:"created"`
	Source     *string    `json:"source"`
	Routes     families   `json:"routes"`
	Peers      int        `json:"peers"`
	Stale      *families  `json:"stale,omitempty"`
}

// listTables answers GET /api/v1/tables.
func (a *API) listTables(c *gin.Context) {
	if !a.hasOnly(c) {
		return
	}
	answer := struct {
		Tables []tableEntry `json:"tables"`
	}{[]tableEntry{}}
	for _, v := range a.views() {
		peers := v.peerList()
		e := tableEntry{Name: v.name, Peers: len(peers), Stale: staleOf(peers)}
		e.Ready, e.WaitingFor = v.isReady()
		if g := v.generations.Acquire(); g != nil {
			e.Generation, e.Created, e.Source, e.Routes = g.Number, &g.Created, &g.Source, families{g.V4, g.V6}
			g.Release()
		}
		answer.Tables = append(answer.Tables, e)
	}
	a.encode(c, a.main, answer.Tables[0].Generation, answer)
}

// encode answers 200 with v, for endpoints that are not asked often.
func (a *API) encode(c *gin.Context, of *view, generation uint64, v any) {
	body, err := marshal(v)
	if err != nil {
		a.deps.Log.Error("answer not encoded", "path", c.Request.URL.Path, "error", err)
		a.refuse(c, http.StatusInternalServerError, "the answer could not be encoded: %v", err)
		return
	}
	of.nameGeneration(c, generation)
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

// ready reports whether the service can answer from all tables, and whom it waits for. waiting is
// not nil.
func (a *API) ready() (ok bool, waiting []string) {
	if a.deps.Tables == nil {
		return a.main.isReady()
	}
	ok, names := a.deps.Tables.Ready()
	return ok, append([]string{}, names...)
}

// isReady is the same for one table.
func (v *view) isReady() (ok bool, waiting []string) {
	waiting = []string{}
	if v.ready != nil {
		var names []string
		ok, names = v.ready()
		waiting = append(waiting, names...)
		if !ok {
			return false, waiting
		}
	}
	g := v.generations.Acquire()
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
	if a.admission.draining.Load() {
		a.fail(c, problem{Status: http.StatusServiceUnavailable, Detail: "the service is shutting down: what it is asked for now is answered, ask another one for the next"})
		return
	}
	if !ok {
		detail := "not ready yet"
		if len(waiting) > 0 {
			detail += ": waiting for " + strings.Join(waiting, ", ")
		}
		a.fail(c, problem{Status: http.StatusServiceUnavailable, Detail: detail, Waiting: waiting, RetryAfter: retryAfter})
		return
	}
	n := a.main.newest()
	a.encode(c, a.main, n, readyAnswer{Ready: true, Generation: n, Degraded: a.degraded()})
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
	n := a.main.newest()
	a.encode(c, a.main, n, struct {
		Status     string `json:"status"`
		Generation uint64 `json:"generation"`
	}{"ok", n})
}

// newest is the number of the newest generation, 0 before the first.
func (v *view) newest() uint64 {
	g := v.generations.Acquire()
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
	// What of the routes is stale, since when, and what is not chosen, by reason: left out where
	// there is none.
	Stale      *families      `json:"stale,omitempty"`
	StaleSince *time.Time     `json:"stale_since,omitempty"`
	Rejected   map[string]int `json:"rejected,omitempty"`
	// AttributeBytes is the memory of large sets of attributes, left out where there is none.
	AttributeBytes int64 `json:"attribute_bytes,omitempty"`
}

// peers answers GET /api/v1/peers. Peers are as they are now, the generation is the newest one:
// what a peer announced a moment ago may not be in it yet.
func (a *API) peers(c *gin.Context) {
	if !a.hasOnly(c, tableParameter) {
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	answer := struct {
		Generation uint64       `json:"generation"`
		Peers      []peerAnswer `json:"peers"`
	}{v.newest(), []peerAnswer{}}
	for _, p := range v.peerList() {
		answer.Peers = append(answer.Peers, peerOf(p))
	}
	a.encode(c, v, answer.Generation, answer)
}

// peerList gives the peers of a table.
func (v *view) peerList() []rib.PeerStatus {
	if v.peers == nil {
		return nil
	}
	return v.peers()
}

func peerOf(p rib.PeerStatus) peerAnswer {
	out := peerAnswer{
		Name: p.Name, Kind: p.Kind, AS: p.AS, State: p.State, LastError: p.LastError,
		Routes: families{p.V4, p.V6}, Updates: p.Updates, Loaded: p.Loaded, Awaited: p.Awaited, AttributeBytes: p.AttributeBytes,
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
	if out.Stale = staleOf([]rib.PeerStatus{p}); out.Stale != nil {
		out.StaleSince = &p.StaleSince
	}
	for reason, n := range p.Rejected {
		if n > 0 {
			if out.Rejected == nil {
				out.Rejected = map[string]int{}
			}
			out.Rejected[rib.Reject(reason).String()] = n
		}
	}
	return out
}
