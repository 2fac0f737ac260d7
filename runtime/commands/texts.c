/* texts: the commands that print, or write, what include/dtrt.h gives: info, devices, report, export. */
#include "runtime/commands/dtrun.h"

#include <string.h>

/* Prints and frees the text, unless there is an error. */
static dt_status *print(dt_status *status, char *text) {
    if (status == NULL) fputs(text, stdout); /* whether it was written is looked at when the process ends */
    dtrt_free(text);
    return status;
}

dt_status *dtrun_info(const dtrun_call *call, const dtrt_program *program) {
    char *text = NULL;
    dtrt_info_options options = {.size = sizeof options,
                                 .n_processes = call->n_processes,
                                 .replicas = call->run.replicas,
                                 .global_batch = call->run.global_batch,
                                 .devices = call->run.devices,
                                 .shard_optimizer = call->run.shard_optimizer,
                                 .shard_parameters = call->run.shard_parameters,
                                 .gather_rounds = call->run.gather_rounds,
                                 .shards_over = call->run.shards_over,
                                 .stages = call->run.stages,
                                 .flops = call->run.flops,
                                 .bandwidth = call->run.bandwidth,
                                 .latency = call->run.latency};
    dt_status *status = call->text != NULL ? dtrt_program_text(program, call->text, &text) : dtrt_info(program, &options, &text);
    return print(status, text);
}

dt_status *dtrun_devices(void) {
    char *text = NULL;
    dt_status *status = dtrt_devices(&text);
    return print(status, text);
}

dt_status *dtrun_report(const dtrun_call *call) { return dtrt_write_report(call->run.inputs, call->run.n_inputs, call->run.output); }

dt_status *dtrun_export(const dtrun_call *call) {
    char *text = NULL, *warnings = NULL;
    dtrt_weights_options options = {.size = sizeof options, .map = call->run.map, .allow_missing = call->run.allow_missing};
    dt_status *status = dtrt_export_weights(call->program, call->run.output, &options, &text, &warnings);
    if (status == NULL) {
        printf("%s%s%s\n", call->run.output, *text != 0 ? "\n" : "", text);
        char *rest = *warnings != 0 ? warnings : NULL;
        for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) fprintf(stderr, "dtrun: warning: %s\n", line);
    }
    dtrt_free(warnings);
    dtrt_free(text);
    return status;
}
