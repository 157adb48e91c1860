// Package exact is the seam of tables that find exactly the key that is asked for, in batches: from a
// prefix to its handle, from an address to the answer it had. What implements it is in kernels/hash, on
// a GPU and on the processor.
package exact

import "errors"

var (
	// ErrFull is what Insert returns where a table that does not grow has no place for some of the keys.
	// All others of the batch are in.
	ErrFull = errors.New("table full")
	// ErrClosed is what the methods of a closed table return.
	ErrClosed = errors.New("table closed")
)

// A Table maps keys to values. K and V are numbers, or structs of numbers without a gap; every value of
// them can be stored.
//
// Batches may run concurrently. Each request of a batch takes effect at one moment between the call
// and its return, whatever else goes on, and the requests of one batch in no particular order: where a key is
// in an Insert twice, one of the two values stays.
type Table[K comparable, V any] interface {
	// Insert puts pairs in, in place of the value where a key is there already, and counts the keys that
	// were not. keys and values have the same length. ErrFull says that some had no place; an
	// error of memory leaves the table as it was.
	Insert(keys []K, values []V) (added int, err error)
	// Find gives every key's value, and zero where it is not there. found, as long as keys, says which
	// are there; it may be nil.
	Find(values []V, found []bool, keys []K) error
	// Delete takes keys out, and counts those that were there.
	Delete(keys []K) (deleted int, err error)
	// Len is the number of pairs.
	Len() int
	// All gives all pairs, in no order. It is not one moment's view while others change the table.
	All() (keys []K, values []V, err error)
	// Clone gives a copy for the caller to close. Nobody may change the table meanwhile.
	Clone() (Table[K, V], error)
	// Close frees the table. The methods of a closed one give ErrClosed.
	Close() error
}
