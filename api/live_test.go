package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

// The whole way: peers announce, the publisher publishes, the service answers.
func TestServiceOverPeersThatAnnounceAndWithdraw(t *testing.T) {
	routes := rib.New(rib.Options{})
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pub := rib.NewPublisher(routes, engine, rib.PublisherOptions{Source: "bgp"})
	w := &world{t: t, gens: pub.Generations()}
	w.api = New(Deps{Generations: w.gens, Peers: routes.Peers, Ready: pub.Ready, Paths: routes.Paths, PublisherStats: pub.Stats, EngineName: engine.Name()})
	t.Cleanup(w.gens.Withdraw)

	near, far := addPeer(t, routes, "near", 64500), addPeer(t, routes, "far", 64600)
	wantProblem(t, w.get("/readyz"), http.StatusServiceUnavailable, "far, near")

	prefix := rib.NLRI{Prefix: netip.MustParsePrefix("192.0.2.0/24")}
	near.Apply(rib.Update{Reach: []rib.NLRI{prefix}, Attrs: announced(64500, 64999)})
	far.Apply(rib.Update{Reach: []rib.NLRI{prefix}, Attrs: announced(64600, 64700, 64999)})
	near.Loaded()
	far.Loaded()
	if err := pub.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := w.get("/readyz"); rec.Code != http.StatusOK {
		t.Errorf("not ready: %s", rec.Body)
	}
	wantJSON(t, w.single("192.0.2.9"), `{"ip":"192.0.2.9","prefix":"192.0.2.0/24","next_hop":"198.51.100.1","as_path":[64500,64999],"origin_asns":[64999],"communities":[],"generation":1}`)
	paths := w.get("/api/v1/routes/192.0.2.0/24?include=paths").Body.String()
	for _, want := range []string{`"route":{"prefix":"192.0.2.0/24"`, `"peer":"near","path_id":0,"lost_by":null,"decision":null}`, `"peer":"far","path_id":0,"lost_by":"as-path-length","decision":{"step":"as-path-length","value":3,"best":2}}`} {
		if !strings.Contains(paths, want) {
			t.Errorf("no %s in %s", want, paths)
		}
	}

	near.Down("test")
	if err := pub.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, w.single("192.0.2.9"), `{"ip":"192.0.2.9","prefix":"192.0.2.0/24","next_hop":"198.51.100.1","as_path":[64600,64700,64999],"origin_asns":[64999],"communities":[],"generation":2}`)
	if got := w.get("/api/v1/peers").Body.String(); !strings.Contains(got, `"state":"down"`) {
		t.Errorf("peers: %s", got)
	}
}

func addPeer(t *testing.T, r *rib.RIB, name string, as uint32) *rib.Peer {
	t.Helper()
	p, err := r.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindBGP, AS: as, Addr: netip.MustParseAddr("192.0.2.1"), Awaited: true})
	if err != nil {
		t.Fatal(err)
	}
	p.Up(rib.Session{IPv4: true})
	return p
}

func announced(path ...uint32) rib.Attrs {
	return rib.Attrs{
		NextHop: netip.MustParseAddr("198.51.100.1"),
		ASPath:  rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: path}),
	}
}

// In generation N every route has origin N, so an answer that mixes two generations shows.
func TestAnswersNeverMixGenerations(t *testing.T) {
	w := emptyWorld(t, nil)
	publish := func(n int) {
		w.publish(uint64(n), []rib.Route{route("10.0.0.0/8", announced(uint32(n))), route("2001:db8::/32", announced(uint32(n)))})
	}
	publish(1)
	var ips strings.Builder
	for range 300 {
		ips.WriteString(`,"10.0.0.1","2001:db8::1"`)
	}
	body := `{"ips":[` + ips.String()[1:] + `]}`
	lines := strings.Repeat("10.0.0.1\n2001:db8::1\n", 300)

	done := make(chan struct{})
	var asking sync.WaitGroup
	check := func(rec *httptest.ResponseRecorder, answers ...json.RawMessage) {
		for _, raw := range answers {
			var a struct {
				Origins    []uint32 `json:"origin_asns"`
				Generation uint32   `json:"generation"`
			}
			if err := json.Unmarshal(raw, &a); err != nil || len(a.Origins) != 1 || a.Origins[0] != a.Generation || fmt.Sprint(a.Generation) != rec.Header().Get("RIB-Generation") {
				t.Errorf("header %s: %s (%v)", rec.Header().Get("RIB-Generation"), raw, err)
				return
			}
		}
	}
	for _, ask := range []func(){
		func() { rec := w.get("/api/v1/lookup/10.0.0.1"); check(rec, rec.Body.Bytes()) },
		func() {
			rec := w.do(http.MethodPost, lookupPath, "application/json", body)
			var all struct{ Results []json.RawMessage }
			if err := json.Unmarshal(rec.Body.Bytes(), &all); err != nil || len(all.Results) != 600 {
				t.Errorf("%d results, %v", len(all.Results), err)
			}
			check(rec, all.Results...)
		},
		func() {
			rec := w.do(http.MethodPost, lookupPath, "text/plain", lines)
			for line := range strings.Lines(rec.Body.String()) {
				check(rec, json.RawMessage(line))
			}
		},
	} {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					ask()
				}
			}
		})
	}
	for n := 2; n < 100; n++ {
		publish(n)
	}
	close(done)
	asking.Wait()
}
