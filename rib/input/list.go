package input

import (
	"context"
	"fmt"
	"io"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
	"github.com/ribwarp/ribwarp/rib/prefixlist"
)

// loadList reads a text list into the Adj-RIB-In of peer. A route's origin AS becomes its AS
// path.
func loadList(ctx context.Context, peer *rib.Peer, content io.Reader, log *problems.Log) (prefixlist.Result, error) {
	var u rib.Update
	result, err := prefixlist.Read(content, log, func(entries []prefixlist.Entry) error {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", errStopped, ctx.Err())
		}
		for i, e := range entries {
			if i > 0 && (e.Origin != entries[i-1].Origin || e.NextHop != entries[i-1].NextHop) {
				apply(peer, &u, entries[i-1])
			}
			u.Reach = append(u.Reach, rib.NLRI{Prefix: e.Prefix})
		}
		apply(peer, &u, entries[len(entries)-1])
		return nil
	})
	status := peer.Status()
	log.AddN(KindDuplicate, result.Routes-status.V4-status.V6, func() problems.Problem {
		return problems.Problem{Detail: "some prefixes occur more than once", Done: "the last line counts"}
	})
	return result, err
}

// apply announces the prefixes collected, which all have e's origin and next hop.
func apply(peer *rib.Peer, u *rib.Update, e prefixlist.Entry) {
	u.Attrs = rib.Attrs{NextHop: e.NextHop, Origin: rib.OriginIncomplete}
	if e.Origin != 0 {
		u.Attrs.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{e.Origin}})
	}
	peer.Apply(*u)
	u.Reach = u.Reach[:0]
}
