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

// deadlineWriter records when deadlines are moved.
type deadlineWriter struct {
	discardWriter
	events []string
}

func (w *deadlineWriter) SetReadDeadline(time.Time) error {
	w.events = append(w.events, "may read")
	return nil
}

func (w *deadlineWriter) SetWriteDeadline(time.Time) error {
	w.events = append(w.events, "may write")
	return nil
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	w.events = append(w.events, "write")
	return len(b), nil
}

// piecesReader gives its pieces one a read, and tells the writer.
type piecesReader struct {
	w      *deadlineWriter
	pieces []string
}

func (r *piecesReader) Read(p []byte) (int, error) {
	if len(r.pieces) == 0 {
		r.w.events = append(r.w.events, "end")
		return 0, io.EOF
	}
	r.w.events = append(r.w.events, "read")
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
	want := "may read, read, may write, write, may read, read, read, read, may write, write, may read, end, may write"
	if got := strings.Join(out.events, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
