/* options: structs that the caller of a library fills in, and that begin with their size (include/dt_status.h says what that is for). */
#ifndef DT_BASE_OPTIONS_H
#define DT_BASE_OPTIONS_H

#include "base/status.h"

/* Copies *given, of which the first member is its size, to *options, of own_bytes: what a smaller one lacks is zero, and so is all where `given`
 * is NULL. DT_INVALID_ARGUMENT: it has no size, or is larger and what is beyond is not zero. `name`: of the struct, for the message. */
dt_status *dt_options_read(const void *given, void *options, size_t own_bytes, const char *name);

/* Copies *filled, of own_bytes, to *given of the same struct, of which the first member is its size: what it has room for, its size unchanged, and
 * zeros beyond what is known here. DT_INVALID_ARGUMENT: it is NULL or has no size. */
dt_status *dt_options_write(void *given, const void *filled, size_t own_bytes, const char *name);

#endif
