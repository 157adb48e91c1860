package api

import (
	"net/http"
	"strconv"
	"strings"
)

// A form is what the questions of a bulk request, or its answers, are written in.
type form int

const (
	formJSON form = iota
	formNDJSON
	formText
	formCSV
	formArrow
	forms
)

// mediaTypes are the forms as Content-Type and Accept name them.
var mediaTypes = [forms]string{"application/json", "application/x-ndjson", "text/plain", "text/csv", "application/vnd.apache.arrow.stream"}

// contentTypes are the types of answers as header values.
var contentTypes = [forms][]string{typeJSON, typeNDJSON, {mediaTypes[formText]}, {"text/csv; charset=utf-8; header=present"}, {mediaTypes[formArrow]}}

// formOf gives the form of a media type without parameters.
func formOf(mediaType string) (form, bool) {
	for f, name := range mediaTypes {
		if name == mediaType {
			return form(f), true
		}
	}
	return 0, false
}

// answers gives the forms that questions of a form may be answered in, the usual one first. Lines
// may be answered by lines of another form, what comes in blocks is answered in such blocks.
func (f form) answers() []form {
	switch f {
	case formNDJSON, formText:
		return []form{formNDJSON, formCSV}
	case formCSV:
		return []form{formCSV, formNDJSON}
	}
	return []form{f}
}

// accepted gives the one of some forms that a request wants most (RFC 9110, 12.5.1), the first of
// those that it wants equally. It gives false where it wants none of them.
func accepted(h http.Header, offers []form) (best form, ok bool) {
	accept := h["Accept"]
	if len(accept) == 0 {
		return offers[0], true
	}
	most := 0.0
	for _, f := range offers {
		major, _, _ := strings.Cut(mediaTypes[f], "/")
		if q := quality(accept, mediaTypes[f], major+"/*", "*/*"); q > most {
			best, most = f, q
		}
	}
	return best, most > 0
}

// quality gives how much a header as Accept wants what has these names, the most specific first:
// from 0, not at all, to 1. -1 says that the header has none of them.
func quality(header []string, names ...string) float64 {
	found, q := len(names), -1.0
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(item, ";")
			name = strings.TrimSpace(name)
			for i, n := range names[:found] {
				if strings.EqualFold(name, n) {
					found, q = i, weight(parameters)
					break
				}
			}
		}
	}
	return q
}

// weight gives the q of an item's parameters. One that is no number counts as none: 1.
func weight(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
		}
	}
	return 1
}
