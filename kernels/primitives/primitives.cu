// Device-wide primitives: radix sort, scan, reduce by key, compaction. primitives.go launches them
// and says what each does; twins.go has the same steps in plain Go over the same buffers.
//
// All parameters take 8 bytes. A kernel whose blocks depend on each other's results takes blocks'
// numbers from a counter, so that a block waits only for blocks that have started.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu
#define BLOCK 256
#define WARPS (BLOCK / 32)
#define BINS 256

__device__ __forceinline__ u64 thread_id() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads() { return (u64)gridDim.x * blockDim.x; }

// Inclusive sum over a warp.
__device__ __forceinline__ u32 warp_scan(u32 x) {
	u32 lane = threadIdx.x & 31;
#pragma unroll
	for (u32 d = 1; d < 32; d *= 2) {
		u32 y = __shfl_up_sync(FULL, x, d);
		if (lane >= d) x += y;
	}
	return x;
}

// Exclusive sum over a block of BLOCK threads; total is the block's sum. sums has WARPS elements
// and may be used again after the next barrier.
__device__ __forceinline__ u32 block_scan(u32 x, u32 *sums, u32 *total) {
	u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32;
	u32 inclusive = warp_scan(x);
	if (lane == 31) sums[warp] = inclusive;
	__syncthreads();
	u32 before = 0, all = 0;
#pragma unroll
	for (u32 w = 0; w < WARPS; w++) {
		u32 s = sums[w];
		if (w < warp) before += s;
		all += s;
	}
	*total = all;
	return before + inclusive - x;
}

// ---- scan, with decoupled look-back

// A tile's state is one word of 64 bits, so that value and flag become visible together: a flag
// (0 nothing yet, 1 the tile's own sum, 2 the sum up to its end) above a value.
#define OWN (1ull << 32)
#define UPTO (2ull << 32)

// The number of the block's tile.
__device__ __forceinline__ u32 next_tile(u64 *state, u32 *shared) {
	if (threadIdx.x == 0) *shared = atomicAdd((u32 *)state, 1);
	__syncthreads();
	return *shared;
}

// The sum of all tiles before this one. state[0] is the counter, tiles follow.
__device__ __forceinline__ u32 look_back(u64 *state, u32 tile, u32 sum, u32 *shared) {
	volatile u64 *tiles = state + 1;
	if (threadIdx.x < 32) {
		u32 lane = threadIdx.x, before = 0;
		if (lane == 0) tiles[tile] = (tile ? OWN : UPTO) | sum;
		if (tile > 0) {
			for (long long last = (long long)tile - 1;; last -= 32) {
				long long t = last - lane;
				u64 s;
				do {
					s = t >= 0 ? tiles[t] : UPTO;
				} while (__any_sync(FULL, (s >> 32) == 0));
				u32 ends = __ballot_sync(FULL, (s >> 32) == 2);
				u32 to = ends ? __ffs(ends) - 1 : 31;
				u32 x = lane <= to ? (u32)s : 0;
#pragma unroll
				for (u32 d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL, x, d);
				before += x;
				if (ends) break;
			}
			if (lane == 0) tiles[tile] = UPTO | (u32)(before + sum);
		}
		if (lane == 0) *shared = before;
	}
	__syncthreads();
	return *shared;
}

#define ITEMS 16 // a thread's, one behind the other
#define TILE (BLOCK * ITEMS)

// A thread's items of a tile, `none` behind the end.
__device__ __forceinline__ void load_items(u32 *x, const u32 *in, u64 from, u64 n, u32 none) {
	if (from + ITEMS <= n) {
#pragma unroll
		for (int i = 0; i < ITEMS / 4; i++) {
			uint4 v = *((const uint4 *)(in + from) + i);
			x[4 * i] = v.x, x[4 * i + 1] = v.y, x[4 * i + 2] = v.z, x[4 * i + 3] = v.w;
		}
		return;
	}
#pragma unroll
	for (int i = 0; i < ITEMS; i++) x[i] = from + i < n ? in[from + i] : none;
}

// Sums of all elements up to each, it included or not. out may be in.
extern "C" __global__ void __launch_bounds__(BLOCK) scan(u32 *out, const u32 *in, u64 n, u64 inclusive, u64 *state) {
	__shared__ u32 sums[WARPS], tile_shared, before_shared;
	u32 tile = next_tile(state, &tile_shared);
	u64 from = (u64)tile * TILE + (u64)threadIdx.x * ITEMS;
	u32 x[ITEMS], own = 0, total;
	load_items(x, in, from, n, 0);
#pragma unroll
	for (int i = 0; i < ITEMS; i++) own += x[i];
	u32 sum = block_scan(own, sums, &total);
	sum += look_back(state, tile, total, &before_shared);
#pragma unroll
	for (int i = 0; i < ITEMS; i++) {
		u32 with = sum + x[i];
		x[i] = inclusive ? with : sum;
		sum = with;
	}
	if (from + ITEMS <= n) {
#pragma unroll
		for (int i = 0; i < ITEMS / 4; i++) *((uint4 *)(out + from) + i) = make_uint4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
		return;
	}
	for (int i = 0; i < ITEMS; i++)
		if (from + i < n) out[from + i] = x[i];
}

// The places of the elements whose flag is not 0, in order, and their number.
extern "C" __global__ void __launch_bounds__(BLOCK) compact(u32 *places, u32 *count, const u32 *flags, u64 n, u64 *state) {
	__shared__ u32 sums[WARPS], tile_shared, before_shared;
	u32 tile = next_tile(state, &tile_shared);
	u64 from = (u64)tile * TILE + (u64)threadIdx.x * ITEMS;
	u32 x[ITEMS], own = 0, total;
	load_items(x, flags, from, n, 0);
#pragma unroll
	for (int i = 0; i < ITEMS; i++) own += x[i] != 0;
	u32 to = block_scan(own, sums, &total);
	to += look_back(state, tile, total, &before_shared);
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
		if (x[i]) places[to++] = (u32)(from + i);
	if ((u64)(tile + 1) * TILE >= n && threadIdx.x == BLOCK - 1) *count = to;
}

// Runs of equal keys: each one's key, the sum of its values (without values its length), and the
// number of runs. sums is all zeros before.
extern "C" __global__ void __launch_bounds__(BLOCK) reduce_by_key(u32 *keys_out, u32 *sums_out, u32 *runs, const u32 *keys, const u32 *values, u64 n, u64 *state) {
	__shared__ u32 sums[WARPS], tile_shared, before_shared;
	u32 tile = next_tile(state, &tile_shared);
	u64 from = (u64)tile * TILE + (u64)threadIdx.x * ITEMS;
	u32 k[ITEMS], v[ITEMS], heads = 0, total;
	load_items(k, keys, from, n, 0);
	if (values) {
		load_items(v, values, from, n, 0);
	} else {
#pragma unroll
		for (int i = 0; i < ITEMS; i++) v[i] = from + i < n;
	}
	u32 previous = from > 0 && from < n ? keys[from - 1] : 0;
#pragma unroll
	for (int i = 0; i < ITEMS; i++) heads += from + i < n && (from + i == 0 || k[i] != (i ? k[i - 1] : previous));
	u32 run = block_scan(heads, sums, &total);
	run += look_back(state, tile, total, &before_shared);
	u32 sum = 0; // of the thread's items of the run that is numbered run-1
	bool some = false;
#pragma unroll
	for (int i = 0; i < ITEMS; i++) {
		if (from + i < n) {
			if (from + i == 0 || k[i] != (i ? k[i - 1] : previous)) {
				if (some) atomicAdd(&sums_out[run - 1], sum);
				keys_out[run++] = k[i];
				sum = 0;
			}
			sum += v[i];
			some = true;
		}
	}
	if (some) atomicAdd(&sums_out[run - 1], sum);
	if ((u64)(tile + 1) * TILE >= n && threadIdx.x == BLOCK - 1) *runs = run;
}

// ---- radix sort

// How often each digit of each place occurs. A span is word, lowest bit, end bit and number of its
// first digit, 8 bits each from the lowest on; 0 for none (an empty span).
extern "C" __global__ void radix_histogram(u32 *histogram, const u64 *w0, const u64 *w1, const u64 *w2, u64 n, u64 span0, u64 span1, u64 span2, u64 digits) {
	extern __shared__ u32 counts[];
	for (u32 i = threadIdx.x; i < digits * BINS; i += blockDim.x) counts[i] = 0;
	__syncthreads();
	u64 spans[3] = {span0, span1, span2};
	u64 rounds = (n + threads() - 1) / threads();
	for (u64 r = 0; r < rounds; r++) {
		u64 i = r * threads() + thread_id();
		bool valid = i < n;
		u32 active = __ballot_sync(FULL, valid);
		if (active == 0) break; // of this warp: nothing follows either
		u32 leader = __ffs(active) - 1;
#pragma unroll
		for (int s = 0; s < 3; s++) {
			u32 low = spans[s] >> 8 & 255, end = spans[s] >> 16 & 255, digit = spans[s] >> 24 & 255;
			if (low >= end) continue;
			const u64 *w = (spans[s] & 255) == 0 ? w0 : (spans[s] & 255) == 1 ? w1 : w2;
			u64 x = valid ? w[i] : 0;
			for (; low < end; low += 8, digit++) {
				u32 width = end - low < 8 ? end - low : 8;
				u32 d = (u32)(x >> low) & ((1u << width) - 1);
				// One digit for a whole warp is common: in keys that are sorted or have constant bits.
				u32 first = __shfl_sync(FULL, d, leader);
				if (__all_sync(FULL, !valid || d == first)) {
					if ((threadIdx.x & 31) == leader) atomicAdd(&counts[digit * BINS + d], __popc(active));
				} else if (valid) {
					atomicAdd(&counts[digit * BINS + d], 1);
				}
			}
		}
	}
	__syncthreads();
	for (u32 i = threadIdx.x; i < digits * BINS; i += blockDim.x)
		if (counts[i]) atomicAdd(&histogram[i], counts[i]);
}

// Histograms to where each digit's records start; and each pass's plan: bit 0 says which buffer has the records,
// bit 1 that the pass moves nothing, because all digits are equal. One block.
extern "C" __global__ void __launch_bounds__(BLOCK) radix_plan(u32 *histogram, u32 *plan, u64 n, u64 digits) {
	__shared__ u32 sums[WARPS];
	u32 from = 0;
	for (u64 d = 0; d < digits; d++) {
		u32 total, x = histogram[d * BINS + threadIdx.x];
		histogram[d * BINS + threadIdx.x] = block_scan(x, sums, &total);
		bool still = __syncthreads_or(x == n);
		if (threadIdx.x == 0) plan[d] = from | (still ? 2 : 0);
		if (!still) from ^= 1;
	}
	if (threadIdx.x == 0) plan[digits] = from;
}

#define SORT_ITEMS 8
#define SORT_TILE (BLOCK * SORT_ITEMS)
#define WARP_ITEMS (32 * SORT_ITEMS)

#define COUNT_MASK 0x3fffffffu
#define COUNT_OWN 0x40000000u
#define COUNT_UPTO 0x80000000u

// Moves records to their places by one digit, keeping the order of equal ones. A block counts its
// tile's digits, gets from the tiles before how many of each come first (thread d for digit d), and writes its
// records in the order of their digits, so that writes of neighbours fall together. state is a
// counter in 256 words, then 256 words a tile.
extern "C" __global__ void __launch_bounds__(BLOCK) radix_pass(u64 *a0, u64 *a1, u64 *a2, u64 *b0, u64 *b1, u64 *b2, u64 n, u64 words, u64 digit, const u32 *starts,
                                                               const u32 *plan, u32 *state) {
	__shared__ u64 staged[SORT_TILE];
	__shared__ u8 staged_digit[SORT_TILE];
	__shared__ u32 counts[WARPS][BINS];
	__shared__ u32 to[BINS]; // where a digit's records go, less their place in the tile
	__shared__ u32 sums[WARPS], tile_shared;
	u32 p = *plan;
	if (p & 2) return;
	u64 *const from[3] = {p & 1 ? b0 : a0, p & 1 ? b1 : a1, p & 1 ? b2 : a2};
	u64 *const into[3] = {p & 1 ? a0 : b0, p & 1 ? a1 : b1, p & 1 ? a2 : b2};
	u32 word = digit & 255, shift = digit >> 8 & 255, mask = (1u << (digit >> 16 & 255)) - 1;
	u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32;

	if (threadIdx.x == 0) tile_shared = atomicAdd(state, 1);
#pragma unroll
	for (u32 w = 0; w < WARPS; w++) counts[w][threadIdx.x] = 0;
	__syncthreads();
	u32 tile = tile_shared;
	volatile u32 *tiles = state + BINS;
	u64 first = (u64)tile * SORT_TILE + warp * WARP_ITEMS + lane;

	// Ranks among the warp's records of the same digit. What lies behind the end counts as the
	// last digit: it comes last there too, and is not written.
	const u64 *key = word == 0 ? from[0] : word == 1 ? from[1] : from[2];
	u32 rank[SORT_ITEMS]; // and the digit in the low 8 bits
#pragma unroll
	for (int i = 0; i < SORT_ITEMS; i++) {
		u64 k = first + i * 32;
		u32 d = k < n ? (u32)(key[k] >> shift) & mask : BINS - 1;
		u32 peers = __match_any_sync(FULL, d);
		u32 before = counts[warp][d];
		__syncwarp();
		if (lane == __ffs(peers) - 1) counts[warp][d] = before + __popc(peers);
		__syncwarp();
		rank[i] = (before + __popc(peers & ((1u << lane) - 1))) << 8 | d;
	}
	__syncthreads();

	// Thread d has digit d.
	u32 d = threadIdx.x, count = 0;
#pragma unroll
	for (u32 w = 0; w < WARPS; w++) {
		u32 c = counts[w][d];
		counts[w][d] = count;
		count += c;
	}
	tiles[(u64)tile * BINS + d] = (tile ? COUNT_OWN : COUNT_UPTO) | count;
	u32 total, in_tile = block_scan(count, sums, &total); // a barrier too
	u32 before = 0;
	if (tile > 0) {
		for (long long t = (long long)tile - 1;; t--) {
			u32 s;
			do {
				s = tiles[(u64)t * BINS + d];
			} while (s == 0);
			before += s & COUNT_MASK;
			if (s & COUNT_UPTO) break;
		}
		tiles[(u64)tile * BINS + d] = COUNT_UPTO | (before + count);
	}
	to[d] = starts[d] + before - in_tile;
#pragma unroll
	for (u32 w = 0; w < WARPS; w++) counts[w][d] += in_tile;
	__syncthreads();

#pragma unroll
	for (int i = 0; i < SORT_ITEMS; i++) {
		u32 d = rank[i] & 255;
		rank[i] = counts[warp][d] + (rank[i] >> 8); // its place in the tile
		staged_digit[rank[i]] = (u8)d;
	}
	u32 valid = n - (u64)tile * SORT_TILE < SORT_TILE ? (u32)(n - (u64)tile * SORT_TILE) : SORT_TILE;
	for (u32 w = 0; w < words; w++) {
		const u64 *in = w == 0 ? from[0] : w == 1 ? from[1] : from[2];
		u64 *out = w == 0 ? into[0] : w == 1 ? into[1] : into[2];
#pragma unroll
		for (int i = 0; i < SORT_ITEMS; i++) {
			u64 k = first + i * 32;
			if (k < n) staged[rank[i]] = in[k];
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < SORT_ITEMS; i++) {
			u32 j = i * BLOCK + threadIdx.x;
			if (j < valid) out[to[staged_digit[j]] + j] = staged[j];
		}
		__syncthreads();
	}
}

// Brings the records back if they ended in the second buffer.
extern "C" __global__ void radix_settle(u64 *a0, u64 *a1, u64 *a2, const u64 *b0, const u64 *b1, const u64 *b2, u64 n, u64 words, const u32 *plan) {
	if (!(*plan & 1)) return;
	for (u64 i = thread_id(); i < n; i += threads()) {
		a0[i] = b0[i];
		if (words > 1) a1[i] = b1[i];
		if (words > 2) a2[i] = b2[i];
	}
}
