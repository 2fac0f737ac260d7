/* data_check: see the header. */
#include "runtime/data_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

_Static_assert(sizeof(dt_step_notice) == DT_STEP_NOTICE_BYTES, "a record has room for what is said before a step");

enum {
    NAME_BYTES = 160
};

static dt_processes *processes_of(const dt_session *session) { return dt_session_get_options(session)->processes; }

/* Whether others go on without it. */
static bool may_leave(const dt_session *session, int process) {
    dt_process_roles roles = dt_processes_roles(processes_of(session));
    return roles.n_servers > 0 && process >= roles.n_servers;
}

dt_status *dt_fault_of(dt_session *session, int process, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool is_here = process == dt_processes_number(processes_of(session));
    return dt_error(may_leave(session, process) && !is_here ? DT_ABORTED : DT_FAILED_PRECONDITION, "%s", text);
}

dt_status *dt_data_check_error(const char *who, const char *what, const char *name_of_first) {
    return dt_error(DT_FAILED_PRECONDITION,
                    "%s has other data than %s: %s differs; " DT_DATA_CHECK_HELP ", and --no-data-check does not compare them", who, name_of_first,
                    what);
}

/* Process 0: the first of the others that has read something else. */
static dt_status *compare(dt_session *session, const dt_pipeline *pipeline, const dt_step_notice *notices) {
    for (int p = 1; p < dt_session_n_processes(session); p++) {
        bool differs;
        dt_text what = {0};
        dt_pipeline_compare_part(pipeline, p, &notices[p].marks, &differs, &what);
        if (!differs) continue;
        char who[NAME_BYTES];
        dt_session_print_process(session, p, who, sizeof who);
        dt_status *status = dt_data_check_error(who, what.data != NULL ? what.data : "an example", "process 0");
        dt_text_free(&what);
        if (!may_leave(session, p)) return status;
        dt_processes_blame(processes_of(session), p, dt_status_message(status));
        dt_status_free(status);
        return dt_processes_status(processes_of(session));
    }
    return NULL;
}

dt_status *dt_data_check_step(dt_session *session, const dt_pipeline *pipeline, const dt_notices *told, bool *stopped) {
    int n = dt_session_n_processes(session), n_known = 0, n_stop = 0;
    dt_step_notice *notices = told->all;
    for (int p = 0; p < n; p++) n_known += notices[p].is_known;
    if (n_known < n) {
        told->write(told->context, &notices[n > 1 ? dt_processes_number(processes_of(session)) : 0]);
        DT_TRY(dt_session_gather_records(session, notices, sizeof *notices));
    }
    for (int p = 0; p < n; p++) n_stop += notices[p].stops;
    notices[0].is_known = false;
    *stopped = n_stop > 0;
    return *stopped || !dt_pipeline_compares(pipeline) ? NULL : compare(session, pipeline, notices);
}

dt_status *dt_data_check_start(dt_session *session, const dt_pipeline *pipeline) {
    dt_session_answers n, layouts;
    char other[NAME_BYTES];
    DT_TRY(dt_session_ask(session, dt_pipeline_n_examples(pipeline), &n));
    if (n.other >= 0) {
        dt_session_print_process(session, n.other, other, sizeof other);
        return dt_fault_of(session, n.other,
                           "not all processes find the same data: %s finds %" PRId64 " examples in its files, process 0 %" PRId64
                           "; " DT_DATA_CHECK_HELP,
                           other, n.of_other, n.of_first);
    }
    DT_TRY(dt_session_ask(session, (int64_t)dt_pipeline_layout(pipeline), &layouts));
    if (layouts.other < 0) return NULL;
    dt_session_print_process(session, layouts.other, other, sizeof other);
    return dt_fault_of(
        session, layouts.other,
        "not all processes find the same data: %s finds examples of other types or shapes, or another number before they are filtered, "
        "than process 0; " DT_DATA_CHECK_HELP,
        other);
}
