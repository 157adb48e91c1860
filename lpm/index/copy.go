package index

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/lpm"
)

// copy is one table of prefixes. An IPv4 prefix is its own key, and its handle the value. An IPv6 prefix
// does not fit into a key, so that is its hash, and the value is the place of an entry that has the prefix: a
// prefix is never found by its hash alone. Prefixes that share a hash are linked.
type copy struct {
	table   Table
	seed    maphash.Seed
	entries []entry
	vacant  uint32 // first of the entries that are not used, linked by next; 0 is none

	counted int // routes, by the engine

	// The line's, under its mutex.
	number int // of the table whose routes it holds
	users  int // tables that read it
	size   int // bytes when the line had it last: who follows the line changes it without the mutex
}

// entry is an IPv6 prefix. Entry 0 is nobody's, so that 0 ends a chain.
type entry struct {
	addr   lpm.Addr6
	handle lpm.Handle
	next   uint32
	bits   uint8
}

// wide marks the keys of IPv6 prefixes; those of IPv4 prefixes have 40 bits.
const wide = 1 << 63

func key4(addr uint32, bits uint8) uint64 { return uint64(addr)<<8 | uint64(bits) }

func (c *copy) key6(addr lpm.Addr6, bits uint8) uint64 {
	var b [17]byte
	binary.LittleEndian.PutUint64(b[:], addr.Hi)
	binary.LittleEndian.PutUint64(b[8:], addr.Lo)
	b[16] = bits
	return maphash.Bytes(c.seed, b[:])&hashed | wide
}

// hashed are the bits of a hash that are used. Tests take some away: they have no other way to prefixes
// that share one.
var hashed = ^uint64(0)

// newCopy makes a copy of exactly the given routes in an empty table. Of a prefix that occurs twice the
// later route counts.
func newCopy(t Table, seed maphash.Seed, routes lpm.Routes) (*copy, error) {
	c := &copy{table: t, seed: seed, entries: make([]entry, 1, 1+len(routes.V6))}
	keys, values := make([]uint64, 0, routes.Len()), make([]uint32, 0, routes.Len())
	for _, r := range routes.V4 {
		if r.Handle != lpm.None {
			keys, values = append(keys, key4(r.Addr, r.Bits)), append(values, uint32(r.Handle))
		}
	}
	for _, r := range routes.V6 {
		if r.Handle != lpm.None {
			keys, values = append(keys, c.key6(r.Addr, r.Bits)), append(values, uint32(len(c.entries)))
			c.entries = append(c.entries, entry{addr: r.Addr, bits: r.Bits, handle: r.Handle})
		}
	}
	added, err := t.Insert(keys, values)
	if err != nil || added == routes.Len() {
		return c, err
	}
	// Something occurs twice, or two prefixes share a hash: one after the other.
	if _, err := t.Delete(keys); err != nil {
		return c, err
	}
	c.entries = c.entries[:1]
	return c, c.apply(routes)
}

// apply makes changes. Of a prefix that occurs twice the later change counts. After an error the copy is of
// no use.
func (c *copy) apply(changes lpm.Routes) error {
	put, gone := map[uint64]uint32{}, map[uint64]bool{}
	set := func(key uint64, value uint32) {
		if value == 0 {
			gone[key] = true
			delete(put, key)
		} else {
			put[key] = value
			delete(gone, key)
		}
	}
	for _, r := range changes.V4 {
		set(key4(r.Addr, r.Bits), uint32(r.Handle)) // lpm.None is 0
	}
	keys := make([]uint64, len(changes.V6))
	for i, r := range changes.V6 {
		keys[i] = c.key6(r.Addr, r.Bits)
	}
	heads := make([]uint32, len(keys))
	if len(keys) > 0 {
		if err := c.table.Find(heads, nil, keys); err != nil {
			return err
		}
	}
	for i, r := range changes.V6 {
		head := heads[i]
		if v, ok := put[keys[i]]; ok {
			head = v
		} else if gone[keys[i]] {
			head = 0
		}
		set(keys[i], c.change(head, r))
	}
	if len(gone) > 0 {
		keys := make([]uint64, 0, len(gone))
		for key := range gone {
			keys = append(keys, key)
		}
		if _, err := c.table.Delete(keys); err != nil {
			return err
		}
	}
	if len(put) == 0 {
		return nil
	}
	keys, values := make([]uint64, 0, len(put)), make([]uint32, 0, len(put))
	for key, value := range put {
		keys, values = append(keys, key), append(values, value)
	}
	_, err := c.table.Insert(keys, values)
	return err
}

// change makes a change to the chain that begins with the given entry, and gives the chain's first one then.
func (c *copy) change(head uint32, r lpm.Route6) uint32 {
	before := uint32(0)
	for at := head; at != 0; before, at = at, c.entries[at].next {
		e := &c.entries[at]
		if e.addr != r.Addr || e.bits != r.Bits {
			continue
		}
		if r.Handle != lpm.None {
			e.handle = r.Handle
			return head
		}
		if before == 0 {
			head = e.next
		} else {
			c.entries[before].next = e.next
		}
		*e = entry{next: c.vacant}
		c.vacant = at
		return head
	}
	if r.Handle == lpm.None {
		return head
	}
	at := c.vacant
	if at == 0 {
		at = uint32(len(c.entries))
		c.entries = append(c.entries, entry{})
	} else {
		c.vacant = c.entries[at].next
	}
	c.entries[at] = entry{addr: r.Addr, bits: r.Bits, handle: r.Handle, next: head}
	return at
}

// question is the memory that finding takes, kept for the next time.
type question struct {
	keys   []uint64
	values []uint32
	one    [1]netip.Prefix
	dst    [1]lpm.Handle
}

var questions = sync.Pool{New: func() any { return new(question) }}

// find puts the handle of every prefix into dst.
func (c *copy) find(q *question, dst []lpm.Handle, prefixes []netip.Prefix) error {
	const piece = 1 << 16
	for len(prefixes) > 0 {
		n := min(len(prefixes), piece)
		q.keys, q.values = q.keys[:0], slices.Grow(q.values[:0], n)[:n]
		for _, p := range prefixes[:n] {
			q.keys = append(q.keys, c.key(p))
		}
		if err := c.table.Find(q.values, nil, q.keys); err != nil {
			return err
		}
		for i, p := range prefixes[:n] {
			dst[i] = lpm.Handle(q.values[i])
			if q.keys[i]&wide != 0 {
				dst[i] = c.verify(q.values[i], p)
			}
		}
		prefixes, dst = prefixes[n:], dst[n:]
	}
	return nil
}

// invalid is the key of what is no prefix: nothing has it.
const invalid = wide - 1

func (c *copy) key(p netip.Prefix) uint64 {
	switch {
	case !p.IsValid():
		return invalid
	case p.Addr().Is4():
		return key4(lpm.Addr4(p.Masked().Addr()), uint8(p.Bits()))
	}
	return c.key6(lpm.Addr16(p.Masked().Addr()), uint8(p.Bits()))
}

// verify gives the handle of an IPv6 prefix from the chain of those that share its hash.
func (c *copy) verify(head uint32, p netip.Prefix) lpm.Handle {
	if head == 0 {
		return lpm.None
	}
	addr, bits := lpm.Addr16(p.Masked().Addr()), uint8(p.Bits())
	for at := head; at != 0; at = c.entries[at].next {
		if e := &c.entries[at]; e.addr == addr && e.bits == bits {
			return e.handle
		}
	}
	return lpm.None
}

// clone gives a copy of a copy, which nobody may change meanwhile.
func (c *copy) clone() (*copy, error) {
	t, err := c.table.Clone()
	if err != nil {
		return nil, err
	}
	return &copy{table: t, seed: c.seed, entries: slices.Clone(c.entries), vacant: c.vacant, number: c.number}, nil
}

// bytes is the copy's memory, as far as the table says.
func (c *copy) bytes() int {
	n := cap(c.entries) * int(unsafe.Sizeof(entry{}))
	if t, ok := c.table.(interface{ Bytes() int }); ok {
		n += t.Bytes()
	}
	return n
}

func (c *copy) close() { _ = c.table.Close() } // nobody is left to tell
