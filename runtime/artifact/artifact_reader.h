/* artifact_reader: what the parts of the artifact's reader share. Nobody else includes it.
 *
 * artifact.c holds the file (zip members, sums, versions), artifact_manifest.c what a program is made of, artifact_plan.c one function's plan,
 * artifact_loops.c its loops, artifact_rows.c row forms, artifact_cuda.c what there is for GPUs, artifact_library.c what libraries can do there. */
#ifndef DT_RUNTIME_ARTIFACT_READER_H
#define DT_RUNTIME_ARTIFACT_READER_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"
#include "runtime/artifact/json.h"

/* No space, buffer or variable is larger: sums of a few of these do not overflow. */
#define DT_MOST_BYTES ((int64_t)1 << 56)

typedef struct dt_artifact_zip dt_artifact_zip;

typedef struct dt_artifact_reader {
    dt_arena *arena; /* the artifact's; running out of memory jumps to the guard of dt_artifact_open_memory */
    dt_artifact *artifact;
    dt_artifact_zip *zip;
    cJSON *manifest;
    char *document;               /* "fashion.dtx: manifest.json" */
    const dt_artifact_cuda *cuda; /* not NULL: the plans that are read are those of a GPU */
} dt_artifact_reader;

/* A member of the zip, checked against its CRC; the bytes are arena memory, aligned to 64, with DT_SLACK_BYTES zeros after them. */
dt_status *dt_artifact_read_member(dt_artifact_reader *reader, const char *name, const void **bytes, size_t *n_bytes);
/* The same for the member that `at` describes: {"file": …, "sha256": …}, checked against that sum too. */
dt_status *dt_artifact_read_summed_member(dt_artifact_reader *reader, const dt_json *at, const char **file, const void **bytes, size_t *n_bytes);
/* That the member which `at` describes so is there and has that sum; it is not kept. */
dt_status *dt_artifact_check_summed_member(dt_artifact_reader *reader, const dt_json *at);

/* "flags", into the reader's artifact. */
dt_status *dt_artifact_read_flags(dt_artifact_reader *reader, const dt_json *root);
/* Everything after "format" and "compiler". */
dt_status *dt_artifact_read_manifest(dt_artifact_reader *reader, const dt_json *root);

/* A copy of the string member `key` in the arena; not empty. */
dt_status *dt_artifact_read_name(dt_artifact_reader *reader, const dt_json *object, const char *key, const char **name);

typedef enum dt_rows_rule {
    DT_ROWS_NEVER,
    DT_ROWS_FIRST,   /* DT_ROWS may be the first dimension */
    DT_ROWS_ANYWHERE /* DT_ROWS anywhere, DT_ALL_ROWS first */
} dt_rows_rule;

/* "dtype" and "shape" of `object`. */
dt_status *dt_artifact_read_tensor(dt_artifact_reader *reader, const dt_json *object, dt_rows_rule rule, dt_artifact_tensor *tensor);
/* Bytes of a full microbatch; with DT_ALL_ROWS: of one microbatch's share. */
int64_t dt_artifact_tensor_bytes(const dt_artifact *artifact, const dt_artifact_tensor *tensor);

/* "share" of `object`, a tensor of so many elements; {0} where there is none. */
dt_status *dt_artifact_read_share(const dt_json *object, int64_t n_elements, dt_share *share);
dt_status *dt_artifact_read_variable_share(const dt_json *object, dt_artifact_variable *variable);

/* "locations" and "functions", into the reader's artifact. */
dt_status *dt_artifact_read_locations(dt_artifact_reader *reader, const dt_json *root);
dt_status *dt_artifact_read_functions(dt_artifact_reader *reader, const dt_json *root);

/* The function that the member `key` names, of that role. */
dt_status *dt_artifact_read_function_name(const dt_artifact_reader *reader, const dt_json *object, const char *key, dt_function_role role,
                                          int *function);

/* "row_forms" and "row_init", into the reader's artifact, of which all else but "cuda" has been read. */
dt_status *dt_artifact_read_rows(dt_artifact_reader *reader, const dt_json *root);

/* An array of indices below `limit`. */
dt_status *dt_artifact_read_indices(dt_artifact_reader *reader, const dt_json *object, const char *key, int limit, int *n, const int **indices);

/* "loops" of a plan. */
dt_status *dt_artifact_read_loops(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function);
/* "view" of buffer `number`, whose type is known already, as all of the buffers before it. */
dt_status *dt_artifact_read_view(dt_artifact_reader *reader, const dt_json *buffer_item, const dt_artifact_function *function,
                                 dt_artifact_buffer *buffers, int number);
/* Whether those of a segment's kernels that are in one body stand side by side; seen [n_loops]: the loops of those before them. */
dt_status *dt_artifact_check_bodies(const dt_json *item, const dt_artifact_function *function, const int *kernels, int n, bool *seen);

/* "cuda", into the reader's artifact, of which all else has been read. */
dt_status *dt_artifact_read_cuda(dt_artifact_reader *reader, const dt_json *root);
/* "calls" of a kernel, whose buffers are known already. */
dt_status *dt_artifact_read_launches(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                                     dt_artifact_kernel *kernel);

/* "library" of a call of that kernel, whose buffers are known already. */
dt_status *dt_artifact_read_library(dt_artifact_reader *reader, const dt_json *call, const dt_artifact_function *function,
                                    const dt_artifact_kernel *kernel, const dt_library_call **library);
/* Whether the launches of the kernel, "calls", that its libraries' calls stand for are there, are no other call's, and store what the call does. */
dt_status *dt_artifact_check_libraries(const dt_json *calls, const dt_artifact_kernel *kernel);

/* One of "functions", whose name and role are known already. */
dt_status *dt_artifact_read_function(dt_artifact_reader *reader, const dt_json *object, dt_artifact_function *function);

#endif
