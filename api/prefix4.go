package api

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ribwarp/ribwarp/lpm"
)

// octets are the numbers of an address, and the dot behind them.
var octets = func() (all [256]struct {
	text [4]byte
	len  uint8
}) {
	for i := range all {
		text := append(appendInt(nil, i), '.')
		all[i].len = uint8(copy(all[i].text[:], text))
	}
	return all
}()

// appendPrefix4 appends an IPv4 prefix, as netip.Prefix.AppendTo does in three times the time.
func appendPrefix4(dst []byte, addr uint32, bits uint8) []byte {
	const room = 4*4 + 2 + 2 // two for the copies of constant size
	n := len(dst)
	if cap(dst)-n < room {
		dst = append(dst, make([]byte, room)...)
	}
	to := dst[n : n+room]
	at := 0
	for shift := 24; shift >= 0; shift -= 8 {
		o := &octets[byte(addr>>shift)]
		*(*[4]byte)(to[at:]) = o.text
		at += int(o.len)
	}
	to[at-1] = '/'
	o := &octets[bits]
	*(*[2]byte)(to[at:]) = [2]byte{o.text[0], o.text[1]}
	at += int(o.len) - 1
	return dst[:n+at]
}

// handleBytes gives handles as the bytes of a column.
func handleBytes(h []lpm.Handle) []byte {
	return arrow.Uint32Traits.CastToBytes(unsafe.Slice((*uint32)(unsafe.SliceData(h)), len(h)))
}
