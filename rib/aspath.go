package rib

import (
	"encoding/binary"
	"iter"
	"strconv"
)

// ASPath is an AS_PATH as a sequence of segments, each: type byte, count byte, count 4-byte AS
// numbers (big endian), as on a 4-byte-AS session. Empty for none. Make one with MakeASPath;
// in bytes from elsewhere everything before the first cut segment counts, and segments without
// AS numbers do not.
type ASPath string

// Segment types of RFC 4271 (set, sequence) and RFC 5065 (those inside a confederation).
const (
	SegmentSet            = 1
	SegmentSequence       = 2
	SegmentConfedSequence = 3
	SegmentConfedSet      = 4
)

// maxSegment is how many AS numbers the count byte of one segment can tell.
const maxSegment = 255

// Segment is a part of an AS path.
type Segment struct {
	Type uint8 // SegmentSet, ...
	ASNs []uint32
}

// MakeASPath packs segments. Segments without AS numbers are left out; one of more than 255
// becomes several of the same type, as RFC 4271 has it for sequences.
func MakeASPath(segs ...Segment) ASPath {
	var b []byte
	for _, s := range segs {
		for asns := s.ASNs; len(asns) > 0; {
			n := min(len(asns), maxSegment)
			b = append(b, s.Type, byte(n))
			for _, as := range asns[:n] {
				b = binary.BigEndian.AppendUint32(b, as)
			}
			asns = asns[n:]
		}
	}
	return ASPath(b)
}

// Segments gives the segments in order, each with memory of its own.
func (p ASPath) Segments() iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
			seg := Segment{Type: s.kind(), ASNs: make([]uint32, s.count())}
			for i := range seg.ASNs {
				seg.ASNs[i] = s.asn(i)
			}
			if !yield(seg) {
				return
			}
		}
	}
}

// Len is the length that the best-path decision compares (RFC 4271, 9.1.2.2 a): a sequence
// counts its AS numbers, a set 1, and segments inside a confederation nothing (RFC 5065, 5.3).
func (p ASPath) Len() (n int) {
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		switch s.kind() {
		case SegmentSequence:
			n += s.count()
		case SegmentSet:
			n++
		}
	}
	return n
}

// First is the neighbouring AS: the first one outside the local confederation. It is 0 where
// the path has none (a route of the own AS) or starts with a set.
func (p ASPath) First() uint32 {
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		switch s.kind() {
		case SegmentSequence:
			return s.asn(0)
		case SegmentSet:
			return 0
		}
	}
	return 0
}

// Origins is the AS that originated the route: the last one of the path, or all members where
// the path ends in a set (an aggregate). It is empty where the path is, or ends inside the
// local confederation: then the route is the own AS's.
func (p ASPath) Origins() []uint32 {
	var last ASPath
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		last = s
	}
	if last == "" {
		return nil
	}
	switch last.kind() {
	case SegmentSequence:
		return []uint32{last.asn(last.count() - 1)}
	case SegmentSet:
		origins := make([]uint32, last.count())
		for i := range origins {
			origins[i] = last.asn(i)
		}
		return origins
	}
	return nil
}

// HasSet tells whether the path has a set, inside a confederation or not: RFC 9774 deprecates both.
func (p ASPath) HasSet() bool {
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		if k := s.kind(); k == SegmentSet || k == SegmentConfedSet {
			return true
		}
	}
	return false
}

// OriginatedBy tells whether as is one of Origins. It allocates nothing.
func (p ASPath) OriginatedBy(as uint32) bool {
	var last ASPath
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		last = s
	}
	switch {
	case last == "":
		return false
	case last.kind() == SegmentSequence:
		return last.asn(last.count()-1) == as
	case last.kind() == SegmentSet:
		for i := range last.count() {
			if last.asn(i) == as {
				return true
			}
		}
	}
	return false
}

// Origin is the AS whose right to originate the route is to be looked for (RFC 6811, 2): the last
// one of a path that ends in a sequence. set tells that it ends in a set, whose origin is nobody
// in particular; otherwise 0 is a path that is empty or ends inside of the local confederation.
func (p ASPath) Origin() (as uint32, set bool) {
	var last ASPath
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		last = s
	}
	switch {
	case last == "":
		return 0, false
	case last.kind() == SegmentSequence:
		return last.asn(last.count() - 1), false
	}
	return 0, last.kind() == SegmentSet
}

// Contains tells whether as is anywhere in the path, whatever the segment.
func (p ASPath) Contains(as uint32) bool {
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		for i := range s.count() {
			if s.asn(i) == as {
				return true
			}
		}
	}
	return false
}

// String is the usual notation: "64500 64501 {64502,64503}", inside a confederation
// "(64500 64501)" for a sequence and "[64500,64501]" for a set.
func (p ASPath) String() string { return string(p.AppendText(nil)) }

// AppendText appends what String gives.
func (p ASPath) AppendText(dst []byte) []byte {
	start := len(dst)
	for s, rest := p.cut(); s != ""; s, rest = rest.cut() {
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		opening, between, closing := "", " ", ""
		switch s.kind() {
		case SegmentSet:
			opening, between, closing = "{", ",", "}"
		case SegmentConfedSequence:
			opening, closing = "(", ")"
		case SegmentConfedSet:
			opening, between, closing = "[", ",", "]"
		}
		dst = append(dst, opening...)
		for i := range s.count() {
			if i > 0 {
				dst = append(dst, between...)
			}
			dst = strconv.AppendUint(dst, uint64(s.asn(i)), 10)
		}
		dst = append(dst, closing...)
	}
	return dst
}

// cut splits the first segment off, skipping those without AS numbers, which only foreign bytes
// have. It is empty at the end and where the path is cut short.
func (p ASPath) cut() (segment, rest ASPath) {
	for len(p) >= 2 {
		end := 2 + 4*int(p[1])
		if len(p) < end {
			break
		}
		segment, p = p[:end], p[end:]
		if segment.count() > 0 {
			return segment, p
		}
	}
	return "", ""
}

// kind, count and asn read one segment as cut gives it.
func (p ASPath) kind() uint8      { return p[0] }
func (p ASPath) count() int       { return int(p[1]) }
func (p ASPath) asn(i int) uint32 { return uint32At(string(p), 2+4*i) }

// uint32At reads a big-endian number from packed bytes.
func uint32At(s string, i int) uint32 {
	return uint32(s[i])<<24 | uint32(s[i+1])<<16 | uint32(s[i+2])<<8 | uint32(s[i+3])
}
