package snapshot

import (
	"errors"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// Why a file is refused. The error that wraps one of them names the file and the reason.
var (
	// ErrForeign is a file that was never a saved generation.
	ErrForeign = errors.New("not a saved generation")
	// ErrVersion is one that another version of the program wrote.
	ErrVersion = errors.New("saved by another version")
	// ErrDamaged is one that is not as it was written.
	ErrDamaged = errors.New("damaged")
)

const (
	magic      = "\x89RIBWARP"
	version    = 1
	headerSize = 24

	// maxBlock bounds what a reader takes into memory before it has seen a checksum.
	maxBlock = 16 << 20
	// blockSize is where a writer ends a block: small, for that is its memory.
	blockSize = 256 << 10
	// maxBatch bounds the memory of whoever reads a batch, and how long others wait that restore theirs: about 0.1 ms.
	maxBatch = 1024
)

// Kinds of blocks.
const (
	blockTable  = 1
	blockPeers  = 2
	blockRoutes = 3
	blockEnd    = 4
)

// Flags of a batch.
const (
	flagIPv6 = 1 << iota
	flagPathIDs
	flagStale
	flagMED
	flagLocalPref
	flagOTC
	knownFlags = 1<<iota - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Peer is where saved routes came from.
type Peer struct {
	Name     string
	Kind     rib.PeerKind
	Addr     netip.Addr
	AS       uint32
	RouterID netip.Addr // zero where it was not known
	// StaleSince is when the stale routes among them were last known to be right. Zero where none
	// was stale: all were right when the file was made.
	StaleSince time.Time
}

// nanoseconds gives 0 for the zero time, which has no such number.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// instant is the inverse of nanoseconds.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
