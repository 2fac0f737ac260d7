/* agreement: see agreement.h. */
#include "runtime/execution/agreement.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const dt_step_context at_start = {.step = "start"};

/* A line of what a device says of itself; empty after the last one. */
typedef struct identity_line {
    char text[DT_RECORD_BYTES];
} identity_line;

/* Line number `line`, its spaces single. */
static identity_line copy_line(const char *text, int line) {
    identity_line copy = {""};
    size_t n = 0;
    for (; line > 0 && *text != 0; line--) {
        text += strcspn(text, "\n");
        text += *text != 0;
    }
    for (text += strspn(text, " "); *text != 0 && *text != '\n' && n + 1 < sizeof copy.text; text++)
        if (*text != ' ' || text[1] != ' ') copy.text[n++] = *text;
    return copy;
}

static bool are_alike(const identity_line *one, const identity_line *other) { return strcmp(one->text, other->text) == 0; }
static bool is_end(const identity_line *line) { return line->text[0] == 0; }

static dt_status *say_difference(const char *one, const identity_line *its, const char *other, const identity_line *others, int line) {
    const char *what_helps = line == 0 ? "use GPUs of one architecture" : "install the same libraries, or do without them: --library none";
    return dt_error(DT_FAILED_PRECONDITION, "the GPUs of a run are to compute alike: %s has %s, %s has %s; %s", one,
                    is_end(its) ? "nothing of the kind" : its->text, other, is_end(others) ? "nothing of the kind" : others->text, what_helps);
}

/* Of two devices of this process, which say different things. */
static dt_status *find_difference_here(const dt_device *const *devices, const dt_text *texts, int other) {
    identity_line its, others;
    int line = 0;
    do {
        its = copy_line(texts[0].data, line);
        others = copy_line(texts[other].data, line++);
    } while (are_alike(&its, &others) && !is_end(&its));
    return say_difference(devices[0]->name, &its, devices[other]->name, &others, line - 1);
}

/* Of process 0 and another one: all show one another their lines, one by one. */
static dt_status *find_difference(dt_processes *processes, const char *here, identity_line *lines, int other) {
    char name[160];
    int line = 0, process = dt_processes_number(processes);
    do {
        lines[process] = copy_line(here, line++);
        DT_TRY(dt_processes_gather(processes, lines, sizeof *lines, &at_start));
    } while (are_alike(&lines[0], &lines[other]) && !is_end(&lines[0]));
    dt_processes_print_name(processes, other, name, sizeof name);
    return say_difference("process 0", &lines[0], name, &lines[other], line - 1);
}

/* The first device of each stands for all of them, which are alike. */
static dt_status *compare_processes(dt_processes *processes, const dt_text *text) {
    int n = dt_processes_count(processes), other = 1;
    if (n == 1) return NULL;
    uint64_t *hashes = dt_allocate_zeroed((size_t)n, sizeof *hashes);
    identity_line *lines = dt_allocate_zeroed((size_t)n, sizeof *lines);
    dt_status *status = hashes == NULL || lines == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) {
        hashes[dt_processes_number(processes)] = dt_hash_bytes(text->data, text->n, DT_HASH_SEED);
        status = dt_processes_gather(processes, hashes, sizeof *hashes, &at_start);
    }
    while (status == NULL && other < n && hashes[other] == hashes[0]) other++;
    if (status == NULL && other < n) status = find_difference(processes, text->data, lines, other);
    dt_release(hashes);
    dt_release(lines);
    return status;
}

static dt_status *compare(dt_processes *processes, const dt_device *const *devices, const dt_text *texts, int n) {
    for (int d = 0; d < n; d++)
        if (texts[d].failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int d = 1; d < n; d++)
        if (strcmp(texts[d].data, texts[0].data) != 0) return find_difference_here(devices, texts, d);
    return compare_processes(processes, &texts[0]);
}

dt_status *dt_devices_agree(dt_processes *processes, const dt_device *const *devices, int n) {
    if (devices[0]->kind->print_identity == NULL) return NULL;
    dt_text *texts = dt_allocate_zeroed((size_t)n, sizeof *texts);
    if (texts == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int d = 0; d < n; d++) devices[d]->kind->print_identity(devices[d], &texts[d]);
    dt_status *status = compare(processes, devices, texts, n);
    for (int d = 0; d < n; d++) dt_text_free(&texts[d]);
    dt_release(texts);
    return status;
}
