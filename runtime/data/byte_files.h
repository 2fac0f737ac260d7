/* byte_files: the bytes of several data files as one run, one file after the other. What bytes and lines have in common.
 *
 * A name with * ? or [ in it is a pattern, and stands for the files of the folder that it matches, sorted by the bytes of their names. */
#ifndef DT_RUNTIME_DATA_BYTE_FILES_H
#define DT_RUNTIME_DATA_BYTE_FILES_H

#include "runtime/artifact/artifact.h"
#include "runtime/data/input_file.h"

typedef struct dt_byte_file {
    dt_input_file *file;
    uint64_t start, n_bytes; /* of it in the run */
} dt_byte_file;

typedef struct dt_byte_files {
    int n;
    dt_byte_file *files;
    uint64_t n_bytes;
    unsigned char *bytes; /* of all, and DT_SLACK_BYTES zeros; NULL: they are read where they lie */
} dt_byte_files;

/* Opens the files that the arguments of `stage` name. A file without a byte is an error. where_they_lie: keep nothing in memory, if no file is
 * compressed. `files` is the caller's; its content is freed by dt_byte_files_close, after an error too. */
dt_status *dt_byte_files_open(const dt_artifact_stage *stage, const char *folder, bool where_they_lie, dt_byte_files *files);
void dt_byte_files_close(dt_byte_files *files);

/* Bytes `start` to start + n_bytes - 1 of the run, of files that are read where they lie. Any thread. */
dt_status *dt_byte_files_read(const dt_byte_files *files, uint64_t start, size_t n_bytes, void *bytes);

/* The file that holds byte `at` of the run. */
const dt_byte_file *dt_byte_files_at(const dt_byte_files *files, uint64_t at);

#endif
