/* stages: what may stand after the source of a pipeline, checked and in plain numbers. */
#ifndef DT_RUNTIME_DATA_STAGES_H
#define DT_RUNTIME_DATA_STAGES_H

#include "abi/pipeline.h"
#include "base/status.h"
#include "runtime/artifact/artifact.h"
#include "runtime/data/source.h"
#include "runtime/data/text_functions.h"

/* Where an input of the function of map or filter, or a component of what map gives, comes from: a component of the example, a text where there are
 * functions of text to apply; or, `is_result`, a result of the compiled function. */
typedef struct dt_stage_operand {
    bool is_result;
    int index;
    dt_text_chain chain;
} dt_stage_operand;

typedef struct dt_stage {
    dt_stage_kind kind;
    int64_t count; /* its first argument, where that is a whole number */
    int function;  /* of map and filter: index in the artifact; else -1 */
    int n_inputs, n_outputs;
    dt_stage_operand *operands;            /* [n_inputs + n_outputs] of map and filter, where text is among them; NULL: all, in order */
    const dt_artifact_argument *arguments; /* all that abi/pipeline.h lists for the stage, in that order */
} dt_stage;

typedef struct dt_stages {
    const char *pipeline; /* its name, for messages */
    int n;                /* stages between the source and batch */
    dt_stage *stages;     /* [n] */
    int64_t rows;         /* of batch(n) */
    int64_t prefetch;     /* global batches that may lie ready; 1 where the program does not say */
    dt_window window;     /* of windows(n, shift), and of take() and skip() before it, which are none of the stages then */
    int cache;            /* index of the last cache(), which alone keeps anything; -1 for none */
} dt_stages;

/* Whether the stage numbers its examples, so that an item of the order (order.h) has a word of it. */
static inline bool dt_stage_numbers(dt_stage_kind kind) { return kind == DT_STAGE_MAP || kind == DT_STAGE_ENUMERATE; }

/* `stages` is the caller's; its array is freed by dt_stages_free, after an error too. */
dt_status *dt_stages_parse(const dt_artifact_pipeline *pipeline, dt_stages *stages);
void dt_stages_free(dt_stages *stages);

#endif
