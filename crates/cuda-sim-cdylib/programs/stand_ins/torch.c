/* The functions of NVIDIA's libraries that `import torch` needs.
 *
 * PyTorch's packages for Linux on x86-64 link the CUDA runtime library, cuDNN, cuBLAS and others,
 * some of which use tables of the driver that are not public. Tests that use PyTorch on the host
 * only need these libraries to exist. torch.map has the versions of the symbols.
 */

#include <stddef.h>

static void *registration;

/* Constructors in PyTorch's libraries register their kernels. */

void **__cudaRegisterFatBinary(void *image)
{
    (void)image;
    return &registration;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle)
{
    (void)handle;
}

void __cudaRegisterVar(void **handle)
{
    (void)handle;
}

/* Reports that the machine has no device, with cudaErrorNoDevice. */
int cudaGetDeviceCount(int *count)
{
    *count = 0;
    return 100;
}

int cudaGetLastError(void)
{
    return 0;
}

/* PyTorch's libraries have pointers to the functions below. No test calls these. */

const char *cudaGetErrorString(int status)
{
    (void)status;
    return "the CUDA runtime library is a stand-in";
}

int cudaProfilerStart(void)
{
    return 100;
}

int cudaProfilerStop(void)
{
    return 100;
}

void *nvshmem_malloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void nvshmem_free(void *block)
{
    (void)block;
}
