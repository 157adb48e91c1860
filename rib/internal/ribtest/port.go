package ribtest

import (
	"net"
	"net/netip"
	"testing"
)

// FreePort gives a TCP port of an address that nobody listens at.
func FreePort(t testing.TB, addr netip.Addr) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}
