/* checkpoint: see checkpoint.h. */
#include "runtime/checkpoint.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/execution/launch_values.h"
#include "runtime/execution/ranges.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_FILE "progress.json"
#define STEP_PREFIX "step-"
#define UNFINISHED_PREFIX ".unfinished-" /* and what a replaced checkpoint is called until it is gone */

enum {
    MOST_LISTED = 10
}; /* differences named in a message */

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

static char *join(const char *folder, const char *prefix, int64_t step, const char *file) {
    dt_text text = {0};
    dt_text_format(&text, "%s/%s", folder, prefix);
    if (step >= 0) dt_text_format(&text, "%" PRId64, step);
    dt_text_append(&text, file);
    return dt_text_take(&text);
}

static char *below(const char *folder, const char *file) { return join(folder, "", -1, file); }

/* ---- writing ---- */

dt_status *dt_checkpoint_make_unfinished(const char *folder, int64_t step, uint64_t mark, char **unfinished) {
    char suffix[24] = "";
    if (mark != 0) snprintf(suffix, sizeof suffix, "-%016" PRIx64, mark);
    *unfinished = join(folder, UNFINISHED_PREFIX, step, suffix);
    if (*unfinished == NULL) return no_memory();
    if (mark == 0) DT_TRY(dt_file_remove_tree(*unfinished));
    return dt_file_make_folders(*unfinished);
}

static dt_status *write_state(const char *folder, const dt_checkpoint_state *state) {
    char *path = below(folder, STATE_FILE), *text = dt_checkpoint_state_print(state);
    dt_status *status = path == NULL || text == NULL ? no_memory() : dt_file_write_atomic(path, text, strlen(text));
    dt_release(path);
    dt_release(text);
    return status;
}

/* `unfinished` becomes `finished`, and what had that name before is gone. */
static dt_status *rename_folder(const char *folder, const char *unfinished, const char *finished) {
    if (renameat2(AT_FDCWD, unfinished, AT_FDCWD, finished, RENAME_EXCHANGE) == 0) {
        DT_TRY(dt_file_sync_folder(folder));
        return dt_file_remove_tree(unfinished);
    }
    if (errno != ENOENT) DT_TRY(dt_file_remove_tree(finished)); /* a file system that cannot exchange names */
    if (rename(unfinished, finished) != 0) return dt_error_in(DT_IO, unfinished, 0, "cannot rename to %s: %s", finished, strerror(errno));
    return dt_file_sync_folder(folder);
}

dt_status *dt_checkpoint_publish(const char *folder, const char *unfinished, const dt_checkpoint_state *state, char **path) {
    char *finished = join(folder, STEP_PREFIX, state->step, "");
    dt_status *status = finished == NULL ? no_memory() : write_state(unfinished, state);
    if (status == NULL) status = dt_file_sync_folder(unfinished);
    if (status == NULL) status = rename_folder(folder, unfinished, finished);
    *path = status == NULL ? finished : NULL;
    if (status != NULL) dt_release(finished);
    return status;
}

/* ---- the folder ---- */

typedef struct listing {
    int64_t *steps; /* newest first */
    int64_t n, capacity;
} listing;

static int newest_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* N of "step-N", or -1. */
static int64_t step_of(const char *name) {
    const char *digits = name + strlen(STEP_PREFIX);
    if (strncmp(name, STEP_PREFIX, strlen(STEP_PREFIX)) != 0 || *digits == 0 || strspn(digits, "0123456789") != strlen(digits)) return -1;
    errno = 0;
    long long step = strtoll(digits, NULL, 10);
    return errno == 0 ? step : -1;
}

static dt_status *add_step(listing *found, int64_t step) {
    if (found->n == found->capacity) {
        int64_t capacity = found->capacity != 0 ? 2 * found->capacity : 16;
        int64_t *grown = dt_reallocate(found->steps, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return no_memory();
        found->steps = grown;
        found->capacity = capacity;
    }
    found->steps[found->n++] = step;
    return NULL;
}

/* Who names a checkpoint where the folder of checkpoints is meant. */
static dt_status *refuse_checkpoint(const char *folder) {
    char *state = below(folder, STATE_FILE);
    if (state == NULL) return no_memory();
    dt_status *status = !dt_file_exists(state) ? NULL
                                               : dt_error_in(DT_INVALID_ARGUMENT, folder, 0,
                                                             "is a checkpoint, not a folder of them: name the folder that it is in, or take its "
                                                             "weights with --init");
    dt_release(state);
    return status;
}

/* All "step-N" in `folder`; with `clean` what is unfinished is removed. A folder that is not there holds none. The caller frees found->steps. */
static dt_status *list(const char *folder, bool clean, listing *found) {
    *found = (listing){0};
    DIR *directory = opendir(folder);
    if (directory == NULL && errno == ENOENT) return NULL;
    if (directory == NULL) return dt_error_in(DT_IO, folder, 0, "cannot open the checkpoint folder: %s", strerror(errno));
    dt_status *status = NULL;
    for (struct dirent *entry; status == NULL && (entry = readdir(directory)) != NULL;) {
        int64_t step = step_of(entry->d_name);
        if (step >= 0) status = add_step(found, step);
        if (!clean || strncmp(entry->d_name, UNFINISHED_PREFIX, strlen(UNFINISHED_PREFIX)) != 0) continue;
        char *path = below(folder, entry->d_name);
        status = path != NULL ? dt_file_remove_tree(path) : no_memory();
        dt_release(path);
    }
    closedir(directory);
    if (found->n > 1) qsort(found->steps, (size_t)found->n, sizeof *found->steps, newest_first);
    return status;
}

dt_status *dt_checkpoint_prune(const char *folder, int64_t keep, int64_t best_step) {
    listing found;
    dt_status *status = list(folder, false, &found);
    for (int64_t i = keep; status == NULL && i < found.n; i++) {
        if (found.steps[i] == best_step) continue;
        /* Renamed first: a checkpoint that is half removed must not be taken for a damaged one. */
        char *path = join(folder, STEP_PREFIX, found.steps[i], ""), *gone = join(folder, UNFINISHED_PREFIX, found.steps[i], "");
        status = path == NULL || gone == NULL ? no_memory() : dt_file_remove_tree(gone);
        if (status == NULL && rename(path, gone) != 0) status = dt_error_in(DT_IO, path, 0, "cannot remove: %s", strerror(errno));
        if (status == NULL) status = dt_file_remove_tree(gone);
        dt_release(path);
        dt_release(gone);
    }
    dt_release(found.steps);
    return status;
}

/* A checkpoint begins with a folder in this one; list() removes it again. */
static dt_status *try_writing(const char *folder) {
    char *trial = below(folder, UNFINISHED_PREFIX "trial");
    dt_status *status = trial != NULL ? dt_file_make_folders(trial) : no_memory();
    dt_release(trial);
    return status;
}

dt_status *dt_checkpoint_prepare(const char *folder, int *lock) {
    listing found = {0};
    *lock = -1;
    DT_TRY(refuse_checkpoint(folder));
    DT_TRY(dt_file_make_folders(folder));
    DT_TRY(dt_checkpoint_lock(folder, lock));
    dt_status *status = try_writing(folder);
    if (status == NULL) status = list(folder, true, &found);
    dt_release(found.steps);
    if (status == NULL) return NULL;
    dt_checkpoint_unlock(*lock);
    *lock = -1;
    return status;
}

dt_status *dt_checkpoint_newest(const char *folder, char **path) {
    listing found;
    *path = NULL;
    DT_TRY(refuse_checkpoint(folder));
    dt_status *status = list(folder, false, &found);
    if (status == NULL && found.n > 0) {
        *path = join(folder, STEP_PREFIX, found.steps[0], "");
        if (*path == NULL) status = no_memory();
    }
    dt_release(found.steps);
    return status;
}

dt_status *dt_checkpoint_check_new(const char *folder) {
    char *path;
    DT_TRY(dt_checkpoint_newest(folder, &path));
    if (path == NULL) return NULL;
    dt_status *status = dt_error_in(DT_ALREADY_EXISTS, path, 0, "there is a checkpoint already: go on from it with --resume, or name another folder");
    dt_release(path);
    return status;
}

/* ---- reading ---- */

/* What the program wants and what the file holds, where they are not the same. */
static dt_status *compare(const dt_artifact *artifact, const char *path, const dt_safetensors *file, int which) {
    dt_text missing = {0}, extra = {0};
    int n_missing = 0, n_matched = 0;
    for (int i = 0; i < artifact->n_variables; i++) {
        const dt_artifact_variable *variable = &artifact->variables[i];
        if (dt_checkpoint_file_of(variable) != which) continue;
        const dt_safetensor *found = dt_safetensors_find(file, variable->path);
        const dt_artifact_tensor *tensor = &variable->tensor;
        bool same = found != NULL && found->dtype == tensor->dtype && found->n_dims == tensor->n_dims;
        for (int d = 0; same && d < tensor->n_dims; d++) same = found->dims[d] == tensor->dims[d];
        n_matched += found != NULL;
        if (same || n_missing++ >= MOST_LISTED) continue;
        dt_text_format(&missing, "\n  program: %s ", variable->path);
        dt_text_append_type(&missing, tensor->dtype, tensor->n_dims, tensor->dims);
        dt_text_append(&missing, found != NULL ? ", file: " : ", file: nothing of this name");
        if (found != NULL && found->dtype == DT_N_DTYPES) dt_text_append(&missing, "a type of elements that dtrun does not have");
        if (found != NULL && found->dtype != DT_N_DTYPES) dt_text_append_type(&missing, found->dtype, found->n_dims, found->dims);
    }
    int n_unused = file->n - n_matched;
    for (int i = 0, n_listed = 0; i < file->n && n_listed < MOST_LISTED; i++) {
        int variable = dt_artifact_find_variable(artifact, file->tensors[i].name);
        if (variable >= 0 && dt_checkpoint_file_of(&artifact->variables[variable]) == which) continue;
        dt_text_format(&extra, "\n  file: %s ", file->tensors[i].name);
        if (file->tensors[i].dtype != DT_N_DTYPES)
            dt_text_append_type(&extra, file->tensors[i].dtype, file->tensors[i].n_dims, file->tensors[i].dims);
        dt_text_append(&extra, ", program: nothing of this name");
        n_listed++;
    }
    dt_status *status = NULL;
    if (n_missing > 0 || n_unused > 0)
        status = dt_error_in(DT_FAILED_PRECONDITION, path, 0,
                             "holds another model; %d variables of the program do not match, %d tensors of the file are not used:%s%s", n_missing,
                             n_unused, missing.data != NULL ? missing.data : "", extra.data != NULL ? extra.data : "");
    dt_text_free(&missing);
    dt_text_free(&extra);
    return status;
}

/* What this process has of it. */
static dt_status *set_variable(dt_session *session, int variable, dt_safetensors *file, const dt_safetensor *tensor, char *piece) {
    dt_byte_range own = dt_ranges_own(session, variable);
    int64_t end = own.first + own.n_bytes;
    for (int64_t first = own.first, n; first < end; first += n) {
        n = end - first < DT_FILE_PIECE_BYTES ? end - first : DT_FILE_PIECE_BYTES;
        DT_TRY(dt_safetensors_load_part(file, tensor, first, (size_t)n, piece));
        DT_TRY(dt_ranges_write(session, variable, (dt_byte_range){first, n}, piece));
    }
    return NULL;
}

/* All that are in files: [DT_CHECKPOINT_FILES], of which some may be NULL. */
static dt_status *set_variables(dt_session *session, dt_safetensors *const *files) {
    const dt_artifact *artifact = dt_session_artifact(session);
    char *piece = dt_allocate(DT_FILE_PIECE_BYTES);
    dt_status *status = piece == NULL ? no_memory() : NULL;
    for (int i = 0; i < artifact->n_variables && status == NULL; i++) {
        const dt_artifact_variable *variable = &artifact->variables[i];
        int which = dt_checkpoint_file_of(variable);
        dt_safetensors *file = which < DT_CHECKPOINT_FILES ? files[which] : NULL;
        const dt_safetensor *found = file != NULL ? dt_safetensors_find(file, variable->path) : NULL;
        if (found != NULL) status = set_variable(session, i, file, found, piece);
    }
    dt_release(piece);
    return status;
}

static dt_status *read_state(const char *folder, dt_checkpoint_state *state) {
    char *path = below(folder, STATE_FILE), *text = NULL;
    size_t n;
    dt_status *status = path == NULL ? no_memory() : dt_file_read(path, &text, &n);
    if (status == NULL) status = dt_checkpoint_state_parse(path, text, n, state);
    dt_release(path);
    dt_release(text);
    return status;
}

static dt_status *read_tensors(const char *folder, int which, const dt_checkpoint_state *state, dt_safetensors **file) {
    char *path = below(folder, dt_checkpoint_file_name(which));
    dt_status *status = path == NULL ? no_memory() : dt_safetensors_read_ranges(path, &state->files[which], file);
    dt_release(path);
    return status;
}

/* What to do about a checkpoint that cannot be used: names the one before it. */
static dt_status *advise(dt_status *status, const char *path) {
    dt_code code = dt_status_code(status);
    if (code != DT_DATA_LOSS && code != DT_NOT_FOUND) return status;
    char *folder = below(path, "..");
    listing found = {0};
    dt_status *unlisted = folder != NULL ? list(folder, false, &found) : NULL;
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    dt_status *advised;
    if (unlisted == NULL && found.n > 1 && found.steps[0] == step_of(name))
        advised = dt_error(DT_DATA_LOSS, "%s; the checkpoint is damaged: remove the folder %s to go on from step-%" PRId64, dt_status_message(status),
                           path, found.steps[1]);
    else
        advised = dt_error(DT_DATA_LOSS, "%s; the checkpoint is damaged: remove the folder %s to start without it", dt_status_message(status), path);
    dt_status_free(status);
    dt_status_free(unlisted);
    dt_release(found.steps);
    dt_release(folder);
    return advised;
}

dt_status *dt_checkpoint_read_state(const char *path, dt_checkpoint_state *state) {
    *state = (dt_checkpoint_state){0};
    dt_status *status = read_state(path, state);
    return status != NULL ? advise(status, path) : NULL;
}

dt_status *dt_checkpoint_load(dt_session *session, const char *path, dt_checkpoint_state *state) {
    const dt_artifact *artifact = dt_session_artifact(session);
    dt_safetensors *files[DT_CHECKPOINT_FILES] = {0};
    *state = (dt_checkpoint_state){0};
    dt_status *status = read_state(path, state);
    for (int f = 0; f < DT_CHECKPOINT_FILES && status == NULL; f++) status = read_tensors(path, f, state, &files[f]);
    if (status != NULL) status = advise(status, path);
    for (int f = 0; f < DT_CHECKPOINT_FILES && status == NULL; f++) status = compare(artifact, path, files[f], f);
    if (status == NULL) status = dt_session_restore_launch(session, state->launch, path);
    if (status == NULL) status = set_variables(session, files);
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) dt_safetensors_free(files[f]);
    return status;
}

/* The parameters and states of the checkpoint at `path`. */
static dt_status *read_model(const char *path, dt_checkpoint_state *state, dt_safetensors **file) {
    *state = (dt_checkpoint_state){0};
    DT_TRY(read_state(path, state));
    return read_tensors(path, DT_CHECKPOINT_MODEL, state, file);
}

dt_status *dt_checkpoint_load_weights(dt_session *session, const char *path) {
    dt_safetensors *files[DT_CHECKPOINT_FILES] = {0};
    dt_checkpoint_state state;
    dt_status *status = read_model(path, &state, &files[DT_CHECKPOINT_MODEL]);
    if (status != NULL) status = advise(status, path);
    if (status == NULL) status = compare(dt_session_artifact(session), path, files[DT_CHECKPOINT_MODEL], DT_CHECKPOINT_MODEL);
    if (status == NULL) status = dt_session_restore_launch(session, state.launch, path);
    if (status == NULL) status = set_variables(session, files);
    dt_checkpoint_state_free(&state);
    dt_safetensors_free(files[DT_CHECKPOINT_MODEL]);
    return status;
}

/* A folder that --init names should be a checkpoint; what else it may be. */
static dt_status *check_init(const char *path) {
    listing found;
    char *state = below(path, STATE_FILE);
    bool is_checkpoint = state != NULL && dt_file_exists(state);
    dt_release(state);
    if (is_checkpoint) return NULL;
    DT_TRY(list(path, false, &found));
    dt_status *status =
        found.n > 0
            ? dt_error_in(DT_INVALID_ARGUMENT, path, 0, "holds checkpoints: name one of them, as in --init %s/step-%" PRId64, path, found.steps[0])
            : dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a folder, but no checkpoint: name a .safetensors file or a checkpoint");
    dt_release(found.steps);
    return status;
}

dt_status *dt_checkpoint_read_weights(const char *path, dt_safetensors **weights) {
    struct stat about;
    *weights = NULL;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) return dt_safetensors_read(path, weights);
    DT_TRY(check_init(path));
    dt_checkpoint_state state;
    dt_status *status = read_model(path, &state, weights);
    dt_checkpoint_state_free(&state);
    if (status == NULL) return NULL;
    dt_safetensors_free(*weights);
    *weights = NULL;
    return status;
}
