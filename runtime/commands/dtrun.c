/* dtrun: runs compiled programs. Exit status 0: done; 1: an error, said in one sentence; 2: a command line that makes no sense; 128 + N: signal N
 * asked for the end, and what there was to save is saved; 75 for that where there are several processes, in each of them. */
#include "runtime/commands/dtrun.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/comm/buckets.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/roll_call.h"
#include "runtime/commands/keeper.h"
#include "runtime/dtrt/processes.h"
#include "runtime/ps/team.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- signals ---- */

static atomic_int stop; /* number of the first signal that asked for the end */

/* The first one asks for an orderly end, the second one gets what it always did. A terminal that is closed may say SIGHUP more than once. What has
 * stopped for other workers ends. */
static void ask_to_stop(int number) {
    int before = 0;
    bool is_first = atomic_compare_exchange_strong(&stop, &before, number);
    if (!is_first && before == DT_PS_REGROUP) atomic_compare_exchange_strong(&stop, &before, number);
    if (number != SIGHUP) signal(number, SIG_DFL);
}

void dtrun_catch_signals(void (*handler)(int number)) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
}

static void catch_signals(void) { dtrun_catch_signals(ask_to_stop); }

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

static bool is_served(const dtrun_call *call) { return (call->kind & (DT_FOR_SERVER | DT_FOR_WORKER)) != 0; }

static dt_status *run(dtrun_call *call, dtrt_program *program, dt_run_function *function) {
    dt_log *log = NULL;
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of writing, after which there is something to save */
    DT_TRY(dt_log_create(&log));
    dtrun_printer *printer = NULL;
    dt_status *status = NULL;
    if (dt_run_leads(&call->run))
        status = dtrun_printer_create(stdout, call->logs_json ? DT_LOG_JSON : DT_LOG_TEXT, call->run.processes == NULL, log, &printer);
    if (status == NULL) status = dt_program_run(program, is_served(call) ? "train" : call->command, &call->run, call->timeline, function, log);
    dtrun_printer_destroy(printer);
    dt_log_destroy(log);
    return status;
}

/* Of generate, at once: text is read while it is made. */
static dt_status *print_bytes(void *unused, const char *bytes, size_t n_bytes) {
    (void)unused;
    errno = 0;
    if (fwrite(bytes, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0) return NULL;
    return dt_error(DT_IO, "cannot write to standard output: %s", strerror(errno != 0 ? errno : EIO));
}

static dt_status *generate(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    DT_TRY(dt_run_generate(kernels, options, log));
    return print_bytes(NULL, "\n", 1);
}

static dt_status *train_served(dtrun_call *call, dtrt_program *program) {
    bool leases = call->kind == DT_FOR_WORKER && call->run.team != NULL;
    return run(call, program, leases ? dt_run_lease : dt_run_train);
}

/* The program stays open: other processes are told where this one is in it, to the end. */
static dt_status *run_program(dtrun_call *call, dtrun_program *program) {
    dt_status *status = NULL;
    DT_TRY(dtrun_open_program(call, call->program, program));
    if (call->run.devices == NULL) call->run.devices = "cpu"; /* of this process's share of the cores, once it has one */
    switch (call->kind) {
    case DT_FOR_INFO: status = dtrun_info(call, program->program); break;
    case DT_FOR_BENCH: status = dtrun_bench(call, program->program); break;
    case DT_FOR_EVALUATE: status = run(call, program->program, dt_run_evaluate); break;
    case DT_FOR_PREDICT: status = run(call, program->program, dt_run_predict); break;
    case DT_FOR_GENERATE: status = run(call, program->program, generate); break;
    case DT_FOR_DATA: status = run(call, program->program, dt_run_data); break;
    case DT_FOR_TRAIN: status = run(call, program->program, dt_run_train); break;
    default: status = dtrun_serve(call, program->program, &stop, train_served); break;
    }
    dtrun_remove_scratch(program);
    return status;
}

/* ---- the processes of a run ---- */

static dt_state_file state_file = {.file = -1}; /* of this process: for whoever watches the run */

/* Open MPI asks the receiver before it sends more than 64 KiB over TCP, and question and answer queue up behind what is being sent: a link of 1
 * Gbit/s is idle for a quarter of the time. Receives are there before, so our messages may come unasked. What somebody has set counts. Other MPIs do
 * not read it. A program may say so, before it has threads; a library may not. */
static void let_messages_come_unasked(void) {
    enum {
        HEADER_BYTES = 1024 /* of the MPI's, at most */
    };
    char bytes[16];
    snprintf(bytes, sizeof bytes, "%d", DT_SHARE_BYTES + HEADER_BYTES);
    setenv("OMPI_MCA_btl_tcp_eager_limit", bytes, false);
}

/* Each of several processes would write the same text, or the same files. */
static bool writes_alone(const dtrun_call *call) { return (call->kind & (DT_FOR_GENERATE | DT_FOR_DATA | DT_FOR_EXPORT | DT_FOR_KEYS)) != 0; }

static dt_status *refuse_processes(const dtrun_call *call) {
    dt_launcher launcher;
    DT_TRY(dt_launcher_find(&launcher));
    if (launcher.n_processes < 2) return NULL;
    if (launcher.process > 0) {
        sleep(3); /* process 0 says it for all, before a launcher ends it because this one has ended */
        exit(1);
    }
    return dt_error(DT_INVALID_ARGUMENT, "`dtrun %s` is for one process, and %s started %d: run it by itself", call->command,
                    dt_launcher_name(&launcher), launcher.n_processes);
}

static void print_error(const char *reason) { fprintf(stderr, "dtrun: error: %s\n", reason); }

/* What those that have come have to say where others have not: all of a machine the same, which one of them says; then there is time for other
 * machines to say theirs, before a launcher ends all. */
static void say_for_machine(dtrun_call *call, const dt_status *status) {
    dt_roll_call *here = dt_roll_call_take();
    bool leads = here != NULL && dt_roll_call_leads(here);
    if (leads) print_error(dt_status_message(status));
    call->was_said = leads;
    sleep(leads ? 1 : 3);
    dt_roll_call_free(here);
}

/* For `dtrun launch`, which watches: of one process too. */
static dt_status *keep_state(const dt_launcher *launcher, dt_processes_options *options) {
    const char *folder = getenv(DT_STATE_FOLDER_VARIABLE);
    if (folder == NULL) return NULL;
    DT_TRY(dt_keeper_start(folder, launcher->process, launcher->n_processes));
    dt_status *kept = dt_state_file_create(folder, launcher->process, launcher->n_processes, &state_file);
    if (kept == NULL) options->state = &state_file;
    if (kept != NULL) fprintf(stderr, "dtrun: note: %s: nobody can look at the state of process %d\n", dt_status_message(kept), launcher->process);
    dt_status_free(kept);
    return NULL;
}

/* One that has no thread for it. */
static void keep_last_state(const dtrun_call *call, int code) {
    if (call->run.processes != NULL || state_file.file < 0 || state_file.state.phase != DT_PROCESS_RUNS) return;
    state_file.state.phase = code == 0 ? DT_PROCESS_ENDED : DT_PROCESS_FAILED;
    state_file.state.person_knows = true;
    dt_state_file_write(&state_file);
}

/* Those that a launcher started together with this one. Only commands that run a program are for several. */
static dt_status *open_processes(dtrun_call *call) {
    dt_launcher launcher;
    if (writes_alone(call)) return refuse_processes(call);
    if (!dtrun_runs(call) || is_served(call) || call->local_servers > 0) return NULL;
    DT_TRY(dt_launcher_find(&launcher));
    if (dt_launcher_note(&launcher) != NULL) fprintf(stderr, "dtrun: note: %s\n", dt_launcher_note(&launcher));
    if (launcher.kind == DT_LAUNCHER_NONE && getenv(DT_STATE_FOLDER_VARIABLE) == NULL) return NULL;
    if (launcher.kind != DT_LAUNCHER_NONE) let_messages_come_unasked();
    dt_processes_options options = {.deadline_seconds = dtrun_deadline(call), .stop = &stop};
    DT_TRY(keep_state(&launcher, &options));
    if (launcher.kind == DT_LAUNCHER_NONE) return NULL;
    dt_status *status = dt_api_open_processes(&options, &call->run.processes);
    if (status != NULL && call->run.processes == NULL) {
        say_for_machine(call, status);
        state_file.state.phase = DT_PROCESS_FAILED;
        state_file.state.person_knows = true; /* each says it */
        dt_state_file_write(&state_file);
    }
    return status;
}

/* Where there are several processes one of them prints, and all end together. */
static void say(const dtrun_call *call, const dt_status *status) {
    dt_processes *processes = call->run.processes;
    if (status == NULL || call->was_said) return;
    if (processes == NULL) {
        print_error(dt_status_message(status));
        return;
    }
    dt_processes_abort(processes, dt_status_message(status)); /* unless it is known already */
    dt_processes_say(processes, print_error);
}

/* All processes of a run end alike, whoever was asked to. */
static int exit_status(const dtrun_call *call, const dt_status *status) {
    if (status != NULL) return 1;
    if (call->run.processes != NULL) return *call->run.was_stopped ? DTRUN_STOPPED : 0;
    return stop != 0 ? 128 + stop : 0;
}

static dt_status *run_command(dtrun_call *call, dtrun_program *program, int *launched) {
    if (call->kind == DT_FOR_DEVICES) return dtrun_devices();
    if (call->kind == DT_FOR_LAUNCH) return dtrun_launch(call, launched);
    if (call->local_servers > 0) return dtrun_local_servers(call, launched);
    if (call->kind == DT_FOR_EXPORT) return dtrun_export(call);
    if (call->kind == DT_FOR_REPORT) return dtrun_report(call);
    if (call->kind == DT_FOR_KEYS) return dtrun_keys(call);
    return run_program(call, program);
}

/* The command line of the role that this process has in `ps`, in an arena of its own. */
static dt_status *find_role(const dtrun_call *call, const char *program, dt_arena **arena, dtrun_words *words) {
    jmp_buf guard;
    *arena = dt_arena_create();
    if (*arena == NULL || setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_arena_guard(*arena, &guard);
    dt_status *status = dtrun_find_role(call, program, *arena, words);
    dt_list_push(*arena, words, NULL);
    dt_arena_guard(*arena, NULL);
    return status;
}

/* `ps` becomes the command of its role; returns an exit status. `arena` is to live as long as the call. */
static int take_role(dtrun_call *call, const char *program, dt_arena **arena) {
    const dt_run_options *run = &call->run;
    dtrun_call role = {.run = {.stop = run->stop, .was_stopped = run->was_stopped, .catch_signals = run->catch_signals, .made = run->made}};
    dtrun_words words = {0};
    dt_status *status = find_role(call, program, arena, &words);
    say(call, status);
    dtrun_call_free(call);
    *call = role;
    if (status == NULL) return dtrun_parse((int)words.n - 1, (char **)(uintptr_t)words.items, call);
    dt_status_free(status);
    return 1;
}

int main(int argc, char **argv) {
    bool was_stopped = false;
    dt_arena *words = NULL; /* of the role in `ps` */
    int launched = 0;       /* how the processes of `launch` ended */
    dtrun_program program = {0};
    dtrun_call call = {.run = {.stop = &stop, .was_stopped = &was_stopped, .catch_signals = catch_signals, .made = print_bytes}};
    fill_closed_streams();
    on_exit(check_output, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of writing */
    signal(SIGCHLD, SIG_DFL); /* whoever ignored it would hide how the processes that this one starts have ended */
    int code = dtrun_parse(argc, argv, &call);
    if (code == 0 && call.kind == DT_FOR_PS) code = take_role(&call, argv[0], &words);
    if (code == 0) {
        dt_status *status = open_processes(&call);
        if (status == NULL) status = run_command(&call, &program, &launched);
        if (status == NULL) status = dt_processes_finish(call.run.processes);
        say(&call, status);
        code = launched != 0 ? launched : exit_status(&call, status);
        dt_status_free(status);
        fflush(stdout);
        keep_last_state(&call, code);
        dt_processes_close(call.run.processes, code);
        dtrun_close_program(&program);
        dt_state_file_close(&state_file);
    }
    dtrun_call_free(&call);
    dt_arena_destroy(words);
    return code;
}
