// Integer kernels: each thread reads W words and writes M.
#define KERNEL(NAME, W, M)                                                                        \
    __device__ __forceinline__ void NAME##_of(const unsigned *v, unsigned *r);                   \
    extern "C" __global__ void NAME(const unsigned *in, unsigned *out, unsigned n) {              \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                       \
        if (i < n) NAME##_of(in + i * W, out + i * M);                                            \
    }                                                                                             \
    __device__ __forceinline__ void NAME##_of(const unsigned *v, unsigned *r)

typedef unsigned long long u64;

KERNEL(common_divisor, 2, 1) {
    unsigned a = v[0], b = v[1];
    while (b) {
        unsigned t = a % b;
        a = b;
        b = t;
    }
    r[0] = a;
}

KERNEL(murmur, 2, 1) {
    unsigned h = v[0];
    for (int k = 0; k < 4; k++) {
        unsigned c = (v[1] + k) * 0xcc9e2d51u;
        c = (c << 15 | c >> 17) * 0x1b873593u;
        h ^= c;
        h = (h << 13 | h >> 19) * 5 + 0xe6546b64u;
    }
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    r[0] = h ^ h >> 16;
}

KERNEL(xorshift, 2, 2) {
    u64 x = (u64)v[1] << 32 | v[0] | 1;
    for (int k = 0; k < 9; k++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    r[0] = (unsigned)x;
    r[1] = (unsigned)(x >> 32);
}

KERNEL(checksum, 1, 1) {
    unsigned crc = ~0u;
    for (int k = 0; k < 4; k++) {
        crc ^= v[0] >> (8 * k) & 255;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    r[0] = ~crc;
}

KERNEL(power_modulo, 3, 1) {
    u64 base = v[0], modulus = v[2] | 1, result = 1 % modulus;
    for (unsigned e = v[1]; e; e >>= 1) {
        if (e & 1) result = result * (base % modulus) % modulus;
        base = base % modulus * (base % modulus) % modulus;
    }
    r[0] = (unsigned)result;
}

KERNEL(collatz, 1, 1) {
    u64 x = v[0] % 10000 + 1;
    unsigned steps = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        steps++;
    }
    r[0] = steps;
}

KERNEL(square_root, 2, 1) {
    u64 x = (u64)v[1] << 32 | v[0], low = 0, high = 1ull << 32;
    while (high - low > 1) {
        u64 middle = (low + high) / 2;
        if (middle * middle <= x) low = middle; else high = middle;
    }
    r[0] = (unsigned)low;
}

KERNEL(signed_division, 4, 4) {
    long long a = (long long)((u64)v[1] << 32 | v[0]);
    long long b = (long long)((u64)(v[3] >> (v[2] & 31)) << 32 | v[2]) | 1;
    u64 quotient = b == -1 ? -(u64)a : (u64)(a / b), rest = b == -1 ? 0 : (u64)(a % b);
    r[0] = (unsigned)quotient;
    r[1] = (unsigned)(quotient >> 32);
    r[2] = (unsigned)rest;
    r[3] = (unsigned)(rest >> 32);
}

KERNEL(morton, 2, 2) {
    u64 code = 0;
    for (int bit = 0; bit < 32; bit++) {
        code |= (u64)(v[0] >> bit & 1) << (2 * bit) | (u64)(v[1] >> bit & 1) << (2 * bit + 1);
    }
    r[0] = (unsigned)code;
    r[1] = (unsigned)(code >> 32);
}

KERNEL(sorted, 8, 8) {
    unsigned a[8];
    for (int k = 0; k < 8; k++) a[k] = v[k];
    for (int k = 1; k < 8; k++) {
        unsigned x = a[k];
        int j = k;
        for (; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1];
        a[j] = x;
    }
    for (int k = 0; k < 8; k++) r[k] = a[k];
}

KERNEL(stream_cipher, 2, 1) {
    unsigned char s[64];
    for (int k = 0; k < 64; k++) s[k] = k;
    unsigned j = 0;
    for (int k = 0; k < 64; k++) {
        j = (j + s[k] + (v[k & 1] >> (k % 4 * 8) & 255)) & 63;
        unsigned char t = s[k];
        s[k] = s[j];
        s[j] = t;
    }
    unsigned out = 0;
    for (unsigned k = 1, m = 0; k < 9; k++) {
        m = (m + s[k]) & 63;
        unsigned char t = s[k];
        s[k] = s[m];
        s[m] = t;
        out = out << 4 ^ s[(s[k] + s[m]) & 63];
    }
    r[0] = out;
}

KERNEL(edit_distance, 4, 1) {
    const unsigned char *a = (const unsigned char *)v, *b = (const unsigned char *)(v + 2);
    unsigned char row[9];
    for (int k = 0; k < 9; k++) row[k] = k;
    for (int i = 0; i < 8; i++) {
        unsigned char corner = row[0];
        row[0] = i + 1;
        for (int j = 0; j < 8; j++) {
            unsigned char best = corner + ((a[i] & 3) != (b[j] & 3));
            if (row[j] + 1 < best) best = row[j] + 1;
            corner = row[j + 1];
            if (corner + 1 < best) best = corner + 1;
            row[j + 1] = best;
        }
    }
    r[0] = row[8];
}

KERNEL(bits_of_all_kinds, 2, 8) {
    u64 both = (u64)v[1] << 32 | v[0];
    r[0] = __popc(v[0]) + __popcll(both);
    r[1] = __clz(v[0]) | __clzll(both) << 8;
    r[2] = __brev(v[0]);
    r[3] = __ffs(v[0]) | __ffsll(both) << 8;
    r[4] = __byte_perm(v[0], v[1], v[0] >> 3);
    r[5] = __funnelshift_l(v[0], v[1], v[0]) ^ __funnelshift_rc(v[0], v[1], v[1]);
    r[6] = __mulhi((int)v[0], (int)v[1]) + __umulhi(v[0], v[1]);
    r[7] = __sad((int)v[0], (int)v[1], 7) + __usad(v[0], v[1], 9) + __mul24((int)v[0], (int)v[1]);
}

KERNEL(bytes_at_once, 3, 8) {
    r[0] = __vadd4(v[0], v[1]);
    r[1] = __vsub2(v[0], v[1]);
    r[2] = __vmaxs4(v[0], v[1]);
    r[3] = __vminu2(v[0], v[1]);
    r[4] = __vabsdiffu4(v[0], v[1]);
    r[5] = __vcmpgtu4(v[0], v[1]);
    r[6] = __vavgu4(v[0], v[1]);
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r[7]) : "r"(v[0]), "r"(v[1]), "r"(v[2]));
}

KERNEL(wide_products, 4, 4) {
    u64 a = (u64)v[1] << 32 | v[0], b = (u64)v[3] << 32 | v[2];
    u64 low = a * b, high = __umul64hi(a, b), mixed = (u64)__mul64hi((long long)a, (long long)b);
    r[0] = (unsigned)low ^ (unsigned)(low >> 32);
    r[1] = (unsigned)high;
    r[2] = (unsigned)(high >> 32);
    r[3] = (unsigned)mixed ^ (unsigned)(mixed >> 32);
}

KERNEL(stack_machine, 2, 1) {
    unsigned stack[8] = {v[1], 3, 5, 7, 11, 13, 17, 19};
    unsigned top = 1;
    for (unsigned program = v[0]; program; program >>= 3) {
        unsigned a = stack[top & 7], b = stack[(top + 1) & 7];
        switch (program & 7) {
        case 0: stack[++top & 7] = a + b; break;
        case 1: stack[--top & 7] = a - b; break;
        case 2: stack[top & 7] = a * b; break;
        case 3: stack[top & 7] = a ^ b >> 3; break;
        case 4: stack[++top & 7] = a; break;
        case 5: top -= a & 3; break;
        case 6: stack[top & 7] = a > b ? a : b; break;
        default: stack[(top + 3) & 7] += a; break;
        }
    }
    r[0] = stack[top & 7];
}

__device__ __noinline__ unsigned tree(unsigned depth, unsigned seed) {
    if (depth == 0) return seed * 2654435761u;
    return tree(depth - 1, seed * 3 + 1) ^ tree(depth - 1, seed + 77);
}

KERNEL(recursive_tree, 1, 1) { r[0] = tree(v[0] % 5, v[0]); }

typedef unsigned (*Step)(unsigned);
__device__ __noinline__ unsigned twice(unsigned a) { return a * 2; }
__device__ __noinline__ unsigned plus_7(unsigned a) { return a + 7; }
__device__ __noinline__ unsigned mixed(unsigned a) { return a ^ a >> 5; }
__device__ Step STEPS[3] = {twice, plus_7, mixed};

KERNEL(steps_by_pointer, 2, 1) {
    unsigned x = v[1];
    for (int k = 0; k < 6; k++) x = STEPS[(v[0] >> (2 * k)) % 3](x);
    r[0] = x;
}

KERNEL(decimal_digits, 1, 3) {
    unsigned char text[12] = {};
    unsigned x = v[0];
    int at = 11;
    do {
        text[--at] = '0' + x % 10;
        x /= 10;
    } while (x);
    for (int k = 0; k < 3; k++) {
        r[k] = text[4 * k] | text[4 * k + 1] << 8 | text[4 * k + 2] << 16 | (unsigned)text[4 * k + 3] << 24;
    }
}

__constant__ unsigned WEIGHTS[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};

KERNEL(weighted_nibbles, 1, 1) {
    unsigned sum = 0;
    for (int k = 0; k < 8; k++) sum += WEIGHTS[v[0] >> (4 * k) & 15] << k;
    r[0] = sum;
}

KERNEL(narrow_types, 2, 4) {
    signed char a = v[0];
    short b = v[0] >> 8;
    unsigned char c = v[1];
    unsigned short d = v[1] >> 16;
    r[0] = (unsigned)(a * b);
    r[1] = (unsigned)((a >> 2) + (b << 3) + (c >> 1));
    r[2] = (unsigned)(short)(b * d) + (unsigned char)(a + c);
    r[3] = (unsigned)(b / (short)(c + 1)) ^ (unsigned)(d % (c | 1)) ^ (unsigned)(a < (signed char)c);
}

// Blocks of 128 threads with one word each.
extern "C" __global__ void block_sums(const unsigned *in, unsigned *out, unsigned n) {
    __shared__ unsigned sums[128];
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    sums[threadIdx.x] = in[i];
    for (unsigned step = 1; step < 128; step *= 2) {
        __syncthreads();
        unsigned other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
    }
    out[i] = sums[threadIdx.x];
}

extern "C" __global__ void block_histogram(const unsigned *in, unsigned *out, unsigned n) {
    __shared__ unsigned counts[128];
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 4; k++) atomicAdd(&counts[in[i] >> (8 * k) & 127], k + 1);
    __syncthreads();
    out[i] = counts[threadIdx.x];
}

extern "C" __global__ void block_sort(const unsigned *in, unsigned *out, unsigned n) {
    __shared__ unsigned a[128];
    unsigned i = blockIdx.x * 128 + threadIdx.x, t = threadIdx.x;
    a[t] = in[i];
    for (unsigned size = 2; size <= 128; size *= 2) {
        for (unsigned step = size / 2; step; step /= 2) {
            __syncthreads();
            unsigned other = t ^ step;
            if (other > t && (a[t] > a[other]) == ((t & size) == 0)) {
                unsigned x = a[t];
                a[t] = a[other];
                a[other] = x;
            }
        }
    }
    __syncthreads();
    out[i] = a[t];
}

extern "C" __global__ void block_life(const unsigned *in, unsigned *out, unsigned n) {
    __shared__ unsigned char cells[2][8][16];
    unsigned i = blockIdx.x * 128 + threadIdx.x, x = threadIdx.x % 16, y = threadIdx.x / 16;
    cells[0][y][x] = in[i] & 1;
    for (int round = 0; round < 6; round++) {
        __syncthreads();
        unsigned count = 0;
        for (int dy = 7; dy < 10; dy++) {
            for (int dx = 15; dx < 18; dx++) count += cells[round & 1][(y + dy) % 8][(x + dx) % 16];
        }
        unsigned self = cells[round & 1][y][x];
        cells[1 - (round & 1)][y][x] = count == 3 || (self && count == 4);
    }
    __syncthreads();
    out[i] = cells[0][y][x];
}

extern "C" __global__ void warp_scan(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31, sum = in[i];
    for (unsigned step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    out[i] = sum;
}

extern "C" __global__ void warp_compact(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31;
    bool keeps = in[i] % 3 == 0;
    unsigned kept = __ballot_sync(~0u, keeps);
    unsigned place = keeps ? __popc(kept & ((1u << lane) - 1)) : 31 - __popc(~kept & ((1u << lane) - 1));
    __shared__ unsigned packed[128];
    packed[threadIdx.x - lane + place] = in[i];
    __syncwarp();
    out[i] = packed[threadIdx.x];
}

extern "C" __global__ void warp_votes(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x, x = in[i] % 5, group = __match_any_sync(~0u, x);
    unsigned all = __all_sync(~0u, x < 4), some = __any_sync(~0u, in[i] % 40 == 0);
    out[i] = group ^ (all << 31) ^ (some << 30) ^ __popc(group);
}

extern "C" __global__ void divergent_warps(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x, x = in[i], turns = 0;
    while (x % 7) {
        if (x & 1) {
            x = x / 3 + turns;
        } else if (x & 2) {
            x -= 5;
            if (x % 11 == 0) break;
        } else {
            x >>= 1;
        }
        if (++turns > 100) break;
    }
    __syncwarp();
    out[i] = x ^ turns << 24 ^ __shfl_xor_sync(~0u, x, 5);
}
