/* gpu_choices: how each kernel becomes code for one GPU (kernel/gpu_target.h).
 *
 * A kernel's nests run one after another. On a target that runs thousands of threads at once that order costs a launch each, unless one launch can
 * hold several nests: a function is what one launch holds. Its form says how nests are mapped to threads, and the rest how large everything is. The
 * passes `choose_gpu` decide all of it, and a renderer follows it to the letter. The order of every sum depends on it, and not on how many threads
 * there are. */
#ifndef DT_KERNEL_GPU_CHOICES_H
#define DT_KERNEL_GPU_CHOICES_H

#include "abi/library.h"
#include "compiler/kernel/gpu_target.h"
#include "compiler/kernel/kernel.h"

#define DT_GPU_FORMS(X)                                                                                                                              \
    X(ELEMENTS, "elements") /* threads share the iterations of the outer loops; several independent nests lie side by side */                        \
    X(TEAMS, "teams")       /* a team runs an iteration of the loops that all nests have in common; in it these follow one another */                \
    X(TILES, "tiles")       /* of one sum of products: a block reads each element of a factor once for a whole side of results */                    \
    X(SCATTER, "scatter")   /* one nest that stores where an index says: a warp owns targets, and runs in their order the iterations for them */

typedef enum dt_gpu_form {
#define X(enumerator, name) DT_GPU_##enumerator,
    DT_GPU_FORMS(X)
#undef X
} dt_gpu_form;

/* Iterations of one loop that a thread takes side by side, with memory in vectors. */
typedef struct dt_gpu_vectors {
    int width;   /* 1: one at a time */
    int along;   /* the loop, of which vectors are whole; -1: of all dealt loops together, which walk whole buffers */
    bool *loads; /* [n_instructions] those that are one vector for all of them; of a width of 1 it says nothing */
    bool *ahead; /* [n_instructions] what is computed once for all of them, before vectors are read; of elements alone */
} dt_gpu_vectors;

typedef struct dt_gpu_nest {
    uint64_t shared, dealt, serial, reduced; /* loops: that the team shares, dealt to threads, walked in order by one, reduced over */
    bool together;                           /* the team shares each reduction, rather than that each thread takes its own element */
    dt_gpu_vectors vectors;                  /* of elements, or of a tile's results */
    int *unrolled;                           /* [n_loops] iterations of a reduced loop that are written out, if it is walked in order; 1: none */
    bool *narrow;                            /* [n_instructions] an i64 that an int holds */
} dt_gpu_nest;

enum {
    DT_GPU_NEIGHBOURS = 4,  /* results of a thread that lie side by side, and values of f32 in a vector, at most */
    DT_GPU_PIECE_ROWS = 16, /* of what tensor cores multiply at once */
    DT_GPU_PIECE_COLUMNS = 8
};

/* One side of a tile. */
typedef struct dt_gpu_side {
    uint64_t loops;         /* of the results along it */
    int factor;             /* the instruction that differs with them, rounding and all */
    int results;            /* of a tile: 16, 32, 64 or 128 rows by 32 or 64 columns, 16 only by 64 */
    int own;                /* results of a thread, or pieces of the threads that multiply together */
    bool by_terms;          /* neighbours in memory are terms of one result, not results of one term */
    dt_gpu_vectors vectors; /* how the factor is read */
} dt_gpu_side;

/* Of the sums of products of a nest. Columns are what is stored side by side. */
typedef struct dt_gpu_tiles {
    dt_gpu_side rows, columns;
    uint64_t both;          /* loops that both factors differ with */
    dt_precision precision; /* that both are rounded to; but for f32, `product_lanes` threads have pieces of 16 x 8 results */
    int n_down;             /* such threads below one another in a tile; 0: each thread multiplies by itself */
    int terms;              /* of the sums that are in shared memory at a time, and as many that come in meanwhile */
    int padding;            /* of a row in shared memory, so that lanes read from different banks */
} dt_gpu_tiles;

/* Which warp owns which targets of a nest that stores where an index says. The loops that may not run at the same time are walked by every owner; the
 * others run over the slice that one index selects. */
typedef struct dt_gpu_scatter {
    int index; /* instruction; a check holds it in [0, targets) wherever the nest stores, and depends on walked loops alone, as all checks do */
    int64_t targets;
    int64_t n_owners, targets_each;
    int64_t groups; /* owners that share targets: each takes a part of the slice */
    int at_once;    /* indices that a lane asks memory for before it looks at one */
} dt_gpu_scatter;

typedef struct dt_gpu_function {
    dt_gpu_form form;
    int first, n_nests;             /* nests of the divided kernel */
    int n_shared;                   /* of teams: loops that its nests have in common */
    int team;                       /* threads that work together: 1, a warp, or a block */
    int64_t n_items;                /* threads or teams that have something to do, at capacity */
    bool wide;                      /* indices have 64 bits */
    const dt_library_call *library; /* what computes the same as this and perhaps the next functions; NULL: nothing does */
    dt_gpu_nest *nests;             /* [n_nests] */
    dt_gpu_tiles tiles;
    dt_gpu_scatter scatter;
} dt_gpu_function;

typedef struct dt_gpu_kernel {
    dt_kernel_function divided; /* with a nest for each group of stores that have nothing to do with one another */
    int n_functions;
    dt_gpu_function *functions;
} dt_gpu_kernel;

typedef struct dt_gpu_choices {
    const dt_gpu_target *target;
    int n_plans;
    const dt_plan *const *plans;
    dt_gpu_kernel **kernels; /* [plan][kernel] */
} dt_gpu_choices;

/* What is asked about. */
typedef struct dt_gpu_scope {
    const dt_gpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel; /* divided */
} dt_gpu_scope;

/* gpu_stores.c: the kernel with each nest that stores unrelated buffers (updates of several parameters of one shape) split into one nest a buffer:
 * many small iterations suit threads better than few large ones, which run out of registers. *origins [n_nests of the result]: which nest each one
 * is of; origins may be NULL. */
dt_kernel_function dt_gpu_divide_stores(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, int **origins);

/* Where the instructions of a nest stand: levels[n_instructions] 0: once a team; 1: once an element; 2 + p: within the p-th reduced loop. late: after
 * these. Returns the number of levels. depends: dt_nest_depends */
int dt_gpu_nest_levels(dt_arena *arena, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends, int *levels, bool *late);

/* Whether the address is the running index of the dealt loops itself. */
bool dt_gpu_is_element(const dt_plan *plan, const dt_nest *nest, const dt_gpu_nest *how, const dt_address *address);
/* Whether `width` iterations of the loop `along`, from a multiple of `width` on, are a vector in memory; -1: so many elements of the dealt loops. */
bool dt_gpu_is_vector(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends,
                      const dt_address *address, int along, int width);

/* Whether indices of 32 bits do not count all that the function walks and touches. */
bool dt_gpu_needs_wide(const dt_plan *plan, const dt_kernel_function *kernel, const dt_gpu_function *function);

/* Marks the loads that are vectors, and what is ahead of them, of these vectors' width and loop. guarded: those with one guard for all of it, too. */
void dt_gpu_find_vectors(dt_arena *arena, const dt_gpu_scope *scope, const dt_nest *nest, const dt_gpu_nest *how, const uint64_t *depends,
                         bool guarded, dt_gpu_vectors *vectors);

/* How many results along each side of a tile all threads have together, where each, or each piece, has one. */
void dt_gpu_tile_grid(const dt_gpu_target *target, int n_down, int *rows, int *columns);

/* Sets what follows from the rest of a function: n_shared, n_items, narrow integers, which loads are vectors; of a tile `both`, the precision and
 * each `own`; of a scatter the index, its targets and how many owners they have. */
void dt_gpu_complete(dt_arena *arena, const dt_gpu_scope *scope, dt_gpu_function *function);

/* Bytes of shared memory that a block of the function takes. */
int64_t dt_gpu_shared_bytes(const dt_gpu_target *target, const dt_gpu_function *function);

/* Refuses what a renderer could not follow, or what would not compute what the plan says. */
dt_status *dt_gpu_choices_verify(dt_arena *arena, const dt_gpu_choices *choices);

/* What was chosen for the kernels of a plan, as text behind it; and reads that text, from behind its first word, `for`: the plan is verified and its
 * memory planned, the choices are neither verified nor more than can be printed of them. What they need is in the reader's arena. */
void dt_gpu_choices_print(dt_text *text, const dt_gpu_choices *choices, int plan);
struct dt_reader;
dt_status *dt_gpu_choices_read(struct dt_reader *reader, const dt_plan *plan, const dt_gpu_target **target, dt_gpu_kernel **kernels);

#endif
