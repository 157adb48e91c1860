package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// arrowStream is what a request in Arrow's stream format works with. It is pooled and takes some
// 20 MB with a full table.
type arrowStream struct {
	pieces [3]*arrowPiece
	routes numbering // of handles
	out    output
	v4     []uint32
	v6     []lpm.Addr6
	h4, h6 []lpm.Handle
	rows4  []int32 // where the addresses of v4 stand
	rows6  []int32
}

var arrowStreams = sync.Pool{New: func() any {
	return &arrowStream{pieces: [3]*arrowPiece{new(arrowPiece), new(arrowPiece), new(arrowPiece)}}
}}

// lookupArrow answers a stream of record batches with one column, of addresses, by a stream of
// record batches of the routes that carry them, row for row. Batches are read and looked up here,
// while a second goroutine makes and writes the answers to those before.
func (a *API) lookupArrow(c *gin.Context, v *view) {
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	switch seen, ok := a.seenFrom(c, v, g); {
	case !ok:
		return
	case seen != nil: // it may have routes that the generation has no handle for
		a.refuse(c, http.StatusBadRequest, "%s is not for Arrow, whose answers are of the table itself: ask in another form, such as text/csv", fromParameter)
		return
	}
	ctl := http.NewResponseController(c.Writer)
	_ = ctl.EnableFullDuplex()
	s := arrowStreams.Get().(*arrowStream)
	defer arrowStreams.Put(s)
	s.out.begin(a.emitter(c, contentTypes[formArrow]))
	defer func() { s.out.emit = nil }()

	progress := a.deps.Limits.Progress
	_ = ctl.SetReadDeadline(time.Now().Add(progress))
	in, err := newArrowReader(c.Request.Body)
	if err != nil {
		a.arrowFailed(c, g, err)
		return
	}
	counts := a.metrics.lookups.shard()
	answer := newArrowWriter(g, &v.arrow, &s.out)
	defer answer.release()
	writer := newRelay(s.pieces[:], func(p *arrowPiece) error {
		push := p.push
		if err := answer.write(p); err != nil || !push {
			return err
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		_ = ctl.Flush() // the client may wait for this answer before it sends more
		return nil
	}, func() { _ = ctl.SetReadDeadline(time.Now()) })
	read := func() error {
		piece, ok := writer.take()
		for ok {
			_ = ctl.SetReadDeadline(time.Now().Add(progress))
			if writer.failed.Load() {
				return nil
			}
			batch, err := in.next()
			if err != nil || batch == nil {
				return err
			}
			rows := batch.Len()
			for from := 0; ok && (from < rows || rows == 0); from += arrowRows {
				to := min(from+arrowRows, rows)
				if err := s.find(g.Table, piece, batch, from, to); err != nil {
					return err
				}
				s.routes.reset(g.Routes.Len())
				var addrs []uint32
				if v4, ok := batch.(*array.Uint32); ok {
					addrs = v4.Uint32Values()[from:to]
				}
				piece.number(&s.routes, addrs)
				counts.addTally(endpointStream, piece.tally)
				piece.push = to == rows
				writer.hand(piece)
				piece, ok = writer.take()
				if rows == 0 {
					break
				}
			}
		}
		return nil
	}
	defer func() { _ = writer.end() }() // before the pieces go back, whatever happens
	readErr := read()
	err = writer.end()
	if err == nil {
		err = readErr
	}
	if err == nil {
		err = answer.end()
	}
	if err != nil {
		a.arrowFailed(c, g, err)
	}
}

// arrowFailed ends a request that cannot be completed: by a problem if the answer has not begun.
func (a *API) arrowFailed(c *gin.Context, g *rib.Generation, err error) {
	var broken codingError
	var bad arrowError
	switch {
	case c.Writer.Written():
	case errors.As(err, &broken):
		a.refuse(c, http.StatusBadRequest, "%v", broken)
		return
	case errors.As(err, &bad):
		a.refuse(c, bad.status, "%v", bad.err)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.metrics.aborted[abortTimeout].Inc()
		a.refuse(c, http.StatusRequestTimeout, "no whole record batch came in within %s", a.deps.Limits.Progress)
		return
	}
	a.cannotGoOn(c, g, err)
}

// find looks up the rows of a column from from to to.
func (s *arrowStream) find(t lpm.Table, p *arrowPiece, column arrow.Array, from, to int) (err error) {
	p.begin(to - from)
	if v4, ok := column.(*array.Uint32); ok {
		if err := t.Lookup4(p.handles[:p.n], v4.Uint32Values()[from:to]); err != nil {
			return tableError{err}
		}
		if column.NullN() > 0 {
			for i := from; i < to; i++ {
				if column.IsNull(i) {
					p.wrong(i - from)
				}
			}
		}
		p.tally.count(true, p.handles[:p.n])
		p.tally.miss4 -= uint64(len(p.bad))
		p.tally.invalid = uint64(len(p.bad))
		return nil
	}
	s.v4, s.v6, s.rows4, s.rows6 = s.v4[:0], s.v6[:0], s.rows4[:0], s.rows6[:0]
	if err := s.divide(p, column, from, to); err != nil {
		return err
	}
	s.h4, s.h6 = slices.Grow(s.h4[:0], len(s.v4))[:len(s.v4)], slices.Grow(s.h6[:0], len(s.v6))[:len(s.v6)]
	if err := t.Lookup4(s.h4, s.v4); err != nil {
		return tableError{err}
	}
	if err := t.Lookup6(s.h6, s.v6); err != nil {
		return tableError{err}
	}
	p.tally.count(true, s.h4)
	p.tally.count(false, s.h6)
	p.tally.invalid = uint64(len(p.bad))
	for i, row := range s.rows4 {
		p.handles[row] = s.h4[i]
	}
	for i, row := range s.rows6 {
		p.handles[row] = s.h6[i]
	}
	return nil
}

// divide puts the addresses of a column into those of IPv4 and of IPv6, and says which rows are
// none. Whatever a column claims to hold that it does not is an error.
func (s *arrowStream) divide(p *arrowPiece, column arrow.Array, from, to int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = arrowError{http.StatusBadRequest, fmt.Errorf("a record batch is not whole: %v", p)}
		}
	}()
	switch column := column.(type) {
	case *array.FixedSizeBinary:
		for i := from; i < to; i++ {
			b := column.Value(i)
			hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
			switch row := i - from; {
			case column.IsNull(i):
				p.wrong(row)
			case hi == 0 && lo>>32 == 0xffff: // an IPv4-mapped one
				s.v4, s.rows4 = append(s.v4, uint32(lo)), append(s.rows4, int32(row))
			default:
				s.v6, s.rows6 = append(s.v6, lpm.Addr6{Hi: hi, Lo: lo}), append(s.rows6, int32(row))
			}
		}
	case array.StringLike:
		for i := from; i < to; i++ {
			row := i - from
			if column.IsNull(i) {
				p.wrong(row)
				continue
			}
			switch ip, err := ParseAddr(column.Value(i)); {
			case err != nil:
				p.wrong(row)
			case ip.Is4():
				s.v4, s.rows4 = append(s.v4, lpm.Addr4(ip)), append(s.rows4, int32(row))
			default:
				s.v6, s.rows6 = append(s.v6, lpm.Addr16(ip)), append(s.rows6, int32(row))
			}
		}
	}
	return nil
}
