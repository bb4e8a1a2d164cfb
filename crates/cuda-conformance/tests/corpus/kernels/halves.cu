#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void half_precision(const ushort2 *in, unsigned short (*out)[18], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half a = __ushort_as_half(in[i].x), b = __ushort_as_half(in[i].y), o[18];
    o[0] = __hadd(a, b);
    o[1] = __hsub(a, b);
    o[2] = __hmul(a, b);
    o[3] = __hfma(a, b, a);
    o[4] = __hneg(a);
    o[5] = __habs(b);
    o[6] = __float2half_rn(__half2float(a) * 3.0f);
    o[7] = __float2half_rz(__half2float(b) / 3.0f);
    o[8] = __int2half_rn(__half2int_rz(a));
    o[9] = __short2half_rn(__half2short_rn(b));
    __half2 p = __halves2half2(a, b), q = __halves2half2(b, a);
    __half2 sum = __hadd2(p, q), fused = __hfma2(p, q, p);
    o[10] = __low2half(sum);
    o[11] = __high2half(fused);
    o[12] = hfloor(a);
    o[13] = hrint(b);
    o[14] = __ushort_as_half((unsigned short)(__hlt(a, b) + 2 * __heq(a, b) + 4 * __hge(a, b)));
    o[15] = __double2half((double)__half2float(a) / 7.0);
    o[16] = __float2half_rd(__half2float(b) / 3.0f);
    o[17] = __float2half_ru(__half2float(b) / 3.0f);
    for (int k = 0; k < 18; k++) out[i][k] = __half_as_ushort(o[k]);
}

extern "C" __global__ void brain_floats(const ushort2 *in, unsigned short (*out)[10], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 a = __ushort_as_bfloat16(in[i].x), b = __ushort_as_bfloat16(in[i].y), o[10];
    o[0] = __hadd(a, b);
    o[1] = __hsub(a, b);
    o[2] = __hmul(a, b);
#if __CUDA_ARCH__ >= 800
    o[3] = __hfma(a, b, a);
#else
    o[3] = __double2bfloat16(fma((double)__bfloat162float(a), (double)__bfloat162float(b), (double)__bfloat162float(a)));
#endif
    o[4] = __hneg(a);
    o[5] = __habs(b);
    o[6] = __float2bfloat16_rn(__bfloat162float(a) / 3.0f);
    o[7] = __float2bfloat16_rz(__bfloat162float(b) / 3.0f);
    __nv_bfloat162 sum = __hadd2(__halves2bfloat162(a, b), __halves2bfloat162(b, a));
    o[8] = __high2bfloat16(sum);
    o[9] = __ushort_as_bfloat16((unsigned short)(__hlt(a, b) + 2 * __heq(a, b) + 4 * __hge(a, b)));
    for (int k = 0; k < 10; k++) out[i][k] = __bfloat16_as_ushort(o[k]);
}

// Mixed precision: halves in memory, and a float as the accumulator.
extern "C" __global__ void dot(const __half2 *a, const __half2 *b, float *out, unsigned pairs) {
    float sum = 0;
    for (unsigned i = threadIdx.x; i < pairs; i += 32) {
        float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
        sum += x.x * y.x + x.y * y.y;
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0) *out = sum;
}
