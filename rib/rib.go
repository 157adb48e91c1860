package rib

import (
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// A Route is the best route to a prefix, as a generation holds it. The zero Route is no route.
type Route struct {
	Prefix netip.Prefix
	Path   Path
	Peer   *Peer
	PathID uint32 // ADD-PATH identifier (RFC 7911), 0 without
	// Stale says that the route is kept from a lost session or from before a restart, until the
	// peer announces it again or is given up (RFC 4724, 4.2).
	Stale bool
}

// A Generation is a published table with its routes.
type Generation = lpm.Generation[Route]

// NLRI is a prefix as a peer names it. PathID is 0 without ADD-PATH.
type NLRI struct {
	Prefix netip.Prefix
	PathID uint32
}

// An Update is what one message of a peer changes: Unreach is withdrawn first, then Reach is
// announced with Attrs. Prefixes are masked (no host bits). One Update may mix both families;
// a message whose families have different next hops is two Updates.
type Update struct {
	Unreach []NLRI
	Reach   []NLRI
	Attrs   Attrs
}

// PeerKind says where a peer's routes come from.
type PeerKind string

const (
	KindBGP  PeerKind = "bgp"
	KindBMP  PeerKind = "bmp" // a peer of a router that mirrors it (RFC 7854)
	KindMRT  PeerKind = "mrt"
	KindList PeerKind = "list"
)

// session tells whether such a peer comes and goes, established and down; others are read.
func (k PeerKind) session() bool { return k == KindBGP || k == KindBMP }

// PeerConfig describes a source of routes.
type PeerConfig struct {
	Name string // unique in a RIB; shown to people and used as a metric label
	Kind PeerKind
	Addr netip.Addr // zero for lists
	AS   uint32     // 0 for lists
	// RouterID is the BGP identifier where it is known before Up (MRT peer tables).
	RouterID netip.Addr
	// Awaited makes readiness wait for this peer's first load (Peer.SetAwaited changes it).
	Awaited bool
}

// Session is what is known of an established session.
type Session struct {
	RouterID netip.Addr // the peer's BGP identifier
	Internal bool       // iBGP
	IPv4     bool       // families negotiated: End-of-RIB is awaited for each
	IPv6     bool
	// KeepIPv4 and KeepIPv6 have Up leave the stale routes of a family until its End-of-RIB: the
	// peer's OPEN says that it forwarded on through its restart (RFC 4724, 4.2).
	KeepIPv4 bool
	KeepIPv6 bool
}

// PeerStatus is a peer as status pages show it.
type PeerStatus struct {
	Name      string
	Kind      PeerKind
	Addr      netip.Addr
	AS        uint32
	RouterID  netip.Addr
	State     string // "established", "loading", "loaded", "stale", "down"
	Since     time.Time
	LastError string // why it is down or stale, empty otherwise
	V4, V6    int    // routes in its Adj-RIB-In
	Updates   uint64 // messages or records applied
	Crowded   uint64 // announcements left out, of more than MaxPaths to a prefix
	EndOfRIB4 bool
	EndOfRIB6 bool
	Loaded    bool // the first load is complete
	Awaited   bool
	// Stale4 and Stale6 of V4 and V6 are kept from a lost session or a saved generation, since
	// StaleSince (zero where there are none).
	Stale4, Stale6 int
	StaleSince     time.Time
	// Rejected counts by reason the paths of V4 and V6 that are not chosen; none at Accepted.
	Rejected [NumRejects]int
	// AttributeBytes is what Peer.AttributeBytes gives.
	AttributeBytes int64
}
