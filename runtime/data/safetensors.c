/* safetensors: see safetensors.h. cJSON parses the header, json.h says what is wrong with it, nettle sums. */
#include "runtime/data/safetensors.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/json.h"
#include "runtime/artifact/json_text.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_HEADER_BYTES ((uint64_t)100 << 20) /* the format's own limit */
#define MOST_DIMS 64

enum {
    ALIGNMENT = 64, /* of the first tensor in files that are written */
    MOST_NAMED = 3  /* tensors of a range that was altered */
};

typedef struct file {
    dt_safetensors view; /* first: what the caller sees */
    char *owned;         /* all bytes of a pipe */
    cJSON *header;
    dt_safetensor *tensors;
    int64_t *dims; /* of all tensors */

    /* where elements stay in the file: */
    int fd; /* else -1 */
    char *path;
    struct timespec written;     /* when it was, as it was read */
    char *buffer;                /* as large as the largest tensor; NULL: none has been loaded */
    const dt_safetensor *loaded; /* in it */
} file;

static dt_dtype dtype_from(const char *name) {
    int dtype = 0;
    while (dtype < DT_N_DTYPES && strcmp(dt_dtype_safetensors_name((dt_dtype)dtype), name) != 0) dtype++;
    return (dt_dtype)dtype;
}

static bool is_metadata(const cJSON *entry) { return strcmp(entry->string, "__metadata__") == 0; }

/* Sums the dimensions of all entries, so that one block can hold them. */
static dt_status *count(const dt_json *root, int *n_tensors, size_t *n_dims) {
    *n_tensors = 0;
    *n_dims = 0;
    for (const cJSON *entry = root->value->child; entry != NULL; entry = entry->next) {
        if (is_metadata(entry)) continue;
        dt_json tensor = {.value = entry, .parent = root, .key = entry->string, .document = root->document}, shape;
        int n;
        if (!cJSON_IsObject(entry)) return dt_json_wrong(&tensor, "expected an object");
        DT_TRY(dt_json_array(&tensor, "shape", &shape, &n));
        if (n > MOST_DIMS) return dt_json_wrong(&shape, "expected at most %d dimensions, found %d", MOST_DIMS, n);
        *n_dims += (size_t)n;
        ++*n_tensors;
    }
    return NULL;
}

/* What follows the header: where it begins in the file, and how much it is. */
typedef struct body {
    uint64_t offset, n_bytes;
} body;

/* Reads one entry; the dimensions go to `dims`. */
static dt_status *read_entry(const dt_json *entry, body rest, int64_t *dims, dt_safetensor *tensor) {
    dt_json shape, offsets;
    const char *dtype;
    int n_offsets, i = 0;
    int64_t ends[2] = {0}, n_elements = 1, most = 1; /* most: by the dimensions that are not 0, whose strides must be numbers too */
    DT_TRY(dt_json_string(entry, "dtype", &dtype));
    DT_TRY(dt_json_array(entry, "shape", &shape, &tensor->n_dims));
    for (dt_json item = dt_json_first(&shape); item.value != NULL; dt_json_next(&item)) {
        DT_TRY(dt_json_as_integer(&item, 0, INT64_MAX, &dims[i]));
        if (__builtin_mul_overflow(most, dims[i] != 0 ? dims[i] : 1, &most)) return dt_json_wrong(&shape, "is too large");
        n_elements *= dims[i++];
    }
    DT_TRY(dt_json_array(entry, "data_offsets", &offsets, &n_offsets));
    if (n_offsets != 2) return dt_json_wrong(&offsets, "expected a begin and an end");
    i = 0;
    for (dt_json item = dt_json_first(&offsets); item.value != NULL; dt_json_next(&item))
        DT_TRY(dt_json_as_integer(&item, 0, (int64_t)rest.n_bytes, &ends[i++]));
    tensor->name = entry->key;
    tensor->dtype = dtype_from(dtype);
    tensor->dims = dims;
    tensor->n_bytes = ends[1] - ends[0];
    tensor->offset = (int64_t)rest.offset + ends[0];
    int64_t n_bytes;
    if (tensor->n_bytes < 0) return dt_json_wrong(&offsets, "ends before it begins");
    if (tensor->dtype != DT_N_DTYPES &&
        (__builtin_mul_overflow(n_elements, (int64_t)dt_dtype_bytes(tensor->dtype), &n_bytes) || n_bytes != tensor->n_bytes))
        return dt_json_wrong(&offsets, "holds %lld bytes, which is not what its shape and type need", (long long)tensor->n_bytes);
    return NULL;
}

static int by_place(const void *a, const void *b) {
    const dt_safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static int by_name(const void *a, const void *b) { return strcmp(((const dt_safetensor *)a)->name, ((const dt_safetensor *)b)->name); }

/* No gap, no overlap, no name twice. Leaves the tensors sorted by name. */
static dt_status *check_together(const char *path, dt_safetensor *tensors, int n, body rest) {
    if (n == 0) return rest.n_bytes == 0 ? NULL : dt_error_in(DT_DATA_LOSS, path, 0, "holds bytes that belong to no tensor");
    qsort(tensors, (size_t)n, sizeof *tensors, by_place);
    uint64_t end = rest.offset;
    for (int i = 0; i < n; i++) {
        if ((uint64_t)tensors[i].offset != end)
            return dt_error_in(DT_DATA_LOSS, path, 0, "%s does not begin where the tensor before it ends", tensors[i].name);
        end += (uint64_t)tensors[i].n_bytes;
    }
    if (end != rest.offset + rest.n_bytes) return dt_error_in(DT_DATA_LOSS, path, 0, "holds bytes that belong to no tensor");
    qsort(tensors, (size_t)n, sizeof *tensors, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0) return dt_error_in(DT_DATA_LOSS, path, 0, "%s is there twice", tensors[i].name);
    return NULL;
}

static dt_status *read_header(file *read, const char *path, body rest) {
    dt_json root = {.value = read->header, .document = path};
    size_t n_dims;
    int n;
    if (!cJSON_IsObject(read->header)) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a safetensors file: its header is not a JSON object");
    DT_TRY(count(&root, &n, &n_dims));
    read->tensors = dt_allocate_zeroed((size_t)n, sizeof *read->tensors);
    read->dims = dt_allocate_zeroed(n_dims, sizeof *read->dims);
    if (read->tensors == NULL || read->dims == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    int64_t *dims = read->dims;
    int i = 0;
    for (const cJSON *entry = read->header->child; entry != NULL; entry = entry->next) {
        if (is_metadata(entry)) continue;
        dt_json tensor = {.value = entry, .parent = &root, .key = entry->string, .document = path};
        DT_TRY(read_entry(&tensor, rest, dims, &read->tensors[i]));
        dims += read->tensors[i++].n_dims;
    }
    DT_TRY(check_together(path, read->tensors, n, rest));
    read->view.n = n;
    read->view.tensors = read->tensors;
    return NULL;
}

uint64_t dt_safetensors_head_bytes(const unsigned char start[8]) {
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n |= (uint64_t)start[i] << 8 * i;
    return n <= MOST_HEADER_BYTES ? 8 + n : UINT64_MAX;
}

/* `bytes` are all of a file of n_file bytes, or its head. */
static dt_status *parse(file *read, const char *path, const unsigned char *bytes, size_t n_bytes, uint64_t n_file) {
    if (n_bytes < 8) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a safetensors file: it has %zu bytes", n_bytes);
    uint64_t n_head = dt_safetensors_head_bytes(bytes);
    if (n_head > n_bytes) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a safetensors file, or is truncated within its header");
    read->header = cJSON_ParseWithLength((const char *)bytes + 8, (size_t)n_head - 8);
    if (read->header == NULL) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a safetensors file: its header is not JSON");
    return read_header(read, path, (body){n_head, n_file - n_head});
}

static dt_status *parse_new(const char *path, const void *bytes, size_t n_bytes, uint64_t n_file, file **opened) {
    *opened = NULL;
    file *read = dt_allocate_zeroed(1, sizeof *read);
    if (read == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    read->fd = -1;
    dt_status *status = parse(read, path, bytes, n_bytes, n_file);
    if (status != NULL) {
        dt_safetensors_free(&read->view);
        return status;
    }
    *opened = read;
    return NULL;
}

dt_status *dt_safetensors_parse(const char *path, const void *bytes, size_t n_bytes, dt_safetensors **opened) {
    *opened = NULL;
    file *read;
    DT_TRY(parse_new(path, bytes, n_bytes, n_bytes, &read));
    struct sha256_ctx sum;
    sha256_init(&sum);
    sha256_update(&sum, n_bytes, bytes);
    sha256_digest(&sum, DT_SHA256_BYTES, read->view.sha256);
    for (int i = 0; i < read->view.n; i++) read->tensors[i].data = (const char *)bytes + read->tensors[i].offset;
    *opened = &read->view;
    return NULL;
}

dt_status *dt_safetensors_parse_header(const char *path, const void *head, size_t n_head, uint64_t n_file, dt_safetensors **opened) {
    *opened = NULL;
    file *read;
    DT_TRY(parse_new(path, head, n_head, n_file, &read));
    *opened = &read->view;
    return NULL;
}

/* ---- files that are not read into memory ---- */

static dt_status *was_changed(const char *path) { return dt_error_in(DT_DATA_LOSS, path, 0, "was changed while it was read: read it again"); }

/* `n_bytes` of the file from `offset` on, which it had when it was opened. */
static dt_status *read_whole(int fd, const char *path, uint64_t offset, void *buffer, size_t n_bytes) {
    size_t n_read;
    DT_TRY(dt_file_read_at(fd, path, offset, buffer, n_bytes, &n_read));
    return n_read == n_bytes ? NULL : was_changed(path);
}

/* Parses the header of a file of `n_file` bytes. */
static dt_status *read_head(int fd, const char *path, uint64_t n_file, file **opened) {
    unsigned char start[8] = {0};
    size_t n_start = n_file < sizeof start ? (size_t)n_file : sizeof start;
    DT_TRY(read_whole(fd, path, 0, start, n_start));
    uint64_t n_head = dt_safetensors_head_bytes(start);
    if (n_start < sizeof start || n_head > n_file) return parse_new(path, start, n_start, n_file, opened); /* which says so */
    char *head = dt_allocate((size_t)n_head);
    if (head == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    dt_status *status = read_whole(fd, path, 0, head, (size_t)n_head);
    if (status == NULL) status = parse_new(path, head, (size_t)n_head, n_file, opened);
    dt_release(head);
    return status;
}

/* Of a range of the file, which is in memory where it was a pipe. */
static dt_status *sum_up(const file *read, const dt_file_range *range, char *piece, unsigned char sha256[DT_SHA256_BYTES]) {
    struct sha256_ctx sum;
    sha256_init(&sum);
    for (int64_t time = 0; time < range->times; time++)
        for (int64_t done = 0, n; done < range->n_bytes; done += n) {
            int64_t at = range->first + time * range->stride + done;
            n = range->n_bytes - done < DT_FILE_PIECE_BYTES ? range->n_bytes - done : DT_FILE_PIECE_BYTES;
            const char *bytes = read->owned != NULL ? read->owned + at : piece;
            if (read->owned == NULL) DT_TRY(read_whole(read->fd, read->path, (uint64_t)at, piece, (size_t)n));
            sha256_update(&sum, (size_t)n, (const unsigned char *)bytes);
        }
    sha256_digest(&sum, DT_SHA256_BYTES, sha256);
    return NULL;
}

/* Behind all of it. */
static int64_t end_of(const dt_file_range *range) { return range->first + (range->times - 1) * range->stride + range->n_bytes; }

/* "Net/kernel, Net/bias and 3 more" */
static void print_tensors(const file *read, const dt_file_range *range, dt_text *text) {
    int n = 0;
    for (int i = 0; i < read->view.n; i++) {
        const dt_safetensor *tensor = &read->tensors[i];
        bool is_in = tensor->offset < end_of(range) && tensor->offset + tensor->n_bytes > range->first;
        if (is_in && n++ < MOST_NAMED) dt_text_format(text, "%s%s", n > 1 ? ", " : "", tensor->name);
    }
    if (n > MOST_NAMED) dt_text_format(text, " and %d more", n - MOST_NAMED);
    if (n == 0) dt_text_append(text, "no tensor");
}

static dt_status *was_altered(const file *read, const char *path, const dt_file_range *range) {
    dt_text tensors = {0};
    char each[64] = "";
    print_tensors(read, range, &tensors);
    if (range->times > 1) snprintf(each, sizeof each, ", %" PRId64 " of each %" PRId64, range->n_bytes, range->stride);
    dt_status *status =
        dt_error_in(DT_DATA_LOSS, path, 0, "was altered: bytes %" PRId64 " to %" PRId64 "%s, of %s, have another SHA-256 than when they were written",
                    range->first, end_of(range) - 1, each, tensors.data != NULL ? tensors.data : "?");
    dt_text_free(&tensors);
    return status;
}

static dt_status *check_ranges(file *read, const char *path, int64_t n_file, const dt_file_ranges *ranges, char *piece) {
    struct sha256_ctx all;
    int64_t end = 0;
    sha256_init(&all);
    for (int r = 0; r < ranges->n; r++)
        if (end_of(&ranges->items[r]) > end) end = end_of(&ranges->items[r]);
    if (end != n_file) return dt_error_in(DT_DATA_LOSS, path, 0, "has %" PRId64 " bytes, and %" PRId64 " were written", n_file, end);
    for (int r = 0; r < ranges->n; r++) {
        unsigned char sum[DT_SHA256_BYTES];
        DT_TRY(sum_up(read, &ranges->items[r], piece, sum));
        if (memcmp(sum, ranges->items[r].sha256, sizeof sum) != 0) return was_altered(read, path, &ranges->items[r]);
        sha256_update(&all, sizeof sum, sum);
    }
    sha256_digest(&all, DT_SHA256_BYTES, read->view.sha256);
    return NULL;
}

/* Sums it up, and frees it after an error. */
static dt_status *finish_reading(file *read, const char *path, int64_t n_file, const dt_file_ranges *ranges, dt_safetensors **opened) {
    char *piece = dt_allocate(DT_FILE_PIECE_BYTES);
    dt_status *status = piece == NULL ? dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory") : NULL;
    const dt_file_range whole = {.n_bytes = n_file, .times = 1};
    if (status == NULL) status = ranges != NULL ? check_ranges(read, path, n_file, ranges, piece) : sum_up(read, &whole, piece, read->view.sha256);
    dt_release(piece);
    if (status != NULL)
        dt_safetensors_free(&read->view);
    else
        *opened = &read->view;
    return status;
}

/* Takes `fd` over. */
static dt_status *read_file(int fd, const char *path, uint64_t n_file, const dt_file_ranges *ranges, dt_safetensors **opened) {
    struct stat about;
    file *read = NULL;
    dt_status *status = fstat(fd, &about) == 0 ? read_head(fd, path, n_file, &read) : was_changed(path);
    if (status != NULL) {
        close(fd);
        return status;
    }
    read->fd = fd;
    read->written = about.st_mtim;
    read->path = dt_allocate(strlen(path) + 1);
    if (read->path == NULL) {
        dt_safetensors_free(&read->view);
        return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    }
    strcpy(read->path, path);
    return finish_reading(read, path, (int64_t)n_file, ranges, opened);
}

/* What comes out of a pipe is kept. */
static dt_status *read_pipe(const char *path, const dt_file_ranges *ranges, dt_safetensors **opened) {
    char *bytes;
    size_t n_bytes;
    file *read;
    DT_TRY(dt_file_read(path, &bytes, &n_bytes));
    dt_status *status = parse_new(path, bytes, n_bytes, n_bytes, &read);
    if (status != NULL) {
        dt_release(bytes);
        return status;
    }
    read->owned = bytes;
    for (int i = 0; i < read->view.n; i++) read->tensors[i].data = bytes + read->tensors[i].offset;
    return finish_reading(read, path, (int64_t)n_bytes, ranges, opened);
}

dt_status *dt_safetensors_read_ranges(const char *path, const dt_file_ranges *ranges, dt_safetensors **opened) {
    struct stat about;
    int fd;
    uint64_t n_file;
    *opened = NULL;
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode)) return read_pipe(path, ranges, opened);
    DT_TRY(dt_file_open(path, &fd, &n_file));
    return read_file(fd, path, n_file, ranges, opened);
}

dt_status *dt_safetensors_read(const char *path, dt_safetensors **opened) { return dt_safetensors_read_ranges(path, NULL, opened); }

/* Whoever writes into the file meanwhile changes its time. */
static dt_status *read_elements(const file *read, const dt_safetensor *tensor, int64_t first, void *data, size_t n_bytes) {
    struct stat about;
    DT_TRY(read_whole(read->fd, read->path, (uint64_t)(tensor->offset + first), data, n_bytes));
    bool is_same = fstat(read->fd, &about) == 0 && about.st_mtim.tv_sec == read->written.tv_sec && about.st_mtim.tv_nsec == read->written.tv_nsec;
    return is_same ? NULL : was_changed(read->path);
}

/* For any of the tensors: who has loaded one does not fail for want of memory for another. */
static dt_status *make_room(file *read) {
    int64_t n_bytes = 1;
    for (int i = 0; i < read->view.n; i++) n_bytes = read->tensors[i].n_bytes > n_bytes ? read->tensors[i].n_bytes : n_bytes;
    read->buffer = dt_allocate((size_t)n_bytes);
    return read->buffer != NULL ? NULL : dt_error_in(DT_RESOURCE_EXHAUSTED, read->path, 0, "out of memory");
}

static dt_status *fill_buffer(file *read, const dt_safetensor *tensor) {
    read->loaded = NULL;
    if (read->buffer == NULL) DT_TRY(make_room(read));
    DT_TRY(read_elements(read, tensor, 0, read->buffer, (size_t)tensor->n_bytes));
    read->loaded = tensor;
    return NULL;
}

dt_status *dt_safetensors_load(dt_safetensors *opened, const dt_safetensor *tensor, const void **data) {
    file *read = (file *)opened;
    if (tensor->data == NULL && read->loaded != tensor) DT_TRY(fill_buffer(read, tensor));
    *data = tensor->data != NULL ? tensor->data : read->buffer;
    return NULL;
}

dt_status *dt_safetensors_load_part(dt_safetensors *opened, const dt_safetensor *tensor, int64_t first, size_t n_bytes, void *data) {
    if (tensor->data == NULL) return read_elements((file *)opened, tensor, first, data, n_bytes);
    memcpy(data, (const char *)tensor->data + first, n_bytes);
    return NULL;
}

void dt_safetensors_free(dt_safetensors *opened) {
    if (opened == NULL) return;
    file *read = (file *)opened;
    cJSON_Delete(read->header);
    dt_release(read->tensors);
    dt_release(read->dims);
    dt_release(read->owned);
    dt_release(read->path);
    dt_release(read->buffer);
    if (read->fd >= 0) close(read->fd);
    dt_release(read);
}

const dt_safetensor *dt_safetensors_find(const dt_safetensors *opened, const char *name) {
    dt_safetensor key = {.name = name};
    return opened->n > 0 ? bsearch(&key, opened->tensors, (size_t)opened->n, sizeof key, by_name) : NULL;
}

static void print_tensor(const dt_safetensor *tensor, int64_t offset, dt_text *text) {
    dt_text_append_json_string(text, tensor->name);
    dt_text_format(text, ":{\"dtype\":\"%s\",\"shape\":[", dt_dtype_safetensors_name(tensor->dtype));
    for (int d = 0; d < tensor->n_dims; d++) dt_text_format(text, d > 0 ? ",%lld" : "%lld", (long long)tensor->dims[d]);
    dt_text_format(text, "],\"data_offsets\":[%lld,%lld]}", (long long)offset, (long long)(offset + tensor->n_bytes));
}

int64_t dt_safetensors_lay_out(int n, dt_safetensor *tensors, dt_text *head) {
    int64_t end = 0; /* of those that have a place, from the first one on */
    size_t start = head->n;
    bool is_first = true;
    dt_text_append_bytes(head, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t element_bytes = 8; element_bytes > 0; element_bytes /= 2)
        for (int i = 0; i < n; i++) {
            if (dt_dtype_bytes(tensors[i].dtype) != element_bytes) continue;
            if (!is_first) dt_text_append(head, ",");
            is_first = false;
            print_tensor(&tensors[i], end, head);
            tensors[i].offset = end;
            end += tensors[i].n_bytes;
        }
    dt_text_append(head, "}");
    while ((head->n - start) % ALIGNMENT != 0 && !head->failed) dt_text_append(head, " ");
    int64_t n_head = (int64_t)(head->n - start);
    for (int i = 0; i < 8 && !head->failed; i++) head->data[start + (size_t)i] = (char)((uint64_t)(n_head - 8) >> 8 * i);
    for (int i = 0; i < n; i++) tensors[i].offset += n_head;
    return n_head + end;
}

/* In the order of the file, of which the sum is. */
static dt_status *put_all(dt_piece_file *to, const dt_text *head, int n, const dt_safetensor *tensors) {
    DT_TRY(dt_piece_file_put(to, 0, head->data, head->n));
    for (size_t element_bytes = 8; element_bytes > 0; element_bytes /= 2)
        for (int i = 0; i < n; i++)
            if (dt_dtype_bytes(tensors[i].dtype) == element_bytes)
                DT_TRY(dt_piece_file_put(to, tensors[i].offset, tensors[i].data, (size_t)tensors[i].n_bytes));
    return NULL;
}

dt_status *dt_safetensors_write(const char *path, int n, const dt_safetensor *tensors, unsigned char sha256[DT_SHA256_BYTES]) {
    dt_text head = {0};
    dt_piece_file to;
    dt_safetensor *placed = dt_allocate((size_t)n * sizeof *placed + 1);
    if (placed != NULL && n > 0) memcpy(placed, tensors, (size_t)n * sizeof *placed);
    int64_t n_bytes = placed != NULL ? dt_safetensors_lay_out(n, placed, &head) : 0;
    dt_status *status = placed == NULL || head.failed ? dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory to write it") : NULL;
    if (status == NULL) status = dt_piece_file_open(path, n_bytes, NULL, &to);
    if (status == NULL) {
        status = dt_piece_file_close(&to, put_all(&to, &head, n, placed));
        dt_piece_file_sum(&to, sha256);
    }
    dt_text_free(&head);
    dt_release(placed);
    return status;
}
