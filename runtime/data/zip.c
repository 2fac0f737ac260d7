/* zip: a source of the components of two others, side by side. */
#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/source.h"

#include <string.h>

typedef struct zip {
    dt_source source;
    dt_source *a, *b;
    dt_column *columns;
    char *about;
} zip;

static dt_status *zip_wait(dt_source *base, int64_t n_rows) {
    const zip *source = (const zip *)base;
    bool is_all = n_rows == source->source.n_examples; /* also those that have no counterpart: the files are to be whole */
    DT_TRY(dt_source_wait(source->a, is_all ? source->a->n_examples : n_rows));
    return dt_source_wait(source->b, is_all ? source->b->n_examples : n_rows);
}

static dt_status *zip_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const zip *source = (const zip *)base;
    int n = source->a->n_columns;
    return column < n ? dt_source_read(source->a, column, row, n_rows, bytes) : dt_source_read(source->b, column - n, row, n_rows, bytes);
}

static void zip_name_row(const dt_source *base, int64_t row, dt_text *text) {
    dt_source_name_row(((const zip *)base)->a, row, text);
    dt_text_append(text, " and ");
    dt_source_name_row(((const zip *)base)->b, row, text);
}

static void zip_cancel(dt_source *base) {
    dt_source_cancel(((zip *)base)->a);
    dt_source_cancel(((zip *)base)->b);
}

static void zip_close(dt_source *base) {
    zip *source = (zip *)base;
    dt_source_close(source->a);
    dt_source_close(source->b);
    dt_release(source->columns);
    dt_release(source->about);
    dt_release(source);
}

static dt_status *join(zip *source) {
    const dt_source *a = source->a, *b = source->b;
    int n = a->n_columns + b->n_columns;
    source->columns = dt_allocate((size_t)n * sizeof *source->columns);
    if (source->columns == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(source->columns, a->columns, (size_t)a->n_columns * sizeof *source->columns);
    memcpy(source->columns + a->n_columns, b->columns, (size_t)b->n_columns * sizeof *source->columns);
    dt_text about = {0};
    if (a->about != NULL) dt_text_append(&about, a->about);
    if (a->about != NULL && b->about != NULL) dt_text_append(&about, "; ");
    if (b->about != NULL) dt_text_append(&about, b->about);
    if (about.failed) return dt_text_free(&about), dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    source->about = a->about != NULL || b->about != NULL ? dt_text_take(&about) : NULL;
    source->source.about = source->about;
    source->source.n_examples = a->n_examples < b->n_examples ? a->n_examples : b->n_examples;
    source->source.n_columns = n;
    source->source.columns = source->columns;
    source->source.computes = a->computes || b->computes;
    return NULL;
}

dt_status *dt_source_zip(dt_source *a, dt_source *b, dt_source **source) {
    *source = NULL;
    zip *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) {
        dt_source_close(a);
        dt_source_close(b);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    *made = (zip){.source = {.wait = zip_wait, .read = zip_read, .name_row = zip_name_row, .cancel = zip_cancel, .close = zip_close}, .a = a, .b = b};
    dt_status *status = join(made);
    if (status != NULL) {
        zip_close(&made->source);
        return status;
    }
    *source = &made->source;
    return NULL;
}
