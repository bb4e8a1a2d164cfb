"""Machine code in cuda.core: compiles programs to machine code, launches and links it.

The libnvrtc of the companion returns PTX for them, after a line that no GPU accepts.
"""

import ctypes

import numpy as np
from cuda.bindings import nvrtc
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, ObjectCode
from cuda.core import Program, ProgramOptions, launch
from staging import pinned

FIRST_LINE = b"cuda-sim PTX in place of machine code\n"
SQUARES = """
template <typename T>
__global__ void squares(T* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = T(i) * T(i);
}
"""
CUBE = "__device__ unsigned cube(unsigned x) { return x * x * x; }"
CUBES = """
extern __device__ unsigned cube(unsigned x);
extern "C" __global__ void cubes(unsigned* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = cube(i);
}
"""
COUNT = 1000


def run(device, kernel, dtype):
    stream = device.create_stream()
    result, array = pinned(COUNT, dtype, 0)
    out = device.allocate(result.size, stream=stream)
    launch(stream, LaunchConfig(grid=4, block=256), kernel, out, np.uint32(COUNT))
    out.copy_to(result, stream=stream)
    stream.sync()
    # The memory is freed with `result`.
    return array.copy()


def compile(source, arch, names=(), **options):
    program = Program(source, code_type="c++", options=ProgramOptions(arch=arch, **options))
    return program.compile("cubin", name_expressions=names)


def main():
    device = Device(0)
    device.set_current()
    arch = f"sm_{device.arch}"
    numbers = np.arange(COUNT)

    names = ("squares<float>", "squares<unsigned>")
    squares = compile(SQUARES, arch, names)
    assert squares.code_type == "cubin" and squares.code.startswith(FIRST_LINE), squares.code[:60]
    for name, dtype in zip(names, (np.float32, np.uint32)):
        assert np.array_equal(run(device, squares.get_kernel(name), dtype), numbers**2), name
    print("a cubin with two kernels: launched")

    # A program may write the code to a file, and load it in another process.
    cube, cubes = (compile(source, arch, relocatable_device_code=True) for source in (CUBE, CUBES))
    kept = [ObjectCode.from_cubin(code.code) for code in (cube, cubes)]
    linked = Linker(*kept, options=LinkerOptions(arch=arch)).link("cubin")
    assert np.array_equal(run(device, linked.get_kernel("cubes"), np.uint32), numbers**3)
    print("two relocatable cubins: linked and launched")

    # There is no machine code for a virtual architecture, as with the real library.
    status, program = nvrtc.nvrtcCreateProgram(CUBES.encode(), b"cubes.cu", 0, [], [])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    nvrtc.nvrtcCompileProgram(program, 2, [b"-arch=compute_80", b"-rdc=true"])
    assert nvrtc.nvrtcGetCUBINSize(program)[1] in (None, 0)
    assert nvrtc.nvrtcGetPTXSize(program)[1] > 0

    # The library has every function that the bindings know.
    library = ctypes.CDLL("libnvrtc.so.13")
    functions = [name for name in dir(nvrtc) if name.startswith("nvrtc") and name[5].isupper()]
    functions = [name for name in functions if not isinstance(getattr(nvrtc, name), type)]
    missing = [name for name in functions if not hasattr(library, name)]
    assert len(functions) > 20 and not missing, (functions, missing)
    print(f"{len(functions)} functions of NVRTC: all are there")


main()
