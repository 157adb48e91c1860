package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// A scanner reads the two JSON forms that requests have, as {"ips":["..."]} and {"ip":"..."}. It
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

// key takes the name of a field and the colon behind it, and gives the name. Only those of known,
// the most wanted one first, are taken.
func (s *scanner) key(known ...string) (string, error) {
	name, err := s.str("field " + known[0])
	if err != nil {
		return "", err
	}
	i := slices.Index(known, string(name))
	switch {
	case i < 0 && len(known) == 1:
		return "", fmt.Errorf("JSON has an unknown field %q: %q is the only one", cut(string(name), 32), known[0])
	case i < 0:
		return "", fmt.Errorf("JSON has an unknown field %q: there are %s", cut(string(name), 32), strings.Join(known, " and "))
	case !s.take(':'):
		return "", s.wanted("colon")
	}
	return known[i], nil
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
