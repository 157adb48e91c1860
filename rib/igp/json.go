package igp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// jsonNode is a node in JSON.
type jsonNode struct {
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Prefixes  []jsonPrefix `json:"prefixes,omitempty"`
	Overload  bool         `json:"overload,omitempty"`
}

// jsonPrefix is "192.0.2.0/24", or {"prefix": "192.0.2.0/24", "metric": 10}.
type jsonPrefix Prefix

// jsonLink is a link in JSON.
type jsonLink struct {
	Name        string  `json:"name,omitempty"`
	ReverseName string  `json:"reverse_name,omitempty"`
	From        string  `json:"from"`
	To          string  `json:"to"`
	Metric      *uint64 `json:"metric"`
	Reverse     *uint64 `json:"reverse_metric,omitempty"` // as Metric where it is left out
}

func (p *jsonPrefix) UnmarshalJSON(text []byte) error {
	var long struct {
		Prefix netip.Prefix `json:"prefix"`
		Metric uint32       `json:"metric"`
	}
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(text, &long.Prefix); err != nil {
			return err
		}
	} else if err := strict(json.NewDecoder(bytes.NewReader(text))).Decode(&long); err != nil {
		return err
	}
	*p = jsonPrefix(long)
	return nil
}

func (p jsonPrefix) MarshalJSON() ([]byte, error) {
	if p.Metric == 0 {
		return json.Marshal(p.Prefix)
	}
	return json.Marshal(struct {
		Prefix netip.Prefix `json:"prefix"`
		Metric uint32       `json:"metric"`
	}(p))
}

func strict(d *json.Decoder) *json.Decoder {
	d.DisallowUnknownFields()
	return d
}

// A jsonReader reads one key of the file after the other; arrays item by item, so that an error can
// name the line.
type jsonReader struct {
	text  []byte
	d     *json.Decoder
	o     ReadOptions
	seen  map[string]bool
	found listing
	// The metrics wait for the end: max_metric may come behind them.
	metrics [][2]uint64

	item    int   // the line where the item begins that is being read; 0 between items
	counted int64 // bytes whose lines are in lines
	lines   int
}

// readJSON reads what Write writes; docs/igp.md describes it.
func readJSON(text []byte, o ReadOptions) (*Topology, error) {
	r := jsonReader{text: text, d: strict(json.NewDecoder(bytes.NewReader(text))), o: o, seen: map[string]bool{}}
	if err := r.read(); err != nil {
		if r.item == 0 {
			r.item = r.line()
		}
		return nil, lineError(r.item, jsonError(err))
	}
	for i := range r.found.links {
		l := &r.found.links[i]
		var err error
		if l.Metric, err = r.o.check(r.metrics[i][0]); err == nil {
			l.Reverse, err = r.o.check(r.metrics[i][1])
		}
		if err != nil {
			return nil, lineError(r.found.linkLines[i], &ItemError{"link", i, l.Name, err})
		}
	}
	return r.found.topology()
}

// jsonError says in plain words what the decoder says of Go.
func jsonError(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	case errors.As(err, &kind):
		return fmt.Errorf("%q: %s is not what belongs here", kind.Field, kind.Value)
	}
	return err
}

func (r *jsonReader) read() error {
	if _, err := r.d.Token(); err != nil { // Read has seen the brace
		return err
	}
	for r.d.More() {
		key, err := r.d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if r.seen[name] {
			return fmt.Errorf("%q is there twice", name)
		}
		r.seen[name] = true
		switch name {
		case "max_metric":
			if err = r.d.Decode(&r.o.MaxMetric); err == nil && r.o.MaxMetric == 0 {
				err = errors.New("\"max_metric\" is 0")
			}
		case "nodes":
			err = r.array(name, r.node)
		case "links":
			err = r.array(name, r.link)
		default:
			return fmt.Errorf("%q is no key here: use \"nodes\", \"links\" and \"max_metric\"", name)
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.d.Token(); err != nil {
		return err
	}
	if !r.seen["nodes"] {
		return errors.New("there are no \"nodes\"")
	}
	if _, err := r.d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes behind the topology")
	}
	return nil
}

// array has every item of an array read.
func (r *jsonReader) array(name string, item func(line int) error) error {
	if t, err := r.d.Token(); err != nil {
		return err
	} else if t != json.Delim('[') {
		return fmt.Errorf("%q is no array", name)
	}
	for i := 0; r.d.More(); i++ {
		r.item = r.line()
		if err := item(r.item); err != nil {
			return fmt.Errorf("%s[%d]: %w", name, i, jsonError(err))
		}
		r.item = 0
	}
	_, err := r.d.Token()
	return err
}

// line is where the decoder is: before what comes next.
func (r *jsonReader) line() int {
	at := r.d.InputOffset()
	rest := r.text[at:]
	at += int64(len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:")))
	r.lines += bytes.Count(r.text[r.counted:at], []byte("\n"))
	r.counted = at
	return 1 + r.lines
}

func (r *jsonReader) node(line int) error {
	var n jsonNode
	if err := r.d.Decode(&n); err != nil {
		return err
	}
	node := Node{Name: n.Name, Addresses: n.Addresses, Overload: n.Overload}
	for _, p := range n.Prefixes {
		node.Prefixes = append(node.Prefixes, Prefix(p))
	}
	r.found.node(line, node)
	return nil
}

func (r *jsonReader) link(line int) error {
	var l jsonLink
	if err := r.d.Decode(&l); err != nil {
		return err
	}
	if l.Metric == nil {
		return errors.New("it has no metric")
	}
	if l.Reverse == nil {
		l.Reverse = l.Metric
	}
	r.metrics = append(r.metrics, [2]uint64{*l.Metric, *l.Reverse})
	r.found.link(line, Link{Name: l.Name, ReverseName: l.ReverseName, From: l.From, To: l.To})
	return nil
}

// Write writes a topology as JSON, a node or a link a line. Read gives the same topology back.
func Write(to io.Writer, t *Topology) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "{\n\"max_metric\": %d,\n\"nodes\": [", uint32(Unused))
	separator := "\n"
	for _, n := range t.Nodes {
		j := jsonNode{Name: n.Name, Addresses: n.Addresses, Overload: n.Overload}
		for _, p := range n.Prefixes {
			j.Prefixes = append(j.Prefixes, jsonPrefix(p))
		}
		if err := writeItem(w, &separator, j); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n],\n\"links\": [")
	separator = "\n"
	for _, l := range t.Links {
		metric, reverse := uint64(l.Metric), uint64(l.Reverse)
		j := jsonLink{Name: l.Name, ReverseName: l.ReverseName, From: l.From, To: l.To, Metric: &metric}
		if reverse != metric {
			j.Reverse = &reverse
		}
		if err := writeItem(w, &separator, j); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n]\n}\n")
	return w.Flush()
}

// writeItem writes an item of an array, on a line of its own.
func writeItem(w *bufio.Writer, separator *string, item any) error {
	text, err := json.Marshal(item)
	if err != nil {
		return err
	}
	_, _ = w.WriteString(*separator)
	*separator = ",\n"
	_, err = w.Write(text)
	return err
}
