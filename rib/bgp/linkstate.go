package bgp

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// A linkState is what a peer announces of an IGP's topology (RFC 9552): the third family of its sessions, where
// that is configured. What a lost session has announced is kept as stale as routes are (RFC 4724), but without a
// long life. A nil linkState does nothing.
type linkState struct {
	log *slog.Logger

	mu    sync.Mutex
	peer  *bgpls.Peer
	kept  bool        // there is something of a lost session
	timer *time.Timer // what is kept goes
}

func newLinkState(db *bgpls.Database, name string, log *slog.Logger) *linkState {
	return &linkState{log: log, peer: db.AddPeer(name)}
}

// established tells of a new session.
func (l *linkState) established(o *fsm.Open, limit time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	disarm(&l.timer)
	if l.kept && o.LinkState && o.Restart != nil && o.Restart.ListedLS {
		l.arm(limit, "bgp no end of rib in time: stale link state is withdrawn")
		return
	}
	l.drop()
}

// lost tells that a session is over. What it announced is kept where `keep` allows that and the peer's OPEN
// asked for it.
func (l *linkState) lost(o *fsm.Open, keep bool, limit time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	disarm(&l.timer)
	if r := o.Restart; keep && r != nil && r.ListedLS && min(r.Time, limit) > 0 {
		l.kept = true
		l.peer.Retain()
		l.arm(min(r.Time, limit), "bgp peer is not back in time: its link state is withdrawn")
		return
	}
	l.drop()
}

// arm has what is kept go after a time. It is called under the lock.
func (l *linkState) arm(after time.Duration, reason string) {
	var this *time.Timer
	this = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer == this {
			l.timer, l.kept = nil, false
			l.log.Warn(reason, "after", after)
			l.peer.Sweep()
		}
	})
	l.timer = this
}

// drop is called under the lock.
func (l *linkState) drop() {
	l.kept = false
	l.peer.Down()
}

// endOfRIB tells that the peer has announced all that it has.
func (l *linkState) endOfRIB() {
	l.mu.Lock()
	defer l.mu.Unlock()
	disarm(&l.timer)
	l.kept = false
	l.peer.Sweep()
}

// disable takes away what the peer has announced: its session is of no use for it any more.
func (l *linkState) disable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	disarm(&l.timer)
	l.drop()
}

// end takes the peer away for good.
func (l *linkState) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	disarm(&l.timer)
	l.kept = false
	l.peer.Remove()
}

// stats counts what the peer has announced.
func (l *linkState) stats() bgpls.Stats {
	if l == nil {
		return bgpls.Stats{}
	}
	return l.peer.Stats()
}

// linkState takes in what an UPDATE says about link state. It gives how many parts of the message are about it. Damage
// in lengths ends the family, as long as the session has others (RFC 9552, 8.2.2).
func (c *conn) linkState(body []byte, verdict wire.Verdict) (parts int, objection *fsm.Notification) {
	if c.noLinkState {
		return 0, nil
	}
	u, err := bgpls.Decode(body, verdict >= wire.TreatAsWithdraw)
	l := c.peer.linkState
	switch {
	case err != nil && c.carries == [2]bool{}:
		c.because("damaged UPDATE: " + err.Error())
		return 0, &fsm.Notification{Code: codeUpdate, Subcode: subcodeOptionalAttribute}
	case err != nil:
		c.noLinkState = true
		l.log.Error("bgp link state is not taken any more in this session, and what there was is withdrawn", "reason", err)
		l.disable()
		return 0, nil
	}
	if u.Discarded > 0 || u.AttributeDiscarded {
		c.badLinkState++
		if n := c.badLinkState; n&(n-1) == 0 {
			l.log.Warn("bgp link state damaged", "reason", u.Reason, "nlris_left_out", u.Discarded, "attributes_left_out", u.AttributeDiscarded, "in_session", n, "update", fmt.Sprintf("%x", body))
		}
	}
	l.peer.Apply(u)
	if u.EndOfRIB {
		l.endOfRIB()
		l.log.Info("bgp end of link state", "objects", l.peer.Stats().Objects)
	}
	return u.Parts, nil
}
