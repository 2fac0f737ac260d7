/* example_columns: what an example has after each stage of a pipeline, and whether that is what the next stage takes. */
#ifndef DT_RUNTIME_DATA_EXAMPLE_COLUMNS_H
#define DT_RUNTIME_DATA_EXAMPLE_COLUMNS_H

#include "runtime/data/source.h"
#include "runtime/data/stages.h"
#include "runtime/data/tokenizer.h"

typedef struct dt_columns {
    int n;
    dt_column *items; /* [n]; their bytes mean nothing after the first stage that changes them */
    int64_t length;   /* the extent of what a tokenizer gives */
} dt_columns;

/* Those of the source. Freed by dt_columns_free, after an error too. */
dt_status *dt_columns_of_source(const dt_source *source, dt_columns *columns);

/* Those after `stage`. tokenizer: the stage's, where it is one; artifact: of its function. Errors name the pipeline and what does not fit. */
dt_status *dt_columns_after(const dt_artifact *artifact, const char *pipeline, const dt_stage *stage, const dt_tokenizer *tokenizer,
                            const dt_columns *before, dt_columns *after);
void dt_columns_free(dt_columns *columns);

/* What a batch is made of: tensors alone. */
dt_status *dt_columns_check_batch(const char *pipeline, const dt_columns *columns);

#endif
