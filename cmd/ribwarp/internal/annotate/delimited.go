package annotate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
)

// delimited is CSV or TSV. A record is kept byte by byte, only its line end becomes LF.
type delimited struct {
	sep        byte
	quotes     bool // fields may be quoted as RFC 4180 has it
	noHeader   bool
	name       string // of the column with the address, where it is not given by number
	at         *shape
	columns    []Column
	namePrefix string
}

// shape is what the first record says about the others. It is set before any of them is scanned.
type shape struct {
	column int // with the address, from 0
	fields int // in every record
}

func newDelimited(o Options, sep byte, quotes bool) (format, error) {
	f := delimited{sep: sep, quotes: quotes, noHeader: o.NoHeader, columns: o.Columns, namePrefix: o.NamePrefix, at: &shape{column: -1}}
	switch n, err := strconv.Atoi(o.Column); {
	case o.Column == "":
		return nil, fmt.Errorf("format %s needs the column of the address: its name in the header, or its number from 1", o.Format)
	case err != nil && o.NoHeader:
		return nil, fmt.Errorf("column %q: without a header it must be a number from 1", o.Column)
	case err != nil:
		f.name = o.Column
	case n < 1:
		return nil, fmt.Errorf("column %s: columns are counted from 1", o.Column)
	default:
		f.at.column = n - 1
	}
	return f, nil
}

// names gives the header fields that are added, each behind a separator.
func (f delimited) names() []byte {
	var h []byte
	for _, c := range f.columns {
		h = append(h, f.sep)
		h = f.appendField(h, []byte(f.namePrefix+string(c)))
	}
	return h
}

func (f delimited) header(first []byte) ([]byte, int, error) {
	if len(first) == 0 {
		if f.noHeader {
			return nil, 0, nil
		}
		return nil, 0, fmt.Errorf("the input is empty: it has no header")
	}
	end, next, ok := f.recordEnd(first, 0)
	if !ok {
		return nil, 0, fmt.Errorf("the header's quotes are not closed")
	}
	var names []string
	for pos := 0; pos <= end; {
		field, after := f.field(first[:end], pos)
		names = append(names, string(f.unquote(field)))
		pos = after
	}
	f.at.fields = len(names)
	if f.name != "" {
		for i, n := range names {
			if n == f.name && f.at.column < 0 {
				f.at.column = i
			}
		}
		if f.at.column < 0 {
			return nil, 0, fmt.Errorf("no column %q in the header, it has: %s", f.name, strings.Join(names, ", "))
		}
	}
	if f.at.column >= f.at.fields {
		return nil, 0, fmt.Errorf("column %d: the first record has only %d", f.at.column+1, f.at.fields)
	}
	if f.noHeader {
		return nil, 0, nil
	}
	h := append([]byte(nil), first[:end]...)
	h = append(h, f.names()...)
	return append(h, '\n'), next, nil
}

func (f delimited) whole(b []byte) int {
	if !f.quotes || bytes.IndexByte(b, '"') < 0 {
		return wholeLines(b)
	}
	whole := 0
	for whole < len(b) {
		_, next, ok := f.recordEnd(b, whole)
		if !ok {
			break
		}
		whole = next
	}
	return whole
}

// recordEnd gives the position behind the content of the record at pos and that behind its line
// end. ok is false where b ends before the record does: quotes that are still open.
func (f delimited) recordEnd(b []byte, pos int) (end, next int, ok bool) {
	lf := bytes.IndexByte(b[pos:], '\n')
	if lf < 0 {
		return len(b), len(b), false
	}
	if !f.quotes || bytes.IndexByte(b[pos:pos+lf], '"') < 0 {
		end, next = line(b, pos)
		return end, next, true
	}
	for p := pos; ; p++ {
		if p = f.skipQuotes(b, p); p < 0 {
			return len(b), len(b), false
		}
		for p < len(b) && b[p] != f.sep && b[p] != '\n' {
			p++
		}
		if p == len(b) {
			return len(b), len(b), false
		}
		if b[p] == '\n' {
			end, next = p, p+1
			if p > pos && b[p-1] == '\r' {
				end--
			}
			return end, next, true
		}
	}
}

// skipQuotes gives the position behind the quoted part of the field at p: p where it has none,
// -1 where the quotes are not closed.
func (f delimited) skipQuotes(b []byte, p int) int {
	if !f.quotes || p >= len(b) || b[p] != '"' {
		return p
	}
	for p++; ; p++ {
		q := bytes.IndexByte(b[p:], '"')
		if q < 0 {
			return -1
		}
		if p += q + 1; p >= len(b) || b[p] != '"' {
			return p
		}
	}
}

// field gives the field at pos of a record's content, with its quotes, and the position of the
// next field, which is len(content)+1 behind the last one.
func (f delimited) field(content []byte, pos int) (field []byte, next int) {
	p := f.skipQuotes(content, pos)
	if p < 0 {
		return content[pos:], len(content) + 1
	}
	if n := bytes.IndexByte(content[p:], f.sep); n >= 0 {
		return content[pos : p+n], p + n + 1
	}
	return content[pos:], len(content) + 1
}

// unquote gives a field's content. It copies only where quotes are doubled.
func (f delimited) unquote(field []byte) []byte {
	if !f.quotes || len(field) < 2 || field[0] != '"' || field[len(field)-1] != '"' {
		return field
	}
	field = field[1 : len(field)-1]
	if bytes.IndexByte(field, '"') < 0 {
		return field
	}
	return bytes.ReplaceAll(field, []byte(`""`), []byte(`"`))
}

func (f delimited) scan(b []byte, pos int, to *batch) int {
	for pos < len(b) && !to.full() {
		end, next, ok := f.recordEnd(b, pos)
		content, start := b[pos:end], len(to.loose)
		if !ok { // the input ends inside quotes: they are closed, so that the output is CSV
			to.loose = append(append(to.loose, bytes.TrimRight(content, "\r\n")...), '"')
			content = to.loose[start:]
		}
		address, fields := f.address(content)
		switch {
		case fields > f.at.fields && ok:
			to.addBad(record{off: uint32(pos), len: uint32(end - pos)}, content)
		case fields == f.at.fields && ok:
			to.addText(record{off: uint32(pos), len: uint32(end - pos)}, address)
		default:
			// A short record gets its missing fields, so that what is added stands below
			// its header.
			if ok {
				to.loose = append(to.loose, content...)
			}
			for range f.at.fields - fields {
				to.loose = append(to.loose, f.sep)
			}
			to.addText(to.looseRecord(start), address)
		}
		pos = next
	}
	return pos
}

// address gives the content of the field with the address, nil where the record has no such
// field, and the number of fields.
func (f delimited) address(content []byte) (address []byte, fields int) {
	for p := 0; p <= len(content); fields++ {
		field, after := f.field(content, p)
		if fields == f.at.column {
			address = f.unquote(field)
		}
		p = after
	}
	return address, fields
}

func (f delimited) tail(dst []byte, r rib.Route) []byte {
	for _, c := range f.columns {
		dst = append(dst, f.sep)
		dst = f.appendField(dst, c.appendText(nil, r))
	}
	return append(dst, '\n')
}

// appendField appends a field as the format has it.
func (f delimited) appendField(dst, text []byte) []byte {
	if f.sep == ',' && needsQuotes(text, f.sep) {
		return appendQuoted(dst, text)
	}
	return append(dst, text...)
}

// needsQuotes says whether a CSV field must be quoted.
func needsQuotes(text []byte, sep byte) bool {
	for _, c := range text {
		if c == sep || c == '"' || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}

// appendQuoted appends text in quotes, its own ones doubled.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
