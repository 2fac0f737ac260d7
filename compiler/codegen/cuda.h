/* cuda: what the files cuda_*.c share: how a loop nest is rendered as CUDA C++.
 *
 * The text is meant to be read: a function a phase (kernel/parallel.h), arguments named after their buffers, the program's lines above it. What
 * cannot be said in one expression is a function of the prelude (cuda_prelude.cu). CUDA's own compiler does what it does
 * well: hoisting, unrolling and registers. What it must not decide is written out: the order of every sum, what is fused (fmaf, nothing else), and
 * what is read after which barrier.
 *
 *   cuda.c              a program: which functions there are, in one text
 *   cuda_function.c     a phase as a function: arguments, threads, the loops that they share
 *   cuda_vector.c       several elements by one thread, with memory in vectors
 *   cuda_tile.c         a sum of products in tiles
 *   cuda_shared_tile.c  how a tile's factors come into shared memory
 *   cuda_scatter.c      stores where an index says, by warps that own the targets
 *   cuda_nest.c         a nest: where each instruction goes, reduced loops, stores
 *   cuda_scalar.c       one instruction as an expression
 *   cuda_reduction.c    sums over replicas: a function that the runtime calls */
#ifndef DT_CODEGEN_CUDA_H
#define DT_CODEGEN_CUDA_H

#include "abi/launch.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/parallel.h"

extern const char dt_cuda_prelude[], dt_cuda_reduction_helpers[]; /* the files of these names, embedded by the build */

/* ---- one function ---- */

/* A value that several nests of a function have in common. */
typedef struct dt_cuda_constant {
    const char *name, *type, *text;
} dt_cuda_constant;

typedef struct dt_cuda_function {
    dt_arena *arena;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_phase *phase;
    const char **names; /* [kernel->n_buffers] of the arguments; NULL: not touched in this phase */
    bool *stored;       /* [kernel->n_buffers] in this phase */
    bool wide;          /* indices of 64 bits */
    int team;           /* threads that work together: 1, a warp, or a block */
    int64_t n_items;    /* threads or teams that have something to do, at capacity */
    bool hoists;        /* what a nest computes once goes to the function's head: what is equal is computed once for all nests */
    DT_LIST(dt_cuda_constant) constants;
    bool says_rows, says_valid; /* the text has asked for these launch values by name */
    bool says_iteration;        /* … and for that of the innermost loop that the kernel is in, an argument of its own */
    dt_text *out;
    int depth; /* of indentation */
} dt_cuda_function;

enum {
    DT_CUDA_BLOCK = 256
};

/* A line of the function, indented. A line that is "}" or begins with it closes a block, one that ends in "{" opens one. */
void dt_cuda_line(dt_cuda_function *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *dt_cuda_index_type(const dt_cuda_function *f);
/* The text of a loop's extent: a number, rows, or valid. */
const char *dt_cuda_extent(dt_cuda_function *f, int64_t extent);
/* Declares the loops of `set` from `index`, which counts their iterations row-major; only those that `used` names. */
void dt_cuda_declare_loops(dt_cuda_function *f, const dt_nest *nest, const char *const *names, uint64_t set, const bool *used, const char *index);
/* The iterations of the loops of `set` together. */
const char *dt_cuda_count(dt_cuda_function *f, const dt_nest *nest, uint64_t set);

typedef struct dt_cuda_rendering {
    const char *lines;   /* of the program: "gpt.dt:13, 14"; NULL: none */
    const char *remarks; /* comment lines above the function: what its arguments are */
    const char *body;    /* from its arguments' parenthesis on */
    int team;
    int64_t n_items;
    int n_arguments;
    int *arguments;     /* indices of the kernel's buffers; the launch follows them */
    const char **names; /* of the arguments */
} dt_cuda_rendering;
/* wide: indices of 64 bits, even where 32 are enough. */
void dt_cuda_render(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_phase *phase, bool wide,
                    dt_cuda_rendering *result);

/* ---- one nest ---- */

/* What is known of the value of an integer instruction. */
typedef struct dt_cuda_range {
    bool known;
    int64_t least, greatest;
} dt_cuda_range;

/* Which of the threads and iterations that make a check count a bad index. */
typedef enum dt_cuda_counting {
    DT_CUDA_COUNTS,       /* the one whose other loops stand at 0 */
    DT_CUDA_COUNTS_ALONE, /* the same, where dealt loops do not run */
    DT_CUDA_COUNTED       /* none: that has been done */
} dt_cuda_counting;

typedef struct dt_cuda_nest {
    dt_cuda_function *f;
    const dt_nest *nest;
    uint64_t shared, dealt, serial, reduced; /* loops: that the team shares, dealt to threads, walked in order by one, reduced over */
    bool together;                           /* the team shares each reduction */
    uint64_t *depends;
    bool *needed, *late; /* [n_instructions] late: after the reduced loops */
    int *levels;         /* [n_instructions] 0: once a team; 1: once an element; 2 + p: within the p-th reduced loop */
    int n_levels;
    dt_cuda_range *ranges;
    const char **values; /* [n_instructions] the text that stands for the value */
    bool *loads;         /* [n_instructions] that text reads memory */
    const char **loops;  /* [n_loops] their names */
    bool *loop_used;     /* [n_loops] the text has named it */
    const char *element; /* the running index of the dealt loops; NULL: there is none */
    bool at_use;         /* all but level 0 is written where it is used: a factor, or what becomes of a sum */
    int width;           /* elements that a thread takes side by side; 1 */
    int along;           /* the loop that these are iterations of; -1: of all dealt loops together */
    bool *vectors;       /* [n_instructions] loads that are one vector for all of them */
    bool *ahead;         /* [n_instructions] computed once for all of them, before the vectors are read */
    bool in_vector;      /* loads and stores are those of element k of vectors */
    dt_cuda_counting counting;
} dt_cuda_nest;

/* Analysis, before anything is written. */
void dt_cuda_nest_prepare(dt_cuda_nest *n, dt_cuda_function *f, const dt_nest *nest);
/* Instructions of level 0. */
void dt_cuda_nest_once(dt_cuda_nest *n);
/* One element: its instructions, loops, reductions and stores. The index of its dealt loops is named `element` (NULL: none). */
void dt_cuda_nest_element(dt_cuda_nest *n, const char *element);
/* The same without the declaration of loops: n->element and n->loops are set. */
void dt_cuda_nest_statements(dt_cuda_nest *n);

/* All checks, and what they depend on. */
void dt_cuda_nest_checks(dt_cuda_nest *n);

/* What is computed ahead of vectors, and the loads that are vectors. */
void dt_cuda_nest_ahead(dt_cuda_nest *n);

/* For tiles, which have loops of their own. A factor: writes all that it depends on, and returns its text. What becomes of a sum: its instructions
 * and stores. */
const char *dt_cuda_nest_value(dt_cuda_nest *n, int instruction);
/* target.at[k] of a factor, for `width` iterations of loop `along`: with n->vectors, which may be guarded by what does not differ with that loop. */
void dt_cuda_nest_values(dt_cuda_nest *n, int instruction, const char *target);
/* `sum` is that of one result, or with a width that of iteration k of loop `along`, which all stores walk in vectors. */
void dt_cuda_nest_finish(dt_cuda_nest *n, const char *sum);

/* ---- cuda_vector.c ---- */

/* Decides whether threads take several elements of the nest, which has been prepared: sets width, along and vectors. */
void dt_cuda_find_vectors(dt_cuda_nest *n);
/* Whether `width` iterations of the constant loop `along`, from a multiple of `width` on, are a vector in memory. */
bool dt_cuda_is_vector(const dt_cuda_nest *n, const dt_address *address, int along, int width);
/* The `width` elements from `e` on, or as many as are left. */
void dt_cuda_nest_vector(dt_cuda_nest *n);

/* ---- cuda_tile.c ---- */

/* The phase as tiles. */
void dt_cuda_tiles(dt_cuda_function *f);

/* ---- cuda_scatter.c ---- */

/* The phase as an owner-computes scatter. */
void dt_cuda_scatter(dt_cuda_function *f);

/* ---- cuda_shared_tile.c ---- */

enum {
    DT_CUDA_TERMS = 16 /* of the sums at a time */
};

/* One factor: what is read for its side of the tile. */
typedef struct dt_cuda_shared_tile {
    const char *name, *count, *first; /* "a"; iterations of its loops; where the tile begins */
    uint64_t loops;
    int factor, side; /* side: results along it */
    int along;        /* the loop that is read in vectors of 4; -1: none */
    bool by_terms;    /* neighbours in memory are terms of one result, not results of one term */
} dt_cuda_shared_tile;

/* Decides how it is read. */
void dt_cuda_shared_tile_prepare(dt_cuda_nest *n, dt_cuda_shared_tile *tile);
/* Declares what one thread reads of it; reads that of terms `terms` and on; writes it to shared_NAME[buffer]. */
void dt_cuda_shared_tile_declare(dt_cuda_nest *n, const dt_cuda_shared_tile *tile);
void dt_cuda_shared_tile_read(dt_cuda_nest *n, const dt_cuda_shared_tile *tile);
void dt_cuda_shared_tile_write(dt_cuda_nest *n, const dt_cuda_shared_tile *tile, const char *buffer);

/* ---- cuda_scalar.c ---- */

const char *dt_cuda_type(dt_dtype dtype);        /* in registers: f16 and bf16 are float */
const char *dt_cuda_memory_type(dt_dtype dtype); /* in memory: those are u16, and bool is u8 */
/* The expression for instruction `i`; its operands have values. */
const char *dt_cuda_expression(dt_cuda_nest *n, int i);
/* Whether the address is the running index `element` of the dealt loops itself. */
bool dt_cuda_is_element(const dt_cuda_nest *n, const dt_address *address, const char *element);
/* buffer[offset], and the value that is kept there from a register's. */
const char *dt_cuda_access(dt_cuda_nest *n, const dt_address *address);
const char *dt_cuda_to_memory(dt_cuda_nest *n, const char *value, dt_dtype dtype);
const char *dt_cuda_from_memory(dt_cuda_nest *n, const char *element, dt_dtype dtype);
/* The value of `dtype` that a reduction begins with. */
const char *dt_cuda_identity(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype);
/* a combined with b. */
const char *dt_cuda_combine(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b);
const char *dt_cuda_convert(dt_cuda_nest *n, const char *x, dt_dtype from, dt_dtype to);
/* Ranges of all integer instructions. */
void dt_cuda_find_ranges(dt_cuda_nest *n);
/* Is the i64 instruction held in an int? */
bool dt_cuda_is_narrow(const dt_cuda_nest *n, int i);

/* ---- cuda_reduction.c ---- */

/* The function of abi/reduction.h, for the collectives of these plans. Its body is NULL when memory is out. */
dt_cuda_source dt_cuda_render_reduction(dt_arena *arena, const dt_plan *const *plans, int n_plans);

/* ---- cuda_library.c: clear_rows(values, row, capacity, launch), transpose_filters(from, to, rows, columns) ---- */

dt_cuda_source dt_cuda_render_clear_rows(void);
dt_cuda_source dt_cuda_render_transpose(void);

/* ---- cuda_remarks.c ---- */

/* Appends what is a warning in the remarks on a unit of these functions; where one names none of them, all are named. remarks NULL: there are none.
 */
void dt_cuda_add_warnings(dt_text *warnings, const char *remarks, const char *architecture, const dt_cuda_source *sources, int n_sources);

#endif
