/* kernel_code: see the header. A case is a program of one op or formula, so what is measured is what the passes make of it. */
#include "bench/kernel_code.h"

#include "abi/launch.h"
#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/count.h"
#include "compiler/kernel/execute.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "ir/text_form.h"
#include "runtime/artifact/object_loader.h"

#include <math.h>
#include <stdio.h>

enum {
    SLACK_BYTES = 64,
    OPERATIONS_OF_ELEMENT = 100 /* about what the interpreter does for one of a formula */
};

static const double CHECKED_OPERATIONS = 2e7; /* the interpreter does some tens of millions a second */
static const double TOLERANCE = 1e-4;         /* of an element and the root of the mean square of all: rounding stays far below */

/* One case while it is being worked on. */
typedef struct subject {
    const kernel_case *test;
    const char *level;
    dt_arena *arena;
    const dt_function *meaning; /* as written: what the interpreter runs */
    dt_compilation compilation;
    const dt_plan *plan; /* what the passes made of it */
    dt_object *code;
} subject;

/* ---- compiling ---- */

static dt_status *elaborate(const subject *s, const char *source, dt_module **module) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(s->arena);
    DT_TRY(dt_dsl_compile(s->arena, "formula", source, &(dt_dsl_options){.capacity = kernel_case_rows(s->test)}, diagnostics, module));
    if (*module != NULL) return NULL;
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (text.data != NULL) fputs(text.data, stderr);
    dt_text_free(&text);
    return dt_error(DT_INVALID_ARGUMENT, "%s: is no formula of the language (docs/language.md)", s->test->elementwise.formula);
}

static dt_status *make_module(const subject *s, dt_module **module) {
    dt_text text = {0};
    kernel_case_append_module(&text, s->test);
    if (text.failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    const char *source = dt_arena_string(s->arena, text.data);
    dt_text_free(&text);
    return s->test->kind == CASE_ELEMENTWISE ? elaborate(s, source, module) : dt_module_parse(s->arena, s->test->name, source, module);
}

static dt_status *compile(subject *s) {
    dt_module *meaning;
    DT_TRY(make_module(s, &meaning));
    s->meaning = dt_module_find_function(meaning, "f");
    s->compilation = (dt_compilation){.arena = s->arena, .off = 1u << DT_SWITCH_MICROBATCHES};
    DT_TRY(make_module(s, &s->compilation.module));
    DT_TRY(dt_passes_run(&s->compilation, &(dt_passes_options){0}));
    for (int i = 0; i < s->compilation.n_plans; i++)
        if (s->compilation.module->functions.items[i] == dt_module_find_function(s->compilation.module, "f")) s->plan = s->compilation.plans[i];
    dt_codegen_object object = {.level = s->level};
    const dt_cpu_target *target;
    DT_TRY(dt_codegen_target(s->level, &target));
    DT_TRY(dt_passes_choose(&s->compilation, target, &object.choices));
    DT_TRY(dt_codegen_llvm(&s->plan, 1, NULL, &object, 1));
    dt_status *status = dt_object_load(s->level, object.bytes, object.n_bytes, &s->code);
    dt_release(object.bytes);
    return status;
}

/* ---- running ---- */

static void fill(const kernel_case *test, dt_tensor *tensor) {
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) dt_tensor_set(tensor, i, kernel_case_element(test, i));
}

static dt_tensor make_input(const subject *s, const dt_value *input, int rows) {
    int64_t *dims = DT_NEW_ARRAY(s->arena, int64_t, input->shape.rank);
    for (int d = 0; d < input->shape.rank; d++) dims[d] = dt_dim_is_symbol(input->shape.dims[d]) ? rows : input->shape.dims[d];
    dt_tensor tensor = dt_tensor_make(s->arena, input->dtype, (dt_shape){input->shape.rank, dims});
    tensor.data = dt_arena_new(s->arena, dt_tensor_bytes(&tensor) + SLACK_BYTES);
    fill(s->test, &tensor);
    return tensor;
}

static dt_tensor *make_inputs(const subject *s, int rows) {
    dt_tensor *inputs = DT_NEW_ARRAY(s->arena, dt_tensor, s->meaning->inputs.n);
    for (size_t i = 0; i < s->meaning->inputs.n; i++) inputs[i] = make_input(s, s->meaning->inputs.items[i], rows);
    return inputs;
}

static dt_memory make_memory(const subject *s) {
    dt_memory memory = dt_memory_create(s->arena, s->compilation.module);
    for (size_t i = 0; i < s->compilation.module->variables.n; i++) fill(s->test, &memory.variables[i]);
    return memory;
}

static dt_kernel_entry entry_of(const subject *s, const dt_plan *plan, int kernel) {
    return (dt_kernel_entry)dt_object_find(s->code, plan->kernels[kernel].name);
}

static void run_once(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    entry_of(context, plan, kernel)(buffers, launch);
}

typedef struct entry_call {
    dt_kernel_entry entry;
    void *const *buffers;
    const dt_launch *launch;
} entry_call;

static void call_entry(void *context) {
    const entry_call *call = context;
    call->entry(call->buffers, call->launch);
}

typedef struct timed {
    const subject *subject;
    double seconds;
} timed;

static void run_timed(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    timed *t = context;
    entry_call call = {entry_of(t->subject, plan, kernel), buffers, launch};
    t->seconds += kernel_case_time(call_entry, &call);
}

static dt_status *execute(const subject *s, int rows, const dt_tensor *inputs, dt_kernel_runner runner, void *context, dt_tensor *result) {
    dt_memory memory = make_memory(s);
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = rows, .valid = rows, .global_batch = rows, .replicas = 1, .bad_index = &bad_index};
    return dt_plan_execute(s->arena, &(dt_plan_run){s->plan, runner, context, 1, &launch, inputs, &memory, result});
}

/* ---- checking ---- */

static dt_status *compare(const subject *s, const dt_tensor *got, const dt_tensor *want) {
    size_t n = dt_tensor_elements(want);
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += isfinite(dt_tensor_get(want, i)) ? pow(dt_tensor_get(want, i), 2) : 0;
    for (size_t i = 0; i < n; i++) {
        double x = dt_tensor_get(got, i), y = dt_tensor_get(want, i);
        bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= TOLERANCE * (fabs(y) + sqrt(squares / (double)n));
        if (!same) return dt_error(DT_INTERNAL, "%s: element %zu is %g, the interpreter says %g", s->test->name, i, x, y);
    }
    return NULL;
}

static dt_status *check(subject *s, int rows) {
    const dt_tensor *inputs = make_inputs(s, rows);
    dt_tensor got, want;
    dt_launch launch = {.rows = rows, .valid = rows, .global_batch = rows, .replicas = 1};
    dt_memory memory = make_memory(s);
    DT_TRY(dt_interpret(s->arena, s->meaning, &launch, inputs, &memory, &want));
    DT_TRY(execute(s, rows, inputs, run_once, s, &got));
    return compare(s, &got, &want);
}

/* As many rows as the interpreter does in about a second. */
static int checked_rows(const kernel_case *test) {
    int rows = kernel_case_rows(test);
    double operations = kernel_case_operations(test);
    if (test->kind == CASE_ELEMENTWISE) {
        operations = OPERATIONS_OF_ELEMENT;
        for (int d = 0; d < test->elementwise.shape.rank; d++) operations *= test->elementwise.shape.dims[d];
    }
    double most = CHECKED_OPERATIONS / (operations / rows);
    return most >= rows ? rows : most < 1 ? 1 : (int)most;
}

static void count(const subject *s, int rows, kernel_measured *measured) {
    for (int k = 0; k < s->plan->n_kernels; k++) {
        dt_kernel_count count = dt_kernel_count_of(s->arena, s->plan, &s->plan->kernels[k]);
        measured->flops += dt_amount_of(count.flops, rows, rows);
        measured->bytes += dt_amount_of(count.bytes, rows, rows);
    }
    if (s->test->kind != CASE_ELEMENTWISE) measured->flops = kernel_case_operations(s->test);
}

static dt_status *measure(subject *s, kernel_measured *measured) {
    int rows = kernel_case_rows(s->test);
    *measured = (kernel_measured){.checked_rows = checked_rows(s->test)};
    DT_TRY(compile(s));
    DT_TRY(check(s, measured->checked_rows));
    timed t = {.subject = s};
    dt_tensor result;
    DT_TRY(execute(s, rows, make_inputs(s, rows), run_timed, &t, &result));
    measured->seconds = t.seconds;
    count(s, rows, measured);
    return NULL;
}

dt_status *kernel_code_measure(const kernel_case *test, const char *level, kernel_measured *measured) {
    subject s = {.test = test, .level = level, .arena = dt_arena_create()};
    if (s.arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    jmp_buf guard;
    dt_status *status;
    if (setjmp(guard) == 0) {
        dt_arena_guard(s.arena, &guard);
        status = measure(&s, measured);
    } else
        status = dt_error(DT_RESOURCE_EXHAUSTED, "%s: out of memory", test->name);
    dt_object_free(s.code);
    dt_arena_destroy(s.arena);
    return status;
}
