/* checkpoint_lock: see checkpoint_lock.h. */
#include "runtime/checkpoint_lock.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_CHARACTERS = 200 /* of what a lock says of its holder */
};

/* "process 4711 on gpu-3 since 2031-05-04 13:37:00 +0200" */
static dt_status *sign(const char *path, int lock) {
    char host[65] = "", since[40] = "";
    time_t now = time(NULL);
    struct tm local;
    gethostname(host, sizeof host - 1);
    if (localtime_r(&now, &local) != NULL) strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S %z", &local);
    dt_text text = {0};
    dt_text_format(&text, "process %ld on %s since %s\n", (long)getpid(), host, since);
    dt_status *status = text.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) {
        errno = ENOSPC; /* of a write that comes back short */
        bool is_written = ftruncate(lock, 0) == 0 && write(lock, text.data, text.n) == (ssize_t)text.n;
        if (!is_written) status = dt_file_error("write", path);
    }
    dt_text_free(&text);
    return status;
}

/* Another process has it: which one, if it has said so by now. */
static dt_status *refuse(const char *folder, int file) {
    char holder[MOST_CHARACTERS + 1];
    ssize_t n = pread(file, holder, MOST_CHARACTERS, 0);
    holder[n > 0 ? n : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    return dt_error_in(DT_FAILED_PRECONDITION, folder, 0, "another run writes its checkpoints here%s%s: wait for its end, or name another folder",
                       holder[0] != '\0' ? ", " : "", holder);
}

static bool has_no_locks(int reason) { return reason == ENOLCK || reason == ENOSYS || reason == EOPNOTSUPP; }

static dt_status *take(const char *folder, const char *path, int *lock) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return dt_file_error("open", path);
    dt_status *status = NULL;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        status = sign(path, file);
    else if (errno == EWOULDBLOCK)
        status = refuse(folder, file);
    else if (!has_no_locks(errno))
        status = dt_file_error("lock", path);
    else
        close(file), file = -1;
    if (status != NULL) close(file);
    *lock = status == NULL ? file : -1;
    return status;
}

dt_status *dt_checkpoint_lock(const char *folder, int *lock) {
    dt_text path = {0};
    *lock = -1;
    dt_text_format(&path, "%s/.lock", folder);
    dt_status *status = path.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : take(folder, path.data, lock);
    dt_text_free(&path);
    return status;
}

void dt_checkpoint_unlock(int lock) {
    if (lock < 0) return;
    (void)!ftruncate(lock, 0); /* if it fails, a run that has ended is named, which nobody reads */
    close(lock);
}

/* What all see alike who share the folder, and may write in it; 0: nothing. */
static dt_status *look(const char *folder, uint64_t *seen) {
    dt_text path = {0};
    char *data = NULL;
    size_t n = 0;
    dt_text_format(&path, "%s/.lock", folder);
    dt_status *status = path.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL && dt_file_exists(path.data)) status = dt_file_read(path.data, &data, &n);
    *seen = n > 0 && access(folder, W_OK | X_OK) == 0 ? dt_hash_bytes(data, n, DT_HASH_SEED) | 1 : 0;
    dt_release(data);
    dt_text_free(&path);
    return status;
}

dt_status *dt_checkpoint_find_mark(const char *folder, dt_processes *processes, uint64_t *mark, int *other) {
    int n = dt_processes_count(processes);
    *mark = 0;
    *other = -1;
    if (n == 1) return NULL;
    uint64_t *seen = dt_allocate_zeroed((size_t)n, sizeof *seen);
    const dt_step_context context = {.step = "start"};
    dt_status *status = seen == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) status = dt_processes_allgather(processes, seen, sizeof *seen, &context); /* process 0 has come here, and so has locked it */
    if (status == NULL) status = look(folder, &seen[dt_processes_number(processes)]);
    if (status == NULL) status = dt_processes_allgather(processes, seen, sizeof *seen, &context);
    for (int p = n - 1; p > 0 && status == NULL; p--)
        if (seen[p] != seen[0]) *other = p;
    if (status == NULL && *other < 0) *mark = seen[0];
    dt_release(seen);
    return status;
}
