/* marks: see marks.h. The hash goes through four lanes of 8 bytes; each step of a lane is a bijection, so that one changed word always changes it. */
#include "runtime/data/marks.h"

#include <string.h>

enum {
    LANES = 4,
    LANE_BYTES = LANES * (int)sizeof(uint64_t)
};

static const uint64_t FACTOR = 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio, and odd */

static uint64_t step(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * FACTOR;
    return lane ^ lane >> 29;
}

uint64_t dt_mark_of(const void *bytes, size_t n_bytes) {
    const unsigned char *at = bytes;
    uint64_t lanes[LANES] = {1, 2, 3, 4}, words[LANES] = {0}, mark = n_bytes;
    size_t n_left = n_bytes;
    for (; n_left >= LANE_BYTES; n_left -= LANE_BYTES, at += LANE_BYTES) {
        memcpy(words, at, LANE_BYTES);
        for (int i = 0; i < LANES; i++) lanes[i] = step(lanes[i], words[i]);
    }
    memset(words, 0, sizeof words);
    if (n_left > 0) memcpy(words, at, n_left);
    for (int i = 0; i < LANES; i++) mark = step(mark, step(lanes[i], words[i]));
    mark = step(mark, mark >> 32);
    return mark != 0 ? mark : 1;
}

/* ---- records ---- */

static int n_groups(int n_columns) { return n_columns < DT_MARK_MOST_COLUMNS ? n_columns : DT_MARK_MOST_COLUMNS; }

/* For each column, or group of columns. */
static int64_t most_buckets(int n_columns) { return DT_MARK_BUCKETS / n_groups(n_columns); }

static int64_t n_buckets(int64_t n_rows, int n_columns) { return n_rows < most_buckets(n_columns) ? n_rows : most_buckets(n_columns); }

/* Buckets that hold one row each. */
static int64_t n_single(int64_t n_rows, int n_columns) { return n_rows <= most_buckets(n_columns) ? n_rows : most_buckets(n_columns) / 2; }

int64_t dt_marks_row(int64_t index, int64_t n_rows, int n_columns, int64_t batch) {
    return (batch % n_rows * n_single(n_rows, n_columns) + index) % n_rows;
}

static int64_t bucket_of(int64_t index, int64_t n_rows, int n_columns) {
    int64_t single = n_single(n_rows, n_columns), shared = n_buckets(n_rows, n_columns) - single;
    return index < single ? index : single + (index - single) * shared / (n_rows - single);
}

void dt_marks_fold(const uint64_t *marks, int64_t n_rows, int n_columns, int64_t batch, dt_folded_marks *folded) {
    uint64_t sums[DT_MARK_BUCKETS] = {0};
    bool unknown[DT_MARK_BUCKETS] = {0};
    *folded = (dt_folded_marks){{0}};
    if (n_rows == 0 || n_columns == 0) return;
    int64_t n = n_buckets(n_rows, n_columns);
    for (int64_t index = 0; index < n_rows; index++)
        for (int column = 0; column < n_columns; column++) {
            int64_t group = (int64_t)column * n_groups(n_columns) / n_columns, bucket = group * n + bucket_of(index, n_rows, n_columns);
            uint64_t mark = marks[dt_marks_row(index, n_rows, n_columns, batch) * n_columns + column];
            sums[bucket] = step(sums[bucket], mark);
            unknown[bucket] = unknown[bucket] || mark == 0;
        }
    for (int64_t i = 0; i < n * n_groups(n_columns); i++) folded->buckets[i] = unknown[i] ? 0 : (uint32_t)(sums[i] >> 32) | 1;
}

/* What lies in a bucket of so many: the first number whose `number * n_buckets / n` is that. */
static int64_t first_of(int64_t bucket, int64_t n_of_buckets, int64_t n) {
    return n_of_buckets > 0 ? (bucket * n + n_of_buckets - 1) / n_of_buckets : 0;
}

static dt_marks_place place_of(int64_t group, int64_t bucket, int64_t n_rows, int n_columns) {
    int64_t single = n_single(n_rows, n_columns), shared = n_buckets(n_rows, n_columns) - single;
    int first = (int)first_of(group, n_groups(n_columns), n_columns), end = (int)first_of(group + 1, n_groups(n_columns), n_columns);
    dt_marks_place place = {bucket, bucket + 1, first, end - first};
    if (bucket < single) return place;
    place.first = single + first_of(bucket - single, shared, n_rows - single);
    place.end = single + first_of(bucket - single + 1, shared, n_rows - single);
    return place;
}

bool dt_marks_differ(const dt_folded_marks *known, const dt_folded_marks *others, int64_t n_rows, int n_columns, dt_marks_place *place) {
    if (n_rows == 0 || n_columns == 0) return false;
    int64_t n = n_buckets(n_rows, n_columns);
    for (int64_t i = 0; i < n * n_groups(n_columns); i++) {
        if (known->buckets[i] == 0 || known->buckets[i] == others->buckets[i]) continue;
        *place = place_of(i / n, i % n, n_rows, n_columns);
        return true;
    }
    return false;
}
