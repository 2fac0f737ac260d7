/* fuse_rematerialize: what is cheaper to recompute than to store, on a target where nothing stays in cache from nest to nest.
 *
 * On a CPU a microbatch goes through all nests of a kernel while it is in cache: there a value that two nests need is best stored. On a GPU all
 * rows pass through one nest before the next begins, so whatever is stored crosses memory, once on its way there and once for each nest that reads
 * it. Where nests could as well read what the value is made of and that moves fewer bytes, the value is computed where it is read and has no memory.
 * There are two such moves:
 *
 *   from what is stored  the exponentials of a softmax, from its logits and a maximum a row
 *   from a sum           what several nests need of what followed a product, such as the parts of a gelu that its gradient is made of: the product
 *                        itself is stored in their place
 *
 * Which nests read what shows when all groups are made. So values are marked then and the function is fused once more, until none is left; a marked
 * value makes its users dearer, which may give these memory of their own, in its place. */
#include "compiler/passes/fuse.h"

enum {
    operations_per_byte = 6 /* that a GPU does while a byte crosses its memory: an H200: 7, of f32, at 33e12 and 4.8e12 a second */
};

/* A group that reads one of the values, and at most how many elements of it. */
typedef struct dt_value_reader {
    const dt_value *value;
    int group;
    int64_t n;
} dt_value_reader;

/* A move: `values`, all of one group, are made again. */
typedef struct dt_move {
    const dt_fusion *fusion;
    dt_value_list *loads; /* [groups] what each loads, once it was asked for */
    int *met_for;         /* [next_id] the last group whose loads were looked for there */
    int group;
    const dt_value *sum; /* of that group, which is stored in their place; NULL: they are made of what is stored already */
    dt_value_list values;
    dt_value_list made;   /* what is computed for an element of each, themselves included */
    dt_value_list leaves; /* what is loaded for that */
    DT_LIST(dt_value_reader) readers;
} dt_move;

static bool add_new(dt_arena *arena, dt_value_list *list, const dt_value *value) {
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i] == value) return false;
    dt_list_push(arena, list, value);
    return true;
}

static int64_t elements_of(const dt_fusion *f, const dt_value *value) {
    return dt_shape_elements(value->shape, f->plan->microbatch_rows, f->plan->microbatch_rows);
}

static int64_t iterations_of(const dt_fusion *f, const dt_loops *loops) {
    int64_t iterations = 1;
    for (int l = 0; l < loops->n_loops; l++) iterations *= dt_dim_is_symbol(loops->extents[l]) ? f->plan->microbatch_rows : loops->extents[l];
    return iterations;
}

/* Bytes of n elements, as they are stored or would be. */
static int64_t bytes_of(const dt_fusion *f, const dt_value *value, int64_t n) {
    int buffer = f->lowering->buffers[value->id];
    dt_dtype dtype = buffer >= 0 ? f->plan->buffers[buffer].dtype : value->dtype;
    int64_t most = elements_of(f, value);
    return (n < most ? n : most) * (int64_t)dt_dtype_bytes(dtype);
}

/* ---- what a group loads ---- */

static void find_loads(const dt_move *m, const dt_value *value, int group) {
    const dt_value *base = dt_placement_of(m->fusion, value)->base;
    const dt_placement *placement = dt_placement_of(m->fusion, base);
    if (m->met_for[base->id] == group) return;
    m->met_for[base->id] = group;
    if (placement->stored && placement->group != group)
        dt_list_push(m->fusion->arena, &m->loads[group], base);
    else
        for (int k = 0; k < base->n_operands; k++) find_loads(m, base->operands[k], group);
}

static bool group_loads(const dt_move *m, int group, const dt_value *value) {
    const dt_cluster *cluster = &m->fusion->groups.items[group].cluster;
    dt_value_list *loads = &m->loads[group];
    if (loads->n == 0) {
        for (size_t r = 0; r < cluster->roots.n; r++)
            for (int k = 0; k < cluster->roots.items[r]->n_operands; k++) find_loads(m, cluster->roots.items[r]->operands[k], group);
        for (size_t o = 0; o < cluster->outputs.n; o++) find_loads(m, cluster->outputs.items[o].value, group);
    }
    for (size_t i = 0; i < loads->n; i++)
        if (loads->items[i] == value) return true;
    return false;
}

/* ---- who reads a value ---- */

static void add_reader(dt_move *m, const dt_value *value, int group, int64_t n) {
    for (size_t i = 0; i < m->readers.n; i++) {
        dt_value_reader *reader = &m->readers.items[i];
        if (reader->group != group || reader->value != value) continue;
        if (n > reader->n) reader->n = n;
        return;
    }
    dt_value_reader reader = {value, group, n};
    dt_list_push(m->fusion->arena, &m->readers, reader);
}

static int n_moved_by(const dt_fusion *f, const dt_value *user, const dt_loops *loops, const dt_value *value) {
    int n = 0;
    for (int k = 0; k < user->n_operands; k++)
        if (dt_placement_of(f, user->operands[k])->base == value) n += !dt_access_is_in_place(loops, &loops->operands[k], user->operands[k]->shape);
    return n;
}

/* A value's readers, met through `from`: the value, or what is computed of it where it is used. */
typedef struct dt_search {
    dt_move *move;
    const dt_value *value;
    dt_value_list seen;
    int n_moved; /* reads of another element than their own, as slices do */
} dt_search;

/* False: some group needs elements twice, as products and slices that overlap do. */
static bool find_readers(dt_search *search, const dt_value *from) {
    dt_move *m = search->move;
    const dt_fusion *f = m->fusion;
    const dt_placement *placement = dt_placement_of(f, from);
    for (size_t i = 0; i < placement->users.n; i++) {
        const dt_value *user = placement->users.items[i];
        const dt_loops *loops = dt_lowering_loops(f->lowering, user);
        const dt_placement *its = dt_placement_of(f, user);
        if (!add_new(f->arena, &search->seen, user)) continue;
        if (loops == NULL || iterations_of(f, loops) > elements_of(f, search->value)) return false;
        if (its->group >= 0 && its->group != m->group) add_reader(m, search->value, its->group, iterations_of(f, loops));
        if (its->stored || dt_loops_are_root(loops)) continue;
        search->n_moved += n_moved_by(f, user, loops, from);
        if (search->n_moved > 1 || !find_readers(search, user)) return false;
    }
    return true;
}

/* ---- what a value is made of ---- */

/* Down to what is in memory; false: there is something else. */
static bool find_leaves(dt_move *m, const dt_value *value) {
    const dt_fusion *f = m->fusion;
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    if (loops == NULL || dt_loops_are_root(loops)) return false;
    if (!add_new(f->arena, &m->made, value)) return true;
    for (int k = 0; k < value->n_operands; k++) {
        const dt_value *base = dt_placement_of(f, value->operands[k])->base;
        for (int d = 0; d < value->operands[k]->shape.rank; d++)
            if (loops->operands[k].dims[d].indirect >= 0) return false; /* counted as bad where it is read */
        bool stored = dt_placement_of(f, base)->stored;
        if (stored && m->fusion->recompute[base->id]) return false;
        if (stored || base == m->sum)
            add_new(f->arena, &m->leaves, base);
        else if (!find_leaves(m, base))
            return false;
    }
    return true;
}

/* The value joins the move, if it can; else the move is what it was. */
static void add_value(dt_move *m, const dt_value *value) {
    const dt_placement *placement = dt_placement_of(m->fusion, value);
    size_t n_made = m->made.n, n_leaves = m->leaves.n, n_readers = m->readers.n;
    dt_search search = {.move = m, .value = value};
    bool can =
        placement->base == value && placement->stored && !placement->required && placement->group == m->group && elements_of(m->fusion, value) > 1;
    if (can && !m->fusion->recompute[value->id] && !m->fusion->keep[value->id] && find_leaves(m, value) && find_readers(&search, value)) {
        dt_list_push(m->fusion->arena, &m->values, value);
        return;
    }
    m->made.n = n_made;
    m->leaves.n = n_leaves;
    m->readers.n = n_readers;
}

/* ---- what a move is worth ---- */

static int64_t operations_for(const dt_move *m, int64_t n) {
    int64_t operations = 0;
    for (size_t i = 0; i < m->made.n; i++) {
        int64_t most = elements_of(m->fusion, m->made.items[i]);
        operations += (n < most ? n : most) * dt_placement_of(m->fusion, m->made.items[i])->operations;
    }
    return operations;
}

/* Bytes that a group loads to compute n elements, besides what it loads or computes anyway. */
static int64_t loads_for(const dt_move *m, int group, int64_t n) {
    int64_t bytes = 0;
    for (size_t i = 0; i < m->leaves.n; i++) {
        const dt_value *leaf = m->leaves.items[i];
        if (dt_placement_of(m->fusion, leaf)->group != group && !group_loads(m, group, leaf)) bytes += bytes_of(m->fusion, leaf, n);
    }
    return bytes;
}

/* Most elements that the group of reader r needs of any value; 0: an earlier reader is the same group. */
static int64_t most_read(const dt_move *m, size_t r) {
    const dt_value_reader *readers = m->readers.items;
    int64_t n = 0;
    for (size_t i = 0; i < m->readers.n; i++) {
        if (readers[i].group != readers[r].group) continue;
        if (i < r) return 0;
        if (readers[i].n > n) n = readers[i].n;
    }
    return n;
}

/* Bytes that the group of the values moves less, and operations that it has less to do. */
static int64_t saved_by_producer(const dt_move *m, int64_t *operations) {
    const dt_fusion *f = m->fusion;
    const dt_fusion_group *group = &f->groups.items[m->group];
    bool follows = m->sum != NULL && dt_fusion_stores_sum(f, group); /* in a nest of its own, after the sum */
    bool disappears = group->cluster.outputs.n == m->values.n && (group->cluster.roots.n == 0 || follows);
    int64_t n = elements_of(f, m->values.items[0]), bytes = 0;
    for (size_t i = 0; i < m->values.n; i++) bytes += bytes_of(f, m->values.items[i], n);
    if (m->sum != NULL && !follows) bytes -= bytes_of(f, m->sum, n);
    *operations = disappears ? operations_for(m, n) : 0;
    for (size_t i = 0; i < m->leaves.n && disappears; i++) bytes += bytes_of(f, m->leaves.items[i], n);
    return bytes;
}

static bool is_worth_it(const dt_move *m) {
    int64_t fewer, operations = 0, bytes = saved_by_producer(m, &fewer);
    for (size_t r = 0; r < m->readers.n; r++) {
        int64_t n = most_read(m, r);
        bytes += bytes_of(m->fusion, m->readers.items[r].value, m->readers.items[r].n) - loads_for(m, m->readers.items[r].group, n);
        operations += operations_for(m, n);
    }
    return bytes > 0 && operations - fewer <= operations_per_byte * bytes;
}

static bool make(const dt_move *m, bool *keep, bool *recompute) {
    const dt_cluster *cluster = &m->fusion->groups.items[m->group].cluster;
    if (m->values.n == 0 || !is_worth_it(m)) return false;
    for (size_t i = 0; i < m->made.n; i++) recompute[m->made.items[i]->id] = true;
    if (m->sum == NULL) return true;
    keep[m->sum->id] = true;
    for (size_t o = 0; o < cluster->outputs.n; o++) { /* what else is stored there stays, however quickly it could be made of the sum */
        const dt_value *value = cluster->outputs.items[o].value;
        if (dt_placement_of(m->fusion, value)->stored && !recompute[value->id]) keep[value->id] = true;
    }
    return true;
}

/* ---- all moves ---- */

static void begin(dt_move *m, int group, const dt_value *sum) {
    m->group = group;
    m->sum = sum;
    m->values.n = m->made.n = m->leaves.n = m->readers.n = 0;
}

/* Values one by one, each from what is stored. */
static bool move_values(dt_move *m, bool *keep, bool *recompute) {
    bool any = false;
    for (const dt_value *value = m->fusion->lowering->function->first; value != NULL; value = value->next) {
        if (dt_placement_of(m->fusion, value)->group < 0) continue;
        begin(m, dt_placement_of(m->fusion, value)->group, NULL);
        add_value(m, value);
        any |= make(m, keep, recompute);
    }
    return any;
}

/* What groups store of what follows their sum, all of it from the sum. */
static bool move_to_sums(dt_move *m, bool *keep, bool *recompute) {
    bool any = false;
    for (int g = 0; g < (int)m->fusion->groups.n; g++) {
        const dt_cluster *cluster = &m->fusion->groups.items[g].cluster;
        if (cluster->roots.n != 1 || dt_placement_of(m->fusion, cluster->roots.items[0])->stored) continue;
        begin(m, g, cluster->roots.items[0]);
        for (size_t o = 0; o < cluster->outputs.n; o++) add_value(m, cluster->outputs.items[o].value);
        any |= make(m, keep, recompute);
    }
    return any;
}

bool dt_fuse_rematerialize(const dt_fusion *f, bool *keep, bool *recompute) {
    if (!f->plan->batched || !dt_switch_is_on(f->compilation->off, DT_SWITCH_REMATERIALIZE) || !dt_fusion_is_on(f)) return false;
    int n_values = f->lowering->function->next_id;
    dt_move move = {.fusion = f};
    move.loads = DT_NEW_ARRAY(f->arena, dt_value_list, f->groups.n);
    move.met_for = DT_NEW_ARRAY(f->arena, int, n_values);
    for (int i = 0; i < n_values; i++) move.met_for[i] = -1;
    return move_values(&move, keep, recompute) || move_to_sums(&move, keep, recompute);
}
