struct Affine {
    float matrix[2][3];
    int mode;
    unsigned char flip[4];
    double scale;
};

extern "C" __global__ void affine(Affine map, char before, const float2 *in, short between, float2 *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = in[i];
    float r[2];
    for (int k = 0; k < 2; k++) {
        r[k] = map.matrix[k][0] * p.x + map.matrix[k][1] * p.y + map.matrix[k][2];
        if (map.flip[(i + k) & 3]) r[k] = -r[k];
        r[k] = (float)(r[k] * map.scale) + before + between;
    }
    out[i] = map.mode == 1 ? make_float2(r[1], r[0]) : make_float2(r[0], r[1]);
}

template <typename T> struct Sum {
    static __device__ T start() { return 0; }
    static __device__ T join(T a, T b) { return a + b; }
};
template <typename T> struct Most {
    static __device__ T start() { return (T)-1000000; }
    static __device__ T join(T a, T b) { return a > b ? a : b; }
};

namespace folds {
template <typename T, int WIDTH, template <typename> class Operation>
__global__ void fold(const T *in, T *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T all = Operation<T>::start();
#pragma unroll
    for (int k = 0; k < WIDTH; k++) all = Operation<T>::join(all, in[(i + k) % n]);
    out[i] = all;
}
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
};
struct Box : Shape {
    float w, h;
    __device__ Box(float w, float h) : w(w), h(h) {}
    __device__ float area() const override { return w * h; }
    __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
    float r;
    __device__ explicit Disc(float r) : r(r) {}
    __device__ float area() const override { return 3 * r * r; }
};

template <typename F> __device__ float twice(F f) { return f() + f(); }

// Virtual calls, and a lambda with captures.
extern "C" __global__ void shapes(const float2 *in, float2 *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Box box(in[i].x, in[i].y);
    Disc disc(in[i].x);
    const Shape *shape = in[i].x < in[i].y ? (const Shape *)&box : &disc;
    out[i] = make_float2(twice([&] { return shape->area(); }), (float)shape->corners());
}

__device__ int CALLS = 5;
__device__ unsigned short STATE[3] = {1, 2, 3};

// Globals keep the values that an earlier launch has stored.
extern "C" __global__ void globals(int *out) {
    out[0] = atomicAdd(&CALLS, 1);
    for (int k = 0; k < 3; k++) {
        out[1 + k] = STATE[k];
        STATE[k] *= 3;
    }
}
