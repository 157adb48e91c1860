package input

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
	"github.com/ribwarp/ribwarp/rib/mrt"
)

// Options of Open and Load. The zero value is a sound choice.
type Options struct {
	// Strict makes Load end with ErrProblems if anything was wrong with the file. It is loaded
	// all the same.
	Strict bool
	// Awaited makes readiness wait for the file.
	Awaited bool
	// Keep is how many problems the report holds in full; 0 is problems.DefaultKeep.
	Keep int
	// Progress is called while the file is read, from the goroutine that loads: bytes read of
	// the file as it is stored, and its size, 0 where that is unknown.
	Progress func(bytesRead, size int64)
	// Log gets the problems and a summary; nil: nothing is logged.
	Log *slog.Logger
	// Stdin is read for the path "-"; nil: os.Stdin.
	Stdin io.Reader
}

// A Source is a route file opened for loading into a RIB.
type Source struct {
	rib     *rib.RIB
	options Options
	path    string
	name    string
	size    int64
	file    io.Reader
	close   func() error
	// peer stands for the file from the start, before it is known what the file is: it holds the
	// name, and readiness waits for it. It is a list's peer; an MRT file, which has peers of its
	// own, drops it in the end.
	peer *rib.Peer
	// restored are peers that were made for routes of a saved generation, without those that the file has, by name.
	restored map[string]*rib.Peer
}

// Load opens a file, "-" for standard input, and reads it into r: see Source.Load.
func Load(ctx context.Context, r *rib.RIB, path string, o Options) (Report, error) {
	s, err := Open(r, path, o)
	if err != nil {
		return Report{Path: path}, err
	}
	return s.Load(ctx)
}

// Open opens a file, "-" for standard input, to be loaded into r. From then on r has a peer
// named after the file, and readiness waits for an awaited file. The caller must Load or Close
// the source, once.
func Open(r *rib.RIB, path string, o Options) (*Source, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Source{rib: r, options: o, path: path, close: func() error { return nil }}
	if path == "-" {
		s.name, s.file = "stdin", o.Stdin
		if s.file == nil {
			s.file = os.Stdin
		}
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open route file: %w", err)
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory, not a file", path)
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("open route file: %w", err)
		}
		if info.Mode().IsRegular() {
			s.size = info.Size()
		}
		s.name, s.file, s.close = filepath.Base(path), f, f.Close
	}
	s.name = freeName(r, s.name)
	var err error
	if s.peer, err = r.AddPeer(rib.PeerConfig{Name: s.name, Kind: rib.KindList, Awaited: o.Awaited}); err != nil {
		_ = s.close()
		return nil, fmt.Errorf("open route file %s: %w", path, err)
	}
	return s, nil
}

// Adopt gives the peer for routes of a saved generation (rib.Peer.Restore) that a file of this name
// had as c: that of a list, or one of an MRT file, which is made. They are stale until the file is
// loaded. With renumbered the number that Open may put behind a name does not count: a file may
// get another one from one version, and from one start, to the next. It is nil where c is none of
// this file's. To be called before Load.
func (s *Source) Adopt(c rib.PeerConfig, renumbered bool) *rib.Peer {
	of := c.Name
	switch c.Kind {
	case rib.KindList:
	case rib.KindMRT: // FILE ADDR ASn, with a number where there are several
		at := strings.LastIndex(of, fmt.Sprintf(" %s AS%d", c.Addr, c.AS))
		if at < 0 {
			return nil
		}
		of = of[:at]
	default:
		return nil
	}
	if of != s.name && (!renumbered || withoutNumber(of) != withoutNumber(s.name)) {
		return nil
	}
	if c.Kind == rib.KindList {
		return s.peer
	}
	c.Name = s.name + c.Name[len(of):]
	if p := s.restored[c.Name]; p != nil { // it was saved in parts
		return p
	}
	p, err := s.rib.AddPeer(c)
	if err != nil {
		return nil
	}
	if s.restored == nil {
		s.restored = map[string]*rib.Peer{}
	}
	s.restored[c.Name] = p
	return p
}

// Close gives up a source that is not to be loaded, and removes its peers.
func (s *Source) Close() error {
	s.rib.RemovePeer(s.peer)
	s.dropRestored()
	return s.close()
}

// dropRestored removes peers of a saved generation.
func (s *Source) dropRestored() {
	for _, p := range s.restored {
		s.rib.RemovePeer(p)
	}
}

// Load reads the source to its end and closes it. A list becomes one peer named after the file,
// an MRT file one for every peer in it. What was wrong with the file is in the report. An error
// says that the file is of no known type (ErrUnknownType), broke before anything could be used
// (ErrNothingRead), ctx ended, or, in a strict load, that there was anything wrong
// (ErrProblems); what could be read is loaded even then.
func (s *Source) Load(ctx context.Context) (Report, error) {
	defer func() { _ = s.close() }()
	report := Report{Path: s.path, Name: s.name}
	log := problems.NewLog(s.options.Keep)
	err := s.read(ctx, &report, log)
	stopped := errors.Is(err, errStopped) || errors.Is(err, ErrUnknownType)
	if err != nil && !stopped {
		report.Broken = fmt.Errorf("%s: %w", s.path, err)
		log.Add(KindBroken, func() problems.Problem {
			return problems.Problem{Detail: err.Error(), Done: fmt.Sprintf("the %d routes before that are kept", report.Routes)}
		})
	}
	if !stopped && report.Routes == 0 && report.Withdrawn == 0 {
		log.Add(KindEmpty, func() problems.Problem {
			return problems.Problem{Detail: "no route was found in the whole file"}
		})
	}
	report.Problems, report.ProblemCounts = log.First(), log.Counts()
	report.log(s.options.Log)
	switch {
	case stopped:
		s.peer.GaveUp(err.Error())
		return report, fmt.Errorf("%s: %w", s.path, err)
	case report.Broken != nil && report.Routes == 0 && report.Withdrawn == 0:
		s.peer.GaveUp(err.Error())
		return report, fmt.Errorf("%s: %w: %w", s.path, ErrNothingRead, err)
	case report.Format == MRT:
		s.rib.RemovePeer(s.peer)
		s.dropRestored()
	default:
		s.peer.Loaded()
		s.dropRestored() // it is a list now
	}
	if s.options.Strict {
		return report, report.strict()
	}
	return report, nil
}

// errStopped: the load ended for a reason that lies outside the file.
var errStopped = errors.New("load stopped")

// read reads the content, whatever it is, and fills the report. An error is where reading ended.
func (s *Source) read(ctx context.Context, report *Report, log *problems.Log) error {
	file := bufio.NewReaderSize(&counter{r: s.file, size: s.size, progress: s.options.Progress}, 256<<10)
	content, compression, done, err := uncompress(file)
	defer done()
	report.Compression = compression
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(content, 64<<10)
	if report.Format, err = detectFormat(in); err != nil {
		return err
	}
	switch report.Format {
	case MRT:
		result, err := mrt.Load(ctx, s.rib, in, mrt.Options{Name: s.name, Awaited: s.options.Awaited, Log: log, Restored: s.restored})
		report.Records, report.Routes, report.Withdrawn, report.Peers = result.Records, result.Announced, result.Withdrawn, len(result.Peers)
		for _, p := range result.Peers {
			if s.restored[p.Name()] == p {
				delete(s.restored, p.Name())
			}
		}
		var broken *mrt.BrokenError
		if err != nil && !errors.As(err, &broken) {
			return fmt.Errorf("%w: %w", errStopped, err)
		}
		return err
	case List:
		s.peer.Up(rib.Session{})
		result, err := loadList(ctx, s.peer, in, log)
		report.Records, report.Routes, report.Peers = result.Lines, result.Routes, 1
		return err
	}
	return nil
}

// freeName gives base, or base#2 and so on where peers with that name, or names that start with
// it, exist: two files may have the same name in different folders.
func freeName(r *rib.RIB, base string) string {
	taken := func(name string) bool {
		for _, p := range r.Peers() {
			if p.Name == name || strings.HasPrefix(p.Name, name+" ") {
				return true
			}
		}
		return false
	}
	name := base
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s#%d", base, n)
	}
	return name
}

// withoutNumber takes off what freeName has put behind a name.
func withoutNumber(name string) string {
	if i := strings.LastIndexByte(name, '#'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		return name[:i]
	}
	return name
}

// A counter reports how far a file is read.
type counter struct {
	r        io.Reader
	read     int64
	size     int64
	progress func(bytesRead, size int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	if c.progress != nil && n > 0 {
		c.progress(c.read, c.size)
	}
	return n, err
}
