/* elaborate_type: what a parameter or result is declared as, against what it gets. A name that stands alone as a dimension and is bound to nothing
 * yet is a shape variable: the call binds it, in the scope of what is called. A run `...` is bound the same way, under its own spelling. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

static bool is_word(const dt_type_syntax *type, const char *word) { return type->word != NULL && strcmp(type->word, word) == 0; }

bool dt_type_is_tensor(const dt_type_syntax *type) {
    if (type->word == NULL) return false;
    return type->has_dims || (dt_dtype_from_name(type->word) != DT_N_DTYPES && !is_word(type, "bool"));
}

const char *dt_declared_text(dt_elaborator *e, const dt_type_syntax *type) {
    if (type->word == NULL) {
        const char *text = type->choices.items[0];
        for (size_t i = 1; i < type->choices.n; i++)
            text = dt_arena_format(e->arena, "%s%s%s", text, i + 1 == type->choices.n ? " or " : ", ", type->choices.items[i]);
        return text;
    }
    if (!type->has_dims) return type->word;
    const char *line = dt_diagnostics_line(e->diagnostics, type->span.file, type->span.line);
    return dt_arena_substring(e->arena, line + type->span.column - 1, (size_t)type->span.length);
}

/* ---- element types ---- */

static bool known_tensor_word(const char *word) {
    static const char *const classes[] = {"any", "float", "integer", "number"};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i], word) == 0) return true;
    return dt_dtype_from_name(word) != DT_N_DTYPES;
}

static bool unknown_type(dt_elaborator *e, const dt_type_syntax *type) {
    static const char *const words[] = {"f32",       "f16",  "bf16",  "f64",     "i8",     "u8",       "i32",         "i64",
                                        "bool",      "int",  "float", "string",  "list",   "function", "schedule",    "tree",
                                        "optimizer", "data", "any",   "integer", "number", "logits",   "probability", "target"};
    dt_diagnostic *error = dt_elaborator_error(e, type->span, "unknown type %s", type->word);
    dt_diagnostic_suggest(error, type->word, words, sizeof words / sizeof *words);
    return false;
}

/* ---- dimensions ---- */

/* The value of a dimension's expression: int or B. In a dimension // must divide. */
static dt_object evaluate_dim(dt_elaborator *e, const dt_expression *x) {
    dt_object object;
    if (x->kind == DT_EXPRESSION_BINARY && x->operator== DT_TOKEN_DOUBLE_SLASH) {
        dt_object a = dt_settle(e, dt_value_of(e, x->a)), b = dt_settle(e, dt_value_of(e, x->b));
        if (a.kind == DT_OBJECT_INT && b.kind == DT_OBJECT_INT && b.i != 0 && a.i % b.i != 0) {
            dt_diagnostic *error =
                dt_elaborator_error(e, x->span, "in a dimension // must divide: %lld is no multiple of %lld", (long long)a.i, (long long)b.i);
            dt_diagnostic_help(error, "choose a size that %lld divides", (long long)b.i);
            return dt_poison();
        }
        e->at = x->span;
        object = dt_binary(e, x->operator, a, b);
    } else {
        object = dt_settle(e, dt_value_of(e, x));
    }
    if (object.kind == DT_OBJECT_BATCH || (object.kind == DT_OBJECT_INT && object.i >= 0) || dt_is_poison(object)) return object;
    dt_diagnostic *error = dt_elaborator_error(e, x->span, "a dimension is an int or B, not %s", dt_object_describe(e->arena, object));
    if (object.flexible) dt_diagnostic_help(error, "a launch value is not known at compile time: use an option");
    return dt_poison();
}

/* What a name that stands alone as a dimension means: a binding of the call, a constant of the file, B, or (false) nothing yet. */
static bool find_dim_name(dt_elaborator *e, const char *name, dt_object *object) {
    dt_binding *binding = dt_find_binding(e->frame->scope, name);
    if (binding != NULL) return *object = dt_settle(e, binding->object), true;
    if (strcmp(name, "B") == 0) return *object = (dt_object){.kind = DT_OBJECT_BATCH}, true;
    return dt_find_constant(e, e->frame->file, name, object);
}

/* A name within 4 * C that means nothing yet. NULL: there is none. */
static const dt_expression *find_unbound(dt_elaborator *e, const dt_expression *x) {
    if (x == NULL) return NULL;
    dt_object object;
    if (x->kind == DT_EXPRESSION_NAME) return find_dim_name(e, x->text, &object) || dt_find_top(e, e->frame->file, x->text, &object) ? NULL : x;
    const dt_expression *found = x->kind == DT_EXPRESSION_BINARY || x->kind == DT_EXPRESSION_UNARY ? find_unbound(e, x->a) : NULL;
    return found == NULL && x->kind == DT_EXPRESSION_BINARY ? find_unbound(e, x->b) : found;
}

/* *more, of this and what follows: what is known besides of a dimension that does not fit; NULL: it was reported. */
static bool fit_dim(dt_elaborator *e, const dt_expression *x, int64_t dim, const char **more) {
    dt_object wanted;
    if (x->kind == DT_EXPRESSION_NAME && !find_dim_name(e, x->text, &wanted)) {
        e->frame->scope = dt_bind(e->arena, e->frame->scope, x->text, dt_object_dim(dim), x->span);
        return true;
    }
    const dt_expression *unbound = x->kind != DT_EXPRESSION_NAME ? find_unbound(e, x) : NULL;
    if (unbound != NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, unbound->span, "the shape variable %s is not bound yet", unbound->text);
        dt_diagnostic_help(error, "it must stand alone as a dimension once, here or in a parameter before: f32[B, %s]", unbound->text);
        return *more = NULL, false;
    }
    if (x->kind != DT_EXPRESSION_NAME) wanted = evaluate_dim(e, x);
    if (dt_is_poison(wanted)) return *more = NULL, false;
    if (dt_object_equal(wanted, dt_object_dim(dim))) return true;
    const char *known = dt_object_describe(e->arena, wanted);
    bool says_more = x->kind == DT_EXPRESSION_NAME && strcmp(known, x->text) != 0;
    if (says_more) *more = dt_arena_format(e->arena, ", where %s is %s", x->text, known);
    return false;
}

static bool fit_run(dt_elaborator *e, const dt_type_syntax *type, const int64_t *dims, int n, const char **more) {
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (int i = 0; i < n; i++) items[i] = dt_object_dim(dims[i]);
    dt_object run = dt_object_items(e->arena, DT_OBJECT_LIST, items, (size_t)n);
    dt_binding *binding = dt_find_binding(e->frame->scope, "...");
    if (binding != NULL && dt_is_poison(binding->object)) return *more = NULL, false;
    if (binding != NULL && dt_object_equal(binding->object, run)) return true;
    if (binding != NULL) {
        *more = dt_arena_format(e->arena, ", where ... is %s", dt_object_describe(e->arena, binding->object));
        return false;
    }
    e->frame->scope = dt_bind(e->arena, e->frame->scope, "...", run, type->span);
    return true;
}

static bool fit_shape(dt_elaborator *e, const dt_type_syntax *type, dt_shape shape, const char **more) {
    int n_dims = (int)type->dims.n, run = -1;
    for (int i = 0; i < n_dims; i++)
        if (type->dims.items[i]->kind == DT_EXPRESSION_ELLIPSIS) run = i;
    int n_run = shape.rank - (n_dims - 1);
    if (run < 0 ? n_dims != shape.rank : n_run < 0) return false;
    for (int i = 0, d = 0; i < n_dims; i++) {
        if (i == run) {
            if (!fit_run(e, type, shape.dims + d, n_run, more)) return false;
            d += n_run;
        } else if (!fit_dim(e, type->dims.items[i], shape.dims[d++], more)) {
            return false;
        }
    }
    return true;
}

/* ---- all ---- */

static bool fit_tensor(dt_elaborator *e, const dt_type_syntax *type, dt_object *object, const char **why) {
    const char *word = dt_word_that_holds(type->word);
    if (!known_tensor_word(word)) return unknown_type(e, type);
    dt_object settled = dt_settle(e, *object);
    bool literal = dt_is_number(settled) || settled.kind == DT_OBJECT_BOOL;
    if (literal || (settled.kind == DT_OBJECT_TENSOR && settled.flexible)) { /* takes the type that is asked for */
        dt_dtype standard = dt_dtype_from_name(word);
        if (strcmp(word, "float") == 0) standard = DT_F32;
        bool fits = standard == DT_N_DTYPES || settled.kind != DT_OBJECT_FLOAT || dt_dtype_is_float(standard);
        if (fits && literal) settled = dt_to_tensor(e, settled, standard);
        if (fits && !literal && standard != DT_N_DTYPES) settled = dt_emit_convert(e, settled.value, standard);
    }
    if (dt_is_poison(settled)) return false;
    const char *more = "";
    bool fits = settled.kind == DT_OBJECT_TENSOR;
    fits = fits && (dt_type_word_holds(word, settled.value->dtype) || dt_stands_for(e, settled.value->dtype, word));
    fits = fits && fit_shape(e, type, settled.value->shape, &more);
    if (fits)
        *object = settled;
    else if (more != NULL)
        *why = dt_arena_format(e->arena, "%s%s", dt_object_describe(e->arena, settled), more);
    return fits;
}

/* Where the type is no tensor's. *reported: that there is no such type. */
static bool fit_other(dt_elaborator *e, const dt_type_syntax *type, dt_object *object, bool *reported) {
    dt_object o = *object;
    if (type->word == NULL) {
        for (size_t i = 0; o.kind == DT_OBJECT_CHOICE && i < type->choices.n; i++)
            if (strcmp(type->choices.items[i], o.text) == 0) return true;
        return false;
    }
    bool launch = o.kind == DT_OBJECT_TENSOR && o.flexible && o.value->dtype != DT_BOOL;
    if (is_word(type, "any")) return true;
    if (is_word(type, "int")) return o.kind == DT_OBJECT_INT || launch;
    if (is_word(type, "float")) {
        if (o.kind == DT_OBJECT_INT) *object = dt_object_float((double)o.i);
        return dt_is_number(o) || launch;
    }
    if (is_word(type, "bool")) return o.kind == DT_OBJECT_BOOL;
    if (is_word(type, "string")) return o.kind == DT_OBJECT_STRING;
    if (is_word(type, "list")) return o.kind == DT_OBJECT_LIST;
    if (is_word(type, "function")) return dt_is_callable(o);
    if (is_word(type, "tree")) return o.kind == DT_OBJECT_TREE;
    if (is_word(type, "optimizer")) return o.kind == DT_OBJECT_OPTIMIZER;
    if (is_word(type, "data")) return o.kind == DT_OBJECT_PIPELINE;
    if (is_word(type, "schedule")) {
        bool fits = dt_is_number(o) || launch || dt_is_callable(o);
        if (fits) *object = dt_to_schedule(e, o);
        return fits;
    }
    *reported = true;
    return unknown_type(e, type);
}

bool dt_fit_type(dt_elaborator *e, const dt_type_syntax *type, dt_object *object, const char **why) {
    *why = "";
    if (dt_is_poison(*object)) return false;
    if (dt_type_is_tensor(type)) return fit_tensor(e, type, object, why);
    dt_object given = *object = dt_settle(e, *object);
    bool reported = false, fits = fit_other(e, type, object, &reported);
    if (!fits && !reported) *why = dt_object_describe(e->arena, given);
    return fits;
}

bool dt_resolve_type(dt_elaborator *e, const dt_type_syntax *type, dt_dtype *dtype, dt_shape *shape) {
    *dtype = type->word != NULL ? dt_dtype_from_name(type->word) : DT_N_DTYPES;
    if (*dtype == DT_N_DTYPES) {
        dt_diagnostic *error = dt_elaborator_error(e, type->span, "a definite type is needed here, not %s", dt_declared_text(e, type));
        dt_diagnostic_help(error, "one of f32 f16 bf16 f64 i8 u8 i32 i64 bool, with its dimensions: f32[B, 10]");
        return false;
    }
    DT_LIST(int64_t) dims = {0};
    for (size_t i = 0; i < type->dims.n; i++) {
        const dt_expression *x = type->dims.items[i];
        dt_binding *run = x->kind == DT_EXPRESSION_ELLIPSIS ? dt_find_binding(e->frame->scope, "...") : NULL;
        if (run != NULL && dt_is_poison(run->object)) return false;
        if (run != NULL) {
            for (size_t k = 0; k < run->object.items->n; k++) {
                dt_object item = run->object.items->items[k];
                dt_list_push(e->arena, &dims, item.kind == DT_OBJECT_INT ? item.i : DT_BATCH);
            }
            continue;
        }
        if (x->kind == DT_EXPRESSION_ELLIPSIS) {
            dt_elaborator_error(e, x->span, "... stands for nothing here: no parameter has bound it");
            return false;
        }
        dt_object dim = evaluate_dim(e, x);
        if (dt_is_poison(dim)) return false;
        dt_list_push(e->arena, &dims, dim.kind == DT_OBJECT_INT ? dim.i : DT_BATCH);
    }
    *shape = dt_shape_make(e->arena, (int)dims.n, dims.items != NULL ? dims.items : (const int64_t[]){0});
    if (dt_shape_fits(*shape)) return true;
    dt_elaborator_error(e, type->span, "a tensor of %s is too large for any machine", dt_describe_shape(e, *shape));
    return false;
}

/* ---- after a mistake ---- */

static bool is_definite(dt_elaborator *e, const dt_type_syntax *type) {
    if (type == NULL || type->word == NULL || !dt_type_is_tensor(type) || dt_dtype_from_name(type->word) == DT_N_DTYPES) return false;
    for (size_t i = 0; i < type->dims.n; i++) {
        const dt_expression *x = type->dims.items[i];
        bool stands = x->kind == DT_EXPRESSION_INT || x->kind == DT_EXPRESSION_NAME || x->kind == DT_EXPRESSION_BINARY;
        if (!stands || find_unbound(e, x) != NULL) return false;
    }
    return true;
}

dt_object dt_stand_in(dt_elaborator *e, const dt_type_syntax *type) {
    dt_dtype dtype;
    dt_shape shape;
    e->n_poisoned++;
    bool is_made = e->step != NULL && e->function == e->step->function && is_definite(e, type) && dt_resolve_type(e, type, &dtype, &shape);
    return is_made ? dt_emit_constant(e, dtype, dtype == DT_BOOL ? dt_object_bool(false) : dt_object_int(0), shape) : dt_poison();
}

void dt_bind_unknown_dims(dt_elaborator *e, const dt_type_syntax *type) {
    for (size_t i = 0; type != NULL && i < type->dims.n; i++) {
        const dt_expression *x = type->dims.items[i];
        const char *name = x->kind == DT_EXPRESSION_ELLIPSIS ? "..." : x->kind == DT_EXPRESSION_NAME ? x->text : NULL;
        dt_object known;
        if (name == NULL || find_dim_name(e, name, &known)) continue;
        e->frame->scope = dt_bind(e->arena, e->frame->scope, name, dt_poison(), x->span);
    }
}

void dt_help_with_type(dt_elaborator *e, dt_diagnostic *diagnostic, const dt_type_syntax *type, dt_object object, const dt_expression *written) {
    const char *name = written != NULL && written->kind == DT_EXPRESSION_NAME ? written->text : "x";
    if (type->word == NULL) {
        dt_diagnostic_help(diagnostic, "give one of %s, without quotes", dt_declared_text(e, type));
        return;
    }
    if (is_word(type, "schedule")) dt_diagnostic_help(diagnostic, "give a number, or a schedule: cosine_decay(0.1, steps: 1000)");
    if (is_word(type, "function") && object.kind == DT_OBJECT_STRING)
        dt_diagnostic_help(diagnostic, "give the function itself, without quotes: %s", object.text);
    if (is_word(type, "optimizer") && (dt_is_callable(object) || object.kind == DT_OBJECT_STRING))
        dt_diagnostic_help(diagnostic, "give one that is called: adam(learning_rate: 1e-3)");
    if (is_word(type, "int") && object.kind == DT_OBJECT_FLOAT) dt_diagnostic_help(diagnostic, "int(x) cuts a float, a // b divides ints");
    if (!dt_type_is_tensor(type) || object.kind != DT_OBJECT_TENSOR) {
        if (dt_type_is_tensor(type) && object.kind == DT_OBJECT_TUPLE) dt_diagnostic_help(diagnostic, "bind the values first: a, b = …");
        if (object.kind == DT_OBJECT_TENSOR)
            dt_diagnostic_help(diagnostic, "%s is fixed at compile time; a tensor is known only when a step runs", type->word);
        return;
    }
    dt_shape shape = object.value->shape;
    const char *word = dt_word_that_holds(type->word);
    if (!dt_type_word_holds(word, object.value->dtype)) {
        const char *to = dt_dtype_from_name(word) != DT_N_DTYPES ? word : strcmp(word, "integer") == 0 ? "i32" : "f32";
        bool cuts = dt_dtype_is_float(object.value->dtype) && !dt_dtype_is_float(dt_dtype_from_name(to));
        dt_diagnostic_help(diagnostic, "convert it%s: %s(%s)", cuts ? ", if it holds whole numbers" : "", to, name);
        return;
    }
    bool has_run = false;
    for (size_t i = 0; i < type->dims.n; i++) has_run |= type->dims.items[i]->kind == DT_EXPRESSION_ELLIPSIS;
    const dt_expression *first = type->dims.n > 0 ? type->dims.items[0] : NULL;
    bool wants_batch = first != NULL && first->kind == DT_EXPRESSION_NAME && strcmp(first->text, "B") == 0;
    if (wants_batch && (shape.rank == 0 || shape.dims[0] != DT_BATCH))
        dt_diagnostic_help(diagnostic, "the batch B was lost on the way: reduce and reshape only the dimensions after it");
    else if (!has_run && (int)type->dims.n == shape.rank + 1)
        dt_diagnostic_help(diagnostic, "add a %s: %s[..., newaxis]", shape.rank == 3 ? "channel dimension" : "dimension", name);
    else if (!has_run && (int)type->dims.n < shape.rank)
        dt_diagnostic_help(diagnostic, "flatten(%s) joins the dimensions after B; %s[:, 0] takes one position", name, name);
    else
        dt_diagnostic_help(diagnostic, "make the dimensions equal, or declare others");
}
