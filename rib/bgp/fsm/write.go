package fsm

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"time"
)

const (
	queueLength   = 16              // messages that wait for the peer to read
	leastSendHold = 8 * time.Minute // twice the hold time where that is more (RFC 9687, 3.1)
)

// send hands a message to the writing goroutine. It reports false where too many wait: what is
// lost then can be asked for again.
func (s *Session) send(m []byte) bool {
	select {
	case s.out <- m:
		return true
	default:
		return false
	}
}

// write sends messages, and KEEPALIVEs in time, until the session is over.
func (s *Session) write() {
	keepalive := message(msgKeepalive)
	var holdTime time.Duration
	var due <-chan time.Time // for the next KEEPALIVE
	for {
		var m []byte
		select {
		case m = <-s.out:
		case <-due:
			m = keepalive
			due = time.After(pause(holdTime))
		case holdTime = <-s.keepalives:
			due = time.After(pause(holdTime))
			continue
		case <-s.done:
			s.farewell()
			return
		}
		if err := s.writeInTime(m); err != nil {
			// Only a peer that does not read is ended from here. Any other error is found by
			// reading too, after what the peer has said before.
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.stop(End{Err: err, Reason: "the send hold time is over: the peer does not read"})
			}
			return
		}
	}
}

// pause is the time to the next KEEPALIVE: up to a quarter less than a third of the hold time,
// so that sessions do not send in step (RFC 4271, 10), but a second at least (4.4).
func pause(holdTime time.Duration) time.Duration {
	third := float64(holdTime / 3)
	return max(time.Duration(third*(1-rand.Float64()/4)), time.Second)
}

// writeInTime writes a message within the send hold time.
func (s *Session) writeInTime(m []byte) error {
	s.mu.Lock()
	if !s.over.Load() {
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.sendHold)) // an error is one of the connection, which Write meets as well
	}
	s.mu.Unlock()
	_, err := s.conn.Write(m)
	return err
}

// farewell sends what there is to send before and with the NOTIFICATION, if there is one of
// ours. stop has set the deadline.
func (s *Session) farewell() {
	n := s.end.Notification
	if n == nil || !n.Sent {
		return
	}
	for {
		select {
		case m := <-s.out:
			if _, err := s.conn.Write(m); err != nil {
				return // half a message is out: there can be no other
			}
			continue
		default:
		}
		break
	}
	if _, err := s.conn.Write(message(msgNotification, append([]byte{n.Code, n.Subcode}, n.Data...)...)); err != nil {
		return
	}
	if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
		s.lingers = c.CloseWrite() == nil
	}
}

// linger waits for the peer to close after it got our NOTIFICATION. The writing goroutine has
// ended.
func (s *Session) linger() {
	if !s.lingers || s.conn.SetReadDeadline(time.Now().Add(parting)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, s.conn) // any end will do
}
