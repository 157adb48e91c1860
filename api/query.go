package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// eachParameter has take look at every parameter of a query, with all its values, until one is wrong.
func eachParameter(raw string, take func(name string, given []string) error) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	for name, given := range values {
		if err := take(name, given); err != nil {
			return err
		}
	}
	return nil
}

// once refuses a parameter that is given several times.
func once(name string, given []string) error {
	if len(given) > 1 {
		return fmt.Errorf("%s is given %d times: once is all it may be", name, len(given))
	}
	return nil
}

// hasOnly reports whether a request has no other parameters than these. Where it has others it answers
// it: who asks for what there is not must not get something else.
func (a *API) hasOnly(c *gin.Context, known ...string) bool {
	if c.Request.URL.RawQuery == "" { // nearly always
		return true
	}
	if err := onlyParameters(c.Request.URL.RawQuery, known...); err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return false
	}
	return true
}

// onlyParameters refuses all others.
func onlyParameters(query string, known ...string) error {
	return eachParameter(query, func(name string, _ []string) error {
		if !slices.Contains(known, name) {
			return unknownParameter(name, nil, known...)
		}
		return nil
	})
}

// unknownParameter says which parameters there are.
func unknownParameter(name string, known []string, more ...string) error {
	all := append(append([]string{}, known...), more...)
	if len(all) == 0 {
		return fmt.Errorf("unknown parameter %q: there are none", cut(name, 32))
	}
	list := all[len(all)-1]
	if rest := all[:len(all)-1]; len(rest) > 0 {
		list = strings.Join(rest, ", ") + " and " + list
	}
	return fmt.Errorf("unknown parameter %q: there are %s", cut(name, 32), list)
}
