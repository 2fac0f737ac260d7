/* dtrun_options: the command line. Each option is a row (runtime/options.h) that says which commands take it: those of a run are there, those of
 * commands alone here. glibc's argp does the rest. */
#include "abi/precision.h"
#include "abi/version.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/commands/dtrun.h"
#include "runtime/ps/team.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "PROGRAM", "which program? A .dtx or a .dt"

static const struct {
    const char *name;
    dt_option_takers kind;
    const char *argument, *missing; /* what is said where it is missing */
    const char *line, *about;
} commands[] = {
    {"train", DT_FOR_TRAIN, PROGRAM, "train a program's step on its data",
     "Trains step `train` of PROGRAM (a .dtx, or a .dt, which is compiled first) on its data, and runs `evaluate`, and steps that say so, after "
     "epochs.\v"
     "Without flags: one replica on one device, all cores. Replicas are shards of the global batch; their number, not that of the devices, is what "
     "results depend on. --devices cuda is all GPUs, cuda:0,3 are these, for what dtc compile --target cuda wrote.\n\nSIGINT, SIGTERM and SIGHUP "
     "finish the step, write a checkpoint and end with 128 + their number as exit status; a second SIGINT or SIGTERM ends at once. A standard output "
     "that can no longer be written ends a training in the same way, with exit status 1.\n\n"
     "  dtrun train fashion.dtx --data /usr/share/datasets/fashion-mnist --epochs 5 --replicas 2 --devices cpu:2 --checkpoint-dir ck"},
    {"evaluate", DT_FOR_EVALUATE, PROGRAM, "run a step that reports, with trained weights",
     "Runs step `evaluate` of PROGRAM once over its data, with the weights of the newest checkpoint or of a file.\v"
     "  dtrun evaluate fashion.dtx --data /usr/share/datasets/fashion-mnist --checkpoint-dir ck"},
    {"predict", DT_FOR_PREDICT, PROGRAM, "run a step that returns results, over its data or over arrays of your own",
     "Runs step `predict` of PROGRAM over its data, or with --input over arrays, and writes one .npy for each result that the step names.\v"
     "A result with a row for each example (f32[B, 10]) has one for each of the input. One without depends on all examples of a batch, as a mean "
     "over B does, or on none, as a parameter: the first kind wants the input in one batch (--global-batch).\n\n"
     "  dtrun predict fashion.dtx --input images.npy --output out --checkpoint-dir ck"},
    {"generate", DT_FOR_GENERATE, PROGRAM, "text, from a step that says what comes next",
     "Writes a prompt and what step `sample` of PROGRAM makes of it, byte by byte, as it is made.\v"
     "The step takes (text: u8[B, T], length: i32[B]), the last bytes of the text so far in a window of T, and how many they are; and, where it "
     "wants one, a temperature: f32[B]. It returns the next byte, u8[B]. Random numbers are those of --seed: the same call writes the same text.\n\n"
     "  dtrun generate gpt.dtx --prompt \"In the\" --seed 1 --length 200 --checkpoint-dir ck"},
    {"data", DT_FOR_DATA, PROGRAM, "what a step would see, as arrays",
     "Reads the data of step `train` of PROGRAM and writes what the step would see: for each of its inputs one INPUT.npy with the rows of all "
     "batches, one after the other, and batch-rows.npy with the number of rows of each batch.\v"
     "The batches are those of `dtrun train` with the same --seed, --replicas and --global-batch: in the same order, with the same random numbers, "
     "and a short one at the end of an epoch. In NumPy: numpy.split(array, numpy.cumsum(batch_rows)[:-1]).\n\n"
     "  dtrun data fashion.dtx --data /usr/share/datasets/fashion-mnist --step train --batches 10 -o batches"},
    {"bench", DT_FOR_BENCH, PROGRAM, "where the time of a step goes, kernel by kernel",
     "Runs a step of PROGRAM over and over, on made-up input or on its data, and says for each kernel where in the program it comes from, its time, "
     "its share of the step, its GFLOP/s and GB/s, and how much that is of what one core of this machine was measured to do.\v"
     "Times are medians over steps; those of kernels are all calls of a step together, on all cores. On a GPU (--devices cuda:0) each step is run "
     "twice: as it is, and for the kernels' times one by one, where a short one shows the gap before the next. GB/s counts each buffer once that the "
     "kernel must read and once that it must write. `Of peak` is the nearest of three limits: arithmetic, copying in memory, and, for what moves "
     "faster than memory can, copying in the second-level cache. Made-up input is floats from 0 to 1, whole numbers from 0 to 9, and bytes of any "
     "value for images of bytes.\n\n"
     "  dtrun bench fashion.dtx --replicas 2 --devices cpu:2\n"
     "  dtrun bench fashion.dtx --vs other.dtx --steps 50 --json"},
    {"info", DT_FOR_INFO, PROGRAM, "what an artifact holds, what processes exchange",
     "Prints what PROGRAM holds: variables, steps, data, code, memory. With --processes, what crosses between so many instead.\v"
     "Of each exchange of a step: by which algorithm, in how many rounds, and what the process sends that sends most: bytes, how many times the "
     "whole that is, and messages. Halving takes more rounds of fewer messages; it needs as many microbatches in each process, a power of two. With "
     "--shards-over also where in the program shards are combined, and what each place costs.\n\n"
     "  dtrun info fashion.dtx --processes 6 --replicas 24"},
    {"export", DT_FOR_EXPORT, "WEIGHTS", "which weights? A checkpoint, or a .safetensors file",
     "write weights under the names, and in the shapes, that others know",
     "Writes the parameters and states of WEIGHTS, a checkpoint or a .safetensors file, as a .safetensors file for elsewhere. A map of names is the "
     "one that loads weights from there (--init, --map), applied backwards: docs/weights.md describes it. Without one, names and shapes stay.\v"
     "  dtrun export ck/step-469 --map names.txt -o theirs.safetensors"},
    {"report", DT_FOR_REPORT, "LOGDIR...", "which runs? Folders that `dtrun train --log-dir` has written",
     "a page of one or several runs: curves, time, memory, pictures",
     "Makes one HTML page of what `dtrun train --log-dir` has written, of one run or of several laid over each other: loss, other reports and "
     "throughput over steps, where time and memory go, kernels by layer, pictures that the program makes, what the run was.\v"
     "The page needs nothing else, no network either. A run that still goes on can be looked at.\n\n"
     "  dtrun report logs/a logs/b -o report.html"},
    {"ps", DT_FOR_PS, PROGRAM, "train with parameter servers, started by srun, mpirun or Kubernetes",
     "Started several times by a launcher, with one command line for all: the first processes are parameter servers, the others workers.\v"
     "The launcher says which process this is and where the servers are. Server 0 prints, and writes checkpoints. Launchers end all when one dies, "
     "unless they are told not to (srun --no-kill, mpirun --enable-recovery of Open MPI, -disable-auto-cleanup of MPICH): then the training goes on. "
     "docs/distributed.md has a table.\n\n"
     "  srun --no-kill -N 4 -n 8 dtrun ps --servers 2 --keys keys fashion.dtx --replicas 6 --epochs 5 --checkpoint-dir ck --data data"},
    {"ps-server", DT_FOR_SERVER, PROGRAM, "a parameter server: it keeps and updates what workers train",
     "Keeps a share of what PROGRAM trains, adds up the gradients that workers send, and updates its share. Server 0 writes checkpoints and says how "
     "it goes.\v"
     "Start one for each part, with the same options, and `dtrun ps-worker` as often as there are machines, in any order, at any time: a worker may "
     "come, go or die, and so may a server that is started again. The bytes of results are those of `dtrun train` with these --replicas, however "
     "many workers and servers there are. Parts other than 0 need --servers too. docs/distributed.md describes it.\n\n"
     "  dtrun ps-server fashion.dtx --listen tcp://*:7000 --replicas 4 --epochs 5 --checkpoint-dir ck --data /usr/share/datasets/fashion-mnist"},
    {"ps-worker", DT_FOR_WORKER, PROGRAM, "a worker of parameter servers: it computes gradients",
     "Computes gradients of PROGRAM for parameter servers, for as long as they train. What is trained, and how, the servers say.\v"
     "SIGINT and SIGTERM make it leave when its step is done, with 128 + their number as exit status; the others go on.\n\n"
     "  dtrun ps-worker fashion.dtx --servers host:7000 --data /usr/share/datasets/fashion-mnist"},
    {"launch", DT_FOR_LAUNCH, "COMMAND ...", "which command? train, evaluate or predict, and what it takes",
     "run a command in several processes, watched, and again when it fails",
     "Runs COMMAND (train, evaluate or predict, and what it takes) in several processes with mpirun and watches them.\vWhen a process dies, stops or "
     "no longer gets on, all end, and an error says which one it was, where, and what it did last; no process is left on this machine. Each keeps "
     "its state in a file of its machine, in the folder that DT_STATE_DIR names, which this command sets, and has a parent process that says what "
     "ended it.\n\n"
     "SIGINT, SIGTERM, SIGHUP and SIGUSR1 make all processes finish the step, write a checkpoint and end with 75 as exit status; a second signal "
     "ends them at once. A run that failed is started again, at most --restarts times: without those machines of --hosts or --hostfile that cannot "
     "be reached any more, or have failed twice in a row.\n\n"
     "  dtrun launch -n 4 --restarts 2 train fashion.dtx --replicas 8 --data /usr/share/datasets/fashion-mnist --checkpoint-dir ck\n"
     "  dtrun launch --hosts node1:2,node2:2 --restarts 2 train fashion.dtx --replicas 8 --data /shared/data --checkpoint-dir /shared/ck\n"
     "  dtrun launch -n 4 --mpirun-options \"--oversubscribe --bind-to none\" evaluate fashion.dtx --replicas 8 --checkpoint-dir ck"},
    {"keys", DT_FOR_KEYS, "FOLDER", "where to? A folder, which is made where it is not there",
     "keys, with which parameter servers and workers find one another and encrypt",
     "Makes two pairs of keys in FOLDER, one for the servers of a run, one for its workers. Secret keys only you can read. Files that are there are "
     "not overwritten.\v"
     "Servers need server.secret, server.public and allowed; workers need worker.secret, worker.public and server.public, and nothing else should "
     "get to their machines. `allowed` is a list of the workers' public keys, one a line: other workers may have pairs of their own.\n\n"
     "  dtrun keys keys"},
    {"devices", DT_FOR_DEVICES, "", NULL, "the devices of this machine", "Prints what --devices can name on this machine."},
};
enum {
    TIMELINE_STEPS = 100, /* where nobody says another number */
    N_COMMANDS = sizeof commands / sizeof *commands,
    FIRST_KEY = 256 /* of argp's for a row without a letter: this, and its number */
};

/* ---- the rows ---- */

static dt_status *read_define(const dt_option *option, void *call, const char *text) {
    if (strchr(text, '=') == NULL) return dt_error(DT_INVALID_ARGUMENT, "-D takes NAME=VALUE, not %s", text);
    return dt_option_read(option, call, text);
}

static dt_status *read_precision(const dt_option *option, void *call, const char *text) {
    if (!dt_is_precision_option(text)) return dt_error(DT_INVALID_ARGUMENT, "--precision takes " DT_PRECISION_CHOICES ", not \"%s\"", text);
    return dt_option_read(option, call, text);
}

static dt_status *read_n_processes(const dt_option *option, void *call, const char *text) {
    DT_TRY(dt_option_read(option, call, text));
    if (((dtrun_call *)call)->n_processes <= INT_MAX) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--processes %s: that many processes cannot be", text);
}

/* "1/2" */
static dt_status *read_part(const dt_option *option, void *context, const char *text) {
    dtrun_call *call = context;
    char rest;
    bool fits = sscanf(text, "%d/%d%c", &call->part, &call->n_servers, &rest) == 2 && call->part >= 0 && call->part < call->n_servers;
    if (!fits) return dt_error(DT_INVALID_ARGUMENT, "--%s takes s/S, server s of S, counted from 0: 0/2, not %s", option->name, text);
    if (call->n_servers <= DT_PS_MOST_SERVERS) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--%s takes at most %d servers, not %s", option->name, DT_PS_MOST_SERVERS, text);
}

/* How many, or their machines. */
static dt_status *read_servers(const dt_option *option, void *call, const char *text) {
    if (text[strspn(text, "0123456789")] == 0) return dt_option_read(option, call, text);
    ((dtrun_call *)call)->servers = text;
    return NULL;
}

static dt_status *read_job(const dt_option *option, void *call, const char *text) {
    if (strlen(text) > sizeof((dt_ps_job *)NULL)->name - 1)
        return dt_error(DT_INVALID_ARGUMENT, "--job takes a name of 1 to 64 characters, not %s", text);
    for (const char *c = text; *c != 0; c++)
        if (strchr("/_.-", *c) == NULL && !isalnum((unsigned char)*c))
            return dt_error(DT_INVALID_ARGUMENT, "--job takes letters, digits and /_.-, not %s", text);
    return dt_option_read(option, call, text);
}

#define DT_ROWS_OF dtrun_call
#include "runtime/option_rows.h" /* whose words messages of parameter servers have too */

static const dt_option own_rows[] = {
    {DT_FOR_BENCH, "steps", "N", 1, "How many steps to measure, after a warm-up of three (default: 20)", WHOLE(n_steps, 1), DEFAULT(20)},
    {DT_FOR_BENCH, "vs", "PROGRAM", 1, "Run another program too, the two in turn, and say how their times compare", PATH(versus)},
    {DT_FOR_BENCH, "svg", "FILE", 1,
     "Draw where time goes within kernels as a flame graph, of a program that dtc compile --profile has made, which measures itself", PATH(svg)},
    {DT_FOR_BENCH, "json", NULL, 4, "One JSON object instead of a table; times in seconds", FLAG(json)},
    {DT_FOR_READS, "log-format", "text|json", 4, "Lines for people, or one JSON object a line (default: text)", CHOICE(logs_json)},
    {DT_FOR_TRAINS | DT_FOR_EVALUATE, "timeline", "FILE", 4,
     "When the run has ended, write what each thread of all processes did, and when: a trace that ui.perfetto.dev and chrome://tracing open",
     PATH(timeline)},
    {DT_FOR_PROGRAM, "define", "NAME=VALUE", 5, "An option of the program, where PROGRAM is a .dt", LIST(defines, n_defines), .letter = 'D',
     .read = read_define},
    {DT_FOR_PROGRAM, "precision", "TYPE", 5,
     "Precision of what is computed, where PROGRAM is a .dt: " DT_PRECISION_CHOICES " (default: what it says)", TEXT(precision),
     .read = read_precision},
    {DT_FOR_CODE, "level", "LEVEL", 5, "Use the code for this instruction-set level (default: the best that runs here)", TEXT(level)},
    {DT_FOR_CODE, "cpu", NULL, 5, NULL, .kind = DT_OPTION_ALIAS},
    {DT_FOR_CODE, "perf-map", NULL, 5, "Name the kernels for perf(1), in /tmp/perf-PID.map", FLAG(perf_map)},
    {DT_FOR_TRAIN, "local-servers", "S", 2,
     "Train with S parameter servers and --workers workers on this machine, which it starts, and again when one has died",
     COUNT(local_servers, DT_PS_MOST_SERVERS)},
    {DT_FOR_TRAIN, "workers", "W", 2, "With --local-servers: how many workers (default: 1)", COUNT(workers, DT_PS_MOST_WORKERS)},
    {DT_FOR_TRAINS, "staleness", "N", 2,
     "With parameter servers: how many updates the variables that a worker computes on may lie behind when its gradients are applied (default: any "
     "number). 0: all workers compute the same step together, with the bits of one process",
     WHOLE(staleness, 0), DEFAULT(-1)},
    {DT_FOR_SERVER, "listen", "ADDRESS", 1, "Where workers and other servers find this one: tcp://*:7000", TEXT(listen)},
    {DT_FOR_SERVER, "part", "s/S", 1, "Which server this is, from 0, and how many there are (default: 0/1)", .read = read_part},
    {DT_FOR_SERVED, "workers", "W", 1,
     "With --staleness 0: how many workers to wait for before the training begins (default: 1; of ps: those that were started). Else each begins "
     "when it comes",
     COUNT(workers, DT_PS_MOST_WORKERS)},
    {DT_FOR_PS, "servers", "S|LIST", 1,
     "How many of the processes are servers, the first ones; or their machines, in order, where the launcher does not tell: host0,host1",
     COUNT(n_servers, DT_PS_MOST_SERVERS), .read = read_servers},
    {DT_FOR_PS, "port", "N", 1, "The port of server 0; server s has the s-th after it (default: 7077)", COUNT(port, UINT16_MAX - DT_PS_MOST_SERVERS)},
    {DT_FOR_SERVER | DT_FOR_WORKER, "servers", "LIST", 1, "Where all servers are, in order: host:7000,host:7001. Of the only server not needed",
     TEXT(servers)},
    {DT_FOR_SERVED | DT_FOR_WORKER, "job", "NAME", 1,
     "What the training is called: a server or worker of another one is an error (default: server 0 makes a name, which the others have from it)",
     TEXT(job), .read = read_job},
    {DT_FOR_SERVED | DT_FOR_WORKER, "keys", "FOLDER", 1,
     "Encrypt, and let only those connect whose key is allowed: what `dtrun keys` has made (default: within this machine)", PATH(keys)},
    {DT_FOR_SERVED | DT_FOR_WORKER, "insecure", NULL, 1, "Go without keys beyond this machine too: whoever reaches a port may join", FLAG(insecure)},
    {DT_FOR_SERVER | DT_FOR_WORKER, "local", NULL, 1, NULL, FLAG(is_local)},
    {DT_FOR_LAUNCH, "processes", "N", 1, "How many processes (default: 1, or as many as the machines may have)", WHOLE(n_processes, 1), .letter = 'n',
     .read = read_n_processes},
    {DT_FOR_LAUNCH, "hosts", "LIST", 1, "The machines, and how many processes each may have: node1:2,node2:2 (default: this one)", TEXT(hosts)},
    {DT_FOR_LAUNCH, "hostfile", "FILE", 1, "A file of them, a machine a line: node1 slots=2, or node1:2", PATH(hostfile)},
    {DT_FOR_LAUNCH, "restarts", "R", 1, "How often to start again after a failure, with --resume where there is a --checkpoint-dir (default: 0)",
     WHOLE(restarts, 0)},
    {DT_FOR_LAUNCH, "mpirun", "PROGRAM", 1, "The launcher (default: mpirun)", PATH(mpirun)},
    {DT_FOR_LAUNCH, "mpirun-options", "OPTIONS", 1, "What it is told beside -n N, split at blanks", TEXT(mpirun_options)},
    {DT_FOR_INFO, "text", "NAME", 1, "Print a text of the artifact instead: program.dt, program.ir, plan.txt", TEXT(text)},
    {DT_FOR_INFO, "processes", "P", 2, "Print what crosses between P processes, and what it costs, instead", WHOLE(n_processes, 1)},
};
enum {
    N_OWN = sizeof own_rows / sizeof *own_rows
};

static int n_rows(void) { return dt_n_run_options + N_OWN; }
static bool is_of_run(int row) { return row < dt_n_run_options; }
static const dt_option *row_at(int row) { return is_of_run(row) ? &dt_run_option_rows[row] : &own_rows[row - dt_n_run_options]; }

/* ---- commands ---- */

void dtrun_print_usage(FILE *to) {
    fprintf(to, "Usage: dtrun COMMAND [OPTION...] PROGRAM\n\nRuns compiled programs.\n\n");
    for (int i = 0; i < N_COMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].line);
    fprintf(to, "\n`dtrun COMMAND --help` says what a command takes. PROGRAM is a .dtx, or a .dt, which is compiled first.\n");
}

/* Finds the command of argv[1]; -1 after a message. */
static int find_command(const char *name) {
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, names[i]) == 0) return i;
    }
    const char *nearest = dt_text_nearest(name, names, N_COMMANDS);
    fprintf(stderr, "dtrun: there is no command %s%s%s%s\n", name, nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "?" : "");
    dtrun_print_usage(stderr);
    return -1;
}

/* ---- reading ---- */

static dt_status *set(dtrun_call *call, int row, const char *text) {
    const dt_option *option = row_at(row);
    void *options = is_of_run(row) ? (void *)&call->run : call;
    return option->read != NULL ? option->read(option, options, text) : dt_option_read(option, options, text);
}

/* `train` hands its options to the servers and workers that it starts: one that neither takes would be lost. */
static void refuse_without_servers(const dtrun_call *call, struct argp_state *state) {
    for (int i = 0; i < call->n_given; i++) {
        const dt_option *option = row_at(call->given[i].row);
        bool is_own = strcmp(option->name, "local-servers") == 0 || strcmp(option->name, "workers") == 0;
        if (!(option->takes & (DT_FOR_SERVER | DT_FOR_WORKER)) && !is_own) argp_error(state, "--%s does not go with --local-servers", option->name);
    }
}

static void fill_timeline(dtrun_call *call) {
    if (call->timeline != NULL && call->run.timeline_steps == 0) call->run.timeline_steps = TIMELINE_STEPS;
}

/* All that `dtrun info` takes of a run is of several processes. */
static void refuse_without_processes(const dtrun_call *call, struct argp_state *state) {
    for (int i = 0; i < call->n_given; i++)
        if (is_of_run(call->given[i].row)) argp_error(state, "--%s needs --processes: of how many?", row_at(call->given[i].row)->name);
}

/* What only makes sense beside something else, once all is known. */
static void check_together(dtrun_call *call, struct argp_state *state) {
    dt_run_options *run = &call->run;
    bool is_given = call->kind == DT_FOR_LAUNCH ? call->n_words > 0 : call->kind == DT_FOR_REPORT ? run->n_inputs > 0 : call->program != NULL;
    if (!is_given && call->kind != DT_FOR_DEVICES) argp_error(state, "%s", commands[find_command(call->command)].missing);
    if (call->hosts != NULL && call->hostfile != NULL) argp_error(state, "--hosts or --hostfile, not both");
    if (call->kind == DT_FOR_EXPORT && run->output == NULL) argp_error(state, "where to? Name a .safetensors file with --output");
    if (call->kind == DT_FOR_REPORT && run->output == NULL) run->output = "report.html";
    if (!(call->kind & DT_FOR_PROGRAM)) return;
    if (call->kind == DT_FOR_GENERATE && run->prompt == NULL) argp_error(state, "how does the text begin? --prompt TEXT");
    if (call->kind == DT_FOR_SERVER && call->listen == NULL) argp_error(state, "where do workers find it? --listen tcp://*:7000");
    if (call->kind == DT_FOR_WORKER && call->servers == NULL) argp_error(state, "where are the servers? --servers host:7000");
    if (call->kind == DT_FOR_PS && call->n_servers == 0 && call->servers == NULL) argp_error(state, "how many are servers? --servers 1");
    if (call->part > 0 && call->servers == NULL) argp_error(state, "where are the other servers? --servers host:7000,host:7001");
    if (call->workers > 0 && call->local_servers == 0 && call->kind == DT_FOR_TRAIN) argp_error(state, "--workers needs --local-servers");
    if (call->staleness >= 0 && call->local_servers == 0 && call->kind == DT_FOR_TRAIN)
        argp_error(state, "--staleness needs --local-servers, or belongs to dtrun ps-server");
    if (call->local_servers > 0) refuse_without_servers(call, state);
    bool goes_on = run->resume && !call->is_local; /* whoever starts such a process again knows why */
    bool wants_folder = goes_on || run->checkpoint_every > 0 || run->keep > 0 || run->keep_best != NULL;
    if (wants_folder && run->checkpoint_dir == NULL) argp_error(state, "--resume, --checkpoint-every, --keep and --keep-best need --checkpoint-dir");
    if ((run->map != NULL || run->allow_missing) && run->init == NULL) argp_error(state, "--map and --allow-missing need --init");
    if (run->log_histograms > 0 && run->log_dir == NULL) argp_error(state, "--log-histograms needs --log-dir");
    if (run->timeline_steps > 0 && call->timeline == NULL) argp_error(state, "--timeline-steps needs --timeline");
    fill_timeline(call);
    if (call->kind == DT_FOR_INFO && call->n_processes == 0) refuse_without_processes(call, state);
    if (call->text != NULL && call->n_processes > 0) argp_error(state, "--text or --processes, not both: each prints something else");
    if (run->n_inputs > 0 && run->from != NULL) argp_error(state, "--input or --from, not both: each says where the examples come from");
}

/* In the order of the table, so that the same options make the same text. */
void dtrun_list_given(const dtrun_call *call, dt_option_takers takers, dt_arena *arena, dtrun_words *words) {
    for (int r = 0; r < n_rows(); r++)
        for (int i = 0; i < call->n_given; i++) {
            const dt_option *option = row_at(r);
            bool is_for = takers != 0 ? (option->takes & takers) != 0 : dt_option_is_told(option);
            if (call->given[i].row != r || !is_for) continue;
            const char *text = call->given[i].text;
            dt_list_push(arena, words,
                         text != NULL ? dt_arena_format(arena, "--%s=%s", option->name, text) : dt_arena_format(arena, "--%s", option->name));
        }
}

/* A line that dtrun_list_given has written for a run. */
static dt_status *take_told(dtrun_call *call, char *line) {
    char *text = strchr(line, '=');
    if (text != NULL) *text++ = 0;
    for (int r = 0; r < n_rows(); r++)
        if (dt_option_is_told(row_at(r)) && strncmp(line, "--", 2) == 0 && strcmp(line + 2, row_at(r)->name) == 0 &&
            (text != NULL) == (row_at(r)->argument != NULL))
            return set(call, r, text);
    return dt_error(DT_FAILED_PRECONDITION, "the servers' options are not understood here: %s", line);
}

dt_status *dtrun_take_settings(dtrun_call *call, char *settings) {
    for (char *line; (line = strsep(&settings, "\n")) != NULL;)
        if (*line != 0) DT_TRY(take_told(call, line));
    fill_timeline(call);
    return NULL;
}

static void take(dtrun_call *call, int row, const char *text, struct argp_state *state) {
    dt_status *status = set(call, row, text);
    if (status != NULL) argp_error(state, "%s", dt_status_message(status));
    dt_status_free(status);
}

static int key_of(int row) { return row_at(row)->letter != 0 ? row_at(row)->letter : FIRST_KEY + row; }

static void take_argument(dtrun_call *call, char *text, struct argp_state *state) {
    if (*text == 0) argp_error(state, "PROGRAM is empty");
    if (call->kind == DT_FOR_LAUNCH) {
        call->words = &state->argv[state->next - 1];
        call->n_words = state->argc - state->next + 1;
        state->next = state->argc;
        return;
    }
    if (call->kind == DT_FOR_REPORT) {
        int row = 0;
        while (strcmp(row_at(row)->name, "input") != 0) row++;
        take(call, row, text, state);
        return;
    }
    if (call->kind == DT_FOR_DEVICES) argp_error(state, "takes no program: %s", text);
    if (call->program != NULL) argp_error(state, "one at a time: %s and %s", call->program, text);
    call->program = text;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    dtrun_call *call = state->input;
    if (key == ARGP_KEY_END) check_together(call, state);
    if (key == ARGP_KEY_ARG) take_argument(call, text, state);
    if (key == ARGP_KEY_END || key == ARGP_KEY_ARG) return 0;
    int row = 0;
    while (row < n_rows() && (key_of(row) != key || !(row_at(row)->takes & call->kind))) row++;
    if (row == n_rows()) return ARGP_ERR_UNKNOWN;
    call->given[call->n_given++] = (dtrun_given){row, text};
    if (text != NULL && *text == 0)
        argp_error(state, "--%s is empty", row_at(row)->name);
    else
        take(call, row, text, state);
    return 0;
}

bool dtrun_runs(const dtrun_call *call) { return (call->kind & (DT_FOR_STEPS | DT_FOR_WORKER)) != 0; }

double dtrun_deadline(const dtrun_call *call) {
    static const double DEFAULT_SECONDS = 60;
    return call->run.deadline_seconds > 0 ? call->run.deadline_seconds : DEFAULT_SECONDS;
}

static void set_defaults(dtrun_call *call) {
    call->run.data = call->kind == DT_FOR_BENCH ? NULL : ".";
    call->run.log_every = 100;
    dt_options_set_defaults(dt_run_option_rows, dt_n_run_options, &call->run);
    dt_options_set_defaults(own_rows, N_OWN, call);
}

/* For argp, and how many: options [n_rows() + 1], the last one of zeros. */
static int list_options(dt_option_takers command, struct argp_option *options) {
    int n = 0;
    for (int r = 0; r < n_rows(); r++) {
        const dt_option *row = row_at(r);
        bool is_alias = row->kind == DT_OPTION_ALIAS;
        if (row->takes & command)
            options[n++] = (struct argp_option){.name = row->name,
                                                .key = is_alias ? 0 : key_of(r),
                                                .arg = row->argument,
                                                .flags = is_alias            ? OPTION_ALIAS
                                                         : row->help == NULL ? OPTION_HIDDEN
                                                                             : 0,
                                                .doc = row->help,
                                                .group = row->group};
    }
    options[n] = (struct argp_option){0};
    return n;
}

int dtrun_parse(int argc, char **argv, dtrun_call *call) {
    if (argc < 2) {
        dtrun_print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 || strcmp(argv[1], "help") == 0) {
        dtrun_print_usage(stdout);
        exit(0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("dtrun " DT_VERSION);
        exit(0);
    }
    int command = find_command(argv[1]);
    if (command < 0) return 2;
    call->command = commands[command].name;
    call->kind = commands[command].kind;
    set_defaults(call);
    call->given = dt_allocate_zeroed((size_t)argc, sizeof *call->given);
    if (call->given == NULL) {
        fprintf(stderr, "dtrun: error: out of memory\n");
        return 2;
    }
    struct argp_option options[dt_n_run_options + N_OWN + 1];
    int n = list_options(call->kind, options);
    struct argp argp = {.options = n > 0 ? options : NULL, /* of none, argp loses memory */
                        .parser = parse,
                        .args_doc = commands[command].argument,
                        .doc = commands[command].about};
    char name[32];
    snprintf(name, sizeof name, "dtrun %s", call->command);
    argv[1] = name;
    argp_err_exit_status = 2;
    return dt_arguments_parse(&argp, argc - 1, argv + 1, call->kind == DT_FOR_LAUNCH ? ARGP_IN_ORDER : 0, call) == 0 ? 0 : 2;
}

void dtrun_call_free(dtrun_call *call) {
    dt_release((void *)(uintptr_t)call->run.inputs);
    dt_release((void *)(uintptr_t)call->run.launch_values);
    dt_release((void *)(uintptr_t)call->defines);
    dt_release(call->given);
}
