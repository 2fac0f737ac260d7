/* planted: examples whose gradients are wrong on purpose, which `dtc check` has to find.
 *
 * A test that includes this file holds ir/gradient.c itself, under another name, and puts its own dt_op_gradient before it: of one operand of one op
 * the gradient is a hundredth too large, wherever the op is used. The code under test is otherwise what dtc is made of. */
#ifndef DT_TESTS_SUPPORT_PLANTED_H
#define DT_TESTS_SUPPORT_PLANTED_H

#define dt_op_gradient row_gradient
#include "ir/gradient.c"
#undef dt_op_gradient

#include "base/file.h"
#include "compiler/check.h"
#include "frontends/dsl/dsl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* An operand of an op; of an op with any number of operands all count as the first. */
typedef struct planted_place {
    const dt_op *op;
    int operand;
} planted_place;

enum {
    PLANTED_MOST = 128
};
static planted_place planted;                    /* where the mistake is; op NULL: nowhere */
static planted_place planted_used[PLANTED_MOST]; /* where autodiff asked for a gradient and got one */
static int planted_n_used;

static void planted_note(planted_place place) {
    for (int i = 0; i < planted_n_used; i++)
        if (planted_used[i].op == place.op && planted_used[i].operand == place.operand) return;
    assert_true(planted_n_used < PLANTED_MOST);
    planted_used[planted_n_used++] = place;
}

static dt_status *planted_scale(dt_builder *builder, dt_value **gradient) {
    dt_value *scale;
    DT_TRY(dt_build_constant(builder, &scale, (*gradient)->dtype, 1.01, (*gradient)->shape));
    return dt_build_binary(builder, gradient, "multiply", *gradient, scale);
}

dt_status *dt_op_gradient(dt_builder *builder, dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    DT_TRY(row_gradient(builder, value, g, wanted, gradients));
    for (int k = 0; k < value->n_operands; k++) {
        planted_place here = {value->op, value->op->variadic ? 0 : k};
        if (gradients[k] == NULL) continue;
        planted_note(here);
        if (here.op == planted.op && here.operand == planted.operand) DT_TRY(planted_scale(builder, &gradients[k]));
    }
    return NULL;
}

/* ---- examples ---- */

typedef struct planted_example {
    const char *name;             /* examples/NAME.dt */
    int64_t rows;                 /* as dtc check takes them */
    const dt_dsl_define *defines; /* ended by {0}; NULL: none */
    const char *unreached;        /* " op.operand op.operand ": where the data that is made up has gradients of 0, wrong or not */
} planted_example;

static dt_module *planted_elaborate(dt_arena *arena, const planted_example *example) {
    char path[4096], *source;
    size_t n_bytes;
    dt_dsl_options options = {.defines = example->defines};
    while (example->defines != NULL && example->defines[options.n_defines].name != NULL) options.n_defines++;
    snprintf(path, sizeof path, "%s/examples/%s.dt", getenv("DT_SOURCE"), example->name);
    assert_null(dt_file_read(path, &source, &n_bytes));
    dt_module *module;
    assert_null(dt_dsl_compile(arena, path, source, &options, dt_diagnostics_create(arena), &module));
    assert_non_null(module);
    free(source);
    return module;
}

/* Checks the step that trains, with the mistake at `place`. */
static dt_finding planted_check(const dt_check *check, const planted_example *example, planted_place place) {
    dt_arena *arena = dt_arena_create();
    dt_finding finding;
    size_t step = 0;
    while (!check->module->steps.items[step].trains) step++;
    planted = place;
    dt_status *status = dt_check_gradients(arena, check, step, example->rows, &finding);
    if (status != NULL) fail_msg("%s: %s", example->name, dt_status_message(status));
    finding.where = NULL; /* it was in the arena */
    dt_arena_destroy(arena);
    return finding;
}

static void planted_run(const planted_example *example) {
    dt_arena *arena = dt_arena_create();
    dt_check check = {0};
    dt_status *status = dt_check_prepare(arena, planted_elaborate(arena, example), &check);
    if (status != NULL) fail_msg("%s: %s", example->name, dt_status_message(status));
    planted_n_used = 0;
    dt_finding right = planted_check(&check, example, (planted_place){0});
    int n_places = planted_n_used, n_missed = 0;
    assert_true(n_places > 0);
    if (right.wrong) fail_msg("%s: wrong without a mistake", example->name);
    for (int i = 0; i < n_places; i++) {
        char name[64];
        snprintf(name, sizeof name, " %s.%d ", planted_used[i].op->name, planted_used[i].operand);
        dt_finding finding = planted_check(&check, example, planted_used[i]);
        bool is_unreached = example->unreached != NULL && strstr(example->unreached, name) != NULL;
        if (is_unreached) assert_true(finding.worst == right.worst); /* the mistake changes nothing */
        if (finding.wrong || is_unreached) continue;
        print_error("%s: a mistake in the gradient of%swas not found\n", example->name, name);
        n_missed++;
    }
    print_message("%s: %d mistakes planted\n", example->name, n_places);
    assert_int_equal(n_missed, 0);
    dt_arena_destroy(arena);
}

#endif
