package bgp

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// A neighbour is an entry of the configuration: a peer, or those that have come from a prefix.
type neighbour struct {
	srv     *Server
	name    string
	dynamic bool
	rib     *rib.RIB
	ctx     context.Context
	cancel  context.CancelCauseFunc // with the *fsm.Notification for all
	running sync.WaitGroup          // peers

	mu       sync.Mutex
	cfg      PeerConfig
	imports  rib.Import
	peers    map[netip.Addr]*peer
	admitted int // of a prefix: peers whose OPEN was taken, until they are gone
	stopped  bool
}

// newNeighbour makes one, with its peer in the RIB unless that is still to come.
func (s *Server) newNeighbour(c PeerConfig, imports rib.Import, r *rib.RIB) (*neighbour, error) {
	n := &neighbour{srv: s, name: c.Name, dynamic: c.dynamic(), rib: r, cfg: c, imports: imports, peers: make(map[netip.Addr]*peer)}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	if n.dynamic {
		return n, nil
	}
	rp, err := n.addToRIB(c.Name, c.Addr)
	if err != nil {
		return nil, err
	}
	n.peers[c.Addr] = newPeer(n, c.AS, c.Name, c.Addr, rp)
	return n, nil
}

// addToRIB makes a peer in the RIB.
func (n *neighbour) addToRIB(name string, addr netip.Addr) (*rib.Peer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := n.rib.AddPeer(rib.PeerConfig{Name: name, Kind: rib.KindBGP, Addr: addr, AS: n.cfg.AS, Awaited: !n.cfg.Optional})
	if err != nil {
		return nil, err
	}
	p.SetImport(n.imports)
	return p, nil
}

func (n *neighbour) config() PeerConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cfg
}

// judge has a peer's routes decided by the policy of now: it may have changed while the session came up.
func (n *neighbour) judge(r *rib.Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.SetImport(n.imports)
}

// all gives the peers, sorted by address.
func (n *neighbour) all() []*peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*peer, 0, len(n.peers))
	for _, p := range n.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *peer) int { return a.addr.Compare(b.addr) })
	return all
}

// start sets the peer going, or those that were adopted.
func (n *neighbour) start() {
	for _, p := range n.all() {
		p.routes.begin(n.config().StaleTime)
		n.running.Go(func() { n.run(p) })
	}
}

// run keeps a peer, and has a dynamic neighbour forgotten at its end.
func (n *neighbour) run(p *peer) {
	p.run()
	if n.dynamic {
		n.forget(p)
	}
}

// offer takes a connection from an address of the neighbour's. It reports false for one that is
// not wanted.
func (n *neighbour) offer(c *net.TCPConn, addr netip.Addr, opened func()) bool {
	n.mu.Lock()
	if n.stopped || n.cfg.Active {
		n.mu.Unlock()
		return false
	}
	p := n.peers[addr]
	if p != nil || !n.dynamic {
		n.mu.Unlock()
		return p != nil && p.offer(c, opened)
	}
	p = newPeer(n, n.cfg.AS, n.name+"/"+addr.String(), addr, nil)
	n.peers[addr] = p
	p.offer(c, opened) // before it runs, or it would find nothing to do
	n.running.Go(func() { n.run(p) })
	n.mu.Unlock()
	return true
}

// admit counts a peer whose OPEN is a good one, and reports false where its prefix has as many
// as it may have. It is called under the peer's lock.
func (n *neighbour) admit(p *peer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.dynamic || p.admitted {
		return true
	}
	if n.admitted >= n.cfg.Limit {
		return false
	}
	n.admitted++
	p.admitted = true
	return true
}

// forget ends a dynamic neighbour that has come to its end.
func (n *neighbour) forget(p *peer) {
	p.remove()
	p.mu.Lock()
	admitted := p.admitted
	p.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.peers, p.addr)
	if admitted {
		n.admitted--
	}
}

// change takes a new configuration over under which sessions stay up.
func (n *neighbour) change(c PeerConfig, imports rib.Import) {
	n.mu.Lock()
	was := n.cfg
	n.cfg, n.imports = c, imports
	n.mu.Unlock()
	for _, p := range n.all() {
		p.changed(was != c, imports)
	}
}

// stop ends all sessions with a NOTIFICATION and withdraws their routes. It returns when that is
// done; nothing of the neighbour is in the RIB then.
func (n *neighbour) stop(reason *fsm.Notification) {
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
	n.cancel(reason)
	n.running.Wait()
	for _, p := range n.all() {
		p.remove()
	}
}
