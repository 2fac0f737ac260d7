/* text_functions: what programs compute from text (abi/text.h), one after the other. */
#ifndef DT_RUNTIME_DATA_TEXT_FUNCTIONS_H
#define DT_RUNTIME_DATA_TEXT_FUNCTIONS_H

#include "abi/text.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/data/source.h"

/* Functions as a stage writes them: the name of one, its arguments, the name of the next. */
typedef struct dt_text_chain {
    int n;
    const dt_artifact_argument *arguments; /* [n] */
} dt_text_chain;

/* Whether the chain can be run, and what it gives. Counts and truths end a chain. */
dt_status *dt_text_chain_check(const dt_text_chain *chain, dt_dtype *dtype, bool *gives_text);

/* Runs a chain over `text`, valid UTF-8. One that gives a text: *result is it, in one of the two scratch texts, or `text` itself. Else *number is the
 * count or truth. */
dt_status *dt_text_chain_run(const dt_text_chain *chain, dt_component text, dt_text scratch[2], dt_component *result, int64_t *number);

#endif
