package api

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func (w *world) accept(path, kind, accept, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return rec
}

const (
	testRow  = "10.1.2.3,10.1.2.0/24,192.0.2.254,\"64500 4200000000 {64502,64503}\",64502 64503,65000:100 65535:65281 64500:1:2 rt:64500:1,,"
	plainRow = "10.0.0.1,10.0.0.0/8,192.0.2.1,64500 64501,64501,,,"
	missRow  = "9.9.9.9,,,,,,,"
)

func TestCSVAnswersRows(t *testing.T) {
	w := newWorld(t, nil)
	const head = "ip,prefix,next_hop,as_path,origin_asns,communities,stale,error\n"
	for _, c := range []struct{ name, path, kind, body, want string }{
		{"first column", lookupPath, "text/csv", "10.1.2.3,a\r\n\"10.0.0.1\",b\n9.9.9.9", testRow + "\n" + plainRow + "\n" + missRow + "\n"},
		{"header", lookupPath, "text/csv; header=present", "address\n10.0.0.1\n", plainRow + "\n"},
		{"column by number", lookupPath + "?column=2", "text/csv", "x,10.0.0.1\n\"a,\"\"b\"\"\",9.9.9.9,c\n", plainRow + "\n" + missRow + "\n"},
		{"column by name", lookupPath + "?column=dst+ip", "text/csv; charset=utf-8", "\xef\xbb\xbfsrc,\"dst ip\"\n1.1.1.1,10.0.0.1\n", plainRow + "\n"},
		{"bad rows", lookupPath + "?column=2", "text/csv", "x\nx,nonsense\nx,\"1\n\nx,\"10.0.0.1\"y\n\"x\",10.0.0.1\n",
			"x,,,,,,,the row has 1 columns: the address should be in column 2\nnonsense,,,,,,,not an IP address: unable to parse IP\n" +
				"\"x,\"\"1\",,,,,,,column 2: a quoted field has no end on its line\n,,,,,,,no address: the line is empty\n" +
				"\"x,\"\"10.0.0.1\"\"y\",,,,,,,column 2: something stands behind the end of a quoted field\n" + plainRow + "\n"},
		{"nothing", lookupPath, "text/csv", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := w.do(http.MethodPost, c.path, c.kind, c.body)
			if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
				t.Fatalf("%d %v %s", rec.Code, rec.Header(), rec.Body)
			}
			if got := rec.Body.String(); got != head+c.want {
				t.Errorf("got\n%swant\n%s", got, head+c.want)
			}
			r := csv.NewReader(strings.NewReader(rec.Body.String()))
			if _, err := r.ReadAll(); err != nil {
				t.Error(err)
			}
		})
	}
	wantProblem(t, w.do(http.MethodPost, lookupPath+"?column=ip", "text/csv", "src,dst\n10.0.0.1,10.0.0.2\n"), 400, `no column "ip": it has src, dst`)
	wantProblem(t, w.do(http.MethodPost, lookupPath+"?column=ip", "text/csv; header=absent", "x"), 400, "give its number")
	wantProblem(t, w.do(http.MethodPost, lookupPath+"?column=0", "text/csv", "x"), 400, "the first one is 1")
	wantProblem(t, w.do(http.MethodPost, lookupPath+"?column=", "text/csv", "x"), 400, "column is empty")
	wantProblem(t, w.do(http.MethodPost, lookupPath+"?column=1&column=2", "text/csv", "x"), 400, "2 times")
	rec := w.do(http.MethodPost, listPath, "text/csv", "10.0.0.0/8\n11.0.0.0/8\n10.0.0.1/8\n")
	if got, want := rec.Body.String(), "prefix,found,next_hop,as_path,origin_asns,communities,stale,error\n10.0.0.0/8,true,192.0.2.1,64500 64501,64501,,,\n11.0.0.0/8,false,,,,,,\n10.0.0.1/8,,,,,,,prefix 10.0.0.1/8 has host bits set: ask for 10.0.0.0/8\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The form of an answer is what Accept says, if lines can be answered so.
func TestAnswerFormByAccept(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ kind, accept, want string }{
		{"text/plain", "", "application/x-ndjson"},
		{"text/plain", "*/*", "application/x-ndjson"},
		{"text/plain", "text/csv", "text/csv; charset=utf-8; header=present"},
		{"text/plain", "text/*", "text/csv; charset=utf-8; header=present"},
		{"text/plain", "application/x-ndjson;q=0.5, text/csv;q=0.4", "application/x-ndjson"},
		{"text/plain", "text/csv;q=0, */*", "application/x-ndjson"},
		{"text/csv", "*/*", "text/csv; charset=utf-8; header=present"},
		{"text/csv", "application/x-ndjson", "application/x-ndjson"},
		{"application/x-ndjson", "text/csv", "text/csv; charset=utf-8; header=present"},
		{"application/json", "application/*", "application/json"},
		{"text/plain", "application/json", ""},
		{"application/json", "text/csv", ""},
		{arrowType, "text/csv", ""},
		{"text/plain", "*/*;q=0", ""},
	} {
		rec := w.accept(lookupPath, c.kind, c.accept, `{"ips":[]}`)
		if c.want == "" {
			wantProblem(t, rec, http.StatusNotAcceptable, "is answered as")
		} else if got := rec.Header().Get("Content-Type"); got != c.want {
			t.Errorf("%s, Accept %q: %d %s, want %s", c.kind, c.accept, rec.Code, got, c.want)
		}
	}
	rec := w.accept(lookupPath, "text/plain", "text/csv", "10.0.0.1\n")
	if !strings.HasSuffix(rec.Body.String(), "\n"+plainRow+"\n") {
		t.Errorf("%s", rec.Body)
	}
}
