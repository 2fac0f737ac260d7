/* fuse_rematerialize: what is rather computed again than kept, on a target where nothing stays in cache from nest to nest.
 *
 * On a CPU a block of rows goes through all nests of a kernel while it is in cache: there a value that two nests need is best stored. On a GPU all
 * rows pass through one nest before the next begins, so whatever is stored crosses memory, once on its way there and once for each nest that reads
 * it. Where a nest could as well read what the value is made of (the exponentials of a softmax: its logits and a maximum a row) and that moves
 * fewer bytes, the value is computed where it is read and has no memory at all.
 *
 * Which nests read what shows when all units are made. So values are marked then and the function is fused once more, until none is left; a marked
 * value makes its users dearer, which may give these memory of their own, in its place. */
#include "compiler/passes/fuse.h"

enum {
    operations_per_byte = 6 /* that a GPU does while a byte crosses its memory: an H200 7, of f32, at 33e12 and 4.8e12 a second */
};

typedef DT_LIST(const dt_value *) dt_value_list;

/* A unit that reads the value, and how many elements of it. */
typedef struct dt_reader {
    int unit;
    int64_t n;
} dt_reader;

typedef struct dt_weighing {
    const dt_fusion *fusion;
    const bool *again;   /* [next_id] marked so far */
    bool **reads;        /* [units] NULL: not asked yet, or [next_id] what the unit loads */
    const bool *written; /* [buffers] variables that the function writes */
    const dt_value *value;
    bool possible;
    int n_moved; /* readings at another place than their own, by what is computed where it is used */
    DT_LIST(dt_reader) readers;
    dt_value_list seen;   /* users met on the way to the readers */
    dt_value_list made;   /* what is computed for an element of the value, itself included */
    dt_value_list leaves; /* what is loaded for that */
} dt_weighing;

static bool add_new(dt_arena *arena, dt_value_list *list, const dt_value *value) {
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i] == value) return false;
    dt_list_push(arena, list, value);
    return true;
}

static int64_t elements_of(const dt_weighing *w, const dt_value *value) {
    int64_t rows = w->fusion->plan->block_rows;
    return dt_shape_elements(value->shape, rows, rows);
}

static int64_t turns_of(const dt_weighing *w, const dt_loops *loops) {
    int64_t turns = 1;
    for (int l = 0; l < loops->n_loops; l++) turns *= dt_dim_is_symbol(loops->extents[l]) ? w->fusion->plan->block_rows : loops->extents[l];
    return turns;
}

/* Bytes of n elements of a stored value. */
static int64_t bytes_of(const dt_weighing *w, const dt_value *value, int64_t n) {
    const dt_buffer *buffer = &w->fusion->plan->buffers[w->fusion->lowering->buffers[value->id]];
    int64_t most = elements_of(w, value);
    return (n < most ? n : most) * (int64_t)dt_dtype_bytes(buffer->dtype);
}

static bool is_root(const dt_loops *loops) { return loops->combiner != DT_COMBINE_NONE || loops->result != NULL; }

/* ---- what a unit loads ---- */

static void find_loads(const dt_weighing *w, const dt_value *value, int unit, bool *loads, bool *seen) {
    const dt_value *base = dt_place_of(w->fusion, value)->base;
    const dt_place *place = dt_place_of(w->fusion, base);
    if (seen[base->id]) return;
    seen[base->id] = true;
    if (place->stored && place->unit != unit)
        loads[base->id] = true;
    else
        for (int k = 0; k < base->n_operands; k++) find_loads(w, base->operands[k], unit, loads, seen);
}

static const bool *loads_of(dt_weighing *w, int u) {
    if (w->reads[u] != NULL) return w->reads[u];
    const dt_cluster *cluster = &w->fusion->units.items[u].cluster;
    int n = w->fusion->plan->function->next_id;
    bool *loads = w->reads[u] = DT_NEW_ARRAY(w->fusion->arena, bool, n), *seen = DT_NEW_ARRAY(w->fusion->arena, bool, n);
    for (size_t r = 0; r < cluster->roots.n; r++)
        for (int k = 0; k < cluster->roots.items[r]->n_operands; k++) find_loads(w, cluster->roots.items[r]->operands[k], u, loads, seen);
    for (size_t o = 0; o < cluster->outputs.n; o++) find_loads(w, cluster->outputs.items[o].value, u, loads, seen);
    return loads;
}

/* ---- one value ---- */

static int n_moved_by(const dt_value *user, const dt_loops *loops, const dt_value *value, const dt_fusion *f) {
    int n = 0;
    for (int k = 0; k < user->n_operands; k++)
        if (dt_place_of(f, user->operands[k])->base == value) n += !dt_access_is_in_place(loops, &loops->operands[k], user->operands[k]->shape);
    return n;
}

/* The units that read the value, also through what is computed where it is used. None may need an element twice, as slices that overlap do. */
static void find_readers(dt_weighing *w, const dt_value *value) {
    const dt_place *place = dt_place_of(w->fusion, value);
    for (size_t i = 0; i < place->users.n && w->possible; i++) {
        const dt_value *user = place->users.items[i];
        const dt_loops *loops = dt_lowering_loops(w->fusion->lowering, user);
        const dt_place *its = dt_place_of(w->fusion, user);
        if (!add_new(w->fusion->arena, &w->seen, user)) continue;
        w->possible = loops != NULL && turns_of(w, loops) <= elements_of(w, w->value);
        if (!w->possible) return;
        if (its->unit >= 0 && its->unit != dt_place_of(w->fusion, w->value)->unit) {
            dt_reader reader = {its->unit, turns_of(w, loops)};
            dt_list_push(w->fusion->arena, &w->readers, reader);
        }
        if (its->stored || is_root(loops)) continue;
        w->n_moved += n_moved_by(user, loops, value, w->fusion);
        w->possible = w->n_moved <= 1;
        find_readers(w, user);
    }
}

/* What the value is computed of, down to what is in memory and stays as it is. */
static void find_leaves(dt_weighing *w, const dt_value *value) {
    const dt_loops *loops = dt_lowering_loops(w->fusion->lowering, value);
    if (!add_new(w->fusion->arena, &w->made, value)) return;
    w->possible = w->possible && loops != NULL && !is_root(loops);
    for (int k = 0; k < value->n_operands && w->possible; k++) {
        const dt_value *base = dt_place_of(w->fusion, value->operands[k])->base;
        for (int d = 0; d < value->operands[k]->shape.rank; d++)
            w->possible &= loops->operands[k].dims[d].indirect < 0; /* checked where it is read */
        if (!dt_place_of(w->fusion, base)->stored)
            find_leaves(w, base);
        else if (w->again[base->id] || w->written[w->fusion->lowering->buffers[base->id]])
            w->possible = false;
        else
            add_new(w->fusion->arena, &w->leaves, base);
    }
}

static int64_t operations_for(const dt_weighing *w, int64_t n) {
    int64_t operations = 0;
    for (size_t i = 0; i < w->made.n; i++) {
        int64_t most = elements_of(w, w->made.items[i]);
        operations += (n < most ? n : most) * dt_place_of(w->fusion, w->made.items[i])->operations;
    }
    return operations;
}

/* Bytes that a reader loads to compute n elements: what is loaded or computed there anyway costs nothing more. */
static int64_t loads_for(dt_weighing *w, int unit, int64_t n) {
    const bool *loads = loads_of(w, unit);
    int64_t bytes = 0;
    for (size_t i = 0; i < w->leaves.n; i++) {
        const dt_value *leaf = w->leaves.items[i];
        if (!loads[leaf->id] && dt_place_of(w->fusion, leaf)->unit != unit) bytes += bytes_of(w, leaf, n);
    }
    return bytes;
}

static bool moves_less(dt_weighing *w) {
    const dt_unit *own = &w->fusion->units.items[dt_place_of(w->fusion, w->value)->unit];
    int64_t n = elements_of(w, w->value), bytes = bytes_of(w, w->value, n), operations = 0;
    if (own->cluster.roots.n == 0 && own->cluster.outputs.n == 1) { /* its nest disappears */
        for (size_t i = 0; i < w->leaves.n; i++) bytes += bytes_of(w, w->leaves.items[i], n);
        operations -= operations_for(w, n);
    }
    for (size_t r = 0; r < w->readers.n; r++) {
        const dt_reader *reader = &w->readers.items[r];
        bool known = false;
        for (size_t i = 0; i < r; i++) known |= w->readers.items[i].unit == reader->unit;
        if (known) continue;
        bytes += bytes_of(w, w->value, reader->n) - loads_for(w, reader->unit, reader->n);
        operations += operations_for(w, reader->n);
    }
    return bytes > 0 && operations <= operations_per_byte * bytes;
}

static bool is_to_be_made_again(dt_weighing *w, const dt_value *value) {
    const dt_place *place = dt_place_of(w->fusion, value);
    if (place->base != value || !place->stored || place->required || place->unit < 0 || elements_of(w, value) < 2) return false;
    w->value = value;
    w->possible = true;
    w->n_moved = 0;
    w->readers.n = w->seen.n = w->made.n = w->leaves.n = 0;
    find_leaves(w, value);
    if (w->possible) find_readers(w, value);
    return w->possible && moves_less(w);
}

bool dt_fuse_rematerialize(const dt_fusion *f, bool *again) {
    if (!f->plan->rows_at_once || !dt_switch_is_on(f->compilation->off, DT_SWITCH_REMATERIALIZE) || !dt_fusion_is_on(f)) return false;
    bool *written = DT_NEW_ARRAY(f->arena, bool, f->plan->n_buffers), any = false;
    dt_weighing w = {.fusion = f, .again = again, .reads = DT_NEW_ARRAY(f->arena, bool *, f->units.n), .written = written};
    for (size_t u = 0; u < f->units.n; u++)
        for (size_t o = 0; o < f->units.items[u].cluster.outputs.n; o++) {
            int buffer = f->units.items[u].cluster.outputs.items[o].buffer;
            written[buffer] = f->plan->buffers[buffer].space == DT_SPACE_VARIABLE;
        }
    for (const dt_value *value = f->plan->function->first; value != NULL; value = value->next)
        if (!again[value->id] && !f->keep[value->id] && is_to_be_made_again(&w, value)) any = again[value->id] = true;
    return any;
}
