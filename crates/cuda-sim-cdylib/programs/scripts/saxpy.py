"""A saxpy of cuda.core: compiled by NVRTC, launched on a stream, compared with what the host computes."""

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from staging import pinned

SOURCE = """
template <typename T>
__global__ void saxpy(T a, const T* x, const T* y, T* out, size_t n) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
        out[i] = a * x[i] + y[i];
    }
}
"""


def check(device, kernel, dtype, count, blocks):
    """One size. The factor and the values have few bits, so that the result is exact with one rounding or two."""
    stream = device.create_stream()
    random = np.random.default_rng(count)
    host = [pinned(count, dtype, random.integers(-1000, 1000, count) / 8) for _ in range(2)]
    a = dtype(2.5)
    on_device = [device.allocate(buffer.size, stream=stream) for buffer, _ in host]
    out = device.allocate(host[0][0].size, stream=stream)
    for (buffer, _), copy in zip(host, on_device):
        buffer.copy_to(copy, stream=stream)
    config = LaunchConfig(grid=blocks, block=256)
    launch(stream, config, kernel, a, *on_device, out, np.uint64(count))
    result, array = pinned(count, dtype, np.nan)
    out.copy_to(result, stream=stream)
    stream.sync()
    (_, x), (_, y) = host
    wrong = np.count_nonzero(array != a * x + y)
    assert wrong == 0, f"{wrong} of {count} differ"


def main():
    device = Device(0)
    device.set_current()
    names = {np.float32: "saxpy<float>", np.float64: "saxpy<double>"}
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    program = Program(SOURCE, code_type="c++", options=options)
    module = program.compile("ptx", name_expressions=tuple(names.values()))
    for dtype, name in names.items():
        kernel = module.get_kernel(name)
        for count, blocks in ((1, 1), (1000, 4), (100_000, 7)):
            check(device, kernel, dtype, count, blocks)
            print(f"{name}: {count} elements in {blocks} blocks")


main()
