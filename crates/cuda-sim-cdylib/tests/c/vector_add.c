/* Adds two vectors with the driver API, which it is linked to. The PTX comes from the file named by the argument. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int status;
typedef unsigned long long device_ptr;

status cuInit(unsigned);
status cuDeviceGetCount(int *);
status cuDevicePrimaryCtxRetain(void **, int);
status cuCtxSetCurrent(void *);
status cuModuleLoadData(void **, const void *);
status cuModuleGetFunction(void **, void *, const char *);
status cuMemAlloc_v2(device_ptr *, size_t);
status cuMemcpyHtoD_v2(device_ptr, const void *, size_t);
status cuMemcpyDtoH_v2(void *, device_ptr, size_t);
status cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);
status cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);

static void check(status code, int line)
{
    if (code != 0) {
        fprintf(stderr, "line %d: status %d\n", line, code);
        exit(1);
    }
}
#define CHECK(call) check(call, __LINE__)

enum { COUNT = 1000 };

int main(int argc, char **argv)
{
    static char ptx[1 << 16];
    static float a[COUNT], b[COUNT], sum[COUNT];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (file == NULL || fread(ptx, 1, sizeof ptx - 1, file) == 0)
        return 2;
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    int devices = 0;
    void *context, *module, *add, *found = NULL;
    device_ptr da, db, dsum;
    unsigned long long count = COUNT;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuMemAlloc_v2(&da, sizeof a));
    CHECK(cuMemAlloc_v2(&db, sizeof b));
    CHECK(cuMemAlloc_v2(&dsum, sizeof sum));
    CHECK(cuMemcpyHtoD_v2(da, a, sizeof a));
    CHECK(cuMemcpyHtoD_v2(db, b, sizeof b));
    void *params[] = {&da, &db, &dsum, &count};
    CHECK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(sum, dsum, sizeof sum));
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != 1.5f * (float)i)
            return 3;
    CHECK(cuGetProcAddress_v2("cuGraphLaunch", &found, 12000, 0, NULL));
    printf("%d devices, graphs: %s\n", devices, found != NULL ? "yes" : "no");
    return 0;
}
