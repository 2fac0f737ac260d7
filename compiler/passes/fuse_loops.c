/* fuse_loops: where loops have what enters and leaves their bodies (ir/body.h).
 *
 * None of it is a kernel: a kernel of the body is given, in each iteration, the addresses that are that iteration's.
 *
 *     scanned    the part of a tensor in memory, along the axis
 *     carry      one of two halves of a buffer, in turn: an iteration reads the one and stores what `advance` says to the other; `final` is the one
 * stored last stack      the part of the stack's memory, to which the nest that computes the value stores it
 *
 * So before a loop begins what it scans is in memory, and the beginning of each carry is stored to its first half. Groups, and kernels with them,
 * do not go beyond a body. All values of a loop are computed once for all replicas, or all for each. */
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/fuse.h"
#include "ir/body.h"

void dt_fuse_prepare_loops(dt_fusion *f) {
    const dt_function *function = f->plan->function;
    int n = function->next_id;
    f->bodies = DT_NEW_ARRAY(f->arena, dt_value *, n);
    f->parts = DT_NEW_ARRAY(f->arena, int, n);
    f->is_replicated = DT_NEW_ARRAY(f->arena, bool, n);
    f->loops = DT_NEW_ARRAY(f->arena, const dt_plan_loop *, n);
    f->advances = dt_function_find_advances(f->arena, function);
    dt_function_find_bodies(function, f->bodies);
    f->plan->loops = DT_NEW_ARRAY(f->arena, const dt_plan_loop *, n);
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        if (!dt_value_is_loop(value)) continue;
        const dt_value *around = f->bodies[value->id];
        dt_plan_loop *loop = DT_NEW(f->arena, dt_plan_loop);
        *loop = (dt_plan_loop){f->plan->n_loops, dt_loop_trips(value), dt_value_int(value, "remade"), around != NULL ? f->loops[around->id] : NULL};
        f->is_replicated[value->id] = around != NULL ? f->is_replicated[around->id] : dt_loop_is_replicated(value);
        f->loops[value->id] = f->plan->loops[f->plan->n_loops++] = loop;
    }
}

static const char *name_of(const dt_fusion *f, const dt_value *value, const char *what) {
    return dt_arena_format(f->arena, "%%%d%s", value->id, what);
}

/* ---- what enters ---- */

/* A part along an axis: the iteration's, or in reverse that of the other end. */
static dt_view part_along(const dt_fusion *f, int buffer, const dt_value *loop, dt_shape shape, const dt_value *how) {
    bool reverse = dt_value_bool(how, "reverse");
    return (dt_view){.of = buffer,
                     .shape = shape,
                     .axis = (int)dt_value_int(how, "axis"),
                     .loop = f->loops[loop->id],
                     .first = reverse ? dt_loop_trips(loop) - 1 : 0,
                     .step = reverse ? -1 : 1};
}

static void begin_scanned(dt_fusion *f, const dt_value *loop, const dt_value *scanned) {
    dt_placement *placement = dt_placement_of(f, scanned);
    int whole = dt_fusion_memory(f, scanned->operands[0], &placement->producer);
    placement->stored = true;
    f->lowering->buffers[scanned->id] =
        dt_plan_add_view(f->arena, f->plan, name_of(f, scanned, ""), part_along(f, whole, loop, scanned->operands[0]->shape, scanned));
}

/* Whether the nest that computes the value can store it here and nowhere else; that there is one will be seen. */
static void give_own_buffer(dt_fusion *f, const dt_value *loop, const dt_value *value, int buffer) {
    dt_placement *placement = dt_placement_of(f, value);
    if (f->bodies[value->id] != loop || placement->base != value || dt_lowering_loops(f->lowering, value) == NULL) return;
    if (placement->onto != NULL || f->lowering->buffers[value->id] >= 0) return;
    f->lowering->buffers[value->id] = buffer;
    placement->required = true;
}

static void begin_carry(dt_fusion *f, const dt_value *loop, const dt_value *carry) {
    enum {
        n_halves = 2
    };
    const dt_value *advance = f->advances[carry->id];
    dt_placement *placement = dt_placement_of(f, carry);
    bool replicated = f->is_replicated[loop->id];
    int rank = carry->shape.rank + 1;
    int64_t *dims = DT_NEW_ARRAY(f->arena, int64_t, rank);
    dims[0] = n_halves;
    for (int d = 1; d < rank; d++) dims[d] = carry->shape.dims[d - 1];
    dt_view half = {.shape = {rank, dims}};
    half.of = dt_plan_add_buffer(f->arena, f->plan,
                                 (dt_buffer){.name = name_of(f, carry, " halves"),
                                             .space = replicated ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH,
                                             .dtype = carry->dtype,
                                             .shape = half.shape,
                                             .variable = -1,
                                             .input = -1});
    placement->producer = dt_fusion_store(f, carry->operands[0], dt_plan_add_view(f->arena, f->plan, name_of(f, carry, " first"), half), replicated);
    placement->stored = true;
    half.loop = f->loops[loop->id];
    half.step = 1;
    half.wrap = n_halves;
    f->lowering->buffers[carry->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, carry, ""), half);
    half.first = 1;
    f->parts[advance->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, carry, " next"), half);
    give_own_buffer(f, loop, advance->operands[1], f->parts[advance->id]);
}

static bool is_stack_of(const dt_value *value, const dt_value *loop) { return dt_value_is(value, "stack") && value->operands[1] == loop; }

static void begin_loop(dt_fusion *f, const dt_value *loop) {
    const dt_value *end = dt_loop_end(loop);
    for (const dt_value *value = loop->next; value != end; value = value->next) {
        if (f->bodies[value->id] != loop) continue;
        if (dt_value_is(value, "scanned")) begin_scanned(f, loop, value);
        if (dt_value_is(value, "carry")) begin_carry(f, loop, value);
    }
    for (const dt_value *value = end->next; value != NULL; value = value->next) {
        if (!is_stack_of(value, loop)) continue;
        dt_view part = part_along(f, dt_fusion_buffer(f, value), loop, value->shape, value);
        f->parts[value->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, value, " part"), part);
        give_own_buffer(f, loop, value->operands[0], f->parts[value->id]);
    }
    f->loop = f->loops[loop->id];
}

/* ---- what goes on, and what leaves ---- */

/* The group that stores an iteration's `value` to the part of `of`, an advance or a stack. */
static int store_part(dt_fusion *f, const dt_value *loop, const dt_value *value, const dt_value *of) {
    int *own = &f->lowering->buffers[value->id];
    if (*own == f->parts[of->id]) {
        if (dt_placement_of(f, value)->group >= 0) return dt_placement_of(f, value)->group;
        *own = -1; /* it is computed where it is used */
    }
    return dt_fusion_store(f, value, f->parts[of->id], f->is_replicated[loop->id]);
}

static void end_loop(dt_fusion *f, const dt_value *end) {
    const dt_value *loop = end;
    while (f->loops[loop->id] != f->loop) loop = loop->previous;
    for (const dt_value *value = loop->next; value != end; value = value->next)
        if (dt_value_is(value, "advance") && f->bodies[value->id] == loop)
            dt_placement_of(f, value)->producer = store_part(f, loop, value->operands[1], value);
    for (const dt_value *value = end->next; value != NULL; value = value->next)
        if (is_stack_of(value, loop)) dt_placement_of(f, value)->producer = store_part(f, loop, value->operands[0], value);
    f->loop = f->loop->around;
}

/* Where the last iteration has stored it. */
static void place_final(dt_fusion *f, const dt_value *final) {
    const dt_value *carry = final->operands[0], *advance = f->advances[carry->id];
    dt_view last = *f->plan->buffers[f->parts[advance->id]].view;
    last.first = (last.first + last.step * (last.loop->trips - 1)) % last.wrap;
    last.step = last.wrap = 0;
    last.loop = NULL;
    f->lowering->buffers[final->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, final, ""), last);
    dt_placement_of(f, final)->producer = dt_placement_of(f, advance)->producer;
}

void dt_fuse_place_loop(dt_fusion *f, const dt_value *value) {
    if (dt_value_is_loop(value)) begin_loop(f, value);
    if (dt_value_is_end_loop(value)) end_loop(f, value);
    if (dt_value_is(value, "final")) place_final(f, value);
    dt_placement_of(f, value)->stored = true;
}
