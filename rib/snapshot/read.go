package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// Saved is what a file holds, checked to the last byte. It has the file's size in memory.
type Saved struct {
	Created time.Time // when it was saved
	Tables  []Table
}

// A Table is one saved generation.
type Table struct {
	Name       string
	Generation uint64 // its number
	V4, V6     int    // routes
	Peers      []Peer // those that have any

	routes     []string // blocks of batches
	got4, got6 int      // routes in them
}

// Load reads a file and checks all of it. An error that wraps ErrForeign, ErrVersion or ErrDamaged
// says what is wrong with it; os.ErrNotExist says that there is none. A full table of 1.3 M routes
// takes about 50 ms.
func Load(path string) (*Saved, error) {
	s, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("saved generation %s: %w", path, err)
	}
	return s, nil
}

func load(path string) (*Saved, error) {
	info, err := os.Stat(path) // before it is opened, which waits where it is a pipe
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: no regular file", ErrForeign)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return read(f, info.Size())
}

// A reader takes a file apart block by block.
type reader struct {
	from   *bufio.Reader
	left   int64 // bytes of the file not read
	sum    uint32
	buffer []byte
}

// read reads a file of so many bytes.
func read(from io.Reader, size int64) (*Saved, error) {
	r := &reader{from: bufio.NewReaderSize(from, 64<<10), left: size}
	s, err := r.header()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		at := size - r.left
		kind, content, err := r.block()
		switch {
		case err != nil:
		case kind == blockEnd:
			if err = s.checkEnd(content); err != nil {
				break
			}
			if r.left > 0 {
				return nil, damaged("%d bytes behind the end", r.left)
			}
			return s, nil
		default:
			err = s.add(kind, content)
		}
		if err != nil {
			return nil, fmt.Errorf("block %d at byte %d: %w", n, at, err)
		}
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// next reads n bytes, which are valid until the call after. n is checked by the caller, but for
// what is left of the file.
func (r *reader) next(n int) ([]byte, error) {
	if int64(n) > r.left {
		return nil, damaged("cut short: %d bytes are missing", int64(n)-r.left)
	}
	if cap(r.buffer) < n {
		r.buffer = make([]byte, n, n+n/4)
	}
	b := r.buffer[:n]
	if _, err := io.ReadFull(r.from, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, damaged("cut short while it was read")
		}
		return nil, err
	}
	r.left -= int64(n)
	return b, nil
}

// checksum checks that behind b, which must not be used after that.
func (r *reader) checksum(b []byte) error {
	r.sum = crc32.Update(r.sum, castagnoli, b)
	b, err := r.next(4)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b) != r.sum {
		return damaged("checksum is wrong")
	}
	return nil
}

func (r *reader) header() (*Saved, error) {
	if r.left == 0 {
		return nil, damaged("empty")
	}
	b, err := r.next(int(min(r.left, int64(headerSize-4))))
	switch {
	case err != nil:
		return nil, err
	case string(b[:min(len(b), len(magic))]) != magic[:min(len(b), len(magic))]:
		return nil, fmt.Errorf("%w: it starts with %q", ErrForeign, b[:min(len(b), len(magic))])
	case len(b) < headerSize-4:
		return nil, damaged("cut short in its header")
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != version {
		return nil, fmt.Errorf("%w: format %d, this one reads %d", ErrVersion, v, version)
	}
	s := &Saved{Created: instant(int64(binary.LittleEndian.Uint64(b[len(magic)+4:])))}
	return s, r.checksum(b)
}

// block gives the next block's content as a string, which attributes and names are parts of.
func (r *reader) block() (kind byte, content string, err error) {
	if r.left == 0 {
		return 0, "", damaged("cut short before the last block")
	}
	start, err := r.next(blockStart)
	if err != nil {
		return 0, "", err
	}
	n := binary.LittleEndian.Uint32(start)
	kind = start[blockStart-1]
	if n > maxBlock {
		return 0, "", damaged("%d bytes long", n)
	}
	r.sum = crc32.Update(r.sum, castagnoli, start)
	b, err := r.next(int(n))
	if err != nil {
		return 0, "", err
	}
	content = string(b)
	return kind, content, r.checksum(b)
}

// add takes one block in.
func (s *Saved) add(kind byte, content string) error {
	c := cursor{left: content}
	if kind == blockTable {
		t := Table{Name: c.string(), Generation: c.uvarint(), V4: c.count(), V6: c.count()}
		s.Tables = append(s.Tables, t)
		return c.end()
	}
	if len(s.Tables) == 0 {
		return damaged("kind %d before any table", kind)
	}
	t := &s.Tables[len(s.Tables)-1]
	switch kind {
	case blockPeers:
		for c.more() {
			t.Peers = append(t.Peers, c.peer())
		}
	case blockRoutes:
		for b := (batch{}); c.more(); {
			c.batch(&b)
			if b.v6 {
				t.got6 += len(b.update.Reach)
			} else {
				t.got4 += len(b.update.Reach)
			}
			if b.peer >= len(t.Peers) {
				return damaged("routes of peer %d of %d", b.peer, len(t.Peers))
			}
		}
		t.routes = append(t.routes, content)
	default:
		return damaged("unknown kind %d", kind)
	}
	return c.end()
}

// checkEnd compares what blocks say of others with what was there.
func (s *Saved) checkEnd(content string) error {
	c := cursor{left: content}
	tables, total := c.count(), c.count()
	if err := c.end(); err != nil {
		return err
	}
	routes := 0
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.V4 != t.got4 || t.V6 != t.got6 {
			return damaged("table %q has %d IPv4 and %d IPv6 routes, but there are %d and %d", t.Name, t.V4, t.V6, t.got4, t.got6)
		}
		routes += t.V4 + t.V6
	}
	if tables != len(s.Tables) || total != routes {
		return damaged("%d routes in %d tables, but there are %d in %d", total, tables, routes, len(s.Tables))
	}
	return nil
}

// A batch is routes of one family with the same attributes.
type batch struct {
	peer   int // its number
	v6     bool
	stale  bool
	update rib.Update // Reach keeps its memory from one batch to the next
}

// A cursor reads the content of a block. What does not fit gives zeros and makes it bad.
type cursor struct {
	left string
	bad  bool
}

func (c *cursor) more() bool { return !c.bad && c.left != "" }

func (c *cursor) end() error {
	switch {
	case c.bad:
		return damaged("content does not fit its kind")
	case c.left != "":
		return damaged("%d bytes too many", len(c.left))
	}
	return nil
}

// take gives the next n bytes.
func (c *cursor) take(n int) string {
	if uint(n) > uint(len(c.left)) {
		c.bad = true
		return ""
	}
	s := c.left[:n]
	c.left = c.left[n:]
	return s
}

func (c *cursor) byte() byte {
	if s := c.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (c *cursor) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := c.byte()
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			return v
		}
	}
	c.bad = true
	return 0
}

// uint32 is a uvarint of 32 bits.
func (c *cursor) uint32() uint32 {
	v := c.uvarint()
	if v > 1<<32-1 {
		c.bad = true
	}
	return uint32(v)
}

// count is a uvarint that counts something: 31 bits, so that it is an int everywhere.
func (c *cursor) count() int {
	v := c.uvarint()
	if v > 1<<31-1 {
		c.bad = true
		return 0
	}
	return int(v)
}

func (c *cursor) string() string { return c.take(c.count()) }

func (c *cursor) addr() (a netip.Addr) {
	if a.UnmarshalBinary([]byte(c.string())) != nil {
		c.bad = true
	}
	return a
}

func (c *cursor) peer() (p Peer) {
	p.Name, p.Kind, p.Addr = c.string(), rib.PeerKind(c.string()), c.addr()
	p.AS, p.RouterID = c.uint32(), c.addr()
	var since [8]byte
	copy(since[:], c.take(8))
	p.StaleSince = instant(int64(binary.LittleEndian.Uint64(since[:])))
	return p
}

// batch reads one batch into b.
func (c *cursor) batch(b *batch) {
	b.peer = c.count()
	flags := c.byte()
	if flags > knownFlags {
		c.bad = true
	}
	b.v6, b.stale = flags&flagIPv6 != 0, flags&flagStale != 0
	a := &b.update.Attrs
	*a = rib.Attrs{
		HasMED: flags&flagMED != 0, HasLocalPref: flags&flagLocalPref != 0, HasOTC: flags&flagOTC != 0,
		Origin: c.byte(), ClusterListLen: c.byte(),
	}
	copy(a.OriginatorID[:], c.take(len(a.OriginatorID)))
	a.MED, a.LocalPref, a.OTC = c.uint32(), c.uint32(), c.uint32()
	a.NextHop = c.addr()
	a.ASPath = rib.ASPath(c.string())
	a.Communities = rib.Communities(c.string())
	a.LargeCommunities = rib.LargeCommunities(c.string())
	a.ExtCommunities = rib.ExtCommunities(c.string())
	n := c.count()
	if n == 0 || n > maxBatch {
		c.bad = true
	}
	b.update.Reach = b.update.Reach[:0]
	for ; n > 0 && !c.bad; n-- {
		b.update.Reach = append(b.update.Reach, c.route(flags))
	}
}

func (c *cursor) route(flags byte) (r rib.NLRI) {
	if flags&flagPathIDs != 0 {
		var id [4]byte
		copy(id[:], c.take(len(id)))
		r.PathID = binary.LittleEndian.Uint32(id[:])
	}
	bits := int(c.byte())
	if flags&flagIPv6 != 0 {
		var a [16]byte
		if bits > 128 {
			c.bad = true
			return r
		}
		copy(a[:], c.take((bits+7)/8))
		r.Prefix = netip.PrefixFrom(netip.AddrFrom16(a), bits)
		return r
	}
	var a [4]byte
	if bits > 32 {
		c.bad = true
		return r
	}
	copy(a[:], c.take((bits+7)/8))
	r.Prefix = netip.PrefixFrom(netip.AddrFrom4(a), bits)
	return r
}
