package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/hotpotato"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// testTopology has two ways from a to d, and z alone.
const testTopology = `{"nodes": [{"name": "a", "addresses": ["192.0.2.1"]}, {"name": "b", "addresses": ["192.0.2.2"]}, {"name": "c"},
	{"name": "d", "addresses": ["192.0.2.4"]}, {"name": "z", "addresses": ["192.0.2.26"]}],
	"links": [{"name": "ab", "from": "a", "to": "b", "metric": 1}, {"name": "ac", "from": "a", "to": "c", "metric": 2},
	{"name": "bd", "from": "b", "to": "d", "metric": 4}, {"name": "cd", "from": "c", "to": "d", "metric": 3}]}`

// withIGP gives a service an IGP of this topology.
func withIGP(t testing.TB, tables hotpotato.Tables, topology, root string) *hotpotato.Keeper {
	t.Helper()
	read, err := igp.Read(strings.NewReader(topology), igp.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k := hotpotato.New(hotpotato.Options{Tables: tables, Log: slog.New(slog.DiscardHandler)})
	k.Set(hotpotato.Config{Source: "backbone.json", Root: root}, hotpotato.File(read))
	return k
}

func igpWorld(t testing.TB) *world {
	return newWorld(t, func(d *Deps) { d.IGP = withIGP(t, rib.New(rib.Options{}), testTopology, "a") })
}

func TestIGP(t *testing.T) {
	w := igpWorld(t)
	var got igpStatus
	rec := w.get("/api/v1/igp")
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", rec.Code, err, rec.Body)
	}
	if got.Source != "backbone.json" || got.Generation != 2 || got.Nodes != 5 || got.Links != 4 || *got.Root != "a" || got.Changed == nil || got.Topology != nil {
		t.Errorf("%s", rec.Body)
	}
	rec = w.get("/api/v1/igp?include=topology")
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	again, err := igp.Read(strings.NewReader(string(got.Topology)), igp.ReadOptions{})
	if err != nil || len(again.Nodes) != 5 || len(again.Links) != 4 {
		t.Errorf("the topology as a file: %v: %s", err, got.Topology)
	}
	if s := w.get("/api/v1/status").Body.String(); !strings.Contains(s, `"igp":{"source":"backbone.json","generation":2`) {
		t.Errorf("status: %s", s)
	}
}

func TestIGPPaths(t *testing.T) {
	w := igpWorld(t)
	wantJSON(t, w.get("/api/v1/igp/paths?from=a&to=192.0.2.4").Body.String(),
		`{"igp_generation":2,"from":"a","to":[{"node":"d","distance":5,"first_hops":[{"link":"ab","node":"b"},{"link":"ac","node":"c"}],`+
			`"paths":[[{"link":"ab","node":"b"},{"link":"bd","node":"d"}],[{"link":"ac","node":"c"},{"link":"cd","node":"d"}]]}]}`)
	wantJSON(t, w.get("/api/v1/igp/paths?from=a&to=d&paths=1").Body.String(),
		`{"igp_generation":2,"from":"a","to":[{"node":"d","distance":5,"first_hops":[{"link":"ab","node":"b"},{"link":"ac","node":"c"}],`+
			`"paths":[[{"link":"ab","node":"b"},{"link":"bd","node":"d"}]],"more_paths":true}]}`)
	wantJSON(t, w.get("/api/v1/igp/paths?from=z").Body.String(),
		`{"igp_generation":2,"from":"z","to":[{"node":"a","distance":null,"first_hops":[]},{"node":"b","distance":null,"first_hops":[]},`+
			`{"node":"c","distance":null,"first_hops":[]},{"node":"d","distance":null,"first_hops":[]}]}`)
	for _, c := range []struct {
		query, detail string
		status        int
	}{
		{"", "from is missing", 400},
		{"?from=a&to=", "to is missing", 400},
		{"?from=dd", `there is no node "dd"; near names: "d"`, 404},
		{"?from=203.0.113.1", "no node announces 203.0.113.1", 404},
		{"?from=a&paths=x", "paths is", 400},
		{"?from=a&from=b", "2 times", 400},
		{"?from=a&via=b", `unknown parameter "via"`, 400},
	} {
		wantProblem(t, w.get("/api/v1/igp/paths"+c.query), c.status, c.detail)
	}
	wantProblem(t, w.get("/api/v1/igp?include=all"), 400, "there is topology")
}

func TestWithoutAnIGP(t *testing.T) {
	for _, w := range []*world{
		newWorld(t, nil),
		newWorld(t, func(d *Deps) { d.IGP = hotpotato.New(hotpotato.Options{Tables: rib.New(rib.Options{})}) }),
	} {
		wantProblem(t, w.get("/api/v1/igp"), 404, "[serve.igp]")
		wantProblem(t, w.get("/api/v1/igp/paths?from=a"), 404, "[serve.igp]")
		if s := w.get("/api/v1/status").Body.String(); strings.Contains(s, `"igp"`) {
			t.Errorf("status: %s", s)
		}
	}
}
