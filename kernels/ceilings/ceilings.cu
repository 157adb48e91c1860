// What a device's memory can do at most: the yardsticks of searches. Each kernel reads a key and
// writes a number for it, both streamed, as a search does, and in between reads a table at random
// places, each of which depends on what the one before held.

typedef unsigned int u32;
typedef unsigned long long u64;

template <int GATHERS, int U>
__device__ __forceinline__ void gather_groups(u32 *dst, const u32 *keys, u64 g, u64 step, const u32 *table, u32 size) {
	u32 k[4 * U], c[4 * U];
#pragma unroll
	for (int u = 0; u < U; u++) {
		uint4 v = __ldcs((const uint4 *)keys + g + u * step);
		k[4 * u] = v.x, k[4 * u + 1] = v.y, k[4 * u + 2] = v.z, k[4 * u + 3] = v.w;
	}
#pragma unroll
	for (int j = 0; j < 4 * U; j++) c[j] = k[j];
#pragma unroll
	for (int i = 0; i < GATHERS; i++) {
#pragma unroll
		for (int j = 0; j < 4 * U; j++) c[j] = __ldg(table + __umulhi(c[j] ^ k[j] * 0x9e3779b9u, size));
	}
#pragma unroll
	for (int u = 0; u < U; u++) __stcs((uint4 *)dst + g + u * step, make_uint4(c[4 * u], c[4 * u + 1], c[4 * u + 2], c[4 * u + 3]));
}

template <int GATHERS>
__device__ __forceinline__ void gather(u32 *dst, const u32 *keys, u64 n, const u32 *table, u64 size) {
	const u64 groups = n / 4, step = (u64)gridDim.x * blockDim.x;
	u64 g = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	for (; g + step < groups; g += 2 * step) gather_groups<GATHERS, 2>(dst, keys, g, step, table, (u32)size);
	for (; g < groups; g += step) gather_groups<GATHERS, 1>(dst, keys, g, step, table, (u32)size);
}

#define GATHER(N, NAME)                                                                                                       \
	extern "C" __global__ void __launch_bounds__(1024, 1) NAME(u32 *dst, const u32 *keys, u64 n, const u32 *table, u64 size) { \
		gather<N>(dst, keys, n, table, size);                                                                                \
	}

GATHER(0, gather_0)
GATHER(1, gather_1)
GATHER(2, gather_2)
GATHER(3, gather_3)
GATHER(4, gather_4)
