package input

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/ribwarp/ribwarp/rib/input/problems"
)

// Errors that callers branch on.
var (
	// ErrUnknownType: the file is neither MRT nor a list of prefixes.
	ErrUnknownType = errors.New("unknown file type")
	// ErrProblems is what a strict load ends with if there was anything wrong with the file.
	ErrProblems = errors.New("input has problems")
	// ErrNothingRead: the file broke before anything of it could be used.
	ErrNothingRead = errors.New("nothing could be read")
)

// Kinds of problems that Load reports, besides those of packages mrt and prefixlist.
const (
	KindEmpty     problems.Kind = "no routes"        // the whole file holds none
	KindDuplicate problems.Kind = "duplicate prefix" // of a list; the last one counts
	KindBroken    problems.Kind = "file breaks off"  // what was read before is kept
)

// A Report says what a load read and what was wrong.
type Report struct {
	Path        string
	Name        string // of the peer, or the start of the peers' names
	Compression Compression
	Format      Format
	Records     int // lines of a list, records of an MRT file
	Routes      int // routes announced, whether or not they are still there at the end
	Withdrawn   int // routes withdrawn by recorded messages
	Peers       int
	// Problems are the first problems in full; ProblemCounts counts all of them by kind.
	Problems      []problems.Problem
	ProblemCounts map[problems.Kind]int
	// Broken is why the file could not be read to its end, nil where it could. What was read
	// before is loaded.
	Broken error
}

// ProblemTotal is the number of all problems, a break among them.
func (r Report) ProblemTotal() (n int) {
	for _, c := range r.ProblemCounts {
		n += c
	}
	return n
}

// strict is the error of a strict load, nil where nothing was wrong.
func (r Report) strict() error {
	if r.ProblemTotal() == 0 {
		return nil
	}
	err := fmt.Errorf("%s: %w: %d in all", r.Path, ErrProblems, r.ProblemTotal())
	if len(r.Problems) > 0 {
		err = fmt.Errorf("%w, the first: %s", err, r.Problems[0])
	}
	return err
}

// log writes the report for operators.
func (r Report) log(log *slog.Logger) {
	for _, p := range r.Problems {
		log.Warn("problem in route file", "path", r.Path, "where", p.Where, "kind", p.Kind, "detail", p.Detail, "done", p.Done)
	}
	if r.ProblemTotal() > len(r.Problems) {
		for kind, n := range r.ProblemCounts {
			log.Warn("problems in route file", "path", r.Path, "kind", kind, "count", n)
		}
	}
	if r.Format == "" {
		return // of no known type: nothing was loaded, and the error says so
	}
	log.Info("route file loaded", "path", r.Path, "compression", r.Compression, "format", r.Format,
		"records", r.Records, "routes", r.Routes, "withdrawn", r.Withdrawn, "peers", r.Peers,
		"problems", r.ProblemTotal(), "complete", r.Broken == nil)
}
