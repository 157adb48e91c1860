package annotate

import (
	"sync/atomic"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	cellSize = 64 // one cache line: a length byte and the tail
	cellText = cellSize - 1
	longTail = 255 // as length byte: the tail is in tailPage.long
	pageBits = 8
	pageSize = 1 << pageBits
)

// tails caches what is written behind a record by the handle of its route. Routes come in pages
// of 256 that are rendered whole when one of them is first wanted: a short input touches a few
// pages, a long one all of them, and then a record costs one cache line. It takes at most 64
// bytes a route, and more only for tails that are longer.
type tails struct {
	gen   *rib.Generation
	of    func(dst []byte, r rib.Route) []byte
	none  []byte // the tail of no route
	pages []atomic.Pointer[tailPage]
}

type tailPage struct {
	long  *[pageSize][]byte // nil unless a tail of the page is long
	cells [pageSize][cellSize]byte
}

func newTails(gen *rib.Generation, of func([]byte, rib.Route) []byte) *tails {
	return &tails{
		gen:   gen,
		of:    of,
		none:  of(nil, rib.Route{}),
		pages: make([]atomic.Pointer[tailPage], (gen.Routes.Len()+pageSize-1)/pageSize),
	}
}

// page gives the page of a handle, nil for a handle that names no route.
func (t *tails) page(h lpm.Handle) *tailPage {
	i := int(h >> pageBits)
	if i >= len(t.pages) {
		return nil
	}
	if p := t.pages[i].Load(); p != nil {
		return p
	}
	return t.render(i)
}

// render makes page i. Two workers may both do it; they make the same bytes and either may win.
func (t *tails) render(i int) *tailPage {
	p := new(tailPage)
	var buf []byte
	for j := range p.cells {
		buf = t.of(buf[:0], t.gen.Route(lpm.Handle(i<<pageBits|j)))
		if len(buf) <= cellText {
			p.cells[j][0] = byte(copy(p.cells[j][1:], buf))
			continue
		}
		if p.long == nil {
			p.long = new([pageSize][]byte)
		}
		p.long[j] = append([]byte(nil), buf...)
		p.cells[j][0] = longTail
	}
	t.pages[i].Store(p)
	return p
}
