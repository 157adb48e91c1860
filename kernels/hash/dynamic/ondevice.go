package dynamic

import (
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// OnDevice is a Map for callers whose keys are in ordinary memory. It implements exact.Table; finds run
// beside each other, changes alone.
type OnDevice[K Keys, V Values] struct {
	dev *device.Device
	mu  sync.RWMutex
	m   *Map // nil when closed
}

// NewOnDevice makes a map with so many slots, rounded up, on a device that was opened with Modules.
func NewOnDevice[K Keys, V Values](dev *device.Device, slots int, o Options) (*OnDevice[K, V], error) {
	d := &OnDevice[K, V]{dev: dev}
	err := dev.Do(device.Build, func(q *device.Queue) (err error) {
		d.m, err = New(q, KindOf[K, V](), slots, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// most is the number of keys that go to the device at a time: it bounds the memory there.
const most = 1 << 24

func bytesOf[T any](n int) int { return n * int(unsafe.Sizeof(*new(T))) }

// upload brings a slice to temporary memory of the device.
func upload[T any](q *device.Queue, s []T) device.Ptr {
	p := q.Temp(bytesOf[T](len(s)))
	device.CopyIn(q, p, s)
	return p
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key
// that is in a batch twice one of the values stays. After device.ErrMemory those of a batch of up to
// 2^24 pairs are not in, of a larger one the first 2^24 pairs, or so many times as many, may be.
func (d *OnDevice[K, V]) Insert(keys []K, values []V) (added int, err error) {
	err = d.change(func(q *device.Queue) error {
		for first := 0; first < len(keys) && q.Err() == nil; first += most {
			ks, vs := keys[first:min(first+most, len(keys))], values[first:min(first+most, len(keys))]
			kp, vp := upload(q, ks), upload(q, vs)
			n, err := d.m.Insert(q, kp, vp, len(ks), true, 0)
			if err != nil {
				return err
			}
			added += n
			q.Free(kp)
			q.Free(vp)
		}
		return q.Err()
	})
	return added, err
}

// Delete takes keys out and counts those that were there.
func (d *OnDevice[K, V]) Delete(keys []K) (deleted int, err error) {
	err = d.change(func(q *device.Queue) error {
		for first := 0; first < len(keys) && q.Err() == nil; first += most {
			ks := keys[first:min(first+most, len(keys))]
			kp := upload(q, ks)
			n, err := d.m.Erase(q, kp, len(ks), 0)
			if err != nil {
				return err
			}
			deleted += n
			q.Free(kp)
		}
		return q.Err()
	})
	return deleted, err
}

func (d *OnDevice[K, V]) change(job func(q *device.Queue) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		return exact.ErrClosed
	}
	return d.dev.Do(device.Build, job)
}

func (d *OnDevice[K, V]) read(job func(q *device.Queue) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.m == nil {
		return exact.ErrClosed
	}
	return d.dev.Do(device.Serve, job)
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (d *OnDevice[K, V]) Find(values []V, found []bool, keys []K) error {
	return d.read(func(q *device.Queue) error {
		for first := 0; first < len(keys) && q.Err() == nil; first += most {
			last := min(first+most, len(keys))
			n := last - first
			kp, vp, fp := upload(q, keys[first:last]), q.Temp(bytesOf[V](n)), device.Ptr(0)
			if found != nil {
				fp = q.Temp(n)
			}
			d.m.Find(q, vp, fp, kp, n)
			device.CopyOut(q, values[first:last], vp)
			if found != nil {
				device.CopyOut(q, found[first:last], fp)
			}
			q.Wait()
			q.Free(kp)
			q.Free(vp)
			q.Free(fp)
		}
		return q.Err()
	})
}

// Len is the number of pairs.
func (d *OnDevice[K, V]) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.m == nil {
		return 0
	}
	return d.m.Len()
}

// All gives all pairs, in no order.
func (d *OnDevice[K, V]) All() (keys []K, values []V, err error) {
	err = d.read(func(q *device.Queue) error {
		n := d.m.Len()
		kp, vp, count := q.Temp(bytesOf[K](n)), q.Temp(bytesOf[V](n)), q.Temp(8)
		d.m.RetrieveAll(q, Tiles, kp, vp, count)
		keys, values = make([]K, n), make([]V, n)
		device.CopyOut(q, keys, kp)
		device.CopyOut(q, values, vp)
		q.Wait()
		return q.Err()
	})
	if err != nil {
		return nil, nil, err
	}
	return keys, values, nil
}

// Clone gives a copy.
func (d *OnDevice[K, V]) Clone() (exact.Table[K, V], error) {
	c := &OnDevice[K, V]{dev: d.dev}
	err := d.read(func(q *device.Queue) (err error) {
		c.m, err = d.m.Clone(q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close frees the map.
func (d *OnDevice[K, V]) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		return nil
	}
	// On a device that was lost or closed there is nothing left to free.
	_ = d.dev.Do(device.Build, func(q *device.Queue) error { d.m.Free(q); return nil })
	d.m = nil
	return nil
}
