/* process_state: see process_state.h. The record is text, for people too:
 *
 *   process 1 of 4 on node7, pid 4711, began at 90210
 *   phase 0, waits 0, person knows 0, progress at 1234.567
 *   train step 57, segment 1, gradients of conv1: computing
 *
 *   --- 9c5f3a1be07d2468
 *
 * The line before the last is the reason of a failure, the last one has a hash of all before it: a write may be under way while somebody reads.
 * Blanks follow until the record is full. */
#include "runtime/comm/process_state.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    RECORD_BYTES = 1536
};

static dt_status *mark_of(const char *folder, dt_text *path) {
    dt_text_format(path, "%s/launcher", folder);
    return path->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
}

static dt_status *path_of(const char *folder, int process, dt_text *path) {
    dt_text_format(path, "%s/process-%d", folder, process);
    return path->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
}

/* What the system says of a process, from the third field on: what is before may hold any characters. NULL: there is none. */
static const char *find_process(int64_t pid, char *text, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    ssize_t n = read(file, text, bytes - 1);
    close(file);
    text[n > 0 ? n : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end != NULL ? name_end + 2 : NULL;
}

int64_t dt_process_started(int64_t pid) {
    char text[1024];
    const char *field = find_process(pid, text, sizeof text);
    int64_t started = 0;
    for (int i = 3; i < 22 && field != NULL; i++) field = (field = strchr(field, ' ')) != NULL ? field + 1 : NULL;
    return field != NULL && sscanf(field, "%" SCNd64, &started) == 1 ? started : 0;
}

bool dt_process_is_stopped(int64_t pid) {
    char text[1024];
    const char *field = find_process(pid, text, sizeof text);
    return field != NULL && *field == 'T';
}

dt_status *dt_state_file_create(const char *folder, int process, int n_processes, dt_state_file *file) {
    dt_text path = {0};
    *file = (dt_state_file){
        .folder = folder, .file = -1, .state = {.process = process, .n_processes = n_processes, .pid = getpid(), .doing = "starting"}};
    file->state.started = dt_process_started(getpid());
    file->state.progressed = dt_seconds_now();
    if (gethostname(file->state.host, sizeof file->state.host - 1) != 0) strcpy(file->state.host, "?");
    dt_status *status = dt_file_make_folders(folder);
    if (status == NULL) status = path_of(folder, process, &path);
    if (status == NULL) file->file = open(path.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (status == NULL && file->file < 0) status = dt_error_in(DT_IO, path.data, 0, "cannot open: %s", strerror(errno));
    dt_text_free(&path);
    if (status == NULL) dt_state_file_write(file);
    return status;
}

/* What of a text is one line. */
static int line_length(const char *text) { return (int)strcspn(text, "\n"); }

void dt_state_file_write(dt_state_file *file) {
    const dt_process_state *state = &file->state;
    char record[RECORD_BYTES + 1];
    if (file->file < 0) return;
    int n =
        snprintf(record, sizeof record,
                 "process %d of %d on %s, pid %" PRId64 ", began at %" PRId64 "\nphase %d, waits %d, person knows %d, progress at %.3f\n%.*s\n%.*s\n",
                 state->process, state->n_processes, state->host, state->pid, state->started, (int)state->phase, state->waits, state->person_knows,
                 state->progressed, line_length(state->doing), state->doing, line_length(state->reason), state->reason);
    n += snprintf(record + n, sizeof record - (size_t)n, "--- %016" PRIx64 "\n", dt_hash_bytes(record, (size_t)n, DT_HASH_SEED));
    memset(record + n, ' ', (size_t)(RECORD_BYTES - n));
    file->written = dt_seconds_now();
    (void)!pwrite(file->file, record, RECORD_BYTES, 0);
}

void dt_state_file_close(dt_state_file *file) {
    if (file->file >= 0) close(file->file);
    file->file = -1;
}

static bool take_line(char **rest, char *line, size_t bytes) {
    const char *found = strsep(rest, "\n");
    return *rest != NULL && snprintf(line, bytes, "%s", found) < (int)bytes;
}

static bool is_whole(const char *record) {
    const char *last = strstr(record, "\n--- ");
    uint64_t hash;
    return last != NULL && sscanf(last + strlen("\n--- "), "%16" SCNx64 "\n", &hash) == 1 &&
           hash == dt_hash_bytes(record, (size_t)(last + 1 - record), DT_HASH_SEED);
}

static bool parse(char *record, dt_process_state *state) {
    int n = 0, phase, waits, person_knows;
    if (sscanf(record, "process %d of %d on %63[^,], pid %" SCNd64 ", began at %" SCNd64 "\n%n", &state->process, &state->n_processes, state->host,
               &state->pid, &state->started, &n) != 5 ||
        n == 0)
        return false;
    record += n, n = 0;
    if (sscanf(record, "phase %d, waits %d, person knows %d, progress at %lf%n", &phase, &waits, &person_knows, &state->progressed, &n) != 4 ||
        n == 0)
        return false;
    record += n + 1;
    state->phase = (dt_process_phase)phase;
    state->waits = waits;
    state->person_knows = person_knows;
    return take_line(&record, state->doing, sizeof state->doing) && take_line(&record, state->reason, sizeof state->reason);
}

/* What a write that is under way has torn is whole a moment later. */
static bool read_whole(int file, char *record) {
    for (int tries = 0; tries < 10; tries++)
        if (pread(file, record, RECORD_BYTES, 0) == RECORD_BYTES && is_whole(record)) return true;
    return false;
}

dt_status *dt_process_state_read(const char *folder, int process, dt_process_state *state, bool *found) {
    char record[RECORD_BYTES + 1] = "";
    dt_text path = {0};
    *found = false;
    DT_TRY(path_of(folder, process, &path));
    int file = open(path.data, O_RDONLY | O_CLOEXEC);
    dt_text_free(&path);
    if (file < 0) return NULL;
    *state = (dt_process_state){0};
    *found = read_whole(file, record) && parse(record, state);
    close(file);
    return NULL;
}

/* ---- the folder ---- */

dt_status *dt_state_folder_mark(const char *folder) {
    dt_text path = {0};
    dt_status *status = mark_of(folder, &path);
    if (status == NULL) status = dt_file_write_atomic(path.data, "", 0);
    dt_text_free(&path);
    return status;
}

static bool is_marked(const char *folder) {
    dt_text path = {0};
    dt_status *status = mark_of(folder, &path);
    bool marked = status != NULL || access(path.data, F_OK) == 0;
    dt_status_free(status);
    dt_text_free(&path);
    return marked;
}

static bool runs(const char *folder, int process) {
    dt_process_state state;
    bool found;
    dt_status_free(dt_process_state_read(folder, process, &state, &found));
    return found && dt_process_started(state.pid) == state.started;
}

void dt_state_folder_tidy(const char *folder, int n_processes) {
    if (is_marked(folder)) return;
    for (int p = 0; p < n_processes; p++)
        if (runs(folder, p)) return;
    for (int p = 0; p < n_processes; p++) {
        dt_text path = {0};
        dt_status *status = path_of(folder, p, &path);
        if (status == NULL) unlink(path.data);
        dt_status_free(status);
        dt_text_free(&path);
    }
    rmdir(folder); /* it stays where somebody else has put something there */
}
