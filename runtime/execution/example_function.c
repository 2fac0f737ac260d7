/* example_function: see example_function.h. An instance is an executor with one microbatch, on a core of its own. */
#include "runtime/execution/example_function.h"

#include "base/arena.h"
#include "base/memory.h"
#include "runtime/execution/executor.h"

#include <assert.h>

struct dt_example_function {
    dt_arena *arena;
    int function;
    dt_memory_domain domain;
    dt_executor executor;
    const void **results; /* [n_results] */
};

/* Where the results are. One that is an input is wherever the call's input was. */
static void place_results(dt_example_function *instance) {
    const dt_artifact_function *plan = dt_example_function_plan(instance);
    instance->results = DT_NEW_ARRAY(instance->arena, const void *, plan->n_results);
    for (int i = 0; i < plan->n_results; i++) {
        int buffer = plan->results[i].buffer;
        if (plan->buffers[buffer].space != DT_MEMORY_INPUT)
            instance->results[i] = dt_executor_memory_address(&instance->executor.memory, instance->function, buffer, 0, 0, 0);
    }
}

static dt_status *create_guarded(dt_example_function *instance, const dt_kernels *kernels) {
    jmp_buf guard;
    dt_executor *executor = &instance->executor;
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to run %s", artifact->functions[instance->function].name);
    dt_arena_guard(instance->arena, &guard);
    *executor = (dt_executor){.kernels = kernels, .domain = &instance->domain};
    int64_t rows = dt_function_role_has_rows(artifact->functions[instance->function].role) ? artifact->microbatch_rows : 1;
    executor->memory = (dt_executor_memory){
        .artifact = artifact, .domain = &instance->domain, .n_microbatches = 1, .n_together = 1, .n_all_microbatches = 1, .rows = {rows, 1, rows}};
    DT_TRY(dt_device_open(&dt_device_cpu, 0, 1, &executor->device));
    instance->domain = (dt_memory_domain){.device = executor->device,
                                          .n_executors = 1,
                                          .n_parts = 1,
                                          .n_shards = 1,
                                          .n_rounds = 1,
                                          .layout = dt_state_layout_of((dt_process_roles){.n_processes = 1}, DT_SHARES_NOTHING)};
    dt_memory_domain_lay_out(&instance->domain, artifact, 1, instance->function, instance->arena);
    dt_executor_memory_lay_out(&executor->memory, executor->device->kind, instance->function, instance->arena);
    DT_TRY(dt_memory_domain_allocate(&instance->domain));
    DT_TRY(dt_executor_allocate(executor));
    dt_executor_plan(executor, instance->function, instance->arena);
    DT_TRY(dt_executor_prepare(executor, instance->function, instance->arena));
    place_results(instance);
    return NULL;
}

dt_status *dt_example_function_create(const dt_kernels *kernels, int function, dt_example_function **instance) {
    dt_example_function *made = dt_allocate_zeroed(1, sizeof *made);
    dt_arena *arena = dt_arena_create();
    *instance = NULL;
    if (made == NULL || arena == NULL) {
        dt_release(made);
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to run %s", dt_kernels_artifact(kernels)->functions[function].name);
    }
    made->arena = arena;
    made->function = function;
    dt_status *status = create_guarded(made, kernels);
    dt_arena_guard(arena, NULL);
    if (status == NULL)
        *instance = made;
    else
        dt_example_function_destroy(made);
    return status;
}

void dt_example_function_destroy(dt_example_function *instance) {
    if (instance == NULL) return;
    dt_executor_free(&instance->executor);
    dt_memory_domain_free(&instance->domain);
    dt_device_close(instance->executor.device);
    dt_arena_destroy(instance->arena);
    dt_release(instance);
}

static void call(dt_example_function *instance, const void *const *inputs, dt_launch launch) {
    dt_run_values values = {.function = instance->function, .inputs = inputs, .launch = launch, .step = dt_example_function_plan(instance)->name};
    dt_status *status = dt_executor_start(&instance->executor, &values);
    assert(status == NULL); /* a cpu runs its calls, and nothing crosses replicas */
    dt_status_free(status);
    const dt_artifact_function *plan = dt_example_function_plan(instance);
    for (int i = 0; i < plan->n_results; i++) {
        const dt_artifact_buffer *buffer = &plan->buffers[plan->results[i].buffer];
        if (buffer->space == DT_MEMORY_INPUT) instance->results[i] = inputs[buffer->input];
    }
}

void dt_example_function_call(dt_example_function *instance, const void *const *inputs, int64_t counter, int64_t seed) {
    call(instance, inputs, (dt_launch){.valid = 1, .global_batch = 1, .replicas = 1, .epochs = 1, .counter = counter, .seed = seed});
}

void dt_example_function_call_rows(dt_example_function *instance, const void *const *inputs, int64_t first, int64_t rows, int64_t seed) {
    call(instance, inputs, (dt_launch){.valid = rows, .row_offset = first, .global_batch = rows, .replicas = 1, .epochs = 1, .seed = seed});
}

const void *dt_example_function_result(const dt_example_function *instance, int i) { return instance->results[i]; }

const dt_bad_index *dt_example_function_bad_index(const dt_example_function *instance) { return &instance->executor.bad_index[0]; }

const dt_artifact_function *dt_example_function_plan(const dt_example_function *instance) {
    return &instance->executor.memory.artifact->functions[instance->function];
}
