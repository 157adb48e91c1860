package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b == '\r':
			dst = append(dst, '\\', 'r')
		case b == '\t':
			dst = append(dst, '\\', 't')
		case b < ' ' || b == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		case b < utf8.RuneSelf:
			dst = append(dst, b)
		default:
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			dst = utf8.AppendRune(dst, r) // RuneError, U+FFFD, for what is not UTF-8
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}

// A scanner reads the two JSON forms that requests have: {"ips":["..."]} and {"ip":"..."}. It
// descends into nothing else, so that depth costs nothing, and takes nothing it does not know.
type scanner struct {
	text []byte
	at   int
}

// next skips blanks and gives the next byte without taking it, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take skips blanks and takes c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

// end reports whether only blanks are left.
func (s *scanner) end() bool { return s.next() == 0 && s.at == len(s.text) }

// wanted is the error of a byte that is not what the form has there.
func (s *scanner) wanted(what string) error {
	if s.end() {
		return fmt.Errorf("JSON ends at byte %d, where %s should be", s.at, what)
	}
	return fmt.Errorf("JSON has no %s at byte %d", what, s.at)
}

// str takes a string. The text is a part of the input unless it holds escapes.
func (s *scanner) str(what string) ([]byte, error) {
	if !s.take('"') {
		return nil, s.wanted(what)
	}
	start := s.at
	for escaped := false; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"' && !escaped:
			text := s.text[start:s.at]
			s.at++
			return text, nil
		case c == '"':
			s.at++
			var text string
			if err := json.Unmarshal(s.text[start-1:s.at], &text); err != nil {
				return nil, fmt.Errorf("JSON string at byte %d: %w", start-1, err)
			}
			return []byte(text), nil
		case c == '\\':
			escaped = true
			s.at++ // whatever is escaped does not end the string
		case c < ' ':
			return nil, fmt.Errorf("JSON string at byte %d has a control character", start-1)
		}
	}
	s.at = len(s.text)
	return nil, fmt.Errorf("JSON string at byte %d has no end", start-1)
}

// key takes the name of a field and the colon behind it. Only want is known.
func (s *scanner) key(want string) error {
	name, err := s.str("field " + want)
	if err != nil {
		return err
	}
	if string(name) != want {
		return fmt.Errorf("JSON has an unknown field %q: %q is the only one", cut(string(name), 32), want)
	}
	if !s.take(':') {
		return s.wanted("colon")
	}
	return nil
}

// errMoreIPs says that a JSON body holds more addresses than it may.
var errMoreIPs = errors.New("too many addresses")

// walkIPs calls each with the addresses in {"ips":["...", ...]}, at most most of them, and
// gives the first thing that is wrong with the body.
func walkIPs(body []byte, most int, each func(ip []byte) error) error {
	s := scanner{text: body}
	if !s.take('{') {
		return s.wanted(`object {"ips":["192.0.2.1"]}`)
	}
	if err := s.key("ips"); err != nil {
		return err
	}
	if !s.take('[') {
		return s.wanted("array of addresses")
	}
	for n := 0; n > 0 || s.next() != ']'; {
		ip, err := s.str("address as a string")
		if err != nil {
			return err
		}
		if n++; n > most {
			return errMoreIPs
		}
		if err := each(ip); err != nil {
			return err
		}
		if !s.take(',') {
			break
		}
	}
	if !s.take(']') {
		return s.wanted("comma or end of the array")
	}
	return s.close()
}

// close takes the end of an object, behind which nothing may be.
func (s *scanner) close() error {
	if s.take(',') {
		if _, err := s.str("field"); err != nil {
			return err
		}
		return fmt.Errorf("JSON has a second field at byte %d: one is all it may have", s.at)
	}
	if !s.take('}') {
		return s.wanted("end of the object")
	}
	if !s.end() {
		return fmt.Errorf("JSON has something behind its end at byte %d", s.at)
	}
	return nil
}

// lineIP gives the address in a line of NDJSON: {"ip":"..."} or "...".
func lineIP(line []byte) ([]byte, error) {
	s := scanner{text: line}
	switch s.next() {
	case '"':
		ip, err := s.str("address")
		if err == nil && !s.end() {
			err = fmt.Errorf("JSON has something behind its end at byte %d", s.at)
		}
		return ip, err
	case '{':
		s.at++
		if err := s.key("ip"); err != nil {
			return nil, err
		}
		ip, err := s.str("address as a string")
		if err != nil {
			return nil, err
		}
		return ip, s.close()
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("no address: the line is empty")
	}
	return nil, errors.New(`not a line of NDJSON: it must be {"ip":"192.0.2.1"} or "192.0.2.1"`)
}
