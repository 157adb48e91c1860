package prefixlist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// read reads a whole list.
func read(t testing.TB, r io.Reader) ([]Entry, Result, *problems.Log, error) {
	t.Helper()
	var all []Entry
	log := problems.NewLog(0)
	res, err := Read(r, log, func(es []Entry) error {
		all = append(all, es...)
		return nil
	})
	if res.Routes != len(all) {
		t.Errorf("Result.Routes = %d, but %d entries were handed over", res.Routes, len(all))
	}
	return all, res, log, err
}

func entry(prefix string, origin uint32, hop string) Entry {
	e := Entry{Prefix: netip.MustParsePrefix(prefix), Origin: origin}
	if hop != "" {
		e.NextHop = netip.MustParseAddr(hop)
	}
	return e
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
		want []Entry
		// problems found, as Problem.String gives them
		problems []string
	}{
		{"empty", "", nil, nil},
		{"prefixes of both families", "10.0.0.0/8\n2001:db8::/32\n0.0.0.0/0\n::/0\n",
			[]Entry{entry("10.0.0.0/8", 0, ""), entry("2001:db8::/32", 0, ""), entry("0.0.0.0/0", 0, ""), entry("::/0", 0, "")}, nil},
		{"CR LF and no line end at the end", "10.0.0.0/8\r\n2001:db8::/32\r\n192.0.2.1",
			[]Entry{entry("10.0.0.0/8", 0, ""), entry("2001:db8::/32", 0, ""), entry("192.0.2.1/32", 0, "")}, nil},
		{"byte order mark", "\xef\xbb\xbf10.0.0.0/8\n", []Entry{entry("10.0.0.0/8", 0, "")}, nil},
		{"comments and blank lines", "# a list\n\n  \t \n10.0.0.0/8 # ten\n11.0.0.0/8# eleven\n\r\n#end",
			[]Entry{entry("10.0.0.0/8", 0, ""), entry("11.0.0.0/8", 0, "")}, nil},
		{"heading", "prefix,origin,next_hop\n10.0.0.0/8,64500,192.0.2.1\n", []Entry{entry("10.0.0.0/8", 64500, "192.0.2.1")}, nil},
		{"heading only counts on line 1", "10.0.0.0/8\nprefix\n", []Entry{entry("10.0.0.0/8", 0, "")},
			[]string{`line 2: malformed prefix: "prefix"; line skipped`}},
		{"bare addresses are host routes", "192.0.2.1\n2001:db8::1\n", []Entry{entry("192.0.2.1/32", 0, ""), entry("2001:db8::1/128", 0, "")}, nil},
		{"fields by space, tab and comma", "10.0.0.0/8 64500 192.0.2.1\n10.1.0.0/16\t64501\t2001:db8::1\n10.2.0.0/16,AS64502, 192.0.2.3\n 10.3.0.0/16 , as4200000000\n",
			[]Entry{entry("10.0.0.0/8", 64500, "192.0.2.1"), entry("10.1.0.0/16", 64501, "2001:db8::1"), entry("10.2.0.0/16", 64502, "192.0.2.3"), entry("10.3.0.0/16", 4200000000, "")}, nil},
		{"next hop without or before an origin", "10.0.0.0/8,,192.0.2.1\n10.1.0.0/16 192.0.2.1 64500\n",
			[]Entry{entry("10.0.0.0/8", 0, "192.0.2.1"), entry("10.1.0.0/16", 64500, "192.0.2.1")}, nil},
		{"host bits are masked", "10.1.2.3/8\n2001:db8::1/32 64500\n", []Entry{entry("10.0.0.0/8", 0, ""), entry("2001:db8::/32", 64500, "")},
			[]string{"line 1: host bits set: 10.1.2.3/8; used as 10.0.0.0/8", "line 2: host bits set: 2001:db8::1/32; used as 2001:db8::/32"}},
		{"length out of range", "10.0.0.0/33\n2001:db8::/129\n10.0.0.0/999999999999\n10.0.0.0/8\n", []Entry{entry("10.0.0.0/8", 0, "")},
			[]string{`line 1: prefix length out of range: "10.0.0.0/33"; line skipped`,
				`line 2: prefix length out of range: "2001:db8::/129"; line skipped`,
				`line 3: prefix length out of range: "10.0.0.0/999999999999"; line skipped`}},
		{"malformed", "10.0.0/8\n10.0.0.0/\n10.0.0.0/08\n010.0.0.0/8\n10.0.0.256/8\nfe80::1%eth0\nfe80::/10%eth0\nhello\n10.0.0.0/-1\n/8\n",
			nil, []string{
				`line 1: malformed prefix: "10.0.0/8"; line skipped`, `line 2: malformed prefix: "10.0.0.0/"; line skipped`,
				`line 3: malformed prefix: "10.0.0.0/08"; line skipped`, `line 4: malformed prefix: "010.0.0.0/8"; line skipped`,
				`line 5: malformed prefix: "10.0.0.256/8"; line skipped`, `line 6: malformed prefix: "fe80::1%eth0"; line skipped`,
				`line 7: malformed prefix: "fe80::/10%eth0"; line skipped`, `line 8: malformed prefix: "hello"; line skipped`,
				`line 9: malformed prefix: "10.0.0.0/-1"; line skipped`, `line 10: malformed prefix: "/8"; line skipped`}},
		{"IPv4-mapped", "::ffff:192.0.2.0/120\n::ffff:192.0.2.1\n::ffff:0:0/96\n::ffff:0:0/95\n::ffff:192.0.2.1/120\n",
			[]Entry{entry("192.0.2.0/24", 0, ""), entry("192.0.2.1/32", 0, ""), entry("0.0.0.0/0", 0, ""), entry("192.0.2.0/24", 0, "")},
			[]string{"line 1: IPv4-mapped IPv6 prefix: ::ffff:192.0.2.0/120; used as 192.0.2.0/24",
				"line 2: IPv4-mapped IPv6 prefix: ::ffff:192.0.2.1/128; used as 192.0.2.1/32",
				"line 3: IPv4-mapped IPv6 prefix: ::ffff:0.0.0.0/96; used as 0.0.0.0/0",
				"line 4: IPv4-mapped IPv6 prefix: ::ffff:0.0.0.0/95 reaches beyond the mapped addresses; line skipped",
				"line 5: IPv4-mapped IPv6 prefix: ::ffff:192.0.2.1/120; used as 192.0.2.0/24",
				"line 5: host bits set: ::ffff:192.0.2.1/120; used as 192.0.2.0/24"}},
		{"a bad field costs only itself", "10.0.0.0/8 AS 192.0.2.1\n10.1.0.0/16 4294967296\n10.2.0.0/16 1 2\n10.3.0.0/16 fe80::1%eth0\n",
			[]Entry{entry("10.0.0.0/8", 0, "192.0.2.1"), entry("10.1.0.0/16", 0, ""), entry("10.2.0.0/16", 1, ""), entry("10.3.0.0/16", 0, "")},
			[]string{`line 1: unusable field: "AS" behind 10.0.0.0/8 is not an origin AS or a next hop, or is a second one; field ignored`,
				`line 2: unusable field: "4294967296" behind 10.1.0.0/16 is not an origin AS or a next hop, or is a second one; field ignored`,
				`line 3: unusable field: "2" behind 10.2.0.0/16 is not an origin AS or a next hop, or is a second one; field ignored`,
				`line 4: unusable field: "fe80::1%eth0" behind 10.3.0.0/16 is not an origin AS or a next hop, or is a second one; field ignored`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				got, _, log, err := read(t, r)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("entries\n got %v\nwant %v", got, tt.want)
				}
				var said []string
				for _, p := range log.First() {
					said = append(said, p.String())
				}
				if !slices.Equal(said, tt.problems) {
					t.Errorf("problems\n got %q\nwant %q", said, tt.problems)
				}
			}
		})
	}
}

func TestLongLineIsSkippedWhole(t *testing.T) {
	long := "10.9.9.0/24 " + strings.Repeat("x", 3*MaxLine+17)
	for _, end := range []string{"\n11.0.0.0/8\n", "\n", ""} {
		got, res, log, err := read(t, strings.NewReader("10.0.0.0/8\n"+long+end))
		if err != nil {
			t.Fatal(err)
		}
		want := []Entry{entry("10.0.0.0/8", 0, "")}
		lines := 2
		if len(end) > 1 {
			want, lines = append(want, entry("11.0.0.0/8", 0, "")), 3
		}
		if !slices.Equal(got, want) || res.Lines != lines {
			t.Errorf("end %q: got %v and %d lines, want %v and %d", end, got, res.Lines, want, lines)
		}
		if log.Counts()[KindLongLine] != 1 || log.Total() != 1 || log.First()[0].Where != "line 2" {
			t.Errorf("end %q: problems %v", end, log.First())
		}
	}
}

func TestReadErrorKeepsWholeLines(t *testing.T) {
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("10.0.0.0/8\n11.0.0.0/8\n12.0.0.0/1"), iotest.ErrReader(broken))
	got, _, _, err := read(t, r)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("error %v, want line 3 and the cause", err)
	}
	if want := []Entry{entry("10.0.0.0/8", 0, ""), entry("11.0.0.0/8", 0, "")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: the cut line must not count", got, want)
	}
}

func TestEmitErrorEndsReading(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	_, err := Read(strings.NewReader(strings.Repeat("10.0.0.0/8\n", 3*batch)), problems.NewLog(0), func([]Entry) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("error %v after %d calls, want stop after 1", err, calls)
	}
}

func TestProblemsBeyondTheFirstAreCounted(t *testing.T) {
	_, _, log, err := read(t, strings.NewReader(strings.Repeat("nonsense\n", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if len(log.First()) != problems.DefaultKeep || log.Counts()[KindMalformed] != 1000 {
		t.Errorf("%d kept, %v counted", len(log.First()), log.Counts())
	}
}

// TestGeneratedListComesBack writes a table as text and reads it again.
func TestGeneratedListComesBack(t *testing.T) {
	const seed = 7
	table := fixtures.Generate(seed, 5000, 2000)
	var text bytes.Buffer
	if err := fixtures.WriteList(&text, table); err != nil {
		t.Fatal(err)
	}
	got, _, log, err := read(t, &text)
	if err != nil || log.Total() != 0 {
		t.Fatalf("seed %d: %v, problems %v", seed, err, log.First())
	}
	for i, r := range table.Routes {
		a := table.Attrs[r.Attrs]
		if want := (Entry{r.Prefix, a.NextHop, a.ASPath.Origins()[0]}); got[i] != want {
			t.Fatalf("seed %d, route %d: got %v, want %v", seed, i, got[i], want)
		}
	}
}

// TestScan4AgreesWithNetip mutates sound prefixes and compares with the standard library.
func TestScan4AgreesWithNetip(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	const alphabet = "0123456789./: ,x"
	for range 200_000 {
		b := fmt.Appendf(nil, "%d.%d.%d.%d/%d", r.IntN(300), r.IntN(300), r.IntN(256), r.IntN(12), r.IntN(40))
		for range r.IntN(3) {
			b[r.IntN(len(b))] = alphabet[r.IntN(len(alphabet))]
		}
		checkScan4(t, b)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkScan4(t *testing.T, b []byte) {
	got, rest, ok := scan4(b)
	field := b
	if i := bytes.IndexAny(b, " \t,"); i >= 0 {
		field = b[:i]
	}
	want, err := netip.ParsePrefix(string(field))
	if wantOK := err == nil && want.Addr().Is4(); ok != wantOK || ok && (got != want || len(rest) != len(b)-len(field)) {
		t.Errorf("scan4(%q) = %v, %q, %v; netip says %v, %v", b, got, rest, ok, want, err)
	}
}

func TestRealLists(t *testing.T) {
	for _, tt := range []struct {
		file    string
		routes  int
		origins bool
	}{
		{"ris-2026-05-11-as3333-v4.txt.gz", 1042325, false},
		{"ris-2026-05-11-as3333-v6.txt.gz", 246175, false},
		{"asmap-2025-12-04-prefix-asn.txt.gz", 535442 + 165936, true},
	} {
		t.Run(tt.file, func(t *testing.T) {
			want := fixtures.Prefixes(t, tt.file)
			got, res, log, err := read(t, bytes.NewReader(uncompressed(t, tt.file)))
			if err != nil || log.Total() != 0 {
				t.Fatalf("error %v, problems %v", err, log.First())
			}
			if res.Routes != tt.routes || len(want) != tt.routes {
				t.Fatalf("%d routes read, %d by the slow way, want %d", res.Routes, len(want), tt.routes)
			}
			for i, e := range got {
				if e.Prefix != want[i] || (e.Origin != 0) != tt.origins {
					t.Fatalf("line %d: got %v, want %v", i+1, e, want[i])
				}
			}
		})
	}
}
