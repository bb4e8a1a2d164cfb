// Wrong kernels, and similar ones that are right. The line that a report must name ends with the
// kernel's name.

extern "C" __global__ void races(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x;
    space[t] = in[t];
    out[t] = space[127 - t]; // races
}

extern "C" __global__ void does_not_race(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x;
    space[t] = in[t];
    __syncthreads();
    out[t] = space[127 - t];
}

// A sum within each warp.
extern "C" __global__ void races_in_a_warp(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x, lane = t % 32;
    space[t] = in[t];
    for (unsigned half = 16; half; half /= 2) {
        if (lane < half) space[t] += space[t + half]; // races_in_a_warp
    }
    out[t] = space[t];
}

extern "C" __global__ void does_not_race_in_a_warp(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x, lane = t % 32;
    space[t] = in[t];
    for (unsigned half = 16; half; half /= 2) {
        __syncwarp();
        int other = lane < half ? space[t + half] : 0;
        __syncwarp();
        space[t] += other;
    }
    out[t] = space[t];
}

extern "C" __global__ void reads_unwritten_memory(const int *in, int *out, unsigned n) {
    __shared__ int space[129];
    unsigned t = threadIdx.x;
    space[t] = in[t];
    __syncthreads();
    out[t] = space[t + 1]; // reads_unwritten_memory
}

extern "C" __global__ void reads_what_was_written(const int *in, int *out, unsigned n) {
    __shared__ int space[129];
    unsigned t = threadIdx.x;
    space[t] = in[t];
    if (t == 0) space[128] = 0;
    __syncthreads();
    out[t] = space[t + 1];
}

// Valid only if `out` was written before.
extern "C" __global__ void adds(const int *in, int *out, unsigned n) {
    unsigned t = threadIdx.x;
    out[t] += in[t]; // adds
}

extern "C" __global__ void skips_a_barrier(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x;
    space[t] = in[t];
    if (t < 40) {
        __syncthreads(); // skips_a_barrier
    }
    out[t] = space[t];
}

extern "C" __global__ void returns_early(const int *in, int *out, unsigned n) {
    __shared__ int space[128];
    unsigned t = threadIdx.x;
    if (t >= n) return;
    space[t] = in[t];
    __syncthreads();
    out[t] = space[n - 1 - t];
}

static __device__ __forceinline__ int element(const int *in, unsigned i) {
    return in[i]; // strays
}

extern "C" __global__ void strays(const int *in, int *out, unsigned n) {
    out[threadIdx.x] = element(in, threadIdx.x + 1); // called by strays
}
