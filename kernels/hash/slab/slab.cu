// Chains of slabs of 128 bytes. slab.go says what the table is and launches the kernels; core.go has the
// logic on slices, twins.go the kernels over the same buffers.
//
// All parameters take 8 bytes. What other threads may change is read by relaxed loads at the scope of the
// GPU, which the second-level cache serves: a first-level cache would keep old values.
//
// A batch's requests (operate) are worked on by tiles of 8 lanes: one load of a warp reads four whole slabs. A lane of
// a tile brings a request, and the tile goes through its 8: the first slabs of FLIGHT of them are loaded before any
// is looked at; what is not done by then goes on slab by slab. The lanes of a warp stay together all the time, and
// a request that must wait for another one (BUSY, LINKING) or lost a race just reads its slab again, so it never
// keeps the other one, of the same warp, from going on.
//
// Large batches that have the table to themselves are sorted by where their keys lie (../regions.cuh). Then a block
// brings the first slabs of SPAN buckets to shared memory and a thread does all requests for its bucket there: without
// atomics, and the table crosses the bus once there and back.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#include "../regions.cuh"

// What sets the speed. slab.go knows THREADS, SPAN and the sizes of a span's shared memory.
#define THREADS 256 // a block
#define FIND_FLIGHT 4
#define CHANGE_FLIGHT 4
#define FIND_BLOCKS 5 // blocks of a multiprocessor, which bounds the registers
#define CHANGE_BLOCKS 4
#define SPAN 256      // buckets that a block has in shared memory, and its threads
#define STRIDE 17     // words from slab to slab there: threads at the same slot use different banks
#define SPAN_BYTES (24 << 10) // of requests that a block has there at a time, half as much again of 16 bytes
#define SCAN_ROWS 4   // slabs of a tile that iterate looks at at a time

// The table's shape, as core.go has it.
#define TILE 8
#define WORDS 16   // of a slab
#define LINK 15    // the word with the next slab and the flag
#define SIDES 3    // most hashes that have a bucket of their own
#define LOCALS (SPAN + SIDES)

// A slot's first word where no pair is. Hashes of these values have buckets of their own, behind all others.
#define EMPTY 0ull
#define TOMB 1ull
#define BUSY 2ull // 64-bit keys only: claimed, and not yet published
#define MARK 3    // the key of all pairs of those buckets

// Word LINK: the number of the next slab plus 1, or 0, or LINKING while somebody fetches one; above, for slabs of a
// reserved hash, the hash plus 1.
#define LINKING 0xffffffffu

// The table's head, 8 bytes each.
#define HEAD_LIVE 0
#define HEAD_DEAD 1
#define HEAD_LEFT 2
#define HEAD_TAKEN 3    // slabs taken since the last settle
#define HEAD_FREE 4     // slabs on the free list then
#define HEAD_FRESH 5    // slabs taken from the arenas by then
#define HEAD_CAPACITY 6 // slabs of the arenas
#define HEAD_NEED 7     // what need adds up
#define HEAD_LOG2 8     // of the number of slabs of the first arena; each has twice as many as the one before
#define HEAD_LIST 9     // the free list: u32 each
#define HEAD_ARENAS 16  // up to 32

#define FIND 0
#define INSERT 1
#define APPEND 2
#define REPLACE 3
#define DELETE 4
#define COUNT 5
#define MIXED 6

#define ALONE 1 // mode: nothing changes the table meanwhile

#define NO 0
#define YES 1
#define LEFT 2

#define ALL 0xffffffffu

__device__ __forceinline__ void load2(const u64 *p, u64 &a, u64 &b) {
	asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
__device__ __forceinline__ u64 load1(const u64 *p) {
	u64 a;
	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(a) : "l"(p) : "memory");
	return a;
}
__device__ __forceinline__ u32 load_half(const u32 *p) {
	u32 a;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(a) : "l"(p) : "memory");
	return a;
}
__device__ __forceinline__ void store1(u64 *p, u64 a) {
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(a) : "memory");
}
__device__ __forceinline__ void store_half(u32 *p, u32 a) {
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(a) : "memory");
}

// 32-bit keys: a slot is one word, the hash above the value. The last of a tile's lanes has one slot and the link.
struct Keys32 {
	typedef u32 Key;
	typedef u64 Pair; // of a sorted batch
	enum { SLOTS = 15, RESERVED = 1, LANES = 8, BITS = 32 };
	static __device__ __forceinline__ Pair pair(u32 h, u32 value) { return (u64)h << 32 | value; }
	static __device__ __forceinline__ u32 hash(Pair r) { return (u32)(r >> 32); }
	static __device__ __forceinline__ u32 value(Pair r) { return (u32)r; }
	static __device__ __forceinline__ u32 hash(u32 h) { return h; }
	static __device__ __forceinline__ u32 mix(u32 h) { // the finaliser of MurmurHash3, a bijection
		h ^= h >> 16;
		h *= 0x85ebca6bu;
		h ^= h >> 13;
		h *= 0xc2b2ae35u;
		return h ^ h >> 16;
	}
	static __device__ __forceinline__ u32 unmix(u32 h) {
		h ^= h >> 16;
		h *= 0x7ed1b41du;
		h ^= h >> 13 ^ h >> 26;
		h *= 0xa5cb9243u;
		return h ^ h >> 16;
	}
	static __device__ __forceinline__ u64 home(u32 h, u64 buckets) { return __umulhi(h, (u32)buckets); }
	static __device__ __forceinline__ bool is(u64 w, u32 key) { return (u32)(w >> 32) == key; }
	static __device__ __forceinline__ bool live(u64 w) { return w > TOMB; }
	static __device__ __forceinline__ u32 key(u64 w) { return (u32)(w >> 32); }
	static __device__ __forceinline__ bool busy(u64) { return false; }
	static __device__ __forceinline__ u32 value_in(const u64 *, u32, u64 w) { return (u32)w; }
	static __device__ __forceinline__ u32 value_now(const u64 *, u32, u64 w) { return (u32)w; }
	static __device__ __forceinline__ void put(u64 *slab, u32 slot, u32 key, u32 value) { slab[slot] = (u64)key << 32 | value; }
	// What a tile that has a slab in its lanes has in the first or second slot of lane src.
	static __device__ __forceinline__ u32 value_of(const u64 *, bool, u32 src, bool first, u64 w0, u64 w1, bool) {
		return __shfl_sync(ALL, (u32)(first ? w0 : w1), src, TILE);
	}
	// One lane's attempts. A pair is one word, so whoever sees the key sees its value.
	static __device__ __forceinline__ bool claim(u64 *slab, u32 slot, u32 key, u32 value) {
		return atomicCAS(slab + slot, EMPTY, (u64)key << 32 | value) == EMPTY;
	}
	static __device__ __forceinline__ bool replace(u64 *slab, u32 slot, u64 seen, u32 key, u32 value) {
		// Where another value of the key was faster, it came just after this one: many requests for a key take one try each.
		const u64 w = (u64)key << 32 | value;
		return seen == w || is(atomicCAS(slab + slot, seen, w), key);
	}
};

// 64-bit keys: ten words of hashes, which five lanes have, and five of two values each.
struct Keys64 {
	typedef u64 Key;
	struct __align__(16) Pair {
		u64 h, v;
	};
	enum { SLOTS = 10, RESERVED = 3, LANES = 5, BITS = 64 };
	static __device__ __forceinline__ Pair pair(u64 h, u32 value) {
		Pair p = {h, value};
		return p;
	}
	static __device__ __forceinline__ u64 hash(const Pair &r) { return r.h; }
	static __device__ __forceinline__ u32 value(const Pair &r) { return (u32)r.v; }
	static __device__ __forceinline__ u64 hash(u64 h) { return h; }
	static __device__ __forceinline__ u64 mix(u64 h) {
		h ^= h >> 33;
		h *= 0xff51afd7ed558ccdull;
		h ^= h >> 33;
		h *= 0xc4ceb9fe1a85ec53ull;
		return h ^ h >> 33;
	}
	static __device__ __forceinline__ u64 unmix(u64 h) {
		h ^= h >> 33;
		h *= 0x9cb4b2f8129337dbull;
		h ^= h >> 33;
		h *= 0x4f74430c22a54005ull;
		return h ^ h >> 33;
	}
	static __device__ __forceinline__ u64 home(u64 h, u64 buckets) { return __umul64hi(h, buckets); }
	static __device__ __forceinline__ bool is(u64 w, u64 key) { return w == key; }
	static __device__ __forceinline__ bool live(u64 w) { return w > BUSY; }
	static __device__ __forceinline__ u64 key(u64 w) { return w; }
	static __device__ __forceinline__ bool busy(u64 w) { return w == BUSY; }
	static __device__ __forceinline__ u32 *place(u64 *slab, u32 slot) { return (u32 *)(slab + SLOTS) + slot; }
	static __device__ __forceinline__ u32 value_in(const u64 *slab, u32 slot, u64) { return ((const u32 *)(slab + SLOTS))[slot]; }
	static __device__ __forceinline__ u32 value_now(const u64 *slab, u32 slot, u64) { return load_half((const u32 *)(slab + SLOTS) + slot); }
	static __device__ __forceinline__ void put(u64 *slab, u32 slot, u64 key, u32 value) {
		slab[slot] = key;
		*place(slab, slot) = value;
	}
	// The lanes may have read the values before the hashes. Where a pair may be new they are read again; the fence
	// orders that behind the hash: the other half of claim's.
	static __device__ __forceinline__ u32 value_of(const u64 *slab, bool hit, u32 src, bool first, u64 w0, u64 w1, bool alone) {
		if (!alone) {
			if (!hit) return 0;
			__threadfence();
			return load_half((const u32 *)(slab + SLOTS) + 2 * src + !first);
		}
		const u64 two = __shfl_sync(ALL, src & 1 ? w1 : w0, LANES + src / 2, TILE);
		return first ? (u32)two : (u32)(two >> 32);
	}
	// The slot is reserved first, and its key is published behind the value.
	static __device__ __forceinline__ bool claim(u64 *slab, u32 slot, u64 key, u32 value) {
		if (atomicCAS(slab + slot, EMPTY, BUSY) != EMPTY) return false;
		store_half(place(slab, slot), value);
		__threadfence();
		store1(slab + slot, key);
		return true;
	}
	// If the pair is deleted meanwhile the value goes to a slot that nobody reads again before the next
	// flush: the replacement came before the deletion.
	static __device__ __forceinline__ bool replace(u64 *slab, u32 slot, u64, u64, u32 value) {
		store_half(place(slab, slot), value);
		return true;
	}
};

template <class L>
struct Table {
	typedef typename L::Key Key;
	u64 *head, *heads;
	u64 buckets;
	__device__ __forceinline__ Table(u64 *head, u64 *heads, u64 buckets) : head(head), heads(heads), buckets(buckets) {}
	static __device__ __forceinline__ bool aside(Key h) { return h < (Key)L::RESERVED; }
	static __device__ __forceinline__ Key mark(Key h) { return aside(h) ? (Key)MARK : h; }
	__device__ __forceinline__ u64 bucket(Key h) const { return aside(h) ? buckets + h : L::home(h, buckets); }
	__device__ __forceinline__ u64 *first(u64 bucket) const { return heads + bucket * WORDS; }
	// The arenas stay as they are during a kernel.
	__device__ __forceinline__ u64 *slab(u32 number) const {
		const u32 log2 = (u32)__ldg(head + HEAD_LOG2), arena = 31 - __clz((number >> log2) + 1);
		return (u64 *)__ldg(head + HEAD_ARENAS + arena) + (u64)(number - (((1u << arena) - 1) << log2)) * WORDS;
	}
	// Gives a slab that is empty, or none where ok is false.
	__device__ __forceinline__ u32 take(bool &ok) const {
		const u64 listed = __ldg(head + HEAD_FREE), fresh = __ldg(head + HEAD_FRESH);
		const u64 all = listed + __ldg(head + HEAD_CAPACITY) - fresh;
		u64 t = load1(head + HEAD_TAKEN);
		if (t < all) t = atomicAdd(head + HEAD_TAKEN, 1ull);
		ok = t < all;
		if (!ok) return 0;
		return t < listed ? __ldg((const u32 *)__ldg(head + HEAD_LIST) + (listed - 1 - t)) : (u32)(fresh + t - listed);
	}
};

__device__ __forceinline__ u32 *next_of(u64 *slab) { return (u32 *)(slab + LINK); }
__device__ __forceinline__ u32 *flag_of(u64 *slab) { return (u32 *)(slab + LINK) + 1; }

// Adds up what a block's threads changed. The whole block calls it, once.
__device__ __forceinline__ void account(u64 *head, int live, int dead, u32 left) {
	__shared__ int sums[3];
	if (threadIdx.x < 3) sums[threadIdx.x] = 0;
	__syncthreads();
	if (live) atomicAdd(&sums[HEAD_LIVE], live);
	if (dead) atomicAdd(&sums[HEAD_DEAD], dead);
	if (left) atomicAdd(&sums[HEAD_LEFT], (int)left);
	__syncthreads();
	if (threadIdx.x < 3 && sums[threadIdx.x]) atomicAdd(head + threadIdx.x, (u64)(long long)sums[threadIdx.x]);
}


// A request. Each lane has one of its own.
template <class L>
struct Request {
	typename L::Key h;
	u32 op, value, result;
	u64 *slab; // where it is
};

// Whether a kernel has requests of a kind; the kernel of mixed batches knows by op.
#define IS(KIND) (OP == KIND || OP == MIXED && op == KIND)
#define HAS(KIND) (OP == KIND || OP == MIXED)

// Takes request j of each tile one step: its slab is in the tile's lanes, in w0 and w1. All lanes of a warp come here
// together, and all lanes of a tile have the same j, active and x. The lane own of the request keeps what becomes of it.
// Gives whether it is done.
template <class L, int OP>
__device__ __forceinline__ bool step(const Table<L> &t, bool alone, Request<L> &own, u32 j, bool active, const Request<L> &x, u64 w0, u64 w1,
	int &live, int &dead) {
	const u32 lane = threadIdx.x % TILE, base = threadIdx.x % 32 - lane, op = x.op;
	const typename L::Key key = Table<L>::mark(x.h);
	const bool has0 = active && lane < L::LANES, has1 = has0 && 2 * lane + 1 < L::SLOTS;
	const bool match0 = has0 && L::live(w0) && L::is(w0, key), match1 = has1 && L::live(w1) && L::is(w1, key);
	const bool empty0 = has0 && w0 == EMPTY, empty1 = has1 && w1 == EMPTY;
	const u32 matches = __ballot_sync(ALL, match0 || match1) >> base & 0xff;
	const u32 empties = __ballot_sync(ALL, empty0 || empty1) >> base & 0xff;
	const u32 next = __shfl_sync(ALL, (u32)w1, TILE - 1, TILE);
	const u32 at = (__ffs(matches) - 1) & (TILE - 1); // the lane of the first match
	bool busy = false; // a slot is being filled: it may be this key's
	if (HAS(INSERT) && L::RESERVED > 1) busy = __ballot_sync(ALL, has0 && L::busy(w0) || has1 && L::busy(w1)) >> base & 0xff;

	// What is to be done. None of it is to read the slab again.
	const bool hit = matches != 0 && !IS(APPEND) && !IS(COUNT);
	const bool inserts = IS(INSERT) || IS(APPEND), ready = active && !hit && !(IS(INSERT) && busy);
	const bool change = active && hit && !IS(FIND);
	const bool claim = ready && inserts && empties;
	const bool fetch = ready && inserts && !empties && next == 0;
	const bool miss = active && !hit && !inserts && (empties || next == 0 || next == LINKING);
	bool go = ready && !empties && next != 0 && next != LINKING;
	bool done = miss || active && hit && IS(FIND);
	u32 result = hit, value = x.value, to = next;

	if (HAS(FIND)) {
		const bool first = __shfl_sync(ALL, match0, at, TILE);
		const u32 found = L::value_of(x.slab, active && hit && IS(FIND), at, first, w0, w1, alone);
		if (IS(FIND) && hit) value = found;
	}
	if (HAS(COUNT)) {
		const u32 n = __popc(__ballot_sync(ALL, match0) >> base & 0xff) + __popc(__ballot_sync(ALL, match1) >> base & 0xff);
		if (IS(COUNT)) {
			value += n;
			result = value != 0;
		}
	}
	if (OP != FIND && OP != COUNT) {
		bool ok = false;
		if (HAS(INSERT) || HAS(REPLACE) || HAS(DELETE)) {
			if (change && lane == at) {
				const u32 slot = 2 * lane + !match0;
				const u64 seen = match0 ? w0 : w1;
				if (IS(DELETE)) {
					ok = atomicCAS(x.slab + slot, seen, TOMB) == seen;
					live -= ok;
					dead += ok;
				} else {
					ok = L::replace(x.slab, slot, seen, key, x.value);
				}
			}
		}
		bool none = false;
		u32 number = 0;
		if (HAS(INSERT) || HAS(APPEND)) {
			if (claim && lane == __ffs(empties) - 1) {
				ok = L::claim(x.slab, 2 * lane + !empty0, key, x.value);
				live += ok;
			}
			if (fetch && lane == TILE - 1 && atomicCAS(next_of(x.slab), 0u, LINKING) == 0) {
				number = t.take(ok);
				none = !ok;
				if (ok && Table<L>::aside(x.h)) store_half(flag_of(t.slab(number)), (u32)x.h + 1);
				number += ok;
				__threadfence();
				store_half(next_of(x.slab), number);
			}
			number = __shfl_sync(ALL, number, TILE - 1, TILE);
			none = __shfl_sync(ALL, none, TILE - 1, TILE);
		}
		ok = __ballot_sync(ALL, ok) >> base & 0xff;
		done = done || none || ok && (change || claim);
		if (claim) result = YES;
		if (change && IS(INSERT)) result = NO;
		if (none) result = LEFT;
		if (fetch && number) {
			go = true;
			to = number;
		}
	}
	if (active && lane == j) {
		own.result = result;
		own.value = value;
		if (go) own.slab = t.slab(to - 1);
	}
	return done;
}

// Works on a batch. index, where not 0, says which n of its requests; left, where not 0, takes the number (u32) and the
// indices of those that found no slab. totals, where not 0, has the numbers of a split batch's requests of each
// kind, whose indices follow each other, but for finds: those of OP are meant. Finds go by ops, where not 0.
template <class L, int OP, int FLIGHT>
__device__ __forceinline__ void operate(const Table<L> t, u64 mode, const u8 *ops, const typename L::Key *keys, u32 *values, u8 *results, u64 n,
	const u32 *index, u32 *left, const u32 *totals) {
	if (totals) {
		for (int op = FIND + 1; op < OP; op++) index += totals[op];
		n = totals[OP];
	}
	const u32 lane = threadIdx.x % TILE, base = threadIdx.x % 32 - lane;
	const bool alone = OP == FIND && mode & ALONE;
	int live = 0, dead = 0;
	u32 lacking = 0;
	for (u64 first = (u64)blockIdx.x * THREADS + threadIdx.x / 32 * 32; first < n; first += (u64)gridDim.x * THREADS) {
		u64 i = first + threadIdx.x % 32;
		const bool mine = i < n && (OP != FIND || !ops || ops[i] == FIND);
		if (mine && index) i = index[i];
		Request<L> own;
		own.h = 0;
		own.op = OP;
		own.value = own.result = 0;
		u32 bucket = 0;
		if (mine) {
			own.h = L::mix(keys[i]);
			if (OP == MIXED) own.op = ops[i];
			if (OP == INSERT || OP == APPEND || OP == REPLACE || OP == MIXED && own.op >= INSERT && own.op <= REPLACE) own.value = values[i];
			bucket = t.bucket(own.h);
		}
		own.slab = t.first(bucket);
		u32 open = __ballot_sync(ALL, mine) >> base & 0xff; // the requests of this tile that are not done
#pragma unroll
		for (u32 from = 0; from < TILE; from += FLIGHT) {
			u64 w[FLIGHT][2];
			Request<L> x[FLIGHT];
#pragma unroll
			for (u32 f = 0; f < FLIGHT; f++) {
				x[f].slab = t.first(__shfl_sync(ALL, bucket, from + f, TILE));
				w[f][0] = w[f][1] = 0;
				if (open >> (from + f) & 1) load2(x[f].slab + 2 * lane, w[f][0], w[f][1]);
			}
#pragma unroll
			for (u32 f = 0; f < FLIGHT; f++) {
				const u32 j = from + f;
				x[f].h = __shfl_sync(ALL, own.h, j, TILE);
				x[f].op = OP == MIXED ? __shfl_sync(ALL, own.op, j, TILE) : OP;
				x[f].value = OP == FIND || OP == DELETE ? 0 : __shfl_sync(ALL, own.value, j, TILE);
				if (step<L, OP>(t, alone, own, j, open >> j & 1, x[f], w[f][0], w[f][1], live, dead)) open &= ~(1u << j);
			}
		}
		while (__any_sync(ALL, open)) {
			const u32 j = (__ffs(open) - 1) & (TILE - 1);
			Request<L> x;
			x.slab = (u64 *)__shfl_sync(ALL, (u64)own.slab, j, TILE);
			u64 w0 = 0, w1 = 0;
			if (open) load2(x.slab + 2 * lane, w0, w1);
			x.h = __shfl_sync(ALL, own.h, j, TILE);
			x.op = OP == MIXED ? __shfl_sync(ALL, own.op, j, TILE) : OP;
			x.value = __shfl_sync(ALL, own.value, j, TILE);
			if (step<L, OP>(t, alone, own, j, open, x, w0, w1, live, dead)) open &= ~(1u << j);
		}
		if (!mine) continue;
		if (results) results[i] = own.result;
		if (OP == FIND || OP == COUNT || OP == MIXED && (own.op == FIND || own.op == COUNT))
			if (values) values[i] = own.value;
		if ((HAS(INSERT) || HAS(APPEND)) && own.result == LEFT) {
			lacking++;
			if (left) left[1 + atomicAdd(left, 1u)] = i;
		}
	}
	account(t.head, live, dead, lacking);
}

// ---- What wants the table alone.

__device__ __forceinline__ u64 *follow(const u32 next, const u64 *head) {
	return next ? Table<Keys32>((u64 *)head, 0, 0).slab(next - 1) : 0;
}

// The slabs that a bucket lacks for so many more pairs.
template <class L>
__device__ __forceinline__ u64 lack(const Table<L> &t, u64 bucket, u32 pairs, bool fresh) {
	u64 *slab = t.first(bucket);
	if (!fresh)
		while (u64 *next = follow(*next_of(slab), t.head)) slab = next;
	u32 room = 0;
	for (u32 s = 0; s < L::SLOTS; s++) room += fresh || slab[s] == EMPTY;
	return pairs > room ? (pairs - room + L::SLOTS - 1) / L::SLOTS : 0;
}

// Adds up over a warp, all lanes of which come here.
__device__ __forceinline__ void add_up(u64 *to, u64 n) {
	for (u32 o = 16; o; o /= 2) n += __shfl_down_sync(ALL, n, o);
	if (threadIdx.x % 32 == 0 && n) atomicAdd(to, n);
}

// need counts the requests of every bucket that may need a slot; need_sum adds the slabs that they lack to HEAD_NEED.
template <class L>
__device__ __forceinline__ void need(const Table<L> t, u32 *counts, const u8 *ops, const typename L::Key *keys, u64 n) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		if (!ops || ops[i] == INSERT || ops[i] == APPEND) atomicAdd(counts + t.bucket(L::mix(keys[i])), 1u);
}

template <class L>
__device__ __forceinline__ void need_sum(const Table<L> t, const u32 *counts) {
	u64 sum = 0;
	const u64 n = t.buckets + L::RESERVED;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		if (counts[i]) sum += lack(t, i, counts[i], false);
	__syncwarp();
	add_up(t.head + HEAD_NEED, sum);
}

// A span is SPAN buckets; the first one has those of the reserved hashes, too. Local bucket l of a span is one of these.
template <class L>
struct Span {
	u64 base, size; // its first bucket, and how many it has
	bool sides;
	__device__ __forceinline__ Span(const Table<L> &t, u64 number) : base(number * SPAN), sides(number == 0) {
		size = t.buckets - base < SPAN ? t.buckets - base : SPAN;
	}
	__device__ __forceinline__ u32 local(const Table<L> &t, typename L::Key h) const {
		const u64 b = t.bucket(h);
		return b < t.buckets ? (u32)(b - base) : SPAN + (u32)(b - t.buckets);
	}
	__device__ __forceinline__ bool has(u32 l) const { return l < size || sides && l >= SPAN && l < SPAN + L::RESERVED; }
	__device__ __forceinline__ u64 bucket(const Table<L> &t, u32 l) const { return l < SPAN ? base + l : t.buckets + l - SPAN; }
};

template <class L>
__device__ __forceinline__ u64 span_of(const Table<L> &t, typename L::Key h) {
	return Table<L>::aside(h) ? 0 : L::home(h, t.buckets) / SPAN;
}

// need_span is need and need_sum for sorted requests, of which ends has the end for every span.
template <class L>
__device__ __forceinline__ void need_span(const Table<L> t, u64 fresh, const typename L::Pair *requests, const u32 *ends) {
	__shared__ u32 count[LOCALS];
	const u64 begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
	if (begin == end) return;
	const Span<L> span(t, blockIdx.x);
	for (u32 l = threadIdx.x; l < LOCALS; l += SPAN) count[l] = 0;
	__syncthreads();
	for (u64 i = begin + threadIdx.x; i < end; i += SPAN) atomicAdd(&count[span.local(t, L::hash(requests[i]))], 1u);
	__syncthreads();
	u64 sum = 0;
	for (u32 l = threadIdx.x; l < LOCALS; l += SPAN)
		if (span.has(l) && count[l]) sum += lack(t, span.bucket(t, l), count[l], fresh);
	__syncwarp();
	add_up(t.head + HEAD_NEED, sum);
}

// Puts a pair into a chain that begins at slab, which may be in shared memory.
template <class L>
__device__ __forceinline__ u32 put_alone(const Table<L> &t, u64 *slab, typename L::Key h, u32 value, bool unique, int &dead) {
	const typename L::Key key = Table<L>::mark(h);
	u64 *free = 0; // of a deleted pair
	u32 place = 0;
	for (;;) {
		for (u32 s = 0; s < L::SLOTS; s++) {
			const u64 w = slab[s];
			if (w == EMPTY) {
				if (!free) {
					L::put(slab, s, key, value);
					return YES;
				}
				L::put(free, place, key, value);
				dead--;
				return YES;
			}
			if (unique && L::live(w) && L::is(w, key)) {
				L::put(slab, s, key, value);
				return NO;
			}
			if (w == TOMB && !free) free = slab, place = s;
		}
		const u32 next = *next_of(slab);
		if (next == 0) break;
		slab = follow(next, t.head);
	}
	if (free) {
		L::put(free, place, key, value);
		dead--;
		return YES;
	}
	bool ok;
	const u32 number = t.take(ok);
	if (!ok) return LEFT;
	u64 *more = t.slab(number);
	if (Table<L>::aside(h)) *flag_of(more) = (u32)h + 1;
	L::put(more, 0, key, value);
	*next_of(slab) = number + 1;
	return YES;
}

template <class L>
__device__ __forceinline__ bool delete_alone(const Table<L> &t, u64 *slab, typename L::Key h) {
	const typename L::Key key = Table<L>::mark(h);
	while (slab) {
		for (u32 s = 0; s < L::SLOTS; s++) {
			const u64 w = slab[s];
			if (w == EMPTY) return false;
			if (!L::live(w) || !L::is(w, key)) continue;
			slab[s] = TOMB;
			return true;
		}
		slab = follow(*next_of(slab), t.head);
	}
	return false;
}

// Does sorted requests. A block has the first slabs of a span in shared memory, brings as many requests as fit there in
// the order of their buckets, and each thread does those of its buckets: work(slab, request).
template <class L, class R, class Work>
__device__ __forceinline__ void work_span(const Table<L> &t, bool fresh, const R *requests, const u32 *ends, Work work) {
	constexpr int ITEMS = SPAN_BYTES * (sizeof(R) > 8 ? 3 : 2) / 2 / SPAN / sizeof(R);
	extern __shared__ __align__(16) u64 slabs[];
	R *sorted = (R *)(slabs + (LOCALS * STRIDE + 1) / 2 * 2);
	__shared__ u32 count[LOCALS], begin_of[LOCALS + 1], warps[SPAN / 32];
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const u64 begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
	if (begin == end) return;
	const Span<L> span(t, blockIdx.x);
	for (u32 i = threadIdx.x; i < LOCALS * WORDS / 2; i += SPAN) {
		const u32 l = i / (WORDS / 2), w = i % (WORDS / 2) * 2;
		if (!span.has(l)) continue;
		// What is empty has its flag all the same.
		const ulonglong2 x = fresh && l < SPAN ? make_ulonglong2(0, 0) : __ldcs((const ulonglong2 *)(t.first(span.bucket(t, l)) + w));
		slabs[l * STRIDE + w] = x.x;
		slabs[l * STRIDE + w + 1] = x.y;
	}
	for (u64 first = begin; first < end; first += SPAN * ITEMS) {
		for (u32 l = threadIdx.x; l < LOCALS; l += SPAN) count[l] = 0;
		R own[ITEMS];
		u32 rank[ITEMS];
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * SPAN + threadIdx.x;
			if (i < end) own[j] = requests[i];
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * SPAN + threadIdx.x;
			if (i >= end) continue;
			const u32 l = span.local(t, L::hash(own[j]));
			rank[j] = atomicAdd(&count[l], 1u) << 16 | l;
		}
		__syncthreads();
		u32 sum = count[threadIdx.x];
#pragma unroll
		for (u32 o = 1; o < 32; o *= 2) {
			const u32 x = __shfl_up_sync(ALL, sum, o);
			if (lane >= o) sum += x;
		}
		if (lane == 31) warps[warp] = sum;
		__syncthreads();
		for (u32 i = 0; i < warp; i++) sum += warps[i];
		begin_of[threadIdx.x + 1] = sum;
		if (threadIdx.x == 0) begin_of[0] = 0;
		if (threadIdx.x == SPAN - 1)
			for (u32 l = SPAN; l < LOCALS; l++) begin_of[l + 1] = sum += count[l];
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++) {
			const u64 i = first + j * SPAN + threadIdx.x;
			if (i < end) sorted[begin_of[rank[j] & 0xffff] + (rank[j] >> 16)] = own[j];
		}
		__syncthreads();
		for (u32 l = threadIdx.x; l < LOCALS; l += SPAN)
			for (u32 i = begin_of[l]; i < begin_of[l + 1]; i++) work(slabs + l * STRIDE, sorted[i]);
		__syncthreads(); // before the next requests
	}
	for (u32 i = threadIdx.x; i < LOCALS * WORDS / 2; i += SPAN) {
		const u32 l = i / (WORDS / 2), w = i % (WORDS / 2) * 2;
		if (span.has(l))
			__stcs((ulonglong2 *)(t.first(span.bucket(t, l)) + w), make_ulonglong2(slabs[l * STRIDE + w], slabs[l * STRIDE + w + 1]));
	}
}

template <class L>
__device__ __forceinline__ void insert_span(const Table<L> t, u64 unique, u64 fresh, const typename L::Pair *requests, const u32 *ends) {
	int live = 0, dead = 0;
	u32 left = 0;
	work_span(t, fresh != 0, requests, ends, [&](u64 *slab, const typename L::Pair &r) {
		const u32 result = put_alone(t, slab, L::hash(r), L::value(r), unique != 0, dead);
		live += result == YES;
		left += result == LEFT;
	});
	account(t.head, live, dead, left);
}

template <class L>
__device__ __forceinline__ void delete_span(const Table<L> t, const typename L::Key *requests, const u32 *ends) {
	int gone = 0;
	work_span(t, false, requests, ends, [&](u64 *slab, typename L::Key h) { gone += delete_alone(t, slab, h); });
	account(t.head, -gone, gone, 0);
}

// settle takes what was taken off the free list and the arenas. One thread.
__device__ __forceinline__ void settle_head(u64 *head) {
	u64 taken = head[HEAD_TAKEN], listed = head[HEAD_FREE];
	const u64 fresh = head[HEAD_FRESH], capacity = head[HEAD_CAPACITY];
	if (taken > listed + capacity - fresh) taken = listed + capacity - fresh; // some came for nothing
	head[HEAD_FREE] = taken < listed ? listed - taken : 0;
	head[HEAD_FRESH] = taken < listed ? fresh : fresh + taken - listed;
	head[HEAD_TAKEN] = 0;
}

// flush moves the pairs of each chain with deleted ones together and gives the slabs behind them back, empty.
template <class L>
__device__ __forceinline__ void flush(const Table<L> t) {
	const u64 n = t.buckets + L::RESERVED;
	u32 *list = (u32 *)t.head[HEAD_LIST];
	for (u64 b = (u64)blockIdx.x * THREADS + threadIdx.x; b < n; b += (u64)gridDim.x * THREADS) {
		u64 *to = t.first(b);
		bool tombs = false;
		for (u64 *slab = to; slab && !tombs; slab = follow(*next_of(slab), t.head))
			for (u32 s = 0; s < L::SLOTS; s++) tombs |= slab[s] == TOMB;
		if (!tombs) continue;
		u32 free = 0; // the slot of to where the next pair goes
		for (u64 *slab = to; slab; slab = follow(*next_of(slab), t.head))
			for (u32 s = 0; s < L::SLOTS; s++) {
				const u64 w = slab[s];
				if (!L::live(w)) continue;
				if (free == L::SLOTS) {
					to = follow(*next_of(to), t.head);
					free = 0;
				}
				L::put(to, free++, L::key(w), L::value_in(slab, s, w));
			}
		for (; free < L::SLOTS; free++) to[free] = EMPTY;
		u32 rest = *next_of(to);
		*next_of(to) = 0;
		while (rest) {
			u64 *slab = follow(rest, t.head);
			const u32 number = rest - 1;
			rest = *next_of(slab);
			for (u32 w = 0; w < WORDS; w++) slab[w] = 0;
			list[atomicAdd(t.head + HEAD_FREE, 1ull)] = number;
		}
	}
}

// iterate copies the pairs of n slabs that lie next to each other, in no order. Those that do not fit into max are
// counted only.
template <class L>
__device__ __forceinline__ void iterate(const u64 *slabs, u64 n, typename L::Key *keys, u32 *values, u64 max, u64 *count) {
	const u32 lane = threadIdx.x % TILE, warp_lane = threadIdx.x % 32, before = (1u << warp_lane) - 1;
	const u64 size = 32 / TILE * SCAN_ROWS; // slabs of a warp
	for (u64 first = ((u64)blockIdx.x * THREADS + threadIdx.x) / 32 * size; first < n; first += (u64)gridDim.x * THREADS / 32 * size) {
		u64 w[SCAN_ROWS][2];
		u32 pairs[SCAN_ROWS][2], all = 0;
#pragma unroll
		for (u32 j = 0; j < SCAN_ROWS; j++) {
			const u64 i = first + j * (32 / TILE) + warp_lane / TILE;
			w[j][0] = w[j][1] = 0;
			if (i < n) load2(slabs + i * WORDS + 2 * lane, w[j][0], w[j][1]);
		}
#pragma unroll
		for (u32 j = 0; j < SCAN_ROWS; j++) {
			const bool has0 = lane < L::LANES, has1 = has0 && 2 * lane + 1 < L::SLOTS;
			pairs[j][0] = __ballot_sync(ALL, has0 && L::live(w[j][0]));
			pairs[j][1] = __ballot_sync(ALL, has1 && L::live(w[j][1]));
			all += __popc(pairs[j][0]) + __popc(pairs[j][1]);
		}
		u64 to = 0;
		if (warp_lane == 0 && all) to = atomicAdd(count, (u64)all);
		to = __shfl_sync(ALL, to, 0);
		if (L::RESERVED > 1) __threadfence(); // values are read behind their keys
#pragma unroll
		for (u32 j = 0; j < SCAN_ROWS; j++) {
			const u32 flag = __shfl_sync(ALL, (u32)(w[j][1] >> 32), TILE - 1, TILE);
			const u64 *slab = slabs + (first + j * (32 / TILE) + warp_lane / TILE) * WORDS;
#pragma unroll
			for (u32 k = 0; k < 2; k++) {
				const u64 at = to + __popc(pairs[j][k] & before);
				if (pairs[j][k] >> warp_lane & 1 && at < max) {
					keys[at] = L::unmix(flag ? (typename L::Key)(flag - 1) : L::key(w[j][k]));
					values[at] = L::value_now(slab, 2 * lane + k, w[j][k]);
				}
				to += __popc(pairs[j][k]);
			}
		}
	}
}

// A large mixed batch is done as a batch of each kind: a warp that has one thing to do does it twice as fast. count_ops
// counts the requests of each kind, split writes the indices of those that are no finds, kind after kind and nearly in
// order; next is where each kind goes on.
#define KINDS 6
extern "C" __global__ void __launch_bounds__(THREADS) count_ops(u32 *totals, const u8 *ops, u64 n) {
	__shared__ u32 own[KINDS];
	if (threadIdx.x < KINDS) own[threadIdx.x] = 0;
	__syncthreads();
	u32 count[KINDS] = {};
	const u64 step = (u64)gridDim.x * THREADS * 16;
	for (u64 first = ((u64)blockIdx.x * THREADS + threadIdx.x) * 16; first < n; first += step) {
		u32 w[4] = {~0u, ~0u, ~0u, ~0u};
		if (first + 16 <= n && (u64)ops % 16 == 0) {
			const uint4 x = *(const uint4 *)(ops + first);
			w[0] = x.x, w[1] = x.y, w[2] = x.z, w[3] = x.w;
		} else {
			for (u64 i = first; i < n && i < first + 16; i++) {
				const u32 at = (u32)(i - first), shift = at % 4 * 8;
				w[at / 4] = w[at / 4] & ~(0xffu << shift) | (u32)ops[i] << shift;
			}
		}
#pragma unroll
		for (u32 k = 0; k < KINDS; k++)
#pragma unroll
			for (u32 j = 0; j < 4; j++) count[k] += __popc(__vcmpeq4(w[j], k * 0x01010101u)) / 8;
	}
#pragma unroll
	for (u32 k = 0; k < KINDS; k++) {
		for (u32 o = 16; o; o /= 2) count[k] += __shfl_xor_sync(ALL, count[k], o);
		if (threadIdx.x % 32 == 0 && count[k]) atomicAdd(&own[k], count[k]);
	}
	__syncthreads();
	if (threadIdx.x < KINDS && own[threadIdx.x]) atomicAdd(totals + threadIdx.x, own[threadIdx.x]);
}

extern "C" __global__ void __launch_bounds__(THREADS) split(u32 *index, u32 *next, const u8 *ops, const u32 *totals, u64 n) {
	const u32 ROWS = 16, lane = threadIdx.x % 32;
	__shared__ u32 own[KINDS], base[KINDS];
	const u64 size = THREADS * ROWS;
	for (u64 first = blockIdx.x * size; first < n; first += gridDim.x * size) {
		u32 rank[ROWS], op[ROWS];
		if (threadIdx.x < KINDS) own[threadIdx.x] = 0;
		__syncthreads();
#pragma unroll
		for (u32 j = 0; j < ROWS; j++) {
			const u64 i = first + j * THREADS + threadIdx.x;
			op[j] = i < n ? ops[i] : KINDS;
			if (op[j] == FIND) op[j] = KINDS;
			// One round for each kind that the warp has.
			for (u32 left = __ballot_sync(ALL, op[j] < KINDS); left;) {
				const u32 k = __shfl_sync(ALL, op[j], __ffs(left) - 1), with = __ballot_sync(ALL, op[j] == k);
				u32 at = 0;
				if (lane == 0) at = atomicAdd(&own[k], __popc(with));
				at = __shfl_sync(ALL, at, 0);
				if (op[j] == k) rank[j] = at + __popc(with & ((1u << lane) - 1));
				left &= ~with;
			}
		}
		__syncthreads();
		if (threadIdx.x < KINDS) {
			u32 before = 0;
			for (u32 k = FIND + 1; k < threadIdx.x; k++) before += totals[k];
			base[threadIdx.x] = before + (own[threadIdx.x] ? atomicAdd(next + threadIdx.x, own[threadIdx.x]) : 0);
		}
		__syncthreads();
#pragma unroll
		for (u32 j = 0; j < ROWS; j++)
			if (op[j] < KINDS) index[base[op[j]] + rank[j]] = (u32)(first + j * THREADS + threadIdx.x);
		__syncthreads(); // before the next tile's counts
	}
}

extern "C" __global__ void settle(u64 *head) {
	if (threadIdx.x == 0 && blockIdx.x == 0) settle_head(head);
}

#define TABLE(L) Table<L>(head, heads, buckets)
#define OPERATE(NAME, OP, FLIGHT, BLOCKS, L, SUFFIX) \
	extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME##_##SUFFIX(u64 *head, u64 *heads, u64 buckets, u64 mode, const u8 *ops, \
		const L::Key *keys, u32 *values, u8 *results, u64 n, const u32 *index, u32 *left, const u32 *totals) { \
		operate<L, OP, FLIGHT>(TABLE(L), mode, ops, keys, values, results, n, index, left, totals); \
	}
// The steps of a sort: the first takes keys (and values), the second sorts each bin by span.
#define SORT(NAME, R, L, SUFFIX) \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) count_##NAME##_##SUFFIX(u32 *counts, const u32 *ends, const L::R *requests, \
		u64 buckets, u64 shift) { \
		const Table<L> t(0, 0, buckets); \
		count_requests(counts, 1ull << shift, ends, 0, [=](u64 i) { return (u32)span_of(t, L::hash(requests[i])) & ((1u << shift) - 1); }); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_##NAME##_##SUFFIX(L::R *out, u32 *next, const u32 *ends, \
		const L::R *requests, u64 buckets, u64 shift) { \
		const Table<L> t(0, 0, buckets); \
		scatter_requests<L::R>( \
			out, next, 1ull << shift, ends, 0, [=](u64 i) { return requests[i]; }, \
			[=](const L::R &r) { return (u32)span_of(t, L::hash(r)) & ((1u << shift) - 1); }); \
	}
#define KERNELS(L, SUFFIX) \
	OPERATE(find, FIND, FIND_FLIGHT, FIND_BLOCKS, L, SUFFIX) \
	OPERATE(insert, INSERT, CHANGE_FLIGHT, CHANGE_BLOCKS, L, SUFFIX) \
	OPERATE(append, APPEND, CHANGE_FLIGHT, CHANGE_BLOCKS, L, SUFFIX) \
	OPERATE(replace, REPLACE, CHANGE_FLIGHT, CHANGE_BLOCKS, L, SUFFIX) \
	OPERATE(delete, DELETE, CHANGE_FLIGHT, CHANGE_BLOCKS, L, SUFFIX) \
	OPERATE(count, COUNT, FIND_FLIGHT, FIND_BLOCKS, L, SUFFIX) \
	OPERATE(mixed, MIXED, CHANGE_FLIGHT, CHANGE_BLOCKS, L, SUFFIX) \
	extern "C" __global__ void __launch_bounds__(THREADS) need_##SUFFIX(u64 *head, u64 *heads, u64 buckets, u32 *counts, const u8 *ops, \
		const L::Key *keys, u64 n) { \
		need(TABLE(L), counts, ops, keys, n); \
	} \
	extern "C" __global__ void __launch_bounds__(THREADS) need_sum_##SUFFIX(u64 *head, u64 *heads, u64 buckets, const u32 *counts) { \
		need_sum(TABLE(L), counts); \
	} \
	extern "C" __global__ void __launch_bounds__(SPAN) need_span_##SUFFIX(u64 *head, u64 *heads, u64 buckets, u64 fresh, const L::Pair *requests, \
		const u32 *ends) { \
		need_span(TABLE(L), fresh, requests, ends); \
	} \
	extern "C" __global__ void __launch_bounds__(SPAN) insert_span_##SUFFIX(u64 *head, u64 *heads, u64 buckets, u64 unique, u64 fresh, \
		const L::Pair *requests, const u32 *ends) { \
		insert_span(TABLE(L), unique, fresh, requests, ends); \
	} \
	extern "C" __global__ void __launch_bounds__(SPAN) delete_span_##SUFFIX(u64 *head, u64 *heads, u64 buckets, const L::Key *requests, \
		const u32 *ends) { \
		delete_span(TABLE(L), requests, ends); \
	} \
	extern "C" __global__ void __launch_bounds__(THREADS) flush_##SUFFIX(u64 *head, u64 *heads, u64 buckets) { flush(TABLE(L)); } \
	extern "C" __global__ void __launch_bounds__(THREADS) iterate_##SUFFIX(const u64 *slabs, u64 n, L::Key *keys, u32 *values, u64 max, \
		u64 *count) { \
		iterate<L>(slabs, n, keys, values, max, count); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) count_keys_##SUFFIX(u32 *counts, const L::Key *keys, u64 n, u64 buckets, \
		u64 shift) { \
		const Table<L> t(0, 0, buckets); \
		count_requests(counts, 0, 0, n, [=](u64 i) { return (u32)(span_of(t, L::mix(keys[i])) >> shift); }); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_puts_##SUFFIX(L::Pair *out, u32 *next, const L::Key *keys, \
		const u32 *values, u64 n, u64 buckets, u64 shift) { \
		const Table<L> t(0, 0, buckets); \
		scatter_requests<L::Pair>( \
			out, next, 0, 0, n, [=](u64 i) { return L::pair(L::mix(keys[i]), values[i]); }, \
			[=](const L::Pair &r) { return (u32)(span_of(t, L::hash(r)) >> shift); }); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_keys_##SUFFIX(L::Key *out, u32 *next, const L::Key *keys, u64 n, \
		u64 buckets, u64 shift) { \
		const Table<L> t(0, 0, buckets); \
		scatter_requests<L::Key>( \
			out, next, 0, 0, n, [=](u64 i) { return L::mix(keys[i]); }, \
			[=](typename L::Key h) { return (u32)(span_of(t, h) >> shift); }); \
	} \
	SORT(pairs, Pair, L, SUFFIX) \
	SORT(hashes, Key, L, SUFFIX)

KERNELS(Keys32, 32)
KERNELS(Keys64, 64)
