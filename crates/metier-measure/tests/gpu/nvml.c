/* A stand-in for NVIDIA's management library on hosts without a GPU: one board that uses 250 W, is busy for 75 %,
 * and gives 1 GiB to the process named in METIER_FAKE_GPU_PID. Only what metier asks for is here. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)1; return index == 0 ? 0 : 2; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, "Stand-in", length); return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) { strncpy(uuid, "GPU-stand-in", length); return 0; }

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = (now.tv_sec * 1000ULL + now.tv_nsec / 1000000) * 250;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, Utilization *rates) {
    rates->gpu = 75;
    rates->memory = 10;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    const char *pid = getenv("METIER_FAKE_GPU_PID");
    unsigned room = *count;
    *count = pid ? 1 : 0;
    if (!pid) return 0;
    if (room < 1) return 7; /* too little room: the caller asks again */
    processes[0] = (Process){ .pid = atoi(pid), .used = 1ULL << 30, .gpu_instance = ~0u, .compute_instance = ~0u };
    return 0;
}
