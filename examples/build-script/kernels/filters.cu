#include "index.h"

struct Range {
    float low, high;
};

// Limits each value to a range.
extern "C" __global__ void clamp(const float *from, float *to, Range range, unsigned n) {
    unsigned i = thread_index();
    if (i < n) to[i] = fminf(fmaxf(from[i], range.low), range.high);
}

// Computes the mean of two images.
template <typename T>
__global__ void blend(const T *a, const T *b, T *to, unsigned n) {
    unsigned i = thread_index();
    if (i < n) to[i] = (a[i] + b[i]) / 2;
}

// Counts the values of each image.
extern "C" __global__ void histogram(const unsigned char *from, unsigned *counts, unsigned n) {
    unsigned i = thread_index();
    if (i < n) atomicAdd(&counts[from[i]], 1);
}
