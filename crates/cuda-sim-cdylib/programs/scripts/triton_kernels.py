"""Compiles kernels with Triton ahead of time, and runs their PTX on the software device.

The argument is the compute capability, such as 90. Results are compared with those of NumPy.
"""

import ctypes
import os
import sys

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CC = int(sys.argv[1])
DEVICE = f"cc={CC // 10}.{CC % 10}"
RANDOM = np.random.default_rng(1)


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, at < n) + tl.load(b + at, at < n), at < n)


@triton.jit
def softmax(a, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(a + row * n + at, at < n, -float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * n + at, powers / tl.sum(powers, 0), at < n)


@triton.jit
def layer_norm(a, weight, bias, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(a + row * n + at, at < n, 0.0)
    mean = tl.sum(values, 0) / n
    centred = tl.where(at < n, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    scaled = centred * scale * tl.load(weight + at, at < n) + tl.load(bias + at, at < n)
    tl.store(out + row * n + at, scaled, at < n)


@triton.jit
def total(a, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(a + at, at < n, 0), 0))


@triton.jit
def histogram(a, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(a + at, at < n, 0), 1, at < n)


@triton.jit
def running_sum(a, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    tl.store(out + row + at, tl.cumsum(tl.load(a + row + at, at < n, 0), 0), at < n)


@triton.jit
def sort(a, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(a + at)))


@triton.jit
def gather(a, places, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + tl.load(places + at, at < n, 0), at < n), at < n)


@triton.jit
def transpose(a, out, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(a + rows[:, None] * n + columns[None, :])
    tl.store(out + columns[:, None] * n + rows[None, :], tl.trans(tile))


@triton.jit
def matmul(a, b, out, n, BLOCK: tl.constexpr, STEP: tl.constexpr, TF32: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, STEP)
    sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, n, STEP):
        left = tl.load(a + rows[:, None] * n + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        sums = tl.dot(left, right, sums, input_precision=TF32)
    tl.store(out + rows[:, None] * n + columns[None, :], sums)


@triton.jit
def attention(q, k, v, out, n, scale, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = tl.arange(0, WIDTH)
    queries = tl.load(q + rows[:, None] * WIDTH + width[None, :])
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    weights = tl.zeros((BLOCK,), tl.float32)
    sums = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, n, BLOCK):
        others = start + tl.arange(0, BLOCK)
        keys = tl.load(k + others[None, :] * WIDTH + width[:, None])
        scores = tl.dot(queries, keys) * scale
        new = tl.maximum(largest, tl.max(scores, 1))
        powers = tl.exp(scores - new[:, None])
        shrink = tl.exp(largest - new)
        weights = weights * shrink + tl.sum(powers, 1)
        values = tl.load(v + others[:, None] * WIDTH + width[None, :])
        sums = tl.dot(powers.to(tl.float16), values, sums * shrink[:, None])
        largest = new
    tl.store(out + rows[:, None] * WIDTH + width[None, :], sums / weights[:, None])


def call(name, *arguments):
    status = getattr(DRIVER, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: status {status}")


TYPES = {"float32": "fp32", "float16": "fp16", "int32": "i32"}


def run(kernel, inputs, out, numbers, constants, grid, warps=4, stages=2):
    """Compiles a kernel, runs it, and returns its output. `numbers` are its other arguments."""
    arrays = [*inputs, out]
    names = kernel.arg_names
    types = [f"*{TYPES[array.dtype.name]}" for array in arrays]
    types += ["fp32" if isinstance(number, float) else "i32" for number in numbers]
    signature = dict(zip(names, types)) | {name: "constexpr" for name in constants}
    source = ASTSource(kernel, signature, constexprs=constants)
    options = {"num_warps": warps, "num_stages": stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", CC, 32), options=options)
    ptx, metadata = compiled.asm["ptx"], compiled.metadata
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx.encode()))
    call("cuModuleGetFunction", ctypes.byref(function), module, metadata.name.encode())
    # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call("cuFuncSetAttribute", function, 8, metadata.shared)
    arguments = []
    for array in arrays:
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(array.nbytes))
        data, size = array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes)
        call("cuMemcpyHtoD_v2", address, data, size)
        arguments.append(address)
    for number in numbers:
        is_float = isinstance(number, float)
        arguments.append(ctypes.c_float(number) if is_float else ctypes.c_int32(number))
    # Pointers to scratch memory, which these kernels do not use.
    arguments += [ctypes.c_uint64(), ctypes.c_uint64()]
    places = [ctypes.cast(ctypes.byref(it), ctypes.c_void_p) for it in arguments]
    shape = [*grid, *[1] * (3 - len(grid)), 32 * warps, 1, 1, metadata.shared]
    call("cuLaunchKernel", function, *shape, None, (ctypes.c_void_p * len(places))(*places), None)
    call("cuCtxSynchronize")
    result = np.empty_like(out)
    address, size = arguments[len(inputs)], ctypes.c_size_t(out.nbytes)
    call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), address, size)
    instructions = [name for name in ["wgmma", "mma.sync", "cp.async"] if name in ptx]
    print(f"sm_{CC}: {kernel.__name__} {types[0]}: {', '.join(instructions) or 'no matrices'}")
    return result


def floats(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def vectors():
    n, block = 1000, {"BLOCK": 256}
    a, b, out = floats(n), floats(n), np.zeros(n, np.float32)
    np.testing.assert_array_equal(run(add, [a, b], out, [n], block, [4]), a + b)
    places = RANDOM.integers(0, n, n).astype(np.int32)
    np.testing.assert_array_equal(run(gather, [a, places], out, [n], block, [4]), a[places])
    numbers = RANDOM.integers(0, 100, n).astype(np.int32)
    found = run(total, [numbers], np.zeros(1, np.int32), [n], block, [4])
    assert found[0] == numbers.sum()
    found = run(histogram, [numbers], np.zeros(100, np.int32), [n], block, [4])
    np.testing.assert_array_equal(found, np.bincount(numbers, minlength=100))
    rows = RANDOM.integers(0, 100, (3, 256)).astype(np.int32)
    found = run(sort, [rows], np.zeros_like(rows), [], block, [3])
    np.testing.assert_array_equal(found, np.sort(rows))
    rows = RANDOM.integers(0, 100, (3, 200)).astype(np.int32)
    found = run(running_sum, [rows], np.zeros_like(rows), [200], block, [3])
    np.testing.assert_array_equal(found, np.cumsum(rows, 1))


def rows():
    a, n, block = floats(4, 200), 200, {"BLOCK": 256}
    out = np.zeros_like(a)
    powers = np.exp(a - a.max(1, keepdims=True))
    close(run(softmax, [a], out, [n], block, [4]), powers / powers.sum(1, keepdims=True), 1e-5)
    weight, bias = floats(n), floats(n)
    expected = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    found = run(layer_norm, [a, weight, bias], out, [n], block, [4])
    close(found, expected * weight + bias, 1e-4)


def matrices():
    n, out = 128, np.zeros((128, 128), np.float32)
    a, b = floats(n, n), floats(n, n)
    found = run(transpose, [a], out, [n], {"BLOCK": 32}, [4, 4])
    np.testing.assert_array_equal(found, a.T)
    # The second one is large enough for `wgmma`.
    for dtype, precision, tolerance in [(np.float16, "tf32", 1e-2), (np.float32, "tf32", 5e-2)]:
        left, right = a.astype(dtype), b.astype(dtype)
        expected = left.astype(np.float64) @ right.astype(np.float64)
        for block, warps in [(32, 4), (64, 4), (128, 8)]:
            constants = {"BLOCK": block, "STEP": 32, "TF32": precision}
            grid = [n // block, n // block]
            found = run(matmul, [left, right], out, [n], constants, grid, warps, 3)
            close(found, expected, tolerance)
    constants = {"BLOCK": 32, "STEP": 32, "TF32": "ieee"}
    close(run(matmul, [a, b], out, [n], constants, [4, 4]), a @ b, 1e-4)
    q, k, v = (floats(n, 64, dtype=np.float16) for _ in range(3))
    scores = q.astype(np.float32) @ k.astype(np.float32).T / 8
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True) @ v.astype(np.float32)
    for block in [64, 128]:
        constants = {"BLOCK": block, "WIDTH": 64}
        out = np.zeros((n, 64), np.float32)
        found = run(attention, [q, k, v], out, [n, 1 / 8], constants, [n // block])
        close(found, expected, 5e-3)


def main():
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, 0)
    vectors()
    rows()
    matrices()


if __name__ == "__main__":
    # The driver reads the setting when it is loaded.
    os.environ["CUDA_SIM"] = ",".join(filter(None, [os.environ.get("CUDA_SIM"), DEVICE]))
    DRIVER = ctypes.CDLL("libcuda.so.1")
    main()
