/* A stand-in for libcublas with the products of matrices that candle-core calls. The host computes
   them: it copies the operands from the device, sums in double precision, rounds once, and copies
   the result back. A call returns when that is done. Other functions are missing, so a program that
   needs one is not linked. */

#define COPY_FROM_DEVICE
#include "driver.h"

#include <string.h>

/* Status codes, operations, and types of cuBLAS. */
enum { SUCCESS = 0, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { NOT_TRANSPOSED = 0, TRANSPOSED = 1 };
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
enum { COMPUTE_16F = 64, COMPUTE_32F = 68, COMPUTE_64F = 70 };
enum { COMPUTE_32F_FAST_16BF = 75, COMPUTE_32F_FAST_TF32 = 77 };

typedef struct {
    void *stream;
} Handle;

typedef struct {
    Address address;
    int type, lead;
    long long stride;
    int rows, columns;
    unsigned char *copy;
} Matrix;

static size_t size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

static double value_at(const unsigned char *from, int type) {
    if (type == F64) return *(const double *)from;
    if (type == F32) return *(const float *)from;
    if (type == F16) return *(const _Float16 *)from;
    uint32_t bits = (uint32_t)*(const uint16_t *)from << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t bf16_of(double exact) {
    float value = (float)exact;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return 0x7fff;
    /* To the nearest; of two, to the even one. */
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void store(unsigned char *to, int type, double value) {
    if (type == F64) *(double *)to = value;
    else if (type == F32) *(float *)to = (float)value;
    else if (type == F16) *(_Float16 *)to = (_Float16)value;
    else *(uint16_t *)to = bf16_of(value);
}

/* The address of an element in the copy. Matrices are stored by columns. */
static unsigned char *element(const Matrix *m, int batch, int row, int column) {
    long long index = batch * m->stride + (long long)column * m->lead + row;
    return m->copy + index * (long long)size_of(m->type);
}

static size_t bytes_of(const Matrix *m, int batches) {
    if (m->rows == 0 || m->columns == 0) return 0;
    long long last = (batches - 1) * m->stride + (m->columns - 1LL) * m->lead + m->rows;
    return (size_t)last * size_of(m->type);
}

static int refuse(const char *what, long long value) {
    fprintf(stderr, "stand-in for cuBLAS: %s is %lld, which is not supported\n", what, value);
    return NOT_SUPPORTED;
}

static int product(Handle *handle, int transpose_a, int transpose_b, int k, double alpha, Matrix a,
                   Matrix b, double beta, Matrix c, int batches) {
    int m = c.rows, n = c.columns;
    if (!handle || m < 0 || n < 0 || k < 0 || batches < 0) return INVALID_VALUE;
    if (transpose_a > TRANSPOSED) return refuse("the operation on A", transpose_a);
    if (transpose_b > TRANSPOSED) return refuse("the operation on B", transpose_b);
    if (a.stride < 0 || b.stride < 0 || c.stride < 0) return refuse("the sign of a stride", -1);
    if (m == 0 || n == 0 || batches == 0) return SUCCESS;
    a.rows = transpose_a ? k : m, a.columns = transpose_a ? m : k;
    b.rows = transpose_b ? n : k, b.columns = transpose_b ? k : n;
    if (a.lead < a.rows || b.lead < b.rows || c.lead < m) return INVALID_VALUE;
    if (wait_for(handle->stream) != 0) return EXECUTION_FAILED;
    size_t written = bytes_of(&c, batches);
    a.copy = copy_from(a.address, bytes_of(&a, batches));
    b.copy = copy_from(b.address, bytes_of(&b, batches));
    c.copy = copy_from(c.address, written);
    int status = a.copy && b.copy && c.copy ? SUCCESS : EXECUTION_FAILED;
    for (int batch = 0; status == SUCCESS && batch < batches; batch++)
        for (int column = 0; column < n; column++)
            for (int row = 0; row < m; row++) {
                double sum = 0;
                for (int i = 0; i < k; i++) {
                    const unsigned char *x =
                        transpose_a ? element(&a, batch, i, row) : element(&a, batch, row, i);
                    const unsigned char *y =
                        transpose_b ? element(&b, batch, column, i) : element(&b, batch, i, column);
                    sum += value_at(x, a.type) * value_at(y, b.type);
                }
                unsigned char *out = element(&c, batch, row, column);
                /* Without a factor, the old value may be anything. */
                double old = beta == 0 ? 0 : beta * value_at(out, c.type);
                store(out, c.type, alpha * sum + old);
            }
    if (status == SUCCESS && copy_to(c.address, c.copy, written) != 0) status = EXECUTION_FAILED;
    free(a.copy);
    free(b.copy);
    free(c.copy);
    return status;
}

int cublasCreate_v2(Handle **handle) {
    *handle = calloc(1, sizeof(Handle));
    return *handle ? SUCCESS : ALLOC_FAILED;
}

int cublasDestroy_v2(Handle *handle) {
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(Handle *handle, void *stream) {
    handle->stream = stream;
    return SUCCESS;
}

static int is_type(int type) { return type == F32 || type == F64 || type == F16 || type == BF16; }

int cublasGemmStridedBatchedEx(Handle *handle, int transpose_a, int transpose_b, int m, int n, int k,
                               const void *alpha, Address a, int a_type, int lda, long long stride_a,
                               Address b, int b_type, int ldb, long long stride_b, const void *beta,
                               Address c, int c_type, int ldc, long long stride_c, int batches,
                               int compute, int algorithm) {
    (void)algorithm;
    if (!is_type(a_type)) return refuse("the type of A", a_type);
    if (!is_type(b_type)) return refuse("the type of B", b_type);
    if (!is_type(c_type)) return refuse("the type of C", c_type);
    int factor;
    switch (compute) {
    case COMPUTE_16F: factor = F16; break;
    case COMPUTE_64F: factor = F64; break;
    case COMPUTE_32F:
    case COMPUTE_32F_FAST_16BF:
    case COMPUTE_32F_FAST_TF32: factor = F32; break;
    default: return refuse("the compute type", compute);
    }
    Matrix first = {a, a_type, lda, stride_a, 0, 0, NULL};
    Matrix second = {b, b_type, ldb, stride_b, 0, 0, NULL};
    Matrix out = {c, c_type, ldc, stride_c, m, n, NULL};
    return product(handle, transpose_a, transpose_b, k, value_at(alpha, factor), first, second,
                   value_at(beta, factor), out, batches);
}

int cublasDgemmStridedBatched(Handle *handle, int transpose_a, int transpose_b, int m, int n, int k,
                              const double *alpha, Address a, int lda, long long stride_a, Address b,
                              int ldb, long long stride_b, const double *beta, Address c, int ldc,
                              long long stride_c, int batches) {
    return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, F64, lda,
                                      stride_a, b, F64, ldb, stride_b, beta, c, F64, ldc, stride_c,
                                      batches, COMPUTE_64F, 0);
}

int cublasSgemmStridedBatched(Handle *handle, int transpose_a, int transpose_b, int m, int n, int k,
                              const float *alpha, Address a, int lda, long long stride_a, Address b,
                              int ldb, long long stride_b, const float *beta, Address c, int ldc,
                              long long stride_c, int batches) {
    return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, F32, lda,
                                      stride_a, b, F32, ldb, stride_b, beta, c, F32, ldc, stride_c,
                                      batches, COMPUTE_32F, 0);
}
