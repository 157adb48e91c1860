package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// A place is an address to listen at, with the flag or key that names it.
type place struct {
	flag, section string // one of them
	addr          string // as it was given
	host          string
	port          int
	any           bool // all addresses of this host
}

// checkListeners looks whether the addresses to listen at are addresses, and none is there twice.
// No socket is opened.
func (p *plan) checkListeners() error {
	places := []place{{flag: "listen", addr: p.listen}}
	if p.sessions {
		for _, addr := range p.bgp.Listen {
			places = append(places, place{flag: "bgp-listen", addr: addr})
		}
	}
	for _, addr := range p.bmp.Listen {
		places = append(places, place{section: "bmp.listen", addr: addr})
	}
	for i := range places {
		x := &places[i]
		if err := x.parse(); err != nil {
			return p.wrongPlace(x, err)
		}
		for j := range i {
			if other := &places[j]; x.conflicts(other) {
				return p.wrongPlace(x, fmt.Errorf("%s listens at %s already: give each a port of its own", other.name(), other.addr))
			}
		}
	}
	return nil
}

func (p *plan) wrongPlace(x *place, err error) error {
	err = fmt.Errorf("%q: %w", x.addr, err)
	if x.flag != "" {
		return p.wrong(x.flag, err)
	}
	return p.inSection(x.section, err)
}

// name is what the place is called in messages about another one.
func (x *place) name() string {
	if x.flag != "" {
		return x.flag
	}
	return "[serve." + strings.TrimSuffix(x.section, ".listen") + "] listen"
}

func (x *place) parse() error {
	var malformed *net.AddrError
	host, port, err := net.SplitHostPort(x.addr)
	if errors.As(err, &malformed) {
		return fmt.Errorf("%s: give ADDRESS:PORT, such as 127.0.0.1:8080", malformed.Err)
	}
	if err != nil {
		return err
	}
	if x.port, err = net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Errorf("%q is no port: give one from 1 to 65535", port)
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		x.host, x.any = a.Unmap().String(), a.Unmap().IsUnspecified()
	case host == "":
		x.any = true
	case strings.Trim(host, "0123456789.") == "" || strings.ContainsAny(host, ": /"):
		return fmt.Errorf("%q is no IP address", host)
	default:
		x.host = strings.ToLower(host) // a name, which is looked up when it is listened at
	}
	return nil
}

// conflicts tells whether two places cannot both be listened at. All addresses of a host are those of
// both families.
func (x *place) conflicts(other *place) bool {
	return x.port != 0 && x.port == other.port && (x.any || other.any || x.host == other.host)
}
