/* random_graph: small random functions over the op table, for tests that compare two ways of running one.
 *
 * Values are drawn, an op is picked with attributes from a list, and built: what its row refuses is drawn again. Floats are f64, so that two right
 * ways agree closely, and they are quarters, so that sums are exact in any order and comparisons do not flip. */
#ifndef DT_TESTS_SUPPORT_RANDOM_GRAPH_H
#define DT_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "ir/graph.h"
#include "ir/interpret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct random_source {
    uint64_t state;
} random_source;

static inline uint32_t random_below(random_source *source, uint32_t n) {
    source->state = source->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(source->state >> 33) % n;
}

typedef struct op_form {
    const char *op, *attributes;
} op_form;

static const op_form random_forms[] = {
    {"add", ""},
    {"subtract", ""},
    {"multiply", ""},
    {"maximum", ""},
    {"minimum", ""},
    {"negate", ""},
    {"absolute", ""},
    {"square", ""},
    {"relu", ""},
    {"tanh", ""},
    {"sigmoid", ""},
    {"exp", ""},
    {"less", ""},
    {"where", ""},
    {"where", ""},
    {"logical_and", ""},
    {"convert", "to=f64"},
    {"convert", "to=i64"},
    {"convert", "to=bool"},
    {"reduce_sum", "axes=[0]"},
    {"reduce_sum", "axes=[1]"},
    {"reduce_sum", "axes=[0, 1]"},
    {"reduce_sum", "axes=[0, 1, 2]"},
    {"reduce_max", "axes=[1]"},
    {"reduce_max", "axes=[1, 2]"},
    {"reduce_min", "axes=[0]"},
    {"reduce_sum", "axes=[1], keep=true"},
    {"argmax", "axes=[1]"},
    {"argmax", "axes=[1, 2]"},
    {"argmin", "axes=[0]"},
    {"reduce_any", "axes=[1]"},
    {"reduce_product", "axes=[1]"},
    {"matmul", ""},
    {"matmul", "transpose_a=true"},
    {"matmul", "transpose_b=true"},
    {"matmul", "transpose_a=true"},
    {"matmul", "precision=\"bf16\""}, /* refused where floats are f64 */
    {"matmul", "transpose_b=true, precision=\"tf32\""},
    {"conv2d", "padding=[1, 1, 1, 1], precision=\"bf16\""},
    {"conv2d_kernel_gradient", "size=[3, 3], precision=\"tf32\""},
    {"conv2d", ""},
    {"conv2d", "padding=[1, 1, 1, 1]"},
    {"conv2d", "strides=[2, 2], padding=[1, 0, 1, 0]"},
    {"conv2d", "dilation=[2, 1]"},
    {"conv2d_input_gradient", "size=[5, 5]"},
    {"conv2d_input_gradient", "size=[5, 5], strides=[2, 2], padding=[1, 0, 1, 0]"},
    {"conv2d_input_gradient", "size=[7, 7], strides=[2, 2]"},
    {"conv2d_input_gradient", "size=[6, 8], dilation=[1, 2]"},
    {"conv2d_input_gradient", "size=[5, 5], padding=[1, 1, 1, 1]"},
    {"conv2d_kernel_gradient", "size=[3, 3]"},
    {"conv2d_kernel_gradient", "size=[3, 3], padding=[1, 1, 1, 1]"},
    {"max_pool2d", "size=[2, 2], strides=[2, 2]"},
    {"max_pool2d_index", "size=[2, 2], strides=[2, 2]"},
    {"max_pool2d", "size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]"},
    {"sum_pool2d", "size=[2, 2], strides=[1, 1]"},
    {"sum_pool2d_gradient", "input=[5, 5], size=[2, 2], strides=[2, 2]"},
    {"window_scatter", "input=[5, 5], size=[2, 2], strides=[2, 2]"},
    {"window_gather", "size=[2, 2], strides=[2, 2]"},
    {"transpose", "permutation=[1, 0]"},
    {"transpose", "permutation=[0, 2, 1]"},
    {"transpose", "permutation=[0, 2, 1, 3]"},
    {"broadcast", "shape=[-1, 7], dims=[0]"},
    {"broadcast", "shape=[-1, 7], dims=[1]"},
    {"broadcast", "shape=[-1, 5, 5, 4], dims=[3]"},
    {"broadcast", "shape=[-1, 7], dims=[]"},
    {"broadcast", "shape=[7, 7], dims=[1]"},
    {"broadcast", "shape=[-1], dims=[]"},
    {"slice", "starts=[0, 1], limits=[-1, 5], steps=[1, 2]"},
    {"slice", "starts=[0, 1, 0, 0], limits=[-1, 5, 4, 2], steps=[1, 1, 1, 1]"},
    {"slice", "starts=[2], limits=[6], steps=[1]"},
    {"pad", "low=[0, 1], high=[0, 2], value=0.5"},
    {"pad", "low=[0, 1, 1, 0], high=[0, 0, 1, 0], value=0.0"},
    {"pad", "low=[2], high=[-1], value=1.0"},
    {"concatenate", "axis=1"},
    {"concatenate", "axis=0"},
    {"reverse", "axes=[1]"},
    {"reshape", "shape=[-1, 100]"},
    {"reshape", "shape=[-1, 5, 5, 4]"},
    {"reshape", "shape=[-1, 7, 1]"},
    {"reshape", "shape=[-1, 4]"},
    {"reshape", "shape=[7, 7, 1]"},
    {"reshape", "shape=[49]"},
    {"gather", "axis=0"},
    {"gather", "axis=1"},
    {"scatter_add", "axis=0, size=7"},
    {"scatter_add", "axis=1, size=5"},
    {"iota", "shape=[-1, 7], axis=1"},
    {"iota", "shape=[-1], axis=0"},
    {"iota", "shape=[-1, 7], axis=0, dtype=f64"},
    {"random_uniform", "shape=[-1, 7], stream=77"},
    {"constant", "value=0.25, shape=[-1, 7], dtype=f64"},
    {"launch", "name=\"valid\""},
};

/* Each row of the batch with each: what makes pairs, sums them up, and turns them round. */
static const op_form random_pair_forms[] = {
    {"add", ""},
    {"subtract", ""},
    {"multiply", ""},
    {"maximum", ""},
    {"tanh", ""},
    {"square", ""},
    {"relu", ""},
    {"sigmoid", ""},
    {"less", ""},
    {"where", ""},
    {"convert", "to=f64"},
    {"matmul", ""},
    {"matmul", "transpose_a=true"},
    {"matmul", "transpose_b=true"},
    {"matmul", "transpose_b=true"},
    {"broadcast", "shape=[-1, -1], dims=[0]"},
    {"broadcast", "shape=[-1, -1], dims=[1]"},
    {"broadcast", "shape=[-1, -1], dims=[0, 1]"},
    {"broadcast", "shape=[-1, -1, 7], dims=[0, 2]"},
    {"broadcast", "shape=[-1, -1, 7], dims=[1, 2]"},
    {"broadcast", "shape=[-1, 7], dims=[0]"},
    {"broadcast", "shape=[-1], dims=[]"},
    {"reshape", "shape=[-1, 1]"},
    {"reshape", "shape=[1, -1]"},
    {"reshape", "shape=[-1]"},
    {"reshape", "shape=[-1, 7, 1]"},
    {"transpose", "permutation=[1, 0]"},
    {"transpose", "permutation=[1, 0, 2]"},
    {"transpose", "permutation=[2, 0, 1]"},
    {"reduce_sum", "axes=[0]"},
    {"reduce_sum", "axes=[1]"},
    {"reduce_sum", "axes=[2]"},
    {"reduce_sum", "axes=[0, 1]"},
    {"reduce_max", "axes=[0]"},
    {"reduce_max", "axes=[1], keep=true"},
    {"reduce_min", "axes=[0, 1]"},
    {"argmax", "axes=[0]"},
    {"argmax", "axes=[1]"},
    {"concatenate", "axis=1"},
    {"iota", "shape=[-1, -1], axis=1, dtype=f64"},
    {"iota", "shape=[-1, -1], axis=0, dtype=f64"},
    {"constant", "value=0.25, shape=[-1, -1], dtype=f64"},
    {"random_uniform", "shape=[-1], stream=77"},
};

typedef struct random_graph {
    dt_function *function;
    dt_builder builder;
    dt_value *values[512];
    int n, n_inputs;
    dt_dtype real; /* f64, or what stands for it */
} random_graph;

enum {
    RANDOM_CAPACITY = 4
};

/* A step function with inputs of several shapes and as many variables, read. */
static inline random_graph random_graph_begin(dt_arena *arena, const dt_location *location, dt_dtype real) {
    dt_module *module = dt_module_create(arena, "random");
    module->capacity = RANDOM_CAPACITY;
    dt_list_push(arena, &module->files, "random.dt");
    const struct {
        dt_dtype dtype;
        int rank;
        int64_t dims[4];
    } inputs[] = {{real, 2, {-1, 7}}, {real, 4, {-1, 5, 5, 4}}, {real, 1, {-1}}, {DT_I64, 1, {-1}}, {DT_U8, 2, {-1, 7}}},
      variables[] = {{real, 2, {7, 7}}, {real, 4, {3, 3, 4, 5}}, {real, 1, {7}}, {real, 0, {0}}};
    random_graph graph = {.function = dt_module_add_function(module, "step", DT_ROLE_STEP), .n_inputs = sizeof inputs / sizeof *inputs, .real = real};
    graph.builder = (dt_builder){.function = graph.function, .n_locations = 1, .locations = location};
    for (int i = 0; i < graph.n_inputs; i++)
        graph.values[graph.n++] = dt_build_input(graph.function, dt_arena_format(arena, "x%d", i), inputs[i].dtype,
                                                 dt_shape_make(arena, inputs[i].rank, inputs[i].dims), *location);
    for (size_t v = 0; v < sizeof variables / sizeof *variables; v++) {
        const char *path = dt_arena_format(arena, "w%zu", v);
        dt_variable variable = {
            .path = path, .dtype = variables[v].dtype, .trainable = true, .shard_axis = -1, .shard_groups = 1, .location = *location};
        variable.shape = dt_shape_make(arena, variables[v].rank, variables[v].dims);
        dt_module_add_variable(module, variable);
        if (dt_build_text(&graph.builder, &graph.values[graph.n], "read", NULL, 0, "variable=\"%s\"", path) == NULL) graph.n++;
    }
    return graph;
}

/* Adds the op to values drawn; false, and nothing is added, where its row refuses them. */
static inline bool random_graph_add(random_graph *graph, random_source *source, const dt_op *op, const char *attributes) {
    dt_value *operands[3];
    int n_operands = op->variadic ? 2 : op->n_operands;
    for (int k = 0; k < n_operands; k++) operands[k] = graph->values[random_below(source, (uint32_t)graph->n)];
    char text[128];
    snprintf(text, sizeof text, "%s", attributes);
    char *at = strstr(text, "f64");
    if (at != NULL) memcpy(at, dt_dtype_name(graph->real), 3);
    dt_status *status = dt_build_text(&graph->builder, &graph->values[graph->n], op->name, operands, n_operands, "%s", text);
    bool added = status == NULL;
    graph->n += added;
    dt_status_free(status);
    return added;
}

/* By id of a value of the function: does another one use it? */
static inline bool *random_graph_used(const random_graph *graph) {
    bool *used = DT_NEW_ARRAY(graph->function->module->arena, bool, graph->function->next_id);
    for (const dt_value *value = graph->function->first; value != NULL; value = value->next)
        for (int k = 0; k < value->n_operands; k++) used[value->operands[k]->id] = true;
    return used;
}

/* A function of about `n_values` ops; every value that nothing uses becomes a result, variables are written. */
static inline dt_module *random_module_of(dt_arena *arena, random_source *source, int n_values, const op_form *forms, uint32_t n_forms,
                                          dt_dtype real) {
    dt_location location = {0, 1, 1};
    random_graph graph = random_graph_begin(arena, &location, real);
    dt_module *module = graph.function->module;
    for (int attempts = 0; graph.n < n_values && attempts < 100 * n_values; attempts++) {
        const op_form *form = &forms[random_below(source, n_forms)];
        random_graph_add(&graph, source, dt_op_find(form->op), form->attributes);
    }
    bool *used = random_graph_used(&graph);
    for (size_t v = 0; v < module->variables.n; v++) /* the last value of each variable's type is written to it */
        for (int i = graph.n; i-- > graph.n_inputs;)
            if (graph.values[i]->dtype == real && dt_shape_equal(graph.values[i]->shape, module->variables.items[v].shape)) {
                dt_value *write;
                dt_status_free(dt_build_text(&graph.builder, &write, "write", &graph.values[i], 1, "variable=\"w%zu\"", v));
                break;
            }
    for (int i = 0; i < graph.n; i++) {
        dt_result result = {dt_arena_format(arena, "r%d", i), graph.values[i]};
        if (!used[graph.values[i]->id] || random_below(source, 8) == 0) dt_list_push(arena, &graph.function->results, result);
    }
    return module;
}

static inline dt_module *random_module_in(dt_arena *arena, random_source *source, int n_values, dt_dtype real) {
    return random_module_of(arena, source, n_values, random_forms, sizeof random_forms / sizeof *random_forms, real);
}

static inline dt_module *random_module(dt_arena *arena, random_source *source, int n_values) {
    return random_module_in(arena, source, n_values, DT_F64);
}

static inline dt_module *random_pairs_module(dt_arena *arena, random_source *source, int n_values) {
    return random_module_of(arena, source, n_values, random_pair_forms, sizeof random_pair_forms / sizeof *random_pair_forms, DT_F64);
}

/* Multiples of a power of two: sums are exact in any order, and no right answer depends on it. */
static inline dt_tensor random_tensor(dt_arena *arena, random_source *source, dt_dtype dtype, dt_shape shape, int64_t rows) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, shape.rank);
    for (int d = 0; d < shape.rank; d++) dims[d] = dt_dim_is_symbol(shape.dims[d]) ? rows : shape.dims[d];
    dt_tensor tensor = dt_tensor_make(arena, dtype, (dt_shape){shape.rank, dims});
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++)
        dt_tensor_set(&tensor, i, dt_dtype_is_float(dtype) ? (double)random_below(source, 17) / 4 - 2 : (double)random_below(source, 6));
    return tensor;
}

/* Two memories of a module with the same random variables. */
static inline void random_memories(dt_arena *arena, random_source *source, const dt_module *module, dt_memory memories[2]) {
    for (int way = 0; way < 2; way++) memories[way] = dt_memory_create(arena, module);
    for (size_t v = 0; v < module->variables.n; v++) {
        memories[0].variables[v] = random_tensor(arena, source, module->variables.items[v].dtype, module->variables.items[v].shape, 0);
        memcpy(memories[1].variables[v].data, memories[0].variables[v].data, dt_tensor_bytes(&memories[1].variables[v]));
    }
}

#endif
