package api

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
	"unique"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

var (
	wrkTime   = flag.Duration("wrk", 0, "measure with wrk for this long a run (docs/benchmarks/http-bulk.sh); 0 skips it")
	wrkRounds = flag.Int("wrk-rounds", 20, "rounds of -wrk")
)

// TestLookupRateUnderWrk measures GET /api/v1/lookup/{ip} against a bare gin handler that gives
// a constant body of the same size, alternately, in one run. It checks no rate: the figures are
// for people. The table is a generated one of full size.
func TestLookupRateUnderWrk(t *testing.T) {
	if *wrkTime == 0 {
		t.Skip("a measurement; run docs/benchmarks/http-bulk.sh")
	}
	w, routes := fullWorld(t)

	const n = 100_000
	r := rand.New(rand.NewPCG(1, 1))
	addrs, size := make([]string, n), 0
	for i := range addrs {
		addrs[i] = inside(r, routes[r.IntN(len(routes))].Prefix).String()
		rec := w.get("/api/v1/lookup/" + addrs[i])
		if rec.Code != http.StatusOK || bytes.Contains(rec.Body.Bytes(), []byte(`"prefix":null`)) {
			t.Fatalf("%s: %d %s", addrs[i], rec.Code, rec.Body)
		}
		size += rec.Body.Len()
	}
	size /= n
	fmt.Printf("table: %d IPv4 and %d IPv6 routes, generated; addresses: %d random ones inside its prefixes (all hits)\n", 1_042_325, 246_175, n)
	fmt.Printf("answers: %d bytes on average, the bare handler's %d\n\n", size, size)

	body := append([]byte(`{"x":"`), bytes.Repeat([]byte{'x'}, size-9)...)
	body = append(body, '"', '}', '\n')
	bare := gin.New()
	bare.GET("/api/v1/lookup/:ip", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", body) })

	script := filepath.Join(t.TempDir(), "addresses.lua")
	if err := os.WriteFile(script, luaScript(addrs), 0o600); err != nil {
		t.Fatal(err)
	}
	api, gin := listen(t, w.api.Handler()), listen(t, bare)
	var ratios []float64
	var mine, theirs float64
	for i := range *wrkRounds {
		var m, b float64
		runs := []func(){
			func() { fmt.Printf("--- round %d, ribwarp\n", i+1); m = wrk(t, api, script) },
			func() { fmt.Printf("--- round %d, bare gin\n", i+1); b = wrk(t, gin, script) },
		}
		if i%2 == 1 { // who goes first takes turns: other work on the machine comes and goes
			slices.Reverse(runs)
		}
		for _, run := range runs {
			run()
		}
		mine, theirs, ratios = mine+m, theirs+b, append(ratios, m/b)
		fmt.Printf("--- round %d: %.0f / %.0f requests/s = %.3f\n\n", i+1, m, b, m/b)
	}
	slices.Sort(ratios)
	rounds := float64(*wrkRounds)
	fmt.Printf("mean: %.0f / %.0f requests/s = %.3f\n", mine/rounds, theirs/rounds, mine/theirs)
	fmt.Printf("ratio by round: median %.3f, lowest %.3f, highest %.3f\n", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

// fullWorld is a service over a generated table of full size.
func fullWorld(t testing.TB) (*world, []rib.Route) {
	table := fixtures.Generate(1, 1_042_325, 246_175)
	paths := make([]rib.Path, len(table.Attrs))
	for i, at := range table.Attrs {
		paths[i] = unique.Make(at)
	}
	routes := make([]rib.Route, len(table.Routes))
	for i, r := range table.Routes {
		routes[i] = rib.Route{Prefix: r.Prefix, Path: paths[r.Attrs]}
	}
	w := emptyWorld(t, nil)
	w.publish(1, routes)
	return w, routes
}

// inside picks an address in p.
func inside(r *rand.Rand, p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		random := byte(r.Uint32())
		switch fixed := p.Bits() - 8*i; {
		case fixed <= 0:
			b[i] = random
		case fixed < 8:
			b[i] |= random >> fixed
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// luaScript makes wrk ask for the addresses in turn, with all requests made beforehand.
func luaScript(addrs []string) []byte {
	out := []byte("local addrs = {\n")
	for _, a := range addrs {
		out = fmt.Appendf(out, "%q,\n", a)
	}
	return append(out, `}
local requests, at = {}, 0
function init(args)
  for i, a in ipairs(addrs) do
    requests[i] = wrk.format("GET", "/api/v1/lookup/" .. a)
  end
  at = math.random(#requests)
end
function request()
  at = at % #requests + 1
  return requests[at]
end
`...)
}

func listen(t *testing.T, h http.Handler) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer("", h, Limits{})
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr()
}

var wrkRate = regexp.MustCompile(`Requests/sec: +([0-9.]+)`)

// wrk runs wrk and gives its requests per second.
func wrk(t *testing.T, addr net.Addr, script string) float64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "wrk", "-t2", "-c64", "-d"+strconv.Itoa(int(*wrkTime/time.Second))+"s", "-s", script, "--latency", "http://"+addr.String()+"/")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("wrk: %v: %s", err, out)
	}
	fmt.Printf("%s", out)
	m := wrkRate.FindSubmatch(out)
	if m == nil || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		t.Fatalf("wrk saw errors: %s", out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return rate
}
