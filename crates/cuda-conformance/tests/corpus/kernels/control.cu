extern "C" __global__ void interpreter(const uint2 *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // A program of 3-bit instructions; each lane has its own.
    unsigned program = in[i].x;
    int value = (int)in[i].y;
    while (program) {
        switch (program & 7) {
        case 0: value += 3; break;
        case 1: value *= 5; break;
        case 2: value = -value; // falls through
        case 3: value ^= 0x55; break;
        case 4:
            if (value & 1) goto out;
            value /= 2;
            break;
        case 5:
            for (int k = 0; k < (value & 3); k++) {
                if (k == 2) continue;
                value += k * value;
            }
            break;
        case 6: value = value > 100 ? value % 100 : value + 100; break;
        default: value = __popc(value) * 1000; break;
        }
        program >>= 3;
    }
out:
    out[i] = value;
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ unsigned long long fibonacci(unsigned n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void recursion(const unsigned *in, unsigned long long *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] % 2 ? fibonacci(in[i] % 13) : ackermann(2, in[i] % 5);
}

typedef double (*Operation)(double, double);
__device__ __noinline__ double plus(double a, double b) { return a + b; }
__device__ __noinline__ double minus(double a, double b) { return a - b; }
__device__ __noinline__ double times(double a, double b) { return a * b; }
__device__ __noinline__ double larger(double a, double b) { return a > b ? a : b; }
__device__ Operation OPERATIONS[4] = {plus, minus, times, larger};

extern "C" __global__ void pointers(const int *in, double *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = OPERATIONS[in[i] & 3](in[i], OPERATIONS[(in[i] >> 2) & 3](7, in[i]));
}

// Sorts in local memory, which is private to each thread.
extern "C" __global__ void local_arrays(const unsigned *in, unsigned (*out)[16], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned list[16], seed = in[i];
    for (int k = 0; k < 16; k++) {
        seed = seed * 1664525u + 1013904223u;
        list[k] = seed >> 8;
    }
    for (int k = 1; k < 16; k++) {
        unsigned value = list[k];
        int j = k;
        for (; j > 0 && list[j - 1] > value; j--) list[j] = list[j - 1];
        list[j] = value;
    }
    for (int k = 0; k < 16; k++) out[i][k] = list[k];
}

// The loop counts of lanes differ by hundreds, and some lanes exit early.
extern "C" __global__ void collatz(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long value = in[i];
    unsigned steps = 0;
    while (value != 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        if (++steps == 200) return;
    }
    out[i] = steps;
}

extern "C" __global__ void prints(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = printf("%d: %5.2f|%-4u|%s|%lld|%c|%x|%%\n", in[i], in[i] * 0.25, i, i % 2 ? "odd" : "even",
                    (long long)in[i] << 40, 'a' + (int)i, in[i]);
}
