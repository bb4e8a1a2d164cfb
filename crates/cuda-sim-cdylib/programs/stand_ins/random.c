/* A stand-in for libcurand with uniform and normal numbers. The host computes them and copies them
   to the device. They have the distribution of cuRAND's numbers, and are not the same ones. Other
   functions are missing, so a program that needs one is not linked. */

#include "driver.h"

#include <math.h>

/* Status codes of cuRAND. */
enum { SUCCESS = 0, ALLOCATION_FAILED = 102, LENGTH_NOT_MULTIPLE = 105, LAUNCH_FAILURE = 201 };

typedef struct {
    void *stream;
    uint64_t seed, taken;
} Generator;

/* The next number of the sequence splitmix64. */
static uint64_t next(Generator *generator) {
    uint64_t x = generator->seed + ++generator->taken * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* A number above 0, up to 1, with the precision of a double. */
static double uniform(Generator *generator) {
    return (double)((next(generator) >> 11) + 1) * 0x1p-53;
}

static double normal(Generator *generator) {
    double radius = sqrt(-2 * log(uniform(generator)));
    return radius * cos(6.283185307179586 * uniform(generator));
}

int curandCreateGenerator(Generator **generator, int type) {
    (void)type;
    *generator = calloc(1, sizeof(Generator));
    return *generator ? SUCCESS : ALLOCATION_FAILED;
}

int curandDestroyGenerator(Generator *generator) {
    free(generator);
    return SUCCESS;
}

int curandSetStream(Generator *generator, void *stream) {
    generator->stream = stream;
    return SUCCESS;
}

int curandSetPseudoRandomGeneratorSeed(Generator *generator, unsigned long long seed) {
    generator->seed = seed;
    generator->taken = 0;
    return SUCCESS;
}

int curandSetGeneratorOffset(Generator *generator, unsigned long long offset) {
    generator->taken = offset;
    return SUCCESS;
}

#define FILL(type, expression)                                                           \
    if (wait_for(generator->stream) != 0) return LAUNCH_FAILURE;                         \
    type *numbers = malloc(count * sizeof(type) + 1);                                    \
    if (!numbers) return ALLOCATION_FAILED;                                              \
    for (size_t i = 0; i < count; i++) numbers[i] = (type)(expression);                  \
    int status = copy_to(out, numbers, count * sizeof(type)) ? LAUNCH_FAILURE : SUCCESS; \
    free(numbers);                                                                       \
    return status;

int curandGenerateUniform(Generator *generator, Address out, size_t count) {
    /* A float has 24 bits. */
    FILL(float, (double)((next(generator) >> 40) + 1) * 0x1p-24)
}

int curandGenerateUniformDouble(Generator *generator, Address out, size_t count) {
    FILL(double, uniform(generator))
}

int curandGenerateNormal(Generator *generator, Address out, size_t count, float mean,
                         float deviation) {
    if (count % 2 != 0) return LENGTH_NOT_MULTIPLE;
    FILL(float, mean + deviation * normal(generator))
}

int curandGenerateNormalDouble(Generator *generator, Address out, size_t count, double mean,
                               double deviation) {
    if (count % 2 != 0) return LENGTH_NOT_MULTIPLE;
    FILL(double, mean + deviation * normal(generator))
}
