/* gpu_kernels: each kernel of a program's steps alone on a GPU: its text by NVRTC, its buffers in the GPU's memory. What bench/gpu.sh runs.
 *
 * Of the runtime nothing is between, no staging and no sums over replicas; but with --library its calls of vendors' libraries. All launches of a
 * kernel count as one time. It prints JSON, a line about the GPU, with --copy what copying reaches there, then one for each kernel as soon as it is
 * known. */
#include "abi/launch.h"
#include "base/file.h"
#include "bench/gpu_time.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/count.h"
#include "compiler/pipeline.h"
#include "frontends/dsl/dsl.h"
#include "runtime/artifact/json_text.h"
#include "runtime/devices/cuda/kernels.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEFINES = 16,
    MOST_UNITS = 256,
    MOST_ARGUMENTS = 256
};

typedef struct options {
    const char *path, *step;
    dt_dsl_options dsl;
    dt_dsl_define defines[MOST_DEFINES];
    int64_t indices;   /* integers are below it */
    int64_t copied;    /* bytes of the copy; 0: nothing is copied */
    int most_launches; /* in a graph */
    bool library;      /* what libraries can do, they do */
} options;

typedef struct bench {
    const options *options;
    dt_arena *arena;
    dt_compilation compilation;
    dt_cuda_program program;
    gpu_time time;
    int n_modules;
    void *modules[MOST_UNITS];
    char architecture[16];
    dt_cuda_libraries *libraries; /* NULL: none are used */
} bench;

#define CALL(b, symbol, ...) DT_CUDA_TRY(&(b)->time.gpu, symbol, __VA_ARGS__)

/* ---- the program ---- */

static dt_status *elaborate(bench *b, dt_module **module) {
    char *source;
    size_t n_bytes;
    dt_text mistakes = {0};
    dt_diagnostics *diagnostics = dt_diagnostics_create(b->arena);
    DT_TRY(dt_file_read(b->options->path, &source, &n_bytes));
    dt_status *status = dt_dsl_compile(b->arena, b->options->path, source, &b->options->dsl, diagnostics, module);
    free(source);
    if (status == NULL && *module == NULL) {
        dt_diagnostics_print(&mistakes, diagnostics);
        status = dt_error(DT_INVALID_ARGUMENT, "%s", mistakes.data);
    }
    dt_text_free(&mistakes);
    return status;
}

static dt_status *compile(bench *b) {
    const char *architecture = b->architecture;
    dt_text warnings = {0};
    dt_gpu_choices *choices;
    dt_cuda_code code;
    b->compilation = (dt_compilation){.arena = b->arena, .target = DT_TARGET_CUDA};
    DT_TRY(elaborate(b, &b->compilation.module));
    DT_TRY(dt_passes_run(&b->compilation, &(dt_passes_options){0}));
    DT_TRY(dt_passes_choose_gpu(&b->compilation, &choices));
    dt_codegen_cuda(b->arena, choices, &b->program);
    DT_TRY(dt_cuda_compile(&b->program, &architecture, 1, NULL, &warnings, &code));
    dt_status *status = code.n_modules <= MOST_UNITS ? NULL : dt_error(DT_INTERNAL, "%d units are too many", code.n_modules);
    for (int m = 0; m < code.n_modules && status == NULL; m++) {
        int error = b->time.gpu.driver.cuModuleLoadDataEx(&b->modules[m], code.modules[m].bytes, 0, NULL, NULL);
        status = dt_cuda_driver_error(&b->time.gpu.driver, "cuModuleLoadDataEx", error);
        b->n_modules += status == NULL;
    }
    dt_cuda_code_free(&code);
    return status;
}

/* Is function f a step that was asked for? */
static bool is_wanted(const bench *b, int f) {
    const dt_function *function = b->compilation.module->functions.items[f];
    return function->role == DT_ROLE_STEP && (b->options->step == NULL || strcmp(function->name, b->options->step) == 0);
}

/* ---- memory ---- */

static size_t buffer_elements(const dt_plan *plan, const dt_kernel_function *kernel, int argument) {
    return (size_t)dt_shape_elements(plan->buffers[kernel->buffers[argument]].shape, plan->microbatch_rows, plan->microbatch_rows);
}

/* A kernel's buffers and its launch, one after the other, with 256 more bytes after each, which vector code may read. */
typedef struct memory {
    uint64_t all, at[MOST_ARGUMENTS], launch;
    int64_t iteration; /* 0: the first one of a loop */
} memory;

static dt_status *lay_out(bench *b, const dt_plan *plan, const dt_kernel_function *kernel, memory *m) {
    enum {
        LAUNCH_BYTES = 512
    };
    size_t total = 0;
    dt_launch launch = {.rows = plan->microbatch_rows,
                        .valid = plan->microbatch_rows,
                        .global_batch = plan->microbatch_rows,
                        .replicas = 1,
                        .epochs = 1,
                        .steps_per_epoch = 100,
                        .counter = 1,
                        .seed = 42,
                        .n_parts = 1};
    if (kernel->n_buffers > MOST_ARGUMENTS) return dt_error(DT_INTERNAL, "%s has %d buffers", kernel->name, kernel->n_buffers);
    for (int k = 0; k < kernel->n_buffers; k++) {
        m->at[k] = total;
        total += (buffer_elements(plan, kernel, k) * dt_dtype_bytes(plan->buffers[kernel->buffers[k]].dtype) + 511) / 256 * 256;
    }
    CALL(b, cuMemAlloc_v2, &m->all, total + LAUNCH_BYTES);
    for (int k = 0; k < kernel->n_buffers; k++) {
        m->at[k] += m->all;
        int64_t n = (int64_t)buffer_elements(plan, kernel, k);
        DT_TRY(gpu_time_fill(&b->time, m->at[k], plan->buffers[kernel->buffers[k]].dtype, n, b->options->indices));
    }
    m->launch = m->all + total;
    launch.bad_index = (dt_bad_index *)(uintptr_t)(m->launch + LAUNCH_BYTES / 2);
    CALL(b, cuMemsetD8Async, m->launch, 0, LAUNCH_BYTES, b->time.gpu.stream);
    CALL(b, cuMemcpyHtoDAsync_v2, m->launch, &launch, sizeof launch, b->time.gpu.stream);
    CALL(b, cuStreamSynchronize, b->time.gpu.stream);
    return NULL;
}

/* ---- libraries ---- */

/* The function of a source that no kernel calls; NULL for -1. */
static dt_status *find_source(bench *b, int source, void **function) {
    *function = NULL;
    if (source >= 0) CALL(b, cuModuleGetFunction, function, b->modules[dt_cuda_unit_of(source)], b->program.sources[source].name);
    return NULL;
}

static dt_status *open_libraries(bench *b) {
    dt_cuda_library_functions functions = {.threads = 256};
    if (!b->options->library) return NULL;
    DT_TRY(find_source(b, b->program.clear_rows, &functions.clear_rows));
    DT_TRY(find_source(b, b->program.transpose, &functions.transpose));
    b->libraries = dt_cuda_libraries_create(&b->time.gpu.driver, &functions, b->compilation.module->capacity, b->arena);
    return NULL;
}

/* What calls need beside their buffers; 0: nothing. */
static dt_status *make_workspace(bench *b, uint64_t *workspace) {
    size_t bytes = b->libraries != NULL ? dt_cuda_libraries_workspace_bytes(b->libraries, 1) : 0;
    *workspace = 0;
    if (bytes > 0) CALL(b, cuMemAlloc_v2, workspace, bytes);
    return NULL;
}

/* ---- time ---- */

/* A function with its arguments, found once: nothing but launches may stand in a graph. */
typedef struct launch {
    void *function, *arguments[MOST_ARGUMENTS + 2];
    unsigned blocks, threads;
    dt_cuda_library_operation *library; /* that does it instead; NULL: none */
    const dt_library_call *call;        /* what it does */
    bool is_beside;                     /* the library's product after it does this as well */
} launch;

/* How many launches, from this one on, are done at once: those that the library's call stands for, where there is one. */
static int n_at_once(const launch *launch) { return launch->library != NULL ? (int)launch->call->n_launches : 1; }

typedef struct kernel_run {
    memory memory;
    uint64_t workspace; /* of libraries */
    int n_launches;
    launch *launches;
} kernel_run;

static dt_status *find_launch(bench *b, const dt_cuda_call *call, memory *memory, launch *launch) {
    int resident;
    CALL(b, cuModuleGetFunction, &launch->function, b->modules[dt_cuda_unit_of(call->source)], call->name);
    CALL(b, cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident, launch->function, call->threads, 0);
    int64_t wanted = (call->n_items * call->team + call->threads - 1) / call->threads,
            most = (int64_t)DT_CUDA_WAVES * resident * b->time.gpu.n_multiprocessors;
    launch->blocks = (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
    launch->threads = (unsigned)call->threads;
    for (int a = 0; a < call->n_arguments; a++) launch->arguments[a] = &memory->at[call->arguments[a]];
    launch->arguments[call->n_arguments] = &memory->launch;
    launch->arguments[call->n_arguments + 1] = &memory->iteration;
    launch->call = call->library;
    if (b->libraries == NULL || call->library == NULL) return NULL;
    return dt_cuda_libraries_prepare(b->libraries, call->name, call->library, NULL, &launch->library);
}

/* Fills in all but the memory. */
static dt_status *find_launches(bench *b, int plan, int kernel, kernel_run *run) {
    run->launches = DT_NEW_ARRAY(b->arena, launch, b->program.n_calls);
    for (int i = 0; i < b->program.n_calls; i++) {
        const dt_cuda_call *call = &b->program.calls[i];
        if (call->plan != plan || call->kernel != kernel) continue;
        DT_TRY(find_launch(b, call, &run->memory, &run->launches[run->n_launches++]));
    }
    return NULL;
}

static dt_status *launch_kernel(gpu_time *g, void *context) {
    const kernel_run *run = context;
    for (int i = 0; i < run->n_launches; i += n_at_once(&run->launches[i])) {
        launch *l = &run->launches[i];
        if (l->is_beside) continue;
        if (l->library != NULL) {
            DT_TRY(dt_cuda_library_run(l->library, run->memory.at, run->memory.launch, &(dt_cuda_library_place){run->workspace, 0, g->gpu.stream}));
            continue;
        }
        DT_CUDA_TRY(&g->gpu, cuLaunchKernel, l->function, l->blocks, 1, 1, l->threads, 1, 1, 0, g->gpu.stream, l->arguments, NULL);
    }
    return NULL;
}

typedef struct copy {
    uint64_t from, bytes;
} copy;

static dt_status *copy_behind(gpu_time *g, void *context) {
    const copy *c = context;
    DT_CUDA_TRY(&g->gpu, cuMemcpyDtoDAsync_v2, c->from + c->bytes, c->from, c->bytes, g->gpu.stream);
    return NULL;
}

/* Bytes a second, those read and those written. */
static dt_status *measure_copy(bench *b, double *rate) {
    copy c = {.bytes = (uint64_t)b->options->copied};
    double seconds;
    CALL(b, cuMemAlloc_v2, &c.from, 2 * c.bytes);
    DT_TRY(gpu_time_fill(&b->time, c.from, DT_F32, (int64_t)(2 * c.bytes / sizeof(float)), 0));
    DT_TRY(gpu_time_of(&b->time, copy_behind, &c, &seconds));
    CALL(b, cuMemFree_v2, c.from);
    *rate = 2 * (double)c.bytes / seconds;
    return NULL;
}

/* ---- what is said ---- */

static void say_number(dt_text *text, const char *key, double value) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_number(text, value);
}

/* They load what they need when they are first asked, which a capture forbids. */
static dt_status *warm_libraries(bench *b, const kernel_run *run) {
    for (int i = 0; i < run->n_launches; i++)
        if (run->launches[i].library != NULL)
            DT_TRY(dt_cuda_library_warm(&run->launches[i].library, run->memory.at, &(dt_cuda_library_place){run->workspace, 0, b->time.gpu.stream}));
    return dt_cuda_wait(&b->time.gpu);
}

/* Which launches libraries do beside a product: known once they are warm, for until then they may refuse. */
static void find_beside(kernel_run *run) {
    for (int i = 0; i < run->n_launches; i++) {
        launch *product = &run->launches[i];
        if (product->library == NULL || !dt_cuda_library_does_bias_gradient(product->library)) continue;
        for (int64_t k = 1; k <= product->call->product.bias_gradient.n_launches; k++) product[-k].is_beside = true;
    }
}

static int n_by_libraries(const kernel_run *run) {
    int n = 0;
    for (int i = 0; i < run->n_launches; i++) n += run->launches[i].library != NULL ? n_at_once(&run->launches[i]) : run->launches[i].is_beside;
    return n;
}

static dt_status *time_kernel(bench *b, int p, int k, kernel_run *run, double *seconds) {
    const dt_plan *plan = b->compilation.plans[p];
    DT_TRY(find_launches(b, p, k, run));
    DT_TRY(lay_out(b, plan, &plan->kernels[k], &run->memory));
    DT_TRY(make_workspace(b, &run->workspace));
    DT_TRY(warm_libraries(b, run));
    find_beside(run);
    return gpu_time_of(&b->time, launch_kernel, run, seconds);
}

/* One that failed may have left something on the stream; if it is the GPU that failed, whatever comes next says so. */
static void free_memory(bench *b, const kernel_run *run) {
    const dt_cuda_driver *driver = &b->time.gpu.driver;
    driver->cuStreamSynchronize(b->time.gpu.stream);
    if (run->memory.all != 0) driver->cuMemFree_v2(run->memory.all);
    if (run->workspace != 0) driver->cuMemFree_v2(run->workspace);
}

static dt_status *print_line(dt_text *text) {
    dt_text_append(text, "}\n");
    dt_status *status = text->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) fputs(text->data, stdout), fflush(stdout);
    dt_text_free(text);
    return status;
}

/* A kernel that cannot be timed has its error in its line, and the others are timed all the same. */
static dt_status *say_kernel(bench *b, int p, int k, int *n_failed) {
    const dt_plan *plan = b->compilation.plans[p];
    const dt_kernel_function *kernel = &plan->kernels[k];
    dt_kernel_count count = dt_kernel_count_of(b->arena, plan, kernel);
    kernel_run run = {0};
    dt_text text = {0}, lines = {0};
    double seconds, rows = (double)plan->microbatch_rows;
    dt_status *status = time_kernel(b, p, k, &run, &seconds);
    free_memory(b, &run);
    dt_kernel_lines(&lines, plan, kernel);
    dt_text_format(&text, "{\"step\": \"%s\", \"name\": \"%s\", \"lines\": ", plan->name, kernel->name);
    dt_text_append_json_string(&text, lines.data != NULL ? lines.data : "");
    if (status != NULL) {
        dt_text_append(&text, ", \"error\": ");
        dt_text_append_json_string(&text, dt_status_message(status));
        ++*n_failed;
    } else {
        say_number(&text, "launches", run.n_launches);
        say_number(&text, "by_libraries", n_by_libraries(&run));
        say_number(&text, "seconds", seconds);
        say_number(&text, "bytes", dt_amount_of(count.bytes, rows, rows));
        say_number(&text, "flops", dt_amount_of(count.flops, rows, rows));
    }
    dt_status_free(status);
    dt_text_free(&lines);
    return print_line(&text);
}

static dt_status *say_gpu(bench *b) {
    dt_text text = {0};
    char name[128] = "";
    double copy = 0;
    CALL(b, cuDeviceGetName, name, (int)sizeof name - 1, b->time.gpu.device);
    if (b->options->copied > 0) DT_TRY(measure_copy(b, &copy));
    dt_text_append(&text, "{\"gpu\": ");
    dt_text_append_json_string(&text, name);
    dt_text_format(&text, ", \"architecture\": \"%s\", \"rows\": %lld", b->architecture, (long long)b->compilation.module->capacity);
    if (copy > 0) say_number(&text, "copy_bytes_per_second", copy);
    return print_line(&text);
}

static dt_status *say(bench *b) {
    int n = 0, n_failed = 0;
    DT_TRY(say_gpu(b));
    for (int p = 0; p < b->compilation.n_plans; p++)
        for (int k = 0; k < b->compilation.plans[p]->n_kernels && is_wanted(b, p); k++, n++) DT_TRY(say_kernel(b, p, k, &n_failed));
    if (n == 0) return dt_error(DT_INVALID_ARGUMENT, "%s has no step %s", b->options->path, b->options->step != NULL ? b->options->step : "at all");
    return n_failed == 0 ? NULL : dt_error(DT_INTERNAL, "%d of %d kernels could not be timed", n_failed, n);
}

static dt_status *run(bench *b) {
    DT_TRY(gpu_time_open(&b->time, b->options->most_launches));
    snprintf(b->architecture, sizeof b->architecture, "sm_%d%d", b->time.gpu.major, b->time.gpu.minor);
    dt_status *status = compile(b);
    if (status == NULL) status = open_libraries(b);
    if (status == NULL) status = say(b);
    dt_cuda_libraries_destroy(b->libraries);
    for (int m = 0; m < b->n_modules; m++) b->time.gpu.driver.cuModuleUnload(b->modules[m]);
    gpu_time_close(&b->time);
    return status;
}

/* ---- the command line ---- */

enum {
    KEY_STEP = 1000,
    KEY_ROWS,
    KEY_INDICES,
    KEY_COPY,
    KEY_LAUNCHES,
    KEY_PRECISION,
    KEY_LIBRARY
};

static const struct argp_option option_rows[] = {
    {"step", KEY_STEP, "NAME", 0, "The step whose kernels are run (default: all of them)", 0},
    {"rows", KEY_ROWS, "N", 0, "Rows of a replica (default: the program's)", 0},
    {"define", 'D', "NAME=VALUE", 0, "An option of the program", 0},
    {"precision", KEY_PRECISION, "f32|tf32|bf16", 0, "Of products (default: what the program says)", 0},
    {"library", KEY_LIBRARY, NULL, 0, "Leave to cuBLASLt and cuDNN what they can do", 0},
    {"indices", KEY_INDICES, "N", 0, "What integers in memory are below (default: 2)", 0},
    {"copy", KEY_COPY, "BYTES", 0, "Measure what copying so much reaches, too", 0},
    {"launches", KEY_LAUNCHES, "N", 0, "How many follow one another in a measurement at most (default: 200)", 0},
    {0},
};

static long long number_of(struct argp_state *state, const char *text) {
    char *end;
    long long number = strtoll(text, &end, 10);
    if (*end != 0 || number < 1) argp_error(state, "'%s' is no number from 1 on", text);
    return number;
}

static void define(options *o, char *text, struct argp_state *state) {
    char *value = strchr(text, '=');
    if (value == NULL || o->dsl.n_defines == MOST_DEFINES) {
        argp_error(state, "-D takes NAME=VALUE, %d times at most", MOST_DEFINES);
        return;
    }
    *value = 0;
    o->defines[o->dsl.n_defines++] = (dt_dsl_define){text, value + 1};
}

static error_t take_option(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case KEY_STEP: o->step = argument; return 0;
    case KEY_ROWS: o->dsl.capacity = number_of(state, argument); return 0;
    case KEY_PRECISION: o->dsl.precision = argument; return 0;
    case KEY_LIBRARY: o->library = true; return 0;
    case KEY_INDICES: o->indices = number_of(state, argument); return 0;
    case KEY_COPY: o->copied = number_of(state, argument); return 0;
    case KEY_LAUNCHES: o->most_launches = (int)number_of(state, argument); return 0;
    case 'D': define(o, argument, state); return 0;
    case ARGP_KEY_ARG:
        if (o->path != NULL) argp_error(state, "one program, please");
        o->path = argument;
        return 0;
    case ARGP_KEY_END:
        if (o->path == NULL) argp_error(state, "which program?");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv) {
    static const struct argp parser = {
        option_rows, take_option, "PROGRAM.dt", "Runs each kernel of a program's steps alone on a GPU, and prints as JSON what it takes and moves.",
        NULL,        NULL,        NULL};
    options o = {.indices = 2, .most_launches = 200};
    o.dsl.defines = o.defines;
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    bench b = {.options = &o, .arena = dt_arena_create()};
    dt_status *status = b.arena != NULL ? run(&b) : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status != NULL) fprintf(stderr, "gpu_kernels: %s\n", dt_status_message(status));
    dt_arena_destroy(b.arena);
    int code = status != NULL;
    dt_status_free(status);
    return code;
}
