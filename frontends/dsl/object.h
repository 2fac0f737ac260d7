/* object: what an expression is worth while the program's compile time runs: numbers, lists, functions, and tensors, which are values of the
 * graph under construction.
 *
 * Objects are small, passed by value, and never change; what they point to lives in the arena of the compilation. POISON is what a mistake
 * leaves behind: whatever touches it is poison too, silently, so that one mistake is reported once. */
#ifndef DT_FRONTENDS_DSL_OBJECT_H
#define DT_FRONTENDS_DSL_OBJECT_H

#include "abi/text.h"
#include "frontends/dsl/syntax.h"
#include "ir/graph.h"

/* X(enumerator, what messages call it) */
#define DT_OBJECTS(X)                                                                                                                                \
    X(POISON, "nothing")                                                                                                                             \
    X(NONE, "none")                                                                                                                                  \
    X(INT, "int")                                                                                                                                    \
    X(FLOAT, "float")                                                                                                                                \
    X(BOOL, "bool")                                                                                                                                  \
    X(STRING, "string")                                                                                                                              \
    X(CHOICE, "choice")        /* a value of an enum type: text */                                                                                   \
    X(LIST, "list")            /* items */                                                                                                           \
    X(TUPLE, "several values") /* items: what a call with several results gives */                                                                   \
    X(BATCH, "B")                                                                                                                                    \
    X(NEWAXIS, "newaxis")                                                                                                                            \
    X(DTYPE, "element type")                                                                                                                         \
    X(FUNCTION, "function")                                                                                                                          \
    X(TENSOR, "tensor")                                                                                                                              \
    X(VARIABLE, "variable") /* a parameter or state; as a value it is what the variable holds at this point */                                       \
    X(TREE, "tree")                                                                                                                                  \
    X(OPTIMIZER, "optimizer")                                                                                                                        \
    X(INSTANCE, "layer") /* Cnn.conv2d_1 */                                                                                                          \
    X(MODULE, "module")                                                                                                                              \
    X(PIPELINE, "data")                                                                                                                              \
    X(TEXT, "text") /* of an example, in a function of map or filter */

typedef enum dt_object_kind {
#define X(enumerator, name) DT_OBJECT_##enumerator,
    DT_OBJECTS(X)
#undef X
    DT_N_OBJECTS
} dt_object_kind;

typedef struct dt_items dt_items;
typedef struct dt_callee dt_callee;
typedef struct dt_tree dt_tree;
typedef struct dt_optimizer dt_optimizer;
typedef struct dt_instance dt_instance;
typedef struct dt_file dt_file;
typedef struct dt_text_value dt_text_value;

typedef struct dt_object {
    dt_object_kind kind;
    /* TENSOR: a scalar known when the session starts, or a count: its type gives way to its neighbour's, as a literal's does. */
    bool flexible;
    union {
        int64_t i;        /* INT; VARIABLE: index in module->variables */
        double f;         /* FLOAT */
        bool b;           /* BOOL */
        const char *text; /* STRING, CHOICE */
        const dt_items *items;
        dt_dtype dtype;
        const dt_callee *callee; /* FUNCTION */
        dt_value *value;         /* TENSOR */
        const dt_tree *tree;
        dt_optimizer *optimizer;
        dt_instance *instance;
        dt_file *file; /* MODULE; NULL: the op table, as `ops` */
        const dt_pipeline_declaration *pipeline;
        const dt_text_value *written_text; /* TEXT */
    };
} dt_object;

struct dt_items {
    size_t n;
    dt_object items[];
};

/* A text: a component of the example, or a function of another text. */
struct dt_text_value {
    int component;
    const char *name;        /* of the parameter that it began as */
    const dt_text_value *of; /* NULL: the component as it is */
    dt_text_kind function;
    dt_object arguments[DT_TEXT_MOST_ARGUMENTS]; /* INT and STRING */
};

/* A name bound to an object. Scopes are lists that only grow at the front, so a function captures its scope by keeping a pointer. */
typedef struct dt_binding dt_binding;
struct dt_binding {
    const char *name;
    dt_object object;
    dt_span span;     /* where it was bound */
    bool conditional; /* bound on one path only: using it is a mistake */
    bool unknown;     /* bound to nothing: using it was a mistake, and was reported */
    dt_binding *outer;
};

typedef struct dt_builtin dt_builtin;

/* What can be called. Exactly one of callable, builtin, op and constant says what it does. */
struct dt_callee {
    const char *name;
    dt_declaration_kind kind; /* FN for lambdas */
    bool is_lambda;
    const dt_callable *callable;
    dt_span span;
    dt_binding *scope; /* captured by a lambda */
    dt_file *file;     /* where its names are looked up */
    const dt_builtin *builtin;
    const dt_op *op;       /* a row of the op table; elementwise ones broadcast */
    dt_instance *instance; /* of a layer that `layer` has bound, with these arguments; NULL: none */
    const struct dt_actual *bound;
    size_t n_bound;
    dt_object constant; /* a schedule that is a number: the function that always gives it */
};

typedef struct dt_leaf {
    const char *path;
    int variable;
    dt_object object; /* TENSOR */
} dt_leaf;
struct dt_tree {
    size_t n;
    dt_leaf leaves[];
};

static inline dt_object dt_poison(void) { return (dt_object){.kind = DT_OBJECT_POISON}; }
static inline dt_object dt_object_none(void) { return (dt_object){.kind = DT_OBJECT_NONE}; }
static inline dt_object dt_object_int(int64_t i) { return (dt_object){.kind = DT_OBJECT_INT, .i = i}; }
static inline dt_object dt_object_float(double f) { return (dt_object){.kind = DT_OBJECT_FLOAT, .f = f}; }
static inline dt_object dt_object_bool(bool b) { return (dt_object){.kind = DT_OBJECT_BOOL, .b = b}; }
static inline dt_object dt_object_string(const char *text) { return (dt_object){.kind = DT_OBJECT_STRING, .text = text}; }
static inline dt_object dt_object_tensor(dt_value *value) { return (dt_object){.kind = DT_OBJECT_TENSOR, .value = value}; }
static inline bool dt_is_poison(dt_object o) { return o.kind == DT_OBJECT_POISON; }
static inline bool dt_is_number(dt_object o) { return o.kind == DT_OBJECT_INT || o.kind == DT_OBJECT_FLOAT; }
static inline double dt_object_number(dt_object o) { return o.kind == DT_OBJECT_INT ? (double)o.i : o.f; } /* of INT and FLOAT */
/* A dimension: an INT, or B for DT_BATCH. */
dt_object dt_object_dim(int64_t dim);

dt_object dt_object_items(dt_arena *arena, dt_object_kind kind, const dt_object *items, size_t n); /* LIST or TUPLE, copied */
bool dt_object_equal(dt_object a, dt_object b);                                                    /* of what has an equality at compile time */
/* For messages: "f32[B, 10]", "int 3", "string", "[32, 64]", … */
const char *dt_object_describe(dt_arena *arena, dt_object o);

dt_binding *dt_bind(dt_arena *arena, dt_binding *scope, const char *name, dt_object object, dt_span span);
dt_binding *dt_find_binding(dt_binding *scope, const char *name); /* NULL when there is none */

#endif
