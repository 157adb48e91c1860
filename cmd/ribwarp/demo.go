package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/fixtures"
)

const (
	demoAS      = 64496       // ours
	demoWait    = time.Minute // the longest that the session and its table may take
	demoTick    = 20 * time.Millisecond
	demoNoRoute = "192.88.99.1" // no generated table holds it
)

type demoOptions struct {
	serveOptions
	prefixes int
	seed     uint64
	once     bool
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it all working: a router that peers, its table, lookups",
		Long: `demo starts the service on a free port of 127.0.0.1 and, beside it, a GoBGP router that
peers with it over TCP and announces a generated table. It shows the session coming up,
some lookups, and how to ask for more; then it serves until interrupted.`,
		Example: `  ribwarp demo
  ribwarp demo --prefixes 200000 --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.prefixes < 10 || o.prefixes > 2_000_000 {
				return usagef("--prefixes %d: it is 10 to 2000000", o.prefixes)
			}
			if !cmd.Flags().Changed("log-level") { // what happens is told on stdout
				a.log, _ = newLogger(a.stderr, slog.LevelError, a.logFormat)
			}
			return a.demo(cmd.Context(), &o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "serve HTTP on this `ADDRESS:PORT`; port 0 takes a free one")
	fs.IntVar(&o.prefixes, "prefixes", 20_000, "prefixes that the router announces, a fifth of them IPv6")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the generated table")
	fs.BoolVar(&o.once, "once", false, "end after the lookups")
	o.engineOptions.flags(fs, engineAuto)
	return cmd
}

func (a *app) demo(ctx context.Context, o *demoOptions) error {
	out := &demoOutput{w: a.stdout}
	table := fixtures.Generate(o.seed, o.prefixes-o.prefixes/5, o.prefixes/5)
	o.bgpListen, o.asn, o.routerID = []string{"127.0.0.1:0"}, demoAS, "192.0.2.10"
	// Generated tables have prefixes that nobody may announce, which import=accept leaves out.
	o.peers = []string{fmt.Sprintf("127.0.0.1,asn=%d,import=accept-all,passive", fixtures.PeerAS)}
	o.holdTime, o.readyTimeout, o.maxTables, o.drainTimeout = 90*time.Second, demoWait, 1, 5*time.Second
	s, err := a.startService(ctx, &o.serveOptions)
	if err != nil {
		return err
	}
	defer s.stop()
	s.learn()
	bgpAddr := s.sessions.Load().Addrs()[0]
	out.printf("ribwarp (AS %d) serves %s and waits for BGP on %s\n", demoAS, s.url(), bgpAddr)

	router, err := startSpeaker(ctx, table, a.log)
	if err != nil {
		return err
	}
	defer router.stop()
	if err := router.connect(ctx, bgpAddr, demoAS); err != nil {
		return err
	}
	out.printf("a GoBGP router (AS %d) with %d generated prefixes connects ...\n", fixtures.PeerAS, len(table.Routes))
	if err := s.showSession(ctx, out, len(table.Routes)); err != nil {
		return err
	}

	out.printf("\nlookups:\n")
	asked := demoAddresses(table)
	for _, addr := range asked {
		answer, err := s.get(ctx, "/api/v1/lookup/"+addr.String())
		if err != nil {
			return err
		}
		out.printf("  GET /api/v1/lookup/%s\n  %s\n", addr, strings.TrimSpace(string(answer)))
	}
	out.printf("\ntry:\n")
	for _, path := range []string{"/api/v1/lookup/" + asked[0].String(), "/api/v1/status", "/api/v1/peers", "/metrics"} {
		out.printf("  curl %s%s\n", s.url(), path)
	}
	out.printf("  printf '%s\\n%s\\n' | curl -s -H 'Content-Type: text/plain' --data-binary @- %s/api/v1/lookup\n", asked[0], asked[1], s.url())
	if out.err != nil {
		return fmt.Errorf("write: %w", out.err)
	}
	if o.once {
		return nil
	}
	out.printf("\nserving until interrupted (Ctrl-C)\n")
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// showSession asks the service until the session is up and its table visible, and says so.
func (s *service) showSession(ctx context.Context, out *demoOutput, prefixes int) error {
	ctx, cancel := context.WithTimeout(ctx, demoWait)
	defer cancel()
	start := time.Now()
	up := false
	for tick := time.NewTicker(demoTick); ; {
		table := s.tables.All()[0]
		peers := table.RIB.Peers()
		if !up && len(peers) > 0 && peers[0].State == "established" {
			up = true
			out.printf("session with %s (AS %d) established after %.2f s\n", peers[0].Addr, peers[0].AS, time.Since(start).Seconds())
		}
		if ok, _ := table.Publisher.Ready(); ok && up {
			body, err := s.get(ctx, "/api/v1/status")
			if err != nil {
				return err
			}
			var status struct {
				Generation uint64
				Routes     struct{ IPv4, IPv6 int }
			}
			if err := json.Unmarshal(body, &status); err != nil {
				return fmt.Errorf("status: %w", err)
			}
			out.printf("%d IPv4 and %d IPv6 routes visible after %.2f s, in generation %d\n",
				status.Routes.IPv4, status.Routes.IPv6, time.Since(start).Seconds(), status.Generation)
			if got := status.Routes.IPv4 + status.Routes.IPv6; got != prefixes {
				return fmt.Errorf("the router announced %d prefixes, but %d are visible", prefixes, got)
			}
			return nil
		}
		select {
		case <-tick.C:
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the demo's table was not visible after %.0f s (session up: %t): %w", time.Since(start).Seconds(), up, ctx.Err())
		}
	}
}

// get asks the service over HTTP.
func (s *service) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return body, nil
}

// demoAddresses picks two IPv4 addresses and one IPv6 address that the table has routes for,
// and one that it has none for.
func demoAddresses(t *fixtures.Table) []netip.Addr {
	firstV6 := len(t.Routes)
	for i, r := range t.Routes {
		if r.Prefix.Addr().Is6() {
			firstV6 = i
			break
		}
	}
	at := func(i int) netip.Addr { return t.Routes[i].Prefix.Addr().Next() }
	return []netip.Addr{at(firstV6 / 3), at(firstV6 * 2 / 3), at((firstV6 + len(t.Routes)) / 2), netip.MustParseAddr(demoNoRoute)}
}

// demoOutput keeps the first error of printing.
type demoOutput struct {
	w   io.Writer
	err error
}

func (o *demoOutput) printf(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}
