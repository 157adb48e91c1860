package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
)

const (
	maxArrowMetadata = 64 << 10 // of a message: a schema of one column, or a record batch of it
	maxArrowBody     = 32 << 20 // of a record batch
)

// arrowError is what is wrong with a stream in Arrow's format.
type arrowError struct {
	status int
	err    error
}

func (e arrowError) Error() string { return e.err.Error() }

func badArrow(format string, args ...any) error {
	return arrowError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// An arrowReader reads record batches of one column. What a stream claims is bounded before memory is
// taken for it.
type arrowReader struct {
	messages arrowMessages
	reader   *ipc.Reader
}

// newArrowReader reads the schema.
func newArrowReader(r io.Reader) (*arrowReader, error) {
	a := &arrowReader{messages: arrowMessages{from: source{Reader: r}}}
	reader, err := ipc.NewReaderFromMessageReader(&a.messages)
	if err != nil {
		return nil, a.messages.why(err)
	}
	a.reader = reader
	switch field := reader.Schema().Field(0); t := field.Type.(type) {
	case *arrow.Uint32Type, *arrow.StringType, *arrow.LargeStringType:
	case *arrow.FixedSizeBinaryType:
		if t.ByteWidth != 16 {
			return nil, badArrow("column %q is fixed_size_binary[%d]: an address is 16 bytes", cut(field.Name, maxShownColumn), t.ByteWidth)
		}
	default:
		return nil, badArrow("column %q is %s: addresses are uint32 (IPv4), fixed_size_binary[16] or utf8", cut(field.Name, maxShownColumn), cut(t.String(), maxShownColumn))
	}
	return a, nil
}

// next gives the column of the next record batch, valid until the next call; nil at the end.
func (a *arrowReader) next() (column arrow.Array, err error) {
	defer func() {
		if p := recover(); p != nil { // of the decoder: a batch is not what it claims
			column, err = nil, badArrow("a record batch is not whole: %v", p)
		}
	}()
	if !a.reader.Next() {
		if err := a.reader.Err(); err != nil {
			return nil, a.messages.why(err)
		}
		return nil, nil
	}
	batch := a.reader.RecordBatch()
	column = batch.Column(0)
	data := column.Data()
	if int64(column.Len()) != batch.NumRows() || data.Offset() != 0 || column.Len() > 0 && len(data.Buffers()[1].Bytes()) == 0 {
		return nil, badArrow("a record batch of %d rows has a column of %d", batch.NumRows(), column.Len())
	}
	if t, ok := column.DataType().(*arrow.FixedSizeBinaryType); ok && len(data.Buffers()[1].Bytes()) < t.ByteWidth*column.Len() {
		return nil, badArrow("a record batch has not the bytes of its %d rows", column.Len())
	}
	if nulls := column.NullBitmapBytes(); len(nulls) > 0 && 8*len(nulls) < column.Len() {
		return nil, badArrow("a record batch has not the validity of its %d rows", column.Len())
	}
	return column, nil
}

// arrowMessages reads the messages of a stream. Its memory is that of the longest one, taken as it
// comes in.
type arrowMessages struct {
	from source
	err  error // why it ended, but for the end
	body []byte
}

var _ ipc.MessageReader = (*arrowMessages)(nil)

// Retain and Release do nothing: the garbage collector frees messages.
func (*arrowMessages) Retain()  {}
func (*arrowMessages) Release() {}

// Message gives the next message, io.EOF at the end.
func (m *arrowMessages) Message() (*ipc.Message, error) {
	msg, err := m.message()
	if err != nil && err != io.EOF && m.err == nil {
		m.err = err
	}
	return msg, err
}

// why gives the reason of an error that the decoder gave.
func (m *arrowMessages) why(err error) error {
	switch {
	case m.err != nil:
		return m.err
	case errors.Is(err, io.EOF):
		return badArrow("the stream has no schema")
	}
	return badArrow("not a stream of Arrow's format: %s", strings.TrimPrefix(err.Error(), "arrow/ipc: "))
}

func (m *arrowMessages) message() (msg *ipc.Message, err error) {
	defer func() {
		if p := recover(); p != nil { // of the decoder
			msg, err = nil, badArrow("the metadata of a message is not whole: %v", p)
		}
	}()
	var head [8]byte
	n, err := io.ReadFull(&m.from, head[:])
	switch {
	case err == io.EOF: // a stream may end without saying so
		return nil, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF) && n == 4 && binary.LittleEndian.Uint32(head[:]) == 0:
		return nil, io.EOF // the end as it was before version 0.15
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, m.cut(err)
	case err != nil:
		return nil, err
	}
	if binary.LittleEndian.Uint32(head[:]) != 0xffffffff {
		return nil, badArrow("not a stream of Arrow's format: it begins with % x (formats before 0.15, and files, are not taken)", head[:4])
	}
	size := binary.LittleEndian.Uint32(head[4:])
	switch {
	case size == 0:
		return nil, io.EOF
	case size > maxArrowMetadata:
		return nil, arrowError{http.StatusRequestEntityTooLarge, fmt.Errorf("the metadata of a message is %d bytes long: at most %d are taken", size, maxArrowMetadata)}
	}
	metadata := make([]byte, size)
	if _, err := io.ReadFull(&m.from, metadata); err != nil {
		return nil, m.cut(err)
	}
	msg = ipc.NewMessage(memory.NewBufferBytes(metadata), memory.NewBufferBytes(nil))
	switch msg.Type() {
	case ipc.MessageSchema:
		if err := checkSchema(metadata); err != nil {
			return nil, err
		}
	case ipc.MessageRecordBatch:
		if compressed(metadata) {
			return nil, badArrow("the buffers of a record batch are compressed: send them as they are, and compress the whole request (Content-Encoding)")
		}
	default:
		return nil, badArrow("a message is %s: a schema and record batches are taken, no dictionaries", msg.Type())
	}
	length := msg.BodyLen()
	switch {
	case length < 0:
		return nil, badArrow("a message claims a body of %d bytes", length)
	case length > maxArrowBody:
		return nil, arrowError{http.StatusRequestEntityTooLarge, fmt.Errorf("a record batch is %d bytes long: at most %d are taken, send more and shorter ones", length, maxArrowBody)}
	}
	if err := m.readBody(int(length)); err != nil {
		return nil, m.cut(err)
	}
	return ipc.NewMessage(memory.NewBufferBytes(metadata), memory.NewBufferBytes(m.body)), nil
}

// cut tells a stream that ends within a message from a connection that does.
func (m *arrowMessages) cut(err error) error {
	if m.from.err == io.EOF {
		return badArrow("the stream ends in the middle of a message")
	}
	return err
}

// readBody reads a body over the one before. Memory for what is claimed is taken as it comes.
func (m *arrowMessages) readBody(length int) error {
	const step = 1 << 20
	m.body = m.body[:0]
	for len(m.body) < length {
		have := len(m.body)
		to := min(length, max(cap(m.body), have+step))
		if to > cap(m.body) {
			m.body = append(m.body, make([]byte, to-have)...)
		}
		m.body = m.body[:to]
		if _, err := io.ReadFull(&m.from, m.body[have:]); err != nil {
			return err
		}
	}
	return nil
}

// Places of fields in the tables of Arrow's metadata (Message.fbs and Schema.fbs).
const (
	messageHeader    = 8
	schemaFields     = 6
	fieldName        = 4
	fieldDictionary  = 12
	fieldChildren    = 14
	batchCompression = 10
)

// header gives the table that a message's metadata is about.
func header(metadata []byte) (h flatbuffers.Table) {
	message := flatbuffers.Table{Bytes: metadata, Pos: flatbuffers.GetUOffsetT(metadata)}
	message.Union(&h, flatbuffers.UOffsetT(message.Offset(messageHeader)))
	return h
}

// compressed reports whether the buffers of a record batch are: each may then claim to be of any
// length, and need any memory to find out.
func compressed(metadata []byte) bool {
	h := header(metadata)
	return h.Offset(batchCompression) != 0
}

// checkSchema looks at a schema before it is decoded: the decoder follows whatever it holds, and a
// few kilobytes can hold columns of columns of columns without end. It panics where they are not whole.
func checkSchema(metadata []byte) error {
	schema := header(metadata)
	at := flatbuffers.UOffsetT(schema.Offset(schemaFields))
	if at == 0 {
		return badArrow("the stream has no column: send one, of addresses")
	}
	var first flatbuffers.Table
	var names []string
	count := schema.VectorLen(at)
	for i := range min(count, 8) {
		field := flatbuffers.Table{Bytes: metadata, Pos: schema.Indirect(schema.Vector(at) + flatbuffers.UOffsetT(4*i))}
		if i == 0 {
			first = field
		}
		name := ""
		if o := flatbuffers.UOffsetT(field.Offset(fieldName)); o != 0 {
			name = field.String(o + field.Pos)
		}
		names = append(names, cut(strings.ToValidUTF8(name, "\ufffd"), maxShownColumn))
	}
	switch {
	case count == 0:
		return badArrow("the stream has no column: send one, of addresses")
	case count > 1:
		return badArrow("the stream has %d columns (%s): send one, of addresses", count, strings.Join(names, ", "))
	case first.Offset(fieldDictionary) != 0:
		return badArrow("column %q is dictionary-encoded: send it as it is", names[0])
	}
	if o := flatbuffers.UOffsetT(first.Offset(fieldChildren)); o != 0 && first.VectorLen(o) > 0 {
		return badArrow("column %q is nested: addresses are uint32 (IPv4), fixed_size_binary[16] or utf8", names[0])
	}
	return nil
}
