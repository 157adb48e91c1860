package api

import (
	"net/http"
	"time"
)

const (
	idleTimeout    = 2 * time.Minute // of a kept-alive connection between two requests
	maxHeaderBytes = 16 << 10
)

// NewServer makes a server for addr with every timeout set: l.Progress to send a header, to
// send a body and to read an answer. The handler of this package moves the last two along with
// the progress of a stream, so that a stream may take any time as long as it moves. A handler with
// a Close, as API's has, is closed when the server's Shutdown begins.
func NewServer(addr string, handler http.Handler, l Limits) *http.Server {
	l = l.withDefaults()
	srv := &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: l.Progress,
		ReadTimeout:       l.Progress,
		WriteTimeout:      2 * l.Progress, // counted from the end of the header: the body comes first
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       connContext,
	}
	if c, ok := handler.(interface{ Close() }); ok {
		srv.RegisterOnShutdown(c.Close)
	}
	return srv
}
