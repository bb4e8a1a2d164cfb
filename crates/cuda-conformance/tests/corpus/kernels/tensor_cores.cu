// Matrix products on tensor cores. All inputs are small integers, so every sum is exact.

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// c = a * b / 2, a tile of 16 x 16 for each warp; all row-major.
extern "C" __global__ void wmma_halves(const half *a, const half *b, float *c, int n, int k) {
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + column, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 0.5f;
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

// c = a * b of bytes through shared memory; b and c are column-major.
extern "C" __global__ void wmma_bytes(const signed char *a, const signed char *b, int *c) {
    __shared__ alignas(32) signed char space[2][256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        space[0][i] = a[i];
        space[1][i] = b[i];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::fill_fragment(fc, 1);
    wmma::load_matrix_sync(fa, space[0], 16);
    wmma::load_matrix_sync(fb, space[1], 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}

#if __CUDA_ARCH__ >= 800

__device__ void store(float *c, const float (&d)[4]) {
    int group = threadIdx.x >> 2, thread = threadIdx.x & 3;
    for (int i = 0; i < 4; i++) c[(group + i / 2 * 8) * 8 + thread * 2 + i % 2] = d[i];
}

// 16 x 8 = 16 x 16 * 16 x 8, all row-major: ldmatrix loads the fragments from shared memory.
extern "C" __global__ void mma_brains(const unsigned short *a, const unsigned short *b, float *c) {
    __shared__ alignas(16) unsigned short sa[256];
    __shared__ alignas(16) unsigned short sb[128];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) sa[i] = a[i];
    for (int i = lane; i < 128; i += 32) sb[i] = b[i];
    __syncwarp();
    unsigned ra[4], rb[2];
    unsigned at = (unsigned)__cvta_generic_to_shared(sa + (lane & 15) * 16 + (lane >> 4) * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(at) : "memory");
    at = (unsigned)__cvta_generic_to_shared(sb + (lane & 15) * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1]) : "r"(at) : "memory");
    float d[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    store(c, d);
}

// 16 x 8 = 16 x 8 * 8 x 8, a row-major and b column-major.
extern "C" __global__ void mma_tf32(const float *a, const float *b, float *c) {
    int group = threadIdx.x >> 2, thread = threadIdx.x & 3;
    unsigned ra[4], rb[2];
    for (int i = 0; i < 4; i++) {
        float value = a[(group + i % 2 * 8) * 8 + thread + i / 2 * 4];
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[i]) : "f"(value));
    }
    for (int i = 0; i < 2; i++) {
        float value = b[group * 8 + thread + i * 4];
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rb[i]) : "f"(value));
    }
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    store(c, d);
}

// 16 x 8 = 16 x 32 * 32 x 8 of bytes, a row-major and b column-major.
extern "C" __global__ void mma_bytes(const unsigned *a, const unsigned *b, int *c) {
    int group = threadIdx.x >> 2, thread = threadIdx.x & 3;
    unsigned ra[4], rb[2];
    for (int i = 0; i < 4; i++) ra[i] = a[(group + i % 2 * 8) * 8 + thread + i / 2 * 4];
    for (int i = 0; i < 2; i++) rb[i] = b[group * 8 + thread + i * 4];
    int d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++) c[(group + i / 2 * 8) * 8 + thread * 2 + i % 2] = d[i];
}

#endif
