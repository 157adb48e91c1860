package igp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// ReadOptions say what a file does not say itself. The zero value is fine for JSON and Repetita's form.
type ReadOptions struct {
	// MaxMetric is the metric of a direction that no path takes; larger ones are errors. 0: Unused.
	MaxMetric uint32
	// MetricName is the name of the edges' attribute in GraphML that is the metric. "": weight.
	MetricName string
	// DefaultMetric is that of edges in GraphML without one; 0: an edge without one is an error.
	DefaultMetric uint32
}

// maxFile is the most bytes of a file: a million links in the wordiest form.
const maxFile = 1 << 30

// ReadFile is Read for a file; errors name it.
func ReadFile(path string, o ReadOptions) (*Topology, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	t, err := Read(f, o)
	if err != nil {
		return nil, fmt.Errorf("topology of %s: %w", path, err)
	}
	return t, nil
}

// Read reads a topology, in the form that its first character tells: JSON as Write writes it, GraphML, or
// else Repetita's NODES and EDGES. Whatever is wrong is an error that names the line; nothing is passed
// over.
func Read(from io.Reader, o ReadOptions) (*Topology, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if o.MaxMetric == 0 {
		o.MaxMetric = Unused
	}
	if o.MetricName == "" {
		o.MetricName = "weight"
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	start := bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(start) == 0:
		return nil, errors.New("it is empty")
	case start[0] == '{':
		return readJSON(text, o)
	case start[0] == '<':
		return readGraphML(text, o)
	}
	return readRepetita(text, o)
}

// lineError says at which line, counted from 1, something is wrong.
func lineError(line int, err error) error { return fmt.Errorf("line %d: %w", line, err) }

// A listing is what a reader has found, with the line of each.
type listing struct {
	nodes                []Node
	links                []Link
	nodeLines, linkLines []int
}

func (l *listing) node(line int, n Node) {
	l.nodes, l.nodeLines = append(l.nodes, n), append(l.nodeLines, line)
}

func (l *listing) link(line int, x Link) {
	l.links, l.linkLines = append(l.links, x), append(l.linkLines, line)
}

// topology makes a topology of the listing.
func (l *listing) topology() (*Topology, error) {
	t, err := New(l.nodes, l.links)
	var item *ItemError
	if errors.As(err, &item) {
		lines := l.nodeLines
		if item.Kind == "link" {
			lines = l.linkLines
		}
		return nil, lineError(lines[item.Index], err)
	}
	return t, err
}

// metric reads a metric.
func (o *ReadOptions) metric(text string) (uint32, error) {
	// Weights of GraphML are doubles often.
	whole, fraction, _ := strings.Cut(text, ".")
	m, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" {
		return 0, fmt.Errorf("metric %q: give a whole number from 0 to %d", text, o.MaxMetric)
	}
	return o.check(m)
}

// check turns the metric of a direction that no path takes into Unused.
func (o *ReadOptions) check(m uint64) (uint32, error) {
	switch {
	case m > uint64(o.MaxMetric):
		return 0, fmt.Errorf("metric %d: %d at most, which takes the link out", m, o.MaxMetric)
	case m == uint64(o.MaxMetric):
		return Unused, nil
	}
	return uint32(m), nil
}

// pairs makes links of edges that go one way: an edge and the next one back between the same nodes are
// one link; what has none is a link of one way.
func (l *listing) pairs(edges *listing) {
	type ends struct{ from, to string }
	open := map[ends][]int{} // links without a way back yet
	for i, e := range edges.links {
		back := ends{e.To, e.From}
		if waiting := open[back]; len(waiting) > 0 {
			x := &l.links[waiting[0]]
			x.Reverse, x.ReverseName = e.Metric, e.Name
			open[back] = waiting[1:]
			continue
		}
		there := ends{e.From, e.To}
		open[there] = append(open[there], len(l.links))
		e.Reverse = Unused
		l.link(edges.linkLines[i], e)
	}
}

// number reads a count or a node's number.
func number(text string, below int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > math.MaxInt || int(n) >= below {
		return 0, fmt.Errorf("%q is no number from 0 to %d", text, below-1)
	}
	return int(n), nil
}
