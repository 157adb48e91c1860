package api

import (
	"sync"
	"time"
)

// Past says which earlier generations are held though nobody has asked for them, for "what changed"
// and for answers about what was: at every Interval the one that is the newest then. With Most of 2
// and a minute these are the table as it was up to a minute ago, and as it was a minute before.
//
// They share what did not change, in blocks of 256 routes: one costs what came or went since, and where
// all did, a table. The oldest one gives way to the next; where none comes it goes an hour after it was
// replaced, or after Most times Interval where that is longer.
type Past struct {
	Most     int           // of each table; 0: none
	Interval time.Duration // 0: a minute
}

const defaultPastInterval = time.Minute

func (p Past) interval() time.Duration {
	if p.Interval <= 0 {
		return defaultPastInterval
	}
	return p.Interval
}

// time is how long a generation is held from when it was last taken.
func (p Past) time() time.Duration { return max(pastTime, time.Duration(p.Most)*p.interval()) }

// past takes generations into the past.
type past struct {
	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

func (p *past) start(a *API) {
	if a.deps.Past.Most <= 0 {
		return
	}
	interval := a.deps.Past.interval()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(interval, func() {
		for _, v := range a.views() {
			v.remember()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.timer.Reset(interval)
		}
	})
}

func (p *past) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// remember takes the newest generation of a table into its past.
func (v *view) remember() {
	if g := v.generations.Acquire(); g != nil {
		v.past.hold(g)
		g.Release()
	}
}
