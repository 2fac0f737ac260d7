/* kernel_formula: see the header. */
#include "bench/kernel_formula.h"

#include "frontends/dsl/lexer.h"

#include <string.h>

/* ---- inputs ---- */

static dt_status *add_input(kernel_case *test, const char *name) {
    int n = test->elementwise.n_inputs;
    for (int i = 0; i < n; i++)
        if (strcmp(test->elementwise.inputs[i].name, name) == 0) return NULL;
    if (n == KERNEL_CASE_MOST_INPUTS)
        return dt_error(DT_INVALID_ARGUMENT, "%s: more than %d inputs; %s is one too many", test->elementwise.formula, n, name);
    test->elementwise.inputs[test->elementwise.n_inputs++] = (case_input){.name = name};
    return NULL;
}

dt_status *kernel_formula_find_inputs(dt_arena *arena, kernel_case *test) {
    const char *formula = test->elementwise.formula;
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    size_t n;
    const dt_token *tokens = dt_lex(arena, diagnostics, dt_diagnostics_add_file(diagnostics, "formula", formula), formula, &n);
    for (size_t i = 0; i < n; i++) {
        bool argument = i + 1 < n && tokens[i + 1].kind == DT_TOKEN_COLON, called = i + 1 < n && tokens[i + 1].kind == DT_TOKEN_OPEN_ROUND;
        if (tokens[i].kind == DT_TOKEN_NAME && !argument && !called) DT_TRY(add_input(test, tokens[i].text));
    }
    if (test->elementwise.n_inputs == 0)
        return dt_error(DT_INVALID_ARGUMENT, "%s: no inputs: name at least one, as in exp(x)", formula[0] != 0 ? formula : "the formula");
    return NULL;
}

bool kernel_formula_is(const kernel_case *test, const char *function) {
    if (test->kind != CASE_ELEMENTWISE || test->elementwise.n_inputs != 1) return false;
    dt_text text = {0};
    dt_text_format(&text, "%s(%s)", function, test->elementwise.inputs[0].name);
    bool is = text.data != NULL && strcmp(text.data, test->elementwise.formula) == 0;
    dt_text_free(&text);
    return is;
}

/* ---- the program ---- */

/* ": f32[B, 256]" for a shape whose first dimension is the rows, ": f32[256]" for another. */
static void append_type(dt_text *text, case_shape shape, bool of_rows) {
    dt_text_append(text, of_rows ? ": f32[B" : ": f32[");
    for (int d = of_rows; d < shape.rank; d++) dt_text_format(text, "%s%d", d > 0 ? ", " : "", shape.dims[d]);
    dt_text_append(text, "]");
}

/* The inputs of rows: as parameters "x: f32[B], y: f32[B]", or as arguments "x, y". */
static void append_inputs(dt_text *text, const kernel_case *test, bool typed) {
    bool first = true;
    for (int i = 0; i < test->elementwise.n_inputs; i++) {
        const case_input *input = &test->elementwise.inputs[i];
        if (input->shape.rank > 0) continue;
        dt_text_format(text, "%s%s", first ? "" : ", ", input->name);
        if (typed) append_type(text, test->elementwise.shape, true);
        first = false;
    }
}

void kernel_formula_append_program(dt_text *text, const kernel_case *test) {
    dt_text_append(text, "use nn\nmodel formula(");
    append_inputs(text, test, true);
    dt_text_append(text, ") {\n");
    for (int i = 0; i < test->elementwise.n_inputs; i++) {
        const case_input *input = &test->elementwise.inputs[i];
        if (input->shape.rank == 0) continue;
        dt_text_format(text, "    param %s", input->name);
        append_type(text, input->shape, false);
        dt_text_append(text, " = zeros\n");
    }
    dt_text_format(text, "    return %s\n}\nstep f(", test->elementwise.formula);
    append_inputs(text, test, true);
    dt_text_append(text, ") {\n    return y: formula(");
    append_inputs(text, test, false);
    dt_text_append(text, ")\n}\n");
}
