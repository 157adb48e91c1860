package igp

import (
	"bytes"
	"fmt"
	"strings"
)

// readRepetita reads the form of the topologies of Repetita (S. Gay, P. Schaus, S. Vissicchio, 2017):
//
//	NODES 2
//	label x y
//	Paris 0.0 0.0
//	Berlin 0.0 0.0
//
//	EDGES 2
//	label src dest weight bw delay
//	Link_0 0 1 250 10000000 4
//	Link_1 1 0 250 10000000 4
//
// An edge is one direction; two that go to and fro are a link. Places, bandwidths and delays are not
// read.
func readRepetita(text []byte, o ReadOptions) (*Topology, error) {
	lines := repetitaLines{text: text}
	rows, err := lines.section("NODES", "label", "x", "y")
	if err != nil {
		return nil, err
	}
	var found, edges listing
	for range rows.count {
		fields, err := lines.row(rows)
		if err != nil {
			return nil, err
		}
		found.node(lines.line, Node{Name: fields[0]})
	}
	if rows, err = lines.section("EDGES", "label", "src", "dest", "weight", "bw", "delay"); err != nil {
		return nil, err
	}
	for range rows.count {
		fields, err := lines.row(rows)
		if err != nil {
			return nil, err
		}
		var ends [2]int
		for i := range ends {
			if ends[i], err = number(fields[1+i], len(found.nodes)); err != nil {
				return nil, lineError(lines.line, fmt.Errorf("edge %q: node %w", fields[0], err))
			}
		}
		metric, err := o.metric(fields[3])
		if err != nil {
			return nil, lineError(lines.line, fmt.Errorf("edge %q: %w", fields[0], err))
		}
		edges.link(lines.line, Link{Name: fields[0], From: found.nodes[ends[0]].Name, To: found.nodes[ends[1]].Name, Metric: metric})
	}
	if fields := lines.next(); fields != nil {
		return nil, lineError(lines.line, fmt.Errorf("%q comes behind the last edge", strings.Join(fields, " ")))
	}
	found.pairs(&edges)
	return found.topology()
}

// repetitaLines are the lines of a file, without blank ones.
type repetitaLines struct {
	text []byte
	line int // of the last one given
}

// next gives the fields of the next line; nil at the end.
func (l *repetitaLines) next() []string {
	for len(l.text) > 0 {
		var line []byte
		line, l.text, _ = bytes.Cut(l.text, []byte("\n"))
		l.line++
		if fields := strings.Fields(string(line)); len(fields) > 0 {
			return fields
		}
	}
	return nil
}

// repetitaRows is a section's table.
type repetitaRows struct {
	section string
	count   int
	columns []string
}

// section reads a section's two heads.
func (l *repetitaLines) section(name string, columns ...string) (*repetitaRows, error) {
	fields := l.next()
	if len(fields) != 2 || fields[0] != name {
		return nil, lineError(max(1, l.line), fmt.Errorf("%q: here must be %q and their number", strings.Join(fields, " "), name))
	}
	count, err := number(fields[1], maxLinks)
	if err != nil {
		return nil, lineError(l.line, fmt.Errorf("%s %w", name, err))
	}
	if fields = l.next(); strings.Join(fields, " ") != strings.Join(columns, " ") {
		return nil, lineError(l.line, fmt.Errorf("%q: here must be the columns' names %q", strings.Join(fields, " "), strings.Join(columns, " ")))
	}
	return &repetitaRows{name, count, columns}, nil
}

// row reads the next row.
func (l *repetitaLines) row(r *repetitaRows) ([]string, error) {
	fields := l.next()
	switch {
	case fields == nil:
		return nil, lineError(max(1, l.line), fmt.Errorf("the file ends within its %d %s", r.count, r.section))
	case len(fields) != len(r.columns):
		return nil, lineError(l.line, fmt.Errorf("%q: a line of %s has %d fields: %s", strings.Join(fields, " "), r.section, len(r.columns), strings.Join(r.columns, " ")))
	}
	return fields, nil
}
