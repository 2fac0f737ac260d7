/* build: adds values to functions, see graph.h. Everything that makes a value comes through dt_build: front end, passes, gradients, text form. */
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/reader.h"
#include "ir/scalar.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- what the row demands of operands ---- */

static dt_status *check_operands(const dt_op *op, dt_value *const *operands, int n_operands) {
    bool right = op->variadic ? n_operands >= op->n_operands : n_operands == op->n_operands;
    if (!right)
        return dt_error(DT_INVALID_ARGUMENT, "%s takes %s%d operand%s, here %s %d", op->name, op->variadic ? "at least " : "", op->n_operands,
                        dt_plural(op->n_operands), n_operands == 1 ? "is" : "are", n_operands);
    for (int i = 0; i < n_operands; i++) {
        const dt_operand_row *row = dt_op_operand(op, i);
        if (!(row->dtypes >> operands[i]->dtype & 1))
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s must be %s, it is %s", op->name, row->name, row->like < 0 ? "integer" : row->type,
                            dt_dtype_name(operands[i]->dtype));
        if (row->like >= 0 && operands[row->like]->dtype != operands[i]->dtype)
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s is %s and %s is %s", op->name, dt_op_operand(op, row->like)->name,
                            dt_dtype_name(operands[row->like]->dtype), row->name, dt_dtype_name(operands[i]->dtype));
    }
    return NULL;
}

/* What one of so many shards has of a variable. */
static dt_status *shape_of_shard(dt_arena *arena, const dt_op *op, const dt_variable *variable, int64_t n_shards, dt_shape *shape) {
    *shape = variable->shape;
    if (n_shards == 1) return NULL;
    if (n_shards < 1 || variable->shard_axis < 0)
        return dt_error(DT_INVALID_ARGUMENT, "%s: %s is not split over %lld shards", op->name, variable->path, (long long)n_shards);
    int64_t *dims = dt_arena_copy(arena, shape->dims, (size_t)shape->rank * sizeof *dims);
    dims[variable->shard_axis] = dt_shard_extent(dims[variable->shard_axis], variable->shard_groups, n_shards);
    shape->dims = dims;
    return NULL;
}

dt_status *dt_op_infer(dt_arena *arena, const dt_module *module, const dt_op *op, dt_value *const *operands, int n_operands,
                       const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype) {
    DT_TRY(check_operands(op, operands, n_operands));
    if (op->class != DT_CLASS_STATE) {
        if (op->infer != NULL) return op->infer(arena, op, operands, n_operands, attributes, shape, dtype);
        return dt_error(DT_INVALID_ARGUMENT, "%s: only a function's head makes one", op->name);
    }
    const char *path = dt_op_attribute(op, attributes, "variable")->s;
    const dt_variable *variable = dt_module_find_variable(module, path);
    if (variable == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s: there is no variable %s", op->name, path);
    dt_shape own;
    DT_TRY(shape_of_shard(arena, op, variable, dt_op_attribute(op, attributes, "shards")->i, &own));
    if (n_operands == 0) {
        *shape = own;
        *dtype = variable->dtype;
        return NULL;
    }
    if (variable->dtype != operands[0]->dtype || !dt_shape_equal(own, operands[0]->shape))
        return dt_error(DT_INVALID_ARGUMENT, "%s: the value has another type than the variable %s", op->name, path);
    return op->infer(arena, op, operands, n_operands, attributes, shape, dtype);
}

/* ---- values ---- */

static void insert(dt_function *function, dt_value *value, dt_value *before) {
    value->next = before;
    value->previous = before != NULL ? before->previous : function->last;
    *(value->previous != NULL ? &value->previous->next : &function->first) = value;
    *(before != NULL ? &before->previous : &function->last) = value;
}

static dt_value *take_room(dt_module *module) {
    enum {
        AT_ONCE = 64
    };
    if (module->n_room == 0) {
        module->room = DT_NEW_ARRAY(module->arena, dt_value, AT_ONCE);
        module->n_room = AT_ONCE;
    }
    module->n_room--;
    return module->room++;
}

static dt_value *new_value(dt_function *function, const dt_op *op, dt_dtype dtype, dt_shape shape, int n_locations, const dt_location *locations) {
    dt_value *value = take_room(function->module);
    value->op = op;
    value->dtype = dtype;
    value->shape = shape;
    value->n_locations = n_locations;
    value->locations = dt_arena_copy(function->module->arena, locations, (size_t)n_locations * sizeof *locations);
    value->function = function;
    value->id = function->next_id++;
    return value;
}

/* A copy of attributes whose strings and lists are the arena's. */
static dt_attribute *copy_attributes(dt_arena *arena, const dt_op *op, const dt_attribute *attributes) {
    dt_attribute *copy = DT_NEW_ARRAY(arena, dt_attribute, op->n_attributes);
    for (int i = 0; i < op->n_attributes; i++) {
        assert(attributes != NULL || op->attributes[i].has_default);
        copy[i] = attributes != NULL ? attributes[i] : op->attributes[i].standard;
        if (op->attributes[i].kind == DT_ATTR_STRING) copy[i].s = dt_arena_string(arena, copy[i].s);
        if (op->attributes[i].kind == DT_ATTR_INTS) copy[i].ints = dt_arena_copy(arena, copy[i].ints, (size_t)copy[i].i * sizeof(int64_t));
    }
    return copy;
}

/* The number as the dtype holds it. An integer is what dt_number_of_int made, or a float without a fraction. */
static dt_status *hold_number(const dt_op *op, const char *name, dt_dtype dtype, dt_attribute *number) {
    if (dt_dtype_is_float(dtype)) {
        *number = dt_number(dt_scalar_round((dt_scalar){.f = number->f}, dtype).f);
        return NULL;
    }
    char text[32];
    int64_t least, greatest;
    dt_dtype_limits(dtype, &least, &greatest);
    if ((double)number->i != number->f) {
        if (number->f != trunc(number->f) || fabs(number->f) >= 0x1p63)
            return dt_error(DT_INVALID_ARGUMENT, "%s: %s must be an integer of type %s, got %s", op->name, name, dt_dtype_name(dtype),
                            dt_text_from_f64(number->f, text));
        *number = dt_number_of_int((int64_t)number->f);
    }
    if (number->i >= least && number->i <= greatest) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: %s %" PRId64 " does not fit in %s, which holds %" PRId64 " to %" PRId64, op->name, name, number->i,
                    dt_dtype_name(dtype), least, greatest);
}

dt_status *dt_build(dt_builder *builder, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                    dt_value **result) {
    dt_function *function = builder->function;
    dt_arena *arena = function->module->arena;
    dt_shape shape;
    dt_dtype dtype;
    dt_attribute *own = copy_attributes(arena, op, attributes);
    DT_TRY(dt_op_infer(arena, function->module, op, operands, n_operands, own, &shape, &dtype));
    for (int i = 0; i < op->n_attributes; i++)
        if (op->attributes[i].kind == DT_ATTR_NUMBER) DT_TRY(hold_number(op, op->attributes[i].name, dtype, &own[i]));
    dt_value *value = new_value(function, op, dtype, shape, builder->n_locations, builder->locations);
    value->n_operands = n_operands;
    value->operands = dt_arena_copy(arena, operands, (size_t)n_operands * sizeof(dt_value *));
    value->attributes = own;
    if (n_operands > 0) value->layer = operands[0]->layer, value->call = operands[0]->call, value->recompute = operands[0]->recompute;
    if (builder->before != NULL) value->recompute = builder->before->recompute;
    for (int k = 0; k < n_operands; k++)
        if (operands[k]->call == DT_BACKWARD) value->layer = operands[k]->layer, value->call = DT_BACKWARD;
    if (builder->layer != NULL) value->layer = builder->layer;
    insert(function, value, builder->before);
    *result = value;
    return NULL;
}

dt_status *dt_build_copy(dt_builder *builder, const dt_value *value, dt_value *const *operands, dt_value **copy) {
    DT_TRY(dt_build(builder, value->op, operands, value->n_operands, value->attributes, copy));
    (*copy)->distribution = value->distribution;
    (*copy)->layer = value->layer;
    (*copy)->call = value->call;
    (*copy)->recompute = value->recompute;
    return NULL;
}

dt_value *dt_build_input(dt_function *function, const char *name, dt_dtype dtype, dt_shape shape, dt_location location) {
    dt_arena *arena = function->module->arena;
    dt_value *value = new_value(function, dt_op_find("input"), dtype, dt_shape_make(arena, shape.rank, shape.dims), 1, &location);
    value->name = dt_arena_string(arena, name);
    dt_value *last = function->inputs.n > 0 ? function->inputs.items[function->inputs.n - 1] : NULL;
    insert(function, value, last != NULL ? last->next : function->first);
    dt_list_push(arena, &function->inputs, value);
    return value;
}

/* ---- by name ---- */

dt_status *dt_build_text(dt_builder *builder, dt_value **result, const char *op_name, dt_value *const *operands, int n_operands,
                         const char *attributes, ...) {
    const dt_op *op = dt_op_find(op_name);
    if (op == NULL) return dt_error(DT_INTERNAL, "there is no op %s", op_name);
    dt_arena *arena = builder->function->module->arena;
    va_list arguments;
    va_start(arguments, attributes);
    const char *text = dt_arena_vformat(arena, attributes, arguments);
    va_end(arguments);
    dt_reader reader = {.source = text, .at = text, .arena = arena};
    dt_attribute *read = DT_NEW_ARRAY(arena, dt_attribute, op->n_attributes);
    DT_TRY(dt_read_attributes(&reader, op, read));
    if (!dt_read_end(&reader)) return dt_error(DT_INTERNAL, "%s: attributes \"%s\" are not read to the end", op_name, text);
    return dt_build(builder, op, operands, n_operands, read, result);
}

dt_status *dt_build_unary(dt_builder *builder, dt_value **result, const char *op, dt_value *x) {
    return dt_build_text(builder, result, op, &x, 1, "%s", "");
}

dt_status *dt_build_binary(dt_builder *builder, dt_value **result, const char *op, dt_value *x, dt_value *y) {
    return dt_build_text(builder, result, op, (dt_value *[]){x, y}, 2, "%s", "");
}

/* Sets attribute `name` of `attributes`. */
static void set(const dt_op *op, dt_attribute *attributes, const char *name, dt_attribute value) {
    int i = dt_op_attribute_index(op, name);
    assert(i >= 0);
    attributes[i] = value;
}

dt_status *dt_build_number(dt_builder *builder, dt_value **result, dt_dtype dtype, dt_attribute number, dt_shape shape) {
    const dt_op *op = dt_op_find("constant");
    dt_attribute attributes[3];
    assert(op != NULL && op->n_attributes == 3);
    set(op, attributes, "value", number);
    set(op, attributes, "shape", (dt_attribute){.i = shape.rank, .ints = shape.dims});
    set(op, attributes, "dtype", (dt_attribute){.i = dtype});
    return dt_build(builder, op, NULL, 0, attributes, result);
}

dt_status *dt_build_constant(dt_builder *builder, dt_value **result, dt_dtype dtype, double value, dt_shape shape) {
    return dt_build_number(builder, result, dtype, dt_number(value), shape);
}

dt_status *dt_build_constant_like(dt_builder *builder, dt_value **result, const dt_value *constant, dt_shape shape) {
    return dt_build_number(builder, result, constant->dtype, *dt_op_attribute(constant->op, constant->attributes, "value"), shape);
}

dt_status *dt_build_reduce(dt_builder *builder, dt_value **result, const char *op_name, dt_value *x, const int64_t *axes, int n_axes, bool keep) {
    const dt_op *op = dt_op_find(op_name);
    if (op == NULL) return dt_error(DT_INTERNAL, "there is no op %s", op_name);
    dt_attribute attributes[2];
    assert(op->n_attributes == 2);
    set(op, attributes, "axes", (dt_attribute){.i = n_axes, .ints = axes});
    set(op, attributes, "keep", (dt_attribute){.i = keep});
    return dt_build(builder, op, &x, 1, attributes, result);
}

dt_status *dt_build_broadcast(dt_builder *builder, dt_value **result, dt_value *x, dt_shape shape, const int64_t *dims) {
    const dt_op *op = dt_op_find("broadcast");
    dt_attribute attributes[2];
    assert(op != NULL && op->n_attributes == 2);
    set(op, attributes, "shape", (dt_attribute){.i = shape.rank, .ints = shape.dims});
    set(op, attributes, "dims", (dt_attribute){.i = x->shape.rank, .ints = dims});
    return dt_build(builder, op, &x, 1, attributes, result);
}

dt_status *dt_build_convert(dt_builder *builder, dt_value **result, dt_value *x, dt_dtype to) {
    *result = x;
    if (x->dtype == to) return NULL;
    return dt_build(builder, dt_op_find("convert"), &x, 1, &(dt_attribute){.i = to}, result);
}
