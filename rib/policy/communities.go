package policy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
)

// Sizes of one community, in bytes.
const (
	standardSize = 4
	largeSize    = 12
	extendedSize = 8
)

// Extended communities with a name (RFC 4360, 4 and 5) and the types that have them.
const (
	subtypeRouteTarget = 2
	subtypeRouteOrigin = 3

	typeAS2  = 0 // 2-byte AS, 4-byte number
	typeIPv4 = 1 // IPv4 address, 2-byte number
	typeAS4  = 2 // 4-byte AS, 2-byte number (RFC 5668)
)

// A pattern matches communities of one size.
type pattern struct {
	size int
	bits []masked // one of these; extended ones have several forms
}

// masked is what a community has to be where the mask has ones.
type masked struct{ value, mask [largeSize]byte }

// in tells whether one of a route's communities is as the pattern says.
func (p *pattern) in(a *rib.Attrs) bool {
	var all string
	switch p.size {
	case standardSize:
		all = string(a.Communities)
	case largeSize:
		all = string(a.LargeCommunities)
	case extendedSize:
		all = string(a.ExtCommunities)
	}
	for ; len(all) >= p.size; all = all[p.size:] {
		for i := range p.bits {
			if p.bits[i].is(all[:p.size]) {
				return true
			}
		}
	}
	return false
}

func (m *masked) is(c string) bool {
	for i := range len(c) {
		if c[i]&m.mask[i] != m.value[i] {
			return false
		}
	}
	return true
}

// put sets the bytes from at on to a number, of which any will do where it is a wildcard.
func (m *masked) put(at, size int, n number) {
	if n.any {
		return
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n.value)
	for i, v := range b[8-size:] {
		m.value[at+i], m.mask[at+i] = v, 0xff
	}
}

// A number is a part of a pattern.
type number struct {
	value uint64
	any   bool
}

// fits tells whether a number can be in some bytes.
func (n number) fits(size int) bool { return n.value < 1<<(8*size) }

func parseNumber(s string, size int) (number, error) {
	if s == "*" {
		return number{any: true}, nil
	}
	v, err := strconv.ParseUint(s, 10, 8*size)
	if err != nil {
		return number{}, fmt.Errorf("%q is neither * nor a number up to %d", s, uint64(1)<<(8*size)-1)
	}
	return number{value: v}, nil
}

// parsePattern reads a pattern as TermConfig has them.
func parsePattern(s string) (*pattern, error) {
	parts := strings.Split(s, ":")
	name := strings.ToLower(parts[0])
	var p *pattern
	var err error
	switch {
	case strings.HasPrefix(name, "0x"):
		p, err = parseHex(s[2:])
	case name == "rt" && len(parts) == 3:
		p, err = parseExtended(subtypeRouteTarget, parts[1], parts[2])
	case name == "soo" && len(parts) == 3:
		p, err = parseExtended(subtypeRouteOrigin, parts[1], parts[2])
	case len(parts) == 2:
		p, err = parseParts(parts, 2, standardSize)
	case len(parts) == 3:
		p, err = parseParts(parts, 4, largeSize)
	default:
		err = fmt.Errorf("a community is like 64500:100, 64500:1:2, rt:64500:1, soo:64500:1 or 0x0002fde800000001")
	}
	if err != nil {
		return nil, fmt.Errorf("community %q: %w", s, err)
	}
	return p, nil
}

// parseParts reads a standard or a large community: numbers of the same size.
func parseParts(parts []string, each, size int) (*pattern, error) {
	var m masked
	for i, s := range parts {
		n, err := parseNumber(s, each)
		if err != nil {
			return nil, err
		}
		m.put(i*each, each, n)
	}
	return &pattern{size, []masked{m}}, nil
}

func parseHex(digits string) (*pattern, error) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != extendedSize {
		return nil, fmt.Errorf("give %d hexadecimal digits behind 0x", 2*extendedSize)
	}
	var m masked
	m.put(0, extendedSize, number{value: binary.BigEndian.Uint64(b)})
	return &pattern{extendedSize, []masked{m}}, nil
}

// parseExtended reads a route target or origin: all forms in which a router may have put it.
func parseExtended(subtype uint64, admin, local string) (*pattern, error) {
	b, err := parseNumber(local, 4)
	if err != nil {
		return nil, err
	}
	p := &pattern{size: extendedSize}
	add := func(kind uint64, a number, adminSize int) {
		localSize := 6 - adminSize
		if !a.fits(adminSize) || !b.fits(localSize) {
			return
		}
		var m masked
		m.put(0, 1, number{value: kind})
		m.put(1, 1, number{value: subtype})
		m.put(2, adminSize, a)
		m.put(2+adminSize, localSize, b)
		p.bits = append(p.bits, m)
	}
	if ip, err := netip.ParseAddr(admin); err == nil && ip.Is4() {
		four := ip.As4()
		add(typeIPv4, number{value: uint64(binary.BigEndian.Uint32(four[:]))}, 4)
	} else {
		a, err := parseNumber(admin, 4)
		if err != nil {
			return nil, err
		}
		add(typeAS2, a, 2)
		add(typeAS4, a, 4)
		if a.any {
			add(typeIPv4, a, 4)
		}
	}
	if len(p.bits) == 0 {
		return nil, fmt.Errorf("%s and %s do not fit into six bytes together", admin, local)
	}
	return p, nil
}
