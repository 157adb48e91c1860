package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// A diffLookup answers addresses by the routes that carry them in two generations, where these differ.
// It belongs to one request.
type diffLookup struct {
	from, to   *rib.Generation
	same       func(a, b rib.Route) bool
	out        *lineWriter
	kind       addresses
	ips        []netip.Addr
	before     [batchLines]lpm.Handle
	behind     [batchLines]lpm.Handle
	asked, not int // addresses that were asked for, and those that differ
}

// diffLookup answers POST /api/v1/diff?from=N&to=M: which of these addresses are carried by another
// route than before. The body is what POST /api/v1/lookup takes as JSON, text or NDJSON. The answer
// has a line for each address that differs or is none, and a last line.
func (a *API) diffLookup(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	pair, err := parseDiffPair(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	mediaType, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type"))
	question := addressWords.inText
	switch {
	case err == nil && mediaType == "application/json":
		question = nil
	case err == nil && mediaType == "application/x-ndjson":
		question = addressWords.inJSON
	case err != nil || mediaType != "text/plain":
		const taken = "application/json, application/x-ndjson, text/plain"
		c.Writer.Header()["Accept"] = []string{taken}
		a.refuse(c, http.StatusUnsupportedMediaType, "Content-Type is %q: it must be one of %s, as for POST /api/v1/lookup", cut(c.Request.Header.Get("Content-Type"), 64), taken)
		return
	}
	var body []byte
	if question == nil { // it may name the table, whose generations these are
		var name string
		var ok bool
		if body, name, ok = a.readQuestions(c, &addressWords, nil); !ok {
			return
		}
		if v = a.namedToo(c, v, name); v == nil {
			return
		}
	}
	from, to := a.acquireTwo(c, v, pair.from, pair.to)
	if from == nil {
		return
	}
	defer from.Release()
	defer to.Release()
	d := &diffLookup{from: from, to: to, same: pair.same, ips: make([]netip.Addr, 0, batchLines)}
	d.out = a.newLineWriter(c, func() {
		v.held.hold(from)
		v.held.hold(to)
	})
	if question == nil {
		d.json(a, c, body)
		return
	}
	d.stream(a, c, question)
}

// parseDiffPair reads what a diff of addresses has of a diffQuery.
func parseDiffPair(raw string) (diffQuery, error) {
	q := diffQuery{same: rib.SameRoute}
	err := eachParameter(raw, func(name string, given []string) (err error) {
		switch name {
		case "from":
			q.from, err = parseNumber(name, given[0])
		case "to":
			q.to, err = parseNumber(name, given[0])
		case "ignore":
			q.same, err = parseIgnore(given[0])
		case tableParameter: // asked for before
		default:
			err = unknownParameter(name, nil, "from", "to", "ignore", tableParameter)
		}
		if err != nil {
			return err
		}
		return once(name, given)
	})
	if err != nil {
		return q, err
	}
	if q.from == 0 {
		return q, errNoFrom
	}
	return q, nil
}

// json answers {"ips":[...]}, which was checked.
func (d *diffLookup) json(a *API, c *gin.Context, body []byte) {
	number := 0
	_, err := addressWords.walk(body, a.deps.Limits.MaxIPsJSON, func(text []byte) error {
		number++
		return d.add(text, number, nil)
	})
	if err == nil {
		err = d.end()
	}
	if err != nil {
		a.cannotGoOn(c, d.to, err)
	}
}

// stream answers lines.
func (d *diffLookup) stream(a *API, c *gin.Context, question func([]byte) ([]byte, error)) {
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.EnableFullDuplex() // answers go out while lines come in
	body := newLines(c.Request.Body, a.deps.Limits.MaxLine)
	moved := time.Now()
	for {
		if body.progress() {
			moved = time.Now()
			_ = ctl.SetReadDeadline(moved.Add(a.deps.Limits.Progress))
		}
		readErr := body.fill()
		for line, more := body.next(); more; line, more = body.next() {
			text, err := line.text, line.err
			if err == nil {
				text, err = question(line.text)
			}
			if err != nil {
				text = bytes.TrimSpace(line.text)
			}
			if err := d.add(text, line.number, err); err != nil {
				a.cannotGoOn(c, d.to, err)
				return
			}
		}
		switch {
		case readErr == nil && time.Since(moved) <= a.deps.Limits.Progress:
			continue
		case errors.Is(readErr, io.EOF):
			if err := d.end(); err != nil {
				a.cannotGoOn(c, d.to, err)
			}
			return
		case readErr == nil || errors.Is(readErr, os.ErrDeadlineExceeded):
			readErr = os.ErrDeadlineExceeded
			if d.add(nil, body.number+1, errStalled(a.deps.Limits.Progress)) == nil && d.answer() == nil && d.out.flush() == nil {
				_ = ctl.Flush()
			}
		}
		var broken codingError
		if errors.As(readErr, &broken) && !c.Writer.Written() {
			a.refuse(c, http.StatusBadRequest, "%v", broken)
			return
		}
		a.cannotGoOn(c, d.to, readErr)
		return
	}
}

// add takes an address, or what is none; err says why. number is its line, or its place in JSON.
func (d *diffLookup) add(text []byte, number int, err error) error {
	d.asked++
	var ip netip.Addr
	if err == nil {
		ip, err = ParseAddr(borrow(text))
	}
	if err != nil { // in its place among those that differ
		if err := d.answer(); err != nil {
			return err
		}
		d.out.text = append(d.out.text, `{"ip":`...)
		d.out.text = appendString(d.out.text, cut(string(text[:min(len(text), shownInput+1)]), shownInput))
		d.out.text = append(d.out.text, `,"line":`...)
		d.out.text = appendInt(d.out.text, number)
		d.out.text = append(d.out.text, `,"error":`...)
		d.out.text = appendString(d.out.text, err.Error())
		d.out.text = append(d.out.text, '}', '\n')
		return d.out.line()
	}
	if d.ips = append(d.ips, ip); len(d.ips) == batchLines {
		return d.answer()
	}
	return nil
}

// answer answers the addresses that wait.
func (d *diffLookup) answer() error {
	before, behind := d.before[:len(d.ips)], d.behind[:len(d.ips)]
	for _, x := range []struct {
		table   lpm.Table
		handles []lpm.Handle
	}{{d.from.Table, before}, {d.to.Table, behind}} {
		if err := d.kind.find(x.table, x.handles, d.ips); err != nil {
			return tableError{err}
		}
	}
	for i, ip := range d.ips {
		was, is := d.from.Route(before[i]), d.to.Route(behind[i])
		if d.same(was, is) {
			continue
		}
		d.not++
		d.out.text = append(d.out.text, `{"ip":"`...)
		d.out.text = ip.AppendTo(d.out.text)
		d.out.text = append(d.out.text, `","from":`...)
		d.out.text = appendRoute(d.out.text, was)
		d.out.text = append(d.out.text, `,"to":`...)
		d.out.text = appendRoute(d.out.text, is)
		d.out.text = append(d.out.text, '}', '\n')
		if err := d.out.line(); err != nil {
			return err
		}
	}
	d.ips = d.ips[:0]
	return nil
}

// end answers the rest.
func (d *diffLookup) end() error {
	if err := d.answer(); err != nil {
		return err
	}
	d.out.text = fmt.Appendf(d.out.text, "{\"end\":true,\"addresses\":%d,\"changes\":%d}\n", d.asked, d.not)
	return d.out.flush()
}
