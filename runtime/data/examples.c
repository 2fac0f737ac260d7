/* examples: see examples.h. A row of the cache is made by the first thread that wants it; one that comes while it is being made makes its own. */
#include "runtime/data/examples.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/data/permutation.h"
#include "runtime/execution/example_function.h"

#include <stdatomic.h>
#include <string.h>

typedef struct columns {
    int n;
    dt_column *items;
} columns;

enum row_state {
    ROW_ABSENT,
    ROW_BEING_MADE,
    ROW_PRESENT
};

struct dt_examples {
    const dt_kernels *kernels;
    const dt_stages *stages;
    dt_source *source;
    const dt_order *order;
    uint64_t seed;
    bool ignore_bad_index;
    _Atomic int64_t n_bad_indices;
    columns *after;                /* [1 + stages->n]: the components after the source and after each stage */
    int n_most;                    /* components of any of them */
    bool caches;                   /* a map stands before the cache, or the source decodes, so that there is something to keep */
    unsigned char **cached;        /* [columns after the cache], each [n_cached][row_bytes] and slack */
    _Atomic unsigned char *states; /* [n_cached], enum row_state */
};

struct dt_example_maker {
    dt_examples *examples;
    bool counts;                     /* bad indices */
    dt_example_function **functions; /* [stages->n]; NULL where the stage has none */
    int64_t *n_bad;                  /* [stages->n], of the instance, as last seen */
    dt_component *components;        /* [n_most] */
    const void **inputs;             /* [n_most] of a function's call */
    void **rows;                     /* [columns of the source] where those that are read by row go; else NULL */
    int64_t *below;                  /* an item before the cache */
};

static bool same_type(const dt_artifact_tensor *a, const dt_artifact_tensor *b) {
    if (a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

/* "data train_set: map(f)" refuses component `i`. */
static dt_status *refuse(const dt_examples *examples, const dt_stage *stage, const columns *given, const dt_artifact_function *function, int i) {
    dt_text is = {0}, wanted = {0};
    dt_text_append_type(&is, given->items[i].tensor.dtype, given->items[i].tensor.n_dims, given->items[i].tensor.dims);
    dt_text_append_type(&wanted, function->inputs[i].dtype, function->inputs[i].n_dims, function->inputs[i].dims);
    dt_status *status = dt_error(DT_INVALID_ARGUMENT, "%s: component %d of an example is %s, but %s() of data %s takes %s: %s", given->items[i].path,
                                 i + 1, is.data != NULL ? is.data : "", dt_stage_name(stage->kind), examples->stages->pipeline,
                                 function->inputs[i].name, wanted.data != NULL ? wanted.data : "");
    dt_text_free(&is);
    dt_text_free(&wanted);
    return status;
}

static dt_status *check_function(const dt_examples *examples, const dt_stage *stage, const columns *given) {
    const dt_artifact_function *function = &dt_kernels_artifact(examples->kernels)->functions[stage->function];
    const char *pipeline = examples->stages->pipeline, *name = dt_stage_name(stage->kind);
    if (function->n_inputs != given->n)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %d components, an example has %d here", pipeline, name, function->n_inputs,
                        given->n);
    for (int i = 0; i < given->n; i++)
        if (!same_type(&function->inputs[i], &given->items[i].tensor)) return refuse(examples, stage, given, function, i);
    if (stage->kind == DT_STAGE_FILTER &&
        (function->n_results != 1 || function->results[0].tensor.dtype != DT_BOOL || function->results[0].tensor.n_dims != 0))
        return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of filter() must give one bool", pipeline);
    if (stage->kind == DT_STAGE_MAP && function->n_results == 0)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of map() gives nothing", pipeline);
    return NULL;
}

static dt_status *fill_columns(columns *after, int n, const char *path, const dt_column *source, const dt_artifact_result *results) {
    after->items = dt_allocate_zeroed((size_t)n, sizeof *after->items);
    if (after->items == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    after->n = n;
    for (int i = 0; i < n; i++) after->items[i] = source != NULL ? source[i] : (dt_column){.path = path, .tensor = results[i].tensor};
    return NULL;
}

static dt_status *describe(dt_examples *examples) {
    const dt_stages *stages = examples->stages;
    examples->after = dt_allocate_zeroed((size_t)stages->n + 1, sizeof *examples->after);
    if (examples->after == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    DT_TRY(fill_columns(&examples->after[0], examples->source->n_columns, NULL, examples->source->columns, NULL));
    examples->n_most = examples->after[0].n;
    examples->caches = examples->source->computes && stages->cache >= 0;
    for (int i = 0; i < stages->n; i++) {
        const dt_stage *stage = &stages->stages[i];
        const columns *before = &examples->after[i];
        if (stage->function >= 0) DT_TRY(check_function(examples, stage, before));
        if (stage->kind == DT_STAGE_MAP) {
            const dt_artifact_function *function = &dt_kernels_artifact(examples->kernels)->functions[stage->function];
            DT_TRY(fill_columns(&examples->after[i + 1], function->n_results, before->items[0].path, NULL, function->results));
            examples->caches = examples->caches || i < stages->cache;
        } else {
            DT_TRY(fill_columns(&examples->after[i + 1], before->n, NULL, before->items, NULL));
        }
        if (examples->after[i + 1].n > examples->n_most) examples->n_most = examples->after[i + 1].n;
    }
    return NULL;
}

dt_status *dt_examples_create(const dt_kernels *kernels, const dt_stages *stages, dt_source *source, uint64_t seed, bool ignore_bad_index,
                              dt_examples **examples) {
    *examples = NULL;
    dt_examples *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->kernels = kernels;
    created->stages = stages;
    created->source = source;
    created->seed = seed;
    created->ignore_bad_index = ignore_bad_index;
    dt_status *status = describe(created);
    if (status != NULL) {
        dt_examples_destroy(created);
        return status;
    }
    *examples = created;
    return NULL;
}

dt_status *dt_examples_attach(dt_examples *examples, const dt_order *order) {
    examples->order = order;
    if (!examples->caches) return NULL;
    const columns *kept = &examples->after[examples->stages->cache + 1];
    size_t n_rows = (size_t)dt_order_n_cached(order);
    examples->states = dt_allocate_zeroed(n_rows, sizeof *examples->states);
    examples->cached = dt_allocate_zeroed((size_t)kept->n, sizeof *examples->cached);
    if (examples->states == NULL || examples->cached == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < kept->n; i++) {
        size_t n_bytes;
        bool fits = !__builtin_mul_overflow(n_rows, (size_t)kept->items[i].tensor.row_bytes, &n_bytes);
        examples->cached[i] = fits ? dt_allocate_zeroed(1, n_bytes + DT_SLACK_BYTES) : NULL;
        if (examples->cached[i] == NULL)
            return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for the %zu examples of cache()", examples->stages->pipeline, n_rows);
    }
    return NULL;
}

void dt_examples_destroy(dt_examples *examples) {
    if (examples == NULL) return;
    for (int i = 0; examples->cached != NULL && i < examples->after[examples->stages->cache + 1].n; i++) dt_release(examples->cached[i]);
    for (int i = 0; examples->after != NULL && i <= examples->stages->n; i++) dt_release(examples->after[i].items);
    dt_release(examples->cached);
    dt_release((void *)examples->states);
    dt_release(examples->after);
    dt_release(examples);
}

const dt_column *dt_examples_columns(const dt_examples *examples, int *n_columns) {
    const columns *last = &examples->after[examples->stages->n];
    *n_columns = last->n;
    return last->items;
}

int64_t dt_examples_bad_indices(const dt_examples *examples) { return atomic_load(&examples->n_bad_indices); }

static dt_status *fill_maker(dt_example_maker *maker, int n_words) {
    const dt_stages *stages = maker->examples->stages;
    const dt_source *source = maker->examples->source;
    maker->functions = dt_allocate_zeroed((size_t)stages->n, sizeof *maker->functions);
    maker->n_bad = dt_allocate_zeroed((size_t)stages->n, sizeof *maker->n_bad);
    maker->components = dt_allocate_zeroed((size_t)maker->examples->n_most, sizeof *maker->components);
    maker->inputs = dt_allocate_zeroed((size_t)maker->examples->n_most, sizeof *maker->inputs);
    maker->below = dt_allocate_zeroed((size_t)n_words, sizeof *maker->below);
    maker->rows = dt_allocate_zeroed((size_t)source->n_columns, sizeof *maker->rows);
    if (maker->functions == NULL || maker->n_bad == NULL || maker->components == NULL || maker->inputs == NULL || maker->below == NULL ||
        maker->rows == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < source->n_columns; i++) {
        if (source->columns[i].bytes != NULL) continue;
        maker->rows[i] = dt_allocate_zeroed((size_t)source->columns[i].tensor.row_bytes + DT_SLACK_BYTES, 1);
        if (maker->rows[i] == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: no memory for one row of it", source->columns[i].path);
    }
    for (int i = 0; i < stages->n; i++)
        if (stages->stages[i].function >= 0)
            DT_TRY(dt_example_function_create(maker->examples->kernels, stages->stages[i].function, &maker->functions[i]));
    return NULL;
}

dt_status *dt_example_maker_create(dt_examples *examples, int n_words, bool counts, dt_example_maker **maker) {
    *maker = NULL;
    dt_example_maker *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->examples = examples;
    created->counts = counts;
    dt_status *status = fill_maker(created, n_words);
    if (status != NULL) {
        dt_example_maker_destroy(created);
        return status;
    }
    *maker = created;
    return NULL;
}

void dt_example_maker_destroy(dt_example_maker *maker) {
    if (maker == NULL) return;
    for (int i = 0; maker->functions != NULL && i < maker->examples->stages->n; i++) dt_example_function_destroy(maker->functions[i]);
    for (int i = 0; maker->rows != NULL && i < maker->examples->source->n_columns; i++) dt_release(maker->rows[i]);
    dt_release(maker->rows);
    dt_release(maker->functions);
    dt_release(maker->n_bad);
    dt_release(maker->components);
    dt_release(maker->inputs);
    dt_release(maker->below);
    dt_release(maker);
}

/* What the function's call before this one did with indices. */
static dt_status *check_indices(dt_example_maker *maker, int stage, int64_t number) {
    dt_examples *examples = maker->examples;
    const dt_bad_index *bad = dt_example_function_bad_index(maker->functions[stage]);
    if (bad->count == maker->n_bad[stage]) return NULL;
    if (maker->counts) atomic_fetch_add(&examples->n_bad_indices, bad->count - maker->n_bad[stage]);
    maker->n_bad[stage] = bad->count;
    if (examples->ignore_bad_index) return NULL;
    const dt_artifact *artifact = dt_kernels_artifact(examples->kernels);
    const dt_artifact_location *location = bad->location >= 0 && bad->location < artifact->n_locations ? &artifact->locations[bad->location] : NULL;
    return dt_error(DT_OUT_OF_RANGE, "%s:%lld:%lld: %s() of data %s, example %lld: index %lld is not within 0 to %lld",
                    location != NULL ? location->file : artifact->name, location != NULL ? (long long)location->line : 0,
                    location != NULL ? (long long)location->column : 0, dt_stage_name(examples->stages->stages[stage].kind),
                    examples->stages->pipeline, (long long)number, (long long)bad->value, (long long)bad->limit - 1);
}

static dt_status *call(dt_example_maker *maker, int stage, int64_t epoch, int64_t number) {
    int64_t seed = (int64_t)dt_key_join(maker->examples->seed, (uint64_t)epoch);
    for (int i = 0; i < maker->examples->after[stage].n; i++) maker->inputs[i] = maker->components[i].bytes;
    dt_example_function_call(maker->functions[stage], maker->inputs, number, seed);
    return check_indices(maker, stage, number);
}

/* The components after the first `n_stages` stages, from what stands in maker->components after the first `first`. */
static dt_status *run_maps(dt_example_maker *maker, int first, int n_stages, int64_t epoch, const int64_t *item) {
    const dt_examples *examples = maker->examples;
    int word = 1;
    for (int i = 0; i < n_stages; i++) {
        if (examples->stages->stages[i].kind != DT_STAGE_MAP) continue;
        int64_t number = item[word++];
        if (i < first) continue;
        DT_TRY(call(maker, i, epoch, number));
        const columns *after = &examples->after[i + 1];
        for (int c = 0; c < after->n; c++)
            maker->components[c] = (dt_component){dt_example_function_result(maker->functions[i], c), (size_t)after->items[c].tensor.row_bytes};
    }
    return NULL;
}

static dt_status *make_from_source(dt_example_maker *maker, int n_stages, int64_t epoch, const int64_t *item) {
    dt_source *source = maker->examples->source;
    DT_TRY(dt_source_wait(source, item[0] + 1));
    for (int i = 0; i < source->n_columns; i++) {
        const dt_column *column = &source->columns[i];
        if (column->bytes == NULL) DT_TRY(dt_source_read(source, i, item[0], 1, maker->rows[i]));
        maker->components[i] =
            column->bytes != NULL ? dt_column_row(column, item[0]) : (dt_component){maker->rows[i], (size_t)column->tensor.row_bytes};
    }
    return run_maps(maker, 0, n_stages, epoch, item);
}

/* Row `row` of the cache. Maps before a cache belong to no epoch: their seed is that of epoch 0. */
static dt_status *make_cached(dt_example_maker *maker, int64_t row) {
    dt_examples *examples = maker->examples;
    int cache = examples->stages->cache;
    const columns *kept = &examples->after[cache + 1];
    unsigned char absent = ROW_ABSENT;
    bool mine = false;
    if (!examples->caches || atomic_load_explicit(&examples->states[row], memory_order_acquire) != ROW_PRESENT) {
        dt_order_cached_item(examples->order, row, maker->below);
        DT_TRY(make_from_source(maker, cache, 0, maker->below));
        if (!examples->caches) return NULL;
        mine = atomic_compare_exchange_strong(&examples->states[row], &absent, ROW_BEING_MADE);
        if (!mine) return NULL;
    }
    for (int i = 0; i < kept->n; i++) {
        size_t row_bytes = (size_t)kept->items[i].tensor.row_bytes;
        unsigned char *stored = examples->cached[i] + (size_t)row * row_bytes;
        if (mine) memcpy(stored, maker->components[i].bytes, row_bytes);
        maker->components[i] = (dt_component){stored, row_bytes};
    }
    if (mine) atomic_store_explicit(&examples->states[row], ROW_PRESENT, memory_order_release);
    return NULL;
}

static dt_status *make(dt_example_maker *maker, int n_stages, int64_t epoch, const int64_t *item) {
    int cache = maker->examples->stages->cache;
    if (cache < 0 || n_stages <= cache) return make_from_source(maker, n_stages, epoch, item);
    DT_TRY(make_cached(maker, item[0]));
    return run_maps(maker, cache + 1, n_stages, epoch, item);
}

dt_status *dt_example_make(dt_example_maker *maker, int64_t epoch, const int64_t *item, const dt_component **components) {
    *components = maker->components;
    return make(maker, maker->examples->stages->n, epoch, item);
}

dt_status *dt_example_filter(dt_example_maker *maker, int stage, int64_t epoch, const int64_t *item, bool *keep) {
    DT_TRY(make(maker, stage, epoch, item));
    DT_TRY(call(maker, stage, epoch, item[0]));
    *keep = *(const unsigned char *)dt_example_function_result(maker->functions[stage], 0) != 0;
    return NULL;
}
