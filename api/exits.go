package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	maxRouters = 10_000
	// maxExits is how many exits, addresses times routers, a request may ask for.
	maxExits = 10_000_000
	// exitsAtOnce is for how many addresses the costs from all routers are computed together.
	exitsAtOnce = 4096
)

// exitsQuestion is the body of POST /api/v1/exits.
type exitsQuestion struct {
	From  []string `json:"from"`
	IPs   []string `json:"ips"`
	Table string   `json:"table"`
}

// exits answers POST /api/v1/exits: which exit each of many routers takes to each of many addresses.
func (a *API) exits(c *gin.Context) {
	if !a.hasIGP(c) || !a.hasOnly(c, tableParameter, generationParameter) {
		return
	}
	q, ok := a.exitsQuestion(c)
	if !ok {
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	if v = a.namedToo(c, v, q.Table); v == nil {
		return
	}
	if v.of == nil {
		a.refuse(c, http.StatusNotFound, "table %q has no paths to choose from", v.name)
		return
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	t := a.deps.IGP.Topology()
	x := exitsAnswer{g: g, viewer: v.of.RIB.Viewer(g), emit: a.emitter(c, typeJSON)}
	for _, name := range q.From {
		node, ok := a.igpNode(c, t, "from", name)
		if !ok {
			return
		}
		x.roots = append(x.roots, node)
		x.names = append(x.names, t.Nodes[node].Name)
	}
	c.Writer.Header()[headerIGPGeneration] = []string{strconv.FormatUint(t.Number, 10)}
	x.out = append(x.out, `{"generation":`...)
	x.out = appendInt(x.out, g.Number)
	x.out = append(x.out, `,"igp_generation":`...)
	x.out = appendInt(x.out, t.Number)
	x.out = append(x.out, `,"results":[`...)
	costs := func(hops []netip.Addr) ([]rib.IGPCost, error) {
		return a.deps.IGP.FromEach(c.Request.Context(), t, x.roots, hops)
	}
	for len(q.IPs) > 0 {
		n := min(exitsAtOnce, len(q.IPs))
		if err := x.answer(q.IPs[:n], costs); err != nil {
			a.cannotGoOn(c, g, err)
			return
		}
		q.IPs = q.IPs[n:]
	}
	x.out = append(closeArray(x.out), '}', '\n')
	if !c.Writer.Written() {
		writeJSON(c, x.out)
		return
	}
	if err := x.emit(x.out); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// exitsQuestion reads the body. Where it is wrong it answers the request.
func (a *API) exitsQuestion(c *gin.Context) (q exitsQuestion, ok bool) {
	body, ok := a.readBody(c, nil, "addresses")
	if !ok {
		return q, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(&q)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind the object")
		}
	}
	limit := a.deps.Limits.MaxIPsJSON
	switch {
	case err != nil:
		a.refuse(c, http.StatusBadRequest, `the body is not {"from":["ROUTER"],"ips":["192.0.2.1"]}: %s`, cut(err.Error(), 256))
	case len(q.From) == 0 || len(q.IPs) == 0:
		a.refuse(c, http.StatusBadRequest, "from or ips is missing or empty: name routers and addresses")
	case len(q.From) > maxRouters:
		a.refuse(c, http.StatusRequestEntityTooLarge, "%d routers: %d at most", len(q.From), maxRouters)
	case len(q.IPs) > limit:
		a.refuse(c, http.StatusRequestEntityTooLarge, "%d addresses: %d at most", len(q.IPs), limit)
	case len(q.From)*len(q.IPs) > maxExits:
		a.refuse(c, http.StatusRequestEntityTooLarge, "%d routers times %d addresses: %d exits at most", len(q.From), len(q.IPs), maxExits)
	default:
		return q, true
	}
	return q, false
}

// exitsAnswer is an answer on its way.
type exitsAnswer struct {
	g      *rib.Generation
	viewer *rib.Viewer
	roots  []uint32
	names  []string
	emit   func([]byte) error
	out    []byte
}

// answer appends the results for some addresses.
func (x *exitsAnswer) answer(texts []string, costs func([]netip.Addr) ([]rib.IGPCost, error)) error {
	var s addresses
	ips, bad := make([]netip.Addr, 0, len(texts)), make([]error, len(texts))
	for i, text := range texts {
		ip, err := ParseAddr(text)
		if bad[i] = err; err == nil {
			ips = append(ips, ip)
		}
	}
	handles := make([]lpm.Handle, len(ips))
	if err := s.find(x.g.Table, handles, ips); err != nil {
		return tableError{err}
	}
	from, err := costs(x.viewer.NextHops(handles))
	if err != nil {
		return fmt.Errorf("exits: %w", err)
	}
	views := make([]*rib.View, len(from))
	for i, c := range from {
		views[i] = x.viewer.From(c)
	}
	for i, text := range texts {
		if bad[i] != nil {
			x.out = append(appendError(x.out, addressWords.field, cut(text, shownInput), 0, bad[i]), ',')
			continue
		}
		x.one(views, ips[0], handles[0])
		ips, handles = ips[1:], handles[1:]
		if len(x.out) >= outPiece {
			last := len(x.out) - 1 // the comma, which may have to become the end
			if err := x.emit(x.out[:last]); err != nil {
				return err
			}
			x.out = append(x.out[:0], ',')
		}
	}
	return nil
}

// one appends the result for an address: its exits, each with the routers that take it and what it costs
// them, and the routers that have none.
func (x *exitsAnswer) one(views []*rib.View, ip netip.Addr, h lpm.Handle) {
	takers := map[rib.Route][]int{}
	var order []rib.Route
	for i, v := range views {
		r := v.Lookup(ip, h)
		if takers[r] == nil {
			order = append(order, r)
		}
		takers[r] = append(takers[r], i)
	}
	x.out = append(x.out, `{"ip":"`...)
	x.out = ip.AppendTo(x.out)
	x.out = append(x.out, `","exits":[`...)
	for _, r := range order {
		if r == (rib.Route{}) {
			continue
		}
		x.out = append(x.out, '{')
		x.out = appendRouteDetails(x.out, r)
		x.out = append(x.out, `,"from":[`...)
		x.appendNames(takers[r])
		x.out = append(x.out, `,"costs":[`...)
		for _, i := range takers[r] {
			if cost, ok := views[i].Cost(r); ok {
				x.out = appendInt(x.out, cost)
			} else {
				x.out = append(x.out, "null"...)
			}
			x.out = append(x.out, ',')
		}
		x.out = append(closeArray(x.out), '}', ',')
	}
	x.out = append(closeArray(x.out), `,"without":[`...)
	x.appendNames(takers[rib.Route{}])
	x.out = append(x.out, '}', ',')
}

func (x *exitsAnswer) appendNames(routers []int) {
	for _, i := range routers {
		x.out = append(appendString(x.out, x.names[i]), ',')
	}
	x.out = closeArray(x.out)
}
