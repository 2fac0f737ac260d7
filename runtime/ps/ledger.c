/* ledger: see the header. */
#include "runtime/ps/ledger.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/json.h"
#include "runtime/artifact/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LONGEST_LINE = 1 << 14 /* bytes; the names of workers are short */
};

static const int64_t MOST = INT64_C(1) << 53; /* of a number in a ledger */

typedef enum event {
    OPENED,
    APPLIED,
    RETURNED,
    DOUBLE,
    LOST,
    N_EVENTS
} event;

static const char *const events[N_EVENTS] = {"opened", "applied", "returned", "double", "lost"};

typedef struct line {
    event event;
    int64_t epoch, batch, version; /* from 0; of opened: no batch; of returned and double: no version */
    int64_t begin;                 /* in the file */
} line;

/* Where a range's lines begin, and its version then. Ranges that are lost as a whole are not kept, so versions rise, and what stands of a range are
 * the applied lines, from its beginning to that of the next, of versions from its own to the next one's. */
typedef struct range {
    int64_t begin, version;
} range;

struct dt_ps_ledger {
    char *path;
    int file;
    int64_t n_bytes;
    int64_t version; /* -1: there is no range yet */
    range *ranges;
    size_t n_ranges, capacity;
    dt_text text; /* of the line that is being written */
    int failed;   /* why a line could not be written: errno; 0: all were */
};

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* ---- ranges ---- */

static dt_status *make_room(dt_ps_ledger *ledger) {
    if (ledger->n_ranges < ledger->capacity) return NULL;
    size_t capacity = 2 * ledger->capacity + 16;
    range *grown = dt_reallocate(ledger->ranges, capacity * sizeof *grown);
    if (grown == NULL) return no_memory();
    ledger->ranges = grown;
    ledger->capacity = capacity;
    return NULL;
}

static dt_status *add_range(dt_ps_ledger *ledger, int64_t begin, int64_t version) {
    DT_TRY(make_room(ledger));
    while (ledger->n_ranges > 0 && ledger->ranges[ledger->n_ranges - 1].version >= version) ledger->n_ranges--;
    ledger->ranges[ledger->n_ranges++] = (range){begin, version};
    ledger->version = version;
    return NULL;
}

/* ---- reading ---- */

static dt_status *parse_members(const dt_json *root, line *one) {
    int choice;
    DT_TRY(dt_json_word(root, "event", events, N_EVENTS, &choice));
    one->event = (event)choice;
    DT_TRY(dt_json_integer(root, "epoch", 1, MOST, &one->epoch));
    one->epoch--;
    if (one->event != OPENED) {
        DT_TRY(dt_json_integer(root, "batch", 1, MOST, &one->batch));
        one->batch--;
    }
    return one->event == RETURNED || one->event == DOUBLE ? NULL : dt_json_integer(root, "version", 0, MOST, &one->version);
}

static dt_status *parse(const dt_ps_ledger *ledger, const char *text, size_t n, line *one) {
    char document[400];
    cJSON *parsed = cJSON_ParseWithLength(text, n);
    snprintf(document, sizeof document, "%s: at byte %" PRId64, ledger->path, one->begin);
    dt_json root = {.value = parsed, .document = document};
    dt_status *status = parsed != NULL ? parse_members(&root, one) : dt_error(DT_DATA_LOSS, "%s: is no line of a ledger", document);
    cJSON_Delete(parsed);
    return status;
}

typedef dt_status *take_line(dt_ps_ledger *ledger, const line *one, void *context);

static dt_status *read_line(dt_ps_ledger *ledger, int64_t begin, const char *text, size_t n, take_line *take, void *context) {
    line one = {.begin = begin};
    DT_TRY(parse(ledger, text, n, &one));
    return take(ledger, &one, context);
}

/* Takes each whole line that begins in [begin, end). *done: where the last one ended. */
static dt_status *read_lines(dt_ps_ledger *ledger, int64_t begin, int64_t end, take_line *take, void *context, int64_t *done) {
    char *buffer = dt_allocate(4 * LONGEST_LINE);
    size_t n_read = 1;
    dt_status *status = buffer != NULL ? NULL : no_memory();
    for (*done = begin; status == NULL && *done < end;) {
        status = dt_file_read_at(ledger->file, ledger->path, (uint64_t)*done, buffer, 4 * LONGEST_LINE, &n_read);
        const char *text = buffer, *newline = NULL;
        while (status == NULL && *done < end && (newline = memchr(text, '\n', n_read)) != NULL) {
            size_t n = (size_t)(newline - text);
            status = read_line(ledger, *done, text, n, take, context);
            text += n + 1, n_read -= n + 1, *done += (int64_t)n + 1;
        }
        if (status != NULL || newline != NULL || *done >= end) continue;
        if (n_read >= LONGEST_LINE) status = dt_error_in(DT_DATA_LOSS, ledger->path, 0, "is no ledger: a line is longer than any of a ledger");
        if (text == buffer) break; /* the last line is not whole */
    }
    dt_release(buffer);
    return status;
}

/* ---- writing ---- */

static void begin_line(dt_ps_ledger *ledger, event event, int64_t epoch) {
    ledger->text.n = 0;
    dt_text_format(&ledger->text, "{\"event\":\"%s\",\"epoch\":%" PRId64, events[event], epoch + 1);
}

static void add_integer(dt_ps_ledger *ledger, const char *name, int64_t value) { dt_text_format(&ledger->text, ",\"%s\":%" PRId64, name, value); }

static void add_worker(dt_ps_ledger *ledger, const char *worker) {
    dt_text_append(&ledger->text, ",\"worker\":");
    if (worker != NULL)
        dt_text_append_json_string(&ledger->text, worker);
    else
        dt_text_append(&ledger->text, "null");
}

/* A line has not been written, or not all of it, so none is from here on: what stands there are lines that follow from each other. */
static dt_status *fail(dt_ps_ledger *ledger) {
    ledger->failed = errno;
    (void)!ftruncate(ledger->file, ledger->n_bytes); /* else the next training cuts it off */
    errno = ledger->failed;
    return dt_file_error("write the ledger", ledger->path);
}

static dt_status *end_line(dt_ps_ledger *ledger) {
    dt_text_append(&ledger->text, "}\n");
    if (ledger->text.failed) return no_memory();
    if (ledger->failed != 0) return errno = ledger->failed, dt_file_error("write the ledger", ledger->path);
    for (size_t n_written = 0; n_written < ledger->text.n;) {
        ssize_t n = write(ledger->file, ledger->text.data + n_written, ledger->text.n - n_written);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(ledger);
        n_written += (size_t)n;
    }
    ledger->n_bytes += (int64_t)ledger->text.n;
    return NULL;
}

/* Versions that stand of one range's lines. */
typedef struct standing {
    int64_t from, end;
} standing;

static dt_status *lose(dt_ps_ledger *ledger, const line *one, void *context) {
    const standing *lost = context;
    if (one->event != APPLIED || one->version < lost->from || one->version >= lost->end) return NULL;
    begin_line(ledger, LOST, one->epoch);
    add_integer(ledger, "batch", one->batch + 1);
    add_integer(ledger, "version", one->version);
    return end_line(ledger);
}

static dt_status *lose_from(dt_ps_ledger *ledger, int64_t version) {
    int64_t n_bytes = ledger->n_bytes, done;
    for (size_t r = 0; r < ledger->n_ranges; r++) {
        bool is_last = r + 1 == ledger->n_ranges;
        standing lost = {version, is_last ? INT64_MAX : ledger->ranges[r + 1].version};
        if (lost.from < lost.end)
            DT_TRY(read_lines(ledger, ledger->ranges[r].begin, is_last ? n_bytes : ledger->ranges[r + 1].begin, lose, &lost, &done));
    }
    return NULL;
}

dt_status *dt_ps_ledger_opened(dt_ps_ledger *ledger, int64_t epoch, int64_t first, int64_t end, int64_t version) {
    if (ledger == NULL) return NULL;
    if (version < ledger->version) DT_TRY(lose_from(ledger, version));
    DT_TRY(add_range(ledger, ledger->n_bytes, version));
    begin_line(ledger, OPENED, epoch);
    add_integer(ledger, "first", first + 1);
    add_integer(ledger, "last", end);
    add_integer(ledger, "version", version);
    return end_line(ledger);
}

dt_status *dt_ps_ledger_applied(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, int64_t version, int64_t lag, const char *worker) {
    if (ledger == NULL) return NULL;
    begin_line(ledger, APPLIED, epoch);
    add_integer(ledger, "batch", batch + 1);
    add_integer(ledger, "version", version);
    add_integer(ledger, "lag", lag);
    add_worker(ledger, worker);
    ledger->version = version + 1;
    return end_line(ledger);
}

static dt_status *write_about(dt_ps_ledger *ledger, event event, int64_t epoch, int64_t batch, const char *worker) {
    if (ledger == NULL) return NULL;
    begin_line(ledger, event, epoch);
    add_integer(ledger, "batch", batch + 1);
    add_worker(ledger, worker);
    return end_line(ledger);
}

dt_status *dt_ps_ledger_returned(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, const char *worker) {
    return write_about(ledger, RETURNED, epoch, batch, worker);
}

dt_status *dt_ps_ledger_double(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, const char *worker) {
    return write_about(ledger, DOUBLE, epoch, batch, worker);
}

dt_status *dt_ps_ledger_sync(dt_ps_ledger *ledger) {
    return ledger == NULL || fsync(ledger->file) == 0 ? NULL : dt_file_error("write the ledger", ledger->path);
}

/* ---- opening ---- */

/* Goes on over a line that is there already. *context: where the lost lines begin that no range follows yet, or -1. */
static dt_status *resume_line(dt_ps_ledger *ledger, const line *one, void *context) {
    int64_t *lost = context;
    if (one->event == LOST) {
        if (*lost < 0) *lost = one->begin;
        return NULL;
    }
    if (one->event == OPENED && (ledger->version < 0 || one->version <= ledger->version)) {
        *lost = -1;
        return add_range(ledger, one->begin, one->version);
    }
    if (*lost < 0 && one->event == APPLIED && one->version == ledger->version) return ledger->version++, NULL;
    if (*lost < 0 && (one->event == RETURNED || one->event == DOUBLE)) return NULL;
    return dt_error_in(DT_DATA_LOSS, ledger->path, 0, "the line \"%s\" at byte %" PRId64 " does not follow from those before it", events[one->event],
                       one->begin);
}

static dt_status *resume(dt_ps_ledger *ledger) {
    struct stat about;
    int64_t done, lost = -1;
    if (fstat(ledger->file, &about) != 0) return dt_file_error("read the ledger", ledger->path);
    if (!S_ISREG(about.st_mode)) return dt_error_in(DT_INVALID_ARGUMENT, ledger->path, 0, "is no file");
    DT_TRY(read_lines(ledger, 0, about.st_size, resume_line, &lost, &done));
    ledger->n_bytes = lost >= 0 ? lost : done;
    return ftruncate(ledger->file, ledger->n_bytes) == 0 ? NULL : dt_file_error("write the ledger", ledger->path);
}

dt_status *dt_ps_ledger_open(const char *path, bool resumes, dt_ps_ledger **ledger, int64_t *version) {
    *ledger = NULL;
    *version = -1;
    dt_ps_ledger *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return no_memory();
    *made = (dt_ps_ledger){.path = dt_allocate(strlen(path) + 1), .file = -1, .version = -1};
    dt_status *status = made->path != NULL ? NULL : no_memory();
    if (status == NULL) {
        strcpy(made->path, path);
        made->file = open(path, O_RDWR | O_APPEND | O_CLOEXEC | (resumes ? 0 : O_CREAT | O_EXCL), 0666);
        if (made->file < 0 && errno == EEXIST)
            status =
                dt_error_in(DT_ALREADY_EXISTS, path, 0, "there is a ledger already: name another folder, or go on with that training by --resume");
        else if (made->file < 0)
            status = dt_file_error("open the ledger", path);
        else if (flock(made->file, LOCK_EX | LOCK_NB) != 0)
            status = dt_error_in(DT_IO, path, 0, "another process writes this ledger");
    }
    if (status == NULL) status = resumes ? resume(made) : dt_file_sync_parent(path);
    if (status != NULL) {
        dt_ps_ledger_close(made);
        return status;
    }
    *ledger = made;
    *version = made->version;
    return NULL;
}

void dt_ps_ledger_close(dt_ps_ledger *ledger) {
    if (ledger == NULL) return;
    if (ledger->file >= 0) close(ledger->file);
    dt_text_free(&ledger->text);
    dt_release(ledger->ranges);
    dt_release(ledger->path);
    dt_release(ledger);
}
