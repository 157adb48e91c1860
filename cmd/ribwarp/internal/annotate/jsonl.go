package annotate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ribwarp/ribwarp/rib"
)

// jsonl is one JSON object a line. An object is kept up to its closing brace; the tail adds
// members and closes it. A line that is no object is written as a string in the member "input".
type jsonl struct {
	path       []string // member names to the address
	columns    []Column
	namePrefix string
}

func newJSONL(o Options) (format, error) {
	if o.Field == "" {
		return nil, fmt.Errorf("format %s needs the field of the address, such as src or flow.src", o.Format)
	}
	return jsonl{path: strings.Split(o.Field, "."), columns: o.Columns, namePrefix: o.NamePrefix}, nil
}

func (jsonl) header([]byte) ([]byte, int, error) { return nil, 0, nil }

func (jsonl) whole(b []byte) int { return wholeLines(b) }

func (f jsonl) scan(b []byte, pos int, to *batch) int {
	for pos < len(b) && !to.full() {
		end, next := line(b, pos)
		text := bytes.TrimSpace(b[pos:end])
		if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
			start := len(to.loose)
			to.loose = append(to.loose, `{"input":`...)
			to.loose = append(appendJSONString(to.loose, b[pos:end]), ',')
			to.addBad(to.looseRecord(start), text)
			pos = next
			continue
		}
		// The kept bytes end before the closing brace, with the comma that the tail needs.
		start := len(to.loose)
		to.loose = append(to.loose, bytes.TrimRight(text[:len(text)-1], " \t")...)
		if len(bytes.TrimSpace(text[1:len(text)-1])) > 0 {
			to.loose = append(to.loose, ',')
		}
		to.addText(to.looseRecord(start), f.address(text))
		pos = next
	}
	return pos
}

// address gives the content of the string that the path leads to in a valid object, nil where
// there is none. As in encoding/json the last one of equal names counts.
func (f jsonl) address(object []byte) []byte {
	v := object
	for _, name := range f.path {
		if v = member(v, name); v == nil {
			return nil
		}
	}
	if v[0] != '"' {
		return nil
	}
	return jsonText(v)
}

// member gives the value of a member of a valid JSON value, nil where it is no object or has
// none of the name.
func member(v []byte, name string) (value []byte) {
	if v[0] != '{' {
		return nil
	}
	p := blank(v, 1)
	for v[p] != '}' {
		keyEnd := skipString(v, p)
		key := v[p:keyEnd]
		p = blank(v, blank(v, keyEnd)+1) // behind the colon
		end := skipValue(v, p)
		if string(jsonText(key)) == name {
			value = v[p:end]
		}
		p = blank(v, end)
		if v[p] == ',' {
			p = blank(v, p+1)
		}
	}
	return value
}

// jsonText gives the content of a valid JSON string.
func jsonText(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	var text string
	if json.Unmarshal(s, &text) != nil {
		return nil
	}
	return []byte(text)
}

// blank skips white space.
func blank(v []byte, p int) int {
	for v[p] == ' ' || v[p] == '\t' || v[p] == '\r' || v[p] == '\n' {
		p++
	}
	return p
}

// skipString gives the position behind the string at p of valid JSON.
func skipString(v []byte, p int) int {
	for p++; v[p] != '"'; p++ {
		if v[p] == '\\' {
			p++
		}
	}
	return p + 1
}

// skipValue gives the position behind the value at p of valid JSON.
func skipValue(v []byte, p int) int {
	switch v[p] {
	case '"':
		return skipString(v, p)
	case '{', '[':
		for depth := 0; ; {
			switch v[p] {
			case '"':
				p = skipString(v, p)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return p + 1
				}
			}
			p++
		}
	}
	for v[p] != ',' && v[p] != '}' && v[p] != ']' && v[p] > ' ' {
		p++
	}
	return p
}

func (f jsonl) tail(dst []byte, r rib.Route) []byte {
	if f.namePrefix == "" {
		dst = append(dst, `"route":`...)
		if !r.Prefix.IsValid() {
			return append(dst, "null}\n"...)
		}
		dst = append(dst, '{')
	}
	for i, c := range f.columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(dst, []byte(f.namePrefix+string(c))), ':')
		dst = c.appendJSON(dst, r)
	}
	if f.namePrefix == "" {
		dst = append(dst, '}')
	}
	return append(dst, "}\n"...)
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends text as a JSON string; bytes that are not UTF-8 become U+FFFD.
func appendJSONString(dst, text []byte) []byte {
	dst = append(dst, '"')
	for len(text) > 0 {
		c, n := utf8.DecodeRune(text)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
		text = text[n:]
	}
	return append(dst, '"')
}
