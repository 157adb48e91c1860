package fsm

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"
)

// A flood is a connection on which the same message comes again and again, as much as a read
// takes.
type flood struct {
	script
	left    int // messages
	message []byte
	at      int // in the message
}

func (c *flood) Read(b []byte) (int, error) {
	if len(c.reads) > 0 {
		return c.script.Read(b)
	}
	n := 0
	for n < len(b) && c.left > 0 {
		m := copy(b[n:], c.message[c.at:])
		n += m
		if c.at += m; c.at == len(c.message) {
			c.at = 0
			c.left--
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A counter is a Handler that counts.
type counter struct{ updates int }

func (*counter) Opened(*Open) *Notification    { return nil }
func (*counter) Established(*Session)          {}
func (c *counter) Update([]byte) *Notification { c.updates++; return nil }
func (*counter) Refresh(bool, bool)            {}

// TestUpdatesDoNotAllocate: what a session allocates is not more with more messages.
func TestUpdatesDoNotAllocate(t *testing.T) {
	const n = 100_000
	run := func(n int) uint64 {
		c := &flood{left: n, message: withdraw}
		c.reads = []read{{bytes: slices.Concat(opening(90), keepalive)}}
		h := &counter{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Run(t.Context(), c, us(), h)
		runtime.ReadMemStats(&after)
		if h.updates != n {
			t.Fatalf("%d of %d UPDATEs were handled", h.updates, n)
		}
		return after.Mallocs - before.Mallocs
	}
	few, many := run(1), run(n)
	if many > few+n/1000 {
		t.Errorf("%d allocations with 1 UPDATE, %d with %d", few, many, n)
	}
}

// BenchmarkUpdates is what a session takes in without decoding.
func BenchmarkUpdates(b *testing.B) {
	for _, c := range []struct {
		name    string
		message []byte
	}{{"23bytes", eor4}, {"100bytes", frame(2, make([]byte, 81)...)}, {"4096bytes", frame(2, make([]byte, 4077)...)}} {
		chunk := bytes.Repeat(c.message, max(1, 60000/len(c.message)))
		for _, over := range []string{"pipe", "tcp"} {
			b.Run(c.name+"/"+over, func(b *testing.B) {
				near, far := newPipe()
				if over == "tcp" {
					near, far = loopback(b)
				}
				go discard(far)
				h := &counter{}
				ended := make(chan End)
				b.ReportAllocs()
				b.SetBytes(int64(len(c.message)))
				go func() { ended <- Run(b.Context(), near, us(), h) }()
				if _, err := far.Write(slices.Concat(opening(90), keepalive)); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				for n := 0; n < b.N; n += len(chunk) / len(c.message) {
					if _, err := far.Write(chunk); err != nil {
						b.Fatal(err)
					}
				}
				if c, ok := far.(*net.TCPConn); ok {
					_ = c.CloseWrite() // with something of ours unread Close would be a reset
				} else {
					_ = far.Close()
				}
				<-ended
				b.StopTimer()
				if h.updates < b.N {
					b.Fatalf("%d of %d UPDATEs were handled", h.updates, b.N)
				}
				b.ReportMetric(float64(h.updates)/b.Elapsed().Seconds(), "updates/s")
			})
		}
	}
}

// loopback gives the two ends of a TCP connection.
func loopback(b *testing.B) (near, far net.Conn) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{Timeout: 10 * time.Second}
	if far, err = d.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	return near, far
}
