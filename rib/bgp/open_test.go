package bgp

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzOpen feeds any body of an OPEN to the parser: corebgp never gets to see a hold time of 0,
// which would crash it, and gets one capability of an OPEN that can be read.
func FuzzOpen(f *testing.F) {
	f.Add(openBody(peerAS, 90, as4(peerAS), mp4, mp6, addPaths))
	f.Add(openBody(peerAS, 0))
	f.Add(append(openBody(peerAS, 0)[:9], 9))
	f.Add(openBody(23456, 90, as4(400000)[:3]))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) < openLength-headerLength || len(body) > maxMessage-headerLength {
			return
		}
		message := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, 1)
		binary.BigEndian.PutUint16(message[16:], uint16(headerLength+len(body)))
		message = append(message, body...)
		o, err := parseOpen(body)
		got := o.forStateMachine(message)
		if int(binary.BigEndian.Uint16(got[16:])) != len(got) {
			t.Fatalf("length field of %d bytes in %x", len(got), got)
		}
		if binary.BigEndian.Uint16(got[headerLength+3:]) == 0 {
			t.Fatalf("hold time of 0 in %x", got)
		}
		if err == nil && (len(got) != openLength+8 || binary.BigEndian.Uint32(got[len(got)-4:]) != o.as) {
			t.Fatalf("AS %d, got %x", o.as, got)
		}
	})
}
