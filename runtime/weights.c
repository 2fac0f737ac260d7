/* weights: see weights.h. */
#include "runtime/weights.h"

#include "base/file.h"
#include "base/memory.h"
#include "runtime/artifact/type_text.h"
#include "runtime/checkpoint.h"
#include "runtime/execution/ranges.h"
#include "runtime/weight_copy.h"
#include "runtime/weight_plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_LISTED = 10 /* of what is missing, in an error */
};

/* What one call reads, to be released however it ends. */
typedef struct input {
    const dt_weights_options *options;
    dt_weights_report *report;
    dt_arena *arena;
    char *map_text; /* NULL: there is no map */
    size_t map_bytes;
    dt_safetensors *file;
    void *buffer; /* of the largest variable */
    char *place;  /* of the output */
} input;

/* What is done with the plan of all that was read. */
typedef dt_status *use_function(input *in, dt_weight_plan *plan, void *context);

void dt_weights_report_free(dt_weights_report *report) {
    dt_text_free(&report->lines);
    dt_text_free(&report->warnings);
}

static dt_status *no_memory(const input *in) { return dt_error_in(DT_RESOURCE_EXHAUSTED, in->options->path, 0, "not enough memory for its weights"); }

static const char *described(const input *in) {
    return in->options->map == NULL ? in->options->path : dt_arena_format(in->arena, "%s by %s", in->options->path, in->options->map);
}

/* ---- what is said ---- */

static void report_pieces(input *in, const dt_weight_plan *plan, const char *verb) {
    dt_text *lines = &in->report->lines;
    for (size_t t = 0; t < plan->targets.n; t++) {
        const dt_weight_target *target = &plan->targets.items[t];
        for (size_t i = 0; i < target->pieces.n; i++) {
            const dt_weight_piece *piece = &target->pieces.items[i];
            if (in->options->map == NULL && plan->sources[piece->source].dtype == target->dtype) continue;
            dt_text_format(lines, "\n  %-8s  ", verb);
            dt_weight_plan_print(plan, target, piece, lines);
        }
    }
}

static void append_target(const dt_weight_target *target, dt_text *lines) {
    dt_text_format(lines, "\n  missing   %s ", target->name);
    dt_text_append_type(lines, target->dtype, target->n_dims, target->dims);
}

static int count_missing(const dt_weight_plan *plan) {
    int n = 0;
    for (size_t t = 0; t < plan->targets.n; t++) n += plan->targets.items[t].pieces.n == 0 && !plan->targets.items[t].is_named;
    return n;
}

static void report_missing(const dt_weight_plan *plan, dt_text *lines) {
    for (size_t t = 0; t < plan->targets.n; t++) {
        const dt_weight_target *target = &plan->targets.items[t];
        if (target->pieces.n > 0) continue;
        append_target(target, lines);
        dt_text_append(lines, target->is_named ? ": keeps its initial value, as the map says" : ": keeps its initial value");
    }
}

/* Sources that are in no target, at most so many of them. Those of which a rule says so only where `all`. */
static void report_unused(const dt_weight_plan *plan, bool all, int most, dt_text *lines) {
    int n = 0;
    for (int i = 0; i < plan->n_sources; i++) {
        const dt_safetensor *source = &plan->sources[i];
        if (plan->unused[i] == NULL || (!all && *plan->unused[i] == 0) || n++ >= most) continue;
        dt_text_format(lines, "\n  not used  %s ", source->name);
        if (source->dtype != DT_N_DTYPES)
            dt_text_append_type(lines, source->dtype, source->n_dims, source->dims);
        else
            dt_text_append(lines, "(of a type that dtrun does not have)");
        dt_text_append(lines, *plan->unused[i] != 0 ? plan->unused[i] : ", as the map says");
    }
    if (n > most) dt_text_format(lines, "\n  and %d more", n - most);
}

/* Rules that are about nothing are mistyped, or for another model. */
static void warn_of_rules(input *in, const dt_weight_plan *plan) {
    for (int r = 0; r < plan->map->n_rules && plan->map->path != NULL; r++) {
        const dt_weight_rule *rule = &plan->map->rules[r];
        bool is_none = rule->sides[plan->from].is_none;
        if (plan->rule_hit[r] || (is_none && plan->from == DT_OURS)) continue;
        dt_text_format(&in->report->warnings, "%s%s:%d: %s has no tensor that is %s", in->report->warnings.n > 0 ? "\n" : "", plan->map->path,
                       rule->line, is_none ? "the program" : in->options->path, rule->sides[is_none ? !plan->from : plan->from].text);
    }
}

static void warn_of(input *in, const dt_weight_target *target, int64_t n) {
    if (n == 0) return;
    dt_text_format(&in->report->warnings, "%s%s: %lld of its elements %s infinite or no number (NaN)", in->report->warnings.n > 0 ? "\n" : "",
                   target->name, (long long)n, n == 1 ? "is" : "are");
}

static void warn_of_numbers(input *in, const dt_weight_target *target, const void *data) {
    warn_of(in, target, dt_weight_count_not_finite(target->dtype, data, dt_weight_target_elements(target)));
}

/* ---- reading ---- */

static uint64_t hash_of(const input *in) {
    uint64_t hash = dt_hash_bytes(in->file->sha256, sizeof in->file->sha256, DT_HASH_SEED);
    return in->map_text != NULL ? dt_hash_bytes(in->map_text, in->map_bytes, hash) : hash;
}

/* The arena's guard: whatever allocates from the arena runs below this function, whatever else is held is held above it. */
static dt_status *plan_guarded(input *in, dt_weight_plan *plan, use_function *use, void *context) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return no_memory(in);
    dt_arena_guard(in->arena, &guard);
    plan->arena = in->arena;
    if (in->map_text == NULL)
        plan->map = dt_weight_map_identity(in->arena);
    else
        DT_TRY(dt_weight_map_parse(in->arena, in->options->map, in->map_text, in->map_bytes, &plan->map));
    return use(in, plan, context);
}

static dt_status *read_and_use(const dt_weights_options *options, dt_weights_report *report, dt_weight_end from, use_function *use, void *context) {
    input in = {.options = options, .report = report};
    dt_weight_plan plan = {.from = from};
    *report = (dt_weights_report){0};
    dt_status *status = options->map != NULL ? dt_file_read(options->map, &in.map_text, &in.map_bytes) : NULL;
    if (status == NULL)
        status = options->bytes != NULL ? dt_safetensors_parse(options->path, options->bytes, options->n_bytes, &in.file)
                                        : dt_checkpoint_read_weights(options->path, &in.file);
    if (status == NULL && (in.arena = dt_arena_create()) == NULL) status = no_memory(&in);
    if (status == NULL) {
        plan.file = in.file;
        plan.n_sources = in.file->n;
        plan.sources = in.file->tensors;
        report->hash = hash_of(&in);
        status = plan_guarded(&in, &plan, use, context);
    }
    if (status == NULL && (report->lines.failed || report->warnings.failed)) status = no_memory(&in);
    dt_status_free(plan.refusal);
    dt_release(in.buffer);
    dt_release(in.place);
    dt_arena_destroy(in.arena);
    dt_safetensors_free(in.file);
    dt_release(in.map_text);
    return status;
}

/* ---- loading ---- */

static void add_variables(dt_weight_plan *plan, const dt_artifact *artifact) {
    for (int i = 0; i < artifact->n_variables; i++) {
        const dt_artifact_variable *variable = &artifact->variables[i];
        if (variable->kind == DT_VARIABLE_SLOT || variable->kind == DT_VARIABLE_LAUNCH) continue;
        dt_weight_target target = {.name = variable->path,
                                   .dtype = variable->tensor.dtype,
                                   .n_dims = variable->tensor.n_dims,
                                   .dims = dt_arena_copy(plan->arena, variable->tensor.dims, (size_t)variable->tensor.n_dims * sizeof(int64_t))};
        dt_list_push(plan->arena, &plan->targets, target);
    }
}

static dt_status *check_load(input *in, const dt_weight_plan *plan) {
    dt_text missing = {.arena = in->arena};
    if (plan->n_wrong > 0) return dt_error(DT_FAILED_PRECONDITION, "%s: does not fit the program:%s", described(in), plan->wrong.data);
    int n = count_missing(plan), n_listed = 0;
    if (n == 0 || in->options->allow_missing) return NULL;
    for (size_t t = 0; t < plan->targets.n && n_listed < MOST_LISTED; t++) {
        const dt_weight_target *target = &plan->targets.items[t];
        if (target->pieces.n > 0 || target->is_named) continue;
        append_target(target, &missing);
        n_listed++;
    }
    if (n > n_listed) dt_text_format(&missing, "\n  and %d more", n - n_listed);
    report_unused(plan, false, MOST_LISTED, &missing);
    return dt_error(DT_FAILED_PRECONDITION,
                    "%s: does not give all variables of the program, %d %s missing; give %s a rule in a --map, or keep initial values with "
                    "--allow-missing:%s",
                    described(in), n, n == 1 ? "is" : "are", n == 1 ? "it" : "them", missing.data);
}

/* Of some tables a process has nothing. */
static bool is_set(const dt_weight_target *target, const dt_session *session) {
    int variable = dt_artifact_find_variable(dt_session_artifact(session), target->name);
    return target->pieces.n > 0 && dt_ranges_own(session, variable).n_bytes > 0;
}

/* Where a variable's elements come from, piece by piece: of a table this process may have some rows alone, and no memory for the others. NULL: they
 * have to be made, all of them. */
static const dt_safetensor *in_pieces(const dt_weight_plan *plan, const dt_weight_target *target, const dt_session *session, int variable) {
    bool has_all = dt_ranges_own(session, variable).n_bytes == dt_session_artifact(session)->variables[variable].bytes;
    return has_all ? NULL : dt_weight_plan_same(plan, target);
}

/* Reads all of it, to warn of its numbers. */
static dt_status *set_in_pieces(input *in, dt_session *session, int variable, const dt_weight_target *target, const dt_safetensor *source) {
    int64_t n_wrong = 0;
    for (int64_t first = 0, n; first < source->n_bytes; first += n) {
        n = source->n_bytes - first < DT_FILE_PIECE_BYTES ? source->n_bytes - first : DT_FILE_PIECE_BYTES;
        DT_TRY(dt_safetensors_load_part(in->file, source, first, (size_t)n, in->buffer));
        n_wrong += dt_weight_count_not_finite(target->dtype, in->buffer, n / (int64_t)dt_dtype_bytes(target->dtype));
        DT_TRY(dt_ranges_write(session, variable, (dt_byte_range){first, n}, in->buffer));
    }
    warn_of(in, target, n_wrong);
    return NULL;
}

static dt_status *set_variable(input *in, dt_session *session, const dt_weight_plan *plan, const dt_weight_target *target) {
    int variable = dt_artifact_find_variable(dt_session_artifact(session), target->name);
    const dt_safetensor *source = in_pieces(plan, target, session, variable);
    if (source != NULL) return set_in_pieces(in, session, variable, target, source);
    DT_TRY(dt_weight_plan_fill(plan, target, in->buffer));
    warn_of_numbers(in, target, in->buffer);
    return dt_ranges_write(session, variable, (dt_byte_range){0, dt_session_artifact(session)->variables[variable].bytes}, in->buffer);
}

static dt_status *set_variables(input *in, dt_session *session, const dt_weight_plan *plan) {
    const dt_artifact *artifact = dt_session_artifact(session);
    int64_t most_bytes = DT_FILE_PIECE_BYTES;
    for (size_t t = 0; t < plan->targets.n; t++) {
        const dt_weight_target *target = &plan->targets.items[t];
        int variable = dt_artifact_find_variable(artifact, target->name);
        bool is_made = is_set(target, session) && in_pieces(plan, target, session, variable) == NULL;
        if (is_made && artifact->variables[variable].bytes > most_bytes) most_bytes = artifact->variables[variable].bytes;
    }
    in->buffer = dt_allocate((size_t)most_bytes);
    if (in->buffer == NULL) return no_memory(in);
    for (size_t t = 0; t < plan->targets.n; t++)
        if (is_set(&plan->targets.items[t], session)) DT_TRY(set_variable(in, session, plan, &plan->targets.items[t]));
    return NULL;
}

static dt_status *load(input *in, dt_weight_plan *plan, void *context) {
    dt_session *session = context;
    add_variables(plan, dt_session_artifact(session));
    dt_weight_plan_make(plan);
    DT_TRY(check_load(in, plan));
    DT_TRY(set_variables(in, session, plan));
    report_pieces(in, plan, "loaded");
    report_missing(plan, &in->report->lines);
    report_unused(plan, true, INT32_MAX, &in->report->lines);
    warn_of_rules(in, plan);
    return NULL;
}

dt_status *dt_weights_load(dt_session *session, const dt_weights_options *options, dt_weights_report *report) {
    return read_and_use(options, report, DT_THEIRS, load, session);
}

/* ---- exporting ---- */

static dt_status *check_export(input *in, const dt_weight_plan *plan) {
    dt_text unused = {.arena = in->arena};
    if (plan->n_wrong > 0) return dt_error(DT_FAILED_PRECONDITION, "%s: cannot be exported:%s", described(in), plan->wrong.data);
    if (plan->targets.n == 0) return dt_error(DT_FAILED_PRECONDITION, "%s: no rule is about any of its tensors", described(in));
    if (in->options->allow_missing) return NULL;
    report_unused(plan, false, MOST_LISTED, &unused);
    if (unused.n == 0) return NULL;
    return dt_error(DT_FAILED_PRECONDITION,
                    "%s: some of ours would be in no tensor of the new file; give them a rule, `none -> PATH` for one that is to be left out, or "
                    "leave all of them out with --allow-missing:%s",
                    described(in), unused.data);
}

static dt_status *fill_tensor(input *in, const dt_weight_plan *plan, const dt_weight_target *target, dt_safetensor *tensor) {
    int64_t n_bytes = dt_weight_target_elements(target) * (int64_t)dt_dtype_bytes(target->dtype);
    void *data = dt_arena_new(in->arena, (size_t)n_bytes);
    DT_TRY(dt_weight_plan_fill(plan, target, data));
    warn_of_numbers(in, target, data);
    *tensor = (dt_safetensor){
        .name = target->name, .dtype = target->dtype, .n_dims = target->n_dims, .dims = target->dims, .n_bytes = n_bytes, .data = data};
    return NULL;
}

/* Writes beside the place, then renames: a file that is there already is replaced by a whole one. */
static dt_status *write_whole(int n, const dt_safetensor *tensors, const char *place, const char *output, dt_arena *arena) {
    unsigned char sum[DT_SHA256_BYTES];
    const char *unfinished = dt_arena_format(arena, "%s.unfinished", place);
    dt_status *status = dt_safetensors_write(unfinished, n, tensors, sum);
    if (status == NULL && rename(unfinished, place) != 0) status = dt_file_error("rename the finished file", output);
    if (status != NULL) unlink(unfinished);
    return status;
}

static dt_status *write_output(input *in, int n, const dt_safetensor *tensors, const char *output) {
    bool is_plain;
    DT_TRY(dt_file_find_place(output, &in->place, &is_plain));
    if (!is_plain) return dt_error_in(DT_INVALID_ARGUMENT, output, 0, "is a pipe or a device: name a file for the weights");
    return write_whole(n, tensors, in->place, output, in->arena);
}

static dt_status *export(input *in, dt_weight_plan *plan, void *context) {
    dt_weight_plan_make(plan);
    DT_TRY(check_export(in, plan));
    dt_safetensor *tensors = DT_NEW_ARRAY(in->arena, dt_safetensor, plan->targets.n);
    for (size_t t = 0; t < plan->targets.n; t++) DT_TRY(fill_tensor(in, plan, &plan->targets.items[t], &tensors[t]));
    DT_TRY(write_output(in, (int)plan->targets.n, tensors, *(const char **)context));
    report_pieces(in, plan, "written");
    report_unused(plan, true, INT32_MAX, &in->report->lines);
    warn_of_rules(in, plan);
    return NULL;
}

dt_status *dt_weights_export(const dt_weights_options *options, const char *output, dt_weights_report *report) {
    return read_and_use(options, report, DT_OURS, export, &output);
}
