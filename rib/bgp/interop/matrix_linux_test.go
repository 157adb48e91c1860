package interop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
)

// document is what the matrix is kept in.
var document = filepath.Join("..", "..", "..", "docs", "interop.md")

// TestMatrix runs every case with every speaker that is not known to lack it.
func TestMatrix(t *testing.T) {
	if errors.Is(noNamespace, syscall.EPERM) { // nothing to install helps
		t.Skipf("%v", noNamespace)
	}
	if noNamespace != nil {
		fixtures.Missing(t, "%v", noNamespace)
	}
	m := &matrix{versions: make(map[string]string), passed: make(map[string]bool)}
	t.Run("cells", func(t *testing.T) { // returns when all of them have
		for column, with := range implementations {
			t.Run(with.name, func(t *testing.T) {
				t.Parallel()
				m.note(func() { m.versions[with.name] = "" })
				version := with.installed(t)
				m.note(func() { m.versions[with.name] = version })
				for line, k := range cases {
					if with.lacks[k.name] != "" {
						continue
					}
					t.Run(k.name, func(t *testing.T) {
						t.Parallel()
						k.run(&cell{T: t, number: column*len(cases) + line, with: with})
						if !t.Failed() {
							m.note(func() { m.passed[with.name+" "+k.name] = true })
						}
					})
				}
				for name := range with.lacks {
					if !isCase(name) {
						t.Errorf("%s lacks %q, which is no case", with.name, name)
					}
				}
			})
		}
	})
	if t.Failed() {
		t.Logf("%s is not compared with a run that failed", document)
		return
	}
	for _, with := range implementations {
		if m.versions[with.name] == "" || !m.complete(with) {
			t.Skipf("%s is not compared: not all cells were run with %s", document, with.name)
		}
	}
	if *update {
		if err := os.WriteFile(document, []byte(m.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	there, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if want := m.String(); string(there) != want {
		t.Errorf("%s is not what this run has shown; go test ./rib/bgp/interop -update writes it anew. It has to be:\n%s", document, want)
	}
}

func isCase(name string) bool {
	for _, k := range cases {
		if k.name == name {
			return true
		}
	}
	return false
}

// A matrix is what a run has shown.
type matrix struct {
	mu       sync.Mutex
	versions map[string]string // by implementation
	passed   map[string]bool   // by implementation and case
}

func (m *matrix) note(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// complete tells whether all cells of a speaker were run.
func (m *matrix) complete(with *implementation) bool {
	for _, k := range cases {
		if with.lacks[k.name] == "" && !m.passed[with.name+" "+k.name] {
			return false
		}
	}
	return true
}

const head = `# Interoperability

Sessions with other implementations of BGP, over loopback: what was tried and has passed. Written by
the tests of rib/bgp/interop (go test ./rib/bgp/interop -update), which fail where a run shows
something else. "yes" is a test that passed; a number is the reason, below, why there is none. What
each line does is in rib/bgp/interop/cases_linux_test.go. The versions are Debian's.

`

// String is the document.
func (m *matrix) String() string {
	var s, reasons strings.Builder
	s.WriteString(head)
	s.WriteString("| |")
	for _, with := range implementations {
		fmt.Fprintf(&s, " %s %s |", with.name, m.versions[with.name])
	}
	s.WriteString("\n|---|" + strings.Repeat("---|", len(implementations)) + "\n")
	numbers := make(map[string]int) // of reasons
	for _, k := range cases {
		fmt.Fprintf(&s, "| %s |", k.name)
		for _, with := range implementations {
			if with.lacks[k.name] == "" {
				s.WriteString(" yes |")
				continue
			}
			reason := with.name + " " + with.lacks[k.name]
			if numbers[reason] == 0 {
				numbers[reason] = len(numbers) + 1
				fmt.Fprintf(&reasons, "%d. %s.\n", numbers[reason], reason)
			}
			fmt.Fprintf(&s, " %d |", numbers[reason])
		}
		s.WriteString("\n")
	}
	return s.String() + "\n" + reasons.String()
}
