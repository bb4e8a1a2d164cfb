// The index of this thread in a one-dimensional grid.
__device__ inline unsigned thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
