/* model: see model.h. */
#include "compiler/onnx/model.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* protobuf-c's strings are not const; nothing of a model is ever written through them. */
static char *mutable(const char *string) { return (char *)(uintptr_t)string; }

#define NEW(onnx, type, init) ((type *)dt_arena_copy((onnx)->arena, &(const type)init, sizeof(type)))

/* ---- types ---- */

Onnx__TensorProto__DataType dt_onnx_type(dt_dtype dtype) {
    static const Onnx__TensorProto__DataType types[DT_N_DTYPES] = {
        [DT_F32] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,     [DT_F16] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
        [DT_BF16] = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16, [DT_F64] = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
        [DT_I8] = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,       [DT_U8] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
        [DT_I32] = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,     [DT_I64] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
        [DT_BOOL] = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL};
    return types[dtype];
}

dt_dtype dt_onnx_kept(dt_dtype dtype) {
    if (dt_dtype_is_half(dtype)) return DT_F32;
    return dt_dtype_kind(dtype) == 'i' && dt_dtype_bytes(dtype) == 1 ? DT_I32 : dtype;
}

Onnx__ValueInfoProto *dt_onnx_info(const dt_onnx *onnx, const char *name, dt_dtype dtype, dt_shape shape) {
    Onnx__TensorShapeProto *dims = NEW(onnx, Onnx__TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
    dims->n_dim = (size_t)shape.rank;
    dims->dim = DT_NEW_ARRAY(onnx->arena, Onnx__TensorShapeProto__Dimension *, shape.rank);
    for (int d = 0; d < shape.rank; d++) {
        dims->dim[d] = NEW(onnx, Onnx__TensorShapeProto__Dimension, ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
        if (dt_dim_is_symbol(shape.dims[d]))
            dims->dim[d]->dim_param = mutable("B");
        else
            dims->dim[d]->has_dim_value = true, dims->dim[d]->dim_value = shape.dims[d];
    }
    Onnx__TypeProto__Tensor *tensor = NEW(onnx, Onnx__TypeProto__Tensor, ONNX__TYPE_PROTO__TENSOR__INIT);
    *tensor = (Onnx__TypeProto__Tensor){.base = tensor->base, .has_elem_type = true, .elem_type = (int32_t)dt_onnx_type(dtype), .shape = dims};
    Onnx__ValueInfoProto *info = NEW(onnx, Onnx__ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    info->name = mutable(name);
    info->type = NEW(onnx, Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
    info->type->tensor_type = tensor;
    return info;
}

/* ---- nodes ---- */

static Onnx__AttributeProto *new_attribute(const dt_onnx *onnx, const char *name, Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *attribute = NEW(onnx, Onnx__AttributeProto, ONNX__ATTRIBUTE_PROTO__INIT);
    attribute->name = mutable(name);
    attribute->has_type = true;
    attribute->type = type;
    return attribute;
}

Onnx__AttributeProto *dt_onnx_int(const dt_onnx *onnx, const char *name, int64_t i) {
    Onnx__AttributeProto *attribute = new_attribute(onnx, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attribute->has_i = true;
    attribute->i = i;
    return attribute;
}

Onnx__AttributeProto *dt_onnx_ints(const dt_onnx *onnx, const char *name, int64_t n, const int64_t *ints) {
    Onnx__AttributeProto *attribute = new_attribute(onnx, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->n_ints = (size_t)n;
    attribute->ints = dt_arena_copy(onnx->arena, ints, (size_t)n * sizeof *ints);
    return attribute;
}

Onnx__AttributeProto *dt_onnx_string(const dt_onnx *onnx, const char *name, const char *string) {
    Onnx__AttributeProto *attribute = new_attribute(onnx, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attribute->has_s = true;
    attribute->s = (ProtobufCBinaryData){.len = strlen(string), .data = (uint8_t *)dt_arena_string(onnx->arena, string)};
    return attribute;
}

Onnx__AttributeProto *dt_onnx_graph_attribute(const dt_onnx *onnx, const char *name, Onnx__GraphProto *graph) {
    Onnx__AttributeProto *attribute = new_attribute(onnx, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    attribute->g = graph;
    return attribute;
}

Onnx__GraphProto *dt_onnx_close_graph(const dt_onnx *onnx, const dt_onnx_graph *graph, const char *name) {
    Onnx__GraphProto *proto = NEW(onnx, Onnx__GraphProto, ONNX__GRAPH_PROTO__INIT);
    proto->name = mutable(name);
    proto->n_node = graph->nodes.n, proto->node = graph->nodes.items;
    proto->n_input = graph->inputs.n, proto->input = graph->inputs.items;
    proto->n_output = graph->outputs.n, proto->output = graph->outputs.items;
    return proto;
}

const char *dt_onnx_name(dt_onnx *onnx, const char *type) { return dt_arena_format(onnx->arena, "%s:%d", type, onnx->n_nodes++); }

static char **copy_names(const dt_onnx *onnx, const char *const *names, size_t *n) {
    for (*n = 0; names[*n] != NULL;) ++*n;
    return dt_arena_copy(onnx->arena, names, *n * sizeof *names);
}

/* Its place: "fashion_cnn.dt:13". */
static const char *place_of(const dt_onnx *onnx) {
    const dt_value *value = onnx->value;
    if (value == NULL || value->n_locations == 0 || value->locations[0].line == 0) return NULL;
    return dt_arena_format(onnx->arena, "%s:%d", value->function->module->files.items[value->locations[0].file], value->locations[0].line);
}

static Onnx__NodeProto *new_node(const dt_onnx *onnx, const char *type, const char *const *inputs, const char *const *outputs,
                                 Onnx__AttributeProto *const *attributes) {
    Onnx__NodeProto *node = NEW(onnx, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    const char *layer = onnx->value != NULL ? onnx->value->layer : NULL;
    node->op_type = mutable(type);
    node->name = layer == NULL ? mutable(outputs[0]) : dt_arena_format(onnx->arena, "%s/%s", layer, outputs[0]);
    node->doc_string = mutable(place_of(onnx));
    node->input = copy_names(onnx, inputs, &node->n_input);
    node->output = copy_names(onnx, outputs, &node->n_output);
    while (attributes != NULL && attributes[node->n_attribute] != NULL) node->n_attribute++;
    node->attribute = dt_arena_copy(onnx->arena, attributes, node->n_attribute * sizeof(Onnx__AttributeProto *));
    return node;
}

void dt_onnx_add_named(dt_onnx *onnx, const char *type, const char *const *inputs, const char *const *outputs,
                       Onnx__AttributeProto *const *attributes) {
    dt_list_push(onnx->arena, &onnx->graph->nodes, new_node(onnx, type, inputs, outputs, attributes));
}

const char *dt_onnx_add(dt_onnx *onnx, const char *type, const char *const *inputs, Onnx__AttributeProto *const *attributes) {
    const char *name = dt_onnx_name(onnx, type);
    dt_onnx_add_named(onnx, type, inputs, DT_ONNX_INPUTS(name), attributes);
    return name;
}

const char *dt_onnx_add_unary(dt_onnx *onnx, const char *type, const char *x) { return dt_onnx_add(onnx, type, DT_ONNX_INPUTS(x), NULL); }

const char *dt_onnx_add_binary(dt_onnx *onnx, const char *type, const char *x, const char *y) {
    return dt_onnx_add(onnx, type, DT_ONNX_INPUTS(x, y), NULL);
}

const char *dt_onnx_where(dt_onnx *onnx, const char *condition, const char *x, const char *y) {
    return dt_onnx_add(onnx, "Where", DT_ONNX_INPUTS(condition, x, y), NULL);
}

/* ---- constants ---- */

void dt_onnx_initialize(dt_onnx *onnx, const char *name, dt_dtype dtype, dt_shape shape, const void *data) {
    if (dt_names_find(&onnx->by_name, name) >= 0) return;
    Onnx__TensorProto *tensor = NEW(onnx, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    tensor->name = mutable(name);
    tensor->n_dims = (size_t)shape.rank;
    tensor->dims = dt_arena_copy(onnx->arena, shape.dims, (size_t)shape.rank * sizeof *shape.dims);
    tensor->has_data_type = true;
    tensor->data_type = (int32_t)dt_onnx_type(dtype);
    tensor->has_raw_data = data != NULL;
    tensor->raw_data.len = data != NULL ? (size_t)dt_shape_elements_per_row(shape) * dt_dtype_bytes(dtype) : 0;
    tensor->raw_data.data = (uint8_t *)(uintptr_t)data;
    dt_names_add(onnx->arena, &onnx->by_name, tensor->name, (int)onnx->initializers.n);
    dt_list_push(onnx->arena, &onnx->initializers, tensor);
}

const char *dt_onnx_scalar(dt_onnx *onnx, dt_dtype dtype, dt_scalar value) {
    dt_text name = {.arena = onnx->arena};
    value = dt_scalar_round(value, dtype);
    dtype = dt_onnx_kept(dtype);
    dt_text_format(&name, "%s:", dt_dtype_name(dtype));
    if (dt_dtype_is_float(dtype)) {
        char digits[32];
        dt_text_append(&name, dt_text_from_f64(value.f, digits));
    } else {
        dt_text_format(&name, "%" PRId64, value.i);
    }
    void *data = dt_arena_new(onnx->arena, sizeof(double));
    dt_scalar_store(data, dtype, value);
    dt_onnx_initialize(onnx, name.data, dtype, dt_shape_scalar(), data);
    return name.data;
}

const char *dt_onnx_number(dt_onnx *onnx, dt_dtype dtype, double value) {
    return dt_onnx_scalar(onnx, dtype, dt_dtype_is_float(dtype) ? (dt_scalar){.f = value} : (dt_scalar){.i = (int64_t)value});
}

const char *dt_onnx_list(dt_onnx *onnx, int64_t n, const int64_t *ints) {
    dt_text name = {.arena = onnx->arena};
    dt_text_append(&name, "[");
    for (int64_t i = 0; i < n; i++) dt_text_format(&name, "%s%" PRId64, i > 0 ? ", " : "", ints[i]);
    dt_text_append(&name, "]");
    dt_onnx_initialize(onnx, name.data, DT_I64, (dt_shape){1, dt_arena_copy(onnx->arena, &n, sizeof n)},
                       dt_arena_copy(onnx->arena, ints, (size_t)n * sizeof *ints));
    return name.data;
}

const char *dt_onnx_index(dt_onnx *onnx, int64_t i) { return dt_onnx_list(onnx, 1, &i); }

/* ---- shapes ---- */

/* The extent of the first input that has the dimension. */
static const char *rows_of(dt_onnx *onnx) {
    for (size_t i = 0; onnx->rows == NULL && i < onnx->function->inputs.n; i++) {
        const dt_value *input = onnx->function->inputs.items[i];
        int axis = dt_shape_batch_axis(input->shape);
        if (axis < 0) continue;
        onnx->rows = dt_onnx_name(onnx, "Shape");
        dt_list_push(onnx->arena, &onnx->first,
                     new_node(onnx, "Shape", DT_ONNX_INPUTS(input->name), DT_ONNX_INPUTS(onnx->rows),
                              DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "start", axis), dt_onnx_int(onnx, "end", axis + 1))));
    }
    assert(onnx->rows != NULL && "dt_onnx_render has seen to it");
    return onnx->rows;
}

const char *dt_onnx_extent(dt_onnx *onnx, int64_t dim) { return dt_dim_is_symbol(dim) ? rows_of(onnx) : dt_onnx_index(onnx, dim); }

/* As a constant where all dimensions are, and else put together when it runs. */
const char *dt_onnx_shape(dt_onnx *onnx, int rank, const int64_t *dims) {
    if (dt_shape_batch_axis((dt_shape){rank, dims}) < 0) return dt_onnx_list(onnx, rank, dims);
    if (rank == 1) return rows_of(onnx);
    const char **parts = DT_NEW_ARRAY(onnx->arena, const char *, rank + 1);
    for (int d = 0; d < rank; d++) parts[d] = dt_onnx_extent(onnx, dims[d]);
    return dt_onnx_add(onnx, "Concat", parts, DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "axis", 0)));
}

const char *dt_onnx_reshape(dt_onnx *onnx, const char *x, int rank, const int64_t *dims) {
    int64_t *constant = dt_arena_copy(onnx->arena, dims, (size_t)rank * sizeof *dims);
    int n_symbols = 0;
    bool is_empty = false;
    for (int d = 0; d < rank; d++) {
        is_empty |= dims[d] == 0;
        if (dt_dim_is_symbol(dims[d])) constant[d] = -1, n_symbols++;
    }
    if (!is_empty && n_symbols <= 1) return dt_onnx_add_binary(onnx, "Reshape", x, dt_onnx_list(onnx, rank, constant));
    return dt_onnx_add(onnx, "Reshape", DT_ONNX_INPUTS(x, dt_onnx_shape(onnx, rank, dims)), DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "allowzero", 1)));
}

const char *dt_onnx_transpose(dt_onnx *onnx, const char *x, int rank, const int64_t *permutation) {
    return dt_onnx_add(onnx, "Transpose", DT_ONNX_INPUTS(x), DT_ONNX_ATTRIBUTES(dt_onnx_ints(onnx, "perm", rank, permutation)));
}

const char *dt_onnx_slice(dt_onnx *onnx, const char *x, int n, const int64_t *starts, const int64_t *limits, const int64_t *axes,
                          const int64_t *steps) {
    if (n == 0) return x;
    return dt_onnx_add(
        onnx, "Slice",
        DT_ONNX_INPUTS(x, dt_onnx_list(onnx, n, starts), dt_onnx_list(onnx, n, limits), dt_onnx_list(onnx, n, axes), dt_onnx_list(onnx, n, steps)),
        NULL);
}

/* ---- values ---- */

const dt_onnx_tensor *dt_onnx_tensor_of(const dt_onnx *onnx, const dt_value *value) {
    assert(onnx->tensors[value->id].name != NULL);
    return &onnx->tensors[value->id];
}

static bool is_visible(const dt_onnx *onnx, const dt_onnx_graph *made_in) {
    const dt_onnx_graph *graph = onnx->graph;
    while (graph != NULL && graph != made_in) graph = graph->outer;
    return graph != NULL;
}

const char *dt_onnx_whole(dt_onnx *onnx, const dt_value *value) {
    dt_onnx_tensor *tensor = &onnx->tensors[value->id];
    assert(tensor->name != NULL);
    if (tensor->whole != NULL && is_visible(onnx, tensor->made_in)) return tensor->whole;
    tensor->whole = dt_onnx_add_binary(onnx, "Expand", tensor->name, dt_onnx_shape(onnx, value->shape.rank, value->shape.dims));
    tensor->made_in = onnx->graph;
    return tensor->whole;
}

void dt_onnx_give(dt_onnx *onnx, const dt_value *value, const char *name, const int64_t *dims) {
    bool is_whole = dims == NULL || (dt_shape_equal(value->shape, (dt_shape){value->shape.rank, dims}) && (value->shape.rank == 0 || dims[0] != 1));
    onnx->tensors[value->id] =
        (dt_onnx_tensor){.name = name, .dims = is_whole ? value->shape.dims : dims, .whole = is_whole ? name : NULL, .made_in = onnx->graph};
}

void dt_onnx_give_rounded(dt_onnx *onnx, const dt_value *value, const char *name) {
    dt_onnx_give(onnx, value, dt_onnx_round(onnx, name, value->dtype), NULL);
}

const char *dt_onnx_cast(dt_onnx *onnx, const char *x, dt_dtype to) {
    return dt_onnx_add(onnx, "Cast", DT_ONNX_INPUTS(x), DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "to", (int64_t)dt_onnx_type(to))));
}

const char *dt_onnx_round(dt_onnx *onnx, const char *x, dt_dtype dtype) {
    dt_dtype kept = dt_onnx_kept(dtype);
    return kept == dtype ? x : dt_onnx_cast(onnx, dt_onnx_cast(onnx, x, dtype), kept);
}

/* Floats are cut to the integers' range, in f64, which has each limit but the greatest i64; NaN becomes 0. */
static const char *float_to_integer(dt_onnx *onnx, const char *x, dt_dtype from, dt_dtype to) {
    int64_t least, greatest;
    dt_dtype_limits(to, &least, &greatest);
    if (from != DT_F64) x = dt_onnx_cast(onnx, x, DT_F64);
    const char *whole = dt_onnx_where(onnx, dt_onnx_add_binary(onnx, "Equal", x, x), x, dt_onnx_number(onnx, DT_F64, 0));
    const char *low = dt_onnx_number(onnx, DT_F64, (double)least),
               *high = dt_onnx_number(onnx, DT_F64, to == DT_I64 ? 0x1.fffffffffffffp62 : (double)greatest);
    const char *cut = dt_onnx_cast(onnx, dt_onnx_add(onnx, "Clip", DT_ONNX_INPUTS(whole, low, high), NULL), dt_onnx_kept(to));
    if (to != DT_I64) return cut;
    const char *is_above = dt_onnx_add_binary(onnx, "GreaterOrEqual", x, dt_onnx_number(onnx, DT_F64, 0x1p63));
    return dt_onnx_where(onnx, is_above, dt_onnx_scalar(onnx, to, (dt_scalar){.i = greatest}), cut);
}

const char *dt_onnx_convert(dt_onnx *onnx, const char *x, dt_dtype from, dt_dtype to) {
    if (from == to) return x;
    dt_dtype kept_from = dt_onnx_kept(from), kept_to = dt_onnx_kept(to);
    if (dt_dtype_is_float(from) && dt_dtype_kind(to) == 'i') return float_to_integer(onnx, x, kept_from, to);
    if (dt_dtype_is_half(to) && kept_from == DT_F64) return dt_onnx_cast(onnx, dt_onnx_cast(onnx, x, to), kept_to);
    if (kept_from != kept_to) x = dt_onnx_cast(onnx, x, kept_to);
    return dt_onnx_round(onnx, x, to);
}

dt_status *dt_onnx_unimplemented(const dt_value *value, const char *why) {
    return dt_value_error(value, DT_UNIMPLEMENTED, "ONNX has no operator for %s%s%s", value->op->name, why != NULL ? ": " : "",
                          why != NULL ? why : "");
}
