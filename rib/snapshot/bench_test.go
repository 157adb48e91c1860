package snapshot

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
)

// fullTable is a service whose one peer has a table of the shape and size of the real one: 1.29 M
// routes with 258,000 sets of attributes.
func fullTable(b *testing.B) *service {
	s := newService(b, []string{"default"}, somePeers[0])
	for u := range fixtures.Generate(1, 1_042_325, 246_175).Updates(500) {
		s.tables["default"].peers["a"].Apply(u)
	}
	s.publish(b)
	return s
}

func BenchmarkSave(b *testing.B) {
	path := filepath.Join(b.TempDir(), "saved")
	s := fullTable(b)
	saver, _ := s.restored(b, path)
	for b.Loop() {
		save(b, saver)
	}
	b.ReportMetric(float64(saver.Stats().LastBytes), "file-B")
	runtime.KeepAlive(s)
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "saved")
	saver, _ := fullTable(b).restored(b, path)
	save(b, saver)
	for b.Loop() {
		must[*Saved](b)(Load(path))
	}
}

// BenchmarkRestart is a new process each time, from its start to its end: it reads a full table,
// restores it and publishes its first generation, with the engine that answers.
func BenchmarkRestart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "saved")
	saver, _ := fullTable(b).restored(b, path)
	save(b, saver)
	var best, sum, parts [5]float64 // parts in milliseconds
	n := 0.0
	for b.Loop() {
		start := time.Now()
		cmd, out := started(b, "restart", path)
		must[int](b)(fmt.Fscan(out, &parts[0], &parts[1], &parts[2]))
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		parts[3] = milliseconds(time.Since(start))
		parts[4] = milliseconds(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
		n++
		for i, ms := range parts {
			sum[i] += ms
			if n == 1 || ms < best[i] {
				best[i] = ms
			}
		}
	}
	for i, name := range []string{"load", "restore", "publish", "all", "cpu"} {
		b.ReportMetric(sum[i]/n, name+"-ms")
		b.ReportMetric(best[i], name+"-best-ms")
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// restart is the child of BenchmarkRestart. It prints how long each part took.
func restart(path string) int {
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		panic(err)
	}
	s := newService(childTB{}, []string{"default"}, somePeers[0])
	publisher := rib.NewPublisher(s.tables["default"].rib, engine, rib.PublisherOptions{Log: quiet})
	last := time.Now()
	took := func() float64 {
		now := time.Now()
		defer func() { last = now }()
		return milliseconds(now.Sub(last))
	}
	saved, err := Load(path)
	if err != nil {
		panic(err)
	}
	load := took()
	saved.Restore(s.find, 0)
	restore := took()
	if err := publisher.Flush(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(load, restore, took())
	return 0
}
