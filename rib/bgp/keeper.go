package bgp

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// A keeper does to a peer's routes what concerns all of them: it tells the RIB of sessions that
// come up and are lost, keeps the routes of a lost one as stale (RFC 4724, 4.2), then as
// long-lived stale (RFC 9494, 4.3), and gives them up when their time is over.
//
//	up ── lost ── restart time ── long-lived stale time of each family ── down
//	 └─────┴───────────┴─────────────────┴── up ── End-of-RIB, or StaleTime
//
// Its lock orders all that; the messages of a session go to the RIB without it.
type keeper struct {
	log  *slog.Logger
	gone func() // called, under the lock, when nothing is kept any more

	mu      sync.Mutex
	rib     *rib.Peer // nil before a dynamic neighbour's first session
	up      bool
	kept    [2]bool // families with routes of a lost session or of a saved generation
	long    bool    // they are long-lived stale
	renewed [2]bool // families that are announced anew after BoRR (RFC 7313)

	marked    [2]time.Time // when a family's routes were marked for that
	longUntil [2]time.Time // when the long-lived stale time of a family is over, zero unless it runs

	stale   *time.Timer    // all that is kept goes, or becomes long-lived
	family  [2]*time.Timer // the long-lived stale time of a family
	renewal [2]*time.Timer // the time for an EoRR
}

// families gives the names of both, for logs.
var families = [2]string{"ipv4", "ipv6"}

func index(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// begin starts the time of routes from a saved generation.
func (k *keeper) begin(limit time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.arm(&k.stale, limit, func() {
		if !k.up && k.restored() {
			k.down(fmt.Sprintf("not established within %v of the start: its saved routes are given up", limit))
		}
	})
}

// restored tells whether the RIB has routes of a saved generation, from before any session. It
// is called under the lock.
func (k *keeper) restored() bool {
	return k.kept == [2]bool{} && k.rib.Status().State == "stale"
}

// established tells the RIB of a new session and decides what it keeps of the last. r is the
// peer, which a dynamic neighbour has not before.
func (k *keeper) established(r *rib.Peer, s rib.Session, o *fsm.Open, limit time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rib = r
	negotiated := [2]bool{s.IPv4, s.IPv6}
	keep := [2]bool{}
	if k.restored() {
		keep = negotiated // it was us who restarted: what the peer kept meanwhile is all of it
	} else {
		forwarding := forwarding(o, k.long)
		for f := range keep {
			keep[f] = k.kept[f] && negotiated[f] && forwarding[f]
		}
	}
	k.stop()
	k.up, k.kept, k.long = true, keep, false
	s.KeepIPv4, s.KeepIPv6 = keep[0], keep[1]
	k.rib.Up(s)
	if keep == [2]bool{} {
		return
	}
	k.log.Info("bgp stale routes are kept until announced again", "ipv4", keep[0], "ipv6", keep[1], "for", limit)
	k.arm(&k.stale, limit, func() {
		for f := range k.kept {
			if k.kept[f] {
				k.kept[f] = false
				k.log.Warn("bgp no end of rib in time: stale routes are withdrawn", "family", families[f], "after", limit)
				k.rib.Sweep(f == 1)
			}
		}
	})
}

// forwarding gives the families whose routes a peer that is back says to have forwarded by all
// the time (RFC 4724, 3; RFC 9494, 3.1).
func forwarding(o *fsm.Open, long bool) (f [2]bool) {
	if r := o.Restart; r != nil {
		f[0], f[1] = r.Listed4 && r.Forwarding4, r.Listed6 && r.Forwarding6
	}
	if l := o.LongLived; l != nil && long {
		f[0], f[1] = f[0] || l.Listed4 && l.Forwarding4, f[1] || l.Listed6 && l.Forwarding6
	}
	return f
}

// endOfRIB tells that the peer has announced all of a family.
func (k *keeper) endOfRIB(v6 bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[index(v6)] = false
	k.longUntil[index(v6)] = time.Time{}
	k.rib.EndOfRIB(v6)
}

// markEvery is how often a peer may have all its routes marked, which goes through the whole table.
const markEvery = time.Second

// refresh tells that the peer begins, or has ended, to announce all of a family once more
// (RFC 7313, 4). It has limit for that. Before the End-of-RIB of a peer that has come back it is passed over, as a begin is
// that comes too soon after another one: then nothing is swept.
func (k *keeper) refresh(v6, begins bool, limit time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := index(v6)
	was := k.renewed[f]
	if k.kept[f] || begins && time.Since(k.marked[f]) < markEvery {
		return
	}
	k.renewed[f] = begins
	switch {
	case begins:
		k.marked[f] = time.Now()
		k.rib.MarkStale(v6)
		k.arm(&k.renewal[f], limit, func() {
			k.renewed[f] = false
			k.log.Warn("bgp no end of the route refresh in time: what was not announced again is withdrawn", "family", families[f], "after", limit)
			k.rib.Sweep(v6)
		})
	case was:
		disarm(&k.renewal[f])
		k.rib.Sweep(v6)
	}
}

// lost tells the RIB that a session is over. Its routes are kept where `keep` allows that and
// the peer's OPEN asked for it.
func (k *keeper) lost(reason string, o *fsm.Open, keep bool, c PeerConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	k.up = false
	k.renewed = [2]bool{}
	if r := o.Restart; r != nil && keep {
		k.kept = [2]bool{r.Listed4, r.Listed6}
	} else {
		k.kept = [2]bool{}
	}
	if k.kept == [2]bool{} {
		k.down(reason)
		return
	}
	k.long = false
	k.rib.Retain(reason)
	for f := range k.kept {
		if !k.kept[f] {
			k.rib.Sweep(f == 1)
		}
	}
	limit := min(o.Restart.Time, c.StaleTime)
	k.log.Warn("bgp routes are kept as stale", "ipv4", k.kept[0], "ipv6", k.kept[1], "for", limit)
	over := func() { k.restartOver(reason, limit, o, c) }
	if limit <= 0 {
		over()
		return
	}
	k.arm(&k.stale, limit, over)
}

// restartOver ends the restart time: families whose routes may live on become long-lived stale,
// the others go. It is called under the lock.
func (k *keeper) restartOver(reason string, limit time.Duration, o *fsm.Open, c PeerConfig) {
	long := [2]time.Duration{}
	if l := o.LongLived; l != nil {
		if l.Listed4 {
			long[0] = min(l.Time4, c.LongLivedStaleTime)
		}
		if l.Listed6 {
			long[1] = min(l.Time6, c.LongLivedStaleTime)
		}
	}
	for f := range k.kept {
		if k.kept[f] && long[f] == 0 {
			k.kept[f] = false
			k.rib.Sweep(f == 1)
		}
	}
	if k.kept == [2]bool{} {
		k.down(fmt.Sprintf("%s; not back within %v", reason, limit))
		return
	}
	// A peer that comes and goes before its End-of-RIB does not have the time begin anew.
	for f := range k.kept {
		if k.kept[f] && k.longUntil[f].IsZero() {
			k.longUntil[f] = time.Now().Add(long[f])
		}
	}
	k.long = true
	k.log.Warn("bgp stale routes are long-lived now", "ipv4", long[0], "ipv6", long[1])
	k.rib.LongLived()
	for f := range k.kept {
		if !k.kept[f] {
			continue
		}
		k.arm(&k.family[f], time.Until(k.longUntil[f]), func() {
			k.kept[f], k.longUntil[f] = false, time.Time{}
			k.rib.Sweep(f == 1)
			if k.kept == [2]bool{} {
				k.down(fmt.Sprintf("%s; not back within its long-lived stale time", reason))
			}
		})
	}
}

// failed tells the RIB why no session comes up, unless that would cost what is kept.
func (k *keeper) failed(reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rib != nil && !k.up && k.rib.Status().State != "stale" {
		k.rib.Down(reason)
	}
}

// end withdraws everything, for good.
func (k *keeper) end(reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	if k.rib != nil {
		k.down(reason)
	}
}

// down withdraws everything. It is called under the lock.
func (k *keeper) down(reason string) {
	k.up, k.kept, k.long, k.longUntil = false, [2]bool{}, false, [2]time.Time{}
	k.rib.Down(reason)
	k.gone()
}

// peer gives the peer in the RIB, nil before a dynamic neighbour's first session.
func (k *keeper) peer() *rib.Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rib
}

// keeps tells whether there is a session, or routes without one.
func (k *keeper) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.up || k.kept != [2]bool{}
}

// arm has f run under the lock after d, unless the timer is disarmed before. It is called under
// the lock.
func (k *keeper) arm(t **time.Timer, d time.Duration, f func()) {
	disarm(t)
	var this *time.Timer
	this = time.AfterFunc(d, func() {
		defer k.survive()
		k.mu.Lock()
		defer k.mu.Unlock()
		if *t == this {
			*t = nil
			f()
		}
	})
	*t = this
}

func disarm(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// stop disarms all timers. It is called under the lock.
func (k *keeper) stop() {
	for _, t := range []**time.Timer{&k.stale, &k.family[0], &k.family[1], &k.renewal[0], &k.renewal[1]} {
		disarm(t)
	}
}

// survive keeps a mistake of ours in the goroutine that it is deferred in.
func (k *keeper) survive() {
	if p := recover(); p != nil {
		logPanic(k.log, p, nil)
	}
}
