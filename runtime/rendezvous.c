/* rendezvous: see rendezvous.h. */
#include "runtime/rendezvous.h"

#include "abi/version.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/memory.h"
#include "runtime/devices/spec.h"
#include "runtime/options.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* What must be the same beside options, and what a message calls it. */
enum {
    VERSION,
    PROGRAM,
    ARTIFACT,
    COMMAND,
    DEVICES,
    N_TEXTS,
    MOST_COMPARED = 20 /* options with words of their own */
};
static const char *const meanings[N_TEXTS] = {"is dtrun", "runs the program with hash", "has an artifact whose bytes have hash", "runs",
                                              "computes on --devices"};

/* What a process says of itself. */
typedef struct record {
    char texts[N_TEXTS][20];
    int64_t options[MOST_COMPARED]; /* those with words, in the order of their rows */
    int64_t others;                 /* a hash of the others */
    int32_t level;                  /* the best that runs there; 0: one is named, or none does */
    uint32_t machine;               /* where processes have the same number, they may use the same cores */
} record;

_Static_assert(sizeof(record) <= DT_RECORD_BYTES, "a record has room for what is compared");

/* The machine, and the cores of it that this process may use. */
static uint64_t machine(void) {
    struct utsname system;
    cpu_set_t cores;
    uint64_t hash = DT_HASH_SEED;
    if (uname(&system) == 0) hash = dt_hash_bytes(system.nodename, strlen(system.nodename), hash);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) hash = dt_hash_bytes(&cores, sizeof cores, hash);
    return hash;
}

/* CPUs and GPUs have other plans, with other collectives. What nobody knows is said where it is opened. */
static void print_kind(const char *devices, char *text, size_t bytes) {
    dt_device_spec spec;
    dt_status *status = dt_device_spec_parse(devices != NULL ? devices : "cpu", &spec);
    snprintf(text, bytes, "%s", status == NULL ? spec.kind->name : "?");
    dt_status_free(status);
}

static record record_of(const dt_artifact *artifact, uint64_t hash, const char *command, const dt_kernels_options *kernels,
                        const dt_run_options *run) {
    record made = {.level = kernels->level == NULL ? dt_kernels_best_level(artifact) : 0,
                   .machine = (uint32_t)machine(),
                   .others = kernels->level != NULL ? (int64_t)dt_hash_bytes(kernels->level, strlen(kernels->level), DT_HASH_SEED) : 0};
    int n = 0;
    for (const dt_option *row = dt_run_option_rows; row < dt_run_option_rows + dt_n_run_options; row++) {
        if (row->alike == NULL) continue;
        int64_t number = dt_option_number(row, run);
        if (*row->alike == 0) {
            made.others = (int64_t)dt_hash_bytes(&number, sizeof number, (uint64_t)made.others);
        } else {
            assert(n < MOST_COMPARED);
            made.options[n++] = number;
        }
    }
    snprintf(made.texts[VERSION], sizeof *made.texts, "%s", DT_VERSION);
    snprintf(made.texts[PROGRAM], sizeof *made.texts, "%s", artifact->program_hash);
    snprintf(made.texts[ARTIFACT], sizeof *made.texts, "%016" PRIx64, hash);
    snprintf(made.texts[COMMAND], sizeof *made.texts, "dtrun %s", command);
    print_kind(run->devices, made.texts[DEVICES], sizeof *made.texts);
    return made;
}

static dt_status *differ(const char *name, const char *meaning, const char *here, const char *there) {
    return dt_error(DT_FAILED_PRECONDITION, "%s %s %s, process 0 %s: all processes of a run are started alike", name, meaning, here, there);
}

static dt_status *compare_numbers(const char *name, const char *meaning, int64_t here, int64_t there) {
    char number[24], other[24];
    if (here == there) return NULL;
    snprintf(number, sizeof number, "%" PRId64, here);
    snprintf(other, sizeof other, "%" PRId64, there);
    return differ(name, meaning, number, other);
}

static dt_status *compare_options(const char *name, const record *here, const record *there) {
    dt_status *status = NULL;
    dt_text others = {0};
    int n = 0;
    for (const dt_option *row = dt_run_option_rows; row < dt_run_option_rows + dt_n_run_options && status == NULL; row++) {
        if (row->alike == NULL) continue;
        if (*row->alike == 0)
            dt_text_format(&others, "%s--%s", others.n > 0 ? ", " : "has other options: ", row->name);
        else
            status = compare_numbers(name, row->alike, here->options[n], there->options[n]), n++;
    }
    dt_text_append(&others, " or --level:");
    if (status == NULL && others.failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status == NULL) status = compare_numbers(name, others.data, here->others, there->others);
    dt_text_free(&others);
    return status;
}

/* The first thing in which process p is not as process 0, in words that all processes find alike. */
static dt_status *compare(const dt_processes *processes, const record *all, int p) {
    char name[160];
    dt_processes_print_name(processes, p, name, sizeof name);
    for (int i = 0; i < N_TEXTS; i++)
        if (strcmp(all[p].texts[i], all[0].texts[i]) != 0) return differ(name, meanings[i], all[p].texts[i], all[0].texts[i]);
    return compare_options(name, &all[p], &all[0]);
}

/* What the first process that differs from process 0 makes of this one. A worker of parameter servers is no reason for the others to end: it leaves,
 * and to them the run was interrupted. */
static dt_status *compare_all(const dt_processes *processes, const record *all, int n) {
    dt_process_roles roles = dt_processes_roles(processes);
    int process = dt_processes_number(processes);
    for (int p = 1; p < n; p++) {
        dt_status *status = compare(processes, all, p);
        if (status == NULL) continue;
        if (roles.n_servers == 0 || p < roles.n_servers || p == process) return status;
        dt_status *interrupted = dt_error(DT_ABORTED, "%s", dt_status_message(status));
        dt_status_free(status);
        return interrupted;
    }
    return NULL;
}

/* Each loads its best code, unless some have better code than others. */
static void agree_on_level(const record *all, int n, int process, const char **level, dt_text *note) {
    int32_t least = all[0].level, most = all[0].level;
    for (int p = 1; p < n; p++) {
        if (all[p].level < least) least = all[p].level;
        if (all[p].level > most) most = all[p].level;
    }
    if (least == most || least == 0) return; /* 0: some have none, and say so themselves */
    *level = dt_cpu_level_name(least);
    if (process == 0) dt_text_format(note, "all processes run the code for %s: not all machines can run better code", *level);
}

/* Those who may use the same cores have each its own from now on. */
static void share_cores(const record *all, int n, int process, dt_processes *processes) {
    int n_sharing = 0, index = 0;
    for (int p = 0; p < n; p++) {
        if (all[p].machine != all[process].machine) continue;
        index += p < process;
        n_sharing++;
    }
    dt_cpu_take_share(index, n_sharing);
    dt_processes_take_cores(processes);
}

dt_status *dt_rendezvous(const dt_artifact *artifact, const void *bytes, size_t n_bytes, const char *command, const dt_kernels_options *kernels,
                         const dt_run_options *run, const char **level, dt_text *note) {
    int n = dt_processes_count(run->processes), process = dt_processes_number(run->processes);
    uint64_t hash = DT_HASH_SEED;
    *level = NULL;
    if (n == 1) return NULL;
    if (bytes != NULL) hash = dt_hash_bytes(bytes, n_bytes, hash);
    if (bytes == NULL) DT_TRY(dt_file_hash(artifact->path, &hash)); /* code and constants that were altered would be run */
    record *all = dt_allocate_zeroed((size_t)n, sizeof *all);
    if (all == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    all[process] = record_of(artifact, hash, command, kernels, run);
    dt_status *status = dt_processes_allgather(run->processes, all, sizeof *all, &(dt_step_context){.step = "rendezvous"});
    if (status == NULL) status = compare_all(run->processes, all, n);
    if (status == NULL) agree_on_level(all, n, process, level, note);
    if (status == NULL) share_cores(all, n, process, run->processes);
    dt_release(all);
    return status;
}
