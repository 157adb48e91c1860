package api

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ribwarp/ribwarp/rib"
)

func (w *world) decode(target string) (v map[string]any) {
	w.t.Helper()
	rec := w.get(target)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", target, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		w.t.Fatalf("%s: %v: %s", target, err, rec.Body)
	}
	return v
}

func TestStatusDescribesTheGeneration(t *testing.T) {
	w := newWorld(t, func(d *Deps) {
		d.PublisherStats = func() rib.PublisherStats { return rib.PublisherStats{Generations: 1, LastBuild: time.Second} }
	})
	s := w.decode("/api/v1/status")
	routes, _ := s["routes"].(map[string]any)
	table, _ := s["table"].(map[string]any)
	if s["generation"] != 1.0 || s["engine"] != "cpu" || routes["ipv4"] != 5.0 || routes["ipv6"] != 2.0 || s["ready"] != true || s["source"] != "test" || s["version"] != "v0.0.0-test" {
		t.Errorf("%v", s)
	}
	if bytes, _ := table["bytes"].(float64); bytes <= 0 {
		t.Errorf("table %v", table)
	}
	families, _ := table["families"].([]any)
	if len(families) != 2 {
		t.Errorf("table %v", table)
	}
	publisher, _ := s["publisher"].(map[string]any)
	if publisher["last_build_seconds"] != 1.0 {
		t.Errorf("publisher %v", publisher)
	}
	if age, ok := s["age_seconds"].(float64); !ok || age < 0 {
		t.Errorf("age %v", s["age_seconds"])
	}
}

func TestStatusBeforeTheFirstGeneration(t *testing.T) {
	w := emptyWorld(t, func(d *Deps) { d.Ready = func() (bool, []string) { return false, []string{"rrc00"} } })
	rec := w.get("/api/v1/status")
	if rec.Header().Get("RIB-Generation") != "0" {
		t.Errorf("header %v", rec.Header())
	}
	s := w.decode("/api/v1/status")
	if s["generation"] != 0.0 || s["ready"] != false || s["table"] != nil || s["created"] != nil || s["engine"] != "cpu" {
		t.Errorf("%v", s)
	}
	waiting, _ := s["waiting_for"].([]any)
	if len(waiting) != 1 || waiting[0] != "rrc00" {
		t.Errorf("waiting for %v", waiting)
	}
}

func TestReadyzIs200OnlyWhenReady(t *testing.T) {
	ready, waiting := false, []string{"192.0.2.1", "table.mrt"}
	w := emptyWorld(t, func(d *Deps) { d.Ready = func() (bool, []string) { return ready, waiting } })
	rec := w.get("/readyz")
	wantProblem(t, rec, http.StatusServiceUnavailable, "waiting for 192.0.2.1, table.mrt")
	if rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), `"waiting_for":["192.0.2.1","table.mrt"]`) {
		t.Errorf("%v %s", rec.Header(), rec.Body)
	}
	ready, waiting = true, nil
	wantProblem(t, w.get("/readyz"), http.StatusServiceUnavailable, "the first generation")
	w.publish(1, nil)
	wantJSON(t, w.get("/readyz").Body.String(), `{"ready":true,"generation":1}`)
	wantJSON(t, w.get("/healthz").Body.String(), `{"status":"ok","generation":1}`)
}

func TestReadyzSaysThatTheEngineIsDegraded(t *testing.T) {
	why := ""
	w := emptyWorld(t, func(d *Deps) { d.Degraded = func() string { return why } })
	w.publish(1, nil)
	wantJSON(t, w.get("/readyz").Body.String(), `{"ready":true,"generation":1}`)
	why = "device lost"
	rec := w.get("/readyz")
	wantJSON(t, rec.Body.String(), `{"ready":true,"generation":1,"degraded":"device lost"}`)
	if rec.Code != http.StatusOK {
		t.Errorf("status %d: it answers, so it is ready", rec.Code)
	}
}

func TestHealthzNeedsNoGeneration(t *testing.T) {
	wantJSON(t, emptyWorld(t, nil).get("/healthz").Body.String(), `{"status":"ok","generation":0}`)
}

func testPeers() []rib.PeerStatus {
	return []rib.PeerStatus{
		{Name: "192.0.2.1", Kind: rib.KindBGP, Addr: netip.MustParseAddr("192.0.2.1"), AS: 64500, RouterID: netip.MustParseAddr("192.0.2.9"), State: "established", Since: time.Unix(1e9, 0).UTC(), V4: 5, V6: 2, Updates: 3, EndOfRIB4: true, Loaded: true, Awaited: true},
		{Name: "list \xff.txt", Kind: rib.KindList, State: "loading"},
	}
}

func TestPeersShowsEveryPeer(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.Peers = testPeers })
	wantJSON(t, w.get("/api/v1/peers").Body.String(), `{"generation":1,"peers":[`+
		`{"name":"192.0.2.1","kind":"bgp","addr":"192.0.2.1","as":64500,"router_id":"192.0.2.9","state":"established","since":"2001-09-09T01:46:40Z","last_error":"","routes":{"ipv4":5,"ipv6":2},"updates":3,"end_of_rib":{"ipv4":true,"ipv6":false},"loaded":true,"awaited":true},`+
		`{"name":"list \ufffd.txt","kind":"list","addr":null,"as":0,"router_id":null,"state":"loading","since":null,"last_error":"","routes":{"ipv4":0,"ipv6":0},"updates":0,"end_of_rib":{"ipv4":false,"ipv6":false},"loaded":false,"awaited":false}]}`)
	wantJSON(t, emptyWorld(t, nil).get("/api/v1/peers").Body.String(), `{"generation":0,"peers":[]}`)
}

func TestMetricsCountWhatWasAsked(t *testing.T) {
	w := newWorld(t, func(d *Deps) {
		d.Peers = testPeers
		d.PublisherStats = func() rib.PublisherStats {
			return rib.PublisherStats{Generations: 4, LastLatency: 20 * time.Millisecond}
		}
	})
	w.get("/api/v1/lookup/10.1.2.3")
	w.get("/api/v1/lookup/::1")
	w.get("/api/v1/lookup/x")
	w.get("/nothing")
	w.do(http.MethodPost, lookupPath, "application/json", `{"ips":["10.1.2.3","9.9.9.9","x"]}`)
	w.do(http.MethodPost, lookupPath, "text/plain", "2001:db8::1\nx\n10.1.2.3\n10.1.2.3\n")
	w.get("/api/v1/routes/10.1.2.0/24")
	w.get("/api/v1/routes/::/0")
	w.get("/api/v1/routes/x")
	w.get("/api/v1/routes?limit=1")
	w.do(http.MethodPost, listPath, "application/json", `{"prefixes":["10.1.2.0/24","9.9.9.0/24","x"]}`)
	w.do(http.MethodPost, listPath, "text/plain", "2001:db8::/32\nx\n10.1.2.0/24\n")
	got := w.get("/metrics").Body.String()
	for _, want := range []string{
		`ribwarp_finds_total{endpoint="single",family="ipv4",result="hit"} 1`,
		`ribwarp_finds_total{endpoint="single",family="ipv6",result="miss"} 1`,
		`ribwarp_finds_total{endpoint="single",family="none",result="invalid"} 1`,
		`ribwarp_finds_total{endpoint="json",family="ipv4",result="hit"} 1`,
		`ribwarp_finds_total{endpoint="json",family="ipv4",result="miss"} 1`,
		`ribwarp_finds_total{endpoint="json",family="none",result="invalid"} 1`,
		`ribwarp_finds_total{endpoint="stream",family="ipv4",result="hit"} 1`,
		`ribwarp_finds_total{endpoint="stream",family="ipv6",result="hit"} 1`,
		`ribwarp_finds_total{endpoint="stream",family="none",result="invalid"} 1`,
		`ribwarp_held_generations{table="default"} 1`,
		`ribwarp_http_request_duration_seconds_count{code="200",route="/api/v1/routes"} 3`,
		`ribwarp_lookups_total{endpoint="single",family="ipv4",result="hit"} 1`,
		`ribwarp_lookups_total{endpoint="single",family="ipv6",result="miss"} 1`,
		`ribwarp_lookups_total{endpoint="single",family="none",result="invalid"} 1`,
		`ribwarp_lookups_total{endpoint="json",family="ipv4",result="hit"} 1`,
		`ribwarp_lookups_total{endpoint="json",family="ipv4",result="miss"} 1`,
		`ribwarp_lookups_total{endpoint="json",family="none",result="invalid"} 1`,
		`ribwarp_lookups_total{endpoint="stream",family="ipv4",result="hit"} 2`,
		`ribwarp_lookups_total{endpoint="stream",family="ipv6",result="hit"} 1`,
		`ribwarp_lookups_total{endpoint="stream",family="none",result="invalid"} 1`,
		`ribwarp_http_request_duration_seconds_count{code="200",route="/api/v1/lookup/:ip"} 2`,
		`ribwarp_http_request_duration_seconds_count{code="400",route="/api/v1/lookup/:ip"} 1`,
		`ribwarp_http_request_duration_seconds_count{code="404",route="none"} 1`,
		`ribwarp_generation_number{table="default"} 1`,
		`ribwarp_ready 1`,
		`ribwarp_table_ready{table="default"} 1`,
		`ribwarp_routes{family="ipv4",table="default"} 5`,
		`ribwarp_routes{family="ipv6",table="default"} 2`,
		`ribwarp_peers{state="established",table="default"} 1`,
		`ribwarp_peers{state="down",table="default"} 0`,
		`ribwarp_peer_routes{family="ipv4",peer="192.0.2.1",table="default"} 5`,
		`ribwarp_publisher_generations_total{table="default"} 4`,
		`ribwarp_publisher_last_latency_seconds{table="default"} 0.02`,
		`ribwarp_build_info{commit="abc",date="2026-01-01",engine="cpu",goversion="go`,
		`ribwarp_table_bytes{family="ipv4",table="default"} `,
		`go_goroutines `,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "ribwarp_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
