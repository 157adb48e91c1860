// Command ribwarp answers which route carries an address, from routes that it learns over BGP or
// reads from files. Every command is a file of this folder with its name.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// endTime is how long a command may take to end once it is interrupted.
const endTime = shutdownTime + 2*time.Second

// run is the program without its process: it gives the exit code. An interrupt or SIGTERM ends
// the command in good order, a second one ends the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return orGiveUp(ctx, endTime, stderr, func() int { return runContext(ctx, args, stdin, stdout, stderr) })
}

// orGiveUp gives the exit code of a command. One that goes on for longer than limit after the end
// of ctx is left behind: opening a FIFO that nobody writes to ends for no context.
func orGiveUp(ctx context.Context, limit time.Duration, stderr io.Writer, command func() int) int {
	ended := make(chan int, 1)
	go func() { ended <- command() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-ended:
		return code
	case <-time.After(limit):
		fmt.Fprintf(stderr, "ribwarp: interrupted, and not ended after %v: it waits for a file\n", limit)
		return exitFailed
	}
}
