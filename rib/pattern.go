package rib

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// border is what _ stands for in an expression over AS paths: the start, the end, or what is
// between AS numbers.
const border = `(?:^|$|[ ,{}()\[\]])`

// ParseASPathPattern reads a regular expression over the text of AS paths (ASPath.String), in RE2's
// syntax. An _ in it is the start, the end, or what is between two AS numbers, as routers have it.
func ParseASPathPattern(s string) (*regexp.Regexp, error) {
	var b strings.Builder
	class, escaped := false, false
	for _, c := range s {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '_' && class:
			return nil, fmt.Errorf("as-path %q: _ stands for a border and cannot be in []", s)
		case c == '_':
			b.WriteString(border)
			continue
		}
		b.WriteRune(c)
	}
	if s == "" {
		return nil, errors.New("as-path: an empty expression matches every path: \"^$\" is the empty path")
	}
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("as-path %q: %w", s, err)
	}
	return re, nil
}

// Extended communities with a name (RFC 4360, 4 and 5) and the types that have them.
const (
	subtypeRouteTarget = 2
	subtypeRouteOrigin = 3

	typeAS2  = 0 // 2-byte AS, 4-byte number
	typeIPv4 = 1 // IPv4 address, 2-byte number
	typeAS4  = 2 // 4-byte AS, 2-byte number (RFC 5668)
)

// A CommunityPattern matches communities of one size. It does not change.
type CommunityPattern struct {
	size int
	bits []masked // one of these; extended ones have several forms
}

// masked is what a community has to be where the mask has ones.
type masked struct{ value, mask [largeCommunitySize]byte }

// In tells whether one of a route's communities is as the pattern says.
func (p *CommunityPattern) In(a *Attrs) bool {
	var all string
	switch p.size {
	case communitySize:
		all = string(a.Communities)
	case largeCommunitySize:
		all = string(a.LargeCommunities)
	case extCommunitySize:
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
func (m *masked) put(at, size int, n communityNumber) {
	if n.any {
		return
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n.value)
	for i, v := range b[8-size:] {
		m.value[at+i], m.mask[at+i] = v, 0xff
	}
}

// A communityNumber is a part of a pattern.
type communityNumber struct {
	value uint64
	any   bool
}

// fits tells whether a number can be in some bytes.
func (n communityNumber) fits(size int) bool { return n.value < 1<<(8*size) }

func parseCommunityNumber(s string, size int) (communityNumber, error) {
	if s == "*" {
		return communityNumber{any: true}, nil
	}
	v, err := strconv.ParseUint(s, 10, 8*size)
	if err != nil {
		return communityNumber{}, fmt.Errorf("%q is neither * nor a number up to %d", s, uint64(1)<<(8*size)-1)
	}
	return communityNumber{value: v}, nil
}

// ParseCommunityPattern reads a pattern: "64500:100", "64500:*", large "64500:1:*", extended
// "rt:64500:1", "soo:64500:*" or "0x" and 16 hexadecimal digits. A * is any number.
func ParseCommunityPattern(s string) (*CommunityPattern, error) {
	parts := strings.Split(s, ":")
	name := strings.ToLower(parts[0])
	var p *CommunityPattern
	var err error
	switch {
	case strings.HasPrefix(name, "0x"):
		p, err = parseHex(s[2:])
	case name == "rt" && len(parts) == 3:
		p, err = parseExtended(subtypeRouteTarget, parts[1], parts[2])
	case name == "soo" && len(parts) == 3:
		p, err = parseExtended(subtypeRouteOrigin, parts[1], parts[2])
	case len(parts) == 2:
		p, err = parseParts(parts, 2, communitySize)
	case len(parts) == 3:
		p, err = parseParts(parts, 4, largeCommunitySize)
	default:
		err = fmt.Errorf("a community is like 64500:100, 64500:1:2, rt:64500:1, soo:64500:1 or 0x0002fde800000001")
	}
	if err != nil {
		return nil, fmt.Errorf("community %q: %w", s, err)
	}
	return p, nil
}

// parseParts reads a standard or a large community: numbers of the same size.
func parseParts(parts []string, each, size int) (*CommunityPattern, error) {
	var m masked
	for i, s := range parts {
		n, err := parseCommunityNumber(s, each)
		if err != nil {
			return nil, err
		}
		m.put(i*each, each, n)
	}
	return &CommunityPattern{size, []masked{m}}, nil
}

func parseHex(digits string) (*CommunityPattern, error) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != extCommunitySize {
		return nil, fmt.Errorf("give %d hexadecimal digits behind 0x", 2*extCommunitySize)
	}
	var m masked
	m.put(0, extCommunitySize, communityNumber{value: binary.BigEndian.Uint64(b)})
	return &CommunityPattern{extCommunitySize, []masked{m}}, nil
}

// parseExtended reads a route target or origin: all forms in which a router may have put it.
func parseExtended(subtype uint64, admin, local string) (*CommunityPattern, error) {
	b, err := parseCommunityNumber(local, 4)
	if err != nil {
		return nil, err
	}
	p := &CommunityPattern{size: extCommunitySize}
	add := func(kind uint64, a communityNumber, adminSize int) {
		localSize := 6 - adminSize
		if !a.fits(adminSize) || !b.fits(localSize) {
			return
		}
		var m masked
		m.put(0, 1, communityNumber{value: kind})
		m.put(1, 1, communityNumber{value: subtype})
		m.put(2, adminSize, a)
		m.put(2+adminSize, localSize, b)
		p.bits = append(p.bits, m)
	}
	if ip, err := netip.ParseAddr(admin); err == nil && ip.Is4() {
		four := ip.As4()
		add(typeIPv4, communityNumber{value: uint64(binary.BigEndian.Uint32(four[:]))}, 4)
	} else {
		a, err := parseCommunityNumber(admin, 4)
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
