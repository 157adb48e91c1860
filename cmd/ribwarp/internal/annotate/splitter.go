package annotate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A splitter cuts the input into blocks of whole records. Not safe for concurrent use.
type splitter struct {
	r         io.Reader
	format    format
	blockSize int
	maxRecord int
	rest      []byte // read, not given out yet: the start of a record
	started   bool   // the header was taken
	records   bool   // something was given out already
	err       error  // what the reader ended with
}

func newSplitter(r io.Reader, f format, blockSize, maxRecord int) *splitter {
	return &splitter{r: r, format: f, blockSize: blockSize, maxRecord: maxRecord}
}

var utf8BOM = []byte("\xef\xbb\xbf")

// next fills a block, reusing buf, with at least one whole record, each ended by a line end (the
// last one of the input gets one where it has none). The first call also gives what to write for
// the header. It ends with io.EOF, perhaps together with the last block; another error
// comes after all whole records before it.
func (s *splitter) next(buf []byte) (records, header []byte, err error) {
	if cap(buf) < s.blockSize+slack {
		buf = make([]byte, 0, s.blockSize+slack)
	}
	buf = append(buf[:0], s.rest...)
	s.rest = s.rest[:0]
	for {
		limit := max(s.blockSize, len(buf)*2)
		if cap(buf) < limit+slack {
			buf = append(make([]byte, 0, limit+slack), buf...)
		}
		for s.err == nil && len(buf) < limit {
			var n int
			n, s.err = s.r.Read(buf[len(buf):limit])
			buf = buf[:len(buf)+n]
		}
		if !s.records {
			buf = trimBOM(buf)
		}
		if errors.Is(s.err, io.EOF) {
			if len(buf) > 0 && buf[len(buf)-1] != '\n' {
				buf = append(buf, '\n')
			}
			return s.cut(buf, len(buf), io.EOF)
		}
		n := s.format.whole(buf)
		if n > 0 || s.err != nil {
			s.rest = append(s.rest, buf[n:]...)
			return s.cut(buf[:n], n, s.err)
		}
		if len(buf) >= s.maxRecord {
			return nil, nil, fmt.Errorf("%w: no end within %d bytes, it begins with %q; is this the right file and format?", ErrTooLong, s.maxRecord, buf[:60])
		}
	}
}

// cut takes the header from the first block and keeps slack behind it. A reader's error other
// than the end comes with the whole records before it; the started one is lost with it.
func (s *splitter) cut(buf []byte, n int, err error) (records, header []byte, _ error) {
	s.records = true
	if !s.started && (n > 0 || errors.Is(err, io.EOF)) {
		s.started = true
		header, taken, herr := s.format.header(buf[:n])
		if herr != nil {
			return nil, nil, herr
		}
		return withSlack(append(buf[:0], buf[taken:n]...)), header, err
	}
	return withSlack(buf[:n]), nil, err
}

// trimBOM drops the byte order mark that some programs put before UTF-8.
func trimBOM(b []byte) []byte {
	if bytes.HasPrefix(b, utf8BOM) {
		return append(b[:0], b[len(utf8BOM):]...)
	}
	return b
}

// withSlack makes sure that slack bytes behind the end can be read.
func withSlack(b []byte) []byte {
	if cap(b)-len(b) < slack {
		return append(make([]byte, 0, len(b)+slack), b...)
	}
	return b
}

// wholeLines gives the length of b up to and with its last line end.
func wholeLines(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }

// line gives the position behind the content of the line at pos, without CR LF, and that behind
// its line end. b ends in a line end.
func line(b []byte, pos int) (end, next int) {
	n := bytes.IndexByte(b[pos:], '\n')
	end, next = pos+n, pos+n+1
	if n > 0 && b[end-1] == '\r' {
		end--
	}
	return end, next
}
