package mrt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxRecord is the longest record, in bytes, that is read. The longest ones in practice, an
// IPv6 prefix as a thousand peers see it, stay below one MiB; what says it is longer is damage.
const MaxRecord = 16 << 20

// headerLen is the length of the header of every record.
const headerLen = 12

// Record types (RFC 6396, section 4).
const (
	typeTableDump   = 12
	typeTableDumpV2 = 13
	typeBGP4MP      = 16
	typeBGP4MPET    = 17
)

// A BrokenError says where a file cannot be read any further.
type BrokenError struct {
	Record int   // number of the record, from 1
	Offset int64 // byte at which that record starts, in the uncompressed stream
	Err    error
}

// Error gives the place and the cause.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("record %d at byte %d: %v", e.Record, e.Offset, e.Err)
}

// Unwrap gives the cause.
func (e *BrokenError) Unwrap() error { return e.Err }

// A record is one MRT record.
type record struct {
	number  int   // from 1
	offset  int64 // of its header in the uncompressed stream
	kind    uint16
	subtype uint16
	body    []byte // without the header; valid until the next record is read
}

// where names the record in problems.
func (r record) where() string { return fmt.Sprintf("record %d at byte %d", r.number, r.offset) }

// A recordReader cuts a stream into records.
type recordReader struct {
	in   *bufio.Reader
	body []byte
	next record // number and offset of the record read last
}

func newRecordReader(r io.Reader) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(r, 256<<10)}
}

// read gives the next record, io.EOF behind the last one, or a *BrokenError.
func (r *recordReader) read() (record, error) {
	if r.next.number > 0 {
		r.next.offset += int64(headerLen + len(r.next.body))
	}
	r.next.number++
	r.next.body = nil
	var header [headerLen]byte
	switch n, err := io.ReadFull(r.in, header[:]); {
	case errors.Is(err, io.EOF):
		return record{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return record{}, r.broken(fmt.Errorf("file ends in the record's header, after %d of %d bytes: %w", n, headerLen, err))
	case err != nil:
		return record{}, r.broken(err)
	}
	r.next.kind = binary.BigEndian.Uint16(header[4:])
	r.next.subtype = binary.BigEndian.Uint16(header[6:])
	length := int64(binary.BigEndian.Uint32(header[8:]))
	if length > MaxRecord {
		return record{}, r.broken(fmt.Errorf("record claims %d bytes, more than the %d that any has: damaged or not MRT", length, MaxRecord))
	}
	if int64(cap(r.body)) < length {
		r.body = make([]byte, length)
	}
	r.next.body = r.body[:length]
	if n, err := io.ReadFull(r.in, r.next.body); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("file ends in the record, after %d of %d bytes: %w", headerLen+n, headerLen+length, io.ErrUnexpectedEOF)
		}
		return record{}, r.broken(err)
	}
	return r.next, nil
}

func (r *recordReader) broken(err error) error {
	return &BrokenError{Record: r.next.number, Offset: r.next.offset, Err: err}
}

// Looks reports whether the start of a file, of which 12 bytes are enough, can be MRT: a header
// of a known type with a possible length.
func Looks(start []byte) bool {
	if len(start) < headerLen {
		return false
	}
	if binary.BigEndian.Uint32(start[8:]) > MaxRecord {
		return false
	}
	kind, subtype := binary.BigEndian.Uint16(start[4:]), binary.BigEndian.Uint16(start[6:])
	return known(kind) && subtype < 32
}

// known reports whether a record type is assigned (IANA's registry of MRT types).
func known(kind uint16) bool {
	switch kind {
	case typeTableDump, typeTableDumpV2, typeBGP4MP, typeBGP4MPET:
		return true
	}
	return foreign(kind)
}

// foreign reports whether a record type is assigned to what holds no BGP routes, or to BGP in
// forms deprecated before RFC 6396.
func foreign(kind uint16) bool {
	switch kind {
	case 11, 32, 33, 48, 49: // OSPFv2, ISIS, ISIS_ET, OSPFv3, OSPFv3_ET
		return true
	}
	return kind <= 10
}
