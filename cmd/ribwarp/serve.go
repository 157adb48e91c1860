package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/rib/rpki"
)

// serveOptions are the flags of serve, and what the configuration file says beside them; the demo
// fills them itself.
type serveOptions struct {
	tableOptions
	listen        string
	bgpListen     []string
	asn           uint32
	routerID      string
	peers         []string
	holdTime      time.Duration
	readyTimeout  time.Duration
	maxTables     int
	tuner         tunerOptions
	past          api.Past
	admission     api.Admission
	proxies       []string // api.Admission's TrustedProxies as text
	drainDelay    time.Duration
	drainTimeout  time.Duration
	check         bool
	logLevel      string
	logFormat     string
	configFile    string
	onCommandLine map[string]bool // flags that the file does not set, for they are there
	sections      *sections       // nil without a file
}

func (o *serveOptions) flags(fs *pflag.FlagSet) {
	o.tableOptions.flags(fs, engineAuto)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8080", "serve HTTP on this `ADDRESS:PORT`")
	fs.StringArrayVar(&o.bgpListen, "bgp-listen", nil, "accept BGP sessions of the peers on this `ADDRESS:PORT`, such as 0.0.0.0:179; repeat for more (default: accept none)")
	fs.Uint32Var(&o.asn, "asn", 0, "own AS `NUMBER`, needed for peers")
	fs.StringVar(&o.routerID, "router-id", "", "own BGP identifier, an `IPv4` address, needed for peers")
	fs.StringArrayVar(&o.peers, "peer", nil, "learn routes from this `ADDRESS,asn=N[,import=POLICY][,KEY=VALUE...]`; an external peer needs import=accept or a policy of the configuration file; repeat for more")
	fs.DurationVar(&o.holdTime, "hold-time", 90*time.Second, "BGP hold time to propose")
	fs.DurationVar(&o.readyTimeout, "ready-timeout", 5*time.Minute, "be ready after this time though peers or files are still loading; 0 waits for ever")
	fs.IntVar(&o.past.Most, "past-generations", 2, "hold this many earlier generations of each table, to ask what changed since; 0: only those that requests are about")
	fs.DurationVar(&o.past.Interval, "past-interval", time.Minute, "take one of them each time this has passed")
	fs.IntVar(&o.admission.MaxBulk, "max-bulk", 0, "the most requests for many routes or addresses at once; more get 503 (0: 16 a processor, and at least 64)")
	fs.IntVar(&o.admission.MaxBulkPerClient, "max-bulk-per-client", 0, "of them, the most of one client; more get 429 (0: a quarter)")
	fs.DurationVar(&o.admission.MaxWait, "max-wait", time.Second, "refuse such a request when it has waited so long for its turn")
	fs.IntVar(&o.admission.MaxConnections, "max-connections", 0, "the most HTTP connections; requests on more get 503 (0: 1,024 a processor, at least 8,192 and at most half of the files that may be open)")
	fs.IntVar(&o.admission.MaxConnectionsPerAddress, "max-connections-per-address", 0, "of them, the most from one address; requests on more get 429 (0: a quarter)")
	fs.StringArrayVar(&o.proxies, "trusted-proxy", nil, "believe the X-Forwarded-For of proxies in this `PREFIX` or address; repeat for more (default: of nobody)")
	fs.DurationVar(&o.drainDelay, "drain-delay", time.Second, "when told to end, say so in /readyz and serve on for this time, so that load balancers see it")
	fs.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Second, "then cut off requests that are not done after this time")
	fs.IntVar(&o.maxTables, "max-tables", defaultMaxTables, "the most tables, those of VRFs seen over BMP among them")
	fs.DurationVar(&o.tuner.interval, "tune-interval", 10*time.Minute, "look this often whether other strides are faster for what is in the tables; 0 never does")
	fs.StringVar(&o.tuner.budget, "tune-budget", "", "the most `BYTES` of a tree with such strides, such as 32MiB; 0 is any number (default "+formatBudget(defaultBudget(engineCPU))+", on a GPU "+formatBudget(defaultBudget(engineCUDA))+")")
	fs.StringVar(&o.tuner.model, "tune-model", "", "read models from this `FILE`, which ribwarp tune --measure wrote")
}

const defaultMaxTables = 64

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   serveName,
		Short: "Learn routes and answer lookups over HTTP until interrupted",
		Long: `serve learns routes from BGP peers (it never announces any), BMP routers and route files,
and answers lookups over HTTP. It prints its URL once it listens. /healthz is 200 from then
on, /readyz once all peers and files have finished their first load.

SIGHUP has it read its configuration file again: sessions that are as before stay up.
SIGTERM and SIGINT end it in good order: /readyz says no, requests are finished, and then BGP
sessions end; a second one ends it at once.
--check only says what would run, or what is wrong with the configuration.

With --strict a route file with anything wrong in it ends the service at its start.`,
		Example: `  ribwarp serve --listen 127.0.0.1:8080 --rib table.mrt.gz
  ribwarp serve --asn 64500 --router-id 192.0.2.10 --bgp-listen 0.0.0.0:179 \
      --peer 192.0.2.1,asn=64501,import=accept --peer 192.0.2.2,asn=64502,import=accept,passive
  ribwarp serve --config ribwarp.toml --check
  ribwarp serve --config ribwarp.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.configFile, o.sections, o.onCommandLine = a.configFile, a.sections, a.onCommandLine
			o.logLevel, o.logFormat = a.logLevel, a.logFormat
			return a.serve(cmd.Context(), &o)
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&o.check, "check", false, "check the configuration, print what would run, and end")
	return cmd
}

// runServe is what serve does.
func (a *app) runServe(ctx context.Context, o *serveOptions) error {
	if o.check {
		return a.check(o)
	}
	oneProcessorMore()
	hangups, stop := catchHangups() // also while it restores what was saved, and saves it at its end
	defer stop()
	s, err := a.startService(ctx, o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "ribwarp serves %s\n", s.url()); err != nil {
		s.stop()
		return fmt.Errorf("write: %w", err)
	}
	s.learn()
	s.reloadOnHangup(hangups, a.reread)
	notifySystemd("READY=1")
	return s.wait()
}

// oneProcessorMore has Go use one processor more than there are. While all of Go's processors compute
// nobody looks at the network for up to 10 ms at a time; bulk requests leave one of them free, and the
// system shares out the real ones. GOMAXPROCS in the environment is left as it is.
var oneProcessorMore = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

// inConfig names the configuration file in an error, where there is one.
func (o *serveOptions) inConfig(err error) error {
	if o.sections == nil {
		return err
	}
	return fmt.Errorf("config %s: [serve]: %w", o.configFile, err)
}

// inSection says that a key of a section of the configuration file is wrong.
func (o *serveOptions) inSection(key string, err error) error {
	return fmt.Errorf("config %s: key %q: %w", o.configFile, serveName+"."+key, err)
}

// wrong says that a flag is wrong, beginning with its value, or the key of the configuration file that has set it, or would have.
func (o *serveOptions) wrong(flag string, err error) error {
	if o.inFile(flag) {
		return o.inSection(flag, err)
	}
	return usagef("--%s %w", flag, err)
}

// failed is wrong for what is right and does not work.
func (o *serveOptions) failed(flag string, err error) error {
	if o.inFile(flag) {
		return o.inSection(flag, err)
	}
	return fmt.Errorf("--%s: %w", flag, err)
}

func (o *serveOptions) inFile(flag string) bool { return o.sections != nil && !o.onCommandLine[flag] }

// check says what would run.
func (a *app) check(o *serveOptions) error {
	p, err := o.plan(rpki.NewStore())
	if err != nil {
		return err
	}
	if err := p.checkFiles(); err != nil {
		return err
	}
	return p.print(a.stdout)
}

// reread reads the command line and the configuration file once more.
func (a *app) reread(ctx context.Context) (o *serveOptions, err error) {
	b := &app{args: a.args, stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, log: a.log, again: true}
	b.serve = func(_ context.Context, got *serveOptions) error {
		o = got
		return nil
	}
	root := b.command()
	root.SetArgs(a.args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return o, root.ExecuteContext(ctx)
}
