package linear

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// OnDevice is a Table for callers whose keys are in ordinary memory. It implements exact.Table; finds run
// beside each other, changes alone.
type OnDevice[W Word] struct {
	dev     *device.Device
	options Options

	mu      sync.RWMutex
	table   *Table[W] // nil when closed
	counts  Counts    // of the table
	staging staging[W]
}

// NewOnDevice makes an empty table of 2^log2 slots on a device that was opened with Modules.
func NewOnDevice[W Word](dev *device.Device, log2 int, o Options) (*OnDevice[W], error) {
	d := &OnDevice[W]{dev: dev, options: o}
	err := dev.Do(device.Build, func(q *device.Queue) (err error) {
		d.table, err = NewTable[W](q, log2)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// change runs a job that changes the table, and brings the counts up to date.
func (d *OnDevice[W]) change(job func(q *device.Queue) error) error {
	return d.dev.Do(device.Build, func(q *device.Queue) error {
		if err := job(q); err != nil {
			return err
		}
		c, err := d.table.Counts(q)
		if err != nil {
			return err
		}
		if c.Left > 0 {
			d.table.ClearLeft(q)
		}
		d.counts = c
		return nil
	})
}

func (d *OnDevice[W]) rehash(log2 int) error {
	return d.change(func(q *device.Queue) error { return d.table.Rehash(q, log2) })
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key that
// is in a batch twice one of the values stays. ErrFull says that some found no slot. device.ErrMemory
// leaves the table as it was.
//
// A table that grows takes the keys of a batch that it does not have for different ones.
func (d *OnDevice[W]) Insert(keys, values []W) (added int, err error) {
	return d.InsertResults(keys, values, nil)
}

// InsertResults is Insert that also says what became of each request, in results, as long as keys.
func (d *OnDevice[W]) InsertResults(keys, values []W, results []Result) (added int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return 0, exact.ErrClosed
	}
	if len(keys) == 0 {
		return 0, nil
	}
	values = values[:len(keys)]
	d.staging.mu.Lock()
	defer d.staging.mu.Unlock()
	if err := d.staging.prepare(d.dev, len(keys)); err != nil {
		return 0, err
	}
	if err := d.reserve(keys); err != nil {
		return 0, err
	}
	all := len(keys)
	f := flow[W]{keys: keys, values: values, launch: func(q *device.Queue, keys, values, _, results device.Ptr, n int) {
		d.table.Alone = n == all // else several chunks are under way
		d.table.Insert(q, keys, values, results, n)
	}}
	if results != nil {
		f.results = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(results))), len(keys))
	}
	before := d.counts.Live
	put := func() error {
		return d.change(func(q *device.Queue) error { return d.staging.run(q, f) })
	}
	if err = put(); err != nil {
		return 0, err
	}
	for f.merge = true; d.counts.Left > 0; {
		cannot := d.makeRoom()
		// Where there is no more room some may have been given up for others.
		d.table.patient = cannot != nil
		err = put()
		d.table.patient = false
		if err != nil {
			return 0, err
		}
		if cannot != nil && d.counts.Left > 0 {
			err = fullError(d.counts.Left, d.counts.Live, d.table.log2)
			if !errors.Is(cannot, ErrFull) {
				err = fmt.Errorf("%w; no larger table: %v", err, cannot) // not as it was, so this is no error of memory
			}
			break
		}
	}
	return d.counts.Live - before, err
}

// makeRoom gives inserts that found no slot more of them. ErrFull says that there may be no more.
func (d *OnDevice[W]) makeRoom() error {
	switch {
	case stale(d.counts.Dead, d.table.log2):
		return d.rehash(d.table.log2)
	case d.options.Grow:
		return d.rehash(d.table.log2 + 1)
	}
	return ErrFull
}

// reserve grows the table for a batch, if it grows.
func (d *OnDevice[W]) reserve(keys []W) error {
	used := d.counts.Live + d.counts.Dead
	if !d.options.Grow || !crowded(used+len(keys), d.table.log2) {
		return nil
	}
	missing := len(keys)
	err := d.dev.Do(device.Build, func(q *device.Queue) error {
		return d.staging.run(q, flow[W]{keys: keys, launch: func(q *device.Queue, keys, _, answers, results device.Ptr, n int) {
			d.table.Find(q, answers, results, keys, n)
		}, each: func(results []byte) {
			for _, r := range results {
				missing -= int(r)
			}
		}})
	})
	if err != nil || !crowded(used+missing, d.table.log2) {
		return err
	}
	err = d.rehash(min(max(log2For(d.counts.Live+missing), d.table.log2), MaxLog2))
	if errors.Is(err, ErrFull) {
		return nil // by keys that meet: the insert sees what becomes of them
	}
	return err
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (d *OnDevice[W]) Find(values []W, found []bool, keys []W) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return exact.ErrClosed
	}
	if len(keys) == 0 {
		return nil
	}
	d.staging.mu.Lock()
	defer d.staging.mu.Unlock()
	if err := d.staging.prepare(d.dev, len(keys)); err != nil {
		return err
	}
	f := flow[W]{keys: keys, answers: values[:len(keys)], launch: func(q *device.Queue, keys, _, answers, results device.Ptr, n int) {
		d.table.Find(q, answers, results, keys, n)
	}}
	if found != nil {
		found = found[:len(keys)]
		f.results = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(found))), len(keys))
	}
	return d.dev.Do(device.Serve, func(q *device.Queue) error { return d.staging.run(q, f) })
}

// Delete takes keys out and counts those that were there.
func (d *OnDevice[W]) Delete(keys []W) (deleted int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return 0, exact.ErrClosed
	}
	if len(keys) == 0 {
		return 0, nil
	}
	d.staging.mu.Lock()
	defer d.staging.mu.Unlock()
	if err := d.staging.prepare(d.dev, len(keys)); err != nil {
		return 0, err
	}
	before, all := d.counts.Live, len(keys)
	err = d.change(func(q *device.Queue) error {
		return d.staging.run(q, flow[W]{keys: keys, launch: func(q *device.Queue, keys, _, _, results device.Ptr, n int) {
			d.table.Alone = n == all // else several chunks are under way
			d.table.Erase(q, keys, results, n)
		}})
	})
	if err != nil {
		return 0, err
	}
	deleted = before - d.counts.Live
	if stale(d.counts.Dead, d.table.log2) {
		// The keys are out: without memory for a new table this one serves on.
		if err = d.rehash(d.table.log2); errors.Is(err, device.ErrMemory) || errors.Is(err, ErrFull) {
			err = nil
		}
	}
	return deleted, err
}

// Len is the number of pairs.
func (d *OnDevice[W]) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return 0
	}
	return d.counts.Live
}

// Slots is the number of slots, 0 of a closed table.
func (d *OnDevice[W]) Slots() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return 0
	}
	return d.table.Slots()
}

// All gives all pairs, in no order. It needs as much memory of the device as they have.
func (d *OnDevice[W]) All() (keys, values []W, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return nil, nil, exact.ErrClosed
	}
	n := d.counts.Live
	keys, values = make([]W, n), make([]W, n)
	if n == 0 {
		return keys, values, nil
	}
	if err := d.all(keys, values); err != nil {
		return nil, nil, err
	}
	return keys, values, nil
}

func (d *OnDevice[W]) all(keys, values []W) error {
	d.staging.mu.Lock()
	defer d.staging.mu.Unlock()
	n := len(keys)
	if err := d.staging.prepare(d.dev, n); err != nil {
		return err
	}
	return d.dev.Do(device.Serve, func(q *device.Queue) error {
		kp, vp, count := q.Temp(bytesOf[W](n)), q.Temp(bytesOf[W](n)), q.Temp(8)
		q.Fill(count, 0, 2)
		d.table.Iterate(q, kp, vp, n, count)
		if err := d.staging.bring(q, keys, kp); err != nil {
			return err
		}
		return d.staging.bring(q, values, vp)
	})
}

// Stats goes through the whole table.
func (d *OnDevice[W]) Stats() (s Stats, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return s, exact.ErrClosed
	}
	err = d.dev.Do(device.Serve, func(q *device.Queue) error {
		s, err = d.table.Stats(q)
		return err
	})
	return s, err
}

// Clone gives a copy.
func (d *OnDevice[W]) Clone() (exact.Table[W, W], error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return nil, exact.ErrClosed
	}
	c := &OnDevice[W]{dev: d.dev, options: d.options, counts: d.counts}
	err := d.dev.Do(device.Build, func(q *device.Queue) (err error) {
		c.table, err = d.table.Clone(q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close frees the table.
func (d *OnDevice[W]) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return nil
	}
	d.staging.free(d.dev)
	// On a device that was lost or closed there is nothing left to free.
	_ = d.dev.Do(device.Build, func(q *device.Queue) error { d.table.Free(q); return nil })
	d.table = nil
	return nil
}
