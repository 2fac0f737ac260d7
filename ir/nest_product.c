/* nest_product: see nest_product.h.
 *
 * Of the outer loops some move one factor alone, some the other alone; the rest move both, or neither. At each point of the rest the result is a
 * matrix product, sum over terms of a[row, term] * b[term, column], a term being one iteration of the reduced loops. Where an element is, is a sum of
 * what its point, its line (a row or a column) and its term contribute; so every product is computed in one way, whatever its loops are. Blocks of
 * both factors are copied into tiles, in the order in which they are used, and a tile of the result is in registers while its terms are added. */
#include "ir/nest_product.h"

#include <string.h>

enum {
    TILE_ROWS = 4,
    TILE_COLUMNS = 8,
    BLOCK_ROWS = 64, /* of lines, whole tiles; a block of each factor stays in the cache */
    BLOCK_COLUMNS = 256,
    BLOCK_TERMS = 256
};

/* Several loops as one, the last walked fastest. */
typedef struct axis {
    int n_loops;
    int *loops;
    int64_t n; /* iterations */
} axis;

/* A dimension that an index may leave. */
typedef struct guarded {
    const dt_index *index;
    int64_t extent, stride;
} guarded;

/* Where the elements of a tensor are. An iteration of an axis contributes a part: an element, and for each guarded dimension to its numerator. */
typedef struct address {
    int64_t *steps; /* [n_loops] what an iteration adds to the element by all other dimensions */
    guarded *guarded;
    int n_guarded;
    int64_t *start; /* the part that all have: the offsets */
} address;

typedef struct factor {
    address address;
    const dt_scalar *data;
    double outside;
    axis lines; /* rows or columns */
    int tile_lines, block_lines;
    int64_t *point, *line_parts, *term_parts; /* of the block at hand */
    double *tiles;                            /* the block: in a tile the lines side by side, term after term */
} factor;

typedef struct product {
    const int64_t *extents;
    axis rest, terms;
    factor a, b; /* a has the rows, b the columns */
    address result;
    int64_t *result_rows, *result_columns; /* parts of the block at hand */
    dt_scalar *sums;
} product;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- making ready ---- */

static address make_address(dt_arena *scratch, int n_loops, int rank) {
    return (address){.steps = DT_NEW_ARRAY(scratch, int64_t, n_loops),
                     .guarded = DT_NEW_ARRAY(scratch, guarded, rank),
                     .start = DT_NEW_ARRAY(scratch, int64_t, 1 + rank)};
}

static factor make_factor(dt_arena *scratch, const dt_loops *loops, const int64_t *extents, const dt_nest_factor *given) {
    const dt_wide *tensor = given->tensor;
    factor factor = {.address = make_address(scratch, loops->n_loops, tensor->rank), .data = tensor->data, .outside = given->access->outside.f};
    address *address = &factor.address;
    address->start[0] = tensor->start;
    for (int d = 0; d < tensor->rank; d++) {
        const dt_index *index = &given->access->dims[d];
        int64_t stride = tensor->strides[d];
        if (dt_index_may_leave(index, loops->n_loops, extents, tensor->dims[d])) {
            address->guarded[address->n_guarded++] = (guarded){index, tensor->dims[d], stride};
            address->start[address->n_guarded] = index->offset;
            continue;
        }
        address->start[0] += index->offset * stride;
        for (int l = 0; l < loops->n_loops; l++) address->steps[l] += index->coefficients[l] * stride;
    }
    factor.lines = (axis){.loops = DT_NEW_ARRAY(scratch, int, loops->n_loops), .n = 1};
    return factor;
}

static bool moves(const factor *factor, int loop) {
    bool found = factor->address.steps[loop] != 0;
    for (int g = 0; g < factor->address.n_guarded; g++) found |= factor->address.guarded[g].index->coefficients[loop] != 0;
    return found;
}

static void add_loop(axis *axis, int loop, int64_t extent) {
    axis->loops[axis->n_loops++] = loop;
    axis->n *= extent;
}

static void make_axes(dt_arena *scratch, const dt_loops *loops, product *p) {
    p->rest = p->terms = (axis){.n = 1};
    p->rest.loops = DT_NEW_ARRAY(scratch, int, loops->n_loops);
    p->terms.loops = DT_NEW_ARRAY(scratch, int, loops->n_loops);
    for (int l = 0; l < loops->n_loops; l++) {
        bool moves_a = moves(&p->a, l), moves_b = moves(&p->b, l);
        axis *axis = l >= loops->n_outer ? &p->terms : moves_a == moves_b ? &p->rest : moves_a ? &p->a.lines : &p->b.lines;
        add_loop(axis, l, p->extents[l]);
    }
    if (p->b.lines.n >= p->a.lines.n) return;
    factor a = p->a; /* tiles have more columns than rows */
    p->a = p->b;
    p->b = a;
}

/* `lines` at most of a block, rounded up to whole tiles of `tile`; the arrays of the block. */
static void make_block(dt_arena *scratch, factor *factor, int lines, int tile, int64_t terms) {
    int size = 1 + factor->address.n_guarded;
    int64_t n = (least(factor->lines.n, lines) + tile - 1) / tile * tile;
    factor->block_lines = lines;
    factor->tile_lines = tile;
    factor->point = DT_NEW_ARRAY(scratch, int64_t, size);
    factor->line_parts = DT_NEW_ARRAY(scratch, int64_t, n * size);
    factor->term_parts = DT_NEW_ARRAY(scratch, int64_t, terms * size);
    factor->tiles = DT_NEW_ARRAY(scratch, double, n *terms);
}

static product make_product(dt_arena *scratch, const dt_loops *loops, const int64_t *extents, const dt_nest_factor factors[2], dt_wide *result) {
    product p = {.extents = extents, .result = make_address(scratch, loops->n_loops, 0), .sums = result->data};
    p.a = make_factor(scratch, loops, extents, &factors[0]);
    p.b = make_factor(scratch, loops, extents, &factors[1]);
    make_axes(scratch, loops, &p);
    int64_t terms = least(p.terms.n, BLOCK_TERMS), stride = 1;
    make_block(scratch, &p.a, BLOCK_ROWS, TILE_ROWS, terms);
    make_block(scratch, &p.b, BLOCK_COLUMNS, TILE_COLUMNS, terms);
    for (int l = loops->n_outer - 1; l >= 0; stride *= extents[l--]) p.result.steps[l] = stride;
    p.result_rows = DT_NEW_ARRAY(scratch, int64_t, BLOCK_ROWS);
    p.result_columns = DT_NEW_ARRAY(scratch, int64_t, BLOCK_COLUMNS);
    return p;
}

/* ---- blocks ---- */

/* The parts of n iterations of an axis from `first` on, one after the other. */
static void set_parts(const product *p, const address *address, const axis *axis, int64_t first, int64_t n, int64_t *part) {
    for (int64_t i = first; i < first + n; i++, part += 1 + address->n_guarded) {
        int64_t left = i;
        memset(part, 0, (size_t)(1 + address->n_guarded) * sizeof *part);
        for (int k = axis->n_loops - 1; k >= 0; k--) {
            int loop = axis->loops[k];
            int64_t position = left % p->extents[loop];
            left /= p->extents[loop];
            part[0] += address->steps[loop] * position;
            for (int g = 0; g < address->n_guarded; g++) part[1 + g] += address->guarded[g].index->coefficients[loop] * position;
        }
    }
}

static void set_point(const product *p, factor *factor, int64_t point) {
    set_parts(p, &factor->address, &p->rest, point, 1, factor->point);
    for (int i = 0; i <= factor->address.n_guarded; i++) factor->point[i] += factor->address.start[i];
}

/* What stands where three parts say. */
static double element_at(const factor *factor, const int64_t *point, const int64_t *line, const int64_t *term) {
    int64_t element = point[0] + line[0] + term[0];
    for (int g = 0; g < factor->address.n_guarded; g++) {
        const guarded *guarded = &factor->address.guarded[g];
        int64_t index = point[1 + g] + line[1 + g] + term[1 + g];
        if (guarded->index->divisor != 1) {
            if (index % guarded->index->divisor != 0) return factor->outside;
            index /= guarded->index->divisor;
        }
        if (index < 0 || index >= guarded->extent) return factor->outside;
        element += index * guarded->stride;
    }
    return factor->data[element].f;
}

/* Copies the block of n lines and n_terms terms whose parts have been set. What a tile has beyond the lines is 0. */
static void fill_tiles(const factor *factor, int64_t n, int64_t n_terms) {
    int size = 1 + factor->address.n_guarded, width = factor->tile_lines;
    int64_t n_whole = (n + width - 1) / width * width;
    for (int64_t l = 0; l < n_whole; l++) {
        const int64_t *line = factor->line_parts + l * size, *term = factor->term_parts;
        double *to = factor->tiles + l / width * width * n_terms + l % width;
        if (l >= n)
            for (int64_t t = 0; t < n_terms; t++) to[t * width] = 0;
        else if (size == 1)
            for (int64_t t = 0; t < n_terms; t++) to[t * width] = factor->data[factor->point[0] + line[0] + term[t]].f;
        else
            for (int64_t t = 0; t < n_terms; t++, term += size) to[t * width] = element_at(factor, factor->point, line, term);
    }
}

/* sums[r][c] += a[term][r] * b[term][c], for all terms. */
static inline __attribute__((always_inline)) void add_terms(int64_t n_terms, const double *restrict a, const double *restrict b,
                                                            double sums[TILE_ROWS][TILE_COLUMNS]) {
    for (int64_t t = 0; t < n_terms; t++, a += TILE_ROWS, b += TILE_COLUMNS)
        for (int r = 0; r < TILE_ROWS; r++)
            for (int c = 0; c < TILE_COLUMNS; c++) sums[r][c] += a[r] * b[c];
}

/* The same twice: on processors with AVX2 a tile fits in registers. Neither fuses, so bits are the same. */
__attribute__((target("avx2"))) static void add_terms_avx2(int64_t n_terms, const double *a, const double *b, double sums[TILE_ROWS][TILE_COLUMNS]) {
    add_terms(n_terms, a, b, sums);
}
static void add_terms_anywhere(int64_t n_terms, const double *a, const double *b, double sums[TILE_ROWS][TILE_COLUMNS]) {
    add_terms(n_terms, a, b, sums);
}

/* The result gets the sums over a block of terms, tile by tile. */
static void add_block(const product *p, int64_t point, int64_t n_rows, int64_t n_columns, int64_t n_terms) {
    void (*const add)(int64_t, const double *, const double *, double[TILE_ROWS][TILE_COLUMNS]) =
        __builtin_cpu_supports("avx2") ? add_terms_avx2 : add_terms_anywhere;
    for (int64_t row = 0; row < n_rows; row += TILE_ROWS)
        for (int64_t column = 0; column < n_columns; column += TILE_COLUMNS) {
            double sums[TILE_ROWS][TILE_COLUMNS] = {{0}};
            add(n_terms, p->a.tiles + row * n_terms, p->b.tiles + column * n_terms, sums);
            for (int64_t r = row; r < n_rows && r < row + TILE_ROWS; r++)
                for (int64_t c = column; c < n_columns && c < column + TILE_COLUMNS; c++)
                    p->sums[point + p->result_rows[r] + p->result_columns[c]].f += sums[r - row][c - column];
        }
}

/* The product at one point of the rest. */
static void multiply(product *p, int64_t point) {
    int64_t result = 0;
    set_parts(p, &p->result, &p->rest, point, 1, &result);
    set_point(p, &p->a, point);
    set_point(p, &p->b, point);
    for (int64_t column = 0; column < p->b.lines.n; column += BLOCK_COLUMNS) {
        int64_t n_columns = least(p->b.lines.n - column, BLOCK_COLUMNS);
        set_parts(p, &p->b.address, &p->b.lines, column, n_columns, p->b.line_parts);
        set_parts(p, &p->result, &p->b.lines, column, n_columns, p->result_columns);
        for (int64_t term = 0; term < p->terms.n; term += BLOCK_TERMS) {
            int64_t n_terms = least(p->terms.n - term, BLOCK_TERMS);
            set_parts(p, &p->a.address, &p->terms, term, n_terms, p->a.term_parts);
            set_parts(p, &p->b.address, &p->terms, term, n_terms, p->b.term_parts);
            fill_tiles(&p->b, n_columns, n_terms);
            for (int64_t row = 0; row < p->a.lines.n; row += BLOCK_ROWS) {
                int64_t n_rows = least(p->a.lines.n - row, BLOCK_ROWS);
                set_parts(p, &p->a.address, &p->a.lines, row, n_rows, p->a.line_parts);
                set_parts(p, &p->result, &p->a.lines, row, n_rows, p->result_rows);
                fill_tiles(&p->a, n_rows, n_terms);
                add_block(p, result, n_rows, n_columns, n_terms);
            }
        }
    }
}

void dt_nest_product(dt_arena *scratch, const dt_loops *loops, const int64_t *extents, const dt_nest_factor factors[2], dt_wide *result) {
    product p = make_product(scratch, loops, extents, factors, result);
    memset(result->data, 0, result->n * sizeof *result->data);
    for (int64_t point = 0; point < p.rest.n; point++) multiply(&p, point);
}
