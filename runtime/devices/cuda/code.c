/* code: see the header. */
#include "runtime/devices/cuda/code.h"

#include "base/text.h"

#include <string.h>

enum {
    WAVES = 4, /* of blocks that a GPU runs at once: enough to even out what they have to do, few enough that starting them is cheap */
    LOG_BYTES = 2048
};

/* ---- which code ---- */

/* How good a module is for this GPU: 0 for one that it does not run. */
static int worth(const dt_cuda *cuda, const dt_artifact_module *module) {
    bool same_major = module->major == cuda->major, same = same_major && module->minor == cuda->minor;
    bool older = module->major < cuda->major || (same_major && module->minor <= cuda->minor);
    if (module->suffix == 'a' && !same) return 0;
    if (module->suffix == 'f' && !(same_major && older)) return 0;
    if (module->is_ptx) return older ? 1 + module->major * 10 + module->minor : 0;
    if (!same_major || !older) return 0;
    return 10000 + 10 * module->minor + (module->suffix != 0);
}

/* The best architecture below `limit`; NULL: there is none. */
static const dt_artifact_module *choose(const dt_cuda *cuda, const dt_artifact_cuda *about, int limit) {
    const dt_artifact_module *best = NULL;
    for (int m = 0; m < about->n_modules; m++) {
        int own = worth(cuda, &about->modules[m]);
        if (own > 0 && own < limit && (best == NULL || own > worth(cuda, best))) best = &about->modules[m];
    }
    return best;
}

static dt_status *nothing_fits(const dt_cuda_code *code) {
    const dt_artifact_cuda *about = code->artifact->cuda;
    const dt_cuda *cuda = code->cuda;
    dt_text has = {0};
    for (int m = 0; m < about->n_modules; m++)
        if (about->modules[m].unit == 0) dt_text_format(&has, "%s%s", has.n > 0 ? ", " : "", about->modules[m].architecture);
    dt_status *status = dt_error(DT_FAILED_PRECONDITION,
                                 "%s: its code is for %s, and cuda:%d is sm_%d%d; compile it for that: dtc compile %s.dt --target cuda:sm_%d%d -o %s",
                                 code->artifact->path, has.data != NULL ? has.data : "no GPU", cuda->number, cuda->major, cuda->minor,
                                 code->artifact->name, cuda->major, cuda->minor, code->artifact->path);
    dt_text_free(&has);
    return status;
}

/* ---- loading ---- */

/* The driver does not take such code, as older ones do not take that of newer compilers: other code may do. */
static bool is_refusal(int error) {
    return error == DT_CUDA_INVALID_IMAGE || error == DT_CUDA_NO_BINARY_FOR_GPU || error == DT_CUDA_INVALID_PTX ||
           error == DT_CUDA_UNSUPPORTED_PTX_VERSION;
}

static void unload(dt_cuda_code *code) {
    for (int m = 0; m < code->n_modules; m++)
        if (code->modules[m] != NULL) code->cuda->driver.cuModuleUnload(code->modules[m]);
    code->n_modules = 0;
}

/* All units of an architecture; *refused: the driver takes no such code. */
static dt_status *load_architecture(dt_cuda_code *code, const char *architecture, bool *refused) {
    const dt_artifact_cuda *about = code->artifact->cuda;
    memset(code->modules, 0, (size_t)about->n_units * sizeof *code->modules);
    code->n_modules = about->n_units;
    code->architecture = architecture;
    for (int m = 0; m < about->n_modules; m++) {
        const dt_artifact_module *module = &about->modules[m];
        char log[LOG_BYTES] = "";
        int options[] = {DT_CUDA_JIT_ERROR_LOG, DT_CUDA_JIT_ERROR_LOG_BYTES};
        void *values[] = {log, (void *)(uintptr_t)sizeof log};
        if (strcmp(module->architecture, architecture) != 0) continue;
        int error = code->cuda->driver.cuModuleLoadDataEx(&code->modules[module->unit], module->bytes, 2, options, values);
        *refused = is_refusal(error);
        if (error == 0) continue;
        code->modules[module->unit] = NULL;
        unload(code);
        return dt_status_annotate(dt_cuda_driver_error(&code->cuda->driver, "cuModuleLoadDataEx", error), "%s: %s%s%.*s", code->artifact->path,
                                  module->file, log[0] != 0 ? ": " : "", (int)strcspn(log, "\n"), log);
    }
    return NULL;
}

/* Both versions, behind what the driver says. */
static dt_status *too_old(const dt_cuda_code *code, dt_status *refusal) {
    int version = code->cuda->driver_version;
    dt_status *status = dt_error(DT_FAILED_PRECONDITION,
                                 "%s; its driver is for CUDA %d.%d, the code was made by %s: what helps is a newer driver, or an artifact of a dtc "
                                 "with an NVRTC of the driver's version",
                                 dt_status_message(refusal), version / 1000, version % 1000 / 10, code->artifact->cuda->compiler);
    dt_status_free(refusal);
    return status;
}

static dt_status *load_modules(dt_cuda_code *code) {
    const dt_artifact_cuda *about = code->artifact->cuda;
    dt_status *refusal = NULL;
    int limit = INT32_MAX;
    for (const dt_artifact_module *best; (best = choose(code->cuda, about, limit)) != NULL; limit = worth(code->cuda, best)) {
        bool refused = false;
        dt_status *status = load_architecture(code, best->architecture, &refused);
        if (status == NULL || !refused) {
            dt_status_free(refusal);
            return status;
        }
        refusal = dt_status_first(refusal, status);
    }
    return refusal != NULL ? too_old(code, refusal) : nothing_fits(code);
}

/* ---- functions ---- */

static dt_status *too_large(const dt_cuda_code *code, const dt_artifact_launch *launch, void *handle) {
    int registers = 0, shared_bytes = 0;
    DT_CUDA_TRY(code->cuda, cuFuncGetAttribute, &registers, DT_CUDA_FUNCTION_REGISTERS, handle);
    DT_CUDA_TRY(code->cuda, cuFuncGetAttribute, &shared_bytes, DT_CUDA_FUNCTION_SHARED_BYTES, handle);
    return dt_error(DT_FAILED_PRECONDITION, "%s: a block of %s has %d threads of %d registers and %d bytes of shared memory, more than cuda:%d holds",
                    code->artifact->path, launch->function, launch->threads, registers, shared_bytes, code->cuda->number);
}

static dt_status *find_function(const dt_cuda_code *code, const dt_artifact_launch *launch, dt_cuda_function *function) {
    const dt_cuda *cuda = code->cuda;
    int resident = 0, registers;
    int error = cuda->driver.cuModuleGetFunction(&function->handle, code->modules[launch->unit], launch->function);
    if (error == DT_CUDA_NOT_FOUND)
        return dt_error(DT_DATA_LOSS, "%s: the code for %s lacks the function %s; compile it again", code->artifact->path, code->architecture,
                        launch->function);
    DT_TRY(dt_status_annotate(dt_cuda_driver_error(&cuda->driver, "cuModuleGetFunction", error), "%s", launch->function));
    /* The driver may put a function on the GPU when it is first asked for, which must not be while a graph is made. */
    DT_CUDA_TRY(cuda, cuFuncGetAttribute, &registers, DT_CUDA_FUNCTION_REGISTERS, function->handle);
    DT_CUDA_TRY(cuda, cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident, function->handle, launch->threads, 0);
    if (resident < 1) return too_large(code, launch, function->handle);
    function->most_blocks = (int64_t)WAVES * resident * cuda->n_multiprocessors;
    return NULL;
}

static dt_status *find_functions(dt_cuda_code *code, dt_arena *arena) {
    const dt_artifact *program = code->artifact->cuda->program;
    int most_arguments = 2;
    code->functions = DT_NEW_ARRAY(arena, dt_cuda_function **, program->n_functions);
    for (int f = 0; f < program->n_functions; f++) {
        const dt_artifact_function *function = &program->functions[f];
        if (function->role != DT_ROLE_INIT && function->role != DT_ROLE_STEP) continue;
        code->functions[f] = DT_NEW_ARRAY(arena, dt_cuda_function *, function->n_kernels);
        for (int k = 0; k < function->n_kernels; k++) {
            const dt_artifact_kernel *kernel = &function->kernels[k];
            code->functions[f][k] = DT_NEW_ARRAY(arena, dt_cuda_function, kernel->n_launches);
            for (int l = 0; l < kernel->n_launches; l++) {
                DT_TRY(find_function(code, &kernel->launches[l], &code->functions[f][k][l]));
                if (kernel->launches[l].n_arguments + 1 > most_arguments) most_arguments = kernel->launches[l].n_arguments + 1;
            }
        }
    }
    code->values = DT_NEW_ARRAY(arena, void *, most_arguments);
    code->arguments = DT_NEW_ARRAY(arena, void *, most_arguments);
    for (int a = 0; a < most_arguments; a++) code->arguments[a] = &code->values[a];
    return find_function(code, &code->artifact->cuda->fold, &code->fold);
}

/* ---- libraries ---- */

static dt_status *find_around(const dt_cuda_code *code, const dt_artifact_launch *launch, void **handle) {
    dt_cuda_function function = {0};
    if (launch->function != NULL) DT_TRY(find_function(code, launch, &function));
    *handle = function.handle;
    return NULL;
}

static dt_status *prepare_libraries(dt_cuda_code *code, dt_arena *arena) {
    const dt_artifact_cuda *about = code->artifact->cuda;
    dt_cuda_library_functions around = {.threads = (unsigned)about->fold.threads};
    DT_TRY(find_around(code, &about->clear_rows, &around.clear_rows));
    DT_TRY(find_around(code, &about->turn, &around.turn));
    code->libraries = dt_cuda_libraries_create(&code->cuda->driver, &around, code->artifact->capacity, arena);
    for (int f = 0; f < about->program->n_functions; f++)
        for (int k = 0; code->functions[f] != NULL && k < about->program->functions[f].n_kernels; k++) {
            const dt_artifact_kernel *kernel = &about->program->functions[f].kernels[k];
            for (int l = 0; l < kernel->n_launches; l++)
                if (kernel->launches[l].library != NULL)
                    DT_TRY(dt_status_annotate(dt_cuda_libraries_prepare(code->libraries, kernel->launches[l].function, kernel->launches[l].library,
                                                                        &code->functions[f][k][l].library),
                                              "%s", code->artifact->path));
        }
    return NULL;
}

size_t dt_cuda_code_workspace_bytes(const dt_cuda_code *code) {
    return code->libraries != NULL ? dt_cuda_libraries_workspace_bytes(code->libraries) : 0;
}

/* ---- all of it ---- */

dt_status *dt_cuda_code_load(const dt_cuda *cuda, const dt_artifact *artifact, bool use_libraries, dt_arena *arena, dt_cuda_code *code) {
    *code = (dt_cuda_code){.cuda = cuda, .artifact = artifact};
    code->modules = DT_NEW_ARRAY(arena, void *, artifact->cuda->n_units);
    DT_TRY(dt_cuda_enter(cuda));
    DT_TRY(load_modules(code));
    DT_TRY(find_functions(code, arena));
    return use_libraries ? prepare_libraries(code, arena) : NULL;
}

void dt_cuda_code_free(dt_cuda_code *code) {
    dt_cuda_libraries_destroy(code->libraries);
    unload(code);
    *code = (dt_cuda_code){0};
}

/* ---- launching ---- */

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

/* The arguments stand in code->values. `n_threads`: that have something to do. */
static dt_status *launch(const dt_cuda_code *code, const dt_cuda_function *function, int64_t n_threads, int threads) {
    int64_t n_blocks = n_threads / threads + (n_threads % threads != 0);
    if (n_blocks < 1) n_blocks = 1;
    if (n_blocks > function->most_blocks) n_blocks = function->most_blocks;
    DT_CUDA_TRY(code->cuda, cuLaunchKernel, function->handle, (unsigned)n_blocks, 1, 1, (unsigned)threads, 1, 1, 0, code->cuda->stream,
                code->arguments, NULL);
    return NULL;
}

static dt_status *enqueue_one(dt_cuda_code *code, const dt_cuda_call *call, const dt_artifact_launch *about, const dt_cuda_function *function) {
    if (function->library != NULL) return dt_cuda_library_run(function->library, call->buffers, call->launch, code->workspace, code->cuda->stream);
    int64_t n_threads = about->n_items > INT64_MAX / about->team ? INT64_MAX : about->n_items * about->team;
    for (int a = 0; a < about->n_arguments; a++) code->values[a] = pointer(call->buffers[about->arguments[a]]);
    code->values[about->n_arguments] = pointer(call->launch);
    return launch(code, function, n_threads, about->threads);
}

dt_status *dt_cuda_enqueue(dt_cuda_code *code, const dt_cuda_call *call) {
    const dt_artifact_kernel *kernel = &code->artifact->cuda->program->functions[call->function].kernels[call->kernel];
    for (int l = 0; l < kernel->n_launches; l++) {
        const dt_artifact_launch *about = &kernel->launches[l];
        DT_TRY(dt_status_annotate(enqueue_one(code, call, about, &code->functions[call->function][call->kernel][l]), "%s (%s)", about->function,
                                  kernel->lines));
    }
    return NULL;
}

dt_status *dt_cuda_warm(dt_cuda_code *code, const dt_cuda_call *call) {
    const dt_artifact_kernel *kernel = &code->artifact->cuda->program->functions[call->function].kernels[call->kernel];
    for (int l = 0; l < kernel->n_launches; l++) {
        dt_cuda_library_operation *library = code->functions[call->function][call->kernel][l].library;
        if (library == NULL) continue;
        DT_TRY(dt_status_annotate(dt_cuda_library_warm(library, call->buffers, code->workspace, code->cuda->stream), "%s (%s)",
                                  kernel->launches[l].function, kernel->lines));
    }
    return NULL;
}

dt_status *dt_cuda_enqueue_fold(dt_cuda_code *code, uint64_t work, int64_t n_elements, uint64_t launch_values) {
    const dt_artifact_launch *about = &code->artifact->cuda->fold;
    code->values[0] = pointer(work);
    code->values[1] = pointer(launch_values);
    return dt_status_annotate(launch(code, &code->fold, n_elements, about->threads), "%s, what replicas have left", about->function);
}
