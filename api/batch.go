package api

import (
	"net/netip"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	batchLines = 4096     // addresses that are looked up together
	outPiece   = 64 << 10 // answers are handed on when they are as long as this
	shownInput = 64       // bytes of a bad address that its error repeats
)

// A batch collects up to batchLines addresses and answers them in order, all from one
// generation. It is pooled and takes about half a megabyte.
type batch struct {
	counts   *lookupCounts
	endpoint endpoint
	gen      *rib.Generation
	// emit takes a piece of the answer; it must not keep it.
	emit func([]byte) error

	n     int
	items [batchLines]item
	v4    []uint32
	v6    []lpm.Addr6
	h4    [batchLines]lpm.Handle
	h6    [batchLines]lpm.Handle
	out   []byte
	more  bool // an answer was given: the next one of an array needs a comma
}

// An item is an address, or what stood where one should be.
type item struct {
	addr netip.Addr
	text []byte // of a bad address; belongs to the caller until it was answered
	line int    // of a bad address, in a stream; else 0
	err  error
}

// begin makes the batch ready for the answers to one request.
func (b *batch) begin(e endpoint, gen *rib.Generation, emit func([]byte) error) {
	b.endpoint, b.gen, b.emit = e, gen, emit
	b.n, b.v4, b.v6, b.out, b.more = 0, b.v4[:0], b.v6[:0], b.out[:0], false
}

// end forgets the request, so that a pooled batch keeps nothing of it alive.
func (b *batch) end() {
	clear(b.items[:])
	b.gen, b.emit = nil, nil
}

// full reports whether the batch must be answered before the next address.
func (b *batch) full() bool { return b.n == batchLines }

// add puts the address in text into the batch. line is its number for an error, 0 outside of
// streams. text must stay as it is until answer.
func (b *batch) add(text []byte, line int) {
	addr, err := parseAddrBytes(text)
	if err != nil {
		b.addBad(text, line, err)
		return
	}
	b.items[b.n] = item{addr: addr}
	b.n++
	if addr.Is4() {
		b.v4 = append(b.v4, lpm.Addr4(addr))
	} else {
		b.v6 = append(b.v6, lpm.Addr16(addr))
	}
}

// addBad puts something into the batch that is no address.
func (b *batch) addBad(text []byte, line int, err error) {
	b.items[b.n] = item{text: text, line: line, err: err}
	b.n++
}

// answer looks the addresses up, appends their answers to out, hands it on where it got long
// enough, and empties the batch.
func (b *batch) answer() error {
	if err := b.gen.Table.Lookup4(b.h4[:len(b.v4)], b.v4); err != nil {
		return tableError{err}
	}
	if err := b.gen.Table.Lookup6(b.h6[:len(b.v6)], b.v6); err != nil {
		return tableError{err}
	}
	h4, h6 := b.h4[:], b.h6[:]
	var tally lookupTally
	for i := range b.items[:b.n] {
		it := &b.items[i]
		if b.endpoint == endpointJSON && b.more {
			b.out = append(b.out, ',')
		}
		b.more = true
		switch {
		case it.err != nil:
			b.out = appendBad(b.out, it)
			tally.invalid++
		case it.addr.Is4():
			b.appendAnswer(it.addr, h4[0])
			tally.add(true, h4[0] != lpm.None)
			h4 = h4[1:]
		default:
			b.appendAnswer(it.addr, h6[0])
			tally.add(false, h6[0] != lpm.None)
			h6 = h6[1:]
		}
		if b.endpoint == endpointStream {
			b.out = append(b.out, '\n')
		}
		if len(b.out) >= outPiece {
			if err := b.flush(); err != nil {
				return err
			}
		}
	}
	b.counts.addTally(b.endpoint, tally)
	b.n, b.v4, b.v6 = 0, b.v4[:0], b.v6[:0]
	return nil
}

func (b *batch) appendAnswer(addr netip.Addr, h lpm.Handle) {
	b.out = AppendAnswer(b.out, addr, b.gen.Route(h), b.gen.Number)
}

// flush hands on what is answered so far.
func (b *batch) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	err := b.emit(b.out)
	b.out = b.out[:0]
	return err
}

// appendBad appends the error object of a bad address: {"ip":"...","line":N,"error":"..."},
// without the line outside of streams.
func appendBad(dst []byte, it *item) []byte {
	dst = append(dst, `{"ip":`...)
	dst = appendString(dst, cut(string(it.text[:min(len(it.text), shownInput+1)]), shownInput))
	if it.line > 0 {
		dst = append(dst, `,"line":`...)
		dst = appendInt(dst, it.line)
	}
	dst = append(dst, `,"error":`...)
	dst = appendString(dst, it.err.Error())
	return append(dst, '}')
}

// tableError says that the table could not be searched, as opposed to an answer that could not
// be written.
type tableError struct{ error }
