package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// border is what _ stands for: the start, the end, or what is between AS numbers.
const border = `(?:^|$|[ ,{}()\[\]])`

// compileASPath reads a regular expression over the text of AS paths.
func compileASPath(s string) (*regexp.Regexp, error) {
	var b strings.Builder
	class, escaped := false, false
	for _, c := range s {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '_' && class:
			return nil, fmt.Errorf("as-path %q: _ stands for a border and cannot be in []", s)
		case c == '_':
			b.WriteString(border)
			continue
		}
		b.WriteRune(c)
	}
	if s == "" {
		return nil, errors.New("as-path: an empty expression matches every path: \"^$\" is the empty path")
	}
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("as-path %q: %w", s, err)
	}
	return re, nil
}
