/* dtc compile: from a program to an artifact, with a window on every stage of the way. */
#include "base/status.h"
#include "base/text.h"
#include "compiler/commands/command.h"
#include "compiler/kernel/switches.h"

#include <string.h>

typedef struct options {
    dtc_compile_options compile;
    dt_text optimize; /* all of -O, and --library */
} options;

enum {
    KEY_EMIT = 2000,
    KEY_DUMP_AFTER,
    KEY_TIME_PASSES,
    KEY_CPU,
    KEY_TARGET,
    KEY_LIBRARY,
    KEY_DEPFILE,
    KEY_STEP,
    KEY_WEIGHTS,
    KEY_PROFILE
};

static const struct argp_option option_rows[] = {
    {"output", 'o', "FILE", 0, "The artifact to write (default: the program's name with .dtx), or with --emit the text (default: standard output)",
     0},
    {"target", KEY_TARGET, "TARGET", 0,
     "What to generate code for: cpu, or cuda, which is beside cpu; cuda:sm_90,compute_90 says for which GPUs (default: sm_80, sm_90, sm_100, and "
     "PTX for later ones, as far as NVRTC knows them)",
     0},
    {"library", KEY_LIBRARY, "auto|none", 0,
     "Whether products and convolutions on GPUs are cut such that cuBLASLt and cuDNN can do them (default: auto); none is -O no-library", 0},
    {"cpu", KEY_CPU, "LEVELS", 0,
     "Instruction sets, separated by commas: x86-64-v3 (AVX2), x86-64-v4 (AVX-512), native (default: x86-64-v3,x86-64-v4)", 0},
    {"optimize", 'O', "LIST", 0, "What not to do, separated by commas, so that its worth can be seen: any of the rows below", 0},
    DT_COMMAND_PROGRAM_OPTIONS,
    {"emit", KEY_EMIT, "STAGE", 0,
     "Print a stage instead of writing an artifact: ir, opt-ir, kernels (with --cpu: as they are made for these levels), plan; llvm, asm, c, object; "
     "or with --target cuda, and of a plan for GPUs: cuda; or a step with its weights as a model for other runtimes: onnx, and its text: onnx-text",
     0},
    {"step", KEY_STEP, "NAME", 0, "The step that becomes an ONNX model (default: predict, or the only one that does not train)", 0},
    {"weights", KEY_WEIGHTS, "PATH", 0, "The weights of that model: a checkpoint, or a safetensors file, as dtrun export writes", 0},
    {"dump-after", KEY_DUMP_AFTER, "PASS", 0, "Print the program after a pass, or after each with `all`, to standard error: ", 0},
    {"profile", KEY_PROFILE, NULL, 0,
     "Have the code for CPUs measure itself: dtrun bench then says where time goes within kernels, by layer, and by forward and backward pass", 0},
    {"depfile", KEY_DEPFILE, "FILE", 0, "Write there what the artifact depends on, the program and its modules, as a rule for make and ninja", 0},
    {"time-passes", KEY_TIME_PASSES, NULL, 0, "Print where the time of the compilation went", 0},
    {NULL, 0, NULL, 0, "-O switches off", 1},
#define X(enumerator, name, what) {"no-" name, 0, NULL, OPTION_DOC, what, 1},
    DT_SWITCHES(X)
#undef X
        {0},
};

/* Another part of the list of -O. */
static void add_switches(options *options, const char *list) { dt_text_format(&options->optimize, "%s%s", options->optimize.n > 0 ? "," : "", list); }

/* All that was given, once it is: what the library refuses to try. */
static void check(struct argp_state *state, dt_command_call *call) {
    options *options = call->options;
    options->compile.optimize = options->optimize.data;
    dt_command_refuse(state, dtc_check_options(&call->program, &options->compile));
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = ((dt_command_call *)state->input)->options;
    dtc_compile_options *compile = &options->compile;
    switch (key) {
    case 'o':
        if (*argument == 0) argp_error(state, "-o takes the name of a file");
        compile->output = argument;
        return 0;
    case KEY_TARGET: compile->target = argument; return 0;
    case KEY_CPU: compile->cpu = argument; return 0;
    case KEY_LIBRARY:
        if (strcmp(argument, "auto") != 0 && strcmp(argument, "none") != 0) argp_error(state, "--library is auto or none, not \"%s\"", argument);
        add_switches(options, *argument == 'n' ? "no-library" : "library");
        return 0;
    case 'O': add_switches(options, argument); return 0;
    case KEY_TIME_PASSES: compile->time_passes = 1; return 0;
    case KEY_PROFILE: compile->profile = 1; return 0;
    case KEY_DEPFILE: compile->depfile = argument; return 0;
    case KEY_DUMP_AFTER: compile->dump_after = argument; return 0;
    case KEY_STEP: compile->step = argument; return 0;
    case KEY_WEIGHTS: compile->weights = argument; return 0;
    case KEY_EMIT: compile->emit = argument; return 0;
    case ARGP_KEY_END: check(state, state->input); return 0;
    default: return dt_command_parse(key, argument, state);
    }
}

static bool is_named_before(int pass) {
    for (int i = 0; i < pass; i++)
        if (strcmp(dtc_pass_name(i), dtc_pass_name(pass)) == 0) return true;
    return false;
}

/* The passes follow what --dump-after says; argp frees the text. */
static char *add_passes(int key, const char *text, void *input) {
    (void)input;
    dt_text with = {0};
    if (key != KEY_DUMP_AFTER) return (char *)(uintptr_t)text;
    dt_text_append(&with, text);
    for (int i = 0; dtc_pass_name(i) != NULL; i++)
        if (!is_named_before(i)) dt_text_format(&with, "%s%s", i > 0 ? ", " : "", dtc_pass_name(i));
    return with.failed ? (char *)(uintptr_t)text : with.data;
}

static dt_status *run(dt_command_call *call) {
    options *options = call->options;
    dtc_compile_options *compile = &options->compile;
    if (options->optimize.failed) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dtc_bytes text = {0};
    if (compile->output != NULL && strcmp(compile->output, "-") == 0 && compile->emit != NULL) compile->output = NULL;
    bool is_printed = compile->emit != NULL && compile->output == NULL;
    DT_TRY(dtc_compile(&call->program, compile, is_printed ? &text : NULL));
    return is_printed ? dt_command_print(&text) : NULL;
}

int dt_command_compile(int argc, char **argv) {
    static const struct argp argp = {
        option_rows,  parse,
        "PROGRAM.dt", "Compile a program into an artifact that dtrun trains and runs; with --emit also a plan in text form, FILE.plan.",
        NULL,         add_passes,
        NULL};
    options options = {.compile = {.size = sizeof options.compile}};
    int code = dt_command_run(&argp, argc, argv, &options, run);
    dt_text_free(&options.optimize);
    return code;
}
