package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// A bulk answers many questions of one kind in one request, whose body is JSON or a stream of
// lines.
type bulk[K any] struct {
	api *API
	words
	batches sync.Pool // of *batch[K]
}

// newBulk makes the endpoint. newKind makes what each batch asks with.
func newBulk[K any](a *API, w words, counters *lookupCounters, newKind func() kind[K]) *bulk[K] {
	b := &bulk[K]{api: a, words: w}
	b.batches.New = func() any {
		return &batch[K]{kind: newKind(), field: w.field, counts: counters.shard()}
	}
	return b
}

// serve answers a request.
func (b *bulk[K]) serve(c *gin.Context) {
	h := c.Request.Header
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		b.api.refuse(c, http.StatusUnsupportedMediaType, "the body is encoded as %q: send it as it is", cut(enc, 32))
		return
	}
	form, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		form = ""
	}
	var answer func(*gin.Context, *view)
	switch form {
	case "application/json":
		answer = b.json
	case "application/x-ndjson":
		answer = func(c *gin.Context, v *view) { b.stream(c, v, b.inJSON) }
	case "text/plain":
		answer = func(c *gin.Context, v *view) { b.stream(c, v, b.inText) }
	default:
		c.Writer.Header().Set("Accept", "application/json, application/x-ndjson, text/plain")
		b.api.refuse(c, http.StatusUnsupportedMediaType, "Content-Type is %q: send application/json for {%q:[...]}, application/x-ndjson or text/plain for one %s a line", cut(h.Get("Content-Type"), 64), b.array, b.one)
		return
	}
	if v := b.api.asked(c); v != nil {
		answer(c, v)
	}
}

// json answers {"ips":[...]} by {"generation":N,"results":[...]}. The whole body is read and
// checked before the answer begins. It may name the table in place of the query.
func (b *bulk[K]) json(c *gin.Context, v *view) {
	a := b.api
	pooled := a.bodies.Get().(*[]byte)
	defer a.bodies.Put(pooled)
	body, ok := a.readBody(c, (*pooled)[:0], b.many)
	*pooled = body[:0]
	if !ok {
		return
	}
	limit := a.deps.Limits.MaxIPsJSON
	name, err := b.walk(body, limit, func([]byte) error { return nil })
	switch {
	case errors.Is(err, errTooMany):
		a.refuse(c, http.StatusRequestEntityTooLarge, "more than %d %s: send them as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit, b.many)
		return
	case err != nil:
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	case name != "" && v != a.main && name != v.name:
		a.refuse(c, http.StatusBadRequest, "the URL asks for table %q and the body for %q: name it once", v.name, cut(name, maxShownName))
		return
	case name != "":
		if v = a.named(c, name); v == nil {
			return
		}
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()

	all := b.batches.Get().(*batch[K])
	defer b.batches.Put(all)
	defer all.end()
	all.begin(endpointJSON, g, a.emitter(c, typeJSON))
	all.out = append(all.out, `{"generation":`...)
	all.out = appendInt(all.out, g.Number)
	all.out = append(all.out, `,"results":[`...)
	_, err = b.walk(body, limit, func(text []byte) error {
		all.add(text, 0)
		if all.full() {
			return all.answer()
		}
		return nil
	})
	if err == nil {
		err = all.answer()
	}
	if err != nil {
		a.cannotGoOn(c, g, err)
		return
	}
	all.out = append(all.out, ']', '}', '\n')
	if !c.Writer.Written() {
		writeJSON(c, all.out)
		return
	}
	if err := all.flush(); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// readBody reads the whole body into buf, and answers the request if it cannot. The deadline is
// the server's; what is what the body is about.
func (a *API) readBody(c *gin.Context, buf []byte, what string) (body []byte, ok bool) {
	limit := a.deps.Limits.MaxBody
	tooLarge := func() {
		a.refuse(c, http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send the %s as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit, what)
	}
	if c.Request.ContentLength > limit {
		tooLarge()
		return buf, false
	}
	into := bytes.NewBuffer(buf)
	_, err := into.ReadFrom(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	body = into.Bytes()
	var big *http.MaxBytesError
	switch {
	case err == nil:
		return body, true
	case errors.As(err, &big):
		tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.metrics.aborted[abortTimeout].Inc()
		a.refuse(c, http.StatusRequestTimeout, "the body did not come in within %s", a.deps.Limits.Progress)
	default:
		a.metrics.aborted[abortClient].Inc()
		a.refuse(c, http.StatusBadRequest, "the body ended early: %v", err)
	}
	return body, false
}

// emitter gives a function that writes pieces of an answer of this type. Every piece gets its
// own deadline, so that an answer of any length goes out as long as the client reads it.
func (a *API) emitter(c *gin.Context, contentType []string) func([]byte) error {
	ctl := http.NewResponseController(c.Writer)
	return func(piece []byte) error {
		c.Writer.Header()["Content-Type"] = contentType
		// A writer without deadlines is one of a test: there is no connection to be slow.
		_ = ctl.SetWriteDeadline(time.Now().Add(a.deps.Limits.Progress))
		_, err := c.Writer.Write(piece)
		return err
	}
}

// cannotGoOn ends an answer that cannot be completed: by a problem if it has not begun, else by
// breaking the connection off.
func (a *API) cannotGoOn(c *gin.Context, g *rib.Generation, err error) {
	var table tableError
	switch {
	case errors.As(err, &table):
		a.metrics.aborted[abortTable].Inc()
		a.lookupFailed(c, g.Number, err)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.metrics.aborted[abortTimeout].Inc()
	default:
		a.metrics.aborted[abortClient].Inc()
	}
	panic(http.ErrAbortHandler)
}

// errStalled is why a stream ends whose client sends nothing more.
type errStalled time.Duration

func (e errStalled) Error() string {
	return fmt.Sprintf("no whole line came in for %s: the stream ends here", time.Duration(e))
}

// stream answers lines by NDJSON, in order. in finds the question in a line.
func (b *bulk[K]) stream(c *gin.Context, v *view, in func(line []byte) ([]byte, error)) {
	a := b.api
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.EnableFullDuplex() // answers go out while lines come in; HTTP/2 does so anyway

	some := b.batches.Get().(*batch[K])
	defer b.batches.Put(some)
	defer some.end()
	some.begin(endpointStream, g, a.emitter(c, typeNDJSON))

	limits := a.deps.Limits
	body := newLines(c.Request.Body, limits.MaxLine)
	for {
		if body.progress() {
			_ = ctl.SetReadDeadline(time.Now().Add(limits.Progress))
		}
		readErr := body.fill()
		for line, ok := body.next(); ok; line, ok = body.next() {
			some.addLine(line, in)
			if some.full() {
				if err := some.answer(); err != nil {
					a.cannotGoOn(c, g, err)
					return
				}
			}
		}
		stalled := errors.Is(readErr, os.ErrDeadlineExceeded)
		if stalled {
			if some.full() {
				_ = some.answer()
			}
			some.addBad(nil, body.number+1, errStalled(limits.Progress))
		}
		err := some.answer()
		if err == nil {
			err = some.flush()
		}
		if err != nil {
			a.cannotGoOn(c, g, err)
			return
		}
		switch {
		case readErr == nil:
			if c.Writer.Written() {
				_ = ctl.Flush() // the client may wait for these answers before it sends more
			}
		case errors.Is(readErr, io.EOF):
			c.Writer.Header()["Content-Type"] = typeNDJSON // for a stream without a line
			_ = ctl.SetWriteDeadline(time.Now().Add(limits.Progress))
			return
		case stalled:
			_ = ctl.Flush()
			a.cannotGoOn(c, g, readErr)
			return
		default: // the client broke off
			a.cannotGoOn(c, g, readErr)
			return
		}
	}
}

// addLine puts one line into the batch.
func (b *batch[K]) addLine(l line, in func([]byte) ([]byte, error)) {
	if l.err != nil {
		b.addBad(l.text, l.number, l.err)
		return
	}
	text, err := in(l.text)
	if err != nil {
		b.addBad(bytes.TrimSpace(l.text), l.number, err)
		return
	}
	b.add(text, l.number)
}
