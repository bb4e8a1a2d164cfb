// CUB on blocks of 128 threads with four items each, and on the warps of these blocks.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

constexpr int THREADS = 128;
constexpr int ITEMS = 4;
constexpr int TILE = THREADS * ITEMS;

struct Descending {
    template <typename T> __device__ bool operator()(const T &a, const T &b) const { return a > b; }
};

struct Largest {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

// Sorts each key together with its position.
extern "C" __global__ void radix_sort(const unsigned *in, unsigned *keys, unsigned *places) {
    using Load = cub::BlockLoad<unsigned, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<unsigned, THREADS, ITEMS, unsigned>;
    using Store = cub::BlockStore<unsigned, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        Load::TempStorage load;
        Sort::TempStorage sort;
        Store::TempStorage store;
    } shared;
    unsigned key[ITEMS], place[ITEMS], first = blockIdx.x * TILE;
    Load(shared.load).Load(in + first, key);
    for (int i = 0; i < ITEMS; i++) place[i] = threadIdx.x * ITEMS + i;
    __syncthreads();
    Sort(shared.sort).Sort(key, place);
    __syncthreads();
    Store(shared.store).Store(keys + first, key);
    __syncthreads();
    Store(shared.store).Store(places + first, place);
}

extern "C" __global__ void float_sort(const float *in, float *out) {
    using Sort = cub::BlockRadixSort<float, THREADS, ITEMS>;
    __shared__ Sort::TempStorage shared;
    float key[ITEMS];
    unsigned first = blockIdx.x * TILE;
    cub::LoadDirectStriped<THREADS>(threadIdx.x, in + first, key);
    Sort(shared).SortDescendingBlockedToStriped(key);
    cub::StoreDirectStriped<THREADS>(threadIdx.x, out + first, key);
}

extern "C" __global__ void merge_sort(const long long *in, long long *out) {
    using Block = cub::BlockMergeSort<long long, THREADS, ITEMS>;
    __shared__ Block::TempStorage shared;
    long long key[ITEMS];
    unsigned first = blockIdx.x * TILE;
    cub::LoadDirectBlocked(threadIdx.x, in + first, key);
    Block(shared).Sort(key, Descending());
    cub::StoreDirectBlocked(threadIdx.x, out + first, key);
}

// Each warp sorts its part of the block.
extern "C" __global__ void warp_sort(const long long *in, long long *out) {
    using Warp = cub::WarpMergeSort<long long, ITEMS, 32>;
    __shared__ Warp::TempStorage shared[THREADS / 32];
    long long key[ITEMS];
    unsigned first = blockIdx.x * TILE;
    cub::LoadDirectBlocked(threadIdx.x, in + first, key);
    Warp(shared[threadIdx.x / 32]).Sort(key, Descending());
    cub::StoreDirectBlocked(threadIdx.x, out + first, key);
}

extern "C" __global__ void scans(const int *in, long long *sums, int *largest) {
    using Sum = cub::BlockScan<long long, THREADS, cub::BLOCK_SCAN_RAKING>;
    using Max = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ Sum::TempStorage sum;
    __shared__ Max::TempStorage max;
    int value[ITEMS];
    long long wide[ITEMS];
    unsigned first = blockIdx.x * TILE;
    cub::LoadDirectBlocked(threadIdx.x, in + first, value);
    for (int i = 0; i < ITEMS; i++) wide[i] = value[i];
    Sum(sum).InclusiveSum(wide, wide);
    Max(max).ExclusiveScan(value, value, -1, Largest());
    cub::StoreDirectBlocked(threadIdx.x, sums + first, wide);
    cub::StoreDirectBlocked(threadIdx.x, largest + first, value);
}

// A histogram of the bytes, the number of runs of equal bytes, and the bytes from blocked to
// striped arrangement.
extern "C" __global__ void bytes(const unsigned char *in, unsigned *counts, unsigned *runs, unsigned char *striped) {
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 256, cub::BLOCK_HISTO_SORT>;
    using Heads = cub::BlockDiscontinuity<unsigned char, THREADS>;
    using Sum = cub::BlockReduce<unsigned, THREADS, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    using Exchange = cub::BlockExchange<unsigned char, THREADS, ITEMS>;
    __shared__ union {
        Histogram::TempStorage histogram;
        Heads::TempStorage heads;
        Sum::TempStorage sum;
        Exchange::TempStorage exchange;
    } shared;
    __shared__ unsigned histogram[256];
    unsigned char value[ITEMS], head[ITEMS], moved[ITEMS];
    unsigned first = blockIdx.x * TILE;
    cub::LoadDirectBlocked(threadIdx.x, in + first, value);
    Heads(shared.heads).FlagHeads(head, value, cuda::std::not_equal_to<>());
    __syncthreads();
    unsigned all = Sum(shared.sum).Sum(head[0] + head[1] + head[2] + head[3]);
    if (threadIdx.x == 0) runs[blockIdx.x] = all;
    __syncthreads();
    Exchange(shared.exchange).BlockedToStriped(value, moved);
    cub::StoreDirectStriped<THREADS>(threadIdx.x, striped + first, moved);
    __syncthreads();
    Histogram(shared.histogram).Histogram(value, histogram);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += THREADS) counts[blockIdx.x * 256 + i] = histogram[i];
}

// Groups of 16 lanes: the sum, and the exclusive prefix sum of each lane.
extern "C" __global__ void groups(const double *in, double *sums, double *before, unsigned n) {
    using Sum = cub::WarpReduce<double, 16>;
    using Scan = cub::WarpScan<double, 16>;
    __shared__ Sum::TempStorage sum[THREADS / 16];
    __shared__ Scan::TempStorage scan[THREADS / 16];
    unsigned i = blockIdx.x * THREADS + threadIdx.x, group = threadIdx.x / 16;
    double value = in[i], prefix;
    double total = Sum(sum[group]).Sum(value);
    Scan(scan[group]).ExclusiveSum(value, prefix);
    if (threadIdx.x % 16 == 0) sums[i / 16] = total;
    before[i] = prefix;
}
