package annotate

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// ParseAddr reads an address as netip.ParseAddr does, without allocating. Blanks around it are
// dropped and an IPv4-mapped IPv6 address gives the IPv4 one. An address with a zone is
// none: routes have no zones, and an answer without it would be for another address.
func ParseAddr(text []byte) (netip.Addr, bool) {
	text = bytes.Trim(text, " \t")
	if a, n := parse4(text); n == len(text) && n > 0 {
		return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), true
	}
	const longest = len("0000:0000:0000:0000:0000:0000:255.255.255.255")
	if len(text) < 2 || len(text) > longest {
		return netip.Addr{}, false
	}
	// The string is text itself: no address keeps it, zones are copied where they are interned,
	// and the error, which quotes it, is dropped.
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(text), len(text)))
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// parse4 reads the IPv4 address at the start of b, as strictly as netip does: four decimal
// numbers to 255 without leading zeros. n is the number of bytes it took, 0 where there is none.
// What stands behind it is the caller's to judge.
func parse4(b []byte) (addr uint32, n int) {
	for octet := 0; ; octet++ {
		if n >= len(b) {
			return 0, 0
		}
		v := uint32(b[n]) - '0'
		if v > 9 {
			return 0, 0
		}
		n++
		if n < len(b) {
			if d := uint32(b[n]) - '0'; d <= 9 {
				if v == 0 {
					return 0, 0 // leading zero
				}
				v = v*10 + d
				n++
				if n < len(b) {
					if d := uint32(b[n]) - '0'; d <= 9 {
						v = v*10 + d
						n++
						if v > 255 {
							return 0, 0
						}
					}
				}
			}
		}
		addr = addr<<8 | v
		if octet == 3 {
			return addr, n
		}
		if n >= len(b) || b[n] != '.' {
			return 0, 0
		}
		n++
	}
}
