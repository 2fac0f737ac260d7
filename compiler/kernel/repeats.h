/* repeats: which nests of a program are the same code.
 *
 * Repeated layers, updates of equal parameters, and what training and evaluation both run become nests that differ in nothing but their buffers and
 * some numbers: offsets, streams of random numbers, places in the program. A renderer writes a routine for them, with these as parameters, and calls
 * it: compilers take most of their time for code generation. */
#ifndef DT_KERNEL_REPEATS_H
#define DT_KERNEL_REPEATS_H

#include "compiler/kernel/choices.h"

/* Nests that are written once: one, or neighbours that share a loop over blocks. */
typedef struct dt_routine {
    const dt_plan *plan; /* where it is met first */
    const dt_kernel_function *kernel;
    int first, n_nests;
    int n_uses;
    int n_buffers;
    const int *buffers; /* [n_buffers] arguments of that kernel */
    int n_parameters;
    const int *parameters; /* [numbers of its nests] which parameter the number is; -1: it is the same in all uses */
} dt_routine;

typedef struct dt_routine_use {
    int routine;
    const int *buffers;     /* [n_buffers of the routine] arguments of the kernel that uses it */
    const int64_t *numbers; /* [n_parameters of the routine] */
} dt_routine_use;

/* What is known of a kernel. */
typedef struct dt_kernel_repeats {
    const dt_kernel_function *same; /* a kernel before it that is the same code with the same arguments; NULL: there is none */
    const dt_routine_use **uses;    /* [n_nests] of the piece that begins with the nest; NULL: it is written where it stands */
} dt_kernel_repeats;

typedef struct dt_repeats {
    int n_routines;
    const dt_routine *routines;
    dt_kernel_repeats **kernels; /* [plan][kernel] */
} dt_repeats;

/* The pieces that a kernel is made of: the nest after the piece that begins with nest `first`. */
int dt_piece_end(const dt_kernel_function *kernel, int first);

/* Instructions that the piece runs each time that it is called: once, or of row nests for each row. */
double dt_piece_work(const dt_plan *plan, const dt_kernel_function *kernel, int first, int end);

/* A nest's numbers, in the order of dt_routine.parameters: of each instruction, of each store, and of its share. */
enum {
    DT_SHARE_TURN,
    DT_SHARE_FIRST_UNIT,
    DT_SHARE_N_UNITS,
    DT_SHARE_EXTENT, /* of the outermost loop, of a nest that runs in parts */
    DT_SHARE_NUMBERS
};
static inline int dt_nest_n_numbers(const dt_nest *nest) { return nest->n_instructions + nest->n_stores + DT_SHARE_NUMBERS; }

/* Plans have their offsets. What was chosen differently for some target is no routine: choices[n_targets] are those of all that share the result. */
dt_repeats *dt_repeats_find(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_choices *const *choices, int n_targets);

#endif
