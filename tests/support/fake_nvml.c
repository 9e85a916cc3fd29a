/* The part of NVML that GpuMeter calls, as a driver that does what the environment says.
 *
 * Read anew at every call, so that a test can change it in mid-run:
 *   FAKE_INIT         what nvmlInit answers
 *   FAKE_LISTING      what asking for the running processes of each GPU answers: "3,3"
 *   FAKE_MINE         1 for each GPU that lists this process: "0,1"
 *   FAKE_HANDLE       what asking for each GPU's handle answers: "4,0"
 *   FAKE_MEMORY       what asking for each GPU's memory answers: "3,0"
 *   FAKE_UTILIZATION  percent of each GPU, below zero an error: "37,-3"
 *   FAKE_PERIOD       microseconds between the samples it keeps of that; 0 if it keeps none
 * Anything left out is 0, which is also NVML_SUCCESS. There are two GPUs, of 8 and 16 GiB, half in use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { GPUS = 2, SAMPLES_KEPT = 70 };

typedef struct { int index; } *Device;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned long long stamp, value; } Sample;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

static struct { int index; } gpus[GPUS] = {{0}, {1}};
static int users = 0;

static int setting(const char *name, int index) {
    const char *at = getenv(name);
    while (at && index--) at = (at = strchr(at, ',')) ? at + 1 : NULL;
    return at ? atoi(at) : 0;
}

int nvmlInitWithFlags(unsigned flags) {
    int answer = setting("FAKE_INIT", 0);
    if (!answer) users++;
    return answer;
}

int nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return 0;
}

const char *nvmlErrorString(int code) { return "as the test wanted"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = GPUS;
    return users ? 0 : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    if (index >= GPUS) return INVALID_ARGUMENT;
    *device = (Device)&gpus[index];
    return setting("FAKE_HANDLE", index);
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%d0000000-0000-0000-0000-000000000000", device->index);
    return 0;
}

int nvmlDeviceGetName(Device device, char *name, unsigned length) {
    snprintf(name, length, "Fake %d", device->index);
    return 0;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *rates) {
    int percent = setting("FAKE_UTILIZATION", device->index);
    if (!users) return UNINITIALIZED;
    if (percent < 0) return -percent;
    rates->gpu = percent;
    rates->memory = 1;
    return 0;
}

int nvmlDeviceGetSamples(
    Device device, int kind, unsigned long long since, int *value_kind, unsigned *count, Sample *samples) {
    int percent = setting("FAKE_UTILIZATION", device->index), period = setting("FAKE_PERIOD", 0);
    struct timeval now;
    if (!users) return UNINITIALIZED;
    if (percent < 0) return -percent;
    if (!period) return NOT_SUPPORTED;
    gettimeofday(&now, NULL);
    unsigned long long latest = (now.tv_sec * 1000000ull + now.tv_usec) / period, seen = since / period;
    unsigned long long fresh = latest - seen < SAMPLES_KEPT ? latest - seen : SAMPLES_KEPT;
    if (!fresh) return NOT_FOUND;
    /* Without room it tells how much it takes. */
    if (samples && *count < fresh) fresh = *count;
    for (unsigned i = 0; samples && i < fresh; i++)
        samples[i] = (Sample){(latest - fresh + 1 + i) * period, percent};
    *value_kind = 1;
    *count = fresh;
    return 0;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    memory->total = (device->index + 1ull) << 33;
    memory->used = memory->free = memory->total / 2;
    return setting("FAKE_MEMORY", device->index);
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    int answer = setting("FAKE_LISTING", device->index);
    unsigned room = *count;
    if (answer) return answer;
    *count = 1 + setting("FAKE_MINE", device->index);
    if (room < *count) return INSUFFICIENT_SIZE;
    memset(processes, 0, *count * sizeof *processes);
    processes[0].pid = getpid() + 1; /* somebody else */
    if (*count > 1) processes[1].pid = getpid();
    return 0;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    *count = 0;
    return setting("FAKE_LISTING", device->index);
}
