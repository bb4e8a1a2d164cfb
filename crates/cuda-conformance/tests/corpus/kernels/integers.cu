extern "C" __global__ void int32(const uint2 *in, unsigned (*out)[32], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i].x, b = in[i].y;
    int s = (int)a, t = (int)b;
    unsigned *o = out[i];
    o[0] = a / b;
    o[1] = a % b;
    o[2] = s / t;
    o[3] = s % t;
    o[4] = __umulhi(a, b);
    o[5] = __mulhi(s, t);
    o[6] = __clz(s);
    o[7] = __popc(a);
    o[8] = __brev(a);
    o[9] = __ffs(s);
    o[10] = __funnelshift_l(a, b, a >> 7);
    o[11] = __funnelshift_r(a, b, a >> 7);
    o[12] = __funnelshift_lc(a, b, (a >> 7) & 63);
    o[13] = __funnelshift_rc(a, b, (a >> 7) & 63);
    o[14] = s >> (b & 31);
    o[15] = a << (b & 31);
    o[16] = min(s, t);
    o[17] = max(a, b);
    o[18] = __sad(s, t, 77u);
    o[19] = __usad(a, b, 77u);
    o[20] = __byte_perm(a, b, (a ^ b) & 0x7777);
    o[21] = __umul24(a, b);
    o[22] = __mul24(s, t);
    o[23] = __hadd(s, t);
    o[24] = __urhadd(a, b);
    o[25] = a / 7 + b % 1000;
    o[26] = s / 16 + t % 10;
    o[27] = (a >> (b & 31)) | (a << (-b & 31));
    o[28] = a * b + 12345;
    o[29] = abs(s) ^ ~b;
    o[30] = (unsigned)(((unsigned long long)a * b) >> 13);
    o[31] = (s < t) + 2 * (a < b) + 4 * (s == t) + 8 * ((short)a >= (short)b) + 16 * ((unsigned char)a > (unsigned char)b);
}

extern "C" __global__ void int64(const ulonglong2 *in, unsigned long long (*out)[20], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long a = in[i].x, b = in[i].y;
    long long s = (long long)a, t = (long long)b;
    unsigned long long *o = out[i];
    o[0] = a + b;
    o[1] = a - b;
    o[2] = a * b;
    o[3] = a / b;
    o[4] = a % b;
    o[5] = s / t;
    o[6] = s % t;
    o[7] = __umul64hi(a, b);
    o[8] = __mul64hi(s, t);
    o[9] = __clzll(s);
    o[10] = __popcll(a);
    o[11] = __brevll(a);
    o[12] = __ffsll(s);
    o[13] = a << (b & 63);
    o[14] = s >> (b & 63);
    o[15] = min(s, t);
    o[16] = max(a, b);
    o[17] = a / 1000003 + b % 10;
    o[18] = (s < t) + 2 * (a < b) + 4 * (s == t);
    o[19] = (a & b) ^ (a | ~b);
}

struct Operands { unsigned long long x, y, z, w; };

// 128-bit integers, as low and high halves.
extern "C" __global__ void int128(const Operands *in, unsigned long long (*out)[18], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned __int128 a = (unsigned __int128)in[i].y << 64 | in[i].x;
    unsigned __int128 b = (unsigned __int128)in[i].w << 64 | in[i].z;
    __int128 s = (__int128)a >> 3, t = -(__int128)(b | 1);
    unsigned __int128 results[9] = {a + b, a - b, a * b, a >> (b & 127), a << (b & 127), a / (b | 1), a % (b | 1),
                                    (unsigned __int128)(s / t), (unsigned __int128)(s % t)};
    for (int k = 0; k < 9; k++) {
        out[i][2 * k] = (unsigned long long)results[k];
        out[i][2 * k + 1] = (unsigned long long)(results[k] >> 64);
    }
}

// Operations on the four bytes of a word at a time.
extern "C" __global__ void packed(const uint2 *in, unsigned (*out)[16], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i].x, b = in[i].y;
    unsigned *o = out[i];
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(o[0]) : "r"(a), "r"(b), "r"(1000));
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(o[1]) : "r"(a), "r"(b), "r"(1000));
    asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(o[2]) : "r"(a), "r"(b), "r"(-5));
    asm("dp2a.hi.u32.u32 %0, %1, %2, %3;" : "=r"(o[3]) : "r"(a), "r"(b), "r"(5));
    o[4] = __vadd4(a, b);
    o[5] = __vsub4(a, b);
    o[6] = __vmaxs4(a, b);
    o[7] = __vminu4(a, b);
    o[8] = __vabsdiffu4(a, b);
    o[9] = __vcmpgtu4(a, b);
    o[10] = __vaddus4(a, b);
    o[11] = __vavgu4(a, b);
    o[12] = __vsads4(a, b);
    o[13] = __vneg4(a);
    o[14] = __vseteq4(a, b ^ (b & 0xff00ff00) ^ (a & 0xff00ff00));
    o[15] = __vsubus4(a, b);
}

// Instructions without a C++ operator. NVRTC 12.0 rejects `=&r`, so early results use a register of
// their own.
extern "C" __global__ void inline_ptx(const uint2 *in, unsigned (*out)[16], unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i].x, b = in[i].y, c = a ^ (b << 3), lo, hi;
    unsigned *o = out[i];
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(o[0]) : "r"(a), "r"(b));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(o[1]) : "r"(a), "r"(b), "r"(c));
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(o[2]) : "r"(a), "r"(b), "r"(c));
    asm("lop3.b32 %0, %1, %2, %3, 0x1b;" : "=r"(o[3]) : "r"(a), "r"(b), "r"(c));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(o[4]) : "r"(a), "r"(b & 31), "r"(c & 15));
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(o[5]) : "r"(a), "r"(b & 31), "r"(c & 15));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(o[6]) : "r"(a), "r"(b), "r"(b & 31), "r"(c & 15));
    asm("{ .reg .u32 l; add.cc.u32 l, %2, %3; addc.u32 %1, %4, %5; mov.u32 %0, l; }"
        : "=r"(lo), "=r"(hi) : "r"(a), "r"(b), "r"(b), "r"(c));
    o[7] = lo;
    o[8] = hi;
    asm("{ .reg .u32 l; sub.cc.u32 l, %2, %3; subc.u32 %1, %4, %5; mov.u32 %0, l; }"
        : "=r"(lo), "=r"(hi) : "r"(a), "r"(b), "r"(b), "r"(c));
    o[9] = lo;
    o[10] = hi;
    asm("{ .reg .u32 l; mad.lo.cc.u32 l, %2, %3, %4; madc.hi.u32 %1, %2, %3, %5; mov.u32 %0, l; }"
        : "=r"(lo), "=r"(hi) : "r"(a), "r"(b), "r"(c), "r"(a));
    o[11] = lo;
    o[12] = hi;
    asm("{ .reg .pred p, q, r; .reg .u32 s; setp.eq.u32 r, %1, %1; setp.lt.and.s32 p|q, %1, %2, r; selp.u32 s, 5, 9, p;"
        "  @q add.u32 s, s, 100; mov.u32 %0, s; }"
        : "=r"(o[13]) : "r"(a), "r"(b));
    asm("bfind.u32 %0, %1;" : "=r"(o[14]) : "r"(a >> (b & 31)));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }" : "=r"(o[15]) : "r"(a));
}
