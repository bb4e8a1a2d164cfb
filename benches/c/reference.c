// The computations of the kernels in `benches/compared_with_c.cu`, in plain C.

#include <math.h>
#include <stddef.h>

#define JOIN_(name, suffix) name##_##suffix
#define JOIN(name, suffix) JOIN_(name, suffix)
#define NAME(name) JOIN(name, SUFFIX)

void NAME(vector_add)(const float *a, const float *b, float *c, size_t n) {
    for (size_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}

#define TILE 16

// `n` is a multiple of `TILE`. The threads of a block are the loops over `y` and `x`.
void NAME(matmul)(const float *a, const float *b, float *c, size_t n) {
    float left[TILE][TILE], right[TILE][TILE], sum[TILE][TILE];
    for (size_t row = 0; row < n; row += TILE) {
        for (size_t column = 0; column < n; column += TILE) {
            for (size_t y = 0; y < TILE; y++)
                for (size_t x = 0; x < TILE; x++) sum[y][x] = 0;
            for (size_t first = 0; first < n; first += TILE) {
                for (size_t y = 0; y < TILE; y++) {
                    for (size_t x = 0; x < TILE; x++) {
                        left[y][x] = a[(row + y) * n + first + x];
                        right[y][x] = b[(first + y) * n + column + x];
                    }
                }
                for (size_t y = 0; y < TILE; y++)
                    for (size_t x = 0; x < TILE; x++)
                        for (size_t k = 0; k < TILE; k++) sum[y][x] += left[y][k] * right[k][x];
            }
            for (size_t y = 0; y < TILE; y++)
                for (size_t x = 0; x < TILE; x++) c[(row + y) * n + column + x] = sum[y][x];
        }
    }
}

void NAME(n_body)(const float *bodies, float *forces, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float *me = bodies + 4 * i;
        float ax = 0, ay = 0, az = 0;
        for (size_t k = 0; k < n; k++) {
            const float *other = bodies + 4 * k;
            float dx = other[0] - me[0], dy = other[1] - me[1], dz = other[2] - me[2];
            float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float strength = other[3] * inverse * inverse * inverse;
            ax += dx * strength;
            ay += dy * strength;
            az += dz * strength;
        }
        forces[4 * i] = ax;
        forces[4 * i + 1] = ay;
        forces[4 * i + 2] = az;
        forces[4 * i + 3] = me[3];
    }
}
