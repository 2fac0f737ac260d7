/* pack: weights into an artifact: a copy of its zip with one more member, once every parameter and state of the program is seen to be in them. */
#include "abi/dtype.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "compiler/zip_memory.h"
#include "include/dtc.h"

#include <cjson/cJSON.h>
#include <minizip/unzip.h>
#include <string.h>

#define WEIGHTS_FILE "weights.safetensors"

enum {
    HEAD_BYTES = 8,  /* the length of a safetensors file's header, before it */
    MOST_NAME = 1024 /* of a member */
};

typedef struct packing {
    const char *artifact, *weights;
    unzFile from;
    zipFile to;
    char *tensors; /* the file of weights */
    size_t n_tensors;
    cJSON *manifest, *header;
} packing;

static dt_status *no_memory(const packing *all) { return dt_error(DT_RESOURCE_EXHAUSTED, "%s: no memory to pack it", all->artifact); }
static dt_status *damaged(const packing *all) { return dt_error(DT_DATA_LOSS, "%s: is damaged; compile or copy it again", all->artifact); }

/* ---- what is in the two files ---- */

/* The current member of the artifact, which the caller frees. */
static dt_status *read_member(const packing *all, char **bytes, size_t *n_bytes, char name[MOST_NAME]) {
    unz_file_info64 about;
    *bytes = NULL;
    if (unzGetCurrentFileInfo64(all->from, &about, name, MOST_NAME, NULL, 0, NULL, 0) != UNZ_OK || about.uncompressed_size > UINT32_MAX ||
        unzOpenCurrentFile(all->from) != UNZ_OK)
        return damaged(all);
    *n_bytes = about.uncompressed_size;
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
    char *bytes, name[MOST_NAME];
    size_t n_bytes;
    all->from = unzOpen64(all->artifact);
    if (all->from == NULL || unzLocateFile(all->from, "manifest.json", 1) != UNZ_OK)
        return dt_error(DT_DATA_LOSS, "%s: this is not an artifact; `dtc compile` writes one", all->artifact);
    DT_TRY(read_member(all, &bytes, &n_bytes, name));
    all->manifest = cJSON_ParseWithLength(bytes, n_bytes);
    dt_release(bytes);
    return all->manifest != NULL ? NULL : damaged(all);
}

static dt_status *read_weights(packing *all) {
    uint64_t n_header = 0;
    DT_TRY(dt_file_read(all->weights, &all->tensors, &all->n_tensors));
    for (int i = 0; i < HEAD_BYTES && all->n_tensors >= HEAD_BYTES; i++) n_header |= (uint64_t)(unsigned char)all->tensors[i] << 8 * i;
    if (n_header > 0 && n_header <= all->n_tensors - HEAD_BYTES) all->header = cJSON_ParseWithLength(all->tensors + HEAD_BYTES, n_header);
    if (cJSON_IsObject(all->header)) return NULL;
    return dt_error(DT_DATA_LOSS, "%s: is no safetensors file, or a truncated one", all->weights);
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
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(all->header, path);
    dt_dtype dtype = dt_dtype_from_name(string_of(variable, "dtype"));
    if (tensor == NULL) return dt_error(DT_FAILED_PRECONDITION, "%s: has no %s %s, which %s needs", all->weights, kind, path, all->artifact);
    if (dtype == DT_N_DTYPES) return damaged(all);
    bool is_same = strcmp(string_of(tensor, "dtype"), dt_dtype_safetensors_name(dtype)) == 0 &&
                   cJSON_Compare(cJSON_GetObjectItemCaseSensitive(tensor, "shape"), cJSON_GetObjectItemCaseSensitive(variable, "shape"), 1);
    if (is_same) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s: %s is not of the type and shape that it has in %s; `dtrun export --map` may make it so",
                    all->weights, path, all->artifact);
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
        DT_TRY(read_member(all, &bytes, &n_bytes, name));
        dt_status *status = strcmp(name, WEIGHTS_FILE) != 0 ? add_member(all, name, bytes, n_bytes) : NULL;
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
    if (status == NULL) status = add_member(all, WEIGHTS_FILE, all->tensors, all->n_tensors);
    if (zipClose(all->to, NULL) != ZIP_OK) status = dt_status_first(status, no_memory(all));
    if (status == NULL) status = dt_file_write_atomic(output, bytes.data, bytes.n);
    dt_text_free(&bytes);
    return status;
}

dt_status *dtc_pack(const char *artifact, const char *weights, const char *output) {
    if (artifact == NULL || weights == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s is NULL", artifact == NULL ? "artifact" : "weights");
    packing all = {.artifact = artifact, .weights = weights};
    dt_status *status = dt_file_exists(artifact) ? read_manifest(&all) : dt_error(DT_NOT_FOUND, "%s: there is no such file", artifact);
    if (status == NULL) status = read_weights(&all);
    if (status == NULL) status = check_variables(&all);
    if (status == NULL) status = write_packed(&all, output != NULL ? output : artifact);
    if (all.from != NULL) unzClose(all.from);
    cJSON_Delete(all.manifest);
    cJSON_Delete(all.header);
    dt_release(all.tensors);
    return status;
}
