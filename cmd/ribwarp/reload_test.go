package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ribwarp/ribwarp/rib"
)

// hangup sends SIGHUP to the service in this process and waits until it has dealt with it.
func hangup(t *testing.T, url, result string) {
	t.Helper()
	line := `ribwarp_reloads_total{result="` + result + `"} `
	count := func() string {
		_, metrics := get(t, url+"/metrics")
		_, rest, _ := strings.Cut(metrics, line)
		n, _, _ := strings.Cut(rest, "\n")
		return n
	}
	before := count()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "a reload that is "+result, func() bool { return count() != before })
}

func awaitThat(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// awaitText asks until the page has the text.
func awaitText(t *testing.T, url, want string) {
	t.Helper()
	body := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s: %s", url, body)
		}
	}()
	awaitThat(t, want+" in "+url, func() bool {
		_, body = get(t, url)
		return strings.Contains(body, want)
	})
}

// shownPeer is a peer of /api/v1/peers.
type shownPeer struct {
	Name, State, Since string
	Rejected           map[string]int
	Routes             struct{ IPv4 int }
}

func peersOf(t *testing.T, url, table string) map[string]shownPeer {
	t.Helper()
	_, body := get(t, url+"/api/v1/peers?table="+table)
	var answer struct{ Peers []shownPeer }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	peers := map[string]shownPeer{}
	for _, p := range answer.Peers {
		peers[p.Name] = p
	}
	return peers
}

// announceTo announces IPv4 prefixes, which are all that the session's peer has.
func announceTo(t *testing.T, session *feed, prefixes ...string) {
	t.Helper()
	attrs := rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64502}})}
	for _, p := range prefixes {
		session.send(t, announcement([]rib.NLRI{{Prefix: netip.MustParsePrefix(p)}}, attrs))
	}
	session.send(t, endsOfRIB())
}

// write replaces a file as an editor does.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestReloadLeavesSessionsUpThatAreAsBefore(t *testing.T) {
	f2 := startFeeder(t, "127.0.0.2", 64502, false)
	f3 := startFeeder(t, "127.0.0.3", 64502, false)
	f4 := startFeeder(t, "127.0.0.4", 64502, false)
	general := "[serve]\nlisten = \"127.0.0.1:0\"\nasn = 64500\nrouter-id = \"192.0.2.10\"\n"
	peer := func(name string, port int, addr, more string) string {
		return fmt.Sprintf("[[serve.peer]]\nname = %q\naddress = %q\nport = %d\nasn = 64502\n%s\n", name, addr, port, more)
	}
	config := file(t, "ribwarp.toml", general+peer("kept", f2.port(), "127.0.0.2", `import = "accept"`)+peer("goes", f3.port(), "127.0.0.3", `import = "accept"`))
	url, log, stop := serveLogged(t, "--config", config)
	defer func() {
		if code := stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	}()
	announceTo(t, <-f2.up, "8.8.8.0/24", "9.9.9.0/24")
	announceTo(t, <-f3.up, "1.1.1.0/24")
	await(t, url+"/readyz")
	awaitText(t, url+"/api/v1/status", `"routes":{"ipv4":3,"ipv6":0}`)
	since := peersOf(t, url, "default")["kept"].Since

	// One peer goes, one comes into a table of its own, and one gets another policy.
	kept := peer("kept", f2.port(), "127.0.0.2", `import = "only-eights"`)
	policy := "[serve.prefix-lists]\neights = [\"8.0.0.0/8 le 24\"]\n" +
		"[serve.policy.only-eights]\nthen = \"reject\"\n[[serve.policy.only-eights.terms]]\naction = \"accept\"\nprefix-lists = [\"eights\"]\n"
	write(t, config, general+kept+peer("comes", f4.port(), "127.0.0.4", "import = \"accept\"\ntable = \"blue\"")+policy)
	hangup(t, url, "good")
	announceTo(t, <-f4.up, "1.0.0.0/24")
	awaitText(t, url+"/api/v1/lookup/1.0.0.1?table=blue", `"1.0.0.0/24"`)
	awaitText(t, url+"/api/v1/lookup/9.9.9.9", `"prefix":null`)
	awaitText(t, url+"/api/v1/lookup/1.1.1.1", `"prefix":null`)
	awaitText(t, url+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
	peers := peersOf(t, url, "default")
	if p := peers["kept"]; p.State != "established" || p.Since != since || p.Routes.IPv4 != 2 || p.Rejected["prefix"] != 1 {
		t.Errorf("the kept session: %+v, established %s", p, since)
	}
	if _, there := peers["goes"]; there {
		t.Error("the peer that went is still there")
	}
	for _, want := range []string{"added=[comes]", "removed=[goes]", "kept=[kept]"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log: %s", want, log)
		}
	}

	// What is wrong changes nothing, and the log says where it is.
	for _, c := range []struct{ text, want string }{
		{general + kept + "[serve.rpki]\nchaches = [\"x:1\"]\n", "serve.rpki.chaches"},
		{general + peer("kept", f2.port(), "127.0.0.2", `import = "nothing-like-it"`), "nothing-like-it"},
		{strings.Replace(general, "64500", "64501", 1) + kept + policy, `serve.asn\": it is 64501 and was 64500`},
		{general + kept + policy + "[[serve.table]]\nname = \"red\"\nrib = [\"/none/list.txt\"]\n", "/none/list.txt"},
		{general + kept + policy + "[serve.bmp]\nlisten = [\"192.0.2.77:1\"]\n[[serve.bmp.router]]\naddress = \"127.0.0.9\"\n", "192.0.2.77"},
		{general + kept + policy + "[", "toml"},
	} {
		write(t, config, c.text)
		hangup(t, url, "failed")
		if !strings.Contains(log.String(), c.want) {
			t.Errorf("no %s in the log: %s", c.want, log)
		}
	}
	if _, body := get(t, url+"/api/v1/tables"); strings.Contains(body, "red") {
		t.Errorf("a reload that failed left a table: %s", body)
	}
	if p := peersOf(t, url, "default")["kept"]; p.Since != since || p.Rejected["prefix"] != 1 {
		t.Errorf("the kept session after reloads that failed: %+v, established %s", p, since)
	}
	if p := peersOf(t, url, "blue")["comes"]; p.State != "established" || p.Routes.IPv4 != 1 {
		t.Errorf("the other session after reloads that failed: %+v", p)
	}
	if _, metrics := get(t, url+"/metrics"); !strings.Contains(metrics, "ribwarp_reload_successful 0") {
		t.Error("the metric does not say that the last reload failed")
	}

	// The last peer of a table takes the table with it.
	write(t, config, general+kept+policy)
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/lookup/1.0.0.1?table=blue", "there are default")
	if p := peersOf(t, url, "default")["kept"]; p.Since != since {
		t.Errorf("the kept session: %+v, established %s", p, since)
	}

	// Without any peer it can be reloaded again, and they can come back.
	for _, text := range []string{general, general, general + kept + policy} {
		write(t, config, text)
		hangup(t, url, "good")
	}
	announceTo(t, <-f2.up, "8.8.8.0/24")
	awaitText(t, url+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
}

func TestReloadReadsRouteFilesThatChanged(t *testing.T) {
	dir := t.TempDir()
	list, other := filepath.Join(dir, "list.txt"), filepath.Join(dir, "other.txt")
	write(t, list, "10.0.0.0/8 64500\n10.1.0.0/16 64500\n")
	write(t, other, "192.0.2.0/24 64501\n")
	config := filepath.Join(dir, "ribwarp.toml")
	section := func(files ...string) string {
		return "[serve]\nlisten = \"127.0.0.1:0\"\n[[serve.table]]\nname = \"lists\"\nrib = [\"" + strings.Join(files, `","`) + "\"]\n"
	}
	write(t, config, section(list, other))
	url, log, stop := serveLogged(t, "--config", config)
	defer stop()
	await(t, url+"/readyz")
	awaitText(t, url+"/api/v1/tables", `"name":"lists"`)
	awaitText(t, url+"/api/v1/lookup/10.1.2.3?table=lists", `"10.1.0.0/16"`)
	if _, body := get(t, url+"/api/v1/lookup/10.1.2.3"); !strings.Contains(body, `"prefix":null`) {
		t.Errorf("the default table has routes of another: %s", body)
	}
	hangup(t, url, "good")
	if !strings.Contains(log.String(), "restarted=[] kept=\"["+list) {
		t.Errorf("an unchanged file was read again: %s", log)
	}
	write(t, list, "10.0.0.0/8 64500\n10.2.0.0/16 64500\n10.3.0.0/16 64500\n")
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/lookup/10.2.2.3?table=lists", `"10.2.0.0/16"`)
	awaitText(t, url+"/api/v1/lookup/10.1.2.3?table=lists", `"10.0.0.0/8"`)

	// A version that cannot be used leaves the routes of the one before.
	write(t, list, "\x01\x02\x03 no routes here \xff")
	hangup(t, url, "good")
	awaitThat(t, "the log names the file", func() bool { return strings.Contains(log.String(), "not loaded as it should be") })
	if _, body := get(t, url+"/api/v1/lookup/10.2.2.3?table=lists"); !strings.Contains(body, `"10.2.0.0/16"`) {
		t.Errorf("routes of the file are gone: %s", body)
	}
	write(t, config, section(other))
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/lookup/10.2.2.3?table=lists", `"prefix":null`)
	awaitText(t, url+"/api/v1/lookup/192.0.2.3?table=lists", `"192.0.2.0/24"`)
}

func TestRPKIFileDecidesAndIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	f := startFeeder(t, "127.0.0.2", 64502, false)
	vrps, config := filepath.Join(dir, "vrps.json"), filepath.Join(dir, "ribwarp.toml")
	write(t, vrps, `{"roas":[{"asn":"AS64999","prefix":"8.8.8.0/24","maxLength":24,"ta":"x"}]}`)
	text := fmt.Sprintf(`[serve]
listen = "127.0.0.1:0"
asn = 64500
router-id = "192.0.2.10"
peer = ["127.0.0.2,asn=64502,port=%d,import=checked"]
[serve.policy.checked]
rpki = "reject-invalid"
then = "accept"
[serve.rpki]
files = [%q]
reread = "1s"
`, f.port(), vrps)
	write(t, config, text)
	url, stop := serve(t, "--config", config)
	defer stop()
	announceTo(t, <-f.up, "8.8.8.0/24", "9.9.9.0/24")
	awaitText(t, url+"/api/v1/lookup/9.9.9.9", `"9.9.9.0/24"`)
	awaitText(t, url+"/api/v1/peers", `"rejected":{"rpki-invalid":1}`)
	awaitText(t, url+"/metrics", `ribwarp_peer_rejected_routes{peer="127.0.0.2",reason="rpki-invalid",table="default"} 1`)
	awaitText(t, url+"/metrics", `ribwarp_rpki_vrps{kind="file",source="`+vrps+`"} 1`)
	wantGoodMetrics(t, url)
	write(t, vrps, `{"roas":[{"asn":"AS64502","prefix":"8.8.8.0/24","maxLength":24,"ta":"x"},{"asn":"AS1","prefix":"9.9.9.0/24","maxLength":24,"ta":"x"}]}`)
	awaitText(t, url+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
	awaitText(t, url+"/api/v1/lookup/9.9.9.9", `"prefix":null`)
}

// wantGoodMetrics holds what is served to Prometheus's rules.
func wantGoodMetrics(t *testing.T, url string) {
	t.Helper()
	_, metrics := get(t, url+"/metrics")
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "ribwarp_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, want := range []string{`ribwarp_bgp_session_up{peer="127.0.0.2"} 1`, "ribwarp_reload_successful 1", `ribwarp_reloads_total{result="good"} 0`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestRestartServesWhatWasSaved(t *testing.T) {
	dir := t.TempDir()
	f := startFeeder(t, "127.0.0.2", 64502, false)
	config := filepath.Join(dir, "ribwarp.toml")
	write(t, config, fmt.Sprintf(`[serve]
listen = "127.0.0.1:0"
asn = 64500
router-id = "192.0.2.10"
[[serve.peer]]
address = "127.0.0.2"
port = %d
asn = 64502
import = "accept"
table = "blue"
[serve.snapshot]
file = %q
interval = "1h"
`, f.port(), filepath.Join(dir, "saved")))
	url, stop := serve(t, "--config", config)
	announceTo(t, <-f.up, "8.8.8.0/24")
	awaitText(t, url+"/api/v1/lookup/8.8.8.8?table=blue", `"8.8.8.0/24"`)
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	write(t, config, strings.Replace(read(t, config), fmt.Sprintf("port = %d", f.port()), "port = 1", 1)) // nobody is there
	url, stop = serve(t, "--config", config)
	defer stop()
	status, body := get(t, url+"/api/v1/lookup/8.8.8.8?table=blue")
	if status != http.StatusOK || !strings.Contains(body, `"8.8.8.0/24"`) || !strings.Contains(body, `"stale":true`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "127.0.0.2 in table blue") {
		t.Errorf("ready before the peer is there: %d %s", status, body)
	}
	if p := peersOf(t, url, "blue")["127.0.0.2"]; p.State != "stale" || p.Routes.IPv4 != 1 {
		t.Errorf("peer %+v", p)
	}
}

func TestReloadAddsAndRemovesRouters(t *testing.T) {
	general := "[serve]\nlisten = \"127.0.0.1:0\"\n"
	station := "[serve.bmp]\nlisten = [\"127.0.0.1:0\"]\n[[serve.bmp.router]]\nname = \"core\"\naddress = \"203.0.113.1\"\noptional = true\ntable = \"core\"\n"
	config := file(t, "ribwarp.toml", general)
	url, log, stop := serveLogged(t, "--config", config)
	defer stop()
	await(t, url+"/readyz")
	write(t, config, general+station)
	hangup(t, url, "good")
	awaitText(t, url+"/metrics", `ribwarp_bmp_router_up{router="core"} 0`)
	if _, there := peersOf(t, url, "core")["core"]; !there || !strings.Contains(log.String(), "bmp listening") {
		t.Errorf("the router is not there: %s", log)
	}
	write(t, config, general)
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/lookup/10.0.0.1?table=core", "no table")
	if _, metrics := get(t, url+"/metrics"); strings.Contains(metrics, `router="core"`) {
		t.Error("the router is still there")
	}
}

// What is no regular file may never end, so nothing waits for it: neither a reload nor the end.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, config := filepath.Join(dir, "pipe"), filepath.Join(dir, "ribwarp.toml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	general := "[serve]\nlisten = \"127.0.0.1:0\"\nasn = 64500\nrouter-id = \"192.0.2.10\"\n"
	section := func(key, path string) string { return general + fmt.Sprintf(key, path) }
	const files = "rib = [%q]\n"
	write(t, config, general)
	url, log, stop := serveLogged(t, "--config", config)
	await(t, url+"/readyz")
	for _, c := range []struct{ text, want string }{
		{section(files, pipe), "table \\\"default\\\": " + pipe + " is no regular file"},
		{section(files, os.DevNull), os.DevNull + " is no regular file"},
		{section(files, dir), dir + " is a directory"},
		{section(files, "-"), "standard input is read at a start only"},
		{section("[[serve.peer]]\naddress = \"127.0.0.2\"\nasn = 64502\nmd5-file = %q\n", pipe), "is no regular file"},
	} {
		write(t, config, c.text)
		hangup(t, url, "failed")
		if !strings.Contains(log.String(), c.want) || !strings.Contains(log.String(), config) {
			t.Errorf("no %q in the log: %s", c.want, log)
		}
		if strings.Contains(c.text, "\"-\"") {
			continue // a start takes it
		}
		if code, _, stderr := call(t, "", "serve", "--config", config); code != exitFailed || !strings.Contains(stderr, "regular file") && !strings.Contains(stderr, "directory") {
			t.Errorf("at a start: exit code %d, %s", code, stderr)
		}
	}
	write(t, config, section("[serve.rpki]\nfiles = [%q]\n", pipe)) // it may become a file
	hangup(t, url, "good")
	awaitThat(t, "the log names the file of VRPs", func() bool { return strings.Contains(log.String(), "VRPs of "+pipe+": it is no regular file") })
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, config); err != nil {
		t.Fatal(err)
	}
	hangup(t, url, "failed")
	if want := config + ": it is no regular file"; !strings.Contains(log.String(), want) {
		t.Errorf("no %q in the log: %s", want, log)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestReloadChangesTheLogLevelAndNamesWhatItCannot(t *testing.T) {
	config := file(t, "ribwarp.toml", "log-level = \"warn\"\n[serve]\nlisten = \"127.0.0.1:0\"\n")
	url, log, stop := serveLogged(t, "--config", config)
	defer stop()
	write(t, config, "log-level = \"info\"\nlog-format = \"json\"\n[serve]\nlisten = \"127.0.0.1:1\"\nready-timeout = \"1m\"\nmax-tables = 5\nstrict = true\nflavor = \"list\"\ntune-interval = \"1m\"\n[serve.snapshot]\nfile = \"saved\"\n")
	hangup(t, url, "good")
	for _, want := range []string{"log level changed", "configuration reloaded", "take a restart", `keys="[listen engine, devices, flavor, strides or destination-cache log-format strict ready-timeout max-tables snapshot tune-interval, tune-budget or tune-model]"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, log)
		}
	}
	write(t, config, "log-level = \"info\"\n[serve]\nlisten = \"127.0.0.1:0\"\n")
	hangup(t, url, "good")
	write(t, config, "log-level = \"error\"\n[serve]\nlisten = \"127.0.0.1:0\"\n")
	before := log.String()
	hangup(t, url, "good")
	if after := log.String(); strings.Count(after, "take a restart") != 1 {
		t.Errorf("what is as at the start takes no restart: %s", after)
	}
	if after := log.String(); strings.Contains(strings.TrimPrefix(after, before), "configuration reloaded") {
		t.Errorf("still at the level of before: %s", after)
	}
}

// Tables of a template go with what fed them and leave room for others.
func TestTablesOfRoutersMakeRoom(t *testing.T) {
	general := "[serve]\nlisten = \"127.0.0.1:0\"\nmax-tables = 2\n[serve.bmp]\nlisten = [\"127.0.0.1:0\"]\n"
	router := func(name, addr string) string {
		return fmt.Sprintf("[[serve.bmp.router]]\nname = %q\naddress = %q\noptional = true\ntable = \"{router}\"\n", name, addr)
	}
	config := file(t, "ribwarp.toml", general+router("a", "127.0.0.8"))
	url, log, stop := serveLogged(t, "--config", config)
	defer stop()
	awaitText(t, url+"/api/v1/tables", `"name":"a"`)
	hangup(t, url, "good") // its router is not connected, and configured
	if _, body := get(t, url+"/api/v1/tables"); !strings.Contains(body, `"name":"a"`) {
		t.Errorf("the table of a router that is not connected is gone: %s", body)
	}
	write(t, config, general)
	hangup(t, url, "good")
	write(t, config, general+router("b", "127.0.0.9")) // the default table and that of a are two
	hangup(t, url, "good")
	if _, body := get(t, url+"/api/v1/tables"); !strings.Contains(body, `"name":"b"`) || strings.Contains(body, `"name":"a"`) {
		t.Errorf("tables %s; %s", body, log)
	}
	write(t, config, general+router("b", "127.0.0.9")+router("c", "127.0.0.10"))
	hangup(t, url, "failed")
	if !strings.Contains(log.String(), "too many tables") && !strings.Contains(log.String(), "3 tables") {
		t.Errorf("log: %s", log)
	}
}

// hangingUp sends SIGHUP to this process with the first thing that is written to it.
type hangingUp struct {
	io.Writer
	once sync.Once
}

func (h *hangingUp) Write(p []byte) (n int, err error) {
	h.once.Do(func() { err = syscall.Kill(os.Getpid(), syscall.SIGHUP) })
	if err != nil {
		return 0, err
	}
	time.Sleep(20 * time.Millisecond) // until it has come
	return h.Writer.Write(p)
}

// A SIGHUP does not end a service that starts; it reloads once it has.
func TestHangupDuringTheStart(t *testing.T) {
	survives := make(chan os.Signal, 1)
	signal.Notify(survives, syscall.SIGHUP)
	defer signal.Stop(survives)
	config := file(t, "ribwarp.toml", "[serve]\nlisten = \"127.0.0.1:0\"\n")
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- runContext(ctx, []string{"serve", "--config", config}, strings.NewReader(""), &hangingUp{Writer: w}, io.Discard)
		_ = w.Close()
	}()
	line, _ := bufio.NewReader(out).ReadString('\n')
	awaitText(t, strings.TrimPrefix(strings.TrimSpace(line), "ribwarp serves ")+"/metrics", `ribwarp_reloads_total{result="good"} 1`)
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// What a reload has begun before it failed is not in the way of the next one.
func TestReloadAfterOneThatFailed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	general := "[serve]\nlisten = \"127.0.0.1:0\"\nasn = 64500\nrouter-id = \"192.0.2.10\"\n"
	config := file(t, "ribwarp.toml", general)
	url, log, stop := serveLogged(t, "--config", config)
	defer stop()
	write(t, config, general+fmt.Sprintf("bgp-listen = [%q]\n[[serve.peer]]\nname = \"p\"\naddress = \"127.0.0.2\"\nasn = 64502\npassive = true\nimport = \"accept\"\n", taken.Addr()))
	hangup(t, url, "failed")
	if !strings.Contains(log.String(), "another program listens there") {
		t.Errorf("log: %s", log)
	}
	if peers := peersOf(t, url, "default"); len(peers) != 0 {
		t.Errorf("peers of a configuration that is not in force: %v", peers)
	}
	_ = taken.Close()
	hangup(t, url, "good")
	if _, there := peersOf(t, url, "default")["p"]; !there {
		t.Errorf("no peer: %s", log)
	}
}

func TestServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	next := func() string {
		t.Helper()
		b := make([]byte, 1000)
		if err := socket.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	url, stop := serve(t, "--config", file(t, "ribwarp.toml", "[serve]\nlisten = \"127.0.0.1:0\"\n"))
	if got := next(); got != "READY=1" {
		t.Errorf("after the start: %q", got)
	}
	hangup(t, url, "good")
	if got := next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("at the reload: %q", got)
	}
	if got := next(); got != "READY=1" {
		t.Errorf("after the reload: %q", got)
	}
	stop()
	if got := next(); got != "STOPPING=1" {
		t.Errorf("at the end: %q", got)
	}
}
