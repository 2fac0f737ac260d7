/* window: a source whose examples are neighbouring ones of another source. Its rows share the other's bytes, so that windows that overlap cost
 * nothing. */
#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/source.h"

#include <string.h>

typedef struct window {
    dt_source source;
    dt_source *of;
    dt_window about;
    dt_column *columns;
    int64_t *dims; /* of all columns, one after the other */
} window;

/* Of window `row`. */
static int64_t first_of(const window *source, int64_t row) { return source->about.first + row * source->about.shift; }

static dt_status *window_wait(dt_source *base, int64_t n_rows) {
    const window *source = (const window *)base;
    bool is_all = n_rows == source->source.n_examples; /* also those that no window holds: the files are to be whole */
    return dt_source_wait(source->of, is_all ? source->of->n_examples : first_of(source, n_rows - 1) + source->about.n);
}

static dt_status *window_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const window *source = (const window *)base;
    size_t row_bytes = (size_t)source->columns[column].tensor.row_bytes;
    for (int64_t i = 0; i < n_rows; i++)
        DT_TRY(dt_source_read(source->of, column, first_of(source, row + i), source->about.n, (char *)bytes + (size_t)i * row_bytes));
    return NULL;
}

static void window_name_row(const dt_source *base, int64_t row, dt_text *text) {
    const window *source = (const window *)base;
    dt_text_append(text, "the window from ");
    dt_source_name_row(source->of, first_of(source, row), text);
    dt_text_append(text, " on");
}

static void window_cancel(dt_source *base) { dt_source_cancel(((window *)base)->of); }

static void window_close(dt_source *base) {
    window *source = (window *)base;
    dt_source_close(source->of);
    dt_release(source->columns);
    dt_release(source->dims);
    dt_release(source);
}

static dt_status *describe(window *source) {
    const dt_source *of = source->of;
    const dt_window *about = &source->about;
    int64_t n_left = about->first < of->n_examples ? of->n_examples - about->first : 0, n_examples = n_left < about->most ? n_left : about->most;
    if (n_examples < about->n)
        return dt_error_in(DT_INVALID_ARGUMENT, of->columns[0].path, 0, "holds %lld example%s%s, fewer than the %lld of a window",
                           (long long)n_examples, dt_plural(n_examples), n_examples < of->n_examples ? " that skip() and take() leave" : "",
                           (long long)about->n);
    int n_dims = 0;
    for (int i = 0; i < of->n_columns; i++) n_dims += of->columns[i].tensor.n_dims + 1;
    source->columns = dt_allocate_zeroed((size_t)of->n_columns, sizeof *source->columns);
    int64_t *dims = source->dims = dt_allocate_zeroed((size_t)n_dims, sizeof *source->dims);
    if (source->columns == NULL || dims == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < of->n_columns; i++) {
        dt_column *column = &source->columns[i];
        *column = of->columns[i];
        dt_artifact_tensor *tensor = &column->tensor;
        if (column->is_text) return dt_error_in(DT_INVALID_ARGUMENT, column->path, 0, "windows() joins numbers, not texts");
        dims[0] = about->n;
        if (tensor->n_dims > 0) memcpy(dims + 1, tensor->dims, (size_t)tensor->n_dims * sizeof *dims);
        tensor->dims = dims;
        dims += ++tensor->n_dims;
        tensor->row_bytes *= about->n; /* fits: the source holds as many bytes */
        if (column->bytes != NULL) column->bytes += about->first * column->stride;
        column->stride *= about->shift;
    }
    source->source.n_examples = (n_examples - about->n) / about->shift + 1;
    source->source.n_columns = of->n_columns;
    source->source.about = of->about;
    source->source.computes = of->computes;
    source->source.columns = source->columns;
    return NULL;
}

dt_status *dt_source_window(dt_source *of, const dt_window *about, dt_source **source) {
    *source = NULL;
    window *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) {
        dt_source_close(of);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    *made =
        (window){.source = {.wait = window_wait, .read = window_read, .name_row = window_name_row, .cancel = window_cancel, .close = window_close},
                 .of = of,
                 .about = *about};
    dt_status *status = describe(made);
    if (status != NULL) {
        window_close(&made->source);
        return status;
    }
    *source = &made->source;
    return NULL;
}
