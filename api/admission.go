package api

import (
	"cmp"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
)

// Admission bounds how much is done at once; docs/adr/0018-admission.md says why so. A field of zero
// means its default.
type Admission struct {
	// MaxBulk is how many bulk requests there may be at once, those that wait among them; more get
	// 503. Each takes about 1 MB, one of Arrow 20 MB with a full table. Default 16 a processor, and 64
	// at least.
	MaxBulk int
	// MaxBulkPerClient is how many of them one client may have; more get 429. Default a quarter of
	// MaxBulk.
	MaxBulkPerClient int
	// MaxWait is how long a bulk request may wait for its first turn; then it gets 503. Default 1 s, for
	// only a service that is starved of processors makes anybody wait so long.
	MaxWait time.Duration
	// MaxConnections is how many connections there may be; requests on more of them get 503. Default
	// 1,024 a processor, 8,192 at least, and half of the files that the process may have open at most.
	MaxConnections int
	// MaxConnectionsPerAddress is how many an address may have; requests on more get 429. Default a
	// quarter of MaxConnections. Trusted proxies have no such bound.
	MaxConnectionsPerAddress int
	// TrustedProxies are those whose X-Forwarded-For says who the client is. Default none: the client
	// is who is connected.
	TrustedProxies []netip.Prefix
}

func (d Admission) withDefaults() Admission {
	processors := runtime.GOMAXPROCS(0)
	d.MaxBulk = cmp.Or(max(d.MaxBulk, 0), max(64, 16*processors))
	d.MaxBulkPerClient = cmp.Or(max(d.MaxBulkPerClient, 0), max(1, d.MaxBulk/4))
	d.MaxWait = cmp.Or(max(d.MaxWait, 0), time.Second)
	d.MaxConnections = cmp.Or(max(d.MaxConnections, 0), min(max(8192, 1024*processors), max(1, openFiles()/2)))
	d.MaxConnectionsPerAddress = cmp.Or(max(d.MaxConnectionsPerAddress, 0), max(1, d.MaxConnections/4))
	return d
}

// admitRetry is when a client that was refused may come again.
const admitRetry = time.Second

// A refusal is why a request is not answered though nothing is wrong with it.
type refusal int

const (
	admitted          refusal = iota
	refusedClient             // the client has its share of bulk requests
	refusedFull               // there are as many bulk requests as may be
	refusedDelay              // no turn came in time
	refusedAddress            // the address has its share of connections
	refusedConnection         // there are as many connections as may be
	refusals
)

var refusalNames = [refusals]string{"", "client", "full", "delay", "address", "connections"}

// admission decides who is answered now.
type admission struct {
	bounds      Admission
	gate        *gate
	connections connections
	refused     [refusals]atomic.Uint64
	draining    atomic.Bool
}

func newAdmission(bounds Admission) *admission {
	bounds = bounds.withDefaults()
	// One processor is left to single lookups and to look at the network.
	d := &admission{bounds: bounds, gate: newGate(max(1, runtime.GOMAXPROCS(0)-1), bounds.MaxBulk, bounds.MaxBulkPerClient)}
	d.connections.init(d)
	return d
}

// Drain has readiness say no from now on, and every connection end with its next answer, so that
// clients go elsewhere. Requests are answered as before.
func (a *API) Drain() { a.admission.draining.Store(true) }

// bulk admits the requests of a handler as bulk ones: their number is bounded, and they take turns.
func (a *API) bulk(handle gin.HandlerFunc) gin.HandlerFunc {
	d := a.admission
	return func(c *gin.Context) {
		t, why := d.gate.admit(d.client(c.Request), d.bounds.MaxWait)
		if t == nil {
			a.shed(c, why)
			return
		}
		defer t.end()
		w := &turnWriter{ResponseWriter: c.Writer, turn: t}
		c.Writer = w
		defer func() { c.Writer = w.ResponseWriter }()
		if c.Request.Body != nil && c.Request.Body != http.NoBody {
			w.body = &turnBody{ReadCloser: c.Request.Body, turn: t}
			c.Request.Body = w.body
		}
		handle(c)
	}
}

// bulkIfAsked is bulk for an endpoint that is cheap unless the query asks for more (include).
func (a *API) bulkIfAsked(handle gin.HandlerFunc) gin.HandlerFunc {
	heavy := a.bulk(handle)
	return func(c *gin.Context) {
		if c.Request.URL.RawQuery != "" && c.Request.URL.Query().Has("include") { // also where it is escaped
			heavy(c)
			return
		}
		handle(c)
	}
}

// admit is what happens to every request first: those on connections over the bound are refused, but
// for probes, and in a drain connections are ended.
func (a *API) admit(c *gin.Context) {
	if c.Request.Method == "PRI" { // the preface of HTTP/2, which net/http hands on
		a.refuse(c, http.StatusHTTPVersionNotSupported, "this is HTTP/1.1: a proxy in front may speak %s", c.Request.Proto)
		return
	}
	if why := overBound(c.Request.Context()); why != admitted {
		c.Writer.Header()["Connection"] = []string{"close"}
		if !slices.Contains(probes, c.Request.URL.Path) {
			a.shed(c, why)
		}
		return
	}
	if a.admission.draining.Load() {
		c.Writer.Header()["Connection"] = []string{"close"}
	}
}

// probes are answered always.
var probes = []string{"/healthz", "/readyz", "/metrics"}

// shed refuses a request. net/http reads a short body first, so that the connection can go on, and
// ends the connection where there is a long one. A stream it would wait for: a client may send no more
// before it is answered.
func (a *API) shed(c *gin.Context, why refusal) {
	d := a.admission
	d.refused[why].Add(1)
	if c.Request.ContentLength < 0 {
		_ = http.NewResponseController(c.Writer).EnableFullDuplex()
		c.Writer.Header()["Connection"] = []string{"close"}
	}
	p := problem{Status: http.StatusServiceUnavailable, RetryAfter: admitRetry}
	switch why {
	case refusedClient:
		p.Status = http.StatusTooManyRequests
		p.Detail = "this client has " + count(d.bounds.MaxBulkPerClient, "bulk request") + " under way, which is its share: ask again when one has ended"
	case refusedAddress:
		p.Status = http.StatusTooManyRequests
		p.Detail = "this address has " + count(d.bounds.MaxConnectionsPerAddress, "connection") + ", which is its share: use them for more than one request each"
	case refusedConnection:
		p.Detail = "there are " + count(d.bounds.MaxConnections, "connection") + ", which is the most: come again"
	case refusedFull:
		p.Detail = "there are " + count(d.bounds.MaxBulk, "bulk request") + " under way, which is the most: come again"
	default:
		p.Detail = "the service is busy: no turn came within " + d.bounds.MaxWait.String() + "; come again"
	}
	a.fail(c, p)
}

func count(n int, what string) string {
	text := string(appendInt(nil, n)) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}

// client gives who a request is of, as one that shares are counted for: an IPv4 address, or the /64 of
// an IPv6 address, for a host has all of that.
func (d *admission) client(r *http.Request) netip.Prefix {
	peer := clientOf(r.RemoteAddr)
	if !d.trusted(peer) {
		return shareOf(peer)
	}
	// Each proxy has appended who it was asked by: the last one that is no proxy of ours is the client,
	// and what stands before it is what the client says.
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		peer = addr.Unmap().WithZone("")
		if !d.trusted(peer) {
			break
		}
	}
	return shareOf(peer)
}

func (d *admission) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(d.bounds.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// clientOf gives the address of an address with port; the zero Addr for what is none.
func clientOf(remote string) netip.Addr {
	ap, _ := netip.ParseAddrPort(remote)
	return ap.Addr().Unmap().WithZone("")
}

func shareOf(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // of the zero Addr the zero Prefix: one client for all of them
	return p
}

var (
	descRefused     = desc("http_refused_total", "HTTP requests that were refused so that others are answered, by reason: the client has its share of bulk requests (client), there are too many (full), none of them had a turn in time (delay), the address has its share of connections (address), or there are too many (connections).", "reason")
	descDropped     = desc("http_connections_dropped_total", "Connections that were closed without an answer, over all bounds.")
	descConnections = desc("http_connections", "Connections that are open.")
	descBulk        = desc("http_bulk_requests", "Bulk requests under way, by what they do: running, or not, as they wait for their turn or for their client.", "state")
)

// Describe implements prometheus.Collector.
func (d *admission) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range []*prometheus.Desc{descRefused, descDropped, descConnections, descBulk} {
		ch <- x
	}
}

// Collect implements prometheus.Collector.
func (d *admission) Collect(ch chan<- prometheus.Metric) {
	for why := admitted + 1; why < refusals; why++ {
		ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(d.refused[why].Load()), refusalNames[why])
	}
	ch <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(d.connections.dropped.Load()))
	ch <- prometheus.MustNewConstMetric(descConnections, prometheus.GaugeValue, float64(d.connections.count()))
	inside, running := d.gate.load()
	ch <- prometheus.MustNewConstMetric(descBulk, prometheus.GaugeValue, float64(running), "running")
	ch <- prometheus.MustNewConstMetric(descBulk, prometheus.GaugeValue, float64(max(0, inside-running)), "waiting")
}
