package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jwhited/corebgp"

	"github.com/ribwarp/ribwarp/rib"
)

// acceptPause is the wait after a connection that could not be accepted.
const acceptPause = 100 * time.Millisecond

// A Server keeps sessions with its peers and puts what they say into a RIB. New makes one,
// Start sets it going, Stop ends it for good. Safe for concurrent use.
type Server struct {
	cfg     Config
	log     *slog.Logger
	core    *corebgp.Server
	handoff *handoff
	peers   []*peer
	byAddr  map[netip.Addr]*peer
	refused atomic.Uint64

	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // listeners and peers
	serving sync.WaitGroup // corebgp

	mu        sync.Mutex
	started   bool
	listeners []net.Listener
}

// New makes a server and adds its peers to the RIB, where they are awaited unless optional. The
// error is one of the configuration, or of a name that the RIB has already.
func New(cfg Config, r *rib.RIB) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	core, err := corebgp.NewServer(cfg.RouterID)
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	s := &Server{cfg: cfg, log: cfg.Log, core: core, handoff: newHandoff(), byAddr: make(map[netip.Addr]*peer)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, c := range cfg.Peers {
		rp, err := r.AddPeer(rib.PeerConfig{Name: c.Name, Kind: rib.KindBGP, Addr: c.Addr, AS: c.AS, Awaited: !c.Optional})
		if err != nil {
			for _, p := range s.peers {
				r.RemovePeer(p.rib)
			}
			return nil, fmt.Errorf("bgp: %w", err)
		}
		p := &peer{srv: s, ctx: s.ctx, cfg: c, rib: rp, inbound: make(chan *link, 1), log: cfg.Log.With("peer", c.Name, "addr", c.Addr, "as", c.AS)}
		s.peers = append(s.peers, p)
		s.byAddr[c.Addr] = p
	}
	return s, nil
}

// Start listens and begins to connect. The error is that of an address that cannot be listened
// at; nothing runs then.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.ctx.Err() != nil {
		return errors.New("bgp: a server starts once")
	}
	for _, addr := range s.cfg.Listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			for _, l := range s.listeners {
				_ = l.Close()
			}
			s.listeners = nil
			return fmt.Errorf("bgp: listen at %s: %w%s", addr, err, advice(err))
		}
		s.listeners = append(s.listeners, l)
	}
	s.started = true
	s.serving.Go(func() {
		if err := s.core.Serve([]net.Listener{s.handoff}); !errors.Is(err, corebgp.ErrServerClosed) {
			s.log.Error("bgp state machine ended", "error", err)
		}
	})
	for _, l := range s.listeners {
		s.log.Info("bgp listening", "listen", l.Addr().String())
		s.tasks.Go(func() { s.accept(l) })
	}
	for _, p := range s.peers {
		s.tasks.Go(p.run)
	}
	return nil
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

// Stop ends all sessions with a Cease and withdraws their routes. It returns when that is done.
// More than once does nothing.
func (s *Server) Stop() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.tasks.Wait()
	for _, p := range s.peers {
		select {
		case l := <-p.inbound: // came while its session was ending
			_ = l.Close()
		default:
		}
	}
	s.core.Close()
	s.serving.Wait()
}

// Addrs are the addresses listened at, with the ports that were chosen for those given as 0.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []netip.AddrPort
	for _, l := range s.listeners {
		all = append(all, l.Addr().(*net.TCPAddr).AddrPort())
	}
	return all
}

// accept takes connections until the listener is closed.
func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
			return
		}
		if err != nil { // such as too many open files: it passes
			s.log.Error("bgp connection not accepted", "listen", l.Addr().String(), "error", err)
			select {
			case <-s.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		p := s.byAddr[addrOf(c.RemoteAddr())]
		if p == nil {
			// One in a while is enough for the log: port scans come by the thousand.
			if n := s.refused.Add(1); n&(n-1) == 0 {
				s.log.Warn("bgp connection refused: not a peer", "from", c.RemoteAddr().String(), "refused", n)
			}
			_ = c.Close()
			continue
		}
		p.offer(c)
	}
}

// addrOf is the address of one end of a TCP connection.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
