package prefixlist

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// FuzzRead feeds any text and holds the reader to a slow reading of the same lines.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"10.0.0.0/8\n", "10.0.0.1/8 64500 192.0.2.1\r\n", "2001:db8::/32,AS1,2001:db8::1\n# x\n\n192.0.2.1",
		"::ffff:1.2.3.4/120\n::ffff:0:0/95\n", "prefix,asn\n1.2.3.0/24,5\n", "\xef\xbb\xbf1.0.0.0/8", "1.0.0.0/8\x00\n/\n//\n",
		"fe80::1%a/64\n10.0.0.0/33\n10.0.0.0/ 8\n010.0.0.0/8\n", "1.1.1.1/1#\n#1.1.1.1/1\n,,,1.1.1.1,,,\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []Entry
		_, err := Read(bytes.NewReader(text), problems.NewLog(0), func(es []Entry) error {
			got = append(got, es...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []netip.Prefix
		for i, line := range strings.Split(strings.TrimPrefix(string(text), "\xef\xbb\xbf"), "\n") {
			if len(line) >= MaxLine {
				t.Skip()
			}
			if p, ok := slowLine(line, i == 0); ok {
				want = append(want, p)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d entries %v, want %v", text, len(got), got, want)
		}
		for i, e := range got {
			if e.Prefix != want[i] || e.Prefix != e.Prefix.Masked() || e.Prefix.Addr().Is4In6() || e.NextHop.Zone() != "" {
				t.Fatalf("%q: entry %d is %v, want %v", text, i, e, want[i])
			}
		}
		checkScan4(t, text)
	})
}

// slowLine is the meaning of a line, said with the standard library.
func slowLine(line string, first bool) (netip.Prefix, bool) {
	line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "#")
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
	if len(fields) == 0 || first && strings.EqualFold(fields[0], "prefix") {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(fields[0])
	if err != nil {
		a, err := netip.ParseAddr(fields[0])
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// uncompressed gives the content of a gzip-compressed file of the real data.
func uncompressed(tb testing.TB, name string) []byte {
	tb.Helper()
	f, err := os.Open(fixtures.DataFile(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// BenchmarkRead reads the real table of both families from memory.
func BenchmarkRead(b *testing.B) {
	text := append(uncompressed(b, "ris-2026-05-11-as3333-v4.txt.gz"), uncompressed(b, "ris-2026-05-11-as3333-v6.txt.gz")...)
	b.SetBytes(int64(len(text)))
	routes := 0
	for b.Loop() {
		res, err := Read(bytes.NewReader(text), problems.NewLog(0), func([]Entry) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		routes = res.Routes
	}
	b.ReportMetric(float64(routes)*float64(b.N)/b.Elapsed().Seconds(), "routes/s")
}
