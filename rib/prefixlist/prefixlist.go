// Package prefixlist reads routes from text: one prefix a line, optionally followed by the
// origin AS and the next hop, in any order, separated by spaces, tabs or commas. A bare address
// is a host route. What follows a # is a comment; blank lines are nothing; lines end in LF or
// CR LF. A first line that starts with the word prefix is a table's heading.
//
// A line that cannot be used is reported with its number and skipped; the rest is read.
package prefixlist

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// An Entry is one line's route.
type Entry struct {
	Prefix  netip.Prefix // no host bits, never IPv4-mapped
	NextHop netip.Addr   // zero where the line has none
	Origin  uint32       // origin AS, 0 where the line has none
}

// Kinds of problems that Read reports.
const (
	KindMalformed problems.Kind = "malformed prefix"           // line skipped
	KindLength    problems.Kind = "prefix length out of range" // line skipped
	KindHostBits  problems.Kind = "host bits set"              // used without them
	KindMapped    problems.Kind = "IPv4-mapped IPv6 prefix"    // used as IPv4, skipped if shorter than /96
	KindField     problems.Kind = "unusable field"             // prefix used, field ignored
	KindLongLine  problems.Kind = "line too long"              // line skipped
)

const (
	// MaxLine is the longest line, in bytes, that is looked at.
	MaxLine = 64 << 10
	// batch is how many entries are handed over at once.
	batch = 4096
)

// Result says how much was read.
type Result struct {
	Lines  int // lines, blank ones and comments among them
	Routes int // entries handed over
}

// Read reads a list to its end. Entries are handed to emit in the order of the lines, some
// thousands at a time; the slice is reused. Problems with lines go to log. An error is emit's
// own or one of reading; what was read until then was handed over. It needs constant memory.
func Read(r io.Reader, log *problems.Log, emit func([]Entry) error) (Result, error) {
	s := scanner{log: log, entries: make([]Entry, 0, batch)}
	in := bufio.NewReaderSize(r, MaxLine)
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" { // a byte order mark
		_, _ = in.Discard(3)
	}
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			s.lines++
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			s.tooLong(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			line = nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			// The line may be cut: half a prefix can look like a whole one, so it is left out.
			if len(line) == 0 {
				s.lines++
			}
			if emitErr := s.flush(emit); emitErr != nil {
				return s.result(), emitErr
			}
			return s.result(), fmt.Errorf("read list: line %d: %w", s.lines, err)
		}
		s.line(line)
		if len(s.entries) == batch || err != nil {
			if emitErr := s.flush(emit); emitErr != nil || err != nil {
				return s.result(), emitErr
			}
		}
	}
}

// A scanner turns lines into entries.
type scanner struct {
	log     *problems.Log
	entries []Entry
	lines   int // number of the line at hand, from 1
	routes  int
}

func (s *scanner) result() Result { return Result{Lines: s.lines, Routes: s.routes} }

func (s *scanner) flush(emit func([]Entry) error) error {
	if len(s.entries) == 0 {
		return nil
	}
	s.routes += len(s.entries)
	err := emit(s.entries)
	s.entries = s.entries[:0]
	return err
}

// line reads one line, with or without its end.
func (s *scanner) line(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	// Nearly every line of a real list is a sound prefix and no more.
	p, rest, ok := scan4(line)
	if !ok || len(rest) > 0 {
		if hash := bytes.IndexByte(line, '#'); hash >= 0 {
			line = line[:hash]
		}
		first, others := nextField(line)
		if len(first) == 0 || s.lines == 1 && bytes.EqualFold(first, []byte("prefix")) {
			return
		}
		if p, ok = parsePrefix(first); !ok {
			s.unusable(first)
			return
		}
		rest = others
	}
	e := Entry{Prefix: p.Masked()}
	switch {
	case p.Addr().Is4In6():
		if e.Prefix, ok = s.mapped(p); !ok {
			return
		}
	case e.Prefix != p:
		s.add(KindHostBits, func() problems.Problem {
			return problems.Problem{Detail: p.String(), Done: "used as " + e.Prefix.String()}
		})
	}
	if len(rest) > 0 {
		s.attributes(&e, rest)
	}
	s.entries = append(s.entries, e)
}

// mapped turns an IPv4-mapped prefix into the IPv4 prefix that it stands for.
func (s *scanner) mapped(p netip.Prefix) (netip.Prefix, bool) {
	if p.Bits() < 96 {
		s.add(KindMapped, func() problems.Problem {
			return problems.Problem{Detail: p.String() + " reaches beyond the mapped addresses", Done: "line skipped"}
		})
		return netip.Prefix{}, false
	}
	masked := netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	s.add(KindMapped, func() problems.Problem {
		return problems.Problem{Detail: p.String(), Done: "used as " + masked.String()}
	})
	if masked.Addr() != p.Addr().Unmap() {
		s.add(KindHostBits, func() problems.Problem {
			return problems.Problem{Detail: p.String(), Done: "used as " + masked.String()}
		})
	}
	return masked, true
}

// attributes reads the fields behind the prefix: one origin AS and one next hop at most.
func (s *scanner) attributes(e *Entry, rest []byte) {
	var hasOrigin bool
	for {
		var field []byte
		if field, rest = nextField(rest); len(field) == 0 {
			return
		}
		if as, ok := parseAS(field); ok && !hasOrigin {
			e.Origin, hasOrigin = as, true
			continue
		}
		if hop, err := netip.ParseAddr(string(field)); err == nil && hop.Zone() == "" && !e.NextHop.IsValid() {
			e.NextHop = hop.Unmap()
			continue
		}
		s.add(KindField, func() problems.Problem {
			return problems.Problem{
				Detail: problems.Excerpt(field) + " behind " + e.Prefix.String() + " is not an origin AS or a next hop, or is a second one",
				Done:   "field ignored",
			}
		})
	}
}

// unusable reports a first field that is no prefix.
func (s *scanner) unusable(field []byte) {
	kind := KindMalformed
	if addr, bits, ok := bytes.Cut(field, []byte{'/'}); ok && digits(bits) {
		if a, err := netip.ParseAddr(string(addr)); err == nil && a.Zone() == "" && (len(bits) == 1 || bits[0] != '0') {
			kind = KindLength
		}
	}
	s.add(kind, func() problems.Problem {
		return problems.Problem{Detail: problems.Excerpt(field), Done: "line skipped"}
	})
}

func (s *scanner) tooLong(line []byte) {
	s.add(KindLongLine, func() problems.Problem {
		return problems.Problem{
			Detail: fmt.Sprintf("more than %d bytes, starting %q", MaxLine, line[:40]),
			Done:   "line skipped",
		}
	})
}

// add reports a problem of the line at hand.
func (s *scanner) add(kind problems.Kind, describe func() problems.Problem) {
	s.log.Add(kind, func() problems.Problem {
		p := describe()
		p.Where = fmt.Sprintf("line %d", s.lines)
		return p
	})
}
