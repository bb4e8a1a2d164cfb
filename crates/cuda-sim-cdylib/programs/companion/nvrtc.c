/* A libnvrtc with one difference: machine code is PTX for the software device.

   It forwards each call to the real library, which `CUDA_SIM_NVRTC` names, or else the next file of
   the same name on `LD_LIBRARY_PATH`. The machine code that it returns begins with a line that no
   GPU accepts, so that a program which keeps compiled kernels in a cache cannot run one from here on
   a GPU.

   cc -shared -fPIC -Wl,-soname,libnvrtc.so.13 -o FOLDER/libnvrtc.so.13 nvrtc.c -ldl */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The software device knows this line: `WRAPPED` in crates/cuda-sim/src/driver/objects/link.rs. */
static const char FIRST_LINE[] = "cuda-sim PTX in place of machine code\n";

/* The status codes of NVRTC that this library returns itself. */
enum { SUCCESS = 0, INTERNAL_ERROR = 11 };

static void *real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Finds the next file with the name of this library. */
static char *next_on_path(const char *own) {
    const char *name = strrchr(own, '/') ? strrchr(own, '/') + 1 : own;
    char *folders = strdup(getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
    char *own_path = realpath(own, NULL), *rest = NULL, *found = NULL;
    for (char *folder = folders ? strtok_r(folders, ":", &rest) : NULL; folder && !found;
         folder = strtok_r(NULL, ":", &rest)) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) continue;
        found = realpath(path, NULL);
        if (found && own_path && strcmp(found, own_path) == 0) {
            free(found);
            found = NULL;
        }
    }
    free(own_path);
    free(folders);
    return found;
}

static void load(void) {
    Dl_info self;
    if (!dladdr(FIRST_LINE, &self)) return;
    const char *named = getenv("CUDA_SIM_NVRTC");
    char *path = named ? strdup(named) : next_on_path(self.dli_fname);
    if (!path) {
        fprintf(stderr,
                "cuda-sim: no other %s on LD_LIBRARY_PATH; set CUDA_SIM_NVRTC to its path\n",
                self.dli_fname);
        return;
    }
    /* Its own symbols come first: they have the names of the functions here. AddressSanitizer does
       not allow this. */
    int own_first = dlsym(RTLD_DEFAULT, "__asan_init") ? 0 : RTLD_DEEPBIND;
    real = dlopen(path, RTLD_NOW | RTLD_LOCAL | own_first);
    if (!real) fprintf(stderr, "cuda-sim: %s\n", dlerror());
    free(path);
}

/* Returns a function of the real library, or NULL if it has none of this name. */
static void *function(const char *name) {
    pthread_once(&once, load);
    return real ? dlsym(real, name) : NULL;
}

static int missing(const char *name) {
    if (real) fprintf(stderr, "cuda-sim: the real libnvrtc does not have %s\n", name);
    return INTERNAL_ERROR;
}

#define FORWARD(name, parameters, arguments)                           \
    int name parameters {                                              \
        int(*next) parameters = (int(*) parameters)function(#name);    \
        return next ? next arguments : missing(#name);                 \
    }

/* Forwards a call whose parameters are a program and a pointer. */
#define FORWARD_ONE(name) FORWARD(name, (void *program, void *out), (program, out))

FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int *count), (count))
FORWARD(nvrtcGetSupportedArchs, (int *list), (list))
FORWARD(nvrtcCreateProgram,
        (void **program, const char *source, const char *name, int count,
         const char *const *headers, const char *const *names),
        (program, source, name, count, headers, names))
FORWARD(nvrtcDestroyProgram, (void **program), (program))
FORWARD(nvrtcCompileProgram, (void *program, int count, const char *const *options),
        (program, count, options))
FORWARD_ONE(nvrtcGetPTXSize)
FORWARD_ONE(nvrtcGetPTX)
FORWARD_ONE(nvrtcGetLTOIRSize)
FORWARD_ONE(nvrtcGetLTOIR)
FORWARD_ONE(nvrtcGetNVVMSize)
FORWARD_ONE(nvrtcGetNVVM)
FORWARD_ONE(nvrtcGetOptiXIRSize)
FORWARD_ONE(nvrtcGetOptiXIR)
FORWARD_ONE(nvrtcGetTileIRSize)
FORWARD_ONE(nvrtcGetTileIR)
FORWARD_ONE(nvrtcGetProgramLogSize)
FORWARD_ONE(nvrtcGetProgramLog)
FORWARD_ONE(nvrtcAddNameExpression)
FORWARD(nvrtcGetLoweredName, (void *program, const char *expression, const char **name),
        (program, expression, name))
FORWARD(nvrtcGetPCHHeapSize, (size_t * size), (size))
FORWARD(nvrtcSetPCHHeapSize, (size_t size), (size))
FORWARD(nvrtcGetPCHCreateStatus, (void *program), (program))
FORWARD_ONE(nvrtcGetPCHHeapSizeRequired)
FORWARD(nvrtcSetFlowCallback, (void *program, int (*callback)(void *, void *), void *payload),
        (program, callback, payload))
FORWARD(nvrtcInstallBundledHeaders, (const char *path, unsigned flags, const char **log),
        (path, flags, log))
FORWARD(nvrtcGetBundledHeadersInfo, (void *info, const char **log), (info, log))
FORWARD(nvrtcRemoveBundledHeaders, (const char *path, const char **log), (path, log))

const char *nvrtcGetErrorString(int status) {
    const char *(*next)(int) = (const char *(*)(int))function("nvrtcGetErrorString");
    return next ? next(status) : "the real libnvrtc was not loaded";
}

/* Calls a function of the real library that writes to `out`. */
static int call(const char *name, void *program, void *out) {
    int (*next)(void *, void *) = (int (*)(void *, void *))function(name);
    return next ? next(program, out) : missing(name);
}

/* A program has machine code here if it has machine code there, and PTX. */
int nvrtcGetCUBINSize(void *program, size_t *out) {
    size_t ptx = 0;
    int status = call("nvrtcGetCUBINSize", program, out);
    if (status != SUCCESS || *out == 0) return status;
    status = call("nvrtcGetPTXSize", program, &ptx);
    if (status != SUCCESS || ptx == 0) return status;
    *out = strlen(FIRST_LINE) + ptx;
    return SUCCESS;
}

int nvrtcGetCUBIN(void *program, char *out) {
    size_t code = 0, ptx = 0;
    int status = call("nvrtcGetCUBINSize", program, &code);
    if (status == SUCCESS) status = call("nvrtcGetPTXSize", program, &ptx);
    if (status != SUCCESS || code == 0 || ptx == 0) return call("nvrtcGetCUBIN", program, out);
    memcpy(out, FIRST_LINE, strlen(FIRST_LINE));
    return call("nvrtcGetPTX", program, out + strlen(FIRST_LINE));
}
