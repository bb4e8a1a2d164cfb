#define INDEX unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float x = in[i].x, y = in[i].y; float *o = out[i];

extern "C" __global__ void single(const float2 *in, float (*out)[28], unsigned n) {
    INDEX
    o[0] = expf(x);
    o[1] = exp2f(x);
    o[2] = exp10f(x / 4);
    o[3] = expm1f(x / 8);
    o[4] = logf(y);
    o[5] = log2f(y);
    o[6] = log10f(y);
    o[7] = log1pf(y);
    o[8] = sinf(x);
    o[9] = cosf(x);
    o[10] = tanf(x);
    o[11] = asinf(x / 40);
    o[12] = acosf(x / 40);
    o[13] = atanf(x);
    o[14] = atan2f(x, y);
    o[15] = sinhf(x);
    o[16] = coshf(x);
    o[17] = tanhf(x);
    o[18] = asinhf(x);
    o[19] = acoshf(1 + y);
    o[20] = atanhf(x / 40);
    o[21] = powf(y, x / 4);
    o[22] = cbrtf(x);
    o[23] = rsqrtf(y);
    o[24] = hypotf(x, y);
    float s, c;
    sincosf(x * 5000.0f, &s, &c); // far enough for the slow reduction of some
    o[25] = s;
    o[26] = c;
    o[27] = fmodf(x, y);
}

// Functions of lower precision, which take one or two instructions.
extern "C" __global__ void fast(const float2 *in, float (*out)[8], unsigned n) {
    INDEX
    o[0] = __expf(x);
    o[1] = __logf(y);
    o[2] = __sinf(x / 40 * 3.0f);
    o[3] = __cosf(x / 40 * 3.0f);
    o[4] = __fdividef(x, y);
    o[5] = __powf(y, 0.5f);
    o[6] = __exp10f(x / 4);
    o[7] = __log2f(y);
}

extern "C" __global__ void twice(const double2 *in, double (*out)[20], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i].x, y = in[i].y;
    double *o = out[i];
    o[0] = exp(x);
    o[1] = log(y);
    o[2] = sin(x);
    o[3] = cos(x);
    o[4] = pow(y, x / 4);
    o[5] = sqrt(y);
    o[6] = x / y;
    o[7] = tan(x);
    o[8] = atan2(x, y);
    o[9] = tanh(x);
    o[10] = cbrt(x);
    o[11] = exp2(x);
    o[12] = log2(y);
    o[13] = log10(y);
    o[14] = asin(x / 40);
    o[15] = sinh(x);
    o[16] = rsqrt(y);
    o[17] = hypot(x, y);
    o[18] = fmod(x, y);
    o[19] = 1 / y;
}
