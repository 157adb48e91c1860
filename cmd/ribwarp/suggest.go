package main

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// instead says what may have been meant by a word that is none of those known.
func instead(word string, known []string) string {
	best, least := "", len(word)/3+1 // one letter in three
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(known) == 0:
		return "there is none"
	}
	known = slices.Sorted(slices.Values(known))
	return "there are " + strings.Join(known, ", ")
}

// distance is how many letters have to be changed, put in or left out to make the one word of the
// other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from the start of a to all starts of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// keysOf gives the keys that a value of a type may have at a path of the configuration file.
func keysOf(t reflect.Type, path []string) (keys []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Map && len(path) > 0:
		return keysOf(t.Elem(), path[1:])
	case t.Kind() != reflect.Struct:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("toml")
		switch {
		case key == "":
		case len(path) == 0:
			keys = append(keys, key)
		case key == path[0]:
			return keysOf(f.Type, path[1:])
		}
	}
	return keys
}

// How the TOML library writes where an error is, and that a value has another type.
var (
	tomlPlace = regexp.MustCompile(`^toml: line (\d+)(?: \(last key "(.*?)"\))?: (.*)$`)
	mismatch  = regexp.MustCompile(`^incompatible types: TOML value has type (\w+); destination has type (\w+)$`)
)

// tomlTypes are types as the author of a file knows them.
var tomlTypes = map[string]string{
	"string": "text", "slice": `an array such as ["a", "b"]`, "map": "a table", "struct": "a table", "bool": "true or false",
	"int": "a number", "int64": "a number", "integer": "a number", "uint16": "a number", "uint32": "a number", "float": "a number with a dot",
}

// readable is an error of the TOML library with its place and the key: the one that is wrong, or
// in a file that is no TOML the last one before that.
func readable(err error) error {
	m := tomlPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, key, what := m[1], m[2], m[3]
	if types := mismatch.FindStringSubmatch(what); types != nil {
		what = fmt.Sprintf("it is %s, and has to be %s", cmp.Or(tomlTypes[types[1]], types[1]), cmp.Or(tomlTypes[types[2]], types[2]))
	}
	if key == "" {
		return fmt.Errorf("line %s: %s", line, what)
	}
	return fmt.Errorf("line %s, at key %q: %s", line, key, what)
}
