/* fuse_kernels: which segment a group belongs to, and which groups share a kernel.
 *
 * Groups that go through the rows of the batch, and need of each other only the row at hand, share one loop over the rows: what one leaves for the
 * next stays in cache, and needs memory for one row. Sums over the rows join them, kept in memory from row to row. Left out are sums of products
 * that read much for each row, such as a dense layer's weights: they want many rows at a time. Once the sums of a kernel are large, the next groups
 * get a kernel of their own: when the last microbatch has gone through the first one, its sums cross to other processes while the rest is computed.
 */
#include "compiler/kernel/view.h"
#include "compiler/passes/fuse.h"

#include <limits.h>
#include <string.h>

typedef struct dt_walk {
    dt_fusion *fusion;
    int group;
    dt_needs *needs;
    int (*visited)[2]; /* [next_id] the last group that has come, by row and not, + 1 */
} dt_walk;

/* The only loop over the rows, or -1. */
static int row_loop_of(const dt_loops *loops) {
    int found = -1;
    for (int l = 0; l < loops->n_loops; l++) {
        if (loops->extents[l] != DT_BATCH) continue;
        if (found >= 0) return -1;
        found = l;
    }
    return found;
}

/* Whether each iteration of the loop over rows reads the operand at that row. */
static bool reads_by_row(const dt_loops *loops, const dt_access *access, dt_shape shape) {
    int axis = dt_shape_batch_axis(shape), loop = row_loop_of(loops);
    if (axis < 0) return true;
    const dt_index *index = &access->dims[axis];
    if (loop < 0 || axis > 0 || index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return false;
    for (int l = 0; l < loops->n_loops; l++)
        if (index->coefficients[l] != (l == loop)) return false;
    return true;
}

static void add_need(dt_walk *walk, int group, bool by_row) {
    dt_need need = {group, by_row};
    dt_list_push(walk->fusion->arena, &walk->needs->groups, need);
}

static void visit_operands(dt_walk *walk, const dt_value *value, bool by_row);

static void visit(dt_walk *walk, const dt_value *value, bool by_row) {
    dt_fusion *f = walk->fusion;
    const dt_value *base = dt_placement_of(f, value)->base;
    const dt_placement *placement = dt_placement_of(f, base);
    int *visited = &walk->visited[base->id][by_row];
    if (*visited == walk->group + 1) return;
    *visited = walk->group + 1;
    if (placement->stored && placement->group != walk->group) {
        if (placement->producer >= 0) add_need(walk, placement->producer, by_row);
        if (dt_value_is(base, "scanned")) visit(walk, base->operands[0], false);
        if (base->op->class == DT_CLASS_STATE) dt_list_push(f->arena, &walk->needs->variables, f->lowering->buffers[base->id]);
    } else {
        visit_operands(walk, base, by_row);
    }
}

static void visit_operands(dt_walk *walk, const dt_value *value, bool by_row) {
    const dt_loops *loops = dt_lowering_loops(walk->fusion->lowering, value);
    for (int k = 0; k < value->n_operands; k++)
        visit(walk, value->operands[k], by_row && reads_by_row(loops, &loops->operands[k], value->operands[k]->shape));
}

static dt_needs needs_of(dt_fusion *f, int g, int (*visited)[2]) {
    dt_needs needs = {0};
    dt_walk walk = {f, g, &needs, visited};
    const dt_fusion_group *group = &f->groups.items[g];
    if (group->collective != NULL) {
        visit(&walk, group->collective->operands[0], false);
        return needs;
    }
    for (size_t r = 0; r < group->cluster.roots.n; r++) {
        const dt_value *root = group->cluster.roots.items[r], *onto = dt_placement_of(f, root)->onto;
        visit_operands(&walk, root, true);
        if (onto != NULL) visit(&walk, onto, false);
    }
    needs.n_of_roots = needs.variables.n;
    for (size_t o = 0; o < group->cluster.outputs.n; o++) visit(&walk, group->cluster.outputs.items[o].value, true);
    return needs;
}

static bool is_in(const dt_needs *needs, int buffer) {
    for (size_t v = 0; v < needs->variables.n; v++)
        if (needs->variables.items[v] == buffer) return true;
    return false;
}

static bool reads_what_is_written(const dt_fusion *f, const dt_needs *needs, int reader, int writer) {
    const dt_fusion_group *group = &f->groups.items[writer];
    for (size_t o = 0; o < group->cluster.outputs.n; o++) {
        int buffer = group->cluster.outputs.items[o].buffer;
        if (f->plan->buffers[buffer].space == DT_MEMORY_VARIABLE && is_in(&needs[reader], buffer)) return true;
    }
    return false;
}

/* [groups] whether others need what the group computes. */
static bool *needed_groups(const dt_fusion *f, const dt_needs *needs) {
    bool *needed = DT_NEW_ARRAY(f->arena, bool, f->groups.n);
    for (size_t g = 0; g < f->groups.n; g++)
        for (size_t i = 0; i < needs[g].groups.n; i++) needed[needs[g].groups.items[i].group] = true;
    return needed;
}

/* The order in which groups go to kernels: as they are numbered, but for those that write a variable which later ones read, and that nobody
 * needs: they come last. */
static int *order_of_groups(const dt_fusion *f, const dt_needs *needs, const bool *needed) {
    int n_groups = (int)f->groups.n, n = 0, *order = DT_NEW_ARRAY(f->arena, int, n_groups);
    bool *last = DT_NEW_ARRAY(f->arena, bool, n_groups);
    for (int g = 0; g < n_groups; g++) {
        for (int reader = g + 1; reader < n_groups && !last[g]; reader++) last[g] = reads_what_is_written(f, needs, reader, g);
        last[g] = last[g] && !needed[g];
        if (!last[g]) order[n++] = g;
    }
    for (int g = 0; g < n_groups; g++)
        if (last[g]) order[n++] = g;
    return order;
}

/* A variable is written after all that reads its old value: groups before it that read it are needed too. */
static void add_readers(dt_fusion *f, dt_needs *needs, const int *order, int at) {
    for (int i = 0; i < at; i++)
        if (reads_what_is_written(f, needs, order[i], order[at])) {
            dt_need need = {order[i], false};
            dt_list_push(f->arena, &needs[order[at]].groups, need);
        }
}

/* ---- segments ---- */

static void raise_to(int *most, int n) {
    if (n > *most) *most = n;
}

/* A loop is in one segment: groups order[at], order[at - 1], … of one and the same are in the last one that any of them needs. */
static void join_segments(dt_fusion *f, const int *order, int at) {
    const dt_plan_loop *loop = dt_loop_outermost(f->groups.items[order[at]].loop);
    int segment = 0, depth = 0, first = at;
    for (; first >= 0 && dt_loop_outermost(f->groups.items[order[first]].loop) == loop; first--) {
        raise_to(&segment, f->groups.items[order[first]].segment);
        raise_to(&depth, f->groups.items[order[first]].depth);
    }
    for (int i = first + 1; i <= at; i++) {
        f->groups.items[order[i]].segment = segment;
        f->groups.items[order[i]].depth = depth;
    }
}

static void give_segments(dt_fusion *f, dt_needs *needs, const int *order) {
    for (size_t g = 0; g < f->groups.n; g++) f->groups.items[g].segment = f->groups.items[g].depth = 0;
    for (int at = 0; at < (int)f->groups.n; at++) {
        int g = order[at];
        dt_fusion_group *group = &f->groups.items[g];
        add_readers(f, needs, order, at);
        for (size_t i = 0; i < needs[g].groups.n; i++) {
            const dt_fusion_group *other = &f->groups.items[needs[g].groups.items[i].group];
            /* What a collective at a segment's end delivers is there a segment later; a device's kernels of a segment run before those of its
             * replicas. */
            bool is_once_after = group->collective == NULL && group->replicated && !other->replicated;
            raise_to(&group->segment, other->segment + (is_once_after || (other->collective != NULL && !other->is_within)));
            raise_to(&group->depth, other->depth + (is_once_after || other->collective != NULL));
        }
        if (group->loop != NULL) join_segments(f, order, at);
    }
}

static void lower_to(int *least, int n) {
    if (n < *least) *least = n;
}

/* Copies of groups go to the segment of the first that needs them. */
static void delay_copies(dt_fusion *f, const dt_needs *needs) {
    int n_groups = (int)f->groups.n, *segments = DT_NEW_ARRAY(f->arena, int, n_groups), *depths = DT_NEW_ARRAY(f->arena, int, n_groups);
    for (int g = 0; g < n_groups; g++) segments[g] = depths[g] = INT_MAX;
    for (int g = n_groups - 1; g >= 0; g--) {
        dt_fusion_group *group = &f->groups.items[g];
        if (group->again && segments[g] != INT_MAX) {
            group->segment = segments[g];
            group->depth = depths[g];
        }
        for (size_t i = 0; i < needs[g].groups.n; i++) {
            lower_to(&segments[needs[g].groups.items[i].group], group->segment);
            lower_to(&depths[needs[g].groups.items[i].group], group->depth);
        }
    }
}

/* What nobody waits for, such as the number of examples or a moving average, goes to the end: there it shares a kernel with others of its kind. */
static void move_idle_groups(dt_fusion *f, const bool *needed) {
    int last = 0;
    for (size_t g = 0; g < f->groups.n; g++)
        if (f->groups.items[g].collective == NULL && f->groups.items[g].segment > last) last = f->groups.items[g].segment;
    for (int g = 0; g < (int)f->groups.n; g++) {
        dt_fusion_group *group = &f->groups.items[g];
        if (group->elementwise && group->replicated && group->loop == NULL && !needed[g]) group->segment = last;
    }
}

/* ---- rows ---- */

/* Whether the group has to do with the rows of all replicas at each row of its own. In memory those are outermost and the own rows side by side, so
 * they are better walked the other way round. */
static bool pairs_rows(dt_fusion *f, const dt_fusion_group *group) {
    if (dt_shape_count(group->cluster.space, DT_GATHERED) > 0) return true;
    for (size_t r = 0; r < group->cluster.roots.n; r++) {
        const dt_loops *loops = dt_lowering_loops(f->lowering, group->cluster.roots.items[r]);
        for (int l = 0; l < loops->n_loops; l++)
            if (loops->extents[l] == DT_GATHERED) return true;
    }
    return false;
}

static dt_row_kind row_kind(dt_fusion *f, const dt_fusion_group *group) {
    if (pairs_rows(f, group)) return DT_ROWS_NONE;
    const dt_loops *loops = group->cluster.roots.n > 0 ? dt_lowering_loops(f->lowering, group->cluster.roots.items[0]) : NULL;
    if (loops == NULL) return group->cluster.space.rank > 0 && group->cluster.space.dims[0] == DT_BATCH ? DT_ROWS_WALKED : DT_ROWS_NONE;
    int loop = row_loop_of(loops);
    if (loop < 0 || loops->result != NULL) return DT_ROWS_NONE;
    if (loop < loops->n_outer) return loop == 0 ? DT_ROWS_WALKED : DT_ROWS_NONE;
    if (f->plan->batched) return DT_ROWS_NONE;
    for (size_t r = 0; r < group->cluster.roots.n; r++) { /* the sum is kept in memory: of its own type */
        const dt_value *root = group->cluster.roots.items[r];
        bool whole = root->dtype == DT_F32 || root->dtype == DT_F64 || root->dtype == DT_I64 || root->dtype == DT_I32;
        if (!whole || dt_lowering_loops(f->lowering, root)->combiner != DT_COMBINE_SUM) return DT_ROWS_NONE;
    }
    return DT_ROWS_SUMMED;
}

static int64_t extent_without_rows(const dt_loops *loops, int l) { return dt_dim_is_symbol(loops->extents[l]) ? 1 : loops->extents[l]; }

/* Whether one row gives a sum of products too little to do with what it reads or writes besides that row. What no second-level cache holds comes
 * from memory again for each row, and has to be worth that. */
static bool wants_many_rows(const dt_value *root, const dt_loops *loops, dt_row_kind kind) {
    enum {
        least_reuse = 4,
        least_reuse_of_large = 48,
        least_terms = 8,
        small = 1024,
        large = 1 << 20
    };
    if (kind == DT_ROWS_SUMMED) {
        int64_t terms = 1;
        for (int l = loops->n_outer; l < loops->n_loops; l++) terms *= extent_without_rows(loops, l);
        return terms < (dt_shape_elements_per_row(root->shape) < large ? least_terms : least_reuse_of_large);
    }
    for (int k = 0; k < 2; k++) {
        dt_shape shape = root->operands[k]->shape;
        int64_t elements = dt_shape_elements_per_row(shape);
        if (dt_shape_batch_axis(shape) >= 0 || elements < small) continue;
        int64_t reuse = 1;
        for (int l = 1; l < loops->n_outer; l++)
            if (!dt_access_walks(&loops->operands[k], shape.rank, l)) reuse *= extent_without_rows(loops, l);
        if (reuse < (elements < large ? least_reuse : least_reuse_of_large)) return true;
    }
    return false;
}

static void find_rows(dt_fusion *f, dt_fusion_group *group) {
    group->rows = row_kind(f, group);
    if (group->cluster.roots.n == 0 || group->rows == DT_ROWS_NONE) return;
    const dt_value *root = group->cluster.roots.items[0];
    const dt_loops *loops = dt_lowering_loops(f->lowering, root);
    group->alone = group->by_row < 0 || (dt_loops_are_product(loops) && wants_many_rows(root, loops, group->rows));
}

/* ---- kernels ---- */

static bool only_elementwise(const dt_fusion *f, const dt_fused_kernel *kernel) {
    for (size_t i = 0; i < kernel->groups.n; i++)
        if (!f->groups.items[kernel->groups.items[i]].elementwise) return false;
    return true;
}

static bool joins_rows(const dt_fusion *f, const dt_needs *needs, int g, int k) {
    const dt_fusion_group *group = &f->groups.items[g];
    const dt_fused_kernel *kernel = &f->kernels.items[k];
    if (group->rows == DT_ROWS_NONE || group->alone || !kernel->in_rows || kernel->closed) return false;
    for (size_t i = 0; i < needs[g].groups.n; i++) {
        const dt_need *need = &needs[g].groups.items[i];
        const dt_fusion_group *other = &f->groups.items[need->group];
        if (other->collective == NULL && other->kernel == k && (!need->by_row || other->rows != DT_ROWS_WALKED)) return false;
    }
    return true;
}

/* Elementwise groups without rows form kernels of their own kind (updates), or come last in whatever kernel there is. */
static bool joins_elementwise(const dt_fusion *f, int g, int k, bool anything) {
    const dt_fusion_group *group = &f->groups.items[g];
    return group->elementwise && group->rows == DT_ROWS_NONE && (anything || only_elementwise(f, &f->kernels.items[k]));
}

/* A sum over replicated values that leaves a scalar, such as the norm of a gradient. */
static bool is_norm(const dt_fusion *f, const dt_fusion_group *group) {
    if (!group->replicated || group->cluster.roots.n == 0 || group->cluster.space.rank > 0) return false;
    return dt_lowering_loops(f->lowering, group->cluster.roots.items[0])->result == NULL;
}

/* Norms share a kernel: split_reductions cuts them into blocks, and cores share out the blocks of all of them at once. */
static bool joins_norms(const dt_fusion *f, int g, int k) {
    const dt_fused_kernel *kernel = &f->kernels.items[k];
    bool joins = is_norm(f, &f->groups.items[g]);
    for (size_t i = 0; i < kernel->groups.n && joins; i++) joins = is_norm(f, &f->groups.items[kernel->groups.items[i]]);
    return joins;
}

/* Whether the group is nothing but its only root. */
static bool is_root_alone(const dt_fusion_group *group) {
    return group->cluster.roots.n == 1 && group->cluster.outputs.n == 1 && group->cluster.outputs.items[0].value == group->cluster.roots.items[0];
}

/* Whether it sums a factor of a product that a library may compute, as the gradient of a bias does beside that of a dense layer's weights. The
 * library may then do both at once, if the one stands right before the other. */
static bool sums_factor_of(const dt_fusion *f, const dt_fusion_group *sum, const dt_fusion_group *product) {
    if (!is_root_alone(sum) || !is_root_alone(product) || !dt_fusion_wants_library(f, product)) return false;
    const dt_value *root = sum->cluster.roots.items[0], *of = product->cluster.roots.items[0];
    const dt_loops *loops = dt_lowering_loops(f->lowering, root);
    if (loops->combiner != DT_COMBINE_SUM || loops->body->kind != DT_FORMULA_OPERAND || root->n_operands != 1) return false;
    const dt_value *summed = dt_placement_of(f, root->operands[0])->base;
    return summed == dt_placement_of(f, of->operands[0])->base || summed == dt_placement_of(f, of->operands[1])->base;
}

/* Whether a group may be in a kernel of such groups, as far as it depends on when and how often these run. */
static bool runs_with(const dt_fusion_group *group, const dt_fused_kernel *kernel) {
    return kernel->segment == group->segment && (group->replicated || kernel->depth == group->depth) && kernel->layer == group->layer &&
           kernel->loop == group->loop && kernel->once == group->replicated && kernel->sharded == group->sharded;
}

/* The kernel of such a sum, for the product; -1: none that may run as late. */
static int kernel_of_sum(const dt_fusion *f, const dt_fusion_group *product, int earliest) {
    if (!dt_switch_is_on(f->compilation->off, DT_SWITCH_EPILOGUES)) return -1;
    for (int k = earliest; k < (int)f->kernels.n; k++) {
        const dt_fused_kernel *kernel = &f->kernels.items[k];
        if (!runs_with(product, kernel) || kernel->groups.n != 1) continue;
        if (sums_factor_of(f, &f->groups.items[kernel->groups.items[0]], product)) return k;
    }
    return -1;
}

/* The first kernel that has all that the group needs. */
static int earliest_kernel(const dt_fusion *f, const dt_needs *needs, int g) {
    const dt_fusion_group *group = &f->groups.items[g];
    int earliest = 0;
    for (size_t i = 0; i < needs[g].groups.n; i++) {
        const dt_fusion_group *other = &f->groups.items[needs[g].groups.items[i].group];
        bool is_before = other->segment == group->segment && other->layer < group->layer; /* its kernels run before those of the group's layer */
        if (!is_before && (other->collective == NULL || other->is_within)) raise_to(&earliest, other->kernel + other->is_within);
    }
    return earliest;
}

static int find_kernel(dt_fusion *f, const dt_needs *needs, int g) {
    const dt_fusion_group *group = &f->groups.items[g];
    int earliest = earliest_kernel(f, needs, g);
    if (group->late && earliest < (int)f->kernels.n - 1) earliest = (int)f->kernels.n - 1;
    int beside = kernel_of_sum(f, group, earliest);
    if (beside >= 0) return beside;
    for (int attempt = 0; attempt < 2 && dt_fusion_is_on(f); attempt++)
        for (int k = earliest; k < (int)f->kernels.n; k++) {
            const dt_fused_kernel *kernel = &f->kernels.items[k];
            if (!runs_with(group, kernel)) continue;
            if (joins_rows(f, needs, g, k) || joins_norms(f, g, k) || joins_elementwise(f, g, k, attempt == 1)) return k;
        }
    return -1;
}

static int64_t summed_bytes(const dt_fusion_group *group) {
    int64_t bytes = 0;
    for (size_t o = 0; o < group->cluster.outputs.n && group->rows == DT_ROWS_SUMMED; o++) {
        const dt_value *value = group->cluster.outputs.items[o].value;
        bytes += dt_shape_elements_per_row(value->shape) * (int64_t)dt_dtype_bytes(value->dtype);
    }
    return bytes;
}

static void put(dt_fusion *f, int g, int k) {
    static const int64_t ENOUGH_BYTES = 1 << 20; /* a bucket of runtime/comm/buckets.h */
    dt_fusion_group *group = &f->groups.items[g];
    if (k < 0) {
        dt_fused_kernel kernel = {.segment = group->segment,
                                  .depth = group->depth,
                                  .layer = group->layer,
                                  .loop = group->loop,
                                  .once = group->replicated,
                                  .sharded = group->sharded,
                                  .in_rows = group->rows != DT_ROWS_NONE && !group->alone};
        dt_list_push(f->arena, &f->kernels, kernel);
        k = (int)f->kernels.n - 1;
    }
    dt_fused_kernel *kernel = &f->kernels.items[k];
    kernel->n_summed_bytes += summed_bytes(group);
    kernel->closed |= (kernel->in_rows && group->rows == DT_ROWS_NONE) || kernel->n_summed_bytes >= ENOUGH_BYTES;
    dt_list_push(f->arena, &kernel->groups, g);
    group->kernel = k;
}

/* Those of a layer stand side by side, and those of none behind them. */
static void order_by_layer(dt_fusion *f) {
    dt_fused_kernel *kernels = f->kernels.items;
    for (int k = 1; k < (int)f->kernels.n; k++) {
        dt_fused_kernel kernel = kernels[k];
        int to = k;
        for (; to > 0 && (unsigned)kernels[to - 1].layer > (unsigned)kernel.layer; to--) kernels[to] = kernels[to - 1];
        kernels[to] = kernel;
    }
    for (int k = 0; k < (int)f->kernels.n; k++)
        for (size_t i = 0; i < kernels[k].groups.n; i++) f->groups.items[kernels[k].groups.items[i]].kernel = k;
}

void dt_fuse_keep_forms(const dt_fusion *f) {
    for (size_t k = 0; k < f->kernels.n; k++) {
        const dt_fused_kernel *kernel = &f->kernels.items[k];
        for (size_t i = 0; i < kernel->groups.n; i++) {
            dt_fusion_group *group = &f->groups.items[kernel->groups.items[i]];
            if (group->cluster.roots.n > 0) group->by_row = dt_fusion_goes_by_row(f, kernel, group) ? 1 : -1;
        }
    }
}

void dt_fuse_kernels(dt_fusion *f) {
    dt_needs *needs = DT_NEW_ARRAY(f->arena, dt_needs, f->groups.n);
    int(*visited)[2] = dt_arena_new_array(f->arena, (size_t)f->lowering->function->next_id, sizeof *visited);
    for (int g = 0; g < (int)f->groups.n; g++) {
        needs[g] = needs_of(f, g, visited);
        if (f->groups.items[g].collective == NULL) find_rows(f, &f->groups.items[g]);
    }
    const bool *needed = needed_groups(f, needs);
    const int *order = order_of_groups(f, needs, needed);
    give_segments(f, needs, order);
    delay_copies(f, needs);
    move_idle_groups(f, needed);
    dt_fuse_layers(f, needs, order);
    DT_LIST(int) scalars = {0};
    for (int at = 0; at < (int)f->groups.n; at++) {
        int g = order[at];
        dt_fusion_group *group = &f->groups.items[g];
        if (group->is_within) group->kernel = earliest_kernel(f, needs, g);
        if (group->collective != NULL || group->cluster.outputs.n == 0) continue;
        bool idle =
            group->elementwise && group->replicated && group->loop == NULL && group->cluster.space.rank == 0 && needs[g].groups.n == 0 && !needed[g];
        if (idle)
            dt_list_push(f->arena, &scalars, g);
        else
            put(f, g, find_kernel(f, needs, g));
    }
    for (size_t i = 0; i < scalars.n; i++) {
        int g = scalars.items[i];
        put(f, g, find_kernel(f, needs, g));
    }
    if (f->by_layer) order_by_layer(f);
}
