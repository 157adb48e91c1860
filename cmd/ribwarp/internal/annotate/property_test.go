package annotate

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// cell makes the text of a line, field or member: mostly addresses, some nearly so, some not.
func cell(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(r.IntN(3)), 15: byte(r.Uint32())}).String()
	case 1:
		return "::ffff:10.1.2." + fmt.Sprint(r.IntN(5))
	case 2:
		return []string{"", "-", "10.1.2", "10.1.2.3.4", "10.1.2.256", "010.1.2.3", "10.1.2.03", "10.1.2.3/32", "fe80::1%eth0", "10..2.3", "1", ".", "10.1.2.3x", "localhost", "10.1.2.3 10.1.2.4", "2001:db8::g", "ÄÖ\xff"}[r.IntN(17)]
	case 3:
		garbage := make([]byte, r.IntN(60))
		for i := range garbage {
			garbage[i] = []byte("0123456789.:,\"'\t abc\\{}")[r.IntN(23)]
		}
		return string(garbage)
	case 4:
		return lpm.Netip4(r.Uint32()).String()
	}
	return lpm.Netip4(10<<24 | uint32(r.IntN(3))<<16 | uint32(r.IntN(4))<<8 | uint32(r.IntN(5))).String()
}

// annotateText runs one input through a random choice of workers, block and read sizes.
func annotateText(t *testing.T, r *rand.Rand, gen *rib.Generation, in string, o Options) (string, Stats) {
	t.Helper()
	o.Workers = 1 + r.IntN(4)
	o.BlockSize = 1 + r.IntN(300)
	var reader io.Reader = strings.NewReader(in)
	if r.IntN(2) == 0 {
		reader = iotest.HalfReader(reader)
	}
	if r.IntN(4) == 0 {
		reader = iotest.DataErrReader(reader)
	}
	var out bytes.Buffer
	stats, err := Run(context.Background(), gen, reader, &out, o)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return out.String(), stats
}

var allOfThem = []Column{Prefix, NextHop, ASPath, OriginASNs, Communities}

// fields is the slow way to the columns of a route.
func fields(route rib.Route, columns []Column) (list []string) {
	for _, c := range columns {
		text := ""
		if route.Path != (rib.Path{}) {
			a := route.Path.Value()
			switch c {
			case NextHop:
				text = a.NextHop.String()
			case ASPath:
				text = a.ASPath.String()
			case OriginASNs:
				text = strings.Trim(fmt.Sprint(a.ASPath.Origins()), "[]")
			case Communities:
				text = strings.Join(append(a.Communities.Strings(), a.LargeCommunities.Strings()...), " ")
			}
		}
		if c == Prefix && route.Prefix.IsValid() {
			text = route.Prefix.String()
		}
		list = append(list, text)
	}
	return list
}

func TestLinesAgreeWithTheSlowWay(t *testing.T) {
	r, routes := newRand(t), testRoutes()
	gen := generation(t, routes)
	for range 300 {
		var in strings.Builder
		var want [][]string
		var stats Stats
		columns := allOfThem[:1+r.IntN(len(allOfThem))]
		lines := r.IntN(3000) * r.IntN(2)
		if lines == 0 {
			lines = r.IntN(10)
		}
		want = append(want, append([]string{"ip"}, names(columns)...))
		for i := range lines {
			text := cell(r)
			best, isAddr := longest(routes, strings.Trim(text, " \t"))
			stats.Records++
			if best.Prefix.IsValid() {
				stats.Matched++
			}
			if !isAddr {
				if stats.Bad == 0 {
					stats.FirstBad, stats.FirstBadText = stats.Records, strings.Trim(text, " \t")
				}
				stats.Bad++
			}
			want = append(want, append([]string{strings.Trim(text, " \t")}, fields(best, columns)...))
			end := []string{"\n", "\r\n"}[r.IntN(2)]
			if i == lines-1 && text != "" && r.IntN(2) == 0 {
				end = ""
			}
			in.WriteString(text + end)
		}
		out, got := annotateText(t, r, gen, in.String(), Options{Columns: columns})
		if got != stats {
			t.Errorf("counted %+v, want %+v", got, stats)
		}
		compareCSV(t, out, want, ',')
		if t.Failed() {
			return
		}
	}
}

func names(columns []Column) (list []string) {
	for _, c := range columns {
		list = append(list, string(c))
	}
	return list
}

func compareCSV(t *testing.T, out string, want [][]string, sep rune) {
	t.Helper()
	reader := csv.NewReader(strings.NewReader(out))
	reader.Comma = sep
	reader.FieldsPerRecord = -1
	got, err := reader.ReadAll()
	if err != nil {
		t.Fatalf("output is no CSV: %v", err)
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("record %d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestCSVKeepsItsColumns(t *testing.T) {
	r, routes := newRand(t), testRoutes()
	gen := generation(t, routes)
	for range 200 {
		width := 1 + r.IntN(4)
		at := r.IntN(width)
		want := [][]string{{}}
		for i := range width {
			want[0] = append(want[0], []string{"a", "b,c", "line\nend", `"q"`}[i])
		}
		o := Options{Format: CSV, Column: want[0][at], Columns: allOfThem[:1+r.IntN(len(allOfThem))]}
		if r.IntN(2) == 0 {
			o.Column = fmt.Sprint(at + 1)
		}
		noHeader := r.IntN(3) == 0
		if noHeader {
			want, o.NoHeader, o.Column = nil, true, fmt.Sprint(at+1)
		}
		for range 1 + r.IntN(500) {
			record := make([]string, width)
			for i := range record {
				record[i] = cell(r)
				if r.IntN(5) == 0 {
					record[i] += "\n" + cell(r)
				}
			}
			if width == 1 && record[0] == "" {
				record[0] = "x" // encoding/csv skips lines that are empty
			}
			want = append(want, record)
		}
		var in bytes.Buffer
		w := csv.NewWriter(&in)
		w.UseCRLF = false
		if err := w.WriteAll(want); err != nil {
			t.Fatal(err)
		}
		for i, record := range want {
			if i == 0 && !noHeader {
				want[i] = append(record, names(o.Columns)...)
				continue
			}
			best, _ := longest(routes, strings.Trim(record[at], " \t"))
			want[i] = append(record, fields(best, o.Columns)...)
		}
		out, _ := annotateText(t, r, gen, in.String(), o)
		compareCSV(t, out, want, ',')
	}
}

func TestJSONLinesKeepTheirMembers(t *testing.T) {
	r, routes := newRand(t), testRoutes()
	gen := generation(t, routes)
	for range 200 {
		var in bytes.Buffer
		var objects []map[string]any
		var texts []string
		for range 1 + r.IntN(200) {
			text := strings.ToValidUTF8(cell(r), "?")
			o := map[string]any{"n": float64(r.IntN(1000)), "s": strings.ToValidUTF8(cell(r), "?"), "list": []any{"}", `"`, nil, true}}
			flow := map[string]any{"": text, "other}": "{", "src": text}
			if r.IntN(10) > 0 {
				o["flow"] = flow
			} else {
				text = "not there"
			}
			line, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			in.Write(line)
			in.WriteString([]string{"\n", "\r\n", " \n"}[r.IntN(3)])
			objects, texts = append(objects, o), append(texts, text)
		}
		prefixed := r.IntN(2) == 0
		o := Options{Format: JSONL, Field: "flow.src", Columns: []Column{Prefix, ASPath}}
		if prefixed {
			o.NamePrefix = "route_"
		}
		out, _ := annotateText(t, r, gen, in.String(), o)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(objects) {
			t.Fatalf("%d lines, want %d", len(lines), len(objects))
		}
		for i, line := range lines {
			best, _ := longest(routes, strings.Trim(texts[i], " \t"))
			var prefix any
			if best.Prefix.IsValid() {
				prefix = best.Prefix.String()
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("line %d: %v: %s", i, err, line)
			}
			if prefixed {
				if got["route_prefix"] != prefix {
					t.Fatalf("line %d: prefix %v, want %v", i, got["route_prefix"], prefix)
				}
				delete(got, "route_prefix")
				delete(got, "route_as_path")
			} else {
				route, _ := got["route"].(map[string]any)
				if (route == nil) != (prefix == nil) || route != nil && route["prefix"] != prefix {
					t.Fatalf("line %d: route %v, want %v", i, route, prefix)
				}
				delete(got, "route")
			}
			if fmt.Sprint(got) != fmt.Sprint(objects[i]) {
				t.Fatalf("line %d: kept %v, want %v", i, got, objects[i])
			}
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"10.1.2.3\n", "10.1.2.3", "\r\n\r\n", "10.1.2.300\n2001:db8::1", "a,\"b\n10.0.0.1\r", "\xef\xbb\xbf10.0.0.1\n"} {
		f.Add(s, uint8(7))
	}
	gen := generation(f, testRoutes())
	f.Fuzz(func(t *testing.T, in string, blockSize uint8) {
		var out bytes.Buffer
		stats, err := Run(context.Background(), gen, strings.NewReader(in), &out, Options{BlockSize: int(blockSize), Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		in = strings.TrimPrefix(in, "\xef\xbb\xbf")
		lines := strings.Count(in, "\n")
		if in != "" && !strings.HasSuffix(in, "\n") {
			lines++
		}
		if stats.Records != uint64(lines) {
			t.Errorf("%d records of %d lines", stats.Records, lines)
		}
	})
}

// FuzzRecords feeds anything to the formats with structure: none may panic, and all must keep
// the number of lines where no record spans several.
func FuzzRecords(f *testing.F) {
	f.Add("a,b\n1,10.0.0.1\n", uint8(3))
	f.Add("a,\"b\n\"\"\",\n\"10.1.2.3\r", uint8(200))
	f.Add(`{"a":"10.0.0.1"}`+"\n{}\n[1]\n", uint8(9))
	f.Add(`{"a":{"b":"\u0031"},"a":"::1" }`, uint8(1))
	gen := generation(f, testRoutes())
	f.Fuzz(func(t *testing.T, in string, blockSize uint8) {
		for _, o := range []Options{
			{Format: CSV, Column: "1"}, {Format: CSV, Column: "2", NoHeader: true}, {Format: TSV, Column: "1"},
			{Format: JSONL, Field: "a"}, {Format: JSONL, Field: "a.b", NamePrefix: "x"},
		} {
			o.BlockSize, o.Workers = int(blockSize), 2
			var out bytes.Buffer
			stats, err := Run(context.Background(), gen, strings.NewReader(in), &out, o)
			if err != nil {
				continue // a header that lacks the column
			}
			if o.Format != JSONL {
				continue
			}
			for i, line := range bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n")) {
				if stats.Records > 0 && !json.Valid(line) {
					t.Fatalf("line %d is no JSON: %q", i, line)
				}
			}
		}
	})
}
