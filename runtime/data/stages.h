/* stages: what may stand after the source of a pipeline, checked and in plain numbers. */
#ifndef DT_RUNTIME_DATA_STAGES_H
#define DT_RUNTIME_DATA_STAGES_H

#include "base/status.h"
#include "runtime/artifact.h"

/* X(enumerator, name in programs, argument: NOTHING, COUNT or FUNCTION, least count) */
#define DT_STAGES(X)                                                                                                                                 \
    X(MAP, "map", FUNCTION, 0)                                                                                                                       \
    X(FILTER, "filter", FUNCTION, 0)                                                                                                                 \
    X(SHUFFLE, "shuffle", COUNT, 1)                                                                                                                  \
    X(CACHE, "cache", NOTHING, 0)                                                                                                                    \
    X(TAKE, "take", COUNT, 1)                                                                                                                        \
    X(SKIP, "skip", COUNT, 0)                                                                                                                        \
    X(REPEAT, "repeat", COUNT, 1)                                                                                                                    \
    X(BATCH, "batch", COUNT, 1)                                                                                                                      \
    X(PREFETCH, "prefetch", COUNT, 1)

typedef enum dt_stage_kind {
#define X(enumerator, name, argument, least) DT_STAGE_##enumerator,
    DT_STAGES(X)
#undef X
    DT_N_STAGE_KINDS
} dt_stage_kind;

typedef struct dt_stage {
    dt_stage_kind kind;
    int64_t count; /* of a stage that takes one */
    int function;  /* of map and filter: index in the artifact; else -1 */
} dt_stage;

typedef struct dt_stages {
    const char *pipeline; /* its name, for messages */
    int n;                /* stages between the source and batch */
    dt_stage *stages;     /* [n] */
    int64_t rows;         /* of batch(n) */
    int64_t prefetch;     /* global batches that may lie ready; 1 where the program does not say */
    int cache;            /* index of the last cache(), which alone keeps anything; -1 for none */
} dt_stages;

/* `stages` is the caller's; its array is freed by dt_stages_free, after an error too. */
dt_status *dt_stages_parse(const dt_artifact_pipeline *pipeline, dt_stages *stages);
void dt_stages_free(dt_stages *stages);

const char *dt_stage_name(dt_stage_kind kind);

#endif
