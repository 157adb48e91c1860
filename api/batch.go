package api

import (
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	batchLines = 4096     // questions that are answered together
	outPiece   = 64 << 10 // answers are handed on when they are as long as this
	shownInput = 64       // bytes of a bad question that its error repeats
)

// A kind is what the questions of a batch are about: addresses, or prefixes. It may have memory
// of its own and belongs to one batch.
type kind[K any] interface {
	// parse reads a key. The text is a part of a buffer: the key must not keep it.
	parse(text []byte) (K, error)
	is4(key K) bool
	// find puts the handle of every key's route into dst, at most batchLines of them.
	find(t lpm.Table, dst []lpm.Handle, keys []K) error
	// appendAnswer appends the answer for a key, whose route has handle h.
	appendAnswer(dst []byte, key K, h lpm.Handle, g *rib.Generation) []byte
}

// A batch collects up to batchLines questions and answers them in order, all from one
// generation. It is pooled and takes about half a megabyte.
type batch[K any] struct {
	kind     kind[K]
	field    string // that an error object repeats its question in
	counts   *lookupCounts
	endpoint endpoint
	gen      *rib.Generation
	// emit takes a piece of the answer; it must not keep it.
	emit func([]byte) error

	n       int
	items   [batchLines]item
	keys    []K // of the items that are good, in order
	handles [batchLines]lpm.Handle
	out     []byte
	more    bool // an answer was given: the next one of an array needs a comma
}

// An item is a question: the zero item the next of the keys, any other one that is bad.
type item struct {
	text []byte // belongs to the caller until it was answered
	line int    // in a stream; else 0
	err  error
}

// begin makes the batch ready for the answers to one request.
func (b *batch[K]) begin(e endpoint, gen *rib.Generation, emit func([]byte) error) {
	b.endpoint, b.gen, b.emit = e, gen, emit
	b.n, b.keys, b.out, b.more = 0, b.keys[:0], b.out[:0], false
}

// end forgets the request, so that a pooled batch keeps nothing of it alive.
func (b *batch[K]) end() {
	clear(b.items[:])
	b.gen, b.emit = nil, nil
}

// full reports whether the batch must be answered before the next question.
func (b *batch[K]) full() bool { return b.n == batchLines }

// add puts the question in text into the batch. line is its number for an error, 0 outside of
// streams. text must stay as it is until answer.
func (b *batch[K]) add(text []byte, line int) {
	key, err := b.kind.parse(text)
	if err != nil {
		b.addBad(text, line, err)
		return
	}
	b.items[b.n] = item{}
	b.n++
	b.keys = append(b.keys, key)
}

// addBad puts something into the batch that is no question.
func (b *batch[K]) addBad(text []byte, line int, err error) {
	b.items[b.n] = item{text: text, line: line, err: err}
	b.n++
}

// answer finds the routes, appends the answers to out, hands it on where it got long enough, and
// empties the batch.
func (b *batch[K]) answer() error {
	handles := b.handles[:len(b.keys)]
	if err := b.kind.find(b.gen.Table, handles, b.keys); err != nil {
		return tableError{err}
	}
	keys := b.keys
	var tally lookupTally
	for i := range b.items[:b.n] {
		it := &b.items[i]
		if b.endpoint == endpointJSON && b.more {
			b.out = append(b.out, ',')
		}
		b.more = true
		if it.err != nil {
			b.out = appendBad(b.out, b.field, it)
			tally.invalid++
		} else {
			b.out = b.kind.appendAnswer(b.out, keys[0], handles[0], b.gen)
			tally.add(b.kind.is4(keys[0]), handles[0] != lpm.None)
			keys, handles = keys[1:], handles[1:]
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
	b.n, b.keys = 0, b.keys[:0]
	return nil
}

// flush hands on what is answered so far.
func (b *batch[K]) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	err := b.emit(b.out)
	b.out = b.out[:0]
	return err
}

// appendBad appends the error object of a bad question: {"ip":"...","line":N,"error":"..."},
// without the line outside of streams.
func appendBad(dst []byte, field string, it *item) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, field...)
	dst = append(dst, '"', ':')
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
