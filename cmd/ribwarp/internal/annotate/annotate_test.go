package annotate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

func TestOutput(t *testing.T) {
	gen := generation(t, testRoutes())
	for _, c := range []struct {
		name    string
		o       Options
		in, out string
	}{
		{"empty input has a header", Options{}, "", "ip,prefix,origin_asns,next_hop\n"},
		{"no route", Options{}, "11.0.0.1\n", "ip,prefix,origin_asns,next_hop\n11.0.0.1,,,\n"},
		{"default columns, both families", Options{}, "10.1.9.9\n2001:db8::9\n::ffff:10.1.9.9\n",
			"ip,prefix,origin_asns,next_hop\n10.1.9.9,10.1.0.0/16,64502,192.0.2.2\n2001:db8::9,2001:db8::/32,64500,2001:db8::1\n::ffff:10.1.9.9,10.1.0.0/16,64502,192.0.2.2\n"},
		{"route without attributes", Options{}, "172.16.0.1", "ip,prefix,origin_asns,next_hop\n172.16.0.1,172.16.0.0/12,,\n"},
		{"several origins and an AS set", Options{Columns: []Column{OriginASNs, ASPath}}, "192.0.2.1\n",
			"ip,origin_asns,as_path\n192.0.2.1,64510 64511,\"64500 {64510,64511}\"\n"},
		{"what is no address is quoted and kept", Options{Columns: []Column{Prefix}}, "a,\"b\"\n\n10.0.0.1 \n010.0.0.1\r\nfe80::1%eth0\n",
			"ip,prefix\n\"a,\"\"b\"\"\",\n,\n10.0.0.1,10.0.0.0/8\n010.0.0.1,\nfe80::1%eth0,\n"},
		{"byte order mark", Options{Columns: []Column{Prefix}}, "\xef\xbb\xbf10.0.0.1\n", "ip,prefix\n10.0.0.1,10.0.0.0/8\n"},

		{"csv", Options{Format: CSV, Column: "src", Columns: []Column{Prefix}}, "a,src,b\r\n1,10.0.0.1,\"x,y\"\r\n\"2\n3\",\"10.1.0.1\",z",
			"a,src,b,prefix\n1,10.0.0.1,\"x,y\",10.0.0.0/8\n\"2\n3\",\"10.1.0.1\",z,10.1.0.0/16\n"},
		{"csv names with a prefix", Options{Format: CSV, Column: "2", NamePrefix: "src_", Columns: []Column{Prefix, NextHop}}, "a,b\n1,10.0.0.1\n",
			"a,b,src_prefix,src_next_hop\n1,10.0.0.1,10.0.0.0/8,192.0.2.1\n"},
		{"csv without header", Options{Format: CSV, Column: "1", NoHeader: true, Columns: []Column{Prefix}}, "10.0.0.1,x\n",
			"10.0.0.1,x,10.0.0.0/8\n"},
		{"csv short record is filled up", Options{Format: CSV, Column: "1", Columns: []Column{Prefix}}, "a,b,c\n10.0.0.1\n\n",
			"a,b,c,prefix\n10.0.0.1,,,10.0.0.0/8\n,,,\n"},
		{"csv long record has no address", Options{Format: CSV, Column: "1", Columns: []Column{Prefix}}, "a,b\n10.0.0.1,1,2\n",
			"a,b,prefix\n10.0.0.1,1,2,\n"},
		{"csv open quotes are closed", Options{Format: CSV, Column: "1", Columns: []Column{Prefix}}, "a,b\n10.0.0.1,\"x\ny\n",
			"a,b,prefix\n10.0.0.1,\"x\ny\",10.0.0.0/8\n"},
		{"csv stray quote", Options{Format: CSV, Column: "2", Columns: []Column{Prefix}}, "a,b\n5\" disk,10.0.0.1\n6,10.0.0.2\n",
			"a,b,prefix\n5\" disk,10.0.0.1,10.0.0.0/8\n6,10.0.0.2,10.0.0.0/8\n"},
		{"tsv", Options{Format: TSV, Column: "b", Columns: []Column{Prefix, NextHop}}, "a\tb\n\"x\t10.0.0.1\n",
			"a\tb\tprefix\tnext_hop\n\"x\t10.0.0.1\t10.0.0.0/8\t192.0.2.1\n"},

		{"jsonl", Options{Format: JSONL, Field: "f.src", Columns: AllColumns}, `{"f":{"src":"192.0.2.1"}}` + "\n",
			`{"f":{"src":"192.0.2.1"},"route":{"prefix":"192.0.2.0/24","origin_asns":[64510,64511],"as_path":[64500,[64510,64511]],"next_hop":"192.0.2.9","communities":["64500:100","64500:1:2"],"peer":null}}` + "\n"},
		{"jsonl members beside", Options{Format: JSONL, Field: "src", NamePrefix: "r_", Columns: []Column{Prefix, NextHop}}, `{"src":"10.0.0.1"}` + "\n" + `{"src":"::1"}`,
			`{"src":"10.0.0.1","r_prefix":"10.0.0.0/8","r_next_hop":"192.0.2.1"}` + "\n" + `{"src":"::1","r_prefix":null,"r_next_hop":null}` + "\n"},
		{"jsonl without address", Options{Format: JSONL, Field: "src"}, "{}\n{ }\n{\"src\":1}\n[\"src\"]\n{\"src\":\n\n\"x\xff\"\n",
			`{"route":null}` + "\n" + `{"route":null}` + "\n" + `{"src":1,"route":null}` + "\n" + `{"input":"[\"src\"]","route":null}` + "\n" +
				`{"input":"{\"src\":","route":null}` + "\n" + `{"input":"","route":null}` + "\n" + `{"input":"\"x` + "\ufffd" + `\"","route":null}` + "\n"},
		{"jsonl escapes, last of equal names", Options{Format: JSONL, Field: "src", Columns: []Column{Prefix}}, `{"s\u0072c":"10.0.0.1","src":"10.1.0.\u0031"}`,
			`{"s\u0072c":"10.0.0.1","src":"10.1.0.\u0031","route":{"prefix":"10.1.0.0/16"}}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if _, err := Run(context.Background(), gen, strings.NewReader(c.in), &out, c.o); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.out {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), c.out)
			}
		})
	}
}

func TestWrongOptionsAndHeaders(t *testing.T) {
	gen := generation(t, testRoutes())
	for _, c := range []struct {
		name string
		o    Options
		in   string
		want string
	}{
		{"unknown format", Options{Format: "xml"}, "", `unknown format "xml"`},
		{"unknown column to add", Options{Columns: []Column{"colour"}}, "", `unknown column "colour"`},
		{"csv without column", Options{Format: CSV}, "", "needs the column"},
		{"column zero", Options{Format: CSV, Column: "0"}, "", "counted from 1"},
		{"name without header", Options{Format: TSV, Column: "a", NoHeader: true}, "", "must be a number"},
		{"column not in header", Options{Format: CSV, Column: "src"}, "a,b\n", `no column "src" in the header, it has: a, b`},
		{"column beyond header", Options{Format: CSV, Column: "3"}, "a,b\n", "has only 2"},
		{"header missing", Options{Format: CSV, Column: "a"}, "", "no header"},
		{"header never ends", Options{Format: CSV, Column: "a"}, "a,\"b\n", "not closed"},
		{"jsonl without field", Options{Format: JSONL}, "", "needs the field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(context.Background(), gen, strings.NewReader(c.in), io.Discard, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadErrorComesAfterWholeRecords(t *testing.T) {
	broken := errors.New("disk gone")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("10.0.0.1\n10.0.0.2\n10.0"), iotest.ErrReader(broken))
	stats, err := Run(context.Background(), generation(t, testRoutes()), in, &out, Options{Columns: []Column{Prefix}})
	if !errors.Is(err, broken) || stats.Records != 2 {
		t.Errorf("%d records, error %v", stats.Records, err)
	}
	if want := "ip,prefix\n10.0.0.1,10.0.0.0/8\n10.0.0.2,10.0.0.0/8\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

type failingWriter struct{ left int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteErrorEndsTheRun(t *testing.T) {
	in := strings.Repeat("10.0.0.1\n", 100_000)
	_, err := Run(context.Background(), generation(t, testRoutes()), strings.NewReader(in), &failingWriter{10_000}, Options{BlockSize: 1000})
	if !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestCancelEndsARunThatWaitsForInput(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	stop := errors.New("interrupted")
	go func() {
		_, _ = w.Write([]byte("10.0.0.1\n"))
		cancel(stop)
	}()
	if _, err := Run(ctx, generation(t, testRoutes()), r, io.Discard, Options{}); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestRecordThatNeverEndsIsAnError(t *testing.T) {
	in := "10.0.0.1\n" + strings.Repeat("x", 5000)
	_, err := Run(context.Background(), generation(t, testRoutes()), strings.NewReader(in), io.Discard, Options{BlockSize: 100, MaxRecord: 1000})
	if !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}

func TestStatsNameTheFirstBadRecord(t *testing.T) {
	in := strings.Repeat("10.0.0.1\n", 5000) + "nobody\n" + strings.Repeat("11.0.0.1\n", 10) + "nothing\n"
	gen := generation(t, testRoutes())
	for _, blockSize := range []int{512, 1 << 20} { // smaller than a batch of records, and larger
		stats, err := Run(context.Background(), gen, strings.NewReader(in), io.Discard, Options{BlockSize: blockSize, Workers: 3})
		if want := (Stats{Records: 5012, Matched: 5000, Bad: 2, FirstBad: 5001, FirstBadText: "nobody"}); stats != want || err != nil {
			t.Errorf("blocks of %d: %+v, %v, want %+v", blockSize, stats, err, want)
		}
	}
}

func TestAnnotatingABlockAllocatesNothing(t *testing.T) {
	gen := generation(t, testRoutes())
	o := Options{}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	f, err := newFormat(o)
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline{table: gen.Table, tails: newTails(gen, f.tail), format: f}
	in := []byte(strings.Repeat("10.0.0.1\n10.1.200.200\n172.16.3.4\n2001:db8::1\n", 2000))
	bl := &block{in: append(make([]byte, 0, len(in)+slack), in...)}
	b := new(batch)
	run := func() {
		bl.out = bl.out[:0]
		bl.stats = Stats{}
		if err := p.annotate(bl, b); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations a block", n)
	}
}

func TestParse4AgreesWithNetip(t *testing.T) {
	r := newRand(t)
	for range 300_000 {
		var text []byte
		for i := range 1 + r.IntN(5) {
			if i > 0 {
				text = append(text, '.')
			}
			for range r.IntN(4) + r.IntN(20)/19 {
				text = append(text, "0123456789"[r.IntN(10)])
			}
		}
		if r.IntN(10) == 0 && len(text) > 0 {
			text[r.IntN(len(text))] = byte(r.Uint32())
		}
		a, n := parse4(text)
		want, err := netip.ParseAddr(string(text))
		if isAddr := err == nil && want.Is4(); isAddr != (n == len(text) && n > 0) {
			t.Fatalf("%q: took %d bytes, netip says %v", text, n, err)
		} else if isAddr && want.As4() != [4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)} {
			t.Fatalf("%q: got %x, want %v", text, a, want)
		}
	}
}
