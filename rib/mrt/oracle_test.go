package mrt

import (
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	codec "github.com/osrg/gobgp/v3/pkg/packet/mrt"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

// The oracle reads whole files with GoBGP's own reader of MRT, slowly and without a cache, and
// keeps of every route the AS path as text, the next hop and the communities.

type oracleRoute struct {
	path, communities string
	hop               netip.Addr
}

type oracleTables map[string]map[netip.Prefix]oracleRoute

func realFile(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(fixtures.DataFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var content io.Reader = bzip2.NewReader(f)
	if strings.HasSuffix(name, ".gz") {
		if content, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(content)
	if err != nil && err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	return b
}

func oracle(t *testing.T, b []byte) oracleTables {
	t.Helper()
	all := make(oracleTables)
	var index []string
	for len(b) >= 12 {
		var h codec.MRTHeader
		if err := h.DecodeFromBytes(b); err != nil {
			t.Fatal(err)
		}
		if len(b) < 12+int(h.Len) {
			break
		}
		m, err := codec.ParseMRTBody(&h, b[12:12+h.Len])
		if err != nil {
			t.Fatal(err)
		}
		b = b[12+h.Len:]
		switch body := m.Body.(type) {
		case *codec.PeerIndexTable:
			for _, p := range body.Peers {
				index = append(index, peerName(p.IpAddress, p.AS))
				all[index[len(index)-1]] = make(map[netip.Prefix]oracleRoute)
			}
		case *codec.Rib:
			for _, e := range body.Entries {
				all[index[e.PeerIndex]][netip.MustParsePrefix(body.Prefix.String())] = oracleAttrs(e.PathAttributes)
			}
		case *codec.BGP4MPMessage:
			name := peerName(body.PeerIpAddress, body.PeerAS)
			if all[name] == nil {
				all[name] = make(map[netip.Prefix]oracleRoute)
			}
			if u, ok := body.BGPMessage.Body.(*bgp.BGPUpdate); ok {
				oracleUpdate(all[name], u)
			}
		case *codec.BGP4MPStateChange:
			if body.OldState == codec.ESTABLISHED {
				clear(all[peerName(body.PeerIpAddress, body.PeerAS)])
			}
		}
	}
	return all
}

func oracleUpdate(table map[netip.Prefix]oracleRoute, u *bgp.BGPUpdate) {
	route := oracleAttrs(u.PathAttributes)
	for _, p := range u.WithdrawnRoutes {
		delete(table, netip.MustParsePrefix(p.String()))
	}
	for _, p := range u.NLRI {
		table[netip.MustParsePrefix(p.String())] = route
	}
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, p := range a.Value {
				delete(table, netip.MustParsePrefix(p.String()))
			}
		case *bgp.PathAttributeMpReachNLRI:
			for _, p := range a.Value {
				table[netip.MustParsePrefix(p.String())] = route
			}
		}
	}
}

func peerName(ip []byte, as uint32) string {
	a, _ := netip.AddrFromSlice(ip)
	return "f " + a.String() + " AS" + strings.TrimPrefix(asText(as), "AS")
}

func asText(as uint32) string { return bgp.NewAs4PathParam(2, []uint32{as}).String() }

func oracleAttrs(attrs []bgp.PathAttributeInterface) (r oracleRoute) {
	for _, a := range attrs {
		switch a := a.(type) {
		case *bgp.PathAttributeAsPath:
			r.path = bgp.AsPathString(a)
		case *bgp.PathAttributeNextHop:
			r.hop, _ = netip.AddrFromSlice(a.Value)
		case *bgp.PathAttributeMpReachNLRI:
			r.hop, _ = netip.AddrFromSlice(a.Nexthop)
		case *bgp.PathAttributeCommunities:
			for _, c := range a.Value {
				r.communities += string(be32(c))
			}
		}
	}
	return r
}

// ours tells a loaded route as the oracle does.
func ours(a rib.Attrs) oracleRoute {
	var params []bgp.AsPathParamInterface
	for b := []byte(a.ASPath); len(b) > 0; {
		kind, n := b[0], int(b[1])
		b = b[2:]
		asns := make([]uint32, n)
		for i := range asns {
			asns[i] = binary.BigEndian.Uint32(b[4*i:])
		}
		b = b[4*n:]
		params = append(params, bgp.NewAs4PathParam(kind, asns))
	}
	return oracleRoute{path: bgp.AsPathString(bgp.NewPathAttributeAsPath(params)), communities: string(a.Communities), hop: a.NextHop}
}

func TestRealFilesAgreeWithOracle(t *testing.T) {
	for _, tt := range []struct {
		name            string
		peers, prefixes int
		operations      int // announced and withdrawn
		truncated       bool
		unabridged      bool // its writer leaves MP_REACH_NLRI whole
	}{
		{"mrt-tabledumpv2-2014-05-23-v4-truncated.bz2", 47, 9072, 270005, true, false},
		{"mrt-tabledumpv2-2015-11-01-v6-truncated.bz2", 29, 6870, 149578, true, true},
		{"mrt-updates-2019-01-01-5min.gz", 69, 0, 162574, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := realFile(t, tt.name)
			got, res, log, err := loadBytes(t, file)
			if (err != nil) != tt.truncated || log.Total() != 0 {
				t.Errorf("error %v, problems %v", err, log.First())
			}
			if n := res.Announced + res.Withdrawn; n != tt.operations || len(got) != tt.peers {
				t.Errorf("%d operations of %d peers, want %d of %d", n, len(got), tt.operations, tt.peers)
			}
			want := oracle(t, file)
			if len(got) != len(want) {
				t.Errorf("%d peers, the oracle has %d", len(got), len(want))
			}
			prefixes, unabridged := make(map[netip.Prefix]bool), 0
			for name, table := range want {
				if len(got[name]) != len(table) {
					t.Errorf("%s: %d routes, the oracle has %d", name, len(got[name]), len(table))
				}
				for p, w := range table {
					prefixes[p] = true
					a, ok := got[name][rib.NLRI{Prefix: p}]
					g := ours(a)
					if !w.hop.IsValid() && g.hop.Is6() {
						// The oracle finds no next hop where the dump has the whole MP_REACH_NLRI.
						w.hop = g.hop
						unabridged++
					}
					if !ok || g != w {
						t.Fatalf("%s %s: got %+v, the oracle has %+v", name, p, g, w)
					}
				}
			}
			if (unabridged > 0) != tt.unabridged {
				t.Errorf("%d next hops from whole MP_REACH_NLRI, some expected: %v", unabridged, tt.unabridged)
			}
			if tt.prefixes != 0 && len(prefixes) != tt.prefixes {
				t.Errorf("%d prefixes, want %d", len(prefixes), tt.prefixes)
			}
		})
	}
}
