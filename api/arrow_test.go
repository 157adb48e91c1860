package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const arrowType = "application/vnd.apache.arrow.stream"

// arrowStreamOf writes batches of one column.
func arrowStreamOf(t testing.TB, name string, kind arrow.DataType, options []ipc.Option, batches ...arrow.Array) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: name, Type: kind, Nullable: true}}, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(schema))...)
	for _, b := range batches {
		if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{b}, int64(b.Len()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// columnOf makes a column of addresses as texts; "" is null.
func columnOf(t testing.TB, kind arrow.DataType, texts []string) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, kind)
	for _, text := range texts {
		if text == "" {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.Uint32Builder:
			b.Append(lpm.Addr4(netip.MustParseAddr(text)))
		case *array.FixedSizeBinaryBuilder:
			a := netip.MustParseAddr(text).As16()
			b.Append(a[:])
		case array.StringLikeBuilder:
			b.Append(text)
		}
	}
	return b.NewArray()
}

// arrowRow is a row of an answer; pointers are nil for null.
type arrowRow struct {
	Prefix, NextHop        *string
	Length, Origin, Handle *uint32
}

func (r arrowRow) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// readArrow gives the rows of an answer and the lengths of its batches.
func readArrow(t testing.TB, from io.Reader) (rows []arrowRow, batches []int, err error) {
	t.Helper()
	r, err := ipc.NewReader(from)
	if err != nil {
		return nil, nil, err
	}
	for r.Next() {
		b := r.RecordBatch()
		batches = append(batches, int(b.NumRows()))
		text := func(column, i int) *string {
			c := b.Column(column).(*array.Dictionary)
			if c.IsNull(i) {
				return nil
			}
			s := strings.Clone(c.Dictionary().(*array.String).Value(c.GetValueIndex(i)))
			return &s
		}
		number := func(column, i int) *uint32 {
			var v uint32
			switch c := b.Column(column).(type) {
			case *array.Uint8:
				v = uint32(c.Value(i))
			case *array.Uint32:
				v = c.Value(i)
			}
			if b.Column(column).IsNull(i) {
				return nil
			}
			return &v
		}
		for i := range int(b.NumRows()) {
			rows = append(rows, arrowRow{text(0, i), text(3, i), number(1, i), number(2, i), number(4, i)})
		}
	}
	return rows, batches, r.Err()
}

// wantArrow is the row for an address as text, by the table and the routes themselves.
func (w *world) wantArrow(text string) (row arrowRow) {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" {
		return row
	}
	g := w.gens.Acquire()
	defer g.Release()
	ip = ip.Unmap()
	covering := g.Table.Covering(nil, netip.PrefixFrom(ip, ip.BitLen()))
	handle := uint32(lpm.None)
	row.Handle = &handle
	if len(covering) == 0 {
		return row
	}
	handle = uint32(covering[0])
	r := g.Route(covering[0])
	prefix, length := r.Prefix.String(), uint32(r.Prefix.Bits())
	row.Prefix, row.Length = &prefix, &length
	if r.Path == (rib.Path{}) {
		return row
	}
	if hop := r.Path.Value().NextHop; hop.IsValid() {
		text := hop.String()
		row.NextHop = &text
	}
	if origins := r.Path.Value().ASPath.Origins(); len(origins) == 1 {
		row.Origin = &origins[0]
	}
	return row
}

func (w *world) arrow(body []byte) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.do(http.MethodPost, lookupPath, arrowType, string(body))
}

// Every row is answered by the route that carries its address, whatever the type of the column and
// the lengths of the batches.
func TestArrowAnswersEveryRow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, nil)
	v4 := []string{"10.1.2.3", "10.0.0.0", "9.9.9.9", "198.51.100.7", "198.51.100.8", "203.0.113.1", "10.1.255.255", ""}
	v6 := append([]string{"2001:db8::1", "2001:db8:1::1", "::1", "::ffff:10.1.2.3", "::ffff:9.9.9.9"}, v4...)
	text := append([]string{"nonsense", "fe80::1%eth0", "10.0.0.0/8", " 10.1.2.3", "::ffff:10.0.0.1"}, v6...)
	for _, c := range []struct {
		kind  arrow.DataType
		texts []string
	}{
		{arrow.PrimitiveTypes.Uint32, v4},
		{&arrow.FixedSizeBinaryType{ByteWidth: 16}, v6},
		{arrow.BinaryTypes.String, text},
		{arrow.BinaryTypes.LargeString, text},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			var batches []arrow.Array
			var asked []string
			var lengths []int
			for _, n := range []int{1, 0, 3, 64, 65, 1000 + r.IntN(1000), arrowRows, 2*arrowRows + 1 + r.IntN(100)} {
				texts := make([]string, n)
				for i := range texts {
					texts[i] = c.texts[r.IntN(len(c.texts))]
				}
				batches, asked = append(batches, columnOf(t, c.kind, texts)), append(asked, texts...)
				for ; n > arrowRows; n -= arrowRows {
					lengths = append(lengths, arrowRows)
				}
				lengths = append(lengths, n)
			}
			rec := w.arrow(arrowStreamOf(t, "any name", c.kind, nil, batches...))
			if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != arrowType || rec.Header().Get("RIB-Generation") != "1" {
				t.Fatalf("%d %v %s", rec.Code, rec.Header(), rec.Body)
			}
			rows, got, err := readArrow(t, rec.Body)
			if err != nil || len(rows) != len(asked) || !slices.Equal(got, lengths) {
				t.Fatalf("%d rows for %d, batches of %v for %v, %v", len(rows), len(asked), got, lengths, err)
			}
			want := map[string]string{}
			for i, text := range asked {
				if want[text] == "" {
					want[text] = w.wantArrow(text).String()
				}
				if rows[i].String() != want[text] {
					t.Fatalf("row %d, %q: got %s, want %s", i, text, rows[i], want[text])
				}
			}
		})
	}
	got := w.get("/metrics").Body.String()
	for _, line := range []string{`ribwarp_lookups_total{endpoint="stream",family="ipv4",result="hit"}`, `ribwarp_lookups_total{endpoint="stream",family="none",result="invalid"}`} {
		if !strings.Contains(got, line) || strings.Contains(got, line+" 0\n") {
			t.Errorf("no %s counted", line)
		}
	}
}

// A table of many routes over generations in which some change: what is kept of the routes must
// never be that of another generation.
func TestArrowAnswersAreOfTheirGeneration(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	random := func(i int) rib.Route {
		at := plainAttrs
		at.NextHop = netip.AddrFrom4([4]byte{192, 0, byte(r.IntN(3)), byte(r.Uint32())})
		at.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, r.Uint32()}})
		rt := rib.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), Path: unique.Make(at)}
		if r.IntN(4) == 0 {
			rt.Path = rib.Path{}
		}
		return rt
	}
	routes := make([]rib.Route, 2000)
	texts := make([]string, 10_000)
	for i := range routes {
		routes[i] = random(i)
	}
	for i := range texts {
		texts[i] = fmt.Sprintf("10.%d.%d.%d", r.IntN(9), r.IntN(256), r.IntN(256))
	}
	w := emptyWorld(t, nil)
	var before *rib.Generation
	for number := range 4 {
		g := makeGeneration(t, uint64(number+1), routes)
		if before != nil { // the same pages but for those that changed
			edit := before.Routes.Edit()
			for i := range routes {
				if edit.At(i+1) != routes[i] {
					edit.Set(i+1, routes[i])
				}
			}
			g.Routes = edit.Done()
		}
		before = g
		w.gens.Publish(g)
		half := len(texts) / 2 // from the second batch on routes come from what is kept of them
		rows, _, err := readArrow(t, w.arrow(arrowStreamOf(t, "ip", arrow.PrimitiveTypes.Uint32, nil,
			columnOf(t, arrow.PrimitiveTypes.Uint32, texts[:half]), columnOf(t, arrow.PrimitiveTypes.Uint32, texts[half:]))).Body)
		if err != nil || len(rows) != len(texts) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for i, text := range texts {
			if want := w.wantArrow(text); rows[i].String() != want.String() {
				t.Fatalf("generation %d, row %d, %s: got %s, want %s", number+1, i, text, rows[i], want)
			}
		}
		for range 50 {
			i := r.IntN(700)
			routes[i] = random(i)
		}
	}
}

// More next hops than have numbers.
func TestArrowHasAnyNumberOfNextHops(t *testing.T) {
	var routes []rib.Route
	var texts []string
	for i := range 70_000 {
		at := plainAttrs
		at.NextHop = netip.AddrFrom4([4]byte{172, byte(i >> 16), byte(i >> 8), byte(i)})
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		routes = append(routes, rib.Route{Prefix: prefix, Path: unique.Make(at)})
		texts = append(texts, prefix.Addr().String())
	}
	w := emptyWorld(t, nil)
	w.publish(1, routes)
	for range 2 {
		rows, _, err := readArrow(t, w.arrow(arrowStreamOf(t, "ip", arrow.PrimitiveTypes.Uint32, nil, columnOf(t, arrow.PrimitiveTypes.Uint32, texts))).Body) // two batches
		if err != nil || len(rows) != len(texts) {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for i := range rows {
			if want := routes[i].Path.Value().NextHop.String(); rows[i].NextHop == nil || *rows[i].NextHop != want {
				t.Fatalf("%s: %s, want next hop %s", texts[i], rows[i], want)
			}
		}
		w.publish(2, routes)
	}
}

func TestArrowWithoutRows(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.arrow(arrowStreamOf(t, "ip", arrow.PrimitiveTypes.Uint32, nil))
	rows, batches, err := readArrow(t, rec.Body)
	if rec.Code != http.StatusOK || len(rows) != 0 || len(batches) != 0 || err != nil {
		t.Errorf("%d, %d rows, %d batches, %v", rec.Code, len(rows), len(batches), err)
	}
}

// A batch is answered before the next one is sent.
func TestArrowIsAnsweredAsItComes(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	body, in := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, srv.URL+lookupPath, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", arrowType)
	schema := arrow.NewSchema([]arrow.Field{{Name: "ip", Type: arrow.BinaryTypes.String}}, nil)
	out := ipc.NewWriter(in, ipc.WithSchema(schema))
	send := func(text string) {
		if err := out.Write(array.NewRecordBatch(schema, []arrow.Array{columnOf(t, arrow.BinaryTypes.String, []string{text})}, 1)); err != nil {
			t.Error(err)
		}
	}
	first := make(chan struct{})
	go func() { // the header of the answer comes with the first batch of it
		defer close(first)
		send("10.1.2.3")
	}()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, err := ipc.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	<-first
	for range 3 {
		if !r.Next() || r.RecordBatch().NumRows() != 1 {
			t.Fatal(r.Err())
		}
		send("9.9.9.9")
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	for r.Next() {
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestArrowRefusesWhatItCannotRead(t *testing.T) {
	w := newWorld(t, nil)
	u32, text := arrow.PrimitiveTypes.Uint32, arrow.BinaryTypes.String
	good := arrowStreamOf(t, "ip", u32, nil, columnOf(t, u32, []string{"10.1.2.3", "10.1.2.4"}))
	two := arrow.NewSchema([]arrow.Field{{Name: "src", Type: u32}, {Name: "packets", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var columns, none, dictionary, nested bytes.Buffer
	for schema, to := range map[*arrow.Schema]*bytes.Buffer{
		two:                       &columns,
		arrow.NewSchema(nil, nil): &none,
		arrow.NewSchema([]arrow.Field{{Name: "ip", Type: textDictionary}}, nil):    &dictionary,
		arrow.NewSchema([]arrow.Field{{Name: "ip", Type: arrow.ListOf(u32)}}, nil): &nested,
	} {
		if err := ipc.NewWriter(to, ipc.WithSchema(schema)).Close(); err != nil {
			t.Fatal(err)
		}
	}
	long := binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, 1<<30)
	for _, c := range []struct {
		name   string
		body   []byte
		status int
		detail string
	}{
		{"nothing", nil, 400, "no schema"},
		{"text", []byte("10.1.2.3\n10.1.2.4\n"), 400, "not a stream of Arrow's format"},
		{"file", append([]byte("ARROW1\x00\x00"), good...), 400, "not a stream of Arrow's format"},
		{"foreign columns", columns.Bytes(), 400, "2 columns (src, packets): send one"},
		{"no column", none.Bytes(), 400, "no column"},
		{"dictionary", dictionary.Bytes(), 400, `column "ip" is dictionary-encoded`},
		{"nested", nested.Bytes(), 400, `column "ip" is nested`},
		{"int64", arrowStreamOf(t, "n", arrow.PrimitiveTypes.Int64, nil), 400, `column "n" is int64: addresses are uint32`},
		{"view", arrowStreamOf(t, "n", arrow.BinaryTypes.StringView, nil), 400, `column "n" is string_view`},
		{"binary of 4", arrowStreamOf(t, "n", &arrow.FixedSizeBinaryType{ByteWidth: 4}, nil), 400, "fixed_size_binary[4]: an address is 16 bytes"},
		{"compressed buffers", arrowStreamOf(t, "ip", u32, []ipc.Option{ipc.WithZstd()}, columnOf(t, u32, []string{"10.1.2.3"})), 400, "Content-Encoding"},
		{"long metadata", long, 413, "at most 65536"},
		{"cut schema", good[:40], 400, "ends in the middle"},
		{"cut batch", good[:len(good)-12], 400, "ends in the middle"},
		{"long batch", arrowStreamOf(t, "ip", text, nil, columnOf(t, text, []string{strings.Repeat("x", maxArrowBody)})), 413, "at most 33554432"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantProblem(t, w.arrow(c.body), c.status, c.detail)
		})
	}
	t.Run("more rows than bytes", func(t *testing.T) {
		// Two rows that say they are a thousand: 2 is in the batch's length and in its column's.
		for _, kind := range []arrow.DataType{u32, text, &arrow.FixedSizeBinaryType{ByteWidth: 16}} {
			body := arrowStreamOf(t, "ip", kind, nil, columnOf(t, kind, []string{"10.1.2.3", "10.1.2.4"}))
			body = bytes.ReplaceAll(body, binary.LittleEndian.AppendUint64(nil, 2), binary.LittleEndian.AppendUint64(nil, 1000))
			wantProblem(t, w.arrow(body), 400, "")
		}
	})
}

// Wherever a stream is cut, the answer is not taken for a whole one: it is a problem, or broken off, or
// has only whole batches.
func TestArrowCutAnywhere(t *testing.T) {
	w := newWorld(t, nil)
	kind := arrow.BinaryTypes.String
	whole := arrowStreamOf(t, "ip", kind, nil, columnOf(t, kind, []string{"10.1.2.3"}), columnOf(t, kind, []string{"9.9.9.9", "10.0.0.1"}))
	for n := range whole {
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				}
			}()
			rec := w.arrow(whole[:n])
			if rec.Code != http.StatusOK {
				wantProblem(t, rec, http.StatusBadRequest, "")
				return
			}
			if _, batches, err := readArrow(t, rec.Body); err != nil {
				t.Errorf("cut at %d of %d: batches of %v, %v", n, len(whole), batches, err)
			}
		}()
	}
}

// A schema whose columns hold columns that hold the same columns: it would have 2^40 of them.
func TestArrowSchemaThatGrowsIsRefused(t *testing.T) {
	metadata := schemaBomb(40)
	body := binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, uint32(len(metadata)))
	w := newWorld(t, nil)
	wantProblem(t, w.arrow(append(body, metadata...)), 400, "nested")
}

// schemaBomb is the metadata of a schema with one column of this many levels, each of which has the next one
// twice.
func schemaBomb(levels int) []byte {
	b := flatbuffers.NewBuilder(4096)
	var children flatbuffers.UOffsetT
	for level := range levels {
		b.StartObject(0) // Struct_
		kind := b.EndObject()
		name := b.CreateString(fmt.Sprint("level", level))
		b.StartObject(7) // Field
		b.PrependUOffsetTSlot(0, name, 0)
		b.PrependByteSlot(2, 13, 0) // Struct_
		b.PrependUOffsetTSlot(3, kind, 0)
		b.PrependUOffsetTSlot(5, children, 0)
		field := b.EndObject()
		times := 2
		if level == levels-1 {
			times = 1
		}
		b.StartVector(4, times, 4)
		for range times {
			b.PrependUOffsetT(field)
		}
		children = b.EndVector(times)
	}
	b.StartObject(4) // Schema
	b.PrependUOffsetTSlot(1, children, 0)
	schema := b.EndObject()
	b.StartObject(5) // Message
	b.PrependInt16Slot(0, 4, 0)
	b.PrependByteSlot(1, 1, 0)
	b.PrependUOffsetTSlot(2, schema, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}
