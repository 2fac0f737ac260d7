/* stages: see stages.h. The rules of their order are here, each with its sentence. */
#include "runtime/data/stages.h"

#include "base/memory.h"

static dt_status *parse_stage(const char *pipeline, const dt_artifact_stage *written, dt_stage *stage) {
    dt_stage_kind kind = dt_stage_kind_from_name(written->kind);
    if (kind == DT_N_STAGE_KINDS) return dt_error(DT_UNIMPLEMENTED, "data %s: this dtrun has no stage %s", pipeline, written->kind);

    *stage = (dt_stage){.kind = kind, .function = -1};
    const dt_stage_row *row = dt_stage_row_of(kind);
    const dt_artifact_argument *argument = written->arguments;
    bool counts = row->takes == DT_STAGE_TAKES_COUNT, calls = row->takes == DT_STAGE_TAKES_FUNCTION;
    bool fits = written->n_arguments == (row->takes != DT_STAGE_TAKES_NOTHING);
    if (fits && counts) fits = argument->kind == DT_ARGUMENT_INT && argument->integer >= row->least && argument->integer <= row->most;
    if (fits && calls) fits = argument->kind == DT_ARGUMENT_FUNCTION;
    if (!fits && counts && written->n_arguments == 1 && argument->kind == DT_ARGUMENT_INT && argument->integer > row->most)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(n) takes at most %lld", pipeline, written->kind, (long long)row->most);
    if (!fits && counts)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s(n) takes one whole number, %lld or more", pipeline, written->kind, (long long)row->least);
    if (!fits) return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %s", pipeline, written->kind, calls ? "one function" : "nothing");
    if (counts) stage->count = argument->integer;
    if (calls) stage->function = argument->function;
    return NULL;
}

/* Enters `stage`, which comes after those already in `stages`. */
static dt_status *add(dt_stages *stages, const dt_stage *stage) {
    const char *name = dt_stage_row_of(stage->kind)->name;
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
