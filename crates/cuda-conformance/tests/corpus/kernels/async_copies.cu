// Copies that run beside the kernel's own work.

#include <cuda_pipeline.h>

// Sums tiles of 128: each tile is copied while the previous one is added, and lanes read elements
// that others copied.
extern "C" __global__ void pipelined(const int *in, int *out, unsigned tiles) {
    __shared__ alignas(16) int space[2][128];
    unsigned t = threadIdx.x;
    int sum = 0;
    if (t < 32) __pipeline_memcpy_async(&space[0][t * 4], in + t * 4, 16);
    __pipeline_commit();
    for (unsigned tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles && t < 32) {
            __pipeline_memcpy_async(&space[(tile + 1) % 2][t * 4], in + (tile + 1) * 128 + t * 4, 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum = sum * 3 + space[tile % 2][127 - t];
        __syncthreads();
    }
    out[t] = sum;
}

// Copies the first 5 bytes of each 8, and fills the rest with zeros.
extern "C" __global__ void filled(const unsigned char *in, unsigned char *out) {
    __shared__ alignas(8) unsigned char space[256];
    unsigned t = threadIdx.x;
    __pipeline_memcpy_async(space + 8 * t, in + 8 * t, 8, 3);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (unsigned i = t; i < 256; i += 32) out[i] = space[i];
}

#if __CUDA_ARCH__ >= 900

// Blocks of 1024 floats: copied in by one bulk copy, doubled, and copied out by another.
extern "C" __global__ void bulk(const float *in, float *out) {
    __shared__ alignas(128) float space[1024];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    unsigned at = (unsigned)__cvta_generic_to_shared(space);
    const float *from = in + blockIdx.x * 1024;
    float *to = out + blockIdx.x * 1024;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];"
                     :: "r"(at), "l"(from), "r"(bar) : "memory");
    }
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    }
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) space[i] *= 2.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096;"
                     :: "l"(to), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

#endif
