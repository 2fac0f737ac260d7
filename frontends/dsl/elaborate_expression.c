/* elaborate_expression: what each form of expression is worth. Operators are in elaborate_arithmetic.c, calls in elaborate_call.c. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* ---- conditions ---- */

dt_object dt_conditions_tensor_error(dt_elaborator *e, dt_span span, dt_object condition, const char *what) {
    if (condition.kind == DT_OBJECT_TENSOR && condition.flexible) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is decided at compile time, this is known only when a session starts", what);
        dt_diagnostic_help(error, "where(condition, a, b) chooses at run time");
    } else if (condition.kind == DT_OBJECT_TENSOR) {
        dt_diagnostic *error =
            dt_elaborator_error(e, span, "%s is decided at compile time, this is a tensor: %s", what, dt_object_describe(e->arena, condition));
        dt_diagnostic_help(error, "where(condition, a, b) chooses element by element");
    } else {
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s needs a bool, this is %s", what, dt_object_describe(e->arena, condition));
        if (dt_is_number(condition)) dt_diagnostic_help(error, "compare it: x != 0");
        if (condition.kind == DT_OBJECT_NONE) dt_diagnostic_help(error, "compare it: x != none");
    }
    return dt_poison();
}

bool dt_evaluate_bool(dt_elaborator *e, const dt_expression *expression, const char *what, bool *result) {
    dt_object condition = dt_settle(e, dt_value_of(e, expression));
    if (condition.kind == DT_OBJECT_BOOL) return *result = condition.b, true;
    if (!dt_is_poison(condition)) dt_conditions_tensor_error(e, expression->span, condition, what);
    return false;
}

static dt_object evaluate_conditional(dt_elaborator *e, const dt_expression *x) {
    bool condition;
    if (!dt_evaluate_bool(e, x->a, "a conditional expression", &condition)) {
        e->n_uncertain++;
        dt_value_of(e, x->b); /* for mistakes of their own */
        dt_value_of(e, x->c);
        e->n_uncertain--;
        return dt_poison();
    }
    return dt_value_of(e, condition ? x->b : x->c);
}

/* and, or: of compile-time bools without looking at the second where the first decides; of tensors elementwise. */
static dt_object evaluate_logical(dt_elaborator *e, const dt_expression *x) {
    dt_object a = dt_settle(e, dt_value_of(e, x->a));
    bool is_and = x->operator== DT_TOKEN_AND;
    if (dt_is_poison(a)) return a;
    if (a.kind == DT_OBJECT_BOOL && a.b != is_and) return a;
    dt_object b = dt_settle(e, dt_value_of(e, x->b));
    if (dt_is_poison(b) || (a.kind == DT_OBJECT_BOOL && b.kind == DT_OBJECT_BOOL)) return b;
    e->at = x->span;
    bool fits = (a.kind == DT_OBJECT_TENSOR || a.kind == DT_OBJECT_BOOL) && (b.kind == DT_OBJECT_TENSOR || b.kind == DT_OBJECT_BOOL);
    if (!fits)
        return dt_elaborator_fail(e, "%s joins two bools, not %s and %s", is_and ? "and" : "or", dt_object_describe(e->arena, a),
                                  dt_object_describe(e->arena, b));
    return dt_elementwise(e, dt_op_find(is_and ? "logical_and" : "logical_or"), (dt_object[]){a, b}, 2);
}

/* ---- operators ---- */

/* padding == same: the name on the other side of a choice is looked for among the choices first. */
static dt_object evaluate_beside(dt_elaborator *e, const dt_expression *x, dt_object neighbour) {
    bool is_choice = neighbour.kind == DT_OBJECT_CHOICE && x->kind == DT_EXPRESSION_NAME && dt_find_binding(e->frame->scope, x->text) == NULL;
    if (is_choice) return (dt_object){.kind = DT_OBJECT_CHOICE, .text = x->text};
    return dt_settle(e, dt_value_of(e, x));
}

static dt_object evaluate_binary(dt_elaborator *e, const dt_expression *x) {
    if (x->operator== DT_TOKEN_AND || x->operator== DT_TOKEN_OR) return evaluate_logical(e, x);
    dt_object a = dt_settle(e, dt_value_of(e, x->a));
    dt_object b = evaluate_beside(e, x->b, a);
    e->at = x->span;
    dt_object result = dt_binary(e, x->operator, a, b);
    dt_note_division(e, x, result);
    dt_note_wrapping(e, x, a, b, result);
    return result;
}

static dt_object evaluate_unary(dt_elaborator *e, const dt_expression *x) {
    dt_object a = dt_settle(e, dt_value_of(e, x->a));
    e->at = x->span;
    return x->operator== DT_TOKEN_NOT ? dt_not(e, a) : dt_negate(e, a);
}

static dt_object evaluate_range(dt_elaborator *e, const dt_expression *x) {
    dt_object ends[2] = {dt_settle(e, dt_value_of(e, x->a)), dt_settle(e, dt_value_of(e, x->b))};
    e->at = x->span;
    for (int i = 0; i < 2; i++) {
        if (dt_is_poison(ends[i])) return ends[i];
        if (ends[i].kind == DT_OBJECT_INT) continue;
        dt_diagnostic *error = dt_elaborator_error(e, x->span, "a range runs from int to int, this %s is %s", i == 0 ? "start" : "end",
                                                   dt_object_describe(e->arena, ends[i]));
        if (ends[i].flexible) dt_diagnostic_help(error, "a launch value is not known at compile time: use an option");
        return dt_poison();
    }
    int64_t first = ends[0].i, n = ends[1].i > first ? 1 : 0;
    if (n > 0 && (__builtin_sub_overflow(ends[1].i, first, &n) || n > DT_MOST_ITEMS))
        return dt_elaborator_fail(e, "the range is longer than %d", DT_MOST_ITEMS);
    dt_elaborator_charge(e, (size_t)n);
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (int64_t i = 0; i < n; i++) items[i] = dt_object_int(first + i);
    return dt_object_items(e->arena, DT_OBJECT_LIST, items, (size_t)n);
}

static dt_object evaluate_list(dt_elaborator *e, const dt_expression *x) {
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, x->items.n);
    bool any_poison = false;
    e->frame->lists++;
    for (size_t i = 0; i < x->items.n; i++) { /* all of them, each of which may have a mistake of its own */
        items[i] = dt_settle(e, dt_value_of(e, x->items.items[i]));
        any_poison |= dt_is_poison(items[i]);
    }
    e->frame->lists--;
    return any_poison ? dt_poison() : dt_object_items(e->arena, DT_OBJECT_LIST, items, x->items.n);
}

/* Its names are gone after it. */
static dt_object evaluate_comprehension(dt_elaborator *e, const dt_expression *x) {
    dt_frame *frame = e->frame;
    dt_object_list kept = {0}, *outer = frame->kept;
    dt_binding *scope = frame->scope;
    frame->kept = &kept;
    frame->lists++;
    dt_run_block(e, &x->body);
    frame->lists--;
    frame->kept = outer;
    frame->scope = scope;
    bool any_poison = frame->returned; /* given up */
    for (size_t i = 0; i < kept.n; i++) any_poison |= dt_is_poison(kept.items[i]);
    return any_poison ? dt_poison() : dt_object_items(e->arena, DT_OBJECT_LIST, kept.items, kept.n);
}

static dt_object evaluate_lambda(dt_elaborator *e, const dt_expression *x) {
    dt_callee *callee = DT_NEW(e->arena, dt_callee);
    *callee = (dt_callee){.name = "the lambda",
                          .kind = DT_DECLARATION_FN,
                          .is_lambda = true,
                          .callable = x->callable,
                          .span = x->span,
                          .scope = e->frame->scope,
                          .file = e->frame->file};
    return (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = callee};
}

/* ---- fields ---- */

/* The path of the parameter or state that `value` is, as it was read or written last; NULL: it is none. */
static const char *variable_path(const dt_elaborator *e, const dt_value *value) {
    for (size_t v = 0; v < e->variables.n; v++) {
        const dt_variable_state *state = &e->variables.items[v];
        bool is_value = state->current == value;
        for (size_t k = 0; k < state->versions.n; k++) is_value |= state->versions.items[k] == value;
        if (is_value) return e->module->variables.items[v].path;
    }
    return NULL;
}

static dt_object tensor_field(dt_elaborator *e, dt_object base, const char *name, dt_span span) {
    dt_shape shape = base.value->shape;
    if (strcmp(name, "shape") == 0) {
        dt_object *dims = DT_NEW_ARRAY(e->arena, dt_object, shape.rank);
        for (int i = 0; i < shape.rank; i++) dims[i] = dt_object_dim(shape.dims[i]);
        return dt_object_items(e->arena, DT_OBJECT_LIST, dims, (size_t)shape.rank);
    }
    if (strcmp(name, "rank") == 0) return dt_object_int(shape.rank);
    if (strcmp(name, "dtype") == 0) return (dt_object){.kind = DT_OBJECT_DTYPE, .dtype = base.value->dtype};
    if (strcmp(name, "T") == 0) {
        if (shape.rank != 2) {
            dt_diagnostic *error = dt_elaborator_error(e, span, ".T transposes a matrix, this is %s", dt_object_describe(e->arena, base));
            dt_diagnostic_help(error, "say the order of the dimensions: transpose(x, [0, 2, 1])");
            return dt_poison();
        }
        dt_named_attribute permutation = {"permutation", {.i = 2, .ints = (const int64_t[]){1, 0}}};
        return dt_emit(e, "transpose", &base.value, 1, &permutation, 1);
    }
    if (strcmp(name, "path") == 0) {
        const char *path = variable_path(e, base.value);
        if (path != NULL) return dt_object_string(path);
        dt_diagnostic_help(dt_elaborator_error(e, span, "only a parameter or a state has a path"), "in an optimizer: update (p, g) { … p.path … }");
        return dt_poison();
    }
    dt_diagnostic *error = dt_elaborator_error(e, span, "a tensor has no %s", name);
    const char *help = dt_foreign_help(e, name);
    dt_object function;
    if (help != NULL) {
        dt_diagnostic_help(error, "%s", help);
        return dt_poison();
    }
    if (dt_find_top(e, e->frame->file, name, &function) && function.kind == DT_OBJECT_FUNCTION) {
        dt_diagnostic_help(error, "functions stand before what they take: %s(x)", name);
        return dt_poison();
    }
    static const char *const fields[] = {"shape", "rank", "dtype", "T", "path"};
    dt_diagnostic_suggest(error, name, fields, sizeof fields / sizeof *fields);
    return dt_poison();
}

static dt_object module_field(dt_elaborator *e, dt_object base, const char *name, dt_span span) {
    dt_object object;
    if (base.file != NULL) {
        if (dt_find_in_file(e, base.file, name, &object)) return object;
        if (base.file->incomplete) return dt_poison();
        if (dt_is_private(e, base.file, name)) {
            dt_diagnostic *error = dt_elaborator_error(e, span, "%s is private to the module %s", name, base.file->name);
            dt_diagnostic_help(error, base.file->is_library ? "write one of your own" : "declare it without private where others are to use it");
            return dt_poison();
        }
        const char *help = base.file->is_library ? dt_foreign_help(e, name) : NULL;
        if (help != NULL) {
            dt_diagnostic_help(dt_elaborator_error(e, span, "the module %s has no %s", base.file->name, name), "%s", help);
            return dt_poison();
        }
        const dt_syntax *syntax = base.file->syntax;
        const char **names = DT_NEW_ARRAY(e->arena, const char *, syntax->declarations.n);
        size_t n = 0;
        for (size_t i = 0; i < syntax->declarations.n; i++)
            if (!syntax->declarations.items[i]->is_private) names[n++] = syntax->declarations.items[i]->name;
        dt_diagnostic_suggest(dt_elaborator_error(e, span, "the module %s has no %s", base.file->name, name), name, names, n);
        return dt_poison();
    }
    const dt_op *op = dt_op_find(name);
    bool allowed = op != NULL && op->class != DT_CLASS_COLLECTIVE && op->class != DT_CLASS_STATE && op->class != DT_CLASS_CONTROL &&
                   op->class != DT_CLASS_LOOP && op->infer != NULL;
    if (op != NULL && op->class == DT_CLASS_MAP) allowed = true;
    if (!allowed) {
        dt_elaborator_error(e, span, "ops has no %s that a program can call", name);
        return dt_poison();
    }
    dt_callee *callee = DT_NEW(e->arena, dt_callee);
    *callee = (dt_callee){.name = op->name, .kind = DT_DECLARATION_FN, .op = op};
    return (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = callee};
}

dt_object dt_field_of(dt_elaborator *e, dt_object base, const char *name, dt_span span) {
    e->at = span;
    bool has_parts = base.kind == DT_OBJECT_FUNCTION && (base.callee->kind == DT_DECLARATION_MODEL || base.callee->instance != NULL);
    if (base.kind == DT_OBJECT_INSTANCE || has_parts) return dt_instance_field(e, base, name, span);
    base = dt_settle(e, base);
    switch (base.kind) {
    case DT_OBJECT_POISON: return base;
    case DT_OBJECT_TENSOR: return tensor_field(e, base, name, span);
    case DT_OBJECT_MODULE: return module_field(e, base, name, span);
    default: break;
    }
    if (dt_is_number(base) && strcmp(name, "rank") == 0) return dt_object_int(0);
    if (dt_is_number(base) && strcmp(name, "shape") == 0) return dt_object_items(e->arena, DT_OBJECT_LIST, NULL, 0);
    dt_elaborator_error(e, span, "%s has no .%s", dt_object_describe(e->arena, base), name);
    return dt_poison();
}

/* torch.cat: answered as cat is, where nothing is called torch. */
static dt_object evaluate_field(dt_elaborator *e, const dt_expression *x) {
    dt_object object;
    bool is_unknown = x->a->kind == DT_EXPRESSION_NAME && dt_find_binding(e->frame->scope, x->a->text) == NULL &&
                      dt_foreign_help(e, x->a->text) != NULL && !dt_find_top(e, e->frame->file, x->a->text, &object);
    const char *help = is_unknown ? dt_foreign_help(e, x->text) : NULL;
    if (help == NULL) return dt_field_of(e, dt_value_of(e, x->a), x->text, x->span);
    dt_diagnostic_help(dt_elaborator_error(e, x->span, "unknown name %s.%s", x->a->text, x->text), "%s", help);
    return dt_poison();
}

/* ---- all ---- */

static dt_object evaluate_index(dt_elaborator *e, const dt_expression *x) {
    dt_object base = dt_settle(e, dt_value_of(e, x->a));
    for (size_t i = 0; i < x->items.n && dt_is_poison(base); i++) { /* what stands in it may have mistakes of its own */
        const dt_expression *item = x->items.items[i];
        if (item->kind != DT_EXPRESSION_SLICE && item->kind != DT_EXPRESSION_ELLIPSIS) dt_value_of(e, item);
    }
    return dt_is_poison(base) ? base : dt_index_object(e, base, x);
}

static dt_object evaluate_kind(dt_elaborator *e, const dt_expression *x) {
    switch (x->kind) {
    case DT_EXPRESSION_INT: return dt_object_int(x->i);
    case DT_EXPRESSION_FLOAT: return dt_object_float(x->f);
    case DT_EXPRESSION_BOOL: return dt_object_bool(x->i != 0);
    case DT_EXPRESSION_STRING: return dt_object_string(x->text);
    case DT_EXPRESSION_NONE: return dt_object_none();
    case DT_EXPRESSION_NAME: return dt_lookup(e, x->text, x->span);
    case DT_EXPRESSION_LIST: return evaluate_list(e, x);
    case DT_EXPRESSION_COMPREHENSION: return evaluate_comprehension(e, x);
    case DT_EXPRESSION_CALL: return dt_evaluate_call(e, x);
    case DT_EXPRESSION_INDEX: return evaluate_index(e, x);
    case DT_EXPRESSION_FIELD: return evaluate_field(e, x);
    case DT_EXPRESSION_UNARY: return evaluate_unary(e, x);
    case DT_EXPRESSION_BINARY: return evaluate_binary(e, x);
    case DT_EXPRESSION_CONDITIONAL: return evaluate_conditional(e, x);
    case DT_EXPRESSION_RANGE: return evaluate_range(e, x);
    case DT_EXPRESSION_LAMBDA: return evaluate_lambda(e, x);
    case DT_EXPRESSION_PIPE: return dt_evaluate_pipe(e, x);
    case DT_EXPRESSION_AS: return dt_evaluate_as(e, x);
    case DT_EXPRESSION_LAYER: return dt_evaluate_layer(e, x);
    case DT_EXPRESSION_BROKEN: return dt_poison();
    case DT_EXPRESSION_SLICE:
    case DT_EXPRESSION_ELLIPSIS: break;
    }
    return dt_elaborator_fail(e, "a slice stands only within an index: x[1:]");
}

dt_object dt_value_of(dt_elaborator *e, const dt_expression *x) {
    if (!dt_elaborator_tick(e)) return dt_poison();
    dt_span outer = e->at;
    e->at = x->span;
    dt_object object = dt_elaborator_enter(e) ? evaluate_kind(e, x) : dt_poison();
    dt_elaborator_leave(e);
    e->at = outer;
    e->n_poisoned += dt_is_poison(object);
    return object;
}
