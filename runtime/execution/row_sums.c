/* row_sums: see row_sums.h. Parts of microbatches lie one after another; a sum of two takes the place of the first. */
#include "runtime/execution/row_sums.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* A row that is named, and by which gradient. */
typedef struct name {
    int64_t row, gradient;
} name;

struct dt_row_sums {
    int n_microbatches, n_added;
    int64_t width, most_rows, n_used;
    int64_t *firsts; /* [n_microbatches] where a part begins */
    int64_t *counts; /* [n_microbatches] its rows */
    name *names;     /* [most_rows] of a microbatch */
    dt_rows_part all, scratch;
};

static dt_rows_part part_at(const dt_row_sums *sums, const dt_rows_part *of, int64_t first) {
    return (dt_rows_part){0, of->rows + first, of->values + first * sums->width};
}

static bool allocate(dt_row_sums *sums, dt_rows_part *part) {
    part->rows = dt_allocate_zeroed((size_t)sums->most_rows, sizeof *part->rows);
    part->values = dt_allocate_zeroed((size_t)sums->most_rows, (size_t)sums->width * sizeof *part->values);
    return part->rows != NULL && part->values != NULL;
}

dt_status *dt_row_sums_create(int n_microbatches, int64_t most_rows, int64_t width, dt_row_sums **sums) {
    dt_row_sums *made = dt_allocate_zeroed(1, sizeof *made);
    *sums = NULL;
    if (made != NULL) {
        *made = (dt_row_sums){.n_microbatches = n_microbatches, .most_rows = most_rows, .width = width};
        made->firsts = dt_allocate_zeroed((size_t)n_microbatches, sizeof *made->firsts);
        made->counts = dt_allocate_zeroed((size_t)n_microbatches, sizeof *made->counts);
        made->names = dt_allocate_zeroed((size_t)most_rows, sizeof *made->names);
        if (made->firsts != NULL && made->counts != NULL && made->names != NULL && allocate(made, &made->all) && allocate(made, &made->scratch)) {
            *sums = made;
            return NULL;
        }
    }
    dt_row_sums_destroy(made);
    return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the gradients of %lld rows", (long long)most_rows);
}

void dt_row_sums_destroy(dt_row_sums *sums) {
    if (sums == NULL) return;
    dt_release(sums->firsts);
    dt_release(sums->counts);
    dt_release(sums->names);
    dt_release(sums->all.rows);
    dt_release(sums->all.values);
    dt_release(sums->scratch.rows);
    dt_release(sums->scratch.values);
    dt_release(sums);
}

void dt_row_sums_begin(dt_row_sums *sums) { sums->n_added = 0, sums->n_used = 0; }

static int compare_names(const void *a, const void *b) {
    const name *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->gradient > y->gradient) - (x->gradient < y->gradient);
}

dt_rows_part dt_row_sums_add(dt_row_sums *sums, const int64_t *indices, const float *gradients, int64_t n, int64_t n_table_rows) {
    int64_t n_names = 0, width = sums->width;
    for (int64_t i = 0; i < n; i++)
        if (indices[i] >= 0 && indices[i] < n_table_rows) sums->names[n_names++] = (name){indices[i], i};
    qsort(sums->names, (size_t)n_names, sizeof *sums->names, compare_names);
    dt_rows_part part = part_at(sums, &sums->all, sums->n_used);
    for (int64_t i = 0; i < n_names; i++) {
        const float *gradient = gradients + sums->names[i].gradient * width;
        if (i == 0 || sums->names[i].row != sums->names[i - 1].row) {
            memset(part.values + part.n * width, 0, (size_t)width * sizeof *part.values);
            part.rows[part.n++] = sums->names[i].row;
        }
        for (int64_t k = 0; k < width; k++) part.values[(part.n - 1) * width + k] += gradient[k];
    }
    sums->firsts[sums->n_added] = sums->n_used;
    sums->counts[sums->n_added++] = part.n;
    sums->n_used += part.n;
    return part;
}

/* One row of the sum; NULL: that side has no such row. */
static void add_row(const float *left, const float *right, int64_t width, float *sum) {
    for (int64_t k = 0; k < width; k++) sum[k] = (left != NULL ? left[k] : 0.0F) + (right != NULL ? right[k] : 0.0F);
}

/* To the place of `left`, before which `right` does not lie. */
static void merge(dt_row_sums *sums, dt_rows_part *left, const dt_rows_part *right) {
    dt_rows_part sum = sums->scratch;
    int64_t width = sums->width, l = 0, r = 0;
    for (sum.n = 0; l < left->n || r < right->n; sum.n++) {
        bool has_left = l < left->n && (r == right->n || left->rows[l] <= right->rows[r]);
        bool has_right = r < right->n && (l == left->n || right->rows[r] <= left->rows[l]);
        sum.rows[sum.n] = has_left ? left->rows[l] : right->rows[r];
        add_row(has_left ? left->values + l * width : NULL, has_right ? right->values + r * width : NULL, width, sum.values + sum.n * width);
        l += has_left;
        r += has_right;
    }
    memcpy(left->rows, sum.rows, (size_t)sum.n * sizeof *sum.rows);
    memcpy(left->values, sum.values, (size_t)(sum.n * width) * sizeof *sum.values);
    left->n = sum.n;
}

/* Microbatches [first, first + n). */
static dt_rows_part reduce(dt_row_sums *sums, int first, int n) {
    dt_rows_part left = part_at(sums, &sums->all, sums->firsts[first]), right;
    int half = 1;
    left.n = sums->counts[first];
    if (n == 1) return left;
    while (2 * half < n) half *= 2;
    left = reduce(sums, first, half);
    right = reduce(sums, first + half, n - half);
    merge(sums, &left, &right);
    return left;
}

dt_rows_part dt_row_sums_end(dt_row_sums *sums) { return reduce(sums, 0, sums->n_microbatches); }
