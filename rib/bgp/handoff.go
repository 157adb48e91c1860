package bgp

import (
	"context"
	"net"
	"sync"
)

// A handoff is the listener at which corebgp is given its connections, whoever made them.
type handoff struct {
	links  chan *link
	once   sync.Once
	closed chan struct{}
}

func newHandoff() *handoff { return &handoff{links: make(chan *link), closed: make(chan struct{})} }

// give hands a connection over. It reports false where ctx ended, or corebgp stopped
// listening, before.
func (h *handoff) give(ctx context.Context, l *link) bool {
	select {
	case h.links <- l:
		return true
	case <-h.closed:
	case <-ctx.Done():
	}
	return false
}

// Accept is part of net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case l := <-h.links:
		return l, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close is part of net.Listener.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is part of net.Listener. There is none.
func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }
