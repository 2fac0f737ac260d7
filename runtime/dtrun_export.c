/* dtrun export: weights under the names, and in the shapes, that others know. */
#include "runtime/dtrun.h"
#include "runtime/weights.h"

#include <stdio.h>
#include <string.h>

dt_status *dtrun_export(const dtrun_call *call) {
    const dt_run_options *run = &call->run;
    dt_weights_options weights = {.path = call->program, .map = run->map, .allow_missing = run->allow_missing};
    dt_weights_report report;
    dt_status *status = dt_weights_export(&weights, run->output, &report);
    if (status == NULL) {
        printf("%s%s\n", run->output, report.lines.n > 0 ? report.lines.data : "");
        char *rest = report.warnings.data;
        for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) fprintf(stderr, "dtrun: warning: %s\n", line);
    }
    dt_weights_report_free(&report);
    return status;
}
