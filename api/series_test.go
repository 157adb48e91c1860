package api

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

func TestRingKeepsTheNewest(t *testing.T) {
	for most := 1; most < 6; most++ {
		r := ring[int]{most: most}
		var all []int
		for i := range 17 {
			r.add(i)
			all = append(all, i)
			kept := all[max(0, len(all)-most):]
			for after := -1; after <= i; after++ {
				want := slices.DeleteFunc(slices.Clone(kept), func(x int) bool { return x <= after })
				if got := r.behind(func(x int) bool { return x > after }); !slices.Equal(got, want) {
					t.Fatalf("of %d behind %d: %v, want %v", most, after, got, want)
				}
			}
			if cap(r.samples) > 2*most {
				t.Fatalf("room for %d of %d", cap(r.samples), most)
			}
		}
	}
}

// A history over more than a day by a clock of the test's own, with counters that go up by a known
// number a second.
func TestHistoryIsBoundedAndTellsRates(t *testing.T) {
	var h history[tableReading, tableSample, *tableReading]
	now := time.Unix(1e9, 0)
	r := tableReading{routes: families{7, 3}}
	const seconds = 26 * 3600
	for i := range seconds {
		r.updates += uint64(i % 4) // 1.5 a second
		r.build = time.Millisecond
		if i%60 == 30 {
			r.build = time.Second // a peak that the minute's last reading does not have
		}
		h.observe(now, &r)
		now = now.Add(time.Second)
	}
	for i, span := range seriesSpans {
		samples := h.spans[i].ring.behind(func(tableSample) bool { return true })
		if len(samples) != span.samples {
			t.Fatalf("%s: %d samples, want %d", span.name, len(samples), span.samples)
		}
		sum := 0.0
		for k, s := range samples {
			if k > 0 && s.at-samples[k-1].at != span.step.Milliseconds() {
				t.Fatalf("%s: sample %d is %d ms behind the one before", span.name, k, s.at-samples[k-1].at)
			}
			if s.routes4 != 7 || s.routes6 != 3 {
				t.Fatalf("%s: %+v", span.name, s)
			}
			sum += float64(s.updates)
		}
		if mean := sum / float64(len(samples)); math.Abs(mean-1.5) > 0.01 {
			t.Errorf("%s: %v updates a second, want 1.5", span.name, mean)
		}
		peak := slices.MaxFunc(samples, func(a, b tableSample) int { return int(1e6 * (a.build - b.build)) })
		least := slices.MinFunc(samples, func(a, b tableSample) int { return int(1e6 * (a.build - b.build)) })
		if peak.build != 1 || (least.build == 1) != (i == 1) {
			t.Errorf("%s: builds from %v to %v s: a minute's must be the longest, a second's its own", span.name, least.build, peak.build)
		}
	}
}

func TestRateOfACounterThatBeginsAnewIsNothing(t *testing.T) {
	if got := rate(10, 4, time.Second); got != 0 {
		t.Errorf("%v", got)
	}
	if got := rate(10, 40, 2*time.Second); got != 15 {
		t.Errorf("%v", got)
	}
	if got := rate(10, 40, 0); got != 0 {
		t.Errorf("%v", got)
	}
}

func TestQuantilesAreNearTheExactOnes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		var d durations
		all := make([]float64, 1+r.IntN(2000))
		for i := range all {
			took := time.Duration(math.Exp(math.Log(2e3) + r.Float64()*math.Log(1e7))) // 2 µs to 20 s
			all[i] = took.Seconds()
			d.add(took)
		}
		slices.Sort(all)
		var counts durationCounts
		d.read(&counts)
		for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
			exact := all[int(math.Ceil(q*float64(len(all))))-1]
			if got := counts.quantile(q); math.Abs(got-exact) > 0.063*exact {
				t.Fatalf("seed %d: quantile %v of %d is %v, exactly %v", seed, q, len(all), got, exact)
			}
		}
	}
	if none := new(durationCounts).quantile(0.5); !math.IsNaN(none) {
		t.Errorf("the median of nothing is %v", none)
	}
}

func TestEveryDurationHasABucket(t *testing.T) {
	last := 0
	for _, took := range []time.Duration{-1, 0, 1, 1023, 1024, 1025, 2047, 2048, time.Millisecond, time.Second, time.Minute, time.Hour, math.MaxInt64} {
		b := durationBucket(took)
		if b < last || b >= durationsCount {
			t.Errorf("%v is in bucket %d behind %d of %d", took, b, last, durationsCount)
		}
		last = b
	}
}

// seriesBody is an answer of /api/v1/series as a client reads it.
type seriesBody struct {
	Table      string
	Generation uint64
	Created    *time.Time
	Ready      bool
	WaitingFor []string `json:"waiting_for"`
	Routes     families
	Step       float64 `json:"step_seconds"`
	OfTable    struct {
		Time    []float64
		Routes4 []int      `json:"ipv4_routes"`
		Routes6 []int      `json:"ipv6_routes"`
		Updates []float64  `json:"updates_per_second"`
		Build   []float64  `json:"build_seconds"`
		Age     []*float64 `json:"age_seconds"`
	} `json:"of_table"`
	OfService struct {
		Time     []float64
		Lookups  []float64  `json:"lookups_per_second"`
		Finds    []float64  `json:"finds_per_second"`
		Requests []float64  `json:"requests_per_second"`
		P50      []*float64 `json:"p50_seconds"`
		P99      []*float64 `json:"p99_seconds"`
		Memory   []uint64   `json:"memory_bytes"`
	} `json:"of_service"`
}

func (w *world) series(query string) (s seriesBody) {
	w.t.Helper()
	rec := w.get("/api/v1/series" + query)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", query, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil {
		w.t.Fatalf("%s: %v: %s", query, err, rec.Body)
	}
	return s
}

func sum(values []float64) (n float64) {
	for _, v := range values {
		n += v
	}
	return n
}

func TestSeriesShowsWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var updates atomic.Uint64 // read behind the test's back
		w := newWorld(t, func(d *Deps) {
			d.Peers = func() []rib.PeerStatus {
				return []rib.PeerStatus{{Name: "a", Updates: updates.Load()}, {Name: "b", Updates: 2}}
			}
			d.PublisherStats = func() rib.PublisherStats { return rib.PublisherStats{LastBuild: 3 * time.Millisecond} }
		})
		defer w.api.Close()
		time.Sleep(1500 * time.Millisecond) // between two readings
		for range 5 {
			w.get("/api/v1/lookup/10.1.2.3")
		}
		w.do(http.MethodPost, lookupPath, "text/plain", "10.1.2.3\n9.9.9.9\nx\n")
		w.get("/api/v1/routes/10.1.2.0/24")
		updates.Store(8)
		time.Sleep(10 * time.Second)
		s := w.series("")
		if s.Table != "default" || s.Generation != 1 || !s.Ready || s.Step != 1 || s.Routes != (families{5, 2}) || s.WaitingFor == nil {
			t.Errorf("%+v", s)
		}
		if n := len(s.OfService.Time); n != 11 || len(s.OfTable.Time) != n || len(s.OfService.P99) != n || len(s.OfTable.Routes6) != n {
			t.Fatalf("%d samples of the service, %d of the table", n, len(s.OfTable.Time))
		}
		if got := sum(s.OfService.Lookups); math.Abs(got-7) > 0.01 {
			t.Errorf("%v lookups, want 7: what is no address is none", got)
		}
		if got := sum(s.OfService.Finds); math.Abs(got-1) > 0.01 {
			t.Errorf("%v finds", got)
		}
		if got := sum(s.OfService.Requests); math.Abs(got-7) > 0.01 {
			t.Errorf("%v requests", got)
		}
		if got := sum(s.OfTable.Updates); math.Abs(got-8) > 0.01 {
			t.Errorf("%v updates", got)
		}
		timed := 0
		for i := range s.OfService.P50 {
			if s.OfService.P50[i] != nil {
				timed++
			}
		}
		if timed != 1 || s.OfService.Memory[3] == 0 || s.OfTable.Routes4[3] != 5 || s.OfTable.Build[3] != 0.003 {
			t.Errorf("%d samples have a median; %+v", timed, s)
		}

		// What a client has it is not given again.
		last := s.OfService.Time[len(s.OfService.Time)-1]
		more := w.series("?since=" + jsonNumber(last))
		if len(more.OfService.Time) != 0 || len(more.OfTable.Time) != 0 {
			t.Errorf("behind %v: %v", last, more.OfService.Time)
		}
		time.Sleep(3 * time.Second)
		more = w.series("?table=default&since=" + jsonNumber(last))
		if len(more.OfService.Time) != 3 || more.OfService.Time[0] <= last {
			t.Errorf("behind %v: %v", last, more.OfService.Time)
		}

		time.Sleep(3 * time.Minute)
		minutes := w.series("?span=24h")
		if len(minutes.OfService.Time) != 3 || minutes.Step != 60 || math.Abs(60*sum(minutes.OfService.Lookups)-7) > 0.1 {
			t.Errorf("%+v", minutes)
		}
		if minutes.OfService.P99[0] == nil || minutes.OfService.P99[1] != nil {
			t.Errorf("p99 %v", minutes.OfService.P99)
		}

		w.api.Close()
		n := len(w.series("").OfService.Time)
		time.Sleep(5 * time.Second)
		if got := len(w.series("").OfService.Time); got != n {
			t.Errorf("%d samples behind Close, %d before", got, n)
		}
	})
}

func jsonNumber(v float64) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func TestSeriesBeforeTheFirstGeneration(t *testing.T) {
	w := emptyWorld(t, func(d *Deps) { d.Ready = func() (bool, []string) { return false, []string{"rrc00"} } })
	s := w.series("")
	if s.Generation != 0 || s.Created != nil || s.Ready || !slices.Equal(s.WaitingFor, []string{"rrc00"}) || s.OfTable.Time == nil {
		t.Errorf("%+v", s)
	}
}

func TestSeriesRefusesBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	for query, want := range map[string]string{
		"?span=1y":             `span is "1y": there are 10m, in steps of a second, and 24h`,
		"?since=yesterday":     `since is "yesterday"`,
		"?since=NaN":           `since is "NaN"`,
		"?since=-1":            `since is "-1"`,
		"?color=red":           `unknown parameter "color"`,
		"?span=10m&span=24h":   "span is given 2 times",
		"?span=10m&since=%zz1": "query: ",
	} {
		wantProblem(t, w.get("/api/v1/series"+query), http.StatusBadRequest, want)
	}
	wantProblem(t, w.get("/api/v1/series?table=green"), http.StatusNotFound, `no table "green"`)
}
