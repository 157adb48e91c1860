package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input"
)

// files are the route files of a service, which are loaded one after the other.
type files struct {
	app     *app
	tables  *rib.Tables
	loading sync.Mutex // held by who loads

	mu      sync.Mutex
	all     []*openFile
	waiting []*openFile // of them, those that are to be loaded
	gone    []*openFile // not of them any more: their routes are to be withdrawn
}

// An openFile is a route file that is in a table, or will be.
type openFile struct {
	routeFile
	version  fileVersion
	table    *rib.Table
	source   *input.Source // until it is loaded
	replaces *openFile     // an earlier version of the file, whose routes stay until this one is loaded
	needed   bool          // without it the service does not start
	name     string        // of its peer, or the start of its peers' names; "" before it is loaded
}

// A fileVersion tells whether a file was changed. That of what is no file is zero.
type fileVersion struct {
	changed time.Time
	size    int64
}

func versionOf(path string) fileVersion {
	info, err := os.Stat(path)
	if path == "-" || err != nil || !info.Mode().IsRegular() {
		return fileVersion{}
	}
	return fileVersion{info.ModTime(), info.Size()}
}

// A fileChange is what files are to be, until commit or discard.
type fileChange struct {
	changed
	files                *files
	kept, opened, leaves []*openFile
}

// open opens the files of a plan that are not there, or were changed since. Where the service
// starts it needs them all.
func (f *files) open(p *plan, starts bool) (*fileChange, error) {
	c := &fileChange{files: f}
	f.mu.Lock()
	c.leaves = slices.Clone(f.all)
	f.mu.Unlock()
	for _, want := range p.files {
		version, title := versionOf(want.path), want.String()
		var earlier *openFile
		if i := slices.IndexFunc(c.leaves, func(x *openFile) bool { return x.routeFile == want }); i >= 0 {
			earlier = c.leaves[i]
			c.leaves = slices.Delete(c.leaves, i, i+1)
		}
		switch {
		case earlier == nil:
			c.added = append(c.added, title)
		case earlier.version == version:
			c.kept = append(c.kept, earlier)
			c.changed.kept = append(c.changed.kept, title)
			continue
		default:
			c.restarted = append(c.restarted, title)
		}
		err := want.check()
		if err == nil && want.path == "-" && !starts {
			err = fmt.Errorf("route file of table %q: standard input is read at a start only", want.table)
		}
		if err != nil {
			c.discard()
			return nil, p.inConfig(err)
		}
		table, err := f.tables.Open(want.table)
		if err == nil {
			var source *input.Source
			source, err = input.Open(table.RIB, want.path, input.Options{Strict: p.strict, Awaited: true, Log: f.app.log, Stdin: f.app.stdin})
			if err == nil {
				c.opened = append(c.opened, &openFile{routeFile: want, version: version, table: table, source: source, replaces: earlier, needed: starts})
			}
		}
		if err != nil {
			c.discard()
			return nil, err
		}
	}
	for _, x := range c.leaves {
		c.removed = append(c.removed, x.String())
	}
	return c, nil
}

// adopt gives the peer for saved routes of a file that waits to be loaded, nil for none.
func (f *files) adopt(table string, c rib.PeerConfig) *rib.Peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, renumbered := range []bool{false, true} {
		for _, x := range f.waiting {
			if x.routeFile.table != table {
				continue
			}
			if p := x.source.Adopt(c, renumbered); p != nil {
				return p
			}
		}
	}
	return nil
}

// String names a file for people.
func (f routeFile) String() string {
	if f.table == rib.DefaultTable {
		return f.path
	}
	return fmt.Sprintf("%s in table %s", f.path, f.table)
}

// discard leaves the files as they were.
func (c *fileChange) discard() {
	for _, x := range c.opened {
		_ = x.source.Close()
	}
}

// commit makes the change; load does the work.
func (c *fileChange) commit() {
	f := c.files
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(c.kept, c.opened...)
	f.waiting = append(f.waiting, c.opened...)
	f.gone = append(f.gone, c.leaves...)
}

// load loads the files that wait and withdraws the routes of those that are gone. It ends with the
// first error of a file that the service needs; others are logged, and leave what the file replaces.
func (f *files) load(s *service) error {
	f.loading.Lock()
	defer f.loading.Unlock()
	for s.ctx.Err() == nil {
		x := f.next()
		if x == nil {
			break
		}
		report, err := x.source.Load(s.ctx)
		x.name = report.Name
		switch {
		case err != nil && x.needed:
			return err
		case err != nil:
			f.app.log.Error("route file not loaded as it should be", "file", x.String(), "error", err)
		}
		if old := x.replaces; old != nil {
			x.replaces = nil
			if err != nil && !errors.Is(err, input.ErrProblems) {
				x.withdraw()
				x.name = old.name
			} else {
				old.withdraw()
			}
		}
	}
	f.mu.Lock()
	gone := f.gone
	f.gone = nil
	f.mu.Unlock()
	for _, x := range gone {
		x.withdraw()
	}
	return nil
}

// next takes a file from those that wait.
func (f *files) next() *openFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return nil
	}
	x := f.waiting[0]
	f.waiting = f.waiting[1:]
	return x
}

// withdraw removes the peers of a file that was loaded.
func (x *openFile) withdraw() {
	for _, status := range x.table.RIB.Peers() {
		if status.Kind != rib.KindList && status.Kind != rib.KindMRT || status.Name != x.name && !strings.HasPrefix(status.Name, x.name+" ") {
			continue
		}
		if peer, ok := x.table.Peer(status.Name); ok {
			x.table.RIB.RemovePeer(peer)
		}
	}
}

// close closes the files that were not loaded.
func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.waiting {
		_ = x.source.Close()
	}
	f.waiting = nil
}
