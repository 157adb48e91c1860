package api

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A relay carries pieces of work, in order, from the goroutine that reads a request to another one
// that writes its answer, so that both run at once. There are few pieces, and they come back when
// they are done with: who reads faster than the client takes its answers waits for them.
type relay[J any] struct {
	free, work chan J
	failed     atomic.Bool
	err        error // the first one, once written is closed
	written    chan struct{}
	ended      sync.Once
}

// newRelay starts the writing goroutine, which does the pieces that are handed to it. After the
// first error it only gives them back; wake is called then, for a reader that waits for input.
// end must be called.
func newRelay[J any](pieces []J, do func(J) error, wake func()) *relay[J] {
	r := &relay[J]{free: make(chan J, len(pieces)), work: make(chan J, len(pieces)), written: make(chan struct{})}
	for _, p := range pieces {
		r.free <- p
	}
	go func() {
		defer close(r.written)
		for piece := range r.work {
			if r.err == nil {
				if r.err = try(do, piece); r.err != nil {
					r.failed.Store(true)
					wake()
				}
			}
			r.free <- piece
		}
	}()
	return r
}

// take waits for a piece that is free. It gives false once the writer failed.
func (r *relay[J]) take() (J, bool) {
	piece := <-r.free
	return piece, !r.failed.Load()
}

// hand gives a piece to the writer, which owns it until take gives it again.
func (r *relay[J]) hand(piece J) { r.work <- piece }

// end waits until all is written and gives the writer's error.
func (r *relay[J]) end() error {
	r.ended.Do(func() { close(r.work) })
	<-r.written
	return r.err
}

// try does a piece. A panic becomes an error: in a goroutine of its own it would end the process.
func try[J any](do func(J) error, piece J) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked{fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	return do(piece)
}

// panicked is a panic of a writer, for the goroutine of the request to panic with.
type panicked struct{ text string }

func (p panicked) Error() string { return p.text }
