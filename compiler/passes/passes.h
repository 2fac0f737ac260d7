/* passes: the entry point of each pass over a compilation. The order is compiler/pipeline.c's. */
#ifndef DT_PASSES_PASSES_H
#define DT_PASSES_PASSES_H

#include "compiler/compilation.h"

/* Graph functions become plans of kernels, one plan a function, cut into segments at the collectives. */
dt_status *dt_fuse(dt_compilation *compilation);
/* Nests get loops to vectorise, register tiles, packed operands and row loops. */
dt_status *dt_schedule(dt_compilation *compilation);
/* Buffers get spaces and offsets. */
dt_status *dt_plan_memory(dt_compilation *compilation);

#endif
