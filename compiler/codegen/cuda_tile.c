/* cuda_tile: a sum of products in tiles.
 *
 * A block computes 64 x 64 results, 128 x 64 where there are enough of them for every multiprocessor, or fewer where a side has no more. It walks the
 * terms of the sums sixteen at a time: its 256 threads put those of both factors, computed on the way or read from wherever they are, into shared
 * memory (cuda_shared_tile.c), and add their products to sums that stay in registers. There are two buffers in shared memory: what one holds is
 * multiplied while the next stage is loaded, and one barrier a stage is enough. So each element of a factor is read, or computed, once for a whole
 * side of results. What becomes of a sum (bias, activation, …) follows in registers too.
 *
 * In f32 a thread has 4 x 4 sums, or several such, and terms are added in the order of the reduced loops, as one thread alone would: the bits are
 * those of the plain form, but for the sign of a zero, since the last terms are filled up with zeros. Factors that are rounded to tf32 or bf16 are
 * multiplied by tensor cores: a warp has sums of 16 x 8 results, and adds 8 or 16 terms at a time, in their order; the order within these is the
 * hardware's. What loops mean, a convolution's window or a transposed factor, is read off the addresses as everywhere: there is one form for all. */
#include "compiler/codegen/cuda.h"

#include <string.h>

#define FORMAT(f, ...) dt_arena_format((f)->arena, __VA_ARGS__)

enum {
    OWN = 4,   /* neighbouring results of a thread along each side, at most */
    WARPS = 8, /* of a block */
    MOST_DOWN = 4,
    PIECE_ROWS = 16, /* of a warp's product */
    PIECE_COLUMNS = 8
};

typedef struct tile {
    dt_cuda_nest n;
    dt_cuda_shared_tile rows, columns;
    dt_precision precision;
} tile;

static bool by_warps(const tile *t) { return t->precision != DT_PRECISION_F32; }

/* Columns of padding in shared memory, so that lanes read from different banks. */
static int padding(const tile *t) { return t->precision == DT_PRECISION_TF32 ? 8 : 4; }

/* ---- who has which results ---- */

/* Warps of the block, down and across the tile: pieces of 16 x 8 for all of them. */
static int n_down(const tile *t) { return t->rows.side / PIECE_ROWS < MOST_DOWN ? t->rows.side / PIECE_ROWS : MOST_DOWN; }
static int n_across(const tile *t) { return WARPS / n_down(t); }

/* What a thread has along each side: results in f32, pieces with its warp. */
static int n_rows(const tile *t) { return by_warps(t) ? t->rows.side / n_down(t) / PIECE_ROWS : t->rows.side / 16; }
static int n_columns(const tile *t) { return by_warps(t) ? t->columns.side / n_across(t) / PIECE_COLUMNS : t->columns.side / 16; }
static int neighbours(int n) { return n < OWN ? n : OWN; }

/* In f32 a thread has up to OWN x OWN neighbouring results at own_row and own_column, and the same 64 further along each side. A warp of eight, up to
 * four of them one below the other, has pieces of 16 x 8; a thread of it what the prelude says. */
static void declare_own(const tile *t) {
    dt_cuda_function *f = t->n.f;
    if (by_warps(t)) {
        dt_cuda_line(f, "const int lane = threadIdx.x, quad = lane %% 4, group = lane / 4 %% 8;");
        dt_cuda_line(f, "const int own_row = lane / 32 %% %d * %d + group, own_column = lane / %d * %d;", n_down(t), t->rows.side / n_down(t),
                     DT_WARP * n_down(t), t->columns.side / n_across(t));
    } else {
        dt_cuda_line(f, "const int lane = threadIdx.x, own_row = lane / 16 * %d, own_column = lane %% 16 * %d;", neighbours(n_rows(t)),
                     neighbours(n_columns(t)));
    }
}

/* Element i of a thread's results along a side. */
static const char *own(dt_cuda_function *f, const char *base, const char *i, int n) {
    return n <= OWN ? FORMAT(f, "%s + %s", base, i) : FORMAT(f, "%s + %s / %d * 64 + %s %% %d", base, i, OWN, i, OWN);
}

static void open_loops(dt_cuda_function *f, int rows, int columns) {
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", rows);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int j = 0; j < %d; j++) {", columns);
}

static void close_loops(dt_cuda_function *f, int n) {
    for (int i = 0; i < n; i++) dt_cuda_line(f, "}");
}

/* ---- products ---- */

/* What a thread multiplies in f32: its own results' values of one term, as many at a time as are neighbours. */
static void read_own(dt_cuda_function *f, const dt_cuda_shared_tile *shared, const char *base, int n) {
    int width = neighbours(n);
    dt_cuda_line(f, "values<float, %d> %s[%d];", width, shared->name, n / width);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) %s[i] = load<%d>(&shared_%s[now][term][%s + 64 * i]);", n / width, shared->name, width,
                 shared->name, base);
}

static void add_products_by_threads(const tile *t) {
    dt_cuda_function *f = t->n.f;
    int height = neighbours(n_rows(t)), width = neighbours(n_columns(t));
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int term = 0; term < %d; term++) {", DT_CUDA_TERMS);
    read_own(f, &t->rows, "own_row", n_rows(t));
    read_own(f, &t->columns, "own_column", n_columns(t));
    open_loops(f, n_rows(t), n_columns(t));
    dt_cuda_line(f, "total[i][j] = fmaf(a[i / %d].at[i %% %d], b[j / %d].at[j %% %d], total[i][j]);", height, height, width, width);
    close_loops(f, 3);
}

/* A register's worth of a factor at `term` and `result`: one value, or two terms. */
static const char *piece(const tile *t, const char *name, const char *term, const char *result) {
    if (t->precision == DT_PRECISION_TF32) return FORMAT(t->n.f, "__float_as_uint(shared_%s[now][%s][%s])", name, term, result);
    return FORMAT(t->n.f, "bf16_pair(shared_%s[now][%s][%s], shared_%s[now][%s + 1][%s])", name, term, result, name, term, result);
}

static void add_products_by_warps(const tile *t) {
    dt_cuda_function *f = t->n.f;
    bool tf32 = t->precision == DT_PRECISION_TF32;
    const char *first = tf32 ? "term + quad" : "2 * quad", *further = tf32 ? "term + quad + 4" : "2 * quad + 8";
    const char *row = "own_row + 16 * i", *below = "own_row + 16 * i + 8", *column = "own_column + group + 8 * j";
    if (tf32) dt_cuda_line(f, "#pragma unroll");
    if (tf32) dt_cuda_line(f, "for (int term = 0; term < %d; term += 8) {", DT_CUDA_TERMS);
    dt_cuda_line(f, "u32 a[%d][4];", n_rows(t));
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", n_rows(t));
    dt_cuda_line(f, "a[i][0] = %s;", piece(t, "a", first, row));
    dt_cuda_line(f, "a[i][1] = %s;", piece(t, "a", first, below));
    dt_cuda_line(f, "a[i][2] = %s;", piece(t, "a", further, row));
    dt_cuda_line(f, "a[i][3] = %s;", piece(t, "a", further, below));
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int j = 0; j < %d; j++) {", n_columns(t));
    dt_cuda_line(f, "const u32 b[2] = {%s, %s};", piece(t, "b", first, column), piece(t, "b", further, column));
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) multiply_%s(total[i][j], a[i], b);", n_rows(t), tf32 ? "tf32" : "bf16");
    close_loops(f, tf32 ? 2 : 1);
}

/* ---- the tile ---- */

/* Results of a thread that lie side by side are stored at once, where they do so in memory; what is read for them alike. */
static void choose_width(tile *t, int width) {
    dt_cuda_nest *n = &t->n;
    const dt_nest *nest = n->nest;
    int along = nest->n_loops - 1;
    while (along >= 0 && (!(t->columns.loops >> along & 1) || nest->loops[along].extent == 1)) along--;
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        if (along < 0 || store->accumulate || store->guard >= 0 || !dt_cuda_is_vector(n, &store->address, along, width)) return;
    }
    n->width = width;
    n->along = along;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        n->vectors[i] = x->kind == DT_INSTRUCTION_LOAD && x->guard < 0 && dt_cuda_is_vector(n, &x->address, along, width);
    }
}

/* The loops over a thread's results, with `at` and `beside` of each, or of the first of `width`; returns what its sum is called. */
static const char *open_results(const tile *t) {
    dt_cuda_function *f = t->n.f;
    int width = t->n.width, columns = n_columns(t), half = 2 / width;
    if (!by_warps(t)) {
        const char *beside = width == 1 ? own(f, "left", "j", columns) : "left + 64 * j";
        open_loops(f, n_rows(t), columns / width);
        dt_cuda_line(f, "const %s at = %s, beside = %s;", dt_cuda_index_type(f), own(f, "top", "i", n_rows(t)), beside);
        return width == 1 ? "total[i][j]" : FORMAT(f, "total[i][%d * j + k]", width);
    }
    open_loops(f, n_rows(t), columns);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int c = 0; c < %d; c++) {", 2 * half);
    dt_cuda_line(f, "const %s at = top + 16 * i + c%s * 8, beside = left + 8 * j%s;", dt_cuda_index_type(f), width == 1 ? " / 2" : "",
                 width == 1 ? " + c % 2" : "");
    return width == 1 ? "total[i][j][c]" : "total[i][j][2 * c + k]";
}

static void finish(tile *t) {
    dt_cuda_nest *n = &t->n;
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    bool warps = by_warps(t);
    choose_width(t, warps ? 2 : neighbours(n_columns(t)));
    dt_cuda_line(f, "const %s top = not_ahead(first_row + own_row), left = not_ahead(first_column + own_column%s);", dt_cuda_index_type(f),
                 warps ? " + 2 * quad" : "");
    const char *sum = open_results(t);
    dt_cuda_line(f, "if (at < n_rows && beside < n_columns) {");
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((t->rows.loops | t->columns.loops) >> l & 1) n->loop_used[l] = false;
    f->out = &body;
    dt_cuda_nest_finish(n, sum);
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, t->rows.loops, n->loop_used, "at");
    dt_cuda_declare_loops(f, n->nest, n->loops, t->columns.loops, n->loop_used, "beside");
    dt_text_append(out, body.data != NULL ? body.data : "");
    n->width = 1;
    close_loops(f, warps ? 4 : 3);
}

/* One tile, in one iteration of the loops that both factors share. Each iteration of the emitted loop reads a stage and multiplies the one before. */
static void one_tile(tile *t) {
    dt_cuda_nest *n = &t->n;
    dt_cuda_function *f = n->f;
    const char *type = dt_cuda_index_type(f), *count = dt_cuda_count(f, n->nest, n->reduced);
    dt_cuda_line(f, "float total[%d][%d]%s = {};", n_rows(t), n_columns(t), by_warps(t) ? "[4]" : "");
    dt_cuda_line(f, "#pragma unroll 1");
    dt_cuda_line(f, "for (%s terms = 0; terms < %s + %d; terms += %d) {", type, count, DT_CUDA_TERMS, DT_CUDA_TERMS);
    dt_cuda_line(f, "const int next = terms / %d %% 2, now = 1 - next;", DT_CUDA_TERMS);
    dt_cuda_shared_tile_declare(n, &t->rows);
    dt_cuda_shared_tile_declare(n, &t->columns);
    dt_cuda_line(f, "if (terms < %s) {", count);
    dt_cuda_shared_tile_read(n, &t->rows);
    dt_cuda_shared_tile_read(n, &t->columns);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "if (terms > 0) {");
    if (by_warps(t))
        add_products_by_warps(t);
    else
        add_products_by_threads(t);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "if (terms < %s) {", count);
    dt_cuda_shared_tile_write(n, &t->rows, "next");
    dt_cuda_shared_tile_write(n, &t->columns, "next");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "__syncthreads();");
    dt_cuda_line(f, "}");
    finish(t);
}

void dt_cuda_tiles(dt_cuda_function *f) {
    const dt_nest *nest = &f->kernel->nests[f->phase->first];
    const char *type = dt_cuda_index_type(f);
    const dt_product_loops loops = f->phase->product;
    tile t;
    dt_cuda_nest_prepare(&t.n, f, nest);
    t.n.at_use = true;
    t.precision = loops.precision;
    t.rows = (dt_cuda_shared_tile){"a", "n_rows", "first_row", loops.rows, loops.row_factor, loops.tile_rows, -1, false};
    t.columns = (dt_cuda_shared_tile){"b", "n_columns", "first_column", loops.columns, loops.column_factor, loops.tile_columns, -1, false};
    dt_cuda_shared_tile_prepare(&t.n, &t.rows);
    dt_cuda_shared_tile_prepare(&t.n, &t.columns);
    int height = loops.tile_rows, width = loops.tile_columns;
    dt_cuda_line(f, "alignas(16) __shared__ float shared_a[2][%d][%d], shared_b[2][%d][%d];", DT_CUDA_TERMS, height + padding(&t), DT_CUDA_TERMS,
                 width + padding(&t));
    declare_own(&t);
    dt_cuda_line(f, "const %s n_rows = %s, n_columns = %s;", type, dt_cuda_count(f, nest, loops.rows), dt_cuda_count(f, nest, loops.columns));
    dt_cuda_line(f, "const %s across = (n_columns + %d) / %d, tiles = (n_rows + %d) / %d * across;", type, width - 1, width, height - 1, height);
    dt_text body = {.arena = f->arena}, *out = f->out;
    const char *both = dt_cuda_count(f, nest, loops.both);
    bool one = strcmp(both, "1") == 0;
    dt_cuda_line(f, "for (%s team = blockIdx.x; team < %s; team += gridDim.x) {", type, one ? "tiles" : FORMAT(f, "tiles * %s", both));
    dt_cuda_line(f, "const %s first_row = team %% tiles / across * %d, first_column = team %% tiles %% across * %d;", type, height, width);
    if (!one) dt_cuda_line(f, "const %s batch = team / tiles;", type);
    f->out = &body;
    dt_cuda_nest_once(&t.n);
    one_tile(&t);
    f->out = out;
    dt_cuda_declare_loops(f, nest, t.n.loops, loops.both, t.n.loop_used, "batch");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_cuda_line(f, "}");
}
