package bgp

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

func TestParsePeer(t *testing.T) {
	a := netip.MustParseAddr
	dir := t.TempDir()
	password, empty := filepath.Join(dir, "password"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{password: "open sesame\r\nnot this\n", empty: "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for s, want := range map[string]PeerConfig{
		"192.0.2.1,asn=64500":                                          {Addr: a("192.0.2.1"), AS: 64500},
		"192.0.2.1,asn=4294967295,port=1790,passive":                   {Addr: a("192.0.2.1"), AS: 4294967295, Port: 1790, Passive: true},
		"2001:db8::1,passive,asn=64500":                                {Addr: a("2001:db8::1"), AS: 64500, Passive: true},
		"[2001:db8::1], asn=64500, optional":                           {Addr: a("2001:db8::1"), AS: 64500, Optional: true},
		"fe80::1%eth0,asn=64500,name=left":                             {Addr: a("fe80::1%eth0"), AS: 64500, Name: "left"},
		"::ffff:192.0.2.1,asn=1,local=192.0.2.2,name=core router west": {Addr: a("192.0.2.1"), AS: 1, LocalAddr: a("192.0.2.2"), Name: "core router west"},
		"192.0.2.0/24,asn=1,limit=5":                                   {Prefix: netip.MustParsePrefix("192.0.2.0/24"), AS: 1, Limit: 5},
		"192.0.2.1,asn=1,active,table=red,import=customers,enforce-first-as,role=rs-client,strict-role": {
			Addr: a("192.0.2.1"), AS: 1, Active: true, Table: "red", Import: "customers", EnforceFirstAS: true, Role: fsm.RoleRSClient, StrictRole: true},
		"192.0.2.1,asn=1,md5=a=b,ttl-security=1,hold-time=30s,no-graceful-restart,no-add-path": {
			Addr: a("192.0.2.1"), AS: 1, MD5: "a=b", TTLSecurity: 1, HoldTime: 30 * time.Second, NoGracefulRestart: true, NoAddPath: true},
		"192.0.2.1,asn=1,md5-file=" + password: {Addr: a("192.0.2.1"), AS: 1, MD5: "open sesame"},
		"192.0.2.1,asn=1,max-prefix=7,max-prefix-warning=90,max-prefix-restart=5m,max-attribute-bytes=1000000,stale-time=1m,long-lived-stale-time=24h": {
			Addr: a("192.0.2.1"), AS: 1, MaxPrefixes4: 7, MaxPrefixes6: 7, MaxPrefixesWarn: 90, MaxPrefixesRestart: 5 * time.Minute, MaxAttributeBytes: 1000000, StaleTime: time.Minute, LongLivedStaleTime: 24 * time.Hour},
		"192.0.2.1,asn=1,max-prefix-ipv4=7,max-prefix-ipv6=8": {Addr: a("192.0.2.1"), AS: 1, MaxPrefixes4: 7, MaxPrefixes6: 8},
	} {
		if got, err := ParsePeer(s); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"":                                               `"" is no IP address`,
		"router.example.net,asn=64500":                   `"router.example.net" is no IP address`,
		"192.0.2.1:179,asn=64500":                        `has a port, which goes behind port=`,
		"192.0.2.1":                                      "asn is missing",
		"192.0.2.1,passive":                              "asn is missing",
		"192.0.2.1,asn=":                                 "asn has no value",
		"192.0.2.1,asn=0":                                "no number from 1 to 4294967295",
		"192.0.2.1,asn=4294967296":                       "no number from 1 to 4294967295",
		"192.0.2.1,asn=AS64500":                          "no number from 1 to 4294967295",
		"192.0.2.1,asn=1,asn=2":                          "asn is there twice",
		"192.0.2.1,asn=1,port=0":                         "no number from 1 to 65535",
		"192.0.2.1,asn=1,port=65536":                     "no number from 1 to 65535",
		"192.0.2.1,asn=1,passive=yes":                    "passive takes no value",
		"192.0.2.1,asn=1,activ":                          `"activ" is unknown`,
		"192.0.2.1,asn=1,":                               `"" is unknown`,
		"192.0.2.1,asn=1,local=here":                     `local "here" is no IP address`,
		"192.0.2.1,asn=1,local=2001:db8::1":              "not of the same family",
		"192.0.2.1,asn=1,name=":                          "name has no value",
		"192.0.2.1,asn=1,hold=9,name=x,ttl=1":            `"hold" is unknown`,
		"192.0.2.1/24,asn=1,limit=1":                     "the prefix is 192.0.2.0/24",
		"192.0.2.0/24,asn=1":                             "limit is missing",
		"192.0.2.1,asn=1,limit=1":                        "this is an address",
		"192.0.2.1,asn=1,role=boss":                      `role "boss" is none: give provider`,
		"192.0.2.1,asn=1,ttl-security=255":               "is no number from 1 to 254",
		"192.0.2.1,asn=1,stale-time=60":                  `stale-time "60" is no time`,
		"192.0.2.1,asn=1,md5=x,md5-file=" + password:     "give one",
		"192.0.2.1,asn=1,md5-file=" + empty:              "has no password in its first line",
		"192.0.2.1,asn=1,md5-file=" + dir + "/none":      "cannot be read",
		"192.0.2.1,asn=1,max-prefix=1,max-prefix-ipv4=1": "give it alone",
		"192.0.2.1,md5=secret":                           "md5=...",
	} {
		_, err := ParsePeer(s)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want ADDR,asn=N") {
			t.Errorf("%q: error %v, want one with %q", s, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the password is in the error %v", s, err)
		}
	}
}

func TestConfigurationErrors(t *testing.T) {
	silence := slog.New(slog.DiscardHandler)
	peer := func(c PeerConfig) Config {
		return Config{ASN: ownAS, RouterID: ownID, Log: silence, Peers: []PeerConfig{{Name: "first", Addr: netip.MustParseAddr("192.0.2.1"), AS: 1}, c}}
	}
	addr, prefix := netip.MustParseAddr("192.0.2.2"), netip.MustParsePrefix("198.51.100.0/24")
	listening := func(c PeerConfig) Config {
		all := peer(c)
		all.Listen = []string{"127.0.0.1:0"}
		return all
	}
	twice := listening(PeerConfig{Name: "one", Prefix: prefix, AS: 1, Limit: 1})
	twice.Peers = append(twice.Peers, PeerConfig{Name: "two", Prefix: prefix, AS: 1, Limit: 1})
	for want, cfg := range map[string]Config{
		"own AS number is missing":       {RouterID: ownID},
		"router ID":                      {ASN: 1, RouterID: netip.MustParseAddr("2001:db8::1")},
		`router ID "" is none`:           {ASN: 1},
		"hold time":                      {ASN: 1, RouterID: ownID, HoldTime: time.Second},
		"give a positive one":            {ASN: 1, RouterID: ownID, ErrorDelay: -1},
		"there twice":                    peer(PeerConfig{Name: "first", Addr: addr, AS: 1}),
		"another peer's":                 peer(PeerConfig{Addr: netip.MustParseAddr("::ffff:192.0.2.1"), AS: 1}),
		"AS number is missing":           peer(PeerConfig{Addr: addr}),
		"is none of a host":              peer(PeerConfig{AS: 1}),
		"of different families":          peer(PeerConfig{Addr: addr, AS: 1, LocalAddr: netip.MustParseAddr("2001:db8::1")}),
		"no address to listen at":        peer(PeerConfig{Addr: addr, AS: 1, Passive: true}),
		"passive and active":             listening(PeerConfig{Addr: addr, AS: 1, Passive: true, Active: true}),
		"limit is missing":               listening(PeerConfig{Prefix: prefix, AS: 1}),
		"give one":                       listening(PeerConfig{Prefix: prefix, Addr: addr, AS: 1, Limit: 1}),
		"this is an address":             peer(PeerConfig{Addr: addr, AS: 1, Limit: 1}),
		"one limit a prefix":             twice,
		"for external peers":             peer(PeerConfig{Addr: addr, AS: ownAS, Role: fsm.RolePeer}),
		"needs a role":                   peer(PeerConfig{Addr: addr, AS: 1, StrictRole: true}),
		"MD5 password has 81":            peer(PeerConfig{Addr: addr, AS: 1, MD5: strings.Repeat("x", 81)}),
		"TTL security of 255":            peer(PeerConfig{Addr: addr, AS: 1, TTLSecurity: 255}),
		"warning at 101 %":               peer(PeerConfig{Addr: addr, AS: 1, MaxPrefixesWarn: 101}),
		"a time is negative":             peer(PeerConfig{Addr: addr, AS: 1, StaleTime: -1}),
		`peer "192.0.2.2": hold time 1s`: peer(PeerConfig{Addr: addr, AS: 1, HoldTime: time.Second}),
		"no import policy \"x\"":         peer(PeerConfig{Addr: addr, AS: 1, Import: "x"}),
		"half-open":                      {ASN: 1, RouterID: ownID, MaxHalfOpen: -1},
		"add peer \"taken\"":             peer(PeerConfig{Name: "taken", Addr: addr, AS: 1}),
	} {
		r := rib.New(rib.Options{})
		if _, err := r.AddPeer(rib.PeerConfig{Name: "taken"}); err != nil {
			t.Fatal(err)
		}
		if _, err := New(cfg, tables(r), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		mustBe(t, len(r.Peers()), 1) // nothing is left of the failure
	}
}
