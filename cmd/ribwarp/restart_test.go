package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startOnly starts a service as at a restart, before it has read any route file.
func startOnly(t *testing.T, config string) (s *service, log *logBuffer) {
	t.Helper()
	log = new(logBuffer)
	a := &app{args: []string{"serve", "--config", config}, stdin: strings.NewReader(""), stdout: io.Discard, stderr: log}
	a.log, _ = newLogger(log, &a.level, "text")
	o, err := a.reread(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = a.startService(context.WithoutCancel(t.Context()), o); err != nil {
		t.Fatal(err)
	}
	return s, log
}

// wantRoute asks for an address.
func wantRoute(t *testing.T, url, addr, prefix string, stale bool) {
	t.Helper()
	status, body := get(t, url+"/api/v1/lookup/"+addr)
	if status != http.StatusOK || !strings.Contains(body, `"prefix":"`+prefix+`"`) || strings.Contains(body, `"stale":true`) != stale {
		t.Errorf("%s: %d %s, want %s, stale %t", addr, status, body, prefix, stale)
	}
}

// Between a restart and the moment that a route file is read no lookup loses its routes, whatever
// the file is and whatever number its name has got by reloads.
func TestRestartLosesNoRoutesOfFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	list, dump, config := path("list.txt"), path("dump.mrt"), path("ribwarp.toml")
	mustCall(t, "", "gen", "--ipv4", "800", "--ipv6", "200", "--peers", "2", "--format", "mrt", "--out", dump)
	write(t, list, "192.0.2.0/24 64500\n198.51.100.0/24 64500\n")
	write(t, config, fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\nrib = [%q, %q]\n[serve.snapshot]\nfile = %q\ninterval = \"1h\"\n", dump, list, path("saved")))
	url, stop := serve(t, "--config", config)
	await(t, url+"/readyz")
	peers := peersOf(t, url, "default")
	write(t, list, "192.0.2.0/24 64500\n203.0.113.0/24 64501\n") // its peer is list.txt#2 from now on
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/lookup/203.0.113.1", `"203.0.113.0/24"`)
	const routes = `"routes":{"ipv4":802,"ipv6":200}` // the first version of the list is gone
	awaitText(t, url+"/api/v1/status", routes)
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	s, log := startOnly(t, config)
	if _, status := get(t, s.url()+"/api/v1/status"); !strings.Contains(status, routes) {
		t.Errorf("not %s: %s; %s", routes, status, log)
	}
	wantRoute(t, s.url(), "203.0.113.1", "203.0.113.0/24", true)
	if status, body := get(t, s.url()+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("ready before a file is read: %d %s", status, body)
	}
	dumped := 0
	for name, p := range peersOf(t, s.url(), "default") { // of paths that were not chosen nothing was saved
		if strings.HasPrefix(name, "dump.mrt ") && p.State == "stale" {
			dumped += p.Routes.IPv4
		}
	}
	if dumped != 800 {
		t.Errorf("%d stale IPv4 routes of the dump, want 800", dumped)
	}
	write(t, list, "203.0.113.0/24 64501\n")
	if err := s.files.load(s); err != nil {
		t.Fatal(err)
	}
	await(t, s.url()+"/readyz")
	wantRoute(t, s.url(), "203.0.113.1", "203.0.113.0/24", false)
	for name, is := range peersOf(t, s.url(), "default") {
		if was := peers[name]; is.State != "loaded" || name != "list.txt" && is.Routes != was.Routes {
			t.Errorf("peer %s: %+v, was %+v", name, is, was)
		}
	}
	s.stop()
}

// A neighbour of a prefix has a name only once it connects. Its saved routes wait for that.
func TestRestartLosesNoRoutesOfDynamicNeighbours(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "ribwarp.toml")
	write(t, config, fmt.Sprintf(`[serve]
listen = "127.0.0.1:0"
bgp-listen = ["127.0.0.1:0"]
asn = 64500
router-id = "192.0.2.10"
[[serve.peer]]
name = "lab"
prefix = "127.0.0.0/29"
limit = 2
asn = 64502
import = "accept"
[serve.snapshot]
file = %q
interval = "1h"
`, filepath.Join(dir, "saved")))
	s, _ := startOnly(t, config)
	f := startFeeder(t, "127.0.0.4", 64502, false)
	f.connect(t, s.sessions.Load().Addrs()[0])
	announceTo(t, <-f.up, "8.8.8.0/24")
	awaitText(t, s.url()+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
	s.stop()

	s, log := startOnly(t, config)
	defer s.stop()
	wantRoute(t, s.url(), "8.8.8.8", "8.8.8.0/24", true)
	f.connect(t, s.sessions.Load().Addrs()[0])
	announceTo(t, <-f.up, "8.8.8.0/24")
	awaitThat(t, "the route is announced again", func() bool {
		_, body := get(t, s.url()+"/api/v1/lookup/8.8.8.8")
		return strings.Contains(body, `"8.8.8.0/24"`) && !strings.Contains(body, `"stale":true`)
	})
	if t.Failed() {
		t.Log(log)
	}
}

// A service that is stopped while its VRPs are not back has chosen nothing of what asks for valid
// origins, and saves it all the same.
func TestRestartsWithoutVRPsLoseNoRoutes(t *testing.T) {
	dir := t.TempDir()
	config, vrps := filepath.Join(dir, "ribwarp.toml"), filepath.Join(dir, "vrps.json")
	const valid = `{"roas":[{"asn":"AS64502","prefix":"8.8.8.0/24","maxLength":24}]}`
	f := startFeeder(t, "127.0.0.2", 64502, false)
	write(t, vrps, valid)
	write(t, config, fmt.Sprintf(`[serve]
listen = "127.0.0.1:0"
asn = 64500
router-id = "192.0.2.10"
[[serve.peer]]
address = "127.0.0.2"
port = %d
asn = 64502
import = "valid"
[serve.policy.valid]
rpki = "require-valid"
then = "accept"
[serve.rpki]
files = [%q]
[serve.snapshot]
file = %q
interval = "1h"
`, f.port(), vrps, filepath.Join(dir, "saved")))
	s, _ := startOnly(t, config)
	announceTo(t, <-f.up, "8.8.8.0/24")
	awaitText(t, s.url()+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
	s.stop()

	write(t, config, strings.Replace(read(t, config), fmt.Sprintf("port = %d", f.port()), "port = 1", 1)) // nobody is there
	if err := os.Remove(vrps); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, _ = startOnly(t, config)
		awaitText(t, s.url()+"/api/v1/peers", `"rejected":{"rpki-invalid":1}`)
		if _, body := get(t, s.url()+"/api/v1/lookup/8.8.8.8"); !strings.Contains(body, `"prefix":null`) {
			t.Errorf("a route that is not known to be valid: %s", body)
		}
		s.stop()
	}
	write(t, vrps, valid)
	s, _ = startOnly(t, config)
	defer s.stop()
	awaitText(t, s.url()+"/api/v1/lookup/8.8.8.8", `"8.8.8.0/24"`)
	wantRoute(t, s.url(), "8.8.8.8", "8.8.8.0/24", true)
}
