/* dtc summary: a program at a glance, before anything runs: layers and parameters, arithmetic, memory, and what crosses replicas. */
#include "base/status.h"
#include "compiler/commands/command.h"

static const struct argp_option option_rows[] = {DT_COMMAND_PROGRAM_OPTIONS, {0}};

static dt_status *run(dt_command_call *call) {
    dtc_summary *summary;
    DT_TRY(dtc_summarize(&call->program, &summary));
    dt_status *status = dt_command_print_text(summary->text);
    dtc_summary_free(summary);
    return status;
}

int dt_command_summary(int argc, char **argv) {
    static const struct argp argp = {
        option_rows,
        dt_command_parse,
        "PROGRAM.dt",
        "Print the layers of a program, their shapes and parameters, and of each step its arithmetic, its memory and what "
        "crosses replicas.",
        NULL,
        NULL,
        NULL};
    return dt_command_run(&argp, argc, argv, NULL, run);
}
