/* cuda: what the files cuda_*.c share: how a loop nest is rendered as CUDA C++.
 *
 * The text is meant to be read: a function for each launch, arguments named after their buffers, the program's lines above it. How large everything
 * is and who runs what has been chosen (kernel/gpu_choices.h); the renderer sees no graph, no cost and no number of registers. What cannot be said in
 * one expression is a function of the prelude (cuda_prelude.cu). CUDA's own compiler does what it does well: hoisting and registers. What it must not
 * decide is written out: the order of every sum, what is fused (fmaf, nothing else), and what is read after which barrier.
 *
 *   cuda.c              a program: which functions there are, in one text
 *   cuda_function.c     a function: arguments, threads, the loops that they share
 *   cuda_tile.c         a sum of products in tiles
 *   cuda_shared_tile.c  how a tile's factors come into shared memory
 *   cuda_scatter.c      stores where an index says, by warps that own the targets
 *   cuda_nest.c         a nest: where each instruction goes, reduced loops, stores
 *   cuda_vector.c       several elements of it side by side, with memory in vectors
 *   cuda_scalar.c       one instruction as an expression
 *   cuda_reduction.c    sums over replicas: a function that the runtime calls */
#ifndef DT_CODEGEN_CUDA_H
#define DT_CODEGEN_CUDA_H

#include "abi/launch.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_choices.h"

extern const char dt_cuda_prelude[], dt_cuda_reduction_helpers[]; /* the files of these names, embedded by the build */

/* ---- one function ---- */

/* A value that several nests of a function have in common. */
typedef struct dt_cuda_constant {
    const char *name, *type, *text;
} dt_cuda_constant;

typedef struct dt_cuda_function {
    dt_arena *arena;
    const dt_gpu_target *target;
    const dt_plan *plan;
    const dt_kernel_function *kernel; /* divided */
    const dt_gpu_function *how;
    const char **names; /* [kernel->n_buffers] of the arguments; NULL: not touched in this function */
    bool *stored;       /* [kernel->n_buffers] in this function */
    const char *index;  /* the type of indices */
    bool hoists;        /* what a nest computes once goes to the function's head: what is equal is computed once for all nests */
    DT_LIST(dt_cuda_constant) constants;
    bool says_rows, says_valid; /* the text has asked for these launch values by name */
    bool says_iteration;        /* … and for that of the innermost loop that the kernel is in, an argument of its own */
    dt_text *out;
    int depth; /* of indentation */
} dt_cuda_function;

/* Text in the function's arena; `f` has it. */
#define DT_CUDA_FORMAT(f, ...) dt_arena_format((f)->arena, __VA_ARGS__)

/* A line of the function, indented. A line that is "}" or begins with it closes a block, one that ends in "{" opens one. */
void dt_cuda_line(dt_cuda_function *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "for (int NAME = 0; NAME < n; NAME++) {", unrolled; and as many "}". */
void dt_cuda_unrolled(dt_cuda_function *f, const char *name, int n);
void dt_cuda_close_blocks(dt_cuda_function *f, int n);
const char *dt_cuda_memory_type_of(const dt_cuda_function *f, const dt_address *address); /* of what lies there */
/* The text of a loop's extent: a number, rows, or valid. */
const char *dt_cuda_extent(dt_cuda_function *f, int64_t extent);
/* The iterations of the loops of `set` together. */
const char *dt_cuda_count(dt_cuda_function *f, const dt_nest *nest, uint64_t set);

typedef struct dt_cuda_rendering {
    const char *lines;   /* of the program: "gpt.dt:13, 14"; NULL: none */
    const char *remarks; /* comment lines above the function: what its arguments are */
    const char *body;    /* from its arguments' parenthesis on */
    int n_arguments;
    int *arguments;     /* indices of the kernel's buffers; the launch follows them */
    const char **names; /* of the arguments */
} dt_cuda_rendering;
dt_cuda_rendering dt_cuda_render(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel,
                                 const dt_gpu_function *how);

/* ---- one nest ---- */

/* Which of the threads and iterations that make a check count a bad index. */
typedef enum dt_cuda_counting {
    DT_CUDA_COUNTS,       /* the one whose other loops stand at 0 */
    DT_CUDA_COUNTS_ALONE, /* the same, where dealt loops do not run */
    DT_CUDA_COUNTED       /* none: that has been done */
} dt_cuda_counting;

/* Where an instruction is used: the last place, if there are several. */
typedef struct dt_cuda_use {
    int n, level;
    bool late, several_stores; /* the nest stores other things, too */
} dt_cuda_use;

typedef struct dt_cuda_nest {
    dt_cuda_function *f;
    const dt_nest *nest;
    const dt_gpu_nest *how;
    uint64_t *depends;
    bool *needed, *late;           /* [n_instructions] late: after the reduced loops */
    int n_levels, *levels;         /* dt_gpu_nest_levels */
    dt_cuda_use *uses;             /* [n_instructions] */
    const char **values;           /* [n_instructions] the text that stands for the value */
    bool *loads;                   /* [n_instructions] that text reads memory */
    const char **loops;            /* [n_loops] their names */
    bool *loop_used;               /* [n_loops] the text has named it */
    const char *element;           /* the running index of the dealt loops; NULL: there is none */
    bool at_use;                   /* all but level 0 is written where it is used: a factor, or what becomes of a sum */
    const dt_gpu_vectors *vectors; /* what is done side by side at the moment */
    bool in_vector;                /* loads and stores are those of element k of vectors */
    dt_cuda_counting counting;
} dt_cuda_nest;

/* Analysis, before anything is written. */
void dt_cuda_nest_prepare(dt_cuda_nest *n, dt_cuda_function *f, int nest);
/* Lines between these two stand behind the declarations of those loops of `set` that they name: from `index`, which counts their iterations
 * row-major. What the first returns is for the second. */
dt_text *dt_cuda_begin(dt_cuda_nest *n, uint64_t set);
void dt_cuda_end(dt_cuda_nest *n, dt_text *out, uint64_t set, const char *index);
/* Instructions of level 0. */
void dt_cuda_nest_once(dt_cuda_nest *n);
/* One element: its instructions, loops, reductions and stores. The index of its dealt loops is named `element` (NULL: none). */
void dt_cuda_nest_element(dt_cuda_nest *n, const char *element);
/* The same without the declaration of loops: n->element and n->loops are set. */
void dt_cuda_nest_statements(dt_cuda_nest *n);
/* All checks, and what they depend on. */
void dt_cuda_nest_checks(dt_cuda_nest *n);

/* For tiles, which have loops of their own. A factor: writes all that it depends on, and returns its text. What becomes of `sum`, one result's: its
 * instructions and stores. */
const char *dt_cuda_nest_value(dt_cuda_nest *n, int instruction);
void dt_cuda_nest_finish(dt_cuda_nest *n, const char *sum);

/* Parts of these, for vectors. */
void dt_cuda_emit(dt_cuda_nest *n, int i);
void dt_cuda_store(dt_cuda_nest *n, const dt_store *store);
bool *dt_cuda_uses(dt_cuda_nest *n, int instruction);        /* [n_instructions] what it needs, itself; -1: what all stores need */
const char *dt_cuda_bare(dt_cuda_nest *n, const char *text); /* without the parentheses around all of it */

/* ---- cuda_vector.c: the same for all iterations of n->vectors ---- */

/* The elements from `e` on, or as many as are left. */
void dt_cuda_vector_element(dt_cuda_nest *n);
/* target.at[k] of a factor. */
void dt_cuda_vector_value(dt_cuda_nest *n, int instruction, const char *target);
/* `sum` is that of iteration k, whose results all stores have in vectors. */
void dt_cuda_vector_finish(dt_cuda_nest *n, const char *sum);

/* ---- cuda_tile.c, cuda_scatter.c: functions of these forms ---- */

void dt_cuda_tiles(dt_cuda_function *f);
void dt_cuda_scatter(dt_cuda_function *f);

/* ---- cuda_shared_tile.c ---- */

/* One factor: what is read for its side of the tile. */
typedef struct dt_cuda_shared_tile {
    const char *name, *count, *first; /* "a"; iterations of its loops; where the tile begins */
    const dt_gpu_side *side;
} dt_cuda_shared_tile;

/* Declares what one thread reads of it; reads that of terms `terms` and on; writes it to shared_NAME[next]. */
void dt_cuda_shared_tile_declare(dt_cuda_nest *n, const dt_cuda_shared_tile *tile);
void dt_cuda_shared_tile_read(dt_cuda_nest *n, const dt_cuda_shared_tile *tile);
void dt_cuda_shared_tile_write(dt_cuda_nest *n, const dt_cuda_shared_tile *tile);

/* ---- cuda_scalar.c ---- */

const char *dt_cuda_type(dt_dtype dtype);        /* in registers: f16 and bf16 are float */
const char *dt_cuda_memory_type(dt_dtype dtype); /* in memory: those are u16, and bool is u8 */
/* The expression for instruction `i`; its operands have values. */
const char *dt_cuda_expression(dt_cuda_nest *n, int i);
/* buffer[offset], and the value that is kept there from a register's. */
const char *dt_cuda_access(dt_cuda_nest *n, const dt_address *address);
const char *dt_cuda_to_memory(dt_cuda_nest *n, const char *value, dt_dtype dtype);
const char *dt_cuda_from_memory(dt_cuda_nest *n, const char *element, dt_dtype dtype);
/* The value of `dtype` that a reduction begins with. */
const char *dt_cuda_identity(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype);
/* a combined with b. */
const char *dt_cuda_combine(dt_cuda_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b);
const char *dt_cuda_convert(dt_cuda_nest *n, const char *x, dt_dtype from, dt_dtype to);

/* ---- cuda_reduction.c ---- */

/* The function of abi/reduction.h, for the collectives of these plans, in blocks of so many threads. Its body is NULL when memory is out. */
dt_cuda_source dt_cuda_render_reduction(dt_arena *arena, const dt_plan *const *plans, int n_plans, int threads);

/* ---- cuda_library.c: clear_rows(values, row, capacity, launch), transpose_filters(from, to, rows, columns) ---- */

extern const dt_cuda_source dt_cuda_clear_rows, dt_cuda_transpose_filters;

/* ---- cuda_remarks.c ---- */

/* Appends what is a warning in the remarks on a unit of these functions; where one names none of them, all are named. remarks NULL: there are none.
 */
void dt_cuda_add_warnings(dt_text *warnings, const char *remarks, const char *architecture, const dt_cuda_source *sources, int n_sources);

#endif
