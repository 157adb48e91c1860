package igp

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// GraphML as the Internet Topology Zoo has it: one graph of nodes and edges. An edge of an undirected
// graph has its metric both ways; one of a directed graph goes one way, and two that go to and fro are a
// link. A node's name is its attribute "label" where no other node has that label or is called so, or
// else its id. An edge's name is its id, if it has one.

// A graphMLKey declares an attribute.
type graphMLKey struct {
	ID      string  `xml:"id,attr"`
	For     string  `xml:"for,attr"`
	Name    string  `xml:"attr.name,attr"`
	Default *string `xml:"default"`
}

// is tells whether the key is an attribute of this kind of element, node or edge, with this name.
func (k *graphMLKey) is(kind, name string) bool {
	return k.Name == name && (k.For == kind || k.For == "all" || k.For == "")
}

type graphMLData struct {
	Key   string `xml:"key,attr"`
	Value string `xml:",chardata"`
}

type graphMLNode struct {
	ID     string        `xml:"id,attr"`
	Data   []graphMLData `xml:"data"`
	Graphs []struct{}    `xml:"graph"`
	line   int
}

type graphMLEdge struct {
	ID       string        `xml:"id,attr"`
	Source   string        `xml:"source,attr"`
	Target   string        `xml:"target,attr"`
	Directed string        `xml:"directed,attr"`
	Data     []graphMLData `xml:"data"`
	line     int
}

// A graphMLReader collects what elements say.
type graphMLReader struct {
	o        ReadOptions
	keys     []graphMLKey
	nodes    []graphMLNode
	ids      map[string]int // of nodes
	edges    []graphMLEdge
	graphs   int
	directed bool
}

func readGraphML(text []byte, o ReadOptions) (*Topology, error) {
	r := graphMLReader{o: o, ids: map[string]int{}}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		line, _ := d.InputPos()
		if err == nil {
			if start, ok := token.(xml.StartElement); ok {
				err = r.element(d, start, line)
			}
		}
		var syntax *xml.SyntaxError
		switch {
		case err == nil:
		case errors.As(err, &syntax): // it names the line
			return nil, fmt.Errorf("line %d: XML: %s", syntax.Line, syntax.Msg)
		default:
			return nil, lineError(line, err)
		}
	}
	if r.graphs == 0 {
		return nil, errors.New("it is XML without a graph, no GraphML")
	}
	return r.topology()
}

// element takes in an element, with what is in it for all but graphml and graph.
func (r *graphMLReader) element(d *xml.Decoder, start xml.StartElement, line int) error {
	switch start.Name.Local {
	case "graphml":
		return nil
	case "graph":
		if r.graphs++; r.graphs > 1 {
			return errors.New("there is more than one graph")
		}
		for _, a := range start.Attr {
			if a.Name.Local == "edgedefault" {
				r.directed = a.Value == "directed"
				if !r.directed && a.Value != "undirected" {
					return fmt.Errorf("edgedefault %q: it is directed or undirected", a.Value)
				}
			}
		}
		return nil
	case "key":
		var k graphMLKey
		if err := d.DecodeElement(&k, &start); err != nil {
			return err
		}
		r.keys = append(r.keys, k)
		return nil
	case "node":
		n := graphMLNode{line: line}
		if err := d.DecodeElement(&n, &start); err != nil {
			return err
		}
		if _, taken := r.ids[n.ID]; taken || n.ID == "" {
			return fmt.Errorf("node %q: every node needs an id of its own", n.ID)
		}
		if len(n.Graphs) > 0 {
			return fmt.Errorf("node %q holds a graph: nested graphs are no topology", n.ID)
		}
		r.ids[n.ID] = len(r.nodes)
		r.nodes = append(r.nodes, n)
		return nil
	case "edge":
		e := graphMLEdge{line: line}
		if err := d.DecodeElement(&e, &start); err != nil {
			return err
		}
		r.edges = append(r.edges, e)
		return nil
	case "hyperedge":
		return errors.New("a hyperedge: make it a node with edges")
	}
	return d.Skip()
}

// topology makes nodes and links of what was read.
func (r *graphMLReader) topology() (*Topology, error) {
	names := r.names()
	var found, oneWay listing
	for i, name := range names {
		found.node(r.nodes[i].line, Node{Name: name})
	}
	for _, e := range r.edges {
		l := Link{Name: e.ID}
		for _, end := range []struct {
			id   string
			name *string
		}{{e.Source, &l.From}, {e.Target, &l.To}} {
			i, ok := r.ids[end.id]
			if !ok {
				return nil, lineError(e.line, fmt.Errorf("edge %q: there is no node %q", e.ID, end.id))
			}
			*end.name = names[i]
		}
		var err error
		if l.Metric, err = r.metric(&e); err != nil {
			return nil, lineError(e.line, fmt.Errorf("edge %q from %q to %q: %w", e.ID, e.Source, e.Target, err))
		}
		directed := r.directed
		switch e.Directed {
		case "":
		case "true", "false":
			directed = e.Directed == "true"
		default:
			return nil, lineError(e.line, fmt.Errorf("edge %q: directed=%q: it is true or false", e.ID, e.Directed))
		}
		if directed {
			oneWay.link(e.line, l)
		} else {
			l.Reverse = l.Metric
			found.link(e.line, l)
		}
	}
	found.pairs(&oneWay)
	return found.topology()
}

// names gives the nodes' names.
func (r *graphMLReader) names() []string {
	labels := make([]string, len(r.nodes))
	count := map[string]int{}
	for i, n := range r.nodes {
		labels[i], _ = r.attribute("node", "label", n.Data)
		labels[i] = strings.TrimSpace(labels[i])
		count[labels[i]]++
	}
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.ID
		other, isID := r.ids[labels[i]]
		if count[labels[i]] == 1 && (!isID || other == i) && checkName(labels[i]) == nil {
			names[i] = labels[i]
		}
	}
	return names
}

// attribute gives an element's value of an attribute, or its default.
func (r *graphMLReader) attribute(kind, name string, data []graphMLData) (value string, ok bool) {
	for _, k := range r.keys {
		if !k.is(kind, name) {
			continue
		}
		for _, d := range data {
			if d.Key == k.ID {
				return d.Value, true
			}
		}
		if k.Default != nil {
			return *k.Default, true
		}
	}
	return "", false
}

func (r *graphMLReader) metric(e *graphMLEdge) (uint32, error) {
	if text, ok := r.attribute("edge", r.o.MetricName, e.Data); ok {
		return r.o.metric(strings.TrimSpace(text))
	}
	if r.o.DefaultMetric != 0 {
		return r.o.check(uint64(r.o.DefaultMetric))
	}
	var has []string
	for _, k := range r.keys {
		if k.is("edge", k.Name) {
			has = append(has, fmt.Sprintf("%q", k.Name))
		}
	}
	return 0, fmt.Errorf("it has no attribute %q, which is to be its metric: name another one or give a metric for those without; edges here may have %s", r.o.MetricName, strings.Join(has, ", "))
}
