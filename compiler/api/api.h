/* api: what the calls of libdtc (include/dtc.h) share: how a call gets from the caller's structs to a module, and from findings to the caller.
 *
 *   program.c   a call: its arena, its stack, its program's text and module; errors of the program
 *   report.c    what is told on the caller's thread, and given to the caller: bytes, files, structs
 *   compile.c   dtc_compile
 *   summary.c   dtc_summarize
 *   graph.c     dtc_graph
 *   check.c     dtc_check_program
 *   pass.c      dtc_run_pass
 *   run.c       dtc_run_plan
 *   format.c    dtc_format
 *   json.c      a finding as JSON
 *   operations.c  dtc_list_operations
 *   conformance.c  what tests show of each operation, as a table
 *   pack.c      dtc_pack
 *   cuda.c      what a compilation does for GPUs */
#ifndef DT_API_API_H
#define DT_API_API_H

#include "base/arena.h"
#include "base/text.h"
#include "base/thread.h"
#include "compiler/kernel/compilation.h"
#include "compiler/kernel/plan_text.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "include/dtc.h"

/* One call of the library. What is not in the arena belongs into the call, or into what `context` points to, for `work` may be left at any
 * allocation. */
typedef struct dt_api_call dt_api_call;
typedef dt_status *(*dt_api_work)(dt_api_call *call, void *context);
struct dt_api_call {
    dt_arena *arena;
    dt_caller *caller;
    dtc_program program;    /* complete: with the name that messages give it */
    const char *source;     /* the text, once loaded */
    char *file_text;        /* of the file, where it is read from there; freed with the call */
    dt_dsl_sources sources; /* what the program was made of, once elaborated */
    bool is_stopped;        /* by a callback: nothing more is told */
};

/* Runs `work` in an arena of its own, on a stack on which programs may nest deep; memory that is out becomes an error. */
dt_status *dt_api_run(const dtc_program *program, dt_api_work work, void *context);

/* Runs `work` with an arena of its own, for threads that a call starts. `out_of_memory`: what is said when memory is. */
dt_status *dt_api_in_arena(const char *out_of_memory, dt_status *(*work)(dt_arena *arena, void *context), void *context);

/* Whether the program's options make sense, before anything is read. */
dt_status *dt_api_check_program(const dtc_program *program);

/* Reads and elaborates the program, or a graph in text form. Mistakes in a program are reported; the status then says how many. */
dt_status *dt_api_load(dt_api_call *call, dt_module **module);

/* A graph in text form, whatever the name of its file. */
dt_status *dt_api_load_graph(dt_api_call *call, dt_module **module);

bool dt_api_ends_in(const char *path, const char *suffix);

/* Plans in text form, of a file whose name ends in .plan. */
bool dt_api_is_plan(const dt_api_call *call);
dt_status *dt_api_load_plans(dt_api_call *call, dt_plan_sets *sets);
/* DT_INVALID_ARGUMENT: its buffers have no places yet. */
dt_status *dt_api_check_placed(const dt_api_call *call, const dt_plan *plan);

/* The text of call->program, as call->source. What is no text is an error: a device, an artifact, a byte of 0, after which nothing would be read. */
dt_status *dt_api_read_source(dt_api_call *call);

/* Tells the caller; DT_ABORTED when the callback says so. */
dt_status *dt_api_report(dt_api_call *call, const dtc_diagnostic *diagnostic);
/* Runs the passes. What they refuse about a place of the program is reported as dt_api_load reports mistakes. */
dt_status *dt_api_run_passes(dt_api_call *call, dt_compilation *compilation, const dt_passes_options *options);
/* The same of any error about a place of the program; others, and NULL, are returned as they are. */
dt_status *dt_api_refused(dt_api_call *call, const dt_module *module, dt_status *status);
/* A finding without a place: its text alone, which may be of several lines; NULL is nothing to tell. */
dt_status *dt_api_report_text(dt_api_call *call, dtc_severity severity, const char *text);
/* How many mistakes there are, with the place of the first; all of them where the caller has no other way to see them. */
dt_status *dt_api_mistakes(dt_api_call *call, const dt_diagnostics *diagnostics);

/* A finding as a line of JSON. */
void dt_api_print_json(dt_text *text, const dtc_diagnostic *diagnostic);
/* All of a front end's findings; what the passes warn of. is_complete: all passes have run that may, so that what is allowed in vain is known. */
dt_status *dt_api_report_all(dt_api_call *call, const dt_diagnostics *diagnostics);
dt_status *dt_api_report_warnings(dt_api_call *call, const dt_compilation *compilation, bool is_complete);
/* Any other callback of the caller's: task(argument) on the caller's thread, unless the call is stopped already. Not 0: DT_ABORTED. */
dt_status *dt_api_tell(dt_api_call *call, int (*task)(void *argument), void *argument);

/* Writes a call's result to `output`, unless that is NULL, and gives it to `bytes`, unless that is; the text, on the heap, is freed or given. */
dt_status *dt_api_give(dt_text *text, const char *output, dtc_bytes *bytes);

/* What `dtc ops --conformance` prints, of one operation and of all. */
const char *dt_api_conformance_of(dt_arena *arena, const dt_op *op);
const char *dt_api_conformance(dt_arena *arena);

/* What a call gives as a struct in one piece of memory: make(arena, context) makes all of it in an arena of its own, the struct itself of
 * dt_api_kept, and returns that. dt_api_release frees it, and NULL. */
dt_status *dt_api_keep(void *(*make)(dt_arena *arena, const void *context), const void *context, void **made);
void *dt_api_kept(dt_arena *arena, size_t bytes);
void dt_api_release(void *made);

/* An error if writing to `output` would overwrite `input`. */
dt_status *dt_api_check_output(const char *input, const char *output);

enum {
    DT_API_STACK_BYTES = 256 << 20 /* elaboration and passes recurse as deep as programs nest, and along values that depend on each other */
};

#endif
