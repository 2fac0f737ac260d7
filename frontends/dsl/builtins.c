/* builtins: the few functions that the language cannot say itself. What it can say is in std/. */
#include "frontends/dsl/elaborator.h"

#include "abi/pipeline.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

/* The row's formula for numbers of these types; NULL: it does not take them. */
static dt_evaluation *number_formula(dt_elaborator *e, const dt_op *op, const dt_dtype *dtypes, int n) {
    for (size_t i = 0; i < e->number_formulas.n; i++) {
        const dt_number_formula *made = &e->number_formulas.items[i];
        if (made->op == op && memcmp(made->dtypes, dtypes, (size_t)n * sizeof *dtypes) == 0) return made->evaluation;
    }
    const char *names[3];
    for (int k = 0; k < n; k++) names[k] = op->operands[k].name;
    dt_number_formula made = {.op = op};
    memcpy(made.dtypes, dtypes, (size_t)n * sizeof *dtypes);
    dt_formula *formula;
    dt_status *status = dt_formula_parse(e->arena, op->formula, names, n, NULL, 0, &formula);
    if (status == NULL) status = dt_evaluation_prepare(e->arena, formula, dtypes, dtypes[n - 1], DT_ARITHMETIC_ORACLE, &made.evaluation);
    dt_status_free(status);
    dt_list_push(e->arena, &e->number_formulas, made);
    return made.evaluation;
}

/* exp(2.0), maximum(a, b): elementwise ops of numbers that are known. The row's own formula is evaluated, so that there is one definition. */
dt_object dt_number_function(dt_elaborator *e, const dt_op *op, const dt_object *operands, size_t n, bool *known) {
    dt_dtype dtypes[3];
    dt_scalar scalars[3];
    bool has_float = false;
    *known = false;
    if (n == 0 || n > 3 || op->formula == NULL || *op->formula == '\0' || op->n_attributes > 0) return dt_poison();
    for (size_t k = 0; k < n; k++) {
        if (!dt_is_number(operands[k]) && operands[k].kind != DT_OBJECT_BOOL) return dt_poison();
        has_float |= operands[k].kind == DT_OBJECT_FLOAT || strcmp(op->operands[k].type, "float") == 0;
    }
    for (size_t k = 0; k < n; k++) {
        dtypes[k] = operands[k].kind == DT_OBJECT_BOOL ? DT_BOOL : has_float ? DT_F64 : DT_I64;
        if (dtypes[k] == DT_F64)
            scalars[k].f = dt_object_number(operands[k]);
        else
            scalars[k].i = operands[k].kind == DT_OBJECT_BOOL ? operands[k].b : operands[k].i;
    }
    dt_evaluation *evaluation = number_formula(e, op, dtypes, (int)n);
    if (evaluation == NULL) return dt_poison();
    *known = true;
    dt_scalar result = dt_evaluate(evaluation, &(dt_evaluation_context){.operands = scalars});
    char kind = dt_dtype_kind(dt_evaluation_dtype(evaluation));
    return kind == 'f' ? dt_object_float(result.f) : kind == 'b' ? dt_object_bool(result.i != 0) : dt_object_int(result.i);
}

dt_object dt_reduce_items(dt_elaborator *e, const char *name, dt_object list) {
    const dt_items *items = list.items;
    bool is_product = strcmp(name, "product") == 0, is_sum = strcmp(name, "sum") == 0, is_max = strcmp(name, "max") == 0;
    if (!is_product && !is_sum && !is_max && strcmp(name, "min") != 0) return dt_elaborator_fail(e, "%s does not work on a list", name);
    if (items->n == 0 && !is_product && !is_sum) return dt_elaborator_fail(e, "%s of an empty list", name);
    dt_object total = items->n > 0 && !is_product && !is_sum ? items->items[0] : dt_object_int(is_product);
    for (size_t i = 0; i < items->n; i++) {
        dt_object item = items->items[i];
        if (item.kind == DT_OBJECT_BATCH) {
            dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s: the list holds B, whose value is known only when a step runs", name);
            dt_diagnostic_help(error, "leave it out: x.shape[1:]");
            return dt_poison();
        }
        if (is_product || is_sum) {
            total = dt_binary(e, is_product ? DT_TOKEN_STAR : DT_TOKEN_PLUS, total, item);
        } else {
            dt_object better = dt_binary(e, is_max ? DT_TOKEN_GREATER : DT_TOKEN_LESS, item, total);
            if (better.kind != DT_OBJECT_BOOL) return dt_poison();
            if (better.b) total = item;
        }
        if (dt_is_poison(total)) return total;
    }
    return total;
}

static dt_object builtin_int(dt_elaborator *e, const dt_object *a) {
    if (a[0].kind == DT_OBJECT_INT) return a[0];
    if (a[0].kind == DT_OBJECT_BOOL) return dt_object_int(a[0].b);
    if (a[0].kind == DT_OBJECT_FLOAT && fabs(a[0].f) < 9e18) return dt_object_int((int64_t)a[0].f);
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "int(x) takes a number known at compile time, not %s", dt_object_describe(e->arena, a[0]));
    if (a[0].kind == DT_OBJECT_TENSOR) dt_diagnostic_help(error, "i32(x) and i64(x) convert tensors");
    return dt_poison();
}

static dt_object builtin_float(dt_elaborator *e, const dt_object *a) {
    if (dt_is_number(a[0])) return dt_object_float(dt_object_number(a[0]));
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "float(x) takes a number known at compile time, not %s", dt_object_describe(e->arena, a[0]));
    if (a[0].kind == DT_OBJECT_TENSOR) dt_diagnostic_help(error, "f32(x) converts tensors");
    return dt_poison();
}

/* ---- lists ---- */

static bool needs_list(dt_elaborator *e, const char *name, dt_object object) {
    if (object.kind == DT_OBJECT_LIST) return true;
    if (!dt_is_poison(object)) dt_elaborator_error(e, e->at, "%s takes a list, not %s", name, dt_object_describe(e->arena, object));
    return false;
}

static dt_object builtin_len(dt_elaborator *e, const dt_object *a) {
    if (a[0].kind == DT_OBJECT_TREE) return dt_object_int((int64_t)a[0].tree->n);
    return needs_list(e, "len", a[0]) ? dt_object_int((int64_t)a[0].items->n) : dt_poison();
}

static dt_object pair_up(dt_elaborator *e, dt_object a, dt_object b, size_t n) {
    dt_elaborator_charge(e, n * 2);
    dt_object *pairs = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (size_t i = 0; i < n; i++) {
        dt_object first = a.kind == DT_OBJECT_LIST ? a.items->items[i] : dt_object_int((int64_t)i);
        pairs[i] = dt_object_items(e->arena, DT_OBJECT_LIST, (dt_object[]){first, b.items->items[i]}, 2);
    }
    return dt_object_items(e->arena, DT_OBJECT_LIST, pairs, n);
}

static dt_object builtin_enumerate(dt_elaborator *e, const dt_object *a) {
    return needs_list(e, "enumerate", a[0]) ? pair_up(e, dt_object_none(), a[0], a[0].items->n) : dt_poison();
}

static dt_object builtin_zip(dt_elaborator *e, const dt_object *a) {
    if (a[0].kind == DT_OBJECT_PIPELINE && a[1].kind == DT_OBJECT_PIPELINE) return dt_zip_sources(e, a[0].pipeline, a[1].pipeline);
    if (!needs_list(e, "zip", a[0]) || !needs_list(e, "zip", a[1])) return dt_poison();
    return pair_up(e, a[0], a[1], a[0].items->n < a[1].items->n ? a[0].items->n : a[1].items->n);
}

static dt_object builtin_is_list(dt_elaborator *e, const dt_object *a) {
    (void)e;
    return dt_object_bool(a[0].kind == DT_OBJECT_LIST);
}

/* error(text): how library text refuses its arguments. A function of the library ends there; one of the program goes on, for it may have more
 * mistakes. */
static dt_object builtin_error(dt_elaborator *e, const dt_object *a) {
    if (e->frame->file->is_library) e->frame->returned = true, e->frame->result = dt_poison();
    return dt_elaborator_fail(e, "%s", a[0].kind == DT_OBJECT_STRING ? a[0].text : "error(text) takes a string");
}

/* warning(text, name): what it says where the program, or a function of the library, is called. */
static dt_object builtin_warning(dt_elaborator *e, const dt_object *a) {
    dt_warning_kind kind = dt_warning_find(a[1].text);
    if (kind == DT_N_WARNINGS) return dt_elaborator_fail(e, "there is no warning %s: docs/language.md lists them", a[1].text);
    dt_elaborator_warning(e, kind, e->at, "%s", a[0].text);
    return dt_object_none();
}

static dt_object builtin_text(dt_elaborator *e, const dt_object *a) {
    return a[0].kind == DT_OBJECT_STRING ? a[0] : dt_object_string(dt_object_describe(e->arena, a[0]));
}

/* ---- functions of text ---- */

#define X(name, gives, arguments, head)                                                                                                              \
    static dt_object text_##name(dt_elaborator *e, const dt_object *a) { return dt_apply_text_function(e, DT_TEXT_##name, a); }
DT_TEXT_FUNCTIONS(X)
#undef X

const dt_builtin dt_builtins_general[] = {
    {"int", "(x)", builtin_int, false},
    {"float", "(x)", builtin_float, false},
    {"len", "(list)", builtin_len, false},
    {"enumerate", "(list)", builtin_enumerate, false},
    {"zip", "(a, b)", builtin_zip, false},
    {"is_list", "(x)", builtin_is_list, false},
    {"error", "(text)", builtin_error, false},
    {"warning", "(text: string, name: string = \"own-warning\")", builtin_warning, false},
    {"text", "(x)", builtin_text, false},
#define X(name, gives, arguments, head) {#name, head, text_##name, false},
    DT_TEXT_FUNCTIONS(X)
#undef X
#define X(name, most_files, fewest, most) {#name, NULL, NULL, false},
        DT_SOURCES(X)
#undef X
            {NULL, NULL, NULL, false},
};

/* ---- all of them ---- */

static const dt_builtin *const tables[] = {dt_builtins_general, dt_builtins_tensor, dt_builtins_einsum, dt_builtins_training};

const dt_builtin *dt_builtin_at(size_t i) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        size_t n = 0;
        while (tables[t][n].name != NULL && n < i) n++;
        if (tables[t][n].name != NULL) return &tables[t][n];
        i -= n;
    }
    return NULL;
}
