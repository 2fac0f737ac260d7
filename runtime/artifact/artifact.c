/* artifact: the file itself: a zip with stored members, its manifest parsed, its versions and sums compared. See artifact.h.
 *
 * The whole file is read into memory first and minizip reads from there, so that an artifact in memory, which the fuzzer hands over and a program
 * may embed, takes the same path as one on disk, and a file that changes while it is read cannot be half old and half new. */
#include "runtime/artifact/artifact.h"

#include "abi/version.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/artifact_reader.h"

#include <minizip/unzip.h>
#include <nettle/sha2.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- a zip in memory ---- */

struct dt_artifact_zip {
    unzFile file;
    const char *path;
    const unsigned char *bytes;
    size_t n_bytes, position;
};

/* What an open artifact owns: the structs that callers see, and the arena that holds all of them. */
typedef struct open_artifact {
    dt_artifact artifact; /* first: dt_artifact_close finds the rest from it */
    dt_arena *arena;
} open_artifact;

static voidpf ZCALLBACK memory_open(voidpf zip, const void *name, int mode) {
    (void)name, (void)mode;
    ((dt_artifact_zip *)zip)->position = 0;
    return zip;
}

static uLong ZCALLBACK memory_read(voidpf opaque, voidpf stream, void *target, uLong n) {
    (void)opaque;
    dt_artifact_zip *zip = stream;
    size_t left = zip->n_bytes - zip->position;
    if (n > left) n = left;
    memcpy(target, zip->bytes + zip->position, n);
    zip->position += n;
    return n;
}

static uLong ZCALLBACK memory_write(voidpf opaque, voidpf stream, const void *source, uLong n) {
    (void)opaque, (void)stream, (void)source, (void)n;
    return 0;
}

static ZPOS64_T ZCALLBACK memory_tell(voidpf opaque, voidpf stream) {
    (void)opaque;
    return ((dt_artifact_zip *)stream)->position;
}

static long ZCALLBACK memory_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin) {
    (void)opaque;
    dt_artifact_zip *zip = stream;
    size_t base = origin == ZLIB_FILEFUNC_SEEK_END ? zip->n_bytes : origin == ZLIB_FILEFUNC_SEEK_CUR ? zip->position : 0;
    if (offset > zip->n_bytes - base) return -1;
    zip->position = base + offset;
    return 0;
}

static int ZCALLBACK memory_close(voidpf opaque, voidpf stream) {
    (void)opaque, (void)stream;
    return 0;
}

static int ZCALLBACK memory_error(voidpf opaque, voidpf stream) {
    (void)opaque, (void)stream;
    return 0;
}

/* Whether the file ends where its directory's last record does: minizip looks for that record backwards and takes one with its end cut off. */
static bool ends_with_directory(const dt_artifact_zip *zip, size_t comment_bytes) {
    size_t record_bytes = 22 + comment_bytes;
    return zip->n_bytes >= record_bytes && memcmp(zip->bytes + zip->n_bytes - record_bytes, "PK\5\6", 4) == 0;
}

static dt_status *open_zip(dt_artifact_zip *zip) {
    zlib_filefunc64_def functions = {.zopen64_file = memory_open,
                                     .zread_file = memory_read,
                                     .zwrite_file = memory_write,
                                     .ztell64_file = memory_tell,
                                     .zseek64_file = memory_seek,
                                     .zclose_file = memory_close,
                                     .zerror_file = memory_error,
                                     .opaque = zip};
    if (zip->n_bytes < 4 || memcmp(zip->bytes, "PK\3\4", 4) != 0)
        return dt_error_in(DT_DATA_LOSS, zip->path, 0, "this is not an artifact; `dtc compile` writes one");
    unz_global_info64 about = {0};
    zip->file = unzOpen2_64(zip->path, &functions);
    bool whole = zip->file != NULL && unzGetGlobalInfo64(zip->file, &about) == UNZ_OK && ends_with_directory(zip, about.size_comment);
    return whole ? NULL : dt_error_in(DT_DATA_LOSS, zip->path, 0, "the file is truncated or damaged; compile or copy it again");
}

static dt_status *damaged_member(const dt_artifact_zip *zip, const char *name) {
    return dt_error_in(DT_DATA_LOSS, zip->path, 0, "the member %s is damaged; compile or copy the file again", name);
}

/* Finds a member and says how long it is. */
static dt_status *find_member(dt_artifact_zip *zip, const char *name, size_t *n_bytes) {
    unz_file_info64 about;
    if (strlen(name) > UINT16_MAX || unzLocateFile(zip->file, name, 1) != UNZ_OK)
        return dt_error_in(DT_DATA_LOSS, zip->path, 0, "the artifact has no member %.80s; compile it again", name);
    if (unzGetCurrentFileInfo64(zip->file, &about, NULL, 0, NULL, 0, NULL, 0) != UNZ_OK) return damaged_member(zip, name);
    if (about.compression_method != 0 || about.compressed_size != about.uncompressed_size)
        return dt_error_in(DT_DATA_LOSS, zip->path, 0, "the member %s is compressed; an artifact's members are stored as they are (zip -0)", name);
    if (about.uncompressed_size > zip->n_bytes) return damaged_member(zip, name);
    *n_bytes = about.uncompressed_size;
    return NULL;
}

static dt_status *read_found_member(dt_artifact_zip *zip, const char *name, char *target, size_t n_bytes) {
    bool whole = unzOpenCurrentFile(zip->file) == UNZ_OK;
    if (!whole) return damaged_member(zip, name);
    for (size_t at = 0; at < n_bytes && whole;) {
        size_t piece = n_bytes - at < (1u << 30) ? n_bytes - at : 1u << 30;
        int n = unzReadCurrentFile(zip->file, target + at, (unsigned)piece);
        whole = n > 0;
        if (whole) at += (size_t)n;
    }
    return unzCloseCurrentFile(zip->file) == UNZ_OK && whole ? NULL : damaged_member(zip, name); /* closing compares the CRC */
}

dt_status *dt_artifact_read_member(dt_artifact_reader *reader, const char *name, const void **bytes, size_t *n_bytes) {
    size_t n;
    DT_TRY(find_member(reader->zip, name, &n));
    uintptr_t start = (uintptr_t)dt_arena_new(reader->arena, n + DT_BUFFER_ALIGNMENT + DT_SLACK_BYTES);
    char *target = (char *)((start + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT);
    DT_TRY(read_found_member(reader->zip, name, target, n));
    *bytes = target;
    *n_bytes = n;
    return NULL;
}

static void sha256_in_hex(const void *bytes, size_t n_bytes, char hex[2 * SHA256_DIGEST_SIZE + 1]) {
    static const char digits[] = "0123456789abcdef";
    struct sha256_ctx context;
    uint8_t sum[SHA256_DIGEST_SIZE];
    sha256_init(&context);
    sha256_update(&context, n_bytes, bytes);
    sha256_digest(&context, sizeof sum, sum);
    for (size_t i = 0; i < sizeof sum; i++) {
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 15];
    }
    hex[2 * sizeof sum] = '\0';
}

static dt_status *check_sum(const dt_json *at, const char *file, const void *bytes, size_t n_bytes) {
    const char *promised;
    char found[2 * SHA256_DIGEST_SIZE + 1];
    DT_TRY(dt_json_string(at, "sha256", &promised));
    sha256_in_hex(bytes, n_bytes, found);
    if (strcmp(promised, found) == 0) return NULL;
    return dt_json_wrong(at, "%s has the sum %.12s…, the manifest promises %.12s…; compile or copy the file again", file, found, promised);
}

dt_status *dt_artifact_read_summed_member(dt_artifact_reader *reader, const dt_json *at, const char **file, const void **bytes, size_t *n_bytes) {
    DT_TRY(dt_artifact_read_name(reader, at, "file", file));
    DT_TRY(dt_artifact_read_member(reader, *file, bytes, n_bytes));
    return check_sum(at, *file, *bytes, *n_bytes);
}

dt_status *dt_artifact_check_summed_member(dt_artifact_reader *reader, const dt_json *at) {
    const char *file;
    size_t n_bytes;
    DT_TRY(dt_artifact_read_name(reader, at, "file", &file));
    DT_TRY(find_member(reader->zip, file, &n_bytes));
    char *bytes = dt_allocate(n_bytes);
    if (bytes == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, reader->zip->path, 0, "not enough memory to read the member %s", file);
    dt_status *status = read_found_member(reader->zip, file, bytes, n_bytes);
    if (status == NULL) status = check_sum(at, file, bytes, n_bytes);
    dt_release(bytes);
    return status;
}

/* ---- opening ---- */

/* The file may be of another time: both versions, and the command that helps. */
static dt_status *check_versions(dt_artifact_reader *reader, const dt_json *root) {
    const char *compiler, *name = "PROGRAM";
    int64_t format;
    DT_TRY(dt_json_integer(root, "format", 0, INT64_MAX, &format));
    DT_TRY(dt_json_string(root, "compiler", &compiler));
    if (dt_json_has(root, "name")) DT_TRY(dt_json_string(root, "name", &name));
    if (format == DT_ARTIFACT_FORMAT && strcmp(compiler, DT_COMPILER_NAME) == 0) return NULL;
    dt_status *status = dt_error(DT_FAILED_PRECONDITION,
                                 "%s: written in format %" PRId64 " by %.40s, but this dtrun " DT_VERSION " reads format %d of " DT_COMPILER_NAME
                                 "; compile it again",
                                 reader->zip->path, format, compiler, DT_ARTIFACT_FORMAT);
    dt_status *no_flags = dt_artifact_read_flags(reader, root);
    dt_artifact written = {.path = reader->zip->path, .name = dt_arena_format(reader->arena, "%.80s", name)};
    if (no_flags == NULL) {
        written.n_flags = reader->artifact->n_flags;
        written.flags = reader->artifact->flags;
    }
    dt_status_free(no_flags); /* another format may have others, or none */
    return dt_artifact_suggest(status, &written, NULL, NULL);
}

static dt_status *read_all(dt_artifact_reader *reader) {
    const void *text;
    size_t n_bytes;
    DT_TRY(open_zip(reader->zip));
    if (unzLocateFile(reader->zip->file, "manifest.json", 1) != UNZ_OK)
        return dt_error_in(DT_DATA_LOSS, reader->zip->path, 0, "a zip file, but not an artifact: it has no manifest.json; `dtc compile` writes one");
    DT_TRY(dt_artifact_read_member(reader, "manifest.json", &text, &n_bytes));
    reader->manifest = cJSON_ParseWithLength(text, n_bytes);
    if (reader->manifest == NULL) return dt_error_in(DT_DATA_LOSS, reader->document, 0, "this is not JSON; compile or copy the file again");
    dt_json root = {.value = reader->manifest, .document = reader->document};
    DT_TRY(check_versions(reader, &root));
    DT_TRY(dt_artifact_read_manifest(reader, &root));
    if (unzLocateFile(reader->zip->file, "weights.safetensors", 1) != UNZ_OK) return NULL;
    return dt_artifact_read_member(reader, "weights.safetensors", &reader->artifact->weights, &reader->artifact->weight_bytes);
}

/* The arena's guard: whatever allocates from the arena runs below this function, whatever else is held is held above it. */
static dt_status *read_guarded(dt_artifact_reader *reader) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return dt_error_in(DT_RESOURCE_EXHAUSTED, reader->zip->path, 0, "not enough memory to read the artifact");
    dt_arena_guard(reader->arena, &guard);
    open_artifact *open = DT_NEW(reader->arena, open_artifact);
    open->arena = reader->arena;
    reader->artifact = &open->artifact;
    reader->artifact->path = dt_arena_string(reader->arena, reader->zip->path);
    reader->document = dt_arena_format(reader->arena, "%s: manifest.json", reader->zip->path);
    return read_all(reader);
}

dt_status *dt_artifact_open_memory(const char *path, const void *bytes, size_t n_bytes, dt_artifact **artifact) {
    dt_artifact_zip zip = {.path = path, .bytes = bytes, .n_bytes = n_bytes};
    dt_artifact_reader reader = {.arena = dt_arena_create(), .zip = &zip};
    *artifact = NULL;
    if (reader.arena == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to read the artifact");
    dt_status *status = read_guarded(&reader);
    dt_arena_guard(reader.arena, NULL);
    cJSON_Delete(reader.manifest);
    if (zip.file != NULL) unzClose(zip.file);
    if (status == NULL)
        *artifact = reader.artifact;
    else
        dt_arena_destroy(reader.arena);
    return status;
}

dt_status *dt_artifact_open(const char *path, dt_artifact **artifact) {
    char *bytes;
    size_t n_bytes;
    *artifact = NULL;
    DT_TRY(dt_file_read(path, &bytes, &n_bytes));
    dt_status *status = dt_artifact_open_memory(path, bytes, n_bytes, artifact);
    dt_release(bytes);
    return status;
}

void dt_artifact_close(dt_artifact *artifact) {
    if (artifact != NULL) dt_arena_destroy(((open_artifact *)artifact)->arena);
}

dt_status *dt_artifact_read_text_memory(const char *path, const void *bytes, size_t n_bytes, const char *member, char **text) {
    dt_artifact_zip zip = {.path = path, .bytes = bytes, .n_bytes = n_bytes};
    size_t n = 0;
    *text = NULL;
    dt_status *status = open_zip(&zip);
    if (status == NULL) status = find_member(&zip, member, &n);
    if (status == NULL && (*text = dt_allocate(n + 1)) == NULL)
        status = dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to read the member %s", member);
    if (status == NULL) {
        status = read_found_member(&zip, member, *text, n);
        (*text)[n] = '\0';
    }
    if (status != NULL) {
        dt_release(*text);
        *text = NULL;
    }
    if (zip.file != NULL) unzClose(zip.file);
    return status;
}

dt_status *dt_artifact_read_text(const char *path, const char *member, char **text) {
    char *bytes;
    size_t n_bytes;
    *text = NULL;
    DT_TRY(dt_file_read(path, &bytes, &n_bytes));
    dt_status *status = dt_artifact_read_text_memory(path, bytes, n_bytes, member, text);
    dt_release(bytes);
    return status;
}

/* ---- asking ---- */

int dt_artifact_find_variable(const dt_artifact *artifact, const char *path) {
    for (int i = 0; i < artifact->n_variables; i++)
        if (strcmp(artifact->variables[i].path, path) == 0) return i;
    return -1;
}

int dt_artifact_find_function(const dt_artifact *artifact, const char *name) {
    for (int i = 0; i < artifact->n_functions; i++)
        if (strcmp(artifact->functions[i].name, name) == 0) return i;
    return -1;
}

int dt_artifact_find_step(const dt_artifact *artifact, const char *name) {
    for (int i = 0; i < artifact->n_steps; i++)
        if (strcmp(artifact->steps[i].name, name) == 0) return i;
    return -1;
}

int dt_artifact_find_pipeline(const dt_artifact *artifact, const char *name) {
    for (int i = 0; i < artifact->n_pipelines; i++)
        if (strcmp(artifact->pipelines[i].name, name) == 0) return i;
    return -1;
}

int64_t dt_artifact_microbatches(const dt_artifact *artifact, int64_t rows) {
    int64_t n = 1;
    while (n * artifact->microbatch_rows < rows) n *= 2;
    return n;
}

int64_t dt_artifact_shard_bytes(const dt_artifact *artifact, const dt_artifact_variable *variable) {
    if (variable->split.groups == 0) return variable->bytes;
    int64_t extent = variable->tensor.dims[variable->split.axis];
    return variable->bytes / extent * dt_shard_extent(extent, variable->split.groups, artifact->n_shards);
}

static void raise_to(int64_t *most, int64_t bytes) {
    if (bytes > *most) *most = bytes;
}

/* The most that any function of a session takes; gathered: of what has the rows of all replicas. */
static dt_artifact_bytes most_of_functions(const dt_artifact *artifact, bool gathered) {
    dt_artifact_bytes most = {0};
    for (int i = 0; i < artifact->n_functions; i++) {
        const dt_artifact_function *function = &artifact->functions[i];
        const dt_space_bytes *bytes = gathered ? &function->gathered : &function->bytes;
        if (function->role != DT_ROLE_INIT && function->role != DT_ROLE_STEP) continue;
        raise_to(&most.shared, bytes->device);
        raise_to(&most.core, bytes->scratch);
        raise_to(&most.partial, bytes->partial);
        raise_to(&most.replica, bytes->replica);
    }
    int64_t n_shards = artifact->n_shards;
    return (dt_artifact_bytes){most.shared * n_shards, most.core * n_shards, most.partial * n_shards, most.replica * n_shards};
}

dt_artifact_bytes dt_artifact_memory(const dt_artifact *artifact) {
    dt_artifact_bytes bytes = most_of_functions(artifact, false);
    for (int i = 0; i < artifact->n_variables; i++)
        if (!artifact->variables[i].by_rows) bytes.shared += artifact->variables[i].bytes;
    bytes.replica *= dt_artifact_microbatches(artifact, artifact->capacity);
    return bytes;
}

dt_artifact_bytes dt_artifact_gathered_memory(const dt_artifact *artifact) {
    dt_artifact_bytes bytes = most_of_functions(artifact, true);
    int64_t blocks = dt_artifact_microbatches(artifact, artifact->capacity);
    return (dt_artifact_bytes){bytes.shared * blocks, bytes.core * blocks, bytes.partial * blocks, bytes.replica * blocks * blocks};
}
