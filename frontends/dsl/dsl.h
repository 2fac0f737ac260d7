/* dsl: the language's front end, from the text of a program to a module.
 *
 * There is no separate type checker and no tree to lower: the program's compile time is run (elaboration), and as it runs it builds the graph,
 * with types and shapes checked where values meet. frontends/dsl/elaborator.h shows how the parts share the work. */
#ifndef DT_FRONTENDS_DSL_DSL_H
#define DT_FRONTENDS_DSL_DSL_H

#include "frontends/dsl/diagnostics.h"
#include "ir/graph.h"

typedef struct dt_dsl_define {
    const char *name, *value; /* -D name=value; the value is an expression of the language */
} dt_dsl_define;

/* What a module was made of: the program, and the modules that it uses which are not the library's, in the order in which they were read. */
typedef struct dt_dsl_source {
    const char *path; /* the file; NULL: the text was given */
    const char *text;
} dt_dsl_source;
typedef DT_LIST(dt_dsl_source) dt_dsl_sources;

typedef struct dt_dsl_options {
    const dt_dsl_define *defines; /* [n_defines] */
    size_t n_defines;
    int64_t capacity;      /* rows for each replica; 0: the largest batch(n) of the program, or 1 */
    const char *precision; /* one of abi/precision.h, whatever the program says; NULL: what it says */
    const char *folder;    /* where the modules that it uses lie; NULL: beside the program */
    /* Asked for the text of a module before the folder is looked in: it stays NULL where there is none, and is copied at once. May be NULL. */
    dt_status *(*find_module)(void *context, const char *name, const char **text);
    void *context;
    dt_dsl_sources *sources; /* filled in, though there be mistakes; may be NULL */
} dt_dsl_options;

/* Compiles `source`, the text of the file `path`.
 *
 * options  may be NULL.
 * module   the program: steps not yet differentiated, `gradient` ops in them; owned by the arena. NULL when the program has errors.
 * Returns  NULL when the diagnostics tell all (with or without errors in the program); else what went wrong that is no mistake of the program. */
dt_status *dt_dsl_compile(dt_arena *arena, const char *path, const char *source, const dt_dsl_options *options, dt_diagnostics *diagnostics,
                          dt_module **module);

#endif
