package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/bmp"
	"github.com/ribwarp/ribwarp/rib/hotpotato"
	"github.com/ribwarp/ribwarp/rib/rpki"
	"github.com/ribwarp/ribwarp/rib/snapshot"
)

// A service is everything that runs in serve. It listens from startService on, reads route files
// from learn on and ends in wait.
type service struct {
	app       *app
	engine    lpm.Engine
	tables    *rib.Tables
	vrps      *rpki.Store
	saver     *snapshot.Saver // nil where nothing is saved
	igp       *hotpotato.Keeper
	linkState *bgpls.Database // of the peers that announce a topology
	begun     *plan           // what it was started by
	listener  net.Listener
	api       *api.API
	server    *http.Server
	told      <-chan struct{} // closed when the service is to end
	ctx       context.Context // of everything that runs, until the drain is over
	cancel    context.CancelFunc
	drain     drain
	running   sync.WaitGroup
	failed    chan error // from parts that cannot go on

	// What a reload may change: under reloading, but for those who only look.
	reloading sync.Mutex
	ending    bool // there are no more reloads
	plan      atomic.Pointer[plan]
	sessions  atomic.Pointer[bgp.Server]  // nil without peers
	station   atomic.Pointer[bmp.Station] // nil without BMP
	files     files
	validator task // keeps the VRPs
	reloads   reloads
}

// startService checks the options, opens the route files, restores what was saved and listens.
// The caller must wait for the service if there is no error. The service ends with ctx.
func (a *app) startService(ctx context.Context, o *serveOptions) (_ *service, err error) {
	s := &service{app: a, vrps: rpki.NewStore(), failed: make(chan error, 2)} // http, load
	p, err := o.plan(s.vrps)
	if err != nil {
		return nil, err
	}
	var tunable choices
	if s.engine, err = o.newTunable(ctx, a, &tunable); err != nil {
		return nil, err
	}
	// All goes on while requests are finished: what is told to end is wait.
	s.told = ctx.Done()
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.drain = drain{o.drainDelay, o.drainTimeout}
	needsGrace(ctx, s.drain.delay+s.drain.timeout)
	s.tables = rib.NewTables(rib.TablesOptions{
		Engine: s.engine, RIB: rib.Options{LocalAS: o.asn, Log: a.log}, Max: o.maxTables,
		Publisher: rib.PublisherOptions{Source: p.sources(), ReadyTimeout: o.readyTimeout, Log: a.log},
	})
	s.igp = hotpotato.New(hotpotato.Options{Tables: s.tables, Solver: s.igpSolver(o), Log: a.log})
	s.linkState = bgpls.NewDatabase(a.log, s.igp.Notify)
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if p.sources() == "" && len(p.files) == 0 {
		a.log.Warn("no source of routes: nothing will match; use --peer or --rib")
	}
	s.begun = p
	s.plan.Store(p)
	if err := s.prepare(p); err != nil {
		return nil, err
	}
	s.setIGP(&p.igp) // before there are routes, so that none is decided twice
	s.api = s.newAPI(o)
	s.server = api.NewServer(o.listen, s.api.Handler(), api.Limits{})
	s.server.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)
	if s.listener, err = listen(ctx, o.listen); err != nil {
		return nil, o.failed("listen", err)
	}
	s.run("http", func() error { return s.server.Serve(s.api.Listener(s.listener)) })
	s.run("igp", func() error {
		s.igp.Run(s.ctx)
		return nil
	})
	s.restore() // before the publishers run, or they would publish parts of it
	s.tables.Start()
	if err := s.startSessions(); err != nil {
		_ = s.server.Close()
		return nil, err
	}
	if t := newTuner(o, p.tunedEngines(s.engine, &tunable), s.tables, a.log); t != nil {
		s.running.Go(func() { t.run(s.ctx) })
	}
	return s, nil
}

// prepare makes all sources of routes, so that readiness waits for them; none is started.
func (s *service) prepare(p *plan) error {
	for _, name := range p.tableNames() {
		if _, err := s.tables.Open(name); err != nil {
			return err
		}
	}
	if p.sessions {
		c := p.bgp
		c.Log, c.LinkState = s.app.log, s.linkState
		server, err := bgp.New(c, s.table, p.peerPolicy)
		if err != nil {
			return err
		}
		s.sessions.Store(server)
	}
	if p.station {
		c := p.bmp
		c.Log = s.app.log
		station, err := bmp.New(c, s.passingTable, p.routerPolicy)
		if err != nil {
			return err
		}
		s.station.Store(station)
	}
	if p.snapshot.File != "" {
		s.saver = snapshot.NewSaver(snapshot.SaverOptions{
			Path: p.snapshot.File, Sources: s.sources, Interval: p.snapshot.Interval.Duration,
			StaleTime: p.snapshot.StaleTime.Duration, MaxAge: p.snapshot.MaxAge.Duration, Log: s.app.log,
		})
	}
	s.files.app, s.files.tables = s.app, s.tables
	opened, err := s.files.open(p, true)
	if err != nil {
		return err
	}
	opened.commit()
	return nil
}

// table is a bgp.TableFunc: the configuration names the tables of its peers.
func (s *service) table(name string) (*rib.RIB, error) {
	t, err := s.tables.Open(name)
	if err != nil {
		return nil, err
	}
	return t.RIB, nil
}

// passingTable is a bmp.TableFunc: what the configuration does not name goes with its routers.
func (s *service) passingTable(name string) (*rib.RIB, error) {
	t, err := s.tables.OpenPassing(name)
	if err != nil {
		return nil, err
	}
	return t.RIB, nil
}

// sources are what is saved.
func (s *service) sources() (all []snapshot.Source) {
	for _, t := range s.tables.All() {
		all = append(all, snapshot.Source{Table: t.Name, Publisher: t.Publisher})
	}
	return all
}

// restore has the tables answer what they did before the last end.
func (s *service) restore() {
	if s.saver == nil {
		return
	}
	if p := s.plan.Load(); p.snapshot.File != "" {
		if err := snapshot.Check(p.snapshot.File); err != nil {
			s.app.log.Error("the tables cannot be saved as it is now", "error", p.inSection("snapshot.file", err))
		}
	}
	// A start leaves more than it throws away, so the heap grows to no more without the collector than it may with it
	// later; looking for garbage took a sixth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	_, err := s.saver.Restore(s.ctx, s.savedPeer)
	if err != nil {
		s.app.log.Error("saved generation not used: the service learns all routes anew", "error", err)
	}
	s.run("save", func() error {
		s.saver.Run(s.ctx)
		return nil
	})
}

// savedPeer is a snapshot.Find. Of peers that are there only once they connect, or their file is
// read, it makes those that the configuration still has; routes of others are dropped, and counted.
func (s *service) savedPeer(table string, p snapshot.Peer) *rib.Peer {
	if t, ok := s.tables.Get(table); ok {
		if peer, ok := t.Peer(p.Name); ok {
			return peer
		}
	}
	c := rib.PeerConfig{Name: p.Name, Kind: p.Kind, Addr: p.Addr, AS: p.AS, RouterID: p.RouterID}
	var peer *rib.Peer
	var err error
	switch sessions, station := s.sessions.Load(), s.station.Load(); {
	case p.Kind == rib.KindBMP && station != nil:
		peer, err = station.Adopt(table, c)
	case p.Kind == rib.KindBGP && sessions != nil:
		peer, err = sessions.Adopt(table, c)
	default:
		return s.files.adopt(table, c)
	}
	if err != nil {
		s.app.log.Debug("saved routes have no peer", "table", table, "peer", p.Name, "error", err)
		return nil
	}
	return peer
}

// startSessions sets going what talks to routers and caches.
func (s *service) startSessions() error {
	s.vrps.OnChange(s.reconsider)
	s.validate(s.plan.Load().rpki)
	if server := s.sessions.Load(); server != nil {
		if err := server.Start(); err != nil {
			return s.plan.Load().failed("bgp-listen", err)
		}
	}
	if station := s.station.Load(); station != nil {
		if err := station.Start(); err != nil {
			return s.plan.Load().inSection("bmp.listen", err)
		}
	}
	return nil
}

// validate keeps the VRPs as the configuration says.
func (s *service) validate(c rpki.Config) {
	s.validator.restart(s.ctx, func(ctx context.Context) {
		if err := s.vrps.Run(ctx, c, s.app.log); err != nil {
			s.app.log.Error("VRPs are not kept", "error", err) // it was checked: cannot be
		}
	})
}

// reconsider has the routes judged anew whose policy asks the RPKI, which has changed.
func (s *service) reconsider() {
	p := s.plan.Load()
	for _, t := range s.tables.All() {
		for _, status := range t.RIB.Peers() {
			if peer, ok := t.Peer(status.Name); ok && p.asksRPKI(status.Name) {
				peer.Reconsider()
			}
		}
	}
}

// newAPI makes the API.
func (s *service) newAPI(o *serveOptions) *api.API {
	registry := prometheus.NewRegistry()
	registry.MustRegister(serviceMetrics{s})
	degraded := func() string { return "" }
	if f, ok := s.engine.(*lpm.Failover); ok {
		degraded = func() string { return f.Status().Degraded }
		registry.MustRegister(engineMetrics{f})
	}
	return api.New(api.Deps{
		Tables: s.tables, IGP: s.igp, EngineName: s.engine.Name(), Degraded: degraded, GPUs: o.gpus(s.engine),
		Build: buildVersion(), Metrics: registry, Log: s.app.log,
		VRPs: s.apiVRPs, Past: s.plan.Load().past, Admission: o.admission,
	})
}

// listen opens a TCP port.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err == nil {
		return l, nil
	}
	advice := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = ": another program listens there; stop it or choose another port"
	case errors.Is(err, syscall.EACCES):
		advice = ": ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose another port or grant it"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = ": the address is not one of this host"
	}
	return nil, fmt.Errorf("%w%s", err, advice)
}

// run runs a part of the service; what it fails with ends the service.
func (s *service) run(name string, part func() error) {
	s.running.Go(func() {
		if err := part(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) {
			s.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
}

// url gives the address to ask.
func (s *service) url() string { return "http://" + s.listener.Addr().String() }

// learn starts to read the route files one after the other.
func (s *service) learn() {
	s.run("load", func() error { return s.files.load(s) })
}

// wait waits until the context of startService ends or a part fails, and then stops the service.
func (s *service) wait() error {
	var err error
	select {
	case <-s.told:
		s.drainSlowly()
	case err = <-s.failed:
	}
	s.stop()
	return err
}

// A drain is how a service ends that others rely on.
type drain struct {
	delay   time.Duration // from readiness off to the last connection that is accepted
	timeout time.Duration // that requests under way may take then
}

// drainSlowly has load balancers see that the service goes away, while it still answers all that comes.
func (s *service) drainSlowly() {
	s.api.Drain()
	notifySystemd("STOPPING=1")
	if s.drain.delay == 0 {
		return
	}
	s.app.log.Info("draining: not ready any more, requests are still answered", "for", s.drain.delay)
	select {
	case <-time.After(s.drain.delay):
	case err := <-s.failed:
		s.app.log.Error("failed while draining", "error", err)
	}
}

// stop ends the service in good order: requests under way get some time, then what is published is
// saved, and sessions, loading and publishing end.
func (s *service) stop() {
	s.app.log.Info("shutting down")
	notifySystemd("STOPPING=1")
	s.api.Drain()
	ctx, cancel := context.WithTimeout(s.ctx, s.drain.timeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.app.log.Warn("requests cut off", "after", s.drain.timeout)
		_ = s.server.Close()
	}
	if s.saver != nil {
		_ = s.saver.SaveLast() // logged and counted
	}
	s.end()
}

// end ends what runs, and may be a part of a service that did not come to run.
func (s *service) end() {
	s.cancel()
	s.reloading.Lock()
	s.ending = true
	s.reloading.Unlock()
	s.validator.stop()
	if server := s.sessions.Load(); server != nil {
		server.Stop()
	}
	if station := s.station.Load(); station != nil {
		station.Stop()
	}
	s.running.Wait()
	s.files.close()
	s.tables.Close()
	_ = s.engine.Close() // the tables are memory only
}

// A task is something that runs one at a time. Not safe for concurrent use.
type task struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// restart ends what runs, and then runs f until ctx ends or the next restart.
func (t *task) restart(ctx context.Context, f func(context.Context)) {
	t.stop()
	ctx, t.cancel = context.WithCancel(ctx)
	ended := make(chan struct{})
	t.ended = ended
	go func() {
		defer close(ended)
		f(ctx)
	}()
}

// stop ends what runs and waits for it.
func (t *task) stop() {
	if t.cancel != nil {
		t.cancel()
		<-t.ended
		t.cancel = nil
	}
}
