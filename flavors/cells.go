package flavors

import "math"

// Cells are searched through pages, so that an edit can copy a few of them and share the rest.
// A page of 64 KiB keeps the page tables of a full routing table in the first-level cache.
const (
	pageBits  = 14
	pageCells = 1 << pageBits
	pageMask  = pageCells - 1
	cellSize  = 4 // bytes

	// maxCells is what addresses reach, the page behind the end and rounding taken off. It
	// matters where an int has 32 bits.
	maxCells = math.MaxInt/cellSize - 1<<22
)

type page = [pageCells]uint32

// emptyPage is the page of a level without nodes: a search may look at cell 0 of any level.
// Nothing writes to it.
var emptyPage page

// pagesOf gives the pages that cover n cells of all from base on. all must have room for a page
// behind its end: the last page may reach into what follows, where nobody looks.
func pagesOf(all []uint32, base, n int) []*page {
	all = all[:cap(all)]
	pages := make([]*page, 0, n>>pageBits+1)
	for i := 0; i < n; i += pageCells {
		pages = append(pages, (*page)(all[base+i:][:pageCells]))
	}
	if len(pages) == 0 {
		pages = append(pages, &emptyPage)
	}
	return pages
}

// A region is the memory of a whole image's cells. Trees hold it to keep its pages alive.
type region struct{ cells []uint32 }

// newRegion allocates n empty cells and room for one page behind them.
func newRegion(n int) (*region, error) {
	r, err := mapRegion(n + pageCells)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		r = &region{cells: make([]uint32, n+pageCells)}
	}
	r.cells = r.cells[:n]
	return r, nil
}
