#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                      \
    do {                                                 \
        cudaError_t status = (call);                     \
        if (status != cudaSuccess) {                     \
            std::fprintf(stderr, "%s: %s\n", #call,      \
                         cudaGetErrorString(status));    \
            std::exit(1);                                \
        }                                                \
    } while (0)

__global__ void sum(const float *x, float *total, unsigned n) {
    extern __shared__ float part[];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}

int main() {
    const unsigned n = 1 << 16, block = 256;
    const size_t bytes = n * sizeof(float);
    float *host = static_cast<float *>(std::malloc(bytes));
    for (unsigned i = 0; i < n; i++) host[i] = 0.5f;

    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));

    float *x, *total;
    CHECK(cudaMallocAsync(&x, bytes, stream));
    CHECK(cudaMemcpyAsync(
        x, host, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMallocAsync(&total, sizeof(float), stream));
    CHECK(cudaMemsetAsync(total, 0, sizeof(float), stream));

    const size_t shared = block * sizeof(float);
    CHECK(cudaEventRecord(start, stream));
    sum<<<n / block, block, shared, stream>>>(x, total, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end, stream));

    float result, milliseconds;
    CHECK(cudaMemcpyAsync(
        &result, total, sizeof(float),
        cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    std::printf("%f ms\n", milliseconds);
    if (result != n / 2) return 1;
    std::printf("%u elements summed\n", n);

    CHECK(cudaFreeAsync(x, stream));
    CHECK(cudaFreeAsync(total, stream));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    std::free(host);
    return 0;
}
