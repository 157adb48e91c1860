package bmp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// A View is which of a router's tables is meant.
type View string

const (
	ViewFirst  View = ""        // that of the first route
	ViewPre    View = "pre"     // Adj-RIB-In before policy
	ViewPost   View = "post"    // Adj-RIB-In after policy
	ViewLocRIB View = "loc-rib" // what the router chose (RFC 9069)
)

// Config describes the station and its routers. Zero durations and limits stand for their
// defaults.
type Config struct {
	Listen  []string // "ADDR:PORT" to accept routers at; empty: connect only
	Routers []RouterConfig

	// MaxRouters is how many routers may be connected or have routes; default 256.
	MaxRouters int
	// MaxHalfOpen is how many connections may not have sent their Initiation message yet; default
	// 64, and never more than 2 from one address.
	MaxHalfOpen int
	// OpenTimeout is how long a connected router may take to send its Initiation message; default 30 s.
	OpenTimeout time.Duration
	// ReadTimeout is how long a message may take from its first byte to its last; default 30 s.
	// Between messages a router may be silent for ever: BMP has no keepalive.
	ReadTimeout time.Duration
	// KeepAlive is the silence after which TCP asks whether the router is there; default 30 s. It
	// is given up after three more thirds of that without an answer.
	KeepAlive time.Duration
	// ConnectRetry is the longest wait between two attempts to connect to a router, and the longest
	// an attempt takes; default 30 s. The first is made at once, and again after 1 s, 2 s, ...
	ConnectRetry time.Duration

	Log *slog.Logger // nil: slog.Default
}

// RouterConfig describes a router, or with Prefix all routers of a network. It is comparable.
type RouterConfig struct {
	Name string // default: the address or prefix; no "/" in it
	// Addr is where its connections have to come from, or where to connect to.
	Addr netip.Addr
	// Prefix stands for routers at its addresses, each named NAME/ADDR, Limit of them at most
	// (default 16). Either Addr or Prefix.
	Prefix netip.Prefix
	Limit  int
	// Port is where the router listens (RFC 7854, 3.2): connect to it. 0: it connects to us.
	Port uint16

	// Table is the table of its global instance: a name in which {router} stands for the router's
	// name and {rd} for the route distinguisher, "global" without one. Default: "default".
	Table string
	// VRFTable is the same for VRFs and needs {rd}. Default: Table where that has {rd}; otherwise
	// VRFs are ignored.
	VRFTable string
	View     View
	Import   string // name of the import policy; empty accepts all: the router has its own
	Optional bool   // readiness does not wait for its first load

	// StaleTime is how long routes are kept as stale after the connection was lost, and again how
	// long they wait for End-of-RIB after the router is back. 0: withdrawn at once.
	StaleTime time.Duration

	MaxPeers  int // BGP peers of the router; default 1024. Further ones are ignored
	MaxTables int // tables that it feeds; default 16. Further VRFs are ignored
	// MaxRoutes is how many routes it may bring; a router with more loses its connection and all
	// its routes, and is refused for 5 min. 0: no limit.
	MaxRoutes int
	// MaxAttributeBytes bounds the memory that the sets of path attributes of its peers take, in the same way:
	// rib.Peer.AttributeBytes of each, added up, so that a set which several peers have counts for each of them.
	// Default 1 GiB.
	MaxAttributeBytes int
	// NoAddPath says that Route Monitoring has no path identifiers though the BGP session has
	// ADD-PATH: FRR before 10 leaves them out.
	NoAddPath bool
}

// A Peer is what a policy may want to know of a BGP peer of a router.
type Peer struct {
	Router   string
	Addr     netip.Addr // of the peer; that of the router for its Loc-RIB
	AS       uint32
	LocalAS  uint32 // of the router
	Internal bool   // iBGP, or the router's Loc-RIB
	View     View
}

// PolicyFunc gives the import policy of a name for a peer. Names are tried at New and Reload with
// a Peer that has only a Router.
type PolicyFunc func(name string, peer Peer) (rib.Import, error)

// TableFunc gives the RIB of a table, which it may have to make: anew where a peer could not be
// added to the one before (rib.ErrTableGone). Safe for concurrent use.
type TableFunc func(name string) (*rib.RIB, error)

// withDefaults checks a configuration and fills in what it leaves open. The routers are a copy.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.OpenTimeout, 30 * time.Second}, {&c.ReadTimeout, 30 * time.Second}, {&c.KeepAlive, 30 * time.Second}, {&c.ConnectRetry, 30 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 {
			return c, fmt.Errorf("a time of %v: give a positive one", *d.value)
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if err := limits(limit{&c.MaxRouters, 256}, limit{&c.MaxHalfOpen, 64}); err != nil {
		return c, err
	}
	c.Routers = append([]RouterConfig(nil), c.Routers...)
	names, sources := make(map[string]bool), make(map[netip.Prefix]string)
	fixed := 0
	for i := range c.Routers {
		r := &c.Routers[i]
		if err := r.check(); err != nil {
			return c, fmt.Errorf("router %q: %w", r.Name, err)
		}
		if other, taken := sources[r.source()]; taken {
			return c, fmt.Errorf("router %q: %s is router %q: give each its own", r.Name, r.source(), other)
		}
		switch {
		case names[r.Name]:
			return c, fmt.Errorf("router %q is there twice: give each its own name", r.Name)
		case r.Port == 0 && len(c.Listen) == 0:
			return c, fmt.Errorf("router %q connects to us, but there is no address to listen at: give one, or the router's port", r.Name)
		}
		names[r.Name], sources[r.source()] = true, r.Name
		if r.Addr.IsValid() {
			fixed++
		}
	}
	if fixed > c.MaxRouters {
		return c, fmt.Errorf("%d routers: at most %d may be connected, raise the limit", fixed, c.MaxRouters)
	}
	return c, nil
}

type limit struct {
	value    *int
	fallback int
}

func limits(all ...limit) error {
	for _, l := range all {
		if *l.value == 0 {
			*l.value = l.fallback
		}
		if *l.value < 0 {
			return fmt.Errorf("a limit of %d: give a positive one", *l.value)
		}
	}
	return nil
}

// check fills in what a router's configuration leaves open and says what is wrong with it.
func (r *RouterConfig) check() error {
	r.Addr = r.Addr.Unmap()
	if r.Name == "" && r.Addr.IsValid() {
		r.Name = r.Addr.String()
	} else if r.Name == "" && r.Prefix.IsValid() {
		r.Name = strings.ReplaceAll(r.Prefix.String(), "/", "-")
	}
	if r.Table == "" {
		r.Table = rib.DefaultTable
	}
	if r.VRFTable == "" && strings.Contains(r.Table, "{rd}") {
		r.VRFTable = r.Table
	}
	switch {
	case strings.Contains(r.Name, "/"):
		return errors.New("no / in a name: it stands between a router and its peers")
	case r.Addr.IsValid() == r.Prefix.IsValid():
		return errors.New("give either its address or a prefix")
	case r.Addr.IsValid() && (r.Addr.IsUnspecified() || r.Addr.IsMulticast()):
		return fmt.Errorf("address %s is none of a host", r.Addr)
	case r.Prefix.IsValid() && r.Prefix != r.Prefix.Masked():
		return fmt.Errorf("prefix %s has host bits: write %s", r.Prefix, r.Prefix.Masked())
	case r.Prefix.IsValid() && r.Port != 0:
		return errors.New("a port is to connect to one router, and there is a prefix")
	case r.View != ViewFirst && r.View != ViewPre && r.View != ViewPost && r.View != ViewLocRIB:
		return fmt.Errorf("view %q is unknown: give pre, post or loc-rib", r.View)
	case r.VRFTable != "" && !strings.Contains(r.VRFTable, "{rd}"):
		return fmt.Errorf("table %q of its VRFs lacks {rd}: all of them would be one", r.VRFTable)
	case r.StaleTime < 0:
		return fmt.Errorf("a stale time of %v: give a positive one", r.StaleTime)
	case r.MaxRoutes < 0:
		return fmt.Errorf("a limit of %d routes: give a positive one", r.MaxRoutes)
	case r.MaxAttributeBytes < 0:
		return fmt.Errorf("a limit of %d bytes of attributes: give a positive one", r.MaxAttributeBytes)
	}
	return limits(limit{&r.Limit, 16}, limit{&r.MaxPeers, 1024}, limit{&r.MaxTables, 16}, limit{&r.MaxRoutes, 10_000_000}, limit{&r.MaxAttributeBytes, 1 << 30})
}

// source is where the router's connections come from.
func (r *RouterConfig) source() netip.Prefix {
	if r.Addr.IsValid() {
		return netip.PrefixFrom(r.Addr, r.Addr.BitLen())
	}
	return r.Prefix
}

// restarts tells whether a router with configuration r has to start anew to have the other one.
func (r RouterConfig) restarts(other RouterConfig) bool {
	for _, c := range []*RouterConfig{&r, &other} {
		c.Limit, c.Import, c.Optional, c.StaleTime, c.MaxPeers, c.MaxTables, c.MaxRoutes, c.MaxAttributeBytes = 0, "", false, 0, 0, 0, 0, 0
	}
	return r != other
}

// table names the table of a VRF for the router of that name; ok is false where there is none.
func (r *RouterConfig) table(router string, rd distinguisher) (name string, ok bool) {
	return r.tableOf(router, rd.String())
}

// tableOf is table for a distinguisher as people write it.
func (r *RouterConfig) tableOf(router, rd string) (name string, ok bool) {
	template := r.Table
	if rd != distinguisher(0).String() {
		template = r.VRFTable
	}
	return strings.NewReplacer("{router}", router, "{rd}", rd).Replace(template), template != ""
}
