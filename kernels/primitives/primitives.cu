// Device-wide sort, scan, reduce-by-key and compaction. sort.go and scan.go launch the kernels and
// say what each is for; twins.go has them in plain Go over the same buffers.
//
// All parameters take 8 bytes. All of it rests on tiles: a block takes a tile, and what it has to
// know of the tiles before it finds by decoupled look-back. Every tile publishes a status: nothing
// yet, the sum of its own elements, or the sum of all up to its end. A tile adds the sums before it, going back
// until it meets one of the last kind. Sum and kind lie in one word that is read and
// written at once, so no fences are needed. Blocks number their tiles as they start, so those
// that are waited for are running.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define FULL 0xffffffffu
#define THREADS 512 // a block, if nothing else is said
#define WARPS (THREADS / 32)

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % 32; }
__device__ __forceinline__ u32 warp_id() { return threadIdx.x / 32; }

// The place in a tile of a thread's item j. Places grow with warp, item and lane in this order, so
// that loads are coalesced and every warp has a piece of its own.
template <int ITEMS>
__device__ __forceinline__ u32 place(int j) { return (warp_id() * ITEMS + j) * 32 + lane_id(); }

// ---- scan, reduce-by-key, compaction

#define SCAN_ITEMS 8 // a thread; scan.go knows the size of a tile
#define SCAN_TILE (THREADS * SCAN_ITEMS)

// The kind of a status, in its highest bits.
#define SCAN_OWN (1ull << 62)
#define SCAN_ALL (2ull << 62)
#define SCAN_KINDS (3ull << 62)

// What is added up: both know 0 as "nothing".
struct Sum {
	typedef u32 T;
	static __device__ __forceinline__ T join(T a, T b) { return a + b; }
};

// Runs of equal keys: how many begin (upper half, below 2^30) and the sum of the last one's values.
struct Runs {
	typedef u64 T;
	static __device__ __forceinline__ T join(T a, T b) {
		u32 sum = (u32)b;
		if (b >> 32 == 0) sum += (u32)a;
		return ((a >> 32) + (b >> 32)) << 32 | sum;
	}
};

template <class Op>
__device__ __forceinline__ typename Op::T scan_warp(typename Op::T x) {
#pragma unroll
	for (u32 o = 1; o < 32; o *= 2) {
		typename Op::T y = __shfl_up_sync(FULL, x, o);
		if (lane_id() >= o) x = Op::join(y, x);
	}
	return x;
}

// Publishes a tile's own sum and gives the sum of all tiles before. A whole warp calls it and looks
// at 32 tiles at a time.
template <class Op>
__device__ __forceinline__ typename Op::T scan_look_back(volatile u64 *status, u64 tile, typename Op::T own) {
	typedef typename Op::T T;
	const u32 lane = lane_id();
	if (lane == 0) status[tile] = (tile == 0 ? SCAN_ALL : SCAN_OWN) | own;
	if (tile == 0) return 0;
	T before = 0;
	for (u64 end = tile;;) {
		u64 s = lane < end ? status[end - 1 - lane] : SCAN_ALL;
		u32 missing = __ballot_sync(FULL, (s & SCAN_KINDS) == 0);
		u32 all = __ballot_sync(FULL, (s & SCAN_ALL) != 0);
		u32 last = all ? __ffs(all) - 1 : 31; // the farthest tile that is of interest
		if (missing & (FULL >> (31 - last))) continue;
		T x = lane <= last ? (T)(s & ~SCAN_KINDS) : 0;
#pragma unroll
		for (u32 o = 1; o < 32; o *= 2) x = Op::join(__shfl_down_sync(FULL, x, o), x); // right in lane 0
		before = Op::join(__shfl_sync(FULL, x, 0), before);
		if (all) break;
		end -= 32;
	}
	if (lane == 0) status[tile] = SCAN_ALL | Op::join(before, own);
	return before;
}

// Takes the next tile. state is a counter and then a status a tile; there is none for a single tile.
__device__ __forceinline__ u64 take_scan_tile(u64 *state) {
	__shared__ u64 taken;
	if (threadIdx.x == 0) taken = state ? atomicAdd(state, 1ull) : 0;
	__syncthreads();
	return taken;
}

// Turns the items of a tile into the sums of all items up to each.
template <class Op>
__device__ __forceinline__ void scan_tile(typename Op::T (&x)[SCAN_ITEMS], u64 tile, u64 *state) {
	typedef typename Op::T T;
	__shared__ T sums[WARPS]; // of the warps, then of all that is before a warp
	T sum = 0;
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		x[j] = Op::join(sum, scan_warp<Op>(x[j]));
		sum = __shfl_sync(FULL, x[j], 31);
	}
	if (lane_id() == 0) sums[warp_id()] = sum;
	__syncthreads();
	if (warp_id() == 0) {
		T up_to = scan_warp<Op>(lane_id() < WARPS ? sums[lane_id()] : 0);
		T own = __shfl_sync(FULL, up_to, 31);
		T before = __shfl_up_sync(FULL, up_to, 1);
		if (lane_id() == 0) before = 0;
		if (state) before = Op::join(scan_look_back<Op>(state + 1, tile, own), before);
		if (lane_id() < WARPS) sums[lane_id()] = before;
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) x[j] = Op::join(sums[warp_id()], x[j]);
}

// out may be in: a tile is read before any of it is written.
extern "C" __global__ void __launch_bounds__(THREADS) scan(u32 *out, const u32 *in, u64 n, u64 inclusive, u64 *state) {
	const u64 tile = take_scan_tile(state), first = tile * SCAN_TILE;
	u32 own[SCAN_ITEMS], x[SCAN_ITEMS];
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		x[j] = own[j] = i < n ? in[i] : 0;
	}
	scan_tile<Sum>(x, tile, state);
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		if (i < n) out[i] = inclusive ? x[j] : x[j] - own[j];
	}
}

// A run's last element knows its number and its sum.
extern "C" __global__ void __launch_bounds__(THREADS) reduce_by_key(u32 *keys_out, u32 *sums_out, u32 *runs, const u32 *keys, const u32 *values, u64 n,
                                                                    u64 *state) {
	const u64 tile = take_scan_tile(state), first = tile * SCAN_TILE;
	u64 x[SCAN_ITEMS];
	u32 key[SCAN_ITEMS];
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		x[j] = 0;
		if (i < n) {
			key[j] = keys[i];
			u64 begins = i == 0 || keys[i - 1] != key[j];
			x[j] = begins << 32 | (values ? values[i] : 1);
		}
	}
	scan_tile<Runs>(x, tile, state);
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		if (i < n && (i + 1 == n || keys[i + 1] != key[j])) {
			u32 run = (u32)(x[j] >> 32) - 1;
			keys_out[run] = key[j];
			sums_out[run] = (u32)x[j];
			if (i + 1 == n) *runs = run + 1;
		}
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) compact(u32 *indices, u32 *count, const u32 *flags, u64 n, u64 *state) {
	const u64 tile = take_scan_tile(state), first = tile * SCAN_TILE;
	u32 kept[SCAN_ITEMS], x[SCAN_ITEMS];
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		x[j] = kept[j] = i < n && flags[i] != 0;
	}
	scan_tile<Sum>(x, tile, state);
#pragma unroll
	for (int j = 0; j < SCAN_ITEMS; j++) {
		u64 i = first + place<SCAN_ITEMS>(j);
		if (kept[j]) indices[x[j] - 1] = (u32)i;
		if (i + 1 == n) *count = x[j];
	}
}

// ---- sort

#define BINS 256
#define MAX_DIGITS 24
#define NO_RECORD (BINS - 1) // the digit of what a tile has behind the last record: it stays there

// Records of a tile for each thread, by words of a record; sort.go knows the sizes of tiles.
#define SORT_ITEMS(W) ((W) == 1 ? 8 : 4)
#define SMALL_ITEMS 8

// The kind of a status, in its highest bits.
#define SORT_OWN (1u << 30)
#define SORT_ALL (2u << 30)
#define SORT_KINDS (3u << 30)
#define WINDOW 8 // statuses that a thread reads at once

// What a pass has to do, from sort_plan.
#define PLAN_COPY 1u   // the records to the other side as they are
#define PLAN_SORT 2u   // by the digit
#define PLAN_BACK 4u   // from the scratch records to the given ones
#define PLAN_SECOND 8u // with the second half of the statuses

// A digit is width | low << 4 | word << 10.
__device__ __forceinline__ u32 digit_word(u32 digit) { return digit >> 10; }
__device__ __forceinline__ u32 digit_of(u64 word, u32 digit) { return (u32)(word >> (digit >> 4 & 63)) & ((1u << (digit & 15)) - 1); }

// Digit p of those that are passed four a word.
__device__ __forceinline__ u32 packed_digit(u32 p, u64 d0, u64 d1, u64 d2, u64 d3, u64 d4, u64 d5) {
	u64 d = p < 4 ? d0 : p < 8 ? d1 : p < 12 ? d2 : p < 16 ? d3 : p < 20 ? d4 : d5;
	return (u32)(d >> p % 4 * 16) & 0xffff;
}

template <class T>
__device__ __forceinline__ T pick(u32 i, T x0, T x1, T x2) { return i == 0 ? x0 : i == 1 ? x1 : x2; }

// Counts the records by all digits, turns the counts into the places where each bin starts, and
// plans the passes; the last two are the last block's. A digit that all records share needs no
// pass. The number of passes is even (one that has no digit is left out like those), so that the
// result is on the side where the records were; where an odd number is left out, the first of
// them copies instead. Words in which no digit lies are 0.
extern "C" __global__ void __launch_bounds__(1024) sort_plan(const u64 *w0, const u64 *w1, const u64 *w2, u64 n, u64 digits, u64 d0, u64 d1, u64 d2, u64 d3,
                                                             u64 d4, u64 d5, u32 *bins, u32 *plan, u32 *done) {
	__shared__ u32 counts[MAX_DIGITS * BINS];
	__shared__ u32 shared_by_all[MAX_DIGITS];
	__shared__ u32 digit[MAX_DIGITS];
	__shared__ bool last;
	const u32 t = threadIdx.x, size = (u32)digits * BINS;
	for (u32 i = t; i < size; i += blockDim.x) counts[i] = 0;
	if (t < digits) digit[t] = packed_digit(t, d0, d1, d2, d3, d4, d5);
	__syncthreads();

	enum { AT_ONCE = 4 };
	const u64 step = (u64)gridDim.x * blockDim.x;
	for (u64 i = (u64)blockIdx.x * blockDim.x + t; i < n; i += AT_ONCE * step) {
		u64 x0[AT_ONCE], x1[AT_ONCE], x2[AT_ONCE];
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			u64 k = i + u * step;
			x0[u] = w0 && k < n ? w0[k] : 0;
			x1[u] = w1 && k < n ? w1[k] : 0;
			x2[u] = w2 && k < n ? w2[k] : 0;
		}
		for (u32 p = 0; p < digits; p++) {
			u32 d = digit[p];
#pragma unroll
			for (int u = 0; u < AT_ONCE; u++) {
				u64 x = pick(digit_word(d), x0[u], x1[u], x2[u]);
				if (i + u * step < n) atomicAdd(&counts[p * BINS + digit_of(x, d)], 1);
			}
		}
	}
	__syncthreads();
	for (u32 i = t; i < size; i += blockDim.x)
		if (counts[i]) atomicAdd(&bins[i], counts[i]);
	__threadfence();
	__syncthreads();
	if (t == 0) last = atomicAdd(done, 1) + 1 == gridDim.x;
	__syncthreads();
	if (!last) return;
	__threadfence();

	const u32 p = warp_id(); // a digit a warp: there are more warps than digits
	if (p < digits) {
		volatile u32 *bin = bins + p * BINS + lane_id() * (BINS / 32);
		u32 x[BINS / 32], sum = 0, whole = 0;
#pragma unroll
		for (int j = 0; j < BINS / 32; j++) {
			x[j] = bin[j];
			sum += x[j];
			whole |= x[j] == n;
		}
		u32 start = scan_warp<Sum>(sum) - sum;
#pragma unroll
		for (int j = 0; j < BINS / 32; j++) {
			bin[j] = start;
			start += x[j];
		}
		u32 any = __ballot_sync(FULL, whole);
		if (lane_id() == 0) shared_by_all[p] = any != 0;
	}
	__syncthreads();
	if (t == 0) {
		const u32 passes = (u32)digits + (u32)digits % 2;
		u32 sorts = 0;
		for (u32 i = 0; i < digits; i++) sorts += !shared_by_all[i];
		u32 side = 0, half = 0;
		bool copy = sorts % 2 != 0;
		for (u32 i = 0; i < passes; i++) {
			u32 what = 0;
			if (i < digits && !shared_by_all[i]) {
				what = PLAN_SORT | side | half;
				half ^= PLAN_SECOND;
			} else if (copy) {
				what = PLAN_COPY | side;
				copy = false;
			}
			if (what) side ^= PLAN_BACK;
			plan[i] = what;
		}
	}
}

// What a block needs to rank the digits of a tile. 16 bits are enough for a tile's places.
struct Ranks {
	u16 before[WARPS][BINS]; // a warp's number of each digit, then that of the warps before
	u32 start[BINS];         // the first place of each digit in the tile
	u32 sums[BINS / 32];
};

// Numbers the equal digits of each warp, from 0 on in the order of places. Thread t < BINS
// gets the number of digits t in the tile.
template <int ITEMS>
__device__ __forceinline__ u32 count_digits(Ranks &r, const u32 (&digit)[ITEMS], u32 (&rank)[ITEMS]) {
	u16 *mine = r.before[warp_id()];
	for (u32 i = lane_id(); i < BINS; i += 32) mine[i] = 0;
	__syncwarp();
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		u32 peers = __match_any_sync(FULL, digit[j]);
		u32 before = __popc(peers & ((1u << lane_id()) - 1));
		u32 seen = 0;
		if (before == 0) {
			seen = mine[digit[j]];
			mine[digit[j]] = (u16)(seen + __popc(peers));
		}
		__syncwarp();
		rank[j] = __shfl_sync(FULL, seen, __ffs(peers) - 1) + before;
	}
	__syncthreads();
	u32 count = 0;
	if (threadIdx.x < BINS) {
#pragma unroll
		for (int w = 0; w < WARPS; w++) {
			u32 c = r.before[w][threadIdx.x];
			r.before[w][threadIdx.x] = (u16)count;
			count += c;
		}
	}
	return count;
}

// Turns the numbers into places in the sorted tile. count is what count_digits gave.
template <int ITEMS>
__device__ __forceinline__ void place_digits(Ranks &r, u32 count, const u32 (&digit)[ITEMS], u32 (&rank)[ITEMS]) {
	u32 up_to = scan_warp<Sum>(count);
	if (threadIdx.x < BINS && lane_id() == 31) r.sums[warp_id()] = up_to;
	__syncthreads();
	if (threadIdx.x < BINS) {
		u32 start = up_to - count;
		for (u32 w = 0; w < warp_id(); w++) start += r.sums[w];
		r.start[threadIdx.x] = start;
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < ITEMS; j++) rank[j] += r.start[digit[j]] + r.before[warp_id()][digit[j]];
}

// The number of digits t in all tiles before: thread t's look-back.
__device__ __forceinline__ u32 sort_look_back(const volatile u32 *status, u32 tile, u32 t) {
	u32 sum = 0;
	for (u32 end = tile; end > 0;) {
		u32 s[WINDOW];
#pragma unroll
		for (u32 k = 0; k < WINDOW; k++) s[k] = k < end ? status[(u64)(end - 1 - k) * BINS + t] : SORT_ALL;
		u32 next = end;
#pragma unroll
		for (u32 k = 0; k < WINDOW; k++) {
			if ((s[k] & SORT_KINDS) == 0) break;
			sum += s[k] & ~SORT_KINDS;
			next--;
			if (s[k] & SORT_ALL) {
				next = 0;
				break;
			}
		}
		end = next;
	}
	return sum;
}

// One pass: the records from one side to the other, stably sorted by a digit.
template <int W>
__device__ __forceinline__ void sort_pass(const u64 *a0, const u64 *a1, const u64 *a2, u64 *b0, u64 *b1, u64 *b2, u32 what, u64 n, u32 digit,
                                          const u32 *starts, u32 *counter, u32 *status) {
	enum { ITEMS = SORT_ITEMS(W), TILE = THREADS * ITEMS };
	const u32 t = threadIdx.x;
	if (what & PLAN_COPY) {
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			u64 i = (u64)blockIdx.x * TILE + place<ITEMS>(j);
			if (i >= n) break;
			b0[i] = a0[i];
			if (W > 1) b1[i] = a1[i];
			if (W > 2) b2[i] = a2[i];
		}
		return;
	}

	__shared__ Ranks ranks;
	__shared__ u64 sorted[TILE];
	__shared__ u32 base[BINS]; // where a digit's records go, less their places in the tile
	__shared__ u32 taken;
	if (t == 0) taken = atomicAdd(counter, 1);
	__syncthreads();
	const u32 tile = taken;
	const u64 first = (u64)tile * TILE;
	const u32 size = n - first < TILE ? (u32)(n - first) : TILE;

	// The digit's word comes first, it is put in order first.
	const u64 *from[W];
	u64 *to[W];
#pragma unroll
	for (int k = 0; k < W; k++) {
		u32 w = (digit_word(digit) + k) % W;
		from[k] = pick(w, a0, a1, a2);
		to[k] = pick(w, b0, b1, b2);
	}
	u64 word[W][ITEMS];
	u32 d[ITEMS], rank[ITEMS];
#pragma unroll
	for (int k = 0; k < W; k++)
#pragma unroll
		for (int j = 0; j < ITEMS; j++) word[k][j] = place<ITEMS>(j) < size ? from[k][first + place<ITEMS>(j)] : 0;
#pragma unroll
	for (int j = 0; j < ITEMS; j++) d[j] = place<ITEMS>(j) < size ? digit_of(word[0][j], digit) : NO_RECORD;

	const u64 half = (u64)gridDim.x * BINS;
	volatile u32 *now = status + (what & PLAN_SECOND ? half : 0), *next = status + (what & PLAN_SECOND ? 0 : half);
	const u64 own = (u64)tile * BINS + t;
	// Places without a record are counted too, but only in the last tile, whose status nobody reads.
	const u32 count = count_digits<ITEMS>(ranks, d, rank);
	if (t < BINS) {
		now[own] = (tile == 0 ? SORT_ALL : SORT_OWN) | count;
		next[own] = 0; // nobody reads that half in this pass
	}
	place_digits<ITEMS>(ranks, count, d, rank);
#pragma unroll
	for (int j = 0; j < ITEMS; j++) sorted[rank[j]] = word[0][j];
	if (t < BINS) {
		u32 start = starts[t];
		u32 before = sort_look_back(now, tile, t);
		if (tile > 0) now[own] = SORT_ALL | (before + count);
		base[t] = start + before - ranks.start[t];
	}
	__syncthreads();

	u32 dst[ITEMS];
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		u32 i = j * THREADS + t;
		if (i < size) {
			u64 x = sorted[i];
			dst[j] = base[digit_of(x, digit)] + i;
			to[0][dst[j]] = x;
		}
	}
#pragma unroll
	for (int k = 1; k < W; k++) {
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) sorted[rank[j]] = word[k][j];
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			u32 i = j * THREADS + t;
			if (i < size) to[k][dst[j]] = sorted[i];
		}
	}
}

#define SORT_PASS(W)                                                                                                                                \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) sort_pass_##W(u64 *a0, u64 *a1, u64 *a2, u64 *b0, u64 *b1, u64 *b2, u64 n, u64 digit,  \
	                                                                       const u32 *starts, const u32 *plan, u32 *counter, u32 *status) {         \
		const u32 what = *plan;                                                                                                                     \
		if (what == 0) return;                                                                                                                      \
		const bool back = what & PLAN_BACK;                                                                                                         \
		sort_pass<W>(back ? b0 : a0, back ? b1 : a1, back ? b2 : a2, back ? a0 : b0, back ? a1 : b1, back ? a2 : b2, what, n, (u32)digit, starts,   \
		             counter, status);                                                                                                              \
	}

SORT_PASS(1)
SORT_PASS(2)
SORT_PASS(3)

// All passes over the records of a single tile, in place, by one block.
template <int W>
__device__ __forceinline__ void sort_small(u64 *w0, u64 *w1, u64 *w2, u32 n, u32 digits, u64 d0, u64 d1, u64 d2, u64 d3, u64 d4, u64 d5) {
	enum { ITEMS = SMALL_ITEMS };
	__shared__ Ranks ranks;
	__shared__ u64 sorted[THREADS * ITEMS];
	u64 word[W][ITEMS];
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		u32 i = place<ITEMS>(j);
		word[0][j] = i < n ? w0[i] : 0;
		if (W > 1) word[W > 1][j] = i < n ? w1[i] : 0;
		if (W > 2) word[W - 1][j] = i < n ? w2[i] : 0;
	}
	for (u32 p = 0; p < digits; p++) {
		const u32 digit = packed_digit(p, d0, d1, d2, d3, d4, d5);
		u32 d[ITEMS], rank[ITEMS];
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			u64 x = pick(digit_word(digit), word[0][j], word[W > 1][j], word[W - 1][j]);
			d[j] = place<ITEMS>(j) < n ? digit_of(x, digit) : NO_RECORD;
		}
		u32 count = count_digits<ITEMS>(ranks, d, rank);
		place_digits<ITEMS>(ranks, count, d, rank);
		// Thread 255 counts places without a record too.
		if (__syncthreads_or(threadIdx.x < BINS && count == (threadIdx.x == NO_RECORD ? THREADS * ITEMS : n)))
			continue; // all records share the digit
#pragma unroll
		for (int k = 0; k < W; k++) {
#pragma unroll
			for (int j = 0; j < ITEMS; j++) sorted[rank[j]] = word[k][j];
			__syncthreads();
#pragma unroll
			for (int j = 0; j < ITEMS; j++) word[k][j] = sorted[place<ITEMS>(j)];
			__syncthreads();
		}
	}
#pragma unroll
	for (int j = 0; j < ITEMS; j++) {
		u32 i = place<ITEMS>(j);
		if (i >= n) break;
		w0[i] = word[0][j];
		if (W > 1) w1[i] = word[W > 1][j];
		if (W > 2) w2[i] = word[W - 1][j];
	}
}

#define SORT_SMALL(W)                                                                                                                                  \
	extern "C" __global__ void __launch_bounds__(THREADS) sort_small_##W(u64 *w0, u64 *w1, u64 *w2, u64 n, u64 digits, u64 d0, u64 d1, u64 d2, u64 d3, \
	                                                                     u64 d4, u64 d5) {                                                             \
		sort_small<W>(w0, w1, w2, (u32)n, (u32)digits, d0, d1, d2, d3, d4, d5);                                                                        \
	}

SORT_SMALL(1)
SORT_SMALL(2)
SORT_SMALL(3)
