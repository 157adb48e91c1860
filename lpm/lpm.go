// Package lpm is the vocabulary of ribwarp and the seam between its parts: what a route in a
// table is called (Handle), what builds tables (Engine), what answers lookups (Table) and what
// a consistent world to look things up in is (Generation).
//
// It imports nothing else of ribwarp but its persistent array (lpm/cow). Routes come from
// package rib, tables from package flavors; neither knows the other.
package lpm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// A Handle names a route in one generation's table. None is "no route"; handles are otherwise
// chosen by whoever builds the table (dense small numbers are best, they index arrays).
// Within one table a handle names one prefix of one family, or one prefix of each.
type Handle uint32

const (
	// None is the handle of no route: what a lookup gives where nothing matches.
	None Handle = 0
	// MaxHandle is the largest handle a table can hold. The bit above it tells cells that
	// hold a child from cells that hold a handle.
	MaxHandle Handle = 1<<31 - 1
)

// Errors that callers branch on.
var (
	// ErrClosed is what lookups in a closed Table and all that a closed Engine is asked to make
	// return.
	ErrClosed = errors.New("closed")
	// ErrForeignTable is what Engine.Update returns for a table of another engine.
	ErrForeignTable = errors.New("table was not built by this engine")
	// ErrLost is what an accelerated engine and its tables return once their device is lost: they
	// will not work again in this process.
	ErrLost = errors.New("device lost")
	// ErrMemory is what an accelerated engine returns when its device has not enough free memory.
	// The tables before are intact; a later try can succeed.
	ErrMemory = errors.New("out of device memory")
)

// Addr6 is an IPv6 address as two 64-bit words, most significant first. It is 16 bytes without
// a pointer, half of a netip.Addr, so that a batch of them is plain memory.
type Addr6 struct{ Hi, Lo uint64 }

// Addr4 gives the 32-bit number of an IPv4 or IPv4-mapped address, most significant byte first.
// It panics for any other address, as netip.Addr.As4 does.
func Addr4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// Addr16 gives the 128-bit number of an address; an IPv4 address gives its IPv4-mapped form.
func Addr16(a netip.Addr) Addr6 {
	b := a.As16()
	return Addr6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Netip4 is the inverse of Addr4.
func Netip4(a uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], a)
	return netip.AddrFrom4(b)
}

// Netip is the inverse of Addr16 for IPv6 addresses.
func (a Addr6) Netip() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
	return netip.AddrFrom16(b)
}

// Compare orders addresses as numbers: -1, 0 or +1.
func (a Addr6) Compare(b Addr6) int {
	switch {
	case a == b:
		return 0
	case a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo:
		return -1
	}
	return +1
}

// Route4 is an IPv4 prefix and its handle as an engine takes them: 12 bytes, no pointer.
// Bits is 0 to 32 and the bits of Addr behind it are zero.
type Route4 struct {
	Addr   uint32
	Handle Handle
	Bits   uint8
}

// Route6 is an IPv6 prefix and its handle as an engine takes them: 24 bytes, no pointer.
// Bits is 0 to 128 and the bits of Addr behind it are zero.
type Route6 struct {
	Addr   Addr6
	Handle Handle
	Bits   uint8
}

// Prefix gives the route's prefix.
func (r Route4) Prefix() netip.Prefix { return netip.PrefixFrom(Netip4(r.Addr), int(r.Bits)) }

// Prefix gives the route's prefix.
func (r Route6) Prefix() netip.Prefix { return netip.PrefixFrom(r.Addr.Netip(), int(r.Bits)) }

// Routes is a set of routes, or of changes to one, in no particular order. As a change, a route
// with handle None takes the prefix away. Where a prefix occurs twice the later one counts.
type Routes struct {
	V4 []Route4
	V6 []Route6
}

// Add appends one route. p must be valid; host bits are cleared.
func (r *Routes) Add(p netip.Prefix, h Handle) {
	p = p.Masked()
	if p.Addr().Is4() {
		r.V4 = append(r.V4, Route4{Addr: Addr4(p.Addr()), Handle: h, Bits: uint8(p.Bits())})
		return
	}
	r.V6 = append(r.V6, Route6{Addr: Addr16(p.Addr()), Handle: h, Bits: uint8(p.Bits())})
}

// Len is the number of routes of both families.
func (r Routes) Len() int { return len(r.V4) + len(r.V6) }

// Validate reports the first route that no engine would take: bits out of range, host bits
// set, or a handle above MaxHandle.
func (r Routes) Validate() error {
	for i, x := range r.V4 {
		if x.Bits > 32 || x.Bits < 32 && x.Addr<<x.Bits != 0 || x.Handle > MaxHandle {
			return fmt.Errorf("IPv4 route %d (address %s, %d bits, handle %d): bits above 32, host bits set, or handle above %d", i, Netip4(x.Addr), x.Bits, x.Handle, MaxHandle)
		}
	}
	for i, x := range r.V6 {
		if x.Bits > 128 || x.Addr.shl(x.Bits) != (Addr6{}) || x.Handle > MaxHandle {
			return fmt.Errorf("IPv6 route %d (address %s, %d bits, handle %d): bits above 128, host bits set, or handle above %d", i, x.Addr.Netip(), x.Bits, x.Handle, MaxHandle)
		}
	}
	return nil
}

// shl shifts left by n bits, 0 to 128.
func (a Addr6) shl(n uint8) Addr6 {
	if n >= 64 {
		return Addr6{Hi: a.Lo << (n - 64)}
	}
	return Addr6{Hi: a.Hi<<n | a.Lo>>(64-n), Lo: a.Lo << n}
}

// An Engine builds tables. Its methods may be called concurrently.
type Engine interface {
	// Name is a short stable word for status pages and metrics, such as "cpu".
	Name() string
	// Build makes a table of exactly the given routes. It does not keep or change the slices.
	// It costs what the table does. An error leaves nothing behind.
	Build(ctx context.Context, routes Routes) (Table, error)
	// Update makes a table that is prev with the changes applied; prev stays as it is and
	// keeps answering. Withdrawals (handle None) are applied before announcements, whatever
	// their order, so a handle may move from one prefix to another in one call. Withdrawing a
	// prefix that prev lacks does nothing. It costs what the changes touch, not the table.
	// Tables form a line, not a tree: only the newest one may be updated.
	Update(ctx context.Context, prev Table, changes Routes) (Table, error)
	// Close frees what the engine holds. Tables that it built stay usable until closed.
	Close() error
}

// A Table answers which prefix matches. It is immutable and safe for concurrent use.
// After Close the lookups return ErrClosed, and the other methods find nothing.
type Table interface {
	// Lookup4 puts the handle of the longest matching prefix of every address into dst, None
	// where nothing matches. dst must be as long as addrs. It allocates nothing.
	Lookup4(dst []Handle, addrs []uint32) error
	// Lookup6 is Lookup4 for IPv6.
	Lookup6(dst []Handle, addrs []Addr6) error
	// Find gives the handle of exactly this prefix, None if the table lacks it.
	Find(p netip.Prefix) Handle
	// Covering appends the handles of all prefixes that contain p, p itself among them if it
	// is in the table, longest first. For an address pass its host prefix.
	Covering(dst []Handle, p netip.Prefix) []Handle
	// Covered appends the handles of the prefixes inside p, p itself among them, in order of
	// address and then length, at most limit of them (all if limit is negative).
	Covered(dst []Handle, p netip.Prefix, limit int) []Handle
	// Info describes the table. It walks the structure: for status pages, not for hot paths.
	Info() Info
	// Close frees the table. Call it when no lookup is running; a second call does nothing.
	Close() error
}

// Info describes a table.
type Info struct {
	Engine   string       `json:"engine"`
	Flavor   string       `json:"flavor"`
	Families []FamilyInfo `json:"families"`
	// ExactBytes is the memory of the table of prefixes beside the trees, where there is one (package index).
	ExactBytes uint64 `json:"exact_bytes,omitempty"`
	// Accelerator describes the form of the table that large batches are answered from, where there
	// is one (Failover).
	Accelerator *Info `json:"accelerator,omitempty"`
}

// Bytes is the memory of all families and of the table of prefixes.
func (i Info) Bytes() (n uint64) {
	n = i.ExactBytes
	for _, f := range i.Families {
		n += f.Bytes
	}
	return n
}

// FamilyInfo describes the tree of one address family.
type FamilyInfo struct {
	Family   string      `json:"family"` // "ipv4" or "ipv6"
	Prefixes int         `json:"prefixes"`
	Strides  []int       `json:"strides"`
	Bytes    uint64      `json:"bytes"` // cells, list heads and list entries
	Levels   []LevelInfo `json:"levels"`
}

// LevelInfo describes one level of a tree.
type LevelInfo struct {
	Stride      int    `json:"stride"` // bits
	Nodes       int    `json:"nodes"`
	Cells       int    `json:"cells"` // nodes * 2^stride
	Bytes       uint64 `json:"bytes"`
	Masks       int    `json:"masks"`      // prefixes in the level's containers
	Containers  int    `json:"containers"` // nodes whose container is not empty
	LongestList int    `json:"longest_list"`
	// ListLengths[i] counts the containers of 2^(i-1) to 2^i - 1 masks; [0] the empty ones.
	ListLengths []int `json:"list_lengths"`
}
