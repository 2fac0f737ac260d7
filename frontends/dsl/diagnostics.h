/* diagnostics: what is wrong with the user's program, said once for each cause.
 *
 * Mistakes are collected, not returned: a run shows several. A diagnostic has a place, a sentence, and notes and helps below it. A place gets one
 * diagnostic at most, since one body is elaborated many times over; what follows from a mistake is kept silent by poison values
 * (frontends/dsl/object.h), not here. Everything lives in the arena. */
#ifndef DT_FRONTENDS_DSL_DIAGNOSTICS_H
#define DT_FRONTENDS_DSL_DIAGNOSTICS_H

#include "base/arena.h"
#include "base/text.h"
#include "ir/warnings.h"

#include <stdbool.h>

/* A run of characters within one line. Lines and columns count from 1, columns in bytes; line 0 means no place (the command line). */
typedef struct dt_span {
    int file; /* from dt_diagnostics_add_file */
    int line, column, length;
} dt_span;

typedef enum dt_severity {
    DT_SEVERITY_ERROR,
    DT_SEVERITY_WARNING
} dt_severity;

typedef struct dt_diagnostics dt_diagnostics;

/* What is said below the sentence: a help says what to do, a note explains. */
typedef struct dt_remark {
    bool is_help;
    const char *text;
} dt_remark;

/* Read by others, made here. */
typedef struct dt_diagnostic {
    dt_diagnostics *diagnostics;
    dt_severity severity;
    dt_warning_kind warning; /* of a WARNING */
    dt_span span;
    const char *message;
    DT_LIST(dt_remark) remarks;
    size_t ordinal; /* order of discovery, which decides within a line */
} dt_diagnostic;

dt_diagnostics *dt_diagnostics_create(dt_arena *arena);
/* Makes a text known, so that its lines can be shown; NULL: they are not. Neither string is copied. */
int dt_diagnostics_add_file(dt_diagnostics *diagnostics, const char *name, const char *text);
const char *dt_diagnostics_file_name(const dt_diagnostics *diagnostics, int file);
/* The line's text, without its end, copied to the arena. */
const char *dt_diagnostics_line(const dt_diagnostics *diagnostics, int file, int line);

/* Errors. Never NULL: what comes after the last one that is kept, or repeats a place, is swallowed, and so are its notes. */
dt_diagnostic *dt_diagnostics_add(dt_diagnostics *diagnostics, dt_span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
dt_diagnostic *dt_diagnostics_vadd(dt_diagnostics *diagnostics, dt_span span, const char *format, va_list arguments);
/* The same of warnings; one that its line allows is swallowed too. */
dt_diagnostic *dt_diagnostics_warn(dt_diagnostics *diagnostics, dt_warning_kind warning, dt_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
dt_diagnostic *dt_diagnostics_vwarn(dt_diagnostics *diagnostics, dt_warning_kind warning, dt_span span, const char *format, va_list arguments);
dt_diagnostic *dt_diagnostics_swallowed(dt_diagnostics *diagnostics); /* for what is not told: remarks on it go nowhere */
void dt_diagnostic_note(dt_diagnostic *diagnostic, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_diagnostic_help(dt_diagnostic *diagnostic, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "help: did you mean conv2d?" when one of the names is near enough. */
void dt_diagnostic_suggest(dt_diagnostic *diagnostic, const char *name, const char *const *names, size_t n_names);

/* The lexer has met `# allow: name, name`, which is about what stands in `line`. */
void dt_diagnostics_allow(dt_diagnostics *diagnostics, dt_span comment, int line);
typedef struct dt_allowed {
    dt_warning_kind warning;
    dt_span span; /* of the name, in the comment */
    int line;
    bool silences; /* something that was found */
} dt_allowed;
dt_allowed *dt_diagnostics_allowed(const dt_diagnostics *diagnostics, size_t *n); /* in the order of the text */

size_t dt_diagnostics_n_errors(const dt_diagnostics *diagnostics);
size_t dt_diagnostics_n_warnings(const dt_diagnostics *diagnostics);
bool dt_diagnostics_has_error(const dt_diagnostics *diagnostics, int file, int line); /* anywhere in that line */
bool dt_diagnostics_full(const dt_diagnostics *diagnostics); /* as many errors as anyone reads at once: stop looking for more */

/* All of them, first cause first: by file and line, the program before what it uses. */
dt_diagnostic *const *dt_diagnostics_sorted(const dt_diagnostics *diagnostics, size_t *n);
/* One, with its line, carets below it, and its remarks; and all of them, in that order. */
void dt_diagnostics_print_one(dt_text *text, const dt_diagnostic *diagnostic);
void dt_diagnostics_print(dt_text *text, const dt_diagnostics *diagnostics);

#endif
