//go:build !linux

package bgp

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
)

// maxMD5 is how long a password may be.
const maxMD5 = 80

// protectionAvailable tells whether this system has TCP-MD5 and TTL security.
func protectionAvailable() error {
	return fmt.Errorf("TCP-MD5 and TTL security are not available on %s: run on Linux, or leave them out", runtime.GOOS)
}

// No configuration with a password or with TTL security gets past protectionAvailable.
func setMD5(syscall.RawConn, netip.Prefix, string) error { return protectionAvailable() }
func setTTL(syscall.RawConn, netip.Addr, int) error      { return protectionAvailable() }
