/* status: how every function of this project says that something failed.
 *
 * A function that can fail returns dt_status *; NULL is success, so the success path allocates nothing and reads as one line.
 * A status (include/dt_status.h, which callers of the libraries get) carries a code for the program and a sentence for the person: what was
 * wrong, where, and what to do next. It is owned by who receives it. Sentences are written with options as they are typed, "--global-batch"; a
 * caller of the libraries finds members of structs in their place. Mistakes in a user's program are many and have source lines: they go to a
 * diagnostics sink (frontends/dsl/diagnostics.h), not here. */
#ifndef DT_BASE_STATUS_H
#define DT_BASE_STATUS_H

#include "include/dt_status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A new status. `format` is printf's. Never returns NULL: when memory is out it returns a preallocated one. */
dt_status *dt_error(dt_code code, const char *format, ...) __attribute__((format(printf, 2, 3), returns_nonnull));

/* A new status about a file: "FILE: " and the sentence, or "FILE:LINE: " where a line is known (from 1; 0: none); both are its place as well. */
dt_status *dt_error_in(dt_code code, const char *file, int64_t line, const char *format, ...) __attribute__((format(printf, 4, 5), returns_nonnull));

/* Puts "prefix: " before the message of `status` and returns it; NULL stays NULL. Adds the outer "where" on the way up. */
dt_status *dt_status_annotate(dt_status *status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same failure with its place in a text; the file's name is copied. NULL stays NULL. */
dt_status *dt_status_at(dt_status *status, const char *file, int line, int column);

/* The same failure, which is about the variable of that path; it is copied. NULL stays NULL. */
dt_status *dt_status_about(dt_status *status, const char *variable);

dt_code dt_status_code(const dt_status *status); /* DT_OK for NULL */
const char *
dt_status_message(const dt_status *status); /* with options as they are typed (option_names.h); "" for NULL; lives as long as the status */
const char *dt_code_name(dt_code code);     /* "data loss", … */

/* Frees a status; NULL is allowed. */
void dt_status_free(dt_status *status);

/* Keeps the first of two failures and frees the other: for cleanup paths that can fail as well. */
dt_status *dt_status_first(dt_status *first, dt_status *second);

/* The only macro of the project that hides control flow. */
#define DT_TRY(expression)                                                                                                                           \
    do {                                                                                                                                             \
        dt_status *dt_try_status_ = (expression);                                                                                                    \
        if (dt_try_status_ != NULL) return dt_try_status_;                                                                                           \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
