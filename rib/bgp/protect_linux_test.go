package bgp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setSendTTL has an IPv4 socket send with a TTL.
func setSendTTL(c syscall.RawConn, ttl int) error {
	return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, ttl) })
}
