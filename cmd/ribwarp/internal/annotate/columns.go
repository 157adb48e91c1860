package annotate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
)

// Column is one thing that is added about a route.
type Column string

// The columns there are.
const (
	Prefix      Column = "prefix"
	OriginASNs  Column = "origin_asns"
	ASPath      Column = "as_path"
	NextHop     Column = "next_hop"
	Communities Column = "communities"
	Peer        Column = "peer"
)

// AllColumns lists every column, DefaultColumns those that are added unless others are asked for.
var (
	AllColumns     = []Column{Prefix, OriginASNs, ASPath, NextHop, Communities, Peer}
	DefaultColumns = []Column{Prefix, OriginASNs, NextHop}
)

// ParseColumns reads a list such as "prefix,as_path".
func ParseColumns(list string) ([]Column, error) {
	var columns []Column
next:
	for _, name := range strings.Split(list, ",") {
		for _, c := range AllColumns {
			if string(c) == strings.TrimSpace(name) {
				columns = append(columns, c)
				continue next
			}
		}
		return nil, fmt.Errorf("unknown column %q: use some of %s", name, joinColumns(AllColumns))
	}
	return columns, nil
}

func joinColumns(columns []Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = string(c)
	}
	return strings.Join(names, ",")
}

// appendText appends the column as people and CSV show it: lists with blanks between, nothing
// where the route has none.
func (c Column) appendText(dst []byte, r rib.Route) []byte {
	if !r.Prefix.IsValid() {
		return dst
	}
	var a rib.Attrs
	if r.Path != (rib.Path{}) {
		a = r.Path.Value()
	}
	switch c {
	case Prefix:
		return r.Prefix.AppendTo(dst)
	case OriginASNs:
		return appendNumbers(dst, a.ASPath.Origins(), ' ')
	case ASPath:
		return append(dst, a.ASPath.String()...)
	case NextHop:
		if a.NextHop.IsValid() {
			return a.NextHop.AppendTo(dst)
		}
	case Communities:
		return append(dst, strings.Join(communities(a), " ")...)
	case Peer:
		if r.Peer != nil {
			return append(dst, r.Peer.Name()...)
		}
	}
	return dst
}

// appendJSON appends the column as a JSON value: what is missing is null, what may be several
// is an array, and in an AS path a set is an array of its own.
func (c Column) appendJSON(dst []byte, r rib.Route) []byte {
	if !r.Prefix.IsValid() {
		return append(dst, "null"...)
	}
	var a rib.Attrs
	if r.Path != (rib.Path{}) {
		a = r.Path.Value()
	}
	switch c {
	case OriginASNs:
		return append(appendNumbers(append(dst, '['), a.ASPath.Origins(), ','), ']')
	case Communities:
		dst = append(dst, '[')
		for i, s := range communities(a) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, []byte(s))
		}
		return append(dst, ']')
	case ASPath:
		dst = append(dst, '[')
		for s := range a.ASPath.Segments() {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			if s.Type == rib.SegmentSet || s.Type == rib.SegmentConfedSet {
				dst = append(appendNumbers(append(dst, '['), s.ASNs, ','), ']')
			} else {
				dst = appendNumbers(dst, s.ASNs, ',')
			}
		}
		return append(dst, ']')
	case NextHop:
		if !a.NextHop.IsValid() {
			return append(dst, "null"...)
		}
	case Peer:
		if r.Peer == nil {
			return append(dst, "null"...)
		}
	}
	return appendJSONString(dst, c.appendText(nil, r))
}

// communities lists standard, large and extended communities, in this order.
func communities(a rib.Attrs) []string {
	return slices.Concat(a.Communities.Strings(), a.LargeCommunities.Strings(), a.ExtCommunities.Strings())
}

func appendNumbers(dst []byte, numbers []uint32, sep byte) []byte {
	for i, n := range numbers {
		if i > 0 {
			dst = append(dst, sep)
		}
		dst = strconv.AppendUint(dst, uint64(n), 10)
	}
	return dst
}
