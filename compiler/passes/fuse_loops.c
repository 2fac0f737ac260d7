/* fuse_loops: where loops have what enters and leaves their bodies (ir/body.h).
 *
 * None of it is a kernel: a kernel of the body is given, in each iteration, the addresses that are that iteration's.
 *
 *     scanned    the part of a tensor in memory, along the axis
 *     carry      one of two halves of a buffer, in turn: an iteration reads the one and stores what `advance` says to the
 *                other; `final` is the one stored last
 *     stack      the part of the stack's memory, to which the nest that computes the value stores it
 *
 * Where the carry itself is stacked, or what it becomes, it has no halves but a history: a buffer with a part for its beginning and one for what each
 * iteration makes of it. An iteration reads a part and stores the next one; a stack of the carry is all but the last, one of what it becomes all but
 * the first.
 *
 * So before a loop begins what it scans is in memory, and the beginning of each carry is stored to the first half or part. Groups, and kernels with
 * them, do not go beyond a body. All values of a loop are computed once for all replicas, or all for each. */
#include "compiler/kernel/library.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "compiler/passes/fuse.h"
#include "ir/body.h"

void dt_fuse_prepare_loops(dt_fusion *f) {
    const dt_function *function = f->lowering->function;
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
        const dt_value *around = f->bodies[value->id], *end = dt_loop_end(value);
        dt_plan_loop *loop = DT_NEW(f->arena, dt_plan_loop);
        *loop = (dt_plan_loop){.number = f->plan->n_loops,
                               .trips = dt_loop_trips(value),
                               .remade = dt_value_int(value, "remade"),
                               .around = around != NULL ? f->loops[around->id] : NULL};
        for (const dt_value *advance = value->next; advance != end; advance = advance->next)
            loop->n_carries += dt_value_is(advance, "advance") && f->bodies[advance->id] == value;
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

static bool is_stack_of(const dt_value *value, const dt_value *loop) { return dt_value_is(value, "stack") && value->operands[1] == loop; }

/* ---- carries ---- */

/* In iteration t position first + step * t of an axis is the carry, and the one after it, by `step`, what it becomes. */
static void place_carry(dt_fusion *f, const dt_value *loop, const dt_value *carry, dt_view view) {
    const dt_value *advance = f->advances[carry->id];
    dt_placement *placement = dt_placement_of(f, carry);
    dt_view first = view;
    first.loop = NULL, first.step = first.wrap = 0;
    int beginning = dt_plan_add_view(f->arena, f->plan, name_of(f, carry, "/first"), first);
    placement->producer = view.wrap > 0 ? dt_fusion_store(f, carry->operands[0], beginning, f->is_replicated[loop->id])
                                        : dt_fusion_store_late(f, carry->operands[0], beginning, f->is_replicated[loop->id]);
    placement->stored = true;
    f->lowering->buffers[carry->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, carry, ""), view);
    view.first += view.step;
    f->parts[advance->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, carry, "/next"), view);
    give_own_buffer(f, loop, advance->operands[1], f->parts[advance->id]);
}

/* A buffer for `n` of the carry, along a new axis. */
static dt_view begin_buffer(dt_fusion *f, const dt_value *loop, const dt_value *carry, const char *name, int axis, int64_t n) {
    int rank = carry->shape.rank + 1;
    int64_t *dims = DT_NEW_ARRAY(f->arena, int64_t, rank);
    for (int d = 0; d < rank; d++) dims[d] = d == axis ? n : carry->shape.dims[d < axis ? d : d - 1];
    dt_view view = {.shape = {rank, dims}, .axis = axis};
    view.of = dt_plan_add_buffer(f->arena, f->plan,
                                 (dt_buffer){.name = name_of(f, carry, name),
                                             .space = f->is_replicated[loop->id] ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH,
                                             .dtype = carry->dtype,
                                             .shape = view.shape,
                                             .variable = -1,
                                             .input = -1});
    return view;
}

/* Whether parts of the stack begin where buffers may. */
static bool has_aligned_parts(const dt_value *stack) {
    int64_t bytes = (int64_t)dt_dtype_bytes(stack->dtype);
    for (int d = (int)dt_value_int(stack, "axis") + 1; d < stack->shape.rank; d++)
        if (!dt_dim_is_symbol(stack->shape.dims[d])) bytes *= stack->shape.dims[d];
    return bytes % DT_BUFFER_ALIGNMENT == 0;
}

/* Whether a part of a larger buffer will do for the stack: the runtime looks for results, and collectives for what they take, in memory that is
 * theirs alone; what is scanned through a reshape would be copied; a GPU wants a carry that is aligned, as its halves are, and its libraries take a
 * stack's rows and iterations as one dimension. */
static bool may_be_part(const dt_fusion *f, const dt_value *stack) {
    const dt_placement *placement = dt_placement_of(f, stack);
    const dt_function *function = f->lowering->function;
    if (f->plan->batched && !has_aligned_parts(stack)) return false;
    for (size_t r = 0; r < function->results.n; r++)
        if (dt_placement_of(f, function->results.items[r].value)->base == stack) return false;
    for (size_t u = 0; u < placement->users.n; u++) {
        const dt_value *user = placement->users.items[u];
        const dt_loops *loops = dt_lowering_loops(f->lowering, user);
        if (user->op->class == DT_CLASS_COLLECTIVE || (dt_value_is(user, "scanned") && user->operands[0] != stack)) return false;
        if (dt_fusion_has_library(f) && loops != NULL && dt_loops_want_library(f->plan, user, loops)) return false;
    }
    return true;
}

/* The next stack after `stack` of the carry or of what it becomes that may be part of its history, and lies as `like` does. */
static const dt_value *next_kept(const dt_fusion *f, const dt_value *loop, const dt_value *carry, const dt_value *stack, const dt_value *like) {
    const dt_value *becomes = f->advances[carry->id]->operands[1];
    for (stack = stack->next; stack != NULL; stack = stack->next) {
        if (!is_stack_of(stack, loop) || (stack->operands[0] != carry && stack->operands[0] != becomes)) continue;
        if (f->lowering->buffers[stack->id] >= 0 || !may_be_part(f, stack)) continue;
        bool alike = like == NULL ||
                     (dt_value_int(stack, "axis") == dt_value_int(like, "axis") && dt_value_bool(stack, "reverse") == dt_value_bool(like, "reverse"));
        if (alike) return stack;
    }
    return NULL;
}

/* The stacks that have no part of their own to store to. */
static bool is_in_history(const dt_fusion *f, const dt_value *stack) {
    int buffer = f->lowering->buffers[stack->id];
    return buffer >= 0 && f->plan->buffers[buffer].view != NULL;
}

static void begin_history(dt_fusion *f, const dt_value *loop, const dt_value *carry, const dt_value *kept) {
    int64_t trips = dt_loop_trips(loop);
    bool reverse = dt_value_bool(kept, "reverse");
    dt_view view = begin_buffer(f, loop, carry, "/history", (int)dt_value_int(kept, "axis"), trips + 1);
    for (const dt_value *stack = kept; stack != NULL; stack = next_kept(f, loop, carry, stack, kept)) {
        view.length = trips;
        view.first = (stack->operands[0] == carry) == reverse;
        f->lowering->buffers[stack->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, stack, ""), view);
    }
    view.length = 0;
    view.loop = f->loops[loop->id];
    view.first = reverse ? trips : 0;
    view.step = reverse ? -1 : 1;
    place_carry(f, loop, carry, view);
}

static void begin_carry(dt_fusion *f, const dt_value *loop, const dt_value *carry) {
    enum {
        n_halves = 2
    };
    const dt_value *kept = next_kept(f, loop, carry, dt_loop_end(loop), NULL);
    if (kept != NULL) {
        begin_history(f, loop, carry, kept);
        return;
    }
    dt_view half = begin_buffer(f, loop, carry, "/halves", 0, n_halves);
    half.loop = f->loops[loop->id];
    half.step = 1;
    half.wrap = n_halves;
    place_carry(f, loop, carry, half);
}

static void begin_loop(dt_fusion *f, const dt_value *loop) {
    const dt_value *end = dt_loop_end(loop);
    for (const dt_value *value = loop->next; value != end; value = value->next) {
        if (f->bodies[value->id] != loop) continue;
        if (dt_value_is(value, "scanned")) begin_scanned(f, loop, value);
        if (dt_value_is(value, "carry")) begin_carry(f, loop, value);
    }
    for (const dt_value *value = end->next; value != NULL; value = value->next) {
        if (!is_stack_of(value, loop) || is_in_history(f, value)) continue;
        dt_view part = part_along(f, dt_fusion_buffer(f, value), loop, value->shape, value);
        f->parts[value->id] = dt_plan_add_view(f->arena, f->plan, name_of(f, value, "/part"), part);
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

/* The group that stores what the carry becomes, in whose history the stack is. */
static int producer_of_history(const dt_fusion *f, const dt_value *loop, const dt_value *stack) {
    const dt_value *advance = loop->next;
    int history = f->plan->buffers[f->lowering->buffers[stack->id]].view->of;
    while (!dt_value_is(advance, "advance") || f->plan->buffers[f->parts[advance->id]].view->of != history) advance = advance->next;
    return dt_placement_of(f, advance)->producer;
}

static void end_loop(dt_fusion *f, const dt_value *end) {
    const dt_value *loop = end;
    while (f->loops[loop->id] != f->loop) loop = loop->previous;
    for (const dt_value *value = loop->next; value != end; value = value->next)
        if (dt_value_is(value, "advance") && f->bodies[value->id] == loop)
            dt_placement_of(f, value)->producer = store_part(f, loop, value->operands[1], value);
    for (const dt_value *value = end->next; value != NULL; value = value->next)
        if (is_stack_of(value, loop))
            dt_placement_of(f, value)->producer =
                is_in_history(f, value) ? producer_of_history(f, loop, value) : store_part(f, loop, value->operands[0], value);
    f->loop = f->loop->around;
}

/* Where the last iteration has stored it. */
static void place_final(dt_fusion *f, const dt_value *final) {
    const dt_value *carry = final->operands[0], *advance = f->advances[carry->id];
    dt_view last = *f->plan->buffers[f->parts[advance->id]].view;
    last.first += last.step * (last.loop->trips - 1);
    if (last.wrap > 0) last.first %= last.wrap;
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
