package api

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

// hostile is what anybody may have as the name of a peer or in a text.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// pageWorld is a service with two tables, peers of all sorts, and routes that can be changed.
type pageWorld struct {
	*world
	tables    *rib.Tables
	table     *rib.Table
	near, far *rib.Peer
}

func newPageWorld(t *testing.T) *pageWorld {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tables := rib.NewTables(rib.TablesOptions{Engine: engine, Publisher: rib.PublisherOptions{Source: "bgp"}})
	t.Cleanup(tables.Close)
	w := &pageWorld{world: &world{t: t}, tables: tables}
	w.table = openTable(t, tables, rib.DefaultTable)
	blue := openTable(t, tables, "blue")
	w.api = New(Deps{
		Tables: tables, EngineName: "cpu", Build: Build{Version: "v0.0.0-test"},
		VRPs: func() VRPs { return pageVRPs{} },
	})
	t.Cleanup(w.api.Close)

	w.near = addPeer(t, w.table.RIB, "near", 64500)
	w.far = addPeer(t, w.table.RIB, hostile, 64600)
	broken := addPeer(t, w.table.RIB, "broken", 64700)
	w.announce(w.near, announced(64500, 64500, 64500, 64999), "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "2001:db8::/32")
	w.announce(w.far, announced(64600, 64700, 64800, 64801, 64999), "10.0.0.0/8", "10.1.0.0/16")
	w.near.Loaded()
	w.far.Loaded()
	broken.Loaded()
	broken.Down(hostile)
	of := addPeer(t, blue.RIB, "of blue", 64510)
	w.announce(of, announced(64510, 65010), "10.0.0.0/8")
	of.Loaded()
	flush(t, w.table)
	flush(t, blue)
	return w
}

// pageVRPs let AS64999 announce 10.0.0.0/8 and what is in it up to /16.
type pageVRPs struct{}

func (pageVRPs) State(p netip.Prefix, origin uint32) string {
	switch {
	case !p.Addr().Is4():
		return "not-found"
	case origin == 64999 && p.Bits() <= 16:
		return "valid"
	}
	return "invalid"
}

func (pageVRPs) Covering(p netip.Prefix) []VRP {
	if !p.Addr().Is4() {
		return nil
	}
	return []VRP{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), MaxLength: 16, ASN: 64999}}
}

func (w *pageWorld) announce(p *rib.Peer, at rib.Attrs, prefixes ...string) {
	u := rib.Update{Attrs: at}
	for _, text := range prefixes {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.MustParsePrefix(text)})
	}
	p.Apply(u)
}

// The page as a person uses it, from the first look to a service that goes away and comes back.
func TestPageInABrowser(t *testing.T) {
	w := newPageWorld(t)
	srv := newStoppable(t, w.api.Handler())
	b := browse(t, srv.url(), "", 1280, 900)

	b.await("#state-text", "ready")
	b.await("#live", "IPv4 routes", "3", "Build time")
	b.await("#lengths", "IPv4 prefixes by length", "33.3 % of them /8")
	b.await("#origins", "AS64999")
	b.await("#memory", "cpu", "IPv4 tree")
	b.await("#version", "v0.0.0-test")
	b.await("#peers", "near", "established", "down")
	b.wantNoComplaints("at first")

	b.step("address", func(t *testing.T) {
		b.search("10.1.2.3")
		b.await("#answer", "10.1.2.3", "is carried by", "10.1.2.0/24", "AS64500", "×3", "AS64999", "198.51.100.1", "Covering prefixes 2", "10.1.0.0/16", "10.0.0.0/8", "RPKI invalid", "10.0.0.0/8 to /16 AS64999")
		if got := b.eval("location.hash"); got != "#q=10.1.2.3" {
			t.Errorf("the address of the page ends in %s", got)
		}
		b.search("10.1.9.9") // two peers announce it
		b.await("#answer", "10.1.0.0/16", "Paths", "best", "longer AS path", "5, best 4", "More specific prefixes 1", "RPKI valid")
		b.search("203.0.113.9")
		b.await("#answer", "is carried by no route")
		b.search("2001:db8:7::1")
		b.await("#answer", "2001:db8::/32", "no ROA")
	})
	b.step("prefix", func(t *testing.T) {
		b.search("10.1.0.0/16")
		b.await("#answer h1", "10.1.0.0/16")
		b.search("10.1.0.0/17")
		b.await("#answer", "is not in the table", "carried by 10.1.0.0/16", "10.1.2.0/24")
	})
	b.step("AS", func(t *testing.T) {
		b.search("64999")
		b.await("#answer", "AS64999", "originates 3 IPv4 and 1 IPv6 prefixes", "Upstreams", "AS64500", "2001:db8::/32")
		b.search("AS64500")
		b.await("#answer", "originates no prefixes", "3 IPv4 and 1 IPv6 prefixes of others")
	})
	b.step("lists", func(t *testing.T) {
		b.search("via:AS64999")
		b.await("#answer h1", "4 routes have it in the path")
		b.search("peer:near")
		b.await("#answer h1", "near", "4 routes come from it")
		b.search("65000:1")
		b.await("#answer h1", "no routes are marked with it")
		b.search("within:10.1.0.0/16")
		b.await("#answer h1", "2 routes are inside of it")
	})
	b.wantNoComplaints("after searches")

	b.step("links, the back button, keys", func(t *testing.T) {
		b.search("10.1.2.3")
		b.await("#answer", "is carried by")
		b.run(chromedp.Click(chromedp.Search(`//section[@id="answer"]//a[text()="10.0.0.0/8"]`)))
		b.await("#answer h1", "10.0.0.0/8")
		b.run(chromedp.NavigateBack())
		b.await("#answer h1", "10.1.2.3")
		if got := b.eval("document.querySelector('#q').value"); got != "10.1.2.3" {
			t.Errorf("the search box has %q", got)
		}
		// From the search box on every link of the answer is reached by Tab.
		b.press("/")
		reached := map[string]bool{}
		for range 40 {
			b.run(chromedp.KeyEvent("\t"))
			reached[b.eval("document.activeElement.closest('#answer') ? document.activeElement.textContent : ''")] = true
		}
		for _, want := range []string{"near", "AS64500", "AS64999", "10.1.0.0/16", "10.0.0.0/8"} {
			if !reached[want] {
				t.Errorf("Tab does not reach %s but %v", want, reached)
			}
		}
		b.press("Escape")
		b.until("document.querySelector('#answer').hidden", "true")
	})

	b.step("a chart is read by keyboard", func(t *testing.T) {
		b.eval("document.querySelector('#lengths svg').focus()")
		b.press("End")
		b.await("#lengths .tip", "/24", "1 prefix", "33.3 %")
		b.press("ArrowLeft")
		b.await("#lengths .tip", "/16")
		b.press("Escape")
		if got := b.text("#lengths .tip"); got != "" {
			t.Errorf("the chart still says %q", got)
		}
	})

	b.step("routes change", func(t *testing.T) {
		b.search("10.1.2.3")
		b.await("#answer", "10.1.2.0/24")
		w.announce(w.near, announced(64500, 64777), "10.1.2.0/25")
		flush(t, w.table)
		b.await("#answer", "10.1.2.0/25", "AS64777", "Changed at")
		w.near.Down("session lost")
		flush(t, w.table)
		b.await("#answer", "10.1.0.0/16", "AS64800")
		b.await("#peers", "session lost")
		b.await("#generation", "generation 3")
	})

	b.step("tables", func(t *testing.T) {
		b.run(chromedp.SetValue("#table", "blue"))
		b.eval("document.querySelector('#table').dispatchEvent(new Event('change'))")
		b.await("#answer", "10.0.0.0/8", "AS65010")
		b.await("#peers", "of blue")
		if got := b.eval("location.hash"); got != "#q=10.1.2.3&table=blue" {
			t.Errorf("the address of the page ends in %s", got)
		}
		b.run(chromedp.NavigateBack())
		b.await("#answer", "AS64800")
		b.await("#peers", "near")
	})

	b.step("hostile texts stay texts", func(t *testing.T) {
		b.await("#peers", hostile)  // a name, and why a peer is down
		b.await("#answer", hostile) // the peer of the route
		b.search(hostile)           // a problem that repeats it
		b.await("#answer", hostile, "cannot be looked up")
		if got := b.eval("window.hacked + ' ' + document.querySelectorAll('img, body script').length"); got != "undefined 0" {
			t.Errorf("hacked: %s", got)
		}
	})
	b.complained() // of the problem

	b.step("errors are said in words", func(t *testing.T) {
		b.search("10.1.2.300")
		b.await("#answer", "10.1.2.300", "cannot be looked up", "Not an IP address")
		b.search("10.1.2.3/24")
		b.await("#answer", "host bits set", "Look up 10.1.2.0/24")
		b.run(chromedp.Click(chromedp.Search(`//section[@id="answer"]//a[text()="10.1.2.0/24"]`)))
		b.await("#answer", "10.1.2.0/24", "is not in the table")
		b.search("AS1")
		b.await("#answer", "AS1", "was not found", "is in no AS path")
		for _, c := range b.complained() {
			if !strings.HasPrefix(c, "network: ") { // the status of the answer, as every browser shows it
				t.Errorf("the console shows %q", c)
			}
		}
	})

	b.step("the connection is lost and comes back", func(t *testing.T) {
		b.search("10.1.2.3")
		b.await("#answer", "10.1.0.0/16")
		srv.stop()
		b.await("#notice", "Connection lost", "cannot be reached")
		b.await("#state-text", "connection lost")
		b.await("#answer", "10.1.0.0/16") // what was known stays
		b.search("10.9.9.9")
		b.await("#answer", "10.9.9.9", "could not be looked up", "cannot be reached")
		srv.start()
		b.await("#state-text", "ready")
		b.until("document.querySelector('#notice').hidden", "true")
		b.await("#answer", "10.9.9.9", "is carried by 10.0.0.0/8") // asked again
		b.search("10.1.2.3")
		w.announce(w.far, announced(64600, 64888), "10.1.2.0/24")
		flush(t, w.table)
		b.await("#answer", "10.1.2.0/24", "AS64888")
		b.complained() // of requests that failed
	})
	b.wantNoComplaints("at the end")
}

// A link to an answer shows the answer, whatever the screen.
func TestPageFitsItsScreen(t *testing.T) {
	w := newPageWorld(t)
	b := browse(t, newStoppable(t, w.api.Handler()).url(), "#q=10.1.9.9", 1280, 900)
	b.await("#answer", "10.1.0.0/16")
	b.await("#peers", "near")
	b.await("#origins", "AS64999")
	background := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		background[scheme] = b.eval("getComputedStyle(document.body).backgroundColor")
		for _, width := range []int64{1920, 1280, 700, 360, 320} {
			b.resize(width, 800)
			if got := b.eval("document.documentElement.scrollWidth"); got != fmt.Sprint(width) {
				t.Errorf("%s, %d pixels wide: the page is %s wide; too wide are %s", scheme, width, got,
					b.eval(fmt.Sprintf("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > %d && !e.closest('.scroll')).map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 20)).slice(0, 5).join('; ')", width)))
			}
			if got := b.eval("[...document.querySelectorAll('svg.plot')].filter(e => e.querySelector('path, rect') === null).length"); got != "0" {
				t.Errorf("%s, %d pixels wide: %s charts are empty", scheme, width, got)
			}
			if png := b.shoot(true); len(png) < 10_000 {
				t.Errorf("%s, %d pixels wide: the picture has %d bytes", scheme, width, len(png))
			}
		}
	}
	if background["light"] == background["dark"] {
		t.Errorf("light and dark are both %s", background["light"])
	}
	// The button goes against the system, and is remembered.
	b.run(chromedp.Click("#theme")) // the system's is dark, so this is light
	if got := b.eval("getComputedStyle(document.body).backgroundColor"); got != background["light"] {
		t.Errorf("light by the button is %s, by the system %s", got, background["light"])
	}
	b.run(chromedp.Reload())
	b.await("#answer", "10.1.0.0/16")
	if got := b.eval("getComputedStyle(document.body).backgroundColor"); got != background["light"] {
		t.Errorf("after a reload the page is %s, not light", got)
	}
	b.wantNoComplaints("at the end")
}

func TestPageBeforeTheFirstGeneration(t *testing.T) {
	ready := make(chan struct{})
	w := emptyWorld(t, func(d *Deps) {
		d.Ready = func() (bool, []string) {
			select {
			case <-ready:
				return true, nil
			default:
				return false, []string{hostile}
			}
		}
	})
	b := browse(t, newStoppable(t, w.api.Handler()).url(), "", 1280, 900)
	b.await("#state-text", "loading: waits for "+hostile)
	b.await("#generation", "no generation yet")
	b.await("#peers", "There is none")
	b.wantNoComplaints("without a generation")
	b.search("10.1.2.3")
	b.await("#answer", "could not be looked up", "No generation is published yet")
	close(ready)
	w.publish(1, testRoutes())
	b.await("#answer", "is carried by", "10.1.2.0/24", "{ AS64502, AS64503 }", "65000:100")
	b.await("#lengths", "40 % of them /24")
}

func TestPageShowsPeersWithTroubleFirst(t *testing.T) {
	all := []rib.PeerStatus{
		{Name: "stale", Kind: rib.KindBGP, AS: 64501, State: "stale", V4: 1234, Stale4: 1200, Stale6: 34, StaleSince: time.Now().Add(-90 * time.Second), LastError: "hold timer expired"},
		{Name: "strict", Kind: rib.KindBGP, AS: 64502, State: "established", V4: 10, Loaded: true},
		{Name: "slow", Kind: rib.KindMRT, State: "loading", Awaited: true},
	}
	all[1].Rejected[rib.RejectRPKI], all[1].Rejected[rib.RejectLoop] = 3, 4
	for i := range 250 {
		all = append(all, rib.PeerStatus{Name: fmt.Sprintf("peer %d", i), Kind: rib.KindBGP, State: "established", Loaded: true})
	}
	w := newWorld(t, func(d *Deps) { d.Peers = func() []rib.PeerStatus { return all } })
	b := browse(t, newStoppable(t, w.api.Handler()).url(), "", 1280, 900)
	b.await("#peers-summary", "1 stale", "1 loading", "251 established")
	b.await("#peers", "1,234", "stale for 1 min", "hold timer expired", "readiness waits for it")
	names := func() string {
		return b.eval("[...document.querySelectorAll('#peers tbody tr a')].map(a => a.textContent).join()")
	}
	if got := names(); !strings.HasPrefix(got, "stale,slow,peer 0,peer 1,peer 2,") || strings.Count(got, ",") != 99 {
		t.Errorf("peers are shown as %s", got)
	}
	b.run(chromedp.Click("#peers button"))
	b.await("#peers", "7", "rejected: 4 own AS in the path, 3 RPKI invalid")
	if got := strings.Count(names(), ",") + 1; got != len(all) {
		t.Errorf("%d of %d peers", got, len(all))
	}
	b.wantNoComplaints("at the end")
}
