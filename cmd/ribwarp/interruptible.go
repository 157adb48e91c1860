package main

import (
	"context"
	"io"
	"sync"
)

// interruptible reads from a reader until the context ends, even while a Read waits there: from a
// terminal or a pipe nothing may ever come. Nothing is taken from the reader before the first Read.
type interruptible struct {
	ctx   context.Context
	from  io.Reader
	start sync.Once
	pipe  *io.PipeReader
}

func (i *interruptible) Read(p []byte) (int, error) {
	i.start.Do(func() {
		var w *io.PipeWriter
		i.pipe, w = io.Pipe()
		context.AfterFunc(i.ctx, func() { w.CloseWithError(i.ctx.Err()) })
		go func() {
			// Only Read, so that the buffer is used: it is what moves at a time.
			_, err := io.CopyBuffer(w, struct{ io.Reader }{i.from}, make([]byte, 256<<10))
			w.CloseWithError(err)
		}()
	})
	return i.pipe.Read(p)
}
