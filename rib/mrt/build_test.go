package mrt

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// Records for tests, put together by hand from RFC 6396 so that neither our decoder nor a
// codec's encoder is its own judge.

func be16(v int) []byte    { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
func be32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func makeRecord(kind, subtype int, body ...[]byte) []byte {
	b := cat(body...)
	return cat(be32(1767225600), be16(kind), be16(subtype), be32(uint32(len(b))), b)
}

func ip(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

// nlriBytes is a prefix as messages and RIB records hold it.
func nlriBytes(s string) []byte {
	p := netip.MustParsePrefix(s)
	return append([]byte{byte(p.Bits())}, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
}

func attribute(flags, kind byte, value ...[]byte) []byte {
	v := cat(value...)
	if flags&0x10 != 0 {
		return cat([]byte{flags, kind}, be16(len(v)), v)
	}
	return cat([]byte{flags, kind, byte(len(v))}, v)
}

func originIGP() []byte             { return attribute(0x40, 1, []byte{0}) }
func nextHop4(hop string) []byte    { return attribute(0x40, 3, ip(hop)) }
func path4(asns ...uint32) []byte   { return attribute(0x50, 2, segment(2, 4, asns...)) }
func path2(asns ...uint32) []byte   { return attribute(0x40, 2, segment(2, 2, asns...)) }
func as4Path(asns ...uint32) []byte { return attribute(0xc0, 17, segment(2, 4, asns...)) }

func segment(kind byte, width int, asns ...uint32) []byte {
	b := []byte{kind, byte(len(asns))}
	for _, as := range asns {
		b = append(b, be32(as)[4-width:]...)
	}
	return b
}

// peerTable is a PEER_INDEX_TABLE of IPv4 peers with 4-byte AS numbers 64500, 64501, ...
func peerTable(peers ...string) []byte {
	body := cat(ip("192.0.2.254"), be16(4), []byte("view"), be16(len(peers)))
	for i, p := range peers {
		body = cat(body, []byte{2}, ip(p), ip(p), be32(64500+uint32(i)))
	}
	return makeRecord(typeTableDumpV2, 1, body)
}

// ribEntry is a route of a peer in a RIB record without ADD-PATH.
func ribEntry(peer int, attrs ...[]byte) []byte {
	a := cat(attrs...)
	return cat(be16(peer), be32(0), be16(len(a)), a)
}

func ribRecord(subtype int, prefix string, entries ...[]byte) []byte {
	return makeRecord(typeTableDumpV2, subtype, be32(0), nlriBytes(prefix), be16(len(entries)), cat(entries...))
}

// updateMessage is a whole BGP UPDATE.
func updateMessage(withdrawn, attrs, reach []byte) []byte {
	body := cat(be16(len(withdrawn)), withdrawn, be16(len(attrs)), attrs, reach)
	return cat(bytes.Repeat([]byte{0xff}, 16), be16(19+len(body)), []byte{2}, body)
}

// bgp4mpRecord is a BGP4MP record of the peer 192.0.2.1; its AS is 64500 in 2 or 4 bytes.
func bgp4mpRecord(subtype, width int, rest []byte) []byte {
	return makeRecord(typeBGP4MP, subtype, be32(64500)[4-width:], be32(64999)[4-width:], be16(0), be16(1), ip("192.0.2.1"), ip("192.0.2.254"), rest)
}

// loadBytes loads a file held in memory into a new RIB.
func loadBytes(t testing.TB, b []byte) (map[string]map[rib.NLRI]rib.Attrs, Result, *problems.Log, error) {
	t.Helper()
	r, log := rib.New(rib.Options{}), problems.NewLog(0)
	res, err := Load(context.Background(), r, bytes.NewReader(b), Options{Name: "f", Log: log})
	tables := make(map[string]map[rib.NLRI]rib.Attrs)
	for _, p := range res.Peers {
		table := make(map[rib.NLRI]rib.Attrs)
		for n, path := range p.Routes() {
			table[n] = path.Value()
		}
		tables[p.Name()] = table
	}
	if got := r.Pending(); len(got) != 0 {
		t.Errorf("peers still awaited after the load: %v", got)
	}
	return tables, res, log, err
}

func nlri(prefix string) rib.NLRI { return rib.NLRI{Prefix: netip.MustParsePrefix(prefix)} }

func sequence(asns ...uint32) rib.ASPath {
	return rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})
}
