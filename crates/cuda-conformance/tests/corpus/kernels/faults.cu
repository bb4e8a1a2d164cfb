extern "C" __global__ void asserts(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(in[i] != 3);
    out[i] = in[i];
}

extern "C" __global__ void beyond(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[(unsigned long long)i << 20] = in[0];
}

extern "C" __global__ void traps(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (in[i] == 7) __trap();
    out[i] = in[i];
}

extern "C" __global__ void misaligned(const char *in, int *out, unsigned n) {
    out[0] = *(const int *)(in + 1);
}
