package api

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
)

// seriesAnswer is the answer of GET /api/v1/series: how the table and the service are now, and how
// they were.
type seriesAnswer struct {
	Table      string          `json:"table"`
	Generation uint64          `json:"generation"`
	Created    *time.Time      `json:"created"`
	AgeSeconds *float64        `json:"age_seconds"`
	Ready      bool            `json:"ready"`
	WaitingFor []string        `json:"waiting_for"`
	Degraded   string          `json:"degraded,omitempty"`
	Routes     families        `json:"routes"`
	Stale      *families       `json:"stale,omitempty"`
	Publisher  *publisherStats `json:"publisher"`
	Started    time.Time       `json:"started"` // the service: another one is another process
	Step       float64         `json:"step_seconds"`
	OfTable    tableColumns    `json:"of_table"`
	OfService  serviceColumns  `json:"of_service"`
}

// tableColumns are a table's samples, a column a figure: as long as time, which is in Unix seconds.
type tableColumns struct {
	Time        []float64 `json:"time"`
	Routes4     []int32   `json:"ipv4_routes"`
	Routes6     []int32   `json:"ipv6_routes"`
	Updates     []figure  `json:"updates_per_second"`
	Changes     []figure  `json:"changes_per_second"`
	Generations []figure  `json:"generations_per_second"`
	Build       []figure  `json:"build_seconds"`
	Latency     []figure  `json:"latency_seconds"`
	Age         []figure  `json:"age_seconds"`
}

type serviceColumns struct {
	Time     []float64 `json:"time"`
	Lookups  []figure  `json:"lookups_per_second"`
	Finds    []figure  `json:"finds_per_second"`
	Requests []figure  `json:"requests_per_second"`
	P50      []figure  `json:"p50_seconds"`
	P99      []figure  `json:"p99_seconds"`
	Memory   []uint64  `json:"memory_bytes"`
}

// A figure is a number in an answer, with the digits that it is worth, null where there is none.
type figure float32

// MarshalJSON implements json.Marshaler.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 4, 32), nil
}

// seriesOf answers GET /api/v1/series.
func (a *API) seriesOf(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	span, since, err := parseSeriesQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	s := seriesAnswer{Table: v.name, Degraded: a.degraded(), Started: a.started, Step: seriesSpans[span].step.Seconds()}
	s.Ready, s.WaitingFor = v.isReady()
	s.Stale, s.Publisher = staleOf(v.peerList()), v.publisher()
	if g := v.generations.Acquire(); g != nil {
		age := time.Since(g.Created).Seconds()
		created := g.Created
		s.Generation, s.Created, s.AgeSeconds, s.Routes = g.Number, &created, &age, families{g.V4, g.V6}
		g.Release()
	}
	s.OfTable = v.series.columns(span, since)
	s.OfService = a.series.columns(span, since)
	a.encode(c, v, s.Generation, s)
}

func (s *tableSeries) columns(span int, since int64) tableColumns {
	s.mu.Lock()
	samples := s.past.spans[span].ring.behind(func(x tableSample) bool { return x.at > since })
	s.mu.Unlock()
	return tableColumns{
		Time:        figuresOf(samples, func(x tableSample) float64 { return float64(x.at) / 1000 }),
		Routes4:     figuresOf(samples, func(x tableSample) int32 { return x.routes4 }),
		Routes6:     figuresOf(samples, func(x tableSample) int32 { return x.routes6 }),
		Updates:     figuresOf(samples, func(x tableSample) figure { return figure(x.updates) }),
		Changes:     figuresOf(samples, func(x tableSample) figure { return figure(x.changes) }),
		Generations: figuresOf(samples, func(x tableSample) figure { return figure(x.generations) }),
		Build:       figuresOf(samples, func(x tableSample) figure { return figure(x.build) }),
		Latency:     figuresOf(samples, func(x tableSample) figure { return figure(x.latency) }),
		Age:         figuresOf(samples, func(x tableSample) figure { return figure(x.age) }),
	}
}

func (s *series) columns(span int, since int64) serviceColumns {
	s.mu.Lock()
	samples := s.service.spans[span].ring.behind(func(x serviceSample) bool { return x.at > since })
	s.mu.Unlock()
	return serviceColumns{
		Time:     figuresOf(samples, func(x serviceSample) float64 { return float64(x.at) / 1000 }),
		Lookups:  figuresOf(samples, func(x serviceSample) figure { return figure(x.lookups) }),
		Finds:    figuresOf(samples, func(x serviceSample) figure { return figure(x.finds) }),
		Requests: figuresOf(samples, func(x serviceSample) figure { return figure(x.requests) }),
		P50:      figuresOf(samples, func(x serviceSample) figure { return figure(x.p50) }),
		P99:      figuresOf(samples, func(x serviceSample) figure { return figure(x.p99) }),
		Memory:   figuresOf(samples, func(x serviceSample) uint64 { return x.memory }),
	}
}

// figuresOf gives one figure of every sample; never nil, which would be null.
func figuresOf[S, F any](samples []S, of func(S) F) []F {
	out := make([]F, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}

// parseSeriesQuery gives which of seriesSpans is asked for, and behind which sample, in Unix milliseconds.
func parseSeriesQuery(raw string) (span int, since int64, err error) {
	err = eachParameter(raw, func(name string, given []string) error {
		text := given[0]
		switch name {
		case "span":
			span = slices.IndexFunc(seriesSpans[:], func(s seriesSpan) bool { return s.name == text })
			if span < 0 {
				return fmt.Errorf("span is %q: there are %s, in steps of a second, and %s, in steps of a minute", cut(text, 32), seriesSpans[0].name, seriesSpans[1].name)
			}
		case "since":
			seconds, bad := strconv.ParseFloat(text, 64)
			if bad != nil || !(seconds >= 0 && seconds < 1e12) {
				return fmt.Errorf("since is %q: it must be a time of a sample, in Unix seconds", cut(text, 32))
			}
			since = int64(math.Round(seconds * 1000))
		case tableParameter: // asked for before
		default:
			return unknownParameter(name, nil, "span", "since", tableParameter)
		}
		return once(name, given)
	})
	if err != nil {
		return 0, 0, err
	}
	return span, since, nil
}
