// Package cow has an array that is cheap to change by copy: what a change does not touch is
// shared between the old array and the new one. It lets a generation of routes or of tree
// nodes be made from the one before at the cost of what changed.
package cow

import "iter"

const (
	pageBits = 8
	pageSize = 1 << pageBits
)

// An Array is an immutable array of T, in pages of 256 elements. The zero value is empty.
// Copying an Array is cheap and shares its pages. Safe for concurrent use.
type Array[T any] struct {
	pages [][]T // each of pageSize elements
	len   int
}

// Of makes an array of the elements of s. It takes s over: the caller must not write to it.
func Of[T any](s []T) Array[T] {
	n := (len(s) + pageSize - 1) / pageSize
	a := Array[T]{pages: make([][]T, n), len: len(s)}
	for i := range a.pages {
		lo, hi := i*pageSize, (i+1)*pageSize
		if hi > len(s) { // the last page is completed so that every page is whole
			last := make([]T, pageSize)
			copy(last, s[lo:])
			a.pages[i] = last
			break
		}
		a.pages[i] = s[lo:hi:hi]
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
	return a.pages[i>>pageBits][i&(pageSize-1)]
}

// Unshared gives the ranges of indexes, each from lo to below hi, in order, at which two arrays may
// differ: all but those of the pages that they share. It costs a look at each page.
func (a Array[T]) Unshared(b Array[T]) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for p := range max(len(a.pages), len(b.pages)) {
			shared := p < min(len(a.pages), len(b.pages)) && &a.pages[p][0] == &b.pages[p][0]
			if !shared && !yield(p*pageSize, (p+1)*pageSize) {
				return
			}
		}
	}
}

// Edit starts a change. The array itself stays as it is.
func (a Array[T]) Edit() *Edit[T] {
	e := &Edit[T]{pages: make([][]T, len(a.pages), len(a.pages)+1), len: a.len, own: make([]bool, len(a.pages), len(a.pages)+1)}
	copy(e.pages, a.pages)
	return e
}

// An Edit is an array being changed; pages are copied at their first change. It starts at the
// cost of 24 bytes per 256 elements. Not safe for concurrent use, not to be used after Done.
type Edit[T any] struct {
	pages [][]T
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
	return e.pages[i>>pageBits][i&(pageSize-1)]
}

// Set changes element i, growing the array to reach it. It panics for a negative i.
func (e *Edit[T]) Set(i int, v T) {
	if i >= e.len {
		e.grow(i + 1)
	}
	p := i >> pageBits
	if !e.own[p] {
		e.pages[p] = append(make([]T, 0, pageSize), e.pages[p]...)
		e.own[p] = true
	}
	e.pages[p][i&(pageSize-1)] = v
}

// Append adds one element and gives its index.
func (e *Edit[T]) Append(v T) int {
	i := e.len
	e.Set(i, v)
	return i
}

// grow extends the array to n elements of T's zero value.
func (e *Edit[T]) grow(n int) {
	for len(e.pages)*pageSize < n {
		e.pages = append(e.pages, make([]T, pageSize))
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
