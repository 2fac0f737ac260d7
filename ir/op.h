/* op: what is known of each operation, read from ir/ops.def, one row an op.
 *
 * Everything else derives from the row: parser, printer, verifier, shape inference, interpreter, gradients, distribution, kernels, the reference
 * manual and the tests that walk the table. Backends never see a row: they see its loops (ir/loops.h). */
#ifndef DT_IR_OP_H
#define DT_IR_OP_H

#include "base/status.h"
#include "ir/shape.h"

typedef enum dt_op_class {
    DT_CLASS_SOURCE,     /* no operands: input, constant, launch, iota */
    DT_CLASS_MAP,        /* elementwise, all operands of one shape */
    DT_CLASS_REDUCE,     /* over axes of one operand */
    DT_CLASS_CONTRACT,   /* sums of products: matrix product, convolution and their gradients */
    DT_CLASS_WINDOW,     /* reductions over sliding windows: pooling and its gradients */
    DT_CLASS_MOVE,       /* reshape, transpose, slice, pad, concatenate, broadcast, reverse */
    DT_CLASS_INDEX,      /* gather, scatter_add: an operand says where */
    DT_CLASS_RANDOM,     /* counter-based random numbers */
    DT_CLASS_COLLECTIVE, /* inserted by partition */
    DT_CLASS_STATE,      /* read and write of variables */
    DT_CLASS_CONTROL,    /* resolved by a pass: gradient */
    DT_CLASS_LOOP,       /* a loop and what enters and leaves its body (ir/body.h) */
    DT_N_CLASSES
} dt_op_class;

typedef enum dt_attribute_kind {
    DT_ATTR_INT,
    DT_ATTR_NUMBER,
    DT_ATTR_BOOL,
    DT_ATTR_STRING,
    DT_ATTR_INTS,
    DT_ATTR_DTYPE
} dt_attribute_kind;

/* A value of an attribute. Which member is used follows from the row's declaration. A NUMBER is one of the result's type, and dt_build holds it
 * there: of a float type it is `f`, rounded to it; of an integer type or bool it is `i`, within its limits, and `f` the double nearest to it. */
typedef struct dt_attribute {
    int64_t i;           /* INT, BOOL, DTYPE, NUMBER; the count for INTS */
    double f;            /* NUMBER */
    const char *s;       /* STRING */
    const int64_t *ints; /* INTS [i]; entries may be DT_BATCH where the attribute is a shape */
} dt_attribute;

/* NUMBERs for dt_build. */
static inline dt_attribute dt_number(double f) { return (dt_attribute){.f = f}; }
static inline dt_attribute dt_number_of_int(int64_t i) { return (dt_attribute){.i = i, .f = (double)i}; }

enum {
    DT_MOST_ATTRIBUTES = 12 /* of an op */
};

typedef struct dt_attribute_row {
    const char *name;
    dt_attribute_kind kind;
    bool has_default;
    dt_attribute standard;
} dt_attribute_row;

typedef struct dt_operand_row {
    const char *name;
    const char *type; /* class word of the signature: float, integer, number, bool, any, index. Operands of the same word share one dtype, but
                         those of `index`. */
    uint32_t dtypes;  /* that the word holds, a bit each */
    int like;         /* the first operand of that word, itself perhaps; -1 of `index` */
} dt_operand_row;

/* Whether a word of a signature, or of a parameter's type in a program, means that dtype among others: a class, or the dtype itself. */
bool dt_type_word_holds(const char *word, dt_dtype dtype);

typedef struct dt_value dt_value;
typedef struct dt_loops dt_loops;
typedef struct dt_builder dt_builder;
typedef struct dt_op dt_op;

/* Result shape and dtype from operands and attributes; an error reads like a sentence and names the operand ("x", "axes"). */
typedef dt_status *(*dt_infer_function)(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                        dt_shape *shape, dt_dtype *dtype);
/* The meaning as a loop nest over operand elements. */
typedef dt_loops *(*dt_loops_function)(dt_arena *arena, const dt_value *value);
/* Gradients: adds ops to `builder` and sets gradients[k] for each operand k with wanted[k] (NULL where it is zero). `g` has the result's shape. */
typedef dt_status *(*dt_gradient_function)(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients);

/* Indices low .. high - 1 of a dimension; a symbol's is always whole: 0 .. symbol. */
typedef struct dt_range {
    int64_t low, high;
} dt_range;
static inline int64_t dt_range_extent(dt_range span) { return span.high - span.low; }

/* The same op for a part of its result alone: sets in `attributes`, a copy of the value's own, those with which the row makes `part` of parts of its
 * operands. operands[k], a span for each dimension, covers what that part reads of operand k; a row may widen it where its attributes ask for more.
 * Where it cannot be done the row leaves attributes with which its shape does not come out: the caller checks that, and the loops. */
typedef void (*dt_narrow_function)(dt_arena *arena, const dt_value *value, const dt_range *part, dt_range *const *operands, dt_attribute *attributes);

/* What algebra knows of an op. */
typedef enum dt_op_algebra {
    DT_OP_LINEAR = 1,     /* sum(op(x)) is op(sum(x)): partial(sum) operands may stay partial through it */
    DT_OP_INVOLUTION = 2, /* op(op(x)) is x */
    DT_OP_ZERO_RIGHT = 4, /* op(x, 0) is x, to the bit */
    DT_OP_ONE_RIGHT = 8,  /* op(x, 1) is x */
    DT_OP_ONE_LEFT = 16,  /* op(1, x) is x */
    DT_OP_STEADY = 32     /* where op(x) is op(y) for different x and y, its gradient is 0 at both */
} dt_op_algebra;

struct dt_op {
    const char *name;
    dt_op_class class;
    const dt_operand_row *operands; /* [n_operands]; a variadic op has one row that repeats */
    int n_operands;
    bool variadic;
    const char *result_type;              /* "" same dtype as the first operand of that word; or a dtype name; or "to": the attribute of that name */
    dt_dtype result_dtype;                /* that it names; DT_N_DTYPES: that of the operand or the attribute */
    int result_operand, result_attribute; /* -1: not this one */
    const dt_attribute_row *attributes;
    int n_attributes;
    const char *formula;  /* MAP, RANDOM, SOURCE: scalar expression; REDUCE, WINDOW: combiner word; else "" */
    const char *gradient; /* text "x: …; y: …" over operands, `result` and `g`; "" none here; see gradient_function */
    dt_infer_function infer;
    dt_loops_function loops; /* NULL for STATE, CONTROL, LOOP, COLLECTIVE and sources without data */
    dt_gradient_function gradient_function;
    dt_narrow_function narrow; /* NULL: attributes stay what they are */
    unsigned algebra;          /* dt_op_algebra */
    const char *domain;        /* for tests: "low, high" of each operand, or "any" */
    double tolerance_ulp;      /* against NumPy; 0 exact */
    const char *numpy;         /* NumPy expression over operand and attribute names, `np` in scope */
    const char *doc;
};

/* That operand i must fit. */
static inline const dt_operand_row *dt_op_operand(const dt_op *op, int i) { return &op->operands[i < op->n_operands ? i : op->n_operands - 1]; }

extern const size_t dt_n_ops;
const dt_op *dt_op_at(size_t i);                              /* the i-th row, 0 .. dt_n_ops - 1 */
const dt_op *dt_op_find(const char *name);                    /* NULL when there is none */
int dt_op_attribute_index(const dt_op *op, const char *name); /* -1 when there is none */
const char *dt_class_name(dt_op_class class);

#endif
