package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// getWith asks with one header.
func (w *world) getWith(target, header, value string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set(header, value)
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return rec
}

// generations gives the numbers of those that can be asked, the newest first.
func (w *world) generations() (numbers []uint64, all []generationAnswer) {
	w.t.Helper()
	var answer struct {
		Generation  uint64
		Generations []generationAnswer
	}
	rec := w.get("/api/v1/generations")
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || rec.Code != http.StatusOK {
		w.t.Fatalf("%d, %v: %s", rec.Code, err, rec.Body)
	}
	for _, g := range answer.Generations {
		numbers = append(numbers, g.Number)
	}
	return numbers, answer.Generations
}

// Every kind of request can be about a generation that is held.
func TestRequestsPinAGeneration(t *testing.T) {
	w := emptyWorld(t, nil)
	w.publish(1, []rib.Route{route("10.0.0.0/8", announced(1))})
	tag := w.get("/api/v1/lookup/10.0.0.1").Header().Get("ETag")
	w.generations() // holds it
	w.publish(2, []rib.Route{route("10.0.0.0/8", announced(2))})
	for _, pin := range []struct{ query, header, value, want string }{
		{"generation=1", "X", "", "1"}, {"generation=2", "X", "", "2"}, {"", "X", "", "2"},
		{"", "If-Match", tag, "1"}, {"", "If-Match", `"5-abc", ` + tag, "1"}, {"", "If-Match", "*", "2"}, {"generation=1", "If-Match", tag, "1"},
	} {
		for _, x := range []struct{ method, target, kind, body string }{
			{"GET", "/api/v1/lookup/10.0.0.1?", "", ""}, {"GET", "/api/v1/routes/10.0.0.0/8?include=more-specifics&", "", ""}, {"GET", "/api/v1/routes?", "", ""},
			{"GET", "/api/v1/asns/" + pin.want + "?", "", ""}, {"POST", "/api/v1/lookup?", "application/json", `{"ips":["10.0.0.1"]}`}, {"POST", "/api/v1/lookup?", "text/plain", "10.0.0.1"},
			{"POST", "/api/v1/routes?", "text/plain", "10.0.0.0/8"},
		} {
			r := httptest.NewRequest(x.method, x.target+pin.query, strings.NewReader(x.body))
			r.Header.Set(pin.header, pin.value)
			r.Header.Set("Content-Type", x.kind)
			rec := httptest.NewRecorder()
			w.api.Handler().ServeHTTP(rec, r)
			if rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != pin.want || !strings.Contains(rec.Body.String(), `"origin_asns":[`+pin.want+`]`) {
				t.Errorf("%s %s, %+v: %d, generation %s: %s", x.method, x.target, pin, rec.Code, rec.Header().Get("RIB-Generation"), rec.Body)
			}
		}
	}
}

func TestGenerationsThatAreNotThere(t *testing.T) {
	w := newWorld(t, nil)
	w.generations()
	w.publish(2, testRoutes())
	for _, target := range []string{"/api/v1/lookup/10.0.0.1?", "/api/v1/routes/10.0.0.0/8?", "/api/v1/routes?", "/api/v1/asns/64500?", "/api/v1/diff?from=2&to=2&", "/api/v1/diff?"} {
		parameter := "generation"
		if strings.Contains(target, "diff") {
			if parameter = "from"; strings.Contains(target, "from") {
				continue
			}
		}
		rec := w.get(target + parameter + "=7")
		wantProblem(t, rec, http.StatusGone, "generation 7 is gone: there are 2, 1.")
		var p problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || !slices.Equal(p.Held, []uint64{2, 1}) || p.Generation != 2 {
			t.Errorf("%s: %+v", target, p)
		}
		for _, bad := range []string{"0", "-1", "x", "", "18446744073709551616"} {
			wantProblem(t, w.get(target+parameter+"="+bad), http.StatusBadRequest, "must be the number of a generation, from 1 on")
		}
		wantProblem(t, w.get(target+parameter+"=%zz"), http.StatusBadRequest, "query")
		wantProblem(t, w.get(target+"%"+fmt.Sprintf("%x", parameter[0])+parameter[1:]+"=7"), http.StatusGone, "generation 7 is gone")
		wantProblem(t, w.get(target+parameter+"=1&"+parameter+"=2"), http.StatusBadRequest, "is given 2 times")
	}
	rec := w.getWith("/api/v1/lookup/10.0.0.1", "If-Match", `"1-0"`)
	wantProblem(t, rec, http.StatusPreconditionFailed, "no generation that is held is the one of If-Match: there are 2, 1")
	wantProblem(t, w.getWith("/api/v1/lookup/10.0.0.1?generation=1", "If-Match", `"1-0"`), http.StatusPreconditionFailed, "generation 1 is not the one of If-Match")
	wantProblem(t, emptyWorld(t, nil).get("/api/v1/lookup/10.0.0.1?generation=1"), http.StatusServiceUnavailable, "no generation is published yet")
	wantProblem(t, emptyWorld(t, nil).get("/api/v1/generations"), http.StatusServiceUnavailable, "no generation is published yet")
}

// An answer that hangs on its generation alone is sent once.
func TestKnownAnswersAreNotSentAgain(t *testing.T) {
	w := newWorld(t, nil)
	targets := []string{"/api/v1/lookup/10.0.0.1", "/api/v1/routes/10.0.0.0/8", "/api/v1/routes/10.0.0.0/8?include=more-specifics", "/api/v1/routes", "/api/v1/asns/64501", "/api/v1/diff?from=1&to=1"}
	tags := map[string]string{}
	for _, target := range targets {
		tag := w.get(target).Header().Get("ETag")
		tags[target] = tag
		for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			rec := w.getWith(target, "If-None-Match", known)
			if rec.Code != http.StatusNotModified || rec.Body.Len() != 0 || rec.Header().Get("ETag") != tag || rec.Header().Get("RIB-Generation") != "1" {
				t.Errorf("%s, %s: %d %v %s", target, known, rec.Code, rec.Header(), rec.Body)
			}
		}
		if rec := w.getWith(target, "If-None-Match", `"1-0"`); rec.Code != http.StatusOK || rec.Body.Len() == 0 {
			t.Errorf("%s: %d", target, rec.Code)
		}
	}
	w.publish(1, testRoutes()) // a number may come again, after a restart
	for _, target := range targets {
		if rec := w.getWith(target, "If-None-Match", tags[target]); rec.Code != http.StatusOK && !strings.Contains(target, "diff") {
			t.Errorf("%s: %d", target, rec.Code)
		}
	}
	for _, target := range []string{"/api/v1/routes/10.0.0.0/8?include=paths", "/api/v1/peers", "/api/v1/status", "/api/v1/generations", "/api/v1/routes/10.9.9.0/24"} {
		if tag := w.get(target).Header().Get("ETag"); tag != "" {
			t.Errorf("%s hangs on more than its generation: %s", target, tag)
		}
	}
}

// What the RPKI says may change while the generation stays: such listings are sent again, though they name
// their generation.
func TestAnswersThatHangOnTheRPKIAreSentAgain(t *testing.T) {
	w := newRPKIWorld(t)
	for _, target := range []string{"/api/v1/routes?rpki=valid", "/api/v1/routes?include=rpki", "/api/v1/diff?from=1&to=1&rpki=invalid"} {
		tag := w.get(target).Header().Get("ETag")
		if rec := w.getWith(target, "If-None-Match", tag); tag == "" || rec.Code != http.StatusOK || rec.Body.Len() == 0 {
			t.Errorf("%s, ETag %s: %d", target, tag, rec.Code)
		}
		if rec := w.getWith(target, "If-Match", tag); rec.Code != http.StatusOK {
			t.Errorf("%s goes on with its ETag: %d", target, rec.Code)
		}
	}
}

// Differences have an ETag of their own, by which they go on, and none of one generation takes its place.
func TestDifferencesOfAnETag(t *testing.T) {
	w := emptyWorld(t, nil)
	w.publish(1, []rib.Route{route("10.0.0.0/8", announced(1))})
	first := w.get("/api/v1/lookup/10.0.0.1").Header().Get("ETag")
	w.generations()
	w.publish(2, []rib.Route{route("10.0.0.0/8", announced(2))})
	w.generations()
	both := w.get("/api/v1/diff?from=1").Header().Get("ETag")
	post := func(tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/diff?from=1", strings.NewReader("10.0.0.1"))
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("If-Match", tag)
		rec := httptest.NewRecorder()
		w.api.Handler().ServeHTTP(rec, r)
		return rec
	}
	for _, tag := range []string{both, `"x", ` + both, "*"} {
		for _, rec := range []*httptest.ResponseRecorder{w.getWith("/api/v1/diff?from=1", "If-Match", tag), w.getWith("/api/v1/diff?cursor=1,2,9.0.0.0/8", "If-Match", tag), post(tag)} {
			if rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "2" || !strings.Contains(rec.Body.String(), `"changes":1}`) {
				t.Errorf("%s: %d %v %s", tag, rec.Code, rec.Header(), rec.Body)
			}
		}
	}
	for _, tag := range []string{first, `"1-0.2-0"`} {
		wantProblem(t, w.getWith("/api/v1/diff?from=1", "If-Match", tag), http.StatusPreconditionFailed, "generations 1 and 2 are not those of If-Match, their ETag is "+both)
		wantProblem(t, post(tag), http.StatusPreconditionFailed, "not those of If-Match")
	}
	if rec := w.getWith("/api/v1/generations", "If-Match", first); rec.Header().Get("RIB-Generation") != "2" {
		t.Errorf("the list of generations is of generation %s", rec.Header().Get("RIB-Generation"))
	}
}

// The past is taken at every interval, holds as many as it may, and goes after an hour.
func TestThePastIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, func(d *Deps) { d.Past = Past{Most: 2, Interval: time.Minute} })
		var closed atomic.Int64
		time.Sleep(time.Second / 2) // from here on no generation comes in the moment in which one is taken
		start := time.Now()
		for second := range 5 * 60 { // a generation a second
			w.publishCounted(uint64(second+1), testRoutes(), &closed)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if took := time.Since(start); took != 5*time.Minute {
			t.Fatal(took)
		}
		numbers := func() string {
			var all []uint64
			for _, g := range w.api.main.thereAre() {
				all = append(all, g.Number)
			}
			return fmt.Sprint(all)
		}
		if got := numbers(); got != "[300 240]" {
			t.Errorf("there are %s", got)
		}
		old := w.api.main.thereAre()
		if n := closed.Load(); n != int64(300-len(old)) {
			t.Errorf("%d of 300 tables are closed, and %d there", n, len(old))
		}
		last := old[len(old)-1].Number
		if rec := w.get(fmt.Sprintf("/api/v1/lookup/10.0.0.1?generation=%d", last)); rec.Code != http.StatusOK {
			t.Errorf("%d: %s", rec.Code, rec.Body)
		}
		// A quiet table keeps what it was for an hour.
		w.publishCounted(301, testRoutes(), &closed)
		time.Sleep(pastTime - 2*time.Minute)
		synctest.Wait()
		if got := numbers(); got != "[301 300]" {
			t.Errorf("after some quiet time there are %s", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := numbers(); got != "[301]" {
			t.Errorf("after an hour there are %s", got)
		}
		w.api.Close()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := w.api.main.past.count(); n != 0 {
			t.Errorf("%d are held after Close", n)
		}
		w.gens.Withdraw()
		if n := closed.Load(); n != 301 {
			t.Errorf("%d of 301 tables are closed", n)
		}
	})
}

// Who wants to ask what was long ago has hours between the generations of the past: they stay as long.
func TestThePastMayBeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, func(d *Deps) { d.Past = Past{Most: 2, Interval: 2 * time.Hour} })
		defer w.api.Close()
		time.Sleep(time.Second / 2)
		for n := range uint64(20) {
			w.publish(n+1, testRoutes())
			time.Sleep(time.Hour / 2)
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		if numbers, _ := w.generations(); fmt.Sprint(numbers) != "[20 16]" {
			t.Errorf("there are %v", numbers)
		}
	})
}

// Whoever sees the list can ask for all that is in it for a while.
func TestGenerationsThatAreListedCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		numbers, all := w.generations()
		if fmt.Sprint(numbers) != "[1]" || !all[0].Newest || all[0].Routes != (families{5, 2}) || all[0].Source != "test" || !all[0].HeldUntil.Equal(time.Now().Add(holdTime)) {
			t.Errorf("%+v", all)
		}
		for n := range uint64(10) {
			w.publish(n+2, testRoutes())
		}
		numbers, all = w.generations()
		if fmt.Sprint(numbers) != "[11 1]" || all[1].Newest || all[1].ETag == all[0].ETag {
			t.Errorf("%+v", all)
		}
		time.Sleep(holdTime - 1)
		w.get("/api/v1/lookup/10.0.0.1?generation=1") // begins the minute anew
		time.Sleep(holdTime - 1)
		if rec := w.get("/api/v1/lookup/10.0.0.1?generation=1"); rec.Code != http.StatusOK {
			t.Errorf("%d: %s", rec.Code, rec.Body)
		}
		time.Sleep(holdTime + 1)
		wantProblem(t, w.get("/api/v1/lookup/10.0.0.1?generation=1"), http.StatusGone, "generation 1 is gone: there are 11.")
		w.api.Close()
	})
}

func TestEachTableHasItsOwnPast(t *testing.T) {
	w, tables := newTablesWorld(t, "blue")
	w.get("/api/v1/generations?table=blue")
	blue := openTable(t, tables, "blue")
	p := addPeer(t, blue.RIB, "more", 64999)
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: rib.AllIPv4}}, Attrs: announced(64999)})
	flush(t, blue)
	for target, want := range map[string]string{
		"/api/v1/diff?from=1&table=blue": `{"change":"added","prefix":"0.0.0.0/0"`, "/api/v1/lookup/1.1.1.1?table=blue&generation=1": `"prefix":null`, "/api/v1/lookup/1.1.1.1?table=blue&generation=2": `"prefix":"0.0.0.0/0"`,
		"/api/v1/asns/64999?table=blue": `"originated":{"ipv4":1,"ipv6":0}`,
	} {
		if got := w.get(target).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in %s", target, want, got)
		}
	}
	wantProblem(t, w.get("/api/v1/lookup/1.1.1.1?generation=2"), http.StatusGone, "there are 1")
	wantProblem(t, w.get("/api/v1/asns/64999"), http.StatusNotFound, "in no AS path")
}

// In generation N every route has origin N, while generations are published as fast as it goes:
// whatever is asked of one is answered from that one, or it is gone.
func TestPinnedAnswersAreOfTheirGenerationUnderChurn(t *testing.T) {
	w := emptyWorld(t, func(d *Deps) { d.Past = Past{Most: 2, Interval: time.Millisecond} })
	t.Cleanup(w.api.Close)
	routes := func(n uint64) []rib.Route {
		return []rib.Route{route("10.0.0.0/8", announced(uint32(n))), route("10.1.0.0/16", announced(uint32(n)))}
	}
	w.publish(1, routes(1))
	made := make([]*rib.Generation, 200)
	for i := range made {
		made[i] = makeGeneration(t, uint64(i+2), routes(uint64(i+2)))
	}
	var workers sync.WaitGroup
	var answered, gone atomic.Int64
	ended := make(chan struct{})
	for range 4 {
		workers.Go(func() {
			for last := false; !last; {
				select {
				case <-ended:
					last = true
				default:
				}
				var list struct{ Generations []generationAnswer }
				if rec := w.get("/api/v1/generations"); rec.Code != http.StatusOK || json.Unmarshal(rec.Body.Bytes(), &list) != nil {
					continue // busy
				}
				for _, g := range list.Generations {
					n := g.Number
					for _, target := range []string{"/api/v1/lookup/10.1.0.1?generation=%d", "/api/v1/routes?generation=%d", "/api/v1/asns/%[1]d?generation=%[1]d", "/api/v1/diff?from=%d"} {
						rec := w.get(fmt.Sprintf(target, n))
						switch rec.Code {
						case http.StatusOK:
							answered.Add(1)
							newest := rec.Header().Get("RIB-Generation")
							if !strings.Contains(target, "diff") && newest != fmt.Sprint(n) || !strings.Contains(rec.Body.String(), fmt.Sprintf(`"origin_asns":[%d]`, n)) && newest != fmt.Sprint(n) {
								t.Errorf("%s of %d: generation %s: %s", target, n, newest, rec.Body)
							}
						case http.StatusGone:
							gone.Add(1)
						case http.StatusServiceUnavailable: // busy
						default:
							t.Errorf("%s of %d: %d: %s", target, n, rec.Code, rec.Body)
						}
					}
				}
			}
		})
	}
	for _, g := range made {
		w.gens.Publish(g)
		time.Sleep(500 * time.Microsecond)
	}
	close(ended)
	workers.Wait()
	if answered.Load() == 0 {
		t.Error("nothing was answered")
	}
	t.Logf("%d answered, %d gone", answered.Load(), gone.Load())
}
