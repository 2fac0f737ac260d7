/* dtc compile: from a program to an artifact, with a window on every stage of the way. */
#include "base/cpu.h"
#include "compiler/artifact.h"
#include "compiler/codegen/codegen.h"
#include "compiler/dtc.h"
#include "compiler/dtc_cuda.h"
#include "ir/text_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage {
    STAGE_ARTIFACT,
    STAGE_IR,
    STAGE_OPT_IR,
    STAGE_KERNELS,
    STAGE_PLAN,
    STAGE_LLVM,
    STAGE_ASM,
    STAGE_CUDA,
    N_STAGES
} stage;
static const char *const stage_names[N_STAGES] = {"dtx", "ir", "opt-ir", "kernels", "plan", "llvm", "asm", "cuda"};

static const char *const level_names[] = {DT_LEVEL_V3, DT_LEVEL_V4, DT_LEVEL_NATIVE};
enum {
    N_LEVELS = sizeof level_names / sizeof *level_names
};

typedef struct options {
    const char *output, *dump_after, *cpu; /* cpu: as it was given; NULL: it was not */
    const char *levels[N_LEVELS];
    int n_levels;
    stage emit;
    bool time_passes;
    dt_target target;
    dtc_cuda cuda; /* of that target */
    dt_switches off;
    dt_codegen_object code[N_LEVELS];
} options;

enum {
    KEY_EMIT = 2000,
    KEY_DUMP_AFTER,
    KEY_TIME_PASSES,
    KEY_CPU,
    KEY_TARGET,
    KEY_LIBRARY
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
    DTC_PROGRAM_OPTIONS,
    {"emit", KEY_EMIT, "STAGE", 0, "Print a stage instead of writing an artifact: ir, opt-ir, kernels, plan; llvm, asm; or with --target cuda: cuda",
     0},
    {"dump-after", KEY_DUMP_AFTER, "PASS", 0,
     "Print the program after a pass, or after each with `all`, to standard error: verify, shrink, sink, autodiff, simplify, partition, fuse, "
     "schedule, late_writes, split_reductions, plan_memory, share_updates",
     0},
    {"time-passes", KEY_TIME_PASSES, NULL, 0, "Print where the time of the compilation went", 0},
    {NULL, 0, NULL, 0, "-O switches off", 1},
#define X(enumerator, name, what) {"no-" name, 0, NULL, OPTION_DOC, what, 1},
    DT_SWITCHES(X)
#undef X
        {0},
};

/* "x86-64-v3,native" */
static void parse_levels(const char *list, struct argp_state *state, options *options) {
    options->cpu = list;
    options->n_levels = 0;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int level = 0;
        while (level < N_LEVELS && (strlen(level_names[level]) != n || strncmp(level_names[level], at, n) != 0)) level++;
        if (level == N_LEVELS)
            argp_error(state, "--cpu: no instruction set level \"%.*s\"; there are " DT_LEVEL_V3 ", " DT_LEVEL_V4 " and " DT_LEVEL_NATIVE, (int)n,
                       at);
        for (int i = 0; i < options->n_levels; i++)
            if (options->levels[i] == level_names[level]) argp_error(state, "--cpu: %s is there twice", level_names[level]);
        options->levels[options->n_levels++] = level_names[level];
        at += n;
        if (*at == 0) return;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = ((dtc_call *)state->input)->options;
    dt_status *status;
    switch (key) {
    case 'o':
        if (*argument == 0) argp_error(state, "-o takes the name of a file");
        options->output = argument;
        return 0;
    case KEY_TARGET:
        options->target = strcmp(argument, "cpu") == 0 ? DT_TARGET_CPU : DT_TARGET_CUDA;
        if (options->target == DT_TARGET_CPU) return 0;
        if (strncmp(argument, "cuda", 4) != 0 || (argument[4] != 0 && argument[4] != ':'))
            argp_error(state, "there is no target \"%s\": there are cpu and cuda", argument);
        options->cuda = (dtc_cuda){.n_architectures = 0};
        status = dtc_cuda_parse_target(argument, &options->cuda);
        if (status) argp_error(state, "--target %s: %s", argument, dt_status_message(status));
        dt_status_free(status);
        return 0;
    case KEY_CPU: parse_levels(argument, state, options); return 0;
    case KEY_LIBRARY:
        if (strcmp(argument, "auto") != 0 && strcmp(argument, "none") != 0) argp_error(state, "--library is auto or none, not \"%s\"", argument);
        dt_status_free(dt_switches_parse(*argument == 'n' ? "no-library" : "library", &options->off)); /* which there is */
        return 0;
    case 'O':
        status = dt_switches_parse(argument, &options->off);
        if (status) argp_error(state, "-O %s: %s", argument, dt_status_message(status));
        dt_status_free(status);
        return 0;
    case KEY_TIME_PASSES: options->time_passes = true; return 0;
    case KEY_DUMP_AFTER:
        if (strcmp(argument, "all") != 0 && !dt_pass_exists(argument)) argp_error(state, "there is no pass \"%s\"", argument);
        options->dump_after = argument;
        return 0;
    case KEY_EMIT:
        for (int i = STAGE_IR; i < N_STAGES; i++)
            if (strcmp(argument, stage_names[i]) == 0) {
                options->emit = (stage)i;
                return 0;
            }
        argp_error(state, "there is no stage \"%s\" to print", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->emit == STAGE_CUDA && options->target != DT_TARGET_CUDA) argp_error(state, "--emit=cuda prints what --target cuda generates");
        if (options->target == DT_TARGET_CUDA && (options->emit == STAGE_LLVM || options->emit == STAGE_ASM))
            argp_error(state, "--emit=%s prints what --target cpu generates; try --emit=cuda", stage_names[options->emit]);
        if (options->cpu && options->n_levels > 1 && (options->emit == STAGE_LLVM || options->emit == STAGE_ASM))
            argp_error(state, "--emit=%s prints the code of one level, --cpu %s names %d", stage_names[options->emit], options->cpu,
                       options->n_levels);
        return 0;
    default: return dtc_parse_program_option(key, argument, state);
    }
}

/* ---- printing a stage ---- */

static dt_status *print_plans(dt_text *text, const dt_compilation *compilation, bool whole) {
    for (int i = 0; i < compilation->n_plans; i++) (whole ? dt_plan_print : dt_plan_print_summary)(text, compilation->plans[i]);
    return NULL;
}

static dt_status *print_code(dt_text *text, const dt_compilation *compilation, const char *level, stage stage) {
    dt_codegen_text kind = stage == STAGE_ASM ? DT_CODEGEN_TEXT_ASSEMBLY : DT_CODEGEN_TEXT_LLVM;
    return dt_codegen_llvm_text((const dt_plan *const *)compilation->plans, compilation->n_plans, level, kind, text);
}

static dt_status *print_cuda(dt_text *text, const dt_compilation *compilation, options *options) {
    DT_TRY(dtc_cuda_render(compilation, &options->cuda));
    if (options->emit == STAGE_CUDA)
        dt_cuda_print(text, &options->cuda.program, 0, options->cuda.program.n_sources);
    else
        dtc_cuda_print_functions(text, &options->cuda);
    return NULL;
}

static dt_status *emit_stage(options *options, const dt_compilation *compilation, const char *level) {
    dt_text text = {.arena = compilation->arena};
    dt_status *status = NULL;
    if (options->emit == STAGE_LLVM || options->emit == STAGE_ASM)
        status = print_code(&text, compilation, level, options->emit);
    else if (options->emit == STAGE_KERNELS || options->emit == STAGE_PLAN)
        status = print_plans(&text, compilation, options->emit == STAGE_KERNELS);
    else if (options->emit != STAGE_CUDA)
        dt_module_print(&text, compilation->module);
    if (status == NULL && options->target == DT_TARGET_CUDA && (options->emit == STAGE_CUDA || options->emit == STAGE_PLAN))
        status = print_cuda(&text, compilation, options);
    return status != NULL ? status : dtc_write_text(options->output, &text);
}

/* ---- the artifact ---- */

static bool has_suffix(const char *path, const char *suffix) {
    size_t n = strlen(path), n_suffix = strlen(suffix);
    return n > n_suffix && strcmp(path + n - n_suffix, suffix) == 0;
}

static const char *artifact_path(dt_arena *arena, const options *options, const char *program) {
    if (options->output) return options->output;
    int n = (int)strlen(program) - (has_suffix(program, ".dt") ? 3 : 0);
    return dt_arena_format(arena, "%.*s.dtx", n, program);
}

/* What made this artifact, as flags that would make it again. */
static size_t list_flags(dtc_call *call, const options *options, const char *const **flags) {
    DT_LIST(const char *) list = {0};
    dt_text off = {.arena = call->arena}, target = {.arena = call->arena};
    dt_switches_print(&off, options->off);
    for (int i = 0; i < options->cuda.n_architectures; i++)
        dt_text_format(&target, "%s%s", i == 0 ? "--target cuda:" : ",", options->cuda.architectures[i]);
    if (target.data) dt_list_push(call->arena, &list, target.data);
    if (off.data) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "-O %s", off.data));
    for (size_t i = 0; i < call->program.defines.n; i++)
        dt_list_push(call->arena, &list, dt_arena_format(call->arena, "-D%s", call->program.defines.items[i]));
    if (call->program.batch) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--batch %lld", (long long)call->program.batch));
    if (call->program.precision) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--precision %s", call->program.precision));
    if (options->cpu) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--cpu %s", options->cpu));
    *flags = list.items;
    return list.n;
}

static dt_status *write_artifact(dtc_call *call, const options *options, const dt_compilation *compilation, const dt_cuda_files *cuda) {
    char processor[80], version[32];
    dt_object_file objects[N_LEVELS];
    for (int i = 0; i < options->n_levels; i++) {
        const dt_codegen_object *code = &options->code[i];
        bool native = strcmp(code->level, DT_LEVEL_NATIVE) == 0;
        objects[i] =
            (dt_object_file){.level = code->level, .cpu = native ? dt_cpu_name(processor) : NULL, .bytes = code->bytes, .n_bytes = code->n_bytes};
    }
    dt_artifact_contents contents = {.compilation = compilation,
                                     .source = call->program.source,
                                     .compiler = DT_COMPILER_NAME,
                                     .llvm = dt_codegen_llvm_version(version),
                                     .objects = objects,
                                     .n_objects = (size_t)options->n_levels,
                                     .cuda = cuda};
    contents.n_flags = list_flags(call, options, &contents.flags);
    return dt_artifact_write(artifact_path(call->arena, options, call->program.path), &contents);
}

/* The same program once more, as GPUs run it. `graph`: its text before any pass. */
static dt_status *generate_cuda(dtc_call *call, options *options, const char *graph, dt_compilation *compilation, dt_timings *timings) {
    double start = dt_seconds();
    *compilation = (dt_compilation){.arena = call->arena, .off = options->off, .target = DT_TARGET_CUDA};
    DT_TRY(dt_module_parse(call->arena, call->program.path, graph, &compilation->module));
    DT_TRY(dt_passes_run(compilation, &(dt_passes_options){0})); /* its warnings are those of the other target */
    DT_TRY(dtc_cuda_render(compilation, &options->cuda));
    dt_timings_add(timings, "plans for GPUs", dt_seconds() - start);
    start = dt_seconds();
    DT_TRY(dtc_cuda_compile(&options->cuda));
    dt_timings_add(timings, "NVRTC", dt_seconds() - start);
    return NULL;
}

static dt_status *generate(dtc_call *call, options *options, const dt_compilation *compilation, const char *graph, dt_timings *timings) {
    dt_compilation gpu = {0};
    dt_cuda_files cuda = {&gpu, &options->cuda.program, &options->cuda.code};
    for (int i = 0; i < options->n_levels; i++) options->code[i].level = options->levels[i];
    double start = dt_seconds();
    DT_TRY(dt_codegen_llvm((const dt_plan *const *)compilation->plans, compilation->n_plans, NULL, options->code, options->n_levels));
    dt_timings_add(timings, "code generation", dt_seconds() - start);
    if (graph != NULL) DT_TRY(generate_cuda(call, options, graph, &gpu, timings));
    start = dt_seconds();
    DT_TRY(write_artifact(call, options, compilation, graph != NULL ? &cuda : NULL));
    dt_timings_add(timings, "artifact", dt_seconds() - start);
    return NULL;
}

/* ---- the command ---- */

static const char *last_pass(stage stage) {
    if (stage == STAGE_IR) return "verify";
    return stage == STAGE_OPT_IR ? "partition" : NULL;
}

/* What is written may not take the place of a program, and an artifact needs a size. */
static dt_status *check_output(dtc_call *call, const options *options, const dt_module *module) {
    const char *program = call->program.path;
    if (options->emit != STAGE_ARTIFACT) return options->output ? dtc_check_output(program, options->output) : NULL;
    const char *path = artifact_path(call->arena, options, program);
    DT_TRY(dtc_check_output(program, path));
    if (has_suffix(path, ".dt")) return dt_error(DT_INVALID_ARGUMENT, "-o %s: .dt is the end of a program's name, .dtx that of an artifact's", path);
    return module->capacity > 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s: for how many rows is memory to be planned? --batch says it", program);
}

static dt_status *compile(dtc_call *call, options *options, dt_compilation *compilation, dt_text *dumps, dt_timings *timings, dt_text *graph) {
    double start = dt_seconds();
    DT_TRY(dtc_load(call, &compilation->module));
    dt_timings_add(timings, "front end", dt_seconds() - start);
    DT_TRY(check_output(call, options, compilation->module));
    if (options->target == DT_TARGET_CUDA && options->emit == STAGE_ARTIFACT) {
        compilation->target = DT_TARGET_CPU;
        dt_module_print(graph, compilation->module);
    }
    dt_passes_options pipeline = {.dump_after = options->dump_after, .stop_after = last_pass(options->emit), .dumps = dumps, .timings = timings};
    DT_TRY(dt_passes_run(compilation, &pipeline));
    if (options->dump_after && dumps->data == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "--dump-after=%s: this pass is not run: --emit ends before it, or -O leaves it out",
                        options->dump_after);
    if (options->emit != STAGE_ARTIFACT) return emit_stage(options, compilation, options->levels[options->n_levels - 1]);
    return generate(call, options, compilation, graph->data, timings);
}

static dt_status *run(dtc_call *call) {
    options *options = call->options;
    dt_arena *arena = call->arena;
    dt_compilation compilation = {.arena = arena, .off = options->off, .target = options->target};
    dt_text dumps = {.arena = arena}, graph = {.arena = arena}, timing_text = {0};
    dt_timings timings = {0};
    dt_status *status = compile(call, options, &compilation, &dumps, &timings, &graph);
    if (dumps.data) fputs(dumps.data, stderr);
    if (compilation.warnings.data) fputs(compilation.warnings.data, stderr);
    if (options->time_passes) dt_timings_print(&timing_text, &timings);
    if (timing_text.data) fputs(timing_text.data, stderr);
    dt_text_free(&timing_text);
    return status;
}

int dtc_compile(int argc, char **argv) {
    static const struct argp argp = {option_rows, parse, "PROGRAM.dt", "Compile a program into an artifact that dtrun trains and runs.",
                                     NULL,        NULL,  NULL};
    options options = {.levels = {DT_LEVEL_V3, DT_LEVEL_V4}, .n_levels = 2};
    int code = dtc_run_on_program(&argp, argc, argv, &options, run);
    for (int i = 0; i < options.n_levels; i++) free(options.code[i].bytes);
    dt_cuda_code_free(&options.cuda.code);
    return code;
}
