/* dtrun_options: the command line. Each option is a row that says which commands take it; glibc's argp does the rest. */
#include "abi/precision.h"
#include "abi/version.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/commands/dtrun.h"
#include "runtime/ps/team.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum command {
    TRAIN = 1,
    EVALUATE = 2,
    PREDICT = 4,
    INFO = 8,
    DEVICES = 16,
    BENCH = 32,
    LAUNCH = 64,
    DATA = 128,
    GENERATE = 256,
    EXPORT = 512,
    REPORT = 1024,
    KEYS = 2048,
    PS_SERVER = 4096,
    PS_WORKER = 8192,
    PS = 16384,
    SERVED = PS_SERVER | PS,
    TRAINS = TRAIN | SERVED, /* what a training is said to */
    RUNS = TRAINS | EVALUATE | PREDICT,
    STEPS = RUNS | BENCH,                   /* what runs steps of a program over examples */
    COMPUTES = STEPS | GENERATE,            /* on devices */
    READS = RUNS | DATA,                    /* files of data */
    HAS_CODE = COMPUTES | DATA | PS_WORKER, /* runs code of the program, if only to make examples */
    ANY = HAS_CODE | INFO
};

static const struct {
    const char *name;
    enum command command;
    const char *line, *about;
} commands[] = {
    {"train", TRAIN, "train a program's step on its data",
     "Trains step `train` of PROGRAM (a .dtx, or a .dt, which is compiled first) on its data, and runs `evaluate`, and steps that say so, after "
     "epochs.\v"
     "Without flags: one replica on one device, all cores. Replicas are shards of the global batch; their number, not that of the devices, is "
     "what "
     "results depend on. --devices cuda is all GPUs, cuda:0,3 are these, for what dtc compile --target cuda wrote.\n\nSIGINT, SIGTERM and SIGHUP "
     "finish the step, write a "
     "checkpoint and end with 128 + their number as exit status; a second SIGINT or SIGTERM ends at once. A standard output "
     "that can no longer be written ends a training in the same way, with exit status 1.\n\n"
     "  dtrun train fashion.dtx --data /usr/share/datasets/fashion-mnist --epochs 5 --replicas 2 --devices cpu:2 --checkpoint-dir ck"},
    {"evaluate", EVALUATE, "run a step that reports, with trained weights",
     "Runs step `evaluate` of PROGRAM once over its data, with the weights of the newest checkpoint or of a file.\v"
     "  dtrun evaluate fashion.dtx --data /usr/share/datasets/fashion-mnist --checkpoint-dir ck"},
    {"predict", PREDICT, "run a step that returns results, over its data or over arrays of your own",
     "Runs step `predict` of PROGRAM over its data, or with --input over arrays, and writes one .npy for each result that the step names.\v"
     "A result with a row for each example (f32[B, 10]) has one for each of the input. One without depends on all examples of a batch, as a mean "
     "over "
     "B does, or on none, as a parameter: the first kind wants the input in one batch (--global-batch).\n\n"
     "  dtrun predict fashion.dtx --input images.npy --output out --checkpoint-dir ck"},
    {"generate", GENERATE, "text, from a step that says what comes next",
     "Writes a prompt and what step `sample` of PROGRAM makes of it, byte by byte, as it is made.\v"
     "The step takes (text: u8[B, T], length: i32[B]), the last bytes of the text so far in a window of T, and how many they are; and, where it "
     "wants one, a temperature: f32[B]. It returns the next byte, u8[B]. Random numbers are those of --seed: the same call writes the same text.\n\n"
     "  dtrun generate gpt.dtx --prompt \"In the\" --seed 1 --length 200 --checkpoint-dir ck"},
    {"data", DATA, "what a step would see, as arrays",
     "Reads the data of step `train` of PROGRAM and writes what the step would see: for each of its inputs one INPUT.npy with the rows of "
     "all batches, one after the other, and batch-rows.npy with the number of rows of each batch.\v"
     "The batches are those of `dtrun train` with the same --seed, --replicas and --global-batch: in the same order, with the same random "
     "numbers, and a short one at the end of an epoch. In NumPy: numpy.split(array, numpy.cumsum(batch_rows)[:-1]).\n\n"
     "  dtrun data fashion.dtx --data /usr/share/datasets/fashion-mnist --step train --batches 10 -o batches"},
    {"bench", BENCH, "where the time of a step goes, kernel by kernel",
     "Runs a step of PROGRAM over and over, on made-up input or on its data, and says for each kernel where in the program it comes from, its time, "
     "its share of the step, its GFLOP/s and GB/s, and how much that is of what one core of this machine was measured to do.\v"
     "Times are medians over steps; those of kernels are all calls of a step together, on all cores. On a GPU (--devices cuda:0) each step is run "
     "twice: as it "
     "is, and for the kernels' times one by one, where a short one shows the gap before the next. GB/s counts each buffer once that the kernel "
     "must read and once that it must write. `Of peak` is the nearest of three limits: arithmetic, copying in memory, and, for what moves faster "
     "than memory can, copying in the second-level cache. Made-up input is "
     "floats from 0 to 1, whole numbers from 0 to 9, and bytes of any value for images of bytes.\n\n"
     "  dtrun bench fashion.dtx --replicas 2 --devices cpu:2\n"
     "  dtrun bench fashion.dtx --vs other.dtx --steps 50 --json"},
    {"info", INFO, "what an artifact holds, what processes exchange",
     "Prints what PROGRAM holds: variables, steps, data, code, memory. With --processes, what crosses between so many instead.\v"
     "Of each exchange of a step: by which algorithm, in how many rounds, and what the process sends that sends most: bytes, how many times the "
     "whole "
     "that is, and messages. Halving takes more rounds of fewer messages; it needs as many microbatches in each process, a power of two.\n\n"
     "  dtrun info fashion.dtx --processes 6 --replicas 24"},
    {"export", EXPORT, "write weights under the names, and in the shapes, that others know",
     "Writes the parameters and states of WEIGHTS, a checkpoint or a .safetensors file, as a .safetensors file for elsewhere. A map of names is the "
     "one "
     "that loads weights from there (--init, --map), applied backwards: docs/weights.md describes it. Without one, names and shapes stay.\v"
     "  dtrun export ck/step-469 --map names.txt -o theirs.safetensors"},
    {"report", REPORT, "a page of one or several runs: curves, time, memory, pictures",
     "Makes one HTML page of what `dtrun train --log-dir` has written, of one run or of several laid over each other: loss, other reports and "
     "throughput over steps, where time and memory go, kernels by layer, pictures that the program makes, what the run was.\v"
     "The page needs nothing else, no network either. A run that still goes on can be looked at.\n\n"
     "  dtrun report logs/a logs/b -o report.html"},
    {"ps", PS, "train with parameter servers, started by srun, mpirun or Kubernetes",
     "Started several times by a launcher, with one command line for all: the first processes are parameter servers, the others workers.\v"
     "The launcher says which process this is and where the servers are. Server 0 prints, and writes checkpoints. Launchers end all when one dies, "
     "unless "
     "they are told not to (srun --no-kill, mpirun --enable-recovery of Open MPI, -disable-auto-cleanup of MPICH): then the training goes on. "
     "docs/distributed.md has a table.\n\n"
     "  srun --no-kill -N 4 -n 8 dtrun ps --servers 2 --keys keys fashion.dtx --replicas 6 --epochs 5 --checkpoint-dir ck --data data"},
    {"ps-server", PS_SERVER, "a parameter server: it keeps and updates what workers train",
     "Keeps a share of what PROGRAM trains, adds up the gradients that workers send, and updates its share. Server 0 writes checkpoints and says how "
     "it "
     "goes.\v"
     "Start one for each part, with the same options, and `dtrun ps-worker` as often as there are machines, in any order, at any time: a worker may "
     "come, go or die, and so may a server that is started again. The bytes of results are those of `dtrun train` with these --replicas, however "
     "many "
     "workers and servers there are. Parts other than 0 need --servers too. docs/distributed.md describes it.\n\n"
     "  dtrun ps-server fashion.dtx --listen tcp://*:7000 --replicas 4 --epochs 5 --checkpoint-dir ck --data /usr/share/datasets/fashion-mnist"},
    {"ps-worker", PS_WORKER, "a worker of parameter servers: it computes gradients",
     "Computes gradients of PROGRAM for parameter servers, for as long as they train. What is trained, and how, the servers say.\v"
     "SIGINT and SIGTERM make it leave when its step is done, with 128 + their number as exit status; the others go on.\n\n"
     "  dtrun ps-worker fashion.dtx --servers host:7000 --data /usr/share/datasets/fashion-mnist"},
    {"launch", LAUNCH, "run a command in several processes, watched, and again when it fails",
     "Runs COMMAND (train, evaluate or predict, and what it takes) in several processes with mpirun and watches them.\vWhen a process dies, stops or "
     "no "
     "longer gets on, all end, and an error says which one it was, where, and what it did last; no process is left on this machine. Each keeps its "
     "state in a file of its machine, in the folder that DT_STATE_DIR names, which this command sets, and has a parent process that says what ended "
     "it.\n\n"
     "SIGINT, SIGTERM, SIGHUP and SIGUSR1 make all processes finish the step, write a checkpoint and end with 75 as exit status; a second signal "
     "ends "
     "them at once. A run that failed is started again, at most --restarts times: without those machines of --hosts or --hostfile that cannot be "
     "reached any more, or have failed twice in a row.\n\n"
     "  dtrun launch -n 4 --restarts 2 train fashion.dtx --replicas 8 --data /usr/share/datasets/fashion-mnist --checkpoint-dir ck\n"
     "  dtrun launch --hosts node1:2,node2:2 --restarts 2 train fashion.dtx --replicas 8 --data /shared/data --checkpoint-dir /shared/ck\n"
     "  dtrun launch -n 4 --mpirun-options \"--oversubscribe --bind-to none\" evaluate fashion.dtx --replicas 8 --checkpoint-dir ck"},
    {"keys", KEYS, "keys, with which parameter servers and workers find one another and encrypt",
     "Makes two pairs of keys in FOLDER, one for the servers of a run, one for its workers. Secret keys only you can read. Files that are there are "
     "not "
     "overwritten.\v"
     "Servers need server.secret, server.public and allowed; workers need worker.secret, worker.public and server.public, and nothing else should "
     "get to "
     "their machines. `allowed` is a list of the workers' public keys, one a line: other workers may have pairs of their own.\n\n"
     "  dtrun keys keys"},
    {"devices", DEVICES, "the devices of this machine", "Prints what --devices can name on this machine."},
};
enum {
    TIMELINE_STEPS = 100, /* where nobody says another number */
    N_COMMANDS = sizeof commands / sizeof *commands
};

enum key {
    KEY_DATA = 256,
    KEY_DEVICES,
    KEY_LIBRARY,
    KEY_REDUCE,
    KEY_PLACEMENT,
    KEY_SHARD_OPTIMIZER,
    KEY_ROWS,
    KEY_LAZY_ROWS,
    KEY_DEADLINE,
    KEY_REPLICAS,
    KEY_GLOBAL_BATCH,
    KEY_SEED,
    KEY_STEP,
    KEY_FROM,
    KEY_CHECKPOINT_DIR,
    KEY_INIT,
    KEY_MAP,
    KEY_ALLOW_MISSING,
    KEY_CHECK_NUMERICS,
    KEY_SET,
    KEY_REDUCE_ON_PLATEAU,
    KEY_EPOCHS,
    KEY_MAX_STEPS,
    KEY_CHECKPOINT_EVERY,
    KEY_KEEP,
    KEY_KEEP_BEST,
    KEY_STOP_AFTER_NO_GAIN,
    KEY_RESUME,
    KEY_LOG_EVERY,
    KEY_LOG_FORMAT,
    KEY_LOG_DIR,
    KEY_LOG_HISTOGRAMS,
    KEY_BAD_INDEX,
    KEY_NO_DATA_CHECK,
    KEY_INPUT,
    KEY_PROMPT,
    KEY_LENGTH,
    KEY_TEMPERATURE,
    KEY_PNG,
    KEY_BATCHES,
    KEY_EPOCH,
    KEY_LEVEL,
    KEY_PRECISION,
    KEY_PERF_MAP,
    KEY_TIMELINE,
    KEY_TIMELINE_STEPS,
    KEY_STEPS,
    KEY_VERSUS,
    KEY_JSON,
    KEY_TEXT,
    KEY_PROCESSES,
    KEY_RESTARTS,
    KEY_MPIRUN,
    KEY_MPIRUN_OPTIONS,
    KEY_HOSTS,
    KEY_HOSTFILE,
    KEY_LOCAL_SERVERS,
    KEY_WORKERS,
    KEY_STALENESS,
    KEY_LISTEN,
    KEY_PART,
    KEY_SERVERS,
    KEY_JOB,
    KEY_KEYS,
    KEY_INSECURE,
    KEY_LOCAL,
    KEY_HOSTS_OF_SERVERS,
    KEY_PORT
};

/* Groups in the order of --help: what is run, on what, checkpoints, what is said, the rest. */
static const struct {
    enum command takes;
    struct argp_option option;
} rows[] = {
    {READS | PS_WORKER, {"data", KEY_DATA, "FOLDER", 0, "Where the data files are (default: the current folder)", 1}},
    {RUNS, {"step", KEY_STEP, "NAME", 0, "The step to run (default: the command's name)", 1}},
    {DATA, {"step", KEY_STEP, "NAME", 0, "The step whose inputs are written (default: train)", 1}},
    {DATA, {"batches", KEY_BATCHES, "N", 0, "How many, going on into the next epoch (default: those of one epoch)", 1}},
    {DATA, {"epoch", KEY_EPOCH, "N", 0, "The epoch to begin with, from 1 (default: 1)", 1}},
    {BENCH, {"data", KEY_DATA, "FOLDER", 0, "Run on the step's data, with the files of this folder (default: made-up input)", 1}},
    {BENCH, {"step", KEY_STEP, "NAME", 0, "The step to run (default: train)", 1}},
    {BENCH, {"steps", KEY_STEPS, "N", 0, "How many steps to measure, after a warm-up of three (default: 20)", 1}},
    {BENCH, {"vs", KEY_VERSUS, "PROGRAM", 0, "Run another program too, the two in turn, and say how their times compare", 1}},
    {BENCH, {"json", KEY_JSON, NULL, 0, "One JSON object instead of a table; times in seconds", 4}},
    {GENERATE, {"prompt", KEY_PROMPT, "TEXT", 0, "How the text begins; its bytes are taken as they are", 1}},
    {GENERATE, {"length", KEY_LENGTH, "N", 0, "Bytes to make (default: 200)", 1}},
    {GENERATE,
     {"temperature", KEY_TEMPERATURE, "X", 0, "0: always the likeliest byte; 1: as likely as the model says (default); more: more daring", 1}},
    {GENERATE, {"seed", KEY_SEED, "N", 0, "Of the random numbers (default: 0)", 1}},
    {GENERATE, {"step", KEY_STEP, "NAME", 0, "The step to run (default: sample)", 1}},
    {STEPS | DATA, {"from", KEY_FROM, "DATA", 0, "The program's data to run it over (default: the step's own)", 1}},
    {TRAINS, {"epochs", KEY_EPOCHS, "N", 0, "Passes over the data (default: 1, or as many as --max-steps needs)", 1}},
    {TRAINS,
     {"max-steps", KEY_MAX_STEPS, "N", 0, "End after step N of the whole training, resumed or not; 0 writes the initial weights as a checkpoint", 1}},
    {TRAINS,
     {"stop-after-no-gain", KEY_STOP_AFTER_NO_GAIN, "N", 0,
      "End when N epochs in a row bring no gain in what --keep-best names (default: the first report)", 1}},
    {TRAINS,
     {"check-numerics", KEY_CHECK_NUMERICS, NULL, 0,
      "Stop at the first NaN or infinity, and say which kernel made it, of which lines. On one core, and slower: for finding mistakes", 1}},
    {RUNS | GENERATE,
     {"set", KEY_SET, "NAME=VALUE", 0,
      "A value of the program's `launch` declarations, as often as there are some (default: the checkpoint's, or else the program's)", 1}},
    {TRAINS,
     {"reduce-on-plateau", KEY_REDUCE_ON_PLATEAU, "STEP.REPORT:NAME[,KEY=VALUE]", 0,
      "Multiply a launch value by factor when more than patience epochs in a row bring no gain in a report: evaluate.loss:rate,patience=3 "
      "(default: factor=0.1, patience=10, min=0, cooldown=0, threshold=1e-4)",
      1}},
    {STEPS,
     {"seed", KEY_SEED, "N", 0, "Of the initial weights, the order of examples and all random numbers (default: 0, resumed: the checkpoint's)", 1}},
    {DATA, {"seed", KEY_SEED, "N", 0, "Of the order of examples and of random numbers (default: 0)", 1}},
    {READS, {"bad-index", KEY_BAD_INDEX, "error|ignore", 0, "What an index out of range is (default: error). Ignored ones are counted", 1}},
    {TRAINS | EVALUATE,
     {"no-data-check", KEY_NO_DATA_CHECK, NULL, 0,
      "Where there are several processes, do not compare the examples that they read (default: each with what process 0 has there)", 1}},
    {PREDICT, {"input", KEY_INPUT, "FILE", 0, "A .npy or IDX file, gzipped or not; one for each input of the step, in order", 1}},
    {PREDICT | DATA, {"output", 'o', "FOLDER", 0, "Where the results go, one .npy each", 1}},
    {PREDICT,
     {"png", KEY_PNG, "FOLDER", 0,
      "Where results that are pictures go, one .png for each example: [B, H, W] or [B, H, W, 1|3] of u8, or of f32 from 0 to 1, or from -1 to 1", 1}},
    {COMPUTES | PS_WORKER,
     {"devices", KEY_DEVICES, "DEVICES", 0,
      "What to run on, as `dtrun devices` lists them: cpu:D or cpu:DxT, D devices of T cores; cuda, all GPUs; cuda:0,3, GPUs by number (default: "
      "cpu, "
      "one of all cores)",
      2}},
    {RUNS | GENERATE | PS_WORKER,
     {"deadline", KEY_DEADLINE, "SECONDS", 0,
      "How long devices wait for one another, and a step for its device, before the run fails (default: 600); and, where there are "
      "several processes, how long one may be waited for without getting on (default: 60)",
      2}},
    {COMPUTES | PS_WORKER,
     {"library", KEY_LIBRARY, "auto|none", 0,
      "On a GPU, whether cuBLASLt and cuDNN do what they can of it, or generated code does all (default: auto). Results differ by rounding", 2}},
    {STEPS,
     {"reduce", KEY_REDUCE, "exact|fast", 0,
      "Over processes, whether sums have the same bits whoever holds which replica, or are left to MPI or NCCL (default: exact)", 2}},
    {STEPS & ~SERVED,
     {"placement", KEY_PLACEMENT, "mirrored|central", 0,
      "Of several devices, whether each has and updates the variables, or the first one alone has the optimizer's states and updates, and the others "
      "compute (default: mirrored). Same bits, same checkpoints",
      2}},
    {TRAINS | BENCH,
     {"shard-optimizer", KEY_SHARD_OPTIMIZER, NULL, 0,
      "Over processes, each keeps a share of the optimizer's states and updates what they belong to (ZeRO-1). Same bits, same checkpoints", 2}},
    {TRAIN | SERVED,
     {"rows", KEY_ROWS, NULL, 0,
      "On CPUs, of a table of which steps take rows alone, update the rows that a batch names (`dtrun info` says of which). Same bits", 2}},
    {TRAIN | SERVED,
     {"lazy-rows", KEY_LAZY_ROWS, NULL, 0,
      "The same where the optimizer changes rows without a gradient as well, as Adam does: such a row changes when a batch names it. Other bits", 2}},
    {STEPS | DATA, {"replicas", KEY_REPLICAS, "V", 0, "Shards of the global batch, dealt to the devices (default: 1, resumed: the checkpoint's)", 2}},
    {STEPS | DATA,
     {"global-batch", KEY_GLOBAL_BATCH, "N", 0,
      "Examples a step, over all replicas (default: batch(n) of the data, or the most that fit, for each replica)", 2}},
    {RUNS | GENERATE, {"checkpoint-dir", KEY_CHECKPOINT_DIR, "FOLDER", 0, "Where checkpoints are", 3}},
    {TRAINS,
     {"checkpoint-every", KEY_CHECKPOINT_EVERY, "N", 0,
      "Write one every N steps too, not only at the end of each epoch and of the run. The training goes on meanwhile: it keeps a copy of all "
      "variables in memory",
      3}},
    {TRAINS, {"keep", KEY_KEEP, "K", 0, "Keep the newest K checkpoints (default: 3)", 3}},
    {TRAINS,
     {"keep-best", KEY_KEEP_BEST, "STEP.REPORT", 0,
      "Keep the best one too, by this report: evaluate.accuracy, or evaluate.recall[2] of a vector. Larger is better, unless the name holds loss, "
      "error or perplexity; min: or max: "
      "before it "
      "decides",
      3}},
    {TRAINS, {"resume", KEY_RESUME, NULL, 0, "Go on from the newest checkpoint, in the middle of an epoch too", 3}},
    {RUNS | GENERATE, {"init", KEY_INIT, "FILE", 0, "Take parameters and states from a .safetensors file, or from one checkpoint", 3}},
    {RUNS | GENERATE | EXPORT,
     {"map", KEY_MAP, "FILE", 0, "Rules that say which tensor is which variable, and how its axes lie (default: by name)", 3}},
    {RUNS | GENERATE, {"allow-missing", KEY_ALLOW_MISSING, NULL, 0, "What --init does not give keeps its initial value (default: an error)", 3}},
    {EXPORT, {"allow-missing", KEY_ALLOW_MISSING, NULL, 0, "What the map has no rule for is left out (default: an error)", 3}},
    {EXPORT, {"output", 'o', "FILE", 0, "Where they go", 3}},
    {REPORT, {"output", 'o', "FILE", 0, "Where the page goes (default: report.html)", 1}},
    {TRAINS, {"log-every", KEY_LOG_EVERY, "N", 0, "Say the reports of every N-th step (default: 100; 0: never)", 4}},
    {READS, {"log-format", KEY_LOG_FORMAT, "text|json", 0, "Lines for people, or one JSON object a line (default: text)", 4}},
    {TRAINS,
     {"log-dir", KEY_LOG_DIR, "FOLDER", 0,
      "Write what happens there too: event files for TensorBoard, and run.jsonl for `dtrun report`. With --resume the run goes on there", 4}},
    {TRAINS, {"log-histograms", KEY_LOG_HISTOGRAMS, "N", 0, "With --log-dir: histograms of the weights after every N-th epoch", 4}},
    {TRAINS | EVALUATE,
     {"timeline", KEY_TIMELINE, "FILE", 0,
      "When the run has ended, write what each thread of all processes did, and when: a trace that ui.perfetto.dev and chrome://tracing open", 4}},
    {TRAINS | EVALUATE,
     {"timeline-steps", KEY_TIMELINE_STEPS, "N", 0, "How many steps the timeline has: the last N, those of evaluation included (default: 100)", 4}},
    {ANY, {"define", 'D', "NAME=VALUE", 0, "An option of the program, where PROGRAM is a .dt", 5}},
    {ANY,
     {"precision", KEY_PRECISION, "TYPE", 0,
      "Precision of what is computed, where PROGRAM is a .dt: " DT_PRECISION_CHOICES " (default: what it says)", 5}},
    {HAS_CODE, {"level", KEY_LEVEL, "LEVEL", 0, "Use the code for this instruction-set level (default: the best that runs here)", 5}},
    {HAS_CODE, {"cpu", 0, NULL, OPTION_ALIAS, NULL, 5}},
    {HAS_CODE, {"perf-map", KEY_PERF_MAP, NULL, 0, "Name the kernels for perf(1), in /tmp/perf-PID.map", 5}},
    {TRAIN,
     {"local-servers", KEY_LOCAL_SERVERS, "S", 0,
      "Train with S parameter servers and --workers workers on this machine, which it starts, and again when one has died", 2}},
    {TRAIN, {"workers", KEY_WORKERS, "W", 0, "With --local-servers: how many workers (default: 1)", 2}},
    {TRAIN | SERVED,
     {"staleness", KEY_STALENESS, "N", 0,
      "With parameter servers: how many updates the variables that a worker computes on may lie behind when its gradients are applied (default: any "
      "number). 0: all workers compute the same step together, with the bits of one process",
      2}},
    {PS_SERVER, {"listen", KEY_LISTEN, "ADDRESS", 0, "Where workers and other servers find this one: tcp://*:7000", 1}},
    {PS_SERVER, {"part", KEY_PART, "s/S", 0, "Which server this is, from 0, and how many there are (default: 0/1)", 1}},
    {SERVED,
     {"workers", KEY_WORKERS, "W", 0,
      "With --staleness 0: how many workers to wait for before the training begins (default: 1; of ps: those that were started). Else each begins "
      "when "
      "it comes",
      1}},
    {PS,
     {"servers", KEY_HOSTS_OF_SERVERS, "S|LIST", 0,
      "How many of the processes are servers, the first ones; or their machines, in order, where the launcher does not tell: host0,host1", 1}},
    {PS, {"port", KEY_PORT, "N", 0, "The port of server 0; server s has the s-th after it (default: 7077)", 1}},
    {PS_SERVER | PS_WORKER,
     {"servers", KEY_SERVERS, "LIST", 0, "Where all servers are, in order: host:7000,host:7001. Of the only server not needed", 1}},
    {SERVED | PS_WORKER,
     {"job", KEY_JOB, "NAME", 0,
      "What the training is called: a server or worker of another one is an error (default: server 0 makes a name, which the others have from it)",
      1}},
    {SERVED | PS_WORKER,
     {"keys", KEY_KEYS, "FOLDER", 0,
      "Encrypt, and let only those connect whose key is allowed: what `dtrun keys` has made (default: within this machine)", 1}},
    {SERVED | PS_WORKER, {"insecure", KEY_INSECURE, NULL, 0, "Go without keys beyond this machine too: whoever reaches a port may join", 1}},
    {PS_SERVER | PS_WORKER, {"local", KEY_LOCAL, NULL, OPTION_HIDDEN, "Started by `dtrun train --local-servers`", 1}},
    {LAUNCH, {"processes", 'n', "N", 0, "How many processes (default: 1, or as many as the machines may have)", 1}},
    {LAUNCH, {"hosts", KEY_HOSTS, "LIST", 0, "The machines, and how many processes each may have: node1:2,node2:2 (default: this one)", 1}},
    {LAUNCH, {"hostfile", KEY_HOSTFILE, "FILE", 0, "A file of them, a machine a line: node1 slots=2, or node1:2", 1}},
    {LAUNCH,
     {"restarts", KEY_RESTARTS, "R", 0, "How often to start again after a failure, with --resume where there is a --checkpoint-dir (default: 0)", 1}},
    {LAUNCH, {"deadline", KEY_DEADLINE, "SECONDS", 0, "How long a process may go without getting on while others wait for it (default: 60)", 1}},
    {LAUNCH, {"mpirun", KEY_MPIRUN, "PROGRAM", 0, "The launcher (default: mpirun)", 1}},
    {LAUNCH, {"mpirun-options", KEY_MPIRUN_OPTIONS, "OPTIONS", 0, "What it is told beside -n N, split at blanks", 1}},
    {INFO, {"text", KEY_TEXT, "NAME", 0, "Print a text of the artifact instead: program.dt, program.ir, plan.txt", 1}},
    {INFO, {"processes", KEY_PROCESSES, "P", 0, "Print what crosses between P processes, and what it costs, instead", 2}},
    {INFO, {"shard-optimizer", KEY_SHARD_OPTIMIZER, NULL, 0, "With --processes: as `dtrun train --shard-optimizer` exchanges", 2}},
    {INFO, {"replicas", KEY_REPLICAS, "V", 0, "With --processes: shards of the global batch, dealt to them (default: 1)", 2}},
    {INFO,
     {"global-batch", KEY_GLOBAL_BATCH, "N", 0,
      "With --processes: examples a step, over all replicas (default: batch(n) of the data, or the most that fit, for each replica)", 2}},
    {INFO, {"devices", KEY_DEVICES, "cpu|cuda", 0, "With --processes: on GPUs a replica is one microbatch (default: cpu)", 2}},
};
enum {
    N_ROWS = sizeof rows / sizeof *rows
};

static int64_t number(const char *text, int64_t least, const char *name, struct argp_state *state) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno != 0 || value < least) {
        if (least == INT64_MIN)
            argp_error(state, "--%s takes a whole number, not %s", name, text);
        else
            argp_error(state, "--%s takes a whole number, %lld or more, not %s", name, (long long)least, text);
    }
    return value;
}

/* From 1 to `most`. */
static int count(const char *text, int most, const char *name, struct argp_state *state) {
    int64_t value = number(text, 1, name, state);
    if (value > most) argp_error(state, "--%s takes at most %d, not %s", name, most, text);
    return (int)value;
}

/* 0 or more, and finite. */
static double number_with_point(const char *text, const char *name, struct argp_state *state) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= 0 && value <= FLT_MAX)) argp_error(state, "--%s takes a number, 0 or more, not %s", name, text);
    return value;
}

/* Whether `text` is `a`, not `b`. */
static bool choice(const char *text, const char *a, const char *b, const char *name, struct argp_state *state) {
    if (strcmp(text, a) != 0 && strcmp(text, b) != 0) argp_error(state, "--%s takes %s or %s, not %s", name, a, b, text);
    return strcmp(text, a) == 0;
}

static const char *name_of(int key) {
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].option.key == key) return rows[i].option.name;
    return "";
}

static error_t parse_run(int key, char *text, struct argp_state *state) {
    dt_run_options *run = &((dtrun_call *)state->input)->run;
    const char *name = name_of(key);
    switch (key) {
    case KEY_DATA: run->data = text; return 0;
    case KEY_STEP: run->step = text; return 0;
    case KEY_FROM: run->from = text; return 0;
    case KEY_CHECK_NUMERICS: run->check_numerics = true; return 0;
    case KEY_REDUCE_ON_PLATEAU: run->plateau = text; return 0;
    case KEY_EPOCHS: run->epochs = number(text, 1, name, state); return 0;
    case KEY_MAX_STEPS: run->max_steps = number(text, 0, name, state); return 0;
    case KEY_STOP_AFTER_NO_GAIN: run->stop_after_no_gain = number(text, 1, name, state); return 0;
    case KEY_SEED:
        run->seed = number(text, INT64_MIN, name, state);
        run->has_seed = true;
        return 0;
    case KEY_NO_DATA_CHECK: run->no_data_check = true; return 0;
    case KEY_BAD_INDEX: run->ignore_bad_index = choice(text, "ignore", "error", name, state); return 0;
    case 'o': run->output = text; return 0;
    case KEY_PROMPT: run->prompt = text; return 0;
    case KEY_LENGTH: run->length = number(text, 1, name, state); return 0;
    case KEY_TEMPERATURE:
        run->temperature = number_with_point(text, name, state);
        run->has_temperature = true;
        return 0;
    case KEY_PNG: run->png = text; return 0;
    case KEY_BATCHES: run->n_batches = number(text, 1, name, state); return 0;
    case KEY_EPOCH: run->epoch = number(text, 1, name, state); return 0;
    case KEY_DEVICES: run->devices = text; return 0;
    case KEY_LIBRARY: run->no_libraries = choice(text, "none", "auto", name, state); return 0;
    case KEY_ROWS: run->by_rows = run->by_rows == DT_BY_ROWS_NOT ? DT_BY_ROWS_EXACTLY : run->by_rows; return 0;
    case KEY_LAZY_ROWS: run->by_rows = DT_BY_ROWS_LAZILY; return 0;
    case KEY_PLACEMENT: run->central = choice(text, "central", "mirrored", name, state); return 0;
    case KEY_SHARD_OPTIMIZER: run->shard_optimizer = true; return 0;
    case KEY_REDUCE: run->fast_sums = choice(text, "fast", "exact", name, state); return 0;
    case KEY_DEADLINE: run->deadline_seconds = (double)number(text, 1, name, state); return 0;
    case KEY_REPLICAS: run->replicas = number(text, 1, name, state); return 0;
    case KEY_GLOBAL_BATCH: run->global_batch = number(text, 1, name, state); return 0;
    case KEY_CHECKPOINT_DIR: run->checkpoint_dir = text; return 0;
    case KEY_CHECKPOINT_EVERY: run->checkpoint_every = number(text, 1, name, state); return 0;
    case KEY_KEEP: run->keep = number(text, 1, name, state); return 0;
    case KEY_KEEP_BEST: run->keep_best = text; return 0;
    case KEY_RESUME: run->resume = true; return 0;
    case KEY_INIT: run->init = text; return 0;
    case KEY_MAP: run->map = text; return 0;
    case KEY_ALLOW_MISSING: run->allow_missing = true; return 0;
    case KEY_LOG_DIR: run->log_dir = text; return 0;
    case KEY_LOG_HISTOGRAMS: run->log_histograms = number(text, 1, name, state); return 0;
    case KEY_LOG_EVERY: run->log_every = number(text, 0, name, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* `train` hands its options to the servers and workers that it starts: one that neither takes would be lost. */
static void refuse_without_servers(const dtrun_call *call, struct argp_state *state) {
    for (int i = 0; i < call->n_given; i++) {
        int row = call->given[i].row, key = rows[row].option.key;
        bool is_passed_on = rows[row].takes & (PS_SERVER | PS_WORKER), is_own = key == KEY_LOCAL_SERVERS || key == KEY_WORKERS;
        if (!is_passed_on && !is_own) argp_error(state, "--%s does not go with --local-servers", rows[row].option.name);
    }
}

/* What only makes sense beside something else, once all is known. */
static void check_together(dtrun_call *call, struct argp_state *state) {
    dt_run_options *run = &call->run;
    if (strcmp(call->command, "launch") == 0) {
        if (call->n_words == 0) argp_error(state, "which command? train, evaluate or predict, and what it takes");
        if (call->hosts != NULL && call->hostfile != NULL) argp_error(state, "--hosts or --hostfile, not both");
        return;
    }
    if (strcmp(call->command, "export") == 0) {
        if (call->program == NULL) argp_error(state, "which weights? A checkpoint, or a .safetensors file");
        if (run->output == NULL) argp_error(state, "where to? Name a .safetensors file with --output");
        return;
    }
    if (strcmp(call->command, "report") == 0) {
        if (run->n_inputs == 0) argp_error(state, "which runs? Folders that `dtrun train --log-dir` has written");
        if (run->output == NULL) run->output = "report.html";
        return;
    }
    if (strcmp(call->command, "keys") == 0) {
        if (call->program == NULL) argp_error(state, "where to? A folder, which is made where it is not there");
        return;
    }
    if (call->program == NULL && strcmp(call->command, "devices") != 0) argp_error(state, "which program? A .dtx or a .dt");
    if (strcmp(call->command, "generate") == 0 && run->prompt == NULL) argp_error(state, "how does the text begin? --prompt TEXT");
    if (strcmp(call->command, "ps-server") == 0 && call->listen == NULL) argp_error(state, "where do workers find it? --listen tcp://*:7000");
    if (strcmp(call->command, "ps-worker") == 0 && call->servers == NULL) argp_error(state, "where are the servers? --servers host:7000");
    if (strcmp(call->command, "ps") == 0 && call->n_servers == 0 && call->servers == NULL) argp_error(state, "how many are servers? --servers 1");
    if (call->part > 0 && call->servers == NULL) argp_error(state, "where are the other servers? --servers host:7000,host:7001");
    if (call->workers > 0 && call->local_servers == 0 && strcmp(call->command, "train") == 0) argp_error(state, "--workers needs --local-servers");
    if (call->staleness >= 0 && call->local_servers == 0 && strcmp(call->command, "train") == 0)
        argp_error(state, "--staleness needs --local-servers, or belongs to dtrun ps-server");
    if (call->local_servers > 0) refuse_without_servers(call, state);
    bool goes_on = run->resume && !call->is_local; /* whoever starts such a process again knows why */
    bool wants_folder = goes_on || run->checkpoint_every > 0 || run->keep > 0 || run->keep_best != NULL;
    if (wants_folder && run->checkpoint_dir == NULL) argp_error(state, "--resume, --checkpoint-every, --keep and --keep-best need --checkpoint-dir");
    if ((run->map != NULL || run->allow_missing) && run->init == NULL) argp_error(state, "--map and --allow-missing need --init");
    if (run->log_histograms > 0 && run->log_dir == NULL) argp_error(state, "--log-histograms needs --log-dir");
    if (run->timeline_steps > 0 && call->timeline == NULL) argp_error(state, "--timeline-steps needs --timeline");
    if (call->timeline != NULL && run->timeline_steps == 0) run->timeline_steps = TIMELINE_STEPS;
    bool has_shape = strcmp(call->command, "info") == 0 && (run->replicas > 0 || run->global_batch > 0 || strcmp(run->devices, "cpu") != 0);
    if (has_shape && call->n_processes == 0) argp_error(state, "--replicas, --global-batch and --devices need --processes");
    if (call->text != NULL && call->n_processes > 0) argp_error(state, "--text or --processes, not both: each prints something else");
    if (run->n_inputs > 0 && run->from != NULL) argp_error(state, "--input or --from, not both: each says where the examples come from");
}

static enum command command_of(const dtrun_call *call) {
    int i = 0;
    while (strcmp(call->command, commands[i].name) != 0) i++;
    return commands[i].command;
}

/* "1/2" */
static void parse_part(dtrun_call *call, const char *text, struct argp_state *state) {
    char rest;
    bool fits = sscanf(text, "%d/%d%c", &call->part, &call->n_servers, &rest) == 2 && call->part >= 0 && call->part < call->n_servers;
    if (!fits) argp_error(state, "--part takes s/S, server s of S, counted from 0: 0/2, not %s", text);
    if (call->n_servers > DT_PS_MOST_SERVERS) argp_error(state, "--part takes at most %d servers, not %s", DT_PS_MOST_SERVERS, text);
}

static error_t parse_servers(int key, char *text, struct argp_state *state) {
    dtrun_call *call = state->input;
    switch (key) {
    case KEY_LOCAL_SERVERS: call->local_servers = count(text, DT_PS_MOST_SERVERS, "local-servers", state); return 0;
    case KEY_WORKERS: call->workers = count(text, DT_PS_MOST_WORKERS, "workers", state); return 0;
    case KEY_STALENESS: call->staleness = number(text, 0, "staleness", state); return 0;
    case KEY_LISTEN: call->listen = text; return 0;
    case KEY_PART: parse_part(call, text, state); return 0;
    case KEY_SERVERS: call->servers = text; return 0;
    case KEY_JOB:
        if (*text == 0 || strlen(text) > sizeof((dt_ps_job *)NULL)->name - 1)
            argp_error(state, "--job takes a name of 1 to 64 characters, not %s", text);
        for (const char *c = text; *c != 0; c++)
            if (strchr("/_.-", *c) == NULL && !isalnum((unsigned char)*c)) argp_error(state, "--job takes letters, digits and /_.-, not %s", text);
        call->job = text;
        return 0;
    case KEY_KEYS: call->keys = text; return 0;
    case KEY_INSECURE: call->insecure = true; return 0;
    case KEY_LOCAL: call->is_local = true; return 0;
    case KEY_HOSTS_OF_SERVERS:
        if (text[strspn(text, "0123456789")] == 0)
            call->n_servers = count(text, DT_PS_MOST_SERVERS, "servers", state);
        else
            call->servers = text;
        return 0;
    case KEY_PORT: call->port = count(text, UINT16_MAX - DT_PS_MOST_SERVERS, "port", state); return 0;
    default: return parse_run(key, text, state);
    }
}

static void keep_given(dtrun_call *call, int key, const char *text) {
    int row = 0;
    while (row < N_ROWS && (rows[row].option.key != key || !(rows[row].takes & command_of(call)))) row++;
    if (key != ARGP_KEY_ARG && row < N_ROWS) call->given[call->n_given++] = (dtrun_given){row, text};
}

/* In the order of the table, so that the same options make the same text. */
void dtrun_list_given(const dtrun_call *call, dtrun_audience audience, dt_arena *arena, dtrun_words *words) {
    for (int r = 0; r < N_ROWS; r++)
        for (int i = 0; i < call->n_given; i++) {
            const struct argp_option *option = &rows[r].option;
            enum command takes = rows[r].takes;
            bool is_for = audience == DTRUN_FOR_SERVERS ? takes & PS_SERVER : takes & PS_WORKER;
            if (audience == DTRUN_FOR_RUN) is_for = (takes & TRAINS) == TRAINS && !(takes & PS_WORKER) && option->key != KEY_RESUME;
            if (call->given[i].row != r || !is_for) continue;
            const char *text = call->given[i].text;
            dt_list_push(arena, words,
                         text != NULL ? dt_arena_format(arena, "--%s=%s", option->name, text) : dt_arena_format(arena, "--%s", option->name));
        }
}

static error_t parse(int key, char *text, struct argp_state *state) {
    dtrun_call *call = state->input;
    bool is_launch = strcmp(call->command, "launch") == 0;
    keep_given(call, key, text);
    if (text != NULL && *text == 0)
        argp_error(state, "%s%s is empty", key != ARGP_KEY_ARG ? "--" : "", key != ARGP_KEY_ARG ? name_of(key) : "PROGRAM");
    switch (key) {
    case KEY_SET: call->launch_values[call->run.n_launch_values++] = text; return 0;
    case KEY_INPUT: call->inputs[call->run.n_inputs++] = text; return 0;
    case 'D':
        assert(text != NULL);
        if (strchr(text, '=') == NULL) argp_error(state, "-D takes NAME=VALUE, not %s", text);
        call->defines[call->n_defines++] = text;
        return 0;
    case KEY_PRECISION:
        if (!dt_is_precision_option(text)) argp_error(state, "--precision takes " DT_PRECISION_CHOICES ", not \"%s\"", text);
        call->precision = text;
        return 0;
    case KEY_LOG_FORMAT: call->log_format = choice(text, "json", "text", "log-format", state) ? DT_LOG_JSON : DT_LOG_TEXT; return 0;
    case KEY_TIMELINE: call->timeline = text; return 0;
    case KEY_TIMELINE_STEPS: call->run.timeline_steps = number(text, 1, "timeline-steps", state); return 0;
    case KEY_LEVEL: call->kernels.level = text; return 0;
    case KEY_PERF_MAP: call->kernels.perf_map = true; return 0;
    case KEY_TEXT: call->text = text; return 0;
    case KEY_PROCESSES: call->n_processes = number(text, 1, "processes", state); return 0;
    case KEY_STEPS: call->n_steps = number(text, 1, "steps", state); return 0;
    case KEY_VERSUS: call->versus = text; return 0;
    case KEY_JSON: call->json = true; return 0;
    case 'n':
        call->n_processes = number(text, 1, "processes", state);
        if (call->n_processes > INT_MAX) argp_error(state, "--processes %s: that many processes cannot be", text);
        return 0;
    case KEY_RESTARTS: call->restarts = number(text, 0, "restarts", state); return 0;
    case KEY_MPIRUN: call->mpirun = text; return 0;
    case KEY_HOSTS: call->hosts = text; return 0;
    case KEY_HOSTFILE: call->hostfile = text; return 0;
    case KEY_MPIRUN_OPTIONS: call->mpirun_options = text; return 0;
    case ARGP_KEY_ARG:
        if (is_launch) {
            call->words = &state->argv[state->next - 1];
            call->n_words = state->argc - state->next + 1;
            state->next = state->argc;
            return 0;
        }
        if (strcmp(call->command, "report") == 0) {
            call->inputs[call->run.n_inputs++] = text;
            return 0;
        }
        if (strcmp(call->command, "devices") == 0) argp_error(state, "takes no program: %s", text);
        if (call->program != NULL) argp_error(state, "one at a time: %s and %s", call->program, text);
        call->program = text;
        return 0;
    case ARGP_KEY_END: check_together(call, state); return 0;
    default: return parse_servers(key, text, state);
    }
}

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

bool dtrun_runs(const dtrun_call *call) { return (command_of(call) & (STEPS | PS_WORKER)) != 0; }

double dtrun_deadline(const dtrun_call *call) {
    static const double DEFAULT_SECONDS = 60;
    return call->run.deadline_seconds > 0 ? call->run.deadline_seconds : DEFAULT_SECONDS;
}

static void set_defaults(dtrun_call *call) {
    call->run.data = strcmp(call->command, "bench") == 0 ? NULL : ".";
    if (!dtrun_runs(call)) call->run.devices = "cpu"; /* of a run the share of this process is found out first */
    call->run.max_steps = -1;
    call->staleness = -1;
    call->run.epoch = 1;
    call->run.length = 200;
    call->run.temperature = 1;
    call->run.log_every = 100;
    call->n_steps = 20;
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
    set_defaults(call);
    call->inputs = dt_allocate_zeroed((size_t)argc, sizeof *call->inputs);
    call->defines = dt_allocate_zeroed((size_t)argc, sizeof *call->defines);
    call->launch_values = dt_allocate_zeroed((size_t)argc, sizeof *call->launch_values);
    call->given = dt_allocate_zeroed((size_t)argc, sizeof *call->given);
    if (call->inputs == NULL || call->defines == NULL || call->launch_values == NULL || call->given == NULL) {
        fprintf(stderr, "dtrun: error: out of memory\n");
        return 2;
    }
    call->run.inputs = call->inputs;
    call->run.launch_values = call->launch_values;

    struct argp_option options[N_ROWS + 1] = {{0}};
    int n = 0;
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].takes & commands[command].command) options[n++] = rows[i].option;
    bool is_launch = commands[command].command == LAUNCH;
    const char *args = is_launch                              ? "COMMAND ..."
                       : commands[command].command == DEVICES ? ""
                       : commands[command].command == EXPORT  ? "WEIGHTS"
                       : commands[command].command == REPORT  ? "LOGDIR..."
                       : commands[command].command == KEYS    ? "FOLDER"
                                                              : "PROGRAM";
    struct argp argp = {.options = n > 0 ? options : NULL, .parser = parse, .args_doc = args, .doc = commands[command].about};
    char name[32];
    snprintf(name, sizeof name, "dtrun %s", call->command);
    argv[1] = name;
    argp_err_exit_status = 2;
    return dt_arguments_parse(&argp, argc - 1, argv + 1, is_launch ? ARGP_IN_ORDER : 0, call) == 0 ? 0 : 2;
}

void dtrun_call_free(dtrun_call *call) {
    dt_release(call->inputs);
    dt_release(call->launch_values);
    dt_release(call->defines);
    dt_release(call->given);
}
