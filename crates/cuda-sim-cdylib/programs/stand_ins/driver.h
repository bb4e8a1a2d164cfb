/* The calls of the driver that the stand-ins need, from the library that the program has loaded. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t Address;

static int call_driver(const char *name, void *first, void *second, size_t bytes) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*call)(void *, void *, size_t) =
        driver ? (int (*)(void *, void *, size_t))dlsym(driver, name) : NULL;
    int status = call ? call(first, second, bytes) : -1;
    if (status != 0) fprintf(stderr, "stand-in: %s failed with status %d\n", name, status);
    return status;
}

/* Waits until the work of the stream has finished. */
static int wait_for(void *stream) { return call_driver("cuStreamSynchronize", stream, NULL, 0); }

#ifdef COPY_FROM_DEVICE
/* Returns a copy of memory of the device, or NULL. The caller frees it. */
static void *copy_from(Address source, size_t bytes) {
    void *copy = malloc(bytes ? bytes : 1);
    if (copy && bytes && call_driver("cuMemcpyDtoH_v2", copy, (void *)source, bytes) != 0) {
        free(copy);
        return NULL;
    }
    return copy;
}
#endif

static int copy_to(Address target, void *source, size_t bytes) {
    return bytes ? call_driver("cuMemcpyHtoD_v2", (void *)target, source, bytes) : 0;
}
