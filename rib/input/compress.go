package input

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// A Compression is how a file is compressed.
type Compression string

// The compressions that Load understands.
const (
	Plain Compression = "none"
	Gzip  Compression = "gzip"
	Bzip2 Compression = "bzip2"
	XZ    Compression = "xz"
	Zstd  Compression = "zstd"
)

// maxWindow bounds what a zstd frame may make us hold: what zstd --long=27 needs.
const maxWindow = 128 << 20

// magics are the first bytes of compressed files.
var magics = []struct {
	start       string
	compression Compression
}{
	{"\x1f\x8b", Gzip},
	{"BZh", Bzip2},
	{"\xfd7zXZ\x00", XZ},
	{"\x28\xb5\x2f\xfd", Zstd},
}

// detectCompression tells a compression by the first bytes.
func detectCompression(start []byte) Compression {
	for _, m := range magics {
		if bytes.HasPrefix(start, []byte(m.start)) {
			return m.compression
		}
	}
	// zstd files may start with a skippable frame, 0x184D2A50 to 0x184D2A5F (RFC 8878).
	if len(start) >= 4 && start[0]&0xf0 == 0x50 && string(start[1:4]) == "\x2a\x4d\x18" {
		return Zstd
	}
	return Plain
}

// uncompress gives the content of a file, all members of it where it has several. done frees
// what decoding holds. An error says that the file breaks in its very start.
func uncompress(in *bufio.Reader) (content io.Reader, c Compression, done func(), err error) {
	start, err := in.Peek(6)
	if err != nil && err != io.EOF {
		return nil, Plain, func() {}, err
	}
	c, done = detectCompression(start), func() {}
	switch c {
	case Gzip:
		content, err = gzip.NewReader(in)
	case Bzip2:
		content, err = bzip2.NewReader(in), nil
	case XZ:
		content, err = xz.NewReader(in)
	case Zstd:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2)); err == nil {
			content, done = d, d.Close
		}
	default:
		return in, Plain, done, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, c, done, fmt.Errorf("%s header: %w", c, err)
	}
	return damage{content, c}, c, done, nil
}

// damage names the compression in errors of reading.
type damage struct {
	io.Reader
	c Compression
}

func (d damage) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", d.c, err)
	}
	return n, err
}
