/* Command lines from anywhere, a word a line; the first two are the program and its command. They are parsed as dtc and dtrun parse them, and what
 * dtrun accepts is read on as far as that goes without running a step: devices, launch values, reports, sizes, machines, and all that `info` says. */
#include "base/arena.h"
#include "compiler/commands/command.h"
#include "runtime/commands/dtrun.h"
#include "runtime/commands/launch_hosts.h"
#include "runtime/devices/spec.h"
#include "runtime/dtrt/program.h"
#include "runtime/metric.h"
#include "runtime/plateau.h"
#include "tests/fuzz/program.h"

#include <dlfcn.h>
#include <errno.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static dtrt_program *program;
static const dt_artifact *artifact; /* the program's */
static bool is_refused;             /* a parser has said so */

/* ---- argp, which is to end nothing ---- */

void argp_error(const struct argp_state *state, const char *format, ...) {
    (void)state, (void)format;
    is_refused = true;
}

void argp_failure(const struct argp_state *state, int status, int reason, const char *format, ...) {
    (void)state, (void)status, (void)reason, (void)format;
    is_refused = true;
}

/* No command of dtc gets further than this. */
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *index, void *input) {
    error_t (*parse)(const struct argp *, int, char **, unsigned, int *, void *);
    *(void **)&parse = dlsym(RTLD_NEXT, "argp_parse");
    if (parse == NULL) abort();
    if (parse(argp, argc, argv, flags | ARGP_SILENT, index, input) != 0) is_refused = true;
    return is_refused || strncmp(argv[0], "dtrun", 5) != 0 ? EINVAL : 0;
}

/* ---- dtrun ---- */

static dt_status *read_metrics(const dt_run_options *run) {
    const int steps[] = {dt_artifact_find_step(artifact, "evaluate"), dt_artifact_find_step(artifact, "train")};
    dt_metric metric;
    dt_plateau plateau;
    dt_status *status = dt_metric_find(artifact, steps, 2, run->keep_best, run->stop_after_no_gain > 0, &metric);
    dt_metric_free(&metric);
    DT_TRY(status);
    status = dt_plateau_find(artifact, steps, 2, run->plateau, &plateau);
    if (status == NULL && plateau.name != NULL) {
        dt_plateau_state state = dt_plateau_begin(&plateau);
        double rate = 1;
        for (int epoch = 0; epoch < 8; epoch++) rate = dt_plateau_next(&plateau, &state, epoch / 3, rate);
        if (!(rate <= 1)) abort(); /* it only ever makes it smaller */
    }
    dt_plateau_free(&plateau);
    return status;
}

static dt_status *read_hosts(const char *list) {
    jmp_buf guard;
    dt_hosts hosts = {0};
    dt_arena *volatile arena = dt_arena_create();
    if (setjmp(guard) != 0) abort();
    dt_arena_guard(arena, &guard);
    dt_status *status = dt_hosts_parse(list, arena, &hosts);
    dt_arena_destroy(arena);
    return status;
}

static dt_status *read_on(const dtrun_call *call) {
    enum {
        MOST_PROCESSES = 64 /* more only take longer */
    };
    const dt_run_options *run = &call->run;
    dt_device_spec spec;
    int64_t rows;
    if (run->devices != NULL) DT_TRY(dt_device_spec_parse(run->devices, &spec));
    if (call->hosts != NULL) DT_TRY(read_hosts(call->hosts));
    DT_TRY(dt_run_check_launch_values(artifact, run));
    DT_TRY(read_metrics(run));
    DT_TRY(dt_run_rows(run, PROGRAM_ROWS, &rows));
    DT_TRY(dt_session_check_shape(artifact, run->replicas != 0 ? run->replicas : 1, rows));
    return call->kind == DT_FOR_INFO && call->n_processes <= MOST_PROCESSES ? dtrun_info(call, program) : NULL;
}

static void parse_for_dtrun(int argc, char **argv) {
    static const char *const ending[] = {"--help", "-?", "help", "--version"}; /* before argp is asked */
    dtrun_call call = {0};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (strcmp(argv[1], ending[i]) == 0) return;
    if (dtrun_parse(argc, argv, &call) == 0) {
        dt_status *status = read_on(&call);
        if (status != NULL && *dt_status_message(status) == 0) abort();
        dt_status_free(status);
    }
    dtrun_call_free(&call);
}

/* ---- dtc ---- */

static void parse_for_dtc(int argc, char **argv) {
    static const dt_command commands[] = {{"compile", "", dt_command_compile}, {"summary", "", dt_command_summary}, {"graph", "", dt_command_graph},
                                          {"check", "", dt_command_check},     {"opt", "", dt_command_opt},         {"run", "", dt_command_run_plan},
                                          {"ops", "", dt_command_ops},         {"pack", "", dt_command_pack}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) commands[i].run(argc - 1, argv + 1);
}

/* ---- words ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    dtc_bytes bytes = program_make();
    dtc_free(bytes.data);
    if (dtrt_open(scratch_path("net.dtx"), NULL, &program) != NULL) abort();
    artifact = dt_program_artifact(program);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    enum {
        MOST_WORDS = 64
    };
    char *text = malloc(n + 1), *rest = text, *argv[MOST_WORDS + 1];
    int argc = 0;
    if (text == NULL) abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    is_refused = false;
    while (rest != NULL && argc < MOST_WORDS) argv[argc++] = strsep(&rest, "\n");
    argv[argc] = NULL;
    if (argc >= 2 && strcmp(argv[0], "dtrun") == 0) parse_for_dtrun(argc, argv);
    if (argc >= 2 && strcmp(argv[0], "dtc") == 0) parse_for_dtc(argc, argv);
    free(text);
    return 0;
}
