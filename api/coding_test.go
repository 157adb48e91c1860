package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encodeWith compresses with the library itself, not with what the service uses of it.
func encodeWith(t testing.TB, coding string, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return body
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// decodeWith is the inverse of encodeWith.
func decodeWith(coding string, r io.Reader) ([]byte, error) {
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(r)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	return io.ReadAll(r)
}

// exchange posts with these headers, name and value in turn.
func (w *world) exchange(body []byte, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, lookupPath, bytes.NewReader(body))
	for pair := range slices.Chunk(header, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return rec
}

// Every form, compressed in every way on the way in and out, is answered as it is without.
func TestCompressionChangesNothing(t *testing.T) {
	w := newWorld(t, nil)
	var lines strings.Builder
	var texts []string
	for i := range 3 * batchLines {
		texts = append(texts, fmt.Sprintf("10.%d.2.%d", i%3, i%256))
		lines.WriteString(texts[i] + "\n")
	}
	for kind, body := range map[string]string{
		"text/plain":           lines.String(),
		"application/x-ndjson": `"10.1.2.3"` + "\n" + `{"ip":"nonsense"}` + "\n",
		"text/csv":             "10.1.2.3,x\n9.9.9.9,y\n",
		"application/json":     `{"ips":["` + strings.Join(texts, `","`) + `"]}`,
		arrowType:              string(arrowStreamOf(t, "ip", arrow.BinaryTypes.String, nil, columnOf(t, arrow.BinaryTypes.String, texts))),
	} {
		want := w.do(http.MethodPost, lookupPath, kind, body).Body.Bytes()
		for _, in := range []string{"identity", "gzip", "x-gzip", "GZIP", "zstd"} {
			for _, out := range []string{"", "gzip", "zstd"} {
				rec := w.exchange(encodeWith(t, strings.TrimPrefix(strings.ToLower(in), "x-"), []byte(body)), "Content-Type", kind, "Content-Encoding", in, "Accept-Encoding", out)
				if rec.Code != http.StatusOK || rec.Header().Get("Content-Encoding") != out || rec.Header().Get("Vary") != "Accept-Encoding" {
					t.Fatalf("%s, %s to %q: %d, %v: %s", kind, in, out, rec.Code, rec.Header(), rec.Body)
				}
				got, err := decodeWith(out, rec.Body)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s, %s to %q: %v, %d bytes for %d, first difference at %d", kind, in, out, err, len(got), len(want), differ(got, want))
				}
			}
		}
	}
}

func TestCodingIsTheOneWantedMost(t *testing.T) {
	for _, c := range []struct{ accept, want string }{
		{"gzip", "gzip"}, {"zstd", "zstd"}, {"gzip, deflate, br, zstd", "zstd"}, {"gzip;q=1.0, zstd;q=0.5", "gzip"},
		{"br", ""}, {"*", "zstd"}, {"*;q=0", ""}, {"gzip;q=0", ""}, {"identity, gzip;q=0.5", ""}, {"identity;q=0.5, gzip", "gzip"},
		{"zstd;q=0, *", "gzip"}, {"GZIP ; Q=0.3", "gzip"}, {"gzip;q=x", "gzip"}, {"", ""}, {",;,", ""},
	} {
		got := ""
		if cod := wantedCoding(http.Header{"Accept-Encoding": {c.accept}}); cod != nil {
			got = cod.name
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.accept, got, c.want)
		}
	}
}

func TestProblemsAreNotCompressed(t *testing.T) {
	w := newWorld(t, nil)
	wantProblem(t, w.exchange([]byte("{"), "Content-Type", "application/json", "Accept-Encoding", "gzip"), 400, "JSON ends")
	rec := w.exchange([]byte("x"), "Content-Type", "text/plain", "Content-Encoding", "br", "Accept-Encoding", "gzip")
	wantProblem(t, rec, 415, `Content-Encoding is "br": send the body as it is, or in one of zstd, gzip`)
	if rec.Header().Get("Accept-Encoding") != "zstd, gzip" {
		t.Error(rec.Header())
	}
	wantProblem(t, w.exchange([]byte("x"), "Content-Type", "text/plain", "Content-Encoding", "gzip, zstd"), 415, "gzip, zstd")
}

// What is broken from the beginning is a problem; what breaks later is said in the last line, and the
// answer has no end.
func TestBrokenCompression(t *testing.T) {
	w := newWorld(t, nil)
	var lines strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&lines, "10.%d.%d.%d\n", i%7, i*31%251, i*17%241)
	}
	for _, coding := range []string{"gzip", "zstd"} {
		whole := encodeWith(t, coding, []byte(lines.String()))
		wrong := bytes.Clone(whole)
		wrong[len(wrong)/2] ^= 0x55
		for name, c := range map[string]struct {
			body   []byte
			detail string
			lines  bool
		}{
			"no " + coding:            {[]byte("10.1.2.3\n10.1.2.3\n"), "the body is not " + coding, false},
			"cut header of " + coding: {whole[:3], "ends in the middle of its " + coding, false},
			"cut " + coding:           {whole[:len(whole)-9], "ends in the middle of its " + coding, true},
			"damaged " + coding:       {wrong, "", true},
		} {
			t.Run(name, func(t *testing.T) {
				for _, kind := range []string{"text/plain", "application/json", arrowType} {
					if kind == "text/plain" && c.lines {
						continue
					}
					wantProblem(t, w.exchange(c.body, "Content-Type", kind, "Content-Encoding", coding), 400, "")
				}
				if !c.lines {
					wantProblem(t, w.exchange(c.body, "Content-Type", "text/plain", "Content-Encoding", coding), 400, c.detail)
					return
				}
				req, err := http.NewRequest(http.MethodPost, w.serve().URL+lookupPath, bytes.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "text/plain")
				req.Header.Set("Content-Encoding", coding)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if resp.StatusCode == http.StatusBadRequest {
					return // damaged before the first whole line
				}
				last := got[bytes.LastIndexByte(bytes.TrimSpace(got), '\n')+1:]
				if err == nil || !bytes.Contains(last, []byte(`"error":"the body `)) || !bytes.Contains(last, []byte(c.detail)) {
					t.Errorf("%v, last line %s", err, last)
				}
			})
		}
	}
}

// A body that is a thousand times longer than it looks takes no more memory and no more than its share
// of time.
func TestCompressedBombs(t *testing.T) {
	zeros := bytes.Repeat([]byte{'0'}, 64<<20)
	for _, coding := range []string{"gzip", "zstd"} {
		bomb := encodeWith(t, coding, zeros)
		w := newWorld(t, nil)
		t.Run(coding+" JSON", func(t *testing.T) {
			wantProblem(t, w.exchange(bomb, "Content-Type", "application/json", "Content-Encoding", coding), 413, "longer than 8388608 bytes")
		})
		t.Run(coding+" text", func(t *testing.T) {
			rec := w.exchange(bomb, "Content-Type", "text/plain", "Content-Encoding", coding)
			if got := rec.Body.String(); rec.Code != http.StatusOK || strings.Count(got, "\n") != 1 || !strings.Contains(got, "longer than 4096 bytes") {
				t.Errorf("%d %s", rec.Code, got)
			}
		})
		t.Run(coding+" Arrow", func(t *testing.T) {
			wantProblem(t, w.exchange(bomb, "Content-Type", arrowType, "Content-Encoding", coding), 400, "not a stream of Arrow's format")
		})
		t.Run(coding+" without progress", func(t *testing.T) {
			slow := newWorld(t, func(d *Deps) { d.Limits.Progress = time.Millisecond })
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("not broken off: %v", p)
				}
			}()
			slow.exchange(bomb, "Content-Type", "text/plain", "Content-Encoding", coding)
		})
	}
	t.Run("zstd of a long window", func(t *testing.T) {
		var out bytes.Buffer
		z, err := zstd.NewWriter(&out, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write(zeros)
		_ = z.Flush()
		_, _ = z.Write(zeros)
		_ = z.Close()
		w := newWorld(t, nil)
		wantProblem(t, w.exchange(out.Bytes(), "Content-Type", "text/plain", "Content-Encoding", "zstd"), 400, "window")
	})
}

// Answers are flushed through the compression.
func TestCompressedAnswersGoOutAsLinesComeIn(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	for _, coding := range []string{"gzip", "zstd"} {
		body, in := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, srv.URL+lookupPath, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "text/plain")
		req.Header.Set("Accept-Encoding", coding)
		go func() { _, _ = io.WriteString(in, "10.1.2.3\n") }()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader
		if coding == "gzip" {
			r, err = gzip.NewReader(resp.Body)
		} else {
			r, err = zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
		}
		if err != nil {
			t.Fatal(err)
		}
		want := w.single("10.1.2.3") + "\n"
		for i := range 3 {
			if i > 0 {
				_, _ = io.WriteString(in, "10.1.2.3\n")
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
				t.Fatalf("%s: %q, %v", coding, got, err)
			}
		}
		in.Close()
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q, %v behind the last answer", coding, rest, err)
		}
		resp.Body.Close()
	}
}
