/* keys: see the header. */
#include "runtime/ps/keys.h"

#include "base/file.h"
#include "base/memory.h"
#include "runtime/ps/zeromq.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ZeroMQ's text of a key (Z85), which people know from there. */
enum {
    KEY_CHARACTERS = 40
};

static const char characters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

static const char *const roles[] = {[DT_PS_WORKER] = "worker", [DT_PS_SERVER] = "server"};

static dt_status *path_of(const char *folder, const char *name, const char *suffix, char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s%s", folder, name, suffix) < PATH_MAX) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s is too long a path", folder);
}

/* ---- making ---- */

typedef struct new_file {
    char path[PATH_MAX];
    char text[128];
    mode_t mode;
} new_file;

/* Where there is no such file; it has its rights from the start. */
static dt_status *write_new(const new_file *file) {
    size_t n = strlen(file->text);
    int to = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->mode);
    if (to < 0) return dt_file_error("make", file->path);
    bool is_written = fchmod(to, file->mode) == 0 && write(to, file->text, n) == (ssize_t)n && fsync(to) == 0;
    dt_status *status = is_written ? NULL : dt_file_error("write", file->path);
    close(to);
    return status;
}

/* All of them, or none. */
static dt_status *write_all(const char *folder, const new_file *files, int n) {
    struct stat there;
    dt_status *status = dt_file_make_folders(folder);
    for (int i = 0; i < n && status == NULL; i++)
        if (lstat(files[i].path, &there) == 0)
            status = dt_error(DT_ALREADY_EXISTS, "%s is there already, and keys are not overwritten: name another folder, or remove it yourself",
                              files[i].path);
    int n_written = 0;
    while (n_written < n && status == NULL) {
        status = write_new(&files[n_written]);
        if (dt_status_code(status) != DT_ALREADY_EXISTS) n_written++; /* one that is cut off is removed as well */
    }
    for (int i = 0; i < n_written && status != NULL; i++) unlink(files[i].path);
    return status != NULL ? status : dt_file_sync_folder(folder);
}

/* The two files of a new pair. */
static dt_status *prepare_pair(const dt_zeromq *zeromq, const char *folder, dt_ps_role role, new_file *secret, new_file *public) {
    char public_text[KEY_CHARACTERS + 1], secret_text[KEY_CHARACTERS + 1];
    if (zeromq->curve_keypair(public_text, secret_text) != 0) return dt_error(DT_IO, "cannot make keys: %s", strerror(errno));
    DT_TRY(path_of(folder, roles[role], ".secret", secret->path));
    DT_TRY(path_of(folder, roles[role], ".public", public->path));
    secret->mode = 0600;
    public->mode = 0644;
    snprintf(secret->text, sizeof secret->text, "%s\n", secret_text);
    snprintf(public->text, sizeof public->text, "%s\n", public_text);
    explicit_bzero(secret_text, sizeof secret_text);
    return NULL;
}

dt_status *dt_ps_keys_create(const char *folder) {
    enum {
        SERVER_SECRET,
        SERVER_PUBLIC,
        WORKER_SECRET,
        WORKER_PUBLIC,
        ALLOWED,
        N_FILES
    };
    new_file files[N_FILES];
    dt_zeromq zeromq;
    DT_TRY(dt_zeromq_open(&zeromq));
    DT_TRY(dt_zeromq_has_curve(&zeromq));
    dt_status *status = prepare_pair(&zeromq, folder, DT_PS_SERVER, &files[SERVER_SECRET], &files[SERVER_PUBLIC]);
    if (status == NULL) status = prepare_pair(&zeromq, folder, DT_PS_WORKER, &files[WORKER_SECRET], &files[WORKER_PUBLIC]);
    if (status == NULL) status = path_of(folder, "allowed", "", files[ALLOWED].path);
    if (status == NULL) {
        files[ALLOWED].mode = 0644;
        snprintf(files[ALLOWED].text, sizeof files[ALLOWED].text, "%.*s worker.public\n", KEY_CHARACTERS, files[WORKER_PUBLIC].text);
        status = write_all(folder, files, N_FILES);
    }
    explicit_bzero(files, sizeof files);
    return status;
}

/* ---- reading ---- */

/* The key that a line begins with, which ends there or goes on after a space. */
static bool read_key(const dt_zeromq *zeromq, const char *line, dt_ps_key key) {
    char text[KEY_CHARACTERS + 1];
    size_t n = strspn(line, characters);
    if (n != KEY_CHARACTERS || strchr(" \t\r\n", line[n]) == NULL) return false; /* strchr finds the 0 at the end too */
    memcpy(text, line, n);
    text[n] = 0;
    bool is_read = zeromq->z85_decode(key, text) != NULL;
    explicit_bzero(text, sizeof text);
    return is_read;
}

/* A secret is for its owner's eyes. */
static dt_status *check_secrecy(const char *path) {
    struct stat file;
    if (stat(path, &file) != 0) return dt_file_error("open", path);
    if ((file.st_mode & (S_IRWXG | S_IRWXO)) == 0) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s: others than its owner can read or change this secret key: chmod 600 it, or make new keys", path);
}

static dt_status *read_file(const dt_zeromq *zeromq, const char *folder, dt_ps_role role, const char *suffix, dt_ps_key key) {
    char path[PATH_MAX], *text;
    size_t n_bytes;
    DT_TRY(path_of(folder, roles[role], suffix, path));
    if (strcmp(suffix, ".secret") == 0) DT_TRY(check_secrecy(path));
    DT_TRY(dt_file_read(path, &text, &n_bytes));
    bool is_key = read_key(zeromq, text, key);
    explicit_bzero(text, n_bytes);
    dt_release(text);
    return is_key ? NULL : dt_error_in(DT_DATA_LOSS, path, 1, "no key of %d characters, as `dtrun keys` writes it", KEY_CHARACTERS);
}

/* A line that is blank, or begins with # and a space, says nothing. */
static bool says_nothing(const char *line) {
    size_t n = strspn(line, " \t\r");
    return line[n] == '\n' || line[n] == 0 || strncmp(line, "# ", 2) == 0;
}

static dt_status *allow(dt_ps_keys *keys, const dt_ps_key key) {
    dt_ps_key *more = dt_reallocate(keys->allowed, (keys->n_allowed + 1) * sizeof *more);
    if (more == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu keys", keys->n_allowed + 1);
    keys->allowed = more;
    memcpy(keys->allowed[keys->n_allowed++], key, sizeof *more);
    return NULL;
}

static dt_status *read_allowed(const dt_zeromq *zeromq, const char *path, const char *text, dt_ps_keys *keys) {
    int64_t number = 1;
    for (const char *line = text; line != NULL; line = strchr(line, '\n'), number++) {
        dt_ps_key key;
        line += *line == '\n';
        if (says_nothing(line)) continue;
        if (!read_key(zeromq, line, key))
            return dt_error_in(DT_DATA_LOSS, path, number, "no public key of %d characters, which a note may follow", KEY_CHARACTERS);
        DT_TRY(allow(keys, key));
    }
    return NULL;
}

static dt_status *load(const dt_zeromq *zeromq, const char *folder, dt_ps_role role, dt_ps_keys *keys) {
    char path[PATH_MAX], *text;
    size_t n_bytes;
    DT_TRY(read_file(zeromq, folder, role, ".secret", keys->own_secret));
    DT_TRY(read_file(zeromq, folder, role, ".public", keys->own_public));
    DT_TRY(read_file(zeromq, folder, DT_PS_SERVER, ".public", keys->server));
    if (role == DT_PS_WORKER) return NULL;
    DT_TRY(path_of(folder, "allowed", "", path));
    DT_TRY(dt_file_read(path, &text, &n_bytes));
    dt_status *status = read_allowed(zeromq, path, text, keys);
    dt_release(text);
    return status;
}

dt_status *dt_ps_keys_load(const char *folder, dt_ps_role role, dt_ps_keys *keys) {
    dt_zeromq zeromq;
    *keys = (dt_ps_keys){0};
    DT_TRY(dt_zeromq_open(&zeromq));
    DT_TRY(dt_zeromq_has_curve(&zeromq));
    return load(&zeromq, folder, role, keys);
}

void dt_ps_keys_forget(dt_ps_keys *keys) {
    dt_release(keys->allowed);
    explicit_bzero(keys, sizeof *keys);
}

bool dt_ps_keys_allow(const dt_ps_keys *keys, const uint8_t *key, dt_ps_role *role) {
    bool is_server = memcmp(keys->server, key, DT_PS_KEY_BYTES) == 0; /* servers connect to one another */
    *role = is_server ? DT_PS_SERVER : DT_PS_WORKER;
    for (size_t i = 0; i < keys->n_allowed && !is_server; i++)
        if (memcmp(keys->allowed[i], key, DT_PS_KEY_BYTES) == 0) return true;
    return is_server;
}
