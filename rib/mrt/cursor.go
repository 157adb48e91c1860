package mrt

import (
	"encoding/binary"
	"net/netip"
)

// A cursor reads the fields of a record. Behind its end every field is zero and short is set.
type cursor struct {
	b     []byte
	short bool
}

// take gives the next n bytes, nil where there are fewer or n is negative.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.b, c.short = nil, true
		return nil
	}
	field := c.b[:n]
	c.b = c.b[n:]
	return field
}

func (c *cursor) u8() uint8 {
	if f := c.take(1); f != nil {
		return f[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if f := c.take(2); f != nil {
		return binary.BigEndian.Uint16(f)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if f := c.take(4); f != nil {
		return binary.BigEndian.Uint32(f)
	}
	return 0
}

// as reads an AS number of 2 or 4 bytes.
func (c *cursor) as(width int) uint32 {
	if width == 2 {
		return uint32(c.u16())
	}
	return c.u32()
}

// addr reads an address; where the record ends it is the zero Addr.
func (c *cursor) addr(v6 bool) netip.Addr {
	n := 4
	if v6 {
		n = 16
	}
	a, _ := netip.AddrFromSlice(c.take(n))
	return a
}

// prefix reads a length in bits and as many bytes as that needs, as NLRI has it. ok is false
// where the length is out of range or the record ends.
func (c *cursor) prefix(v6 bool) (p netip.Prefix, ok bool) {
	var full [16]byte
	size := 4
	if v6 {
		size = 16
	}
	bits := int(c.u8())
	if bits > 8*size {
		return p, false
	}
	copy(full[:size], c.take((bits+7)/8))
	if c.short {
		return p, false
	}
	a, _ := netip.AddrFromSlice(full[:size])
	p, err := a.Prefix(bits) // bits behind the length mean nothing (RFC 4271, section 4.3)
	return p, err == nil
}
