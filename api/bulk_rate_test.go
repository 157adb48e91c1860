package api

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

var (
	bulkRounds = flag.Int("bulk-rounds", 0, "rounds of the measurement of bulk lookups (docs/benchmarks/http-bulk.sh); 0 skips it")
	bulkStream = flag.Int("bulk-stream", 100_000_000, "addresses of the streams whose memory is measured")
)

const bulkAddresses = 1_000_000

// TestBulkRate measures POST /api/v1/lookup over one connection, with the client in the same process: a
// million addresses as lines and in Arrow's format, the latter against an echo: a handler behind
// the same server that reads the same request and writes the same answer, recorded before, as it comes in. Then
// the memory that a long stream takes. It checks no rate: the figures are for people.
func TestBulkRate(t *testing.T) {
	if *bulkRounds == 0 {
		t.Skip("a measurement; run docs/benchmarks/http-bulk.sh")
	}
	w, routes := fullWorld(t)
	fmt.Printf("table: %d routes, generated; addresses: %d\n", len(routes), bulkAddresses)
	url := "http://" + listen(t, w.api.Handler()).String() + lookupPath
	r := rand.New(rand.NewPCG(1, 1))
	var v4 []rib.Route
	for _, rt := range routes {
		if rt.Prefix.Addr().Is4() {
			v4 = append(v4, rt)
		}
	}
	// Every route as likely as any other, which no cache likes; and a few of them most often, as in traffic.
	even := func(among []rib.Route) rib.Route { return among[r.IntN(len(among))] }
	zipf := rand.NewZipf(r, 1.1, 10, uint64(len(v4)-1))
	skewed := func(among []rib.Route) rib.Route { return among[int(zipf.Uint64())*7919%len(among)] }

	var text []byte
	for range bulkAddresses {
		text = append(inside(r, even(routes).Prefix).AppendTo(text), '\n')
	}
	measure("text to NDJSON, random routes of both families", func() (took time.Duration, size int) {
		took, size, lines := ask(t, bulkClient, url, "text/plain", text, nil)
		if lines != bulkAddresses {
			t.Fatalf("%d lines", lines)
		}
		return took, size
	}, nil)

	var longest []byte
	for _, of := range []struct {
		name string
		pick func([]rib.Route) rib.Route
	}{{"random routes", even}, {"routes by Zipf's law (1.1)", skewed}} {
		addrs := make([]uint32, bulkAddresses)
		for i := range addrs {
			addrs[i] = lpm.Addr4(inside(r, of.pick(v4).Prefix))
		}
		body := columnStream(t, addrs)
		var answer bytes.Buffer
		ask(t, bulkClient, url, mediaTypes[formArrow], body, &answer)
		echo := "http://" + listen(t, echoOf(len(body), answer.Bytes())).String() + lookupPath
		exchange := func(url string) func() (time.Duration, int) {
			return func() (time.Duration, int) {
				took, size, _ := ask(t, bulkClient, url, mediaTypes[formArrow], body, nil)
				if size != answer.Len() {
					t.Fatalf("%d bytes, not %d", size, answer.Len())
				}
				return took, size
			}
		}
		measure("Arrow, uint32, batches of 65,536, "+of.name, exchange(url), exchange(echo))
		longest = body
	}

	fmt.Printf("\nmemory of client and service over %d addresses\n", *bulkStream)
	for _, of := range []struct {
		kind  string
		piece []byte
	}{{"text/plain", text}, {mediaTypes[formArrow], longest}} {
		before, peak := streamed(t, url, of.kind, of.piece, *bulkStream/bulkAddresses)
		fmt.Printf("%s: %d MB before, +%d MB at most\n", of.kind, before>>20, (peak-before)>>20)
	}
}

// measure runs a thing, and what it is compared with, in turn, and prints the rates.
func measure(name string, mine, theirs func() (time.Duration, int)) {
	fmt.Printf("\n%s\n", name)
	rate := func(run func() (time.Duration, int)) (perSecond, cpu float64, size int) {
		before := processorTime()
		took, size := run()
		return bulkAddresses / took.Seconds(), float64(processorTime()-before) / bulkAddresses, size
	}
	var rates, ratios []float64
	for i := range *bulkRounds {
		if theirs == nil {
			mine, cpu, size := rate(mine)
			rates = append(rates, mine)
			fmt.Printf("round %d: %.2f M addresses/s, %.0f ns of processor time and %.0f bytes each\n", i+1, mine/1e6, cpu, float64(size)/bulkAddresses)
			continue
		}
		var a, b, cpuA, cpuB float64
		var size int
		runs := []func(){func() { a, cpuA, size = rate(mine) }, func() { b, cpuB, _ = rate(theirs) }}
		if i%2 == 1 { // who goes first takes turns: other work on the machine comes and goes
			slices.Reverse(runs)
		}
		for _, run := range runs {
			run()
		}
		rates, ratios = append(rates, a), append(ratios, a/b)
		fmt.Printf("round %d: %.1f M addresses/s, %.0f ns of processor time and %.1f bytes each; echo %.1f M, %.0f ns; ratio %.2f\n", i+1, a/1e6, cpuA, float64(size)/bulkAddresses, b/1e6, cpuB, a/b)
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	fmt.Printf("median: %.2f M addresses/s", median(rates)/1e6)
	if theirs != nil {
		fmt.Printf(", ratio %.2f", median(ratios))
	}
	fmt.Println()
}

// bulkClient has one connection and reads and writes it in large pieces.
var bulkClient = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxConnsPerHost: 1, WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10}}

// ask sends a body and gives how long the whole answer took, its length and its lines.
func ask(t *testing.T, client *http.Client, url, kind string, body []byte, into io.Writer) (took time.Duration, size, lines int) {
	t.Helper()
	start := time.Now()
	resp, err := client.Post(url, kind, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	size, lines = readAnswer(t, resp, into)
	return time.Since(start), size, lines
}

func readAnswer(t *testing.T, resp *http.Response, into io.Writer) (size, lines int) {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := resp.Body.Read(buf)
		size += n
		if resp.Header.Get("Content-Type") == mediaTypes[formNDJSON] {
			lines += bytes.Count(buf[:n], []byte{'\n'})
		}
		if into != nil {
			_, _ = into.Write(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF) && resp.StatusCode == http.StatusOK:
			return size, lines
		case err != nil:
			t.Fatalf("%s: %v", resp.Status, err)
		}
	}
}

// columnStream is a stream of a column of IPv4 addresses in batches of 65,536.
func columnStream(t testing.TB, addrs []uint32) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "ip", Type: arrow.PrimitiveTypes.Uint32}}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	for part := range slices.Chunk(addrs, 1<<16) {
		b := array.NewUint32Builder(memory.DefaultAllocator)
		b.AppendValues(part, nil)
		if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, int64(len(part)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// echoOf reads a request of this length and writes its share of the answer as it comes in.
func echoOf(length int, answer []byte) http.Handler {
	const piece = 256 << 10
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		buf := make([]byte, piece)
		for got, sent := 0, 0; ; {
			n, err := r.Body.Read(buf)
			got += n
			for to := int(int64(len(answer)) * int64(got) / int64(length)); sent < to; {
				m, _ := w.Write(answer[sent:min(to, sent+piece)])
				sent += m
			}
			if err != nil {
				return
			}
		}
	})
}

// streamed sends a piece many times as one stream, and gives the memory that the process had before and at most.
func streamed(t *testing.T, url, kind string, piece []byte, times int) (before, peak int64) {
	t.Helper()
	debug.FreeOSMemory()
	before = residentBytes(t)
	var most atomic.Int64
	most.Store(before)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				most.Store(max(most.Load(), residentBytes(t)))
			}
		}
	}()
	req, err := http.NewRequest(http.MethodPost, url, &piecewise{pieces: pieces(kind, piece, times)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := bulkClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	readAnswer(t, resp, nil)
	return before, most.Load()
}

// pieces gives one stream of the contents of a piece, many times. Of Arrow's format the schema comes once.
func pieces(kind string, piece []byte, times int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		from, to := 0, len(piece)
		if kind == mediaTypes[formArrow] {
			from = 8 + int(piece[4]) | int(piece[5])<<8
			to -= 8
		}
		if !yield(piece[:from]) {
			return
		}
		for range times {
			if !yield(piece[from:to]) {
				return
			}
		}
		yield(piece[to:])
	}
}

// piecewise reads pieces one after the other.
type piecewise struct {
	pieces iter.Seq[[]byte]
	next   func() ([]byte, bool)
	rest   []byte
}

func (p *piecewise) Read(into []byte) (int, error) {
	if p.next == nil {
		p.next, _ = iter.Pull(p.pieces)
	}
	for len(p.rest) == 0 {
		var ok bool
		if p.rest, ok = p.next(); !ok {
			return 0, io.EOF
		}
	}
	n := copy(into, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// residentBytes is the memory of this process.
func residentBytes(t *testing.T) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Error(err)
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// processorTime is what this process took, client and service.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
