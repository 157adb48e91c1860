package api

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
)

// The ratio of these two is what the service costs over what gin costs; wrk measures it over
// more connections (docs/benchmarks/http-bulk.txt).

func BenchmarkLookupHTTP(b *testing.B) {
	w := newWorld(b, nil)
	benchGet(b, w.serve().Listener.Addr(), "/api/v1/lookup/10.1.0.1")
}

func BenchmarkBareGin(b *testing.B) {
	w := newWorld(b, nil)
	body := w.get("/api/v1/lookup/10.1.0.1").Body.Bytes()
	r := gin.New()
	r.GET("/api/v1/lookup/:ip", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", body) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := NewServer("", r, Limits{})
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { _ = srv.Close() })
	benchGet(b, l.Addr(), "/api/v1/lookup/10.1.0.1")
}

// benchGet asks over kept-alive connections, one a worker, with next to no work on the client.
func benchGet(b *testing.B, addr net.Addr, path string) {
	b.Helper()
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: bench\r\n\r\n")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		answer := make([]byte, 4096)
		size := 0
		for pb.Next() {
			if _, err := conn.Write(request); err != nil {
				b.Error(err)
				return
			}
			n := 0
			for done := false; !done; done = size > 0 && n >= size || size == 0 && answer[n-1] == '\n' {
				m, err := conn.Read(answer[n:])
				if err != nil {
					b.Error(err)
					return
				}
				n += m
			}
			size = n
			if !strings.HasPrefix(string(answer[:12]), "HTTP/1.1 200") {
				b.Errorf("answer %q", answer[:n])
				return
			}
		}
	})
}
