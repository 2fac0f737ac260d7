/* options: see options.h. */
#include "runtime/options.h"

#include "base/memory.h"
#include "base/option_names.h"
#include "base/options.h"
#include "base/text.h"
#include "include/dtrt.h"
#include "runtime/option_rows.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows ---- */

#define DT_ROWS_OF dt_run_options
#define ALIKE(words) .alike = (words)
#define ALIKE_OTHERS .alike = ""
#define IN_SESSION(name) .in[DT_OF_SESSION] = offsetof(dtrt_session_options, name)
#define IN_TRAIN(name) .in[DT_OF_TRAIN] = offsetof(dtrt_train_options, name)
#define IN_PREDICT(name) .in[DT_OF_PREDICT] = offsetof(dtrt_predict_options, name)
#define IN_GENERATE(name) .in[DT_OF_GENERATE] = offsetof(dtrt_generate_options, name)
#define IN_DATA(name) .in[DT_OF_DATA] = offsetof(dtrt_data_options, name)
#define IN_INFO(name) .in[DT_OF_INFO] = offsetof(dtrt_info_options, name)
#define IN_RUNS(name)                                                                                                                                \
    IN_TRAIN(name), IN_PREDICT(name), IN_DATA(name), .in[DT_OF_EVALUATE] = offsetof(dtrt_evaluate_options, name),                                    \
                                                     .in[DT_OF_BENCH] = offsetof(dtrt_bench_options, name)

const dt_option dt_run_option_rows[] = {
    {DT_FOR_RUNS | DT_FOR_GENERATE, "set", "NAME=VALUE", 1,
     "A value of the program's `launch` declarations, as often as there are some (default: the checkpoint's, or else the program's)",
     LIST(launch_values, n_launch_values), ALIKE_OTHERS},
    {DT_FOR_READS | DT_FOR_WORKER, "data", "FOLDER", 1, "Where the data files are (default: the current folder)", PATH(data), IN_SESSION(data)},
    {DT_FOR_RUNS, "step", "NAME", 1, "The step to run (default: the command's name)", TEXT(step), ALIKE_OTHERS, IN_RUNS(step), IN_GENERATE(step)},
    {DT_FOR_DATA, "step", "NAME", 1, "The step whose inputs are written (default: train)", TEXT(step)},
    {DT_FOR_DATA, "batches", "N", 1, "How many, going on into the next epoch (default: those of one epoch)", WHOLE(n_batches, 1), IN_DATA(n_batches)},
    {DT_FOR_DATA, "epoch", "N", 1, "The epoch to begin with, from 1 (default: 1)", WHOLE(epoch, 1), DEFAULT(1), IN_DATA(epoch)},
    {DT_FOR_BENCH, "data", "FOLDER", 1, "Run on the step's data, with the files of this folder (default: made-up input)", PATH(data)},
    {DT_FOR_BENCH, "step", "NAME", 1, "The step to run (default: train)", TEXT(step)},
    {DT_FOR_GENERATE, "prompt", "TEXT", 1, "How the text begins; its bytes are taken as they are", TEXT(prompt), IN_GENERATE(prompt)},
    {DT_FOR_GENERATE, "length", "N", 1, "Bytes to make (default: 200)", WHOLE(length, 1), DEFAULT(200), IN_GENERATE(length)},
    {DT_FOR_GENERATE, "temperature", "X", 1, "0: always the likeliest byte; 1: as likely as the model says (default); more: more daring",
     NUMBER(temperature), DEFAULT(1), SAID(has_temperature)},
    {DT_FOR_GENERATE, "seed", "N", 1, "Of the random numbers (default: 0)", WHOLE(seed, INT64_MIN), SAID(has_seed)},
    {DT_FOR_GENERATE, "step", "NAME", 1, "The step to run (default: sample)", TEXT(step)},
    {DT_FOR_STEPS | DT_FOR_DATA, "from", "DATA", 1, "The program's data to run it over (default: the step's own)", TEXT(from), ALIKE_OTHERS,
     IN_RUNS(from)},
    {DT_FOR_TRAINS, "epochs", "N", 1, "Passes over the data (default: 1, or as many as --max-steps needs)", WHOLE(epochs, 1), ALIKE("has --epochs"),
     IN_TRAIN(epochs)},
    {DT_FOR_TRAINS, "max-steps", "N", 1, "End after step N of the whole training, resumed or not; 0 writes the initial weights as a checkpoint",
     WHOLE(max_steps, 0), DEFAULT(-1), ALIKE("has --max-steps"), IN_TRAIN(max_steps)},
    {DT_FOR_TRAINS, "stop-after-no-gain", "N", 1, "End when N epochs in a row bring no gain in what --keep-best names (default: the first report)",
     WHOLE(stop_after_no_gain, 1), ALIKE_OTHERS, IN_TRAIN(stop_after_no_gain)},
    {DT_FOR_TRAINS, "check-numerics", NULL, 1,
     "Stop at the first NaN or infinity, and say which kernel made it, of which lines. On one core, and slower: for finding mistakes",
     FLAG(check_numerics), ALIKE_OTHERS, IN_SESSION(check_numerics)},
    {DT_FOR_TRAINS, "reduce-on-plateau", "STEP.REPORT:NAME[,KEY=VALUE]", 1,
     "Multiply a launch value by factor when more than patience epochs in a row bring no gain in a report: evaluate.loss:rate,patience=3 (default: "
     "factor=0.1, patience=10, min=0, cooldown=0, threshold=1e-4)",
     TEXT(plateau), ALIKE_OTHERS, IN_TRAIN(reduce_on_plateau)},
    {DT_FOR_STEPS, "seed", "N", 1, "Of the initial weights, the order of examples and all random numbers (default: 0, resumed: the checkpoint's)",
     WHOLE(seed, INT64_MIN), SAID(has_seed), ALIKE("has --seed"), IN_SESSION(seed)},
    {DT_FOR_DATA, "seed", "N", 1, "Of the order of examples and of random numbers (default: 0)", WHOLE(seed, INT64_MIN), SAID(has_seed)},
    {DT_FOR_READS, "bad-index", "error|ignore", 1, "What an index out of range is (default: error). Ignored ones are counted",
     CHOICE(ignore_bad_index), ALIKE_OTHERS, IN_SESSION(ignore_bad_index)},
    {DT_FOR_TRAINS | DT_FOR_EVALUATE, "no-data-check", NULL, 1,
     "Where there are several processes, do not compare the examples that they read (default: each with what process 0 has there)",
     FLAG(no_data_check), ALIKE("has --no-data-check (1) or does not (0):"), IN_SESSION(no_data_check)},
    {DT_FOR_PREDICT, "input", "FILE", 1, "A .npy or IDX file, gzipped or not; one for each input of the step, in order", LIST(inputs, n_inputs)},
    {DT_FOR_PREDICT | DT_FOR_DATA, "output", "FOLDER", 1, "Where the results go, one .npy each", PATH(output), .letter = 'o', IN_PREDICT(output),
     IN_DATA(output)},
    {DT_FOR_PREDICT, "png", "FOLDER", 1,
     "Where results that are pictures go, one .png for each example: [B, H, W] or [B, H, W, 1|3] of u8, or of f32 from 0 to 1, or from -1 to 1",
     PATH(png), IN_PREDICT(png)},
    {DT_FOR_COMPUTES | DT_FOR_WORKER, "devices", "DEVICES", 2,
     "What to run on, as `dtrun devices` lists them: cpu:D or cpu:DxT, D devices of T cores; cuda, all GPUs; cuda:0,3, GPUs by number (default: cpu, "
     "one of all cores)",
     TEXT(devices)},
    {DT_FOR_RUNS | DT_FOR_GENERATE | DT_FOR_WORKER, "deadline", "SECONDS", 2,
     "How long devices wait for one another, and a step for its device, before the run fails (default: 600); and, where there are several processes, "
     "how long one may be waited for without getting on (default: 60)",
     SECONDS(deadline_seconds, 1), IN_SESSION(deadline_seconds)},
    {DT_FOR_COMPUTES | DT_FOR_WORKER, "library", "auto|none", 2,
     "On a GPU, whether cuBLASLt and cuDNN do what they can of it, or generated code does all (default: auto). Results differ by rounding",
     CHOICE(no_libraries), ALIKE("has --library=none (1) or auto (0):"), IN_SESSION(no_libraries)},
    {DT_FOR_STEPS, "reduce", "exact|fast", 2,
     "Over processes, whether sums have the same bits whoever holds which replica, or are left to MPI or NCCL (default: exact)", CHOICE(fast_sums),
     ALIKE("has --reduce=fast (1) or exact (0):"), IN_SESSION(fast_sums)},
    {DT_FOR_STEPS & ~DT_FOR_SERVED, "placement", "mirrored|central", 2,
     "Of several devices, whether each has and updates the variables, or the first one alone has the optimizer's states and updates, and the others "
     "compute (default: mirrored). Same bits, same checkpoints",
     CHOICE(central), ALIKE("has --placement=central (1) or mirrored (0):")},
    {DT_FOR_TRAINS | DT_FOR_BENCH, "shard-optimizer", NULL, 2,
     "Over processes, each keeps a share of the optimizer's states and updates what they belong to (ZeRO-1). Same bits, same checkpoints",
     FLAG(shard_optimizer), ALIKE("has --shard-optimizer (1) or does not (0):"), IN_SESSION(shard_optimizer), IN_INFO(shard_optimizer)},
    {DT_FOR_STEPS & ~DT_FOR_SERVED, "shard-parameters", NULL, 2,
     "Over processes, each keeps a share of the parameters and the optimizer's states, and gathers those of a layer when it computes it (ZeRO-3, "
     "FSDP). On CPUs, and on GPUs that NCCL connects. Same bits, same checkpoints",
     FLAG(shard_parameters), ALIKE("has --shard-parameters (1) or does not (0):"), IN_SESSION(shard_parameters), IN_INFO(shard_parameters)},
    {DT_FOR_STEPS & ~DT_FOR_SERVED, "gather-rounds", "N", 2,
     "With --shard-parameters: a core's microbatches go through the layers in N rounds, each of which gathers the parameters anew. More rounds take "
     "less memory for activations, and more traffic (default: as few as memory allows)",
     WHOLE(gather_rounds, 1), ALIKE("has --gather-rounds"), IN_SESSION(gather_rounds), IN_INFO(gather_rounds)},
    {DT_FOR_STEPS & ~DT_FOR_SERVED, "shards-over", "K", 2,
     "Of a program with `mesh model = M`: K processes have M / K shards each of the model, and compute the same examples; K divides M (default: 1, "
     "each process has all shards). Same bits, same checkpoints",
     WHOLE(shards_over, 1), ALIKE("has --shards-over (0: none):"), IN_SESSION(shards_over), IN_INFO(shards_over)},
    {DT_FOR_STEPS & ~DT_FOR_SERVED, "stages", "S", 2,
     "Cut the layers of the model into S stages, one behind the other: each process has the layers of one, and microbatches go from stage to stage "
     "(default: 1, each process has all layers). Same bits, same checkpoints",
     WHOLE(stages, 1), ALIKE("has --stages (0: none):"), IN_SESSION(stages), IN_INFO(stages)},
    {DT_FOR_TRAINS, "rows", NULL, 2,
     "On CPUs, of a table of which steps take rows alone, update the rows that a batch names (`dtrun info` says of which). Same bits",
     LEVEL(by_rows, DT_BY_ROWS_EXACTLY), ALIKE("has --rows (1), --lazy-rows (2) or neither (0):")},
    {DT_FOR_TRAINS, "lazy-rows", NULL, 2,
     "The same where the optimizer changes rows without a gradient as well, as Adam does: such a row changes when a batch names it. Other bits",
     LEVEL(by_rows, DT_BY_ROWS_LAZILY)},
    {DT_FOR_STEPS | DT_FOR_DATA, "replicas", "V", 2, "Shards of the global batch, dealt to the devices (default: 1, resumed: the checkpoint's)",
     WHOLE(replicas, 1), ALIKE("has --replicas"), IN_SESSION(replicas), IN_INFO(replicas)},
    {DT_FOR_STEPS | DT_FOR_DATA, "global-batch", "N", 2,
     "Examples a step, over all replicas (default: batch(n) of the data, or the most that fit, for each replica)", WHOLE(global_batch, 1),
     ALIKE("has --global-batch"), IN_SESSION(global_batch), IN_INFO(global_batch)},
    {DT_FOR_RUNS | DT_FOR_GENERATE, "checkpoint-dir", "FOLDER", 3, "Where checkpoints are", PATH(checkpoint_dir),
     ALIKE("has a --checkpoint-dir (1) or none (0):"), IN_TRAIN(checkpoint_dir)},
    {DT_FOR_TRAINS, "checkpoint-every", "N", 3,
     "Write one every N steps too, not only at the end of each epoch and of the run. The training goes on meanwhile: it keeps a copy in "
     "memory of what it writes",
     WHOLE(checkpoint_every, 1), ALIKE("has --checkpoint-every"), IN_TRAIN(checkpoint_every)},
    {DT_FOR_TRAINS, "keep", "K", 3, "Keep the newest K checkpoints (default: 3)", WHOLE(keep, 1), IN_TRAIN(keep)},
    {DT_FOR_TRAINS, "keep-best", "STEP.REPORT", 3,
     "Keep the best one too, by this report: evaluate.accuracy, or evaluate.recall[2] of a vector. Larger is better, unless the name holds loss, "
     "error or perplexity; min: or max: before it decides",
     TEXT(keep_best), ALIKE_OTHERS, IN_TRAIN(keep_best)},
    {DT_FOR_TRAINS, "resume", NULL, 3, "Go on from the newest checkpoint, in the middle of an epoch too", FLAG(resume), .is_own = true,
     ALIKE("goes on with --resume (1) or does not (0):"), IN_TRAIN(resume)},
    {DT_FOR_RUNS | DT_FOR_GENERATE, "init", "FILE", 3, "Take parameters and states from a .safetensors file, or from one checkpoint", PATH(init),
     ALIKE_OTHERS},
    {DT_FOR_RUNS | DT_FOR_GENERATE | DT_FOR_EXPORT, "map", "FILE", 3,
     "Rules that say which tensor is which variable, and how its axes lie (default: by name)", PATH(map), ALIKE_OTHERS},
    {DT_FOR_RUNS | DT_FOR_GENERATE, "allow-missing", NULL, 3, "What --init does not give keeps its initial value (default: an error)",
     FLAG(allow_missing), ALIKE_OTHERS},
    {DT_FOR_EXPORT, "allow-missing", NULL, 3, "What the map has no rule for is left out (default: an error)", FLAG(allow_missing)},
    {DT_FOR_EXPORT, "output", "FILE", 3, "Where they go", PATH(output), .letter = 'o'},
    {DT_FOR_REPORT, "output", "FILE", 1, "Where the page goes (default: report.html)", PATH(output), .letter = 'o'},
    {DT_FOR_TRAINS, "log-every", "N", 4, "Say the reports of every N-th step (default: 100; 0: never)", WHOLE(log_every, 0), IN_TRAIN(log_every)},
    {DT_FOR_TRAINS, "log-dir", "FOLDER", 4,
     "Write what happens there too: event files for TensorBoard, and run.jsonl for `dtrun report`. With --resume the run goes on there",
     PATH(log_dir), ALIKE("has --log-dir (1) or does not (0):"), IN_TRAIN(log_dir)},
    {DT_FOR_TRAINS, "log-histograms", "N", 4, "With --log-dir: histograms of the weights after every N-th epoch", WHOLE(log_histograms, 1),
     ALIKE_OTHERS, IN_TRAIN(log_histograms)},
    {DT_FOR_TRAINS | DT_FOR_EVALUATE, "timeline-steps", "N", 4,
     "How many steps the timeline has: the last N, those of evaluation included (default: 100)", WHOLE(timeline_steps, 1),
     ALIKE("has --timeline-steps (0: none):"), IN_SESSION(timeline_steps)},
    {DT_FOR_LAUNCH, "deadline", "SECONDS", 1, "How long a process may go without getting on while others wait for it (default: 60)",
     SECONDS(deadline_seconds, 1)},
    {DT_FOR_INFO, "shard-optimizer", NULL, 2, "With --processes: as `dtrun train --shard-optimizer` exchanges", FLAG(shard_optimizer)},
    {DT_FOR_INFO, "shard-parameters", NULL, 2, "With --processes: as `dtrun train --shard-parameters` exchanges", FLAG(shard_parameters)},
    {DT_FOR_INFO, "gather-rounds", "N", 2, "With --processes and --shard-parameters: as `dtrun train --gather-rounds` exchanges (default: 1)",
     WHOLE(gather_rounds, 1)},
    {DT_FOR_INFO, "shards-over", "K", 2, "With --processes: as `dtrun train --shards-over` exchanges (default: 1)", WHOLE(shards_over, 1)},
    {DT_FOR_INFO, "stages", "S", 2, "With --processes: as `dtrun train --stages` exchanges (default: 1)", WHOLE(stages, 1)},
    {DT_FOR_INFO, "flops", "F", 2,
     "With --processes: floating-point operations that one computes in a second, \"300T\", for an estimate of a step's time", NUMBER(flops),
     IN_INFO(flops)},
    {DT_FOR_INFO, "bandwidth", "B", 2, "With --flops: bytes that one sends in a second, \"25G\"", NUMBER(bandwidth), IN_INFO(bandwidth)},
    {DT_FOR_INFO, "latency", "L", 2, "With --flops: seconds that a message takes, \"5u\"", NUMBER(latency), IN_INFO(latency)},
    {DT_FOR_INFO, "replicas", "V", 2, "With --processes: shards of the global batch, dealt to them (default: 1)", WHOLE(replicas, 1)},
    {DT_FOR_INFO, "global-batch", "N", 2,
     "With --processes: examples a step, over all replicas (default: batch(n) of the data, or the most that fit, for each replica)",
     WHOLE(global_batch, 1)},
    {DT_FOR_INFO, "devices", "cpu|cuda", 2, "With --processes: on GPUs a replica is one microbatch (default: cpu)", TEXT(devices)},
};
const int dt_n_run_options = sizeof dt_run_option_rows / sizeof *dt_run_option_rows;

static const char *const struct_names[DT_N_OPTION_STRUCTS] = {
    [DT_OF_SESSION] = "dtrt_session_options", [DT_OF_TRAIN] = "dtrt_train_options",       [DT_OF_EVALUATE] = "dtrt_evaluate_options",
    [DT_OF_PREDICT] = "dtrt_predict_options", [DT_OF_GENERATE] = "dtrt_generate_options", [DT_OF_DATA] = "dtrt_data_options",
    [DT_OF_BENCH] = "dtrt_bench_options",     [DT_OF_INFO] = "dtrt_info_options"};

void dt_options_set_defaults(const dt_option *rows, int n, void *options) {
    for (int i = 0; i < n; i++) {
        void *member = (char *)options + rows[i].member;
        if (rows[i].otherwise != 0 && rows[i].kind == DT_OPTION_WHOLE) *(int64_t *)member = rows[i].otherwise;
        if (rows[i].otherwise != 0 && rows[i].kind == DT_OPTION_NUMBER) *(double *)member = (double)rows[i].otherwise;
    }
}

/* ---- as they are typed ---- */

static dt_status *read_whole(const dt_option *option, const char *text, int64_t *value) {
    char *end;
    errno = 0;
    int64_t least = option->kind == DT_OPTION_COUNT ? 1 : option->least;
    *value = strtoll(text, &end, 10);
    if (end != text && *end == 0 && errno == 0 && *value >= least) return NULL;
    if (least == INT64_MIN) return dt_error(DT_INVALID_ARGUMENT, "--%s takes a whole number, not %s", option->name, text);
    return dt_error(DT_INVALID_ARGUMENT, "--%s takes a whole number, %" PRId64 " or more, not %s", option->name, least, text);
}

/* "300T": a number may have a prefix of SI behind it. */
static dt_status *read_number(const dt_option *option, const char *text, double *value) {
    static const char prefixes[] = "pnum kMGTP"; /* from 1e-12 on */
    char *end;
    *value = strtod(text, &end);
    const char *prefix = end != text && *end != 0 && *end != ' ' ? strchr(prefixes, *end) : NULL;
    if (prefix != NULL) end++;
    for (int p = 4; prefix != NULL && p < prefix - prefixes; p++) *value *= 1000;
    for (int p = 4; prefix != NULL && p > prefix - prefixes; p--) *value /= 1000;
    if (end != text && *end == 0 && *value >= 0 && *value <= FLT_MAX) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--%s takes a number, 0 or more, not %s", option->name, text);
}

static dt_status *read_choice(const dt_option *option, const char *text, bool *is_second) {
    const char *second = strchr(option->argument, '|') + 1;
    int n_first = (int)(second - option->argument) - 1;
    *is_second = strcmp(text, second) == 0;
    if (*is_second || (strncmp(text, option->argument, (size_t)n_first) == 0 && text[n_first] == 0)) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--%s takes %s or %.*s, not %s", option->name, second, n_first, option->argument, text);
}

static dt_status *append(const char *text, const char ***list, int *n) {
    const char **longer = dt_reallocate((void *)(uintptr_t)*list, ((size_t)*n + 1) * sizeof *longer);
    if (longer == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    longer[(*n)++] = text;
    *list = longer;
    return NULL;
}

dt_status *dt_option_read(const dt_option *option, void *options, const char *text) {
    void *member = (char *)options + option->member, *said = (char *)options + option->said;
    int64_t number = 0;
    if (option->kind == DT_OPTION_WHOLE || option->kind == DT_OPTION_COUNT || option->kind == DT_OPTION_SECONDS)
        DT_TRY(read_whole(option, text, &number));
    if (option->kind == DT_OPTION_COUNT && number > option->most)
        return dt_error(DT_INVALID_ARGUMENT, "--%s takes at most %" PRId64 ", not %s", option->name, option->most, text);
    if (option->said != 0 && option->kind != DT_OPTION_LIST) *(bool *)said = true;
    switch (option->kind) {
    case DT_OPTION_FLAG: *(bool *)member = true; return NULL;
    case DT_OPTION_CHOICE: return read_choice(option, text, member);
    case DT_OPTION_LEVEL:
        if (*(dt_by_rows *)member < option->least) *(dt_by_rows *)member = (dt_by_rows)option->least;
        return NULL;
    case DT_OPTION_LIST: return append(text, member, said);
    case DT_OPTION_WHOLE: *(int64_t *)member = number; return NULL;
    case DT_OPTION_COUNT: *(int *)member = (int)number; return NULL;
    case DT_OPTION_SECONDS: *(double *)member = (double)number; return NULL;
    case DT_OPTION_NUMBER: return read_number(option, text, member);
    default: *(const char **)member = text; return NULL;
    }
}

bool dt_option_is_told(const dt_option *option) {
    return (option->takes & DT_FOR_TRAINS) == DT_FOR_TRAINS && !(option->takes & DT_FOR_WORKER) && !option->is_own;
}

/* ---- as include/dtrt.h has them ---- */

/* What is less than nothing, as the caller of a library names it. */
static dt_status *refuse(const dt_option *option, const char *name, int64_t number) {
    char typed[64], member[64];
    snprintf(typed, sizeof typed, "--%s", option->name);
    size_t n = dt_option_names_to_members(typed, member) - sizeof "``";
    return dt_error(DT_INVALID_ARGUMENT, "%s.%.*s is %" PRId64, name, (int)n, member + 1, number);
}

static dt_status *take(const dt_option *option, const char *name, const void *given, void *member) {
    int64_t number;
    switch (option->kind) {
    case DT_OPTION_FLAG:
    case DT_OPTION_CHOICE: *(bool *)member = *(const int *)given != 0; return NULL;
    case DT_OPTION_WHOLE:
        number = *(const int64_t *)given;
        if (number != 0) *(int64_t *)member = number;
        return number >= 0 || option->least < 0 ? NULL : refuse(option, name, number);
    case DT_OPTION_SECONDS:
        *(double *)member = *(const double *)given;
        return *(double *)member >= 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "a deadline of %g seconds", *(double *)member);
    case DT_OPTION_NUMBER:
        *(double *)member = *(const double *)given;
        if (*(double *)member >= 0 && *(double *)member <= FLT_MAX) return NULL;
        return dt_error(DT_INVALID_ARGUMENT, "%s: %s is %g; it is a number, 0 or more", name, option->name, *(double *)member);
    default: *(const char **)member = *(const char *const *)given; return NULL;
    }
}

dt_status *dt_run_options_take(dt_option_struct of, const void *read, dt_run_options *options) {
    for (const dt_option *row = dt_run_option_rows; row < dt_run_option_rows + dt_n_run_options; row++)
        if (row->in[of] != 0) DT_TRY(take(row, struct_names[of], (const char *)read + row->in[of], (char *)options + row->member));
    return NULL;
}

dt_status *dt_run_options_read(dt_option_struct of, const void *given, void *read, size_t bytes, dt_run_options *options) {
    DT_TRY(dt_options_read(given, read, bytes, struct_names[of]));
    return dt_run_options_take(of, read, options);
}

/* ---- whether they are alike ---- */

static int64_t mix(uint64_t hash, const char *text) { return (int64_t)(text != NULL ? dt_hash_bytes(text, strlen(text) + 1, hash) : hash); }

int64_t dt_option_number(const dt_option *option, const dt_run_options *options) {
    const void *member = (const char *)options + option->member;
    int64_t hash = (int64_t)DT_HASH_SEED;
    switch (option->kind) {
    case DT_OPTION_FLAG:
    case DT_OPTION_CHOICE: return *(const bool *)member;
    case DT_OPTION_LEVEL: return *(const dt_by_rows *)member;
    case DT_OPTION_WHOLE: return *(const int64_t *)member;
    case DT_OPTION_PATH: return *(const char *const *)member != NULL;
    case DT_OPTION_LIST:
        for (int i = 0; i < *(const int *)((const char *)options + option->said); i++)
            hash = mix((uint64_t)hash, (*(const char *const *const *)member)[i]);
        return hash;
    case DT_OPTION_COUNT: return *(const int *)member;
    case DT_OPTION_SECONDS:
    case DT_OPTION_NUMBER: return (int64_t)dt_hash_bytes(member, sizeof(double), DT_HASH_SEED);
    default: return mix(DT_HASH_SEED, *(const char *const *)member);
    }
}

uint64_t dt_run_options_hash(dt_option_struct of, const dt_run_options *options) {
    uint64_t hash = DT_HASH_SEED;
    for (const dt_option *row = dt_run_option_rows; row < dt_run_option_rows + dt_n_run_options; row++) {
        int64_t number = row->in[of] != 0 && row->alike != NULL ? dt_option_number(row, options) : 0;
        hash = dt_hash_bytes(&number, sizeof number, hash);
    }
    return hash;
}
