// Linear probing by buckets of one 32-byte sector. linear.go says what the table is and launches
// the kernels; twins.go has them in plain Go over the same buffers.
//
// All parameters take 8 bytes. A bucket is read by two loads. The first-level cache serves the second one: a third
// more buckets a second than past it. What it serves may be old, by as much as the batch has run. A change that
// goes by an old bucket loses its race for the slot and then reads past the cache; beside batches of other
// kinds (SHARED) all reads go past it.
//
// An operation is a request that goes from bucket to bucket. A thread has several requests under way
// (..._FLIGHT): it loads the buckets of all of them, and only then looks at any. A request that lost
// a race stays where it is and reads its bucket again. Nothing loops inside of that loop, so a thread
// that waits for another one's pair never keeps that one, of the same warp, from publishing it.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#include "../regions.cuh"

// What sets the speed. linear.go knows THREADS and the flights.
#define THREADS 256 // a block
#define FIND_FLIGHT 4
#define INSERT_FLIGHT 2
#define ERASE_FLIGHT 2
#define FIND_BLOCKS 4 // blocks of a multiprocessor, which bounds the registers
#define INSERT_BLOCKS 4
#define ERASE_BLOCKS 4

// The table's shape, as linear.go has it.
#define LINE 4       // buckets of a 128-byte line
#define SIDE 8       // buckets of a side region
#define POLL 32      // buckets between two looks at whether the table was found full
#define PROBES 64    // entries of the histogram of probe lengths

// How kernels are to work on a table.
#define SHARED 1  // others insert or erase at the same time
#define PATIENT 2 // no request is given up because others found the table full

// A slot's first word where no pair is. Hashes of these values live in side regions.
#define EMPTY 0ull
#define TOMB 1ull
#define BUSY 2ull // 64-bit pairs only: claimed, and not yet published
#define MARK 3    // the key of all pairs of a side region

// The table's header, counters of 8 bytes; the buckets begin behind it.
#define HEAD_LIVE 0
#define HEAD_DEAD 1 // slots of erased pairs
#define HEAD_LEFT 2 // requests that found no slot
#define HEAD_WORDS 32

// What became of a request; the first three are the results that insert writes.
#define REPLACED 0
#define NEW 1
#define LEFT 2
#define REUSED 3 // new, in the slot of an erased pair
#define OPEN 4   // not done
#define MISSING 0
#define FOUND 1
#define ERASED_EMPTY 1
#define ERASED_TOMB 2

__device__ __forceinline__ void load2(const u64 *p, u64 &a, u64 &b) {
	asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
// Reads two words past the first-level cache, or through it.
__device__ __forceinline__ void load2(const u64 *p, u64 &a, u64 &b, bool past) {
	if (past)
		load2(p, a, b);
	else
		asm volatile("ld.weak.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
__device__ __forceinline__ u64 load1(const u64 *p) {
	u64 a;
	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(a) : "l"(p) : "memory");
	return a;
}
__device__ __forceinline__ void store1(u64 *p, u64 a) {
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(a) : "memory");
}

// Pairs of 32-bit key and value, in one word with the key above: four a bucket.
struct Pairs32 {
	typedef u32 Word;
	typedef u64 Record; // a request: its hash above the value
	static __device__ __forceinline__ Record record(u32 h, u32 value) { return (u64)h << 32 | value; }
	static __device__ __forceinline__ u32 hash_of(Record r) { return (u32)(r >> 32); }
	static __device__ __forceinline__ u32 value_of(Record r) { return (u32)r; }
	enum { SLOTS = 4, RESERVED = 1, BITS = 32 };
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
	static __device__ __forceinline__ void load(const u64 *bucket, u64 (&w)[SLOTS], bool past) {
		load2(bucket, w[0], w[1], past);
		load2(bucket + 2, w[2], w[3], past);
	}
	static __device__ __forceinline__ u32 key(u64 w) { return (u32)(w >> 32); }
	static __device__ __forceinline__ bool live(u64 w) { return w > TOMB; }
	static __device__ __forceinline__ bool busy(u64) { return false; }
	static __device__ __forceinline__ u32 value(const u64 *, u64 w, bool) { return (u32)w; }
	// A pair is one word, so whoever sees the key sees its value.
	static __device__ __forceinline__ bool claim(u64 *slot, u64 seen, u32 key, u32 value) {
		return atomicCAS(slot, seen, (u64)key << 32 | value) == seen;
	}
	static __device__ __forceinline__ bool replace(u64 *slot, u64 seen, u32 key, u32 value) {
		// Where another value of the key was faster, it came just after this one: many requests for a key take one try each.
		const u64 pair = (u64)key << 32 | value;
		return seen == pair || Pairs32::key(atomicCAS(slot, seen, pair)) == key;
	}
	// In a region a slot only changes from empty or erased to a key's.
	static __device__ __forceinline__ u64 take(u64 *slot, u64 seen, u32 key, u32 value) { return atomicCAS(slot, seen, (u64)key << 32 | value); }
	static __device__ __forceinline__ void settle(u64 *, u32) {}
	static __device__ __forceinline__ void assign(u64 *slot, u32 key, u32 value) { atomicExch(slot, (u64)key << 32 | value); }
};

// Pairs of 64-bit key and value: two a bucket, the keys in front, each value two words behind its key.
struct Pairs64 {
	typedef u64 Word;
	typedef ulonglong2 Record;
	static __device__ __forceinline__ Record record(u64 h, u64 value) { return make_ulonglong2(h, value); }
	static __device__ __forceinline__ u64 hash_of(Record r) { return r.x; }
	static __device__ __forceinline__ u64 value_of(Record r) { return r.y; }
	enum { SLOTS = 2, RESERVED = 3, BITS = 64 };
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
	static __device__ __forceinline__ void load(const u64 *bucket, u64 (&w)[SLOTS], bool past) { load2(bucket, w[0], w[1], past); }
	static __device__ __forceinline__ u64 key(u64 w) { return w; }
	static __device__ __forceinline__ bool live(u64 w) { return w > BUSY; }
	static __device__ __forceinline__ bool busy(u64 w) { return w == BUSY; }
	// The fence orders the read of the value behind that of the key: the other half of claim's.
	static __device__ __forceinline__ u64 value(const u64 *slot, u64, bool shared) {
		if (!shared) return slot[SLOTS];
		__threadfence();
		return load1(slot + SLOTS);
	}
	// The slot is reserved first, and its key is published behind the value.
	static __device__ __forceinline__ bool claim(u64 *slot, u64 seen, u64 key, u64 value) {
		if (atomicCAS(slot, seen, BUSY) != seen) return false;
		store1(slot + SLOTS, value);
		__threadfence();
		store1(slot, key);
		return true;
	}
	// If the pair is erased meanwhile, the value goes to a slot that nobody reads again before the
	// next rehash: the replacement came before the erasure.
	static __device__ __forceinline__ bool replace(u64 *slot, u64, u64, u64 value) {
		store1(slot + SLOTS, value);
		return true;
	}
	static __device__ __forceinline__ u64 take(u64 *slot, u64 seen, u64 key, u64) { return atomicCAS(slot, seen, key); }
	static __device__ __forceinline__ void settle(u64 *slot, u64 value) { atomicExch(slot + SLOTS, value); }
	static __device__ __forceinline__ void assign(u64 *slot, u64, u64 value) { atomicExch(slot + SLOTS, value); }
};

// A table as kernels get it. Bucket numbers go on from the main region to the side regions.
template <class L>
struct Table {
	u64 *head, *buckets;
	u32 log2; // of the number of main buckets, 2 to 32
	bool shared, patient;

	__device__ __forceinline__ Table(u64 *table, u64 log2, u64 mode)
		: head(table), buckets(table + HEAD_WORDS), log2((u32)log2), shared(mode & SHARED), patient(mode & PATIENT) {}
	__device__ __forceinline__ u64 *at(u64 bucket) const { return buckets + bucket * 4; }
	__device__ __forceinline__ u64 main() const { return 1ull << log2; }
	__device__ __forceinline__ u64 all() const { return main() + L::RESERVED * SIDE; }
	__device__ __forceinline__ static bool aside(typename L::Word h) { return h < L::RESERVED; }
	// What a slot's key is compared with.
	__device__ __forceinline__ static typename L::Word mark(typename L::Word h) { return aside(h) ? MARK : h; }
	// The number of buckets of a region: the table is one, or many full ones.
	__device__ __forceinline__ u64 span() const { return main() < REGION ? main() : REGION; }
	__device__ __forceinline__ u64 home(typename L::Word h) const { return h >> (L::BITS - log2); }
	// The place of a bucket in its region at a step of the way from home: the buckets of the home's line, those first
	// that share 64 bytes, then the next line's.
	__device__ __forceinline__ u64 step_in(u64 home, u32 step) const {
		return ((home / LINE + step / LINE) & (span() / LINE - 1)) * LINE | ((home ^ step) & (LINE - 1));
	}
	// The bucket where a hash is looked for at a step of its way, which stays in its region.
	__device__ __forceinline__ u64 bucket(typename L::Word h, u32 step) const {
		if (aside(h)) return main() + h * SIDE + step;
		return (home(h) & ~(span() - 1)) | step_in(home(h), step);
	}
	// The number of buckets on a hash's way.
	__device__ __forceinline__ u32 way(typename L::Word h) const { return aside(h) ? SIDE : (u32)span(); }
};

template <class L>
struct Request {
	typename L::Word h, value;
	u32 step;
	u32 dead; // the first slot of an erased pair on the way: step * SLOTS + slot + 1; 0 is none
	bool past; // read past the first-level cache
};

// insert. A batch of inserts keeps a key unique because all requests for it agree on its slot. Beside
// deletions (shared) that is the first empty slot of the way: what is before it is taken, for good.
// Otherwise it is the first slot of an erased pair up to and with the first bucket that has an empty
// slot, or else that bucket's first empty one; no slot of an erased pair comes anew meanwhile.
template <class L>
__device__ __forceinline__ u32 insert_step(const Table<L> &t, Request<L> &r, const u64 (&w)[L::SLOTS]) {
	const typename L::Word key = Table<L>::mark(r.h);
	int match = -1, empty = -1, dead = -1;
	u64 seen = 0;
	bool busy = false;
#pragma unroll
	for (int s = L::SLOTS - 1; s >= 0; s--) {
		if (L::live(w[s]) && L::key(w[s]) == key) match = s, seen = w[s];
		if (w[s] == EMPTY) empty = s;
		if (w[s] == TOMB) dead = s;
		busy |= L::busy(w[s]);
	}
	u64 *bucket = t.at(t.bucket(r.h, r.step));
	if (match >= 0) {
		r.past = true; // where it goes on if another one was faster
		return L::replace(bucket + match, seen, key, r.value) ? REPLACED : OPEN;
	}
	r.past = t.shared || busy;
	if (busy) return OPEN; // it may be this key
	if (!t.shared && r.dead == 0 && dead >= 0) r.dead = r.step * L::SLOTS + dead + 1;
	const bool last = r.step + 1 == t.way(r.h);
	if (empty < 0 && !last) {
		r.step++;
		if (r.step % POLL == 0 && !t.patient && load1(t.head + HEAD_LEFT)) return LEFT;
		return OPEN;
	}
	r.past = true;
	if (r.dead) {
		r.step = (r.dead - 1) / L::SLOTS; // where it goes on if another one was faster
		u64 *slot = t.at(t.bucket(r.h, r.step)) + (r.dead - 1) % L::SLOTS;
		r.dead = 0;
		return L::claim(slot, TOMB, key, r.value) ? REUSED : OPEN;
	}
	if (empty < 0) return LEFT;
	return L::claim(bucket + empty, EMPTY, key, r.value) ? NEW : OPEN;
}

// find takes a slot that is being filled for one of another key: its pair is not there yet.
template <class L>
__device__ __forceinline__ u32 find_step(const Table<L> &t, Request<L> &r, const u64 (&w)[L::SLOTS]) {
	const typename L::Word key = Table<L>::mark(r.h);
	int match = -1;
	u64 seen = 0;
	bool empty = false;
#pragma unroll
	for (int s = 0; s < L::SLOTS; s++) {
		if (L::live(w[s]) && L::key(w[s]) == key) match = s, seen = w[s];
		empty |= w[s] == EMPTY;
	}
	if (match >= 0) {
		r.value = L::value(t.at(t.bucket(r.h, r.step)) + match, seen, t.shared);
		return FOUND;
	}
	if (empty || r.step + 1 == t.way(r.h)) return MISSING;
	r.step++;
	return OPEN;
}

// A way ends at a bucket with an empty slot, so a pair of such a bucket could leave an empty slot: nothing
// was ever put behind it. It does so where the next slot is empty, so that the empty slots of a bucket are
// its last. That is not so if an insert may fill the last empty slot at that moment.
template <class L>
__device__ __forceinline__ u32 erase_step(const Table<L> &t, Request<L> &r, const u64 (&w)[L::SLOTS]) {
	const typename L::Word key = Table<L>::mark(r.h);
	int match = -1;
	u64 seen = 0;
	bool empty = false, next = false; // next: the slot behind the match is empty
#pragma unroll
	for (int s = L::SLOTS - 1; s >= 0; s--) {
		if (L::live(w[s]) && L::key(w[s]) == key) match = s, next = s + 1 < L::SLOTS && w[(s + 1) % L::SLOTS] == EMPTY, seen = w[s];
		empty |= w[s] == EMPTY;
	}
	if (match >= 0) {
		const u64 after = next && !t.shared ? EMPTY : TOMB;
		r.past = true; // where it goes on if another one was faster
		if (atomicCAS(t.at(t.bucket(r.h, r.step)) + match, seen, after) != seen) return OPEN;
		return after == EMPTY ? ERASED_EMPTY : ERASED_TOMB;
	}
	if (empty || r.step + 1 == t.way(r.h)) return MISSING;
	r.step++;
	r.past = t.shared;
	return OPEN;
}

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

// Calls step for n requests, FLIGHT of them a thread at a time. start(i, request) makes request i; step gives
// OPEN or what became of it. When a thread's requests are all done, done(i, request, result) gets them, so
// that a warp writes its results side by side.
template <class L, int FLIGHT, class Start, class Step, class Done>
__device__ __forceinline__ void walk_all(const Table<L> &t, u64 n, u64 rounds, Start start, Step step, Done done) {
	const u64 size = rounds * THREADS * FLIGHT;
	for (u64 chunk = blockIdx.x; chunk * size < n; chunk += gridDim.x) {
		for (u64 round = 0; round < rounds; round++) {
			const u64 first = chunk * size + round * THREADS * FLIGHT + threadIdx.x;
			Request<L> r[FLIGHT];
			u32 result[FLIGHT];
			u32 open = 0;
#pragma unroll
			for (int j = 0; j < FLIGHT; j++) {
				const u64 i = first + j * THREADS;
				if (i >= n) continue;
				r[j].step = r[j].dead = 0;
				r[j].past = t.shared;
				start(i, r[j]);
				open |= 1u << j;
			}
			const u32 asked = open;
			while (open) {
				u64 w[FLIGHT][L::SLOTS];
#pragma unroll
				for (int j = 0; j < FLIGHT; j++)
					if (open >> j & 1) L::load(t.at(t.bucket(r[j].h, r[j].step)), w[j], r[j].past);
#pragma unroll
				for (int j = 0; j < FLIGHT; j++) {
					if (!(open >> j & 1)) continue;
					result[j] = step(r[j], w[j]);
					if (result[j] != OPEN) open &= ~(1u << j);
				}
			}
#pragma unroll
			for (int j = 0; j < FLIGHT; j++)
				if (asked >> j & 1) done(first + j * THREADS, r[j], result[j]);
		}
	}
}

// Inserts one pair by itself.
template <class L>
__device__ u32 insert_alone(const Table<L> &t, typename L::Word h, typename L::Word value) {
	Request<L> r;
	r.h = h;
	r.value = value;
	r.step = r.dead = 0;
	r.past = true;
	u32 result = OPEN;
	while (result == OPEN) {
		u64 w[L::SLOTS];
		L::load(t.at(t.bucket(r.h, r.step)), w, true);
		result = insert_step(t, r, w);
	}
	return result;
}

template <class L>
__device__ __forceinline__ void insert(const Table<L> t, const typename L::Word *keys, const typename L::Word *values, u8 *results, u64 n,
	u64 rounds) {
	int live = 0, dead = 0;
	u32 left = 0;
	walk_all<L, INSERT_FLIGHT>(
		t, n, rounds,
		[&](u64 i, Request<L> &r) {
			r.h = L::mix(keys[i]);
			r.value = values[i];
		},
		[&](Request<L> &r, const u64(&w)[L::SLOTS]) {
			const u32 result = insert_step(t, r, w);
			// A non-zero count tells the others. account adds the rest.
			if (result == LEFT && left++ == 0) atomicAdd(t.head + HEAD_LEFT, 1ull);
			return result;
		},
		[&](u64 i, const Request<L> &, u32 result) {
			live += result == NEW || result == REUSED;
			dead -= result == REUSED;
			if (results) results[i] = result == REUSED ? NEW : result;
		});
	account(t.head, live, dead, left ? left - 1 : 0);
}

template <class L>
__device__ __forceinline__ void find(const Table<L> t, typename L::Word *values, u8 *results, const typename L::Word *keys, u64 n,
	u64 rounds) {
	walk_all<L, FIND_FLIGHT>(
		t, n, rounds,
		[&](u64 i, Request<L> &r) {
			r.h = L::mix(keys[i]);
			r.value = 0;
		},
		[&](Request<L> &r, const u64(&w)[L::SLOTS]) { return find_step(t, r, w); },
		[&](u64 i, const Request<L> &r, u32 result) {
			values[i] = r.value;
			if (results) results[i] = result;
		});
}

template <class L>
__device__ __forceinline__ void erase(const Table<L> t, const typename L::Word *keys, u8 *results, u64 n, u64 rounds) {
	int live = 0, dead = 0;
	walk_all<L, ERASE_FLIGHT>(
		t, n, rounds, [&](u64 i, Request<L> &r) { r.h = L::mix(keys[i]); },
		[&](Request<L> &r, const u64(&w)[L::SLOTS]) { return erase_step(t, r, w); },
		[&](u64 i, const Request<L> &, u32 result) {
			live -= result != MISSING;
			dead += result == ERASED_TOMB;
			if (results) results[i] = result != MISSING;
		});
	account(t.head, live, dead, 0);
}

// ---- regions in shared memory (../regions.cuh). While the requests of one run beside each other, all of it
// is read and written by atomics.

__device__ __forceinline__ u64 peek(u64 *p) { return atomicCAS(p, EMPTY, EMPTY); }

// Inserts in a region, where a key's way has so many slots; at(i) is slot i. A slot is claimed as it is read where
// the table has no tombstones: then the first one that is not another key's is the key's.
template <class L, class At>
__device__ __forceinline__ u32 insert_slots(At at, u32 slots, bool tombs, typename L::Word key, typename L::Word value) {
	u64 *dead = 0;
	for (u32 i = 0; i < slots;) {
		u64 *slot = at(i);
		u64 seen = tombs ? peek(slot) : L::take(slot, EMPTY, key, value);
		if (seen == EMPTY && tombs) {
			u64 *free = dead ? dead : slot;
			const u64 was = dead ? TOMB : EMPTY;
			if (L::take(free, was, key, value) != was) { // another one was faster
				dead = 0;
				i = 0;
				continue;
			}
			L::settle(free, value);
			return dead ? REUSED : NEW;
		}
		if (seen == EMPTY) {
			L::settle(slot, value);
			return NEW;
		}
		if (L::live(seen) && L::key(seen) == key) {
			L::assign(slot, key, value);
			return REPLACED;
		}
		if (seen == TOMB && !dead) dead = slot;
		i++;
	}
	if (!dead) return LEFT;
	// No slot is empty: the first one of an erased pair.
	if (L::take(dead, TOMB, key, value) != TOMB) return OPEN;
	L::settle(dead, value);
	return REUSED;
}

// A block's region: where its requests are among those sorted, and its first bucket. counts is what the table's head had
// before the batch, so what is empty need not be read.
template <class L>
__device__ __forceinline__ u64 open_region(const Table<L> &t, u64 *region, const u32 *ends, const u64 *counts, u64 &begin, u64 &end) {
	begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
	const u64 base = blockIdx.x * t.span();
	if (begin < end) fetch_region(region, t.at(base), t.span() * 4, counts[HEAD_LIVE] == 0 && counts[HEAD_DEAD] == 0);
	return base;
}

template <class L>
__device__ __forceinline__ void insert_region(const Table<L> t, const typename L::Record *records, const u32 *ends, const u64 *counts) {
	extern __shared__ __align__(16) u64 region[];
	u64 begin, end;
	const u64 base = open_region(t, region, ends, counts, begin, end);
	if (begin == end) return;
	const bool tombs = counts[HEAD_DEAD] != 0;
	int live = 0, dead = 0;
	u32 left = 0;
	for (u64 i = begin + threadIdx.x; i < end; i += REGION_THREADS) {
		const typename L::Record x = records[i];
		const typename L::Word h = L::hash_of(x);
		u32 result = OPEN;
		if (Table<L>::aside(h)) result = insert_alone(t, h, L::value_of(x));
		const u64 home = t.home(h);
		const auto at = [&](u32 i) { return region + t.step_in(home, i / L::SLOTS) * 4 + i % L::SLOTS; };
		while (result == OPEN) result = insert_slots<L>(at, (u32)t.span() * L::SLOTS, tombs, h, L::value_of(x));
		live += result == NEW || result == REUSED;
		dead -= result == REUSED;
		left += result == LEFT;
	}
	return_region(t.at(base), region, t.span() * 4);
	account(t.head, live, dead, left);
}

template <class L>
__device__ __forceinline__ void erase_region(const Table<L> t, const typename L::Word *hashes, const u32 *ends, const u64 *counts) {
	extern __shared__ __align__(16) u64 region[];
	u64 begin, end;
	const u64 base = open_region(t, region, ends, counts, begin, end);
	if (begin == end) return;
	int live = 0, dead = 0;
	for (u64 i = begin + threadIdx.x; i < end; i += REGION_THREADS) {
		const typename L::Word h = hashes[i], key = Table<L>::mark(h);
		const u64 home = t.home(h);
		for (u32 j = 0; j < t.way(h) * L::SLOTS; j++) {
			// A side region is not among those that are sorted.
			u64 *slot = Table<L>::aside(h) ? t.at(t.bucket(h, j / L::SLOTS)) + j % L::SLOTS
										   : region + t.step_in(home, j / L::SLOTS) * 4 + j % L::SLOTS;
			const u64 seen = peek(slot);
			if (L::live(seen) && L::key(seen) == key) {
				const bool empty = j % L::SLOTS + 1 < L::SLOTS && peek(slot + 1) == EMPTY;
				// Whoever comes second finds that it is gone.
				const bool first = atomicCAS(slot, seen, empty ? EMPTY : TOMB) == seen;
				live -= first;
				dead += first && !empty;
				break;
			}
			if (seen == EMPTY) break;
		}
	}
	return_region(t.at(base), region, t.span() * 4);
	account(t.head, live, dead, 0);
}

// Gives slot i of a table: its first word, and its hash if there is a pair. Slots are numbered as
// they lie, side regions last.
template <class L>
__device__ __forceinline__ u64 *slot_of(const Table<L> &t, u64 i, u64 &w, typename L::Word &h) {
	u64 *slot = t.at(i / L::SLOTS) + i % L::SLOTS;
	w = load1(slot);
	h = i / L::SLOTS < t.main() ? L::key(w) : (typename L::Word)((i / L::SLOTS - t.main()) / SIDE);
	return slot;
}

// rehash puts the pairs of one table into an empty one that nobody else uses.
template <class L>
__device__ __forceinline__ void rehash(const Table<L> to, const Table<L> from) {
	int live = 0;
	u32 left = 0;
	const u64 n = from.all() * L::SLOTS;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u64 seen;
		typename L::Word h;
		u64 *slot = slot_of(from, i, seen, h);
		if (!L::live(seen)) continue;
		const u32 result = insert_alone(to, h, L::value(slot, seen, false));
		live += result == NEW;
		left += result == LEFT;
	}
	account(to.head, live, 0, left);
}

// iterate copies the pairs, in no order. Those that do not fit into max are counted only.
template <class L>
__device__ __forceinline__ void iterate(const Table<L> t, typename L::Word *keys, typename L::Word *values, u64 max, u64 *count) {
	__shared__ u32 warps[THREADS / 32];
	__shared__ u64 place;
	const u64 n = t.all() * L::SLOTS;
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (u64 first = (u64)blockIdx.x * THREADS; first < n; first += (u64)gridDim.x * THREADS) {
		u64 w = EMPTY, *slot = 0;
		typename L::Word h = 0;
		if (first + threadIdx.x < n) slot = slot_of(t, first + threadIdx.x, w, h);
		const bool live = L::live(w);
		const u32 all = __ballot_sync(0xffffffffu, live);
		if (lane == 0) warps[warp] = __popc(all);
		__syncthreads();
		if (threadIdx.x == 0) {
			u32 sum = 0;
			for (int i = 0; i < THREADS / 32; i++) {
				u32 own = warps[i];
				warps[i] = sum;
				sum += own;
			}
			place = atomicAdd(count, (u64)sum);
		}
		__syncthreads();
		const u64 to = place + warps[warp] + __popc(all & ((1u << lane) - 1));
		if (live && to < max) {
			keys[to] = L::unmix(h);
			values[to] = L::value(slot, w, t.shared);
		}
		__syncthreads(); // before the next round's counts
	}
}

// stats adds to the histogram of the buckets that finds of all pairs read, their sum, their maximum.
template <class L>
__device__ __forceinline__ void stats(const Table<L> t, u64 *out) {
	__shared__ u32 histogram[PROBES];
	__shared__ u64 sum;
	__shared__ u32 longest;
	for (u32 i = threadIdx.x; i < PROBES; i += THREADS) histogram[i] = 0;
	if (threadIdx.x == 0) sum = longest = 0;
	__syncthreads();
	const u64 n = t.all() * L::SLOTS;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u64 w;
		typename L::Word h;
		slot_of(t, i, w, h);
		if (!L::live(w)) continue;
		const u64 bucket = i / L::SLOTS;
		u32 probes; // the way of bucket(), backwards
		if (bucket >= t.main()) {
			probes = (bucket - t.main()) % SIDE + 1;
		} else {
			const u64 home = h >> (L::BITS - t.log2);
			probes = (u32)((bucket / LINE - home / LINE) & (t.span() / LINE - 1)) * LINE + ((bucket ^ home) & (LINE - 1)) + 1;
		}
		atomicAdd(&histogram[probes < PROBES ? probes - 1 : PROBES - 1], 1u);
		atomicAdd(&sum, (u64)probes);
		atomicMax(&longest, probes);
	}
	__syncthreads();
	for (u32 i = threadIdx.x; i < PROBES; i += THREADS)
		if (histogram[i]) atomicAdd(out + 2 + i, (u64)histogram[i]);
	if (threadIdx.x == 0) {
		atomicAdd(out, sum);
		atomicMax(out + 1, (u64)longest);
	}
}

// The first step of a sort takes its bin from the highest bits of a hash (shift), the second from the next ones
// (bits of them).
template <class L>
__device__ __forceinline__ u32 bin_of(typename L::Word h, u64 shift, u64 bits) {
	return (u32)(h >> shift) & ((1u << bits) - 1);
}

#define TABLE(L) Table<L>(table, log2, mode)
#define KERNEL(BLOCKS, NAME) extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME
#define REGION_KERNEL(NAME) extern "C" __global__ void __launch_bounds__(REGION_THREADS) NAME
#define PART_KERNEL(NAME) extern "C" __global__ void __launch_bounds__(PART_THREADS) NAME
#define STEP(L, KIND, R, HASH, SUFFIX) \
	PART_KERNEL(count_##KIND##_##SUFFIX)(u32 *counts, const u32 *ends, const R *requests, u64 shift, u64 bits) { \
		count_requests(counts, 1ull << bits, ends, 0, [=](u64 i) { return bin_of<L>(HASH(requests[i]), shift, bits); }); \
	} \
	PART_KERNEL(scatter_##KIND##_##SUFFIX)(R *out, u32 *next, const u32 *ends, const R *requests, u64 shift, u64 bits) { \
		scatter_requests<R>( \
			out, next, 1ull << bits, ends, 0, [=](u64 i) { return requests[i]; }, \
			[=](const R &r) { return bin_of<L>(HASH(r), shift, bits); }); \
	}
#define KERNELS(L, W, SUFFIX) \
	KERNEL(INSERT_BLOCKS, insert_##SUFFIX)(u64 *table, u64 log2, u64 mode, const W *keys, const W *values, u8 *results, u64 n, u64 rounds) { \
		insert<L>(TABLE(L), keys, values, results, n, rounds); \
	} \
	KERNEL(FIND_BLOCKS, find_##SUFFIX)(u64 *table, u64 log2, u64 mode, W *values, u8 *results, const W *keys, u64 n, u64 rounds) { \
		find<L>(TABLE(L), values, results, keys, n, rounds); \
	} \
	KERNEL(ERASE_BLOCKS, erase_##SUFFIX)(u64 *table, u64 log2, u64 mode, const W *keys, u8 *results, u64 n, u64 rounds) { \
		erase<L>(TABLE(L), keys, results, n, rounds); \
	} \
	REGION_KERNEL(insert_region_##SUFFIX)(u64 *table, u64 log2, const L::Record *records, const u32 *ends, const u64 *counts) { \
		insert_region<L>(Table<L>(table, log2, PATIENT), records, ends, counts); \
	} \
	REGION_KERNEL(erase_region_##SUFFIX)(u64 *table, u64 log2, const W *hashes, const u32 *ends, const u64 *counts) { \
		erase_region<L>(Table<L>(table, log2, 0), hashes, ends, counts); \
	} \
	KERNEL(1, rehash_##SUFFIX)(u64 *table, u64 log2, u64 *from, u64 from_log2) { \
		rehash<L>(Table<L>(table, log2, PATIENT), Table<L>(from, from_log2, 0)); \
	} \
	KERNEL(1, iterate_##SUFFIX)(u64 *table, u64 log2, u64 mode, W *keys, W *values, u64 max, u64 *count) { \
		iterate<L>(TABLE(L), keys, values, max, count); \
	} \
	KERNEL(1, stats_##SUFFIX)(u64 *table, u64 log2, u64 *out) { \
		stats<L>(Table<L>(table, log2, 0), out); \
	} \
	PART_KERNEL(count_keys_##SUFFIX)(u32 *bins, const W *keys, u64 n, u64 shift) { \
		count_requests(bins, 0, 0, n, [=](u64 i) { return bin_of<L>(L::mix(keys[i]), shift, 8); }); \
	} \
	PART_KERNEL(scatter_pairs_##SUFFIX)(L::Record *out, u32 *next, const W *keys, const W *values, u64 n, u64 shift) { \
		scatter_requests<L::Record>( \
			out, next, 0, 0, n, [=](u64 i) { return L::record(L::mix(keys[i]), values[i]); }, \
			[=](const L::Record &r) { return bin_of<L>(L::hash_of(r), shift, 8); }); \
	} \
	PART_KERNEL(scatter_keys_##SUFFIX)(W *out, u32 *next, const W *keys, u64 n, u64 shift) { \
		scatter_requests<W>( \
			out, next, 0, 0, n, [=](u64 i) { return L::mix(keys[i]); }, [=](W h) { return bin_of<L>(h, shift, 8); }); \
	} \
	STEP(L, records, L::Record, L::hash_of, SUFFIX) \
	STEP(L, hashes, W, (W), SUFFIX)

KERNELS(Pairs32, u32, 32)
KERNELS(Pairs64, u64, 64)
