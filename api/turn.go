package api

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// A turn is that of a bulk request at the gate. The request has it while it computes: it is given back
// around every read of the body and every write of the answer, so that who waits for a slow client
// holds up nobody. A request may have two goroutines, one that reads and one that writes; it has no
// turn while either waits for the network, and what the other does meanwhile is bounded by the pieces
// of its relay.
type turn struct {
	gate   *gate
	client *gateClient

	mu    sync.Mutex
	away  int // goroutines that wait for the network
	held  bool
	ended bool
}

// leave is called in front of what may wait for the network.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away++
	if t.held {
		t.held = false
		t.gate.give()
	}
}

// back is called behind it, and waits for another turn.
func (t *turn) back() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away--
	if t.away == 0 && !t.ended {
		t.gate.take(t.client, 0)
		t.held = true
	}
}

// end lets the request out.
func (t *turn) end() {
	t.mu.Lock()
	t.ended = true
	if t.held {
		t.held = false
		t.gate.give()
	}
	t.mu.Unlock()
	t.gate.leave(t.client)
}

// turnWriter gives the turn back while it writes.
type turnWriter struct {
	gin.ResponseWriter
	turn   *turn
	body   *turnBody // nil without one
	duplex bool
}

// EnableFullDuplex is for http.ResponseController.
func (w *turnWriter) EnableFullDuplex() error {
	w.duplex = true
	return http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

// WriteHeader ends the connection with an error that comes before the end of the body: net/http cannot
// go on behind such a body in full duplex ("invalid concurrent Body.Read call").
func (w *turnWriter) WriteHeader(status int) {
	if w.duplex && w.body != nil && !w.body.ended.Load() && status >= http.StatusBadRequest {
		w.Header()["Connection"] = []string{"close"}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *turnWriter) Write(p []byte) (int, error) {
	w.turn.leave()
	defer w.turn.back()
	return w.ResponseWriter.Write(p)
}

func (w *turnWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *turnWriter) Flush() {
	w.turn.leave()
	defer w.turn.back()
	w.ResponseWriter.Flush()
}

// Unwrap is for http.ResponseController.
func (w *turnWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// turnBody gives the turn back while it reads.
type turnBody struct {
	io.ReadCloser
	turn  *turn
	ended atomic.Bool // it was read to its end
}

func (b *turnBody) Read(p []byte) (int, error) {
	b.turn.leave()
	defer b.turn.back()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}
