package rpki

import (
	"fmt"
	"slices"
)

// An edit is what one prefix PDU does to a table.
type edit struct {
	record
	announce bool // else withdraw
}

// A delta is what one response of a cache does to a table, in the order of its PDUs.
type delta struct {
	v4, v6 []edit
}

// add notes what a PDU does. The VRP was checked.
func (d *delta) add(v VRP, announce bool) {
	if r, v6 := recordOf(v); v6 {
		d.v6 = append(d.v6, edit{r, announce})
	} else {
		d.v4 = append(d.v4, edit{r, announce})
	}
}

func (d *delta) len() int { return len(d.v4) + len(d.v6) }

// An editError is an edit that does not fit the table: of a VRP that was announced before, or
// withdrawn and never announced.
type editError struct {
	vrp      VRP
	announce bool
}

func (e editError) Error() string {
	if e.announce {
		return fmt.Sprintf("%s is announced twice", e.vrp)
	}
	return fmt.Sprintf("%s is withdrawn and not there", e.vrp)
}

// apply gives the table that a delta makes of t, which stays as it is; an editError where an edit
// does not fit. It costs the size of the table.
func (d *delta) apply(t *Table) (*Table, error) {
	if t == nil {
		t = new(Table)
	}
	v4, err := merge(t.v4.records, d.v4, false)
	if err != nil {
		return nil, err
	}
	v6, err := merge(t.v6.records, d.v6, true)
	if err != nil {
		return nil, err
	}
	return tableOf(v4, v6), nil
}

// merge has edits change sorted records. The edits of one VRP count in their order.
func merge(records []record, edits []edit, v6 bool) ([]record, error) {
	slices.SortStableFunc(edits, func(a, b edit) int { return compare(a.record, b.record) })
	merged := make([]record, 0, len(records)+len(edits))
	for i := 0; i < len(edits); {
		r := edits[i].record
		n, there := slices.BinarySearchFunc(records, r, compare)
		merged, records = append(merged, records[:n]...), records[n:]
		if there {
			records = records[1:]
		}
		for ; i < len(edits) && same(edits[i].record, r); i++ {
			if edits[i].announce == there {
				return nil, editError{r.vrp(v6), there}
			}
			there = edits[i].announce
		}
		if there {
			merged = append(merged, r)
		}
	}
	return append(merged, records...), nil
}
