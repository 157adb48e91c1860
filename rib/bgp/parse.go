package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// peerSyntax is what ParsePeer takes.
const peerSyntax = "ADDR,asn=N or PREFIX,asn=N,limit=N, and any of name=NAME, port=N, local=ADDR, passive, active, optional, table=NAME, " +
	"import=POLICY, enforce-first-as, role=provider|customer|peer|rs|rs-client, strict-role, md5=PASSWORD, md5-file=FILE, ttl-security=HOPS, hold-time=TIME, " +
	"max-prefix=N, max-prefix-ipv4=N, max-prefix-ipv6=N, max-prefix-warning=PERCENT, max-prefix-restart=TIME, max-attribute-bytes=N, " +
	"stale-time=TIME, long-lived-stale-time=TIME, no-graceful-restart, no-add-path, link-state"

// switches are the keys that take no value.
var switches = map[string]func(p *PeerConfig) *bool{
	"passive":             func(p *PeerConfig) *bool { return &p.Passive },
	"active":              func(p *PeerConfig) *bool { return &p.Active },
	"optional":            func(p *PeerConfig) *bool { return &p.Optional },
	"enforce-first-as":    func(p *PeerConfig) *bool { return &p.EnforceFirstAS },
	"strict-role":         func(p *PeerConfig) *bool { return &p.StrictRole },
	"no-graceful-restart": func(p *PeerConfig) *bool { return &p.NoGracefulRestart },
	"no-add-path":         func(p *PeerConfig) *bool { return &p.NoAddPath },
	"link-state":          func(p *PeerConfig) *bool { return &p.LinkState },
}

// values are those that take one.
var values = map[string]func(p *PeerConfig, value string) error{
	"asn": func(p *PeerConfig, v string) error {
		as, err := number(v, 1, 1<<32-1)
		p.AS = uint32(as)
		return err
	},
	"name":   func(p *PeerConfig, v string) error { p.Name = v; return nil },
	"table":  func(p *PeerConfig, v string) error { p.Table = v; return nil },
	"import": func(p *PeerConfig, v string) error { p.Import = v; return nil },
	"port": func(p *PeerConfig, v string) error {
		port, err := number(v, 1, 65535)
		p.Port = uint16(port)
		return err
	},
	"local": func(p *PeerConfig, v string) error {
		a, err := netip.ParseAddr(v)
		if err != nil {
			return errors.New("is no IP address")
		}
		p.LocalAddr = a.Unmap()
		return nil
	},
	"limit":        func(p *PeerConfig, v string) error { return count(&p.Limit, v, 1<<20) },
	"ttl-security": func(p *PeerConfig, v string) error { return count(&p.TTLSecurity, v, 254) },
	"role": func(p *PeerConfig, v string) error {
		if p.Role.UnmarshalText([]byte(v)) != nil {
			return errors.New("is none: give provider, customer, peer, rs or rs-client")
		}
		return nil
	},
	"md5": func(p *PeerConfig, v string) error { p.MD5 = v; return nil },
	"md5-file": func(p *PeerConfig, v string) error {
		info, err := os.Stat(v)
		if err == nil && !info.Mode().IsRegular() { // a pipe would have a reload wait for ever
			return errors.New("is no regular file")
		}
		text, err := os.ReadFile(v)
		if err != nil {
			return fmt.Errorf("cannot be read: %w", err)
		}
		p.MD5, _, _ = strings.Cut(string(text), "\n")
		if p.MD5 = strings.TrimSuffix(p.MD5, "\r"); p.MD5 == "" {
			return errors.New("has no password in its first line")
		}
		return nil
	},
	"max-prefix": func(p *PeerConfig, v string) error {
		return errors.Join(count(&p.MaxPrefixes4, v, 1<<31-1), count(&p.MaxPrefixes6, v, 1<<31-1))
	},
	"max-prefix-ipv4":       func(p *PeerConfig, v string) error { return count(&p.MaxPrefixes4, v, 1<<31-1) },
	"max-prefix-ipv6":       func(p *PeerConfig, v string) error { return count(&p.MaxPrefixes6, v, 1<<31-1) },
	"max-prefix-warning":    func(p *PeerConfig, v string) error { return count(&p.MaxPrefixesWarn, v, 100) },
	"max-attribute-bytes":   func(p *PeerConfig, v string) error { return count(&p.MaxAttributeBytes, v, 1<<50) },
	"max-prefix-restart":    func(p *PeerConfig, v string) error { return duration(&p.MaxPrefixesRestart, v) },
	"hold-time":             func(p *PeerConfig, v string) error { return duration(&p.HoldTime, v) },
	"stale-time":            func(p *PeerConfig, v string) error { return duration(&p.StaleTime, v) },
	"long-lived-stale-time": func(p *PeerConfig, v string) error { return duration(&p.LongLivedStaleTime, v) },
}

func number(s string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("is no number from %d to %d", least, most)
	}
	return n, nil
}

func count(n *int, s string, most uint64) error {
	v, err := number(s, 1, most)
	*n = int(v)
	return err
}

func duration(d *time.Duration, s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 {
		return errors.New("is no time such as 90s, 5m or 24h")
	}
	*d = v
	return nil
}

// A PeerError says what is wrong with the text of a peer, without its password.
type PeerError struct{ Peer, Problem string }

func (e *PeerError) Error() string {
	return fmt.Sprintf("peer %q: %s: want %s", e.Peer, e.Problem, peerSyntax)
}

// PeerKeys are the keys that ParsePeer knows.
func PeerKeys() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for key := range switches {
			if !yield(key) {
				return
			}
		}
		for key := range values {
			if !yield(key) {
				return
			}
		}
	})
}

// ParsePeer reads a peer as the command line has it: ADDR,asn=N and other keys behind it, each
// once; PREFIX,asn=N,limit=N for all neighbours in a prefix. ADDR is an IPv4 or IPv6 address.
// The file of md5-file is read here; the password is its first line.
func ParsePeer(s string) (PeerConfig, error) {
	addr, rest, more := strings.Cut(s, ",")
	fail := func(format string, args ...any) (PeerConfig, error) {
		return PeerConfig{}, &PeerError{withoutPassword(s), fmt.Sprintf(format, args...)}
	}
	var p PeerConfig
	var err error
	addr = strings.TrimSpace(addr)
	if prefix, prefixErr := netip.ParsePrefix(addr); prefixErr == nil {
		p.Prefix = prefix
		if prefix != prefix.Masked() {
			return fail("%s has bits behind its length: the prefix is %s", prefix, prefix.Masked())
		}
	} else if p.Addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")); err != nil {
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
		if flag := switches[key]; flag != nil {
			if valued {
				return fail("%s takes no value", key)
			}
			*flag(&p) = true
			continue
		}
		set := values[key]
		if set == nil {
			if seen["md5"] {
				return fail("what follows md5= is unknown: a password with a comma in it goes into a file, md5-file=")
			}
			return fail("%q is unknown", strings.TrimSpace(key))
		}
		if value == "" {
			return fail("%s has no value", key)
		}
		if err := set(&p, value); err != nil {
			return fail("%s %q %v", key, value, err)
		}
	}
	switch {
	case p.AS == 0:
		return fail("asn is missing")
	case p.LocalAddr.IsValid() && p.Addr.IsValid() && p.LocalAddr.Is4() != p.Addr.Is4():
		return fail("local %s is not of the same family", p.LocalAddr)
	case seen["md5"] && seen["md5-file"]:
		return fail("md5 and md5-file: give one")
	case seen["max-prefix"] && (seen["max-prefix-ipv4"] || seen["max-prefix-ipv6"]):
		return fail("max-prefix is for both families: give it alone, or one for each")
	case p.dynamic() && p.Limit == 0:
		return fail("limit is missing: say how many neighbours the prefix may have")
	case !p.dynamic() && p.Limit != 0:
		return fail("limit is for the neighbours of a prefix: this is an address")
	}
	return p, nil
}

// withoutPassword gives a peer for an error message.
func withoutPassword(s string) string {
	fields, secret := strings.Split(s, ","), false
	for i, f := range fields {
		key, _, valued := strings.Cut(f, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if strings.HasPrefix(key, "md5") || strings.Contains(key, "pass") {
			secret = true
			fields[i] = key + "=..."
		} else if secret && !valued {
			fields[i] = "..." // the rest of one with a comma in it, maybe
		}
	}
	return strings.Join(fields, ",")
}
