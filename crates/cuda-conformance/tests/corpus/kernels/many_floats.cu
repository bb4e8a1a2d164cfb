// Floating-point kernels, without contraction of products and sums.
#define KERNEL(NAME, T, W, M)                                                                     \
    __device__ __forceinline__ void NAME##_of(const T *v, T *r);                                 \
    extern "C" __global__ void NAME(const T *in, T *out, unsigned n) {                            \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                       \
        if (i < n) NAME##_of(in + i * W, out + i * M);                                            \
    }                                                                                             \
    __device__ __forceinline__ void NAME##_of(const T *v, T *r)

KERNEL(saxpy, float, 3, 1) { r[0] = v[0] * v[1] + v[2]; }

KERNEL(polynomial, float, 2, 1) {
    float sum = 0.0f;
    for (int k = 0; k < 12; k++) sum = sum * v[0] + v[1] / (k + 1);
    r[0] = sum;
}

KERNEL(fused, float, 3, 1) {
    float x = v[0];
    for (int k = 0; k < 8; k++) x = fmaf(x, v[1], v[2]);
    r[0] = x;
}

KERNEL(compensated_sum, float, 8, 2) {
    float sum = 0.0f, rest = 0.0f;
    for (int k = 0; k < 8; k++) {
        float y = v[k] - rest, t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    r[0] = sum;
    r[1] = rest;
}

KERNEL(divided, float, 2, 4) {
    r[0] = v[0] / v[1];
    r[1] = __frcp_rn(v[1]);
    r[2] = sqrtf(fabsf(v[0]));
    r[3] = __fsqrt_rd(fabsf(v[1]));
}

KERNEL(directed, float, 2, 6) {
    r[0] = __fadd_ru(v[0], v[1]);
    r[1] = __fadd_rd(v[0], v[1]);
    r[2] = __fmul_rz(v[0], v[1]);
    r[3] = __fdiv_ru(v[0], v[1]);
    r[4] = __fmaf_rd(v[0], v[1], v[0]);
    r[5] = __saturatef(v[0]);
}

KERNEL(rounded, float, 1, 6) {
    r[0] = floorf(v[0]);
    r[1] = ceilf(v[0]);
    r[2] = truncf(v[0]);
    r[3] = rintf(v[0]);
    r[4] = roundf(v[0]);
    r[5] = v[0] - floorf(v[0]);
}

KERNEL(extremes, float, 2, 4) {
    r[0] = fminf(v[0], v[1]);
    r[1] = fmaxf(v[0], v[1]);
    r[2] = fdimf(v[0], v[1]);
    r[3] = copysignf(v[0], v[1]);
}

KERNEL(parts, float, 2, 4) {
    int exponent;
    r[0] = frexpf(v[0], &exponent);
    r[1] = (float)exponent;
    r[2] = ldexpf(v[0], (int)fminf(fmaxf(v[1], -40.0f), 40.0f));
    r[3] = nextafterf(v[0], v[1]);
}

KERNEL(remainders, float, 2, 2) {
    r[0] = fmodf(v[0], v[1]);
    r[1] = remainderf(v[0], v[1]);
}

KERNEL(body, float, 6, 3) {
    float dx = v[3] - v[0], dy = v[4] - v[1], dz = v[5] - v[2];
    float square = dx * dx + dy * dy + dz * dz + 0.01f;
    float inverse = 1.0f / (square * sqrtf(square));
    r[0] = dx * inverse;
    r[1] = dy * inverse;
    r[2] = dz * inverse;
}

KERNEL(mandelbrot, float, 2, 1) {
    float x = 0.0f, y = 0.0f;
    int turns = 0;
    while (turns < 80 && x * x + y * y < 4.0f) {
        float next = x * x - y * y + v[0];
        y = 2.0f * x * y + v[1];
        x = next;
        turns++;
    }
    r[0] = (float)turns;
}

KERNEL(rotated, float, 7, 3) {
    float x = v[0], y = v[1], z = v[2], w = v[3];
    float size = sqrtf(x * x + y * y + z * z + w * w) + 1e-3f;
    x /= size; y /= size; z /= size; w /= size;
    float tx = 2.0f * (y * v[6] - z * v[5]), ty = 2.0f * (z * v[4] - x * v[6]), tz = 2.0f * (x * v[5] - y * v[4]);
    r[0] = v[4] + w * tx + y * tz - z * ty;
    r[1] = v[5] + w * ty + z * tx - x * tz;
    r[2] = v[6] + w * tz + x * ty - y * tx;
}

KERNEL(solved, float, 12, 3) {
    float a[3][4];
    for (int k = 0; k < 12; k++) a[k / 4][k % 4] = v[k] + (k % 5 == 0 ? 200.0f : 0.0f);
    for (int p = 0; p < 3; p++) {
        for (int row = 0; row < 3; row++) {
            if (row == p) continue;
            float factor = a[row][p] / a[p][p];
            for (int column = p; column < 4; column++) a[row][column] -= factor * a[p][column];
        }
    }
    for (int p = 0; p < 3; p++) r[p] = a[p][3] / a[p][p];
}

KERNEL(converted, float, 1, 6) {
    r[0] = (float)(int)v[0];
    r[1] = (float)(unsigned)fabsf(v[0]);
    r[2] = (float)(long long)v[0];
    r[3] = (float)((double)v[0] * 1.1);
    r[4] = __int2float_rz(__float_as_int(v[0]));
    r[5] = (float)(short)v[0] + (float)(unsigned char)fabsf(v[0]);
}

KERNEL(sine, float, 1, 1) { r[0] = sinf(v[0]); }
KERNEL(cosine, float, 1, 1) { r[0] = cosf(v[0]); }
KERNEL(tangent, float, 1, 1) { r[0] = tanf(v[0]); }
KERNEL(exponential, float, 1, 1) { r[0] = expf(v[0]); }
KERNEL(power_of_two, float, 1, 1) { r[0] = exp2f(v[0]); }
KERNEL(exponential_less_one, float, 1, 1) { r[0] = expm1f(v[0]); }
KERNEL(logarithm, float, 1, 1) { r[0] = logf(v[0]); }
KERNEL(binary_logarithm, float, 1, 1) { r[0] = log2f(v[0]); }
KERNEL(logarithm_of_more, float, 1, 1) { r[0] = log1pf(v[0]); }
KERNEL(power, float, 2, 1) { r[0] = powf(fabsf(v[0]), v[1]); }
KERNEL(arc_tangent, float, 2, 1) { r[0] = atan2f(v[0], v[1]); }
KERNEL(arc_sine, float, 1, 1) { r[0] = asinf(v[0] - truncf(v[0])); }
KERNEL(hyperbolic, float, 1, 2) {
    r[0] = sinhf(v[0]);
    r[1] = tanhf(v[0]);
}
KERNEL(error_function, float, 1, 2) {
    r[0] = erff(v[0]);
    r[1] = erfcf(v[0]);
}
KERNEL(gamma, float, 1, 1) { r[0] = lgammaf(fabsf(v[0]) + 0.5f); }
KERNEL(cube_root, float, 1, 1) { r[0] = cbrtf(v[0]); }
KERNEL(reverse_root, float, 1, 1) { r[0] = rsqrtf(fabsf(v[0])); }
KERNEL(hypotenuse, float, 2, 1) { r[0] = hypotf(v[0], v[1]); }
KERNEL(logistic, float, 1, 1) { r[0] = 1.0f / (1.0f + expf(-v[0])); }

KERNEL(double_polynomial, double, 2, 1) {
    double sum = 0.0;
    for (int k = 0; k < 9; k++) sum = sum * v[0] + v[1] / (k + 1);
    r[0] = sum;
}
KERNEL(double_fused, double, 3, 2) {
    r[0] = fma(v[0], v[1], v[2]);
    r[1] = __dmul_rd(v[0], v[1]);
}
KERNEL(double_divided, double, 2, 2) {
    r[0] = v[0] / v[1];
    r[1] = sqrt(fabs(v[0]));
}
KERNEL(double_rounded, double, 1, 4) {
    r[0] = floor(v[0]);
    r[1] = rint(v[0]);
    r[2] = (double)(long long)v[0];
    r[3] = (double)(float)v[0];
}
KERNEL(double_exponential, double, 1, 1) { r[0] = exp(v[0]); }
KERNEL(double_logarithm, double, 1, 1) { r[0] = log(fabs(v[0]) + 1e-9); }
KERNEL(double_sine, double, 1, 2) {
    r[0] = sin(v[0]);
    r[1] = cos(v[0]);
}
KERNEL(double_power, double, 2, 1) { r[0] = pow(fabs(v[0]) + 0.1, v[1]); }
KERNEL(double_arc_tangent, double, 2, 1) { r[0] = atan2(v[0], v[1]); }

// Blocks of 128 threads with one number each; the order of the sums is the same on every device.
extern "C" __global__ void block_softmax(const float *in, float *out, unsigned n) {
    __shared__ float values[128];
    unsigned t = threadIdx.x, i = blockIdx.x * 128 + t;
    values[t] = in[i];
    for (unsigned step = 64; step; step /= 2) {
        __syncthreads();
        if (t < step) values[t] = fmaxf(values[t], values[t + step]);
    }
    __syncthreads();
    float most = values[0];
    __syncthreads();
    float own = expf(in[i] - most);
    values[t] = own;
    for (unsigned step = 64; step; step /= 2) {
        __syncthreads();
        if (t < step) values[t] += values[t + step];
    }
    __syncthreads();
    out[i] = own / values[0];
}

extern "C" __global__ void block_product(const float *in, float *out, unsigned n) {
    __shared__ float a[8][16], b[16][8];
    unsigned t = threadIdx.x, i = blockIdx.x * 128 + t;
    a[t / 16][t % 16] = in[i];
    b[t / 8][t % 8] = in[i] + 1.0f;
    __syncthreads();
    float sum = 0.0f;
    if (t < 64) {
        for (int k = 0; k < 16; k++) sum += a[t / 8][k] * b[k][t % 8];
    }
    out[i] = sum;
}

extern "C" __global__ void warp_mean(const float *in, float *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    float sum = in[i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    out[i] = in[i] - sum / 32.0f;
}
