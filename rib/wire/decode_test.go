package wire

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
)

// attrs are those of asPath, origin and a next hop.
func attrs(hop string) rib.Attrs {
	return rib.Attrs{NextHop: netip.MustParseAddr(hop), ASPath: rib.ASPath(sequence(64500, 64501))}
}

func TestDecodeSplitsByNextHop(t *testing.T) {
	base := [][]byte{origin, asPath, nextHop}
	for _, c := range []struct {
		name string
		opt  Options
		body []byte
		want []rib.Update
		eor  Family
	}{
		{name: "IPv4", body: update(nil, base, slices.Concat(net10, net24)),
			want: []rib.Update{{Reach: nlris("10.0.0.0/8", "10.1.2.0/24"), Attrs: attrs("192.0.2.1")}}},
		{name: "withdrawal without attributes", body: update(net24, nil, nil),
			want: []rib.Update{{Unreach: nlris("10.1.2.0/24")}}},
		{name: "withdrawal of both families", body: update(net24, [][]byte{unreach6(netDoc...)}, nil),
			want: []rib.Update{{Unreach: nlris("10.1.2.0/24", "2001:db8::/32")}}},
		{name: "IPv6", body: update(nil, [][]byte{origin, asPath, reach6(global, netDoc...)}, nil),
			want: []rib.Update{{Reach: nlris("2001:db8::/32"), Attrs: attrs("2001:db8::1")}}},
		{name: "IPv6, MP_REACH_NLRI first", body: update(nil, [][]byte{reach6(global, netDoc...), origin, asPath}, nil),
			want: []rib.Update{{Reach: nlris("2001:db8::/32"), Attrs: attrs("2001:db8::1")}}},
		{name: "the global one of two next hops", body: update(nil, [][]byte{origin, asPath, reach6(slices.Concat(global, linkLocal), netDoc...)}, nil),
			want: []rib.Update{{Reach: nlris("2001:db8::/32"), Attrs: attrs("2001:db8::1")}}},
		{name: "a link-local next hop where there is no other", body: update(nil, [][]byte{origin, asPath, reach6(slices.Concat(make([]byte, 16), linkLocal), netDoc...)}, nil),
			want: []rib.Update{{Reach: nlris("2001:db8::/32"), Attrs: attrs("fe80::1")}}},
		{name: "both families, two updates", body: update(net24, [][]byte{origin, asPath, nextHop, unreach6(netDoc48...), reach6(global, netDoc...)}, net10),
			want: []rib.Update{
				{Unreach: nlris("10.1.2.0/24", "2001:db8:1::/48"), Reach: nlris("10.0.0.0/8"), Attrs: attrs("192.0.2.1")},
				{Reach: nlris("2001:db8::/32"), Attrs: attrs("2001:db8::1")}}},
		{name: "IPv4 with an IPv6 next hop (RFC 8950)", body: update(nil, [][]byte{origin, asPath,
			attr(optional, 14, slices.Concat([]byte{0, 1, 1, 16}, global, []byte{0}, net10)...)}, nil),
			want: []rib.Update{{Reach: nlris("10.0.0.0/8"), Attrs: attrs("2001:db8::1")}}},
		{name: "the same next hop in both fields", body: update(nil, [][]byte{origin, asPath, nextHop,
			attr(optional, 14, slices.Concat([]byte{0, 1, 1, 4, 192, 0, 2, 1, 0}, net24)...)}, net10),
			want: []rib.Update{{Reach: nlris("10.0.0.0/8", "10.1.2.0/24"), Attrs: attrs("192.0.2.1")}}},
		{name: "host bits", body: update([]byte{9, 10, 255}, base, []byte{20, 10, 1, 255, 0}),
			want: []rib.Update{{Unreach: nlris("10.128.0.0/9"), Reach: nlris("10.1.240.0/20", "0.0.0.0/0"), Attrs: attrs("192.0.2.1")}}},
		{name: "host bits in IPv6", body: update(nil, [][]byte{origin, asPath, reach6(global, 33, 0x20, 1, 0xd, 0xb8, 0xff)}, nil),
			want: []rib.Update{{Reach: nlris("2001:db8:8000::/33"), Attrs: attrs("2001:db8::1")}}},
		{name: "ADD-PATH", opt: Options{AddPath4: true, AddPath6: true},
			body: update(append([]byte{0, 0, 0, 7}, net24...), [][]byte{origin, asPath, nextHop, reach6(global, append([]byte{1, 2, 3, 4}, netDoc...)...)}, append([]byte{0, 0, 0, 9}, net10...)),
			want: []rib.Update{
				{Unreach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.1.2.0/24"), PathID: 7}}, Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), PathID: 9}}, Attrs: attrs("192.0.2.1")},
				{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("2001:db8::/32"), PathID: 0x01020304}}, Attrs: attrs("2001:db8::1")}}},
		{name: "ADD-PATH in one family", opt: Options{AddPath6: true}, body: update(nil, [][]byte{origin, asPath, nextHop, reach6(global, append([]byte{0, 0, 0, 5}, netDoc...)...)}, net10),
			want: []rib.Update{
				{Reach: nlris("10.0.0.0/8"), Attrs: attrs("192.0.2.1")},
				{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("2001:db8::/32"), PathID: 5}}, Attrs: attrs("2001:db8::1")}}},
		{name: "End-of-RIB of IPv4", body: update(nil, nil, nil), eor: IPv4},
		{name: "End-of-RIB of IPv6", body: update(nil, [][]byte{unreach6()}, nil), eor: IPv6},
		{name: "other families are passed over", body: update(nil, [][]byte{origin, asPath, attr(optional, 14, 0, 25, 70, 0, 0)}, nil)},
		{name: "End-of-RIB of another family", body: update(nil, [][]byte{attr(optional, 15, 0, 2, 128)}, nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode(c.body, c.opt)
			if err != nil || m.Damage != nil {
				t.Fatalf("error %v, damage %v", err, m.Damage)
			}
			if m.EndOfRIB != c.eor {
				t.Errorf("End-of-RIB of family %d, want %d", m.EndOfRIB, c.eor)
			}
			compare(t, m.Updates, c.want)
		})
	}
}

func compare(t *testing.T, got, want []rib.Update) {
	t.Helper()
	if !same(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func same(got, want []rib.Update) bool {
	return slices.EqualFunc(got, want, func(a, b rib.Update) bool {
		return slices.Equal(a.Unreach, b.Unreach) && slices.Equal(a.Reach, b.Reach) && (len(b.Reach) == 0 || a.Attrs == b.Attrs)
	})
}

func TestDecodeKeepsAttributes(t *testing.T) {
	body := update(nil, [][]byte{
		attr(wellKnown, 1, 2), asPath, nextHop,
		attr(optional, 4, 0, 0, 1, 0), attr(wellKnown, 5, 0, 0, 0, 200),
		attr(wellKnown, 6), attr(transitive, 7, 0, 0, 0xfb, 0xf4, 192, 0, 2, 9),
		attr(transitive, 8, 0xfb, 0xf4, 0, 100, 0xff, 0xff, 0xff, 1), attr(optional, 9, 192, 0, 2, 7), attr(optional, 10, 1, 1, 1, 1, 2, 2, 2, 2),
		attr(transitive, 16, 0, 2, 0xfb, 0xf4, 0, 0, 0, 1, 0x80, 6, 0, 0, 0, 0, 0, 0), attr(transitive, 32, 0, 0, 0xfb, 0xf4, 0, 0, 0, 1, 0, 0, 0, 2),
		attr(transitive, 35, 0, 0, 0xfb, 0xf4), attr(transitive, 99, 1, 2, 3),
	}, net10)
	want := rib.Attrs{
		NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.ASPath(sequence(64500, 64501)), Origin: rib.OriginIncomplete,
		MED: 256, HasMED: true, LocalPref: 200, HasLocalPref: true,
		Communities: "\xfb\xf4\x00\x64\xff\xff\xff\x01", LargeCommunities: "\x00\x00\xfb\xf4\x00\x00\x00\x01\x00\x00\x00\x02",
		ExtCommunities: "\x00\x02\xfb\xf4\x00\x00\x00\x01\x80\x06\x00\x00\x00\x00\x00\x00",
		OriginatorID:   rib.RouterID{192, 0, 2, 7}, ClusterListLen: 2,
		OTC: 64500, HasOTC: true,
	}
	m, err := Decode(body, Options{})
	if err != nil || m.Damage != nil {
		t.Fatalf("error %v, damage %v", err, m.Damage)
	}
	compare(t, m.Updates, []rib.Update{{Reach: nlris("10.0.0.0/8"), Attrs: want}})

	want.LocalPref, want.HasLocalPref, want.OriginatorID, want.ClusterListLen = 0, false, rib.RouterID{}, 0
	if m, err = Decode(body, Options{External: true}); err != nil || m.Verdict() != AttributeDiscard {
		t.Fatalf("from another AS: error %v, damage %v", err, m.Damage)
	}
	compare(t, m.Updates, []rib.Update{{Reach: nlris("10.0.0.0/8"), Attrs: want}})
}

// TestVerdicts has the cases of RFC 7606. Withdrawn prefixes are withdrawn whatever the verdict
// but a reset, announced ones count as their verdict says.
func TestVerdicts(t *testing.T) {
	good := [][]byte{origin, asPath, nextHop}
	with := func(more ...[]byte) [][]byte { return append(slices.Clone(good), more...) }
	for _, c := range []struct {
		name    string
		opt     Options
		body    []byte
		want    Verdict
		subcode uint8
	}{
		{"sound", Options{}, update(net24, good, net10), OK, 0},
		{"ORIGIN missing", Options{}, update(net24, [][]byte{asPath, nextHop}, net10), TreatAsWithdraw, 3},
		{"AS_PATH missing", Options{}, update(net24, [][]byte{origin, nextHop}, net10), TreatAsWithdraw, 3},
		{"NEXT_HOP missing", Options{}, update(net24, [][]byte{origin, asPath}, net10), TreatAsWithdraw, 3},
		{"no attributes", Options{}, update(net24, nil, net10), TreatAsWithdraw, 3},
		{"ORIGIN of 3", Options{}, update(net24, [][]byte{attr(wellKnown, 1, 3), asPath, nextHop}, net10), TreatAsWithdraw, 6},
		{"ORIGIN of two bytes", Options{}, update(net24, [][]byte{attr(wellKnown, 1, 0, 0), asPath, nextHop}, net10), TreatAsWithdraw, 5},
		{"ORIGIN said to be optional", Options{}, update(net24, [][]byte{attr(transitive, 1, 0), asPath, nextHop}, net10), TreatAsWithdraw, 4},
		{"AS_PATH with an unknown segment", Options{}, update(net24, [][]byte{origin, attr(wellKnown, 2, 9, 1, 0, 0, 0, 1), nextHop}, net10), TreatAsWithdraw, 11},
		{"AS_PATH with an empty segment", Options{}, update(net24, [][]byte{origin, attr(wellKnown, 2, 2, 0), nextHop}, net10), TreatAsWithdraw, 11},
		{"AS_PATH that ends in a segment", Options{}, update(net24, [][]byte{origin, attr(wellKnown, 2, 2, 2, 0, 0, 0, 1), nextHop}, net10), TreatAsWithdraw, 11},
		{"AS_PATH of 2-byte numbers among 4-byte speakers", Options{}, update(net24, [][]byte{origin, attr(wellKnown, 2, sequence2(64500, 64501)...), nextHop}, net10), TreatAsWithdraw, 11},
		{"AS 0", Options{}, update(net24, [][]byte{origin, attr(wellKnown, 2, sequence(64500, 0)...), nextHop}, net10), TreatAsWithdraw, 11},
		{"NEXT_HOP of 16 bytes", Options{}, update(net24, [][]byte{origin, asPath, attr(wellKnown, 3, global...)}, net10), TreatAsWithdraw, 5},
		{"NEXT_HOP of 0.0.0.0", Options{}, update(net24, [][]byte{origin, asPath, attr(wellKnown, 3, 0, 0, 0, 0)}, net10), TreatAsWithdraw, 8},
		{"NEXT_HOP that is multicast", Options{}, update(net24, [][]byte{origin, asPath, attr(wellKnown, 3, 224, 0, 0, 1)}, net10), TreatAsWithdraw, 8},
		{"MED of 3 bytes", Options{}, update(net24, with(attr(optional, 4, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"LOCAL_PREF of 3 bytes, same AS", Options{}, update(net24, with(attr(wellKnown, 5, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"LOCAL_PREF of 3 bytes, another AS", Options{External: true}, update(net24, with(attr(wellKnown, 5, 0, 0, 0)), net10), AttributeDiscard, 9},
		{"AGGREGATOR of 3 bytes", Options{TwoByteAS: true}, update(net24, [][]byte{origin, attr(wellKnown, 2), nextHop, attr(transitive, 7, 0, 0, 0)}, net10), AttributeDiscard, 5},
		{"COMMUNITIES of 5 bytes", Options{}, update(net24, with(attr(transitive, 8, 0, 0, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"COMMUNITIES without any", Options{}, update(net24, with(attr(transitive, 8)), net10), TreatAsWithdraw, 5},
		{"EXTENDED_COMMUNITIES of 7 bytes", Options{}, update(net24, with(attr(transitive, 16, 0, 0, 0, 0, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"LARGE_COMMUNITY of 11 bytes", Options{}, update(net24, with(attr(transitive, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"ORIGINATOR_ID of 3 bytes", Options{}, update(net24, with(attr(optional, 9, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"CLUSTER_LIST without any", Options{}, update(net24, with(attr(optional, 10)), net10), TreatAsWithdraw, 5},
		{"OTC of 3 bytes", Options{}, update(net24, with(attr(transitive, 35, 0, 0, 0)), net10), TreatAsWithdraw, 5},
		{"OTC of 8 bytes", Options{}, update(net24, with(attr(transitive, 35, 0, 0, 0, 1, 0, 0, 0, 2)), net10), TreatAsWithdraw, 5},
		{"OTC without a value", Options{External: true}, update(net24, with(attr(transitive, 35)), net10), TreatAsWithdraw, 5},
		{"OTC that is not transitive", Options{}, update(net24, with(attr(optional, 35, 0, 0, 0, 1)), net10), TreatAsWithdraw, 4},
		{"OTC said to be well-known", Options{}, update(net24, with(attr(wellKnown, 35, 0, 0, 0, 1)), net10), TreatAsWithdraw, 4},
		{"OTC twice", Options{}, update(net24, with(attr(transitive, 35, 0, 0, 0, 1), attr(transitive, 35, 0, 0, 0, 2)), net10), AttributeDiscard, 1},
		{"ORIGIN twice", Options{}, update(net24, with(origin), net10), AttributeDiscard, 1},
		{"AS4_PATH cut short", Options{TwoByteAS: true}, update(net24, [][]byte{origin, attr(wellKnown, 2), nextHop, attr(transitive, 17, 2, 1, 0)}, net10), AttributeDiscard, 11},
		{"attribute longer than all of them", Options{}, update(net24, with([]byte{transitive, 8, 200, 0}), net10), TreatAsWithdraw, 5},
		{"attributes end in a header", Options{}, update(net24, with([]byte{transitive, 8}), net10), TreatAsWithdraw, 1},
		{"damage without announced prefixes", Options{}, update(net24, with(attr(optional, 4, 0)), nil), SessionReset, 5},
		{"discard without announced prefixes", Options{}, update(net24, with(origin), nil), AttributeDiscard, 1},
		{"unknown attribute, optional", Options{}, update(net24, with(attr(transitive, 250, 1)), net10), OK, 0},
		{"unknown attribute, well-known", Options{}, update(net24, with(attr(wellKnown, 250, 1)), net10), SessionReset, 2},
		{"MP_REACH_NLRI twice", Options{}, update(net24, with(reach6(global, netDoc...), reach6(global, netDoc...)), net10), SessionReset, 1},
		{"MP_REACH_NLRI with a next hop of 5 bytes", Options{}, update(net24, with(reach6(global[:5], netDoc...)), net10), SessionReset, 9},
		{"MP_REACH_NLRI of IPv6 with an IPv4 next hop", Options{}, update(net24, with(reach6([]byte{192, 0, 2, 1}, netDoc...)), net10), SessionReset, 9},
		{"MP_REACH_NLRI without a next hop", Options{}, update(net24, with(reach6(nil, netDoc...)), net10), SessionReset, 9},
		{"MP_REACH_NLRI with a prefix of 129 bits", Options{}, update(net24, with(reach6(global, append([]byte{129}, make([]byte, 17)...)...)), net10), SessionReset, 9},
		{"MP_REACH_NLRI with a prefix cut short", Options{}, update(net24, with(reach6(global, 48, 1)), net10), SessionReset, 9},
		{"MP_REACH_NLRI of a family that is not kept, cut to 4 bytes", Options{}, update(net24, with(attr(optional, 14, 0, 25, 70, 0)), net10), SessionReset, 9},
		{"MP_REACH_NLRI cut to 2 bytes", Options{}, update(net24, with(attr(optional, 14, 0, 2)), net10), SessionReset, 9},
		{"MP_UNREACH_NLRI with a prefix of 129 bits", Options{}, update(net24, with(unreach6(append([]byte{129}, make([]byte, 17)...)...)), net10), SessionReset, 9},
		{"ADD-PATH prefix without its identifier", Options{AddPath4: true}, update(nil, good, net10), SessionReset, 10},
		{"prefix of 33 bits", Options{}, update(net24, good, []byte{33, 10, 0, 0, 0, 0}), SessionReset, 10},
		{"prefix cut short", Options{}, update(net24, good, []byte{24, 10}), SessionReset, 10},
		{"withdrawn prefix of 33 bits", Options{}, update([]byte{33, 10, 0, 0, 0, 0}, good, net10), SessionReset, 10},
		{"withdrawn routes longer than the message", Options{}, []byte{0, 9, 0, 0}, SessionReset, 1},
		{"attributes longer than the message", Options{}, []byte{0, 0, 0, 9, 0}, SessionReset, 1},
		{"empty", Options{}, nil, SessionReset, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode(c.body, c.opt)
			if m.Verdict() != c.want {
				t.Fatalf("verdict %v (%v), want %v", m.Verdict(), m.Damage, c.want)
			}
			if m.Panic != nil {
				t.Errorf("panicked: %v", m.Panic)
			}
			var d *Damage
			if c.want == SessionReset != errors.As(err, &d) {
				t.Errorf("error %v", err)
			}
			if c.want != OK && (m.Damage.Subcode != c.subcode || m.Damage.Code != 3 || m.Damage.Reason == "") {
				t.Errorf("damage %+v, want subcode %d", m.Damage, c.subcode)
			}
			switch c.want {
			case TreatAsWithdraw:
				compare(t, m.Updates, []rib.Update{{Unreach: nlris("10.1.2.0/24", "10.0.0.0/8")}})
			case SessionReset:
				if len(m.Updates) > 0 {
					t.Errorf("a reset came with updates: %+v", m.Updates)
				}
			}
		})
	}
}

func TestTreatAsWithdrawTakesBothFamilies(t *testing.T) {
	m, err := Decode(update(nil, [][]byte{origin, nextHop, reach6(global, netDoc...)}, net10), Options{})
	if err != nil || m.Verdict() != TreatAsWithdraw {
		t.Fatalf("error %v, verdict %v", err, m.Verdict())
	}
	compare(t, m.Updates, []rib.Update{{Unreach: nlris("10.0.0.0/8", "2001:db8::/32")}})
}

// TestBytesThatBreakTheCodec has messages that make gobgp's decoder of whole messages panic or
// go wrong.
func TestBytesThatBreakTheCodec(t *testing.T) {
	panics := func(body []byte) (p any) {
		defer func() { p = recover() }()
		_ = (&bgp.BGPUpdate{}).DecodeFromBytes(body)
		return nil
	}
	for _, c := range []struct {
		name   string
		body   []byte
		want   Verdict
		breaks bool
	}{
		{"PREFIX_SID with an unknown sub-TLV", update(nil, [][]byte{origin, asPath, nextHop, attr(transitive, 40, 5, 0, 5, 0, 9, 0, 1, 7)}, net10), OK, true},
		{"MP_REACH_NLRI cut to 3 bytes", update(nil, [][]byte{origin, asPath, nextHop, attr(optional, 14, 0, 2, 1)}, net10), SessionReset, true},
		{"AS4_PATH before AS_PATH", update(nil, [][]byte{origin, attr(transitive, 17, sequence(64500)...), asPath, nextHop}, net10), AttributeDiscard, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := panics(c.body); (p != nil) != c.breaks {
				t.Errorf("the codec's own panic: %v", p)
			}
			m, err := Decode(c.body, Options{})
			if m.Verdict() != c.want {
				t.Fatalf("verdict %v, error %v", m.Verdict(), err)
			}
			if c.want < TreatAsWithdraw {
				compare(t, m.Updates, []rib.Update{{Reach: nlris("10.0.0.0/8"), Attrs: attrs("192.0.2.1")}})
			} else if m.Panic == nil || !strings.Contains(err.Error(), "panicked") {
				t.Errorf("the panic is not reported: %v, %v", m.Panic, err)
			}
		})
	}
}

func TestDumpedNextHop(t *testing.T) {
	for _, c := range []struct {
		name string
		mp   []byte
	}{
		{"only the next hop", attr(optional, 14, append([]byte{16}, global...)...)},
		{"two next hops", attr(optional, 14, slices.Concat([]byte{32}, global, linkLocal)...)},
		{"the whole attribute", reach6(global, netDoc...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			as, err := NewDecoder(Options{Dumped: IPv6}).Attributes(slices.Concat(origin, asPath, c.mp))
			if err != nil {
				t.Fatal(err)
			}
			if as.Reach.NextHop != netip.MustParseAddr("2001:db8::1") || as.Reach.Family != IPv6 || !as.HasOrigin || !as.HasASPath {
				t.Errorf("got %+v", as)
			}
		})
	}
	if _, err := NewDecoder(Options{Dumped: IPv6}).Attributes(attr(optional, 14, 7, 1, 2)); err == nil {
		t.Error("a next hop of 7 bytes is taken")
	}
}

// TestRandomMessages writes random messages and reads them back, with one decoder for all of
// them, so that nothing of one may show up in the next.
func TestRandomMessages(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	opt := Options{AddPath4: seed&1 > 0, AddPath6: seed&2 > 0}
	d := NewDecoder(opt)
	list := func(v6 bool) (ns []rib.NLRI, b []byte) {
		for range r.IntN(20) {
			var n rib.NLRI
			add := opt.AddPath4
			if v6 {
				var a [16]byte
				binary.BigEndian.PutUint64(a[:], r.Uint64())
				binary.BigEndian.PutUint64(a[8:], r.Uint64())
				n.Prefix, add = netip.PrefixFrom(netip.AddrFrom16(a), r.IntN(129)), opt.AddPath6
			} else {
				var a [4]byte
				binary.BigEndian.PutUint32(a[:], r.Uint32())
				n.Prefix = netip.PrefixFrom(netip.AddrFrom4(a), r.IntN(33))
			}
			if add {
				n.PathID = r.Uint32()
			}
			b = append(b, encode(n, add)...)
			n.Prefix = n.Prefix.Masked()
			ns = append(ns, n)
		}
		return ns, b
	}
	for i := range 2000 {
		un4, unb4 := list(false)
		re4, reb4 := list(false)
		un6, unb6 := list(true)
		re6, reb6 := list(true)
		m, err := d.Decode(update(unb4, [][]byte{unreach6(unb6...), origin, asPath, nextHop, reach6(global, reb6...)}, reb4))
		if err != nil || m.Damage != nil {
			t.Fatalf("seed %d, message %d: %v %v", seed, i, err, m.Damage)
		}
		var gotUn, gotRe4, gotRe6 []rib.NLRI
		for _, u := range m.Updates {
			gotUn = append(gotUn, u.Unreach...)
			switch u.Attrs.NextHop {
			case netip.MustParseAddr("192.0.2.1"):
				gotRe4 = append(gotRe4, u.Reach...)
			default:
				gotRe6 = append(gotRe6, u.Reach...)
			}
		}
		if !slices.Equal(gotUn, slices.Concat(un4, un6)) || !slices.Equal(gotRe4, re4) || !slices.Equal(gotRe6, re6) {
			t.Fatalf("seed %d, message %d: got %+v, want withdrawn %v %v, announced %v %v", seed, i, m.Updates, un4, un6, re4, re6)
		}
	}
}
