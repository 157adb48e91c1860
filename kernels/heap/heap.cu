// Shortest paths, one warp a problem, by a heap whose nodes are as wide as a warp. heap.go says what the heap and its
// operations guarantee and launches the kernels; core.go has the heap, twins.go the kernels, in plain Go over the
// same buffers.
//
// All parameters take 8 bytes. A warp works alone: nobody else reads or writes its heap, its row of distances and its
// buffer, so a barrier of the warp is all the order there must be. Its lanes stay together, but for single predicated
// reads and writes. The graph, problems and targets are never written by a kernel and are read through the read-only
// cache; nothing else is.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ALL 0xffffffffu
#define NOBODY 0xffffffffu
#define UNREACHABLE (~0ull)

// heap.go knows these.
#define BLOCK 128      // most threads a block
#define BLOCKS 8       // of a multiprocessor: 32 warps, which leaves 64 registers a thread
#define ROUNDS 4       // of 32 arcs that are on their way at a time
#define BUFFER (32 * (ROUNDS + 1)) // pairs that wait to be inserted: 31 that were left, and what so many rounds bring
#define NO_TRANSIT 0x80000000u     // in a node's first word: only paths that begin there use its arcs

// What a kernel counts, 8 bytes each.
#define STAT_NEXT 0 // problems that warps have taken
#define STAT_POPS 1
#define STAT_EXPANDED 2
#define STAT_STALE 3
#define STAT_PUSHED 4
#define STAT_COMPACTED 5
#define STAT_PEAK 6 // nodes of a heap

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % 32; }

// ---- pairs of a distance and a node, in three forms. The order is by distance, then by node, in all of them.

// Both in one word, the node in its lowest bits.
template <class W>
struct Word {
	typedef W Pair;
	enum { BYTES = sizeof(W) };
	static __device__ __forceinline__ W none() { return ~(W)0; }
	static __device__ __forceinline__ bool is(W a) { return a != ~(W)0; }
	static __device__ __forceinline__ bool less(W a, W b) { return a < b; }
	static __device__ __forceinline__ bool same(W a, W b) { return a == b; }
	static __device__ __forceinline__ W make(u64 dist, u32 node, u32 bits) { return (W)dist << bits | node; }
	static __device__ __forceinline__ W dist(W a, u32 bits) { return a >> bits; }
	static __device__ __forceinline__ u32 node(W a, u32 bits) { return (u32)a & ((1u << bits) - 1); }
	static __device__ __forceinline__ W from(W a, u32 lane) { return __shfl_sync(ALL, a, lane); }
	static __device__ __forceinline__ W across(W a, u32 mask) { return __shfl_xor_sync(ALL, a, mask); }
	// An array of them.
	struct Array {
		W *p;
		__device__ __forceinline__ Array(u8 *memory, u32) : p((W *)memory) {}
		__device__ __forceinline__ W get(u32 i) const { return p[i]; }
		__device__ __forceinline__ void set(u32 i, W a) const { p[i] = a; }
	};
};

// A word for the distance and half a one for the node; in memory all distances come first.
struct Two {
	struct Pair {
		u64 d;
		u32 v;
	};
	enum { BYTES = 12 };
	static __device__ __forceinline__ Pair make(u64 dist, u32 node, u32) {
		Pair a = {dist, node};
		return a;
	}
	static __device__ __forceinline__ Pair none() { return make(UNREACHABLE, NOBODY, 0); }
	static __device__ __forceinline__ bool is(Pair a) { return a.d != UNREACHABLE; }
	static __device__ __forceinline__ bool less(Pair a, Pair b) { return a.d < b.d || (a.d == b.d && a.v < b.v); }
	static __device__ __forceinline__ bool same(Pair a, Pair b) { return a.d == b.d && a.v == b.v; }
	static __device__ __forceinline__ u64 dist(Pair a, u32) { return a.d; }
	static __device__ __forceinline__ u32 node(Pair a, u32) { return a.v; }
	static __device__ __forceinline__ Pair from(Pair a, u32 lane) { return make(__shfl_sync(ALL, a.d, lane), __shfl_sync(ALL, a.v, lane), 0); }
	static __device__ __forceinline__ Pair across(Pair a, u32 mask) {
		return make(__shfl_xor_sync(ALL, a.d, mask), __shfl_xor_sync(ALL, a.v, mask), 0);
	}
	struct Array {
		u64 *d;
		u32 *v;
		__device__ __forceinline__ Array(u8 *memory, u32 n) : d((u64 *)memory), v((u32 *)(memory + 8 * (u64)n)) {}
		__device__ __forceinline__ Pair get(u32 i) const { return make(d[i], v[i], 0); }
		__device__ __forceinline__ void set(u32 i, Pair a) const {
			d[i] = a.d;
			v[i] = a.v;
		}
	};
};

// Bytes of an array of n pairs, such that another one can follow.
template <class K>
__device__ __forceinline__ u32 array_bytes(u32 n) { return (K::BYTES * n + 7) / 8 * 8; }

// ---- a batch: 32 pairs, one a lane, ascending, those that are none behind all others

template <class K>
__device__ __forceinline__ bool any(typename K::Pair x) { return K::is(K::from(x, 0)); }

// The lesser or the greater of a lane's pair and another's.
template <class K>
__device__ __forceinline__ void exchange(typename K::Pair &x, u32 mask, bool lesser) {
	typename K::Pair other = K::across(x, mask);
	if (K::less(other, x) == lesser) x = other;
}

// Makes a batch of pairs in any order: Batcher's bitonic network.
template <class K>
__device__ __forceinline__ void sort(typename K::Pair &x) {
	const u32 lane = lane_id();
#pragma unroll
	for (u32 size = 2; size <= 32; size *= 2) {
#pragma unroll
		for (u32 mask = size / 2; mask > 0; mask /= 2) exchange<K>(x, mask, ((lane & mask) == 0) == ((lane & size) == 0));
	}
}

// Splits the pairs of two batches: the 32 least to low, the others to high.
template <class K>
__device__ __forceinline__ void merge(typename K::Pair &low, typename K::Pair &high) {
	const u32 lane = lane_id();
	typename K::Pair other = K::across(high, 31);
	const bool swap = K::less(other, low);
	high = swap ? low : other;
	low = swap ? other : low;
#pragma unroll
	for (u32 mask = 16; mask > 0; mask /= 2) {
		exchange<K>(low, mask, (lane & mask) == 0);
		exchange<K>(high, mask, (lane & mask) == 0);
	}
}

// ---- the heap

// Node i has the children 32 i + 1 to 32 i + 32. The first pair of each node, its top, stands in an array of its own, too.
// The first nodes are in shared memory, the others in the warp's piece of global memory; the children of a
// node are always in the same. Nodes with few pairs, or none, may be anywhere; where one has none, nor has what is below it.
template <class K>
struct Heap {
	typedef typename K::Pair Pair;
	typename K::Array nodes, tops, spilled_nodes, spilled_tops;
	u32 shared, size;

	__device__ __forceinline__ Heap(u8 *memory, u32 shared, u8 *spill, u32 spilled)
		: nodes(memory, 32 * shared), tops(memory + array_bytes<K>(32 * shared), shared), spilled_nodes(spill, 32 * spilled),
		  spilled_tops(spill + (u64)K::BYTES * 32 * spilled, spilled), shared(shared), size(0) {}

	__device__ __forceinline__ Pair load(u32 i) const {
		return i < shared ? nodes.get(32 * i + lane_id()) : spilled_nodes.get(32 * (i - shared) + lane_id());
	}
	__device__ __forceinline__ Pair top(u32 i) const {
		__syncwarp();
		return i < shared ? tops.get(i) : spilled_tops.get(i - shared);
	}
	__device__ __forceinline__ void store(u32 i, Pair x) const {
		__syncwarp();
		if (i < shared) {
			nodes.set(32 * i + lane_id(), x);
			if (lane_id() == 0) tops.set(i, x);
		} else {
			spilled_nodes.set(32 * (i - shared) + lane_id(), x);
			if (lane_id() == 0) spilled_tops.set(i - shared, x);
		}
	}

	// The child of node i with the least top; false if it has none.
	__device__ __forceinline__ bool min_child(u32 i, u32 &child, Pair &least) const {
		const u32 first = 32 * i + 1, mine = first + lane_id();
		if (first >= size) return false;
		__syncwarp();
		Pair t = K::none();
		if (mine < size) t = first < shared ? tops.get(mine) : spilled_tops.get(mine - shared);
		least = t;
#pragma unroll
		for (u32 mask = 16; mask > 0; mask /= 2) exchange<K>(least, mask, true);
		child = first + __ffs(__ballot_sync(ALL, K::same(t, least))) - 1;
		return true;
	}

	// Puts a batch to node i, whose pairs are gone and whose parent's top is not greater than any of the batch and of the
	// node's children: as long as a child's top is less than the batch's, the 32 least of both stay and the others go down.
	__device__ __forceinline__ void propagate_down(u32 i, Pair x) {
		u32 child;
		Pair least;
		while (min_child(i, child, least) && K::less(least, K::from(x, 0))) {
			Pair low = load(child);
			merge<K>(low, x);
			store(i, low);
			i = child;
		}
		store(i, x);
	}

	// Puts a batch to node i, which has no children. If its top is less than the parent's, the 32 least of both go up; from there on what is
	// greater comes down as it is, for merged with a batch from above it could get greater than its other children.
	__device__ __forceinline__ void propagate_up(u32 i, Pair x) {
		bool first = true;
		while (i > 0) {
			const u32 parent = (i - 1) / 32;
			if (!K::less(K::from(x, 0), top(parent))) break;
			Pair high = load(parent);
			if (first) merge<K>(x, high);
			first = false;
			store(i, high);
			i = parent;
		}
		store(i, x);
	}

	// Takes a batch in. There must be room for one more node. What the last node has no room for becomes a node.
	__device__ __forceinline__ void insert(Pair x) {
		Pair rest = K::none();
		u32 at = size;
		if (size > 0) {
			const Pair last = load(size - 1);
			if (!K::is(K::from(last, 31))) {
				rest = x;
				x = last;
				merge<K>(x, rest);
				at--;
			}
		}
		for (;;) {
			propagate_up(at, x);
			size = at + 1;
			if (!any<K>(rest)) break;
			x = rest;
			rest = K::none();
			at = size;
		}
	}

	// Takes a batch in, which may be empty, and a batch out: its first pair is the least of all, the others are the rest of the
	// first node and of the batch.
	__device__ __forceinline__ Pair replace_smallest(Pair x) {
		if (size == 0) return x;
		Pair out = load(0);
		bool more = any<K>(x);
		if (more) {
			merge<K>(out, x);
			more = any<K>(x);
		}
		if (size == 1) {
			if (more)
				store(0, x);
			else
				size = 0;
			return out;
		}
		// The first node is filled up from the last one.
		Pair last = load(size - 1);
		if (more) {
			merge<K>(x, last);
			if (any<K>(last))
				store(size - 1, last);
			else
				size--;
		} else {
			x = last;
			size--;
		}
		propagate_down(0, x);
		return out;
	}

	__device__ __forceinline__ Pair pop() { return replace_smallest(K::none()); }
};

// Drops all pairs of a heap whose distance is no longer that of their node, and gives the nodes that are left. What is inserted
// never gets ahead of what is read: of r nodes come r full batches at most.
template <class K, class Row>
__device__ __forceinline__ u32 compact(Heap<K> heap, Row row, u32 bits) {
	typename K::Pair kept = K::none();
	const u32 all = heap.size;
	heap.size = 0;
	for (u32 i = 0; i <= all; i++) {
		typename K::Pair x = K::none();
		if (i < all) {
			x = heap.load(i);
			if (K::is(x) && K::dist(x, bits) != row.get(K::node(x, bits))) x = K::none();
			sort<K>(x);
			merge<K>(kept, x);
		}
		if (i == all ? any<K>(kept) : any<K>(x)) {
			heap.insert(kept);
			kept = x;
		}
	}
	return heap.size;
}

// ---- a problem's distances

// In shared memory, 4 bytes each.
struct SharedRow {
	typedef u32 Dist;
	u32 *p;
	__device__ __forceinline__ u32 get(u32 i) const { return p[i]; }
	// Lowers a distance and tells whether it was greater.
	__device__ __forceinline__ bool lower(u32 i, u32 d) const { return atomicMin(p + i, d) > d; }
};

// In global memory. The atomics are done by the second-level cache, which reads are served by, too.
struct GlobalRow {
	typedef u64 Dist;
	u64 *p;
	__device__ __forceinline__ u64 get(u32 i) const { return __ldcg(p + i); }
	__device__ __forceinline__ bool lower(u32 i, u64 d) const { return atomicMin(p + i, d) > d; }
};

__device__ __forceinline__ SharedRow new_row(SharedRow, u8 *memory, u64 *, u64 *) {
	SharedRow r = {(u32 *)memory};
	return r;
}
// Where all distances are asked for, the row is where they go.
__device__ __forceinline__ GlobalRow new_row(GlobalRow, u8 *, u64 *scratch, u64 *out) {
	GlobalRow r = {scratch ? scratch : out};
	return r;
}

// Takes problems until there are none left. memory: the heap's first nodes and their tops, the buffer, the row.
template <class K, class Row>
__device__ __forceinline__ void solve(u64 *dst, const u32 *problems, u64 count, const uint2 *spans, const uint2 *arcs, u64 n, u64 bits64,
	const u32 *targets, u64 target_count, u64 *stats, u64 shared, u64 capacity, u8 *spill, u64 spill_bytes, u64 *rows, u64 warp_bytes) {
	typedef typename K::Pair Pair;
	typedef typename Row::Dist Dist;
	extern __shared__ u64 memory[];
	const u32 lane = lane_id(), bits = (u32)bits64;
	const u64 slot = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
	u8 *mine = (u8 *)memory + threadIdx.x / 32 * warp_bytes;
	Heap<K> heap(mine, (u32)shared, spill + slot * spill_bytes, (u32)(capacity - shared));
	mine += array_bytes<K>(32 * (u32)shared) + array_bytes<K>((u32)shared);
	const typename K::Array buffer(mine, BUFFER);
	mine += array_bytes<K>(BUFFER);
	u32 pops = 0, expanded = 0, stale = 0, pushed = 0, compacted = 0, peak = 0; // since the last problem that was counted

	for (;;) {
		u32 p = 0;
		if (lane == 0) p = (u32)atomicAdd(stats + STAT_NEXT, 1ull);
		p = __shfl_sync(ALL, p, 0);
		if (p >= count) break;
		const u32 root = __ldg(problems + 3 * (u64)p), skip = __ldg(problems + 3 * (u64)p + 1), skip2 = __ldg(problems + 3 * (u64)p + 2);
		u64 *out = dst + p * target_count;
		const Row row = new_row(Row(), mine, rows ? rows + slot * n : 0, out);
		for (u32 i = lane; i < n; i += 32) row.p[i] = i == root ? 0 : ~(Dist)0;
		__syncwarp();

		heap.size = 0;
		u32 waiting = 1; // pairs in the buffer
		if (lane == 0) buffer.set(0, K::make(0, root, bits));
		for (;;) {
			__syncwarp();
			Pair x = K::none();
			if (lane < waiting) x = buffer.get(lane);
			sort<K>(x);
			x = heap.replace_smallest(x);
			waiting = 0;
			if (!any<K>(x)) break;
			pops++;

			// A pair that is not its node's distance is stale: a lesser one was, or will be, in a batch. The same pair is
			// never inserted twice, for it takes a distance that became less.
			const bool is = K::is(x);
			const u32 node = K::node(x, bits);
			const Dist dist = (Dist)K::dist(x, bits);
			const bool good = is && row.get(node) == dist;
			uint2 span = make_uint2(0, 0);
			if (good) span = __ldg(spans + node);
			if ((span.x & NO_TRANSIT) && node != root) span.y = 0;
			const u32 goods = __popc(__ballot_sync(ALL, good));
			expanded += goods;
			stale += __popc(__ballot_sync(ALL, is)) - goods;
			__syncwarp(); // all have read the buffer and the row, which others write from here on

			// Their arcs, side by side: arc j of all is lane o's, the last one that begins at j or before.
			u32 end = span.y;
#pragma unroll
			for (u32 o = 1; o < 32; o *= 2) {
				const u32 before = __shfl_up_sync(ALL, end, o);
				if (lane >= o) end += before;
			}
			const u32 total = __shfl_sync(ALL, end, 31), begin = end - span.y;
			const u32 base = (span.x & ~NO_TRANSIT) - begin;
			for (u32 from = 0; from < total; from += 32 * ROUNDS) {
				uint2 arc[ROUNDS];
				Dist d[ROUNDS];
				bool use[ROUNDS];
#pragma unroll
				for (int r = 0; r < ROUNDS; r++) {
					const u32 j = from + 32 * r + lane;
					u32 owner = 0;
#pragma unroll
					for (u32 step = 16; step > 0; step /= 2) {
						if (__shfl_sync(ALL, begin, owner + step) <= j) owner += step;
					}
					const u32 a = j + __shfl_sync(ALL, base, owner);
					d[r] = __shfl_sync(ALL, dist, owner);
					use[r] = j < total && a != skip && a != skip2;
					arc[r] = use[r] ? __ldg(arcs + a) : make_uint2(0, 0);
				}
#pragma unroll
				for (int r = 0; r < ROUNDS; r++) {
					d[r] += arc[r].y;
					if (use[r]) use[r] = row.lower(arc[r].x, d[r]);
				}
#pragma unroll
				for (int r = 0; r < ROUNDS; r++) {
					const u32 improved = __ballot_sync(ALL, use[r]);
					if (use[r]) buffer.set(waiting + __popc(improved & ((1u << lane) - 1)), K::make(d[r], arc[r].x, bits));
					waiting += __popc(improved);
					pushed += __popc(improved);
				}
				__syncwarp();
				while (waiting >= 32) {
					waiting -= 32;
					Pair batch = buffer.get(waiting + lane);
					sort<K>(batch);
					if (heap.size == capacity) {
						heap.size = compact<K>(heap, row, bits);
						compacted++;
					}
					heap.insert(batch);
				}
				peak = max(peak, heap.size);
				__syncwarp();
			}
		}

		if (row.p != (Dist *)out) {
			for (u32 i = lane; i < target_count; i += 32) {
				const Dist d = row.get(targets ? __ldg(targets + i) : i);
				out[i] = d == ~(Dist)0 ? UNREACHABLE : d;
			}
			__syncwarp();
		}
	}
	if (lane == 0) {
		atomicAdd(stats + STAT_POPS, (u64)pops);
		atomicAdd(stats + STAT_EXPANDED, (u64)expanded);
		atomicAdd(stats + STAT_STALE, (u64)stale);
		atomicAdd(stats + STAT_PUSHED, (u64)pushed);
		atomicAdd(stats + STAT_COMPACTED, (u64)compacted);
		atomicMax(stats + STAT_PEAK, (u64)peak);
	}
}

#define SOLVE(NAME, KEY, ROW) \
	extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) solve_##NAME(u64 *dst, const u32 *problems, u64 count, const uint2 *spans, \
		const uint2 *arcs, u64 n, u64 bits, const u32 *targets, u64 target_count, u64 *stats, u64 shared, u64 capacity, u8 *spill, \
		u64 spill_bytes, u64 *rows, u64 warp_bytes) { \
		solve<KEY, ROW>(dst, problems, count, spans, arcs, n, bits, targets, target_count, stats, shared, capacity, spill, spill_bytes, rows, \
			warp_bytes); \
	}

SOLVE(narrow, Word<u32>, SharedRow)
SOLVE(near, Word<u64>, SharedRow)
SOLVE(far, Word<u64>, GlobalRow)
SOLVE(wide, Two, GlobalRow)

// ---- the heap alone, for tests: one warp, one heap

#define OP_INSERT 0
#define OP_REPLACE 1
#define OP_POP 2
#define OP_COMPACT 3

// Does n operations. Each has a kind, and a distance and a node a lane, as they come; each gives the batch that comes out and the heap's
// size after it.
template <class K>
__device__ __forceinline__ void operate(const u32 *kinds, const u64 *dists, const u32 *nodes, u64 *out_dists, u32 *out_nodes, u32 *sizes, u64 n,
	u64 *row, u64 bits64, u64 shared, u64 capacity, u8 *spill) {
	extern __shared__ u64 memory[];
	const u32 lane = lane_id(), bits = (u32)bits64;
	Heap<K> heap((u8 *)memory, (u32)shared, spill, (u32)(capacity - shared));
	const GlobalRow distances = {row};
	for (u64 i = 0; i < n; i++) {
		const u64 dist = dists[32 * i + lane];
		typename K::Pair x = dist == UNREACHABLE ? K::none() : K::make(dist, nodes[32 * i + lane], bits), out = K::none();
		sort<K>(x);
		switch (kinds[i]) {
		case OP_INSERT:
			if (any<K>(x)) heap.insert(x);
			break;
		case OP_REPLACE:
			out = heap.replace_smallest(x);
			break;
		case OP_POP:
			out = heap.pop();
			break;
		case OP_COMPACT:
			heap.size = compact<K>(heap, distances, bits);
			break;
		}
		out_dists[32 * i + lane] = K::is(out) ? (u64)K::dist(out, bits) : UNREACHABLE;
		out_nodes[32 * i + lane] = K::is(out) ? K::node(out, bits) : NOBODY;
		if (lane == 0) sizes[i] = heap.size;
	}
}

#define OPERATE(NAME, KEY) \
	extern "C" __global__ void __launch_bounds__(32) operate_##NAME(const u32 *kinds, const u64 *dists, const u32 *nodes, u64 *out_dists, \
		u32 *out_nodes, u32 *sizes, u64 n, u64 *row, u64 bits, u64 shared, u64 capacity, u8 *spill) { \
		operate<KEY>(kinds, dists, nodes, out_dists, out_nodes, sizes, n, row, bits, shared, capacity, spill); \
	}

OPERATE(narrow, Word<u32>)
OPERATE(far, Word<u64>)
OPERATE(wide, Two)
