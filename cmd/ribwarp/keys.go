package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// Ways to choose random addresses.
const (
	// keysInPrefix takes a prefix of the table, each as likely as the others, and fills its
	// host bits at random: every address has a route.
	keysInPrefix = "in-prefix"
	// keysUniform takes any address of the family. Of IPv6 hardly any has a route.
	keysUniform = "uniform"
)

// A keySource makes random addresses for a table.
type keySource struct {
	rng     *rand.Rand
	uniform bool
	routes  lpm.Routes // prefixes to take addresses from
}

func newKeySource(gen *rib.Generation, keys string, seed uint64) (*keySource, error) {
	s := &keySource{rng: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), uniform: keys == keysUniform}
	if keys != keysInPrefix && keys != keysUniform {
		return nil, usagef("--keys %q: use %s or %s", keys, keysInPrefix, keysUniform)
	}
	s.routes = routesOf(gen)
	if s.routes.Len() == 0 {
		return nil, fmt.Errorf("the table is empty: there is nothing to make addresses of")
	}
	return s, nil
}

// routesOf lists the prefixes of a generation with their handles.
func routesOf(gen *rib.Generation) (routes lpm.Routes) {
	for i := range gen.Routes.Len() {
		if p := gen.Routes.At(i).Prefix; p.IsValid() {
			routes.Add(p, lpm.Handle(i))
		}
	}
	return routes
}

// next4 gives an IPv4 address; with keysInPrefix the table must have an IPv4 prefix.
func (s *keySource) next4() uint32 {
	host := s.rng.Uint32()
	if s.uniform {
		return host
	}
	r := s.routes.V4[s.rng.IntN(len(s.routes.V4))]
	return r.Addr | uint32(uint64(host)>>r.Bits)
}

// next6 is next4 for IPv6.
func (s *keySource) next6() lpm.Addr6 {
	host := lpm.Addr6{Hi: s.rng.Uint64(), Lo: s.rng.Uint64()}
	if s.uniform {
		return host
	}
	r := s.routes.V6[s.rng.IntN(len(s.routes.V6))]
	if r.Bits < 64 {
		return lpm.Addr6{Hi: r.Addr.Hi | host.Hi>>r.Bits, Lo: host.Lo}
	}
	return lpm.Addr6{Hi: r.Addr.Hi, Lo: r.Addr.Lo | host.Lo>>(r.Bits-64)}
}

// shuffle puts routes in a random order that the seed decides.
func shuffle(routes lpm.Routes, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(routes.V4), func(i, j int) { routes.V4[i], routes.V4[j] = routes.V4[j], routes.V4[i] })
	rng.Shuffle(len(routes.V6), func(i, j int) { routes.V6[i], routes.V6[j] = routes.V6[j], routes.V6[i] })
}
