package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// tableParameter names the table that a request is about; without it that is the default one.
const tableParameter = "table"

// A view is a table as requests see it, with what is kept for them. Its functions may be nil, as in
// Deps.
type view struct {
	name        string
	of          *rib.Table // nil for a default table that Deps has piece by piece
	generations *lpm.Published[rib.Route]
	peers       func() []rib.PeerStatus
	ready       func() (ok bool, waiting []string)
	paths       func(netip.Prefix) []rib.Candidate
	stats       func() rib.PublisherStats

	info     tableInfo
	header   atomic.Pointer[generationHeader]
	held     held // generations that requests asked for lately
	past     held // those of Deps.Past
	arrow    newestArrowRoutes
	overview overview
	series   tableSeries
}

func (a *API) newView(t *rib.Table) *view {
	return &view{
		past: held{most: a.deps.Past.Most, time: a.deps.Past.time()},
		name: t.Name, of: t, generations: t.Publisher.Generations(), peers: t.RIB.Peers,
		ready: t.Publisher.Ready, paths: t.RIB.Paths, stats: t.Publisher.Stats,
	}
}

// close gives back the generations that are held, and holds none from now on.
func (v *view) close() {
	v.held.close()
	v.past.close()
}

// views are the tables but the default one that were asked for.
type views struct {
	mu     sync.Mutex
	byName map[string]*view
	closed bool
}

// view gives the table of a name, false where there is none (any more).
func (a *API) view(name string) (*view, bool) {
	if name == rib.DefaultTable {
		return a.main, true
	}
	if a.deps.Tables == nil {
		return nil, false
	}
	t, ok := a.deps.Tables.Get(name)
	a.others.mu.Lock()
	defer a.others.mu.Unlock()
	v := a.others.byName[name]
	if ok && v != nil && v.of == t {
		return v, true
	}
	if v != nil { // dropped, and perhaps there anew
		v.close()
		delete(a.others.byName, name)
	}
	if !ok {
		return nil, false
	}
	v = a.newView(t)
	if a.others.closed {
		v.close()
	}
	a.others.byName[name] = v
	return v, true
}

// views gives all tables, the default one first. What is kept for tables that were dropped goes.
func (a *API) views() []*view {
	all := []*view{a.main}
	if a.deps.Tables == nil {
		return all
	}
	there := map[string]bool{}
	for _, t := range a.deps.Tables.All()[1:] {
		if v, ok := a.view(t.Name); ok { // else dropped in this moment
			all = append(all, v)
			there[t.Name] = true
		}
	}
	a.others.mu.Lock()
	defer a.others.mu.Unlock()
	for name, v := range a.others.byName {
		if !there[name] {
			v.close()
			delete(a.others.byName, name)
		}
	}
	return all
}

// asked gives the table that a request is about. Where there is none of that name it answers the
// request and gives nil. Nothing else of the query is looked at.
func (a *API) asked(c *gin.Context) *view {
	raw := c.Request.URL.RawQuery
	if raw == "" {
		return a.main
	}
	values, _ := url.ParseQuery(raw) // who takes other parameters says what is wrong with them
	given := values[tableParameter]
	switch len(given) {
	case 0:
		return a.main
	case 1:
		return a.named(c, given[0])
	}
	a.refuse(c, http.StatusBadRequest, "%v", once(tableParameter, given))
	return nil
}

// named gives the table of that name. Where there is none it answers the request and gives nil.
func (a *API) named(c *gin.Context, name string) *view {
	v, ok := a.view(name)
	if !ok {
		var names []string
		for _, v := range a.views() {
			names = append(names, v.name)
		}
		a.refuse(c, http.StatusNotFound, "there is no table %q: there are %s", cut(name, maxShownName), strings.Join(names, ", "))
		return nil
	}
	if v != a.main {
		c.Set(keyView, v)
	}
	return v
}

// namedToo gives the table of a request whose URL asks for v, and whose body may name one, too ("" for none).
// Where they differ, or there is none of that name, it answers the request and gives nil.
func (a *API) namedToo(c *gin.Context, v *view, name string) *view {
	switch {
	case name == "":
		return v
	case name != v.name && (v != a.main || c.Request.URL.Query().Has(tableParameter)):
		a.refuse(c, http.StatusBadRequest, "the URL asks for table %q and the body for %q: name it once", v.name, cut(name, maxShownName))
		return nil
	}
	return a.named(c, name)
}

// maxShownName is how much of the name of a table that is not there is repeated.
const maxShownName = 64

// keyView is where a request has its table, if that is not the default one.
const keyView = "view"

// viewOf gives the table of a request as far as it is known.
func (a *API) viewOf(c *gin.Context) *view {
	if v, ok := c.Get(keyView); ok {
		return v.(*view)
	}
	return a.main
}
