/* safetensors: named tensors in a file that every machine-learning tool reads.
 *
 * Eight bytes of length, a JSON object of that length that says type, shape and place of each tensor, then their bytes without a gap. A file
 * comes from anywhere, so nothing of its header is believed before it is checked against the others and against the size of the file. */
#ifndef DT_RUNTIME_DATA_SAFETENSORS_H
#define DT_RUNTIME_DATA_SAFETENSORS_H

#include "abi/dtype.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/data/piece_file.h"

typedef struct dt_safetensor {
    const char *name;
    dt_dtype dtype; /* DT_N_DTYPES: a type that is not in dtype.h; such a tensor can be passed over, not used */
    int n_dims;
    const int64_t *dims;
    int64_t n_bytes;
    int64_t offset;   /* in the file that was read, or laid out */
    const void *data; /* any alignment; NULL where the elements are in the file: dt_safetensors_load gets them */
} dt_safetensor;

typedef struct dt_safetensors {
    int n;
    const dt_safetensor *tensors;          /* [n], sorted by name */
    unsigned char sha256[DT_SHA256_BYTES]; /* of the whole file; where its ranges were given, of their sums */
} dt_safetensors;

/* Bytes [first, first + n_bytes) of a file, and times - 1 more such ranges, each `stride` bytes behind the one before, that were summed up as they
 * were written. Those of all its ranges are the file, each byte once. */
typedef struct dt_file_range {
    int64_t first, n_bytes, stride, times;
    unsigned char sha256[DT_SHA256_BYTES];
} dt_file_range;
typedef struct dt_file_ranges {
    int n;
    dt_file_range *items;
} dt_file_ranges;

/* Reads all of `path`, checks it and sums it up, but keeps the header alone: a model, and a tensor, may be larger than what memory is left.
 * DT_DATA_LOSS for what is truncated, altered or no such file. */
dt_status *dt_safetensors_read(const char *path, dt_safetensors **file);
/* The same of a file that was written in these ranges: DT_DATA_LOSS names those bytes that are others now, and the tensors that they are of. */
dt_status *dt_safetensors_read_ranges(const char *path, const dt_file_ranges *ranges, dt_safetensors **file);
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

/* Where tensors will be in a file: sets their offsets, appends what the file begins with to `head`, and returns the file's length. Tensors of 8-byte
 * elements come first, then of 4, 2 and 1, so that each is aligned to its elements; else they keep their order. */
int64_t dt_safetensors_lay_out(int n, dt_safetensor *tensors, dt_text *head);

/* Writes a new file of `n` tensors, which are in memory, and syncs it; `sha256` gets its sum. Not atomic, as of piece_file.h. */
dt_status *dt_safetensors_write(const char *path, int n, const dt_safetensor *tensors, unsigned char sha256[DT_SHA256_BYTES]);

#endif
