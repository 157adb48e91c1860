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
// A long-lived stale time, once it has begun, runs on until the family's End-of-RIB, however often
// the peer comes and goes before that (RFC 9494, 4.2).
//
// Its lock orders all that; the messages of a session go to the RIB without it.
type keeper struct {
	log  *slog.Logger
	gone func() // called, under the lock, when nothing is kept any more

	mu      sync.Mutex
	rib     *rib.Peer // nil before a dynamic neighbour's first session
	up      bool
	reason  string  // why the last session was lost
	kept    [2]bool // families with routes of a lost session or of a saved generation
	renewed [2]bool // families that are announced anew after BoRR (RFC 7313)

	keptSince [2]time.Time // when the oldest of a family's kept routes became so
	longUntil [2]time.Time // when the long-lived stale time of a family is over, or was; zero where none has begun

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
		k.keptSince = [2]time.Time{time.Now(), time.Now()}
	} else {
		for f, forwarding := range k.forwarding(o) {
			keep[f] = k.kept[f] && negotiated[f] && forwarding
		}
	}
	k.stop()
	k.up, k.kept = true, keep
	for f := range keep {
		if !keep[f] {
			k.settled(f)
		}
	}
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
// the time (RFC 4724, 3). Once the long-lived stale time has begun it is the flag of its
// own capability that counts (RFC 9494, 4.2). It is called under the lock.
func (k *keeper) forwarding(o *fsm.Open) (f [2]bool) {
	if r := o.Restart; r != nil {
		f = [2]bool{r.Listed4 && r.Forwarding4, r.Listed6 && r.Forwarding6}
	}
	long := [2]bool{}
	if l := o.LongLived; l != nil {
		long = [2]bool{l.Listed4 && l.Forwarding4, l.Listed6 && l.Forwarding6}
	}
	for i := range f {
		if !k.longUntil[i].IsZero() {
			f[i] = long[i]
		}
	}
	return f
}

// settled ends what is remembered of a family's kept routes: there are none, or all that the peer
// has is there. It is called under the lock.
func (k *keeper) settled(f int) {
	k.kept[f], k.keptSince[f], k.longUntil[f] = false, time.Time{}, time.Time{}
	disarm(&k.family[f])
}

// endOfRIB tells that the peer has announced all of a family.
func (k *keeper) endOfRIB(v6 bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settled(index(v6))
	k.rib.EndOfRIB(v6)
}

// refresh tells that the peer begins, or has ended, to announce all of a family once more
// (RFC 7313, 4). It has limit for that. An end without a begin is passed over, and so are both
// before the End-of-RIB of a peer whose routes were kept: then nothing is swept.
func (k *keeper) refresh(v6, begins bool, limit time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := index(v6)
	was := k.renewed[f]
	if k.kept[f] {
		return
	}
	k.renewed[f] = begins
	switch {
	case begins:
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
	k.up, k.reason = false, reason
	k.renewed = [2]bool{}
	graceful, long := [2]bool{}, [2]time.Duration{}
	if r := o.Restart; r != nil && keep {
		graceful, long = [2]bool{r.Listed4, r.Listed6}, longLivedTimes(o, c)
	}
	again := k.again(o, c)
	for f := range k.kept {
		// With the long-lived stale time over, and the family not announced anew, nothing stays
		// (RFC 9494, 4.2).
		if k.kept[f] = (graceful[f] || long[f] > 0) && !k.longOver(f); !k.kept[f] {
			k.settled(f)
		} else if k.keptSince[f].IsZero() || !again[f] && k.longUntil[f].IsZero() {
			k.keptSince[f] = time.Now()
		}
	}
	if k.kept == [2]bool{} {
		k.down(reason)
		return
	}
	k.rib.RetainAgain(reason, again[0], again[1])
	for f := range k.kept {
		if !k.kept[f] {
			k.rib.Sweep(f == 1)
		}
	}
	limit := min(o.Restart.Time, c.StaleTime)
	k.log.Warn("bgp routes are kept as stale", "ipv4", k.kept[0], "ipv6", k.kept[1], "for", limit)
	over := func() {
		for f := range k.kept {
			if k.kept[f] {
				k.restartOver(f, limit, long[f])
			}
		}
	}
	if limit <= 0 {
		over()
		return
	}
	for f := range k.kept {
		if k.kept[f] && !graceful[f] { // its restart time is 0 (RFC 9494, 4.2)
			k.restartOver(f, 0, long[f])
		}
	}
	k.arm(&k.stale, limit, over)
}

// again tells of which families routes that are stale already, from before the session that is
// lost now, stay once more: where both sides have the N bit (RFC 8538, 4.1), or a long-lived
// stale time (RFC 9494, 4.2), for StaleTime in all or while the latter runs, and where they and
// the newer ones are no more than the peer may announce. It is called under the lock.
func (k *keeper) again(o *fsm.Open, c PeerConfig) (again [2]bool) {
	if o.Restart == nil {
		return again
	}
	long, status := longLivedTimes(o, c), k.rib.Status()
	for f := range again {
		limit, routes := [2]int{c.MaxPrefixes4, c.MaxPrefixes6}[f], [2]int{status.V4, status.V6}[f]
		again[f] = k.kept[f] && (limit < 0 || routes <= limit) &&
			(!k.longUntil[f].IsZero() || (o.Restart.Notification || long[f] > 0) && time.Since(k.keptSince[f]) < c.StaleTime)
	}
	return again
}

// longOver tells whether a family's long-lived stale time is over. It is called under the lock.
func (k *keeper) longOver(f int) bool {
	return !k.longUntil[f].IsZero() && !time.Now().Before(k.longUntil[f])
}

// longLivedTimes gives the long-lived stale times of both families, 0 for none.
func longLivedTimes(o *fsm.Open, c PeerConfig) (t [2]time.Duration) {
	if l := o.LongLived; l != nil {
		if l.Listed4 {
			t[0] = min(l.Time4, c.LongLivedStaleTime)
		}
		if l.Listed6 {
			t[1] = min(l.Time6, c.LongLivedStaleTime)
		}
	}
	return t
}

// restartOver ends the restart time of a family: routes that may live on become long-lived stale,
// others go. It is called under the lock, and changes nothing the second time.
func (k *keeper) restartOver(f int, limit, long time.Duration) {
	if long == 0 && k.longUntil[f].IsZero() {
		k.settled(f)
		k.rib.Sweep(f == 1)
		if k.kept == [2]bool{} {
			k.down(fmt.Sprintf("%s; not back within %v", k.reason, limit))
		}
		return
	}
	k.rib.LongLived(f == 1)
	if !k.longUntil[f].IsZero() {
		return // a peer that comes and goes before its End-of-RIB does not have the time begin anew
	}
	k.log.Warn("bgp stale routes are long-lived now", "family", families[f], "for", long)
	k.longUntil[f] = time.Now().Add(long)
	k.arm(&k.family[f], long, func() {
		k.kept[f] = false // and longUntil tells, until the End-of-RIB, that it was so
		k.log.Warn("bgp long-lived stale time is over: stale routes are withdrawn", "family", families[f])
		k.rib.Sweep(f == 1)
		if !k.up && k.kept == [2]bool{} {
			k.down(k.reason + "; not back within its long-lived stale time")
		}
	})
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
	k.up = false
	for f := range k.kept {
		k.settled(f)
	}
	k.rib.Down(reason)
	k.gone()
}

// peer gives the peer in the RIB, nil before a dynamic neighbour's first session.
func (k *keeper) peer() *rib.Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rib
}

// keeps tells whether there is a session, or routes without one: of a lost one, or of a saved generation.
func (k *keeper) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.up || k.kept != [2]bool{} || k.rib != nil && k.restored()
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

// stop disarms the timers of a session and of the wait for the next. It is called under the lock.
func (k *keeper) stop() {
	for _, t := range []**time.Timer{&k.stale, &k.renewal[0], &k.renewal[1]} {
		disarm(t)
	}
}

// survive keeps a mistake of ours in the goroutine that it is deferred in.
func (k *keeper) survive() {
	if p := recover(); p != nil {
		logPanic(k.log, p, nil)
	}
}
