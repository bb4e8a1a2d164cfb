// The kernels of safe/cost.rs. Every one is correct for the launch that the table there gives it.

typedef unsigned int u32;
#define GLOBAL(name) extern "C" __global__ void name

__device__ u32 hashed(u32 x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
    return x;
}

// Waits, so that the host can queue launches meanwhile.
GLOBAL(spin)(u32 microseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < microseconds * 1000ull);
}

// Numbers in [0, 1), and indices below `end`.
GLOBAL(fill_floats)(float *x, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (hashed(i) >> 8) * (1.0f / 16777216);
}
GLOBAL(fill_indices)(u32 *x, u32 n, u32 end) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = hashed(i) % end;
}
// The row starts of a sparse matrix with `each` entries in a row.
GLOBAL(fill_starts)(u32 *x, u32 n, u32 each) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i * each;
}

GLOBAL(vector_add)(const float *a, const float *b, float *c, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
GLOBAL(saxpy)(const float4 *x, float4 *y, float a, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 u = x[i], v = y[i];
    v.x += a * u.x; v.y += a * u.y; v.z += a * u.z; v.w += a * u.w;
    y[i] = v;
}
GLOBAL(grid_stride)(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * 2.0f;
}
GLOBAL(stencil5)(const float *x, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    int at = j * width + i;
    y[at] = 0.2f * (x[at] + x[at - 1] + x[at + 1] + x[at - width] + x[at + width]);
}
GLOBAL(stencil7)(const float *x, float *y, int width, int height, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    int layer = width * height, at = j * width + i;
    for (int k = 1; k < depth - 1; k++) {
        at += layer;
        y[at] = x[at] + x[at - 1] + x[at + 1] + x[at - width] + x[at + width] + x[at - layer]
            + x[at + layer];
    }
}
GLOBAL(matmul_tiled)(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += 16) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
GLOBAL(matmul_naive)(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[row * n + i] * b[i * n + column];
    c[row * n + column] = sum;
}
GLOBAL(transpose_naive)(const float *x, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < width && j < height) y[i * height + j] = x[j * width + i];
}
GLOBAL(transpose)(const float *x, float *y, int width, int height) {
    __shared__ float tile[32][33];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (i < width && j + k < height)
            tile[threadIdx.y + k][threadIdx.x] = x[(j + k) * width + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x;
    j = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (i < height && j + k < width)
            y[(j + k) * height + i] = tile[threadIdx.x][threadIdx.y + k];
}
GLOBAL(gather)(const float *x, const u32 *at, float *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[at[i]];
}
GLOBAL(scatter_add)(const u32 *x, const u32 *at, u32 *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[at[i]], x[i]);
}
GLOBAL(n_body)(const float4 *at, float4 *force, int n) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 own = at[i], sum = make_float4(0, 0, 0, 0);
    for (int first = 0; first < n; first += 256) {
        tile[threadIdx.x] = at[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 256; k++) {
            float4 other = tile[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = other.w * r * r * r;
            sum.x += dx * s; sum.y += dy * s; sum.z += dz * s;
        }
        __syncthreads();
    }
    force[i] = sum;
}
GLOBAL(block_sum)(const float *x, float *y, int n) {
    __shared__ float sums[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    sums[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 128; step > 0; step >>= 1) {
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
GLOBAL(dot)(const float *x, const float *y, float *sums, int n) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i] * y[i];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) sums[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = sum;
}
GLOBAL(histogram)(const unsigned char *x, u32 *bins, int n) {
    __shared__ u32 own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&own[x[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
__device__ float sum_of_block(float value, float *shared) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += shared[i];
    __syncthreads();
    return sum;
}
GLOBAL(softmax)(const float *x, float *y, int width) {
    __shared__ float sums[8];
    const float *row = x + (size_t)blockIdx.x * width;
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 256) sum += __expf(row[i]);
    sum = sum_of_block(sum, sums);
    float *out = y + (size_t)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += 256) out[i] = __expf(row[i]) / sum;
}
GLOBAL(layer_norm)(const float *x, const float *scale, const float *shift, float *y, int width) {
    __shared__ float sums[8];
    const float *row = x + (size_t)blockIdx.x * width;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < width; i += 256) { sum += row[i]; squares += row[i] * row[i]; }
    float mean = sum_of_block(sum, sums) / width;
    float inverse = rsqrtf(sum_of_block(squares, sums) / width - mean * mean + 1e-5f);
    float *out = y + (size_t)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += 256)
        out[i] = (row[i] - mean) * inverse * scale[i] + shift[i];
}
GLOBAL(rms_norm)(const float4 *x, const float4 *scale, float4 *y, int width) {
    __shared__ float sums[8];
    size_t row = (size_t)blockIdx.x * width;
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 256) {
        float4 v = x[row + i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    float inverse = rsqrtf(sum_of_block(sum, sums) / (4 * width) + 1e-5f);
    for (int i = threadIdx.x; i < width; i += 256) {
        float4 v = x[row + i], s = scale[i];
        v.x *= inverse * s.x; v.y *= inverse * s.y; v.z *= inverse * s.z; v.w *= inverse * s.w;
        y[row + i] = v;
    }
}
GLOBAL(gelu)(const float *x, float *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = 0.5f * v * (1 + tanhf(0.797885f * (v + 0.044715f * v * v * v)));
}
GLOBAL(block_scan)(const float *x, float *y, int n) {
    __shared__ float sums[2][256];
    int i = blockIdx.x * 256 + threadIdx.x, from = 0;
    sums[0][threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        float value = sums[from][threadIdx.x];
        if (threadIdx.x >= step) value += sums[from][threadIdx.x - step];
        from = 1 - from;
        sums[from][threadIdx.x] = value;
        __syncthreads();
    }
    if (i < n) y[i] = sums[from][threadIdx.x];
}
GLOBAL(convolve_row)(const float *x, const float *weights, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = -4; k <= 4; k++)
        if (i + k >= 0 && i + k < n) sum += x[i + k] * weights[k + 4];
    y[i] = sum;
}
GLOBAL(convolve)(const float *x, const float *weights, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += x[(j + dy) * width + i + dx] * weights[(dy + 1) * 3 + dx + 1];
    y[j * width + i] = sum;
}
GLOBAL(max_pool)(const float *x, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width / 2 || j >= height / 2) return;
    const float *from = x + 2 * j * width + 2 * i;
    y[j * (width / 2) + i] = fmaxf(fmaxf(from[0], from[1]), fmaxf(from[width], from[width + 1]));
}
GLOBAL(rope)(float *x, const float *cosines, const float *sines, int width, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i >= width / 2 || row >= rows) return;
    float *at = x + row * width;
    float a = at[i], b = at[i + width / 2], c = cosines[i], s = sines[i];
    at[i] = a * c - b * s;
    at[i + width / 2] = a * s + b * c;
}
GLOBAL(embedding)(const u32 *tokens, const float *table, float *y, int width, int vocabulary) {
    u32 token = tokens[blockIdx.x];
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        y[blockIdx.x * width + i] = table[token * width + i];
}
GLOBAL(sparse)(const u32 *starts, const u32 *columns, const float *values, const float *x, float *y,
               int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (u32 k = starts[row]; k < starts[row + 1]; k++) sum += values[k] * x[columns[k]];
    y[row] = sum;
}
GLOBAL(search)(const u32 *sorted, const u32 *keys, u32 *found, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    u32 key = keys[i];
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] < key) low = middle + 1; else high = middle;
    }
    found[i] = low;
}
GLOBAL(bilinear)(const float *x, float *y, int width, int height, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    float fx = i * scale, fy = j * scale;
    int ix = min(max((int)fx, 0), width - 2), iy = min(max((int)fy, 0), height - 2);
    float ax = fx - ix, ay = fy - iy;
    const float *at = x + iy * width + ix;
    float top = at[0] * (1 - ax) + at[1] * ax, bottom = at[width] * (1 - ax) + at[width + 1] * ax;
    y[j * width + i] = top * (1 - ay) + bottom * ay;
}
GLOBAL(dequantize)(const u32 *x, const float *scales, float4 *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 word = x[i];
    float s = scales[i / 4];
#define PART(k) (((word >> (k)) & 15) * s - 8 * s)
    y[2 * i] = make_float4(PART(0), PART(4), PART(8), PART(12));
    y[2 * i + 1] = make_float4(PART(16), PART(20), PART(24), PART(28));
}
GLOBAL(black_scholes)(const float *price, const float *strike, const float *years, float *call,
                      u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = price[i] + 1, k = strike[i] + 1, t = years[i] + 0.1f, root = 0.3f * sqrtf(t);
    float d = (__logf(s / k) + 0.065f * t) / root;
    call[i] = s * normcdff(d) - k * __expf(-0.02f * t) * normcdff(d - root);
}
GLOBAL(random_numbers)(u32 *states, float *y, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 state = states[i] | 1;
    for (int k = 0; k < rounds; k++) {
        state ^= state << 13; state ^= state >> 17; state ^= state << 5;
        y[k * n + i] = state * (1.0f / 4294967296.0f);
    }
    states[i] = state;
}
GLOBAL(mandelbrot)(u32 *y, int width, int height, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    float cx = 3.0f * i / width - 2, cy = 2.0f * j / height - 1, a = 0, b = 0;
    int k = 0;
    for (; k < most && a * a + b * b < 4; k++) {
        float t = a * a - b * b + cx;
        b = 2 * a * b + cy;
        a = t;
    }
    y[j * width + i] = k;
}
GLOBAL(jacobi)(const float *x, const float *right, float *y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    int left = max(i - 1, 0), next = min(i + 1, width - 1);
    int up = max(j - 1, 0), down = min(j + 1, height - 1), at = j * width + i;
    y[at] = 0.25f * (x[j * width + left] + x[j * width + next] + x[up * width + i]
        + x[down * width + i] - right[at]);
}
GLOBAL(matvec)(const float *a, const float *x, float *y, int width, int height) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= height) return;
    float sum = 0;
    for (int i = lane; i < width; i += 32) sum += a[row * width + i] * x[i];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}
GLOBAL(broadcast_add)(const float *x, const float *row, float *y, int width, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + row[i % width];
}
GLOBAL(reverse)(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i];
}
GLOBAL(split)(const float *x, float *red, float *green, float *blue, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    red[i] = x[3 * i]; green[i] = x[3 * i + 1]; blue[i] = x[3 * i + 2];
}
GLOBAL(to_bytes)(const float4 *x, uchar4 *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    y[i] = make_uchar4(v.x * 255, v.y * 255, v.z * 255, v.w * 255);
}
GLOBAL(scores)(const float *q, const float *k, float *y, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= length || j >= length) return;
    float sum = 0;
    for (int d = 0; d < 64; d++) sum += q[j * 64 + d] * k[i * 64 + d];
    y[j * length + i] = sum * 0.125f;
}
GLOBAL(bitonic)(u32 *x, u32 n, u32 step, u32 stage) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ step;
    if (i >= n || other >= n || other <= i) return;
    u32 a = x[i], b = x[other];
    if ((a > b) == ((i & stage) == 0)) { x[i] = b; x[other] = a; }
}
GLOBAL(pointed)(const float *const *table, u32 each, float *y, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[i / each][i % each] + 1.0f;
}
