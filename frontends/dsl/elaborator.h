/* elaborator: runs the compile time of a program and builds its graph. This header is shared by the elaborate_*.c files and nobody else.
 *
 *   elaborate.c             the program: files, top-level names, steps in order, the finished module
 *   elaborate_statement.c   bodies: binding, if, for, return
 *   elaborate_expression.c  names, fields, lists, conditionals, calls as written
 *   elaborate_arithmetic.c  operators on numbers, tensors and trees
 *   elaborate_tensor.c      the only place where values are made: broadcasting, literals, conversions, locations
 *   elaborate_index.c       x[…]
 *   elaborate_call.c        binding arguments to parameters, calling functions
 *   elaborate_type.c        types of parameters and results, shape variables
 *   elaborate_layer.c       instances of layers and models, their paths, parameters and states
 *   elaborate_site.c        which call binds which layer: places in the text, iterations, `layer` values
 *   elaborate_scan.c        scan: a body elaborated once, between the begin and the end of a loop
 *   elaborate_mixed.c       mixed precision: which values are of 16 bits
 *   elaborate_step.c        steps
 *   elaborate_report.c      reports: totals, and what is made of them
 *   elaborate_train.c       objective, grad, optimizers
 *   elaborate_data.c        pipelines
 *   elaborate_text.c        functions of text in pipelines
 *   elaborate_bounds.c      numbers out of a parameter's bounds
 *   elaborate_ranges.c      between which numbers a value lies
 *   elaborate_meaning.c     programs that probably mean something else
 *   elaborate_unread.c      names that nobody reads, and warnings that are not wanted
 *   builtins*.c             functions that cannot be written in the language
 *
 * Three stacks carry the work: C's own, bounded by `depth`; frames, one for each call of a function of the language; and visits, one for each layer
 * or model being unrolled. A failed part returns POISON after its diagnostic; nothing else signals failure.
 *
 * Elaboration goes on after a mistake, to find others, and what follows from it is silent. What touches POISON is poison; a function of the program
 * runs with poison arguments all the same, for its body may have mistakes of its own, and where a head says which type a value has, a stand-in of
 * that type takes its place (dt_stand_in). What is judged by something's absence (a step without effect, a parameter out of reach) is not judged
 * where poison was met on the way: n_poisoned counts it. */
#ifndef DT_FRONTENDS_DSL_ELABORATOR_H
#define DT_FRONTENDS_DSL_ELABORATOR_H

#include "frontends/dsl/dsl.h"
#include "frontends/dsl/object.h"
#include "ir/evaluate.h"

typedef struct dt_elaborator dt_elaborator;
typedef struct dt_scan dt_scan;

/* ---- files and top-level names ---- */
typedef struct dt_top {
    const dt_declaration *declaration;
    dt_object object;
    enum {
        DT_TOP_UNKNOWN,
        DT_TOP_BUSY,
        DT_TOP_KNOWN
    } state; /* const, option, data: worked out at first use */
} dt_top;

struct dt_file {
    const char *name; /* of the module: "nn" */
    int source;       /* in the diagnostics */
    int module_file;  /* in module->files, or -1: the library's values carry the line of the user's call instead */
    bool is_library;
    bool incomplete; /* names may be missing, for which a mistake is to blame that was reported: unknown ones are poison */
    dt_syntax *syntax;
    dt_top *tops;     /* [syntax->declarations.n] */
    dt_names by_name; /* positions in tops */
    DT_LIST(dt_file *) uses;
    bool uses_own; /* modules that are not the library's are among them */
};

/* ---- instances of layers and models ---- */

/* A point in the text of a layer or model, with the calls of functions and the iterations of `for` through which it was reached. */
typedef struct dt_site {
    dt_span span;
    const char *exact; /* equal for the same one in two unrollings */
    const char *text;  /* for messages: "line 7 (i = 3), called in line 12" */
    const char *place; /* without the loops: equal for all calls of one */
    const struct dt_actual *actuals;
    size_t n_actuals;
} dt_site;

struct dt_instance {
    const char *path;    /* "Cnn/conv2d_1" */
    const char *name;    /* "conv2d_1" */
    const char *kind;    /* "conv2d" */
    dt_instance *parent; /* NULL: a model */
    const dt_callable *callable;
    dt_span first_call; /* of a bound layer, until it is called: where it is bound */
    dt_site site;       /* of a layer: what binds it */
    bool is_bound;      /* by `layer`: it may be called any number of times */
    int first_within;   /* … the unrolling of its owner that has called it first */
    bool complete;      /* the first unrolling ended: later ones must not differ */
    bool broken;        /* it met a mistake: later ones are not compared */
    bool active;        /* being unrolled: a call of it from within is a circle */
    int layer;          /* in module->layers */
    DT_LIST(dt_instance *) children;
    DT_LIST(int) variables;        /* in module->variables */
    DT_LIST(dt_instance *) models; /* a model: the models it calls */
};

typedef struct dt_counter {
    const char *name;
    int n;
} dt_counter;
typedef DT_LIST(dt_counter) dt_counters;

/* One unrolling of an instance. */
typedef struct dt_visit dt_visit;
typedef struct dt_frame dt_frame;
struct dt_visit {
    dt_instance *instance;
    dt_span call;              /* the user's text */
    int serial, call_of_model; /* of this visit; of that of its model */
    bool first;
    size_t n_children, n_variables; /* met so far */
    dt_counters counters;           /* calls by kind, for numbering */
    int64_t n_poisoned;             /* when it began */
    const dt_frame *frame;
    const struct dt_unrolled_loop *loop; /* around the visit as a whole */
    const char *pending_name;            /* from `as`, for the call pending_call */
    const dt_expression *pending_call;
    dt_visit *outer;
};

/* ---- calls ---- */
typedef DT_LIST(dt_object) dt_object_list;

struct dt_frame {
    const dt_callee *callee; /* NULL: top level */
    dt_file *file;
    dt_binding *scope;
    dt_span call;    /* where in the caller's text */
    uint64_t stream; /* of random numbers: hash of the path of calls */
    int n_streams;
    dt_instance *owner;       /* whom param and state belong to */
    struct dt_update *update; /* within an optimizer */
    const char *binding;      /* the name that the statement at work binds, for `layer` values; NULL: none */
    int lists;                /* around this point, in that statement */
    dt_object_list *kept;     /* items of the comprehension at work */
    bool may_return, returned;
    dt_object result;
    dt_span result_span;
    dt_argument_list *named_results; /* a step's `return name: value` */
    dt_object *named_objects;
    dt_frame *caller;
};

/* ---- steps ---- */
typedef struct dt_variable_state { /* of a variable, within the function being built */
    dt_value *initial;             /* in the init function */
    dt_value *current;             /* what a read gives now; NULL: not read yet */
    bool written;                  /* current is not what the variable held at the start */
    bool detached;                 /* … and is no version yet: see dt_variable_read */
    DT_LIST(dt_value *) versions;  /* values that a forward pass has read, which gradients are taken at */
    bool trained;                  /* a parameter that an optimizer has written, or a state that was, in this function or another */
    bool follows;                  /* a parameter whose optimizer got others in place of gradients */
} dt_variable_state;

typedef struct dt_regularization {
    dt_instance *instance;
    int visit; /* which unrolling said so: another one of the same instance says nothing new */
    dt_object term;
    dt_span span;
    bool counted; /* some gradient was taken of it */
} dt_regularization;

typedef struct dt_paced { /* a schedule and what it gave in this step */
    const dt_callee *schedule;
    dt_object rate;
} dt_paced;

typedef struct dt_extent { /* per_row * B * B … */
    int64_t per_row;       /* the product of the constant dimensions */
    int n_batch;           /* how many dimensions are B */
} dt_extent;

typedef struct dt_counted {
    dt_extent extent;
    dt_object total;
} dt_counted;

typedef struct dt_summed {
    const dt_value *x;
    const int64_t *axes;
    int n_axes;
    bool keep;
    dt_object total;
} dt_summed;

typedef struct dt_target { /* what a call was given for a parameter of type target[…] */
    const dt_value *value;
    int first, limit; /* ids of the values that the call has made; limit -1: it has not ended */
} dt_target;

typedef struct dt_application {
    const dt_optimizer *optimizer;
    const dt_tree *tree;
} dt_application;

typedef struct dt_step_work {
    const dt_declaration *declaration;
    dt_function *function;
    dt_function *report; /* NULL until the first report */
    DT_LIST(dt_aggregate_kind) aggregates;
    DT_LIST(dt_value *) aggregate_values;
    DT_LIST(dt_value *) totals; /* the report function's input for each */
    DT_LIST(dt_counted) counts; /* counts and sums that are aggregates already: mean(x) twice is one of each */
    DT_LIST(dt_summed) sums;
    DT_LIST(const char *) frozen; /* paths */
    DT_LIST(dt_span) frozen_spans;
    DT_LIST(dt_regularization) regularizations;
    DT_LIST(dt_paced) paced;
    DT_LIST(dt_instance *) called; /* models, in order */
    DT_LIST(bool) weak;            /* by id of value: see elaborate_mixed.c */
    DT_LIST(dt_target) targets;    /* this and what follows: see elaborate_meaning.c */
    DT_LIST(const dt_value *) probabilities, logits, divided;
    DT_LIST(dt_application) applications;
    bool trains;
    dt_span applied;    /* the last call that updated parameters */
    int64_t n_poisoned; /* when it began */
} dt_step_work;

struct dt_optimizer {
    const dt_callee *callee;
    dt_frame *frame;  /* its arguments */
    const char *path; /* "adam_1" */
    int count;        /* variable; -1 until first applied */
};

typedef struct dt_update { /* what `state` means in an optimizer's update */
    dt_optimizer *optimizer;
    const dt_tree *tree; /* the gradients */
    const char *path;    /* of the parameter; NULL: outside update, where the optimizer's own states are */
    int variable;        /* the parameter, where there is a path */
    dt_value *when;      /* a bool: whether anything is written at all; NULL: always */
} dt_update;

typedef struct dt_example_input { /* of the function of map or filter */
    int component;
    const dt_text_value *text; /* the number of a text that it is; NULL: the component itself */
    dt_value *value;
} dt_example_input;

typedef struct dt_example_work { /* a function of map or filter that is being compiled */
    DT_LIST(dt_example_input) inputs;
    DT_LIST(dt_object) outputs; /* TENSOR and TEXT */
    bool has_text;              /* a parameter, at least */
} dt_example_work;

typedef struct dt_unrolled_loop { /* a `for` that is being unrolled */
    const dt_statement *statement;
    const dt_frame *frame; /* whose text it is in */
    size_t turn, n_turns;
    dt_object item; /* of this turn */
    const struct dt_unrolled_loop *outer;
} dt_unrolled_loop;

/* A formula of the op table, ready for numbers of these types. */
typedef struct dt_number_formula {
    const dt_op *op;
    dt_dtype dtypes[3];
    dt_evaluation *evaluation;
} dt_number_formula;

typedef struct dt_head {
    const char *name;
    const dt_callable *callable;
} dt_head;

struct dt_elaborator {
    dt_arena *arena;
    dt_diagnostics *diagnostics;
    dt_module *module;
    const char *folder; /* of the program */
    const dt_dsl_options *options;
    bool *define_used;       /* [options->n_defines] */
    dt_precision precision;  /* of products of f32 in steps */
    dt_dtype between_layers; /* F32; of mixed precision BF16 or F16 */
    DT_LIST(dt_file *) files;
    dt_file *program, *core; /* core: the part of the library that needs no `use` */

    dt_function *function; /* where values go; NULL: none may be made here */
    dt_value *before;      /* before that value of it; NULL: at its end */
    dt_scan *scan;         /* whose body is being elaborated, innermost */
    dt_function *init;
    dt_frame *frame;
    dt_visit *visit;
    dt_step_work *step;       /* NULL outside steps */
    dt_example_work *example; /* NULL outside functions of map and filter */
    bool training;
    bool recomputes_layers;               /* `option recompute: layers` */
    int recompute;                        /* of the call at work, the outermost one that gradients compute again; 0: they keep what they need */
    int n_recomputed;                     /* such calls */
    bool in_report;                       /* a report is being worked out: of values of the step and of totals */
    bool reporting;                       /* and not an aggregator's argument: mean, sum, … are aggregators */
    bool has_reduced_batch;               /* that argument reduces the batch */
    dt_span at;                           /* of the expression at work, in frame->file */
    DT_LIST(dt_variable_state) variables; /* as module->variables */
    DT_LIST(int) layer_parents;           /* of each row of module->layers, or -1 */
    DT_LIST(dt_instance *) models;
    DT_LIST(dt_instance *) bound;     /* layers that `layer` has bound */
    DT_LIST(const dt_callable *) run; /* of the program's functions: those that ran */
    dt_counters optimizers;           /* by kind, for numbering */
    int64_t largest_batch;
    int n_visits;
    DT_LIST(dt_callee *) without_text;          /* functions of the library that are no text of the language */
    dt_names without_text_by_name;              /* positions in it */
    DT_LIST(dt_head) heads;                     /* parameters of builtins, parsed at first use */
    DT_LIST(dt_number_formula) number_formulas; /* likewise */

    int depth;                    /* of C recursion */
    int n_uncertain;              /* conditions around this point of which a mistake keeps us from knowing whether they hold */
    int64_t n_poisoned;           /* errors, expressions that were poison and stand-ins so far */
    int64_t work;                 /* expressions evaluated so far: bounded, so that every program ends */
    const dt_unrolled_loop *loop; /* innermost; NULL: none */
    bool gave_up;                 /* it was too much */
};

enum {
    DT_MOST_DEPTH = 400,    /* of evaluation within evaluation */
    DT_MOST_ITEMS = 100000, /* of a list or a loop */
    DT_MOST_WORK = 2000000, /* expressions in one compilation */
    DT_MOST_VALUES = 65536  /* of one function: what passes take a minute for */
};
#define DT_MOST_ELEMENTS ((int64_t)1 << 40) /* of one tensor, for each row */
#define DT_MOST_LAUNCH ((int64_t)1 << 53)   /* of a launch value that is a whole number: what a double holds */

/* ---- diagnostics (elaborate.c) ----
 * A mistake found inside the library is shown where the user's text called it, with the library's line as a note. */
dt_diagnostic *dt_elaborator_error(dt_elaborator *e, dt_span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
dt_diagnostic *dt_elaborator_warning(dt_elaborator *e, dt_warning_kind warning, dt_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
dt_object dt_elaborator_fail(dt_elaborator *e, const char *format, ...) __attribute__((format(printf, 2, 3))); /* error at e->at; poison */
dt_span dt_elaborator_user_span(const dt_elaborator *e, dt_span span);                                         /* where the user's text is at work */
const char *dt_elaborator_place(const dt_elaborator *e, dt_span span);    /* "line 11", or "nn.dt, line 11" from elsewhere */
dt_location dt_elaborator_location(const dt_elaborator *e, dt_span span); /* the same in the module's terms */
void dt_elaborator_charge(dt_elaborator *e, size_t n_items);              /* for what is copied item by item */
bool dt_elaborator_tick(dt_elaborator *e);                                /* counts work; false when it is too much, reported */
bool dt_elaborator_enter(dt_elaborator *e);                               /* one level deeper; false when too deep, reported; pair with leave */
void dt_elaborator_leave(dt_elaborator *e);

bool dt_is_tainted(const dt_elaborator *e); /* something that the current step has met is poison */

/* ---- names (elaborate.c) ---- */
/* The object of a top-level name seen from `file`: its own, those of the program's modules that it uses, the library's. false: there is none. */
bool dt_find_top(dt_elaborator *e, dt_file *file, const char *name, dt_object *object);
bool dt_find_in_file(dt_elaborator *e, dt_file *file, const char *name, dt_object *object);  /* that file only, and not what is private to it */
bool dt_is_private(const dt_elaborator *e, dt_file *file, const char *name);                 /* it has the name, and does not show it here */
bool dt_find_constant(dt_elaborator *e, dt_file *file, const char *name, dt_object *object); /* that file's const or option */
dt_object dt_lookup(dt_elaborator *e, const char *name, dt_span span);                       /* reports an unknown name */
void dt_suggest_name(dt_elaborator *e, dt_diagnostic *diagnostic, const char *name);
/* What a parameter of Keras's, PyTorch's or NumPy's is called here; NULL: it is none. */
/* What to write for a name of Keras's, PyTorch's or NumPy's, a class's too; NULL: it is none. */
const char *dt_foreign_help(dt_elaborator *e, const char *name);
const char *dt_foreign_parameter(const char *name);
void dt_note_hidden(dt_elaborator *e, dt_diagnostic *error, const dt_callee *callee); /* that what was called hides a name of the library */

dt_object dt_launch_too_early(dt_elaborator *e, const char *name); /* POISON: a launch value at compile time, reported */

/* ---- statements ---- */
void dt_run_block(dt_elaborator *e, const dt_block *block);
bool dt_note_run(dt_elaborator *e, const dt_callee *callee);                           /* before its body runs; false: it has run before */
void dt_bind_name(dt_elaborator *e, const char *name, dt_object object, dt_span span); /* in the frame's scope; "_" binds nothing */

/* ---- expressions ---- */
dt_object dt_value_of(dt_elaborator *e, const dt_expression *expression);
bool dt_evaluate_bool(dt_elaborator *e, const dt_expression *expression, const char *what, bool *result); /* false: not one, reported */
dt_object dt_field_of(dt_elaborator *e, dt_object base, const char *name, dt_span span);
dt_object dt_conditions_tensor_error(dt_elaborator *e, dt_span span, dt_object condition, const char *what);

/* ---- arithmetic ---- */
dt_object dt_binary(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b);
dt_object dt_negate(dt_elaborator *e, dt_object a);
dt_object dt_not(dt_elaborator *e, dt_object a);
dt_object dt_elementwise(dt_elaborator *e, const dt_op *op, const dt_object *operands, size_t n); /* numbers, tensors: broadcasts */

/* ---- tensors ---- */
typedef struct dt_named_attribute {
    const char *name;
    dt_attribute value;
} dt_named_attribute;
/* Adds a value to e->function; attributes by name, the rest take their default. POISON with the row's sentence as diagnostic. */
dt_object dt_emit(dt_elaborator *e, const char *op, dt_value *const *operands, int n_operands, const dt_named_attribute *settings, size_t n_settings);
dt_object dt_emit_reduce(dt_elaborator *e, const char *op, dt_value *x, const int64_t *axes, int n_axes, bool keep);
dt_object dt_emit_reduce_all(dt_elaborator *e, const char *op, dt_value *x); /* over all axes */
dt_object dt_emit_convert(dt_elaborator *e, dt_value *x, dt_dtype to);
/* Filled with a literal (INT, FLOAT or BOOL) that the type holds; POISON: it does not, reported. */
dt_object dt_emit_constant(dt_elaborator *e, dt_dtype dtype, dt_object literal, dt_shape shape);
bool dt_literal_fits(dt_object literal, dt_dtype dtype); /* an int within limits, a float beside floats, a bool beside bools */
dt_attribute dt_literal_number(dt_object literal);       /* of INT, FLOAT and BOOL */
const char *dt_literal_misfit(dt_elaborator *e, dt_object literal, dt_dtype dtype); /* "300 does not fit in u8, which holds 0 to 255" */
dt_object dt_emit_launch(dt_elaborator *e, const char *field);                      /* i64 scalar */
/* How many there are, with `field`, valid or global_batch, for each B. An i64 scalar. */
dt_object dt_emit_elements(dt_elaborator *e, dt_extent extent, const char *field);
dt_object dt_emit_reshape(dt_elaborator *e, dt_value *x, dt_shape shape);
dt_object dt_emit_broadcast(dt_elaborator *e, dt_value *x, dt_shape shape); /* by NumPy's rule: must be possible */
dt_object dt_emit_unary(dt_elaborator *e, const char *op, dt_value *x);
dt_object dt_emit_binary(dt_elaborator *e, const char *op, dt_value *x, dt_value *y); /* equal types and shapes */
/* The elements of x. */
dt_object dt_emit_count(dt_elaborator *e, dt_value *x, const char *field);
bool dt_broadcast_shapes(dt_elaborator *e, dt_shape a, dt_shape b, dt_shape *result, const char *what); /* false: impossible, reported */
/* The object as a tensor of the current function: variables are read, numbers become constants of `standard` (or f32, i64, bool). */
dt_object dt_to_tensor(dt_elaborator *e, dt_object object, dt_dtype standard);
/* VARIABLE to TENSOR, everything else as it is. */
dt_object dt_settle(dt_elaborator *e, dt_object object);
/* A list of ints and B as a shape. `what` is for the message. */
bool dt_to_shape(dt_elaborator *e, dt_object object, const char *what, dt_shape *shape);
bool dt_shape_fits(dt_shape shape);                                       /* it has no more than DT_MOST_ELEMENTS */
bool dt_to_axis(dt_elaborator *e, dt_object object, int rank, int *axis); /* negative ones count from the end */
const char *dt_describe_shape(dt_elaborator *e, dt_shape shape);          /* "[B, 10]" */

dt_object dt_index_object(dt_elaborator *e, dt_object base, const dt_expression *index);
dt_object dt_gather(dt_elaborator *e, dt_value *x, dt_value *index, int axis);

/* ---- variables (elaborate_layer.c) ---- */
dt_object dt_variable_read(dt_elaborator *e, int variable);
void dt_variable_write(dt_elaborator *e, int variable, dt_object object, dt_span span);
/* A new variable with its initial value in the init function. */
int dt_variable_add(dt_elaborator *e, const char *path, dt_variable_kind kind, dt_object initial, bool trainable, dt_span span);
/* What `= expression` says a variable of that type begins with: a value of the init function; POISON: reported. */
dt_object dt_initial_value(dt_elaborator *e, const dt_expression *expression, const char *path, dt_dtype dtype, dt_shape shape);
void dt_variables_reset(dt_elaborator *e); /* before a function: nothing read, nothing written */
/* After all steps: a parameter that none of them trains is not trainable, whatever it was declared, if any step trains at all. Layers are told how
 * many are left. */
void dt_settle_trainable(dt_elaborator *e);

/* ---- calls ---- */
typedef struct dt_actual {
    const char *name; /* NULL: positional */
    dt_span span;
    dt_object object;
    const dt_expression *written; /* NULL when it comes from C */
} dt_actual;
typedef DT_LIST(dt_actual) dt_actuals;

dt_actuals dt_evaluate_arguments(dt_elaborator *e, const dt_object *callee, const dt_expression *call);
dt_object dt_evaluate_call(dt_elaborator *e, const dt_expression *call);
dt_object dt_call(dt_elaborator *e, dt_object callee, const dt_actual *actuals, size_t n, dt_span span);
dt_object dt_run_body(dt_elaborator *e, dt_frame *frame); /* of the callee, in the frame that holds its arguments; results are checked */
dt_object dt_call_with(dt_elaborator *e, dt_object callee, const dt_object *objects, size_t n); /* positional, from C */
/* Binds actuals to the callable's parameters in a new scope; types are checked. objects [n parameters] may be NULL. false: reported. */
bool dt_bind_arguments(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_frame *frame);
/* Whether the numbers among its arguments, which are bound in `frame`, are within the bounds of its head. matched[parameter]: an actual; -1: the
 * default. false: reported. */
bool dt_check_bounds(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, const int *matched, dt_frame *frame);
uint64_t dt_next_stream(dt_elaborator *e, const char *name); /* of random numbers, for the call about to happen */
bool dt_is_callable(dt_object object);
dt_object dt_to_schedule(dt_elaborator *e, dt_object object); /* a number becomes a function; POISON: it is neither, reported */
void dt_push_frame(dt_elaborator *e, dt_frame *frame);
void dt_pop_frame(dt_elaborator *e);

/* ---- types ---- */
/* Checks `object` against `type`, binds shape variables in the frame's scope, converts literals. false: it does not fit; *why says what
 * was found ("" when it was reported already). */
bool dt_fit_type(dt_elaborator *e, const dt_type_syntax *type, dt_object *object, const char **why);
/* What takes the place of an object that a mistake has made poison: a tensor of the declared type, where all of it is known, else POISON. */
dt_object dt_stand_in(dt_elaborator *e, const dt_type_syntax *type);
void dt_bind_unknown_dims(dt_elaborator *e, const dt_type_syntax *type); /* shape variables that nothing will bind now are poison */
const char *dt_declared_text(dt_elaborator *e, const dt_type_syntax *type);
/* Element type and dimensions of a fully stated type: step inputs, params. false: reported. */
bool dt_resolve_type(dt_elaborator *e, const dt_type_syntax *type, dt_dtype *dtype, dt_shape *shape);
bool dt_type_is_tensor(const dt_type_syntax *type);
void dt_help_with_type(dt_elaborator *e, dt_diagnostic *diagnostic, const dt_type_syntax *type, dt_object object, const dt_expression *written);

/* ---- mixed precision ---- */
bool dt_is_mixed(const dt_elaborator *e); /* whether what is emitted now follows the option */
/* Whether a value of `dtype` is taken where a head says `word`: f32. */
bool dt_stands_for(const dt_elaborator *e, dt_dtype dtype, const char *word);
/* What becomes of an argument or result of a layer, or of a model's result. */
dt_object dt_across_layers(dt_elaborator *e, dt_object object, bool of_model);
/* A narrow value for a variable, or a state of a scan, of `dtype`. */
dt_object dt_to_type_of_variable(dt_elaborator *e, dt_object object, dt_dtype dtype);
/* Gives operands of an op that share a word of its signature one type. NULL: not a tensor. false: reported. */
bool dt_mix(dt_elaborator *e, const dt_op *op, dt_value **operands, int n);
void dt_mark_weak(dt_elaborator *e, const dt_value *value);
void dt_mark_if_weak(dt_elaborator *e, const dt_value *value); /* of a value that was emitted just now */
/* minimize of mixed_f16: gradients of the scaled loss, and an update where they are finite. */
dt_object dt_scaled_update(dt_elaborator *e, dt_object total, dt_object optimizer, dt_object over);

/* ---- scan ---- */
dt_object dt_elaborate_scan(dt_elaborator *e, const dt_object *arguments);
bool dt_is_in_scan(const dt_elaborator *e); /* whether what is emitted now is of a body */
/* dt_emit, but before all loops around this point: for what is remembered and used elsewhere too. Its operands stand there as well. */
dt_object dt_emit_outside(dt_elaborator *e, const char *op, dt_value *const *operands, int n_operands, const dt_named_attribute *settings,
                          size_t n_settings);
/* A row of class RANDOM, its attributes in row order: other numbers in each iteration. */
dt_object dt_emit_random(dt_elaborator *e, const dt_op *op, const dt_attribute *attributes);
/* "a state is written" cannot be done in a body: true, reported. */
bool dt_refuse_in_scan(dt_elaborator *e, dt_span span, const char *what);

/* ---- layers and models ---- */
dt_object dt_call_layer(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span, const dt_expression *written);
void dt_declare_variable(dt_elaborator *e, const dt_statement *statement);                            /* param and state */
void dt_write_statement(dt_elaborator *e, const dt_statement *statement);                             /* name := value */
int dt_add_layer_row(dt_elaborator *e, const char *path, const char *kind, int parent, dt_span span); /* in module->layers; -1: below none */
dt_object dt_evaluate_as(dt_elaborator *e, const dt_expression *expression);
dt_object dt_instance_field(dt_elaborator *e, dt_object base, const char *name, dt_span span);
dt_instance *dt_find_model(const dt_elaborator *e, const dt_callable *callable); /* NULL: not called yet */
dt_object dt_freeze(dt_elaborator *e, const dt_expression *call);
bool dt_frozen_exists(const dt_elaborator *e, const char *path); /* whether anything has that path */
bool dt_is_frozen(const dt_elaborator *e, const char *path);
int dt_count_up(dt_elaborator *e, dt_counters *counters, const char *name); /* 0 at the first call */
/* The instance of the layer or model at work that a call, or a `layer` value, owns; NULL: reported. written: NULL when it comes from C. */
dt_instance *dt_child_instance(dt_elaborator *e, const dt_callee *callee, dt_site site, const dt_expression *written);
const char *dt_numbered(dt_elaborator *e, const char *name, int n); /* name, name_1, … */
/* A later call of a model, or of a bound layer, that does not meet what the first one met. */
void dt_report_difference(dt_elaborator *e, const char *difference);
/* ---- sites (elaborate_site.c) ---- */
/* Of a call with these arguments, within the unrolling at work. */
dt_site dt_site_of(dt_elaborator *e, dt_span span, const struct dt_actual *actuals, size_t n);
const char *dt_name_of_child(dt_elaborator *e, const dt_callee *callee, const dt_expression *written);
bool dt_same_site(dt_elaborator *e, dt_instance *child, dt_site site);            /* that has bound it; false: it is another, reported */
const dt_visit *dt_shared_visit(const dt_elaborator *e);                          /* of what was called before, and must be the same again */
dt_object dt_evaluate_layer(dt_elaborator *e, const dt_expression *expression);   /* layer f(…) */
dt_instance *dt_bound_instance(dt_elaborator *e, const dt_callee *c, dt_span at); /* that may be called here; NULL: reported */
void dt_warn_of_uncalled_layers(dt_elaborator *e);

/* After a call of a library's function, which has made the values from number `first` on. */
void dt_record_function_layer(dt_elaborator *e, const dt_callee *callee, int first, dt_object result, dt_span span);

/* ---- steps ---- */
void dt_elaborate_step(dt_elaborator *e, const dt_declaration *declaration);
void dt_elaborate_uncalled(dt_elaborator *e, dt_object function); /* alone, on stand-ins of what its head declares, for its mistakes */
void dt_finish_writes(dt_elaborator *e);                          /* what the function wrote, at its end */

/* ---- reports ---- */
void dt_run_report(dt_elaborator *e, const dt_statement *statement);
bool dt_is_in_report(const dt_elaborator *e); /* whether what is emitted now is of a report statement: of the step, or of totals */
/* Whether a value may be used in the report statement that is being worked out: it is the step's, or made of totals. */
bool dt_report_holds(const dt_elaborator *e, const dt_value *value);
/* In a report statement: the function that a value of these operands goes to; constants among them are replaced by their like there. NULL: reported.
 */
dt_function *dt_report_place(dt_elaborator *e, const dt_op *op, dt_value **operands, int n, const dt_named_attribute *settings, size_t n_settings);
/* Whether these can be operands of one value in a report: none of them is an example's beside a total. false: reported. */
bool dt_report_meets(dt_elaborator *e, const dt_object *operands, size_t n);
/* Whether mean(x), sum(x), … run over the epoch here: not in an aggregator's argument, and not of totals. */
bool dt_aggregates_here(const dt_elaborator *e, dt_object x);
typedef struct dt_aggregator { /* mean(x, axis: 0, weight: w) */
    dt_object x, axis, axes, weight;
    bool keep;
} dt_aggregator;
/* kind: mean, sum, min, max, last or count. NONE: it leaves the batch, and so is no aggregator. */
dt_object dt_aggregate(dt_elaborator *e, const char *kind, const dt_aggregator *a);
bool dt_is_of_batch(const dt_elaborator *e, dt_object x); /* a tensor of the step that a batch as a whole gives, not each example */

/* ---- training ---- */
bool dt_declaration_trains(dt_elaborator *e, const dt_declaration *step); /* does it call minimize or apply, itself or through a fn? */
void dt_regularize(dt_elaborator *e, dt_object term);
dt_object dt_broadcast_weight(dt_elaborator *e, dt_object weight, dt_value *x); /* to the shape of x, of which it is a leading part, and its type */
dt_object dt_objective(dt_elaborator *e, dt_object loss, dt_object weight, const char *normalize, dt_object over);
dt_object dt_gradients(dt_elaborator *e, dt_object scalar, dt_object over);
/* By id, what the gradient of `y` flows into; past_targets: but not where it is a call's target. */
bool *dt_reached_from(dt_elaborator *e, dt_value *y, bool past_targets);
dt_object dt_minimize(dt_elaborator *e, dt_object loss, dt_object optimizer, dt_object over, dt_object weight, const char *normalize);
dt_object dt_apply(dt_elaborator *e, dt_object optimizer, dt_object tree, dt_object when);
/* What is written in an optimizer: the old value where the update does not happen. */
dt_object dt_only_when(dt_elaborator *e, const dt_update *update, int variable, dt_object object);
dt_object dt_params(dt_elaborator *e, dt_object model, bool only);
/* What params would give, as variables: of a model, a list of models, all that the step has called (NONE), or a tree. false: reported. */
typedef DT_LIST(int) dt_variable_list;
bool dt_collect_params(dt_elaborator *e, dt_object over, bool only, dt_variable_list *variables);
void dt_instance_params(dt_elaborator *e, const dt_instance *instance, dt_variable_list *variables); /* of a layer or model, and all that it calls */
void dt_check_regularizations(dt_elaborator *e); /* at the end of a step: none may be left out of the gradients that train its parameters */
dt_object dt_make_optimizer(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span);
void dt_run_optimizer(dt_elaborator *e, dt_object optimizer); /* its update, of one parameter that is made up */
void dt_run_update(dt_elaborator *e, const dt_statement *statement);
void dt_declare_slot(dt_elaborator *e, const dt_statement *statement);
dt_object dt_tree_map(dt_elaborator *e, dt_object function, const dt_object *trees, size_t n);
dt_object dt_tree_binary(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b);

/* ---- data ---- */
dt_object dt_zip_sources(dt_elaborator *e, const dt_pipeline_declaration *a, const dt_pipeline_declaration *b);
dt_object dt_evaluate_pipe(dt_elaborator *e, const dt_expression *expression);
const char *dt_list_sources(dt_elaborator *e); /* "idx, npy, csv" */
/* `fit: crop` of a source: the choice, or poison; none where the argument takes no choice. */
dt_object dt_source_choice(dt_elaborator *e, const char *source, const dt_argument *argument);
dt_object dt_make_source(dt_elaborator *e, const char *kind, const dt_actual *actuals, size_t n, dt_span span);
void dt_elaborate_data(dt_elaborator *e, const dt_declaration *declaration, const dt_pipeline_declaration *pipeline);

dt_object dt_text_component(dt_elaborator *e, const char *name, int component); /* as the function's parameter `name` */
/* arguments: the text and what the row takes besides. POISON: reported. */
dt_object dt_apply_text_function(dt_elaborator *e, dt_text_kind kind, const dt_object *arguments);
void dt_example_add_input(dt_elaborator *e, int component, const dt_text_value *text, dt_value *value);
void dt_write_operands(dt_elaborator *e, dt_stage_declaration *stage); /* e->example, as arguments of the stage (abi/text.h) */
bool dt_pipeline_may_give_text(const dt_pipeline_declaration *pipeline, int component);

/* ---- warnings ---- */
/* The element type of a head's word that says what numbers mean, `logits`, `probability` and `target`: float. Other words as they are. */
const char *dt_word_that_holds(const char *word);
void dt_note_arguments(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, const int *matched, const dt_frame *frame);
void dt_note_result(dt_elaborator *e, const dt_type_syntax *type, dt_object result);
void dt_note_end(dt_elaborator *e, size_t n_targets); /* of a call, before which there were so many targets */
void dt_note_division(dt_elaborator *e, const dt_expression *x, dt_object result);
void dt_note_wrapping(dt_elaborator *e, const dt_expression *x, dt_object a, dt_object b, dt_object result);
void dt_note_application(dt_elaborator *e, const dt_optimizer *optimizer, const dt_tree *tree);
bool dt_is_target_of(const dt_elaborator *e, const dt_value *operand,
                     const dt_value *user);                                /* it is given as a target to the call that made `user` */
void dt_check_targets(dt_elaborator *e, dt_object scalar, dt_object over); /* of minimize that was not told what to train */
void dt_check_divided(dt_elaborator *e, dt_value *value);                  /* what is minimized, or a gradient */
void dt_check_comparisons(dt_elaborator *e);                               /* of a whole step */
void dt_check_states(dt_elaborator *e);                                    /* of the whole program */

typedef enum dt_range_kind {
    DT_RANGE_OTHER,
    DT_RANGE_NEUTRAL, /* a parameter or a number */
    DT_RANGE_LINEAR   /* sums of products with parameters: any number, as logits are */
} dt_range_kind;
typedef struct dt_value_range {
    double low, high;
    dt_range_kind kind;
} dt_value_range;
dt_value_range dt_find_range(dt_elaborator *e, const dt_value *value);
bool dt_is_probability(dt_value_range range);

void dt_finish_warnings(dt_elaborator *e); /* of the program as a whole, which has no mistakes */

/* ---- builtins ---- */
typedef dt_object dt_builtin_function(dt_elaborator *e, const dt_object *arguments);
struct dt_builtin {
    const char *name;
    const char *parameters; /* as in a fn's head: "(x, axis = none)"; NULL: a source of data, which takes anything */
    dt_builtin_function *function;
    bool aggregates; /* in a report it is an aggregator: its arguments belong to the step */
};
/* The axes that `axis: 1` or `axes: [1, 2]` names, in order; all of them where both are NONE. false: reported. */
bool dt_resolve_axes(dt_elaborator *e, dt_object axis, dt_object axes, dt_shape shape, const int64_t **resolved, int *n);
dt_extent dt_extent_of(dt_shape shape, const int64_t *axes, int n); /* those that a reduction over these axes takes together */
/* Each ends with a row without name. */
extern const dt_builtin dt_builtins_general[], dt_builtins_tensor[], dt_builtins_einsum[], dt_builtins_training[];
const dt_builtin *dt_builtin_at(size_t i);                                                                         /* NULL after the last one */
dt_object dt_number_function(dt_elaborator *e, const dt_op *op, const dt_object *operands, size_t n, bool *known); /* exp(2.0), … at compile time */
dt_object dt_reduce_items(dt_elaborator *e, const char *name, dt_object list); /* sum, product, max, min of a list of numbers */

#endif
