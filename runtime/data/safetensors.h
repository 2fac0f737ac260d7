/* safetensors: named tensors in a file that every machine-learning tool reads.
 *
 * Eight bytes of length, a JSON object of that length that says type, shape and place of each tensor, then their bytes without a gap. A file
 * comes from anywhere, so nothing of its header is believed before it is checked against the others and against the size of the file. */
#ifndef DT_RUNTIME_DATA_SAFETENSORS_H
#define DT_RUNTIME_DATA_SAFETENSORS_H

#include "abi/dtype.h"
#include "base/status.h"
#include "runtime/threads/progress.h"

#define DT_SHA256_BYTES 32

enum {
    DT_SAFETENSORS_PIECE_BYTES = 4 << 20 /* of a tensor, that are read or written at once: so many, and what is left at its end */
};

typedef struct dt_safetensor {
    const char *name;
    dt_dtype dtype; /* DT_N_DTYPES: a type that is not in dtype.h; such a tensor can be passed over, not used */
    int n_dims;
    const int64_t *dims;
    int64_t n_bytes;
    int64_t offset;   /* in the file that was read */
    const void *data; /* any alignment; NULL where the elements are in the file: dt_safetensors_load gets them */
} dt_safetensor;

typedef struct dt_safetensors {
    int n;
    const dt_safetensor *tensors;          /* [n], sorted by name */
    unsigned char sha256[DT_SHA256_BYTES]; /* of the whole file */
} dt_safetensors;

/* Reads all of `path`, checks it and sums it up, but keeps the header alone: a model, and a tensor, may be larger than what memory is left.
 * DT_DATA_LOSS for what is truncated, altered or no such file. */
dt_status *dt_safetensors_read(const char *path, dt_safetensors **file);
/* The same of bytes in memory, which must outlive the result; `path` is for messages. */
dt_status *dt_safetensors_parse(const char *path, const void *bytes, size_t n_bytes, dt_safetensors **file);
/* The same of a file of `n_file` bytes of which only the first `n_head` were read, the length and the header that it says. No sum, and no data. */
dt_status *dt_safetensors_parse_header(const char *path, const void *head, size_t n_head, uint64_t n_file, dt_safetensors **file);
/* How many bytes these are; what a file begins with may promise more than it holds. */
uint64_t dt_safetensors_head_bytes(const unsigned char start[8]);
void dt_safetensors_free(dt_safetensors *file); /* NULL is allowed */

/* The elements of one of the file's tensors, with any alignment, until the next call or dt_safetensors_free. DT_DATA_LOSS: the file was changed since
 * it was read; DT_IO. Not of a file of which only the header was read. */
dt_status *dt_safetensors_load(dt_safetensors *file, const dt_safetensor *tensor, const void **data);

const dt_safetensor *dt_safetensors_find(const dt_safetensors *file, const char *name); /* NULL: none */

/* Bytes [first, first + n_bytes) of its elements, to `data`. Errors as of dt_safetensors_load. */
dt_status *dt_safetensors_load_part(dt_safetensors *file, const dt_safetensor *tensor, int64_t first, size_t n_bytes, void *data);

/* Writes a new file of `n` tensors and syncs it, piece by piece: `progress`, which may be NULL, counts them. `sha256` gets its sum. Not atomic: the
 * caller writes in a folder of its own. DT_IO, DT_RESOURCE_EXHAUSTED. */
dt_status *dt_safetensors_write(const char *path, int n, const dt_safetensor *tensors, dt_progress *progress, unsigned char sha256[DT_SHA256_BYTES]);

/* What gives the elements of tensors that are not in memory, piece by piece: `read` is asked for bytes [first, first + n_bytes) of each such tensor
 * in order. Tensors of 8-byte elements come first, then of 4, 2 and 1; else they keep their order. */
typedef struct dt_safetensors_source {
    dt_status *(*read)(void *context, int tensor, int64_t first, size_t n_bytes, void *piece);
    void *context;
} dt_safetensors_source;
/* The same of tensors some of which have no data: `source` gives it. */
dt_status *dt_safetensors_write_from(const char *path, int n, const dt_safetensor *tensors, const dt_safetensors_source *source,
                                     dt_progress *progress, unsigned char sha256[DT_SHA256_BYTES]);

#endif
