package fsm

import (
	"io"
	"net"
	"testing"
	"time"
)

func newPipe() (near, far net.Conn) { return net.Pipe() }

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func readAll(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// read is what one Read of a script gives.
type read struct {
	bytes []byte
	err   error
}

// A script is a connection whose reads are known, and that takes all writes.
type script struct {
	net.Conn // nil: what is not here is not called
	reads    []read
	closed   int
}

func (c *script) Read(b []byte) (int, error) {
	if len(c.reads) == 0 {
		return 0, io.EOF
	}
	r := &c.reads[0]
	n := copy(b, r.bytes)
	if r.bytes = r.bytes[n:]; len(r.bytes) > 0 {
		return n, nil
	}
	err := r.err
	c.reads = c.reads[1:]
	return n, err
}

func (c *script) Write(b []byte) (int, error)      { return len(b), nil }
func (c *script) Close() error                     { c.closed++; return nil }
func (c *script) SetReadDeadline(time.Time) error  { return nil }
func (c *script) SetWriteDeadline(time.Time) error { return nil }
