package api

import (
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	batchLines = 8192      // questions that are answered together: about those of one read
	outPiece   = 128 << 10 // answers are handed on when they are as long as this
	shownInput = 64        // bytes of a bad question that its error repeats
)

// A kind is what the questions of a batch are about: addresses, or prefixes. It may have memory
// of its own and belongs to one batch.
type kind[K any] interface {
	// parse reads a key. The text is a part of a buffer: the key must not keep it.
	parse(text []byte) (K, error)
	is4(key K) bool
	// find puts the handle of every key's route into dst, at most batchLines of them.
	find(t lpm.Table, dst []lpm.Handle, keys []K) error
	// appendAnswer appends the answer of this generation for a key; rt is the zero route where
	// there is none.
	appendAnswer(dst []byte, key K, rt *routeFields, gen uint64) []byte
	// appendRow is appendAnswer for CSV, without the end of the row.
	appendRow(dst []byte, key K, rt *routeFields) []byte
	// seenBy gives the route that another router has for a key, for which find has given h.
	seenBy(router *rib.View, key K, h lpm.Handle) rib.Route
}

// A batch collects up to batchLines questions and answers them in order, all from one
// generation: add, find, render, in turns. It is pooled and takes about half a megabyte.
type batch[K any] struct {
	kind     kind[K]
	words    *words
	counts   *lookupCounts
	endpoint endpoint
	form     form
	gen      *rib.Generation
	seen     *rib.View // the table as another router sees it; nil: as it is
	out      *output

	n       int
	keys    []K   // of the questions that are good, in order
	bad     []bad // the others, in order
	shown   []byte
	handles [batchLines]lpm.Handle
	near    nearRoutes
	viewed  routeFields // the last one of seen
	push    bool        // the client may wait for these answers before it sends more
	own     output
}

// An output collects answers until a piece of them is worth handing on.
type output struct {
	buf  []byte
	emit func([]byte) error // must not keep the piece
	more bool               // an answer was given: the next one of an array needs a comma
}

// flush hands on what is there.
func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	err := o.emit(o.buf)
	o.buf = o.buf[:0]
	return err
}

// begin makes the output ready for another answer.
func (o *output) begin(emit func([]byte) error) {
	o.buf, o.emit, o.more = o.buf[:0], emit, false
}

// A bad question is answered by an error.
type bad struct {
	at   int    // its place in the batch
	text []byte // as much as is shown of it, and a byte more where there was more
	line int    // in a stream; else 0
	err  error
}

// begin makes the batch ready for the answers to one request. Batches of one request have one
// output, and one view as another router's (seen, nil for none): render uses both.
func (b *batch[K]) begin(e endpoint, f form, gen *rib.Generation, seen *rib.View, out *output) {
	b.endpoint, b.form, b.gen, b.seen, b.out = e, f, gen, seen, out
	b.clear()
}

// end forgets the request, so that a pooled batch keeps nothing of it alive.
func (b *batch[K]) end() {
	b.clear()
	b.near = nearRoutes{}
	b.viewed = routeFields{}
	b.gen, b.seen, b.out, b.own.emit = nil, nil, nil, nil
}

func (b *batch[K]) clear() {
	clear(b.bad)
	b.n, b.keys, b.bad, b.shown, b.push = 0, b.keys[:0], b.bad[:0], b.shown[:0], false
}

// full reports whether the batch must be answered before the next question.
func (b *batch[K]) full() bool { return b.n == batchLines }

// add puts the question in text into the batch. line is its number for an error, 0 outside of
// streams.
func (b *batch[K]) add(text []byte, line int) {
	key, err := b.kind.parse(text)
	if err != nil {
		b.addBad(text, line, err)
		return
	}
	b.n++
	b.keys = append(b.keys, key)
}

// addBad puts something into the batch that is no question.
func (b *batch[K]) addBad(text []byte, line int, err error) {
	from := len(b.shown)
	b.shown = append(b.shown, text[:min(len(text), shownInput+1)]...)
	b.bad = append(b.bad, bad{b.n, b.shown[from:], line, err})
	b.n++
}

// find looks the questions up.
func (b *batch[K]) find() error {
	if err := b.kind.find(b.gen.Table, b.handles[:len(b.keys)], b.keys); err != nil {
		return tableError{err}
	}
	return nil
}

// render appends the answers to what was found to the output, hands that on where it got long
// enough, and empties the batch.
func (b *batch[K]) render() error {
	keys, handles, wrong, out := b.keys, b.handles[:len(b.keys)], b.bad, b.out
	tally := lookupTally{invalid: uint64(len(wrong))}
	b.near.begin(b.gen, handles)
	for i := range b.n {
		if b.form == formJSON && out.more {
			out.buf = append(out.buf, ',')
		}
		out.more = true
		if len(wrong) > 0 && wrong[0].at == i {
			out.buf = b.appendBad(out.buf, &wrong[0])
			wrong = wrong[1:]
		} else {
			rt := b.next(keys[0], handles[0])
			if b.form == formCSV {
				out.buf = b.kind.appendRow(out.buf, keys[0], rt)
			} else {
				out.buf = b.kind.appendAnswer(out.buf, keys[0], rt, b.gen.Number)
			}
			tally.add(b.kind.is4(keys[0]), rt.Prefix.IsValid())
			keys, handles = keys[1:], handles[1:]
		}
		if b.form != formJSON {
			out.buf = append(out.buf, '\n')
		}
		if len(out.buf) >= outPiece {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
	b.counts.addTally(b.endpoint, tally)
	b.clear()
	return nil
}

// next gives the route for the next key, valid until the next call.
func (b *batch[K]) next(key K, h lpm.Handle) *routeFields {
	if b.seen == nil {
		return b.near.next()
	}
	b.viewed = fieldsOf(b.kind.seenBy(b.seen, key, h))
	return &b.viewed
}

// answer finds and renders.
func (b *batch[K]) answer() error {
	if err := b.find(); err != nil {
		return err
	}
	return b.render()
}

// appendBad appends what answers a bad question: {"ip":"...","line":N,"error":"..."}, without
// the line outside of streams, or a row with nothing but the question and the error.
func (b *batch[K]) appendBad(dst []byte, q *bad) []byte {
	text := cut(string(q.text), shownInput)
	if b.form == formCSV {
		return appendBadRow(dst, text, q.err.Error())
	}
	return appendError(dst, b.words.field, text, q.line, q.err)
}

// appendError appends the object that answers a bad question; line 0 is none.
func appendError(dst []byte, field, text string, line int, err error) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, field...)
	dst = append(dst, '"', ':')
	dst = appendString(dst, text)
	if line > 0 {
		dst = append(dst, `,"line":`...)
		dst = appendInt(dst, line)
	}
	dst = append(dst, `,"error":`...)
	dst = appendString(dst, err.Error())
	return append(dst, '}')
}

// tableError says that the table could not be searched, as opposed to an answer that could not
// be written.
type tableError struct{ error }
