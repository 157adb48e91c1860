package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxMD5 is how long a password may be.
const maxMD5 = unix.TCP_MD5SIG_MAXKEYLEN

// protectionAvailable tells whether this system has TCP-MD5 and TTL security.
func protectionAvailable() error { return nil }

// onSocket calls f with the descriptor of a connection or listener.
func onSocket(c syscall.RawConn, f func(fd int) error) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = f(int(fd)) }); controlErr != nil {
		return controlErr
	}
	return err
}

// setMD5 has a socket sign what goes to a prefix and drop what comes from it without the
// password's signature (RFC 2385). An empty password ends that.
func setMD5(c syscall.RawConn, prefix netip.Prefix, password string) error {
	return onSocket(c, func(fd int) error {
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return err
		}
		key := unix.TCPMD5Sig{Keylen: uint16(len(password))}
		copy(key.Key[:], password)
		// The address as struct sockaddr_in or sockaddr_in6 has it behind the family. An IPv6
		// socket knows IPv4 peers by their mapped addresses, and their prefixes as IPv4's.
		addr := prefix.Addr()
		switch {
		case domain == unix.AF_INET && addr.Is4():
			a := addr.As4()
			copy(key.Addr.Data[2:], a[:])
		case domain == unix.AF_INET6:
			a := addr.As16()
			copy(key.Addr.Data[6:], a[:])
		default:
			return nil // nobody comes from there
		}
		key.Addr.Family = uint16(domain)
		option := unix.TCP_MD5SIG
		if !prefix.IsSingleIP() {
			option, key.Flags, key.Prefixlen = unix.TCP_MD5SIG_EXT, unix.TCP_MD5SIG_FLAG_PREFIX, uint8(prefix.Bits())
		}
		err = unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, option, &key)
		if password == "" && errors.Is(err, unix.ENOENT) {
			return nil // there was none
		}
		if err != nil {
			return fmt.Errorf("TCP-MD5 for %s: %w: the kernel may lack it (CONFIG_TCP_MD5SIG)", prefix, err)
		}
		return nil
	})
}

// setTTL has a socket send with the highest TTL, and with hops take nothing that came over more
// of them (RFC 5082, 3). peer says which family's packets these are.
func setTTL(c syscall.RawConn, peer netip.Addr, hops int) error {
	level, send, least := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if peer.Is6() {
		level, send, least = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
	}
	return onSocket(c, func(fd int) error {
		if err := unix.SetsockoptInt(fd, level, send, 255); err != nil {
			return fmt.Errorf("TTL security: %w", err)
		}
		if hops == 0 {
			return nil
		}
		if err := unix.SetsockoptInt(fd, level, least, 256-hops); err != nil {
			return fmt.Errorf("TTL security: %w", err)
		}
		return nil
	})
}
