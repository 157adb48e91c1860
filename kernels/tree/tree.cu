// Build and search of a radix tree with configurable strides, a kernel a step. tree.go launches
// them and says what each is for; twins.go has the same steps in plain Go over the same buffers.
//
// All parameters take 8 bytes. A key is up to 128 bits, left aligned, in one column (hi) or two
// (hi, lo; lo is 0 where keys have at most 64 bits). A cell is a node of the next level, by the
// number of its first cell there, with the highest bit set; or a payload; or 0.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define CHILD 0x80000000u
#define PLACE 26      // bits of a value's place in a record of one word
#define FREE_SHIFT 26 // of an entry's position

// What a level is; tree.go uploads them.
struct Level {
	u64 base;       // its first cell
	u32 off;        // first key bit
	u32 stride;     // bits
	u32 node_base;  // nodes of the levels above
	u32 class_base; // classes of the levels above: a node has stride+1, one for each number of free bits
	u64 unused;
};

__device__ __forceinline__ u64 thread_id() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads() { return (u64)gridDim.x * blockDim.x; }

// Bits [off, off+n) of a key, 1 <= n <= 26.
__device__ __forceinline__ u32 window(u64 hi, u64 lo, u32 off, u32 n) {
	if (off >= 64) return (u32)(lo << (off - 64) >> (64 - n));
	u64 w = hi << off;
	if (off) w |= lo >> (64 - off);
	return (u32)(w >> (64 - n));
}

__device__ __forceinline__ u64 low_word(const u64 *lo, u64 k) { return lo ? lo[k] : 0; }

// The node that value k falls into on level l, counted through all levels; nodes is the scan of
// the borders, a row a level from level 1 on.
__device__ __forceinline__ u32 node_of(const u32 *nodes, u64 row, u32 l, u64 k) {
	return l ? nodes[(l - 1) * row + k] : 0;
}

// ---- input

// Records of 12 bytes {key, payload, bits} to columns.
extern "C" __global__ void columns_32(u64 *hi, u8 *bits, u32 *payload, const u32 *in, u64 n) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		hi[i] = (u64)in[3 * i] << 32;
		payload[i] = in[3 * i + 1];
		bits[i] = (u8)in[3 * i + 2];
	}
}

// Records of 24 bytes {hi, lo, payload, bits} to columns; lo may be 0.
extern "C" __global__ void columns_128(u64 *hi, u64 *lo, u8 *bits, u32 *payload, const u64 *in, u64 n) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		hi[i] = in[3 * i];
		if (lo) lo[i] = in[3 * i + 1];
		u64 last = in[3 * i + 2];
		payload[i] = (u32)last;
		bits[i] = (u8)(last >> 32);
	}
}

// Masks as keys of a hash map, and back. In 64 bits: the key's 32, then the length.
extern "C" __global__ void pack_32(u64 *keys, const u64 *hi, const u8 *bits, u64 n) {
	for (u64 i = thread_id(); i < n; i += threads()) keys[i] = hi[i] >> 32 << 8 | bits[i];
}

extern "C" __global__ void unpack_32(u64 *hi, u8 *bits, const u64 *keys, u64 n) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		hi[i] = keys[i] >> 8 << 32;
		bits[i] = (u8)keys[i];
	}
}

// In 128 bits: a bit that is set behind the mask's own tells its length. Masks of 128 bits have no room for it, so
// they go to other arrays. Each pair of arrays has its number in counts.
extern "C" __global__ void pack_128(u64 *keys, u32 *values, u64 *long_keys, u32 *long_values, u64 *counts, const u64 *hi, const u64 *lo,
	const u8 *bits, const u32 *payload, u64 n) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		const u32 b = bits[i];
		u64 h = hi[i], l = low_word(lo, i);
		const bool whole = b == 128;
		if (b < 64)
			h |= 1ull << (63 - b);
		else if (!whole)
			l |= 1ull << (127 - b);
		const u64 to = atomicAdd(counts + whole, 1ull);
		(whole ? long_keys : keys)[2 * to] = h;
		(whole ? long_keys : keys)[2 * to + 1] = l;
		(whole ? long_values : values)[to] = payload[i];
	}
}

extern "C" __global__ void unpack_128(u64 *hi, u64 *lo, u8 *bits, const u64 *keys, u64 n, u64 whole) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		u64 h = keys[2 * i], l = keys[2 * i + 1];
		u32 b = 128;
		if (!whole && l) {
			b = 128 - __ffsll(l);
			l &= l - 1;
		} else if (!whole) {
			b = 64 - __ffsll(h);
			h &= h - 1;
		}
		hi[i] = h;
		if (lo) lo[i] = l;
		bits[i] = (u8)b;
	}
}

// Columns to records that sort by key and then length, with the value's place in the input.
extern "C" __global__ void records(u64 *w0, u64 *w1, u64 *w2, const u64 *hi, const u64 *lo, const u8 *bits, u64 n, u64 words) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		u64 b = bits ? bits[i] : 0;
		if (words == 1) {
			w0[i] = hi[i] | b << PLACE | i;
			continue;
		}
		w0[i] = hi[i];
		if (words == 3) w1[i] = low_word(lo, i);
		(words == 3 ? w2 : w1)[i] = b << 32 | i;
	}
}

__device__ __forceinline__ bool same_value(const u64 *w0, const u64 *w1, const u64 *w2, u64 words, u64 a, u64 b) {
	if (words == 1) return (w0[a] ^ w0[b]) >> PLACE == 0;
	const u64 *last = words == 3 ? w2 : w1;
	return w0[a] == w0[b] && (words == 2 || w1[a] == w1[b]) && (last[a] ^ last[b]) >> 32 == 0;
}

__device__ __forceinline__ u32 place_of(const u64 *w0, const u64 *w1, const u64 *w2, u64 words, u64 i) {
	if (words == 1) return (u32)w0[i] & ((1u << PLACE) - 1);
	return (u32)(words == 3 ? w2 : w1)[i];
}

// Of equal values the first of the input stays, or the last; and of those none whose payload is 0.
extern "C" __global__ void keep(u32 *flags, const u64 *w0, const u64 *w1, const u64 *w2, u64 words, u64 n, const u32 *payload, u64 last) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		u64 beside = last ? i + 1 : i - 1; // what would stay in its place
		bool f = last ? i + 1 == n : i == 0;
		f = f || !same_value(w0, w1, w2, words, i, beside);
		flags[i] = f && (!payload || payload[place_of(w0, w1, w2, words, i)] != 0);
	}
}

// Columns of the values that stay, and how many there are of each length. Without a payload a
// value's is 1 + its place.
extern "C" __global__ void gather(u64 *hi, u64 *lo, u8 *bits, u32 *payload, u32 *lengths, const u64 *w0, const u64 *w1, const u64 *w2, u64 words,
                                  const u32 *index, const u32 *count, const u32 *in) {
	__shared__ u32 sums[256];
	for (u32 i = threadIdx.x; i < 256; i += blockDim.x) sums[i] = 0;
	__syncthreads();
	u64 n = *count;
	for (u64 j = thread_id(); j < n; j += threads()) {
		u64 i = index[j];
		u32 place = place_of(w0, w1, w2, words, i);
		u64 w = w0[i];
		u32 b;
		if (words == 1) {
			b = (u32)(w >> PLACE) & 63;
			w &= ~0xffffffffULL;
		} else {
			b = (u32)((words == 3 ? w2 : w1)[i] >> 32);
		}
		hi[j] = w;
		if (lo) lo[j] = words == 3 ? w1[i] : 0;
		if (bits) {
			bits[j] = (u8)b;
			atomicAdd(&sums[b], 1);
		}
		payload[j] = in ? in[place] : place + 1;
	}
	__syncthreads();
	if (bits) {
		for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
			if (sums[i]) atomicAdd(&lengths[i], sums[i]);
	}
}

// ---- nodes

// A border is where a value starts a node: its bits above the level differ from those of the value
// before, or that one does not reach the level. Row l-1 is level l's; every value is in the root.
// A value that does not reach the level has none: such values come first among those with the
// same bits, because shorter masks do. So no border is lost that has to be put back.
extern "C" __global__ void borders(u32 *out, const u64 *hi, const u64 *lo, const u8 *bits, const u32 *count, u64 row, const Level *levels) {
	u32 off = levels[blockIdx.y + 1].off;
	u64 n = *count;
	out += blockIdx.y * row;
	for (u64 k = thread_id(); k < row; k += threads()) {
		u32 b = 0;
		if (k < n && (!bits || bits[k] > off)) {
			b = 1;
			if (k > 0 && (!bits || bits[k - 1] > off)) {
				u64 x = hi[k] ^ hi[k - 1];
				u32 same = x ? __clzll(x) : lo ? 64 + __clzll(lo[k] ^ lo[k - 1]) : 128;
				b = same < off;
			}
		}
		out[k] = b;
	}
}

extern "C" __global__ void row_ends(u32 *out, const u32 *nodes, u64 row, u64 rows) {
	for (u64 i = thread_id(); i < rows; i += threads()) out[i] = nodes[i * row + row - 1];
}

// ---- containers

// Records that sort by length.
extern "C" __global__ void by_length(u64 *out, const u8 *bits, u64 n) {
	for (u64 k = thread_id(); k < n; k += threads()) out[k] = (u64)bits[k] << 32 | k;
}

// The class of a mask: its node and how many bits it leaves free.
__device__ __forceinline__ u32 class_of(u64 record, const u32 *nodes, u64 row, const Level *levels, const u8 *level_of) {
	u32 b = (u32)(record >> 32), l = level_of[b];
	Level v = levels[l];
	u32 node = node_of(nodes, row, l, (u32)record) - v.node_base;
	return v.class_base + node * (v.stride + 1) + (v.off + v.stride - b);
}

// Masks sorted by length are runs of one class. Each run's first place and its length.
extern "C" __global__ void classes(u32 *cls, u32 *first, u32 *count, const u64 *sorted, u64 n, const u32 *nodes, u64 row, const Level *levels, const u8 *level_of) {
	for (u64 p = thread_id(); p < n; p += threads()) {
		u32 c = class_of(sorted[p], nodes, row, levels, level_of);
		cls[p] = c;
		if (p == 0 || class_of(sorted[p - 1], nodes, row, levels, level_of) != c) {
			first[c] = (u32)p;
			atomicSub(&count[c], (u32)p);
		}
		if (p + 1 == n || class_of(sorted[p + 1], nodes, row, levels, level_of) != c) atomicAdd(&count[c], (u32)p + 1);
	}
}

extern "C" __global__ void entries(uint2 *out, const u32 *cls, const u32 *first, const u32 *start, const u64 *sorted, u64 n, const u64 *hi, const u64 *lo,
                                   const u32 *payload, const Level *levels, const u8 *level_of) {
	for (u64 p = thread_id(); p < n; p += threads()) {
		u64 r = sorted[p];
		u32 b = (u32)(r >> 32), k = (u32)r, c = cls[p];
		Level v = levels[level_of[b]];
		u32 cell = window(hi[k], low_word(lo, k), v.off, v.stride);
		out[start[c] + (u32)p - first[c]] = make_uint2((v.off + v.stride - b) << FREE_SHIFT | cell, payload[k]);
	}
}

// Where each node's container starts; one more for the end.
extern "C" __global__ void starts(u32 *out, const u32 *start, u64 total, u64 n, const Level *levels, u64 used) {
	for (u64 g = thread_id(); g <= total; g += threads()) {
		if (g == total) {
			out[g] = (u32)n;
			continue;
		}
		u64 l = used - 1;
		while (levels[l].node_base > g) l--;
		Level v = levels[l];
		out[g] = start[v.class_base + (g - v.node_base) * (v.stride + 1)];
	}
}

// ---- cells

// Every cell of a level gets what its node inherits.
extern "C" __global__ void inherit(u32 *cells, const u32 *from, u64 count, u64 stride) {
	if (stride >= 2 && ((u64)cells & 15) == 0) {
		for (u64 i = thread_id(); i < count / 4; i += threads()) {
			u32 h = from[i >> (stride - 2)];
			((uint4 *)cells)[i] = make_uint4(h, h, h, h);
		}
		return;
	}
	for (u64 i = thread_id(); i < count; i += threads()) cells[i] = from[i >> stride];
}

// The masks of one length write their payload to the cells they cover. Those of one length do
// not overlap; longer ones come in a later launch.
extern "C" __global__ void paint(u32 *cells, const u64 *sorted, u64 n, u64 free, const u64 *hi, const u64 *lo, const u32 *payload, const u32 *nodes, u64 row,
                                 const Level *levels, u64 level) {
	Level v = levels[level];
	u64 mask = (1ull << free) - 1;
	for (u64 t = thread_id(); t < n << free; t += threads()) {
		u32 k = (u32)sorted[t >> free];
		u64 node = node_of(nodes, row, level, k) - v.node_base;
		cells[v.base + (node << v.stride) + window(hi[k], low_word(lo, k), v.off, v.stride) + (t & mask)] = payload[k];
	}
}

// Where a value starts a node, the cell above gets that node; from, if not 0, receives what the
// cell held. Row y links level `level`+y to the next.
extern "C" __global__ void link(u32 *cells, u32 *from, u64 n, const u64 *hi, const u64 *lo, const u32 *nodes, u64 row, const Level *levels, u64 level) {
	u64 l = level + blockIdx.y;
	Level v = levels[l], w = levels[l + 1];
	for (u64 k = thread_id(); k < n; k += threads()) {
		u64 i = l * row + k;
		u32 g = nodes[i];
		if (g == (i ? nodes[i - 1] : 0)) continue;
		u32 child = g - w.node_base;
		u64 parent = node_of(nodes, row, (u32)l, k) - v.node_base;
		u32 *c = &cells[v.base + (parent << v.stride) + window(hi[k], low_word(lo, k), v.off, v.stride)];
		if (from) from[child] = *c;
		*c = CHILD | child << w.stride;
	}
}

// The last level of a tree of keys holds their payloads.
extern "C" __global__ void leaves(u32 *cells, u64 n, const u64 *hi, const u64 *lo, const u32 *payload, const u32 *nodes, u64 row, const Level *levels, u64 level) {
	Level v = levels[level];
	for (u64 k = thread_id(); k < n; k += threads()) {
		u64 node = node_of(nodes, row, (u32)level, k) - v.node_base;
		cells[v.base + (node << v.stride) + window(hi[k], low_word(lo, k), v.off, v.stride)] = payload[k];
	}
}

// ---- root index

// 32 cells of the root become 8 bytes: which hold children, and the number of the first. The
// others follow by counting, because a build numbers nodes in the order of their cells. So a
// search needs no access to the root where it goes on below. A warp a word; cells is a whole
// number of warps' threads.
extern "C" __global__ void root_index(uint2 *words, u32 *page_used, const u32 *cells, u64 count, u64 stride1, u64 page_bits) {
	u64 total = (count + 31) & ~31ull;
	for (u64 i = thread_id(); i < total; i += threads()) {
		u32 c = i < count ? cells[i] : 0;
		u32 have = __ballot_sync(0xffffffffu, c & CHILD);
		u32 number = __shfl_sync(0xffffffffu, (c & ~CHILD) >> stride1, have ? __ffs(have) - 1 : 0);
		if ((i & 31) == 0) {
			words[i >> 5] = make_uint2(have, have ? number : 0);
			if (page_used && have) page_used[i >> page_bits] = 1;
		}
	}
}

// Numbers the pages in use from 1 on; one block.
extern "C" __global__ void root_pages(u16 *table, u32 *count, const u32 *used, u64 pages) {
	__shared__ u32 warp_sums[32];
	u32 before = 0;
	for (u64 base = 0; base < pages; base += 1024) {
		u64 i = base + threadIdx.x;
		u32 f = i < pages ? used[i] : 0;
		u32 ballot = __ballot_sync(0xffffffffu, f);
		u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
		if (lane == 0) warp_sums[warp] = __popc(ballot);
		__syncthreads();
		u32 sum = before, all = before;
		for (u32 w = 0; w < 32; w++) {
			if (w < warp) sum += warp_sums[w];
			all += warp_sums[w];
		}
		sum += __popc(ballot & ((1u << lane) - 1));
		if (i < pages) table[i] = f ? (u16)(sum + 1) : 0;
		before = all;
		__syncthreads();
	}
	if (threadIdx.x == 0) *count = before;
}

// Copies the words of the pages in use.
extern "C" __global__ void pack_pages(uint2 *out, const uint2 *words, const u16 *table, u64 count, u64 page_words_bits) {
	for (u64 i = thread_id(); i < count; i += threads()) {
		u32 t = table[i >> page_words_bits];
		if (t) out[((u64)(t - 1) << page_words_bits) + (i & ((1ull << page_words_bits) - 1))] = words[i];
	}
}

// ---- search

// Keys as they lie in memory: 4, 8 or 16 bytes, a group of them in one access of 16 bytes.
template <int BITS> struct Keys;
template <> struct Keys<32> {
	static const int GROUP = 4, UNROLL = 2;
	typedef u32 T;
	static __device__ __forceinline__ u32 window(u32 k, u32 off, u32 n) { return k << off >> (32 - n); }
	static __device__ __forceinline__ void load(u32 *k, const u32 *p) {
		uint4 v = __ldcs((const uint4 *)p);
		k[0] = v.x, k[1] = v.y, k[2] = v.z, k[3] = v.w;
	}
	static __device__ __forceinline__ void store(u32 *p, const u32 *r) { __stcs((uint4 *)p, make_uint4(r[0], r[1], r[2], r[3])); }
};
template <> struct Keys<64> {
	static const int GROUP = 2, UNROLL = 4;
	typedef u64 T;
	static __device__ __forceinline__ u32 window(u64 k, u32 off, u32 n) { return (u32)(k << off >> (64 - n)); }
	static __device__ __forceinline__ void load(u64 *k, const u64 *p) {
		ulonglong2 v = __ldcs((const ulonglong2 *)p);
		k[0] = v.x, k[1] = v.y;
	}
	static __device__ __forceinline__ void store(u32 *p, const u32 *r) { __stcs((uint2 *)p, make_uint2(r[0], r[1])); }
};
template <> struct Keys<128> {
	static const int GROUP = 1, UNROLL = 4;
	typedef ulonglong2 T;
	static __device__ __forceinline__ u32 window(ulonglong2 k, u32 off, u32 n) { return ::window(k.x, k.y, off, n); }
	static __device__ __forceinline__ void load(ulonglong2 *k, const ulonglong2 *p) { k[0] = __ldcs(p); }
	static __device__ __forceinline__ void store(u32 *p, const u32 *r) { __stcs(p, r[0]); }
};

// Where a search finds out which cells of the root hold children.
enum Root {
	PLAIN,  // in the root's cells: no index
	DIRECT, // in the index, in shared memory
	PAGED,  // in the pages of the index that have children, in shared memory behind their table
	GLOBAL, // in the index, in global memory: one too big for shared memory, of a tree of keys
};

// K keys at a time: each goes down one level before any goes down the next, so K reads are under way.
template <int BITS, int ROOT, int K>
__device__ __forceinline__ void descend(u32 *c, const typename Keys<BITS>::T *k, const u32 *cells, const Level *levels, const Level &first, const Level &second,
                                        const uint2 *words, const u16 *table, u32 page_bits) {
	typedef Keys<BITS> KEYS;
#pragma unroll
	for (int j = 0; j < K; j++) {
		u32 v = KEYS::window(k[j], 0, first.stride);
		const u32 *at = cells + v;
		if (ROOT != PLAIN) {
			uint2 w;
			if (ROOT == PAGED) {
				u32 t = table[v >> page_bits];
				w = words[((t ? t - 1 : 0) << (page_bits - 5)) + ((v & ((1u << page_bits) - 1)) >> 5)];
				if (!t) w.x = 0;
			} else if (ROOT == GLOBAL) {
				w = __ldg(&words[v >> 5]);
			} else {
				w = words[v >> 5];
			}
			u32 bit = v & 31;
			if (w.x >> bit & 1) {
				u32 child = w.y + __popc(w.x & ((1u << bit) - 1));
				at = cells + second.base + ((u64)child << second.stride) + KEYS::window(k[j], second.off, second.stride);
			}
		}
		c[j] = __ldg(at);
	}
	for (u32 l = ROOT == PLAIN ? 1 : 2;; l++) {
		u32 any = 0;
#pragma unroll
		for (int j = 0; j < K; j++) any |= c[j];
		if (!(any & CHILD)) return;
		u64 base = levels[l].base;
		u32 off = levels[l].off, stride = levels[l].stride;
#pragma unroll
		for (int j = 0; j < K; j++) {
			if (c[j] & CHILD) c[j] = __ldg(cells + base + (c[j] & ~CHILD) + KEYS::window(k[j], off, stride));
		}
	}
}

// Keys that a tree of masks matches, or that a tree of keys holds: each gets its payload less
// minus.
template <int BITS, int ROOT>
__device__ __forceinline__ void match(u32 *dst, const typename Keys<BITS>::T *keys, u64 n, const u32 *cells, const Level *levels, const uint2 *words, u64 word_count,
                                      const u16 *table, u64 table_count, u64 page_bits, u64 minus) {
	typedef Keys<BITS> KEYS;
	const int G = KEYS::GROUP, U = KEYS::UNROLL;
	extern __shared__ uint4 shared[];
	if (ROOT == DIRECT || ROOT == PAGED) {
		// Pairs of words: both counts are even.
		for (u32 i = threadIdx.x; i < word_count / 2; i += blockDim.x) shared[i] = __ldg((const uint4 *)words + i);
		words = (const uint2 *)shared;
		if (ROOT == PAGED) {
			uint4 *to = shared + word_count / 2;
			for (u32 i = threadIdx.x; i < table_count / 8; i += blockDim.x) to[i] = __ldg((const uint4 *)table + i);
			table = (const u16 *)to;
		}
		__syncthreads();
	}
	const Level first = levels[0];
	Level second = first;
	if (ROOT != PLAIN) second = levels[1];
	const u64 groups = n / G, step = threads();
	u64 g = thread_id();
	for (; g + (U - 1) * step < groups; g += U * step) {
		typename KEYS::T k[U * G];
		u32 c[U * G];
#pragma unroll
		for (int u = 0; u < U; u++) KEYS::load(k + u * G, keys + (g + u * step) * G);
		descend<BITS, ROOT, U * G>(c, k, cells, levels, first, second, words, table, (u32)page_bits);
#pragma unroll
		for (int j = 0; j < U * G; j++) c[j] -= (u32)minus;
#pragma unroll
		for (int u = 0; u < U; u++) KEYS::store(dst + (g + u * step) * G, c + u * G);
	}
	for (; g < groups; g += step) {
		typename KEYS::T k[G];
		u32 c[G];
		KEYS::load(k, keys + g * G);
		descend<BITS, ROOT, G>(c, k, cells, levels, first, second, words, table, (u32)page_bits);
#pragma unroll
		for (int j = 0; j < G; j++) c[j] -= (u32)minus;
		KEYS::store(dst + g * G, c);
	}
	u64 i = groups * G + thread_id(); // what no whole group holds
	if (i < n) {
		typename KEYS::T k[1] = {keys[i]};
		u32 c[1];
		descend<BITS, ROOT, 1>(c, k, cells, levels, first, second, words, table, (u32)page_bits);
		dst[i] = c[0] - (u32)minus;
	}
}

#define MATCH(BITS, ROOT, NAME)                                                                                                                                  \
	extern "C" __global__ void __launch_bounds__(1024, 1)                                                                                                       \
	    NAME(u32 *dst, const Keys<BITS>::T *keys, u64 n, const u32 *cells, const Level *levels, const uint2 *words, u64 word_count, const u16 *table,           \
	         u64 table_count, u64 page_bits, u64 minus) {                                                                                                       \
		match<BITS, ROOT>(dst, keys, n, cells, levels, words, word_count, table, table_count, page_bits, minus);                                                \
	}

MATCH(32, PLAIN, match_32_plain)
MATCH(32, DIRECT, match_32_direct)
MATCH(32, PAGED, match_32_paged)
MATCH(32, GLOBAL, match_32_global)
MATCH(64, PLAIN, match_64_plain)
MATCH(64, DIRECT, match_64_direct)
MATCH(64, PAGED, match_64_paged)
MATCH(64, GLOBAL, match_64_global)
MATCH(128, PLAIN, match_128_plain)
MATCH(128, DIRECT, match_128_direct)
MATCH(128, PAGED, match_128_paged)
MATCH(128, GLOBAL, match_128_global)

// ---- containers, searched

// The place of pos in entries [lo, hi), or where it would be.
__device__ __forceinline__ u32 lower_bound(const uint2 *e, u32 lo, u32 hi, u32 pos) {
	while (lo < hi) {
		u32 m = lo + (hi - lo) / 2;
		if (e[m].x < pos)
			lo = m + 1;
		else
			hi = m;
	}
	return lo;
}

// The payload of the entry at pos, 0 if there is none.
__device__ __forceinline__ u32 entry_at(const uint2 *e, u32 lo, u32 hi, u32 pos) {
	u32 i = lower_bound(e, lo, hi, pos);
	return i < hi && e[i].x == pos ? e[i].y : 0;
}

__device__ __forceinline__ u32 entry_pos(u32 free, u32 cell) { return free << FREE_SHIFT | (cell & ~((1u << free) - 1)); }

// Longest match by containers, for trees whose cells hold children only.
template <int BITS>
__device__ __forceinline__ void match_lists(u32 *dst, const typename Keys<BITS>::T *keys, u64 n, const u32 *cells, const Level *levels, const u32 *starts, const uint2 *e) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		typename Keys<BITS>::T key = keys[i];
		u32 found = 0, in = 0; // the node's first cell in its level
		for (u32 l = 0;; l++) {
			Level v = levels[l];
			u32 cell = Keys<BITS>::window(key, v.off, v.stride);
			u32 g = v.node_base + (in >> v.stride), lo = starts[g], hi = starts[g + 1];
			for (u32 free = 0; free <= v.stride && lo < hi; free++) {
				u32 h = entry_at(e, lo, hi, entry_pos(free, cell));
				if (h) {
					found = h;
					break;
				}
			}
			u32 c = cells[v.base + in + cell];
			if (!(c & CHILD)) break;
			in = c & ~CHILD;
		}
		dst[i] = found;
	}
}

extern "C" __global__ void match_lists_32(u32 *dst, const u32 *keys, u64 n, const u32 *cells, const Level *levels, const u32 *starts, const uint2 *e) {
	match_lists<32>(dst, keys, n, cells, levels, starts, e);
}
extern "C" __global__ void match_lists_64(u32 *dst, const u64 *keys, u64 n, const u32 *cells, const Level *levels, const u32 *starts, const uint2 *e) {
	match_lists<64>(dst, keys, n, cells, levels, starts, e);
}
extern "C" __global__ void match_lists_128(u32 *dst, const ulonglong2 *keys, u64 n, const u32 *cells, const Level *levels, const u32 *starts, const uint2 *e) {
	match_lists<128>(dst, keys, n, cells, levels, starts, e);
}

// Exactly the masks asked for: keys of 128 bits with their lengths.
extern "C" __global__ void find_masks(u32 *dst, const ulonglong2 *keys, const u8 *bits, u64 n, const u32 *cells, const Level *levels, const u32 *starts, const uint2 *e,
                                      const u8 *level_of) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		ulonglong2 key = keys[i];
		u32 b = bits[i], last = level_of[b], in = 0, found = 0;
		for (u32 l = 0;; l++) {
			Level v = levels[l];
			u32 cell = window(key.x, key.y, v.off, v.stride);
			if (l == last) {
				u32 g = v.node_base + (in >> v.stride);
				found = entry_at(e, starts[g], starts[g + 1], entry_pos(v.off + v.stride - b, cell));
				break;
			}
			u32 c = cells[v.base + in + cell];
			if (!(c & CHILD)) break;
			in = c & ~CHILD;
		}
		dst[i] = found;
	}
}

// All masks that contain each of the masks asked for, it among them, longest first: they go to
// dst + i*room, counts gets how many there are. room is one more than the key length: there cannot
// be more.
extern "C" __global__ void covering(u32 *dst, u32 *counts, u64 room, const ulonglong2 *keys, const u8 *bits, u64 n, const u32 *cells, const Level *levels, const u32 *starts,
                                    const uint2 *e, const u8 *level_of) {
	for (u64 i = thread_id(); i < n; i += threads()) {
		ulonglong2 key = keys[i];
		u32 b = bits[i], last = level_of[b], in = 0, count = 0;
		u32 *out = dst + i * room;
		for (u32 l = 0;; l++) {
			Level v = levels[l];
			u32 cell = window(key.x, key.y, v.off, v.stride);
			u32 least = l == last ? v.off + v.stride - b : 0;
			u32 g = v.node_base + (in >> v.stride), lo = starts[g], hi = starts[g + 1];
			for (int free = (int)v.stride; free >= (int)least && lo < hi; free--) {
				u32 h = entry_at(e, lo, hi, entry_pos((u32)free, cell));
				if (h) out[count++] = h;
			}
			if (l == last) break;
			u32 c = cells[v.base + in + cell];
			if (!(c & CHILD)) break;
			in = c & ~CHILD;
		}
		for (u32 a = 0, z = count; a + 1 < z; a++) { // they were found shortest first
			z--;
			u32 t = out[a];
			out[a] = out[z];
			out[z] = t;
		}
		counts[i] = count;
	}
}

// The sorted values inside a mask: out[0] is the place of the first, out[1] behind the last.
extern "C" __global__ void inside(u32 *out, const u64 *hi, const u64 *lo, const u8 *bits, u64 n, u64 key_hi, u64 key_lo, u64 length) {
	if (thread_id() >= 2) return;
	u32 side = threadIdx.x;
	u64 last_hi = key_hi, last_lo = key_lo; // of the addresses in the mask
	if (length < 64) {
		last_hi |= ~0ull >> length;
		last_lo = ~0ull;
	} else if (length < 128) {
		last_lo |= ~0ull >> (length - 64);
	}
	u64 a = 0, z = n;
	while (a < z) {
		u64 m = a + (z - a) / 2, h = hi[m], l = low_word(lo, m);
		bool before;
		if (side == 0)
			before = h != key_hi ? h < key_hi : l != key_lo ? l < key_lo : bits[m] < length;
		else
			before = h != last_hi ? h < last_hi : l <= last_lo;
		if (before)
			a = m + 1;
		else
			z = m;
	}
	out[side] = (u32)a;
}
