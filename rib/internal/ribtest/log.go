package ribtest

import (
	"bytes"
	"strings"
	"sync"
)

// A Log keeps what is written to it. It may be written to and asked by several goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is io.Writer; it never fails.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String is all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Contains tells whether a text was written.
func (l *Log) Contains(text string) bool { return strings.Contains(l.String(), text) }
