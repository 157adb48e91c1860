// Package api is ribwarp's HTTP service: lookups of one address and of streams of any length,
// the routes behind a prefix and all of them, peers, status, figures over time, health and metrics,
// and a page that shows all that (web). docs/api.md shows every endpoint by example.
//
// It is the only package that knows gin. It sees routes (package rib) and the newest generation
// (package lpm), never an engine: whoever starts the service hands both over in Deps.
//
// Every answer comes from one generation, named by the header RIB-Generation and, in JSON, by
// the field "generation".
package api
