/* interpret: see interpret.h. All replicas go through a function side by side, value by value, so that collectives are where replicas meet; one
 * replica alone is the case n = 1, in which a collective has nothing to do. A value of which neither elements nor operands depend on the replica is
 * computed for the first, and the others share its elements: a whole update is. Of a program with shards each shard of a replica goes by itself: here
 * "replica" r * n_shards + s is shard s of replica r.
 *
 * Elements are held as scalars of 8 bytes, each already rounded to its dtype; a value's elements live until its last use, those of a loop's body
 * until the iteration ends, and what the body uses from outside until the loop does. */
#include "ir/interpret.h"

#include "base/memory.h"
#include "ir/body.h"
#include "ir/nest.h"

#include <inttypes.h>
#include <string.h>

/* Elements shared by a value and what only moves them, and by replicas. */
typedef struct block {
    int references;
    size_t capacity; /* 0: the elements are those of an input or a variable */
    dt_scalar *data; /* after the block, else */
} block;

enum {
    MOST_SPARE = 8,
    LEAST_SPARE = 1 << 13 /* elements: what the allocator would give back to the system */
};

typedef struct slot {
    dt_wide wide;
    block *block; /* NULL before it is computed and after its last use */
} slot;

/* A loop of the function. */
typedef struct iteration {
    int64_t number;
    dt_value *end;
    DT_LIST(const dt_value *) leaving, advances;
} iteration;

typedef struct run {
    dt_arena *arena;
    dt_arena *scratch; /* for one value */
    jmp_buf guard;
    const dt_function *function;
    int n_replicas, n_shards; /* replicas: shards of all of them */
    const dt_launch *launches;
    const dt_tensor *inputs; /* of replicas, each for its shards */
    dt_memory *memory;
    slot *slots;              /* [n_replicas * next_id]: of replica r, value id: r * next_id + id */
    bool writes;              /* variables, at the end: what is read is copied */
    int *n_uses;              /* [next_id] still to come; of values outside of loops */
    dt_value **bodies;        /* [next_id] ir/body.h; NULL: the function has no loops */
    iteration *iterations;    /* [next_id] of loops */
    block *spare[MOST_SPARE]; /* large blocks that nobody uses any more, for the next values */
    int n_spare;
} run;

static slot *slot_of(const run *run, int replica, const dt_value *value) { return &run->slots[replica * run->function->next_id + value->id]; }

static int64_t resolve(int64_t dim, const dt_launch *launch) { return dim == DT_BATCH ? launch->rows : dim == DT_GATHERED ? launch->valid : dim; }

static dt_shape resolve_shape(dt_arena *arena, dt_shape shape, const dt_launch *launch) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, shape.rank);
    for (int d = 0; d < shape.rank; d++) dims[d] = resolve(shape.dims[d], launch);
    return (dt_shape){shape.rank, dims};
}

/* ---- blocks ---- */

static dt_wide describe(const run *run, int replica, const dt_value *value) {
    return dt_wide_make(run->arena, value->dtype, resolve_shape(run->arena, value->shape, &run->launches[replica]));
}

static block *take_spare(run *run, size_t n) {
    for (int i = 0; i < run->n_spare; i++) {
        block *found = run->spare[i];
        if (found->capacity < n || found->capacity / 2 > n) continue;
        run->spare[i] = run->spare[--run->n_spare];
        return found;
    }
    return NULL;
}

/* Gives a slot a block of its own with room for n elements, not set yet. */
static dt_status *allocate(run *run, const dt_value *value, dt_wide wide, size_t n, slot *slot) {
    _Static_assert(sizeof(block) % _Alignof(dt_scalar) == 0, "elements follow the block");
    block *made = take_spare(run, n);
    if (made == NULL) {
        made = dt_allocate(sizeof *made + n * sizeof(dt_scalar));
        if (made != NULL) *made = (block){.capacity = n, .data = (dt_scalar *)(made + 1)};
    }
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for the %zu elements of %%%d in %s", n, value->id, run->function->name);
    made->references = 1;
    wide.data = made->data;
    slot->wide = wide;
    slot->block = made;
    return NULL;
}

static dt_status *allocate_dense(run *run, int replica, const dt_value *value) {
    dt_wide wide = describe(run, replica, value);
    return allocate(run, value, wide, wide.n, slot_of(run, replica, value));
}

/* Lets a slot have the elements of a tensor that nobody writes while the function runs, and that holds scalars as they are. */
static dt_status *borrow(run *run, int replica, const dt_value *value, const dt_tensor *tensor) {
    slot *slot = slot_of(run, replica, value);
    slot->wide = describe(run, replica, value);
    slot->block = dt_allocate(sizeof *slot->block);
    if (slot->block == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %%%d in %s", value->id, run->function->name);
    *slot->block = (block){.references = 1, .data = tensor->data};
    slot->wide.data = tensor->data;
    return NULL;
}

/* Lets a slot have elements of another one's block. */
static void share(slot *slot, dt_wide wide, const struct slot *from) {
    slot->wide = wide;
    slot->wide.data = from->block->data;
    slot->block = from->block;
    slot->block->references++;
}

static void release(run *run, slot *slot) {
    block *block = slot->block;
    slot->block = NULL;
    if (block == NULL || --block->references > 0) return;
    if (block->capacity >= LEAST_SPARE && run->n_spare < MOST_SPARE)
        run->spare[run->n_spare++] = block;
    else
        dt_release(block);
}

/* Collectives, reshapes and results take elements row-major. */
static dt_status *lay_out(run *run, int replica, const dt_value *value) {
    slot *slot = slot_of(run, replica, value), view = *slot;
    if (dt_wide_is_dense(&view.wide)) return NULL;
    DT_TRY(allocate_dense(run, replica, value));
    dt_wide_copy(&view.wide, slot->wide.data);
    release(run, &view);
    return NULL;
}

static void load(dt_wide *wide, const dt_tensor *tensor) {
    size_t bytes = dt_dtype_bytes(tensor->dtype);
    if (tensor->dtype == DT_F64) /* a scalar as it is */
        memcpy(wide->data, tensor->data, wide->n * bytes);
    else
        for (size_t i = 0; i < wide->n; i++) wide->data[i] = dt_scalar_load((const char *)tensor->data + i * bytes, tensor->dtype);
}

static void store(const dt_wide *wide, dt_tensor *tensor) {
    size_t bytes = dt_dtype_bytes(tensor->dtype);
    if (tensor->dtype == DT_F64)
        memcpy(tensor->data, wide->data, wide->n * bytes);
    else
        for (size_t i = 0; i < wide->n; i++) dt_scalar_store((char *)tensor->data + i * bytes, tensor->dtype, wide->data[i]);
}

/* ---- arguments and variables ---- */

static dt_status *take(run *run, int replica, const dt_value *value, const dt_tensor *tensor, bool stays) {
    if (stays && tensor->dtype == DT_F64) return borrow(run, replica, value, tensor);
    DT_TRY(allocate_dense(run, replica, value));
    load(&slot_of(run, replica, value)->wide, tensor);
    return NULL;
}

static dt_status *take_input(run *run, int replica, const dt_value *value) {
    size_t i = 0;
    while (run->function->inputs.items[i] != value) i++;
    const dt_tensor *input = &run->inputs[(size_t)(replica / run->n_shards) * run->function->inputs.n + i];
    dt_shape expected = resolve_shape(run->arena, value->shape, &run->launches[replica]);
    if (input->dtype != value->dtype || !dt_shape_equal(input->shape, expected)) {
        dt_text text = {0};
        dt_shape_print(&text, value->dtype, expected);
        dt_text_append(&text, ", got ");
        dt_shape_print(&text, input->dtype, input->shape);
        dt_status *status = dt_error(DT_INVALID_ARGUMENT, "%s expects %s: %s", run->function->name, value->name, text.data != NULL ? text.data : "");
        dt_text_free(&text);
        return status;
    }
    return take(run, replica, value, input, true);
}

static dt_status *variable_of(const run *run, const dt_value *value, dt_tensor **tensor) {
    const dt_module *module = run->function->module;
    const char *path = dt_value_string(value, "variable");
    const dt_variable *variable = dt_module_find_variable(module, path);
    if (variable == NULL || run->memory == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "%s uses the variable %s, which is not given", run->function->name, path);
    *tensor = &run->memory->variables[variable - module->variables.items];
    return NULL;
}

/* Copies a shard's part of a variable, or from there; of padding nothing, which is zero. */
static void copy_part(const run *run, const dt_value *value, int shard, dt_tensor *variable, dt_tensor *part, bool to_part) {
    const dt_variable *declared = dt_module_find_variable(run->function->module, dt_value_string(value, "variable"));
    size_t bytes = dt_dtype_bytes(variable->dtype);
    for (size_t i = 0; i < dt_tensor_elements(part); i++) {
        int64_t at = dt_shape_element_of_part(declared->shape, declared->shard_axis, declared->shard_groups, run->n_shards, shard, (int64_t)i);
        if (at < 0) continue;
        char *in_part = (char *)part->data + i * bytes, *whole = (char *)variable->data + (size_t)at * bytes;
        memcpy(to_part ? in_part : whole, to_part ? whole : in_part, bytes);
    }
}

static dt_status *read_variable(run *run, int replica, const dt_value *value) {
    dt_tensor *tensor;
    DT_TRY(variable_of(run, value, &tensor));
    if (!value->distribution.sharded) return take(run, replica, value, tensor, !run->writes);
    dt_tensor part = dt_tensor_make(run->arena, value->dtype, value->shape);
    copy_part(run, value, replica % run->n_shards, tensor, &part, true);
    return take(run, replica, value, &part, false);
}

/* At the end of the function. All replicas must have come to the same bits. */
static dt_status *write_variable(run *run, const dt_value *value) {
    dt_tensor *tensor;
    DT_TRY(variable_of(run, value, &tensor));
    for (int r = 0; r < run->n_replicas; r++) DT_TRY(lay_out(run, r, value->operands[0]));
    int n_parts = value->distribution.sharded ? run->n_shards : 1;
    for (int r = n_parts; r < run->n_replicas; r++) {
        const dt_wide *first = &slot_of(run, r % n_parts, value->operands[0])->wide, *other = &slot_of(run, r, value->operands[0])->wide;
        if (other->data != first->data && memcmp(first->data, other->data, first->n * sizeof *first->data) != 0)
            return dt_error(DT_INTERNAL, "%s: replicas 0 and %d give the variable %s different values", run->function->name, r,
                            dt_value_string(value, "variable"));
    }
    for (int shard = 0; shard < n_parts; shard++) {
        const dt_wide *own = &slot_of(run, shard, value->operands[0])->wide;
        dt_tensor part = *tensor;
        if (n_parts > 1) part = dt_tensor_make(run->arena, tensor->dtype, value->operands[0]->shape);
        store(own, &part);
        if (n_parts > 1) copy_part(run, value, shard, tensor, &part, false);
    }
    return NULL;
}

/* ---- collectives ---- */

static dt_scalar combine(const char *kind, dt_dtype dtype, dt_scalar a, dt_scalar b) {
    bool is_sum = strcmp(kind, "sum") == 0, is_max = strcmp(kind, "max") == 0;
    if (!dt_dtype_is_float(dtype))
        return dt_scalar_round((dt_scalar){.i = is_sum ? (int64_t)((uint64_t)a.i + (uint64_t)b.i) : (a.i > b.i) == is_max ? a.i : b.i}, dtype);
    if (is_sum) return dt_scalar_round((dt_scalar){.f = a.f + b.f}, dtype);
    if (a.f != a.f || b.f != b.f) return a.f != a.f ? a : b;
    return (a.f > b.f) == is_max ? a : b;
}

/* Who takes part in a collective: first, first + step, … */
typedef struct members {
    int first, step, n;
} members;

static slot *slot_of_member(const run *run, members of, int i, const dt_value *value) { return slot_of(run, of.first + i * of.step, value); }

/* One element over members [first, first + n): a binary tree, split at the largest power of two below n. */
static dt_scalar reduce_tree(const run *run, members of, const char *kind, const dt_value *x, size_t element, int first, int n) {
    if (n == 1) return slot_of_member(run, of, first, x)->wide.data[element];
    int left = 1;
    while (left * 2 < n) left *= 2;
    return combine(kind, x->dtype, reduce_tree(run, of, kind, x, element, first, left),
                   reduce_tree(run, of, kind, x, element, first + left, n - left));
}

static dt_status *all_reduce(run *run, members of, const dt_value *value) {
    const dt_value *x = value->operands[0];
    const char *kind = dt_value_string(value, "kind");
    DT_TRY(allocate_dense(run, of.first, value));
    slot *first = slot_of(run, of.first, value);
    for (size_t i = 0; i < first->wide.n; i++) first->wide.data[i] = reduce_tree(run, of, kind, x, i, 0, of.n);
    for (int r = 1; r < of.n; r++) share(slot_of_member(run, of, r, value), first->wide, first);
    return NULL;
}

/* Of a tensor with n elements along an axis: how many blocks are before it, and how many values one element of it has. */
static void split_at(const dt_wide *wide, int axis, size_t *n_blocks, size_t *width) {
    *n_blocks = *width = 1;
    for (int d = 0; d < axis; d++) *n_blocks *= (size_t)wide->dims[d];
    for (int d = axis + 1; d < wide->rank; d++) *width *= (size_t)wide->dims[d];
}

static dt_status *all_gather(run *run, members of, const dt_value *value) {
    int axis = (int)dt_value_int(value, "axis");
    size_t n_blocks, width, filled = 0;
    DT_TRY(allocate_dense(run, of.first, value));
    slot *first = slot_of(run, of.first, value);
    split_at(&first->wide, axis, &n_blocks, &width);
    for (int r = 0; r < of.n; r++) {
        const dt_wide *part = &slot_of_member(run, of, r, value->operands[0])->wide;
        size_t rows = (size_t)part->dims[axis], all = (size_t)first->wide.dims[axis];
        if (filled + rows > all) return dt_error(DT_INVALID_ARGUMENT, "%s: the replicas have more rows than are valid", run->function->name);
        for (size_t b = 0; b < n_blocks; b++)
            memcpy(first->wide.data + (b * all + filled) * width, part->data + b * rows * width, rows * width * sizeof(dt_scalar));
        filled += rows;
    }
    for (int r = 1; r < of.n; r++) share(slot_of_member(run, of, r, value), first->wide, first);
    return NULL;
}

static dt_status *reduce_scatter(run *run, members of, const dt_value *value) {
    const dt_value *x = value->operands[0];
    const char *kind = dt_value_string(value, "kind");
    int axis = (int)dt_value_int(value, "axis");
    size_t start = 0, n_blocks, width;
    for (int r = 0; r < of.n; r++) {
        DT_TRY(allocate_dense(run, of.first + r * of.step, value));
        dt_wide *own = &slot_of_member(run, of, r, value)->wide;
        size_t rows = (size_t)own->dims[axis], all = (size_t)slot_of_member(run, of, r, x)->wide.dims[axis];
        split_at(own, axis, &n_blocks, &width);
        for (size_t b = 0; b < n_blocks; b++)
            for (size_t i = 0; i < rows * width; i++)
                own->data[b * rows * width + i] = reduce_tree(run, of, kind, x, (b * all + start) * width + i, 0, of.n);
        start += rows;
    }
    return NULL;
}

static dt_status *collective(run *run, const dt_value *value) {
    for (int r = 0; r < run->n_replicas; r++) DT_TRY(lay_out(run, r, value->operands[0]));
    bool over_shards = dt_value_is(value, "shard_reduce");
    int n_groups = over_shards ? run->n_replicas / run->n_shards : run->n_shards;
    for (int g = 0; g < n_groups; g++) {
        members of = over_shards ? (members){g * run->n_shards, 1, run->n_shards} : (members){g, run->n_shards, run->n_replicas / run->n_shards};
        if (over_shards || dt_value_is(value, "all_reduce"))
            DT_TRY(all_reduce(run, of, value));
        else
            DT_TRY(dt_value_is(value, "all_gather") ? all_gather(run, of, value) : reduce_scatter(run, of, value));
    }
    return NULL;
}

/* ---- loops ---- */

static const dt_value *body_of(const run *run, const dt_value *value) { return run->bodies != NULL ? run->bodies[value->id] : NULL; }

static void prepare_loops(run *run) {
    const dt_function *function = run->function;
    if (!dt_function_has_loops(function)) return;
    run->bodies = DT_NEW_ARRAY(run->arena, dt_value *, function->next_id);
    run->iterations = DT_NEW_ARRAY(run->arena, iteration, function->next_id);
    dt_function_find_bodies(function, run->bodies);
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        if (value->op->class != DT_CLASS_LOOP) continue;
        if (dt_value_is_loop(value)) run->iterations[value->id].end = dt_loop_end(value);
        if (dt_value_leaves(value)) dt_list_push(run->arena, &run->iterations[dt_loop_left(run->bodies, value)->id].leaving, value);
        if (dt_value_is(value, "advance")) dt_list_push(run->arena, &run->iterations[body_of(run, value)->id].advances, value);
    }
}

/* The iteration's element of an axis of `size`. */
static int64_t element_of(const run *run, const dt_value *value, const dt_value *loop, int64_t size) {
    int64_t number = run->iterations[loop->id].number;
    return dt_value_bool(value, "reverse") ? size - 1 - number : number;
}

static void scan(run *run, int replica, const dt_value *value) {
    const slot *from = slot_of(run, replica, value->operands[0]);
    int axis = (int)dt_value_int(value, "axis");
    dt_wide view = describe(run, replica, value);
    int64_t *strides = DT_NEW_ARRAY(run->arena, int64_t, view.rank);
    for (int d = 0; d < view.rank; d++) strides[d] = from->wide.strides[d < axis ? d : d + 1];
    view.strides = strides;
    view.start = from->wide.start + from->wide.strides[axis] * element_of(run, value, body_of(run, value), from->wide.dims[axis]);
    share(slot_of(run, replica, value), view, from);
}

static void put(const run *run, int replica, const dt_value *value) {
    const dt_wide *part = &slot_of(run, replica, value->operands[0])->wide, *all = &slot_of(run, replica, value)->wide;
    int axis = (int)dt_value_int(value, "axis");
    size_t size = (size_t)all->dims[axis], n_blocks, width;
    size_t element = (size_t)element_of(run, value, dt_loop_left(run->bodies, value), (int64_t)size);
    split_at(all, axis, &n_blocks, &width);
    for (size_t b = 0; b < n_blocks; b++) memcpy(all->data + (b * size + element) * width, part->data + b * width, width * sizeof *part->data);
}

/* At the end of an iteration: what leaves the body in each. Sums of f16 and bf16 are rounded once. */
static dt_status *leave(run *run, int replica, const dt_value *value, bool first, bool last) {
    dt_dtype dtype = dt_dtype_of_sums(value->dtype);
    bool stacks = dt_value_is(value, "stack");
    if (dt_value_is(value, "final")) return NULL; /* when carries advance */
    DT_TRY(lay_out(run, replica, value->operands[0]));
    if (first) DT_TRY(allocate_dense(run, replica, value));
    const dt_wide *x = &slot_of(run, replica, value->operands[0])->wide, *sum = &slot_of(run, replica, value)->wide;
    if (stacks)
        put(run, replica, value);
    else
        for (size_t i = 0; i < sum->n; i++) sum->data[i] = first ? x->data[i] : combine("sum", dtype, sum->data[i], x->data[i]);
    if (!stacks && last) dt_scalars_round(sum->data, sum->n, value->dtype);
    return NULL;
}

/* The carry has its next elements: for another iteration, or as what it finally is. */
static void arrive(run *run, int replica, const dt_value *carry, const iteration *iteration, slot next, bool last) {
    if (!last) {
        *slot_of(run, replica, carry) = next;
        return;
    }
    for (size_t i = 0; i < iteration->leaving.n; i++)
        if (dt_value_is(iteration->leaving.items[i], "final") && iteration->leaving.items[i]->operands[0] == carry)
            share(slot_of(run, replica, iteration->leaving.items[i]), next.wide, &next);
    release(run, &next);
}

/* Ends an iteration on one replica: something leaves, the body's elements go, carries advance together. */
static dt_status *end_iteration(run *run, int replica, const dt_value *loop) {
    iteration *here = &run->iterations[loop->id];
    bool last = here->number + 1 == dt_loop_trips(loop);
    for (size_t i = 0; i < here->leaving.n; i++) DT_TRY(leave(run, replica, here->leaving.items[i], here->number == 0, last));
    slot *next = DT_NEW_ARRAY(run->arena, slot, here->advances.n);
    for (size_t i = 0; i < here->advances.n; i++) {
        const slot *from = slot_of(run, replica, here->advances.items[i]->operands[1]);
        share(&next[i], from->wide, from);
    }
    for (const dt_value *value = loop->next; value != here->end; value = value->next) release(run, slot_of(run, replica, value));
    for (size_t i = 0; i < here->advances.n; i++) arrive(run, replica, here->advances.items[i]->operands[0], here, next[i], last);
    return NULL;
}

static void drop_use(run *run, const dt_value *value) {
    if (--run->n_uses[value->id] > 0) return;
    for (int r = 0; r < run->n_replicas; r++) release(run, slot_of(run, r, value));
}

/* What a loop that has ended used from outside of all loops. */
static void drop_uses_of_loop(run *run, const dt_value *loop) {
    if (body_of(run, loop) != NULL) return;
    for (const dt_value *value = loop->next; value != run->iterations[loop->id].end; value = value->next)
        for (int k = 0; k < value->n_operands; k++)
            if (body_of(run, value->operands[k]) == NULL) drop_use(run, value->operands[k]);
}

/* The value of `begin_loop` itself. */
static dt_status *number_iteration(run *run, const dt_value *loop, int64_t number) {
    run->iterations[loop->id].number = number;
    for (int r = 0; r < run->n_replicas; r++) {
        release(run, slot_of(run, r, loop));
        DT_TRY(allocate_dense(run, r, loop));
        slot_of(run, r, loop)->wide.data[0].i = number;
    }
    return NULL;
}

/* Goes on to *next: from the end of a loop back to its beginning, until it has run as often as it shall. */
static dt_status *step_loop(run *run, const dt_value *value, const dt_value **next) {
    if (dt_value_is_loop(value)) return number_iteration(run, value, 0);
    if (!dt_value_is_end_loop(value)) return NULL;
    const dt_value *loop = value->previous;
    while (!dt_value_is_loop(loop) || run->iterations[loop->id].end != value) loop = loop->previous;
    for (int r = 0; r < run->n_replicas; r++) DT_TRY(end_iteration(run, r, loop));
    if (run->iterations[loop->id].number + 1 == dt_loop_trips(loop)) {
        drop_uses_of_loop(run, loop);
        return NULL;
    }
    *next = loop->next;
    return number_iteration(run, loop, run->iterations[loop->id].number + 1);
}

/* A carry, or a part of what is scanned; all else has been seen to at the ends of iterations. */
static void enter(run *run, int replica, const dt_value *value) {
    bool carries = dt_value_is(value, "carry");
    if (dt_value_is(value, "scanned")) scan(run, replica, value);
    if (!carries || run->iterations[body_of(run, value)->id].number > 0) return;
    const slot *from = slot_of(run, replica, value->operands[0]);
    share(slot_of(run, replica, value), from->wide, from);
}

/* ---- values ---- */

/* Memory for the next value. */
static dt_status *renew_scratch(run *run) {
    dt_arena_destroy(run->scratch);
    run->scratch = dt_arena_create();
    if (run->scratch == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to interpret %s", run->function->name);
    dt_arena_guard(run->scratch, &run->guard);
    return NULL;
}

/* Of an index that is the same for all shards the first one counts whether it is out of range. */
static bool is_counted(const run *run, int replica, const dt_value *value) {
    return replica % run->n_shards == 0 || (value->n_operands > 1 && value->operands[1]->distribution.sharded);
}

static dt_status *evaluate(run *run, int replica, const dt_value *value) {
    DT_TRY(renew_scratch(run));
    dt_bad_index of_others = {0};
    dt_launch of_shard = run->launches[replica];
    const dt_launch *launch = &of_shard;
    if (!is_counted(run, replica, value)) of_shard.bad_index = &of_others;
    slot *slot = slot_of(run, replica, value);
    dt_wide *operands = DT_NEW_ARRAY(run->scratch, dt_wide, value->n_operands), view = describe(run, replica, value);
    for (int k = 0; k < value->n_operands; k++) operands[k] = slot_of(run, replica, value->operands[k])->wide;
    dt_scalar constant;
    int operand;
    if (!dt_nest_view(run->scratch, value, launch, operands, &view, &operand, &constant)) {
        DT_TRY(allocate_dense(run, replica, value));
        return dt_nest_run(run->scratch, value, launch, operands, &slot->wide);
    }
    view.strides = dt_arena_copy(run->arena, view.strides, (size_t)view.rank * sizeof *view.strides);
    if (operand >= 0) {
        share(slot, view, slot_of(run, replica, value->operands[operand]));
    } else {
        DT_TRY(allocate(run, value, view, 1, slot));
        slot->block->data[0] = constant;
    }
    return NULL;
}

/* Moves nothing: the elements of a reshape are those of its operand. */
static dt_status *reshape(run *run, int replica, const dt_value *value) {
    const slot *from = slot_of(run, replica, value->operands[0]);
    dt_wide wide = describe(run, replica, value);
    DT_TRY(lay_out(run, replica, value->operands[0]));
    share(slot_of(run, replica, value), wide, from);
    return NULL;
}

static bool has_batch(const dt_value *value) {
    for (int d = 0; d < value->shape.rank; d++)
        if (value->shape.dims[d] == DT_BATCH) return true;
    return false;
}

/* Whether `value` is on this replica what it is on the first: it has no rows, and its operands are the same elements. */
static bool is_that_of_first(const run *run, int replica, const dt_value *value) {
    bool is_input = value->n_operands == 0 && value->op->class != DT_CLASS_STATE && value->op->loops == NULL;
    bool is_another = value->distribution.sharded && replica % run->n_shards != 0;
    if (replica == 0 || is_input || is_another || has_batch(value)) return false;
    for (int k = 0; k < value->n_operands; k++) {
        const slot *first = slot_of(run, 0, value->operands[k]), *here = slot_of(run, replica, value->operands[k]);
        bool is_same = here->block == first->block && here->wide.start == first->wide.start && here->wide.strides == first->wide.strides;
        if (!is_same || has_batch(value->operands[k])) return false;
    }
    return true;
}

static dt_status *compute(run *run, const dt_value *value) {
    if (value->op->class == DT_CLASS_COLLECTIVE) return collective(run, value);
    if (value->op->class == DT_CLASS_CONTROL)
        return dt_error(DT_INVALID_ARGUMENT, "%s: %%%d = %s is not resolved yet", run->function->name, value->id, value->op->name);
    if (dt_value_has_effect(value)) return NULL; /* at the end */
    for (int r = 0; r < run->n_replicas; r++) {
        if (value->op->class == DT_CLASS_LOOP) {
            enter(run, r, value);
        } else if (is_that_of_first(run, r, value)) {
            const slot *first = slot_of(run, 0, value);
            share(slot_of(run, r, value), first->wide, first);
        } else if (value->op->class == DT_CLASS_STATE) {
            DT_TRY(read_variable(run, r, value));
        } else if (value->op->loops != NULL) {
            DT_TRY(evaluate(run, r, value));
        } else if (value->n_operands == 0) {
            DT_TRY(take_input(run, r, value));
        } else {
            DT_TRY(reshape(run, r, value));
        }
    }
    return NULL;
}

static void count_uses(const run *run) {
    for (const dt_value *value = run->function->first; value != NULL; value = value->next)
        for (int k = 0; k < value->n_operands; k++) run->n_uses[value->operands[k]->id]++;
    for (size_t i = 0; i < run->function->results.n; i++) run->n_uses[run->function->results.items[i].value->id]++;
}

/* A use is over; a write's lasts to the end of the function, a body's to the end of its loop. */
static void drop_uses(run *run, const dt_value *value) {
    if (dt_value_has_effect(value) || body_of(run, value) != NULL) return;
    for (int k = 0; k < value->n_operands; k++)
        if (body_of(run, value->operands[k]) == NULL) drop_use(run, value->operands[k]);
    if (run->n_uses[value->id] == 0)
        for (int r = 0; r < run->n_replicas; r++) release(run, slot_of(run, r, value));
}

static dt_status *run_function(run *run, dt_tensor *results) {
    const dt_function *function = run->function;
    run->n_uses = DT_NEW_ARRAY(run->arena, int, function->next_id);
    count_uses(run);
    prepare_loops(run);
    for (const dt_value *value = function->first; value != NULL; value = value->next) run->writes |= dt_value_writes(value);
    for (const dt_value *value = function->first, *next; value != NULL; value = next) {
        next = value->next;
        DT_TRY(compute(run, value));
        drop_uses(run, value);
        DT_TRY(step_loop(run, value, &next));
    }
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_writes(value)) DT_TRY(write_variable(run, value));
    for (int r = 0; r < run->n_replicas; r += run->n_shards)
        for (size_t i = 0; i < function->results.n; i++) {
            const dt_value *value = function->results.items[i].value;
            DT_TRY(lay_out(run, r, value));
            store(&slot_of(run, r, value)->wide, &results[(size_t)(r / run->n_shards) * function->results.n + i]);
        }
    return NULL;
}

/* run_function, left at any allocation of the run's arenas that fails. */
static dt_status *run_guarded(run *run, dt_tensor *results) {
    if (run->slots == NULL || run->arena == NULL || setjmp(run->guard))
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to interpret %s", run->function->name);
    dt_arena_guard(run->arena, &run->guard);
    return run_function(run, results);
}

/* Of a function whose values are a shard's; one before the pass `shard` is of the whole model. */
static int n_shards_of(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->distribution.sharded) return (int)function->module->n_shards;
    return 1;
}

dt_status *dt_interpret_replicas(dt_arena *arena, const dt_function *function, int n_replicas, const dt_launch *launches, const dt_tensor *inputs,
                                 dt_memory *memory, dt_tensor *results) {
    for (int r = 0; r < n_replicas; r++)
        for (size_t i = 0; i < function->results.n; i++) {
            const dt_value *value = function->results.items[i].value;
            results[(size_t)r * function->results.n + i] = dt_tensor_make(arena, value->dtype, resolve_shape(arena, value->shape, &launches[r]));
        }
    int n_shards = n_shards_of(function);
    dt_launch *of_shards = DT_NEW_ARRAY(arena, dt_launch, n_replicas * n_shards);
    for (int i = 0; i < n_replicas * n_shards; i++) {
        of_shards[i] = launches[i / n_shards];
        of_shards[i].shard = i % n_shards;
    }
    size_t n_slots = (size_t)n_replicas * (size_t)n_shards * (size_t)function->next_id;
    run run = {.arena = dt_arena_create(),
               .slots = dt_allocate_zeroed(n_slots, sizeof *run.slots),
               .function = function,
               .n_replicas = n_replicas * n_shards,
               .n_shards = n_shards,
               .launches = of_shards,
               .inputs = inputs,
               .memory = memory};
    dt_status *status = run_guarded(&run, results);
    for (size_t i = 0; run.slots != NULL && i < n_slots; i++) release(&run, &run.slots[i]);
    for (int i = 0; i < run.n_spare; i++) dt_release(run.spare[i]);
    dt_release(run.slots);
    dt_arena_destroy(run.scratch);
    dt_arena_destroy(run.arena);
    return status;
}

dt_status *dt_interpret(dt_arena *arena, const dt_function *function, const dt_launch *launch, const dt_tensor *inputs, dt_memory *memory,
                        dt_tensor *results) {
    return dt_interpret_replicas(arena, function, 1, launch, inputs, memory, results);
}

dt_status *dt_interpret_value(dt_arena *arena, const dt_value *value, const dt_launch *launch, const dt_tensor *operands, dt_tensor *result) {
    dt_wide *wides = DT_NEW_ARRAY(arena, dt_wide, value->n_operands + 1);
    *result = dt_tensor_make(arena, value->dtype, resolve_shape(arena, value->shape, launch));
    for (int k = 0; k <= value->n_operands; k++) {
        const dt_tensor *tensor = k < value->n_operands ? &operands[k] : result;
        wides[k] = dt_wide_make(arena, tensor->dtype, tensor->shape);
        wides[k].data = DT_NEW_ARRAY(arena, dt_scalar, wides[k].n);
        load(&wides[k], tensor);
    }
    dt_wide *own = &wides[value->n_operands];
    if (value->op->loops != NULL)
        DT_TRY(dt_nest_run(arena, value, launch, wides, own));
    else if (value->n_operands == 1)
        own->data = wides[0].data; /* reshape */
    store(own, result);
    return NULL;
}
