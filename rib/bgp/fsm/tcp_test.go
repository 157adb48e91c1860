package fsm

import (
	"context"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestEveryRunEnds has Run end in all ways, at any moment, over TCP and in real time, which the
// conversations in a bubble of synctest do not know: with a reader that waits, a peer that does not
// read, and a handler that is busy. The timers are an hour, so that none of them helps.
func TestEveryRunEnds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const many, atOnce = 400, 50
	patience := time.After(time.Minute)
	free := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	rng := rand.New(rand.NewPCG(seed, 0))
	for range many {
		far, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		e := ending{
			near: near.(*net.TCPConn), far: far.(*net.TCPConn), how: way(rng.IntN(int(numWays))), says: sayings[rng.IntN(len(sayings))],
			reads: rng.IntN(2) == 0, busy: rng.IntN(2) == 0, asks: rng.IntN(2) == 0, after: time.Duration(rng.IntN(10)) * time.Millisecond,
		}
		select {
		case free <- struct{}{}:
		case <-patience:
			fail(t)
		}
		running.Go(func() {
			e.run(t.Context())
			<-free
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	select {
	case <-ended:
	case <-patience:
		fail(t)
	}
}

// fail says where Run waits.
func fail(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	t.Fatalf("Run does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
}

// A way to end a session.
type way int

const (
	byCancel way = iota
	byClose
	byPeer
	byHalfClose
	byReset
	byTimer
	numWays
)

// sayings are what a peer says before the end.
var sayings = func() [][]byte {
	open := opening(3600, as4(peerAS), mp4, refreshes, restartN4)
	updates := slices.Repeat(withdraw, 1000)
	return [][]byte{
		nil, open[:20], open, slices.Concat(open, keepalive), slices.Concat(open, keepalive, updates), slices.Concat(open, keepalive, updates, withdraw[:20]),
		slices.Concat(open, keepalive, slices.Repeat(frame(5, 0, 1, 0, 1), 50_000)), slices.Concat(open, keepalive, notification(6, 2)), slices.Concat(open, open),
	}
}()

// An ending is a session and how it comes to its end.
type ending struct {
	recorder
	near, far         *net.TCPConn
	how               way
	says              []byte
	reads, busy, asks bool          // the peer reads, UPDATEs are handled until the end, refreshes are asked for
	after             time.Duration // before the end
	released          chan struct{}
}

func (e *ending) Established(s *Session) {
	if e.asks {
		for range 2 * queueLength {
			_ = s.RequestRefresh(false) // the last of them find no room
		}
	}
}

func (e *ending) Update([]byte) *Notification {
	if e.busy {
		<-e.released
	}
	return nil
}

// run is the whole life of the session.
func (e *ending) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.released = make(chan struct{})
	local := us()
	local.HoldTime, local.OpenTimeout = time.Hour, time.Hour
	if e.how == byTimer {
		local.OpenTimeout, e.says = 10*time.Millisecond, nil
	}
	var peer sync.WaitGroup
	peer.Go(func() { _, _ = e.far.Write(e.says) })
	if e.reads {
		peer.Go(func() { discard(e.far) })
	}
	time.AfterFunc(e.after, func() {
		switch e.how {
		case byCancel:
			cancel()
		case byClose:
			_ = e.near.Close()
		case byPeer:
			_ = e.far.Close()
		case byHalfClose:
			_ = e.far.CloseWrite()
		case byReset:
			_ = e.far.SetLinger(0)
			_ = e.far.Close()
		}
		close(e.released)
	})
	Run(ctx, e.near, local, e)
	_ = e.far.Close()
	peer.Wait()
}
