package api

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// A bulk answers many questions of one kind in one request, whose body is JSON or a stream.
type bulk[K any] struct {
	api     *API
	words   *words
	columns string // of answers in CSV
	// arrow answers a request in Arrow's stream format; nil: there is none.
	arrow   func(*gin.Context, *view)
	batches sync.Pool // of *batch[K]
}

// newBulk makes the endpoint. newKind makes what each batch asks with.
func newBulk[K any](a *API, w words, columns string, counters *lookupCounters, newKind func() kind[K]) *bulk[K] {
	b := &bulk[K]{api: a, words: &w, columns: columns}
	b.batches.New = func() any {
		return &batch[K]{kind: newKind(), words: &w, counts: counters.shard()}
	}
	return b
}

// bulkAddresses makes POST /api/v1/lookup, bulkPrefixes POST /api/v1/routes.
func (a *API) bulkAddresses() gin.HandlerFunc {
	b := newBulk(a, addressWords, addressColumns, a.metrics.lookups, func() kind[netip.Addr] { return new(addresses) })
	b.arrow = a.lookupArrow
	return a.coded(b.serve)
}

func (a *API) bulkPrefixes() gin.HandlerFunc {
	b := newBulk(a, prefixWords, prefixColumns, a.metrics.finds, func() kind[netip.Prefix] { return prefixes{} })
	return a.coded(b.serve)
}

// serve answers a request.
func (b *bulk[K]) serve(c *gin.Context) {
	h := c.Request.Header
	mediaType, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	in, ok := formOf(mediaType)
	if err != nil || !ok || in == formArrow && b.arrow == nil {
		c.Writer.Header()["Accept"] = []string{b.taken()}
		b.api.refuse(c, http.StatusUnsupportedMediaType, "Content-Type is %q: it must be one of %s. JSON is {%q:[...]}, the others are streams of one %s a line or row", cut(h.Get("Content-Type"), 64), b.taken(), b.words.array, b.words.one)
		return
	}
	out, ok := accepted(h, in.answers())
	if !ok {
		var names []string
		for _, f := range in.answers() {
			names = append(names, mediaTypes[f])
		}
		b.api.refuse(c, http.StatusNotAcceptable, "Accept is %q: what is sent as %s is answered as %s", cut(strings.Join(h["Accept"], ", "), 64), mediaType, strings.Join(names, " or "))
		return
	}
	known := lookupParameters
	if in == formCSV {
		known = append(slices.Clip(known), columnParameter)
	}
	if !b.api.hasOnly(c, known...) {
		return
	}
	v := b.api.asked(c)
	if v == nil {
		return
	}
	switch in {
	case formJSON:
		b.json(c, v)
	case formNDJSON:
		b.stream(c, v, b.words.inJSON, out)
	case formText:
		b.stream(c, v, b.words.inText, out)
	case formArrow:
		b.arrow(c, v)
	case formCSV:
		name, err := askedColumn(c.Request.URL.RawQuery)
		var r *rows
		if err == nil {
			r, err = newRows(b.words, name, parameters)
		}
		if err != nil {
			b.api.refuse(c, http.StatusBadRequest, "%v", err)
			return
		}
		b.stream(c, v, r.in, out)
	}
}

// taken lists the types that a request may have.
func (b *bulk[K]) taken() string {
	names := mediaTypes[:]
	if b.arrow == nil {
		names = names[:formArrow]
	}
	return strings.Join(names, ", ")
}

// json answers {"ips":[...]} by {"generation":N,"results":[...]}. The whole body is read and
// checked before the answer begins. It may name the table in place of the query.
func (b *bulk[K]) json(c *gin.Context, v *view) {
	a := b.api
	pooled := a.bodies.Get().(*[]byte)
	defer a.bodies.Put(pooled)
	body, name, ok := a.readQuestions(c, b.words, (*pooled)[:0])
	*pooled = body[:0]
	if !ok {
		return
	}
	if v = a.namedToo(c, v, name); v == nil {
		return
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	seen, ok := a.seenFrom(c, v, g)
	if !ok {
		return
	}

	all := b.batches.Get().(*batch[K])
	defer b.batches.Put(all)
	defer all.end()
	out := &all.own
	out.begin(a.emitter(c, typeJSON))
	all.begin(endpointJSON, formJSON, g, seen, out)
	out.buf = append(out.buf, `{"generation":`...)
	out.buf = appendInt(out.buf, g.Number)
	out.buf = append(out.buf, `,"results":[`...)
	_, err := b.words.walk(body, a.deps.Limits.MaxIPsJSON, func(text []byte) error {
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
	out.buf = append(out.buf, ']', '}', '\n')
	if !c.Writer.Written() {
		writeJSON(c, out.buf)
		return
	}
	if err := out.flush(); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// readQuestions reads a JSON body into buf and checks it whole. It gives the table that the body names, "" for
// none. Where something is wrong it answers the request.
func (a *API) readQuestions(c *gin.Context, w *words, buf []byte) (body []byte, table string, ok bool) {
	body, ok = a.readBody(c, buf, w.many)
	if !ok {
		return body, "", false
	}
	limit := a.deps.Limits.MaxIPsJSON
	table, err := w.walk(body, limit, func([]byte) error { return nil })
	switch {
	case errors.Is(err, errTooMany):
		a.refuse(c, http.StatusRequestEntityTooLarge, "more than %d %s: send them as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit, w.many)
	case err != nil:
		a.refuse(c, http.StatusBadRequest, "%v", err)
	default:
		return body, table, true
	}
	return body, "", false
}

// readBody reads the whole body into buf, and answers the request if it cannot. The deadline is
// the server's; what is what the body is about.
func (a *API) readBody(c *gin.Context, buf []byte, what string) (body []byte, ok bool) {
	limit := a.deps.Limits.MaxBody
	tooLarge := func() {
		a.refuse(c, http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send the %s as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit, what)
	}
	if c.Request.ContentLength > limit { // compressed or not
		tooLarge()
		return buf, false
	}
	into := bytes.NewBuffer(buf)
	_, err := into.ReadFrom(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	body = into.Bytes()
	var big *http.MaxBytesError
	var broken codingError
	switch {
	case err == nil:
		return body, true
	case errors.As(err, &big):
		tooLarge()
	case errors.As(err, &broken):
		a.refuse(c, http.StatusBadRequest, "%v", broken)
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
	var bug panicked
	switch {
	case errors.As(err, &bug):
		panic(bug)
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
