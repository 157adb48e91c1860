// Package cow has an array that is cheap to change by copy: what a change does not touch is
// shared between the old array and the new one. It lets a generation of routes or of tree
// nodes be made from the one before at the cost of what changed.
package cow

import "iter"

const (
	// A page of a generation's routes is 7 KiB. Of smaller ones what changes here and there copies less; their list,
	// which is copied for one change, is longer.
	pageBits = 7
	// PageSize is how many elements are copied together: from a multiple of it on.
	PageSize = 1 << pageBits
)

// An Array is an immutable array of T, in pages of PageSize elements. The zero value is empty.
// Copying an Array is cheap and shares its pages. Safe for concurrent use.
type Array[T any] struct {
	pages []*[PageSize]T
	len   int
}

// Of makes an array of the elements of s. It takes s over: the caller must not write to it.
func Of[T any](s []T) Array[T] {
	a := Array[T]{pages: make([]*[PageSize]T, 0, (len(s)+PageSize-1)/PageSize), len: len(s)}
	for ; len(s) >= PageSize; s = s[PageSize:] {
		a.pages = append(a.pages, (*[PageSize]T)(s))
	}
	if len(s) > 0 { // the last page is completed so that every page is whole
		last := new([PageSize]T)
		copy(last[:], s)
		a.pages = append(a.pages, last)
	}
	return a
}

// Len is the number of elements.
func (a Array[T]) Len() int { return a.len }

// At gives element i, and T's zero value for one that the array does not reach.
func (a Array[T]) At(i int) T {
	if uint(i) >= uint(a.len) {
		var zero T
		return zero
	}
	return a.pages[i>>pageBits][i&(PageSize-1)]
}

// Unshared gives the ranges of indexes, each from lo to below hi, in order, at which two arrays may
// differ: all but those of the pages that they share. It costs a look at each page.
func (a Array[T]) Unshared(b Array[T]) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for p := range max(len(a.pages), len(b.pages)) {
			shared := p < min(len(a.pages), len(b.pages)) && a.pages[p] == b.pages[p]
			if !shared && !yield(p*PageSize, (p+1)*PageSize) {
				return
			}
		}
	}
}

// Edit starts a change. The array itself stays as it is.
func (a Array[T]) Edit() *Edit[T] {
	e := &Edit[T]{pages: make([]*[PageSize]T, len(a.pages), len(a.pages)+1), len: a.len, own: make([]bool, len(a.pages), len(a.pages)+1)}
	copy(e.pages, a.pages)
	return e
}

// An Edit is an array being changed; pages are copied at their first change. It starts at the
// cost of 9 bytes per PageSize elements. Not safe for concurrent use, but for At and Set of elements that it
// reaches (Grow) on different pages. Not to be used after Done.
type Edit[T any] struct {
	pages []*[PageSize]T
	own   []bool // the page was made by this edit
	len   int
}

// Len is the number of elements.
func (e *Edit[T]) Len() int { return e.len }

// At gives element i, and T's zero value for one that the array does not reach.
func (e *Edit[T]) At(i int) T {
	if uint(i) >= uint(e.len) {
		var zero T
		return zero
	}
	return e.pages[i>>pageBits][i&(PageSize-1)]
}

// Set changes element i, growing the array to reach it. It panics for a negative i.
func (e *Edit[T]) Set(i int, v T) {
	e.Grow(i + 1)
	p := i >> pageBits
	if !e.own[p] {
		mine := *e.pages[p]
		e.pages[p] = &mine
		e.own[p] = true
	}
	e.pages[p][i&(PageSize-1)] = v
}

// Append adds one element and gives its index.
func (e *Edit[T]) Append(v T) int {
	i := e.len
	e.Set(i, v)
	return i
}

// Grow extends the array to n elements at least, the new ones of T's zero value.
func (e *Edit[T]) Grow(n int) {
	if n <= e.len {
		return
	}
	for len(e.pages)*PageSize < n {
		e.pages = append(e.pages, new([PageSize]T))
		e.own = append(e.own, true)
	}
	e.len = n
}

// Done ends the change and gives the new array.
func (e *Edit[T]) Done() Array[T] {
	a := Array[T]{pages: e.pages, len: e.len}
	*e = Edit[T]{}
	return a
}
