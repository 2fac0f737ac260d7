/* autodiff: what the files of the pass share. autodiff.c chains the gradients of rows, autodiff_loop.c turns loops round. */
#ifndef DT_PASSES_AUTODIFF_H
#define DT_PASSES_AUTODIFF_H

#include "compiler/passes/passes.h"

/* One walk backwards, for all gradients of one y. Values that were there when it began are known by their ids. */
typedef struct dt_autodiff {
    dt_arena *arena;
    dt_function *function;
    dt_value *y;
    int n;             /* ids below this one are of values to differentiate */
    bool *depends;     /* [n] lies on a path from some x to y */
    bool *is_x;        /* [n] */
    dt_value **bodies; /* [n] ir/body.h */
} dt_autodiff;

/* Where gradients are built, and what is known there: the function itself, or the body of a loop that walks another one backwards. */
typedef struct dt_adjoints {
    dt_builder builder;
    dt_value **of; /* [n] d y / d value, or NULL while it is zero */
} dt_adjoints;

dt_status *dt_adjoint_add(dt_adjoints *adjoints, const dt_value *value, dt_value *part);
/* Differentiates what stands from `last` back to `begin`, without that; NULL: to the function's first value. */
dt_status *dt_autodiff_walk(dt_autodiff *walk, dt_adjoints *adjoints, dt_value *last, const dt_value *begin);

/* ---- autodiff_loop.c ---- */
/* Adds to `adjoints`, those around the loop, what its body makes of what is known of the values that leave it. */
dt_status *dt_autodiff_loop(dt_autodiff *walk, dt_adjoints *adjoints, dt_value *loop);

#endif
