/* marks: hashes by which members of a run compare the examples that they read, and the tensors that these are made from.
 *
 * A mark is of one column of one row of a source. Members of synchronous training send, with each step, the marks of their part of the batch folded
 * into a record of fixed size; process 0 folds what it has read itself in those rows and compares. A hash of 64 bits, of which 32 are sent: against
 * mistakes, not against somebody who wants to be taken for another. */
#ifndef DT_RUNTIME_DATA_MARKS_H
#define DT_RUNTIME_DATA_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_MARK_BUCKETS = 60,      /* of a record */
    DT_MARK_MOST_COLUMNS = 12, /* that have buckets of their own in it; beyond that some share them */
    DT_MARK_READ_BYTES = 65536 /* that process 0 reads of a file only to compare, of each other member's part of a batch; one row at least */
};

/* Never 0, which stands for a mark that nobody knows. Texts of any two lengths differ. */
uint64_t dt_mark_of(const void *bytes, size_t n_bytes);

/* The marks of the rows of a batch, in buckets: of each column, or group of columns, as many as there is room for. Where there are more rows, half of
 * the buckets hold one row each, other ones in each batch, and the rest share the others. 0: no row, or one of them nobody knows. */
typedef struct dt_folded_marks {
    uint32_t buckets[DT_MARK_BUCKETS];
} dt_folded_marks;

/* marks [n_rows][n_columns]; batch: its number, which says where the rows that have a bucket each begin. */
void dt_marks_fold(const uint64_t *marks, int64_t n_rows, int n_columns, int64_t batch, dt_folded_marks *folded);
/* The row that is number `index` in the order in which they fill buckets. */
int64_t dt_marks_row(int64_t index, int64_t n_rows, int n_columns, int64_t batch);

/* What a bucket holds: rows [first, end) in that order, and the columns from `column` on. */
typedef struct dt_marks_place {
    int64_t first, end;
    int column, n_columns;
} dt_marks_place;

/* The first bucket in which others differ from what is known here; false: none does. */
bool dt_marks_differ(const dt_folded_marks *known, const dt_folded_marks *others, int64_t n_rows, int n_columns, dt_marks_place *place);

#endif
