// The functions of NVML that cuda-driver calls, for a machine that the tables describe.

#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

struct link {
    int exists;
    const char *remote; // The PCI address, or NULL if the link is inactive.
    unsigned type;      // 1: GPU, 2: NVSwitch.
};

/* tables */

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, status;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

typedef struct device { int index; } *device_t;

static struct device devices[COUNT];

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.00");
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device_t *device) {
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(addresses[i], address) == 0) {
            devices[i].index = i;
            *device = &devices[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetTopologyCommonAncestor(device_t one, device_t other, unsigned *level) {
    (void)one, (void)other;
    *level = ANCESTOR;
    return SUCCESS;
}

static const struct link *find(device_t device, unsigned link) {
    if (link >= 18 || !links[device->index][link].exists) return NULL;
    return &links[device->index][link];
}

int nvmlDeviceGetNvLinkState(device_t device, unsigned link, unsigned *is_active) {
    const struct link *found = find(device, link);
    if (!found) return INVALID_ARGUMENT;
    *is_active = found->remote != NULL;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(device_t device, unsigned link, unsigned *version) {
    if (!find(device, link)) return INVALID_ARGUMENT;
    *version = 6; // NVML_NVLINK_VERSION_4_0
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t device, unsigned link, struct pci *pci) {
    const struct link *found = find(device, link);
    if (!found || !found->remote) return NOT_SUPPORTED;
    memset(pci, 0, sizeof *pci);
    snprintf(pci->address, sizeof pci->address, "%s", found->remote);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(device_t device, unsigned link, unsigned *type) {
    const struct link *found = find(device, link);
    if (!found || !found->remote) return NOT_SUPPORTED;
    *type = found->type;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(device_t device, int count, struct field *fields) {
    for (int i = 0; i < count; i++) {
        // The first device is of an older driver, which knows the speed of all links only.
        int is_known = device->index == 0
            ? fields[i].id == 90
            : fields[i].id == 164 && fields[i].scope < 19 && links[device->index][fields[i].scope].remote;
        fields[i].status = is_known ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = 1; // An unsigned integer.
        fields[i].value.u = 26562;
    }
    return SUCCESS;
}
