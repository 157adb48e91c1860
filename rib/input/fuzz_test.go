package input

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ribwarp/ribwarp/rib"
)

// FuzzLoad feeds any bytes as a file: whatever they are, Load ends with one of its errors, never
// leaves anybody waiting, and reports every break.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("10.0.0.0/8 64500\n"))
	f.Add(bz2List)
	f.Add([]byte("\xfd7zXZ\x00\x00\x01"))
	f.Add([]byte{0, 0, 0, 0, 0, 13, 0, 1, 0, 0, 0, 8, 1, 2, 3, 4, 0, 0, 0, 0})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte("10.0.0.0/8\n"))
	_ = w.Close()
	f.Add(z.Bytes())
	encoder, _ := zstd.NewWriter(nil)
	f.Add(encoder.EncodeAll([]byte("10.0.0.0/8\n"), nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		r := rib.New(rib.Options{})
		report, err := Load(context.Background(), r, "-", Options{Stdin: bytes.NewReader(file), Awaited: true})
		if err != nil && !errors.Is(err, ErrUnknownType) && !errors.Is(err, ErrNothingRead) {
			t.Errorf("error %v", err)
		}
		if pending := r.Pending(); len(pending) > 0 {
			t.Errorf("still awaited: %v", pending)
		}
		if v4, v6 := r.Counts(); v4+v6 > report.Routes {
			t.Errorf("%d routes held, %d reported", v4+v6, report.Routes)
		}
		if (report.Broken != nil) != (report.ProblemCounts[KindBroken] == 1) {
			t.Errorf("broken %v, problems %v", report.Broken, report.ProblemCounts)
		}
	})
}
