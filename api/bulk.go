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
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// bulk answers POST /api/v1/lookup, whose body is JSON or a stream of lines.
func (a *API) bulk(c *gin.Context) {
	h := c.Request.Header
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		a.refuse(c, http.StatusUnsupportedMediaType, "the body is encoded as %q: send it as it is", cut(enc, 32))
		return
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var answer func(*gin.Context, *rib.Generation)
	switch kind {
	case "application/json":
		answer = a.bulkJSON
	case "application/x-ndjson":
		answer = func(c *gin.Context, g *rib.Generation) { a.stream(c, g, lineIP) }
	case "text/plain":
		answer = func(c *gin.Context, g *rib.Generation) { a.stream(c, g, textIP) }
	default:
		c.Writer.Header().Set("Accept", "application/json, application/x-ndjson, text/plain")
		a.refuse(c, http.StatusUnsupportedMediaType, "Content-Type is %q: send application/json for {\"ips\":[...]}, application/x-ndjson or text/plain for one address a line", cut(h.Get("Content-Type"), 64))
		return
	}
	g := a.acquire(c)
	if g == nil {
		return
	}
	defer g.Release()
	answer(c, g)
}

// textIP gives the address in a line of text.
func textIP(line []byte) ([]byte, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil, errors.New("no address: the line is empty")
	}
	return line, nil
}

// bulkJSON answers {"ips":[...]} by {"generation":N,"results":[...]}. The whole body is read
// and checked before the answer begins.
func (a *API) bulkJSON(c *gin.Context, g *rib.Generation) {
	pooled := a.bodies.Get().(*[]byte)
	defer a.bodies.Put(pooled)
	body, ok := a.readBody(c, (*pooled)[:0])
	*pooled = body[:0]
	if !ok {
		return
	}
	limit := a.deps.Limits.MaxIPsJSON
	switch err := walkIPs(body, limit, func([]byte) error { return nil }); {
	case errors.Is(err, errMoreIPs):
		a.refuse(c, http.StatusRequestEntityTooLarge, "more than %d addresses: send them as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit)
		return
	case err != nil:
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}

	b := a.batches.Get().(*batch)
	defer a.batches.Put(b)
	defer b.end()
	b.begin(endpointJSON, g, a.emitter(c, typeJSON))
	b.out = append(b.out, `{"generation":`...)
	b.out = appendInt(b.out, g.Number)
	b.out = append(b.out, `,"results":[`...)
	err := walkIPs(body, limit, func(ip []byte) error {
		b.add(ip, 0)
		if b.full() {
			return b.answer()
		}
		return nil
	})
	if err == nil {
		err = b.answer()
	}
	if err != nil {
		a.cannotGoOn(c, g, err)
		return
	}
	b.out = append(b.out, ']', '}', '\n')
	if !c.Writer.Written() {
		writeJSON(c, b.out)
		return
	}
	if err := b.flush(); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// readBody reads the whole body into buf, and answers the request if it cannot. The deadline is
// the server's.
func (a *API) readBody(c *gin.Context, buf []byte) (body []byte, ok bool) {
	limit := a.deps.Limits.MaxBody
	tooLarge := func() {
		a.refuse(c, http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send the addresses as a stream of lines (application/x-ndjson or text/plain), which has no limit", limit)
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

// stream answers lines by NDJSON, in order. ipIn finds the address in a line.
func (a *API) stream(c *gin.Context, g *rib.Generation, ipIn func(line []byte) ([]byte, error)) {
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.EnableFullDuplex() // answers go out while lines come in; HTTP/2 does so anyway

	b := a.batches.Get().(*batch)
	defer a.batches.Put(b)
	defer b.end()
	b.begin(endpointStream, g, a.emitter(c, typeNDJSON))

	limits := a.deps.Limits
	in := newLines(c.Request.Body, limits.MaxLine)
	for {
		if in.progress() {
			_ = ctl.SetReadDeadline(time.Now().Add(limits.Progress))
		}
		readErr := in.fill()
		for line, ok := in.next(); ok; line, ok = in.next() {
			addLine(b, line, ipIn)
			if b.full() {
				if err := b.answer(); err != nil {
					a.cannotGoOn(c, g, err)
					return
				}
			}
		}
		stalled := errors.Is(readErr, os.ErrDeadlineExceeded)
		if stalled {
			if b.full() {
				_ = b.answer()
			}
			b.addBad(nil, in.number+1, errStalled(limits.Progress))
		}
		err := b.answer()
		if err == nil {
			err = b.flush()
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
func addLine(b *batch, l line, ipIn func([]byte) ([]byte, error)) {
	if l.err != nil {
		b.addBad(l.text, l.number, l.err)
		return
	}
	ip, err := ipIn(l.text)
	if err != nil {
		b.addBad(bytes.TrimSpace(l.text), l.number, err)
		return
	}
	b.add(ip, l.number)
}
