package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// notifySystemd tells a service manager how the service is, where one wants to know (sd_notify).
// Nothing depends on it.
func notifySystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write([]byte(state))
}

// reloadingState tells of a reload that begins; Type=notify-reload wants its time.
func reloadingState() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
