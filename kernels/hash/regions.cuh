// Large batches of changes. A table is made of regions of 64 KB, and a key's way stays in its region. The
// requests of a batch are sorted by region, in one step or two; then a block takes a region to
// shared memory, does all its requests there and writes it back. So the table crosses the bus once there and
// back, in order, and atomics are those of shared memory: on an H200 one of the table's own costs as
// much as two to three random sectors.
//
// Include it after u32 and u64 are defined.

#define REGION 2048 // sectors of 32 bytes
#define BINS 256    // that a step sorts into
#define PART_THREADS 1024
#define TILE_BYTES (128 << 10) // of shared memory, of the requests that a block sorts at a time
#define REGION_THREADS 512

// A step sorts segments, one each blockIdx.y, each into its bins. ends, where not 0, is where each segment
// ends; the first step has one, of n requests.
__device__ __forceinline__ void segment(const u32 *ends, u64 n, u64 &begin, u64 &end) {
	begin = ends && blockIdx.y ? ends[blockIdx.y - 1] : 0;
	end = ends ? ends[blockIdx.y] : n;
}

// Counts the requests of every bin; bin(i) is the bin of request i. The counts of a segment are stride apart from the next one's.
template <class Bin>
__device__ __forceinline__ void count_requests(u32 *counts, u64 stride, const u32 *ends, u64 n, Bin bin) {
	__shared__ u32 own[BINS];
	u64 begin, end;
	segment(ends, n, begin, end);
	for (u32 i = threadIdx.x; i < BINS; i += PART_THREADS) own[i] = 0;
	__syncthreads();
	for (u64 i = begin + (u64)blockIdx.x * PART_THREADS + threadIdx.x; i < end; i += (u64)gridDim.x * PART_THREADS)
		atomicAdd(&own[bin(i)], 1u);
	__syncthreads();
	for (u32 i = threadIdx.x; i < BINS; i += PART_THREADS)
		if (own[i]) atomicAdd(counts + blockIdx.y * stride + i, own[i]);
}

// Moves requests to their bins, in no order within one. make(i) gives request i, bin_of(request) its
// bin. next is where each bin goes on, and in the end where it ends; a tile is put in order in shared memory
// first, so that what it has of a bin is written in one piece.
template <class Request, class Make, class BinOf>
__device__ __forceinline__ void scatter_requests(Request *out, u32 *next, u64 stride, const u32 *ends, u64 n, Make make, BinOf bin_of) {
	constexpr int ITEMS = TILE_BYTES / PART_THREADS / (sizeof(Request) < 8 ? 8 : sizeof(Request)); // more would not fit into registers
	extern __shared__ __align__(16) unsigned char memory[];
	Request *tile = (Request *)memory;
	__shared__ u32 count[BINS], first_of[BINS], warps[BINS / 32];
	u64 begin, end;
	segment(ends, n, begin, end);
	next += blockIdx.y * stride;
	const u64 size = PART_THREADS * ITEMS;
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (u64 first = begin + blockIdx.x * size; first < end; first += gridDim.x * size) {
		Request request[ITEMS];
		u32 rank[ITEMS];
		for (u32 i = threadIdx.x; i < BINS; i += PART_THREADS) count[i] = 0;
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * PART_THREADS + threadIdx.x;
			if (i < end) request[j] = make(i);
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * PART_THREADS + threadIdx.x;
			if (i < end) rank[j] = atomicAdd(&count[bin_of(request[j])], 1u);
		}
		__syncthreads();
		// Sums of all bins before, by the warps that have a bin a lane.
		u32 own = 0, sum = 0;
		if (warp < BINS / 32) {
			sum = own = count[threadIdx.x];
#pragma unroll
			for (u32 o = 1; o < 32; o *= 2) {
				const u32 x = __shfl_up_sync(0xffffffffu, sum, o);
				if (lane >= o) sum += x;
			}
			if (lane == 31) warps[warp] = sum;
		}
		__syncthreads();
		if (warp < BINS / 32) {
			for (u32 i = 0; i < warp; i++) sum += warps[i];
			first_of[threadIdx.x] = sum - own;
			// From here on count is how far a request moves from its place in the tile, modulo 2^32.
			count[threadIdx.x] = (own ? atomicAdd(next + threadIdx.x, own) : 0) - (sum - own);
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * PART_THREADS + threadIdx.x;
			if (i < end) tile[first_of[bin_of(request[j])] + rank[j]] = request[j];
		}
		__syncthreads();
		const u32 all = end - first < size ? (u32)(end - first) : (u32)size;
		for (u32 i = threadIdx.x; i < all; i += PART_THREADS) {
			const Request x = tile[i];
			out[count[bin_of(x)] + i] = x;
		}
		__syncthreads(); // before the next tile's counts
	}
}

// Brings a region of so many 64-bit words to shared memory, or empties it there, and takes it back. The whole block calls them.
__device__ __forceinline__ void fetch_region(u64 *region, const u64 *from, u64 words, bool fresh) {
	for (u64 i = threadIdx.x * 2; i < words; i += REGION_THREADS * 2)
		*(ulonglong2 *)(region + i) = fresh ? make_ulonglong2(0, 0) : __ldcs((const ulonglong2 *)(from + i));
	__syncthreads();
}
__device__ __forceinline__ void return_region(u64 *to, const u64 *region, u64 words) {
	__syncthreads();
	for (u64 i = threadIdx.x * 2; i < words; i += REGION_THREADS * 2) __stcs((ulonglong2 *)(to + i), *(const ulonglong2 *)(region + i));
}
