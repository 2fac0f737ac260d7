/* weights: tensors made elsewhere become a program's variables, and variables a file for elsewhere, by the rules of one map (weight_map.h).
 *
 * Whatever a file and a program do not have in common is said: silence would be a network that is half trained. */
#ifndef DT_RUNTIME_WEIGHTS_H
#define DT_RUNTIME_WEIGHTS_H

#include "base/text.h"
#include "runtime/execution/session.h"

typedef struct dt_weights_options {
    const char *path;  /* of a safetensors file, or of a checkpoint */
    const void *bytes; /* [n_bytes] of the file, where it is in memory: `path` is for messages then. NULL: they are at the path */
    size_t n_bytes;
    const char *map;    /* path of a map; NULL: a tensor's name is a variable's path */
    bool allow_missing; /* a variable that the file does not give keeps its value, a tensor that the checkpoint does not is left out */
} dt_weights_options;

typedef struct dt_weights_report {
    dt_text lines;    /* begin with a newline each: what was done, what is missing, what is not used; without a map only what is not as expected */
    dt_text warnings; /* what is likely not meant, a line each */
    uint64_t hash;    /* of the file and the map: what processes compare */
} dt_weights_report;

void dt_weights_report_free(dt_weights_report *report); /* what it owns */

/* Sets parameters and states of the session. Slots stay as they are. DT_INVALID_ARGUMENT: the map is wrong. DT_FAILED_PRECONDITION: it does not make
 * all variables of what is in the file, and the session is unchanged. DT_DATA_LOSS, DT_NOT_FOUND, DT_IO: as of the file. */
dt_status *dt_weights_load(dt_session *session, const dt_weights_options *options, dt_weights_report *report);

/* Writes the tensors that the map makes of a checkpoint, or of a safetensors file of ours, to the file `output`, whole or not at all. */
dt_status *dt_weights_export(const dt_weights_options *options, const char *output, dt_weights_report *report);

#endif
