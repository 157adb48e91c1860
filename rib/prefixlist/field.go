package prefixlist

import (
	"bytes"
	"net/netip"
)

// separator reports whether c stands between fields.
func separator(c byte) bool { return c == ' ' || c == '\t' || c == ',' }

// nextField cuts the first field off a line. It is empty at the end of the line.
func nextField(line []byte) (field, rest []byte) {
	start := 0
	for start < len(line) && separator(line[start]) {
		start++
	}
	end := start
	for end < len(line) && !separator(line[end]) {
		end++
	}
	return line[start:end], line[end:]
}

// parsePrefix reads a prefix as netip.ParsePrefix does, and a bare address as its host prefix.
// Host bits are kept.
func parsePrefix(field []byte) (netip.Prefix, bool) {
	if p, rest, ok := scan4(field); ok && len(rest) == 0 {
		return p, true
	}
	if bytes.IndexByte(field, '/') >= 0 {
		p, err := netip.ParsePrefix(string(field))
		return p, err == nil
	}
	a, err := netip.ParseAddr(string(field))
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

// scan4 is the fast path for what nearly all lines are: an IPv4 prefix with its length at the
// start of b. It accepts nothing that netip.ParsePrefix does not; what it refuses may still be
// sound. rest starts at a separator or is empty.
func scan4(b []byte) (p netip.Prefix, rest []byte, ok bool) {
	var octets [4]byte
	at := 0
	for i := range octets {
		n, next, ok := number(b, at, 255)
		if !ok || next == len(b) {
			return p, b, false
		}
		octets[i] = byte(n)
		if i < 3 && b[next] != '.' || i == 3 && b[next] != '/' {
			return p, b, false
		}
		at = next + 1
	}
	bits, at, ok := number(b, at, 32)
	if !ok || at < len(b) && !separator(b[at]) {
		return p, b, false
	}
	return netip.PrefixFrom(netip.AddrFrom4(octets), bits), b[at:], true
}

// number reads the digits of b from at: without leading zeros, at most three, no more than most.
func number(b []byte, at, most int) (n, next int, ok bool) {
	next = at
	for next < len(b) && next < at+3 && b[next]-'0' <= 9 {
		n = n*10 + int(b[next]-'0')
		next++
	}
	return n, next, next > at && n <= most && (b[at] != '0' || next == at+1)
}

// parseAS reads an AS number, as digits or with AS before them.
func parseAS(field []byte) (uint32, bool) {
	if len(field) > 2 && (field[0]|0x20) == 'a' && (field[1]|0x20) == 's' {
		field = field[2:]
	}
	if !digits(field) || len(field) > 10 {
		return 0, false
	}
	var n uint64
	for _, c := range field {
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n <= 1<<32-1
}

func digits(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 {
			return false
		}
	}
	return len(b) > 0
}

// Looks reports whether the start of a file can be a list: one of its lines starts with a
// prefix or an address, or it holds comments and a heading only. A last line that is cut does
// not count, unless it is the only one or the start is the whole file.
func Looks(start []byte, whole bool) bool {
	start = bytes.TrimPrefix(start, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(start, 0) >= 0 {
		return false
	}
	nothing := true
	for number := 1; len(start) > 0; number++ {
		line, rest, ended := bytes.Cut(start, []byte{'\n'})
		if !ended && !whole && number > 1 {
			break
		}
		start = rest
		line, _, _ = bytes.Cut(bytes.TrimSuffix(line, []byte{'\r'}), []byte{'#'})
		field, _ := nextField(line)
		if len(field) == 0 || number == 1 && bytes.EqualFold(field, []byte("prefix")) {
			continue
		}
		addr, _, _ := bytes.Cut(field, []byte{'/'})
		if _, ok := parsePrefix(addr); ok {
			return true
		}
		nothing = false
	}
	return nothing
}
