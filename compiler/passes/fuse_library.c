/* fuse_library: room for vendors' libraries, on a target that has them.
 *
 * A library takes factors from memory as they are, and knows few things that may follow a sum. So of a large sum of products, what fusion would
 * compute on the way to it is stored first, and what follows it becomes a nest of its own unless a library can do that as well. The rest of fusion
 * stays as it is. Each element of a factor is then written and read once more, and read once for each tile instead of computed there. */
#include "compiler/kernel/library.h"
#include "compiler/passes/fuse.h"

/* Whether the operand is read along a window, so that it must lie in memory as it is. */
static bool is_window(const dt_loops *loops, const dt_access *access, int rank) {
    for (int d = 0; d < rank; d++) {
        int n = 0;
        for (int l = 0; l < loops->n_loops; l++) n += access->dims[d].coefficients[l] != 0;
        if (n > 1) return true;
    }
    return false;
}

bool dt_fusion_has_library(const dt_fusion *f) {
    return f->plan->batched && dt_switch_is_on(f->compilation->off, DT_SWITCH_LIBRARY) && dt_fusion_is_on(f);
}

/* Of what is in a loop's body libraries compute products alone: a convolution's tensors are whole, and not views. */
bool dt_fusion_wants_library(const dt_fusion *f, const dt_fusion_group *group) {
    if (!dt_fusion_has_library(f)) return false;
    if (group->collective != NULL || group->cluster.roots.n != 1) return false;
    const dt_value *root = group->cluster.roots.items[0];
    const dt_loops *loops = dt_lowering_loops(f->lowering, root);
    if (!dt_loops_want_library(f->plan, root, loops)) return false;
    return group->loop == NULL || !is_window(loops, &loops->operands[0], root->operands[0]->shape.rank);
}

bool dt_fusion_stores_sum(const dt_fusion *f, const dt_fusion_group *group) {
    const dt_value *root = group->cluster.roots.n > 0 ? group->cluster.roots.items[0] : NULL;
    if (!dt_fusion_wants_library(f, group) || !dt_loops_want_split(f->plan, dt_lowering_loops(f->lowering, root))) return false;
    dt_layout *layout = DT_NEW(f->arena, dt_layout);
    *layout = DT_LAYOUT_PLAIN;
    dt_kernel_function kernel = {0};
    dt_library_call call;
    dt_epilogue epilogue;
    dt_nest nest = dt_lower_cluster(f->lowering, &kernel, &group->cluster, layout);
    return !dt_nest_library(f->lowering, &kernel, &nest, &call) && !dt_fusion_epilogue(f, group, &epilogue);
}

/* Moves elements and computes nothing: each is read where the loops say, and none is outside. */
static bool only_moves(const dt_value *value, const dt_loops *loops) {
    if (value->n_operands != 1 || loops->combiner != DT_COMBINE_NONE || loops->result != NULL || loops->body->kind != DT_FORMULA_OPERAND)
        return false;
    if (loops->operands[0].guarded) return false;
    for (int d = 0; d < value->operands[0]->shape.rank; d++)
        if (loops->operands[0].dims[d].divisor != 1 || loops->operands[0].dims[d].indirect >= 0) return false;
    return true;
}

/* The value to store so that `value` can be read as a matrix; NULL: it can be already, or never. A reshape of what is not in memory has no steps. */
static const dt_value *to_store(const dt_fusion *f, const dt_value *value, bool as_it_is) {
    for (;;) {
        const dt_value *base = dt_placement_of(f, value)->base;
        if (dt_placement_of(f, base)->stored) return NULL;
        if (base->n_operands == 0 || base->dtype != DT_F32) return NULL; /* a constant */
        const dt_loops *loops = dt_lowering_loops(f->lowering, base);
        if (base != value || as_it_is || !only_moves(base, loops)) return base;
        value = base->operands[0];
    }
}

bool dt_fuse_factors(const dt_fusion *f, bool *keep) {
    bool any = false;
    for (size_t g = 0; g < f->groups.n; g++) {
        if (!dt_fusion_wants_library(f, &f->groups.items[g])) continue;
        const dt_value *root = f->groups.items[g].cluster.roots.items[0];
        const dt_loops *loops = dt_lowering_loops(f->lowering, root);
        bool windows = is_window(loops, &loops->operands[0], root->operands[0]->shape.rank);
        for (int k = 0; k < root->n_operands; k++) {
            const dt_value *value = to_store(f, root->operands[k], windows);
            if (value != NULL && !keep[value->id]) any = keep[value->id] = true;
        }
    }
    return any;
}
