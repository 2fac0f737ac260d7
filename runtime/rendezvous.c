/* rendezvous: see rendezvous.h. */
#include "runtime/rendezvous.h"

#include "abi/version.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/memory.h"
#include "runtime/devices/spec.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* What a process says of itself. X(type and name, what a message calls it, how it is printed, its value): what must be the same. */
#define COMPARED(X)                                                                                                                                  \
    X(char version[24], "is dtrun", "%s", record->version)                                                                                           \
    X(char program[24], "runs the program with hash", "%s", record->program)                                                                         \
    X(uint64_t artifact, "has an artifact whose bytes have hash", "%016" PRIx64, record->artifact)                                                   \
    X(char command[16], "runs", "dtrun %s", record->command)                                                                                         \
    X(char devices[8], "computes on --devices", "%s", record->devices)                                                                               \
    X(int64_t replicas, "has --replicas", "%" PRId64, record->replicas)                                                                              \
    X(int64_t global_batch, "has --global-batch", "%" PRId64, record->global_batch)                                                                  \
    X(int64_t seed, "has --seed", "%" PRId64, record->seed)                                                                                          \
    X(int64_t epochs, "has --epochs", "%" PRId64, record->epochs)                                                                                    \
    X(int64_t max_steps, "has --max-steps", "%" PRId64, record->max_steps)                                                                           \
    X(int64_t checkpoint_every, "has --checkpoint-every", "%" PRId64, record->checkpoint_every)                                                      \
    X(int64_t has_checkpoints, "has a --checkpoint-dir (1) or none (0):", "%" PRId64, record->has_checkpoints)                                       \
    X(int64_t resumes, "goes on with --resume (1) or does not (0):", "%" PRId64, record->resumes)                                                    \
    X(int64_t fast_sums, "has --reduce=fast (1) or exact (0):", "%" PRId64, record->fast_sums)                                                       \
    X(int64_t no_libraries, "has --library=none (1) or auto (0):", "%" PRId64, record->no_libraries)                                                 \
    X(int64_t central, "has --placement=central (1) or mirrored (0):", "%" PRId64, record->central)                                                  \
    X(int64_t shard_optimizer, "has --shard-optimizer (1) or does not (0):", "%" PRId64, record->shard_optimizer)                                    \
    X(int64_t by_rows, "has --rows (1), --lazy-rows (2) or neither (0):", "%" PRId64, record->by_rows)                                               \
    X(int64_t no_data_check, "has --no-data-check (1) or does not (0):", "%" PRId64, record->no_data_check)                                          \
    X(int64_t timeline_steps, "has --timeline-steps (0: none):", "%" PRId64, record->timeline_steps)                                                 \
    X(int64_t logs, "has --log-dir (1) or does not (0):", "%" PRId64, record->logs)                                                                  \
    X(uint64_t flags,                                                                                                                                \
      "has other options: --set, --bad-index, --init, --map, --allow-missing, --keep-best, --stop-after-no-gain or --reduce-on-plateau:",            \
      "%" PRIx64, record->flags)

typedef struct record {
#define X(declaration, meaning, format, value) declaration;
    COMPARED(X)
#undef X
    int64_t level;    /* the best that runs there; 0: one is named, or none does */
    uint64_t machine; /* where processes have the same number, they may use the same cores */
} record;

_Static_assert(sizeof(record) <= DT_RECORD_BYTES, "a record has room for what is compared");

static uint64_t mix_text(uint64_t hash, const char *text) { return text != NULL ? dt_hash_bytes(text, strlen(text) + 1, hash) : hash; }

/* The machine, and the cores of it that this process may use. */
static uint64_t machine(void) {
    struct utsname system;
    cpu_set_t cores;
    uint64_t hash = DT_HASH_SEED;
    if (uname(&system) == 0) hash = mix_text(hash, system.nodename);
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

static record record_of(const dt_artifact *artifact, const char *command, const dt_kernels_options *kernels, const dt_run_options *run) {
    record made = {.replicas = run->replicas,
                   .global_batch = run->global_batch,
                   .seed = run->seed,
                   .epochs = run->epochs,
                   .max_steps = run->max_steps,
                   .checkpoint_every = run->checkpoint_every,
                   .has_checkpoints = run->checkpoint_dir != NULL,
                   .resumes = run->resume,
                   .fast_sums = run->fast_sums,
                   .no_libraries = run->no_libraries,
                   .central = run->central,
                   .shard_optimizer = run->shard_optimizer,
                   .by_rows = run->by_rows,
                   .no_data_check = run->no_data_check,
                   .timeline_steps = run->timeline_steps,
                   .logs = run->log_dir != NULL,
                   .level = kernels->level == NULL ? dt_kernels_best_level(artifact) : 0,
                   .machine = machine()};
    made.flags = dt_hash_bytes(&run->stop_after_no_gain, sizeof run->stop_after_no_gain, DT_HASH_SEED);
    made.flags = dt_hash_bytes(&run->ignore_bad_index, sizeof run->ignore_bad_index, made.flags);
    bool weights[] = {run->init != NULL, run->map != NULL, run->allow_missing};
    made.flags = dt_hash_bytes(weights, sizeof weights, made.flags);
    made.flags = mix_text(mix_text(mix_text(mix_text(made.flags, run->keep_best), run->step), run->from), kernels->level);
    made.flags = mix_text(made.flags, run->plateau);
    for (int i = 0; i < run->n_launch_values; i++) made.flags = mix_text(made.flags, run->launch_values[i]);
    snprintf(made.version, sizeof made.version, "%s", DT_VERSION);
    snprintf(made.program, sizeof made.program, "%s", artifact->program_hash);
    snprintf(made.command, sizeof made.command, "%s", command);
    print_kind(run->devices, made.devices, sizeof made.devices);
    return made;
}

/* The first thing in which process p is not as process 0, in words that all processes find alike. */
static dt_status *compare(const dt_processes *processes, const record *all, int p) {
    char here[64], there[64], name[160];
    dt_processes_print_name(processes, p, name, sizeof name);
#define X(declaration, meaning, format, value)                                                                                                       \
    for (const record *record = &all[0]; record != NULL; record = NULL) snprintf(there, sizeof there, format, value);                                \
    for (const record *record = &all[p]; record != NULL; record = NULL) snprintf(here, sizeof here, format, value);                                  \
    if (strcmp(here, there) != 0)                                                                                                                    \
        return dt_error(DT_FAILED_PRECONDITION, "%s %s %s, process 0 %s: all processes of a run are started alike", name, meaning, here, there);
    COMPARED(X)
#undef X
    return NULL;
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
static void agree_on_level(const record *all, int n, int process, dt_agreement *agreed, dt_text *note) {
    int64_t least = all[0].level, most = all[0].level;
    for (int p = 1; p < n; p++) {
        if (all[p].level < least) least = all[p].level;
        if (all[p].level > most) most = all[p].level;
    }
    if (least == most || least == 0) return; /* 0: some have none, and say so themselves */
    agreed->level = dt_cpu_level_name((int)least);
    if (process == 0) dt_text_format(note, "all processes run the code for %s: not all machines can run better code", agreed->level);
}

/* Those who may use the same cores have each its own from now on. */
static void share_cores(const record *all, int n, int process, dt_processes *processes, dt_agreement *agreed) {
    int n_sharing = 0, index = 0;
    for (int p = 0; p < n; p++) {
        if (all[p].machine != all[process].machine) continue;
        index += p < process;
        n_sharing++;
    }
    dt_cpu_take_share(index, n_sharing);
    dt_processes_take_cores(processes);
    agreed->n_cores = dt_cpu_n_cores();
}

dt_status *dt_rendezvous(const dt_artifact *artifact, const void *bytes, size_t n_bytes, const char *command, const dt_kernels_options *kernels,
                         const dt_run_options *run, dt_agreement *agreed, dt_text *note) {
    int n = dt_processes_count(run->processes), process = dt_processes_number(run->processes);
    uint64_t hash = DT_HASH_SEED;
    *agreed = (dt_agreement){.n_cores = dt_cpu_n_cores()};
    if (n == 1) return NULL;
    if (bytes != NULL) hash = dt_hash_bytes(bytes, n_bytes, hash);
    if (bytes == NULL) DT_TRY(dt_file_hash(artifact->path, &hash)); /* code and constants that were altered would be run */
    record *all = dt_allocate_zeroed((size_t)n, sizeof *all);
    if (all == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    all[process] = record_of(artifact, command, kernels, run);
    all[process].artifact = hash;
    dt_status *status = dt_processes_gather(run->processes, all, sizeof *all, &(dt_step_context){.step = "rendezvous"});
    if (status == NULL) status = compare_all(run->processes, all, n);
    if (status == NULL) agree_on_level(all, n, process, agreed, note);
    if (status == NULL) share_cores(all, n, process, run->processes, agreed);
    dt_release(all);
    return status;
}
