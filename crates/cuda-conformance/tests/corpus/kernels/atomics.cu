extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, unsigned n) {
    __shared__ unsigned local[64];
    for (unsigned b = threadIdx.x; b < 64; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i] % 64], 1u);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < 64; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

// A product by compare-and-swap: the factors are units, so the order does not matter.
__device__ void atomic_multiply(unsigned *address, unsigned factor) {
    unsigned seen = *address, assumed;
    do {
        assumed = seen;
        seen = atomicCAS(address, assumed, assumed * factor);
    } while (seen != assumed);
}

extern "C" __global__ void cas_loop(const unsigned *in, unsigned *products, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_multiply(&products[i % 3], in[i] | 1);
}

extern "C" __global__ void words(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned *u = (unsigned *)out;
    atomicMin(&out[0], in[i]);
    atomicMax(&out[1], in[i]);
    atomicMin(&u[2], (unsigned)in[i]);
    atomicMax(&u[3], (unsigned)in[i]);
    atomicAnd(&u[4], (unsigned)in[i] | 0xff);
    atomicOr(&u[5], (unsigned)in[i] & 0x5555);
    atomicXor(&u[6], (unsigned)in[i]);
    atomicSub(&out[7], in[i]);
    atomicInc(&u[8], 10);
    atomicDec(&u[9], 6);
}

extern "C" __global__ void wide(const long long *in, long long *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long *u = (unsigned long long *)out;
    atomicAdd(&u[0], (unsigned long long)in[i]);
    atomicMin(&out[1], in[i]);
    atomicMax(&out[2], in[i]);
    atomicMin(&u[3], (unsigned long long)in[i]);
    atomicMax(&u[4], (unsigned long long)in[i]);
    atomicAnd(&u[5], (unsigned long long)in[i] | 0xff00ff);
    atomicOr(&u[6], (unsigned long long)in[i] & 0x5500000055);
    atomicXor(&u[7], (unsigned long long)in[i]);
    // A sum by compare-and-swap, in the upper half.
    unsigned long long seen = u[8], assumed;
    do {
        assumed = seen;
        seen = atomicCAS(&u[8], assumed, assumed + (in[i] & 0xffff));
    } while (seen != assumed);
}

// The terms are multiples of 1/4 that a float sums exactly in any order.
extern "C" __global__ void sums(const int *in, float *single, double *twice, unsigned n) {
    __shared__ float local;
    __shared__ double local_double;
    if (threadIdx.x == 0) { local = 0; local_double = 0; }
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&local, in[i] * 0.25f);
        atomicAdd(&local_double, in[i] * 0.125);
        atomicAdd(&single[1], in[i] * 0.25f);
        atomicAdd(&twice[1], in[i] * 0.125);
    }
    __syncthreads();
    if (threadIdx.x == 0) { atomicAdd(&single[0], local); atomicAdd(&twice[0], local_double); }
}

// Each ticket is given to exactly one thread. Then the last block to finish sums the results of all
// blocks.
extern "C" __global__ void last_block(const int *in, int *tickets, volatile int *partial, unsigned *count, int *total,
                                      unsigned n) {
    __shared__ int sum;
    __shared__ bool is_last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd_block(&sum, in[i]);
        int mine = atomicAdd(&tickets[n], 1);
        tickets[mine] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        int all = 0;
        for (unsigned b = 0; b < gridDim.x; b++) all += partial[b];
        *total = all;
    }
}

// A lock between threads of different blocks; one thread of each warp takes it at a time.
extern "C" __global__ void spin_lock(int *lock, volatile int *counter, unsigned rounds) {
    if (threadIdx.x % 32 != 0) return;
    for (unsigned r = 0; r < rounds; r++) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *counter = *counter + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
