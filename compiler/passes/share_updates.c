/* share_updates: what of an update processes may share out, so that each keeps its share of an optimizer's states alone (ZeRO-1, `dtrun train
 * --shard-optimizer`), and a parameter server its share of the parameters too. Nothing else changes by it: where nobody shares out, plans run as they
 * did.
 *
 * A nest can be shared out if it goes through a tensor element by element, or adds it up in blocks (split_reductions): which elements of the tensor,
 * of others like it, or of the sums of blocks, an iteration touches is then known from its number, so that a process whose share is whole lines, or
 * blocks, runs its own iterations on what it has. What a nest reads in another way, a learning rate, the norm of all gradients, it reads whole, as
 * everybody has it.
 *
 * A slot that all functions touch in no other way is shared out, and with it the nests that touch it, and all that these touch in this way, and so
 * on: a family of tensors that are cut alike. What a family's nests write, and somebody needs whole, is gathered right after the kernel: parameters,
 * sums of blocks. Of a gradient that the family alone reads, each process is sent its own share. What belongs to no family, small tensors
 * among it, all processes compute alike.
 *
 * Where a model is in shards, a shard's part of a variable is such a tensor: the processes that have the same shards share it out.
 *
 * So is a parameter or a state that what servers run (share_updates.h) touches in no other way. A family without slots is not, where any of it is
 * touched while examples are still to be gone through: workers can do that alone, and would wait for servers. Who computes examples needs a parameter
 * whole, and it is gathered there. An initialiser may go through it in another way: then it is drawn whole, before anybody keeps a share. */
#include "compiler/passes/share_updates.h"
#include "compiler/kernel/analysis.h"
#include "compiler/passes/passes.h"

/* How an iteration of a nest's loop 0 goes through the tensors of a family. */
typedef struct walk {
    int64_t n;         /* elements of the tensor; 0: not element by element */
    int64_t step;      /* elements of an iteration: 1, or those of inner loops, or a block to be added up */
    bool adds_up;      /* such blocks */
    int64_t first;     /* the first iteration's first element */
    int family_buffer; /* of the plan: one of the family that it is of; -1: there is none */
} walk;

/* The families of a plan's tensors, and the plan. */
typedef struct sharing {
    dt_arena *arena;
    const dt_module *module;
    dt_plan *plan;
    walk **walks;         /* [n_kernels][n_nests] */
    int *parents;         /* [n_buffers] of a forest: buffers of one tree are one family */
    bool *written;        /* [n_buffers] by a nest or a collective; slots are */
    bool *early;          /* [n_kernels] run once, while examples are still to be gone through */
    bool *is_drawn_whole; /* [variables] but slots: by an initialiser that does not go through them along */
} sharing;

static int64_t n_elements(const dt_plan *plan, int buffer) {
    dt_shape shape = plan->buffers[buffer].shape;
    for (int d = 0; d < shape.rank; d++)
        if (dt_dim_is_symbol(shape.dims[d])) return 0;
    return dt_shape_elements(shape, 1, 1);
}

/* ---- how a nest goes through tensors ---- */

/* Whether each iteration touches elements [from + i * step, from + (i + 1) * step), one after another, by the inner loops. */
static bool goes_through(const dt_nest *nest, const dt_address *address, int64_t from, int64_t step) {
    int64_t inner = 1;
    if (address->n_terms > 0 || address->offset != from) return false;
    for (int l = nest->n_loops; l-- > 1;) {
        int64_t coefficient = step > 1 ? inner : 0;
        if (address->coefficients[l] != coefficient && nest->loops[l].extent != 1) return false;
        inner *= nest->loops[l].extent;
    }
    return address->coefficients[0] == step || nest->loops[0].extent == 1;
}

static int buffer_of(const dt_kernel_function *kernel, const dt_address *address) { return kernel->buffers[address->buffer]; }

/* Whether the nest, which walks so, touches its own elements of a family's tensor here: one as long, or a number for each block. */
static bool is_along(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const walk *walk, const dt_address *address) {
    int64_t n = n_elements(plan, buffer_of(kernel, address));
    if (walk->n == 0) return false;
    if (n == walk->n) return goes_through(nest, address, walk->first, walk->step);
    int64_t n_blocks = (walk->n + walk->step - 1) / walk->step;
    return walk->adds_up && n == n_blocks && goes_through(nest, address, walk->first / walk->step, 1);
}

/* Elements of all loops but the first; 0: not known. A GPU tells what is shared out by the iteration of an only loop. */
static int64_t n_inner(const dt_plan *plan, const dt_nest *nest) {
    int64_t n = 1;
    for (int l = 1; l < nest->n_loops; l++) n *= dt_dim_is_symbol(nest->loops[l].extent) || plan->batched ? 0 : nest->loops[l].extent;
    return n;
}

/* Element by element, all of a tensor, or as many elements at a time as are of a row; or in blocks, as split_reductions makes them, all that are
 * whole or what is left. */
static bool walks(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_address *address, walk *found) {
    bool adds_up = nest->n_reductions > 0;
    int64_t n = n_elements(plan, buffer_of(kernel, address)), extent = nest->loops[0].extent, block = dt_share_block(n);
    int64_t step = adds_up ? block : n_inner(plan, nest);
    *found = (walk){.n = n, .step = step, .adds_up = adds_up, .first = address->offset, .family_buffer = -1};
    if (n < (adds_up ? DT_SHARE_MOST_BLOCK + 1 : DT_SHARE_LEAST)) return false;
    if (!adds_up) return step > 0 && extent * step == n && goes_through(nest, address, 0, step);
    if (nest->n_loops != 2 || !nest->loops[1].reduced || found->first % block != 0) return false;
    bool is_rest = extent == 1 && found->first + nest->loops[1].extent == n;
    return (is_rest || nest->loops[1].extent == block) && goes_through(nest, address, found->first, block);
}

/* Of a nest that can be shared out; its stores decide, then its loads, for what it adds up is only read. What is laid out for a layer is laid out by
 * everybody. */
static walk walk_of(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    walk found = {0};
    bool all = kernel->divided && kernel->layer == 0 && !nest->in_rows && nest->algorithm == DT_ALGORITHM_LOOPS && nest->n_loops > 0 &&
               !nest->loops[0].reduced;
    if (!all || (nest->part_iterations == 0 && nest->loops[0].extent != 1) || dt_nest_has_check(nest)) return (walk){0};
    if (nest->n_reductions == 0) {
        all = nest->n_stores > 0 && walks(plan, kernel, nest, &nest->stores[0].address, &found);
    } else {
        all = false;
        for (int i = 0; i < nest->n_instructions && !all; i++)
            all = nest->instructions[i].kind == DT_INSTRUCTION_LOAD && walks(plan, kernel, nest, &nest->instructions[i].address, &found);
    }
    for (int s = 0; s < nest->n_stores && all; s++)
        all = !nest->stores[s].accumulate && is_along(plan, kernel, nest, &found, &nest->stores[s].address);
    return all ? found : (walk){0};
}

static bool is_slot(const dt_module *module, const dt_plan *plan, int buffer) {
    const dt_buffer *it = &plan->buffers[buffer];
    return it->space == DT_MEMORY_VARIABLE && module->variables.items[it->variable].kind == DT_VARIABLE_SLOT;
}

/* ---- every touch of every buffer ---- */

typedef struct touch {
    int kernel, nest, buffer;
    bool stores, along;
} touch;

typedef DT_LIST(touch) touches;

static void add_touch(const sharing *s, touches *all, int k, int n, const dt_address *address, bool stores) {
    const dt_kernel_function *kernel = &s->plan->kernels[k];
    bool along = is_along(s->plan, kernel, &kernel->nests[n], &s->walks[k][n], address);
    dt_list_push(s->arena, all, ((touch){k, n, buffer_of(kernel, address), stores, along}));
}

static touches all_touches(const sharing *s) {
    touches all = {0};
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) {
            const dt_nest *nest = &s->plan->kernels[k].nests[n];
            for (int i = 0; i < nest->n_instructions; i++)
                if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) add_touch(s, &all, k, n, &nest->instructions[i].address, false);
            for (int t = 0; t < nest->n_stores; t++) add_touch(s, &all, k, n, &nest->stores[t].address, true);
        }
    return all;
}

/* ---- families ---- */

static int family_of(const sharing *s, int buffer) {
    while (s->parents[buffer] != buffer) buffer = s->parents[buffer];
    return buffer;
}

static void join(const sharing *s, int a, int b) { s->parents[family_of(s, a)] = family_of(s, b); }

/* Whether a touch makes a nest one of the buffer's family. Reading a parameter or a state does not while examples are still to be gone through:
 * workers have it whole, and would wait for what servers make of it. A model in shards has none. */
static bool ties(const sharing *s, const touch *one) {
    bool is_kept = s->plan->buffers[one->buffer].space == DT_MEMORY_VARIABLE && !is_slot(s->module, s->plan, one->buffer);
    if (!one->along || !s->written[one->buffer]) return false;
    return one->stores || !is_kept || !s->early[one->kernel] || s->module->n_shards > 1;
}

static void find_early(sharing *s) {
    bool any = false;
    s->early = DT_NEW_ARRAY(s->arena, bool, s->plan->n_kernels);
    for (int g = s->plan->n_segments; g-- > 0;) {
        const dt_segment *segment = &s->plan->segments[g];
        any |= segment->n_replica_kernels > 0;
        for (int c = 0; c < segment->n_collectives; c++) any |= segment->collectives[c].kind != DT_COLLECTIVE_SHARD_REDUCE;
        for (int i = 0; i < segment->n_device_kernels; i++) s->early[segment->device_kernels[i]] = any;
    }
}

/* Nests of one tree of buffers are one family; early: these alone. */
static void tie(const sharing *s, const touches *all, bool early) {
    for (size_t t = 0; t < all->n; t++) {
        const touch *one = &all->items[t];
        walk *of = &s->walks[one->kernel][one->nest];
        if (!ties(s, one) || (early && !s->early[one->kernel])) continue;
        if (of->family_buffer >= 0) join(s, one->buffer, of->family_buffer);
        of->family_buffer = one->buffer;
    }
}

/* A family of each buffer; a variable's buffers are one. */
static void part_buffers(const sharing *s) {
    int *seen = DT_NEW_ARRAY(s->arena, int, s->module->variables.n); /* a buffer of the variable, counted from 1 */
    for (int b = 0; b < s->plan->n_buffers; b++) s->parents[b] = b;
    for (int b = 0; b < s->plan->n_buffers; b++) {
        if (s->plan->buffers[b].space != DT_MEMORY_VARIABLE) continue;
        int *other = &seen[s->plan->buffers[b].variable];
        if (*other > 0) join(s, *other - 1, b);
        *other = b + 1;
    }
}

/* The family of the buffer, or of what it is a view of. */
static int family_seen(const sharing *s, int buffer) {
    while (s->plan->buffers[buffer].view != NULL) buffer = s->plan->buffers[buffer].view->of;
    return family_of(s, buffer);
}

/* awaited[n_kernels][n_nests]: early nests that make what examples are gone through with, or what such nests take. */
static bool **find_awaited(const sharing *s, const touches *all) {
    bool **awaited = DT_NEW_ARRAY(s->arena, bool *, s->plan->n_kernels), *is_read = DT_NEW_ARRAY(s->arena, bool, s->plan->n_buffers), found = true;
    for (int k = 0; k < s->plan->n_kernels; k++) {
        awaited[k] = DT_NEW_ARRAY(s->arena, bool, s->plan->kernels[k].n_nests);
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) awaited[k][n] = !s->plan->kernels[k].once;
    }
    while (found) {
        found = false;
        for (size_t t = 0; t < all->n; t++) {
            const touch *one = &all->items[t];
            bool *wanted = one->stores ? &awaited[one->kernel][one->nest] : &is_read[family_seen(s, one->buffer)];
            bool wants = one->stores ? s->early[one->kernel] && is_read[family_seen(s, one->buffer)] : awaited[one->kernel][one->nest];
            found |= wants && !*wanted;
            *wanted |= wants;
        }
    }
    return awaited;
}

/* What examples wait for, as the statistics of a batch, each process computes alike, whatever an update takes of it later. But not all processes have
 * slots: an update that examples wait for is shared out. */
static void leave_out_awaited(const sharing *s, const touches *all) {
    bool *has_slots = DT_NEW_ARRAY(s->arena, bool, s->plan->n_buffers);
    part_buffers(s);
    bool **awaited = find_awaited(s, all);
    tie(s, all, true);
    for (size_t t = 0; t < all->n; t++) {
        const touch *one = &all->items[t];
        if (s->early[one->kernel] && one->along && is_slot(s->module, s->plan, one->buffer)) has_slots[family_of(s, one->buffer)] = true;
    }
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) {
            walk *of = &s->walks[k][n];
            bool is_update = of->family_buffer >= 0 && has_slots[family_of(s, of->family_buffer)];
            if (awaited[k][n] && !is_update) of->n = 0;
            of->family_buffer = -1;
        }
}

static void find_families(sharing *s) {
    dt_plan *plan = s->plan;
    s->walks = DT_NEW_ARRAY(s->arena, walk *, plan->n_kernels);
    s->parents = DT_NEW_ARRAY(s->arena, int, plan->n_buffers);
    s->written = DT_NEW_ARRAY(s->arena, bool, plan->n_buffers);
    for (int k = 0; k < plan->n_kernels; k++) {
        s->walks[k] = DT_NEW_ARRAY(s->arena, walk, plan->kernels[k].n_nests);
        for (int n = 0; n < plan->kernels[k].n_nests; n++) s->walks[k][n] = walk_of(plan, &plan->kernels[k], &plan->kernels[k].nests[n]);
    }
    part_buffers(s);
    find_early(s);
    touches all = all_touches(s);
    for (size_t t = 0; t < all.n; t++)
        if (all.items[t].stores || is_slot(s->module, s->plan, all.items[t].buffer)) s->written[family_of(s, all.items[t].buffer)] = true;
    for (int b = 0; b < plan->n_buffers; b++) s->written[b] = s->written[family_of(s, b)];
    for (int g = 0; g < plan->n_segments; g++)
        for (int c = 0; c < plan->segments[g].n_collectives; c++) s->written[plan->segments[g].collectives[c].target] = true;
    leave_out_awaited(s, &all);
    part_buffers(s);
    all = all_touches(s);
    tie(s, &all, false);
}

/* ---- variables ---- */

/* Of one shard, where it is split. */
static int64_t elements_held(const dt_module *module, const dt_variable *variable) {
    int64_t all = dt_shape_elements(variable->shape, 1, 1);
    if (module->n_shards == 1 || variable->shard_axis < 0) return all;
    int64_t extent = variable->shape.dims[variable->shard_axis];
    return all / extent * dt_shard_extent(extent, variable->shard_groups, module->n_shards);
}

/* Of the module: which variables can be shared out, and with which others they are cut alike. */
typedef struct variables {
    bool *can_share; /* [variables] */
    int *parents;    /* the same: a forest */
    int64_t *unit;   /* [variables] of the family: elements that none divides which goes through a tensor that is cut alike */
} variables;

static int family_of_variable(const variables *all, int v) {
    while (all->parents[v] != v) v = all->parents[v];
    return v;
}

/* Whether the buffer is a variable that is shared out where the plan's function runs. */
static bool shares(const sharing *s, const variables *all, int buffer) {
    const dt_buffer *it = &s->plan->buffers[buffer];
    return it->space == DT_MEMORY_VARIABLE && !s->is_drawn_whole[it->variable] && all->can_share[it->variable];
}

static void find_drawn_whole(sharing *s) {
    touches every = all_touches(s);
    s->is_drawn_whole = DT_NEW_ARRAY(s->arena, bool, s->module->variables.n);
    for (size_t t = 0; t < every.n && s->plan->role == DT_ROLE_INIT; t++) {
        const dt_buffer *buffer = &s->plan->buffers[every.items[t].buffer];
        if (buffer->space != DT_MEMORY_VARIABLE || is_slot(s->module, s->plan, every.items[t].buffer)) continue;
        if (!every.items[t].along) s->is_drawn_whole[buffer->variable] = true;
    }
}

/* A slot that is touched in another way. */
static void rule_out_slots(const sharing *s, const variables *all) {
    touches every = all_touches(s);
    for (size_t t = 0; t < every.n; t++)
        if (is_slot(s->module, s->plan, every.items[t].buffer) && !every.items[t].along)
            all->can_share[s->plan->buffers[every.items[t].buffer].variable] = false;
    for (int r = 0; r < s->plan->n_results; r++)
        if (is_slot(s->module, s->plan, s->plan->results[r].buffer)) all->can_share[s->plan->buffers[s->plan->results[r].buffer].variable] = false;
}

/* needed[n_kernels]: what servers run, if they share out the families of variables that can be. */
static void find_needed(const sharing *s, const variables *all, bool *needed) {
    bool *of_variables = DT_NEW_ARRAY(s->arena, bool, s->plan->n_buffers), *shared = DT_NEW_ARRAY(s->arena, bool, s->plan->n_kernels);
    for (int b = 0; b < s->plan->n_buffers; b++)
        if (shares(s, all, b)) of_variables[family_of(s, b)] = true;
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) {
            int buffer = s->walks[k][n].family_buffer;
            if (buffer >= 0 && of_variables[family_of(s, buffer)]) shared[k] = true;
        }
    dt_owners_find_kernels(s->arena, s->plan, shared, needed);
}

/* early[n_buffers]: the families that have early nests, and no slots. Workers, who can run these, would wait for what servers write, in mid-step. */
static bool *find_early_families(const sharing *s, const variables *all) {
    bool *early = DT_NEW_ARRAY(s->arena, bool, s->plan->n_buffers);
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++)
            if (s->early[k] && s->walks[k][n].family_buffer >= 0) early[family_of(s, s->walks[k][n].family_buffer)] = true;
    for (int b = 0; b < s->plan->n_buffers; b++)
        if (is_slot(s->module, s->plan, b) && shares(s, all, b)) early[family_of(s, b)] = false;
    return early;
}

/* A parameter or a state that a server would touch in another way, in a step, or gather before it has the worker's gradients. */
static void rule_out_parameters(const sharing *s, const variables *all) {
    bool *needed = DT_NEW_ARRAY(s->arena, bool, s->plan->n_kernels), *early = find_early_families(s, all);
    touches every = all_touches(s);
    find_needed(s, all, needed);
    for (size_t t = 0; t < every.n; t++) {
        const touch *one = &every.items[t];
        int whose = s->walks[one->kernel][one->nest].family_buffer;
        bool is_own = one->along && whose >= 0 && family_of(s, whose) == family_of(s, one->buffer);
        if (needed[one->kernel] && !is_own && shares(s, all, one->buffer) && !is_slot(s->module, s->plan, one->buffer))
            all->can_share[s->plan->buffers[one->buffer].variable] = false;
    }
    for (int b = 0; b < s->plan->n_buffers; b++) {
        bool is_wanted_early = early[family_of(s, b)] && !is_slot(s->module, s->plan, b);
        if ((s->plan->buffers[b].view != NULL || is_wanted_early) && shares(s, all, b)) all->can_share[s->plan->buffers[b].variable] = false;
    }
    for (int r = 0; r < s->plan->n_results; r++)
        if (shares(s, all, s->plan->results[r].buffer)) all->can_share[s->plan->buffers[s->plan->results[r].buffer].variable] = false;
}

static void join_variables(const sharing *s, const variables *all) {
    int *seen = DT_NEW_ARRAY(s->arena, int, s->plan->n_buffers); /* of a family: a variable's buffer, counted from 1 */
    for (int b = 0; b < s->plan->n_buffers; b++) {
        if (!shares(s, all, b)) continue;
        int *other = &seen[family_of(s, b)];
        if (*other > 0)
            all->parents[family_of_variable(all, s->plan->buffers[b].variable)] = family_of_variable(all, s->plan->buffers[*other - 1].variable);
        *other = b + 1;
    }
}

/* The least common multiple. */
static int64_t multiple_of(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y > 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static void note_units(const sharing *s, const variables *all) {
    int64_t *unit = DT_NEW_ARRAY(s->arena, int64_t, s->plan->n_buffers); /* of the plan's family */
    for (int b = 0; b < s->plan->n_buffers; b++) unit[b] = DT_SHARE_LINE;
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) {
            const walk *walk = &s->walks[k][n];
            if (walk->n == 0 || walk->family_buffer < 0) continue;
            int64_t *of_family = &unit[family_of(s, walk->family_buffer)];
            *of_family = multiple_of(*of_family, walk->step);
        }
    for (int b = 0; b < s->plan->n_buffers; b++) {
        if (!shares(s, all, b)) continue;
        int64_t *of_variables = &all->unit[family_of_variable(all, s->plan->buffers[b].variable)];
        *of_variables = multiple_of(*of_variables, unit[family_of(s, b)]);
    }
}

/* Families take turns with their units. */
static const dt_share *shares_of_variables(dt_arena *arena, const dt_module *module, const variables *all) {
    int n = (int)module->variables.n;
    dt_share *made = DT_NEW_ARRAY(arena, dt_share, n);
    int64_t *turns = DT_NEW_ARRAY(arena, int64_t, n), n_units = 0;
    for (int v = 0; v < n; v++) turns[v] = -1;
    for (int v = 0; v < n; v++) {
        int family = family_of_variable(all, v);
        int64_t elements = elements_held(module, &module->variables.items[v]);
        int64_t unit = all->unit[family];
        if (!all->can_share[v]) continue;
        if (turns[family] < 0) {
            turns[family] = n_units;
            n_units += (elements + unit - 1) / unit;
        }
        made[v] = (dt_share){unit, turns[family]};
    }
    return made;
}

/* ---- what a plan says of it ---- */

/* How each family of the plan is cut that has a variable which is shared out. [n_buffers] of the family */
static dt_share *shares_of_families(const sharing *s, const variables *all, const dt_share *of_variables) {
    dt_share *made = DT_NEW_ARRAY(s->arena, dt_share, s->plan->n_buffers);
    for (int b = 0; b < s->plan->n_buffers; b++)
        if (shares(s, all, b)) made[family_of(s, b)] = of_variables[s->plan->buffers[b].variable];
    return made;
}

/* Whether anybody touches the buffer who is to have all of it: what combines shards of it too. [n_buffers] */
static bool *needed_whole(const sharing *s, const dt_share *of_variables) {
    bool *whole = DT_NEW_ARRAY(s->arena, bool, s->plan->n_buffers);
    touches all = all_touches(s);
    for (size_t t = 0; t < all.n; t++) {
        const dt_nest *nest = &s->plan->kernels[all.items[t].kernel].nests[all.items[t].nest];
        if (!all.items[t].along || nest->share.n_units == 0) whole[all.items[t].buffer] = true;
    }
    for (int r = 0; r < s->plan->n_results; r++) whole[s->plan->results[r].buffer] = true;
    for (int g = 0; g < s->plan->n_segments; g++)
        for (int c = 0; c < s->plan->segments[g].n_collectives; c++) whole[s->plan->segments[g].collectives[c].source] = true;
    for (int b = 0; b < s->plan->n_buffers; b++)
        if (s->plan->buffers[b].space == DT_MEMORY_VARIABLE)
            whole[b] = !is_slot(s->module, s->plan, b) || of_variables[s->plan->buffers[b].variable].unit == 0;
    return whole;
}

static void add_gather(const sharing *s, dt_kernel_function *kernel, int buffer, dt_share share) {
    dt_shared_buffer *gathers = DT_NEW_ARRAY(s->arena, dt_shared_buffer, kernel->n_gathers + 1);
    for (int g = 0; g < kernel->n_gathers; g++) gathers[g] = kernel->gathers[g];
    for (int g = 0; g < kernel->n_gathers; g++)
        if (gathers[g].buffer == buffer) return;
    gathers[kernel->n_gathers++] = (dt_shared_buffer){buffer, share};
    kernel->gathers = gathers;
}

static void share_nests(const sharing *s, const dt_share *of_families) {
    for (int k = 0; k < s->plan->n_kernels; k++)
        for (int n = 0; n < s->plan->kernels[k].n_nests; n++) {
            const walk *walk = &s->walks[k][n];
            if (walk->n == 0 || walk->family_buffer < 0) continue;
            dt_share share = of_families[family_of(s, walk->family_buffer)];
            if (share.unit == 0) continue;
            s->plan->kernels[k].nests[n].share = (dt_nest_share){.n_units = (walk->n + share.unit - 1) / share.unit,
                                                                 .turn = share.turn,
                                                                 .first_unit = walk->first / share.unit,
                                                                 .unit_iterations = share.unit / walk->step};
        }
}

/* What the nests that are shared out write, and others need whole; and what of a gradient each process needs. */
static void share_exchanges(const sharing *s, const dt_share *of_families, const bool *whole) {
    touches all = all_touches(s);
    for (size_t t = 0; t < all.n; t++) {
        const touch *one = &all.items[t];
        dt_kernel_function *kernel = &s->plan->kernels[one->kernel];
        dt_share share = of_families[family_of(s, one->buffer)];
        if (!one->along || !one->stores || kernel->nests[one->nest].share.n_units == 0 || !whole[one->buffer]) continue;
        const walk *walk = &s->walks[one->kernel][one->nest];
        if (n_elements(s->plan, one->buffer) != walk->n) share.unit /= walk->step; /* a sum of each block */
        add_gather(s, kernel, one->buffer, share);
    }
    for (int g = 0; g < s->plan->n_segments; g++)
        for (int c = 0; c < s->plan->segments[g].n_collectives; c++) {
            dt_collective *collective = &s->plan->segments[g].collectives[c];
            if (collective->kind == DT_COLLECTIVE_ALL_REDUCE && !whole[collective->target])
                collective->share = of_families[family_of(s, collective->target)];
        }
}

/* Kernels that servers do without. */
static void mark_kernels(const sharing *s, const variables *all) {
    bool *needed = DT_NEW_ARRAY(s->arena, bool, s->plan->n_kernels);
    find_needed(s, all, needed);
    for (int k = 0; k < s->plan->n_kernels; k++) s->plan->kernels[k].for_examples = !needed[k];
}

static void share_plan(const sharing *s, const variables *all, const dt_share *of_variables) {
    const dt_share *of_families = shares_of_families(s, all, of_variables);
    share_nests(s, of_families);
    share_exchanges(s, of_families, needed_whole(s, of_variables));
    mark_kernels(s, all);
}

/* ---- the pass ---- */

static bool has_variables(const dt_plan *plan) { return plan->role == DT_ROLE_INIT || dt_function_role_has_rows(plan->role); }

static variables all_variables(dt_arena *arena, const dt_module *module) {
    int n = (int)module->variables.n;
    variables all = {DT_NEW_ARRAY(arena, bool, n), DT_NEW_ARRAY(arena, int, n), DT_NEW_ARRAY(arena, int64_t, n)};
    for (int v = 0; v < n; v++) {
        const dt_variable *variable = &module->variables.items[v];
        bool is_kept = variable->kind != DT_VARIABLE_LAUNCH;
        all.can_share[v] = is_kept && elements_held(module, variable) >= DT_SHARE_LEAST;
        all.parents[v] = v;
        all.unit[v] = DT_SHARE_LINE;
    }
    return all;
}

dt_status *dt_pass_share_updates(dt_compilation *compilation) {
    dt_arena *arena = compilation->arena;
    const dt_module *module = compilation->module;
    sharing *plans = DT_NEW_ARRAY(arena, sharing, compilation->n_plans);
    variables all = all_variables(arena, module);
    int n = 0;
    for (int p = 0; p < compilation->n_plans; p++) {
        if (!has_variables(compilation->plans[p])) continue;
        plans[n] = (sharing){.arena = arena, .module = module, .plan = compilation->plans[p]};
        find_families(&plans[n]);
        find_drawn_whole(&plans[n]);
        rule_out_slots(&plans[n++], &all);
    }
    for (int p = 0; p < n; p++) rule_out_parameters(&plans[p], &all);
    for (int p = 0; p < n; p++) join_variables(&plans[p], &all);
    for (int p = 0; p < n; p++) note_units(&plans[p], &all);
    compilation->variable_shares = shares_of_variables(arena, module, &all);
    for (int p = 0; p < n; p++) share_plan(&plans[p], &all, compilation->variable_shares);
    return NULL;
}
