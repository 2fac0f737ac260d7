/* rows: every row of the op table as a program of one op, through all passes and a code generator, against the interpreter: odd sizes, every dtype
 * that the row takes, full and short batches and none, values at the edges of floats, each way that the code can run (levels of instruction sets,
 * orders of threads).
 *
 * Rows that say "exact" must agree to the bit, others within their units of the last place. All cases of a row are one program. OPS_SEED=n reruns
 * with other numbers, OPS_ROW=name one row alone, OPS_PART=2/16 the third of sixteen parts of the rows. */
#ifndef DT_TESTS_OPS_ROWS_H
#define DT_TESTS_OPS_ROWS_H

#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "tests/support/op_cases.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum {
    CAPACITY = 6,
    MOST_FAILURES = 40 /* that are printed */
};

enum {
    MOST_WAYS = 4
};

/* One way in which the code of a row runs. */
typedef struct way {
    const char *name;
    dt_kernel_runner runner;
    void *context;
    bool as_before; /* its bits must be those of the way before it */
} way;

/* What is tested: how plans become code. `make` fills in ways (MOST_WAYS at most) for a compilation, in a context that `release` frees, after an
 * error too; `wrong` says what went wrong in running besides wrong results, or NULL. */
typedef struct generator {
    dt_target target;
    size_t context_bytes; /* zeroed */
    dt_status *(*make)(const dt_compilation *compilation, void *context, way *ways, int *n_ways);
    void (*release)(void *context);
    const char *(*wrong)(void *context);
} generator;

/* All cases of one row. */
typedef struct subject {
    dt_arena *arena;
    const dt_op *op;
    op_case_list list;
    dt_module *graph;           /* as built: what the interpreter runs */
    dt_value **values;          /* [n cases] in `graph` */
    dt_compilation compilation; /* the same, through the passes */
    const generator *generator;
    void *context;
    way ways[MOST_WAYS];
    int n_ways;
    uint64_t random;
} subject;

typedef struct totals {
    int n_rows, n_cases, n_runs, n_failures;
} totals;

static void fail_case(totals *totals, const char *text, const char *level, int64_t rows, const char *what) {
    if (totals->n_failures++ < MOST_FAILURES) print_error("%s, %s, %" PRId64 " rows: %s\n", text, level, rows, what);
}

/* ---- cases ---- */

/* The text with "f32" replaced by another dtype. */
static const char *with_dtype(dt_arena *arena, const char *text, dt_dtype dtype) {
    const char *result = "", *at;
    for (; (at = strstr(text, "f32")) != NULL; text = at + 3)
        result = dt_arena_format(arena, "%s%.*s%s", result, (int)(at - text), text, dt_dtype_name(dtype));
    return dt_arena_format(arena, "%s%s", result, text);
}

/* May every operand written as f32 be of that dtype? */
static bool row_takes(const dt_op *op, const char *text, dt_dtype dtype) {
    const char *at = strchr(text, '(') + 1, *end = strchr(at, ';');
    for (int k = 0; at < end; k++) {
        if (strncmp(at, "f32", 3) == 0 && !dt_type_word_holds(op->operands[op->variadic ? 0 : k].type, dtype)) return false;
        int depth = 0;
        for (; at < end && (*at != ',' || depth > 0); at++) depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        at += strspn(at, ", ");
    }
    return true;
}

/* Listed cases are of f32 for the most part: the same of every other dtype. Elementwise rows have theirs, and only f32 is rounded to a precision. */
static void add_dtypes(subject *s) {
    size_t n = s->list.texts.n;
    for (size_t c = 0; c < n && s->op->class != DT_CLASS_MAP; c++)
        for (int d = 0; d < DT_N_DTYPES; d++) {
            const char *text = s->list.texts.items[c];
            if (d == DT_F32 || strstr(text, "f32") == NULL || strstr(text, "precision=") != NULL || !row_takes(s->op, text, (dt_dtype)d)) continue;
            dt_list_push(s->arena, &s->list.texts, with_dtype(s->arena, text, (dt_dtype)d));
        }
}

/* A result whose rows are not its first dimension gets them there: steps return rows. */
static dt_status *rows_first(dt_builder *builder, dt_value **value) {
    int axis = dt_shape_batch_axis((*value)->shape), rank = (*value)->shape.rank;
    if (axis <= 0) return NULL;
    int64_t permutation[8] = {axis};
    for (int d = 0, i = 1; d < rank; d++)
        if (d != axis) permutation[i++] = d;
    dt_attribute attribute = {.i = rank, .ints = permutation};
    return dt_build(builder, dt_op_find("transpose"), value, 1, &attribute, value);
}

static dt_status *build_module(subject *s, dt_module **module, dt_value **values) {
    *module = dt_module_create(s->arena, "cases");
    (*module)->capacity = CAPACITY;
    dt_list_push(s->arena, &(*module)->files, "cases.dt");
    for (size_t c = 0; c < s->list.texts.n; c++) {
        dt_function *function = dt_module_add_function(*module, dt_arena_format(s->arena, "case%zu", c), DT_ROLE_STEP);
        dt_builder builder = {.function = function};
        DT_TRY(dt_status_annotate(op_case_build(function, s->list.texts.items[c], NULL, NULL, &values[c]), "%s", s->list.texts.items[c]));
        dt_value *result = values[c];
        DT_TRY(rows_first(&builder, &result));
        dt_list_push(s->arena, &function->results, ((dt_result){"y", result}));
    }
    return NULL;
}

static dt_status *prepare(subject *s) {
    dt_module *module;
    add_dtypes(s);
    s->values = DT_NEW_ARRAY(s->arena, dt_value *, s->list.texts.n);
    dt_value **others = DT_NEW_ARRAY(s->arena, dt_value *, s->list.texts.n);
    DT_TRY(build_module(s, &s->graph, s->values));
    DT_TRY(build_module(s, &module, others));
    s->compilation = (dt_compilation){.arena = s->arena, .module = module, .target = s->generator->target};
    DT_TRY(dt_passes_run(&s->compilation, &(dt_passes_options){0}));
    return s->generator->make(&s->compilation, s->context, s->ways, &s->n_ways);
}

/* ---- comparing ---- */

static double least_normal(dt_dtype dtype) { return dtype == DT_F64 ? DBL_MIN : dtype == DT_F16 ? 0x1p-14 : (double)FLT_MIN; }

static double unit_of(double size, dt_dtype dtype) {
    int bits = dtype == DT_F64 ? 52 : dtype == DT_F32 ? 23 : dtype == DT_F16 ? 10 : 7;
    return ldexp(1, ilogb(fmax(size, least_normal(dtype))) - bits);
}

/* Element i of both. `scale` is the size of what was summed. Below the normal numbers inexact rows may give 0. */
static bool agree(const subject *s, const dt_tensor *got, const dt_tensor *want, const dt_tensor *scale, size_t i) {
    dt_dtype dtype = want->dtype;
    size_t at = i * dt_dtype_bytes(dtype);
    if (!dt_dtype_is_float(dtype)) return memcmp((char *)got->data + at, (char *)want->data + at, dt_dtype_bytes(dtype)) == 0;
    double x = dt_tensor_get(got, i), y = dt_tensor_get(want, i), ulp = s->op->tolerance_ulp;
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return true;
    if (ulp == 0 || isinf(x) || isinf(y)) return false;
    if (fabs(y) < least_normal(dtype) && fabs(x) <= least_normal(dtype)) return true;
    return fabs(x - y) <= (ulp + 1) * unit_of(fabs(dt_tensor_get(scale, i)), dtype);
}

/* NULL, or what is wrong. */
static const char *compare(const subject *s, const dt_tensor *got, const dt_tensor *want, const dt_tensor *scale) {
    if (got->dtype != want->dtype || !dt_shape_equal(got->shape, want->shape)) return "another type";
    for (size_t i = 0; i < dt_tensor_elements(want); i++)
        if (!agree(s, got, want, scale, i))
            return dt_arena_format(s->arena, "element %zu is %.17g, should be %.17g", i, dt_tensor_get(got, i), dt_tensor_get(want, i));
    return NULL;
}

/* The comparison can fail: a changed element does not pass. */
static void plant(const subject *s, totals *totals, const char *text, const dt_tensor *want, const dt_tensor *scale) {
    size_t middle = dt_tensor_elements(want) / 2;
    if (dt_tensor_elements(want) == 0) return;
    dt_tensor changed = dt_tensor_make(s->arena, want->dtype, want->shape);
    memcpy(changed.data, want->data, dt_tensor_bytes(want));
    if (dt_dtype_is_float(want->dtype)) {
        double old = dt_tensor_get(want, middle), size = fabs(dt_tensor_get(scale, middle));
        dt_tensor_set(&changed, middle, isfinite(old) ? old + size / 8 + 1 : 1);
    } else {
        ((char *)changed.data)[middle * dt_dtype_bytes(want->dtype)] ^= 1;
    }
    if (compare(s, &changed, want, scale) == NULL) fail_case(totals, text, "planted error", 0, "went unnoticed");
}

/* ---- running ---- */

static dt_tensor interpret(subject *s, size_t c, dt_launch launch, const dt_tensor *inputs, dt_bad_index *bad) {
    dt_tensor result;
    launch.bad_index = bad;
    dt_status *status = dt_interpret(s->arena, s->graph->functions.items[c], &launch, inputs, NULL, &result);
    if (status != NULL) fail_msg("%s: %s", s->list.texts.items[c], dt_status_message(status));
    return result;
}

/* Of sums: what they would be if all operands were positive. Else the result itself. */
static dt_tensor scale_of(subject *s, size_t c, dt_launch launch, const dt_tensor *inputs, const dt_tensor *want) {
    if (strcmp(s->op->formula, "sum") != 0) return *want;
    int n = s->values[c]->n_operands;
    dt_tensor *positive = DT_NEW_ARRAY(s->arena, dt_tensor, n);
    for (int k = 0; k < n; k++) {
        positive[k] = inputs[k];
        if (!dt_dtype_is_float(inputs[k].dtype)) continue;
        positive[k] = dt_tensor_make(s->arena, inputs[k].dtype, inputs[k].shape);
        for (size_t i = 0; i < dt_tensor_elements(&inputs[k]); i++) dt_tensor_set(&positive[k], i, fabs(dt_tensor_get(&inputs[k], i)));
    }
    return interpret(s, c, launch, positive, &(dt_bad_index){0});
}

static void run_case(subject *s, totals *totals, size_t c, int64_t rows, const dt_tensor *inputs) {
    const char *text = s->list.texts.items[c];
    dt_launch launch = {.rows = rows,
                        .row_offset = 10,
                        .valid = rows,
                        .global_batch = CAPACITY,
                        .replicas = 1,
                        .epochs = 2,
                        .steps_per_epoch = 7,
                        .counter = 11,
                        .seed = 0x123456789abcdef};
    dt_bad_index want_bad = {0};
    dt_tensor want = interpret(s, c, launch, inputs, &want_bad), scale = scale_of(s, c, launch, inputs, &want);
    plant(s, totals, text, &want, &scale);
    dt_tensor before = {0};
    for (int w = 0; w < s->n_ways; w++) {
        dt_bad_index bad = {0};
        dt_tensor got;
        launch.bad_index = &bad;
        const way *way = &s->ways[w];
        dt_plan_run run = {s->compilation.plans[c], way->runner, way->context, 1, &launch, inputs, NULL, &got};
        dt_status *status = dt_plan_execute(s->arena, &run);
        const char *wrong = status != NULL ? dt_arena_string(s->arena, dt_status_message(status)) : compare(s, &got, &want, &scale);
        if (wrong == NULL && (bad.count > 0) != (want_bad.count > 0)) wrong = "bad indices are counted by one alone";
        if (wrong == NULL && bad.count > 0 && (bad.limit != want_bad.limit || bad.value != want_bad.value || bad.row != want_bad.row))
            wrong = "another index is said to be the first bad one";
        if (s->generator->wrong != NULL && s->generator->wrong(way->context) != NULL) wrong = s->generator->wrong(way->context);
        if (wrong == NULL && way->as_before && memcmp(before.data, got.data, dt_tensor_bytes(&got)) != 0) wrong = "other bits than the way before";
        dt_status_free(status);
        if (wrong != NULL) fail_case(totals, text, way->name, rows, wrong);
        before = got;
        totals->n_runs++;
    }
}

/* Elements where formulas meet their edges; each operand goes through them in another order, so that pairs differ. Left out is what the tables do
 * not promise: the sign of a power of -0, and sines of numbers that are far from their period. */
static void fill_with_edges(const dt_op *op, dt_tensor *tensor, int operand) {
    static const double edges[] = {0,     1,      -1,   INFINITY, -INFINITY, NAN,   0x1p-149, 0x1p-126, -0x1p-126, 0.5,  2,     88.7,
                                   88.8,  -0.0,   88.8, -87,      -104,      200,   3,        2.5,      -1.5,      -2,   1e-30, -0.5,
                                   709.7, -709.7, 3e38, 9e9,      7e8,       -3e38, 1e300,    -4e19,    300,       -129, 127.5, 65504.0};
    static const char *const small[] = {"power", "sin", "cos"};
    size_t n = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strcmp(op->name, small[i]) == 0) n = 13;
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) dt_tensor_set(tensor, i, edges[(i * (size_t)(2 * operand + 1) + i / n) % n]);
}

/* Factors that lie between two that a precision has, half of them exactly in the middle. */
static void fill_with_ties(dt_tensor *tensor) {
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) {
        double tie = (double)(2 * (i % 1013) + 1) * (i % 2 == 0 ? 0x1p-11 : 0x1p-8), beside = (double)(i / 2 % 3) - 1;
        dt_tensor_set(tensor, i, (i % 3 == 0 ? -1 : 1) * (1 + tie - floor(tie) + (i % 4 < 2 ? 0 : beside * 0x1p-23)));
    }
}

static void run_cases(subject *s, totals *totals) {
    static const int64_t all_rows[] = {5, 1, 0, CAPACITY};
    for (size_t c = 0; c < s->list.texts.n; c++) {
        const dt_value *value = s->values[c];
        bool has_rows = strchr(s->list.texts.items[c], 'B') != NULL;
        dt_tensor *inputs = DT_NEW_ARRAY(s->arena, dt_tensor, value->n_operands);
        for (int i = 0; i < (has_rows ? 4 : 1); i++) {
            for (int k = 0; k < value->n_operands; k++) inputs[k] = op_random_operand(s->arena, value, k, all_rows[i], false, &s->random);
            run_case(s, totals, c, all_rows[i], inputs);
        }
        bool is_rounded = strstr(s->list.texts.items[c], "precision=") != NULL;
        if (s->op->class != DT_CLASS_MAP && !is_rounded) continue;
        for (int k = 0; k < value->n_operands; k++) {
            if (is_rounded)
                fill_with_ties(&inputs[k]);
            else if (dt_dtype_is_float(inputs[k].dtype))
                fill_with_edges(s->op, &inputs[k], k);
            else if (inputs[k].dtype != DT_BOOL)
                op_fill_with_extremes(&inputs[k], k);
        }
        run_case(s, totals, c, CAPACITY, inputs);
    }
}

static void run_row(const dt_op *op, uint64_t seed, const generator *generator, totals *totals) {
    subject s = {.arena = dt_arena_create(), .op = op, .random = seed, .generator = generator};
    s.context = dt_arena_new(s.arena, generator->context_bytes);
    if (!op_cases(s.arena, &s.list, op)) fail_msg("%s has no case", op->name);
    dt_status *status = prepare(&s);
    if (status == NULL)
        run_cases(&s, totals);
    else
        fail_case(totals, op->name, "compiling", CAPACITY, dt_status_message(status));
    totals->n_rows++;
    totals->n_cases += (int)s.list.texts.n;
    dt_status_free(status);
    generator->release(s.context);
    dt_arena_destroy(s.arena);
}

/* OPS_PART: which of how many. All of it is one part. */
static void read_part(int *part, int *n_parts) {
    const char *text = getenv("OPS_PART");
    *part = 0, *n_parts = 1;
    if (text != NULL && (sscanf(text, "%d/%d", part, n_parts) != 2 || *part < 0 || *part >= *n_parts)) fail_msg("OPS_PART is not '%s'", text);
}

/* Runs the rows in `names`, which NULL ends, or all. */
static void run_rows(const generator *generator, const char *const *names) {
    uint64_t seed = getenv("OPS_SEED") != NULL ? strtoull(getenv("OPS_SEED"), NULL, 10) : 1;
    const char *only = getenv("OPS_ROW");
    totals totals = {0};
    int part, n_parts, n_wanted = 0;
    read_part(&part, &n_parts);
    for (size_t i = 0; i < dt_n_ops; i++) {
        const dt_op *op = dt_op_at(i);
        bool named = names == NULL || only != NULL;
        for (int k = 0; !named && names[k] != NULL; k++) named = strcmp(names[k], op->name) == 0;
        bool wanted = named && op_has_value(op) && (only == NULL || strcmp(only, op->name) == 0);
        if (wanted && n_wanted++ % n_parts == part) run_row(op, seed, generator, &totals);
    }
    print_message("%d rows, %d cases, %d runs, %d failures; seed %" PRIu64 "\n", totals.n_rows, totals.n_cases, totals.n_runs, totals.n_failures,
                  seed);
    assert_int_equal(totals.n_failures, 0);
    assert_true(totals.n_rows > 0);
}

#endif
