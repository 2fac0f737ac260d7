/* choose_gpu: what the files of the pass share. Each decides one thing and reads what those before it have decided; choose_gpu.c has their order. */
#ifndef DT_PASSES_CHOOSE_GPU_H
#define DT_PASSES_CHOOSE_GPU_H

#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/parallel.h"
#include "compiler/passes/passes.h"

/* A nest of a function at work. */
typedef struct dt_gpu_chooser {
    dt_arena *arena;
    const dt_gpu_scope *scope;
    const dt_nest *nest;
    dt_gpu_function *function;
    dt_gpu_nest *how;        /* what is chosen */
    const bool *needed;      /* dt_nest_mark_needed */
    const uint64_t *depends; /* dt_nest_depends; and, as the loops are divided, dt_gpu_nest_levels */
    int n_levels, *levels;
    bool *late;
} dt_gpu_chooser;

static inline bool dt_gpu_chooser_is_vector(const dt_gpu_chooser *c, const dt_address *address, int along, int width) {
    return dt_gpu_is_vector(c->scope->plan, c->scope->kernel, c->nest, c->how, c->depends, address, along, width);
}

/* choose_gpu_forms.c: the function that begins with nest `first`: its form, its nests and its team. */
dt_gpu_function dt_gpu_choose_form(const dt_gpu_scope *s, int first);

/* choose_gpu_loops.c: who runs which loops; then what is written out. */
void dt_gpu_choose_loops(dt_gpu_chooser *c);
void dt_gpu_choose_unrolling(dt_gpu_chooser *c);

/* choose_gpu_vectors.c: elements that a thread takes side by side. */
void dt_gpu_choose_vectors(dt_gpu_chooser *c);
/* choose_gpu_tiles.c: how a tile is divided among threads, and what of it is read and stored in vectors. */
void dt_gpu_choose_tiles(dt_gpu_chooser *c);

#endif
