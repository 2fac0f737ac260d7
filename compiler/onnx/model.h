/* model: an ONNX model while it is made: nodes, constants and names. Shared by the files of this folder.
 *
 *   model.c        this
 *   formula.c      elementwise ops, from formulas
 *   operators.def  a function for each other op
 *   operators.c    those for reductions, moves and indices
 *   products.c     those for products and convolutions
 *   windows.c      those for windows
 *   scan.c         loops
 *   export.c       a whole step
 *   print.c        its text */
#ifndef DT_COMPILER_ONNX_MODEL_H
#define DT_COMPILER_ONNX_MODEL_H

#include "base/names.h"
#include "compiler/onnx/onnx.h"

#include <onnx.pb-c.h>

enum {
    DT_ONNX_IR_VERSION = 8,
    DT_ONNX_OPERATOR_SET = 18
};

struct dt_onnx_model {
    Onnx__ModelProto *proto;
};

/* Nodes of the model, or of the body of a Scan; `outer` is around it. */
typedef struct dt_onnx_graph dt_onnx_graph;
struct dt_onnx_graph {
    dt_onnx_graph *outer;
    DT_LIST(Onnx__NodeProto *) nodes;
    DT_LIST(Onnx__ValueInfoProto *) inputs;
    DT_LIST(Onnx__ValueInfoProto *) outputs;
};

/* What a value is called. */
typedef struct dt_onnx_tensor {
    const char *name;    /* NULL: it has not been rendered */
    const int64_t *dims; /* [rank] of `name`: 1 where the value has the same all along a dimension, or else its own; the first 1's may lack */
    const char *whole;   /* its name with all dimensions; NULL: not made yet … */
    const dt_onnx_graph *made_in; /* … in this graph */
} dt_onnx_tensor;

typedef struct dt_onnx {
    dt_arena *arena;
    const dt_function *function;
    const dt_weights *weights;
    dt_onnx_graph main, *graph; /* graph: where nodes go */
    DT_LIST(Onnx__TensorProto *) initializers;
    dt_names by_name;                 /* positions in initializers */
    DT_LIST(Onnx__NodeProto *) first; /* nodes of the model before all others */
    const char *rows;                 /* the number of rows, i64 [1]; NULL: nobody has asked */
    dt_onnx_tensor *tensors;          /* [next_id] */
    const dt_value *value;            /* that is rendered: gives nodes their names and places */
    int n_nodes;
} dt_onnx;

/* ---- types ---- */
Onnx__TensorProto__DataType dt_onnx_type(dt_dtype dtype);
/* The type in which values of `dtype` are kept between nodes. */
dt_dtype dt_onnx_kept(dt_dtype dtype);
/* Types, for inputs and outputs of graphs. */
Onnx__ValueInfoProto *dt_onnx_info(const dt_onnx *onnx, const char *name, dt_dtype dtype, dt_shape shape);

/* ---- nodes ---- */
Onnx__AttributeProto *dt_onnx_int(const dt_onnx *onnx, const char *name, int64_t i);
Onnx__AttributeProto *dt_onnx_ints(const dt_onnx *onnx, const char *name, int64_t n, const int64_t *ints);
Onnx__AttributeProto *dt_onnx_string(const dt_onnx *onnx, const char *name, const char *string);

Onnx__AttributeProto *dt_onnx_graph_attribute(const dt_onnx *onnx, const char *name, Onnx__GraphProto *graph);
/* Its nodes, inputs and outputs; it has no constants of its own. */
Onnx__GraphProto *dt_onnx_close_graph(const dt_onnx *onnx, const dt_onnx_graph *graph, const char *name);

#define DT_ONNX_INPUTS(...) ((const char *[]){__VA_ARGS__, NULL})
#define DT_ONNX_ATTRIBUTES(...) ((Onnx__AttributeProto *[]){__VA_ARGS__, NULL})

/* A node of one result, whose name is returned. Both lists end with NULL; no attributes: NULL. */
const char *dt_onnx_add(dt_onnx *onnx, const char *type, const char *const *inputs, Onnx__AttributeProto *const *attributes);
const char *dt_onnx_add_unary(dt_onnx *onnx, const char *type, const char *x);
const char *dt_onnx_add_binary(dt_onnx *onnx, const char *type, const char *x, const char *y);
const char *dt_onnx_where(dt_onnx *onnx, const char *condition, const char *x, const char *y);
/* One whose results have names already. */
void dt_onnx_add_named(dt_onnx *onnx, const char *type, const char *const *inputs, const char *const *outputs,
                       Onnx__AttributeProto *const *attributes);
const char *dt_onnx_name(dt_onnx *onnx, const char *type); /* that no other tensor has */

/* ---- constants: one of each in a model ---- */
const char *dt_onnx_scalar(dt_onnx *onnx, dt_dtype dtype, dt_scalar value); /* of the kept type of dtype */
const char *dt_onnx_number(dt_onnx *onnx, dt_dtype dtype, double value);
const char *dt_onnx_list(dt_onnx *onnx, int64_t n, const int64_t *ints); /* i64 [n] */
const char *dt_onnx_index(dt_onnx *onnx, int64_t i);                     /* i64 [1] */
void dt_onnx_initialize(dt_onnx *onnx, const char *name, dt_dtype dtype, dt_shape shape, const void *data);

/* ---- shapes ---- */
const char *dt_onnx_extent(dt_onnx *onnx, int64_t dim);                  /* i64 [1] */
const char *dt_onnx_shape(dt_onnx *onnx, int rank, const int64_t *dims); /* i64 [rank] */
const char *dt_onnx_reshape(dt_onnx *onnx, const char *x, int rank, const int64_t *dims);
const char *dt_onnx_transpose(dt_onnx *onnx, const char *x, int rank, const int64_t *permutation);
/* In row order, from `starts` below `limits`, of the dimensions [n] in `axes`. */
const char *dt_onnx_slice(dt_onnx *onnx, const char *x, int n, const int64_t *starts, const int64_t *limits, const int64_t *axes,
                          const int64_t *steps);

/* ---- values ---- */
const dt_onnx_tensor *dt_onnx_tensor_of(const dt_onnx *onnx, const dt_value *value);
const char *dt_onnx_whole(dt_onnx *onnx, const dt_value *value); /* with all its dimensions */
/* The value is the tensor of that name, as it is kept; of dims (dt_onnx_tensor), or NULL: of all its dimensions. */
void dt_onnx_give(dt_onnx *onnx, const dt_value *value, const char *name, const int64_t *dims);
/* The same, once what was computed in the kept type is rounded, or wrapped, to the value's. */
void dt_onnx_give_rounded(dt_onnx *onnx, const dt_value *value, const char *name);

const char *dt_onnx_cast(dt_onnx *onnx, const char *x, dt_dtype to);                   /* to exactly that type */
const char *dt_onnx_round(dt_onnx *onnx, const char *x, dt_dtype dtype);               /* to dtype, in its kept type */
const char *dt_onnx_convert(dt_onnx *onnx, const char *x, dt_dtype from, dt_dtype to); /* between kept types, as `convert` does */

dt_status *dt_onnx_unimplemented(const dt_value *value, const char *why);

/* ---- rendering ---- */
typedef dt_status *dt_onnx_renderer(dt_onnx *onnx, const dt_value *value);

/* formula.c: elementwise ops. */
dt_onnx_renderer dt_onnx_render_formula;
/* operators.c, products.c, windows.c: the rows of operators.def */
dt_onnx_renderer dt_onnx_constant, dt_onnx_iota, dt_onnx_launch, dt_onnx_reduce, dt_onnx_argument, dt_onnx_reshape_op, dt_onnx_transpose_op,
    dt_onnx_broadcast, dt_onnx_slice_op, dt_onnx_pad, dt_onnx_concatenate, dt_onnx_reverse, dt_onnx_gather, dt_onnx_scatter, dt_onnx_read;
dt_onnx_renderer dt_onnx_matmul, dt_onnx_dot_general, dt_onnx_convolution, dt_onnx_transposed_convolution, dt_onnx_kernel_gradient, dt_onnx_max_pool,
    dt_onnx_sum_pool, dt_onnx_spread, dt_onnx_max_pool_index, dt_onnx_window_gather, dt_onnx_window_scatter;

/* export.c: an error of the value where no input has the dimension B. */
dt_status *dt_onnx_need_rows(const dt_value *value);
/* Values from `from` up to, not with, `end`; NULL: to the end of the function. */
dt_status *dt_onnx_render_values(dt_onnx *onnx, const dt_value *from, const dt_value *end);
/* scan.c: a loop and all that leaves it. */
dt_status *dt_onnx_render_loop(dt_onnx *onnx, const dt_value *loop);

#endif
