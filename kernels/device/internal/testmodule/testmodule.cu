// Kernels for the tests of package device.

typedef unsigned int u32;
typedef unsigned long long u64;

// add1 adds 1 to n words.
extern "C" __global__ void add1(u32 *words, u64 n) {
	u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		words[i]++;
}

// reverse turns the order of n words round, by way of shared memory, in one block of n threads.
extern "C" __global__ void reverse(u32 *words, u64 n) {
	extern __shared__ u32 shared[];
	shared[threadIdx.x] = words[threadIdx.x];
	__syncthreads();
	words[threadIdx.x] = shared[n - 1 - threadIdx.x];
}

// spin keeps a multiprocessor busy for so many cycles of its clock.
extern "C" __global__ void spin(u64 cycles) {
	for (u64 start = clock64(); clock64() - start < cycles;)
		;
}

// trap breaks the device.
extern "C" __global__ void trap() {
	asm volatile("trap;");
}
