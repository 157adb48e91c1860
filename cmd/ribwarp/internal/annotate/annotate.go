// Package annotate reads a stream of records, looks up the address in each and writes the record
// with its route. It is the loop of "ribwarp batch".
//
//	          blocks of whole records        the same blocks, in order
//	reader ──────────────┬──────────────► queue ──────────────► writer
//	                     └─► workers: scan, Lookup4/Lookup6, render ─┘
//
// The reader cuts the input at record ends, the workers scan a block in batches of 1024 records,
// look the addresses up and append what is written, the writer waits for the blocks in input
// order. The blocks are a fixed number and reused, so memory does not depend on the input.
//
// What is written for a record is always two pieces: the bytes that are kept of it and a tail
// that depends on the route alone. Tails are rendered once a route and cached (see tails).
package annotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// Format is the shape of the records, in and out.
type Format string

const (
	// Lines is one address a line; what is written is CSV that begins with the column "ip".
	Lines Format = "lines"
	// CSV is RFC 4180: quotes may hold commas and line ends.
	CSV Format = "csv"
	// TSV is fields between tabs, without any quoting.
	TSV Format = "tsv"
	// JSONL is one JSON object a line.
	JSONL Format = "jsonl"
)

// Formats lists all formats.
var Formats = []Format{Lines, CSV, TSV, JSONL}

// Options say what to read and what to add. The zero value reads Lines.
type Options struct {
	Format Format
	// Column is where CSV and TSV hold the address: a name from the header, or a number from 1.
	Column string
	// NoHeader says that CSV or TSV begin with a record instead of a header; Column is a number.
	NoHeader bool
	// Field is where JSONL holds the address: member names with dots between, as in "flow.src".
	Field string
	// Columns are what is added, DefaultColumns where empty.
	Columns []Column
	// NamePrefix goes before the names of added columns. In JSONL it also puts them beside the
	// object's members; without it they are an object in the member "route".
	NamePrefix string
	// Workers is the number of goroutines that look up, GOMAXPROCS where 0.
	Workers int
	// BlockSize is how many input bytes a worker takes at a time, 512 KiB where 0.
	BlockSize int
	// MaxRecord is the longest record in bytes, 16 MiB where 0. A longer one is an error.
	MaxRecord int
}

// Stats count what a run did.
type Stats struct {
	Records uint64 // written, the header not among them
	Matched uint64 // with a route
	Bad     uint64 // without an address
	// FirstBad describes the first record without an address: its number from 1, the header
	// not counted, and what stood there.
	FirstBad     uint64
	FirstBadText string
}

// ErrTooLong is wrapped by the error about a record longer than Options.MaxRecord.
var ErrTooLong = errors.New("record is too long")

// Run annotates in to out with the routes of gen, which it neither retains nor releases. It
// returns what it did until then with every error. A record without an address is no error: it
// is written without a route and counted. A cancelled ctx ends the run with its cause.
func Run(ctx context.Context, gen *rib.Generation, in io.Reader, out io.Writer, o Options) (Stats, error) {
	if err := o.complete(); err != nil {
		return Stats{}, err
	}
	f, err := newFormat(o)
	if err != nil {
		return Stats{}, err
	}
	p := pipeline{
		table:   gen.Table,
		tails:   newTails(gen, f.tail),
		format:  f,
		workers: o.Workers,
		in:      newSplitter(in, f, o.BlockSize, o.MaxRecord),
		out:     out,
	}
	return p.run(ctx)
}

// Check says what is wrong with the options as far as that can be told without the input.
func (o Options) Check() error {
	if err := o.complete(); err != nil {
		return err
	}
	_, err := newFormat(o)
	return err
}

// complete puts in the defaults.
func (o *Options) complete() error {
	if o.Format == "" {
		o.Format = Lines
	}
	if len(o.Columns) == 0 {
		o.Columns = DefaultColumns
	}
	for _, c := range o.Columns {
		if _, err := ParseColumns(string(c)); err != nil {
			return err
		}
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.BlockSize <= 0 {
		o.BlockSize = 512 << 10
	}
	if o.MaxRecord <= 0 {
		o.MaxRecord = 16 << 20
	}
	return nil
}

// A format knows how records look. Its methods but header are called concurrently.
type format interface {
	// header takes the header from the start of the input, which holds at least one whole
	// record or is all there is, and gives what to write for it and how many bytes it took.
	header(first []byte) (write []byte, taken int, err error)
	// whole gives the length of the longest start of b that is whole records, 0 if there is none.
	whole(b []byte) int
	// scan adds the records of b from pos on to the batch until that is full or b ends, and gives
	// the position behind the last one. b is whole records and ends in a line end, with slack
	// bytes behind it within its capacity.
	scan(b []byte, pos int, to *batch) int
	// tail appends what is written behind the kept bytes of a record with this route, or of one
	// without a route for the zero Route.
	tail(dst []byte, r rib.Route) []byte
}

func newFormat(o Options) (format, error) {
	switch o.Format {
	case Lines:
		return lines{delimited{sep: ',', columns: o.Columns, namePrefix: o.NamePrefix}}, nil
	case CSV:
		return newDelimited(o, ',', true)
	case TSV:
		return newDelimited(o, '\t', false)
	case JSONL:
		return newJSONL(o)
	}
	return nil, fmt.Errorf("unknown format %q: use one of %v", o.Format, Formats)
}

// batchSize is the number of records that are looked up at a time: enough for the lookups to
// overlap their memory accesses, few enough for the batch to stay in the first-level caches.
const batchSize = 1024

// What a record of a batch holds.
const (
	kindBad  = iota // no address
	kindIPv4        // the next of the batch's IPv4 addresses
	kindIPv6        // the next of the batch's IPv6 addresses
)

// A record is what is kept of one: bytes of the block or, where loose, of batch.loose.
type record struct {
	off, len uint32
	kind     uint8
	loose    bool
}

// A batch is up to batchSize records on their way through a lookup.
type batch struct {
	records [batchSize]record
	n       int
	addrs4  [batchSize]uint32
	n4      int
	addrs6  [batchSize]lpm.Addr6
	n6      int
	handles [batchSize]lpm.Handle // IPv4 first, then IPv6
	loose   []byte                // kept bytes that had to be rendered
	bad     uint64
	// firstBad is the position in records of the first bad one, while bad is not 0.
	firstBad     int
	firstBadText string
}

func (b *batch) reset() {
	b.n, b.n4, b.n6, b.bad = 0, 0, 0, 0
	b.loose = b.loose[:0]
}

func (b *batch) full() bool { return b.n == batchSize }

// add4, add6 and addBad take one record each.
func (b *batch) add4(r record, addr uint32) {
	r.kind = kindIPv4
	b.addrs4[b.n4] = addr
	b.n4++
	b.records[b.n] = r
	b.n++
}

func (b *batch) add6(r record, addr lpm.Addr6) {
	r.kind = kindIPv6
	b.addrs6[b.n6] = addr
	b.n6++
	b.records[b.n] = r
	b.n++
}

func (b *batch) addBad(r record, text []byte) {
	if b.bad == 0 {
		b.firstBad = b.n
		b.firstBadText = string(text[:min(len(text), 80)])
	}
	b.bad++
	b.records[b.n] = r
	b.n++
}

// addText takes a record with the address text, of any family, or none.
func (b *batch) addText(r record, text []byte) {
	a, ok := ParseAddr(text)
	switch {
	case !ok:
		b.addBad(r, text)
	case a.Is4():
		b.add4(r, lpm.Addr4(a))
	default:
		b.add6(r, lpm.Addr16(a))
	}
}

// looseRecord makes a record of the bytes appended to b.loose since it was start long.
func (b *batch) looseRecord(start int) record {
	return record{off: uint32(start), len: uint32(len(b.loose) - start), loose: true}
}
