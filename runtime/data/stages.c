/* stages: see stages.h. The rules of their order are here, each with its sentence. */
#include "runtime/data/stages.h"

#include "base/memory.h"
#include "base/text.h"

/* Argument `i` of a stage, which `row` describes. */
static dt_status *check_argument(const char *pipeline, const dt_artifact_stage *written, int i, const dt_stage_argument_row *row) {
    const dt_artifact_argument *argument = i < written->n_arguments ? &written->arguments[i] : NULL;
    if (row->takes == DT_STAGE_TAKES_FUNCTION) {
        if (argument != NULL && argument->kind == DT_ARGUMENT_FUNCTION) return NULL;
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes a function", pipeline, written->kind);
    }
    bool is_int = argument != NULL && argument->kind == DT_ARGUMENT_INT;
    if (is_int && argument->integer > row->most)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(%s) takes at most %lld", pipeline, written->kind, row->name, (long long)row->most);
    if (is_int && argument->integer >= row->least) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(%s) takes a whole number, %lld or more", pipeline, written->kind, row->name,
                    (long long)row->least);
}

static dt_status *parse_stage(const char *pipeline, const dt_artifact_stage *written, dt_stage *stage) {
    dt_stage_kind kind = dt_stage_kind_from_name(written->kind);
    if (kind == DT_N_STAGE_KINDS) return dt_error(DT_UNIMPLEMENTED, "data %s: this dtrun has no stage %s", pipeline, written->kind);

    *stage = (dt_stage){.kind = kind, .function = -1, .arguments = written->arguments};
    int n;
    const dt_stage_argument_row *rows = dt_stage_argument_rows(kind, &n);
    for (int i = 0; i < n; i++) DT_TRY(check_argument(pipeline, written, i, &rows[i]));
    if (written->n_arguments > n)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %d argument%s, here are %d", pipeline, written->kind, n, dt_plural(n),
                        written->n_arguments);
    if (n > 0 && rows[0].takes == DT_STAGE_TAKES_INT) stage->count = written->arguments[0].integer;
    if (n > 0 && rows[0].takes == DT_STAGE_TAKES_FUNCTION) stage->function = written->arguments[0].function;
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
    if (stage->kind == DT_STAGE_WINDOWS) {
        if (stages->n > 0 || stages->window != 0)
            return dt_error(DT_INVALID_ARGUMENT, "data %s: windows() must stand right after its source", stages->pipeline);
        stages->window = stage->count;
        stages->window_shift = stage->arguments[1].integer;
        return NULL;
    }
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
    for (int i = 1; i < pipeline->n_stages; i++) {
        dt_stage stage;
        DT_TRY(parse_stage(pipeline->name, &pipeline->stages[i], &stage));
        DT_TRY(add(stages, &stage));
    }
    if (stages->rows == 0) return dt_error(DT_INVALID_ARGUMENT, "data %s: ends without batch(n)", pipeline->name);
    return NULL;
}

void dt_stages_free(dt_stages *stages) {
    dt_release(stages->stages);
    stages->stages = NULL;
}
