package igp_test

import (
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib/igp"
)

// fuzzRead reads any text. Nothing panics, what is wrong has an error with a line, and what is read is a
// topology that is written and read back, and has shortest paths.
func fuzzRead(f *testing.F, start string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		top, err := read(start+text, igp.ReadOptions{DefaultMetric: 10})
		if err != nil {
			if !strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "it is ") {
				t.Errorf("error without a line: %v", err)
			}
			return
		}
		writtenIsReadBack(t, top)
		arcs := arcsOf(top)
		for root := range uint32(min(3, len(top.Nodes))) {
			tree := top.Tree(root)
			for v, d := range bellmanFord(top, arcs, root) {
				if tree.Dist[v] != d {
					t.Fatalf("distance from %d to %d is %d, want %d", root, v, tree.Dist[v], d)
				}
				tree.Paths(uint32(v), 3)
			}
		}
	})
}

func FuzzReadRepetita(f *testing.F) {
	fuzzRead(f, "", repetitaText, strings.ReplaceAll(repetitaText, "\n", "\r\n"), "NODES 0\nlabel x y\nEDGES 0\nlabel src dest weight bw delay\n")
}

func FuzzReadGraphML(f *testing.F) {
	fuzzRead(f, "<", graphMLText[1:], strings.ReplaceAll(graphMLText, "undirected", "directed")[1:], "graphml><graph edgedefault=\"directed\"/></graphml>")
}

func FuzzReadJSON(f *testing.F) {
	fuzzRead(f, "{", jsonText[1:], `"nodes":[{"name":"a"},{"name":"é","prefixes":["::/0"]}],"links":[{"from":"a","to":"é","metric":4294967295,"reverse_metric":1}]}`)
}
