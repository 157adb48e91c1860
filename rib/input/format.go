package input

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ribwarp/ribwarp/rib/input/problems"
	"github.com/ribwarp/ribwarp/rib/mrt"
	"github.com/ribwarp/ribwarp/rib/prefixlist"
)

// A Format is what kind of file it is.
type Format string

// The formats that Load understands, and a file that has nothing in it.
const (
	MRT   Format = "mrt"
	List  Format = "list"
	Empty Format = "empty"
)

// formatWindow is how much of the content is looked at to tell its format.
const formatWindow = 4 << 10

// detectFormat tells the format by the first bytes of the content. An error that is not
// ErrUnknownType is one of reading.
func detectFormat(content *bufio.Reader) (Format, error) {
	start, err := content.Peek(formatWindow)
	whole := errors.Is(err, io.EOF)
	switch {
	case len(start) == 0 && whole:
		return Empty, nil
	case mrt.Looks(start):
		return MRT, nil
	case prefixlist.Looks(start, err != nil):
		return List, nil
	case err != nil && !whole:
		return "", err
	}
	return "", fmt.Errorf("%w: it starts with %s, which is neither an MRT record nor a line with a prefix", ErrUnknownType, problems.Excerpt(start[:min(len(start), 24)]))
}
