// Command ribwarp answers which route carries an address, from routes that it learns over BGP or
// reads from files. Every command is a file of this folder with its name.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endTime is how long a command may take to end once it is interrupted. One that ends in several
// steps may take more (grace).
const endTime = 7 * time.Second

// grace is what a command may take beyond endTime.
type grace struct{ atomic.Int64 }

type graceKey struct{}

// needsGrace has a command of this context take so much longer to end.
func needsGrace(ctx context.Context, d time.Duration) {
	if g, ok := ctx.Value(graceKey{}).(*grace); ok {
		g.Store(int64(d))
	}
}

// run is the program without its process: it gives the exit code. An interrupt or SIGTERM ends
// the command in good order, a second one ends the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals) // first: whoever sees the end begin may send the second one
			cancel()
		case <-ctx.Done():
		}
	}()
	more := new(grace)
	limit := func() time.Duration { return endTime + time.Duration(more.Load()) }
	return orGiveUp(ctx, limit, stderr, func() int {
		return runContext(context.WithValue(ctx, graceKey{}, more), args, stdin, stdout, stderr)
	})
}

// orGiveUp gives the exit code of a command. One that goes on for longer than limit, asked when ctx
// ends, is left behind: opening a FIFO that nobody writes to ends for no context.
func orGiveUp(ctx context.Context, limit func() time.Duration, stderr io.Writer, command func() int) int {
	ended := make(chan int, 1)
	go func() { ended <- command() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	wait := limit()
	select {
	case code := <-ended:
		return code
	case <-time.After(wait):
		fmt.Fprintf(stderr, "ribwarp: interrupted, and not ended after %v: it waits for a file\n", wait)
		return exitFailed
	}
}
