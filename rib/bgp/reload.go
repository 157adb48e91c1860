package bgp

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Changes are the names of the peers by what a Reload did to them, each sorted as configured.
type Changes struct {
	Added     []string
	Removed   []string // their sessions got Cease/3
	Restarted []string // other than before in what a session depends on; Cease/6
	Kept      []string // sessions stay up; policy and limits may be others
}

// Reload has the server go by another configuration. Sessions that it leaves as they are stay
// up; their routes are judged anew by the policies. After an error of the configuration, of a
// table, a policy, an address to listen at or a name that is taken, nothing has changed.
func (s *Server) Reload(cfg Config, policies PolicyFunc) (done Changes, err error) {
	if cfg.Log == nil {
		cfg.Log = s.log
	}
	if cfg, err = cfg.withDefaults(); err != nil {
		return Changes{}, fmt.Errorf("bgp: %w", err)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.stopped {
		return Changes{}, errors.New("bgp: the server has stopped")
	}
	plans, err := s.plan(&cfg, policies)
	if err != nil {
		return Changes{}, fmt.Errorf("bgp: %w", err)
	}
	former := s.config()
	same := former.ASN == cfg.ASN && former.RouterID == cfg.RouterID
	there := make(map[string]*neighbour)
	for _, n := range s.neighbours {
		there[n.name] = n
	}
	all := make([]*neighbour, len(plans)) // nil: to be made when the one before has gone
	var added []*neighbour
	fail := func(err error) (Changes, error) {
		for _, n := range added {
			n.stop(cease(ceaseDeconfigured, ""))
		}
		return Changes{}, fmt.Errorf("bgp: %w", err)
	}
	for i, p := range plans {
		old := there[p.cfg.Name]
		switch {
		case old != nil && same && old.rib == p.rib && old.config().session() == p.cfg.session():
			done.Kept = append(done.Kept, p.cfg.Name)
			all[i] = old
			delete(there, p.cfg.Name)
			continue
		case old != nil:
			done.Restarted = append(done.Restarted, p.cfg.Name)
			if old.rib == p.rib {
				continue
			}
		default:
			done.Added = append(done.Added, p.cfg.Name)
		}
		n, err := s.newNeighbour(p.cfg, p.imports, p.rib)
		if err != nil {
			return fail(err)
		}
		added, all[i] = append(added, n), n
	}
	var listeners []*listener
	if s.started {
		if listeners, err = s.open(cfg.Listen, s.listeners, cfg.Peers, former.Peers); err != nil {
			return fail(err)
		}
	}

	// From here on nothing is expected to fail.
	var wait sync.WaitGroup
	for _, n := range s.neighbours {
		if there[n.name] == nil {
			continue
		}
		reason := cease(ceaseOtherChange, "the configuration has changed")
		if !slices.Contains(done.Restarted, n.name) {
			done.Removed = append(done.Removed, n.name)
			reason = cease(ceaseDeconfigured, "the peer is removed from the configuration")
		}
		wait.Go(func() { n.stop(reason) })
	}
	wait.Wait()
	s.cfg.Store(&cfg)
	var made []*neighbour
	for i, p := range plans {
		if slices.Contains(done.Kept, p.cfg.Name) {
			all[i].change(p.cfg, p.imports)
			continue
		}
		if all[i] == nil {
			n, makeErr := s.newNeighbour(p.cfg, p.imports, p.rib)
			if makeErr != nil { // its name was taken in this moment
				err = errors.Join(err, fmt.Errorf("bgp: %w", makeErr))
				continue
			}
			all[i] = n
		}
		made = append(made, all[i])
	}
	all = slices.DeleteFunc(all, func(n *neighbour) bool { return n == nil })
	s.arrange(all)
	if s.started {
		s.exchange(listeners)
		for _, n := range made {
			n.start()
		}
	}
	return done, err
}

// exchange goes on with other listeners.
func (s *Server) exchange(listeners []*listener) {
	before := s.listeners
	s.mu.Lock()
	s.listeners = listeners
	s.mu.Unlock()
	for _, l := range before {
		if !slices.Contains(listeners, l) {
			_ = l.Close()
		}
	}
	s.acceptAt(slices.DeleteFunc(slices.Clone(listeners), func(l *listener) bool { return slices.Contains(before, l) }))
}
