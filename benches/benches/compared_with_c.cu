extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#define TILE 16

extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    unsigned row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (unsigned first = 0; first < n; first += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

#define BODIES 128

extern "C" __global__ void n_body(const float4 *bodies, float4 *forces, unsigned n) {
    __shared__ float4 tile[BODIES];
    unsigned i = blockIdx.x * BODIES + threadIdx.x;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (unsigned first = 0; first < n; first += BODIES) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (unsigned k = 0; k < BODIES; k++) {
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
    forces[i] = make_float4(ax, ay, az, me.w);
}
