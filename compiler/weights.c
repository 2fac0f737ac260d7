/* weights: see weights.h. */
#include "compiler/weights.h"

#include "base/file.h"
#include "base/memory.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum {
    HEAD_BYTES = 8 /* the length of a safetensors file's header, before it */
};

struct dt_weights {
    char *path; /* of the file */
    char *bytes;
    size_t n_bytes, n_data; /* of the file; of what follows its header */
    cJSON *header;
};

/* ---- reading ---- */

/* The bytes of a tensor that lies in the file, from *begin on; -1 where it does not. */
static double tensor_bytes(const dt_weights *weights, const cJSON *tensor, double *begin) {
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const cJSON *first = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1);
    bool is_inside = cJSON_IsNumber(first) && cJSON_IsNumber(end) && first->valuedouble >= 0 && first->valuedouble <= end->valuedouble &&
                     end->valuedouble <= (double)weights->n_data;
    *begin = is_inside ? first->valuedouble : 0;
    return is_inside ? end->valuedouble - first->valuedouble : -1;
}

static dt_status *read_header(dt_weights *weights) {
    uint64_t n_header = 0;
    double begin;
    for (int i = 0; i < HEAD_BYTES && weights->n_bytes >= HEAD_BYTES; i++) n_header |= (uint64_t)(unsigned char)weights->bytes[i] << 8 * i;
    if (n_header > 0 && weights->n_bytes >= HEAD_BYTES && n_header <= weights->n_bytes - HEAD_BYTES)
        weights->header = cJSON_ParseWithLength(weights->bytes + HEAD_BYTES, n_header);
    if (!cJSON_IsObject(weights->header)) return dt_error_in(DT_DATA_LOSS, weights->path, 0, "is no safetensors file, or a truncated one");
    weights->n_data = weights->n_bytes - HEAD_BYTES - n_header;
    const cJSON *tensor;
    cJSON_ArrayForEach(tensor, weights->header) {
        if (strcmp(tensor->string, "__metadata__") == 0 || tensor_bytes(weights, tensor, &begin) >= 0) continue;
        return dt_error_in(DT_DATA_LOSS, weights->path, 0, "is truncated or damaged: %s does not lie in it", tensor->string);
    }
    return NULL;
}

/* The file that `path` means; of a folder its model.safetensors. */
static dt_status *find_file(const char *path, char **file) {
    static const char in_checkpoint[] = "/model.safetensors";
    struct stat about;
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    size_t n = strlen(path);
    *file = dt_allocate(n + sizeof in_checkpoint);
    if (*file == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory to read it");
    memcpy(*file, path, n + 1);
    if (is_folder) memcpy(*file + n, in_checkpoint, sizeof in_checkpoint);
    if (!is_folder || dt_file_exists(*file)) return NULL;
    dt_release(*file);
    *file = NULL;
    return dt_error_in(DT_NOT_FOUND, path, 0, "is a folder, but no checkpoint, which has a model.safetensors; of several name one, as in %s/step-100",
                       path);
}

dt_status *dt_weights_read(const char *path, dt_weights **weights) {
    dt_weights *read = *weights = dt_allocate_zeroed(1, sizeof *read);
    if (read == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory to read it");
    dt_status *status = find_file(path, &read->path);
    if (status == NULL) status = dt_file_read(read->path, &read->bytes, &read->n_bytes);
    if (status == NULL) status = read_header(read);
    if (status == NULL) return NULL;
    dt_weights_free(read);
    *weights = NULL;
    return status;
}

void dt_weights_free(dt_weights *weights) {
    if (weights == NULL) return;
    cJSON_Delete(weights->header);
    dt_release(weights->bytes);
    dt_release(weights->path);
    dt_release(weights);
}

const char *dt_weights_bytes(const dt_weights *weights, size_t *n_bytes) {
    *n_bytes = weights->n_bytes;
    return weights->bytes;
}

/* ---- finding ---- */

static bool has_dims(const cJSON *shape, int rank, const int64_t *dims) {
    bool is_same = cJSON_GetArraySize(shape) == rank;
    for (int d = 0; is_same && d < rank; d++) is_same = cJSON_GetNumberValue(cJSON_GetArrayItem(shape, d)) == (double)dims[d];
    return is_same;
}

dt_status *dt_weights_find(const dt_weights *weights, const char *path, const char *kind, dt_dtype dtype, int rank, const int64_t *dims,
                           const void **data) {
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(weights->header, path);
    if (tensor == NULL)
        return dt_status_about(dt_error_in(DT_FAILED_PRECONDITION, weights->path, 0, "has no %s %s, which the program needs", kind, path), path);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
    if (type == NULL || strcmp(type, dt_dtype_safetensors_name(dtype)) != 0 ||
        !has_dims(cJSON_GetObjectItemCaseSensitive(tensor, "shape"), rank, dims))
        return dt_status_about(dt_error_in(DT_FAILED_PRECONDITION, weights->path, 0,
                                           "%s is not of the type and shape that it has in the program; `dtrun export --map` may make it so", path),
                               path);
    double n_bytes = (double)dt_dtype_bytes(dtype), begin;
    for (int d = 0; d < rank; d++) n_bytes *= (double)dims[d];
    if (tensor_bytes(weights, tensor, &begin) != n_bytes)
        return dt_error_in(DT_DATA_LOSS, weights->path, 0, "is damaged: %s does not have the bytes of its shape", path);
    *data = weights->bytes + (weights->n_bytes - weights->n_data) + (size_t)begin;
    return NULL;
}
