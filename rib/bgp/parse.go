package bgp

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParsePeer reads a peer as the command line has it: ADDR,asn=N and any of port=N, passive,
// optional, name=NAME and local=ADDR behind it. ADDR is an IPv4 or IPv6 address.
func ParsePeer(s string) (PeerConfig, error) {
	addr, rest, more := strings.Cut(s, ",")
	fail := func(format string, args ...any) (PeerConfig, error) {
		return PeerConfig{}, fmt.Errorf("peer %q: %s: want ADDR,asn=N[,port=N][,passive][,optional][,name=NAME][,local=ADDR]", s, fmt.Sprintf(format, args...))
	}
	var p PeerConfig
	var err error
	addr = strings.TrimSpace(addr)
	if p.Addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")); err != nil {
		if _, portErr := netip.ParseAddrPort(addr); portErr == nil {
			return fail("%q has a port, which goes behind port=", addr)
		}
		return fail("%q is no IP address", addr)
	}
	p.Addr = p.Addr.Unmap()
	seen := make(map[string]bool)
	for more {
		var field string
		field, rest, more = strings.Cut(rest, ",")
		key, value, valued := strings.Cut(strings.TrimSpace(field), "=")
		if seen[key] {
			return fail("%s is there twice", key)
		}
		seen[key] = true
		switch key {
		case "asn", "port", "name", "local":
			if value == "" {
				return fail("%s has no value", key)
			}
		case "passive", "optional":
			if valued {
				return fail("%s takes no value", key)
			}
		}
		switch key {
		case "asn":
			as, err := strconv.ParseUint(value, 10, 32)
			if err != nil || as == 0 {
				return fail("asn %q is no number from 1 to 4294967295", value)
			}
			p.AS = uint32(as)
		case "port":
			port, err := strconv.ParseUint(value, 10, 16)
			if err != nil || port == 0 {
				return fail("port %q is no number from 1 to 65535", value)
			}
			p.Port = uint16(port)
		case "passive":
			p.Passive = true
		case "optional":
			p.Optional = true
		case "name":
			p.Name = value
		case "local":
			if p.LocalAddr, err = netip.ParseAddr(value); err != nil {
				return fail("local %q is no IP address", value)
			}
			if p.LocalAddr = p.LocalAddr.Unmap(); p.LocalAddr.Is4() != p.Addr.Is4() {
				return fail("local %s is not of the same family", p.LocalAddr)
			}
		default:
			return fail("%q is unknown", key)
		}
	}
	if p.AS == 0 {
		return fail("asn is missing")
	}
	return p, nil
}
