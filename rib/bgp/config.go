package bgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// DefaultPort is where BGP speakers listen.
const DefaultPort = 179

// Config describes the speaker and its peers. Zero durations stand for their defaults.
type Config struct {
	ASN      uint32     // own AS number
	RouterID netip.Addr // own BGP identifier, an IPv4 address
	Listen   []string   // "ADDR:PORT" to accept connections at; empty: connect only
	Peers    []PeerConfig

	// HoldTime is how long a silent peer is taken for alive; whole seconds, at least 3;
	// default 90 s. The peer's is taken where it is shorter.
	HoldTime time.Duration
	// ConnectRetry is the longest wait between two attempts to connect, and the longest an
	// attempt takes; default 5 s. The first is made at once, and again after 0.25 s, 0.5 s, ...
	ConnectRetry time.Duration
	// ErrorDelay is how long a peer is left alone after a session that ended with an error
	// (a NOTIFICATION other than Cease, either way); default 10 s. It doubles with every
	// further one, up to 5 min, until a session has lasted 5 min.
	ErrorDelay time.Duration
	// OpenTimeout is how long a connected peer may take to send its OPEN; default 30 s.
	OpenTimeout time.Duration

	Log *slog.Logger // nil: slog.Default
}

// PeerConfig describes a peer.
type PeerConfig struct {
	Name      string     // default: the address
	Addr      netip.Addr // where it is, and what its connections have to come from
	AS        uint32     // its AS number; a peer with another is turned away
	Port      uint16     // default 179
	Passive   bool       // never connect, only wait for it
	LocalAddr netip.Addr // to connect from, and what connections have to come to; zero: any
	Optional  bool       // readiness does not wait for its first load
}

// withDefaults checks a configuration and fills in what it leaves open. The peers are a copy.
func (c Config) withDefaults() (Config, error) {
	if c.ASN == 0 {
		return c, errors.New("own AS number is missing: give a number from 1 to 4294967295")
	}
	if !c.RouterID.Is4() || c.RouterID.IsUnspecified() || c.RouterID.IsMulticast() {
		return c, fmt.Errorf("router ID %q is none: give an IPv4 address such as 192.0.2.1", text(c.RouterID))
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.HoldTime, 90 * time.Second}, {&c.ConnectRetry, 5 * time.Second}, {&c.ErrorDelay, 10 * time.Second}, {&c.OpenTimeout, 30 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 {
			return c, fmt.Errorf("a time of %v: give a positive one", *d.value)
		}
	}
	if c.HoldTime < 3*time.Second || c.HoldTime > 65535*time.Second || c.HoldTime%time.Second != 0 {
		return c, fmt.Errorf("hold time %v: give whole seconds, 3 to 65535", c.HoldTime)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Peers = append([]PeerConfig(nil), c.Peers...)
	names, addrs := make(map[string]bool), make(map[netip.Addr]bool)
	for i := range c.Peers {
		p := &c.Peers[i]
		p.Addr, p.LocalAddr = p.Addr.Unmap(), p.LocalAddr.Unmap()
		if p.Name == "" {
			p.Name = text(p.Addr)
		}
		if p.Port == 0 {
			p.Port = DefaultPort
		}
		switch {
		case !p.Addr.IsValid() || p.Addr.IsUnspecified() || p.Addr.IsMulticast():
			return c, fmt.Errorf("peer %q: address %q is none of a host", p.Name, text(p.Addr))
		case p.AS == 0:
			return c, fmt.Errorf("peer %q: AS number is missing", p.Name)
		case p.LocalAddr.IsValid() && p.LocalAddr.Is4() != p.Addr.Is4():
			return c, fmt.Errorf("peer %q: address %s and local address %s are of different families", p.Name, p.Addr, p.LocalAddr)
		case names[p.Name]:
			return c, fmt.Errorf("peer %q is there twice: give each its own name", p.Name)
		case addrs[p.Addr]:
			return c, fmt.Errorf("peer %q: address %s is another peer's: one session an address", p.Name, p.Addr)
		case p.Passive && len(c.Listen) == 0:
			return c, fmt.Errorf("peer %q is passive, but there is no address to listen at", p.Name)
		}
		names[p.Name], addrs[p.Addr] = true, true
	}
	return c, nil
}

// text is an address for people, empty for the zero one.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
