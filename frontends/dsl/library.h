/* library: the standard library's texts (the .dt files of frontends/dsl/std), carried inside the program so that dtc is one file to install.
 *
 * The array is generated at build time, one row a file, in the order of the names. */
#ifndef DT_FRONTENDS_DSL_LIBRARY_H
#define DT_FRONTENDS_DSL_LIBRARY_H

#include <stddef.h>

typedef struct dt_library_module {
    const char *name; /* what `use` says: "nn" for std/nn.dt */
    const char *text; /* the whole file, UTF-8, terminated */
} dt_library_module;

extern const dt_library_module dt_library_modules[]; /* [dt_n_library_modules] */
extern const size_t dt_n_library_modules;

#endif
