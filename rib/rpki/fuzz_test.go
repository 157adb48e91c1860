package rpki

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"
)

// bytesConn is a connection to a cache that says what it says, whatever it is asked.
type bytesConn struct {
	net.Conn
	io.Reader
	sent bytes.Buffer
}

func (c *bytesConn) Read(p []byte) (int, error)       { return c.Reader.Read(p) }
func (c *bytesConn) Write(p []byte) (int, error)      { return c.sent.Write(p) }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzSession has a cache say any bytes. Nothing panics, no PDU takes more room than maxPDU, the
// table is what a plain reading of the same bytes gives, and what is sent are whole PDUs.
func FuzzSession(f *testing.F) {
	for _, seed := range [][]byte{
		answer(1, 7, 11, announce(1, vrpA, vrpB)...),
		answer(0, 7, 11, announce(0, vrpA, vrpC)...),
		append(answer(1, 7, 11, announce(1, vrpA)...), pdu(1, 0, 7, u32(12)...)...),
		append(answer(1, 7, 11), reportPDU(1, 2, pdu(1, 2, 0), "text")...),
		append(answer(1, 7, 11), answer(1, 7, 12, prefixPDU(1, vrpA, 0))...),
		append(pdu(1, 3, 7), append(pdu(1, 9, 0, make([]byte, 100)...), endPDU(1, 7, 1)...)...),
		pdu(1, 10, 0, u32(0xfffffff8, 0)...),
		reportPDU(0, 4, pdu(1, 2, 0), ""),
		pdu(1, 8, 0), pdu(1, 7, 0, 0), pdu(2, 11, 0), {1, 4, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		s := NewStore()
		src := s.setSources([]SourceStatus{{Name: "cache", Kind: KindCache}})[0]
		c := newClient("cache", Intervals{time.Hour, time.Hour, time.Hour}, s, src, slog.New(slog.DiscardHandler))
		conn := &bytesConn{Reader: bytes.NewReader(said)}
		c.dial = dialTo(conn)
		if _, err := c.connect(t.Context()); err == nil {
			t.Fatal("a session ends without an error")
		}
		s.mu.Lock()
		src.stopTimer()
		s.mu.Unlock()

		if got, want := slices.Collect(s.Table().All()), firstAnswer(said); !slices.Equal(got, want) {
			t.Errorf("table %v, want %v", got, want)
		}
		for b := conn.sent.Bytes(); len(b) > 0; {
			if len(b) < 8 || int(binary.BigEndian.Uint32(b[4:])) > len(b) || binary.BigEndian.Uint32(b[4:]) < 8 {
				t.Fatalf("%x is sent, which is no PDU", b)
			}
			b = b[binary.BigEndian.Uint32(b[4:]):]
		}
		r := reader{r: bytes.NewReader(said)}
		for {
			b, err := r.next()
			if err != nil {
				break
			}
			_, _ = decode(b)
			if cap(r.buf) > maxPDU {
				t.Fatalf("%d bytes for a PDU", cap(r.buf))
			}
		}
	})
}

// firstAnswer reads what a cache says first, with nothing but the RFC: the VRPs of a whole answer
// to a Reset Query, none where there is no such answer. What the session is asked afterwards it
// did not wait for, and so does not answer.
func firstAnswer(b []byte) []VRP {
	var vrps []VRP
	version, session, in, agreed := byte(1), uint16(0), false, false
	for len(b) >= 8 {
		length := binary.BigEndian.Uint32(b[4:])
		if uint64(length) > uint64(len(b)) || length < 8 {
			return nil
		}
		p := b[:length]
		b = b[length:]
		if p[1] == 0 && length == 12 && (!agreed || p[0] == version) {
			continue
		}
		if p[0] > version || agreed && p[0] != version {
			return nil
		}
		version, agreed = p[0], true
		field := binary.BigEndian.Uint16(p[2:])
		switch {
		case p[1] == 3 && length == 8 && !in:
			in, session = true, field
		case p[1] == 4 && length == 20 && in, p[1] == 6 && length == 32 && in:
			v := VRP{MaxLen: p[10], ASN: binary.BigEndian.Uint32(p[length-4:])}
			v.Prefix = prefixOf(p[12:length-4], int(p[9]))
			if v.check() != nil {
				return nil
			}
			at := slices.Index(vrps, v)
			switch announce := p[8]&1 == 1; {
			case announce && at < 0:
				vrps = append(vrps, v)
			case !announce && at >= 0:
				vrps = slices.Delete(vrps, at, at+1)
			default:
				return nil
			}
		case p[1] == 9 && length >= 32 && length <= maxPDU && in:
		case p[1] == 7 && (length == 24 && version == 1 || length == 12 && version == 0) && in && session == field:
			return unique(vrps)
		default:
			return nil
		}
	}
	return nil
}

// FuzzRead reads any file: what comes of it are VRPs that a table takes.
func FuzzRead(f *testing.F) {
	for _, text := range []string{rpkiClientJSON, routinatorJSON, rpkiClientCSV, validatorCSV, plainCSV, `{"roas":[{"asn":null}]}`, "\"", "{", "{}", "[]", "1,::/0,128"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := read(bytes.NewReader(text), time.Unix(1750000000, 0))
		if err != nil {
			return
		}
		if _, err := NewTable(found.VRPs); err != nil {
			t.Error(err)
		}
	})
}
