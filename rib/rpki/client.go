package rpki

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/rtr"
)

const (
	// dialTimeout is how long a connection may take to come up.
	dialTimeout = 30 * time.Second
	// answerTimeout is how long a cache may be silent while it owes the rest of an answer.
	answerTimeout = time.Minute
	// leastBetween is how long a Serial Notify waits for the next query after the last one.
	leastBetween = 5 * time.Second
	// firstRetry is the wait after the first failure; it doubles up to Intervals.Retry.
	firstRetry = time.Second
	// silentEnds is how many connections in a row end without a word before the other version is tried.
	silentEnds = 2
	// maxEdits bounds one answer, and with it the memory that a cache can take.
	maxEdits = 8_000_000
)

// A client keeps a source as its cache has it. It is one goroutine's.
type client struct {
	addr     string
	fallback Intervals // what holds in version 0
	store    *Store
	source   *source
	log      *slog.Logger
	limit    int // edits of one answer
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)

	intervals Intervals // what holds now
	version   uint8     // to speak next, or spoken in this session
	silent    int       // connections in a row that ended without a PDU, asked in that version
	table     *Table    // as of the serial below; nil where there is none to go on from
	session   uint16
	serial    uint32
	of        uint8 // the version that session and serial are of
}

func newClient(addr string, fallback Intervals, s *Store, x *source, log *slog.Logger) *client {
	dialer := net.Dialer{Timeout: dialTimeout}
	return &client{
		addr: addr, fallback: fallback, store: s, source: x, log: log.With("cache", addr), limit: maxEdits, dial: dialer.DialContext,
		intervals: fallback, version: version1,
	}
}

// run has one session after the other until ctx is done.
func (c *client) run(ctx context.Context) {
	for retry := firstRetry; ; {
		answered, err := c.connect(ctx)
		if ctx.Err() != nil {
			err = errors.New("stopped")
		}
		c.store.update(c.source, func(x *source) { x.Connected, x.LastError = false, err.Error() })
		if ctx.Err() != nil {
			return
		}
		if answered {
			retry, c.version = firstRetry, version1
		}
		c.log.Warn("RTR session is over", "error", err, "again", retry)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = max(min(2*retry, c.intervals.Retry), firstRetry)
	}
}

// connect has one session. answered tells that the cache gave its data.
func (c *client) connect(ctx context.Context) (answered bool, err error) {
	conn, err := c.dial(ctx, "tcp", c.addr)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	x := &exchange{client: c, conn: conn}
	x.buffered = bufio.NewReaderSize(x, 64<<10)
	x.reader.r = x.buffered
	err = x.talk()
	var bad *pduError
	if errors.As(err, &bad) {
		c.table = nil // what the cache says cannot be gone on from
		if len(bad.pdu) < headerLength || bad.pdu[1] != rtr.RTR_ERROR_REPORT {
			if report, e := errorReport(c.version, bad); e == nil {
				_ = x.send(report)
			}
		}
	}
	// A cache may end the session without a word where it does not speak the version. Once may be
	// by chance, such as a cache that is about to stop, and the lower version stays for a session.
	if c.silent++; x.heard {
		c.silent = 0
	} else if c.silent == silentEnds {
		c.version, c.silent = version1-c.version, 0
	}
	return x.answered, err
}

// phases of an exchange.
type phase uint8

const (
	idle      phase = iota // nothing asked
	asked                  // Cache Response is awaited
	answering              // End of Data is awaited
)

// An exchange is one session with a cache.
type exchange struct {
	*client
	conn     net.Conn
	reader   reader
	buffered *bufio.Reader
	within   bool // a PDU has begun

	phase    phase
	reset    bool  // asked for all, not for what is new
	delta    delta // what the answer says so far
	last     time.Time
	next     time.Time // when to ask next
	heard    bool      // a PDU came: the cache knows the protocol
	agreed   bool      // on the version
	answered bool      // an answer was complete
}

// Read reads from the connection, for as long as the cache may take.
func (x *exchange) Read(p []byte) (int, error) {
	until := time.Now().Add(answerTimeout)
	if x.phase == idle && !x.within {
		until = x.next
	}
	if err := x.conn.SetReadDeadline(until); err != nil {
		return 0, err
	}
	return x.conn.Read(p)
}

func (x *exchange) send(pdu []byte) error {
	if err := x.conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	_, err := x.conn.Write(pdu)
	return err
}

// talk asks, listens and asks again until something goes wrong.
func (x *exchange) talk() error {
	if err := x.ask(); err != nil {
		return err
	}
	for {
		x.within = false
		if _, err := x.buffered.Peek(1); err != nil {
			if x.phase != idle || !errors.Is(err, os.ErrDeadlineExceeded) {
				return x.cut(err)
			}
			if err := x.ask(); err != nil {
				return err
			}
			continue
		}
		x.within = true
		pdu, err := x.reader.next()
		if err != nil {
			return x.cut(err)
		}
		if err := x.take(pdu); err != nil {
			return err
		}
	}
}

// cut says what a failed read means.
func (x *exchange) cut(err error) error {
	var bad *pduError
	switch {
	case errors.As(err, &bad):
		x.heard = true
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the cache was silent for %v in the middle of an answer", answerTimeout)
	case x.phase != idle:
		return fmt.Errorf("connection lost before the end of an answer: %w", err)
	}
	return fmt.Errorf("connection lost: %w", err)
}

// ask asks for what is new, or for all where there is nothing that it could be new to.
func (x *exchange) ask() error {
	x.reset = x.table == nil || x.of != x.version
	x.phase, x.delta, x.last = asked, delta{}, time.Now()
	var query []byte
	var err error
	if x.reset {
		query, err = resetQuery(x.version)
	} else {
		query, err = serialQuery(x.version, x.session, x.serial)
	}
	if err != nil {
		return err
	}
	return x.send(query)
}

// take does what a PDU says.
func (x *exchange) take(pdu []byte) error {
	x.heard = true
	kind := pdu[1]
	if kind == rtr.RTR_SERIAL_NOTIFY && !x.agreed {
		return nil // of any version (RFC 8210, 7)
	}
	if kind != rtr.RTR_ERROR_REPORT {
		if err := x.agree(pdu); err != nil {
			return err
		}
	}
	m, err := decode(pdu)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *rtr.RTRSerialNotify:
		return x.notified(m, pdu)
	case *rtr.RTRCacheResponse:
		return x.responds(m, pdu)
	case *rtr.RTRIPPrefix:
		return x.prefix(m, pdu)
	case *rtr.RTREndOfData:
		return x.end(m, pdu)
	case *rtr.RTRCacheReset:
		if x.phase != asked || x.reset {
			return &pduError{rtr.CORRUPT_DATA, pdu, "Cache Reset that answers no Serial Query"}
		}
		x.table = nil
		return x.ask()
	case *rtr.RTRErrorReport:
		if m.ErrorCode == rtr.UNSUPPORTED_PROTOCOL_VERSION && !x.agreed {
			x.version = version1 - x.version
		}
		if m.ErrorCode != rtr.NO_DATA_AVAILABLE {
			x.table = nil
		}
		return errors.New(errorText(m))
	}
	if x.phase != answering {
		return &pduError{rtr.CORRUPT_DATA, pdu, "Router Key outside of an answer"}
	}
	return nil
}

// agree checks the version of a PDU. The first one settles it: a cache may know an older one.
func (x *exchange) agree(pdu []byte) error {
	switch v := pdu[0]; {
	case v == x.version:
	case x.agreed:
		return &pduError{errorUnexpectedVersion, pdu, fmt.Sprintf("PDU of version %d in a session of version %d", v, x.version)}
	case v > x.version:
		return &pduError{rtr.UNSUPPORTED_PROTOCOL_VERSION, pdu, fmt.Sprintf("the cache answers in version %d: it was asked in version %d", v, x.version)}
	default:
		x.version = v
	}
	x.agreed = true
	return nil
}

// sameSession checks the session that a PDU names.
func (x *exchange) sameSession(session uint16, pdu []byte) error {
	if session == x.session {
		return nil
	}
	return &pduError{rtr.CORRUPT_DATA, pdu, fmt.Sprintf("the cache has session %d now, not %d: it was started anew", session, x.session)}
}

func (x *exchange) notified(m *rtr.RTRSerialNotify, pdu []byte) error {
	if x.phase != idle {
		return nil // what it is about may be in the answer, and is asked for with the next query
	}
	if err := x.sameSession(m.SessionID, pdu); err != nil {
		return err
	}
	if m.SerialNumber != x.serial {
		x.next = x.last.Add(leastBetween)
	}
	return nil
}

func (x *exchange) responds(m *rtr.RTRCacheResponse, pdu []byte) error {
	if x.phase != asked {
		return &pduError{rtr.CORRUPT_DATA, pdu, "Cache Response to no query"}
	}
	if x.reset {
		x.session = m.SessionID
	}
	x.phase = answering
	return x.sameSession(m.SessionID, pdu)
}

func (x *exchange) prefix(m *rtr.RTRIPPrefix, pdu []byte) error {
	if x.phase != answering {
		return &pduError{rtr.CORRUPT_DATA, pdu, "prefix outside of an answer"}
	}
	v, announce, err := vrpOf(m, pdu)
	if err != nil {
		return err
	}
	if x.delta.len() == x.limit {
		return &pduError{rtr.INTERNAL_ERROR, nil, fmt.Sprintf("an answer of more than %d prefixes", x.limit)}
	}
	x.delta.add(v, announce)
	return nil
}

// end puts a complete answer into force.
func (x *exchange) end(m *rtr.RTREndOfData, pdu []byte) error {
	if x.phase != answering {
		return &pduError{rtr.CORRUPT_DATA, pdu, "End of Data outside of an answer"}
	}
	if err := x.sameSession(m.SessionID, pdu); err != nil {
		return err
	}
	table := x.table
	if x.reset {
		table = nil
	}
	if x.reset || x.delta.len() > 0 {
		var err error
		if table, err = x.delta.apply(table); err != nil {
			return refusal(x.version, err)
		}
	}
	if table.Len() > x.limit {
		return &pduError{rtr.INTERNAL_ERROR, nil, fmt.Sprintf("more than %d prefixes", x.limit)}
	}
	x.table, x.of, x.serial = table, x.version, m.SerialNumber
	x.intervals = intervalsOf(pdu, x.fallback)
	x.phase, x.delta, x.next = idle, delta{}, time.Now().Add(x.intervals.Refresh)
	x.store.keep(x.source, table, x.intervals.Expire, func(s *source) {
		s.Connected, s.LastError = true, ""
		s.Version, s.Session, s.Serial = x.version, x.session, x.serial
	})
	if !x.answered {
		x.log.Info("RTR session is up", "version", x.version, "session", x.session, "serial", x.serial, "vrps", table.Len())
	}
	x.answered = true
	return nil
}

// refusal is the Error Report for edits that do not fit.
func refusal(version uint8, err error) error {
	var e editError
	if !errors.As(err, &e) {
		return err
	}
	code, flags := rtr.WITHDRAWAL_OF_UNKNOWN_RECORD, rtr.WITHDRAWAL
	if e.announce {
		code, flags = rtr.DUPLICATE_ANNOUNCEMENT_RECORD, rtr.ANNOUNCEMENT
	}
	m := rtr.NewRTRIPPrefix(e.vrp.Prefix.Addr().AsSlice(), uint8(e.vrp.Prefix.Bits()), e.vrp.MaxLen, e.vrp.ASN, flags)
	m.Version = version
	pdu, _ := m.Serialize()
	return &pduError{code, pdu, e.Error()}
}
