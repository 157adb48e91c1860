package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/flavors/tune"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// Many tables of one size share the memory that a few may have: a budget is of a tree, and each table has trees.
func TestManyTablesShareTheBudget(t *testing.T) {
	var choice flavors.Choice
	engine, err := flavors.NewCPU(flavors.Options{Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	const count, routes, budget = 20, 10_000, 20 << 20
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, RIB: rib.Options{Log: log}, Publisher: rib.PublisherOptions{Log: log}, Max: count})
	defer tables.Close()
	u := rib.Update{}
	for i := range routes {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.PrefixFrom(lpm.Netip4(uint32(i*167)<<11&^0xff), 24)})
	}
	u.Attrs.NextHop = netip.MustParseAddr("192.0.2.1")
	fill := func(table *rib.Table) {
		p, err := table.RIB.AddPeer(rib.PeerConfig{Name: "peer", Kind: rib.KindList})
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(u)
		if err := table.Publisher.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bytes := func() (n uint64) {
		for _, table := range tables.All() {
			g := table.Publisher.Generations().Acquire()
			n += g.Table.Info().Families[0].Bytes
			g.Release()
		}
		return n
	}
	e := tunedEngine{name: engineCPU, models: tune.Shipped(), machine: tune.ThisCPU(), budget: budget, choice: &choice, own: [2][]int{flavors.DefaultStrides4, flavors.DefaultStrides6}}
	tuner := newTuner(&serveOptions{tuner: tunerOptions{interval: time.Hour}}, []tunedEngine{e}, tables, log)
	main, _ := tables.Get(rib.DefaultTable)
	fill(main)
	own := bytes()
	tuner.tune(t.Context(), 32)
	one := bytes()
	if one <= own || one > budget || one*count <= mostBudgets*budget {
		t.Fatalf("one table takes %d bytes, and took %d: the test shows nothing", one, own)
	}
	for i := range count - 1 {
		table, err := tables.Open(fmt.Sprintf("vrf%d", i))
		if err != nil {
			t.Fatal(err)
		}
		fill(table)
	}
	tuner.tune(t.Context(), 32)
	if n := bytes(); n > mostBudgets*budget {
		t.Errorf("%d tables take %d bytes, more than %d budgets of %d", count, n, mostBudgets, budget)
	}
}

// Who could read and write a configuration still can.
func TestChoiceKeepsModeAndOwner(t *testing.T) {
	keys := map[string]string{"flavor": "pushed"}
	path := file(t, "ribwarp.toml", "[serve]\n")
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	asRoot := os.Geteuid() == 0
	if asRoot {
		if err := os.Chown(path, 1234, 2345); err != nil {
			t.Fatal(err)
		}
	}
	if err := setInConfig(path, "serve", keys); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o664 {
		t.Errorf("mode %v", info.Mode())
	}
	if is := info.Sys().(*syscall.Stat_t); asRoot && (is.Uid != 1234 || is.Gid != 2345) {
		t.Errorf("owner %d:%d", is.Uid, is.Gid)
	}
	if all, _ := filepath.Glob(path + "?*"); len(all) > 0 {
		t.Errorf("left: %v", all)
	}
}

// A device or a pipe is not replaced by a file, nor a link to a file that is not there.
func TestChoiceIsWrittenToFilesOnly(t *testing.T) {
	keys := map[string]string{"flavor": "pushed"}
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	both, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go func() { <-ctx.Done(); _ = both.Close() }() // so that nobody reads it for ever
	if err := setInConfig(pipe, "serve", keys); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is none any more: %v, %v", info, err)
	}
	if err := os.Symlink(filepath.Join(dir, "missing.toml"), link); err != nil {
		t.Fatal(err)
	}
	if err := setInConfig(link, "serve", keys); err == nil {
		t.Error("a link to nothing: no error")
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v", err)
	}
}

// A tuner that looks all the time would take a core for itself.
func TestTunersRest(t *testing.T) {
	for _, interval := range []string{"1ns", "9s"} {
		if code, _, stderr := call(t, "", "serve", "--check", "--tune-interval", interval); code != exitUsage || !strings.Contains(stderr, "--tune-interval "+interval+": it is 10s or more") {
			t.Errorf("%s: exit code %d, %s", interval, code, stderr)
		}
	}
}
