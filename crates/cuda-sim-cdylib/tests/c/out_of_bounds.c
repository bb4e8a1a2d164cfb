/* Stores one element past the end of a buffer. The PTX comes from the file named by the argument. */
#include <stddef.h>
#include <stdio.h>

typedef int status;
typedef unsigned long long device_ptr;

status cuInit(unsigned);
status cuDevicePrimaryCtxRetain(void **, int);
status cuCtxSetCurrent(void *);
status cuCtxSynchronize(void);
status cuModuleLoadData(void **, const void *);
status cuModuleGetFunction(void **, void *, const char *);
status cuMemAlloc_v2(device_ptr *, size_t);
status cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);

int main(int argc, char **argv)
{
    static char ptx[1 << 16];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (file == NULL || fread(ptx, 1, sizeof ptx - 1, file) == 0)
        return 2;
    void *context, *module, *fill;
    device_ptr memory;
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
        return 3;
    if (cuModuleLoadData(&module, ptx) != 0 || cuModuleGetFunction(&fill, module, "fill") != 0)
        return 4;
    /* The buffer has 32 elements, and 33 threads write. */
    if (cuMemAlloc_v2(&memory, 32 * sizeof(unsigned)) != 0)
        return 5;
    void *params[] = {&memory};
    if (cuLaunchKernel(fill, 1, 1, 1, 33, 1, 1, 0, NULL, params, NULL) != 0)
        return 6;
    printf("status %d\n", cuCtxSynchronize());
    return 0;
}
