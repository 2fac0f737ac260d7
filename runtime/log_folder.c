/* log_folder: see log_folder.h. */
#include "runtime/log_folder.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/event_file.h"
#include "runtime/log_lines.h"
#include "runtime/png_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_OF_A_VECTOR = 32
};

static const char prefix[] = "events.out.tfevents.";

struct dt_log_folder {
    dt_log_listener listener; /* first */
    dt_log *log;
    const char *path, *name;
    char own_name[100];
    dt_text step; /* that trains, once the run has started */
    double (*clock)(void);
    dt_event_file *events;
    int lines; /* run.jsonl, which is locked */
    bool failed;
};

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* ---- opening ---- */

/* The line that a killed run did not finish is not to grow longer. */
static dt_status *end_last_line(int file, const char *path) {
    struct stat about;
    char last = '\n';
    if (fstat(file, &about) != 0) return dt_error_in(DT_IO, path, 0, "%s", strerror(errno));
    if (!S_ISREG(about.st_mode)) return dt_error_in(DT_IO, path, 0, "cannot be written: it is no file");
    if (about.st_size > 0 && pread(file, &last, 1, about.st_size - 1) != 1) return dt_error_in(DT_IO, path, 0, "cannot be read: %s", strerror(errno));
    if (last != '\n' && write(file, "\n", 1) != 1) return dt_error_in(DT_IO, path, 0, "cannot be written: %s", strerror(errno));
    return NULL;
}

static dt_status *open_lines(dt_log_folder *folder, const char *path, bool goes_on) {
    if (!goes_on && dt_file_exists(path))
        return dt_error_in(DT_ALREADY_EXISTS, path, 0,
                           "there is a run already: name another folder for --log-dir, or go on with that run by --resume");
    folder->lines = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (folder->lines < 0) return dt_error_in(DT_IO, path, 0, "cannot be written: %s", strerror(errno));
    if (flock(folder->lines, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return dt_error_in(DT_IO, path, 0, "another run writes there");
    return end_last_line(folder->lines, path);
}

static dt_status *prepare(dt_log_folder *folder, bool goes_on) {
    dt_text path = {0};
    DT_TRY(dt_status_annotate(dt_file_make_folders(folder->path), "--log-dir"));
    if (access(folder->path, W_OK | X_OK) != 0) return dt_error(DT_IO, "--log-dir: %s: cannot be written to: %s", folder->path, strerror(errno));
    dt_text_format(&path, "%s/" DT_LOG_FOLDER_EVENTS, folder->path);
    dt_status *status = path.failed ? no_memory() : open_lines(folder, path.data, goes_on);
    dt_text_free(&path);
    return status;
}

/* Readers take files in the order of their names: this one's has a later second than those that are there, but for one that no file of ours has. */
static int64_t find_second(const dt_log_folder *folder) {
    static const int64_t LAST = 9999999999; /* of ten digits: as many as names have */
    int64_t second = (int64_t)folder->clock(), taken;
    DIR *files = opendir(folder->path);
    for (const struct dirent *file; files != NULL && (file = readdir(files)) != NULL;)
        if (strncmp(file->d_name, prefix, strlen(prefix)) == 0 && sscanf(file->d_name + strlen(prefix), "%" SCNd64, &taken) == 1 && taken >= second &&
            taken < LAST)
            second = taken + 1;
    if (files != NULL) closedir(files);
    return second;
}

static dt_status *open_events(dt_log_folder *folder, int64_t first_step) {
    dt_text path = {0};
    dt_text_format(&path, "%s/%s%010" PRId64 ".%s", folder->path, prefix, find_second(folder), folder->name);
    dt_status *status = path.failed ? no_memory() : dt_event_file_create(path.data, folder->clock(), first_step, &folder->events);
    dt_text_free(&path);
    return status;
}

/* ---- events ---- */

static dt_status *write_line(const dt_log_folder *folder, double now, const dt_log_event *event) {
    dt_text line = {0};
    dt_text_format(&line, "{\"time\":%.3f,", now);
    size_t head = line.n;
    dt_log_append_members(event, &line);
    bool says_something = line.n > head;
    dt_text_append(&line, "}\n");
    dt_status *status = line.failed ? no_memory() : NULL;
    if (status == NULL && says_something) {
        errno = 0;
        if (write(folder->lines, line.data, line.n) != (ssize_t)line.n)
            status =
                dt_error(DT_IO, "%s/" DT_LOG_FOLDER_EVENTS ": cannot be written: %s", folder->path, errno != 0 ? strerror(errno) : "no more fits");
    }
    dt_text_free(&line);
    return status;
}

/* TensorBoard puts what is before the slash of a tag together: loss/train beside loss/evaluate. */
static dt_status *add_scalar(const dt_log_folder *folder, double now, int64_t number, const char *report, const char *step, const char *suffix,
                             double value) {
    dt_text tag = {0};
    dt_text_format(&tag, "%s/%s%s", report, step, suffix);
    dt_status *status = tag.failed ? no_memory() : dt_event_file_add_scalar(folder->events, now, number, tag.data, value);
    dt_text_free(&tag);
    return status;
}

/* recall/evaluate[3] for the first of a vector: what a chart can tell apart. */
static dt_status *add_vector(const dt_log_folder *folder, double now, int64_t number, const dtrt_report_array *array, const char *step,
                             const char *suffix) {
    for (int64_t i = 0; i < array->dims[0] && i < MOST_OF_A_VECTOR; i++) {
        char element[64];
        snprintf(element, sizeof element, "%s[%" PRId64 "]", suffix, i);
        DT_TRY(add_scalar(folder, now, number, array->name, step, element, array->values[i]));
    }
    return NULL;
}

/* A matrix as a picture, a pixel each number: 0 is black, the greatest white. Others than counts and shares are none. */
static dt_status *add_matrix(const dt_log_folder *folder, double now, int64_t number, const dtrt_report_array *array, const char *step) {
    const int64_t dims[] = {-1, array->dims[0], array->dims[1]}, n = array->dims[0] * array->dims[1];
    const dt_artifact_tensor tensor = {.name = array->name, .dtype = DT_F32, .n_dims = 3, .dims = dims, .has_rows = true, .row_bytes = 4 * n};
    double greatest = 0;
    bool is_picture = dt_png_objection(&tensor) == NULL;
    for (int64_t i = 0; i < n && is_picture; i++) {
        is_picture = array->values[i] >= 0 && isfinite(array->values[i]); /* not true of NaN */
        greatest = fmax(greatest, array->values[i]);
    }
    if (!is_picture || greatest == 0) return NULL;
    float *pixels = dt_allocate((size_t)tensor.row_bytes);
    char *png = NULL;
    size_t n_bytes;
    dt_text tag = {0};
    dt_text_format(&tag, "%s/%s", array->name, step);
    if (pixels == NULL || tag.failed) return dt_release(pixels), dt_text_free(&tag), no_memory();
    for (int64_t i = 0; i < n; i++) pixels[i] = (float)(array->values[i] / greatest);
    dt_status *status = dt_png_encode_row(&tensor, 1, pixels, 0, &png, &n_bytes);
    if (status == NULL) status = dt_event_file_add_png(folder->events, now, number, tag.data, dims[2], dims[1], 1, png, n_bytes);
    dt_release(png);
    dt_release(pixels);
    dt_text_free(&tag);
    return status;
}

static dt_status *add_values(const dt_log_folder *folder, double now, int64_t number, const char *step, const char *suffix,
                             const dt_log_values *values, double examples_per_second) {
    for (int i = 0; i < values->n; i++) DT_TRY(add_scalar(folder, now, number, values->names[i], step, suffix, values->values[i]));
    for (int i = 0; i < values->n_arrays; i++)
        if (values->arrays[i].n_dims == 1) DT_TRY(add_vector(folder, now, number, &values->arrays[i], step, suffix));
    return examples_per_second > 0 ? add_scalar(folder, now, number, "examples_per_second", step, suffix, examples_per_second) : NULL;
}

static dt_status *add_histogram(const dt_log_folder *folder, double now, const dt_log_weights *weights) {
    dt_text tag = {0};
    dt_text_format(&tag, "weights/%s", weights->path);
    dt_status *status =
        tag.failed ? no_memory()
                   : dt_event_file_add_histogram(folder->events, now, weights->number, tag.data, weights->dtype, weights->n, weights->values);
    dt_text_free(&tag);
    return status;
}

/* What of the event TensorBoard shows. */
static dt_status *write_event(dt_log_folder *folder, double now, const dt_log_event *event) {
    const dt_log_epoch *epoch = event->epoch;
    const dt_log_picture *picture = event->picture;
    if (event->kind == DT_LOG_STARTED) {
        dt_text_append(&folder->step, event->start->step);
        return folder->step.failed ? no_memory() : open_events(folder, event->start->first_step + 1);
    }
    if (folder->events == NULL) return NULL; /* a remark before the start */
    switch (event->kind) {
    case DT_LOG_STEPPED:
        return add_values(folder, now, event->step->number, folder->step.data, "_step", event->values, event->step->examples_per_second);
    case DT_LOG_EPOCH_DONE:
        DT_TRY(add_values(folder, now, epoch->number, epoch->step, "", event->values, epoch->examples_per_second));
        for (int i = 0; i < event->values->n_arrays; i++)
            if (event->values->arrays[i].n_dims == 2) DT_TRY(add_matrix(folder, now, epoch->number, &event->values->arrays[i], epoch->step));
        return add_scalar(folder, now, epoch->number, "data_wait", epoch->step, "", epoch->data_wait);
    case DT_LOG_LAUNCH: return add_values(folder, now, event->step->number, "launch", "", event->values, 0);
    case DT_LOG_WEIGHTS: return add_histogram(folder, now, event->weights);
    case DT_LOG_SCALAR: return dt_event_file_add_scalar(folder->events, now, event->scalar->number, event->scalar->name, event->scalar->value);
    case DT_LOG_PICTURE:
        return dt_event_file_add_png(folder->events, now, picture->number, picture->name, picture->width, picture->height, picture->channels,
                                     picture->png, picture->n_bytes);
    default: return NULL;
    }
}

static void hear(dt_log_listener *listener, const dt_log_event *event) {
    dt_log_folder *folder = (dt_log_folder *)listener;
    if (folder->failed || (event->kind == DT_LOG_STEPPED && event->step->is_told)) return;
    double now = folder->clock();
    dt_status *status = write_event(folder, now, event);
    if (status == NULL) status = write_line(folder, now, event);
    if (status == NULL) return;
    folder->failed = true; /* before the remark, which is an event */
    dt_log_remark(folder->log, "warning", "%s: nothing more is written to --log-dir; the training goes on", dt_status_message(status));
    dt_status_free(status);
}

/* ---- creating ---- */

dt_status *dt_log_folder_open(const char *path, bool goes_on, double (*clock)(void), const char *name, dt_log *log, dt_log_folder **folder) {
    *folder = NULL;
    dt_log_folder *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return no_memory();
    *made = (dt_log_folder){.listener = {.hear = hear, .wants_details = true}, .log = log, .path = path, .name = name, .clock = clock, .lines = -1};
    char host[65] = "localhost";
    gethostname(host, sizeof host - 1);
    snprintf(made->own_name, sizeof made->own_name, "%s.%d", host, (int)getpid());
    if (name == NULL) made->name = made->own_name;
    dt_status *status = prepare(made, goes_on);
    if (status != NULL) {
        dt_log_folder_close(made);
        return status;
    }
    dt_log_add_listener(log, &made->listener);
    *folder = made;
    return NULL;
}

void dt_log_folder_close(dt_log_folder *folder) {
    if (folder == NULL) return;
    dt_log_remove_listener(folder->log, &folder->listener);
    dt_event_file_close(folder->events);
    if (folder->lines >= 0) close(folder->lines);
    dt_text_free(&folder->step);
    dt_release(folder);
}
