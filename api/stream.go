package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
)

// errStalled is why a stream ends whose client sends nothing more.
type errStalled time.Duration

func (e errStalled) Error() string {
	return fmt.Sprintf("no whole line came in for %s: the stream ends here", time.Duration(e))
}

// A question finds what is asked for in a line of a stream.
type question func(line []byte) ([]byte, error)

// stream answers lines, in order, in the form out. Lines are read, parsed and looked up here, while
// a second goroutine renders and writes the answers of those before.
func (b *bulk[K]) stream(c *gin.Context, v *view, in question, out form) {
	a := b.api
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	seen, ok := a.seenFrom(c, v, g)
	if !ok {
		return
	}
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.EnableFullDuplex() // answers go out while lines come in; HTTP/2 does so anyway

	pieces := []*batch[K]{b.batches.Get().(*batch[K]), b.batches.Get().(*batch[K])}
	answers := &pieces[0].own
	answers.begin(a.emitter(c, contentTypes[out]))
	if out == formCSV {
		answers.buf = append(answers.buf, b.columns...)
	}
	for _, p := range pieces {
		p.begin(endpointStream, out, g, seen, answers)
		defer b.batches.Put(p)
		defer p.end()
	}
	writer := newRelay(pieces, func(some *batch[K]) error {
		push := some.push
		if err := some.render(); err != nil || !push {
			return err
		}
		if err := answers.flush(); err != nil {
			return err
		}
		if c.Writer.Written() {
			_ = ctl.Flush()
		}
		return nil
	}, func() { _ = ctl.SetReadDeadline(time.Now()) })
	defer func() { _ = writer.end() }() // before the batches go back, whatever happens
	readErr := b.read(ctl, newLines(c.Request.Body, a.deps.Limits.MaxLine), in, writer)
	if err := writer.end(); err != nil {
		a.cannotGoOn(c, g, err)
		return
	}
	var why lastLine
	switch {
	case readErr == nil: // all lines are answered
		err := answers.flush() // of a stream without a line, the header
		if err != nil {
			a.cannotGoOn(c, g, err)
			return
		}
		c.Writer.Header()["Content-Type"] = contentTypes[out]
		_ = ctl.SetWriteDeadline(time.Now().Add(a.deps.Limits.Progress))
		return
	case errors.As(readErr, &why) && why.status != 0 && !c.Writer.Written():
		a.refuse(c, why.status, "%v", why.err)
		return
	case errors.As(readErr, &why):
		last := pieces[0]
		last.addBad(nil, why.line, why.err)
		if last.render() == nil && answers.flush() == nil {
			_ = ctl.Flush()
		}
		readErr = why.cause
	}
	a.cannotGoOn(c, g, readErr)
}

// A lastLine is why a stream ends too early, said to the client in a last line.
type lastLine struct {
	line   int
	err    error
	status int   // of the problem that says it where no answer has begun; 0: a line all the same
	cause  error // for the metrics
}

func (l lastLine) Error() string { return l.err.Error() }

// read hands all lines to the writer: whenever a batch is full, and whatever there is before more is
// waited for. nil says that the stream is at its end, or that the writer failed.
func (b *bulk[K]) read(ctl *http.ResponseController, body *lines, in question, writer *relay[*batch[K]]) error {
	progress := b.api.deps.Limits.Progress
	some, ok := writer.take()
	if !ok {
		return nil
	}
	// hand passes the batch on and gets another one.
	hand := func() error {
		if err := some.find(); err != nil {
			return err
		}
		writer.hand(some)
		some, ok = writer.take()
		return nil
	}
	moved := time.Now()
	for {
		if body.progress() {
			moved = time.Now()
			_ = ctl.SetReadDeadline(moved.Add(progress))
			if writer.failed.Load() { // it has set a deadline too, perhaps before this one
				return nil
			}
		}
		readErr := body.fill()
		for line, more := body.next(); more; line, more = body.next() {
			if err := some.addLine(line, in); err != nil {
				return lastLine{line: line.number, err: err, status: http.StatusBadRequest, cause: err}
			}
			if some.full() {
				if err := hand(); err != nil || !ok {
					return err
				}
			}
		}
		if some.n > 0 {
			some.push = true
			if err := hand(); err != nil || !ok {
				return err
			}
		}
		var broken codingError
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case errors.As(readErr, &broken):
			return lastLine{line: body.number + 1, err: broken, status: http.StatusBadRequest, cause: broken}
		case errors.Is(readErr, os.ErrDeadlineExceeded), readErr == nil && time.Since(moved) > progress:
			// The second: what is decompressed from little input may take any time.
			return lastLine{line: body.number + 1, err: errStalled(progress), cause: os.ErrDeadlineExceeded}
		case readErr != nil: // the client broke off
			return readErr
		}
	}
}

// addLine puts one line into the batch. An error is one of all that comes.
func (b *batch[K]) addLine(l line, in question) error {
	if l.err != nil {
		b.addBad(l.text, l.number, l.err)
		return nil
	}
	text, err := in(l.text)
	if err == nil {
		b.add(text, l.number)
		return nil
	}
	var missing errNoColumn // below the usual way, for it costs memory
	switch {
	case err == errHeader:
	case errors.As(err, &missing):
		return missing
	default:
		b.addBad(bytes.TrimSpace(l.text), l.number, err)
	}
	return nil
}
