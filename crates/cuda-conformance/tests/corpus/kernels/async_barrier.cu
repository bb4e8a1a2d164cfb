// An asynchronous copy that completes on a barrier of the standard library.

#include <cuda/barrier>

extern "C" __global__ void barrier_copy(const int *in, int *out) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) int space[512];
    __shared__ alignas(Barrier) unsigned char storage[sizeof(Barrier)];
    Barrier *barrier = (Barrier *)storage;
    if (threadIdx.x == 0) init(barrier, blockDim.x);
    __syncthreads();
    const int *from = in + blockIdx.x * 512;
    for (int round = 0; round < 2; round++) {
        unsigned t = threadIdx.x;
        cuda::memcpy_async(space + 4 * t, from + 4 * t, cuda::aligned_size_t<16>(16), *barrier);
        barrier->arrive_and_wait();
        for (int i = 0; i < 4; i++) out[blockIdx.x * 512 + 128 * i + t] = space[511 - (128 * i + t)] + round;
        barrier->arrive_and_wait();
    }
}
