package wire

import (
	"encoding/binary"
	"errors"

	"github.com/ribwarp/ribwarp/rib"
)

// asTrans stands for an AS number that does not fit into 2 bytes (RFC 6793).
const asTrans = 23456

// A segment is one part of an AS path. Its numbers are in 4 bytes each.
type segment struct {
	kind byte
	asns string
}

var errType = errors.New("AS path has a segment of unknown type, or of a confederation that is not ours")

// segments reads the segments of an AS path whose numbers have size bytes. The codec guesses
// the size from the bytes; who knows it has to read them again. Types are taken up to last:
// those of confederations are the highest.
func segments(value []byte, size int, last byte) ([]segment, error) {
	var path []segment
	for len(value) > 0 {
		if len(value) < 2 {
			return nil, errors.New("AS path ends in the header of a segment")
		}
		kind, n := value[0], int(value[1])
		value = value[2:]
		switch {
		case kind < rib.SegmentSet || kind > last:
			return nil, errType
		case n == 0:
			return nil, errors.New("AS path has an empty segment")
		case len(value) < n*size:
			return nil, errors.New("AS path ends in a segment")
		}
		asns := make([]byte, 0, 4*n)
		for i := range n {
			var as uint32
			if size == 2 {
				as = uint32(binary.BigEndian.Uint16(value[2*i:]))
			} else {
				as = binary.BigEndian.Uint32(value[4*i:])
			}
			if as == 0 {
				return nil, errors.New("AS path holds AS 0") // RFC 7607
			}
			asns = binary.BigEndian.AppendUint32(asns, as)
		}
		path = append(path, segment{kind, string(asns)})
		value = value[n*size:]
	}
	return path, nil
}

// checkASPath is segments without the result, for paths that are already in the form in which
// they are kept.
func checkASPath(value []byte, last byte) error {
	for len(value) > 0 {
		if value[0] < rib.SegmentSet || value[0] > last {
			return errType
		}
		if len(value) < 2 || value[1] == 0 || len(value) < 2+4*int(value[1]) {
			return errors.New("AS path is not one of 4-byte AS numbers")
		}
		end := 2 + 4*int(value[1])
		for i := 2; i < end; i += 4 {
			if binary.BigEndian.Uint32(value[i:]) == 0 {
				return errors.New("AS path holds AS 0") // RFC 7607
			}
		}
		value = value[end:]
	}
	return nil
}

// hops is what a segment counts in the length of a path (RFC 4271, section 9.1.2.2 a; RFC 5065).
func (s segment) hops() int {
	switch s.kind {
	case rib.SegmentSequence:
		return len(s.asns) / 4
	case rib.SegmentSet:
		return 1
	}
	return 0
}

// merge rebuilds the path from AS_PATH and AS4_PATH (RFC 6793, section 4.2.3): AS4_PATH holds
// its older part with all numbers, what AS_PATH has more goes before it. Where AS4_PATH is the
// longer one, somebody has changed AS_PATH without knowing it, and it does not count.
func merge(path, path4 []segment) []segment {
	more := 0
	for _, s := range path {
		more += s.hops()
	}
	var known []segment
	for _, s := range path4 {
		if n := s.hops(); n > 0 { // confederations have no place in AS4_PATH
			known = append(known, s)
			more -= n
		}
	}
	if len(known) == 0 || more < 0 {
		return path
	}
	var merged []segment
	for _, s := range path {
		n := s.hops()
		if n > more { // the rest of the segment and what follows is in AS4_PATH
			if more > 0 {
				merged = append(merged, segment{s.kind, s.asns[:4*more]})
			}
			break
		}
		merged = append(merged, s)
		more -= n
	}
	for _, s := range known {
		last := len(merged) - 1
		if last >= 0 && s.kind == rib.SegmentSequence && merged[last].kind == rib.SegmentSequence && len(merged[last].asns)+len(s.asns) <= 255*4 {
			merged[last].asns += s.asns // one sequence, as it would be without the old speaker
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// pack gives a path in the form in which it is kept.
func pack(path []segment) rib.ASPath {
	var b []byte
	for _, s := range path {
		b = append(b, s.kind, byte(len(s.asns)/4))
		b = append(b, s.asns...)
	}
	return rib.ASPath(b)
}
