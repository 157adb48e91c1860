package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readLines cuts a text into lines as a stream is, with a buffer of buf bytes.
func readLines(r io.Reader, longest, buf int) (all []line, err error) {
	in := newLines(r, longest)
	in.buf = make([]byte, buf)
	for err == nil {
		err = in.fill()
		for l, ok := in.next(); ok; l, ok = in.next() {
			l.text = append([]byte(nil), l.text...)
			all = append(all, l)
		}
	}
	return all, err
}

func TestLineOfExactlyTheLimitIsTakenInAnyPieces(t *testing.T) {
	longest := strings.Repeat("a", 10)
	text := longest + "\r\n" + longest + "\n" + longest + "b\r\n" + longest + "\r"
	for name, r := range map[string]io.Reader{
		"whole":             strings.NewReader(text),
		"byte by byte":      iotest.OneByteReader(strings.NewReader(text)),
		"data with the end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := readLines(r, 10, 22)
		if err != io.EOF || len(got) != 4 {
			t.Fatalf("%s: %d lines, %v", name, len(got), err)
		}
		for i, l := range got {
			if l.number != i+1 || (l.err != nil) != (i == 2) || i != 2 && string(l.text) != longest {
				t.Errorf("%s: line %d is %q, number %d, %v", name, i+1, l.text, l.number, l.err)
			}
		}
	}
}

// deadlineWriter records when deadlines are moved. Reading and writing go on at once, so each has
// a record of its own.
type deadlineWriter struct {
	discardWriter
	reads, writes []string
}

func (w *deadlineWriter) SetReadDeadline(time.Time) error {
	w.reads = append(w.reads, "may read")
	return nil
}

func (w *deadlineWriter) SetWriteDeadline(time.Time) error {
	w.writes = append(w.writes, "may write")
	return nil
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	w.writes = append(w.writes, "write")
	return len(b), nil
}

// piecesReader gives its pieces one a read, and tells the writer.
type piecesReader struct {
	w      *deadlineWriter
	pieces []string
}

func (r *piecesReader) Read(p []byte) (int, error) {
	if len(r.pieces) == 0 {
		r.w.reads = append(r.w.reads, "end")
		return 0, io.EOF
	}
	r.w.reads = append(r.w.reads, "read")
	n := copy(p, r.pieces[0])
	r.pieces = r.pieces[1:]
	return n, nil
}

// A stream may take any time, but only whole lines win it more: dripping bytes does not.
func TestDeadlinesMoveWithWholeLines(t *testing.T) {
	w := newWorld(t, nil)
	out := &deadlineWriter{discardWriter: discardWriter{http.Header{}}}
	r, err := http.NewRequest(http.MethodPost, lookupPath, &piecesReader{out, []string{"10.1.2.3\n", "10.", "1.2", ".3\n"}})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	w.api.Handler().ServeHTTP(out, r)
	if got, want := strings.Join(out.reads, ", "), "may read, read, may read, read, read, read, may read, end"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := strings.Join(out.writes, ", "), "may write, write, may write, write, may write"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A good line takes no memory: a garbage collection comes only when as much garbage is there as a
// table takes.
func TestLineAllocatesNothing(t *testing.T) {
	w := newWorld(t, nil)
	run := func(lines int) float64 {
		body := strings.Repeat("10.0.0.1\n2001:db8::1\n", lines/2)
		return testing.AllocsPerRun(3, func() {
			r, err := http.NewRequest(http.MethodPost, lookupPath, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "text/plain")
			w.api.Handler().ServeHTTP(&countingWriter{discardWriter: discardWriter{http.Header{}}}, r)
		})
	}
	few, many := run(1000), run(101_000)
	if more := many - few; more > 1000 {
		t.Errorf("%.0f allocations for 100,000 lines more", more)
	}
}
