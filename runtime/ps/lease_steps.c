/* lease_steps: see the header. */
#include "runtime/ps/lease_steps.h"

#include "base/memory.h"

#include <string.h>

static const dt_artifact_function *function_of(const dt_artifact *artifact, int step) { return &artifact->functions[artifact->steps[step].function]; }

static bool is_slot(const dt_artifact *artifact, const dt_artifact_buffer *buffer) {
    return buffer->space == DT_MEMORY_VARIABLE && artifact->variables[buffer->variable].kind == DT_VARIABLE_SLOT;
}

static bool gathers(const dt_artifact_kernel *kernel, int buffer) {
    for (int g = 0; g < kernel->n_gathers; g++)
        if (kernel->gathers[g].buffer == buffer) return true;
    return false;
}

void dt_ps_find_own_updates(const dt_artifact *artifact, int step, bool *is_own) {
    const dt_artifact_function *function = function_of(artifact, step);
    memset(is_own, 0, (size_t)artifact->n_variables * sizeof *is_own);
    for (int k = 0; k < function->n_kernels; k++) {
        const dt_artifact_kernel *kernel = &function->kernels[k];
        for (int w = 0; w < kernel->n_writes; w++) {
            const dt_artifact_buffer *buffer = &function->buffers[kernel->writes[w]];
            if (buffer->space == DT_MEMORY_VARIABLE && !is_slot(artifact, buffer) && !gathers(kernel, kernel->writes[w]))
                is_own[buffer->variable] = true;
        }
    }
}

static bool has_slots(const dt_artifact *artifact, const dt_artifact_function *function) {
    for (int b = 0; b < function->n_buffers; b++)
        if (is_slot(artifact, &function->buffers[b])) return true;
    return false;
}

/* What a worker does not have right, or not yet, while its step runs: what an update has changed, and what is computed of that. */
typedef struct late_values {
    const dt_artifact *artifact;
    const dt_artifact_function *function;
    bool has_slots;
    bool *variables; /* [n_variables] */
    bool *buffers;   /* [n_buffers] the others, roots */
} late_values;

static bool *flag_of(const late_values *late, int buffer) {
    const dt_artifact_buffer *root = &late->function->buffers[late->function->buffers[buffer].root];
    return root->space == DT_MEMORY_VARIABLE ? &late->variables[root->variable] : &late->buffers[root - late->function->buffers];
}

static bool touches_late(const late_values *late, const dt_artifact_kernel *kernel) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (*flag_of(late, kernel->buffers[b])) return true;
    return false;
}

static bool touches_slots(const late_values *late, const dt_artifact_kernel *kernel) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (is_slot(late->artifact, &late->function->buffers[kernel->buffers[b]])) return true;
    return false;
}

static bool is_parameter(const late_values *late, int buffer) {
    const dt_artifact_buffer *it = &late->function->buffers[buffer];
    return it->space == DT_MEMORY_VARIABLE && late->artifact->variables[it->variable].kind == DT_VARIABLE_PARAMETER;
}

/* What a kernel that runs once leaves. */
static void follow(const late_values *late, const dt_artifact_kernel *kernel) {
    bool is_late = touches_late(late, kernel) || touches_slots(late, kernel);
    for (int w = 0; w < kernel->n_writes; w++) {
        int buffer = kernel->writes[w];
        if (is_late || gathers(kernel, buffer) || (late->has_slots && is_parameter(late, buffer))) *flag_of(late, buffer) = true;
    }
}

/* Whether kernels that go through examples read anything that is late. Those of a segment run after its kernels that run once. */
static bool is_read_late(const late_values *late) {
    for (int s = 0; s < late->function->n_segments; s++) {
        const dt_artifact_segment *segment = &late->function->segments[s];
        for (int i = 0; i < segment->n_device_kernels; i++) follow(late, &late->function->kernels[segment->device_kernels[i]]);
        for (int i = 0; i < segment->n_replica_kernels; i++)
            if (touches_late(late, &late->function->kernels[segment->replica_kernels[i]])) return true;
    }
    return false;
}

dt_status *dt_ps_check_step(const dt_artifact *artifact, int step) {
    const dt_artifact_function *function = function_of(artifact, step);
    late_values late = {.artifact = artifact, .function = function, .has_slots = has_slots(artifact, function)};
    late.variables = dt_allocate_zeroed((size_t)artifact->n_variables + 1, sizeof *late.variables);
    late.buffers = dt_allocate_zeroed((size_t)function->n_buffers + 1, sizeof *late.buffers);
    bool is_known = late.variables != NULL && late.buffers != NULL, is_late = is_known && is_read_late(&late);
    dt_release(late.variables);
    dt_release(late.buffers);
    if (!is_known) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (!is_late) return NULL;
    return dt_error(DT_FAILED_PRECONDITION,
                    "step %s needs its worker after an update has begun, for what is computed of the examples then: train it with --staleness 0",
                    artifact->steps[step].name);
}
