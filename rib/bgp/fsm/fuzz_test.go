package fsm

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Bits of what a fuzzed conversation is like beside the bytes of the peer.
const (
	asScript  = 1 << iota // the bytes are operations, not what is sent
	unread                // the peer reads nothing
	closes                // it closes at the end; otherwise it is silent
	slow                  // UPDATEs are handled slowly at first
	objecting             // the third UPDATE is objected to
	rich                  // we have all that is optional
	strict                // we insist on a role
	piecemeal             // the peer sends a few bytes at once
	cancelled             // it is ended from here in between
)

// strictHandler checks in which order it is called.
type strictHandler struct {
	t       *testing.T
	mode    uint16
	opened  bool
	session *Session
	updates int
}

func (h *strictHandler) Opened(o *Open) *Notification {
	if h.opened || o == nil || o.AS != peerAS || o.HoldTime == time.Second || o.HoldTime == 2*time.Second {
		h.t.Errorf("opened once more, or with %+v", o)
	}
	h.opened = true
	return nil
}

func (h *strictHandler) Established(s *Session) {
	if !h.opened || h.session != nil || s.Open() == nil {
		h.t.Error("established out of turn")
	}
	h.session = s
	_ = s.RequestRefresh(false)
}

func (h *strictHandler) Update(body []byte) *Notification {
	h.updates++
	if h.session == nil || len(body) < 4 || len(body) > maxExtended-headerLength || len(body) > maxMessage-headerLength && h.mode&rich == 0 {
		h.t.Errorf("UPDATE out of turn, or of %d bytes", len(body))
	}
	if h.mode&slow != 0 && h.updates <= 3 {
		time.Sleep(time.Hour)
	}
	if h.mode&objecting != 0 && h.updates == 3 {
		return &Notification{Code: 3, Subcode: 1, Data: body}
	}
	return nil
}

func (h *strictHandler) Refresh(v6, begin bool) {
	if h.session == nil || !h.session.Open().EnhancedRefresh || !h.session.carries(v6) {
		h.t.Error("refresh out of turn")
	}
}

// operations gives what a peer sends that means well for the most part: each byte names a
// message, and those behind it say what it is like.
func operations(data []byte, send func([]byte)) {
	take := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	some := func() []byte {
		n := min(int(take()), len(data))
		b := data[:n]
		data = data[n:]
		return b
	}
	for len(data) > 0 {
		switch take() % 10 {
		case 0:
			send(opening(uint16(take()), as4(peerAS), mp4, mp6, refreshes, long, restartN4))
		case 1:
			caps := some()
			send(openWith(peerAS, 90, append([]byte{2, byte(len(caps))}, caps...)...))
		case 2:
			send(keepalive)
		case 3:
			send(frame(2, some()...))
		case 4:
			send(frame(5, some()...))
		case 5:
			send(frame(take(), some()...))
		case 6:
			send(some())
		case 7:
			time.Sleep(time.Duration(take()) * time.Second)
		case 8: // one byte of a good message is another one
			m := slices.Concat(opening(90, mp4), keepalive, withdraw)
			m[int(take())%len(m)] ^= take() | 1
			send(m)
		case 9:
			send(frame(2, make([]byte, int(take())<<8|int(take()))...))
		}
	}
}

// FuzzConversation has a peer say anything at all. Whatever it is, the session ends, with one
// NOTIFICATION at most and that the last message, and nothing of it goes on running (which
// synctest checks).
func FuzzConversation(f *testing.F) {
	up := slices.Concat(opening(90, as4(peerAS), mp4, mp6, refreshes, long, restartN4, []byte{9, 1, 0}), keepalive)
	for _, mode := range []uint16{0, closes, unread | closes, slow, objecting | slow, rich, strict | rich | closes, piecemeal | rich, cancelled, cancelled | unread | slow} {
		f.Add(mode, slices.Concat(up, withdraw, eor4, frame(5, 0, 1, 1, 1), withdraw, withdraw, frame(5, 0, 1, 2, 1), eor6))
		f.Add(mode, slices.Concat(up, notification(6, 9, 6, 2, 3, 'b', 'y', 'e')))
		f.Add(mode, slices.Concat(opening(0, restart4, []byte{69, 4, 0, 1, 1, 3, 71, 7, 0, 1, 1, 0, 0, 0, 9, 5, 6, 0, 1, 0, 1, 0, 2}), keepalive, withdraw))
		f.Add(mode, openWith(peerAS, 90, slices.Concat([]byte{255, 0, 9, 2, 0, 6}, mp4)...))
		f.Add(mode|asScript, []byte{0, 90, 0, 2, 3, 4, 0, 0, 0, 0, 4, 4, 0, 1, 0, 1, 7, 60, 2, 9, 20, 0, 2, 7, 100, 7, 100})
		f.Add(mode|asScript, []byte{1, 6, 1, 4, 0, 1, 0, 1, 2, 3, 4, 0, 0, 0, 0, 5, 9, 1, 0, 8, 40, 3})
		f.Add(mode|asScript, []byte{0, 0, 0, 2, 7, 255, 7, 255, 3, 4, 0, 0, 0, 0, 6, 3, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, mode uint16, data []byte) {
		if len(data) > 1<<12 {
			return // longer ones say nothing new, and take their time
		}
		synctest.Test(t, func(t *testing.T) { conversation(t, mode, data) })
	})
}

func conversation(t *testing.T, mode uint16, data []byte) {
	l := us()
	if mode&rich != 0 {
		l.AddPath, l.ExtendedMessages, l.ExtendedNextHop, l.LongLived, l.RestartTime = true, true, true, true, time.Minute
	}
	if mode&strict != 0 {
		l.Role, l.StrictRole = RoleCustomer, true
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	near, far := newPipe()
	ended := make(chan End, 1)
	go func() { ended <- Run(ctx, near, l, &strictHandler{t: t, mode: mode}) }()
	sent := make(chan []byte, 1)
	go func() {
		var b []byte
		if mode&unread == 0 {
			b, _ = io.ReadAll(far)
		}
		sent <- b
	}()

	send := func(m []byte) {
		step := len(m)
		if mode&piecemeal != 0 {
			step = len(m)/100 + 1 // of long ones a few at once, for there may be many
		}
		for b := range slices.Chunk(m, max(step, 1)) {
			if _, err := far.Write(b); err != nil {
				return
			}
		}
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		if mode&asScript != 0 {
			operations(data, send)
		} else {
			send(data)
		}
		if mode&closes != 0 {
			_ = far.Close()
		}
	}()
	if mode&cancelled != 0 {
		time.Sleep(20 * time.Second)
		cancel(&Notification{Code: 6, Subcode: 4, Message: "enough"})
	}
	var end End
	select {
	case end = <-ended:
	case <-time.After(24 * time.Hour):
		// Without a hold time a silent peer is for ever, and a script may take its time.
		cancel(nil)
		select {
		case end = <-ended:
		case <-time.After(4*time.Hour + parting):
			t.Fatal("it does not end")
		}
	}
	<-said
	_ = far.Close()
	all, err := split(<-sent)
	if err != nil {
		// The end may have cut off a message, after which nothing may follow.
		if end.Notification != nil && end.Notification.Sent && mode&unread == 0 {
			t.Errorf("we sent: %v", err)
		}
	}
	for i, m := range all {
		switch {
		case i == 0 && !bytes.Equal(m, openOf(l)):
			t.Errorf("we began with %x", m)
		case m[18] == 3 && (i != len(all)-1 || end.Notification == nil || !end.Notification.Sent):
			t.Errorf("NOTIFICATION %x is message %d of %d, the end is %+v", m, i+1, len(all), end)
		}
	}
	if end.Reason == "" || end.Graceful && end.Established.IsZero() {
		t.Errorf("end %+v", end)
	}
}
