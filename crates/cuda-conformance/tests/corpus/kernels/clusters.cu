// Blocks that access each other's shared memory.

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#if __CUDA_ARCH__ >= 900

// Counts values below 64 times the number of blocks in a cluster; each block holds 64 of the
// counters.
extern "C" __global__ void cluster_histogram(const unsigned *in, unsigned *out, unsigned n) {
    __shared__ unsigned bins[64];
    cg::cluster_group cluster = cg::this_cluster();
    for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) bins[i] = 0;
    cluster.sync();
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = first; i < n; i += gridDim.x * blockDim.x) {
        unsigned value = in[i];
        atomicAdd(cluster.map_shared_rank(bins, value / 64) + value % 64, 1);
    }
    cluster.sync();
    for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) {
        atomicAdd(out + cluster.block_rank() * 64 + i, bins[i]);
    }
}

// Each block sums its 256 values; the first block of each pair adds both sums.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_sums(const int *in, int *out) {
    __shared__ int sum;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        int all = 0;
        for (unsigned rank = 0; rank < cluster.num_blocks(); rank++) {
            all += *cluster.map_shared_rank(&sum, rank);
        }
        out[blockIdx.x / 2] = all;
    }
    // No block exits while others read its shared memory.
    cluster.sync();
}

#endif
