package bgp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

func TestParsePeer(t *testing.T) {
	a := netip.MustParseAddr
	for s, want := range map[string]PeerConfig{
		"192.0.2.1,asn=64500":                                          {Addr: a("192.0.2.1"), AS: 64500},
		"192.0.2.1,asn=4294967295,port=1790,passive":                   {Addr: a("192.0.2.1"), AS: 4294967295, Port: 1790, Passive: true},
		"2001:db8::1,passive,asn=64500":                                {Addr: a("2001:db8::1"), AS: 64500, Passive: true},
		"[2001:db8::1], asn=64500, optional":                           {Addr: a("2001:db8::1"), AS: 64500, Optional: true},
		"fe80::1%eth0,asn=64500,name=left":                             {Addr: a("fe80::1%eth0"), AS: 64500, Name: "left"},
		"::ffff:192.0.2.1,asn=1,local=192.0.2.2,name=core router west": {Addr: a("192.0.2.1"), AS: 1, LocalAddr: a("192.0.2.2"), Name: "core router west"},
	} {
		if got, err := ParsePeer(s); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"":                                    `"" is no IP address`,
		"router.example.net,asn=64500":        `"router.example.net" is no IP address`,
		"192.0.2.1:179,asn=64500":             `has a port, which goes behind port=`,
		"192.0.2.1":                           "asn is missing",
		"192.0.2.1,passive":                   "asn is missing",
		"192.0.2.1,asn=":                      "asn has no value",
		"192.0.2.1,asn=0":                     "no number from 1 to 4294967295",
		"192.0.2.1,asn=4294967296":            "no number from 1 to 4294967295",
		"192.0.2.1,asn=AS64500":               "no number from 1 to 4294967295",
		"192.0.2.1,asn=1,asn=2":               "asn is there twice",
		"192.0.2.1,asn=1,port=0":              "no number from 1 to 65535",
		"192.0.2.1,asn=1,port=65536":          "no number from 1 to 65535",
		"192.0.2.1,asn=1,passive=yes":         "passive takes no value",
		"192.0.2.1,asn=1,activ":               `"activ" is unknown`,
		"192.0.2.1,asn=1,":                    `"" is unknown`,
		"192.0.2.1,asn=1,local=here":          `local "here" is no IP address`,
		"192.0.2.1,asn=1,local=2001:db8::1":   "not of the same family",
		"192.0.2.1,asn=1,name=":               "name has no value",
		"192.0.2.1,asn=1,hold=9,name=x,ttl=1": `"hold" is unknown`,
	} {
		_, err := ParsePeer(s)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want ADDR,asn=N") {
			t.Errorf("%q: error %v, want one with %q", s, err, want)
		}
	}
}

func TestConfigurationErrors(t *testing.T) {
	peer := func(c PeerConfig) Config {
		return Config{ASN: ownAS, RouterID: ownID, Peers: []PeerConfig{{Name: "first", Addr: netip.MustParseAddr("192.0.2.1"), AS: 1}, c}}
	}
	addr := netip.MustParseAddr("192.0.2.2")
	for want, cfg := range map[string]Config{
		"own AS number is missing": {RouterID: ownID},
		"router ID":                {ASN: 1, RouterID: netip.MustParseAddr("2001:db8::1")},
		`router ID "" is none`:     {ASN: 1},
		"hold time":                {ASN: 1, RouterID: ownID, HoldTime: time.Second},
		"give a positive one":      {ASN: 1, RouterID: ownID, ErrorDelay: -1},
		"there twice":              peer(PeerConfig{Name: "first", Addr: addr, AS: 1}),
		"another peer's":           peer(PeerConfig{Addr: netip.MustParseAddr("::ffff:192.0.2.1"), AS: 1}),
		"AS number is missing":     peer(PeerConfig{Addr: addr}),
		"is none of a host":        peer(PeerConfig{AS: 1}),
		"of different families":    peer(PeerConfig{Addr: addr, AS: 1, LocalAddr: netip.MustParseAddr("2001:db8::1")}),
		"no address to listen at":  peer(PeerConfig{Addr: addr, AS: 1, Passive: true}),
		"add peer \"taken\"":       peer(PeerConfig{Name: "taken", Addr: addr, AS: 1}),
	} {
		r := rib.New(rib.Options{})
		if _, err := r.AddPeer(rib.PeerConfig{Name: "taken"}); err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		mustBe(t, len(r.Peers()), 1) // nothing is left of the failure
	}
}
