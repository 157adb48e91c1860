package api

import (
	"bytes"
	"fmt"
	"io"
)

// readPiece is how much of a stream is read at once.
const readPiece = 64 << 10

// A line of a stream, without its end. The text is valid until the next fill.
type line struct {
	text   []byte
	number int // from 1
	err    error
}

// lines cuts a stream into lines in constant memory. It is driven in turns, so that what came in
// is answered before more is waited for: fill reads once, next gives the lines that are whole.
type lines struct {
	r        io.Reader
	longest  int
	buf      []byte
	from, to int // what of buf is not given out yet
	number   int // of the last line given out
	reported int // number when progress was last asked
	skipping bool
	ended    bool // the reader gave io.EOF: the rest is the last line
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func newLines(r io.Reader, longest int) *lines {
	// Twice the longest line and its end: a line that fills half of it is too long for sure.
	return &lines{r: r, longest: longest, buf: make([]byte, max(readPiece, 2*longest+2)), reported: -1}
}

// progress reports whether a line was completed since it was last asked.
func (l *lines) progress() bool {
	moved := l.number != l.reported
	l.reported = l.number
	return moved
}

// fill reads once, after all of next's lines were used. At the end it gives io.EOF, and next
// still gives the last line if it has no end.
func (l *lines) fill() error {
	l.to = copy(l.buf, l.buf[l.from:l.to])
	l.from = 0
	n, err := l.r.Read(l.buf[l.to:])
	l.to += n
	l.ended = err == io.EOF
	return err
}

// next gives the next line that is whole.
func (l *lines) next() (line, bool) {
	for {
		rest := l.buf[l.from:l.to]
		end := bytes.IndexByte(rest, '\n')
		switch {
		case l.skipping:
			if end < 0 {
				l.from = l.to
				return line{}, false
			}
			l.skipping = false
			l.from += end + 1
			continue
		case end >= 0:
			l.from += end + 1
			return l.give(rest[:end]), true
		case len(rest) > l.longest+1: // one more for a CR
			l.from = l.to
			l.skipping = true
			return l.give(rest), true
		case l.ended && len(rest) > 0:
			l.from = l.to
			return l.give(rest), true
		}
		return line{}, false
	}
}

// give makes a line of text, which may end in CR.
func (l *lines) give(text []byte) line {
	l.number++
	text = bytes.TrimSuffix(text, []byte{'\r'})
	if l.number == 1 {
		text = bytes.TrimPrefix(text, byteOrderMark)
	}
	out := line{text: text, number: l.number}
	if len(text) > l.longest {
		out.err = fmt.Errorf("line is longer than %d bytes", l.longest)
	}
	return out
}
