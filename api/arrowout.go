package api

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/rib"
)

// arrowRows is how many rows a record batch of an answer has at most: its columns and what makes
// them stay in a processor's second cache, and a dictionary of as many prefixes is short.
const arrowRows = 1 << 16

// arrowRoute is what an answer says of a route, but for the address of its prefix, which is that
// of any address it carries. It is 8 bytes: random routes of a full table are cache misses.
type arrowRoute struct {
	origin uint32
	hop    uint16 // number of the next hop
	bits   uint8  // of the prefix
	has    arrowHas
}

// arrowHas says what a route has.
type arrowHas uint8

const (
	hasRoute arrowHas = 1 << iota
	hasOrigin
	hasHop
	hasFarHop // the next hop has no number
	is6
)

// arrowRoutes are all routes of a generation as answers say them, by handle, in one piece: behind
// pages, or pointers of any kind, random ones take ten times the time.
type arrowRoutes struct {
	byHandle []arrowRoute
	hops     *hops
	users    int
}

// newestArrowRoutes keeps the arrowRoutes of the generation that was last asked for many addresses. Those of
// the next one are a copy in which what differs is made anew: some milliseconds for a full table.
type newestArrowRoutes struct {
	mu      sync.Mutex
	of      *rib.Generation // but for its table: number, time and routes; nil before the first
	routes  *arrowRoutes
	spare   []arrowRoute // memory that nobody uses any more
	current *hops
}

// take gives the arrowRoutes of a generation, which must be given back. Where they are not there they are made,
// or nil is given.
func (n *newestArrowRoutes) take(g *rib.Generation, orMake bool) *arrowRoutes {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil || n.of.Number != g.Number || !n.of.Created.Equal(g.Created) {
		if !orMake {
			return nil
		}
		n.make(g)
	}
	n.routes.users++
	return n.routes
}

// give gives arrowRoutes back.
func (n *newestArrowRoutes) give(r *arrowRoutes) {
	if r == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(r)
}

func (n *newestArrowRoutes) drop(r *arrowRoutes) {
	if r.users--; r.users == 0 {
		n.spare = r.byHandle
	}
}

// make makes the arrowRoutes of g the ones that are kept.
func (n *newestArrowRoutes) make(g *rib.Generation) {
	before := n.routes
	next := &arrowRoutes{users: 1, hops: n.hopsNow()}
	size := g.Routes.Len()
	next.byHandle, n.spare = slices.Grow(n.spare[:0], size)[:size], nil
	var old cow.Array[rib.Route]
	if before != nil && before.hops == next.hops {
		copy(next.byHandle, before.byHandle)
		old = n.of.Routes
	}
	for from, to := range g.Routes.Unshared(old) {
		for i := from; i < min(to, size); i++ {
			next.byHandle[i] = next.hops.route(g.Routes.At(i))
		}
	}
	if before != nil {
		n.drop(before)
	}
	n.of = &rib.Generation{Number: g.Number, Created: g.Created, Routes: g.Routes}
	n.routes = next
}

// hopsNow gives the numbers of next hops, new ones where it is time to forget those that no route has any
// more. The lock must be held.
func (n *newestArrowRoutes) hopsNow() *hops {
	if n.current == nil || n.current.full() {
		n.current = &hops{number: map[netip.Addr]uint16{}}
	}
	return n.current
}

// hops numbers next hops, the first 65,536 of them.
type hops struct {
	mu     sync.Mutex
	number map[netip.Addr]uint16
	addrs  []netip.Addr
}

// full reports whether it is time to forget those that no route has any more.
func (t *hops) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.addrs) > math.MaxUint16
}

// of gives the number of a next hop, false where there is none left.
func (t *hops) of(a netip.Addr) (uint16, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.number[a]
	if !ok && len(t.addrs) <= math.MaxUint16 {
		n, ok = uint16(len(t.addrs)), true
		t.number[a] = n
		t.addrs = append(t.addrs, a)
	}
	return n, ok
}

// all gives the next hops by number.
func (t *hops) all() []netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addrs[:len(t.addrs):len(t.addrs)]
}

// route makes the arrowRoute of a route.
func (t *hops) route(r rib.Route) (out arrowRoute) {
	if !r.Prefix.IsValid() {
		return out
	}
	out.has, out.bits = hasRoute, uint8(r.Prefix.Bits())
	if !r.Prefix.Addr().Is4() {
		out.has |= is6
	}
	if r.Path == (rib.Path{}) {
		return out
	}
	at := r.Path.Value()
	if at.NextHop.IsValid() {
		out.has |= hasHop
		var ok bool
		if out.hop, ok = t.of(at.NextHop); !ok {
			out.has |= hasFarHop
		}
	}
	if origins := originASNs(at.ASPath); len(origins) == 4 {
		out.origin = number(string(origins), 0)
		out.has |= hasOrigin
	}
	return out
}

// A numbering numbers members of 0..n-1 in the order in which they come, up to 65,536 of them. It is
// emptied at no cost.
type numbering struct {
	stamped []uint32 // by member: its number, below the round in which it came
	round   uint32
	members []uint32
}

// reset empties the numbering and makes room for members below n.
func (s *numbering) reset(n int) {
	if s.round++; s.round == 1<<16 {
		clear(s.stamped)
		s.round = 1
	}
	if n > len(s.stamped) {
		s.stamped = make([]uint32, n)
	}
	s.members = s.members[:0]
}

// of gives the number of a member.
func (s *numbering) of(m uint32) uint32 {
	if stamp := s.stamped[m]; stamp>>16 == s.round {
		return stamp & 0xffff
	}
	n := uint32(len(s.members))
	s.stamped[m] = s.round<<16 | n
	s.members = append(s.members, m)
	return n
}

// A pieceRoute is a route of a record batch.
type pieceRoute struct {
	arrowRoute
	handle lpm.Handle
	addr4  uint32 // an IPv4 address that it carries
	inHops int32  // number of its next hop in the dictionary
}

// An arrowPiece is a record batch of an answer while it is made.
type arrowPiece struct {
	n       int
	tally   lookupTally
	push    bool // the client may wait for it before it sends more
	bad     []int32
	handles [arrowRows]lpm.Handle
	prefix  [arrowRows]int32 // by row: number in routes, which is that in the dictionary; -1: none
	routes  []pieceRoute     // those of the batch, each once
	no4     bool             // they have no addr4

	// By row, made by the writer.
	length [arrowRows]uint8
	origin [arrowRows]uint32
	hop    [arrowRows]int32
	valid  struct{ route, origin, hop, handle [arrowRows / 8]byte }
	// The dictionaries.
	prefixes, nextHops texts
}

func (p *arrowPiece) begin(n int) {
	p.n, p.tally, p.bad = n, lookupTally{}, p.bad[:0]
}

// wrong says that a row has no address.
func (p *arrowPiece) wrong(row int) {
	p.bad = append(p.bad, int32(row))
	p.handles[row] = lpm.None
}

// number numbers the routes of the batch. addrs are the addresses by row, nil where they are not all of
// IPv4.
func (p *arrowPiece) number(set *numbering, addrs []uint32) {
	p.routes = p.routes[:0]
	for i, h := range p.handles[:p.n] {
		if h == lpm.None {
			p.prefix[i] = -1
			continue
		}
		n := set.of(uint32(h))
		if int(n) == len(p.routes) {
			r := pieceRoute{handle: h}
			if addrs != nil {
				r.addr4 = addrs[i]
			}
			p.routes = append(p.routes, r)
		}
		p.prefix[i] = int32(n)
	}
	p.no4 = addrs == nil
}

// texts is a column of strings while it is made.
type texts struct {
	ends []int32 // of each string in data, behind a 0
	data []byte
}

func (t *texts) reset() { t.ends, t.data = append(t.ends[:0], 0), t.data[:0] }

// end ends a string.
func (t *texts) end() { t.ends = append(t.ends, int32(len(t.data))) }

func (t *texts) len() int { return len(t.ends) - 1 }

func (t *texts) column() *array.Data {
	return array.NewData(arrow.BinaryTypes.String, t.len(), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(t.ends)), memory.NewBufferBytes(t.data)}, nil, 0, 0)
}

// textDictionary is the type of the columns of prefixes and next hops. The numbers are signed since some readers take no
// others.
var textDictionary = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

// arrowFields are the columns of an answer. With generation in their metadata they are its schema.
var arrowFields = []arrow.Field{
	{Name: "prefix", Type: textDictionary, Nullable: true},
	{Name: "length", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	{Name: "origin_asn", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	{Name: "next_hop", Type: textDictionary, Nullable: true},
	{Name: "handle", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
}

// An arrowWriter writes record batches in Arrow's stream format. Each has dictionaries of its own, which
// replace those before: so the stream takes the same memory however long it is, here and where it
// is read.
type arrowWriter struct {
	schema *arrow.Schema
	gen    *rib.Generation
	newest *newestArrowRoutes
	routes *arrowRoutes // nil before they are worth it
	hops   *hops
	hopSet numbering // of the numbers of next hops
	inHops []int32   // of its members: their numbers in the dictionary
	out    *output
	begun  bool // the schema was written
}

// newArrowWriter makes a writer, which must be released.
func newArrowWriter(g *rib.Generation, newest *newestArrowRoutes, out *output) *arrowWriter {
	metadata := arrow.NewMetadata([]string{"generation"}, []string{strconv.FormatUint(g.Number, 10)})
	return &arrowWriter{schema: arrow.NewSchema(arrowFields, &metadata), gen: g, newest: newest, routes: newest.take(g, false), out: out}
}

func (w *arrowWriter) release() { w.newest.give(w.routes) }

// fetch fetches the routes of a batch. From the second batch on they come from what is kept of all, which
// may have to be made: that is not worth it for less.
func (w *arrowWriter) fetch(p *arrowPiece) {
	if w.routes == nil && w.begun {
		w.routes = w.newest.take(w.gen, true)
	}
	if w.routes == nil {
		if w.hops == nil {
			w.newest.mu.Lock()
			w.hops = w.newest.hopsNow()
			w.newest.mu.Unlock()
		}
		for i := range p.routes {
			p.routes[i].arrowRoute = w.hops.route(w.gen.Route(p.routes[i].handle))
		}
		return
	}
	w.hops = w.routes.hops
	for i := range p.routes { // no read waits for another one: cache misses overlap
		p.routes[i].arrowRoute = w.routes.byHandle[p.routes[i].handle]
	}
}

// write writes a batch.
func (w *arrowWriter) write(p *arrowPiece) error {
	w.dictionaries(p)
	nulls := p.fill()
	column := func(t arrow.DataType, valid, values []byte, nulls int, dictionary *texts) arrow.Array {
		buffers := []*memory.Buffer{memory.NewBufferBytes(valid[:(p.n+7)/8]), memory.NewBufferBytes(values)}
		if dictionary == nil {
			return array.MakeFromData(array.NewData(t, p.n, buffers, nil, nulls, 0))
		}
		return array.NewDictionaryData(array.NewDataWithDictionary(t, p.n, buffers, nulls, 0, dictionary.column()))
	}
	batch := array.NewRecordBatch(w.schema, []arrow.Array{
		column(textDictionary, p.valid.route[:], arrow.Int32Traits.CastToBytes(p.prefix[:p.n]), nulls.route, &p.prefixes),
		column(arrow.PrimitiveTypes.Uint8, p.valid.route[:], p.length[:p.n], nulls.route, nil),
		column(arrow.PrimitiveTypes.Uint32, p.valid.origin[:], arrow.Uint32Traits.CastToBytes(p.origin[:p.n]), nulls.origin, nil),
		column(textDictionary, p.valid.hop[:], arrow.Int32Traits.CastToBytes(p.hop[:p.n]), nulls.hop, &p.nextHops),
		column(arrow.PrimitiveTypes.Uint32, p.valid.handle[:], handleBytes(p.handles[:p.n]), len(p.bad), nil),
	}, int64(p.n))
	return w.message(func(to *ipc.Writer) error { return to.Write(batch) }, false)
}

// end writes the end of the stream, and its schema if nothing else was written.
func (w *arrowWriter) end() error {
	if err := w.message((*ipc.Writer).Close, true); err != nil {
		return err
	}
	return w.out.flush()
}

// message has a writer of its own write: one that is kept compares every dictionary with the one
// before, whose memory is long that of another one.
func (w *arrowWriter) message(write func(*ipc.Writer) error, end bool) error {
	sink := &arrowSink{out: w.out, skip: w.begun, end: end}
	w.begun = true
	return write(ipc.NewWriterWithPayloadWriter(sink, ipc.WithSchema(w.schema)))
}

// An arrowSink puts the messages of a writer into an output: all, or all but the first, which is the schema.
type arrowSink struct {
	out       *output
	skip, end bool
}

func (s *arrowSink) Start() error { return nil }

func (s *arrowSink) WritePayload(p ipc.Payload) error {
	if s.skip {
		s.skip = false
		return nil
	}
	_, err := p.WritePayload(s)
	return err
}

// Write hands on long pieces as they are, and collects short ones.
func (s *arrowSink) Write(p []byte) (int, error) {
	if len(p) < outPiece/4 {
		s.out.buf = append(s.out.buf, p...)
		if len(s.out.buf) < outPiece {
			return len(p), nil
		}
		return len(p), s.out.flush()
	}
	if err := s.out.flush(); err != nil {
		return 0, err
	}
	return len(p), s.out.emit(p)
}

func (s *arrowSink) Close() error {
	if !s.end {
		return nil
	}
	_, err := s.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	return err
}

// dictionaries makes the dictionaries of a batch, and numbers next hops by theirs.
func (w *arrowWriter) dictionaries(p *arrowPiece) {
	p.prefixes.reset()
	p.nextHops.reset()
	addHop := func(a netip.Addr) int32 {
		p.nextHops.data = a.AppendTo(p.nextHops.data)
		p.nextHops.end()
		return int32(p.nextHops.len() - 1)
	}
	w.fetch(p)
	addrs := w.hops.all() // not before: the pass may have found some
	w.hopSet.reset(len(addrs))
	w.inHops = w.inHops[:0]
	var far map[netip.Addr]int32
	for i := range p.routes {
		r := &p.routes[i]
		if !p.no4 && r.has&is6 == 0 {
			p.prefixes.data = appendPrefix4(p.prefixes.data, r.addr4&^(1<<(32-r.bits)-1), r.bits)
		} else {
			p.prefixes.data = w.gen.Route(r.handle).Prefix.AppendTo(p.prefixes.data)
		}
		p.prefixes.end()
		switch {
		case r.has&hasFarHop != 0:
			a := w.gen.Route(r.handle).Path.Value().NextHop
			n, ok := far[a]
			if !ok {
				if far == nil {
					far = map[netip.Addr]int32{}
				}
				n = addHop(a)
				far[a] = n
			}
			r.inHops = n
		case r.has&hasHop != 0:
			n := w.hopSet.of(uint32(r.hop))
			if int(n) == len(w.inHops) {
				w.inHops = append(w.inHops, addHop(addrs[r.hop]))
			}
			r.inHops = w.inHops[n]
		}
	}
}

// fill makes the columns by row, and counts what is null in them.
func (p *arrowPiece) fill() (nulls struct{ route, origin, hop int }) {
	var none pieceRoute
	for from := 0; from < p.n; from += 64 {
		var route, origin, hop uint64
		to := min(from+64, p.n)
		for i := from; i < to; i++ {
			r := &none
			if n := p.prefix[i]; n >= 0 {
				r = &p.routes[n]
			} else {
				p.prefix[i] = 0
			}
			p.length[i], p.origin[i], p.hop[i] = r.bits, r.origin, r.inHops
			has, bit := uint64(r.has), uint(i-from)
			route |= has & 1 << bit
			origin |= has >> 1 & 1 << bit
			hop |= has >> 2 & 1 << bit
		}
		rows := to - from
		nulls.route += rows - bits.OnesCount64(route)
		nulls.origin += rows - bits.OnesCount64(origin)
		nulls.hop += rows - bits.OnesCount64(hop)
		binary.LittleEndian.PutUint64(p.valid.route[from/8:], route)
		binary.LittleEndian.PutUint64(p.valid.origin[from/8:], origin)
		binary.LittleEndian.PutUint64(p.valid.hop[from/8:], hop)
	}
	if len(p.bad) > 0 {
		for i := range p.valid.handle[:(p.n+7)/8] {
			p.valid.handle[i] = 0xff
		}
		for _, row := range p.bad {
			p.valid.handle[row/8] &^= 1 << (row % 8)
		}
	}
	return nulls
}
