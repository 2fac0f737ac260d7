/* spans: see spans.h. */
#include "runtime/execution/spans.h"

dt_span dt_executor_span(dt_span_kind kind, const char *name, const char *detail, const dt_step_context *context, double began) {
    return (dt_span){
        .began = began, .kind = kind, .segment = context->segment, .name = name, .detail = detail, .step = context->step, .number = context->number};
}

/* ---- operations ---- */

/* The host's copy of its launch values. */
static const dt_launch *launch_of(const dt_executor *executor, const dt_operation_launch *one) {
    return &executor->launches[one->values - dt_executor_memory_launches(&executor->memory)];
}

static dt_span span_of_launch(const dt_executor *executor, const dt_operation_launch *one, const dt_step_context *context) {
    const dt_artifact_kernel *kernel = &executor->memory.artifact->functions[one->function].kernels[one->kernel];
    dt_span span = dt_executor_span(DT_SPAN_KERNEL, kernel->name, kernel->lines, context, 0);
    if (!kernel->once) span.bytes = (int64_t)(kernel->bytes.fixed + kernel->bytes.per_row * (double)launch_of(executor, one)->rows);
    return span;
}

static int64_t n_sent_bytes(const dt_operation_transfer *one) {
    int64_t n = 0;
    for (int m = 0; m < one->n; m++) n += one->messages[m].sends ? (int64_t)one->messages[m].bytes : 0;
    return n;
}

static dt_span span_of(const dt_executor *executor, const dt_operation *one, const char *label, const dt_step_context *context) {
    dt_span span;
    switch (one->kind) {
    case DT_OPERATION_LAUNCH: return span_of_launch(executor, &one->launch, context);
    case DT_OPERATION_REDUCE:
        if (one->reduce.over_shards != NULL) label = one->reduce.over_shards->label;
        return dt_executor_span(DT_SPAN_REDUCE, "reduce", label, context, 0);
    case DT_OPERATION_TRANSFER:
        span = dt_executor_span(DT_SPAN_TRANSFER, "transfer", label, context, 0);
        span.bytes = n_sent_bytes(&one->transfer);
        return span;
    case DT_OPERATION_ALL_REDUCE:
        span = dt_executor_span(DT_SPAN_TRANSFER, "all_reduce", label, context, 0);
        span.bytes = (int64_t)(one->all_reduce.n * dt_dtype_bytes(one->all_reduce.dtype));
        return span;
    default:
        span = dt_executor_span(DT_SPAN_COPY, one->kind == DT_OPERATION_COPY ? "copy to device" : "copy to host", NULL, context, 0);
        span.bytes = (int64_t)one->copy.bytes;
        return span;
    }
}

void dt_executor_record_measured(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context,
                                 double began) {
    double now = dt_recorder_now(executor->recorder);
    for (size_t i = 0; i < sequence->n_operations && executor->recorder != NULL; i++) {
        if (sequence->operations[i].kind == DT_OPERATION_JOIN) continue;
        dt_span span = span_of(executor, &sequence->operations[i], label, context);
        span.began = began;
        span.ended = began + executor->times->operations[i] < now ? began + executor->times->operations[i] : now;
        began = span.ended;
        dt_recorder_add(executor->recorder, span);
    }
}

/* ---- what a device did ---- */

static int segment_of(const dt_artifact_function *function, int kernel) {
    for (int s = 0; s < function->n_segments; s++) {
        const dt_artifact_segment *segment = &function->segments[s];
        for (int k = 0; k < segment->n_device_kernels; k++)
            if (segment->device_kernels[k] == kernel) return s;
        for (int k = 0; k < segment->n_replica_kernels; k++)
            if (segment->replica_kernels[k] == kernel) return s;
    }
    return 0;
}

/* A reading of a device's clock may be off by a little, and nothing happens before the host has asked for it, or after it has seen the end. */
static double between(double time, double first, double last) { return time < first ? first : time > last ? last : time; }

/* A device runs several segments at once: what is not a kernel is of that of the last one. */
static dt_status *record_sequence(dt_executor *executor, const dt_sequence *sequence, dt_step_context *context, double now) {
    double *began = executor->times->began, *ended = executor->times->ended;
    DT_TRY(executor->device->kind->read_clock(executor->device, sequence, began, ended));
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        if (one->kind == DT_OPERATION_JOIN) continue;
        if (one->kind == DT_OPERATION_LAUNCH)
            context->segment = segment_of(&executor->memory.artifact->functions[one->launch.function], one->launch.kernel);
        dt_span span = span_of(executor, one, NULL, context);
        span.began = between(began[i], executor->started, now);
        span.ended = between(ended[i], executor->started, now);
        dt_recorder_add(one->beside ? executor->beside : executor->queue, span);
    }
    return NULL;
}

static dt_status *record_stages(dt_executor *executor, const dt_executor_stages *of, dt_step_context context, double now) {
    for (int s = 0; s < of->n; s++)
        if (of->stages[s].own == NULL) DT_TRY(record_sequence(executor, &of->stages[s].sequence, &context, now));
    return NULL;
}

dt_status *dt_executor_record_device(dt_executor *executor, const dt_run_values *values) {
    const dt_executor_list *list = executor->functions[values->function].lists[executor->slot];
    const dt_step_context context = {.step = values->step, .number = values->launch.counter};
    double now = dt_recorder_now(executor->queue);
    if (executor->queue == NULL) return NULL;
    DT_TRY(record_stages(executor, &list->stages, context, now));
    DT_TRY(record_stages(executor, &list->beside, context, now));
    return executor->device->kind->start_clock(executor->device);
}
