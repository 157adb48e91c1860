package api

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// maxAddrText is longer than any address or prefix without a zone.
const maxAddrText = 64

// ParseAddr reads the address of a lookup. An IPv4-mapped IPv6 address gives the IPv4 address,
// which is where its route is. A zone is an error: routes have none, and an answer without it
// would be for another address.
func ParseAddr(s string) (netip.Addr, error) {
	switch {
	case s == "":
		return netip.Addr{}, errors.New("no address: it is empty")
	case len(s) > maxAddrText:
		return netip.Addr{}, fmt.Errorf("not an IP address: %d bytes are too long for one", len(s))
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if strings.Contains(s, "/") {
			return netip.Addr{}, errors.New("not an IP address: a prefix is asked for at /api/v1/routes/{prefix}")
		}
		return netip.Addr{}, fmt.Errorf("not an IP address: %s", reason(err, "ParseAddr", s))
	}
	if addr.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("address has a zone: routes have none, ask for %s", addr.WithZone(""))
	}
	return addr.Unmap(), nil
}

// borrow gives a part of a buffer as a string without copying it, for ParseAddr and parsePrefix.
// Nothing of theirs keeps the string: addresses hold none without a zone, zones are copied when
// they are interned, and their errors are new text.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parsePrefix reads the prefix of a request. Host bits are an error that names the prefix
// meant; an IPv4-mapped IPv6 prefix gives the IPv4 one.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := readPrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("an IPv4-mapped prefix has at least 96 bits, not %d", p.Bits())
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if m := p.Masked(); m != p {
		return netip.Prefix{}, fmt.Errorf("prefix %s has host bits set: ask for %s", p, m)
	}
	return p, nil
}

// readPrefix reads a prefix as it stands: it may have host bits and be IPv4-mapped.
func readPrefix(s string) (netip.Prefix, error) {
	switch {
	case s == "":
		return netip.Prefix{}, errors.New("no prefix: it is empty")
	case len(s) > maxAddrText:
		return netip.Prefix{}, fmt.Errorf("not a prefix: %d bytes are too long for one", len(s))
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if !strings.Contains(s, "/") {
			return netip.Prefix{}, errors.New("not a prefix: it has no length, as /24 (addresses are asked for at /api/v1/lookup/{ip})")
		}
		return netip.Prefix{}, fmt.Errorf("not a prefix: %s", reason(err, "netip.ParsePrefix", s))
	}
	return p, nil
}

// reason is what net/netip has against s, without the function and the text it repeats.
func reason(err error, function, s string) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, function+"("+strconv.Quote(s)+"): "); ok {
		text = after
	}
	if slash := strings.LastIndexByte(s, '/'); slash >= 0 {
		s = s[:slash] // what ParsePrefix takes for the address
	}
	return strings.Clone(strings.TrimPrefix(text, "ParseAddr("+strconv.Quote(s)+"): "))
}

// cut shortens text to at most n bytes, whole runes, for showing it.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
