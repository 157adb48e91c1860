package flavors

// SetChunkBytes makes lookups on GPUs go in chunks of at most n bytes, until restore is called.
func SetChunkBytes(n int) (restore func()) {
	before := chunkBytes
	chunkBytes = n
	return func() { chunkBytes = before }
}
