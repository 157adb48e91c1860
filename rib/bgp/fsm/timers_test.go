package fsm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// up brings a session up.
func (k *talk) up(caps ...[]byte) {
	k.t.Helper()
	k.say(opening(90, append([][]byte{as4(peerAS), mp4}, caps...)...))
	k.say(keepalive)
	mustBe(k.t, "handler", k.told(), "opened, established")
}

// mustLast checks how long the session was there; it may be longer by the last look.
func (k *talk) mustLast(d time.Duration) {
	k.t.Helper()
	k.over()
	if k.took != d+lastLook {
		k.t.Errorf("the session took %v, want %v", k.took, d+lastLook)
	}
}

func TestHoldTimer(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(*Local)
		talk   func(k *talk)
		lasts  time.Duration
		want   []byte
		reason string
	}{
		{"RFC 4271, 8.2.2: no OPEN", nil, func(*talk) {}, 30 * time.Second, notification(4, 0), "the peer has sent no OPEN"},
		{"RFC 4271, 8.2.2: half an OPEN", func(l *Local) { l.OpenTimeout = 5 * time.Second }, func(k *talk) { k.say(opening(90)[:28]) },
			5 * time.Second, notification(4, 0), "the peer has sent no OPEN"},
		{"RFC 4271, 8.2.2: no KEEPALIVE after the OPEN", nil, func(k *talk) { k.say(opening(9)) }, 9 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 4.2: no KEEPALIVE after an OPEN without hold time", nil, func(k *talk) { k.say(opening(0)) }, 30 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 6.5: silence", nil, func(k *talk) { k.say(opening(30), keepalive) }, 30 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 4.2: our hold time is the shorter", func(l *Local) { l.HoldTime = 10 * time.Second }, func(k *talk) { k.say(opening(30), keepalive) },
			10 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 8.2.2: UPDATE and KEEPALIVE restart it", nil, func(k *talk) {
			k.say(opening(30), keepalive)
			for _, m := range [][]byte{withdraw, keepalive} {
				time.Sleep(29 * time.Second)
				k.say(m)
			}
		}, 88 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 4.2: ROUTE-REFRESH does not restart it", nil, func(k *talk) {
			k.say(opening(30, mp4, refreshes), keepalive)
			for range 4 {
				time.Sleep(7 * time.Second)
				k.say(frame(5, 0, 1, 0, 1))
			}
		}, 30 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
		{"RFC 4271, 4.2: a byte a second is no message", nil, func(k *talk) {
			k.say(opening(30), keepalive)
			for _, b := range frame(2, make([]byte, 100)...) {
				if _, err := k.conn.Write([]byte{b}); err != nil {
					break
				}
				time.Sleep(time.Second)
			}
		}, 30 * time.Second, notification(4, 0), "the hold time is over: the peer has been silent"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l := us()
			if c.change != nil {
				c.change(&l)
			}
			converse(t, l, &recorder{}, func(k *talk) {
				c.talk(k)
				k.mustLast(c.lasts)
				all := k.messages()
				mustHex(t, "at the end", all[len(all)-1], c.want)
				mustBe(t, "reason", k.end.Reason, c.reason)
			})
		})
	}
}

// TestHoldTimerUnderRefreshes: requests in quick succession, of which one is there whenever the
// expired timer looks for more, do not keep a session up.
func TestHoldTimerUnderRefreshes(t *testing.T) {
	converse(t, us(), &recorder{}, func(k *talk) {
		k.say(opening(30, mp4, refreshes), keepalive)
		for range 10_000 {
			time.Sleep(lastLook / 2)
			if _, err := k.conn.Write(frame(5, 0, 1, 0, 1)); err != nil {
				break
			}
		}
		k.over()
		mustBe(t, "reason", k.end.Reason, "the hold time is over: the peer has been silent")
		if k.took < 30*time.Second || k.took > 30*time.Second+lastLook {
			t.Errorf("the session took %v", k.took)
		}
	})
}

// TestSlowHandler has an UPDATE handled for an hour: the session stays up, since the peer is
// not waited for, and KEEPALIVEs go out.
func TestSlowHandler(t *testing.T) {
	h := &recorder{onUpdate: func(body []byte) *Notification {
		if len(body) > 4 {
			time.Sleep(time.Hour)
		}
		return nil
	}}
	converse(t, us(), h, func(k *talk) {
		k.up()
		k.say(withdraw)
		go func() { _, _ = k.conn.Write(eor4) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		mustBe(t, "handler", k.told(), "opened, established, update 0002080a0000, update 00000000")
		k.mustBeAlive(time.Hour)
		// And from here on it counts anew.
		k.mustLast(time.Hour + 90*time.Second)
		mustBe(t, "notification", k.end.Notification.Code, 4)
	})
}

// TestSlowRefreshHandler: what is handled for longer than the hold time is not counted for
// messages that do not restart the timer either.
func TestSlowRefreshHandler(t *testing.T) {
	h := &slowRefresh{}
	synctest.Test(t, func(t *testing.T) {
		near, conn := newPipe()
		ended := make(chan End)
		go func() { ended <- Run(t.Context(), near, us(), h) }()
		go discard(conn)
		_, _ = conn.Write(slices.Concat(opening(90, mp4, refreshes), keepalive))
		time.Sleep(60 * time.Second)
		_, _ = conn.Write(frame(5, 0, 1, 1, 1))
		begun := time.Now()
		end := <-ended
		mustBe(t, "lasted", time.Since(begun), time.Hour+30*time.Second+lastLook)
		mustBe(t, "code", end.Notification.Code, 4)
		_ = conn.Close()
	})
}

type slowRefresh struct{ recorder }

func (*slowRefresh) Refresh(bool, bool) { time.Sleep(time.Hour) }

// mustBeAlive checks that KEEPALIVEs went out as RFC 4271, 4.4 and 10 have it.
func (k *talk) mustBeAlive(until time.Duration) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.at[len(k.at)-1]; last < until-30*time.Second {
		k.t.Errorf("the last KEEPALIVE went out after %v", last)
	}
	steady := k.at[len(k.at)-100:]
	for i := 1; i < len(steady); i++ {
		if d := steady[i] - steady[i-1]; d < 22500*time.Millisecond || d > 30*time.Second {
			k.t.Errorf("%v between two KEEPALIVEs", d)
		}
	}
}

func TestKeepalivesAreNotMoreThanOneASecond(t *testing.T) {
	converse(t, us(), &recorder{}, func(k *talk) {
		k.say(opening(3))
		k.say(keepalive)
		for range 60 {
			time.Sleep(time.Second)
			k.say(keepalive)
		}
		n := len(k.messages()) - 3 // OPEN, the first KEEPALIVE, End-of-RIB
		if n < 59 || n > 60 {
			t.Errorf("%d KEEPALIVEs in a minute (RFC 4271, 4.4)", n)
		}
		_ = k.conn.Close()
	})
}

func TestNoHoldTimeNoTimers(t *testing.T) {
	converse(t, us(), &recorder{}, func(k *talk) {
		k.say(opening(0))
		k.say(keepalive)
		time.Sleep(1000 * time.Hour)
		mustBe(t, "hold time", k.session.HoldTime(), time.Duration(0))
		mustHex(t, "after our OPEN (RFC 4271, 4.4)", k.after(), keepalive, eor4)
		k.say(withdraw)
		mustBe(t, "handler", k.told(), "opened, established, update 0002080a0000")
		_ = k.conn.Close()
	})
}

// TestSendHoldTimer has a peer that sends and never reads (RFC 9687).
func TestSendHoldTimer(t *testing.T) {
	for _, c := range []struct {
		ours, theirs uint16
		want         time.Duration
	}{{90, 90, 8 * time.Minute}, {600, 600, 20 * time.Minute}, {90, 0, 0}} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := us()
				l.HoldTime = time.Duration(c.ours) * time.Second
				near, conn := newPipe()
				ended := make(chan End)
				go func() { ended <- Run(t.Context(), near, l, &recorder{}) }()
				_, _ = conn.Write(slices.Concat(opening(c.theirs, restart4), keepalive))
				readAll(t, conn, len(openOf(l))+len(keepalive)+1) // and a byte of End-of-RIB
				begun := time.Now()
				for range 300 {
					time.Sleep(5 * time.Second)
					if _, err := conn.Write(keepalive); err != nil {
						break
					}
				}
				if c.want == 0 {
					_ = conn.Close()
					mustBe(t, "reason", (<-ended).Reason, "the peer has closed the connection")
					return
				}
				end := <-ended
				took := time.Since(begun)
				if took < c.want || took > c.want+5*time.Second {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				if !errors.Is(end.Err, os.ErrDeadlineExceeded) || end.Notification != nil || !end.Graceful {
					t.Errorf("end %+v", end)
				}
				mustBe(t, "reason", end.Reason, "the send hold time is over: the peer does not read")
			})
		})
	}
}

// TestLastLook has the timer expire while bytes are there, as after a stop of the process.
func TestLastLook(t *testing.T) {
	c := &script{reads: []read{{bytes: opening(90)}, {bytes: keepalive}, {err: os.ErrDeadlineExceeded}, {bytes: withdraw}, {err: os.ErrDeadlineExceeded}, {err: os.ErrDeadlineExceeded}}}
	h := &recorder{}
	end := Run(t.Context(), c, us(), h)
	mustBe(t, "handler", h.told(), "opened, established, update 0002080a0000")
	mustBe(t, "reason", end.Reason, "the hold time is over: the peer has been silent")
}
