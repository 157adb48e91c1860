package rpki

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

// A State is the outcome of origin validation (RFC 6811, 2.1).
type State uint8

const (
	// NotFound: no VRP covers the prefix.
	NotFound State = iota
	// Valid: a VRP covers the prefix, allows its length and names its origin.
	Valid
	// Invalid: VRPs cover the prefix, and none of them allows the route.
	Invalid
)

// String is "not-found", "valid" or "invalid".
func (s State) String() string {
	if s > Invalid {
		return fmt.Sprintf("state-%d", uint8(s))
	}
	return [...]string{"not-found", "valid", "invalid"}[s]
}

// A Table is a set of VRPs. It does not change; all methods are safe for concurrent use. The zero
// Table and nil are empty.
type Table struct {
	v4, v6 family
}

// A family has the VRPs of one sorted, each of them with the way to the next shorter prefix
// around it. Of the records that are in front of a prefix, the last one's prefix and those around
// it are all that can cover it.
type family struct {
	records []record
	// heads are the keys of every stride-th record: a search goes through these, which are dense,
	// and then through the few records behind one.
	heads []uint64
	v6    bool
}

// stride is how many records there are for a head; with 4 a search at random took a third longer.
const stride = 16

// key is the part of an address that heads have.
func (f *family) key(a lpm.Addr6) uint64 {
	if f.v6 {
		return a.Hi
	}
	return a.Lo
}

// NewTable makes a table of VRPs in any order; of several that are equal one counts. It fails
// with the first one that cannot be, which it names by its number. 600,000 take 100 ms, and 35
// bytes each.
func NewTable(vrps []VRP) (*Table, error) {
	var v4, v6 []record
	for i, v := range vrps {
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("VRP %d: %w", i+1, err)
		}
		if r, is6 := recordOf(v); is6 {
			v6 = append(v6, r)
		} else {
			v4 = append(v4, r)
		}
	}
	return tableOf(sorted(v4), sorted(v6)), nil
}

// sorted is the way that tableOf wants them.
func sorted(records []record) []record {
	slices.SortFunc(records, compare)
	return slices.CompactFunc(records, same)
}

// tableOf links records, which are the table's own from then on.
func tableOf(v4, v6 []record) *Table {
	t := &Table{v4: family{records: v4}, v6: family{records: v6, v6: true}}
	t.v4.link()
	t.v6.link()
	return t
}

func (f *family) link() {
	f.heads = make([]uint64, 0, (len(f.records)+stride-1)/stride)
	up := uint32(0) // behind the last record of the prefix that may be around the next one
	for i := 0; i < len(f.records); up = uint32(i) {
		first, r := i, f.records[i]
		for up > 0 && !f.records[up-1].covers(r.addr, r.bits) {
			up = f.records[up-1].up
		}
		for ; i < len(f.records) && comparePrefix(f.records[i], r) == 0; i++ {
			f.records[i].first, f.records[i].up = uint32(first), up
			if i%stride == 0 {
				f.heads = append(f.heads, f.key(r.addr))
			}
		}
	}
}

// find gives the index behind the records of the longest prefix that covers the one asked for,
// 0 where there is none.
func (t *Table) find(p netip.Prefix) (f *family, at uint32) {
	if t == nil || !p.IsValid() {
		return nil, 0
	}
	addr, bits, v6 := packed(p)
	f = &t.v4
	if v6 {
		f = &t.v6
	}
	at = f.upTo(addr, bits)
	for at > 0 && !f.records[at-1].covers(addr, bits) {
		at = f.records[at-1].up
	}
	return f, at
}

// upTo gives the index behind the last record that is in front of a prefix, or behind a few
// records that have its address and are longer: they are in whatever covers it.
func (f *family) upTo(addr lpm.Addr6, bits uint8) uint32 {
	if f.v6 && bits > 64 { // a key is too short
		i, _ := slices.BinarySearchFunc(f.records, record{addr: addr, bits: bits}, func(r, to record) int {
			return max(comparePrefix(r, to), 0)*2 - 1
		})
		return uint32(i)
	}
	key := f.key(addr)
	lo := 0
	for n := len(f.heads); n > 1; {
		half := n / 2
		if f.heads[lo+half] <= key {
			lo += half
		}
		n -= half
	}
	i := min((lo+1)*stride, len(f.records))
	for i > 0 && f.key(f.records[i-1].addr) > key {
		i--
	}
	return uint32(i)
}

// Validate says what the VRPs make of a route to a prefix without host bits. The origin is 0 for
// a route that has none, whose path ends in a set: it can be Invalid or NotFound only.
//
// With 600,000 VRPs it takes some 50 ns where prefixes come in order and 200 ns where they come in
// none, which is what memory takes. It allocates nothing. However many VRPs there are for one
// prefix, the time grows with the logarithm of their number.
func (t *Table) Validate(prefix netip.Prefix, origin uint32) State {
	f, at := t.find(prefix)
	if at == 0 {
		return NotFound
	}
	if origin == 0 {
		return Invalid // AS 0 in a VRP allows nobody
	}
	_, bits, _ := packed(prefix)
	for ; at > 0; at = f.records[at-1].up {
		if f.allows(at, origin, bits) {
			return Valid
		}
	}
	return Invalid
}

// allows tells whether one of the records of one prefix, which end before at, allows a route.
func (f *family) allows(at, asn uint32, bits uint8) bool {
	last := &f.records[at-1]
	group := f.records[last.first:at]
	i := len(group)
	if last.asn != asn && len(group) > 1 {
		i, _ = slices.BinarySearchFunc(group, asn, func(r record, asn uint32) int {
			if r.asn <= asn {
				return -1
			}
			return 1
		})
	}
	// Of one AS's records the last one allows most.
	return i > 0 && group[i-1].asn == asn && bits <= group[i-1].max
}

// Covering gives the VRPs whose prefix is the one asked for or around it, longest first: what
// Validate goes by.
func (t *Table) Covering(prefix netip.Prefix) []VRP {
	var found []VRP
	for f, at := t.find(prefix); at > 0; at = f.records[at-1].up {
		group := f.records[f.records[at-1].first:at]
		for i := range group {
			found = append(found, group[i].vrp(f.v6))
		}
	}
	return found
}

// All gives the VRPs: IPv4 first, by address, length, AS and maximum length.
func (t *Table) All() iter.Seq[VRP] {
	return func(yield func(VRP) bool) {
		if t == nil {
			return
		}
		for _, f := range []*family{&t.v4, &t.v6} {
			for i := range f.records {
				if !yield(f.records[i].vrp(f.v6)) {
					return
				}
			}
		}
	}
}

// Len is how many VRPs there are.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.v4.records) + len(t.v6.records)
}

// Equal tells whether two tables have the same VRPs.
func (t *Table) Equal(o *Table) bool {
	if t.Len() != o.Len() {
		return false
	}
	return t.Len() == 0 || t == o ||
		slices.EqualFunc(t.v4.records, o.v4.records, same) && slices.EqualFunc(t.v6.records, o.v6.records, same)
}

// Union gives the VRPs of all the tables.
func Union(tables ...*Table) *Table {
	tables = slices.DeleteFunc(slices.Clone(tables), func(t *Table) bool { return t.Len() == 0 })
	switch len(tables) {
	case 0:
		return nil
	case 1:
		return tables[0]
	}
	var v4, v6 []record
	for _, t := range tables {
		v4, v6 = append(v4, t.v4.records...), append(v6, t.v6.records...)
	}
	return tableOf(sorted(v4), sorted(v6))
}
