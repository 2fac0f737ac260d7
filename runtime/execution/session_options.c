/* session_options: what a session may be asked for, before there is one. See session.h. */
#include "abi/reduction.h"
#include "base/text.h"
#include "runtime/execution/session.h"
#include "runtime/execution/stages.h"

#include <inttypes.h>
#include <stdio.h>

static const double DEFAULT_DEADLINE_SECONDS = 600;
enum {
    MOST_REPLICAS = 1 << 20,
    MOST_MICROBATCHES = 1 << 24,
    MOST_ROUNDS = 1 << 10
};
/* The depth of a reduction depends on the number of microbatches: on a GPU these are as many as replicas, for a plan for GPUs has one a replica. */
_Static_assert(MOST_REPLICAS <= 1 << DT_REDUCTION_DEPTH, "a GPU's reduction has room for the sums of all replicas");

dt_session_options dt_session_options_default(void) {
    return (dt_session_options){.devices = "cpu", .replicas = 1, .epochs = 1, .deadline_seconds = DEFAULT_DEADLINE_SECONDS};
}

dt_status *dt_session_program(const dt_artifact *artifact, bool is_gpu, const dt_artifact **program) {
    *program = artifact;
    if (!is_gpu) return NULL;
    if (artifact->cuda == NULL)
        return dt_artifact_suggest(dt_error(DT_FAILED_PRECONDITION, "%s holds no code for GPUs; compile it for them", artifact->path), artifact,
                                   "--target", "cuda");
    *program = artifact->cuda->program;
    return NULL;
}

dt_status *dt_session_check_shape(const dt_artifact *artifact, int64_t replicas, int64_t rows) {
    if (replicas < 1 || replicas > MOST_REPLICAS)
        return dt_error(DT_INVALID_ARGUMENT, "--replicas %" PRId64 ": the number of replicas is 1 to %d", replicas, MOST_REPLICAS);
    if (rows < 1) return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " rows a replica: there must be at least one", rows);
    if (rows > artifact->capacity) {
        char wanted[24];
        snprintf(wanted, sizeof wanted, "%" PRId64, rows);
        dt_status *status = dt_error(DT_INVALID_ARGUMENT, "%s rows a replica, but %s was compiled for at most %" PRId64 "; compile it again", wanted,
                                     artifact->path, artifact->capacity);
        return dt_artifact_suggest(status, artifact, "--batch", wanted);
    }
    if (dt_artifact_microbatches(artifact, rows) * replicas > MOST_MICROBATCHES)
        return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " replica%s of %" PRId64 " rows in microbatches of %" PRId64 ": more than %d of them",
                        replicas, dt_plural(replicas), rows, artifact->microbatch_rows, MOST_MICROBATCHES);
    return NULL;
}

dt_status *dt_session_check_shards_over(const dt_artifact *artifact, int64_t over, int64_t n_processes) {
    if (over == 0 || over == 1) return NULL;
    if (over < 0) return dt_error(DT_INVALID_ARGUMENT, "--shards-over %" PRId64 ": it is a number of processes, from 1", over);
    if (artifact->n_shards == 1)
        return dt_error(DT_FAILED_PRECONDITION,
                        "--shards-over %" PRId64 ": the model of %s is not split into shards; write `mesh model = M` in the program, or leave the "
                        "option out",
                        over, artifact->path);
    if (artifact->n_shards % over != 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "--shards-over %" PRId64
                        ": the model of %s is split into %d shards, of which processes hold as many each; say a power of two "
                        "up to %d",
                        over, artifact->path, artifact->n_shards, artifact->n_shards);
    if (n_processes % over != 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "--shards-over %" PRId64 ": %" PRId64 " process%s cannot be divided into groups of %" PRId64
                        ", each of which has the whole model; "
                        "start %" PRId64 ", or a multiple of that: mpirun -n",
                        over, n_processes, n_processes == 1 ? "" : "es", over, over);
    return NULL;
}

/* What a run asks for, and what to do where that does not go with another option. */
typedef struct refused_option {
    bool is_asked;
    const char *name, *instead;
} refused_option;

static const refused_option *first_asked(const refused_option *all, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (all[i].is_asked) return &all[i];
    return NULL;
}

static const char *name_of_rows(dt_by_rows by_rows) { return by_rows == DT_BY_ROWS_LAZILY ? "--lazy-rows" : "--rows"; }

/* What has a part of the variables alone does not know of shards yet. */
dt_status *dt_session_check_shards(const dt_artifact *artifact, const dt_session_options *options) {
    static const char leave_out[] = "leave the option out";
    const refused_option all[] = {
        {options->central, "--placement central", leave_out},
        {options->by_rows != DT_BY_ROWS_NOT, name_of_rows(options->by_rows), leave_out},
        {dt_processes_roles(options->processes).n_servers > 0, "parameter servers", "train without servers"},
    };
    const refused_option *refused = artifact->n_shards > 1 ? first_asked(all, sizeof all / sizeof *all) : NULL;
    if (refused != NULL)
        return dt_error(DT_FAILED_PRECONDITION,
                        "%s with the model of %s, which is split into %d shards: such a model is trained by processes that each have all of it or "
                        "some of its shards; %s, or compile the program for one shard",
                        refused->name, artifact->path, artifact->n_shards, refused->instead);
    DT_TRY(dt_session_check_shards_over(artifact, options->shards_over, dt_processes_count(options->processes)));
    if (options->fast_sums && options->shards_over > 1)
        return dt_error(DT_FAILED_PRECONDITION,
                        "--reduce=fast with --shards-over %" PRId64 ": an engine adds up what all processes have; leave one of "
                        "them out",
                        options->shards_over);
    return NULL;
}

dt_status *dt_session_check_stages(const dt_session_options *options, int64_t n_processes, bool is_gpu) {
    const int64_t over = options->shards_over > 1 ? options->shards_over : 1;
    const refused_option all[] = {
        {options->shard_parameters, "--shard-parameters", "leave one of them out"},
        {options->central, "--placement central", "leave one of them out"},
        {options->by_rows != DT_BY_ROWS_NOT, name_of_rows(options->by_rows), "leave one of them out"},
        {options->fast_sums, "--reduce=fast", "leave one of them out"},
        {dt_processes_roles(options->processes).n_servers > 0, "parameter servers", "train without servers"},
        {is_gpu, "a GPU", "use --shards-over, --shard-parameters or --devices cpu"},
    };
    if (options->stages == 0 || options->stages == 1) return NULL;
    if (options->stages < 0 || options->stages > DT_MOST_STAGES)
        return dt_error(DT_INVALID_ARGUMENT, "--stages %" PRId64 ": a model is cut into 1 to %d stages", options->stages, DT_MOST_STAGES);
    const refused_option *refused = first_asked(all, sizeof all / sizeof *all);
    if (refused != NULL)
        return dt_error(DT_FAILED_PRECONDITION,
                        "--stages %" PRId64 " with %s: a model in stages is trained on CPUs, by processes that each have all "
                        "that belongs to their layers; %s",
                        options->stages, refused->name, refused->instead);
    if (n_processes % (options->stages * over) != 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "--stages %" PRId64 "%s: %" PRId64 " process%s cannot be divided so that each group has the whole model; start %" PRId64
                        ", or a multiple of that: mpirun -n",
                        options->stages, over > 1 ? " and --shards-over" : "", n_processes, n_processes == 1 ? "" : "es", options->stages * over);
    return NULL;
}

dt_status *dt_session_check_rounds(int64_t rounds, bool shards_parameters) {
    if (rounds == 0 || (rounds > 0 && rounds <= MOST_ROUNDS && shards_parameters)) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--gather-rounds %" PRId64 ": there may be 1 to %d, with --shard-parameters", rounds, MOST_ROUNDS);
}
