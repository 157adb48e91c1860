package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp"
	"github.com/ribwarp/ribwarp/rib/input"
)

// shutdownTime is how long requests under way may take once the service ends.
const shutdownTime = 5 * time.Second

// A service is everything that runs in serve. It listens from startService on, learns routes
// from learn on and ends in wait.
type service struct {
	app       *app
	engine    lpm.Engine
	rib       *rib.RIB
	publisher *rib.Publisher
	sources   []*input.Source
	sessions  *bgp.Server // nil without peers
	listener  net.Listener
	server    *http.Server
	ctx       context.Context // of everything that runs
	cancel    context.CancelFunc
	running   sync.WaitGroup
	failed    chan error // from parts that cannot go on
}

// startService checks the options, opens the route files and listens. The caller must wait for
// the service if there is no error. The service ends with ctx.
func (a *app) startService(ctx context.Context, o *serveOptions) (_ *service, err error) {
	sessions, peers, err := o.bgpConfig()
	if err != nil {
		return nil, err
	}
	if o.readyTimeout < 0 {
		return nil, usagef("--ready-timeout %v: it is positive, or 0 to wait for ever", o.readyTimeout)
	}
	engine, err := o.new(ctx, a)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = engine.Close()
		}
	}()
	s := &service{app: a, engine: engine, failed: make(chan error, 3)} // http, publish, load
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.rib = rib.New(rib.Options{LocalAS: o.asn, Log: a.log})
	source := append([]string(nil), o.ribs...)
	if peers {
		source = append(source, "bgp")
		sessions.Log = a.log
		if s.sessions, err = bgp.New(sessions, s.rib); err != nil {
			s.cancel()
			return nil, usageError{err}
		}
	}
	if len(source) == 0 {
		a.log.Warn("no source of routes: nothing will match; use --peer or --rib")
	}
	defer func() {
		if err != nil {
			s.cancel()
			s.closeSources()
			if s.sessions != nil {
				s.sessions.Stop()
			}
		}
	}()
	for _, path := range o.ribs {
		src, err := input.Open(s.rib, path, input.Options{Strict: o.strict, Awaited: true, Log: a.log, Stdin: a.stdin})
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, src)
	}
	s.publisher = rib.NewPublisher(s.rib, engine, rib.PublisherOptions{
		Source: strings.Join(source, ","), ReadyTimeout: o.readyTimeout, Log: a.log,
	})
	registry := prometheus.NewRegistry()
	if s.sessions != nil {
		registry.MustRegister(sessionMetrics{s.sessions})
	}
	degraded := func() string { return "" }
	if f, ok := engine.(*lpm.Failover); ok {
		degraded = func() string { return f.Status().Degraded }
		registry.MustRegister(engineMetrics{f})
	}
	handler := api.New(api.Deps{
		Generations:    s.publisher.Generations(),
		Peers:          s.rib.Peers,
		Ready:          s.publisher.Ready,
		Paths:          s.rib.Paths,
		PublisherStats: s.publisher.Stats,
		EngineName:     engine.Name(),
		Degraded:       degraded,
		Build:          buildVersion(),
		Metrics:        registry,
		Log:            a.log,
	}).Handler()
	s.server = api.NewServer(o.listen, handler, api.Limits{})
	s.server.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)
	if s.listener, err = listen(ctx, "--listen", o.listen); err != nil {
		return nil, err
	}
	if s.sessions != nil {
		if err := s.sessions.Start(); err != nil {
			_ = s.listener.Close()
			return nil, fmt.Errorf("--bgp-listen: %w", err)
		}
	}
	s.run("http", func() error { return s.server.Serve(s.listener) })
	return s, nil
}

// listen opens a TCP port. An error says which flag names it.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	var malformed *net.AddrError
	switch {
	case errors.As(err, &malformed):
		return nil, usagef("%s %q: %s: give ADDRESS:PORT, such as 127.0.0.1:8080", flag, addr, malformed.Err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s: %w: another program listens there; stop it or choose another port", flag, addr, err)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	return l, nil
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

// learn starts to publish, and to read the route files one after the other.
func (s *service) learn() {
	s.run("publish", func() error { return s.publisher.Run(s.ctx) })
	s.run("load", func() error {
		for i, src := range s.sources {
			if _, err := src.Load(s.ctx); err != nil {
				s.sources = s.sources[i+1:]
				return err
			}
		}
		s.sources = nil
		return nil
	})
}

// wait waits until the context of startService ends or a part fails, and then stops the service.
func (s *service) wait() error {
	var err error
	select {
	case <-s.ctx.Done():
	case err = <-s.failed:
	}
	s.stop()
	return err
}

// stop ends the service in good order: requests under way get some time, then sessions, loading
// and publishing end.
func (s *service) stop() {
	s.app.log.Info("shutting down")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), shutdownTime)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.app.log.Warn("requests cut off", "after", shutdownTime)
		_ = s.server.Close()
	}
	s.cancel()
	if s.sessions != nil {
		s.sessions.Stop()
	}
	s.running.Wait()
	s.closeSources()
	s.publisher.Generations().Withdraw()
	_ = s.engine.Close() // the tables are memory only
}

// closeSources closes the files that were not loaded.
func (s *service) closeSources() {
	for _, src := range s.sources {
		_ = src.Close()
	}
	s.sources = nil
}
