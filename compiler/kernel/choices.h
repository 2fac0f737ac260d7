/* choices: how each nest becomes code for one CPU target (kernel/cpu_target.h).
 *
 * A plan says what is computed, in which form and, but for what stands here, in which order: it is the same for all targets. The rest depends on
 * registers and caches: the passes `choose` decide it for one target, and a renderer follows it to the letter. Sums depend on it where the lanes of a
 * vector, or the chains of a tile, keep partial ones; these are added up by halves, the upper half to the lower. */
#ifndef DT_KERNEL_CHOICES_H
#define DT_KERNEL_CHOICES_H

#include "compiler/kernel/cpu_target.h"
#include "compiler/kernel/kernel.h"

/* A kind of tile: of so many rows and vectors, all that a nest has are alike. */
typedef struct dt_tile {
    int rows, vectors;
    int chains;     /* partial sums of each element: chain c adds every chains-th product from the c-th on; a power of two */
    int unroll;     /* iterations of the innermost reduced loop that are one, where that loop is not unrolled as a whole */
    bool in_memory; /* the sums go through memory, to a loop over the tile that does what comes after them */
} dt_tile;

typedef enum dt_store_way {
    DT_STORE_ORDINARY,
    DT_STORE_STREAMING, /* past the caches, where the buffer begins at a line */
    DT_STORE_PREFETCHED /* its lines come into cache while the products of its tile run */
} dt_store_way;

enum {
    DT_MOST_TILE_VECTORS = 8,
    DT_MOST_TILES = 8,
    /* What is listed of an operand, on the stack: elements, and lists. */
    DT_MOST_LISTED = 16 << 10,
    DT_MOST_LISTS = 4 << 10,
    /* The memory of packed operands, on the stack: blocks of b, and rows of a. */
    DT_PACKED_BLOCK_BYTES = 64 << 10,
    DT_PACKED_ROWS_BYTES = 128 << 10
};

typedef struct dt_nest_choices {
    int *order;           /* [n_loops] loops in order of execution: outer ones, then reduced ones */
    bool *unrolled;       /* [n_loops], by loop: its iterations are written out */
    int *jammed;          /* [n_loops], by loop: iterations of an outer loop whose copies share one body; 0: it stays as it is */
    int vector_loop;      /* -1: none */
    int width;            /* elements of a vector, a power of two; 1 without a vector loop */
    dt_store_way *stores; /* [n_stores] */

    /* Sums of products in register tiles (dt_nest.tiling): rows and blocks of vectors are dealt into tiles of nearly equal size (dt_deal). Where
     * there are so many of them as is known at run time only, they are tiles of the greatest size, then of one row, or one vector. */
    bool tiled;
    int tile_rows, tile_vectors; /* at most, of one tile */
    bool skips_zeros;            /* products with a zero of operand a are left out: a tile has one row, and goes through a list of the others */
    int n_tiles;
    dt_tile tiles[DT_MOST_TILES];

    /* Operands that are copied first. Block by block of the vector loop, b is packed over the innermost reduced loop, and one around it: the sums of
     * a part of it are kept in the result until the next part goes on. Of a so many rows at a time are packed, and all blocks run over them. */
    int packed_loop;      /* -1: b is read where it is */
    int packed_around;    /* -1: none */
    int64_t depth;        /* iterations of packed_loop in a part */
    int64_t packed_rows;  /* rows of a that are packed at a time, a multiple of tile_rows; 0: a is read where it is */
    int64_t packed_gap;   /* elements between packed rows */
    bool prefetches_rows; /* what the next rows need of an iteration is asked for while these are copied */
} dt_nest_choices;

typedef struct dt_choices {
    const dt_cpu_target *target;
    int n_plans;
    const dt_plan *const *plans;
    dt_nest_choices ***nests; /* [plan][kernel][nest] */
} dt_choices;

/* [n_nests] of a kernel of one of the plans */
const dt_nest_choices *dt_choices_of(const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel);

/* Of operand a of tiles that skip zeros there is a list for each iteration of the outer loops that it depends on, but for a loop over rows that nests
 * share. List number: sum of strides * loops; n_elements: of the longest one. */
typedef struct dt_factor_lists {
    int64_t n, n_elements;
    int64_t *strides; /* [n_loops] */
} dt_factor_lists;
dt_factor_lists dt_nest_factor_lists(dt_arena *arena, const dt_nest *nest);

/* One of choices->tiles; NULL: there is none of this size. */
const dt_tile *dt_tile_find(const dt_nest_choices *choices, int rows, int vectors);

/* So many things as the fewest parts of at most `most`, of nearly equal size: the first n_larger parts are of size + 1, the others of `size`. */
typedef struct dt_parts {
    int64_t n, size, n_larger;
} dt_parts;
dt_parts dt_deal(int64_t things, int64_t most);

/* The sizes that a nest's rows, or the vectors of its vector loop, are dealt into. Needs tile_rows, tile_vectors, width and packed_rows. */
typedef struct dt_tile_sizes {
    int n, items[3];
} dt_tile_sizes;
dt_tile_sizes dt_row_sizes(const dt_nest *nest, const dt_nest_choices *choices);
dt_tile_sizes dt_vector_sizes(const dt_nest *nest, const dt_nest_choices *choices);

/* ---- what is allowed ---- */

/* Refuses what a renderer could not follow, or what would not compute what the plan says. */
dt_status *dt_choices_verify(dt_arena *arena, const dt_choices *choices);

/* What the nest lacks for register tiles, for a vector loop, for jamming a loop, or for streaming one of its stores; NULL: nothing.
 * depends: dt_nest_tile_depends. */
const char *dt_tiles_need(const dt_nest *nest, const uint64_t *depends);
const char *dt_vector_loop_needs(const dt_nest *nest, int loop, const uint64_t *depends);
const char *dt_jamming_needs(const dt_nest *nest, int loop);
const char *dt_skipping_needs(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest); /* of tiles, to skip zeros */
const char *dt_packing_rows_needs(const dt_nest *nest, const dt_nest_choices *choices); /* of a; order and packed loops are chosen */
const char *dt_streaming_needs(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int vector_loop, const dt_store *store,
                               int64_t line_bytes);

#endif
