/* graph: a program as values in static single assignment.
 *
 * A module holds variables (parameters, states, optimizer slots), functions over values, steps (what the runtime runs) and data pipelines.
 * A function is a list of values in program order; every value is the result of one op. Reading and writing variables are ops, so the order of
 * a read and a write is the order in the list. All memory is the module's arena. */
#ifndef DT_IR_GRAPH_H
#define DT_IR_GRAPH_H

#include "abi/manifest.h"
#include "base/names.h"
#include "ir/loops.h"
#include "ir/op.h"
#include "ir/warnings.h"

typedef struct dt_module dt_module;
typedef struct dt_function dt_function;

/* Where in the program text a value comes from; fused and derived values carry several. */
typedef struct dt_location {
    int file; /* index in module->files */
    int line, column;
} dt_location;

/* How the elements of a value are laid over replicas; set by partition, DT_UNKNOWN before. */
typedef enum dt_distribution_kind {
    DT_UNKNOWN,
    DT_REPLICATED,
    DT_SPLIT,
    DT_PARTIAL
} dt_distribution_kind;
typedef struct dt_distribution {
    dt_distribution_kind kind;
    int axis;             /* SPLIT */
    dt_combiner combiner; /* PARTIAL: SUM, MAX or MIN */
    bool sharded;         /* it differs from shard to shard of the model as well; set by the pass `shard` */
} dt_distribution;

enum {
    DT_BACKWARD = -1
};

/* split(axis); replicated where that is less than 0. */
static inline dt_distribution dt_distribution_at(int axis) {
    return axis < 0 ? (dt_distribution){.kind = DT_REPLICATED} : (dt_distribution){.kind = DT_SPLIT, .axis = axis};
}

struct dt_value {
    const dt_op *op;
    dt_dtype dtype;
    dt_shape shape; /* effects (write) have rank 0 */
    int n_operands;
    dt_value **operands;
    dt_attribute *attributes; /* [op->n_attributes], row order, defaults filled in */
    int n_locations;
    dt_location *locations; /* first: where it was written */
    dt_distribution distribution;
    int id;                    /* its number in text, %id; unique in its function */
    const char *name;          /* inputs: the argument's name; else NULL or a hint */
    dt_value *previous, *next; /* order within the function */
    dt_function *function;
    const char *layer; /* for people, not in text form: its layer's path, or "…/function#7" of a library's function; else its first operand's. Of a
                          gradient that of what it is the gradient of */
    int call;          /* which call of that layer's model; DT_BACKWARD of gradients and what is made of them */
    int recompute;     /* more than 0: of the inside of that call, which gradients compute again; where nobody says, that of what it goes before */
    void *scratch;     /* for the pass at work; meaningless between passes */
};

typedef struct dt_result {
    const char *name; /* as in `return name: value`; aggregates are named "aggregate0", … */
    dt_value *value;
} dt_result;

struct dt_function {
    dt_module *module;
    const char *name; /* "init", "train", "train/report", "train_set/map0" */
    dt_function_role role;
    dt_value *first, *last; /* in program order; inputs come first */
    DT_LIST(dt_value *) inputs;
    DT_LIST(dt_result) results;
    int next_id;
};

typedef struct dt_variable {
    const char *path;      /* "Cnn/conv2d_1/kernel"; slots: "adam/Cnn/conv2d_1/kernel/m"; counts: "adam/count" */
    dt_variable_kind kind; /* parameters and states go to model.safetensors, slots to optimizer.safetensors */
    dt_dtype dtype;
    dt_shape shape;
    bool trainable;   /* a parameter that some step changes; of a program without a step that trains, that one might */
    int shard_axis;   /* the dimension that the module's shards split; -1: each has all of it. `shape` is the whole shape */
    int shard_groups; /* so many tensors side by side in that dimension, each of which is split; 1 where nothing is said */
    dt_location location;
} dt_variable;

/* One layer of the program, for `dtc summary`: filled in by the front end. */
typedef struct dt_layer {
    const char *path; /* "Cnn/conv2d_1" */
    const char *kind; /* "conv2d" */
    dt_dtype dtype;
    dt_shape shape;                    /* of its (first) result */
    int64_t n_parameters, n_trainable; /* its own, not its children's */
    int depth;                         /* 0 for a model */
    dt_location location;
} dt_layer;

/* What the runtime runs: `step name(inputs) from data`. */
typedef struct dt_step {
    const char *name;
    dt_function *function; /* its first results are the aggregates (0-d), then the named results */
    dt_function *report;   /* totals -> reports; NULL without reports */
    const char *data;      /* name of its pipeline, or NULL */
    int64_t every;         /* training runs it over that after each so many epochs; 0: not said */
    int n_aggregates;
    dt_aggregate_kind *aggregates; /* [n_aggregates]: how totals grow from step to step */
    bool trains;                   /* it may write variables; no other step does */
    dt_location location;
} dt_step;

/* A step for a table of which it takes rows and which it reads in no other way: its row forms touch the rows alone that a batch names, so that nobody
 * needs all of the table. Made by the pass `rows`, whose functions are of role ROWS:
 *
 *     indices   the step's inputs -> which rows it takes
 *     step      the step: the rows that it takes are an input, and what would be added to the gradient of each of them is a result
 *     sum       a microbatch's gradient of each row of the table, and numbers -> what crosses replicas of it
 *     update    rows of the table and of its slots, what has crossed, and numbers -> what the rows become
 *
 * B of the last two is rows of the table. `indices` and `step` serve all tables of a step. */
typedef struct dt_row_form {
    const char *table; /* the variable, [rows, width] */
    dt_function *of;   /* the step's own function */
    dt_function *indices, *step;
    int index;                   /* result of `indices`: [B, ...] */
    int rows;                    /* input of `step`: of each element of the index a row */
    int gradient;                /* result of `step`, of the same shape; -1: the step does not change the table, and there is none of what follows */
    int first_number, n_numbers; /* results of `step`, which `sum` and `update` take last */
    dt_function *sum;            /* NULL: the gradient crosses as it is */
    dt_function *update;         /* its results are the table's rows, then those of each slot */
    DT_LIST(const char *) slots; /* variables of the table's shape that are updated with it */
    const char *moves;           /* what the update does to a row without a gradient; NULL: it leaves it as it is, to the bit */
    dt_location location;        /* where the rows are taken */
} dt_row_form;

/* A variable that row forms leave out of the steps: a table, or a slot of one. */
typedef struct dt_row_variable {
    const char *path;
    dt_function *init; /* of role ROWS: initial values of B rows, the first of which is row_offset of the launch */
} dt_row_variable;

/* A pipeline as written: the runtime gives it meaning. Arguments are positional or named. */
typedef struct dt_stage_argument {
    const char *name; /* NULL: positional */
    enum {
        DT_STAGE_INT,
        DT_STAGE_FLOAT,
        DT_STAGE_STRING,
        DT_STAGE_FUNCTION
    } kind;
    int64_t i;
    double f;
    const char *s; /* STRING; FUNCTION: name of the function in the module */
} dt_stage_argument;
typedef struct dt_stage_declaration {
    const char *kind; /* "idx", "shuffle", "batch", … the first stage is the source */
    DT_LIST(dt_stage_argument) arguments;
    dt_location location;
} dt_stage_declaration;
typedef struct dt_pipeline_declaration {
    const char *name;
    DT_LIST(dt_stage_declaration) stages;
    dt_location location;
} dt_pipeline_declaration;

/* A pass need not warn of this in that line: the program says so. */
typedef struct dt_allowance {
    dt_warning_kind warning;
    dt_location location; /* the line; its column is that of the word that allows it */
    int word_line;        /* which stands there */
    bool silences;        /* something that was found */
} dt_allowance;

struct dt_module {
    dt_arena *arena;
    const char *name; /* of the program, its file without folder and ".dt" */
    int64_t n_shards; /* `mesh model`: logical shards of the model, a power of two up to DT_MOST_SHARDS; 1: it is not split */
    DT_LIST(const char *) files;
    DT_LIST(dt_variable) variables; /* dt_module_add_variable adds to it */
    DT_LIST(dt_function *) functions;
    DT_LIST(dt_step) steps;
    DT_LIST(dt_pipeline_declaration) pipelines;
    DT_LIST(dt_layer) layers;
    DT_LIST(dt_allowance) allowances;
    DT_LIST(dt_row_form) row_forms; /* those of a step side by side; none before the pass `rows` */
    DT_LIST(dt_row_variable) row_variables;
    dt_function *row_init; /* the initialiser without row variables; NULL: there are none */
    int64_t capacity;      /* rows for each replica that memory is planned for; 0 until known */
    dt_names by_path;      /* positions in variables */
    dt_value *room;        /* [n_room] for the next values: side by side, for passes walk all of a function again and again */
    size_t n_room;
};

dt_module *dt_module_create(dt_arena *arena, const char *name);
dt_function *dt_module_add_function(dt_module *module, const char *name, dt_function_role role);
dt_function *dt_module_find_function(const dt_module *module, const char *name);
void dt_module_add_variable(dt_module *module, dt_variable variable);            /* whose path nobody may change afterwards */
dt_variable *dt_module_find_variable(const dt_module *module, const char *path); /* NULL when there is none */

/* ---- values ---- */
int64_t dt_value_int(const dt_value *value, const char *attribute);      /* attribute by name; asserts that it exists */
double dt_value_number(const dt_value *value, const char *attribute);    /* a NUMBER: that of an i64 may be near it only */
dt_scalar dt_value_scalar(const dt_value *value, const char *attribute); /* a NUMBER as an element of the value's type, exactly */
bool dt_value_bool(const dt_value *value, const char *attribute);
const char *dt_value_string(const dt_value *value, const char *attribute);
const int64_t *dt_value_ints(const dt_value *value, const char *attribute, int *n);
bool dt_value_is(const dt_value *value, const char *op); /* for passes only; kernels and backends never ask */
bool dt_value_writes(const dt_value *value);             /* a variable */
bool dt_value_has_effect(const dt_value *value);         /* it writes, or says what a loop does: there is no value that others could use */

/* An error of the program, at the value's place where it has one: "FILE:LINE:COLUMN: " and the sentence. */
dt_status *dt_value_error(const dt_value *value, dt_code code, const char *format, ...) __attribute__((format(printf, 3, 4), returns_nonnull));

/* Replaces every use of `old` in its function, results included, by `replacement`. */
void dt_value_replace(dt_value *old, dt_value *replacement);
/* The same of many at a time: of each value whose id has one in `replacements`, [function->next_id], where the others are NULL. */
void dt_function_replace(dt_function *function, dt_value *const *replacements);
/* Takes a value without uses out of its function. */
void dt_value_remove(dt_value *value);
/* To another place of its function, before `before`. */
void dt_value_move(dt_value *value, dt_value *before);
void dt_value_add_locations(dt_value *value, const dt_value *from); /* the union, without repetition */
/* Drops values that nothing reads and that have no effect. Inputs stay. */
void dt_function_sweep(dt_function *function);
/* Which values can differ from one batch to the next though no other function runs in between: those made of inputs, of the number of rows, of random
 * numbers, of launch values that count, and of variables that the function writes.varies: [next_id], by id. */
void dt_function_find_varying(const dt_function *function, bool *varies);
/* Renumbers ids 0, 1, 2, … in order: what the printer expects after a pass. */
void dt_function_renumber(dt_function *function);

/* ---- what rows demand ----
 * Operands in the number and of the dtypes that the row states, then its result's type: the row's infer function, for STATE the variable's type. */
dt_status *dt_op_infer(dt_arena *arena, const dt_module *module, const dt_op *op, dt_value *const *operands, int n_operands,
                       const dt_attribute *attributes, dt_shape *shape, dt_dtype *dtype);

/* ---- building ----
 * A builder adds values to a function at a point, with a location. Building infers shape and dtype and checks operands; the error is the
 * sentence of the row's infer function. */
struct dt_builder {
    dt_function *function;
    dt_value *before; /* new values go before this one; NULL: at the end */
    int n_locations;
    const dt_location *locations;
    const char *layer; /* of new values; NULL: that of their operands */
};

/* `attributes` in row order, all of them; copied. NULL: every one its default. */
dt_status *dt_build(dt_builder *builder, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                    dt_value **result);
/* The op of `value` with operands of its own, for each of that one's: a value of the same layer, call and distribution. */
dt_status *dt_build_copy(dt_builder *builder, const dt_value *value, dt_value *const *operands, dt_value **copy);
/* dt_build by name, attributes as text, "axes=[1, 2], keep=true"; missing ones take their default. For passes, gradients and tests:
 * dt_build_text(b, &y, "reduce_sum", "axes=[%d]", (dt_value *[]){x}, 1, axis). A name that is no op is a bug (DT_INTERNAL). */
dt_status *dt_build_text(dt_builder *builder, dt_value **result, const char *op, dt_value *const *operands, int n_operands, const char *attributes,
                         ...) __attribute__((format(printf, 6, 7)));
dt_status *dt_build_unary(dt_builder *builder, dt_value **result, const char *op, dt_value *x);
dt_status *dt_build_binary(dt_builder *builder, dt_value **result, const char *op, dt_value *x, dt_value *y);
/* Filled with a number as its dtype holds it: floats are rounded, integers that it cannot hold refused. */
dt_status *dt_build_constant(dt_builder *builder, dt_value **result, dt_dtype dtype, double value, dt_shape shape);
dt_status *dt_build_number(dt_builder *builder, dt_value **result, dt_dtype dtype, dt_attribute number, dt_shape shape); /* i64 exactly */
dt_status *dt_build_constant_like(dt_builder *builder, dt_value **result, const dt_value *constant, dt_shape shape);     /* the same in that shape */
dt_status *dt_build_reduce(dt_builder *builder, dt_value **result, const char *op, dt_value *x, const int64_t *axes, int n_axes, bool keep);
/* Broadcasts x to `shape`; its dimension i becomes dimension dims[i] of the result. */
dt_status *dt_build_broadcast(dt_builder *builder, dt_value **result, dt_value *x, dt_shape shape, const int64_t *dims);
dt_status *dt_build_convert(dt_builder *builder, dt_value **result, dt_value *x, dt_dtype to); /* x itself when it has that type */
/* Elementwise expression text over named values: "g / (1 + x)"; literals are broadcast, infix and function names are ops. */
dt_status *dt_build_expression(dt_builder *builder, dt_value **result, const char *text, const char *const *names, dt_value *const *values, int n);
/* Behind the inputs that the function has. */
dt_value *dt_build_input(dt_function *function, const char *name, dt_dtype dtype, dt_shape shape, dt_location location);

#endif
