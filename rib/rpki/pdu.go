package rpki

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/rtr"
)

// Protocol versions that are spoken.
const (
	version0 = 0 // RFC 6810
	version1 = 1 // RFC 8210
)

// What the codec has no name for.
const (
	typeRouterKey                = 9 // RFC 8210, 5.10
	errorUnexpectedVersion       = 8 // RFC 8210, 12
	endOfDataLength1             = 24
	errorReportLength            = 16 // without PDU and text
	routerKeyLength              = 32 // without key
	maxErrorText                 = 200
	headerLength                 = rtr.RTR_MIN_LEN
	maxPDU                       = 64 << 10
	flagAnnounce           uint8 = 1
)

// A pduError is a PDU that ends a session. code is the Error Report to send.
type pduError struct {
	code uint16
	pdu  []byte // as far as it was read
	text string
}

func (e *pduError) Error() string { return e.text }

// A reader reads the PDUs of one connection. The version is what End of Data and the codes of
// errors depend on; the caller checks that PDUs have it.
type reader struct {
	r   io.Reader
	buf []byte
}

// next reads one PDU: its whole bytes, good until the next call. The length is one that its type
// may have, or a pduError comes before anything behind the header is read, so that no length
// makes memory grow beyond maxPDU.
func (r *reader) next() ([]byte, error) {
	if r.buf == nil {
		r.buf = make([]byte, 0, 128)
	}
	r.buf = r.buf[:headerLength]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(r.buf[4:])
	if err := checkLength(r.buf, length); err != nil {
		return nil, err
	}
	if int(length) > cap(r.buf) {
		r.buf = append(make([]byte, 0, length), r.buf...)
	}
	r.buf = r.buf[:length]
	if _, err := io.ReadFull(r.r, r.buf[headerLength:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return r.buf, nil
}

// checkLength tells whether a PDU with a header may have a length, by its type.
func checkLength(header []byte, length uint32) error {
	least, most := uint32(0), uint32(0)
	switch header[1] {
	case rtr.RTR_SERIAL_NOTIFY:
		least, most = rtr.RTR_SERIAL_NOTIFY_LEN, rtr.RTR_SERIAL_NOTIFY_LEN
	case rtr.RTR_CACHE_RESPONSE:
		least, most = rtr.RTR_CACHE_RESPONSE_LEN, rtr.RTR_CACHE_RESPONSE_LEN
	case rtr.RTR_IPV4_PREFIX:
		least, most = rtr.RTR_IPV4_PREFIX_LEN, rtr.RTR_IPV4_PREFIX_LEN
	case rtr.RTR_IPV6_PREFIX:
		least, most = rtr.RTR_IPV6_PREFIX_LEN, rtr.RTR_IPV6_PREFIX_LEN
	case rtr.RTR_END_OF_DATA:
		least, most = rtr.RTR_END_OF_DATA_LEN, rtr.RTR_END_OF_DATA_LEN
		if header[0] == version1 {
			least, most = endOfDataLength1, endOfDataLength1
		}
	case rtr.RTR_CACHE_RESET:
		least, most = rtr.RTR_CACHE_RESET_LEN, rtr.RTR_CACHE_RESET_LEN
	case typeRouterKey:
		least, most = routerKeyLength, maxPDU
	case rtr.RTR_ERROR_REPORT:
		least, most = errorReportLength, maxPDU
	default:
		return &pduError{rtr.UNSUPPORTED_PDU_TYPE, header, fmt.Sprintf("PDU of type %d, which a cache does not send in version %d", header[1], header[0])}
	}
	if length < least || length > most {
		return &pduError{rtr.CORRUPT_DATA, header, fmt.Sprintf("PDU of type %d with a length of %d bytes", header[1], length)}
	}
	return nil
}

// decode has the codec read a PDU that next gave; nil for a router key, which is of no use here.
// What the codec cannot stand is a pduError.
func decode(b []byte) (m rtr.RTRMessage, err error) {
	corrupt := func(text string) error { return &pduError{rtr.CORRUPT_DATA, b, text} }
	switch b[1] {
	case typeRouterKey:
		return nil, nil
	case rtr.RTR_ERROR_REPORT:
		// The codec makes room for what the inner length says before it looks.
		inner := uint64(binary.BigEndian.Uint32(b[8:]))
		if inner+errorReportLength > uint64(len(b)) {
			return nil, corrupt(fmt.Sprintf("Error Report of %d bytes holds a PDU of %d", len(b), inner))
		}
		if text := uint64(binary.BigEndian.Uint32(b[12+inner:])); inner+errorReportLength+text != uint64(len(b)) {
			return nil, corrupt(fmt.Sprintf("Error Report of %d bytes holds a PDU of %d and a text of %d", len(b), inner, text))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(fmt.Sprintf("PDU of type %d: the codec panics: %v", b[1], p))
		}
	}()
	if m, err = rtr.ParseRTR(b); err != nil {
		return nil, corrupt(err.Error())
	}
	return m, nil
}

// vrpOf gives what a prefix PDU is about.
func vrpOf(m *rtr.RTRIPPrefix, pdu []byte) (v VRP, announce bool, err error) {
	addr, _ := netip.AddrFromSlice(m.Prefix)
	v = VRP{Prefix: netip.PrefixFrom(addr, int(m.PrefixLen)), MaxLen: m.MaxLen, ASN: m.AS}
	if err := v.check(); err != nil {
		return v, false, &pduError{rtr.CORRUPT_DATA, pdu, err.Error()}
	}
	return v, m.Flags&flagAnnounce != 0, nil
}

// Intervals are how long to wait for what (RFC 8210, 6).
type Intervals struct {
	Refresh time.Duration // between questions for news
	Retry   time.Duration // after one that failed
	Expire  time.Duration // until data are given up
}

// intervalsOf reads those of an End of Data of version 1, each brought into the bounds that the
// RFC has. fallback is for version 0, which tells none.
func intervalsOf(pdu []byte, fallback Intervals) Intervals {
	if len(pdu) < endOfDataLength1 {
		return fallback
	}
	second := func(at int, least, most uint32) time.Duration {
		return time.Duration(min(max(binary.BigEndian.Uint32(pdu[at:]), least), most)) * time.Second
	}
	i := Intervals{Refresh: second(12, 1, 86400), Retry: second(16, 1, 7200), Expire: second(20, 600, 172800)}
	i.Expire = max(i.Expire, i.Refresh, i.Retry)
	return i
}

// resetQuery, serialQuery and errorReport make what a router sends.

func resetQuery(version uint8) ([]byte, error) {
	m := rtr.NewRTRResetQuery()
	m.Version = version
	return m.Serialize()
}

func serialQuery(version uint8, session uint16, serial uint32) ([]byte, error) {
	m := rtr.NewRTRSerialQuery(session, serial)
	m.Version = version
	return m.Serialize()
}

// errorReport must not be asked for about an Error Report: nobody answers those.
func errorReport(version uint8, e *pduError) ([]byte, error) {
	m := rtr.NewRTRErrorReport(e.code, e.pdu, []byte(e.text))
	m.Version = version
	return m.Serialize()
}

// errorText is what an Error Report says, for a log: its text is for people and may be anything.
func errorText(m *rtr.RTRErrorReport) string {
	words := [...]string{"corrupt data", "internal error", "no data available", "invalid request", "unsupported protocol version",
		"unsupported PDU type", "withdrawal of unknown record", "duplicate announcement", "unexpected protocol version"}
	s := fmt.Sprintf("error %d", m.ErrorCode)
	if int(m.ErrorCode) < len(words) {
		s = words[m.ErrorCode]
	}
	text := m.Text[:min(len(m.Text), maxErrorText)]
	if len(text) > 0 {
		s += fmt.Sprintf(" (%q)", text)
	}
	return "the cache reports: " + s
}
