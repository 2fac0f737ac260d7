/* examples: makes what an item of the order describes: rows of the source, through the maps, kept by a cache.
 *
 * dt_examples is what the threads of a pipeline share; a dt_example_maker is what each has for itself: its own instances of the compiled functions.
 */
#ifndef DT_RUNTIME_DATA_EXAMPLES_H
#define DT_RUNTIME_DATA_EXAMPLES_H

#include "runtime/artifact/kernels.h"
#include "runtime/data/order.h"
#include "runtime/data/source.h"

typedef struct dt_examples dt_examples;
typedef struct dt_example_maker dt_example_maker;

/* Checks that each function takes what comes to it. `stages`, `source` and `kernels` outlive the result; `kernels` may be NULL without functions.
 * folder: where vocabularies are; NULL: their names are paths. ignore_bad_index: an index out of range in a function is counted, and no error.
 * marks: makers keep marks (marks.h) of what examples are made from. */
dt_status *dt_examples_create(const dt_kernels *kernels, const dt_stages *stages, dt_source *source, const char *folder, uint64_t seed,
                              bool ignore_bad_index, bool marks, dt_examples **examples);
void dt_examples_destroy(dt_examples *examples); /* NULL is allowed */

/* Makes room for the rows of the cache, where there is one. After this the maps after it may be made. `order` outlives the examples. */
dt_status *dt_examples_attach(dt_examples *examples, const dt_order *order);

/* The components of what comes out of the last stage; their `bytes` are NULL where that is no plain row. */
const dt_column *dt_examples_columns(const dt_examples *examples, int *n_columns);

int64_t dt_examples_bad_indices(const dt_examples *examples); /* out of range in functions so far */

/* n_words: of an item. counts: whether the bad indices that this one meets are counted. */
dt_status *dt_example_maker_create(dt_examples *examples, int n_words, bool counts, dt_example_maker **maker);
void dt_example_maker_destroy(dt_example_maker *maker); /* NULL is allowed */

/* Makes the example that `item` describes in `epoch`. *components: [n_columns], valid until the next call. Threads: one at a time a maker. */
dt_status *dt_example_make(dt_example_maker *maker, int64_t epoch, const int64_t *item, const dt_component **components);

/* [columns of the source] of the row that the last example was made from, also where that has failed; 0: of one that could not be read. */
const uint64_t *dt_example_marks(const dt_example_maker *maker);
/* From now on marks of rows of the source are remembered, where there are not too many: nothing is read twice for its marks. */
dt_status *dt_examples_remember_marks(dt_examples *examples);
/* The marks of row `row` of the source, which is read where they are not remembered. *n_read is raised by the bytes that were read from files for it.
 */
dt_status *dt_example_mark_row(dt_example_maker *maker, int64_t row, uint64_t *marks, int64_t *n_read);
double dt_examples_mark_seconds(const dt_examples *examples); /* that examples' makers have spent on marks, as some of them say of all */

/* Whether the filter that is stage `stage` lets the example pass. */
dt_status *dt_example_filter(dt_example_maker *maker, int stage, int64_t epoch, const int64_t *item, bool *keep);

#endif
