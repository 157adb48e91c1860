package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Bulk gives the routes that carry addresses, one answer for each, in order, while the addresses are
// still being sent: any number of them, in constant memory. All answers are of one generation.
// addrs is ranged over by another goroutine, and once more from its beginning where the service asks
// to come again later (WithRetries). After an error there is nothing more.
func (c *Client) Bulk(ctx context.Context, addrs iter.Seq[netip.Addr]) iter.Seq2[Answer, error] {
	return func(yield func(Answer, error) bool) {
		write := func(w io.Writer) error {
			out := bufio.NewWriterSize(w, pieceSize)
			var line []byte
			for a := range addrs {
				line = append(a.AppendTo(line[:0]), '\n')
				if _, err := out.Write(line); err != nil {
					return err
				}
			}
			return out.Flush()
		}
		resp, cancel, err := c.stream(ctx, "text/plain", "application/x-ndjson", write)
		if err != nil {
			yield(Answer{}, err)
			return
		}
		defer cancel()
		lines := bufio.NewReaderSize(resp.Body, pieceSize)
		for n := 1; ; n++ {
			text, err := lines.ReadBytes('\n')
			if err == io.EOF && len(text) == 0 {
				return
			}
			if err != nil {
				yield(Answer{}, fmt.Errorf("%w behind %d answers: %w", ErrCut, n-1, err))
				return
			}
			var line struct {
				Answer
				Error string
			}
			err = json.Unmarshal(text, &line)
			if err == nil && line.Error != "" {
				err = errors.New(line.Error)
			}
			if err != nil {
				yield(Answer{}, fmt.Errorf("client: answer %d: %w", n, err))
				return
			}
			if !yield(line.Answer, nil) {
				return
			}
		}
	}
}

// stream posts what write writes. The caller must call cancel when it is done with the response.
func (c *Client) stream(ctx context.Context, kind, accept string, write func(io.Writer) error) (resp *http.Response, cancel func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	resp, err = c.do(ctx, request{method: http.MethodPost, path: "/api/v1/lookup", kind: kind, accept: accept, body: func() io.ReadCloser {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(write(w)) }()
		return r
	}})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return resp, func() {
		stop()
		_ = resp.Body.Close()
	}, nil
}

// A Batch is the routes that carry the addresses of one batch, by row. It is valid until the next one is
// asked for.
type Batch struct {
	arrow.RecordBatch
	prefix, nextHop *array.Dictionary
	prefixes, hops  *array.String
	length          *array.Uint8
	origin, handle  *array.Uint32
}

// Len is the number of rows.
func (b *Batch) Len() int { return int(b.NumRows()) }

// Found reports whether a route carries the address of a row.
func (b *Batch) Found(row int) bool { return b.prefix.IsValid(row) }

// Prefix gives the prefix of a row as text, "" where none was found.
func (b *Batch) Prefix(row int) string { return entry(b.prefix, b.prefixes, row) }

// Length gives the length of the prefix of a row, 0 where none was found.
func (b *Batch) Length(row int) int {
	if b.length.IsNull(row) {
		return 0
	}
	return int(b.length.Value(row))
}

// Origin gives the AS that originated the route of a row; 0 where none was found, or it is not one.
func (b *Batch) Origin(row int) uint32 {
	if b.origin.IsNull(row) {
		return 0
	}
	return b.origin.Value(row)
}

// NextHop gives the next hop of a row as text, "" where there is none.
func (b *Batch) NextHop(row int) string { return entry(b.nextHop, b.hops, row) }

// Handle gives the number of the route of a row: equal ones are equal routes of the generation. 0 is no
// route.
func (b *Batch) Handle(row int) uint32 {
	if b.handle.IsNull(row) {
		return 0
	}
	return b.handle.Value(row)
}

func entry(d *array.Dictionary, values *array.String, row int) string {
	if d.IsNull(row) {
		return ""
	}
	return values.Value(d.GetValueIndex(row))
}

// batchOf gives a record batch of an answer, nil where it is none.
func batchOf(r arrow.RecordBatch) *Batch {
	if r.NumCols() != 5 {
		return nil
	}
	b := &Batch{RecordBatch: r}
	var ok [7]bool
	b.prefix, ok[0] = r.Column(0).(*array.Dictionary)
	b.length, ok[1] = r.Column(1).(*array.Uint8)
	b.origin, ok[2] = r.Column(2).(*array.Uint32)
	b.nextHop, ok[3] = r.Column(3).(*array.Dictionary)
	b.handle, ok[4] = r.Column(4).(*array.Uint32)
	if ok[0] && ok[3] {
		b.prefixes, ok[5] = b.prefix.Dictionary().(*array.String)
		b.hops, ok[6] = b.nextHop.Dictionary().(*array.String)
	}
	for _, good := range ok {
		if !good {
			return nil
		}
	}
	return b
}

// Batches is Bulk for many addresses at the price of few: in Arrow's stream format, a batch for each
// slice. Slices of some 64,000 are best; the service answers longer ones by several batches. A slice
// belongs to the caller again when the next one is asked for.
func (c *Client) Batches(ctx context.Context, addrs iter.Seq[[]netip.Addr]) iter.Seq2[*Batch, error] {
	kind := &arrow.FixedSizeBinaryType{ByteWidth: 16}
	return c.batches(ctx, kind, func(yield func(arrow.Array) bool) {
		b := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, kind)
		for slice := range addrs {
			b.Reserve(len(slice))
			for _, a := range slice {
				b16 := a.As16()
				b.Append(b16[:])
			}
			if !yield(b.NewArray()) {
				return
			}
		}
	})
}

// Batches4 is Batches for IPv4 addresses as numbers, most significant byte first: a quarter of the bytes,
// and what the service looks up as it comes.
func (c *Client) Batches4(ctx context.Context, addrs iter.Seq[[]uint32]) iter.Seq2[*Batch, error] {
	return c.batches(ctx, arrow.PrimitiveTypes.Uint32, func(yield func(arrow.Array) bool) {
		for slice := range addrs {
			data := array.NewData(arrow.PrimitiveTypes.Uint32, len(slice), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Uint32Traits.CastToBytes(slice))}, nil, 0, 0)
			if !yield(array.NewUint32Data(data)) {
				return
			}
		}
	})
}

func (c *Client) batches(ctx context.Context, kind arrow.DataType, columns iter.Seq[arrow.Array]) iter.Seq2[*Batch, error] {
	const stream = "application/vnd.apache.arrow.stream"
	return func(yield func(*Batch, error) bool) {
		schema := arrow.NewSchema([]arrow.Field{{Name: "ip", Type: kind}}, nil)
		write := func(w io.Writer) error {
			buffered := bufio.NewWriterSize(w, pieceSize)
			out := ipc.NewWriter(buffered, ipc.WithSchema(schema))
			for column := range columns {
				if err := out.Write(array.NewRecordBatch(schema, []arrow.Array{column}, int64(column.Len()))); err != nil {
					return err
				}
				if err := buffered.Flush(); err != nil { // the column is the caller's again
					return err
				}
			}
			if err := out.Close(); err != nil {
				return err
			}
			return buffered.Flush()
		}
		resp, cancel, err := c.stream(ctx, stream, stream, write)
		if err != nil {
			yield(nil, err)
			return
		}
		defer cancel()
		r, err := ipc.NewReader(resp.Body)
		if err != nil {
			yield(nil, fmt.Errorf("%w: %w", ErrCut, err))
			return
		}
		defer r.Release()
		for r.Next() {
			b := batchOf(r.RecordBatch())
			if b == nil {
				yield(nil, fmt.Errorf("client: the answer has columns %v", r.Schema()))
				return
			}
			if !yield(b, nil) {
				return
			}
		}
		if err := r.Err(); err != nil {
			yield(nil, fmt.Errorf("%w: %w", ErrCut, err))
		}
	}
}
