package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gaissmai/bart"
	"github.com/spf13/cobra"

	"github.com/ribwarp/ribwarp/lpm"
)

type benchOptions struct {
	tableOptions
	keys    string
	threads int
	batch   int
	count   int
	rounds  int
	seed    uint64
	peer    bool
	asJSON  bool
}

// minDistinctKeys is the number of keys below which the caches of a CPU hold what the lookups
// touch, and the figures are not about the table any more.
const minDistinctKeys = 1 << 22

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench --rib FILE",
		Short: "Measure lookups in a table",
		Long: `bench builds the table of the route files and looks up random addresses in it, in
batches, for each family that the table has. Figures are the median of the rounds. Some
answers are verified against another implementation (bart) first; a difference is an
error. With --peer that one is measured too, in rounds that alternate with ours.`,
		Example: `  ribwarp bench --rib table.mrt.gz --threads 2 --json
  ribwarp bench --rib table.mrt.gz --keys uniform --peer`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), &o) },
	}
	fs := cmd.Flags()
	o.tableOptions.flags(fs, engineAuto)
	fs.StringVar(&o.keys, "keys", keysInPrefix, "in-prefix (a prefix of the table, random host bits) or uniform")
	fs.IntVar(&o.threads, "threads", 1, "threads that look up at the same time")
	fs.IntVar(&o.batch, "batch", 4096, "addresses a call")
	fs.IntVar(&o.count, "count", minDistinctKeys, "random addresses to look up in each round, at least 4194304")
	fs.IntVar(&o.rounds, "rounds", 5, "rounds to take the median of")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the random addresses")
	fs.BoolVar(&o.peer, "peer", false, "measure bart.Fast in the same run too")
	fs.BoolVar(&o.asJSON, "json", false, "print a JSON object for each family")
	return cmd
}

// benchResult is the outcome for one family.
type benchResult struct {
	Family           string   `json:"family"`
	LookupsPerSecond float64  `json:"lookups_per_second"`
	HitRate          float64  `json:"hit_rate"`      // of the keys, 0 to 1
	BuildSeconds     float64  `json:"build_seconds"` // of this family's tree from unsorted prefixes
	TableBytes       uint64   `json:"table_bytes"`
	Prefixes         int      `json:"prefixes"`
	Engine           string   `json:"engine"`
	Flavor           string   `json:"flavor"`
	Strides          []int    `json:"strides"`
	Keys             string   `json:"keys"`
	KeyCount         int      `json:"key_count"`
	Threads          int      `json:"threads"`
	Batch            int      `json:"batch"`
	Rounds           int      `json:"rounds"`
	Seed             uint64   `json:"seed"`
	Verified         int      `json:"verified"` // answers compared with bart's
	Peer             string   `json:"peer,omitempty"`
	PeerLookups      *float64 `json:"peer_lookups_per_second,omitempty"`
	PeerBuildSeconds *float64 `json:"peer_build_seconds,omitempty"`
	PeerRatio        *float64 `json:"ratio_to_peer,omitempty"`
}

func (a *app) bench(ctx context.Context, o *benchOptions) error {
	switch {
	case o.threads < 1 || o.batch < 1 || o.rounds < 1:
		return usagef("--threads, --batch and --rounds are 1 or more")
	case o.count < minDistinctKeys:
		return usagef("--count %d: with less than %d addresses the caches are measured, not the table", o.count, minDistinctKeys)
	}
	t, err := a.openTable(ctx, &o.tableOptions)
	if err != nil {
		return err
	}
	defer t.Close()
	keys, err := newKeySource(t.gen, o.keys, o.seed)
	if err != nil {
		return err
	}
	if len(keys.routes.V4) > 0 {
		addrs := make([]uint32, o.count)
		for i := range addrs {
			addrs[i] = keys.next4()
		}
		f := benchFamily[uint32]{name: "ipv4", routes: lpm.Routes{V4: keys.routes.V4}, addrs: addrs, netip: lpm.Netip4, lookup: lpm.Table.Lookup4}
		if err := f.run(ctx, a, o, t.engine); err != nil {
			return err
		}
	}
	if len(keys.routes.V6) > 0 {
		addrs := make([]lpm.Addr6, o.count)
		for i := range addrs {
			addrs[i] = keys.next6()
		}
		f := benchFamily[lpm.Addr6]{name: "ipv6", routes: lpm.Routes{V6: keys.routes.V6}, addrs: addrs, netip: lpm.Addr6.Netip, lookup: lpm.Table.Lookup6}
		if err := f.run(ctx, a, o, t.engine); err != nil {
			return err
		}
	}
	return t.problems
}

// A benchFamily measures one address family; A is its address.
type benchFamily[A any] struct {
	name   string
	routes lpm.Routes
	addrs  []A
	netip  func(A) netip.Addr
	lookup func(t lpm.Table, dst []lpm.Handle, addrs []A) error
}

// prefixes lists the prefixes with their handles, in the order that the table is built from.
func (f *benchFamily[A]) prefixes() (prefixes []netip.Prefix, handles []lpm.Handle) {
	for _, r := range f.routes.V4 {
		prefixes, handles = append(prefixes, r.Prefix()), append(handles, r.Handle)
	}
	for _, r := range f.routes.V6 {
		prefixes, handles = append(prefixes, r.Prefix()), append(handles, r.Handle)
	}
	return prefixes, handles
}

func (f *benchFamily[A]) run(ctx context.Context, a *app, o *benchOptions, engine lpm.Engine) error {
	shuffle(f.routes, o.seed) // tables are built from unsorted routes
	runtime.GC()
	start := time.Now()
	t, err := engine.Build(ctx, f.routes)
	if err != nil {
		return fmt.Errorf("build the %s table: %w", f.name, err)
	}
	res := benchResult{BuildSeconds: time.Since(start).Seconds()}
	defer func() { _ = t.Close() }()

	peer := new(bart.Fast[lpm.Handle])
	prefixes, handles := f.prefixes()
	runtime.GC()
	start = time.Now()
	for i, p := range prefixes {
		peer.Insert(p, handles[i])
	}
	peerBuild := time.Since(start).Seconds()

	if res.Verified, res.HitRate, err = f.verify(t, peer); err != nil {
		return err
	}
	peerAddrs := make([]netip.Addr, 0)
	if o.peer {
		peerAddrs = slices.Grow(peerAddrs, len(f.addrs))
		for _, x := range f.addrs {
			peerAddrs = append(peerAddrs, f.netip(x))
		}
	}
	var own, other []float64
	before := answered(engine)
	for range o.rounds {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("bench %s: %w", f.name, err)
		}
		rate, err := f.measure(t, o)
		if err != nil {
			return fmt.Errorf("look up %s: %w", f.name, err)
		}
		own = append(own, rate)
		if o.peer {
			other = append(other, measurePeer(peer, peerAddrs, o.threads))
		}
	}
	info := t.Info()
	if after := answered(engine); info.Accelerator != nil && after.gpu-before.gpu > after.cpu-before.cpu {
		info = *info.Accelerator // this is the table that was measured
	}
	res.Family, res.LookupsPerSecond = f.name, median(own)
	res.Engine, res.Flavor = info.Engine, info.Flavor
	for _, fi := range info.Families {
		if fi.Family == f.name {
			res.TableBytes, res.Prefixes, res.Strides = fi.Bytes, fi.Prefixes, fi.Strides
		}
	}
	res.Keys, res.KeyCount, res.Threads, res.Batch, res.Rounds, res.Seed = o.keys, len(f.addrs), o.threads, o.batch, o.rounds, o.seed
	if o.peer {
		rate := median(other)
		ratio := res.LookupsPerSecond / rate
		res.Peer, res.PeerLookups, res.PeerBuildSeconds, res.PeerRatio = "bart.Fast", &rate, &peerBuild, &ratio
	}
	return a.printBench(res, o.asJSON)
}

// answers counts the addresses that GPUs and the processor answered.
type answers struct{ gpu, cpu uint64 }

func answered(engine lpm.Engine) answers {
	f, ok := engine.(*lpm.Failover)
	if !ok {
		return answers{}
	}
	s := f.Status()
	return answers{gpu: s.AcceleratedAddresses, cpu: s.BaseAddresses}
}

// verify compares a sample of the answers with bart's, and gives the hit rate of all keys.
func (f *benchFamily[A]) verify(t lpm.Table, peer *bart.Fast[lpm.Handle]) (verified int, hitRate float64, err error) {
	handles := make([]lpm.Handle, len(f.addrs))
	if err := f.lookup(t, handles, f.addrs); err != nil {
		return 0, 0, fmt.Errorf("look up %s: %w", f.name, err)
	}
	hits := 0
	step := max(1, len(f.addrs)/(1<<18))
	for i, h := range handles {
		if h != lpm.None {
			hits++
		}
		if i%step == 0 {
			addr := f.netip(f.addrs[i])
			want, _ := peer.Lookup(addr)
			if h != want {
				return 0, 0, fmt.Errorf("wrong answer for %s: the table gives route %d, bart %d; nothing was measured", addr, h, want)
			}
			verified++
		}
	}
	return verified, float64(hits) / float64(len(handles)), nil
}

// measure looks all keys up once, shared out among the threads, and gives lookups per second.
func (f *benchFamily[A]) measure(t lpm.Table, o *benchOptions) (rate float64, err error) {
	errs := make([]error, o.threads)
	seconds := parallel(len(f.addrs), o.threads, func(thread, lo, hi int) {
		dst := make([]lpm.Handle, o.batch)
		for addrs := f.addrs[lo:hi]; len(addrs) > 0; {
			n := min(o.batch, len(addrs))
			if err := f.lookup(t, dst[:n], addrs[:n]); err != nil {
				errs[thread] = err
				return
			}
			addrs = addrs[n:]
		}
	})
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(len(f.addrs)) / seconds, nil
}

// peerSink takes results that must not be optimized away.
var peerSink [64]lpm.Handle

func measurePeer(peer *bart.Fast[lpm.Handle], addrs []netip.Addr, threads int) float64 {
	seconds := parallel(len(addrs), threads, func(thread, lo, hi int) {
		var sum lpm.Handle
		for _, addr := range addrs[lo:hi] {
			h, _ := peer.Lookup(addr)
			sum += h
		}
		if thread < len(peerSink) {
			peerSink[thread] = sum
		}
	})
	return float64(len(addrs)) / seconds
}

// parallel runs work on n things shared out among threads and gives the seconds it took.
func parallel(n, threads int, work func(thread, lo, hi int)) float64 {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range threads {
		wg.Go(func() { work(i, n*i/threads, n*(i+1)/threads) })
	}
	wg.Wait()
	return time.Since(start).Seconds()
}

func (a *app) printBench(r benchResult, asJSON bool) error {
	var err error
	if asJSON {
		err = json.NewEncoder(a.stdout).Encode(r)
	} else {
		_, err = fmt.Fprintf(a.stdout, "%s: %.1f M lookups/s, %d threads, %s keys, hit rate %.3f; %d prefixes built in %.3f s, %.1f MB, %s %v\n",
			r.Family, r.LookupsPerSecond/1e6, r.Threads, r.Keys, r.HitRate, r.Prefixes, r.BuildSeconds, float64(r.TableBytes)/1e6, r.Flavor, r.Strides)
		if err == nil && r.PeerLookups != nil {
			_, err = fmt.Fprintf(a.stdout, "%s: %s %.1f M lookups/s, built in %.3f s: ratio %.1f\n",
				r.Family, r.Peer, *r.PeerLookups/1e6, *r.PeerBuildSeconds, *r.PeerRatio)
		}
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
