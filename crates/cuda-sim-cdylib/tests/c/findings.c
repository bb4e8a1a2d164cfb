/* The program in C of docs/findings.md: `lines.h` has its lines. Prints how many of the bytes are sevens. */
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int status;
typedef unsigned long long device_ptr;

status cuInit(unsigned);
status cuDevicePrimaryCtxRetain(void **, int);
status cuCtxSetCurrent(void *);
status cuStreamCreate(void **, unsigned);
status cuStreamSynchronize(void *);
status cuMemAlloc_v2(device_ptr *, size_t);
status cuMemsetD8Async(device_ptr, unsigned char, size_t, void *);
status cuMemcpyDtoH_v2(void *, device_ptr, size_t);

/* `cuda.h` has this macro, too. */
#define cuMemcpyDtoH cuMemcpyDtoH_v2

enum { CU_STREAM_NON_BLOCKING = 1 };

static void check(status code, int line)
{
    if (code != 0) {
        fprintf(stderr, "line %d: status %d\n", line, code);
        exit(1);
    }
}
#define CHECK(call) check(call, __LINE__)

int main(void)
{
    unsigned char host[1024] = {0};
    void *context, *stream;
    device_ptr memory;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&memory, sizeof host));
#include "lines.h"
    int sevens = 0;
    for (size_t i = 0; i < sizeof host; i++)
        sevens += host[i] == 7;
    printf("%d\n", sevens);
    return 0;
}
