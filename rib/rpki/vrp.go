package rpki

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/ribwarp/ribwarp/lpm"
)

// A VRP is a validated ROA payload (RFC 6811, 2): the AS may announce the prefix and what is in
// it, up to a length.
type VRP struct {
	Prefix netip.Prefix
	MaxLen uint8  // at least the prefix's own length
	ASN    uint32 // 0: nobody may (RFC 6483, 4)
}

// String is "10.0.0.0/8-24 AS64500", without the longest length where it is the prefix's own.
func (v VRP) String() string {
	if int(v.MaxLen) == v.Prefix.Bits() {
		return fmt.Sprintf("%s AS%d", v.Prefix, v.ASN)
	}
	return fmt.Sprintf("%s-%d AS%d", v.Prefix, v.MaxLen, v.ASN)
}

// check says what is wrong with a VRP.
func (v VRP) check() error {
	switch {
	case !v.Prefix.IsValid():
		return fmt.Errorf("%s: no prefix", v.Prefix)
	case v.Prefix.Addr().Is4In6():
		return fmt.Errorf("prefix %s is an IPv4 one in IPv6's form", v.Prefix)
	case v.Prefix != v.Prefix.Masked():
		return fmt.Errorf("prefix %s has host bits: %s would be one", v.Prefix, v.Prefix.Masked())
	case int(v.MaxLen) < v.Prefix.Bits():
		return fmt.Errorf("maximum length %d is less than that of prefix %s", v.MaxLen, v.Prefix)
	case int(v.MaxLen) > v.Prefix.Addr().BitLen():
		return fmt.Errorf("maximum length %d is more than the %d bits of prefix %s", v.MaxLen, v.Prefix.Addr().BitLen(), v.Prefix)
	}
	return nil
}

// mapped is by how much lengths of IPv4 prefixes are longer in a record.
const mapped = 96

// A record is a VRP in a Table: 32 bytes without a pointer. IPv4 is in its IPv6-mapped form, the
// lengths too, so that both families are one code.
type record struct {
	addr      lpm.Addr6
	asn       uint32
	bits, max uint8
	// Where the record is in its family: the records with its prefix start at first, and those
	// with the next shorter prefix around it end before up, which is 0 where there is none.
	first, up uint32
}

// recordOf packs a VRP that was checked.
func recordOf(v VRP) (r record, v6 bool) {
	r = record{asn: v.ASN, max: v.MaxLen}
	r.addr, r.bits, v6 = packed(v.Prefix)
	if !v6 {
		r.max += mapped
	}
	return r, v6
}

// packed gives a prefix as a record has it.
func packed(p netip.Prefix) (addr lpm.Addr6, bits uint8, v6 bool) {
	if p.Addr().Is4() {
		return lpm.Addr16(p.Addr()), uint8(p.Bits()) + mapped, false
	}
	return lpm.Addr16(p.Addr()), uint8(p.Bits()), true
}

// vrp is the inverse of recordOf.
func (r *record) vrp(v6 bool) VRP {
	if v6 {
		return VRP{Prefix: netip.PrefixFrom(r.addr.Netip(), int(r.bits)), MaxLen: r.max, ASN: r.asn}
	}
	return VRP{Prefix: netip.PrefixFrom(r.addr.Netip().Unmap(), int(r.bits-mapped)), MaxLen: r.max - mapped, ASN: r.asn}
}

// covers tells whether a prefix is the record's, or in it.
func (r *record) covers(addr lpm.Addr6, bits uint8) bool {
	// Shifts by 64 and more give 0 in Go, so that no length is a special case.
	hi, lo := r.addr.Hi^addr.Hi, r.addr.Lo^addr.Lo
	if r.bits <= 64 {
		return r.bits <= bits && hi>>(64-r.bits) == 0
	}
	return r.bits <= bits && hi == 0 && lo>>(128-r.bits) == 0
}

// comparePrefix orders records by address and length: an enclosing prefix is in front.
func comparePrefix(a, b record) int {
	if c := a.addr.Compare(b.addr); c != 0 {
		return c
	}
	return cmp.Compare(a.bits, b.bits)
}

// compare orders records of one prefix by AS and maximum length. It is 0 for one VRP.
func compare(a, b record) int {
	if c := comparePrefix(a, b); c != 0 {
		return c
	}
	if c := cmp.Compare(a.asn, b.asn); c != 0 {
		return c
	}
	return cmp.Compare(a.max, b.max)
}

func same(a, b record) bool { return compare(a, b) == 0 }
