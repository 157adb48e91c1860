package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// columnParameter names the column of CSV that the questions are in.
const columnParameter = "column"

// maxShownColumn is how much of the name of a column is repeated.
const maxShownColumn = 64

// askedColumn gives the column that a request names, "" where it names none.
func askedColumn(rawQuery string) (string, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return "", fmt.Errorf("query: %w", err)
	}
	given := values[columnParameter]
	switch {
	case len(given) > 1:
		return "", once(columnParameter, given)
	case len(given) == 1 && given[0] == "":
		return "", fmt.Errorf("%s is empty: leave it out for the first column", columnParameter)
	case len(given) == 1:
		return given[0], nil
	}
	return "", nil
}

// rows finds questions in the lines of CSV (RFC 4180): those of one column. A row is one line: a
// quoted field that goes on in the next line is an error.
type rows struct {
	words *words
	index int    // of the column, from 0
	name  string // of the column in the header, "" where index says it
	// header says that the next line is the header.
	header bool
	field  []byte
}

// newRows makes rows for a request. With a name of a column the first line is a header; with none,
// or the number of one, only if Content-Type says so (header=present).
func newRows(w *words, column string, parameters map[string]string) (*rows, error) {
	r := &rows{words: w, header: strings.EqualFold(parameters["header"], "present")}
	n, err := strconv.Atoi(column)
	switch {
	case column == "":
	case err != nil:
		r.name, r.header = column, true
		if strings.EqualFold(parameters["header"], "absent") {
			return nil, fmt.Errorf("the column is named %q, but Content-Type says header=absent: give its number, from 1", cut(column, maxShownColumn))
		}
	case n < 1:
		return nil, fmt.Errorf("%s is %d: the first one is 1", columnParameter, n)
	default:
		r.index = n - 1
	}
	return r, nil
}

// errHeader says that a line is the header, which has no answer.
var errHeader = errors.New("the header")

// errNoColumn says that the header lacks the column.
type errNoColumn struct{ text string }

func (e errNoColumn) Error() string { return e.text }

// in gives what a line asks for, valid until the next call, or errHeader.
func (r *rows) in(line []byte) ([]byte, error) {
	if r.header {
		r.header = false
		return nil, r.find(line)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, r.words.emptyLine()
	}
	for i := 0; ; i++ {
		field, rest, more, err := r.cut(line)
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", i+1, err)
		}
		if i == r.index {
			return bytes.TrimSpace(field), nil
		}
		if !more {
			return nil, fmt.Errorf("the row has %d columns: the %s should be in column %d", i+1, r.words.one, r.index+1)
		}
		line = rest
	}
}

// find looks for the column in the header.
func (r *rows) find(line []byte) error {
	if r.name == "" {
		return errHeader
	}
	var names []string
	for more := true; more; {
		var field []byte
		var err error
		if field, line, more, err = r.cut(line); err != nil {
			return errNoColumn{fmt.Sprintf("header, column %d: %v", len(names)+1, err)}
		}
		names = append(names, string(bytes.TrimSpace(field)))
	}
	if r.index = slices.Index(names, r.name); r.index < 0 {
		return errNoColumn{fmt.Sprintf("the header has no column %q: it has %s", cut(r.name, maxShownColumn), cut(strings.Join(names, ", "), 4*maxShownColumn))}
	}
	return errHeader
}

// cut cuts the first field off a row.
func (r *rows) cut(row []byte) (field, rest []byte, more bool, err error) {
	if len(row) == 0 || row[0] != '"' {
		field, rest, more = bytes.Cut(row, []byte{','})
		return field, rest, more, nil
	}
	r.field = r.field[:0]
	for row = row[1:]; ; {
		end := bytes.IndexByte(row, '"')
		if end < 0 {
			return nil, nil, false, errors.New("a quoted field has no end on its line")
		}
		r.field = append(r.field, row[:end]...)
		row = row[end+1:]
		switch {
		case len(row) == 0:
			return r.field, nil, false, nil
		case row[0] == ',':
			return r.field, row[1:], true, nil
		case row[0] != '"':
			return nil, nil, false, errors.New("something stands behind the end of a quoted field")
		}
		r.field = append(r.field, '"')
		row = row[1:]
	}
}

// Names of the columns of answers in CSV.
const (
	addressColumns = "ip,prefix,next_hop,as_path,origin_asns,communities,stale,error\n"
	prefixColumns  = "prefix,found,next_hop,as_path,origin_asns,communities,stale,error\n"
)

func (*addresses) appendRow(dst []byte, ip netip.Addr, rt *routeFields) []byte {
	dst = append(ip.AppendTo(dst), ',')
	if rt.Prefix.IsValid() {
		dst = rt.Prefix.AppendTo(dst)
	}
	return appendRowTail(dst, rt)
}

func (prefixes) appendRow(dst []byte, p netip.Prefix, rt *routeFields) []byte {
	dst = append(p.AppendTo(dst), ',')
	dst = strconv.AppendBool(dst, rt.Prefix.IsValid())
	return appendRowTail(dst, rt)
}

// appendRowTail appends the columns from next_hop on. What is several has blanks between; what the
// route lacks is empty.
func appendRowTail(dst []byte, rt *routeFields) []byte {
	at := &rt.attrs
	dst = append(dst, ',')
	if at.NextHop.IsValid() {
		dst = appendField(dst, at.NextHop.String())
	}
	dst = append(dst, ',')
	if at.ASPath != "" {
		dst = appendField(dst, at.ASPath.String())
	}
	dst = append(dst, ',')
	dst = appendNumbers(dst, at.ASPath.Origins())
	dst = append(dst, ',')
	dst = appendList(dst, at.Communities.Strings(), at.LargeCommunities.Strings(), at.ExtCommunities.Strings())
	dst = append(dst, ',')
	if rt.Stale {
		dst = append(dst, "true"...)
	}
	return append(dst, ',')
}

// appendBadRow appends the row of a bad question, whose columns are empty but for the first and the
// last one.
func appendBadRow(dst []byte, text, why string) []byte {
	dst = appendField(dst, strings.ToValidUTF8(text, "�"))
	dst = append(dst, ",,,,,,,"...)
	return appendField(dst, why)
}

func appendNumbers(dst []byte, numbers []uint32) []byte {
	for i, n := range numbers {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = appendInt(dst, n)
	}
	return dst
}

func appendList(dst []byte, lists ...[]string) []byte {
	blank := false
	for _, list := range lists {
		for _, text := range list {
			if blank {
				dst = append(dst, ' ')
			}
			blank = true
			dst = append(dst, text...)
		}
	}
	return dst
}

// appendField appends a field, in quotes where it must be.
func appendField(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, "\",\r\n") && (text == "" || text[0] != ' ') {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for part, rest, more := strings.Cut(text, `"`); ; part, rest, more = strings.Cut(rest, `"`) {
		dst = append(dst, part...)
		if !more {
			return append(dst, '"')
		}
		dst = append(dst, '"', '"')
	}
}
