/* examples: see examples.h. A row of the cache is made by the first thread that wants it; one that comes while it is being made makes its own. */
#include "runtime/data/examples.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/example_columns.h"
#include "runtime/data/marks.h"
#include "runtime/data/permutation.h"
#include "runtime/execution/example_function.h"
#include "runtime/threads/clock.h"

#include <stdatomic.h>
#include <string.h>

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
    const char *folder;            /* where vocabularies are, while the examples are created */
    dt_columns *after;             /* [1 + stages->n]: the components after the source and after each stage */
    dt_tokenizer **tokenizers;     /* [stages->n]; NULL where the stage is none */
    int n_most;                    /* components of any of them, and inputs of a function */
    bool caches;                   /* something is computed before the cache, or the source decodes, so that there is something to keep */
    void **cached;                 /* [columns after the cache], each [n_cached][row_bytes] and slack, or of a text dt_component[n_cached] */
    _Atomic unsigned char *states; /* [n_cached], enum row_state */
    bool marks;                    /* makers keep marks, */
    uint64_t *cached_marks;        /* [n_cached][columns of the source] and the cache does */
    _Atomic uint64_t *known_marks; /* [rows of the source][columns], 0: not known; NULL: none are remembered */
    _Atomic int64_t mark_nanoseconds;
};

enum {
    MARKS_A_LOOK = 16,         /* rows of which the time that one's marks take is measured */
    MOST_MARK_BYTES = 64 << 20 /* that are remembered */
};

/* A count or a truth of a text, as an input of a function; an example's number. */
typedef struct number_input {
    _Alignas(int64_t) unsigned char bytes[sizeof(int64_t) + DT_SLACK_BYTES];
} number_input;

/* What a thread has for a stage. */
typedef struct stage_state {
    dt_example_function *function; /* NULL where the stage has none */
    int64_t n_bad;                 /* of the function, as last seen */
    number_input *numbers;         /* [stage->n_inputs]; of enumerate: one */
    dt_text (*texts)[2];           /* [stage->n_inputs + stage->n_outputs] */
    dt_tokenizer_worker worker;
    int32_t *tokens; /* of a tokenizer: [columns][length] and slack */
} stage_state;

struct dt_example_maker {
    dt_examples *examples;
    bool counts;                  /* bad indices */
    stage_state *stages;          /* [stages->n] */
    dt_component *components;     /* [n_most] */
    dt_component *new_components; /* [n_most] */
    const void **inputs;          /* [n_most] of a function's call */
    void **rows;                  /* [columns of the source] where those that are read by row go; else NULL */
    int64_t *below;               /* an item before the cache */
    uint64_t *marks;              /* [columns of the source]; NULL: it keeps none */
    int64_t n_marked;             /* rows */
};

/* Whether the stage computes something for each example. */
static bool computes(const dt_stage *stage) { return stage->kind == DT_STAGE_MAP || dt_tokenizer_opener_of(stage->kind) != NULL; }

static dt_status *describe(dt_examples *examples) {
    const dt_stages *stages = examples->stages;
    examples->after = dt_allocate_zeroed((size_t)stages->n + 1, sizeof *examples->after);
    examples->tokenizers = dt_allocate_zeroed((size_t)stages->n, sizeof *examples->tokenizers);
    if (examples->after == NULL || examples->tokenizers == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    DT_TRY(dt_columns_of_source(examples->source, &examples->after[0]));
    examples->n_most = examples->after[0].n;
    examples->caches = examples->source->computes && stages->cache >= 0;
    for (int i = 0; i < stages->n; i++) {
        const dt_stage *stage = &stages->stages[i];
        dt_tokenizer_opener *open = dt_tokenizer_opener_of(stage->kind);
        if (open != NULL) DT_TRY(dt_status_annotate(open(stage->arguments, examples->folder, &examples->tokenizers[i]), "data %s", stages->pipeline));
        const dt_artifact *artifact = stage->function >= 0 ? dt_kernels_artifact(examples->kernels) : NULL;
        DT_TRY(dt_columns_after(artifact, stages->pipeline, stage, examples->tokenizers[i], &examples->after[i], &examples->after[i + 1]));
        examples->caches = examples->caches || (computes(stage) && i < stages->cache);
        if (examples->after[i + 1].n > examples->n_most) examples->n_most = examples->after[i + 1].n;
        if (stage->n_inputs > examples->n_most) examples->n_most = stage->n_inputs;
    }
    return dt_columns_check_batch(stages->pipeline, &examples->after[stages->n]);
}

dt_status *dt_examples_create(const dt_kernels *kernels, const dt_stages *stages, dt_source *source, const char *folder, uint64_t seed,
                              bool ignore_bad_index, bool marks, dt_examples **examples) {
    *examples = NULL;
    dt_examples *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->kernels = kernels;
    created->stages = stages;
    created->source = source;
    created->folder = folder;
    created->seed = seed;
    created->ignore_bad_index = ignore_bad_index;
    created->marks = marks;
    dt_status *status = describe(created);
    created->folder = NULL;
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
    const dt_columns *kept = &examples->after[examples->stages->cache + 1];
    size_t n_rows = (size_t)dt_order_n_cached(order);
    examples->states = dt_allocate_zeroed(n_rows, sizeof *examples->states);
    examples->cached = dt_allocate_zeroed((size_t)kept->n, sizeof *examples->cached);
    if (examples->states == NULL || examples->cached == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (examples->marks) {
        examples->cached_marks = dt_allocate_zeroed(n_rows * (size_t)examples->source->n_columns, sizeof *examples->cached_marks);
        if (examples->cached_marks == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (int i = 0; i < kept->n; i++) {
        size_t n_bytes;
        bool fits =
            !__builtin_mul_overflow(n_rows, kept->items[i].is_text ? sizeof(dt_component) : (size_t)kept->items[i].tensor.row_bytes, &n_bytes);
        examples->cached[i] = fits ? dt_allocate_zeroed(1, n_bytes + DT_SLACK_BYTES) : NULL;
        if (examples->cached[i] == NULL)
            return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for the %zu examples of cache()", examples->stages->pipeline, n_rows);
    }
    return NULL;
}

static void free_cache(dt_examples *examples) {
    const dt_columns *kept = &examples->after[examples->stages->cache + 1];
    for (int i = 0; i < kept->n; i++) {
        const dt_component *texts = kept->items[i].is_text ? examples->cached[i] : NULL;
        for (int64_t row = 0; texts != NULL && row < dt_order_n_cached(examples->order); row++) dt_release((void *)(uintptr_t)texts[row].bytes);
        dt_release(examples->cached[i]);
    }
    dt_release(examples->cached);
}

void dt_examples_destroy(dt_examples *examples) {
    if (examples == NULL) return;
    if (examples->cached != NULL) free_cache(examples);
    for (int i = 0; examples->after != NULL && i <= examples->stages->n; i++) dt_columns_free(&examples->after[i]);
    for (int i = 0; examples->tokenizers != NULL && i < examples->stages->n; i++) dt_tokenizer_close(examples->tokenizers[i]);
    dt_release((void *)examples->states);
    dt_release(examples->cached_marks);
    dt_release((void *)examples->known_marks);
    dt_release(examples->after);
    dt_release(examples->tokenizers);
    dt_release(examples);
}

const dt_column *dt_examples_columns(const dt_examples *examples, int *n_columns) {
    const dt_columns *last = &examples->after[examples->stages->n];
    *n_columns = last->n;
    return last->items;
}

int64_t dt_examples_bad_indices(const dt_examples *examples) { return atomic_load(&examples->n_bad_indices); }

static dt_status *fill_stage(const dt_examples *examples, int i, stage_state *state) {
    const dt_stage *stage = &examples->stages->stages[i];
    if (stage->function >= 0) DT_TRY(dt_example_function_create(examples->kernels, stage->function, &state->function));
    if (stage->kind == DT_STAGE_ENUMERATE) {
        state->numbers = dt_allocate_zeroed(1, sizeof *state->numbers);
        if (state->numbers == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (stage->operands != NULL) {
        state->numbers = dt_allocate_zeroed((size_t)stage->n_inputs, sizeof *state->numbers);
        state->texts = dt_allocate_zeroed((size_t)(stage->n_inputs + stage->n_outputs), sizeof *state->texts);
        if (state->numbers == NULL || state->texts == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (examples->tokenizers[i] != NULL) {
        size_t n_columns = (size_t)examples->after[i + 1].n, n_bytes = (size_t)examples->tokenizers[i]->length * sizeof *state->tokens;
        state->tokens = dt_allocate_zeroed(1, n_columns * n_bytes + DT_SLACK_BYTES);
        if (state->tokens == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu tokens", n_bytes / sizeof *state->tokens);
    }
    return NULL;
}

static dt_status *fill_maker(dt_example_maker *maker, int n_words) {
    const dt_stages *stages = maker->examples->stages;
    const dt_source *source = maker->examples->source;
    maker->stages = dt_allocate_zeroed((size_t)stages->n, sizeof *maker->stages);
    maker->components = dt_allocate_zeroed((size_t)maker->examples->n_most, sizeof *maker->components);
    maker->new_components = dt_allocate_zeroed((size_t)maker->examples->n_most, sizeof *maker->new_components);
    maker->inputs = dt_allocate_zeroed((size_t)maker->examples->n_most, sizeof *maker->inputs);
    maker->below = dt_allocate_zeroed((size_t)n_words, sizeof *maker->below);
    maker->rows = dt_allocate_zeroed((size_t)source->n_columns, sizeof *maker->rows);
    if (maker->stages == NULL || maker->components == NULL || maker->new_components == NULL || maker->inputs == NULL || maker->below == NULL ||
        maker->rows == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < source->n_columns; i++) {
        if (source->columns[i].bytes != NULL) continue;
        maker->rows[i] = dt_allocate_zeroed((size_t)source->columns[i].tensor.row_bytes + DT_SLACK_BYTES, 1);
        if (maker->rows[i] == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, source->columns[i].path, 0, "no memory for one row of it");
    }
    for (int i = 0; i < stages->n; i++) DT_TRY(fill_stage(maker->examples, i, &maker->stages[i]));
    return NULL;
}

dt_status *dt_example_maker_create(dt_examples *examples, int n_words, bool counts, dt_example_maker **maker) {
    *maker = NULL;
    dt_example_maker *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->examples = examples;
    created->counts = counts;
    dt_status *status = fill_maker(created, n_words);
    if (examples->marks) created->marks = dt_allocate_zeroed((size_t)examples->source->n_columns, sizeof *created->marks);
    if (status == NULL && examples->marks && created->marks == NULL) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status != NULL) {
        dt_example_maker_destroy(created);
        return status;
    }
    *maker = created;
    return NULL;
}

static void free_stage(const dt_stage *stage, stage_state *state) {
    dt_example_function_destroy(state->function);
    for (int i = 0; state->texts != NULL && i < 2 * (stage->n_inputs + stage->n_outputs); i++) dt_text_free(&state->texts[i / 2][i % 2]);
    dt_release(state->texts);
    dt_release(state->numbers);
    dt_release(state->tokens);
    dt_tokenizer_worker_free(&state->worker);
}

void dt_example_maker_destroy(dt_example_maker *maker) {
    if (maker == NULL) return;
    const dt_stages *stages = maker->examples->stages;
    for (int i = 0; maker->stages != NULL && i < stages->n; i++) free_stage(&stages->stages[i], &maker->stages[i]);
    for (int i = 0; maker->rows != NULL && i < maker->examples->source->n_columns; i++) dt_release(maker->rows[i]);
    dt_release(maker->rows);
    dt_release(maker->stages);
    dt_release(maker->components);
    dt_release(maker->new_components);
    dt_release(maker->inputs);
    dt_release(maker->below);
    dt_release(maker->marks);
    dt_release(maker);
}

/* What the function's call before this one did with indices. */
static dt_status *check_indices(dt_example_maker *maker, int stage, int64_t number) {
    dt_examples *examples = maker->examples;
    const dt_bad_index *bad = dt_example_function_bad_index(maker->stages[stage].function);
    if (bad->count == maker->stages[stage].n_bad) return NULL;
    if (maker->counts) atomic_fetch_add(&examples->n_bad_indices, bad->count - maker->stages[stage].n_bad);
    maker->stages[stage].n_bad = bad->count;
    if (examples->ignore_bad_index) return NULL;
    const dt_artifact *artifact = dt_kernels_artifact(examples->kernels);
    const dt_artifact_location *location = bad->location >= 0 && bad->location < artifact->n_locations ? &artifact->locations[bad->location] : NULL;
    return dt_error(DT_OUT_OF_RANGE, "%s:%lld:%lld: %s() of data %s, example %lld: index %lld is not within 0 to %lld",
                    location != NULL ? location->file : artifact->name, location != NULL ? (long long)location->line : 0,
                    location != NULL ? (long long)location->column : 0, dt_stage_name(examples->stages->stages[stage].kind),
                    examples->stages->pipeline, (long long)number, (long long)bad->value, (long long)bad->limit - 1);
}

/* The inputs of the stage's function, of what stands in maker->components. */
static dt_status *find_inputs(dt_example_maker *maker, int stage) {
    const dt_stage *written = &maker->examples->stages->stages[stage];
    stage_state *state = &maker->stages[stage];
    for (int i = 0; written->operands == NULL && i < maker->examples->after[stage].n; i++) maker->inputs[i] = maker->components[i].bytes;
    for (int i = 0; written->operands != NULL && i < written->n_inputs; i++) {
        const dt_stage_operand *operand = &written->operands[i];
        dt_component result = maker->components[operand->index];
        int64_t number;
        if (operand->chain.n > 0) {
            DT_TRY(dt_text_chain_run(&operand->chain, result, state->texts[i], &result, &number));
            memcpy(state->numbers[i].bytes, &number, sizeof number); /* little endian: its first byte is a truth's */
            result.bytes = state->numbers[i].bytes;
        }
        maker->inputs[i] = result.bytes;
    }
    return NULL;
}

static dt_status *call(dt_example_maker *maker, int stage, int64_t epoch, int64_t number) {
    int64_t seed = (int64_t)dt_key_join(maker->examples->seed, (uint64_t)epoch);
    DT_TRY(find_inputs(maker, stage));
    dt_example_function_call(maker->stages[stage].function, maker->inputs, number, seed);
    return check_indices(maker, stage, number);
}

static dt_status *run_map(dt_example_maker *maker, int stage, int64_t epoch, int64_t number) {
    const dt_columns *after = &maker->examples->after[stage + 1];
    const dt_stage *written = &maker->examples->stages->stages[stage];
    stage_state *state = &maker->stages[stage];
    if (state->function != NULL) DT_TRY(call(maker, stage, epoch, number));
    for (int i = 0; i < after->n; i++) {
        dt_stage_operand in_order = {.is_result = true, .index = i};
        int o = written->n_inputs + i;
        const dt_stage_operand *output = written->n_outputs > 0 ? &written->operands[o] : &in_order;
        dt_component *new = &maker->new_components[i];
        int64_t unused;
        if (output->is_result)
            *new = (dt_component){dt_example_function_result(state->function, output->index), (size_t)after->items[i].tensor.row_bytes};
        else
            DT_TRY(dt_text_chain_run(&output->chain, maker->components[output->index], state->texts[o], new, &unused));
    }
    memcpy(maker->components, maker->new_components, (size_t)after->n * sizeof *maker->components);
    return NULL;
}

static dt_status *run_tokenizer(dt_example_maker *maker, int stage, int64_t row) {
    const dt_tokenizer *tokenizer = maker->examples->tokenizers[stage];
    stage_state *state = &maker->stages[stage];
    const dt_columns *before = &maker->examples->after[stage];
    for (int i = 0; i < before->n; i++) {
        if (!before->items[i].is_text) continue;
        int32_t *tokens = state->tokens + (int64_t)i * tokenizer->length;
        const dt_component *text = &maker->components[i];
        DT_TRY(dt_status_annotate(tokenizer->encode(tokenizer, &state->worker, text->bytes, text->n_bytes, tokens), "data %s, row %lld (from 0)",
                                  maker->examples->stages->pipeline, (long long)row));
        maker->components[i] = (dt_component){tokens, (size_t)tokenizer->length * sizeof *tokens};
    }
    return NULL;
}

static void put_number(dt_example_maker *maker, int stage, int64_t number) {
    unsigned char *bytes = maker->stages[stage].numbers[0].bytes;
    memcpy(bytes, &number, sizeof number);
    memmove(maker->components + 1, maker->components, (size_t)maker->examples->after[stage].n * sizeof *maker->components);
    maker->components[0] = (dt_component){bytes, sizeof number};
}

/* The components after the first `n_stages` stages, from what stands in maker->components after the first `first`. */
static dt_status *run_stages(dt_example_maker *maker, int first, int n_stages, int64_t epoch, const int64_t *item) {
    const dt_examples *examples = maker->examples;
    int word = 1;
    for (int i = 0; i < n_stages; i++) {
        dt_stage_kind kind = examples->stages->stages[i].kind;
        int64_t number = dt_stage_numbers(kind) ? item[word++] : 0;
        if (i < first) continue;
        if (kind == DT_STAGE_MAP) DT_TRY(run_map(maker, i, epoch, number));
        if (kind == DT_STAGE_ENUMERATE) put_number(maker, i, number);
        if (examples->tokenizers[i] != NULL) DT_TRY(run_tokenizer(maker, i, item[0]));
    }
    return NULL;
}

/* Of the row whose components stand in maker->components: what it takes is measured now and then. */
static void mark(dt_example_maker *maker) {
    dt_examples *examples = maker->examples;
    bool looks = maker->n_marked++ % MARKS_A_LOOK == 0;
    double began = looks ? dt_seconds_now() : 0;
    for (int i = 0; i < examples->source->n_columns; i++) maker->marks[i] = dt_mark_of(maker->components[i].bytes, maker->components[i].n_bytes);
    if (looks) atomic_fetch_add(&examples->mark_nanoseconds, (int64_t)((dt_seconds_now() - began) * 1e9 * MARKS_A_LOOK));
}

const uint64_t *dt_example_marks(const dt_example_maker *maker) { return maker->marks; }

double dt_examples_mark_seconds(const dt_examples *examples) { return (double)atomic_load(&examples->mark_nanoseconds) * 1e-9; }

/* What row `row` of the source has. *n_read: see dt_example_mark_row. */
static dt_status *find_row(dt_example_maker *maker, int64_t row, int64_t *n_read) {
    dt_source *source = maker->examples->source;
    DT_TRY(dt_source_wait(source, row + 1));
    for (int i = 0; i < source->n_columns; i++) {
        const dt_column *column = &source->columns[i];
        if (column->bytes == NULL) {
            DT_TRY(dt_source_read(source, i, row, 1, maker->rows[i]));
            *n_read += column->tensor.row_bytes;
        }
        maker->components[i] = column->bytes != NULL ? dt_column_row(column, row) : (dt_component){maker->rows[i], (size_t)column->tensor.row_bytes};
    }
    return NULL;
}

dt_status *dt_examples_remember_marks(dt_examples *examples) {
    size_t n_columns = (size_t)examples->source->n_columns;
    if (examples->known_marks != NULL || examples->source->n_examples > (int64_t)(MOST_MARK_BYTES / sizeof(uint64_t) / n_columns)) return NULL;
    examples->known_marks = dt_allocate_zeroed((size_t)examples->source->n_examples * n_columns, sizeof *examples->known_marks);
    return examples->known_marks != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for marks", examples->stages->pipeline);
}

dt_status *dt_example_mark_row(dt_example_maker *maker, int64_t row, uint64_t *marks, int64_t *n_read) {
    int n_columns = maker->examples->source->n_columns;
    _Atomic uint64_t *known = maker->examples->known_marks != NULL ? maker->examples->known_marks + row * n_columns : NULL;
    bool is_known = known != NULL;
    for (int i = 0; i < n_columns && is_known; i++) {
        marks[i] = atomic_load_explicit(&known[i], memory_order_relaxed);
        is_known = marks[i] != 0;
    }
    if (is_known) return NULL;
    DT_TRY(find_row(maker, row, n_read));
    for (int i = 0; i < n_columns; i++) {
        marks[i] = dt_mark_of(maker->components[i].bytes, maker->components[i].n_bytes);
        if (known != NULL) atomic_store_explicit(&known[i], marks[i], memory_order_relaxed);
    }
    return NULL;
}

static dt_status *make_from_source(dt_example_maker *maker, int n_stages, int64_t epoch, const int64_t *item) {
    int64_t n_read = 0;
    if (maker->marks != NULL) memset(maker->marks, 0, (size_t)maker->examples->source->n_columns * sizeof *maker->marks);
    DT_TRY(find_row(maker, item[0], &n_read));
    if (maker->marks != NULL) mark(maker);
    return run_stages(maker, 0, n_stages, epoch, item);
}

static dt_status *keep_text(const dt_examples *examples, const dt_component *text, dt_component *kept) {
    void *bytes = dt_allocate_zeroed(1, text->n_bytes + DT_SLACK_BYTES);
    if (bytes == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for the texts of cache()", examples->stages->pipeline);
    memcpy(bytes, text->bytes, text->n_bytes);
    *kept = (dt_component){bytes, text->n_bytes};
    return NULL;
}

/* Row `row` of the cache. Maps before a cache belong to no epoch: their seed is that of epoch 0. */
static dt_status *make_cached(dt_example_maker *maker, int64_t row) {
    dt_examples *examples = maker->examples;
    int cache = examples->stages->cache;
    const dt_columns *kept = &examples->after[cache + 1];
    unsigned char absent = ROW_ABSENT;
    bool mine = false;
    if (!examples->caches || atomic_load_explicit(&examples->states[row], memory_order_acquire) != ROW_PRESENT) {
        dt_order_cached_item(examples->order, row, maker->below);
        DT_TRY(make_from_source(maker, cache, 0, maker->below));
        if (!examples->caches) return NULL;
        mine = atomic_compare_exchange_strong(&examples->states[row], &absent, ROW_BEING_MADE);
        if (!mine) return NULL;
    }
    if (maker->marks != NULL) {
        size_t n_columns = (size_t)examples->source->n_columns;
        uint64_t *kept_marks = examples->cached_marks + (size_t)row * n_columns;
        memcpy(mine ? kept_marks : maker->marks, mine ? maker->marks : kept_marks, n_columns * sizeof *kept_marks);
    }
    for (int i = 0; i < kept->n; i++) {
        if (kept->items[i].is_text) {
            dt_component *text = (dt_component *)examples->cached[i] + row;
            if (mine) DT_TRY(keep_text(examples, &maker->components[i], text));
            maker->components[i] = *text;
            continue;
        }
        size_t row_bytes = (size_t)kept->items[i].tensor.row_bytes;
        unsigned char *stored = (unsigned char *)examples->cached[i] + (size_t)row * row_bytes;
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
    return run_stages(maker, cache + 1, n_stages, epoch, item);
}

dt_status *dt_example_make(dt_example_maker *maker, int64_t epoch, const int64_t *item, const dt_component **components) {
    *components = maker->components;
    return make(maker, maker->examples->stages->n, epoch, item);
}

dt_status *dt_example_filter(dt_example_maker *maker, int stage, int64_t epoch, const int64_t *item, bool *keep) {
    DT_TRY(make(maker, stage, epoch, item));
    DT_TRY(call(maker, stage, epoch, item[0]));
    *keep = *(const unsigned char *)dt_example_function_result(maker->stages[stage].function, 0) != 0;
    return NULL;
}
