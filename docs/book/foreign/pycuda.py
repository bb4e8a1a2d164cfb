import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

module = SourceModule("""
__global__ void transpose(
    const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        y[column * rows + row] = x[row * columns + column];
}
""")
transpose = module.get_function("transpose")

rows, columns = 48, 80
host = np.arange(rows * columns, dtype=np.float32)
host = host.reshape(rows, columns)

x = drv.mem_alloc(host.nbytes)
y = drv.mem_alloc(host.nbytes)
drv.memcpy_htod(x, host)

stream = drv.Stream()
start, end = drv.Event(), drv.Event()
start.record(stream)
transpose(
    x, y, np.uint32(rows), np.uint32(columns),
    grid=(5, 3), block=(16, 16, 1), stream=stream)
end.record(stream)
end.synchronize()
print(end.time_since(start), "ms")

result = np.empty((columns, rows), np.float32)
drv.memcpy_dtoh(result, y)
assert (result == host.T).all()
print(rows, "x", columns, "elements verified")
