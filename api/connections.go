package api

import (
	"context"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// reserve is how many connections there may be over the bounds: those are answered, probes as always
// and all else by a refusal. More than that are closed at once.
const reserve = 256

// connections counts those of the listeners.
type connections struct {
	admission *admission
	dropped   atomic.Uint64

	mu   sync.Mutex
	open int
	over int // of them, those over a bound
	by   map[netip.Prefix]int
}

func (n *connections) init(d *admission) {
	n.admission, n.by = d, map[netip.Prefix]int{}
}

func (n *connections) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// enter counts a connection of who, which is over a bound for the reason that it gives; false: it is one
// too many even for that.
func (n *connections) enter(who netip.Prefix, trusted bool) (why refusal, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !trusted && n.by[who] >= n.admission.bounds.MaxConnectionsPerAddress:
		why = refusedAddress
	case n.open-n.over >= n.admission.bounds.MaxConnections:
		why = refusedConnection
	}
	if why != admitted {
		if n.over >= reserve {
			return why, false
		}
		n.over++
	} else {
		n.by[who]++
	}
	n.open++
	return why, true
}

func (n *connections) leave(who netip.Prefix, why refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
	if why != admitted {
		n.over--
		return
	}
	if n.by[who]--; n.by[who] == 0 {
		delete(n.by, who)
	}
}

// Listener gives l with its connections bounded, for a server that NewServer made of this API.
// Connections that are not TCP are not counted.
func (a *API) Listener(l net.Listener) net.Listener {
	return &listener{l, &a.admission.connections}
}

type listener struct {
	net.Listener
	connections *connections
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		tcp, ok := accepted.(*net.TCPConn)
		if err != nil || !ok {
			return accepted, err
		}
		peer := clientOf(tcp.RemoteAddr().String())
		who := shareOf(peer)
		why, ok := l.connections.enter(who, l.connections.admission.trusted(peer))
		if !ok {
			l.connections.dropped.Add(1)
			_ = tcp.SetLinger(0) // a reset: nothing of it is kept, here or in the kernel
			_ = tcp.Close()
			continue
		}
		return &connection{TCPConn: tcp, connections: l.connections, who: who, why: why}, nil
	}
}

// A connection is counted until it is closed.
type connection struct {
	*net.TCPConn
	connections *connections
	who         netip.Prefix
	why         refusal // over which bound it is
	closed      atomic.Bool
}

func (c *connection) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.connections.leave(c.who, c.why)
	}
	return c.TCPConn.Close()
}

type overKey struct{}

// connContext has requests know that their connection is over a bound; it is for http.Server.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*connection); ok && c.why != admitted {
		return context.WithValue(ctx, overKey{}, c.why)
	}
	return ctx
}

// overBound says which bound the connection of a request is over.
func overBound(ctx context.Context) refusal {
	why, _ := ctx.Value(overKey{}).(refusal)
	return why
}

// openFiles is how many files and connections the process may have open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
