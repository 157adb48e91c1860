package flavors

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ribwarp/ribwarp/lpm"
)

const (
	// MaxWidth is the longest key in bits.
	MaxWidth = 128
	// MaxStride is the widest level in bits: a single node of it takes 256 MiB. It is bounded
	// because a list entry keeps a cell number and a length in one 32-bit word.
	MaxStride = 26
)

// ErrStrides is wrapped by every error about a list of strides.
var ErrStrides = errors.New("strides")

// Key is a key of up to 128 bits, left aligned: its first bit is the highest of Hi, and the bits
// behind its width are zero.
type Key = lpm.Addr6

// Strides is a validated list of strides with what the other steps derive from it.
type Strides struct {
	list    []int
	offsets []int // first key bit of every level
	width   int
	levelOf [MaxWidth + 1]uint8 // by mask length
}

// NewStrides validates a list for keys of width bits (1 to 128): every stride is 1 to MaxStride
// and they sum to width.
func NewStrides(width int, list []int) (*Strides, error) {
	if width < 1 || width > MaxWidth {
		return nil, fmt.Errorf("%w: key length %d bits is not 1 to %d", ErrStrides, width, MaxWidth)
	}
	s := &Strides{list: slices.Clone(list), width: width}
	sum := 0
	for i, n := range list {
		if n < 1 || n > MaxStride {
			return nil, fmt.Errorf("%w: %s: stride %d of level %d is not 1 to %d", ErrStrides, FormatStrides(list), n, i, MaxStride)
		}
		s.offsets = append(s.offsets, sum)
		for b := sum + 1; b <= sum+n && b <= MaxWidth; b++ {
			s.levelOf[b] = uint8(i)
		}
		sum += n
	}
	if sum != width {
		return nil, fmt.Errorf("%w: %s sum to %d, not to the key length of %d bits", ErrStrides, FormatStrides(list), sum, width)
	}
	return s, nil
}

// ParseStrides reads a list such as "16,8,8"; "+" separates too. It does not check the sum.
func ParseStrides(text string) ([]int, error) {
	var list []int
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' || r == ' ' }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %q is not a number; write them as 16,8,8", ErrStrides, text, f)
		}
		list = append(list, n)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: %q names none; write them as 16,8,8", ErrStrides, text)
	}
	return list, nil
}

// FormatStrides writes a list as ParseStrides reads it.
func FormatStrides(list []int) string {
	var b strings.Builder
	for i, n := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// Width is the key length in bits.
func (s *Strides) Width() int { return s.width }

// Levels is the number of levels.
func (s *Strides) Levels() int { return len(s.list) }

// List gives a copy of the strides.
func (s *Strides) List() []int { return slices.Clone(s.list) }

// Level gives the level that a mask of the given length belongs to: the one that holds its last
// bit. The empty mask belongs to the root.
func (s *Strides) Level(length uint8) int { return int(s.levelOf[length]) }

// checkNodes refuses more nodes of level l than a cell can number by their first cells.
func (s *Strides) checkNodes(l, n int) error {
	if uint64(n)<<s.list[l] > childBit {
		return fmt.Errorf("%w: %s need %d nodes of 2^%d cells on level %d, and a level can have 2^31 cells; use smaller strides", ErrStrides, FormatStrides(s.list), n, s.list[l], l)
	}
	return nil
}

// cell gives the number of the cell that key takes in a node of level l.
func (s *Strides) cell(key Key, l int) uint32 { return window(key, s.offsets[l], s.list[l]) }

// window gives n bits of key from bit off on, as a number. off+n is at most 128, n 1 to 32.
func window(key Key, off, n int) uint32 {
	if off >= 64 {
		return uint32(key.Lo << (off - 64) >> (64 - n))
	}
	return uint32((key.Hi<<off | key.Lo>>(64-off)) >> (64 - n))
}

// clip clears the bits of key behind length.
func clip(key Key, length int) Key {
	switch {
	case length >= 128:
		return key
	case length >= 64:
		return Key{Hi: key.Hi, Lo: key.Lo &^ (^uint64(0) >> (length - 64))}
	}
	return Key{Hi: key.Hi &^ (^uint64(0) >> length)}
}
