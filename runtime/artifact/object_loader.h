/* object_loader: makes one relocatable ELF object callable, without a linker.
 *
 * Objects of dtc are self-contained: code and read-only data that refer to each other relative to the program counter, and nothing outside. That
 * is all that is understood here; an object that imports a symbol, holds writable data or needs another kind of relocation is refused with
 * a sentence. No memory is ever writable and executable at once. The bytes may be hostile: every offset is checked before it is followed. */
#ifndef DT_RUNTIME_ARTIFACT_OBJECT_LOADER_H
#define DT_RUNTIME_ARTIFACT_OBJECT_LOADER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dt_object dt_object;

typedef void (*dt_object_function)(void); /* cast to its real type */

/* Loads the object of `n_bytes` at `bytes`, which may be released afterwards. `name` is for messages: "m.dtx: cpu-x86-64-v3.o". */
dt_status *dt_object_load(const char *name, const void *bytes, size_t n_bytes, dt_object **object);
void dt_object_free(dt_object *object); /* NULL is allowed; nothing of it may be running */

/* A global function by name, or NULL. */
dt_object_function dt_object_find(const dt_object *object, const char *function);

/* Appends the functions' places to /tmp/perf-PID.map, where `perf report` looks for names. */
dt_status *dt_object_write_perf_map(const dt_object *object);

#endif
