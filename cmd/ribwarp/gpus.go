package main

import (
	"slices"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/lpm"
)

// gpus names the GPUs that an engine's tables are on, for status pages; none where there are none.
func (o *engineOptions) gpus(engine lpm.Engine) (used []api.GPU) {
	if _, ok := engine.(*lpm.Failover); !ok || cuda == nil {
		return nil
	}
	all, err := cuda.list()
	if err != nil {
		return nil // the engine was opened: it is in use, and cannot be named
	}
	indexes, err := o.indexes()
	if err != nil {
		return nil
	}
	for _, g := range all {
		if indexes == nil || slices.Contains(indexes, g.Index) {
			used = append(used, api.GPU{Name: g.Name, Memory: g.Memory})
		}
	}
	return used
}
