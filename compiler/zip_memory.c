/* zip_memory: the functions by which minizip reaches a file, on a growing text. None of them fails: of a member whose head cannot be written minizip
 * never frees what it holds. Where memory is out the text has failed, and what follows goes nowhere. */
#include "compiler/zip_memory.h"

#include <string.h>

static voidpf open_memory(voidpf memory, const void *name, int mode) {
    (void)name, (void)mode;
    return memory;
}

static uLong read_nothing(voidpf opaque, voidpf stream, void *buffer, uLong n) {
    (void)opaque, (void)stream, (void)buffer, (void)n;
    return 0; /* a new file has nothing to read */
}

static uLong write_bytes(voidpf opaque, voidpf stream, const void *buffer, uLong n) {
    (void)opaque;
    dt_zip_memory *memory = stream;
    dt_text *bytes = memory->bytes;
    size_t at = memory->at;
    memory->at += n;
    if (bytes->failed) return n;
    size_t n_within = bytes->n - at < n ? bytes->n - at : n;
    if (n_within != 0) memcpy(bytes->data + at, buffer, n_within);
    dt_text_append_bytes(bytes, (const char *)buffer + n_within, n - n_within);
    return n;
}

static ZPOS64_T tell(voidpf opaque, voidpf stream) {
    (void)opaque;
    return ((dt_zip_memory *)stream)->at;
}

static long seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin) {
    (void)opaque;
    dt_zip_memory *memory = stream;
    size_t from = origin == ZLIB_FILEFUNC_SEEK_SET ? 0 : origin == ZLIB_FILEFUNC_SEEK_CUR ? memory->at : memory->bytes->n;
    if (!memory->bytes->failed && offset > memory->bytes->n - from) return -1;
    memory->at = from + offset;
    return 0;
}

static int close_memory(voidpf opaque, voidpf stream) {
    (void)opaque, (void)stream;
    return 0;
}

static int never_fails(voidpf opaque, voidpf stream) {
    (void)opaque, (void)stream;
    return 0;
}

zipFile dt_zip_open(dt_zip_memory *memory) {
    zlib_filefunc64_def functions = {open_memory, read_nothing, write_bytes, tell, seek, close_memory, never_fails, memory};
    return zipOpen2_64("", APPEND_STATUS_CREATE, NULL, &functions);
}
