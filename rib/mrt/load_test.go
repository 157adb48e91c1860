package mrt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// tables is what the peers of a file hold after it is loaded.
type tables = map[string]map[rib.NLRI]rib.Attrs

func TestRecords(t *testing.T) {
	hop := netip.MustParseAddr("192.0.2.9")
	hop6 := netip.MustParseAddr("2001:db8::9")
	attrs := cat(originIGP(), path4(64500, 4200000000), nextHop4("192.0.2.9"))
	want4 := rib.Attrs{NextHop: hop, ASPath: sequence(64500, 4200000000)}
	want6 := rib.Attrs{NextHop: hop6, ASPath: sequence(64500, 4200000000)}
	common6 := cat(originIGP(), path4(64500, 4200000000))
	mpFull := attribute(0x90, 14, be16(2), []byte{1, 16}, ip("2001:db8::9"), []byte{0}, nlriBytes("2001:db8:1::/48"))
	announce4 := updateMessage(nil, attrs, cat(nlriBytes("10.0.0.0/8"), nlriBytes("10.1.0.0/16")))
	both := map[rib.NLRI]rib.Attrs{nlri("10.0.0.0/8"): want4, nlri("10.1.0.0/16"): want4}
	pathID := func(id uint32, prefix string) rib.NLRI {
		return rib.NLRI{Prefix: netip.MustParsePrefix(prefix), PathID: id}
	}

	for _, tt := range []struct {
		name     string
		file     []byte
		want     tables
		problems map[problems.Kind]int
		ignored  int
	}{
		{"empty file", nil, tables{}, nil, 0},
		{"TABLE_DUMP_V2 of two peers",
			cat(peerTable("192.0.2.1", "192.0.2.2"), ribRecord(2, "10.0.0.0/8", ribEntry(0, attrs), ribEntry(1, originIGP(), path4(64501), nextHop4("192.0.2.9")))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4},
				"f 192.0.2.2 AS64501": {nlri("10.0.0.0/8"): {NextHop: hop, ASPath: sequence(64501)}}}, nil, 0},
		{"host bits in a RIB record mean nothing",
			cat(peerTable("192.0.2.1"), makeRecord(typeTableDumpV2, 2, be32(0), []byte{9, 10, 255}, be16(1), ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.128.0.0/9"): want4}}, nil, 0},
		{"every attribute that is kept",
			cat(peerTable("192.0.2.1"), ribRecord(2, "0.0.0.0/0", ribEntry(0,
				attribute(0x40, 1, []byte{2}), path4(64500), nextHop4("192.0.2.9"), attribute(0x80, 4, be32(77)), attribute(0x40, 5, be32(300)),
				attribute(0xc0, 8, be32(64500<<16|7), be32(1)), attribute(0x80, 9, ip("192.0.2.77")), attribute(0x80, 10, be32(1), be32(2)),
				attribute(0xc0, 16, []byte{0, 2, 0xfb, 0xf4, 0, 0, 0, 1}), attribute(0xc0, 32, be32(64500), be32(1), be32(2)),
				attribute(0xc0, 40, []byte{5, 0xff, 0xff}), attribute(0xc0, 99, []byte("unknown"))))),
			tables{"f 192.0.2.1 AS64500": {nlri("0.0.0.0/0"): {
				Origin: rib.OriginIncomplete, ASPath: sequence(64500), NextHop: hop, MED: 77, HasMED: true, LocalPref: 300, HasLocalPref: true,
				Communities: rib.MakeCommunities(64500<<16|7, 1), OriginatorID: rib.RouterID{192, 0, 2, 77}, ClusterListLen: 2,
				ExtCommunities: rib.ExtCommunities([]byte{0, 2, 0xfb, 0xf4, 0, 0, 0, 1}), LargeCommunities: rib.MakeLargeCommunities([3]uint32{64500, 1, 2}),
			}}}, nil, 0},
		{"IPv6 with the abbreviated, the full and the link-local next hop",
			cat(peerTable("192.0.2.1"),
				ribRecord(4, "2001:db8:1::/48", ribEntry(0, common6, attribute(0x80, 14, []byte{16}, ip("2001:db8::9")))),
				ribRecord(4, "2001:db8:2::/48", ribEntry(0, common6, mpFull)),
				ribRecord(4, "2001:db8:3::/48", ribEntry(0, common6, attribute(0x80, 14, []byte{32}, ip("2001:db8::9"), ip("fe80::1"))))),
			tables{"f 192.0.2.1 AS64500": {nlri("2001:db8:1::/48"): want6, nlri("2001:db8:2::/48"): want6, nlri("2001:db8:3::/48"): want6}}, nil, 0},
		{"IPv6 with a NEXT_HOP besides",
			cat(peerTable("192.0.2.1"), ribRecord(4, "2001:db8:1::/48", ribEntry(0, attrs, attribute(0x80, 14, []byte{16}, ip("2001:db8::9"))))),
			tables{"f 192.0.2.1 AS64500": {nlri("2001:db8:1::/48"): want6}}, nil, 0},
		{"IPv4 with an IPv6 next hop",
			cat(peerTable("192.0.2.1"), ribRecord(2, "10.0.0.0/8", ribEntry(0, common6, attribute(0x80, 14, []byte{16}, ip("2001:db8::9"))))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want6}}, nil, 0},
		{"ADD-PATH records",
			cat(peerTable("192.0.2.1"),
				makeRecord(typeTableDumpV2, 8, be32(0), nlriBytes("10.0.0.0/8"), be16(2),
					be16(0), be32(0), be32(5), be16(len(attrs)), attrs, be16(0), be32(0), be32(6), be16(len(attrs)), attrs)),
			tables{"f 192.0.2.1 AS64500": {pathID(5, "10.0.0.0/8"): want4, pathID(6, "10.0.0.0/8"): want4}}, nil, 0},
		{"RIB_GENERIC, with and without ADD-PATH, unicast and not",
			cat(peerTable("192.0.2.1"),
				makeRecord(typeTableDumpV2, 6, be32(0), be16(1), []byte{1}, nlriBytes("10.0.0.0/8"), be16(1), ribEntry(0, attrs)),
				makeRecord(typeTableDumpV2, 12, be32(0), be16(1), []byte{1}, nlriBytes("10.0.0.0/8"), be16(1), be16(0), be32(0), be32(5), be16(len(attrs)), attrs),
				makeRecord(typeTableDumpV2, 6, be32(0), be16(1), []byte{128}, []byte{88, 1, 2, 3}, be16(0))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4, pathID(5, "10.0.0.0/8"): want4}}, nil, 1},
		{"the same address and AS twice in a peer table",
			cat(makeRecord(typeTableDumpV2, 1, ip("192.0.2.254"), be16(0), be16(2),
				[]byte{2}, ip("192.0.2.1"), ip("192.0.2.1"), be32(64500), []byte{2}, ip("192.0.2.3"), ip("192.0.2.1"), be32(64500)),
				ribRecord(2, "10.0.0.0/8", ribEntry(1, attrs))),
			tables{"f 192.0.2.1 AS64500": {}, "f 192.0.2.1 AS64500 #2": {nlri("10.0.0.0/8"): want4}}, nil, 0},
		{"two dumps one behind the other",
			cat(peerTable("192.0.2.1", "192.0.2.2"), ribRecord(2, "10.0.0.0/8", ribEntry(0, attrs)), peerTable("192.0.2.1"), ribRecord(2, "11.0.0.0/8", ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4, nlri("11.0.0.0/8"): want4}, "f 192.0.2.2 AS64501": {}}, nil, 0},
		{"a peer that the table lacks costs its route",
			cat(ribRecord(2, "9.0.0.0/8", ribEntry(0, attrs)), peerTable("192.0.2.1"), ribRecord(2, "10.0.0.0/8", ribEntry(7, attrs), ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}}, map[problems.Kind]int{KindPeer: 2}, 0},
		{"bad attributes cost their route",
			cat(peerTable("192.0.2.1", "192.0.2.2"), ribRecord(2, "10.0.0.0/8", ribEntry(1, attribute(0x40, 1, []byte{0, 0})), ribEntry(1, originIGP()[:3]), ribEntry(1, attribute(0x40, 2, []byte{9, 1, 0, 0, 0, 1})),
				ribEntry(1, attribute(0x80, 14, []byte{5, 1, 2, 3, 4, 5})), ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}, "f 192.0.2.2 AS64501": {}}, map[problems.Kind]int{KindAttributes: 4}, 0},
		{"entries cut off keep those before",
			cat(peerTable("192.0.2.1"), makeRecord(typeTableDumpV2, 2, be32(0), nlriBytes("10.0.0.0/8"), be16(2), ribEntry(0, attrs), be16(0), []byte{1}),
				ribRecord(2, "11.0.0.0/8", ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4, nlri("11.0.0.0/8"): want4}}, map[problems.Kind]int{KindRecord: 1}, 0},
		{"length out of range",
			cat(peerTable("192.0.2.1"), makeRecord(typeTableDumpV2, 2, be32(0), []byte{33, 1, 2, 3, 4, 5}, be16(1), ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {}}, map[problems.Kind]int{KindRecord: 1}, 0},
		{"peer table with a view name that upsets the codec",
			cat(makeRecord(typeTableDumpV2, 1, ip("192.0.2.254"), be16(65530), bytes.Repeat([]byte{'v'}, 65530), be16(0)), peerTable("192.0.2.1"), ribRecord(2, "10.0.0.0/8", ribEntry(0, attrs))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}}, map[problems.Kind]int{KindRecord: 1}, 0},
		{"ADD-PATH entry cut short",
			cat(peerTable("192.0.2.1"), makeRecord(typeTableDumpV2, 8, be32(0), nlriBytes("10.0.0.0/8"), be16(1), be16(0), be32(0), []byte{1, 2})),
			tables{"f 192.0.2.1 AS64500": {}}, map[problems.Kind]int{KindRecord: 1}, 0},
		{"TABLE_DUMP with 2-byte AS numbers and AS4_PATH",
			cat(makeRecord(typeTableDump, 1, be32(0), ip("10.0.0.0"), []byte{8, 1}, be32(0), ip("192.0.2.1"), be16(64500), be16(len(cat(originIGP(), path2(64500, 23456), as4Path(4200000000), nextHop4("192.0.2.9")))),
				originIGP(), path2(64500, 23456), as4Path(4200000000), nextHop4("192.0.2.9"))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}}, nil, 0},
		{"TABLE_DUMP of IPv6 and with 4-byte AS numbers",
			cat(makeRecord(typeTableDump, 2, be32(0), ip("2001:db8:1::"), []byte{48, 1}, be32(0), ip("2001:db8::1"), be16(64500), be16(len(cat(path2(64500), mpFull))), path2(64500), mpFull),
				makeRecord(typeTableDump, 4, be32(0), ip("2001:db8:1::"), []byte{48, 1}, be32(0), ip("2001:db8::1"), be32(4200000000), be16(len(path4(1))), path4(1))),
			tables{"f 2001:db8::1 AS64500": {nlri("2001:db8:1::/48"): {NextHop: hop6, ASPath: sequence(64500)}},
				"f 2001:db8::1 AS4200000000": {nlri("2001:db8:1::/48"): {ASPath: sequence(1)}}}, nil, 0},
		{"TABLE_DUMP cut short or with a bad length",
			cat(makeRecord(typeTableDump, 1, be32(0), ip("10.0.0.0")), makeRecord(typeTableDump, 1, be32(0), ip("10.0.0.0"), []byte{33, 1}, be32(0), ip("192.0.2.1"), be16(64500), be16(0)), makeRecord(typeTableDump, 9)),
			tables{}, map[problems.Kind]int{KindRecord: 3}, 0},
		{"BGP4MP announces and withdraws",
			cat(bgp4mpRecord(4, 4, announce4), bgp4mpRecord(4, 4, updateMessage(nlriBytes("10.1.0.0/16"), nil, nil))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}}, nil, 0},
		{"BGP4MP with 2-byte AS numbers merges AS4_PATH",
			bgp4mpRecord(1, 2, updateMessage(nil, cat(originIGP(), path2(64500, 23456), as4Path(4200000000), nextHop4("192.0.2.9")), nlriBytes("10.0.0.0/8"))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): want4}}, nil, 0},
		{"an AGGREGATOR that is not AS_TRANS makes AS4_PATH stale",
			bgp4mpRecord(1, 2, updateMessage(nil, cat(originIGP(), path2(64500, 64501), attribute(0xc0, 7, be16(64501), ip("192.0.2.7")), attribute(0xc0, 18, be32(4200000000), ip("192.0.2.7")), as4Path(4200000000), nextHop4("192.0.2.9")), nlriBytes("10.0.0.0/8"))),
			tables{"f 192.0.2.1 AS64500": {nlri("10.0.0.0/8"): {NextHop: hop, ASPath: sequence(64500, 64501)}}}, nil, 0},
		{"BGP4MP_ET carries microseconds",
			makeRecord(typeBGP4MPET, 4, be32(999999), be32(64500), be32(64999), be16(0), be16(1), ip("192.0.2.1"), ip("192.0.2.254"), announce4),
			tables{"f 192.0.2.1 AS64500": both}, nil, 0},
		{"BGP4MP of IPv6 routes from an IPv6 peer",
			cat(makeRecord(typeBGP4MP, 4, be32(64500), be32(64999), be16(0), be16(2), ip("2001:db8::1"), ip("2001:db8::2"),
				updateMessage(nil, cat(common6, mpFull), nlriBytes("10.0.0.0/8"))),
				makeRecord(typeBGP4MP, 4, be32(64500), be32(64999), be16(0), be16(2), ip("2001:db8::1"), ip("2001:db8::2"), updateMessage(nil, cat(common6, mpFull, nextHop4("192.0.2.9")), nlriBytes("10.0.0.0/8"))),
				makeRecord(typeBGP4MP, 4, be32(64500), be32(64999), be16(0), be16(2), ip("2001:db8::1"), ip("2001:db8::2"), updateMessage(nil, attribute(0x80, 15, be16(2), []byte{1}, nlriBytes("2001:db8:9::/48")), nil))),
			tables{"f 2001:db8::1 AS64500": {nlri("10.0.0.0/8"): want4, nlri("2001:db8:1::/48"): want6}}, map[problems.Kind]int{KindAttributes: 1}, 0},
		{"BGP4MP with ADD-PATH",
			cat(bgp4mpRecord(9, 4, updateMessage(nil, attrs, cat(be32(5), nlriBytes("10.0.0.0/8"), be32(6), nlriBytes("10.0.0.0/8")))),
				bgp4mpRecord(9, 4, updateMessage(cat(be32(5), nlriBytes("10.0.0.0/8")), nil, nil))),
			tables{"f 192.0.2.1 AS64500": {pathID(6, "10.0.0.0/8"): want4}}, nil, 0},
		{"an UPDATE with bad attributes withdraws its routes",
			cat(bgp4mpRecord(4, 4, announce4), bgp4mpRecord(4, 4, updateMessage(nil, cat(attribute(0x40, 1, []byte{0, 0}), path4(1), nextHop4("192.0.2.9")), nlriBytes("10.1.0.0/16"))),
				bgp4mpRecord(4, 4, updateMessage(nil, path4(1), nlriBytes("10.0.0.0/8")))),
			tables{"f 192.0.2.1 AS64500": {}}, map[problems.Kind]int{KindAttributes: 2}, 0},
		{"an UPDATE that cannot be taken apart costs itself",
			cat(bgp4mpRecord(4, 4, announce4), bgp4mpRecord(4, 4, updateMessage([]byte{33, 1, 2, 3, 4, 5}, nil, nil)), bgp4mpRecord(4, 4, cat(bytes.Repeat([]byte{0xff}, 16), be16(5), []byte{2}))),
			tables{"f 192.0.2.1 AS64500": both}, map[problems.Kind]int{KindRecord: 2}, 0},
		{"leaving Established withdraws all, coming back starts anew",
			cat(bgp4mpRecord(4, 4, announce4), bgp4mpRecord(5, 4, cat(be16(6), be16(1))), bgp4mpRecord(5, 4, cat(be16(5), be16(6))), bgp4mpRecord(4, 4, updateMessage(nil, attrs, nlriBytes("11.0.0.0/8")))),
			tables{"f 192.0.2.1 AS64500": {nlri("11.0.0.0/8"): want4}}, nil, 0},
		{"a state change with 2-byte AS numbers",
			cat(bgp4mpRecord(1, 2, updateMessage(nil, cat(originIGP(), path2(1), nextHop4("192.0.2.9")), nlriBytes("10.0.0.0/8"))), bgp4mpRecord(0, 2, cat(be16(6), be16(1)))),
			tables{"f 192.0.2.1 AS64500": {}}, nil, 0},
		{"what holds no received unicast routes is ignored",
			cat(bgp4mpRecord(7, 4, announce4), bgp4mpRecord(4, 4, cat(bytes.Repeat([]byte{0xff}, 16), be16(19), []byte{4})), makeRecord(typeTableDumpV2, 3, be32(0)), makeRecord(typeTableDumpV2, 7), makeRecord(11, 0), makeRecord(48, 0)),
			tables{"f 192.0.2.1 AS64500": {}}, nil, 6},
		{"unknown types and subtypes",
			cat(makeRecord(99, 0), makeRecord(typeTableDumpV2, 99), makeRecord(typeBGP4MP, 99), makeRecord(typeBGP4MPET, 4, []byte{1})),
			tables{}, map[problems.Kind]int{KindType: 1, KindRecord: 3}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, res, log, err := loadBytes(t, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			compareTables(t, got, tt.want)
			if want := tt.problems; !maps.Equal(log.Counts(), want) {
				t.Errorf("problems %v (%v), want %v", log.Counts(), log.First(), want)
			}
			if res.Ignored != tt.ignored {
				t.Errorf("%d records ignored, want %d", res.Ignored, tt.ignored)
			}
		})
	}
}

func compareTables(t *testing.T, got, want tables) {
	t.Helper()
	for name, table := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("peer %q is missing", name)
		}
		for n, attrs := range table {
			if a, ok := got[name][n]; !ok {
				t.Errorf("%s: %v is missing", name, n)
			} else if a != attrs {
				t.Errorf("%s: %v\n got %+v\nwant %+v", name, n, a, attrs)
			}
		}
	}
	for name, table := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("peer %q is too much", name)
		}
		for n := range table {
			if _, ok := want[name][n]; !ok {
				t.Errorf("%s: %v is too much", name, n)
			}
		}
	}
}

// TestCutAnywhere cuts a file at every byte: what whole records hold is kept, and the break is
// told with its place.
func TestCutAnywhere(t *testing.T) {
	attrs := cat(originIGP(), path4(64500), nextHop4("192.0.2.9"))
	records := [][]byte{
		peerTable("192.0.2.1"), ribRecord(2, "10.0.0.0/8", ribEntry(0, attrs)), ribRecord(2, "11.0.0.0/8", ribEntry(0, attrs)),
		bgp4mpRecord(4, 4, updateMessage(nil, attrs, nlriBytes("12.0.0.0/8"))),
	}
	file := cat(records...)
	routesAfter := []int{0, 0, 1, 2, 3} // after that many whole records
	start, whole := 0, 0
	for cut := range len(file) + 1 {
		if whole < len(records) && cut == start+len(records[whole]) {
			start, whole = cut, whole+1
		}
		got, res, _, err := loadBytes(t, file[:cut])
		if routes := len(got["f 192.0.2.1 AS64500"]); routes != routesAfter[whole] || res.Records != whole {
			t.Errorf("cut at %d: %d routes of %d records, want %d of %d", cut, routes, res.Records, routesAfter[whole], whole)
		}
		var broken *BrokenError
		switch {
		case cut == start && err != nil:
			t.Errorf("cut at %d, between records: %v", cut, err)
		case cut != start && (!errors.As(err, &broken) || broken.Offset != int64(start) || broken.Record != whole+1 || !errors.Is(err, io.ErrUnexpectedEOF)):
			t.Errorf("cut at %d: error %v, want a break in record %d at byte %d", cut, err, whole+1, start)
		}
	}
}

func TestRecordThatClaimsTooMuchIsABreak(t *testing.T) {
	file := cat(peerTable("192.0.2.1"), be32(0), be16(13), be16(2), be32(MaxRecord+1))
	_, res, _, err := loadBytes(t, file)
	var broken *BrokenError
	if !errors.As(err, &broken) || broken.Record != 2 || res.Records != 1 || !strings.Contains(err.Error(), "claims 16777217 bytes") {
		t.Errorf("error %v after %d records", err, res.Records)
	}
}

func TestContextEndsLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := rib.New(rib.Options{})
	attrs := cat(originIGP(), path4(64500), nextHop4("192.0.2.9"))
	head := cat(peerTable("192.0.2.1"), ribRecord(2, "10.0.0.0/8", ribEntry(0, attrs)))
	endless := io.MultiReader(bytes.NewReader(head), readerFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, makeRecord(11, 0)), nil
	}))
	_, err := Load(ctx, r, endless, Options{Name: "f", Awaited: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := r.Pending(); len(got) != 0 {
		t.Errorf("still awaited: %v", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTakenNameEndsLoad(t *testing.T) {
	r := rib.New(rib.Options{})
	for i, wantErr := range []bool{false, true} {
		_, err := Load(context.Background(), r, bytes.NewReader(peerTable("192.0.2.1")), Options{Name: "f"})
		if (err != nil) != wantErr {
			t.Errorf("load %d: error %v", i+1, err)
		}
	}
}

// TestGeneratedDumpComesBack writes a table as MRT through the codec's encoder and loads it.
func TestGeneratedDumpComesBack(t *testing.T) {
	const seed, peers = 11, 3
	table := fixtures.Generate(seed, 3000, 1500)
	var file bytes.Buffer
	if err := fixtures.WriteMRT(&file, table, peers); err != nil {
		t.Fatal(err)
	}
	got, res, log, err := loadBytes(t, file.Bytes())
	if err != nil || log.Total() != 0 {
		t.Fatalf("seed %d: %v, problems %v", seed, err, log.First())
	}
	if res.Announced != peers*len(table.Routes) || len(res.Peers) != peers {
		t.Fatalf("seed %d: %d routes of %d peers", seed, res.Announced, len(res.Peers))
	}
	want := make(map[rib.NLRI]rib.Attrs)
	for _, r := range table.Routes {
		want[rib.NLRI{Prefix: r.Prefix}] = table.Attrs[r.Attrs]
	}
	if !maps.Equal(got["f 192.0.2.1 AS64500"], want) {
		t.Errorf("seed %d: peer 0 does not hold the table", seed)
	}
	for n, a := range got["f 192.0.2.3 AS64502"] {
		w := want[n]
		w.ASPath = a.ASPath
		if a != w || !strings.HasPrefix(string(a.ASPath[2:]), "\x00\x00\xfb\xf6") || a.ASPath[6:] != want[n].ASPath[6:] {
			t.Fatalf("seed %d: peer 2 has %+v for %v", seed, a, n)
		}
	}
}
