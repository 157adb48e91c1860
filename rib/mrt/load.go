package mrt

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input/problems"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// Kinds of problems that Load reports.
const (
	KindRecord     problems.Kind = "undecodable record"          // record skipped from where it is wrong
	KindAttributes problems.Kind = "undecodable path attributes" // said with what that costs
	KindPeer       problems.Kind = "unknown peer"                // the route is left out
	KindType       problems.Kind = "unknown record type"         // record skipped
)

// Options of Load.
type Options struct {
	Name    string        // start of the peers' names, which must not be taken: the file's name
	Awaited bool          // readiness waits for the peers
	Log     *problems.Log // where problems go; nil: nowhere
	// Restored are peers, by name, that the RIB has already, with routes of a saved generation: those of the
	// same name, address and AS are taken for the file's, whose routes take the place of theirs.
	Restored map[string]*rib.Peer
}

// Result says how much was read.
type Result struct {
	Records   int // whole records read
	Ignored   int // of them, records without unicast routes received: multicast, OPEN, OSPF, ...
	Announced int // routes announced
	Withdrawn int // routes withdrawn by messages
	Peers     []*rib.Peer
}

// Load reads an MRT stream into r. A record that cannot be decoded is reported and costs itself
// only. Where the stream breaks, what was read stays and the error is a *BrokenError. The other
// errors are ctx's and those of names that are taken. Whatever the error, the peers are settled:
// Loaded for what the file holds, and their readiness given up where ctx ended the load.
func Load(ctx context.Context, r *rib.RIB, src io.Reader, o Options) (Result, error) {
	if o.Log == nil {
		o.Log = problems.NewLog(0)
	}
	l := &loader{
		rib: r, name: o.Name, awaited: o.Awaited, log: o.Log, restored: o.Restored,
		peers: make(map[peerKey]*peer), decoders: make(map[wire.Options]*wire.Decoder), cache: make(map[cacheKey]decoded),
	}
	err := l.all(ctx, newRecordReader(src))
	l.settle(err)
	return l.result, err
}

// A loader is one Load.
type loader struct {
	rib     *rib.RIB
	name    string
	awaited bool
	log     *problems.Log
	result  Result

	restored map[string]*rib.Peer

	peers map[peerKey]*peer
	order []*peer // peers as they were met
	index []*peer // peers of the newest PEER_INDEX_TABLE, by index; empty before one was read

	decoders map[wire.Options]*wire.Decoder
	cache    map[cacheKey]decoded // of dumped routes
}

// all reads every record.
func (l *loader) all(ctx context.Context, in *recordReader) error {
	for {
		if l.result.Records%256 == 0 && ctx.Err() != nil {
			return fmt.Errorf("load MRT: %w", ctx.Err())
		}
		rec, err := in.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.result.Records++
		if err := l.record(rec); err != nil {
			return err
		}
	}
}

// settle applies what is waiting and ends the first load of every peer.
func (l *loader) settle(err error) {
	var broken *BrokenError
	stopped := err != nil && !errors.As(err, &broken)
	for _, p := range l.order {
		p.flush()
		switch {
		case stopped:
			p.rib.GaveUp("load stopped: " + err.Error())
		case p.down != "":
			p.rib.GaveUp(p.down)
		default:
			p.rib.Loaded()
		}
		l.result.Peers = append(l.result.Peers, p.rib)
	}
}

// record decodes one record and applies it. An error ends the load.
func (l *loader) record(rec record) error {
	var err error
	switch rec.kind {
	case typeTableDump:
		err = l.tableDump(rec)
	case typeTableDumpV2:
		err = l.tableDumpV2(rec)
	case typeBGP4MPET:
		if len(rec.body) < 4 {
			err = errShort
			break
		}
		rec.body = rec.body[4:] // microseconds
		fallthrough
	case typeBGP4MP:
		err = l.bgp4mp(rec)
	default:
		if foreign(rec.kind) {
			err = errIgnore
			break
		}
		l.problem(rec, KindType, fmt.Sprintf("type %d, subtype %d", rec.kind, rec.subtype), "record skipped")
		return nil
	}
	var fatal *fatalError
	switch {
	case errors.Is(err, errIgnore):
		l.result.Ignored++
	case errors.As(err, &fatal):
		return fatal.err
	case err != nil:
		l.problem(rec, KindRecord, fmt.Sprintf("type %d, subtype %d: %v", rec.kind, rec.subtype, err), "skipped from there")
	}
	return nil
}

// What decoders of records return besides errors that cost the record.
var (
	// errIgnore: a sound record that holds nothing for us.
	errIgnore = errors.New("ignored")
	// errShort: the record ends too early.
	errShort = errors.New("record is too short for what it says it holds")
)

// A fatalError ends the load: it is not the record's fault.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (l *loader) problem(rec record, kind problems.Kind, detail, done string) {
	l.log.Add(kind, func() problems.Problem {
		return problems.Problem{Where: rec.where(), Detail: detail, Done: done}
	})
}

// flush applies what is waiting at every peer.
func (l *loader) flush() {
	for _, p := range l.order {
		p.flush()
	}
}

// guard runs a step of the codec and turns a panic into an error. Nothing of ours runs in it.
func guard(step func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decoder panicked: %v", r)
		}
	}()
	return step()
}
