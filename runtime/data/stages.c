/* stages: see stages.h. The rules of their order are here, each with its sentence. */
#include "runtime/data/stages.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

/* Argument `i` of a stage, which `row` describes. */
static dt_status *check_argument(const char *pipeline, const dt_artifact_stage *written, int i, const dt_stage_argument_row *row) {
    const dt_artifact_argument *argument = i < written->n_arguments ? &written->arguments[i] : NULL;
    if (row->takes == DT_STAGE_TAKES_FUNCTION || row->takes == DT_STAGE_TAKES_FILE) {
        bool is_function = row->takes == DT_STAGE_TAKES_FUNCTION;
        if (argument != NULL && argument->kind == (is_function ? DT_ARGUMENT_FUNCTION : DT_ARGUMENT_STRING)) return NULL;
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %s", pipeline, written->kind, is_function ? "a function" : "the name of a file");
    }
    bool is_int = argument != NULL && argument->kind == DT_ARGUMENT_INT;
    if (is_int && argument->integer > row->most)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(%s) takes at most %lld", pipeline, written->kind, row->name, (long long)row->most);
    if (is_int && argument->integer >= row->least) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(%s) takes a whole number, %lld or more", pipeline, written->kind, row->name,
                    (long long)row->least);
}

static bool is_named(const dt_artifact_argument *argument, const char *name) { return argument->name != NULL && strcmp(argument->name, name) == 0; }

/* The operands that stand after the function, as abi/text.h has them. */
static dt_status *parse_operands(const char *pipeline, const dt_artifact_stage *written, dt_stage *stage) {
    int first = stage->function >= 0, n = written->n_arguments;
    if (first == n) return NULL;
    stage->operands = dt_allocate_zeroed((size_t)n, sizeof *stage->operands);
    if (stage->operands == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_stage_operand *operand = NULL;
    for (int i = first; i < n; i++) {
        const dt_artifact_argument *argument = &written->arguments[i];
        bool is_input = is_named(argument, "input"), is_result = is_named(argument, "result"),
             begins = is_input || is_result || is_named(argument, "text");
        bool fits = begins ? argument->kind == DT_ARGUMENT_INT && argument->integer >= 0 && argument->integer <= INT_MAX
                           : operand != NULL && !operand->is_result && argument->name == NULL;
        if (!fits || (is_input && stage->n_outputs > 0))
            return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(): argument %d does not fit", pipeline, written->kind, i + 1);
        if (!begins) {
            operand->chain.n++;
            continue;
        }
        operand = &stage->operands[stage->n_inputs + stage->n_outputs];
        *operand = (dt_stage_operand){.is_result = is_result, .index = (int)argument->integer, .chain.arguments = argument + 1};
        if (is_input)
            stage->n_inputs++;
        else
            stage->n_outputs++;
    }
    return NULL;
}

static dt_status *parse_function(const char *pipeline, const dt_artifact_stage *written, const dt_stage_argument_row *row, dt_stage *stage) {
    bool computes_text = stage->kind == DT_STAGE_MAP && written->n_arguments > 0 && is_named(written->arguments, "text"); /* and nothing else */
    if (!computes_text) {
        DT_TRY(check_argument(pipeline, written, 0, row));
        stage->function = written->arguments[0].function;
    }
    return parse_operands(pipeline, written, stage);
}

static dt_status *parse_stage(const char *pipeline, const dt_artifact_stage *written, dt_stage *stage) {
    dt_stage_kind kind = dt_stage_kind_from_name(written->kind);
    if (kind == DT_N_STAGE_KINDS) return dt_error(DT_UNIMPLEMENTED, "data %s: this dtrun has no stage %s", pipeline, written->kind);

    *stage = (dt_stage){.kind = kind, .function = -1, .arguments = written->arguments};
    int n;
    const dt_stage_argument_row *rows = dt_stage_argument_rows(kind, &n);
    if (n > 0 && rows[0].takes == DT_STAGE_TAKES_FUNCTION) return parse_function(pipeline, written, rows, stage);
    for (int i = 0; i < n; i++) DT_TRY(check_argument(pipeline, written, i, &rows[i]));
    if (written->n_arguments > n)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %d argument%s, here are %d", pipeline, written->kind, n, dt_plural(n),
                        written->n_arguments);
    if (n > 0 && rows[0].takes == DT_STAGE_TAKES_INT) stage->count = written->arguments[0].integer;
    return NULL;
}

/* windows(n, shift) of the source, or of the part that take() and skip() choose of it. */
static dt_status *add_windows(dt_stages *stages, const dt_stage *stage) {
    dt_window window = {.most = INT64_MAX, .n = stage->count, .shift = stage->arguments[1].integer};
    bool follows_source = stages->window.n == 0;
    for (int i = 0; i < stages->n; i++) {
        const dt_stage *before = &stages->stages[i];
        follows_source &= before->kind == DT_STAGE_TAKE || before->kind == DT_STAGE_SKIP;
        if (before->kind == DT_STAGE_TAKE && before->count < window.most) window.most = before->count;
        if (before->kind != DT_STAGE_SKIP) continue;
        if (__builtin_add_overflow(window.first, before->count, &window.first)) window.first = INT64_MAX;
        if (window.most != INT64_MAX) window.most = before->count < window.most ? window.most - before->count : 0;
    }
    if (!follows_source)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: windows() must stand after its source; take() and skip() alone may be between",
                        stages->pipeline);
    stages->n = 0;
    stages->window = window;
    return NULL;
}

/* Enters `stage`, which comes after those already in `stages`. */
static dt_status *add(dt_stages *stages, const dt_stage *stage) {
    const char *name = dt_stage_name(stage->kind);
    if (stage->kind == DT_STAGE_PREFETCH) {
        if (stages->rows == 0) return dt_error(DT_INVALID_ARGUMENT, "data %s: prefetch() must stand after batch()", stages->pipeline);
        stages->prefetch = stage->count;
        return NULL;
    }
    if (stages->rows != 0)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() must stand before batch(): only prefetch() comes after it", stages->pipeline, name);
    if (stage->kind == DT_STAGE_BATCH) {
        stages->rows = stage->count;
        return NULL;
    }
    if (stage->kind == DT_STAGE_WINDOWS) return add_windows(stages, stage);
    if (stage->kind == DT_STAGE_INTERLEAVE && (stages->n > 0 || stages->window.n != 0))
        return dt_error(DT_INVALID_ARGUMENT, "data %s: interleave() must stand right after its source", stages->pipeline);
    if (stage->kind == DT_STAGE_CACHE) {
        for (int i = 0; i < stages->n; i++)
            if (stages->stages[i].kind == DT_STAGE_SHUFFLE)
                return dt_error(DT_INVALID_ARGUMENT, "data %s: cache() must stand before shuffle(), or every epoch would have the same order",
                                stages->pipeline);
        stages->cache = stages->n;
    }
    stages->stages[stages->n++] = *stage;
    return NULL;
}

dt_status *dt_stages_parse(const dt_artifact_pipeline *pipeline, dt_stages *stages) {
    *stages = (dt_stages){.pipeline = pipeline->name, .prefetch = 1, .cache = -1};
    stages->stages = dt_allocate_zeroed((size_t)pipeline->n_stages, sizeof *stages->stages);
    if (stages->stages == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    int first = 1; /* after the source */
    while (first < pipeline->n_stages && strcmp(pipeline->stages[first].kind, DT_STAGE_ZIP) == 0) first++;
    for (int i = first; i < pipeline->n_stages; i++) {
        dt_stage stage = {0};
        dt_status *status = parse_stage(pipeline->name, &pipeline->stages[i], &stage);
        if (status == NULL) status = add(stages, &stage);
        if (status == NULL) continue;
        dt_release(stage.operands);
        return status;
    }
    if (stages->rows == 0) return dt_error(DT_INVALID_ARGUMENT, "data %s: ends without batch(n)", pipeline->name);
    return NULL;
}

void dt_stages_free(dt_stages *stages) {
    for (int i = 0; i < stages->n; i++) dt_release(stages->stages[i].operands);
    dt_release(stages->stages);
    stages->stages = NULL;
}
