package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

// A feeder is a BGP speaker that sends bytes made beforehand, so that what is measured is the one
// who takes them. It waits at its address for one session after the other.
type feeder struct {
	tb       testing.TB
	addr     netip.Addr
	as       uint32
	restart  bool        // it announces graceful restart (RFC 4724), and that it has kept its routes
	linked   atomic.Bool // it announces BGP-LS
	listener net.Listener
	up       chan *feed
}

// A feed is one session of a feeder.
type feed struct{ net.Conn }

// startFeeder makes a feeder that listens at a loopback address.
func startFeeder(tb testing.TB, addr string, as uint32, restart bool) *feeder {
	tb.Helper()
	f := &feeder{tb: tb, addr: netip.MustParseAddr(addr), as: as, restart: restart, up: make(chan *feed, 64)}
	var err error
	if f.listener, err = net.Listen("tcp", addr+":0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.listener.Close() })
	go f.accept()
	return f
}

// peer is the feeder as the service is told of it.
func (f *feeder) peer(more string) string {
	return fmt.Sprintf("%s,asn=%d,port=%d,import=accept-all%s", f.addr, f.as, f.port(), more)
}

func (f *feeder) port() int { return f.listener.Addr().(*net.TCPAddr).Port }

func (f *feeder) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.speak(conn)
	}
}

// connect has the feeder connect itself.
func (f *feeder) connect(tb testing.TB, to netip.AddrPort) {
	tb.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.addr, 0))}
	conn, err := d.Dial("tcp", to.String())
	if err != nil {
		tb.Fatal(err)
	}
	f.speak(conn)
}

// speak makes a session of a connection.
func (f *feeder) speak(conn net.Conn) {
	if err := f.open(conn); err != nil {
		_ = conn.Close() // the service tries again
		return
	}
	go func() { // a speaker that does not read would end its session
		_, _ = io.Copy(io.Discard, conn)
	}()
	go func() {
		for err := error(nil); err == nil; _, err = conn.Write(bgpMessage(4, nil)) {
			time.Sleep(20 * time.Second)
		}
	}()
	f.up <- &feed{conn}
}

// open goes through the exchange of OPENs.
func (f *feeder) open(conn net.Conn) error {
	capabilities := []byte{1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4} // IPv4, IPv6, 4-byte AS numbers
	capabilities = binary.BigEndian.AppendUint32(capabilities, f.as)
	if f.linked.Load() {
		capabilities = append(capabilities, 1, 4, 0x40, 0x04, 0, 71)
	}
	if f.restart {
		capabilities = append(capabilities, 64, 10, 0, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80)
	}
	body := []byte{4, byte(f.as >> 8), byte(f.as), 0, 90}
	if f.as > 0xffff {
		body[1], body[2] = 23456>>8, 23456&0xff
	}
	id := f.addr.As4()
	body = append(append(body, id[:]...), byte(len(capabilities)+2), 2, byte(len(capabilities)))
	in := bufio.NewReader(conn)
	for _, step := range []struct {
		kind byte
		send []byte
	}{{1, append(bgpMessage(1, append(body, capabilities...)), bgpMessage(4, nil)...)}, {4, nil}} {
		var header [19]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return err
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint16(header[16:])) - len(header)); err != nil {
			return err
		}
		if header[18] != step.kind {
			return errors.New("another message is due")
		}
		if _, err := conn.Write(step.send); err != nil {
			return err
		}
	}
	return nil
}

// send writes messages.
func (f *feed) send(tb testing.TB, messages []byte) {
	tb.Helper()
	if _, err := f.Write(messages); err != nil {
		tb.Error(err)
	}
}

// lose cuts the session off without a word.
func (f *feed) lose() {
	_ = f.Conn.(*net.TCPConn).SetLinger(0)
	_ = f.Close()
}

func bgpMessage(kind byte, body []byte) []byte {
	b := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, kind)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)+len(body)))
	return append(b, body...)
}

// endsOfRIB end the first announcement of both families.
func endsOfRIB() []byte {
	return append(bgpMessage(2, []byte{0, 0, 0, 0}), bgpMessage(2, []byte{0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1})...)
}

// appendNLRI appends a prefix as UPDATEs have it.
func appendNLRI(b []byte, p netip.Prefix) []byte {
	return append(append(b, byte(p.Bits())), p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
}

func appendAttr(b []byte, flags, kind byte, value []byte) []byte {
	if len(value) > 255 {
		return append(binary.BigEndian.AppendUint16(append(b, flags|0x10, kind), uint16(len(value))), value...)
	}
	return append(append(b, flags, kind, byte(len(value))), value...)
}

// mostNLRI keeps messages below 4,096 bytes, with the attributes of generated tables.
const mostNLRI = 2048

// announcement is UPDATEs that announce prefixes of one family with the same attributes, as many as it takes.
func announcement(prefixes []rib.NLRI, a rib.Attrs) (messages []byte) {
	for len(prefixes) > 0 {
		var nlri, attrs []byte
		n := 0
		for ; n < len(prefixes) && len(nlri) < mostNLRI && prefixes[n].Prefix.Addr().Is4() == prefixes[0].Prefix.Addr().Is4(); n++ {
			nlri = appendNLRI(nlri, prefixes[n].Prefix)
		}
		attrs = appendAttr(attrs, 0x40, 1, []byte{a.Origin})
		attrs = appendAttr(attrs, 0x40, 2, []byte(a.ASPath))
		is4 := prefixes[0].Prefix.Addr().Is4()
		if is4 {
			attrs = appendAttr(attrs, 0x40, 3, a.NextHop.AsSlice())
		}
		if a.HasMED {
			attrs = appendAttr(attrs, 0x80, 4, binary.BigEndian.AppendUint32(nil, a.MED))
		}
		if a.Communities != "" {
			attrs = appendAttr(attrs, 0xc0, 8, []byte(a.Communities))
		}
		if !is4 {
			reach := append([]byte{0, 2, 1, 16}, a.NextHop.AsSlice()...)
			attrs = appendAttr(attrs, 0x80, 14, append(append(reach, 0), nlri...))
			nlri = nil
		}
		body := append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs))), attrs...)
		messages = append(messages, bgpMessage(2, append(body, nlri...))...)
		prefixes = prefixes[n:]
	}
	return messages
}

// withdrawal is an UPDATE that withdraws one prefix.
func withdrawal(p netip.Prefix) []byte {
	nlri := appendNLRI(nil, p)
	if p.Addr().Is4() {
		body := append(binary.BigEndian.AppendUint16(nil, uint16(len(nlri))), nlri...)
		return bgpMessage(2, append(body, 0, 0))
	}
	attrs := appendAttr(nil, 0x80, 15, append([]byte{0, 2, 1}, nlri...))
	return bgpMessage(2, append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs))), attrs...))
}

// tableStream is a whole table with its End-of-RIBs; attrs may change a set of attributes.
func tableStream(t *fixtures.Table, attrs func(rib.Attrs) rib.Attrs) (messages []byte) {
	for u := range t.Updates(1 << 16) {
		messages = append(messages, announcement(u.Reach, attrs(u.Attrs))...)
	}
	return append(messages, endsOfRIB()...)
}
