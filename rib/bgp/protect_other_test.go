//go:build !linux

package bgp

import "syscall"

// setSendTTL is for tests that are on Linux only.
func setSendTTL(syscall.RawConn, int) error { return protectionAvailable() }
