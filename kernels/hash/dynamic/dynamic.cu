// A map of submaps. dynamic.go says what it is and launches the kernels; core.go has the same on slices.
//
// All parameters take 8 bytes. A batch is a kernel of its own and changes the map in one way only: it
// finds, inserts or erases. So slots only fill up during an insert, and only empty during an erase.
//
// A request goes from sector to sector and from submap to submap. A thread has several under way
// (..._FLIGHT): it loads the sectors of all of them, and only then looks at any. A request that lost a
// race stays where it is and reads its sector again. Nothing loops inside of that loop, so a thread
// that waits for another one's pair never keeps that one, of the same warp, from writing it.
//
// A sector is read by two loads. The first-level cache serves the second one: a third more sectors a
// second than past it. What it serves may be old. During a find nothing changes; a change that goes by
// an old sector loses its race for the slot, and then reads past the cache.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#include "../regions.cuh"

// What sets the speed. dynamic.go knows THREADS, the flights and TILE.
#define THREADS 256 // a block
// TILE is the slots a thread that RetrieveAll looks at at a time.
#define INSERT_FLIGHT 2
#define ERASE_FLIGHT 2

// A slot's first word where no pair is; others are a hash.
#define EMPTY 0ull
#define TOMB 1ull
#define MARK 2ull // narrow: the first word of the pairs aside, whose hashes are EMPTY and TOMB
#define ASIDE 2   // sectors for them, behind all others
#define BUSY 2ull // wide: added to a hash while the pair is being written, DONE when it is
#define DONE 3ull

#define LINE 4 // sectors of a 128-byte line
#define MAX_SUBMAPS 32

// What became of a request.
#define OLD 0 // insert: the key was there
#define NEW 1
#define REUSED 2 // new, in the slot of an erased pair
#define FULL 3   // no slot left on its way
#define OPEN 4   // not done
#define MISSING 0
#define FOUND 1
#define ERASED_EMPTY 1
#define ERASED_TOMB 2

struct Submap {
	u64 *words;
	u64 sectors; // without those aside; a multiple of LINE
	u64 live;    // pairs
	u64 used;    // slots of pairs and of erased pairs
};

// A map as kernels get it.
struct Maps {
	Submap at[MAX_SUBMAPS];
	u64 full;                // inserts that found no slot
	u64 order[MAX_SUBMAPS]; // in which finds go through the submaps: those with the most pairs first
};

__device__ __forceinline__ void load2(const u64 *p, u64 &a, u64 &b) {
	asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}
// Reads a sector past the first-level cache, or through it.
__device__ __forceinline__ void load_sector(const u64 *p, u64 (&w)[4], bool past) {
	if (past) {
		load2(p, w[0], w[1]);
		load2(p + 2, w[2], w[3]);
		return;
	}
	asm volatile("ld.weak.global.v2.u64 {%0, %1}, [%2];" : "=l"(w[0]), "=l"(w[1]) : "l"(p) : "memory");
	asm volatile("ld.weak.global.v2.u64 {%0, %1}, [%2];" : "=l"(w[2]), "=l"(w[3]) : "l"(p + 2) : "memory");
}
// A store that is done as a whole, to any memory.
__device__ __forceinline__ void store1(u64 *p, u64 a) { *(volatile u64 *)p = a; }

__device__ __forceinline__ u64 mix(u64 h) { // the finaliser of MurmurHash3, a bijection
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdull;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ull;
	return h ^ h >> 33;
}
__device__ __forceinline__ u64 unmix(u64 h) {
	h ^= h >> 33;
	h *= 0x9cb4b2f8129337dbull;
	h ^= h >> 33;
	h *= 0x4f74430c22a54005ull;
	return h ^ h >> 33;
}

// A 64-bit key. Its slot is its hash, from which the key comes back, and the value: two a sector.
struct Narrow {
	enum { SLOTS = 2, WORDS = 2, FIND_FLIGHT = 4, TILE = 8 };
	u64 h;
	struct __align__(16) Request { // of a sorted batch
		u64 h, value;
	};
	struct Erasure {
		u64 h;
	};
	__device__ __forceinline__ void from(const u64 *keys, u64 i, u64 seed) { h = mix(keys[i] ^ seed); }
	__device__ __forceinline__ void from(const Erasure &r, u64) { h = r.h; }
	__device__ __forceinline__ void from(const Request &r, u64) { h = r.h; }
	__device__ __forceinline__ void request(Request &r, u64 value) const { r.h = h, r.value = value; }
	__device__ __forceinline__ void request(Erasure &r) const { r.h = h; }
	static __device__ __forceinline__ u64 hash(const Request &r, u64) { return r.h; }
	static __device__ __forceinline__ u64 hash(const Erasure &r, u64) { return r.h; }

	__device__ __forceinline__ bool aside() const { return h < ASIDE; }
	__device__ __forceinline__ u64 mark() const { return aside() ? MARK : h; }
	__device__ __forceinline__ u64 done() const { return mark(); }    // the first word of its slot
	__device__ __forceinline__ u64 claimed() const { return mark(); } // while it is being written
	static __device__ __forceinline__ bool live(u64 first) { return first > TOMB; }
	__device__ __forceinline__ bool match(const u64 *w) const { return w[0] == mark(); }
	// Whether this key is in the slot, of which w may have been read while it was written.
	__device__ __forceinline__ bool match_shared(const u64 *, const u64 *w, bool &) const { return w[0] == mark(); }
	static __device__ __forceinline__ u64 value(const u64 *w) { return w[1]; }
	static __device__ __forceinline__ u64 *value_of(u64 *slot) { return slot + 1; }
	__device__ __forceinline__ bool claim(u64 *slot, u64 seen, u64 value) const {
		if (atomicCAS(slot, seen, mark()) != seen) return false;
		store1(slot + 1, value);
		return true;
	}
	// Takes the key from a slot, which lies aside if that is not negative.
	__device__ __forceinline__ void from_slot(const u64 *w, long long side, u64) { h = side < 0 ? w[0] : (u64)side; }
	__device__ __forceinline__ void put(u64 *keys, u64 i, u64 seed) const { keys[i] = unmix(h) ^ seed; }
};

// A 128-bit key, most significant word first: one a sector. The first word is the hash, with what the
// slot's state is in its lowest two bits; it alone tells what may be read of the rest.
struct Wide {
	enum { SLOTS = 1, WORDS = 4, FIND_FLIGHT = 2, TILE = 4 };
	u64 h, hi, lo;
	struct __align__(16) Request {
		u64 hi, lo, value, h;
	};
	struct __align__(16) Erasure {
		u64 hi, lo;
	};
	__device__ __forceinline__ void from(u64 a, u64 b, u64 seed) {
		hi = a, lo = b;
		h = mix(b ^ seed ^ mix(a + seed)) & ~DONE;
	}
	__device__ __forceinline__ void from(const u64 *keys, u64 i, u64 seed) {
		ulonglong2 k = ((const ulonglong2 *)keys)[i];
		from(k.x, k.y, seed);
	}
	__device__ __forceinline__ void from(const Request &r, u64) { h = r.h, hi = r.hi, lo = r.lo; }
	__device__ __forceinline__ void from(const Erasure &r, u64 seed) { from(r.hi, r.lo, seed); }
	__device__ __forceinline__ void request(Request &r, u64 value) const { r.hi = hi, r.lo = lo, r.value = value, r.h = h; }
	__device__ __forceinline__ void request(Erasure &r) const { r.hi = hi, r.lo = lo; }
	static __device__ __forceinline__ u64 hash(const Request &r, u64) { return r.h; }
	static __device__ __forceinline__ u64 hash(const Erasure &r, u64 seed) {
		Wide k;
		k.from(r.hi, r.lo, seed);
		return k.h;
	}

	__device__ __forceinline__ bool aside() const { return false; }
	__device__ __forceinline__ u64 done() const { return h | DONE; }
	__device__ __forceinline__ u64 claimed() const { return h | BUSY; }
	static __device__ __forceinline__ bool live(u64 first) { return first > TOMB; }
	__device__ __forceinline__ bool match(const u64 *w) const { return w[0] == (h | DONE) && w[1] == hi && w[2] == lo; }
	__device__ __forceinline__ bool match_shared(const u64 *slot, const u64 *w, bool &busy) const {
		busy |= w[0] == (h | BUSY);
		if (w[0] != (h | DONE)) return false;
		__threadfence(); // the key is read behind the word that says that it is there
		return ((volatile const u64 *)slot)[1] == hi && ((volatile const u64 *)slot)[2] == lo;
	}
	static __device__ __forceinline__ u64 value(const u64 *w) { return w[3]; }
	static __device__ __forceinline__ u64 *value_of(u64 *slot) { return slot + 3; }
	__device__ __forceinline__ bool claim(u64 *slot, u64 seen, u64 value) const {
		if (atomicCAS(slot, seen, h | BUSY) != seen) return false;
		store1(slot + 1, hi);
		store1(slot + 2, lo);
		store1(slot + 3, value);
		__threadfence();
		store1(slot, h | DONE);
		return true;
	}
	__device__ __forceinline__ void from_slot(const u64 *w, long long, u64 seed) { from(w[1], w[2], seed); }
	__device__ __forceinline__ void put(u64 *keys, u64 i, u64) const { ((ulonglong2 *)keys)[i] = make_ulonglong2(hi, lo); }
};

// The place of a sector in its region at a step of a key's way: the sectors of its home's line, those
// first that share 64 bytes, then the next line's. span is the number of the region's sectors.
__device__ __forceinline__ u64 step_in(u64 home, u64 span, u64 step) {
	u64 line = home / LINE + step / LINE;
	if (line >= span / LINE) line -= span / LINE;
	return line * LINE | ((home ^ step) & (LINE - 1));
}

// The number of sectors on a way: a submap is one region, or many full ones.
__device__ __forceinline__ u64 span_of(const Submap &m) { return m.sectors < REGION ? m.sectors : REGION; }

// The sector of a submap where a key is looked for at a step of its way.
template <class K>
__device__ __forceinline__ u64 *sector_of(const Submap &m, const K &k, u64 step) {
	if (K::SLOTS > 1 && k.aside()) return m.words + (m.sectors + k.h) * 4;
	const u64 home = __umul64hi(k.h, m.sectors), region = home & ~(u64)(REGION - 1);
	return m.words + (region + step_in(home - region, span_of(m), step)) * 4;
}

// Brings the submaps to where a block reads them fast, in their own order or that of finds.
__device__ __forceinline__ void open_maps(Submap *own, const Maps *maps, u64 count, bool ordered) {
	for (u32 i = threadIdx.x; i < count; i += blockDim.x) own[i] = maps->at[ordered ? maps->order[i] : i];
	__syncthreads();
}

// A request on its way.
template <class K>
struct Walk {
	K key;
	u32 submap; // 0 and up in the order of the walk
	u32 step;   // sectors gone by in the submap
	bool past;  // read past the first-level cache
};
template <class K>
struct Finding : Walk<K> {
	u64 value;
};
template <class K>
struct Insertion : Walk<K> {
	u64 value;
	u32 dead; // step * SLOTS + slot + 1 of the first slot of an erased pair in the target; 0 is none
};

template <class K>
__device__ __forceinline__ u32 find_step(const Submap *maps, u32 count, Walk<K> &r, const u64 (&w)[4]) {
	bool empty = false;
#pragma unroll
	for (int s = 0; s < K::SLOTS; s++) {
		if (r.key.match(w + s * K::WORDS)) return FOUND;
		empty |= w[s * K::WORDS] == EMPTY;
	}
	if (empty || ++r.step == span_of(maps[r.submap])) {
		r.step = 0;
		if (++r.submap == count) return MISSING;
	}
	return OPEN;
}

// Calls step for n requests, FLIGHT of them a thread at a time. start(i, walk) makes request i; at(walk)
// is the sector that it reads next; step(walk, words) gives OPEN or what became of it. When a thread's
// requests are all done, done(i, walk, result) gets them, so that a warp writes its results side by side.
template <class K, class W, int FLIGHT, class Start, class At, class Step, class Done>
__device__ __forceinline__ void walk_all(u64 n, Start start, At at, Step step, Done done) {
	const u64 size = THREADS * FLIGHT;
	for (u64 chunk = blockIdx.x; chunk * size < n; chunk += gridDim.x) {
		const u64 first = chunk * size + threadIdx.x;
		W r[FLIGHT];
		u32 result[FLIGHT];
		u32 open = 0;
#pragma unroll
		for (int j = 0; j < FLIGHT; j++) {
			const u64 i = first + j * THREADS;
			if (i >= n) continue;
			r[j].submap = r[j].step = 0;
			start(i, r[j]);
			open |= 1u << j;
		}
		const u32 asked = open;
		while (open) {
			u64 w[FLIGHT][4];
#pragma unroll
			for (int j = 0; j < FLIGHT; j++)
				if (open >> j & 1) load_sector(at(r[j]), w[j], r[j].past);
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

// find writes every key's value, 0 where it is missing, and whether it is there. Either may be left out.
template <class K, class V>
__device__ __forceinline__ void find(const Maps *maps, u64 count, u64 seed, V *values, u8 *found, const u64 *keys, u64 n) {
	__shared__ Submap own[MAX_SUBMAPS];
	open_maps(own, maps, count, true);
	walk_all<K, Finding<K>, K::FIND_FLIGHT>(
		n,
		[&](u64 i, Finding<K> &r) {
			r.key.from(keys, i, seed);
			r.value = 0;
		},
		[&](Finding<K> &r) { return sector_of(own[r.submap], r.key, r.step); },
		[&](Finding<K> &r, const u64(&w)[4]) {
#pragma unroll
			for (int s = 0; s < K::SLOTS; s++)
				if (r.key.match(w + s * K::WORDS)) r.value = K::value(w + s * K::WORDS);
			return find_step(own, (u32)count, (Walk<K> &)r, w);
		},
		[&](u64 i, const Finding<K> &r, u32 result) {
			if (values) values[i] = (V)r.value;
			if (found) found[i] = result;
		});
}

// Adds up, by block, a number of every thread.
__device__ __forceinline__ void add_up(u64 *to, u64 by) {
	for (u32 o = 16; o; o /= 2) by += __shfl_xor_sync(0xffffffffu, by, o);
	if (threadIdx.x % 32 == 0 && by) atomicAdd(to, by);
}

// missing counts the keys that are not there, one that the batch has twice twice.
template <class K>
__device__ __forceinline__ void missing(const Maps *maps, u64 count, u64 seed, const u64 *keys, u64 n, u64 *out) {
	__shared__ Submap own[MAX_SUBMAPS];
	open_maps(own, maps, count, true);
	u64 lacking = 0;
	walk_all<K, Walk<K>, K::FIND_FLIGHT>(
		n, [&](u64 i, Walk<K> &r) { r.key.from(keys, i, seed); },
		[&](Walk<K> &r) { return sector_of(own[r.submap], r.key, r.step); },
		[&](Walk<K> &r, const u64(&w)[4]) { return find_step(own, (u32)count, r, w); },
		[&](u64, const Walk<K> &, u32 result) { lacking += result == MISSING; });
	add_up(out, lacking);
}

// What an insert does in the target, whose sectors are at(step). All requests for a key agree on its slot:
// the first one of an erased pair up to and with the first sector that has an empty slot, or else that sector's
// first empty one. Slots of erased pairs do not come anew meanwhile.
template <class K, class At>
__device__ __forceinline__ u32 target_step(At at, u64 span, bool assign, Insertion<K> &r, const u64 (&w)[4]) {
	u64 *sector = at(r.step);
	int match = -1, empty = -1, dead = -1;
	bool busy = false;
#pragma unroll
	for (int s = K::SLOTS - 1; s >= 0; s--) {
		const u64 *slot = w + s * K::WORDS;
		if (r.key.match_shared(sector + s * K::WORDS, slot, busy)) match = s;
		if (slot[0] == EMPTY) empty = s;
		if (slot[0] == TOMB) dead = s;
	}
	if (match >= 0) {
		if (assign) store1(K::value_of(sector + match * K::WORDS), r.value);
		return OLD;
	}
	r.past = busy;
	if (busy) return OPEN; // it may be this key
	if (dead >= 0 && r.dead == 0) r.dead = r.step * K::SLOTS + dead + 1;
	if (empty < 0 && ++r.step < span) return OPEN;
	r.past = true; // where it goes on if another one was faster
	if (r.dead) {
		r.step = (r.dead - 1) / K::SLOTS;
		u64 *slot = at(r.step) + (r.dead - 1) % K::SLOTS * K::WORDS;
		r.dead = 0;
		return r.key.claim(slot, TOMB, r.value) ? REUSED : OPEN;
	}
	if (empty < 0) return FULL;
	return r.key.claim(sector + empty * K::WORDS, EMPTY, r.value) ? NEW : OPEN;
}

// An insert goes through the other submaps first, where the key may be, and through the target last.
__device__ __forceinline__ u32 map_at(u32 submap, u32 count, u32 target) {
	return submap + 1 == count ? target : submap + (submap >= target);
}
template <class K>
__device__ __forceinline__ u32 insert_step(const Submap *maps, u32 count, u32 target, bool assign, Insertion<K> &r, const u64 (&w)[4]) {
	const Submap &m = maps[map_at(r.submap, count, target)];
	if (r.submap + 1 == count) return target_step<K>([&](u64 step) { return sector_of(m, r.key, step); }, span_of(m), assign, r, w);
	bool empty = false;
#pragma unroll
	for (int s = 0; s < K::SLOTS; s++) {
		if (r.key.match(w + s * K::WORDS)) {
			if (assign) store1(K::value_of(sector_of(m, r.key, r.step) + s * K::WORDS), r.value);
			return OLD;
		}
		empty |= w[s * K::WORDS] == EMPTY;
	}
	if (empty || ++r.step == span_of(m)) {
		r.step = 0;
		r.submap++;
	}
	return OPEN;
}

// Goes on with one insert until it is done, or has come to the target where upto is not the end.
template <class K>
__device__ u32 insert_alone(const Submap *maps, u32 count, u32 target, bool assign, Insertion<K> &r, u32 upto) {
	u32 result = OPEN;
	while (result == OPEN && r.submap < upto) {
		u64 w[4];
		load_sector(sector_of(maps[map_at(r.submap, count, target)], r.key, r.step), w, r.past);
		result = insert_step(maps, count, target, assign, r, w);
	}
	return result;
}

template <class K, class Start, class Done>
__device__ __forceinline__ void insert(Maps *maps, u64 count, u64 target, u64 assign, u64 n, Start start, Done done) {
	__shared__ Submap own[MAX_SUBMAPS];
	open_maps(own, maps, count, false);
	u64 live = 0, used = 0, left = 0;
	walk_all<K, Insertion<K>, INSERT_FLIGHT>(
		n,
		[&](u64 i, Insertion<K> &r) {
			r.dead = 0;
			start(i, r);
		},
		[&](Insertion<K> &r) { return sector_of(own[map_at(r.submap, (u32)count, (u32)target)], r.key, r.step); },
		[&](Insertion<K> &r, const u64(&w)[4]) { return insert_step(own, (u32)count, (u32)target, assign != 0, r, w); },
		[&](u64 i, const Insertion<K> &, u32 result) {
			live += result == NEW || result == REUSED;
			used += result == NEW;
			left += result == FULL;
			done(i, result);
		});
	add_up(&maps->at[target].live, live);
	add_up(&maps->at[target].used, used);
	add_up(&maps->full, left);
}

// ---- regions in shared memory. While the requests of one run beside each other, all of it is read and
// written by atomics.

__device__ __forceinline__ u64 peek(u64 *p) { return atomicCAS(p, EMPTY, EMPTY); }

__device__ __forceinline__ bool same(const Narrow &, u64 *) { return true; }
__device__ __forceinline__ bool same(const Wide &k, u64 *slot) { return peek(slot + 1) == k.hi && peek(slot + 2) == k.lo; }

// Writes a pair to a slot that was claimed, of which the first word says so.
__device__ __forceinline__ void settle(const Narrow &, u64 *slot, u64 value) { atomicExch(slot + 1, value); }
__device__ __forceinline__ void settle(const Wide &k, u64 *slot, u64 value) {
	atomicExch(slot + 1, k.hi);
	atomicExch(slot + 2, k.lo);
	atomicExch(slot + 3, value);
	__threadfence_block();
	atomicExch(slot, k.done());
}

// Inserts in a region. at(i) is slot i of the key's way, of so many. A slot is claimed as it is read
// where the region has no erased pairs (tombs): then the first one that is not another key's is the key's. In a
// sector the empty slots come last.
template <class K, class At>
__device__ __forceinline__ u32 insert_slots(At at, u32 slots, bool tombs, bool assign, const K &key, u64 value) {
	u64 *dead = 0;
	for (u32 i = 0; i < slots;) {
		u64 *slot = at(i);
		u64 seen = tombs ? peek(slot) : atomicCAS(slot, EMPTY, key.claimed());
		if (seen == EMPTY && tombs) {
			if (dead && (seen = atomicCAS(dead, TOMB, key.claimed())) == TOMB) {
				settle(key, dead, value);
				return REUSED;
			}
			if (!dead) seen = atomicCAS(slot, EMPTY, key.claimed());
			if (dead || seen != EMPTY) { // another one was faster
				dead = 0;
				i = 0;
				continue;
			}
		}
		if (seen == EMPTY) {
			settle(key, slot, value);
			return NEW;
		}
		if (seen == key.done() && same(key, slot)) {
			if (assign) atomicExch(K::value_of(slot), value);
			return OLD;
		}
		if (seen == key.claimed() && seen != key.done()) continue; // it may be this key
		if (seen == TOMB && !dead) dead = slot;
		i++;
	}
	if (!dead) return FULL;
	// No slot is empty: the first one of an erased pair.
	if (atomicCAS(dead, TOMB, key.claimed()) != TOMB) return OPEN;
	settle(key, dead, value);
	return REUSED;
}

// insert_region puts the requests of a region of the target in. fresh says that the target is empty. ends
// is where each region's requests end.
template <class K>
__device__ __forceinline__ void insert_region(Maps *maps, u64 count, u64 target, u64 seed, u64 assign, u64 fresh,
	const typename K::Request *requests, const u32 *ends) {
	extern __shared__ __align__(16) u64 region[];
	__shared__ Submap own[MAX_SUBMAPS];
	const u64 begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
	if (begin == end) return;
	open_maps(own, maps, count, false);
	const Submap into = own[target];
	const u64 span = span_of(into), base = (u64)blockIdx.x * span;
	const bool tombs = into.used != into.live;
	fetch_region(region, into.words + base * 4, span * 4, fresh != 0);
	u64 live = 0, used = 0, left = 0;
	for (u64 i = begin + threadIdx.x; i < end; i += REGION_THREADS) {
		const typename K::Request x = requests[i];
		Insertion<K> r;
		r.key.from(x, seed);
		r.value = x.value;
		r.submap = r.dead = r.step = 0;
		r.past = false;
		u32 result = insert_alone(own, (u32)count, (u32)target, assign != 0, r, (u32)count - !r.key.aside());
		const u64 home = __umul64hi(r.key.h, into.sectors) - base;
		const auto at = [&](u32 i) { return region + step_in(home, span, i / K::SLOTS) * 4 + i % K::SLOTS * K::WORDS; };
		while (result == OPEN) result = insert_slots(at, (u32)span * K::SLOTS, tombs, assign != 0, r.key, x.value);
		live += result == NEW || result == REUSED;
		used += result == NEW;
		left += result == FULL;
	}
	return_region(into.words + base * 4, region, span * 4);
	add_up(&maps->at[target].live, live);
	add_up(&maps->at[target].used, used);
	add_up(&maps->full, left);
}

// A way ends at a sector with an empty slot, so nothing was ever put behind such a sector, and a pair
// of it leaves an empty slot. Other pairs leave the slot of an erased pair.
template <class K, class Start, class Done>
__device__ __forceinline__ void erase(Maps *maps, u64 count, u64 n, Start start, Done done) {
	__shared__ Submap own[MAX_SUBMAPS];
	__shared__ u32 live[MAX_SUBMAPS], used[MAX_SUBMAPS];
	for (u32 i = threadIdx.x; i < MAX_SUBMAPS; i += THREADS) live[i] = used[i] = 0;
	open_maps(own, maps, count, true);
	walk_all<K, Walk<K>, ERASE_FLIGHT>(
		n, start, [&](Walk<K> &r) { return sector_of(own[r.submap], r.key, r.step); },
		[&](Walk<K> &r, const u64(&w)[4]) {
			int match = -1;
			bool empty = false;
#pragma unroll
			for (int s = 0; s < K::SLOTS; s++) {
				if (r.key.match(w + s * K::WORDS)) match = s;
				empty |= w[s * K::WORDS] == EMPTY;
			}
			const u32 m = r.submap;
			if (match < 0) return find_step(own, (u32)count, r, w);
			const u64 seen = r.key.done(), after = empty ? EMPTY : TOMB;
			u64 *slot = sector_of(own[m], r.key, r.step) + match * K::WORDS;
			if (atomicCAS(slot, seen, after) != seen) { // another request for the key was faster
				r.past = true;
				return (u32)OPEN;
			}
			atomicAdd(&live[m], 1u);
			if (empty) atomicAdd(&used[m], 1u);
			return (u32)FOUND;
		},
		[&](u64 i, const Walk<K> &, u32 result) { done(i, result); });
	__syncthreads();
	for (u32 i = threadIdx.x; i < count; i += THREADS) {
		Submap &m = maps->at[maps->order[i]];
		if (live[i]) atomicAdd(&m.live, 0 - (u64)live[i]);
		if (used[i]) atomicAdd(&m.used, 0 - (u64)used[i]);
	}
}

// erase_region takes the keys of the requests of a region out of a map of one submap.
template <class K>
__device__ __forceinline__ void erase_region(Maps *maps, u64 seed, const typename K::Erasure *requests, const u32 *ends) {
	extern __shared__ __align__(16) u64 region[];
	const u64 begin = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
	if (begin == end) return;
	const Submap m = maps->at[0];
	const u64 span = span_of(m), base = (u64)blockIdx.x * span;
	fetch_region(region, m.words + base * 4, span * 4, false);
	u64 live = 0, used = 0;
	for (u64 i = begin + threadIdx.x; i < end; i += REGION_THREADS) {
		K key;
		key.from(requests[i], seed);
		const u64 home = __umul64hi(key.h, m.sectors) - base;
		for (u32 j = 0; j < span * K::SLOTS; j++) {
			// A key aside is in the GPU's memory, as sector_of has it, and alone in its sector.
			u64 *sector = key.aside() ? sector_of(m, key, 0) : region + step_in(home, span, j / K::SLOTS) * 4;
			u64 *slot = sector + j % K::SLOTS * K::WORDS;
			const u64 seen = peek(slot);
			if (seen == key.done() && same(key, slot)) {
				const bool empty = j % K::SLOTS + 1 < K::SLOTS && peek(slot + K::WORDS) == EMPTY;
				// Whoever comes second finds that it is gone.
				const bool first = atomicCAS(slot, key.done(), empty ? EMPTY : TOMB) == key.done();
				live += first;
				used += first && empty;
				break;
			}
			if (seen == EMPTY) break;
		}
	}
	return_region(m.words + base * 4, region, span * 4);
	add_up(&maps->at[0].live, 0 - live);
	add_up(&maps->at[0].used, 0 - used);
}

// The slots of a submap are numbered as they lie, those aside last.
template <class K>
__device__ __forceinline__ u64 slots_of(const Submap &m) {
	return (m.sectors + ASIDE) * K::SLOTS;
}

// Reads slot i: its words, and the number of its place aside, -1 for all others.
template <class K>
__device__ __forceinline__ long long read_slot(const Submap &m, u64 i, u64 *w) {
	const u64 *slot = m.words + i * K::WORDS;
#pragma unroll
	for (int j = 0; j < K::WORDS; j += 2) {
		ulonglong2 x = __ldcs((const ulonglong2 *)(slot + j));
		w[j] = x.x, w[j + 1] = x.y;
	}
	return i / K::SLOTS < m.sectors ? -1 : (long long)(i / K::SLOTS - m.sectors);
}

// migrate puts the pairs of a submap, which the others do not have, into the target.
template <class K>
__device__ __forceinline__ void migrate(Maps *maps, u64 from, u64 target, u64 seed) {
	const Submap old = maps->at[from], into = maps->at[target];
	u64 moved = 0, used = 0;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < slots_of<K>(old); i += (u64)gridDim.x * THREADS) {
		u64 w[K::WORDS];
		const long long side = read_slot<K>(old, i, w);
		if (!K::live(w[0])) continue;
		Insertion<K> r;
		r.key.from_slot(w, side, seed);
		r.value = K::value(w);
		r.submap = r.dead = r.step = 0;
		r.past = true;
		const u32 result = insert_alone(&into, 1, 0, false, r, 1);
		moved += result == NEW || result == REUSED;
		used += result == NEW;
	}
	__syncthreads();
	add_up(&maps->at[target].live, moved);
	add_up(&maps->at[target].used, used);
}

// ---- retrieve_all: copies the pairs of a submap, in no order, and adds their number to *count. Pairs
// that do not fit into max are only counted. The forms differ in how a pair gets its place.

template <class K, class V>
__device__ __forceinline__ void put_pair(u64 *keys, V *values, u64 max, u64 to, const u64 *w, long long side, u64 seed) {
	if (to >= max) return;
	K k;
	k.from_slot(w, side, seed);
	k.put(keys, to, seed);
	values[to] = (V)K::value(w);
}

// One atomic of the whole GPU's for every pair.
template <class K, class V>
__device__ __forceinline__ void retrieve_atomic(const Submap m, u64 seed, u64 *keys, V *values, u64 max, u64 *count) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < slots_of<K>(m); i += (u64)gridDim.x * THREADS) {
		u64 w[K::WORDS];
		const long long side = read_slot<K>(m, i, w);
		// Not a plain atomicAdd, of which the compiler would make one a warp.
		u64 to = 0;
		if (K::live(w[0])) {
			asm volatile("atom.global.add.u64 %0, [%1], 1;" : "=l"(to) : "l"(count) : "memory");
			put_pair<K, V>(keys, values, max, to, w, side, seed);
		}
	}
}

// A tile is what a block looks at at a time: TILE slots a thread, of which a warp's lanes read a row next to
// each other. All threads go through it together. place(all) says, of a warp's pairs, where the first one
// goes, and put(to, words, side) puts one.
template <class K, class Place, class Put, class After>
__device__ __forceinline__ void retrieve_tiles(const Submap m, Place place, Put put, After after) {
	constexpr int TILE = K::TILE;
	const u64 n = slots_of<K>(m), size = THREADS * TILE;
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (u64 first = (u64)blockIdx.x * size; first < n; first += (u64)gridDim.x * size) {
		const u64 own = first + warp * 32 * TILE + lane;
		u64 w[TILE][K::WORDS];
		u32 live[TILE]; // the lanes that have a pair, of each row
#pragma unroll
		for (int j = 0; j < TILE; j++) {
			w[j][0] = EMPTY;
			if (own + j * 32 < n) read_slot<K>(m, own + j * 32, w[j]);
		}
		u32 all = 0;
#pragma unroll
		for (int j = 0; j < TILE; j++) {
			live[j] = __ballot_sync(0xffffffffu, K::live(w[j][0]));
			all += __popc(live[j]);
		}
		auto to = place(all);
#pragma unroll
		for (int j = 0; j < TILE; j++) {
			if (live[j] >> lane & 1) {
				const u64 i = own + j * 32;
				put(to + __popc(live[j] & ((1u << lane) - 1)), w[j], i / K::SLOTS < m.sectors ? -1 : (long long)(i / K::SLOTS - m.sectors));
			}
			to += __popc(live[j]);
		}
		after();
	}
}

// One atomic a warp and tile.
template <class K, class V>
__device__ __forceinline__ void retrieve_warp(const Submap m, u64 seed, u64 *keys, V *values, u64 max, u64 *count) {
	retrieve_tiles<K>(
		m,
		[&](u32 all) {
			u64 to = 0;
			if (threadIdx.x % 32 == 0 && all) to = atomicAdd(count, (u64)all);
			return __shfl_sync(0xffffffffu, to, 0);
		},
		[&](u64 to, const u64 *w, long long side) { put_pair<K, V>(keys, values, max, to, w, side, seed); }, [] {});
}

// Warps take their places from a counter of the block, and that one from the GPU's once a tile.
template <class K, class V>
__device__ __forceinline__ void retrieve_block(const Submap m, u64 seed, u64 *keys, V *values, u64 max, u64 *count) {
	__shared__ u32 sum;
	__shared__ u64 base;
	if (threadIdx.x == 0) sum = 0;
	__syncthreads();
	retrieve_tiles<K>(
		m,
		[&](u32 all) {
			u32 before = 0;
			if (threadIdx.x % 32 == 0) before = atomicAdd(&sum, all);
			__syncthreads();
			if (threadIdx.x == 0) {
				base = atomicAdd(count, (u64)sum);
				sum = 0;
			}
			__syncthreads();
			return base + __shfl_sync(0xffffffffu, before, 0);
		},
		[&](u64 to, const u64 *w, long long side) { put_pair<K, V>(keys, values, max, to, w, side, seed); }, [] {});
}

// A scan puts the block's pairs in the order of their slots, in shared memory, from where they are written side by side.
template <class K, class V>
__device__ __forceinline__ void retrieve_scan(const Submap m, u64 seed, u64 *keys, V *values, u64 max, u64 *count) {
	constexpr int KEY = K::WORDS / 2; // words of a key
	__shared__ __align__(16) u64 own_keys[THREADS * K::TILE * KEY];
	__shared__ V own_values[THREADS * K::TILE];
	__shared__ u32 warps[THREADS / 32], pairs;
	__shared__ u64 base;
	const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	retrieve_tiles<K>(
		m,
		[&](u32 all) {
			if (lane == 0) warps[warp] = all;
			__syncthreads();
			u32 before = 0, sum = 0;
			for (u32 i = 0; i < THREADS / 32; i++) {
				if (i < warp) before += warps[i];
				sum += warps[i];
			}
			if (threadIdx.x == 0) {
				pairs = sum;
				base = atomicAdd(count, (u64)sum);
			}
			return before;
		},
		[&](u32 to, const u64 *w, long long side) { put_pair<K, V>(own_keys, own_values, THREADS * K::TILE, to, w, side, seed); },
		[&] {
			__syncthreads();
			const u64 to = base;
			const u32 fit = to >= max ? 0 : max - to < pairs ? (u32)(max - to) : pairs;
			for (u32 i = threadIdx.x; i < fit; i += THREADS) {
				if (KEY == 2)
					((ulonglong2 *)keys)[to + i] = ((ulonglong2 *)own_keys)[i];
				else
					keys[to + i] = own_keys[i];
				values[to + i] = own_values[i];
			}
			__syncthreads(); // before the next tile's pairs
		});
}

#define RETRIEVE(FORM, K, V, VT, SUFFIX) \
	extern "C" __global__ void __launch_bounds__(THREADS) retrieve_##FORM##_##SUFFIX(u64 *words, u64 sectors, u64 seed, \
		u64 *keys, VT *values, u64 max, u64 *count) { \
		retrieve_##FORM<K, VT>(Submap{words, sectors, 0, 0}, seed, keys, values, max, count); \
	}

#define PAIRS(K, KW, VT, SUFFIX) \
	extern "C" __global__ void __launch_bounds__(THREADS, 3) find_##SUFFIX(const Maps *maps, u64 count, u64 seed, VT *values, u8 *found, \
		const u64 *keys, u64 n) { \
		find<K, VT>(maps, count, seed, values, found, keys, n); \
	} \
	extern "C" __global__ void __launch_bounds__(THREADS, 4) insert_##SUFFIX(Maps *maps, u64 count, u64 target, u64 seed, u64 assign, \
		const u64 *keys, const VT *values, u8 *fresh, u64 again, u64 n) { \
		insert<K>( \
			maps, count, target, assign, n, \
			[&](u64 i, Insertion<K> &r) { \
				r.key.from(keys, i, seed); \
				r.value = values[i]; \
			}, \
			[&](u64 i, u32 result) { \
				const bool put = result == NEW || result == REUSED; \
				if (fresh && (put || !again)) fresh[i] = put; \
			}); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_pairs_##SUFFIX(K::Request *out, u32 *next, u64 seed, const u64 *keys, \
		const VT *values, u64 n, u64 regions, u64 shift) { \
		scatter_requests<K::Request>( \
			out, next, 0, 0, n, \
			[=](u64 i) { \
				K k; \
				K::Request r; \
				k.from(keys, i, seed); \
				k.request(r, values[i]); \
				return r; \
			}, \
			[=](const K::Request &r) { return (u32)(__umul64hi(K::hash(r, seed), regions) >> shift); }); \
	} \
	RETRIEVE(atomic, K, V, VT, SUFFIX) \
	RETRIEVE(warp, K, V, VT, SUFFIX) \
	RETRIEVE(block, K, V, VT, SUFFIX) \
	RETRIEVE(scan, K, V, VT, SUFFIX)

// The second step of a sort: a segment has the requests of 2^shift regions.
#define STEP(KIND, R, K, KW) \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) count_##KIND##_##KW(u32 *counts, const u32 *ends, u64 seed, const K::R *requests, \
		u64 regions, u64 shift) { \
		count_requests(counts, 1ull << shift, ends, 0, \
			[=](u64 i) { return (u32)__umul64hi(K::hash(requests[i], seed), regions) & ((1u << shift) - 1); }); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_##KIND##_##KW(K::R *out, u32 *next, const u32 *ends, u64 seed, \
		const K::R *requests, u64 regions, u64 shift) { \
		scatter_requests<K::R>( \
			out, next, 1ull << shift, ends, 0, [=](u64 i) { return requests[i]; }, \
			[=](const K::R &r) { return (u32)__umul64hi(K::hash(r, seed), regions) & ((1u << shift) - 1); }); \
	}

#define KEYS(K, KW) \
	PAIRS(K, KW, u32, KW##_32) \
	PAIRS(K, KW, u64, KW##_64) \
	STEP(requests, Request, K, KW) \
	STEP(erasures, Erasure, K, KW) \
	extern "C" __global__ void __launch_bounds__(THREADS, 3) missing_##KW(const Maps *maps, u64 count, u64 seed, const u64 *keys, u64 n, \
		u64 *out) { \
		missing<K>(maps, count, seed, keys, n, out); \
	} \
	extern "C" __global__ void __launch_bounds__(REGION_THREADS) insert_region_##KW(Maps *maps, u64 count, u64 target, u64 seed, u64 assign, \
		u64 fresh, const K::Request *requests, const u32 *ends) { \
		insert_region<K>(maps, count, target, seed, assign, fresh, requests, ends); \
	} \
	extern "C" __global__ void __launch_bounds__(THREADS, 4) erase_##KW(Maps *maps, u64 count, u64 seed, const u64 *keys, u8 *erased, u64 n) { \
		erase<K>( \
			maps, count, n, [&](u64 i, Walk<K> &r) { r.key.from(keys, i, seed); }, \
			[&](u64 i, u32 result) { \
				if (erased) erased[i] = result; \
			}); \
	} \
	extern "C" __global__ void __launch_bounds__(REGION_THREADS) erase_region_##KW(Maps *maps, u64 seed, const K::Erasure *requests, \
		const u32 *ends) { \
		erase_region<K>(maps, seed, requests, ends); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) scatter_keys_##KW(K::Erasure *out, u32 *next, u64 seed, const u64 *keys, u64 n, \
		u64 regions, u64 shift) { \
		scatter_requests<K::Erasure>( \
			out, next, 0, 0, n, \
			[=](u64 i) { \
				K k; \
				K::Erasure r; \
				k.from(keys, i, seed); \
				k.request(r); \
				return r; \
			}, \
			[=](const K::Erasure &r) { return (u32)(__umul64hi(K::hash(r, seed), regions) >> shift); }); \
	} \
	extern "C" __global__ void __launch_bounds__(PART_THREADS) count_keys_##KW(u32 *counts, u64 seed, const u64 *keys, u64 n, u64 regions, \
		u64 shift) { \
		count_requests(counts, 0, 0, n, [=](u64 i) { \
			K k; \
			k.from(keys, i, seed); \
			return (u32)(__umul64hi(k.h, regions) >> shift); \
		}); \
	} \
	extern "C" __global__ void __launch_bounds__(THREADS) migrate_##KW(Maps *maps, u64 from, u64 target, u64 seed) { \
		migrate<K>(maps, from, target, seed); \
	}

KEYS(Narrow, 64)
KEYS(Wide, 128)
