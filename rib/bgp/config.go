package bgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
	"github.com/ribwarp/ribwarp/rib/bgpls"
)

// DefaultPort is where BGP speakers listen.
const DefaultPort = 179

// importAccept is the import policy that is there without any configured.
const importAccept = "accept"

// Config describes the speaker and its peers. Zero values stand for their defaults.
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
	// further one, up to 5 min, until a session has lasted 5 min. A connection from the peer's
	// address without an OPEN is none.
	ErrorDelay time.Duration
	// OpenTimeout is how long a connected peer may take to send its OPEN; default 30 s.
	OpenTimeout time.Duration

	// MaxHalfOpen bounds the connections of neighbours known by prefix alone that are not
	// established yet; default 256. Configured peers have places of their own.
	MaxHalfOpen int
	// MaxHalfOpenPerAddr bounds those of one address, a configured peer's too; default 4.
	MaxHalfOpenPerAddr int

	// LinkState is where link state goes of the peers that may announce it; needed for these alone.
	LinkState *bgpls.Database

	Log *slog.Logger // nil: slog.Default
}

// PeerConfig describes a peer, or with Prefix all neighbours in a prefix. It is comparable.
type PeerConfig struct {
	Name      string     // default: the address, or the prefix
	Addr      netip.Addr // where it is, and what its connections have to come from
	AS        uint32     // its AS number; a peer with another is turned away
	Port      uint16     // default 179
	Passive   bool       // never connect, only wait for it
	Active    bool       // only connect, refuse its connections
	LocalAddr netip.Addr // to connect from, and what connections have to come to; zero: any
	Optional  bool       // readiness does not wait for its first load

	// Prefix stands in place of Addr: whoever connects from it with the right AS number is a
	// peer, named NAME/ADDR, until its session is over; Limit of them at a time. Nobody is
	// connected to, and readiness waits for none.
	Prefix netip.Prefix
	Limit  int

	Table string // where its routes go; default rib.DefaultTable
	// Import names the policy that its routes have to pass. Without one those of an external
	// peer are kept and never chosen (RFC 8212), those of an internal one are taken.
	Import string
	// EnforceFirstAS rejects routes of an external peer whose path does not start with its AS.
	// It is to be off for route servers.
	EnforceFirstAS bool
	// Role is ours towards the peer (RFC 9234). The peer's has to fit, and its route leaks are
	// rejected. StrictRole turns away a peer that does not tell its role.
	Role       fsm.Role
	StrictRole bool

	MD5 string // TCP-MD5 password (RFC 2385), up to 80 bytes; Linux only
	// TTLSecurity is how many hops away the peer may be, 1 for a neighbour on the link; packets
	// from farther off are dropped (RFC 5082). 0: not checked. Linux only.
	TTLSecurity int
	HoldTime    time.Duration // default: Config.HoldTime

	// MaxPrefixes4 and MaxPrefixes6 bound the routes that the peer may announce, paths counted
	// one by one; default 4 million, negative: no bound. One more ends the session (Cease/1) and
	// withdraws its routes. At MaxPrefixesWarn percent of it, default 75, the log tells.
	MaxPrefixes4, MaxPrefixes6 int
	MaxPrefixesWarn            int
	// MaxAttributeBytes bounds the memory that the peer's sets of path attributes take, as far as
	// they are larger than rib.LightAttributes (rib.Peer.AttributeBytes); default 1 GiB, negative:
	// no bound. More ends the session (Cease/8) and withdraws its routes.
	MaxAttributeBytes int
	// MaxPrefixesRestart is how long the peer is left alone after either; 0: until Reset, or a
	// Reload that changes the peer.
	MaxPrefixesRestart time.Duration

	// LinkState asks for the topology of the peer's IGP (RFC 9552), beside routes.
	LinkState bool
	// NoAddPath does not ask for several paths to a prefix (RFC 7911).
	NoAddPath bool
	// NoGracefulRestart withdraws the routes of a lost session at once (RFC 4724).
	NoGracefulRestart bool
	// StaleTime bounds how long routes of a lost session, or of a saved generation, are kept
	// until the peer is back, and then until it has announced all anew; default 6 min. The peer's
	// restart time counts where it is shorter.
	StaleTime time.Duration
	// LongLivedStaleTime bounds how long they are kept after that where nothing else is there
	// (RFC 9494); the peer's time counts where it is shorter. 0: not at all.
	LongLivedStaleTime time.Duration
}

// Defaults of a peer.
const (
	defaultMaxPrefixes       = 4_000_000 // three full tables: a bound for the heap, not a policy
	defaultMaxAttributeBytes = 1 << 30   // the full tables that were looked at have a few MB
	defaultWarn              = 75
	defaultStaleTime         = 6 * time.Minute
)

// dynamic tells whether the configuration is one of a prefix.
func (c *PeerConfig) dynamic() bool { return c.Prefix.IsValid() }

// session is what of a configuration a running session depends on: where that is as it was, the
// session stays up through a change.
func (c PeerConfig) session() PeerConfig {
	c.Optional, c.Limit, c.Import, c.EnforceFirstAS = false, 0, "", false
	c.MaxPrefixes4, c.MaxPrefixes6, c.MaxPrefixesWarn, c.MaxPrefixesRestart = 0, 0, 0, 0
	c.MaxAttributeBytes = 0
	c.StaleTime = 0
	c.LongLivedStaleTime = min(c.LongLivedStaleTime, 1) // whether, which the OPEN says, not how long
	return c
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
	if err := checkHoldTime(c.HoldTime); err != nil {
		return c, err
	}
	for _, d := range []struct {
		value    *int
		fallback int
	}{{&c.MaxHalfOpen, 256}, {&c.MaxHalfOpenPerAddr, 4}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 {
			return c, fmt.Errorf("%d half-open connections: give a positive number", *d.value)
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Peers = append([]PeerConfig(nil), c.Peers...)
	names, addrs, prefixes := make(map[string]bool), make(map[netip.Addr]bool), make(map[netip.Prefix]bool)
	for i := range c.Peers {
		p := &c.Peers[i]
		if err := p.complete(&c); err != nil {
			return c, fmt.Errorf("peer %q: %w", p.Name, err)
		}
		switch {
		case names[p.Name]:
			return c, fmt.Errorf("peer %q is there twice: give each its own name", p.Name)
		case p.dynamic() && prefixes[p.Prefix]:
			return c, fmt.Errorf("peer %q: prefix %s is there twice: one limit a prefix", p.Name, p.Prefix)
		case !p.dynamic() && addrs[p.Addr]:
			return c, fmt.Errorf("peer %q: address %s is another peer's: one session an address", p.Name, p.Addr)
		}
		names[p.Name], prefixes[p.Prefix], addrs[p.Addr] = true, true, true
	}
	return c, nil
}

func checkHoldTime(d time.Duration) error {
	if d < 3*time.Second || d > 65535*time.Second || d%time.Second != 0 {
		return fmt.Errorf("hold time %v: give whole seconds, 3 to 65535", d)
	}
	return nil
}

// complete checks a peer and fills in what it leaves open.
func (p *PeerConfig) complete(c *Config) error {
	p.Addr, p.LocalAddr = p.Addr.Unmap(), p.LocalAddr.Unmap()
	addr := p.Addr
	if p.dynamic() {
		p.Prefix = p.Prefix.Masked()
		p.Passive, p.Optional = true, true
		addr = p.Prefix.Addr()
		if p.Name == "" {
			p.Name = p.Prefix.String()
		}
	}
	if p.Name == "" {
		p.Name = text(p.Addr)
	}
	if p.Port == 0 {
		p.Port = DefaultPort
	}
	if p.Table == "" {
		p.Table = rib.DefaultTable
	}
	if p.HoldTime == 0 {
		p.HoldTime = c.HoldTime
	}
	for _, n := range []*int{&p.MaxPrefixes4, &p.MaxPrefixes6} {
		if *n == 0 {
			*n = defaultMaxPrefixes
		}
	}
	if p.MaxAttributeBytes == 0 {
		p.MaxAttributeBytes = defaultMaxAttributeBytes
	}
	if p.MaxPrefixesWarn == 0 {
		p.MaxPrefixesWarn = defaultWarn
	}
	if p.StaleTime == 0 {
		p.StaleTime = defaultStaleTime
	}
	switch external := p.AS != c.ASN; {
	case p.dynamic() && p.Addr.IsValid():
		return fmt.Errorf("it has the address %s and the prefix %s: give one", p.Addr, p.Prefix)
	case p.dynamic() && p.Limit < 1:
		return errors.New("limit is missing: say how many neighbours the prefix may have")
	case !p.dynamic() && p.Limit != 0:
		return errors.New("a limit is for the neighbours of a prefix: this is an address")
	case !p.dynamic() && (!addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast()):
		return fmt.Errorf("address %q is none of a host", text(addr))
	case p.AS == 0:
		return errors.New("AS number is missing")
	case p.LinkState && c.LinkState == nil:
		return errors.New("link state of it has nowhere to go")
	case p.LocalAddr.IsValid() && p.LocalAddr.Is4() != addr.Is4():
		return fmt.Errorf("address %s and local address %s are of different families", addr, p.LocalAddr)
	case p.Passive && p.Active:
		return errors.New("it is passive and active: without either it is both")
	case p.Passive && len(c.Listen) == 0:
		return errors.New("it is passive, but there is no address to listen at")
	case p.Role != fsm.NoRole && !external:
		return errors.New("a role is for external peers (RFC 9234), and this one has our AS number")
	case p.StrictRole && p.Role == fsm.NoRole:
		return errors.New("a strict role needs a role")
	case len(p.MD5) > maxMD5:
		return fmt.Errorf("the MD5 password has %d bytes: give %d at most", len(p.MD5), maxMD5)
	case p.TTLSecurity < 0 || p.TTLSecurity > 254:
		return fmt.Errorf("TTL security of %d hops: give 1 to 254", p.TTLSecurity)
	case p.MaxPrefixesWarn < 1 || p.MaxPrefixesWarn > 100:
		return fmt.Errorf("warning at %d %% of the prefixes: give 1 to 100", p.MaxPrefixesWarn)
	case p.MaxPrefixesRestart < 0 || p.StaleTime < 0 || p.LongLivedStaleTime < 0:
		return errors.New("a time is negative: give a positive one")
	}
	if err := checkHoldTime(p.HoldTime); err != nil {
		return err
	}
	if p.MD5 != "" || p.TTLSecurity != 0 {
		return protectionAvailable()
	}
	return nil
}

// text is an address for people, empty for the zero one.
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
