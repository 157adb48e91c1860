package bgp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// writeTimeout is how long a peer may take to read a message of ours. They are few and small.
const writeTimeout = 10 * time.Second

// A link is a connection to a peer as corebgp sees it. It reads along: the OPEN is decoded and
// replaced by one that corebgp takes, NOTIFICATIONs are noted, and ROUTE-REFRESH is dropped,
// because there is nothing to send again.
//
// Read is for one goroutine, everything else for any.
type link struct {
	net.Conn
	peer    *peer
	inbound bool // the peer connected to us
	in      *bufio.Reader
	ready   []byte // of an OPEN: still to be given to corebgp
	left    int    // of the current message: bytes that go through as they are
	raw     bool   // what comes is no BGP: all goes through, and corebgp refuses it

	once   sync.Once
	closed chan struct{} // by Close

	mu           sync.Mutex
	open         *open
	notification *Notification // the one that ended the session
	reason       string        // what we have to say about the end
	readErr      error
	established  time.Time // zero: never was
	writing      sync.Mutex
}

// newLink takes a connection over. The peer has timeout to send its OPEN.
func newLink(c net.Conn, p *peer, inbound bool, timeout time.Duration) *link {
	// The error would be one of the connection, which the first Read meets as well.
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	return &link{Conn: c, peer: p, inbound: inbound, in: bufio.NewReaderSize(c, 1<<16), closed: make(chan struct{})}
}

// Read gives corebgp the next bytes.
func (l *link) Read(b []byte) (int, error) {
	if len(l.ready) == 0 && l.left == 0 && !l.raw {
		if err := l.next(); err != nil {
			l.failed(err)
			return 0, err
		}
	}
	if len(l.ready) > 0 {
		n := copy(b, l.ready)
		l.ready = l.ready[n:]
		return n, nil
	}
	if !l.raw && len(b) > l.left {
		b = b[:l.left]
	}
	n, err := l.in.Read(b)
	l.left -= n
	if err != nil {
		l.failed(err)
	}
	return n, err
}

// next looks at the header of the next message, and at all of it where it matters here.
func (l *link) next() error {
	for {
		header, err := l.in.Peek(headerLength)
		if err != nil {
			if len(header) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		length, kind := int(binary.BigEndian.Uint16(header[16:])), header[18]
		if length < headerLength || length > maxMessage {
			l.raw = true
			return nil
		}
		l.peer.bytes.Add(uint64(length))
		switch kind {
		case bgp.BGP_MSG_OPEN, bgp.BGP_MSG_NOTIFICATION:
			message, err := l.in.Peek(length)
			if err != nil {
				return err
			}
			if kind == bgp.BGP_MSG_NOTIFICATION {
				l.note(message, false)
				break
			}
			if length < openLength {
				break
			}
			l.ready = l.sawOpen(message)
			_, err = l.in.Discard(length)
			return err
		case bgp.BGP_MSG_ROUTE_REFRESH:
			if _, err := l.in.Discard(length); err != nil {
				return err
			}
			continue
		}
		l.left = length
		return nil
	}
}

// sawOpen takes an OPEN in and gives the one for corebgp.
func (l *link) sawOpen(message []byte) []byte {
	_ = l.SetReadDeadline(time.Time{}) // from here on the hold time counts
	o, err := parseOpen(message[headerLength:])
	if err != nil {
		l.because("damaged OPEN: " + err.Error())
	}
	l.mu.Lock()
	l.open = o
	l.mu.Unlock()
	if o != nil {
		l.peer.check(l, o)
	}
	return o.forStateMachine(message)
}

// Write sends what corebgp writes, a message at a time.
func (l *link) Write(b []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(writeTimeout))
	if len(b) > headerLength && b[18] == bgp.BGP_MSG_NOTIFICATION {
		l.note(b, true)
	}
	return l.Conn.Write(b)
}

// Close closes the connection. More than once does nothing.
func (l *link) Close() error {
	var err error
	l.once.Do(func() {
		err = l.Conn.Close()
		close(l.closed)
	})
	return err
}

// note keeps a NOTIFICATION. The first is the one that ended the session.
func (l *link) note(message []byte, sent bool) {
	if len(message) < headerLength+2 {
		return
	}
	n := &Notification{Sent: sent, Code: message[headerLength], Subcode: message[headerLength+1], Time: time.Now()}
	if !sent {
		n.Message = shutdownMessage(n, message[headerLength+2:])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notification == nil {
		l.notification = n
		l.peer.lastNotification.Store(n)
	}
}

// failed keeps the error that ended reading.
func (l *link) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readErr == nil {
		l.readErr = err
	}
}

// because says why the session is about to end.
func (l *link) because(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == "" {
		l.reason = reason
	}
}

// end says why the connection came to its end, and whether it was an error that calls for
// leaving the peer alone for a while.
func (l *link) end() (reason string, isError bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isError = l.notification != nil && l.notification.Code != bgp.BGP_ERROR_CEASE
	var timeout net.Error
	switch {
	case l.reason != "":
		return l.reason, isError
	case l.notification != nil:
		return l.notification.String(), isError
	case errors.As(l.readErr, &timeout) && timeout.Timeout():
		return "the peer has sent no OPEN", false
	case l.readErr == nil || errors.Is(l.readErr, net.ErrClosed):
		return "the connection was refused: the peer has another", false
	case errors.Is(l.readErr, io.EOF):
		return "the peer has closed the connection", false
	case errors.Is(l.readErr, syscall.ECONNRESET):
		return "the peer has reset the connection", false
	}
	return "the connection is lost: " + l.readErr.Error(), false
}
