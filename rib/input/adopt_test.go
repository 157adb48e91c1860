package input_test

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input"
)

// Routes of a saved generation go to the file of the same name, whatever number that has got, and
// stay until it is read.
func TestSavedRoutesWaitForTheirFile(t *testing.T) {
	var dump bytes.Buffer
	table := fixtures.Generate(1, 50, 10)
	if err := fixtures.WriteMRT(&dump, table, 1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dump.mrt")
	if err := os.WriteFile(path, dump.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rib.New(rib.Options{})
	first, err := input.Open(r, path, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := input.Open(r, path, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr("192.0.2.1")
	mrt := func(name string) rib.PeerConfig {
		return rib.PeerConfig{Name: name, Kind: rib.KindMRT, Addr: addr, AS: fixtures.PeerAS}
	}
	for _, c := range []struct {
		of         *input.Source
		peer       rib.PeerConfig
		renumbered bool
		want       string
	}{
		{second, mrt("dump.mrt 192.0.2.1 AS64500"), false, ""},
		{first, mrt("other.mrt 192.0.2.1 AS64500"), true, ""},
		{first, mrt("dump.mrt 192.0.2.1 AS64501"), true, ""}, // contradicts itself
		{first, mrt("dump.mrt"), true, ""},
		{first, rib.PeerConfig{Name: "dump.mrt", Kind: rib.KindBGP}, true, ""},
		{first, rib.PeerConfig{Name: "dump.mrt", Kind: rib.KindList}, false, "dump.mrt"},
		{first, rib.PeerConfig{Name: "dump.mrt#17", Kind: rib.KindList}, true, "dump.mrt"},
		{second, rib.PeerConfig{Name: "dump.mrt", Kind: rib.KindList}, true, "dump.mrt#2"},
		{first, mrt("dump.mrt#3 192.0.2.1 AS64500"), true, "dump.mrt 192.0.2.1 AS64500"},
		{first, mrt("dump.mrt#3 192.0.2.1 AS64500"), true, "dump.mrt 192.0.2.1 AS64500"}, // saved in parts
		{first, mrt("dump.mrt 192.0.2.1 AS64500 #2"), true, "dump.mrt 192.0.2.1 AS64500 #2"},
		{first, rib.PeerConfig{Name: "dump.mrt 192.0.2.1 AS64502", Kind: rib.KindMRT, Addr: addr, AS: 64502}, false, "dump.mrt 192.0.2.1 AS64502"},
		{second, mrt("dump.mrt#2 192.0.2.1 AS64500"), false, "dump.mrt#2 192.0.2.1 AS64500"},
	} {
		got := ""
		if p := c.of.Adopt(c.peer, c.renumbered); p != nil {
			got = p.Name()
			if c.peer.AS != 64502 { // the routes of that one were too old
				p.Restore(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("203.0.113.0/24")}}})
			}
		}
		if got != c.want {
			t.Errorf("%s, renumbered %t: adopted as %q, want %q", c.peer.Name, c.renumbered, got, c.want)
		}
	}
	peers := func() map[string]rib.PeerStatus {
		all := map[string]rib.PeerStatus{}
		for _, p := range r.Peers() {
			all[p.Name] = p
		}
		return all
	}
	if _, err := first.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	is := peers()
	if p := is["dump.mrt 192.0.2.1 AS64500"]; p.State != "loaded" || p.V4 != 50 || p.V6 != 10 || p.Stale4 != 0 {
		t.Errorf("the file's peer: %+v", p)
	}
	if p := is["dump.mrt#2 192.0.2.1 AS64500"]; p.State != "stale" || p.Stale4 != 1 {
		t.Errorf("the peer of the file that is not read: %+v", p)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if is = peers(); len(is) != 1 {
		t.Errorf("peers left: %v", is)
	}
}
