package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/flavors/tune"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// tuneTable is a file of a generated table.
func tuneTable(t *testing.T, v4, v6 int) string {
	t.Helper()
	list, _ := mustCall(t, "", "gen", "--ipv4", fmt.Sprint(v4), "--ipv6", fmt.Sprint(v6))
	return file(t, "table.txt", list)
}

// tunedOf reads what tune printed.
func tunedOf(t *testing.T, stdout string) (all []tuned) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		var r tuned
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

func TestTuneRanksAndWrites(t *testing.T) {
	table := tuneTable(t, 20_000, 10_000)
	dir := t.TempDir()
	svg, config := filepath.Join(dir, "tune.svg"), filepath.Join(dir, "ribwarp.toml")
	stdout, _ := mustCall(t, "", "tune", "--rib", table, "--json", "--lists", "12", "--budget", "8MiB", "--svg", svg, "--write", config)
	results := tunedOf(t, stdout)
	if len(results) != 2 {
		t.Fatalf("%d families: %s", len(results), stdout)
	}
	info, _ := mustCall(t, "", "rib", "info", "--json", "--config", config, "--strides4", flavors.FormatStrides(results[0].Chosen), "--strides6", flavors.FormatStrides(results[1].Chosen), table)
	var built ribInfo
	if err := json.Unmarshal([]byte(info), &built); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if len(r.Lists) < 12 || r.Budget != 8<<20 || r.Prefixes == 0 || r.Seconds <= 0 {
			t.Errorf("%+v", r)
		}
		chosen := slices.IndexFunc(r.Lists, func(l tunedList) bool { return slices.Equal(l.Strides, r.Chosen) && l.Flavor == r.Flavor })
		if chosen < 0 || r.Lists[chosen].Bytes > r.Budget {
			t.Fatalf("chosen %v, which is not in the ranking or over the budget", r.Chosen)
		}
		for _, l := range r.Lists[:chosen] {
			if l.Bytes <= r.Budget {
				t.Errorf("%v is before the chosen list and within the budget", l.Strides)
			}
		}
		if got := built.Table.Families[i].Bytes; got != r.Lists[chosen].Bytes {
			t.Errorf("strides %v: %d bytes said, the tree has %d", r.Chosen, r.Lists[chosen].Bytes, got)
		}
		if want := fmt.Sprintf("strides%d = %q", []int{4, 6}[i], flavors.FormatStrides(r.Chosen)); !strings.Contains(read(t, config), want) {
			t.Errorf("%s is not in the configuration:\n%s", want, read(t, config))
		}
	}
	if picture := read(t, svg); !strings.Contains(picture, "<svg") || strings.Count(picture, "lookups/s") != 2 {
		t.Errorf("no picture of two plots: %.200s", picture)
	}
	// What was written is what serve takes.
	mustCall(t, "", "serve", "--check", "--config", config)
	text, _ := mustCall(t, "", "tune", "--rib", table, "--keys", "uniform", "--flavor", "list", "--lists", "3")
	if strings.Count(text, "<- chosen") != 2 || !strings.Contains(text, "uniform keys") {
		t.Errorf("%s", text)
	}
}

func TestTuneMeasures(t *testing.T) {
	table := tuneTable(t, 3000, 2000)
	models := filepath.Join(t.TempDir(), "models.json")
	stdout, _ := mustCall(t, "", "tune", "--rib", table, "--measure", "--json", "--lists", "6", "--rounds", "1", "--model", models, "--budget", "4MiB")
	for _, r := range tunedOf(t, stdout) {
		measured := 0.0
		for _, l := range r.Lists {
			if l.Measured != nil && l.Bytes <= r.Budget {
				measured = max(measured, *l.Measured)
			}
		}
		i := slices.IndexFunc(r.Lists, func(l tunedList) bool { return slices.Equal(l.Strides, r.Chosen) })
		if measured == 0 || r.Lists[i].Measured == nil || *r.Lists[i].Measured != measured || r.Correlation == nil || !r.Fitted {
			t.Errorf("chosen %v with %v, the best measured has %v: %+v", r.Chosen, r.Lists[i].Measured, measured, r)
		}
	}
	// The model was kept, and counts for this machine.
	loaded, err := tune.Load(models)
	if err != nil {
		t.Fatal(err)
	}
	for i, width := range []int{32, 128} {
		if m, fitted := loaded.For(tune.ThisCPU(), flavors.Pushed, width); !fitted || m != loaded[i] {
			t.Errorf("the model that was fitted for %d bits does not count", width)
		}
	}
	again, _ := mustCall(t, "", "tune", "--rib", table, "--json", "--model", models)
	for _, r := range tunedOf(t, again) {
		if !r.Fitted {
			t.Errorf("%s: not by the model that was fitted", r.Family)
		}
	}
}

func TestTuneKeysOfAFile(t *testing.T) {
	table := tuneTable(t, 2000, 500)
	addresses := file(t, "addresses.txt", "# two\n192.0.2.1\n\n::ffff:198.51.100.7\n")
	stdout, _ := mustCall(t, "", "tune", "--rib", table, "--json", "--keys", addresses)
	if all := tunedOf(t, stdout); len(all) != 1 || all[0].Family != "ipv4" {
		t.Errorf("%s", stdout)
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--keys", file(t, "bad.txt", "192.0.2.1\nnonsense\n")}, "line 2", exitFailed},
		{[]string{"--keys", file(t, "long.txt", "192.0.2.1\n"+strings.Repeat("1", 1<<17))}, "line 2", exitFailed},
		{[]string{"--keys", file(t, "empty.txt", "# none\n")}, "no address", exitFailed},
		{[]string{"--keys", "outprefix"}, "in-prefix, uniform or a file", exitFailed},
		{[]string{"--keys", file(t, "v6.txt", "2001:db8::1\n"), "--rib", file(t, "v4.txt", "10.0.0.0/8\n")}, "", exitOK},
		{[]string{"--engine", "auto"}, "--engine", exitUsage},
		{[]string{"--flavor", "round"}, "--flavor", exitUsage},
		{[]string{"--lists", "0"}, "--lists", exitUsage},
		{[]string{"--budget", "12 bananas"}, "--budget", exitUsage},
		{[]string{"--budget", "99999999999GiB"}, "--budget", exitUsage},
		{[]string{"--budget", "1kB"}, "the smallest, of strides", exitFailed},
		{[]string{"--model", file(t, "models.json", `[{"flavor":"pushed"}]`)}, "unknown engine", exitFailed},
		{[]string{"--model", filepath.Join(t.TempDir(), "none.json")}, "--measure", exitFailed},
		{[]string{"--measure", "--lists", "1", "--rounds", "1", "--rib", file(t, "one.txt", "10.0.0.0/8\n2001:db8::/32\n")}, "", exitOK},
	} {
		code, _, stderr := call(t, "", append([]string{"tune", "--rib", table}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// What cannot be written is said before there is anything to write, and nothing is left behind.
func TestTuneTriesItsOutputs(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--write", file(t, "broken.toml", "[serve")}, "broken.toml"},
		{[]string{"--write", file(t, "braces.toml", "serve = {asn = 1}\n")}, "by hand"},
		{[]string{"--write", filepath.Join(dir, "none", "ribwarp.toml")}, "--write: create output"},
		{[]string{"--write", dir}, "--write: config"},
		{[]string{"--svg", filepath.Join(dir, "none", "tune.svg")}, "--svg: create output"},
		{[]string{"--measure", "--model", filepath.Join(dir, "none", "models.json")}, "--model: create output"},
	} {
		code, stdout, stderr := call(t, "", append([]string{"tune", "--rib", filepath.Join(dir, "table"), "--svg", filepath.Join(dir, "tune.svg")}, c.args...)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s%s", c.args, code, stdout, stderr)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("error %v, left: %v", err, left)
	}
}

func TestSetKeysChangesNothingElse(t *testing.T) {
	keys := map[string]string{"strides4": "20,4,8", "flavor": "pushed"}
	for _, c := range []struct{ name, before, after string }{
		{"no file", "", "[serve]\nflavor = \"pushed\"\nstrides4 = \"20,4,8\"\n"},
		{"another table", "log-level = \"warn\"\n[bench]\nkeys = \"uniform\"", "log-level = \"warn\"\n[bench]\nkeys = \"uniform\"\n\n[serve]\nflavor = \"pushed\"\nstrides4 = \"20,4,8\"\n"},
		{
			"comments and order", "# mine\n\n[ serve ]   # the service\n\tstrides4 =  '16,8,8'\t# why\nasn = 64500 # ours\n[[serve.peer]]\naddress = \"192.0.2.1\"\nflavor = \"odd\"\n[bench]\nstrides4 = \"8,8,8,8\"\n",
			"# mine\n\n[ serve ]   # the service\nflavor = \"pushed\"\n\tstrides4 =  \"20,4,8\"\t# why\nasn = 64500 # ours\n[[serve.peer]]\naddress = \"192.0.2.1\"\nflavor = \"odd\"\n[bench]\nstrides4 = \"8,8,8,8\"\n",
		},
		{"lines of Windows", "[serve]\r\nstrides4 = \"16,8,8\"\r\n", "[serve]\r\nflavor = \"pushed\"\r\nstrides4 = \"20,4,8\"\r\n"},
		{"only subtables", "[serve.bmp]\nlisten = [\"127.0.0.1:1790\"]\n", "[serve.bmp]\nlisten = [\"127.0.0.1:1790\"]\n\n[serve]\nflavor = \"pushed\"\nstrides4 = \"20,4,8\"\n"},
		{"header at the end", "[serve]", "[serve]\nflavor = \"pushed\"\nstrides4 = \"20,4,8\"\n"},
		{"both there", "[serve]\nflavor=\"list\"\nstrides4=\"24,8\"#x\n", "[serve]\nflavor=\"pushed\"\nstrides4=\"20,4,8\"#x\n"},
		{"table within braces", "serve = {asn = 1}\n", ""},
		{"dotted", "serve.asn = 1\n", "serve.asn = 1\n\n[serve]\nflavor = \"pushed\"\nstrides4 = \"20,4,8\"\n"},
		{"looks like a header", "[serve]\nrouter-id = \"\"\"\n[serve]\n\"\"\"\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, err := setKeys(c.before, "serve", keys)
			if c.after == "" {
				if err == nil {
					t.Errorf("no error, and\n%s", after)
				}
				return
			}
			if err != nil || after != c.after {
				t.Errorf("error %v, got\n%q\nwant\n%q", err, after, c.after)
			}
			if again, err := setKeys(after, "serve", keys); err != nil || again != after {
				t.Errorf("a second time: error %v, %q", err, again)
			}
		})
	}
	// The file keeps its mode, and a link stays one.
	path := file(t, "real.toml", "[serve]\n")
	link := filepath.Join(t.TempDir(), "link.toml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := setInConfig(link, "serve", keys); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(read(t, path), "20,4,8") {
		t.Errorf("%v: %s", info.Mode(), read(t, path))
	}
}

func TestCheckSaysWhatIsTuned(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"tune-interval = \"30s\"\ntune-budget = \"64MiB\"\n", "IPv4 and IPv6, every 30s, trees of up to 64MiB\n"},
		{"strides4 = \"16,8,8\"\n", "IPv6, every 10m0s, trees of up to 128MiB, on GPUs 1GiB\n"},
		{"tune-interval = \"0s\"\n", "never\n"},
		{"flavor = \"list\"\n", "never\n"},
	} {
		stdout, _ := mustCall(t, "", "serve", "--check", "--config", file(t, "ribwarp.toml", "[serve]\n"+c.text))
		if !strings.Contains(stdout, "tune   "+c.want) {
			t.Errorf("%s: no %q in:\n%s", c.text, c.want, stdout)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"tune-interval = \"-1s\"\n", `"serve.tune-interval": -1s`},
		{"tune-budget = \"much\"\n", `"serve.tune-budget": "much"`},
		{"tune-model = \"none.json\"\n", `"serve.tune-model": models: stat none.json`},
	} {
		code, _, stderr := call(t, "", "serve", "--check", "--config", file(t, "ribwarp.toml", "[serve]\n"+c.text))
		if code != exitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", c.text, code, stderr)
		}
	}
	if code, _, stderr := call(t, "", "serve", "--check", "--tune-budget", "much"); code != exitUsage || !strings.Contains(stderr, `--tune-budget "much"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The service tunes itself once its tables are ready, and again when what is in them has become another
// table's.
func TestServiceTunesItself(t *testing.T) {
	var choice flavors.Choice
	engine, err := flavors.NewCPU(flavors.Options{Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, RIB: rib.Options{Log: log}, Publisher: rib.PublisherOptions{Log: log}})
	defer tables.Close()
	main, _ := tables.Get(rib.DefaultTable)
	vrf, err := tables.Open("small")
	if err != nil {
		t.Fatal(err)
	}
	announce := func(table *rib.Table, peer string, seed uint64, v4, v6 int) *rib.Peer {
		p, err := table.RIB.AddPeer(rib.PeerConfig{Name: peer, Kind: rib.KindList})
		if err != nil {
			t.Fatal(err)
		}
		for u := range fixtures.Generate(seed, v4, v6).Updates(1000) {
			p.Apply(u)
		}
		return p
	}
	peer := announce(main, "generated", 1, 30_000, 12_000)
	few := announce(vrf, "few", 2, 100, 100)
	tables.Start()
	strides := func(table *rib.Table) string {
		g := table.Publisher.Generations().Acquire()
		if g == nil {
			return ""
		}
		defer g.Release()
		in := g.Table.Info()
		return flavors.FormatStrides(in.Families[0].Strides) + " " + flavors.FormatStrides(in.Families[1].Strides)
	}
	e := tunedEngine{name: engineCPU, models: tune.Shipped(), machine: tune.ThisCPU(), budget: 4 << 20, choice: &choice, own: [2][]int{flavors.DefaultStrides4, flavors.DefaultStrides6}}
	o := &serveOptions{tuner: tunerOptions{interval: 10 * time.Millisecond}}
	tuner := newTuner(o, []tunedEngine{e}, tables, log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { tuner.run(ctx); close(ended) }()
	own := flavors.FormatStrides(flavors.DefaultStrides4) + " " + flavors.FormatStrides(flavors.DefaultStrides6)
	waitFor := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: strides %s and %s after a minute", what, strides(main), strides(vrf))
			}
		}
	}
	within := func(table *rib.Table) bool {
		g := table.Publisher.Generations().Acquire()
		defer g.Release()
		for _, f := range g.Table.Info().Families {
			if f.Bytes > 4<<20 {
				return false
			}
		}
		return true
	}
	waitFor("at the start", func() bool { s := strides(main); return s != "" && s != own && within(main) })
	first := strides(main)
	if s := strides(vrf); s != own {
		t.Errorf("a small table went over to strides %s", s)
	}
	// A small one that has grown, without ever being built anew, goes over when the tuner looks again.
	for i := range 40 {
		u := rib.Update{}
		for k := range 500 {
			u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.PrefixFrom(lpm.Netip4(uint32(20<<24|(500*i+k)<<8)), 24)})
		}
		u.Attrs.NextHop = netip.MustParseAddr("192.0.2.1")
		few.Apply(u)
		if err := vrf.Publisher.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if s := strides(vrf); s != own {
		t.Errorf("a table that has grown went over to strides %s before anybody looked", s)
	}
	one := rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("198.51.100.0/30")}}}
	one.Attrs.NextHop = netip.MustParseAddr("192.0.2.1")
	peer.Apply(one)
	own4, first4 := strings.Fields(own)[0], strings.Fields(first)[0]
	waitFor("a small table that has grown", func() bool {
		s := strings.Fields(strides(vrf))[0]
		return s != own4 && s == strings.Fields(strides(main))[0]
	})
	if s := strings.Fields(strides(main))[0]; s != first4 {
		t.Errorf("one route more and the strides are %s", s)
	}
	// Another table: all hosts of a few networks.
	u := rib.Update{}
	for i := range 60_000 {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.PrefixFrom(lpm.Netip4(uint32(10<<24|i)), 32)})
	}
	u.Attrs.NextHop = netip.MustParseAddr("192.0.2.1")
	peer.Apply(u)
	waitFor("after a drift", func() bool { s := strides(main); return s != own && s != first && within(main) })
	stop()
	<-ended
	if newTuner(&serveOptions{}, []tunedEngine{e}, tables, log) != nil {
		t.Error("a tuner with an interval of 0")
	}
	by := &serveOptions{tuner: tunerOptions{interval: time.Hour}}
	by.strides4 = "16,8,8"
	if given := newTuner(by, []tunedEngine{e}, tables, log); !slices.Equal(given.families, []int{128}) {
		t.Errorf("with strides for IPv4 by hand the families tuned are of %v bits", given.families)
	}
}
