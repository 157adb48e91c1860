package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bmp"
)

// reloads counts them.
type reloads struct {
	mu           sync.Mutex
	good, failed uint64
	last         time.Time // of the last good one, or the start
	lastFailed   bool
}

// note takes down how a reload went.
func (r *reloads) note(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastFailed = !ok; ok {
		r.good++
		r.last = time.Now()
	} else {
		r.failed++
	}
}

// changed are names by what a reload did to them.
type changed struct{ added, removed, restarted, kept []string }

// catchHangups has SIGHUP come in where it is read, and not end the process, until stop.
func catchHangups() (hangups chan os.Signal, stop func()) {
	hangups = make(chan os.Signal, 1) // one that comes during a start or a reload asks for another
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups, func() { signal.Stop(hangups) }
}

// reloadOnHangup has a hangup reload the configuration, which read reads, until the service ends.
func (s *service) reloadOnHangup(hangups <-chan os.Signal, read func(context.Context) (*serveOptions, error)) {
	s.reloads.mu.Lock()
	s.reloads.last = time.Now()
	s.reloads.mu.Unlock()
	s.running.Go(func() {
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-hangups:
			}
			notifySystemd(reloadingState())
			o, err := read(s.ctx)
			if err == nil {
				err = s.reload(o)
			}
			s.reloads.note(err == nil)
			if err != nil {
				s.app.log.Error("configuration not reloaded: all goes on as before", "error", err)
			}
			notifySystemd("READY=1")
		}
	})
}

// reload goes on by other options. What they leave as it is goes on undisturbed. After an error
// nothing has changed.
func (s *service) reload(o *serveOptions) (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if s.ending {
		return errors.New("the service ends")
	}
	was := s.plan.Load()
	p, err := o.plan(s.vrps)
	if err != nil {
		return err
	}
	if was.asn != p.asn {
		return p.failed("asn", fmt.Errorf("it is %d and was %d: that takes a restart", p.asn, was.asn))
	}
	if err := probe(s.ctx, p.bmp.Listen, was.bmp.Listen); err != nil {
		return p.inSection("bmp.listen", err)
	}
	defer func() {
		if err != nil {
			s.dropTables(p, was)
		}
	}()
	for _, name := range p.tableNames() {
		if _, err := s.tables.Open(name); err != nil {
			return p.inConfig(err)
		}
	}
	files, err := s.files.open(p, false)
	if err != nil {
		return err
	}
	peers, err := s.reloadSessions(p)
	if err != nil {
		files.discard()
		return p.inConfig(err)
	}
	routers, err := s.reloadStation(p)
	if err != nil {
		files.discard()
		if _, again := s.reloadSessions(was); again != nil {
			s.app.log.Error("peers of before not there again", "error", again)
		}
		if _, again := s.reloadStation(was); again != nil {
			s.app.log.Error("routers of before not there again", "error", again)
		}
		return p.inConfig(err)
	}
	files.commit()
	s.plan.Store(p)
	if !was.igp.same(&p.igp) {
		s.setIGP(&p.igp)
	}
	if level, err := parseLevel(p.logLevel); err == nil && level != s.app.level.Level() { // else the default of who has none
		s.app.level.Set(level)
		s.app.log.Log(s.ctx, level, "log level changed", "level", p.logLevel)
	}
	if !reflect.DeepEqual(was.rpki, p.rpki) {
		s.app.log.Info("sources of VRPs changed", "caches", p.rpki.Caches, "files", p.rpki.Files)
		s.validate(p.rpki)
	}
	s.loadAgain(was)
	for _, part := range []struct {
		what string
		changed
	}{{"peers", peers}, {"routers", routers}, {"files", files.changed}} {
		if len(part.added)+len(part.removed)+len(part.restarted)+len(part.kept) > 0 {
			s.app.log.Info(part.what+" reloaded", "added", part.added, "removed", part.removed, "restarted", part.restarted, "kept", part.kept)
		}
	}
	s.app.log.Info("configuration reloaded", "policies", sortedKeys(p.policyNames()), "tables", p.tableNames())
	if fixed := s.begun.fixedChanges(p); len(fixed) > 0 {
		s.app.log.Warn("some changes take a restart, the running values stay", "keys", fixed)
	}
	return nil
}

// reloadSessions has the server go by a plan; it is made where there was none.
func (s *service) reloadSessions(p *plan) (changed, error) {
	server := s.sessions.Load()
	c := p.bgp
	c.Log, c.LinkState = s.app.log, s.linkState
	switch {
	case server == nil && !p.sessions:
		return changed{}, nil
	case server == nil:
		server, err := bgp.New(c, s.table, p.peerPolicy)
		if err != nil {
			return changed{}, err
		}
		if err := server.Start(); err != nil {
			server.Stop()
			return changed{}, err
		}
		s.sessions.Store(server)
		var names []string
		for _, peer := range c.Peers {
			names = append(names, peerName(peer))
		}
		return changed{added: names}, nil
	case !p.sessions:
		var done bgp.Changes
		if c = s.plan.Load().bgp; c.ASN != 0 { // so that the peers are told why
			c.Log, c.Peers, c.Listen = s.app.log, nil, nil
			var err error
			if done, err = server.Reload(c, p.peerPolicy); err != nil {
				return changed{}, err
			}
		}
		s.sessions.Store(nil)
		server.Stop()
		return changed{removed: done.Removed}, nil
	}
	done, err := server.Reload(c, p.peerPolicy)
	return changed{done.Added, done.Removed, done.Restarted, done.Kept}, err
}

// reloadStation is the same for BMP.
func (s *service) reloadStation(p *plan) (changed, error) {
	station := s.station.Load()
	c := p.bmp
	c.Log = s.app.log
	switch {
	case station == nil && !p.station:
		return changed{}, nil
	case station == nil:
		station, err := bmp.New(c, s.passingTable, p.routerPolicy)
		if err != nil {
			return changed{}, err
		}
		if err := station.Start(); err != nil {
			station.Stop()
			return changed{}, err
		}
		s.station.Store(station)
		var names []string
		for _, r := range c.Routers {
			names = append(names, routerName(r))
		}
		return changed{added: names}, nil
	}
	done, err := station.Reload(c, p.routerPolicy)
	return changed{done.Added, done.Removed, done.Restarted, done.Kept}, err
}

// probe tries addresses to listen at that are new. What they are found out for late costs sessions:
// those that were changed before.
func probe(ctx context.Context, addrs, there []string) error {
	for _, addr := range addrs {
		if slices.Contains(there, addr) {
			continue
		}
		l, err := listen(ctx, addr)
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	return nil
}

// dropTables drops the tables that the one plan names and the other does not, as soon as nobody is
// in them. It is called under reloading.
func (s *service) dropTables(was, is *plan) {
	named := is.tableNames()
	for _, name := range was.tableNames() {
		if !slices.Contains(named, name) {
			s.tables.Release(name)
		}
	}
}

// loadAgain loads what waits, in the background, and then drops the tables that the one plan names
// and that in force does not.
func (s *service) loadAgain(was *plan) {
	s.run("load", func() error {
		if err := s.files.load(s); err != nil {
			return err
		}
		s.reloading.Lock()
		defer s.reloading.Unlock()
		s.dropTables(was, s.plan.Load())
		return nil
	})
}

// policyNames are the policies of the file.
func (p *plan) policyNames() map[string]struct{} {
	names := map[string]struct{}{}
	if p.sections != nil {
		for name := range p.sections.Policies {
			names[name] = struct{}{}
		}
	}
	return names
}

// fixedChanges names the keys that take a restart and differ from those that the service began with.
func (p *plan) fixedChanges(next *plan) (keys []string) {
	for _, x := range []struct {
		key     string
		differs bool
	}{
		{"listen", p.listen != next.listen},
		{"engine, devices, flavor, strides or destination-cache", p.engineOptions != next.engineOptions},
		{"log-format", p.logFormat != next.logFormat},
		{"strict", p.strict != next.strict},
		{"ready-timeout", p.readyTimeout != next.readyTimeout},
		{"max-tables", p.maxTables != next.maxTables},
		{"past-generations", p.past.Most != next.past.Most},
		{"past-interval", p.past.Interval != next.past.Interval},
		{"snapshot", p.snapshot != next.snapshot},
		{"max-bulk, max-bulk-per-client, max-wait, max-connections, max-connections-per-address or trusted-proxy", !reflect.DeepEqual(p.admission, next.admission)},
		{"drain-delay or drain-timeout", p.drainDelay != next.drainDelay || p.drainTimeout != next.drainTimeout},
		{"tune-interval, tune-budget or tune-model", p.tuner != next.tuner},
	} {
		if x.differs {
			keys = append(keys, x.key)
		}
	}
	return keys
}
