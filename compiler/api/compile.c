/* compile: from a program to an artifact, with a window on every stage of the way. */
#include "abi/version.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/options.h"
#include "compiler/api/api.h"
#include "compiler/api/cuda.h"
#include "compiler/artifact.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/plan_text.h"
#include "compiler/onnx/onnx.h"
#include "compiler/pipeline.h"
#include "compiler/weights.h"
#include "ir/text_form.h"

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
    STAGE_C,
    STAGE_OBJECT,
    STAGE_CUDA,
    STAGE_ONNX,
    STAGE_ONNX_TEXT,
    N_STAGES
} stage;
static const char *const stage_names[N_STAGES] = {"dtx", "ir", "opt-ir", "kernels", "plan", "llvm",
                                                  "asm", "c",  "object", "cuda",    "onnx", "onnx-text"};

static const char *const level_names[] = {DT_LEVEL_V3, DT_LEVEL_V4, DT_LEVEL_NATIVE};
enum {
    N_LEVELS = sizeof level_names / sizeof *level_names
};

/* The options as they are read, and what is made on the way that is not in the arena. */
typedef struct job {
    dtc_compile_options options;
    const char *levels[N_LEVELS];
    int n_levels;
    stage emit;
    dt_target target;
    dt_switches off;
    dt_plan_sets plans; /* that were read, where there is no program */
    dt_api_cuda cuda;   /* of that target */
    dt_codegen_object code[N_LEVELS];
    const dt_function *model; /* the step that becomes one */
    dt_weights *weights;      /* of it */
    dt_text cuda_warnings;
    dt_text output; /* the artifact, or a stage */
    dtc_bytes *bytes;
} job;

/* ---- options ---- */

/* "x86-64-v3,native" */
static dt_status *read_levels(job *job) {
    if (job->options.cpu == NULL) {
        job->levels[job->n_levels++] = DT_LEVEL_V3;
        job->levels[job->n_levels++] = DT_LEVEL_V4;
        return NULL;
    }
    for (const char *at = job->options.cpu;; at++) {
        size_t n = strcspn(at, ",");
        int level = 0;
        while (level < N_LEVELS && (strlen(level_names[level]) != n || strncmp(level_names[level], at, n) != 0)) level++;
        if (level == N_LEVELS)
            return dt_error(DT_INVALID_ARGUMENT,
                            "--cpu: no instruction set level \"%.*s\"; there are " DT_LEVEL_V3 ", " DT_LEVEL_V4 " and " DT_LEVEL_NATIVE, (int)n, at);
        for (int i = 0; i < job->n_levels; i++)
            if (job->levels[i] == level_names[level]) return dt_error(DT_INVALID_ARGUMENT, "--cpu: %s is there twice", level_names[level]);
        job->levels[job->n_levels++] = level_names[level];
        at += n;
        if (*at == 0) return NULL;
    }
}

static dt_status *read_target(job *job) {
    const char *target = job->options.target;
    if (target == NULL || strcmp(target, "cpu") == 0) return NULL;
    if (strncmp(target, "cuda", 4) != 0 || (target[4] != 0 && target[4] != ':'))
        return dt_error(DT_INVALID_ARGUMENT, "there is no target \"%s\": there are cpu and cuda", target);
    job->target = DT_TARGET_CUDA;
    return dt_status_annotate(dt_api_cuda_parse_target(target, &job->cuda), "--target %s", target);
}

/* Of one instruction set, of CPUs. */
static bool is_code(stage stage) { return stage >= STAGE_LLVM && stage <= STAGE_OBJECT; }

static bool is_model(stage stage) { return stage == STAGE_ONNX || stage == STAGE_ONNX_TEXT; }

static dt_status *check_model(const job *job) {
    const char *step = job->options.step, *weights = job->options.weights;
    if (job->emit == STAGE_ONNX && weights == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "--emit=onnx writes a model with its weights: --weights names a checkpoint, or a safetensors file");
    if (is_model(job->emit) || (step == NULL && weights == NULL)) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--%s is for --emit=onnx", step != NULL ? "step" : "weights");
}

static dt_status *read_stage(job *job, bool is_plan) {
    const char *emit = job->options.emit;
    if (emit == NULL) return check_model(job);
    while (job->emit < N_STAGES && (job->emit == STAGE_ARTIFACT || strcmp(emit, stage_names[job->emit]) != 0)) job->emit++;
    if (job->emit == N_STAGES) return dt_error(DT_INVALID_ARGUMENT, "there is no stage \"%s\" to print", emit);
    if (job->emit == STAGE_CUDA && job->target != DT_TARGET_CUDA && !is_plan) /* a plan says what it is for */
        return dt_error(DT_INVALID_ARGUMENT, "--emit=cuda prints what --target cuda generates");
    if (job->target == DT_TARGET_CUDA && is_code(job->emit))
        return dt_error(DT_INVALID_ARGUMENT, "--emit=%s prints what --target cpu generates; try --emit=cuda", emit);
    if (job->options.cpu && job->n_levels > 1 && is_code(job->emit))
        return dt_error(DT_INVALID_ARGUMENT, "--emit=%s prints the code of one level, --cpu %s names %d", emit, job->options.cpu, job->n_levels);
    return check_model(job);
}

static dt_status *read_options(job *job, const dtc_program *program, const dtc_compile_options *options) {
    dtc_program read;
    DT_TRY(dt_options_read(program, &read, sizeof read, "dtc_program"));
    DT_TRY(dt_api_check_program(&read));
    DT_TRY(dt_options_read(options, &job->options, sizeof job->options, "dtc_compile_options"));
    const char *optimize = job->options.optimize, *pass = job->options.dump_after;
    if (optimize != NULL) DT_TRY(dt_status_annotate(dt_switches_parse(optimize, &job->off), "-O %s", optimize));
    if (pass != NULL && strcmp(pass, "all") != 0 && !dt_pass_exists(pass)) return dt_error(DT_NOT_FOUND, "there is no pass \"%s\"", pass);
    DT_TRY(read_levels(job));
    DT_TRY(read_target(job));
    return read_stage(job, read.path != NULL && dt_api_ends_in(read.path, ".plan"));
}

dt_status *dtc_check_options(const dtc_program *program, const dtc_compile_options *options) {
    job job = {0};
    return read_options(&job, program, options);
}

/* ---- printing a stage ---- */

static void print_summaries(dt_text *text, const dt_compilation *compilation) {
    for (int i = 0; i < compilation->n_plans; i++) dt_plan_print_summary(compilation->arena, text, compilation->plans[i]);
}

/* Those that were read, or those that are made. */
static dt_status *choose_gpu(const job *job, const dt_compilation *compilation, dt_gpu_choices **choices) {
    if (job->plans.n > 0 && job->plans.items[0].gpu_choices != NULL) return *choices = job->plans.items[0].gpu_choices, NULL;
    return dt_passes_choose_gpu(compilation, choices);
}

static dt_status *render_cuda(const dt_compilation *compilation, job *job) {
    dt_gpu_choices *choices;
    DT_TRY(choose_gpu(job, compilation, &choices));
    dt_codegen_cuda(compilation->arena, choices, &job->cuda.program);
    return NULL;
}

static dt_status *print_cuda(dt_text *text, const dt_compilation *compilation, job *job) {
    DT_TRY(render_cuda(compilation, job));
    if (job->emit == STAGE_CUDA)
        dt_cuda_print(text, &job->cuda.program, 0, job->cuda.program.n_sources);
    else
        dt_api_cuda_print_functions(text, &job->cuda);
    return NULL;
}

/* Those that were read, for whatever level code is made of them; or those for this level. */
static dt_status *choose(const job *job, const dt_compilation *compilation, const char *level, const dt_choices **choices) {
    const dt_cpu_target *target;
    if (job->plans.n > 0 && job->plans.items[0].choices != NULL) return *choices = job->plans.items[0].choices, NULL;
    DT_TRY(dt_codegen_target(level, &target));
    return dt_passes_choose(compilation, target, choices);
}

/* With the choices for each level that was asked for. */
static dt_status *print_kernels(dt_text *text, const dt_compilation *compilation, const job *job) {
    bool chosen = job->options.cpu != NULL && job->target == DT_TARGET_CPU;
    if (job->plans.n > 0 && ((!chosen && job->target == DT_TARGET_CPU) || job->plans.items[0].choices != NULL))
        return dt_plan_sets_print(compilation->arena, text, &job->plans), NULL;
    dt_gpu_choices *of_gpu = NULL;
    if (job->target != DT_TARGET_CPU) DT_TRY(choose_gpu(job, compilation, &of_gpu));
    for (int i = 0; i < (chosen ? job->n_levels : 1); i++) {
        const dt_choices *choices = NULL;
        if (chosen) DT_TRY(choose(job, compilation, job->levels[i], &choices));
        for (int p = 0; p < compilation->n_plans; p++) {
            dt_plan_print(compilation->arena, text, compilation->plans[p], choices);
            if (of_gpu != NULL) dt_gpu_choices_print(text, of_gpu, p);
        }
    }
    return NULL;
}

static dt_status *emit_object(job *job, const dt_compilation *compilation, const char *level, const dt_choices *choices) {
    dt_codegen_object *object = &job->code[0];
    *object = (dt_codegen_object){.level = level, .choices = choices};
    DT_TRY(dt_codegen_llvm((const dt_plan *const *)compilation->plans, compilation->n_plans, NULL, object, 1));
    dt_text_append_bytes(&job->output, object->bytes, object->n_bytes);
    return NULL;
}

static dt_status *emit_model(job *job, dt_arena *arena) {
    const dt_onnx_model *model;
    DT_TRY(dt_onnx_render(arena, job->model, job->weights, &model));
    if (job->emit == STAGE_ONNX) return dt_onnx_write(&job->output, model);
    dt_onnx_print(&job->output, model);
    return NULL;
}

static dt_status *emit_stage(job *job, const dt_compilation *compilation) {
    dt_text *text = &job->output;
    const char *level = job->levels[job->n_levels - 1];
    const dt_choices *choices;
    switch (job->emit) {
    case STAGE_LLVM:
    case STAGE_ASM:
        DT_TRY(choose(job, compilation, level, &choices));
        return dt_codegen_llvm_text((const dt_plan *const *)compilation->plans, compilation->n_plans, level, choices,
                                    job->emit == STAGE_ASM ? DT_CODEGEN_TEXT_ASSEMBLY : DT_CODEGEN_TEXT_LLVM, text);
    case STAGE_C:
        DT_TRY(choose(job, compilation, level, &choices));
        dt_codegen_c(compilation->arena, (const dt_plan *const *)compilation->plans, compilation->n_plans, choices, text);
        return NULL;
    case STAGE_OBJECT: DT_TRY(choose(job, compilation, level, &choices)); return emit_object(job, compilation, level, choices);
    case STAGE_KERNELS: return print_kernels(text, compilation, job);
    case STAGE_ONNX:
    case STAGE_ONNX_TEXT: return emit_model(job, compilation->arena);
    case STAGE_PLAN:
        print_summaries(text, compilation);
        return job->target == DT_TARGET_CUDA && job->plans.n == 0 ? print_cuda(text, compilation, job) : NULL;
    case STAGE_CUDA: return print_cuda(text, compilation, job);
    default: dt_module_print(text, compilation->module); return NULL;
    }
}

/* ---- the artifact ---- */

/* What made this artifact, as flags that would make it again. */
static size_t list_flags(dt_api_call *call, const job *job, const char *const **flags) {
    DT_LIST(const char *) list = {0};
    dt_text off = {.arena = call->arena}, target = {.arena = call->arena};
    const dtc_program *program = &call->program;
    dt_switches_print(&off, job->off);
    for (int i = 0; i < job->cuda.n_architectures; i++) dt_text_format(&target, "%s%s", i == 0 ? "--target cuda:" : ",", job->cuda.architectures[i]);
    if (target.data) dt_list_push(call->arena, &list, target.data);
    if (off.data) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "-O %s", off.data));
    for (size_t i = 0; i < program->n_defines; i++)
        dt_list_push(call->arena, &list, dt_arena_format(call->arena, "-D%s=%s", program->defines[i].name, program->defines[i].value));
    if (program->batch) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--batch %lld", (long long)program->batch));
    if (program->precision) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--precision %s", program->precision));
    if (job->options.profile) dt_list_push(call->arena, &list, "--profile");
    if (job->options.cpu) dt_list_push(call->arena, &list, dt_arena_format(call->arena, "--cpu %s", job->options.cpu));
    *flags = list.items;
    return list.n;
}

static dt_status *make_artifact(dt_api_call *call, job *job, const dt_compilation *compilation, const dt_cuda_files *cuda) {
    char processor[80], version[32];
    dt_object_file objects[N_LEVELS];
    for (int i = 0; i < job->n_levels; i++) {
        const dt_codegen_object *code = &job->code[i];
        bool native = strcmp(code->level, DT_LEVEL_NATIVE) == 0;
        objects[i] =
            (dt_object_file){.level = code->level, .cpu = native ? dt_cpu_name(processor) : NULL, .bytes = code->bytes, .n_bytes = code->n_bytes};
    }
    dt_artifact_contents contents = {.compilation = compilation,
                                     .source = call->source,
                                     .compiler = DT_COMPILER_NAME,
                                     .llvm = dt_codegen_llvm_version(version),
                                     .objects = objects,
                                     .n_objects = (size_t)job->n_levels,
                                     .cuda = cuda};
    const char **modules = DT_NEW_ARRAY(call->arena, const char *, call->sources.n);
    for (size_t i = 1; i < call->sources.n; i++) modules[contents.n_modules++] = call->sources.items[i].text;
    contents.modules = modules;
    contents.n_flags = list_flags(call, job, &contents.flags);
    return dt_artifact_write(&job->output, job->options.output != NULL ? job->options.output : call->program.path, &contents);
}

/* A warning a line. */
static dt_status *report_lines(dt_api_call *call, const char *lines) {
    for (size_t n; lines != NULL && *lines != 0; lines += n + 1) {
        n = strcspn(lines, "\n");
        const char *message = dt_arena_substring(call->arena, lines, n);
        const char *name = dt_warning_name(DT_WARN_NVRTC), *text = dt_arena_format(call->arena, "warning: %s [%s]\n", message, name);
        DT_TRY(dt_api_report(call, &(dtc_diagnostic){.severity = DTC_WARNING, .file = "", .message = message, .text = text, .name = name}));
    }
    return NULL;
}

/* The same program once more, as GPUs run it. `graph`: its text before any pass. */
static dt_status *generate_cuda(dt_api_call *call, job *job, const char *graph, dt_compilation *compilation, dt_timings *timings) {
    double start = dt_seconds();
    *compilation = (dt_compilation){.arena = call->arena, .off = job->off, .target = DT_TARGET_CUDA};
    DT_TRY(dt_module_parse(call->arena, call->program.path, graph, &compilation->module));
    DT_TRY(dt_api_run_passes(call, compilation, &(dt_passes_options){0})); /* its warnings are those of the other target */
    DT_TRY(render_cuda(compilation, job));
    dt_timings_add(timings, "plans for GPUs", dt_seconds() - start);
    start = dt_seconds();
    dt_status *status = dt_api_cuda_compile(&job->cuda, &job->cuda_warnings);
    dt_timings_add(timings, "NVRTC", dt_seconds() - start);
    return dt_status_first(status, report_lines(call, job->cuda_warnings.data));
}

static dt_status *generate(dt_api_call *call, job *job, const dt_compilation *compilation, const char *graph, dt_timings *timings) {
    dt_compilation gpu = {0};
    dt_cuda_files cuda = {&gpu, &job->cuda.program, &job->cuda.code};
    double start = dt_seconds();
    for (int i = 0; i < job->n_levels; i++) {
        job->code[i].level = job->levels[i];
        DT_TRY(choose(job, compilation, job->levels[i], &job->code[i].choices));
    }
    dt_timings_add(timings, "choose", dt_seconds() - start);
    start = dt_seconds();
    DT_TRY(dt_codegen_llvm((const dt_plan *const *)compilation->plans, compilation->n_plans, NULL, job->code, job->n_levels));
    dt_timings_add(timings, "code generation", dt_seconds() - start);
    if (graph != NULL) DT_TRY(generate_cuda(call, job, graph, &gpu, timings));
    start = dt_seconds();
    DT_TRY(make_artifact(call, job, compilation, graph != NULL ? &cuda : NULL));
    dt_timings_add(timings, "artifact", dt_seconds() - start);
    return NULL;
}

/* ---- what it depends on ---- */

/* A name as make and ninja read it. */
static void print_name(dt_text *text, const char *name) {
    for (; *name != '\0'; name++) {
        if (*name == ' ' || *name == '#' || *name == '\\') dt_text_append(text, "\\");
        if (*name == '$') dt_text_append(text, "$");
        dt_text_append_bytes(text, name, 1);
    }
}

/* output: program module … */
static dt_status *write_depfile(dt_api_call *call, const job *job) {
    dt_text text = {.arena = call->arena};
    print_name(&text, job->options.output);
    dt_text_append(&text, ":");
    if (call->sources.n == 0) dt_text_append(&text, " "), print_name(&text, call->program.path); /* a graph */
    for (size_t i = 0; i < call->sources.n; i++) {
        const char *path = call->sources.items[i].path;
        if (path == NULL || (i == 0 && call->program.source != NULL)) continue;
        dt_text_append(&text, " ");
        print_name(&text, path);
    }
    dt_text_append(&text, "\n");
    return dt_file_write_atomic(job->options.depfile, text.data, text.n);
}

/* ---- the call ---- */

static const char *last_pass(stage stage) {
    if (stage == STAGE_IR) return "verify";
    if (is_model(stage)) return DT_ONNX_LAST_PASS;
    return stage == STAGE_OPT_IR ? "shard" : NULL;
}

/* Where the result goes. What is written may not take the place of a program, and an artifact needs a size and is a file. */
static dt_status *find_output(dt_api_call *call, job *job, const dt_module *module) {
    const char *program = call->program.path;
    bool is_artifact = job->emit == STAGE_ARTIFACT;
    if (job->options.output == NULL && job->bytes == NULL && is_artifact) {
        int n = (int)strlen(program) - (dt_api_ends_in(program, ".dt") ? 3 : 0);
        job->options.output = dt_arena_format(call->arena, "%.*s.dtx", n, program);
    }
    const char *output = job->options.output, *depfile = job->options.depfile;
    if (depfile != NULL && output == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "--depfile %s says what a file depends on: name it with --output", depfile);
    if (depfile != NULL) DT_TRY(dt_api_check_output(program, depfile));
    if (output != NULL) DT_TRY(dt_api_check_output(program, output));
    if (!is_artifact) return NULL;
    if (output != NULL && dt_api_ends_in(output, ".dt"))
        return dt_error(DT_INVALID_ARGUMENT, "-o %s: .dt is the end of a program's name, .dtx that of an artifact's", output);
    return module->capacity > 0 ? NULL : dt_error_in(DT_INVALID_ARGUMENT, program, 0, "for how many rows is memory to be planned? --batch says it");
}

static dt_status *compile(dt_api_call *call, job *job, dt_compilation *compilation, dt_text *dumps, dt_timings *timings, dt_text *graph) {
    double start = dt_seconds();
    DT_TRY(dt_api_load(call, &compilation->module));
    dt_timings_add(timings, "front end", dt_seconds() - start);
    DT_TRY(find_output(call, job, compilation->module));
    if (is_model(job->emit)) DT_TRY(dt_api_refused(call, compilation->module, dt_onnx_select(compilation->module, job->options.step, &job->model)));
    if (job->options.weights != NULL) DT_TRY(dt_weights_read(job->options.weights, &job->weights));
    if (job->target == DT_TARGET_CUDA && job->emit == STAGE_ARTIFACT) {
        compilation->target = DT_TARGET_CPU;
        dt_module_print(graph, compilation->module);
    }
    const char *pass = job->options.dump_after;
    DT_TRY(dt_api_run_passes(call, compilation,
                             &(dt_passes_options){.dump_after = pass, .stop_after = last_pass(job->emit), .dumps = dumps, .timings = timings}));
    if (pass != NULL && dumps->data == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "--dump-after=%s: this pass is not run: --emit ends before it, or -O leaves it out", pass);
    return job->emit != STAGE_ARTIFACT ? dt_api_refused(call, compilation->module, emit_stage(job, compilation))
                                       : generate(call, job, compilation, graph->data, timings);
}

/* What code, choices and summaries need of plans that were read: printing them again needs nothing. */
static dt_status *check_plans(const dt_api_call *call, const job *job) {
    const char *path = call->program.path;
    const dt_plan_set *set = &job->plans.items[0];
    bool for_gpus = set->plans[0]->batched, of_gpus = job->emit == STAGE_CUDA || job->target != DT_TARGET_CPU;
    if (job->plans.n > 1)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "there are plans for %d targets: code is made of those for one", job->plans.n);
    if (for_gpus != of_gpus && job->emit != STAGE_PLAN)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "plans for %s become no code for %s", for_gpus ? "GPUs" : "CPUs",
                           for_gpus ? "CPUs" : "GPUs");
    for (int p = 0; p < set->n_plans; p++) DT_TRY(dt_api_check_placed(call, set->plans[p]));
    return NULL;
}

/* What is left to do for a plan in text form: its code, or to print it. */
static dt_status *compile_plans(dt_api_call *call, job *job, dt_compilation *compilation) {
    const char *path = call->program.path;
    if (!is_code(job->emit) && job->emit != STAGE_KERNELS && job->emit != STAGE_PLAN && job->emit != STAGE_CUDA)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0,
                           "a plan says nothing of variables and data: --emit=object, llvm, asm, c, cuda, kernels or plan");
    if (job->off != 0 || job->options.dump_after != NULL || job->options.profile)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "a plan has been made: -O, --dump-after and --profile are for programs");
    DT_TRY(dt_api_load_plans(call, &job->plans));
    const dt_plan_set *set = &job->plans.items[0];
    if (job->emit != STAGE_KERNELS || job->options.cpu != NULL || job->target != DT_TARGET_CPU) DT_TRY(check_plans(call, job));
    if (set->choices != NULL && job->options.cpu == NULL) job->levels[job->n_levels - 1] = set->choices->target->level;
    if (set->plans[0]->batched) compilation->target = DT_TARGET_CUDA;
    compilation->plans = set->plans;
    compilation->n_plans = set->n_plans;
    DT_TRY(find_output(call, job, NULL));
    return emit_stage(job, compilation);
}

static dt_status *work(dt_api_call *call, void *context) {
    job *job = context;
    dt_arena *arena = call->arena;
    dt_compilation compilation = {.arena = arena, .off = job->off, .target = job->target, .profile = job->options.profile != 0};
    dt_text dumps = {.arena = arena}, graph = {.arena = arena}, timing_text = {.arena = arena};
    dt_timings timings = {0};
    dt_status *status = dt_api_is_plan(call) ? compile_plans(call, job, &compilation) : compile(call, job, &compilation, &dumps, &timings, &graph);
    status = dt_status_first(status, dt_api_report_text(call, DTC_REPORT, dumps.data));
    status = dt_status_first(status, dt_api_report_warnings(call, &compilation, status == NULL && job->emit != STAGE_IR && job->plans.n == 0));
    if (job->options.time_passes) dt_timings_print(&timing_text, &timings);
    status = dt_status_first(status, dt_api_report_text(call, DTC_REPORT, timing_text.data));
    DT_TRY(status);
    DT_TRY(dt_api_give(&job->output, job->options.output, job->bytes));
    return job->options.depfile != NULL ? write_depfile(call, job) : NULL;
}

dt_status *dtc_compile(const dtc_program *program, const dtc_compile_options *options, dtc_bytes *bytes) {
    job job = {.bytes = bytes};
    if (bytes != NULL) *bytes = (dtc_bytes){0};
    dt_status *status = read_options(&job, program, options);
    if (status == NULL) status = dt_api_run(program, work, &job);
    for (int i = 0; i < job.n_levels; i++) free(job.code[i].bytes);
    dt_cuda_code_free(&job.cuda.code);
    dt_text_free(&job.cuda_warnings);
    dt_weights_free(job.weights);
    dt_text_free(&job.output);
    return status;
}
