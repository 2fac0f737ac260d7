/* dtc: the compiler of .dt programs as a library: a program's text in, an artifact out, which dtrt.h opens and `dtrun` runs.
 *
 *     dtc_program program = {.size = sizeof program, .path = "m.dt"};
 *     dt_status *status = dtc_compile(&program, NULL, NULL);          // writes m.dtx
 *     if (status != NULL) fprintf(stderr, "%s\n", status->message);   // every mistake, with its line
 *     dtc_status_free(status);
 *
 * Threads. Calls are independent of each other: any number of threads may compile at once. A call starts threads of its own, and has joined
 * them when it returns; callbacks run on the thread that called. The library has no state but LLVM's registry of targets, which the first call
 * that generates code fills, once.
 *
 * Memory. Every allocation of ours that fails makes the call fail with DT_RESOURCE_EXHAUSTED, and nothing stays allocated. LLVM, within a call that
 * generates code, is different: it ends the process (abort) where it gets no memory.
 *
 * Files. A call reads the program, the modules that it uses and, for GPUs, a cache of code in $XDG_CACHE_HOME/dtc or ~/.cache/dtc; it writes what
 * it is told to write, and that cache. A file that is written appears whole or not at all. No call starts a process but dtc_graph, for a picture.
 *
 * dt_status.h says how errors, options and callbacks work. */
#ifndef DTC_H
#define DTC_H

#include "dt_status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "dtc 0.1.0", as artifacts record it. */
DT_API const char *dtc_version(void);

/* NULL is allowed in both. */
DT_API void dtc_status_free(dt_status *status);
DT_API void dtc_free(void *memory); /* what a call gave as bytes, or as a string */

/* A status as a line of JSON, with the fields of a finding (dtc_diagnostic), for whoever reads those; the caller frees it with dtc_free. NULL: out of
 * memory. */
DT_API char *dtc_status_json(const dt_status *status);

/* ---- the program ---- */

typedef enum dtc_severity {
    DTC_ERROR,
    DTC_WARNING,
    DTC_REPORT /* no finding, but what the caller asked for to be told: a dump, the time of each pass */
} dtc_severity;

typedef struct dtc_remark {
    int is_help;      /* it says what to do; otherwise it is a note, which explains */
    const char *text; /* a sentence */
} dtc_remark;

/* One finding. All of it is borrowed until the callback returns. */
typedef struct dtc_diagnostic {
    dtc_severity severity;
    int line, column, length; /* in `file`, from 1, columns and length in bytes; line 0: no place; length 0: only its beginning is known */
    const char *file;         /* as it was named; "" where there is no place */
    const char *message;      /* a sentence */
    const dtc_remark *remarks;
    size_t n_remarks;
    const char *text; /* all of it as a terminal shows it: the line of the program, carets below it, remarks; ends with a line feed */
    const char *json; /* all of it as a line of JSON, which ends with a line feed: docs/language.md has its fields */
    const char *name; /* of a warning: "never-read", and docs/language.md lists them all; "" of what is none */
} dtc_diagnostic;

/* Told of each finding, in the order of the text. Not 0: stop. */
typedef int (*dtc_diagnostic_function)(void *context, const dtc_diagnostic *diagnostic);

/* Gives the text of the module `name` that a program says `use` of: sets *text, which must last until the callback's next call or the end of
 * dtc_...(), or leaves it NULL: then the folder is looked in. The modules of the standard library are not asked for. Not 0: stop. */
typedef int (*dtc_module_function)(void *context, const char *name, const char **text);

/* A value for an `option` of the program: -D name=value. */
typedef struct dtc_define {
    const char *name;
    const char *value; /* an expression of the language: "64", "\"relu\"", "[3, 3]" */
} dtc_define;

/* What to compile. */
typedef struct dtc_program {
    size_t size;        /* sizeof(dtc_program) */
    const char *path;   /* file of the program; with `source`, what messages and the artifact call it. FILE.ir: a graph in text form */
    const char *source; /* its text; NULL: what the file holds */
    const char *folder; /* where the modules that it uses lie; NULL: that of `path` */
    const dtc_define *defines;
    size_t n_defines;
    int64_t batch;                      /* rows of a replica that memory is planned for; 0: the largest batch(n) of the program */
    const char *precision;              /* "f32", "tf32", "bf16", "mixed_bf16", "mixed_f16"; NULL: what the program says, or f32 */
    dtc_diagnostic_function diagnostic; /* NULL: the status of a program with mistakes holds the text of them all */
    dtc_module_function module;         /* NULL: the folder only */
    void *context;                      /* given to both */
} dtc_program;

/* Bytes for the caller, who frees `data` with dtc_free. A 0 that is not counted follows them. */
typedef struct dtc_bytes {
    char *data;
    size_t n_bytes;
} dtc_bytes;

/* ---- compile ---- */

typedef struct dtc_compile_options {
    size_t size;          /* sizeof(dtc_compile_options) */
    const char *output;   /* file to write; NULL: none, or if there is no place for bytes either, the program's path with .dtx */
    const char *target;   /* "cpu" or NULL; "cuda", which is beside cpu; "cuda:sm_90,compute_90" */
    const char *cpu;      /* instruction sets: "x86-64-v3,x86-64-v4" or NULL; "native" */
    const char *optimize; /* what not to do: "no-fuse,no-tile"; NULL: leave nothing out */
    const char *emit; /* a stage as text instead of the artifact: "ir", "opt-ir", "kernels", "plan", "llvm", "asm", "c", "cuda"; or code, "object";
                         or "onnx": a step as an ONNX model, and its text, "onnx-text" */
    const char *dump_after; /* a pass, or "all": what the program is after it is told as a DTC_REPORT */
    int time_passes;        /* not 0: where the time went is told as a DTC_REPORT */
    const char *depfile;    /* file to write: the output and the files that it was made of, as a rule for make and ninja; NULL: none */
    const char *step;       /* of "onnx": which one, that updates nothing; NULL: "predict", or the only one that does not train */
    const char *weights;    /* of "onnx": a checkpoint, or a safetensors file; NULL, of "onnx-text" alone: without */
    int profile;            /* not 0: the code for CPUs measures itself, for `dtrun bench`, which then says where time goes within kernels */
} dtc_compile_options;

/* Whether the options make sense together, without reading the program: what dtc_compile refuses first. */
DT_API dt_status *dtc_check_options(const dtc_program *program, const dtc_compile_options *options);

/* Compiles a program.
 *
 * program  or plans in text form, as `emit` "kernels" gives them, if the name of the file ends in .plan: for `emit` "kernels", "plan", "llvm", "asm",
 *          "c" or "object" alone, or of plans for GPUs "kernels", "plan" or "cuda"
 * options  NULL: an artifact for CPUs.
 * bytes    the artifact, or the stage; NULL: only the file is wanted. Zeros after an error.
 * Returns  DT_INVALID_ARGUMENT for a program with mistakes: its place is the first one's; so is a step with what ONNX has no operator for.
 *          DT_FAILED_PRECONDITION for weights of another model. */
DT_API dt_status *dtc_compile(const dtc_program *program, const dtc_compile_options *options, dtc_bytes *bytes);

/* ---- format ---- */

typedef struct dtc_format_options {
    size_t size;        /* sizeof(dtc_format_options) */
    const char *output; /* file to write, which may be the program's; NULL: none */
} dtc_format_options;

/* Formats a program: indentation, blanks and blank lines; lines stay as they are broken, and comments as they are. It means what it meant, and is
 * formatted to itself. Modules that it uses are not read.
 *
 * options  may be NULL.
 * bytes    the text; NULL: only the file is wanted. Zeros after an error.
 * Returns  DT_INVALID_ARGUMENT for a program with mistakes in its grammar, which nothing is written of. */
DT_API dt_status *dtc_format(const dtc_program *program, const dtc_format_options *options, dtc_bytes *bytes);

/* ---- summary ---- */

typedef struct dtc_layer {
    const char *path, *kind; /* "Cnn/conv2d_1", "conv2d" */
    const char *output;      /* type of its first result: "f32[B, 10]" */
    int depth;               /* 0 for a model */
    int64_t n_parameters;    /* its own, not those of layers within it */
    int64_t n_trainable;     /* of these */
} dtc_layer;

typedef struct dtc_variable {
    const char *path, *kind; /* kind: "parameter", "state", "slot" of an optimizer, "launch": a launch value */
    const char *type;        /* "f32[3, 3, 64, 128]" */
    int trainable;
    int64_t n_elements, n_bytes;
} dtc_variable;

typedef struct dtc_step {
    const char *name;
    const char *data; /* its pipeline; NULL: none */
    int n_kernels;
    double flops_per_row, flops_per_pair, flops_per_step; /* arithmetic as written: for each example, each pair of examples, and whatever the batch */
} dtc_step;

/* In one piece of memory, with all that it points to. */
typedef struct dtc_summary {
    const char *name;
    const char *text;               /* what `dtc summary` prints: all of this, memory, and what crosses replicas */
    const dtc_layer *const *layers; /* in the order of the program, a layer before those within it */
    size_t n_layers;
    const dtc_variable *const *variables;
    size_t n_variables;
    const dtc_step *const *steps;
    size_t n_steps;
} dtc_summary;

/* What a program is, before anything runs: layers, parameters, arithmetic, memory. It generates no code. */
DT_API dt_status *dtc_summarize(const dtc_program *program, dtc_summary **summary);
DT_API void dtc_summary_free(dtc_summary *summary); /* NULL is allowed */

/* ---- graph ---- */

typedef struct dtc_graph_options {
    size_t size;        /* sizeof(dtc_graph_options) */
    const char *step;   /* NULL: train, or else the first */
    int n_levels;       /* how many levels of layers are shown: 1: models alone; 0: all */
    const char *format; /* "dot" or NULL: text for Graphviz; "svg", "pdf" or "png", which Graphviz draws: its program dot has to be installed */
    const char *output; /* file to write; NULL: none */
} dtc_graph_options;

/* Draws what a step computes: layers as boxes, shapes at the arrows between them, and what crosses replicas.
 *
 * options  NULL: text for Graphviz, of the step train.
 * bytes    the text or the picture; NULL: only the file is wanted. Zeros after an error.
 * Returns  DT_NOT_FOUND: there is no such step, or no dot, which the call starts for a picture and waits for. */
DT_API dt_status *dtc_graph(const dtc_program *program, const dtc_graph_options *options, dtc_bytes *bytes);

/* ---- check ---- */

typedef enum dtc_check_kind {
    DTC_CHECK_PROGRAM,   /* types and shapes agree */
    DTC_CHECK_GRADIENTS, /* each gradient of a step, against slopes */
    DTC_CHECK_REPLICAS,  /* a step on three replicas, against the step as it is written */
    DTC_CHECK_PASSES,    /* a step after all passes, in its own types, against the step as it is written */
    DTC_CHECK_BATCH      /* means over a batch of which each row is there twice, and results of one in another order */
} dtc_check_kind;

typedef enum dtc_verdict {
    DTC_HOLDS,
    DTC_WRONG,  /* a mistake of the compiler, for no program makes that happen; or of a graph changed by hand */
    DTC_UNKNOWN /* `text` says why: the data that was made up has no slope there, the step stops gradients in a scan, it is too large */
} dtc_verdict;

/* What one check found. All of it is borrowed until the callback returns. */
typedef struct dtc_finding {
    dtc_check_kind kind;
    dtc_verdict verdict;
    const char *step;  /* NULL: of the whole program */
    int n_compared;    /* gradients, or results and variables */
    double difference; /* the largest, as a share of what is compared */
    const char *where; /* of what does not hold: a variable's path or a result's name; NULL */
    const char *file;  /* of its line; "" where there is none */
    int line;          /* from 1; 0: none */
    const char *text;  /* all of it as `dtc check` prints it: a line, with its line feed */
} dtc_finding;

/* Told of each finding, in the order of the program; and from time to time how much is done, 0 to 1. Not 0: stop. */
typedef int (*dtc_finding_function)(void *context, const dtc_finding *finding);
typedef int (*dtc_progress_function)(void *context, double done);

typedef struct dtc_check_program_options {
    size_t size;                    /* sizeof(dtc_check_program_options) */
    const char *step;               /* only this one; NULL: each */
    int64_t rows;                   /* for each replica, up to 1024; 0: 2, and of large steps 1 */
    dtc_finding_function finding;   /* may be NULL */
    dtc_progress_function progress; /* may be NULL */
    void *context;                  /* given to both */
} dtc_check_program_options;

typedef struct dtc_check_result {
    size_t size; /* sizeof(dtc_check_result) */
    int n_held, n_wrong, n_unknown;
} dtc_check_result;

/* Checks a program: its types and shapes, by elaborating it; its gradients against slopes, each step on three replicas and after all passes against
 * the step as it is written, and what doubled or reordered rows make of it, by running it in an interpreter on data that is made up.
 *
 * options  NULL: all steps.
 * result   how many checks found what; may be NULL. Zeros after an error.
 * Returns  NULL though something is wrong: that is a result. DT_INVALID_ARGUMENT for a program with mistakes, DT_NOT_FOUND: there is no such step. */
DT_API dt_status *dtc_check_program(const dtc_program *program, const dtc_check_program_options *options, dtc_check_result *result);

/* ---- passes ---- */

/* Of the i-th pass, in the order in which a compilation runs them; NULL past the last. One that runs twice is there twice. */
DT_API const char *dtc_pass_name(int i);

typedef struct dtc_pass_options {
    size_t size;        /* sizeof(dtc_pass_options) */
    const char *pass;   /* its name; NULL: none, the graph is read and written */
    const char *output; /* file to write; NULL: none */
} dtc_pass_options;

/* Runs one pass on a graph in text form, as `emit` "ir" of dtc_compile gives it, and before it only what it cannot do without; or on plans, as
 * `dump_after` gives them, if it needs nothing else.
 *
 * program  the graph, whatever the name of its file; plans, if that ends in .plan
 * bytes    the graph after the pass, or the plans that the pass works on; NULL: only the file is wanted. Zeros after an error.
 * Returns  DT_INVALID_ARGUMENT: this is no graph, or not one for this pass; DT_NOT_FOUND: there is no such pass. */
DT_API dt_status *dtc_run_pass(const dtc_program *program, const dtc_pass_options *options, dtc_bytes *bytes);

/* ---- plans ---- */

typedef struct dtc_run_options {
    size_t size;               /* sizeof(dtc_run_options) */
    const char *plan;          /* its name: "train"; NULL: the only one of the file */
    const char *const *inputs; /* [n_inputs] files, .npy: one for each of its inputs, in order, of as many rows as the microbatch is to have */
    size_t n_inputs;
    const dtc_define *variables; /* [n_variables] a variable's name, and the .npy file that says what it is before; others are zeros */
    size_t n_variables;
    int64_t seed, counter; /* of random numbers; of the step */
    const char *output;    /* folder, made if there is none: each result, and each variable that was written, is NAME.npy there, with . for / */
} dtc_run_options;

/* Runs one microbatch through a plan in text form, as `emit` "kernels" of dtc_compile gives it, one element at a time: the bits that code made of the
 * plan has to leave. It is slow.
 *
 * program  the plans; the name of the file ends in .plan
 * Returns  DT_INVALID_ARGUMENT: the file is no plan, or the inputs are not those of the plan; DT_NOT_FOUND: no such plan, variable or file;
 *          DT_DATA_LOSS: an input is no .npy file */
DT_API dt_status *dtc_run_plan(const dtc_program *program, const dtc_run_options *options);

/* ---- operations ---- */

/* An operation that programs are made of. What it does not have is "". */
typedef struct dtc_operation {
    const char *name, *kind;      /* "log1p", "map" */
    const char *signature;        /* "log1p(x: float)" */
    const char *description;      /* a sentence */
    const char *formula;          /* what it means, for an element */
    const char *gradient, *numpy; /* for each operand; an equivalent of NumPy's */
    const char *accuracy;         /* of the kernels that compute it */
    const char *text;             /* what `dtc ops NAME` prints: all of this */
    const char *conformance;      /* what `dtc ops --conformance NAME` prints */
} dtc_operation;

/* In one piece of memory, with all that it points to. */
typedef struct dtc_operations {
    const char *text; /* what `dtc ops` prints: all of them, by kind */
    const dtc_operation *const *operations;
    size_t n_operations;
    const char *conformance; /* what `dtc ops --conformance` prints: of each operation and element type what tests show to hold */
} dtc_operations;

/* The table of operations. */
DT_API dt_status *dtc_list_operations(dtc_operations **operations);
DT_API void dtc_operations_free(dtc_operations *operations); /* NULL is allowed */

/* ---- pack ---- */

/* Puts weights into an artifact, in place of those that it has: sessions then begin with them (dtrt_initialize, dtrun).
 *
 * weights  a safetensors file that has each parameter and state of the program by its path, or a checkpoint, of which it is model.safetensors
 * output   the file to write; NULL: the artifact itself
 * Returns  DT_NOT_FOUND, DT_DATA_LOSS for damaged files, DT_FAILED_PRECONDITION for weights of another model. */
DT_API dt_status *dtc_pack(const char *artifact, const char *weights, const char *output);

#ifdef __cplusplus
}
#endif
#endif
