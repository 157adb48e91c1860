// Package rib keeps the routes that peers announce, chooses the best path to every prefix and
// publishes the result as generations.
package rib

import (
	"context"
	"iter"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// THIS FILE IS THE AGREED API, to be replaced by its implementation.

// ASPath is an AS_PATH as a sequence of segments, each: type byte, count byte, count 4-byte AS
// numbers (big endian), as on a 4-byte-AS session. Empty for none.
type ASPath string

const (
	SegmentSet            = 1
	SegmentSequence       = 2
	SegmentConfedSequence = 3
	SegmentConfedSet      = 4
)

// Segment is a part of an AS path.
type Segment struct {
	Type uint8
	ASNs []uint32
}

func MakeASPath(segs ...Segment) ASPath      { panic("stub") }
func (p ASPath) Segments() iter.Seq[Segment] { panic("stub") }
func (p ASPath) Len() int                    { panic("stub") } // RFC 4271 9.1.2.2: a set counts 1; RFC 5065: confed segments 0
func (p ASPath) First() uint32               { panic("stub") } // neighbouring AS, 0 if empty or a set
func (p ASPath) Origins() []uint32           { panic("stub") } // AS that originated the route: one; all members if the path ends in a set; none for an empty path
func (p ASPath) Contains(as uint32) bool     { panic("stub") }
func (p ASPath) String() string              { panic("stub") } // "64500 64501 {64502,64503}", confederations "(…)" and "[…]"

// Communities packs 4-byte values, LargeCommunities 12-byte, ExtCommunities 8-byte, in received order.
type Communities string
type LargeCommunities string
type ExtCommunities string

func MakeCommunities(v ...uint32) Communities              { panic("stub") }
func (c Communities) Strings() []string                    { panic("stub") } // "65000:100"
func MakeLargeCommunities(v ...[3]uint32) LargeCommunities { panic("stub") }
func (c LargeCommunities) Strings() []string               { panic("stub") } // "64500:1:2"
func MakeExtCommunities(v ...[8]byte) ExtCommunities       { panic("stub") }
func (c ExtCommunities) Strings() []string                 { panic("stub") } // "rt:64500:1", "soo:…", "0x…" otherwise

// IGPCost is the seam for the cost of the way to a next hop (RFC 4271 9.1.2.2 e). ok is false
// where it is unknown. Without one every next hop costs the same. Safe for concurrent use.
type IGPCost interface {
	Cost(nextHop netip.Addr) (cost uint32, ok bool)
}

// Options of a RIB.
type Options struct {
	LocalAS uint32 // own AS: paths that contain it are not chosen (loop); 0 checks nothing
	IGP     IGPCost
	Log     *slog.Logger // nil: slog.Default
}

type RIB struct{}

func New(Options) *RIB                                       { panic("stub") }
func (r *RIB) AddPeer(PeerConfig) (*Peer, error)             { panic("stub") } // error: name taken
func (r *RIB) RemovePeer(*Peer)                              { panic("stub") } // withdraws its routes too
func (r *RIB) Peers() []PeerStatus                           { panic("stub") } // sorted by name
func (r *RIB) Counts() (v4, v6 int)                          { panic("stub") } // prefixes with a best path, not necessarily published yet
func (r *RIB) Pending() []string                             { panic("stub") } // names of Awaited peers whose first load is not complete
func (r *RIB) Paths(p netip.Prefix) (candidates []Candidate) { panic("stub") } // every peer's path to a prefix, best first, each with the step that decided against it

// Candidate is one path to a prefix and what decided against it.
type Candidate struct {
	Route Route
	// LostBy names the step of the decision that took it out, "" for the best path.
	LostBy string
}

// Peer is one source's Adj-RIB-In. Methods are safe for concurrent use, but calls that must be
// in order (one session's messages) are the caller's to order.
type Peer struct{}

func (p *Peer) Name() string                  { panic("stub") }
func (p *Peer) Config() PeerConfig            { panic("stub") }
func (p *Peer) Up(Session)                    { panic("stub") } // session established (BGP) or loading began (files)
func (p *Peer) Apply(Update)                  { panic("stub") } // the caller may reuse the slices afterwards
func (p *Peer) EndOfRIB(v6 bool)              { panic("stub") }
func (p *Peer) Loaded()                       { panic("stub") } // the whole source is in: files, or BGP's End-of-RIB of all families
func (p *Peer) GaveUp(reason string)          { panic("stub") } // stop awaiting its first load: timeout, file broken
func (p *Peer) Down(reason string)            { panic("stub") } // session lost: all its routes are withdrawn
func (p *Peer) Status() PeerStatus            { panic("stub") }
func (p *Peer) Routes() iter.Seq2[NLRI, Path] { panic("stub") } // its Adj-RIB-In, any order

// PublisherOptions tune how changes become generations.
type PublisherOptions struct {
	Source      string        // Generation.Source
	MinInterval time.Duration // shortest time between two generations; default 5 ms
	Log         *slog.Logger
	// ReadyTimeout is how long readiness waits for awaited peers; then it is given anyway and
	// the log says who is missing. 0: wait for ever.
	ReadyTimeout time.Duration
}

// Publisher turns changes of a RIB into generations: coalesced, at most one build in flight.
type Publisher struct{}

func NewPublisher(r *RIB, e lpm.Engine, o PublisherOptions) *Publisher { panic("stub") }
func (p *Publisher) Run(ctx context.Context) error                     { panic("stub") } // until ctx ends
func (p *Publisher) Flush(ctx context.Context) error                   { panic("stub") } // publish all that is in the RIB now, return when it is visible; works with or without Run
func (p *Publisher) Generations() *lpm.Published[Route]                { panic("stub") }
func (p *Publisher) Ready() (ok bool, waitingFor []string)             { panic("stub") } // true once a generation that holds every awaited first load is published; stays true
func (p *Publisher) Stats() PublisherStats                             { panic("stub") }

// PublisherStats are counters for metrics.
type PublisherStats struct {
	Generations uint64        // published so far
	Changes     uint64        // prefixes changed in all of them
	Failures    uint64        // builds that failed; the previous generation stayed
	LastBuild   time.Duration // engine time of the newest generation
	LastChanges int
	LastLatency time.Duration // oldest change in the newest generation, received to visible
	Pending     int           // prefixes changed and not yet visible
}
