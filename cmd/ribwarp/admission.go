package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ribwarp/ribwarp/api"
)

// planAdmission checks what bounds requests, and the drain.
func (o *serveOptions) planAdmission() error {
	d := &o.admission
	for _, x := range []struct {
		flag string
		n    int
	}{
		{"max-bulk", d.MaxBulk},
		{"max-bulk-per-client", d.MaxBulkPerClient},
		{"max-connections", d.MaxConnections},
		{"max-connections-per-address", d.MaxConnectionsPerAddress},
	} {
		if x.n < 0 {
			return o.wrong(x.flag, fmt.Errorf("%d: it is positive, or 0 for the default", x.n))
		}
	}
	for _, x := range []struct {
		flag string
		time time.Duration
	}{{"max-wait", d.MaxWait}, {"drain-delay", o.drainDelay}, {"drain-timeout", o.drainTimeout}} {
		if x.time < 0 {
			return o.wrong(x.flag, fmt.Errorf("%v: it is not negative", x.time))
		}
	}
	d.TrustedProxies = nil
	for _, text := range o.proxies {
		p, err := proxyPrefix(text)
		if err != nil {
			return o.wrong("trusted-proxy", fmt.Errorf("%q: give an address or a prefix, such as 192.0.2.0/24", text))
		}
		d.TrustedProxies = append(d.TrustedProxies, p)
	}
	return nil
}

func proxyPrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	}
	addr, err := api.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}
