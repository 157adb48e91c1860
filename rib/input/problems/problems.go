// Package problems collects what is wrong with an input while it is read on: every problem is
// counted by kind, the first few are kept in full.
package problems

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultKeep is how many problems a Log keeps in full unless told otherwise.
const DefaultKeep = 20

// A Kind is a sort of problem in a few stable lower-case words. The packages that read inputs
// list theirs.
type Kind string

// A Problem is one thing wrong with an input and what was done about it.
type Problem struct {
	Kind   Kind   `json:"kind"`
	Where  string `json:"where"`  // "line 12", "record 7 at byte 4711"; empty for the whole input
	Detail string `json:"detail"` // what was found
	Done   string `json:"done"`   // what became of it
}

// String is the problem as one line for people.
func (p Problem) String() string {
	var b strings.Builder
	if p.Where != "" {
		b.WriteString(p.Where + ": ")
	}
	b.WriteString(string(p.Kind))
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	if p.Done != "" {
		b.WriteString("; " + p.Done)
	}
	return b.String()
}

// A Log collects problems. Not safe for concurrent use.
type Log struct {
	first  []Problem
	counts map[Kind]int
	keep   int
}

// NewLog makes a log that keeps the first keep problems in full, DefaultKeep of them for 0.
func NewLog(keep int) *Log {
	if keep == 0 {
		keep = DefaultKeep
	}
	return &Log{counts: make(map[Kind]int), keep: keep}
}

// Add counts one problem. It calls describe only for problems that are kept, so that a million
// bad lines cost little. The problem's Kind is set from kind.
func (l *Log) Add(kind Kind, describe func() Problem) {
	l.AddN(kind, 1, describe)
}

// AddN counts n problems of a kind that are described as one. It does nothing for n below 1.
func (l *Log) AddN(kind Kind, n int, describe func() Problem) {
	if n < 1 {
		return
	}
	l.counts[kind] += n
	if len(l.first) < l.keep {
		p := describe()
		p.Kind = kind
		l.first = append(l.first, p)
	}
}

// First gives the problems kept in full, in the order they were found.
func (l *Log) First() []Problem { return slices.Clone(l.first) }

// Counts gives the number of problems of every kind found.
func (l *Log) Counts() map[Kind]int { return maps.Clone(l.counts) }

// Total is the number of all problems.
func (l *Log) Total() (n int) {
	for _, c := range l.counts {
		n += c
	}
	return n
}

// Excerpt quotes input for a problem's detail: at most 80 bytes of it.
func Excerpt(b []byte) string {
	const most = 80
	if len(b) <= most {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q... (%d bytes)", b[:most], len(b))
}
