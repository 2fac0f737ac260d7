/* cuda_tile: a sum of products in tiles.
 *
 * A block computes 64 x 64 results. It walks the terms of the sums sixteen at a time: its 256 threads put those of both factors, computed on the way
 * or read from wherever they are, into shared memory, wait for one another, and then each adds sixteen products to each of its 4 x 4 sums, which stay
 * in registers. So each element of a factor is read, or computed, once for 64 results. What becomes of a sum (bias, activation, …) follows in
 * registers too.
 *
 * Terms are added in the order of the reduced loops, as one thread alone would: the bits are those of the plain form, but for the sign of a zero,
 * since the last terms are filled up with zeros. What loops mean, a convolution's window or a transposed factor, is read off the addresses as
 * everywhere: there is one form for all. */
#include "compiler/codegen/cuda.h"

#include <string.h>

#define FORMAT(f, ...) dt_arena_format((f)->arena, __VA_ARGS__)

enum {
    TERMS = 16, /* of the sums at a time */
    SIDE = DT_TILE_SIDE,
    OWN = 4,        /* results of a thread along each side */
    PADDED = 64 + 4 /* columns of shared memory: a strip is written along either side without too many threads at one bank */
};

/* One factor: what is read for its side of the tile. */
typedef struct side {
    const char *name, *count, *first; /* "a"; turns of its loops; where the tile begins */
    uint64_t loops;
    int factor;
} side;

/* The last loop of a set that has several turns; -1: none. */
static int last_loop(const dt_nest *nest, uint64_t set) {
    for (int l = nest->n_loops - 1; l >= 0; l--)
        if ((set >> l & 1) && nest->loops[l].extent != 1) return l;
    return -1;
}

static void count_walks(const dt_nest *nest, int i, int loop, int *n) {
    const dt_instruction *x = &nest->instructions[i];
    if (x->kind == DT_INSTRUCTION_LOAD && loop >= 0 && x->address.coefficients[loop] == 1) ++*n;
    for (int k = 0; k < dt_instruction_n_uses(x); k++)
        if (dt_instruction_use(x, k) >= 0) count_walks(nest, dt_instruction_use(x, k), loop, n);
}

/* Whether neighbours in memory are neighbours in the order of terms rather than of results. */
static bool walks_terms(const dt_cuda_nest *n, const side *s) {
    int terms = 0, results = 0;
    count_walks(n->nest, s->factor, last_loop(n->nest, n->reduced), &terms);
    count_walks(n->nest, s->factor, last_loop(n->nest, s->loops), &results);
    return terms > results;
}

/* Writes `body` behind the loops that it names. */
static void declare(dt_cuda_nest *n, uint64_t set, const char *index) { dt_cuda_declare_loops(n->f, n->nest, n->loops, set, n->loop_used, index); }

static void forget(dt_cuda_nest *n, uint64_t set) {
    for (int l = 0; l < n->nest->n_loops; l++)
        if (set >> l & 1) n->loop_used[l] = false;
}

/* Its strip of a tile: 64 places by 16 terms. */
static void read_strip(dt_cuda_nest *n, const side *s) {
    dt_cuda_function *f = n->f;
    const char *type = dt_cuda_index_type(f);
    dt_text body = {0}, *out = f->out;
    dt_cuda_line(f, "for (int i = lane; i < %d; i += %d) {", SIDE * TERMS, DT_CUDA_BLOCK);
    if (walks_terms(n, s))
        dt_cuda_line(f, "const int place = i / %d, term = i %% %d;", TERMS, TERMS);
    else
        dt_cuda_line(f, "const int place = i %% %d, term = i / %d;", SIDE, SIDE);
    dt_cuda_line(f, "const %s at = %s + place, d = terms + term;", type, s->first);
    dt_cuda_line(f, "float value = 0.0f;");
    dt_cuda_line(f, "if (at < %s && d < %s) {", s->count, dt_cuda_count(f, n->nest, n->reduced));
    forget(n, s->loops | n->reduced);
    f->out = &body;
    const char *value = dt_cuda_nest_value(n, s->factor);
    f->out = out;
    declare(n, s->loops, "at");
    declare(n, n->reduced, "d");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_text_free(&body);
    dt_cuda_line(f, "value = %s;", value);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "strip_%s[term][place] = value;", s->name);
    dt_cuda_line(f, "}");
}

static void add_products(dt_cuda_function *f) {
    dt_cuda_line(f, "for (int term = 0; term < %d; term++) {", TERMS);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", OWN);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int j = 0; j < %d; j++) {", OWN);
    dt_cuda_line(f, "total[i][j] = fmaf(strip_a[term][own_row + i], strip_b[term][own_column + j], total[i][j]);");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}

static void finish(dt_cuda_nest *n, const side *rows, const side *columns) {
    dt_cuda_function *f = n->f;
    const char *type = dt_cuda_index_type(f);
    dt_text body = {0}, *out = f->out;
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", OWN);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int j = 0; j < %d; j++) {", OWN);
    dt_cuda_line(f, "const %s at = first_row + own_row + i, beside = first_column + own_column + j;", type);
    dt_cuda_line(f, "if (at < %s && beside < %s) {", rows->count, columns->count);
    forget(n, rows->loops | columns->loops);
    f->out = &body;
    dt_cuda_nest_finish(n, "total[i][j]");
    f->out = out;
    declare(n, rows->loops, "at");
    declare(n, columns->loops, "beside");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_text_free(&body);
    for (int i = 0; i < 3; i++) dt_cuda_line(f, "}");
}

/* One tile, of the turn of the loops that both factors share. */
static void one_tile(dt_cuda_nest *n, const side *rows, const side *columns) {
    dt_cuda_function *f = n->f;
    dt_cuda_line(f, "float total[%d][%d] = {};", OWN, OWN);
    dt_cuda_line(f, "for (%s terms = 0; terms < %s; terms += %d) {", dt_cuda_index_type(f), dt_cuda_count(f, n->nest, n->reduced), TERMS);
    read_strip(n, rows);
    read_strip(n, columns);
    dt_cuda_line(f, "__syncthreads();");
    add_products(f);
    dt_cuda_line(f, "__syncthreads();");
    dt_cuda_line(f, "}");
    finish(n, rows, columns);
}

void dt_cuda_tiles(dt_cuda_function *f) {
    const dt_nest *nest = &f->kernel->nests[f->phase->first];
    const char *type = dt_cuda_index_type(f);
    dt_product_loops loops = {0};
    dt_cuda_nest n;
    dt_cuda_nest_prepare(&n, f, nest);
    n.one_place = true;
    dt_nest_wants_tiles(f->plan, f->kernel, nest, &loops);
    side rows = {"a", "n_rows", "first_row", loops.rows, loops.row_factor};
    side columns = {"b", "n_columns", "first_column", loops.columns, loops.column_factor};
    dt_cuda_line(f, "__shared__ float strip_a[%d][%d], strip_b[%d][%d];", TERMS, PADDED, TERMS, PADDED);
    dt_cuda_line(f, "const int lane = threadIdx.x, own_row = lane / %d * %d, own_column = lane %% %d * %d;", SIDE / OWN, OWN, SIDE / OWN, OWN);
    dt_cuda_line(f, "const %s n_rows = %s, n_columns = %s;", type, dt_cuda_count(f, nest, loops.rows), dt_cuda_count(f, nest, loops.columns));
    dt_cuda_line(f, "const %s across = (n_columns + %d) / %d, tiles = (n_rows + %d) / %d * across;", type, SIDE - 1, SIDE, SIDE - 1, SIDE);
    dt_text body = {0}, *out = f->out;
    const char *both = dt_cuda_count(f, nest, loops.both);
    bool one = strcmp(both, "1") == 0;
    dt_cuda_line(f, "for (%s team = blockIdx.x; team < %s; team += gridDim.x) {", type, one ? "tiles" : FORMAT(f, "tiles * %s", both));
    dt_cuda_line(f, "const %s first_row = team %% tiles / across * %d, first_column = team %% tiles %% across * %d;", type, SIDE, SIDE);
    if (!one) dt_cuda_line(f, "const %s turn = team / tiles;", type);
    f->out = &body;
    dt_cuda_nest_once(&n);
    one_tile(&n, &rows, &columns);
    f->out = out;
    declare(&n, loops.both, "turn");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_text_free(&body);
    dt_cuda_line(f, "}");
}
