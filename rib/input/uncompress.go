package input

import (
	"bufio"
	"io"
)

// Uncompress gives the content of any stream as Load would read it: gzip, bzip2, xz and zstd are
// told by their first bytes, anything else comes through as it is. Closing frees what decoding
// holds and leaves r open. An error says that the stream breaks in its very start.
func Uncompress(r io.Reader) (io.ReadCloser, Compression, error) {
	content, c, done, err := uncompress(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		done()
		return nil, c, err
	}
	return uncompressed{content, done}, c, nil
}

type uncompressed struct {
	io.Reader
	done func()
}

func (u uncompressed) Close() error {
	u.done()
	return nil
}
