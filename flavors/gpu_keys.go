package flavors

import (
	"errors"
	"sync"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/tree"
)

// A GPUKeyTree is a KeyTree on a device: it finds keys of one length exactly. It is immutable and
// safe for concurrent use until it is closed.
type GPUKeyTree struct {
	dev   *device.Device
	image *tree.Image
	close sync.Once
}

// NewGPUKeyTree builds a tree of keys in any order on a device that was opened with tree.Modules. Of equal
// keys the first counts. Keys must fit the strides' width, with the bits behind it zero; there can be up to
// primitives.MaxElements (2^30 - 1). Errors wrap lpm.ErrMemory, lpm.ErrLost or ErrStrides.
func NewGPUKeyTree(d *device.Device, st *Strides, keys []Key) (*GPUKeyTree, error) {
	t := &GPUKeyTree{dev: d}
	err := d.Do(device.Build, func(q *device.Queue) (err error) {
		in := tree.Columns{Hi: q.Temp(8 * len(keys)), N: len(keys), Longest: st.width}
		words := make([]uint64, len(keys))
		for i, k := range keys {
			words[i] = k.Hi
		}
		device.CopyIn(q, in.Hi, words)
		if st.width > 64 {
			for i, k := range keys {
				words[i] = k.Lo
			}
			in.Lo = q.Temp(8 * len(keys))
			device.CopyIn(q, in.Lo, words)
		}
		q.Wait()
		t.image, err = tree.Build(q, tree.NewShape(st.list), in, tree.Keys)
		return err
	})
	if err != nil {
		return nil, gpuError(err)
	}
	return t, nil
}

// Len is the number of different keys.
func (t *GPUKeyTree) Len() int { return t.image.Sorted.N }

// Image gives the tree as it lies on the device, for searches of keys that are there already.
func (t *GPUKeyTree) Image() *tree.Image { return t.image }

// FindAll gives each key the position that it had in the input, or NotFound. dst is as long as keys.
// Keys are copied to the device and answers back.
func (t *GPUKeyTree) FindAll(dst []int32, keys []Key) error {
	dst = dst[:len(keys):len(dst)]
	return gpuError(t.dev.Do(device.Serve, func(q *device.Queue) error {
		in, out := q.Temp(16*len(keys)), q.Temp(4*len(keys))
		device.CopyIn(q, in, keys)
		t.image.Find(q, out, in, len(keys), 128)
		device.CopyOut(q, dst, out)
		q.Wait()
		return q.Err()
	}))
}

// Close gives the device memory back. No search may run; a second call does nothing.
func (t *GPUKeyTree) Close() error {
	var err error
	t.close.Do(func() {
		err = t.dev.Do(device.Serve, func(q *device.Queue) error { t.image.Free(q); return nil })
	})
	if errors.Is(err, device.ErrLost) || errors.Is(err, device.ErrClosed) {
		return nil // its memory is gone already
	}
	return gpuError(err)
}
