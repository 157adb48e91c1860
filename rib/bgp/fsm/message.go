package fsm

import (
	"encoding/binary"
	"math"
)

// Types of messages.
const (
	msgOpen         = 1
	msgUpdate       = 2
	msgNotification = 3
	msgKeepalive    = 4
	msgRefresh      = 5 // RFC 2918
)

const (
	headerLength = 19
	maxMessage   = 4096
	maxExtended  = 65535 // RFC 8654
)

// shortest is the least length by type, 0 for types that there are not. That of ROUTE-REFRESH
// is what it takes to see its subtype, which says how a wrong length is reported.
var shortest = [...]int{msgOpen: 29, msgUpdate: 23, msgNotification: 21, msgKeepalive: headerLength, msgRefresh: 22}

// checkHeader looks at a header of headerLength bytes (RFC 4271, 6.1). extended says that both
// sides have RFC 8654, which is not for OPEN and KEEPALIVE.
func checkHeader(h []byte, extended bool) *Notification {
	if binary.BigEndian.Uint64(h) != math.MaxUint64 || binary.BigEndian.Uint64(h[8:]) != math.MaxUint64 {
		return refuse(codeHeader, headerNotSynchronized, nil, "the peer sends what is no BGP message")
	}
	length, kind := int(binary.BigEndian.Uint16(h[16:])), h[18]
	most := maxMessage
	switch {
	case kind == msgKeepalive:
		most = headerLength
	case extended && kind != msgOpen:
		most = maxExtended
	}
	known := kind > 0 && int(kind) < len(shortest)
	if length < headerLength || length > most || known && length < shortest[kind] {
		return badLength(length, kind)
	}
	if !known {
		return refuse(codeHeader, headerBadType, []byte{kind}, "the peer sends a message of unknown type %d", kind)
	}
	return nil
}

func badLength(length int, kind byte) *Notification {
	return refuse(codeHeader, headerBadLength, binary.BigEndian.AppendUint16(nil, uint16(length)), "the peer sends a message of type %d with a length of %d bytes", kind, length)
}

// message puts a header before a body.
func message(kind byte, body ...byte) []byte {
	m := make([]byte, headerLength, headerLength+len(body))
	for i := range 16 {
		m[i] = 0xff
	}
	binary.BigEndian.PutUint16(m[16:], uint16(headerLength+len(body)))
	m[18] = kind
	return append(m, body...)
}

// Subtypes of ROUTE-REFRESH (RFC 7313, 3.2).
const (
	refreshRequest = 0
	refreshBegin   = 1
	refreshEnd     = 2
)

// Address families.
const (
	afiIPv4     = 1
	afiIPv6     = 2
	safiUnicast = 1
)

func afi(v6 bool) byte {
	if v6 {
		return afiIPv6
	}
	return afiIPv4
}

// routeRefresh is a ROUTE-REFRESH message.
func routeRefresh(v6 bool, subtype byte) []byte {
	return message(msgRefresh, 0, afi(v6), subtype, safiUnicast)
}

// endOfRIB is the marker of an empty table (RFC 4724, 2).
func endOfRIB(v6 bool) []byte {
	if !v6 {
		return message(msgUpdate, 0, 0, 0, 0)
	}
	const optional, mpUnreach = 0x80, 15
	return message(msgUpdate, 0, 0, 0, 6, optional, mpUnreach, 3, 0, afiIPv6, safiUnicast)
}

// endOfLinkState is the same for BGP-LS (RFC 9552), AFI 16388 and SAFI 71.
func endOfLinkState() []byte {
	const optional, mpUnreach = 0x80, 15
	return message(msgUpdate, 0, 0, 0, 6, optional, mpUnreach, 3, 0x40, 0x04, 71)
}
