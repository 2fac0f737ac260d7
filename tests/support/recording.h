/* recording: what a run of several steps is given and what it gives, one tensor a name along all steps, in a safetensors file.
 *
 * Something with rows has those of all steps one after another, [rows of all steps, …]; everything else has one entry a step, [steps, …]. Inputs are
 * cut out of such tensors, results are put together to them, so that what one run gives another can be given. */
#ifndef DT_TESTS_RECORDING_H
#define DT_TESTS_RECORDING_H

#include "base/arena.h"
#include "base/file.h"
#include "runtime/data/safetensors.h"

#include <argp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line of whoever makes a recording from another ---- */

typedef struct dt_recording_options {
    int64_t rows, seed, epochs;
    const char *files[4]; /* program, step, IN, OUT */
    int n_files;
} dt_recording_options;

static inline error_t dt_recording_parse(int key, char *argument, struct argp_state *state) {
    dt_recording_options *options = state->input;
    switch (key) {
    case 'r': options->rows = strtoll(argument, NULL, 10); return 0;
    case 's': options->seed = strtoll(argument, NULL, 10); return 0;
    case 'e': options->epochs = strtoll(argument, NULL, 10); return 0;
    case ARGP_KEY_ARG:
        if (options->n_files == 4) argp_usage(state);
        options->files[options->n_files++] = argument;
        return 0;
    case ARGP_KEY_END:
        if (options->n_files < 4) argp_usage(state);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

#define DT_RECORDING_ROWS                                                                                                                            \
    {"rows", 'r', "N", 0, "Rows of a full step, over all replicas (default: all rows in one step)", 0}, {"seed", 's', "N", 0, "Seed of the run", 0}, \
    {                                                                                                                                                \
        "epochs", 'e', "N", 0, "The launch value", 0                                                                                                 \
    }

/* ---- tracks ---- */

typedef struct dt_track {
    const char *name;
    dt_dtype dtype;
    int n_dims;
    int64_t *dims;
    DT_LIST(char) bytes;
} dt_track;

typedef struct dt_recording {
    DT_LIST(dt_track) tracks;
} dt_recording;

/* Appends `data`, dense [dims[0], …], to the track `group`/`name`. has_rows: along its first dimension; else as one more entry. */
static inline void dt_record(dt_arena *arena, dt_recording *recording, const char *group, const char *name, dt_dtype dtype, bool has_rows, int n_dims,
                             const int64_t *dims, const void *data) {
    name = dt_arena_format(arena, "%s/%s", group, name);
    dt_track *track = NULL;
    for (size_t i = 0; i < recording->tracks.n; i++)
        if (strcmp(recording->tracks.items[i].name, name) == 0) track = &recording->tracks.items[i];
    if (track == NULL) {
        dt_track fresh = {.name = name, .dtype = dtype, .n_dims = n_dims + !has_rows, .dims = DT_NEW_ARRAY(arena, int64_t, n_dims + 1)};
        for (int d = 0; d < n_dims; d++) fresh.dims[d + !has_rows] = dims[d];
        fresh.dims[0] = 0;
        dt_list_push(arena, &recording->tracks, fresh);
        track = &recording->tracks.items[recording->tracks.n - 1];
    }
    size_t n_bytes = dt_dtype_bytes(dtype);
    for (int d = 0; d < n_dims; d++) n_bytes *= (size_t)dims[d];
    for (size_t i = 0; i < n_bytes; i++) dt_list_push(arena, &track->bytes, ((const char *)data)[i]);
    track->dims[0] += has_rows ? dims[0] : 1;
}

static inline dt_status *dt_recording_write(dt_arena *arena, dt_recording *recording, const char *path) {
    unsigned char sha256[DT_SHA256_BYTES];
    dt_safetensor *tensors = DT_NEW_ARRAY(arena, dt_safetensor, recording->tracks.n);
    for (size_t i = 0; i < recording->tracks.n; i++) {
        const dt_track *track = &recording->tracks.items[i];
        tensors[i] = (dt_safetensor){.name = track->name,
                                     .dtype = track->dtype,
                                     .n_dims = track->n_dims,
                                     .dims = track->dims,
                                     .n_bytes = (int64_t)track->bytes.n,
                                     .data = track->bytes.items};
    }
    return dt_safetensors_write(path, (int)recording->tracks.n, tensors, sha256);
}

/* ---- what is given ---- */

/* Reads a file with all of its elements, which lie in *bytes until the caller frees both. */
static inline dt_status *dt_recording_read(const char *path, char **bytes, dt_safetensors **file) {
    size_t n_bytes;
    *file = NULL;
    DT_TRY(dt_file_read(path, bytes, &n_bytes));
    return dt_safetensors_parse(path, *bytes, n_bytes, file);
}

/* The tensor input/`name`, for an input of that type whose dimensions but the first (with rows: its own first) are `dims`. */
static inline dt_status *dt_recorded_input(const dt_safetensors *file, const char *name, dt_dtype dtype, int n_dims, const int64_t *dims,
                                           const dt_safetensor **tensor) {
    for (int i = 0; i < file->n; i++)
        if (strncmp(file->tensors[i].name, "input/", 6) == 0 && strcmp(file->tensors[i].name + 6, name) == 0) {
            *tensor = &file->tensors[i];
            bool fits = (*tensor)->dtype == dtype && (*tensor)->n_dims == n_dims + 1;
            for (int d = 0; fits && d < n_dims; d++) fits = (*tensor)->dims[d + 1] == dims[d];
            return fits ? NULL : dt_error(DT_INVALID_ARGUMENT, "input/%s is of another type or shape than the step takes", name);
        }
    return dt_error(DT_NOT_FOUND, "there is no input/%s", name);
}

/* The path of a tensor that says what a variable begins with, variable/PATH; NULL for other tensors. */
static inline const char *dt_recorded_variable(const dt_safetensor *tensor) {
    return strncmp(tensor->name, "variable/", 9) == 0 ? tensor->name + 9 : NULL;
}

/* How a run is cut into steps: `rows` rows a step, the last one may have less; without rows one entry a step. */
typedef struct dt_cut {
    int64_t rows, n_rows, n_steps;
} dt_cut;

/* Takes one more input into account. */
static inline dt_status *dt_cut_add(dt_cut *cut, const dt_safetensor *tensor, bool has_rows) {
    int64_t n = tensor->dims[0];
    if (has_rows && cut->rows == 0) cut->rows = n;
    int64_t n_steps = has_rows && n > 0 ? (n + cut->rows - 1) / cut->rows : n;
    if (n_steps == 0 || (cut->n_steps != 0 && n_steps != cut->n_steps) || (has_rows && cut->n_rows != 0 && cut->n_rows != n))
        return dt_error(DT_INVALID_ARGUMENT, "%s does not have as many steps as the inputs before it", tensor->name);
    cut->n_steps = n_steps;
    if (has_rows) cut->n_rows = n;
    return NULL;
}

static inline int64_t dt_cut_rows(const dt_cut *cut, int64_t step) {
    int64_t left = cut->n_rows - step * cut->rows;
    return left < cut->rows ? left : cut->rows;
}

/* Where step `step` begins within the bytes of an input. */
static inline const char *dt_cut_data(const dt_cut *cut, const dt_safetensor *tensor, bool has_rows, int64_t step) {
    return (const char *)tensor->data + tensor->n_bytes / tensor->dims[0] * (has_rows ? step * cut->rows : step);
}

#endif
