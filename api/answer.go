package api

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/ribwarp/ribwarp/rib"
)

// An Answer is what a lookup gives for one address. Its JSON form has exactly the fields ip,
// prefix, next_hop, as_path, origin_asns, communities and generation, in this order, and behind
// them stale, true, where the route is. Where no route matches, prefix and next_hop are null and the
// arrays are empty.
//
// as_path is an array of numbers in which an AS_SET (and a set of a confederation) is an array
// of its own. communities holds standard, large and extended ones in this order, as strings.
type Answer struct {
	IP         netip.Addr
	Route      rib.Route // zero: nothing matches
	Generation uint64
}

// MarshalJSON gives the answer's JSON form.
func (a Answer) MarshalJSON() ([]byte, error) {
	return AppendAnswer(nil, a.IP, a.Route, a.Generation), nil
}

// AppendAnswer appends the JSON form of Answer{ip, rt, gen} to dst, on one line without its
// end. It allocates nothing where dst is long enough, save for extended communities. ip must
// have no zone.
func AppendAnswer(dst []byte, ip netip.Addr, rt rib.Route, gen uint64) []byte {
	fields := fieldsOf(rt)
	return appendAnswer(dst, ip, &fields, gen)
}

// appendAnswer is AppendAnswer for a route that is at hand.
func appendAnswer(dst []byte, ip netip.Addr, rt *routeFields, gen uint64) []byte {
	dst = append(dst, `{"ip":"`...)
	dst = ip.AppendTo(dst)
	dst = append(dst, `",`...)
	dst = rt.append(dst)
	dst = append(dst, `,"generation":`...)
	dst = strconv.AppendUint(dst, gen, 10)
	dst = appendStale(dst, rt.Route)
	return append(dst, '}')
}

// appendStale appends that a route is stale; nothing where it is not.
func appendStale(dst []byte, rt rib.Route) []byte {
	if !rt.Stale {
		return dst
	}
	return append(dst, `,"stale":true`...)
}

// routeFields is a route with its attributes.
type routeFields struct {
	rib.Route
	attrs rib.Attrs
}

func fieldsOf(rt rib.Route) routeFields {
	f := routeFields{Route: rt}
	if rt.Path != (rib.Path{}) { // else a bare prefix: the zero Path holds no attributes
		f.attrs = rt.Path.Value()
	}
	return f
}

// append appends the fields prefix to communities.
func (rt *routeFields) append(dst []byte) []byte {
	if !rt.Prefix.IsValid() {
		return append(dst, `"prefix":null,"next_hop":null,"as_path":[],"origin_asns":[],"communities":[]`...)
	}
	dst = append(dst, `"prefix":"`...)
	dst = rt.Prefix.AppendTo(dst)
	at := &rt.attrs
	dst = append(dst, `","next_hop":`...)
	dst = appendAddr(dst, at.NextHop)
	dst = append(dst, `,"as_path":`...)
	dst = appendASPath(dst, at.ASPath)
	dst = append(dst, `,"origin_asns":`...)
	dst = appendOrigins(dst, at.ASPath)
	dst = append(dst, `,"communities":`...)
	return appendCommunities(dst, at)
}

// appendRouteFields appends the fields prefix to communities.
func appendRouteFields(dst []byte, rt rib.Route) []byte {
	f := fieldsOf(rt)
	return f.append(dst)
}

// appendAddr appends an address as a string, null for the zero address. A zone, which a next
// hop may have, is text like any other.
func appendAddr(dst []byte, a netip.Addr) []byte {
	switch {
	case !a.IsValid():
		return append(dst, "null"...)
	case a.Zone() != "":
		return appendString(dst, a.String())
	}
	dst = append(dst, '"')
	dst = a.AppendTo(dst)
	return append(dst, '"')
}

// appendASPath appends the numbers of all segments in one array, sets as arrays inside it.
func appendASPath(dst []byte, p rib.ASPath) []byte {
	dst = append(dst, '[')
	for kind, asns, rest := cutSegment(p); kind != 0; kind, asns, rest = cutSegment(rest) {
		if kind == rib.SegmentSet || kind == rib.SegmentConfedSet {
			dst = append(dst, '[')
			dst = appendASNs(dst, asns)
			dst = append(dst, ']', ',')
			continue
		}
		dst = appendASNs(dst, asns)
		if len(asns) > 0 {
			dst = append(dst, ',')
		}
	}
	return closeArray(dst)
}

// appendOrigins appends what rib.ASPath.Origins gives: the AS that originated the route, all
// that may have where the path ends in a set, none for an empty path.
func appendOrigins(dst []byte, p rib.ASPath) []byte {
	dst = append(dst, '[')
	dst = appendASNs(dst, originASNs(p))
	return append(dst, ']')
}

// originASNs is rib.ASPath.Origins as packed AS numbers, without making a slice.
func originASNs(p rib.ASPath) rib.ASPath {
	var lastKind byte
	var last rib.ASPath
	for kind, asns, rest := cutSegment(p); kind != 0; kind, asns, rest = cutSegment(rest) {
		lastKind, last = kind, asns
	}
	switch {
	case lastKind == rib.SegmentSequence && len(last) > 0:
		return last[len(last)-4:]
	case lastKind == rib.SegmentSet:
		return last
	}
	return ""
}

// cutSegment cuts the first segment off an AS path: its type, 0 for none, and its packed AS
// numbers. It reads the packed form itself because rib's iterator makes a slice per segment.
func cutSegment(p rib.ASPath) (kind byte, asns, rest rib.ASPath) {
	if len(p) < 2 {
		return 0, "", ""
	}
	end := 2 + 4*int(p[1])
	if end > len(p) {
		return 0, "", ""
	}
	return p[0], p[2:end], p[end:]
}

// appendASNs appends packed AS numbers with commas between them.
func appendASNs(dst []byte, asns rib.ASPath) []byte {
	for i := 0; i+4 <= len(asns); i += 4 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(number(string(asns), i)), 10)
	}
	return dst
}

func appendCommunities(dst []byte, at *rib.Attrs) []byte {
	dst = append(dst, '[')
	for c := string(at.Communities); len(c) >= 4; c = c[4:] {
		v := number(c, 0)
		dst = append(dst, '"')
		dst = strconv.AppendUint(dst, uint64(v>>16), 10)
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(v&0xffff), 10)
		dst = append(dst, '"', ',')
	}
	for c := string(at.LargeCommunities); len(c) >= 12; c = c[12:] {
		dst = append(dst, '"')
		for i := 0; i < 12; i += 4 {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = strconv.AppendUint(dst, uint64(number(c, i)), 10)
		}
		dst = append(dst, '"', ',')
	}
	if at.ExtCommunities != "" {
		for _, text := range at.ExtCommunities.Strings() {
			dst = appendString(dst, text)
			dst = append(dst, ',')
		}
	}
	return closeArray(dst)
}

// number reads the big-endian number at byte i of s.
func number(s string, i int) uint32 {
	return binary.BigEndian.Uint32([]byte(s[i : i+4]))
}

// closeArray ends an array whose elements all have a comma behind them.
func closeArray(dst []byte) []byte {
	if dst[len(dst)-1] == ',' {
		dst[len(dst)-1] = ']'
		return dst
	}
	return append(dst, ']')
}
