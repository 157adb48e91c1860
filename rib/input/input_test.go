package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
	"github.com/ribwarp/ribwarp/rib/mrt"
	"github.com/ribwarp/ribwarp/rib/prefixlist"
)

// bz2List is "10.0.0.0/8\n" as bzip2 compresses it; Go has no writer for that.
var bz2List = []byte("\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xbf\xd6\x08\x07\x00\x00\x04\xd8\x00\x00\x10\x00\x01\xe0\x40\x20\x00\x30\xc0\x06\x9a\x3c\xa2\x48\x98\x3e\x2e\xe4\x8a\x70\xa1\x21\x7f\xac\x10\x0e")

// compressors write a file in every compression but bzip2.
var compressors = map[Compression]func(io.Writer) (io.WriteCloser, error){
	Plain: func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil },
	Gzip:  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	XZ:    func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
	Zstd:  func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func compress(t *testing.T, c Compression, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := compressors[c](&b)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, content []byte, o Options) (*rib.RIB, Report, error) {
	t.Helper()
	r := rib.New(rib.Options{})
	report, err := Load(context.Background(), r, writeFile(t, "routes", content), o)
	if pending := r.Pending(); len(pending) > 0 {
		t.Errorf("still awaited: %v", pending)
	}
	return r, report, err
}

func mrtFile(t *testing.T, routes int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := fixtures.WriteMRT(&b, fixtures.Generate(1, routes, routes/2), 2); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEveryCompressionOfEveryFormat(t *testing.T) {
	list := []byte(strings.Repeat("# comment\n", 20) + "10.0.0.0/8 64500 192.0.2.1\n2001:db8::/32\n")
	for c := range compressors {
		for format, content := range map[Format][]byte{List: list, MRT: mrtFile(t, 20)} {
			t.Run(fmt.Sprintf("%s %s", c, format), func(t *testing.T) {
				r, report, err := load(t, compress(t, c, content), Options{Strict: true, Awaited: true})
				if err != nil {
					t.Fatal(err)
				}
				wantPeers, want4, want6 := 1, 1, 1
				if format == MRT {
					wantPeers, want4, want6 = 2, 20, 10
				}
				v4, v6 := r.Counts()
				if report.Compression != c || report.Format != format || report.Peers != wantPeers || v4 != want4 || v6 != want6 || len(r.Peers()) != wantPeers {
					t.Errorf("report %+v, %d and %d routes, peers %v", report, v4, v6, r.Peers())
				}
				for _, p := range r.Peers() {
					if !p.Loaded {
						t.Errorf("peer %s is not loaded", p.Name)
					}
				}
			})
		}
	}
}

func TestConcatenatedMembersAreOneFile(t *testing.T) {
	for c := range compressors {
		file := append(compress(t, c, []byte("10.0.0.0/8\n11.0")), compress(t, c, []byte(".0.0/8\n"))...)
		if r, report, err := load(t, file, Options{Strict: true}); err != nil || report.Routes != 2 {
			t.Errorf("%s: %v, report %+v, peers %v", c, err, report, r.Peers())
		}
	}
}

func TestBzip2(t *testing.T) {
	for name, file := range map[string][]byte{"one member": bz2List, "two members": slices.Concat(bz2List, bz2List)} {
		r, report, err := load(t, file, Options{})
		if v4, _ := r.Counts(); err != nil || report.Compression != Bzip2 || v4 != 1 {
			t.Errorf("%s: %v, report %+v", name, err, report)
		}
	}
}

// TestTruncatedFilesKeepWhatWasRead cuts compressed files in the middle.
func TestTruncatedFilesKeepWhatWasRead(t *testing.T) {
	var list bytes.Buffer
	if err := fixtures.WriteList(&list, fixtures.Generate(1, 60_000, 20_000)); err != nil {
		t.Fatal(err)
	}
	for c := range compressors {
		for format, content := range map[Format][]byte{List: list.Bytes(), MRT: mrtFile(t, 6000)} {
			if c == Plain && format == List {
				continue // a list cut between lines is a list
			}
			t.Run(fmt.Sprintf("%s %s", c, format), func(t *testing.T) {
				file := compress(t, c, content)
				for _, strict := range []bool{false, true} {
					r, report, err := load(t, file[:len(file)/2], Options{Strict: strict, Awaited: true})
					if strict != errors.Is(err, ErrProblems) {
						t.Errorf("strict %v: error %v", strict, err)
					}
					v4, v6 := r.Counts()
					if report.Broken == nil || v4+v6 < 1000 || report.ProblemCounts[KindBroken] != 1 {
						t.Errorf("broken %v, %d routes kept, problems %v", report.Broken, v4+v6, report.Problems)
					}
					var broken *mrt.BrokenError
					if format == MRT && !errors.As(report.Broken, &broken) {
						t.Errorf("broken %v does not say where", report.Broken)
					}
					if format == List && !strings.Contains(report.Broken.Error(), "line ") {
						t.Errorf("broken %v does not say where", report.Broken)
					}
				}
			})
		}
	}
}

func TestDamagedFilesKeepWhatWasRead(t *testing.T) {
	content := mrtFile(t, 6000)
	for c := range compressors {
		if c == Plain {
			continue
		}
		file := compress(t, c, content)
		for i := range 64 {
			file[len(file)*3/4+i] ^= 0x5a
		}
		_, report, err := load(t, file, Options{})
		if err != nil || report.Broken == nil || report.Routes == 0 {
			t.Errorf("%s: error %v, broken %v, %d routes", c, err, report.Broken, report.Routes)
		}
	}
}

func TestNothingReadIsAnError(t *testing.T) {
	for name, file := range map[string][]byte{
		"gzip header only":   {0x1f, 0x8b, 8},
		"xz header only":     []byte("\xfd7zXZ\x00\x00"),
		"zstd magic only":    {0x28, 0xb5, 0x2f, 0xfd},
		"bzip2 magic only":   []byte("BZh9"),
		"MRT with bad start": append(bytes.Repeat([]byte{0}, 5), 13, 0, 2, 0, 0, 9, 9, 1),
	} {
		_, report, err := load(t, file, Options{Awaited: true})
		if !errors.Is(err, ErrNothingRead) || report.Broken == nil {
			t.Errorf("%s: error %v, report %+v", name, err, report)
		}
	}
}

func TestUnknownTypeNamesTheFirstBytes(t *testing.T) {
	for name, file := range map[string][]byte{
		"binary": {0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"JSON":   []byte(`{"routes":[` + strings.Repeat(`"x",`, 5000) + `]}`),
		"HTML":   []byte("<html>\n<body>no routes\n"),
		"prose":  []byte("one line without anything of use"),
		"zeros":  make([]byte, 3),
	} {
		for c := range compressors {
			r, report, err := load(t, compress(t, c, file), Options{Awaited: true})
			first := problems.Excerpt(file[:min(len(file), 24)])
			if !errors.Is(err, ErrUnknownType) || !strings.Contains(err.Error(), first) || report.Routes != 0 {
				t.Errorf("%s, %s: error %v, want %s named", name, c, err, first)
			}
			if v4, v6 := r.Counts(); v4+v6 != 0 {
				t.Errorf("%s, %s: %d routes", name, c, v4+v6)
			}
		}
	}
}

func TestEmptyFilesAreAProblem(t *testing.T) {
	for name, file := range map[string][]byte{"no byte": nil, "comments": []byte("# nothing\n\n"), "peer table only": mrtFile(t, 0)} {
		_, report, err := load(t, file, Options{})
		if err != nil || report.ProblemCounts[KindEmpty] != 1 {
			t.Errorf("%s: error %v, problems %v", name, err, report.Problems)
		}
		if _, _, err := load(t, file, Options{Strict: true, Awaited: true}); !errors.Is(err, ErrProblems) {
			t.Errorf("%s, strict: error %v", name, err)
		}
	}
}

func TestListAttributesAndDuplicates(t *testing.T) {
	r, report, err := load(t, []byte("10.0.0.0/8 64500 192.0.2.1\n11.0.0.0/8 64500 192.0.2.1\n10.0.0.0/8 64501\n12.0.0.0/8\n13.0.0.0/8 192.0.2.2\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]rib.Attrs{
		"10.0.0.0/8": {Origin: rib.OriginIncomplete, ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64501}})},
		"11.0.0.0/8": {Origin: rib.OriginIncomplete, ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500}}), NextHop: netip.MustParseAddr("192.0.2.1")},
		"12.0.0.0/8": {Origin: rib.OriginIncomplete},
		"13.0.0.0/8": {Origin: rib.OriginIncomplete, NextHop: netip.MustParseAddr("192.0.2.2")},
	}
	got := make(map[string]rib.Attrs)
	for prefix := range want {
		for _, c := range r.Paths(netip.MustParsePrefix(prefix)) {
			got[prefix] = c.Route.Path.Value()
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if !maps.Equal(report.ProblemCounts, map[problems.Kind]int{KindDuplicate: 1}) || report.Routes != 5 {
		t.Errorf("report %+v", report)
	}
}

func TestProblemsAreReportedAndLogged(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	_, report, err := load(t, []byte("10.0.0.0/8\n10.1.2.3/16\n"+strings.Repeat("junk\n", 50)), Options{Strict: true, Keep: 3, Log: log})
	if !errors.Is(err, ErrProblems) || !strings.Contains(err.Error(), "51 in all") || !strings.Contains(err.Error(), "line 2: host bits set: 10.1.2.3/16; used as 10.1.0.0/16") {
		t.Errorf("error %v", err)
	}
	want := map[problems.Kind]int{prefixlist.KindHostBits: 1, prefixlist.KindMalformed: 50}
	if !maps.Equal(report.ProblemCounts, want) || len(report.Problems) != 3 || report.Routes != 2 {
		t.Errorf("report %+v", report)
	}
	for _, part := range []string{`where="line 3" kind="malformed prefix"`, `kind="malformed prefix" count=50`, "route file loaded", "problems=51"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("log lacks %s:\n%s", part, text.String())
		}
	}
}

func TestStdinAndProgress(t *testing.T) {
	r := rib.New(rib.Options{})
	var last, size int64 = 0, -1
	report, err := Load(context.Background(), r, "-", Options{Stdin: strings.NewReader("10.0.0.0/8\n"), Progress: func(n, of int64) { last, size = n, of }})
	if err != nil || report.Name != "stdin" || report.Routes != 1 || last != 11 || size != 0 {
		t.Errorf("%v, report %+v, progress %d of %d", err, report, last, size)
	}
	if _, err := Load(context.Background(), r, writeFile(t, "x", []byte("10.0.0.0/8\n")), Options{Progress: func(n, of int64) { last, size = n, of }}); err != nil || last != 11 || size != 11 {
		t.Errorf("%v, progress %d of %d", err, last, size)
	}
}

func TestFilesOfTheSameNameGetTheirOwnPeers(t *testing.T) {
	r := rib.New(rib.Options{})
	list, dump := []byte("10.0.0.0/8\n"), mrtFile(t, 3)
	for i, content := range [][]byte{list, list, dump, dump} {
		if report, err := Load(context.Background(), r, writeFile(t, "routes", content), Options{}); err != nil || report.Routes == 0 {
			t.Fatalf("load %d: %v, report %+v", i+1, err, report)
		}
	}
	var names []string
	for _, p := range r.Peers() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if want := []string{"routes", "routes#2", "routes#3 192.0.2.1 AS64500", "routes#3 192.0.2.2 AS64501", "routes#4 192.0.2.1 AS64500", "routes#4 192.0.2.2 AS64501"}; !slices.Equal(names, want) {
		t.Errorf("peers %q, want %q", names, want)
	}
}

// TestTakenNameStopsAnMRTLoad takes a peer's name after Open has looked.
func TestTakenNameStopsAnMRTLoad(t *testing.T) {
	r := rib.New(rib.Options{})
	s, err := Open(r, writeFile(t, "routes", mrtFile(t, 3)), Options{Awaited: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.AddPeer(rib.PeerConfig{Name: "routes 192.0.2.1 AS64500"}); err != nil {
		t.Fatal(err)
	}
	report, err := s.Load(context.Background())
	if err == nil || report.Broken != nil || len(r.Pending()) != 0 {
		t.Errorf("error %v, report %+v, awaited %v", err, report, r.Pending())
	}
}

func TestOpenFails(t *testing.T) {
	r := rib.New(rib.Options{})
	if _, err := Open(r, filepath.Join(t.TempDir(), "none"), Options{Awaited: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(r, t.TempDir(), Options{Awaited: true}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: %v", err)
	}
	if len(r.Peers()) != 0 {
		t.Errorf("peers left behind: %v", r.Peers())
	}
}

func TestReadinessWaitsFromOpenUntilLoadOrClose(t *testing.T) {
	for format, content := range map[Format][]byte{List: []byte("10.0.0.0/8\n"), MRT: mrtFile(t, 3)} {
		for _, end := range []string{"load", "close"} {
			r := rib.New(rib.Options{})
			s, err := Open(r, writeFile(t, "routes", content), Options{Awaited: true})
			if err != nil {
				t.Fatal(err)
			}
			if pending := r.Pending(); !slices.Equal(pending, []string{"routes"}) {
				t.Errorf("%s: awaited after Open: %v", format, pending)
			}
			if end == "load" {
				_, err = s.Load(context.Background())
			} else {
				err = s.Close()
			}
			if err != nil || len(r.Pending()) != 0 {
				t.Errorf("%s: %v, awaited after %s: %v", format, err, end, r.Pending())
			}
		}
	}
}

func TestContextEndsLoadOfAList(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := rib.New(rib.Options{})
	_, err := Load(ctx, r, "-", Options{Awaited: true, Stdin: readerFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, "10.0.0.0/8\n"), nil
	})})
	if !errors.Is(err, context.Canceled) || len(r.Pending()) != 0 {
		t.Errorf("error %v, awaited %v", err, r.Pending())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRealFiles(t *testing.T) {
	for _, tt := range []struct {
		file        string
		compression Compression
		format      Format
		v4, v6      int
		peers       int
		broken      bool
	}{
		{"ris-2026-05-11-as3333-v4.txt.gz", Gzip, List, 1042325, 0, 1, false},
		{"ris-2026-05-11-as3333-v6.txt.gz", Gzip, List, 0, 246175, 1, false},
		{"asmap-2025-12-04-prefix-asn.txt.gz", Gzip, List, 535442, 165936, 1, false},
		{"mrt-tabledumpv2-2014-05-23-v4-truncated.bz2", Bzip2, MRT, 9072, 0, 47, true},
		{"mrt-tabledumpv2-2015-11-01-v6-truncated.bz2", Bzip2, MRT, 0, 6870, 29, true},
		{"mrt-updates-2019-01-01-5min.gz", Gzip, MRT, 18192, 243, 69, false},
	} {
		t.Run(tt.file, func(t *testing.T) {
			r := rib.New(rib.Options{})
			report, err := Load(context.Background(), r, fixtures.DataFile(t, tt.file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			v4, v6 := r.Counts()
			if v4 != tt.v4 || v6 != tt.v6 || report.Peers != tt.peers || report.Format != tt.format || report.Compression != tt.compression || (report.Broken != nil) != tt.broken {
				t.Errorf("%d and %d prefixes, report %+v", v4, v6, report)
			}
		})
	}
}
