package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// acceptPause is the wait after a connection that could not be accepted.
const acceptPause = 100 * time.Millisecond

// A listener is an address that is listened at.
type listener struct {
	*net.TCPListener
	given string // as the configuration has it
}

// listen begins to listen.
func listen(given string) (*listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // its sockets have neither TCP-MD5 nor TTL security
	l, err := config.Listen(context.Background(), "tcp", given)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w%s", given, err, advice(err))
	}
	return &listener{l.(*net.TCPListener), given}, nil
}

// advice says what to do about an address that cannot be listened at.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": another program listens there; stop it or choose another port"
	case errors.Is(err, syscall.EACCES):
		return ": ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose another port or grant it"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": the address is not one of this host"
	}
	return ""
}

// protect gives a listener the passwords of peers, and takes those of `former` from it that
// are none any more.
func (l *listener) protect(peers, former []PeerConfig) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	passwords := make(map[netip.Prefix]string)
	for _, p := range former {
		if p.MD5 != "" {
			passwords[p.source()] = ""
		}
	}
	far := false
	for _, p := range peers {
		if p.MD5 != "" {
			passwords[p.source()] = p.MD5
		}
		far = far || p.TTLSecurity != 0
	}
	for prefix, password := range passwords {
		if err := setMD5(raw, prefix, password); err != nil {
			return fmt.Errorf("listener %s: %w", l.given, err)
		}
	}
	if !far {
		return nil
	}
	// What answers a SYN has the listener's TTL, and the peer may look at it, too.
	addr := addrOf(l.Addr())
	if err := setTTL(raw, addr, 0); err != nil {
		return fmt.Errorf("listener %s: %w", l.given, err)
	}
	if addr == netip.IPv6Unspecified() {
		if err := setTTL(raw, netip.IPv4Unspecified(), 0); err != nil {
			return fmt.Errorf("listener %s: %w", l.given, err)
		}
	}
	return nil
}

// source is where a peer's connections come from.
func (c *PeerConfig) source() netip.Prefix {
	if c.dynamic() {
		return c.Prefix
	}
	return netip.PrefixFrom(c.Addr.WithZone(""), c.Addr.BitLen())
}

// accept takes connections until the listener is closed.
func (s *Server) accept(l *listener) {
	defer s.survive()
	failures := uint64(0)
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: it passes
			if failures++; failures&(failures-1) == 0 {
				s.log.Error("bgp connection not accepted", "listen", l.given, "error", err, "failures", failures)
			}
			select {
			case <-s.done:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		failures = 0
		if reason := s.take(c); reason != "" {
			s.log.Debug("bgp connection refused", "reason", reason, "from", c.RemoteAddr().String())
			_ = c.Close()
		}
	}
}

// take gives a connection to whom it is for, or a reason to refuse it.
func (s *Server) take(c *net.TCPConn) string {
	from := addrOf(c.RemoteAddr())
	n := s.neighbourAt(from)
	if n == nil {
		// One in a while is enough for the log: port scans come by the thousand.
		if n := s.refused.Add(1); n&(n-1) == 0 {
			s.log.Warn("bgp connection refused: not a peer", "from", c.RemoteAddr().String(), "refused", n)
		}
		return "not a peer"
	}
	cfg := n.config()
	if local := addrOf(c.LocalAddr()); cfg.LocalAddr.IsValid() && local != cfg.LocalAddr {
		s.log.Warn("bgp connection refused: wrong local address", "peer", n.name, "local", local, "expected", cfg.LocalAddr)
		return "wrong local address"
	}
	if cfg.TTLSecurity != 0 {
		raw, err := c.SyscallConn()
		if err == nil {
			err = setTTL(raw, from, cfg.TTLSecurity)
		}
		if err != nil {
			s.log.Error("bgp connection refused", "peer", n.name, "error", err)
			return err.Error()
		}
	}
	opened, ok := s.halfOpen.enter(from, n.dynamic, s.config())
	if !ok {
		if n := s.refusedHalfOpen.Add(1); n&(n-1) == 0 {
			s.log.Warn("bgp connection refused: too many are not established", "from", c.RemoteAddr().String(), "refused", n)
		}
		return "too many connections are not established"
	}
	if !n.offer(c, from, opened) {
		opened()
		return "the peer takes none"
	}
	return ""
}

// addrOf is the address of one end of a TCP connection.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// halfOpen counts accepted connections that are not established.
type halfOpen struct {
	mu      sync.Mutex
	dynamic int // of neighbours known by prefix alone
	byAddr  map[netip.Addr]int
}

// enter counts one more, until leave is called, or reports false where there are enough.
func (h *halfOpen) enter(from netip.Addr, dynamic bool, c *Config) (leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byAddr[from] >= c.MaxHalfOpenPerAddr || dynamic && h.dynamic >= c.MaxHalfOpen {
		return nil, false
	}
	if h.byAddr == nil {
		h.byAddr = make(map[netip.Addr]int)
	}
	h.byAddr[from]++
	if dynamic {
		h.dynamic++
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.byAddr[from]--; h.byAddr[from] == 0 {
			delete(h.byAddr, from)
		}
		if dynamic {
			h.dynamic--
		}
	}), true
}

func (h *halfOpen) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, c := range h.byAddr {
		n += c
	}
	return n
}
