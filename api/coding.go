package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how far back a body in zstd may refer, and so the memory that it takes to read one:
// what RFC 8878 (3.1.1.1.2) recommends.
const maxWindow = 8 << 20

// A coding is a compression of bodies (Content-Encoding).
type coding struct {
	name     string
	reader   func(io.Reader) (io.ReadCloser, error)
	encoders sync.Pool // of encoder
}

// An encoder compresses a stream.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// codings are those there are, the cheapest first: of two that a client wants equally it gets that.
// An answer is compressed while it is made, so they compress as fast as they can.
var codings = []*coding{
	{
		name: "zstd",
		reader: func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		},
		encoders: sync.Pool{New: func() any {
			e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
			if err != nil { // of options, which are constants
				panic(err)
			}
			return encoder(e)
		}},
	},
	{
		name: "gzip",
		reader: func(r io.Reader) (io.ReadCloser, error) {
			d, err := gzip.NewReader(r)
			if err != nil {
				return nil, err // not d, which would be a nil that is not nil
			}
			return d, nil
		},
		encoders: sync.Pool{New: func() any {
			e, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
			if err != nil {
				panic(err)
			}
			return encoder(e)
		}},
	},
}

// codingNames is what Accept-Encoding says of a service that takes all of them.
const codingNames = "zstd, gzip"

// varies is the header Vary of answers that may be compressed.
var varies = []string{"Accept-Encoding"}

// coded has a handler read bodies that are compressed, and compresses its answers of status 200 as the
// request wants them.
func (a *API) coded(handle gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		body, ok := decoded(c.Request)
		if !ok {
			c.Writer.Header()["Accept-Encoding"] = []string{codingNames}
			a.refuse(c, http.StatusUnsupportedMediaType, "Content-Encoding is %q: send the body as it is, or in one of %s", cut(strings.Join(c.Request.Header["Content-Encoding"], ", "), 64), codingNames)
			return
		}
		if body != nil {
			c.Request.Body = body
			defer func() { _ = body.Close() }()
		}
		c.Writer.Header()["Vary"] = varies
		wanted := wantedCoding(c.Request.Header)
		if wanted == nil {
			handle(c)
			return
		}
		w := &encodingWriter{ResponseWriter: c.Writer, coding: wanted}
		c.Writer = w
		defer func() {
			c.Writer = w.ResponseWriter
			w.release()
		}()
		handle(c)
		w.end()
	}
}

// wantedCoding gives the coding that a request wants its answer in, nil for none.
func wantedCoding(h http.Header) *coding {
	accept := h["Accept-Encoding"]
	if len(accept) == 0 {
		return nil
	}
	var best *coding
	most := 0.0
	for _, cod := range codings {
		if q := quality(accept, cod.name, "*"); q > most {
			best, most = cod, q
		}
	}
	if quality(accept, "identity") > most {
		return nil
	}
	return best
}

// decoded gives the body of a request as it was before it was compressed, nil for one that is not
// compressed. It gives false for a coding that is not known.
func decoded(r *http.Request) (body *decoder, ok bool) {
	name := strings.ToLower(strings.TrimSpace(strings.Join(r.Header["Content-Encoding"], ",")))
	switch name {
	case "", "identity":
		return nil, true
	case "x-gzip": // RFC 9110, 8.4.1.3
		name = "gzip"
	}
	for _, cod := range codings {
		if cod.name == name {
			return &decoder{coding: cod, from: source{Reader: r.Body}}, true
		}
	}
	return nil, false
}

// A decoder is a body while it is decompressed, in constant memory. It tells what is wrong with the
// compression (codingError) from what is wrong with the connection.
type decoder struct {
	coding *coding
	from   source
	r      io.ReadCloser
}

// source remembers why its reader ended.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.err = err
	return n, err
}

// codingError says that a body is not what its Content-Encoding says.
type codingError struct {
	name string
	err  error
}

func (e codingError) Error() string {
	if errors.Is(e.err, io.ErrUnexpectedEOF) || errors.Is(e.err, io.EOF) {
		return fmt.Sprintf("the body ends in the middle of its %s", e.name)
	}
	return fmt.Sprintf("the body is not %s as its Content-Encoding says: %v", e.name, e.err)
}

func (d *decoder) Read(p []byte) (n int, err error) {
	if d.r == nil {
		d.r, err = d.coding.reader(&d.from)
	}
	if err == nil {
		n, err = d.r.Read(p)
		if err == nil || err == io.EOF {
			return n, err
		}
	}
	if d.from.err != nil && d.from.err != io.EOF {
		return n, d.from.err
	}
	if err == io.EOF && d.r == nil { // gzip has no header: an empty body is not gzip
		err = io.ErrUnexpectedEOF
	}
	return n, codingError{d.coding.name, err}
}

// Close frees the decoder, not the body.
func (d *decoder) Close() error {
	if d.r == nil {
		return nil
	}
	return d.r.Close()
}

// An encodingWriter compresses an answer from its first byte on, if its status is 200.
type encodingWriter struct {
	gin.ResponseWriter
	coding  *coding
	enc     encoder
	decided bool
}

func (w *encodingWriter) Write(p []byte) (int, error) {
	if !w.decided {
		w.decided = true
		if h := w.Header(); w.Status() == http.StatusOK && !w.ResponseWriter.Written() {
			h["Content-Encoding"] = []string{w.coding.name}
			delete(h, "Content-Length")
			w.enc = w.coding.encoders.Get().(encoder)
			w.enc.Reset(w.ResponseWriter)
		}
	}
	if w.enc == nil {
		return w.ResponseWriter.Write(p)
	}
	return w.enc.Write(p)
}

func (w *encodingWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Written reports whether the answer has begun, though what there is of it may be in the encoder.
func (w *encodingWriter) Written() bool { return w.enc != nil || w.ResponseWriter.Written() }

// Flush sends all that was written.
func (w *encodingWriter) Flush() {
	if w.enc != nil {
		_ = w.enc.Flush() // the next Write tells
	}
	w.ResponseWriter.Flush()
}

// Unwrap is for http.ResponseController.
func (w *encodingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end writes the end of the compression.
func (w *encodingWriter) end() {
	if w.enc != nil {
		_ = w.enc.Close() // the client may be gone: nobody is left to tell
	}
}

// release gives the encoder back. An answer that did not get out is not compressed: what comes
// instead is an error.
func (w *encodingWriter) release() {
	if w.enc == nil {
		return
	}
	if !w.ResponseWriter.Written() {
		delete(w.Header(), "Content-Encoding")
	}
	w.enc.Reset(nil)
	w.coding.encoders.Put(w.enc)
	w.enc = nil
}
