package annotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ribwarp/ribwarp/lpm"
)

// A pipeline is one run: a reader, workers and a writer.
type pipeline struct {
	table   lpm.Table
	tails   *tails
	format  format
	workers int
	in      *splitter
	out     io.Writer
}

// A block is a piece of the input on its way: whole records in, what to write out.
type block struct {
	in, out []byte
	stats   Stats // of this block; FirstBad counts from its first record
	err     error
	done    chan struct{} // one message when a worker is through with it
}

// run moves all blocks through. Every channel holds all blocks there are, so no send ever
// waits. After a failure it waits for the workers, which use the table, but not for the reader,
// which may be waiting for input: that ends with its Read.
func (p *pipeline) run(ctx context.Context) (Stats, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	blocks := 3*p.workers + 2
	free := make(chan *block, blocks)
	work := make(chan *block, blocks)
	order := make(chan *block, blocks)
	for range blocks {
		free <- &block{done: make(chan struct{}, 1)}
	}

	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel(nil)
	for range p.workers {
		workers.Go(func() { p.work(ctx, work) })
	}
	ended := make(chan error, 1)
	go func() {
		ended <- p.read(ctx, free, work, order)
		close(work)
		close(order)
	}()

	stats, err := p.write(ctx, order, free)
	if err != nil {
		return stats, err
	}
	return stats, <-ended
}

// work annotates blocks until there are no more.
func (p *pipeline) work(ctx context.Context, work <-chan *block) {
	b := new(batch)
	for {
		select {
		case bl, ok := <-work:
			if !ok {
				return
			}
			bl.err = p.annotate(bl, b)
			bl.done <- struct{}{}
		case <-ctx.Done():
			return
		}
	}
}

// read fills free blocks until the input ends.
func (p *pipeline) read(ctx context.Context, free <-chan *block, work, order chan<- *block) error {
	for {
		var bl *block
		select {
		case bl = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bl.stats, bl.err, bl.out = Stats{}, nil, bl.out[:0]
		var header []byte
		var err error
		bl.in, header, err = p.in.next(bl.in)
		if len(header) > 0 {
			bl.out = append(bl.out, header...)
		}
		if len(bl.in) > 0 || len(bl.out) > 0 {
			order <- bl
			work <- bl
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write writes finished blocks in input order and adds up what they count.
func (p *pipeline) write(ctx context.Context, order <-chan *block, free chan<- *block) (Stats, error) {
	var sum Stats
	for {
		var bl *block
		var ok bool
		select {
		case bl, ok = <-order:
		case <-ctx.Done():
			return sum, context.Cause(ctx)
		}
		if !ok {
			return sum, nil
		}
		select {
		case <-bl.done:
		case <-ctx.Done():
			return sum, context.Cause(ctx)
		}
		if bl.err != nil {
			return sum, bl.err
		}
		if _, err := p.out.Write(bl.out); err != nil {
			return sum, fmt.Errorf("write: %w", err)
		}
		if sum.Bad == 0 && bl.stats.Bad > 0 {
			sum.FirstBad = sum.Records + bl.stats.FirstBad
			sum.FirstBadText = bl.stats.FirstBadText
		}
		sum.Records += bl.stats.Records
		sum.Matched += bl.stats.Matched
		sum.Bad += bl.stats.Bad
		free <- bl
	}
}

// annotate does a block's work: scan, look up, render, a batch at a time.
func (p *pipeline) annotate(bl *block, b *batch) error {
	for pos := 0; pos < len(bl.in); {
		b.reset()
		pos = p.format.scan(bl.in, pos, b)
		if err := p.table.Lookup4(b.handles[:b.n4], b.addrs4[:b.n4]); err != nil {
			return fmt.Errorf("look up IPv4: %w", err)
		}
		if err := p.table.Lookup6(b.handles[b.n4:b.n4+b.n6], b.addrs6[:b.n6]); err != nil {
			return fmt.Errorf("look up IPv6: %w", err)
		}
		if bl.stats.Bad == 0 && b.bad > 0 {
			bl.stats.FirstBad = bl.stats.Records + uint64(b.firstBad) + 1
			bl.stats.FirstBadText = b.firstBadText
		}
		bl.stats.Bad += b.bad
		bl.stats.Records += uint64(b.n)
		bl.out = p.render(bl, b)
	}
	return nil
}

// slack is how many bytes behind the end of a block's input may be read, and of its output
// written: short kept bytes are then moved as one constant-size copy.
const slack = 16

// render appends the batch's records with their tails to the block's output.
func (p *pipeline) render(bl *block, b *batch) []byte {
	in := bl.in[:len(bl.in)+slack]
	out := bl.out
	i4, i6 := 0, b.n4
	for i := range b.records[:b.n] {
		r := &b.records[i]
		need := int(r.len) + slack + max(cellSize, len(p.tails.none))
		if cap(out)-len(out) < need {
			out = grow(out, need)
		}
		o := out[len(out) : len(out)+need]
		if r.len <= slack && !r.loose {
			*(*[slack]byte)(o) = *(*[slack]byte)(in[r.off:])
		} else if r.loose {
			copy(o, b.loose[r.off:r.off+r.len])
		} else {
			copy(o, in[r.off:r.off+r.len])
		}
		n := int(r.len)
		var h lpm.Handle
		switch r.kind {
		case kindIPv4:
			h = b.handles[i4]
			i4++
		case kindIPv6:
			h = b.handles[i6]
			i6++
		}
		page := p.tails.page(h)
		if h == lpm.None || page == nil {
			n += copy(o[n:], p.tails.none)
			out = out[:len(out)+n]
			continue
		}
		bl.stats.Matched++
		cell := &page.cells[h%pageSize]
		if cell[0] == longTail {
			out = append(out[:len(out)+n], page.long[h%pageSize]...)
			continue
		}
		*(*[cellText]byte)(o[n:]) = *(*[cellText]byte)(cell[1:])
		out = out[:len(out)+n+int(cell[0])]
	}
	return out
}

// grow gives b room for n bytes more.
func grow(b []byte, n int) []byte {
	next := make([]byte, len(b), 2*cap(b)+n+64<<10)
	copy(next, b)
	return next
}
