package lpm

import "net/netip"

// A Finder is a Table that finds many prefixes at once better than one after the other. It is
// optional; ask through FindAll.
type Finder interface {
	// FindAll puts the handle of exactly each prefix into dst, None where the table lacks it or
	// the prefix is invalid. dst must be as long as prefixes; host bits are ignored. After an error
	// dst holds nothing of use.
	FindAll(dst []Handle, prefixes []netip.Prefix) error
}

// A Wearer is a Table that may have lost something by updates that a build brings back. It is optional; ask
// through Worn.
type Wearer interface {
	// Worn tells whether the next table had better be built anew than updated. It says so seldom enough that who always
	// does so then spends little on it.
	Worn() bool
}

// Worn asks any table whether it is a worn Wearer.
func Worn(t Table) bool {
	w, ok := t.(Wearer)
	return ok && w.Worn()
}

// FindAll finds many prefixes in any table: through its Finder where it has one, else by one Find
// a prefix, which cannot fail. dst is as Finder has it. It is safe for concurrent use as the table is.
func FindAll(t Table, dst []Handle, prefixes []netip.Prefix) error {
	if f, ok := t.(Finder); ok {
		return f.FindAll(dst, prefixes)
	}
	for i, p := range prefixes {
		dst[i] = t.Find(p)
	}
	return nil
}
