package linear

import "github.com/ribwarp/ribwarp/kernels/device"

// SetSorting has other batches sorted, SetChunks makes the chunks of OnDevice smaller, until restore is called.
func SetSorting(requests, slots, most int, cache float64) (restore func()) {
	before := sorting
	sorting.requests, sorting.slots, sorting.most, sorting.cache = requests, slots, most, cache
	return func() { sorting = before }
}

func SetChunks(bytes, least int) (restore func()) {
	b, l := chunkBytes, leastChunk
	chunkBytes, leastChunk = bytes, least
	return func() { chunkBytes, leastChunk = b, l }
}

// KeyOf gives the key with a hash.
func KeyOf[W Word](hash W) W { return unmix(hash) }

// Mix is the hash.
func Mix[W Word](key W) W { return mix(key) }

// AllInto is All to memory of the caller.
func (d *OnDevice[W]) AllInto(keys, values []W) error { return d.all(keys, values) }

// Clear empties the table.
func (d *OnDevice[W]) Clear() error {
	return d.change(func(q *device.Queue) error { d.table.Clear(q); return q.Err() })
}

// Feed is what InsertResults does with a batch, without the inserts.
func (d *OnDevice[W]) Feed(keys, values []W, results []byte) error {
	if err := d.staging.prepare(d.dev, len(keys)); err != nil {
		return err
	}
	return d.dev.Do(device.Build, func(q *device.Queue) error {
		return d.staging.run(q, flow[W]{keys: keys, values: values, results: results,
			launch: func(*device.Queue, device.Ptr, device.Ptr, device.Ptr, device.Ptr, int) {}})
	})
}
