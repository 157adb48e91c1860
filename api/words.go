package api

import (
	"bytes"
	"errors"
	"fmt"
)

// words are what bulk requests call the kind of thing that they ask for, in JSON and in errors.
type words struct {
	field, array string // its fields in JSON: {"ip":"..."} and {"ips":["..."]}
	one, many    string // for people: address, addresses
	example      string
}

var (
	addressWords = words{"ip", "ips", "address", "addresses", "192.0.2.1"}
	prefixWords  = words{"prefix", "prefixes", "prefix", "prefixes", "192.0.2.0/24"}
)

// errTooMany says that a JSON body asks for more than it may.
var errTooMany = errors.New("too many")

// walk calls each with the strings in {"ips":["...", ...]}, at most most of them, and gives the
// first thing that is wrong with the body. Beside them the body may name a table, "" where it does
// not.
func (w *words) walk(body []byte, most int, each func(text []byte) error) (table string, err error) {
	s := scanner{text: body}
	if !s.take('{') {
		return "", s.wanted(fmt.Sprintf(`object {%q:[%q]}`, w.array, w.example))
	}
	asked, named := false, false
	for more := true; more; more = s.take(',') {
		field, err := s.key(w.array, tableParameter)
		switch {
		case err != nil:
		case field == w.array && !asked:
			asked, err = true, w.elements(&s, most, each)
		case field == tableParameter && !named:
			named = true
			table, err = s.tableName()
		default:
			err = fmt.Errorf("JSON has a second field %q before byte %d: one is all it may have", field, s.at)
		}
		if err != nil {
			return "", err
		}
	}
	if err := s.close(); err != nil {
		return "", err
	}
	if !asked {
		return "", fmt.Errorf("JSON has no field %q", w.array)
	}
	return table, nil
}

// elements calls each with the strings of an array.
func (w *words) elements(s *scanner, most int, each func(text []byte) error) error {
	if !s.take('[') {
		return s.wanted("array of " + w.many)
	}
	element := w.one + " as a string"
	for n := 0; n > 0 || s.next() != ']'; {
		text, err := s.str(element)
		if err != nil {
			return err
		}
		if n++; n > most {
			return errTooMany
		}
		if err := each(text); err != nil {
			return err
		}
		if !s.take(',') {
			break
		}
	}
	if !s.take(']') {
		return s.wanted("comma or end of the array")
	}
	return nil
}

// tableName takes the name of a table, which is not empty.
func (s *scanner) tableName() (string, error) {
	text, err := s.str("name of a table as a string")
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("field %q is empty: leave it out for the default table", tableParameter)
	}
	return string(text), err
}

// inJSON gives what a line of NDJSON asks for: {"ip":"..."} or "...".
func (w *words) inJSON(line []byte) ([]byte, error) {
	s := scanner{text: line}
	switch s.next() {
	case '"':
		text, err := s.str(w.one)
		if err == nil && !s.end() {
			err = fmt.Errorf("JSON has something behind its end at byte %d", s.at)
		}
		return text, err
	case '{':
		s.at++
		if _, err := s.key(w.field); err != nil {
			return nil, err
		}
		text, err := s.str(w.one + " as a string")
		if err != nil {
			return nil, err
		}
		return text, s.close()
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, w.emptyLine()
	}
	return nil, fmt.Errorf(`not a line of NDJSON: it must be {%q:%q} or %q`, w.field, w.example, w.example)
}

// inText gives what a line of text asks for.
func (w *words) inText(line []byte) ([]byte, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil, w.emptyLine()
	}
	return line, nil
}

func (w *words) emptyLine() error { return fmt.Errorf("no %s: the line is empty", w.one) }
