#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void reduce_shared(const int *in, int *out, unsigned n) {
    __shared__ int sums[128];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sums[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// Every kind of shuffle; the result of each lane is stored.
extern "C" __global__ void shuffles(const int *in, int (*out)[8], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int v = in[i];
    int sum = v;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    int all = v;
    for (int mask = 16; mask > 0; mask /= 2) all += __shfl_xor_sync(~0u, all, mask);
    out[i][0] = __shfl_sync(~0u, sum, 0);
    out[i][1] = all;
    out[i][2] = __shfl_sync(~0u, v, (lane * 5 + 3) % 32);
    out[i][3] = __shfl_up_sync(~0u, v, 3);
    out[i][4] = __shfl_down_sync(~0u, v, 2, 8);
    out[i][5] = __shfl_sync(~0u, v, 13, 4);
    double d = __shfl_xor_sync(~0u, v * 0.5, 7, 16);
    out[i][6] = (int)(d * 2);
    long long wide = __shfl_up_sync(~0u, ((long long)v << 33) + lane, 1, 16);
    out[i][7] = (int)(wide >> 33) + (int)wide;
}

// An inclusive scan of each block, in steps of doubling distance.
extern "C" __global__ void scan(const int *in, int *out, unsigned n) {
    __shared__ int sums[2][128];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    int from = 0;
    sums[0][t] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        sums[1 - from][t] = sums[from][t] + (t >= step ? sums[from][t - step] : 0);
        from = 1 - from;
        __syncthreads();
    }
    if (i < n) out[i] = sums[from][t];
}

// One row of any length for each block.
extern "C" __global__ void softmax(const float *in, float *out, unsigned columns) {
    __shared__ float partial[4];
    const float *row = in + blockIdx.x * columns;
    float most = __int_as_float(0xff800000); // minus infinity
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x) most = fmaxf(most, row[c]);
    for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(partial[0], partial[1]), fmaxf(partial[2], partial[3]));
    __syncthreads();
    float sum = 0;
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - most);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = partial[0] + partial[1] + partial[2] + partial[3];
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x)
        out[blockIdx.x * columns + c] = expf(row[c] - most) / sum;
}

extern "C" __global__ void votes(const int *in, unsigned (*out)[8], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i], same;
    out[i][0] = __ballot_sync(~0u, v & 1);
    out[i][1] = __any_sync(~0u, v == 3) + 2 * __all_sync(~0u, v >= 0);
    out[i][2] = __match_any_sync(~0u, v);
    out[i][3] = __match_all_sync(~0u, v >> 4, &same);
    out[i][3] = out[i][3] + same;
    // Only lanes with an odd value take part in the vote.
    unsigned odd = __ballot_sync(~0u, v & 1);
    if (v & 1) {
        out[i][4] = __activemask() & ~odd;
        out[i][5] = __ballot_sync(odd, v > 7);
        out[i][6] = __shfl_sync(odd, v, __ffs(odd) - 1);
        out[i][7] = __match_any_sync(odd, v & 6);
    }
}

extern "C" __global__ void barrier_votes(const int *in, int (*out)[4], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i][0] = __syncthreads_count(in[i] > 50);
    out[i][1] = __syncthreads_and(in[i] > 2);
    out[i][2] = __syncthreads_or(in[i] > 98);
    out[i][3] = __syncthreads_count(in[i] == in[blockIdx.x * blockDim.x]);
}

extern "C" __global__ void groups(const int *in, int (*out)[4], unsigned n) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    unsigned i = blockIdx.x * blockDim.x + block.thread_rank();
    int sum = in[i];
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_xor(sum, offset);
    out[i][0] = sum;
    out[i][1] = tile.thread_rank() * 100 + tile.meta_group_rank();
    out[i][2] = tile.any(in[i] > 90) * 2 + tile.all(in[i] > 10);
    block.sync();
    if (in[i] % 3 == 0) {
        cg::coalesced_group some = cg::coalesced_threads();
        out[i][3] = some.size() * 100 + some.thread_rank();
    }
}

// Warps pass work to each other through barriers in which only some of them take part.
extern "C" __global__ void relay(const int *in, int *out, unsigned n) {
    __shared__ int baton[64];
    unsigned t = threadIdx.x, i = blockIdx.x * 128 + t;
    if (t < 64) {
        baton[t] = in[i] * 2;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
        out[i] = in[i];
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[i] = baton[127 - t] + in[i];
    }
}
