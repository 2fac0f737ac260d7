/* fake_nccl: NVIDIA's NCCL for tests, between processes of one machine that have the fake driver each (fake_cuda.h). Messages are files in a folder
 * that the communicator's id names.
 *
 * It does what NCCL leaves open in the least convenient way. Whatever may be in progress is so until it is asked twice. A group's sends are done when
 * the receiver has taken them, so that messages which belong in one group and are in two never end; what is received is garbage until the group is
 * done. A sum is added up from the last rank to the first, which no tree does. Its work is the fake driver's: queued, captured, replayed, late or
 * early as a seed says.
 *
 *   FAKE_NCCL_FOLDER        where folders of communicators are made
 *   FAKE_NCCL_VERSION       22703: what it says that it is
 *   FAKE_NCCL_ERROR         1:5=6: rank 1 hears of error 6 after its fifth group
 *   FAKE_NCCL_IGNORE_WAITS  set: what follows a group does not wait for it, as if the runtime had forgotten to say so
 *   FAKE_NCCL_ORDER         a path, to which the process appends its number: the file gets a line for each group, in the order in which they are
 * asked for, which tests/support/nccl_order.py compares FAKE_NCCL_SWAP          1:5,2:5: the fifth group of processes 1 and 2 comes behind the sixth
 *
 * Misuse, and communicators that are neither destroyed nor aborted, are told on stderr, and the process ends with 86. */
#include "runtime/comm/nccl/library.h"
#include "tests/support/fake_library.h"

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>

enum { /* of ncclResult_t, beside those that the runtime knows */
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,

    COMMUNICATOR = 1, /* kinds of objects */
    MOST_RANKS = 16,
    MOST_MESSAGES = 512, /* of a group */
    PATH = 300
};

typedef enum state {
    JOINING,
    READY,
    LEAVING,
    LEFT
} state;

typedef struct communicator {
    fake_library_object object;
    char folder[PATH];
    const struct communicator *parent; /* that it is split off, with this color and key, as the parent's split of this number; NULL: it is none */
    int color, key, split, n_splits;
    int rank, n, n_asked, n_groups;
    int n_asked_of[MOST_RANKS][2]; /* messages that groups asked for, by peer: received, sent */
    state state;
    bool is_busy, aborted;
    int n_sent[MOST_RANKS], n_received[MOST_RANKS]; /* messages, by peer */
} communicator;

typedef struct message {
    bool sends;
    int peer;
    char *data;
    size_t bytes;
} message;

/* A group, as it is asked for, and as the driver's work gets it: messages; or a sum, whose messages are of one rank each, received nowhere. */
typedef struct group {
    communicator *of;
    void *stream;
    int n;
    message messages[MOST_MESSAGES];
    char *sum; /* [n_bytes] the own part, and then the sum; NULL: messages alone */
    size_t n_bytes;
    int type;
} group;

/* A group under way. */
typedef struct transfer {
    group group;
    char path[MOST_MESSAGES][PATH + 64];
    char *taken[MOST_MESSAGES]; /* of what is received */
    char *own;                  /* of a sum */
    bool is_over[MOST_MESSAGES];
} transfer;

/* The group that this thread has open; NULL: none. */
static _Thread_local __attribute__((tls_model("initial-exec"))) group *now;

/* ---- files ---- */

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* All at once for whoever looks. */
static void write_file(const char *path, const void *data, size_t bytes) {
    char unfinished[PATH + 80];
    snprintf(unfinished, sizeof unfinished, "%s~", path);
    FILE *file = fopen(unfinished, "w");
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0 || rename(unfinished, path) != 0) {
        fake_library_misuse(0, "FAKE_NCCL_FOLDER cannot be written");
        _exit(FAKE_LIBRARY_LEFT_BEHIND);
    }
}

static void mark(const communicator *c, const char *what) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s-%d", c->folder, what, c->rank);
    write_file(path, "", 0);
}

/* Whether every rank has made its mark. */
static bool all_marked(const communicator *c, const char *what) {
    for (int r = 0; r < c->n; r++) {
        char path[PATH + 64];
        snprintf(path, sizeof path, "%s/%s-%d", c->folder, what, r);
        if (!exists(path)) return false;
    }
    return true;
}

static void remove_folder(const char *folder) {
    DIR *files = opendir(folder);
    for (const struct dirent *one; files != NULL && (one = readdir(files)) != NULL;) {
        char path[PATH + NAME_MAX + 2];
        snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        if (one->d_name[0] != '.') unlink(path);
    }
    if (files != NULL) closedir(files);
    rmdir(folder);
}

/* ---- sums ---- */

static size_t bytes_of(int type) { return type == DT_NCCL_FLOAT32 || type == DT_NCCL_INT32 ? 4 : 8; }

static void add_to(char *sum, const char *values, size_t n_bytes, int type) {
    for (size_t i = 0; i < n_bytes; i += bytes_of(type)) {
        union {
            float f32;
            double f64;
            uint32_t i32;
            uint64_t i64;
        } a, b;
        memcpy(&a, sum + i, bytes_of(type));
        memcpy(&b, values + i, bytes_of(type));
        switch (type) {
        case DT_NCCL_FLOAT32: a.f32 += b.f32; break;
        case DT_NCCL_FLOAT64: a.f64 += b.f64; break;
        case DT_NCCL_INT32: a.i32 += b.i32; break;
        default: a.i64 += b.i64; break;
        }
        memcpy(sum + i, &a, bytes_of(type));
    }
}

/* ---- a group's work ---- */

static void *begin(const void *data) {
    transfer *t = calloc(1, sizeof *t);
    if (t == NULL) abort();
    t->group = *(const group *)data;
    communicator *c = t->group.of;
    c->n_groups++;
    for (int m = 0; m < t->group.n; m++) {
        const message *one = &t->group.messages[m];
        int number = one->sends ? c->n_sent[one->peer]++ : c->n_received[one->peer]++;
        snprintf(t->path[m], sizeof t->path[m], "%s/from-%d-to-%d-%d", c->folder, one->sends ? c->rank : one->peer, one->sends ? one->peer : c->rank,
                 number);
        if (one->sends)
            write_file(t->path[m], one->data, one->bytes);
        else if (one->data != NULL)
            memset(one->data, 0xab, one->bytes);
    }
    if (t->group.sum != NULL) {
        t->own = malloc(t->group.n_bytes);
        if (t->own == NULL) abort();
        memcpy(t->own, t->group.sum, t->group.n_bytes);
        memset(t->group.sum, 0xab, t->group.n_bytes);
    }
    return t;
}

/* What has arrived is taken, which the sender sees. */
static bool take(transfer *t, int m) {
    const message *one = &t->group.messages[m];
    FILE *file = fopen(t->path[m], "r");
    if (file == NULL) return false;
    t->taken[m] = malloc(one->bytes + 1);
    if (t->taken[m] == NULL || fread(t->taken[m], 1, one->bytes + 1, file) != one->bytes)
        fake_library_misuse(0, "a message of another length than was expected");
    fclose(file);
    unlink(t->path[m]);
    return true;
}

static int is_done(void *work) {
    transfer *t = work;
    bool all = true;
    if (t->group.of->aborted || getenv("FAKE_NCCL_IGNORE_WAITS") != NULL) return true;
    for (int m = 0; m < t->group.n; m++) {
        if (!t->is_over[m]) t->is_over[m] = t->group.messages[m].sends ? !exists(t->path[m]) : take(t, m);
        all = all && t->is_over[m];
    }
    return all;
}

/* What the rank has sent; NULL: it has sent nothing yet. */
static const char *taken_from(const transfer *t, int rank) {
    if (rank == t->group.of->rank) return t->own;
    for (int m = 0; m < t->group.n; m++)
        if (!t->group.messages[m].sends && t->group.messages[m].peer == rank) return t->taken[m];
    return NULL;
}

static void end(void *work) {
    transfer *t = work;
    const group *g = &t->group;
    if (g->sum != NULL) memset(g->sum, 0, g->n_bytes);
    for (int rank = g->of->n; rank-- > 0 && g->sum != NULL;)
        if (taken_from(t, rank) != NULL) add_to(g->sum, taken_from(t, rank), g->n_bytes, g->type);
    for (int m = 0; m < g->n; m++) {
        if (t->taken[m] != NULL && g->messages[m].data != NULL) memcpy(g->messages[m].data, t->taken[m], g->messages[m].bytes);
        free(t->taken[m]);
    }
    free(t->own);
    free(t);
}

/* ---- the order of groups ---- */

/* A line: the communicator, the rank there, and of each message the direction, the peer, its number among those of both, and bytes. */
static void note_order(const group *g) {
    communicator *c = g->of;
    const char *path = getenv("FAKE_NCCL_ORDER");
    char name[PATH];
    if (path == NULL) return;
    snprintf(name, sizeof name, "%s%d", path, (int)getpid());
    FILE *file = fopen(name, "a");
    if (file == NULL) abort();
    fprintf(file, "%s %d", strrchr(c->folder, '/') + 1, c->rank);
    for (int m = 0; m < g->n; m++) {
        const message *one = &g->messages[m];
        fprintf(file, " %c%d:%d:%zu", one->sends ? 's' : 'r', one->peer, c->n_asked_of[one->peer][one->sends]++, one->bytes);
    }
    fprintf(file, "\n");
    fclose(file);
}

static int submit(const char *call, const group *group);

/* Whether a test wants this group of the process, of which it is number `n`, behind the next one. */
static bool is_swapped(int process, int n) {
    int wanted_process, wanted;
    for (const char *rest = getenv("FAKE_NCCL_SWAP"); rest != NULL; rest = strchr(rest, ',')) {
        if (*rest == ',') rest++;
        if (sscanf(rest, "%d:%d", &wanted_process, &wanted) == 2 && wanted_process == process && wanted == n) return true;
    }
    return false;
}

static int process_of(const communicator *c) { return c->parent != NULL ? process_of(c->parent) : c->rank; }

static int submit_in_order(const char *call, const group *g) {
    static int n_groups;
    static struct group held;
    static const char *held_call; /* NULL: none is held back */
    if (is_swapped(process_of(g->of), ++n_groups)) {
        held = *g;
        held_call = call;
        return DT_NCCL_SUCCESS;
    }
    int error = submit(call, g);
    if (error == DT_NCCL_SUCCESS && held_call != NULL) error = submit(held_call, &held);
    held_call = NULL;
    return error;
}

static int submit(const char *call, const group *group) {
    static const fake_cuda_shared_work how = {begin, is_done, end};
    fake_cuda_range ranges[MOST_MESSAGES];
    void *driver = dlopen(getenv("DT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    fake_cuda_shared_submitter *submitter = driver != NULL ? (fake_cuda_shared_submitter *)(uintptr_t)dlsym(driver, "fake_cuda_submit_shared") : NULL;
    if (submitter == NULL) return fake_library_misuse(INVALID_USAGE, "DT_CUDA_DRIVER is not the fake driver, or not loaded");
    note_order(group);
    size_t n = 0;
    for (int m = 0; m < group->n; m++)
        if (group->messages[m].data != NULL) ranges[n++] = (fake_cuda_range){(uint64_t)(uintptr_t)group->messages[m].data, group->messages[m].bytes};
    return submitter(group->stream, call, ranges, n, &how, group, sizeof *group) == 0 ? DT_NCCL_SUCCESS : 1;
}

/* ---- calls ---- */

static bool is_valid(void *c) { return fake_library_is(c, COMMUNICATOR) && !((communicator *)c)->aborted; }

/* It is ready, and nothing is in progress: only then may it be asked for more. */
static bool may_be_asked(void *c) { return is_valid(c) && ((communicator *)c)->state == READY && !((communicator *)c)->is_busy; }

FAKE_EXPORT int ncclGetVersion(int *version) {
    const char *said = getenv("FAKE_NCCL_VERSION");
    *version = said != NULL ? atoi(said) : 22703;
    return fake_library_call(__func__);
}

FAKE_EXPORT const char *ncclGetErrorString(int error) {
    return error == 6 ? "remote process exited or there was a network error" : error == INVALID_USAGE ? "invalid usage" : "another error";
}

FAKE_EXPORT const char *ncclGetLastError(void *c) {
    (void)c;
    return "the fake says so";
}

FAKE_EXPORT int ncclGetUniqueId(dt_nccl_id *id) {
    const char *folder = getenv("FAKE_NCCL_FOLDER");
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    *id = (dt_nccl_id){{0}};
    snprintf(id->bytes, sizeof id->bytes, "%.80s/nccl-%d-%ld", folder != NULL ? folder : "/tmp", (int)getpid(), time.tv_nsec);
    return fake_library_call(__func__);
}

FAKE_EXPORT int ncclCommInitRankConfig(void **made, int n, dt_nccl_id id, int rank, dt_nccl_config *config) {
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (config->bytes < sizeof *config || config->magic != DT_NCCL_CONFIG_MAGIC || config->version < 21400 || config->blocking != 0)
        return fake_library_misuse(INVALID_ARGUMENT, "a configuration that is none, or of a communicator that blocks");
    if (rank < 0 || rank >= n || n > MOST_RANKS) return fake_library_misuse(INVALID_ARGUMENT, "a rank that does not exist");
    communicator *c = fake_library_new(COMMUNICATOR, sizeof *c);
    c->rank = rank, c->n = n;
    snprintf(c->folder, sizeof c->folder, "%.*s", (int)sizeof id.bytes - 1, id.bytes);
    mkdir(c->folder, 0700);
    mark(c, "here");
    *made = c;
    return DT_NCCL_IN_PROGRESS;
}

FAKE_EXPORT int ncclCommSplit(void *of, int color, int key, void **made, dt_nccl_config *config) {
    communicator *parent = of;
    char path[PATH + 64], what[32];
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (!may_be_asked(of)) return fake_library_misuse(INVALID_USAGE, "a communicator is split that is not ready");
    if (config->bytes < sizeof *config || config->magic != DT_NCCL_CONFIG_MAGIC || config->blocking != 0 || color < 0)
        return fake_library_misuse(INVALID_ARGUMENT, "a split without a color, or a configuration of a communicator that blocks");
    communicator *c = fake_library_new(COMMUNICATOR, sizeof *c);
    c->parent = parent, c->color = color, c->key = key, c->split = parent->n_splits++;
    snprintf(path, sizeof path, "%s/split-%d-%d", parent->folder, c->split, parent->rank);
    write_file(path, what, (size_t)snprintf(what, sizeof what, "%d %d", color, key));
    parent->is_busy = true;
    parent->n_asked = 0;
    *made = c;
    return DT_NCCL_IN_PROGRESS;
}

/* Once all ranks of the parent have split: who is in it, in the order of their keys. */
static void find_members(communicator *c) {
    int n = 0, rank = 0, color, key;
    for (int r = 0; r < c->parent->n; r++) {
        char path[PATH + 64];
        snprintf(path, sizeof path, "%s/split-%d-%d", c->parent->folder, c->split, r);
        FILE *file = fopen(path, "r");
        if (file == NULL) return;
        if (fscanf(file, "%d %d", &color, &key) != 2) abort();
        fclose(file);
        n += color == c->color;
        rank += color == c->color && (key < c->key || (key == c->key && r < c->parent->rank));
    }
    c->n = n, c->rank = rank;
    snprintf(c->folder, sizeof c->folder, "%.200s-%d-%d", c->parent->folder, c->split, c->color);
    mkdir(c->folder, 0700);
    mark(c, "here");
}

/* The error that a test wants of this rank, once it has had so many groups. */
static int wanted_error(const communicator *c) {
    int rank, n, error;
    const char *wanted = getenv("FAKE_NCCL_ERROR");
    bool found = wanted != NULL && sscanf(wanted, "%d:%d=%d", &rank, &n, &error) == 3 && rank == c->rank && c->n_groups >= n;
    return found ? error : DT_NCCL_SUCCESS;
}

FAKE_EXPORT int ncclCommGetAsyncError(void *of, int *error) {
    communicator *c = of;
    if (!is_valid(c)) return fake_library_misuse(INVALID_ARGUMENT, "something else than a communicator is asked for errors");
    *error = DT_NCCL_IN_PROGRESS;
    if (c->n_asked++ == 0) return DT_NCCL_SUCCESS;
    if (c->state == JOINING && c->n == 0) find_members(c);
    if (c->state == JOINING && c->n > 0 && all_marked(c, "here")) c->state = READY;
    if (c->state == LEAVING && all_marked(c, "leaves")) c->state = LEFT;
    if (c->state == JOINING || c->state == LEAVING) return DT_NCCL_SUCCESS;
    c->is_busy = false;
    *error = wanted_error(c);
    return DT_NCCL_SUCCESS;
}

FAKE_EXPORT int ncclCommFinalize(void *of) {
    communicator *c = of;
    if (!may_be_asked(c)) return fake_library_misuse(INVALID_USAGE, "a communicator is left that is not ready");
    c->state = LEAVING;
    c->n_asked = 0;
    mark(c, "leaves");
    return DT_NCCL_IN_PROGRESS;
}

FAKE_EXPORT int ncclCommDestroy(void *of) {
    communicator *c = of;
    if (!is_valid(c) || c->state != LEFT) return fake_library_misuse(INVALID_USAGE, "a communicator is destroyed that was not left");
    mark(c, "gone");
    if (all_marked(c, "gone")) remove_folder(c->folder);
    fake_library_delete(c);
    return DT_NCCL_SUCCESS;
}

/* Its memory stays: work under way looks at it. */
FAKE_EXPORT int ncclCommAbort(void *of) {
    communicator *c = of;
    if (!is_valid(c)) return fake_library_misuse(INVALID_ARGUMENT, "something else than a communicator is aborted");
    c->aborted = true;
    fake_library.n_objects--;
    return fake_library_call(__func__);
}

FAKE_EXPORT int ncclGroupStart(void) {
    if (now != NULL) return fake_library_misuse(INVALID_USAGE, "a group within a group is not known to the fake");
    now = calloc(1, sizeof *now);
    if (now == NULL) abort();
    return DT_NCCL_SUCCESS;
}

static int add(const char *call, bool sends, void *data, size_t bytes, int type, int peer, void *of, void *stream) {
    communicator *c = of;
    int error = fake_library_call(call);
    if (error != 0) return error;
    if (now == NULL) return fake_library_misuse(INVALID_USAGE, "messages outside of a group are not known to the fake");
    if (!may_be_asked(c)) return fake_library_misuse(INVALID_USAGE, "a communicator that is not ready is asked for a message");
    if (type != DT_NCCL_INT8 || peer < 0 || peer >= c->n || (peer == c->rank && c->n > 1) || now->n == MOST_MESSAGES)
        return fake_library_misuse(INVALID_ARGUMENT, "a message of another type, to nobody, or too many");
    if (now->n > 0 && (now->of != c || now->stream != stream))
        return fake_library_misuse(INVALID_USAGE, "a group of several communicators or streams is not known to the fake");
    now->of = c;
    now->stream = stream;
    now->messages[now->n++] = (message){sends, peer, data, bytes};
    return DT_NCCL_SUCCESS;
}

FAKE_EXPORT int ncclSend(const void *data, size_t n, int type, int peer, void *c, void *stream) {
    return add(__func__, true, (void *)(uintptr_t)data, n, type, peer, c, stream);
}

FAKE_EXPORT int ncclRecv(void *data, size_t n, int type, int peer, void *c, void *stream) {
    return add(__func__, false, data, n, type, peer, c, stream);
}

FAKE_EXPORT int ncclGroupEnd(void) {
    group *ended = now;
    int error = DT_NCCL_SUCCESS;
    if (ended == NULL) return fake_library_misuse(INVALID_USAGE, "a group is ended that was not begun");
    now = NULL;
    if (ended->n > 0) {
        error = submit_in_order("ncclGroupEnd", ended);
        ended->of->is_busy = true;
        ended->of->n_asked = 0;
    }
    bool goes_on = error == DT_NCCL_SUCCESS && ended->n > 0;
    free(ended);
    return goes_on ? DT_NCCL_IN_PROGRESS : error;
}

FAKE_EXPORT int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *of, void *stream) {
    communicator *c = of;
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (now != NULL) return fake_library_misuse(INVALID_USAGE, "a sum within a group is not known to the fake");
    if (!may_be_asked(c)) return fake_library_misuse(INVALID_USAGE, "a communicator that is not ready is asked for a sum");
    bool known = type == DT_NCCL_FLOAT32 || type == DT_NCCL_FLOAT64 || type == DT_NCCL_INT32 || type == DT_NCCL_INT64;
    if (!known || op != DT_NCCL_SUM || from != to || n == 0) return fake_library_misuse(INVALID_ARGUMENT, "a sum of another type, or not in place");
    group *sum = calloc(1, sizeof *sum);
    if (sum == NULL) abort();
    *sum = (group){.of = c, .stream = stream, .sum = to, .n_bytes = n * bytes_of(type), .type = type};
    for (int peer = 0; peer < c->n; peer++) {
        if (peer == c->rank) continue;
        sum->messages[sum->n++] = (message){true, peer, to, sum->n_bytes};
        sum->messages[sum->n++] = (message){false, peer, NULL, sum->n_bytes};
    }
    error = submit_in_order(__func__, sum);
    free(sum);
    c->is_busy = true;
    c->n_asked = 0;
    return error == DT_NCCL_SUCCESS ? DT_NCCL_IN_PROGRESS : error;
}
