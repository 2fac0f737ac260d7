/* dtrun: runs compiled programs. Exit status 0: done; 1: an error, said in one sentence; 2: a command line that makes no sense; 128 + N: signal N
 * asked for the end, and what there was to save is saved. */
#include "runtime/dtrun.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- signals ---- */

static atomic_int stop; /* number of the first signal that asked for the end */

/* The first one asks for an orderly end, the second one gets what it always did. A terminal that is closed may say SIGHUP more than once. */
static void ask_to_stop(int number) {
    int none = 0;
    atomic_compare_exchange_strong(&stop, &none, number);
    if (number != SIGHUP) signal(number, SIG_DFL);
}

/* What nohup, or a shell that starts jobs in the background, has told us to ignore stays ignored. */
static void catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}

/* ---- standard streams ---- */

/* A file that we open must not get the number of a stream that the caller closed: lines for people would be written into it. */
static void fill_closed_streams(void) {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY); /* not to be written to: that is still an error */
}

/* At exit, with whatever status: all that was printed was written. A process that failed has said so. */
static void check_output(int status, void *unused) {
    (void)unused;
    errno = 0;
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (is_written || (status > 0 && status < 128)) return;
    fprintf(stderr, "dtrun: error: cannot write to standard output%s%s\n", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    if (status == 0) _exit(1);
}

/* ---- commands ---- */

typedef dt_status *run_function(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);

static dt_status *run_kernels(const dtrun_call *call, const dt_artifact *artifact, run_function *run) {
    dt_kernels *kernels = NULL;
    dt_log *log = NULL;
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of writing, after which there is something to save */
    DT_TRY(dt_kernels_load(artifact, &call->kernels, &kernels));
    dt_status *status = dt_log_create(dt_run_leads(&call->run) ? stdout : NULL, call->log_format, &log);
    if (status == NULL) status = run(kernels, &call->run, log);
    dt_log_destroy(log);
    dt_kernels_free(kernels);
    return status;
}

static dt_status *run_program(const dtrun_call *call) {
    dtrun_program program;
    dt_status *status = NULL;
    DT_TRY(dtrun_open_program(call, call->program, &program));
    if (strcmp(call->command, "info") == 0) status = dtrun_info(call, program.artifact);
    if (strcmp(call->command, "bench") == 0) status = dtrun_bench(call, program.artifact);
    if (strcmp(call->command, "train") == 0) status = run_kernels(call, program.artifact, dt_run_train);
    if (strcmp(call->command, "evaluate") == 0) status = run_kernels(call, program.artifact, dt_run_evaluate);
    if (strcmp(call->command, "predict") == 0) status = run_kernels(call, program.artifact, dt_run_predict);
    dtrun_close_program(&program);
    return status;
}

int main(int argc, char **argv) {
    dtrun_call call = {.run.stop = &stop, .run.catch_signals = catch_signals};
    fill_closed_streams();
    on_exit(check_output, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of writing */
    int code = dtrun_parse(argc, argv, &call);
    if (code == 0) {
        dt_status *status = strcmp(call.command, "devices") == 0 ? dtrun_devices() : run_program(&call);
        if (status != NULL) fprintf(stderr, "dtrun: error: %s\n", dt_status_message(status));
        code = status != NULL ? 1 : stop != 0 ? 128 + stop : 0;
        dt_status_free(status);
    }
    dtrun_call_free(&call);
    return code;
}
