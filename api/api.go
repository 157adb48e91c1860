package api

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/hotpotato"
)

// Deps is what the service needs of the rest of the program. Functions must be safe for
// concurrent use; those that are nil leave their part of the answers empty.
type Deps struct {
	// Tables are what requests are about. Without them there is the default table alone, which the
	// five fields below describe piece by piece; they are not looked at otherwise.
	Tables *rib.Tables

	Generations    *lpm.Published[rib.Route]          // what lookups are answered from
	Peers          func() []rib.PeerStatus            // for /api/v1/peers and metrics
	Ready          func() (ok bool, waiting []string) // nil: ready once a generation is published
	Paths          func(netip.Prefix) []rib.Candidate // for include=paths
	PublisherStats func() rib.PublisherStats          // for /api/v1/status and metrics

	IGP *hotpotato.Keeper // shortest paths and views from other routers; nil: none

	EngineName string        // lpm.Engine's Name
	Degraded   func() string // why the engine is slower than it should be, "" when it is not; nil: never
	Build      Build
	GPUs       []GPU // those that tables are on, for /api/v1/stats
	// VRPs gives what the RPKI says now, nil where no source of it is configured. A nil function: never
	// any.
	VRPs func() VRPs
	// Past says which earlier generations can be asked; zero: none but those that requests hold.
	Past Past
	// Metrics is served at /metrics. New adds ribwarp's own metrics and those of the Go runtime
	// and the process, so it must not hold them yet; nil makes a new one.
	Metrics *prometheus.Registry
	Limits  Limits
	// Admission bounds how much is done at once.
	Admission Admission
	Log       *slog.Logger // nil: slog.Default
}

// Build says what was built, for /api/v1/status and the metric ribwarp_build_info.
type Build struct{ Version, Commit, Date string }

// A GPU is one that tables are on.
type GPU struct {
	Name   string `json:"name"`
	Memory uint64 `json:"memory_bytes"`
}

// API answers HTTP requests: it is an http.Handler. Make one with New; it is safe for concurrent
// use. It holds earlier generations that may be asked, and takes readings every second, until Close.
type API struct {
	deps    Deps
	started time.Time
	router  *gin.Engine
	metrics *metrics
	// admission decides who is answered now.
	admission *admission
	main      *view // the default table
	others    views
	series    series
	past      past
	singles   sync.Pool // of *single
	bodies    sync.Pool // of *[]byte, what a JSON body is read into
}

// New makes the service. It panics if Deps.Metrics already holds a metric that it adds.
func New(d Deps) *API {
	d.Limits = d.Limits.withDefaults()
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	a := &API{deps: d, started: time.Now(), admission: newAdmission(d.Admission)}
	a.others.byName = map[string]*view{}
	if d.Tables != nil {
		a.main = a.newView(d.Tables.All()[0])
	} else {
		a.main = &view{name: rib.DefaultTable, generations: d.Generations, peers: d.Peers, ready: d.Ready, paths: d.Paths, stats: d.PublisherStats, past: held{most: d.Past.Most, time: d.Past.time()}}
	}
	if a.main.generations == nil {
		a.main.generations = new(lpm.Published[rib.Route])
	}
	a.metrics = newMetrics(a)
	a.singles.New = func() any { return &single{counts: a.metrics.lookups.shard()} }
	a.bodies.New = func() any { return new([]byte) }
	a.router = a.routes()
	a.series.start(a)
	a.past.start(a)
	return a
}

// Handler gives the service as a handler, for NewServer, which closes it at the server's shutdown,
// or for a server of one's own, behind which Close must be called.
func (a *API) Handler() http.Handler { return a }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// Close gives back the generations that are held, and ends the series. Requests are still answered,
// but a listing that breaks off can no longer go on once its generation is replaced.
func (a *API) Close() {
	a.series.close()
	a.past.close()
	a.main.close()
	a.others.mu.Lock()
	defer a.others.mu.Unlock()
	a.others.closed = true
	for _, v := range a.others.byName {
		v.close()
	}
}

// routes says which handler answers what.
func (a *API) routes() *gin.Engine {
	releaseMode()
	r := gin.New()
	r.RedirectTrailingSlash = false
	r.HandleMethodNotAllowed = true
	_ = r.SetTrustedProxies(nil) // only a malformed list is an error

	r.Use(a.around)
	r.NoRoute(a.noRoute)
	r.NoMethod(a.noMethod)

	get := func(path string, h gin.HandlerFunc) {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	get("/api/v1/lookup/:ip", a.lookup)
	r.POST("/api/v1/lookup", a.bulk(a.bulkAddresses()))
	get("/api/v1/routes", a.bulk(a.coded(a.list)))
	r.POST("/api/v1/routes", a.bulk(a.bulkPrefixes()))
	get("/api/v1/routes/*prefix", a.bulkIfAsked(a.prefix)) // a wildcard: a prefix holds a slash
	get("/api/v1/asns/:asn", a.bulk(a.asn))
	get("/api/v1/diff", a.bulk(a.coded(a.diff)))
	r.POST("/api/v1/diff", a.bulk(a.coded(a.diffLookup)))
	get("/api/v1/generations", a.listGenerations)
	get("/api/v1/rpki/validate", a.rpkiValidate)
	get("/api/v1/tables", a.listTables)
	get("/api/v1/peers", a.peers)
	get("/api/v1/status", a.status)
	get("/api/v1/stats", a.bulk(a.stats))
	get("/api/v1/series", a.seriesOf)
	get("/api/v1/igp", a.bulkIfAsked(a.igp)) // the topology
	get("/api/v1/igp/paths", a.bulk(a.igpPaths))
	r.POST("/api/v1/exits", a.bulk(a.coded(a.exits)))
	get("/", a.page)
	get(webPath+"*file", a.page)
	get("/openapi.json", a.openapi)
	get("/docs", a.docs)
	get("/healthz", a.healthz)
	get("/readyz", a.readyz)
	get("/metrics", gin.WrapH(promhttp.HandlerFor(a.deps.Metrics, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // one bad metric must not hide the others
	})))
	return r
}

// releaseMode keeps gin from printing its routes. The mode belongs to the whole process.
var releaseMode = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// Header values that every answer shares: put into the header map as they are, so that setting
// them allocates nothing. Nobody may append to them.
var (
	typeJSON    = []string{"application/json"}
	typeNDJSON  = []string{"application/x-ndjson"}
	typeProblem = []string{"application/problem+json"}
)

// writeJSON answers 200 with a whole body. net/http sets the length of a short one by itself,
// without allocating.
func writeJSON(c *gin.Context, body []byte) {
	h := c.Writer.Header()
	h["Content-Type"] = typeJSON
	if len(body) >= 2048 {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	_, _ = c.Writer.Write(body) // the client may be gone: nobody is left to tell
}
