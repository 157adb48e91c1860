package fsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	ownAS  = 64999
	peerAS = 64500
)

// us is a speaker without anything optional.
func us() Local {
	return Local{AS: ownAS, RouterID: netip.MustParseAddr("192.0.2.99"), PeerAS: peerAS, IPv4: true, IPv6: true}
}

// frame makes a message, without any of the code under test.
func frame(kind byte, body ...byte) []byte {
	m := bytes.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(19+len(body)))
	return append(append(m, kind), body...)
}

// sized is a header that claims a length.
func sized(length uint16, kind byte) []byte {
	m := frame(kind)
	binary.BigEndian.PutUint16(m[16:], length)
	return m
}

func notification(code, subcode byte, data ...byte) []byte {
	return frame(3, append([]byte{code, subcode}, data...)...)
}

// openWith is a peer's OPEN with the parameters as they are.
func openWith(as, holdTime uint16, parameters ...byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{4}, as)
	b = binary.BigEndian.AppendUint16(b, holdTime)
	b = append(b, 192, 0, 2, 1, byte(len(parameters)))
	return frame(1, append(b, parameters...)...)
}

// opening is a peer's OPEN with capabilities.
func opening(holdTime uint16, caps ...[]byte) []byte {
	list := slices.Concat(caps...)
	if len(list) == 0 {
		return openWith(peerAS, holdTime)
	}
	return openWith(peerAS, holdTime, append([]byte{2, byte(len(list))}, list...)...)
}

// as4 is the capability of 4-byte AS numbers.
func as4(as uint32) []byte { return binary.BigEndian.AppendUint32([]byte{65, 4}, as) }

// Capabilities and messages of the peer.
var (
	mp4       = []byte{1, 4, 0, 1, 0, 1}
	mp6       = []byte{1, 4, 0, 2, 0, 1}
	refreshes = []byte{2, 0, 70, 0} // RFC 2918 and RFC 7313
	long      = []byte{6, 0}        // RFC 8654
	restart4  = []byte{64, 6, 0, 120, 0, 1, 1, 0}
	restartN4 = []byte{64, 6, 0x40, 120, 0, 1, 1, 0} // with RFC 8538

	keepalive = frame(4)
	eor4      = frame(2, 0, 0, 0, 0)
	eor6      = frame(2, 0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1)
	withdraw  = frame(2, 0, 2, 8, 10, 0, 0)
)

// A recorder is a Handler that writes down what it is told, and may answer.
type recorder struct {
	mu      sync.Mutex
	events  []string
	session *Session

	onOpened      func(*Open) *Notification
	onEstablished func(*Session)
	onUpdate      func([]byte) *Notification
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.events, ", ")
}

func (r *recorder) Opened(o *Open) *Notification {
	r.note("opened")
	if r.onOpened != nil {
		return r.onOpened(o)
	}
	return nil
}

func (r *recorder) Established(s *Session) {
	r.note("established")
	r.mu.Lock()
	r.session = s
	r.mu.Unlock()
	if r.onEstablished != nil {
		r.onEstablished(s)
	}
}

func (r *recorder) Update(body []byte) *Notification {
	r.note("update %x", body)
	if r.onUpdate != nil {
		return r.onUpdate(body)
	}
	return nil
}

func (r *recorder) Refresh(v6, begin bool) { r.note("refresh %v %v", v6, begin) }

// A talk is a session under test and its peer, at the two ends of a pipe.
type talk struct {
	*recorder
	t      *testing.T
	conn   net.Conn // the peer's end
	cancel context.CancelCauseFunc
	ended  chan struct{}
	end    End
	took   time.Duration // from the start to the end

	reading chan struct{} // closed when all is read
	mu      sync.Mutex
	sent    []byte // by us
	at      []time.Duration
	started time.Time
}

// converse runs f beside a session, in time that passes when all wait, and checks what holds
// for all sessions. f has to see to it that the session ends.
func converse(t *testing.T, l Local, h *recorder, f func(k *talk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, conn := net.Pipe()
		k := &talk{recorder: h, t: t, conn: conn, ended: make(chan struct{}), reading: make(chan struct{}), started: time.Now()}
		ctx, cancel := context.WithCancelCause(t.Context())
		k.cancel = cancel
		defer cancel(nil)
		go func() {
			defer close(k.ended)
			k.end = Run(ctx, near, l, h)
			k.took = time.Since(k.started)
		}()
		go k.read()
		f(k)
		k.over()
		_ = conn.Close()
		<-k.reading
		k.check()
	})
}

// over waits for the end, and until all that we have sent is there.
func (k *talk) over() {
	<-k.ended
	synctest.Wait()
}

// read keeps what we send and when.
func (k *talk) read() {
	defer close(k.reading)
	b := make([]byte, maxExtended)
	for {
		n, err := k.conn.Read(b)
		k.mu.Lock()
		if n > 0 {
			k.sent = append(k.sent, b[:n]...)
			k.at = append(k.at, time.Since(k.started))
		}
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// say writes messages of the peer, at once. It stops where the session is over.
func (k *talk) say(messages ...[]byte) {
	_, _ = k.conn.Write(slices.Concat(messages...))
	synctest.Wait()
}

// messages are those that we have sent.
func (k *talk) messages() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := split(k.sent)
	if err != nil {
		k.t.Errorf("we sent: %v", err)
	}
	return all
}

// after are the messages that we have sent after our OPEN.
func (k *talk) after() []byte {
	all := k.messages()
	if len(all) == 0 || all[0][18] != 1 {
		k.t.Fatalf("we began with %x, not with an OPEN", slices.Concat(all...))
	}
	return slices.Concat(all[1:]...)
}

// check looks at what has to hold for every session.
func (k *talk) check() {
	for i, m := range k.messages() {
		if m[18] == 3 {
			if i != len(k.messages())-1 {
				k.t.Errorf("%d messages follow our NOTIFICATION", len(k.messages())-1-i)
			}
			if n := k.end.Notification; n == nil || !n.Sent || !bytes.Equal(m, notification(n.Code, n.Subcode, n.Data...)) {
				k.t.Errorf("we sent %x and say that the session ended with %v", m, n)
			}
		}
	}
	if k.end.Reason == "" {
		k.t.Error("the end has no reason")
	}
}

// split takes a stream apart.
func split(b []byte) (all [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 19 || !bytes.Equal(b[:16], bytes.Repeat([]byte{0xff}, 16)) {
			return all, fmt.Errorf("no header: %x", b)
		}
		n := int(binary.BigEndian.Uint16(b[16:]))
		if n < 19 || n > len(b) {
			return all, fmt.Errorf("length %d of %d: %x", n, len(b), b)
		}
		all, b = append(all, b[:n]), b[n:]
	}
	return all, nil
}

func mustBe(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
	}
}

func mustHex(t *testing.T, what string, got []byte, want ...[]byte) {
	t.Helper()
	mustBe(t, what, fmt.Sprintf("%x", got), fmt.Sprintf("%x", slices.Concat(want...)))
}
