package igp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

const repetitaText = `NODES 3
label x y
Paris 0.0 0.0
Berlin 1 2
Rome 0 0

EDGES 5
label src dest weight bw delay
Link_0 0 1 250 10000000 4
Link_1 1 0 300 10000000 4
Link_2 0 1 7 10000000 4
Link_3 1 0 8 10000000 4
Link_4 2 0 1 10000000 4
`

const graphMLText = `<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1"/>
  <key attr.name="weight" attr.type="double" for="edge" id="d2"><default>40</default></key>
  <key attr.name="cost" attr.type="int" for="edge" id="d3"/>
  <graph edgedefault="undirected">
    <data key="d0">about the graph</data>
    <node id="0"><data key="d1">Paris</data></node>
    <node id="1"><data key="d1">Berlin</data></node>
    <node id="2"><data key="d1">Paris</data></node>
    <node id="3"><data key="d1">1</data></node>
    <node id="4"/>
    <edge id="e1" source="0" target="1"><data key="d2">10.0</data><data key="d3">3</data></edge>
    <edge source="1" target="2"><data key="d3">4</data></edge>
    <edge source="4" target="3" directed="true"><data key="d2">5</data><data key="d3">5</data></edge>
    <edge source="3" target="4" directed="true"><data key="d2">6</data><data key="d3">6</data></edge>
  </graph>
</graphml>
`

const jsonText = `{
  "max_metric": 16777215,
  "nodes": [
    {"name": "a", "addresses": ["192.0.2.1", "2001:db8::1"]},
    {"name": "b", "prefixes": ["198.51.100.0/24", {"prefix": "203.0.113.0/24", "metric": 7}], "overload": true}
  ],
  "links": [
    {"name": "ab", "reverse_name": "ba", "from": "a", "to": "b", "metric": 10, "reverse_metric": 16777215},
    {"from": "b", "to": "a", "metric": 0}
  ]
}
`

func read(text string, o igp.ReadOptions) (*igp.Topology, error) {
	return igp.Read(strings.NewReader(text), o)
}

func TestReadForms(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          igp.ReadOptions
		nodes      []string
		links      []igp.Link
	}{
		{"repetita", repetitaText, igp.ReadOptions{MaxMetric: 300}, []string{"Paris", "Berlin", "Rome"}, []igp.Link{
			{Name: "Link_0", ReverseName: "Link_1", From: "Paris", To: "Berlin", Metric: 250, Reverse: igp.Unused},
			{Name: "Link_2", ReverseName: "Link_3", From: "Paris", To: "Berlin", Metric: 7, Reverse: 8},
			{Name: "Link_4", From: "Rome", To: "Paris", Metric: 1, Reverse: igp.Unused},
		}},
		{"graphml", graphMLText, igp.ReadOptions{}, []string{"0", "Berlin", "2", "3", "4"}, []igp.Link{
			{Name: "e1", From: "0", To: "Berlin", Metric: 10, Reverse: 10},
			{Name: "Berlin--2", From: "Berlin", To: "2", Metric: 40, Reverse: 40},
			{Name: "4--3", From: "4", To: "3", Metric: 5, Reverse: 6},
		}},
		{"graphml, another attribute", graphMLText, igp.ReadOptions{MetricName: "cost"}, []string{"0", "Berlin", "2", "3", "4"}, []igp.Link{
			{Name: "e1", From: "0", To: "Berlin", Metric: 3, Reverse: 3},
			{Name: "Berlin--2", From: "Berlin", To: "2", Metric: 4, Reverse: 4},
			{Name: "4--3", From: "4", To: "3", Metric: 5, Reverse: 6},
		}},
		{"graphml, none", strings.ReplaceAll(graphMLText, `"directed"`, ""), igp.ReadOptions{MetricName: "none", DefaultMetric: 9}, []string{"0", "Berlin", "2", "3", "4"}, []igp.Link{
			{Name: "e1", From: "0", To: "Berlin", Metric: 9, Reverse: 9},
			{Name: "Berlin--2", From: "Berlin", To: "2", Metric: 9, Reverse: 9},
			{Name: "4--3", From: "4", To: "3", Metric: 9, Reverse: 9},
		}},
		{"json", jsonText, igp.ReadOptions{}, []string{"a", "b"}, []igp.Link{
			{Name: "ab", ReverseName: "ba", From: "a", To: "b", Metric: 10, Reverse: igp.Unused},
			{Name: "b--a", From: "b", To: "a"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, err := read(c.text, c.o)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, n := range top.Nodes {
				names = append(names, n.Name)
			}
			if !slices.Equal(names, c.nodes) {
				t.Errorf("nodes %q, want %q", names, c.nodes)
			}
			if !slices.Equal(top.Links, c.links) {
				t.Errorf("links %+v,\nwant %+v", top.Links, c.links)
			}
		})
	}
	top, err := read("\xef\xbb\xbf \n"+jsonText, igp.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(top.Nodes); text != "[{a [192.0.2.1 2001:db8::1] [] false} {b [] [{198.51.100.0/24 0} {203.0.113.0/24 7}] true}]" {
		t.Error(text)
	}
}

func TestWrongFilesNameTheLine(t *testing.T) {
	edit := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the text", old)
		}
		return strings.Replace(text, old, new, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", " \n", "it is empty"},
		{"else", "hello\n", `line 1: "hello": here must be "NODES"`},
		{"repetita no count", edit(repetitaText, "NODES 3", "NODES x"), `line 1: NODES "x" is no number`},
		{"repetita count", edit(repetitaText, "NODES 3", "NODES 99999999999999999999"), "line 1: NODES"},
		{"repetita too many nodes", edit(repetitaText, "NODES 3", "NODES 1000000"), `line 7: "EDGES 5": a line of NODES has 3 fields: label x y`},
		{"repetita columns", edit(repetitaText, "label x y", "label y x"), `line 2: "label y x": here must be the columns' names "label x y"`},
		{"repetita fewer nodes", edit(repetitaText, "NODES 3", "NODES 2"), `line 5: "Rome 0 0": here must be "EDGES"`},
		{"repetita same node", edit(repetitaText, "Rome 0 0", "Paris 0 0"), `line 5: node 2 ("Paris"): its name is another one's already`},
		{"repetita node number", edit(repetitaText, "Link_1 1 0", "Link_1 3 0"), `line 10: edge "Link_1": node "3" is no number from 0 to 2`},
		{"repetita negative", edit(repetitaText, "300", "-1"), `line 10: edge "Link_1": metric "-1": give a whole number from 0 to 4294967295`},
		{"repetita fraction", edit(repetitaText, "300", "3.5"), `line 10: edge "Link_1": metric "3.5"`},
		{"repetita large", edit(repetitaText, "300", "4294967296"), `line 10: edge "Link_1": metric 4294967296: 4294967295 at most`},
		{"repetita same edge", edit(repetitaText, "Link_4", "Link_0"), `line 13: link 2 ("Link_0"): its name is another`},
		{"repetita fields", edit(repetitaText, " 10000000 4\n", " 10000000\n"), "line 9: \"Link_0 0 1 250 10000000\": a line of EDGES has 6 fields"},
		{"repetita short", repetitaText[:strings.Index(repetitaText, "Link_4")], "line 12: the file ends within its 5 EDGES"},
		{"repetita long", repetitaText + "more\n", `line 14: "more" comes behind`},

		{"graphml syntax", edit(graphMLText, "</node>", ""), "line 17: XML: element <node> closed by </graph>"},
		{"graphml other", "<html></html>", "without a graph"},
		{"graphml two", edit(graphMLText, "</graph>\n", "</graph>\n<graph edgedefault=\"directed\"/>\n"), "line 18: there is more than one graph"},
		{"graphml kind", edit(graphMLText, `"undirected"`, `"both"`), `line 6: edgedefault "both"`},
		{"graphml same node", edit(graphMLText, `<node id="1">`, `<node id="0">`), `line 9: node "0": every node needs an id of its own`},
		{"graphml end", edit(graphMLText, `target="2"`, `target="22"`), `line 14: edge "": there is no node "22"`},
		{"graphml no metric", edit(graphMLText, "<default>40</default>", ""), `line 14: edge "" from "1" to "2": it has no attribute "weight", which is to be its metric: name another one or give a metric for those without; edges here may have "weight", "cost"`},
		{"graphml metric", edit(graphMLText, "10.0", "fast"), `line 13: edge "e1" from "0" to "1": metric "fast"`},
		{"graphml directed", edit(graphMLText, `directed="true"`, `directed="yes"`), `line 15: edge "": directed="yes"`},
		{"graphml nested", edit(graphMLText, `<node id="4"/>`, "<node id=\"4\"><graph/></node>"), `line 12: node "4" holds a graph`},
		{"graphml hyperedge", edit(graphMLText, `<node id="4"/>`, "<hyperedge/>"), "line 12: a hyperedge"},

		{"json key", edit(jsonText, "max_metric", "maximum"), `line 2: "maximum" is no key here`},
		{"json twice", edit(jsonText, `"max_metric": 16777215`, `"nodes": []`), `line 3: "nodes" is there twice`},
		{"json no nodes", "{}", `line 1: there are no "nodes"`},
		{"json array", `{"nodes": 7}`, `line 1: "nodes" is no array`},
		{"json behind", jsonText + "x", "line 12: something comes behind"},
		{"json short", jsonText[:strings.Index(jsonText, `"links"`)], "the JSON ends too early"},
		{"json field", edit(jsonText, `"overload"`, `"overlord"`), `line 5: nodes[1]: json: unknown field "overlord"`},
		{"json address", edit(jsonText, "192.0.2.1", "192.0.2.300"), "line 4: nodes[0]: "},
		{"json prefix", edit(jsonText, "198.51.100.0/24", "198.51.100.1/24"), `line 5: node 1 ("b"): 198.51.100.1/24 is no`},
		{"json prefix's field", edit(jsonText, `"metric": 7`, `"cost": 7`), `line 5: nodes[1]: json: unknown field "cost"`},
		{"json no metric", edit(jsonText, `, "metric": 10`, ""), "line 8: links[0]: it has no metric"},
		{"json metric", edit(jsonText, `"metric": 10`, `"metric": "10"`), `line 8: links[0]: "metric": string is not what belongs here`},
		{"json negative", edit(jsonText, `"metric": 10`, `"metric": -10`), `line 8: links[0]: "metric": number -10 is not what belongs here`},
		{"json large", edit(jsonText, `"metric": 0`, `"metric": 16777216`), `line 9: link 1 (""): metric 16777216: 16777215 at most`},
		{"json end", edit(jsonText, `"to": "b"`, `"to": "c"`), `line 8: link 0 ("ab"): its node "c" is not there`},
		{"json syntax", edit(jsonText, `"to": "b"`, `"to": b`), "line 8: links[0]: invalid character 'b'"},
	} {
		if _, err := read(c.text, igp.ReadOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.graph")
	if _, err := igp.ReadFile(path, igp.ReadOptions{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("NODES\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := igp.ReadFile(path, igp.ReadOptions{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestRealTopologiesAreWhole(t *testing.T) {
	links := map[string]int{"rf1221": 151, "rf1239": 972, "rf1755": 161, "rf3257": 328, "rf3967": 147, "rf6461": 372}
	for _, name := range realTopologies {
		top := readReal(t, name)
		if len(top.Links) != links[name] || len(top.Graph.Arcs) != 2*links[name] {
			t.Errorf("%s: %d links, %d arcs", name, len(top.Links), len(top.Graph.Arcs))
		}
		for _, l := range top.Links {
			if l.Metric != l.Reverse || l.ReverseName == "" {
				t.Errorf("%s: link %+v", name, l)
			}
		}
		writtenIsReadBack(t, top)
	}
}

// writtenIsReadBack writes a topology and reads it.
func writtenIsReadBack(t *testing.T, top *igp.Topology) {
	t.Helper()
	var text bytes.Buffer
	if err := igp.Write(&text, top); err != nil {
		t.Fatal(err)
	}
	again, err := igp.Read(&text, igp.ReadOptions{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text.Bytes())
	}
	if len(again.Nodes) != len(top.Nodes) || !slices.Equal(again.Links, top.Links) || !reflect.DeepEqual(again.Graph, top.Graph) {
		t.Fatalf("%+v and %+v\nwere %+v and %+v", again.Nodes, again.Links, top.Nodes, top.Links)
	}
	for i, n := range top.Nodes {
		m := again.Nodes[i]
		if m.Name != n.Name || m.Overload != n.Overload || !slices.Equal(m.Addresses, n.Addresses) || !slices.Equal(m.Prefixes, n.Prefixes) {
			t.Fatalf("%+v was %+v", m, n)
		}
	}
}

func TestWrittenTopologiesAreReadBack(t *testing.T) {
	eachRandom(t, 10, 20, 60, func(t *testing.T, _ *rand.Rand, top *igp.Topology) { writtenIsReadBack(t, top) })
	writtenIsReadBack(t, fixtures.Topology(5, 100, 400))
	top, err := read(jsonText, igp.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writtenIsReadBack(t, top)
}

func TestWriteTellsOfErrors(t *testing.T) {
	if err := igp.Write(fullDisk{}, fixtures.Topology(5, 1000, 4000)); err == nil {
		t.Error("no error")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, os.ErrClosed }
