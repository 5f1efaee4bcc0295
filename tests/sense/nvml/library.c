/* A driver library that speaks NVML, for tests: GPUs and their troubles are read from the file $NVML_SCENARIO.
 *
 * It is loaded as libnvidia-ml.so.1 by the real binding. Lines of a scenario:
 *
 *   init CODE                    nvmlInit fails with CODE
 *   gpu KEY=VALUE ...            a GPU; name and uuid are texts, everything else a number (see READS below)
 *   part KEY=VALUE ...           a MIG slice of the GPU above: uuid, name, instance, used, total
 *   process KEY=VALUE ...        a process on the GPU (or slice) above: pid, memory, sm
 *   fail CALL CODE [AFTER [GPU]] CALL, or * for each that takes a GPU, fails from its AFTER-th time on
 *   slow CALL MILLISECONDS       CALL takes that long
 *
 * At its end it writes how often each call was made to $NVML_SCENARIO.end. -DOLD leaves out what a driver of
 * 2021 lacks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { KEYS = 32, PROCESSES = 8, PARTS = 8, GPUS = 64, TROUBLES = 64, CALLS = 128 };

struct device {
    struct device *whole; /* of a slice */
    char name[64], uuid[64];
    int index, keys, processes, parts;
    struct { char key[24]; double value; } key[KEYS];
    struct { unsigned pid, sm; unsigned long long memory; } process[PROCESSES];
    struct device *part[PARTS];
};
struct trouble { char call[64]; int code, after, gpu, milliseconds; };
struct sample { double at_ms; struct device *of; };

static struct device *gpu[GPUS];
static struct trouble trouble[TROUBLES];
static struct { char name[64]; int count; } made[CALLS];
static int gpus, troubles, calls, samples, init_code, lives;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static double number(const struct device *device, const char *key, double otherwise) {
    for (int place = 0; place < device->keys; place++)
        if (!strcmp(device->key[place].key, key)) return device->key[place].value;
    return device->whole ? number(device->whole, key, otherwise) : otherwise;
}

static int count(const char *call) {
    int place = 0;
    while (place < calls && strcmp(made[place].name, call)) place++;
    if (place == calls && calls < CALLS) snprintf(made[calls++].name, sizeof made->name, "%s", call);
    return made[place].count++;
}

/* Every call that takes a device begins here: it is counted, delayed, and perhaps refused. */
static int enter(const char *call, const struct device *device) {
    int before = count(call);
    if (!lives) return UNINITIALIZED;
    for (struct trouble *one = trouble; one < trouble + troubles; one++) {
        int meant = !strcmp(one->call, "*") || !strcmp(one->call, call);
        if (!meant || (one->gpu >= 0 && device && device->index != one->gpu)) continue;
        usleep(one->milliseconds * 1000);
        if (one->code && before >= one->after) return one->code;
    }
    return device ? OK : INVALID;
}

static void set(struct device *device, const char *word) {
    const char *value = strchr(word, '=');
    if (!device || !value) return;
    if (!strncmp(word, "name=", 5)) snprintf(device->name, sizeof device->name, "%s", value + 1);
    else if (!strncmp(word, "uuid=", 5)) snprintf(device->uuid, sizeof device->uuid, "%s", value + 1);
    else if (device->keys < KEYS) {
        snprintf(device->key[device->keys].key, sizeof device->key->key, "%.*s", (int)(value - word), word);
        device->key[device->keys++].value = strtod(value + 1, NULL);
    }
}

static void set_process(struct device *device, const char *word) {
    int place = device->processes - 1;
    double value = strchr(word, '=') ? strtod(strchr(word, '=') + 1, NULL) : 0;
    if (!strncmp(word, "pid=", 4)) device->process[place].pid = value;
    if (!strncmp(word, "sm=", 3)) device->process[place].sm = value;
    if (!strncmp(word, "memory=", 7)) device->process[place].memory = value;
}

static struct device *begin(const char *kind, struct device *above) {
    struct device *whole = above && above->whole ? above->whole : above;
    if (!strcmp(kind, "process")) return above->processes++, above;
    struct device *made = calloc(1, sizeof *made);
    if (!strcmp(kind, "gpu")) return made->index = gpus, gpu[gpus++] = made;
    made->index = whole->index, made->whole = whole;
    return whole->part[whole->parts++] = made;
}

static void read_line(char *line) {
    static struct device *device;
    char *kind = strtok(line, " \n"), *word;
    if (!kind || *kind == '#') return;
    struct trouble one = {.gpu = -1};
    if (!strcmp(kind, "init")) {
        init_code = atoi(strtok(NULL, " \n"));
    } else if (!strcmp(kind, "fail") || !strcmp(kind, "slow")) {
        snprintf(one.call, sizeof one.call, "%s", strtok(NULL, " \n"));
        *(*kind == 'f' ? &one.code : &one.milliseconds) = atoi(strtok(NULL, " \n"));
        if ((word = strtok(NULL, " \n"))) one.after = atoi(word);
        if ((word = strtok(NULL, " \n"))) one.gpu = atoi(word);
        trouble[troubles++] = one;
    } else {
        device = begin(kind, device);
        while ((word = strtok(NULL, " \n"))) *kind == 'g' || !strcmp(kind, "part") ? set(device, word) : set_process(device, word);
    }
}

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "error %d of the test", code);
    return text;
}

int nvmlInitWithFlags(unsigned flags) {
    char line[512];
    const char *file = getenv("NVML_SCENARIO");
    FILE *scenario = gpus || troubles || !file ? NULL : fopen(file, "r");
    while (scenario && fgets(line, sizeof line, scenario)) read_line(line);
    if (scenario) fclose(scenario);
    for (struct trouble *one = trouble; one < trouble + troubles; one++)
        if (!strcmp(one->call, "nvmlInitWithFlags")) usleep(one->milliseconds * 1000);
    lives += !init_code;
    return flags ? INVALID : init_code;
}

int nvmlShutdown(void) {
    char path[512];
    snprintf(path, sizeof path, "%s.end", getenv("NVML_SCENARIO"));
    FILE *end = fopen(path, "w");
    for (int place = 0; end && place < calls; place++) fprintf(end, "%s %d\n", made[place].name, made[place].count);
    if (end) fprintf(end, "samples left %d\n", samples), fclose(end);
    return lives-- > 0 ? OK : UNINITIALIZED;
}

int nvmlDeviceGetCount_v2(unsigned *found) { return *found = gpus, lives ? OK : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    *device = index < (unsigned)gpus ? gpu[index] : NULL;
    return enter("nvmlDeviceGetHandleByIndex", *device);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    for (int place = 0; place < gpus; place++) {
        if (!strcmp(gpu[place]->uuid, uuid)) return *device = gpu[place], OK;
        for (int part = 0; part < gpu[place]->parts; part++)
            if (!strcmp((*device = gpu[place]->part[part])->uuid, uuid)) return OK;
    }
    return NOT_FOUND;
}

static int write_text(char *to, unsigned size, const char *text) {
    return (unsigned)snprintf(to, size, "%s", text) < size ? OK : TOO_SMALL;
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned size) {
    int code = enter("nvmlDeviceGetName", device);
    return code ? code : write_text(name, size, device->name);
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size) {
    int code = enter("nvmlDeviceGetUUID", device);
    return code ? code : write_text(uuid, size, device->uuid);
}

int nvmlDeviceGetIndex(struct device *device, unsigned *index) { return *index = device->index, OK; }

/* Slices. A whole GPU has none of these, and a slice little else. */

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    int code = enter("nvmlDeviceGetMigMode", device);
    if (!code) *current = *pending = device->parts > 0;
    return code ? code : number(device, "mig", 1) ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *most) {
    return *most = device->parts ? PARTS - 1 : 0, enter("nvmlDeviceGetMaxMigDeviceCount", device);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **part) {
    int code = enter("nvmlDeviceGetMigDeviceHandleByIndex", device);
    return code ? code : index >= (unsigned)device->parts ? NOT_FOUND : (*part = device->part[index], OK);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *part, struct device **whole) {
    return part->whole ? (*whole = part->whole, OK) : INVALID;
}

int nvmlDeviceGetGpuInstanceId(struct device *part, unsigned *instance) {
    return part->whole ? (*instance = number(part, "instance", 1), OK) : INVALID;
}

/* Numbers of a GPU, by the key that sets them. */

#define READS(call, key, otherwise)                                                      \
    int call(struct device *device, unsigned *value) {                                   \
        int code = enter(#call, device);                                                 \
        return code ? code : (*value = (unsigned)number(device, key, otherwise), OK);    \
    }
READS(nvmlDeviceGetPowerUsage, "power", 350000)
READS(nvmlDeviceGetEnforcedPowerLimit, "limit", 700000)
READS(nvmlDeviceGetPowerManagementDefaultLimit, "default_limit", 700000)
READS(nvmlDeviceGetCurrPcieLinkGeneration, "gen", 5)
READS(nvmlDeviceGetMaxPcieLinkGeneration, "gen_max", 5)
READS(nvmlDeviceGetCurrPcieLinkWidth, "width", 16)
READS(nvmlDeviceGetMaxPcieLinkWidth, "width_max", 16)

#define READS_CLOCK(call, key, otherwise)                                                \
    int call(struct device *device, unsigned which, unsigned *value) {                   \
        int code = enter(#call, device);                                                 \
        return code ? code : which != 1 ? NOT_SUPPORTED : (*value = (unsigned)number(device, key, otherwise), OK); \
    }
READS_CLOCK(nvmlDeviceGetClockInfo, "sm_clock", 1900)
READS_CLOCK(nvmlDeviceGetMaxClockInfo, "sm_clock_max", 1980)

int nvmlDeviceGetMemoryInfo(struct device *device, unsigned long long total_free_used[3]) {
    double total = number(device, "total", 80e9), used = number(device, "used", 20e9);
    total_free_used[0] = total, total_free_used[1] = total - used, total_free_used[2] = used;
    return enter("nvmlDeviceGetMemoryInfo", device);
}

int nvmlDeviceGetUtilizationRates(struct device *device, unsigned gpu_memory[2]) {
    int code = enter("nvmlDeviceGetUtilizationRates", device);
    if (code || device->parts) return code ? code : NOT_SUPPORTED;
    gpu_memory[0] = number(device, "busy", 50), gpu_memory[1] = 10;
    return OK;
}

static int reasons(const char *call, struct device *device, unsigned long long *bits) {
    return *bits = number(device, "reasons", 0), enter(call, device);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *bits) {
    return reasons("nvmlDeviceGetCurrentClocksThrottleReasons", device, bits);
}

/* Processes. A first call asks for the room that a second one needs. */

struct process_info { unsigned pid; unsigned long long memory; unsigned instance, compute_instance; };

static int list_processes(struct device *device, unsigned *room, struct process_info *list) {
    int code = enter("nvmlDeviceGetComputeRunningProcesses", device), there = *room;
    if (code || !device->processes) return *room = 0, code;
    *room = device->processes;
    if (!list || there < device->processes) return TOO_SMALL;
    for (int place = 0; place < device->processes; place++)
        list[place] = (struct process_info){device->process[place].pid, device->process[place].memory, -1, -1};
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *room, struct process_info *list) {
    return list_processes(device, room, list);
}

struct process_sample { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; };

/* Two samples of each process: a new one with its sm, and an older one, of its youth, with 100. */
int nvmlDeviceGetProcessUtilization(struct device *device, struct process_sample *list, unsigned *room,
                                    unsigned long long since_us) {
    unsigned long long second_us = (unsigned long long)(now_ms() / 1000) * 1000000;
    int code = enter("nvmlDeviceGetProcessUtilization", device);
    if (code || device->whole) return code ? code : NOT_SUPPORTED;
    if (!device->processes || since_us >= second_us) return NOT_FOUND;
    if (!list) return *room = 2 * device->processes, TOO_SMALL;
    for (unsigned place = 0; place < *room; place++) {
        int process = place / 2, old = since_us ? 0 : place % 2;
        list[place] = (struct process_sample){device->process[process].pid, second_us - old * 60000000,
                                              old ? 100 : device->process[process].sm, 0, 0, 0};
    }
    return OK;
}

#ifndef OLD

int nvmlDeviceGetCurrentClocksEventReasons(struct device *device, unsigned long long *bits) {
    return reasons("nvmlDeviceGetCurrentClocksEventReasons", device, bits);
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *room, struct process_info *list) {
    return list_processes(device, room, list);
}

/* Performance monitors: the numbers of a metric are those of the scenario, 0 to 100. */

struct support { unsigned version, supported; };
struct metric { unsigned id, code; double value; const char *name[3]; };
struct metrics { unsigned version, count; struct sample *first, *last; struct metric metric[]; };

int nvmlGpmQueryDeviceSupport(struct device *device, struct support *found) {
    if (found->version != 1) return INVALID;
    found->supported = number(device, "gpm", 0);
    return enter("nvmlGpmQueryDeviceSupport", device);
}

int nvmlGpmSampleAlloc(struct sample **sample) {
    return *sample = calloc(1, sizeof **sample), samples++, OK;
}

int nvmlGpmSampleFree(struct sample *sample) { return free(sample), samples--, OK; }

int nvmlGpmSampleGet(struct device *device, struct sample *sample) {
    int code = enter("nvmlGpmSampleGet", device);
    if (code || device->parts) return code ? code : NOT_SUPPORTED;
    return *sample = (struct sample){now_ms(), device}, OK;
}

int nvmlGpmMigSampleGet(struct device *device, unsigned instance, struct sample *sample) {
    for (int place = 0; place < device->parts; place++)
        if (number(device->part[place], "instance", 1) == instance)
            return *sample = (struct sample){now_ms(), device->part[place]}, enter("nvmlGpmMigSampleGet", device);
    return INVALID;
}

int nvmlGpmMetricsGet(struct metrics *wanted) {
    int code = enter("nvmlGpmMetricsGet", wanted->first->of);
    if (code || wanted->version != 1 || wanted->first->of != wanted->last->of) return code ? code : INVALID;
    for (struct metric *one = wanted->metric; one < wanted->metric + wanted->count; one++) {
        /* multiprocessors with work, tensor cores, the memory's bandwidth */
        const char *name = one->id == 2 ? "sm" : one->id == 5 ? "tensor" : one->id == 10 ? "dram" : "";
        int known = *name && number(wanted->last->of, name, -1) >= 0;
        int apart = wanted->last->at_ms - wanted->first->at_ms >= 100; /* NVML asks for 100 ms */
        one->code = known && apart ? OK : NOT_SUPPORTED;
        one->value = known ? number(wanted->last->of, name, 0) : 0;
    }
    return OK;
}

#endif
