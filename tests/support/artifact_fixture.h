/* artifact_fixture: artifacts made by hand: a manifest as text, kernels in C compiled by the system's compiler. So the runtime is tested without
 * the compiler of this project, on plans that say exactly what a test is about. */
#ifndef DT_TESTS_SUPPORT_ARTIFACT_FIXTURE_H
#define DT_TESTS_SUPPORT_ARTIFACT_FIXTURE_H

#include "base/file.h"
#include "base/text.h"
#include "runtime/artifact/kernels.h"

#include <minizip/zip.h>
#include <nettle/sha2.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A new folder, removed by fixture_remove_folder. */
static inline const char *fixture_folder(void) {
    static char folder[64];
    if (*folder == '\0') {
        snprintf(folder, sizeof folder, "/tmp/dt-test-XXXXXX");
        if (mkdtemp(folder) == NULL) abort();
    }
    return folder;
}

static inline void fixture_remove_folder(void) { dt_status_free(dt_file_remove_tree(fixture_folder())); }

/* folder/name, in one of a few static buffers. */
static inline const char *fixture_path(const char *name) {
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", fixture_folder(), name);
    return path;
}

/* A file of the source tree: in DT_SOURCE, or where the program is run by hand, here. */
static inline const char *fixture_source(const char *path) {
    static char found[4][512];
    static int next;
    const char *root = getenv("DT_SOURCE");
    char *full = found[next++ % 4];
    snprintf(full, sizeof found[0], "%s/%s", root != NULL ? root : ".", path);
    return full;
}

/* Compiles a C file to a relocatable object; *bytes is the caller's. Later `flags` win. */
static inline void fixture_compile(const char *source, const char *flags, char **bytes, size_t *n_bytes) {
    char command[2048];
    const char *object = fixture_path("kernels.o");
    snprintf(command, sizeof command, "cc -std=c17 -I%s -c -O2 -ffreestanding -fno-builtin -fPIC -fvisibility=hidden -ffp-contract=off %s -o %s %s",
             fixture_source("."), flags, object, source);
    if (system(command) != 0) abort();
    dt_status *status = dt_file_read(object, bytes, n_bytes);
    if (status != NULL) abort();
}

/* The same for C text. */
static inline void fixture_compile_text(const char *text, const char *flags, char **bytes, size_t *n_bytes) {
    const char *source = fixture_path("kernels.c");
    dt_status *status = dt_file_write_atomic(source, text, strlen(text));
    if (status != NULL) abort();
    fixture_compile(source, flags, bytes, n_bytes);
}

static inline void fixture_sha256(const void *bytes, size_t n_bytes, char hex[65]) {
    struct sha256_ctx context;
    uint8_t sum[32];
    sha256_init(&context);
    sha256_update(&context, n_bytes, bytes);
    sha256_digest(&context, sizeof sum, sum);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

typedef struct fixture_member {
    const char *name;
    const void *bytes;
    size_t n_bytes;
} fixture_member;

/* A zip of stored members (level 0), or deflated ones. */
static inline void fixture_write_zip(const char *path, const fixture_member *members, size_t n, int level) {
    zipFile zip = zipOpen64(path, APPEND_STATUS_CREATE);
    for (size_t i = 0; i < n; i++) {
        zip_fileinfo about = {0};
        zipOpenNewFileInZip64(zip, members[i].name, &about, NULL, 0, NULL, 0, NULL, level == 0 ? 0 : Z_DEFLATED, level, 0);
        zipWriteInFileInZip(zip, members[i].bytes, (unsigned)members[i].n_bytes);
        zipCloseFileInZip(zip);
    }
    zipClose(zip, NULL);
}

/* A copy of `text` with each @ replaced by `sum`. The caller frees it. */
static inline char *fixture_manifest(const char *text, const char *sum) {
    dt_text manifest = {0};
    for (; *text != '\0'; text++) {
        if (*text == '@')
            dt_text_append(&manifest, sum);
        else
            dt_text_append_bytes(&manifest, text, 1);
    }
    return dt_text_take(&manifest);
}

/* An artifact of one object, "kernels.o", whose sum stands in the manifest as @. */
static inline const char *fixture_artifact(const char *name, const char *manifest, const void *object, size_t n_bytes) {
    char sum[65];
    fixture_sha256(object, n_bytes, sum);
    char *text = fixture_manifest(manifest, sum);
    const fixture_member members[] = {{"manifest.json", text, strlen(text)}, {"kernels.o", object, n_bytes}, {"program.dt", "# a program\n", 12}};
    const char *path = fixture_path(name);
    fixture_write_zip(path, members, 3, 0);
    free(text);
    return path;
}

/* The manifest and the object of line (tests/support/line_kernels.c); both are the caller's. */
static inline void fixture_line(char **manifest, char **object, size_t *n_bytes) {
    size_t n_manifest;
    fixture_compile(fixture_source("tests/support/line_kernels.c"), "", object, n_bytes);
    if (dt_file_read(fixture_source("tests/fuzz/artifact/line.json"), manifest, &n_manifest) != NULL) abort();
}

/* That artifact and its kernels, for a group of tests; nonzero after a message. */
static inline int fixture_open_line(dt_artifact **artifact, dt_kernels **kernels) {
    char *manifest, *object;
    size_t n_bytes;
    fixture_line(&manifest, &object, &n_bytes);
    dt_status *status = dt_artifact_open(fixture_artifact("line.dtx", manifest, object, n_bytes), artifact);
    free(manifest);
    free(object);
    if (status == NULL) status = dt_kernels_load(*artifact, NULL, kernels);
    if (status != NULL) fprintf(stderr, "%s\n", dt_status_message(status));
    return status != NULL;
}

static inline void fixture_close_line(dt_artifact *artifact, dt_kernels *kernels) {
    dt_kernels_free(kernels);
    dt_artifact_close(artifact);
    fixture_remove_folder();
}

#endif
