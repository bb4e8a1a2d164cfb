// The parts of the standard library that libcu++ provides, and its atomics.
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/mdspan>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <cuda/std/variant>

using Complex = cuda::std::complex<double>;

// The product, quotient, root and exponential of two complex numbers.
extern "C" __global__ void complex(const double (*in)[4], double (*out)[8], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Complex a(in[i][0], in[i][1]), b(in[i][2], in[i][3]);
    Complex results[] = {a * b, a / b, cuda::std::sqrt(a), cuda::std::exp(b)};
    for (int k = 0; k < 4; k++) {
        out[i][2 * k] = results[k].real();
        out[i][2 * k + 1] = results[k].imag();
    }
}

// Each thread sums eight numbers and their squares, then sorts them.
extern "C" __global__ void arrays(const int (*in)[8], int (*out)[12], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::std::array<int, 8> values;
    cuda::std::span<const int, 8> source(in[i]);
    for (unsigned k = 0; k < values.size(); k++) values[k] = source[k];
    int sum = cuda::std::accumulate(values.begin(), values.end(), 0);
    out[i][8] = sum;
    out[i][9] = cuda::std::inner_product(source.begin(), source.end(), values.begin(), 0);
    for (unsigned end = 1; end < values.size(); end++)
        for (unsigned k = end; k > 0 && values[k] < values[k - 1]; k--) cuda::std::swap(values[k], values[k - 1]);
    for (int k = 0; k < 8; k++) out[i][k] = values[k];
    cuda::std::mdspan<int, cuda::std::extents<int, 2, 4>> matrix(values.data());
    out[i][10] = matrix(1, 2);
    out[i][11] = cuda::std::popcount((unsigned)sum) + 64 * cuda::std::countl_zero((unsigned)sum);
}

// The type of the value decides the operation: a number is halved, the letters of a text are
// summed, and no value gives -1.
extern "C" __global__ void variants(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    using Text = cuda::std::array<char, 16>;
    cuda::std::optional<cuda::std::variant<int, Text>> value;
    if (in[i] % 3 == 0) value = in[i];
    if (in[i] % 3 == 1) {
        Text text = {};
        int digit = 0;
        for (unsigned rest = in[i]; rest > 0; rest /= 10) text[digit++] = '0' + rest % 10;
        value = text;
    }
    struct Visitor {
        __device__ int operator()(int number) const { return number / 2; }
        __device__ int operator()(const Text &text) const {
            int sum = 0;
            for (char letter : text) sum += letter;
            return sum;
        }
    };
    out[i] = value ? cuda::std::visit(Visitor(), *value) : -1;
}

template <typename T, cuda::thread_scope Scope> __device__ cuda::atomic_ref<T, Scope> atomic(T *at) {
    return cuda::atomic_ref<T, Scope>(*at);
}

// Atomics of each width, scope and memory order: all threads update one element.
extern "C" __global__ void atomics(signed char *bytes, short *shorts, int *ints, unsigned long long *longs, float *floats, double *doubles) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomic<signed char, cuda::thread_scope_device>(bytes).fetch_add(1, cuda::memory_order_relaxed);
    atomic<signed char, cuda::thread_scope_system>(bytes + 1).fetch_xor(1 << t % 7, cuda::memory_order_acq_rel);
    atomic<short, cuda::thread_scope_device>(shorts).fetch_sub(t % 5, cuda::memory_order_release);
    atomic<short, cuda::thread_scope_device>(shorts + 1).fetch_max(t % 301);
    atomic<int, cuda::thread_scope_device>(ints).fetch_add(t, cuda::memory_order_seq_cst);
    atomic<int, cuda::thread_scope_device>(ints + 1).fetch_min(-t);
    auto word = atomic<int, cuda::thread_scope_device>(ints + 2);
    for (int seen = word.load(cuda::memory_order_acquire); !word.compare_exchange_weak(seen, seen + 3);) {
    }
    atomic<unsigned long long, cuda::thread_scope_system>(longs).fetch_or(1ull << t % 64);
    atomic<unsigned long long, cuda::thread_scope_device>(longs + 1).fetch_add(1ull << 32);
    atomic<float, cuda::thread_scope_device>(floats).fetch_add(0.5f);
    atomic<float, cuda::thread_scope_device>(floats + 1).fetch_max(t * 0.25f);
    atomic<double, cuda::thread_scope_device>(doubles).fetch_sub(0.125, cuda::memory_order_acquire);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
}
