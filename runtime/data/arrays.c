/* arrays: see arrays.h. A thread a file reads (and inflates, and turns big endian around) into memory of its final size, and publishes how many
 * rows are there, so that whoever needs row 0 need not wait for row 60,000, and the images do not wait for the labels.
 *
 * By row, a plain file stays where it is, and a row is read when it is wanted. It is not mapped: a file that shrinks would then end the process with
 * SIGBUS, while a read that comes back short is an error with a name and a row. */
#include "runtime/data/arrays.h"
#include "runtime/artifact/type_text.h"

#include "base/memory.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 20
}; /* a multiple of every element's size */

typedef struct arrays arrays;

typedef struct array_file {
    arrays *owner;
    dt_input_file *file;
    dt_array_header header;
    unsigned char *bytes;    /* NULL: read by row */
    uint64_t start, n_bytes; /* of the elements, in a plain file; of all elements */
    size_t row_bytes;
    pthread_t thread;
    bool has_thread;
    _Atomic int64_t n_ready; /* rows */
} array_file;

struct arrays {
    dt_source source;
    dt_column *columns;
    array_file *files;
    int n_files;
    pthread_mutex_t lock; /* of failure; n_ready is published under it too, so that no waiter misses it */
    pthread_cond_t progress;
    dt_status *failure; /* the first one of any thread */
    atomic_bool failed, cancelled;
};

/* "the header promises u8[60000, 28, 28]", `rest` after it. */
static dt_status *header_lies(const array_file *array, const char *rest) {
    dt_text type = {0};
    dt_text_append_type(&type, array->header.dtype, array->header.n_dims, array->header.dims);
    dt_status *status = dt_error_in(DT_DATA_LOSS, dt_input_file_path(array->file), 0, "the file is truncated or altered: its header promises %s, %s",
                                    type.data != NULL ? type.data : "", rest);
    dt_text_free(&type);
    return status;
}

static void turn_around(unsigned char *bytes, size_t n_bytes, size_t element_bytes) {
    for (unsigned char *element = bytes; element < bytes + n_bytes; element += element_bytes)
        for (size_t i = 0; i < element_bytes / 2; i++) {
            unsigned char byte = element[i];
            element[i] = element[element_bytes - 1 - i];
            element[element_bytes - 1 - i] = byte;
        }
}

static dt_status *ends_early(const array_file *array, uint64_t n_read) {
    char rest[100];
    snprintf(rest, sizeof rest, "%llu bytes, but it ends after %llu", (unsigned long long)array->n_bytes, (unsigned long long)n_read);
    return header_lies(array, rest);
}

static dt_status *goes_on(const array_file *array) {
    return dt_error_in(DT_DATA_LOSS, dt_input_file_path(array->file), 0,
                       "the file was altered: it goes on after the %llu bytes that its header promises", (unsigned long long)array->n_bytes);
}

static dt_status *load(array_file *array) {
    size_t element_bytes = dt_dtype_bytes(array->header.dtype);
    for (uint64_t n_done = 0; n_done < array->n_bytes;) {
        if (atomic_load(&array->owner->cancelled)) return NULL;
        size_t n_wanted = array->n_bytes - n_done < PIECE_BYTES ? (size_t)(array->n_bytes - n_done) : PIECE_BYTES, n_read;
        DT_TRY(dt_input_file_read(array->file, array->bytes + n_done, n_wanted, &n_read));
        if (n_read < n_wanted) return ends_early(array, n_done + n_read);
        if (array->header.big_endian && element_bytes > 1) turn_around(array->bytes + n_done, n_read, element_bytes);
        n_done += n_read;
        if (n_done == array->n_bytes) break; /* the last rows count once the end of the file is seen */
        pthread_mutex_lock(&array->owner->lock);
        atomic_store_explicit(&array->n_ready, (int64_t)(n_done / array->row_bytes), memory_order_release);
        pthread_cond_broadcast(&array->owner->progress);
        pthread_mutex_unlock(&array->owner->lock);
    }
    char beyond;
    size_t n_beyond;
    DT_TRY(dt_input_file_read(array->file, &beyond, 1, &n_beyond));
    return n_beyond == 0 ? NULL : goes_on(array);
}

static void *loader(void *argument) {
    array_file *array = argument;
    arrays *owner = array->owner;
    dt_status *status = load(array);
    pthread_mutex_lock(&owner->lock);
    if (status == NULL) atomic_store_explicit(&array->n_ready, owner->source.n_examples, memory_order_release);
    owner->failure = dt_status_first(owner->failure, status);
    atomic_store(&owner->failed, owner->failure != NULL);
    pthread_cond_broadcast(&owner->progress);
    pthread_mutex_unlock(&owner->lock);
    return NULL;
}

static bool is_ready(const arrays *source, int64_t n_rows) {
    for (int i = 0; i < source->n_files; i++)
        if (atomic_load_explicit(&source->files[i].n_ready, memory_order_acquire) < n_rows) return false;
    return true;
}

static dt_status *arrays_wait(dt_source *base, int64_t n_rows) {
    arrays *source = (arrays *)base;
    if (is_ready(source, n_rows) && !atomic_load(&source->failed)) return NULL;
    dt_status *status = NULL;
    pthread_mutex_lock(&source->lock);
    while (source->failure == NULL && !is_ready(source, n_rows) && !source->cancelled) pthread_cond_wait(&source->progress, &source->lock);
    if (source->failure != NULL)
        status = dt_error(dt_status_code(source->failure), "%s", dt_status_message(source->failure));
    else if (!is_ready(source, n_rows))
        status = dt_error_in(DT_ABORTED, source->columns[0].path, 0, "is not read any further");
    pthread_mutex_unlock(&source->lock);
    return status;
}

static dt_status *arrays_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const array_file *array = &((const arrays *)base)->files[column];
    size_t element_bytes = dt_dtype_bytes(array->header.dtype), n_bytes = (size_t)n_rows * array->row_bytes, n_read;
    DT_TRY(dt_input_file_read_at(array->file, array->start + (uint64_t)row * array->row_bytes, bytes, n_bytes, &n_read));
    if (n_read < n_bytes)
        return dt_error_in(DT_DATA_LOSS, dt_input_file_path(array->file), 0,
                           "the file was truncated while it was in use: it ends before the end of row %lld (from 0)",
                           (long long)(row + (int64_t)(n_read / array->row_bytes)));
    if (array->header.big_endian && element_bytes > 1) turn_around(bytes, n_bytes, element_bytes);
    return NULL;
}

static void arrays_cancel(dt_source *base) {
    arrays *source = (arrays *)base;
    pthread_mutex_lock(&source->lock);
    atomic_store(&source->cancelled, true);
    pthread_cond_broadcast(&source->progress);
    pthread_mutex_unlock(&source->lock);
}

static void arrays_close(dt_source *base) {
    arrays *source = (arrays *)base;
    arrays_cancel(base);
    for (int i = 0; i < source->n_files; i++) {
        array_file *array = &source->files[i];
        if (array->has_thread) pthread_join(array->thread, NULL);
        dt_input_file_close(array->file);
        dt_release(array->header.dims);
        dt_release(array->bytes);
    }
    pthread_mutex_destroy(&source->lock);
    pthread_cond_destroy(&source->progress);
    dt_status_free(source->failure);
    dt_release(source->files);
    dt_release(source->columns);
    dt_release(source);
}

/* Sets start, row_bytes and n_bytes from the header, which is only believed as far as the file can hold it. */
static dt_status *measure(array_file *array) {
    const char *path = dt_input_file_path(array->file);
    const dt_array_header *header = &array->header;
    if (header->n_dims == 0) return dt_error_in(DT_DATA_LOSS, path, 0, "holds a single number, not rows of examples");
    uint64_t n_bytes = dt_dtype_bytes(header->dtype);
    bool fits = true;
    for (int i = header->n_dims - 1; i >= 0; i--) {
        if (header->dims[i] <= 0) return dt_error_in(DT_DATA_LOSS, path, 0, "holds no elements: dimension %d is %lld", i, (long long)header->dims[i]);
        if (i == 0) array->row_bytes = (size_t)n_bytes;
        fits = fits && !__builtin_mul_overflow(n_bytes, (uint64_t)header->dims[i], &n_bytes);
    }
    uint64_t most = dt_input_file_most_bytes(array->file);
    if (!fits || n_bytes > most) return header_lies(array, "more than it can hold");
    array->n_bytes = n_bytes;
    if (!dt_input_file_is_plain(array->file)) return NULL;
    array->start = dt_input_file_position(array->file);
    if (most - array->start < n_bytes) return ends_early(array, most - array->start);
    return most - array->start > n_bytes ? goes_on(array) : NULL;
}

static dt_status *open_array(array_file *array, const char *folder, const char *name, bool by_row, dt_array_parser *parse) {
    DT_TRY(dt_input_file_open(folder, name, &array->file));
    if (parse == NULL) parse = strstr(name, ".npy") != NULL ? dt_npy_parse : dt_idx_parse;
    DT_TRY(parse(array->file, &array->header));
    DT_TRY(measure(array));
    if (by_row && dt_input_file_is_plain(array->file)) {
        array->n_ready = array->header.dims[0];
        return NULL;
    }
    array->bytes = dt_allocate((size_t)array->n_bytes + DT_SLACK_BYTES);
    if (array->bytes == NULL)
        return dt_error_in(DT_RESOURCE_EXHAUSTED, dt_input_file_path(array->file), 0, "no memory for its %llu bytes",
                           (unsigned long long)array->n_bytes);
    memset(array->bytes + array->n_bytes, 0, DT_SLACK_BYTES);
    return NULL;
}

/* All headers are known: the columns, and whether they agree. */
static dt_status *describe(arrays *source) {
    source->source.n_examples = source->files[0].header.dims[0];
    for (int i = 0; i < source->n_files; i++) {
        const array_file *array = &source->files[i];
        const char *path = dt_input_file_path(array->file);
        if (array->header.dims[0] != source->source.n_examples)
            return dt_error(DT_DATA_LOSS, "the files disagree: %s holds %lld examples, %s %lld", dt_input_file_path(source->files[0].file),
                            (long long)source->source.n_examples, path, (long long)array->header.dims[0]);
        source->columns[i] = (dt_column){
            .path = path,
            .tensor = {.name = "",
                       .dtype = array->header.dtype,
                       .n_dims = array->header.n_dims - 1,
                       .dims = array->header.dims + 1,
                       .row_bytes = (int64_t)array->row_bytes},
            .bytes = array->bytes,
            .stride = (int64_t)array->row_bytes,
        };
    }
    source->source.n_columns = source->n_files;
    source->source.columns = source->columns;
    return NULL;
}

static dt_status *start_loaders(arrays *source) {
    for (int i = 0; i < source->n_files; i++) {
        array_file *array = &source->files[i];
        if (array->bytes == NULL) continue;
        int reason = pthread_create(&array->thread, NULL, loader, array);
        if (reason != 0) return dt_status_annotate(dt_thread_error(reason), "%s", dt_input_file_path(array->file));
        array->has_thread = true;
    }
    return NULL;
}

static dt_status *arrays_open(const char *folder, int n_names, const char *const *names, bool by_row, dt_array_parser *parse, dt_source **opened) {
    *opened = NULL;
    arrays *source = dt_allocate_zeroed(1, sizeof *source);
    if (source == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    pthread_mutex_init(&source->lock, NULL);
    pthread_cond_init(&source->progress, NULL);
    source->source.wait = arrays_wait;
    source->source.read = arrays_read;
    source->source.cancel = arrays_cancel;
    source->source.close = arrays_close;
    source->files = dt_allocate_zeroed((size_t)n_names, sizeof *source->files);
    source->columns = dt_allocate_zeroed((size_t)n_names, sizeof *source->columns);
    dt_status *status = NULL;
    if (source->files == NULL || source->columns == NULL) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < n_names && status == NULL; i++) {
        source->n_files = i + 1;
        source->files[i].owner = source;
        status = open_array(&source->files[i], folder, names[i], by_row, parse);
    }
    if (status == NULL) status = describe(source);
    if (status == NULL) status = start_loaders(source);
    if (status != NULL) {
        arrays_close(&source->source);
        return status;
    }
    *opened = &source->source;
    return NULL;
}

dt_status *dt_arrays_open(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_array_parser *parse, dt_source **source) {
    *source = NULL;
    int n = stage->n_arguments;
    const char **names = dt_allocate((size_t)n * sizeof *names);
    if (names == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < n; i++) names[i] = stage->arguments[i].string;
    dt_status *status = arrays_open(folder, n, names, by_row, parse, source);
    dt_release(names);
    return status;
}

dt_status *dt_source_open_files(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    return dt_arrays_open(stage, folder, by_row, NULL, source);
}
