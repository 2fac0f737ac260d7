/* run_differences: what a checkpoint was written with and the run that goes on from it is not. Only the same bits are lost, never the place. */
#include "base/text.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <string.h>

/* Whether `lines` has the line of `n` characters at `line`. */
static bool has_line(const char *lines, const char *line, size_t n) {
    for (const char *at = lines; *at != 0; at += strcspn(at, "\n"), at += *at != 0)
        if (strcspn(at, "\n") == n && strncmp(at, line, n) == 0) return true;
    return false;
}

/* The lines that the others lack. */
static void list_other_lines(dt_text *text, const char *who, const char *lines, const char *others) {
    enum {
        MOST_LISTED = 10
    };
    int n_found = 0;
    for (const char *at = lines; *at != 0; at += strcspn(at, "\n"), at += *at != 0) {
        int n = (int)strcspn(at, "\n");
        if (has_line(others, at, (size_t)n) || n_found++ >= MOST_LISTED) continue;
        dt_text_format(text, "\n  %s: %.*s", who, n, at);
    }
    if (n_found > MOST_LISTED) dt_text_format(text, "\n  %s: and %d more", who, n_found - MOST_LISTED);
    if (lines[0] == 0) dt_text_format(text, "\n  %s: generated code alone", who);
}

/* What vendors' libraries did of a GPU's work then, and do now. */
static void warn_of_libraries(dt_log *log, const char *then, const char *now) {
    dt_text lines = {0};
    if (then == NULL || now == NULL || strcmp(then, now) == 0) return;
    list_other_lines(&lines, "checkpoint", then, now);
    list_other_lines(&lines, "this run", now, then);
    dt_log_remark(log, "warning", "the checkpoint was written with other libraries, or other choices of theirs: the bits differ from here on:%s",
                  lines.data != NULL ? lines.data : "");
    dt_text_free(&lines);
}

void dt_run_warn_of_differences(dt_log *log, const dt_checkpoint_state *then, const dt_checkpoint_state *now) {
    if (then->replicas != now->replicas || then->global_batch != now->global_batch)
        dt_log_remark(log, "warning",
                      "the checkpoint was written with %" PRId64 " replica%s and a global batch of %" PRId64 ", this run has %" PRId64 " and %" PRId64
                      ": it goes on at the same example, but not with the same bits",
                      then->replicas, dt_plural(then->replicas), then->global_batch, now->replicas, now->global_batch);
    if (then->seed != now->seed)
        dt_log_remark(log, "warning",
                      "the checkpoint was written with --seed %" PRId64 ", this run has %" PRId64
                      ": the order of examples and all random numbers change",
                      then->seed, now->seed);
    if (then->epochs != now->epochs)
        dt_log_remark(log, "note",
                      "the checkpoint was written in a run of %" PRId64 " epochs, this one has %" PRId64 ": schedules that ask for it change",
                      then->epochs, now->epochs);
    if (then->steps_per_epoch != now->steps_per_epoch && then->global_batch == now->global_batch && strcmp(then->data, now->data) == 0)
        dt_log_remark(log, "warning",
                      "the checkpoint was written with data of %" PRId64 " steps an epoch, here it has %" PRId64
                      ": it goes on at the same place of other data",
                      then->steps_per_epoch, now->steps_per_epoch);
    if (strcmp(then->program_hash, now->program_hash) != 0)
        dt_log_remark(log, "warning", "the checkpoint was written by another version of the program: the bits may differ");
    else if (strcmp(then->level, now->level) != 0)
        dt_log_remark(log, "warning", "the checkpoint was written with kernels for %s, here they are for %s: the bits may differ", then->level,
                      now->level);
    else
        warn_of_libraries(log, then->libraries, now->libraries);
}
