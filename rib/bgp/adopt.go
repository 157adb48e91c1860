package bgp

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
)

// Adopt adds a neighbour of a prefix to its table before it connects, for routes of a saved
// generation (rib.Peer.Restore). It is down until then, and gone where it has not connected within
// PeerConfig.StaleTime of Start. c.Name is NAME/ADDR of a configured prefix, c.AS its AS number. To
// be called before Start.
func (s *Server) Adopt(table string, c rib.PeerConfig) (*rib.Peer, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.started || s.stopped {
		return nil, fmt.Errorf("bgp: peer %q: the server has started", c.Name)
	}
	for _, n := range s.neighbours {
		text, ok := strings.CutPrefix(c.Name, n.name+"/")
		if !n.dynamic || !ok {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err != nil || addr != c.Addr || s.neighbourAt(addr) != n {
			continue
		}
		p, err := n.adopt(table, c)
		if err != nil {
			return nil, fmt.Errorf("bgp: peer %q: %w", c.Name, err)
		}
		return p, nil
	}
	return nil, fmt.Errorf("bgp: peer %q is none of a configured prefix", c.Name)
}

// adopt makes a neighbour that has not connected. It has its place of the prefix's limit.
func (n *neighbour) adopt(table string, c rib.PeerConfig) (*rib.Peer, error) {
	cfg := n.config()
	if table != cfg.Table || c.AS != cfg.AS {
		return nil, fmt.Errorf("the prefix has table %q and AS %d now, not %q and %d", cfg.Table, cfg.AS, table, c.AS)
	}
	r, err := n.addToRIB(c.Name, c.Addr)
	if err != nil {
		return nil, err
	}
	p := newPeer(n, cfg.AS, c.Name, c.Addr, r)
	if !n.admit(p) {
		p.remove()
		return nil, fmt.Errorf("there are %d neighbours of %s already", cfg.Limit, cfg.Prefix)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peers[c.Addr] = p
	return r, nil
}
