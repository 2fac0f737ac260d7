/* placement: what each memory domain has, and computes, of what is there once for all replicas.
 *
 * Mirrored, every domain has all variables and runs all kernels that run once. In central storage the first one does, and the others have what their
 * kernels read. A kernel that changes variables, or touches an optimizer's states, runs in the central domain alone, and with it all that nobody else
 * asks for: norms of gradients, totals of reports. What the others read of what these kernels write, parameters above all, is handed over. What they
 * can compute of what they have, the batch's mean from its sums, each computes itself. So they have neither slots nor gradients.
 *
 * All of it follows from what the kernels of the wanted functions read and write. Where the devices share one memory there is nothing to place. */
#ifndef DT_RUNTIME_EXECUTION_PLACEMENT_H
#define DT_RUNTIME_EXECUTION_PLACEMENT_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"

#include <stdbool.h>

/* Of a function. */
typedef struct dt_placed_function {
    bool *central; /* [n_kernels] that run once: in the central domain alone */
    bool *common;  /* [n_buffers] roots in the spaces VARIABLE and DEVICE: all domains have it */
} dt_placed_function;

typedef struct dt_placement {
    dt_placed_function *functions; /* [n_functions] */
    bool *variables;               /* [n_variables] all domains have it; else the central one alone */
    dt_space_bytes bytes;          /* `device`, of a domain that is not the central one: its buffers' offsets are the plan's, */
    dt_space_bytes gathered;       /* for each microbatch of all replicas too */
} dt_placement;

/* Of the functions that dt_memory_has says are wanted. */
const dt_placement *dt_placement_find(const dt_artifact *artifact, int wanted, dt_arena *arena);

/* Of segment `s`, buffers[0 … n) that are handed over from the central domain after kernel number `i` of those that it runs once: what it, and those
 * just before it, have written and others have too. Returns n, 0 for most. */
int dt_placement_handed_out(const dt_placement *placement, const dt_artifact *artifact, int function, int s, int i, dt_arena *arena,
                            const int **buffers);

#endif
