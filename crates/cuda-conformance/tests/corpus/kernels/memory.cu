extern "C" __global__ void vadd(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float alpha, const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fmaf_rn(alpha, x[i], y[i]);
}

extern "C" __global__ void grid_stride(int *x, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = x[i] * 3 + 1;
}

// Dynamic shared memory holds two arrays, one after the other.
extern "C" __global__ void reverse_pairs(const int *keys, const double *values, int *keys_out, double *values_out) {
    extern __shared__ double shared[];
    double *v = shared;
    int *k = (int *)(v + blockDim.x);
    unsigned t = threadIdx.x, base = blockIdx.x * blockDim.x;
    k[t] = keys[base + t];
    v[t] = values[base + t];
    __syncthreads();
    keys_out[base + t] = k[blockDim.x - 1 - t];
    values_out[base + t] = v[blockDim.x - 1 - t];
}

extern "C" __global__ void transpose(const int *in, int *out, unsigned width, unsigned height) {
    __shared__ int tile[16][17];
    unsigned x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float as[16][16], bs[16][16];
    unsigned row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (unsigned k = 0; k < n; k += 16) {
        as[threadIdx.y][threadIdx.x] = row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = col < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

__constant__ float WEIGHTS[5] = {1.0f, -4.0f, 6.0f, -4.0f, 1.0f};
__constant__ int OFFSETS[5] = {-2, -1, 0, 1, 2};

extern "C" __global__ void stencil(const float *in, float *out, unsigned n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)n) return;
    float sum = 0;
    for (int k = 0; k < 5; k++) {
        int j = min(max(i + OFFSETS[k], 0), (int)n - 1);
        sum += WEIGHTS[k] * in[j];
    }
    out[i] = sum;
}

// Records of 13 bytes: only the first byte is aligned for its type, so bytes and shorts are moved
// separately.
extern "C" __global__ void narrow(const unsigned char *records, signed char *bytes, short *shorts, unsigned *words,
                                  unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned char *r = records + 13 * i;
    bytes[i] = (signed char)r[0] >> 1;
    shorts[i] = (short)(r[1] | r[2] << 8) / 3;
    unsigned word = 0;
    for (int k = 0; k < 10; k++) word = word * 31 + (k % 2 ? (signed char)r[3 + k] : r[3 + k]);
    words[i] = word;
}

struct __align__(16) Vec4 { float x, y, z, w; };

// Reads separate arrays of fields, and writes an array of structs.
extern "C" __global__ void weave(const float *x, const double *y, const short *z, const char *w, Vec4 *out,
                                 unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = Vec4{x[i], (float)y[i], (float)z[i], (float)w[i]};
}

// Each thread reads 4 elements by one 16-byte access, then every 7th element by single accesses.
extern "C" __global__ void strides(const int4 *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 v = in[i];
    const int *flat = (const int *)in;
    out[i] = v.x - v.y + v.z - v.w + flat[i * 7 % (4 * n)];
}

extern "C" __global__ void nbody(const float4 *bodies, float4 *forces, unsigned n) {
    extern __shared__ float4 tile[];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float ax = 0, ay = 0, az = 0;
    for (unsigned first = 0; first < n; first += blockDim.x) {
        unsigned j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (unsigned k = 0; k < blockDim.x; k++) {
            float4 other = tile[k];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float strength = other.w * inverse * inverse * inverse;
            ax += dx * strength;
            ay += dy * strength;
            az += dz * strength;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(ax, ay, az, me.w);
}
