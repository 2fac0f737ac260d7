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

#define FORMAT(f, ...) DT_CUDA_FORMAT(f, __VA_ARGS__)

enum {
    OWN = DT_GPU_NEIGHBOURS /* of a thread along each side */
};

typedef struct tile {
    dt_cuda_nest n;
    const dt_gpu_tiles *how;
    dt_cuda_shared_tile rows, columns;
    int n_rows, n_columns; /* what a thread has along each side: results in f32, pieces of 16 x 8 otherwise */
    bool by_lanes;         /* so many threads as a tensor core takes multiply together */
} tile;

/* ---- who has which results ---- */

static int neighbours(int n) { return n < OWN ? n : OWN; }

/* In f32 a thread has up to OWN x OWN neighbouring results at own_row and own_column, and the same further along each side, as many threads on as the
 * square of them has. Lanes that multiply together have pieces of 16 x 8, and a thread of them what the prelude says. */
static void declare_own(const tile *t) {
    dt_cuda_function *f = t->n.f;
    int lanes = f->target->product_lanes, down = t->how->n_down;
    if (t->by_lanes) {
        dt_cuda_line(f, "const int lane = threadIdx.x, quad = lane %% 4, group = lane / 4 %% 8;");
        dt_cuda_line(f, "const int own_row = lane / %d %% %d * %d + group, own_column = lane / %d * %d;", lanes, down, 16 * t->n_rows, lanes * down,
                     8 * t->n_columns);
    } else {
        int side = t->how->rows.results / t->n_rows;
        dt_cuda_line(f, "const int lane = threadIdx.x, own_row = lane / %d * %d, own_column = lane %% %d * %d;", side, neighbours(t->n_rows), side,
                     neighbours(t->n_columns));
    }
}

/* From one OWN results of a thread to the next. */
static int stride(const tile *t) { return t->how->rows.results / t->n_rows * OWN; }

/* Element i of a thread's results along a side. */
static const char *own(const tile *t, const char *base, const char *i, int n) {
    dt_cuda_function *f = t->n.f;
    return n <= OWN ? FORMAT(f, "%s + %s", base, i) : FORMAT(f, "%s + %s / %d * %d + %s %% %d", base, i, OWN, stride(t), i, OWN);
}

/* ---- products ---- */

/* What a thread multiplies in f32: its own results' values of one term, as many at a time as are neighbours. */
static void read_own(const tile *t, const dt_cuda_shared_tile *shared, const char *base, int n) {
    int width = neighbours(n);
    dt_cuda_line(t->n.f, "values<float, %d> %s[%d];", width, shared->name, n / width);
    dt_cuda_line(t->n.f, "#pragma unroll");
    dt_cuda_line(t->n.f, "for (int i = 0; i < %d; i++) %s[i] = load<%d>(&shared_%s[now][term][%s + %d * i]);", n / width, shared->name, width,
                 shared->name, base, stride(t));
}

static void add_products_by_threads(const tile *t) {
    dt_cuda_function *f = t->n.f;
    int height = neighbours(t->n_rows), width = neighbours(t->n_columns);
    dt_cuda_unrolled(f, "term", t->how->terms);
    read_own(t, &t->rows, "own_row", t->n_rows);
    read_own(t, &t->columns, "own_column", t->n_columns);
    dt_cuda_unrolled(f, "i", t->n_rows);
    dt_cuda_unrolled(f, "j", t->n_columns);
    dt_cuda_line(f, "total[i][j] = fmaf(a[i / %d].at[i %% %d], b[j / %d].at[j %% %d], total[i][j]);", height, height, width, width);
    dt_cuda_close_blocks(f, 3);
}

/* A register's worth of a factor at `term` and `result`: one value, or two terms. */
static const char *piece(const tile *t, const char *name, const char *term, const char *result) {
    if (t->how->precision == DT_PRECISION_TF32) return FORMAT(t->n.f, "__float_as_uint(shared_%s[now][%s][%s])", name, term, result);
    return FORMAT(t->n.f, "bf16_pair(shared_%s[now][%s][%s], shared_%s[now][%s + 1][%s])", name, term, result, name, term, result);
}

static void add_products_by_lanes(const tile *t) {
    dt_cuda_function *f = t->n.f;
    bool tf32 = t->how->precision == DT_PRECISION_TF32;
    const char *terms[] = {tf32 ? "term + quad" : "2 * quad", tf32 ? "term + quad + 4" : "2 * quad + 8"};
    const char *rows[] = {"own_row + 16 * i", "own_row + 16 * i + 8"}, *column = "own_column + group + 8 * j";
    if (tf32) dt_cuda_line(f, "#pragma unroll");
    if (tf32) dt_cuda_line(f, "for (int term = 0; term < %d; term += 8) {", t->how->terms);
    dt_cuda_line(f, "u32 a[%d][4];", t->n_rows);
    dt_cuda_unrolled(f, "i", t->n_rows);
    for (int k = 0; k < 4; k++) dt_cuda_line(f, "a[i][%d] = %s;", k, piece(t, "a", terms[k / 2], rows[k % 2]));
    dt_cuda_line(f, "}");
    dt_cuda_unrolled(f, "j", t->n_columns);
    dt_cuda_line(f, "const u32 b[2] = {%s, %s};", piece(t, "b", terms[0], column), piece(t, "b", terms[1], column));
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int i = 0; i < %d; i++) multiply_%s(total[i][j], a[i], b);", t->n_rows, tf32 ? "tf32" : "bf16");
    dt_cuda_close_blocks(f, tf32 ? 2 : 1);
}

/* ---- the tile ---- */

/* The loops over a thread's results, with `at` and `beside` of each, or of the first of a vector; returns what its sum is called. */
static const char *open_results(const tile *t) {
    dt_cuda_function *f = t->n.f;
    int width = t->n.vectors->width;
    dt_cuda_unrolled(f, "i", t->n_rows);
    dt_cuda_unrolled(f, "j", t->by_lanes ? t->n_columns : t->n_columns / width);
    if (!t->by_lanes) {
        const char *beside = width == 1 ? own(t, "left", "j", t->n_columns) : FORMAT(f, "left + %d * j", stride(t));
        dt_cuda_line(f, "const %s at = %s, beside = %s;", f->index, own(t, "top", "i", t->n_rows), beside);
        return width == 1 ? "total[i][j]" : FORMAT(f, "total[i][%d * j + k]", width);
    }
    dt_cuda_unrolled(f, "c", 4 / width);
    dt_cuda_line(f, "const %s at = top + 16 * i + c%s * 8, beside = left + 8 * j%s;", f->index, width == 1 ? " / 2" : "",
                 width == 1 ? " + c % 2" : "");
    return width == 1 ? "total[i][j][c]" : "total[i][j][2 * c + k]";
}

static void finish(tile *t) {
    dt_cuda_nest *n = &t->n;
    dt_cuda_function *f = n->f;
    n->vectors = &n->how->vectors;
    dt_cuda_line(f, "const %s top = not_ahead(first_row + own_row), left = not_ahead(first_column + own_column%s);", f->index,
                 t->by_lanes ? " + 2 * quad" : "");
    const char *sum = open_results(t);
    dt_cuda_line(f, "if (at < n_rows && beside < n_columns) {");
    dt_text *out = dt_cuda_begin(n, t->how->rows.loops), *inner = dt_cuda_begin(n, t->how->columns.loops);
    (n->vectors->width > 1 ? dt_cuda_vector_finish : dt_cuda_nest_finish)(n, sum);
    dt_cuda_end(n, inner, t->how->columns.loops, "beside");
    dt_cuda_end(n, out, t->how->rows.loops, "at");
    dt_cuda_close_blocks(f, t->by_lanes ? 4 : 3);
}

/* One tile, in one iteration of the loops that both factors share. Each iteration of the emitted loop reads a stage and multiplies the one before. */
static void one_tile(tile *t) {
    dt_cuda_nest *n = &t->n;
    dt_cuda_function *f = n->f;
    int terms = t->how->terms;
    const char *count = dt_cuda_count(f, n->nest, n->how->reduced);
    dt_cuda_line(f, "float total[%d][%d]%s = {};", t->n_rows, t->n_columns, t->by_lanes ? "[4]" : "");
    dt_cuda_line(f, "#pragma unroll 1");
    dt_cuda_line(f, "for (%s terms = 0; terms < %s + %d; terms += %d) {", f->index, count, terms, terms);
    dt_cuda_line(f, "const int next = terms / %d %% 2, now = 1 - next;", terms);
    dt_cuda_shared_tile_declare(n, &t->rows);
    dt_cuda_shared_tile_declare(n, &t->columns);
    dt_cuda_line(f, "if (terms < %s) {", count);
    dt_cuda_shared_tile_read(n, &t->rows);
    dt_cuda_shared_tile_read(n, &t->columns);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "if (terms > 0) {");
    (t->by_lanes ? add_products_by_lanes : add_products_by_threads)(t);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "if (terms < %s) {", count);
    dt_cuda_shared_tile_write(n, &t->rows);
    dt_cuda_shared_tile_write(n, &t->columns);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "__syncthreads();");
    dt_cuda_line(f, "}");
    finish(t);
}

void dt_cuda_tiles(dt_cuda_function *f) {
    const dt_gpu_tiles *how = &f->how->tiles;
    const dt_gpu_side *rows = &how->rows, *columns = &how->columns;
    int height = rows->results, width = columns->results;
    tile t = {.how = how,
              .rows = {"a", "n_rows", "first_row", rows},
              .columns = {"b", "n_columns", "first_column", columns},
              .n_rows = rows->own,
              .n_columns = columns->own,
              .by_lanes = how->n_down > 0};
    dt_cuda_nest_prepare(&t.n, f, 0);
    t.n.at_use = true;
    const dt_nest *nest = t.n.nest;
    dt_cuda_line(f, "alignas(16) __shared__ float shared_a[2][%d][%d], shared_b[2][%d][%d];", how->terms, height + how->padding, how->terms,
                 width + how->padding);
    declare_own(&t);
    dt_cuda_line(f, "const %s n_rows = %s, n_columns = %s;", f->index, dt_cuda_count(f, nest, rows->loops), dt_cuda_count(f, nest, columns->loops));
    dt_cuda_line(f, "const %s across = (n_columns + %d) / %d, tiles = (n_rows + %d) / %d * across;", f->index, width - 1, width, height - 1, height);
    const char *both = dt_cuda_count(f, nest, how->both);
    bool one = strcmp(both, "1") == 0;
    dt_cuda_line(f, "for (%s team = blockIdx.x; team < %s; team += gridDim.x) {", f->index, one ? "tiles" : FORMAT(f, "tiles * %s", both));
    dt_cuda_line(f, "const %s first_row = team %% tiles / across * %d, first_column = team %% tiles %% across * %d;", f->index, height, width);
    if (!one) dt_cuda_line(f, "const %s batch = team / tiles;", f->index);
    dt_text *out = dt_cuda_begin(&t.n, how->both);
    dt_cuda_nest_once(&t.n);
    one_tile(&t);
    dt_cuda_end(&t.n, out, how->both, "batch");
    dt_cuda_line(f, "}");
}
