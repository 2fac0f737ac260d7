/* dtrun: runs compiled programs. 0: done; 1: an error, said in one sentence; 2: a command line that makes no sense. */
#include "runtime/dtrun.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t stop;

/* The first signal asks for an orderly end, the second one gets what it always did. */
static void ask_to_stop(int signal_number) {
    stop = 1;
    signal(signal_number, SIG_DFL);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef dt_status *run_function(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);

static dt_status *run_kernels(const dtrun_call *call, const dt_artifact *artifact, run_function *run) {
    dt_kernels *kernels = NULL;
    dt_log *log = NULL;
    DT_TRY(dt_kernels_load(artifact, &call->kernels, &kernels));
    dt_status *status = dt_log_create(stdout, call->log_format, &log);
    if (status == NULL) catch_signals();
    if (status == NULL) status = run(kernels, &call->run, log);
    dt_log_destroy(log);
    dt_kernels_free(kernels);
    return status;
}

static dt_status *run_artifact(const dtrun_call *call) {
    char *path;
    dt_artifact *artifact;
    DT_TRY(dtrun_find_artifact(call, &path));
    dt_status *status = dt_artifact_open(path, &artifact);
    if (status == NULL) {
        if (strcmp(call->command, "info") == 0) status = dtrun_info(call, artifact);
        if (strcmp(call->command, "bench") == 0) status = dtrun_bench(call, artifact);
        if (strcmp(call->command, "train") == 0) status = run_kernels(call, artifact, dt_run_train);
        if (strcmp(call->command, "evaluate") == 0) status = run_kernels(call, artifact, dt_run_evaluate);
        if (strcmp(call->command, "predict") == 0) status = run_kernels(call, artifact, dt_run_predict);
        dt_artifact_close(artifact);
    }
    dt_release(path);
    return status;
}

int main(int argc, char **argv) {
    dtrun_call call = {.run.stop = &stop};
    int code = dtrun_parse(argc, argv, &call);
    if (code == 0) {
        dt_status *status = strcmp(call.command, "devices") == 0 ? dtrun_devices() : run_artifact(&call);
        if (status != NULL) fprintf(stderr, "dtrun: error: %s\n", dt_status_message(status));
        code = status != NULL;
        dt_status_free(status);
    }
    if (code == 0 && (fflush(stdout) != 0 || ferror(stdout))) code = 1;
    dtrun_call_free(&call);
    return code;
}
