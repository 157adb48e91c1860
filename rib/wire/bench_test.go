package wire

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"net/netip"
	"os"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

// BenchmarkDecodeFullTable decodes the real table of 1.29 M prefixes, once packed as densely as
// messages allow and once with four prefixes a message, as real tables come on average.
func BenchmarkDecodeFullTable(b *testing.B) {
	var tables [2][]rib.NLRI
	for i, name := range []string{"ris-2026-05-11-as3333-v4.txt.gz", "ris-2026-05-11-as3333-v6.txt.gz"} {
		tables[i] = readTable(b, fixtures.DataFile(b, name))
	}
	for _, c := range []struct {
		name string
		most int
	}{{"packed", 4000}, {"four-a-message", 4}} {
		b.Run(c.name, func(b *testing.B) {
			var bodies [][]byte
			for i, table := range tables {
				var field []byte
				n := 0
				for j, p := range table {
					field = append(field, encode(p, false)...)
					if n++; n < c.most && len(field) < 3900 && j+1 < len(table) {
						continue
					}
					path := attr(wellKnown, 2, sequence(64500, 64501, uint32(1+j), 64502)...)
					communities := binary.BigEndian.AppendUint64(nil, uint64(j))
					if i == 0 {
						bodies = append(bodies, update(nil, [][]byte{origin, path, nextHop, attr(transitive, 8, communities...)}, field))
					} else {
						bodies = append(bodies, update(nil, [][]byte{origin, path, reach6(global, field...), attr(transitive, 8, communities...)}, nil))
					}
					field, n = nil, 0
				}
			}
			b.ReportAllocs()
			total := 0
			for b.Loop() {
				total = 0
				d := NewDecoder(Options{})
				for _, body := range bodies {
					m, err := d.Decode(body)
					if err != nil || m.Damage != nil {
						b.Fatal(err, m.Damage)
					}
					for _, u := range m.Updates {
						total += len(u.Reach)
					}
				}
			}
			if want := len(tables[0]) + len(tables[1]); total != want {
				b.Fatalf("%d prefixes came out, want %d", total, want)
			}
			b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds(), "prefixes/s")
			b.ReportMetric(float64(len(bodies)), "messages")
		})
	}
}

func readTable(tb testing.TB, path string) (ns []rib.NLRI) {
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		p, err := netip.ParsePrefix(lines.Text())
		if err != nil {
			tb.Fatal(err)
		}
		ns = append(ns, rib.NLRI{Prefix: p.Masked()})
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return ns
}
