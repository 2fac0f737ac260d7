/* pack: weights into an artifact: a copy of its zip with one more member, once every parameter and state of the program is seen to be in them. */
#include "abi/dtype.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "compiler/weights.h"
#include "compiler/zip_memory.h"
#include "include/dtc.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <minizip/unzip.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS_FILE "weights.safetensors"

enum {
    MOST_NAME = 1024 /* of a member */
};

typedef struct packing {
    const char *artifact;
    unzFile from;
    zipFile to;
    dt_weights *weights;
    cJSON *manifest;
} packing;

static dt_status *no_memory(const packing *all) { return dt_error_in(DT_RESOURCE_EXHAUSTED, all->artifact, 0, "no memory to pack it"); }
static dt_status *damaged(const packing *all) { return dt_error_in(DT_DATA_LOSS, all->artifact, 0, "is damaged; compile or copy it again"); }

/* ---- what is in the two files ---- */

/* What the current member of the artifact is called, and its bytes. */
static dt_status *find_member(const packing *all, char name[MOST_NAME], size_t *n_bytes) {
    unz_file_info64 about;
    if (unzGetCurrentFileInfo64(all->from, &about, name, MOST_NAME, NULL, 0, NULL, 0) != UNZ_OK || about.size_filename >= MOST_NAME)
        return damaged(all);
    *n_bytes = about.uncompressed_size;
    return NULL;
}

/* The current member, which the caller frees. */
static dt_status *read_member(const packing *all, char **bytes, size_t *n_bytes) {
    char name[MOST_NAME];
    *bytes = NULL;
    DT_TRY(find_member(all, name, n_bytes));
    if (*n_bytes > INT_MAX || unzOpenCurrentFile(all->from) != UNZ_OK) return damaged(all);
    *bytes = dt_allocate(*n_bytes);
    int n = *bytes != NULL ? unzReadCurrentFile(all->from, *bytes, (unsigned)*n_bytes) : -1;
    bool whole = unzCloseCurrentFile(all->from) == UNZ_OK && n >= 0 && (size_t)n == *n_bytes;
    if (whole) return NULL;
    dt_status *status = *bytes == NULL ? no_memory(all) : damaged(all);
    dt_release(*bytes);
    *bytes = NULL;
    return status;
}

static dt_status *read_manifest(packing *all) {
    char *bytes;
    size_t n_bytes;
    int file;
    uint64_t n_file;
    DT_TRY(dt_file_open(all->artifact, &file, &n_file)); /* minizip would wait for the writer of a pipe, and does not say what is wrong */
    close(file);
    all->from = unzOpen64(all->artifact);
    if (all->from == NULL || unzLocateFile(all->from, "manifest.json", 1) != UNZ_OK)
        return dt_error_in(DT_DATA_LOSS, all->artifact, 0, "this is not an artifact; `dtc compile` writes one");
    DT_TRY(read_member(all, &bytes, &n_bytes));
    all->manifest = cJSON_ParseWithLength(bytes, n_bytes);
    dt_release(bytes);
    return all->manifest != NULL ? NULL : damaged(all);
}

/* ---- whether they fit ---- */

static const char *string_of(const cJSON *object, const char *key) {
    const char *string = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return string != NULL ? string : "";
}

/* A variable of the manifest is the tensor of its path. */
static dt_status *check_variable(const packing *all, const cJSON *variable) {
    const char *path = string_of(variable, "path"), *kind = string_of(variable, "kind");
    if (strcmp(kind, "parameter") != 0 && strcmp(kind, "state") != 0) return NULL;
    dt_dtype dtype = dt_dtype_from_name(string_of(variable, "dtype"));
    if (dtype == DT_N_DTYPES) return damaged(all);
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(variable, "shape"), *dim;
    int rank = 0;
    int64_t *dims = dt_allocate_zeroed((size_t)cJSON_GetArraySize(shape), sizeof *dims);
    if (dims == NULL) return no_memory(all);
    cJSON_ArrayForEach(dim, shape) dims[rank++] = (int64_t)dim->valuedouble;
    const void *data;
    dt_status *status = dt_weights_find(all->weights, path, kind, dtype, rank, dims, &data);
    dt_release(dims);
    return status;
}

static dt_status *check_variables(const packing *all) {
    const cJSON *variable;
    cJSON_ArrayForEach(variable, cJSON_GetObjectItemCaseSensitive(all->manifest, "variables")) DT_TRY(check_variable(all, variable));
    return NULL;
}

/* ---- the new file ---- */

static dt_status *add_member(const packing *all, const char *name, const char *bytes, size_t n_bytes) {
    enum {
        PIECE = 1 << 30
    };
    zip_fileinfo info = {.tmz_date = {.tm_year = 1980, .tm_mday = 1}}; /* as dtc compile writes them */
    bool added = zipOpenNewFileInZip64(all->to, name, &info, NULL, 0, NULL, 0, NULL, 0, 0, n_bytes >= UINT32_MAX) == ZIP_OK;
    for (size_t at = 0; added && at < n_bytes; at += PIECE)
        added = zipWriteInFileInZip(all->to, bytes + at, (unsigned)(n_bytes - at < PIECE ? n_bytes - at : PIECE)) == ZIP_OK;
    return added && zipCloseFileInZip(all->to) == ZIP_OK ? NULL : no_memory(all);
}

/* All members but weights of before. */
static dt_status *copy_members(const packing *all) {
    for (int next = unzGoToFirstFile(all->from); next != UNZ_END_OF_LIST_OF_FILE; next = unzGoToNextFile(all->from)) {
        char *bytes, name[MOST_NAME];
        size_t n_bytes;
        if (next != UNZ_OK) return damaged(all);
        DT_TRY(find_member(all, name, &n_bytes));
        if (strcmp(name, WEIGHTS_FILE) == 0) continue; /* they may be more than a member that is read whole */
        DT_TRY(read_member(all, &bytes, &n_bytes));
        dt_status *status = add_member(all, name, bytes, n_bytes);
        dt_release(bytes);
        DT_TRY(status);
    }
    return NULL;
}

static dt_status *write_packed(packing *all, const char *output) {
    dt_text bytes = {0};
    dt_zip_memory memory = {.bytes = &bytes};
    all->to = dt_zip_open(&memory);
    if (all->to == NULL) return no_memory(all);
    dt_status *status = copy_members(all);
    size_t n_bytes;
    const char *tensors = dt_weights_bytes(all->weights, &n_bytes);
    if (status == NULL) status = add_member(all, WEIGHTS_FILE, tensors, n_bytes);
    if (zipClose(all->to, NULL) != ZIP_OK || bytes.failed) status = dt_status_first(status, no_memory(all));
    if (status == NULL) status = dt_file_write_atomic(output, bytes.data, bytes.n);
    dt_text_free(&bytes);
    return status;
}

dt_status *dtc_pack(const char *artifact, const char *weights, const char *output) {
    if (artifact == NULL || weights == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s is NULL", artifact == NULL ? "artifact" : "weights");
    packing all = {.artifact = artifact};
    dt_status *status = read_manifest(&all);
    if (status == NULL) status = dt_weights_read(weights, &all.weights);
    if (status == NULL) status = check_variables(&all);
    if (status == NULL) status = write_packed(&all, output != NULL ? output : artifact);
    if (all.from != NULL) unzClose(all.from);
    cJSON_Delete(all.manifest);
    dt_weights_free(all.weights);
    return status;
}
