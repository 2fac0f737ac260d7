/* launch_hosts: see launch_hosts.h. */
#include "runtime/commands/launch_hosts.h"

#include "base/file.h"
#include "runtime/commands/supervisor.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_AT_ONCE = 16,       /* questions */
    LOOK_MILLISECONDS = 100, /* whether they are to end */
    MOST_FAILURES = 2        /* in a row, of a machine that stays */
};

/* ---- asking programs ---- */

/* A program that is run for what it prints. */
typedef struct question {
    char **command;
    dt_child child;
    int output; /* -1: it has been read */
    char answer[1024];
    size_t n;
    bool is_answered; /* its exit status is 0 */
} question;

static void ask(question *one) {
    int ends[2], nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    *one = (question){.command = one->command, .output = -1};
    if (nothing >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
        dt_child_options options = {.dies_by = SIGTERM, .output = ends[1], .errors = nothing};
        dt_status *status = dt_child_start(one->command, &options, &one->child);
        close(ends[1]);
        one->output = status == NULL ? ends[0] : -1;
        if (status != NULL) close(ends[0]);
        dt_status_free(status);
    }
    if (nothing >= 0) close(nothing);
}

/* What an answer has no room for is read and forgotten. */
static void hear(question *one) {
    char rest[256];
    size_t room = sizeof one->answer - 1 - one->n;
    ssize_t n = room > 0 ? read(one->output, one->answer + one->n, room) : read(one->output, rest, sizeof rest);
    if (n > 0) {
        if (room > 0) one->n += (size_t)n;
        return;
    }
    close(one->output);
    one->output = -1;
}

/* Whoever has not answered by then, or when it is over, is ended. */
static void ask_all(question *all, size_t n, double seconds, bool (*is_over)(void)) {
    double end = dt_seconds_now() + seconds;
    for (size_t i = 0; i < n; i++) ask(&all[i]);
    for (size_t n_open = n; n_open > 0;) {
        struct pollfd polled[MOST_AT_ONCE];
        double left = end - dt_seconds_now();
        n_open = 0;
        for (size_t i = 0; i < n; i++) {
            polled[i] = (struct pollfd){.fd = all[i].output, .events = POLLIN};
            n_open += all[i].output >= 0;
        }
        int wait = left * 1000 < LOOK_MILLISECONDS ? (int)(left * 1000) + 1 : LOOK_MILLISECONDS;
        if (left <= 0 || is_over() || n_open == 0 || (poll(polled, n, wait) < 0 && errno != EINTR)) break;
        for (size_t i = 0; i < n; i++)
            if (all[i].output >= 0 && polled[i].revents != 0) hear(&all[i]);
    }
    dt_child *children[MOST_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        if (all[i].output >= 0) {
            close(all[i].output);
            if (all[i].child.pid > 0) kill(-all[i].child.pid, SIGKILL);
        }
        children[i] = &all[i].child;
    }
    double left = end - dt_seconds_now();
    dt_children_end(children, (int)n, 0, is_over() || left < 0 ? 0 : left);
    for (size_t i = 0; i < n; i++) {
        all[i].is_answered = all[i].child.has_ended && dt_child_exit_code(&all[i].child) == 0;
        all[i].answer[strcspn(all[i].answer, "\n")] = 0;
    }
}

/* ---- launchers ---- */

dt_status *dt_mpirun_identify(dt_mpirun *mpirun, bool (*is_over)(void), dt_arena *arena) {
    static const double SECONDS = 10;
    char *command[] = {dt_arena_string(arena, mpirun->program), "--version", NULL};
    question version = {.command = command};
    ask_all(&version, 1, SECONDS, is_over);
    mpirun->is_hydra = strstr(version.answer, "HYDRA") != NULL || strstr(version.answer, "Intel") != NULL;
    if (mpirun->is_hydra || strstr(version.answer, "Open MPI") != NULL || strstr(version.answer, "OpenRTE") != NULL) return NULL;
    return dt_error(
        DT_INVALID_ARGUMENT,
        "%s --version names neither Open MPI nor MPICH's Hydra, so its options for --hosts and --hostfile are not known: name another with "
        "--mpirun, or say them in --mpirun-options",
        mpirun->program);
}

static void push(dt_arena *arena, dt_words *words, const char *word) { dt_list_push(arena, words, dt_arena_string(arena, word)); }

void dt_mpirun_begin(const dt_mpirun *mpirun, int n, const char *hosts, const char *tell, dt_arena *arena, dt_words *words) {
    char *rest, *options = dt_arena_string(arena, mpirun->options != NULL ? mpirun->options : "");
    push(arena, words, mpirun->program);
    push(arena, words, "-n");
    dt_list_push(arena, words, dt_arena_format(arena, "%d", n));
    if (hosts != NULL) {
        push(arena, words, mpirun->is_hydra ? "-f" : "--hostfile");
        push(arena, words, hosts);
        if (tell != NULL && !mpirun->is_hydra) { /* Hydra tells all variables */
            push(arena, words, "-x");
            push(arena, words, tell);
        }
    }
    for (char *word = strtok_r(options, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) push(arena, words, word);
}

/* ---- which machines there are ---- */

/* A name is written into a file of one a line, where # begins a comment. */
static dt_status *add(const char *name, size_t n, const char *slots, const char *where, dt_arena *arena, dt_hosts *hosts) {
    char *rest = "";
    long n_slots = slots != NULL ? strtol(slots, &rest, 10) : 1;
    bool is_name = n > 0 && *name != '-' && strcspn(name, " \t\r\n#\"'") >= n;
    if (!is_name || n_slots < 1 || n_slots > INT_MAX / 2 || (*rest != 0 && *rest != ','))
        return dt_error(DT_INVALID_ARGUMENT, "%s: a machine is its name, or its name and how many processes it may have, as in node1:2", where);
    dt_list_push(arena, hosts, ((dt_host){.name = dt_arena_substring(arena, name, n), .n_slots = (int)n_slots}));
    return NULL;
}

static dt_status *check(const char *where, const dt_hosts *hosts) {
    int64_t n = 0;
    for (size_t i = 0; i < hosts->n; i++) n += hosts->items[i].n_slots;
    if (n > INT_MAX) return dt_error(DT_INVALID_ARGUMENT, "%s: that many processes cannot be", where);
    return hosts->n > 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s names no machine", where);
}

dt_status *dt_hosts_parse(const char *list, dt_arena *arena, dt_hosts *hosts) {
    const char *where = dt_arena_format(arena, "--hosts %s", list);
    for (const char *at = list; *at != 0; at += strcspn(at, ","), at += *at != 0) {
        size_t n = strcspn(at, ":,");
        DT_TRY(add(at, n, at[n] == ':' ? at + n + 1 : NULL, where, arena, hosts));
    }
    return check(where, hosts);
}

dt_status *dt_hosts_read(const char *path, dt_arena *arena, dt_hosts *hosts) {
    char *text, *rest;
    size_t n_bytes;
    int number = 1;
    DT_TRY(dt_file_read(path, &text, &n_bytes));
    char *at = dt_arena_string(arena, text), *line;
    free(text);
    for (; (line = strsep(&at, "\n")) != NULL; number++) {
        line[strcspn(line, "#")] = 0;
        char *name = strtok_r(line, " \t\r", &rest);
        if (name == NULL) continue;
        const char *slots = strchr(name, ':') != NULL ? strchr(name, ':') + 1 : NULL;
        for (char *word; (word = strtok_r(NULL, " \t\r", &rest)) != NULL;)
            if (strncmp(word, "slots=", strlen("slots=")) == 0) slots = word + strlen("slots=");
        DT_TRY(add(name, strcspn(name, ":"), slots, dt_arena_format(arena, "%s, line %d", path, number), arena, hosts));
    }
    return check(path, hosts);
}

int dt_hosts_n_slots(const dt_hosts *hosts) {
    int n = 0;
    for (size_t i = 0; i < hosts->n; i++) n += hosts->items[i].is_out ? 0 : hosts->items[i].n_slots;
    return n;
}

static void write_line(const dt_host *host, const dt_mpirun *mpirun, dt_text *text) {
    dt_text_format(text, mpirun->is_hydra ? "%s:%d\n" : "%s slots=%d\n", host->name, host->n_slots);
}

static dt_status *write_file(dt_text *text, const char *path) {
    dt_status *status = text->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_file_write_atomic(path, text->data, text->n);
    dt_text_free(text);
    return status;
}

dt_status *dt_hosts_write(const dt_hosts *hosts, const dt_mpirun *mpirun, const char *path) {
    dt_text text = {0};
    for (size_t i = 0; i < hosts->n; i++)
        if (!hosts->items[i].is_out) write_line(&hosts->items[i], mpirun, &text);
    return write_file(&text, path);
}

/* ---- which of them are there ---- */

/* One question for each machine, which its nodename answers. */
static dt_status *make_question(const dt_host *host, const dt_mpirun *mpirun, const char *path, dt_arena *arena, question *made) {
    dt_text text = {0};
    dt_words words = {0};
    write_line(host, mpirun, &text);
    DT_TRY(write_file(&text, path));
    dt_mpirun_begin(mpirun, 1, path, NULL, arena, &words);
    push(arena, &words, "uname");
    push(arena, &words, "-n");
    dt_list_push(arena, &words, NULL);
    *made = (question){.command = words.items};
    return NULL;
}

dt_status *dt_hosts_ask(dt_hosts *hosts, const dt_mpirun *mpirun, const char *folder, double seconds, bool (*is_over)(void), dt_arena *arena) {
    question *all = DT_NEW_ARRAY(arena, question, MOST_AT_ONCE);
    for (size_t next = 0; next < hosts->n && !is_over();) {
        dt_host *asked[MOST_AT_ONCE];
        size_t n = 0;
        for (; next < hosts->n && n < MOST_AT_ONCE; next++) {
            dt_host *host = &hosts->items[next];
            host->answers = false;
            if (host->is_out) continue;
            DT_TRY(make_question(host, mpirun, dt_arena_format(arena, "%s/host-%zu", folder, next), arena, &all[n]));
            asked[n++] = host;
        }
        ask_all(all, n, seconds, is_over);
        for (size_t i = 0; i < n; i++) {
            asked[i]->answers = all[i].is_answered;
            if (all[i].is_answered) snprintf(asked[i]->own_name, sizeof asked[i]->own_name, "%.63s", all[i].answer);
        }
    }
    return NULL;
}

static void leave_out(dt_hosts *hosts, dt_host *host, const char *why, dt_text *notes) {
    if (dt_hosts_n_slots(hosts) == host->n_slots) return; /* nothing would be left */
    host->is_out = true;
    dt_text_format(notes, "dtrun: note: %s %s: it is left out\n", host->name, why);
}

void dt_hosts_leave_out(dt_hosts *hosts, const char *blamed, dt_text *notes) {
    bool any_answers = false;
    for (size_t i = 0; i < hosts->n; i++) any_answers |= hosts->items[i].answers;
    for (size_t i = 0; i < hosts->n; i++) {
        dt_host *host = &hosts->items[i];
        const char *own_name = host->own_name[0] != 0 ? host->own_name : host->name;
        host->n_failures = strcmp(own_name, blamed) == 0 ? host->n_failures + 1 : 0;
        if (host->is_out) continue;
        if (any_answers && !host->answers)
            leave_out(hosts, host, "cannot be reached", notes);
        else if (host->n_failures >= MOST_FAILURES)
            leave_out(hosts, host, "has failed twice in a row", notes);
    }
}
