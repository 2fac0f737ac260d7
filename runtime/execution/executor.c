/* executor: see executor.h. */
#include "runtime/execution/executor.h"

#include "runtime/execution/numerics.h"
#include "runtime/execution/spans.h"
#include "runtime/threads/clock.h"

#include <assert.h>
#include <string.h>

/* ---- memory ---- */

static dt_status *allocate(dt_device *device, int64_t bytes, char **place, bool *is_allocated) {
    void *memory;
    DT_TRY(dt_device_allocate(device, (size_t)bytes, &memory));
    *place = memory;
    *is_allocated = true;
    return NULL;
}

dt_status *dt_memory_domain_allocate(dt_memory_domain *domain) {
    return allocate(domain->device, domain->bytes, &domain->memory, &domain->is_allocated);
}

void dt_memory_domain_free(dt_memory_domain *domain) {
    if (domain->is_allocated) dt_device_release(domain->device, domain->memory, (size_t)domain->bytes);
    domain->is_allocated = false;
}

/* The host's side of what crosses in a step: launches | empty records | records | aggregates | slots of inputs. */
static dt_status *allocate_host(dt_executor *executor) {
    const dt_executor_memory *memory = &executor->memory;
    size_t down = (size_t)(memory->aggregate_space - memory->launch_space);
    size_t up = (size_t)(memory->aggregate_space - memory->record_space + 8 * memory->n_aggregates);
    void *host = NULL;
    DT_TRY(executor->device->kind->allocate_host(executor->device, down + up + (size_t)(memory->slots * memory->slot_bytes), &host));
    executor->host = host;
    executor->exchange = (dt_host_exchange){executor->host, executor->host + down};
    for (int s = 0; s < memory->slots; s++) {
        executor->host_slots[s] = executor->host + down + up + s * memory->slot_bytes;
        DT_TRY(dt_device_create_event(executor->device, &executor->staged[s]));
    }
    return NULL;
}

dt_status *dt_executor_allocate(dt_executor *executor) {
    dt_executor_memory *memory = &executor->memory;
    DT_TRY(allocate(executor->device, memory->bytes, &memory->memory, &memory->is_allocated));
    if (executor->crossing_bytes > 0) {
        DT_TRY(dt_device_allocate(executor->device, executor->crossing_bytes, &executor->crossing_memory));
        dt_group_place(executor->group, executor->crossing_memory);
    }
    if (memory->slots > 0) DT_TRY(allocate_host(executor));
    executor->launches = executor->host != NULL ? (dt_launch *)executor->exchange.down : dt_executor_memory_launches(memory);
    executor->bad_index = executor->host != NULL ? (dt_bad_index *)executor->exchange.up : dt_executor_memory_records(memory);
    executor->aggregates =
        executor->host != NULL ? (int64_t *)(executor->bad_index + dt_executor_memory_n_records(memory)) : dt_executor_memory_aggregates(memory);
    for (int e = 0; e < 2; e++) DT_TRY(dt_device_create_event(executor->device, &executor->arrived[e]));
    return NULL;
}

void dt_executor_free(dt_executor *executor) {
    dt_device *device = executor->device;
    for (int s = 0; s < DT_INPUT_SLOTS; s++) dt_device_destroy_event(device, executor->staged[s]);
    for (int e = 0; e < 2; e++) dt_device_destroy_event(device, executor->arrived[e]);
    if (executor->host != NULL) device->kind->release_host(device, executor->host);
    if (executor->crossing_memory != NULL) dt_device_release(device, executor->crossing_memory, executor->crossing_bytes);
    executor->crossing_memory = NULL;
    if (executor->memory.is_allocated) dt_device_release(device, executor->memory.memory, (size_t)executor->memory.bytes);
    executor->host = NULL;
    executor->memory.is_allocated = false;
}

/* ---- planning ---- */

static dt_operations_options options_of(const dt_executor *executor) {
    const dt_group *group = executor->group;
    return (dt_operations_options){.memory = &executor->memory,
                                   .kernels = executor->device->kind->reads_host ? executor->kernels : NULL,
                                   .part = executor->part,
                                   .helps = executor->helps != NULL ? &executor->helps->memory : NULL,
                                   .helping = executor->helping,
                                   .leads = group == NULL || group->rank == 0,
                                   .looks = executor->numerics != NULL,
                                   .first_row = executor->first_row,
                                   .host = executor->exchange};
}

void dt_executor_plan(dt_executor *executor, int wanted, dt_arena *arena) {
    dt_operations_options options = options_of(executor);
    const dt_artifact *artifact = executor->memory.artifact;
    int *first = DT_NEW_ARRAY(arena, int, artifact->n_functions + 1);
    const dt_collective_part *parts = dt_operations_collectives(&options, wanted, arena, first);
    executor->functions = DT_NEW_ARRAY(arena, dt_executor_function, artifact->n_functions);
    for (int f = 0; f < artifact->n_functions; f++) executor->functions[f].first_collective = first[f];
    executor->collectives = parts;
    if (executor->group != NULL) dt_group_publish(executor->group, parts, first[artifact->n_functions]);
}

/* Stages on the way. */
typedef struct stage_maker {
    DT_LIST(dt_operation) operations; /* of the sequence that is open */
    DT_LIST(dt_executor_stage) stages;
} stage_maker;

/* A nonblocking collective that was lowered: by the number of its first part. */
typedef struct started_work {
    int first;
    int mark, n_stages; /* of the last operation that a device does for it itself, when so many stages had ended */
    dt_group_work work;
} started_work;

/* The stages of a list, on the way. */
typedef struct cutter {
    dt_executor *executor;
    dt_arena *arena;
    stage_maker stages, beside;
    dt_executor_stage about; /* what stages at hand say of themselves: segment and label */
    const char *name;

    /* of the collectives that come next, once they are lowered */
    bool is_lowered;
    dt_group_work work;
    int n_complete; /* of its buckets */
    bool counted;   /* there was a JOIN that counts all */

    DT_LIST(started_work) started; /* nonblocking collectives */
    int n_marks;
} cutter;

static void end_sequence(cutter *in, stage_maker *to) {
    dt_executor_stage made = in->about;
    made.sequence = (dt_sequence){.name = in->name, .n_operations = to->operations.n, .operations = to->operations.items};
    if (to->operations.n > 0) dt_list_push(in->arena, &to->stages, made);
    memset(&to->operations, 0, sizeof to->operations);
}

/* A stage of its own, which is the executor's to run. */
static void add_own(cutter *in, stage_maker *to, dt_operation one) {
    dt_executor_stage made = in->about;
    end_sequence(in, to);
    made.own = dt_arena_copy(in->arena, &one, sizeof one);
    dt_list_push(in->arena, &to->stages, made);
}

/* Devices see no operations from MEET on. */
static void add_operation(cutter *in, stage_maker *to, dt_operation one) {
    if (one.kind >= DT_OPERATION_MEET)
        add_own(in, to, one);
    else
        dt_list_push(in->arena, &to->operations, one);
}

static void add_all(cutter *in, stage_maker *to, const dt_operation_list *operations) {
    for (size_t i = 0; i < operations->n; i++) add_operation(in, to, operations->items[i]);
}

static dt_status *lower(cutter *in, const dt_operation_collective *collective) {
    assert(in->executor->group != NULL); /* functions outside of steps have nothing that crosses replicas */
    if (in->is_lowered) return NULL;
    in->work = (dt_group_work){0};
    DT_TRY(dt_group_lower(in->executor->group, collective->first, collective->n, in->arena, &in->work));
    in->about.segment = collective->segment;
    in->about.label = in->executor->collectives[collective->first].label;
    in->n_complete = 0;
    in->is_lowered = true;
    return NULL;
}

static void add_on_device(cutter *in, const dt_group_bucket *bucket, bool beside) {
    for (size_t i = 0; i < bucket->beside.n; i++) {
        dt_operation one = bucket->beside.items[i];
        one.beside = beside;
        dt_list_push(in->arena, &in->stages.operations, one);
    }
}

/* Buckets up to number `end` are complete. What a device exchanges itself is beside what follows, if there is anything. */
static void add_complete(cutter *in, int end, bool beside) {
    for (; in->n_complete < end; in->n_complete++) {
        const dt_group_bucket *bucket = &in->work.buckets[in->n_complete];
        if (in->work.on_device) {
            add_on_device(in, bucket, beside);
            continue;
        }
        add_own(in, &in->stages, (dt_operation){.kind = DT_OPERATION_ARRIVE, .gate = bucket->complete});
        add_all(in, &in->beside, &bucket->beside);
    }
}

/* A device that works ahead is not stopped: what it exchanges itself begins there, and where the host does, all buckets begin at the end. */
static dt_status *cut_complete(cutter *in, const dt_operation_collective *collective) {
    if (in->executor->group == NULL) return NULL;
    DT_TRY(lower(in, collective));
    int end = in->n_complete;
    while (end < in->work.n_buckets && in->work.buckets[end].complete_after <= collective->complete_after) end++;
    if (in->work.on_device || in->executor->device->kind->reads_host) add_complete(in, end, true);
    return NULL;
}

/* Between two meetings, if there is anybody to meet. */
static dt_status *cut_collective(cutter *in, const dt_operation_collective *collective, bool has_all) {
    const dt_operation meeting = {.kind = DT_OPERATION_MEET}, join = {.kind = DT_OPERATION_JOIN};
    DT_TRY(lower(in, collective));
    bool has_others = in->executor->group->n_ranks > 1, beside = in->n_complete > 0; /* some are, whose order the others are to keep */
    add_complete(in, in->work.n_buckets, beside);
    if (has_others) add_own(in, &in->stages, meeting);
    if (in->work.on_device) {
        if (beside) dt_list_push(in->arena, &in->stages.operations, join); /* the device's own, which does not stop for it */
    } else if (in->work.n_buckets > 0) {
        end_sequence(in, &in->beside);
        in->about.counts_all = has_all && !in->counted;
        in->counted |= has_all;
        in->about.end_beside = (int)in->beside.stages.n;
        add_own(in, &in->stages, join);
        in->about.counts_all = false;
        for (int b = 0; b < in->work.n_buckets; b++) add_all(in, &in->stages, &in->work.buckets[b].behind);
    }
    add_all(in, &in->stages, &in->work.operations);
    in->about.label = in->executor->collectives[collective->first + collective->n - 1].label;
    if (has_others) add_own(in, &in->stages, meeting);
    in->is_lowered = false;
    return NULL;
}

/* What a device does itself of a nonblocking collective, which others may be behind. */
static void start_on_device(cutter *in, started_work *one) {
    const dt_operation_list *operations = &one->work.buckets[0].beside;
    add_on_device(in, &one->work.buckets[0], true);
    if (operations->n == 0) return;
    in->stages.operations.items[in->stages.operations.n - 1].mark = one->mark = ++in->n_marks;
    one->n_stages = (int)in->stages.stages.n;
}

static void wait_on_device(cutter *in, const started_work *one) {
    bool is_marked = one->n_stages == (int)in->stages.stages.n; /* in the sequence that is open */
    dt_operation join = {.kind = DT_OPERATION_JOIN, .mark = is_marked ? one->mark : 0};
    dt_list_push(in->arena, &in->stages.operations, join);
}

/* START lowers it, WAIT finds it. */
static dt_status *cut_nonblocking(cutter *in, const dt_operation *one) {
    const dt_operation_collective *collective = &one->collective;
    size_t i = 0;
    while (i < in->started.n && in->started.items[i].first != collective->first) i++;
    if (i == in->started.n) {
        started_work made = {.first = collective->first};
        DT_TRY(dt_group_lower(in->executor->group, collective->first, collective->n, in->arena, &made.work));
        dt_list_push(in->arena, &in->started, made);
    }
    const dt_group_work *work = &in->started.items[i].work;
    const char *label = in->about.label; /* of what goes on */
    in->about.segment = collective->segment;
    in->about.label = in->executor->collectives[collective->first].label;
    if (!work->on_device)
        add_all(in, &in->stages, one->kind == DT_OPERATION_START ? &work->buckets[0].beside : &work->buckets[0].behind);
    else if (one->kind == DT_OPERATION_START)
        start_on_device(in, &in->started.items[i]);
    else
        wait_on_device(in, &in->started.items[i]);
    if (!work->on_device) in->about.label = label;
    return NULL;
}

/* The last operation that is a kernel which runs for each microbatch; as many as there are: none is. */
static size_t last_of_microbatches(const dt_executor *executor, const dt_operations *made) {
    for (size_t i = made->list.n; i-- > 0;) {
        const dt_operation *one = &made->list.items[i];
        if (one->kind != DT_OPERATION_LAUNCH) continue;
        if (!executor->memory.artifact->functions[one->launch.function].kernels[one->launch.kernel].once) return i;
    }
    return made->list.n;
}

static dt_status *cut(dt_executor *executor, int f, int slot, dt_arena *arena, dt_executor_function *function) {
    dt_operations_options options = options_of(executor);
    dt_operations made = dt_operations_of(&options, f, function->first_collective, slot, arena);
    cutter in = {.executor = executor, .arena = arena, .name = executor->memory.artifact->functions[f].name, .about.label = ""};
    size_t last_counter = last_of_microbatches(executor, &made);
    for (size_t i = 0; i < made.list.n; i++) {
        const dt_operation *one = &made.list.items[i];
        if (one->kind == DT_OPERATION_COMPLETE) {
            DT_TRY(cut_complete(&in, &one->collective));
        } else if (one->kind == DT_OPERATION_COLLECTIVE) {
            DT_TRY(cut_collective(&in, &one->collective, i > last_counter));
        } else if (one->kind == DT_OPERATION_START || one->kind == DT_OPERATION_WAIT) {
            DT_TRY(cut_nonblocking(&in, one));
        } else {
            if (one->kind == DT_OPERATION_MEET) in.about.label = "barrier";
            add_operation(&in, &in.stages, *one);
        }
    }
    in.about.label = "";
    end_sequence(&in, &in.stages);
    function->inputs = made.inputs.items;
    function->n_inputs = made.inputs.n;
    function->lists[slot] = DT_NEW(arena, dt_executor_list);
    *function->lists[slot] = (dt_executor_list){{(int)in.stages.stages.n, in.stages.stages.items}, {(int)in.beside.stages.n, in.beside.stages.items}};
    return NULL;
}

static dt_status *cut_functions(dt_executor *executor, int wanted, dt_arena *arena) {
    const dt_executor_memory *memory = &executor->memory;
    for (int f = 0; f < memory->artifact->n_functions; f++) {
        dt_executor_function *function = &executor->functions[f];
        if (!dt_memory_has(memory->artifact, wanted, f)) continue;
        bool in_slots = memory->slots > 0 && memory->input_bytes[f] > 0;
        for (int s = 0; s < DT_INPUT_SLOTS; s++) {
            if (s == 0 || in_slots)
                DT_TRY(cut(executor, f, s, arena, function));
            else
                function->lists[s] = function->lists[0];
        }
    }
    return NULL;
}

typedef DT_LIST(dt_sequence *) sequences;

static void add_sequences(sequences *all, const dt_executor_stages *of, dt_arena *arena) {
    for (int i = 0; i < of->n; i++)
        if (of->stages[i].own == NULL) dt_list_push(arena, all, &of->stages[i].sequence);
}

static sequences all_sequences(const dt_executor *executor, int wanted, dt_arena *arena) {
    sequences all = {0};
    for (int f = 0; f < executor->memory.artifact->n_functions; f++) {
        const dt_executor_function *function = &executor->functions[f];
        if (!dt_memory_has(executor->memory.artifact, wanted, f)) continue;
        for (int s = 0; s < DT_INPUT_SLOTS && (s == 0 || function->lists[s] != function->lists[0]); s++) {
            add_sequences(&all, &function->lists[s]->stages, arena);
            add_sequences(&all, &function->lists[s]->beside, arena);
        }
    }
    return all;
}

dt_status *dt_executor_prepare_bytes(dt_executor *executor, int wanted, dt_arena *arena) {
    DT_TRY(cut_functions(executor, wanted, arena));
    sequences all = all_sequences(executor, wanted, arena);
    executor->crossing_bytes = executor->group != NULL ? dt_group_device_bytes(executor->group) : 0;
    executor->prepare_bytes = dt_device_prepare_bytes(executor->device, (const dt_sequence *const *)all.items, all.n) +
                              dt_device_taken_bytes(executor->device, (int64_t)executor->crossing_bytes);
    return NULL;
}

dt_status *dt_executor_prepare(dt_executor *executor, int wanted, dt_arena *arena) {
    DT_TRY(cut_functions(executor, wanted, arena));
    sequences all = all_sequences(executor, wanted, arena);
    size_t most = 0;
    for (size_t s = 0; s < all.n; s++)
        if (all.items[s]->n_operations > most) most = all.items[s]->n_operations;
    if (executor->times != NULL) {
        executor->times->operations = DT_NEW_ARRAY(arena, double, most);
        executor->times->began = DT_NEW_ARRAY(arena, double, most);
        executor->times->ended = DT_NEW_ARRAY(arena, double, most);
    }
    DT_TRY(dt_device_prepare(executor->device, all.items, all.n));
    return executor->device->is_timed ? executor->device->kind->start_clock(executor->device) : NULL;
}

static int64_t most_spans(const dt_executor_stages *of) {
    int64_t n = 0;
    for (int s = 0; s < of->n; s++) n += of->stages[s].own != NULL ? 1 : (int64_t)of->stages[s].sequence.n_operations + 1;
    return n;
}

int64_t dt_executor_most_spans(const dt_executor *executor, int wanted) {
    int64_t most = 0;
    for (int f = 0; f < executor->memory.artifact->n_functions; f++) {
        const dt_executor_list *list = executor->functions[f].lists[0];
        int64_t n = dt_memory_has(executor->memory.artifact, wanted, f) ? most_spans(&list->stages) + most_spans(&list->beside) : 0;
        if (n > most) most = n;
    }
    return most;
}

/* ---- inputs ---- */

/* The rows of each microbatch to where they lie in a slot. */
static void copy_rows(const dt_executor *executor, const char *source, int64_t row_bytes, int64_t valid, char *target, int64_t stride) {
    const dt_executor_memory *memory = &executor->memory;
    for (int m = 0; m < memory->n_microbatches; m++) {
        int64_t first = dt_microbatches_first_row(&memory->rows, memory->first_microbatch + m) - executor->first_row;
        int64_t n = dt_microbatches_valid_rows(&memory->rows, memory->first_microbatch + m, valid);
        if (n > 0) memcpy(target + m * stride, source + first * row_bytes, (size_t)(n * row_bytes));
    }
}

dt_status *dt_executor_stage_inputs(dt_executor *executor, int f, const void *const *inputs, int64_t valid) {
    const dt_executor_memory *memory = &executor->memory;
    const dt_artifact_function *function = &memory->artifact->functions[f];
    int slot = (executor->slot + 1) % memory->slots;
    for (int i = 0; i < function->n_inputs; i++) {
        char *target = executor->host_slots[slot] + memory->input_starts[f][i];
        const dt_artifact_tensor *input = &function->inputs[i];
        if (input->has_rows)
            copy_rows(executor, inputs[i], input->row_bytes, valid, target, memory->input_strides[f][i]);
        else
            memcpy(target, inputs[i], (size_t)input->row_bytes);
    }
    if (memory->input_bytes[f] == 0) return NULL;
    void *target = memory->memory + memory->input_space + slot * memory->slot_bytes;
    return executor->device->kind->copy_ahead(executor->device, target, executor->host_slots[slot], (size_t)memory->input_bytes[f],
                                              executor->staged[slot]);
}

/* The next slot, once its inputs are there. */
static dt_status *take_slot(dt_executor *executor, const dt_run_values *values) {
    if (values->inputs != NULL) DT_TRY(dt_executor_stage_inputs(executor, values->function, values->inputs, values->launch.valid));
    executor->slot = (executor->slot + 1) % executor->memory.slots;
    return dt_device_wait(executor->device, executor->staged[executor->slot]);
}

/* A microbatch without valid rows points at the batch's start: a place that exists. */
static void place_inputs(const dt_executor *executor, const dt_executor_function *function, const dt_run_values *values) {
    const dt_artifact_tensor *inputs = executor->memory.artifact->functions[values->function].inputs;
    for (size_t i = 0; i < function->n_inputs; i++) {
        const dt_input_argument *input = &function->inputs[i];
        int64_t end = (values->launch.valid - executor->first_row) * inputs[input->input].row_bytes;
        *input->argument = (char *)values->inputs[input->input] + (input->offset < end ? input->offset : 0);
    }
}

/* ---- running ---- */

/* The batch's, with the rows of a microbatch of all. */
static dt_launch launch_of(const dt_executor *executor, const dt_run_values *values, int64_t microbatch) {
    const dt_microbatches *rows = &executor->memory.rows;
    dt_launch launch = values->launch;
    launch.rows = dt_microbatches_valid_rows(rows, microbatch, values->launch.valid);
    launch.row_offset = values->launch.row_offset + dt_microbatches_first_row(rows, microbatch);
    launch.part = executor->team_part;
    launch.n_parts = executor->team != NULL ? executor->team->n : 1;
    launch.meeting = executor->team != NULL ? &executor->team->meeting : NULL;
    launch.share = executor->domain->layout.slots.share;
    launch.n_shares = executor->domain->layout.slots.n_shares;
    launch.timers = executor->timers;
    return launch;
}

/* Part 0 looks up what is checked: nothing is counted here. */
static void fill_helping(dt_executor *executor, const dt_run_values *values) {
    for (int m = 0; executor->helps != NULL && m < executor->helps->memory.n_microbatches; m++) {
        executor->helping[m] = launch_of(executor, values, executor->helps->memory.first_microbatch + m);
        executor->helping[m].bad_index = dt_executor_memory_records(&executor->memory);
    }
}

/* The launch values of each microbatch and held shard: those of the batch, and which rows of it are its own. */
static void fill_launches(dt_executor *executor, const dt_run_values *values) {
    const dt_executor_memory *memory = &executor->memory;
    dt_bad_index *records = dt_executor_memory_records(memory);
    for (int l = 0; l < dt_executor_memory_n_launches(memory); l++) {
        int m = dt_executor_memory_microbatch_of(memory, l);
        bool once = m == memory->n_microbatches;
        int64_t microbatch = memory->first_microbatch + (once ? 0 : m);
        dt_launch *launch = &executor->launches[l];
        *launch = launch_of(executor, values, microbatch);
        int shard = l - dt_executor_memory_launch(memory, m, 0);
        bool is_whole = shard == executor->domain->n_shards, is_dropped = is_whole && executor->domain->first_shard > 0 && !once;
        launch->shard = is_whole ? 0 : executor->domain->first_shard + shard;
        launch->bad_index = &records[executor->group == NULL ? 0 : is_dropped ? memory->n_microbatches + 1 : m];
        if (!once) continue;
        launch->part = executor->part;
        launch->n_parts = executor->domain->n_parts;
    }
    fill_helping(executor, values);
}

static bool measures(const dt_executor *executor) {
    return executor->times != NULL && (executor->device->kind->query == NULL || !executor->times->pauses);
}

static void clear_times(dt_executor *executor, int function) {
    size_t n = (size_t)executor->memory.artifact->functions[function].n_kernels;
    if (executor->times == NULL) return;
    memset(executor->times->kernel_seconds, 0, n * sizeof *executor->times->kernel_seconds);
    memset(executor->times->kernel_calls, 0, n * sizeof *executor->times->kernel_calls);
    executor->times->exchange_seconds = 0;
    executor->times->crossing_seconds = 0;
    executor->times->link_seconds = 0;
}

static dt_status *run_measured(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context) {
    dt_executor_times *times = executor->times;
    double began = dt_recorder_now(executor->recorder);
    DT_TRY(dt_device_measure(executor->device, sequence, times->operations));
    dt_executor_record_measured(executor, sequence, label, context, began);
    for (size_t i = 0; i < sequence->n_operations; i++) {
        const dt_operation *one = &sequence->operations[i];
        if (one->kind == DT_OPERATION_LAUNCH) {
            times->kernel_seconds[one->launch.kernel] += times->operations[i];
            times->kernel_calls[one->launch.kernel]++;
        } else if (one->kind != DT_OPERATION_COPY && one->kind != DT_OPERATION_READ_BACK) {
            times->exchange_seconds += times->operations[i];
            if (one->kind == DT_OPERATION_TRANSFER || one->kind == DT_OPERATION_ALL_REDUCE) times->link_seconds += times->operations[i];
        }
    }
    return NULL;
}

/* The queues of all members wait for one another. */
static dt_status *wait_for_others(dt_executor *executor, const dt_executor_stage *stage, const dt_step_context *context) {
    dt_device_event *arrived = executor->arrived[executor->n_meetings % 2];
    DT_TRY(dt_device_signal(executor->device, arrived));
    DT_TRY(dt_group_meet(executor->group, context, stage->label));
    for (int p = 0; p < executor->n_peers && executor->device->kind->wait != NULL; p++)
        if (executor->peers[p] != executor) DT_TRY(dt_device_wait(executor->device, executor->peers[p]->arrived[executor->n_meetings % 2]));
    executor->n_meetings++;
    return NULL;
}

/* What others hear when they ask. */
static void say_progress(const dt_executor *executor, const dt_executor_stage *stage, const dt_run_values *values) {
    dt_progress *progress = executor->progress;
    if (progress == NULL || executor->group == NULL || executor->group->rank != 0) return;
    atomic_store_explicit(&progress->step, values->step, memory_order_relaxed);
    atomic_store_explicit(&progress->number, values->launch.counter, memory_order_relaxed);
    atomic_store_explicit(&progress->segment, stage->segment, memory_order_relaxed);
    if (stage->label != NULL && *stage->label != 0) atomic_store_explicit(&progress->label, stage->label, memory_order_relaxed);
}

static dt_status *enqueue(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context) {
    if (executor->numerics != NULL) return dt_numerics_run(executor, sequence, label, context);
    if (measures(executor)) return run_measured(executor, sequence, label, context);
    double began = dt_recorder_now(executor->recorder);
    DT_TRY(dt_device_enqueue(executor->device, sequence));
    dt_recorder_end(executor->recorder, dt_executor_span(DT_SPAN_ENQUEUE, "enqueue", label, context, began));
    return NULL;
}

static void count_seconds(dt_executor *executor, double began, bool crosses) {
    if (executor->times == NULL) return;
    executor->times->exchange_seconds += dt_seconds_now() - began;
    if (crosses) executor->times->crossing_seconds += dt_seconds_now() - began;
}

static double seconds_now(const dt_executor *executor) { return executor->times != NULL ? dt_seconds_now() : 0; }

static dt_status *meet(dt_executor *executor, const dt_executor_stage *stage, const dt_step_context *context) {
    double began = seconds_now(executor);
    DT_TRY(wait_for_others(executor, stage, context));
    count_seconds(executor, began, false);
    dt_recorder_end(executor->recorder, dt_executor_span(DT_SPAN_WAIT, "barrier", stage->label, context, began));
    return NULL;
}

/* What the gate has begun is over. */
static dt_status *await(dt_executor *executor, const dt_executor_stage *stage, uint64_t times, const dt_step_context *context) {
    dt_progress *progress = executor->group->rank == 0 ? executor->progress : NULL;
    double began = seconds_now(executor);
    dt_progress_set(progress, DT_ACTIVITY_EXCHANGING);
    DT_TRY(dt_gate_await(stage->own->gate, times));
    dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    count_seconds(executor, began, true);
    dt_recorder_end(executor->recorder, dt_executor_span(DT_SPAN_WAIT, "wait for exchange", stage->label, context, began));
    return NULL;
}

/* What an exchange takes is there before anybody arrives where it begins. */
static dt_status *arrive(dt_executor *executor, dt_gate *gate, const dt_step_context *context) {
    if (gate->n_exchanges > 0) DT_TRY(dt_device_synchronize(executor->device));
    dt_gate_arrive(gate, context);
    return NULL;
}

/* What is beside, up to stage `end`, as far as gates are open. */
static dt_status *run_beside(dt_executor *executor, const dt_executor_function *function, int end, const dt_run_values *values) {
    const dt_executor_stages *beside = &function->lists[executor->slot]->beside;
    for (; executor->n_beside < end; executor->n_beside++) {
        const dt_executor_stage *stage = &beside->stages[executor->n_beside];
        dt_step_context context = {.step = values->step, .number = values->launch.counter, .segment = stage->segment};
        if (stage->own == NULL)
            DT_TRY(enqueue(executor, &stage->sequence, stage->label, &context));
        else if (stage->own->kind == DT_OPERATION_ARRIVE)
            DT_TRY(arrive(executor, stage->own->gate, &context));
        else if (!dt_gate_is_open(stage->own->gate, function->n_runs))
            return NULL;
    }
    return NULL;
}

static dt_status *join(dt_executor *executor, const dt_executor_function *function, const dt_executor_stage *stage, const dt_run_values *values) {
    if (stage->counts_all && executor->computed != NULL) DT_TRY(executor->computed(executor->computed_context));
    DT_TRY(run_beside(executor, function, stage->end_beside, values));
    if (stage->counts_all && executor->counted != NULL) executor->counted(executor->counted_context);
    return NULL;
}

static dt_status *do_own(dt_executor *executor, const dt_executor_function *function, const dt_executor_stage *stage, const dt_run_values *values,
                         const dt_step_context *context) {
    switch (stage->own->kind) {
    case DT_OPERATION_MEET: return meet(executor, stage, context);
    case DT_OPERATION_JOIN: return join(executor, function, stage, values);
    case DT_OPERATION_AWAIT: return await(executor, stage, function->n_runs, context);
    default:
        assert(stage->own->kind == DT_OPERATION_ARRIVE);
        DT_TRY(arrive(executor, stage->own->gate, context));
        if (!executor->device->kind->reads_host) return NULL; /* queues of other devices may be behind their threads until all meet */
        return run_beside(executor, function, function->lists[executor->slot]->beside.n, values);
    }
}

/* Where the device was in the program. Of a group that failed the message says it all. */
static dt_status *say_where(const dt_executor *executor, const dt_run_values *values, dt_status *status) {
    return dt_status_annotate(status, "%s, %s step %lld", executor->device->name, values->step, (long long)values->launch.counter + 1);
}

dt_status *dt_executor_start(dt_executor *executor, const dt_run_values *values) {
    const dt_executor_memory *memory = &executor->memory;
    dt_executor_function *function = &executor->functions[values->function];
    executor->started = dt_recorder_now(executor->recorder);
    fill_launches(executor, values);
    if (memory->slots > 0 && memory->input_bytes[values->function] > 0) DT_TRY(say_where(executor, values, take_slot(executor, values)));
    place_inputs(executor, function, values);
    /* Records of other devices are cleared by what their lists begin with. Of one without a group they are counted until somebody reads them. */
    if (memory->slots == 0 && executor->group != NULL)
        memset(executor->bad_index, 0, (size_t)dt_executor_memory_n_records(memory) * sizeof *executor->bad_index);
    clear_times(executor, values->function);
    if (executor->numerics != NULL) dt_numerics_begin(executor, values);
    function->n_runs++;
    executor->n_beside = 0;
    const dt_executor_stages *stages = &function->lists[executor->slot]->stages;
    for (int s = 0; s < stages->n; s++) {
        const dt_executor_stage *stage = &stages->stages[s];
        dt_step_context context = {.step = values->step, .number = values->launch.counter, .segment = stage->segment};
        say_progress(executor, stage, values);
        if (stage->own != NULL) {
            DT_TRY(do_own(executor, function, stage, values, &context));
            continue;
        }
        DT_TRY(say_where(executor, values, enqueue(executor, &stage->sequence, stage->label, &context)));
        dt_progress_count(executor->progress);
    }
    return NULL;
}

dt_status *dt_executors_finish(dt_executor *const *executors, int n, const dt_run_values *values) {
    dt_device *devices[DT_MOST_AHEAD] = {NULL}, *which = NULL;
    if (executors[0]->device->kind->query == NULL) return NULL;
    for (int e = 0; e < n; e++) devices[e] = executors[e]->device;
    dt_status *status = dt_devices_synchronize(devices, n, &which);
    for (int e = 0; e < n; e++)
        if (devices[e] == which) return say_where(executors[e], values, status);
    for (int e = 0; e < n && status == NULL; e++) status = say_where(executors[e], values, dt_executor_record_device(executors[e], values));
    return status;
}

const char *dt_executor_level(const dt_executor *executor) {
    const dt_device_kind *kind = executor->device->kind;
    return kind->level != NULL ? kind->level(executor->device) : dt_kernels_level(executor->kernels);
}
