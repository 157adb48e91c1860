package api

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// Whatever a JSON body holds, the answer is a whole JSON value of a known status; and a body is
// taken only if encoding/json takes it too, with as many addresses.
func FuzzBulkJSON(f *testing.F) {
	for _, seed := range []string{
		`{"ips":["10.1.2.3","2001:db8::1","x","fe80::1%eth0"]}`, `{"ips":[]}`, `{"ips":["\u0031.1.1.1","\"","\\"]}`,
		`{}`, `[]`, ``, `{"ips":[[[[[`, `{"ips":["1.1.1.1"],"x":1}`, `{"ips":[1]}`, "{\"ips\":[\"\xff\"]}", `{"ips":["1.1.1.1"]}x`,
		`{"table":"default","ips":["1.1.1.1"]}`, `{"ips":[],"table":"x"}`, `{"table":"","table":""}`, `{"ips":["\`,
	} {
		f.Add([]byte(seed))
	}
	w := newWorld(f, func(d *Deps) { d.Limits = Limits{MaxBody: 1 << 16, MaxIPsJSON: 1000} })
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := post(w, lookupPath, "application/json", body)
		if !json.Valid(rec.Body.Bytes()) || !utf8.Valid(rec.Body.Bytes()) {
			t.Fatalf("answer is not JSON: %q", rec.Body)
		}
		switch rec.Code {
		case http.StatusOK:
			var in struct {
				IPs []string `json:"ips"`
			}
			var out struct {
				Results []json.RawMessage `json:"results"`
			}
			if err := json.Unmarshal(body, &in); err != nil {
				t.Fatalf("took what is not JSON: %v", err)
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || len(in.IPs) != len(out.Results) {
				t.Fatalf("%d results for %d addresses (%v)", len(out.Results), len(in.IPs), err)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		case http.StatusNotFound:
			if !bytes.Contains(body, []byte(`"table"`)) && !bytes.Contains(body, []byte(`\u`)) {
				t.Fatalf("no table was asked for: %s", rec.Body)
			}
		default:
			t.Fatalf("status %d: %s", rec.Code, rec.Body)
		}
	})
}

// Whatever a stream holds, every line gets one line of JSON, and the pieces it comes in do not
// matter.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"10.1.2.3\n2001:db8::1\n", "10.1.2.3", "\r\n\n\r\n", "\"10.1.2.3\"\n{\"ip\":\"::1\"}\n", "{\"ip\":\"\\u0031\"}", "\xff\xfe\n\x00\n",
		"\xef\xbb\xbf10.1.2.3\n", strings.Repeat("a", 200) + "\n1.1.1.1\n", strings.Repeat("a", 70), "fe80::1%eth0\n1.2.3.0/24\n",
		"10.0.0.0/8\n10.0.0.1/8\n::ffff:10.0.0.0/104\n", "{\"prefix\":\"10.0.0.0/8\"}\n\"2001:db8::/32\"",
	} {
		f.Add([]byte(seed), true, uint8(3))
		f.Add([]byte(seed), false, uint8(64))
	}
	w := newWorld(f, func(d *Deps) { d.Limits = Limits{MaxLine: 64} })
	f.Fuzz(func(t *testing.T, body []byte, text bool, piece uint8) {
		kind := "application/x-ndjson"
		if text {
			kind = "text/plain"
		}
		want := bytes.Count(body, []byte{'\n'})
		if len(body) > 0 && body[len(body)-1] != '\n' {
			want++
		}
		for _, path := range []string{lookupPath, listPath} {
			rec := post(w, path, kind, body)
			if rec.Code != http.StatusOK {
				t.Fatalf("%s: status %d: %s", path, rec.Code, rec.Body)
			}
			got := 0
			for line := range bytes.Lines(rec.Body.Bytes()) {
				got++
				if !json.Valid(line) || !utf8.Valid(line) {
					t.Fatalf("%s: answer %d is not JSON: %q", path, got, line)
				}
			}
			if got != want {
				t.Fatalf("%s: %d answers for %d lines", path, got, want)
			}
		}
		whole, _ := readLines(bytes.NewReader(body), 64, readPiece)
		small, _ := readLines(&smallReader{body, max(1, int(piece))}, 64, 130)
		if len(whole) != want || len(small) != want {
			t.Fatalf("%d lines at once, %d in pieces of %d, want %d", len(whole), len(small), piece, want)
		}
		for i, l := range whole {
			if s := small[i]; s.number != l.number || (s.err == nil) != (l.err == nil) || l.err == nil && !bytes.Equal(s.text, l.text) {
				t.Fatalf("line %q, %v; in pieces of %d it is %q, %v", l.text, l.err, piece, s.text, s.err)
			}
		}
	})
}

func post(w *world, path, kind string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", kind)
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return rec
}

// smallReader gives at most piece bytes at once.
type smallReader struct {
	text  []byte
	piece int
}

func (s *smallReader) Read(p []byte) (int, error) {
	n, err := bytes.NewReader(s.text).Read(p[:min(len(p), s.piece)])
	s.text = s.text[n:]
	return n, err
}

// A path is an address or a prefix, or a problem; never anything else.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"10.1.2.3", "::ffff:1.2.3.4", "fe80::1%eth0", "10.0.0.0/8", "10.0.0.1/8", "::ffff:0:0/96", "\xff", "", "/", "a/b/c"} {
		f.Add(seed)
	}
	w := newWorld(f, nil)
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range []string{"/api/v1/lookup/", "/api/v1/routes/"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL.Path = path + text
			rec := httptest.NewRecorder()
			w.api.Handler().ServeHTTP(rec, r)
			for line := range bytes.Lines(rec.Body.Bytes()) { // one, but for a listing
				if !json.Valid(line) {
					t.Fatalf("%s%q: not JSON: %q", path, text, line)
				}
			}
			switch rec.Code {
			case http.StatusOK, http.StatusBadRequest, http.StatusNotFound:
			default:
				t.Fatalf("%s%q: status %d: %s", path, text, rec.Code, rec.Body)
			}
		}
	})
}

// Whatever claims to be Arrow's stream format is answered by a whole stream with a row for each
// that could be read, by a problem, or is broken off; and nothing breaks.
func FuzzArrow(f *testing.F) {
	for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Uint32, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, &arrow.FixedSizeBinaryType{ByteWidth: 16}} {
		f.Add(arrowStreamOf(f, "ip", kind, nil, columnOf(f, kind, []string{"10.1.2.3", "", "9.9.9.9"}), columnOf(f, kind, []string{"10.0.0.1"})))
	}
	f.Add(arrowStreamOf(f, "ip", textDictionary, nil))
	f.Add(arrowStreamOf(f, "ip", arrow.ListOf(arrow.BinaryTypes.String), nil))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	w := newWorld(f, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		rec := post(w, lookupPath, arrowType, body)
		switch rec.Code {
		case http.StatusOK:
			if _, _, err := readArrow(t, rec.Body); err != nil {
				t.Fatalf("the answer cannot be read: %v", err)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("status %d: %s", rec.Code, rec.Body)
		}
	})
}

// Whatever CSV holds, an answer in CSV has a row for each line but the header, and is CSV.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"10.1.2.3\n", "ip,x\n10.1.2.3,y\n", "\"10.1.2.3\",\"a\"\"b\"\n", "\"\n\"\n", ",,\n", "\xff\r\n", "=1+1\n", " \"x\n"} {
		f.Add([]byte(seed), "", true)
		f.Add([]byte(seed), "2", false)
		f.Add([]byte(seed), "ip", false)
	}
	w := newWorld(f, nil)
	f.Fuzz(func(t *testing.T, body []byte, column string, header bool) {
		r := httptest.NewRequest(http.MethodPost, lookupPath+"?"+url.Values{"column": {column}}.Encode(), bytes.NewReader(body))
		r.Header.Set("Content-Type", "text/csv")
		if header {
			r.Header.Set("Content-Type", "text/csv; header=present")
		}
		rec := httptest.NewRecorder()
		w.api.Handler().ServeHTTP(rec, r)
		if rec.Code == http.StatusBadRequest {
			return
		}
		lines := bytes.Count(body, []byte{'\n'})
		if len(body) > 0 && body[len(body)-1] != '\n' {
			lines++
		}
		if _, err := strconv.Atoi(column); err != nil || header {
			lines = max(0, lines-1)
		}
		rows, err := csv.NewReader(bytes.NewReader(rec.Body.Bytes())).ReadAll()
		if err != nil || len(rows) != lines+1 || rec.Code != http.StatusOK {
			t.Fatalf("%d: %d rows for %d lines, %v: %q", rec.Code, len(rows), lines, err, rec.Body)
		}
	})
}

// Whatever is sent as compressed is answered or refused, in every form.
func FuzzCoding(f *testing.F) {
	for _, coding := range []string{"gzip", "zstd"} {
		f.Add(encodeWith(f, coding, []byte("10.1.2.3\n9.9.9.9\n")), coding == "zstd")
	}
	w := newWorld(f, nil)
	f.Fuzz(func(t *testing.T, body []byte, inZstd bool) {
		coding := "gzip"
		if inZstd {
			coding = "zstd"
		}
		for _, kind := range []string{"text/plain", "application/json", "text/csv", arrowType} {
			func() {
				defer func() {
					if p := recover(); p != nil && p != http.ErrAbortHandler {
						panic(p)
					}
				}()
				rec := w.exchange(body, "Content-Type", kind, "Content-Encoding", coding)
				switch rec.Code {
				case http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
				default:
					t.Fatalf("%s: status %d: %s", kind, rec.Code, rec.Body)
				}
			}()
		}
	})
}
