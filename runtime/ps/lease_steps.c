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

/* Whether kernels of the segment that go through examples read a parameter that was updated before. */
static bool reads_updated(const dt_artifact_function *function, const dt_artifact_segment *segment, const bool *is_updated) {
    for (int i = 0; i < segment->n_replica_kernels; i++) {
        const dt_artifact_kernel *kernel = &function->kernels[segment->replica_kernels[i]];
        for (int b = 0; b < kernel->n_buffers; b++) {
            const dt_artifact_buffer *buffer = &function->buffers[kernel->buffers[b]];
            if (buffer->space == DT_MEMORY_VARIABLE && is_updated[buffer->variable]) return true;
        }
    }
    return false;
}

static void add_updated(const dt_artifact *artifact, const dt_artifact_function *function, const dt_artifact_segment *segment, bool *is_updated) {
    for (int i = 0; i < segment->n_device_kernels; i++) {
        const dt_artifact_kernel *kernel = &function->kernels[segment->device_kernels[i]];
        for (int w = 0; w < kernel->n_writes; w++) {
            const dt_artifact_buffer *buffer = &function->buffers[kernel->writes[w]];
            if (buffer->space == DT_MEMORY_VARIABLE && artifact->variables[buffer->variable].kind == DT_VARIABLE_PARAMETER)
                is_updated[buffer->variable] = true;
        }
    }
}

dt_status *dt_ps_check_step(const dt_artifact *artifact, int step) {
    const dt_artifact_function *function = function_of(artifact, step);
    bool is_late = false, *is_updated = dt_allocate_zeroed((size_t)artifact->n_variables + 1, sizeof *is_updated);
    if (is_updated == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int s = 0; s < function->n_segments && !is_late && has_slots(artifact, function); s++) {
        add_updated(artifact, function, &function->segments[s], is_updated);
        is_late = reads_updated(function, &function->segments[s], is_updated);
    }
    dt_release(is_updated);
    if (!is_late) return NULL;
    return dt_error(DT_FAILED_PRECONDITION,
                    "step %s needs its worker after an update has begun, for what is computed of the examples then: train it with --staleness 0",
                    artifact->steps[step].name);
}
