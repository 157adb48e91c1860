package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib/igp"
)

const (
	defaultIGPPaths = 8
	maxIGPPaths     = 1000
)

// igpStatus is what the service knows of the IGP.
type igpStatus struct {
	Source       string     `json:"source"`
	Generation   uint64     `json:"generation"`
	Changed      *time.Time `json:"changed"`
	Nodes        int        `json:"nodes"`
	Links        int        `json:"links"`
	Root         *string    `json:"root"` // the router's name, null where the decision goes by no costs
	Error        string     `json:"error,omitempty"`
	Changes      uint64     `json:"changes"`
	Failures     uint64     `json:"failures"`
	DecidedAgain uint64     `json:"decided_again"`
	LastAgain    int        `json:"last_decided_again"`
	LastSPF      float64    `json:"last_spf_seconds"`
	LastScan     float64    `json:"last_scan_seconds"`
	// Topology has the form of a file.
	Topology json.RawMessage `json:"topology,omitempty"`
}

// igpStatus gives nil where no IGP is configured.
func (a *API) igpStatus() *igpStatus {
	if a.deps.IGP == nil {
		return nil
	}
	s := a.deps.IGP.Status()
	if s.Source == "" {
		return nil
	}
	out := &igpStatus{
		Source: s.Source, Generation: s.Generation, Nodes: s.Nodes, Links: s.Links, Error: s.LastError,
		Changes: s.Changes, Failures: s.Failures, DecidedAgain: s.DecidedAgain, LastAgain: s.LastAgain,
		LastSPF: s.LastSPF.Seconds(), LastScan: s.LastScan.Seconds(),
	}
	if !s.Changed.IsZero() {
		out.Changed = &s.Changed
	}
	if s.RootNode != "" {
		out.Root = &s.RootNode
	}
	return out
}

// hasIGP answers 404 where no IGP is configured.
func (a *API) hasIGP(c *gin.Context) bool {
	if a.deps.IGP == nil || a.deps.IGP.Status().Source == "" {
		a.refuse(c, http.StatusNotFound, "no IGP is configured: give the service [serve.igp] with a file, or a peer with link-state")
		return false
	}
	return true
}

// igp answers GET /api/v1/igp.
func (a *API) igp(c *gin.Context) {
	if !a.hasIGP(c) {
		return
	}
	q, ok := a.igpQuery(c, "include")
	if !ok {
		return
	}
	s := a.igpStatus()
	switch include := q.Get("include"); include {
	case "":
	case "topology":
		// The counts are those of the topology, which may have come into force since.
		t := a.deps.IGP.Topology()
		var text bytes.Buffer
		if err := igp.Write(&text, t); err != nil {
			a.refuse(c, http.StatusInternalServerError, "the topology could not be written: %v", err)
			return
		}
		s.Generation, s.Nodes, s.Links, s.Topology = t.Number, len(t.Nodes), len(t.Links), text.Bytes()
	default:
		a.refuse(c, http.StatusBadRequest, "include is %q: there is topology", cut(include, 32))
		return
	}
	a.encode(c, a.main, a.main.newest(), s)
}

// igpPaths answers GET /api/v1/igp/paths: from a node to one, with the paths, or to all.
func (a *API) igpPaths(c *gin.Context) {
	if !a.hasIGP(c) {
		return
	}
	q, ok := a.igpQuery(c, "from", "to", "paths")
	if !ok {
		return
	}
	most := defaultIGPPaths
	if text := q.Get("paths"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxIGPPaths {
			a.refuse(c, http.StatusBadRequest, "paths is %q: it must be a number from 0 to %d", cut(text, 32), maxIGPPaths)
			return
		}
		most = n
	}
	t := a.deps.IGP.Topology()
	from, ok := a.igpNode(c, t, "from", q.Get("from"))
	if !ok {
		return
	}
	tree := t.Tree(from)
	answer := struct {
		Generation uint64    `json:"igp_generation"`
		From       string    `json:"from"`
		To         []igp.Way `json:"to"`
	}{t.Number, t.Nodes[from].Name, []igp.Way{}}
	if q.Has("to") {
		to, ok := a.igpNode(c, t, "to", q.Get("to"))
		if !ok {
			return
		}
		answer.To = append(answer.To, tree.Way(to, most))
	} else {
		for v := range t.Nodes {
			if uint32(v) != from {
				answer.To = append(answer.To, tree.Way(uint32(v), 0))
			}
		}
	}
	a.encode(c, a.main, a.main.newest(), answer)
}

// igpNode gives the node that a parameter names. Where there is none it answers the request.
func (a *API) igpNode(c *gin.Context, t *igp.Topology, parameter, name string) (node uint32, ok bool) {
	if name == "" {
		a.refuse(c, http.StatusBadRequest, "%s is missing: name a router, by its name or one of its addresses", parameter)
		return 0, false
	}
	node, err := t.FindNode(name)
	if err != nil {
		a.refuse(c, http.StatusNotFound, "%s: %s (topology of generation %d)", parameter, cut(err.Error(), 512), t.Number)
		return 0, false
	}
	return node, true
}

// igpQuery gives the parameters of a request, each given once at most. Where there are others it answers the request.
func (a *API) igpQuery(c *gin.Context, known ...string) (url.Values, bool) {
	q := url.Values{}
	err := eachParameter(c.Request.URL.RawQuery, func(name string, given []string) error {
		if !slices.Contains(known, name) {
			return unknownParameter(name, nil, known...)
		}
		q[name] = given
		return once(name, given)
	})
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return nil, false
	}
	return q, true
}
