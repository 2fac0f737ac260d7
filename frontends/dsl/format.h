/* format: a program as everybody writes it. Lines stay as they are broken, comments and strings as they are; blanks, indentation and blank lines are
 * decided here. What is formatted is formatted to itself, and means what it meant. docs/language.md has the rules. */
#ifndef DT_FRONTENDS_DSL_FORMAT_H
#define DT_FRONTENDS_DSL_FORMAT_H

#include "frontends/dsl/diagnostics.h"

/* Formats `source`, the text of the file `path`.
 *
 * formatted  owned by the arena; NULL when the diagnostics hold errors: what cannot be parsed is not formatted.
 * Returns    NULL, or what went wrong that is no mistake of the program. */
dt_status *dt_dsl_format(dt_arena *arena, const char *path, const char *source, dt_diagnostics *diagnostics, const char **formatted);

#endif
