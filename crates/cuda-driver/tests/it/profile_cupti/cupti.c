// The functions of CUPTI that cuda-driver calls. Instead of a driver, the test states which calls
// are made and what the device executes.
//
// VERSION is the version of the interface, and SUBSCRIBE the status of cuptiSubscribe.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12 };
enum { MEMCPY = 1, MEMSET = 2, CONCURRENT_KERNEL = 10, KINDS = 64, CALLS = 1024 };

struct kernel {
    uint32_t kind;
    uint8_t cache, shared_config;
    uint16_t registers;
    uint32_t partitioned[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared, dynamic_shared;
    uint32_t local, local_total, correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint32_t launch, shared;
    uint64_t node;
    uint32_t limit, graph;
    uint64_t newer[12]; // The fields that newer versions have added.
};

struct copy {
    uint32_t kind;
    uint8_t copy, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation, runtime, pad;
    void *reserved;
    uint64_t node;
    uint32_t graph;
    uint64_t newer[6];
};

struct fill {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory;
    uint32_t pad;
    void *reserved;
    uint64_t node;
    uint32_t graph;
    uint64_t newer[5];
};

struct call {
    uint32_t site;
    const char *name;
    const void *params;
    void *returned;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *data;
    uint32_t correlation;
};

typedef void (*callback)(void *, uint32_t, uint32_t, const void *);
typedef void (*request)(uint8_t **, size_t *, size_t *);
typedef void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);

static struct {
    callback on_call;
    void *user;
    request on_request;
    complete on_complete;
    uint8_t *buffer;
    size_t size, used, buffers;
    uint32_t correlation;
    uint8_t kinds[KINDS], calls[CALLS];
} state;

uint32_t cuptiGetVersion(uint32_t *version) {
    *version = VERSION;
    return SUCCESS;
}

uint32_t cuptiGetResultString(uint32_t status, const char **text) {
    *text = status == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR";
    return SUCCESS;
}

uint32_t cuptiSubscribe(void **handle, callback on_call, void *user) {
    if (SUBSCRIBE || state.on_call) return SUBSCRIBE ? SUBSCRIBE : 39;
    state.on_call = on_call;
    state.user = user;
    *handle = &state;
    return SUCCESS;
}

uint32_t cuptiUnsubscribe(void *handle) {
    if (handle != &state) return INVALID_PARAMETER;
    state.on_call = 0;
    memset(state.calls, 0, sizeof state.calls);
    return SUCCESS;
}

uint32_t cuptiEnableCallback(uint32_t on, void *handle, uint32_t domain, uint32_t call) {
    if (handle != &state || domain != 1 || call >= CALLS) return INVALID_PARAMETER;
    if (call > 700 && VERSION < 130000) return INVALID_PARAMETER;
    state.calls[call] = on;
    return SUCCESS;
}

uint32_t cuptiActivityRegisterCallbacks(request on_request, complete on_complete) {
    state.on_request = on_request;
    state.on_complete = on_complete;
    return SUCCESS;
}

uint32_t cuptiActivityEnable(uint32_t kind) {
    state.kinds[kind] = 1;
    return SUCCESS;
}

uint32_t cuptiActivityDisable(uint32_t kind) {
    state.kinds[kind] = 0;
    return SUCCESS;
}

uint32_t cuptiActivityFlushAll(uint32_t flags) {
    uint8_t *buffer = state.buffer;
    (void)flags;
    state.buffer = 0;
    if (buffer) state.on_complete(0, 0, buffer, state.size, state.used);
    return SUCCESS;
}

static size_t size_of(uint32_t kind) {
    return kind == MEMCPY ? sizeof(struct copy)
         : kind == MEMSET ? sizeof(struct fill)
                          : sizeof(struct kernel);
}

uint32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *next = *record ? *record + size_of(*(uint32_t *)*record) : buffer;
    if (next >= buffer + valid) return MAX_LIMIT_REACHED;
    *record = next;
    return SUCCESS;
}

uint32_t cuptiGetTimestamp(uint64_t *time) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
    return SUCCESS;
}

uint32_t cuptiGetContextId(void *context, uint32_t *id) {
    *id = (uint32_t)((uintptr_t)context >> 4);
    return SUCCESS;
}

uint32_t cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id) {
    (void)context;
    *id = stream ? (uint32_t)((uintptr_t)stream >> 4) : 7 + per_thread;
    return SUCCESS;
}

// What follows is called by the test.

// Returns the number of buffers that the test's process has supplied.
size_t fake_buffers(void) { return state.buffers; }

// Returns the number of kinds and calls that are enabled.
size_t fake_enabled(void) {
    size_t count = 0;
    for (int kind = 0; kind < KINDS; ++kind) count += state.kinds[kind];
    for (int call = 0; call < CALLS; ++call) count += state.calls[call];
    return count;
}

// The driver is called. Returns the id of the call.
uint32_t fake_call(uint32_t number) {
    struct call call = {0};
    call.correlation = ++state.correlation;
    if (state.on_call && state.calls[number]) {
        state.on_call(state.user, 1, number, &call);
        call.site = 1;
        call.correlation = 0; // Only the id before the call may be used.
        state.on_call(state.user, 1, number, &call);
    }
    return state.correlation;
}

// The device has executed work: a kernel with the name, or a copy or a fill.
void fake_work(uint32_t kind, const char *name, uint32_t correlation, void *context, void *stream,
               uint64_t start, uint64_t end, uint64_t bytes, uint32_t graph) {
    union {
        struct kernel kernel;
        struct copy copy;
        struct fill fill;
    } record;
    if (!state.kinds[kind]) return;
    size_t size = size_of(kind);
    if (state.buffer && state.used + size > state.size) cuptiActivityFlushAll(0);
    if (!state.buffer) {
        size_t most;
        state.on_request(&state.buffer, &state.size, &most);
        state.used = 0;
        if (!state.buffer) return;
        ++state.buffers;
#ifdef SMALL
        state.size = SMALL;
#endif
    }
    memset(&record, 0xaa, sizeof record);
    uint32_t context_id, stream_id;
    cuptiGetContextId(context, &context_id);
    cuptiGetStreamIdEx(context, stream, 0, &stream_id);
    record.kernel.kind = kind;
    if (kind == CONCURRENT_KERNEL) {
        record.kernel.registers = 21;
        record.kernel.start = start;
        record.kernel.end = end;
        record.kernel.context = context_id;
        record.kernel.stream = stream_id;
        for (int i = 0; i < 3; ++i) record.kernel.grid[i] = 4 + i, record.kernel.block[i] = 8 + i;
        record.kernel.static_shared = 32;
        record.kernel.dynamic_shared = 64;
        record.kernel.local = 16;
        record.kernel.correlation = correlation;
        record.kernel.name = name;
        record.kernel.graph = graph;
    } else if (kind == MEMCPY) {
        record.copy.copy = (uint8_t)(uintptr_t)name;
        record.copy.bytes = bytes;
        record.copy.start = start;
        record.copy.end = end;
        record.copy.context = context_id;
        record.copy.stream = stream_id;
        record.copy.correlation = correlation;
        record.copy.graph = graph;
    } else {
        record.fill.bytes = bytes;
        record.fill.start = start;
        record.fill.end = end;
        record.fill.context = context_id;
        record.fill.stream = stream_id;
        record.fill.correlation = correlation;
        record.fill.graph = graph;
    }
    memcpy(state.buffer + state.used, &record, size);
    state.used += size;
}
