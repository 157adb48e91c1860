package rib

import (
	"maps"
	"net/netip"

	"github.com/ribwarp/ribwarp/lpm"
)

// A prefixKey is a prefix as plain numbers: netip.Prefix holds a pointer, and the collector
// would have to follow it in every entry of an index. Host bits are zero.
type prefixKey struct {
	hi, lo uint64 // the address; IPv4 in the lower half of hi
	bits   uint8
	v6     bool
}

// keyOf clears host bits. ok is false for the invalid prefix. An IPv4-mapped IPv6 prefix is an
// IPv6 one, as everywhere in ribwarp.
func keyOf(p netip.Prefix) (k prefixKey, ok bool) {
	if !p.IsValid() {
		return k, false
	}
	bits := uint8(p.Bits())
	if p.Addr().Is4() {
		return prefixKey{hi: uint64(lpm.Addr4(p.Addr()) &^ (1<<(32-bits) - 1)), bits: bits}, true
	}
	a := lpm.Addr16(p.Addr())
	switch { // a shift by 64 gives 0 in Go, so that the mask of a whole word needs no special case
	case bits < 64:
		a.Hi &^= 1<<(64-bits) - 1
		a.Lo = 0
	default:
		a.Lo &^= 1<<(128-bits) - 1
	}
	return prefixKey{hi: a.Hi, lo: a.Lo, bits: bits, v6: true}, true
}

// prefix is the inverse of keyOf.
func (k prefixKey) prefix() netip.Prefix {
	if k.v6 {
		return netip.PrefixFrom(lpm.Addr6{Hi: k.hi, Lo: k.lo}.Netip(), int(k.bits))
	}
	return netip.PrefixFrom(lpm.Netip4(uint32(k.hi)), int(k.bits))
}

// addTo appends the prefix to changes for an engine.
func (k prefixKey) addTo(changes *lpm.Routes, h lpm.Handle) {
	if k.v6 {
		changes.V6 = append(changes.V6, lpm.Route6{Addr: lpm.Addr6{Hi: k.hi, Lo: k.lo}, Handle: h, Bits: k.bits})
		return
	}
	changes.V4 = append(changes.V4, lpm.Route4{Addr: uint32(k.hi), Handle: h, Bits: k.bits})
}

// An index finds the handle of a prefix. Its maps hold no pointers, so the collector does not
// scan them: 20 to 40 bytes an IPv4 prefix and 40 to 75 an IPv6 one, as full as the maps are. There are many small ones, so
// that routes which come in order find theirs in the processor's cache.
type index struct {
	v4 [numShards]map[uint64]lpm.Handle // address<<8 | bits; nil: empty
	v6 [numShards]map[prefixKey6]lpm.Handle
}

const numShards = 256

// shard tells which map of its family a prefix is in: by the first byte of an IPv4 address, and by the first two of an IPv6
// one, of which each has few values.
func (k prefixKey) shard() int {
	if k.v6 {
		return int(uint8(k.hi>>56) ^ uint8(k.hi>>48))
	}
	return int(uint8(k.hi >> 24))
}

// prefixKey6 is an IPv6 prefix as a map key.
type prefixKey6 struct {
	hi, lo uint64
	bits   uint8
}

// reserve makes room for so many prefixes in a shard, unless it has some.
func (x *index) reserve(v6 bool, shard, n int) {
	switch {
	case v6 && x.v6[shard] == nil:
		x.v6[shard] = make(map[prefixKey6]lpm.Handle, n)
	case !v6 && x.v4[shard] == nil:
		x.v4[shard] = make(map[uint64]lpm.Handle, n)
	}
}

// fit makes a shard smaller for which much more room was reserved than it has prefixes: a map never shrinks.
func (x *index) fit(v6 bool, shard, reserved int) {
	if v6 {
		x.v6[shard] = fitted(x.v6[shard], reserved)
		return
	}
	x.v4[shard] = fitted(x.v4[shard], reserved)
}

func fitted[K comparable](m map[K]lpm.Handle, reserved int) map[K]lpm.Handle {
	switch {
	case len(m) == 0:
		return nil
	case 2*len(m) >= reserved:
		return m
	}
	small := make(map[K]lpm.Handle, len(m))
	maps.Copy(small, m)
	return small
}

// find gives lpm.None for a prefix that is not there.
func (x *index) find(k prefixKey) lpm.Handle {
	if k.v6 {
		return x.v6[k.shard()][prefixKey6{k.hi, k.lo, k.bits}]
	}
	return x.v4[k.shard()][k.hi<<8|uint64(k.bits)]
}

func (x *index) set(k prefixKey, h lpm.Handle) {
	s := k.shard()
	x.reserve(k.v6, s, 0)
	if k.v6 {
		x.v6[s][prefixKey6{k.hi, k.lo, k.bits}] = h
		return
	}
	x.v4[s][k.hi<<8|uint64(k.bits)] = h
}

// remove gives an empty shard's memory back: a map never shrinks.
func (x *index) remove(k prefixKey) {
	s := k.shard()
	if k.v6 {
		if delete(x.v6[s], prefixKey6{k.hi, k.lo, k.bits}); len(x.v6[s]) == 0 {
			x.v6[s] = nil
		}
		return
	}
	if delete(x.v4[s], k.hi<<8|uint64(k.bits)); len(x.v4[s]) == 0 {
		x.v4[s] = nil
	}
}
