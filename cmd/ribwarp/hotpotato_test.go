package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// backbone is paris -- rome and paris -- oslo: rome and oslo are the exits.
func backbone(toRome, toOslo int) string {
	return fmt.Sprintf(`{"nodes": [{"name": "paris"}, {"name": "rome", "addresses": ["192.0.2.3"]}, {"name": "oslo", "addresses": ["192.0.2.4"]}],
		"links": [{"from": "paris", "to": "rome", "metric": %d}, {"from": "paris", "to": "oslo", "metric": %d}]}`, toRome, toOslo)
}

// Two exits that are equal but for their distance: a topology that is read again decides.
func TestTheNearerExitIsChosen(t *testing.T) {
	rome, oslo := startFeeder(t, "127.0.0.2", 64502, false), startFeeder(t, "127.0.0.3", 64502, false)
	topology := file(t, "backbone.json", backbone(10, 20))
	general := fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\nasn = 64500\nrouter-id = \"192.0.2.10\"\npeer = [%q, %q]\n", rome.peer(""), oslo.peer(""))
	section := func(more string) string { return fmt.Sprintf("[serve.igp]\nfile = %q\n%s\n", topology, more) }
	config := file(t, "ribwarp.toml", general+section(`root = "paris"`))
	url, log, stop := serveLogged(t, "--config", config)
	defer func() {
		if code := stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	}()
	announce := func(f *feeder, hop string) {
		s := <-f.up
		attrs := rib.Attrs{NextHop: netip.MustParseAddr(hop), ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64502}})}
		s.send(t, announcement([]rib.NLRI{{Prefix: netip.MustParsePrefix("8.8.8.0/24")}}, attrs))
		s.send(t, endsOfRIB())
	}
	announce(rome, "192.0.2.3")
	announce(oslo, "192.0.2.4")
	await(t, url+"/readyz")
	lookup := url + "/api/v1/lookup/8.8.8.8"
	awaitText(t, lookup, `"next_hop":"192.0.2.3"`)

	write(t, topology, backbone(30, 20))
	hangup(t, url, "good")
	awaitText(t, lookup, `"next_hop":"192.0.2.4"`)
	awaitText(t, url+"/api/v1/routes/8.8.8.0/24?include=paths", `"lost_by":"igp-cost"`)
	awaitText(t, url+"/api/v1/igp", `"generation":3,`)
	awaitText(t, url+"/metrics", "ribwarp_igp_generation_number 3\n")
	awaitText(t, url+"/metrics", "ribwarp_igp_root_found 1\n")
	awaitText(t, url+"/api/v1/igp/paths?from=paris&to=rome", `"distance":30`)

	hangup(t, url, "good") // nothing has changed
	awaitText(t, url+"/api/v1/igp", `"generation":3,`)

	// What is wrong changes nothing.
	for _, c := range []struct{ topology, section, want string }{
		{"{", `root = "paris"`, "backbone.json"},
		{backbone(1, 2), `root = "pariss"`, "near names: \\\"paris\\\""},
		{backbone(1, 2), `unknown-next-hops = "nearest"`, "give farthest or unreachable"},
	} {
		write(t, topology, c.topology)
		write(t, config, general+section(c.section))
		hangup(t, url, "failed")
		if !strings.Contains(log.String(), c.want) {
			t.Errorf("no %s in the log: %s", c.want, log)
		}
	}
	awaitText(t, lookup, `"next_hop":"192.0.2.4"`)

	// From rome its own exit is the nearest; what nobody announces is out of reach if so configured.
	write(t, topology, backbone(30, 20))
	write(t, config, general+section("root = \"192.0.2.3\"\nunknown-next-hops = \"unreachable\""))
	hangup(t, url, "good")
	awaitText(t, lookup, `"next_hop":"192.0.2.3"`)
	write(t, topology, strings.ReplaceAll(backbone(30, 20), `, "addresses": ["192.0.2.4"]`, ""))
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/routes/8.8.8.0/24?include=paths", `"lost_by":"unreachable"`)

	// Without the section all next hops cost the same again: the peers' identifiers decide.
	write(t, config, general)
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/routes/8.8.8.0/24?include=paths", `"lost_by":"router-id"`)
	awaitText(t, url+"/api/v1/igp", "no IGP is configured")
}

// The topology comes from one of the peers.
func TestTopologyOfAPeer(t *testing.T) {
	rome, oslo := startFeeder(t, "127.0.0.2", 64502, false), startFeeder(t, "127.0.0.3", 64502, false)
	rome.linked.Store(true)
	general := fmt.Sprintf("[serve]\nlisten = \"127.0.0.1:0\"\nasn = 64500\nrouter-id = \"192.0.2.10\"\npeer = [%q, %q]\n", rome.peer(",link-state"), oslo.peer(""))
	config := file(t, "ribwarp.toml", general+"[serve.igp]\nroot = \"paris\"\n")
	url, _, stop := serveLogged(t, "--config", config)
	defer func() {
		if code := stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	}()
	prefix := []rib.NLRI{{Prefix: netip.MustParsePrefix("8.8.8.0/24")}}
	path := rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64502}})
	atRome, atOslo := <-rome.up, <-oslo.up
	atRome.send(t, announcement(prefix, rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.3"), ASPath: path}))
	atOslo.send(t, announcement(prefix, rib.Attrs{NextHop: netip.MustParseAddr("192.0.2.4"), ASPath: path}))
	atRome.send(t, endsOfRIB())
	atOslo.send(t, endsOfRIB())
	link := func(toRome, toOslo int) {
		t.Helper()
		topology, err := igp.Read(strings.NewReader(backbone(toRome, toOslo)), igp.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range fixtures.LinkState(topology) {
			atRome.send(t, bgpMessage(2, fixtures.LinkStateUpdate(false, r)))
		}
	}
	lookup := url + "/api/v1/lookup/8.8.8.8"
	link(20, 10)
	awaitText(t, lookup, `"next_hop":"192.0.2.4"`)
	link(20, 30)
	awaitText(t, lookup, `"next_hop":"192.0.2.3"`)
	awaitText(t, url+"/api/v1/igp", `"source":"bgp-ls"`)
	awaitText(t, url+"/api/v1/igp/paths?from=paris&to=rome", `"distance":20`)
	awaitText(t, url+"/metrics", `ribwarp_bgp_link_state_objects{peer="127.0.0.2"} 7`)

	// From oslo it is the other way round; without a root there are no costs, and without the peer no topology.
	write(t, config, general+"[serve.igp]\nroot = \"oslo\"\n")
	hangup(t, url, "good")
	awaitText(t, lookup, `"next_hop":"192.0.2.4"`)
	write(t, config, general)
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/routes/8.8.8.0/24?include=paths", `"lost_by":"router-id"`)
	awaitText(t, url+"/api/v1/igp", `"nodes":3,"links":2,"root":null`)
	write(t, config, strings.Replace(general, ",link-state", "", 1))
	hangup(t, url, "good")
	awaitText(t, url+"/api/v1/igp", "no IGP is configured")
}

func TestIGPSectionIsChecked(t *testing.T) {
	topology := file(t, "backbone.json", backbone(1, 2))
	for _, c := range []struct{ text, want string }{
		{"root = \"paris\"\n", "file is missing"},
		{"file = \"/none/backbone.json\"\n", "/none/backbone.json"},
		{fmt.Sprintf("file = %q\nroot = \"berlin\"\n", topology), `there is no node "berlin"`},
		{fmt.Sprintf("file = %q\nroots = 1\n", topology), `unknown key "serve.igp.roots"`},
		{fmt.Sprintf("file = %q\nmax-metric = 1\n", topology), "metric 2"},
		{fmt.Sprintf("file = %q\n[serve]\nasn = 1\nrouter-id = \"192.0.2.1\"\npeer = \"192.0.2.2,asn=1,link-state\"\n", topology), "one or the other"},
	} {
		config := file(t, "ribwarp.toml", "[serve.igp]\n"+c.text)
		code, _, stderr := call(t, "", "serve", "--check", "--config", config)
		if code != exitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", c.text, code, stderr, c.want)
		}
	}
	config := file(t, "ribwarp.toml", fmt.Sprintf("[serve.igp]\nfile = %q\nroot = \"paris\"\n", topology))
	if stdout, _ := mustCall(t, "", "serve", "--check", "--config", config); !strings.Contains(stdout, "backbone.json: 3 nodes, 2 links, costs from paris") {
		t.Errorf("it says %s", stdout)
	}
}
