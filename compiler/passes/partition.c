/* partition: gives every value a distribution and inserts the collectives.
 *
 * In:  a verified graph over the global batch.      Out: the same program as one replica runs it.
 *
 * Distribution is a type, not a strategy: split(d), replicated or partial(op). It is read off the loops of each value (ir/loops.h): an outer loop
 * over B makes the result split at that dimension, a reduced one makes it partial. An operand that is split must be read by exactly that loop; any
 * other is converted: partial → replicated is all_reduce, split → replicated all_gather, which costs memory and is reported. Inputs are split(0),
 * variables replicated; data parallelism, the scaling of the loss and batch normalisation over all replicas are what comes out. There is no code for
 * them.
 *
 * After it DT_BATCH means the valid rows of one replica, DT_GATHERED the valid rows of all. */
#include "compiler/passes/passes.h"

#include <string.h>

typedef struct partition {
    dt_compilation *compilation;
    dt_function *function;
    dt_builder builder;
    int n;               /* ids below this one are the function's own, not ours */
    dt_value **reduced;  /* [n] all_reduce of a partial value, once made */
    dt_value **gathered; /* [n] all_gather of a split value, once made */
    int *n_uses;         /* [n] */
} partition;

static const dt_distribution replicated = {.kind = DT_REPLICATED};
static const dt_distribution unknown = {.kind = DT_UNKNOWN};

static dt_distribution split(int axis) { return (dt_distribution){.kind = DT_SPLIT, .axis = axis}; }
static dt_distribution partial(dt_combiner combiner) { return (dt_distribution){.kind = DT_PARTIAL, .combiner = combiner}; }

/* ---- conversions ---- */

static void warn_of_gather(partition *p, const dt_value *value, const dt_value *user) {
    dt_text *warnings = &p->compilation->warnings;
    const dt_module *module = p->function->module;
    dt_location at = user->n_locations ? user->locations[0] : (dt_location){0};
    if (user->n_locations) dt_text_format(warnings, "%s:%d:%d: ", module->files.items[at.file], at.line, at.column);
    dt_text_format(warnings, "warning: %s needs every row of ", user->op->name);
    dt_shape_print(warnings, value->dtype, value->shape);
    dt_text_format(warnings, " on every replica: it is gathered, %lld bytes a row, each step\n",
                   (long long)(dt_shape_elements_per_row(value->shape) * (int64_t)dt_dtype_bytes(value->dtype)));
}

/* `value` as every replica can use it: itself, or the collective that makes it so, placed right behind it and made once. */
static dt_status *to_replicated(partition *p, dt_value *value, const dt_value *user, dt_value **result) {
    *result = value;
    if (value->distribution.kind == DT_REPLICATED) return NULL;
    bool is_partial = value->distribution.kind == DT_PARTIAL;
    dt_value **made = &(is_partial ? p->reduced : p->gathered)[value->id];
    if (*made == NULL) {
        dt_value *before = value->next;
        while (before && dt_value_is(before, "input")) before = before->next; /* inputs stand first */
        dt_builder builder = {.function = p->function, .before = before, .locations = value->locations, .n_locations = value->n_locations};
        if (is_partial) {
            DT_TRY(dt_build_text(&builder, made, "all_reduce", &value, 1, "kind=\"%s\"", dt_combiner_name(value->distribution.combiner)));
        } else {
            warn_of_gather(p, value, user);
            DT_TRY(dt_build_text(&builder, made, "all_gather", &value, 1, "axis=%d", value->distribution.axis));
        }
        (*made)->distribution = replicated;
    }
    *result = *made;
    return NULL;
}

/* ---- reading distributions off loops ---- */

/* Which loop walks dimension `dim` of an operand, alone and from its start; -1 when none does. */
static int loop_of_dimension(const dt_loops *loops, const dt_access *access, int dim) {
    const dt_index *index = &access->dims[dim];
    if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return -1;
    int found = -1;
    for (int l = 0; l < loops->n_loops; l++) {
        if (index->coefficients[l] == 0) continue;
        if (index->coefficients[l] != 1 || found >= 0) return -1;
        found = l;
    }
    return found;
}

/* The loop that the replicas share out: the first outer one over B, else a reduced one; -1 when no loop walks B. */
static int shared_loop(const dt_loops *loops) {
    for (int l = 0; l < loops->n_loops; l++)
        if (loops->extents[l] == DT_BATCH) return l;
    return -1;
}

static bool can_be_partial(dt_combiner combiner) { return combiner == DT_COMBINE_SUM || combiner == DT_COMBINE_MAX || combiner == DT_COMBINE_MIN; }

/* A scatter walks updates, not its result: over B it adds into a result that every replica holds a part of. */
static dt_distribution distribution_from_loops(const dt_value *value, const dt_loops *loops, int shared) {
    if (shared < 0) return replicated;
    if (loops->result) {
        for (int d = 0; d < value->shape.rank; d++)
            if (loop_of_dimension(loops, loops->result, d) == shared) return split(d);
        return partial(DT_COMBINE_SUM);
    }
    return shared < loops->n_outer ? split(shared) : partial(loops->combiner);
}

static bool is_partial_sum(const partition *p, const dt_value *value) {
    bool shared = value->id < p->n && p->n_uses[value->id] > 1; /* another user may need the whole: then one all_reduce serves both */
    return value->distribution.kind == DT_PARTIAL && value->distribution.combiner == DT_COMBINE_SUM && !shared;
}

/* May parts be converted before they are added? Where no bits are lost: parts of integers may be as well, parts that are cut to integers may not. */
static bool widens(dt_dtype from, dt_dtype to) {
    if (dt_dtype_is_float(from)) return dt_dtype_is_float(to) && dt_dtype_bytes(to) >= dt_dtype_bytes(from);
    return to == DT_F64 || (dt_dtype_kind(to) == 'i' && dt_dtype_bytes(to) >= dt_dtype_bytes(from) && dt_dtype_is_signed(to));
}

/* Does this linear value keep the partial sums of its operands? A sum keeps them when all its terms are partial, a product when one factor
 * is, a quotient when the dividend is; whatever has one operand and is linear does. Not where rows appear or the value grows: a sum must be
 * whole before rows use it, and is best combined while it is small. */
static bool keeps_partial(const partition *p, const dt_value *value) {
    if (!value->op->linear || value->n_operands == 0 || dt_shape_batch_axis(value->shape) >= 0) return false;
    int n_partial = 0, n_replicated = 0;
    for (int k = 0; k < value->n_operands; k++) {
        n_partial += is_partial_sum(p, value->operands[k]);
        n_replicated += value->operands[k]->distribution.kind == DT_REPLICATED;
    }
    if (n_partial == 0) return false;
    if (value->op->class == DT_CLASS_MAP && value->dtype != value->operands[0]->dtype && !widens(value->operands[0]->dtype, value->dtype)) return false;
    if (value->n_operands == 1) return dt_shape_elements_per_row(value->shape) <= dt_shape_elements_per_row(value->operands[0]->shape);
    if (value->op->class != DT_CLASS_MAP) return false;
    const dt_formula *body = dt_value_loops(p->function->module->arena, value)->body;
    if (body->kind != DT_FORMULA_SCALAR) return false;
    if (body->scalar == DT_SCALAR_MULTIPLY) return n_partial == 1 && n_replicated == value->n_operands - 1;
    if (body->scalar == DT_SCALAR_DIVIDE) return is_partial_sum(p, value->operands[0]) && value->operands[1]->distribution.kind == DT_REPLICATED;
    return n_partial == value->n_operands;
}

/* ---- symbols: a value whose rows were gathered has DT_GATHERED where the program says B ---- */

static bool has_dimension(dt_shape shape, int64_t dim) {
    for (int d = 0; d < shape.rank; d++)
        if (shape.dims[d] == dim) return true;
    return false;
}

static bool any_gathered(const dt_value *value) {
    for (int k = 0; k < value->n_operands; k++)
        if (has_dimension(value->operands[k]->shape, DT_GATHERED)) return true;
    return false;
}

/* Rewrites the B's of shape attributes to DT_GATHERED: all of them, or all but the first of each. */
static void gather_in_attributes(dt_arena *arena, dt_value *value, const dt_attribute *original, bool keep_first) {
    for (int a = 0; a < value->op->n_attributes; a++) {
        if (value->op->attributes[a].kind != DT_ATTR_INTS || original[a].i == 0) continue;
        size_t n = (size_t)original[a].i;
        int64_t *ints = dt_arena_copy(arena, original[a].ints, n * sizeof *ints);
        bool keep = keep_first;
        for (size_t i = 0; i < n; i++) {
            if (ints[i] != DT_BATCH) continue;
            if (!keep) ints[i] = DT_GATHERED;
            keep = false;
        }
        value->attributes[a].ints = ints;
    }
}

/* Shape and symbols of a value whose operands may have been gathered. Of several B's the first stays the replica's own rows where the operands
 * allow it; where they do not, none does. */
static dt_status *infer_again(partition *p, dt_value *value) {
    int n_batch = 0;
    for (int d = 0; d < value->shape.rank; d++) n_batch += value->shape.dims[d] == DT_BATCH;
    if (!any_gathered(value) && n_batch < 2) return NULL;
    dt_arena *arena = p->function->module->arena;
    const dt_attribute *original = dt_arena_copy(arena, value->attributes, (size_t)value->op->n_attributes * sizeof *original);
    dt_status *status = NULL;
    for (int keep_first = 1; keep_first >= 0; keep_first--) {
        dt_status_free(status);
        gather_in_attributes(arena, value, original, keep_first);
        status =
            dt_op_infer(arena, p->function->module, value->op, value->operands, value->n_operands, value->attributes, &value->shape, &value->dtype);
        if (status == NULL) return NULL;
    }
    return status;
}

/* Elementwise operands must agree: where one came gathered, its split neighbours are gathered too. */
static dt_status *agree_on_rows(partition *p, dt_value *value) {
    if (value->op->class != DT_CLASS_MAP) return NULL;
    for (int d = 0; d < value->shape.rank; d++) {
        bool any = false;
        for (int k = 0; k < value->n_operands; k++) any = any || value->operands[k]->shape.dims[d] == DT_GATHERED;
        for (int k = 0; any && k < value->n_operands; k++)
            if (value->operands[k]->shape.dims[d] == DT_BATCH) DT_TRY(to_replicated(p, value->operands[k], value, &value->operands[k]));
    }
    return NULL;
}

/* The shape with the rows that the operands have by now. Operands that must agree in them and do not are gathered: those that hold a replica's rows
 * only, then all. */
static dt_status *infer_or_gather(partition *p, dt_value *value) {
    dt_status *status = infer_again(p, value);
    for (int all = 0; all < 2 && status != NULL; all++) {
        dt_status_free(status);
        for (int k = 0; k < value->n_operands; k++)
            if (all || !has_dimension(value->operands[k]->shape, DT_GATHERED)) DT_TRY(to_replicated(p, value->operands[k], value, &value->operands[k]));
        status = infer_again(p, value);
    }
    return status;
}

/* ---- one value ---- */

/* Gathers each split operand that the shared loop does not walk. */
static dt_status *convert_operands(partition *p, dt_value *value, const dt_loops *loops, int shared) {
    for (int k = 0; k < value->n_operands; k++) {
        dt_value *operand = value->operands[k];
        if (operand->distribution.kind != DT_SPLIT) continue;
        bool walked = shared >= 0 && loop_of_dimension(loops, &loops->operands[k], operand->distribution.axis) == shared;
        if (!walked) DT_TRY(to_replicated(p, operand, value, &value->operands[k]));
    }
    return NULL;
}

/* reshape moves nothing: it stays split while B stays its first dimension. */
static dt_status *distribute_alias(partition *p, dt_value *value) {
    dt_value *operand = value->operands[0];
    bool stays = operand->distribution.kind == DT_SPLIT && operand->distribution.axis == 0 && dt_shape_batch_axis(value->shape) == 0;
    if (operand->distribution.kind == DT_SPLIT && !stays) {
        DT_TRY(to_replicated(p, operand, value, &value->operands[0]));
        DT_TRY(infer_again(p, value));
    }
    value->distribution = stays ? split(0) : keeps_partial(p, value) ? operand->distribution : replicated;
    if (value->distribution.kind == DT_REPLICATED) return to_replicated(p, value->operands[0], value, &value->operands[0]);
    return NULL;
}

static dt_status *distribute_by_loops(partition *p, dt_value *value) {
    dt_arena *arena = p->function->module->arena;
    if (keeps_partial(p, value)) {
        value->distribution = partial(DT_COMBINE_SUM);
        return NULL;
    }
    for (int k = 0; k < value->n_operands; k++)
        if (value->operands[k]->distribution.kind == DT_PARTIAL) DT_TRY(to_replicated(p, value->operands[k], value, &value->operands[k]));
    DT_TRY(agree_on_rows(p, value));
    if (any_gathered(value)) DT_TRY(infer_or_gather(p, value));
    dt_loops *loops = dt_value_loops(arena, value);
    int shared = shared_loop(loops);
    if (shared >= loops->n_outer && !can_be_partial(loops->combiner)) shared = -1;
    DT_TRY(convert_operands(p, value, loops, shared));
    DT_TRY(infer_or_gather(p, value));
    loops = dt_value_loops(arena, value);
    value->distribution = distribution_from_loops(value, loops, shared_loop(loops));
    return NULL;
}

static dt_status *distribute(partition *p, dt_value *value) {
    switch (value->op->class) {
    case DT_CLASS_STATE:
        for (int k = 0; k < value->n_operands; k++) DT_TRY(to_replicated(p, value->operands[k], value, &value->operands[k]));
        value->distribution = replicated;
        return NULL;
    case DT_CLASS_COLLECTIVE: return NULL;
    case DT_CLASS_SOURCE:
    case DT_CLASS_RANDOM:
        DT_TRY(infer_again(p, value));
        value->distribution = has_dimension(value->shape, DT_BATCH) ? split(dt_shape_batch_axis(value->shape)) : replicated;
        return NULL;
    case DT_CLASS_CONTROL: return dt_error(DT_INTERNAL, "%s must be resolved before partition", value->op->name);
    default: break;
    }
    if (dt_value_loops(p->function->module->arena, value) == NULL) return distribute_alias(p, value);
    return distribute_by_loops(p, value);
}

/* What leaves a step is whole: 0-d totals and anything without rows on every replica, the rest split by rows. */
static dt_status *distribute_results(partition *p) {
    for (size_t r = 0; r < p->function->results.n; r++) {
        dt_value **value = &p->function->results.items[r].value;
        bool rows = (*value)->distribution.kind == DT_SPLIT && (*value)->distribution.axis == 0;
        if (!rows) DT_TRY(to_replicated(p, *value, *value, value));
    }
    return NULL;
}

static dt_status *partition_function(dt_compilation *compilation, dt_function *function) {
    dt_arena *arena = function->module->arena;
    dt_function_renumber(function);
    int n = function->next_id;
    partition p = {.compilation = compilation,
                   .function = function,
                   .n = n,
                   .reduced = DT_NEW_ARRAY(arena, dt_value *, n),
                   .gathered = DT_NEW_ARRAY(arena, dt_value *, n),
                   .n_uses = DT_NEW_ARRAY(arena, int, n)};
    for (dt_value *value = function->first; value; value = value->next) {
        value->distribution = unknown;
        for (int k = 0; k < value->n_operands; k++) p.n_uses[value->operands[k]->id]++;
    }
    for (size_t r = 0; r < function->results.n; r++) p.n_uses[function->results.items[r].value->id]++;
    for (dt_value *value = function->first; value; value = value->next)
        if (value->id < n) DT_TRY(distribute(&p, value));
    DT_TRY(distribute_results(&p));
    dt_function_sweep(function);
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_pass_partition(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) DT_TRY(partition_function(compilation, compilation->module->functions.items[f]));
    return NULL;
}
