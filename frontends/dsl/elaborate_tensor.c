/* elaborate_tensor: makes the values of the graph. Every value gets the line of the user's program that asked for it; broadcasting becomes ops here,
 * so that the graph has none that is implicit. */
#include "frontends/dsl/elaborator.h"

#include <assert.h>
#include <string.h>

bool dt_shape_fits(dt_shape shape) {
    int64_t elements = 1;
    for (int d = 0; d < shape.rank; d++)
        if (shape.dims[d] > 0 && (__builtin_mul_overflow(elements, shape.dims[d], &elements) || elements > DT_MOST_ELEMENTS)) return false;
    return true;
}

/* ---- emitting ---- */

dt_location dt_elaborator_location(const dt_elaborator *e, dt_span span) {
    span = dt_elaborator_user_span(e, span);
    int file = 0;
    for (size_t i = 0; i < e->files.n; i++)
        if (e->files.items[i]->source == span.file && e->files.items[i]->module_file >= 0) file = e->files.items[i]->module_file;
    return (dt_location){.file = file, .line = span.line, .column = span.column};
}

/* The row's sentence, with what usually cures it. */
static void report_refusal(dt_elaborator *e, const dt_op *op, dt_status *status, dt_value *const *operands, int n_operands) {
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s", dt_status_message(status));
    dt_status_free(status);
    for (int i = 0; i < n_operands; i++) {
        const char *name = op->variadic ? dt_arena_format(e->arena, "operand %d", i) : op->operands[i].name;
        dt_diagnostic_note(error, "%s is %s", name, dt_object_describe(e->arena, dt_object_tensor(operands[i])));
    }
    for (int i = 0; i < n_operands && i < op->n_operands; i++) {
        if (strcmp(op->operands[i].type, "float") != 0 || dt_dtype_is_float(operands[i]->dtype)) continue;
        dt_diagnostic_help(error, "convert it first: f32(%s)", op->operands[i].name);
        break;
    }
}

static bool belongs_here(dt_elaborator *e, const dt_value *operand) {
    if (operand->function == e->function || dt_report_holds(e, operand)) return true;
    if (e->function == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "there are no tensors here: this is worked out at compile time");
        dt_diagnostic_help(error, "compute it inside a step or a model");
    } else if (e->function == e->init) {
        dt_elaborator_error(e, e->at, "an initial value cannot depend on what a step computes");
    } else {
        dt_elaborator_error(e, e->at, "this tensor belongs to another step");
    }
    return false;
}

dt_object dt_emit(dt_elaborator *e, const char *name, dt_value *const *operands, int n_operands, const dt_named_attribute *settings,
                  size_t n_settings) {
    const dt_op *op = dt_op_find(name);
    assert(op != NULL);
    for (int i = 0; i < n_operands; i++)
        if (!belongs_here(e, operands[i])) return dt_poison();
    if (e->function == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "there are no tensors here: this is worked out at compile time");
        dt_diagnostic_help(error, "compute it inside a step or a model");
        return dt_poison();
    }
    if (dt_is_mixed(e)) {
        dt_value **mixed = dt_arena_copy(e->arena, operands, (size_t)n_operands * sizeof *mixed);
        if (!dt_mix(e, op, mixed, n_operands)) return dt_poison();
        operands = mixed;
    }
    dt_function *function = e->function;
    if (dt_is_in_report(e)) {
        dt_value **own = dt_arena_copy(e->arena, operands, (size_t)n_operands * sizeof *own);
        function = dt_report_place(e, op, own, n_operands, settings, n_settings);
        if (function == NULL) return dt_poison();
        operands = own;
    }
    dt_attribute attributes[DT_MOST_ATTRIBUTES];
    for (int i = 0; i < op->n_attributes; i++) attributes[i] = op->attributes[i].standard;
    int precision = dt_op_attribute_index(op, "precision"); /* of steps alone: weights and data begin alike with any */
    if (precision >= 0 && operands[0]->dtype == DT_F32 && function->role == DT_ROLE_STEP) attributes[precision].s = dt_precision_name(e->precision);
    for (size_t i = 0; i < n_settings; i++) {
        int index = dt_op_attribute_index(op, settings[i].name);
        assert(index >= 0);
        attributes[index] = settings[i].value;
    }
    dt_location location = dt_elaborator_location(e, e->at);
    dt_builder builder = {.function = function, .before = function == e->function ? e->before : NULL, .n_locations = 1, .locations = &location};
    dt_value *value;
    dt_status *status = dt_build(&builder, op, operands, n_operands, attributes, &value);
    if (status != NULL) {
        report_refusal(e, op, status, operands, n_operands);
        return dt_poison();
    }
    value->layer = e->visit != NULL ? e->visit->instance->path : NULL;
    value->call = e->visit != NULL ? e->visit->call_of_model : 0;
    value->recompute = e->recompute;
    dt_mark_if_weak(e, value);
    if (!dt_shape_fits(value->shape)) return dt_elaborator_fail(e, "a tensor of %s is too large for any machine", dt_describe_shape(e, value->shape));
    return dt_object_tensor(value);
}

dt_object dt_emit_unary(dt_elaborator *e, const char *op, dt_value *x) { return dt_emit(e, op, &x, 1, NULL, 0); }

dt_object dt_emit_binary(dt_elaborator *e, const char *op, dt_value *x, dt_value *y) { return dt_emit(e, op, (dt_value *[]){x, y}, 2, NULL, 0); }

dt_object dt_emit_reduce(dt_elaborator *e, const char *op, dt_value *x, const int64_t *axes, int n_axes, bool keep) {
    dt_named_attribute settings[] = {{"axes", {.i = n_axes, .ints = axes}}, {"keep", {.i = keep}}};
    return dt_emit(e, op, &x, 1, settings, 2);
}

dt_object dt_emit_reduce_all(dt_elaborator *e, const char *op, dt_value *x) {
    int64_t *axes = DT_NEW_ARRAY(e->arena, int64_t, x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++) axes[i] = i;
    return dt_emit_reduce(e, op, x, axes, x->shape.rank, false);
}

dt_object dt_emit_convert(dt_elaborator *e, dt_value *x, dt_dtype to) {
    if (x->dtype == to) return dt_object_tensor(x);
    dt_named_attribute setting = {"to", {.i = to}};
    return dt_emit(e, "convert", &x, 1, &setting, 1);
}

bool dt_literal_fits(dt_object literal, dt_dtype dtype) {
    char kind = dt_dtype_kind(dtype);
    if (literal.kind != DT_OBJECT_INT || kind != 'i') return literal.kind == DT_OBJECT_BOOL ? kind == 'b' : kind == 'f' && dt_is_number(literal);
    int64_t least, greatest;
    dt_dtype_limits(dtype, &least, &greatest);
    return literal.i >= least && literal.i <= greatest;
}

const char *dt_literal_misfit(dt_elaborator *e, dt_object literal, dt_dtype dtype) {
    int64_t least, greatest;
    dt_dtype_limits(dtype, &least, &greatest);
    if (literal.kind != DT_OBJECT_INT || dt_dtype_kind(dtype) != 'i')
        return dt_arena_format(e->arena, "%s is needed here, not %s", dt_dtype_name(dtype), dt_object_describe(e->arena, literal));
    return dt_arena_format(e->arena, "%lld does not fit in %s, which holds %lld to %lld", (long long)literal.i, dt_dtype_name(dtype),
                           (long long)least, (long long)greatest);
}

dt_attribute dt_literal_number(dt_object literal) {
    if (literal.kind == DT_OBJECT_FLOAT) return dt_number(literal.f);
    return dt_number_of_int(literal.kind == DT_OBJECT_BOOL ? literal.b : literal.i);
}

dt_object dt_emit_constant(dt_elaborator *e, dt_dtype dtype, dt_object literal, dt_shape shape) {
    if (!dt_literal_fits(literal, dtype)) return dt_elaborator_fail(e, "%s", dt_literal_misfit(e, literal, dtype));
    dt_named_attribute settings[] = {
        {"value", dt_literal_number(literal)}, {"shape", {.i = shape.rank, .ints = shape.dims}}, {"dtype", {.i = dtype}}};
    return dt_emit(e, "constant", NULL, 0, settings, 3);
}

dt_object dt_emit_launch(dt_elaborator *e, const char *field) {
    dt_named_attribute setting = {"name", {.s = field}};
    return dt_emit(e, "launch", NULL, 0, &setting, 1);
}

dt_object dt_emit_reshape(dt_elaborator *e, dt_value *x, dt_shape shape) {
    if (dt_shape_equal(x->shape, shape)) return dt_object_tensor(x);
    dt_named_attribute setting = {"shape", {.i = shape.rank, .ints = shape.dims}};
    return dt_emit(e, "reshape", &x, 1, &setting, 1);
}

dt_object dt_emit_broadcast(dt_elaborator *e, dt_value *x, dt_shape shape) {
    if (dt_shape_equal(x->shape, shape)) return dt_object_tensor(x);
    int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++) dims[i] = shape.rank - x->shape.rank + i;
    dt_named_attribute settings[] = {{"shape", {.i = shape.rank, .ints = shape.dims}}, {"dims", {.i = x->shape.rank, .ints = dims}}};
    return dt_emit(e, "broadcast", &x, 1, settings, 2);
}

dt_object dt_emit_count(dt_elaborator *e, dt_value *x, const char *field) {
    dt_extent extent = {.per_row = dt_shape_elements_per_row(x->shape), .n_batch = dt_shape_count(x->shape, DT_BATCH)};
    return dt_emit_elements(e, extent, field);
}

dt_object dt_emit_elements(dt_elaborator *e, dt_extent extent, const char *field) {
    dt_object rows = extent.n_batch > 0 ? dt_emit_launch(e, field) : dt_object_none(), count = rows;
    for (int i = 1; i < extent.n_batch && !dt_is_poison(count); i++) count = dt_emit_binary(e, "multiply", count.value, rows.value);
    if (extent.n_batch > 0 && (dt_is_poison(count) || extent.per_row == 1)) return count;
    dt_object per_row = dt_emit_constant(e, DT_I64, dt_object_int(extent.per_row), dt_shape_scalar());
    return extent.n_batch == 0 || dt_is_poison(per_row) ? per_row : dt_emit_binary(e, "multiply", count.value, per_row.value);
}

/* ---- shapes ---- */

const char *dt_describe_shape(dt_elaborator *e, dt_shape shape) {
    dt_text text = {.arena = e->arena};
    dt_text_append(&text, "[");
    for (int i = 0; i < shape.rank; i++) {
        if (i > 0) dt_text_append(&text, ", ");
        if (shape.dims[i] == DT_BATCH)
            dt_text_append(&text, "B");
        else
            dt_text_format(&text, "%lld", (long long)shape.dims[i]);
    }
    dt_text_append(&text, "]");
    return text.data;
}

bool dt_broadcast_shapes(dt_elaborator *e, dt_shape a, dt_shape b, dt_shape *result, const char *what) {
    int rank = a.rank > b.rank ? a.rank : b.rank, n_batch = 0;
    int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, rank);
    for (int i = 0; i < rank; i++) {
        int64_t x = i < rank - a.rank ? 1 : a.dims[i - (rank - a.rank)], y = i < rank - b.rank ? 1 : b.dims[i - (rank - b.rank)];
        if (x != y && x != 1 && y != 1) {
            dt_diagnostic *error =
                dt_elaborator_error(e, e->at, "%s: the shapes %s and %s do not fit together", what, dt_describe_shape(e, a), dt_describe_shape(e, b));
            dt_diagnostic_note(error, "from the right, dimensions must be equal or 1");
            if (a.rank != b.rank)
                dt_diagnostic_help(error, "add a dimension where it belongs: x[..., newaxis]");
            else
                dt_diagnostic_help(error, "reduce or slice one side: sum(x, axis: -1, keep: true), x[:, :1]");
            return false;
        }
        dims[i] = x == 1 ? y : x;
        n_batch += dims[i] == DT_BATCH;
    }
    int n_before = (dt_shape_batch_axis(a) >= 0) + (dt_shape_batch_axis(b) >= 0);
    if (n_batch > 1 && n_before == 2 && a.rank != b.rank) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s: %s and %s would pair every row of the batch with every other", what,
                                                   dt_describe_shape(e, a), dt_describe_shape(e, b));
        dt_diagnostic_help(error, "to pair rows with themselves drop the dimension of 1: x[:, 0]; to pair all of them write newaxis on both sides");
        return false;
    }
    *result = (dt_shape){.rank = rank, .dims = dims};
    return true;
}

bool dt_to_shape(dt_elaborator *e, dt_object object, const char *what, dt_shape *shape) {
    dt_object lone[1] = {object};
    const dt_object *items = lone;
    size_t n = 1;
    if (dt_is_poison(object)) return false;
    if (object.kind == DT_OBJECT_LIST) items = object.items->items, n = object.items->n;
    int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, n);
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind == DT_OBJECT_BATCH) {
            dims[i] = DT_BATCH;
        } else if (items[i].kind == DT_OBJECT_INT && items[i].i >= 0) {
            dims[i] = items[i].i;
        } else if (!dt_is_poison(items[i])) {
            dt_diagnostic *error =
                dt_elaborator_error(e, e->at, "%s: a dimension is an int or B, not %s", what, dt_object_describe(e->arena, items[i]));
            if (items[i].flexible) dt_diagnostic_help(error, "a launch value is not known at compile time: use an option");
            return false;
        }
    }
    *shape = (dt_shape){.rank = (int)n, .dims = dims};
    if (dt_shape_fits(*shape)) return true;
    dt_elaborator_error(e, e->at, "%s: a tensor of %s is too large for any machine", what, dt_describe_shape(e, *shape));
    return false;
}

bool dt_to_axis(dt_elaborator *e, dt_object object, int rank, int *axis) {
    if (object.kind == DT_OBJECT_INT && object.i >= -rank && object.i < rank) {
        *axis = (int)(object.i < 0 ? object.i + rank : object.i);
        return true;
    }
    if (object.kind == DT_OBJECT_INT)
        dt_elaborator_error(e, e->at, "axis %lld: the tensor has %d dimension%s, its axes are %d to %d", (long long)object.i, rank, dt_plural(rank),
                            -rank, rank - 1);
    else if (!dt_is_poison(object))
        dt_elaborator_error(e, e->at, "an axis is an int, not %s", dt_object_describe(e->arena, object));
    return false;
}

/* ---- objects to tensors ---- */

dt_object dt_settle(dt_elaborator *e, dt_object object) { return object.kind == DT_OBJECT_VARIABLE ? dt_variable_read(e, (int)object.i) : object; }

dt_object dt_to_tensor(dt_elaborator *e, dt_object object, dt_dtype standard) {
    object = dt_settle(e, object);
    dt_dtype dtype = standard;
    switch (object.kind) {
    case DT_OBJECT_POISON: return object;
    case DT_OBJECT_TENSOR: return belongs_here(e, object.value) ? object : dt_poison();
    case DT_OBJECT_INT:
        if (dtype == DT_N_DTYPES) dtype = DT_I64;
        break;
    case DT_OBJECT_FLOAT:
        if (dtype == DT_N_DTYPES) dtype = DT_F32;
        break;
    case DT_OBJECT_BOOL: dtype = DT_BOOL; break;
    default: return dt_elaborator_fail(e, "a tensor is needed here, this is %s", dt_object_describe(e->arena, object));
    }
    return dt_emit_constant(e, dtype, object, dt_shape_scalar());
}
