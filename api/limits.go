package api

import (
	"cmp"
	"time"
)

// Limits bound what one request may cost. A field of zero means its default.
type Limits struct {
	// MaxBody is the largest JSON body in bytes; larger ones get 413. Streams of lines have no
	// such limit, they take constant memory. Default 8 MiB.
	MaxBody int64
	// MaxIPsJSON is how many addresses, or prefixes, a JSON body may hold; more get 413. Default
	// 100,000.
	MaxIPsJSON int
	// MaxLine is the longest line of a stream in bytes, its end not counted. A longer one is
	// answered by an error and the stream goes on. Default 4,096.
	MaxLine int
	// Progress is how long a client may take to send a header, a JSON body or the next line of
	// a stream, and to read each piece of an answer. Default 30 s.
	Progress time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxBody:    cmp.Or(max(l.MaxBody, 0), 8<<20),
		MaxIPsJSON: cmp.Or(max(l.MaxIPsJSON, 0), 100_000),
		MaxLine:    cmp.Or(max(l.MaxLine, 0), 4096),
		Progress:   cmp.Or(max(l.Progress, 0), 30*time.Second),
	}
}
