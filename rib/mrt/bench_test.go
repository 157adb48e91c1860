package mrt

import (
	"bytes"
	"context"
	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"testing"
)

// BenchmarkLoad reads a generated dump of four peers that carry the same table.
func BenchmarkLoad(b *testing.B) {
	var file bytes.Buffer
	const peers = 4
	table := fixtures.Generate(1, 80_000, 20_000)
	if err := fixtures.WriteMRT(&file, table, peers); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		if _, err := Load(context.Background(), rib.New(rib.Options{}), bytes.NewReader(file.Bytes()), Options{Name: "f"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(peers*len(table.Routes))*float64(b.N)/b.Elapsed().Seconds(), "routes/s")
}
