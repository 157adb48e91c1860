package annotate

import "bytes"

// lines is one address a line. It is written as CSV: the address as it stood, then the columns.
type lines struct{ delimited }

func (f lines) header([]byte) ([]byte, int, error) {
	h := append([]byte("ip"), f.names()...)
	return append(h, '\n'), 0, nil
}

func (lines) whole(b []byte) int { return wholeLines(b) }

func (f lines) scan(b []byte, pos int, to *batch) int {
	for pos < len(b) && !to.full() {
		// The common case needs no look for the line end: an IPv4 address and a line end.
		if a, n := parse4(b[pos:min(pos+slack, len(b))]); n > 0 {
			end := pos + n
			if end < len(b) && b[end] == '\n' {
				to.add4(record{off: uint32(pos), len: uint32(n)}, a)
				pos = end + 1
				continue
			}
			if end+1 < len(b) && b[end] == '\r' && b[end+1] == '\n' {
				to.add4(record{off: uint32(pos), len: uint32(n)}, a)
				pos = end + 2
				continue
			}
		}
		end, next := line(b, pos)
		text := bytes.Trim(b[pos:end], " \t")
		if needsQuotes(text, ',') {
			start := len(to.loose)
			to.loose = appendQuoted(to.loose, text)
			to.addText(to.looseRecord(start), text)
		} else {
			off := pos + bytes.Index(b[pos:end], text)
			to.addText(record{off: uint32(off), len: uint32(len(text))}, text)
		}
		pos = next
	}
	return pos
}
