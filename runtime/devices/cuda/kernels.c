/* kernels: see the header. */
#include "runtime/devices/cuda/kernels.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum {
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

static dt_status *nothing_fits(const dt_cuda_kernels *kernels) {
    const dt_artifact_cuda *about = kernels->artifact->cuda;
    const dt_cuda *cuda = kernels->cuda;
    dt_text has = {0};
    for (int m = 0; m < about->n_modules; m++)
        if (about->modules[m].unit == 0) dt_text_format(&has, "%s%s", has.n > 0 ? ", " : "", about->modules[m].architecture);
    char target[32];
    snprintf(target, sizeof target, "cuda:sm_%d%d", cuda->major, cuda->minor);
    dt_status *status = dt_error_in(DT_FAILED_PRECONDITION, kernels->artifact->path, 0, "its code is for %s, and cuda:%d is %s; compile it for that",
                                    has.data != NULL ? has.data : "no GPU", cuda->number, strchr(target, ':') + 1);
    dt_text_free(&has);
    return dt_artifact_suggest(status, kernels->artifact, "--target", target);
}

/* ---- loading ---- */

/* The driver does not take such code, as older ones do not take that of newer compilers: other code may do. */
static bool is_refusal(int error) {
    return error == DT_CUDA_INVALID_IMAGE || error == DT_CUDA_NO_BINARY_FOR_GPU || error == DT_CUDA_INVALID_PTX ||
           error == DT_CUDA_UNSUPPORTED_PTX_VERSION;
}

static void unload(dt_cuda_kernels *kernels) {
    for (int m = 0; m < kernels->n_modules; m++)
        if (kernels->modules[m] != NULL) kernels->cuda->driver.cuModuleUnload(kernels->modules[m]);
    kernels->n_modules = 0;
}

/* All units of an architecture; *refused: the driver takes no such code. */
static dt_status *load_architecture(dt_cuda_kernels *kernels, const char *architecture, bool *refused) {
    const dt_artifact_cuda *about = kernels->artifact->cuda;
    memset(kernels->modules, 0, (size_t)about->n_units * sizeof *kernels->modules);
    kernels->n_modules = about->n_units;
    kernels->architecture = architecture;
    for (int m = 0; m < about->n_modules; m++) {
        const dt_artifact_module *module = &about->modules[m];
        char log[LOG_BYTES] = "";
        int options[] = {DT_CUDA_JIT_ERROR_LOG, DT_CUDA_JIT_ERROR_LOG_BYTES};
        void *values[] = {log, (void *)(uintptr_t)sizeof log};
        if (strcmp(module->architecture, architecture) != 0) continue;
        int error = kernels->cuda->driver.cuModuleLoadDataEx(&kernels->modules[module->unit], module->bytes, 2, options, values);
        *refused = is_refusal(error);
        if (error == 0) continue;
        kernels->modules[module->unit] = NULL;
        unload(kernels);
        return dt_status_annotate(dt_cuda_driver_error(&kernels->cuda->driver, "cuModuleLoadDataEx", error), "%s: %s%s%.*s", kernels->artifact->path,
                                  module->file, log[0] != 0 ? ": " : "", (int)strcspn(log, "\n"), log);
    }
    return NULL;
}

/* Both versions, behind what the driver says. */
static dt_status *too_old(const dt_cuda_kernels *kernels, dt_status *refusal) {
    int version = kernels->cuda->driver_version;
    dt_status *status = dt_error(DT_FAILED_PRECONDITION,
                                 "%s; its driver is for CUDA %d.%d, the code was made by %s: what helps is a newer driver, or an artifact of a dtc "
                                 "with an NVRTC of the driver's version",
                                 dt_status_message(refusal), version / 1000, version % 1000 / 10, kernels->artifact->cuda->compiler);
    dt_status_free(refusal);
    return status;
}

static dt_status *load_modules(dt_cuda_kernels *kernels) {
    const dt_artifact_cuda *about = kernels->artifact->cuda;
    dt_status *refusal = NULL;
    int limit = INT32_MAX;
    for (const dt_artifact_module *best; (best = choose(kernels->cuda, about, limit)) != NULL; limit = worth(kernels->cuda, best)) {
        bool refused = false;
        dt_status *status = load_architecture(kernels, best->architecture, &refused);
        if (status == NULL || !refused) {
            dt_status_free(refusal);
            return status;
        }
        refusal = dt_status_first(refusal, status);
    }
    return refusal != NULL ? too_old(kernels, refusal) : nothing_fits(kernels);
}

/* ---- functions ---- */

static dt_status *too_large(const dt_cuda_kernels *kernels, const dt_artifact_launch *launch, void *handle) {
    int registers = 0, shared_bytes = 0;
    DT_CUDA_TRY(kernels->cuda, cuFuncGetAttribute, &registers, DT_CUDA_FUNCTION_REGISTERS, handle);
    DT_CUDA_TRY(kernels->cuda, cuFuncGetAttribute, &shared_bytes, DT_CUDA_FUNCTION_SHARED_BYTES, handle);
    return dt_error_in(DT_FAILED_PRECONDITION, kernels->artifact->path, 0,
                       "a block of %s has %d threads of %d registers and %d bytes of shared memory, more than cuda:%d holds", launch->function,
                       launch->threads, registers, shared_bytes, kernels->cuda->number);
}

static dt_status *find_function(const dt_cuda_kernels *kernels, const dt_artifact_launch *launch, dt_cuda_entry *function) {
    const dt_cuda *cuda = kernels->cuda;
    int resident = 0, registers;
    int error = cuda->driver.cuModuleGetFunction(&function->handle, kernels->modules[launch->unit], launch->function);
    if (error == DT_CUDA_NOT_FOUND)
        return dt_error_in(DT_DATA_LOSS, kernels->artifact->path, 0, "the code for %s lacks the function %s; compile it again", kernels->architecture,
                           launch->function);
    DT_TRY(dt_status_annotate(dt_cuda_driver_error(&cuda->driver, "cuModuleGetFunction", error), "%s", launch->function));
    /* The driver may put a function on the GPU when it is first asked for, which must not be while a graph is made. */
    DT_CUDA_TRY(cuda, cuFuncGetAttribute, &registers, DT_CUDA_FUNCTION_REGISTERS, function->handle);
    DT_CUDA_TRY(cuda, cuOccupancyMaxActiveBlocksPerMultiprocessor, &resident, function->handle, launch->threads, 0);
    if (resident < 1) return too_large(kernels, launch, function->handle);
    function->most_blocks = (int64_t)DT_CUDA_WAVES * resident * cuda->n_multiprocessors;
    return NULL;
}

static dt_status *find_functions(dt_cuda_kernels *kernels, dt_arena *arena) {
    const dt_artifact *program = kernels->artifact->cuda->program;
    int most_arguments = 0, most_buffers = 0;
    kernels->functions = DT_NEW_ARRAY(arena, dt_cuda_entry **, program->n_functions);
    for (int f = 0; f < program->n_functions; f++) {
        const dt_artifact_function *function = &program->functions[f];
        if (function->role != DT_ROLE_INIT && function->role != DT_ROLE_STEP) continue;
        kernels->functions[f] = DT_NEW_ARRAY(arena, dt_cuda_entry *, function->n_kernels);
        for (int k = 0; k < function->n_kernels; k++) {
            const dt_artifact_kernel *kernel = &function->kernels[k];
            if (kernel->n_buffers > most_buffers) most_buffers = kernel->n_buffers;
            kernels->functions[f][k] = DT_NEW_ARRAY(arena, dt_cuda_entry, kernel->n_launches);
            for (int l = 0; l < kernel->n_launches; l++) {
                DT_TRY(find_function(kernels, &kernel->launches[l], &kernels->functions[f][k][l]));
                if (kernel->launches[l].n_arguments > most_arguments) most_arguments = kernel->launches[l].n_arguments;
            }
        }
    }
    kernels->addresses = DT_NEW_ARRAY(arena, uint64_t, most_buffers);
    most_arguments += 2; /* the launch values, the iteration */
    kernels->values = DT_NEW_ARRAY(arena, void *, most_arguments);
    kernels->arguments = DT_NEW_ARRAY(arena, void *, most_arguments);
    for (int a = 0; a < most_arguments; a++) kernels->arguments[a] = &kernels->values[a];
    return find_function(kernels, &kernels->artifact->cuda->reduction, &kernels->reduction);
}

/* ---- libraries ---- */

static dt_status *find_around(const dt_cuda_kernels *kernels, const dt_artifact_launch *launch, void **handle) {
    dt_cuda_entry function = {0};
    if (launch->function != NULL) DT_TRY(find_function(kernels, launch, &function));
    *handle = function.handle;
    return NULL;
}

/* The call that computed the relu whose result the gradient `call` of that kernel reads: a library's, in the same function. The result is in memory
 * that serves one replica after another, in its place, each of which goes from the relu to the gradient before the next one there begins: so may the
 * mask. NULL: none. */
static dt_cuda_library_operation *find_relu(const dt_cuda_kernels *kernels, int f, int k, const dt_library_call *call) {
    const dt_artifact_function *function = &kernels->artifact->cuda->program->functions[f];
    int kept = function->kernels[k].buffers[call->product.kept];
    if (function->buffers[kept].space != DT_MEMORY_SCRATCH) return NULL;
    for (int earlier = k - 1; earlier >= 0; earlier--) {
        const dt_artifact_kernel *kernel = &function->kernels[earlier];
        for (int l = 0; l < kernel->n_launches; l++) {
            const dt_library_call *made = kernel->launches[l].library;
            if (made != NULL && made->class == DT_LIBRARY_PRODUCT && kernel->buffers[made->product.result.argument] == kept)
                return kernels->functions[f][earlier][l].library;
        }
    }
    return NULL;
}

static dt_status *prepare_library(dt_cuda_kernels *kernels, int f, int k, int l) {
    const dt_artifact_launch *launch = &kernels->artifact->cuda->program->functions[f].kernels[k].launches[l];
    const dt_library_call *call = launch->library;
    bool of_relu = call->class == DT_LIBRARY_PRODUCT && call->product.activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT;
    dt_cuda_library_operation *relu = of_relu ? find_relu(kernels, f, k, call) : NULL;
    dt_status *status = dt_cuda_libraries_prepare(kernels->libraries, launch->function, call, relu, &kernels->functions[f][k][l].library);
    return dt_status_annotate(status, "%s", kernels->artifact->path);
}

static dt_status *prepare_libraries(dt_cuda_kernels *kernels, dt_arena *arena) {
    const dt_artifact_cuda *about = kernels->artifact->cuda;
    dt_cuda_library_functions around = {.threads = (unsigned)about->reduction.threads};
    DT_TRY(find_around(kernels, &about->clear_rows, &around.clear_rows));
    DT_TRY(find_around(kernels, &about->transpose, &around.transpose));
    kernels->libraries = dt_cuda_libraries_create(&kernels->cuda->driver, &around, kernels->artifact->capacity, arena);
    for (int f = 0; f < about->program->n_functions; f++)
        for (int k = 0; kernels->functions[f] != NULL && k < about->program->functions[f].n_kernels; k++)
            for (int l = 0; l < about->program->functions[f].kernels[k].n_launches; l++)
                if (about->program->functions[f].kernels[k].launches[l].library != NULL) DT_TRY(prepare_library(kernels, f, k, l));
    return NULL;
}

size_t dt_cuda_kernels_workspace_bytes(const dt_cuda_kernels *kernels, int n_places) {
    return kernels->libraries != NULL ? dt_cuda_libraries_workspace_bytes(kernels->libraries, n_places) : 0;
}

/* ---- all of it ---- */

dt_status *dt_cuda_kernels_load(const dt_cuda *cuda, const dt_artifact *artifact, bool use_libraries, dt_arena *arena, dt_cuda_kernels *kernels) {
    *kernels = (dt_cuda_kernels){.cuda = cuda, .artifact = artifact};
    kernels->modules = DT_NEW_ARRAY(arena, void *, artifact->cuda->n_units);
    DT_TRY(dt_cuda_enter(cuda));
    DT_TRY(load_modules(kernels));
    DT_TRY(find_functions(kernels, arena));
    return use_libraries ? prepare_libraries(kernels, arena) : NULL;
}

void dt_cuda_kernels_free(dt_cuda_kernels *kernels) {
    dt_cuda_libraries_destroy(kernels->libraries);
    unload(kernels);
    *kernels = (dt_cuda_kernels){0};
}

/* ---- launching ---- */

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

/* The arguments stand in kernels->values. `n_threads`: that have something to do. */
static dt_status *launch(const dt_cuda_kernels *kernels, const dt_cuda_entry *function, int64_t n_threads, int threads, void *stream) {
    int64_t n_blocks = n_threads / threads + (n_threads % threads != 0);
    if (n_blocks < 1) n_blocks = 1;
    if (n_blocks > function->most_blocks) n_blocks = function->most_blocks;
    DT_CUDA_TRY(kernels->cuda, cuLaunchKernel, function->handle, (unsigned)n_blocks, 1, 1, (unsigned)threads, 1, 1, 0, stream, kernels->arguments,
                NULL);
    return NULL;
}

/* How many of a kernel's launches, from this one on, are done at once: those that a library's call stands for, where one does it. */
static int n_at_once(const dt_artifact_launch *about, const dt_cuda_entry *function) {
    return function->library != NULL ? (int)about->library->n_launches : 1;
}

static dt_cuda_library_place place_of(const dt_cuda_kernels *kernels, const dt_operation_launch *call) {
    return (dt_cuda_library_place){kernels->workspace, call->place, kernels->cuda->stream};
}

static void take_addresses(dt_cuda_kernels *kernels, const dt_operation_launch *call) {
    int n = dt_cuda_kernel_of(kernels, call)->n_buffers;
    for (int b = 0; b < n; b++) kernels->addresses[b] = (uint64_t)(uintptr_t)call->buffers[b];
}

static dt_status *launch_one(dt_cuda_kernels *kernels, const dt_operation_launch *call, const dt_artifact_launch *about,
                             const dt_cuda_entry *function) {
    const dt_cuda_library_place place = place_of(kernels, call);
    if (function->library != NULL) return dt_cuda_library_run(function->library, kernels->addresses, (uint64_t)(uintptr_t)call->values, &place);
    int64_t n_threads = about->n_items > INT64_MAX / about->team ? INT64_MAX : about->n_items * about->team;
    for (int a = 0; a < about->n_arguments; a++) kernels->values[a] = call->buffers[about->arguments[a]];
    kernels->values[about->n_arguments] = (void *)call->values;
    kernels->values[about->n_arguments + 1] = pointer((uint64_t)call->iteration); /* eight bytes like the others; not every function takes it */
    return launch(kernels, function, n_threads, about->threads, kernels->cuda->stream);
}

/* Whether the next call of a library does launch l beside its product. */
static bool is_done_beside(const dt_artifact_kernel *kernel, const dt_cuda_entry *functions, int l) {
    int next = l + 1;
    while (next < kernel->n_launches && kernel->launches[next].library == NULL) next++;
    if (next == kernel->n_launches || functions[next].library == NULL || !dt_cuda_library_does_bias_gradient(functions[next].library)) return false;
    return next - l <= kernel->launches[next].library->product.bias_gradient.n_launches;
}

const dt_artifact_kernel *dt_cuda_kernel_of(const dt_cuda_kernels *kernels, const dt_operation_launch *call) {
    return &kernels->artifact->cuda->program->functions[call->function].kernels[call->kernel];
}

dt_status *dt_cuda_launch(dt_cuda_kernels *kernels, const dt_operation_launch *call) {
    const dt_artifact_kernel *kernel = dt_cuda_kernel_of(kernels, call);
    const dt_cuda_entry *functions = kernels->functions[call->function][call->kernel];
    take_addresses(kernels, call);
    for (int l = 0; l < kernel->n_launches; l += n_at_once(&kernel->launches[l], &functions[l])) {
        if (is_done_beside(kernel, functions, l)) continue;
        const dt_artifact_launch *about = &kernel->launches[l];
        DT_TRY(dt_status_annotate(launch_one(kernels, call, about, &functions[l]), "%s (%s)", about->function, kernel->lines));
    }
    return NULL;
}

dt_status *dt_cuda_warm(dt_cuda_kernels *kernels, const dt_operation_launch *call) {
    const dt_artifact_kernel *kernel = dt_cuda_kernel_of(kernels, call);
    const dt_cuda_library_place place = place_of(kernels, call);
    take_addresses(kernels, call);
    for (int l = 0; l < kernel->n_launches; l++) {
        dt_cuda_entry *function = &kernels->functions[call->function][call->kernel][l];
        if (function->library == NULL || function->is_warm) continue;
        function->is_warm = true;
        DT_TRY(dt_status_annotate(dt_cuda_library_warm(&function->library, kernels->addresses, &place), "%s (%s)", kernel->launches[l].function,
                                  kernel->lines));
    }
    return NULL;
}

dt_status *dt_cuda_launch_reduction(dt_cuda_kernels *kernels, uint64_t work, int64_t n_elements, void *stream) {
    const dt_artifact_launch *about = &kernels->artifact->cuda->reduction;
    kernels->values[0] = pointer(work);
    return dt_status_annotate(launch(kernels, &kernels->reduction, n_elements, about->threads, stream), "%s, the sums over replicas",
                              about->function);
}
