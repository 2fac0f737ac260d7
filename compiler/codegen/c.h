/* c: what the parts of the C renderer share. It prints a plan with its choices (kernel/choices.h) as one C file, for people and as a second opinion:
 * its kernels leave the bits that LLVM's leave. Each element's sums go in the order that the choices say; how elements follow one another is free.
 *
 *     c.c          the file, its kernels, and the loops that nests share
 *     c_nest.c     the loops, statements and reductions of a nest
 *     c_tile.c     sums of products in vectors
 *     c_scalar.c   one instruction as an expression
 *     c_prelude.h  functions that expressions use
 */
#ifndef DT_CODEGEN_C_H
#define DT_CODEGEN_C_H

#include "abi/launch.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/analysis.h"

extern const char dt_c_prelude[]; /* c_prelude.h, embedded by the build */

typedef struct dt_c_function {
    dt_arena *arena;
    dt_text *out;
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest_choices *choices; /* [n_nests] */
} dt_c_function;

typedef struct dt_c_nest {
    dt_c_function *f;
    const dt_nest *nest;
    const dt_nest_choices *choices;
    int n_outer;
    bool strips;                  /* the vector loop goes in strips of a vector, whose lanes are the innermost loop */
    uint64_t *depends;            /* [n_instructions] */
    int *levels;                  /* [n_instructions] */
    bool *late, *needed;          /* [n_instructions] */
    const char **values, **loops; /* names */
    const char *start, *end;      /* of a divided nest: iterations of loop 0; else NULL */
    int tile_rows, tile_vectors;  /* of a tiled nest: what the tiles at work are made of */
} dt_c_nest;

#define DT_C_LINE(n, ...) (dt_text_format((n)->f->out, __VA_ARGS__), dt_text_append((n)->f->out, "\n"))
#define DT_C_FORMAT(n, ...) dt_arena_format((n)->f->arena, __VA_ARGS__)

/* ---- c_scalar.c ---- */

const char *dt_c_type(dt_dtype dtype); /* of values; f16 and bf16 are computed in float */
const char *dt_c_memory_type(dt_dtype dtype);
const char *dt_c_extent(dt_arena *arena, int64_t extent);
const char *dt_c_expression(dt_c_nest *n, int instruction); /* not of REDUCED */
const char *dt_c_convert(dt_c_nest *n, const char *x, dt_dtype from, dt_dtype to);
const char *dt_c_identity(dt_c_nest *n, dt_combiner combiner, dt_dtype dtype);
const char *dt_c_combine(dt_c_nest *n, dt_combiner combiner, dt_dtype dtype, const char *a, const char *b);
const char *dt_c_element(dt_c_nest *n, const dt_address *address);                    /* an lvalue */
const char *dt_c_read(dt_c_nest *n, const dt_address *address);                       /* its value */
const char *dt_c_written(dt_c_nest *n, const dt_address *address, const char *value); /* what memory holds of a value */

/* ---- c_nest.c ---- */

/* The iterations that one of the reduced loops runs. */
typedef struct dt_c_range {
    const char *start, *end;
    bool is_part;     /* of the packed loop, from `part` to `part_end` */
    bool at_run_time; /* how many there are is known then only */
} dt_c_range;

/* `group`: the nests that share a loop over rows with this one, itself among them. */
dt_c_nest *dt_c_nest_prepare(dt_c_function *f, const dt_nest *nest, const dt_nest *group, int n_group);
void dt_c_level(dt_c_nest *n, int level, bool late); /* the instructions of one level */
void dt_c_inside(dt_c_nest *n, int level);           /* the code inside of the first `level` loops */

/* ---- c_tile.c ---- */

bool dt_c_has_vector_tiles(const dt_c_nest *n);
/* The sums of a tile of so many rows and vectors, which the loops around stand at the first element of. ranges: of the reduced loops, in order. */
void dt_c_tile_products(dt_c_nest *n, const dt_c_range *ranges);
void dt_c_tile_finish(dt_c_nest *n, void (*finish)(dt_c_nest *n)); /* finish: for each element, with its sum */

#endif
