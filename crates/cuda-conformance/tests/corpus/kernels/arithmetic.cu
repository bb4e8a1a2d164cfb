extern "C" __global__ void single(const float2 *in, unsigned (*out)[24], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = in[i].x, b = in[i].y;
    float o[24];
    o[0] = __fadd_rn(a, b);
    o[1] = a - b;
    o[2] = __fmul_rn(a, b);
    o[3] = a / b;
    o[4] = sqrtf(fabsf(a));
    o[5] = fmaf(a, b, a);
    o[6] = __fadd_rz(a, b);
    o[7] = __fadd_ru(a, b);
    o[8] = __fadd_rd(a, b);
    o[9] = __fmul_rz(a, b);
    o[10] = __fmul_ru(a, b);
    o[11] = __fmul_rd(a, b);
    o[12] = rintf(a);
    o[13] = floorf(a);
    o[14] = ceilf(a);
    o[15] = truncf(a);
    o[16] = roundf(a);
    o[17] = fminf(a, b);
    o[18] = fmaxf(a, b);
    o[19] = copysignf(a, b);
    o[20] = 1.0f / b;
    o[21] = nextafterf(a, b);
    o[22] = __saturatef(a);
    o[23] = __frcp_ru(b);
    for (int k = 0; k < 24; k++) out[i][k] = __float_as_uint(o[k]);
}

extern "C" __global__ void convert(const double *in, unsigned long long (*out)[20], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double d = in[i];
    float f = __double2float_rn(d);
    unsigned long long *o = out[i];
    o[0] = __float_as_uint(f);
    o[1] = __float_as_uint(__double2float_rz(d));
    o[2] = __float_as_uint(__double2float_ru(d));
    o[3] = (unsigned)__float2int_rz(f);
    o[4] = (unsigned)__float2int_rn(f);
    o[5] = (unsigned)__float2int_ru(f);
    o[6] = (unsigned)__float2int_rd(f);
    o[7] = __float2uint_rz(f);
    o[8] = (unsigned long long)__double2ll_rz(d);
    o[9] = __double2ull_rz(d);
    o[10] = (unsigned)__double2int_rn(d);
    o[11] = __double_as_longlong((double)(long long)__double2ll_rz(d));
    o[12] = __float_as_uint(__ll2float_rn(__double2ll_rz(d)));
    o[13] = __float_as_uint(__uint2float_rz(__float2uint_rz(f)));
    o[14] = __float_as_uint(__int2float_rn(__float2int_rz(f)));
    o[15] = __double_as_longlong((double)f);
    o[16] = (unsigned char)__float2int_rz(f);
    o[17] = __double2hiint(d);
    o[18] = __double2loint(d);
    o[19] = (isnan(d) != 0) + 2 * (isinf(f) != 0) + 4 * (signbit(d) != 0) + 8 * (isfinite(d) != 0);
}

extern "C" __global__ void twice(const double2 *in, unsigned long long (*out)[12], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = in[i].x, b = in[i].y, o[12];
    o[0] = __dadd_rn(a, b);
    o[1] = a - b;
    o[2] = __dmul_rn(a, b);
    o[3] = a / b;
    o[4] = sqrt(fabs(a));
    o[5] = fma(a, b, a);
    o[6] = floor(a);
    o[7] = rint(a);
    o[8] = fmin(a, b);
    o[9] = fmax(a, b);
    o[10] = trunc(a);
    o[11] = 1 / b;
    for (int k = 0; k < 12; k++) out[i][k] = __double_as_longlong(o[k]);
}
