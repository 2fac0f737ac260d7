/* row_sums: see row_sums.h. Parts lie one after another; a sum of two takes the place of the first. */
#include "runtime/execution/row_sums.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A row that is named, and by which gradient. */
typedef struct name {
    int64_t row, gradient;
} name;

/* What is there of a node of the tree. */
typedef struct node {
    int64_t first, span; /* microbatches */
    int64_t at, n;       /* rows */
} node;

struct dt_row_sums {
    int64_t width;
    int64_t n_rows, rows_capacity, names_capacity, nodes_capacity;
    name *names; /* [names_capacity] of a microbatch */
    node *nodes; /* [n_nodes] in order */
    int64_t n_nodes, n_microbatches;
    dt_rows_part all, scratch; /* [rows_capacity] */
};

dt_status *dt_row_sums_create(int64_t width, dt_row_sums **sums) {
    *sums = dt_allocate_zeroed(1, sizeof **sums);
    if (*sums == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    (*sums)->width = width;
    return NULL;
}

void dt_row_sums_destroy(dt_row_sums *sums) {
    if (sums == NULL) return;
    dt_release(sums->names);
    dt_release(sums->nodes);
    dt_release(sums->all.rows);
    dt_release(sums->all.values);
    dt_release(sums->scratch.rows);
    dt_release(sums->scratch.values);
    dt_release(sums);
}

void dt_row_sums_clear(dt_row_sums *sums) { sums->n_rows = sums->n_nodes = sums->n_microbatches = 0; }

/* ---- memory, which grows to what a step needs ---- */

static bool grow(void **memory, int64_t n, size_t bytes) {
    void *grown = dt_reallocate(*memory, (size_t)n * bytes);
    if (grown != NULL) *memory = grown;
    return grown != NULL;
}

static int64_t roomier(int64_t capacity, int64_t wanted) { return wanted > 2 * capacity ? wanted : 2 * capacity; }

static dt_status *no_memory(int64_t n) { return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the gradients of %lld rows", (long long)n); }

/* For one node more, of at most so many rows. */
static dt_status *make_room(dt_row_sums *sums, int64_t n) {
    size_t row_bytes = (size_t)sums->width * sizeof(float);
    if (sums->n_nodes == sums->nodes_capacity) {
        int64_t capacity = roomier(sums->nodes_capacity, 16);
        if (!grow((void **)&sums->nodes, capacity, sizeof *sums->nodes)) return no_memory(n);
        sums->nodes_capacity = capacity;
    }
    if (sums->n_rows + n <= sums->rows_capacity) return NULL;
    int64_t capacity = roomier(sums->rows_capacity, sums->n_rows + n);
    dt_rows_part *parts[] = {&sums->all, &sums->scratch};
    for (int i = 0; i < 2; i++)
        if (!grow((void **)&parts[i]->rows, capacity, sizeof *parts[i]->rows) || !grow((void **)&parts[i]->values, capacity, row_bytes))
            return no_memory(capacity);
    sums->rows_capacity = capacity;
    return NULL;
}

static dt_rows_part part_at(const dt_row_sums *sums, int64_t at, int64_t n) {
    return (dt_rows_part){n, sums->all.rows + at, sums->all.values + at * sums->width};
}

static void add_node(dt_row_sums *sums, int64_t span, int64_t n) {
    sums->nodes[sums->n_nodes++] = (node){sums->n_microbatches, span, sums->n_rows, n};
    sums->n_microbatches += span;
    sums->n_rows += n;
}

/* ---- a microbatch ---- */

static int compare_names(const void *a, const void *b) {
    const name *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->gradient > y->gradient) - (x->gradient < y->gradient);
}

dt_status *dt_row_sums_add(dt_row_sums *sums, const int64_t *indices, const float *gradients, int64_t n, int64_t n_table_rows, dt_rows_part *part) {
    int64_t n_names = 0, width = sums->width;
    DT_TRY(make_room(sums, n));
    if (n > sums->names_capacity) {
        if (!grow((void **)&sums->names, n, sizeof *sums->names)) return no_memory(n);
        sums->names_capacity = n;
    }
    for (int64_t i = 0; i < n; i++)
        if (indices[i] >= 0 && indices[i] < n_table_rows) sums->names[n_names++] = (name){indices[i], i};
    if (n_names > 0) qsort(sums->names, (size_t)n_names, sizeof *sums->names, compare_names);
    *part = part_at(sums, sums->n_rows, 0);
    for (int64_t i = 0; i < n_names; i++) {
        const float *gradient = gradients + sums->names[i].gradient * width;
        if (i == 0 || sums->names[i].row != sums->names[i - 1].row) {
            memset(part->values + part->n * width, 0, (size_t)width * sizeof *part->values);
            part->rows[part->n++] = sums->names[i].row;
        }
        for (int64_t k = 0; k < width; k++) part->values[(part->n - 1) * width + k] += gradient[k];
    }
    add_node(sums, 1, part->n);
    return NULL;
}

dt_status *dt_row_sums_put(dt_row_sums *sums, int64_t span, const dt_rows_part *part) {
    DT_TRY(make_room(sums, part->n));
    dt_rows_part copy = part_at(sums, sums->n_rows, part->n);
    if (part->n > 0) {
        memcpy(copy.rows, part->rows, (size_t)part->n * sizeof *copy.rows);
        memcpy(copy.values, part->values, (size_t)(part->n * sums->width) * sizeof *copy.values);
    }
    add_node(sums, span, part->n);
    return NULL;
}

/* ---- sums of them ---- */

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
    if (sum.n > 0) {
        memcpy(left->rows, sum.rows, (size_t)sum.n * sizeof *sum.rows);
        memcpy(left->values, sum.values, (size_t)(sum.n * width) * sizeof *sum.values);
    }
    left->n = sum.n;
}

static const node *find(const dt_row_sums *sums, int64_t first, int64_t span) {
    int64_t low = 0, high = sums->n_nodes;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums->nodes[middle].first < first)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_there = low < sums->n_nodes && sums->nodes[low].first == first && sums->nodes[low].span == span;
    return is_there ? &sums->nodes[low] : NULL;
}

dt_rows_part dt_row_sums_reduce(dt_row_sums *sums, int64_t first, int64_t span) {
    const node *whole = find(sums, first, span);
    int64_t half = 1;
    if (whole != NULL) return part_at(sums, whole->at, whole->n);
    assert(span > 1);
    while (2 * half < span) half *= 2;
    dt_rows_part left = dt_row_sums_reduce(sums, first, half), right = dt_row_sums_reduce(sums, first + half, span - half);
    merge(sums, &left, &right);
    return left;
}
