/* object: see object.h. */
#include "frontends/dsl/object.h"

#include <string.h>

dt_object dt_object_dim(int64_t dim) {
    if (dim == DT_BATCH) return (dt_object){.kind = DT_OBJECT_BATCH};
    return dt_object_int(dim);
}

dt_object dt_object_items(dt_arena *arena, dt_object_kind kind, const dt_object *items, size_t n) {
    dt_items *copy = dt_arena_new(arena, sizeof *copy + n * sizeof *items);
    copy->n = n;
    if (n > 0) memcpy(copy->items, items, n * sizeof *items);
    return (dt_object){.kind = kind, .items = copy};
}

bool dt_object_equal(dt_object a, dt_object b) {
    if (dt_is_number(a) && dt_is_number(b))
        return a.kind == b.kind && a.kind == DT_OBJECT_INT ? a.i == b.i : dt_object_number(a) == dt_object_number(b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case DT_OBJECT_BOOL: return a.b == b.b;
    case DT_OBJECT_STRING:
    case DT_OBJECT_CHOICE: return strcmp(a.text, b.text) == 0;
    case DT_OBJECT_DTYPE: return a.dtype == b.dtype;
    case DT_OBJECT_LIST:
    case DT_OBJECT_TUPLE:
        if (a.items->n != b.items->n) return false;
        for (size_t i = 0; i < a.items->n; i++)
            if (!dt_object_equal(a.items->items[i], b.items->items[i])) return false;
        return true;
    case DT_OBJECT_FUNCTION: return a.callee == b.callee;
    case DT_OBJECT_VARIABLE: return a.i == b.i;
    case DT_OBJECT_TENSOR: return a.value == b.value;
    case DT_OBJECT_TREE: return a.tree == b.tree;
    case DT_OBJECT_OPTIMIZER: return a.optimizer == b.optimizer;
    case DT_OBJECT_INSTANCE: return a.instance == b.instance;
    case DT_OBJECT_MODULE: return a.file == b.file;
    case DT_OBJECT_PIPELINE: return a.pipeline == b.pipeline;
    default: return true;
    }
}

static void describe(dt_text *text, dt_object o, int depth) {
    static const char *const names[] = {
#define X(enumerator, name) name,
        DT_OBJECTS(X)
#undef X
    };
    char number[32];
    switch (o.kind) {
    case DT_OBJECT_INT: dt_text_format(text, "%lld", (long long)o.i); break;
    case DT_OBJECT_FLOAT: dt_text_append(text, dt_text_from_f64(o.f, number)); break;
    case DT_OBJECT_BOOL: dt_text_append(text, o.b ? "true" : "false"); break;
    case DT_OBJECT_STRING: dt_text_format(text, "\"%s\"", o.text); break;
    case DT_OBJECT_CHOICE: dt_text_append(text, o.text); break;
    case DT_OBJECT_DTYPE: dt_text_append(text, dt_dtype_name(o.dtype)); break;
    case DT_OBJECT_TENSOR: dt_shape_print(text, o.value->dtype, o.value->shape); break;
    case DT_OBJECT_FUNCTION: dt_text_format(text, "the %s %s", o.callee->instance != NULL ? "layer" : "function", o.callee->name); break;
    case DT_OBJECT_LIST:
        dt_text_append(text, "[");
        for (size_t i = 0; i < o.items->n; i++) {
            if (i > 0) dt_text_append(text, ", ");
            if (i == 8 || depth > 2) {
                dt_text_append(text, "…");
                break;
            }
            describe(text, o.items->items[i], depth + 1);
        }
        dt_text_append(text, "]");
        break;
    case DT_OBJECT_TUPLE: dt_text_format(text, "%zu values", o.items->n); break;
    default: dt_text_append(text, names[o.kind]); break;
    }
}

const char *dt_object_describe(dt_arena *arena, dt_object o) {
    dt_text text = {.arena = arena};
    describe(&text, o, 0);
    return text.data;
}

dt_binding *dt_bind(dt_arena *arena, dt_binding *scope, const char *name, dt_object object, dt_span span) {
    dt_binding *binding = DT_NEW(arena, dt_binding);
    *binding = (dt_binding){.name = name, .object = object, .span = span, .outer = scope};
    return binding;
}

dt_binding *dt_find_binding(dt_binding *scope, const char *name) {
    while (scope != NULL && strcmp(scope->name, name) != 0) scope = scope->outer;
    return scope;
}
