/* agreement: see agreement.h. */
#include "runtime/execution/agreement.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const dt_step_context at_start = {.step = "start"};

/* A line of what a device says of itself, its spaces single, as far as there is room; of all of it the hash. Empty after the last one. */
typedef struct identity_line {
    uint64_t hash;
    char text[DT_RECORD_BYTES - sizeof(uint64_t)];
} identity_line;

/* Takes it from *rest. Spaces are counted as one, and not at all before a line and after it: they are for a table's columns. */
static identity_line take_line(const char **rest) {
    identity_line line = {.hash = DT_HASH_SEED};
    const char *at = *rest + strspn(*rest, " \n");
    for (size_t n = 0; *at != 0 && *at != '\n'; at++) {
        bool is_space = *at == ' ' && (at[1] == ' ' || at[1] == '\n' || at[1] == 0);
        if (is_space) continue;
        line.hash = dt_hash_bytes(at, 1, line.hash);
        if (n + 1 < sizeof line.text) line.text[n++] = *at;
    }
    *rest = *at == '\n' ? at + 1 : at;
    return line;
}

static bool are_alike(const identity_line *one, const identity_line *other) { return one->hash == other->hash; }
static bool is_end(const identity_line *line) { return line->text[0] == 0; }

/* Of all its lines. */
static uint64_t hash_of(const char *text) {
    uint64_t hash = DT_HASH_SEED;
    for (identity_line line = take_line(&text); !is_end(&line); line = take_line(&text)) hash = dt_hash_bytes(&line.hash, sizeof line.hash, hash);
    return hash;
}

static dt_status *say_difference(const char *one, const identity_line *its, const char *other, const identity_line *others, bool is_first) {
    const char *what_helps = is_first ? "use GPUs of one architecture" : "install the same libraries, or do without them: --library none";
    if (strcmp(its->text, others->text) == 0)
        return dt_error(DT_FAILED_PRECONDITION, "the GPUs of a run are to compute alike: %s and %s both have %s…, and differ after that; %s", one,
                        other, its->text, what_helps);
    return dt_error(DT_FAILED_PRECONDITION, "the GPUs of a run are to compute alike: %s has %s, %s has %s; %s", one,
                    is_end(its) ? "nothing of the kind" : its->text, other, is_end(others) ? "nothing of the kind" : others->text, what_helps);
}

/* The first line: what it is. */
static bool is_of_one_kind(const dt_text *one, const dt_text *other) {
    const char *its = one->data, *others = other->data;
    identity_line a = take_line(&its), b = take_line(&others);
    return are_alike(&a, &b);
}

/* Of two devices of this process, which say different things. */
static dt_status *find_difference_here(const dt_device *const *devices, const dt_text *texts, int one, int other) {
    const char *its_rest = texts[one].data, *others_rest = texts[other].data;
    identity_line its = take_line(&its_rest), others = take_line(&others_rest);
    bool is_first = true;
    for (; are_alike(&its, &others) && !is_end(&its); is_first = false) {
        its = take_line(&its_rest);
        others = take_line(&others_rest);
    }
    return say_difference(devices[one]->name, &its, devices[other]->name, &others, is_first);
}

/* Of process 0 and another one: all show one another their lines, one by one. */
static dt_status *find_difference(dt_processes *processes, const char *here, identity_line *lines, int other) {
    char name[160];
    int line = 0, process = dt_processes_number(processes);
    do {
        lines[process] = take_line(&here);
        line++;
        DT_TRY(dt_processes_allgather(processes, lines, sizeof *lines, &at_start));
    } while (are_alike(&lines[0], &lines[other]) && !is_end(&lines[0]));
    dt_processes_print_name(processes, other, name, sizeof name);
    return say_difference("process 0", &lines[0], name, &lines[other], line == 1);
}

/* The first device of each that computes stands for all of them, which are alike. */
static dt_status *compare_processes(dt_processes *processes, const dt_text *text) {
    int n = dt_processes_count(processes), other = 1;
    if (n == 1) return NULL;
    uint64_t *hashes = dt_allocate_zeroed((size_t)n, sizeof *hashes);
    identity_line *lines = dt_allocate_zeroed((size_t)n, sizeof *lines);
    dt_status *status = hashes == NULL || lines == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) {
        hashes[dt_processes_number(processes)] = hash_of(text->data);
        status = dt_processes_allgather(processes, hashes, sizeof *hashes, &at_start);
    }
    while (status == NULL && other < n && hashes[other] == hashes[0]) other++;
    if (status == NULL && other < n) status = find_difference(processes, text->data, lines, other);
    dt_release(hashes);
    dt_release(lines);
    return status;
}

/* Those that are idle, the first ones, call no libraries, or others than the rest. */
static dt_status *compare(dt_processes *processes, const dt_device *const *devices, const dt_text *texts, int n, int n_idle) {
    for (int d = 0; d < n; d++)
        if (texts[d].failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int d = 0; d < n; d++) {
        bool alike = d < n_idle ? is_of_one_kind(&texts[d], &texts[n_idle]) : hash_of(texts[d].data) == hash_of(texts[n_idle].data);
        if (!alike) return find_difference_here(devices, texts, d < n_idle ? d : n_idle, d < n_idle ? n_idle : d);
    }
    return compare_processes(processes, &texts[n_idle]);
}

dt_status *dt_devices_agree(dt_processes *processes, const dt_device *const *devices, int n, int n_idle) {
    if (devices[0]->kind->print_identity == NULL) return NULL;
    dt_text *texts = dt_allocate_zeroed((size_t)n, sizeof *texts);
    if (texts == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int d = 0; d < n; d++) devices[d]->kind->print_identity(devices[d], &texts[d]);
    dt_status *status = compare(processes, devices, texts, n, n_idle);
    for (int d = 0; d < n; d++) dt_text_free(&texts[d]);
    dt_release(texts);
    return status;
}
