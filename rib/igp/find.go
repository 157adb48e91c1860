package igp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// An UnknownError is about a name that a topology has not.
type UnknownError struct {
	Kind string   // "node" or "link"
	Name string   // what was asked for
	Near []string // names like it, the nearest first
}

func (e *UnknownError) Error() string {
	if len(e.Near) == 0 {
		return fmt.Sprintf("there is no %s %q", e.Kind, e.Name)
	}
	near := make([]string, len(e.Near))
	for i, n := range e.Near {
		near[i] = fmt.Sprintf("%q", n)
	}
	return fmt.Sprintf("there is no %s %q; near names: %s", e.Kind, e.Name, strings.Join(near, ", "))
}

// FindNode gives the node that a person names: by its name, or by an address that it alone announces. The
// error is an *UnknownError, or says which nodes announce the address.
func (t *Topology) FindNode(text string) (uint32, error) {
	if n, ok := t.Node(text); ok {
		return n, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		origins := t.Resolve(addr)
		nodes := make([]uint32, 0, len(origins))
		for _, o := range origins {
			if !slices.Contains(nodes, o.Node) {
				nodes = append(nodes, o.Node)
			}
		}
		switch len(nodes) {
		case 0:
			return 0, fmt.Errorf("no node announces %s", addr)
		case 1:
			return nodes[0], nil
		}
		return 0, fmt.Errorf("%d nodes announce %s: name one, such as %q", len(nodes), addr, t.Nodes[nodes[0]].Name)
	}
	return 0, &UnknownError{"node", text, near(text, func(yield func(string)) {
		for i := range t.Nodes {
			yield(t.Nodes[i].Name)
		}
	})}
}

// FindLink gives the link that a person names: by one of its names, or, where there is only one between
// two nodes, by these as FROM--TO, in any order. The error is an *UnknownError, or names the links
// between the nodes.
func (t *Topology) FindLink(text string) (uint32, error) {
	if l, ok := t.Link(text); ok {
		return l, nil
	}
	for i := range text {
		to, ok := strings.CutPrefix(text[i:], "--")
		if !ok {
			continue
		}
		a, okA := t.Node(text[:i])
		b, okB := t.Node(to)
		if !okA || !okB {
			continue
		}
		var links []uint32
		var names []string
		for l, ends := range t.ends {
			if ends == [2]uint32{a, b} || ends == [2]uint32{b, a} {
				links, names = append(links, uint32(l)), append(names, fmt.Sprintf("%q", t.Links[l].Name))
			}
		}
		switch len(links) {
		case 0:
			return 0, fmt.Errorf("no link joins %q and %q", text[:i], to)
		case 1:
			return links[0], nil
		}
		return 0, fmt.Errorf("%d links join %q and %q: name one of %s", len(links), text[:i], to, strings.Join(names, ", "))
	}
	return 0, &UnknownError{"link", text, near(text, func(yield func(string)) {
		for i := range t.Links {
			yield(t.Links[i].Name)
		}
	})}
}

// near gives the names that are most like a text, three at most: what begins with it, what holds it, and
// what a few typing errors make of it, in upper or lower case.
func near(text string, names func(yield func(string))) []string {
	type candidate struct {
		name  string
		edits int
	}
	const most = 3
	if len(text) > maxName {
		return nil
	}
	var found []candidate
	low := strings.ToLower(text)
	limit := 1 + utf8.RuneCountInString(text)/4
	names(func(name string) {
		other := strings.ToLower(name)
		c := candidate{name: name}
		switch {
		case other == low:
		case low != "" && strings.HasPrefix(other, low):
			c.edits = 1
		case low != "" && strings.Contains(other, low):
			c.edits = 2
		default:
			if c.edits = edits(low, other, limit); c.edits > limit {
				return
			}
		}
		found = append(found, c)
	})
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	list := make([]string, 0, most)
	for _, c := range found[:min(most, len(found))] {
		list = append(list, c.name)
	}
	return list
}

// edits counts the characters to change, put in or take out to make b of a (V. I. Levenshtein, 1965);
// anything above limit where it is above.
func edits(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range y {
			change := diagonal
			if r != s {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(y)]
}
