/* byte_files: see byte_files.h. */
#include "runtime/data/byte_files.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPEN = 64 /* of the files at once: a process may have about a thousand */
};

static dt_status *add_file(dt_byte_files *files, const char *folder, const char *name) {
    dt_byte_file *grown = dt_reallocate(files->files, ((size_t)files->n + 1) * sizeof *grown);
    if (grown == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, name, 0, "out of memory");
    files->files = grown;
    grown[files->n] = (dt_byte_file){0};
    DT_TRY(dt_input_file_open(folder, name, &grown[files->n].file));
    if (files->n >= MOST_OPEN) dt_input_file_suspend(grown[files->n].file);
    files->n++;
    return NULL;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static dt_status *add_matches(dt_byte_files *files, const char *folder, const char *pattern) {
    dt_text path = {0};
    if (pattern[0] == '/') folder = NULL;
    for (; folder != NULL && *folder != 0; folder++) dt_text_format(&path, strchr("*?[\\", *folder) != NULL ? "\\%c" : "%c", *folder);
    dt_text_format(&path, "%s%s", folder != NULL ? "/" : "", pattern);
    glob_t found = {0};
    int result = path.failed ? GLOB_NOSPACE : glob(path.data, GLOB_NOSORT, NULL, &found);
    dt_status *status = NULL;
    if (result == GLOB_NOMATCH) status = dt_error_in(DT_NOT_FOUND, path.data, 0, "matches no file; name the folder that holds the files with --data");
    if (result == GLOB_NOSPACE) status = dt_error_in(DT_RESOURCE_EXHAUSTED, pattern, 0, "out of memory");
    if (result == GLOB_ABORTED) status = dt_error_in(DT_IO, path.data, 0, "cannot read the folder: %s", strerror(errno));
    if (result == 0) qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; result == 0 && i < found.gl_pathc && status == NULL; i++) status = add_file(files, NULL, found.gl_pathv[i]);
    globfree(&found);
    dt_text_free(&path);
    return status;
}

static dt_status *is_empty(const dt_byte_file *file) { return dt_error_in(DT_DATA_LOSS, dt_input_file_path(file->file), 0, "is empty"); }

static dt_status *measure(dt_byte_files *files) {
    for (int i = 0; i < files->n; i++) {
        dt_byte_file *file = &files->files[i];
        file->start = files->n_bytes;
        file->n_bytes = dt_input_file_most_bytes(file->file);
        files->n_bytes += file->n_bytes;
        if (file->n_bytes == 0) return is_empty(file);
    }
    return NULL;
}

static dt_status *reserve(dt_byte_files *files, uint64_t n_bytes, uint64_t *capacity) {
    if (n_bytes <= *capacity) return NULL;
    *capacity = n_bytes > *capacity * 2 ? n_bytes : *capacity * 2;
    unsigned char *grown = *capacity < SIZE_MAX / 2 ? dt_reallocate(files->bytes, (size_t)*capacity + DT_SLACK_BYTES) : NULL;
    if (grown == NULL)
        return dt_error_in(DT_RESOURCE_EXHAUSTED, dt_input_file_path(files->files[0].file), 0, "no memory for the bytes of its %d file%s", files->n,
                           dt_plural(files->n));
    files->bytes = grown;
    return NULL;
}

/* A file that is compressed is as long as it turns out to be, and so is one that grows. */
static dt_status *load(dt_byte_files *files) {
    enum {
        PIECE_BYTES = 1 << 20
    };
    uint64_t capacity = 0;
    for (int i = 0; i < files->n; i++) {
        dt_byte_file *file = &files->files[i];
        bool is_plain = dt_input_file_is_plain(file->file);
        file->start = files->n_bytes;
        for (bool ended = false; !ended;) {
            size_t n_wanted = is_plain && file->n_bytes == 0 ? (size_t)dt_input_file_most_bytes(file->file) + 1 : PIECE_BYTES, n_read;
            DT_TRY(reserve(files, files->n_bytes + n_wanted, &capacity));
            DT_TRY(dt_input_file_read(file->file, files->bytes + files->n_bytes, n_wanted, &n_read));
            ended = n_read < n_wanted;
            file->n_bytes += n_read;
            files->n_bytes += n_read;
        }
        if (file->n_bytes == 0) return is_empty(file);
        dt_input_file_suspend(file->file);
    }
    memset(files->bytes + files->n_bytes, 0, DT_SLACK_BYTES);
    return NULL;
}

dt_status *dt_byte_files_open(const dt_artifact_stage *stage, const char *folder, bool where_they_lie, dt_byte_files *files) {
    *files = (dt_byte_files){0};
    for (int i = 0; i < stage->n_arguments; i++) {
        const char *name = stage->arguments[i].string;
        if (stage->arguments[i].kind != DT_ARGUMENT_STRING)
            return dt_error(DT_INVALID_ARGUMENT, "%s(): argument %d is not the name of a file", stage->kind, i + 1);
        DT_TRY(strpbrk(name, "*?[") != NULL ? add_matches(files, folder, name) : add_file(files, folder, name));
    }
    if (files->n == 0) return dt_error(DT_INVALID_ARGUMENT, "%s() takes the names of one or more files", stage->kind);
    for (int i = 0; i < files->n; i++) where_they_lie &= dt_input_file_is_plain(files->files[i].file);
    return where_they_lie ? measure(files) : load(files);
}

void dt_byte_files_close(dt_byte_files *files) {
    for (int i = 0; i < files->n; i++) dt_input_file_close(files->files[i].file);
    dt_release(files->files);
    dt_release(files->bytes);
    *files = (dt_byte_files){0};
}

const dt_byte_file *dt_byte_files_at(const dt_byte_files *files, uint64_t at) {
    int low = 0, high = files->n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (files->files[middle].start <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return &files->files[low];
}

dt_status *dt_byte_files_read(const dt_byte_files *files, uint64_t start, size_t n_bytes, void *bytes) {
    for (size_t n_done = 0; n_done < n_bytes;) {
        const dt_byte_file *file = dt_byte_files_at(files, start + n_done);
        uint64_t offset = start + n_done - file->start, n_left = file->n_bytes - offset;
        size_t n_wanted = n_left < n_bytes - n_done ? (size_t)n_left : n_bytes - n_done, n_read;
        DT_TRY(dt_input_file_read_at(file->file, offset, (char *)bytes + n_done, n_wanted, &n_read));
        if (n_read < n_wanted)
            return dt_error_in(DT_DATA_LOSS, dt_input_file_path(file->file), 0,
                               "the file was truncated while it was in use: it ends before byte %llu", (unsigned long long)(offset + n_wanted));
        n_done += n_wanted;
    }
    return NULL;
}
