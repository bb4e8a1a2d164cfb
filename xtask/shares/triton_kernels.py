"""Compiles kernels of Triton to PTX without a GPU: `triton_kernels.py FOLDER ARCHITECTURE`.

Each entry of `KERNELS` has a kernel, the types of its parameters, the values of its constants, and
the launch that is assumed. Numbers are those of the launch; they are multiples of 16 where Triton
would find that out. Triton appends pointers for scratch memory, which are null here.
"""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=mask) / (1 - p), 0.0), mask=mask)


@triton.jit
def silu_mul(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    g = tl.load(gate + at, mask=mask).to(tl.float32)
    u = tl.load(up + at, mask=mask).to(tl.float32)
    tl.store(out + at, (g * tl.sigmoid(g) * u).to(tl.float16), mask=mask)


@triton.jit
def softmax(out, x, stride_x, stride_out, rows, columns, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        mask = at < columns
        value = tl.load(x + row * stride_x + at, mask=mask, other=-float("inf"))
        value = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * stride_out + at, value / tl.sum(value, axis=0), mask=mask)


@triton.jit
def layer_norm(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    middle = tl.sum(total, axis=0) / n
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
        value = tl.where(at < n, value - middle, 0.0)
        square += value * value
    inverse = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, inverse)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < n
        value = tl.load(x + row * stride + at, mask=mask, other=0.0).to(tl.float32)
        scale, shift = tl.load(w + at, mask=mask), tl.load(b + at, mask=mask)
        tl.store(y + row * stride + at, (value - middle) * inverse * scale + shift, mask=mask)


@triton.jit
def rms_norm(x, w, out, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    value = value / tl.sqrt(tl.sum(value * value, axis=0) / n + eps)
    tl.store(out + row * stride + at, value * tl.load(w + at, mask=mask), mask=mask)


@triton.jit
def rope(q, cosine, sine, stride_token, stride_head, heads, HALF: tl.constexpr):
    token, head = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, HALF)
    c, s = tl.load(cosine + token * HALF + at), tl.load(sine + token * HALF + at)
    base = q + token * stride_token + head * stride_head
    low, high = tl.load(base + at), tl.load(base + HALF + at)
    tl.store(base + at, low * c - high * s)
    tl.store(base + HALF + at, high * c + low * s)


@triton.jit
def cross_entropy(loss, logits, labels, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    most, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(logits + row * stride + at, mask=at < n, other=-float("inf"))
        larger = tl.maximum(most, tl.max(value, axis=0))
        total = total * tl.exp(most - larger) + tl.sum(tl.exp(value - larger), axis=0)
        most = larger
    inside = (label >= 0) & (label < n)
    chosen = tl.load(logits + row * stride + label, mask=inside, other=0.0)
    tl.store(loss + row, tl.log(total) + most - chosen)


@triton.jit
def embedding(table, ids, out, rows, width, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    row = tl.load(ids + token)
    at = tl.arange(0, BLOCK)
    mask = (at < width) & (row >= 0) & (row < rows)
    value = tl.load(table + row.to(tl.int64) * width + at, mask=mask, other=0.0)
    tl.store(out + token * width + at, value, mask=at < width)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask, other=0) & (BINS - 1)
    tl.atomic_add(bins + value, 1, mask=mask)


@triton.jit
def scan(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, tl.cumsum(value, axis=0), mask=at < n)


@triton.jit
def transpose(x, out, rows, columns, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    j = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    tile = tl.load(x + i[:, None] * columns + j[None, :], mask=mask)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile), mask=tl.trans(mask))


@triton.jit
def matvec(a, x, y, m, n, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (row[:, None] < m) & (at[None, :] < n)
        tile = tl.load(a + row[:, None] * stride + at[None, :], mask=mask, other=0.0)
        total += tl.sum(tile * tl.load(x + at, mask=at < n, other=0.0)[None, :], axis=1)
    tl.store(y + row, total, mask=row < m)


@triton.jit
def quantize(x, out, scales, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    scale = tl.max(tl.abs(value), axis=0) / 127.0
    tl.store(out + at, (value / scale).to(tl.int8), mask=at < n)
    tl.store(scales + block, scale)


@triton.jit
def matmul(
    a, b, c, m, n, k, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    in_group = GROUP * tiles_n
    first = number // in_group * GROUP
    rows = min(tiles_m - first, GROUP)
    tile_m, tile_n = first + number % in_group % rows, number % in_group // rows
    at_m = (tile_m * BM + tl.arange(0, BM)) % m
    at_n = (tile_n * BN + tl.arange(0, BN)) % n
    at_k = tl.arange(0, BK)
    from_a = a + at_m[:, None] * stride_am + at_k[None, :]
    from_b = b + at_k[:, None] * stride_bk + at_n[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        left = k - step * BK
        tile_a = tl.load(from_a, mask=at_k[None, :] < left, other=0.0)
        tile_b = tl.load(from_b, mask=at_k[:, None] < left, other=0.0)
        total = tl.dot(tile_a, tile_b, total)
        from_a += BK
        from_b += BK * stride_bk
    to_m, to_n = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    mask = (to_m[:, None] < m) & (to_n[None, :] < n)
    tl.store(c + to_m[:, None] * stride_cm + to_n[None, :], total.to(tl.float16), mask=mask)


@triton.jit
def attention(
    q, k, v, out, scale, stride_head, length,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * BM + tl.arange(0, BM)
    at = tl.arange(0, D)
    base = head.to(tl.int64) * stride_head
    tile_q = tl.load(q + base + rows[:, None] * D + at[None, :], mask=rows[:, None] < length)
    most = tl.full([BM], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BM], dtype=tl.float32)
    result = tl.zeros([BM, D], dtype=tl.float32)
    for start in range(0, length, BN):
        columns = start + tl.arange(0, BN)
        mask = columns[:, None] < length
        tile_k = tl.load(k + base + columns[:, None] * D + at[None, :], mask=mask, other=0.0)
        score = tl.dot(tile_q, tl.trans(tile_k)) * scale
        score = tl.where(columns[None, :] < length, score, -float("inf"))
        larger = tl.maximum(most, tl.max(score, axis=1))
        weight = tl.exp(score - larger[:, None])
        factor = tl.exp(most - larger)
        total = total * factor + tl.sum(weight, axis=1)
        tile_v = tl.load(v + base + columns[:, None] * D + at[None, :], mask=mask, other=0.0)
        result = result * factor[:, None] + tl.dot(weight.to(tl.float16), tile_v)
        most = larger
    to = out + base + rows[:, None] * D + at[None, :]
    tl.store(to, (result / total[:, None]).to(tl.float16), mask=rows[:, None] < length)


# The kernel, the types of its parameters, its constants, the grid, and the numbers of the launch.
# A number that is passed as a float is not listed.
KERNELS = [
    (add, "*fp32 *fp32 *fp32 i32", [1024], "98", [100_000]),
    (dropout, "*fp32 *fp32 i32 fp32 i32", [1024], "98", [100_000, 7]),
    (silu_mul, "*fp16 *fp16 *fp16 i32", [1024], "98", [100_000]),
    (softmax, "*fp32 *fp32 i32 i32 i32 i32", [1024], "264", [1000, 1000, 4096, 1000]),
    (layer_norm, "*fp16 *fp16 *fp32 *fp32 *fp32 *fp32 i32 i32 fp32", [1024], "512", [4000, 4000]),
    (rms_norm, "*fp32 *fp32 *fp32 i32 i32 fp32", [4096], "512", [4000, 4000]),
    (rope, "*fp32 *fp32 *fp32 i32 i32 i32", [64], "512,32", [4096, 128, 32]),
    (cross_entropy, "*fp32 *fp32 *i32 i32 i32", [1024], "512", [50_304, 50_257]),
    (embedding, "*fp32 *i32 *fp32 i32 i32", [1024], "512", [50_257, 1000]),
    (histogram, "*i32 *i32 i32", [1024, 256], "98", [100_000]),
    (scan, "*fp32 *fp32 i32", [1024], "98", [100_000]),
    (transpose, "*fp32 *fp32 i32 i32", [32], "32,63", [1000, 2000]),
    (matvec, "*fp32 *fp32 *fp32 i32 i32 i32", [16, 256], "63", [1000, 1000, 1008]),
    (quantize, "*fp32 *i8 *fp32 i32", [256], "391", [100_000]),
    (matmul, "*fp16 *fp16 *fp16 i32 i32 i32 i32 i32 i32", [128, 128, 32, 8], "64",
     [1000, 1000, 512, 512, 1008, 1008]),
    (attention, "*fp16 *fp16 *fp16 *fp16 fp32 i32 i32", [64, 64, 64], "16,8", [64_000, 1000]),
]  # fmt: skip


def main():
    to, target = Path(sys.argv[1]), GPUTarget("cuda", int(sys.argv[2]), 32)
    to.mkdir(parents=True, exist_ok=True)
    lines = []
    for kernel, types, constants, grid, numbers in KERNELS:
        types = types.split()
        names = kernel.arg_names
        signature = dict(zip(names, types + ["constexpr"] * len(constants)))
        places = range(len(types), len(names))
        values = {(place,): value for place, value in zip(places, constants)}
        rest = iter(numbers)
        attributes = {}
        for place, kind in enumerate(types):
            if kind.startswith("*") or (kind == "i32" and next(rest) % 16 == 0):
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(kernel, signature, values, attributes)
        compiled = triton.compile(source, target=target)
        (to / f"{kernel.__name__}.ptx").write_text(compiled.asm["ptx"])
        pointers = sum(kind.startswith("*") for kind in types)
        threads = compiled.metadata.num_warps * 32
        shared = compiled.metadata.shared
        listed = ",".join(map(str, numbers))
        lines.append(
            f"{kernel.__name__} grid={grid} block={threads} shared={shared} numbers={listed} "
            f"null={pointers},{pointers + 1}\n"
        )
    (to / "launches.txt").write_text("".join(lines))


main()
