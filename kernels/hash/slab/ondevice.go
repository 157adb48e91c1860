package slab

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// chunk is how many keys of a find are on the device at a time; tests make it smaller.
var chunk = 1 << 24

// OnDevice is a Table for callers whose keys are in ordinary memory. It implements exact.Table; finds run beside each
// other, changes alone. It gets more buckets where they are crowded, if there is memory for that.
type OnDevice[K Key] struct {
	dev *device.Device

	mu     sync.RWMutex
	table  *Table[K] // nil when closed
	counts Counts    // of the table
}

// The kinds of tables on a device.
type (
	OnDevice32 = OnDevice[uint32]
	OnDevice64 = OnDevice[uint64]
)

// NewOnDevice makes an empty table with so many buckets on a device that was opened with Modules.
func NewOnDevice[K Key](dev *device.Device, buckets int) (*OnDevice[K], error) {
	d := &OnDevice[K]{dev: dev}
	err := dev.Do(device.Build, func(q *device.Queue) (err error) {
		d.table, err = New[K](q, buckets)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// change runs a job that changes the table, and brings the counts up to date, also where the job failed.
func (d *OnDevice[K]) change(job func(q *device.Queue) error) error {
	count := func(q *device.Queue) error {
		c, err := d.table.Counts(q)
		if err == nil {
			d.counts = c
		}
		return err
	}
	err := d.dev.Do(device.Build, func(q *device.Queue) error {
		if err := job(q); err != nil {
			return err
		}
		return count(q)
	})
	if err != nil {
		_ = d.dev.Do(device.Build, count) // on a device that was lost there is nothing to count
	}
	return err
}

// optionally is for what makes a table better: without the memory for it, it serves on.
func optionally(err error) error {
	if errors.Is(err, device.ErrMemory) {
		return nil
	}
	return err
}

// temporary copies values to the device for the time of a job.
func temporary[T any](q *device.Queue, values []T, bytes int) device.Ptr {
	p := q.Temp(bytes)
	device.CopyIn(q, p, values)
	return p
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key that
// is in a batch twice one of the values stays. device.ErrMemory leaves the table as it was. The whole batch is on the
// device at a time, with 8 or 12 bytes a pair, or three times as much where it is sorted.
func (d *OnDevice[K]) Insert(keys []K, values []uint32) (added int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return 0, exact.ErrClosed
	}
	if len(keys) == 0 {
		return 0, nil
	}
	if err := d.spread(keys); err != nil {
		return 0, err
	}
	before := d.counts.Live
	err = d.change(func(q *device.Queue) error {
		kp, vp := temporary(q, keys, bytesOf[K](len(keys))), temporary(q, values[:len(keys)], 4*len(keys))
		return d.table.Run(q, Batch{Op: Insert, Keys: kp, Values: vp, N: len(keys), Alone: true})
	})
	return d.counts.Live - before, err
}

// spread gives the table more buckets if a batch of keys would crowd it.
func (d *OnDevice[K]) spread(keys []K) error {
	if !crowded[K](d.counts.Live+len(keys), d.table.buckets) {
		return nil
	}
	found := make([]bool, len(keys))
	if err := d.find(nil, found, keys); err != nil {
		return optionally(err)
	}
	pairs := d.counts.Live
	for _, there := range found {
		if !there {
			pairs++
		}
	}
	if !crowded[K](pairs, d.table.buckets) || d.table.buckets == MaxBuckets {
		return nil
	}
	// At least twice as many, or ever larger batches would each have their rehash.
	buckets := min(max(BucketsFor[K](pairs), 2*d.table.buckets), MaxBuckets)
	return optionally(d.change(func(q *device.Queue) error { return d.table.Rehash(q, buckets) }))
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (d *OnDevice[K]) Find(values []uint32, found []bool, keys []K) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return exact.ErrClosed
	}
	if len(keys) == 0 {
		return nil
	}
	if found != nil {
		found = found[:len(keys)]
	}
	return d.find(values[:len(keys)], found, keys)
}

// find takes keys through the device; values or found may be nil.
func (d *OnDevice[K]) find(values []uint32, found []bool, keys []K) error {
	return d.dev.Do(device.Serve, func(q *device.Queue) error {
		n := min(len(keys), chunk)
		b := Batch{Op: Find, Keys: q.Temp(bytesOf[K](n)), Alone: true}
		if values != nil {
			b.Values = q.Temp(4 * n)
		}
		if found != nil {
			b.Results = q.Temp(n)
		}
		for from := 0; from < len(keys) && q.Err() == nil; from += n {
			to := min(from+n, len(keys))
			b.N = to - from
			device.CopyIn(q, b.Keys, keys[from:to])
			d.table.Start(q, b)
			if values != nil {
				device.CopyOut(q, values[from:to], b.Values)
			}
			if found != nil {
				device.CopyOut(q, found[from:to], b.Results)
			}
		}
		return q.Err()
	})
}

// Delete takes keys out and counts those that were there.
func (d *OnDevice[K]) Delete(keys []K) (deleted int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return 0, exact.ErrClosed
	}
	if len(keys) == 0 {
		return 0, nil
	}
	before := d.counts.Live
	err = d.change(func(q *device.Queue) error {
		kp := temporary(q, keys, bytesOf[K](len(keys)))
		if err := d.table.Run(q, Batch{Op: Delete, Keys: kp, N: len(keys), Alone: true}); err != nil {
			return err
		}
		c, err := d.table.Counts(q)
		if err == nil && stale(c.Dead, c.Live) {
			d.table.Flush(q)
		}
		return err
	})
	return before - d.counts.Live, err
}

// Len is the number of pairs.
func (d *OnDevice[K]) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return 0
	}
	return d.counts.Live
}

// All gives all pairs, in no order. It needs as much memory of the device as they have.
func (d *OnDevice[K]) All() (keys []K, values []uint32, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return nil, nil, exact.ErrClosed
	}
	n := d.counts.Live
	keys, values = make([]K, n), make([]uint32, n)
	if n == 0 {
		return keys, values, nil
	}
	err = d.dev.Do(device.Serve, func(q *device.Queue) error {
		kp, vp, count := q.Temp(bytesOf[K](n)), q.Temp(4*n), q.Temp(8)
		q.Fill(count, 0, 2)
		d.table.Iterate(q, kp, vp, n, count)
		device.CopyOut(q, keys, kp)
		device.CopyOut(q, values, vp)
		var all [1]uint64
		device.CopyOut(q, all[:], count)
		if q.Wait(); q.Err() == nil && all[0] != uint64(n) {
			return fmt.Errorf("the table has %d pairs and counts %d", all[0], n)
		}
		return q.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	return keys, values, nil
}

// Clone gives a copy.
func (d *OnDevice[K]) Clone() (exact.Table[K, uint32], error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.table == nil {
		return nil, exact.ErrClosed
	}
	c := &OnDevice[K]{dev: d.dev, counts: d.counts}
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
func (d *OnDevice[K]) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table == nil {
		return nil
	}
	// On a device that was lost or closed there is nothing left to free.
	_ = d.dev.Do(device.Build, func(q *device.Queue) error { d.table.Free(q); return nil })
	d.table = nil
	return nil
}
